//! Whether a linear is better done by bf16 dot products or by f32 fused multiply-adds.

use std::arch::x86_64::*;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::Dot;

/// Steps of a try: some ten microseconds.
const STEPS: usize = 1000;
/// Tries, of which the quickest counts: others may be using the core.
const TRIES: usize = 8;
/// Sums in flight, enough to hide the latency of either instruction.
const SUMS: usize = 12;

/// Whether dot products do the same multiplications in less time here. Measured once, on an AVX-512
/// CPU that has them; no result depends on it.
///
/// One `vdpbf16ps` is worth two fused multiply-adds. Zen 4 starts one a cycle of either; the Xeon that
/// this was written on starts two fused multiply-adds a cycle, and a dot product every two cycles.
pub(in crate::cpu::kernels) fn prefers_dot() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        // SAFETY: the caller has found the instruction set present.
        let (dots, multiplications) = unsafe { measured() };
        tracing::debug!(
            ?dots,
            ?multiplications,
            "the same multiplications as bf16 dots and as f32"
        );
        dots < multiplications
    })
}

/// The least time of as many multiplications either way.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")]
fn measured() -> (Duration, Duration) {
    let s = Dot::present();
    let least = |run: fn(Dot) -> f32| {
        let time = |_| {
            let start = Instant::now();
            std::hint::black_box(run(s));
            start.elapsed()
        };
        (0..TRIES).map(time).min().unwrap_or_default()
    };
    (least(dots), least(multiplications))
}

fn dots(s: Dot) -> f32 {
    // SAFETY: a token of the instruction set is at hand.
    unsafe { dot_chains(s) }
}

fn multiplications(s: Dot) -> f32 {
    // SAFETY: a token of the instruction set is at hand.
    unsafe { multiplication_chains(s) }
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")]
fn dot_chains(s: Dot) -> f32 {
    let pair = std::hint::black_box(0x3f80_3f80);
    let weights = _mm512_set1_epi32(std::hint::black_box(0x3f80_3f80));
    let mut sums = [s.zero_sums(); SUMS];
    for _ in 0..STEPS {
        for sums in &mut sums {
            *sums = s.dot(*sums, pair, weights);
        }
    }
    total(sums)
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")]
fn multiplication_chains(s: Dot) -> f32 {
    let one = _mm512_set1_ps(std::hint::black_box(1.0));
    let mut sums = [s.zero_sums(); SUMS];
    for _ in 0..2 * STEPS {
        for sums in &mut sums {
            *sums = _mm512_fmadd_ps(one, one, *sums);
        }
    }
    total(sums)
}

#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512bf16")]
fn total(sums: [__m512; SUMS]) -> f32 {
    sums.into_iter()
        .map(|sums| _mm512_reduce_add_ps(sums))
        .sum()
}
