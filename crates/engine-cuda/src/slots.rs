// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slots for keys in the device's constant memory.
//!
//! Constant memory has room for [`SLOTS`] keys, but any number of keys may be loaded. A key gets a
//! slot, at the latest, when a queue begins to use it. It keeps the slot until another key needs
//! it, but never loses it before the queue has been waited for, even if the key is dropped
//! meanwhile. A queue uses one key at a time, so [`SLOTS`] queues can work at once. When a dropped
//! key leaves a slot, the slot is overwritten before it is free.
//!
//! A use on a caller's stream ends when an event is complete, which is looked at when another use
//! begins. A call waits for such an event only if all slots are in use. A key that is dropped waits
//! for its events, so that its slot is overwritten then and not at some later call.

#![allow(unsafe_code, reason = "device memory is given by address")]

use std::{
    collections::VecDeque,
    mem,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use luxor_engine_gpu::{DeviceError, KeyWords, keys::KEY_WORDS};
use zeroize::Zeroize;

use crate::{
    driver::{Address, Failure},
    error::device_error,
    memory::{Gpu, Pinned, Service, lock},
};

/// The number of keys that the kernels have room for.
pub(crate) const SLOTS: usize = 64;

/// Bytes of a slot.
pub(crate) const SLOT: usize = KEY_WORDS * size_of::<u32>();

/// A number that identifies a key. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyId(u64);

impl KeyId {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

pub(crate) struct Slots {
    service: Arc<Service>,
    /// The address of the first slot.
    address: Address,
    state: Mutex<State>,
}

struct State {
    places: [Slot; SLOTS],
    /// Counts uses, so that the least recently used slot can be found.
    clock: u64,
    /// Pinned, so that no copy of a key stays behind in the driver's own buffers.
    staging: Pinned,
    /// The uses on callers' streams that had not ended when last looked at, the oldest first. A
    /// thread that waits for one keeps its event alive.
    on_streams: VecDeque<Arc<UseOnStream>>,
}

struct UseOnStream {
    service: Arc<Service>,
    slot: usize,
    /// Complete when the use ends.
    event: usize,
}

/// The uses to look at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// From the oldest to the first that has not ended.
    Oldest,
    All,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    key: Option<KeyId>,
    /// Queues that may still be reading the slot.
    users: u32,
    used: u64,
    /// Whether overwriting failed. Such a slot is never used again.
    bad: bool,
}

impl Slots {
    /// Manages the slots from `address` on. All are free.
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        service: &Arc<Service>,
        address: Address,
    ) -> Result<Self, Failure> {
        Ok(Self {
            service: Arc::clone(service),
            address,
            state: Mutex::new(State {
                places: [Slot::default(); SLOTS],
                clock: 0,
                staging: gpu.pinned(SLOT)?,
                on_streams: VecDeque::new(),
            }),
        })
    }

    /// Returns the ID of a new key. Puts the key into a slot if one is free.
    pub(crate) fn add(&self, words: &KeyWords) -> Result<KeyId, DeviceError> {
        let mut state = lock(&self.state);
        self.end_complete_uses(&mut state, Look::Oldest)?;
        let key = KeyId::new();
        let free = |place: &Slot| place.key.is_none() && place.users == 0 && !place.bad;
        if let Some(slot) = state.places.iter().position(free) {
            self.put(&mut state, slot, key, words)?;
        }
        Ok(key)
    }

    /// Returns the slot of the key, which keeps it until [`Slots::release`]. Waits for the oldest
    /// use on a caller's stream if all slots are in use.
    pub(crate) fn acquire(&self, key: KeyId, words: &KeyWords) -> Result<usize, DeviceError> {
        let mut state = lock(&self.state);
        self.end_complete_uses(&mut state, Look::Oldest)?;
        let slot = loop {
            if let Some(slot) = state.slot_of(key) {
                break slot;
            }
            if state.idle().is_none() {
                self.end_complete_uses(&mut state, Look::All)?;
            }
            if let Some(slot) = state.idle() {
                self.put(&mut state, slot, key, words)?;
                break slot;
            }
            let Some(oldest) = state.on_streams.front().cloned() else {
                let message = format!("all {SLOTS} key slots are in use");
                return Err(DeviceError::OutOfMemory { message });
            };
            // Others may use the slots meanwhile.
            drop(state);
            oldest.wait();
            state = lock(&self.state);
            self.end_use(&mut state, &oldest);
        };
        state.clock += 1;
        let used = state.clock;
        let place = &mut state.places[slot];
        place.users += 1;
        place.used = used;
        Ok(slot)
    }

    /// Undoes one [`Slots::acquire`]. The caller's kernels must have finished reading the slot.
    pub(crate) fn release(&self, slot: usize) {
        self.end(&mut lock(&self.state), slot);
    }

    /// Undoes one [`Slots::acquire`] when `event`, which belongs to the slots from now on, is
    /// complete.
    pub(crate) fn release_after(&self, slot: usize, event: usize) {
        let of = Arc::new(UseOnStream {
            service: Arc::clone(&self.service),
            slot,
            event,
        });
        lock(&self.state).on_streams.push_back(of);
    }

    /// Overwrites the key's slot, if it has one, as soon as no queue uses it. Waits for the uses on
    /// callers' streams.
    pub(crate) fn remove(&self, key: KeyId) {
        let mut state = lock(&self.state);
        while let Some(slot) = state.slot_of(key) {
            let own = state.on_streams.iter().find(|of| of.slot == slot).cloned();
            let Some(own) = own else {
                let place = &mut state.places[slot];
                place.key = None;
                if place.users == 0 {
                    self.wipe(&mut state, slot);
                }
                return;
            };
            // The use still counts, so the slot stays while other calls proceed.
            drop(state);
            own.wait();
            state = lock(&self.state);
            self.end_use(&mut state, &own);
        }
    }

    /// Ends uses on callers' streams whose events are complete.
    fn end_complete_uses(&self, state: &mut State, look: Look) -> Result<(), DeviceError> {
        let mut at = 0;
        while let Some(of) = state.on_streams.get(at) {
            if of.is_complete()? {
                let of = Arc::clone(of);
                self.end_use(state, &of);
            } else if look == Look::All {
                at += 1;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Ends a use on a caller's stream, unless another thread has done so.
    fn end_use(&self, state: &mut State, of: &Arc<UseOnStream>) {
        let at = state
            .on_streams
            .iter()
            .position(|other| Arc::ptr_eq(other, of));
        if at.and_then(|at| state.on_streams.remove(at)).is_some() {
            self.end(state, of.slot);
        }
    }

    /// Ends one use of a slot.
    fn end(&self, state: &mut State, slot: usize) {
        let place = &mut state.places[slot];
        place.users = place.users.saturating_sub(1);
        if place.users == 0 && place.key.is_none() {
            self.wipe(state, slot);
        }
    }

    /// Overwrites and frees a slot that has no key and no users.
    fn wipe(&self, state: &mut State, slot: usize) {
        let to = self.address.after(slot * SLOT);
        let wiped = self.service.run(|driver, stream| {
            // SAFETY: the slot is within the variable for keys, and nothing reads it any more.
            unsafe { driver.fill_with_zeros(to, SLOT, stream) }
        });
        state.places[slot] = Slot {
            bad: wiped.is_err(),
            ..Slot::default()
        };
    }

    /// Writes a key to a slot that has no users.
    fn put(
        &self,
        state: &mut State,
        slot: usize,
        key: KeyId,
        words: &KeyWords,
    ) -> Result<(), DeviceError> {
        // From here on the slot may hold parts of two keys, so it counts as having no key.
        let before = mem::take(&mut state.places[slot]);
        let staging = &mut state.staging;
        for (bytes, word) in staging.chunks_exact_mut(4).zip(words.expose()) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let to = self.address.after(slot * SLOT);
        let put = self.service.run(|driver, stream| {
            // SAFETY: the slot and `staging` both have `SLOT` bytes. `run` waits; until then the
            // lock keeps writers from `staging`, and no kernel reads the slot, which has no users.
            unsafe { driver.upload(to, staging.as_ptr(), SLOT, stream) }
        });
        staging.zeroize();
        let place = &mut state.places[slot];
        match put {
            Ok(()) => {
                place.key = Some(key);
                place.used = before.used;
                Ok(())
            }
            Err(failure) => {
                place.bad = true;
                Err(device_error(&failure))
            }
        }
    }
}

impl State {
    fn slot_of(&self, key: KeyId) -> Option<usize> {
        self.places.iter().position(|place| place.key == Some(key))
    }

    /// Returns a slot that nothing uses: a free one, or else the least recently used one.
    fn idle(&self) -> Option<usize> {
        let idle = self.places.iter().enumerate();
        let idle = idle.filter(|(_, place)| place.users == 0 && !place.bad);
        let oldest = idle.min_by_key(|(_, place)| (place.key.is_some(), place.used));
        oldest.map(|(slot, _)| slot)
    }
}

impl UseOnStream {
    fn is_complete(&self) -> Result<bool, DeviceError> {
        let gpu = self.service.gpu();
        let complete = gpu.enter().and_then(|()| {
            // SAFETY: the event is from `create_event` and still exists.
            unsafe { gpu.driver.is_complete(self.event) }
        });
        complete.map_err(|failure| device_error(&failure))
    }

    /// Waits for the end of the use.
    fn wait(&self) {
        let gpu = self.service.gpu();
        if gpu.enter().is_ok() {
            // If waiting fails, the context is lost, and no kernel of it runs any more.
            // SAFETY: the event is from `create_event` and still exists.
            let _ = unsafe { gpu.driver.wait_for(self.event) };
        }
    }
}

impl Drop for UseOnStream {
    fn drop(&mut self) {
        let gpu = self.service.gpu();
        if gpu.enter().is_ok() {
            // SAFETY: the event is from `create_event`, and nothing uses it any more.
            unsafe { gpu.driver.destroy_event(self.event) };
        }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // The keys are gone, and each waited for its uses. Only a lost device leaves some.
        for of in &lock(&self.state).on_streams {
            of.wait();
        }
    }
}
