// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where metadata were read from.

use std::sync::Arc;

use luxor_files::{Input, PipedHeader};
use luxor_sector::{MemoryStorage, Storage};

/// Where metadata were read from.
pub(crate) enum Source {
    /// A file or a device.
    Seekable(Arc<Input>),
    /// A pipe, and the bytes that have been read from it.
    Stream(PipedHeader),
}

impl Source {
    pub(super) fn from_input(input: Input) -> Self {
        match input.as_storage() {
            Some(_) => Self::Seekable(Arc::new(input)),
            None => Self::Stream(PipedHeader::new(Box::new(input))),
        }
    }

    pub(super) fn storage(&self) -> &dyn Storage {
        match self {
            Self::Seekable(input) => &**input,
            Self::Stream(prefix) => prefix,
        }
    }

    /// Calls `look` with a storage of the first bytes. The rest of a pipe stays in it.
    pub(super) fn look<T>(&self, look: impl FnOnce(&dyn Storage) -> T) -> T {
        match self {
            Self::Seekable(input) => look(&**input),
            Self::Stream(prefix) => look(&MemoryStorage::new(prefix.beginning(1 << 20))),
        }
    }

    /// The file or device, unless the metadata came through a pipe.
    pub(super) fn into_input(self) -> Option<Arc<Input>> {
        match self {
            Self::Seekable(input) => Some(input),
            Self::Stream(_) => None,
        }
    }
}
