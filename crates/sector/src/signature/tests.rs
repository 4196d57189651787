// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each signature is found at its offset, alone and next to others.

use std::{fs, process::Command};

use crate::MemoryStorage;

use super::*;

const LEN: u64 = 8 << 20;

fn found(bytes: &[u8]) -> Vec<Signature> {
    let (found, failed) = signatures(&MemoryStorage::new(bytes.to_vec()));
    assert!(failed.is_none(), "{failed:?}");
    found
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

#[test]
fn each_planted_magic_is_named_with_its_offset() {
    assert_eq!(found(&vec![0; index(LEN)]), []);
    for entry in &SIGNATURES {
        let offset = entry.place.offset(LEN).unwrap();
        let mut bytes = vec![0; index(LEN)];
        bytes[index(offset)..][..entry.magic.len()].copy_from_slice(entry.magic);
        // Without feature flags, the magic counts as the oldest of its family.
        let name = match entry.name {
            EXT => "an ext2 file system",
            name => name,
        };
        assert_eq!(found(&bytes), [Signature { name, offset }], "{name}");
    }
}

#[test]
fn zfs_is_found_in_each_label_and_byte_order() {
    for label in [0, 256 << 10, LEN - (512 << 10), LEN - (256 << 10)] {
        for magic in [0x00ba_b10c_u64.to_le_bytes(), 0x00ba_b10c_u64.to_be_bytes()] {
            let offset = label + (128 << 10) + 9 * 1024;
            let mut bytes = vec![0; index(LEN)];
            bytes[index(offset)..][..8].copy_from_slice(&magic);
            assert_eq!(found(&bytes), [Signature { name: ZFS, offset }]);
        }
    }
}

/// Storage that fails at one sector.
struct BadSector {
    storage: MemoryStorage,
    at: u64,
}

impl Storage for BadSector {
    fn len(&self) -> io::Result<u64> {
        self.storage.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset + buf.len() as u64;
        if offset < self.at + 512 && self.at < end {
            return Err(io::Error::other("a bad sector"));
        }
        self.storage.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        unreachable!("`signatures` never writes")
    }

    fn sync(&self) -> io::Result<()> {
        unreachable!("`signatures` never writes")
    }
}

#[test]
fn an_unreadable_place_does_not_hide_signatures() {
    let mut bytes = vec![0; index(LEN)];
    bytes[..4].copy_from_slice(b"XFSB");
    bytes[65600..65608].copy_from_slice(b"_BHRfS_M");
    bytes[index(LEN) - 512..][..8].copy_from_slice(b"EFI PART");
    for (at, left) in [
        (0, 2),
        (65536, 2),
        (LEN - 512, 2),
        (1024, 3),
        (128 << 10, 3),
    ] {
        let storage = MemoryStorage::new(bytes.clone());
        let (found, failed) = signatures(&BadSector { storage, at });
        assert_eq!(found.len(), left, "{at}: {found:?}");
        assert!(failed.is_some());
    }
}

#[test]
fn short_storages_have_no_signature() {
    for len in [0, 1, 511, 512, 1100, 4096] {
        assert_eq!(found(&vec![0; len]), []);
    }
}

/// The output of the real programs agrees with the table. Programs from packages that the tests
/// need anyway must be installed; the others are tested if they are.
#[test]
fn file_systems_made_by_mkfs_are_named() {
    let cases: [(&[&str], &str, u64, bool); 16] = [
        (
            &["mkfs.ext4", "-q", "-F"],
            "an ext4 file system",
            1080,
            true,
        ),
        (
            &["mkfs.ext4", "-q", "-F", "-O", "^has_journal"],
            "an ext4 file system",
            1080,
            true,
        ),
        (
            &["mkfs.ext3", "-q", "-F"],
            "an ext3 file system",
            1080,
            true,
        ),
        (
            &["mkfs.ext2", "-q", "-F"],
            "an ext2 file system",
            1080,
            true,
        ),
        (
            &["mke2fs", "-q", "-F", "-O", "journal_dev"],
            "a journal of ext3 or ext4",
            1080,
            true,
        ),
        (&["mkswap", "-q"], SWAP, 4086, true),
        (
            &[
                "cryptsetup",
                "luksFormat",
                "-q",
                "--type=luks1",
                "--pbkdf-force-iterations=1000",
                "--key-file=/proc/version",
            ],
            LUKS,
            0,
            true,
        ),
        (
            &[
                "cryptsetup",
                "luksFormat",
                "-q",
                "--pbkdf=pbkdf2",
                "--pbkdf-force-iterations=1000",
                "--key-file=/proc/version",
            ],
            LUKS,
            0,
            true,
        ),
        (
            &[
                "cryptsetup",
                "luksFormat",
                "-q",
                "--pbkdf=pbkdf2",
                "--pbkdf-force-iterations=1000",
                "--key-file=/proc/version",
            ],
            LUKS2,
            0x4000,
            true,
        ),
        (&["mkfs.xfs", "-q", "-f"], "an XFS file system", 0, false),
        (
            &["mkfs.btrfs", "-q", "-f"],
            "a btrfs file system",
            65600,
            false,
        ),
        (&["mkfs.vfat"], FAT, 54, false),
        (&["mkfs.exfat"], "an exFAT file system", 3, false),
        (&["mkfs.ntfs", "-q", "-F"], "an NTFS file system", 3, false),
        (
            &["mkfs.f2fs", "-q", "-f"],
            "an F2FS file system",
            1024,
            false,
        ),
        (&["mkudffs"], UDF, 32769, false),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    for (command, name, offset, required) in cases {
        let (program, arguments) = command.split_first().unwrap();
        let image = fs::File::create(&path).unwrap();
        // The file is sparse. XFS needs at least this size.
        image.set_len(320 << 20).unwrap();
        let output = Command::new(program)
            .args(arguments)
            .arg(&path)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .output();
        match output {
            Ok(output) if output.status.success() => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound && !required => continue,
            failed => panic!("{command:?}: {failed:?}"),
        }
        drop(image);
        let (found, failed) = signatures(&fs::File::open(&path).unwrap());
        assert!(failed.is_none(), "{failed:?}");
        let expected = Signature { name, offset };
        assert!(found.contains(&expected), "{command:?}: {found:?}");
    }
}
