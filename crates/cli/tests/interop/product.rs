// SPDX-License-Identifier: MIT OR Apache-2.0
//! The full product of the options of volumes and of what both programs do with each: a table
//! without empty cells.

use std::{
    collections::BTreeMap,
    env,
    fmt::{self, Write as _},
    io::{self, Write as _},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use crate::{
    Cell, Format, PBKDFS, SECRETS, XTS, headers,
    keys::{self, OPERATIONS},
    making,
    programs::{Bench, Outcome},
};

pub const SECTOR_SIZES: [usize; 4] = [512, 1024, 2048, 4096];
pub const KEY_SIZES: [usize; 2] = [256, 512];
/// The metadata size and the keyslots size in KiB: the defaults, and the shortest and longest
/// metadata.
pub const HEADER_SIZES: [Option<(u64, u64)>; 3] = [None, Some((16, 256)), Some((4096, 512))];
pub const HASHES: [&str; 5] = ["sha1", "sha256", "sha512", "ripemd160", "whirlpool"];

/// The test of one column, for a volume with the options of one row. It gets the number of the row.
pub type Deed<'a> = Box<dyn Fn(&mut Bench, Cell, usize) -> Outcome<Word> + Sync + 'a>;

/// Whether all cases run. `cargo xtask test --long` sets the variable.
pub fn is_long() -> bool {
    env::var_os("LUXOR_TEST_LONG").is_some()
}

/// Returns both key sizes, or in the short form only one, which alternates with `i`.
pub fn key_sizes(both: &[usize; 2], i: usize) -> &[usize] {
    if is_long() { both } else { &both[i % 2..][..1] }
}

/// The result of a cell that is not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    Passed,
    /// Tested only in the long form.
    Left,
    /// The operation does not exist for these options: both programs refuse it and change nothing.
    Refused,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passed => "passed",
            Self::Left => "long",
            Self::Refused => "refused",
        })
    }
}

#[test]
fn every_operation_works_with_every_volume() {
    let mut columns: Vec<(&str, Deed<'_>)> = vec![
        ("cryptsetup makes", Box::new(making::by_cryptsetup)),
        ("Luxor creates", Box::new(making::by_luxor)),
        ("backup", Box::new(headers::backup_and_restore)),
        ("repair", Box::new(headers::repair)),
        ("convert", Box::new(headers::convert)),
    ];
    for operation in OPERATIONS.iter().filter(|operation| operation.is_of_keys) {
        let deed = |bench: &mut Bench, cell, _| keys::both_ways(bench, cell, operation);
        columns.push((operation.name, Box::new(deed)));
    }
    let rows = rows();
    // 5 hashes of LUKS1, 3 key derivations of LUKS2 with 4 sector sizes; each with 2 key sizes,
    // attached and detached.
    assert_eq!((rows.len(), columns.len()), ((5 + 3 * 4) * 2 * 2, 9));
    let chosen = |row, column| is_chosen(&rows, row, column);
    run(
        "all that both programs do to volumes",
        &rows,
        &columns,
        &chosen,
    );
}

/// Whether the short form runs a cell of the product: one in four of each hash of LUKS1, and one in
/// five of LUKS2.
fn is_chosen(rows: &[Cell], row: usize, column: usize) -> bool {
    if rows[row].is_luks1() {
        (row + row / 4 + column).is_multiple_of(4)
    } else {
        (row + column).is_multiple_of(5)
    }
}

#[test]
fn each_operation_meets_each_value_in_the_short_form() {
    let rows = rows();
    for column in 0..9 {
        let of = |luks1: bool| {
            let chosen = (0..rows.len()).filter(|&row| is_chosen(&rows, row, column));
            let cells = chosen.map(|row| rows[row]);
            cells.filter(move |cell| cell.is_luks1() == luks1)
        };
        for luks1 in [true, false] {
            let formats = rows.iter().filter(|cell| cell.is_luks1() == luks1);
            for format in formats.map(|cell| cell.format) {
                assert!(of(luks1).any(|cell| cell.format == format), "{format:?}");
            }
            for key_size in KEY_SIZES {
                assert!(
                    of(luks1).any(|cell| cell.key_size == key_size),
                    "{key_size}"
                );
            }
            for detached in [false, true] {
                assert!(
                    of(luks1).any(|cell| cell.detached == detached),
                    "{detached}"
                );
            }
            for secret in SECRETS {
                assert!(of(luks1).any(|cell| cell.secret == secret), "{secret:?}");
            }
        }
        for sector_size in SECTOR_SIZES {
            let mut cells = of(false);
            assert!(
                cells.any(|cell| cell.sector_size == sector_size),
                "{sector_size}"
            );
        }
        for sizes in HEADER_SIZES {
            assert!(
                of(false).any(|cell| cell.header_sizes == sizes),
                "{sizes:?}"
            );
        }
    }
}

/// Returns the product of all values. Each kind of secret occurs with every other value.
pub fn rows() -> Vec<Cell> {
    let luks1 = HASHES.map(|hash| Format::Luks1 { hash });
    let luks2 = PBKDFS.map(|pbkdf| Format::Luks2 { pbkdf });
    let mut rows = Vec::new();
    for (i, format) in luks1.into_iter().chain(luks2).enumerate() {
        for (j, key_size) in KEY_SIZES.into_iter().enumerate() {
            for (k, &sector_size) in format.sector_sizes().iter().enumerate() {
                for detached in [false, true] {
                    let parity = match format {
                        // qemu accepts only UTF-8, and no detached headers.
                        Format::Luks1 { .. } => 0,
                        Format::Luks2 { .. } => i + j + k,
                    };
                    // Each pair occurs with every other value.
                    let header_sizes = match format {
                        Format::Luks1 { .. } => None,
                        Format::Luks2 { .. } => HEADER_SIZES[rows.len() % HEADER_SIZES.len()],
                    };
                    rows.push(Cell {
                        format,
                        encryption: XTS,
                        key_size,
                        sector_size,
                        detached,
                        header_sizes,
                        secret: SECRETS[(parity + usize::from(detached)) % 2],
                    });
                }
            }
        }
    }
    rows
}

/// Runs the cells of a table and prints it. Fails if a cell fails or is empty. The short form runs
/// the cells whose row and column are `chosen`.
pub fn run(
    name: &str,
    rows: &[Cell],
    columns: &[(&str, Deed<'_>)],
    chosen: &(dyn Fn(usize, usize) -> bool + Sync),
) {
    let begun = Instant::now();
    let is_long = is_long();
    let (next, results) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        let mut bench = Bench::new();
        loop {
            let row = next.fetch_add(1, Relaxed);
            let Some(&cell) = rows.get(row) else { break };
            for (column, (_, deed)) in columns.iter().enumerate() {
                let outcome = if is_long || chosen(row, column) {
                    bench.clear().and_then(|()| deed(&mut bench, cell, row))
                } else {
                    Ok(Word::Left)
                };
                results.lock().unwrap().insert((row, column), outcome);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let results = results.into_inner().unwrap();

    let width = |name: &str| name.chars().count().max(7) + 2;
    let label = rows.iter().map(|cell| cell.to_string().len()).max();
    let label = label.unwrap_or(0);
    let mut table = format!("\n{name}\n{:label$}", "");
    for (column, _) in columns {
        write!(table, "{column:>0$}", width(column)).unwrap();
    }
    let (mut empty, mut failures) = (0, Vec::new());
    for (row, cell) in rows.iter().enumerate() {
        write!(table, "\n{:label$}", cell.to_string()).unwrap();
        for (column, (deed, _)) in columns.iter().enumerate() {
            let word = match results.get(&(row, column)) {
                Some(Ok(word)) => word.to_string(),
                Some(Err(message)) => {
                    failures.push(format!("{cell}, {deed}: {message}"));
                    "FAILED".to_owned()
                }
                None => {
                    empty += 1;
                    "-".to_owned()
                }
            };
            write!(table, "{word:>0$}", width(deed)).unwrap();
        }
    }
    // Written directly to standard error, because the test harness hides the output of a passing
    // test.
    writeln!(
        io::stderr().lock(),
        "{table}\n{} cells, {} failed, {empty} empty, {:.1} s\n",
        rows.len() * columns.len(),
        failures.len(),
        begun.elapsed().as_secs_f64()
    )
    .unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(empty, 0, "no cell may be empty");
}
