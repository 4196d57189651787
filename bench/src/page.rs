// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor report`: the sections as a page that needs nothing else.

use askama::Template;

use crate::section::Section;

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
    pub(crate) parts: Vec<Part>,
    /// A look, not a result.
    pub(crate) quick: bool,
}

pub(crate) struct Fact {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// A bench's section, with its plots drawn.
pub(crate) struct Part {
    /// As on the command line.
    name: &'static str,
    section: Section,
    figures: Vec<Figure>,
}

struct Figure {
    caption: String,
    /// For who does not see it.
    description: String,
    svg: String,
}

impl Part {
    /// One whose plots cannot be drawn says so: the others are shown.
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
                let reason = format!("It cannot be drawn ({why}); the JSON has it.");
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
