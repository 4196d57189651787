// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the repository's files.

use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
};

use crate::process::{self, command};

/// Returns every file that Git tracks or would add, relative to the root.
pub fn files() -> Result<Vec<PathBuf>, String> {
    let list = [
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "-z",
    ];
    let list = process::output(command("git").args(list))?;
    let files = list.split_terminator('\0').map(PathBuf::from);
    // Git still lists files that are deleted but not committed.
    Ok(files
        .filter(|file| process::root().join(file).is_file())
        .collect())
}

/// Checks that every source file begins with the licence identifier.
pub fn spdx() -> Result<String, String> {
    const LICENCE: &str = "SPDX-License-Identifier: MIT OR Apache-2.0";
    let (mut seen, mut without) = (0, Vec::new());
    for file in files()? {
        let extension = file.extension().and_then(|e| e.to_str());
        let mark = match extension {
            Some("rs" | "c" | "h" | "cl" | "cu" | "cpp" | "sv" | "v" | "js") => "//",
            Some("py" | "sh" | "toml" | "yml" | "yaml") => "#",
            None if file.starts_with(".ci") => "#",
            _ => continue,
        };
        seen += 1;
        let text = read(&file)?;
        let first = text.lines().find(|line| !line.starts_with("#!"));
        if first != Some(&format!("{mark} {LICENCE}")) {
            without.push(file);
        }
    }
    if without.is_empty() {
        return Ok(format!("{seen} files"));
    }
    Err(format!(
        "these files do not begin with \"{LICENCE}\": {without:?}"
    ))
}

/// Checks that every link of a document leads to an existing file, heading or test. A test is
/// linked as `tests/a.rs#name`, after its source. Links to other machines are not checked.
pub fn links() -> Result<String, String> {
    let mut documents = BTreeMap::new();
    for file in files()?
        .into_iter()
        .filter(|f| f.extension().is_some_and(|e| e == "md"))
    {
        let text = read(&file)?;
        documents.insert(file, text);
    }
    let (mut checked, mut broken) = (0, Vec::new());
    for (file, text) in &documents {
        for link in targets(text).filter(|link| !link.contains("://")) {
            checked += 1;
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() {
                file.clone()
            } else {
                normal(&file.parent().unwrap_or(Path::new("")).join(path))
            };
            let is_source = target.extension().is_some_and(|e| e == "rs");
            let resolves = match documents.get(&target) {
                _ if heading.is_empty() => process::root().join(&target).exists(),
                _ if is_source => read(&target).is_ok_and(|text| has_test(&text, heading)),
                Some(text) => prose(text).any(|line| anchor(line).as_deref() == Some(heading)),
                None => false,
            };
            if !resolves {
                broken.push(format!("{}: {link}", file.display()));
            }
        }
    }
    if broken.is_empty() {
        return Ok(format!("{checked} links in {} documents", documents.len()));
    }
    Err(format!("these links are broken: {}", broken.join(", ")))
}

/// Returns the text of a file, whose path is relative to the root.
pub fn read(file: &Path) -> Result<String, String> {
    let bytes = fs::read(process::root().join(file)).map_err(|e| format!("{file:?}: {e}"))?;
    String::from_utf8(bytes).map_err(|_| format!("{file:?} is not UTF-8"))
}

/// Whether a Rust source contains a test with this name.
fn has_test(source: &str, name: &str) -> bool {
    let signature = format!("fn {name}(");
    let lines: Vec<&str> = source.lines().map(str::trim_start).collect();
    lines.iter().enumerate().any(|(number, line)| {
        let mut attributes = lines[..number]
            .iter()
            .rev()
            .take_while(|line| line.starts_with("#["));
        line.starts_with(&signature) && attributes.any(|&line| line == "#[test]")
    })
}

/// Returns the lines outside fenced code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// Returns the targets of `[text](target)` and of `[name]: target`.
fn targets(text: &str) -> impl Iterator<Item = String> {
    prose(text).flat_map(|line| {
        let inline = line
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'));
        let definition = line
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "))
            .and_then(|(_, target)| target.split_whitespace().next());
        inline
            .map(|(target, _)| target)
            .chain(definition)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    })
}

/// Returns a heading's anchor, as common renderers make it.
fn anchor(line: &str) -> Option<String> {
    let title = line
        .trim_start_matches('#')
        .strip_prefix(' ')
        .filter(|_| line.starts_with('#'))?;
    let kept = title.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    Some(kept.flat_map(char::to_lowercase).collect())
}

/// Removes `.` and `..`, which Git does not list.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code_only() {
        let text = "See [a](A.md) and [b](#b-c).\n```\n[c](C.md)\n```\n[d]: D.md \"title\"\n";
        assert_eq!(targets(text).collect::<Vec<_>>(), ["A.md", "#b-c", "D.md"]);
    }

    #[test]
    fn anchors_are_as_rendered() {
        assert_eq!(
            anchor("## What works, and what not").unwrap(),
            "what-works-and-what-not"
        );
        assert_eq!(anchor("# `aes_backend`").unwrap(), "aes_backend");
        assert_eq!(anchor("#no heading"), None);
        assert_eq!(anchor("no heading"), None);
    }

    #[test]
    fn tests_are_found_by_their_whole_names() {
        let source = "    #[test]\n    #[cfg(unix)]\n    fn all_is_well() {\n}\nfn helper() {\n";
        assert!(has_test(source, "all_is_well"));
        for name in ["is_well", "all_is", "helper"] {
            assert!(!has_test(source, name), "{name}");
        }
    }

    #[test]
    fn paths_are_normal() {
        assert_eq!(normal(Path::new("docs/../a/./b.md")), Path::new("a/b.md"));
    }
}
