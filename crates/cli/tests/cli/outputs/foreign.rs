// SPDX-License-Identifier: MIT OR Apache-2.0
//! Outputs that another user has made.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown, lchown, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use luxor::files::testing::Loop;

use super::{prepared, read_fifo};
use crate::support::{Folder, Luxor, bytes, luxor, tool};

/// A test folder with a volume, and in it a folder in which all users may make files.
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
        // There is no reader: the FIFO is refused before it is opened.
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
    // A FIFO of this user is accepted by any name, and so is standard output of any owner.
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

/// A program of another user with open standard input and output, until dropped.
struct Foreign(Child);

impl Foreign {
    /// Its standard output is a pipe that it has made itself, and in which it expects no bytes.
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

/// Links in /proc lead to files that other processes have open.
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
                // If data reach the pipe, the program waits for a reader and is ended.
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

/// The pipe may have any name and owner, because the caller has passed it on.
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

/// As `another_users_fifo_gets_nothing`, for files that are not FIFOs.
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
        // A file of this user is written to, or fails for another reason.
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
    // The owner of the link, the owner and the mode of the folder, and whether the link is
    // followed.
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
