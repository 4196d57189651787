// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor report`: renders the sections as a self-contained HTML page.

use askama::Template;

use crate::{
    plot::Plot,
    section::{Section, Table},
    summary::PaperVerdict,
};

/// The whole page.
#[derive(Template)]
#[template(path = "report.html")]
pub(crate) struct Page {
    /// In UTC, as in RFC 3339.
    pub(crate) date: String,
    pub(crate) command: String,
    pub(crate) version: String,
    pub(crate) machine: String,
    /// The machine, and what the program was built with.
    pub(crate) facts: Vec<Fact>,
    /// Luxor's own speed and the verdict on the papers, in a few lines.
    pub(crate) summary: Vec<(&'static str, String)>,
    pub(crate) of_papers: Vec<PaperVerdict>,
    /// The figures of the papers and the best of Luxor.
    pub(crate) verdicts: Table,
    pub(crate) parts: Vec<Part>,
    /// Whether this was only a quick look.
    pub(crate) quick: bool,
}

pub(crate) struct Fact {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// The section of a bench, with its plots drawn.
pub(crate) struct Part {
    /// The name on the command line.
    name: &'static str,
    section: Section,
    headline: Option<Figure>,
    figures: Vec<Figure>,
}

/// The most rows of a table that is not folded.
const UNFOLDED: usize = 8;

#[derive(Template)]
#[template(path = "table.html")]
struct TableOnPage<'a> {
    table: &'a Table,
    /// Whether its cells are sentences, which may be broken.
    has_words: bool,
}

impl Table {
    fn is_folded(&self) -> bool {
        self.rows.len() > UNFOLDED
    }

    fn on_page(&self, has_words: bool) -> TableOnPage<'_> {
        TableOnPage {
            table: self,
            has_words,
        }
    }
}

#[derive(Template)]
#[template(path = "figure.html")]
struct Figure {
    caption: String,
    remark: Option<String>,
    /// The text alternative of the plot.
    description: String,
    svg: String,
}

impl Page {
    fn has_papers(&self) -> bool {
        self.parts.iter().any(|part| part.section.paper.is_some())
    }
}

impl Part {
    /// If a plot cannot be drawn, the part says so and the rest of the page is shown.
    pub(crate) fn new(name: &'static str, section: Section) -> Self {
        let figures = section.plots.iter().map(|plot| Figure::new(plot, &section));
        let headline = section.headline.iter();
        let headline = headline.map(|plot| Figure::new(plot, &section));
        let drawn = figures.collect::<Result<_, _>>();
        let drawn =
            drawn.and_then(|figures| Ok((figures, headline.collect::<Result<Vec<_>, _>>()?)));
        match drawn {
            Ok((figures, mut headline)) => Self {
                name,
                headline: headline.pop(),
                figures,
                section,
            },
            Err(why) => {
                let reason =
                    format!("The plots cannot be drawn ({why}); the JSON has the numbers.");
                Self {
                    name,
                    section: Section::absent(name, reason),
                    headline: None,
                    figures: Vec::new(),
                }
            }
        }
    }
}

impl Figure {
    fn new(plot: &Plot, section: &Section) -> Result<Self, String> {
        let alone = || {
            let explained = !section.absent.is_empty() && !plot.has_rival();
            explained.then(|| "Nothing to compare with ran here; the method says why.".to_owned())
        };
        Ok(Self {
            caption: plot.caption.clone(),
            remark: plot.remark.clone().or_else(alone),
            description: plot.description(),
            svg: plot.svg()?,
        })
    }
}

/// Converts a text to HTML, with the parts between backticks as code.
fn marked(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    let pieces: Vec<_> = escaped.split('`').collect();
    // With an odd number of backticks, the last one has no partner and stays.
    let (pairs, last) = pieces.as_chunks::<2>();
    if last.is_empty() {
        return escaped;
    }
    let pairs = pairs
        .iter()
        .map(|[text, code]| format!("{text}<code>{code}</code>"));
    pairs.collect::<String>() + &last.concat()
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
