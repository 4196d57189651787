// SPDX-License-Identifier: MIT OR Apache-2.0
//! Help, bad usage, completions, man pages, engines.

use std::{fs, fs::File, process::Stdio};

use serde_json::Value;

use crate::support::{
    FAST, Folder, as_nobody, luxor, shell_without_terminal, terminal_shell, tool,
};

#[test]
fn help_and_version_go_to_standard_output() {
    for line in [
        "--help",
        "-h",
        "help",
        "help encrypt",
        "encrypt --help",
        "raw -h",
    ] {
        let outcome = luxor(line).ok();
        assert!(outcome.text().contains("Usage: luxor"), "{line}");
        assert_eq!(outcome.stderr, "", "{line}");
    }
    let version = luxor("--version").ok();
    assert_eq!(
        version.text(),
        format!("luxor {}\n", env!("CARGO_PKG_VERSION"))
    );
    let long = luxor("--help").ok();
    for code in ["0", "1", "2", "3", "4", "5", "130"] {
        assert!(
            long.text()
                .lines()
                .any(|line| line.trim_start().starts_with(&format!("{code}  "))),
            "exit code {code} is not explained"
        );
    }
}

#[test]
fn bad_usage_exits_with_1() {
    for line in [
        "",
        "frobnicate",
        "encrypt",
        "encrypt a",
        "encrypt a b c",
        "encrypt --nonsense a b",
        "encrypt --type luks9 a b",
        "encrypt --pbkdf bcrypt a b",
        "encrypt --sector-size many a b",
        "encrypt --iter-time 1 --pbkdf-force-iterations 4 a b",
        "decrypt --sparse maybe a b",
        "raw --mode xts a b",
        "raw encrypt a b",
        "raw encrypt --mode xts --number 340282366920938463463374607431768211456 a b",
        "raw encrypt --mode ctr --iv 00 a b",
        "raw encrypt --mode ofb-xexe a b",
        "raw encrypt --mode ofb-xe --iv 00000000000000000000000000000000 --tweaks beta a b",
        "--threads 0 engines",
        "--threads 1025 engines",
        "-q -v engines",
        "dump",
    ] {
        let outcome = luxor(line).run();
        outcome.assert_code(1);
        assert!(outcome.stdout.is_empty(), "{outcome:#?}");
        if !line.is_empty() {
            assert!(outcome.stderr.starts_with("luxor: "), "{outcome:#?}");
        }
    }
}

#[test]
fn bad_numbers_are_described_in_plain_words() {
    for (line, words) in [
        ("--threads x engines", "must be a number from 1 to 1024"),
        ("--threads 1025 engines", "must be a number from 1 to 1024"),
        ("encrypt --sector-size 4k a b", "not a whole number"),
        (
            "check --key-slot 99999999999999999999 a",
            "number is too large",
        ),
        ("check --key-slot= a", "number is missing"),
    ] {
        let outcome = luxor(line).run();
        outcome.assert_code(1);
        assert!(outcome.stderr.contains(words), "{outcome:#?}");
    }
}

#[test]
fn engines_are_listed_with_their_self_tests() {
    let text = luxor("engines").ok();
    assert!(text.text().contains("portable"), "{}", text.text());
    assert!(
        text.text().lines().any(|line| line.starts_with("* ")),
        "{}",
        text.text()
    );

    let json: Value = serde_json::from_slice(&luxor("engines --json").ok().stdout).unwrap();
    let portable = json["engines"]
        .as_array()
        .unwrap()
        .iter()
        .find(|engine| engine["name"] == "portable")
        .expect("portable is available on every machine");
    assert_eq!(portable["present"], true);
    assert_eq!(portable["self_test"], "passed");
    assert_eq!(portable["modes"].as_array().unwrap().len(), 7);
}

/// Without a linker, PoCL would end the program.
#[test]
fn engines_are_listed_where_opencl_has_no_linker() {
    let found = luxor("engines").env("PATH", "/nonexistent").ok();
    let text = found.text();
    assert!(
        text.contains("the linker ld, which is not on PATH"),
        "{text}"
    );
    assert!(text.contains("portable"), "{text}");
}

/// The output must have the structure of the committed example.
#[test]
fn engines_json_has_the_shape_of_the_example() {
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/examples/engines.json"
    );
    let example: Value = serde_json::from_slice(&fs::read(example).unwrap()).unwrap();
    let output: Value = serde_json::from_slice(&luxor("engines --json").ok().stdout).unwrap();
    assert_eq!(output["schema"], example["schema"]);

    let keys =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(keys(&output), keys(&example));
    let names = |value: &Value| -> Vec<Value> {
        value["engines"]
            .as_array()
            .unwrap()
            .iter()
            .map(|engine| engine["name"].clone())
            .collect()
    };
    assert_eq!(names(&output), names(&example));
    for engine in output["engines"]
        .as_array()
        .unwrap()
        .iter()
        .chain(example["engines"].as_array().unwrap())
    {
        assert_eq!(
            keys(engine),
            ["name", "present", "device", "modes", "self_test", "reason"]
        );
        let present = engine["present"].as_bool().unwrap();
        assert_eq!(engine["device"].is_string(), present, "{engine}");
        assert_eq!(engine["self_test"] == "passed", present, "{engine}");
        assert_eq!(engine["reason"].is_string(), !present, "{engine}");
        assert!(
            engine["modes"]
                .as_array()
                .unwrap()
                .iter()
                .all(Value::is_string),
            "{engine}"
        );
    }
}

#[test]
fn an_absent_engine_is_named() {
    let folder = Folder::new();
    let input = folder.write("input", [0; 32]);
    let key = folder.write("key", (0..64).collect::<Vec<u8>>());
    let no_cuda = if cfg!(feature = "cuda") {
        "the engine cuda is not available: NVIDIA's driver "
    } else {
        "the engine cuda is not available: this program was built without it"
    };
    let no_opencl = if cfg!(feature = "opencl") {
        "the engine opencl is not available: OpenCL is installed, but has no platform"
    } else {
        "the engine opencl is not available: this program was built without it"
    };
    for (name, words) in [
        ("cuda", no_cuda),
        ("opencl", no_opencl),
        ("vaes1024", "there is no engine called \"vaes1024\""),
    ] {
        // Hides GPUs, and leaves OpenCL without an implementation.
        let without_devices = |line: &str| {
            luxor(line)
                .args(["--engine", name])
                .env("CUDA_VISIBLE_DEVICES", "")
                .env("OCL_ICD_VENDORS", folder.path())
        };
        without_devices("raw encrypt --mode xts")
            .arg("--key-file")
            .args([&key, &input, &folder.join("output")])
            .fails(1, words);
        // The engine is checked before the volume is opened.
        without_devices("dump volume").fails(1, words);
    }
    assert_eq!(folder.names(), ["input", "key"]);
}

/// The contents of a file may have been passed in place of its name.
#[test]
fn messages_shorten_long_arguments() {
    let long = "x".repeat(100_000);
    let option = format!("--{long}");
    let value = format!("--threads={long}");
    for args in [
        vec!["dump", &long],
        vec!["decrypt", &long, "output"],
        vec!["decrypt", "a", "b", &long],
        vec!["decrypt", "a", "b", &option],
        vec!["decrypt", "a", "b", &value],
        vec!["decrypt", "a", "b", "--threads", &long],
        vec!["decrypt", "a", "b", "--engine", &long],
        vec!["serve", &long, "--socket", &long],
        vec!["raw", "encrypt", "--mode", &long, "a", "b"],
    ] {
        let (command, args) = args.split_first().expect("there is a command");
        let outcome = luxor(command).args(args).run();
        let len = outcome.stderr.len();
        let is_short = outcome.stderr.contains("xxx…xxx") && len < 2000;
        assert!(
            is_short || outcome.stderr.contains("no engine"),
            "{command}: {len} bytes"
        );
    }
    let text = luxor(&long).run().stderr;
    assert!(
        text.contains("xxx…xxx") && text.len() < 2000,
        "{}",
        text.len()
    );
}

/// The reason for a missing engine is printed, whatever other engines there are.
#[test]
fn absent_devices_are_listed_with_the_reason() {
    let folder = Folder::new();
    let text = luxor("engines")
        .env("CUDA_VISIBLE_DEVICES", "")
        .env("OCL_ICD_VENDORS", folder.path())
        .ok();
    for name in ["cuda", "opencl"] {
        let line = text.text().lines().find(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(name) && words.next() == Some("absent:")
        });
        let line = line.unwrap_or_else(|| panic!("{name} in {}", text.text()));
        assert!(line.len() > "  opencl    absent: ".len(), "{line}");
    }
}

#[cfg(not(feature = "fpga"))]
#[test]
fn an_engine_that_was_not_built_says_so() {
    let reason = "this program was built without it (cargo feature `fpga`)";
    let text = luxor("engines").ok();
    let line = format!("  fpga      absent: {reason}\n");
    assert!(text.text().contains(&line), "{}", text.text());
    luxor("dump volume --engine=fpga")
        .fails(1, &format!("the engine fpga is not available: {reason}"));
}

#[test]
fn a_closed_standard_output_is_not_an_error() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", b"plain");
    let encrypt = luxor("encrypt --key-file key plain v").args(FAST);
    encrypt.current_dir(folder.path()).ok();
    for line in [
        "engines",
        "engines --json",
        "completions bash",
        "completions zsh",
        "--help",
        "help encrypt",
        "encrypt --help",
        "--version",
        "dump v",
        "dump --json v",
        "dump --volume-key --batch-mode --key-file key v",
        "key list v",
        "key test --key-file key v",
        "token list v",
        "uuid v",
        "header digest v",
        "check v",
        "check --json --key-file key v",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let command = luxor(line).current_dir(folder.path());
        let outcome = command.stdout_to(writer).run();
        outcome.assert_code(0);
        assert!(!outcome.stderr.contains("pipe"), "{outcome:#?}");
        assert!(!outcome.stderr.contains("panicked"), "{outcome:#?}");
    }
    // A full device is an error.
    let full = File::options().write(true).open("/dev/full").unwrap();
    luxor("engines")
        .stdout_to(Stdio::from(full))
        .fails(1, "No space left on device");
}

#[test]
fn completions_know_the_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = luxor("completions").arg(shell).ok();
        for word in ["pbkdf-force-iterations", "keyfile-offset"] {
            assert!(script.text().contains(word), "{shell}");
        }
        // The scripts of these two shells contain the values of options.
        if ["bash", "zsh"].contains(&shell) {
            assert!(script.text().contains("portable"), "{shell}");
        }
    }
    let folder = Folder::new();
    let script = luxor("completions bash").ok();
    // cryptsetup's actions complete too.
    assert!(script.text().contains("luksAddKey"), "{}", script.text());
    let script = folder.write("luxor", script.stdout);
    tool("bash", ["-n".as_ref(), script.as_os_str()]);
}

#[test]
fn an_unknown_option_suggests_the_one_that_was_meant() {
    for (line, meant) in [
        ("decrypt --kye x volume out", "--key-file"),
        ("--kye x", "--key-file"),
        ("decrypt --haeder x volume out", "--header"),
        ("key add --new-key-fil x volume", "--new-key-file"),
    ] {
        let outcome = luxor(line).run();
        outcome.assert_code(1);
        let tip = format!("a similar argument exists: '{meant}'");
        assert!(outcome.stderr.contains(&tip), "{outcome:#?}");
    }
    let outcome = luxor("decrypt --zzz volume out").run();
    assert!(!outcome.stderr.contains("similar"), "{outcome:#?}");
    // Clap would advise `-- -k`: the names of options are not files.
    for line in [
        "encrypt -kfile a b",
        "encrypt -file a",
        "dump -k",
        "key list -x v",
    ] {
        let outcome = luxor(line).run();
        outcome.assert_code(1);
        assert!(!outcome.stderr.contains("-- -"), "{outcome:#?}");
    }
}

#[test]
fn a_terminal_shows_errors_and_warnings_in_colour() {
    let folder = Folder::new();
    let shown = |line: &str| terminal_shell(line, &[], folder.path()).1;
    let red = "\x1b[1m\x1b[31mluxor:\x1b[0m";
    for (line, expected) in [
        ("dump nothing", format!("{red} nothing does not exist")),
        ("dump", format!("{red} the following required arguments")),
    ] {
        let screen = shown(&format!("env -u NO_COLOR \"$luxor\" {line}"));
        assert!(screen.contains(&expected), "{screen:?}");
        let screen = shown(&format!("NO_COLOR=1 \"$luxor\" {line}"));
        assert!(screen.starts_with("luxor: "), "{screen:?}");
        assert!(!screen.contains('\x1b'), "{screen:?}");
    }
}

#[test]
fn a_folder_as_input_points_to_tar() {
    let folder = Folder::new();
    fs::create_dir(folder.join("photos")).unwrap();
    let said = luxor("encrypt photos out.luks").current_dir(folder.path());
    let said = said.fails(1, "photos is a folder, not a file").stderr;
    let hint = "\n  Encrypt an archive: `tar c photos | luxor encrypt - out.luks`\n";
    assert!(said.ends_with(hint), "{said}");
}

#[test]
fn there_is_a_man_page_for_each_command() {
    let folder = Folder::new();
    luxor("man new/man1").current_dir(folder.path()).ok();
    let pages = folder.join("new/man1");
    for page in [
        "luxor.1",
        "luxor-encrypt.1",
        "luxor-decrypt.1",
        "luxor-raw.1",
        "luxor-engines.1",
        "luxor-man.1",
    ] {
        assert!(pages.join(page).exists(), "{page}");
    }
    let page = fs::read_to_string(pages.join("luxor-encrypt.1")).unwrap();
    for text in [
        "pbkdf",
        // The synopsis.
        "encrypt\\fR [OPTIONS] <INPUT> <OUTPUT>\n",
        ".SH EXAMPLES",
        ".SH \"EXIT STATUS\"",
        "no usable key",
    ] {
        assert!(page.contains(text), "no {text} in {page}");
    }

    luxor("man new/man1/luxor.1/below-a-file")
        .current_dir(folder.path())
        .fails(1, "cannot write man pages");
}

/// Installs `luxor` alone in a folder, with no other program beside it.
fn luxor_alone(folder: &Folder) -> std::path::PathBuf {
    let luxor = folder.join("luxor");
    install(env!("CARGO_BIN_EXE_luxor").as_ref(), &luxor);
    luxor
}

/// Copies a program with another process: if this process had the file open for writing, programs
/// that other tests start could inherit it, and the copy could not be executed.
fn install(from: &std::path::Path, to: &std::path::Path) {
    let words = [
        "-m".as_ref(),
        "755".as_ref(),
        from.as_os_str(),
        to.as_os_str(),
    ];
    tool("install", words);
}

#[test]
fn bench_says_how_to_get_the_program_that_measures() {
    let folder = Folder::new();
    let outcome = std::process::Command::new(luxor_alone(&folder))
        .args(["bench", "cpu", "--quick"])
        .env("PATH", folder.join("nothing"))
        .output()
        .unwrap();
    assert_eq!(outcome.status.code(), Some(1));
    let stderr = String::from_utf8(outcome.stderr).unwrap();
    assert!(
        stderr.starts_with("luxor: cannot find the program luxor-bench, neither beside"),
        "{stderr}"
    );
    assert!(
        stderr.contains("cargo build --release --package luxor-bench"),
        "{stderr}"
    );
}

#[test]
fn bench_hands_everything_over() {
    let folder = Folder::new();
    let luxor = luxor_alone(&folder);
    let script = folder.write(
        "script",
        "#!/bin/sh
printf '%s\n' \"$@\"
exit 42
",
    );
    install(&script, &folder.join("luxor-bench"));
    for (line, expected) in [
        (
            "--engine portable bench cpu file --size 1M --quick --json a --threads 3 --unit 512",
            "--engine portable cpu file --size 1M --quick --json a --threads 3 --unit 512",
        ),
        ("bench block --request 64K", "block --request 64K"),
        ("bench --quick cpu --mode xts", "--quick cpu --mode xts"),
        ("bench cpu --quick --mode xts", "cpu --quick --mode xts"),
        ("bench cpu -- --unit 512", "cpu --unit 512"),
        ("bench -v cpu", "--verbose cpu"),
        (
            "report --quick a.html --threads 3 --dir b",
            "--threads 3 --report a.html --quick --dir b",
        ),
    ] {
        let outcome = std::process::Command::new(&luxor)
            .args(line.split(' '))
            .output()
            .unwrap();
        assert_eq!(outcome.status.code(), Some(42));
        let given = String::from_utf8(outcome.stdout).unwrap();
        let given = given.lines().collect::<Vec<_>>().join(" ");
        assert_eq!(given, format!("--luxor {} {expected}", luxor.display()));
    }
}

/// A value may be the contents of a file instead of its name.
#[test]
fn values_in_messages_are_short_and_plain() {
    let folder = Folder::new();
    let value = format!("\u{1b}[2J{}", "x".repeat(10_000));
    for line in [
        "config volume --uuid",
        "luksFormat -q volume --cipher",
        "luksFormat -q volume --hash",
        "luksFormat -q volume --type",
        "luksDump volume",
        "luksDump volume volume",
    ] {
        let refused = luxor(line).arg(&value).current_dir(folder.path()).run();
        refused.assert_code(1);
        let text = refused.stderr.trim_end();
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert!(text.chars().count() < 1200, "{line}: {}", text.len());
    }
}

/// Only `serve` and `mount` can do without permission to write.
#[test]
fn read_only_is_advised_where_it_is_an_option() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    luxor("format --key-file key --size 1M volume")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    folder.open_to_everybody();
    tool("chmod", ["a=r".as_ref(), folder.join("volume").as_os_str()]);
    tool(
        "chown",
        ["root".as_ref(), folder.join("volume").as_os_str()],
    );
    let run = |line: &str| {
        let line = format!("timeout --preserve-status 5 \"$luxor\" {line}");
        as_nobody(&line, folder.path())
    };
    let key = "--key-file key";
    for line in [
        format!("reencrypt {key} volume"),
        format!("reencrypt --encrypt --header h {key} volume"),
        "resize --size 2M volume".to_owned(),
        format!("serve --reencrypt --socket socket {key} volume"),
    ] {
        let refused = run(&line);
        refused.assert_code(1);
        assert!(!refused.stderr.contains("--read-only"), "{refused:#?}");
    }
    let line = format!("serve --socket socket {key} volume");
    let refused = run(&line);
    refused.assert_code(1);
    let advice = "--read-only needs no permission to write";
    assert!(refused.stderr.contains(advice), "{refused:#?}");
    let served = run(&format!("{line} --read-only"));
    served.assert_code(0);
    assert!(served.stderr.contains("read-only"), "{served:#?}");
}

/// The work is done in a thread, whose stack does not depend on `ulimit -s`.
#[test]
fn a_short_stack_suffices() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", b"text");
    let fast = FAST.join(" ");
    let lines = [
        format!("encrypt --key-file key plain v {fast}"),
        "dump v".to_owned(),
        "decrypt --key-file key v out".to_owned(),
        format!("key add --key-file key --new-key-file key v {fast}"),
        "serve --key-file key --socket s --pid-file p v & \
         until [ -s p ]; do sleep 0.05; done; kill $(cat p); wait $!"
            .to_owned(),
        "--help".to_owned(),
    ];
    // The threads of an OpenCL driver, of which not all take part each time.
    let lines = lines.into_iter().chain(vec!["engines".to_owned(); 5]);
    for line in lines {
        let line = format!("ulimit -s 64; \"$luxor\" {line}");
        shell_without_terminal(&line, folder.path()).assert_code(0);
    }
    assert_eq!(fs::read(folder.join("out")).unwrap(), b"text");
}
