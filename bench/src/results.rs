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
    benches,
    report::{self, Recorded, Report},
    section::{Section, Table, Verdict},
};

/// The first argument with which this program writes the pages: the folders of the records and of
/// the documents follow.
pub(crate) const WRITE: &str = "--write-results";

/// The page of all records, in the folder of the documents.
const PAGE: &str = "results.md";

/// The folder of the papers' pages, and the page about all of them.
const PAPERS: &str = "papers";
const ALL_PAPERS: &str = "README.md";

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
    let mut verdicts = Verdicts::default();
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
                    verdicts.add(bench, section, Some(&format!("{machine}, {}", stem(file))));
                } else {
                    page += &text(section);
                }
            }
            page += &notes(file)?;
        }
    }
    for bench in benches::ALL {
        if let Some(outcome) = (bench.committed)().transpose()? {
            let paper = papers.entry(bench.name).or_default();
            *paper += &format!("\n## Committed\n{}", text(&outcome.section));
            verdicts.add(bench.name, &outcome.section, None);
        }
    }
    let mut pages = BTreeMap::from([(documents.join(PAGE), page)]);
    let folder = documents.join(PAPERS);
    let of_paper = |(bench, records)| (folder.join(bench).with_extension("md"), records);
    let all = (
        folder.join(ALL_PAPERS),
        format!("\n{}\n", markdown(&verdicts.table())),
    );
    for (path, records) in papers.into_iter().map(of_paper).chain([all]) {
        let old = read(&path)?;
        let (head, _) = old
            .split_once(MARK)
            .ok_or_else(|| format!("{} lacks the line {}", path.display(), MARK.trim_end()))?;
        pages.insert(path, format!("{head}{MARK}{records}"));
    }
    Ok(pages)
}

/// The best verdict on each figure of each paper, in the order of the benches.
#[derive(Default)]
struct Verdicts(Vec<(&'static str, &'static str, Verdict)>);

impl Verdicts {
    fn add(&mut self, bench: &'static str, section: &Section, record: Option<&str>) {
        let Some(paper) = &section.paper else {
            return;
        };
        // The same machine's is the fairer comparison.
        let rank = |verdict: &Verdict| (verdict.rebuilt.is_some(), verdict.times.median);
        for verdict in &section.verdicts {
            let verdict = Verdict {
                record: record.map(str::to_owned),
                ..verdict.clone()
            };
            let mut known = self.0.iter_mut();
            let known = known.find(|(of, _, known)| *of == bench && known.figure == verdict.figure);
            match known {
                Some((.., known)) if rank(known) < rank(&verdict) => *known = verdict,
                Some(_) => {}
                None => self.0.push((bench, paper.name, verdict)),
            }
        }
    }

    fn table(&mut self) -> Table {
        let place = |name: &str| benches::ALL.iter().position(|bench| bench.name == name);
        self.0.sort_by_key(|(bench, ..)| place(bench));
        Verdict::table(self.0.iter().map(|(_, paper, verdict)| (*paper, verdict)))
    }
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
    let summary = section
        .answer()
        .into_iter()
        .chain(section.consequence.clone());
    let summary = summary.map(|words| format!("\n{}\n", escaped(&words)));
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
