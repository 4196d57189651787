// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volumes that are made from a pipe to a pipe: a trailer after the data tells their length.

use std::fs;

use luxor::files::testing::Loop;

use crate::support::{FAST, Folder, Luxor, Outcome, bytes, luxor, shell_without_terminal, tool};

const HEADER: usize = 16 << 20;
const SECTOR: usize = 4096;

fn prepared() -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder
}

fn decrypt(folder: &Folder) -> Luxor {
    luxor("decrypt --key-file key").current_dir(folder.path())
}

/// Encrypts `plain` from a pipe to a pipe.
fn streamed(folder: &Folder, plain: &[u8]) -> Vec<u8> {
    let encrypt = luxor("encrypt --key-file key - -").args(FAST);
    let volume = encrypt.current_dir(folder.path()).stdin(plain).ok();
    assert_eq!(volume.stderr, "");
    volume.stdout
}

#[test]
fn a_pipe_becomes_a_volume_in_a_pipe_and_comes_back() {
    let folder = prepared();
    for len in [0, 1, 4095, 4096, 4097, 1 << 20, 5_000_001] {
        let plain = bytes(len, 2);
        let volume = streamed(&folder, &plain);
        let padded = len.max(1).next_multiple_of(SECTOR);
        assert_eq!(volume.len(), HEADER + padded + SECTOR, "{len}");
        let back = decrypt(&folder).args(["-", "-"]).stdin(volume.clone()).ok();
        assert!(back.stdout == plain, "{len}");
        folder.write("volume", volume);
        decrypt(&folder).args(["--force", "volume", "back"]).ok();
        assert!(fs::read(folder.join("back")).unwrap() == plain, "{len}");
    }
    let dump = luxor("dump volume").current_dir(folder.path()).ok();
    assert!(dump.text().contains("in a trailer"), "{dump:#?}");
    luxor("check --key-file key volume")
        .current_dir(folder.path())
        .ok();
    let open = ["open", "--test-passphrase", "--key-file", "key", "volume"];
    let open = open.map(|word| match word {
        "key" | "volume" => folder.join(word).into_os_string(),
        word => word.into(),
    });
    tool("cryptsetup", open);
}

/// Neither a volume that was cut nor noise behind one becomes a wrong file.
#[test]
fn the_trailer_alone_ends_the_file() {
    let folder = prepared();
    let plain = bytes(50_000, 3);
    let volume = streamed(&folder, &plain);
    for missing in [
        1,
        SECTOR,
        SECTOR + 1,
        3 * SECTOR,
        volume.len() - HEADER - SECTOR,
    ] {
        let cut = &volume[..volume.len() - missing];
        folder.write("cut", cut);
        let words = "has no trailer of its key and UUID after the data: it was cut off";
        decrypt(&folder).args(["cut", "out"]).fails(1, words);
        decrypt(&folder)
            .args(["-", "out"])
            .stdin(cut)
            .fails(1, words);
        assert!(!folder.join("out").exists());
        let left = (cut.len() - HEADER) / SECTOR * SECTOR;
        for input in ["cut", "-"] {
            let saved = decrypt(&folder).args(["--force", "--truncated", input, "out"]);
            saved
                .stdin(cut)
                .fails(1, "the trailer that ends the file is missing");
            let saved = fs::read(folder.join("out")).unwrap();
            assert!(saved.len() == left && saved.starts_with(&plain[..left.min(plain.len())]));
        }
        fs::remove_file(folder.join("out")).unwrap();
    }
    for behind in [1, SECTOR, 100_000] {
        let long = [&volume[..], &bytes(behind, 4)].concat();
        folder.write("long", &long);
        for options in [["long", "-"], ["-", "-"]] {
            let back = decrypt(&folder).args(options).stdin(long.clone()).ok();
            assert!(back.stdout == plain, "{behind}");
        }
        let saved = decrypt(&folder).args(["--truncated", "long", "-"]).ok();
        assert!(saved.stdout == plain, "{behind}");
    }
    // The trailer of a second volume in the place of the first one's.
    let other = streamed(&folder, &plain);
    let end = volume.len() - SECTOR;
    folder.write("mixed", [&volume[..end], &other[end..]].concat());
    decrypt(&folder)
        .args(["mixed", "out"])
        .fails(1, "no trailer");
    // The trailer of a longer file is moved to where it was.
    let moved = [&volume[..end - SECTOR], &volume[end..]].concat();
    folder.write("moved", moved);
    decrypt(&folder)
        .args(["moved", "out"])
        .fails(1, "no trailer");
}

fn at(folder: &Folder, line: &str) -> Luxor {
    luxor(line).current_dir(folder.path())
}

fn reencrypt(folder: &Folder) -> Luxor {
    at(folder, "reencrypt --key-file key --hotzone-size 64K v")
}

fn gives_back(folder: &Folder, plain: &[u8]) {
    decrypt(folder).args(["--force", "v", "out"]).ok();
    assert!(fs::read(folder.join("out")).unwrap() == plain);
    let line = "cryptsetup open --test-passphrase --key-file key v";
    shell_without_terminal(line, folder.path()).assert_code(0);
}

/// The length of `v` without its header.
fn data_len(folder: &Folder) -> usize {
    usize::try_from(fs::metadata(folder.join("v")).unwrap().len()).unwrap() - HEADER
}

/// The command in the message of a failure, as a shell runs it.
fn advice(outcome: &Outcome) -> String {
    let command = outcome.stderr.split('`').nth(1);
    let command = command.unwrap_or_else(|| panic!("no advice: {outcome:#?}"));
    command.replacen("luxor", "\"$luxor\"", 1)
}

/// After a first re-encryption the length is in the token. The trailer, which no key recognises any
/// more, must not become a part of the file.
#[test]
fn a_re_encryption_takes_over_the_length_and_removes_the_trailer() {
    let folder = prepared();
    for (len, sector) in [
        (0, 4096),
        (1, 512),
        (4096, 4096),
        (5_000_001, 4096),
        (100_000, 512),
    ] {
        let plain = bytes(len, 2);
        let line = format!("encrypt --key-file key --sector-size {sector} - -");
        let volume = at(&folder, &line).args(FAST).stdin(plain.clone()).ok();
        folder.write("v", volume.stdout);
        for _ in 0..3 {
            reencrypt(&folder).args(FAST).ok();
            assert_eq!(data_len(&folder), len.max(1).next_multiple_of(sector));
            gives_back(&folder, &plain);
        }
    }
}

/// An interruption before the end may leave the trailer behind the data: the advice then cuts it off.
#[test]
fn the_advice_about_bytes_behind_a_file_keeps_its_length() {
    let folder = prepared();
    let plain = bytes(100_001, 2);
    folder.write("v", streamed(&folder, &plain));
    reencrypt(&folder).args(FAST).ok();
    for behind in [SECTOR, 8 * SECTOR, SECTOR + 1] {
        let mut volume = fs::read(folder.join("v")).unwrap();
        volume.extend(bytes(behind, 5));
        folder.write("v", volume);
        let refused = reencrypt(&folder).args(FAST).fails(1, "other bytes follow");
        shell_without_terminal(&advice(&refused), folder.path()).assert_code(0);
        gives_back(&folder, &plain);
        reencrypt(&folder).args(FAST).ok();
        gives_back(&folder, &plain);
    }
}

#[test]
fn only_a_size_changes_a_recorded_length() {
    let folder = prepared();
    folder.write("plain", bytes(100_001, 2));
    at(&folder, "encrypt --key-file key plain v")
        .args(FAST)
        .ok();
    let length = || {
        let json: serde_json::Value =
            serde_json::from_slice(&at(&folder, "dump --json v").ok().stdout).unwrap();
        json["tokens"]["0"]["length"].as_str().unwrap().to_owned()
    };
    let set_len = |len: usize| {
        let volume = fs::File::options().write(true).open(folder.join("v"));
        volume.unwrap().set_len((HEADER + len) as u64).unwrap();
    };
    let whole = 102_400;
    for more in [0, 512, SECTOR, 1 << 20] {
        set_len(whole + more);
        match more {
            0 => drop(at(&folder, "resize v").ok()),
            _ => drop(at(&folder, "resize v").fails(1, "after the new end")),
        }
        at(&folder, "resize --shrink v").ok();
        assert_eq!((length(), data_len(&folder)), ("100001".into(), whole));
        gives_back(&folder, &bytes(100_001, 2));
    }
    // On a larger device too.
    set_len(whole + (1 << 20));
    let device = Loop::over(&folder.join("v"));
    for options in ["", "--shrink"] {
        at(&folder, &format!("resize {options} {}", device.name())).ok();
        assert_eq!(length(), "100001");
    }
    let refused = format!("reencrypt --key-file key {}", device.name());
    at(&folder, &refused).args(FAST).ok();
    drop(device);
    assert_eq!(length(), "100001");
    gives_back(&folder, &bytes(100_001, 2));
    set_len(whole);
    // What is cut off is lost only by its number.
    set_len(whole - 2 * SECTOR);
    at(&folder, "resize v").fails(1, "--shrink --size 94208");
    at(&folder, "resize --shrink v").fails(1, "--shrink --size 94208");
    assert_eq!(length(), "100001");
    at(&folder, "resize --shrink --size 94208 v").ok();
    gives_back(&folder, &bytes(100_001, 2)[..94_208]);
}

/// Luxor has the old key as long as the re-encryption is under way.
#[test]
fn the_length_survives_a_re_encryption_that_cryptsetup_began() {
    let folder = prepared();
    let plain = bytes(300_001, 2);
    let cryptsetup = "cryptsetup reencrypt --key-file key --batch-mode --force-offline-reencrypt --pbkdf pbkdf2 \
                      --pbkdf-force-iterations 1000 v";
    let shell = |line: &str| shell_without_terminal(line, folder.path());
    let volume = streamed(&folder, &plain);
    let (mut continued, mut is_over) = (0, false);
    // Killed at a sync, of which there are some before and after each zone.
    for sync in [0, 2, 5, 7, 8, 9, 11, 12, 13, 14, 15, 16, 18] {
        let killed = format!(
            "&& strace -f -o /dev/null -e inject=fsync,fdatasync:signal=KILL:when={sync} \
             {cryptsetup} --resume-only --hotzone-size 128K"
        );
        let killed = if sync == 0 { "" } else { &killed };
        let line = format!("{cryptsetup} --init-only {killed}");
        folder.write("v", &volume);
        shell(&line);
        // The old keyslots are destroyed last, and with them the key of the trailer.
        is_over = !at(&folder, "dump v")
            .ok()
            .text()
            .contains("online-reencrypt");
        if !is_over {
            let told = reencrypt(&folder).ok().stderr;
            is_over = told.contains("the trailer that ends the file was not found");
        }
        if is_over {
            decrypt(&folder).args(["v", "gone"]).fails(1, "no trailer");
            break;
        }
        continued += 1;
        assert_eq!(data_len(&folder), 303_104, "{line}");
        gives_back(&folder, &plain);
        reencrypt(&folder).args(FAST).ok();
        gives_back(&folder, &plain);
    }
    assert!(is_over && continued >= 8, "{continued}");

    // A server has the right length from the beginning.
    folder.write("v", &volume);
    shell(&format!("{cryptsetup} --init-only")).assert_code(0);
    let serve = "(until [ -S socket ]; do sleep 0.05; done; nbdinfo --size nbd+unix:///?socket=socket; \
                 kill $(cat pid)) & \"$luxor\" serve --key-file key --reencrypt --reencrypt-rate 1 \
                 --pid-file pid --socket socket v; wait";
    let served = shell(serve);
    assert_eq!(served.text(), "300001\n", "{served:#?}");

    // Without the old key it is not known where the file ends: an error, and never a longer file.
    folder.write("v", &volume);
    shell(cryptsetup).assert_code(0);
    let failed = decrypt(&folder).args(["v", "gone"]).fails(1, "no trailer");
    assert!(
        failed.stderr.contains("another program re-encrypted it"),
        "{failed:#?}"
    );
    assert!(!folder.join("gone").exists());
    let saved = advice(&failed).replace("NEW-FILE", "gone") + " --key-file key";
    let saved = shell(&saved);
    saved.assert_code(1);
    assert!(
        saved
            .stderr
            .contains("the trailer that ends the file is missing"),
        "{saved:#?}"
    );
    assert_eq!(fs::read(folder.join("gone")).unwrap()[..300_001], plain);
}

/// The key of the trailer is made of the volume key and the UUID.
#[test]
fn a_volume_with_a_trailer_keeps_its_uuid() {
    let folder = prepared();
    let plain = bytes(300_001, 2);
    let volume = streamed(&folder, &plain);
    folder.write("v", &volume);
    let old = at(&folder, "luksUUID v").ok().text().trim().to_owned();
    let new = "11111111-2222-4333-8444-555555555555";
    for line in [
        format!("config --uuid {new} v"),
        format!("config --label x --uuid {new} v"),
        format!("luksUUID --uuid {new} -q v"),
    ] {
        let refused =
            at(&folder, &line).fails(1, "a trailer that is valid only with its present UUID");
        assert!(
            refused.stderr.contains("encrypt it again with --uuid"),
            "{refused:#?}"
        );
        assert!(fs::read(folder.join("v")).unwrap() == volume, "{line}");
    }
    let [upper, same] = [old.to_uppercase(), old.clone()];
    for same in [same, upper] {
        at(&folder, &format!("config --uuid {same} v")).ok();
    }
    at(&folder, "config --label x v").ok();
    gives_back(&folder, &plain);

    // cryptsetup knows nothing of the trailer.
    let foreign = format!("cryptsetup luksUUID --uuid {new} -q v");
    shell_without_terminal(&foreign, folder.path()).assert_code(0);
    let begin = reencrypt(&folder).args(FAST).run();
    let failed = decrypt(&folder).args(["v", "gone"]).run();
    let again = |command: String| {
        shell_without_terminal(&command.replace("OLD-UUID", &old), folder.path()).assert_code(0);
    };
    for failed in [failed, begin] {
        failed.assert_code(1);
        assert!(failed.stderr.contains("UUID was changed"), "{failed:#?}");
        shell_without_terminal(&foreign, folder.path()).assert_code(0);
        let mut commands = failed.stderr.split('`').skip(1).step_by(2);
        let command = commands.find(|command| command.contains("--uuid")).unwrap();
        again(
            command
                .replace("VOLUME", "v")
                .replacen("luxor", "\"$luxor\"", 1),
        );
        gives_back(&folder, &plain);
    }
    shell_without_terminal(&foreign, folder.path()).assert_code(0);
    let failed = decrypt(&folder).args(["v", "gone"]).fails(1, "no trailer");
    let saved = advice(&failed).replace("NEW-FILE", "gone") + " --key-file key";
    shell_without_terminal(&saved, folder.path()).assert_code(1);
    assert_eq!(fs::read(folder.join("gone")).unwrap()[..300_001], plain);
}

#[test]
fn luks1_has_no_trailer() {
    let folder = prepared();
    let encrypt = luxor("encrypt --type luks1 --key-file key - -").current_dir(folder.path());
    let words = "LUKS1 cannot store it after them";
    encrypt.stdin(vec![0; 512]).fails(1, words);
}

#[test]
fn memory_is_bounded_in_a_pipe() {
    let folder = prepared();
    let plain = bytes(96 << 20, 5);
    let volume = streamed(&folder, &plain);
    let encrypt = luxor("encrypt --key-file key - -").args(FAST);
    let lines = [
        (encrypt.stdin(plain), "encrypt"),
        (luxor("decrypt --key-file key - -").stdin(volume), "decrypt"),
    ];
    for (line, name) in lines {
        let line = line.current_dir(folder.path());
        let (outcome, peak) = line.run_measured();
        outcome.assert_code(0);
        assert!(peak < 64 << 10, "{name} needed {peak} KiB of memory");
    }
}
