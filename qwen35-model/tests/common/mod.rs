//! Golden vectors and the models they belong to.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use native_manifest::{Snapshot, Verified, VerifyOptions};
use qwen35_model::trunk::{DraftWeights, LoadOptions, Workspace};
use qwen35_model::weights::Checkpoint;
use qwen35_model::{Model, ModelConfig};
use safetensors::SafeTensors;
use tt_device::{Contract, Cpu};

pub(crate) fn testdata(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../testdata")
        .join(path)
}

/// The tensors of a golden file, f32 and ids.
#[derive(Debug)]
pub(crate) struct Golden {
    pub(crate) floats: BTreeMap<String, Vec<f32>>,
    pub(crate) ids: BTreeMap<String, Vec<u32>>,
}

impl Golden {
    pub(crate) fn open(model: &str) -> Self {
        let bytes = std::fs::read(testdata(&format!("qwen35/{model}/golden.safetensors"))).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let mut golden = Self {
            floats: BTreeMap::new(),
            ids: BTreeMap::new(),
        };
        for (name, tensor) in file.tensors() {
            let data = tensor.data();
            match tensor.dtype() {
                safetensors::Dtype::F32 => {
                    let values = data
                        .chunks_exact(4)
                        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
                        .collect();
                    golden.floats.insert(name, values);
                }
                safetensors::Dtype::I64 => {
                    let values = data
                        .chunks_exact(8)
                        .map(|b| i64::from_le_bytes(b.try_into().unwrap()) as u32)
                        .collect();
                    golden.ids.insert(name, values);
                }
                other => panic!("unexpected {other:?} in the golden file"),
            }
        }
        golden
    }

    pub(crate) fn floats(&self, name: &str) -> &[f32] {
        self.floats
            .get(name)
            .unwrap_or_else(|| panic!("golden vector {name}"))
    }
}

/// A checkpoint of `testdata/qwen35` on a CPU, draft weights as stored.
pub(crate) fn load(model: &str, contract: Contract) -> (Model<Cpu>, Workspace<Cpu>) {
    let folder = testdata(&format!("qwen35/{model}"));
    let config = ModelConfig::parse(&std::fs::read(folder.join("config.json")).unwrap()).unwrap();
    let device = Arc::new(Cpu::builder().contract(contract).open().unwrap());
    let options = LoadOptions {
        mtp: true,
        draft_weights: DraftWeights::Stored,
    };
    let model = Model::load(device, config, &Checkpoint::open(&folder).unwrap(), options).unwrap();
    let work = Workspace::new(&model, 512).unwrap();
    (model, work)
}

/// The largest distance of two rows of numbers.
pub(crate) fn distance(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "both have one length");
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}

pub(crate) fn rms(a: &[f32], b: &[f32]) -> f32 {
    let sum: f32 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
    (sum / a.len() as f32).sqrt()
}

pub(crate) fn argmax(row: &[f32]) -> usize {
    tt_device::reference::elementwise::argmax(row)
}

/// The demo package of this repository, verified.
pub(crate) fn demo_package() -> Snapshot<Verified> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../assets/demo-package");
    Snapshot::open(folder)
        .unwrap()
        .verify(&VerifyOptions::default(), &())
        .unwrap()
        .0
}

/// The ids of the first window of 512 tokens of a held-out text.
pub(crate) fn first_window(set: &str) -> Vec<u32> {
    let text = std::fs::read(testdata("qwen35/tiny/eval/first_windows.json")).unwrap();
    let windows: serde_json::Value = serde_json::from_slice(&text).unwrap();
    serde_json::from_value(windows[set]["ids"].clone()).unwrap()
}
