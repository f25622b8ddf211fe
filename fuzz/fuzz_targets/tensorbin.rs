//! Any bytes: read without a panic, and what is read is written and read again as it was.

#![no_main]

use bfp_format::tensorbin::{Header, TensorFile};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = TensorFile::parse(bytes) else { return };
    let _ = file.values();
    if let Ok(written) = file.header().to_bytes() {
        assert_eq!(&Header::parse(&written).expect("our own header").0, file.header());
    }
});
