// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page of `luxor report` is well formed, complete, and identical whenever it is made from the
//! same figures. `cargo xtask page` checks its appearance in a browser.

#[path = "../../crates/cli/src/bench_names.rs"]
mod bench_names;

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicUsize, Ordering},
};

use roxmltree::{Document, Node, ParsingOptions};
use serde::Deserialize;
use serde_json::Value;

const PAPERS: [&str; 5] = [
    "an-seo-2022",
    "damjanovic-simic-2015",
    "sanida-2020",
    "demir-2020",
    "elmoghany-2011",
];

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
        assert_cards(&document, &file);
        let sections = document
            .descendants()
            .filter(|node| node.has_tag_name("section"));
        seen.extend(sections.filter_map(|section| {
            let name = section.attribute("aria-labelledby")?;
            Some(name.to_owned())
        }));
    }
    macro_rules! names {
        ($($module:ident $name:literal $words:literal;)+) => {
            [$($name),+]
        };
    }
    for bench in bench_names::benches!(names) {
        assert!(seen.iter().any(|name| name == bench), "{bench}: {seen:?}");
    }
}

/// Every paper of the page has a card with its question, its answer and a plot.
fn assert_cards(document: &Document<'_>, file: &Path) {
    let all = |name: &'static str| document.descendants().filter(move |n| n.has_tag_name(name));
    for paper in PAPERS {
        let link = format!("#{paper}");
        let mut sections = all("section");
        let is_shown = sections.any(|node| node.attribute("aria-labelledby") == Some(paper));
        let mut cards = all("article").filter(|card| {
            let mut links = card.descendants();
            links.any(|node| node.attribute("href") == Some(&link))
        });
        let card = cards.next();
        assert_eq!(card.is_some(), is_shown, "{}: {paper}", file.display());
        let Some(card) = card else { continue };
        let count = |name: &str| {
            let found = card
                .descendants()
                .filter(|node| node.tag_name().name() == name);
            found.count()
        };
        assert_eq!(
            (count("h3"), count("svg")),
            (1, 1),
            "{}: {paper}",
            file.display()
        );
        let words = text(card);
        assert!(
            words.contains('?') && words.contains("Gbps"),
            "{}: {paper}",
            file.display()
        );
        let paragraphs = card
            .descendants()
            .filter(|node| node.has_tag_name("p"))
            .map(text);
        for paragraph in paragraphs {
            for sentence in paragraph.split(". ") {
                let count = sentence.split_whitespace().count();
                assert!(
                    count <= 25,
                    "{}: {paper}: {count} words: {sentence}",
                    file.display()
                );
            }
        }
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
    // A CPU behind OpenCL is not called a GPU, in a table or in a plot.
    let names = document
        .descendants()
        .filter(|node| matches!(node.tag_name().name(), "th" | "td" | "text"));
    for name in names.map(text).filter(|name| name.contains("(CPU)")) {
        assert!(!name.contains("GPU"), "{}: {name}", file.display());
    }
    // It begins with Luxor's speed and the verdicts, and folds the method.
    let of_papers = tags("h2").any(|head| head.attribute("id") == Some("papers"));
    let speed = tags("h2").any(|head| head.attribute("id") == Some("summary"));
    assert!(speed || !of_papers, "{}", file.display());
    let methods = tags("summary").filter(|node| text(*node).starts_with("Method"));
    assert!(methods.count() > 0, "{}", file.display());
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

/// Compares every figure that the page prints from a paper's tables with `papers.json`, which was
/// transcribed from the papers without the program's constants.
#[test]
fn the_papers_figures_are_those_of_a_second_transcription() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let papers = fs::read(here.join("tests/papers.json")).unwrap();
    let papers: Value = serde_json::from_slice(&papers).unwrap();
    let gpu = "record/intel-xeon-6.207.2-16-cores/2026-11-27.json";
    for (name, source, figures) in [
        ("an-seo-2022", gpu, 63),
        (
            "damjanovic-simic-2015",
            "record/amd-epyc-26.2.1-2-cores/2026-11-22.json",
            196,
        ),
        ("sanida-2020", gpu, 115),
        ("demir-2020", "../docs/examples/bench-demir.json", 24),
        (
            "elmoghany-2011",
            "../docs/examples/bench-elmoghany.json",
            19,
        ),
    ] {
        let page = shown(&here.join(source));
        let options = ParsingOptions {
            allow_dtd: true,
            ..ParsingOptions::default()
        };
        let document = Document::parse_with_options(&page, options).unwrap();
        let tables = tables(&document);
        let printed = printed(name, &papers[name]);
        assert_eq!(printed.len(), figures, "{name}");
        for figure in printed {
            assert_eq!(figure.on(&tables), figure.text, "{name}: {figure:?}");
        }
    }
}

/// A figure of a paper, and where the page prints it: in the first table whose caption begins with
/// `caption`, in the only row that has the cells `row`.
#[derive(Debug)]
struct Figure {
    caption: String,
    row: Vec<String>,
    column: String,
    text: String,
}

impl Figure {
    fn new(caption: &str, row: &[&str], column: &str, text: impl Into<String>) -> Self {
        Self {
            caption: caption.to_owned(),
            row: row.iter().copied().map(str::to_owned).collect(),
            column: column.to_owned(),
            text: text.into(),
        }
    }

    fn on<'a>(&self, tables: &'a [(String, Vec<Vec<String>>)]) -> &'a str {
        let mut tables = tables.iter();
        let table = tables.find(|(caption, _)| caption.starts_with(&self.caption));
        let (_, rows) = table.unwrap_or_else(|| panic!("no table has {self:?}"));
        let column = rows[0].iter().position(|head| *head == self.column);
        let column = column.unwrap_or_else(|| panic!("{:?} has no {self:?}", rows[0]));
        let has = |cells: &&Vec<String>| self.row.iter().all(|cell| cells.contains(cell));
        let mut found = rows.iter().filter(has);
        match (found.next(), found.next()) {
            (Some(cells), None) => &cells[column],
            found => panic!("{self:?}: {found:?}"),
        }
    }
}

/// Returns the tables of the page with their captions. The first row has the heads.
fn tables(document: &Document<'_>) -> Vec<(String, Vec<Vec<String>>)> {
    let elements = |node: Node<'_, '_>, name: &'static str| {
        let found = node.descendants().filter(move |n| n.has_tag_name(name));
        found.map(|n| n.id()).collect::<Vec<_>>()
    };
    let node = |id| document.get_node(id).unwrap();
    let tables = elements(document.root(), "table").into_iter().map(|table| {
        let caption = elements(node(table), "caption").into_iter().map(node);
        let rows = elements(node(table), "tr").into_iter().map(|row| {
            let cells = node(row).children().filter(Node::is_element);
            cells.map(text).collect()
        });
        (caption.map(text).collect(), rows.collect())
    });
    tables.collect()
}

/// Returns the figures of a paper, in the layout of its own tables, with their places on the page.
fn printed(paper: &str, tables: &Value) -> Vec<Figure> {
    let mut printed = Vec::new();
    for (table, rows) in tables.as_object().unwrap() {
        let rows: Vec<Vec<&str>> = Vec::deserialize(rows).unwrap();
        for row in &rows {
            printed.extend(match paper {
                "an-seo-2022" => of_an_and_seo(table, row),
                "damjanovic-simic-2015" => of_damjanovic(table, &rows[0], row),
                "sanida-2020" => of_sanida(table, row),
                "demir-2020" => of_demir(table, row),
                _ => of_elmoghany(table, row),
            });
        }
    }
    printed
}

fn of_an_and_seo(table: &str, row: &[&str]) -> Vec<Figure> {
    if let [system, operation, ms, ratio] = *row {
        let system = system.replace("Naive", "naive").replace("Optimized ", "");
        let system = format!("the paper's {}", system.replace(['(', ')'], ""));
        let [of_ms, of_ratio] = match operation {
            "powers" => ["Powers of alpha", "Ratio of the powers (%)"],
            "encryption" => ["Encryption", "Ratio of encryption (%)"],
            _ => ["Total", "Ratio of the total (%)"],
        };
        let caption = "Tables 3 and 4";
        return vec![
            Figure::new(caption, &[&system], of_ms, ms),
            Figure::new(caption, &[&system], of_ratio, ratio),
        ];
    }
    if let [fast, slow, times] = *row {
        let row = format!("{fast} over {slow}");
        return vec![Figure::new("Speed-ups", &[&row], "The paper", times)];
    }
    let column = format!("{} B", row[0]);
    let figures = row[1..].iter().enumerate().map(|(at, text)| {
        let bits = if at < 3 { 128 } else { 256 };
        let who = [
            "the paper's OpenSSL 3.0.1",
            "the paper's GPU alpha^128",
            "the paper's GPU alpha^128, times OpenSSL 3.0.1's",
        ][at % 3];
        Figure::new(
            &format!("{table}: GB/s with AES-{bits}"),
            &[who],
            &column,
            *text,
        )
    });
    figures.collect()
}

fn of_damjanovic(table: &str, heads: &[&str], row: &[&str]) -> Vec<Figure> {
    if row[0] == heads[0] {
        return Vec::new();
    }
    let form = if table < "Table B3" { "XEX:" } else { "XE:" };
    let what = row[0].replace(" (ms)", "").replace("spedup", "speed-up");
    let name = format!("{table}: {what}");
    let figures = heads[1..].iter().zip(&row[1..]);
    let figures =
        figures.map(|(array, text)| Figure::new(form, &[&name], &format!("{array} B"), *text));
    figures.collect()
}

fn of_sanida(table: &str, row: &[&str]) -> Vec<Figure> {
    if table == "Table VI" {
        let work = row[0].replace("Our work", "the paper");
        let name = format!("{work}: {}, {}", row[1], row[2]);
        return vec![Figure::new("Table VI", &[&name, row[3]], "Gbps", row[4])];
    }
    let digits = row[0].trim_end_matches(char::is_alphabetic);
    let unit = row[0][digits.len()..].replace('K', "Ki").replace('M', "Mi");
    let file = format!("{digits} {unit}");
    let columns = ["encrypt", "decrypt"]
        .into_iter()
        .flat_map(|direction| [128, 192, 256].map(|bits| format!("{direction} {bits}")));
    let figures = columns.zip(&row[1..]);
    let caption = format!("{table},");
    let figures =
        figures.map(|(column, text)| Figure::new(&caption, &["the paper", &file], &column, *text));
    figures.collect()
}

fn of_demir(table: &str, row: &[&str]) -> Vec<Figure> {
    let figures = ["512 B", "4 KiB"].into_iter().zip(row[1..].chunks(2));
    let figures = figures.map(|(bytes, figures)| {
        let column = format!("the paper's mixed, {bytes}");
        let text = format!("{} ({} %)", figures[0], figures[1]);
        Figure::new(&format!("{table}:"), &[row[0]], &column, text)
    });
    figures.collect()
}

fn of_elmoghany(table: &str, row: &[&str]) -> Vec<Figure> {
    let (key, columns): (Vec<String>, &[&str]) = match *row {
        [work, family, ..] if table == "Table I" => {
            let work = work.replace("[5]", "Hatzidimitriou 2011");
            let work = work.replace("Ours", "Elmoghany 2011");
            let columns = &["MHz", "Slices", "Gbps", "Mbps per slice"];
            (vec![work, family.replace("tex", "tex-")], columns)
        }
        _ => (vec![row[0].to_owned()], &["Logic elements", "MHz", "Gbps"]),
    };
    let keys: Vec<&str> = key.iter().map(String::as_str).collect();
    let caption = format!("The paper's {table}:");
    let figures = columns.iter().zip(&row[key.len()..]);
    figures
        .map(|(column, text)| Figure::new(&caption, &keys, column, *text))
        .collect()
}

fn text(node: Node<'_, '_>) -> String {
    let texts = node.descendants().filter(Node::is_text);
    texts.filter_map(|n| n.text()).collect()
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
    // Two tests may show the same file at once.
    static PAGES: AtomicUsize = AtomicUsize::new(0);
    let (process, number) = (std::process::id(), PAGES.fetch_add(1, Ordering::Relaxed));
    let page = env::temp_dir().join(format!("luxor-page-{process}-{number}.html"));
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
