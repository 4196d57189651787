// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repairs of copies that are damaged or older, cannot be read, or have been replaced by something
//! else.

use std::{collections::HashSet, io};

use luxor_sector::{MagicPlace, MemoryStorage, SIGNATURES, Storage};

use super::{HEADER, changeable, volume};
use crate::{ChangeError, CopyKind, Luks2Header, Overwrite, ReadError, Uuid};

#[test]
fn the_bad_copy_is_rewritten() {
    let (storage, header) = volume();
    let good = storage.into_bytes();
    let mut salts = HashSet::new();
    for (at, kind) in [(0, CopyKind::Primary), (HEADER, CopyKind::Secondary)] {
        for damage in [0, 100, 5000] {
            let mut bytes = good.clone();
            bytes[at + damage] ^= 1;
            let storage = MemoryStorage::new(bytes);
            let mut damaged = Luks2Header::read(&storage).unwrap();
            assert_eq!(damaged.warnings().len(), 1);
            assert_eq!(
                damaged.repair(&storage, Overwrite::Damaged).unwrap(),
                Some(kind)
            );
            assert!(damaged.warnings().is_empty());
            assert_eq!(damaged.repair(&storage, Overwrite::Damaged).unwrap(), None);
            assert_eq!(damaged.binary().seqid, header.binary().seqid);
            assert_eq!(damaged.text(), header.text());
            let bytes = storage.into_bytes();
            assert_ne!(bytes[at + 104..][..64], good[at + 104..][..64]);
            assert!(
                salts.insert(bytes[at + 104..][..64].to_vec()),
                "an old salt"
            );
            let other = HEADER - at;
            assert_eq!(bytes[other..][..HEADER], good[other..][..HEADER]);
        }
    }
}

#[test]
fn the_older_copy_is_rewritten() {
    let (storage, mut header) = volume();
    let old = storage.to_bytes();
    header.set_uuid(&storage, Uuid::from_u128(7)).unwrap();
    let new = storage.into_bytes();
    for (at, kind) in [(0, CopyKind::Primary), (HEADER, CopyKind::Secondary)] {
        let mut bytes = new.clone();
        bytes[at..at + HEADER].copy_from_slice(&old[at..at + HEADER]);
        let storage = MemoryStorage::new(bytes);
        let mut mixed = Luks2Header::read(&storage).unwrap();
        assert_eq!(
            mixed.repair(&storage, Overwrite::Damaged).unwrap(),
            Some(kind)
        );
        assert!(mixed.warnings().is_empty(), "{:?}", mixed.warnings());
        assert_eq!(mixed.describe().uuid, Uuid::from_u128(7).to_string());
        assert_eq!(mixed.describe().seqid, header.describe().seqid);
    }
}

#[test]
fn a_foreign_signature_is_not_overwritten() {
    let (storage, _, changes) = changeable();
    let good = storage.into_bytes();
    let mut refused = 0;
    let entries = || SIGNATURES.iter().filter(|entry| entry.stops_repair);
    assert_eq!(entries().count(), 20);
    for entry in entries() {
        let (MagicPlace::Start(offset), magic, name) = (entry.place, entry.magic, entry.name)
        else {
            panic!("{} is not at the beginning", entry.name);
        };
        let offset = usize::try_from(offset).unwrap();
        let mut bytes = good.clone();
        bytes[..8].fill(0);
        bytes[offset..][..magic.len()].copy_from_slice(magic);
        let storage = MemoryStorage::new(bytes.clone());
        let header = Luks2Header::read(&storage).unwrap();
        for (what, change) in &changes {
            let error = change(&mut header.clone(), &storage).unwrap_err();
            assert!(
                matches!(&error, ChangeError::ForeignSignature { found } if *found == name),
                "{what}: {error}"
            );
            assert!(storage.to_bytes() == bytes, "{what}, {name}");
            refused += 1;
        }
        let repaired = header.clone().repair(&storage, Overwrite::Anything);
        assert_eq!(repaired.unwrap(), Some(CopyKind::Primary));
        assert_eq!(Luks2Header::read(&storage).unwrap().text(), header.text());
    }
    assert_eq!(refused, entries().count() * changes.len());
    // A label with the bytes of a FAT signature is not taken for one.
    let storage = MemoryStorage::new(good.clone());
    let mut header = Luks2Header::read(&storage).unwrap();
    let label = format!("{:x<30}FAT16", "").parse().unwrap();
    header.set_label(&storage, &label).unwrap();
    let mut bytes = storage.into_bytes();
    assert_eq!(bytes[54..58], *b"FAT1");
    bytes[..8].fill(0);
    let storage = MemoryStorage::new(bytes);
    let mut header = Luks2Header::read(&storage).unwrap();
    let repaired = header.repair(&storage, Overwrite::Damaged).unwrap();
    assert_eq!(repaired, Some(CopyKind::Primary));
    // The place has a LUKS1 header: the volume is read as LUKS1.
    let mut bytes = good;
    bytes[7] = 1;
    let error = Luks2Header::read(&MemoryStorage::new(bytes)).unwrap_err();
    assert!(matches!(error, ReadError::Luks1), "{error}");
}

/// A storage in which one copy cannot be read.
struct Unreadable {
    storage: MemoryStorage,
    at: u64,
}

impl Storage for Unreadable {
    fn len(&self) -> io::Result<u64> {
        self.storage.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if (self.at..self.at + HEADER as u64).contains(&offset) {
            return Err(io::Error::other("a bad sector"));
        }
        self.storage.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.storage.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.storage.sync()
    }
}

#[test]
fn a_copy_that_cannot_be_read_is_not_overwritten() {
    let (storage, good, changes) = changeable();
    let image = storage.into_bytes();
    for (at, which) in [(0, CopyKind::Primary), (HEADER, CopyKind::Secondary)] {
        let storage = Unreadable {
            storage: MemoryStorage::new(image.clone()),
            at: at as u64,
        };
        let header = Luks2Header::read(&storage).unwrap();
        // The header as read before the error, and the header as read now.
        for header in [&header, &good] {
            for (what, change) in &changes {
                let error = change(&mut header.clone(), &storage).unwrap_err();
                assert!(
                    matches!(&error, ChangeError::ReadCopy { kind, .. } if *kind == which),
                    "{what}: {error}"
                );
                assert!(storage.storage.to_bytes() == image, "{what}");
            }
        }
        let repaired = header.clone().repair(&storage, Overwrite::Anything);
        assert_eq!(repaired.unwrap(), Some(which));
        let bytes = storage.storage.into_bytes();
        assert!(bytes[at..][..HEADER] != image[at..][..HEADER]);
        let whole = Luks2Header::read(&MemoryStorage::new(bytes)).unwrap();
        assert!(whole.warnings().is_empty() && whole.text() == good.text());
    }
}
