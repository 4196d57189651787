// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outputs appear whole or not at all, and every failure has its exit code and
//! one clear line.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown, lchown, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use luxor_files::testing::Loop;

use crate::support::{FAST, Folder, Luxor, Outcome, as_nobody, bytes, luxor, tool};

/// A folder with a key, a plain file and its volume.
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
fn missing_inputs_and_folders_are_4() {
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

/// Whatever they are called there: they would be lost, and the result with them.
#[test]
fn what_is_needed_to_read_the_result_is_not_replaced() {
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
        ("decrypt volume key", "key is the key file too"),
        ("decrypt volume ./key", "key file too"),
        ("decrypt volume key-link", "key file too"),
        ("decrypt volume key-name", "key file too"),
        ("decrypt --header header data header", "header too"),
        ("decrypt --header header data header-link", "header too"),
        ("encrypt plain key", "key file too"),
        ("encrypt --header key plain out", "key file too"),
        ("encrypt --header ./out plain out", "header too"),
        ("encrypt --header out plain ./out", "header too"),
        ("raw encrypt --mode ecb plain key", "key file too"),
    ] {
        luxor(line)
            .args(["--force", "--key-file", "key"])
            .current_dir(folder.path())
            .fails(1, words);
    }
    luxor("decrypt --force --key-file - volume key")
        .stdin_from(File::open(folder.join("key")).unwrap())
        .current_dir(folder.path())
        .fails(1, "key file too");
    // Not yet there, and only a link leads to it.
    symlink("out", folder.join("out-link")).unwrap();
    encrypt(&folder)
        .args(["--force", "--header", "out-link", "plain", "out"])
        .fails(1, "header too");
    fs::remove_file(folder.join("out-link")).unwrap();

    assert_eq!(folder.names(), names);
    assert_eq!(fs::read(folder.join("key")).unwrap(), b"correct horse");
    assert!(fs::read(folder.join("header")).unwrap() == before);
}

/// Also before the secret is asked for: there is none here.
#[test]
fn existing_outputs_are_5_and_stay() {
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
            .fails(1, "the input too");
    }
    assert_eq!(fs::read(folder.join("plain")).unwrap(), before);
}

#[test]
fn folders_are_no_files() {
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
fn what_may_not_be_read_or_written_is_named() {
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

/// Hardening takes away a process's access to some of its own files in /proc;
/// ordinary users must get their outputs all the same.
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
fn a_full_disk_is_1_and_leaves_nothing() {
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

    // A file system of 20 MiB of its own: the header fits, the data do not.
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
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
}

#[test]
fn a_reader_that_goes_away_is_1_in_one_line() {
    let folder = prepared();
    for command in [
        encrypt(&folder).args(["plain", "-"]),
        decrypt(&folder).args(["volume", "-"]),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let outcome = command.stdout_to(writer).run();
        outcome.assert_code(1);
        assert!(outcome.stderr.contains("Broken pipe"), "{outcome:#?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
    }
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
    // One sector too many is as wrong.
    folder.write("long", [&volume[..], &[0; 4096]].concat());
    decrypt(&folder).args(["long", "out"]).fails(1, "");
}

#[test]
fn wrong_secrets_are_2_and_leave_nothing() {
    let folder = prepared();
    luxor("decrypt volume out")
        .current_dir(folder.path())
        .stdin("wrong")
        .fails(2, "");
    luxor("check --passphrase volume")
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
fn too_little_memory_for_argon2_is_3() {
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

/// What fails first depends on the system: the engine's threads, Argon2's, or the
/// buffers.
#[test]
fn too_little_memory_for_threads_or_buffers_is_no_panic() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", b"x");
    // Less than that leaves too little for any allocation, which ends a Rust program.
    for kib in [30_000, 60_000, 100_000, 150_000, 300_000] {
        let shell = format!(
            "ulimit -v {kib}; exec {} encrypt --force --key-file key --iter-time 10 plain volume",
            env!("CARGO_BIN_EXE_luxor")
        );
        let output = Command::new("sh")
            .args(["-c", &shell])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let outcome = Outcome::new(shell, output);
        assert!(matches!(outcome.code, Some(0 | 1 | 3)), "{outcome:#?}");
        assert!(!outcome.stderr.contains("panicked"), "{outcome:#?}");
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

#[test]
fn block_devices_are_outputs_and_inputs() {
    assert!(
        nix::unistd::geteuid().is_root(),
        "loop devices and mounts need root: `cargo xtask test` runs the tests with sudo"
    );
    let folder = prepared();
    let plain = bytes(1 << 20, 9);
    folder.write("plain", &plain);
    let image = folder.write("image", vec![0x55; 20 << 20]);
    let device = Loop::over(&image);
    let name = device.name();

    encrypt(&folder).args(["plain", name]).fails(5, "--force");
    assert!(fs::read(&image).unwrap().iter().all(|&byte| byte == 0x55));

    encrypt(&folder).args(["--force", "plain", name]).ok();
    // The rest of the device is not the file's.
    let dump = luxor("dump").arg(name).ok();
    assert!(dump.text().contains("1048576 bytes"), "{}", dump.text());
    decrypt(&folder).args([name, "back"]).ok();
    assert!(fs::read(folder.join("back")).unwrap() == plain);
    tool(
        "cryptsetup",
        [
            "open",
            "--test-passphrase",
            "--key-file",
            folder.join("key").to_str().unwrap(),
            name,
        ],
    );

    // A device as a source.
    let raw = folder.write("raw-image", bytes(3 << 20, 10));
    let source = Loop::over(&raw);
    encrypt(&folder).args([source.name(), "of-device"]).ok();
    decrypt(&folder).args(["of-device", "again"]).ok();
    tool("cmp", [folder.join("again"), raw]);

    // Too small a device.
    let small = Loop::over(&folder.write("small", vec![0x55; 17 << 20]));
    folder.write("large", vec![0; 2 << 20]);
    encrypt(&folder)
        .args(["--force", "large", small.name()])
        .fails(1, "");

    // A mounted one.
    let mounted = Loop::over(&folder.write("ext", vec![0; 20 << 20]));
    tool("mkfs.ext4", ["-q", mounted.name()]);
    fs::create_dir(folder.join("mount")).unwrap();
    tool(
        "mount",
        [mounted.name(), folder.join("mount").to_str().unwrap()],
    );
    let outcome = encrypt(&folder)
        .args(["--force", "plain", mounted.name()])
        .run();
    tool("umount", [folder.join("mount")]);
    outcome.assert_code(5);
}

/// What --force destroys is named before, and so is what is in its way without.
#[test]
fn what_stands_on_a_device_is_named() {
    let folder = prepared();
    let device = Loop::over(&folder.write("disk", vec![0; 20 << 20]));
    let format = format!("format --key-file key {}", device.name());
    let commands = [
        format.clone(),
        format!("encrypt --key-file key plain {}", device.name()),
        format!("decrypt --key-file key volume {}", device.name()),
    ];
    for command in &commands {
        let words = "an ext4 file system (signature at byte 1080)";
        tool("mkfs.ext4", ["-q", "-F", device.name()]);
        let run = |options: &str| {
            let line = format!("{command} {options}");
            luxor(&line)
                .current_dir(folder.path())
                .args(if command.starts_with("decrypt") {
                    &[][..]
                } else {
                    &FAST[..]
                })
        };
        run("").fails(5, words);
        tool("e2fsck", ["-fn", device.name()]);
        let outcome = run("--force").ok();
        assert!(outcome.stderr.contains(words), "{command}: {outcome:#?}");
        assert!(
            outcome.stderr.contains("warning"),
            "{command}: {outcome:#?}"
        );
        tool("mkfs.ext4", ["-q", "-F", device.name()]);
        let outcome = run("--force -q").ok();
        assert!(!outcome.stderr.contains(words), "{command}: {outcome:#?}");
    }
    // Both copies of a header, and nothing where nothing is.
    let run = || luxor(&format).current_dir(folder.path()).args(FAST);
    run().arg("--force").ok();
    let outcome = run().fails(5, "a LUKS volume (signature at byte 0)");
    assert!(
        outcome.stderr.contains("signature at byte 16384"),
        "{outcome:#?}"
    );
    tool("wipefs", ["-qa", device.name()]);
    let outcome = run().fails(5, "is a block device: --force");
    assert!(!outcome.stderr.contains("signature"), "{outcome:#?}");
}

#[test]
fn a_fifo_is_an_input_and_an_output() {
    let folder = prepared();
    tool("mkfifo", [folder.join("fifo")]);
    let child = decrypt(&folder).args(["volume", "fifo"]).spawn();
    let mut out = Vec::new();
    File::open(folder.join("fifo"))
        .unwrap()
        .read_to_end(&mut out)
        .unwrap();
    let outcome = Outcome::new(
        "decrypt volume fifo".into(),
        child.wait_with_output().unwrap(),
    );
    outcome.assert_code(0);
    assert!(out == fs::read(folder.join("plain")).unwrap());

    let child = encrypt(&folder).args(["fifo", "of-fifo"]).spawn();
    let mut fifo = File::options()
        .write(true)
        .open(folder.join("fifo"))
        .unwrap();
    fifo.write_all(b"through a fifo").unwrap();
    drop(fifo);
    Outcome::new("encrypt fifo".into(), child.wait_with_output().unwrap()).assert_code(0);
    let back = decrypt(&folder).args(["of-fifo", "-"]).ok();
    assert_eq!(back.stdout, b"through a fifo");
}

/// The runtime opens `/dev/null` in their place, where output would be lost in silence.
#[test]
fn closed_standard_streams_are_errors() {
    let folder = prepared();
    let run = |line: &str| {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("\"$0\" {line}"), env!("CARGO_BIN_EXE_luxor")])
            .current_dir(folder.path());
        Outcome::new(line.to_owned(), shell.output().unwrap())
    };
    let before = folder.names();
    let decrypt = "decrypt --key-file key volume";
    symlink("/proc/self/fd/1", folder.join("link")).unwrap();
    for (line, words) in [
        (format!("{decrypt} - >&-"), "standard output"),
        (format!("{decrypt} - 1</dev/null"), "standard output"),
        ("dump volume >&-".to_owned(), "standard output"),
        ("dump volume 1</dev/null".to_owned(), "standard output"),
        ("check volume 1</dev/null".to_owned(), "standard output"),
        ("engines --json 1</dev/null".to_owned(), "standard output"),
        ("completions bash 1</dev/null".to_owned(), "standard output"),
        ("--help 1</dev/null".to_owned(), "standard output"),
        (
            format!("{decrypt} new --progress-json >&-"),
            "standard output",
        ),
        (
            "dump volume --volume-key --batch-mode --key-file key >&-".to_owned(),
            "standard output",
        ),
        ("--help >&-".to_owned(), "standard output"),
        (
            "encrypt --key-file key - new <&-".to_owned(),
            "standard input",
        ),
        (
            "encrypt --key-file key - new 0>/dev/null".to_owned(),
            "standard input",
        ),
        ("encrypt plain new <&-".to_owned(), "standard input"),
    ] {
        let outcome = run(&line);
        outcome.assert_code(1);
        for words in [words, "Bad file descriptor"] {
            assert!(outcome.stderr.contains(words), "{line}: {}", outcome.stderr);
        }
    }
    // By whatever name.
    for (line, stream) in [
        (format!("{decrypt} NAME >&-"), 1),
        (format!("{decrypt} NAME 2>&-"), 2),
        ("encrypt --key-file key NAME new <&-".to_owned(), 0),
        ("key test --key-file NAME volume <&-".to_owned(), 0),
    ] {
        for name in [
            "/dev/fd/N",
            "/dev/fd/../fd/N",
            "/proc/self/fd/N",
            "/proc/thread-self/fd/N",
            "link",
        ] {
            if name == "link" {
                fs::remove_file(folder.join("link")).unwrap();
                symlink(format!("/proc/self/fd/{stream}"), folder.join("link")).unwrap();
            }
            let name = name.replace('N', &stream.to_string());
            let outcome = run(&line.replace("NAME", &name));
            outcome.assert_code(1);
            assert!(
                stream == 2 || outcome.stderr.contains("No such device or address"),
                "{outcome:#?}"
            );
        }
    }
    fs::remove_file(folder.join("link")).unwrap();
    for line in [
        "--help > /dev/full",
        "--version > /dev/full",
        "decrypt --help > /dev/full",
    ] {
        let outcome = run(line);
        outcome.assert_code(1);
        assert!(outcome.stderr.contains("No space left"), "{outcome:#?}");
    }
    assert_eq!(folder.names(), before);
    // What is not used may be closed.
    run(&format!("{decrypt} new <&- >&- 2>&-")).assert_code(0);
    assert!(fs::read(folder.join("new")).unwrap() == bytes(100_000, 1));
    run(&format!("{decrypt} - > /dev/null")).assert_code(0);
}

/// With a reader, so that it can be opened for writing.
fn read_fifo(fifo: &Path) -> Child {
    Command::new("cat")
        .arg(fifo)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// A folder in which all users may make files, with the volume beside it.
fn shared() -> (Folder, PathBuf) {
    assert!(
        nix::unistd::geteuid().is_root(),
        "another user's files need root: `cargo xtask test` runs the tests with sudo"
    );
    let folder = prepared();
    let shared = folder.join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    (folder, shared)
}

const NOBODY: u32 = 65534;

#[test]
fn another_users_fifo_gets_nothing() {
    let (folder, shared) = shared();
    let fifo = shared.join("fifo");
    tool("mkfifo", ["--mode=666".as_ref(), fifo.as_os_str()]);
    chown(&fifo, Some(NOBODY), Some(NOBODY)).unwrap();
    folder.write("xts-key", bytes(32, 5));
    for line in [
        "decrypt --key-file key volume shared/fifo",
        "encrypt --key-file key plain shared/fifo",
        "raw --mode xts --key-file xts-key --data-unit 512 encrypt plain shared/fifo",
        "header backup volume shared/fifo",
        "dump --key-file key --batch-mode --volume-key --volume-key-file shared/fifo volume",
    ] {
        // Without a reader: it is refused before it is opened.
        let refused = luxor(line)
            .current_dir(folder.path())
            .fails(5, "another user");
        assert!(refused.stderr.contains("65534"), "{}", refused.stderr);
    }
    let reader = read_fifo(&fifo);
    luxor("decrypt --force --key-file key volume shared/fifo")
        .current_dir(folder.path())
        .ok();
    assert!(reader.wait_with_output().unwrap().stdout == bytes(100_000, 1));
    // That of this user, by whatever name, and standard output whoever it belongs to.
    chown(&fifo, Some(0), Some(0)).unwrap();
    symlink("shared/fifo", folder.join("link")).unwrap();
    let reader = read_fifo(&fifo);
    luxor("decrypt --key-file key volume link")
        .current_dir(folder.path())
        .ok();
    assert!(reader.wait_with_output().unwrap().stdout == bytes(100_000, 1));
    let (mut reader, writer) = std::io::pipe().unwrap();
    let read = thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        all
    });
    luxor("decrypt --key-file key volume /dev/stdout")
        .current_dir(folder.path())
        .stdout_to(writer)
        .run()
        .assert_code(0);
    assert!(read.join().unwrap() == bytes(100_000, 1));
}

/// A program of another user with its standard input and output open, until dropped.
struct Foreign(Child);

impl Foreign {
    /// Its output is a pipe that it has made itself: it puts there what nobody reads.
    fn with_pipe(dir: &Path) -> Self {
        let script = "import os, sys
read, write = os.pipe()
os.dup2(write, 1)
sys.stderr.write('x')
sys.stderr.flush()
sys.stdin.read()
os.set_blocking(read, False)
try: got = os.read(read, 1)
except BlockingIOError: got = b''
sys.exit(len(got))";
        let mut child = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .args(["/usr/bin/python3", "-c", script])
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let ready = child.stderr.as_mut().unwrap();
        ready.read_exact(&mut [0]).unwrap();
        Self(child)
    }

    /// Whether nothing has been written to it.
    fn got_nothing(mut self) -> bool {
        drop(self.0.stdin.take());
        self.0.wait().unwrap().success()
    }
}

/// Links in /proc lead to what other processes have open.
#[test]
fn another_users_open_files_get_nothing() {
    let (folder, shared) = shared();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(&shared, Some(NOBODY), Some(NOBODY)).unwrap();
    let foreign = Foreign::with_pipe(folder.path());
    let pid = foreign.0.id();
    for files in [
        format!("/proc/{pid}/fd"),
        format!("/proc/{pid}/task/{pid}/fd"),
    ] {
        let _ = fs::remove_file(shared.join("link"));
        symlink(format!("{files}/1"), shared.join("link")).unwrap();
        lchown(shared.join("link"), Some(NOBODY), Some(NOBODY)).unwrap();
        let _ = fs::remove_file(shared.join("files"));
        symlink(&files, shared.join("files")).unwrap();
        for output in [
            "shared/link".to_owned(),
            "shared/files/1".to_owned(),
            format!("{files}/1"),
        ] {
            for line in [
                "decrypt --key-file key volume",
                "header backup volume",
                "dump --key-file key --batch-mode --volume-key volume --volume-key-file",
            ] {
                // What fills the pipe waits for a reader.
                Luxor::within(Duration::from_secs(20))
                    .args(line.split(' '))
                    .arg(&output)
                    .current_dir(folder.path())
                    .fails(5, "FIFO of another user (uid 65534)");
            }
        }
    }
    assert!(foreign.got_nothing());
}

/// By whatever name, and whoever it belongs to: the caller has given it.
#[test]
fn an_inherited_pipe_of_another_user_is_written_to() {
    let (folder, shared) = shared();
    let fifo = shared.join("fifo");
    tool("mkfifo", ["--mode=666".as_ref(), fifo.as_os_str()]);
    chown(&fifo, Some(NOBODY), Some(NOBODY)).unwrap();
    for output in [
        "/dev/stdout",
        "/dev/fd/1",
        "/proc/self/fd/1",
        "/proc/thread-self/fd/1",
        "/dev/fd/../fd/1",
    ] {
        let reader = read_fifo(&fifo);
        luxor("decrypt --key-file key volume")
            .arg(output)
            .current_dir(folder.path())
            .stdout_to(File::options().write(true).open(&fifo).unwrap())
            .run()
            .assert_code(0);
        let read = reader.wait_with_output().unwrap().stdout;
        assert!(read == bytes(100_000, 1), "{output}");
    }
}

/// As `another_users_fifo_gets_nothing`, with what is not a FIFO.
#[test]
fn another_users_socket_or_device_gets_nothing() {
    let (folder, shared) = shared();
    let _socket = UnixListener::bind(shared.join("socket")).unwrap();
    let device = Loop::over(&folder.write("image", vec![0x55; 20 << 20]));
    let numbers = fs::metadata(device.name()).unwrap().rdev();
    let mknod = |name: &str, kind: &str, [major, minor]: [u64; 2]| {
        let path = shared.join(name);
        let numbers = [major, minor].map(|number| number.to_string());
        let path = path.to_str().unwrap();
        tool("mknod", [path, kind, &numbers[0], &numbers[1]]);
    };
    mknod("full", "c", [1, 7]);
    mknod(
        "disk",
        "b",
        [numbers >> 8 & 0xfff, numbers & 0xff].map(u64::from),
    );
    for (name, kind) in [("socket", "socket"), ("full", "device"), ("disk", "device")] {
        let path = shared.join(name);
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        let decrypt = || {
            luxor("decrypt --key-file key volume")
                .arg(&path)
                .current_dir(folder.path())
        };
        decrypt().fails(5, &format!("is a {kind} of another user (uid 65534)"));
        // That of this user is written to, or cannot be for another reason.
        chown(&path, Some(0), Some(0)).unwrap();
        let outcome = decrypt().run();
        assert!(!outcome.stderr.contains("another user"), "{outcome:#?}");
    }
    let image = fs::read(folder.join("image")).unwrap();
    assert!(image.iter().all(|&byte| byte == 0x55));
}

#[test]
fn another_users_link_is_not_followed() {
    let (folder, shared) = shared();
    let link = shared.join("link");
    symlink("../target", &link).unwrap();
    let decrypt =
        || luxor("decrypt --force --key-file key volume shared/link").current_dir(folder.path());
    let given = |owner: u32| lchown(&link, Some(owner), Some(owner)).unwrap();
    // The link's owner, the folder's, and whether it is followed.
    for (owner, folders_owner, mode, is_followed) in [
        (NOBODY, 0, 0o1777, false),
        (NOBODY, NOBODY, 0o1777, true),
        (0, NOBODY, 0o1777, true),
        (NOBODY, 0, 0o0777, true),
        (NOBODY, 0, 0o1775, true),
    ] {
        given(owner);
        chown(&shared, Some(folders_owner), None).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(mode)).unwrap();
        if is_followed {
            decrypt().ok();
            assert!(fs::read(folder.join("target")).unwrap() == bytes(100_000, 1));
            fs::remove_file(folder.join("target")).unwrap();
        } else {
            decrypt().fails(5, "symbolic link that another user");
            assert!(!folder.join("target").exists());
        }
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}

#[test]
fn a_volume_and_its_header_are_not_replaced_together() {
    let folder = prepared();
    let encrypt = |line: &str| {
        encrypt(&folder)
            .args(["--force", "plain"])
            .args(line.split(' '))
    };
    for (line, exists) in [
        ("volume --header new", "volume"),
        ("new --header volume", "volume"),
    ] {
        let before = fs::read(folder.join(exists)).unwrap();
        encrypt(line).fails(5, "not replaced together");
        assert!(fs::read(folder.join(exists)).unwrap() == before);
        assert!(!folder.join("new").exists());
    }
    encrypt("new --header header").ok();
}

/// What appears after the outputs have been looked at: the program waits for its key.
#[test]
fn of_a_volume_and_its_header_both_appear_or_none() {
    for (line, size) in [("encrypt plain", ""), ("format", "--size 1M")] {
        for late in ["new", "header"] {
            let folder = prepared();
            tool("mkfifo", [folder.join("fifo")]);
            let child = luxor(line)
                .args(size.split_whitespace())
                .args(["new", "--force", "--key-file", "fifo", "--header", "header"])
                .args(FAST)
                .current_dir(folder.path())
                .spawn();
            let mut key = File::options()
                .write(true)
                .open(folder.join("fifo"))
                .unwrap();
            folder.write(late, "theirs");
            key.write_all(b"key").unwrap();
            drop(key);
            let outcome = Outcome::new(line.to_owned(), child.wait_with_output().unwrap());
            outcome.assert_code(5);
            let words = "not replaced together";
            assert!(outcome.stderr.contains(words), "{outcome:#?}");
            assert_eq!(fs::read(folder.join(late)).unwrap(), b"theirs");
            assert_eq!(
                folder.names(),
                sorted(&["fifo", late, "key", "plain", "volume"])
            );
        }
    }
    // With --force too, neither may exist.
    let folder = prepared();
    folder.write("header", "theirs");
    luxor("format --force --size 1M --key-file key --header header new")
        .args(FAST)
        .current_dir(folder.path())
        .fails(5, "not replaced together");
    assert_eq!(fs::read(folder.join("header")).unwrap(), b"theirs");
}

fn sorted<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut names = names.to_vec();
    names.sort_unstable();
    names
}

/// Whether or not the next run writes something.
#[test]
fn left_overs_are_removed_before_anything_else() {
    let folder = prepared();
    for name in ["", "-0123456789abcdef"].map(|end| format!(".volume.luxor-new{end}")) {
        let path = folder.write(name, "plaintext");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    encrypt(&folder)
        .args(["plain", "volume"])
        .fails(5, "exists already");
    assert_eq!(folder.names(), PREPARED);
}

/// Files of these names that the command reads are no left-overs.
#[test]
fn what_a_command_reads_is_no_left_over() {
    let folder = prepared();
    let key = fs::read(folder.join("key")).unwrap();
    let private = |name: &str, bytes: &[u8]| {
        let path = folder.write(name, bytes);
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let volume = fs::read(folder.join("volume")).unwrap();
    private(".a.luxor-new", &volume);
    private(".b.luxor-new-0123456789abcdef", &key);
    private(".c.luxor-new-notes.txt", b"notes");
    private(".d.luxor-new", &volume);
    private(".e.luxor-new", &[0; 8192]);
    private(".f.luxor-new", &key);
    private(".g.luxor-new", &volume);
    // It could have a file system on which the input is.
    private(".h.luxor-new", &volume);
    let _mounted = Loop::over(&folder.join(".h.luxor-new"));
    luxor("decrypt --key-file - volume f")
        .current_dir(folder.path())
        .stdin_from(File::open(folder.join(".f.luxor-new")).unwrap())
        .ok();
    let device = Loop::over(&folder.join(".g.luxor-new"));
    let of_device = format!("decrypt --key-file key {} g", device.name());
    let format = format!(
        "format --key-file key {} --header e .e.luxor-new",
        FAST.join(" ")
    );
    for line in [
        "token list --json --json-file d .d.luxor-new",
        &format,
        &of_device,
        "header backup .a.luxor-new a",
        "decrypt --key-file .b.luxor-new-0123456789abcdef volume b",
        "decrypt --key-file key volume c",
        "decrypt --key-file key volume h",
    ] {
        luxor(line).current_dir(folder.path()).ok();
    }
    assert!(fs::read(folder.join(".a.luxor-new")).unwrap() == volume);
    assert!(fs::read(folder.join(".b.luxor-new-0123456789abcdef")).unwrap() == key);
    assert_eq!(
        fs::read(folder.join(".c.luxor-new-notes.txt")).unwrap(),
        b"notes"
    );
    assert!(fs::read(folder.join(".d.luxor-new")).unwrap() == volume);
    assert!(fs::read(folder.join(".e.luxor-new")).unwrap() == [0; 8192]);
    assert!(fs::read(folder.join(".f.luxor-new")).unwrap() == key);
    assert!(fs::read(folder.join(".g.luxor-new")).unwrap() == volume);
    assert!(fs::read(folder.join(".h.luxor-new")).unwrap() == volume);
}

/// In /proc such a file has a name that may be another file's.
#[test]
fn an_open_file_without_a_name_is_not_replaced() {
    let folder = prepared();
    let before = folder.names();
    let script = format!(
        "exec 3<> gone && rm gone && \"{}\" decrypt --force --key-file key volume /proc/self/fd/3",
        env!("CARGO_BIN_EXE_luxor")
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(folder.path());
    let outcome = Outcome::new(script, shell.output().unwrap());
    outcome.assert_code(1);
    assert!(outcome.stderr.contains("without a name"), "{outcome:#?}");
    assert_eq!(folder.names(), before);
}

/// Kills the program at each system call that publishes, and looks what is there.
#[test]
fn publishing_is_killed_at_every_system_call() {
    const CALLS: [&str; 6] = [
        "fsync",
        "linkat",
        "renameat",
        "renameat2",
        "unlinkat",
        "rename",
    ];
    let folder = prepared();
    let (old, new) = (bytes(10, 3), bytes(100_000, 1));
    let target = folder.join("out");
    let left_over = folder.join(".out.luxor-new");
    let clean = folder.names();
    let mut left = 0;
    for signal in ["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1"] {
        for force in [false, true] {
            let (mut killed, mut calls) = (0, 0);
            for (call, number) in CALLS.iter().flat_map(|call| (1..4).map(move |n| (call, n))) {
                if force {
                    drop(folder.write("out", &old));
                } else {
                    drop(fs::remove_file(&target));
                }
                let mut strace = Command::new("strace");
                strace
                    .args(["-f", "-o", "/dev/null", "-e"])
                    .arg(format!("trace={}", CALLS.join(",")))
                    .arg("-e")
                    .arg(format!("inject={call}:signal={signal}:when={number}"));
                if *call == "linkat" {
                    // Time for the thread that waits for signals.
                    strace.args(["-e", "inject=renameat:delay_enter=200000"]);
                }
                strace
                    .arg(env!("CARGO_BIN_EXE_luxor"))
                    .args(["decrypt", "--key-file", "key"])
                    .args(force.then_some("--force"))
                    .args(["volume", "out"])
                    .current_dir(folder.path());
                let output = strace.output().expect("strace is needed");
                let case = format!("{signal}, {call} {number}, force {force}");
                let is_done = output.status.success();
                killed += usize::from(!is_done);
                calls += 1;
                match fs::read(&target) {
                    Ok(bytes) if bytes == new => {}
                    Ok(bytes) => assert!(!is_done && force && bytes == old, "{case}"),
                    Err(_) => assert!(!is_done && !force, "{case}"),
                }
                if left_over.exists() {
                    assert_eq!((signal, *call, force), ("SIGKILL", "renameat", true));
                    assert!(fs::read(&left_over).unwrap() == new, "{case}");
                    let mode = fs::metadata(&left_over).unwrap().permissions().mode();
                    assert_eq!(mode & 0o7777, 0o600);
                    left += 1;
                    // The next run removes it, whether or not it replaces something.
                    fs::remove_file(&target).unwrap();
                    luxor("decrypt --key-file key volume out")
                        .current_dir(folder.path())
                        .ok();
                }
                let mut names = folder.names();
                names.retain(|name| name != "out");
                assert_eq!(names, clean, "{case}");
            }
            // SIGKILL at a call that is made ends the program.
            println!("{signal}, force {force}: ended {killed} of {calls} times");
            let least = if force { 4 } else { 3 };
            assert!(killed >= least || signal != "SIGKILL", "{killed} times");
        }
    }
    assert_eq!(left, 1);
}

/// What stands where a new file has its name for a moment, and is none.
#[test]
fn what_another_program_calls_so_is_left_alone() {
    let folder = prepared();
    folder.write(".out.luxor-new", "theirs");
    fs::set_permissions(
        folder.join(".out.luxor-new"),
        fs::Permissions::from_mode(0o644),
    )
    .unwrap();
    // As long as a name may be, too.
    for name in ["out".to_owned(), "x".repeat(255)] {
        folder.write(&name, "old");
        luxor("decrypt --force --key-file key volume")
            .arg(&name)
            .current_dir(folder.path())
            .ok();
        assert!(fs::read(folder.join(&name)).unwrap() == bytes(100_000, 1));
        fs::remove_file(folder.join(&name)).unwrap();
    }
    assert_eq!(fs::read(folder.join(".out.luxor-new")).unwrap(), b"theirs");
    assert_eq!(folder.names().len(), 4);
}
