//! What the program prints, and its exit codes.

use std::fs;

use misbehaving_hub::{COMMIT, Content, Fault, Repository};

use crate::program::{Place, REPO, Ran};

fn package() -> Repository {
    let files = [
        ("checkpoint/a.bin", Content::from(vec![7; 5000])),
        ("checkpoint/b.json", "{}".into()),
    ];
    Repository::package(
        REPO,
        COMMIT,
        files.map(|(path, content)| (path.to_owned(), content)),
    )
}

fn place() -> Place {
    let place = Place::new();
    place.hub.put(package());
    place
}

#[test]
fn a_package_is_fetched_and_its_folder_named() {
    let place = place();
    let ran = place.run(&[REPO]);
    ran.assert_code(0);
    assert_eq!(
        ran.out.lines().next(),
        Some(format!("Revision: {COMMIT}").as_str())
    );
    assert_eq!(ran.folder(), place.cache().join("owner/name").join(COMMIT));
    assert_eq!(
        fs::read(ran.folder().join("checkpoint/a.bin")).unwrap(),
        vec![7; 5000]
    );
    // Not a terminal: a line a file, and no control codes.
    assert!(
        ran.err.contains("checkpoint/a.bin: 4.88 KiB verified"),
        "{}",
        ran.err
    );
    assert!(!ran.err.contains('\u{1b}'));
    let again = place.run(&[&format!("{REPO}@{COMMIT}"), "--offline"]);
    again.assert_code(0);
    assert!(again.err.contains("all here"), "{}", again.err);
}

#[test]
fn a_dry_run_lists_and_fetches_nothing() {
    let place = place();
    let ran = place.run(&[REPO, "--dry-run"]);
    ran.assert_code(0);
    assert!(
        ran.out.contains(" fetch           5000 checkpoint/a.bin"),
        "{}",
        ran.out
    );
    assert!(
        ran.out
            .lines()
            .last()
            .unwrap()
            .starts_with("5002 bytes to fetch"),
        "{}",
        ran.out
    );
    assert!(place.hub.seen_for("checkpoint/a.bin").is_empty());
    assert!(!place.cache().join("owner/name").join(COMMIT).exists());
}

#[test]
fn json_is_one_object_a_line_and_nothing_else() {
    let place = place();
    place.hub.fault("checkpoint/a.bin", [Fault::Flip(9)]);
    let ran = place.run(&[REPO, "--json", "--jobs", "1"]);
    ran.assert_code(0);
    let events: Vec<serde_json::Value> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<&str> = events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    assert_eq!(names.first(), Some(&"resolved"));
    assert_eq!(names.last(), Some(&"done"));
    assert!(
        names.contains(&"planned")
            && names.contains(&"file_rewound")
            && names.contains(&"published")
    );
    assert_eq!(events.last().unwrap()["commit"], COMMIT);
    assert_eq!(events.last().unwrap()["received_bytes"], 10_002);
}

#[test]
fn exit_codes_tell_usage_input_and_findings_apart() {
    let place = place();
    // Fault report I19.
    for odd in [
        "../x/y",
        "a/..",
        "a",
        "owner/name@../../main",
        "owner/name@",
        "/etc/passwd",
    ] {
        place.run(&[odd]).assert_code(2);
    }
    place.run(&[REPO, "--jobs", "0"]).assert_code(2);
    place.run(&[REPO, "--endpoint", "ftp://x"]).assert_code(2);
    place.run(&["owner/other"]).assert_code(3);
    place.run(&[&format!("{REPO}@nosuch")]).assert_code(3);
    place.run(&[REPO, "--offline"]).assert_code(3);
    place.hub.always("checkpoint/b.json", Fault::Flip(0));
    let wrong = place.run(&[REPO]);
    wrong.assert_code(1);
    assert!(
        wrong.err.contains("checkpoint/b.json: digest mismatch"),
        "{}",
        wrong.err
    );
    assert_eq!(
        wrong
            .err
            .lines()
            .filter(|line| line.starts_with("error:"))
            .count(),
        1
    );
}

#[test]
fn the_environment_is_honoured() {
    let place = place();
    // HF_HUB_OFFLINE, which some clients never read.
    let mut offline = place.command(&[REPO]);
    offline
        .env("HF_HUB_OFFLINE", "1")
        .env("HF_ENDPOINT", "http://127.0.0.1:9");
    Ran::of(offline).assert_code(3);
    assert!(place.hub.seen().is_empty());

    let mut with_token = place.command(&[REPO]);
    with_token
        .env("HF_TOKEN", "hf_secret")
        .env("HF_DEBUG", "1")
        .env("XDG_CACHE_HOME", place.folder.path().join("x"));
    let ran = Ran::of(with_token);
    ran.assert_code(0);
    assert!(
        place
            .hub
            .seen()
            .iter()
            .all(|seen| seen.header("authorization") == Some("Bearer hf_secret"))
    );
    assert!(!ran.err.contains("hf_secret") && !ran.out.contains("hf_secret"));
    assert!(
        ran.folder()
            .starts_with(place.folder.path().join("x/qwen35-native"))
    );
}

/// Fault report I17.
#[test]
fn a_proxy_is_used_in_both_cases_of_letters_and_named_without_its_password() {
    for variable in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        let place = place();
        let proxy = place.hub.url().replace("http://", "http://user:secret@");
        let mut command = place.command(&[REPO]);
        command
            .env("HF_ENDPOINT", "http://hub.invalid")
            .env(variable, &proxy);
        let ran = Ran::of(command);
        ran.assert_code(0);
        assert!(
            place
                .hub
                .seen()
                .iter()
                .all(|seen| seen.authority.as_deref() == Some("hub.invalid")),
            "{variable}"
        );
        assert!(
            ran.err.contains("using the ") && !ran.err.contains("secret"),
            "{}",
            ran.err
        );
        let mut direct = place.command(&[REPO]);
        direct
            .env(variable, "http://127.0.0.1:9")
            .env("NO_PROXY", "127.0.0.1");
        Ran::of(direct).assert_code(0);
    }
}

#[test]
fn a_token_that_a_hugging_face_client_stored_is_not_used() {
    let place = place();
    let stored = place.folder.path().join(".cache/huggingface/token");
    fs::create_dir_all(stored.parent().unwrap()).unwrap();
    fs::write(&stored, "hf_secret").unwrap();
    place.run(&[REPO]).assert_code(0);
    assert!(
        place
            .hub
            .seen()
            .iter()
            .all(|seen| seen.header("authorization").is_none())
    );
    let mut named = place.command(&[REPO, "--reverify"]);
    named.env("HF_TOKEN_PATH", &stored);
    place.hub.forget();
    Ran::of(named).assert_code(0);
    assert!(
        place
            .hub
            .seen()
            .iter()
            .all(|seen| seen.header("authorization").is_some())
    );
}
