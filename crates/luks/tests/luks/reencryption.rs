// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volumes that `cryptsetup reencrypt` left unfinished. Every byte must read correctly, or the
//! volume must be refused with a message. A missing `cryptsetup` is a failure.

mod state;

use std::{
    fs::{self, File, OpenOptions},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use luxor_engine::Direction;
use luxor_luks::{
    Luks2Header, ReencryptDirection, ReencryptMode, SegmentError, SegmentKind, SegmentRole,
    UnlockError, UnlockOptions, Unlocked,
};
use luxor_sector::{MemoryStorage, Storage};

use self::state::{FINAL, is_held_to_its_digest, its_digest_is_held_to_the_costs, with_data};
use crate::backend;

const SECRET: &[u8] = b"correct horse";
const CHEAP: &str = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
const MIB: usize = 1 << 20;
/// The length of the plaintext in a test.
const LEN: usize = 12 * MIB;

struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), SECRET).unwrap();
        fs::write(folder.path().join("other"), b"other").unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new("cryptsetup");
        command
            .args(arguments.split_whitespace())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn succeed(&self, arguments: &str) {
        let mut command = self.command(arguments);
        let output = command.stderr(Stdio::piped()).output();
        let output = output.expect("cryptsetup must be installed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cryptsetup {arguments}: {errors}");
    }

    /// Runs a re-encryption until `until` returns true for the header `name`, and then sends it a
    /// signal, repeatedly, because cryptsetup ignores early ones.
    fn interrupt(
        &self,
        arguments: &str,
        name: &str,
        signal: &str,
        until: &dyn Fn(&Luks2Header) -> bool,
    ) -> ExitStatus {
        let arguments =
            format!("reencrypt -q --force-offline-reencrypt --key-file secret {CHEAP} {arguments}");
        let child = self.command(&arguments).spawn();
        let mut child = Guard(child.expect("cryptsetup must be installed"));
        let mut reached = false;
        loop {
            if let Some(status) = child.0.try_wait().unwrap() {
                return status;
            }
            // cryptsetup may be writing the header just now, so that it cannot be read.
            let header = File::open(self.path(name)).ok();
            let header = header.and_then(|file| Luks2Header::read(&file).ok());
            reached = reached || header.is_some_and(|header| until(&header));
            if reached {
                let kill = format!("kill -{signal} {}", child.0.id());
                let _ = Command::new("sh").args(["-c", &kill]).status();
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn open(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap()
}

/// Returns bytes in which no block repeats.
fn plaintext(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (i, block) in bytes.chunks_mut(8).enumerate() {
        let number = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        block.copy_from_slice(&number[..block.len()]);
    }
    bytes
}

fn unlock(
    header: &Luks2Header,
    storage: &dyn Storage,
    secret: &[u8],
) -> Result<Unlocked, UnlockError> {
    header.unlock(storage, secret, &*backend(), &UnlockOptions::default())
}

/// Encrypts or decrypts all the data in place, and returns them.
fn crypt(header: &dyn Storage, data: &dyn Storage, direction: Direction) -> Vec<u8> {
    let metadata = Luks2Header::read(header).unwrap();
    let unlocked = unlock(&metadata, header, SECRET).unwrap();
    let mut all = Vec::new();
    for extent in metadata.extents(data.len().unwrap()).unwrap() {
        let mut bytes = vec![0; usize::try_from(extent.len).unwrap()];
        data.read_exact_at(&mut bytes, extent.offset).unwrap();
        if let Some(cipher) = extent.cipher {
            let key = unlocked.key(cipher.key).unwrap();
            let key = key.key_spec(cipher.encryption.unwrap()).unwrap();
            let mut runs = cipher.geometry.runs(0, bytes.as_mut_slice()).unwrap();
            let key = backend().load_key(&key).unwrap();
            key.crypt(direction, &mut runs).unwrap();
        }
        if direction == Direction::Encrypt {
            data.write_all_at(&bytes, extent.offset).unwrap();
        }
        all.extend(bytes);
    }
    all
}

/// Makes a volume with [`LEN`] bytes of plaintext, in one file with its header or in two.
fn volume(scratch: &Scratch, arguments: &str, offset: usize, detached: bool) {
    let data = File::create(scratch.path("data")).unwrap();
    data.set_len((offset + LEN) as u64).unwrap();
    let header = if detached {
        let header = File::create(scratch.path("header")).unwrap();
        header.set_len(4 * MIB as u64).unwrap();
        "--header header"
    } else {
        "--offset 8192"
    };
    scratch.succeed(&format!(
        "luksFormat -q --type luks2 --key-file secret {CHEAP} --luks2-keyslots-size 2M {header} \
         {arguments} data"
    ));
    let header = open(&scratch.path(if detached { "header" } else { "data" }));
    let data = MemoryStorage::new(fs::read(scratch.path("data")).unwrap());
    let metadata = Luks2Header::read(&header).unwrap();
    let [extent] = &metadata.extents(data.len().unwrap()).unwrap()[..] else {
        panic!("a new volume has one segment");
    };
    data.write_all_at(&plaintext(LEN), extent.offset).unwrap();
    crypt(&header, &data, Direction::Encrypt);
    fs::write(scratch.path("data"), data.into_bytes()).unwrap();
}

/// Returns whether the data consist of `parts` parts.
fn in_parts(parts: usize) -> impl Fn(&Luks2Header) -> bool {
    move |header| {
        let data = header.segments().values();
        header.describe().reencrypt.is_some()
            && data.filter(|entry| entry.role.is_data()).count() >= parts
    }
}

/// Makes a volume, interrupts a re-encryption, and checks that the data read correctly.
fn half_way(make: &dyn Fn(&Scratch), arguments: &str, header: &str, parts: usize) -> Scratch {
    for _ in 0..10 {
        let scratch = Scratch::new();
        make(&scratch);
        scratch.interrupt(arguments, header, "INT", &in_parts(parts));
        let storage = open(&scratch.path(header));
        let metadata = Luks2Header::read(&storage).unwrap();
        // cryptsetup may have finished before the signal arrived.
        if !in_parts(2)(&metadata) {
            continue;
        }
        let data = open(&scratch.path("data"));
        let read = crypt(&storage, &data, Direction::Decrypt);
        assert!(read == plaintext(LEN), "{arguments}: wrong bytes");
        assert_eq!(
            metadata
                .plaintext_len(Storage::len(&data).unwrap())
                .unwrap(),
            LEN as u64
        );
        assert!(metadata.segment().is_none());
        is_held_to_its_digest(&storage);
        its_digest_is_held_to_the_costs(&storage);
        let error = unlock(&metadata, &storage, b"wrong").unwrap_err();
        assert!(error.is_wrong_secret(), "{error}");
        println!("{arguments}: ok");
        return scratch;
    }
    panic!("cryptsetup was never interrupted before it finished");
}

#[test]
fn another_key_or_sector_size_or_cipher() {
    for (before, after) in [
        (
            "--sector-size 4096",
            "--resilience checksum --hotzone-size 64k",
        ),
        (
            "--sector-size 4096",
            "--resilience journal --hotzone-size 64k --sector-size 512",
        ),
        (
            "--sector-size 512",
            "--resilience checksum --hotzone-size 64k --sector-size 4096",
        ),
        (
            "--sector-size 512 --key-size 256",
            "--resilience none --hotzone-size 64k --key-size 512",
        ),
        (
            "--sector-size 512 --cipher aes-cbc-essiv:sha256 --key-size 256",
            "--hotzone-size 64k --cipher aes-xts-plain64 --key-size 512",
        ),
        (
            "--sector-size 512 --cipher aes-xts-plain --key-size 512",
            "--hotzone-size 64k --cipher aes-xts-plain64 --resilience-hash sha512",
        ),
    ] {
        let make = |scratch: &Scratch| volume(scratch, before, 4 * MIB, false);
        // Without resilience the metadata do not record any progress before the end.
        let parts = if after.contains("none") { 1 } else { 2 };
        let scratch = half_way(&make, &format!("{after} data"), "data", parts);
        let storage = open(&scratch.path("data"));
        let header = Luks2Header::read(&storage).unwrap();
        let (_, keyslot) = header.describe().reencrypt.unwrap();
        assert_eq!(keyslot.mode, ReencryptMode::Reencrypt);
        let unlocked = unlock(&header, &storage, SECRET).unwrap();
        assert_eq!(unlocked.others.len(), 1);
        assert_ne!(
            unlocked.volume_key.expose(),
            unlocked.others[0].volume_key.expose()
        );

        // Each of the two keyslots can be requested; the other is found.
        for keyslot in [unlocked.keyslot, unlocked.others[0].keyslot] {
            let options = UnlockOptions {
                keyslots: vec![keyslot],
                ..UnlockOptions::default()
            };
            header
                .unlock(&storage, SECRET, &*backend(), &options)
                .unwrap();
        }
    }
}

#[test]
fn encryption_under_a_detached_header() {
    for resilience in ["journal", "checksum"] {
        let make = |scratch: &Scratch| {
            fs::write(scratch.path("data"), plaintext(LEN)).unwrap();
            let header = File::create(scratch.path("header")).unwrap();
            header.set_len(16 * MIB as u64).unwrap();
        };
        let arguments =
            format!("--encrypt --resilience {resilience} --hotzone-size 64k --header header data");
        let scratch = half_way(&make, &arguments, "header", 2);
        let header = Luks2Header::read(&open(&scratch.path("header"))).unwrap();
        let (_, keyslot) = header.describe().reencrypt.unwrap();
        assert_eq!(keyslot.mode, ReencryptMode::Encrypt);
        assert_eq!(header.data_offset(), 0);
    }
}

#[test]
fn encryption_that_shifts_the_data() {
    let make = |scratch: &Scratch| {
        let mut bytes = plaintext(LEN);
        bytes.resize(LEN + 2 * MIB, 0);
        fs::write(scratch.path("data"), bytes).unwrap();
    };
    let arguments = "--encrypt --luks2-keyslots-size 512k --reduce-device-size 2M data";
    let scratch = half_way(&make, arguments, "data", 3);
    let header = Luks2Header::read(&open(&scratch.path("data"))).unwrap();
    let (_, keyslot) = header.describe().reencrypt.unwrap();
    assert_eq!(keyslot.mode, ReencryptMode::Encrypt);
    assert_eq!(keyslot.direction, ReencryptDirection::Backward);
    assert_eq!(keyslot.resilience.shift(), Some(MIB as u64));
    assert_eq!(header.data_offset(), MIB as u64);
}

#[test]
fn reencryption_that_shifts_the_data() {
    let make = |scratch: &Scratch| {
        volume(scratch, "", 4 * MIB, false);
        let data = open(&scratch.path("data"));
        data.set_len((16 + 2) * MIB as u64).unwrap();
    };
    let arguments = "--hotzone-size 64k --reduce-device-size 2M data";
    let scratch = half_way(&make, arguments, "data", 2);
    let header = Luks2Header::read(&open(&scratch.path("data"))).unwrap();
    let (_, keyslot) = header.describe().reencrypt.unwrap();
    assert_eq!(keyslot.mode, ReencryptMode::Reencrypt);
    assert_eq!(keyslot.direction, ReencryptDirection::Backward);
    assert_eq!(keyslot.resilience.shift(), Some(2 * MIB as u64));
}

#[test]
fn decryption_under_a_detached_header() {
    for resilience in ["journal", "checksum"] {
        let make = |scratch: &Scratch| volume(scratch, "", 0, true);
        let arguments =
            format!("--decrypt --resilience {resilience} --hotzone-size 64k --header header data");
        let scratch = half_way(&make, &arguments, "header", 2);
        let header = Luks2Header::read(&open(&scratch.path("header"))).unwrap();
        let (_, keyslot) = header.describe().reencrypt.unwrap();
        assert_eq!(keyslot.mode, ReencryptMode::Decrypt);
    }
}

#[test]
fn decryption_that_shifts_the_data() {
    let make = |scratch: &Scratch| volume(scratch, "", 4 * MIB, false);
    // cryptsetup creates the header file.
    let arguments = "--decrypt --hotzone-size 64k --header header data";
    let scratch = half_way(&make, arguments, "header", 3);
    let header = Luks2Header::read(&open(&scratch.path("header"))).unwrap();
    let description = header.describe();
    assert_eq!(description.config.reencrypt_version(), Some(3));
    let (_, keyslot) = description.reencrypt.unwrap();
    assert_eq!(keyslot.resilience.shift(), Some(4 * MIB as u64));

    // Before the last step only the moved part is encrypted, and what is left of the ciphertext
    // follows the plaintext.
    let zone = 64 << 10;
    let stretches = [(SegmentRole::BackupMoved, 0, zone), (FINAL, zone, 0)];
    let last_step = with_data(&open(&scratch.path("header")), &stretches, None);
    unlock(&Luks2Header::read(&last_step).unwrap(), &last_step, SECRET).unwrap();
    let data_len = fs::metadata(scratch.path("data")).unwrap().len();
    let header = Luks2Header::read(&last_step).unwrap();
    assert_eq!(header.plaintext_len(data_len).unwrap(), LEN as u64);
}

/// A volume that was killed in a hot zone is refused with advice, and opens after following it.
#[test]
fn a_hot_zone_that_a_crash_left_is_refused() {
    let is_hot = |header: &Luks2Header| {
        let mut roles = header.segments().values().map(|entry| entry.role);
        roles.any(|role| role == SegmentRole::InReencryption)
    };
    for resilience in ["checksum", "journal"] {
        let mut found = false;
        for _ in 0..20 {
            let scratch = Scratch::new();
            volume(&scratch, "", 4 * MIB, false);
            let arguments = format!("--resilience {resilience} --hotzone-size 1M data");
            scratch.interrupt(&arguments, "data", "KILL", &is_hot);
            let storage = open(&scratch.path("data"));
            let header = Luks2Header::read(&storage).unwrap();
            if !is_hot(&header) {
                continue;
            }
            found = true;
            let error = unlock(&header, &storage, SECRET).unwrap_err();
            assert!(
                matches!(error, UnlockError::Segment(SegmentError::HotZone { .. })),
                "{error}"
            );
            assert!(header.extents(Storage::len(&storage).unwrap()).is_err());
            // The secret can still be tested, and the state is still checked against its digest.
            let options = UnlockOptions::default();
            let test = |secret| header.test(&storage, secret, &*backend(), &options);
            assert_eq!(test(SECRET).unwrap().others.len(), 1);
            assert!(test(b"wrong").unwrap_err().is_wrong_secret());

            scratch.succeed("repair -q --key-file secret data");
            let header = Luks2Header::read(&storage).unwrap();
            assert!(!is_hot(&header) && header.describe().reencrypt.is_some());
            assert!(crypt(&storage, &storage, Direction::Decrypt) == plaintext(LEN));
            scratch.succeed(
                "reencrypt -q --force-offline-reencrypt --key-file secret --resume-only data",
            );
            assert!(Luks2Header::read(&storage).unwrap().segment().is_some());
            assert!(crypt(&storage, &storage, Direction::Decrypt) == plaintext(LEN));
            break;
        }
        assert!(found, "cryptsetup was never killed in a hot zone");
    }
}

#[test]
fn a_secret_for_only_one_key_is_reported() {
    let make = |scratch: &Scratch| volume(scratch, "", 4 * MIB, false);
    let scratch = half_way(&make, "--hotzone-size 64k data", "data", 2);
    let storage = open(&scratch.path("data"));
    let header = Luks2Header::read(&storage).unwrap();
    let mut bytes = fs::read(scratch.path("data")).unwrap();
    let second = unlock(&header, &storage, SECRET).unwrap().others[0].keyslot;
    let area = &header.describe().keyslots[&second].area;
    bytes[usize::try_from(area.offset).unwrap()] ^= 1;
    let storage = MemoryStorage::new(bytes);
    match unlock(&header, &storage, SECRET).unwrap_err() {
        error @ UnlockError::OtherKey { .. } => {
            assert!(error.is_wrong_secret());
            let words = error.to_string();
            let tried = format!("(tried keyslot {second})");
            assert!(
                words.contains("has two keys") && words.contains(&tried),
                "{words}"
            );
        }
        error => panic!("{error}"),
    }
}

/// The header that remains after a volume was decrypted permanently. It is shown, but cannot be
/// opened.
#[test]
fn a_header_of_decrypted_data_is_shown_only() {
    let scratch = Scratch::new();
    volume(&scratch, "", 0, true);
    scratch.succeed(&format!(
        "reencrypt -q --force-offline-reencrypt --key-file secret {CHEAP} --decrypt --header header \
         data"
    ));
    let storage = open(&scratch.path("header"));
    let header = Luks2Header::read(&storage).unwrap();
    let entry = &header.segments()[&0];
    assert!(matches!(entry.kind, SegmentKind::Linear { .. }));
    assert!(header.describe().keyslots.is_empty());
    let error = unlock(&header, &storage, SECRET).unwrap_err();
    assert!(
        matches!(error, UnlockError::Linear { segment: 0 }),
        "{error}"
    );
}
