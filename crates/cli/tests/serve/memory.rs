// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where secrets are in the memory of the program while it works: in locked pages only.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read, Write},
    os::unix::fs::FileExt,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use luxor_reference::Aes;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::{
    raw::Client,
    support::{FOR_EVER, Kind, Volume, bytes, must_succeed},
};

/// What is looked for: 16 bytes each, with a name.
struct Secrets(BTreeMap<[u8; 16], String>);

impl Secrets {
    fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// All of `bytes`, in pieces at every offset that is a multiple of 16.
    fn add(&mut self, name: &str, bytes: &[u8]) {
        for (number, piece) in bytes.as_chunks::<16>().0.iter().enumerate() {
            self.0.insert(*piece, format!("{name}, block {number}"));
        }
    }

    /// A key of AES, and its first and last round keys: those of encryption, which
    /// decryption has in the other order.
    fn add_schedule(&mut self, name: &str, key: &[u8]) {
        self.add(name, key);
        let schedule = Aes::new(key).schedule().as_flattened().to_vec();
        self.add(&format!("{name}, first round key"), &schedule[..16]);
        let last = &schedule[schedule.len() - 16..];
        self.add(&format!("{name}, last round key"), last);
    }

    /// Waits until nothing of it is in `process` outside the pages of keys: a thread wipes
    /// its stack when it has answered.
    #[track_caller]
    fn must_go_from(&self, process: u32, engine: &str) {
        let begun = Instant::now();
        loop {
            let found = self.found_in(process);
            if found.is_empty() {
                return;
            }
            assert!(begun.elapsed() < FOR_EVER, "{engine}: {found:#?}");
        }
    }

    /// What of it is in `process` outside the pages of keys, and where. These are locked
    /// and wiped in a fork; stacks are locked, and looked at all the same.
    fn found_in(&self, process: u32) -> Vec<String> {
        let mut starts = vec![false; 1 << 16];
        for secret in self.0.keys() {
            starts[usize::from(u16::from_le_bytes([secret[0], secret[1]]))] = true;
        }
        let memory = File::open(format!("/proc/{process}/mem")).unwrap();
        let maps = fs::read_to_string(format!("/proc/{process}/smaps")).unwrap();
        let mut found = Vec::new();
        let (mut range, mut name) = (0..0, String::new());
        for line in maps.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let Some((begin, end)) = words[0].split_once('-') {
                let number = |hex| u64::from_str_radix(hex, 16).unwrap();
                range = number(begin)..number(end);
                name = words.get(5).unwrap_or(&"").to_string();
            }
            let is_for_keys = words.contains(&"lo") && words.contains(&"wf");
            if words[0] != "VmFlags:" || is_for_keys || !words.contains(&"rd") {
                continue;
            }
            let mut content = vec![0; usize::try_from(range.end - range.start).unwrap()];
            for (page, at) in content.chunks_mut(4096).zip((range.start..).step_by(4096)) {
                // Some of the system's own pages cannot be read, and stay zeros here.
                let _ = memory.read_exact_at(page, at);
            }
            for (offset, window) in content.windows(16).enumerate() {
                if starts[usize::from(u16::from_le_bytes([window[0], window[1]]))]
                    && let Some(secret) = self.0.get(window)
                {
                    let at = range.start + offset as u64;
                    found.push(format!("{secret} at {at:#x} in {name:?} of {range:x?}"));
                }
            }
        }
        found
    }
}

/// How many mappings are locked and kept out of dumps, and are not wiped in a fork.
fn locked_stacks(process: u32) -> usize {
    let maps = fs::read_to_string(format!("/proc/{process}/smaps")).unwrap();
    let flags = maps.lines().filter(|line| line.starts_with("VmFlags:"));
    let has = |line: &str, flag| line.split_whitespace().any(|found| found == flag);
    flags
        .filter(|line| has(line, "lo") && has(line, "dd") && !has(line, "wf"))
        .count()
}

/// The names of the CPU's engines that are here.
fn engines(volume: &Volume) -> Vec<String> {
    let mut luxor = volume.luxor("engines");
    let said = must_succeed(luxor.arg("--json"));
    let json: Value = serde_json::from_str(&said).unwrap();
    let engines = json["engines"].as_array().unwrap().iter();
    let here = engines.filter(|engine| {
        engine["device"]
            .as_str()
            .is_some_and(|d| d.starts_with("CPU"))
    });
    here.map(|engine| engine["name"].as_str().unwrap().to_owned())
        .collect()
}

/// A volume, and its secrets.
fn prepared(plain: &[u8]) -> (Volume, Secrets) {
    let volume = Volume::new(Kind::EXAMPLE, plain);
    let mut luxor = volume.luxor("dump");
    let line = "--volume-key --batch-mode --key-file key volume --volume-key-file vk";
    must_succeed(luxor.args(line.split(' ')));
    let key = fs::read(volume.path("vk")).unwrap();
    let mut secrets = Secrets::new();
    let (data, tweak) = key.split_at(key.len() / 2);
    secrets.add_schedule("data key", data);
    secrets.add_schedule("tweak key", tweak);
    let passphrase = fs::read(volume.path("key")).unwrap();
    secrets.add("passphrase", &passphrase);
    // HMAC's (RFC 2104), of a hash with blocks of 64 bytes.
    assert_eq!(passphrase.len(), 64);
    for (name, pad) in [("inner pad", 0x36), ("outer pad", 0x5c)] {
        let padded: Vec<u8> = passphrase.iter().map(|byte| byte ^ pad).collect();
        secrets.add(name, &padded);
    }
    (volume, secrets)
}

#[test]
fn a_server_has_secrets_in_locked_pages_only() {
    let plain = bytes(4 << 20, 9);
    let (volume, secrets) = prepared(&plain);
    for engine in engines(&volume) {
        let server = volume.serve(&format!("--engine {engine}"));
        let mut client = Client::new(&volume);
        for round in 0..20 {
            let found = client.read(round * 4096, 300_000).unwrap();
            assert!(found == plain[round * 4096..][..300_000]);
            let part = &plain[round * 4096..][..4096];
            client.write(round * 4096, part).unwrap();
        }
        // The last reply may be on its way before the stack is wiped.
        secrets.must_go_from(server.pid(), &engine);
        assert!(locked_stacks(server.pid()) > 0, "no stack is locked");
        drop(client);
        server.stop();
    }
}

#[test]
fn decrypting_has_secrets_in_locked_pages_only() {
    let (volume, secrets) = prepared(&bytes(4 << 20, 9));
    for engine in engines(&volume) {
        let mut luxor = volume.luxor("decrypt");
        luxor.args(["--key-file", "key", "--engine", &engine, "volume", "-"]);
        let mut child = luxor.stdout(Stdio::piped()).spawn().unwrap();
        // More is in the way than a pipe takes.
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        secrets.must_go_from(child.id(), &engine);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn deriving_has_secrets_in_locked_pages_only() {
    let (volume, secrets) = prepared(b"plain");
    let mut luxor = volume.luxor("encrypt");
    let line = "--key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 5000000 plain slow";
    must_succeed(luxor.args(line.split(' ')));
    let mut luxor = volume.luxor("key");
    luxor.args("test --key-file key slow".split(' '));
    let mut child = luxor.stdout(Stdio::null()).spawn().unwrap();
    let pid = Pid::from_raw(child.id().try_into().unwrap());
    // In the midst of it: all takes more time of a CPU than this.
    while cpu_ticks(child.id()) < 10 {
        thread::sleep(Duration::from_millis(1));
    }
    kill(pid, Signal::SIGSTOP).unwrap();
    let found = secrets.found_in(child.id());
    assert_eq!(child.try_wait().unwrap(), None, "it was over too early");
    kill(pid, Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    assert!(found.is_empty(), "{found:#?}");
}

/// How many hundredths of a second a process has used.
fn cpu_ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    fields[11].parse().unwrap()
}

/// The scan sees what a program has in ordinary memory.
#[test]
fn the_scan_finds_what_is_not_locked() {
    let secret = bytes(16, 12);
    let mut secrets = Secrets::new();
    secrets.add("secret", &secret);
    let mut child = Command::new("/usr/bin/python3")
        .args([
            "-c",
            "import os; kept = os.read(0, 16); os.write(1, b'.'); os.read(0, 1)",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.as_mut().unwrap().write_all(&secret).unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let found = secrets.found_in(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!found.is_empty());
}
