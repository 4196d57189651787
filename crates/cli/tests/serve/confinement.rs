// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server that is ready can do nothing that it need not do, as far as the kernel allows. What this kernel
//! allows is asked here too, without the code that is tested.

use std::{
    fs,
    os::unix::{fs::chown, process::ExitStatusExt},
    process::Output,
    ptr,
};

use nix::{libc, sys::signal::Signal, unistd::geteuid};

use crate::support::{Kind, Server, Volume, bytes, must_succeed};

/// What the kernel offers.
struct Offered {
    landlock: bool,
    seccomp: bool,
}

impl Offered {
    fn by_kernel() -> Self {
        const VERSION: u32 = 1;
        // SAFETY: with this flag and no attributes the call reads no memory, and returns a number.
        let landlock = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                ptr::null::<libc::c_void>(),
                0,
                VERSION,
            )
        };
        let allow = libc::SECCOMP_RET_ALLOW;
        // SAFETY: this operation reads the action, which outlives the call.
        let seccomp = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_GET_ACTION_AVAIL,
                0,
                &raw const allow,
            )
        };
        Self {
            landlock: landlock > 0,
            seccomp: seccomp == 0,
        }
    }

    fn is_all(&self) -> bool {
        self.landlock && self.seccomp
    }
}

/// A field of the status of each thread of a process.
fn of_all_threads(pid: u32, field: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let value = |thread: std::io::Result<fs::DirEntry>| {
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        line.unwrap_or_else(|| panic!("{field} is missing"))
            .trim_start_matches(':')
            .trim()
            .to_owned()
    };
    threads.map(value).collect()
}

#[track_caller]
fn all_threads_have(server: &Server, field: &str, expected: &str) {
    let found = of_all_threads(server.pid(), field);
    assert!(found.len() > 3, "{found:?}");
    assert!(
        found.iter().all(|value| value == expected),
        "{field} {found:?}"
    );
}

const NONE: &str = "0000000000000000";

#[test]
fn every_thread_is_confined_and_the_note_says_how_far() {
    let offered = Offered::by_kernel();
    let volume = Volume::new(Kind::EXAMPLE, &bytes(1 << 20, 1));
    let mut luxor = volume.serving("-v --socket socket --metrics-listen 127.0.0.1:0");
    let server = Server::start({
        luxor.env("LUXOR_TRIALS", "all");
        luxor
    });
    assert_eq!(
        volume.run("nbdinfo --size", &[&server.uri]).trim(),
        (1 << 20).to_string()
    );
    all_threads_have(&server, "NoNewPrivs", "1");
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        all_threads_have(&server, set, NONE);
    }
    if geteuid().is_root() {
        all_threads_have(&server, "CapBnd", NONE);
    }
    // The tests may have a filter themselves, as in a container.
    let ours = of_all_threads(std::process::id(), "Seccomp").remove(0);
    let expected = if offered.seccomp { "2" } else { &ours };
    all_threads_have(&server, "Seccomp", expected);
    let said = &server.said;
    let taken = |measure: &str, is_taken: bool| {
        let word = if is_taken { "yes" } else { "no (" };
        assert!(said.contains(&format!("{measure} {word}")), "{said}");
    };
    taken("confined: no_new_privs", true);
    taken("capabilities", true);
    taken("Landlock", offered.landlock);
    taken("seccomp", offered.seccomp);
    for place in ["here", "new thread"] {
        for (trial, is_refused, words) in [
            ("read", offered.landlock, "Permission denied"),
            ("list", offered.landlock, "Permission denied"),
            ("make", offered.landlock, "Permission denied"),
            ("listen", offered.seccomp, "Operation not permitted"),
            ("send", offered.seccomp, "Operation not permitted"),
            ("socket", offered.seccomp, "Operation not permitted"),
            (
                "start",
                offered.seccomp || offered.landlock,
                if offered.seccomp {
                    "Operation not permitted"
                } else {
                    "Permission denied"
                },
            ),
        ] {
            let line = format!("trial {place} {trial}: ");
            assert!(said.contains(&line), "{line} {said}");
            let refused = said.contains(&format!("{line}{words}"));
            assert_eq!(refused, is_refused, "{line} {said}");
        }
    }
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().0, Some(0));
    assert!(!volume.path("socket").exists());
}

#[test]
fn a_call_by_which_an_attacker_would_go_on_ends_the_server() {
    let offered = Offered::by_kernel();
    let volume = Volume::new(Kind::EXAMPLE, &bytes(1 << 20, 1));
    let mut luxor = volume.serving("--socket socket");
    let ended = luxor.env("LUXOR_TRIALS", "program").output().unwrap();
    let killed = ended.status.signal() == Some(libc::SIGSYS);
    assert_eq!(killed, offered.seccomp, "{ended:?}");
    assert!(ended.stdout.is_empty() || !offered.is_all(), "{ended:?}");
    // It could not release the lock.
    let luxor = volume.serving("--socket socket");
    Server::start(luxor).stop();
}

#[test]
fn a_server_that_is_not_to_be_confined_is_as_it_was_started() {
    let volume = Volume::new(Kind::EXAMPLE, &bytes(1 << 20, 1));
    let server = volume.serve("-v --confine no");
    let ours = std::process::id();
    for field in ["NoNewPrivs", "CapEff", "CapBnd", "Seccomp"] {
        all_threads_have(&server, field, &of_all_threads(ours, field)[0]);
    }
    assert!(!server.said.contains("confined"), "{}", server.said);
    server.stop();
}

#[test]
fn a_server_that_must_be_confined_serves_only_if_it_is() {
    let offered = Offered::by_kernel();
    let volume = Volume::new(Kind::EXAMPLE, &bytes(1 << 20, 1));
    let line = "--socket socket --confine require";
    if offered.is_all() {
        volume.serve("--confine require").stop();
    } else {
        let ended = volume.serving(line).output().unwrap();
        assert!(text(&ended).contains("could not be confined"), "{ended:?}");
    }
    // A driver opens files and starts programs, so only some of the measures are taken.
    let line = format!("{line} --engine opencl");
    let ended = volume.serving(&line).output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    if is_present("opencl", &volume) {
        let words = "Landlock no (the driver of a device opens files and starts programs)";
        assert!(text(&ended).contains(words), "{ended:?}");
        let server = volume.serve("--engine opencl");
        let plain = volume.path("copy");
        let copy = ["--", &server.uri, plain.to_str().unwrap()];
        volume.run("nbdcopy", &copy);
        assert!(fs::read(plain).unwrap() == bytes(1 << 20, 1));
        // Those of the driver have it from seccomp.
        if offered.seccomp {
            all_threads_have(&server, "NoNewPrivs", "1");
        }
        server.stop();
    }
}

fn text(ended: &Output) -> String {
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

fn is_present(engine: &str, volume: &Volume) -> bool {
    let engines = must_succeed(&mut volume.luxor("engines"));
    let mut lines = engines.lines();
    let line = lines.find(|line| line.trim_start().starts_with(engine));
    !line.unwrap().contains("absent")
}

/// Root without capabilities may not remove a file from the folder of another user.
#[test]
fn what_is_removed_at_the_end_may_be_in_the_folder_of_another_user() {
    let volume = Volume::new(Kind::EXAMPLE, &bytes(1 << 20, 1));
    let folder = volume.path("of another user");
    fs::create_dir(&folder).unwrap();
    let is_root = geteuid().is_root();
    if is_root {
        chown(&folder, Some(65534), Some(65534)).unwrap();
    }
    let (socket, pid) = (folder.join("socket"), folder.join("pid"));
    let mut luxor = volume.serving("-v");
    luxor
        .arg("--socket")
        .arg(&socket)
        .arg("--pid-file")
        .arg(&pid);
    let server = Server::start(luxor);
    let override_only = "0000000000000002";
    all_threads_have(
        &server,
        "CapEff",
        if is_root { override_only } else { NONE },
    );
    let kept = server.said.contains("CAP_DAC_OVERRIDE is kept");
    assert_eq!(kept, is_root, "{}", server.said);
    server.stop();
    assert!(!socket.exists() && !pid.exists());
}
