//! Any numbers: every instruction set packs the same bytes, and they are canonical.

#![no_main]

use bfp_format::{BlockFormat, Codec, Isa, Packing, Rounding, TileShape, first_not_canonical};

libfuzzer_sys::fuzz_target!(|input: (u8, Vec<u32>)| {
    let (format, rounding) = (BlockFormat::ALL[usize::from(input.0 % 3)], Rounding::ALL[usize::from(input.0 % 2)]);
    let values: Vec<f32> = input.1.into_iter().map(f32::from_bits).collect();
    let shape = [values.len().div_ceil(48).max(1), 48];
    let values = [values, vec![0.0; shape[0] * 48]].concat()[..shape[0] * 48].to_vec();
    let packing = Packing::new(format).rounding(rounding);
    let packed = Isa::present().filter_map(Codec::with_isa).map(|codec| codec.pack(&values, &shape, packing));
    let packed: Vec<Vec<u8>> = packed.collect::<Result<_, _>>().expect("as many values as the shape's");
    assert!(packed.iter().all(|bytes| *bytes == packed[0]));
    assert_eq!(first_not_canonical(&packed[0], &shape, format, TileShape::T32), Ok(None));
});
