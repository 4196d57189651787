// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of LUKS2 metadata, compared with the real `cryptsetup`. Each program opens what the
//! other has changed, and changes it back. The same change by both leaves the same metadata, byte
//! for byte except for random fields. A missing `cryptsetup` is a failure.

use std::{
    fs::{self, File, OpenOptions},
    process::{Command, Output},
};

use luxor_luks::{
    ActivationFlag, CopyKind, Luks2Header, NewKeyslot, Overwrite, PbkdfKind, PbkdfOptions,
    Priority, UnlockOptions, Unlocked, Uuid,
};
use luxor_sector::Storage;

use crate::backend;

const OLD: &str = "old secret";
const NEW: &str = "new secret";
const UUID: &str = "01234567-89ab-4def-8123-456789abcdef";
const OTHER_TOKEN: &str = r#"{ "type": "c", "keyslots": ["7"] }"#;
const HEADER: usize = 16 << 10;

struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, secret) in [("old", OLD), ("new", NEW)] {
            fs::write(folder.path().join(name), secret).unwrap();
        }
        Self { folder }
    }

    fn run(&self, arguments: &str) -> Output {
        Command::new("cryptsetup")
            .args(arguments.split_whitespace())
            .current_dir(self.folder.path())
            .output()
            .expect("cryptsetup must be installed")
    }

    fn cryptsetup(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cryptsetup {arguments}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn opens(&self, volume: &str, key_file: &str) -> bool {
        let test = format!("open --test-passphrase --key-file {key_file} {volume}");
        self.run(&test).status.success()
    }

    fn format(&self, volume: &str, arguments: &str) {
        let file = File::create(self.folder.path().join(volume)).unwrap();
        file.set_len(20 << 20).unwrap();
        self.cryptsetup(&format!(
            "luksFormat -q --type luks2 --key-file old --uuid {UUID} {arguments} {volume}"
        ));
    }

    fn copy(&self, from: &str, to: &str) {
        let path = |name| self.folder.path().join(name);
        fs::copy(path(from), path(to)).unwrap();
    }

    fn bytes(&self, volume: &str) -> Vec<u8> {
        fs::read(self.folder.path().join(volume)).unwrap()
    }

    /// Returns the JSON text, which must be the same in both copies.
    fn text(&self, volume: &str) -> String {
        let bytes = self.bytes(volume);
        let [primary, secondary] = [0, HEADER].map(|at| {
            let area = &bytes[at + 4096..at + HEADER];
            let end = area.iter().position(|&byte| byte == 0).unwrap();
            String::from_utf8(area[..end].to_vec()).unwrap()
        });
        assert_eq!(primary, secondary, "the copies of {volume}");
        primary
    }

    fn open(&self, volume: &str) -> (File, Luks2Header) {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.folder.path().join(volume))
            .unwrap();
        let header = Luks2Header::read(&file).unwrap();
        assert!(header.warnings().is_empty(), "{:?}", header.warnings());
        (file, header)
    }

    fn change<T, E: std::fmt::Debug>(
        &self,
        volume: &str,
        change: impl FnOnce(&mut Luks2Header, &dyn Storage) -> Result<T, E>,
    ) -> T {
        let (file, mut header) = self.open(volume);
        change(&mut header, &file).unwrap()
    }
}

fn unlock(header: &Luks2Header, storage: &dyn Storage, secret: &str) -> Option<Unlocked> {
    header
        .unlock(
            storage,
            secret.as_bytes(),
            &*backend(),
            &UnlockOptions::default(),
        )
        .ok()
}

fn new_keyslot(
    header: &Luks2Header,
    storage: &dyn Storage,
    (old, new): (&str, &str),
    pbkdf: &PbkdfOptions,
) -> NewKeyslot {
    let unlocked = unlock(header, storage, old).unwrap();
    header
        .new_keyslot(&unlocked, new.as_bytes(), pbkdf, &*backend())
        .unwrap()
}

/// Returns the least costs, as our options and as cryptsetup's.
fn cheap(kind: PbkdfKind) -> (PbkdfOptions, String) {
    let argon2 = kind != PbkdfKind::Pbkdf2;
    let iterations = if argon2 { 4 } else { 1000 };
    let options = PbkdfOptions {
        kind,
        memory_kib: argon2.then_some(32),
        parallel: argon2.then_some(1),
        force_iterations: Some(iterations),
        ..PbkdfOptions::default()
    };
    let memory = if argon2 {
        " --pbkdf-memory 32 --pbkdf-parallel 1"
    } else {
        ""
    };
    let arguments = format!("--pbkdf {kind} --pbkdf-force-iterations {iterations}{memory}");
    (options, arguments)
}

fn every_cell() -> impl Iterator<Item = (PbkdfKind, u32, u32)> {
    PbkdfKind::ALL.into_iter().flat_map(|kind| {
        [256, 512]
            .into_iter()
            .flat_map(move |bits| [512, 4096].map(move |sector| (kind, bits, sector)))
    })
}

/// Masks the salts in the text, but keeps their lengths.
fn masked(text: &str) -> String {
    let mut parts = text.split("\"salt\":\"");
    let mut masked = String::from(parts.next().unwrap());
    for part in parts {
        let (salt, rest) = part.split_once('"').unwrap();
        masked.push_str(&format!("\"salt\":{}\"{rest}", salt.len()));
    }
    masked
}

#[test]
fn each_program_removes_keys_of_the_other() {
    let scratch = Scratch::new();
    let mut cells = 0;
    for (kind, bits, sector) in every_cell() {
        let (options, arguments) = cheap(kind);
        scratch.format(
            "volume",
            &format!("{arguments} --key-size {bits} --sector-size {sector}"),
        );
        let before = scratch.text("volume");

        let number = scratch.change("volume", |header, storage| {
            let new = new_keyslot(header, storage, (OLD, NEW), &options);
            header.add_keyslot(storage, &new, None)
        });
        assert_eq!(number, 1);
        let ours = scratch.text("volume");
        assert!(scratch.opens("volume", "old") && scratch.opens("volume", "new"));
        scratch.cryptsetup("luksKillSlot -q --key-file old volume 1");
        assert!(!scratch.opens("volume", "new"));
        assert_eq!(scratch.text("volume"), before);

        scratch.cryptsetup(&format!(
            "luksAddKey -q --key-file old {arguments} volume new"
        ));
        assert_eq!(masked(&scratch.text("volume")), masked(&ours));
        scratch.change("volume", |header, storage| {
            assert_eq!(unlock(header, storage, NEW).unwrap().keyslot, 1);
            header.remove_keyslot(storage, 1)
        });
        assert!(scratch.opens("volume", "old") && !scratch.opens("volume", "new"));
        assert_eq!(scratch.text("volume"), before);
        println!("keyslots come and go: {kind}, {bits}-bit key, sectors of {sector}: ok");
        cells += 1;
    }
    assert_eq!(cells, 12);
}

#[test]
fn each_program_reverts_changes_of_the_other() {
    let scratch = Scratch::new();
    let mut cells = 0;
    for (kind, bits, sector) in every_cell() {
        let (options, arguments) = cheap(kind);
        scratch.format(
            "volume",
            &format!("{arguments} --key-size {bits} --sector-size {sector}"),
        );
        scratch.change("volume", |header, storage| {
            let new = new_keyslot(header, storage, (OLD, NEW), &options);
            header.replace_keyslot(storage, 0, &new)
        });
        assert!(scratch.opens("volume", "new") && !scratch.opens("volume", "old"));
        scratch.cryptsetup(&format!(
            "luksChangeKey -q --key-file new --key-slot 0 {arguments} volume old"
        ));
        let (file, header) = scratch.open("volume");
        assert_eq!(unlock(&header, &file, OLD).unwrap().keyslot, 0);
        assert!(unlock(&header, &file, NEW).is_none());
        assert_eq!(header.describe().keyslots[&0].kdf.kind(), kind);

        // The same secret with other costs, and back again.
        for other in PbkdfKind::ALL {
            let (ours, _) = cheap(other);
            scratch.change("volume", |header, storage| {
                let new = new_keyslot(header, storage, (OLD, OLD), &ours);
                header.replace_keyslot(storage, 0, &new)
            });
            assert_eq!(
                scratch.open("volume").1.describe().keyslots[&0].kdf.kind(),
                other
            );
            assert!(scratch.opens("volume", "old"));
            scratch.cryptsetup(&format!(
                "luksConvertKey -q --key-file old --key-slot 0 {arguments} volume"
            ));
            let (file, header) = scratch.open("volume");
            assert_eq!(header.describe().keyslots[&0].kdf.kind(), kind);
            assert_eq!(unlock(&header, &file, OLD).unwrap().keyslot, 0);
        }
        println!("keys change: {kind}, {bits}-bit key, sectors of {sector}: ok");
        cells += 1;
    }
    assert_eq!(cells, 12);
}

#[test]
fn the_same_change_leaves_the_same_metadata() {
    let scratch = Scratch::new();
    let pbkdf = cheap(PbkdfKind::Pbkdf2);
    scratch.format("volume", &pbkdf.1);
    scratch.cryptsetup(&format!(
        "luksAddKey -q --key-file old {} --key-slot 5 volume new",
        pbkdf.1
    ));
    let token = r#"{"type":"a/b","keyslots":["5","0"],"note":"é\u0001\"","number":-1.50}"#;
    fs::write(scratch.folder.path().join("token"), token).unwrap();
    fs::write(scratch.folder.path().join("other-token"), OTHER_TOKEN).unwrap();
    let third = format!(
        "luksAddKey -q --key-file old {} --key-slot 3 volume token",
        pbkdf.1
    );

    let again = third.replace("--key-slot 3", "--key-slot 7");

    type Change = Box<dyn Fn(&mut Luks2Header, &dyn Storage)>;
    let changes: Vec<(&str, Change)> = vec![
        (
            "token import --token-id 4 --json-file token volume",
            Box::new(move |h, s| assert_eq!(h.add_token(s, token, Some(4)).unwrap(), 4)),
        ),
        (
            "token import --json-file token volume",
            Box::new(move |h, s| assert_eq!(h.add_token(s, token, None).unwrap(), 0)),
        ),
        (
            &third,
            Box::new(move |h, s| {
                let new = new_keyslot(h, s, (OLD, token), &cheap(PbkdfKind::Pbkdf2).0);
                assert_eq!(h.add_keyslot(s, &new, Some(3)).unwrap(), 3);
            }),
        ),
        (
            "config --key-slot 0 --priority prefer volume",
            Box::new(|h, s| h.set_priority(s, 0, Priority::Prefer).unwrap()),
        ),
        (
            "config --key-slot 5 --priority ignore volume",
            Box::new(|h, s| h.set_priority(s, 5, Priority::Ignore).unwrap()),
        ),
        (
            "config --key-slot 0 --priority normal volume",
            Box::new(|h, s| h.set_priority(s, 0, Priority::Normal).unwrap()),
        ),
        (
            "luksKillSlot -q volume 5",
            Box::new(|h, s| h.remove_keyslot(s, 5).unwrap()),
        ),
        // Into the gap that the removed keyslot has left.
        (
            &again,
            Box::new(move |h, s| {
                let new = new_keyslot(h, s, (OLD, token), &cheap(PbkdfKind::Pbkdf2).0);
                assert_eq!(h.add_keyslot(s, &new, Some(7)).unwrap(), 7);
            }),
        ),
        (
            "token import --token-replace --token-id 4 --json-file other-token volume",
            Box::new(|h, s| h.replace_token(s, OTHER_TOKEN, 4).unwrap()),
        ),
        (
            "token remove --token-id 0 volume",
            Box::new(|h, s| h.remove_token(s, 0).unwrap()),
        ),
        (
            "config --label a+b --subsystem s volume",
            Box::new(|h, s| {
                h.set_label(s, &"a+b".parse().unwrap()).unwrap();
                h.set_subsystem(s, &"s".parse().unwrap()).unwrap();
            }),
        ),
        (
            "luksUUID -q --uuid 76543210-89ab-4def-8123-456789abcdef volume",
            Box::new(|h, s| {
                let uuid = "76543210-89ab-4def-8123-456789abcdef";
                h.set_uuid(s, Uuid::parse_str(uuid).unwrap()).unwrap();
            }),
        ),
        ("luksErase -q volume", Box::new(|h, s| h.erase(s).unwrap())),
    ];
    for (command, ours) in &changes {
        // Make each change with both programs, starting from cryptsetup's result of the change
        // before.
        scratch.copy("volume", "ours");
        let (file, mut header) = scratch.open("ours");
        ours(&mut header, &file);
        scratch.cryptsetup(command);
        assert_eq!(
            masked(&scratch.text("ours")),
            masked(&scratch.text("volume")),
            "{command}"
        );
        let [ours, theirs] = ["ours", "volume"].map(|name| {
            let (_, header) = scratch.open(name);
            let described = header.describe();
            [described.label, described.subsystem, described.uuid].map(String::from)
        });
        assert_eq!(ours, theirs, "{command}");
        // cryptsetup must accept our result without having to repair it.
        scratch.cryptsetup("luksDump ours");
        println!("{command}: ok");
    }
    assert!(!scratch.opens("volume", "old") && !scratch.opens("ours", "old"));
}

#[test]
fn cryptsetup_reads_our_tokens_and_flags() {
    let scratch = Scratch::new();
    scratch.format("volume", &cheap(PbkdfKind::Pbkdf2).1);
    let token = r#"{"type":"t","keyslots":["0"],"n":[1,2.50,null,true,{}],"path":"a/b"}"#;
    scratch.change("volume", |h, s| h.add_token(s, token, None));
    scratch.change("volume", |h, s| {
        h.set_flags(
            s,
            &[
                ActivationFlag::NoReadWorkqueue,
                ActivationFlag::AllowDiscards,
            ],
        )
    });
    let dump = scratch.cryptsetup("luksDump volume");
    assert!(
        dump.contains("Flags:       \tallow-discards no-read-workqueue"),
        "{dump}"
    );
    let exported = scratch.cryptsetup("token export --token-id 0 volume");
    let (_, header) = scratch.open("volume");
    assert_eq!(header.token_json(0).unwrap(), token.as_bytes());
    assert_eq!(exported.replace("\\/", "/").trim_end(), token);
}

#[test]
fn both_programs_repair_headers_alike() {
    let scratch = Scratch::new();
    scratch.format("volume", &cheap(PbkdfKind::Pbkdf2).1);
    let good = scratch.bytes("volume");
    let text = scratch.text("volume");
    for (at, kind) in [(0, CopyKind::Primary), (HEADER, CopyKind::Secondary)] {
        for len in [1, 4096, HEADER] {
            let mut bytes = good.clone();
            bytes[at..at + len].fill(0xa5);
            for name in ["ours", "theirs"] {
                fs::write(scratch.folder.path().join(name), &bytes).unwrap();
            }
            let path = scratch.folder.path().join("ours");
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .open(path)
                .unwrap();
            let mut header = Luks2Header::read(&file).unwrap();
            assert_eq!(
                header.repair(&file, Overwrite::Damaged).unwrap(),
                Some(kind)
            );
            assert!(header.warnings().is_empty());
            scratch.cryptsetup("repair -q theirs");
            for name in ["ours", "theirs"] {
                assert_eq!(scratch.text(name), text);
                let (file, header) = scratch.open(name);
                assert_eq!(
                    header.describe().seqid,
                    scratch.open("volume").1.describe().seqid
                );
                assert_eq!(unlock(&header, &file, OLD).unwrap().keyslot, 0);
                assert!(scratch.opens(name, "old"));
            }
            // Everything but the salt (bytes 104 to 168) and the checksum (448 to 480) must be
            // equal.
            let ours = scratch.bytes("ours");
            for (i, (ours, good)) in ours.iter().zip(&good).enumerate() {
                let is_free = matches!(i.wrapping_sub(at), 104..168 | 448..480);
                assert!(is_free || ours == good, "byte {i}");
            }
            println!("{kind:?} repaired after {len} damaged bytes: ok");
        }
    }
}
