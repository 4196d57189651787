// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels' main loops, as the compiler made them.
//!
//! A *pass* is one way once through a loop, what is inside inner loops not
//! counted. A loop is a main loop if each of its passes ends AES for at least
//! [`DEPTH`] registers, and if, in XTS, each makes tweaks, by carry-less
//! multiplication. In each main loop
//!
//! - AES instructions per block are exactly rounds · 16 / bytes of a register:
//!   for `vaes512` rounds / 4;
//! - as many blocks are stored, so nothing is spilled by another way than to the
//!   stack; one block more may be the tweak that is used up, wiped;
//! - no function is called;
//! - in `vaes512` nothing is stored to the stack, and there are no shifts by bit
//!   counts: Intel's CPUs have them, in 512 bits, on the port that AES needs each
//!   cycle, and on no other;
//! - other instructions are as few as [`LIMITS`] says.
//!
//! And all that the kernels are made of has ended up in their entry functions:
//! elsewhere it would be compiled without the instructions that it needs.

use std::{cmp::Reverse, collections::BTreeMap, path::Path};

use super::{
    Slack,
    disassembly::{Function, Instruction, Listing, is_panic},
    flow::{Flow, Span},
    table, verdict,
};

/// Where the entry functions are: then the kernel's name, `::entry::`, the function's.
const KERNELS: &str = "luxor_engine::kernel::x86::";

/// Registers that go through AES side by side: that of the engine.
const DEPTH: u32 = 8;

/// For each main loop of a function for a number of rounds, the longest first: the
/// most in one pass, of blocks, AES instructions, other instructions on vector
/// registers, instructions on no vector register, stores to the stack, and loads
/// from there.
///
/// In XTS the longest is the one at the border of two units, where the next unit's
/// first tweaks are made; then come those inside a unit, for units of whole passes
/// and for others. CTR's second is for a message whose counter wraps.
///
/// `vaes512` has 32 registers, and all that a pass needs fits them. The other
/// kernels have 16, which the blocks and their tweaks fill: what makes the next
/// tweaks between the rounds goes through the stack.
const LIMITS: &str = "
kernel   function     rounds  loop  blocks  aes  vector  scalar  spills  reloads
aesni    ctr          10      1     8       80   90      22      6       8
aesni    ctr          10      2     8       80   90      22      6       8
aesni    ctr          14      1     8       112  93      22      6       8
aesni    ctr          14      2     8       112  93      22      6       8
aesni    decrypt      10      1     8       80   266     24      63      80
aesni    decrypt      10      2     8       80   132     21      13      19
aesni    decrypt      10      3     8       80   132     23      12      17
aesni    decrypt      14      1     8       112  323     24      88      104
aesni    decrypt      14      2     8       112  137     23      12      18
aesni    decrypt      14      3     8       112  136     21      13      19
aesni    ecb_decrypt  10      1     8       80   42      22      0       0
aesni    ecb_decrypt  14      1     8       112  46      22      0       0
aesni    ecb_encrypt  10      1     8       80   42      22      0       0
aesni    ecb_encrypt  14      1     8       112  46      22      0       0
aesni    encrypt      10      1     8       80   266     24      63      80
aesni    encrypt      10      2     8       80   132     21      13      19
aesni    encrypt      10      3     8       80   132     23      12      17
aesni    encrypt      14      1     8       112  323     24      88      104
aesni    encrypt      14      2     8       112  137     23      12      18
aesni    encrypt      14      3     8       112  136     21      13      19
vaes256  ctr          10      1     16      80   69      24      8       10
vaes256  ctr          10      2     16      80   69      24      8       10
vaes256  ctr          14      1     16      112  72      24      7       9
vaes256  ctr          14      2     16      112  72      24      7       9
vaes256  decrypt      10      1     16      80   132     26      17      22
vaes256  decrypt      10      2     16      80   116     26      15      21
vaes256  decrypt      10      3     16      80   116     23      15      19
vaes256  decrypt      14      1     16      112  135     26      17      22
vaes256  decrypt      14      2     16      112  121     26      16      21
vaes256  decrypt      14      3     16      112  116     23      14      19
vaes256  ecb_decrypt  10      1     16      80   34      24      0       0
vaes256  ecb_decrypt  14      1     16      112  38      24      0       0
vaes256  ecb_encrypt  10      1     16      80   34      24      0       0
vaes256  ecb_encrypt  14      1     16      112  38      24      0       0
vaes256  encrypt      10      1     16      80   132     28      17      22
vaes256  encrypt      10      2     16      80   116     25      15      20
vaes256  encrypt      10      3     16      80   116     23      15      20
vaes256  encrypt      14      1     16      112  135     28      17      21
vaes256  encrypt      14      2     16      112  121     25      16      20
vaes256  encrypt      14      3     16      112  116     23      14      20
vaes512  ctr          10      1     32      80   52      27      0       0
vaes512  ctr          10      2     32      80   52      27      0       0
vaes512  ctr          14      1     32      112  56      27      0       0
vaes512  ctr          14      2     32      112  56      27      0       0
vaes512  decrypt      10      1     32      80   82      31      0       1
vaes512  decrypt      10      2     32      80   74      28      0       1
vaes512  decrypt      10      3     32      80   74      27      0       1
vaes512  decrypt      14      1     32      112  86      31      0       1
vaes512  decrypt      14      2     32      112  78      28      0       1
vaes512  decrypt      14      3     32      112  78      27      0       1
vaes512  ecb_decrypt  10      1     32      80   33      27      0       0
vaes512  ecb_decrypt  14      1     32      112  37      27      0       0
vaes512  ecb_encrypt  10      1     32      80   33      27      0       0
vaes512  ecb_encrypt  14      1     32      112  37      27      0       0
vaes512  encrypt      10      1     32      80   82      31      0       1
vaes512  encrypt      10      2     32      80   74      28      0       1
vaes512  encrypt      10      3     32      80   74      27      0       1
vaes512  encrypt      14      1     32      112  86      31      0       2
vaes512  encrypt      14      2     32      112  78      28      0       1
vaes512  encrypt      14      3     32      112  78      27      0       1
";

/// Of all but `blocks` and `aes`; of numbers under 20 nothing is near enough.
const SLACK: Slack = Slack {
    more: 5.0,
    less: 10.0,
};

/// A main loop; a row of [`LIMITS`].
struct Row<'a> {
    kernel: &'a str,
    function: &'a str,
    rounds: u32,
    number: usize,
    /// Of each of [`MOST`].
    most: [u32; MOST.len()],
}

/// What has a limit, in the order of the columns.
const MOST: [(What, &str); 6] = [
    (What::Blocks, "blocks"),
    (What::Aes, "AES instructions"),
    (What::Vector, "other vector instructions"),
    (What::Scalar, "instructions on no vector register"),
    (What::Spills, "stores to the stack"),
    (What::Reloads, "loads from the stack"),
];

/// Looks at the kernels in `program` and compares them with the limits.
pub fn check(program: &Path) -> Result<String, String> {
    let listing = Listing::of(program)?;
    let functions = listing.functions();
    if !functions.iter().any(|f| entry(f.name).is_some()) {
        let program = program.display();
        return Err(format!(
            "{program} names no function {KERNELS}…::entry::…: is it stripped?"
        ));
    }
    let mut wrong = outside(&functions);
    let mut rows = Vec::new();
    for function in &functions {
        match entry(function.name) {
            // OFB waits for each block: it has no passes.
            None | Some((_, "ofb")) => {}
            Some((kernel, name)) => {
                wrong.extend(calls(function));
                match main_loops(function, kernel, name) {
                    Ok(loops) => rows.extend(loops),
                    Err(error) => wrong.push(error),
                }
            }
        }
    }
    rows.sort_by_key(Row::case);
    let words: Vec<Vec<String>> = rows.iter().map(Row::words).collect();
    table::print(table::head(LIMITS), &words);
    let (more, lower) = compare(&rows, &limits(LIMITS));
    wrong.extend(more);
    verdict(&shares(&rows), &wrong, lower, file!())
}

/// What part of the instructions AES is, in the worst pass of each kernel.
fn shares(rows: &[Row<'_>]) -> String {
    let mut least: BTreeMap<&str, u32> = BTreeMap::new();
    for row in rows {
        let [_, aes, vector, scalar, ..] = row.most;
        let share = 100 * aes / (aes + vector + scalar);
        let least = least.entry(row.kernel).or_insert(share);
        *least = share.min(*least);
    }
    let least = least
        .iter()
        .map(|(kernel, share)| format!("{kernel} {share} %"));
    format!("AES is at least: {}", least.collect::<Vec<_>>().join(", "))
}

/// The kernel and the function's name, of an entry function.
fn entry(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(KERNELS)?.split_once("::entry::")
}

/// What is not inlined and should be.
fn outside(functions: &[Function<'_>]) -> Vec<String> {
    let is_outside = |function: &&Function<'_>| {
        let in_engine = function.name.contains("luxor_engine::");
        entry(function.name).is_none()
            && function.code.iter().any(|i| {
                let is_wide = i.register_bytes().is_some_and(|bytes| bytes > 16);
                i.is_aes() || in_engine && (i.is_carryless() || is_wide)
            })
    };
    let outside = functions.iter().filter(is_outside);
    outside
        .map(|f| format!("{} has a kernel's instructions: it is not inlined", f.name))
        .collect()
}

/// The functions that an entry function calls and should not.
fn calls(function: &Function<'_>) -> Vec<String> {
    const COPIES: [&str; 4] = ["memcpy", "memmove", "memset", "memcmp"];
    let mut others: Vec<&str> = function.code.iter().filter_map(|i| i.callee).collect();
    others.retain(|name| {
        let is_copy = name
            .split('@')
            .next()
            .is_some_and(|name| COPIES.contains(&name));
        *name != function.name && !is_copy && !is_panic(name)
    });
    others.sort_unstable();
    others.dedup();
    others
        .iter()
        .map(|name| {
            format!(
                "{} calls {name}, which is neither a copy nor a panic",
                function.name
            )
        })
        .collect()
}

/// What is counted in a pass.
#[derive(Clone, Copy)]
enum What {
    Aes,
    /// Other instructions on vector registers.
    Vector,
    /// Instructions on no vector register.
    Scalar,
    /// Blocks that end AES.
    Blocks,
    /// Blocks of bytes that vector registers store, the stack apart.
    Stored,
    Multiplications,
    BitShifts,
    Spills,
    Reloads,
    Calls,
}

const KINDS: usize = What::Calls as usize + 1;

fn count(instruction: &Instruction<'_>, rbp_is_frame: bool) -> [u32; KINDS] {
    let i = instruction;
    let blocks = i.register_bytes().unwrap_or(0) / 16;
    let on_stack = i.is_on_stack(rbp_is_frame);
    let mut counts = [0; KINDS];
    let mut add = |what: What, number: u32| counts[what as usize] += number;
    let kind = match blocks {
        0 => What::Scalar,
        _ if i.is_aes() => What::Aes,
        _ => What::Vector,
    };
    add(kind, 1);
    add(What::Blocks, if i.is_last_round() { blocks } else { 0 });
    add(
        What::Stored,
        if i.is_store() && !on_stack { blocks } else { 0 },
    );
    add(What::Multiplications, u32::from(i.is_carryless()));
    add(What::BitShifts, u32::from(is_bit_shift(i.mnemonic)));
    add(What::Spills, u32::from(i.is_store() && on_stack));
    add(What::Reloads, u32::from(i.is_load() && on_stack));
    add(What::Calls, u32::from(i.is_call()));
    counts
}

/// A vector's shift or rotation by bits. Those by bytes end in `dq`.
fn is_bit_shift(mnemonic: &str) -> bool {
    const BEGINNINGS: [&str; 7] = [
        "vpsll", "vpsrl", "vpsra", "vprol", "vpror", "vpshld", "vpshrd",
    ];
    BEGINNINGS.iter().any(|start| mnemonic.starts_with(start))
        && !matches!(mnemonic, "vpslldq" | "vpsrldq")
}

/// The bytes of a kernel's registers, in blocks.
fn lanes(kernel: &str) -> Result<u32, String> {
    match kernel {
        "aesni" => Ok(1),
        "vaes256" => Ok(2),
        "vaes512" => Ok(4),
        other => Err(format!("the kernel {other} has no limits")),
    }
}

/// The main loops of a function, with all checked that needs no limits.
fn main_loops<'a>(
    function: &Function<'_>,
    kernel: &'a str,
    name: &'a str,
) -> Result<Vec<Row<'a>>, String> {
    let lanes = lanes(kernel)?;
    let makes_tweaks = matches!(name, "encrypt" | "decrypt");
    let flow = Flow::of(function)?;
    let rbp_is_frame = function.rbp_is_frame();
    let mut rows: Vec<Row<'_>> = Vec::new();
    for body in flow.loops() {
        let pass = flow.extremes(&body, |i| count(&function.code[i], rbp_is_frame));
        let least = |what: What| pass[what as usize].least;
        if least(What::Blocks) < DEPTH * lanes
            || makes_tweaks && least(What::Multiplications) < DEPTH
        {
            continue;
        }
        let at = function.code[flow.start(&body)].address;
        rows.push(Row {
            kernel,
            function: name,
            rounds: rounds_of(&pass, lanes)
                .map_err(|e| format!("{kernel} {name}, the main loop at {at:x}: {e}"))?,
            number: 0,
            most: MOST.map(|(what, _)| pass[what as usize].most),
        });
    }
    rows.sort_by_key(|row| Reverse(row.most[1..].iter().sum::<u32>()));
    for (number, row) in (1..).zip(&mut rows) {
        row.number = number;
    }
    if rows.iter().any(|row| row.rounds != rows[0].rounds) {
        return Err(format!("{kernel} {name} has loops of 10 rounds and of 14"));
    }
    if rows.is_empty() {
        let tweaks = if makes_tweaks {
            " and makes tweaks"
        } else {
            ""
        };
        return Err(format!(
            "{kernel} {name} at {:x} has no main loop, each pass of which takes {} blocks{tweaks}",
            function.code.first().map_or(0, |i| i.address),
            DEPTH * lanes
        ));
    }
    Ok(rows)
}

/// The rounds of AES in a pass, or what is wrong with it whatever the limits.
fn rounds_of(pass: &[Span; KINDS], lanes: u32) -> Result<u32, String> {
    let of = |what: What| pass[what as usize];
    let blocks = DEPTH * lanes;
    if !of(What::Blocks).is(blocks) {
        return Err(format!(
            "a pass takes {} blocks, not {blocks}",
            of(What::Blocks)
        ));
    }
    // One more for the tweak that is used up.
    let stored = of(What::Stored);
    if !(blocks..=blocks + 1).contains(&stored.least) || stored.most > blocks + 1 {
        return Err(format!("a pass stores {stored} blocks, not {blocks}"));
    }
    let aes = of(What::Aes);
    let rounds = aes.least / DEPTH;
    if !matches!(rounds, 10 | 14) || !aes.is(rounds * DEPTH) {
        return Err(format!(
            "{aes} AES instructions for {blocks} blocks, and not {} or {}",
            10 * DEPTH,
            14 * DEPTH
        ));
    }
    if !of(What::Calls).is(0) {
        return Err("it calls a function".to_owned());
    }
    if lanes == 4 && !of(What::Spills).is(0) {
        return Err(format!("stores to the stack: {}", of(What::Spills)));
    }
    if lanes == 4 && !of(What::BitShifts).is(0) {
        let shifts = of(What::BitShifts);
        return Err(format!(
            "shifts by bit counts, which take the port of AES: {shifts}"
        ));
    }
    Ok(rounds)
}

impl<'a> Row<'a> {
    /// Which loop it is.
    fn case(&self) -> (&'a str, &'a str, u32, usize) {
        (self.kernel, self.function, self.rounds, self.number)
    }

    fn name(&self) -> String {
        let (kernel, function, rounds, number) = self.case();
        format!("{kernel} {function}, {rounds} rounds, loop {number}")
    }

    fn words(&self) -> Vec<String> {
        let (kernel, function, rounds, number) = self.case();
        let case = [
            kernel.into(),
            function.into(),
            rounds.to_string(),
            number.to_string(),
        ];
        case.into_iter()
            .chain(self.most.map(|n| n.to_string()))
            .collect()
    }
}

fn limits(text: &str) -> Vec<Row<'_>> {
    let rows = table::rows::<{ 4 + MOST.len() }>(text).into_iter();
    rows.map(|[kernel, function, rounds, number, most @ ..]| Row {
        kernel,
        function,
        rounds: table::number(rounds),
        number: table::number(number),
        most: most.map(table::number),
    })
    .collect()
}

/// What is wrong, and how many rows of limits could be lower.
fn compare(found: &[Row<'_>], limits: &[Row<'_>]) -> (Vec<String>, usize) {
    let mut wrong = Vec::new();
    let mut lower = 0;
    for row in found {
        let name = row.name();
        let Some(limit) = limits.iter().find(|limit| limit.case() == row.case()) else {
            wrong.push(format!("{name}: there is no limit"));
            continue;
        };
        let mut is_far_below = false;
        for (((what, of_what), found), most) in MOST.iter().zip(row.most).zip(limit.most) {
            let is_exact = matches!(what, What::Blocks | What::Aes);
            if found > most && (is_exact || SLACK.is_too_much(found, most)) {
                wrong.push(format!(
                    "{name}: {found} {of_what} in a pass, and the limit is {most}"
                ));
            }
            is_far_below |= SLACK.is_far_below(found, most);
        }
        lower += usize::from(is_far_below);
    }
    for limit in limits {
        if !found.iter().any(|row| row.case() == limit.case()) {
            wrong.push(format!(
                "{}: it has a limit, and is not found",
                limit.name()
            ));
        }
    }
    (wrong, lower)
}

#[cfg(test)]
mod tests {
    use super::{super::disassembly::functions, *};

    const NAME: &str = "luxor_engine::kernel::x86::vaes512::entry::encrypt";

    /// A function with one main loop: eight registers loaded, ten rounds, stored,
    /// eight tweaks made, and `more`.
    fn listing(more: &[&str]) -> String {
        let each = |text: &str| (0..8).map(|i| text.replace('#', &i.to_string())).collect();
        let mut code: Vec<String> = vec!["push   rbp".into(), "mov    rbp,rsp".into()];
        let head = code.len();
        let mut rounds = vec!["vaesenc zmm#,zmm#,zmm31"; 9];
        rounds.push("vaesenclast zmm#,zmm#,zmm1#");
        let parts = [
            ["vpxorq zmm#,zmm1#,ZMMWORD PTR [rsi+0x#40]"].as_slice(),
            &rounds,
            &["vmovdqu64 ZMMWORD PTR [rdi+0x#40],zmm#"],
            &["vpclmullqlqdq zmm1#,zmm1#,zmm30"],
        ];
        for text in parts.concat() {
            let lines: Vec<String> = each(text);
            code.extend(lines);
        }
        code.extend(more.iter().map(ToString::to_string));
        code.push("add    rsi,0x200".into());
        code.push(format!("jne    {:x} <{NAME}+0x4>", 0x1000 + 4 * head));
        code.push("ret".into());
        let lines = code.iter().enumerate();
        let lines = lines.map(|(i, text)| format!("    {:x}:\t{text}\n", 0x1000 + 4 * i));
        format!("0000000000001000 <{NAME}>:\n{}", lines.collect::<String>())
    }

    fn loops(code: &str) -> Result<Vec<Row<'static>>, String> {
        main_loops(&functions(code, "")[0], "vaes512", "encrypt")
    }

    fn error(code: &str) -> String {
        loops(code).err().unwrap()
    }

    #[test]
    fn a_pass_is_counted() {
        let rows = loops(&listing(&[])).unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].name(), "vaes512 encrypt, 10 rounds, loop 1");
        assert_eq!(rows[0].most, [32, 80, 24, 2, 0, 0]);
        let reload = ["vmovdqa64 zmm3,ZMMWORD PTR [rbp-0x80]"];
        let row = &loops(&listing(&reload)).unwrap()[0];
        assert_eq!(row.most, [32, 80, 25, 2, 0, 1]);
    }

    #[test]
    fn what_no_limit_permits_is_an_error() {
        for (more, what) in [
            (
                "vaesenc zmm1,zmm1,zmm2",
                "81 AES instructions for 32 blocks, and not 80 or 112",
            ),
            (
                "vpsllvq zmm1,zmm2,zmm3",
                "shifts by bit counts, which take the port of AES: 1",
            ),
            (
                "vmovdqu64 ZMMWORD PTR [rdx],zmm1",
                "a pass stores 36 blocks, not 32",
            ),
            (
                "vaesenclast xmm1,xmm1,xmm2",
                "a pass takes 33 blocks, not 32",
            ),
            ("call   2000 <other>", "it calls a function"),
            (
                "vmovdqa64 ZMMWORD PTR [rsp+0x40],zmm3",
                "stores to the stack: 1",
            ),
        ] {
            assert_eq!(
                error(&listing(&[more])),
                format!("vaes512 encrypt, the main loop at 1008: {what}")
            );
        }
        assert!(loops(&listing(&["vpslldq zmm1,zmm2,0x4"])).is_ok());
    }

    #[test]
    fn a_round_that_is_passed_by_at_times_is_an_error() {
        // A jump over the last of the added instructions.
        let address = 0x1000 + 4 * (2 + 8 * 13 + 2);
        let jump = format!("je     {address:x} <{NAME}+0x0>");
        let code = listing(&[&jump, "vaesenc zmm1,zmm1,zmm2"]);
        assert!(
            error(&code).contains("80 to 81 AES instructions"),
            "{}",
            error(&code)
        );
    }

    #[test]
    fn without_tweaks_it_is_not_the_main_loop() {
        let lost = listing(&[]).replace("vpclmullqlqdq zmm13", "vpxorq zmm13");
        assert_eq!(
            error(&lost),
            "vaes512 encrypt at 1000 has no main loop, each pass of which takes 32 blocks and \
             makes tweaks"
        );
    }

    #[test]
    fn what_is_not_inlined_is_found() {
        let other = |name: &str, code: &str| {
            let code = format!("0000000000002000 <{name}>:\n    2000:\t{code}\n");
            outside(&functions(&code, "")).len()
        };
        assert_eq!(other("core::array::map", "vaesenc zmm1,zmm1,zmm2"), 1);
        assert_eq!(
            other("luxor_engine::mode::xts::pass", "vpxorq zmm1,zmm1,zmm2"),
            1
        );
        assert_eq!(
            other("luxor_engine::mode::xts::pass", "pclmulqdq xmm1,xmm2,0x0"),
            1
        );
        assert_eq!(other("memchr::find", "vpxor ymm1,ymm1,ymm2"), 0);
        assert_eq!(other(NAME, "vaesenc zmm1,zmm1,zmm2"), 0);

        let calls_of = |callee: &str| {
            let code = listing(&[&format!("call   2000 <{callee}>")]);
            calls(&functions(&code, "")[0])
        };
        assert!(calls_of("memcpy@GLIBC_2.14").is_empty());
        assert!(calls_of("core::slice::index::slice_index_fail").is_empty());
        assert_eq!(
            calls_of("core::array::map"),
            [format!(
                "{NAME} calls core::array::map, which is neither a copy nor a panic"
            )]
        );
    }

    #[test]
    fn limits_are_kept() {
        let code = listing(&[]);
        let found = loops(&code).unwrap();
        let against = |row: &str| {
            let table = format!("kernel f rounds loop b a v s s r\nvaes512 encrypt {row}\n");
            compare(&found, &limits(&table))
        };
        assert_eq!(against("10 1 32 80 24 2 0 0"), (vec![], 0));
        assert_eq!(against("10 1 32 80 23 2 0 0"), (vec![], 0));
        assert_eq!(against("10 1 32 80 30 2 0 0"), (vec![], 1));
        for (row, what) in [
            (
                "10 1 32 80 22 2 0 0",
                "24 other vector instructions in a pass, and the limit is 22",
            ),
            (
                "10 1 32 80 24 1 0 0",
                "2 instructions on no vector register in a pass, and the limit is 1",
            ),
        ] {
            assert_eq!(
                against(row).0,
                [format!("vaes512 encrypt, 10 rounds, loop 1: {what}")]
            );
        }
        let reloads = loops(&listing(&["mov    rax,QWORD PTR [rsp]"])).unwrap();
        let wrong = compare(
            &reloads,
            &limits("kernel f rounds loop b a v s s r\nvaes512 encrypt 10 1 32 80 24 3 0 0"),
        )
        .0;
        assert_eq!(
            wrong,
            [
                "vaes512 encrypt, 10 rounds, loop 1: 1 loads from the stack in a pass, and the limit is 0"
            ]
        );
        let missing = against("10 2 32 80 24 2 0 0").0;
        assert_eq!(
            missing,
            [
                "vaes512 encrypt, 10 rounds, loop 1: there is no limit",
                "vaes512 encrypt, 10 rounds, loop 2: it has a limit, and is not found"
            ]
        );
    }
}
