//! Killed at any moment, and interrupted politely. Fault reports I2 and I15.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use misbehaving_hub::{COMMIT, Content, Fault, Repository};

use crate::program::{Place, REPO, Ran};

/// Numbers that are the same in each run of the test.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn files(count: usize, bytes: usize) -> Vec<(String, Content)> {
    let mut dice = Dice(0x1234_5678_9abc_def1);
    let file = |n| {
        let mut content = vec![0; bytes];
        content
            .iter_mut()
            .for_each(|byte| *byte = u8::try_from(dice.below(256)).unwrap());
        (
            format!("checkpoint/tensors/t{n:04}.tensorbin"),
            content.into(),
        )
    };
    (0..count).map(file).collect()
}

/// Starts the program and kills it (SIGKILL) when it has written `most` bytes by its own count. True when it ended first.
fn run_and_kill(mut command: Command, most: u64) -> bool {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut written = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let event: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap_or_default();
        if event["event"] == "file_advanced" {
            written += event["bytes"].as_u64().unwrap();
        }
        if written >= most {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap().success()
}

/// The size of the whole test is 512 files and 50 kills; see `benches/record`.
fn kill_and_finish(count: usize, bytes: usize, kills: u64) {
    let place = Place::new();
    let files = files(count, bytes);
    place
        .hub
        .put(Repository::package(REPO, COMMIT, files.clone()));
    let package: u64 = (count * bytes) as u64;
    let mut dice = Dice(0x0dd_ba11_5eed);
    let arguments = [REPO, "--json", "--jobs", "4"];
    for _ in 0..kills {
        // Each run gets so far that all the kills fall into the package.
        if run_and_kill(
            place.command(&arguments),
            1 + dice.below(2 * package / (kills + 1)),
        ) {
            break;
        }
        let snapshot = place.cache().join("owner/name").join(COMMIT);
        assert!(
            !snapshot.exists()
                || place.run(&[&format!("{REPO}@{COMMIT}"), "--offline"]).code == Some(0)
        );
    }
    let ran = place.run(&[REPO]);
    ran.assert_code(0);
    for (path, content) in &files {
        let Content::Whole(expected) = content else {
            unreachable!()
        };
        assert!(
            std::fs::read(ran.folder().join(path)).unwrap() == *expected,
            "{path}"
        );
    }
    // What the network carried: the package, and for each kill what was in flight: at most four parts.
    let in_flight = kills * 4 * bytes as u64;
    let sent = place.hub.sent();
    let inventories = 400 * count as u64 * (kills + 2);
    assert!(
        sent <= package + package / 20 + in_flight + inventories,
        "{sent} bytes for a package of {package}"
    );
}

#[test]
fn a_package_that_is_killed_again_and_again_is_finished() {
    kill_and_finish(64, 20_000, 8);
}

#[test]
#[ignore = "full size: 512 files, 50 kills, about a minute; its result is in benches/record"]
fn fifty_kills_of_512_files() {
    kill_and_finish(512, 200_000, 50);
}

#[test]
fn a_large_file_that_is_killed_is_continued_in_each_of_its_ranges() {
    let place = Place::new();
    let content = files(1, 6 << 20).remove(0).1;
    let path = "checkpoint/large.tensorbin";
    place.hub.put(Repository::package(
        REPO,
        COMMIT,
        [(path.to_owned(), content)],
    ));
    // The first range comes whole, three come in part and then nothing, so the kill finds them begun.
    let whole = Fault::RangeTotal(6 << 20);
    place.hub.fault(
        path,
        [
            whole,
            Fault::StallAfter(300_000),
            Fault::StallAfter(200_000),
            Fault::StallAfter(100_000),
        ],
    );
    let arguments = [REPO, "--json", "--range-size", "1", "--jobs", "4"];
    assert!(!run_and_kill(
        place.command(&arguments),
        (1 << 20) + 600_000
    ));
    place.hub.behave();
    place.hub.forget();
    place.run(&[REPO, "--range-size", "1"]).assert_code(0);
    let mut ranges: Vec<String> = place
        .hub
        .seen_for(path)
        .iter()
        .map(|seen| seen.header("range").unwrap().to_owned())
        .collect();
    ranges.sort();
    assert!(
        !ranges.iter().any(|range| range.starts_with("bytes=0-")),
        "{ranges:?}"
    );
    assert!(place.hub.sent() < (5 << 20), "{} bytes", place.hub.sent());
}

#[test]
fn an_interrupt_ends_it_at_once_and_the_next_run_continues() {
    for (signal, code) in [("-INT", 130), ("-TERM", 130)] {
        let place = Place::new();
        place
            .hub
            .put(Repository::package(REPO, COMMIT, files(2, 50_000)));
        place.hub.always(
            "checkpoint/tensors/t0001.tensorbin",
            Fault::StallAfter(30_000),
        );
        let mut command = place.command(&[REPO, "--json"]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The whole first file and the first half of the second.
        let mut written = 0;
        while written < 80_000 {
            let event: serde_json::Value =
                serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            written += event["bytes"]
                .as_u64()
                .filter(|_| event["event"] == "file_advanced")
                .unwrap_or(0);
        }
        Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status()
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert!(String::from_utf8_lossy(&output.stderr).contains("the next run continues"));
        place.hub.behave();
        place.hub.forget();
        Ran::of(place.command(&[REPO])).assert_code(0);
        assert_eq!(place.hub.sent(), 20_000);
    }
}
