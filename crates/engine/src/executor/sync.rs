// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the threads work together: with the standard library, or under the control of a model.

#[cfg(not(all(test, model)))]
pub(super) use std::{
    hint,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

#[cfg(all(test, model))]
pub(super) use self::model::*;

#[cfg(all(test, model))]
mod model {
    use std::time::Duration;

    use shuttle::rand::{Rng, thread_rng};
    pub(in super::super) use shuttle::{
        hint,
        sync::{
            Arc, Condvar, Mutex, MutexGuard, PoisonError,
            atomic::{AtomicUsize, Ordering},
        },
        thread::{self, JoinHandle},
    };

    /// A clock that decides at random whether much time has passed.
    pub(in super::super) struct Instant;

    impl Instant {
        pub(in super::super) fn now() -> Self {
            Self
        }

        #[expect(clippy::unused_self, reason = "as in the standard library")]
        pub(in super::super) fn elapsed(&self) -> Duration {
            Duration::from_secs(thread_rng().gen_range(0..2))
        }
    }
}
