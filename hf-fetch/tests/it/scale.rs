//! Many files, many connections.

use misbehaving_hub::{COMMIT, Content, Fault, Repository};

use crate::harness::{REPO, Scene, noise};

fn many(count: usize, bytes: usize) -> Vec<(String, Content)> {
    let pool = crate::harness::bytes(&noise(bytes + count));
    (0..count)
        .map(|n| {
            (
                format!("d{:02}/f{n:05}", n % 40),
                Content::from(pool[n..n + bytes].to_vec()),
            )
        })
        .collect()
}

/// Ten thousand files, as many as the largest known packages have; small ones, so that it is quick.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_files_are_planned_fetched_and_found_again() {
    let mut scene = Scene::empty();
    scene.options.jobs = 16;
    scene
        .hub
        .put(Repository::package(REPO, COMMIT, many(10_000, 20)));
    let fetched = scene.fetch().await.unwrap();
    assert_eq!(fetched.contents.files.len(), 10_001);
    assert_eq!(fetched.received, 200_000);
    scene.hub.forget();
    scene.fetch_commit().await.unwrap();
    assert!(scene.hub.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_faults_over_many_files_ends_well() {
    let mut scene = Scene::empty();
    scene.options.range_bytes = 3_000;
    let files = many(60, 8_000);
    scene
        .hub
        .put(Repository::package(REPO, COMMIT, files.clone()));
    for (n, (path, _)) in files.iter().enumerate() {
        let faults = [
            Fault::Status(429, Some("1".to_owned())),
            Fault::CloseAfter(500),
            Fault::Flip(4_000),
            Fault::NoRanges,
            Fault::Status(500, None),
            Fault::RangeGarbled,
        ];
        scene
            .hub
            .fault(path, faults.into_iter().cycle().skip(n % 6).take(n % 4));
    }
    scene.fetch().await.unwrap();
    let found = crate::harness::tree(&scene.snapshot());
    for (path, content) in &files {
        assert!(found[path] == crate::harness::bytes(content), "{path}");
    }
}

/// No more connections than asked for: the Hub never sees more requests at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_job_is_one_request_after_the_other() {
    let mut scene = Scene::empty();
    scene.options.jobs = 1;
    scene.options.range_bytes = 1_000;
    scene
        .hub
        .put(Repository::package(REPO, COMMIT, many(5, 4_500)));
    let fetched = scene.fetch().await.unwrap();
    assert_eq!(fetched.received, 22_500);
    // In the order of the plan, each file's ranges in their order.
    let asked: Vec<_> = scene
        .hub
        .seen()
        .iter()
        .filter(|s| s.target.contains("/d0"))
        .map(|s| s.target.clone())
        .collect();
    let mut sorted = asked.clone();
    sorted.sort();
    assert_eq!(asked, sorted);
}
