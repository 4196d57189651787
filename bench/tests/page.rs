// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of `luxor report` is well formed, complete, and identical whenever it is made from the
//! same figures. `cargo xtask page` checks its appearance in a browser.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use roxmltree::{Document, Node, ParsingOptions};
use serde_json::Value;

/// Renders every example and every record twice.
#[test]
fn pages_are_complete_and_reproducible() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = files_of(&root.join("../docs/examples"), "bench");
    for machine in fs::read_dir(root.join("record")).unwrap() {
        files.extend(files_of(&machine.unwrap().path(), "20"));
    }
    assert!(files.len() > 10, "{files:?}");
    let mut seen = Vec::new();
    for file in files {
        let page = shown(&file);
        assert_eq!(page, shown(&file), "{}", file.display());
        let options = ParsingOptions {
            allow_dtd: true,
            ..ParsingOptions::default()
        };
        let document = Document::parse_with_options(&page, options);
        let document = document.unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        assert_complete(&document, &file);
        let sections = document
            .descendants()
            .filter(|node| node.has_tag_name("section"));
        seen.extend(sections.filter_map(|section| {
            let name = section.attribute("aria-labelledby")?;
            Some(name.to_owned())
        }));
    }
    for bench in [
        "cpu",
        "file",
        "unlock",
        "reencrypt",
        "block",
        "demir-2020",
        "elmoghany-2011",
        "damjanovic-simic-2015",
        "an-seo-2022",
        "sanida-2020",
        "gpu",
    ] {
        assert!(seen.iter().any(|name| name == bench), "{bench}: {seen:?}");
    }
}

fn assert_complete(document: &Document<'_>, file: &Path) {
    let tags = |name: &'static str| document.descendants().filter(move |n| n.has_tag_name(name));
    for table in tags("table") {
        let heads = table.descendants().filter(|n| n.has_tag_name("th"));
        let heads = heads.filter(|head| head.attribute("scope") == Some("col"));
        let heads = heads.count();
        let rows = table.descendants().filter(|n| n.has_tag_name("tr"));
        let rows: Vec<_> = rows
            .map(|row| row.children().filter(Node::is_element).count())
            .collect();
        assert!(rows.len() > 1, "{}: {}", file.display(), text(table));
        assert!(
            rows.iter().all(|&cells| cells == heads),
            "{}: {}",
            file.display(),
            text(table)
        );
    }
    for svg in document
        .descendants()
        .filter(|n| n.tag_name().name() == "svg")
    {
        let described = svg.ancestors().find_map(|node| {
            (node.attribute("role") == Some("img")).then_some(node.attribute("aria-label")?)
        });
        assert!(
            described.is_some_and(|words| words.len() > 20),
            "{}",
            file.display()
        );
    }
    for words in document.descendants().flat_map(|node| {
        let attributes = node.attributes().map(|attribute| attribute.value());
        node.text().into_iter().chain(attributes)
    }) {
        let of_number = words.split(|c: char| !c.is_alphanumeric());
        for word in of_number {
            assert!(
                !matches!(word, "NaN" | "inf"),
                "{}: {words}",
                file.display()
            );
        }
    }
}

fn text(node: Node<'_, '_>) -> String {
    node.descendants().filter_map(|n| n.text()).collect()
}

/// Names of CPUs and devices appear as text, on the page and in its plots.
#[test]
fn names_are_escaped_in_the_page() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples");
    let mut report: Value =
        serde_json::from_slice(&fs::read(examples.join("bench-gpu.json")).unwrap()).unwrap();
    let name = "<script>\"&'</script>";
    report["machine"]["cpu"] = name.into();
    report["gpu"]["devices"][0]["about"]["name"] = name.into();
    report["gpu"]["devices"][0]["about"]["device"] = name.into();
    let file = env::temp_dir().join(format!("luxor-names-{}.json", std::process::id()));
    fs::write(&file, report.to_string()).unwrap();
    let page = shown(&file);
    fs::remove_file(file).unwrap();
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(&page, options).unwrap();
    assert!(!document.descendants().any(|n| n.has_tag_name("script")));
    assert!(
        document
            .descendants()
            .any(|n| n.text().is_some_and(|text| text.contains(name)))
    );
}

/// A program that fails during a bench ends that bench only.
#[test]
fn a_failing_bench_is_reported_and_the_others_are_shown() {
    let folder = env::temp_dir().join(format!("luxor-bench-page-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let cryptsetup = folder.join("cryptsetup");
    fs::write(
        &cryptsetup,
        "#!/bin/sh\n[ $1 = --version ] && echo cryptsetup 2.0\n",
    )
    .unwrap();
    fs::set_permissions(&cryptsetup, fs::Permissions::from_mode(0o755)).unwrap();
    let page = folder.join("page.html");
    let output = Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
        .args(["elmoghany-2011", "unlock", "--quick", "--report"])
        .arg(&page)
        .env("PATH", &folder)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("stopped with an error: unlock"), "{said}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<code>luxor bench unlock</code>"), "{page}");
    assert!(page.contains("19416"), "{page}");
    assert!(folder.join("page.json").is_file());
    // The JSON contains everything that the page shows.
    let again = shown(&folder.join("page.json"));
    assert_eq!(page, again);
    fs::remove_dir_all(folder).unwrap();
}

/// A missing program is not an error: the page gives the reason.
#[test]
fn missing_programs_are_named_as_the_reason() {
    let folder = env::temp_dir().join(format!("luxor-bench-absent-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let page = folder.join("page.html");
    let output = Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
        .args([
            "file",
            "unlock",
            "block",
            "elmoghany-2011",
            "--quick",
            "--report",
        ])
        .arg(&page)
        .env("PATH", &folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let page = fs::read_to_string(page).unwrap();
    for reason in [
        "cp is not on PATH",
        "cryptsetup is not on PATH",
        "fio with the engine nbd",
    ] {
        assert!(page.contains(reason), "{reason}: {page}");
    }
    assert!(page.contains("19416"), "{page}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_output_that_is_a_link_to_nothing_stays_one() {
    let folder = env::temp_dir().join(format!("luxor-bench-link-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let [link, target] = ["page.html", "elsewhere.html"].map(|name| folder.join(name));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
        .args(["elmoghany-2011", "--report"])
        .arg(&link)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(link.is_symlink());
    assert!(fs::read_to_string(&target).unwrap().contains("19416"));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_file_that_is_not_a_report_is_refused() {
    let folder = env::temp_dir().join(format!("luxor-bench-none-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let none = folder.join("none.json");
    fs::write(&none, "{\"schema\": 3}").unwrap();
    let page = folder.join("page.html");
    let output = show(&none, &page);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("is not what --json writes"), "{said}");
    assert!(!page.exists());
    // Without `--report` or another output, `--from` would do nothing.
    let output = Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
        .arg("--from")
        .arg(&none)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    // An unusable folder is refused before anything is measured.
    let output = Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
        .args(["elmoghany-2011", "--plots"])
        .arg(none.join("folder"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    // In a report with another schema, names may mean something else.
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/bench.json");
    let example = fs::read_to_string(example).unwrap();
    let other = example.replacen("\"schema\": 3", "\"schema\": 9", 1);
    assert_ne!(other, example);
    fs::write(&none, other).unwrap();
    let output = show(&none, &page);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("has the schema 9"), "{said}");
    // The JSON file would overwrite the page.
    let output = Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
        .args(["elmoghany-2011", "--report"])
        .arg(folder.join("page.json"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    fs::remove_dir_all(folder).unwrap();
}

fn shown(file: &Path) -> String {
    let name = file.file_name().unwrap().to_string_lossy();
    let page = env::temp_dir().join(format!("luxor-page-{}-{name}.html", std::process::id()));
    let output = show(file, &page);
    assert!(output.status.success(), "{}: {output:?}", file.display());
    let html = fs::read_to_string(&page).unwrap();
    fs::remove_file(page).unwrap();
    html
}

fn show(file: &Path, page: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_luxor-bench"))
        .arg("--from")
        .arg(file)
        .arg("--report")
        .arg(page)
        .output()
        .unwrap()
}

fn files_of(folder: &Path, begin: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let wanted = files.filter(|file| {
        let name = file.file_name().into_string().unwrap();
        name.starts_with(begin) && name.ends_with(".json")
    });
    wanted.map(|file| file.path()).collect()
}
