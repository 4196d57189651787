// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of the commands for LUKS1. The interoperation tests check the data.

use std::{fs, path::Path};

use serde_json::Value;

use crate::support::{Folder, luxor, tool};

/// A folder with a key and a volume made by cryptsetup, with keyslots 0 and 3 in use.
fn prepared() -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("wrong", b"wrong");
    folder.write("volume", vec![0; 3 << 20]);
    cryptsetup(
        folder.path(),
        "luksFormat --batch-mode --type luks1 --pbkdf-force-iterations 1234 --hash sha512 \
         --cipher aes-xts-plain64 --key-size 512 --key-file key volume",
    );
    cryptsetup(
        folder.path(),
        "luksAddKey --batch-mode --pbkdf-force-iterations 2345 --key-slot 3 --key-file key \
         --new-keyfile wrong volume",
    );
    folder
}

/// Runs cryptsetup and returns what it prints. The listed names are files in the folder.
fn cryptsetup(folder: &Path, line: &str) -> String {
    let arguments = line.split_whitespace().map(|word| {
        if ["volume", "key", "wrong", "header", "data"].contains(&word) {
            folder.join(word).into_os_string().into_string().unwrap()
        } else {
            word.to_owned()
        }
    });
    let arguments: Vec<String> = arguments.collect();
    let output = tool("cryptsetup", arguments.iter().map(String::as_str));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the words after `name:` in cryptsetup's dump, from `after` on.
fn field<'a>(dump: &'a str, after: &str, name: &str) -> &'a str {
    let begin = dump.find(after).unwrap();
    let line = dump[begin..]
        .lines()
        .find_map(|line| line.trim().strip_prefix(name));
    line.unwrap().trim_start_matches(':').trim()
}

#[test]
fn dump_shows_the_same_as_cryptsetup() {
    let folder = prepared();
    let theirs = cryptsetup(folder.path(), "luksDump volume");
    let outcome = luxor("dump volume").current_dir(folder.path()).ok();
    let ours = outcome.text();
    let digest = field(&theirs, "", "MK digest").replace(' ', "");
    for part in [
        "LUKS1 volume volume\n",
        field(&theirs, "", "UUID"),
        "2 of 8 in use",
        "aes-xts-plain64",
        "byte 2097152",
        "sha512, 1234 iterations",
        "sha512, 2345 iterations",
        "Keyslot 0\n",
        "Keyslot 3\n",
        &digest,
        &format!("sha512, {} iterations", field(&theirs, "", "MK iterations")),
    ] {
        assert!(ours.contains(part), "no {part:?} in {ours}");
    }
    assert!(!ours.contains("Keyslot 1"), "{ours}");
}

/// The output must have the structure of the committed example.
#[test]
fn dump_json_has_the_shape_of_the_example() {
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/examples/luks1-dump.json"
    );
    let example: Value = serde_json::from_slice(&fs::read(example).unwrap()).unwrap();
    let folder = prepared();
    let outcome = luxor("dump --json volume").current_dir(folder.path()).ok();
    assert!(outcome.text().ends_with("}\n"));
    let output: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    let keys =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(keys(&output), keys(&example));
    assert_eq!(keys(&output["digest"]), keys(&example["digest"]));
    for slot in ["0", "3"] {
        let (ours, theirs) = (&output["keyslots"][slot], &example["keyslots"]["0"]);
        assert_eq!(keys(ours), keys(theirs));
        assert_eq!(keys(&ours["area"]), keys(&theirs["area"]));
    }
    for same in ["schema", "type", "encryption", "key_size", "data_offset"] {
        assert_eq!(output[same], example[same], "{same}");
    }

    let theirs = cryptsetup(folder.path(), "luksDump volume");
    assert_eq!(output["uuid"], field(&theirs, "", "UUID"));
    assert_eq!(output["hash"], "sha512");
    let sectors =
        |after: &str, name: &str| 512 * field(&theirs, after, name).parse::<u64>().unwrap();
    assert_eq!(output["data_offset"], sectors("", "Payload offset"));
    assert_eq!(keys(&output["keyslots"]), ["0", "3"]);
    for (slot, iterations) in [("0", 1234), ("3", 2345)] {
        let keyslot = &output["keyslots"][slot];
        assert_eq!(keyslot["iterations"], iterations);
        assert_eq!(keyslot["stripes"], 4000);
        let title = format!("Key Slot {slot}");
        let offset = sectors(&title, "Key material offset");
        assert_eq!(keyslot["area"]["offset"], offset);
        assert_eq!(keyslot["area"]["size"], 256_000);
    }
    let iterations = field(&theirs, "", "MK iterations").parse::<u64>().unwrap();
    assert_eq!(output["digest"]["iterations"], iterations);
}

#[test]
fn check_opens_keyslots_and_names_rules() {
    let folder = prepared();
    let check = |options: &str| luxor(&format!("check {options}")).current_dir(folder.path());
    // What is intact is printed before, on standard output.
    let fails = |options: &str, words: &str| {
        let outcome = check(options).run();
        outcome.assert_code(1);
        assert!(outcome.stderr.contains(words), "{outcome:#?}");
    };
    let outcome = check("volume").ok();
    assert!(outcome.text().contains("LUKS1"), "{outcome:#?}");
    assert!(outcome.text().contains("1048576 bytes"), "{outcome:#?}");
    let outcome = check("--key-file key volume").ok();
    assert!(outcome.text().contains("keyslot 0: good"), "{outcome:#?}");
    let outcome = check("--key-file wrong volume").ok();
    assert!(outcome.text().contains("keyslot 3: good"), "{outcome:#?}");
    check("--key-file key --key-slot 3 volume")
        .run()
        .assert_code(2);
    fails("--key-file key --key-slot 1 volume", "no keyslot 1");
    fails(
        "--key-file key --pbkdf-iterations-limit 1233 --key-slot 0 volume",
        "1234 iterations",
    );

    let volume = fs::read(folder.join("volume")).unwrap();
    let mut damaged = volume.clone();
    damaged[208 + 47] ^= 1;
    folder.write("damaged", &damaged);
    for command in ["check", "dump", "dump --json"] {
        luxor(command)
            .arg(folder.join("damaged"))
            .fails(1, "keyslot 0: it has 4001 stripes");
    }
    luxor("decrypt --key-file key damaged none")
        .current_dir(folder.path())
        .fails(1, "stripes");
    assert!(!folder.join("none").exists());

    folder.write("cut", &volume[..volume.len() - 1]);
    fails("cut", "cut off");
    folder.write("cut", &volume[..2 << 20]);
    fails("cut", "cut off");
    folder.write("cut", &volume[..500]);
    fails("cut", "cut off");
}

/// A pipe yields the same as a file, in whole sectors: LUKS1 does not keep the length of a file.
#[test]
fn pipes_are_read() {
    let folder = prepared();
    let volume = fs::read(folder.join("volume")).unwrap();
    let piped = |line: &str| {
        luxor(line)
            .current_dir(folder.path())
            .stdin(volume.clone())
            .ok()
    };
    luxor("decrypt --key-file key volume back")
        .current_dir(folder.path())
        .ok();
    let back = fs::read(folder.join("back")).unwrap();
    assert_eq!(back.len(), 1 << 20);
    assert_eq!(piped("decrypt --key-file key - -").stdout, back);
    let file = luxor("dump --json volume").current_dir(folder.path()).ok();
    assert_eq!(piped("dump --json -").stdout, file.stdout);
}

#[test]
fn a_detached_header_needs_its_data() {
    let folder = prepared();
    folder.write("data", vec![7; 4096]);
    cryptsetup(
        folder.path(),
        "luksFormat --batch-mode --type luks1 --pbkdf-force-iterations 1000 --key-file key \
         --header header data",
    );
    let run = |line: &str| luxor(line).current_dir(folder.path());
    run("decrypt --key-file key header back").fails(1, "detached header");
    let outcome = run("check --key-file key --header header data").ok();
    assert!(outcome.text().contains("4096 bytes"), "{outcome:#?}");
    let outcome = run("check --key-file key header").ok();
    assert!(outcome.text().contains("detached"), "{outcome:#?}");
    run("decrypt --key-file key --header header data back").ok();
    assert_eq!(fs::read(folder.join("back")).unwrap().len(), 4096);
    let outcome = run("dump --header header data").ok();
    assert!(outcome.text().contains("byte 0"), "{outcome:#?}");
}

/// A key for AES-192, which cryptsetup makes and this version does not support.
#[test]
fn a_key_of_192_bits_is_shown_and_not_used() {
    let folder = prepared();
    cryptsetup(
        folder.path(),
        "luksFormat --batch-mode --type luks1 --pbkdf-force-iterations 1000 --key-file key \
         --cipher aes-cbc-essiv:sha256 --key-size 192 volume",
    );
    luxor("decrypt --key-file key volume back")
        .current_dir(folder.path())
        .fails(1, "24 bytes, not 16 or 32");
    let outcome = luxor("dump volume").current_dir(folder.path()).ok();
    assert!(outcome.text().contains("192 bits"), "{outcome:#?}");
}

/// A folder with a key and a file that consists of whole sectors.
fn with_plain() -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", vec![0x5a; 7 * 512]);
    folder
}

const ENCRYPT: &str = "encrypt --type luks1 --pbkdf-force-iterations 1000 --key-file key";

#[test]
fn an_encrypted_file_decrypts_to_the_original() {
    let folder = with_plain();
    let run = |line: &str| luxor(line).current_dir(folder.path());
    run(&format!("{ENCRYPT} plain volume")).ok();
    let volume = fs::read(folder.join("volume")).unwrap();
    assert_eq!(volume.len(), (2 << 20) + 7 * 512);
    run("decrypt --key-file key volume back").ok();
    let plain = fs::read(folder.join("plain")).unwrap();
    assert_eq!(fs::read(folder.join("back")).unwrap(), plain);
    let outcome = run("check --key-file key volume").ok();
    assert!(outcome.text().contains("3584 bytes"), "{outcome:#?}");

    run(&format!(
        "{ENCRYPT} --hash ripemd160 --header header plain data"
    ))
    .ok();
    assert_eq!(fs::read(folder.join("data")).unwrap().len(), 7 * 512);
    run("decrypt --key-file key --header header data again").ok();
    assert_eq!(fs::read(folder.join("again")).unwrap(), plain);
    let outcome = run("dump header").ok();
    assert!(outcome.text().contains("ripemd160, 1000"), "{outcome:#?}");

    // Through pipes: the length must be known if the output is a pipe, and must be whole sectors if
    // the input is.
    let outcome = run(&format!("{ENCRYPT} plain -")).ok();
    let back = run("decrypt --key-file key - -").stdin(outcome.stdout).ok();
    assert_eq!(back.stdout, plain);
    run(&format!("{ENCRYPT} - piped")).stdin(plain.clone()).ok();
    run("decrypt --key-file key piped from-pipe").ok();
    assert_eq!(fs::read(folder.join("from-pipe")).unwrap(), plain);
}

#[test]
fn inputs_that_luks1_cannot_represent_are_refused() {
    let folder = with_plain();
    let run = |line: &str| luxor(line).current_dir(folder.path());
    for len in [0, 1, 511, 513, 7 * 512 - 1] {
        folder.write("odd", vec![0; len]);
        let words = format!("{len} bytes: LUKS1");
        let outcome = run(&format!("{ENCRYPT} odd volume")).fails(1, &words);
        assert!(outcome.stderr.contains("luks2"), "{outcome:#?}");
        run(&format!("{ENCRYPT} - volume"))
            .stdin(vec![0; len])
            .fails(1, &words);
        assert!(!folder.join("volume").exists());
    }
    for (option, words) in [
        ("--sector-size 4096", "LUKS1's is 512"),
        ("--label name", "LUKS1 does not have"),
        ("--pbkdf argon2id", "pbkdf2"),
        ("--key-size 128", "--key-size is 128"),
    ] {
        run(&format!("{ENCRYPT} {option} plain volume")).fails(1, words);
        assert!(!folder.join("volume").exists());
    }
    let outcome = run(&format!("{ENCRYPT} --hash md5 plain volume")).run();
    outcome.assert_code(1);
    run(&format!(
        "{ENCRYPT} --sector-size 512 --pbkdf pbkdf2 plain volume"
    ))
    .ok();
}
