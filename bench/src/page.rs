// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor report`: what was measured, as a page that needs nothing else.

pub(crate) mod plot;

use askama::Template;

/// The whole page.
#[derive(Template)]
#[template(path = "report.html")]
pub(crate) struct Page {
    /// UTC, RFC 3339.
    pub(crate) date: String,
    pub(crate) command: String,
    pub(crate) version: String,
    /// What this machine is, and what the program was built with.
    pub(crate) facts: Vec<Fact>,
    /// Each of the sections' conclusions.
    pub(crate) sections: Vec<Section>,
    /// A look, not a result.
    pub(crate) quick: bool,
}

pub(crate) struct Fact {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// A bench, or why there is none.
#[derive(Clone)]
pub(crate) struct Section {
    /// As on the command line.
    pub(crate) name: &'static str,
    pub(crate) title: String,
    pub(crate) paper: Option<Paper>,
    /// What is measured, in a few sentences.
    pub(crate) about: String,
    /// A plain sentence with the numbers in it; none where nothing could be measured.
    pub(crate) conclusion: Option<String>,
    pub(crate) figures: Vec<plot::Figure>,
    pub(crate) tables: Vec<Table>,
    /// What could not run here, and why.
    pub(crate) absent: Vec<String>,
}

/// What a paper is, says and became.
#[derive(Clone)]
pub(crate) struct Paper {
    pub(crate) reference: &'static str,
    pub(crate) claim: &'static str,
    pub(crate) rebuilt: &'static str,
}

/// Columns of texts, of which the first heads the row.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) whose: Whose,
    pub(crate) cells: Vec<String>,
}

/// Whose row or bar it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Luxor,
    Rival,
    /// As printed.
    Paper,
    /// What this machine could do at best.
    Limit,
}

impl Whose {
    /// The class of a row, and what its mark says.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Luxor => "luxor",
            Self::Rival => "rival",
            Self::Paper => "paper",
            Self::Limit => "limit",
        }
    }
}

impl Row {
    /// A row of texts.
    pub(crate) fn new(whose: Whose, cells: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            whose,
            cells: cells.into_iter().map(Into::into).collect(),
        }
    }
}

/// The heads of columns.
pub(crate) fn columns(heads: &[&str]) -> Vec<String> {
    heads.iter().map(|&head| head.to_owned()).collect()
}

/// HTML of a text, with what is between backticks as code.
fn marked(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    let pieces: Vec<_> = escaped.split('`').collect();
    // The last of an odd number of backticks is none.
    let (pairs, last) = pieces.as_chunks::<2>();
    if last.is_empty() {
        return escaped;
    }
    let pairs = pairs
        .iter()
        .map(|[text, code]| format!("{text}<code>{code}</code>"));
    pairs.collect::<String>() + &last.concat()
}

/// A rival's or Luxor's.
pub(crate) fn whose(rival: bool) -> Whose {
    if rival { Whose::Rival } else { Whose::Luxor }
}

impl Section {
    /// One that could not run.
    pub(crate) fn absent(name: &'static str, reason: String) -> Self {
        Self {
            name,
            title: name.to_owned(),
            paper: None,
            about: String::new(),
            conclusion: None,
            figures: Vec::new(),
            tables: Vec::new(),
            absent: vec![reason],
        }
    }
}

#[cfg(test)]
impl Section {
    /// That it says something, that rows have as many cells as there are columns, and that
    /// nothing is empty or no number.
    pub(crate) fn assert_whole(&self) {
        let name = self.name;
        assert!(self.conclusion.is_some(), "{name}");
        for table in &self.tables {
            assert!(!table.rows.is_empty(), "{name}: {} is empty", table.caption);
            for row in &table.rows {
                let cells = &row.cells;
                let place = format!("{name}, {}: {cells:?}", table.caption);
                assert_eq!(cells.len(), table.columns.len(), "{place}");
                assert!(cells.iter().all(|cell| !cell.is_empty()), "{place}");
            }
        }
        let cells = self.tables.iter().flat_map(|table| &table.rows);
        let cells = cells.flat_map(|row| &row.cells);
        let texts = cells.chain(&self.conclusion);
        for figure in &self.figures {
            assert!(figure.svg.contains("<text"), "{name}: {}", figure.caption);
        }
        let plots = self.figures.iter();
        let plots = plots.flat_map(|figure| [&figure.svg, &figure.description]);
        for text in texts.chain(plots) {
            let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
            assert!(
                !words.any(|word| word == "NaN" || word == "inf"),
                "{name}: {text}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backticks_are_code_and_nothing_is_markup() {
        for (text, html) in [
            ("a `b` c", "a <code>b</code> c"),
            ("`a` & `<b>`", "<code>a</code> &amp; <code>&lt;b></code>"),
            ("a ` b", "a ` b"),
            ("", ""),
        ] {
            assert_eq!(marked(text), html);
        }
    }
}
