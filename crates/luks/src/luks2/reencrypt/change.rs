// SPDX-License-Identifier: MIT OR Apache-2.0
//! Begins, continues and ends a re-encryption in the metadata. The data are the caller's part.
//!
//! ```text
//! begin       the keyslots of the new key, the keyslot `reencrypt`, backup segments, and the digest
//!             over the state: all in one change
//! progress    for each zone twice: it is being re-encrypted; it is done
//! end         the last zone is done, and the new key alone is left: in one change; then the old
//!             keyslots are overwritten
//! ```

use std::collections::BTreeMap;

use luxor_sector::{SectorSize, Storage};
use luxor_volume::{Encryption, ExtentCipher, PbkdfOptions};
use serde_json::json;

use super::{
    parts::{DataEnd, PartState, ReencryptionProgress},
    seal::{MIN_AREA, NewState, area_for},
    state::{BackupSegment, Reencryption},
};
use crate::luks2::{
    edit::{
        ChangeError, JsonMembers, MAX_NUMBERS, MetadataDraft, NewVolumeKey, durable, free_number,
    },
    header::Luks2Header,
    metadata::{AreaRange, MAX_DIGESTS, Metadata},
    new_keyslot::NewKeyslot,
    reencrypt_keyslot::{ReencryptDirection, ReencryptMode, Resilience},
    segment::{SegmentError, SegmentRole, SegmentSize},
    token::{FileEnd, Token},
    unlock::{ConfirmedKey, UnlockError},
};

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
    /// The data as they were.
    pub old: StoredData,
    /// The data as they will be.
    pub new: StoredData,
    /// The first part of the data, if it was moved before the first zone, and its length in bytes.
    pub moved: Option<(StoredData, u64)>,
    /// Where the data must end, in bytes of the plaintext.
    pub end: DataEnd,
    /// How far it has come.
    pub progress: ReencryptionProgress,
}

/// Where data are stored, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredData {
    /// The byte of the storage that has byte 0 of the plaintext.
    pub offset: u64,
    /// `None` for data that are not encrypted.
    pub cipher: Option<ExtentCipher>,
}

/// What becomes of data in place, besides a change of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// Plain data become encrypted.
    Encrypt,
    /// They become plain again.
    Decrypt,
}

/// A re-encryption from or to plain data that is to begin.
#[derive(Debug)]
pub struct InPlacePlan<'a> {
    /// What becomes of the data.
    pub what: InPlace,
    /// The key of the volume.
    pub key: ConfirmedKey<'a>,
    /// How a zone survives a crash.
    pub resilience: Resilience,
    /// With a data shift: where the storage has the first `shift` bytes of the data, which were moved
    /// there, and the length of the data in bytes.
    pub moved: Option<(u64, u64)>,
    /// Whether those are only the first part of the data that the header has. The rest is lost.
    pub is_part: bool,
    /// What the digest over the state costs.
    pub pbkdf: &'a PbkdfOptions,
}

impl Luks2Header {
    /// Returns the length of the data in bytes, in a storage of `storage_len` bytes. Unlike
    /// [`Luks2Header::extents`] this works within a zone.
    ///
    /// # Errors
    /// [`SegmentError`]: the data are cut off, or this version does not know where a file in them ends.
    pub fn data_len(&self, storage_len: u64) -> Result<u64, SegmentError> {
        self.metadata().check_file_end()?;
        let segments = &self.metadata().segments;
        // When all is done, what came before the data may be gone.
        let state = self.state().ok().flatten();
        let role = if state.is_some_and(|state| state.is_done(self.metadata())) {
            SegmentRole::BackupFinal
        } else {
            SegmentRole::BackupPrevious
        };
        let whole = segments.of_role(role);
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
        let stored = |backup: BackupSegment<'_>| {
            let cipher = backup.entry.crypt().zip(backup.digest);
            StoredData {
                offset: backup.entry.offset(),
                cipher: cipher.map(|(segment, digest)| segment.cipher(digest)),
            }
        };
        let moved = state.moved.map(|moved| {
            let len = match moved.entry.size() {
                SegmentSize::Fixed(len) => len,
                SegmentSize::Dynamic => data_len,
            };
            (stored(moved), len)
        });
        let (end, progress) = state.progress(metadata, data_len);
        Ok(Some(ReencryptionState {
            mode: state.keyslot.mode,
            direction: state.keyslot.direction,
            resilience: state.keyslot.resilience.clone(),
            area: (state.keyslot.offset, state.keyslot.size),
            old: stored(state.previous),
            new: stored(state.last),
            moved,
            end,
            progress,
        }))
    }

    /// During a re-encryption to another key, returns the keyslots of the old key and of the new one.
    #[must_use]
    pub fn keyslots_of_keys(&self) -> Option<(&[u32], &[u32])> {
        let keys = self.state().ok()??.keys();
        let [(old, _), (new, _)] = keys[..] else {
            return None;
        };
        let keyslots = |digest| Some(&self.metadata().digests.get(&digest)?.keyslots[..]);
        Some((keyslots(old)?, keyslots(new)?))
    }

    /// Returns whether all data have been decrypted for good, and only the metadata are left to be changed,
    /// which needs no key. cryptsetup destroys the keyslots before that.
    #[must_use]
    pub fn is_decrypted(&self) -> bool {
        let state = self.state().ok().flatten();
        state.is_some_and(|state| {
            state.keyslot.mode == ReencryptMode::Decrypt && state.is_done(self.metadata())
        })
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
        let area = self.state_area(&others, MIN_AREA)?;

        let names: Vec<String> = places.keys().map(u32::to_string).collect();
        for ((carried, name), place) in plan.keyslots.iter().zip(&names).zip(places.values()) {
            draft.carry(carried, name, place.offset);
        }
        draft.root.edit(&["segments"], |segments| {
            let old = segments.raw(&segment.to_string());
            let old = old.map_or_else(JsonMembers::default, JsonMembers::parse);
            let mut last = old.clone();
            last.set("encryption", &Encryption::AesXtsPlain64.name());
            last.set("sector_size", &plan.sector_size.bytes());
            *segments = backups(&old, &last, None);
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
            draft.record_file_length(self.metadata(), length);
        }
        let keys = BTreeMap::from([
            (plan.old.digest, plan.old.volume_key),
            (new_digest, &plan.new.key),
        ]);
        let state = NewState {
            keyslot: state_keyslot,
            digest: state_digest,
            mode: ReencryptMode::Reencrypt,
            direction: ReencryptDirection::Forward,
            resilience: &plan.resilience,
            area,
            parts: None,
        };
        draft.seal(&state, &keys, plan.pbkdf)?;

        for (CarriedKeyslot { new, .. }, place) in plan.keyslots.iter().zip(places.values()) {
            durable::write_area(storage, &new.encrypted, place.offset)?;
        }
        for (CarriedKeyslot { new, .. }, place) in plan.keyslots.iter().zip(places.values()) {
            durable::check_area(storage, &new.encrypted, place.offset)?;
        }
        self.commit(storage, draft)
    }

    /// Records the length in bytes of the file in the volume, of which only a trailer knew, in the
    /// token: the key that recognises the trailer will be gone. The state of a re-encryption stays as
    /// it is.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata on `storage` are not those that this header was read from, or
    /// cannot be written.
    pub fn record_file_length(
        &mut self,
        storage: &dyn Storage,
        length: u64,
    ) -> Result<(), ChangeError> {
        let mut draft = self.begin_reencrypting(storage)?;
        draft.record_file_length(self.metadata(), length);
        self.commit(storage, draft)
    }

    /// Begins the encryption of data that are not encrypted yet, or a decryption for good. The header has
    /// one segment: the data as they will be or are. Calls `prepare` when nothing is left but to write
    /// the metadata.
    ///
    /// # Errors
    /// [`ChangeError`]: as for [`Luks2Header::begin_reencryption`]. `E`: that of `prepare`.
    pub fn begin_in_place<E>(
        &mut self,
        storage: &dyn Storage,
        plan: &InPlacePlan<'_>,
        prepare: impl FnOnce() -> Result<(), E>,
    ) -> Result<Result<(), E>, ChangeError> {
        let mut draft = self.begin(storage)?;
        let metadata = self.metadata();
        let (segment, crypt) = metadata.segments.single().ok_or(ChangeError::Missing {
            what: "segment",
            number: 0,
        })?;
        if metadata.digest_of_segment(segment) != plan.key.digest {
            return Err(ChangeError::OtherKey);
        }
        let raw = draft.root.raw("segments").map(JsonMembers::parse);
        let raw =
            raw.and_then(|segments| Some(JsonMembers::parse(segments.raw(&segment.to_string())?)));
        let mut encrypted = raw.unwrap_or_default();
        let mut size = crypt.size;
        if let (true, Some((_, len))) = (plan.is_part, plan.moved) {
            size = SegmentSize::Fixed(len);
            encrypted.set("size", &size.to_string());
        }
        let plain = |offset: u64, size: SegmentSize| {
            let (offset, size) = (offset.to_string(), size.to_string());
            let json = json!({ "type": "linear", "offset": offset, "size": size });
            JsonMembers::parse(&json.to_string())
        };
        let shift = plan.resilience.shift();
        let first = plan
            .moved
            .zip(shift)
            .map(|((_, len), shift)| len.min(shift));
        let moved = |mut whole: JsonMembers| {
            let (offset, _) = plan.moved?;
            whole.set("offset", &offset.to_string());
            whole.set("size", &first?.to_string());
            Some(whole)
        };
        let digest = plan.key.digest;
        let (segments, bound, (mode, direction)) = match plan.what {
            InPlace::Encrypt => {
                let (offset, size) = match plan.moved {
                    Some((_, len)) => (0, SegmentSize::Fixed(len)),
                    None => (crypt.offset, crypt.size),
                };
                let old = plain(offset, size);
                let moved = moved(old.clone());
                let direction = match shift {
                    Some(_) => ReencryptDirection::Backward,
                    None => ReencryptDirection::Forward,
                };
                let last = if moved.is_some() { "3" } else { "2" };
                let how = (ReencryptMode::Encrypt, direction);
                (backups(&old, &encrypted, moved), vec![last], how)
            }
            InPlace::Decrypt => {
                let moved = moved(encrypted.clone());
                let (offset, direction) = match moved {
                    Some(_) => (0, ReencryptDirection::Forward),
                    None => (crypt.offset, ReencryptDirection::Backward),
                };
                let bound = if moved.is_some() {
                    vec!["0", "1", "2"]
                } else {
                    vec!["0", "1"]
                };
                let segments = backups(&encrypted, &plain(offset, crypt.size), moved);
                (segments, bound, (ReencryptMode::Decrypt, direction))
            }
        };
        draft.root.set("segments", &segments);
        let bound = bound.into_iter().map(str::to_owned).collect();
        draft.bind_segments(BTreeMap::from([(digest, bound)]));
        let state = NewState {
            keyslot: free_number("keyslot", None, MAX_NUMBERS, |number| {
                metadata.areas.contains_key(&number)
            })?,
            digest: self.free_digest()?,
            mode,
            direction,
            resilience: &plan.resilience,
            area: self.state_area(&[], area_for(&plan.resilience, first))?,
            parts: plan.moved.zip(first).map(|((_, len), first)| {
                let is_open = plan.what == InPlace::Decrypt && size == SegmentSize::Dynamic;
                ReencryptionProgress::all(len, PartState::Old, is_open)
                    .with(0..first, PartState::Moved)
            }),
        };
        let keys = BTreeMap::from([(digest, plan.key.volume_key)]);
        draft.seal(&state, &keys, plan.pbkdf)?;
        match prepare() {
            Ok(()) => self.commit(storage, draft).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Returns the longest gap between the areas of keyslots and `others`, for the state of a zone. It
    /// has at least `needed` bytes.
    fn state_area(&self, others: &[AreaRange], needed: u64) -> Result<AreaRange, ChangeError> {
        let mut area = AreaRange { offset: 0, size: 0 };
        for gap in self.gaps(others) {
            if gap.size > area.size {
                area = gap;
            }
        }
        if area.size < needed {
            return Err(self.no_area(needed));
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

    /// Records how far a re-encryption has come, which is not the end yet: [`Luks2Header::end_reencryption`]
    /// records the last zone as done. `prepare` is called first, with the offset of the area of the
    /// state. It may write there what makes a zone survive a crash, and returns whether it has. Before a
    /// zone is recorded as done, its data must be durable.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata on `storage` are not those that this header was read from, or
    /// cannot be written. `E`: that of `prepare`.
    ///
    /// # Panics
    /// If no re-encryption is under way, or if all data are done. From metadata with such a progress,
    /// `cryptsetup` 2.6 begins again at the first zone, and destroys the data.
    pub fn set_reencryption<E>(
        &mut self,
        storage: &dyn Storage,
        progress: &ReencryptionProgress,
        prepare: impl FnOnce(&dyn Storage, u64) -> Result<bool, E>,
    ) -> Result<Result<(), E>, ChangeError> {
        assert!(
            progress.left() > 0,
            "the last zone is recorded with the end"
        );
        let mut draft = self.begin_reencrypting(storage)?;
        let metadata = self.metadata();
        let state = Reencryption::find(metadata)?.expect("a re-encryption is under way");
        match prepare(storage, state.keyslot.offset) {
            Ok(false) => {}
            Ok(true) => storage
                .sync()
                .map_err(|source| ChangeError::Sync { source })?,
            Err(error) => return Ok(Err(error)),
        }
        draft.set_parts(metadata, &state, progress);
        self.commit(storage, draft).map(Ok)
    }

    /// Ends a re-encryption: all data are done, and durable. One change of the metadata records the last
    /// zone and the end. The old key and its keyslots vanish, also those that were not carried, and their
    /// areas are overwritten afterwards. Adds `token`, JSON as for [`Luks2Header::add_token`], if one can
    /// be added.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata on `storage` are not those that this header was read from, or
    /// something cannot be written. After [`ChangeError::OldKeyslotLeft`] the re-encryption has ended.
    ///
    /// # Panics
    /// If no re-encryption is under way.
    pub fn end_reencryption(
        &mut self,
        storage: &dyn Storage,
        token: Option<&str>,
    ) -> Result<(), ChangeError> {
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
        if let (SegmentSize::Fixed(size), None) = (state.previous.entry.size(), state.moved) {
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
        draft.edit_requirements(|requirements| requirements.remove("mandatory"));
        let is_taken = |number| metadata.tokens.contains_key(&number);
        let number = free_number("token", None, MAX_NUMBERS, is_taken);
        if let (Some(token), Ok(number)) = (token.map(JsonMembers::parse), number) {
            draft.root.edit(&["tokens"], |tokens| {
                tokens.set(&number.to_string(), &token);
            });
        }
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
    /// Records the length of a file in its token, in place of a trailer.
    fn record_file_length(&mut self, metadata: &Metadata, length: u64) {
        let of_trailer = |token: &Token| token.file_end == Some(FileEnd::Trailer);
        for (number, _) in metadata
            .tokens
            .iter()
            .filter(|(_, token)| of_trailer(token))
        {
            self.root.edit(&["tokens", &number.to_string()], |token| {
                token.remove("padding");
                token.set("length", &length.to_string());
            });
        }
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

    /// Sets the segments of the data to those of `progress`, and keeps the backup segments.
    pub(super) fn set_parts(
        &mut self,
        metadata: &Metadata,
        state: &Reencryption<'_>,
        progress: &ReencryptionProgress,
    ) {
        let old = self.root.raw("segments").map(JsonMembers::parse);
        let old = old.expect("there are segments");
        let raw = |role| {
            let (number, _) = metadata.segments.of_role(role)?;
            old.raw(&number.to_string()).map(JsonMembers::parse)
        };
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
        let (previous, last) = (state.previous, state.last);
        // Where only the first part of the data was to be done, the rest has no key any more.
        let is_open = progress.is_open()
            || previous.entry.size() == SegmentSize::Dynamic && progress.left() == 0;
        for (range, part) in progress.parts() {
            let (backup, digests, role) = match part {
                PartState::Moved => {
                    let moved = state.moved.expect("data were moved");
                    (moved, vec![moved.digest], SegmentRole::Regular)
                }
                PartState::Old => (previous, vec![previous.digest], SegmentRole::Regular),
                PartState::Zone => {
                    let both = vec![previous.digest, last.digest];
                    (last, both, SegmentRole::InReencryption)
                }
                PartState::New => (last, vec![last.digest], SegmentRole::Regular),
            };
            let mut json = raw(backup.entry.role).expect("it is one of the segments");
            let is_last = range.end == progress.len() && *part != PartState::Zone;
            let end = (!(is_last && is_open)).then_some(range.end);
            json.set_stretch(backup, range.start, end);
            json.set_role(role);
            add(&json, &digests);
        }
        let backups = [
            (SegmentRole::BackupMoved, state.moved),
            (SegmentRole::BackupPrevious, Some(previous)),
            (SegmentRole::BackupFinal, Some(last)),
        ];
        for (role, backup) in backups {
            if let (Some(json), Some(backup)) = (raw(role), backup) {
                add(&json, &[backup.digest]);
            }
        }
        self.root.set("segments", &segments);
        self.bind_segments(bindings);
    }
}

/// Returns the segments of data that are all `old` and will be `last`. Their beginning may be moved.
fn backups(old: &JsonMembers, last: &JsonMembers, moved: Option<JsonMembers>) -> JsonMembers {
    let with = |segment: &JsonMembers, role| {
        let mut segment = segment.clone();
        segment.set_role(role);
        segment
    };
    let all = [
        Some(with(old, SegmentRole::Regular)),
        moved.map(|moved| with(&moved, SegmentRole::BackupMoved)),
        Some(with(old, SegmentRole::BackupPrevious)),
        Some(with(last, SegmentRole::BackupFinal)),
    ];
    let mut segments = JsonMembers::default();
    for (segment, number) in all.into_iter().flatten().zip(0..) {
        segments.set(&number.to_string(), &segment);
    }
    segments
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
