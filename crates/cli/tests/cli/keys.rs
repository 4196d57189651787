// SPDX-License-Identifier: MIT OR Apache-2.0
//! `key`: what it asks for, in which order, and what it refuses.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use linux_keyutils::{KeyRing, KeyRingIdentifier};
use serde_json::Value;

use crate::support::{
    FAST, Folder, Outcome, as_nobody, bytes, luxor, shell_without_terminal, terminal,
    terminal_shell, tool,
};

/// A folder with a small LUKS2 volume in which the file `key` opens keyslot 0.
pub fn prepared() -> Folder {
    let folder = Folder::new();
    folder.write("key", b"one");
    folder.write("other", b"two");
    folder.write("plain", b"plain");
    luxor("encrypt --key-file key plain volume")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    folder
}

fn add(folder: &Folder, line: &str) -> Outcome {
    luxor("key add volume")
        .args(line.split_whitespace())
        .args(FAST)
        .current_dir(folder.path())
        .ok()
}

/// Returns the number of the keyslot that the key opens, or `None` for a wrong key.
fn opens(folder: &Folder, key: &str) -> Option<u32> {
    let outcome = luxor("key test volume --key-file")
        .arg(key)
        .current_dir(folder.path())
        .run();
    if outcome.code == Some(2) {
        return None;
    }
    outcome.assert_code(0);
    let number = outcome.text().strip_prefix("keyslot ").unwrap();
    Some(number.strip_suffix(" opens\n").unwrap().parse().unwrap())
}

fn metadata(folder: &Folder) -> Value {
    let outcome = luxor("dump --json volume").current_dir(folder.path()).ok();
    serde_json::from_slice(&outcome.stdout).unwrap()
}

fn keyslots(folder: &Folder) -> Vec<String> {
    let metadata = metadata(folder);
    let keyslots = metadata["keyslots"].as_object().unwrap();
    keyslots.keys().cloned().collect()
}

#[test]
fn keys_are_added_changed_and_removed() {
    let folder = prepared();
    assert_eq!(opens(&folder, "key"), Some(0));
    assert_eq!(opens(&folder, "other"), None);
    add(&folder, "--key-file key --new-key-file other");
    assert_eq!(opens(&folder, "other"), Some(1));
    folder.write("third", b"three");
    add(
        &folder,
        "--key-file other --new-key-file third --new-key-slot 9",
    );
    assert_eq!(opens(&folder, "third"), Some(9));

    luxor("key change --key-file key --new-key-file changed volume")
        .args(FAST)
        .current_dir({
            folder.write("changed", b"four");
            folder.path()
        })
        .ok();
    assert_eq!(opens(&folder, "key"), None);
    assert_eq!(opens(&folder, "changed"), Some(0));

    luxor("key remove --key-file other volume")
        .current_dir(folder.path())
        .ok();
    assert_eq!(opens(&folder, "other"), None);
    assert_eq!(keyslots(&folder), ["0", "9"]);
    luxor("decrypt --key-file third volume back")
        .current_dir(folder.path())
        .ok();
    assert_eq!(fs::read(folder.join("back")).unwrap(), b"plain");
}

#[test]
fn convert_changes_the_derivation_and_not_the_key() {
    let folder = prepared();
    luxor("key convert --key-file key --pbkdf argon2i --pbkdf-force-iterations 4")
        .args("--pbkdf-memory 32 --pbkdf-parallel 1 volume".split(' '))
        .current_dir(folder.path())
        .ok();
    let kdf = &metadata(&folder)["keyslots"]["0"]["kdf"];
    assert_eq!(
        (&kdf["type"], &kdf["memory"]),
        (&"argon2i".into(), &32.into())
    );
    assert_eq!(opens(&folder, "key"), Some(0));
    // Options that are not given have the defaults of a new volume.
    luxor("key convert --key-file key --iter-time 1 --pbkdf-memory 32 volume")
        .current_dir(folder.path())
        .ok();
    assert_eq!(
        metadata(&folder)["keyslots"]["0"]["kdf"]["type"],
        "argon2id"
    );
    luxor("key convert --key-file key --pbkdf pbkdf2 --pbkdf-memory 32 volume")
        .current_dir(folder.path())
        .fails(1, "pbkdf2");
}

/// All keyslots within the limits are tried, and the message names the others.
#[test]
fn remove_names_the_keyslots_that_were_not_tried() {
    let folder = prepared();
    for (key, iterations) in [("third", "1000"), ("fourth", "2000")] {
        folder.write(key, key);
        luxor("key add --key-file key volume --pbkdf pbkdf2 --new-key-file")
            .args([key, "--pbkdf-force-iterations", iterations])
            .current_dir(folder.path())
            .ok();
    }
    let remove = |key: &str| {
        luxor("key remove --key-slot 0 --pbkdf-iterations-limit 1500 volume --key-file")
            .arg(key)
            .current_dir(folder.path())
    };
    for key in ["other", "fourth"] {
        let outcome = remove(key).run();
        outcome.assert_code(2);
        let words = "(tried keyslot 1); not tried: keyslot 2: ";
        assert!(outcome.stderr.contains(words), "{outcome:#?}");
        assert!(
            outcome.stderr.contains("--pbkdf-iterations-limit 2000"),
            "{outcome:#?}"
        );
    }
    remove("third").ok();
}

#[test]
fn the_last_keyslot_is_removed_only_on_explicit_request() {
    let folder = prepared();
    let before = fs::read(folder.join("volume")).unwrap();
    let last = "keyslot 0 is the last one";
    for line in [
        "--key-file key",
        "--key-file key --key-slot 0",
        "--key-slot 0 --force",
    ] {
        luxor("key remove volume")
            .args(line.split(' '))
            .current_dir(folder.path())
            .fails(1, last);
    }
    // A wrong key is reported as such.
    luxor("key remove volume --key-file other --last --key-slot 0")
        .current_dir(folder.path())
        .fails(2, "no keyslot accepts");
    assert!(fs::read(folder.join("volume")).unwrap() == before);

    luxor("key remove volume --key-file key --last")
        .current_dir(folder.path())
        .ok();
    assert_eq!(keyslots(&folder), [""; 0]);
    luxor("key test --key-file key volume")
        .current_dir(folder.path())
        .fails(2, "no keyslot");
}

#[test]
fn removing_a_keyslot_by_number_needs_another_key() {
    let folder = prepared();
    add(&folder, "--key-file key --new-key-file other");
    add(&folder, "--key-file key --new-key-file key");
    let remove = |line: &str| {
        luxor("key remove volume")
            .args(line.split(' '))
            .current_dir(folder.path())
    };
    remove("--key-slot 7").fails(1, "there is no keyslot 7");
    remove("--key-slot 1 --key-file other").fails(2, "(tried keyslots 0, 2)");
    assert_eq!(keyslots(&folder), ["0", "1", "2"]);
    // The same key in another keyslot is accepted.
    remove("--key-slot 0 --key-file key").ok();
    assert_eq!(keyslots(&folder), ["1", "2"]);
    remove("--key-slot 1 --force").ok();
    assert_eq!(keyslots(&folder), ["2"]);
    assert_eq!(opens(&folder, "key"), Some(2));
    remove("--force --key-file key").run().assert_code(1);
    assert_eq!(keyslots(&folder), ["2"]);
}

#[test]
fn both_secrets_may_be_lines_of_standard_input() {
    let folder = prepared();
    luxor("key add --passphrase-fd 0 --new-passphrase-fd 0 volume")
        .args(FAST)
        .current_dir(folder.path())
        .stdin("one\nzwei und mehr\nnot read")
        .ok();
    folder.write("typed", b"zwei und mehr");
    assert_eq!(opens(&folder, "typed"), Some(1));
    luxor("key change --key-slot 1 --passphrase-fd 0 --new-passphrase-fd 0 volume")
        .args(FAST)
        .current_dir(folder.path())
        .stdin("zwei und mehr\ntwo\n")
        .ok();
    assert_eq!(opens(&folder, "other"), Some(1));
    // One secret comes from a file, the other one from a line of standard input.
    luxor("key add --key-file key --new-passphrase-fd 0 volume")
        .args(FAST)
        .current_dir(folder.path())
        .stdin("three\n")
        .ok();
    luxor("key add --new-key-file - volume")
        .args(FAST)
        .current_dir(folder.path())
        .stdin("one\n")
        .fails(1, "no terminal");
    luxor("key add --new-key-file - --passphrase-fd 0 volume")
        .args(FAST)
        .current_dir(folder.path())
        .stdin("one\n")
        .fails(
            1,
            "standard input cannot be both the passphrase and the new key file",
        );
    luxor("key add --passphrase-fd 0 --new-passphrase-fd 0 volume")
        .args(FAST)
        .current_dir(folder.path())
        .stdin("one\n\n")
        .fails(1, "the passphrase is empty");
    luxor("key add --passphrase-fd 0 --new-passphrase-fd 0 volume")
        .args(FAST)
        .current_dir(folder.path())
        .stdin("one\n")
        .fails(1, "standard input has no passphrase");
    assert_eq!(keyslots(&folder), ["0", "1", "2"]);
}

#[test]
fn a_volume_key_opens_a_volume_in_place_of_a_secret() {
    let folder = prepared();
    let run = |line: &str| luxor(line).args(FAST).current_dir(folder.path());
    let open = |line: &str| luxor(line).current_dir(folder.path());
    open("dump --volume-key --batch-mode --key-file key --volume-key-file vk volume").ok();
    let key = fs::read(folder.join("vk")).unwrap();
    assert_eq!(key.len(), 64);
    let with_secret = open("decrypt --key-file key volume -").ok();
    let decrypted = open("decrypt --volume-key-file vk volume -").ok();
    assert!(decrypted.stdout == with_secret.stdout && !decrypted.stdout.is_empty());
    let check = open("check --volume-key-file vk volume").ok();
    assert!(
        check
            .text()
            .contains("volume key: good (it agrees with digest 0)")
    );
    run("key add --volume-key-file vk --new-key-file other volume").ok();
    assert_eq!(opens(&folder, "other"), Some(1));

    // A new volume with this key.
    folder.write("plain", b"attack at dawn");
    run("encrypt --volume-key-file vk --key-file other plain twin").ok();
    let cryptsetup = [
        "open",
        "--test-passphrase",
        "--volume-key-file",
        "vk",
        "twin",
    ];
    let cryptsetup = cryptsetup.map(|word| match word {
        "vk" | "twin" => folder.join(word).into_os_string(),
        word => word.into(),
    });
    tool("cryptsetup", cryptsetup);
    open("decrypt --key-file other twin twin.plain").ok();
    open("decrypt --volume-key-file vk --force twin twin.plain").ok();
    assert_eq!(
        fs::read(folder.join("twin.plain")).unwrap(),
        b"attack at dawn"
    );
    run("format --size 1M --volume-key-file vk --key-file key empty").ok();
    open("check --volume-key-file vk empty").ok();

    folder.write("wrong", [&key[1..], &[key[0] ^ 1]].concat());
    folder.write("short", &key[..32]);
    folder.write("equal", [&key[..32], &key[..32]].concat());
    for wrong in ["wrong", "short"] {
        open(&format!("decrypt --volume-key-file {wrong} volume out")).fails(2, "volume key");
        open(&format!("check --volume-key-file {wrong} volume"))
            .run()
            .assert_code(2);
    }
    for (line, words) in [
        (
            "decrypt --volume-key-file vk --key-file key volume out",
            "takes the place of",
        ),
        (
            "decrypt --volume-key-file - - out",
            "standard input cannot be both",
        ),
        ("decrypt --volume-key-file missing volume out", "missing"),
        (
            "key test --volume-key-file vk volume",
            "belongs to no keyslot",
        ),
        (
            "key remove --volume-key-file vk volume",
            "belongs to no keyslot",
        ),
        (
            "encrypt --volume-key-file short --key-file key plain out",
            "--key-size 256",
        ),
        (
            "encrypt --volume-key-file equal --key-file key plain out",
            "equal",
        ),
        (
            "encrypt --volume-key-file vk --key-file key plain vk",
            "volume key file",
        ),
        (
            "serve --type plain --volume-key-file vk --key-file key --socket s volume",
            "--type plain",
        ),
        (
            "raw encrypt --mode xts --volume-key-file vk plain out",
            "no option --volume-key-file",
        ),
    ] {
        let outcome = open(line).run();
        assert!(
            matches!(outcome.code, Some(1 | 4 | 5)),
            "{line}: {outcome:#?}"
        );
        assert!(outcome.stderr.contains(words), "{line}: {outcome:#?}");
    }
    run("encrypt --key-size 256 --volume-key-file short --key-file key plain out").ok();
}

#[test]
fn keyslots_are_listed_with_their_costs_and_tokens() {
    let folder = prepared();
    luxor("key add --key-file key --new-key-file other --new-key-slot 3 volume")
        .args(["--pbkdf", "argon2id", "--pbkdf-memory", "64"])
        .args(["--pbkdf-parallel", "1", "--pbkdf-force-iterations", "4"])
        .current_dir(folder.path())
        .ok();
    for line in [
        "config --key-slot 3 --priority ignore volume",
        "token add --key-description disk --key-slot 3 volume",
    ] {
        luxor(line).current_dir(folder.path()).ok();
    }
    let list = luxor("key list volume").current_dir(folder.path()).ok();
    let kdf = "argon2id, 4 iterations, 64 KiB of memory, parallel 1";
    let width = kdf.len();
    let expected = [
        format!("keyslot  {:<width$}  priority  tokens", "key derivation"),
        format!(
            "0        {:<width$}  normal",
            "pbkdf2, sha256, 1000 iterations"
        ),
        format!("3        {kdf}  ignore    1 (luks2-keyring)"),
    ];
    assert_eq!(list.text().lines().collect::<Vec<_>>(), expected);
    luxor("key list key")
        .current_dir(folder.path())
        .fails(1, "not a LUKS volume");
}

/// A key file on standard input uses all of it, so the new secret is asked for on the terminal.
#[test]
fn with_a_key_file_on_standard_input_the_new_key_is_typed() {
    let folder = prepared();
    let before = fs::read(folder.join("volume")).unwrap();
    for action in ["add", "change"] {
        luxor("key")
            .args([action, "--key-file", "-", "volume"])
            .args(FAST)
            .current_dir(folder.path())
            .stdin("one")
            .fails(1, "no terminal");
    }
    assert!(fs::read(folder.join("volume")).unwrap() == before);

    let line = |action: &str| {
        let fast = FAST.join(" ");
        format!("cat key | \"$luxor\" key {action} --key-file - volume {fast}")
    };
    let typed = ["typed\n", "typed\n"];
    let (code, screen) = terminal_shell(&line("add"), &typed, folder.path());
    assert_eq!(code, 0, "{screen}");
    assert_eq!(screen.matches("New passphrase for volume: ").count(), 1);
    folder.write("typed", b"typed");
    assert_eq!(opens(&folder, "typed"), Some(1));
    assert_eq!(opens(&folder, "key"), Some(0));
    let typed = ["changed\n", "changed\n"];
    let (code, screen) = terminal_shell(&line("change"), &typed, folder.path());
    assert_eq!(code, 0, "{screen}");
    folder.write("changed", b"changed");
    assert_eq!(opens(&folder, "changed"), Some(0));
    assert_eq!(opens(&folder, "key"), None);
}

#[test]
fn a_terminal_asks_for_the_old_key_once_and_the_new_one_twice() {
    let folder = prepared();
    let line = format!("key add volume {}", FAST.join(" "));
    let (code, screen) = terminal(
        &line,
        &["wrong\n", "one\n", "new\n", "nex\n", "new\n", "new\n"],
        folder.path(),
    );
    assert_eq!(code, 0, "{screen}");
    assert_eq!(screen.matches("Passphrase for volume: ").count(), 2);
    assert_eq!(screen.matches("New passphrase for volume: ").count(), 2);
    assert!(
        screen.contains("no keyslot accepts this passphrase"),
        "{screen}"
    );
    assert!(screen.contains("the two passphrases differ"), "{screen}");
    assert!(!screen.contains("new\r"), "{screen}");
    folder.write("typed", b"new");
    assert_eq!(opens(&folder, "typed"), Some(1));

    // With a new key file the old passphrase is still asked for, `--tries` times.
    let line = format!(
        "key change --tries 1 --new-key-file other volume {}",
        FAST.join(" ")
    );
    let (code, screen) = terminal(&line, &["wrong\n"], folder.path());
    assert_eq!(code, 2, "{screen}");
    let (code, screen) = terminal(&line, &["one\n"], folder.path());
    assert_eq!(code, 0, "{screen}");
    assert_eq!(opens(&folder, "other"), Some(0));
}

#[test]
fn impossible_changes_fail_before_a_secret_is_read() {
    let folder = prepared();
    // Standard input is empty, so a command that reads it fails with another message.
    for (line, words) in [
        ("add --new-key-slot 0 volume", "keyslot 0 is in use"),
        ("add --new-key-slot 32 volume", "keyslot 32"),
        (
            "add --new-key-slot 0 --new-key-file - volume",
            "keyslot 0 is in use",
        ),
        ("remove --key-slot 5 --if-given volume", "no keyslot 5"),
        ("add --pbkdf pbkdf2 --pbkdf-memory 32 volume", "pbkdf2"),
        ("add --new-key-file absent --key-file key volume", "absent"),
        ("add --new-key-file absent volume", "absent"),
        (
            "add --key-file - --new-key-file - volume",
            "standard input cannot be both",
        ),
        ("add --new-keyfile-size 3 volume", "--new-key-file"),
        (
            "change --new-key-file key --new-keyfile-offset 9 volume",
            "--new-keyfile-offset is 9",
        ),
        ("remove --key-slot 5 volume", "no keyslot 5"),
        ("test plain", "not a LUKS volume"),
        ("add -", "cannot be changed in place"),
    ] {
        luxor("key")
            .args(line.split(' '))
            .current_dir(folder.path())
            .fails(1, words);
    }
    for line in ["add", "change", "remove", "convert", "test"] {
        luxor("key")
            .args([line, "absent"])
            .current_dir(folder.path())
            .fails(4, "absent does not exist");
    }
    for line in [
        "key",
        "key steal volume",
        "key add",
        "key add --pbkdf none volume",
    ] {
        luxor(line).current_dir(folder.path()).run().assert_code(1);
    }
}

#[test]
fn a_read_only_file_fails_before_a_secret_is_read() {
    let folder = prepared();
    folder.open_to_everybody();
    let outcome = as_nobody("\"$luxor\" key add volume < /dev/null", folder.path());
    outcome.assert_code(1);
    assert!(
        outcome.stderr.contains("cannot open volume"),
        "{}",
        outcome.stderr
    );
}

/// Runs util-linux's `flock`. cryptsetup's lock is such a lock.
fn flock(how: &str, path: &Path) -> bool {
    let mut flock = Command::new("flock");
    flock.args([how, "--nonblock"]).arg(path).arg("true");
    flock.status().expect("flock is needed").success()
}

#[test]
fn no_lock_is_held_while_waiting_for_a_secret() {
    // With another UUID it may be another volume.
    let uuid = "--uuid 8d2b0c3e-2e4c-4a57-8f5b-1f0f6a3c9d10";
    for (meanwhile, code, after) in [("--label meanwhile", 0, 2), (uuid, 5, 1)] {
        let folder = prepared();
        let volume = folder.join("volume");
        let fifo = folder.join("fifo");
        tool("mkfifo", [&fifo]);
        let child = Command::new(env!("CARGO_BIN_EXE_luxor"))
            .args(["key", "add", "--new-key-file"])
            .arg(folder.join("other"))
            .arg("--key-file")
            .arg(&fifo)
            .args(FAST)
            .arg(&volume)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The program has read the metadata, and waits for its key.
        let mut secret = File::options().write(true).open(&fifo).unwrap();
        assert!(flock("--exclusive", &volume));
        // Another program changes the metadata in the meantime.
        let config = luxor("config").args(meanwhile.split(' '));
        config.arg(&volume).ok();
        secret.write_all(b"one").unwrap();
        drop(secret);
        let output = child.wait_with_output().unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{meanwhile}: {words}");
        let is_refused = words.contains("another program changed the volume");
        assert_eq!(is_refused, code == 5, "{meanwhile}: {words}");
        assert_eq!(keyslots(&folder).len(), after, "{meanwhile}");
        if code == 0 {
            assert!(
                fs::read(&volume).unwrap()[..4096]
                    .windows(9)
                    .any(|text| text == b"meanwhile")
            );
        }
    }
}

#[test]
fn a_change_waits_for_readers() {
    let folder = prepared();
    let volume = folder.join("volume");
    let mut reader = Command::new("flock")
        .arg("--shared")
        .arg(&volume)
        .args(["sh", "-c", "echo ready; read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("flock is needed");
    std::io::Read::read_exact(reader.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
    // Reading is still possible.
    assert_eq!(opens(&folder, "key"), Some(0));
    let mut change = Command::new(env!("CARGO_BIN_EXE_luxor"))
        .args(["config", "--label", "late"])
        .arg(&volume)
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(300) {
        assert_eq!(change.try_wait().unwrap(), None, "it did not wait");
        thread::sleep(Duration::from_millis(20));
    }
    drop(reader.stdin.take());
    assert!(change.wait().unwrap().success());
    reader.wait().unwrap();
}

#[test]
fn all_keyslots_can_be_full() {
    let folder = prepared();
    for number in 1..32 {
        let outcome = add(&folder, "-v --key-file key --new-key-file other");
        assert!(outcome.stderr.contains(&format!("keyslot {number} added")));
    }
    luxor("key add --key-file key --new-key-file other volume")
        .args(FAST)
        .current_dir(folder.path())
        .fails(1, "all 32 keyslots are in use");
    assert_eq!(keyslots(&folder).len(), 32);
}

/// cryptsetup keeps a key in such a keyslot, for a re-encryption or for another program.
#[test]
fn an_unbound_keyslot_opens_no_data() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("new", b"another secret");
    folder.write("vk", bytes(32, 9));
    luxor("format --size 1M --sector-size 512 --key-file key v")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    let fast = FAST.join(" ");
    for line in [
        "\"$luxor\" key add --unbound --new-key-file new --new-key-slot 4",
        "\"$luxor\" luksAddKey --unbound --key-size 256 --new-key-slot 5 -q v new",
        "\"$luxor\" key add --unbound --volume-key-file vk --new-key-file new",
        "cryptsetup luksAddKey --unbound --key-size 256 -S 6 -q v new",
    ] {
        let volume = if line.contains(" v ") { "" } else { "v" };
        let line = format!("{line} {fast} {volume}");
        shell_without_terminal(&line, folder.path()).assert_code(0);
    }
    let dump = tool(
        "cryptsetup",
        ["luksDump".as_ref(), folder.join("v").as_os_str()],
    );
    for (keyslot, bits) in [(1, 256), (4, 512), (5, 256), (6, 256)] {
        let line = format!("  {keyslot}: luks2 (unbound)\n\tKey:        {bits} bits");
        assert!(dump.text().contains(&line), "{}", dump.text());
    }
    let at = |line: &str| luxor(line).current_dir(folder.path());
    let listed = at("key list v").ok();
    let unbound = listed
        .text()
        .lines()
        .filter(|line| line.contains(", unbound"));
    assert_eq!(unbound.count(), 4, "{}", listed.text());
    let dumped = at("dump v").ok();
    assert_eq!(dumped.text().matches("no data (unbound)").count(), 4);
    // It is the only thing about the volume that LUKS1 cannot store.
    at("convert --batch-mode --type luks1 v").fails(1, "does not decrypt the data");
    // It can be read again, and is the key that was given.
    let line = "cryptsetup luksDump --unbound --volume-key-file out -q -S 1 \
                --key-file new v && cmp out vk";
    shell_without_terminal(line, folder.path()).assert_code(0);
    for (key, code) in [("key", 0), ("new", 2)] {
        let line = format!("key test --key-file {key} v");
        luxor(&line)
            .current_dir(folder.path())
            .run()
            .assert_code(code);
    }
    let remove = luxor("key remove --key-file key --key-slot 1 v").current_dir(folder.path());
    remove.ok();
    let add = |line: &str| luxor(line).args(FAST).current_dir(folder.path());
    add("key add --unbound --key-size 128 --new-key-file new v").fails(1, "256 or 512");
    add("key add --unbound --volume-key-file key --new-key-file new v").fails(1, "has 104 bits");
    for line in [
        "--key-size 256 --key-file key",
        "--token-id 0 --key-file key",
        "--unbound --key-slot 0",
        "--token-only --key-slot 0",
    ] {
        let outcome = add(&format!("key add {line} --new-key-file new v")).run();
        outcome.assert_code(1);
        assert!(outcome.stderr.contains("the argument"), "{outcome:#?}");
    }
    // The digests of the other keys go with the keyslots.
    at("erase --force v").ok();
    let digests = at("dump --json v").ok();
    let digests: Value = serde_json::from_str(digests.text()).unwrap();
    assert_eq!(digests["digests"].as_object().unwrap().len(), 1);
    let line = "cryptsetup luksDump v";
    shell_without_terminal(line, folder.path()).assert_code(0);
}

#[test]
fn a_token_names_a_passphrase_in_the_keyring() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("new", b"another secret");
    luxor("format --size 1M --key-file key v")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    let name = format!("luxor-test-{}", std::process::id());
    let add = |line: &str| {
        let line = format!("{line} --new-key-file new v {}", FAST.join(" "));
        shell_without_terminal(&format!("\"$luxor\" {line}"), folder.path())
    };
    let outcome = add("key add --token-only");
    assert!(outcome.stderr.contains("no such token"), "{outcome:#?}");
    let line = format!("cryptsetup token add --key-description {name} v");
    shell_without_terminal(&line, folder.path()).assert_code(0);
    let outcome = add("key add --token-only");
    outcome.assert_code(1);
    assert!(
        outcome.stderr.contains(&format!(
            "names the key {name} in the keyring: it has no such"
        )),
        "{outcome:#?}"
    );

    let session = KeyRing::from_special_id(KeyRingIdentifier::Session, false).unwrap();
    let key = session.add_key(&name, b"correct horse").unwrap();
    for line in [
        "key add --token-only",
        "luksAddKey --token-only --token-id 0",
    ] {
        add(line).assert_code(0);
    }
    let outcome = add("key add --token-only --token-id 1");
    assert!(outcome.stderr.contains("no such token"), "{outcome:#?}");

    // Of several tokens, any whose passphrase opens a keyslot.
    let wrong = session.add_key(&format!("{name}-wrong"), b"wrong").unwrap();
    for line in [
        format!("token add --key-description {name} --token-id 7 v"),
        format!("token add --key-description {name}-wrong --token-id 0 --token-replace v"),
        format!("token add --key-description {name} --token-id 1 --unbound v"),
    ] {
        let line = format!("cryptsetup {line}");
        shell_without_terminal(&line, folder.path()).assert_code(0);
    }
    add("key add --token-only").assert_code(0);
    // A NUL ends the description, as in cryptsetup.
    let token =
        format!(r#"{{"type":"luks2-keyring","keyslots":["0"],"key_description":"{name}\u0000x"}}"#);
    folder.write("token", token);
    for line in [
        "cryptsetup token import --token-id 9 --json-file token v",
        "cryptsetup open --test-passphrase --token-only --token-id 9 v",
    ] {
        shell_without_terminal(line, folder.path()).assert_code(0);
    }
    add("key add --token-only --token-id 9").assert_code(0);
    let outcome = add("key add --token-only --token-id 0");
    outcome.assert_code(2);
    let outcome = add("key add --token-only --token-id 1");
    assert!(outcome.stderr.contains("no such token"), "{outcome:#?}");
    for key in [key, wrong] {
        key.invalidate().unwrap();
    }
    let test = luxor("key test --key-file new --key-slot 2 v").current_dir(folder.path());
    test.ok();
}

/// The only change of keys that a crash makes fatal is announced, and only if it is about to happen.
#[test]
fn a_keyslot_that_is_overwritten_in_its_place_is_warned_of() {
    let words = "overwritten in its own place, and a crash before that is done loses it";
    for (keyslots, is_warned) in [("256K", true), ("512K", false)] {
        let folder = prepared();
        let run = |line: &str| luxor(line).args(FAST).current_dir(folder.path());
        let make = "encrypt --force --key-file key plain volume --luks2-keyslots-size";
        run(&format!("{make} {keyslots}")).ok();
        let change = "key change --key-file key --new-key-file other volume";
        if is_warned {
            let refused = run(change).fails(1, "cannot be replaced while it exists");
            // There is no other keyslot.
            assert!(
                !refused.stderr.contains("Removing a keyslot"),
                "{refused:#?}"
            );
            run(change)
                .arg("--in-place")
                .fails(1, "cannot be replaced while it exists");
        }
        let outcome = run(change).args(["--in-place", "--last"]).ok();
        assert_eq!(outcome.stderr.contains(words), is_warned, "{outcome:#?}");
        assert_eq!(
            (opens(&folder, "key"), opens(&folder, "other")),
            (None, Some(0))
        );
    }
}
