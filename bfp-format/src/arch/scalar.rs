//! The definition, as kernels.

use super::{Encoders, Isa, Kernels};
use crate::definition::{decode_value, encode_group, pack_codes, unpack_codes};
use crate::{BlockFormat, GROUP, Rounding, Source};

pub(super) static KERNELS: Kernels = Kernels {
    isa: Isa::Scalar,
    f32: Encoders {
        rows: encode_rows,
        columns: encode_columns,
    },
    bf16: Encoders {
        rows: encode_rows,
        columns: encode_columns,
    },
    decode_rows,
};

fn encode_rows<S: Source>(
    format: BlockFormat,
    rounding: Rounding,
    source: &[S],
    stride: usize,
    exponents: &mut [u8],
    codes: &mut [u8],
) {
    encode_groups(format, rounding, exponents, codes, |row, i| {
        source[row * stride + i]
    });
}

fn encode_columns<S: Source>(
    format: BlockFormat,
    rounding: Rounding,
    source: &[S],
    stride: usize,
    exponents: &mut [u8; 16],
    codes: &mut [u8],
) {
    encode_groups(format, rounding, exponents, codes, |row, i| {
        source[i * stride + row]
    });
}

fn encode_groups<S: Source>(
    format: BlockFormat,
    rounding: Rounding,
    exponents: &mut [u8],
    codes: &mut [u8],
    element: impl Fn(usize, usize) -> S,
) {
    let packed = codes.chunks_exact_mut(format.group_code_bytes());
    assert_eq!(packed.len(), exponents.len(), "codes for each exponent");
    for (row, (exponent, packed)) in exponents.iter_mut().zip(packed).enumerate() {
        let group: [f32; GROUP] = std::array::from_fn(|i| element(row, i).widen());
        let (shared, codes) = encode_group(&group, format, rounding);
        *exponent = shared;
        pack_codes(format, &codes, packed);
    }
}

fn decode_rows(
    format: BlockFormat,
    exponents: &[u8],
    codes: &[u8],
    out: &mut [f32],
    stride: usize,
) {
    let packed = codes.chunks_exact(format.group_code_bytes());
    assert_eq!(packed.len(), exponents.len(), "codes for each exponent");
    for (row, (&exponent, packed)) in exponents.iter().zip(packed).enumerate() {
        let codes = unpack_codes(format, packed);
        for (value, code) in out[row * stride..][..GROUP].iter_mut().zip(codes) {
            *value = decode_value(format, exponent, code);
        }
    }
}
