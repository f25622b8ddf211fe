//! Packs a matrix in each block format, and says what it costs: bytes, and the error as a signal-to-noise ratio.
//!
//! ```sh
//! cargo run --example bfp_roundtrip
//! ```

use anyhow::Result;
use bfp_format::tensorbin::{DataType, Header, Layout, TensorFile};
use bfp_format::{BlockFormat, Codec, Packing, Rounding, TileShape, pack, unpack};

fn main() -> Result<()> {
    let shape = [128, 320];
    let weights = weights(shape[0] * shape[1]);
    println!(
        "a {shape:?} matrix of f32, {} bytes; packed on {}",
        4 * weights.len(),
        Codec::default().isa()
    );
    println!(
        "{:8} {:22} {:>7} {:>10} {:>9}",
        "format", "rounding", "bytes", "bits/value", "SQNR"
    );
    for format in BlockFormat::ALL {
        for rounding in Rounding::ALL {
            let packed = pack(&weights, &shape, Packing::new(format).rounding(rounding))?;
            let restored = unpack(&packed, &shape, format, TileShape::T32)?;
            let bits = 8.0 * packed.len() as f64 / weights.len() as f64;
            let ratio = signal_to_noise(&weights, &restored);
            println!(
                "{format:8} {rounding:22} {:7} {bits:10.2} {ratio:6.1} dB",
                packed.len()
            );
        }
    }

    // The same bytes in a file that ttnn.load_tensor reads.
    let header = Header::new(DataType::BFloat8B, Layout::TILE, &shape)?;
    let file = header.to_file(&pack(&weights, &shape, BlockFormat::Bfp8)?)?;
    let read = TensorFile::parse(&file)?;
    println!(
        "\nas .tensorbin: {} bytes, data from byte {}",
        file.len(),
        read.data_start()
    );
    assert_eq!(read.values()?.shape, shape);
    Ok(())
}

/// Roughly normal numbers from a fixed generator, as trained weights are.
fn weights(count: usize) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / 16_777_216.0 - 0.5
    };
    (0..count)
        .map(|_| 0.04 * (0..12).map(|_| uniform()).sum::<f32>())
        .collect()
}

/// Power of the values over power of the error, in decibels.
fn signal_to_noise(values: &[f32], restored: &[f32]) -> f64 {
    let power = |x: f64| x * x;
    let signal: f64 = values.iter().map(|&x| power(x.into())).sum();
    let noise: f64 = values
        .iter()
        .zip(restored)
        .map(|(&x, &y)| power(f64::from(x) - f64::from(y)))
        .sum();
    10.0 * (signal / noise).log10()
}
