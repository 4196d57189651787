// SPDX-License-Identifier: MIT OR Apache-2.0
//! `token` and `config`, and the commands with which scripts identify a volume.

use std::{
    ffi::OsStr,
    fs,
    io::Write,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{
    keys::prepared,
    support::{FAST, Folder, Outcome, luxor, shell_without_terminal, terminal, tool},
};

const TOKEN: &str =
    r#"{"type":"some/thing","keyslots":["0"],"x":{"b":[1,2.50,1e3,null],"a":"é/"}}"#;

fn run(folder: &Folder, line: &str) -> Outcome {
    let outcome = luxor(line).current_dir(folder.path()).run();
    outcome.assert_code(0);
    outcome
}

fn metadata(folder: &Folder) -> Value {
    serde_json::from_slice(&run(folder, "dump --json volume").stdout).unwrap()
}

/// A token as `clevis luks bind` makes it, and one of another program.
#[test]
fn a_volume_with_tokens_only_names_the_command_for_its_secret() {
    let folder = prepared();
    let add = |kind: &str, keyslot: u32| {
        let json = format!(r#"{{"type":"{kind}","keyslots":["{keyslot}"],"jwe":{{}}}}"#);
        let add = ["token", "import", "volume"];
        let mut cryptsetup = Command::new("cryptsetup");
        cryptsetup
            .args(add)
            .current_dir(folder.path())
            .stdin(Stdio::piped());
        let mut child = cryptsetup.spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(json.as_bytes())
            .unwrap();
        assert!(child.wait().unwrap().success());
    };
    let line = "clevis luks pass -d volume -s 0 | luxor … --passphrase-fd 0";
    let commands = [
        "decrypt volume out",
        "serve --socket socket volume",
        "mount volume .empty",
        "check --passphrase volume",
        "serve --reencrypt --socket socket volume",
        "dump --volume-key --batch-mode volume",
        "key test volume",
        "key add --new-key-file other volume",
        "key change --new-key-file other volume",
        "key convert volume",
        "key remove --last volume",
        "reencrypt volume",
        "reencrypt --key-slot 0 volume",
        "reencrypt --decrypt --header header volume",
    ];
    fs::create_dir(folder.join(".empty")).unwrap();
    for is_bound in [false, true] {
        if is_bound {
            add("clevis", 0);
        }
        for command in commands {
            let command = format!("\"$luxor\" {command}");
            let outcome = shell_without_terminal(&command, folder.path());
            outcome.assert_code(1);
            assert_eq!(outcome.stderr.contains(line), is_bound, "{outcome:?}");
            let said = outcome.stderr.contains("there is no terminal");
            assert_eq!(said, !is_bound, "{outcome:?}");
        }
    }
    // Other programs cannot read what came through a pipe.
    let outcome = shell_without_terminal("cat volume | \"$luxor\" decrypt - out", folder.path());
    outcome.assert_code(1);
    for words in ["clevis luks pass -d DEVICE -s 0 |", "cannot read a pipe"] {
        assert!(outcome.stderr.contains(words), "{outcome:?}");
    }
    // The terminal shows it before the prompt, which still takes the secret.
    let (code, screen) = terminal("decrypt volume out", &["one\n"], folder.path());
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains(line), "{screen}");
    assert_eq!(fs::read(folder.join("out")).unwrap(), b"plain");
    // A secret that is given needs no advice.
    let outcome = run(&folder, "check --key-file key volume");
    assert!(!outcome.stderr.contains("clevis"), "{outcome:?}");

    // A second keyslot with a token of another program.
    luxor("key add --key-file key --new-key-file other volume")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    let refused = |line: &str| {
        let line = format!("\"$luxor\" {line}");
        shell_without_terminal(&line, folder.path()).stderr
    };
    // It has no token yet, so its secret may be known.
    assert!(refused("decrypt volume other-out").contains("there is no terminal"));
    assert!(refused("decrypt --key-slot 0 volume other-out").contains(line));
    add("some-vault", 1);
    let said = refused("decrypt volume other-out");
    assert!(said.contains(line), "{said}");
    let line = "keyslot 1, token 2 (some-vault): cryptsetup luksAddKey --token-id 2 volume";
    assert!(said.contains(line), "{said}");
}

#[test]
fn tokens_are_added_and_removed() {
    let folder = prepared();
    folder.write("token", TOKEN);
    // Token 0 is the one that Luxor added.
    assert_eq!(
        run(&folder, "token list volume").text(),
        "token 0: luxor-file, keyslots none\n"
    );
    run(&folder, "token add --json-file token volume");
    luxor("token add --json-file - --token-id 7 volume")
        .stdin(r#" { "type" : "x", "keyslots" : [ ] } "#)
        .current_dir(folder.path())
        .ok();
    run(&folder, "token add --key-description words volume");
    run(
        &folder,
        "token add --key-description words --unbound volume",
    );
    assert_eq!(
        run(&folder, "token list volume").text(),
        "token 0: luxor-file, keyslots none\n\
         token 1: some/thing, keyslots 0\n\
         token 2: luks2-keyring, keyslots 0\n\
         token 3: luks2-keyring, keyslots none\n\
         token 7: x, keyslots none\n"
    );
    assert_eq!(
        run(&folder, "token list --token-id 7 volume").text(),
        "token 7: x, keyslots none\n"
    );
    // The token is unchanged, character for character.
    let json = run(&folder, "token list --json --token-id 1 volume");
    assert_eq!(json.text(), format!("{TOKEN}\n"));
    run(
        &folder,
        "token list --json --token-id 1 --json-file copy volume",
    );
    let copy = fs::read_to_string(folder.join("copy")).unwrap();
    assert_eq!(copy, format!("{TOKEN}\n"));
    luxor("token list --json --json-file copy volume")
        .current_dir(folder.path())
        .fails(5, "copy exists");
    let all: Value =
        serde_json::from_slice(&run(&folder, "token list --json volume").stdout).unwrap();
    assert_eq!(all, metadata(&folder)["tokens"]);

    run(
        &folder,
        "token add --json-file token --token-id 7 --token-replace --key-slot 0 volume",
    );
    assert_eq!(metadata(&folder)["tokens"]["7"]["type"], "some/thing");
    assert_eq!(
        metadata(&folder)["tokens"]["7"]["keyslots"],
        serde_json::json!(["0"])
    );
    run(&folder, "token remove --token-id 1 volume");
    let tokens = metadata(&folder)["tokens"].clone();
    let mut numbers: Vec<_> = tokens.as_object().unwrap().keys().collect();
    numbers.sort();
    assert_eq!(numbers, ["0", "2", "3", "7"]);
    // The file in the volume is still intact.
    run(&folder, "decrypt --key-file key volume back");
    assert_eq!(fs::read(folder.join("back")).unwrap(), b"plain");
}

/// Without the token the padding would become a part of the file, without a word.
#[test]
fn a_token_that_ends_a_file_is_lost_only_by_force() {
    let folder = prepared();
    folder.write("key", b"one");
    let streamed = luxor("encrypt --key-file key - -").args(FAST);
    let streamed = streamed.current_dir(folder.path()).stdin("plain").ok();
    folder.write("streamed", streamed.stdout);
    folder.write("token", TOKEN);
    folder.write(
        "shorter",
        r#"{"type":"luxor-file","keyslots":[],"length":"3"}"#,
    );
    let replace = "token add --token-id 0 --token-replace";
    for (volume, words) in [
        ("volume", "records that the file in the volume has 5 bytes"),
        (
            "streamed",
            "records that a trailer ends the file in the volume",
        ),
    ] {
        let before = fs::read(folder.join(volume)).unwrap();
        for line in [
            "token remove --token-id 0",
            &format!("{replace} --json-file token"),
            &format!("{replace} --json-file shorter"),
            &format!("{replace} --key-description words"),
        ] {
            let line = format!("{line} {volume}");
            let at = |line: &str| luxor(line).current_dir(folder.path());
            let refused = at(&line).fails(1, words);
            assert!(refused.stderr.contains("add --force"), "{refused:#?}");
            assert!(fs::read(folder.join(volume)).unwrap() == before, "{line}");
            let forced = at(&line).arg("--force").ok();
            assert!(forced.stderr.contains(words), "{forced:#?}");
            assert!(fs::read(folder.join(volume)).unwrap() != before, "{line}");
            folder.write(volume, &before);
        }
        // So is the token of a file that was decrypted in place.
        let tail = r#"{"type":"luxor-tail","keyslots":[],"end":"4096"}"#;
        folder.write("tail", tail);
        run(
            &folder,
            &format!("token add --json-file tail --token-id 9 {volume}"),
        );
        let line = format!("token remove --token-id 9 {volume}");
        let at = luxor(&line).current_dir(folder.path());
        at.fails(1, "records that the decrypted file is to be cut off");
        run(&folder, &format!("{line} --force"));
        // The same end in other words is no loss.
        let same = run(&folder, &format!("token list --json --token-id 0 {volume}"));
        folder.write("same", same.text().replace(":[]", ":[ ]"));
        run(&folder, &format!("{replace} --json-file same {volume}"));
    }
}

/// json-c, and so cryptsetup, reads numbers that `serde_json` refuses.
#[test]
fn a_token_that_serde_json_refuses_does_not_move_the_end() {
    let folder = prepared();
    let member = |length: &str, number: &str| {
        format!(r#"{{"type":"luxor-file","keyslots":[],"length":"{length}","note":{number}}}"#)
    };
    folder.write("same", member("5", "-Infinity"));
    folder.write("shorter", member("3", "1e999"));
    let import = "token import --token-replace --token-id 0 --json-file same volume";
    cryptsetup(&folder, import);
    let line = "token add --token-replace --token-id 0 --json-file shorter volume";
    let add = luxor(line).current_dir(folder.path());
    add.fails(1, "records that the file in the volume has 5 bytes");
    run(&folder, "decrypt --key-file key volume out");
    assert_eq!(fs::read(folder.join("out")).unwrap(), b"plain");
}

fn cryptsetup(folder: &Folder, line: &str) -> Vec<u8> {
    let mut cryptsetup = Command::new("cryptsetup");
    let cryptsetup = cryptsetup.args(line.split(' '));
    let output = cryptsetup.current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    output.stdout
}

/// A token is another program's: its strings and numbers keep their spelling, as through cryptsetup.
#[test]
fn tokens_keep_strings_and_numbers() {
    let folder = prepared();
    let token = |keyslots: &str, number: &str| {
        let begin = format!(r#"{{"type":"t","keyslots":[{keyslots}],"a":[{number},1e400,1.,NaN],"#);
        [
            begin.as_bytes(),
            b"\"\xfek\":\"\xff\xf4\x8f\xbc\x80\xc3\xa9\"}",
        ]
        .concat()
    };
    let line = |token: &[u8]| [token, b"\n"].concat();
    let odd = token("", "1.50");
    folder.write("odd", &odd);
    cryptsetup(&folder, "token import --token-id 3 --json-file odd volume");
    run(&folder, "token add --json-file odd --token-id 4 volume");
    run(
        &folder,
        "token add --json-file odd --token-id 5 --key-slot 0 volume",
    );
    run(&folder, "token add --key-description x --token-id 6 volume");
    run(
        &folder,
        "token add --json-file odd --token-id 6 --token-replace --key-slot 0 volume",
    );
    let assigned = token("\"0\"", "1.50");
    for (number, expected) in [(3, &odd), (4, &odd), (5, &assigned), (6, &assigned)] {
        let of = format!("--token-id {number}");
        let theirs = cryptsetup(&folder, &format!("token export {of} volume"));
        assert_eq!(theirs, *expected, "{number}");
        let ours = run(&folder, &format!("token list --json {of} volume")).stdout;
        assert_eq!(ours, line(expected), "{number}");
        let copy = format!("copy-{number}");
        let to_file = format!("token list --json {of} --json-file {copy} volume");
        run(&folder, &to_file);
        assert_eq!(fs::read(folder.join(copy)).unwrap(), line(expected));
    }
    let all = run(&folder, "token list --json volume").stdout;
    let found = all.windows(assigned.len()).filter(|part| *part == assigned);
    assert_eq!(found.count(), 2);
    let dump = run(&folder, "dump --json volume").stdout;
    let theirs = cryptsetup(&folder, "luksDump --dump-json-metadata volume");
    assert!(dump.trim_ascii_end() == theirs.trim_ascii_end());

    // cryptsetup drops digits beyond 64 bits.
    for keyslots in ["", "\"0\""] {
        let long = token(keyslots, "123456789012345678901234567890");
        folder.write("long", &long);
        let add = "token add --json-file long --token-id 7 --token-replace --key-slot 0 volume";
        let add = if keyslots.is_empty() {
            add.replace("--key-slot 0 ", "")
        } else {
            add.to_owned()
        };
        run(&folder, &add);
        let ours = run(&folder, "token list --json --token-id 7 volume").stdout;
        assert_eq!(ours, line(&long));
    }
}

/// The last of two members counts, in the place of the first.
#[test]
fn tokens_are_read_as_cryptsetup_reads_them() {
    let folder = prepared();
    let token = "/**/{'type':'t','keyslots':[],'a':1,'b':'\\ud83d',\t\"a\":[01,],} and more";
    folder.write("token", token);
    cryptsetup(
        &folder,
        "token import --token-id 3 --json-file token volume",
    );
    run(&folder, "token add --json-file token --token-id 4 volume");
    let add = "token add --json-file token --token-id 5 --key-slot 0 volume";
    run(&folder, add);
    let exported = |number: u32| {
        let token = cryptsetup(&folder, &format!("token export --token-id {number} volume"));
        String::from_utf8(token).unwrap()
    };
    let expected = "{\"type\":\"t\",\"keyslots\":[],\"a\":[1],\"b\":\"\u{fffd}\"}";
    assert_eq!(exported(3), expected);
    assert_eq!(exported(4), expected);
    assert_eq!(exported(5), expected.replace("[]", "[\"0\"]"));

    for (token, words) in [
        (
            "{\"type\":\"t\"",
            "not valid JSON: the text ends too early at line 1",
        ),
        (
            "{\"type\":\"luks2-x\",\"keyslots\":[]}",
            "of the type \"luks2-x\": types that begin with luks2- are reserved",
        ),
        (
            "{\"type\":\"luks2-keyring\",\"keyslots\":[]}",
            "of the type \"luks2-keyring\": it must have the members type, keyslots and key_description",
        ),
    ] {
        folder.write("wrong", token);
        let line = "token add --json-file wrong volume";
        let add = luxor(line).current_dir(folder.path());
        add.fails(1, words);
    }
}

/// What a command does not need is not checked: only the data need to know where a file ends.
#[test]
fn a_file_token_that_is_not_supported_blocks_only_the_data() {
    let folder = prepared();
    folder.write("new", b"three");
    fs::create_dir(folder.join("dir")).unwrap();
    let before = fs::read(folder.join("volume")).unwrap();
    let at = |line: &str| luxor(line).current_dir(folder.path());
    for (member, what) in [
        (
            r#","padding":"trailer-v2""#,
            "padding: it is \"trailer-v2\"",
        ),
        ("", "length is missing"),
        (
            r#","length":"five""#,
            "length must be a text of decimal digits",
        ),
        (r#","length":5"#, "below 2^64, and is 5"),
    ] {
        folder.write("volume", &before);
        let token = format!(r#"{{"type":"luxor-file","keyslots":[]{member}}}"#);
        folder.write("token", &token);
        let import = "token import --token-replace --token-id 0 --json-file token volume";
        cryptsetup(&folder, import);
        let backup = format!("backup-{}", member.len());
        for line in [
            "key list volume",
            "key test --key-file key volume",
            "key add --key-file key --new-key-file other volume",
            "key change --key-file other --new-key-file new volume",
            "key remove --key-file new volume",
            "dump volume",
            "dump --json volume",
            "token list volume",
            "token add --key-description x volume",
            "config --label x volume",
            "check volume",
            "check --key-file key volume",
            &format!("header backup volume {backup}"),
            &format!("header restore --batch-mode volume {backup}"),
            "isLuks volume",
        ] {
            let takes_cost = ["key add", "key change"]
                .iter()
                .any(|name| line.starts_with(name));
            let cost: &[&str] = if takes_cost { &FAST } else { &[] };
            let outcome = at(line).args(cost).ok();
            assert!(!outcome.stderr.contains("damaged"), "{outcome:?}");
        }
        for line in [
            "decrypt --key-file key volume out",
            "decrypt --truncated --key-file key volume out",
            "serve --key-file key --socket socket volume",
            "mount --key-file key volume dir",
            "reencrypt --key-file key volume",
            "reencrypt --decrypt --key-file key --header header volume",
            "resize --size 9 volume",
            "resize --shrink volume",
        ] {
            let unchanged = fs::read(folder.join("volume")).unwrap();
            let refused = at(line).fails(1, "token 0 (luxor-file)");
            assert!(refused.stderr.contains("is not supported"), "{refused:?}");
            assert!(refused.stderr.contains(what), "{refused:?}");
            assert!(
                fs::read(folder.join("volume")).unwrap() == unchanged,
                "{line}"
            );
        }
        let shown = run(&folder, "token list --json --token-id 0 volume");
        assert_eq!(shown.text(), format!("{token}\n"));
        at("token add --json-file token volume").fails(1, "token 2");
        let remove = "token remove --token-id 0 volume";
        at(remove).fails(1, "records that the file in the volume has an end that");
        run(&folder, &format!("{remove} --force"));
        run(&folder, "decrypt --key-file key --force volume whole");
        let whole = fs::read(folder.join("whole")).unwrap();
        assert!(whole.starts_with(b"plain") && whole.len() > 5, "{member}");
    }
}

#[test]
fn tokens_that_cannot_be_are_refused() {
    let folder = prepared();
    let before = fs::read(folder.join("volume")).unwrap();
    let big = format!(
        r#"{{"type":"x","keyslots":[],"x":"{}"}}"#,
        "x".repeat(20_000)
    );
    for (name, text, words) in [
        ("no-json", "{", "JSON"),
        ("array", "[]", ""),
        ("no-type", r#"{"keyslots":[]}"#, "type"),
        ("no-keyslots", r#"{"type":"x"}"#, "keyslots"),
        ("keyslot-9", r#"{"type":"x","keyslots":["9"]}"#, "9"),
        ("big", &big, "room"),
    ] {
        folder.write(name, text);
        luxor("token add --json-file")
            .args([name, "volume"])
            .current_dir(folder.path())
            .fails(1, words);
    }
    for (line, code, words) in [
        ("add --json-file absent volume", 4, "absent"),
        (
            "add --key-description x --key-slot 5 volume",
            1,
            "no keyslot 5",
        ),
        ("add --key-description x --token-id 0 volume", 1, "token 0"),
        ("add --key-description x --token-id 32 volume", 1, "32"),
        ("remove --token-id 1 volume", 1, "no token 1"),
        ("list --token-id 1 volume", 1, "no token 1"),
        ("list absent", 4, "absent does not exist"),
    ] {
        luxor("token")
            .args(line.split(' '))
            .current_dir(folder.path())
            .fails(code, words);
    }
    for line in [
        "add volume",
        "add --json-file key --key-description x volume",
        "add --key-description x --token-replace volume",
        "remove volume",
        "frob volume",
    ] {
        let command = luxor("token").args(line.split(' '));
        command.current_dir(folder.path()).run().assert_code(1);
    }
    assert!(fs::read(folder.join("volume")).unwrap() == before);
}

#[test]
fn config_sets_names_flags_and_priorities() {
    let folder = prepared();
    run(
        &folder,
        "config --label Fotos --subsystem sub --priority prefer --key-slot 0 \
         --flags no-read-workqueue,allow-discards --uuid 11111111-2222-4333-8444-555555555555 \
         volume",
    );
    let dump = run(&folder, "dump volume");
    for line in [
        "  Label           Fotos",
        "  Subsystem       sub",
        "  UUID            11111111-2222-4333-8444-555555555555",
        "Keyslot 0, tried first",
    ] {
        assert!(
            dump.text().lines().any(|found| found == line),
            "{}",
            dump.text()
        );
    }
    let flags = metadata(&folder)["config"]["flags"].clone();
    assert_eq!(
        flags,
        serde_json::json!(["allow-discards", "no-read-workqueue"])
    );
    let uuid = run(&folder, "luksUUID volume");
    assert_eq!(uuid.text(), "11111111-2222-4333-8444-555555555555\n");

    run(
        &folder,
        "config --label= --flags none --priority ignore --key-slot 0 volume",
    );
    let dump = run(&folder, "dump volume");
    for line in [
        "  Label           none",
        "  Subsystem       sub",
        "  Flags           none",
        "Keyslot 0, used only by number",
    ] {
        assert!(
            dump.text().lines().any(|found| found == line),
            "{}",
            dump.text()
        );
    }
    run(&folder, "key test --key-file key --key-slot 0 volume");
    luxor("key test --key-file key volume")
        .current_dir(folder.path())
        .fails(2, "no keyslot");
}

#[test]
fn settings_that_cannot_be_are_refused_before_any_is_made() {
    let folder = prepared();
    let before = fs::read(folder.join("volume")).unwrap();
    let long = "x".repeat(48);
    for (line, words) in [
        (&*format!("--label {long} volume"), "48 bytes"),
        (
            &format!("--label good --subsystem {long} volume"),
            "--subsystem",
        ),
        ("--label good --uuid 1 volume", "not a UUID"),
        ("--label good --flags fast volume", "allow-discards"),
        ("--label good --flags none,allow-discards volume", "none"),
        ("--priority prefer --key-slot 3 volume", "keyslot 3"),
    ] {
        luxor("config")
            .args(line.split(' '))
            .current_dir(folder.path())
            .fails(1, words);
    }
    for line in [
        "volume",
        "--priority prefer volume",
        "--label x --key-slot 0 volume",
        "--priority best --key-slot 0 volume",
    ] {
        let command = luxor("config").args(line.split(' '));
        command.current_dir(folder.path()).run().assert_code(1);
    }
    assert!(fs::read(folder.join("volume")).unwrap() == before);
}

/// `luxor isLuks $D || luxor luksFormat $D` must not destroy a volume.
#[test]
fn is_luks_accepts_volumes_that_luxor_cannot_open() {
    let folder = prepared();
    for (format, is_xts) in [
        ("-h sha224", true),
        ("-c aes-cbc-essiv:sha256 -s 192", false),
    ] {
        folder.write("luks1", vec![0; 4 << 20]);
        let [volume, key] = ["luks1", "key"].map(|name| folder.join(name));
        let line = format!("luksFormat -q --type luks1 {format} --pbkdf-force-iterations 1000");
        let words = line.split(' ').map(OsStr::new);
        tool("cryptsetup", words.chain([volume.as_ref(), key.as_ref()])).assert_code(0);

        let ask = |line: &str| luxor(line).current_dir(folder.path());
        assert!(ask("isLuks luks1").ok().stderr.is_empty());
        ask("isLuks --type luks1 luks1").ok();
        ask("isLuks --type luks2 luks1").run().assert_code(1);
        let required = ask("isLuks --require-cipher aes-xts-plain64 luks1");
        required.run().assert_code(i32::from(!is_xts));
        ask("dump luks1").ok();
    }

    let mut damaged = fs::read(folder.join("volume")).unwrap();
    damaged[4200] ^= 1;
    damaged[16384 + 4200] ^= 1;
    folder.write("damaged", damaged);
    let outcome = luxor("isLuks damaged").current_dir(folder.path());
    outcome.fails(1, "both copies");
}

#[test]
fn exit_codes_tell_scripts_the_result() {
    let folder = prepared();
    for (line, code) in [
        ("isLuks volume", 0),
        ("isLuks --type luks2 volume", 0),
        ("isLuks --type luks1 volume", 1),
        ("isLuks plain", 1),
        ("isLuks absent", 4),
        ("open --test-passphrase volume --key-file key", 0),
        ("open --test-passphrase volume --key-file other", 2),
        ("open volume name", 1),
        ("luksClose name", 1),
    ] {
        let outcome = luxor(line).current_dir(folder.path()).run();
        outcome.assert_code(code);
        let is_silent = line.starts_with("isLuks") && code < 2;
        assert_eq!(
            outcome.stderr.is_empty(),
            is_silent || code == 0,
            "{outcome:#?}"
        );
    }
}
