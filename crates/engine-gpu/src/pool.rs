// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queues of some devices, shared by all calls.
//!
//! Queues are made when they are needed, and kept. Who takes one waits its turn; who has
//! some and asks for another one does not wait, so nobody waits for somebody who waits.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use luxor_engine::PAGE;

use crate::{
    device::{Device, Queue, QueueSizes},
    error::DeviceError,
    layout::{BLOCK, Piece},
    tuning::Tuning,
};

/// No queue has less memory for data, but where its tuning says so.
const LEAST: usize = 256 << 10;

/// After memory was short, there may be one queue more when so many were given back: others
/// may have freed some. To try takes longer than a short call.
const RETRY: usize = 1024;

pub(crate) struct Pool<D: Device> {
    devices: Vec<D>,
    tuning: Tuning,
    state: Mutex<State<D::Queue>>,
    changed: Condvar,
}

struct State<Q: Queue> {
    devices: Vec<DeviceState<Q>>,
    /// Of those who wait: the next one's number, and whose turn it is.
    tickets: u64,
    turn: u64,
}

struct DeviceState<Q: Queue> {
    idle: Vec<Held<Q>>,
    /// Queues that are idle, lent or being made.
    made: usize,
    /// How many there may be; never 0.
    limit: usize,
    /// How many were given back since memory was short.
    given_back: usize,
    /// Bytes of data of those that are made.
    batch: usize,
    lost: Option<DeviceError>,
}

impl<Q: Queue> DeviceState<Q> {
    fn lent(&self) -> usize {
        self.made - self.idle.len()
    }

    /// Memory is short: there may be so many.
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
    /// What has been written to since the queue was wiped.
    used: QueueSizes,
}

impl<Q: Queue> Held<Q> {
    /// Waits for what is under way, and wipes.
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
    /// Once more, if a panic came between.
    fn drop(&mut self) {
        let _ = self.clean();
    }
}

/// What to do for somebody who wants a queue.
enum Choice<Q: Queue> {
    Take(usize, Held<Q>),
    /// One of so many bytes, in the place of one that is too short if there is one.
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

    /// How many queues there may be on all devices that are not lost.
    pub(crate) fn limit(&self) -> usize {
        let state = self.lock();
        let alive = state.devices.iter().filter(|device| device.lost.is_none());
        alive.map(|device| device.limit).sum()
    }

    /// Whether somebody waits.
    pub(crate) fn is_wanted(&self) -> bool {
        let state = self.lock();
        state.tickets != state.turn
    }

    /// A queue with `need` bytes of data at least, of `device` if one is said. Waits for it.
    pub(crate) fn take(
        &self,
        need: usize,
        device: Option<usize>,
    ) -> Result<Lease<'_, D>, DeviceError> {
        let ticket = self.ticket();
        // Before the guard, since it locks when it goes.
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

    /// As [`Pool::take`], if nobody has to wait.
    pub(crate) fn try_take(&self, need: usize) -> Option<Lease<'_, D>> {
        loop {
            let mut state = self.lock();
            if state.tickets != state.turn {
                return None;
            }
            match choose(&mut state, need, None) {
                Choice::Take(device, held) => return Some(self.lease(device, held)),
                Choice::Make(device, data, short) => {
                    drop(state);
                    // An error is told to who has no queue at all.
                    if let Some(lease) = self.make(device, need, data, short).ok()? {
                        return Some(lease);
                    }
                }
                Choice::Wait | Choice::Lost(_) => return None,
            }
        }
    }

    /// The device is not used any more.
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

    /// Wipes all queues that nobody has.
    pub(crate) fn wipe_idle(&self) {
        let mut state = self.lock();
        let mut leases = Vec::new();
        for (index, device) in state.devices.iter_mut().enumerate() {
            for held in device.idle.drain(..) {
                leases.push(self.lease(index, held));
            }
        }
        drop(state);
        for mut lease in leases {
            match lease.held.as_mut().map(Held::clean) {
                Some(Err(error)) => lease.fail(&error),
                _ => lease.give_back(),
            }
        }
    }

    fn lease(&self, device: usize, held: Held<D::Queue>) -> Lease<'_, D> {
        Lease {
            pool: self,
            device,
            held: Some(held),
        }
    }

    /// A new queue, whose place is counted already. `None` where there was too little
    /// memory and something else may do.
    fn make(
        &self,
        device: usize,
        need: usize,
        data: usize,
        short: Option<Held<D::Queue>>,
    ) -> Result<Option<Lease<'_, D>>, DeviceError> {
        // From here on the place is given up if anything goes wrong.
        let mut lease = Lease {
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
        // Nothing that can panic is done while it is locked.
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
        // What a device does not wipe any more nobody can.
        let _ = held.clean();
    }
}

/// Of the devices that have something to offer, the one of which the fewest queues are lent.
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

/// Tweaks for data units of 32 bytes and more, and for as many again where data are on the
/// device; pieces for runs of 512 bytes each.
fn sizes(data: usize) -> QueueSizes {
    let piece = size_of::<Piece>();
    QueueSizes {
        data,
        tweaks: (data / 2).max(PAGE / 8).next_multiple_of(BLOCK),
        pieces: (data / 512 * piece).max(16 * piece),
    }
}

/// Whose turn it is.
struct Turn<'p, D: Device> {
    pool: &'p Pool<D>,
}

impl<D: Device> Drop for Turn<'_, D> {
    fn drop(&mut self) {
        self.pool.lock().turn += 1;
        self.pool.changed.notify_all();
    }
}

/// A queue, until it is given back. Dropped without that, as after an error or in a panic,
/// what is under way is waited for, the queue is wiped and gone.
pub(crate) struct Lease<'p, D: Device> {
    pool: &'p Pool<D>,
    device: usize,
    held: Option<Held<D::Queue>>,
}

impl<D: Device> Lease<'_, D> {
    pub(crate) fn device(&self) -> usize {
        self.device
    }

    pub(crate) fn sizes(&self) -> QueueSizes {
        self.held().sizes
    }

    /// The queue, to write to so much of it at most.
    pub(crate) fn queue(&mut self, uses: QueueSizes) -> &mut D::Queue {
        let held = self.held.as_mut().expect("there until it is dropped");
        held.used.data = held.used.data.max(uses.data);
        held.used.tweaks = held.used.tweaks.max(uses.tweaks);
        held.used.pieces = held.used.pieces.max(uses.pieces);
        &mut held.queue
    }

    fn held(&self) -> &Held<D::Queue> {
        self.held.as_ref().expect("there until it is dropped")
    }

    /// Nothing is under way.
    pub(crate) fn give_back(mut self) {
        let held = self.held.take().expect("there until it is dropped");
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
        // The place stays counted.
        std::mem::forget(self);
    }

    /// The queue failed.
    pub(crate) fn fail(self, error: &DeviceError) {
        if error.is_lost() {
            self.pool.lose(self.device, error);
        }
    }
}

impl<D: Device> Drop for Lease<'_, D> {
    fn drop(&mut self) {
        let counted = CountedQueue {
            pool: self.pool,
            device: self.device,
        };
        discard(self.held.take());
        drop(counted);
    }
}

/// A place that was counted, given up even if the queue panics when it goes.
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
