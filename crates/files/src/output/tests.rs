// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outputs of every kind. Most tests need root, for loop devices and mounts.

use std::{
    env,
    fs::{self, File, OpenOptions},
    io::Read,
    os::unix::{
        fs::{MetadataExt, OpenOptionsExt, chown, symlink},
        process::ExitStatusExt,
    },
    process::{Command, Stdio},
};

use nix::{libc, sys::stat::Mode, unistd::mkfifo};

use super::*;
use crate::{
    input::Role,
    locks::lock_data,
    testing::{Loop, alone},
};

const FORCE: OutputOptions<'_> = OutputOptions {
    force: true,
    is_one_of_two: false,
    mode: 0o600,
    known_input: None,
    needed: &[],
    sparse: false,
    becomes_luks2: false,
    disable_locks: false,
    cancel: None,
};

fn create(path: &Path) -> Result<Output, OutputError> {
    Output::create(path, &OutputOptions::default())
}

fn run(program: &str, args: &[&dyn AsRef<std::ffi::OsStr>]) -> String {
    let output = Command::new(program)
        .args(args.iter().map(AsRef::as_ref))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// A file system of 1 MiB, unmounted on drop.
struct SmallFileSystem(tempfile::TempDir);

impl SmallFileSystem {
    fn mounted() -> Self {
        let folder = tempfile::tempdir().unwrap();
        run(
            "mount",
            &[&"-t", &"tmpfs", &"-o", &"size=1m", &"tmpfs", &folder.path()],
        );
        Self(folder)
    }
}

impl Drop for SmallFileSystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn data_then_header_make_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a name with spaces");
    let mut output = create(&path).unwrap();
    assert!(output.is_seekable() && output.capacity().is_none());
    output.begin(4096, None).unwrap();
    output.write_all(b"data").unwrap();
    output.write_all(&[0; 4]).unwrap();
    output
        .as_storage()
        .unwrap()
        .write_all_at(b"header", 0)
        .unwrap();
    assert_eq!(count(folder.path()), 0);
    output.finish().unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 4104);
    assert_eq!(bytes[..6], *b"header");
    assert_eq!(bytes[4096..], *b"data\0\0\0\0");
}

#[test]
fn a_sparse_file_has_its_exact_length() {
    let folder = tempfile::tempdir().unwrap();
    for (sparse, most) in [(true, 16), (false, u64::MAX)] {
        let path = folder.path().join(format!("{sparse}"));
        let options = OutputOptions {
            sparse,
            ..OutputOptions::default()
        };
        let mut output = Output::create(&path, &options).unwrap();
        output.begin(0, None).unwrap();
        output.write_all(b"begin").unwrap();
        output.write_all(&vec![0; 10_000_001]).unwrap();
        output.finish().unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.len(), 10_000_006);
        assert!(metadata.blocks() <= most && (sparse || metadata.blocks() > 19_000));
        assert_eq!(fs::read(&path).unwrap()[..6], *b"begin\0");
    }
}

#[test]
fn existing_files_are_reported_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("file"), "content").unwrap();
    symlink("file", path("link")).unwrap();
    symlink("nothing", path("dangling")).unwrap();
    symlink("loop", path("loop")).unwrap();

    for (name, class, words) in [
        ("file", FileErrorClass::Busy, "exists already"),
        ("link", FileErrorClass::Busy, "exists already"),
        ("dangling", FileErrorClass::Busy, "exists already"),
        ("loop", FileErrorClass::Failure, "cannot create"),
        (".", FileErrorClass::Failure, "is a folder"),
        ("new/", FileErrorClass::Failure, "is a folder"),
        ("missing/new", FileErrorClass::Missing, "the folder of"),
        ("file/new", FileErrorClass::Missing, "the folder of"),
        ("", FileErrorClass::Failure, "is a folder"),
    ] {
        let error = create(&path(name)).unwrap_err();
        assert_eq!(error.class(), class, "{name}: {error}");
        assert!(error.to_string().contains(words), "{name}: {error}");
    }
    let error = create(Path::new("")).unwrap_err().to_string();
    assert!(error.starts_with("cannot create \"\""), "{error}");
    assert_eq!(fs::read(path("file")).unwrap(), b"content");
    assert_eq!(count(folder.path()), 4);
}

#[test]
fn force_writes_where_a_link_points() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
    fs::create_dir(&a).unwrap();
    fs::create_dir(&b).unwrap();
    fs::write(b.join("target"), "old").unwrap();
    symlink("../b/target", a.join("link")).unwrap();
    symlink(b.join("later"), a.join("dangling")).unwrap();
    for (link, target) in [("link", "target"), ("dangling", "later")] {
        let mut output = Output::create(&a.join(link), &FORCE).unwrap();
        output.write_all(b"new").unwrap();
        output.finish().unwrap();
        assert_eq!(fs::read(b.join(target)).unwrap(), b"new");
        assert!(fs::symlink_metadata(a.join(link)).unwrap().is_symlink());
    }
    assert_eq!((count(&a), count(&b)), (2, 2));
}

#[test]
fn a_file_that_is_in_use_is_not_replaced() {
    let _alone = alone();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), [7; 4096]).unwrap();
    let locked = OpenOptions::new().read(true).open(file.path()).unwrap();
    assert!(lock_data(&locked, Access::Read).unwrap());
    let error = Output::create(file.path(), &FORCE).unwrap_err();
    assert!(matches!(error, OutputError::Locked { .. }), "{error}");
    assert_eq!(error.class(), FileErrorClass::Busy);
    drop(locked);

    let device = Loop::over(file.path());
    let error = Output::create(file.path(), &FORCE).unwrap_err();
    assert!(matches!(error, OutputError::InUse { .. }), "{error}");
    assert!(error.to_string().ends_with(device.name()), "{error}");
    assert_eq!(error.class(), FileErrorClass::Busy);
    assert_eq!(fs::read(file.path()).unwrap(), [7; 4096]);
}

#[test]
fn the_input_is_refused_as_output_under_any_name() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("file"), [7; 8192]).unwrap();
    fs::write(path("other"), "x").unwrap();
    fs::hard_link(path("file"), path("hard")).unwrap();
    symlink("file", path("soft")).unwrap();
    let device = Loop::over(&path("file"));

    for input in [path("file"), device.0.clone()] {
        let input = Input::open(&input, Role::Data).unwrap();
        for force in [false, true] {
            let options = OutputOptions {
                force,
                known_input: Some(&input),
                ..OutputOptions::default()
            };
            for name in [path("file"), path("hard"), path("soft"), device.0.clone()] {
                let error = Output::create(&name, &options).unwrap_err();
                assert!(
                    matches!(error, OutputError::IsInput { .. }),
                    "{name:?}: {error}"
                );
                assert_eq!(error.class(), FileErrorClass::Failure);
            }
        }
        let options = OutputOptions {
            force: true,
            known_input: Some(&input),
            ..OutputOptions::default()
        };
        Output::create(&path("other"), &options).unwrap();
    }
    assert_eq!(fs::read(path("file")).unwrap(), [7; 8192]);
}

#[test]
fn a_full_disk_leaves_nothing() {
    let _alone = alone();
    let small = SmallFileSystem::mounted();
    let folder = small.0.path();
    let mut output = create(&folder.join("file")).unwrap();
    output.begin(0, None).unwrap();
    let error = output.write_all(&vec![1; 2 << 20]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    drop(output);
    assert_eq!(count(folder), 0);
    // The space is free again.
    let mut output = create(&folder.join("file")).unwrap();
    output.write_all(&vec![1; 1 << 19]).unwrap();
    output.finish().unwrap();
}

#[test]
fn streams_are_written_straight() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    let reader = thread::spawn({
        let path = path.clone();
        move || {
            let mut bytes = Vec::new();
            File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        }
    });
    let mut output = create(&path).unwrap();
    assert!(!output.is_seekable() && output.as_storage().is_none());
    output.begin(0, None).unwrap();
    output.write_all(&[5; 200_000]).unwrap();
    output.finish().unwrap();
    assert_eq!(reader.join().unwrap(), [5; 200_000]);

    let mut null = create(Path::new("/dev/null")).unwrap();
    null.write_all(b"gone").unwrap();
    null.finish().unwrap();

    let mut full = create(Path::new("/dev/full")).unwrap();
    let error = full.write_all(b"no room").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

/// The same happens if another file gets the inode number.
#[test]
fn a_file_with_a_new_owner_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    mkfifo(&path, Mode::S_IRWXU).unwrap();
    let entry = DirectoryEntry::resolve(&path).unwrap();
    let found = entry.found.as_ref().unwrap();
    entry.open(found, OFlag::O_RDWR).unwrap();
    chown(&path, Some(65534), None).unwrap();
    entry.open(found, OFlag::O_RDWR).unwrap_err();
}

/// The parent starts this same test again, as the writer that it kills.
#[test]
fn a_killed_writer_leaves_nothing() {
    let _alone = alone();
    const FOLDER: &str = "LUXOR_TEST_KILLED_WRITER";
    if let Some(folder) = env::var_os(FOLDER) {
        let mut output = Output::create(&Path::new(&folder).join("file"), &FORCE).unwrap();
        output.write_all(&[1; 100_000]).unwrap();
        output.as_storage().unwrap().sync().unwrap();
        println!("\nhalf-way");
        thread::sleep(Duration::from_secs(600));
        return;
    }
    for old in [None, Some("old")] {
        let folder = tempfile::tempdir().unwrap();
        if let Some(old) = old {
            fs::write(folder.path().join("file"), old).unwrap();
        }
        let mut child = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "output::tests::a_killed_writer_leaves_nothing",
                "--nocapture",
            ])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        while !said.contains("half-way") {
            let mut byte = [0];
            child
                .stdout
                .as_mut()
                .unwrap()
                .read_exact(&mut byte)
                .unwrap();
            said.push(byte[0].into());
        }
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        assert_eq!(count(folder.path()), usize::from(old.is_some()));
        assert_eq!(
            fs::read_to_string(folder.path().join("file"))
                .ok()
                .as_deref(),
            old
        );
    }
}

/// Returns a loop device over a new file of `len` bytes, all 0xEE.
fn device(len: usize) -> (tempfile::NamedTempFile, Loop) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), vec![0xEE; len]).unwrap();
    let device = Loop::over(file.path());
    (file, device)
}

#[test]
fn a_device_is_overwritten_when_forced() {
    let _alone = alone();
    let (_file, device) = device(32 << 20);
    let error = create(&device.0).unwrap_err();
    assert!(matches!(error, OutputError::IsDevice { .. }), "{error}");
    assert_eq!(error.class(), FileErrorClass::Busy);

    let mut output = Output::create(&device.0, &FORCE).unwrap();
    assert_eq!(output.capacity(), Some(32 << 20));
    // No other program may write or read it meanwhile.
    let error = Output::create(&device.0, &FORCE).unwrap_err();
    assert!(matches!(error, OutputError::InUse { .. }), "{error}");
    let error = Input::open(&device.0, Role::Data).unwrap_err();
    assert_eq!(error.class(), FileErrorClass::Busy);

    output.begin(16 << 20, Some(17 << 20)).unwrap();
    output.write_all(&vec![1; 1 << 20]).unwrap();
    output
        .as_storage()
        .unwrap()
        .write_all_at(b"header", 0)
        .unwrap();
    output.finish().unwrap();
    let bytes = fs::read(&device.0).unwrap();
    let mib = |k: usize| &bytes[k << 20..][..1 << 20];
    assert_eq!(mib(0)[..6], *b"header");
    assert!(mib(0)[6..].iter().all(|&b| b == 0));
    assert!((1..16).all(|k| mib(k).iter().all(|&b| b == 0)));
    assert!(mib(16).iter().all(|&b| b == 1));
    assert!((17..31).all(|k| mib(k).iter().all(|&b| b == 0xEE)));
    assert!(mib(31).iter().all(|&b| b == 0));
}

#[test]
fn data_are_not_taken_for_old_signatures() {
    let _alone = alone();
    // The data reach into both ends that are wiped.
    let (_file, device) = device(3 << 20);
    let mut output = Output::create(&device.0, &FORCE).unwrap();
    output.begin(0, Some(3 << 20)).unwrap();
    output.write_all(&vec![1; 3 << 20]).unwrap();
    output.finish().unwrap();
    assert_eq!(fs::read(&device.0).unwrap(), vec![1; 3 << 20]);
}

#[test]
fn old_signatures_are_gone_before_the_first_data() {
    let _alone = alone();
    let (_file, device) = device(64 << 20);
    let seen = || {
        let output = Command::new("wipefs")
            .arg("--parsable")
            .arg(&device.0)
            .output()
            .unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().filter(|line| !line.starts_with('#')).count()
    };
    let formats: [&[&dyn AsRef<std::ffi::OsStr>]; 4] = [
        &[&"mkfs.ext4", &"-q", &"-F"],
        &[&"mkswap", &"-q"],
        &[
            &"cryptsetup",
            &"luksFormat",
            &"-q",
            &"--type",
            &"luks1",
            &"--key-file=/proc/version",
        ],
        &[
            &"cryptsetup",
            &"luksFormat",
            &"-q",
            &"--pbkdf=pbkdf2",
            &"--pbkdf-force-iterations=1000",
            &"--key-file=/proc/version",
        ],
    ];
    for format in formats {
        let (program, args) = format.split_first().unwrap();
        let args = [args, &[&device.0 as &dyn AsRef<std::ffi::OsStr>]].concat();
        run(&program.as_ref().to_string_lossy(), &args);
        assert!(seen() > 0);
        let mut output = Output::create(&device.0, &FORCE).unwrap();
        assert!(seen() > 0, "opening must change nothing");
        output.begin(16 << 20, None).unwrap();
        drop(output);
        assert_eq!(seen(), 0);
    }
}

#[test]
fn a_device_that_is_too_small_keeps_its_content() {
    let _alone = alone();
    let (file, device) = device(1 << 20);
    let mut output = Output::create(&device.0, &FORCE).unwrap();
    let error = output.begin(0, Some((1 << 20) + 1)).unwrap_err();
    assert!(matches!(
        error,
        OutputError::TooSmall {
            needed: 1_048_577,
            capacity: 1_048_576,
            ..
        }
    ));
    let words = error.to_string();
    assert!(
        words.contains("1048577") && words.contains("1048576"),
        "{words}"
    );
    let error = output.begin(16 << 20, None).unwrap_err();
    assert!(matches!(
        error,
        OutputError::TooSmall {
            needed: 16_777_216,
            ..
        }
    ));
    drop(output);
    assert_eq!(fs::read(file.path()).unwrap(), vec![0xEE; 1 << 20]);
}

#[test]
fn writing_past_the_end_of_a_device_is_an_error() {
    let _alone = alone();
    let (_file, device) = device(1 << 20);
    let mut output = Output::create(&device.0, &FORCE).unwrap();
    let error = output.write_all(&vec![1; (1 << 20) + 512]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

#[test]
fn a_mounted_device_is_refused() {
    let _alone = alone();
    let (_file, device) = device(16 << 20);
    run("mkfs.ext4", &[&"-q", &"-F", &device.0]);
    let folder = tempfile::Builder::new()
        .prefix("a mount")
        .tempdir()
        .unwrap();
    run("mount", &[&device.0, &folder.path()]);
    let results = [true, false].map(|force| {
        Output::create(
            &device.0,
            &OutputOptions {
                force,
                ..OutputOptions::default()
            },
        )
    });
    run("umount", &[&folder.path()]);
    for result in results {
        let error = result.unwrap_err();
        let words = error.to_string();
        assert!(
            words.ends_with(&format!("is mounted at {}", folder.path().display())),
            "{words}"
        );
        assert_eq!(error.class(), FileErrorClass::Busy);
    }
    Output::create(&device.0, &FORCE).unwrap();
}

#[test]
fn a_device_that_another_program_holds_is_refused() {
    let _alone = alone();
    let (_file, device) = device(1 << 20);
    let held = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_EXCL)
        .open(&device.0)
        .unwrap();
    let error = Output::create(&device.0, &FORCE).unwrap_err();
    assert!(error.to_string().ends_with("is in use"), "{error}");
    drop(held);
    let locked = File::open(&device.0).unwrap();
    assert!(lock_data(&locked, Access::Read).unwrap());
    let error = Output::create(&device.0, &FORCE).unwrap_err();
    assert!(matches!(error, OutputError::Locked { .. }), "{error}");
}
