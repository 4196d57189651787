// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of cases that `cpu` measures.

use luxor_engine::{DataUnitLen, Direction, KeySize, Mode};
use serde::{Deserialize, Serialize};

use crate::size;

/// Smaller calls go through a buffer of this many bytes: more than an L1 cache holds, and well
/// within an L2 cache.
const IN_CACHE: usize = 64 << 10;
/// Longer calls measure memory instead of the L2 cache.
const CACHE_MAX: usize = 4 << 20;
/// The sector sizes of LUKS volumes. Other unit lengths are measured only in the cache.
const SECTORS: [usize; 2] = [512, 4096];

/// Where the results go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResultPlace {
    /// In place, over the input
    In,
    /// Into another buffer
    Out,
}

/// One kind of work, for all contestants that support it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) mode: Mode,
    pub(crate) key_size: KeySize,
    pub(crate) direction: Direction,
    pub(crate) place: ResultPlace,
    /// Bytes of a data unit. In CTR and ECB, it is the whole call.
    pub(crate) unit: usize,
    /// Bytes of a call.
    pub(crate) call: usize,
    /// Bytes that the calls go through.
    pub(crate) buffer: usize,
}

impl Case {
    /// Returns whether the case goes through memory instead of a cache.
    pub(crate) fn in_memory(&self) -> bool {
        self.call > CACHE_MAX
    }

    /// Returns whether the case is worth several threads.
    pub(crate) fn for_threads(&self) -> bool {
        self.call >= 1 << 20
    }
}

/// The cases that the user selected. An empty list selects all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) modes: Vec<Mode>,
    pub(crate) key_sizes: Vec<KeySize>,
    pub(crate) directions: Vec<Direction>,
    pub(crate) places: Vec<ResultPlace>,
    pub(crate) units: Vec<usize>,
    pub(crate) calls: Vec<usize>,
    /// Bytes of the call for memory.
    pub(crate) large: usize,
    pub(crate) quick: bool,
}

/// Returns the cases in the order of the tables.
pub(crate) fn cases(filter: &Filter) -> Result<Vec<Case>, String> {
    let all_units = [16, 512, 4096, 64 << 10, 1 << 20];
    let units = or(&filter.units, &all_units);
    for &unit in &units {
        DataUnitLen::new(unit).map_err(|e| e.to_string())?;
        if unit < 16 {
            return Err(format!(
                "XTS needs data units of at least 16 bytes, not {unit}"
            ));
        }
    }
    let calls = or(&filter.calls, &[512, 4096, 64 << 10, 1 << 20, filter.large]);
    let mut cases = Vec::new();
    // Only XTS is measured with data units shorter than the call.
    let modes: &[_] = if filter.units.is_empty() {
        &[Mode::Xts, Mode::Ctr, Mode::Ecb]
    } else {
        &[Mode::Xts]
    };
    for mode in or(&filter.modes, modes) {
        for key_size in or(&filter.key_sizes, &[KeySize::Aes256, KeySize::Aes128]) {
            for direction in or(&filter.directions, &Direction::ALL) {
                // Decryption is the same operation in CTR.
                if mode == Mode::Ctr && direction == Direction::Decrypt {
                    continue;
                }
                let mut lengths = Vec::new();
                for &call in &calls {
                    if mode == Mode::Xts {
                        let fits = |unit: &&usize| call.is_multiple_of(**unit);
                        lengths.extend(units.iter().filter(fits).map(|&unit| (unit, call)));
                    } else if !filter.calls.is_empty() || call == 64 << 10 {
                        lengths.push((call, call));
                    }
                }
                for place in or(&filter.places, &[ResultPlace::In, ResultPlace::Out]) {
                    let case = |(unit, call): (usize, usize)| Case {
                        mode,
                        key_size,
                        direction,
                        place,
                        unit,
                        call,
                        buffer: call * (IN_CACHE / call).max(1),
                    };
                    cases.extend(
                        lengths
                            .iter()
                            .copied()
                            .map(case)
                            .filter(|case| keep(case, filter)),
                    );
                }
            }
        }
    }
    if cases.is_empty() {
        if filter.modes == [Mode::Ctr] && filter.directions == [Direction::Decrypt] {
            return Err(
                "CTR encrypts and decrypts in the same way: leave out --direction decrypt"
                    .to_owned(),
            );
        }
        let list = |sizes: &[usize]| {
            let texts: Vec<_> = sizes.iter().map(|&bytes| size::text(bytes)).collect();
            texts.join(", ")
        };
        return Err(format!(
            "nothing to measure: no call of {} holds whole data units of {}",
            list(&calls),
            list(&units)
        ));
    }
    Ok(cases)
}

/// Returns whether to keep a case. A quick run drops the less informative ones, unless the user
/// asked for them.
fn keep(case: &Case, filter: &Filter) -> bool {
    let unit = !filter.units.is_empty() || SECTORS.contains(&case.unit) || case.mode != Mode::Xts;
    let key = !filter.key_sizes.is_empty() || case.key_size == KeySize::Aes256 || !case.in_memory();
    let place = !filter.places.is_empty() || case.place == ResultPlace::Out;
    let call = !filter.calls.is_empty() || [IN_CACHE, filter.large].contains(&case.call);
    !filter.quick || (unit && key && place && call)
}

/// Returns the wished items without duplicates, or all if there are none.
fn or<T: Copy + PartialEq>(wished: &[T], all: &[T]) -> Vec<T> {
    let mut list = Vec::new();
    for item in if wished.is_empty() { all } else { wished } {
        if !list.contains(item) {
            list.push(*item);
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter() -> Filter {
        Filter {
            large: 256 << 20,
            ..Filter::default()
        }
    }

    fn xts(cases: &[Case]) -> Vec<(usize, usize)> {
        let wanted = |case: &&Case| {
            (case.mode, case.key_size, case.direction, case.place)
                == (
                    Mode::Xts,
                    KeySize::Aes128,
                    Direction::Decrypt,
                    ResultPlace::Out,
                )
        };
        cases
            .iter()
            .filter(wanted)
            .map(|case| (case.unit, case.call))
            .collect()
    }

    #[test]
    fn calls_hold_whole_units() {
        let all = cases(&filter()).unwrap();
        let shortest = [16, 512].map(|unit| (unit, 512));
        let small = [16, 512, 4096].map(|unit| (unit, 4096));
        let middle = [16, 512, 4096, 65536].map(|unit| (unit, 65536));
        let large = [16, 512, 4096, 65536, 1 << 20].map(|unit| (unit, 1 << 20));
        let memory = [16, 512, 4096, 65536, 1 << 20].map(|unit| (unit, 256 << 20));
        let lengths = [&shortest[..], &small, &middle, &large, &memory];
        assert_eq!(xts(&all), lengths.concat());
        assert!(all.iter().all(|case| case.buffer.is_multiple_of(case.call)));
        // Even calls of 4 KiB go through more than the L1 cache.
        assert!(all.iter().all(|case| case.buffer >= IN_CACHE));
        let others = |mode| all.iter().filter(move |case| case.mode == mode);
        assert_eq!(others(Mode::Ctr).count(), 2 * 2);
        assert_eq!(others(Mode::Ecb).count(), 2 * 2 * 2);
        assert!(others(Mode::Ctr).all(|case| case.unit == 65536 && case.call == 65536));
    }

    #[test]
    fn filters_choose() {
        let one = Filter {
            modes: vec![Mode::Xts],
            key_sizes: vec![KeySize::Aes256],
            directions: vec![Direction::Encrypt],
            places: vec![ResultPlace::In],
            units: vec![512],
            calls: vec![65536],
            ..filter()
        };
        let cases_of_one = cases(&one).unwrap();
        assert_eq!(cases_of_one.len(), 1);
        assert_eq!((cases_of_one[0].unit, cases_of_one[0].buffer), (512, 65536));
        // Lengths outside the matrix can be requested, in memory too.
        let other = Filter {
            units: vec![520],
            calls: vec![520 * 100, 520 << 15],
            ..one.clone()
        };
        let sizes: Vec<_> = cases(&other)
            .unwrap()
            .iter()
            .map(|case| case.buffer)
            .collect();
        assert_eq!(sizes, [52000, 520 << 15]);
        let twice = Filter {
            calls: vec![65536, 65536],
            ..one.clone()
        };
        assert_eq!(cases(&twice).unwrap().len(), 1);
        let ctr = Filter {
            modes: vec![Mode::Ctr],
            units: vec![],
            directions: vec![Direction::Decrypt],
            ..one.clone()
        };
        assert!(cases(&ctr).unwrap_err().contains("--direction"));
        for (units, calls) in [
            (vec![512], vec![100]),
            (vec![15], vec![15]),
            (vec![1 << 25], vec![]),
        ] {
            let nothing = Filter {
                units,
                calls,
                ..one.clone()
            };
            assert!(cases(&nothing).is_err(), "{nothing:?}");
        }
    }

    #[test]
    fn quick_keeps_the_most_telling_cases() {
        let quick = Filter {
            quick: true,
            ..filter()
        };
        let found = cases(&quick).unwrap();
        assert!(found.iter().any(Case::in_memory));
        assert!(found.iter().all(|case| case.place == ResultPlace::Out));
        // XTS in both directions, CTR, and ECB in both directions; AES-128 only in the cache.
        assert_eq!(found.len(), 2 * (4 + 2) + 2 + 4);
        assert_eq!(xts(&found), [(512, 65536), (4096, 65536)]);
        let asked = Filter {
            key_sizes: vec![KeySize::Aes128],
            ..quick.clone()
        };
        let lengths = [
            (512, 65536),
            (4096, 65536),
            (512, 256 << 20),
            (4096, 256 << 20),
        ];
        assert_eq!(xts(&cases(&asked).unwrap()), lengths);
        let asked = Filter {
            units: vec![16],
            calls: vec![4096],
            places: vec![ResultPlace::In],
            ..quick
        };
        let found = cases(&asked).unwrap();
        assert_eq!(found.len(), 4);
        assert!(
            found
                .iter()
                .all(|case| (case.unit, case.call) == (16, 4096))
        );
    }
}
