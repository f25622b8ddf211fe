//! `qwen35-launch doctor`: what is here and what mends what, as a table or as JSON.

use std::path::Path;

use qwen35_fetch::args::FetchArgs;
use qwen35_fetch::environment::Environment;
use serde_json::{Value, json};
use tt_device::card::Card;
use tt_device::card::preflight::{Circumstances, DiskNeed, Finding, Report, Verdict, preflight};

use crate::args::DoctorArgs;
use crate::card::{beside, host_root};
use crate::docker;
use crate::error::LaunchError;

/// Room that a 9B package in mixed precision takes, in bytes, and its converted tensors likewise.
const USUAL_PACKAGE_BYTES: u64 = 10 << 30;

/// Looks and prints. True when a card could be used right away.
pub(crate) fn run(args: &DoctorArgs, environment: &Environment) -> Result<bool, LaunchError> {
    let fetch = FetchArgs {
        cache_root: args.cache_root.clone(),
        ..FetchArgs::default()
    };
    let packages = environment.fetch_options(&fetch)?.cache_root;
    let tensors = args
        .tensor_cache
        .clone()
        .unwrap_or_else(|| beside(&packages));
    let need = |purpose, folder: &Path| DiskNeed {
        purpose,
        folder: folder.to_owned(),
        bytes: USUAL_PACKAGE_BYTES,
    };
    let circumstances = Circumstances {
        docker: docker::version(),
        disks: vec![need("packages", &packages), need("tensor cache", &tensors)],
        card: args.card,
    };
    let report = preflight(&host_root(args.host_root.as_deref()), &circumstances);
    let text = if args.json {
        json_of(&report).to_string()
    } else {
        table(&report, args.host_root.as_deref())
    };
    println!("{}", text.trim_end());
    Ok(report.is_ready())
}

/// One finding as a line, with its mend below.
pub(crate) fn finding_line(finding: &Finding) -> String {
    let line = format!(
        "{:>4}  {:<22} {}",
        mark(finding.verdict),
        finding.check,
        finding.found
    );
    match &finding.mend {
        Some(mend) => format!("{line}\n      {:<22} mend: {mend}", ""),
        None => line,
    }
}

fn table(report: &Report, root: Option<&Path>) -> String {
    let mut lines = Vec::new();
    if let Some(root) = root {
        lines.push(format!(
            "looking at {} instead of this machine",
            root.display()
        ));
    }
    if report.cards.is_empty() {
        lines.push(
            "No Tenstorrent card on this machine. Packages can be served on its CPU.".to_owned(),
        );
    }
    lines.extend(
        report
            .cards
            .iter()
            .map(|card| card_line(card, report.chosen)),
    );
    lines.push(String::new());
    lines.extend(report.findings.iter().map(finding_line));
    lines.push(String::new());
    lines.push(match (report.chosen, report.is_ready()) {
        (Some(number), true) => format!("Card {number} can be used."),
        (Some(number), false) => {
            format!("Card {number} cannot be used yet: mend what is marked \"bad\".")
        }
        (None, _) => "The CPU can be used: --device cpu.".to_owned(),
    });
    lines.join("\n")
}

fn card_line(card: &Card, chosen: Option<u32>) -> String {
    let mut facts = vec![format!("card {}: {}", card.number, card.board)];
    let telemetry = &card.telemetry;
    facts.extend(
        card.pci_address
            .as_ref()
            .map(|address| format!("PCI {address}")),
    );
    facts.extend(
        card.firmware
            .as_ref()
            .map(|version| format!("firmware {version}")),
    );
    facts.extend(telemetry.temperature_celsius.map(|t| format!("{t:.1} °C")));
    facts.extend(telemetry.clock_mhz.map(|mhz| format!("{mhz} MHz")));
    facts.extend(telemetry.power_watts.map(|watts| format!("{watts:.1} W")));
    let mark = if chosen == Some(card.number) {
        "* "
    } else {
        "  "
    };
    format!("{mark}{}", facts.join(", "))
}

fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "ok",
        Verdict::Warning => "warn",
        Verdict::Bad => "bad",
    }
}

fn json_of(report: &Report) -> Value {
    let cards: Vec<Value> = report.cards.iter().map(card_json).collect();
    let findings: Vec<Value> = report
        .findings
        .iter()
        .map(|f| json!({"check": f.check, "verdict": mark(f.verdict), "found": f.found, "mend": f.mend}))
        .collect();
    json!({
        "ready": report.is_ready(),
        "card": report.chosen,
        "driver": report.driver.map(|version| version.to_string()),
        "cards": cards,
        "findings": findings,
    })
}

fn card_json(card: &Card) -> Value {
    let telemetry = &card.telemetry;
    let holders: Vec<String> = card.holders.iter().map(ToString::to_string).collect();
    json!({
        "number": card.number,
        "board": card.board.to_string(),
        "is_p150": card.board.is_p150(),
        "pci_address": card.pci_address,
        "serial": card.serial,
        "asic_id": card.asic_id,
        "firmware": card.firmware,
        "iommu_translates": card.iommu_translates,
        "clock_mhz": telemetry.clock_mhz,
        "temperature_celsius": telemetry.temperature_celsius,
        "power_watts": telemetry.power_watts,
        "heartbeat": telemetry.heartbeat,
        "thermal_trips": telemetry.thermal_trips,
        "holders": holders,
    })
}
