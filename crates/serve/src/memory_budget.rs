// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits the memory for requests in progress, for all connections to an export together.
//!
//! Each connection has [`FLOOR`] bytes of its own, which one of its batches uses at a time. Memory
//! beyond that comes from a budget that all connections share, if enough is left in it at that
//! moment. Otherwise the batch is processed in the connection's own [`FLOOR`] bytes, piece by
//! piece: a piece of a write is received and written, a piece of a read is read and sent.
//!
//! So no client ever waits for memory that another client holds, and no policy of sharing is
//! needed. Clients that announce writes and never send them, send a byte now and then, or do not
//! read their replies can hold the whole budget for as long as they like. The only effect on others
//! is that their long requests are processed in shorter pieces. A batch waits only for its own
//! connection's bytes. They are free as soon as the client has read the replies to its earlier
//! requests.

use std::{
    mem,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use luxor_sector::Buffers;

/// The bytes that all connections share beyond their floors. `SECURITY.md` promises 256 MiB. The
/// remaining quarter is for memory that is not counted here: the buffers that are kept
/// ([`Buffers`]), the stacks of the helpers, TLS, and the long inboxes.
pub const SHARED: usize = 192 << 20;

/// The bytes that each connection always has: enough for small requests.
pub const FLOOR: usize = 128 << 10;

/// The most helper threads of all connections together. Each connection also has one thread of its
/// own.
const HELPERS: usize = 64;

/// The number of connections that have long inboxes.
const LONG_INBOXES: usize = 64;

/// The counters that all connections share.
#[derive(Debug, Default)]
pub struct MemoryBudget {
    used: AtomicUsize,
    helpers: AtomicUsize,
    connections: AtomicUsize,
}

/// The memory of one connection.
#[derive(Debug)]
pub struct Share {
    budget: Arc<MemoryBudget>,
    /// Whether a batch is using the floor.
    floor_taken: Mutex<bool>,
    floor_freed: Condvar,
    has_long_inbox: bool,
}

/// Memory for a batch, until dropped.
#[derive(Debug)]
pub struct BatchMemory {
    share: Arc<Share>,
    len: usize,
    is_floor: bool,
}

/// A helper thread of a connection, counted until dropped.
#[derive(Debug)]
pub struct Helper(Arc<MemoryBudget>);

impl MemoryBudget {
    /// Counts one more helper thread, unless there are too many.
    pub fn helper(self: &Arc<Self>) -> Option<Helper> {
        let counted = add_within(&self.helpers, 1, HELPERS);
        counted.then(|| Helper(Arc::clone(self)))
    }

    /// Uses up the whole budget, as hostile clients would.
    #[cfg(test)]
    pub fn empty(&self) {
        self.used.store(SHARED, Relaxed);
    }
}

/// Adds `len` if the sum is at most `most`.
fn add_within(counter: &AtomicUsize, len: usize, most: usize) -> bool {
    let sum = |used: usize| used.checked_add(len).filter(|&sum| sum <= most);
    counter.fetch_update(Relaxed, Relaxed, sum).is_ok()
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.0.helpers.fetch_sub(1, Relaxed);
    }
}

impl Share {
    /// Makes the share of one more connection.
    pub fn new(budget: &Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(Self {
            has_long_inbox: budget.connections.fetch_add(1, Relaxed) < LONG_INBOXES,
            budget: Arc::clone(budget),
            floor_taken: Mutex::default(),
            floor_freed: Condvar::new(),
        })
    }

    /// Whether the connection may use a long buffer for bytes that are not parsed yet.
    pub fn has_long_inbox(&self) -> bool {
        self.has_long_inbox
    }

    /// Takes memory for `len` bytes, or [`FLOOR`] bytes if the budget does not have enough. Waits at
    /// most for another batch of the same connection.
    pub fn take(self: &Arc<Self>, len: usize) -> BatchMemory {
        let memory = |len, is_floor| BatchMemory {
            share: Arc::clone(self),
            len,
            is_floor,
        };
        let mut floor_taken = self.lock();
        let len = Buffers::rounded(len);
        if (len > FLOOR || *floor_taken) && add_within(&self.budget.used, len, SHARED) {
            return memory(len, false);
        }
        while mem::replace(&mut *floor_taken, true) {
            let waited = self.floor_freed.wait(floor_taken);
            floor_taken = waited.unwrap_or_else(PoisonError::into_inner);
        }
        memory(FLOOR, true)
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.floor_taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl BatchMemory {
    /// The number of bytes. A buffer of [`Buffers`] is exactly this long.
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.connections.fetch_sub(1, Relaxed);
    }
}

impl Drop for BatchMemory {
    fn drop(&mut self) {
        if self.is_floor {
            *self.share.lock() = false;
            self.share.floor_freed.notify_one();
        } else {
            self.share.budget.used.fetch_sub(self.len, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds whatever other connections have taken.
    #[test]
    fn a_connection_always_gets_its_floor_and_the_budget_is_never_overdrawn() {
        let budget = Arc::<MemoryBudget>::default();
        let greedy = Share::new(&budget);
        let mut held = Vec::new();
        for len in [32 << 20, 1 << 20, FLOOR + 1, 1].into_iter().cycle() {
            let memory = greedy.take(len);
            assert!(memory.len() >= len || memory.is_floor, "{len}");
            held.push(memory);
            assert!(budget.used.load(Relaxed) <= SHARED);
            // With less left, the greedy connection would wait for its own floor.
            if SHARED - budget.used.load(Relaxed) < 32 << 20 {
                break;
            }
        }
        budget.empty();
        for len in [1, FLOOR, FLOOR + 1, 32 << 20] {
            let share = Share::new(&budget);
            let memory = share.take(len);
            assert!(memory.is_floor && memory.len() == FLOOR, "{len}");
        }
    }

    #[test]
    fn batches_of_one_connection_use_the_floor_in_turn() {
        let budget = Arc::<MemoryBudget>::default();
        budget.empty();
        let share = Share::new(&budget);
        let first = share.take(1);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| share.take(32 << 20).len());
            drop(first);
            assert_eq!(second.join().unwrap(), FLOOR);
        });
        assert!(!*share.lock());
    }

    #[test]
    fn returned_memory_is_available_again() {
        let budget = Arc::<MemoryBudget>::default();
        let share = Share::new(&budget);
        for _ in 0..100 {
            let all = [(); SHARED / (32 << 20)].map(|()| share.take(32 << 20));
            assert!(all.iter().all(|memory| !memory.is_floor));
        }
        assert_eq!(budget.used.load(Relaxed), 0);
    }
}
