// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the kernels on Oclgrind, a simulator of OpenCL devices that watches each memory access. It
//! finds races between work-items, uninitialised values, accesses beyond a buffer, and barriers
//! that not all work-items reach. Other tests check the results of the kernels.
//!
//! `oclgrind-kernel` runs one kernel with the arguments in a file. It exits with success whatever
//! it found, and writes its findings to a log.

use std::{fs, path::Path};

use crate::{
    jobs::{self, Job},
    process::{self, command},
};

/// One run of a kernel.
struct Case {
    program: &'static str,
    kernel: String,
    /// The compiler options, in addition to the common ones.
    options: String,
    /// The number of work-items in a group.
    threads: usize,
    groups: usize,
    arguments: Vec<Argument>,
}

enum Argument {
    /// A buffer with words that the host has written.
    Words(Vec<u32>),
    /// A buffer of this many bytes that the host has written.
    Bytes(usize),
    /// A buffer of this many uninitialised bytes.
    Result(usize),
    /// This many bytes of local memory.
    Local(usize),
    Number(usize),
}

use Argument::{Bytes, Local, Number, Result as Output, Words};

const FOLDER: &str = "target/kernels/oclgrind";
const BLOCK: usize = 16;
const KEY: usize = 192 * 4;

/// REPLICAS, TABLES, THREADS: the layouts of a CPU and of a GPU, both with fewer threads.
const LAYOUTS: [[usize; 3]; 2] = [[1, 1, 32], [32, 2, 64]];

pub fn check() -> Result<String, String> {
    let folder = process::root().join(FOLDER);
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut cases = Vec::new();
    for layout in LAYOUTS {
        for size in [128, 192, 256] {
            cases.extend(ours(layout, size));
        }
    }
    // Of 16 lanes, Oclgrind takes the upper 8 to be uninitialised.
    cases.extend(bitsliced(8));
    // With one lane a round takes three times as long to simulate, and its memory accesses are those
    // of 8 lanes.
    cases.extend(bitsliced(1).filter(|case| case.kernel.starts_with("xts_encrypt")));
    cases.extend(an_seo());
    cases.extend(sanida());
    let list: Result<_, _> = cases.iter().map(|case| job(case, &folder)).collect();
    jobs::run(list?)
}

/// The kernels without tables, with AES-128: the sizes differ in the number of rounds only.
fn bitsliced(lanes: usize) -> impl Iterator<Item = Case> {
    /// Bytes of the round keys of AES-256.
    const ROUND_KEYS: usize = 15 * 32 * 4;
    ours([1, 1, 32], 128).into_iter().map(move |mut case| {
        case.program = "bitsliced.cl";
        case.options += &format!(" -DLANES={lanes}");
        case.groups = 1;
        for argument in &mut case.arguments {
            if let Local(len) = argument {
                *len = ROUND_KEYS;
            }
        }
        case
    })
}

/// Each kernel, with more work than there are threads, except for the tails.
fn ours([replicas, tables, threads]: [usize; 3], size: usize) -> Vec<Case> {
    const UNITS: usize = 5;
    const PITCH: usize = 42;
    /// Whole blocks of a unit that have no partial block after them.
    const BLOCKS: usize = 40;
    /// The stretches of a unit for which tweaks are made. The second one begins 256 blocks later.
    const STRETCHES: usize = 2;
    let local = 256 * 4 * replicas * tables;
    let case = |kernel: &str, arguments: Vec<Argument>| Case {
        program: "luxor.cl",
        kernel: format!("{kernel}_{size}"),
        options: format!("-DREPLICAS={replicas} -DTABLES={tables} -DSIZE={size}"),
        threads,
        groups: 2,
        arguments: [Bytes(KEY)]
            .into_iter()
            .chain(arguments)
            .chain([Local(local)])
            .collect(),
    };
    // Two pieces: numbers from 2^64 - 1 in steps of one, and from the third unit on in steps of
    // eight.
    let pieces = || {
        let first = [u32::MAX, u32::MAX, 0, 0, 1, 0, 0, 0];
        let second = [7, 0, 0, 0, 8, 0, 2, 0];
        Words(first.into_iter().chain(second).collect())
    };
    let units = 2 * threads / STRETCHES + 1;
    // The buffer ends with the last block of the last unit.
    let data = |blocks: usize| ((UNITS - 1) * PITCH + blocks) * BLOCK;
    let over = |blocks: usize, more: &[usize]| {
        let data = data(blocks);
        let mut arguments = vec![Bytes(data), Number(0), Output(data), Number(0)];
        arguments.extend([Bytes(UNITS * BLOCK), Number(0)]);
        arguments.extend(more.iter().map(|&number| Number(number)));
        arguments
    };
    let mut cases = vec![
        case(
            "xts_tweaks",
            vec![
                pieces(),
                Number(0),
                Number(2),
                Number(units),
                Number(STRETCHES),
                Output(units * STRETCHES * BLOCK),
                Number(0),
            ],
        ),
        case(
            "ctr",
            vec![
                Bytes(data(BLOCKS + 1)),
                Number(0),
                Output(data(BLOCKS + 1)),
                Number(0),
                pieces(),
                Number(0),
                Number(2),
                Number(UNITS),
                Number(BLOCKS * BLOCK + 5),
                Number(PITCH),
                Number(1),
            ],
        ),
    ];
    for direction in ["encrypt", "decrypt"] {
        // The first kernel gets so little work that two warps divide the stretch of a unit.
        let units = if direction == "encrypt" { 1 } else { UNITS };
        let units = [units, BLOCKS, PITCH, 1];
        cases.push(case(&format!("xts_{direction}"), over(BLOCKS, &units)));
        let tails = [UNITS, BLOCKS, PITCH, 1, 5];
        cases.push(case(
            &format!("xts_tails_{direction}"),
            over(BLOCKS + 2, &tails),
        ));
    }
    cases
}

/// The kernels of `luxor bench an-seo-2022`.
fn an_seo() -> Vec<Case> {
    const BLOCKS: usize = 40;
    const GAP: usize = 8;
    let case = |kernel: String, arguments| Case {
        program: "an_seo.cl",
        kernel,
        options: "-DREPLICAS=32 -DTABLES=1".to_owned(),
        threads: 32,
        groups: 2,
        arguments,
    };
    let fill = vec![
        Bytes(BLOCKS / GAP * BLOCK),
        Output(BLOCKS * BLOCK),
        Number(0),
        Number(BLOCKS / GAP),
        Number(GAP),
    ];
    let encrypt = || {
        let [tweaks, input] = [(); 2].map(|()| Bytes(BLOCKS * BLOCK));
        vec![
            Bytes(KEY),
            input,
            Output(BLOCKS * BLOCK),
            tweaks,
            Number(0),
            Number(BLOCKS),
            Local(256 * 4 * 32),
        ]
    };
    let sizes = [128, 256].map(|size| case(format!("an_seo_encrypt_{size}"), encrypt()));
    [case("an_seo_fill".to_owned(), fill)]
        .into_iter()
        .chain(sizes)
        .collect()
}

/// The kernels of `luxor bench sanida-2020`. With one byte for each work-item, 16 of them share a
/// block.
fn sanida() -> Vec<Case> {
    const BLOCKS: usize = 5;
    const THREADS: usize = 32;
    let mut cases = Vec::new();
    for kernel in ["ctr", "xts_encrypt", "xts_decrypt"] {
        for (size, bytes) in [(128, 1), (192, 4), (256, 8), (128, 16)] {
            let per_group = THREADS * bytes / BLOCK;
            cases.push(Case {
                program: "sanida.cl",
                kernel: format!("sanida_{kernel}_{size}_{bytes}"),
                options: "-DREPLICAS=1 -DTABLES=1".to_owned(),
                threads: THREADS,
                groups: BLOCKS.div_ceil(per_group),
                arguments: vec![
                    Bytes(KEY),
                    Bytes(BLOCKS * BLOCK),
                    Output(BLOCKS * BLOCK),
                    Bytes(BLOCK),
                    Number(BLOCKS),
                    Local(256 + 48 * per_group),
                ],
            });
        }
    }
    cases
}

fn job(case: &Case, folder: &Path) -> Result<Job, String> {
    let Case {
        program,
        kernel,
        options,
        threads,
        groups,
        arguments,
    } = case;
    let name = format!("{kernel} {options}");
    let file = |extension: &str| folder.join(format!("{}.{extension}", name.replace(' ', "")));
    let [simulation, log] = ["sim", "log"].map(file);
    let root = process::root();
    let items = threads * groups;
    let mut text = format!(
        "{}\n{kernel}\n{items} 1 1\n{threads} 1 1\n",
        root.join("kernels").join(program).display()
    );
    for argument in arguments {
        text += &argument.text();
    }
    fs::write(&simulation, text).map_err(|e| format!("{}: {e}", simulation.display()))?;
    // With optimisation, Oclgrind's compiler emits an operation that its interpreter does not
    // support.
    let options = format!(
        "-cl-opt-disable -cl-std=CL1.2 -I{} {options} -DTHREADS={threads}",
        root.join("kernels").display()
    );
    let mut run = command("sh");
    run.args(["-c", SCRIPT, "sh"]).arg(&log);
    run.args(["--data-races", "--uninitialized", "--build-options"]);
    run.arg(options).arg(&simulation);
    // The result is printed when all groups have finished.
    let result = arguments.iter().find_map(|argument| match argument {
        Output(len) => Some(format!("{len} bytes")),
        _ => None,
    });
    let result = result.ok_or_else(|| format!("{name} has no output buffer"))?;
    let place = if kernel.contains("tweaks") || kernel.ends_with("fill") {
        "tweaks"
    } else {
        "out"
    };
    Ok(Job::new(&name, [run]).must_say(&format!("Argument '{place}': {result}")))
}

/// Runs Oclgrind, and fails if its log is not empty.
const SCRIPT: &str = r#"
    log=$1; shift
    : >"$log" || exit
    oclgrind-kernel --log "$log" "$@" || exit
    if test -s "$log"; then cat "$log"; exit 1; fi
"#;

impl Argument {
    /// Formats the argument for `oclgrind-kernel`.
    fn text(&self) -> String {
        match self {
            Words(words) => {
                let words: Vec<_> = words.iter().map(u32::to_string).collect();
                format!("<size={} uint>\n{}\n", 4 * words.len(), words.join(" "))
            }
            Bytes(len) => format!("<size={len} fill=165 uchar>\n"),
            Output(len) => format!("<size={len} noinit uchar hex dump>\n"),
            Local(len) => format!("<size={len} uchar>\n"),
            Number(number) => format!("<size=4 uint>\n{number}\n"),
        }
    }
}
