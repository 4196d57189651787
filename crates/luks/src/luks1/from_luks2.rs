// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts LUKS2 to LUKS1 in place. The data stay where they are. So do the areas of used
//! keyslots, until `Luks1Header::settle` moves areas to where cryptsetup places them.
//!
//! ```text
//! writes                                                  the volume afterwards
//! 512..592        the header's second sector, sync        LUKS2, by its secondary header
//! 0..512          the header's first sector, sync         LUKS1
//! 592..           overwrite the rest of LUKS2's headers   LUKS1
//! ```

use luxor_sector::{SectorSize, Storage};
use luxor_volume::{HashAlgorithm, Kdf, brief};

use super::{
    convert::{ConvertError, MAX_UUID_LEN},
    header::Luks1Header,
    layout::{self, AREA_ALIGNMENT},
    phdr::{self, KEYSLOTS, Phdr, RawKeyslot, UNIT},
    relocate::places,
};
use crate::luks2::{
    digest::Digest,
    edit::{ChangeError, durable},
    header::Luks2Header,
    keyslot::{Keyslot, Priority},
    metadata::Metadata,
    segment::{Segment, SegmentSize},
    token::FileEnd,
};

impl Luks2Header {
    /// Converts the volume to LUKS1, with the same keyslots, UUID and data. No secret is needed.
    /// The caller must hold the lock on the volume's metadata.
    ///
    /// `lose_rest` permits the loss of what LUKS1 cannot store: tokens, labels, flags, priorities.
    /// At each instant the volume is valid as one version or the other, and every key opens it.
    ///
    /// # Errors
    /// [`ConvertError`]: LUKS1 cannot represent the volume, a copy of the LUKS2 header is damaged,
    /// or the storage failed.
    pub fn convert_to_luks1(
        mut self,
        storage: &dyn Storage,
        lose_rest: bool,
    ) -> Result<Luks1Header, ConvertError> {
        self.read_again(storage)?;
        if !self.warnings().is_empty() {
            return Err(ConvertError::Damaged);
        }
        let bytes = self.phdr()?.serialise();
        let what = self.lost(storage.len().ok());
        if !what.is_empty() && !lose_rest {
            return Err(ConvertError::Loses { what });
        }
        // Check the new header before anything is written: it must not be refused afterwards.
        Luks1Header::parse(&bytes).map_err(ChangeError::from)?;

        let (first, second) = bytes.split_at(phdr::FIRST_SECTOR);
        for (sector, offset) in [(second, phdr::FIRST_SECTOR as u64), (first, 0)] {
            durable::write(storage, sector, offset)
                .map_err(|source| ChangeError::WriteHeader { source })?;
        }
        durable::overwrite(storage, phdr::LEN as u64..2 * self.binary().size)?;
        let mut header = Luks1Header::read(storage).map_err(ChangeError::from)?;
        header.settle(storage).map_err(ConvertError::moving)?;
        Ok(header)
    }

    /// Returns the LUKS1 header that describes the same volume.
    fn phdr(&self) -> Result<Phdr, ConvertError> {
        let metadata = self.metadata();
        if let Some((number, foreign)) = metadata.foreign_keyslots.first_key_value() {
            let found = format!("keyslot {number}: {}", foreign.what);
            return Err(not_in_luks1("keyslots of one type", found));
        }
        let Some(segment) = self.segment() else {
            return Err(not_in_luks1("one segment", "several segments".into()));
        };
        let Some((_, digest)) = metadata.data_digest() else {
            return Err(not_in_luks1("digests by PBKDF2", "another digest".into()));
        };
        let hash = HashAlgorithm::by_name(&digest.hash).ok_or_else(|| {
            not_in_luks1(
                "the hashes sha1, sha256, sha512, ripemd160 and whirlpool",
                brief(&digest.hash),
            )
        })?;
        let payload_offset = check_segment(segment)?;
        let Some(first) = metadata.keyslots.values().next() else {
            return Err(not_in_luks1("volumes with keyslots", "none".into()));
        };
        let uuid = self.binary().uuid.as_str();
        if uuid.len() > MAX_UUID_LEN {
            return Err(ConvertError::Uuid);
        }
        let digest_salt = digest.salt.as_slice().try_into().map_err(|_| {
            not_in_luks1(
                "salts of 32 bytes",
                format!("a digest's salt of {}", digest.salt.len()),
            )
        })?;
        let (cipher_name, cipher_mode) = cipher_fields(segment)?;

        let limit = match segment.offset {
            // A detached header: the file would end here if it held nothing else.
            0 => self.metadata_len(),
            offset => offset,
        };
        let keyslots = raw_keyslots(metadata, digest, hash, segment)?;
        let keyslots = with_empty_ones(keyslots, first.key_len, limit)?;
        let mut mk_digest = [0; 20];
        // The 20 bytes of LUKS1 are a prefix of a longer PBKDF2 output.
        mk_digest.copy_from_slice(&digest.value[..20]);
        Ok(Phdr {
            cipher_name: cipher_name.into(),
            cipher_mode: cipher_mode.into(),
            hash_spec: hash.name().into(),
            payload_offset,
            key_bytes: first.key_len,
            mk_digest,
            mk_digest_salt: digest_salt,
            mk_digest_iter: digest.iterations,
            uuid: uuid.into(),
            keyslots,
        })
    }

    /// Returns what LUKS1 cannot store, in words.
    fn lost(&self, storage_len: Option<u64>) -> Vec<String> {
        let metadata = self.metadata();
        let mut what = Vec::new();
        for (number, token) in &metadata.tokens {
            // LUKS1 derives this length from that of the storage.
            let end = |len: u64| self.data_offset().checked_add(len);
            let is_same = |len: &u64| *len > 0 && storage_len.is_some() && end(*len) == storage_len;
            let kind = brief(&token.kind);
            what.push(match &token.file_end {
                Some(FileEnd::Length(length)) if is_same(length) => continue,
                Some(end) => format!("token {number} ({kind}: the file in it has {end})"),
                None if token.keyslots.is_empty() => format!("token {number} ({kind})"),
                // The user may not know this secret, such as one that Clevis made.
                None => {
                    let keyslots = token.keyslots.iter().map(u32::to_string);
                    let keyslots = keyslots.collect::<Vec<_>>().join(", ");
                    format!(
                        "token {number} ({kind}: it may keep the only secret of keyslots {keyslots})"
                    )
                }
            });
        }
        for key in &metadata.unnumbered_tokens {
            what.push(format!("the token with the key {}", brief(key)));
        }
        for (name, text) in [
            ("label", self.binary().label.as_str()),
            ("subsystem", self.binary().subsystem.as_str()),
        ] {
            if !text.is_empty() {
                what.push(format!("the {name} {}", brief(text)));
            }
        }
        for flag in &metadata.config.flags {
            what.push(format!("the flag {}", brief(flag)));
        }
        // LUKS1 has one digest, that of the data.
        let data = metadata.data_digest().map(|(number, _)| number);
        for number in metadata.bindings.keys() {
            if Some(*number) != data {
                what.push(format!("digest {number}"));
            }
        }
        for (number, keyslot) in &metadata.keyslots {
            if keyslot.priority != Priority::Normal {
                what.push(format!("the priority of keyslot {number}"));
            }
        }
        what
    }
}

/// Checks that LUKS1 can represent the segment, and returns the offset of the data in LUKS1's unit.
fn check_segment(segment: &Segment) -> Result<u32, ConvertError> {
    let geometry = &segment.geometry;
    if geometry.sector_size != SectorSize::B512 {
        let found = format!("sectors of {} bytes", geometry.sector_size);
        return Err(not_in_luks1("sectors of 512 bytes", found));
    }
    if geometry.iv_offset != 0 {
        let found = format!("a first sector with the number {}", geometry.iv_offset);
        return Err(not_in_luks1("sectors numbered from 0", found));
    }
    if let SegmentSize::Fixed(size) = segment.size {
        let found = format!("a segment of {size} bytes");
        return Err(not_in_luks1("data that extend to the end", found));
    }
    units(segment.offset).ok_or_else(|| {
        let found = format!("data from byte {} on", segment.offset);
        not_in_luks1(OFFSETS, found)
    })
}

const OFFSETS: &str = "offsets in whole sectors below 2 TiB";

/// Returns the cipher and its mode as LUKS1 stores them. Like cryptsetup, this splits the name at its
/// first hyphen, whatever it means: both programs join the parts again.
fn cipher_fields(segment: &Segment) -> Result<(&str, &str), ConvertError> {
    let fits = |text: &str| (1..32).contains(&text.len());
    let names = segment.encryption_name.split_once('-');
    let names = names.filter(|(cipher, mode)| fits(cipher) && fits(mode));
    names.ok_or_else(|| {
        let found = brief(&segment.encryption_name);
        not_in_luks1("names of ciphers in two parts of less than 32 bytes", found)
    })
}

/// Returns the volume's keyslots in LUKS1's form, indexed by number.
fn raw_keyslots(
    metadata: &Metadata,
    digest: &Digest,
    hash: HashAlgorithm,
    segment: &Segment,
) -> Result<[Option<RawKeyslot>; KEYSLOTS], ConvertError> {
    let mut keyslots: [Option<RawKeyslot>; KEYSLOTS] = Default::default();
    for (&number, keyslot) in &metadata.keyslots {
        let slot = usize::try_from(number)
            .ok()
            .filter(|&slot| slot < KEYSLOTS)
            .ok_or(ConvertError::Number { keyslot: number })?;
        if !digest.keyslots.contains(&number) {
            return Err(ConvertError::Unbound { keyslot: number });
        }
        let first = metadata.keyslots.values().next().unwrap_or(keyslot);
        keyslots[slot] = Some(raw_keyslot(number, keyslot, first, hash, segment)?);
    }
    Ok(keyslots)
}

/// Fills the gaps in `keyslots` with empty keyslots, the areas of which end at byte `limit` or
/// before.
fn with_empty_ones(
    keyslots: [Option<RawKeyslot>; KEYSLOTS],
    key_len: u32,
    limit: u64,
) -> Result<[RawKeyslot; KEYSLOTS], ConvertError> {
    let taken = keyslots
        .iter()
        .flatten()
        .map(|keyslot| u64::from(keyslot.key_material_offset) * UNIT)
        .collect();
    let mut free = places(taken, layout::area_len(key_len), AREA_ALIGNMENT, limit);
    let mut filled = Vec::with_capacity(KEYSLOTS);
    for keyslot in keyslots {
        filled.push(match keyslot {
            Some(keyslot) => keyslot,
            None => {
                let place = free.next().ok_or_else(|| {
                    not_in_luks1("volumes with room for eight keyslots", "less room".into())
                })?;
                RawKeyslot::empty(layout::units(place))
            }
        });
    }
    Ok(filled.try_into().map_err(drop).expect("eight were pushed"))
}

fn raw_keyslot(
    number: u32,
    keyslot: &Keyslot,
    first: &Keyslot,
    hash: HashAlgorithm,
    segment: &Segment,
) -> Result<RawKeyslot, ConvertError> {
    let Kdf::Pbkdf2 {
        hash: kdf_hash,
        iterations,
        salt,
    } = &keyslot.kdf
    else {
        let kind = keyslot.kdf.kind();
        return Err(ConvertError::Pbkdf {
            keyslot: number,
            kind,
        });
    };
    for found in [kdf_hash, &keyslot.af_hash] {
        if HashAlgorithm::by_name(found) != Some(hash) {
            return Err(ConvertError::Hashes {
                keyslot: number,
                found: found.clone(),
                digest: hash,
            });
        }
    }
    let found = |what: String| format!("keyslot {number} {what}");
    let area = &keyslot.area;
    if (area.key_len, keyslot.key_len) != (first.key_len, first.key_len) {
        let what = format!(
            "with keys of {} and {} bytes",
            keyslot.key_len, area.key_len
        );
        return Err(not_in_luks1("keys of one length", found(what)));
    }
    if area.encryption != segment.encryption_name {
        let what = format!("in {}", brief(&area.encryption));
        return Err(not_in_luks1(
            "one cipher for keyslots and data",
            found(what),
        ));
    }
    let Ok(salt) = salt.as_slice().try_into() else {
        let what = format!("with a salt of {}", salt.len());
        return Err(not_in_luks1("salts of 32 bytes", found(what)));
    };
    let Some(key_material_offset) = units(area.offset) else {
        let what = format!("at byte {}", area.offset);
        return Err(not_in_luks1(OFFSETS, found(what)));
    };
    Ok(RawKeyslot {
        active: phdr::ACTIVE,
        iterations: *iterations,
        salt,
        key_material_offset,
        stripes: keyslot.stripes,
    })
}

fn units(bytes: u64) -> Option<u32> {
    let is_whole = bytes.is_multiple_of(UNIT);
    u32::try_from(bytes / UNIT).ok().filter(|_| is_whole)
}

fn not_in_luks1(has: &'static str, found: String) -> ConvertError {
    ConvertError::NotInLuks1 { has, found }
}
