// SPDX-License-Identifier: MIT OR Apache-2.0
//! The locks beside those of qemu, cryptsetup and other processes.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    sync::mpsc,
};

use nix::{
    sys::wait::{WaitStatus, waitpid},
    unistd::{ForkResult, fork},
};

use super::*;
use crate::testing::alone;

fn opened(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap()
}

fn opened_new(path: &Path) -> File {
    File::create_new(path).unwrap();
    opened(path)
}

#[test]
fn readers_share_and_writers_do_not() {
    let _alone = alone();
    let path = tempfile::NamedTempFile::new().unwrap();
    let (a, b) = (opened(path.path()), opened(path.path()));
    for (first, second, expected) in [
        (Access::Read, Access::Read, true),
        (Access::Read, Access::Write, false),
        (Access::Write, Access::Read, false),
        (Access::Write, Access::Write, false),
    ] {
        assert!(lock_data(&a, first).unwrap());
        assert_eq!(
            lock_data(&b, second).unwrap(),
            expected,
            "{first:?}, then {second:?}"
        );
        unlock_data(&a);
        unlock_data(&b);
        assert!(
            lock_data(&b, Access::Write).unwrap(),
            "nothing stays locked"
        );
        unlock_data(&b);
    }
    // A refused lock leaves nothing locked.
    assert!(lock_data(&a, Access::Read).unwrap());
    assert!(!lock_data(&b, Access::Write).unwrap());
    let c = File::open(path.path()).unwrap();
    assert!(lock_data(&c, Access::Read).unwrap());
}

#[test]
fn qemu_sees_a_writer() {
    let _alone = alone();
    let path = tempfile::NamedTempFile::new().unwrap();
    path.as_file().set_len(1 << 20).unwrap();
    let path = path.path();
    for access in [None, Some(Access::Read), Some(Access::Write)] {
        let locked = opened(path);
        assert!(access.is_none_or(|access| lock_data(&locked, access).unwrap()));
        for (args, writes) in [
            (&["-r", "-f", "raw", "-c", "read 0 512"][..], false),
            (&["-f", "raw", "-c", "read 0 512"], true),
        ] {
            let allowed = match access {
                None => true,
                Some(Access::Read) => !writes,
                Some(Access::Write) => false,
            };
            let output = Command::new("qemu-io")
                .args(args)
                .arg(path)
                .output()
                .unwrap();
            let words = String::from_utf8_lossy(&output.stderr);
            assert_eq!(
                output.status.success(),
                allowed,
                "{access:?} {args:?} {words}"
            );
            assert_eq!(
                words.contains(" lock"),
                !allowed,
                "{access:?} {args:?} {words}"
            );
        }
    }
}

#[test]
fn a_writing_qemu_is_seen() {
    let _alone = alone();
    let path = tempfile::NamedTempFile::new().unwrap();
    path.as_file().set_len(1 << 20).unwrap();
    for (how, expected) in [(&["-r"][..], true), (&[], false)] {
        let mut qemu = Command::new("stdbuf")
            .args(["-oL", "qemu-io"])
            .args(how)
            .args(["-f", "raw", "-c", "length", "-c", "sleep 60000"])
            .arg(path.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // qemu-io has opened the file once it prints the length.
        let mut line = String::new();
        BufReader::new(qemu.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let read = lock_data(&opened(path.path()), Access::Read);
        let write = lock_data(&opened(path.path()), Access::Write);
        qemu.kill().unwrap();
        qemu.wait().unwrap();
        assert_eq!(line.trim(), "1 MiB");
        assert_eq!(read.unwrap(), expected);
        assert!(!write.unwrap());
    }
}

#[test]
fn the_metadata_lock_is_a_flock() {
    let _alone = alone();
    let path = tempfile::NamedTempFile::new().unwrap();
    let never = AtomicBool::new(false);
    let to_read = || MetadataLock::to_read(&opened(path.path()), false, &never).unwrap();
    let (shared, also) = (to_read(), to_read());
    let flock = |how: &str| {
        let mut flock = Command::new("flock");
        flock
            .args([how, "-n"])
            .arg(path.path())
            .arg("true")
            .status()
            .unwrap()
            .success()
    };
    assert!(flock("-s"));
    assert!(!flock("-x"));
    drop(shared);
    assert!(!flock("-x"));
    drop(also);
    assert!(flock("-x"));
    let exclusive = MetadataLock::to_change(&opened(path.path()), |_| true, &never).unwrap();
    assert!(!flock("-s"));
    drop(exclusive);
    assert!(flock("-s"));
}

#[test]
fn waiting_for_a_lock_is_bounded() {
    let _alone = alone();
    let path = tempfile::NamedTempFile::new().unwrap();
    let how = FlockArg::LockExclusiveNonblock;
    let attempt = |wait| {
        let lock = || flock(opened(path.path()), how);
        patiently(lock, wait, LockError::Io)
    };
    let held = attempt(MOMENT).unwrap();
    let begun = Instant::now();
    let error = attempt(MOMENT).unwrap_err();
    assert!(
        matches!(error, LockError::Held(limit) if limit == MOMENT.limit),
        "the wait must end: {error}"
    );
    assert!(begun.elapsed() >= MOMENT.limit, "it must wait for the lock");
    let (cancel, begun) = (AtomicBool::new(false), Instant::now());
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(MOMENT.limit / 4);
            cancel.store(true, Ordering::Relaxed);
        });
        let error = attempt(Wait::unless(&cancel)).unwrap_err();
        assert!(matches!(error, LockError::Cancelled), "{error}");
    });
    assert!(begun.elapsed() < PATIENCE / 2, "the caller ends the wait");
    drop(held);
    attempt(MOMENT).unwrap();
}

#[test]
fn readers_keep_reencryptions_out() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let uuid = "11111111-2222-4333-8444-555555555555";
    let lock = || ReencryptionLock::within(folder.path(), uuid, Access::Read);
    let path = folder.path().join(format!("LN_LUKS2-reencryption-{uuid}"));
    let file = opened_new(&path);
    let (first, second) = (lock().unwrap(), lock().unwrap());
    assert!(file.try_lock().is_err());
    drop(first);
    assert!(file.try_lock().is_err());
    drop(second);
    assert!(!path.exists(), "the last lock removes the file");
    let file = opened_new(&path);
    file.try_lock().unwrap();
    assert!(matches!(lock(), Err(LockError::Held(limit)) if limit == MOMENT.limit));
    file.unlock().unwrap();
    lock().unwrap();
    // This is not the name of a file elsewhere.
    ReencryptionLock::within(folder.path(), "../../elsewhere", Access::Read).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
#[expect(unsafe_code, reason = "a fork in a program with threads is unsafe")]
fn a_forked_child_does_not_release_the_lock_of_its_parent() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let lock = ReencryptionLock::within(folder.path(), "1", Access::Read).unwrap();
    let path = folder.path().join("LN_LUKS2-reencryption-1");
    // SAFETY: the child only drops the lock, which allocates nothing, and exits.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            drop(lock);
            // SAFETY: this takes no pointer and runs no code of the parent.
            unsafe { libc::_exit(0) }
        }
        ForkResult::Parent { child } => waitpid(child, None).unwrap(),
    };
    assert!(opened(&path).try_lock().is_err());
    drop(lock);
    assert!(!path.exists());
}

#[test]
#[expect(unsafe_code, reason = "a fork in a program with threads is unsafe")]
fn data_are_locked_by_the_process_that_locked_them() {
    let _alone = alone();
    let path = tempfile::NamedTempFile::new().unwrap();
    let is_free = || lock_data(&opened(path.path()), Access::Write).unwrap();
    let (reader, writer) = nix::unistd::pipe().unwrap();
    let file = opened(path.path());
    let lock = DataLock::acquire(&file, Access::Write).unwrap().unwrap();
    // SAFETY: the child only closes descriptors, reads from a pipe and exits.
    let child = match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            drop((writer, lock));
            let ended = nix::unistd::read(&reader, &mut [0]);
            // SAFETY: this takes no pointer and runs no code of the parent.
            unsafe { libc::_exit(i32::from(ended != Ok(0))) }
        }
        ForkResult::Parent { child } => child,
    };
    assert!(!is_free(), "the child released the lock of its parent");
    // The child still has the open file.
    drop((file, lock));
    assert!(is_free(), "the child kept the lock of its parent");
    drop(writer);
    let status = waitpid(child, None).unwrap();
    assert!(matches!(status, WaitStatus::Exited(_, 0)), "{status:?}");
}

/// A reader that releases the lock holds it exclusively for a moment.
#[test]
fn a_reencryption_lock_that_is_held_for_a_moment_is_waited_for() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("LN_LUKS2-reencryption-1");
    let file = opened_new(&path);
    file.try_lock().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(MOMENT.limit / 4);
            drop(file);
        });
        ReencryptionLock::within(folder.path(), "1", Access::Read).unwrap();
    });
}

#[test]
fn a_removed_lock_file_is_not_taken_for_the_lock() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("L_7:0");
    let never = AtomicBool::new(false);
    let lock = || {
        let how = FlockArg::LockExclusiveNonblock;
        lock_stand_in(folder.path(), "L_7:0", how, Wait::unless(&never))
    };
    let first = lock().unwrap();
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            sender.send(lock().unwrap()).unwrap();
        });
        assert!(
            receiver.recv_timeout(Duration::from_millis(100)).is_err(),
            "the second lock must wait"
        );
        // cryptsetup does the same.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        drop(first);
        let second = receiver.recv_timeout(Duration::from_secs(10)).unwrap();
        let locked = second.held.metadata().unwrap().ino();
        assert_eq!(locked, fs::metadata(&path).unwrap().ino());
    });
}
