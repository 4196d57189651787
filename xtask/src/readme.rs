// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the commands of the README, so that it stays correct.

use std::{
    fs,
    io::{self, Read, Write},
    path::PathBuf,
    process::Stdio,
};

use crate::{
    cpu,
    process::{self, command},
};

/// The command that runs all tests. The README must name it, but it is not run from here, because
/// the tests have already run.
const TESTS: &str = "cargo xtask test";

const PASSPHRASE: &str = "correct horse battery staple";

/// Runs every command of the README's `sh` blocks in order, and types a passphrase where they ask for
/// one. The first one must be an `encrypt`, and a later `decrypt` must restore the same bytes. The
/// files are removed again.
pub fn follow() -> Result<String, String> {
    let readme = fs::read_to_string(process::root().join("README.md"))
        .map_err(|e| format!("README.md: {e}"))?;
    let commands = shell_commands(&readme);
    let (first, rest) = commands.split_first().ok_or("README.md has no sh block")?;
    let (source, volume) = files_of(first, "encrypt")?;
    let back = rest
        .iter()
        .find_map(|command| files_of(command, "decrypt").ok())
        .filter(|(input, _)| *input == volume)
        .ok_or_else(|| format!("README.md has no decrypt of {volume}"))?
        .1;
    if !rest.contains(&TESTS) {
        return Err(format!(
            "README.md does not contain the command \"{TESTS}\""
        ));
    }

    let made = [volume, back].map(|name| process::root().join(name));
    if let Some(file) = made.iter().find(|file| file.exists()) {
        return Err(format!("{} exists already: remove it", file.display()));
    }
    let _removed_at_the_end = Made(&made);
    for line in commands.iter().filter(|line| **line != TESTS) {
        eprintln!("$ {line}");
        run_on_terminal(line)?;
    }
    let read =
        |name: &str| fs::read(process::root().join(name)).map_err(|e| format!("{name}: {e}"));
    if read(source)? != read(back)? {
        return Err(format!("{back} differs from {source}"));
    }
    // Without a terminal: at a prompt cryptsetup discards what is typed too soon.
    let opens = format!("printf '{PASSPHRASE}' | cryptsetup open --test-passphrase --type luks2");
    process::run(command("sh").args(["-c", &format!("{opens} {volume}")]))?;
    Ok(format!("{} commands", commands.len() - 1))
}

/// Removes files when dropped.
struct Made<'a>(&'a [PathBuf]);

impl Drop for Made<'_> {
    fn drop(&mut self) {
        for file in self.0 {
            let _ = fs::remove_file(file);
        }
    }
}

/// Returns the lines of the `sh` blocks, without comments and blank lines.
fn shell_commands(text: &str) -> Vec<&str> {
    let mut commands = Vec::new();
    let mut in_shell = false;
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(language) => in_shell = language == "sh",
            None if in_shell && !line.is_empty() && !line.starts_with('#') => commands.push(line),
            None => {}
        }
    }
    commands
}

/// Returns the input and the output of a command line that ends with `VERB INPUT OUTPUT`.
fn files_of<'a>(line: &'a str, verb: &str) -> Result<(&'a str, &'a str), String> {
    match line.split_whitespace().collect::<Vec<_>>().as_slice() {
        [.., found, input, output] if *found == verb => Ok((input, output)),
        _ => Err(format!(
            "README.md: \"{line}\" does not end with {verb} INPUT OUTPUT"
        )),
    }
}

/// Runs a line of shell on a terminal of its own, and types the passphrase at every prompt: a line
/// that ends with a colon and a space.
fn run_on_terminal(line: &str) -> Result<(), String> {
    let fail = |error: io::Error| format!("{line}: {error}");
    let mut script = command("script")
        .args(["--quiet", "--return", "--command", line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(fail)?;
    let mut keyboard = script.stdin.take().expect("standard input is a pipe");
    let mut display = script.stdout.take().expect("standard output is a pipe");
    let (mut shown, mut screen) = ([0; 4096], String::new());
    loop {
        let count = display.read(&mut shown).map_err(fail)?;
        if count == 0 {
            break;
        }
        screen += &String::from_utf8_lossy(&shown[..count]);
        if screen.ends_with(": ") {
            writeln!(keyboard, "{PASSPHRASE}").map_err(fail)?;
        }
    }
    let status = cpu::wait(&mut script).map_err(fail)?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{line}: {status}\n{screen}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shell_blocks_are_commands() {
        let text =
            "a\n```sh\n# comment\ncargo x\n\ncargo y\n```\n```console\n# no\n```\n```sh\nz\n```\n";
        assert_eq!(shell_commands(text), ["cargo x", "cargo y", "z"]);
    }

    #[test]
    fn the_files_are_the_last_two_words() {
        assert_eq!(
            files_of("luxor encrypt a b", "encrypt").unwrap(),
            ("a", "b")
        );
        assert!(files_of("luxor encrypt a b", "decrypt").is_err());
        assert!(files_of("luxor encrypt a", "encrypt").is_err());
    }
}
