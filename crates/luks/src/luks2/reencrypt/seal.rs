// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keyslot with the state of a re-encryption, and the digest over that state.

use std::collections::BTreeMap;

use luxor_secret::SecretBytes;
use luxor_sector::Storage;
use luxor_volume::{HashAlgorithm, PbkdfOptions, VolumeKey};
use serde_json::json;

use super::{
    parts::{PartState, ReencryptionProgress},
    state::Reencryption,
};
use crate::luks2::{
    digest::NewDigest,
    edit::{ChangeError, JsonMembers, MetadataDraft, check_room, durable},
    header::Luks2Header,
    metadata::{AreaRange, Metadata},
    reencrypt_keyslot::{ReencryptDirection, ReencryptMode, Resilience},
};

/// The hash of the digest over the state.
const HASH: HashAlgorithm = HashAlgorithm::Sha256;

/// The iterations of a digest over the state that replaces one of a kind that is not known.
const MIN_ITERATIONS: u32 = 1000;

/// The shortest area for the state of a zone, in bytes.
pub(super) const MIN_AREA: u64 = 4096;

/// The state of a re-encryption that is to begin.
pub(super) struct NewState<'a> {
    pub(super) keyslot: u32,
    pub(super) digest: u32,
    pub(super) mode: ReencryptMode,
    pub(super) direction: ReencryptDirection,
    pub(super) resilience: &'a Resilience,
    pub(super) area: AreaRange,
    /// The parts of the data, if they are not all as before.
    pub(super) parts: Option<ReencryptionProgress>,
}

impl Luks2Header {
    /// Changes how the next zones of a re-encryption survive a crash, and the length of the area for that,
    /// unless `area` is `None`. It must not become longer. No zone is half done. `keys` are those of the
    /// data, by the numbers of their digests.
    ///
    /// # Errors
    /// [`ChangeError`]: there is no room in the metadata, or those on `storage` are not those that this
    /// header was read from, or cannot be written. Nothing has changed then.
    ///
    /// # Panics
    /// If no re-encryption is under way.
    pub fn set_resilience(
        &mut self,
        storage: &dyn Storage,
        resilience: &Resilience,
        area: Option<u64>,
        keys: &BTreeMap<u32, VolumeKey>,
    ) -> Result<(), ChangeError> {
        let draft = self.with_resilience(storage, resilience, area, None, keys)?;
        draft.check_later_room()?;
        self.commit(storage, draft)
    }

    /// Makes the beginning of the data a zone whose checksums, over `block` bytes each, are those of no
    /// data. `progress` is that of data that are all new. A program that recovers this zone finds all
    /// of it done, and ends the re-encryption without the data from before, which may be overwritten from
    /// now on. `keys` are those of the data, by the numbers of their digests.
    ///
    /// # Errors
    /// [`ChangeError`]: as for [`Luks2Header::set_resilience`].
    ///
    /// # Panics
    /// If no re-encryption is under way.
    pub fn forget_old_data(
        &mut self,
        storage: &dyn Storage,
        progress: &ReencryptionProgress,
        block: u32,
        keys: &BTreeMap<u32, VolumeKey>,
    ) -> Result<(), ChangeError> {
        let resilience = Resilience::Checksum {
            hash: HASH.name().to_owned(),
            sector_size: block,
        };
        // `cryptsetup repair` ends a re-encryption to the beginning of the data only if the last zone is as
        // long as the area permits.
        let checksums = [0; 4096];
        let blocks = checksums.len() / HASH.output_len();
        let len = progress.len().min(blocks as u64 * u64::from(block));
        let zone = progress.with(0..len, PartState::Zone);
        let draft = self.with_resilience(
            storage,
            &resilience,
            Some(checksums.len() as u64),
            Some(&zone),
            keys,
        )?;
        let (_, keyslot) = self.metadata().reencrypt.as_ref().expect("it has a state");
        durable::write_area(storage, &checksums, keyslot.offset)?;
        self.commit(storage, draft)
    }

    /// Makes metadata with another resilience and area, and with the parts of the data that `progress`
    /// has.
    fn with_resilience(
        &mut self,
        storage: &dyn Storage,
        resilience: &Resilience,
        area: Option<u64>,
        progress: Option<&ReencryptionProgress>,
        keys: &BTreeMap<u32, VolumeKey>,
    ) -> Result<MetadataDraft, ChangeError> {
        let mut draft = self.begin_reencrypting(storage)?;
        let metadata = self.metadata();
        let (keyslot, old) = metadata.reencrypt.as_ref().expect("it has a state");
        let number = metadata.digest_of_keyslot(*keyslot);
        let area = AreaRange {
            offset: old.offset,
            size: area.map_or(old.size, |size| size.min(old.size)),
        };
        draft
            .root
            .edit(&["keyslots", &keyslot.to_string()], |keyslot| {
                keyslot.set("area", &area_json(resilience, area));
            });
        let iterations = metadata.digests.get(&number).map(|old| old.iterations);
        let keys = keys.iter().map(|(&digest, key)| (digest, key)).collect();
        draft.seal_state((*keyslot, number), progress, &keys, |state| {
            NewDigest::with_iterations(state, HASH, iterations.unwrap_or(MIN_ITERATIONS))
        })?;
        Ok(draft)
    }
}

impl MetadataDraft {
    /// Edits the requirements. Those that a re-encryption has not added stay, as with cryptsetup.
    pub(super) fn edit_requirements(&mut self, edit: impl FnOnce(&mut JsonMembers)) {
        self.root.edit(&["config"], |config| {
            let mut requirements = JsonMembers::parse(config.raw("requirements").unwrap_or("{}"));
            edit(&mut requirements);
            if requirements.text() == "{}" {
                config.remove("requirements");
            } else {
                config.set("requirements", &requirements);
            }
        });
    }

    /// Adds the state of a re-encryption: its keyslot, the requirement, and the digest over it. The
    /// draft has the backup segments. `keys` are those of the data, by the numbers of their digests.
    pub(super) fn seal(
        &mut self,
        new: &NewState<'_>,
        keys: &BTreeMap<u32, &VolumeKey>,
        pbkdf: &PbkdfOptions,
    ) -> Result<(), ChangeError> {
        self.root.edit(&["keyslots"], |keyslots| {
            keyslots.set(&new.keyslot.to_string(), &new.json());
        });
        let requirement = [new.requirement()];
        self.edit_requirements(|requirements| requirements.set("mandatory", &requirement));
        let make = |state: &[u8]| NewDigest::make(state, HASH, pbkdf);
        self.seal_state((new.keyslot, new.digest), new.parts.as_ref(), keys, make)?;
        self.check_later_room()
    }

    /// Makes the digest over the state in the keyslot, which has that number, and sets the parts of the
    /// data.
    fn seal_state(
        &mut self,
        (keyslot, number): (u32, u32),
        parts: Option<&ReencryptionProgress>,
        keys: &BTreeMap<u32, &VolumeKey>,
        make: impl Fn(&[u8]) -> Result<NewDigest, getrandom::Error>,
    ) -> Result<(), ChangeError> {
        let set = |draft: &mut Self, digest: &NewDigest| {
            let json = digest.json(&[&keyslot.to_string()], &[]);
            draft.root.edit(&["digests"], |digests| {
                digests.set(&number.to_string(), &json);
            });
        };
        // Parsed with the digest of something else, because a keyslot must have one.
        set(self, &make(&[])?);
        let metadata = Metadata::parse(&self.root.text(), self.binary.size)?;
        let state = Reencryption::find(&metadata)?.expect("the draft has one");
        let covered: Vec<&[u8]> = state
            .keys()
            .iter()
            .filter_map(|(digest, _)| keys.get(digest).map(|key| key.expose()))
            .collect();
        let bytes: SecretBytes = state.bytes(&covered);
        if let Some(parts) = parts {
            self.set_parts(&metadata, &state, parts);
        }
        set(self, &make(bytes.expose())?);
        Ok(())
    }

    /// Checks that there is room for the metadata of a zone, which have two more segments. cryptsetup
    /// may write them.
    fn check_later_room(&self) -> Result<(), ChangeError> {
        const TWO_SEGMENTS: u64 = 640;
        check_room(&self.binary, &self.root.text(), TWO_SEGMENTS)
    }
}

impl NewState<'_> {
    /// The requirement of the metadata. cryptsetup takes version 3 for the resiliences that it
    /// introduced.
    fn requirement(&self) -> &'static str {
        match self.resilience {
            Resilience::DataShiftJournal { .. } | Resilience::DataShiftChecksum { .. } => {
                "online-reencrypt-v3"
            }
            _ => "online-reencrypt-v2",
        }
    }

    /// Returns the keyslot `reencrypt`.
    fn json(&self) -> serde_json::Value {
        json!({
            "type": "reencrypt",
            "key_size": 1,
            "area": area_json(self.resilience, self.area),
            "mode": self.mode.name(),
            "direction": self.direction.name(),
            "priority": 0,
        })
    }
}

/// Returns the area of the keyslot.
fn area_json(resilience: &Resilience, area: AreaRange) -> serde_json::Value {
    let mut json = json!({
        "type": resilience.name(),
        "offset": area.offset.to_string(),
        "size": area.size.to_string(),
    });
    if let Some((hash, sector_size)) = resilience.checksum() {
        json["hash"] = hash.into();
        json["sector_size"] = sector_size.into();
    }
    if let Some(shift) = resilience.shift() {
        json["shift_size"] = shift.to_string().into();
    }
    json
}

/// Returns how many bytes the area of the state needs. Data that were moved, `first` bytes, are one
/// zone.
pub(super) fn area_for(resilience: &Resilience, first: Option<u64>) -> u64 {
    let first = first.unwrap_or(0);
    let needed = match resilience {
        Resilience::DataShiftJournal { .. } => first,
        Resilience::DataShiftChecksum {
            hash, sector_size, ..
        } => {
            let len = HashAlgorithm::by_name(hash).map_or(0, HashAlgorithm::output_len);
            first.div_ceil(u64::from(*sector_size)) * len as u64
        }
        _ => 0,
    };
    needed.max(MIN_AREA)
}
