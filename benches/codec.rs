//! How fast is the block float codec on one thread, and how far from a plain copy of the same memory?
//!
//! Bytes are those of the f32 or bf16 side: input when packing, output when unpacking. `cache` is a matrix that stays in
//! the caches, `memory` one of 4096 x 12288 (201 MB of f32), the size that ttnn's packer was timed with.

use std::hint::black_box;

use bfp_format::{BlockFormat, Codec, Isa, Packing, TileShape};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use half::bf16;

const SIZES: [(&str, usize, usize); 2] = [("cache", 128, 512), ("memory", 4096, 12_288)];

fn weights(count: usize) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / 16_777_216.0 - 0.5
    };
    (0..count)
        .map(|_| (uniform() + uniform() + uniform()) * 0.04)
        .collect()
}

fn codecs() -> impl Iterator<Item = Codec> {
    Isa::present().filter_map(Codec::with_isa)
}

fn copying(c: &mut Criterion) {
    let mut group = c.benchmark_group("copy f32");
    for (size, rows, columns) in SIZES {
        let values = weights(rows * columns);
        let mut copy = vec![0.0f32; values.len()];
        group.throughput(Throughput::Bytes(size_of_val(&values[..]) as u64));
        group.bench_function(BenchmarkId::new(size, ""), |b| {
            b.iter(|| black_box(&mut copy).copy_from_slice(black_box(&values)));
        });
    }
}

fn packing(c: &mut Criterion) {
    for (size, rows, columns) in SIZES {
        let values = weights(rows * columns);
        let halves: Vec<bf16> = values.iter().map(|&x| bf16::from_f32(x)).collect();
        for format in [BlockFormat::Bfp8, BlockFormat::Bfp4] {
            let packing = Packing::new(format);
            let mut bytes =
                vec![
                    0;
                    rows.div_ceil(32) * columns.div_ceil(32) * format.tile_bytes(TileShape::T32)
                ];
            let mut group = c.benchmark_group(format!("f32 to {format}"));
            group.throughput(Throughput::Bytes(size_of_val(&values[..]) as u64));
            for codec in codecs() {
                group.bench_function(BenchmarkId::new(size, codec.isa()), |b| {
                    b.iter(|| {
                        codec.pack_into(black_box(&values), &[rows, columns], packing, &mut bytes)
                    });
                });
            }
            group.finish();
            let mut group = c.benchmark_group(format!("bf16 to {format}"));
            group.throughput(Throughput::Bytes(size_of_val(&halves[..]) as u64));
            for codec in codecs() {
                group.bench_function(BenchmarkId::new(size, codec.isa()), |b| {
                    b.iter(|| {
                        codec.pack_into(black_box(&halves), &[rows, columns], packing, &mut bytes)
                    });
                });
            }
            group.finish();
            let mut group = c.benchmark_group(format!("bf16 transposed to {format}"));
            group.throughput(Throughput::Bytes(size_of_val(&halves[..]) as u64));
            let bands = 0..columns.div_ceil(32);
            for codec in codecs() {
                group.bench_function(BenchmarkId::new(size, codec.isa()), |b| {
                    b.iter(|| {
                        let (source, bands) = (black_box(&halves), bands.clone());
                        codec
                            .pack_transposed_band(source, rows, columns, bands, packing, &mut bytes)
                    });
                });
            }
            group.finish();
        }
    }
}

fn unpacking(c: &mut Criterion) {
    for (size, rows, columns) in SIZES {
        let mut values = weights(rows * columns);
        for format in [BlockFormat::Bfp8, BlockFormat::Bfp4] {
            let bytes = bfp_format::pack(&values, &[rows, columns], format)
                .expect("as many as the shape's");
            let mut group = c.benchmark_group(format!("{format} to f32"));
            group.throughput(Throughput::Bytes(size_of_val(&values[..]) as u64));
            for codec in codecs() {
                group.bench_function(BenchmarkId::new(size, codec.isa()), |b| {
                    b.iter(|| {
                        let shape = [rows, columns];
                        codec.unpack_into(
                            black_box(&bytes),
                            &shape,
                            format,
                            TileShape::T32,
                            &mut values,
                        )
                    });
                });
            }
            group.finish();
        }
    }
}

criterion_group! {
    name = codec;
    config = Criterion::default().sample_size(10);
    targets = copying, packing, unpacking
}
criterion_main!(codec);
