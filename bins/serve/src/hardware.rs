//! What this machine is, from the files in which Linux tells it.

use std::fs;

use crate::wire::props::Hardware;

/// Looks at the machine. What cannot be read stays empty.
#[must_use]
pub fn look(device: &str) -> Hardware {
    let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory_info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    Hardware {
        cpu: value(&cpu_info, "model name", ':')
            .unwrap_or_default()
            .to_owned(),
        cpu_cores: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        ram_gb: gibibytes(&memory_info),
        os: value(&release, "PRETTY_NAME", '=')
            .map_or(std::env::consts::OS, |name| name.trim_matches('"'))
            .to_owned(),
        device: device.to_owned(),
        ..Hardware::default()
    }
}

fn value<'t>(text: &'t str, key: &str, separator: char) -> Option<&'t str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(separator));
    pairs
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
}

/// `MemTotal` in GiB, to one digit.
fn gibibytes(memory_info: &str) -> f64 {
    let kibibytes = value(memory_info, "MemTotal", ':')
        .and_then(|total| total.split(' ').next())
        .and_then(|number| number.parse::<f64>().ok());
    kibibytes.map_or(0.0, |kibibytes| {
        (kibibytes / f64::from(1 << 20) * 10.0).round() / 10.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_keys() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Other\n";
        assert_eq!(value(text, "model name", ':'), Some("Some CPU @ 2 GHz"));
        assert_eq!(value(text, "model", ':'), None);
        assert_eq!(
            gibibytes("MemTotal:       24626744 kB\nMemFree: 1 kB"),
            23.5
        );
        assert_eq!(gibibytes(""), 0.0);
    }
}
