// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does what the README says, word by word, so that it cannot become untrue.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    checks,
    process::{self, command},
};

/// The command that runs all tests. The README must name it; it is not run from
/// here, where the tests have been run already.
const TESTS: &str = "cargo xtask test";

const PASSPHRASE: &str = "correct horse battery staple";

/// Copies the sources to a new folder and runs there, in order, every command of
/// the README's `sh` blocks, each with a passphrase to read. The first must be an
/// `encrypt`; a `decrypt` must follow that gives the same bytes back.
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
        return Err(format!("README.md does not say \"{TESTS}\""));
    }

    let folder = Folder::with_sources()?;
    for line in commands.iter().filter(|line| **line != TESTS) {
        eprintln!("$ {line}");
        run_with_passphrase(command("sh").args(["-c", line]), &folder.0)?;
    }
    let read = |name: &str| fs::read(folder.0.join(name)).map_err(|e| format!("{name}: {e}"));
    if read(source)? != read(back)? {
        return Err(format!("{back} is not what {source} is"));
    }
    let opens = ["open", "--test-passphrase", "--type", "luks2", volume];
    run_with_passphrase(command("cryptsetup").args(opens), &folder.0)?;
    Ok(format!("{} commands", commands.len() - 1))
}

/// The lines of the `sh` blocks without comments and blank lines.
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

/// The input and the output of a command line that ends `VERB INPUT OUTPUT`.
fn files_of<'a>(line: &'a str, verb: &str) -> Result<(&'a str, &'a str), String> {
    match line.split_whitespace().collect::<Vec<_>>().as_slice() {
        [.., found, input, output] if *found == verb => Ok((input, output)),
        _ => Err(format!(
            "README.md: \"{line}\" does not end: {verb} INPUT OUTPUT"
        )),
    }
}

fn run_with_passphrase(command: &mut Command, folder: &Path) -> Result<(), String> {
    let line = process::line(command);
    let fail = |error: std::io::Error| format!("{line}: {error}");
    let mut child = command
        .current_dir(folder)
        // What the checks before this one have built need not be built again.
        .env("CARGO_TARGET_DIR", process::root().join("target"))
        .stdin(Stdio::piped())
        .spawn()
        .map_err(fail)?;
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    // A command that asks for nothing closes the pipe, which is no failure.
    let _ = writeln!(stdin, "{PASSPHRASE}");
    drop(stdin);
    let status = child.wait().map_err(fail)?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{line}: {status}"))
    }
}

/// A folder outside the repository that goes away again.
struct Folder(PathBuf);

impl Folder {
    fn with_sources() -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("luxor-readme-{}", std::process::id()));
        let fail = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir(&folder).map_err(fail)?;
        let folder = Self(folder);
        for file in checks::files()? {
            let copy = folder.0.join(&file);
            let parent = copy.parent().expect("it is inside the folder");
            let copied = fs::create_dir_all(parent)
                .and_then(|()| fs::copy(process::root().join(&file), &copy));
            copied.map_err(|e| format!("{}: {e}", copy.display()))?;
        }
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
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
