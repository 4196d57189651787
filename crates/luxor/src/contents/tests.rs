// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files made by the programs of their formats, and hostile ones.

use std::{fs, path::Path, process::Command};

use luxor_conformance::Random;
use luxor_luks::{NewVolumeOptions, PbkdfKind, PbkdfOptions};
use luxor_secret::SecretBytes;
use luxor_sector::MemoryStorage;

use super::*;
use crate::{Context, NewFiles};

fn recognise(bytes: &[u8]) -> Contents {
    Contents::recognise(&MemoryStorage::new(bytes.to_vec())).unwrap()
}

fn known(bytes: &[u8]) -> (&'static str, ContentsClass) {
    match recognise(bytes) {
        Contents::Known { name, class } => (name, class),
        other => panic!("{other:?}"),
    }
}

/// Runs a command in the folder, and returns the file `out`.
fn made(folder: &Path, shell: &str) -> Vec<u8> {
    let output = Command::new("sh")
        .args(["-ec", shell])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{shell}: {output:?}");
    let path = folder.join("out");
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(path).unwrap();
    bytes
}

fn volume(folder: &Path, version: LuksVersion) -> Vec<u8> {
    let path = folder.join("out");
    let pbkdf = PbkdfOptions {
        kind: PbkdfKind::Pbkdf2,
        force_iterations: Some(1000),
        ..PbkdfOptions::default()
    };
    let files = NewFiles {
        volume: &path,
        header: None,
        force: false,
        needed: &[],
    };
    let new = NewVolumeOptions {
        pbkdf,
        ..NewVolumeOptions::new(version)
    };
    let secret = || Ok(SecretBytes::copy_of(b"secret"));
    crate::format_files(&files, Some(1 << 20), &new, secret, &Context::default()).unwrap();
    made(folder, "true")
}

#[test]
fn formats_are_named_by_what_their_programs_write() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, name, class) in [
        (
            "qemu-img create -q -f qcow2 out 1M",
            "a qcow2 image",
            DiskImage,
        ),
        ("qemu-img create -q -f qed out 1M", "a QED image", DiskImage),
        (
            "qemu-img create -q -f vmdk out 1M",
            "a VMDK image",
            DiskImage,
        ),
        ("qemu-img create -q -f vdi out 1M", "a VDI image", DiskImage),
        (
            "qemu-img create -q -f vhdx out 1M",
            "a VHDX image",
            DiskImage,
        ),
        ("qemu-img create -q -f vpc out 1M", "a VHD image", DiskImage),
        (
            "qemu-img create -q -f vpc -o subformat=fixed out 1M",
            "a VHD image",
            DiskImage,
        ),
        (
            "qemu-img create -q -f parallels out 1M",
            "a Parallels image",
            DiskImage,
        ),
        ("echo text | gzip > out", "a gzip file", Archive),
        (
            "tar cf out /etc/passwd 2> /dev/null",
            "a tar archive",
            Archive,
        ),
        (
            "echo text | openssl enc -aes-256-cbc -pbkdf2 -pass pass:x > out",
            "a file encrypted with openssl enc",
            Encrypted,
        ),
        (
            "truncate -s 4M out; mkfs.ext4 -q out",
            "an ext4 file system",
            FileSystem,
        ),
    ] {
        assert_eq!(known(&made(folder.path(), shell)), (name, class), "{shell}");
    }
}

/// The beginnings of files whose programs are not needed for the tests, from their specifications.
#[test]
fn formats_are_named_by_their_beginnings() {
    let with = |at: usize, magic: &[u8]| {
        let mut bytes = vec![0; 8192];
        bytes[at..][..magic.len()].copy_from_slice(magic);
        bytes
    };
    for (bytes, name) in [
        (b"age-encryption.org/v1\n-> scrypt ".to_vec(), AGE),
        (b"-----BEGIN AGE ENCRYPTED FILE-----\n".to_vec(), AGE),
        (b"-----BEGIN PGP MESSAGE-----\n\n".to_vec(), PGP),
        // What `gpg --symmetric` writes: AES-256, a salt, SHA-512.
        (
            b"\x8c\x0d\x04\x09\x03\x0a\xd5\x01\x02\x03\x04\x05\x06\x07\xff".to_vec(),
            PGP,
        ),
        // `gpg --encrypt`: a key for RSA and one for ECDH.
        (
            b"\x85\x01\x0c\x03\x01\x02\x03\x04\x05\x06\x07\x08\x01\x07\xff".to_vec(),
            PGP,
        ),
        (
            b"\x84\x5e\x03\x01\x02\x03\x04\x05\x06\x07\x08\x12\x01\x07".to_vec(),
            PGP,
        ),
        (with(3, b"-FVE-FS-"), BITLOCKER),
        (with(88, b"CS\x01\0"), "a FileVault 2 (CoreStorage) volume"),
        (with(32, b"NXSB"), "an APFS container"),
        (with(32, b"SIF_MAGIC\0"), SIF),
        (with(8192 - 512, b"koly\0\0\0\x04"), "an Apple disk image"),
        (with(3, b"NTFS    "), "an NTFS file system"),
        (with(82, b"FAT32   "), "a FAT file system"),
        (with(0, b"hsqs"), "a squashfs file system"),
        (with(512, b"LABELONE"), "an LVM physical volume"),
        (with(4096, b"\xfc\x4e\x2b\xa9"), "a Linux RAID member"),
    ] {
        assert_eq!(known(&bytes).0, name);
    }
    let mut encrypted = with(0, b"QFI\xfb\0\0\0\x03");
    encrypted[32..36].copy_from_slice(&2_u32.to_be_bytes());
    assert_eq!(
        known(&encrypted).0,
        "a qcow2 image that is encrypted with LUKS"
    );
}

#[test]
fn what_has_no_signature_is_described() {
    let mut random = Random::for_test("contents::random");
    assert_eq!(recognise(b""), Contents::Empty);
    let zeros = |len: usize, is_all| Contents::Zeros {
        len: len.min(HEAD) as u64,
        is_all,
    };
    assert_eq!(recognise(&[0; 700]), zeros(700, true));
    assert_eq!(recognise(&vec![0; 1 << 20]), zeros(1 << 20, false));
    assert_eq!(recognise("name,größe\r\n1,2\n".as_bytes()), Contents::Text);
    // The end of the page is in the middle of a character.
    assert_eq!(recognise("aä".repeat(4000).as_bytes()), Contents::Text);
    assert_eq!(recognise(&[1, 2, 3]), Contents::Unknown);
    assert_eq!(recognise(&[0x95; 4096]), Contents::Unknown);
    let is_random = |seen: &Contents| *seen == Contents::Random;
    let seen: Vec<_> = (0..300).map(|_| recognise(&random.bytes(1024))).collect();
    assert!(
        seen.iter().filter(|seen| is_random(seen)).count() >= 299,
        "{seen:?}"
    );
}

#[test]
fn volumes_at_other_places_are_found() {
    let folder = tempfile::tempdir().unwrap();
    for version in [LuksVersion::Luks1, LuksVersion::Luks2] {
        let luks = volume(folder.path(), version);
        for (front, within) in [
            (vec![0; 512], None),
            (vec![0x77; 3 << 20], None),
            (
                [&[0; 32][..], b"SIF_MAGIC\0", &[0; 4096 - 42]].concat(),
                Some(SIF),
            ),
        ] {
            let offset = front.len() as u64;
            let found = recognise(&[&front[..], &luks].concat());
            let expected = Contents::VolumeAt {
                within,
                offset,
                version,
            };
            assert_eq!(found, expected);
            assert!(
                found
                    .to_string()
                    .contains(&format!("begins at byte {offset}"))
            );
        }
        // The magic alone is no header, however often it is there.
        let mut magics = vec![0; 1 << 20];
        for unit in magics.chunks_mut(512).skip(1) {
            unit[..8].copy_from_slice(&luks[..8]);
        }
        assert!(!matches!(recognise(&magics), Contents::VolumeAt { .. }));

        // A disk with two of them, one of which is cut off, and a partition that is not there.
        let mut disk = vec![0; 24 << 20];
        let entries = [
            (2048_u32, 40_960_u32),
            (43_008, 4096),
            (48_000, 1152),
            (90_000, 5),
        ];
        for (k, (start, len)) in entries.into_iter().enumerate() {
            let entry = &mut disk[446 + 16 * k..][..16];
            entry[4] = 0x83;
            entry[8..12].copy_from_slice(&start.to_le_bytes());
            entry[12..].copy_from_slice(&len.to_le_bytes());
        }
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
        disk[1 << 20..][..luks.len()].copy_from_slice(&luks);
        disk[21 << 20..][..100 << 10].copy_from_slice(&luks[..100 << 10]);
        disk[48_000 * 512 + 1080..][..2].copy_from_slice(b"\x53\xef");
        let found = recognise(&disk);
        let numbers: Vec<_> = found
            .partitions_with_volume()
            .map(|found| found.number)
            .collect();
        assert_eq!(numbers, [1, 2], "{found:?}");
        let Contents::Disk { partitions, .. } = &found else {
            panic!("{found:?}");
        };
        assert_eq!(partitions[0].offset, 1 << 20);
        assert_eq!(partitions[2].name, Some("an ext2 file system"));
        assert!(!partitions[3].is_there);
        assert!(
            found.to_string().contains("partition 4 is missing here"),
            "{found}"
        );
    }
}

/// Any bytes have a name, and nothing is read beyond the end.
#[test]
fn any_bytes_have_a_description() {
    let mut random = Random::for_test("contents::any");
    for _ in 0..400 {
        let mut bytes = vec![0; random.below(20_000)];
        for _ in 0..random.below(12) {
            let entry = &MAGICS[random.below(MAGICS.len())];
            let at =
                random
                    .below(bytes.len() + 1)
                    .min(if random.below(2) == 0 { 600 } else { 1 << 20 });
            let end = bytes.len().min(at + entry.magic.len());
            let at = at.min(end);
            bytes[at..end].copy_from_slice(&entry.magic[..end - at]);
        }
        if bytes.len() > 600 && random.below(2) == 0 {
            bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
            let noise = random.bytes(64);
            bytes[446..510].copy_from_slice(&noise);
            for k in 0..4 {
                bytes[446 + 16 * k] &= 0x80;
            }
        }
        assert!(recognise(&bytes).to_string().starts_with("it ") || !bytes.is_empty());
    }
}
