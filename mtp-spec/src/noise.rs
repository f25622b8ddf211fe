pub(crate) fn stream_bits(_seed: u64, _position: u64, _index: u64) -> u64 { 0 }
/// Noise
#[derive(Clone, Copy, Debug)]
pub struct Noise;
