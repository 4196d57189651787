// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cryptsetup` begins what goes from the end of the data to the beginning, or moves them. It is killed, then
//! Luxor that continues, and either ends it.

use std::fs;

use super::reencrypt::{at, json};
use crate::support::{FAST, Folder, bytes, is_long, shell_without_terminal};

/// Not a multiple of the blocks of the file system, which cryptsetup counts in.
const LEN: usize = (600 << 10) + 3 * 512;

struct Way {
    /// The command that makes the volume. Without one the data are plain, and bytes for a header follow them.
    volume: &'static str,
    /// What begins it.
    begin: &'static str,
    header: &'static str,
    /// What protects the zones of cryptsetup, unless the data move.
    resilience: &'static str,
}

const WAYS: [Way; 3] = [
    Way {
        volume: "",
        begin: "--encrypt --reduce-device-size 1M --luks2-keyslots-size 256k",
        header: "",
        resilience: "",
    },
    Way {
        volume: "encrypt --sector-size 512 --header h",
        begin: "--decrypt",
        header: "--header h",
        // Of a zone that ends within a block, cryptsetup forgets a checksum.
        resilience: "--resilience journal",
    },
    Way {
        volume: "encrypt --sector-size 512 --luks2-keyslots-size 480K",
        begin: "--decrypt",
        header: "--header h",
        resilience: "",
    },
];

/// Numbers of a test that can be repeated.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

impl Way {
    fn metadata(&self) -> &'static str {
        if self.header.is_empty() { "v" } else { "h" }
    }

    /// The files as cryptsetup leaves them when it has begun.
    fn begun(&self) -> Folder {
        let folder = Folder::new();
        folder.write("key", b"correct horse");
        folder.write("plain", bytes(LEN, 3));
        if self.volume.is_empty() {
            let mut data = bytes(LEN, 3);
            data.resize(LEN + (1 << 20), 0);
            folder.write("v", data);
        } else {
            let make = at(&folder, &format!("{} --key-file key plain v", self.volume));
            make.args(FAST).ok();
        }
        let (
            fast,
            Self {
                begin,
                header,
                resilience,
                ..
            },
        ) = (FAST.join(" "), self);
        let line = format!(
            "cryptsetup reencrypt -q --init-only --force-offline-reencrypt --key-file key {fast} \
             {begin} {header} {resilience} v"
        );
        shell_without_terminal(&line, folder.path()).assert_code(0);
        folder
    }

    fn is_under_way(&self, folder: &Folder) -> bool {
        json(folder, self.metadata())["config"]
            .to_string()
            .contains("online-reencrypt")
    }

    /// Continues with one of both programs, which is killed at a sync. Returns whether it was.
    fn run(&self, folder: &Folder, program: Program, kill: Option<u64>, zone: u64) -> bool {
        let Self {
            header, resilience, ..
        } = self;
        let tracer = kill.map_or_else(String::new, |kill| {
            format!(
                "strace -f -qq -o trace -e trace=fsync,fdatasync \
                 -e inject=fsync,fdatasync:signal=KILL:when={kill} "
            )
        });
        let line = match program {
            Program::Luxor => format!(
                "{tracer}\"$luxor\" reencrypt --threads 1 --hotzone-size {zone} --key-file key {header} v"
            ),
            Program::Cryptsetup => format!(
                "cryptsetup repair -q --key-file key {header} v; \
                 {tracer}cryptsetup reencrypt -q --resume-only --force-offline-reencrypt --key-file key \
                 --hotzone-size {}k {resilience} {header} v",
                zone >> 10
            ),
        };
        let outcome = shell_without_terminal(&line, folder.path());
        if kill.is_none() && self.is_under_way(folder) {
            assert!(program == Program::Cryptsetup, "{outcome:?}");
        }
        outcome.code != Some(0)
    }

    fn is_same(&self, folder: &Folder) -> bool {
        let file = if self.begin.contains("--decrypt") {
            "v"
        } else {
            at(folder, "decrypt --force --key-file key v out").ok();
            "out"
        };
        fs::read(folder.join(file)).unwrap()[..LEN] == bytes(LEN, 3)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Program {
    Luxor,
    Cryptsetup,
}

#[test]
fn what_cryptsetup_begins_is_ended_by_turns() {
    let (mut by_luxor, mut by_cryptsetup) = (0, 0);
    for way in WAYS {
        let folder = way.begun();
        let begun = ["v", "h"].map(|name| (name, fs::read(folder.join(name)).ok()));
        for seed in 0..if is_long() { 200 } else { 5 } {
            for (name, bytes) in &begun {
                bytes.as_ref().map(|bytes| folder.write(name, bytes));
            }
            let mut numbers = Numbers(seed);
            let mut done = Vec::new();
            let mut turn = |program, is_killed: bool| {
                let zone = 4096 * (1 + numbers.below(40));
                let kill = is_killed.then(|| 1 + numbers.below(10));
                done.push((program, kill, zone));
                way.run(&folder, program, kill, zone)
            };
            // A state of cryptsetup goes to Luxor: cryptsetup 2.6 does not survive all of its own.
            turn(Program::Cryptsetup, true);
            if way.is_under_way(&folder) {
                turn(Program::Luxor, true);
            }
            if way.is_under_way(&folder) && seed % 2 == 0 {
                turn(Program::Cryptsetup, false);
                by_cryptsetup += usize::from(!way.is_under_way(&folder));
            }
            // Where cryptsetup refuses a state, Luxor ends it.
            if way.is_under_way(&folder) {
                turn(Program::Luxor, false);
                by_luxor += 1;
            }
            assert!(
                !way.is_under_way(&folder),
                "{} seed {seed}: {done:?}",
                way.begin
            );
            assert!(way.is_same(&folder), "{} seed {seed}: {done:?}", way.begin);
        }
    }
    eprintln!("Luxor has ended {by_luxor}, cryptsetup {by_cryptsetup}");
    assert!(
        by_luxor > 2 && by_cryptsetup > 2,
        "{by_luxor} {by_cryptsetup}"
    );
}

/// cryptsetup forgets the checksum of the end of such a zone. No advice may lead to a command that fails.
#[test]
fn a_zone_that_ends_within_a_block_is_finished_by_no_program() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", bytes(LEN, 3));
    let make = at(&folder, "encrypt --sector-size 512 --key-file key plain v");
    make.args(FAST).ok();
    let fast = FAST.join(" ");
    let cryptsetup = "cryptsetup reencrypt -q --force-offline-reencrypt --key-file key";
    // The third sync is that of the metadata before the zone.
    let line = format!(
        "{cryptsetup} --init-only {fast} --resilience checksum v
         strace -f -qq -o /dev/null -e trace=fsync,fdatasync \
         -e inject=fsync,fdatasync:signal=KILL:when=3 {cryptsetup} v
         cp v killed
         ! cryptsetup repair -q --key-file key v || exit 9
         cp killed v"
    );
    shell_without_terminal(&line, folder.path()).assert_code(0);
    let outcome = at(&folder, "decrypt --key-file key v out").run();
    outcome.assert_code(1);
    assert!(
        outcome
            .stderr
            .contains("no program can finish it: restore the volume from a backup")
            && !outcome.stderr.contains("luxor reencrypt"),
        "{outcome:#?}"
    );
    let outcome = at(&folder, "reencrypt --key-file key v").run();
    outcome.assert_code(1);
    assert!(
        outcome.stderr.contains("Restore the volume from a backup."),
        "{outcome:#?}"
    );
}
