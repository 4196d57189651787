// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats other than LUKS, with each command that opens a volume.

use luxor::{AUTO, FORMATS};
use serde_json::Value;

use crate::support::{Folder, luxor, tool};

const VALUES: &str = "--type plain --key-size 512 --offset 8 --skip 16";

/// Encrypts sectors of 512 bytes with Python's `cryptography`, as dm-crypt does from sector 16 on.
const MAKE: &str = "
import sys
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
key, plain, volume = (open(sys.argv[1], 'rb').read(), open(sys.argv[2], 'rb').read(), sys.argv[3])
with open(volume, 'wb') as out:
    out.write(bytes(4096))
    for at in range(0, len(plain), 512):
        tweak = (16 + at // 512).to_bytes(16, 'little')
        encryptor = Cipher(algorithms.AES(key), modes.XTS(tweak)).encryptor()
        out.write(encryptor.update(plain[at:at + 512]) + encryptor.finalize())
";

fn prepared() -> (Folder, Vec<u8>) {
    let folder = Folder::new();
    let plain: Vec<u8> = (0..=250).cycle().take(41 * 512).collect();
    let key: Vec<u8> = (1..=64).collect();
    let [key, plain_file] = [folder.write("key", key), folder.write("plain", &plain)];
    let volume = folder.join("volume");
    let python = ["-c".as_ref(), MAKE.as_ref(), key.as_os_str()];
    let files = [plain_file.as_os_str(), volume.as_os_str()];
    tool("/usr/bin/python3", python.into_iter().chain(files));
    (folder, plain)
}

#[test]
fn a_plain_volume_is_decrypted() {
    let (folder, plain) = prepared();
    let line = format!("decrypt {VALUES} --key-file key volume again");
    luxor(&line).current_dir(folder.path()).ok();
    assert!(std::fs::read(folder.join("again")).unwrap() == plain);

    // A pipe has no known end.
    let line = format!("decrypt {VALUES} --key-file key - piped");
    let volume = std::fs::read(folder.join("volume")).unwrap();
    luxor(&line).stdin(volume).current_dir(folder.path()).ok();
    assert!(std::fs::read(folder.join("piped")).unwrap() == plain);

    for (values, words) in [
        (
            "--type plain --sector-size 4096 --offset 8",
            "which is not a whole number of sectors",
        ),
        ("--type luks", "this is not a LUKS volume"),
        ("--type plain --offset 8 --size 42", "need 25600"),
        ("--type plain --key-size 300", "not of 300"),
        ("--offset 8", "--offset is only for --type plain"),
        ("--type plain --header plain", "--header cannot be used"),
        ("--type plain --key-slot 0", "--key-slot cannot be used"),
    ] {
        let line = format!("decrypt {values} --key-file key volume other");
        let outcome = luxor(&line).current_dir(folder.path()).run();
        outcome.assert_code(1);
        assert!(outcome.stderr.contains(words), "{line}: {outcome:#?}");
        assert!(!folder.join("other").exists(), "{line}");
    }
}

#[test]
fn a_plain_volume_is_described() {
    let (folder, _) = prepared();
    let run = |line: &str| {
        luxor(line)
            .current_dir(folder.path())
            .ok()
            .text()
            .to_owned()
    };
    let text = run(&format!("dump {VALUES} volume"));
    for part in ["plain volume volume", "aes-xts-plain64", "byte 4096", "16"] {
        assert!(text.contains(part), "{text}");
    }
    let json: Value = serde_json::from_str(&run(&format!("dump {VALUES} --json volume"))).unwrap();
    let example = include_str!("../../../../docs/examples/dump-plain.json");
    assert_eq!(json, serde_json::from_str::<Value>(example).unwrap());
    let text = run(&format!("check {VALUES} volume"));
    assert!(
        text.contains("data: 20992 bytes in whole sectors"),
        "{text}"
    );
    let text = run(&format!("key test {VALUES} --key-file key volume"));
    assert!(
        text.contains("nothing shows whether it is the right one"),
        "{text}"
    );
    let line = format!("dump {VALUES} --volume-key volume");
    luxor(&line).current_dir(folder.path()).run().assert_code(1);
}

/// A format with a cipher of its own, which is one file and one line of the library's table.
#[test]
fn a_format_of_one_file_works_with_every_command() {
    let folder = Folder::new();
    let plain: Vec<u8> = (0..=255).cycle().take(8 * 512).collect();
    // The key is the sum of the passphrase's bytes.
    let key = b"horse"
        .iter()
        .fold(0, |sum: u8, byte| sum.wrapping_add(*byte));
    let mut volume = [b"luxor-xo".as_slice(), &[key ^ 0x5a]].concat();
    volume.resize(512, 0);
    volume.extend(plain.iter().map(|byte| byte ^ key));
    folder.write("volume", &volume);
    folder.write("key", "horse");
    folder.write("wrong", "house");
    let run = |line: &str| luxor(line).current_dir(folder.path()).run();

    for kind in ["", "--type xor", "--type auto"] {
        let line = format!("decrypt --force {kind} --key-file key volume again");
        run(&line).assert_code(0);
        assert!(std::fs::read(folder.join("again")).unwrap() == plain);
        let line = format!("dump {kind} volume");
        assert!(run(&line).text().contains("xor volume volume"), "{line}");
        let outcome = run(&format!("check {kind} --key-file key volume"));
        outcome.assert_code(0);
        assert!(
            outcome.text().contains("4096 bytes in whole sectors"),
            "{outcome:#?}"
        );
        assert!(outcome.text().contains("keyslot 0: good"), "{outcome:#?}");
        let outcome = run(&format!("key test {kind} --key-file key volume"));
        assert_eq!(outcome.text(), "keyslot 0 opens\n");
    }
    run("decrypt --type luks --key-file key volume other").assert_code(1);
    for line in [
        "decrypt --key-file wrong volume other",
        "check --key-file wrong volume",
        "key test --key-file wrong volume",
    ] {
        run(line).assert_code(2);
    }
    assert!(!folder.join("other").exists());
}

/// The help, the documents and the commands have the formats of the library's table.
#[test]
fn every_format_has_its_name_everywhere() {
    let readme = include_str!("../../../../README.md");
    let folder = Folder::new();
    folder.write("file", vec![0; 1 << 20]);
    for name in FORMATS.iter().map(|format| format.name()).chain([AUTO]) {
        for command in ["decrypt", "dump", "check", "key test", "serve", "mount"] {
            let help = luxor(&format!("{command} --help")).ok().text().to_owned();
            assert!(name == "xor" || help.contains(name), "{command}: {name}");
            let line = match command {
                "decrypt" => format!("decrypt --type {name} --key-file none file out"),
                "serve" => format!("serve --type {name} --key-file none --socket s file"),
                "mount" => format!("mount --type {name} --key-file none file ."),
                _ => format!("{command} --type {name} file"),
            };
            let outcome = luxor(&line).current_dir(folder.path()).run();
            assert!(!outcome.text().contains("the formats are"), "{line}");
            let unknown = line.replace(&format!("--type {name}"), "--type rot13");
            let outcome = luxor(&unknown).current_dir(folder.path()).run();
            outcome.assert_code(1);
            assert!(outcome.stderr.contains("the formats are"), "{outcome:#?}");
        }
        if ![AUTO, "xor"].contains(&name) {
            let shown = readme.to_lowercase().contains(name);
            assert!(shown, "README.md: {name}");
        }
    }
}
