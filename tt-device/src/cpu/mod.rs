//! The CPU as a device: contract `host/1` (or `host-f32/1`) on the instruction sets that are present.

mod isa;
mod kernels;
mod memory;
mod ops;
mod recorder;
mod self_test;

use std::convert::Infallible;
use std::sync::Mutex;

pub use isa::{Isa, UnknownIsa};
pub use memory::{HostBuf, HostKv};
pub use recorder::CpuRecorder;

use crate::backend::{Backend, Element, KvShape};
use crate::weight::WeightView;
use crate::{Contract, DeviceError};
use kernels::Kernels;
use recorder::Scratch;

/// A CPU opened as a device.
///
/// Holds its own compute threads; they are entered once per [`Backend::execute`] and split the
/// columns of a linear, the heads of attention and of the delta rule. No result depends on them.
#[derive(Debug)]
pub struct Cpu {
    contract: Contract,
    kernels: &'static Kernels,
    pool: rayon::ThreadPool,
    scratch: Mutex<Scratch>,
}

impl Cpu {
    /// Starts from the defaults: `host/1`, the best instruction set, one thread per physical core.
    #[must_use]
    pub fn builder() -> CpuBuilder {
        CpuBuilder::default()
    }

    /// The instruction set in use.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.kernels.isa
    }

    /// The compute threads in use.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }
}

/// Options of [`Cpu`].
#[derive(Debug, Clone, Default)]
pub struct CpuBuilder {
    contract: Option<Contract>,
    isa: Option<Isa>,
    threads: Option<usize>,
}

impl CpuBuilder {
    /// The contract to compute; `host/1` by default.
    #[must_use]
    pub const fn contract(mut self, contract: Contract) -> Self {
        self.contract = Some(contract);
        self
    }

    /// The instruction set to use instead of the best one.
    #[must_use]
    pub const fn isa(mut self, isa: Isa) -> Self {
        self.isa = Some(isa);
        self
    }

    /// Compute threads; 0 or unset means one per physical core.
    #[must_use]
    pub const fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Opens the device: picks kernels, tests them against the definition, starts the threads.
    ///
    /// Kernels that differ from the definition on this CPU are replaced by the next weaker set,
    /// with a warning in the log.
    ///
    /// # Errors
    /// [`DeviceError::IsaAbsent`] when an instruction set was named that this CPU lacks;
    /// [`DeviceError::Threads`] when the threads cannot be started.
    pub fn open(self) -> Result<Cpu, DeviceError> {
        let asked = self.isa.unwrap_or_else(Isa::best);
        if !asked.is_present() {
            let present: Vec<_> = Isa::present().into_iter().map(Isa::name).collect();
            return Err(DeviceError::IsaAbsent {
                asked: asked.name().into(),
                present: present.join(", "),
            });
        }
        let kernels = self_test::first_that_agrees(asked);
        let threads = self
            .threads
            .filter(|n| *n > 0)
            .unwrap_or_else(physical_cores);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("compute-{i}"))
            .build()
            .map_err(|source| DeviceError::Threads { threads, source })?;
        Ok(Cpu {
            contract: self.contract.unwrap_or(Contract::Host1),
            kernels,
            pool,
            scratch: Mutex::new(Scratch::default()),
        })
    }
}

/// Physical cores that this process may use: hardware threads of one core share its vector units
/// and its share of the memory bandwidth.
fn physical_cores() -> usize {
    let logical = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let siblings =
        std::fs::read_to_string("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
            .map_or(1, |list| sibling_count(list.trim()));
    (logical / siblings).max(1)
}

/// CPUs named by a list such as `0,4` or `0-1`.
fn sibling_count(list: &str) -> usize {
    let count = list
        .split(',')
        .map(|part| match part.split_once('-') {
            Some((first, last)) => match (first.parse::<usize>(), last.parse::<usize>()) {
                (Ok(first), Ok(last)) if last >= first => last - first + 1,
                _ => 1,
            },
            None => 1,
        })
        .sum::<usize>();
    count.max(1)
}

impl Backend for Cpu {
    type Buf<T: Element> = HostBuf<T>;
    type Weight = WeightView;
    type Kv = HostKv;
    type Rec<'d> = CpuRecorder<'d>;
    type Graph = Infallible;

    fn contract(&self) -> Contract {
        self.contract
    }

    fn describe(&self) -> String {
        format!("cpu {} x{}", self.isa(), self.threads())
    }

    fn alloc<T: Element>(&self, len: usize) -> Result<HostBuf<T>, DeviceError> {
        HostBuf::zeroed(len)
    }

    fn write<T: Element>(
        &self,
        dst: &mut HostBuf<T>,
        offset: usize,
        src: &[T],
    ) -> Result<(), DeviceError> {
        dst.write(offset, src)
    }

    fn read<T: Element>(
        &self,
        src: &HostBuf<T>,
        offset: usize,
        dst: &mut [T],
    ) -> Result<(), DeviceError> {
        src.read(offset, dst)
    }

    fn load(&self, weight: WeightView) -> Result<WeightView, DeviceError> {
        Ok(weight)
    }

    fn alloc_kv(&self, shape: KvShape) -> Result<HostKv, DeviceError> {
        HostKv::zeroed(shape, self.contract)
    }

    fn read_kv(
        &self,
        kv: &HostKv,
        first: usize,
        rows: usize,
        keys: &mut Vec<f32>,
        values: &mut Vec<f32>,
    ) -> Result<(), DeviceError> {
        let shape = kv.shape();
        if first
            .checked_add(rows)
            .is_none_or(|end| end > shape.capacity)
        {
            return Err(DeviceError::BufferRange {
                offset: first,
                elements: rows,
                capacity: shape.capacity,
            });
        }
        keys.clear();
        values.clear();
        for position in first..first + rows {
            for head in 0..shape.heads {
                keys.extend((0..shape.head_dim).map(|d| kv.key(head, position, d)));
                values.extend((0..shape.head_dim).map(|d| kv.value(head, position, d)));
            }
        }
        Ok(())
    }

    fn execute<R: Send>(
        &self,
        f: impl FnOnce(&mut CpuRecorder<'_>) -> Result<R, DeviceError> + Send,
    ) -> Result<R, DeviceError> {
        // A panic in a kernel leaves scratch of unspecified contents, which every use overwrites.
        let mut scratch = self
            .scratch
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let scratch = &mut *scratch;
        self.pool
            .install(|| f(&mut CpuRecorder::new(self.contract, self.kernels, scratch)))
    }

    fn capture(
        &self,
        _: impl FnOnce(&mut CpuRecorder<'_>) -> Result<(), DeviceError> + Send,
    ) -> Result<Option<Infallible>, DeviceError> {
        Ok(None)
    }

    fn replay(&self, graph: &Infallible) -> Result<(), DeviceError> {
        match *graph {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sibling_lists_are_counted() {
        assert_eq!(sibling_count("0"), 1);
        assert_eq!(sibling_count("0,4"), 2);
        assert_eq!(sibling_count("0-1"), 2);
        assert_eq!(sibling_count(""), 1);
    }

    #[test]
    fn the_threads_asked_for_are_started() {
        assert_eq!(Cpu::builder().threads(3).open().unwrap().threads(), 3);
    }
}
