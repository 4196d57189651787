// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adding, changing and removing keys of LUKS1 volumes, compared with `cryptsetup`.

use std::{
    fs::{self, File, OpenOptions},
    path::PathBuf,
    process::{Command, Output},
};

use luxor_engine::KeySize;
use luxor_luks::{
    ActivationFlag, ChangeError, Luks1Header, Luks1Options, NewKeyslot, NewKeyslotError,
    NewLuks1Volume, PbkdfOptions, Priority, UnlockError, UnlockOptions, Uuid, VolumeHeader,
};
use luxor_sector::{MemoryStorage, Storage};

use crate::{backend, cheap};

const AREA: usize = 128_000;

fn volume(secret: &[u8]) -> MemoryStorage {
    let options = Luks1Options {
        key_size: KeySize::Aes128,
        pbkdf: cheap(),
        ..Luks1Options::default()
    };
    let volume = NewLuks1Volume::create(&options, secret, &*backend()).unwrap();
    let storage = MemoryStorage::default();
    volume.write_to(&storage).unwrap();
    storage
}

/// Returns a keyslot under `new`, for the volume that `secret` opens.
fn new_keyslot(storage: &dyn Storage, secret: &[u8], new: &[u8]) -> NewKeyslot {
    let header = Luks1Header::read(storage).unwrap();
    let options = UnlockOptions::default();
    let unlocked = header.unlock(storage, secret, &*backend(), &options);
    header
        .new_keyslot(&unlocked.unwrap(), new, &cheap(), &*backend())
        .unwrap()
}

/// Returns the keyslot that a secret opens.
fn opens(storage: &dyn Storage, secret: &[u8]) -> Option<u32> {
    let header = Luks1Header::read(storage).unwrap();
    match header.unlock(storage, secret, &*backend(), &UnlockOptions::default()) {
        Ok(unlocked) => Some(unlocked.keyslot),
        Err(UnlockError::WrongSecret { .. } | UnlockError::NoKeyslots { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

fn area(storage: &MemoryStorage, number: usize) -> Vec<u8> {
    storage.to_bytes()[4096 + 131_072 * number..][..AREA].to_vec()
}

/// Returns whether no sector of `old` is left anywhere.
fn is_gone(storage: &MemoryStorage, old: &[u8]) -> bool {
    let bytes = storage.to_bytes();
    let there: std::collections::HashSet<_> = bytes.chunks(512).collect();
    old.chunks(512).all(|sector| !there.contains(sector))
}

#[test]
fn keys_are_added_changed_and_removed() {
    let storage = volume(b"a");
    let mut header = Luks1Header::read(&storage).unwrap();
    let b = new_keyslot(&storage, b"a", b"b");
    assert_eq!(header.add_keyslot(&storage, &b, None).unwrap(), 1);
    assert_eq!(header.add_keyslot(&storage, &b, Some(7)).unwrap(), 7);
    assert_eq!(header.describe().keyslots.len(), 3);
    assert_eq!(
        (opens(&storage, b"a"), opens(&storage, b"b")),
        (Some(0), Some(1))
    );

    let old = area(&storage, 0);
    let c = new_keyslot(&storage, b"a", b"c");
    header.replace_keyslot(&storage, 0, &c).unwrap();
    assert_eq!(
        (opens(&storage, b"a"), opens(&storage, b"c")),
        (None, Some(0))
    );
    assert_eq!(header.describe().keyslots.len(), 3);
    assert!(is_gone(&storage, &old));

    let old = area(&storage, 1);
    header.remove_keyslot(&storage, 1).unwrap();
    assert_eq!(opens(&storage, b"b"), Some(7));
    assert!(
        storage.to_bytes()[256..256 + 40]
            .iter()
            .skip(4)
            .all(|&byte| byte == 0)
    );
    // Keyslot 7 has the old area's contents.
    assert_ne!(area(&storage, 1), old);
    header.remove_keyslot(&storage, 7).unwrap();
    assert!(is_gone(&storage, &old));
    assert_eq!(opens(&storage, b"b"), None);

    let bytes = storage.to_bytes();
    header.erase(&storage).unwrap();
    assert_eq!(opens(&storage, b"c"), None);
    assert_eq!(header.describe().keyslots.len(), 0);
    for number in 0..8 {
        let begin = 4096 + 131_072 * number;
        assert!(is_gone(&storage, &bytes[begin..begin + AREA]), "{number}");
    }
    let same = |range: std::ops::Range<usize>| storage.to_bytes()[range.clone()] == bytes[range];
    assert!(same(0..208) && same(592..4096) && same(4096 + 131_072 * 8..2 << 20));
}

#[test]
fn the_uuid_changes_and_nothing_else() {
    let storage = volume(b"a");
    let before = storage.to_bytes();
    let mut header = Luks1Header::read(&storage).unwrap();
    header.set_uuid(&storage, Uuid::from_u128(5)).unwrap();
    let after = storage.to_bytes();
    assert_eq!(after[168..204], *Uuid::from_u128(5).to_string().as_bytes());
    assert_eq!(
        (&after[..168], &after[204..]),
        (&before[..168], &before[204..])
    );
    assert_eq!(header.describe().uuid, Uuid::from_u128(5).to_string());
}

#[test]
fn impossible_changes_are_refused_and_write_nothing() {
    let storage = volume(b"a");
    let new = new_keyslot(&storage, b"a", b"b");
    let stranger = volume(b"a");
    let foreign = new_keyslot(&stranger, b"a", b"b");
    let mut header = Luks1Header::read(&storage).unwrap();
    let unlock = |storage: &dyn Storage| {
        let header = Luks1Header::read(storage).unwrap();
        let options = UnlockOptions::default();
        header.unlock(storage, b"a", &*backend(), &options).unwrap()
    };
    let argon2 = PbkdfOptions::default();
    let error = header
        .new_keyslot(&unlock(&storage), b"b", &argon2, &*backend())
        .unwrap_err();
    assert!(matches!(error, NewKeyslotError::Options(_)), "{error}");

    let before = storage.to_bytes();
    let taken = header.add_keyslot(&storage, &new, Some(0)).unwrap_err();
    assert!(matches!(taken, ChangeError::Taken { number: 0, .. }));
    let number = header.add_keyslot(&storage, &new, Some(8)).unwrap_err();
    assert!(matches!(
        number,
        ChangeError::Number {
            number: 8,
            max: 7,
            ..
        }
    ));
    let other = header.add_keyslot(&storage, &foreign, None).unwrap_err();
    assert!(matches!(other, ChangeError::OtherKey));
    let other = header.replace_keyslot(&storage, 0, &foreign).unwrap_err();
    assert!(matches!(other, ChangeError::OtherKey));
    for number in [1, 8, u32::MAX] {
        let missing = header.remove_keyslot(&storage, number).unwrap_err();
        assert!(matches!(missing, ChangeError::Missing { .. }), "{missing}");
        let missing = header.replace_keyslot(&storage, number, &new).unwrap_err();
        assert!(matches!(missing, ChangeError::Missing { .. }), "{missing}");
    }
    assert!(storage.to_bytes() == before);

    // Another program changed the header first.
    let mut late = header.clone();
    header.set_uuid(&storage, Uuid::from_u128(5)).unwrap();
    let before = storage.to_bytes();
    let changes: [&Change<'_>; 5] = [
        &|header| header.add_keyslot(&storage, &new, None).map(drop),
        &|header| header.replace_keyslot(&storage, 0, &new),
        &|header| header.remove_keyslot(&storage, 0),
        &|header| header.erase(&storage),
        &|header| header.set_uuid(&storage, Uuid::from_u128(6)),
    ];
    for change in changes {
        let error = change(&mut late).unwrap_err();
        assert!(matches!(error, ChangeError::ChangedMeanwhile), "{error}");
    }
    assert!(storage.to_bytes() == before);

    for number in 1..8 {
        assert_eq!(header.add_keyslot(&storage, &new, None).unwrap(), number);
    }
    let before = storage.to_bytes();
    let full = header.add_keyslot(&storage, &new, None).unwrap_err();
    assert!(matches!(full, ChangeError::AllTaken { max: 8, .. }));
    let full = header.replace_keyslot(&storage, 3, &new).unwrap_err();
    assert!(matches!(
        full,
        ChangeError::NoRoomBeside {
            keyslot: 3,
            is_only: false,
            ..
        }
    ));
    assert!(storage.to_bytes() == before);
}

#[test]
fn either_version_changes_by_the_same_names() {
    let storage = volume(b"a");
    let mut header = VolumeHeader::read(&storage).unwrap();
    let options = UnlockOptions::default();
    let unlocked = header
        .unlock(&storage, b"a", &*backend(), &options)
        .unwrap();
    let new = |secret: &[u8]| {
        header
            .new_keyslot(&unlocked, secret, &cheap(), &*backend())
            .unwrap()
    };
    let (b, c) = (new(b"b"), new(b"c"));
    assert_eq!(header.add_keyslot(&storage, &b, Some(4)).unwrap(), 4);
    header.replace_keyslot(&storage, 0, &c).unwrap();
    assert_eq!(
        (opens(&storage, b"c"), opens(&storage, b"b")),
        (Some(0), Some(4))
    );
    header.remove_keyslot(&storage, 4).unwrap();
    header.set_uuid(&storage, Uuid::from_u128(9)).unwrap();

    let before = storage.to_bytes();
    let refused: [(&str, Result<(), ChangeError>); 7] = [
        (
            "priorities",
            header.set_priority(&storage, 0, Priority::Prefer),
        ),
        ("labels", header.set_label(&storage, &"x".parse().unwrap())),
        (
            "subsystems",
            header.set_subsystem(&storage, &"x".parse().unwrap()),
        ),
        (
            "flags",
            header.set_flags(&storage, &[ActivationFlag::AllowDiscards]),
        ),
        ("tokens", header.add_token(&storage, "{}", None).map(drop)),
        ("tokens", header.replace_token(&storage, "{}", 0)),
        ("tokens", header.remove_token(&storage, 0)),
    ];
    for (name, result) in refused {
        let Err(ChangeError::NotInLuks1 { what }) = result else {
            panic!("{name}: {result:?}")
        };
        assert_eq!(what, name);
    }
    assert_eq!(header.token_json(0), None);
    assert!(storage.to_bytes() == before);
    header.erase(&storage).unwrap();
    assert_eq!(opens(&storage, b"c"), None);
}

type Change<'a> = dyn Fn(&mut Luks1Header) -> Result<(), ChangeError> + 'a;

/// A volume that cryptsetup and Luxor change in turn.
struct Shared {
    folder: tempfile::TempDir,
}

impl Shared {
    fn new(options: &str) -> Self {
        let shared = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for name in ["a", "b", "c", "d"] {
            fs::write(shared.path(name), name).unwrap();
        }
        File::create(shared.path("volume"))
            .unwrap()
            .set_len(3 << 20)
            .unwrap();
        shared.cryptsetup(&format!("luksFormat --type luks1 {options} volume"));
        shared
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn storage(&self) -> File {
        let path = self.path("volume");
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap()
    }

    fn run(&self, line: &str) -> Output {
        let makes_a_key = ["luksFormat", "luksAddKey"]
            .iter()
            .any(|c| line.starts_with(c));
        let costs = ["--pbkdf-force-iterations", "1000"];
        Command::new("cryptsetup")
            .args(["-q", "--key-file", "a"])
            .args(costs.iter().filter(|_| makes_a_key))
            .args(line.split_whitespace())
            .current_dir(self.folder.path())
            .output()
            .expect("cryptsetup must be installed")
    }

    fn cryptsetup(&self, line: &str) {
        let output = self.run(line);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cryptsetup {line}: {errors}");
    }

    /// Returns the keyslot that a secret opens, which must be the same for both programs.
    fn opens(&self, secret: &str) -> Option<u32> {
        let ours = opens(&self.storage(), secret.as_bytes());
        let output = Command::new("cryptsetup")
            .args([
                "open",
                "-v",
                "--test-passphrase",
                "--key-file",
                secret,
                "volume",
            ])
            .current_dir(self.folder.path())
            .output()
            .expect("cryptsetup must be installed");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let theirs = said.lines().find_map(|line| {
            line.strip_prefix("Key slot ")?
                .split(' ')
                .next()?
                .parse()
                .ok()
        });
        assert_eq!(output.status.success(), theirs.is_some(), "{said}");
        assert_eq!(ours, theirs, "{secret}");
        ours
    }
}

#[test]
fn each_program_undoes_changes_of_the_other() {
    for options in [
        "--key-size 512 --hash sha256",
        "--key-size 256 --hash sha1",
        "--key-size 512 --hash sha512 --cipher aes-xts-plain",
        "--key-size 256 --hash ripemd160 --cipher aes-cbc-essiv:sha256",
        "--key-size 128 --hash whirlpool --cipher aes-cbc-plain",
        "--key-size 128 --hash sha256 --cipher aes-cbc-plain64",
    ] {
        let shared = Shared::new(options);
        let storage = shared.storage();
        let add = |secret: &[u8], number| {
            let new = new_keyslot(&storage, b"a", secret);
            let mut header = Luks1Header::read(&storage).unwrap();
            header.add_keyslot(&storage, &new, number).unwrap()
        };
        // Luxor adds the key, and cryptsetup removes it.
        assert_eq!(add(b"b", None), 1);
        assert_eq!(shared.opens("b"), Some(1), "{options}");
        shared.cryptsetup("luksKillSlot volume 1");
        assert_eq!(shared.opens("b"), None);
        // cryptsetup adds the key, and Luxor removes it.
        shared.cryptsetup("luksAddKey --key-slot 6 volume b");
        assert_eq!(shared.opens("b"), Some(6), "{options}");
        Luks1Header::read(&storage)
            .unwrap()
            .remove_keyslot(&storage, 6)
            .unwrap();
        assert_eq!(shared.opens("b"), None);
        // Luxor changes the key, and cryptsetup changes it back, for which it uses an empty
        // keyslot.
        let new = new_keyslot(&storage, b"a", b"c");
        let mut header = Luks1Header::read(&storage).unwrap();
        header.replace_keyslot(&storage, 0, &new).unwrap();
        assert_eq!((shared.opens("a"), shared.opens("c")), (None, Some(0)));
        let output = Command::new("cryptsetup")
            .args(["luksChangeKey", "-q", "--key-file", "c"])
            .args(["--pbkdf-force-iterations", "1000", "volume", "a"])
            .current_dir(shared.folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!((shared.opens("a"), shared.opens("c")), (Some(1), None));
        // Both change the UUID.
        shared.cryptsetup("luksUUID --uuid 01234567-89ab-4def-8123-456789abcdef volume");
        let mut header = Luks1Header::read(&storage).unwrap();
        assert_eq!(
            header.describe().uuid,
            "01234567-89ab-4def-8123-456789abcdef"
        );
        header.set_uuid(&storage, Uuid::from_u128(77)).unwrap();
        let uuid = shared.run("luksUUID volume").stdout;
        assert_eq!(
            String::from_utf8_lossy(&uuid).trim(),
            Uuid::from_u128(77).to_string()
        );
        // Fill all keyslots, and erase them.
        for number in [0, 2, 3, 4, 5, 6, 7] {
            assert_eq!(add(b"d", None), number);
        }
        assert_eq!(shared.opens("d"), Some(0), "{options}");
        Luks1Header::read(&storage)
            .unwrap()
            .erase(&storage)
            .unwrap();
        for secret in ["a", "d"] {
            assert_eq!(shared.opens(secret), None, "{options}");
        }
    }
}
