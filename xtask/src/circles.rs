// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds circles of modules: modules of one crate, or of the Python package, that use each other.
//!
//! Sources are read as text, so that the check needs no build: `use` declarations and paths, without
//! tests, comments and strings. A name that a module only passes on counts as one of the module that
//! defines it. A module and the modules inside it are one room, so an arrow between them is no circle.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::{checks, process};

/// The names from the crate's root to a module: empty for the root itself.
type ModulePath = Vec<String>;

/// Checks that no two modules use each other, also not through others.
pub fn check() -> Result<String, String> {
    let (mut seen, mut found) = (0, Vec::new());
    let files = checks::files()?;
    let roots = files.iter().filter(|file| {
        file.ends_with("src/lib.rs") || file.ends_with("src/main.rs") || is_python_root(file)
    });
    for root in roots {
        let modules = if is_python_root(root) {
            python_modules(root, &files)?
        } else {
            let mut modules = BTreeMap::new();
            rust_modules(root, Vec::new(), &mut modules)?;
            modules
        };
        seen += modules.len();
        let place = root.parent().unwrap_or(root).display();
        found.extend(
            circles(&modules)
                .iter()
                .map(|circle| format!("{place}: {circle}")),
        );
    }
    if found.is_empty() {
        return Ok(format!("{seen} modules"));
    }
    Err(format!("modules use each other:\n{}", found.join("\n")))
}

/// What a module defines, and the paths that it uses.
#[derive(Debug, Default)]
struct Module {
    defined: BTreeSet<String>,
    used: BTreeSet<ModulePath>,
    children: Vec<String>,
}

/// Reads the module in `file` and those inside it.
fn rust_modules(
    file: &Path,
    path: ModulePath,
    modules: &mut BTreeMap<ModulePath, Module>,
) -> Result<(), String> {
    let text = checks::read(file)?;
    let module = Module::of_rust(&text);
    let stem = file.file_stem().unwrap_or_default();
    let is_folder = stem == "lib" || stem == "main" || stem == "mod";
    let parent = file.parent().unwrap_or(Path::new(""));
    let folder = if is_folder {
        parent.to_owned()
    } else {
        parent.join(stem)
    };
    for child in &module.children {
        let places = [format!("{child}.rs"), format!("{child}/mod.rs")];
        let mut places = places.iter().map(|place| folder.join(place));
        if let Some(file) = places.find(|file| process::root().join(file).is_file()) {
            let path = path.iter().chain([child]).cloned().collect();
            rust_modules(&file, path, modules)?;
        }
    }
    modules.insert(path, module);
    Ok(())
}

impl Module {
    fn of_rust(text: &str) -> Self {
        let tokens = tokens(text);
        let mut module = Self::default();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at..] {
                ["#", "[", "cfg", "(", "test", ")", "]", ..] => {
                    at = end_of_item(&tokens, at + 7);
                    continue;
                }
                ["mod", name, ";", ..] => module.children.push((*name).to_owned()),
                ["use", ..] => {
                    let end = tokens[at..].iter().position(|&token| token == ";");
                    let end = end.map_or(tokens.len(), |len| at + len);
                    expand(&[], &tokens[at + 1..end], &mut module.used);
                    at = end;
                }
                ["macro_rules", "!", name, ..]
                | [
                    "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" | "fn",
                    name,
                    ..,
                ] => {
                    module.defined.insert((*name).to_owned());
                }
                [first, "::", ..] if is_name(first) => {
                    let mut path = vec![(*first).to_owned()];
                    while let ["::", name, ..] = &tokens[at + 1..] {
                        if !is_name(name) {
                            break;
                        }
                        path.push((*name).to_owned());
                        at += 2;
                    }
                    module.used.insert(path);
                }
                _ => {}
            }
            at += 1;
        }
        module
    }
}

/// Returns the position after the item that begins at `at`, with its attributes.
fn end_of_item(tokens: &[&str], at: usize) -> usize {
    let mut depth = 0_usize;
    for (i, &token) in tokens.iter().enumerate().skip(at) {
        match token {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                if depth == 0 && token == "}" {
                    return i + 1;
                }
            }
            ";" if depth == 0 => return i + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Adds the paths of a `use` declaration after `prefix`.
fn expand(prefix: &[String], tokens: &[&str], paths: &mut BTreeSet<ModulePath>) {
    let mut path = prefix.to_vec();
    for (at, &token) in tokens.iter().enumerate() {
        match token {
            "{" => {
                let inside = &tokens[at + 1..tokens.len() - 1];
                let mut depth = 0_usize;
                let parts = inside.split(|&token| {
                    match token {
                        "{" => depth += 1,
                        "}" => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    depth == 0 && token == ","
                });
                for part in parts.filter(|part| !part.is_empty()) {
                    expand(&path, part, paths);
                }
                return;
            }
            "as" => break,
            "self" if !path.is_empty() => {}
            "::" => {}
            name => path.push(name.to_owned()),
        }
    }
    paths.insert(path);
}

/// Returns the names and signs of a source, without comments, strings and characters.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(len) = literal_len(rest) {
            len
        } else if is_name_char(first) {
            let len = rest.find(|c| !is_name_char(c)).unwrap_or(rest.len());
            tokens.push(&rest[..len]);
            len
        } else if rest.starts_with("::") {
            tokens.push(&rest[..2]);
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(&rest[..first.len_utf8()]);
            }
            first.len_utf8()
        };
        rest = &rest[len..];
    }
    tokens
}

/// Returns the length of the string or character at the beginning of `text`, if there is one.
fn literal_len(text: &str) -> Option<usize> {
    let prefix = text.len() - text.trim_start_matches(['b', 'c', 'r']).len();
    let after = &text[prefix..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    if prefix <= 2 && text[..prefix].contains('r') && after[hashes..].starts_with('"') {
        let begin = prefix + hashes + 1;
        let end = format!("\"{}", "#".repeat(hashes));
        let len = text[begin..].find(&end)?;
        return Some(begin + len + end.len());
    }
    let quote = after.chars().next().filter(|_| prefix <= 1)?;
    // A lifetime has no quote after its first character.
    let is_char = quote == '\'' && {
        let mut chars = after.chars().skip(1);
        chars.next() == Some('\\') || chars.next() == Some('\'')
    };
    if quote != '"' && !is_char {
        return None;
    }
    let mut is_escaped = false;
    for (i, c) in after.char_indices().skip(1) {
        if c == quote && !is_escaped {
            return Some(prefix + i + 1);
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    Some(text.len())
}

fn is_name_char(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn is_name(token: &str) -> bool {
    token.chars().next().is_some_and(is_name_char)
}

fn is_python_root(file: &Path) -> bool {
    file.ends_with("python/luxor/__init__.py")
}

/// Reads the modules beside `root`, each as a child of the package.
fn python_modules(root: &Path, files: &[PathBuf]) -> Result<BTreeMap<ModulePath, Module>, String> {
    let beside = |file: &&PathBuf| {
        file.parent() == root.parent() && file.extension().is_some_and(|e| e == "py")
    };
    let mut modules = BTreeMap::new();
    for file in files.iter().filter(beside) {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let path = if name == "__init__" {
            Vec::new()
        } else {
            vec![name.into_owned()]
        };
        modules.insert(path, Module::of_python(&checks::read(file)?));
    }
    Ok(modules)
}

impl Module {
    /// Takes the imports of `from .name import …`, `from . import name, …` and `luxor.name`.
    fn of_python(text: &str) -> Self {
        let mut used = BTreeSet::new();
        let absolute = |name: &str| vec!["crate".to_owned(), name.to_owned()];
        for line in text.lines().map(str::trim_start) {
            let words: Vec<&str> = line.split([' ', ',', '(', ')']).collect();
            match words.as_slice() {
                ["from", ".", "import", names @ ..] => {
                    used.extend(names.iter().map(|name| absolute(name)));
                }
                ["from" | "import", name, ..] => {
                    let name = name.strip_prefix("luxor").unwrap_or(name);
                    used.extend(name.strip_prefix('.').map(absolute));
                }
                _ => {}
            }
        }
        Self {
            used,
            ..Self::default()
        }
    }
}

/// Returns each circle in words.
fn circles(modules: &BTreeMap<ModulePath, Module>) -> Vec<String> {
    let mut arrows: BTreeMap<&ModulePath, BTreeMap<&ModulePath, &ModulePath>> = BTreeMap::new();
    for (from, module) in modules {
        for used in &module.used {
            let to = resolve(modules, from, used, 0);
            if let Some(to) = to.filter(|to| !from.starts_with(to) && !to.starts_with(from)) {
                arrows.entry(from).or_default().entry(to).or_insert(used);
            }
        }
    }
    let reached: BTreeMap<_, _> = modules
        .keys()
        .map(|module| {
            let mut reached = BTreeSet::new();
            let mut left = vec![module];
            while let Some(next) = left.pop() {
                for &to in arrows.get(next).into_iter().flat_map(BTreeMap::keys) {
                    if reached.insert(to) {
                        left.push(to);
                    }
                }
            }
            (module, reached)
        })
        .collect();
    let in_a_circle =
        |a: &ModulePath, b: &ModulePath| reached[a].contains(b) && reached[b].contains(a);
    let mut circles = Vec::new();
    for first in modules.keys().filter(|module| in_a_circle(module, module)) {
        let members: Vec<_> = modules
            .keys()
            .filter(|other| in_a_circle(first, other))
            .collect();
        if members.first() != Some(&first) {
            continue;
        }
        let lines = members.iter().flat_map(|from| {
            let inside = arrows[from].iter().filter(|(to, _)| members.contains(to));
            inside.map(|(to, used)| {
                format!(
                    "\n  {} uses {}: {}",
                    from.join("::"),
                    to.join("::"),
                    used.join("::")
                )
            })
        });
        circles.push(lines.collect());
    }
    circles
}

/// Returns the module that defines what `used` names in the module `from`, if it is one of `modules`.
fn resolve<'a>(
    modules: &'a BTreeMap<ModulePath, Module>,
    from: &[String],
    used: &[String],
    depth: u32,
) -> Option<&'a ModulePath> {
    let mut path = from.to_vec();
    let mut used = used;
    let mut is_relative = false;
    while let [first, rest @ ..] = used {
        match first.as_str() {
            "crate" => path.clear(),
            "self" => {}
            "super" => {
                path.pop();
            }
            _ => break,
        }
        is_relative = true;
        used = rest;
    }
    while let [first, rest @ ..] = used {
        path.push(first.clone());
        if !modules.contains_key(&path) {
            path.pop();
            break;
        }
        is_relative = true;
        used = rest;
    }
    let (path, module) = modules.get_key_value(&path).filter(|_| is_relative)?;
    let Some(name) = used.first().filter(|name| !module.defined.contains(*name)) else {
        return Some(path);
    };
    // The module may pass on the name of another. No name passes through more modules than this.
    if depth == 8 {
        return Some(path);
    }
    let mut passed = module
        .used
        .iter()
        .filter(|used| used.len() > 1 && used.last() == Some(name));
    let further = passed.find_map(|used| resolve(modules, path, used, depth + 1));
    further.or(Some(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sources: &[(&str, &str)]) -> Vec<String> {
        let modules = sources.iter().map(|(path, text)| {
            let path = path.split("::").filter(|name| !name.is_empty());
            (path.map(str::to_owned).collect(), Module::of_rust(text))
        });
        circles(&modules.collect())
    }

    #[test]
    fn modules_that_use_each_other_are_found() {
        let circle = found(&[
            ("", "mod a; mod b; mod c;"),
            ("a", "use crate::{c::{self, Other as C}, b::B}; struct A;"),
            ("b", "fn b() { super::a::A.call() } struct B;"),
            ("c", "struct Other;"),
        ]);
        assert_eq!(
            circle,
            ["\n  a uses b: crate::b::B\n  b uses a: super::a::A"]
        );
    }

    #[test]
    fn names_that_are_passed_on_belong_to_their_module() {
        let passed_on = [
            ("", "mod a; mod b; pub use a::A;"),
            ("a", "use crate::b::B; pub struct A;"),
            ("b", "use crate::A; pub struct B;"),
        ];
        assert_eq!(found(&passed_on).len(), 1);
    }

    #[test]
    fn rooms_within_a_module_tests_and_texts_make_no_circle() {
        let none = [
            ("", "mod a; mod b;"),
            (
                "a",
                "mod inner; use self::inner::I; use crate::b::B; struct A<'a>(&'a u8, char);",
            ),
            ("a::inner", "use super::A; struct I;"),
            (
                "b",
                "/* crate::a::A */ // crate::a::A\n struct B; const S: &str = r#\"crate::a::\"A\"#;\
                 fn f() -> char { let _ = \"\\\"crate::a::A\"; 'x' }\
                 #[cfg(test)] #[allow(x)] mod tests { use crate::a::A; fn t() { {} } }\
                 #[cfg(test)] use crate::a::A;",
            ),
        ];
        assert_eq!(found(&none), Vec::<String>::new());
    }

    #[test]
    fn imports_of_python_are_found() {
        let text =
            "from ._a import (\n    X,\n)\nfrom . import _b, _c\nimport luxor._d\nimport os\n";
        let used: Vec<_> = Module::of_python(text)
            .used
            .into_iter()
            .map(|path| path[1].clone())
            .collect();
        assert_eq!(used, ["", "_a", "_b", "_c", "_d"]);
    }
}
