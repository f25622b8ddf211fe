//! What an earlier run left: continued, verified, or dropped.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use hf_fetch::{FetchError, Progress};
use misbehaving_hub::{Content, Fault};

use crate::harness::{Scene, bytes, noise};

const FILE: &str = "w.tensorbin";
const BYTES: u64 = 60_000;

fn files() -> Vec<(&'static str, Content)> {
    vec![(FILE, noise(60_000))]
}

/// A scene in which an earlier run got the first `have` bytes.
async fn begun(have: u64) -> Scene {
    let scene = Scene::new(files());
    scene.hub.fault(FILE, [Fault::CloseAfter(have)]);
    scene.hub.always(FILE, Fault::Status(404, None));
    assert!(scene.fetch().await.is_err());
    scene.hub.behave();
    scene.hub.forget();
    scene
}

fn part(scene: &Scene, ending: &str) -> PathBuf {
    let mut found = scene
        .parts()
        .into_iter()
        .filter(|p| p.extension().is_some_and(|e| e == ending));
    found.next().unwrap_or_else(|| panic!("no .{ending}"))
}

/// I2, I15: cut at half, the second run asks for the second half.
#[tokio::test]
async fn a_begun_file_is_continued() {
    let scene = begun(30_000).await;
    scene.assert_nothing_named(FILE);
    assert_eq!(scene.plan().await.unwrap().fetch_bytes(), 30_000);
    let fetched = scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert_eq!(fetched.received, 30_000);
    let seen = scene.hub.seen_for(FILE);
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].header("range"), Some("bytes=30000-59999"));
    assert!(seen[0].header("if-range").is_some());
}

#[tokio::test]
async fn a_begun_file_whose_bytes_were_damaged_is_found_out() {
    let scene = begun(30_000).await;
    let data = fs::File::options()
        .write(true)
        .open(part(&scene, "part"))
        .unwrap();
    data.write_all_at(b"?", 12_345).unwrap();
    let fetched = scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert_eq!(fetched.received, 30_000 + BYTES);
}

#[tokio::test]
async fn a_begun_file_of_an_older_entity_tag_begins_anew() {
    let scene = begun(30_000).await;
    scene.hub.always(FILE, Fault::Tag("\"new\"".to_owned()));
    let fetched = scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    // If-Range failed, so the whole file came at once; nothing of the old bytes was mixed in.
    assert!(fetched.received >= BYTES);
    assert!(scene.heard.count("FileRewound") >= 1);
}

#[tokio::test]
async fn a_server_that_ignores_the_range_sends_it_all() {
    let scene = begun(30_000).await;
    scene.hub.always(FILE, Fault::NoRanges);
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
}

/// I4: complete, but not renamed: no request, only a hash.
#[tokio::test]
async fn a_part_of_full_length_is_verified_without_a_request() {
    let scene = begun(30_000).await;
    complete(&scene, BYTES);
    let fetched = scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert_eq!(fetched.received, 0);
    assert!(scene.hub.seen_for(FILE).is_empty());
}

/// I4: a part that is too long is no part.
#[tokio::test]
async fn a_part_that_is_too_long_is_dropped() {
    let scene = begun(30_000).await;
    complete(&scene, BYTES);
    fs::File::options()
        .write(true)
        .open(part(&scene, "part"))
        .unwrap()
        .set_len(BYTES + 1)
        .unwrap();
    let fetched = scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert_eq!(fetched.received, BYTES);
}

/// I4: 416 drops what is there.
#[tokio::test]
async fn a_416_begins_the_file_anew() {
    let scene = begun(30_000).await;
    scene.hub.fault(FILE, [Fault::Unsatisfiable]);
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert_eq!(scene.hub.seen_for(FILE).len(), 2);
}

/// Makes the begun file look as if the process had died between the last byte and the rename.
fn complete(scene: &Scene, have: u64) {
    let data = fs::File::options()
        .write(true)
        .open(part(scene, "part"))
        .unwrap();
    data.write_all_at(&bytes(&noise(60_000)), 0).unwrap();
    let journal = fs::File::options()
        .write(true)
        .open(part(scene, "journal"))
        .unwrap();
    let slot = journal.metadata().unwrap().len() - 8;
    journal.write_all_at(&have.to_le_bytes(), slot).unwrap();
}

#[tokio::test]
async fn a_damaged_journal_costs_progress_and_nothing_else() {
    let scene = begun(30_000).await;
    let path = part(&scene, "journal");
    let whole = fs::read(&path).unwrap();
    let mut damaged: Vec<Vec<u8>> = [0, 1, 8, 200, whole.len() - 1]
        .iter()
        .map(|n| whole[..*n].to_vec())
        .collect();
    for (at, byte) in [
        (0, b'X'),
        (8, 1),
        (16, 0),
        (24, 0xff),
        (whole.len() - 8, 0xff),
        (whole.len() - 1, 0xff),
    ] {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        damaged.push(bytes);
    }
    damaged.push(vec![0xff; whole.len()]);
    for (n, journal) in damaged.into_iter().enumerate() {
        let scene = begun(30_000).await;
        fs::write(part(&scene, "journal"), journal).unwrap();
        scene
            .fetch()
            .await
            .unwrap_or_else(|e| panic!("damage {n}: {e}"));
        scene.assert_whole(&files());
    }
}

#[tokio::test]
async fn a_link_in_the_way_is_not_written_through() {
    let scene = begun(30_000).await;
    let outside = scene.folder.path().join("outside");
    fs::write(&outside, b"mine").unwrap();
    let path = part(&scene, "part");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&outside, &path).unwrap();
    let error = scene.fetch().await.unwrap_err();
    assert!(
        matches!(
            error,
            FetchError::Io {
                doing: "opening",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(fs::read(&outside).unwrap(), b"mine");
    // Nor does a link that stands for a folder lead out of the cache.
    let scene = Scene::new([("sub/f", "x".into())]);
    let files = scene
        .package_folder()
        .join(".incomplete")
        .join(misbehaving_hub::COMMIT)
        .join("files");
    fs::create_dir_all(&files).unwrap();
    std::os::unix::fs::symlink(scene.folder.path(), files.join("sub")).unwrap();
    let error = scene.fetch().await.unwrap_err();
    assert!(matches!(error, FetchError::Obstacle { .. }), "{error}");
    assert!(!scene.folder.path().join("f").exists());
}

/// Cancel at whatever moment: nothing wrong is left, and the next run continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_fetch_leaves_what_the_next_one_continues() {
    let mut scene = Scene::new(files());
    scene.options.range_bytes = 10_000;
    scene.hub.fault(
        FILE,
        [
            Fault::RangeTotal(BYTES),
            Fault::StallAfter(100),
            Fault::StallAfter(5_000),
        ],
    );
    let plan = scene.plan().await.unwrap();
    let heard: Arc<dyn Progress> = scene.heard.clone();
    let fetcher = scene.fetcher();
    {
        let run = fetcher.run(plan, &heard);
        tokio::pin!(run);
        // Until the first bytes are on the disk; two ranges never end by themselves.
        while scene.heard.count("FileAdvanced") < 3 {
            tokio::select! {
                done = &mut run => panic!("{done:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    scene.assert_nothing_named(FILE);
    scene.hub.behave();
    scene.hub.forget();
    let fetched = scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert!(
        fetched.received < BYTES,
        "{} bytes came again",
        fetched.received
    );
}
