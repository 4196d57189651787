// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor engines --calibrate`, and its effect on `--engine auto`. On machines without another
//! OpenCL implementation these tests use PoCL.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use crate::support::{FAST, Folder, Luxor, bytes, luxor};

const MIB: usize = 1 << 20;

/// A cache folder, and other files of the test.
struct Bench {
    folder: Folder,
    kept: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let folder = Folder::new();
        let kept = folder.join("cache/luxor/calibration.json");
        Self { folder, kept }
    }

    /// Runs without CUDA, and with kernels that PoCL has compiled before.
    fn luxor(&self, line: &str) -> Luxor {
        luxor(line)
            .env("XDG_CACHE_HOME", self.folder.join("cache"))
            .env(
                "POCL_CACHE_DIR",
                concat!(env!("CARGO_TARGET_TMPDIR"), "/pocl"),
            )
            .env("CUDA_VISIBLE_DEVICES", "")
    }

    fn calibration(&self) -> Value {
        serde_json::from_slice(&fs::read(&self.kept).unwrap()).unwrap()
    }

    fn keep(&self, calibration: &Value) {
        fs::write(&self.kept, calibration.to_string()).unwrap();
    }
}

fn keys(value: &Value) -> Vec<&String> {
    value.as_object().unwrap().keys().collect()
}

/// The output must have the structure of the committed example.
#[test]
fn a_calibration_is_kept_and_has_the_shape_of_the_example() {
    let bench = Bench::new();
    let output = bench.luxor("engines --calibrate --json --threads 2").ok();
    let output: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(bench.calibration(), output);
    assert_eq!(bench.folder.names(), ["cache"]);
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/examples/calibration.json"
    );
    let example: Value = serde_json::from_slice(&fs::read(example).unwrap()).unwrap();
    assert_eq!(output["schema"], example["schema"]);
    assert_eq!(keys(&output), keys(&example));
    assert_eq!(keys(&output["cpu"]), keys(&example["cpu"]));
    assert_eq!(output["cpu"]["threads"], 2);
    let devices = |value: &Value| value["devices"].as_array().unwrap().clone();
    let device = &devices(&example)[0];
    for found in devices(&output).iter().chain(&devices(&example)) {
        assert_eq!(keys(found), keys(device));
        for call in found["calls"].as_array().unwrap() {
            assert_eq!(keys(call), keys(&device["calls"][0]));
            assert!(call["device"].as_u64().unwrap() > 0, "{call}");
        }
    }
    // Another number of threads needs another calibration, and so does a missing file.
    for (threads, words) in [(2, ""), (3, " threads: run `luxor engines --calibrate`\n")] {
        let told = bench.luxor("-v engines --threads").arg(threads.to_string());
        let told = told.ok().stderr;
        assert!(
            told.ends_with(words) && told.is_empty() == words.is_empty(),
            "{told}"
        );
    }
    fs::remove_file(&bench.kept).unwrap();
    let told = bench.luxor("-v engines").ok().stderr;
    assert!(
        told.contains("no device was compared with this CPU"),
        "{told}"
    );
}

#[test]
fn without_a_cache_folder_nothing_is_measured() {
    luxor("engines --calibrate")
        .env("XDG_CACHE_HOME", "relative")
        .env("HOME", "")
        .fails(1, "there is no cache folder to keep a calibration in");
    let folder = Folder::new();
    let file = folder.write("file", "");
    luxor("engines --calibrate")
        .env("XDG_CACHE_HOME", file)
        .env("CUDA_VISIBLE_DEVICES", "")
        .env("OCL_ICD_VENDORS", folder.path())
        .fails(1, "cannot write ");
}

#[cfg(feature = "opencl")]
#[test]
fn auto_gives_long_calls_to_a_device_that_wins() {
    let bench = Bench::new();
    bench.luxor("engines --calibrate").ok();
    let measured = bench.calibration();
    let opencl = &measured["devices"][0];
    assert_eq!(
        opencl["engine"], "opencl",
        "an OpenCL is needed: pocl-opencl-icd"
    );
    let is_pocl = opencl["device"]
        .as_str()
        .unwrap()
        .contains("Portable Computing Language");
    let reason = opencl["reason"].as_str().unwrap_or_default();
    assert!(
        !is_pocl || reason.starts_with("it is for tests: "),
        "{opencl}"
    );
    let device = opencl["device"].as_str().unwrap().to_owned();

    let mut wins = measured.clone();
    wins["devices"][0]["wins_from"] = json!(MIB);
    bench.keep(&wins);
    let listed = bench.luxor("engines").ok();
    let end = " uses; calls of at least 1024 KiB use opencl.\n";
    assert!(listed.text().ends_with(end), "{}", listed.text());
    let listed: Value = serde_json::from_slice(&bench.luxor("engines --json").ok().stdout).unwrap();
    assert_eq!(
        listed["auto_device"],
        json!({ "name": "opencl", "from": MIB })
    );

    let key = bench.folder.write("key", bytes(64, 1));
    let raw = |len: usize, options: &str| {
        let input = bench.folder.write("input", bytes(len, 2));
        let output = bench.folder.join("output");
        let told = bench
            .luxor("raw encrypt -v --force --mode xts --data-unit 4096")
            .args(options.split_whitespace())
            .arg("--key-file")
            .args([&key, &input, &output])
            .ok();
        (fs::read(output).unwrap(), told.stderr)
    };
    let began = "luxor: note: engine opencl is used from the first long call on\n";
    let joins = format!("; and opencl ({device}) for calls from 1024 KiB), ");
    // The first length makes a call of 4 MiB and a shorter one. The other two are too short for a
    // device.
    for (len, begins) in [(5 * MIB + 4096, true), (MIB - 4096, false), (16, false)] {
        let (expected, told) = raw(len, "--engine portable");
        assert!(!told.contains("opencl"), "{told}");
        let (found, told) = raw(len, "");
        assert!(found == expected, "{len} bytes");
        assert!(told.contains(&joins), "{told}");
        assert_eq!(told.contains(began), begins, "{len} bytes: {told}");
    }

    // A device writes a volume, and the CPU reads it.
    let plain = bench.folder.write("plain", bytes(9 * MIB + 5, 3));
    let [volume, back] = ["volume", "back"].map(|name| bench.folder.join(name));
    let told = bench.luxor("encrypt -v").args(FAST).arg("--key-file");
    let told = told.args([&key, &plain, &volume]).ok().stderr;
    assert!(told.contains(began), "{told}");
    let decrypt = bench.luxor("decrypt --engine portable --key-file");
    decrypt.args([&key, &volume, &back]).ok();
    assert!(fs::read(back).unwrap() == fs::read(plain).unwrap());

    wins["devices"][0]["device"] = json!("a better one");
    bench.keep(&wins);
    let (expected, _) = raw(5 * MIB, "--engine portable");
    let (found, told) = raw(5 * MIB, "");
    assert!(found == expected);
    let other =
        format!("the engine opencl was calibrated on a better one, but now runs on {device}; ");
    assert_eq!(told.matches(&other).count(), 1, "{told}");
    assert!(!told.contains(began), "{told}");

    fs::write(&bench.kept, "{").unwrap();
    let (found, told) = raw(5 * MIB, "");
    assert!(found == expected);
    assert!(
        told.contains(" is damaged\n") && !told.contains("opencl"),
        "{told}"
    );
}

/// Opening a library wakes its device, which takes longer than encrypting most files. So no library
/// is opened unless it is needed. The dynamic linker prints what it looks for.
#[test]
fn no_device_is_looked_for_without_need() {
    let bench = Bench::new();
    let [plain, key] = ["plain", "key"].map(|name| bench.folder.write(name, bytes(64, 9)));
    let sought = |line: &str| {
        let luxor = bench.luxor(line).env("LD_DEBUG", "libs");
        luxor.ok().stderr
    };
    let raw = format!(
        "raw --mode xts --key-file {} encrypt {} -",
        key.display(),
        plain.display()
    );
    let said = sought(&raw);
    assert!(said.contains("find library=libc.so"), "{said}");
    for library in ["libOpenCL", "libcuda"] {
        assert!(!said.contains(library), "{said}");
        assert!(sought("engines --json").contains(library), "{library}");
    }
}
