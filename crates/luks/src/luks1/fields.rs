// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damaged fields whose former contents the header itself tells, so that no other byte of the storage is
//! needed for their repair. A header with such fields can be read, and is valid in all else.

use luxor_volume::{Encryption, HashAlgorithm};
use uuid::Uuid;

use super::{
    layout,
    phdr::{self, Phdr, RawKeyslot, UNIT},
};
use crate::luks1_error::FieldDamage;

/// The number of areas, of eight, that must lie where cryptsetup places them before others are
/// moved to their places, or the key length is derived from them.
pub(super) const MOST: usize = 5;

/// Repairs the fields in `bytes`, which begin with the magic, and in `phdr`, which was parsed from them.
/// Returns what was damaged. The key length is changed in `phdr` only.
pub(super) fn restore(bytes: &mut phdr::Bytes, phdr: &mut Phdr) -> Vec<FieldDamage> {
    let mut found = Vec::new();
    found.extend(restore_uuid(bytes, phdr));
    found.extend(restore_hash(bytes, phdr));
    found.extend(restore_encryption(bytes, phdr));
    if let Some(encryption) = Encryption::by_name(&phdr.encryption_name()) {
        found.extend(restore_key_len(phdr, encryption));
    }
    found
}

/// Returns the damaged fields.
pub(super) fn damaged(bytes: &phdr::Bytes, phdr: &Phdr) -> Vec<FieldDamage> {
    restore(&mut bytes.clone(), &mut phdr.clone())
}

fn restore_uuid(bytes: &mut phdr::Bytes, phdr: &mut Phdr) -> Option<FieldDamage> {
    let field = &bytes[phdr::UUID];
    let uuid = Uuid::try_parse_ascii(&field[..36]).ok()?;
    if field.contains(&0) {
        return None;
    }
    phdr.uuid = uuid.to_string();
    phdr::put_uuid(bytes, &phdr.uuid);
    Some(FieldDamage::Uuid)
}

/// Restores the hash's name in lowercase. Programs that accept either case wrote capital letters.
fn restore_hash(bytes: &mut phdr::Bytes, phdr: &mut Phdr) -> Option<FieldDamage> {
    let from = phdr.hash_spec.clone();
    let hash = HashAlgorithm::by_name(&from)?;
    if from == hash.name() || from.to_ascii_lowercase() != hash.name() {
        return None;
    }
    bytes[phdr::HASH_SPEC][..from.len()].make_ascii_lowercase();
    phdr.hash_spec.make_ascii_lowercase();
    Some(FieldDamage::Hash { from, hash })
}

/// Restores the names of cipher and mode in lowercase, the only ones under which the kernel finds them.
fn restore_encryption(bytes: &mut phdr::Bytes, phdr: &mut Phdr) -> Option<FieldDamage> {
    let from = phdr.encryption_name();
    let to = from.to_ascii_lowercase();
    if from == to || Encryption::by_name(&from).is_some() || Encryption::by_name(&to).is_none() {
        return None;
    }
    bytes[phdr::CIPHER].make_ascii_lowercase();
    phdr.cipher_name.make_ascii_lowercase();
    phdr.cipher_mode.make_ascii_lowercase();
    Some(FieldDamage::Encryption { from, to })
}

/// Restores the key length for which the areas lie where cryptsetup places them. The present length
/// is replaced if the cipher does not allow it, or if it is greater, so that the areas would
/// overlap.
fn restore_key_len(phdr: &mut Phdr, encryption: Encryption) -> Option<FieldDamage> {
    let from = phdr.key_bytes;
    let is_wrong = |to: u32| !encryption.key_lens().contains(&from) || from > to;
    let to = encryption
        .aes_key_lens()
        .into_iter()
        .find(|&len| len != from && is_wrong(len) && standard(phdr, len).count() >= MOST)?;
    phdr.key_bytes = to;
    Some(FieldDamage::KeyLen { from, to })
}

/// The keyslots with areas that begin where cryptsetup places them.
fn standard(phdr: &Phdr, key_len: u32) -> impl Iterator<Item = usize> {
    let is_standard = move |(slot, keyslot): (usize, &RawKeyslot)| {
        (offset(keyslot) == layout::area_offset(key_len, slot)).then_some(slot)
    };
    phdr.keyslots.iter().enumerate().filter_map(is_standard)
}

/// The offset of a keyslot's area in bytes.
pub(super) fn offset(keyslot: &RawKeyslot) -> u64 {
    u64::from(keyslot.key_material_offset) * UNIT
}
