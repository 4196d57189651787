// SPDX-License-Identifier: MIT OR Apache-2.0
//! A volume is re-encrypted while clients write to it, and the server is killed meanwhile.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    sync::mpsc,
};

use nix::{
    fcntl::{Flock, FlockArg},
    sys::signal::Signal,
};

use crate::{
    raw::Client,
    stamps::{LEN, Notes, blank},
    support::{FOR_EVER, Kind, Random, Server, Volume, assert_same, must_succeed},
};

const REENCRYPT: &str = "--reencrypt --hotzone-size 8K";
/// The work takes two seconds and more.
const SLOWLY: &str = "--reencrypt --hotzone-size 8K --reencrypt-rate 256K";

fn is_under_way(volume: &Volume) -> bool {
    volume
        .run("cryptsetup luksDump --dump-json-metadata volume", &[])
        .contains("online-reencrypt")
}

/// Begins with a cheap keyslot.
fn begin(volume: &Volume) {
    let line = "--init-only --key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000 volume";
    must_succeed(volume.luxor("reencrypt").args(line.split_whitespace()));
}

/// Waits for a line of the log that contains `words`.
#[track_caller]
fn logs(server: &Server, words: &str) {
    while !server.log.recv_timeout(FOR_EVER).unwrap().contains(words) {}
}

#[test]
fn kills_under_load_lose_nothing_and_the_volume_is_finished() {
    let mut random = Random(11);
    for by_server in [true, false] {
        let volume = Volume::new(Kind::EXAMPLE, &blank());
        begin(&volume);
        let notes = Notes::new();
        let mut begun = 0;
        for round in 0..8 {
            let server = volume.serve(SLOWLY);
            notes.check(&Client::new(&volume).read(0, LEN).unwrap());
            let (word, words) = mpsc::channel();
            notes.load(&volume, 1000 * round, &word, || {
                for _ in 0..random.below(150) {
                    words.recv_timeout(FOR_EVER).unwrap();
                }
                server.signal(Signal::SIGKILL);
            });
            assert_eq!(server.ended().0, None, "it was killed");
            if !is_under_way(&volume) {
                break;
            }
            begun += 1;
        }
        assert!(begun > 0);
        if !is_under_way(&volume) {
            begin(&volume);
        }
        if by_server {
            let server = volume.serve(REENCRYPT);
            let (word, _words) = mpsc::channel();
            notes.load(&volume, 9000, &word, || {
                logs(&server, "is done");
                server.signal(Signal::SIGTERM);
            });
            assert_eq!(server.ended(), (Some(0), String::new()));
        } else {
            must_succeed(
                volume
                    .luxor("reencrypt")
                    .args(["--key-file", "key", "volume"]),
            );
        }
        assert!(!is_under_way(&volume));
        let newest = notes.check(&volume.decrypted());
        assert!(newest > 2, "{newest}: there was no load");
        notes.check(&volume.independent());
        let test = "cryptsetup open --test-passphrase --key-file key volume";
        volume.run(test, &[]);
    }
}

/// The costs of the new keyslot are the usual ones, so nothing else opens it here.
#[test]
fn a_server_begins_and_stops() {
    let plain = blank();
    let volume = Volume::new(Kind::EXAMPLE, &plain);
    let reads = || assert_same(&Client::new(&volume).read(0, LEN).unwrap(), &plain);
    let server = volume.serve("--reencrypt=begun");
    reads();
    server.stop();
    assert!(!is_under_way(&volume));
    let server = volume.serve("--reencrypt --hotzone-size 4K --reencrypt-rate 4K");
    logs(&server, "the re-encryption of volume begins");
    reads();
    server.stop();
    assert!(is_under_way(&volume));
}

/// All data are one zone, after which the pause would last days. `cryptsetup reencrypt` would destroy a volume
/// that is stopped in that pause.
#[test]
fn nothing_waits_after_the_last_zone() {
    let volume = Volume::new(Kind::EXAMPLE, &blank());
    begin(&volume);
    let server = volume.serve("--reencrypt --hotzone-size 64M --reencrypt-rate 1");
    logs(&server, "is done");
    server.stop();
    assert!(!is_under_way(&volume));
    assert_same(&volume.independent(), &blank());
}

/// cryptsetup's lock on the metadata of a device is a file, which the confined server makes for each change.
#[test]
fn a_device_is_reencrypted_too() {
    let volume = Volume::new(Kind::EXAMPLE, &blank());
    begin(&volume);
    let device = volume.run("losetup --find --show volume", &[]);
    let device = device.trim();
    let mut luxor = volume.luxor("serve");
    luxor.args(["--key-file", "key", "--socket", "socket"]);
    luxor.args(REENCRYPT.split(' ')).arg(device);
    let server = Server::start(luxor);
    logs(&server, "is done");
    server.stop();
    volume.run("losetup --detach", &[device]);
    assert!(!is_under_way(&volume));
    assert_same(&volume.decrypted(), &blank());
}

/// A loop device over the file locks the metadata, for as long as it exists.
#[test]
fn it_waits_for_a_lock_on_the_metadata() {
    let volume = Volume::new(Kind::EXAMPLE, &blank());
    begin(&volume);
    let server = volume.serve("--reencrypt=begun --hotzone-size 8K --reencrypt-rate 64K");
    logs(&server, "the re-encryption of volume continues");
    let device = volume.run("losetup --find --show --read-only volume", &[]);
    logs(&server, "waits");
    volume.run("losetup --detach", &[device.trim()]);
    assert_same(&Client::new(&volume).read(0, LEN).unwrap(), &blank());
    logs(&server, "0 % of volume are re-encrypted");
    server.stop();
    assert!(is_under_way(&volume));
    let server = volume.serve(REENCRYPT);
    logs(&server, "is done");
    server.stop();
    assert_same(&volume.decrypted(), &blank());
}

/// No request waits for the lock, and the server ends at once.
#[test]
fn a_lock_on_the_metadata_stops_nothing_else() {
    let volume = Volume::new(Kind::EXAMPLE, &blank());
    begin(&volume);
    let server = volume.serve("--reencrypt --hotzone-size 8K --reencrypt-rate 256K");
    logs(&server, "10 %");
    let file = File::open(volume.path("volume")).unwrap();
    let lock = Flock::lock(file, FlockArg::LockExclusive).unwrap();
    assert_same(&Client::new(&volume).read(0, LEN).unwrap(), &blank());
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().0, Some(0));
    drop(lock);
    assert!(is_under_way(&volume));
}

/// Another program has put older metadata back.
#[test]
fn a_failure_is_told_at_once_and_at_the_end() {
    let volume = Volume::new(Kind::EXAMPLE, &blank());
    begin(&volume);
    let path = volume.path("volume");
    let before = fs::read(&path).unwrap();
    let server = volume.serve("--reencrypt --hotzone-size 8K --reencrypt-rate 64K");
    logs(&server, "10 %");
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&before[..32 << 10], 0).unwrap();
    logs(&server, "has stopped");
    assert_same(&Client::new(&volume).read(0, LEN).unwrap(), &blank());
    server.signal(Signal::SIGTERM);
    let (code, said) = server.ended();
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("header in the meantime"), "{said}");
}

#[test]
fn what_cannot_be_reencrypted_is_refused() {
    let volume = Volume::new(Kind::Luks1, &[1; 4096]);
    for (options, words) in [
        ("--reencrypt", "LUKS1"),
        ("--reencrypt --read-only", "--read-only"),
        ("--reencrypt --type plain", "--type plain"),
        ("--reencrypt-rate 1M", "--reencrypt"),
        ("--reencrypt --reencrypt-rate 0", "at least 1"),
    ] {
        let output = volume
            .serving(&format!("--socket socket {options}"))
            .output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains(words),
            "{options}: {said}"
        );
    }
}
