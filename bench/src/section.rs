// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of a bench's result. The [terminal](crate::terminal) and the [page](crate::page)
//! render it.

use crate::{
    plot::{self, Plot, Whose},
    stats::Summary,
};

/// The result of a bench, or the reason why there is none.
#[derive(Clone, Default)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) paper: Option<Paper>,
    /// Describes the measurement in a few sentences.
    pub(crate) about: String,
    /// The main numbers, in short sentences; `None` if nothing could be measured.
    pub(crate) conclusion: Option<String>,
    /// Luxor's own speed in a few words, for the summary.
    pub(crate) brief: Option<String>,
    /// The main numbers of a GPU, for a bench that also runs without one.
    pub(crate) on_gpu: Option<String>,
    /// The figures of the paper, each beside the best of Luxor.
    pub(crate) verdicts: Vec<Verdict>,
    /// A paragraph on what follows from the numbers.
    pub(crate) consequence: Option<String>,
    /// The plot that answers the paper's question, for the top of the page.
    pub(crate) headline: Option<Plot>,
    pub(crate) plots: Vec<Plot>,
    pub(crate) tables: Vec<Table>,
    /// Tables that are too long for the page: for the terminal only.
    pub(crate) details: Vec<Table>,
    /// Short tables of all cases, which `docs/results.md` has in place of [`Self::tables`].
    pub(crate) digest: Vec<Table>,
    /// Explanations of the tables.
    pub(crate) notes: Vec<String>,
    /// The parts that could not run here, each as "what: why".
    pub(crate) absent: Vec<String>,
    /// Whether other programs or the host disturbed the measurement.
    pub(crate) is_disturbed: bool,
}

/// A paper: its short name, the question that it asks, its reference, its claim, and what was rebuilt
/// of it.
#[derive(Clone)]
pub(crate) struct Paper {
    pub(crate) name: &'static str,
    pub(crate) question: &'static str,
    pub(crate) reference: &'static str,
    pub(crate) claim: &'static str,
    pub(crate) rebuilt: &'static str,
}

/// A figure of a paper beside the same system, rebuilt, and the best of Luxor.
#[derive(Clone)]
pub(crate) struct Verdict {
    pub(crate) figure: String,
    /// The figure as the paper prints it.
    pub(crate) printed: String,
    /// The paper's system on the machine of Luxor's figure, if it runs there.
    pub(crate) rebuilt: Option<String>,
    pub(crate) luxor: String,
    /// How many times as good Luxor's figure is as the rebuilt system's, or else as the printed one.
    pub(crate) times: Summary,
    /// Why Luxor is behind, or what limits the comparison.
    pub(crate) why: Option<String>,
    /// The record of Luxor's figure; `None` for the results that are being shown.
    pub(crate) record: Option<String>,
}

impl Verdict {
    /// Returns the table of all verdicts, each with the name of its paper.
    pub(crate) fn table<'a>(verdicts: impl IntoIterator<Item = (&'a str, &'a Self)>) -> Table {
        let rows = verdicts.into_iter().map(|(paper, verdict)| {
            let record = verdict.record.iter().map(|record| format!(" ({record})"));
            let luxor = verdict.luxor.clone() + &record.collect::<String>();
            let rebuilt = cell(verdict.rebuilt.as_ref(), String::clone);
            let figure = &verdict.figure;
            let cells = [figure, &verdict.printed, &rebuilt, &luxor, &verdict.text()];
            Row::new(Whose::Luxor, paper, cells)
        });
        Table::new(
            "The papers' figures and the best of Luxor",
            "Paper",
            [
                "Figure",
                "As printed",
                "The paper's system, rebuilt",
                "Best of Luxor",
                "Verdict",
            ],
            rows,
        )
    }

    pub(crate) fn is_ahead(&self) -> bool {
        self.times.median >= 1.0
    }

    fn text(&self) -> String {
        let place = if self.is_ahead() {
            "ahead of"
        } else {
            "behind"
        };
        let other = match self.rebuilt {
            Some(_) => "the rebuilt system",
            None => "the printed figure",
        };
        let why = self.why.iter().map(|why| format!(": {why}"));
        let times = plot::value(self.times);
        format!("{place} {other}, {times} times{}", why.collect::<String>())
    }
}

/// A table of texts. The first column names the rows.
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

/// The text of a cell without a value.
pub(crate) const NOTHING: &str = "-";

/// Returns the text of a cell that may have no value.
pub(crate) fn cell<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), text)
}

impl Table {
    /// `head` is the head of the first column.
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
    /// A section for a bench that could not run.
    pub(crate) fn absent(name: &str, reason: String) -> Self {
        Self {
            title: name.to_owned(),
            absent: vec![reason],
            ..Self::default()
        }
    }

    /// Returns the conclusion, with that of a GPU.
    pub(crate) fn answer(&self) -> Option<String> {
        let parts: Vec<_> = self
            .conclusion
            .iter()
            .chain(&self.on_gpu)
            .cloned()
            .collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }

    /// Says wherever a number is shown that the measurement was disturbed, and in the conclusion how.
    pub(crate) fn disturbed(mut self, how: &str) -> Self {
        let said = |conclusion: String| format!("Disturbed: {how}. {conclusion}");
        self.conclusion = self.conclusion.map(said);
        let tables = [&mut self.tables, &mut self.details, &mut self.digest];
        let tables = tables.into_iter().flatten();
        let plots = self.plots.iter_mut().chain(&mut self.headline);
        let captions = tables.map(|table| &mut table.caption);
        let captions = captions.chain(plots.map(|plot| &mut plot.caption));
        let verdicts = self.verdicts.iter_mut().map(|verdict| &mut verdict.luxor);
        for text in captions.chain(verdicts).chain(&mut self.brief) {
            *text += " (disturbed)";
        }
        self.is_disturbed = true;
        self
    }

    /// Adds the committed result of a GPU, for a machine that has none.
    pub(crate) fn beside_record(mut self, record: Self, name: &str) -> Self {
        let prefixed = |caption: &mut String| *caption = format!("{name}. {caption}");
        self.brief = record.brief.map(|brief| format!("{brief} ({name})"));
        let absence = format!("No GPU was measured here: this is from the {name}.");
        let answer = record.on_gpu.or(record.conclusion);
        self.on_gpu = answer.map(|answer| format!("{absence} {answer}"));
        if let Some(headline) = record.headline {
            self.headline = Some(headline.with_remark(absence));
        }
        self.plots.extend(record.plots.into_iter().map(|mut plot| {
            prefixed(&mut plot.caption);
            plot
        }));
        for (tables, more) in [
            (&mut self.tables, record.tables),
            (&mut self.digest, record.digest),
        ] {
            tables.extend(more.into_iter().map(|mut table| {
                prefixed(&mut table.caption);
                table
            }));
        }
        // The rows of this machine answer for no GPU, so the record's verdicts replace its own.
        self.verdicts = record.verdicts;
        self.is_disturbed = record.is_disturbed;
        for verdict in &mut self.verdicts {
            verdict.record = Some(name.to_owned());
        }
        self
    }

    /// Removes tables without rows, which a filtered run may produce.
    pub(crate) fn without_empty_tables(mut self) -> Self {
        for tables in [&mut self.tables, &mut self.digest] {
            tables.retain(|table| !table.rows.is_empty());
        }
        self
    }
}

#[cfg(test)]
impl Section {
    /// Asserts that the section has a conclusion, that all rows have as many cells as there are
    /// columns, that no cell is empty or not a number, and that a plot without a rival says why.
    pub(crate) fn assert_whole(&self) {
        let title = &self.title;
        assert!(self.conclusion.is_some(), "{title}");
        let tables = || self.tables.iter().chain(&self.details).chain(&self.digest);
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
        let said = [&self.conclusion, &self.on_gpu, &self.consequence];
        let said = said.into_iter().flatten();
        let texts = cells.chain(said).chain(&self.notes).cloned();
        let plots = self.plots.iter().chain(&self.headline);
        let plots = plots.flat_map(|plot| {
            let caption = &plot.caption;
            let explained = plot.remark.is_some() || !self.absent.is_empty();
            assert!(plot.has_rival() || explained, "{title}: {caption}");
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
