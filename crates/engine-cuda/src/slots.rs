// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slots for keys in the device's constant memory.
//!
//! Constant memory has room for [`SLOTS`] keys, but any number of keys may be loaded. A key gets a
//! slot, at the latest, when a queue begins to use it. It keeps the slot until another key needs
//! it, but never loses it before the queue has been waited for, even if the key is dropped
//! meanwhile. A queue uses one key at a time, so [`SLOTS`] queues can work at once. When a dropped
//! key leaves a slot, the slot is overwritten before it is free.
//!
//! Nothing waits for work on a caller's stream. Such a use of a slot ends when an event is complete,
//! which is looked at when another use begins. A key that is dropped waits for its events, so that
//! its slot is overwritten then and not at some later call.

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
    places: [Place; SLOTS],
    /// Counts uses, so that the least recently used slot can be found.
    clock: u64,
    /// Pinned, so that no copy of a key stays behind in the driver's own buffers.
    staging: Pinned,
    /// The uses on callers' streams that had not ended when last looked at, the oldest first.
    on_streams: VecDeque<UseOnStream>,
}

struct UseOnStream {
    slot: usize,
    /// Complete when the use ends.
    event: usize,
}

#[derive(Clone, Copy, Default)]
struct Place {
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
                places: [Place::default(); SLOTS],
                clock: 0,
                staging: gpu.pinned(SLOT)?,
                on_streams: VecDeque::new(),
            }),
        })
    }

    /// Returns the ID of a new key. Puts the key into a slot if one is free.
    pub(crate) fn add(&self, words: &KeyWords) -> Result<KeyId, DeviceError> {
        let mut state = lock(&self.state);
        self.end_complete_uses(&mut state)?;
        let key = KeyId::new();
        let free = |place: &Place| place.key.is_none() && place.users == 0 && !place.bad;
        if let Some(slot) = state.places.iter().position(free) {
            self.put(&mut state, slot, key, words)?;
        }
        Ok(key)
    }

    /// Returns the slot of the key, which keeps it until [`Slots::release`].
    pub(crate) fn acquire(&self, key: KeyId, words: &KeyWords) -> Result<usize, DeviceError> {
        let mut state = lock(&self.state);
        self.end_complete_uses(&mut state)?;
        let slot = match state.places.iter().position(|p| p.key == Some(key)) {
            Some(slot) => slot,
            None => {
                let slot = loop {
                    let idle = state.places.iter().enumerate();
                    let idle = idle.filter(|(_, place)| place.users == 0 && !place.bad);
                    // Prefer free slots, then the least recently used one.
                    let oldest = idle.min_by_key(|(_, place)| (place.key.is_some(), place.used));
                    if let Some((slot, _)) = oldest {
                        break slot;
                    }
                    let Some(first) = state.on_streams.pop_front() else {
                        let message = format!("all {SLOTS} key slots are in use");
                        return Err(DeviceError::OutOfMemory { message });
                    };
                    self.wait_for(&first);
                    self.end(&mut state, first.slot);
                };
                self.put(&mut state, slot, key, words)?;
                slot
            }
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
        let mut state = lock(&self.state);
        state.on_streams.push_back(UseOnStream { slot, event });
    }

    /// Overwrites the key's slot, if it has one, as soon as no queue uses it. Waits for the uses on
    /// callers' streams.
    pub(crate) fn remove(&self, key: KeyId) {
        let mut state = lock(&self.state);
        let Some(slot) = state.places.iter().position(|p| p.key == Some(key)) else {
            return;
        };
        let (own, others) = mem::take(&mut state.on_streams)
            .into_iter()
            .partition(|of| of.slot == slot);
        let own: VecDeque<UseOnStream> = own;
        state.on_streams = others;
        // The uses still count, so the slot stays while other calls proceed.
        drop(state);
        for of in &own {
            self.wait_for(of);
        }
        let mut state = lock(&self.state);
        let place = &mut state.places[slot];
        place.key = None;
        if own.is_empty() && place.users == 0 {
            self.wipe(&mut state, slot);
        }
        for of in own {
            self.end(&mut state, of.slot);
        }
    }

    /// Ends the oldest uses on callers' streams whose events are complete.
    fn end_complete_uses(&self, state: &mut State) -> Result<(), DeviceError> {
        let gpu = self.service.gpu();
        while let Some(first) = state.on_streams.front() {
            // SAFETY: the event is from `create_event` and still exists.
            let complete = gpu
                .enter()
                .and_then(|()| unsafe { gpu.driver.is_complete(first.event) });
            if !complete.map_err(|failure| device_error(&failure))? {
                break;
            }
            let UseOnStream { slot, event } = state.on_streams.pop_front().expect("it is there");
            // SAFETY: nothing uses the event any more.
            unsafe { gpu.driver.destroy_event(event) };
            self.end(state, slot);
        }
        Ok(())
    }

    /// Waits for the end of a use on a caller's stream, and destroys its event.
    fn wait_for(&self, of: &UseOnStream) {
        let gpu = self.service.gpu();
        if gpu.enter().is_ok() {
            // If waiting fails, the context is lost, and no kernel of it runs any more.
            // SAFETY: the event is from `create_event`, and nothing else destroys it.
            unsafe {
                let _ = gpu.driver.wait_for(of.event);
                gpu.driver.destroy_event(of.event);
            }
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
        state.places[slot] = Place {
            bad: wiped.is_err(),
            ..Place::default()
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

impl Drop for Slots {
    fn drop(&mut self) {
        // The keys are gone, and each waited for its uses. Only a lost device leaves some.
        let state = self.state.get_mut();
        let state = state.unwrap_or_else(std::sync::PoisonError::into_inner);
        for of in mem::take(&mut state.on_streams) {
            self.wait_for(&of);
        }
    }
}
