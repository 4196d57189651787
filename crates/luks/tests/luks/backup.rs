// SPDX-License-Identifier: MIT OR Apache-2.0
//! Header backups: byte-identical to those of `cryptsetup`, and restored while the power fails.

use std::{
    fs::{self, File, OpenOptions},
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use luxor_luks::{
    BackupError, CopyKind, HeaderBackup, Luks2Header, LuksVersion, Misfit, PbkdfKind, PbkdfOptions,
    ReadError, RestoreError, UnlockOptions, VolumeHeader, VolumeReadError, Warning,
};
use luxor_sector::{
    MemoryStorage, Storage,
    faulty::{Cut, Faults, FaultyStorage, Killed, PowerCuts},
};
use serde_json::{Value, json};

use crate::{backend, replace_json};

const KEY: &[u8] = b"key";
const OTHER: &[u8] = b"other";

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        let scratch = Self(tempfile::tempdir().unwrap());
        for secret in [KEY, OTHER] {
            let name = std::str::from_utf8(secret).unwrap();
            fs::write(scratch.path(name), secret).unwrap();
        }
        scratch
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs cryptsetup in the folder, with the cheapest key derivation.
    fn cryptsetup(&self, line: &str) {
        let output = Command::new("cryptsetup")
            .args(line.split_whitespace())
            .arg("--batch-mode")
            .current_dir(self.0.path())
            .output()
            .expect("cryptsetup must be installed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cryptsetup {line}: {errors}");
    }

    /// Makes a file of `len` bytes that cryptsetup formats, with one keyslot for [`KEY`].
    fn format(&self, name: &str, len: u64, options: &str) {
        let file = File::create(self.path(name)).unwrap();
        file.set_len(len).unwrap();
        self.cryptsetup(&format!(
            "luksFormat --key-file key {CHEAP} {options} {name}"
        ));
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn open(&self, name: &str) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options.open(self.path(name)).unwrap()
    }

    /// Returns the backup that `cryptsetup luksHeaderBackup` makes.
    fn their_backup(&self, name: &str) -> Vec<u8> {
        let file = format!("{name}.backup");
        let _ = fs::remove_file(self.path(&file));
        self.cryptsetup(&format!(
            "luksHeaderBackup {name} --header-backup-file {file}"
        ));
        self.read(&file)
    }
}

const CHEAP: &str = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
/// Options with room for two keyslots: the whole metadata have 288 KiB.
const SMALL: &str = "--type luks2 --key-size 256 --luks2-keyslots-size 256k --offset 2048";
const SMALL_LEN: usize = 288 << 10;
/// Options with the same data offset as [`SAME_PLACE_LUKS1`].
const SAME_PLACE_LUKS2: &str =
    "--type luks2 --key-size 256 --luks2-keyslots-size 256k --offset 4096";
const SAME_PLACE_LUKS1: &str = "--type luks1 --key-size 256 --offset 4096";

fn backup(bytes: &[u8]) -> HeaderBackup {
    HeaderBackup::read(&MemoryStorage::new(bytes.to_vec())).unwrap()
}

fn misfits(backup: &HeaderBackup, volume: &[u8]) -> Vec<Misfit> {
    let present = VolumeHeader::read(&MemoryStorage::new(volume.to_vec()));
    backup.misfits(present.as_ref())
}

/// Returns the keyslot that `secret` opens.
fn opened(storage: &dyn Storage, secret: &[u8]) -> Option<u32> {
    let header = VolumeHeader::read(storage).unwrap();
    let options = UnlockOptions::default();
    match header.unlock(storage, secret, &*backend(), &options) {
        Ok(unlocked) => Some(unlocked.keyslot),
        Err(error) if error.is_wrong_secret() => None,
        Err(error) => panic!("{error}"),
    }
}

/// All variants that cryptsetup lays out differently.
const SHAPES: [&str; 8] = [
    "--type luks1 --key-size 256",
    "--type luks1 --key-size 512 --hash sha1",
    "--type luks1 --key-size 256 --align-payload 8192",
    "--type luks1 --key-size 256 --cipher aes-xts-plain",
    "--type luks2 --key-size 512",
    "--type luks2 --key-size 256 --luks2-metadata-size 64k --luks2-keyslots-size 1m",
    SMALL,
    "--type luks2 --luks2-metadata-size 16k --luks2-keyslots-size 512k --key-size 256 --offset 8192",
];

#[test]
fn a_backup_is_cryptsetups_to_the_byte() {
    let scratch = Scratch::new();
    for shape in SHAPES {
        scratch.format("volume", 20 << 20, shape);
        // Bytes of an earlier use, between header and keyslots.
        if shape.contains("luks1") {
            let file = scratch.open("volume");
            file.write_all_at(&[7; 4096 - 592], 592).unwrap();
        }
        let theirs = scratch.their_backup("volume");
        let ours = HeaderBackup::take(&scratch.open("volume")).unwrap();
        assert!(ours.bytes() == theirs, "{shape}");
        let read = backup(&theirs);
        assert_eq!(read.header().uuid(), ours.header().uuid());
    }
}

#[test]
fn a_detached_header_is_backed_up_like_cryptsetup_does() {
    let scratch = Scratch::new();
    scratch.format("data", 1 << 20, "--type luks2 --header header");
    let ours = HeaderBackup::take(&scratch.open("header")).unwrap();
    assert!(ours.bytes() == scratch.their_backup("header"));
}

#[test]
fn each_program_restores_backups_of_the_other() {
    let scratch = Scratch::new();
    for shape in SHAPES {
        scratch.format("volume", 20 << 20, shape);
        let before = scratch.read("volume");
        let ours = HeaderBackup::take(&scratch.open("volume")).unwrap();
        fs::write(scratch.path("ours"), ours.bytes()).unwrap();
        let theirs = backup(&scratch.their_backup("volume"));

        for by_us in [true, false] {
            scratch.cryptsetup(&format!(
                "luksAddKey --key-file key --key-slot 1 {CHEAP} volume other"
            ));
            scratch.cryptsetup("luksRemoveKey --key-file key volume");
            assert_eq!(opened(&scratch.open("volume"), KEY), None, "{shape}");
            if by_us {
                theirs.restore(&scratch.open("volume"), false).unwrap();
            } else {
                scratch.cryptsetup("luksHeaderRestore volume --header-backup-file ours");
            }
            assert!(scratch.read("volume") == before, "{shape} {by_us}");
            scratch.cryptsetup("open --test-passphrase --key-file key volume");
        }
    }
}

/// Backups are made for the case that the header is lost. Restoring then needs `force`, because
/// something else may be there.
#[test]
fn a_lost_header_is_restored_with_force() {
    let scratch = Scratch::new();
    for shape in SHAPES {
        scratch.format("volume", 20 << 20, shape);
        let before = scratch.read("volume");
        let ours = HeaderBackup::take(&scratch.open("volume")).unwrap();
        let len = usize::try_from(ours.header().metadata_len()).unwrap();
        for lost in [len, 4096] {
            let mut bytes = before.clone();
            bytes[..lost].fill(0x55);
            // LUKS2's secondary copy would be enough to read the header, so it is lost too.
            bytes[0x4000..0x4000 + 8].fill(0);
            bytes[0x1_0000..0x1_0000 + 8].fill(0);
            let storage = MemoryStorage::new(bytes);
            assert!(matches!(
                ours.misfits(VolumeHeader::read(&storage).as_ref())[..],
                [Misfit::NoHeader { .. }]
            ));
            ours.restore(&storage, true).unwrap();
            assert!(storage.into_bytes() == before, "{shape}");
        }
    }
}

/// The old and the new keyslot do not overlap, so one of them opens at each instant.
#[test]
fn the_power_fails_while_another_keyslot_comes_back() {
    for shape in [SMALL, "--type luks1 --key-size 256"] {
        let scratch = Scratch::new();
        scratch.format("volume", 2 << 20, shape);
        let ours = HeaderBackup::take(&scratch.open("volume")).unwrap();
        scratch.cryptsetup(&format!(
            "luksAddKey --key-file key --key-slot 1 {CHEAP} volume other"
        ));
        scratch.cryptsetup("luksRemoveKey --key-file key volume");
        let whole = scratch.read("volume");
        let mut images = vec![whole.clone()];
        // One copy is damaged, and the other must stay valid until it has a successor.
        for at in [100, 0x4000 + 100].into_iter().filter(|_| shape == SMALL) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            images.push(damaged);
        }
        for image in images {
            let cuts = PowerCuts {
                image: &image,
                ..PowerCuts::default()
            };
            let check = |after: MemoryStorage, _: &Cut<'_>| {
                VolumeHeader::read(&after).map_err(|_| "no valid header")?;
                match (opened(&after, KEY), opened(&after, OTHER)) {
                    (None, None) => return Err("no key opens it"),
                    (Some(slot), None) => assert_eq!(slot, 0),
                    (None, Some(slot)) => assert_eq!(slot, 1),
                    (Some(_), Some(_)) => panic!("both keys open it"),
                }
                repeated(&ours, &after)
            };
            let restore = |storage: &FaultyStorage| ours.restore(storage, false).unwrap();
            let seen = cuts.check(restore, check).unwrap();
            assert!(seen > 20, "{seen}");
            // The test would notice missing syncs.
            let faults = Faults {
                ignore_syncs: true,
                ..Faults::default()
            };
            let broken = PowerCuts { faults, ..cuts }.check(restore, check);
            assert!(broken.is_err(), "{shape}");
        }
    }
}

/// Both headers have a keyslot in the same place. The header is valid at each instant, and the
/// restore can be repeated.
#[test]
fn the_power_fails_while_a_keyslot_comes_back_over_another() {
    for (shape, now) in [
        (SMALL, SMALL),
        ("--type luks1 --key-size 256", "--type luks1 --key-size 256"),
        // The version changes, and the copies lie where LUKS1 has keyslots.
        (SAME_PLACE_LUKS2, SAME_PLACE_LUKS1),
        (SAME_PLACE_LUKS1, SAME_PLACE_LUKS2),
        // The copies have different lengths, so they overlap.
        (
            "--type luks2 --key-size 256 --luks2-metadata-size 16k --luks2-keyslots-size 256k --offset 2048",
            "--type luks2 --key-size 256 --luks2-metadata-size 64k --luks2-keyslots-size 256k --offset 2048",
        ),
        (
            "--type luks2 --key-size 256 --luks2-metadata-size 32k --luks2-keyslots-size 256k --offset 2048",
            "--type luks2 --key-size 256 --luks2-metadata-size 16k --luks2-keyslots-size 256k --offset 2048",
        ),
    ] {
        let scratch = Scratch::new();
        scratch.format("volume", 3 << 20, shape);
        let ours = HeaderBackup::take(&scratch.open("volume")).unwrap();
        scratch.format("volume", 3 << 20, now);
        let image = scratch.read("volume");
        let cuts = PowerCuts {
            image: &image[..(1 << 20) + (64 << 10)],
            ..PowerCuts::default()
        };
        let check = |after: MemoryStorage, _: &Cut<'_>| {
            VolumeHeader::read(&after).map_err(|_| "no valid header")?;
            repeated(&ours, &after)
        };
        cuts.check(|storage| ours.restore(storage, true).unwrap(), check)
            .unwrap();
    }
}

/// The keyslot of the durable header lies in the same place as the backup's. A program that was
/// killed had replaced that keyslot: the new header, which leaves the place free, is in the page
/// cache, and the disk may still have the old one.
#[test]
fn the_power_fails_after_a_change_that_was_killed() {
    let scratch = Scratch::new();
    scratch.format("volume", 2 << 20, SMALL);
    let storage = MemoryStorage::new(scratch.read("volume"));
    let ours = HeaderBackup::take(&storage).unwrap();
    let change = |storage: &dyn Storage, target: &dyn Storage, old: &[u8], new: &[u8]| {
        let mut header = Luks2Header::read(storage).unwrap();
        let options = UnlockOptions::default();
        let unlocked = header.unlock(storage, old, &*backend(), &options).unwrap();
        let cheap = PbkdfOptions {
            kind: PbkdfKind::Pbkdf2,
            force_iterations: Some(1000),
            ..PbkdfOptions::default()
        };
        let new = header.new_keyslot(&unlocked, new, &cheap, &*backend());
        header.replace_keyslot(target, unlocked.keyslot, &new.unwrap())
    };
    // Replace the key twice, so that the keyslot is back in its first place.
    change(&storage, &storage, KEY, b"elsewhere").unwrap();
    change(&storage, &storage, b"elsewhere", OTHER).unwrap();
    let image = storage.into_bytes();

    // Kill the change at every sync from the first one that follows a written copy.
    for syncs in 2..5 {
        let restored = |storage: &FaultyStorage| {
            let killed = Killed::after_syncs(storage, syncs);
            let error = change(storage, &killed, OTHER, b"new").unwrap_err();
            assert!(error.to_string().contains("killed"), "{error}");
            ours.restore(storage, false).unwrap();
        };
        let check = |after: MemoryStorage, _: &Cut<'_>| {
            let opens = |secret| opened(&after, secret).is_some();
            if [KEY, OTHER, b"new"].into_iter().any(opens) {
                Ok(())
            } else {
                Err("no key opens it")
            }
        };
        let cuts = PowerCuts {
            image: &image,
            ..PowerCuts::default()
        };
        cuts.check(restored, check)
            .unwrap_or_else(|broken| panic!("{syncs} syncs: {broken}"));
    }
}

fn repeated(ours: &HeaderBackup, storage: &MemoryStorage) -> Result<(), &'static str> {
    ours.restore(storage, true)
        .map_err(|_| "it cannot be done again")?;
    let len = usize::try_from(ours.header().metadata_len()).unwrap();
    if storage.to_bytes()[..len] == ours.bytes()[..len] {
        Ok(())
    } else {
        Err("done again it is another header")
    }
}

#[test]
fn a_failed_restore_is_reported_and_can_be_repeated() {
    let scratch = Scratch::new();
    scratch.format("volume", 2 << 20, SMALL);
    let ours = HeaderBackup::take(&scratch.open("volume")).unwrap();
    scratch.format("volume", 2 << 20, SMALL);
    let image = scratch.read("volume")[..1 << 20].to_vec();
    let mut failures = 0;
    for number in 0.. {
        let mut succeeded = true;
        for faults in [
            Faults {
                fail_write_after: Some(number),
                ..Faults::default()
            },
            Faults {
                fail_sync_after: Some(number),
                ..Faults::default()
            },
        ] {
            let storage = FaultyStorage::with_faults(image.clone(), faults);
            match ours.restore(&storage, true) {
                Ok(()) => continue,
                Err(RestoreError::Io { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            succeeded = false;
            failures += 1;
            // A fault occurs only once.
            ours.restore(&storage, true).unwrap();
            assert_eq!(storage.to_bytes()[..SMALL_LEN], ours.bytes()[..SMALL_LEN]);
        }
        if succeeded {
            break;
        }
    }
    assert!(failures >= 7, "{failures}");
}

#[test]
fn every_misfit_is_named() {
    let scratch = Scratch::new();
    scratch.format("volume", 20 << 20, "--type luks2 --key-size 512");
    let volume = scratch.read("volume");
    let same = backup(&volume);
    assert!(misfits(&same, &volume).is_empty());

    let of = |options: &str| {
        scratch.format("other-volume", 20 << 20, options);
        scratch.read("other-volume")
    };
    let other = of("--type luks2 --key-size 512");
    assert!(matches!(
        misfits(&same, &other)[..],
        [Misfit::Uuid { .. }, Misfit::VolumeKey]
    ));
    // Overwriting another volume, or something that is not one, needs `force`.
    for bytes in [other, vec![7; 17 << 20]] {
        let storage = MemoryStorage::new(bytes.clone());
        let error = same.restore(&storage, false).unwrap_err();
        assert!(
            matches!(
                error,
                RestoreError::Misfit {
                    misfit: Misfit::Uuid { .. } | Misfit::NoHeader { .. }
                }
            ),
            "{error}"
        );
        assert!(storage.into_bytes() == bytes);
    }
    let other = of("--type luks2 --key-size 256");
    assert!(matches!(
        misfits(&same, &other)[..],
        [
            Misfit::KeyLen {
                backup: 64,
                volume: 32
            },
            Misfit::Uuid { .. },
            Misfit::VolumeKey
        ]
    ));
    let other = of("--type luks2 --key-size 512 --offset 16384");
    assert!(matches!(
        misfits(&same, &other)[..],
        [
            Misfit::DataOffset {
                backup: 0x100_0000,
                volume: 0x80_0000
            },
            Misfit::Uuid { .. },
            Misfit::VolumeKey
        ]
    ));
    // The volume is not changed.
    let storage = MemoryStorage::new(other.clone());
    let error = same.restore(&storage, false).unwrap_err();
    assert!(matches!(
        error,
        RestoreError::Misfit {
            misfit: Misfit::DataOffset { .. }
        }
    ));
    assert!(storage.to_bytes() == other);
    same.restore(&storage, true).unwrap();
    assert_eq!(opened(&storage, KEY), Some(0));

    let other = of("--type luks1 --key-size 512 --align-payload 32768");
    assert!(matches!(
        misfits(&same, &other)[..],
        [
            Misfit::Version {
                backup: LuksVersion::Luks2,
                volume: LuksVersion::Luks1
            },
            Misfit::Uuid { .. },
            Misfit::Segments,
            Misfit::VolumeKey
        ]
    ));
    let mut other = of("--type luks1 --key-size 512");
    // The name of the cipher.
    other[8..16].copy_from_slice(b"serpent\0");
    let unknown = misfits(&same, &other);
    assert!(
        matches!(
            unknown[..],
            [
                Misfit::DataOffset { .. },
                Misfit::Version { .. },
                Misfit::Uuid { .. },
                Misfit::VolumeKey
            ]
        ),
        "{unknown:?}"
    );
    // The null cipher is refused, but the header is there.
    other[8..20].copy_from_slice(b"cipher_null\0");
    let unknown = misfits(&same, &other);
    assert!(
        matches!(unknown[..], [Misfit::Unsupported { .. }]),
        "{unknown:?}"
    );
    assert!(unknown[0].is_serious());

    let mut damaged = volume.clone();
    damaged[0x4000 + 5000] ^= 1;
    let damaged = backup(&damaged);
    let storage = MemoryStorage::new(volume);
    let error = damaged.restore(&storage, false).unwrap_err();
    assert!(matches!(
        error,
        RestoreError::Misfit {
            misfit: Misfit::DamagedCopy {
                kind: CopyKind::Secondary,
                ..
            }
        }
    ));
    damaged.restore(&storage, true).unwrap();
    assert_eq!(opened(&storage, KEY), Some(0));
}

/// Returns the volume with the values at these paths replaced in both copies of LUKS2's metadata. A
/// value of null removes the member.
fn with_json(volume: &[u8], changes: &[(&str, Value)]) -> Vec<u8> {
    let mut bytes = volume.to_vec();
    let size = 16 << 10;
    let text = bytes[4096..size].split(|&byte| byte == 0).next().unwrap();
    let mut json: Value = serde_json::from_slice(text).unwrap();
    for (path, value) in changes {
        let (parent, name) = path.rsplit_once('/').unwrap();
        let members = json.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        members.insert(name.into(), value.clone());
        members.retain(|_, value| !value.is_null());
    }
    let text = json.to_string();
    for copy in bytes.chunks_mut(size).take(2) {
        replace_json(copy, &text);
    }
    bytes
}

/// Returns the only misfit, which must be serious and prevent a restore without `force`.
fn the_serious_misfit(backup: &HeaderBackup, volume: &[u8]) -> Misfit {
    let mut found = misfits(backup, volume);
    assert_eq!(found.len(), 1, "{found:?}");
    let misfit = found.remove(0);
    assert!(misfit.is_serious(), "{misfit}");
    let storage = MemoryStorage::new(volume.to_vec());
    let error = backup.restore(&storage, false).unwrap_err();
    assert_eq!(error.to_string(), misfit.to_string());
    assert!(storage.into_bytes() == volume, "{misfit}");
    misfit
}

#[test]
fn a_backup_without_keyslots_needs_force() {
    for shape in ["--type luks1 --key-size 256", SMALL] {
        let scratch = Scratch::new();
        scratch.format("volume", 3 << 20, shape);
        let volume = scratch.read("volume");
        scratch.cryptsetup("luksErase volume");
        let erased = HeaderBackup::take(&scratch.open("volume")).unwrap();
        let misfit = the_serious_misfit(&erased, &volume);
        assert!(matches!(misfit, Misfit::NoKeyslot), "{shape}: {misfit}");
    }
}

#[test]
fn a_backup_with_other_encryption_needs_force() {
    let scratch = Scratch::new();
    let shape = format!("{SMALL} --sector-size 4096");
    scratch.format("volume", 2 << 20, &shape);
    let volume = scratch.read("volume");
    for (member, value) in [
        ("iv_tweak", "8".into()),
        ("sector_size", 512.into()),
        ("encryption", "aes-xts-plain".into()),
        ("encryption", "serpent-xts-plain64".into()),
        ("size", "4096".into()),
    ] {
        let changed = with_json(&volume, &[(&format!("/segments/0/{member}"), value)]);
        for (backup, volume) in [(&changed, &volume), (&volume, &changed)] {
            let misfit = the_serious_misfit(&self::backup(backup), volume);
            assert!(matches!(misfit, Misfit::Segments), "{member}: {misfit}");
        }
    }
}

#[test]
fn a_backup_with_another_file_length_needs_force() {
    let scratch = Scratch::new();
    scratch.format("volume", 2 << 20, SMALL);
    let without = scratch.read("volume");
    let token = |length: &str| json!({"type": "luxor-file", "keyslots": [], "length": length});
    let [one, two, unknown] =
        ["1000", "2000", "new"].map(|length| with_json(&without, &[("/tokens/0", token(length))]));
    for (ours, present, words) in [
        (
            &one,
            &two,
            "1000 bytes according to the backup, and 2000 bytes now",
        ),
        (
            &without,
            &one,
            "no recorded length according to the backup, and 1000 bytes",
        ),
        (
            &one,
            &without,
            "1000 bytes according to the backup, and no recorded length",
        ),
        (
            &unknown,
            &without,
            "an end that this version does not support (length must be a text",
        ),
    ] {
        let misfit = the_serious_misfit(&backup(ours), present).to_string();
        assert!(misfit.contains(words), "{misfit}");
    }
}

/// Two digests are of the same key only if they are equal in every field. A digest of an unknown
/// type cannot be compared.
#[test]
fn a_backup_with_an_incomparable_key_needs_force() {
    let scratch = Scratch::new();
    scratch.format("volume", 2 << 20, SMALL);
    let volume = scratch.read("volume");
    let changed = |member: &str, value: Value| {
        with_json(&volume, &[(&format!("/digests/0/{member}"), value)])
    };
    for (member, value) in [("hash", "sha3-256".into()), ("iterations", 999.into())] {
        let misfit = the_serious_misfit(&backup(&changed(member, value)), &volume);
        assert!(matches!(misfit, Misfit::VolumeKey), "{member}: {misfit}");
    }
    let foreign = changed("type", "new".into());
    for (ours, present) in [
        (&foreign, &foreign),
        (&foreign, &volume),
        (&volume, &foreign),
    ] {
        let misfit = the_serious_misfit(&backup(ours), present);
        assert!(matches!(misfit, Misfit::UnknownKey), "{misfit}");
    }
    // The key can be compared even if the cipher of the data is unknown.
    let cipher = ("/segments/0/encryption", "serpent-xts-plain64".into());
    let serpent = with_json(&volume, &[cipher]);
    assert!(misfits(&backup(&serpent), &serpent).is_empty());
}

/// Only one of the two copies is checked. The contents of the other one are never written.
#[test]
fn a_replaced_copy_is_not_restored() {
    let scratch = Scratch::new();
    scratch.format("volume", 2 << 20, SMALL);
    let good = scratch.read("volume");
    scratch.format("other-volume", 2 << 20, SMALL);
    let mut replaced = good.clone();
    replaced[0x4000..0x8000].copy_from_slice(&scratch.read("other-volume")[0x4000..0x8000]);
    let replaced = backup(&replaced);
    assert_eq!(replaced.header().digest(), backup(&good).header().digest());
    assert!(matches!(
        replaced.header().warnings(),
        [Warning::Contents { .. }]
    ));

    let storage = MemoryStorage::new(good.clone());
    let error = replaced.restore(&storage, false).unwrap_err();
    assert!(matches!(
        error,
        RestoreError::Misfit {
            misfit: Misfit::CopiesDiffer
        }
    ));
    assert!(storage.to_bytes() == good);

    replaced.restore(&storage, true).unwrap();
    let mut restored = storage.into_bytes();
    assert!(backup(&restored).header().warnings().is_empty());
    restored[0] ^= 1;
    assert_eq!(backup(&restored).header().uuid(), replaced.header().uuid());
}

#[test]
fn a_truncated_backup_is_refused() {
    let scratch = Scratch::new();
    for (shape, len) in [
        (SMALL, SMALL_LEN),
        ("--type luks1 --key-size 256", 4096 + 7 * 131_072 + 128_000),
    ] {
        scratch.format("volume", 2 << 20, shape);
        // LUKS1's backup ends with keyslot 7.
        if shape.contains("luks1") {
            scratch.cryptsetup(&format!(
                "luksAddKey --key-file key --key-slot 7 {CHEAP} volume other"
            ));
        }
        let bytes = scratch.read("volume");
        backup(&bytes[..len]);
        let cut = MemoryStorage::new(bytes[..len - 1].to_vec());
        match HeaderBackup::read(&cut) {
            Err(BackupError::Truncated { there, len: needed }) => {
                assert_eq!((there, needed), (len as u64 - 1, len as u64));
            }
            other => panic!("{other:?}"),
        }
    }
    let none = HeaderBackup::read(&MemoryStorage::new(vec![0; 8192]));
    assert!(matches!(
        none,
        Err(BackupError::Header(VolumeReadError::Luks2(
            ReadError::NotLuks
        )))
    ));
}

/// An attacker cannot make Luxor take a backup of 2 TiB.
#[test]
fn absurd_lengths_are_refused() {
    let scratch = Scratch::new();
    scratch.format("volume", 2 << 20, "--type luks1 --key-size 256");
    let file = scratch.open("volume");
    // Set keyslot 0's key-material-offset, and clear payload-offset.
    file.write_all_at(&(1_u32 << 30).to_be_bytes(), 248)
        .unwrap();
    file.write_all_at(&[0; 4], 104).unwrap();
    file.set_len(1 << 40).unwrap();
    let result = HeaderBackup::read(&file);
    assert!(matches!(result, Err(BackupError::TooLong { .. })));
}

/// The secondary copy of a larger header lies beyond the smaller header that is restored.
#[test]
fn no_old_copy_survives() {
    let scratch = Scratch::new();
    let shape = |metadata: &str| {
        format!(
            "--type luks2 --key-size 256 --luks2-metadata-size {metadata} \
             --luks2-keyslots-size 256k --offset 8192"
        )
    };
    scratch.format("volume", 5 << 20, &shape("16k"));
    let ours = HeaderBackup::take(&scratch.open("volume")).unwrap();
    scratch.format("volume", 5 << 20, &shape("1m"));
    // Beyond all possible headers these bytes are data, even though they look like a header.
    let file = scratch.open("volume");
    file.write_all_at(b"SKUL\xba\xbe", 4 << 20).unwrap();
    ours.restore(&file, true).unwrap();
    let bytes = scratch.read("volume");
    assert_eq!(bytes[1 << 20..][..6], [0; 6]);
    assert_eq!(bytes[4 << 20..][..6], *b"SKUL\xba\xbe");
    let mut primary_lost = bytes;
    primary_lost[0] ^= 1;
    let header = Luks2Header::read(&MemoryStorage::new(primary_lost)).unwrap();
    assert_eq!(header.describe().uuid, ours.header().uuid());
}

/// A storage that returns other contents on every second read.
struct Fickle {
    versions: [Vec<u8>; 2],
    reads: AtomicUsize,
}

impl Storage for Fickle {
    fn len(&self) -> std::io::Result<u64> {
        Ok(self.versions[0].len() as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
        let version = self.reads.fetch_add(1, Ordering::Relaxed) % 2;
        let offset = usize::try_from(offset).unwrap();
        buf.copy_from_slice(&self.versions[version][offset..][..buf.len()]);
        Ok(())
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> std::io::Result<()> {
        unreachable!("reading never writes")
    }

    fn sync(&self) -> std::io::Result<()> {
        unreachable!("reading never writes")
    }
}

/// The digest must be of the bytes that were parsed.
#[test]
fn a_header_that_changes_while_it_is_read_is_refused() {
    let scratch = Scratch::new();
    let version = || {
        scratch.format("volume", 2 << 20, SMALL);
        scratch.read("volume")
    };
    let storage = Fickle {
        versions: [version(), version()],
        reads: AtomicUsize::new(0),
    };
    let error = Luks2Header::read(&storage).unwrap_err();
    assert!(matches!(error, ReadError::Io { .. }), "{error}");
    assert!(error.to_string().contains("changed"), "{error}");
}
