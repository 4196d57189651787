// SPDX-License-Identifier: MIT OR Apache-2.0
//! Renders a section as text for a terminal.

use crate::section::{Section, Table};

/// The longest line of text. Tables may be wider.
const WIDTH: usize = 80;

/// A column head is wrapped if it is longer than this and than the column's cells.
const HEAD: usize = 14;

/// The most rows of all tables of a section that are shown unless everything is.
const SHORT: usize = 30;

/// Returns the result of a section. Only if `verbose`, the method and long tables are included.
pub(crate) fn text(section: &Section, verbose: bool) -> String {
    if verbose {
        whole(section)
    } else {
        result(section)
    }
}

fn result(section: &Section) -> String {
    let mut text = section.title.clone() + "\n";
    text += &section
        .answer()
        .map_or_else(String::new, |answer| paragraph(&answer));
    let all = || section.tables.iter().chain(&section.details);
    let rows: usize = all().map(|table| table.rows.len()).sum();
    if rows <= SHORT {
        text += &tables(all());
    } else {
        let tables = all().count();
        text += &format!("-v prints {tables} tables with {rows} rows, and the method.\n");
    }
    text + &absent(section)
}

fn tables<'a>(tables: impl Iterator<Item = &'a Table>) -> String {
    let tables = tables.map(|table| format!("\n{}{}", paragraph(&table.caption), lines(table)));
    tables.collect()
}

fn absent(section: &Section) -> String {
    let absent = section.absent.iter();
    let absent = absent.map(|what| format!("\n{}", paragraph(&format!("no rows of {what}"))));
    absent.collect()
}

fn whole(section: &Section) -> String {
    let mut text = section.title.clone() + "\n";
    let paper = section.paper.as_ref().map(|paper| paper.reference);
    let words = paper.into_iter().chain([section.about.as_str()]);
    for words in words.chain(section.answer().as_deref()) {
        text += &paragraph(words);
    }
    if let Some(consequence) = &section.consequence {
        text += &format!("\n{}", paragraph(consequence));
    }
    text += &tables(section.tables.iter().chain(&section.details));
    for note in &section.notes {
        text += &format!("\n{}", paragraph(note));
    }
    text + &absent(section)
}

fn paragraph(words: &str) -> String {
    let lines = wrapped(words, WIDTH).into_iter();
    lines.map(|line| line + "\n").collect()
}

/// Wraps `words` to lines of at most `width` characters. Longer words get lines of their own.
fn wrapped(words: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(word) <= width => {
                *line += " ";
                *line += word;
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Renders the column heads, aligned at the bottom, and the rows. The first column is left-aligned,
/// the others right-aligned.
fn lines(table: &Table) -> String {
    let columns = table.columns.iter().enumerate().map(|(at, head)| {
        let cells = table.rows.iter().map(|row| length(&row.cells[at]));
        let widest = cells.max().unwrap_or(0);
        let head = wrapped(head, widest.max(HEAD));
        let width = head.iter().map(|line| length(line)).max().unwrap_or(0);
        (head, width.max(widest))
    });
    let (heads, widths): (Vec<_>, Vec<_>) = columns.unzip();
    let height = heads.iter().map(Vec::len).max().unwrap_or(0);
    let head = |line: usize| {
        let cells = heads.iter().map(move |head| {
            let above = height - head.len();
            line.checked_sub(above)
                .map_or("", |line| head[line].as_str())
        });
        aligned(cells, &widths)
    };
    let heads: String = (0..height).map(head).collect();
    let rows = table.rows.iter();
    let rows = rows.map(|row| aligned(row.cells.iter().map(String::as_str), &widths));
    heads + &rows.collect::<String>()
}

fn aligned<'a>(cells: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
    let cells = cells.zip(widths).enumerate().map(|(at, (cell, &width))| {
        if at == 0 {
            format!("{cell:<width$}")
        } else {
            format!("  {cell:>width$}")
        }
    });
    cells.collect::<String>().trim_end().to_owned() + "\n"
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{plot::Whose, section::Row};

    #[test]
    fn a_section_is_aligned_and_lists_what_is_absent() {
        let row = |name, cells: [&str; 2]| Row::new(Whose::Luxor, name, cells);
        let section = Section {
            title: "A title".to_owned(),
            about: "word ".repeat(30),
            tables: vec![Table::new(
                "Times",
                "Who",
                ["ms", "a head that is broken"],
                [row("\u{b5} one", ["1", "2"]), row("two", ["1000", "-"])],
            )],
            absent: vec!["cuda: none".to_owned()],
            ..Section::default()
        };
        let line = "word ".repeat(16);
        let rest = "word ".repeat(14);
        let expected = format!(
            "A title\n{}\n{}\n\nTimes\n             a head that is\n\
             Who      ms          broken\n\
             \u{b5} one     1               2\n\
             two    1000               -\n\nno rows of cuda: none\n",
            line.trim_end(),
            rest.trim_end()
        );
        assert_eq!(text(&section, true), expected);
        // The method is left out, and a long table.
        let short = text(&section, false);
        assert!(
            !short.contains("word") && short.contains("two    1000"),
            "{short}"
        );
        let mut long = section;
        long.tables[0].rows = vec![row("one", ["1", "2"]); SHORT + 1];
        let short = text(&long, false);
        assert!(
            !short.contains("Who") && short.contains("-v prints 1 tables with 31 rows"),
            "{short}"
        );
    }
}
