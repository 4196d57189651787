// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys' places in the device's constant memory.
//!
//! Constant memory has room for [`SLOTS`] keys, and there may be any number of keys. A key stays
//! where it is until another one needs its place, and goes to a place, at the latest, when a queue
//! begins to use it; then it stays until the queue was waited for, even if its key is dropped before.
//! A queue uses one key at a time, so there are places for as many queues as there are slots.
//! What lies in a place that its key has left is overwritten before the place is free.

#![allow(unsafe_code, reason = "memory of devices, by address")]

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

/// How many keys the kernels have places for.
pub(crate) const SLOTS: usize = 64;

/// Bytes of a place.
pub(crate) const SLOT: usize = KEY_WORDS * size_of::<u32>();

/// The number by which a key is known here. None is given out twice.
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
    /// The first place.
    address: Address,
    state: Mutex<State>,
}

struct State {
    places: [Place; SLOTS],
    /// Counts uses: the place that was used the longest ago is the first to go.
    clock: u64,
    /// Pinned, so that no copy of a key stays behind in the driver's own buffers.
    staging: Pinned,
}

#[derive(Clone, Copy, Default)]
struct Place {
    key: Option<KeyId>,
    /// Queues that may still be reading it.
    users: u32,
    used: u64,
    /// Could not be overwritten: never used again.
    bad: bool,
}

impl Slots {
    /// Places from `address` on, of which none is taken.
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

    /// A number for a key, which is put into a place if one is free.
    pub(crate) fn add(&self, words: &KeyWords) -> Result<KeyId, DeviceError> {
        let mut state = lock(&self.state);
        let key = KeyId::new();
        let free = |place: &Place| place.key.is_none() && place.users == 0 && !place.bad;
        if let Some(slot) = state.places.iter().position(free) {
            self.put(&mut state, slot, key, words)?;
        }
        Ok(key)
    }

    /// The key's place, which it keeps until [`Slots::release`].
    pub(crate) fn acquire(&self, key: KeyId, words: &KeyWords) -> Result<usize, DeviceError> {
        let mut state = lock(&self.state);
        let slot = match state.places.iter().position(|p| p.key == Some(key)) {
            Some(slot) => slot,
            None => {
                let idle = state.places.iter().enumerate();
                let idle = idle.filter(|(_, place)| place.users == 0 && !place.bad);
                // Free ones first.
                let oldest = idle.min_by_key(|(_, place)| (place.key.is_some(), place.used));
                let Some((slot, _)) = oldest else {
                    let message = format!("all {SLOTS} places for keys are in use");
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

    /// The opposite of [`Slots::acquire`], when nothing reads the place any more.
    pub(crate) fn release(&self, slot: usize) {
        let mut state = lock(&self.state);
        let place = &mut state.places[slot];
        place.users = place.users.saturating_sub(1);
        if place.users == 0 && place.key.is_none() {
            self.wipe(&mut state, slot);
        }
    }

    /// Overwrites the key's place, if it has one: as soon as nobody uses it.
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

    /// Frees a place that its key has left and nobody uses.
    fn wipe(&self, state: &mut State, slot: usize) {
        let to = self.address.after(slot * SLOT);
        let wiped = self.service.run(|driver, stream| {
            // SAFETY: the place is within the variable, and nothing reads it any more.
            unsafe { driver.fill_with_zeros(to, SLOT, stream) }
        });
        state.places[slot] = Place {
            bad: wiped.is_err(),
            ..Place::default()
        };
    }

    /// Writes a key over whatever is in a place that nobody uses.
    fn put(
        &self,
        state: &mut State,
        slot: usize,
        key: KeyId,
        words: &KeyWords,
    ) -> Result<(), DeviceError> {
        // Another key's at most in part from here on.
        let before = mem::take(&mut state.places[slot]);
        let staging = &mut state.staging;
        for (bytes, word) in staging.chunks_exact_mut(4).zip(words.expose()) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let to = self.address.after(slot * SLOT);
        let put = self.service.run(|driver, stream| {
            // SAFETY: both are of so many bytes. `run` waits; until then nobody writes to
            // the staging memory, which is behind a lock, and no kernel reads the place.
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
