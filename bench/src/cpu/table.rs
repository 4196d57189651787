// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows as tables: a section for each kind of work, a line for each pair of
//! lengths, a column for each contestant.

use std::fmt::Write;

use super::{Row, matrix::Place};
use crate::size;

/// All sections.
pub(super) fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut kinds: Vec<_> = rows.iter().map(kind).collect();
    kinds.dedup();
    for several in [false, true] {
        for kind in &kinds {
            let of_kind = |row: &&Row| self::kind(row) == *kind && (row.threads > 1) == several;
            let rows: Vec<_> = rows.iter().filter(of_kind).collect();
            if !rows.is_empty() {
                section(&mut text, &rows);
            }
        }
    }
    text
}

/// What a section has in common.
fn kind(row: &Row) -> (&'static str, usize, &'static str, Place) {
    (row.mode, row.key_bits, row.direction, row.place)
}

fn section(text: &mut String, rows: &[&Row]) {
    let row = rows[0];
    let _ = writeln!(
        text,
        "\n{} AES-{}, {}, {}, {}",
        row.mode.to_uppercase(),
        row.key_bits,
        row.direction,
        match row.place {
            Place::In => "in place",
            Place::Out => "out of place",
        },
        match row.threads {
            1 => "one thread".to_owned(),
            n => format!("{n} threads: the ratio is that to one thread"),
        }
    );
    let mut names: Vec<&str> = Vec::new();
    let mut lines: Vec<(usize, usize)> = Vec::new();
    for row in rows {
        if !names.contains(&&*row.contestant) {
            names.push(&row.contestant);
        }
        if !lines.contains(&(row.call_bytes, row.unit_bytes)) {
            lines.push((row.call_bytes, row.unit_bytes));
        }
    }
    let _ = write!(text, "{:>8} {:>8}", "call", "unit");
    for name in &names {
        let _ = write!(text, "  {name:>10}");
    }
    text.push('\n');
    for (call, unit) in lines {
        let _ = write!(text, "{:>8} {:>8}", size::text(call), size::text(unit));
        for name in &names {
            let cell = rows.iter().find(|row| {
                (row.call_bytes, row.unit_bytes, &*row.contestant) == (call, unit, *name)
            });
            let _ = write!(
                text,
                "  {:>10}",
                cell.map_or("-".to_owned(), |row| self::cell(row))
            );
        }
        text.push('\n');
    }
}

/// GB/s in three digits, and the ratio that belongs to it.
fn cell(row: &Row) -> String {
    let rate = row.gb_per_s.median;
    let decimals = match rate {
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    let ratio = if row.threads > 1 {
        row.of_one_thread
            .as_ref()
            .map(|all| format!("{:.2}", all.median))
    } else {
        row.of_limit
            .as_ref()
            .map(|all| format!("{:.3}", all.median))
    };
    format!("{rate:.decimals$} {:>5}", ratio.unwrap_or_default())
}
