//! How operations are split over the compute threads.

pub(crate) mod attention;
pub(crate) mod delta;
pub(crate) mod linear;
pub(crate) mod rows;
