//! What the doctor says, on this machine and on machines that are folders.

use serde_json::Value;

use crate::program::World;

fn verdict<'a>(report: &'a Value, check: &str) -> &'a str {
    let findings = report["findings"].as_array().unwrap();
    findings
        .iter()
        .find(|f| f["check"] == check)
        .unwrap_or_else(|| panic!("no {check}"))["verdict"]
        .as_str()
        .unwrap()
}

fn json(world: &World, tree: &str, code: i32) -> Value {
    let machine = world.machine(tree);
    let ran = world.run(&["doctor", "--json", "--host-root", machine.to_str().unwrap()]);
    ran.assert_code(code);
    serde_json::from_str(&ran.out).unwrap()
}

/// The machine that the tests run on may have a card; then only the form can be checked.
#[test]
fn this_machine_is_looked_at_and_a_missing_card_is_said_plainly() {
    let world = World::new();
    let ran = world.run(&["doctor"]);
    if std::path::Path::new("/sys/class/tenstorrent").exists() {
        assert!(ran.out.contains("card 0: "), "{}", ran.out);
        return;
    }
    ran.assert_code(1);
    assert!(
        ran.out.starts_with("No Tenstorrent card on this machine."),
        "{}",
        ran.out
    );
    assert!(
        ran.out.contains("mend: install tenstorrent-dkms"),
        "{}",
        ran.out
    );
    assert!(
        ran.out.ends_with("The CPU can be used: --device cpu.\n"),
        "{}",
        ran.out
    );
    let ran = world.run(&["doctor", "--json"]);
    ran.assert_code(1);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["cards"], serde_json::json!([]));
    assert_eq!(report["ready"], false);
}

#[test]
fn a_healthy_card_is_shown_with_and_without_an_iommu() {
    let world = World::new();
    for (tree, translates) in [("healthy-iommu", true), ("healthy-no-iommu", false)] {
        let report = json(&world, tree, 0);
        assert_eq!(report["ready"], true, "{tree}");
        assert_eq!(report["card"], 0);
        assert_eq!(report["cards"][0]["board"], "p150a");
        assert_eq!(report["cards"][0]["iommu_translates"], translates);
        assert_eq!(report["cards"][0]["temperature_celsius"], 47.25);
        assert_eq!(verdict(&report, "docker"), "ok");
    }
    let machine = world.machine("other-boards");
    let ran = world.run(&["doctor", "--host-root", machine.to_str().unwrap()]);
    ran.assert_code(0);
    assert!(
        ran.out.contains(
            "* card 1: p150a, PCI 0000:02:00.0, firmware 19.4.2.0, 47.2 °C, 1350 MHz, 61.5 W"
        ),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("  card 0: n150"), "{}", ran.out);
}

#[test]
fn a_held_card_and_missing_hugepages_are_bad_and_say_what_mends_them() {
    let world = World::new();
    let held = json(&world, "held", 1);
    assert_eq!(verdict(&held, "owner"), "bad");
    assert_eq!(verdict(&held, "1 GiB hugepage mount"), "ok");
    let missing = json(&world, "missing-hugepages", 1);
    for check in ["hugepage mount", "1 GiB hugepage mount", "free 1 GiB pages"] {
        assert_eq!(verdict(&missing, check), "bad", "{check}");
    }
    assert_eq!(verdict(&missing, "driver"), "warn");
    assert_eq!(verdict(&missing, "owner"), "ok");
    let all = missing["findings"].as_array().unwrap().iter();
    assert!(
        all.filter(|f| f["verdict"] == "bad")
            .all(|f| f["mend"].is_string())
    );
}

#[test]
fn the_doctor_starts_nothing_and_asks_nobody() {
    let world = World::new();
    let machine = world.machine("healthy-iommu");
    world
        .run(&["doctor", "--host-root", machine.to_str().unwrap()])
        .assert_code(0);
    assert!(world.calls().is_empty());
    assert!(world.hub.seen().is_empty());
    assert!(!machine.join("run").exists(), "no lock was taken");
}
