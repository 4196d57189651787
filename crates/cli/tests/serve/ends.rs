// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server ends while clients write. Acknowledged writes must be there.

use std::sync::mpsc;

use nix::sys::signal::Signal;

use crate::{
    raw::Client,
    stamps::{LEN, Notes, blank},
    support::{FOR_EVER, Kind, Random, Volume},
};

/// Waits for `count` acknowledgements.
fn wait_for(words: &mpsc::Receiver<()>, count: usize) {
    for _ in 0..count {
        words.recv_timeout(FOR_EVER).unwrap();
    }
}

#[test]
fn a_hundred_kills_lose_nothing_that_was_acknowledged() {
    let mut random = Random(9);
    for sector_size in [512, 4096] {
        let volume = Volume::new(Kind::Luks2 { sector_size }, &blank());
        let notes = Notes::new();
        for round in 0..50 {
            // The new server replaces the socket and the pid file of the killed one.
            let server = volume.serve("--pid-file pid");
            notes.check(&Client::new(&volume).read(0, LEN).unwrap());
            let (word, words) = mpsc::channel();
            notes.load(&volume, 1000 * round, &word, || {
                wait_for(&words, random.below(500));
                server.signal(Signal::SIGKILL);
            });
            assert_eq!(server.ended().0, None, "it was killed");
        }
        let newest = notes.check(&volume.decrypted());
        assert!(newest > 10, "{newest}: there was no load");
        notes.check(&volume.independent());
    }
}

#[test]
fn a_stop_under_load_keeps_what_was_acknowledged() {
    let volume = Volume::new(Kind::EXAMPLE, &blank());
    let notes = Notes::new();
    for round in 0..10 {
        let server = volume.serve("--pid-file pid");
        assert!(volume.path("pid").exists() && volume.path("socket").exists());
        let (word, words) = mpsc::channel();
        notes.load(&volume, 1000 * round, &word, || {
            wait_for(&words, 200);
            server.signal(Signal::SIGTERM);
        });
        assert_eq!(server.ended(), (Some(0), String::new()));
        assert!(!volume.path("pid").exists() && !volume.path("socket").exists());
        notes.check(&volume.decrypted());
    }
    let newest = notes.check(&volume.independent());
    assert!(newest > 2, "{newest}: there was no load");
}
