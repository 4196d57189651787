// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of words in columns, which are read from a source file and printed for copying there.

use std::str::FromStr;

/// Returns the rows below the header, each with as many words as the header.
pub fn rows<const N: usize>(text: &str) -> Vec<[&str; N]> {
    let array = |words: Vec<_>| {
        let found = words.len();
        words
            .try_into()
            .unwrap_or_else(|_| panic!("a table of {found} columns instead of {N}"))
    };
    rows_as_wide_as_head(text).into_iter().map(array).collect()
}

/// As [`rows`], for any number of columns.
pub fn rows_as_wide_as_head(text: &str) -> Vec<Vec<&str>> {
    let width = head(text).split_whitespace().count();
    let lines = text.lines().filter(|line| !line.trim().is_empty()).skip(1);
    let words = |line| {
        let words: Vec<&str> = str::split_whitespace(line).collect();
        let found = words.len();
        assert!(
            found == width,
            "{found} words instead of {width} in the row \"{line}\""
        );
        words
    };
    lines.map(words).collect()
}

/// Returns the header line.
pub fn head(text: &str) -> &str {
    text.lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
}

/// Parses a number of a table.
pub fn number<T: FromStr>(word: &str) -> T {
    let number = word.parse().ok();
    number.unwrap_or_else(|| panic!("\"{word}\" is not a number"))
}

/// Prints the header and the rows with aligned columns.
pub fn print(head: &str, rows: &[Vec<String>]) {
    let head: Vec<String> = head.split_whitespace().map(str::to_owned).collect();
    let width = |column: usize| {
        let cells = std::iter::once(&head).chain(rows);
        cells.map(|row| row[column].len()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    for row in std::iter::once(&head).chain(rows) {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_the_head() {
        let text = "\nname  n\nab    1\ncd    2\n";
        assert_eq!(rows::<2>(text), [["ab", "1"], ["cd", "2"]]);
    }

    #[test]
    #[should_panic(expected = "3 words instead of 2 in the row \"ab 1 2\"")]
    fn a_row_that_is_too_long_is_named() {
        rows::<2>("name n\nab 1 2");
    }
}
