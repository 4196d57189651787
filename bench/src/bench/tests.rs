// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every text with a measured number says if its rounds disagree, and every caption if the measurement
//! was disturbed.

use std::{fs, path::Path};

use super::*;
use crate::{
    benches,
    section::{Table, Verdict},
    stats::UNSTEADY,
    summary,
};

/// The examples, and the record of a GPU.
fn examples() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples");
    let files = fs::read_dir(folder).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let files = files.filter(|file| {
        let name = file.file_name().unwrap().to_string_lossy();
        name.starts_with("bench")
    });
    let texts = files.map(|file| fs::read_to_string(file).unwrap());
    let mut all: Vec<Value> = texts
        .map(|text| serde_json::from_str(&text).unwrap())
        .collect();
    assert!(all.len() > 5);
    all.push(Value::Object(committed::h200().clone()));
    all
}

/// Replaces the quartiles of all summaries by what `change` makes of the median and the summary's
/// number.
fn change(json: &mut Value, change_one: &mut impl FnMut(f64) -> [f64; 3]) {
    match json {
        Value::Array(all) => all.iter_mut().for_each(|one| change(one, change_one)),
        Value::Object(all) => {
            if let (3, Some(median)) = (all.len(), all.get("median").and_then(Value::as_f64)) {
                let numbers = change_one(median);
                for (name, number) in ["median", "lower", "upper"].into_iter().zip(numbers) {
                    all.insert(name.to_owned(), number.into());
                }
            } else {
                all.values_mut().for_each(|one| change(one, change_one));
            }
        }
        _ => {}
    }
}

/// Returns the bench's section of a result that was changed.
fn section(
    bench: &Entry,
    result: &Value,
    change_one: &mut impl FnMut(f64) -> [f64; 3],
) -> Option<Section> {
    let mut result = result.clone();
    result.get_mut(bench.key())?;
    change(&mut result, change_one);
    let all: &'static Value = Box::leak(Box::new(result));
    Some(bench.parsed(all.as_object().unwrap()).unwrap()?.section)
}

/// Returns all texts with numbers, each with its place.
fn texts(name: &'static str, section: &Section) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let words = [
        ("conclusion", &section.conclusion),
        ("on a GPU", &section.on_gpu),
        ("brief", &section.brief),
        ("consequence", &section.consequence),
    ];
    let words = words.into_iter();
    all.extend(words.filter_map(|(place, text)| Some((place.to_owned(), text.clone()?))));
    let notes = section.notes.iter();
    all.extend(notes.map(|note| ("note".to_owned(), note.clone())));
    let verdicts = Verdict::table(section.verdicts.iter().map(|verdict| (name, verdict)));
    let tables = section.tables.iter().chain(&section.details);
    let of_table = |table: &Table| {
        let rows = table.rows.iter().flat_map(|row| {
            let place = format!("{}, {}", table.caption, row.cells[0]);
            let cells = row.cells.iter().cloned();
            cells.map(move |cell| (place.clone(), cell))
        });
        rows.collect::<Vec<_>>()
    };
    let tables = tables.chain(&section.digest).chain([&verdicts]);
    all.extend(tables.flat_map(of_table));
    for plot in section.plots.iter().chain(&section.headline) {
        // A number with its name, or a point of a line.
        let said = plot.description();
        let parts = said.split([';', ',']).map(str::to_owned);
        all.extend(parts.map(|part| (plot.caption.clone(), part)));
        plot.svg().unwrap();
    }
    all
}

/// The quartiles of rounds that disagree.
fn disagreeing(median: f64) -> [f64; 3] {
    [median, median / 2.0, median * 2.0]
}

#[test]
fn every_measured_number_says_if_it_is_unsteady() {
    let (mut marked, mut missing) = (0, Vec::new());
    for result in examples() {
        for bench in benches::ALL {
            let name = bench.name;
            let Some(steady) = section(bench, &result, &mut |median| [median; 3]) else {
                continue;
            };
            let unsteady = section(bench, &result, &mut disagreeing).unwrap();
            // Whatever changes with the medians is measured.
            let mut number = 0;
            let mut other = |median| {
                number += 1;
                [median * (1.0 + 0.003 * f64::from(number % 17 + 1)); 3]
            };
            let other = section(bench, &result, &mut other).unwrap();
            let [steady, unsteady, other] =
                [&steady, &unsteady, &other].map(|section| texts(name, section));
            assert_eq!([unsteady.len(), other.len()], [steady.len(); 2], "{name}");
            for (((place, steady), (_, unsteady)), (_, other)) in
                steady.iter().zip(&unsteady).zip(&other)
            {
                assert!(!steady.contains(UNSTEADY), "{name}, {place}: {steady}");
                let marks = unsteady.matches(UNSTEADY).count();
                let measured = measured(place, steady, other);
                if marks < measured {
                    missing.push(format!(
                        "{name}, {place}: {marks} of {measured}: {unsteady}"
                    ));
                }
                marked += marks;
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(marked > 1000, "{marked}");
}

/// Returns how many marks a text needs that changes with the medians. A cell needs one for all its
/// numbers.
fn measured(place: &str, one: &str, other: &str) -> usize {
    if one == other {
        return 0;
    }
    let is_sentence = ["conclusion", "on a GPU", "brief", "consequence", "note"].contains(&place);
    let words = one.split_whitespace().zip(other.split_whitespace());
    // Other words may name another contestant.
    let numbers = words
        .filter(|(one, other)| one != other && one.trim_end_matches(['.', ',', ';']).contains('.'));
    if is_sentence {
        numbers.count().max(1)
    } else {
        1
    }
}

#[test]
fn sentences_on_cards_stay_short_when_all_is_unsteady_and_disturbed() {
    for result in examples() {
        for bench in benches::ALL {
            let Some(section) = section(bench, &result, &mut disagreeing) else {
                continue;
            };
            let is_card = section.paper.is_some();
            let Some(answer) = section.disturbed(&disturbed().text()).answer() else {
                continue;
            };
            for sentence in answer.split(". ") {
                let count = sentence.split_whitespace().count();
                assert!(
                    count <= 25 || !is_card,
                    "{}: {count} words: {sentence}",
                    bench.name
                );
            }
        }
    }
}

fn disturbed() -> Disturbance {
    Disturbance {
        stolen: 0.1,
        others: 0.3,
    }
}

#[test]
fn what_is_disturbed_says_so_wherever_a_number_is_shown() {
    for result in examples() {
        for bench in benches::ALL {
            let mut result = result.clone();
            let Some(json) = result.get_mut(bench.key()) else {
                continue;
            };
            json[DISTURBANCE] = serde_json::to_value(disturbed()).unwrap();
            let all: &'static Value = Box::leak(Box::new(result));
            let section = bench
                .parsed(all.as_object().unwrap())
                .unwrap()
                .unwrap()
                .section;
            let tables = section.tables.iter().chain(&section.details);
            let captions = tables.chain(&section.digest).map(|table| &table.caption);
            let plots = section.plots.iter().chain(&section.headline);
            let captions = captions.chain(plots.map(|plot| &plot.caption));
            let verdicts = section.verdicts.iter().map(|verdict| &verdict.luxor);
            let said = captions.chain(verdicts).chain(&section.brief);
            for text in said {
                assert_eq!(
                    text.ends_with(" (disturbed)"),
                    bench.is_timed,
                    "{}: {text}",
                    bench.name
                );
            }
            let conclusion = section.conclusion.clone().unwrap_or_default();
            let how = "Disturbed: other programs used 30 % and the host took 10 % of the CPU time \
                       meanwhile. ";
            assert_eq!(
                conclusion.starts_with(how),
                bench.is_timed && !conclusion.is_empty()
            );
            let sections = [(bench.name, section)];
            let papers = summary::of_papers(&sections);
            let lines = summary::lines(&sections);
            let mut said = papers
                .iter()
                .map(|paper| &paper.text)
                .chain(lines.iter().map(|line| &line.1));
            if bench.is_timed {
                assert!(
                    said.all(|text| text.contains("disturbed")),
                    "{}",
                    bench.name
                );
            }
        }
    }
}
