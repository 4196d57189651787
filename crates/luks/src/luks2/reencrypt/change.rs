// SPDX-License-Identifier: MIT OR Apache-2.0
//! Begins, continues and ends a re-encryption in the metadata. The data are the caller's part.
//!
//! ```text
//! begin       the keyslots of the new key, the keyslot `reencrypt`, backup segments, and the digest
//!             over the state: all in one change
//! progress    for each zone twice: it is being re-encrypted; it is done
//! end         the new key alone; then the old keyslots are overwritten
//! ```

use std::collections::BTreeMap;

use luxor_engine::SecretBytes;
use luxor_sector::{SectorSize, Storage};
use luxor_volume::{Encryption, ExtentCipher, HashAlgorithm, PbkdfOptions, VolumeKey};
use serde_json::json;

use super::{
    parts::ReencryptionProgress,
    state::{BackupSegment, Reencryption},
};
use crate::luks2::{
    binary_header::json_size,
    digest::NewDigest,
    edit::{
        ChangeError, JsonMembers, MAX_NUMBERS, MetadataDraft, NewVolumeKey, durable, free_number,
    },
    header::Luks2Header,
    metadata::{AreaRange, MAX_DIGESTS, Metadata},
    new_keyslot::NewKeyslot,
    reencrypt_keyslot::{ReencryptDirection, ReencryptMode, Resilience},
    segment::{SegmentError, SegmentRole, SegmentSize},
    unlock::{ConfirmedKey, UnlockError},
};

/// The hash of the digest over the state.
const HASH: HashAlgorithm = HashAlgorithm::Sha256;

/// The shortest area for the state of a zone, in bytes.
const MIN_AREA: u64 = 4096;

/// A re-encryption that is to begin.
#[derive(Debug)]
pub struct ReencryptionPlan<'a> {
    /// The key of the data.
    pub old: ConfirmedKey<'a>,
    /// The key that the data will have.
    pub new: &'a NewVolumeKey,
    /// The keyslots for the new key.
    pub keyslots: &'a [CarriedKeyslot],
    /// The sector size that the data will have. It must divide their length.
    pub sector_size: SectorSize,
    /// How a zone survives a crash: [`Resilience::None`], `Journal` or `Checksum`.
    pub resilience: Resilience,
    /// What the digest over the state costs.
    pub pbkdf: &'a PbkdfOptions,
    /// The length in bytes of the file in the volume, if a trailer has recorded it: the new key would
    /// not recognise the trailer, so a token records the length from now on.
    pub file_length: Option<u64>,
}

/// A keyslot that takes the place of one for the old key, with its priority and tokens.
#[derive(Debug)]
pub struct CarriedKeyslot {
    /// The number of the old keyslot.
    pub from: u32,
    /// The keyslot for the new key ([`NewVolumeKey::keyslot`]).
    pub new: NewKeyslot,
}

/// Where the data of a re-encryption must end, in bytes of the plaintext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataEnd {
    /// At this byte.
    At(u64),
    /// After this byte, where the last part of the data begins.
    After(u64),
}

/// A re-encryption that is under way.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReencryptionState {
    /// Its kind.
    pub mode: ReencryptMode,
    /// Its direction.
    pub direction: ReencryptDirection,
    /// How a zone survives a crash.
    pub resilience: Resilience,
    /// The area for that: its offset in the metadata's storage, and its length in bytes.
    pub area: (u64, u64),
    /// The data as they were: their offset in the storage, and their encryption.
    pub old: (u64, Option<ExtentCipher>),
    /// The data as they will be.
    pub new: (u64, Option<ExtentCipher>),
    /// How far it has come.
    pub progress: ReencryptionProgress,
    /// Where the data must end, in bytes of the plaintext.
    pub end: DataEnd,
    /// Whether data were moved, which happens before the first zone.
    pub has_moved: bool,
}

impl Luks2Header {
    /// Returns the length of the data in bytes, in a storage of `storage_len` bytes. Unlike
    /// [`Luks2Header::extents`] this works within a zone.
    ///
    /// # Errors
    /// [`SegmentError`]: the data are cut off.
    pub fn data_len(&self, storage_len: u64) -> Result<u64, SegmentError> {
        let segments = &self.metadata().segments;
        let whole = segments.of_role(SegmentRole::BackupPrevious);
        let whole = whole.or_else(|| segments.data().last());
        whole.map_or(Ok(0), |(_, whole)| whole.payload_len(storage_len))
    }

    /// Returns the re-encryption that is under way, if any. The data have `data_len` bytes.
    ///
    /// # Errors
    /// [`UnlockError`]: this version does not support its state, or a rule is broken.
    pub fn reencryption(&self, data_len: u64) -> Result<Option<ReencryptionState>, UnlockError> {
        let metadata = self.metadata();
        let Some(state) = self.state()? else {
            return Ok(None);
        };
        let side = |backup: BackupSegment<'_>| {
            let cipher = backup.entry.crypt().zip(backup.digest);
            let cipher = cipher.map(|(segment, digest)| segment.cipher(digest));
            (backup.entry.offset(), cipher)
        };
        Ok(Some(ReencryptionState {
            mode: state.keyslot.mode,
            direction: state.keyslot.direction,
            resilience: state.keyslot.resilience.clone(),
            area: (state.keyslot.offset, state.keyslot.size),
            old: side(state.previous),
            new: side(state.last),
            progress: state.progress(metadata, data_len),
            end: metadata.segments.end(state.previous.entry.offset()),
            has_moved: state.moved.is_some(),
        }))
    }

    /// Begins a re-encryption: nothing of the data has changed yet. Until it ends the metadata require
    /// that a program knows what a re-encryption is.
    ///
    /// # Errors
    /// [`ChangeError`]: the data are not one segment with the old key, there is no room for a keyslot
    /// or for the state, or the metadata on `storage` are not those that this header was read from,
    /// or cannot be written. Nothing has changed then.
    pub fn begin_reencryption(
        &mut self,
        storage: &dyn Storage,
        plan: &ReencryptionPlan<'_>,
    ) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        let metadata = self.metadata();
        let (segment, _) = metadata.segments.single().ok_or(ChangeError::Missing {
            what: "segment",
            number: 0,
        })?;
        if metadata.digest_of_segment(segment) != plan.old.digest {
            return Err(ChangeError::OtherKey);
        }
        let new_digest = self.free_digest()?;
        let is_taken = |number| number == new_digest || metadata.bindings.contains_key(&number);
        let state_digest = free_number("digest", None, MAX_DIGESTS, is_taken)?;

        let mut places: BTreeMap<u32, AreaRange> = BTreeMap::new();
        let free_keyslot = |places: &BTreeMap<u32, AreaRange>| {
            free_number("keyslot", None, MAX_NUMBERS, |number| {
                metadata.areas.contains_key(&number) || places.contains_key(&number)
            })
        };
        for CarriedKeyslot { new, .. } in plan.keyslots {
            let number = free_keyslot(&places)?;
            let others: Vec<_> = places.values().copied().collect();
            let (offset, size) = (self.free_area(new.area_size(), &others)?, new.area_size());
            places.insert(number, AreaRange { offset, size });
        }
        let state_keyslot = free_keyslot(&places)?;
        let others: Vec<_> = places.values().copied().collect();
        let area = self.state_area(&others)?;

        let names: Vec<String> = places.keys().map(u32::to_string).collect();
        for ((carried, name), place) in plan.keyslots.iter().zip(&names).zip(places.values()) {
            draft.carry(carried, name, place.offset);
        }
        let how = (ReencryptMode::Reencrypt, &plan.resilience);
        draft.require(state_keyslot, how, area);
        draft.root.edit(&["segments"], |segments| {
            let old = segments.raw(&segment.to_string());
            let old = old.map_or_else(JsonMembers::default, JsonMembers::parse);
            let (mut previous, mut last) = (old.clone(), old);
            previous.set_role(SegmentRole::BackupPrevious);
            last.set("encryption", &Encryption::AesXtsPlain64.name());
            last.set("sector_size", &plan.sector_size.bytes());
            last.set_role(SegmentRole::BackupFinal);
            segments.set("1", &previous);
            segments.set("2", &last);
        });
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        draft.root.edit(&["digests"], |digests| {
            digests.edit(&[&plan.old.digest.to_string()], |digest| {
                digest.set("segments", &["0", "1"]);
            });
            let new = plan.new.digest.json(&names, &["2"]);
            digests.set(&new_digest.to_string(), &new);
        });
        if let Some(length) = plan.file_length {
            draft.root.edit(&["tokens"], |tokens| {
                tokens.retain(|token| {
                    if token.raw("padding").is_some() {
                        token.remove("padding");
                        token.set("length", &length.to_string());
                    }
                    true
                });
            });
        }
        let keys = BTreeMap::from([
            (plan.old.digest, plan.old.volume_key),
            (new_digest, &plan.new.key),
        ]);
        draft.seal((state_digest, state_keyslot), &keys, plan.pbkdf)?;
        draft.check_later_room()?;

        for (CarriedKeyslot { new, .. }, place) in plan.keyslots.iter().zip(places.values()) {
            durable::write_area(storage, &new.encrypted, place.offset)?;
        }
        for (CarriedKeyslot { new, .. }, place) in plan.keyslots.iter().zip(places.values()) {
            durable::check_area(storage, &new.encrypted, place.offset)?;
        }
        self.commit(storage, draft)
    }

    /// Begins the encryption of data that are not encrypted yet, and have this header in another
    /// storage. It must be new, with a segment for the data.
    ///
    /// # Errors
    /// [`ChangeError`]: as for [`Luks2Header::begin_reencryption`].
    pub fn begin_encryption(
        &mut self,
        storage: &dyn Storage,
        key: ConfirmedKey<'_>,
        resilience: &Resilience,
        pbkdf: &PbkdfOptions,
    ) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        let metadata = self.metadata();
        let (segment, crypt) = metadata.segments.single().ok_or(ChangeError::Missing {
            what: "segment",
            number: 0,
        })?;
        if metadata.digest_of_segment(segment) != key.digest {
            return Err(ChangeError::OtherKey);
        }
        let state_keyslot = free_number("keyslot", None, MAX_NUMBERS, |number| {
            metadata.areas.contains_key(&number)
        })?;
        let state_digest = self.free_digest()?;
        let how = (ReencryptMode::Encrypt, resilience);
        draft.require(state_keyslot, how, self.state_area(&[])?);
        let (offset, size) = (crypt.offset.to_string(), crypt.size.to_string());
        draft.root.edit(&["segments"], |segments| {
            let linear = json!({ "type": "linear", "offset": offset, "size": size }).to_string();
            let (now, mut previous) = (JsonMembers::parse(&linear), JsonMembers::parse(&linear));
            let last = segments.raw(&segment.to_string());
            let mut last = last.map_or_else(JsonMembers::default, JsonMembers::parse);
            previous.set_role(SegmentRole::BackupPrevious);
            last.set_role(SegmentRole::BackupFinal);
            segments.set("0", &now);
            segments.set("1", &previous);
            segments.set("2", &last);
        });
        draft.bind_segments(BTreeMap::from([(key.digest, vec!["2".to_owned()])]));
        let keys = BTreeMap::from([(key.digest, key.volume_key)]);
        draft.seal((state_digest, state_keyslot), &keys, pbkdf)?;
        draft.check_later_room()?;
        self.commit(storage, draft)
    }

    /// Returns the longest gap between the areas of keyslots and `others`, for the state of a zone.
    fn state_area(&self, others: &[AreaRange]) -> Result<AreaRange, ChangeError> {
        let mut area = AreaRange { offset: 0, size: 0 };
        for gap in self.gaps(others) {
            if gap.size > area.size {
                area = gap;
            }
        }
        if area.size < MIN_AREA {
            return Err(ChangeError::NoArea { needed: MIN_AREA });
        }
        Ok(area)
    }

    /// Checks that the metadata on `storage` are still those that this header was read from. The
    /// caller holds the lock on them, and until it releases the lock it may use the area of the state.
    ///
    /// # Errors
    /// [`ChangeError`]: they are others, or cannot be read.
    pub fn check_unchanged(&mut self, storage: &dyn Storage) -> Result<(), ChangeError> {
        self.begin_reencrypting(storage).map(drop)
    }

    /// Writes the checksums of a zone to the area of the state. They are durable on return.
    ///
    /// # Errors
    /// [`ChangeError::WriteArea`].
    ///
    /// # Panics
    /// If no re-encryption is under way.
    pub fn store_zone(&self, storage: &dyn Storage, bytes: &[u8]) -> Result<(), ChangeError> {
        let keyslot = self.metadata().reencrypt.as_ref();
        let (_, keyslot) = keyslot.expect("a re-encryption is under way");
        durable::write_area(storage, bytes, keyslot.offset)
    }

    /// Records how far a re-encryption has come. Before a zone begins, what makes it survive a crash
    /// must be durable; before it is done, its data. The data have `data_len` bytes.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata on `storage` are not those that this header was read from, or
    /// cannot be written.
    ///
    /// # Panics
    /// If no re-encryption is under way.
    pub fn set_reencryption(
        &mut self,
        storage: &dyn Storage,
        progress: ReencryptionProgress,
        data_len: u64,
    ) -> Result<(), ChangeError> {
        let mut draft = self.begin_reencrypting(storage)?;
        let metadata = self.metadata();
        let state = Reencryption::find(metadata)?.expect("a re-encryption is under way");
        let raw = |role| {
            let (number, _) = metadata.segments.of_role(role).expect("it has backups");
            JsonMembers::parse(draft.root.raw("segments").expect("there are segments"))
                .raw(&number.to_string())
                .map(JsonMembers::parse)
                .expect("it is a segment")
        };
        let backups = [
            (SegmentRole::BackupPrevious, state.previous),
            (SegmentRole::BackupFinal, state.last),
        ];
        let mut segments = JsonMembers::default();
        let mut bindings: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        let mut number = 0;
        let mut add = |json: &JsonMembers, digests: &[Option<u32>]| {
            segments.set(&number.to_string(), json);
            for digest in digests.iter().flatten() {
                let segments = bindings.entry(*digest).or_default();
                // Without a new key both are the same.
                if !segments.contains(&number.to_string()) {
                    segments.push(number.to_string());
                }
            }
            number += 1;
        };
        let zone = progress.zone.unwrap_or(0);
        let rest = progress.done + zone;
        let [previous, last] = [state.previous, state.last];
        for (backup, range, role, digests) in [
            (
                last,
                0..progress.done,
                SegmentRole::Regular,
                vec![last.digest],
            ),
            (
                last,
                progress.done..rest,
                SegmentRole::InReencryption,
                vec![previous.digest, last.digest],
            ),
            (
                previous,
                rest..data_len,
                SegmentRole::Regular,
                vec![previous.digest],
            ),
        ] {
            if range.is_empty() {
                continue;
            }
            let mut json = raw(backup.entry.role);
            let is_last = range.end == data_len && role == SegmentRole::Regular;
            json.set_stretch(backup, range.start, (!is_last).then_some(range.end));
            json.set_role(role);
            add(&json, &digests);
        }
        for (role, backup) in backups {
            add(&raw(role), &[backup.digest]);
        }
        draft.root.set("segments", &segments);
        draft.bind_segments(bindings);
        self.commit(storage, draft)
    }

    /// Ends a re-encryption whose data are all done. The old key and its keyslots vanish, also those
    /// that were not carried, and their areas are overwritten.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata on `storage` are not those that this header was read from, or
    /// something cannot be written.
    ///
    /// # Panics
    /// If no re-encryption is under way.
    pub fn end_reencryption(&mut self, storage: &dyn Storage) -> Result<(), ChangeError> {
        let mut draft = self.begin_reencrypting(storage)?;
        let metadata = self.metadata();
        let state = Reencryption::find(metadata)?.expect("a re-encryption is under way");
        let (last, _) = metadata
            .segments
            .of_role(SegmentRole::BackupFinal)
            .expect("it has a final segment");
        let mut gone = metadata.bindings[&state.digest].keyslots.clone();
        gone.extend(
            state
                .previous
                .digest
                .filter(|digest| Some(*digest) != state.last.digest)
                .iter()
                .flat_map(|digest| &metadata.bindings[digest].keyslots),
        );
        let areas: Vec<AreaRange> = gone.iter().map(|number| metadata.areas[number]).collect();

        let mut segment = JsonMembers::parse(draft.root.raw("segments").unwrap_or("{}"));
        segment = JsonMembers::parse(segment.raw(&last.to_string()).unwrap_or("{}"));
        segment.set_role(SegmentRole::Regular);
        if let SegmentSize::Fixed(size) = state.previous.entry.size() {
            // cryptsetup does not keep the size.
            segment.set("size", &size.to_string());
        }
        let mut segments = JsonMembers::default();
        segments.set("0", &segment);
        draft.root.set("segments", &segments);
        let bindings = state
            .last
            .digest
            .map(|digest| (digest, vec!["0".to_owned()]));
        draft.bind_segments(bindings.into_iter().collect());
        let names: Vec<String> = gone.iter().map(u32::to_string).collect();
        draft.root.edit(&["keyslots"], |keyslots| {
            for name in &names {
                keyslots.remove(name);
            }
        });
        draft.forget_keyslots(|reference| names.iter().any(|name| name == reference));
        draft
            .root
            .edit(&["config"], |config| config.remove("requirements"));
        self.commit(storage, draft)?;
        for (&keyslot, AreaRange { offset, size }) in gone.iter().zip(areas) {
            durable::overwrite(storage, offset..offset + size).map_err(|error| {
                ChangeError::OldKeyslotLeft {
                    keyslot,
                    offset,
                    error: Box::new(error),
                }
            })?;
        }
        Ok(())
    }
}

impl MetadataDraft {
    /// Adds the keyslot `reencrypt` with this number and area, and the requirement.
    fn require(
        &mut self,
        number: u32,
        (mode, resilience): (ReencryptMode, &Resilience),
        area: AreaRange,
    ) {
        self.root.edit(&["keyslots"], |keyslots| {
            keyslots.set(&number.to_string(), &state_json(mode, resilience, area));
        });
        self.root.edit(&["config"], |config| {
            config.set(
                "requirements",
                &json!({ "mandatory": ["online-reencrypt-v2"] }),
            );
        });
    }

    /// Adds a keyslot with the priority and tokens of the one that it takes over from.
    fn carry(&mut self, CarriedKeyslot { from, new }: &CarriedKeyslot, name: &str, offset: u64) {
        let from = from.to_string();
        self.root.edit(&["keyslots"], |keyslots| {
            let old = keyslots.raw(&from).map(JsonMembers::parse);
            let priority = old.and_then(|old| old.raw("priority").map(str::to_owned));
            keyslots.set(name, &new.json(offset));
            if let Some(priority) = priority.and_then(|text| text.parse::<u32>().ok()) {
                keyslots.edit(&[name], |keyslot| keyslot.set("priority", &priority));
            }
        });
        self.root.edit(&["tokens"], |tokens| {
            tokens.retain(|token| {
                let mut references = token.references("keyslots");
                if references.contains(&from) {
                    references.push(name.to_owned());
                    token.set("keyslots", &references);
                }
                true
            });
        });
    }

    /// Checks that there is room for the metadata of a zone, which have two more segments. cryptsetup
    /// may write them.
    fn check_later_room(&self) -> Result<(), ChangeError> {
        const TWO_SEGMENTS: u64 = 640;
        let room = json_size(self.binary.size);
        let needed = self.root.text().len() as u64 + TWO_SEGMENTS;
        if needed > room {
            return Err(ChangeError::NoRoom { needed, room });
        }
        Ok(())
    }

    /// Sets the segments of all digests. A digest that is not in `bindings` has none.
    fn bind_segments(&mut self, mut bindings: BTreeMap<u32, Vec<String>>) {
        let numbers = 0..MAX_DIGESTS;
        self.root.edit(&["digests"], |digests| {
            for number in numbers {
                if digests.raw(&number.to_string()).is_some() {
                    let segments = bindings.remove(&number).unwrap_or_default();
                    digests.edit(&[&number.to_string()], |digest| {
                        digest.set("segments", &segments);
                    });
                }
            }
        });
    }

    /// Makes the digest over the state of a re-encryption, with this number and for this keyslot.
    /// `keys` are those of the data, by the numbers of their digests.
    fn seal(
        &mut self,
        (number, keyslot): (u32, u32),
        keys: &BTreeMap<u32, &VolumeKey>,
        pbkdf: &PbkdfOptions,
    ) -> Result<(), ChangeError> {
        let set = |draft: &mut Self, digest: &NewDigest| {
            let json = digest.json(&[&keyslot.to_string()], &[]);
            draft.root.edit(&["digests"], |digests| {
                digests.set(&number.to_string(), &json);
            });
        };
        // Parsed with the digest of something else, because a keyslot must have one.
        let make = |secret: &[u8]| NewDigest::make(secret, HASH, pbkdf).map_err(ChangeError::from);
        set(self, &make(&[])?);
        let metadata = Metadata::parse(&self.root.text(), self.binary.size)?;
        let state = Reencryption::find(&metadata)?.expect("the draft has one");
        let covered: Vec<&[u8]> = state
            .keys()
            .iter()
            .filter_map(|(digest, _)| keys.get(digest).map(|key| key.expose()))
            .collect();
        let bytes: SecretBytes = state.bytes(&covered);
        set(self, &make(bytes.expose())?);
        Ok(())
    }
}

impl JsonMembers {
    /// Sets the flags of a segment.
    fn set_role(&mut self, role: SegmentRole) {
        match role.flag() {
            Some(flag) => self.set("flags", &[flag]),
            None => self.remove("flags"),
        }
    }

    /// Makes a backup segment one of its stretches: from `begin` to `end`, or to the end of the data.
    fn set_stretch(&mut self, backup: BackupSegment<'_>, begin: u64, end: Option<u64>) {
        self.set("offset", &(backup.entry.offset() + begin).to_string());
        let size = match (end, backup.entry.size()) {
            (Some(end), _) => SegmentSize::Fixed(end - begin),
            (None, SegmentSize::Fixed(size)) => SegmentSize::Fixed(size - begin),
            (None, SegmentSize::Dynamic) => SegmentSize::Dynamic,
        };
        self.set("size", &size.to_string());
        if let Some(segment) = backup.entry.crypt() {
            let iv_offset = segment.geometry.iv_offset.wrapping_add(begin / 512);
            self.set("iv_tweak", &iv_offset.to_string());
        }
    }
}

/// Returns the keyslot `reencrypt` with this area.
fn state_json(mode: ReencryptMode, resilience: &Resilience, area: AreaRange) -> serde_json::Value {
    let mut json = json!({
        "type": "reencrypt",
        "key_size": 1,
        "area": {
            "type": resilience.name(),
            "offset": area.offset.to_string(),
            "size": area.size.to_string(),
        },
        "mode": mode.name(),
        "direction": ReencryptDirection::Forward.name(),
        "priority": 0,
    });
    if let Some((hash, sector_size)) = resilience.checksum() {
        json["area"]["hash"] = hash.into();
        json["area"]["sector_size"] = sector_size.into();
    }
    json
}
