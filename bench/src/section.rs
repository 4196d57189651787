// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is said about a bench, from which the [terminal](crate::terminal) and the
//! [page](crate::page) each make their own.

use crate::plot::{Plot, Whose};

/// A bench, or why there is nothing of it.
#[derive(Clone, Default)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) paper: Option<Paper>,
    /// What is measured, in a few sentences.
    pub(crate) about: String,
    /// A plain sentence with the numbers in it; none where nothing could be measured.
    pub(crate) conclusion: Option<String>,
    pub(crate) plots: Vec<Plot>,
    pub(crate) tables: Vec<Table>,
    /// More than a page should have: for the terminal only.
    pub(crate) details: Vec<Table>,
    /// What is to be known of the tables.
    pub(crate) notes: Vec<String>,
    /// What could not run here, and why: "what: why".
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

/// In a cell for which there is nothing.
pub(crate) const NOTHING: &str = "-";

/// A cell for which there may be nothing.
pub(crate) fn cell<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), text)
}

impl Table {
    /// `head` stands above the rows' own heads.
    pub(crate) fn new(
        caption: impl Into<String>,
        head: &str,
        columns: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = Row>,
    ) -> Self {
        Self {
            caption: caption.into(),
            columns: behind(head, columns),
            rows: rows.into_iter().collect(),
        }
    }
}

impl Row {
    pub(crate) fn new(
        whose: Whose,
        head: impl Into<String>,
        cells: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let cells = behind(head, cells);
        Self { whose, cells }
    }
}

fn behind(
    head: impl Into<String>,
    cells: impl IntoIterator<Item = impl Into<String>>,
) -> Vec<String> {
    let cells = cells.into_iter().map(Into::into);
    std::iter::once(head.into()).chain(cells).collect()
}

impl Section {
    /// One that could not run.
    pub(crate) fn absent(name: &str, reason: String) -> Self {
        Self {
            title: name.to_owned(),
            absent: vec![reason],
            ..Self::default()
        }
    }

    /// A filtered run leaves some tables without rows.
    pub(crate) fn without_empty_tables(mut self) -> Self {
        self.tables.retain(|table| !table.rows.is_empty());
        self
    }
}

#[cfg(test)]
impl Section {
    /// That it says something, that rows have as many cells as there are columns, and that
    /// nothing is empty or no number.
    pub(crate) fn assert_whole(&self) {
        let title = &self.title;
        assert!(self.conclusion.is_some(), "{title}");
        let tables = || self.tables.iter().chain(&self.details);
        for table in tables() {
            assert!(
                !table.rows.is_empty(),
                "{title}: {} is empty",
                table.caption
            );
            for row in &table.rows {
                let cells = &row.cells;
                let place = format!("{title}, {}: {cells:?}", table.caption);
                assert_eq!(cells.len(), table.columns.len(), "{place}");
                assert!(cells.iter().all(|cell| !cell.is_empty()), "{place}");
            }
        }
        let cells = tables().flat_map(|table| &table.rows);
        let cells = cells.flat_map(|row| &row.cells);
        let texts = cells.chain(&self.conclusion).chain(&self.notes).cloned();
        let plots = self.plots.iter().flat_map(|plot| {
            let svg = plot.svg().unwrap();
            assert!(svg.contains("<text"), "{title}: {}", plot.caption);
            [svg, plot.description()]
        });
        for text in texts.chain(plots) {
            let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
            assert!(
                !words.any(|word| word == "NaN" || word == "inf"),
                "{title}: {text}"
            );
        }
    }
}
