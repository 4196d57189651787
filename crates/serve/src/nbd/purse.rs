// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory for what is under way, one bound for all connections of a server.
//!
//! Each connection always has [`FLOOR`] bytes. What it needs beyond comes from one purse,
//! by turns in the order of asking and by what the client has moved. When the purse is
//! empty, a connection gives way whose client has moved no byte for [`PATIENCE`]: it takes
//! no replies, or does not send what it announced.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::channel::Channel;

/// Bytes that all connections have together, beyond their floors.
pub const PURSE: usize = 256 << 20;

/// Bytes that each connection has in any case: enough for small requests.
pub const FLOOR: usize = 128 << 10;

/// How long a client may move no byte while others wait for memory.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often the first of those that wait looks whether there is one.
const LOOK: Duration = Duration::from_millis(20);

/// The most threads that all connections have beside one each.
const HELPERS: usize = 64;

/// So many connections have long inboxes.
const LONG_INBOXES: usize = 64;

/// What all connections share.
#[derive(Debug, Default)]
pub struct Purse {
    state: Mutex<State>,
    freed: Condvar,
    helpers: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// In the order of asking.
    waiting: Vec<Waiting>,
    /// How many of them have got what they asked for.
    served: u64,
    next: u64,
    accounts: HashMap<u64, Arc<Account>>,
    /// How much the clients of those that hold something had moved, and since when.
    seen: HashMap<u64, (u64, Instant)>,
}

/// A request for memory.
#[derive(Debug)]
struct Waiting {
    turn: u64,
    /// How often its client had moved bytes.
    moved: u64,
}

impl State {
    /// Who is next: in turn who has asked first, and who has moved most. So a thousand that
    /// have come to take nothing do not keep those out that are at work.
    fn first(&self) -> Option<u64> {
        let mut waiting = self.waiting.iter();
        let first = match self.served % 2 {
            0 => waiting.next(),
            // The last of equals is what `max_by_key` takes.
            _ => waiting.rev().max_by_key(|waiting| waiting.moved),
        };
        first.map(|waiting| waiting.turn)
    }

    /// Of those whose clients have moved nothing for long, the one that has most.
    fn stalled(&mut self) -> Option<Arc<Account>> {
        let mut stalled: Option<(usize, u64)> = None;
        let now = Instant::now();
        for (&number, account) in &self.accounts {
            let (held, moved) = (account.held.load(Relaxed), account.moved.load(Relaxed));
            let seen = self.seen.entry(number).or_insert((moved, now));
            if seen.0 != moved || held == 0 || account.at_disk.load(Relaxed) > 0 {
                *seen = (moved, now);
            } else if now.duration_since(seen.1) >= PATIENCE
                && stalled.is_none_or(|(most, _)| most < held)
            {
                stalled = Some((held, number));
            }
        }
        let (_, number) = stalled?;
        // It has a while to end.
        self.seen.remove(&number);
        self.accounts.get(&number).cloned()
    }
}

/// What one connection has.
pub struct Share {
    purse: Arc<Purse>,
    number: u64,
    account: Arc<Account>,
    has_long_inbox: bool,
}

/// What is known of it to all.
struct Account {
    channel: Arc<dyn Channel>,
    /// Of the floor, and of the purse.
    floor: AtomicUsize,
    held: AtomicUsize,
    /// Counts whenever bytes have moved.
    moved: AtomicU64,
    /// How many batches are up to the disk.
    at_disk: AtomicUsize,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").finish_non_exhaustive()
    }
}

/// Bytes that a batch has, until dropped.
pub struct Lease {
    share: Arc<Share>,
    len: usize,
    is_floor: bool,
}

/// A batch that is up to the disk, until dropped.
pub struct AtDisk<'a>(&'a Share);

/// A thread beside a connection's own, until dropped.
#[derive(Debug)]
pub struct Helper(Arc<Purse>);

impl Purse {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there may be one more thread.
    pub fn helper(self: &Arc<Self>) -> Option<Helper> {
        let more = |helpers| (helpers < HELPERS).then_some(helpers + 1);
        let counted = self.helpers.fetch_update(Relaxed, Relaxed, more);
        counted.ok().map(|_| Helper(Arc::clone(self)))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.0.helpers.fetch_sub(1, Relaxed);
    }
}

impl Share {
    /// That of the connection of `channel`.
    pub fn new(purse: &Arc<Purse>, channel: Arc<dyn Channel>) -> Arc<Self> {
        let mut state = purse.lock();
        let number = state.next;
        state.next += 1;
        let has_long_inbox = state.accounts.len() < LONG_INBOXES;
        let account = Arc::new(Account {
            channel,
            floor: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            moved: AtomicU64::new(0),
            at_disk: AtomicUsize::new(0),
        });
        state.accounts.insert(number, Arc::clone(&account));
        drop(state);
        Arc::new(Self {
            purse: Arc::clone(purse),
            number,
            account,
            has_long_inbox,
        })
    }

    /// Whether the connection may have much memory for what has come and is not looked at.
    pub fn has_long_inbox(&self) -> bool {
        self.has_long_inbox
    }

    /// To be called when the client has sent or taken some bytes.
    pub fn note_moved(&self) {
        self.account.moved.fetch_add(1, Relaxed);
    }

    /// From now until dropped it is not up to the client.
    pub fn at_disk(&self) -> AtDisk<'_> {
        self.account.at_disk.fetch_add(1, Relaxed);
        AtDisk(self)
    }

    /// Waits for `len` bytes, at most [`PURSE`].
    pub fn take(self: &Arc<Self>, len: usize) -> Lease {
        let lease = |is_floor| Lease {
            share: Arc::clone(self),
            len,
            is_floor,
        };
        let fits = |floor| (floor + len <= FLOOR).then_some(floor + len);
        if self
            .account
            .floor
            .fetch_update(Relaxed, Relaxed, fits)
            .is_ok()
        {
            return lease(true);
        }
        let mut state = self.purse.lock();
        if !state.waiting.is_empty() || state.used + len > PURSE {
            state = self.wait(state, len);
        }
        state.used += len;
        self.account.held.fetch_add(len, Relaxed);
        lease(false)
    }

    /// Waits until it is this one's turn, and there are `len` bytes.
    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>, len: usize) -> MutexGuard<'a, State> {
        let turn = state.next;
        state.next += 1;
        let moved = self.account.moved.load(Relaxed);
        state.waiting.push(Waiting { turn, moved });
        loop {
            let is_first = state.first() == Some(turn);
            if is_first && state.used + len <= PURSE {
                state.waiting.retain(|waiting| waiting.turn != turn);
                state.served += 1;
                self.purse.freed.notify_all();
                return state;
            }
            if is_first && let Some(account) = state.stalled() {
                // It may have a last word to send, which nobody else should wait for.
                drop(state);
                account.channel.shutdown();
                state = self.purse.lock();
                continue;
            }
            // Only a grant makes another one the first, and it wakes all.
            state = if is_first {
                let waited = self.purse.freed.wait_timeout(state, LOOK);
                waited.unwrap_or_else(PoisonError::into_inner).0
            } else {
                let waited = self.purse.freed.wait(state);
                waited.unwrap_or_else(PoisonError::into_inner)
            };
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.purse.lock();
        state.accounts.remove(&self.number);
        state.seen.remove(&self.number);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let share = &self.share;
        if self.is_floor {
            share.account.floor.fetch_sub(self.len, Relaxed);
            return;
        }
        let mut state = share.purse.lock();
        state.used -= self.len;
        share.account.held.fetch_sub(self.len, Relaxed);
        if !state.waiting.is_empty() {
            share.purse.freed.notify_all();
        }
    }
}

impl Drop for AtDisk<'_> {
    fn drop(&mut self) {
        self.0.account.at_disk.fetch_sub(1, Relaxed);
        // What follows is up to the client from now on.
        self.0.note_moved();
    }
}
