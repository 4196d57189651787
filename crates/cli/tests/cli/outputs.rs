// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outputs appear whole or not at all, and every failure has its exit code and one clear line.

mod devices;
mod foreign;
mod publishing;

use std::{
    fs::{self, File},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::support::{
    FAST, Folder, Luxor, Outcome, as_nobody, bytes, luxor, shell_without_terminal,
};

/// A folder with a key, a plain file and a volume made from it.
fn prepared() -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", bytes(100_000, 1));
    luxor("encrypt --key-file key plain volume")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    folder
}

const PREPARED: [&str; 3] = ["key", "plain", "volume"];

fn encrypt(folder: &Folder) -> Luxor {
    luxor("encrypt --key-file key")
        .args(FAST)
        .current_dir(folder.path())
}

fn decrypt(folder: &Folder) -> Luxor {
    luxor("decrypt --key-file key").current_dir(folder.path())
}

#[test]
fn missing_inputs_and_folders_exit_with_4() {
    let folder = prepared();
    encrypt(&folder)
        .args(["missing", "out"])
        .fails(4, "missing");
    decrypt(&folder)
        .args(["missing", "out"])
        .fails(4, "missing");
    luxor("dump missing")
        .current_dir(folder.path())
        .fails(4, "missing");
    luxor("check missing")
        .current_dir(folder.path())
        .fails(4, "missing");
    decrypt(&folder)
        .args(["--header", "missing", "volume", "out"])
        .fails(4, "missing");
    luxor("raw encrypt --mode ecb --key-file key missing out")
        .current_dir(folder.path())
        .fails(4, "missing");
    encrypt(&folder)
        .args(["plain", "no/such/folder"])
        .fails(4, "no/such");
    assert_eq!(folder.names(), PREPARED);
}

/// Replacing such a file, by whatever name, would make the result unreadable.
#[test]
fn files_needed_to_read_the_result_are_not_replaced() {
    let folder = prepared();
    encrypt(&folder)
        .args(["--header", "header", "plain", "data"])
        .ok();
    for (name, link) in [("key", "key-link"), ("header", "header-link")] {
        symlink(name, folder.join(link)).unwrap();
    }
    fs::hard_link(folder.join("key"), folder.join("key-name")).unwrap();
    let before = fs::read(folder.join("header")).unwrap();
    let names = folder.names();
    for (line, words) in [
        ("decrypt volume key", "key is also the key file"),
        ("decrypt volume ./key", "also the key file"),
        ("decrypt volume key-link", "also the key file"),
        ("decrypt volume key-name", "also the key file"),
        ("decrypt --header header data header", "also the header"),
        (
            "decrypt --header header data header-link",
            "also the header",
        ),
        ("encrypt plain key", "also the key file"),
        ("encrypt --header key plain out", "also the key file"),
        ("encrypt --header ./out plain out", "also the header"),
        ("encrypt --header out plain ./out", "also the header"),
        ("raw encrypt --mode ecb plain key", "also the key file"),
    ] {
        luxor(line)
            .args(["--force", "--key-file", "key"])
            .current_dir(folder.path())
            .fails(1, words);
    }
    luxor("decrypt --force --key-file - volume key")
        .stdin_from(File::open(folder.join("key")).unwrap())
        .current_dir(folder.path())
        .fails(1, "also the key file");
    // The file does not exist yet, and a link leads to it.
    symlink("out", folder.join("out-link")).unwrap();
    encrypt(&folder)
        .args(["--force", "--header", "out-link", "plain", "out"])
        .fails(1, "also the header");
    fs::remove_file(folder.join("out-link")).unwrap();

    assert_eq!(folder.names(), names);
    assert_eq!(fs::read(folder.join("key")).unwrap(), b"correct horse");
    assert!(fs::read(folder.join("header")).unwrap() == before);
}

/// The output is checked before the secret is read: the key file does not exist.
#[test]
fn existing_outputs_exit_with_5_and_stay() {
    let folder = prepared();
    folder.write("old", b"old");
    for (command, input) in [("encrypt", "plain"), ("decrypt", "volume")] {
        luxor(command)
            .args([input, "old"])
            .current_dir(folder.path())
            .fails(5, "old");
    }
    luxor("raw encrypt --mode ecb --key-file missing plain old")
        .current_dir(folder.path())
        .fails(5, "--force");
    symlink("nowhere", folder.join("link")).unwrap();
    encrypt(&folder).args(["plain", "link"]).fails(5, "link");
    assert_eq!(fs::read(folder.join("old")).unwrap(), b"old");
    assert_eq!(folder.names(), ["key", "link", "old", "plain", "volume"]);
}

#[test]
fn force_replaces_and_a_failure_keeps_the_old_file() {
    let folder = prepared();
    folder.write("old", b"old");
    decrypt(&folder)
        .args(["--force", "plain", "old"])
        .fails(1, "plain");
    folder.write("wrong", b"wrong");
    luxor("decrypt --force --key-file wrong volume old")
        .current_dir(folder.path())
        .fails(2, "");
    assert_eq!(fs::read(folder.join("old")).unwrap(), b"old");
    decrypt(&folder).args(["--force", "volume", "old"]).ok();
    assert_eq!(
        fs::read(folder.join("old")).unwrap(),
        fs::read(folder.join("plain")).unwrap()
    );
}

#[test]
fn outputs_are_for_their_owner_only() {
    let folder = prepared();
    decrypt(&folder).args(["volume", "back"]).ok();
    for name in ["volume", "back"] {
        let mode = fs::metadata(folder.join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o600, "{name}");
    }
}

#[test]
fn a_file_is_not_turned_into_itself() {
    let folder = prepared();
    symlink("plain", folder.join("link")).unwrap();
    fs::hard_link(folder.join("plain"), folder.join("twin")).unwrap();
    let before = fs::read(folder.join("plain")).unwrap();
    for output in ["plain", "./plain", "link", "twin"] {
        encrypt(&folder)
            .args(["--force", "plain", output])
            .fails(1, "also the input");
    }
    assert_eq!(fs::read(folder.join("plain")).unwrap(), before);
}

#[test]
fn folders_are_refused() {
    let folder = prepared();
    fs::create_dir(folder.join("folder")).unwrap();
    encrypt(&folder).args(["folder", "out"]).fails(1, "folder");
    encrypt(&folder)
        .args(["plain", "folder", "--force"])
        .run()
        .assert_code(1);
    luxor("dump folder")
        .current_dir(folder.path())
        .fails(1, "folder");
    assert_eq!(folder.names(), ["folder", "key", "plain", "volume"]);
}

#[test]
fn inaccessible_files_are_named() {
    let folder = prepared();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for name in PREPARED {
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o000)).unwrap();
    }
    folder.write("readable", b"correct horse");
    fs::set_permissions(folder.join("readable"), fs::Permissions::from_mode(0o644)).unwrap();
    let dir = folder.path();
    for (line, words) in [
        (
            "\"$luxor\" encrypt --key-file readable plain /tmp/luxor-never",
            "plain: Permission denied",
        ),
        (
            "\"$luxor\" decrypt --key-file readable volume /tmp/luxor-never",
            "volume: Permission denied",
        ),
        (
            "\"$luxor\" encrypt --key-file key readable /tmp/luxor-never",
            "key file key: Permission denied",
        ),
    ] {
        let outcome = as_nobody(line, dir);
        outcome.assert_code(1);
        assert!(
            outcome.stderr.starts_with("luxor: ") && outcome.stderr.contains(words),
            "{outcome:#?}"
        );
        assert_eq!(
            outcome
                .stderr
                .lines()
                .filter(|line| line.starts_with("luxor: "))
                .count(),
            1
        );
    }
    if nix::unistd::geteuid().is_root() {
        let outcome = as_nobody("\"$luxor\" encrypt --key-file readable readable out", dir);
        outcome.assert_code(1);
        assert!(
            outcome.stderr.contains("out") && outcome.stderr.contains("Permission denied"),
            "{outcome:#?}"
        );
    }
    assert!(!Path::new("/tmp/luxor-never").exists());
}

/// Hardening removes a process's access to some of its own files in /proc. Ordinary users must
/// still get their outputs.
#[test]
fn ordinary_users_can_encrypt_and_decrypt() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", b"attack at dawn");
    folder.open_to_everybody();
    let fast = FAST.join(" ");
    let line = format!(
        "\"$luxor\" encrypt {fast} --key-file key plain volume && \"$luxor\" decrypt --key-file key volume back && cmp plain back"
    );
    let outcome = as_nobody(&line, folder.path());
    outcome.assert_code(0);
    assert_eq!(outcome.stderr, "");
}

#[test]
fn a_full_disk_exits_with_1_and_leaves_nothing() {
    let folder = prepared();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for outcome in [
        encrypt(&folder)
            .args(["plain", "-"])
            .stdout_to(full())
            .run(),
        decrypt(&folder)
            .args(["volume", "-"])
            .stdout_to(full())
            .run(),
    ] {
        outcome.assert_code(1);
        assert!(
            outcome.stderr.contains("No space left on device"),
            "{outcome:#?}"
        );
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
    }

    // On a separate file system of 20 MiB, the header fits, but the data do not.
    folder.write("plain", bytes(8 << 20, 1));
    let line = format!(
        "mkdir small && mount -t tmpfs -o size=20m none small || exit 99
        {} encrypt {} --key-file key plain small/volume; code=$?
        test -z \"$(ls -A small)\" || exit 98
        exit $code",
        env!("CARGO_BIN_EXE_luxor"),
        FAST.join(" "),
    );
    let mut unshare = Command::new("unshare");
    if nix::unistd::geteuid().is_root() {
        unshare.arg("--mount")
    } else {
        unshare.args(["--map-root-user", "--mount"])
    };
    let output = unshare
        .args(["sh", "-c", &line])
        .current_dir(folder.path())
        .output();
    let outcome = Outcome::new(line, output.expect("unshare is needed"));
    outcome.assert_code(1);
    assert!(
        outcome.stderr.contains("No space left on device"),
        "{outcome:#?}"
    );
    let needed = (16 << 20) + (8 << 20);
    for words in [
        format!("small/volume will have {needed} bytes, and "),
        format!("small/volume, which needs {needed} bytes: "),
    ] {
        assert!(outcome.stderr.contains(&words), "{outcome:#?}");
    }
    assert_eq!(outcome.stderr.lines().count(), 2, "{outcome:#?}");
}

#[test]
fn a_file_that_grows_is_encrypted_as_it_was() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("log", vec![7; 5000]);
    // The program has opened the log when it waits for its key.
    let line = format!(
        "mkfifo fifo
        \"$luxor\" encrypt {} --key-file fifo log volume & encrypt=$!
        exec 3> fifo; echo more >> log; cat key >&3; exec 3>&-; wait $encrypt",
        FAST.join(" ")
    );
    let outcome = shell_without_terminal(&line, folder.path());
    outcome.assert_code(0);
    let words = "log became longer while it was read: only the 5000 bytes that it had at first";
    assert!(outcome.stderr.contains(words), "{outcome:#?}");
    decrypt(&folder).args(["volume", "back"]).ok();
    assert!(fs::read(folder.join("back")).unwrap() == [7; 5000]);
}

#[test]
fn a_broken_pipe_ends_it_quietly_by_sigpipe() {
    let folder = prepared();
    folder.write("k32", bytes(32, 1));
    let volume = fs::read(folder.join("volume")).unwrap();
    for command in [
        encrypt(&folder).args(["plain", "-"]),
        encrypt(&folder).args(["-", "-"]).stdin(bytes(1 << 20, 1)),
        decrypt(&folder).args(["volume", "-"]),
        decrypt(&folder).args(["volume", "/dev/stdout"]),
        decrypt(&folder).args(["--truncated", "volume", "-"]),
        decrypt(&folder).args(["-q", "-", "-"]).stdin(volume),
        decrypt(&folder).args(["--progress-json", "volume", "-"]),
        luxor("header backup volume -").current_dir(folder.path()),
        luxor(
            "raw encrypt --mode ctr --iv 00000000000000000000000000000000 --key-file k32 plain -",
        )
        .current_dir(folder.path()),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let outcome = command.stdout_to(writer).run();
        // A signal has ended it.
        assert_eq!(outcome.code, None, "{outcome:#?}");
        let messages = outcome.stderr.lines().filter(|line| !line.starts_with('{'));
        assert_eq!(messages.count(), 0, "{outcome:#?}");
    }
}

#[test]
fn a_pipeline_sees_that_its_reader_has_gone() {
    let folder = prepared();
    folder.write("plain", bytes(1 << 20, 1));
    encrypt(&folder).args(["--force", "plain", "volume"]).ok();
    let key = "--key-file key";
    for (line, code) in [
        (
            format!("\"$luxor\" decrypt {key} volume - | head -c 9"),
            141,
        ),
        // Text has no more to say.
        ("\"$luxor\" dump volume | head -1".to_owned(), 0),
        ("\"$luxor\" --help | head -1".to_owned(), 0),
    ] {
        let bash = format!("bash -c 'set -o pipefail; {line}'");
        let outcome = shell_without_terminal(&bash, folder.path());
        outcome.assert_code(code);
        assert_eq!(outcome.stderr, "", "{line}");
    }
    // Another pipe than standard output is named.
    let line = "mkfifo f; true < f & \"$luxor\" decrypt --key-file key volume f";
    let outcome = shell_without_terminal(line, folder.path());
    outcome.assert_code(1);
    assert!(
        outcome.stderr.contains("cannot write f: Broken pipe"),
        "{outcome:#?}"
    );
}

#[test]
fn truncated_volumes_leave_nothing() {
    let folder = prepared();
    let volume = fs::read(folder.join("volume")).unwrap();
    for (len, words) in [
        (0, "volume"),
        (100, "cut off"),
        (4096, "cut off"),
        (1 << 20, ""),
        ((16 << 20) - 1, ""),
        (16 << 20, "cut off"),
        (volume.len() - 1, "cut off"),
        (volume.len() - 4096, ""),
    ] {
        folder.write("cut", &volume[..len]);
        decrypt(&folder).args(["cut", "out"]).fails(1, words);
        decrypt(&folder)
            .args(["-", "out"])
            .stdin(&volume[..len])
            .fails(1, "");
        fs::remove_file(folder.join("cut")).unwrap();
        assert_eq!(folder.names(), PREPARED, "{len}");
    }
}

/// As after a copy to a larger disk, or `truncate`.
#[test]
fn a_volume_may_be_longer_than_its_file() {
    let folder = prepared();
    let volume = fs::read(folder.join("volume")).unwrap();
    let plain = fs::read(folder.join("plain")).unwrap();
    for rest in [1, 511, 4096, 1 << 20] {
        let long = [&volume[..], &bytes(rest, 3)].concat();
        folder.write("long", &long);
        decrypt(&folder).args(["--force", "long", "out"]).ok();
        assert!(fs::read(folder.join("out")).unwrap() == plain, "{rest}");
        let piped = decrypt(&folder).args(["-", "-"]).stdin(long).ok();
        assert!(piped.stdout == plain, "{rest}");
        let check = luxor("check --key-file key long")
            .current_dir(folder.path())
            .ok();
        let words = format!("rest: {rest} bytes after the data");
        assert!(check.text().contains(&words), "{check:#?}");
    }
    let check = luxor("check volume").current_dir(folder.path()).ok();
    assert!(!check.text().contains("rest"), "{check:#?}");
}

#[test]
fn the_rest_of_a_truncated_volume_can_be_saved() {
    let folder = prepared();
    let volume = fs::read(folder.join("volume")).unwrap();
    let plain = fs::read(folder.join("plain")).unwrap();
    let header = 16 << 20;
    let words = "luxor decrypt --truncated";
    for left in [1, 4095, 4096, 4097, 50_000, 98_304, 102_399] {
        folder.write("cut", &volume[..header + left]);
        let outcome = decrypt(&folder).args(["cut", "out"]).fails(1, "cut off");
        let whole = left / 4096 * 4096;
        // Only where there is something to save.
        assert_eq!(outcome.stderr.contains(words), whole > 0, "{outcome:#?}");
        let outputs = [
            decrypt(&folder).args(["--truncated", "cut", "out"]),
            decrypt(&folder)
                .args(["--truncated", "-", "out"])
                .stdin(&volume[..header + left]),
        ];
        for output in outputs {
            if whole == 0 {
                output.fails(1, "ends before the data");
                assert!(!folder.join("out").exists());
                continue;
            }
            let missing = format!("the last {} bytes are missing", 100_000 - whole);
            output.fails(1, &missing);
            assert!(
                fs::read(folder.join("out")).unwrap() == plain[..whole],
                "{left}"
            );
            fs::remove_file(folder.join("out")).unwrap();
        }
    }
    // Nothing is missing.
    for options in [["--truncated", "volume"], ["--truncated", "long"]] {
        folder.write("long", [&volume[..], &[7; 5000]].concat());
        decrypt(&folder).args(options).args(["out", "--force"]).ok();
        assert!(fs::read(folder.join("out")).unwrap() == plain);
    }
    // Without the exact length of a file.
    luxor("format --key-file key --size 1M empty")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    let empty = fs::read(folder.join("empty")).unwrap();
    folder.write("cut", &empty[..header + 10_000]);
    decrypt(&folder).args(["cut", "noise"]).fails(1, words);
    let rest = decrypt(&folder).args(["--truncated", "cut", "noise"]);
    rest.fails(1, "ends within a sector, and more may be missing");
    assert_eq!(fs::metadata(folder.join("noise")).unwrap().len(), 8192);
}

#[test]
fn wrong_secrets_exit_with_2_and_leave_nothing() {
    let folder = prepared();
    luxor("decrypt --passphrase-fd 0 volume out")
        .current_dir(folder.path())
        .stdin("wrong")
        .fails(2, "");
    luxor("check --passphrase-fd 0 volume")
        .current_dir(folder.path())
        .stdin("wrong")
        .run()
        .assert_code(2);
    decrypt(&folder)
        .args(["--key-slot", "7", "volume", "out"])
        .run()
        .assert_code(1);
    assert_eq!(folder.names(), PREPARED);
}

#[test]
fn too_little_memory_for_argon2_exits_with_3() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", b"x");
    luxor("encrypt --key-file key --pbkdf-memory 262144 --pbkdf-force-iterations 4 plain volume")
        .current_dir(folder.path())
        .ok();
    for line in [
        "decrypt --key-file key volume out",
        "check --key-file key volume",
    ] {
        let shell = format!(
            "ulimit -v 200000; exec {} {line}",
            env!("CARGO_BIN_EXE_luxor")
        );
        let output = Command::new("sh")
            .args(["-c", &shell])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let outcome = Outcome::new(shell, output);
        outcome.assert_code(3);
        assert!(outcome.stderr.starts_with("luxor: "), "{outcome:#?}");
        assert!(outcome.stderr.contains("memory"), "{outcome:#?}");
    }
    assert_eq!(folder.names(), ["key", "plain", "volume"]);
}

/// Depending on the system, the engine's threads, Argon2's threads or the buffers fail first.
#[test]
fn too_little_memory_for_threads_or_buffers_does_not_panic() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", b"x");
    let run = |kib: u32, line: &str| {
        let shell = format!(
            "ulimit -v {kib}; exec {} {line}",
            env!("CARGO_BIN_EXE_luxor")
        );
        let output = Command::new("sh")
            .args(["-c", &shell])
            .current_dir(folder.path())
            .output()
            .unwrap();
        Outcome::new(shell, output)
    };
    // What the program itself needs depends on how it was built. With little more than that, any
    // allocation may fail, which aborts a Rust program.
    let least = (10_000..1_000_000)
        .step_by(1000)
        .find(|&kib| run(kib, "--version").code == Some(0));
    let least = least.expect("luxor --version runs in 1 GB");
    for kib in [10_000, 40_000, 80_000, 130_000, 280_000].map(|more| least + more) {
        let line = "encrypt --force --key-file key --iter-time 10 plain volume";
        // At some limits an allocation fails that Rust's runtime makes for a thread. A little above or
        // below, the program's own fail.
        let outcomes = [0, 400, 800].map(|more| run(kib + more, line));
        let ended = outcomes.iter().any(|outcome| {
            matches!(outcome.code, Some(0 | 1 | 3)) && !outcome.stderr.contains("panicked")
        });
        assert!(ended, "{outcomes:#?}");
    }
}

#[test]
fn limits_can_be_lifted() {
    let folder = prepared();
    decrypt(&folder)
        .args(["--pbkdf-iterations-limit", "999", "volume", "out"])
        .fails(1, "--pbkdf-iterations-limit");
    decrypt(&folder)
        .args(["--pbkdf-iterations-limit", "1000", "volume", "out"])
        .ok();
}

/// Reads the FIFO, so that the program can open it for writing.
fn read_fifo(fifo: &Path) -> Child {
    Command::new("cat")
        .arg(fifo)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}
