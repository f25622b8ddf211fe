//! What the tests of fast kernels share: every instruction set present, seeded noise, comparison of bits.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::OnceLock;

use tt_device::cpu::HostBuf;
use tt_device::{Backend, Contract, Cpu, Isa};

/// A device for every instruction set and contract, on one and on three threads.
pub(crate) fn devices() -> &'static [Cpu] {
    static DEVICES: OnceLock<Vec<Cpu>> = OnceLock::new();
    DEVICES.get_or_init(open_devices)
}

fn open_devices() -> Vec<Cpu> {
    let mut devices = Vec::new();
    for isa in Isa::present() {
        for contract in [Contract::Host1, Contract::HostF32] {
            for threads in [1, 3] {
                let cpu = Cpu::builder()
                    .isa(isa)
                    .contract(contract)
                    .threads(threads)
                    .open()
                    .unwrap();
                assert_eq!(cpu.isa(), isa, "the start-up test refused a table");
                devices.push(cpu);
            }
        }
    }
    devices
}

/// Device memory with these elements.
pub(crate) fn buffer(cpu: &Cpu, elements: &[f32]) -> HostBuf<f32> {
    let mut buffer = cpu.alloc(elements.len()).unwrap();
    cpu.write(&mut buffer, 0, elements).unwrap();
    buffer
}

/// Device memory with one number.
pub(crate) fn number(cpu: &Cpu, x: u32) -> HostBuf<u32> {
    let mut buffer = cpu.alloc(1).unwrap();
    cpu.write(&mut buffer, 0, &[x]).unwrap();
    buffer
}

/// Equal bits, or both not a number.
#[track_caller]
pub(crate) fn assert_bits(cpu: &Cpu, what: &str, got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(
            g.to_bits() == e.to_bits() || (g.is_nan() && e.is_nan()),
            "{what} on {} under {}: element {i} is {g:e} ({:#x}), the definition says {e:e} ({:#x})",
            cpu.describe(),
            cpu.contract(),
            g.to_bits(),
            e.to_bits(),
        );
    }
}

/// xorshift numbers.
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn bits(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }

    pub(crate) fn below(&mut self, n: u32) -> u32 {
        self.bits() % n
    }

    /// Between -1 and 1.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.bits() >> 8) as f32 / (1 << 23) as f32 - 1.0
    }

    pub(crate) fn units(&mut self, len: usize, scale: f32) -> Vec<f32> {
        (0..len).map(|_| self.unit() * scale).collect()
    }

    /// Mostly moderate numbers; among them zeros of both signs, denormals, and the very large.
    pub(crate) fn wild(&mut self) -> f32 {
        match self.below(16) {
            0 => 0.0,
            1 => -0.0,
            2 => f32::from_bits(self.bits() & 0x807f_ffff),
            3 => f32::from_bits((self.bits() & 0x807f_ffff) | (self.below(255) << 23)),
            4 => self.unit() * 90.0,
            5 => self.unit() * 1e-12,
            6 => (self.unit() * 30.0).round(),
            _ => self.unit() * 4.0,
        }
    }

    pub(crate) fn wilds(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.wild()).collect()
    }
}
