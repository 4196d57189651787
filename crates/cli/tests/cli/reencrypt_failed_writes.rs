// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes of `reencrypt` that fail at each place of the data and of what protects a zone, as on a full disk.

use std::fs;

use super::{
    reencrypt::at,
    reencrypt_killed::{Files, LEN, folder},
};
use crate::support::{FAST, Folder, Outcome, bytes, shell_without_terminal};

/// Bytes before a volume that is not the whole file, so that it begins within a page.
const BEFORE: usize = (64 << 10) + 1536;

struct Case {
    /// The command that makes the volume. None: the data are plain.
    make: Option<&'static str>,
    /// The bytes before the volume, and after its data.
    around: [usize; 2],
    /// The options that begin the re-encryption, and those that continue it.
    begin: &'static str,
    go_on: &'static str,
    /// From this byte of the file on, writes fail.
    from: usize,
}

const CASES: [Case; 6] = [
    Case {
        make: Some("encrypt --luks2-keyslots-size 992K"),
        around: [0, 0],
        begin: "--resilience journal",
        go_on: "",
        from: 600 << 10,
    },
    Case {
        make: Some("encrypt --luks2-keyslots-size 992K"),
        around: [BEFORE, 0],
        begin: "--resilience journal --volume-offset 67072",
        go_on: "--volume-offset 67072",
        from: BEFORE + (600 << 10),
    },
    Case {
        make: Some("encrypt --luks2-keyslots-size 992K"),
        around: [0, 0],
        begin: "--resilience checksum --sector-size 4096",
        go_on: "",
        from: 1 << 20,
    },
    Case {
        make: None,
        around: [0, 2 << 20],
        begin: "--encrypt --reduce-device-size 2M",
        go_on: "",
        from: 1 << 20,
    },
    Case {
        make: None,
        around: [0, 0],
        begin: "--encrypt --resilience journal --header h",
        go_on: "--header h",
        from: 0,
    },
    Case {
        make: Some("encrypt --luks2-keyslots-size 992K"),
        around: [0, 0],
        begin: "--decrypt --header h",
        go_on: "--header h",
        from: 0,
    },
];

/// Runs `reencrypt`, which can write to the first `limit` bytes of a file. A write that begins there is
/// shortened. The others fail, or kill the program.
fn limited(folder: &Folder, limit: usize, fails: bool, options: &str) -> Outcome {
    let trap = if fails { "trap '' XFSZ;" } else { "" };
    let line = format!(
        "{trap} exec prlimit --core=0 --fsize={limit} \"$luxor\" \
         reencrypt --hotzone-size 256K --key-file key {options} v"
    );
    shell_without_terminal(&line, folder.path())
}

fn data(folder: &Folder, case: &Case) -> Vec<u8> {
    if case.begin.contains("--decrypt") {
        return fs::read(folder.join("v")).unwrap();
    }
    let line = format!("decrypt --force --key-file key {} v out", case.go_on);
    at(folder, &line).ok();
    fs::read(folder.join("out")).unwrap()
}

#[test]
fn a_write_that_fails_anywhere_stops_it_and_loses_nothing() {
    for case in &CASES {
        let folder = folder(case.make);
        let [before, after] = case.around;
        let made = fs::read(folder.join("v")).unwrap();
        folder.write("v", [bytes(before, 7), made, vec![0; after]].concat());
        let begin = format!("reencrypt --init-only --key-file key {} v", case.begin);
        at(&folder, &begin).args(FAST).ok();
        let files = Files::of(&folder);
        let end = fs::read(folder.join("v")).unwrap().len();
        let mut failed = 0;
        // Checksums protect whole blocks. A journal also permits writes that end anywhere, which direct ones
        // cannot.
        let step = if case.begin.contains("journal") {
            31 * 4096 + 3940
        } else {
            31 * 4096
        };
        for (number, limit) in (case.from..=end).step_by(step).enumerate() {
            files.restore(&folder);
            let mut is_done = false;
            for fails in [number % 2 == 0, true] {
                let outcome = limited(&folder, limit, fails, case.go_on);
                is_done = outcome.code == Some(0);
                if is_done {
                    break;
                }
                assert!(!fails || outcome.code == Some(1), "{limit}: {outcome:#?}");
                failed += 1;
            }
            if !is_done {
                let line = format!("reencrypt --key-file key {} v", case.go_on);
                at(&folder, &line).ok();
            }
            let found = data(&folder, case);
            assert!(found[..LEN] == bytes(LEN, 3), "{} {limit}", case.begin);
            let around = fs::read(folder.join("v")).unwrap();
            assert!(around[..before] == bytes(before, 7), "{}", case.begin);
        }
        eprintln!("{}: {failed} failed", case.begin);
        assert!(failed > 8, "{}: {failed}", case.begin);
    }
}

/// Other programs may change the metadata, which they lock, while the data are changed.
#[test]
fn nothing_but_whole_copies_is_written_where_the_metadata_are() {
    const COPY: usize = 16 << 10;
    let in_front = |case: &&Case| case.go_on.is_empty();
    for case in CASES.iter().filter(in_front) {
        let folder = folder(case.make);
        let made = fs::read(folder.join("v")).unwrap();
        folder.write("v", [made, vec![0; case.around[1]]].concat());
        let begin = format!("reencrypt --init-only --key-file key {} v", case.begin);
        at(&folder, &begin).args(FAST).ok();
        let line = format!(
            "strace -f -qq -s 0 -o trace -P v -e trace=pwrite64 \"$luxor\" \
             reencrypt --hotzone-size 256K --key-file key {} v",
            case.go_on
        );
        shell_without_terminal(&line, folder.path()).assert_code(0);
        let trace = fs::read_to_string(folder.join("trace")).unwrap();
        // Each line has the length and the offset after the bytes, which are left out.
        let writes = trace
            .lines()
            .filter_map(|line| line.split_once("\"\"..., "));
        let writes = writes.map(|(_, numbers)| {
            let numbers = numbers.split(|c: char| !c.is_ascii_digit());
            let mut numbers = numbers.filter_map(|number| number.parse::<usize>().ok());
            (numbers.next().unwrap(), numbers.next().unwrap())
        });
        let writes: Vec<_> = writes.collect();
        assert!(writes.len() > 8, "{}: {trace}", case.begin);
        let mut metadata = writes.iter().filter(|(_, at)| *at < 2 * COPY);
        let others = metadata.find(|(len, at)| *len != COPY || !at.is_multiple_of(COPY));
        assert_eq!(others, None, "{}", case.begin);
    }
}
