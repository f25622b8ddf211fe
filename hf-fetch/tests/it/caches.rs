//! Warm starts, other people's caches, offline runs, read-only folders and two runs at once.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hf_fetch::{Action, Endpoint, Event, FetchError, Progress};
use misbehaving_hub::{COMMIT, Content, Repository, sha256};

use crate::harness::{REPO, Scene, bytes, noise, owned, tree};

fn files() -> Vec<(&'static str, Content)> {
    vec![
        ("a/config.json", "{}".into()),
        ("a/w.tensorbin", noise(20_000)),
        ("b.txt", "b".into()),
    ]
}

/// Puts a snapshot as `huggingface_hub` does: blobs by digest, links in the snapshot.
fn hf_cache(scene: &mut Scene, files: &[(&str, Content)]) -> std::path::PathBuf {
    let hub = scene.folder.path().join("hf/hub");
    let repository = hub.join("models--owner--name");
    fs::create_dir_all(repository.join("refs")).unwrap();
    fs::create_dir_all(repository.join("blobs")).unwrap();
    fs::write(repository.join("refs/main"), COMMIT).unwrap();
    for (path, content) in files {
        fs::write(
            repository.join("blobs").join(sha256(content)),
            bytes(content),
        )
        .unwrap();
        let link = repository.join("snapshots").join(COMMIT).join(path);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        let up = "../".repeat(2 + path.matches('/').count());
        std::os::unix::fs::symlink(format!("{up}blobs/{}", sha256(content)), link).unwrap();
    }
    scene.options.hf_cache = Some(hub.clone());
    hub
}

fn state(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let found = fs::symlink_metadata(&path).unwrap();
            if found.is_dir() {
                folders.push(path.clone());
            }
            let modified = format!("{:?}", found.modified().unwrap());
            let content = if found.is_file() {
                fs::read(&path).unwrap()
            } else {
                Vec::new()
            };
            all.push((format!("{} {modified}", path.display()), content));
        }
    }
    all.sort();
    all
}

#[tokio::test]
async fn a_warm_start_makes_no_request_and_writes_nothing() {
    let scene = Scene::new(files());
    scene.fetch().await.unwrap();
    scene.hub.forget();
    let before = state(scene.folder.path());
    let fetched = scene.fetch_commit().await.unwrap();
    assert_eq!(fetched.received, 0);
    assert!(scene.hub.seen().is_empty());
    assert_eq!(state(scene.folder.path()), before);
    // By branch it costs the one request that says where the branch stands.
    scene.fetch().await.unwrap();
    assert_eq!(scene.hub.seen().len(), 1);
}

#[tokio::test]
async fn a_touched_file_is_hashed_again_and_its_record_renewed() {
    let scene = Scene::new(files());
    scene.fetch().await.unwrap();
    let touched = scene.snapshot().join("a/w.tensorbin");
    fs::set_permissions(&touched, fs::Permissions::from_mode(0o644)).unwrap();
    let file = fs::File::options().write(true).open(&touched).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1))
        .unwrap();
    let plan = scene.plan().await.unwrap();
    assert_eq!(
        plan.files
            .iter()
            .filter(|f| f.action == Action::Rehash)
            .count(),
        1
    );
    scene.hub.forget();
    scene.fetch_commit().await.unwrap();
    assert!(scene.hub.seen().is_empty());
    assert!(scene.plan().await.unwrap().is_done());
}

#[tokio::test]
async fn a_damaged_snapshot_is_withdrawn_and_only_the_damage_fetched() {
    let mut scene = Scene::new(files());
    scene.fetch().await.unwrap();
    let damaged = scene.snapshot().join("a/w.tensorbin");
    fs::set_permissions(&damaged, fs::Permissions::from_mode(0o644)).unwrap();
    let modified = fs::metadata(&damaged).unwrap().modified().unwrap();
    let mut content = fs::read(&damaged).unwrap();
    content[777] ^= 1;
    fs::write(&damaged, content).unwrap();
    // The time is put back: the record alone cannot see it...
    fs::File::options()
        .write(true)
        .open(&damaged)
        .unwrap()
        .set_modified(modified)
        .unwrap();
    scene.hub.forget();
    scene.fetch_commit().await.unwrap();
    assert!(scene.hub.seen().is_empty());
    // ... hashing can.
    scene.options.reverify = true;
    let fetched = scene.fetch_commit().await.unwrap();
    assert_eq!(fetched.received, 20_000);
    assert_eq!(scene.hub.seen().len(), 1);
    scene.assert_whole(&files());
}

#[tokio::test]
async fn a_file_that_vanished_is_fetched_again() {
    let scene = Scene::new(files());
    scene.fetch().await.unwrap();
    fs::remove_file(scene.snapshot().join("b.txt")).unwrap();
    scene.hub.forget();
    scene.fetch_commit().await.unwrap();
    scene.assert_whole(&files());
    assert_eq!(scene.hub.seen().len(), 1);
}

#[tokio::test]
async fn lost_records_cost_a_hash_and_no_request() {
    let scene = Scene::new(files());
    scene.fetch().await.unwrap();
    fs::remove_file(scene.package_folder().join(format!("{COMMIT}.verified"))).unwrap();
    scene.hub.forget();
    scene.fetch_commit().await.unwrap();
    assert!(scene.hub.seen().is_empty());
    assert!(scene.plan().await.unwrap().is_done());
}

/// I8: an honest cache consists of links.
#[tokio::test]
async fn a_hugging_face_cache_is_copied_from_and_never_written() {
    let mut scene = Scene::new(files());
    let hub = hf_cache(&mut scene, &files());
    let before = state(&hub);
    let plan = scene.plan().await.unwrap();
    assert_eq!((plan.fetch_bytes(), plan.copy_bytes()), (0, 20_003));
    let fetched = scene.fetch().await.unwrap();
    assert_eq!(fetched.received, 0);
    scene.assert_whole(&files());
    assert_eq!(state(&hub), before);
    assert_eq!(scene.heard.count("HfCache"), 3);
}

#[tokio::test]
async fn wrong_bytes_in_a_hugging_face_cache_are_not_taken() {
    let mut scene = Scene::new(files());
    let hub = hf_cache(&mut scene, &files());
    let blob = hub
        .join("models--owner--name/blobs")
        .join(sha256(&noise(20_000)));
    let mut content = fs::read(&blob).unwrap();
    content[0] ^= 1;
    fs::write(&blob, &content).unwrap();
    let fetched = scene.fetch().await.unwrap();
    assert_eq!(fetched.received, 20_000);
    scene.assert_whole(&files());
    assert_eq!(fs::read(&blob).unwrap(), content);
}

/// I10: cache first, and no socket at all.
#[tokio::test]
async fn offline_everything_here_is_used_and_nothing_asked() {
    let mut scene = Scene::new(files());
    scene.fetch().await.unwrap();
    scene.hub.forget();
    scene.options.offline = true;
    scene.hub_options.endpoint = Endpoint::parse("http://127.0.0.1:9").unwrap();
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert!(scene.hub.seen().is_empty());
    assert!(scene.pauses().is_empty());
}

#[tokio::test]
async fn offline_a_hugging_face_cache_is_enough() {
    let donor = Scene::new(files());
    donor.fetch().await.unwrap();
    let release: Content = fs::read(donor.snapshot().join("runtime-release.json"))
        .unwrap()
        .into();
    let mut all = files();
    all.push(("runtime-release.json", release));
    let mut scene = Scene::empty();
    hf_cache(&mut scene, &all);
    scene.options.offline = true;
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert!(scene.hub.seen().is_empty());
}

#[tokio::test]
async fn offline_what_is_missing_is_named() {
    let mut scene = Scene::new(files());
    scene.options.offline = true;
    let error = scene.fetch().await.unwrap_err();
    assert!(
        matches!(error, FetchError::OfflineRevision { .. }),
        "{error}"
    );
    let error = scene.fetch_commit().await.unwrap_err();
    assert!(
        matches!(error, FetchError::OfflineMissing { .. }),
        "{error}"
    );
    scene.options.offline = false;
    scene.fetch().await.unwrap();
    fs::remove_file(scene.snapshot().join("b.txt")).unwrap();
    scene.options.offline = true;
    let error = scene.fetch().await.unwrap_err();
    let FetchError::OfflineMissing {
        missing: 1,
        files: 4,
        first,
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(first, "b.txt");
}

/// I9: nothing is written next to a whole snapshot, not even a lock.
#[tokio::test]
async fn a_read_only_cache_serves() {
    let scene = Scene::new(files());
    scene.fetch().await.unwrap();
    let records = scene.package_folder().join(format!("{COMMIT}.verified"));
    fs::remove_file(&records).unwrap();
    // Root may write anyway, so the proof is that nothing was.
    let before = tree(&scene.options.cache_root);
    set_modes(&scene.options.cache_root, 0o555);
    fs::create_dir(&records).ok();
    let fetched = scene.fetch_commit().await;
    set_modes(&scene.options.cache_root, 0o755);
    fs::remove_dir(&records).ok();
    fetched.unwrap();
    assert_eq!(
        tree(&scene.options.cache_root)
            .keys()
            .filter(|k| !k.ends_with(".verified"))
            .count(),
        before.len()
    );
}

fn set_modes(folder: &Path, mode: u32) {
    if mode & 0o200 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    }
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            set_modes(&path, mode);
        }
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
}

/// I11: the wait is bounded, and the holder is named.
#[tokio::test]
async fn a_second_run_waits_for_the_first_and_says_for_whom() {
    let mut scene = Scene::new(files());
    scene.options.lock_wait = Duration::from_secs(3);
    let lock = scene.package_folder().join(".locks").join(COMMIT);
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    fs::write(&lock, "pid 4711 on elsewhere\n").unwrap();
    let held = fs::File::open(&lock).unwrap();
    held.lock().unwrap();
    let error = scene.fetch().await.unwrap_err();
    let FetchError::Locked { holder, waited, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(
        (holder.as_str(), waited),
        ("pid 4711 on elsewhere", Duration::from_secs(3))
    );
    assert_eq!(
        scene.pauses().iter().sum::<Duration>(),
        Duration::from_secs(3)
    );
    assert_eq!(scene.heard.count("WaitingForLock"), 1);
    held.unlock().unwrap();
    scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert!(
        fs::read_to_string(&lock)
            .unwrap()
            .starts_with(&format!("pid {} on ", std::process::id()))
    );
}

/// Two runs at once fetch each file once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runs_at_once_share_the_work() {
    let mut scene = Scene::new(files());
    scene.hub_options.clock = Arc::new(hf_fetch::SystemClock);
    let (one, two) = tokio::join!(scene.fetch(), scene.fetch());
    let received = one.unwrap().received + two.unwrap().received;
    scene.assert_whole(&files());
    assert_eq!(received, 20_003);
}

#[derive(Default)]
struct Counter(std::sync::atomic::AtomicU64);

impl Progress for Counter {
    fn report(&self, event: &Event<'_>) {
        if let Event::FileAdvanced { bytes, .. } = event {
            self.0
                .fetch_add(*bytes, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

#[tokio::test]
async fn progress_adds_up_to_the_bytes_that_were_written() {
    let scene = Scene::empty();
    scene
        .hub
        .put(Repository::package(REPO, COMMIT, owned(files())));
    let plan = scene.plan().await.unwrap();
    let planned = plan.disk_bytes();
    let counter = Arc::new(Counter::default());
    let progress: Arc<dyn Progress> = counter.clone();
    scene.fetcher().run(plan, &progress).await.unwrap();
    assert_eq!(
        counter.0.load(std::sync::atomic::Ordering::Relaxed),
        planned
    );
}
