// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the main loops of the kernels, as the compiler built them.
//!
//! If a main loop begins to call a function, it is none any more ([`main_loops`]), and its row in
//! the table is missing. In each pass of each main loop
//!
//! - the AES instructions per block are exactly rounds · 16 / bytes of a register, for `vaes512`
//!   rounds / 4;
//! - all blocks are stored;
//! - in `vaes512` no vector register is stored to the stack, and there are no shifts by bit counts
//!   and no GF2P8 instructions: Intel's CPUs execute their 512-bit forms only on the port that AES
//!   needs in each cycle;
//! - there are at most as many other instructions as [`LIMITS`] says.
//!
//! No kernel multiplies integers or uses floating point in registers of more than 128 bits: Intel's
//! CPUs lower the core's clock for these, and keep it low for longer than most calls take.
//!
//! All parts of the kernels must be inlined into their entry functions: elsewhere they would be
//! compiled without the instructions that they need.

use std::collections::BTreeMap;

use super::{
    Slack,
    disassembly::{Function, Instruction, is_panic},
    main_loops::{self, KERNELS, Kind, MainLoop, REST, What, entry},
    table, verdict,
};

/// The main loops of each function for each number of rounds. Loops that do the same share a row.
/// In one pass each of them
///
/// - stores `stored` blocks from vector registers, not counting the stack. Where used tweaks are
///   wiped, or masks are in memory as in `vaes256`, this is more than it takes through AES;
/// - makes `multiply` carry-less multiplications: in XTS one for each register inside a unit; more
///   at the border of two units, for the first tweaks; none where integer instructions make the
///   tweaks or a stream of bits and put them in memory, or for the numbers that tweaks are made of.
///
/// There are at least `loops` such loops, and one pass of any of them has at most
///
/// - `blocks` blocks, and `aes` AES instructions;
/// - `vector` other instructions on vector registers, and `scalar` instructions on none;
/// - `spills` stores to the stack, and `reloads` loads from there.
///
/// `vaes512` has 32 registers, enough for a whole pass. The other kernels have 16, which the blocks
/// and their tweaks fill. So the values for the next tweaks, which are made between the rounds, go
/// through the stack.
const LIMITS: &str = "
kernel   function     rounds  stored  multiply  loops  blocks  aes  vector  scalar  spills  reloads
aesni    cbc_decrypt  10      8       0         1      8       80   54      26      2       5
aesni    cbc_decrypt  12      8       0         1      8       96   57      26      2       5
aesni    cbc_decrypt  14      8       0         1      8       112  58      26      2       5
aesni    ctr          10      8       0         2      8       80   95      27      12      12
aesni    ctr          12      8       0         2      8       96   97      27      11      11
aesni    ctr          14      8       0         2      8       112  98      27      11      11
aesni    decrypt      10      8       0         2      8       80   44      11      0       0
aesni    decrypt      10      8       8         1      8       80   119     26      10      15
aesni    decrypt      10      16      0         2      8       80   79      134     4       41
aesni    decrypt      14      8       0         2      8       112  48      11      0       0
aesni    decrypt      14      8       8         1      8       112  124     26      11      15
aesni    decrypt      14      16      0         2      8       112  82      136     6       29
aesni    ecb_decrypt  10      8       0         1      8       80   42      26      0       0
aesni    ecb_decrypt  12      8       0         1      8       96   44      26      0       0
aesni    ecb_decrypt  14      8       0         1      8       112  46      26      0       0
aesni    ecb_encrypt  10      8       0         1      8       80   42      26      0       0
aesni    ecb_encrypt  12      8       0         1      8       96   44      26      0       0
aesni    ecb_encrypt  14      8       0         1      8       112  46      26      0       0
aesni    encrypt      10      8       0         2      8       80   44      11      0       0
aesni    encrypt      10      8       8         1      8       80   121     25      11      13
aesni    encrypt      10      16      0         2      8       80   78      150     13      34
aesni    encrypt      14      8       0         2      8       112  48      11      0       0
aesni    encrypt      14      8       8         1      8       112  126     25      11      12
aesni    encrypt      14      16      0         2      8       112  82      150     13      34
vaes256  cbc_decrypt  10      16      0         1      16      80   38      30      0       1
vaes256  cbc_decrypt  12      16      0         1      16      96   41      30      0       3
vaes256  cbc_decrypt  14      16      0         1      16      112  42      30      0       1
vaes256  ctr          10      16      0         2      16      80   68      31      8       10
vaes256  ctr          12      16      0         2      16      96   69      31      7       9
vaes256  ctr          14      16      0         2      16      112  71      31      7       9
vaes256  decrypt      10      16      0         2      16      80   36      11      0       1
vaes256  decrypt      10      16      8         3      16      80   112     30      17      24
vaes256  decrypt      10      17      16        1      16      80   115     33      17      23
vaes256  decrypt      10      32      0         2      16      80   76      225     4       28
vaes256  decrypt      10      65      0         1      32      160  194     130     3       11
vaes256  decrypt      14      16      0         2      16      112  40      11      0       1
vaes256  decrypt      14      16      8         3      16      112  109     30      15      23
vaes256  decrypt      14      17      16        1      16      112  124     33      20      26
vaes256  decrypt      14      32      0         2      16      112  82      232     6       31
vaes256  decrypt      14      65      0         1      32      224  202     131     3       12
vaes256  ecb_decrypt  10      16      0         1      16      80   34      30      0       0
vaes256  ecb_decrypt  12      16      0         1      16      96   36      30      0       0
vaes256  ecb_decrypt  14      16      0         1      16      112  38      30      0       0
vaes256  ecb_encrypt  10      16      0         1      16      80   34      30      0       0
vaes256  ecb_encrypt  12      16      0         1      16      96   36      30      0       0
vaes256  ecb_encrypt  14      16      0         1      16      112  38      30      0       0
vaes256  encrypt      10      16      0         2      16      80   36      11      0       1
vaes256  encrypt      10      16      8         3      16      80   107     31      16      24
vaes256  encrypt      10      17      16        1      16      80   115     33      17      23
vaes256  encrypt      10      32      0         2      16      80   78      230     5       30
vaes256  encrypt      10      65      0         1      32      160  194     132     3       12
vaes256  encrypt      14      16      0         2      16      112  40      11      0       1
vaes256  encrypt      14      16      8         3      16      112  110     31      15      23
vaes256  encrypt      14      17      16        1      16      112  124     33      20      26
vaes256  encrypt      14      32      0         2      16      112  82      230     5       30
vaes256  encrypt      14      65      0         1      32      224  202     132     3       12
vaes512  cbc_decrypt  10      32      0         1      32      80   39      37      0       0
vaes512  cbc_decrypt  12      32      0         1      32      96   41      37      0       0
vaes512  cbc_decrypt  14      32      0         1      32      112  43      37      0       0
vaes512  ctr          10      32      0         2      32      80   52      37      0       0
vaes512  ctr          12      32      0         2      32      96   54      37      0       0
vaes512  ctr          14      32      0         2      32      112  56      37      0       0
vaes512  decrypt      10      32      0         2      32      80   36      11      0       1
vaes512  decrypt      10      32      8         3      32      80   66      38      0       2
vaes512  decrypt      10      33      12        1      32      80   70      48      0       7
vaes512  decrypt      10      64      0         1      32      80   75      397     0       54
vaes512  decrypt      14      32      0         2      32      112  40      11      0       1
vaes512  decrypt      14      32      8         3      32      112  70      38      0       2
vaes512  decrypt      14      33      12        1      32      112  74      48      0       7
vaes512  decrypt      14      64      0         1      32      112  79      397     0       54
vaes512  ecb_decrypt  10      32      0         1      32      80   33      37      0       0
vaes512  ecb_decrypt  12      32      0         1      32      96   35      37      0       0
vaes512  ecb_decrypt  14      32      0         1      32      112  37      37      0       0
vaes512  ecb_encrypt  10      32      0         1      32      80   33      37      0       0
vaes512  ecb_encrypt  12      32      0         1      32      96   35      37      0       0
vaes512  ecb_encrypt  14      32      0         1      32      112  37      37      0       0
vaes512  encrypt      10      32      0         2      32      80   36      11      0       1
vaes512  encrypt      10      32      8         3      32      80   66      38      0       1
vaes512  encrypt      10      33      12        1      32      80   70      45      0       5
vaes512  encrypt      10      64      0         1      32      80   75      399     1       53
vaes512  encrypt      14      32      0         2      32      112  40      11      0       1
vaes512  encrypt      14      32      8         3      32      112  70      38      0       1
vaes512  encrypt      14      33      12        1      32      112  74      45      0       5
vaes512  encrypt      14      64      0         1      32      112  79      399     1       53
";

/// The tolerance for instructions other than AES.
const SLACK: Slack = Slack {
    few: 2.0,
    more: 5.0,
};

/// The tolerance for stores to the stack and loads from it: after a small change elsewhere in a
/// function, the compiler may allocate registers differently.
const STACK_SLACK: Slack = Slack {
    few: 4.0,
    more: 25.0,
};

/// Main loops that do the same: a row of [`LIMITS`].
struct Row<'a> {
    kind: Kind<'a>,
    loops: u32,
    /// The value of each of [`MOST`].
    most: [u32; MOST.len()],
}

/// The values with a limit, in the order of the columns.
const MOST: [(What, &str); 6] = [
    (What::Blocks, "blocks"),
    (What::Aes, "AES instructions"),
    (What::Vector, "other vector instructions"),
    (What::Scalar, "instructions on no vector register"),
    (What::Spills, "stores to the stack"),
    (What::Reloads, "loads from the stack"),
];

/// Examines the kernels among a program's functions, and compares them with the limits.
pub fn check(functions: &[Function<'_>]) -> Result<String, String> {
    if !functions.iter().any(|f| entry(f.name).is_some()) {
        return Err(format!(
            "the program names no function {KERNELS}…::entry::…: is it stripped?"
        ));
    }
    let mut wrong = outside(functions);
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for function in functions {
        let Some((kernel, name)) = entry(function.name) else {
            continue;
        };
        wrong.extend(calls(function));
        wrong.extend(heavy(function));
        if !main_loops::has_some(name) {
            continue;
        }
        match main_loops::find(function, kernel, name) {
            Ok(loops) => rows.extend(rows_of(&loops)),
            Err(error) => {
                wrong.push(error);
                failed.push((kernel, name));
            }
        }
    }
    rows.sort_by_key(|row: &Row<'_>| row.kind);
    let words: Vec<Vec<String>> = rows.iter().map(Row::words).collect();
    table::print(table::head(LIMITS), &words);
    // The errors of these functions have been reported.
    let mut limits = limits(LIMITS);
    limits.retain(|row| !failed.contains(&(row.kind.kernel, row.kind.function)));
    rows.retain(|row| !failed.contains(&(row.kind.kernel, row.kind.function)));
    let (more, lower) = compare(&rows, &limits);
    wrong.extend(more);
    wrong.dedup();
    verdict(&shares(&rows), &wrong, lower, file!())
}

/// Returns the lowest share of AES among the instructions inside a unit of XTS.
fn shares(rows: &[Row<'_>]) -> String {
    let mut least: BTreeMap<&str, u32> = BTreeMap::new();
    for row in rows {
        let [blocks, aes, vector, scalar, ..] = row.most;
        if row.kind.multiply > 0 && row.kind.stored == blocks {
            let share = 100 * aes / (aes + row.kind.multiply + vector + scalar);
            let least = least.entry(row.kind.kernel).or_insert(share);
            *least = share.min(*least);
        }
    }
    let least = least
        .iter()
        .map(|(kernel, share)| format!("{kernel} {share} %"));
    let least = least.collect::<Vec<_>>().join(", ");
    format!("AES among the instructions inside a unit: {least}")
}

/// This function uses wide registers, but is not a kernel: it overwrites what kernels have left in
/// them.
const CLEARS_REGISTERS: &str = "luxor_secret::stack::locked::clear_vector_registers";

/// Returns the functions that contain parts of a kernel that should have been inlined.
fn outside(functions: &[Function<'_>]) -> Vec<String> {
    let is_outside = |function: &&Function<'_>| {
        let in_engine = ["luxor_engine::", "luxor_secret::"]
            .iter()
            .any(|name| function.name.contains(name));
        // The TLS library contains assembly with AES, in which names are not paths.
        let is_rust = function.name.contains("::");
        is_rust
            && entry(function.name).is_none()
            && !function.name.contains(CLEARS_REGISTERS)
            && function.code.iter().any(|i| {
                let is_wide = i.register_bytes().is_some_and(|bytes| bytes > 16);
                i.is_aes() || in_engine && (i.is_carryless() || is_wide)
            })
    };
    let outside = functions.iter().filter(is_outside);
    outside
        .map(|f| {
            format!(
                "{} contains instructions of a kernel, but was not inlined",
                f.name
            )
        })
        .collect()
}

/// Returns the functions that an entry function calls but should not call.
fn calls(function: &Function<'_>) -> Vec<String> {
    const COPIES: [&str; 4] = ["memcpy", "memmove", "memset", "memcmp"];
    let mut others: Vec<&str> = function.code.iter().filter_map(|i| i.callee).collect();
    others.retain(|name| {
        let is_copy = name
            .split('@')
            .next()
            .is_some_and(|name| COPIES.contains(&name));
        let is_rest = entry(name).is_some_and(|(_, name)| name == REST);
        *name != function.name && !is_copy && !is_rest && !is_panic(name)
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

/// Returns an error message if an entry function contains instructions that lower the clock.
fn heavy(function: &Function<'_>) -> Option<String> {
    let number = function.code.iter().filter(|i| is_heavy(i)).count();
    (number > 0).then(|| {
        format!(
            "{} has {number} instructions that lower the clock: wide integer multiplications or \
             floating point",
            function.name
        )
    })
}

fn is_heavy(instruction: &Instruction<'_>) -> bool {
    const BEGINNINGS: [&str; 20] = [
        "vpmul", "vpmadd", "vpdp", "vmul", "vdiv", "vfm", "vfnm", "vfc", "vfixup", "vadd", "vsub",
        "vhadd", "vhsub", "vdpp", "vcvt", "vsqrt", "vrcp", "vrsqrt", "vround", "vscale",
    ];
    let name = instruction.mnemonic;
    BEGINNINGS.iter().any(|start| name.starts_with(start))
        // These are shifts.
        && !name.starts_with("vpmultishift")
        && instruction.register_bytes().is_some_and(|bytes| bytes > 16)
}

/// Returns a row for each kind of loop of a function.
fn rows_of<'a>(loops: &[MainLoop<'a, '_>]) -> Vec<Row<'a>> {
    let mut rows: BTreeMap<Kind<'_>, Row<'_>> = BTreeMap::new();
    for one in loops {
        let kind = one.kind;
        let row = rows.entry(kind).or_insert(Row {
            kind,
            loops: 0,
            most: [0; _],
        });
        row.loops += 1;
        for (most, (what, _)) in row.most.iter_mut().zip(MOST) {
            *most = one.number_of(what).most.max(*most);
        }
    }
    rows.into_values().collect()
}

impl Row<'_> {
    fn words(&self) -> Vec<String> {
        let numbers = [self.loops].into_iter().chain(self.most);
        let kind = self.kind.words().into_iter();
        kind.chain(numbers.map(|number| number.to_string()))
            .collect()
    }
}

fn limits(text: &str) -> Vec<Row<'_>> {
    let rows = table::rows::<{ 6 + MOST.len() }>(text).into_iter();
    rows.map(
        |[kernel, function, rounds, stored, multiply, loops, most @ ..]| Row {
            kind: Kind {
                kernel,
                function,
                rounds: table::number(rounds),
                stored: table::number(stored),
                multiply: table::number(multiply),
            },
            loops: table::number(loops),
            most: most.map(table::number),
        },
    )
    .collect()
}

/// Returns what is wrong, and how many rows of limits could be lower.
fn compare(found: &[Row<'_>], limits: &[Row<'_>]) -> (Vec<String>, usize) {
    let mut wrong = Vec::new();
    let mut lower = 0;
    for row in found {
        let kind = row.kind;
        let Some(limit) = limits.iter().find(|limit| limit.kind == kind) else {
            wrong.push(format!("{kind}: no limit is defined"));
            continue;
        };
        if row.loops < limit.loops {
            let (found, least) = (row.loops, limit.loops);
            wrong.push(format!("{kind}: {found} loops instead of at least {least}"));
        }
        let mut is_far_below = false;
        for (((what, of_what), found), most) in MOST.iter().zip(row.most).zip(limit.most) {
            let slack = match what {
                What::Vector | What::Scalar => Some(SLACK),
                What::Spills | What::Reloads => Some(STACK_SLACK),
                _ => None,
            };
            if slack
                .as_ref()
                .map_or(found > most, |slack| slack.is_too_much(found, most))
            {
                wrong.push(format!(
                    "{kind}: {found} {of_what} in a pass, but the limit is {most}"
                ));
            }
            is_far_below |= slack.is_some_and(|slack| slack.is_far_below(found, most));
        }
        lower += usize::from(is_far_below);
    }
    for limit in limits {
        if !found.iter().any(|row| row.kind == limit.kind) {
            wrong.push(format!("{}: not in the program", limit.kind));
        }
    }
    (wrong, lower)
}

#[cfg(test)]
mod tests {
    use super::{super::disassembly::functions, *};

    const NAME: &str = "luxor_engine::kernel::x86::vaes512::entry::encrypt";

    /// A function with one main loop, which loads eight registers, does ten rounds, stores the
    /// registers, makes eight tweaks, and executes `more`.
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
        let functions = functions(code, "");
        let loops = main_loops::find(&functions[0], "vaes512", "encrypt")?;
        Ok(rows_of(&loops))
    }

    fn error(code: &str) -> String {
        loops(code).err().unwrap()
    }

    #[test]
    fn a_pass_is_counted() {
        let rows = loops(&listing(&[])).unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(
            rows[0].kind.to_string(),
            "vaes512 encrypt, 10 rounds, loops with 32 blocks stored and 8 multiplications"
        );
        assert_eq!((rows[0].loops, rows[0].most), (1, [32, 80, 16, 2, 0, 0]));
        let reload = ["vmovdqa64 zmm3,ZMMWORD PTR [rbp-0x80]"];
        let row = &loops(&listing(&reload)).unwrap()[0];
        assert_eq!(row.most, [32, 80, 17, 2, 0, 1]);
    }

    #[test]
    fn code_beyond_every_limit_is_an_error() {
        for (more, what) in [
            (
                "vaesenc zmm1,zmm1,zmm2",
                "81 AES instructions for 32 blocks instead of 80, 96 or 112",
            ),
            (
                "vpsllvq zmm1,zmm2,zmm3",
                "bit shifts or GF2P8 instructions, which use the port of AES: 1",
            ),
            (
                "vgf2p8affineqb zmm1,zmm2,zmm3,0x0",
                "bit shifts or GF2P8 instructions, which use the port of AES: 1",
            ),
            (
                "vaesenclast xmm1,xmm1,xmm2",
                "a pass takes 33 blocks and stores 32",
            ),
            (
                "vmovdqa64 ZMMWORD PTR [rsp+0x40],zmm3",
                "vector registers stored to the stack: 1",
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
    fn a_round_that_is_sometimes_skipped_is_an_error() {
        // A jump over the last added instruction.
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
    fn a_register_that_is_not_stored_is_an_error() {
        let code = listing(&[]).replace("[rdi+0x340],zmm3", "[rsp+0x340],zmm3");
        assert!(error(&code).ends_with("a pass takes 32 blocks and stores 28"));
    }

    #[test]
    fn a_main_loop_takes_whole_passes_and_calls_nothing() {
        for code in [
            listing(&[]).replace("vaesenclast zmm7", "vaesenc zmm7"),
            listing(&["call   2000 <memcpy@GLIBC_2.14>"]),
        ] {
            assert_eq!(
                error(&code),
                "vaes512 encrypt at 1000 has no main loop with passes of 32 blocks"
            );
        }
    }

    /// Linkers write these prefixes when they replace a pointer by its function.
    #[test]
    fn a_call_is_seen_behind_prefixes() {
        for call in ["addr32 call 2000 <f>", "data16 rex.W call 2000 <f>"] {
            let code = listing(&[call]);
            assert!(error(&code).contains("has no main loop"), "{call}");
            assert_eq!(calls(&functions(&code, "")[0]).len(), 1, "{call}");
        }
    }

    #[test]
    fn a_loop_inside_that_takes_no_blocks_is_an_error() {
        let inner = 0x1000 + 4 * (2 + 8 * 13);
        let again = format!("jne    {inner:x} <{NAME}+0x0>");
        let code = listing(&["vmovdqa64 ZMMWORD PTR [rsp+0x40],zmm3", &again]);
        assert_eq!(
            error(&code),
            "vaes512 encrypt, the main loop at 1008: it contains a loop that is not a main loop"
        );
    }

    #[test]
    fn instructions_that_lower_the_clock_are_found() {
        for (more, is_found) in [
            ("vpmuludq zmm1,zmm2,zmm3", true),
            ("vfmadd213pd ymm1,ymm2,ymm3", true),
            ("vpaddq zmm1,zmm2,zmm3", false),
            ("vpmuludq xmm1,xmm2,xmm3", false),
            ("vpmultishiftqb zmm1,zmm2,zmm3", false),
            ("imul   rax,rcx", false),
        ] {
            let found = heavy(&functions(&listing(&[more]), "")[0]);
            assert_eq!(found.is_some(), is_found, "{more}: {found:?}");
        }
    }

    #[test]
    fn functions_that_are_not_inlined_are_found() {
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
        assert_eq!(other("_aesni_encrypt2", "aesenc xmm1,xmm2"), 0);
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
        let against = |more: &[&str], row: &str| {
            let found = listing(more);
            let table = format!("{}\nvaes512 encrypt 10 {row}\n", table::head(LIMITS));
            compare(&loops(&found).unwrap(), &limits(&table))
        };
        assert_eq!(against(&[], "32 8 1 32 80 16 2 0 0"), (vec![], 0));
        assert_eq!(against(&[], "32 8 1 32 80 14 1 0 0"), (vec![], 0));
        assert_eq!(against(&[], "32 8 1 32 80 22 2 0 0"), (vec![], 1));
        let shuffles = ["vpshufd zmm1,zmm1,0x0"; 5];
        let adds = ["add    rax,rcx"; 3];
        let reloads = ["mov    rax,QWORD PTR [rsp]"; 5];
        assert_eq!(against(&reloads[1..], "32 8 1 32 80 16 6 0 0"), (vec![], 0));
        for (more, row, what) in [
            (
                &shuffles,
                "1 32 80 17 2 0 0",
                "21 other vector instructions in",
            ),
            (
                &adds,
                "1 32 80 16 2 0 0",
                "5 instructions on no vector register in",
            ),
            (&[], "1 16 80 16 2 0 0", "32 blocks in"),
            (&[], "2 32 80 16 2 0 0", "1 loops instead of at least 2"),
            (&reloads, "1 32 80 16 7 0 0", "5 loads from the stack in"),
        ] as [(&[&str], &str, &str); 5]
        {
            let (wrong, _) = against(more, &format!("32 8 {row}"));
            assert!(
                wrong.len() == 1 && wrong[0].contains(&format!(": {what}")),
                "{wrong:?}"
            );
        }
        // An additional store, which matches no main loop of the table.
        let (wrong, _) = against(
            &["vmovdqu64 ZMMWORD PTR [rdx],zmm1"],
            "32 8 1 32 80 17 2 0 0",
        );
        let loops = "vaes512 encrypt, 10 rounds, loops with";
        assert_eq!(
            wrong,
            [
                format!("{loops} 36 blocks stored and 8 multiplications: no limit is defined"),
                format!("{loops} 32 blocks stored and 8 multiplications: not in the program"),
            ]
        );
    }
}
