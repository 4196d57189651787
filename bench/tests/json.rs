// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of `--json` has the form of the committed examples. Speeds are not checked.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

#[test]
fn json_has_the_documented_form() {
    let found = has_the_form_of(
        "bench.json",
        "cpu --quick --engine portable --size 1M --call 4K --unit 512 --key-size 256 \
         --direction encrypt --place in --json",
    );
    assert!(above_0(&found["cpu"]["rows"][0]["gb_per_s"]["median"]));
}

#[test]
fn json_of_servers_has_the_documented_form() {
    let found = has_the_form_of(
        "bench-block.json",
        "block --quick --turn 100 --size 16M --request 4K --access read --connections 1 \
         --contestant luxor-null --contestant qemu --json",
    );
    let row = &found["block"]["throughput"][0]["rows"][0];
    assert_eq!(row["contestant"], "luxor-null");
    assert!(above_0(&row["mib_per_s"]["median"]));
    assert!(above_0(&row["times"]["qemu"]["median"]));
}

#[test]
fn json_of_the_co_processor_has_the_documented_form() {
    let found = has_the_form_of(
        "bench-demir.json",
        "demir-2020 --quick --turn 100 --size 16M --request 4K --access read --setup 1 --json",
    );
    let served = &found["demir_2020"]["served"][0]["rows"];
    let bytes_per_call: Vec<f64> = (0..5)
        .filter_map(|row| served[row]["bytes_per_call"]["median"].as_f64())
        .collect();
    // Only the limit splits requests.
    let [first, second, third, fourth, fifth] = bytes_per_call.as_slice() else {
        panic!("{served}");
    };
    assert_eq!([*first, *second, *fourth], [512.0, 4096.0, 4096.0]);
    assert!(*third >= 4096.0 && *fifth >= 4096.0, "{third} {fifth}");
    let study = &found["demir_2020"]["study"];
    assert_eq!(study["compatible_pairs"], 36);
    assert_eq!(study["cost"]["setup_decrypt"], 1000.0);
    // Two directions, two ways of waiting, two lengths, and three kinds of requests.
    let requests = study["cost"]["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 24);
    for request in requests {
        let interrupts = u8::from(request["waiting"] == "interrupts");
        assert_eq!(request["interrupts"], f64::from(interrupts), "{request}");
    }
    let by_driver = study["breakdown_by_driver"].as_array().unwrap();
    assert_eq!(by_driver.len(), 8);
    for row in by_driver {
        assert!(above_0(&row["parts"]["device"]["median"]), "{row}");
        let mixed = row["work"] == "mixed";
        assert_eq!(above_0(&row["parts"]["numbers"]["median"]), mixed, "{row}");
    }
    let extended = |row: &Value| row["request_bytes"] == 4096 && row["work"] == "offloaded";
    let rows = study["breakdown"].as_array().unwrap();
    let rows: Vec<_> = rows.iter().filter(|row| extended(row)).collect();
    assert_eq!(rows.len(), 2);
    for row in rows {
        // 12208 requests of at least 1 µs plus 256 cycles at 200 MHz (1.28 µs) each.
        let seconds = row["total"]["median"].as_f64().unwrap();
        assert!(seconds > 12_208.0 * 2.2e-6, "{row}");
    }
}

#[test]
fn json_of_cores_has_the_documented_form() {
    let found = has_the_form_of("bench-elmoghany.json", "elmoghany-2011 --json");
    let points = found["elmoghany_2011"]["points"].as_array().unwrap();
    assert!(points.iter().all(|point| above_0(&point["luts"])));
    // 22 for the tweak, 32 for the data, and 22 until the pipeline is empty.
    let rebuilt = &found["elmoghany_2011"]["cycles"][0];
    assert_eq!(rebuilt["per_unit"], 76.0, "{rebuilt}");
}

#[test]
fn json_of_parallel_ofb_has_the_documented_form() {
    let found = has_the_form_of(
        "bench-damjanovic.json",
        "damjanovic-simic-2015 --quick --engine portable --size 64K --array 8000 --array 64 --json",
    );
    let engine = &found["damjanovic_simic_2015"]["engines"][0];
    let rows = |array: usize| {
        let rows = engine["arrays"][array]["rows"].as_array().unwrap();
        let ours = rows.iter().filter(|row| row["contestant"] == "portable");
        let name = |row: &Value| format!("{} {}", row["form"], row["way"]).replace('"', "");
        ours.map(name).collect::<Vec<_>>()
    };
    let all = rows(0);
    for form in ["2x 128 XEX", "2x 128 XE"] {
        for way in ["apart", "together", "auto"] {
            assert!(all.contains(&format!("{form} {way}")), "{all:?}");
        }
    }
    let small = [
        "1x 256 OFB serial",
        "2x 128 XEX together",
        "2x 128 XE together",
    ];
    assert_eq!(rows(1), small);
    assert!(above_0(&engine["arrays"][1]["rows"][2]["of_ofb"]["median"]));
    assert_eq!(engine["streams"][4]["streams"], 16);
    assert!(above_0(&engine["streams"][4]["of_one"]["median"]));
    // AES by tables, with the same fields.
    let tables = &found["damjanovic_simic_2015"]["engines"][1];
    assert_eq!(tables["engine"], "tables");
    let two = &tables["arrays"][0]["rows"][1];
    assert_eq!([&two["form"], &two["way"]], ["2x 128 XEX", "apart"]);
    assert!(above_0(&two["of_ofb"]["median"]));
}

/// Runs on PoCL.
#[test]
fn json_of_the_gpu_papers_has_the_documented_form() {
    let found = has_the_form_of(
        "bench-an-seo.json",
        "an-seo-2022 --quick --engine portable --size 128K --json",
    );
    let found = &found["an_seo_2022"];
    let device = found["devices"][0]["name"].as_str().unwrap();
    let systems = |name: &str| {
        let rows = found["tables_3_and_4"].as_array().unwrap();
        let rows = rows.iter().filter(|row| row["contestant"] == name);
        rows.map(|row| row["system"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(systems("CPU"), ["naive CPU"]);
    assert_eq!(
        systems(device),
        [
            "naive GPU",
            "GPU alpha^8",
            "GPU alpha^128",
            "Luxor's kernels, data units of 16 MiB"
        ]
    );
    assert_eq!(systems("portable"), ["one data unit"]);
    assert!(
        found["tables_3_and_4"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| {
                row["system"]
                    .as_str()
                    .unwrap()
                    .starts_with("Luxor's kernels")
                    && above_0(&row["kernels_ms"]["median"])
            })
    );
    let streams = found["streams"].as_array().unwrap().iter();
    let streams: Vec<_> = streams
        .filter(|row| row["contestant"] == device)
        .map(|row| row["streams"].as_u64().unwrap())
        .collect();
    assert_eq!(streams, [1, 2, 4, 8, 16, 32]);
    assert_eq!(found["table_5"].as_array().unwrap().len(), 10);
    let rates = found["table_5"][9]["rows"].as_array().unwrap().iter();
    let ours = rates.filter(|row| row["system"] == "Luxor's kernels");
    let ours: Vec<_> = ours.map(|row| &row["contestant"]).collect();
    assert!(ours.contains(&&found["devices"][0]["name"]), "{ours:?}");

    let found = has_the_form_of(
        "bench-sanida.json",
        "sanida-2020 --quick --engine portable --size 1K --json",
    );
    let found = &found["sanida_2020"];
    let rows = found["rows"].as_array().unwrap();
    let rows = rows.iter().filter(|row| row["contestant"] == device);
    // Two modes, two directions, three key sizes, four numbers of bytes per work-item, two files.
    assert_eq!(rows.count(), 2 * 2 * 3 * 4 * 2);
    let rows = found["rows"].as_array().unwrap();
    let ours = rows
        .iter()
        .filter(|row| row["contestant"] == format!("{device}, Luxor's kernels"));
    let ours: Vec<_> = ours.map(|row| row["cipher"].as_str().unwrap()).collect();
    // Three key sizes of CTR, two of XTS, and no choice of bytes per work-item.
    assert_eq!(ours.len(), (3 + 2) * 2 * 2);
    assert!(
        ours.iter().all(|cipher| !cipher.contains("192-xts")),
        "{ours:?}"
    );
}

/// Runs on PoCL.
#[test]
fn json_of_devices_has_the_documented_form() {
    let found = has_the_form_of(
        "bench-gpu.json",
        "gpu --quick --engine portable --size 64K --json",
    );
    let device = &found["gpu"]["devices"][0];
    let name = device["about"]["name"].as_str().unwrap();
    assert!(name.starts_with("opencl"), "{name}");
    assert_eq!(name.ends_with("(CPU)"), device["about"]["is_cpu"], "{name}");
    assert_eq!(device["no_papers"], Value::Null);
    for (what, bytes) in [("resident", "resident_bytes"), ("host", "host_bytes")] {
        assert_eq!(device[bytes], 64 << 10);
        let rows = device[what].as_array().unwrap();
        // Two key sizes, two directions, two unit lengths.
        assert_eq!(rows.len(), 2 * 2 * 2);
        assert!(rows.iter().all(|row| above_0(&row["of_copy"]["median"])));
        assert!(above_0(&rows[1]["of_4096"]["median"]), "{}", rows[1]);
    }
    let papers = device["papers"].as_array().unwrap();
    assert_eq!(papers.len(), 2 * 2);
    for rates in ["kernels", "total"] {
        assert!(
            papers
                .iter()
                .all(|row| above_0(&row[rates]["times"]["median"]))
        );
    }
}

#[test]
fn without_a_device_the_gpu_papers_run_on_the_cpu_and_say_why() {
    for (name, rows) in [
        ("an-seo-2022", "Tables 3 and 4"),
        ("sanida-2020", "Table V"),
        ("gpu", ""),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
            .args([
                name, "-v", "--quick", "--engine", "portable", "--size", "128K",
            ])
            // The OpenCL loader finds no implementation.
            .env("OCL_ICD_VENDORS", "/nonexistent")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("no rows of opencl: "), "{said}");
        let by_the_cpu = name == "gpu" || said.contains("portable");
        assert!(said.contains(rows) && by_the_cpu, "{said}");
    }
}

/// Needs `luxor` beside `luxor-bench`, where a build of the workspace puts it. Only root can measure
/// cryptsetup.
#[test]
fn json_of_reencryption_has_the_documented_form() {
    let found = has_the_form_of(
        "bench-reencrypt.json",
        "reencrypt --reencrypt offline --quick --size 1M --json",
    );
    let found = &found["reencrypt"];
    assert!(found["online"].is_null());
    let absent = found["absent"].as_array().unwrap();
    let rows = found["rows"].as_array().unwrap();
    let ours: Vec<_> = rows
        .iter()
        .filter(|row| row["contestant"] == "luxor")
        .collect();
    let resilience: Vec<_> = ours.iter().map(|row| &row["resilience"]).collect();
    assert_eq!(resilience, ["checksum", "journal", "none"]);
    for row in ours {
        assert!(above_0(&row["of_copy"]["median"]), "{row}");
        let is_compared = above_0(&row["times"]["median"]);
        assert_eq!(is_compared, absent.is_empty(), "{row}: {absent:?}");
    }
}

/// Needs `luxor` beside `luxor-bench`, too.
#[test]
fn json_of_reencryption_in_use_has_the_documented_form() {
    let found = has_the_form_of(
        "bench-reencrypt-online.json",
        "reencrypt --reencrypt online --quick --turn 200 --json",
    );
    let found = &found["reencrypt"];
    let rows = found["online"]["rows"].as_array().unwrap();
    let resilience: Vec<_> = rows.iter().map(|row| &row["resilience"]).collect();
    let expected = [Value::Null, "checksum".into(), "journal".into()];
    assert_eq!(resilience, expected.each_ref(), "{found}");
    for row in rows {
        assert!(above_0(&row["mib_per_s"]["median"]), "{row}");
        for ratio in ["of_idle", "p99_times_idle"] {
            let is_idle = row["resilience"].is_null();
            assert_eq!(above_0(&row[ratio]["median"]), !is_idle, "{row}");
        }
    }
}

/// Runs the bench with scripts in place of cryptsetup and luxor, in a folder for `name`. In them
/// `$real` is the program `luxor`.
fn reencrypt(name: &str, options: &str, cryptsetup: &str, luxor: &str) -> Output {
    let folder = env::temp_dir().join(format!("luxor-bench-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let real = Path::new(env!("CARGO_BIN_EXE_luxor-bench")).with_file_name("luxor");
    let programs = [("cryptsetup", cryptsetup), ("luxor", luxor)];
    for (program, script) in programs {
        let program = folder.join(program);
        let script = format!("#!/bin/sh -e\nreal='{}'\n{script}\n", real.display());
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = env::join_paths([&folder, Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
        .args(["reencrypt", "--quick", "--reencrypt"])
        .args(options.split_whitespace())
        .arg("--luxor")
        .arg(folder.join("luxor"))
        .env("PATH", path)
        .output()
        .unwrap();
    fs::remove_dir_all(folder).unwrap();
    output
}

const OFFLINE: &str = "offline --size 1M";
const ONLINE: &str = "online --size 16M --turn 100";

#[test]
fn a_cryptsetup_that_fails_is_left_out_of_the_reencryption() {
    // It has destroyed the volume, too.
    let fails = r#"[ "$1" = --version ] && exec echo cryptsetup 2; for last; do :; done
        echo >"$last"; echo no lock >&2; exit 1"#;
    let output = reencrypt("fails", OFFLINE, fails, r#"exec "$real" "$@""#);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("no rows of cryptsetup: "), "{said}");
    assert!(said.contains("no lock"), "{said}");
    assert!(said.contains("luxor reencrypt, journal"), "{said}");
}

#[test]
fn a_wrong_reencryption_is_not_timed() {
    let keeps = r#"[ "$1" = reencrypt ] || exec "$real" "$@""#;
    // The data begin after 16 MiB.
    let breaks = r#""$real" "$@"; [ "$1" = reencrypt ] || exit 0; for last; do :; done
        printf x | dd of="$last" bs=1 seek=17000000 conv=notrunc"#;
    for (luxor, why) in [
        (
            keeps,
            "luxor reencrypt, checksum has not changed the volume key",
        ),
        (breaks, "the plaintext has changed"),
    ] {
        let output = reencrypt("wrong", OFFLINE, "exit 1", luxor);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn wrong_data_after_a_reencryption_in_use_are_an_error() {
    let breaks = r#"[ "$1" = decrypt ] || exec "$real" "$@"; "$real" "$@"; for last; do :; done
        printf x | dd of="$last" bs=1 seek=16000000 conv=notrunc"#;
    let output = reencrypt("broken", ONLINE, "exit 1", breaks);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("verify failed"), "{said}");
}

#[test]
fn a_reencryption_that_ends_before_the_clients_does_not_count() {
    let hurries = r#"case "$*" in *--reencrypt=begun*) for last; do :; done
        "$real" reencrypt -q --resume-only --key-file "${last%volume}key" "$last" ;; esac
        exec "$real" "$@""#;
    let output = reencrypt("early", ONLINE, "exit 1", hurries);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    for resilience in ["checksum", "journal"] {
        let why = format!("luxor serve --reencrypt, {resilience}: it ended before");
        assert!(said.contains(&why), "{said}");
    }
}

#[test]
fn the_help_for_one_bench_is_about_that_one() {
    let help = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
            .args(words)
            .arg("--help")
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let one = help(&["reencrypt"]);
    for words in ["cryptsetup", "fio", "copy in place", "--reencrypt <WAY>"] {
        assert!(one.contains(words), "{words}: {one}");
    }
    for others in ["qemu-nbd", "--clock"] {
        assert!(!one.contains(others), "{others}: {one}");
        for all in [help(&[]), help(&["reencrypt", "cpu"])] {
            assert!(all.contains(others), "{others}: {all}");
        }
    }
}

fn above_0(value: &Value) -> bool {
    value.as_f64().is_some_and(|value| value > 0.0)
}

/// Runs the program and compares the field names of its JSON with those of an example.
fn has_the_form_of(example: &str, line: &str) -> Value {
    let file = env::temp_dir().join(format!("luxor-bench-{}-{example}", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
        .args(line.split_whitespace())
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let found: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    fs::remove_file(&file).unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs/examples")
        .join(example);
    let example: Value = serde_json::from_str(&fs::read_to_string(example).unwrap()).unwrap();
    assert_eq!(found["schema"], example["schema"]);
    let fields = |value: &Value| {
        let mut fields = Vec::new();
        list(value, "", &mut fields);
        fields
    };
    assert_eq!(fields(&found), fields(&example));
    found
}

#[test]
fn servers_end_with_the_program() {
    // The child inherits the pipe as standard output, so the pipe ends when the child does.
    let script = r#""$0" --stay-with-parent $$ sleep 60 & echo started; wait"#;
    let mut shell = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_luxor-bench")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(shell.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    let begun = Instant::now();
    shell.kill().unwrap();
    shell.wait().unwrap();
    output.read_line(&mut line).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(50));
    // A process with another parent than the given one treats its parent as gone.
    let status = Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
        .args(["--stay-with-parent", "0", "true"])
        .status()
        .unwrap();
    assert!(!status.success());
}

#[test]
fn impossible_options_are_explained() {
    for (line, said) in [
        ("block --request 8K", "--request"),
        ("demir-2020 --connections 3", "--connections"),
        ("block --contestant qemu --size 1M", "16M"),
        ("demir-2020 --engine none", "none"),
        ("damjanovic-simic-2015 --engine none", "none"),
        ("damjanovic-simic-2015 --array 100", "--array"),
        ("an-seo-2022 --engine none", "none"),
        ("sanida-2020 --engine none", "none"),
        ("sanida-2020 --size 100", "--size"),
        ("gpu --engine none", "none"),
        (
            "block --dir /nonexistent/folder --contestant qemu",
            "/nonexistent/folder",
        ),
        (
            "block --luxor /nonexistent/luxor --contestant luxor",
            "/nonexistent/luxor",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
            .args(line.split(' '))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(said), "{line}: {stderr}");
        assert!(output.stdout.is_empty(), "{line}");
    }
}

/// Otherwise minutes of measurements would be lost.
#[test]
fn unusable_paths_fail_before_anything_is_measured() {
    let quick = "--quick --engine portable --size 1M --call 4K --unit 512 --key-size 256 \
                 --direction encrypt --place in";
    for (names, more) in [
        ("cpu file", ["--dir", "/nonexistent/folder"]),
        ("cpu", ["--json", "/nonexistent/folder/file"]),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
            .args(names.split(' ').chain(quick.split_whitespace()))
            .args(more)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("/nonexistent/folder"), "{said}");
        assert!(output.stdout.is_empty(), "{more:?}");
    }
}

/// File names may contain any bytes.
#[cfg(unix)]
#[test]
fn an_output_name_may_be_invalid_utf8() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    let mut name = format!("luxor-bench-name-{}-", std::process::id()).into_bytes();
    name.push(0xff);
    let file = env::temp_dir().join(OsStr::from_bytes(&name));
    let line = "cpu --quick --engine portable --size 1M --call 4K --unit 512 --key-size 256 \
                --direction encrypt --place in --json";
    let output = Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
        .args(line.split_whitespace())
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let found: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    fs::remove_file(&file).unwrap();
    assert!(found["command"].is_array());
}

/// Collects the names of all fields in order. A list counts by its first element.
fn list(value: &Value, at: &str, fields: &mut Vec<String>) {
    match value {
        // The rivals depend on how the program was built.
        Value::Object(object) if !at.ends_with(".of_rival") => {
            for (name, value) in object {
                let name = format!("{at}.{name}");
                fields.push(name.clone());
                list(value, &name, fields);
            }
        }
        // The limits depend on the CPU.
        Value::Array(array) if !at.ends_with(".limits") && !at.ends_with(".absent") => {
            if let Some(first) = array.first() {
                list(first, at, fields);
            }
        }
        _ => {}
    }
}
