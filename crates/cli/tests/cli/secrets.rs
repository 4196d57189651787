// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sources of secrets: key files, lines of file descriptors, a terminal.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::support::{
    FAST, Folder, Luxor, as_nobody, bytes, luxor, shell_without_terminal, terminal, terminal_shell,
};

fn encrypt() -> Luxor {
    luxor("encrypt").args(FAST)
}

/// Makes a volume with the passphrase `secret`.
fn volume(folder: &Folder, secret: &[u8]) {
    folder.write("plain", b"attack at dawn");
    folder.write("secret", secret);
    encrypt()
        .args(["--force", "--key-file", "secret", "plain", "volume"])
        .current_dir(folder.path())
        .ok();
}

/// Tries to open the volume with `stdin` and the options, and returns the exit code.
fn opens(folder: &Folder, options: &str, stdin: &[u8]) -> i32 {
    let outcome = luxor("decrypt --force")
        .args(options.split_whitespace())
        .args(["volume", "back"])
        .current_dir(folder.path())
        .stdin(stdin)
        .run();
    if outcome.code == Some(0) {
        assert_eq!(fs::read(folder.join("back")).unwrap(), b"attack at dawn");
    }
    outcome.code.unwrap()
}

#[test]
fn key_files_count_every_byte_and_descriptors_one_line() {
    let folder = Folder::new();
    volume(&folder, b"correct horse");
    let line = "--passphrase-fd 0";
    assert_eq!(opens(&folder, line, b"correct horse"), 0);
    assert_eq!(opens(&folder, line, b"correct horse\n"), 0);
    assert_eq!(opens(&folder, line, b"correct horse\nsecond line"), 0);
    assert_eq!(opens(&folder, line, b"correct horse\r\n"), 2);
    assert_eq!(opens(&folder, line, b"\n"), 2);
    assert_eq!(opens(&folder, line, b""), 1);
    assert_eq!(opens(&folder, "--key-file -", b"correct horse"), 0);
    assert_eq!(opens(&folder, "--key-file -", b"correct horse\n"), 2);
    assert_eq!(
        opens(
            &folder,
            "--key-file - --keyfile-size 13",
            b"correct horse\n"
        ),
        0
    );
    assert_eq!(
        opens(
            &folder,
            "--key-file - --keyfile-offset 2",
            b"\n\ncorrect horse"
        ),
        0
    );

    volume(&Folder::new(), b"x");
    let binary = Folder::new();
    let secret = [&bytes(5000, 9)[..], b"\n\0\n"].concat();
    volume(&binary, &secret);
    assert_eq!(opens(&binary, "--key-file secret", b""), 0);
    assert_eq!(opens(&binary, "--key-file -", &secret), 0);
}

/// The commonest reasons why the right passphrase fails. The advice works, and a file that is not one line
/// of text gets none.
#[test]
fn a_secret_that_fails_may_have_a_newline_or_another_encoding() {
    let folder = Folder::new();
    let composed = "\u{fc}ber";
    let decomposed = "u\u{308}ber";
    let check = |options: &str| {
        let line = format!("\"$luxor\" check {options} volume");
        shell_without_terminal(&line, folder.path())
    };
    for name in ["key", "my key's"] {
        volume(&folder, b"correct horse");
        folder.write(name, b"correct horse\n");
        let word = if name == "key" {
            "key"
        } else {
            r"'my key'\''s'"
        };
        let failed = check(&format!("--key-file {word}"));
        failed.assert_code(2);
        let advice = format!("--passphrase-fd 3 3< {word}");
        assert!(failed.stderr.contains(&advice), "{failed:#?}");
        check(&advice).assert_code(0);
        // The number of another descriptor is not advised.
        let change = format!("key change --key-file {word} --new-passphrase-fd 3 volume 3< key");
        let failed = shell_without_terminal(&format!("\"$luxor\" {change}"), folder.path());
        failed.assert_code(2);
        assert!(
            failed.stderr.contains("--passphrase-fd 4 4< "),
            "{failed:#?}"
        );
        folder.write(name, b"correct horse\r\n");
        let failed = check(&format!("--key-file {word}"));
        let command = failed.stderr.split('`').nth(1);
        let command = command.unwrap_or_else(|| panic!("{failed:#?}"));
        shell_without_terminal(&command.replace("NEW-FILE", "new"), folder.path()).assert_code(0);
        check("--key-file new").assert_code(0);
    }
    folder.write("key", b"correct horse\n");
    let failed = check("--key-file - < key");
    assert!(
        failed.stderr.contains("give --passphrase-fd 0 in place"),
        "{failed:#?}"
    );
    check("--passphrase-fd 0 < key").assert_code(0);

    for (set, given) in [(composed, decomposed), (decomposed, composed)] {
        volume(&folder, set.as_bytes());
        folder.write("key", given);
        for options in ["--key-file key", "--passphrase-fd 0 < key"] {
            let failed = check(options);
            failed.assert_code(2);
            assert!(failed.stderr.contains("NFC and NFD"), "{failed:#?}");
            assert!(!failed.stderr.contains(given), "{failed:#?}");
            // Latin-1 has no combining characters.
            let is_converted = given == composed && options == "--key-file key";
            assert_eq!(failed.stderr.contains("iconv"), is_converted, "{failed:#?}");
        }
    }
    let run = |line: &str| shell_without_terminal(line, folder.path()).assert_code(0);
    // What editors and other systems add. The advised command makes a file that opens the volume.
    for (set, given, words) in [
        (
            &b"correct horse"[..],
            &b"correct horse\r\n"[..],
            "a carriage return and a newline",
        ),
        (
            b"correct horse",
            b"correct horse\r",
            "ends with a carriage return,",
        ),
        (b"correct horse", b"correct horse\n\n", "several newlines"),
        (
            b"correct horse",
            b"correct horse\r\n\r\n",
            "several newlines",
        ),
        (
            b"correct horse",
            b"\xef\xbb\xbfcorrect horse",
            "a byte-order mark",
        ),
        (
            b"correct horse",
            b"\xef\xbb\xbfcorrect horse\r\n",
            "a byte-order mark",
        ),
        (b"\xfcber", "\u{fc}ber".as_bytes(), "Latin-1"),
        ("\u{fc}ber".as_bytes(), b"\xfcber", "Latin-1"),
    ] {
        volume(&folder, set);
        folder.write("key", given);
        let failed = check("--key-file key");
        failed.assert_code(2);
        assert!(failed.stderr.contains(words), "{failed:#?}");
        for secret in ["correct", "ber\n", "\u{fc}"] {
            assert!(!failed.stderr.contains(secret), "{failed:#?}");
        }
        let command = failed.stderr.split('`').nth(1);
        let command = command.unwrap_or_else(|| panic!("{failed:#?}"));
        run(&command.replace("NEW-FILE", "new"));
        let mode = fs::metadata(folder.join("new"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{command}");
        check("--key-file new").assert_code(0);
        fs::remove_file(folder.join("new")).unwrap();
        // A descriptor gives one line.
        let line = check("--passphrase-fd 0 < key");
        if given.strip_suffix(b"\n").unwrap_or(given) == set || given.ends_with(b"\n\n") {
            line.assert_code(0);
        } else {
            line.assert_code(2);
            assert_eq!(line.stderr.lines().count(), 2, "{line:#?}");
        }
    }
    volume(&folder, b"correct horse");
    let line = "bash -c '\"$luxor\" check --key-file <(echo correct horse) volume'";
    let failed = shell_without_terminal(line, folder.path());
    let advice = "--passphrase-fd 3 3< FILE in place of --key-file FILE";
    assert!(failed.stderr.contains(advice), "{failed:#?}");
    assert!(
        !failed.stderr.lines().nth(1).unwrap().contains("/dev/fd"),
        "{failed:#?}"
    );
    folder.write("FILE", b"correct horse\n");
    check("--passphrase-fd 3 3< FILE").assert_code(0);

    for secret in [
        &b"wrong"[..],
        b"two\nlines\n",
        b"\x81\xff\xfe",
        b"\xef\xbb\xbf",
        b"\n\n",
        b"\x01\x02\xff\n",
        b"\xc3\xbc\x01",
        b"\n",
    ] {
        folder.write("key", secret);
        let failed = check("--key-file key");
        failed.assert_code(2);
        assert_eq!(failed.stderr.lines().count(), 1, "{failed:#?}");
    }
    folder.write("key", b"correct horse\n");
    for options in ["--keyfile-size 14", "--keyfile-offset 1"] {
        let failed = check(&format!("{options} --key-file key"));
        assert_eq!(failed.stderr.lines().count(), 1, "{failed:#?}");
    }
}

/// A loop over a list of files reads the list from standard input, and so does every program in it.
#[test]
fn standard_input_is_no_secret_unless_an_option_says_so() {
    let folder = Folder::new();
    volume(&folder, b"correct horse");
    folder.write("second", b"attack at dusk");
    folder.write("list", b"plain\nsecond\n");
    let fast = FAST.join(" ");
    let encrypt = format!("\"$luxor\" encrypt {fast}");
    let without = format!("while read f; do {encrypt} $f $f.luks; done < list");
    let outcome = shell_without_terminal(&without, folder.path());
    outcome.assert_code(1);
    assert_eq!(outcome.stderr.matches("there is no terminal").count(), 2);
    for option in ["--key-file FILE", "--passphrase-fd N"] {
        assert!(outcome.stderr.contains(option), "{outcome:#?}");
    }
    assert_eq!(
        folder.names(),
        ["list", "plain", "second", "secret", "volume"]
    );

    let typed = ["one\n", "one\n", "two\n", "two\n"];
    let (code, screen) = terminal_shell(&without, &typed, folder.path());
    assert_eq!(code, 0, "{screen}");
    fs::rename(folder.join("second.luks"), folder.join("volume")).unwrap();
    luxor("decrypt --passphrase-fd 0 volume back")
        .current_dir(folder.path())
        .stdin("two\n")
        .ok();
    assert_eq!(fs::read(folder.join("back")).unwrap(), b"attack at dusk");
}

#[test]
fn passphrases_are_lines_of_inherited_descriptors() {
    let folder = Folder::new();
    volume(&folder, b"correct horse");
    folder.write("lines", b"first\ncorrect horse\nnew\nlast\n");
    let fast = FAST.join(" ");
    // The program reads its lines and nothing after them.
    let line = format!(
        "exec 7< lines; read line <&7
        \"$luxor\" key add {fast} --passphrase-fd 7 --new-passphrase-fd 7 volume &&
        echo new | \"$luxor\" key test --passphrase-fd 0 volume && cat <&7"
    );
    let outcome = shell_without_terminal(&line, folder.path());
    outcome.assert_code(0);
    assert_eq!(outcome.text(), "keyslot 1 opens\nlast\n");

    // The program itself opens files under the first free numbers.
    for number in ["3", "4", "5", "9", "63", "2147483647"] {
        luxor("decrypt --passphrase-fd")
            .args([number, "volume", "back"])
            .current_dir(folder.path())
            .fails(1, &format!("file descriptor {number}: Bad file descriptor"));
    }
    for (options, words) in [
        ("--passphrase-fd=-1", "-1 is not in 0"),
        ("--passphrase-fd 0 --key-file secret", "cannot be used with"),
        ("--passphrase-fd 0 --keyfile-size 3", "need --key-file"),
    ] {
        let outcome = luxor("decrypt")
            .args(options.split(' '))
            .args(["volume", "back"])
            .current_dir(folder.path())
            .run();
        outcome.assert_code(1);
        assert!(outcome.stderr.contains(words), "{outcome:#?}");
    }
}

#[test]
fn unusable_key_files_exit_with_1() {
    let folder = Folder::new();
    volume(&folder, b"correct horse");
    fs::create_dir(folder.join("folder")).unwrap();
    folder.write("long", vec![b'x'; (8 << 20) + 1]);
    for (options, words) in [
        (
            "--key-file missing",
            "cannot read the key file missing: No such file or directory",
        ),
        ("--key-file folder", "is a folder"),
        ("--key-file long", "8 MiB"),
        (
            "--key-file secret --keyfile-size 14",
            "has only 13 of the 14 bytes",
        ),
        ("--key-file secret --keyfile-offset 14", "has 13 bytes"),
        ("--key-file secret --keyfile-size 8388609", "8388608"),
        (
            "--key-file secret --keyfile-size 18446744073709551615",
            "8388608",
        ),
        ("--keyfile-size 3", "--key-file"),
        ("--keyfile-offset 3", "--key-file"),
    ] {
        luxor("decrypt")
            .args(options.split(' '))
            .args(["volume", "back"])
            .current_dir(folder.path())
            .stdin("correct horse")
            .fails(1, words);
    }
    // The limit itself is allowed, whether the file or --keyfile-size has that length.
    folder.write("limit", vec![b'x'; 8 << 20]);
    assert_eq!(opens(&folder, "--key-file limit", b""), 2);
    assert_eq!(
        opens(&folder, "--key-file long --keyfile-size 8388608", b""),
        2
    );
    assert!(!folder.join("back").exists() || fs::read(folder.join("back")).is_ok());
}

#[test]
fn empty_new_secrets_are_refused() {
    let folder = Folder::new();
    folder.write("plain", b"x");
    folder.write("empty", b"");
    for stdin in ["\n", ""] {
        encrypt()
            .args(["--passphrase-fd", "0", "plain", "volume"])
            .current_dir(folder.path())
            .stdin(stdin)
            .fails(1, "empty");
    }
    encrypt()
        .args(["--key-file", "empty", "plain", "volume"])
        .current_dir(folder.path())
        .fails(1, "empty");
    assert_eq!(folder.names(), ["empty", "plain"]);
}

#[test]
fn standard_input_is_not_both_data_and_secret() {
    let folder = Folder::new();
    volume(&folder, b"correct horse");
    for command in ["encrypt", "decrypt"] {
        for (option, value) in [("--key-file", "-"), ("--passphrase-fd", "0")] {
            luxor(command)
                .args([option, value, "-", "back"])
                .current_dir(folder.path())
                .stdin("x")
                .fails(1, "standard input cannot be both");
        }
        // There is no key file and no terminal, because `setsid` removes it.
        let line = format!("cat volume | \"$luxor\" {command} - back");
        let outcome = shell_without_terminal(&line, folder.path());
        outcome.assert_code(1);
        assert!(outcome.stderr.contains("--key-file"), "{outcome:#?}");
    }
    // The same pipe by another name.
    let lines = [
        "encrypt --key-file /dev/stdin - new",
        "encrypt --key-file /proc/self/fd/0 /dev/fd/0 new",
        "encrypt --key-file secret --volume-key-file - - new",
        "encrypt --key-file - --volume-key-file /dev/stdin plain new",
        "decrypt --key-file /dev/stdin - new",
        "key change --key-file /dev/stdin --new-key-file - volume",
        "raw encrypt --mode xts --key-file /dev/stdin - new",
    ];
    for line in lines {
        luxor(line)
            .current_dir(folder.path())
            .stdin([b'x'; 64])
            .fails(1, "cannot be both");
        assert!(!folder.join("new").exists(), "{line}");
    }
    let line = "mkfifo fifo; \"$luxor\" encrypt --key-file fifo fifo new";
    let outcome = shell_without_terminal(line, folder.path());
    outcome.assert_code(1);
    assert!(
        outcome.stderr.contains("fifo cannot be both"),
        "{outcome:#?}"
    );
    let data = fs::read(folder.join("volume")).unwrap();
    luxor("decrypt --key-file secret - back")
        .current_dir(folder.path())
        .stdin(data)
        .ok();
    assert_eq!(fs::read(folder.join("back")).unwrap(), b"attack at dawn");
}

/// With the header on standard input, no line of it is left for a passphrase.
#[test]
fn standard_input_is_not_both_header_and_something_else() {
    let folder = Folder::new();
    folder.write("plain", b"attack at dawn");
    folder.write("secret", b"correct horse");
    encrypt()
        .args([
            "--header",
            "header",
            "--key-file",
            "secret",
            "plain",
            "data",
        ])
        .current_dir(folder.path())
        .ok();
    let header = fs::read(folder.join("header")).unwrap();
    for (line, words) in [
        (
            "decrypt --header - --key-file - data back",
            "the key file and --header",
        ),
        (
            "check --header - --key-file - data",
            "the key file and --header",
        ),
        (
            "decrypt --header - --key-file secret - back",
            "INPUT and --header",
        ),
    ] {
        luxor(line)
            .current_dir(folder.path())
            .stdin(header.clone())
            .fails(1, words);
    }
    let line = "\"$luxor\" decrypt --header - data back < header";
    let outcome = shell_without_terminal(line, folder.path());
    outcome.assert_code(1);
    assert!(
        outcome.stderr.contains("there is no terminal"),
        "{outcome:#?}"
    );
    let (code, screen) = terminal(
        "decrypt --header - data back < header",
        &["correct horse\n"],
        folder.path(),
    );
    assert_eq!(code, 0, "{screen}");
    assert_eq!(fs::read(folder.join("back")).unwrap(), b"attack at dawn");
}

#[test]
fn a_terminal_asks_twice_for_new_passphrases_and_shows_neither() {
    let folder = Folder::new();
    folder.write("plain", b"attack at dawn");
    let line = format!("encrypt {} plain volume", FAST.join(" "));
    let (code, screen) = terminal(
        &line,
        &["correct horse\n", "correct horse\n"],
        folder.path(),
    );
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("New passphrase for volume: "), "{screen}");
    assert!(!screen.contains("horse"), "{screen}");
    assert_eq!(opens(&folder, "--passphrase-fd 0", b"correct horse"), 0);

    let (code, screen) = terminal("decrypt volume again", &["correct horse\n"], folder.path());
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("Passphrase for volume: "), "{screen}");
    assert_eq!(fs::read(folder.join("again")).unwrap(), b"attack at dawn");
}

#[test]
fn a_terminal_asks_again_after_a_mistake() {
    let folder = Folder::new();
    folder.write("plain", b"attack at dawn");
    let line = format!("encrypt {} plain volume", FAST.join(" "));
    let answers = ["one\n", "two\n", "\n", "three\n", "three\n"];
    let (code, screen) = terminal(&line, &answers, folder.path());
    assert_eq!(code, 0, "{screen}");
    assert!(
        screen.contains("the two passphrases differ") && screen.contains("empty"),
        "{screen}"
    );
    let (code, screen) = terminal("decrypt volume back", &["one\n", "three\n"], folder.path());
    assert_eq!(code, 0, "{screen}");
    // The third wrong passphrase ends the command.
    let (code, screen) = terminal("decrypt volume more", &["a\n", "b\n", "c\n"], folder.path());
    assert_eq!(code, 2, "{screen}");
    let (code, screen) = terminal(
        &format!("encrypt {} plain other", FAST.join(" ")),
        &["a\n", "b\n", "a\n", "b\n", "a\n", "b\n"],
        folder.path(),
    );
    assert_eq!(code, 1, "{screen}");
    assert_eq!(folder.names(), ["back", "plain", "volume"]);
}

#[test]
fn ctrl_c_at_a_prompt_restores_the_echo() {
    let folder = Folder::new();
    folder.write("plain", b"attack at dawn");
    // After the interruption the echo is on again.
    let (code, screen) = terminal(
        &format!("encrypt {} plain volume", FAST.join(" ")),
        &["secr\u{3}"],
        folder.path(),
    );
    assert_eq!(code, 130, "{screen}");
    assert!(screen.contains("interrupted"), "{screen}");
    assert!(screen.contains("the echo is on"), "{screen}");
    assert_eq!(folder.names(), ["plain"]);
}

#[test]
fn data_on_standard_input_leave_the_terminal_for_the_passphrase() {
    let folder = Folder::new();
    volume(&folder, b"correct horse");
    let (code, screen) = terminal(
        "decrypt - back < volume",
        &["correct horse\n"],
        folder.path(),
    );
    assert_eq!(code, 0, "{screen}");
    assert_eq!(fs::read(folder.join("back")).unwrap(), b"attack at dawn");
    let line = format!("encrypt {} - again < plain", FAST.join(" "));
    let (code, screen) = terminal(&line, &["x\n", "x\n"], folder.path());
    assert_eq!(code, 0, "{screen}");
    assert!(folder.join("again").exists());
}

/// No core dump, and no access to its memory for other processes of the user.
#[test]
fn a_process_with_a_secret_is_hardened() {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.open_to_everybody();
    // /proc/PID belongs to root if the process cannot be dumped, whatever user runs it.
    let line = format!(
        "mkfifo fifo; sleep 3 > fifo &
        \"$luxor\" encrypt {} --key-file key fifo volume & pid=$!
        sleep 1
        grep 'Max core file size' /proc/$pid/limits
        stat -c 'owner %u' /proc/$pid/status
        wait $pid",
        FAST.join(" ")
    );
    let outcome = as_nobody(&line, folder.path());
    outcome.assert_code(0);
    let text = outcome.text();
    let limit: Vec<_> = text.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(limit[4..6], ["0", "0"], "{text}");
    assert!(text.contains("owner 0"), "{text}");
}
