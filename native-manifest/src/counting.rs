//! The sums that a package states, computed from its parts.

use std::collections::BTreeMap;

use crate::schema::{FORMAT, NativeManifest, PrecisionSummary, TensorTotals, TypeTotals};

/// Elements of a shape; `None` where 64 bits do not hold them.
pub fn elements(shape: &[usize]) -> Option<u64> {
    shape.iter().try_fold(1_u64, |product, &size| {
        product.checked_mul(u64::try_from(size).ok()?)
    })
}

impl TensorTotals {
    /// What [`NativeManifest::totals`] must be. Sums stay at the largest number that 64 bits hold.
    pub fn of(manifest: &NativeManifest) -> Self {
        let mut totals = Self::default();
        for tensor in &manifest.tensors {
            totals.target_tensors += 1;
            totals.target_bytes = totals.target_bytes.saturating_add(tensor.bytes);
            totals.target_parameters = totals
                .target_parameters
                .saturating_add(counted(&tensor.shape));
        }
        if let Some(mtp) = &manifest.mtp {
            totals.mtp_bytes = mtp.bytes;
            for tensor in &mtp.tensors {
                totals.mtp_tensors += 1;
                totals.mtp_parameters =
                    totals.mtp_parameters.saturating_add(counted(&tensor.shape));
            }
        }
        totals
    }
}

impl PrecisionSummary {
    /// The summary of a manifest's target tensors.
    pub fn of(manifest: &NativeManifest) -> Self {
        let mut types = BTreeMap::new();
        for tensor in &manifest.tensors {
            let none = TypeTotals {
                dtype: tensor.dtype,
                tensors: 0,
                bytes: 0,
                parameters: 0,
            };
            let line = types.entry(tensor.dtype.name()).or_insert(none);
            line.tensors += 1;
            line.bytes = line.bytes.saturating_add(tensor.bytes);
            line.parameters = line.parameters.saturating_add(counted(&tensor.shape));
        }
        Self {
            format: FORMAT.to_owned(),
            types: types.into_values().collect(),
            other: serde_json::Map::new(),
        }
    }
}

fn counted(shape: &[usize]) -> u64 {
    elements(shape).unwrap_or(u64::MAX)
}
