// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with the real `cryptsetup`, in both directions. A missing `cryptsetup` is a failure.

use std::{
    fs::{self, File, OpenOptions},
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use luxor_engine::KeySize;
use luxor_luks::{
    CostError, Kdf, KeyslotError, Luks2Header, Luks2Options, NewLuks2Volume, PbkdfKind,
    PbkdfOptions, SegmentSize, UnlockError, UnlockOptions, Uuid,
};
use luxor_sector::{SectorSize, Storage};

use crate::backend;

const SECRET: &[u8] = b"correct horse\nbattery\0staple";

struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), SECRET).unwrap();
        fs::write(folder.path().join("wrong"), b"incorrect").unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn sparse(&self, name: &str, len: u64) -> PathBuf {
        let path = self.path(name);
        File::create(&path).unwrap().set_len(len).unwrap();
        path
    }

    fn cryptsetup(&self, arguments: &str) -> Output {
        Command::new("cryptsetup")
            .args(arguments.split_whitespace())
            .current_dir(self.folder.path())
            .output()
            .expect("cryptsetup must be installed")
    }

    fn succeed(&self, arguments: &str) -> String {
        let output = self.cryptsetup(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cryptsetup {arguments}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn format(&self, name: &str, arguments: &str) -> PathBuf {
        let path = self.sparse(name, 20 << 20);
        self.succeed(&format!(
            "luksFormat -q --type luks2 --key-file secret {arguments} {name}"
        ));
        path
    }

    fn volume_key(&self, name: &str) -> Vec<u8> {
        let out = self.path("volume-key");
        let _ = fs::remove_file(&out);
        self.succeed(&format!(
            "luksDump -q --dump-volume-key --volume-key-file volume-key --key-file secret {name}"
        ));
        fs::read(out).unwrap()
    }
}

fn open(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap()
}

fn unlock(storage: &dyn Storage, secret: &[u8]) -> Result<u32, UnlockError> {
    let header = Luks2Header::read(storage).unwrap();
    let unlocked = header.unlock(storage, secret, &*backend(), &UnlockOptions::default())?;
    Ok(unlocked.keyslot)
}

/// Returns the least costs, as our options and as cryptsetup's.
fn cheap(kind: PbkdfKind) -> (PbkdfOptions, &'static str) {
    let options = PbkdfOptions {
        kind,
        ..PbkdfOptions::default()
    };
    match kind {
        PbkdfKind::Pbkdf2 => (
            PbkdfOptions {
                force_iterations: Some(1000),
                ..options
            },
            "--pbkdf pbkdf2 --pbkdf-force-iterations 1000",
        ),
        PbkdfKind::Argon2i | PbkdfKind::Argon2id => (
            PbkdfOptions {
                memory_kib: Some(32),
                parallel: Some(2),
                force_iterations: Some(4),
                ..options
            },
            match kind {
                PbkdfKind::Argon2i => {
                    "--pbkdf argon2i --pbkdf-memory 32 --pbkdf-parallel 2 --pbkdf-force-iterations 4"
                }
                _ => {
                    "--pbkdf argon2id --pbkdf-memory 32 --pbkdf-parallel 2 --pbkdf-force-iterations 4"
                }
            },
        ),
    }
}

fn every_cell() -> impl Iterator<Item = (PbkdfKind, KeySize, SectorSize)> {
    PbkdfKind::ALL.into_iter().flat_map(|kind| {
        KeySize::ALL.into_iter().flat_map(move |key_size| {
            SectorSize::ALL
                .into_iter()
                .map(move |sector_size| (kind, key_size, sector_size))
        })
    })
}

/// Masks everything in the dump that is random or counts writes.
fn masked(dump: &str) -> String {
    let mut masked = String::new();
    for line in dump.lines() {
        let hex = |word: &str| word.len() == 2 && u8::from_str_radix(word, 16).is_ok();
        if ["Epoch:", "UUID:"]
            .iter()
            .any(|name| line.starts_with(name))
        {
            masked.push_str(line.split(':').next().unwrap());
        } else {
            masked.extend(line.split_inclusive(' ').filter(|word| !hex(word.trim())));
        }
        masked.push('\n');
    }
    masked
}

fn masked_json(json: &str) -> String {
    json.lines()
        .map(|line| match line.split_once("\":") {
            Some((key, value)) if key.contains("\"salt") || key.contains("\"digest") => {
                // Keep the length, because it is compared.
                let len = if value.ends_with('{') {
                    value.into()
                } else {
                    value.len().to_string()
                };
                format!("{key}:{len}\n")
            }
            _ => format!("{line}\n"),
        })
        .collect()
}

#[test]
fn volumes_of_cryptsetup_are_opened() {
    let scratch = Scratch::new();
    let mut cells = 0;
    for (kind, key_size, sector_size) in every_cell() {
        let bits = 16 * key_size.bytes();
        let path = scratch.format(
            "theirs",
            &format!(
                "{} --key-size {bits} --sector-size {sector_size}",
                cheap(kind).1
            ),
        );
        let storage = open(&path);
        let header = Luks2Header::read(&storage).unwrap();
        assert!(header.warnings().is_empty(), "{:?}", header.warnings());
        let segment = header.segment().unwrap();
        assert_eq!(segment.geometry.sector_size, sector_size);
        assert_eq!(segment.offset, 16 << 20);
        assert_eq!(segment.size, SegmentSize::Dynamic);
        assert_eq!(
            header.plaintext_len(storage.len().unwrap()).unwrap(),
            4 << 20
        );
        assert_eq!(header.describe().keyslots[&0].kdf.kind(), kind);
        assert_eq!(header.describe().label, "");

        let before = fs::read(&path).unwrap();
        let options = UnlockOptions::default();
        let unlocked = header
            .unlock(&storage, SECRET, &*backend(), &options)
            .unwrap();
        assert_eq!((unlocked.keyslot, unlocked.digest), (0, 0));
        assert_eq!(unlocked.volume_key.expose(), scratch.volume_key("theirs"));
        let error = header
            .unlock(&storage, b"incorrect", &*backend(), &options)
            .unwrap_err();
        assert!(error.is_wrong_secret(), "{error}");
        assert_eq!(before, fs::read(&path).unwrap(), "reading wrote something");

        let json = scratch.succeed("luksDump --dump-json-metadata theirs");
        assert_eq!(header.metadata_json(), json);
        println!("cryptsetup -> luxor: {kind} {bits}-bit key, sectors of {sector_size}: ok");
        cells += 1;
    }
    assert_eq!(cells, 24);
}

#[test]
fn our_volumes_equal_those_of_cryptsetup() {
    let scratch = Scratch::new();
    let mut cells = 0;
    for (kind, key_size, sector_size) in every_cell() {
        let bits = 16 * key_size.bytes();
        let (pbkdf, arguments) = cheap(kind);
        scratch.format(
            "theirs",
            &format!("{arguments} --key-size {bits} --sector-size {sector_size} --label a+b"),
        );
        let label = Some("a+b".parse().unwrap());
        let options = Luks2Options {
            sector_size,
            key_size,
            pbkdf,
            label,
            ..Luks2Options::default()
        };
        let volume = NewLuks2Volume::create(&options, SECRET, &*backend()).unwrap();
        let path = scratch.sparse("ours", 20 << 20);
        volume.write_to(&open(&path)).unwrap();

        let [ours, theirs] = ["ours", "theirs"].map(|name| {
            masked(
                &scratch
                    .succeed(&format!("luksDump {name}"))
                    .replace(name, "volume"),
            )
        });
        assert_eq!(ours, theirs);
        let [ours, theirs] = ["ours", "theirs"].map(|name| {
            masked_json(&scratch.succeed(&format!("luksDump --dump-json-metadata {name}")))
        });
        assert_eq!(ours, theirs);

        scratch.succeed("open --test-passphrase --key-file secret ours");
        let wrong = scratch.cryptsetup("open --test-passphrase --key-file wrong ours");
        assert_eq!(wrong.status.code(), Some(2));
        assert_eq!(scratch.volume_key("ours"), volume.volume_key().expose());
        assert_eq!(unlock(&open(&path), SECRET).unwrap(), 0);
        println!("luxor -> cryptsetup: {kind} {bits}-bit key, sectors of {sector_size}: ok");
        cells += 1;
    }
    assert_eq!(cells, 24);
}

#[test]
fn a_stream_is_the_same_volume() {
    let scratch = Scratch::new();
    let uuid = Uuid::from_u128(0x0123_4567_89ab_4def_8123_4567_89ab_cdef);
    let options = Luks2Options {
        pbkdf: cheap(PbkdfKind::Pbkdf2).0,
        uuid: Some(uuid),
        ..Luks2Options::default()
    };
    let mut volume = NewLuks2Volume::create(&options, SECRET, &*backend()).unwrap();
    volume.set_file_length(4097);
    let mut bytes = Vec::new();
    volume.write_stream(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, volume.header_len());
    assert_eq!(bytes.len() as u64, volume.segment().offset);
    bytes.resize(bytes.len() + 8192, 0);
    let path = scratch.path("stream");
    fs::write(&path, bytes).unwrap();
    let dump = scratch.succeed("luksDump stream");
    assert!(
        dump.contains(&uuid.to_string()) && dump.contains("0: luxor-file"),
        "{dump}"
    );
    scratch.succeed("open --test-passphrase --key-file secret stream");

    let storage = open(&path);
    let header = Luks2Header::read(&storage).unwrap();
    assert_eq!(header.file_length(), Some(4097));
    assert_eq!(header.plaintext_len(storage.len().unwrap()).unwrap(), 4097);
    let len = storage.len().unwrap();
    assert!(header.plaintext_len(len - 4096).is_err());
    for longer in [len + 1, len + 4096] {
        assert_eq!(header.plaintext_len(longer).unwrap(), 4097);
    }
    // cryptsetup must keep the token when it changes the metadata.
    let (_, costs) = cheap(PbkdfKind::Pbkdf2);
    scratch.succeed(&format!(
        "luksAddKey -q --key-file secret {costs} stream wrong"
    ));
    let header = Luks2Header::read(&storage).unwrap();
    assert_eq!(header.file_length(), Some(4097));
    assert_eq!(header.describe().seqid, 2);
    let json = scratch.succeed("luksDump --dump-json-metadata stream");
    assert_eq!(header.metadata_json(), json);
}

/// On a storage that is longer than the data.
#[test]
fn segments_of_a_fixed_size_are_cryptsetups() {
    let scratch = Scratch::new();
    let options = Luks2Options {
        pbkdf: cheap(PbkdfKind::Pbkdf2).0,
        file_length: Some(5000),
        ..Luks2Options::default()
    };
    let mut volume = NewLuks2Volume::create(&options, SECRET, &*backend()).unwrap();
    volume.set_segment_size(SegmentSize::Fixed(8192));
    let path = scratch.sparse("fixed", 20 << 20);
    volume.write_to(&open(&path)).unwrap();

    let dump = scratch.succeed("luksDump fixed");
    assert!(dump.contains("length: 8192 [bytes]"), "{dump}");
    scratch.succeed("open --test-passphrase --key-file secret fixed");
    let header = Luks2Header::read(&open(&path)).unwrap();
    assert_eq!(header.segment(), Some(volume.segment()));
    assert_eq!(header.plaintext_len(20 << 20).unwrap(), 5000);
}

#[test]
fn detached_headers_are_cryptsetups() {
    let scratch = Scratch::new();
    scratch.sparse("data", 1 << 20);
    let (pbkdf, costs) = cheap(PbkdfKind::Pbkdf2);
    scratch.succeed(&format!(
        "luksFormat -q --type luks2 --key-file secret {costs} --header theirs data"
    ));
    let options = Luks2Options {
        pbkdf,
        detached: true,
        ..Luks2Options::default()
    };
    let volume = NewLuks2Volume::create(&options, SECRET, &*backend()).unwrap();
    assert_eq!(volume.segment().offset, 0);
    volume.write_to(&open(&scratch.sparse("ours", 0))).unwrap();

    let [ours, theirs] = ["ours", "theirs"].map(|name| {
        let dump = scratch.succeed(&format!("luksDump {name}"));
        (
            masked(&dump.replace(name, "header")),
            fs::metadata(scratch.path(name)).unwrap().len(),
        )
    });
    assert_eq!(ours, theirs);
    scratch.succeed("open --test-passphrase --key-file secret --header ours data");
    for name in ["ours", "theirs"] {
        let storage = open(&scratch.path(name));
        assert_eq!(unlock(&storage, SECRET).unwrap(), 0);
        let header = Luks2Header::read(&storage).unwrap();
        assert_eq!(header.plaintext_len(1 << 20).unwrap(), 1 << 20);
    }
}

/// cryptsetup bounds the length of a key that opens no data by the room for it alone.
#[test]
fn a_volume_with_a_long_unbound_key_opens() {
    let scratch = Scratch::new();
    let (_, costs) = cheap(PbkdfKind::Pbkdf2);
    let path = scratch.sparse("long", 80 << 20);
    let format = "luksFormat -q --type luks2 --luks2-keyslots-size 60M --key-file secret";
    scratch.succeed(&format!("{format} {costs} long"));
    fs::write(scratch.path("other"), b"other").unwrap();
    for bits in [4104, 8192, 16384, 65536] {
        let line = format!("luksAddKey -q --unbound --key-size {bits} {costs} long other");
        scratch.succeed(&line);
        let storage = open(&path);
        assert_eq!(unlock(&storage, SECRET).unwrap(), 0, "{bits}");
    }
}

#[test]
fn keyslots_are_tried_by_priority() {
    let scratch = Scratch::new();
    let (_, costs) = cheap(PbkdfKind::Pbkdf2);
    let path = scratch.format("many", costs);
    let add = |more: &str, secret: &str| {
        scratch.succeed(&format!(
            "luksAddKey -q --key-file secret {costs} {more} many {secret}"
        ));
    };
    add("--key-slot 5", "wrong");
    add("--key-slot 2", "secret");
    fs::write(scratch.path("other"), b"other").unwrap();
    let unbound = format!("luksAddKey -q --unbound --key-size 256 --key-slot 7 {costs} many other");
    scratch.succeed(&unbound);

    let storage = open(&path);
    assert_eq!(unlock(&storage, SECRET).unwrap(), 0);
    assert_eq!(unlock(&storage, b"incorrect").unwrap(), 5);
    scratch.succeed("config --key-slot 2 --priority prefer many");
    assert_eq!(unlock(&storage, SECRET).unwrap(), 2);
    scratch.succeed("config --key-slot 5 --priority ignore many");
    let error = unlock(&storage, b"incorrect").unwrap_err();
    assert_eq!(error.ignored(), [5]);
    match error {
        UnlockError::WrongSecret { tried, skipped } => {
            assert_eq!(tried, [2, 0]);
            assert_eq!(skipped.len(), 1);
        }
        error => panic!("{error}"),
    }
    // As cryptsetup does.
    let opened = scratch.cryptsetup("open --test-passphrase --key-file wrong many");
    assert_eq!(opened.status.code(), Some(2));

    let header = Luks2Header::read(&storage).unwrap();
    let try_only = |keyslot, secret: &[u8]| {
        let options = UnlockOptions {
            keyslots: vec![keyslot],
            ..UnlockOptions::default()
        };
        header
            .unlock(&storage, secret, &*backend(), &options)
            .map(|unlocked| unlocked.keyslot)
    };
    assert_eq!(try_only(5, b"incorrect").unwrap(), 5);
    assert!(try_only(0, b"incorrect").unwrap_err().is_wrong_secret());
    assert!(matches!(
        try_only(7, b"other"),
        Err(UnlockError::Unbound { keyslot: 7 })
    ));
    match try_only(1, SECRET).unwrap_err() {
        UnlockError::NoSuchKeyslot {
            keyslot: 1,
            existing,
        } => assert_eq!(existing, [0, 2, 5, 7]),
        error => panic!("{error}"),
    }
}

#[test]
fn a_keyslot_that_costs_too_much_does_not_stop_the_others() {
    let scratch = Scratch::new();
    let path = scratch.format("many", "--pbkdf pbkdf2 --pbkdf-force-iterations 2000");
    let (_, costs) = cheap(PbkdfKind::Pbkdf2);
    scratch.succeed(&format!(
        "luksAddKey -q --key-file secret {costs} many wrong"
    ));
    let storage = open(&path);
    let header = Luks2Header::read(&storage).unwrap();
    let unlock = |secret: &[u8], limit| {
        let options = UnlockOptions {
            iterations_limit: Some(limit),
            ..UnlockOptions::default()
        };
        header
            .unlock(&storage, secret, &*backend(), &options)
            .map(|unlocked| unlocked.keyslot)
    };
    assert_eq!(unlock(b"incorrect", 1000).unwrap(), 1);
    assert_eq!(unlock(SECRET, 2000).unwrap(), 0);
    let error = unlock(SECRET, 1999).unwrap_err();
    assert!(error.is_wrong_secret());
    let words = error.to_string();
    assert!(
        words.contains("not tried: keyslot 0: it asks for 2000 iterations"),
        "{words}"
    );
    assert!(matches!(
        error.limit(),
        Some(CostError::Iterations {
            iterations: 2000,
            ..
        })
    ));
    scratch.succeed("luksKillSlot -q many 1 --key-file secret");
    let header = Luks2Header::read(&storage).unwrap();
    let options = UnlockOptions {
        iterations_limit: Some(1999),
        ..UnlockOptions::default()
    };
    let error = header
        .unlock(&storage, SECRET, &*backend(), &options)
        .unwrap_err();
    assert!(
        matches!(
            error,
            UnlockError::Keyslot {
                keyslot: 0,
                error: KeyslotError::Limit(_)
            }
        ),
        "{error}"
    );
}

#[test]
fn other_sizes_and_hashes_are_read() {
    let scratch = Scratch::new();
    let (_, costs) = cheap(PbkdfKind::Pbkdf2);
    for more in [
        "--hash sha512",
        "--hash sha1",
        "--hash ripemd160",
        "--hash whirlpool",
        "--luks2-metadata-size 64k --luks2-keyslots-size 1M",
        "--luks2-metadata-size 4M --luks2-keyslots-size 1M --subsystem tests --label x",
        "--offset 16384 --uuid 01234567-89ab-4def-8123-456789abcdef",
    ] {
        let path = scratch.format("theirs", &format!("{costs} {more}"));
        let storage = open(&path);
        let header = Luks2Header::read(&storage).unwrap();
        assert_eq!(unlock(&storage, SECRET).unwrap(), 0, "{more}");
        let json = scratch.succeed("luksDump --dump-json-metadata theirs");
        assert_eq!(header.metadata_json(), json);
        let dump = scratch.succeed("luksDump theirs");
        let description = header.describe();
        assert!(dump.contains(description.uuid) && dump.contains(description.subsystem));

        // Both copies are good: each opens the volume without the other.
        let bytes = fs::read(&path).unwrap();
        let size = usize::try_from(description.header_size).unwrap();
        for lost in [0..size, size..2 * size] {
            let mut bytes = bytes.clone();
            bytes[lost].fill(0);
            let storage = luxor_sector::MemoryStorage::new(bytes);
            assert_eq!(Luks2Header::read(&storage).unwrap().warnings().len(), 1);
            assert_eq!(unlock(&storage, SECRET).unwrap(), 0, "{more}");
        }
    }
}

#[test]
fn foreign_tokens_are_shown_as_cryptsetup_shows_them() {
    let scratch = Scratch::new();
    let (_, costs) = cheap(PbkdfKind::Pbkdf2);
    let path = scratch.format("theirs", costs);
    let token = r#"{"type":"foo/bar","keyslots":[],"a":{},"b":[],"c":[{},[1,[],{"x":1.50}],"s"],
        "d":1e3,"e":"\u0001\u00e9\/\"\\\n\u007f\u2028\b\f\r\t","f":null,"g":true,"h":-5,
        "i":18446744073709551615,"j":99999999999999999999999,"k":-0,"l":-0.0,"m":1E+5,
        "o":"\ud83d\ude00","\u0009k/":1}"#;
    fs::write(scratch.path("token.json"), token).unwrap();
    scratch.succeed("token import --json-file token.json theirs");
    let header = Luks2Header::read(&open(&path)).unwrap();
    assert_eq!(header.describe().tokens[&0].kind, "foo/bar");
    let json = scratch.succeed("luksDump --dump-json-metadata theirs");
    assert_eq!(header.metadata_json(), json);
    assert_eq!(unlock(&open(&path), SECRET).unwrap(), 0);
}

#[test]
fn a_volume_key_with_equal_halves_needs_permission() {
    let scratch = Scratch::new();
    let (_, costs) = cheap(PbkdfKind::Pbkdf2);
    fs::write(scratch.path("weak"), [7; 64]).unwrap();
    let path = scratch.format(
        "theirs",
        &format!("{costs} --volume-key-file weak --key-size 512"),
    );
    let storage = open(&path);
    let header = Luks2Header::read(&storage).unwrap();
    let unlock = |allow_weak_key| {
        let options = UnlockOptions {
            allow_weak_key,
            ..UnlockOptions::default()
        };
        header.unlock(&storage, SECRET, &*backend(), &options)
    };
    let error = unlock(false).unwrap_err();
    assert!(matches!(error, UnlockError::VolumeKey { keyslot: 0, .. }));
    assert_eq!(unlock(true).unwrap().volume_key.expose(), [7; 64]);
}

#[test]
fn measured_costs_are_cryptsetups_to_open() {
    let scratch = Scratch::new();
    for kind in PbkdfKind::ALL {
        let pbkdf = PbkdfOptions {
            kind,
            iter_time: Duration::from_millis(100),
            ..PbkdfOptions::default()
        };
        let options = Luks2Options {
            pbkdf,
            ..Luks2Options::default()
        };
        let volume = NewLuks2Volume::create(&options, SECRET, &*backend()).unwrap();
        let path = scratch.sparse("ours", 0);
        volume.write_to(&open(&path)).unwrap();
        let storage = open(&path);
        let header = Luks2Header::read(&storage).unwrap();
        let kdf = &header.describe().keyslots[&0].kdf;
        println!("{kdf:?}");
        match *kdf {
            Kdf::Pbkdf2 { iterations, .. } => assert!(iterations > 1000),
            Kdf::Argon2 {
                time,
                memory_kib,
                parallel,
                ..
            } => {
                assert!(time >= 4 && (32..=1 << 20).contains(&memory_kib));
                assert!((1..=4).contains(&parallel));
            }
        }
        assert!(header.describe().digests[&0].iterations > 1000);
        assert_eq!(unlock(&storage, SECRET).unwrap(), 0);
        scratch.succeed("open --test-passphrase --key-file secret ours");
    }
}
