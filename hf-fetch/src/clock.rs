//! Time, as something a test can stand in for.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

/// Waiting between attempts, and the wall clock that `Retry-After` dates are compared with.
pub trait Clock: Debug + Send + Sync {
    /// The present time of day.
    fn now(&self) -> SystemTime;

    /// Completes after `pause`.
    fn sleep(&self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(pause))
    }
}
