// SPDX-License-Identifier: MIT OR Apache-2.0
//! `reencrypt`: what it refuses or warns of, and leaves as it was.

use std::{
    fs::{self, File},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    reencrypt::{LEN, at, cryptsetup, is_done, json, killed, reencrypt, with},
    support::{FAST, bytes, shell_without_terminal, with_metadata},
};

/// Other data than those it has begun with would be destroyed.
#[test]
fn only_the_same_data_are_continued() {
    let folder = with("--header h --sector-size 512");
    reencrypt(&folder, "--header h --init-only").args(FAST).ok();
    let header = fs::read(folder.join("h")).unwrap();
    let line = |line: &str| at(&folder, &format!("reencrypt --key-file key {line}"));
    line("h").fails(1, "h is a detached header");
    for (options, len, words) in [
        ("", LEN - 512, "and has"),
        ("", 0, "and there are 0 bytes"),
        (
            "--sector-size 4096",
            LEN,
            "it has begun with another sector size",
        ),
    ] {
        folder.write("part", &fs::read(folder.join("v")).unwrap()[..len]);
        line(&format!("--header h {options} part")).fails(1, words);
    }
    assert!(fs::read(folder.join("h")).unwrap() == header);

    // A part of the data is done, and the others are not there.
    let program = line("--header h --hotzone-size 16K v").spawn();
    killed(program, Signal::SIGINT, Duration::from_millis(120));
    let segments = json(&folder, "h")["segments"].clone();
    if let Some(done) = segments["0"]["size"]
        .as_str()
        .and_then(|size| size.parse().ok())
    {
        folder.write("part", &fs::read(folder.join("v")).unwrap()[..done]);
        line("--header h part").fails(1, "are missing");
    }
    if json(&folder, "h").pointer("/config/requirements").is_some() {
        line("--header h v").ok();
    }
    at(&folder, "decrypt --key-file key --header h v out").ok();
    assert!(fs::read(folder.join("out")).unwrap() == bytes(LEN, 3));
}

#[test]
fn the_key_can_stay_and_metadata_must_have_room() {
    let folder = with("--sector-size 512");
    cryptsetup(&folder, "--keep-key --sector-size 4096 --init-only");
    reencrypt(&folder, "--hotzone-size 1M").ok();
    is_done(&folder);
    assert_eq!(json(&folder, "v")["segments"]["0"]["sector_size"], 4096);

    // What follows the data would stop it later.
    let volume = File::options().append(true).open(folder.join("v")).unwrap();
    volume
        .set_len(volume.metadata().unwrap().len() + 100)
        .unwrap();
    let before = fs::read(folder.join("v")).unwrap();
    reencrypt(&folder, "")
        .args(FAST)
        .fails(1, "other bytes follow");
    assert!(fs::read(folder.join("v")).unwrap() == before);
    volume
        .set_len(volume.metadata().unwrap().len() - 100)
        .unwrap();

    // Both programs would fail at the first zone.
    let mut refused = false;
    for words in (8_000..9_700).step_by(100) {
        let token = format!(
            "{{\"type\":\"note\",\"keyslots\":[],\"text\":\"{}\"}}",
            "x".repeat(words)
        );
        folder.write("token", token);
        fs::copy(folder.join("v"), folder.join("w")).unwrap();
        at(&folder, "token add --json-file token w").ok();
        let outcome = at(&folder, "reencrypt --key-file key --init-only w")
            .args(FAST)
            .run();
        if outcome.code == Some(1) {
            assert!(outcome.stderr.contains("there is room for"), "{outcome:#?}");
            refused = true;
            continue;
        }
        outcome.assert_code(0);
        assert!(!refused, "{words}");
        fs::rename(folder.join("w"), folder.join("fullest")).unwrap();
    }
    assert!(refused);
    let line = "cryptsetup reencrypt -q --force-offline-reencrypt --hotzone-size 1M \
                --key-file key fullest";
    shell_without_terminal(line, folder.path()).assert_code(0);
}

/// `--hotzone-size` asks for short zones, and the rest is for the area.
#[test]
fn little_room_for_the_state_is_a_warning() {
    for (size, resilience, words) in [
        ("528K", "checksum", Some("fewer keyslots")),
        ("528K", "checksum --hotzone-size 1M", None),
        ("2M", "journal", Some("Resilience checksum needs less")),
        ("2M", "checksum", None),
        ("16M", "journal", None),
    ] {
        let folder = with(&format!("--luks2-keyslots-size {size}"));
        let options = format!("--resilience {resilience}");
        let output = reencrypt(&folder, &options).args(FAST).ok();
        let said = &output.stderr;
        let warnings: Vec<_> = said.lines().filter(|l| l.contains("warning:")).collect();
        match words {
            Some(words) => {
                assert!(warnings.len() == 1 && warnings[0].contains(words), "{said}");
                assert!(warnings[0].contains("v: the metadata have room"), "{said}");
            }
            None => assert!(warnings.is_empty(), "{size}, {resilience}: {said}"),
        }
        is_done(&folder);
    }
}

#[test]
fn what_cannot_be_re_encrypted_stays_as_it_is() {
    let folder = with("--sector-size 512");
    let before = fs::read(folder.join("v")).unwrap();
    let refused = |options: &str, code: i32, words: &str| {
        let costs = if options.contains("--resume-only") {
            &[][..]
        } else {
            &FAST
        };
        let outcome = reencrypt(&folder, options).args(costs).fails(code, words);
        assert!(fs::read(folder.join("v")).unwrap() == before, "{options}");
        outcome
    };
    folder.write("other", b"wrong");
    refused("--resume-only", 1, "no re-encryption has begun");
    refused("--key-slot 5", 1, "keyslot 5");
    refused("--sector-size 1000", 1, "1000");
    refused("--key-size 128", 1, "256");
    refused("--hotzone-size 256", 1, "must have at least 512 bytes");
    at(&folder, "reencrypt --key-file other v")
        .args(FAST)
        .fails(2, "v");
    at(&folder, "reencrypt --key-file key nothing").fails(4, "nothing");
    at(&folder, "reencrypt --key-file key plain").fails(1, "plain");

    // Data of 12 MiB and 512 bytes have no sectors of 4096.
    File::options()
        .append(true)
        .open(folder.join("plain"))
        .unwrap()
        .set_len(LEN as u64 + 512)
        .unwrap();
    at(
        &folder,
        "encrypt --key-file key --sector-size 512 plain odd",
    )
    .args(FAST)
    .ok();
    at(&folder, "reencrypt --key-file key --sector-size 4096 odd")
        .args(FAST)
        .fails(1, "not a multiple of the new sector size");

    // There is no room for a second keyslot, or none for the state.
    for (area, words) in [
        ("256K", "has no room for"),
        ("504K", "has no room for 4096"),
    ] {
        let small = format!("format --size 1M --luks2-keyslots-size {area} --key-file key {area}");
        at(&folder, &small).args(FAST).ok();
        let line = format!("reencrypt --key-file key {area}");
        at(&folder, &line).args(FAST).fails(1, words);
    }

    at(&folder, "format --type luks1 --size 1M --key-file key one")
        .args(FAST)
        .ok();
    let outcome = at(&folder, "reencrypt --key-file key one").fails(1, "LUKS1");
    assert!(
        outcome.stderr.contains("luxor convert --type luks2"),
        "{outcome:#?}"
    );

    let served = at(&folder, "serve --key-file key --socket s v").spawn();
    while !folder.join("s").exists() {
        thread::yield_now();
    }
    refused("", 5, "v is locked");
    kill(Pid::from_raw(served.id().cast_signed()), Signal::SIGTERM).unwrap();
    served.wait_with_output().unwrap();

    // cryptsetup and Luxor keep each other out.
    let uuid = at(&folder, "uuid v").ok().text().trim().to_owned();
    let lock = format!("/run/cryptsetup/LN_LUKS2-reencryption-{uuid}");
    fs::create_dir_all("/run/cryptsetup").unwrap();
    let holder = File::create(&lock).unwrap();
    holder.lock().unwrap();
    refused("", 5, "another program re-encrypts or reads it");
    drop(holder);
    fs::remove_file(&lock).unwrap();

    reencrypt(&folder, "--init-only").args(FAST).ok();
    let before = fs::read(folder.join("v")).unwrap();
    let again = reencrypt(&folder, "--init-only").args(FAST);
    again.fails(1, "a re-encryption has begun already");
    for (option, what) in [
        ("--sector-size 4096", "sector size"),
        ("--key-size 256", "key length"),
    ] {
        let words = format!("it has begun with another {what}");
        reencrypt(&folder, option).fails(1, &words);
    }
    at(&folder, "reencrypt --key-file other v").fails(2, "v");
    reencrypt(&folder, "--hotzone-size 256").fails(1, "must have at least 512 bytes");
    reencrypt(&folder, "--key-slot 1").fails(1, "the keyslots to keep were chosen then");
    assert!(fs::read(folder.join("v")).unwrap() == before);
}

/// cryptsetup counts IVs from 0 when it continues, and destroys the data of a volume that does not.
#[test]
fn a_first_iv_that_cryptsetup_forgets_is_refused() {
    for (make, begin) in [
        ("", ""),
        ("--header h", "--header h"),
        ("", "--decrypt --header new"),
        ("--header h", "--decrypt --header h"),
    ] {
        let folder = with(make);
        let metadata = folder.join(if make.is_empty() { "v" } else { "h" });
        let changed = with_metadata(&fs::read(&metadata).unwrap(), |text| {
            text.replace(r#""iv_tweak":"0""#, r#""iv_tweak":"8""#)
        });
        fs::write(&metadata, &changed).unwrap();
        let words = "the IVs of its data begin with 8 and not with 0";
        reencrypt(&folder, begin).args(FAST).fails(1, words);
        assert!(fs::read(&metadata).unwrap() == changed, "{make} {begin}");
        assert!(!folder.join("new").exists());
    }
}
