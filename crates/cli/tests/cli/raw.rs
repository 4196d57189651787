// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares `luxor raw` with OpenSSL, with Python's `cryptography`, and, for modes that these lack,
//! with the reference implementation.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use luxor_reference::TweakableOfb;
use serde_json::Value;

use crate::support::{Folder, Outcome, bytes, hex, is_long, luxor, tool};

const MIB: usize = 1 << 20;
const ENGINES: [&str; 2] = ["auto", "portable"];

struct Raw {
    folder: Folder,
    key: PathBuf,
}

impl Raw {
    fn new(key_len: usize) -> Self {
        let folder = Folder::new();
        let key = folder.write("key", bytes(key_len, 1));
        Self { folder, key }
    }

    /// Runs `raw DIRECTION OPTIONS` from a file into a file.
    #[track_caller]
    fn run(&self, options: &str, input: &Path) -> Vec<u8> {
        let output = self.folder.join("output");
        luxor("raw")
            .args(options.split(' '))
            .arg("--key-file")
            .args([&self.key, input, &output])
            .ok();
        let result = fs::read(&output).unwrap();
        fs::remove_file(output).unwrap();
        result
    }

    #[track_caller]
    fn fails(&self, options: &str, input: &[u8], words: &str) {
        let input = self.folder.write("input", input);
        luxor("raw")
            .args(options.split(' '))
            .arg("--key-file")
            .args([&self.key, &input, &self.folder.join("output")])
            .fails(1, words);
        assert_eq!(self.folder.names(), ["input", "key"], "something was left");
    }
}

#[test]
fn ctr_ofb_and_ecb_agree_with_openssl() {
    for (bits, key_len) in [(128, 16), (192, 24), (256, 32)] {
        let raw = Raw::new(key_len);
        let key = hex(&fs::read(&raw.key).unwrap());
        for mode in ["ctr", "ofb", "ecb"] {
            for len in [
                0,
                16,
                4096,
                65536 + 48,
                4 * MIB - 16,
                4 * MIB + 16,
                9 * MIB,
                1,
                15,
                17,
                5 * MIB + 7,
            ] {
                if mode == "ecb" && len % 16 != 0 {
                    continue;
                }
                let input = raw.folder.write("input", bytes(len, 2));
                // The counter wraps within the first block, within the first piece, and within the
                // fourth piece.
                for iv in [
                    "ffffffffffffffffffffffffffffffff",
                    "fffffffffffffffffffffffffffffe03",
                    "00000000000000ffffffffffffff0000",
                ] {
                    let expected = raw.folder.join("expected");
                    let mut arguments = vec![
                        "enc".to_owned(),
                        format!("-aes-{bits}-{mode}"),
                        "-nopad".into(),
                        "-K".into(),
                        key.clone(),
                        "-in".into(),
                        input.to_str().unwrap().into(),
                        "-out".into(),
                        expected.to_str().unwrap().into(),
                    ];
                    let mut options = format!("encrypt --mode {mode}");
                    if mode != "ecb" {
                        arguments.extend(["-iv".into(), iv.into()]);
                        options += &format!(" --iv {iv}");
                    }
                    tool("openssl", arguments);
                    let ciphertext = raw.run(&options, &input);
                    assert!(
                        ciphertext == fs::read(&expected).unwrap(),
                        "AES-{bits} {options}, {len} bytes"
                    );
                    let back = raw.run(&options.replace("encrypt", "decrypt"), &expected);
                    assert!(
                        back == fs::read(&input).unwrap(),
                        "AES-{bits} {options}, {len} bytes"
                    );
                    if mode == "ecb" {
                        break;
                    }
                }
            }
        }
    }
}

const IV: &str = "00112233445566778899aabbccddeeff";

/// The modes and schedules of parallel OFB, as options and in the reference implementation.
const PARALLEL: [(&str, TweakableOfb); 4] = {
    const fn mode(xex: bool, as_printed: bool) -> TweakableOfb {
        TweakableOfb { xex, as_printed }
    }
    [
        ("--mode ofb-xex", mode(true, false)),
        ("--mode ofb-xe", mode(false, false)),
        ("--mode ofb-xex --tweaks printed", mode(true, true)),
        ("--mode ofb-xe --tweaks printed", mode(false, true)),
    ]
};

impl Raw {
    /// Returns the first `len` bytes of the key stream.
    fn key_stream(&self, mode: TweakableOfb, len: usize) -> Vec<u8> {
        let iv = u128::from_str_radix(IV, 16).unwrap();
        mode.two_chains(&fs::read(&self.key).unwrap(), iv, &vec![0; len])
    }

    /// Runs `raw DIRECTION OPTIONS` from a pipe into a pipe.
    #[track_caller]
    fn pipe(&self, options: &str, input: &[u8]) -> Vec<u8> {
        luxor("raw")
            .args(options.split(' '))
            .arg("--key-file")
            .arg(&self.key)
            .args(["-", "-"])
            .stdin(input)
            .ok()
            .stdout
    }

    /// Encrypts and decrypts from file to file and from pipe to pipe.
    #[track_caller]
    fn adds(&self, options: &str, key_stream: &[u8], len: usize) {
        let plaintext = bytes(len, 8);
        let ciphertext: Vec<u8> = (plaintext.iter().zip(key_stream))
            .map(|(byte, key)| byte ^ key)
            .collect();
        assert_eq!(ciphertext.len(), len);
        for (direction, from, to) in [
            ("encrypt", &plaintext, &ciphertext),
            ("decrypt", &ciphertext, &plaintext),
        ] {
            let options = format!("{direction} {options} --iv {IV}");
            let file = self.folder.write("input", from);
            assert!(self.run(&options, &file) == *to, "{options}, {len} bytes");
            assert!(self.pipe(&options, from) == *to, "{options}, {len} bytes");
        }
    }
}

#[test]
fn parallel_ofb_agrees_with_the_reference() {
    let raw = Raw::new(32);
    for (options, mode) in PARALLEL {
        let key_stream = raw.key_stream(mode, 5 * MIB + 7);
        for len in [0, 1, 15, 16, 17, 4 * MIB - 1, 4 * MIB + 1, 5 * MIB + 7] {
            raw.adds(options, &key_stream, len);
        }
        if !mode.as_printed {
            raw.adds(&format!("{options} --tweaks alpha"), &key_stream, 100);
        }
    }
}

#[test]
fn engines_and_threads_agree_in_parallel_ofb() {
    let engines: Value = serde_json::from_slice(&luxor("engines --json").ok().stdout).unwrap();
    let has_mode = |engine: &&Value| {
        let mut modes = engine["modes"].as_array().unwrap().iter();
        modes.any(|mode| mode == "ofb-xex")
    };
    let present = (engines["engines"].as_array().unwrap().iter())
        .filter(has_mode)
        .map(|engine| engine["name"].as_str().unwrap());
    let raw = Raw::new(32);
    let streams = PARALLEL.map(|(options, mode)| (options, raw.key_stream(mode, 2 * MIB)));
    for (i, engine) in present.enumerate() {
        for (j, (options, key_stream)) in streams.iter().enumerate() {
            // In the short form one number, which changes.
            let threads = [1, 2, 5];
            let threads = if is_long() {
                &threads[..]
            } else {
                &threads[(i + j) % 3..][..1]
            };
            for threads in threads {
                let options = format!("{options} --engine {engine} --threads {threads}");
                raw.adds(&options, key_stream, MIB + 31);
            }
        }
    }
}

/// Swapping the halves of the key swaps the two chains, and their sum is the same. The manual says
/// so.
#[test]
fn parallel_ofb_has_one_key_stream_for_both_orders_of_the_halves() {
    let raw = Raw::new(32);
    let input = raw.folder.write("input", bytes(100, 9));
    for (options, _) in PARALLEL {
        let options = format!("encrypt {options} --iv {IV}");
        let one = raw.run(&options, &input);
        let mut key = fs::read(&raw.key).unwrap();
        key.rotate_left(16);
        fs::write(&raw.key, key).unwrap();
        assert_eq!(raw.run(&options, &input), one, "{options}");
    }
}

#[test]
fn errors_of_parallel_ofb_have_their_exit_codes() {
    for mode in ["ofb-xex", "ofb-xe"] {
        let options = format!("encrypt --mode {mode} --iv {IV}");
        for len in [0, 1, 16, 31, 33, 48, 64] {
            let words = format!("provides {len} bytes, but {mode} needs 32");
            Raw::new(len).fails(&options, &[0; 64], &words);
        }
        let raw = Raw::new(32);
        fs::write(&raw.key, [7; 32]).unwrap();
        raw.fails(&options, &[0; 64], "make a new random key");

        let raw = Raw::new(32);
        raw.fails(&format!("encrypt --mode {mode}"), &[0; 64], "needs --iv");
        for (option, value) in [("--data-unit", 512), ("--number", 1), ("--stride", 8)] {
            let words = format!("{option} cannot be used with {mode}");
            raw.fails(&format!("{options} {option} {value}"), &[0; 64], &words);
        }
        let to = raw.folder.join("output");
        let missing = raw.folder.join("missing");
        let run = |input: &Path| {
            luxor("raw")
                .args(options.split(' '))
                .arg("--key-file")
                .args([&raw.key, input, &to])
        };
        run(&missing).fails(4, "does not exist");
        let input = raw.folder.write("input", bytes(64, 1));
        fs::write(&to, "mine").unwrap();
        run(&input).fails(5, "exists");
        assert_eq!(fs::read(&to).unwrap(), b"mine");
    }
    for mode in ["xts", "ecb", "ctr --iv IV", "ofb --iv IV"] {
        let mode = mode.replace("IV", IV);
        let name = mode.split(' ').next().unwrap();
        for tweaks in ["alpha", "printed"] {
            Raw::new(32).fails(
                &format!("encrypt --mode {mode} --tweaks {tweaks}"),
                &[0; 64],
                &format!("--tweaks cannot be used with {name}"),
            );
        }
    }
}

/// Runs the commands in the manual.
#[test]
fn the_example_in_the_manual_runs() {
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/parallel-ofb.md");
    let manual = fs::read_to_string(manual).unwrap();
    let scripts: Vec<_> = (manual.split("```sh\n").skip(1))
        .map(|script| script.split("```").next().unwrap())
        .collect();
    assert_eq!(scripts.len(), 1, "{manual}");
    let program = Path::new(env!("CARGO_BIN_EXE_luxor")).parent().unwrap();
    let others = env::var("PATH").unwrap();
    let path = format!("{}:{others}", program.display());
    let folder = Folder::new();
    folder.write("picture.raw", bytes(100_001, 10));
    for script in scripts {
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-e", "-c", script])
            .current_dir(folder.path())
            .env("PATH", &path);
        let outcome = Outcome::new(script.to_owned(), shell.output().unwrap());
        outcome.assert_code(0);
        assert_eq!(outcome.stderr, "", "{script}");
    }
}

/// Encrypts each data unit separately, with Python's integers as data unit numbers.
const XTS: &str = "
import sys
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
key, source, target, unit, number, stride = sys.argv[1:]
key, data = open(key, 'rb').read(), open(source, 'rb').read()
unit, number, stride = int(unit), int(number), int(stride)
with open(target, 'wb') as out:
    for start in range(0, len(data), unit):
        tweak = (number % 2**128).to_bytes(16, 'little')
        e = Cipher(algorithms.AES(key), modes.XTS(tweak)).encryptor()
        out.write(e.update(data[start:start + unit]) + e.finalize())
        number += stride
";

#[test]
fn xts_agrees_with_python() {
    for key_len in [32, 64] {
        let raw = Raw::new(key_len);
        for (len, unit, number, stride) in [
            (16, 16, "0", "1"),
            (17, 17, "1", "1"),
            (512 * 9, 512, "4294967294", "1"),
            (4096 * 9, 4096, "18446744073709551600", "8"),
            (
                4096 * 3 + 31,
                4096,
                "340282366920938463463374607431768211455",
                "18446744073709551615",
            ),
            (
                4096 * 3 + 16,
                4096,
                "340282366920938463463374607431768211450",
                "3",
            ),
            (100 * 1000, 100, "7", "0"),
            (5 * MIB + 520, 520, "9", "2"),
            (9 * MIB, 3 * MIB, "0", "6144"),
        ] {
            let input = raw.folder.write("input", bytes(len, 3));
            let expected = raw.folder.join("expected");
            tool(
                "/usr/bin/python3",
                [
                    "-c".as_ref(),
                    XTS.as_ref(),
                    raw.key.as_os_str(),
                    input.as_os_str(),
                    expected.as_os_str(),
                    unit.to_string().as_ref(),
                    number.as_ref(),
                    stride.as_ref(),
                ],
            );
            for engine in ENGINES {
                let options = format!(
                    "encrypt --mode xts --engine {engine} --data-unit {unit} --number {number} --stride {stride}"
                );
                let ciphertext = raw.run(&options, &input);
                assert!(
                    ciphertext == fs::read(&expected).unwrap(),
                    "{key_len}: {options}, {len} bytes"
                );
                let back = raw.run(&options.replace("encrypt", "decrypt"), &expected);
                assert!(
                    back == fs::read(&input).unwrap(),
                    "{key_len}: {options}, {len} bytes"
                );
            }
        }
    }
}

#[test]
fn without_data_unit_the_input_is_one_data_unit() {
    let raw = Raw::new(64);
    for len in [16, 1000, 16 * MIB] {
        let input = raw.folder.write("input", bytes(len, 4));
        let one = raw.run("encrypt --mode xts --number 0xffFF", &input);
        let given = raw.run(
            &format!("encrypt --mode xts --number 65535 --data-unit {len}"),
            &input,
        );
        assert!(one == given, "{len} bytes");
    }
    raw.fails(
        "encrypt --mode xts",
        &vec![0; 16 * MIB + 1],
        "with --data-unit",
    );
}

#[test]
fn impossible_lengths_are_refused_before_any_output() {
    let xts = Raw::new(64);
    for (options, len) in [
        ("encrypt --mode xts", 0),
        ("encrypt --mode xts", 15),
        ("decrypt --mode xts --data-unit 512", 1),
        ("encrypt --mode xts --data-unit 512", 512 + 15),
        ("encrypt --mode xts --data-unit 512", 9 * MIB + 15),
    ] {
        xts.fails(options, &vec![0; len], "at least 16");
        // From a pipe into a pipe, the length is not known in advance.
        if len < 4 * MIB {
            luxor("raw")
                .args(options.split(' '))
                .arg("--key-file")
                .arg(&xts.key)
                .args(["-", "-"])
                .stdin(vec![0; len])
                .fails(1, "at least 16");
        }
    }
    let ecb = Raw::new(16);
    for len in [1, 15, 17, 5 * MIB + 1] {
        ecb.fails("encrypt --mode ecb", &vec![0; len], "multiple of 16");
    }
}

#[test]
fn the_input_is_not_replaced() {
    let raw = Raw::new(32);
    let input = raw.folder.write("input", bytes(64, 1));
    luxor("raw encrypt --mode ecb --force --key-file")
        .args([&raw.key, &input, &input])
        .fails(1, "is also the input");
    assert_eq!(fs::read(input).unwrap(), bytes(64, 1));
}

#[test]
fn pipes_stream() {
    let raw = Raw::new(32);
    let input = bytes(20 * MIB + 3, 5);
    let options = "--mode ctr --iv 0123456789abcdef0123456789ABCDEF --key-file";
    let encrypted = luxor(&format!("raw encrypt {options}"))
        .arg(&raw.key)
        .args(["-", "-"])
        .stdin(input.clone())
        .ok();
    assert!(encrypted.stdout != input);
    let back = luxor(&format!("raw decrypt {options}"))
        .arg(&raw.key)
        .args(["-", "-"])
        .stdin(encrypted.stdout)
        .ok();
    assert!(back.stdout == input);
}

#[test]
fn options_of_other_modes_are_refused() {
    let iv = "00000000000000000000000000000000";
    let raw = Raw::new(32);
    for (options, words) in [
        ("encrypt --mode ctr".into(), "--iv"),
        ("encrypt --mode ofb".into(), "--iv"),
        (format!("encrypt --mode xts --iv {iv}"), "--iv"),
        (format!("encrypt --mode ecb --iv {iv}"), "--iv"),
        (
            format!("encrypt --mode ctr --iv {iv} --number 1"),
            "--number",
        ),
        ("encrypt --mode ecb --stride 1".into(), "--stride"),
        (
            format!("encrypt --mode ofb --iv {iv} --data-unit 16"),
            "--data-unit",
        ),
        (
            "encrypt --mode ofb-xex --tweaks printed".into(),
            "needs --iv",
        ),
        ("encrypt --mode xts --data-unit 0".into(), "16777216"),
        ("encrypt --mode xts --data-unit 15".into(), "at least 16"),
        ("encrypt --mode xts --data-unit 16777217".into(), "16777216"),
        (
            "encrypt --mode xts --stride 18446744073709551616".into(),
            "--stride",
        ),
        ("encrypt --mode xts --header key".into(), "--header"),
    ] {
        raw.fails(&options, &[0; 64], words);
    }
}

#[test]
fn keys_of_wrong_lengths_are_refused() {
    for (mode, len, words) in [
        ("xts", 0, "0 bytes"),
        ("xts", 16, "32 or 64"),
        ("xts", 48, "32 or 64"),
        ("xts", 65, "65 bytes"),
        ("ecb", 20, "16, 24 or 32"),
        ("ecb", 64, "16, 24 or 32"),
    ] {
        Raw::new(len).fails(&format!("encrypt --mode {mode}"), &[0; 64], words);
    }
    let raw = Raw::new(64);
    fs::write(&raw.key, [7; 64]).unwrap();
    raw.fails("encrypt --mode xts", &[0; 64], "equal");

    let folder = Folder::new();
    let input = folder.write("input", [0; 16]);
    luxor("raw encrypt --mode xts")
        .args([&input, &folder.join("output")])
        .fails(1, "--key-file");
}

#[test]
fn the_key_may_be_a_part_of_a_file_or_standard_input() {
    let folder = Folder::new();
    let input = folder.write("input", bytes(100, 6));
    let key = bytes(64, 7);
    let plain = folder.write("key", &key);
    let inside = folder.write("inside", [&[1; 5000], &key[..], &[2; 7]].concat());
    let options = "raw encrypt --mode xts --key-file";
    luxor(options)
        .args([&plain, &input, &folder.join("a")])
        .ok();
    luxor(options)
        .args([&inside, &input, &folder.join("b")])
        .args(["--keyfile-offset", "5000", "--keyfile-size", "64"])
        .ok();
    luxor(options)
        .arg("-")
        .args([&input, &folder.join("c")])
        .stdin(key)
        .ok();
    let expected = fs::read(folder.join("a")).unwrap();
    assert_eq!(fs::read(folder.join("b")).unwrap(), expected);
    assert_eq!(fs::read(folder.join("c")).unwrap(), expected);
}

/// Also with the longest possible data units.
#[test]
fn memory_does_not_grow_with_the_input() {
    let raw = Raw::new(64);
    let input = raw.folder.join("input");
    fs::File::create(&input)
        .unwrap()
        .set_len(300 << 20)
        .unwrap();
    let (outcome, peak) = luxor("raw encrypt --mode xts --data-unit 16777216 --key-file")
        .args([&raw.key, &input])
        .arg("/dev/null")
        .run_measured();
    outcome.assert_code(0);
    assert!(peak < 64 << 10, "it needed {peak} KiB of memory");
}
