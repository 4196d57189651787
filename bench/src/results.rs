// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records as Markdown: `docs/results.md`, and the end of each page in `docs/papers`.
//! `cargo xtask results` writes them.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::{
    report::{self, Recorded, Report},
    section::{Section, Table},
};

/// The first argument with which this program writes the pages: the folders of the records and of
/// the documents follow.
pub(crate) const WRITE: &str = "--write-results";

/// The page of all records, in the folder of the documents.
const PAGE: &str = "results.md";

/// The folder of the papers' pages.
const PAPERS: &str = "papers";

/// The line of a paper's page below which the records are.
const MARK: &str =
    "<!-- `cargo xtask results` writes the rest of this page from bench/record. -->\n";

const HEAD: &str = "\
# Results

`cargo xtask results` writes this page from the records in [`bench/record/`](../bench/record/): edit
the notes beside the records, not this page. [BENCHMARKING.md](../BENCHMARKING.md) says how each bench
measures. The experiments of five papers are on [pages of their own](papers/README.md), and numbers
without a record on [measurements.md](measurements.md).

A number with parentheses is a median with its quartiles. A range is from the lowest to the highest
median of both directions, in place and out of place. Ratios are of the same round. All machines are
virtual ones that share their host, so GB/s vary from hour to hour; the ratios vary less.
`cargo xtask bench ARGUMENTS` builds `luxor-bench` and runs it with these arguments.
";

/// Writes all pages.
pub(crate) fn write(rest: &[OsString]) -> ExitCode {
    let written = match rest {
        [records, documents] => pages(Path::new(records), Path::new(documents)),
        _ => Err(format!("{WRITE} is only for `cargo xtask results`")),
    };
    let written = written.and_then(|pages| {
        let mut pages = pages.iter();
        pages.try_for_each(|(path, text)| report::write(path, text))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("luxor-bench: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the pages with their paths in the folder `documents`.
fn pages(records: &Path, documents: &Path) -> Result<BTreeMap<PathBuf, String>, String> {
    let mut page = HEAD.to_owned();
    let mut papers = BTreeMap::<&str, String>::new();
    for folder in sorted(records)? {
        let machine = name(&folder);
        let mut files = sorted(&folder)?;
        files.retain(|file| file.extension().is_some_and(|end| end == "json"));
        files.sort_by_key(|file| stem(file));
        for (number, file) in files.iter().enumerate() {
            let recorded = Report::read(file)?.recorded();
            if number == 0 {
                page += &format!("\n## {machine}\n\n{}.\n", recorded.machine);
            }
            let source = source(file, &recorded);
            page += &format!("\n### {machine}, {}\n\n{source}", stem(file));
            for (bench, section) in &recorded.sections {
                if section.paper.is_some() {
                    page += &format!("\n`{bench}`: [results]({PAPERS}/{bench}.md).\n");
                    let paper = papers.entry(bench).or_default();
                    let heading = format!("\n## {machine}, {}\n\n", stem(file));
                    let source = source.replace("](../", "](../../");
                    *paper += &format!("{heading}{}.\n{source}{}", recorded.machine, text(section));
                } else {
                    page += &text(section);
                }
            }
            page += &notes(file)?;
        }
    }
    let mut pages = BTreeMap::from([(documents.join(PAGE), page)]);
    for (bench, records) in papers {
        let path = documents.join(PAPERS).join(bench).with_extension("md");
        let old = read(&path)?;
        let (head, _) = old
            .split_once(MARK)
            .ok_or_else(|| format!("{} lacks the line {}", path.display(), MARK.trim_end()))?;
        pages.insert(path, format!("{head}{MARK}{records}"));
    }
    Ok(pages)
}

/// Returns the sentence that says how to repeat a record.
fn source(file: &Path, recorded: &Recorded) -> String {
    let machine = file.parent().map(name).unwrap_or_default();
    let Recorded {
        command,
        date,
        commit,
        ..
    } = recorded;
    format!(
        "`{command}`, {}, commit `{}` ([all rows](../bench/record/{machine}/{}.txt)).\n",
        &date[..10],
        &commit[..commit.len().min(7)],
        stem(file)
    )
}

/// Returns the notes on a record: a file of the same name beside it. Their links become those of a
/// page in the folder of the documents.
fn notes(record: &Path) -> Result<String, String> {
    let path = record.with_extension("md");
    if !path.exists() {
        return Ok(String::new());
    }
    let notes = read(&path)?.replace("](../../../docs/", "](");
    Ok(format!("\n{}\n", notes.trim_end()))
}

/// Returns the summary and the tables of a bench.
fn text(section: &Section) -> String {
    let summary = section.conclusion.iter().chain(&section.consequence);
    let summary = summary.map(|words| format!("\n{}\n", escaped(words)));
    let tables = match section.digest.as_slice() {
        [] => &section.tables,
        digest => digest,
    };
    let tables = tables
        .iter()
        .map(|table| format!("\n{}\n", markdown(table)));
    summary.chain(tables).collect()
}

fn markdown(table: &Table) -> String {
    let line = |cells: &[String]| {
        let cells = cells.iter().map(|cell| escaped(cell));
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let rule = format!("|{}\n", "---|".repeat(table.columns.len()));
    let rows: String = table.rows.iter().map(|row| line(&row.cells)).collect();
    let caption = escaped(&table.caption);
    let head = line(&table.columns);
    format!("**{caption}**\n\n{head}{rule}{}", rows.trim_end())
}

/// Masks the characters that mean something in Markdown, except in code.
fn escaped(text: &str) -> String {
    let mut in_code = false;
    let masked = text.chars().flat_map(|c| {
        in_code ^= c == '`';
        let means = c == '|' || !in_code && matches!(c, '*' | '_' | '<' | '[' | ']');
        means.then_some('\\').into_iter().chain([c])
    });
    masked.collect()
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).and_then(|entries| {
        let paths = entries.map(|entry| Ok(entry?.path()));
        paths.collect::<Result<Vec<_>, _>>()
    });
    let mut paths = entries.map_err(|e| format!("{}: {e}", folder.display()))?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{plot::Whose, section::Row};

    #[test]
    fn the_committed_pages_are_those_of_the_records() {
        let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
        let pages = pages(&bench.join("record"), &bench.join("../docs")).unwrap();
        assert!(pages.len() > 1);
        for (path, fresh) in pages {
            let committed = read(&path).unwrap();
            let mut lines = (1..).zip(committed.lines().zip(fresh.lines()));
            let differs = lines.find(|(_, (old, new))| old != new);
            assert!(
                committed == fresh,
                "{} differs from the records: run `cargo xtask results`: {differs:?}",
                path.display()
            );
        }
    }

    #[test]
    fn a_table_is_markdown() {
        let rows = [Row::new(Whose::Luxor, "a|b", ["*1*", "`a_b`"])];
        let table = Table::new("Times", "Who", ["ms", "of it"], rows);
        assert_eq!(
            markdown(&table),
            "**Times**\n\n| Who | ms | of it |\n|---|---|---|\n| a\\|b | \\*1\\* | `a_b` |"
        );
    }
}
