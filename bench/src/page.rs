// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor report`: renders the sections as a self-contained HTML page.

use askama::Template;

use crate::section::Section;

/// The whole page.
#[derive(Template)]
#[template(path = "report.html")]
pub(crate) struct Page {
    /// In UTC, as in RFC 3339.
    pub(crate) date: String,
    pub(crate) command: String,
    pub(crate) version: String,
    /// The machine, and what the program was built with.
    pub(crate) facts: Vec<Fact>,
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
    figures: Vec<Figure>,
}

struct Figure {
    caption: String,
    /// The text alternative of the plot.
    description: String,
    svg: String,
}

impl Part {
    /// If a plot cannot be drawn, the part says so and the rest of the page is shown.
    pub(crate) fn new(name: &'static str, section: Section) -> Self {
        let figures = section.plots.iter().map(|plot| {
            Ok(Figure {
                caption: plot.caption.clone(),
                description: plot.description(),
                svg: plot.svg()?,
            })
        });
        let (section, figures) = match figures.collect::<Result<_, String>>() {
            Ok(figures) => (section, figures),
            Err(why) => {
                let reason =
                    format!("The plots cannot be drawn ({why}); the JSON has the numbers.");
                (Section::absent(name, reason), Vec::new())
            }
        };
        Self {
            name,
            section,
            figures,
        }
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
