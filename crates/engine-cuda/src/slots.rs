// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slots for keys in the device's constant memory.
//!
//! Constant memory has room for [`SLOTS`] keys, but any number of keys may be loaded. A key gets a
//! slot, at the latest, when a queue begins to use it. It keeps the slot until another key needs
//! it, but never loses it before the queue has been waited for, even if the key is dropped
//! meanwhile. A queue uses one key at a time, so [`SLOTS`] queues can work at once. When a dropped
//! key leaves a slot, the slot is overwritten before it is free.

#![allow(unsafe_code, reason = "device memory is given by address")]

use std::{
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
            }),
        })
    }

    /// Returns the ID of a new key. Puts the key into a slot if one is free.
    pub(crate) fn add(&self, words: &KeyWords) -> Result<KeyId, DeviceError> {
        let mut state = lock(&self.state);
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
        let slot = match state.places.iter().position(|p| p.key == Some(key)) {
            Some(slot) => slot,
            None => {
                let idle = state.places.iter().enumerate();
                let idle = idle.filter(|(_, place)| place.users == 0 && !place.bad);
                // Prefer free slots, then the least recently used one.
                let oldest = idle.min_by_key(|(_, place)| (place.key.is_some(), place.used));
                let Some((slot, _)) = oldest else {
                    let message = format!("all {SLOTS} key slots are in use");
                    return Err(DeviceError::OutOfMemory { message });
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
        let mut state = lock(&self.state);
        let place = &mut state.places[slot];
        place.users = place.users.saturating_sub(1);
        if place.users == 0 && place.key.is_none() {
            self.wipe(&mut state, slot);
        }
    }

    /// Overwrites the key's slot, if it has one, as soon as no queue uses it.
    pub(crate) fn remove(&self, key: KeyId) {
        let mut state = lock(&self.state);
        let Some(slot) = state.places.iter().position(|p| p.key == Some(key)) else {
            return;
        };
        let place = &mut state.places[slot];
        place.key = None;
        if place.users == 0 {
            self.wipe(&mut state, slot);
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
