// SPDX-License-Identifier: MIT OR Apache-2.0
//! A format for tests only: every byte is added to one byte, modulo 2. It hides nothing. It proves
//! that a format is one file and one line of the table, also with a cipher that is not the engine's.
//!
//! ```text
//! byte  0 …  7   "luxor-xo"
//!            8   the XOR of the key and 0x5a
//!      512 …     the data
//! ```
//!
//! The key is the sum of the bytes of the passphrase.

use std::{collections::BTreeMap, sync::Arc};

use luxor_engine::{Backend, CryptError, Direction, LoadedKey, Mode, Run};
use luxor_sector::{Geometry, IvMode, SectorSize, Storage};
use luxor_volume::{
    DataKey, Description, Extent, ExtentCipher, ExtentError, Findings, Format, Header, HeaderError,
    HeaderErrorKind, NotUnlocked, NotUnlockedKind, OpenedKeyslot, Reencryption, Secret,
    UnlockOptions, Unlocked,
};

const MAGIC: &[u8; 8] = b"luxor-xo";
const DATA: u64 = 512;
const SECTOR: u64 = 512;

/// The format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Xor;

/// A volume, which has this check of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct XorHeader {
    check: u8,
}

impl Format for Xor {
    fn name(&self) -> &'static str {
        "xor"
    }

    fn summary(&self) -> &'static str {
        "a test, which hides nothing"
    }

    fn read(&self, storage: &dyn Storage) -> Result<Box<dyn Header>, HeaderError> {
        let failed = |kind, what: &str| HeaderError {
            kind,
            source: what.into(),
        };
        let mut bytes = [0; 9];
        match storage.read_exact_at(&mut bytes, 0) {
            Ok(()) if bytes.starts_with(MAGIC) => Ok(Box::new(XorHeader { check: bytes[8] })),
            Ok(()) => Err(failed(HeaderErrorKind::OtherFormat, "it is no test")),
            Err(_) => Err(failed(HeaderErrorKind::OtherFormat, "it is too short")),
        }
    }
}

impl Header for XorHeader {
    fn describe(&self) -> Description {
        Description {
            format: "xor",
            uuid: String::new(),
            details: vec![("Check", format!("{:#04x}", self.check))],
            mode: Mode::Xts,
            data_offset: DATA,
            metadata_len: DATA,
            sector_size: SectorSize::B512,
            file_length: None,
            allows_discards: false,
            reencryption: Reencryption::Impossible,
        }
    }

    fn check(&self, _: Option<u64>) -> Findings {
        Findings {
            good: vec!["header: good".into()],
            ..Findings::default()
        }
    }

    fn unlock(
        &self,
        _: &dyn Storage,
        secret: Secret<'_>,
        _: &dyn Backend,
        _: &UnlockOptions,
    ) -> Result<Unlocked, NotUnlocked> {
        let (key, keyslots) = match secret {
            Secret::Passphrase(secret) => {
                let bytes = secret.expose().iter();
                let key = bytes.fold(0, |sum: u8, byte| sum.wrapping_add(*byte));
                let opened = OpenedKeyslot { keyslot: 0, key: 0 };
                (key, vec![opened])
            }
            Secret::VolumeKey(key) => (key.expose().first().copied().unwrap_or(0), Vec::new()),
        };
        if key ^ 0x5a != self.check {
            return Err(NotUnlocked {
                kind: NotUnlockedKind::WrongSecret,
                source: "another key is needed".into(),
            });
        }
        let key: Arc<dyn LoadedKey> = Arc::new(XorKey(key));
        Ok(Unlocked {
            keys: BTreeMap::from([(0, DataKey::Loaded(key))]),
            keyslots,
        })
    }

    fn extents(&self, storage_len: u64) -> Result<Vec<Extent>, ExtentError> {
        let len = storage_len.saturating_sub(DATA);
        if len == 0 || !len.is_multiple_of(SECTOR) {
            return Err(ExtentError {
                is_cut_off: true,
                source: "the data are cut off".into(),
            });
        }
        Ok(vec![extent(len)])
    }

    fn whole_extents(&self, storage_len: u64) -> Result<Vec<Extent>, ExtentError> {
        let len = storage_len.saturating_sub(DATA).max(1);
        Ok(vec![extent(len.next_multiple_of(SECTOR))])
    }

    fn stream_extent(&self) -> Option<Extent> {
        Some(extent(u64::MAX))
    }

    fn has_same_data(&self, other: &dyn Header) -> bool {
        other.downcast_ref() == Some(self)
    }
}

fn extent(len: u64) -> Extent {
    let geometry = Geometry {
        sector_size: SectorSize::B512,
        iv_mode: IvMode::Plain64,
        iv_offset: 0,
        iv_large_sectors: false,
    };
    Extent {
        offset: DATA,
        len,
        cipher: Some(ExtentCipher {
            key: 0,
            encryption: None,
            geometry,
        }),
    }
}

struct XorKey(u8);

impl LoadedKey for XorKey {
    fn crypt(&self, _: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
        for run in runs {
            let input = run.buf().input().to_vec();
            for (byte, input) in run.output().iter_mut().zip(input) {
                *byte = input ^ self.0;
            }
        }
        Ok(())
    }
}
