//! The straight way: resolve, plan, fetch, publish; and what is refused before it begins.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use hf_fetch::{Action, FetchError, Origin, Progress};
use misbehaving_hub::{COMMIT, Content, Fault, Repository};
use serde_json::json;

use crate::harness::{REPO, Scene, noise, owned};

fn files() -> Vec<(&'static str, Content)> {
    vec![
        ("checkpoint/config.json", "{}".into()),
        ("checkpoint/tensors/a [1].tensorbin", noise(70_000)),
        ("checkpoint/tensors/b.tensorbin", noise(5)),
        ("empty", "".into()),
    ]
}

#[tokio::test]
async fn a_package_is_fetched_verified_and_published() {
    let scene = Scene::new(files());
    let fetched = scene.fetch().await.unwrap();
    scene.assert_whole(&files());
    assert_eq!(fetched.folder, scene.snapshot());
    assert_eq!(fetched.commit.to_string(), COMMIT);
    assert_eq!(fetched.contents.origin, Origin::Release);
    assert_eq!(fetched.received, 70_007);
    // The inventory came once, with the plan.
    assert_eq!(scene.hub.seen_for("runtime-release.json").len(), 1);
    // Nothing is left over, and nobody can write into the snapshot by accident.
    assert!(
        !scene
            .package_folder()
            .join(".incomplete")
            .join(COMMIT)
            .exists()
    );
    let mode = scene
        .snapshot()
        .join("empty")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o222, 0);
    assert_eq!(scene.heard.count("FileVerified"), 5);
}

#[tokio::test]
async fn everything_is_asked_for_as_it_is_and_by_commit() {
    let scene = Scene::new(files());
    scene.fetch().await.unwrap();
    let seen = scene.hub.seen();
    assert!(
        seen.iter()
            .all(|s| s.header("accept-encoding") == Some("identity"))
    );
    assert!(
        seen.iter().all(|s| s.header("authorization").is_none()),
        "anonymous by default"
    );
    let by_name: Vec<_> = seen.iter().filter(|s| s.target.contains("main")).collect();
    assert_eq!(by_name.len(), 1, "the branch is resolved once");
    assert!(
        seen.iter()
            .filter(|s| s.target.contains("/resolve/"))
            .all(|s| s.target.contains(COMMIT))
    );
}

#[tokio::test]
async fn a_branch_that_moves_meanwhile_changes_nothing() {
    let scene = Scene::new(files());
    let plan = scene.plan().await.unwrap();
    let moved = misbehaving_hub::commit(9);
    scene.hub.put(Repository::package(
        REPO,
        &moved,
        owned([("other", "x".into())]),
    ));
    let heard: Arc<dyn Progress> = scene.heard.clone();
    scene.fetcher().run(plan, &heard).await.unwrap();
    scene.assert_whole(&files());
    assert_eq!(scene.fetch().await.unwrap().commit.to_string(), moved);
}

#[tokio::test]
async fn an_ordinary_repository_is_fetched_by_its_list() {
    let scene = Scene::empty();
    let files = vec![
        ("config.json", Content::from("{\"a\": 1}")),
        ("model.safetensors", noise(30_000)),
        ("sub/tokenizer.json", noise(300)),
        ("sub/vocab.txt", "x\n".into()),
    ];
    let mut repository = Repository::new(REPO, COMMIT, owned(files.clone()));
    repository.lfs = vec!["model.safetensors".to_owned()];
    repository.page = 3;
    scene.hub.put(repository);
    let fetched = scene.fetch().await.unwrap();
    assert_eq!(fetched.contents.origin, Origin::Repository);
    scene.assert_whole(&files);
    let pages = scene
        .hub
        .seen()
        .iter()
        .filter(|s| s.target.contains("/tree/"))
        .count();
    assert_eq!(pages, 2);
    // Small files have no SHA-256 in the list; their git name finds a wrong byte as well.
    let wrong = Scene::empty();
    wrong.hub.put(Repository::new(REPO, COMMIT, owned(files)));
    wrong.hub.always("config.json", Fault::Flip(3));
    assert!(matches!(
        wrong.fetch().await,
        Err(FetchError::Digest { .. })
    ));
    wrong.assert_nothing_named("config.json");
}

#[tokio::test]
async fn the_plan_says_what_is_missing_before_the_first_byte() {
    let scene = Scene::new(files());
    let plan = scene.plan().await.unwrap();
    assert_eq!((plan.files.len(), plan.missing().count()), (5, 5));
    assert_eq!((plan.fetch_bytes(), plan.copy_bytes()), (70_007, 0));
    assert!(plan.disk_bytes() > 70_007, "the inventory is written too");
    assert!(
        plan.files
            .iter()
            .any(|f| matches!(f.action, Action::Write(_)))
    );
    assert!(!plan.is_done() && !plan.published);
    let asked: Vec<_> = scene.hub.seen().iter().map(|s| s.target.clone()).collect();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(!scene.snapshot().exists() && !scene.package_folder().join(".incomplete").exists());
}

/// I19, and the attack list of `native-manifest`.
#[tokio::test]
async fn hostile_names_in_an_inventory_are_refused_before_anything_is_written() {
    let digest = "ab".repeat(32);
    for path in [
        "../escape",
        "a/../../escape",
        "/etc/passwd",
        "C:/x",
        "..\\x",
        "a\u{0}b",
        "a//b",
        ".",
        "aux.txt",
        "x.",
        "a/./b",
        "\\\\server\\share\\x",
    ] {
        let scene = Scene::empty();
        let mut repository = Repository::new(REPO, COMMIT, owned([("ok", "x".into())]));
        repository.release(&json!([{"path": path, "bytes": 1, "sha256": digest}]));
        scene.hub.put(repository);
        let error = scene.fetch().await.unwrap_err();
        assert!(
            matches!(error, FetchError::Inventory(_)),
            "{path:?}: {error}"
        );
        assert_nothing_but_refs(&scene);
    }
    for pair in [
        ["a", "A"],
        ["caf\u{e9}", "cafe\u{301}"],
        ["a", "a"],
        ["a", "a/b"],
    ] {
        let scene = Scene::empty();
        let mut repository = Repository::new(REPO, COMMIT, owned([("ok", "x".into())]));
        repository.release(&json!(
            pair.map(|path| json!({"path": path, "bytes": 1, "sha256": digest}))
        ));
        scene.hub.put(repository);
        let error = scene.fetch().await.unwrap_err();
        assert!(
            matches!(
                error,
                FetchError::Inventory(_) | FetchError::Metadata { .. }
            ),
            "{pair:?}: {error}"
        );
        assert_nothing_but_refs(&scene);
    }
}

fn assert_nothing_but_refs(scene: &Scene) {
    let Ok(entries) = scene.package_folder().read_dir() else {
        return;
    };
    let names: Vec<_> = entries.map(|e| e.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name == ".refs"), "{names:?}");
}

#[tokio::test]
async fn an_inventory_that_is_no_inventory_is_refused() {
    for (document, fault) in [
        ("", None),
        ("[]", None),
        ("{\"inventory\": 7}", None),
        ("{}", Some(Fault::LoginPage)),
    ] {
        let scene = Scene::empty();
        let files = owned([("runtime-release.json", Content::from(document))]);
        scene.hub.put(Repository::new(REPO, COMMIT, files));
        if let Some(fault) = fault {
            scene.hub.always("runtime-release.json", fault);
        }
        let error = scene.fetch().await.unwrap_err();
        assert!(
            matches!(error, FetchError::Inventory(_) | FetchError::WebPage { .. }),
            "{document}: {error}"
        );
    }
}

#[tokio::test]
async fn an_unknown_revision_is_an_error_that_says_so() {
    let scene = Scene::new(files());
    let fetcher = scene.fetcher();
    let repo = REPO.parse().unwrap();
    let error = fetcher
        .resolve(&repo, &"nosuch".parse().unwrap(), &*scene.heard)
        .await
        .unwrap_err();
    let FetchError::Status {
        status: 404,
        hint: Some(hint),
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert!(hint.contains("no such repository or revision"));
    let other = "owner/other".parse().unwrap();
    assert!(
        fetcher
            .resolve(&other, &"main".parse().unwrap(), &*scene.heard)
            .await
            .is_err()
    );
    // A commit is taken at its word, and found out at its first file.
    let unknown = misbehaving_hub::commit(77).parse().unwrap();
    assert!(matches!(
        fetcher.plan(&repo, &unknown, &*scene.heard).await,
        Err(FetchError::Commit { .. } | FetchError::Status { status: 404, .. })
    ));
}

#[tokio::test]
async fn an_answer_for_another_commit_is_refused() {
    let scene = Scene::new(files());
    scene
        .hub
        .always("checkpoint/config.json", Fault::OtherCommit);
    assert!(matches!(
        scene.fetch().await,
        Err(FetchError::Commit { .. })
    ));
    scene.assert_nothing_named("checkpoint/config.json");
}

#[tokio::test]
async fn two_repositories_and_two_commits_live_side_by_side() {
    let scene = Scene::new(files());
    scene.fetch().await.unwrap();
    let next = misbehaving_hub::commit(2);
    scene.hub.put(Repository::package(
        REPO,
        &next,
        owned([("checkpoint/config.json", "{2}".into())]),
    ));
    let second = scene.fetch().await.unwrap();
    assert_eq!(second.commit.to_string(), next);
    assert_eq!(
        std::fs::read(second.folder.join("checkpoint/config.json")).unwrap(),
        b"{2}"
    );
    scene.assert_whole(&files());
    // Going back needs no request at all.
    scene.hub.forget();
    scene.fetch_commit().await.unwrap();
    assert!(scene.hub.seen().is_empty());
}

#[tokio::test]
async fn the_release_document_is_at_hand_before_and_after_the_fetch() {
    let scene = Scene::new(files());
    let plan = scene.plan().await.unwrap();
    let before = scene
        .fetcher()
        .release_document(&plan, &*scene.heard)
        .await
        .unwrap()
        .unwrap();
    assert!(String::from_utf8_lossy(&before).contains("registry.example"));
    scene.fetch().await.unwrap();
    scene.hub.forget();
    let plan = scene.plan().await.unwrap();
    let after = scene
        .fetcher()
        .release_document(&plan, &*scene.heard)
        .await
        .unwrap();
    assert_eq!(after, Some(before));
    assert!(scene.hub.seen_for("runtime-release.json").is_empty());

    let ordinary = Scene::empty();
    ordinary
        .hub
        .put(Repository::new(REPO, COMMIT, owned(files())));
    let plan = ordinary.plan().await.unwrap();
    assert_eq!(
        ordinary
            .fetcher()
            .release_document(&plan, &*ordinary.heard)
            .await
            .unwrap(),
        None
    );
}
