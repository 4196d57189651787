// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queues of all devices, shared by all calls.
//!
//! Queues are made on demand and kept. A call that has no queue waits its turn for one. A call that
//! has a queue and asks for another never waits, so no call that waits holds a queue that another
//! waits for.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use luxor_engine::PAGE;

use crate::{
    device::{Device, Queue, QueueSizes},
    error::DeviceError,
    layout::{BLOCK, Piece},
    tuning::Tuning,
};

/// The least bytes of data of a queue, unless the tuning asks for less.
const LEAST: usize = 256 << 10;

/// After memory was short, the limit on queues rises by one each time that this many queues have
/// been given back, since other programs may have freed memory. Attempts are rare because a failed
/// one costs more than a short call.
const RETRY: usize = 1024;

pub(crate) struct Pool<D: Device> {
    devices: Vec<D>,
    tuning: Tuning,
    state: Mutex<State<D::Queue>>,
    changed: Condvar,
}

struct State<Q: Queue> {
    devices: Vec<DeviceState<Q>>,
    /// The number of the next waiting call, and the number of the call that may take a queue.
    tickets: u64,
    turn: u64,
}

struct DeviceState<Q: Queue> {
    idle: Vec<Held<Q>>,
    /// Queues that are idle, lent or being made.
    made: usize,
    /// The most queues of this device; never 0.
    limit: usize,
    /// Queues given back since the limit was last lowered.
    given_back: usize,
    /// Bytes of data of a new queue.
    batch: usize,
    lost: Option<DeviceError>,
}

impl<Q: Queue> DeviceState<Q> {
    fn lent(&self) -> usize {
        self.made - self.idle.len()
    }

    /// Lowers the limit to `limit` queues because memory is short.
    fn lower(&mut self, limit: usize) {
        self.limit = limit;
        self.given_back = 0;
    }

    fn put_back(&mut self, held: Held<Q>, most: usize) {
        self.idle.push(held);
        self.given_back += 1;
        if self.given_back.is_multiple_of(RETRY) {
            self.limit = most.min(self.limit + 1);
        }
    }
}

struct Held<Q: Queue> {
    queue: Q,
    sizes: QueueSizes,
    /// The part of the queue's memory written to since it was last wiped.
    used: QueueSizes,
}

impl<Q: Queue> Held<Q> {
    /// Waits for the commands under way, and wipes.
    fn clean(&mut self) -> Result<(), DeviceError> {
        if self.used == QueueSizes::default() {
            return Ok(());
        }
        let waited = self.queue.wait();
        let wiped = self.queue.wipe(self.used);
        self.used = QueueSizes::default();
        waited.and(wiped)
    }
}

impl<Q: Queue> Drop for Held<Q> {
    /// Cleans the queue here too, in case a panic came before.
    fn drop(&mut self) {
        let _ = self.clean();
    }
}

/// What to do for a call that wants a queue.
enum Choice<Q: Queue> {
    Take(usize, Held<Q>),
    /// Make a queue with this many bytes of data on this device. A queue that is too short, if
    /// given, is dropped first to make room.
    Make(usize, usize, Option<Held<Q>>),
    Wait,
    Lost(DeviceError),
}

impl<D: Device> Pool<D> {
    pub(crate) fn new(devices: Vec<D>, tuning: Tuning) -> Self {
        let state = |_| DeviceState {
            idle: Vec::new(),
            made: 0,
            limit: tuning.queues.max(1),
            given_back: 0,
            batch: tuning.batch.max(BLOCK).next_multiple_of(BLOCK),
            lost: None,
        };
        let state = State {
            devices: (0..devices.len()).map(state).collect(),
            tickets: 0,
            turn: 0,
        };
        Self {
            devices,
            tuning,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn devices(&self) -> &[D] {
        &self.devices
    }

    pub(crate) fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Returns the most queues that may exist on all devices that are not lost.
    pub(crate) fn limit(&self) -> usize {
        let state = self.lock();
        let alive = state.devices.iter().filter(|device| device.lost.is_none());
        alive.map(|device| device.limit).sum()
    }

    /// Returns whether a call is waiting for a queue.
    pub(crate) fn is_wanted(&self) -> bool {
        let state = self.lock();
        state.tickets != state.turn
    }

    /// Returns a queue with at least `need` bytes of data, on `device` if one is given. Waits until
    /// one is available.
    pub(crate) fn take(
        &self,
        need: usize,
        device: Option<usize>,
    ) -> Result<LentQueue<'_, D>, DeviceError> {
        let ticket = self.ticket();
        // Declared before the guard, so dropped after it: its drop takes the lock itself.
        let _turn = Turn { pool: self };
        let mut state = self.lock();
        while state.turn != ticket {
            state = self.wait(state);
        }
        loop {
            match choose(&mut state, need, device) {
                Choice::Take(device, held) => return Ok(self.lease(device, held)),
                Choice::Make(device, data, short) => {
                    drop(state);
                    if let Some(lease) = self.make(device, need, data, short)? {
                        return Ok(lease);
                    }
                    state = self.lock();
                }
                Choice::Wait => state = self.wait(state),
                Choice::Lost(error) => return Err(error),
            }
        }
    }

    fn ticket(&self) -> u64 {
        let mut state = self.lock();
        state.tickets += 1;
        state.tickets - 1
    }

    /// As [`Pool::take`], but returns `None` instead of waiting.
    pub(crate) fn try_take(&self, need: usize) -> Option<LentQueue<'_, D>> {
        loop {
            let mut state = self.lock();
            if state.tickets != state.turn {
                return None;
            }
            match choose(&mut state, need, None) {
                Choice::Take(device, held) => return Some(self.lease(device, held)),
                Choice::Make(device, data, short) => {
                    drop(state);
                    // Discard the error: a caller of `try_take` already has a queue. A call without
                    // one gets the error from `take`.
                    if let Some(lease) = self.make(device, need, data, short).ok()? {
                        return Some(lease);
                    }
                }
                Choice::Wait | Choice::Lost(_) => return None,
            }
        }
    }

    /// If the device is lost, returns the reason.
    pub(crate) fn lost(&self, device: usize) -> Option<DeviceError> {
        self.lock().devices[device].lost.clone()
    }

    /// Marks the device as lost, so that it is no longer used.
    pub(crate) fn lose(&self, device: usize, error: &DeviceError) {
        let mut state = self.lock();
        let gone = &mut state.devices[device];
        gone.lost.get_or_insert_with(|| error.clone());
        let idle = std::mem::take(&mut gone.idle);
        gone.made -= idle.len();
        drop(state);
        self.changed.notify_all();
        discard(idle);
    }

    /// Wipes all idle queues.
    pub(crate) fn wipe_idle(&self) {
        let mut state = self.lock();
        let mut leases = Vec::new();
        for (index, device) in state.devices.iter_mut().enumerate() {
            for held in device.idle.drain(..) {
                leases.push(self.lease(index, held));
            }
        }
        drop(state);
        for lease in leases {
            lease.give_back_wiped();
        }
    }

    fn lease(&self, device: usize, held: Held<D::Queue>) -> LentQueue<'_, D> {
        LentQueue {
            pool: self,
            device,
            held: Some(held),
        }
    }

    /// Makes a queue, which the caller has already counted in `made`. Returns `None` if there was
    /// too little memory but another attempt may succeed.
    fn make(
        &self,
        device: usize,
        need: usize,
        data: usize,
        short: Option<Held<D::Queue>>,
    ) -> Result<Option<LentQueue<'_, D>>, DeviceError> {
        // From here on, dropping the lease uncounts the queue if anything fails.
        let mut lease = LentQueue {
            pool: self,
            device,
            held: None,
        };
        discard(short);
        let sizes = sizes(data);
        let error = match self.devices[device].queue(sizes) {
            Ok(queue) => {
                let used = QueueSizes::default();
                lease.held = Some(Held { queue, sizes, used });
                return Ok(Some(lease));
            }
            Err(error) => error,
        };
        let mut state = self.lock();
        let others = state.devices[device].made - 1;
        let state_of = &mut state.devices[device];
        let result = match &error {
            DeviceError::Lost { .. } => {
                state_of.lost.get_or_insert_with(|| error.clone());
                Ok(None)
            }
            DeviceError::OutOfMemory { .. } if others > 0 => {
                state_of.lower(others);
                Ok(None)
            }
            DeviceError::OutOfMemory { .. } => {
                state_of.lower(1);
                let least = need.max(LEAST.min(self.tuning.batch));
                state_of.batch = (data / 2).max(least).next_multiple_of(BLOCK);
                if data <= least { Err(error) } else { Ok(None) }
            }
            _ => Err(error),
        };
        drop(state);
        drop(lease);
        result
    }

    fn lock(&self) -> MutexGuard<'_, State<D::Queue>> {
        // Nothing panics while the lock is held, so the state behind a poisoned lock is intact.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State<D::Queue>>) -> MutexGuard<'s, State<D::Queue>> {
        let waited = self.changed.wait(state);
        waited.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Device> Drop for Pool<D> {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let devices = state.devices.iter_mut();
        let idle = devices.flat_map(|device| device.idle.drain(..));
        discard(idle);
    }
}

fn discard<Q: Queue>(queues: impl IntoIterator<Item = Held<Q>>) {
    for mut held in queues {
        // If the device refuses to wipe, there is nothing else to try.
        let _ = held.clean();
    }
}

/// Chooses, among the devices that can offer a queue, the one with the fewest lent queues.
fn choose<Q: Queue>(state: &mut State<Q>, need: usize, only: Option<usize>) -> Choice<Q> {
    let suits = |index: &usize| only.is_none_or(|only| only == *index);
    let offers = |device: &DeviceState<Q>| {
        device.lost.is_none() && (device.made < device.limit || !device.idle.is_empty())
    };
    let indices = (0..state.devices.len()).filter(suits);
    let best = indices
        .clone()
        .filter(|&index| offers(&state.devices[index]))
        .min_by_key(|&index| state.devices[index].lent());
    let Some(index) = best else {
        let mut lost = indices.map(|index| &state.devices[index].lost);
        if lost.clone().any(Option::is_none) {
            return Choice::Wait;
        }
        let error = lost.next().cloned().flatten();
        return Choice::Lost(error.unwrap_or_else(|| DeviceError::Lost {
            message: "there is no device".into(),
        }));
    };
    let device = &mut state.devices[index];
    let mut idle = device.idle.iter();
    if let Some(fits) = idle.position(|held| held.sizes.data >= need) {
        return Choice::Take(index, device.idle.swap_remove(fits));
    }
    let short = if device.made < device.limit {
        None
    } else {
        device.made -= 1;
        device.idle.pop()
    };
    device.made += 1;
    Choice::Make(index, device.batch.max(need.next_multiple_of(BLOCK)), short)
}

/// Returns the sizes of a queue with `data` bytes. The tweaks are enough for data units of 32 bytes.
/// The pieces are enough for runs of 512 bytes.
fn sizes(data: usize) -> QueueSizes {
    let piece = size_of::<Piece>();
    QueueSizes {
        data,
        tweaks: (data / 2).max(PAGE / 8).next_multiple_of(BLOCK),
        pieces: (data / 512 * piece).max(16 * piece),
    }
}

/// The turn of a waiting call. Dropping it passes the turn on.
struct Turn<'p, D: Device> {
    pool: &'p Pool<D>,
}

impl<D: Device> Drop for Turn<'_, D> {
    fn drop(&mut self) {
        self.pool.lock().turn += 1;
        self.pool.changed.notify_all();
    }
}

/// A queue lent to a call. If it is dropped without [`LentQueue::give_back`], as after an error or a
/// panic, the commands under way are waited for, and the queue is wiped and dropped.
pub(crate) struct LentQueue<'p, D: Device> {
    pool: &'p Pool<D>,
    device: usize,
    held: Option<Held<D::Queue>>,
}

impl<D: Device> LentQueue<'_, D> {
    pub(crate) fn device(&self) -> usize {
        self.device
    }

    pub(crate) fn sizes(&self) -> QueueSizes {
        self.held().sizes
    }

    /// Makes room for `len` bytes of tweaks, a multiple of 16. With too little memory on the device,
    /// the room stays as it is.
    pub(crate) fn reserve_tweaks(&mut self, len: usize) -> Result<(), DeviceError> {
        let held = self
            .held
            .as_mut()
            .expect("a lease holds its queue until it is dropped");
        if len <= held.sizes.tweaks {
            return Ok(());
        }
        match held.queue.resize_tweaks(len) {
            Ok(()) => {
                held.sizes.tweaks = len;
                Ok(())
            }
            Err(DeviceError::OutOfMemory { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the queue, and records that at most `uses` of its memory will be written to.
    pub(crate) fn queue(&mut self, uses: QueueSizes) -> &mut D::Queue {
        let held = self
            .held
            .as_mut()
            .expect("a lease holds its queue until it is dropped");
        held.used.data = held.used.data.max(uses.data);
        held.used.tweaks = held.used.tweaks.max(uses.tweaks);
        held.used.pieces = held.used.pieces.max(uses.pieces);
        &mut held.queue
    }

    fn held(&self) -> &Held<D::Queue> {
        self.held
            .as_ref()
            .expect("a lease holds its queue until it is dropped")
    }

    /// Returns the queue to the pool. Nothing may be under way on it.
    pub(crate) fn give_back(mut self) {
        let held = self
            .held
            .take()
            .expect("a lease holds its queue until it is dropped");
        let mut state = self.pool.lock();
        let device = &mut state.devices[self.device];
        if device.lost.is_some() {
            drop(state);
            self.held = Some(held);
            return;
        }
        device.put_back(held, self.pool.tuning.queues.max(1));
        drop(state);
        self.pool.changed.notify_all();
        // Skip `drop`: the queue still exists, so it stays counted in `made`.
        std::mem::forget(self);
    }

    /// Waits for the commands under way, wipes the queue and returns it to the pool.
    pub(crate) fn give_back_wiped(mut self) {
        match self.held.as_mut().map(Held::clean) {
            Some(Err(error)) => self.fail(&error),
            _ => self.give_back(),
        }
    }

    /// Drops the queue after `error`, and marks its device as lost if `error` says so.
    pub(crate) fn fail(self, error: &DeviceError) {
        if error.is_lost() {
            self.pool.lose(self.device, error);
        }
    }
}

impl<D: Device> Drop for LentQueue<'_, D> {
    fn drop(&mut self) {
        let counted = CountedQueue {
            pool: self.pool,
            device: self.device,
        };
        discard(self.held.take());
        drop(counted);
    }
}

/// A queue counted in `made`. It is uncounted even if dropping the queue panics.
struct CountedQueue<'p, D: Device> {
    pool: &'p Pool<D>,
    device: usize,
}

impl<D: Device> Drop for CountedQueue<'_, D> {
    fn drop(&mut self) {
        self.pool.lock().devices[self.device].made -= 1;
        self.pool.changed.notify_all();
    }
}
