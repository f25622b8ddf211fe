//! At start-up, the chosen kernels against the definition.

use bfp_format::BlockFormat;

use super::isa::Isa;
use super::kernels::{self, Activations, AttendGroup, BLOCK, DeltaHead, Kernels, LinearPart};
use super::memory::HostKv;
use crate::backend::KvShape;
use crate::weight::{MatrixShape, WeightFormat};
use crate::{Contract, DeviceError};

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

/// A small job for one kernel; gives all that it wrote.
type Job = fn(&Kernels) -> Vec<f32>;

const JOBS: [(&str, Job); 10] = [
    ("round", round),
    ("rms_norm", rms_norm),
    ("l2_norm", l2_norm),
    ("add", add),
    ("silu_mul", silu_mul),
    ("sigmoid_mul", sigmoid_mul),
    ("conv_silu", conv_silu),
    ("delta", delta),
    ("attend", attend),
    ("argmax", argmax),
];

/// The first kernel of `table` that gives other bits than the definition.
fn disagreement(table: &Kernels, definition: &Kernels) -> Option<&'static str> {
    if std::ptr::eq(table, definition) {
        return None;
    }
    if !linears_agree(table, definition) {
        return Some("linear");
    }
    JOBS.iter()
        .find(|(_, job)| bits(&job(table)) != bits(&job(definition)))
        .map(|(name, _)| *name)
}

/// A row that is no whole number of vectors.
const WIDTH: usize = 100;

/// Every format and contract, alone, few and many rows, tiles cut short on both sides.
fn linears_agree(table: &Kernels, definition: &Kernels) -> bool {
    const MOST: usize = 13;
    let shape = MatrixShape {
        inputs: 40,
        outputs: 172,
    };
    let formats = [
        WeightFormat::Block(BlockFormat::Bfp8),
        WeightFormat::Block(BlockFormat::Bfp4),
        WeightFormat::Block(BlockFormat::Bfp2),
        WeightFormat::Bf16,
        WeightFormat::F32,
    ];
    let noise = noise(17, MOST * shape.inputs);
    for format in formats {
        let tiles = tiles(shape, format);
        for contract in [Contract::Host1, Contract::HostF32] {
            let mut x = [[0.0; BLOCK]; MOST];
            for (x, noise) in x.iter_mut().zip(noise.chunks_exact(shape.inputs)) {
                for (x, noise) in x.iter_mut().zip(noise) {
                    *x = contract.activation(*noise);
                }
            }
            // Rows are independent, so one run of the definition judges every number of rows.
            let run = |kernels: &Kernels, rows: usize, first_tile_column: usize, width: usize| {
                let x = Activations {
                    rows,
                    x: &x[..rows],
                };
                let part = LinearPart {
                    contract,
                    x,
                    tiles: &tiles,
                    shape,
                    format,
                    first_tile_column,
                    width,
                };
                let mut out = vec![0.0; rows * width];
                (kernels.linear)(&part, &mut out.chunks_exact_mut(width).collect::<Vec<_>>());
                out
            };
            let judge = run(definition, MOST, 0, shape.outputs);
            let rows_agree = [1, 2, 3, 8, MOST].into_iter().all(|rows| {
                bits(&run(table, rows, 0, shape.outputs)) == bits(&judge[..rows * shape.outputs])
            });
            // A part that starts and ends inside.
            let inner = judge
                .chunks_exact(shape.outputs)
                .take(3)
                .flat_map(|row| &row[64..128]);
            let inner: Vec<f32> = inner.copied().collect();
            if !rows_agree || bits(&run(table, 3, 2, 64)) != bits(&inner) {
                return false;
            }
        }
    }
    true
}

/// Bytes of a matrix with moderate weights.
fn tiles(shape: MatrixShape, format: WeightFormat) -> Vec<u8> {
    let count = shape.tile_rows() * shape.tile_columns();
    let noise = noise(23, count * 1024);
    let mut bytes = Vec::with_capacity(count * format.tile_bytes());
    match format {
        WeightFormat::Block(_) => {
            for tile in noise.chunks_exact(1024) {
                let random = |x: &f32| x.to_bits().to_le_bytes()[1];
                // Among the moderate exponents one that reads as zeros and one that is bounded.
                let exponents = tile.iter().map(|x| match random(x) {
                    7 => 20,
                    8 => 250,
                    byte => 118 + byte % 16,
                });
                bytes.extend(exponents.take(64));
                bytes.extend(tile.iter().rev().take(format.tile_bytes() - 64).map(random));
            }
        }
        WeightFormat::Bf16 => {
            bytes.extend(
                noise
                    .iter()
                    .flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()),
            );
        }
        WeightFormat::F32 => bytes.extend(noise.iter().flat_map(|x| x.to_le_bytes())),
    }
    bytes
}

fn round(kernels: &Kernels) -> Vec<f32> {
    let mut x = noise(1, WIDTH);
    x[..6].copy_from_slice(&[1e-13, -0.0, 1e30, -1e30, 1.003_906_3, 1.011_718_8]);
    let mut out = vec![0.0; WIDTH];
    (kernels.round)(&x, &mut out);
    out
}

fn rms_norm(kernels: &Kernels) -> Vec<f32> {
    let mut out = vec![0.0; WIDTH];
    (kernels.rms_norm)(&noise(1, WIDTH), &noise(2, WIDTH), 1e-6, &mut out);
    out
}

fn l2_norm(kernels: &Kernels) -> Vec<f32> {
    let mut out = vec![0.0; WIDTH];
    (kernels.l2_norm)(&noise(1, WIDTH), 1e-6, 0.125, &mut out);
    out
}

fn add(kernels: &Kernels) -> Vec<f32> {
    let mut x = noise(1, WIDTH);
    (kernels.add)(&mut x, &noise(2, WIDTH));
    x
}

/// Arguments of exp over its range and past both ends.
fn gates() -> Vec<f32> {
    (0..WIDTH).map(|i| (i as f32 - 50.0) * 1.9).collect()
}

fn silu_mul(kernels: &Kernels) -> Vec<f32> {
    let mut out = vec![0.0; WIDTH];
    (kernels.silu_mul)(&gates(), &noise(2, WIDTH), &mut out);
    out
}

fn sigmoid_mul(kernels: &Kernels) -> Vec<f32> {
    let mut x = noise(1, WIDTH);
    (kernels.sigmoid_mul)(&mut x, &gates());
    x
}

fn conv_silu(kernels: &Kernels) -> Vec<f32> {
    let (taps, rows) = (
        [1, 2, 3, 4].map(|i| noise(i, WIDTH)),
        [5, 6, 7, 8].map(|i| noise(i, WIDTH)),
    );
    let mut out = vec![0.0; WIDTH];
    (kernels.conv_silu)(
        taps.each_ref().map(Vec::as_slice),
        rows.each_ref().map(Vec::as_slice),
        &mut out,
    );
    out
}

fn delta(kernels: &Kernels) -> Vec<f32> {
    let (rows, key_dim, value_dim) = (3, 18, WIDTH);
    let (q, k, v) = (
        noise(1, rows * key_dim),
        noise(2, rows * key_dim),
        noise(3, rows * value_dim),
    );
    let head = DeltaHead {
        q: &q,
        k: &k,
        v: &v,
        v_stride: value_dim,
        decay: &[0.9, 0.5, 0.75],
        beta: &[0.25, 0.8, 0.6],
        key_dim,
        value_dim,
    };
    let before = noise(4, key_dim * value_dim);
    let (mut in_place, mut lanes) = (before.clone(), [(); 4].map(|()| before.clone()));
    let mut out = vec![0.0; 2 * rows * value_dim];
    let (first, second) = out.split_at_mut(rows * value_dim);
    (kernels.delta)(&head, &mut [&mut in_place], first);
    let mut views = lanes.each_mut().map(Vec::as_mut_slice);
    (kernels.delta)(&head, &mut views, second);
    out.extend(in_place);
    out.extend(lanes.concat());
    out
}

fn attend(kernels: &Kernels) -> Vec<f32> {
    let (stored, kv_heads, heads, head_dim) = (75, 2, 5, 72);
    let shape = KvShape {
        capacity: stored,
        heads: kv_heads,
        head_dim,
    };
    let row = kv_heads * head_dim;
    let (keys, values) = (noise(1, stored * row), noise(2, stored * row));
    let mut all = Vec::new();
    for contract in [Contract::Host1, Contract::HostF32] {
        // A few kilobytes: where there is no memory for them, there is none for a model.
        let kv: Result<HostKv, DeviceError> = HostKv::zeroed(shape, contract);
        let Ok(mut kv) = kv else { continue };
        for position in 0..stored {
            kv.store(
                position,
                &keys[position * row..][..row],
                &values[position * row..][..row],
            );
        }
        for queries in [1, 3] {
            let mut q = noise(3, queries * heads * head_dim);
            q.iter_mut().for_each(|q| *q *= 0.125);
            let group = AttendGroup {
                q: &q,
                q_stride: heads * head_dim,
                queries,
                heads,
                kv: &kv,
                kv_head: 1,
                visible: 71,
                scale: 0.125,
            };
            let mut out = vec![0.0; q.len()];
            (kernels.attend)(&group, &mut Vec::new(), &mut out);
            all.extend(out);
        }
    }
    all
}

fn argmax(kernels: &Kernels) -> Vec<f32> {
    let mut row = noise(1, WIDTH);
    let mut found = Vec::new();
    for at in [97, 41, 5] {
        row[at] = 9.0;
        #[expect(clippy::cast_precision_loss, reason = "an index below 100")]
        found.push((kernels.argmax)(&row) as f32);
    }
    found
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// Reproducible values around two, of both signs.
fn noise(seed: u32, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            f32::from_bits(0x3f80_0000 | (state >> 9)) * if state & 1 == 0 { 2.0 } else { -2.0 }
                + 0.5
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_present_agrees_with_the_definition() {
        for isa in Isa::present() {
            assert_eq!(
                disagreement(kernels::table(isa), kernels::table(Isa::Scalar)),
                None,
                "{isa}"
            );
            assert_eq!(first_that_agrees(isa).isa, isa);
        }
    }

    /// A kernel of this table, with the last bit of its last result wrong.
    fn flip(x: &mut [f32]) {
        let last = x.last_mut().unwrap();
        *last = f32::from_bits(last.to_bits() ^ 1);
    }

    fn scalar() -> &'static Kernels {
        kernels::table(Isa::Scalar)
    }

    #[test]
    fn one_wrong_bit_in_any_kernel_is_caught() {
        type Spoil = fn(&mut Kernels);
        let wrong: [(&str, Spoil); 11] = [
            ("round", |k| {
                k.round = |x, out| {
                    (scalar().round)(x, out);
                    flip(out);
                }
            }),
            ("linear", |k| {
                k.linear = |part, out| {
                    (scalar().linear)(part, out);
                    flip(out.last_mut().unwrap());
                }
            }),
            ("rms_norm", |k| {
                k.rms_norm = |x, scale, eps, out| {
                    (scalar().rms_norm)(x, scale, eps, out);
                    flip(out);
                }
            }),
            ("l2_norm", |k| {
                k.l2_norm = |x, eps, scale, out| {
                    (scalar().l2_norm)(x, eps, scale, out);
                    flip(out);
                }
            }),
            ("add", |k| {
                k.add = |x, y| {
                    (scalar().add)(x, y);
                    flip(x);
                }
            }),
            ("silu_mul", |k| {
                k.silu_mul = |gate, up, out| {
                    (scalar().silu_mul)(gate, up, out);
                    flip(out);
                }
            }),
            ("sigmoid_mul", |k| {
                k.sigmoid_mul = |x, gate| {
                    (scalar().sigmoid_mul)(x, gate);
                    flip(x);
                }
            }),
            ("conv_silu", |k| {
                k.conv_silu = |taps, rows, out| {
                    (scalar().conv_silu)(taps, rows, out);
                    flip(out);
                }
            }),
            ("delta", |k| {
                k.delta = |head, lanes, out| {
                    (scalar().delta)(head, lanes, out);
                    flip(lanes.last_mut().unwrap());
                }
            }),
            ("attend", |k| {
                k.attend = |group, scores, out| {
                    (scalar().attend)(group, scores, out);
                    flip(out);
                }
            }),
            ("argmax", |k| {
                k.argmax = |row| row.iter().rposition(|x| *x == 9.0).unwrap_or(0);
            }),
        ];
        for (kernel, spoil) in wrong {
            let mut table = Kernels { ..*scalar() };
            spoil(&mut table);
            assert_eq!(disagreement(&table, scalar()), Some(kernel));
        }
    }

    #[test]
    fn a_linear_that_sums_even_before_odd_is_caught() {
        // The order that most bf16 dot products of other machines have.
        let mut table = Kernels { ..*scalar() };
        table.linear = |part, out| {
            let mut swapped = part.x.x.to_vec();
            for pair in swapped.as_flattened_mut().chunks_exact_mut(2) {
                pair.swap(0, 1);
            }
            // Rows of each pair change places in the tiles too, so that only the order differs.
            let mut tiles = part.tiles.to_vec();
            let bytes = part.format.tile_bytes();
            for tile in tiles.chunks_exact_mut(bytes) {
                let exponents = if matches!(part.format, WeightFormat::Block(_)) {
                    64
                } else {
                    0
                };
                tile[..exponents]
                    .chunks_exact_mut(2)
                    .for_each(|pair| pair.swap(0, 1));
                let row = (bytes - exponents) / 64;
                for pair in tile[exponents..].chunks_exact_mut(2 * row) {
                    let (even, odd) = pair.split_at_mut(row);
                    even.swap_with_slice(odd);
                }
            }
            (scalar().linear)(
                &LinearPart {
                    x: Activations {
                        x: &swapped,
                        ..part.x
                    },
                    tiles: &tiles,
                    ..*part
                },
                out,
            );
        };
        assert_eq!(disagreement(&table, scalar()), Some("linear"));
    }
}
