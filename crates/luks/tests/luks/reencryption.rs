// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volumes that `cryptsetup reencrypt` left unfinished. Every byte must read correctly, or the
//! volume must be refused with a message. A missing `cryptsetup` is a failure.

use std::{
    fs::{self, File, OpenOptions},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use luxor_engine::Direction;
use luxor_luks::{
    CostError, KeyslotError, Luks2Header, ReencryptDirection, ReencryptMode, ReencryptionError,
    SegmentError, SegmentKind, SegmentRole, UnlockError, UnlockOptions, Unlocked,
};
use luxor_sector::{MemoryStorage, Storage};
use serde_json::{Value, json};

use crate::{backend, replace_json};

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
            let key = key.key_spec(cipher.encryption).unwrap();
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

/// Returns the metadata as JSON.
fn metadata_of(storage: &dyn Storage) -> Value {
    let header = Luks2Header::read(storage).unwrap();
    serde_json::from_str(&header.metadata_json()).unwrap()
}

/// Returns the metadata area of `storage`, with this JSON in the first copy.
fn with_json(storage: &dyn Storage, json: &Value) -> MemoryStorage {
    let header = Luks2Header::read(storage).unwrap();
    let size = usize::try_from(header.describe().header_size).unwrap();
    let mut bytes = vec![0; usize::try_from(header.metadata_len()).unwrap()];
    let there = bytes
        .len()
        .min(usize::try_from(storage.len().unwrap()).unwrap());
    storage.read_exact_at(&mut bytes[..there], 0).unwrap();
    replace_json(&mut bytes[..size], &json.to_string());
    MemoryStorage::new(bytes)
}

/// Checks that each change of the state that its digest covers is noticed.
fn is_held_to_its_digest(storage: &dyn Storage) {
    // Data that are valid with any state. When all have another key, the digest is not looked at.
    let header = Luks2Header::read(storage).unwrap();
    let (_, state) = header.describe().reencrypt.unwrap();
    let role = match state.mode {
        ReencryptMode::Reencrypt => PREVIOUS,
        _ => FINAL,
    };
    let through: &[Stretch] = &[(role, 0, 0)];
    is_accepted(storage, through);
    let storage = &with_data(storage, through, None);
    let header = Luks2Header::read(storage).unwrap();
    let json = metadata_of(storage);
    let (keyslot, _) = header.describe().reencrypt.unwrap();
    let keyslot = format!("/keyslots/{keyslot}");
    let backup = |role: SegmentRole| {
        let mut segments = header.segments().iter();
        let found = segments.find(|(_, entry)| entry.role == role);
        found.map(|(number, _)| format!("/segments/{number}"))
    };
    let mut changes = vec![
        (format!("{keyslot}/mode"), ["encrypt", "decrypt"]),
        (format!("{keyslot}/direction"), ["forward", "backward"]),
        (
            "/config/requirements/mandatory/0".into(),
            ["online-reencrypt-v2", "online-reencrypt-v3"],
        ),
    ];
    for role in [
        SegmentRole::BackupPrevious,
        SegmentRole::BackupFinal,
        SegmentRole::BackupMoved,
    ] {
        if let Some(segment) = backup(role) {
            changes.push((format!("{segment}/offset"), ["134217728", "268435456"]));
            changes.push((format!("{segment}/size"), ["4096", "8192"]));
            if json.pointer(&format!("{segment}/iv_tweak")).is_some() {
                changes.push((format!("{segment}/iv_tweak"), ["1", "2"]));
            }
        }
    }
    for (path, values) in changes {
        let mut json = json.clone();
        let place = json.pointer_mut(&path).unwrap();
        let other = values.into_iter().find(|value| place != value).unwrap();
        *place = other.into();
        let storage = with_data(&with_json(storage, &json), through, None);
        let header = Luks2Header::read(&storage).unwrap();
        let error = unlock(&header, &storage, SECRET).unwrap_err();
        let expected = UnlockError::Reencryption(ReencryptionError::Digest { digest: 0 });
        assert_eq!(
            std::mem::discriminant(&error),
            std::mem::discriminant(&expected),
            "{path}: {error}"
        );
        assert!(
            error.to_string().contains("does not agree with its digest"),
            "{error}"
        );
    }
}

/// Checks that the digest of the state is charged to the same budget as the keyslots and their
/// digests, and before them.
fn its_digest_is_held_to_the_costs(storage: &dyn Storage) {
    let header = Luks2Header::read(storage).unwrap();
    let (keyslot, _) = header.describe().reencrypt.unwrap();
    let mut digests = header.describe().digests.iter();
    let (state, _) = digests
        .find(|(_, digest)| digest.keyslots.contains(keyslot))
        .unwrap();
    let refused = |state_iterations: u32, keyslot_blocks: Option<u64>| {
        let mut json = metadata_of(storage);
        json["digests"][state.to_string()]["iterations"] = json!(state_iterations);
        for (_, keyslot) in json["keyslots"].as_object_mut().unwrap() {
            if let Some(blocks) = keyslot_blocks
                && keyslot["type"] == "luks2"
            {
                let of_key = keyslot["area"]["key_size"].as_u64().unwrap() / 32;
                keyslot["kdf"]["iterations"] = json!(blocks / of_key);
            }
        }
        let storage = with_json(storage, &json);
        let header = Luks2Header::read(&storage).unwrap();
        unlock(&header, &storage, SECRET).unwrap_err()
    };
    let error = refused(u32::MAX, None);
    assert!(
        matches!(&error, UnlockError::DigestLimit { digest, .. } if digest == state),
        "{error}"
    );
    // Each derivation is within its own limit.
    let error = refused(90_000_000, Some(80_000_000));
    assert!(
        matches!(
            error,
            UnlockError::Keyslot {
                error: KeyslotError::Limit(CostError::Total { .. }),
                ..
            }
        ),
        "{error}"
    );
}

/// A part of the data: the backup segment that it is a stretch of, the first byte in the plaintext,
/// and the length. A length of 0 extends to the end.
type Stretch = (SegmentRole, u64, u64);

/// Returns the volume with other data, which are stretches of its backup segments. `change`
/// increases a member of one of the segments.
fn with_data(
    storage: &dyn Storage,
    stretches: &[Stretch],
    change: Option<(usize, &str, i64)>,
) -> MemoryStorage {
    let header = Luks2Header::read(storage).unwrap();
    let mut json = metadata_of(storage);
    let of_role = |role: SegmentRole| {
        let mut segments = header.segments().iter();
        let (number, _) = segments.find(|(_, entry)| entry.role == role)?;
        Some(number.to_string())
    };
    let grown = |value: &Value, by: u64| {
        let value: u64 = value.as_str().unwrap().parse().unwrap();
        json!((value + by).to_string())
    };
    // First the segments of the data, then the backup segments.
    let mut parts: Vec<(String, Value)> = Vec::new();
    for &(role, from, len) in stretches {
        let number = of_role(role).unwrap();
        let mut part = json["segments"][&number].clone();
        part.as_object_mut().unwrap().remove("flags");
        part["offset"] = grown(&part["offset"], from);
        if part["type"] == "crypt" {
            part["iv_tweak"] = grown(&part["iv_tweak"], from / 512);
        }
        part["size"] = match len {
            0 => json!("dynamic"),
            len => json!(len.to_string()),
        };
        parts.push((number, part));
    }
    if let Some((part, member, by)) = change {
        let member = &mut parts[part].1[member];
        let value: u64 = member.as_str().unwrap().parse().unwrap();
        *member = json!(value.checked_add_signed(by).unwrap().to_string());
    }
    for role in [
        SegmentRole::BackupMoved,
        SegmentRole::BackupPrevious,
        SegmentRole::BackupFinal,
    ] {
        let number = of_role(role);
        parts.extend(number.map(|n| (n.clone(), json["segments"][&n].clone())));
    }
    for digest in json["digests"].as_object_mut().unwrap().values_mut() {
        let mine = digest["segments"].clone();
        let mine = mine.as_array().unwrap();
        let now = parts.iter().zip(0..);
        let now = now.filter(|((number, _), _)| mine.contains(&json!(number)));
        digest["segments"] = now.map(|(_, at): (_, u32)| at.to_string()).collect();
    }
    let numbered = parts.into_iter().zip(0..);
    json["segments"] = numbered
        .map(|((_, part), at): (_, u32)| (at.to_string(), part))
        .collect();
    with_json(storage, &json)
}

const PREVIOUS: SegmentRole = SegmentRole::BackupPrevious;
const FINAL: SegmentRole = SegmentRole::BackupFinal;
const MOVED: SegmentRole = SegmentRole::BackupMoved;

#[track_caller]
fn is_accepted(storage: &dyn Storage, stretches: &[Stretch]) {
    let changed = with_data(storage, stretches, None);
    let header = Luks2Header::read(&changed).unwrap();
    if let Err(error) = unlock(&header, &changed, SECRET) {
        panic!("{stretches:?}: {error}");
    }
}

#[track_caller]
fn is_refused(
    storage: &dyn Storage,
    stretches: &[Stretch],
    change: Option<(usize, &str, i64)>,
    words: &str,
) {
    let changed = with_data(storage, stretches, change);
    let header = Luks2Header::read(&changed).unwrap_or_else(|e| panic!("{stretches:?}: {e}"));
    let error = unlock(&header, &changed, SECRET).expect_err(words);
    assert!(
        matches!(error, UnlockError::Reencryption(_)),
        "{stretches:?}: {error}"
    );
    let error = error.to_string();
    assert!(error.contains(words), "{stretches:?}: {error}");
    assert!(
        error.contains("other than cryptsetup"),
        "{stretches:?}: {error}"
    );
}

/// The digest of the state does not cover the segments of the data.
#[test]
fn parts_of_the_data_lie_where_the_state_has_them() {
    let (mib, all) = (MIB as u64, LEN as u64);
    let scratch = Scratch::new();
    volume(&scratch, "", 4 * MIB, false);
    scratch.succeed(&format!(
        "reencrypt -q --init-only --key-file secret {CHEAP} --sector-size 512 data"
    ));
    let storage = open(&scratch.path("data"));
    for good in [
        &[(PREVIOUS, 0, 0)][..],
        &[(FINAL, 0, mib), (PREVIOUS, mib, 0)],
        &[(FINAL, 0, 0)],
        // The result of `--device-size`.
        &[(FINAL, 0, mib), (PREVIOUS, mib, mib)],
    ] {
        is_accepted(&storage, good);
    }
    // A state of an unknown kind is reported as such.
    let mut json = metadata_of(&storage);
    let header = Luks2Header::read(&storage).unwrap();
    let (keyslot, _) = header.describe().reencrypt.unwrap();
    json["keyslots"][keyslot.to_string()]["area"]["type"] = json!("magic");
    let changed = with_json(&storage, &json);
    let error = unlock(&Luks2Header::read(&changed).unwrap(), &changed, SECRET).unwrap_err();
    let words = format!("its state is in keyslot {keyslot}: area.type: it is \"magic\", which");
    assert!(error.to_string().contains(&words), "{error}");

    // Parts that are exchanged, missing, or begin before another one's beginning.
    let half = all / 2;
    let exchanged = [(PREVIOUS, half, half), (PREVIOUS, 0, half)];
    let place = "must begin at byte";
    is_refused(&storage, &exchanged, None, place);
    is_refused(
        &storage,
        &[(FINAL, 0, mib), (PREVIOUS, 2 * mib, 0)],
        None,
        place,
    );
    is_refused(
        &storage,
        &[(FINAL, mib, mib), (PREVIOUS, 2 * mib, 0)],
        None,
        place,
    );
    is_refused(
        &storage,
        &[(PREVIOUS, 0, 0)],
        Some((0, "offset", 4096)),
        place,
    );
    // A different IV in either part.
    let good = [(FINAL, 0, mib), (PREVIOUS, mib, 0)];
    for part in [0, 1] {
        is_refused(
            &storage,
            &good,
            Some((part, "iv_tweak", 1)),
            "its iv_tweak must be",
        );
    }
    // Data with the new encryption, ahead of the re-encryption.
    is_refused(
        &storage,
        &[(PREVIOUS, 0, mib), (FINAL, mib, 0)],
        None,
        "wrong side",
    );
    let both = [(FINAL, 0, mib), (PREVIOUS, mib, mib), (FINAL, 2 * mib, 0)];
    is_refused(&storage, &both, None, "wrong side");
    // The future data must begin after the keyslots too.
    let mut json = metadata_of(&storage);
    let mut segments = json["segments"].as_object_mut().unwrap().values_mut();
    let last = segments.find(|segment| segment["flags"] == json!(["backup-final"]));
    last.unwrap()["offset"] = "65536".into();
    // Only the first of the two copies has this defect.
    let header = Luks2Header::read(&with_json(&storage, &json)).unwrap();
    let [warning] = header.warnings() else {
        panic!("{:?}", header.warnings())
    };
    let words = "before the keyslots area's end";
    assert!(warning.to_string().contains(words), "{warning}");
    // Data that were cut off, before the re-encryption began and after it finished.
    is_refused(
        &storage,
        &[(PREVIOUS, 0, mib)],
        None,
        "bytes of data in all",
    );
    is_refused(&storage, &[(FINAL, 0, mib)], None, "bytes of data in all");
}

#[test]
fn data_that_are_not_encrypted_yet_lie_where_they_were() {
    let scratch = Scratch::new();
    fs::write(scratch.path("data"), plaintext(LEN)).unwrap();
    let header = File::create(scratch.path("header")).unwrap();
    header.set_len(16 * MIB as u64).unwrap();
    scratch.succeed(&format!(
        "reencrypt -q --encrypt --init-only --key-file secret {CHEAP} --header header data"
    ));
    let storage = open(&scratch.path("header"));
    is_accepted(&storage, &[(PREVIOUS, 0, 0)]);
    is_accepted(&storage, &[(FINAL, 0, 8192), (PREVIOUS, 8192, 0)]);
    let cut = "bytes of data in all";
    is_refused(&storage, &[(PREVIOUS, 0, 4096)], None, cut);
    is_refused(
        &storage,
        &[(PREVIOUS, 4096, 0)],
        None,
        "must begin at byte 0",
    );
}

#[test]
fn data_that_are_shifted_lie_where_they_were_moved() {
    let (mib, all) = (MIB as u64, LEN as u64);
    let scratch = Scratch::new();
    let mut bytes = plaintext(LEN);
    bytes.resize(LEN + 2 * MIB, 0);
    fs::write(scratch.path("data"), bytes).unwrap();
    scratch.succeed(&format!(
        "reencrypt -q --encrypt --init-only --key-file secret {CHEAP} \
         --luks2-keyslots-size 512k --reduce-device-size 2M data"
    ));
    let storage = open(&scratch.path("data"));
    for good in [
        &[(MOVED, 0, mib), (PREVIOUS, mib, all - mib)][..],
        &[
            (MOVED, 0, mib),
            (PREVIOUS, mib, mib),
            (FINAL, 2 * mib, all - 2 * mib),
        ],
        &[(MOVED, 0, mib), (FINAL, mib, all - mib)],
        &[(FINAL, 0, 0)],
    ] {
        is_accepted(&storage, good);
    }
    is_refused(&storage, &[(MOVED, 0, 0)], None, "extends beyond");
    is_refused(&storage, &[(MOVED, 0, mib)], None, "bytes of data in all");
    is_refused(
        &storage,
        &[(MOVED, 0, mib), (PREVIOUS, mib, mib)],
        None,
        "bytes of data",
    );
    // The header is there now.
    is_refused(&storage, &[(PREVIOUS, 0, all)], None, "must begin at byte");
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
