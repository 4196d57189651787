// SPDX-License-Identifier: MIT OR Apache-2.0
//! The locks of a disk: those of the standard library, or those under the control of a model.

#[cfg(all(test, model))]
pub use shuttle::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
#[cfg(not(all(test, model)))]
pub use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
