//! placeholder
use super::super::dispatch::Table;
pub(super) fn table() -> Option<&'static Table> { None }
