// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor.UnlockedVolume`: a volume with its keys.

use std::sync::{Mutex, PoisonError};

use luxor::{UnlockedVolume, files::OfProcess};
use pyo3::{exceptions::PyValueError, prelude::*};

use crate::{
    context::{context, operate},
    disk::Disk,
    error::key_lost_in_fork,
    storage::Object,
};

/// What `luxor.Volume.unlock` returns: a volume with its keys, until it becomes a disk.
#[pyclass(frozen, module = "luxor._luxor")]
pub(crate) struct Unlocked {
    /// `None` once it is a disk or closed. As in `Disk`, the lock is held only while the thread is
    /// attached to the interpreter.
    volume: Mutex<Option<(OfProcess<UnlockedVolume>, Vec<Object>)>>,
    keyslots: Vec<u32>,
}

impl Unlocked {
    /// A volume that the objects hold.
    pub(crate) fn new(volume: UnlockedVolume, objects: Vec<Object>) -> Self {
        let keyslots = volume.keyslots().iter();
        let keyslots = keyslots.map(|opened| opened.keyslot).collect();
        let volume = OfProcess::holding(volume, UnlockedVolume::descriptors);
        Self {
            volume: Mutex::new(Some((volume, objects))),
            keyslots,
        }
    }

    fn take(&self) -> Option<(OfProcess<UnlockedVolume>, Vec<Object>)> {
        let volume = self.volume.lock();
        volume.unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl Unlocked {
    #[getter]
    fn keyslots(&self) -> Vec<u32> {
        self.keyslots.clone()
    }

    /// Makes a disk of the plaintext.
    fn disk(&self, py: Python<'_>) -> PyResult<Disk> {
        let taken = self.take().ok_or_else(|| {
            PyValueError::new_err("the volume is closed, or a disk already: unlock it again")
        });
        let (volume, objects) = taken?;
        let Some(volume) = volume.into_inner() else {
            objects.iter().for_each(Object::give_up);
            return Err(key_lost_in_fork());
        };
        let context = context(None, None)?;
        let disk = operate(py, context, &objects, &mut |_| Ok(()), move |context| {
            volume.with_context(context).disk()
        })?;
        Ok(Disk::of_existing(disk, objects))
    }

    /// Wipes the keys, and unlocks the data for other programs. Has no effect on a disk.
    fn close(&self) {
        // The lock is not held while this is dropped, which may run code of Python.
        if let Some((volume, objects)) = self.take()
            && volume.here().is_none()
        {
            objects.iter().for_each(Object::give_up);
        }
    }
}
