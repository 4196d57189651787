// SPDX-License-Identifier: MIT OR Apache-2.0
//! A wrong instruction in a kernel is noticed, by wrong bytes or by a fault.

use luxor_conformance::Random;
use luxor_ptx::{Module, RunError};

use super::{
    SIZES,
    gpu::{Gpu, Layout, PLAIN, Way},
    module, units, wrapping,
};

/// Returns the changed line, if the rule applies to it.
type Rule = fn(&str) -> Option<String>;

/// A rule: the error in an instruction, and the change that causes it.
const RULES: [(&str, Rule); 8] = [
    ("no barrier", |line| {
        line.starts_with("bar.sync").then(String::new)
    }),
    ("no result", |line| {
        line.starts_with("st.global.").then(String::new)
    }),
    ("another operation", |line| {
        Some(format!("and{}", line.strip_prefix("xor")?))
    }),
    ("another byte", |line| {
        let operands = line.strip_prefix("prmt.b32")?.trim_end_matches(';');
        let [d, a, b, c] = operands.split(',').collect::<Vec<_>>().try_into().ok()?;
        Some(format!("prmt.b32 {d}, {b}, {a}, {c};"))
    }),
    ("another rotation", |line| {
        last_number(line, "shf.l.wrap.b32", |n| n + 1)
    }),
    ("another lane's bank", |line| further(line, "ld.shared", 4)),
    ("another entry of a table", |line| {
        further(line, "ld.shared", 256)
    }),
    ("another round key", |line| further(line, "ld.const", 4)),
];

/// Returns the last operand if it is a number.
fn last_number(line: &str, name: &str, change: fn(u64) -> u64) -> Option<String> {
    let (rest, last) = line.trim_end_matches(';').rsplit_once(' ')?;
    let number = last.parse().ok().filter(|_| line.starts_with(name))?;
    Some(format!("{rest} {};", change(number)))
}

/// Returns an address with a larger offset.
fn further(line: &str, name: &str, by: u32) -> Option<String> {
    let (head, rest) = line.split_once(']').filter(|_| line.starts_with(name))?;
    let (base, offset) = head.split_once('+').unwrap_or((head, "0"));
    let offset = offset.parse::<u32>().ok()? + by;
    Some(format!("{base}+{offset}]{rest}"))
}

/// Applies each rule to one line of each kernel.
#[test]
fn a_wrong_instruction_in_any_kernel_is_noticed() {
    for bits in SIZES {
        for name in [
            "xts_tweaks",
            "xts_encrypt",
            "xts_decrypt",
            "xts_tails_encrypt",
            "xts_tails_decrypt",
            "ctr",
        ] {
            let kernel = format!("{name}_{bits}");
            let module = module(bits);
            assert!(is_right(module, &kernel), "{kernel}");
            let lines = module.instructions(&kernel);
            for (what, rule) in RULES {
                let lines = lines.iter();
                let changes: Vec<_> = lines
                    .filter_map(|line| Some((line, rule(line.text)?)))
                    .collect();
                assert!(!changes.is_empty(), "{kernel}: {what}");
                // Take a line from the middle, which is within the rounds.
                let (line, text) = &changes[changes.len() / 2];
                let changed = module.with_line(line.number, text).unwrap();
                assert!(
                    !is_right(&changed, &kernel),
                    "{kernel}, {line:?}: {text} ({what})"
                );
            }
        }
    }
}

/// Returns whether a module's kernel gives the right result.
fn is_right(module: &Module, kernel: &str) -> bool {
    let mut random = Random::new(1);
    let key = random.bytes(kernel[kernel.len() - 3..].parse::<usize>().unwrap() / 4);
    let mut gpu = Gpu::new(module, &key);
    // More than a stretch, with a tail.
    let units = units(&mut random, 3, 5000 + 7);
    let pieces = wrapping(3);
    let layout = Layout { gap: 1, ..PLAIN };
    let right: Result<bool, RunError> = if kernel.starts_with("ctr") {
        gpu.ctr(&units, &pieces, layout)
            .map(|found| found == gpu.ctr_expected(&units, &pieces))
    } else {
        let way = if kernel.contains("decrypt") {
            Way::Decrypt
        } else {
            Way::Encrypt
        };
        gpu.xts(way, &units, &pieces, layout)
            .map(|found| found == gpu.xts_expected(way, &units, &pieces))
    };
    right.unwrap_or(false)
}
