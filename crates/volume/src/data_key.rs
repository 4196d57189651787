// SPDX-License-Identifier: MIT OR Apache-2.0
//! The key of an extent, in one of two forms.

use std::{fmt, sync::Arc};

use luxor_engine::LoadedKey;

use crate::volume_key::VolumeKey;

/// The key of an extent.
#[derive(Clone)]
pub enum DataKey {
    /// A key of the engine: any backend can load it for the [`Encryption`](crate::Encryption) of the
    /// extent.
    Engine(VolumeKey),
    /// A key that the format has loaded itself, because its cipher is not one of the engine's.
    Loaded(Arc<dyn LoadedKey>),
}

impl DataKey {
    /// The key, if it is one of the engine's.
    #[must_use]
    pub fn volume_key(&self) -> Option<&VolumeKey> {
        match self {
            Self::Engine(key) => Some(key),
            Self::Loaded(_) => None,
        }
    }
}

impl From<VolumeKey> for DataKey {
    fn from(key: VolumeKey) -> Self {
        Self::Engine(key)
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(key) => f.debug_tuple("Engine").field(key).finish(),
            Self::Loaded(_) => f.debug_tuple("Loaded").finish_non_exhaustive(),
        }
    }
}
