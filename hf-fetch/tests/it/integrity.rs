//! Bytes that are not the file's are never put under its name.

use hf_fetch::FetchError;
use misbehaving_hub::{Content, Fault};

use crate::harness::{Scene, noise};

const FILE: &str = "w.tensorbin";

fn files() -> Vec<(&'static str, Content)> {
    vec![(FILE, noise(40_000)), ("z.json", "{}".into())]
}

/// I1: the size is right, one byte is wrong.
#[tokio::test]
async fn a_flipped_byte_is_found_and_the_file_fetched_again() {
    let scene = Scene::new(files());
    scene.hub.fault(FILE, [Fault::Flip(1000)]);
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert_eq!(scene.hub.seen_for(FILE).len(), 2);
}

/// I1: and it does not go on for ever.
#[tokio::test]
async fn a_file_that_stays_wrong_fails_and_leaves_nothing() {
    let scene = Scene::new(files());
    scene.hub.always(FILE, Fault::Flip(39_999));
    let error = scene.fetch().await.unwrap_err();
    let FetchError::Digest {
        path,
        expected,
        found,
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(path.as_str(), FILE);
    assert_ne!(expected, found);
    scene.assert_nothing_named(FILE);
    assert_eq!(scene.hub.seen_for(FILE).len(), 3);
    // The next run, with the Hub mended, does not fetch what was good.
    scene.hub.behave();
    scene.hub.forget();
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert!(scene.hub.seen_for("z.json").is_empty());
}

/// I3: a login page with status 200.
#[tokio::test]
async fn a_login_page_is_no_model() {
    let scene = Scene::new(files());
    scene.hub.always(FILE, Fault::LoginPage);
    let error = scene.fetch().await.unwrap_err();
    let FetchError::WebPage {
        content_type,
        expected,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert!(content_type.contains("text/html"));
    assert_eq!(*expected, 40_000);
    assert!(error.to_string().contains("login page"));
    scene.assert_nothing_named(FILE);
}

#[tokio::test]
async fn a_wrong_length_is_refused_by_either_way_of_saying_it() {
    for fault in [
        Fault::ShorterBy(1),
        Fault::LongerBy(1),
        Fault::LongerBy(70_000),
        Fault::GzipUnsaid,
    ] {
        let scene = Scene::new(files());
        scene.hub.always(FILE, fault.clone());
        let error = scene.fetch().await.unwrap_err();
        assert!(
            matches!(
                error,
                FetchError::Protocol { .. } | FetchError::Digest { .. }
            ),
            "{fault:?}: {error}"
        );
        scene.assert_nothing_named(FILE);
    }
}

#[tokio::test]
async fn a_wrong_length_that_passes_is_survived() {
    for fault in [Fault::ShorterBy(17), Fault::LongerBy(1), Fault::GzipUnsaid] {
        let scene = Scene::new(files());
        scene.hub.fault(FILE, [fault]);
        scene.fetch().await.unwrap();
        scene.assert_whole(&files());
    }
}

#[tokio::test]
async fn an_encoding_that_was_not_asked_for_is_refused() {
    let scene = Scene::new(files());
    scene.hub.always(FILE, Fault::Gzip);
    let error = scene.fetch().await.unwrap_err();
    assert!(
        matches!(&error, FetchError::Protocol { reason, .. } if reason.contains("gzip")),
        "{error}"
    );
    scene.assert_nothing_named(FILE);
}

#[tokio::test]
async fn one_bad_file_does_not_cost_the_good_ones() {
    let scene = Scene::new(files());
    scene.hub.always(FILE, Fault::Status(404, None));
    assert!(matches!(
        scene.fetch().await,
        Err(FetchError::Status { status: 404, .. })
    ));
    assert!(!scene.snapshot().exists());
}
