//! Every golden case of the vendor's simulator, from the definition and from each kernel.
//!
//! Origin of the data: `testdata/tensix/ORIGIN.md`.

#![expect(
    clippy::unwrap_used,
    reason = "golden data that cannot be read is a failed test"
)]

use safetensors::SafeTensors;
use tt_device::tensix::packing::round_to_bf16;
use tt_device::tensix::{Accumulate, Fidelity, Kernel, MatmulShape, MatrixUnit, definition};

struct Case {
    name: String,
    unit: MatrixUnit,
    shape: MatmulShape,
    activations: Vec<f32>,
    weights: Vec<f32>,
    out: Vec<f32>,
}

impl Case {
    /// Asserts every bit of `out`, and names the first that differs.
    fn check(&self, out: &[f32], by: &str) {
        assert_eq!(out.len(), self.out.len());
        let differing = (0..out.len()).filter(|&i| out[i].to_bits() != self.out[i].to_bits());
        let first = differing.clone().next().map(|i| (i, out[i], self.out[i]));
        assert_eq!(
            first,
            None,
            "{} by {by}: {} of {} differ",
            self.name,
            differing.count(),
            out.len()
        );
    }
}

fn cases() -> Vec<Case> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/tensix");
    let bytes = std::fs::read(format!("{folder}/matmul.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let index: serde_json::Value =
        serde_json::from_slice(&std::fs::read(format!("{folder}/index.json")).unwrap()).unwrap();
    let values = |name: &str| -> Vec<f32> {
        let tensor = tensors.tensor(name).unwrap();
        tensor
            .data()
            .chunks(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    };
    let case = |case: &serde_json::Value| {
        let name = case["case"].as_str().unwrap();
        let length = |key: &str| usize::try_from(case[key].as_u64().unwrap()).unwrap();
        Case {
            name: name.to_owned(),
            unit: MatrixUnit {
                fidelity: case["fidelity"]
                    .as_str()
                    .unwrap()
                    .to_lowercase()
                    .parse::<Fidelity>()
                    .unwrap(),
                accumulate: if case["fp32_dest_acc"].as_bool().unwrap() {
                    Accumulate::F32
                } else {
                    Accumulate::Bf16
                },
            },
            shape: MatmulShape {
                m: length("m"),
                k: length("k"),
                n: length("n"),
            },
            activations: values(&format!("{name}.activations")),
            weights: values(&format!("{name}.weights")),
            out: values(&format!("{name}.out")),
        }
    };
    index["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(case)
        .collect()
}

#[test]
fn the_definition_gives_every_golden_bit() {
    let cases = cases();
    assert_eq!(cases.len(), 9);
    for case in cases {
        let mut out = vec![f32::NAN; case.out.len()];
        definition::matmul(
            case.unit,
            &case.activations,
            &case.weights,
            case.shape,
            &mut out,
        );
        case.check(&out, "the definition");
    }
}

#[test]
fn every_kernel_gives_every_golden_bit() {
    let kernels = Kernel::available();
    assert_eq!(kernels[0].name(), "portable");
    for case in cases() {
        for &kernel in &kernels {
            let mut out = vec![f32::NAN; case.out.len()];
            case.unit.matmul_with(
                kernel,
                &case.activations,
                &case.weights,
                case.shape,
                &mut out,
            );
            case.check(&out, kernel.name());
        }
    }
}

#[test]
fn the_accumulator_decides_how_many_bits_a_result_has() {
    for case in cases() {
        let is_bf16 = case.out.iter().all(|x| round_to_bf16(*x) == *x);
        assert_eq!(
            is_bf16,
            case.unit.accumulate == Accumulate::Bf16,
            "{}",
            case.name
        );
    }
}
