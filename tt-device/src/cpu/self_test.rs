//! At start-up, the chosen kernels against the definition.

use super::isa::Isa;
use super::kernels::{self, Kernels};

/// The table of `asked`, or of the strongest weaker set that agrees with the definition here.
pub(crate) fn first_that_agrees(asked: Isa) -> &'static Kernels {
    let definition = kernels::table(Isa::Scalar);
    for isa in Isa::present().into_iter().rev().filter(|isa| *isa <= asked) {
        let table = kernels::table(isa);
        match disagreement(table, definition) {
            None => return table,
            Some(kernel) => {
                tracing::warn!(%isa, kernel, "kernel differs from the definition on this cpu; falling back");
            }
        }
    }
    definition
}

/// The first kernel of `table` that gives other bits than the definition, over a few small jobs.
fn disagreement(table: &Kernels, definition: &Kernels) -> Option<&'static str> {
    let x = noise(1, 100);
    let y = noise(2, 100);
    let rows = |kernels: &Kernels| {
        let mut out = [vec![0.0; 100], vec![0.0; 100], vec![0.0; 100], x.clone(), x.clone()];
        (kernels.rms_norm)(&x, &y, 1e-6, &mut out[0]);
        (kernels.l2_norm)(&x, 1e-6, 0.125, &mut out[1]);
        (kernels.silu_mul)(&x, &y, &mut out[2]);
        (kernels.sigmoid_mul)(&mut out[3], &y);
        (kernels.add)(&mut out[4], &y);
        out
    };
    let names = ["rms_norm", "l2_norm", "silu_mul", "sigmoid_mul", "add"];
    let different = rows(table).into_iter().zip(rows(definition)).zip(names).find(|((a, b), _)| bits(a) != bits(b));
    different.map(|(_, name)| name)
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// Reproducible values around one, of both signs.
pub(crate) fn noise(seed: u32, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            f32::from_bits(0x3f80_0000 | (state >> 9)) * if state & 1 == 0 { 2.0 } else { -2.0 } + 0.5
        })
        .collect()
}
