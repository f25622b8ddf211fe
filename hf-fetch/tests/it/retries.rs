//! Failures that pass, and how long they are waited for.

use std::time::Duration;

use hf_fetch::{Endpoint, FetchError, StallFloor};
use misbehaving_hub::{Content, Fault};

use crate::harness::{Scene, noise};

const FILE: &str = "w.tensorbin";

fn files() -> Vec<(&'static str, Content)> {
    vec![(FILE, noise(9_000)), ("z.json", "{}".into())]
}

/// I13: 429 twice, then an answer.
#[tokio::test]
async fn too_many_requests_are_waited_out_as_long_as_the_server_asks() {
    let scene = Scene::new(files());
    let date = "Tue, 14 Nov 2023 22:13:50 GMT"; // 30 s after the clock of the scene.
    scene.hub.fault(
        FILE,
        [
            Fault::Status(429, Some("17".to_owned())),
            Fault::Status(503, Some(date.to_owned())),
        ],
    );
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert_eq!(
        scene.pauses(),
        [Duration::from_secs(17), Duration::from_secs(30)]
    );
}

/// I13: and the error names it.
#[tokio::test]
async fn a_storm_of_429_ends_in_an_error_that_names_it() {
    let scene = Scene::new(files());
    scene.hub.always(FILE, Fault::Status(429, None));
    let error = scene.fetch().await.unwrap_err();
    assert!(
        matches!(error, FetchError::Status { status: 429, .. }),
        "{error}"
    );
    assert!(
        error.to_string().contains("429 (too many requests)"),
        "{error}"
    );
    assert_eq!(scene.hub.seen_for(FILE).len(), 5);
    assert_eq!(scene.pauses().len(), 4);
    assert_eq!(scene.heard.count("Retrying"), 4);
    scene.assert_nothing_named(FILE);
}

#[tokio::test]
async fn an_absurd_retry_after_is_not_slept_through() {
    let scene = Scene::new(files());
    scene
        .hub
        .always(FILE, Fault::Status(503, Some("86400".to_owned())));
    assert!(matches!(
        scene.fetch().await,
        Err(FetchError::Status { status: 503, .. })
    ));
    assert!(scene.pauses().is_empty());
}

#[tokio::test]
async fn passing_statuses_are_tried_again_and_lasting_ones_are_not() {
    for status in [408, 429, 500, 502, 503, 504] {
        let scene = Scene::new(files());
        scene.hub.fault(
            FILE,
            [Fault::Status(status, None), Fault::Status(status, None)],
        );
        scene
            .fetch()
            .await
            .unwrap_or_else(|e| panic!("{status}: {e}"));
        scene.assert_whole(&files());
    }
    for status in [400, 401, 403, 404, 410, 451] {
        let scene = Scene::new(files());
        scene.hub.fault(FILE, [Fault::Status(status, None)]);
        let error = scene.fetch().await.unwrap_err();
        assert!(
            matches!(error, FetchError::Status { status: s, .. } if s == status),
            "{status}: {error}"
        );
        assert_eq!(scene.hub.seen_for(FILE).len(), 1, "{status}");
    }
}

#[tokio::test]
async fn the_revision_and_the_inventory_are_tried_again_too() {
    let scene = Scene::new(files());
    scene.hub.fault("revision:main", [Fault::Status(502, None)]);
    scene.hub.fault(
        "runtime-release.json",
        [Fault::Status(503, None), Fault::CloseAfter(3)],
    );
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
}

#[tokio::test]
async fn any_number_of_broken_connections_is_survived_while_there_is_progress() {
    let mut scene = Scene::new([(FILE, noise(300_000))]);
    scene.hub_options.retry.progress = 10_000;
    scene
        .hub
        .fault(FILE, (0..25).map(|_| Fault::CloseAfter(10_000)));
    let fetched = scene.fetch().await.unwrap();
    scene.assert_whole(&[(FILE, noise(300_000))]);
    assert_eq!(fetched.received, 300_000);
    assert_eq!(scene.hub.seen_for(FILE).len(), 26);
}

#[tokio::test]
async fn connections_that_bring_nothing_end_in_an_error_and_what_came_stays() {
    let scene = Scene::new(files());
    scene.hub.fault(FILE, [Fault::CloseAfter(4_000)]);
    scene.hub.always(FILE, Fault::CloseAfter(0));
    let error = scene.fetch().await.unwrap_err();
    assert!(matches!(error, FetchError::Connection { .. }), "{error}");
    scene.assert_nothing_named(FILE);
    scene.hub.behave();
    scene.hub.forget();
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert_eq!(
        scene.hub.seen_for(FILE)[0].header("range"),
        Some("bytes=4000-8999")
    );
}

/// I16: a byte now and then is no progress.
#[tokio::test]
async fn a_slow_drip_is_cut_at_the_stall_floor() {
    let mut scene = Scene::new(files());
    scene.hub_options.stall = StallFloor {
        window: Duration::from_millis(50),
        bytes: 4_000,
    };
    scene.hub.fault(FILE, [Fault::Drip(1), Fault::Drip(1)]);
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    scene.hub.always("z.json", Fault::StallAfter(0));
    let mut dead = Scene::new(files());
    dead.hub_options.stall = StallFloor {
        window: Duration::from_millis(20),
        bytes: 1,
    };
    dead.hub.always(FILE, Fault::StallAfter(1));
    let error = dead.fetch().await.unwrap_err();
    assert!(
        matches!(error, FetchError::Stalled { attempts: 5, .. }),
        "{error}"
    );
    dead.assert_nothing_named(FILE);
}

#[tokio::test]
async fn no_server_at_all_is_an_error_with_the_address() {
    let mut scene = Scene::new(files());
    // Port 9 of loopback: nobody listens there.
    scene.hub_options.endpoint = Endpoint::parse("http://127.0.0.1:9").unwrap();
    let error = scene.fetch().await.unwrap_err();
    assert!(
        matches!(error, FetchError::Connection { attempts: 5, .. }),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("http://127.0.0.1:9/api/models/owner/name/revision/main"),
        "{error}"
    );
}
