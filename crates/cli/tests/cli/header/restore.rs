// SPDX-License-Identifier: MIT OR Apache-2.0
//! `header restore`.

use std::{
    fs::{self, File},
    iter, thread,
    time::Duration,
};

use super::{VOLUMES, change_key, cryptsetup, prepared, run};
use crate::support::{FAST, answered, bytes, terminal, tool, with_metadata, without_terminal};

#[test]
fn a_restored_header_opens_with_the_old_key_only() {
    let folder = prepared();
    for volume in VOLUMES {
        let before = fs::read(folder.join(volume)).unwrap();
        run(&folder, &format!("header backup {volume} {volume}.backup")).ok();
        change_key(&folder, volume);
        let restore = format!("header restore --batch-mode {volume} {volume}.backup");
        run(&folder, &restore).ok();
        assert!(fs::read(folder.join(volume)).unwrap() == before, "{volume}");
        run(&folder, &format!("check --key-file other {volume}"))
            .run()
            .assert_code(2);
        cryptsetup(
            &folder,
            &format!("open --test-passphrase --key-file key {volume}"),
        );
    }
}

#[test]
fn a_backup_without_keyslots_or_file_length_needs_force() {
    let folder = prepared();
    for volume in VOLUMES {
        fs::copy(folder.join(volume), folder.join("copy")).unwrap();
        cryptsetup(&folder, "luksErase copy");
        run(&folder, "header backup --force copy erased").ok();
        let before = fs::read(folder.join(volume)).unwrap();
        let restore = format!("header restore --batch-mode {volume} erased");
        run(&folder, &restore).fails(1, "no keyslot that opens the data");
        assert!(fs::read(folder.join(volume)).unwrap() == before, "{volume}");
    }
    // One header has a token with the length of the file, the other one has none.
    fs::copy(folder.join("luks2"), folder.join("copy")).unwrap();
    cryptsetup(&folder, "token remove --token-id 0 copy");
    run(&folder, "header backup copy tokenless").ok();
    run(&folder, "header restore --batch-mode luks2 tokenless").fails(1, "no recorded length");
    run(&folder, "decrypt --key-file key luks2 out").ok();
    assert!(fs::read(folder.join("out")).unwrap() == bytes(10_000, 1));
    run(
        &folder,
        "header restore --batch-mode --force luks2 tokenless",
    )
    .ok();
    run(&folder, "header backup luks2 same").ok();
    run(&folder, "header restore --batch-mode luks2 same").ok();
}

#[test]
fn a_backup_for_differently_encrypted_data_needs_force() {
    let folder = prepared();
    let before = fs::read(folder.join("luks2")).unwrap();
    let otherwise = "describes the data differently";
    for (from, to, words) in [
        (r#""iv_tweak":"0""#, r#""iv_tweak":"8""#, otherwise),
        (r#""sector_size":4096"#, r#""sector_size":2048"#, otherwise),
        (
            r#"{"type":"pbkdf2","keyslots""#,
            r#"{"type":"new","keyslots""#,
            "cannot be compared",
        ),
    ] {
        folder.write("backup", with_text(&before, from, to));
        run(&folder, "header restore --batch-mode luks2 backup").fails(1, words);
        assert!(fs::read(folder.join("luks2")).unwrap() == before, "{to}");
    }
}

/// Replaces a text in both copies of the LUKS2 metadata.
fn with_text(volume: &[u8], from: &str, to: &str) -> Vec<u8> {
    with_metadata(volume, |text| {
        assert!(text.contains(from), "{text}");
        text.replace(from, to)
    })
}

/// A digest covers only one of the two copies. The other copy must not bring in another header.
#[test]
fn a_pinned_backup_with_a_replaced_copy_is_refused() {
    let folder = prepared();
    run(&folder, "encrypt --key-file key plain attacker")
        .args(FAST)
        .ok();
    run(&folder, "header backup luks2 backup").ok();
    let digest = run(&folder, "header digest backup").ok().stdout;
    let digest = String::from_utf8(digest).unwrap();
    let mut replaced = fs::read(folder.join("backup")).unwrap();
    let attacker = fs::read(folder.join("attacker")).unwrap();
    replaced[0x4000..0x8000].copy_from_slice(&attacker[0x4000..0x8000]);
    folder.write("replaced", replaced);

    let before = fs::read(folder.join("luks2")).unwrap();
    let restore = format!(
        "header restore --batch-mode --header-digest {} luks2 replaced",
        digest.trim()
    );
    run(&folder, &restore).fails(1, "differ");
    assert!(fs::read(folder.join("luks2")).unwrap() == before);
    let outcome = run(&folder, "check replaced").run();
    outcome.assert_code(1);
    assert!(outcome.stderr.contains("differ"), "{outcome:?}");
}

#[test]
fn a_detached_header_is_the_one_that_is_meant() {
    let folder = prepared();
    run(&folder, "encrypt --key-file key --header head plain data")
        .args(FAST)
        .ok();
    let (head, data) = (folder.join("head"), folder.join("data"));
    let before = (fs::read(&head).unwrap(), fs::read(&data).unwrap());
    run(&folder, "header backup --header head data backup").ok();
    assert!(fs::read(folder.join("backup")).unwrap() == before.0);
    change_key(&folder, "head");
    run(
        &folder,
        "header restore --batch-mode --header head data backup",
    )
    .ok();
    assert!((fs::read(&head).unwrap(), fs::read(&data).unwrap()) == before);
}

#[test]
fn nothing_is_replaced_without_a_yes() {
    let folder = prepared();
    run(&folder, "header backup luks2 backup").ok();
    change_key(&folder, "luks2");
    let changed = fs::read(folder.join("luks2")).unwrap();

    let outcome = without_terminal("header", &["restore", "luks2", "backup"], folder.path());
    outcome.assert_code(1);
    assert!(outcome.stderr.contains("--batch-mode"), "{outcome:#?}");
    for answer in ["yes\n", "\n", "NO\n"] {
        let (code, screen) = terminal("header restore luks2 backup", &[answer], folder.path());
        assert_eq!(code, 1, "{screen}");
        assert!(screen.contains("nothing was done"), "{screen}");
    }
    assert!(fs::read(folder.join("luks2")).unwrap() == changed);

    let (code, screen) = terminal("header restore luks2 backup", &["YES\n"], folder.path());
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("all keyslots"), "{screen}");
    run(&folder, "check --key-file key luks2").ok();
}

/// Only the volume that the question was about may be overwritten.
#[test]
fn a_file_swapped_in_during_the_prompt_is_not_overwritten() {
    let folder = prepared();
    run(&folder, "header backup luks2 backup").ok();
    folder.write("nothing", vec![0; 17 << 20]);
    run(&folder, "encrypt --key-file other plain another")
        .args(FAST)
        .ok();
    let restore = |swap: &dyn Fn()| {
        let answers = iter::once_with(|| {
            swap();
            "YES\n"
        });
        answered(
            "\"$luxor\" header restore luks2 backup",
            answers,
            folder.path(),
        )
    };
    let volume = folder.join("luks2");
    let before = fs::read(&volume).unwrap();
    for other in ["another", "luks1", "nothing"] {
        let (there, away) = (folder.join(other), folder.join("away"));
        let (code, screen) = restore(&|| {
            fs::rename(&volume, &away).unwrap();
            fs::copy(&there, &volume).unwrap();
        });
        assert_eq!(code, 5, "{other}: {screen}");
        assert!(
            screen.contains("has changed since it was checked"),
            "{screen}"
        );
        assert!(
            fs::read(&volume).unwrap() == fs::read(&there).unwrap(),
            "{other}"
        );
        assert!(fs::read(&away).unwrap() == before, "{other}");
        fs::rename(&away, &volume).unwrap();
    }
    let away = folder.join("away");
    let (code, screen) = restore(&|| fs::rename(&volume, &away).unwrap());
    assert_eq!(code, 4, "{screen}");
    assert!(!volume.exists() && fs::read(&away).unwrap() == before);

    // The backup is read once, before the prompt.
    fs::rename(&away, &volume).unwrap();
    let (code, screen) = restore(&|| {
        fs::remove_file(folder.join("backup")).unwrap();
        fs::copy(folder.join("another"), folder.join("backup")).unwrap();
    });
    assert_eq!(code, 0, "{screen}");
    run(&folder, "check --key-file key luks2").ok();
}

#[test]
fn a_backup_that_does_not_fit_needs_force() {
    let folder = prepared();
    run(&folder, "header backup luks2 backup").ok();
    run(
        &folder,
        "encrypt --key-size 256 --key-file other plain short",
    )
    .args(FAST)
    .ok();
    let before = fs::read(folder.join("short")).unwrap();
    let outcome = run(&folder, "header restore --batch-mode short backup").fails(1, "64 bytes");
    assert!(outcome.stderr.contains("--force"), "{outcome:#?}");
    assert!(fs::read(folder.join("short")).unwrap() == before);
    // `--force` does not skip the question.
    let outcome = without_terminal(
        "header",
        &["restore", "--force", "short", "backup"],
        folder.path(),
    );
    outcome.assert_code(1);
    assert!(outcome.stderr.contains("--batch-mode"), "{outcome:#?}");
    assert!(fs::read(folder.join("short")).unwrap() == before);
    run(&folder, "header restore --force --batch-mode short backup").ok();
    run(&folder, "check --key-file key short").ok();

    // Restoring a damaged backup would not improve the header.
    for (len, at, words) in [
        (1 << 20, None, "cut off"),
        (16 << 20, Some(0x5000), "damaged"),
    ] {
        let mut backup = fs::read(folder.join("backup")).unwrap();
        backup.truncate(len);
        if let Some(at) = at {
            backup[at] ^= 1;
        }
        folder.write("damaged", backup);
        run(&folder, "header restore --batch-mode luks2 damaged").fails(1, words);
    }
    run(&folder, "header restore --batch-mode luks2 plain").fails(1, "LUKS");
    run(&folder, "header restore --batch-mode luks2 missing").fails(4, "missing");
    run(&folder, "header restore --batch-mode missing backup").fails(4, "missing");
    run(&folder, "header restore --force backup backup").fails(1, "backup");
    run(&folder, "check --key-file key luks2").ok();
}

/// The message names the UUID and the label of the volume that would be destroyed, or the file
/// system.
#[test]
fn overwriting_another_volume_or_other_data_needs_force() {
    let folder = prepared();
    run(&folder, "header backup luks2 backup").ok();
    run(
        &folder,
        "encrypt --label photographs --key-file other plain another",
    )
    .args(FAST)
    .ok();
    folder.write("same-key", fs::read(folder.join("luks2")).unwrap());
    cryptsetup(
        &folder,
        "luksUUID --uuid 12345678-1234-4321-8765-123456789abc same-key",
    );
    let uuid = tool(
        "cryptsetup",
        ["luksUUID", folder.join("another").to_str().unwrap()],
    );
    folder.write("ext4", vec![0; 20 << 20]);
    tool(
        "mkfs.ext4",
        ["-q", "-F", folder.join("ext4").to_str().unwrap()],
    );
    folder.write("noise", bytes(17 << 20, 7));
    for (target, words) in [
        ("another", uuid.text().trim()),
        ("another", "photographs"),
        ("another", "a different volume key"),
        ("same-key", "12345678-1234-4321-8765-123456789abc"),
        ("ext4", "an ext4 file system (signature at byte 1080)"),
        ("noise", "noise has no LUKS header"),
    ] {
        let before = fs::read(folder.join(target)).unwrap();
        let restore = |options: &str| {
            let line = format!("header restore {options} {target} backup");
            run(&folder, &line)
        };
        let outcome = restore("--batch-mode").fails(1, words);
        assert!(outcome.stderr.contains("--force"), "{outcome:#?}");
        assert!(fs::read(folder.join(target)).unwrap() == before, "{target}");
        let outcome = restore("--batch-mode --force").ok();
        assert!(outcome.stderr.contains(words), "{target}: {outcome:#?}");
        run(&folder, &format!("header digest {target}")).ok();
        folder.write(target, before);
    }
}

/// A file never grows unless it was empty.
#[test]
fn a_target_that_is_too_short_is_refused() {
    let folder = prepared();
    run(&folder, "header backup luks2 backup").ok();
    let volume = fs::read(folder.join("luks2")).unwrap();
    folder.write("ordinary", bytes(3 << 20, 7));
    folder.write("cut", &volume[..3 << 20]);
    for target in ["ordinary", "cut"] {
        let before = fs::read(folder.join(target)).unwrap();
        for options in ["--batch-mode", "--batch-mode --force"] {
            for place in [
                format!("{target} backup"),
                format!("--header {target} x backup"),
            ] {
                let line = format!("header restore {options} {place}");
                run(&folder, &line).fails(1, "3145728 bytes: it needs 16777216");
                assert!(fs::read(folder.join(target)).unwrap() == before, "{line}");
            }
        }
    }
}

#[test]
fn a_lost_header_is_restored() {
    let folder = prepared();
    for volume in VOLUMES {
        let before = fs::read(folder.join(volume)).unwrap();
        run(&folder, &format!("header backup {volume} backup --force")).ok();
        let mut lost = before.clone();
        lost[..0x8000].fill(0);
        folder.write(volume, lost);
        let outcome = without_terminal("header", &["restore", volume, "backup"], folder.path());
        outcome.assert_code(1);
        for words in ["has no LUKS header", "add --force"] {
            assert!(outcome.stderr.contains(words), "{words}: {outcome:#?}");
        }
        run(
            &folder,
            &format!("header restore --batch-mode {volume} backup"),
        )
        .fails(1, "has no LUKS header");
        run(
            &folder,
            &format!("header restore --batch-mode --force {volume} backup"),
        )
        .ok();
        assert!(fs::read(folder.join(volume)).unwrap() == before);
    }
    // The backup is restored to an empty file, as a detached header.
    run(&folder, "header backup luks2 backup --force").ok();
    folder.write("fresh", b"");
    run(&folder, "header restore --batch-mode fresh backup").ok();
    run(&folder, "check --key-file key fresh")
        .run()
        .assert_code(1);
    run(&folder, "decrypt --header fresh --key-file key luks2 out").ok();
}

/// The data lie from the first byte on, and look like a volume whose header is lost.
#[test]
fn a_backup_of_a_detached_header_is_not_written_over_the_data() {
    let folder = prepared();
    folder.write("plain", bytes(20 << 20, 5));
    for kind in ["luks1", "luks2"] {
        let options =
            format!("--type {kind} --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file key");
        for name in ["head", "data"] {
            let _ = fs::remove_file(folder.join(name));
        }
        run(
            &folder,
            &format!("encrypt {options} --header head plain data"),
        )
        .ok();
        run(&folder, "header backup head backup --force").ok();
        let before = fs::read(folder.join("data")).unwrap();
        // The first advice is the one that helps.
        let failed = run(&folder, "check data").fails(1, "not a LUKS volume");
        let place = |words| failed.stderr.find(words).unwrap();
        assert!(
            place("--header FILE") < place("header restore data BACKUP"),
            "{failed:#?}"
        );

        let refused = "the backup is of a detached header";
        let (code, screen) = terminal("header restore data backup", &[], folder.path());
        assert!(code == 1 && screen.contains(refused), "{screen}");
        let failed = run(&folder, "header restore --batch-mode data backup").fails(1, refused);
        assert!(failed.stderr.contains("--header backup"), "{failed:#?}");
        assert!(fs::read(folder.join("data")).unwrap() == before);
        run(
            &folder,
            "decrypt --header backup --key-file key data out --force",
        )
        .ok();
        assert!(fs::read(folder.join("out")).unwrap() == bytes(20 << 20, 5));

        // The file of a detached header that was overwritten has no data.
        let len = fs::metadata(folder.join("head")).unwrap().len();
        folder.write("head", vec![0; usize::try_from(len).unwrap()]);
        let (code, screen) = terminal("header restore head backup", &["YES\n"], folder.path());
        assert_eq!(code, 0, "{screen}");
        run(
            &folder,
            "decrypt --header head --key-file key data out --force",
        )
        .ok();
    }
}

/// Nothing known is in its place, so the user is asked what it was, and needs no `--force`.
#[test]
fn a_terminal_asks_whether_a_file_without_header_was_the_volume() {
    let folder = prepared();
    let before = fs::read(folder.join("luks2")).unwrap();
    let uuid = tool(
        "cryptsetup",
        ["luksUUID".as_ref(), folder.join("luks2").as_os_str()],
    );
    run(&folder, "header backup luks2 backup").ok();
    for noise in [vec![0; 16 << 20], bytes(16 << 20, 3)] {
        let mut lost = before.clone();
        lost[..16 << 20].copy_from_slice(&noise);
        folder.write("luks2", &lost);
        // What is to be done is said where the loss is found.
        for line in ["check", "dump", "header repair", "decrypt --key-file key"] {
            let line = match line {
                "decrypt --key-file key" => format!("{line} luks2 out"),
                _ => format!("{line} luks2"),
            };
            let failed = run(&folder, &line).fails(1, "not a LUKS volume");
            let advice = "If it was a volume, restore its header from a backup: `luxor header restore luks2 BACKUP`";
            assert!(failed.stderr.contains(advice), "{line}: {failed:#?}");
        }
        let line = "header restore luks2 backup";
        let (code, screen) = terminal(line, &["NO\n"], folder.path());
        assert_eq!(code, 1, "{screen}");
        for words in [
            "luks2 has no LUKS header",
            uuid.text().trim(),
            "with 1 keyslot",
            "If luks2 was this volume, the backup makes it readable again",
            "the first 16777216 bytes of luks2 are lost",
        ] {
            assert!(screen.contains(words), "{words}: {screen}");
        }
        for words in ["does not fit", "--force"] {
            assert!(!screen.contains(words), "{words}: {screen}");
        }
        assert!(fs::read(folder.join("luks2")).unwrap() == lost);
        let (code, screen) = terminal(line, &["YES\n"], folder.path());
        assert_eq!(code, 0, "{screen}");
        let restored = format!(
            "the header of luks2 is restored from backup: a LUKS2 volume with the UUID {}, with 1 keyslot",
            uuid.text().trim()
        );
        assert!(screen.contains(&restored), "{screen}");
        assert!(fs::read(folder.join("luks2")).unwrap() == before);
    }
    // Something is there, which only `--force` destroys.
    tool(
        "mkfs.ext4",
        [
            "-q".as_ref(),
            "-F".as_ref(),
            folder.join("luks2").as_os_str(),
        ],
    );
    let (code, screen) = terminal("header restore luks2 backup", &[], folder.path());
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("an ext4 file system"), "{screen}");
    let failed = run(&folder, "check luks2").fails(1, "ext4");
    let advice = "`luxor header restore --force luks2 BACKUP`";
    assert!(failed.stderr.contains(advice), "{failed:#?}");
}

/// The question of an ordinary restore names the backup, and threatens no loss.
#[test]
fn an_ordinary_restore_names_the_backup() {
    let folder = prepared();
    run(&folder, "header backup luks2 backup").ok();
    change_key(&folder, "luks2");
    let (code, screen) = terminal("header restore luks2 backup", &["YES\n"], folder.path());
    assert_eq!(code, 0, "{screen}");
    assert!(
        screen.contains("replaced by those of the backup backup, which is of a LUKS2 volume"),
        "{screen}"
    );
    assert!(!screen.contains("destroy"), "{screen}");
}

/// The command waits for other programs that read or change the metadata, and they wait for it.
#[test]
fn a_header_is_restored_alone() {
    let folder = prepared();
    run(&folder, "header backup luks2 backup").ok();
    let file = File::open(folder.join("luks2")).unwrap();
    for (line, shared) in [
        ("header restore --batch-mode luks2 backup", true),
        ("header backup luks2 other-backup", false),
    ] {
        if shared {
            file.lock_shared().unwrap();
        } else {
            file.lock().unwrap();
        }
        let mut child = run(&folder, line).spawn();
        thread::sleep(Duration::from_millis(300));
        assert_eq!(child.try_wait().unwrap(), None, "{line} did not wait");
        file.unlock().unwrap();
        assert!(child.wait_with_output().unwrap().status.success(), "{line}");
    }
}
