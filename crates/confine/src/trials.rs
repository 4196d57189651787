// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a confined process must not be able to do, tried where a test asks for it by the environment variable
//! `LUXOR_TRIALS`. The program that users get is built without this.

use std::{
    env, fs, io,
    net::{TcpListener, UdpSocket},
    os::unix::{net::UnixDatagram, process::CommandExt},
    process::{self, Command},
    thread,
};

type Trial = fn() -> io::Result<()>;

/// The trials that the process survives, each with its name.
const TRIALS: [(&str, Trial); 7] = [
    ("read", || fs::read("/etc/passwd").map(drop)),
    ("list", || fs::read_dir("/").map(drop)),
    ("make", || fs::write("/tmp/luxor-trial", "made")),
    ("listen", || TcpListener::bind("127.0.0.1:0").map(drop)),
    ("send", || UdpSocket::bind("127.0.0.1:0").map(drop)),
    ("socket", || UnixDatagram::unbound().map(drop)),
    ("start", || Command::new("/bin/true").spawn().map(drop)),
];

/// Prints how each trial ends, on this thread and on a new one: a line `trial NAME: OUTCOME` on standard error.
pub(crate) fn make() {
    match env::var("LUXOR_TRIALS").as_deref() {
        Ok("all") => {
            make_all("here");
            let _ = thread::spawn(|| make_all("new thread")).join();
        }
        // It ends the process, or replaces it by a program that says so.
        Ok("program") => {
            let error = Command::new("/bin/echo").arg("replaced").exec();
            eprintln!("trial program: {error}");
            process::exit(1);
        }
        _ => {}
    }
}

fn make_all(place: &str) {
    for (name, trial) in TRIALS {
        let outcome = trial().map_or_else(|error| error.to_string(), |()| "done".to_owned());
        eprintln!("trial {place} {name}: {outcome}");
    }
}
