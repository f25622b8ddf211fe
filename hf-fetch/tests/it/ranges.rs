//! Large files in parts: ranges kept, ignored, shifted, and files that change in between.

use std::time::Duration;

use hf_fetch::{FetchError, StallFloor};
use misbehaving_hub::{Content, Fault, Hub, Repository};

use crate::harness::{REPO, Scene, noise, owned};

const FILE: &str = "large.tensorbin";
const BYTES: usize = 100_000;

fn files() -> Vec<(&'static str, Content)> {
    vec![(FILE, noise(BYTES))]
}

/// A scene whose ranges are 16,384 bytes long: the file has seven.
fn scene() -> Scene {
    let mut scene = Scene::new(files());
    scene.options.range_bytes = 16_384;
    scene
}

/// I14: the ranged way ends like the plain one.
#[tokio::test]
async fn a_large_file_comes_in_ranges_and_ends_like_any_other() {
    let scene = scene();
    let fetched = scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert_eq!(fetched.received, BYTES as u64);
    let seen = scene.hub.seen_for(FILE);
    assert_eq!(seen.len(), 7);
    assert_eq!(seen[0].header("range"), Some("bytes=0-16383"));
    assert!(seen[0].header("if-range").is_none());
    assert!(
        seen[1..].iter().all(|s| s.header("if-range").is_some()),
        "all others are of the same file"
    );
    assert!(scene.parts().is_empty());
}

#[tokio::test]
async fn a_file_as_long_as_a_range_is_asked_for_plainly() {
    let mut scene = Scene::new(files());
    scene.options.range_bytes = BYTES as u64;
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert_eq!(scene.hub.seen_for(FILE).len(), 1);
    assert!(scene.hub.seen_for(FILE)[0].header("range").is_none());
}

#[tokio::test]
async fn a_server_without_ranges_sends_the_whole_file_once() {
    let scene = scene();
    scene.hub.always(FILE, Fault::NoRanges);
    let fetched = scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert_eq!(scene.hub.seen_for(FILE).len(), 1);
    assert_eq!(fetched.received, BYTES as u64);
}

#[tokio::test]
async fn a_200_in_the_middle_begins_the_file_anew() {
    let scene = scene();
    // The first range is kept, a later one is answered with the whole file.
    scene
        .hub
        .fault(FILE, [Fault::RangeTotal(BYTES as u64), Fault::NoRanges]);
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert!(scene.heard.count("FileRewound") >= 1);
}

#[tokio::test]
async fn an_entity_tag_that_changes_in_mid_file_begins_it_anew() {
    let scene = scene();
    scene.hub.fault(
        FILE,
        [
            Fault::RangeTotal(BYTES as u64),
            Fault::Tag("\"other\"".to_owned()),
        ],
    );
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
}

#[tokio::test]
async fn a_tag_that_differs_in_every_answer_ends_in_one_plain_stream() {
    let scene = scene();
    scene
        .hub
        .fault(FILE, (0..200).map(|n| Fault::Tag(format!("\"tag-{n}\""))));
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert!(
        scene
            .hub
            .seen_for(FILE)
            .last()
            .unwrap()
            .header("range")
            .is_none()
    );
}

/// A server that loses the end of the file again and again.
#[tokio::test]
async fn a_file_that_keeps_changing_is_given_up() {
    let scene = scene();
    let round = [Fault::RangeTotal(BYTES as u64), Fault::Unsatisfiable];
    scene.hub.fault(FILE, round.into_iter().cycle().take(40));
    let error = scene.fetch().await.unwrap_err();
    assert!(
        matches!(
            error,
            FetchError::Changed { .. } | FetchError::Protocol { .. }
        ),
        "{error}"
    );
    scene.assert_nothing_named(FILE);
}

#[tokio::test]
async fn weak_tags_and_no_tags_are_no_obstacle() {
    for fault in [Fault::NoTag, Fault::Tag("W/\"weak\"".to_owned())] {
        let scene = scene();
        scene.hub.always(FILE, fault.clone());
        scene.fetch().await.unwrap();
        scene.assert_whole(&files());
        assert!(
            scene
                .hub
                .seen_for(FILE)
                .iter()
                .all(|s| s.header("if-range").is_none()),
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn a_wrong_range_is_refused_and_asked_for_again() {
    let wrong = [
        Fault::RangeShifted(1),
        Fault::RangeTotal(BYTES as u64 + 1),
        Fault::RangeGarbled,
        Fault::ShorterBy(100),
        Fault::Unsatisfiable,
    ];
    for fault in wrong {
        let scene = scene();
        scene.hub.fault(FILE, [fault.clone(), fault.clone()]);
        scene
            .fetch()
            .await
            .unwrap_or_else(|e| panic!("{fault:?}: {e}"));
        scene.assert_whole(&files());
    }
    for fault in [
        Fault::RangeShifted(1),
        Fault::RangeTotal(7),
        Fault::RangeGarbled,
        Fault::Unsatisfiable,
    ] {
        let scene = scene();
        scene.hub.always(FILE, fault.clone());
        let error = scene.fetch().await.unwrap_err();
        assert!(
            matches!(error, FetchError::Protocol { .. }),
            "{fault:?}: {error}"
        );
        scene.assert_nothing_named(FILE);
    }
}

#[tokio::test]
async fn a_range_that_was_not_asked_for_is_refused() {
    let scene = Scene::new(files());
    scene.hub.always(FILE, Fault::UnaskedRange);
    assert!(matches!(
        scene.fetch().await,
        Err(FetchError::Protocol { .. })
    ));
    scene.assert_nothing_named(FILE);
}

#[tokio::test]
async fn a_wrong_byte_in_any_range_is_found() {
    for at in [0, 16_383, 16_384, 50_000, BYTES as u64 - 1] {
        let scene = scene();
        scene.hub.always(FILE, Fault::Flip(at));
        assert!(
            matches!(scene.fetch().await, Err(FetchError::Digest { .. })),
            "{at}"
        );
        scene.assert_nothing_named(FILE);
    }
}

#[tokio::test]
async fn a_connection_that_breaks_resumes_each_range_where_it_broke() {
    let scene = scene();
    scene.hub.fault(
        FILE,
        [
            Fault::CloseAfter(5_000),
            Fault::CloseAfter(3_000),
            Fault::CloseAfter(7_000),
        ],
    );
    let fetched = scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert!(
        fetched.received <= BYTES as u64 + 3 * 256,
        "{} bytes came",
        fetched.received
    );
    let ranges: Vec<_> = scene
        .hub
        .seen_for(FILE)
        .iter()
        .map(|s| s.header("range").unwrap().to_owned())
        .collect();
    assert!(
        ranges.contains(&"bytes=5000-16383".to_owned()),
        "{ranges:?}"
    );
}

/// I16: a connection that stays open and brings nothing.
#[tokio::test]
async fn a_stalled_range_is_cut_and_resumed() {
    let mut scene = scene();
    scene.hub_options.stall = StallFloor {
        window: Duration::from_millis(60),
        bytes: 100,
    };
    scene
        .hub
        .fault(FILE, [Fault::StallAfter(2_000), Fault::StallAfter(10)]);
    let fetched = scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert_eq!(fetched.received, BYTES as u64);
}

#[tokio::test]
async fn a_large_file_of_an_ordinary_repository_comes_in_ranges_too() {
    let mut scene = Scene::empty();
    scene.hub.put(Repository::new(
        REPO,
        misbehaving_hub::COMMIT,
        owned(files()),
    ));
    scene.options.range_bytes = 30_000;
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert_eq!(scene.hub.seen_for(FILE).len(), 4);
}

#[tokio::test]
async fn ranges_survive_redirects_to_another_server() {
    let scene = scene();
    let cdn = Hub::start();
    cdn.put(Repository::package(
        REPO,
        misbehaving_hub::COMMIT,
        owned(files()),
    ));
    scene.hub.always(FILE, Fault::RedirectTo(cdn.url()));
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert_eq!(cdn.seen_for(FILE).len(), 7);
    assert_eq!(cdn.seen_for(FILE)[0].header("range"), Some("bytes=0-16383"));
}
