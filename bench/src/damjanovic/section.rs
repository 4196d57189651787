// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the result of `damjanovic-simic-2015`, with the paper's numbers.

use luxor_engine::{Construction, KeySize, TweakSchedule};

use super::{
    ARRAYS, Array, Engine, FILE, FormTimes, Report,
    lane::{Form, Way},
    published::{self, Published},
    tables,
};
use crate::{
    plot::{Bar, Line, Plot, Whose},
    rivals,
    section::{Paper, Row, Section, Table, cell},
    size,
    stats::Summary,
};

const PAPER: Paper = Paper {
    name: "Damjanović and Simić, 2015",
    question: "Are two chains of AES-128 faster than one of AES-256 in OFB mode?",
    reference: "Boris Damjanović and Dejan Simić (University of Belgrade): Tweakable parallel OFB mode \
        of operation with delayed thread synchronization. Security and Communication Networks, 2015.",
    claim: "Two chains of AES-128, each in its own thread, are faster than serial AES-256-OFB if \
        input arrays are long: up to 1.10 times (XEX) and 1.19 times (XE). On one of the two CPUs XEX \
        is always slower.",
    rebuilt: "The modes in both forms, in the paper's way and with both chains side by side on one \
        thread, compared with serial OFB, one chain alone and CTR: with each of Luxor's engines, and \
        with AES by tables; and independent streams side by side.",
};

/// The paper's forms, with its tables of each.
const FORMS: [(Construction, &str, &[Published; 2]); 2] = [
    (Construction::Xex, "XEX", &published::XEX),
    (Construction::Xe, "XE", &published::XE),
];

/// The speed-up of AES-128 over AES-256 in a chain of blocks, which wait for each other.
const POSSIBLE: f64 = 14.0 / 10.0;

impl Report {
    pub(super) fn section(&self) -> Section {
        let first = self.engines.first();
        let beside = FORMS.map(|(construction, name, printed)| {
            let engines = self.engines.iter();
            let ours = engines.flat_map(|engine| engine.rows_of(construction));
            beside(name, printed, ours, &self.measured())
        });
        let ratios = self.engines.iter().map(Engine::table_of_ratios);
        let smaller = self.engines.iter().filter_map(|engine| {
            let mb = engine.bytes as f64 / 1e6;
            (engine.bytes != self.file_bytes)
                .then(|| format!("{}: measured with {mb:.3} MB, and scaled.", engine.engine))
        });
        let section = Section {
            title: "Parallel tweakable OFB".to_owned(),
            paper: Some(PAPER),
            about: format!(
                "Milliseconds for {} MB (10^6 bytes), from memory to memory, by the length of the \
                 input array: medians of {} rounds, and half the distance between the quartiles. \
                 Everything runs on one thread, except \"a thread each\", merged array by array, \
                 and 2x 256 CTR, with an independent thread for each half of the message. \"tables\" \
                 is AES by T-tables without AES instructions. The paper uses none either, and does \
                 not say how it computes a round. \
                 Speed-ups and % are relative to 1x 256 OFB in the same round. Tweaks are \
                 multiplied by alpha for each block; \"printed\" uses alpha^i, as in the paper's \
                 listings.",
                self.file_bytes as f64 / 1e6,
                self.rounds
            ),
            conclusion: self.conclusion(),
            consequence: self.consequence(),
            headline: self.headline(),
            plots: first
                .into_iter()
                .chain(self.tables())
                .flat_map(Engine::plots)
                .collect(),
            tables: beside
                .into_iter()
                .chain(ratios)
                .chain([self.streams()])
                .collect(),
            notes: smaller.collect(),
            absent: rivals::absent(self.has_rivals()).into_iter().collect(),
            ..Section::default()
        };
        section.without_empty_tables()
    }

    fn has_rivals(&self) -> bool {
        self.engines.iter().any(|engine| {
            let mut rows = engine.arrays.iter().flat_map(|array| &array.rows);
            rows.any(|row| row.contestant != engine.engine)
        })
    }

    /// Returns the results of AES by tables, which older results do not have.
    fn tables(&self) -> Option<&Engine> {
        let mut engines = self.engines.iter();
        engines.find(|engine| engine.engine == tables::NAME)
    }

    /// Returns the indices of the paper's lengths that were measured, or all of them if none was.
    fn measured(&self) -> Vec<usize> {
        let arrays = || self.engines.iter().flat_map(|engine| &engine.arrays);
        let is = |&at: &usize| arrays().any(|array| array.array_bytes == ARRAYS[at]);
        let found: Vec<usize> = (0..ARRAYS.len()).filter(is).collect();
        if found.is_empty() {
            return (0..ARRAYS.len()).collect();
        }
        found
    }

    fn conclusion(&self) -> Option<String> {
        let engine = self.engines.first()?;
        let array = engine.longest()?;
        let together = array.times(Construction::Xex, Way::Together)?;
        let mut text = format!(
            "With {} and the longest arrays, both chains of XEX on one thread have {together:.2} times \
             the speed of serial AES-256-OFB, of {POSSIBLE:.2} possible (14 rounds against 10)",
            engine.engine
        );
        if let Some(apart) = array.times(Construction::Xex, Way::Apart) {
            text += &format!(". With a thread each they have {apart:.2} times");
            if let Some([xex, xe]) = self.tables().and_then(Engine::best_apart) {
                text += &format!(", and with AES by tables up to {xex:.2} (XEX) and {xe:.2} (XE)");
            }
        }
        Some(
            text + "; the paper's best, with a thread each, is 1.10 times for XEX and 1.19 for XE.",
        )
    }

    /// Says what follows from the times with AES instructions and by tables. `None` without both, and if
    /// one thread for both chains is not the fastest way.
    fn consequence(&self) -> Option<String> {
        let (fast, tables) = (self.engines.first()?, self.tables()?);
        if matches!(fast.engine, "portable" | tables::NAME) {
            return None;
        }
        let bytes = fast.shortest()?.array_bytes;
        let one = Form::One(Construction::Xex, KeySize::Aes128);
        let two = Form::Two(Construction::Xex, TweakSchedule::Alpha);
        let by_tables = tables.us_of_array(bytes, one, Way::Serial)?;
        let chain = fast.us_of_array(bytes, one, Way::Serial)?;
        let apart = fast.us_of_array(bytes, two, Way::Apart)?;
        let [best, tables_best] = [fast.best_apart()?, tables.best_apart()?];
        let together = fast.longest()?.times(Construction::Xex, Way::Together)?;
        if together <= best[0].max(1.0) {
            return None;
        }
        let gains = tables_best.iter().filter(|&&times| times > 1.0).count();
        let (price, gain) = match gains {
            2 => (
                "By tables the price is small beside the chain:",
                "so the paper's gain appears here too",
            ),
            1 => ("By tables", "so the paper's gain appears here in part"),
            _ => ("By tables", "so the paper's gain does not appear here"),
        };
        Some(format!(
            "For today's CPUs: one chain takes {by_tables:.0} us by tables for the key stream of an \
             array of {bytes} bytes, and {chain:.1} us with {}. Beside two chains on one thread, that is all \
             that a second thread can save in an array, and it has a price: one thread tells the other of the array, waits \
             for it, and reads its key stream from the other core. {price} two threads reach {:.2} (XEX) and {:.2} (XE) times the speed of serial \
             AES-256-OFB, {gain}. With AES instructions an array takes {apart:.1} us with a thread \
             each, {:.1} times as long as one chain alone, and the best of all arrays is {:.2} and \
             {:.2}. But an AES instruction has a latency, and a single chain leaves the AES unit idle for \
             most of it. The second chain fits into that time on the same thread. It then needs no \
             second core, no hand-over and no late merge, and both chains have {together:.2} times the \
             speed of serial AES-256-OFB, of {POSSIBLE:.2} possible. So on a CPU with AES \
             instructions both chains belong on one thread, and other threads serve other messages.",
            fast.engine,
            tables_best[0],
            tables_best[1],
            apart / chain,
            best[0],
            best[1],
        ))
    }

    /// Plots the speed-ups for the longest array, with AES by tables too, and the paper's best.
    fn headline(&self) -> Option<Plot> {
        let engine = self.engines.first()?;
        let array = engine.longest()?.array_bytes;
        let bars = |engine: &Engine, ways: &[Way], suffix: &str| {
            let longest = engine.of_paper().into_iter();
            let longest = longest.max_by_key(|array| array.array_bytes);
            let rows = FORMS.iter().flat_map(|(construction, ..)| {
                let rows = ways.iter().map(|&way| longest?.of(*construction, way));
                rows.collect::<Vec<_>>()
            });
            let bar = |row: &FormTimes| {
                let name = format!("{}{suffix}", engine.name_of(row));
                Some(Bar::new(name, engine.whose(row), row.of_ofb?.median))
            };
            rows.flatten().filter_map(bar).collect::<Vec<_>>()
        };
        let ours = bars(engine, &[Way::Together, Way::Apart], "");
        let tables = self
            .tables()
            .map(|tables| bars(tables, &[Way::Apart], ", by tables"));
        let best = FORMS.iter().filter_map(|(_, name, [table, _])| {
            let (_, figures) = table.rows().nth(2)?;
            let figures = figures.into_iter().filter_map(|figure| figure.parse().ok());
            let name = format!("the paper's best 2x 128 {name}");
            Some(Bar::new(name, Whose::Paper, figures.fold(0.0, f64::max)))
        });
        let serial = Bar::new("1x 256 OFB", Whose::Rival, 1.0);
        let bars = std::iter::once(serial).chain(ours);
        let bars = bars.chain(tables.into_iter().flatten()).chain(best);
        let caption = format!(
            "{}: speed-up over serial OFB, arrays of {array} bytes",
            engine.engine
        );
        Some(Plot::bars(caption, "times", bars))
    }

    /// Returns the table of streams, with a column for each engine.
    fn streams(&self) -> Table {
        let with_streams = || {
            let engines = self.engines.iter();
            engines.filter(|engine| !engine.streams.is_empty())
        };
        let engines = with_streams().map(|engine| engine.engine);
        let turn = self.engines.first().map_or(0, |engine| engine.turn_bytes);
        let rows = self.engines.iter().take(1).flat_map(|first| &first.streams);
        let rows = rows.map(|row| {
            let cells = with_streams().map(|engine| {
                let mut all = engine.streams.iter();
                let found =
                    all.find(|other| (other.form, other.streams) == (row.form, row.streams));
                cell(found, |found| {
                    format!("{}, {}", found.gb_per_s.text(2), found.of_one.text(2))
                })
            });
            let name = format!("{} of {}", row.streams, row.form.name());
            Row::new(Whose::Luxor, name, cells)
        });
        let caption = format!(
            "Independent streams side by side on one thread, {} a turn each, over themselves: GB/s, \
             and times one stream of their form",
            size::text(turn)
        );
        Table::new(caption, "Streams", engines, rows)
    }
}

/// Returns the table of one form: our rows for the lengths at these indices, then the paper's.
fn beside(
    name: &str,
    printed: &[Published; 2],
    ours: impl Iterator<Item = Row>,
    places: &[usize],
) -> Table {
    let printed_rows = printed.iter().flat_map(|table| {
        table.rows().map(|(what, figures)| {
            let cells = places.iter().map(|&place| figures[place]);
            Row::new(Whose::Paper, format!("Table {}: {what}", table.name), cells)
        })
    });
    let machines = printed.iter();
    let machines = machines.map(|table| format!("{} is from an {}", table.name, table.machine));
    let caption = format!(
        "{name}: milliseconds for 128 MB by the length of the input array; {}",
        machines.collect::<Vec<_>>().join(", ")
    );
    let heads = places.iter().map(|&place| format!("{} B", ARRAYS[place]));
    Table::new(caption, "Mode", heads, ours.chain(printed_rows))
}

impl Engine {
    /// Returns the arrays of the paper's lengths, which all have the same rows.
    fn of_paper(&self) -> Vec<&Array> {
        let is = |array: &&Array| ARRAYS.contains(&array.array_bytes);
        self.arrays.iter().filter(is).collect()
    }

    /// Returns the rows of the first of them, with their indices.
    fn first_rows(&self) -> impl Iterator<Item = (usize, &FormTimes)> {
        let first = self.of_paper().into_iter().take(1);
        first.flat_map(|array| array.rows.iter().enumerate())
    }

    fn longest(&self) -> Option<&Array> {
        self.arrays.iter().max_by_key(|array| array.array_bytes)
    }

    /// Returns the shortest of the paper's arrays.
    fn shortest(&self) -> Option<&Array> {
        let arrays = self.of_paper().into_iter();
        arrays.min_by_key(|array| array.array_bytes)
    }

    /// Returns the best speed-ups of XEX and XE with a thread each.
    fn best_apart(&self) -> Option<[f64; 2]> {
        let best = |construction| {
            let arrays = self.of_paper().into_iter();
            let times = arrays.filter_map(|array| array.times(construction, Way::Apart));
            times.reduce(f64::max)
        };
        Some([best(Construction::Xex)?, best(Construction::Xe)?])
    }

    /// Returns the time for an array of this length in microseconds.
    fn us_of_array(&self, array_bytes: usize, form: Form, way: Way) -> Option<f64> {
        let mut arrays = self.arrays.iter();
        let array = arrays.find(|array| array.array_bytes == array_bytes)?;
        let mut rows = array.rows.iter();
        let row = rows.find(|row| row.form == form && row.way == way)?;
        Some(row.milliseconds.median * 1e3 * array_bytes as f64 / FILE as f64)
    }

    /// Returns no plots if there are fewer than two lengths.
    fn plots(&self) -> Vec<Plot> {
        let mut arrays = self.of_paper();
        arrays.sort_by_key(|array| array.array_bytes);
        if arrays.len() < 2 {
            return Vec::new();
        }
        let line = |at: usize, of: &dyn Fn(&FormTimes) -> Option<f64>| -> Vec<(f64, f64)> {
            let points = arrays.iter().filter_map(|array| {
                let row = array.rows.get(at)?;
                Some((array.array_bytes as f64, of(row)?))
            });
            points.collect()
        };
        let own = || {
            let all = self.first_rows();
            all.filter(|(_, row)| row.contestant == self.engine && row.way != Way::Auto)
        };
        let two = |row: &FormTimes| matches!(row.form, Form::Two(_, TweakSchedule::Alpha));
        let times = own().filter(|(_, row)| {
            row.form == Form::Ofb
                || row.form == Form::Two(Construction::Xex, TweakSchedule::Alpha)
                || row.form == Form::Ctr
        });
        let times = times.map(|(at, row)| Line {
            name: self.name_of(row),
            whose: Whose::of(!two(row)),
            points: line(at, &|row| Some(row.milliseconds.median)),
        });
        let ratios = own().filter(|(_, row)| two(row)).map(|(at, row)| Line {
            name: self.name_of(row),
            whose: Whose::Luxor,
            points: line(at, &|row| Some(row.of_ofb.as_ref()?.median)),
        });
        let printed = FORMS.into_iter().filter_map(|(_, name, tables)| {
            let table = tables.first()?;
            let (_, figures) = table.rows().nth(2)?;
            let points = arrays.iter().filter_map(|array| {
                let bytes = array.array_bytes;
                let place = ARRAYS.iter().position(|&other| other == bytes)?;
                Some((bytes as f64, figures[place].parse().ok()?))
            });
            Some(Line {
                name: format!("the paper's 2x 128 {name}, Table {}", table.name),
                whose: Whose::Paper,
                points: points.collect(),
            })
        });
        let across = "bytes of the input array";
        let plots: [(_, _, Vec<Line>); 2] = [
            ("milliseconds for 128 MB", "ms", times.collect()),
            (
                "speed-up over serial OFB",
                "times",
                ratios.chain(printed).collect(),
            ),
        ];
        plots
            .into_iter()
            .map(|(what, up, mut lines)| {
                lines.retain(|line| line.points.len() > 1);
                let caption = format!("{}: {what}", self.engine);
                Plot::lines(caption, [across, up], lines)
            })
            .collect()
    }

    /// Returns the milliseconds for the paper's lengths, and for two chains the speed-up.
    fn rows_of(&self, construction: Construction) -> Vec<Row> {
        let arrays = self.of_paper();
        let mut rows = Vec::new();
        for (at, row) in self.first_rows() {
            if !row.form.is_of(construction) {
                continue;
            }
            let name = format!("{}: {}", self.engine, self.name_of(row));
            let whose = self.whose(row);
            let mut add = |name: String, text: &dyn Fn(&FormTimes) -> String| {
                let cells = arrays.iter().map(|array| cell(array.rows.get(at), text));
                rows.push(Row::new(whose, name, cells));
            };
            add(name.clone(), &|row| spread(&row.milliseconds));
            if let (Form::Two(..), Some(_)) = (row.form, row.of_ofb) {
                add(format!("{name}, speed-up"), &|row| {
                    cell(row.of_ofb, |times| format!("{:.3}", times.median))
                });
                add(format!("{name}, %"), &|row| {
                    cell(row.of_ofb, |times| {
                        format!("{:.2}", times.median * 100.0 - 100.0)
                    })
                });
            }
        }
        rows
    }

    /// AES by tables is a baseline, as the rivals are.
    fn whose(&self, row: &FormTimes) -> Whose {
        Whose::of(row.contestant != self.engine || self.engine == tables::NAME)
    }

    fn name_of(&self, row: &FormTimes) -> String {
        let name = row.form.name();
        match row.way {
            _ if row.contestant != self.engine => format!("{name}, {}", row.contestant),
            Way::Serial | Way::Halves => name.to_owned(),
            Way::Apart => format!("{name}, a thread each"),
            Way::Together => format!("{name}, one thread"),
            Way::Auto => format!("{name}, auto"),
        }
    }

    /// Returns the ratios of two chains on one thread to one chain, the engine's and the rivals',
    /// for arrays of all lengths.
    fn table_of_ratios(&self) -> Table {
        let rivals = self.arrays.iter().take(1).flat_map(|array| &array.rows);
        let rivals: Vec<&String> = rivals.take(1).flat_map(|row| row.of_rival.keys()).collect();
        let whose = || std::iter::once(None).chain(rivals.iter().copied().map(Some));
        let heads = whose().flat_map(|rival| {
            let whose = rival.map_or("its own", String::as_str);
            FORMS.map(|(_, name, _)| format!("{name}, {whose}"))
        });
        let rows = self.arrays.iter().map(|array| {
            let cells = whose().flat_map(|rival| {
                FORMS.map(|(construction, ..)| {
                    let row = array.of(construction, Way::Together);
                    let times = row.and_then(|row| match rival {
                        None => row.of_ofb,
                        Some(rival) => row.of_rival.get(rival).copied(),
                    });
                    cell(times, |times| times.text(3))
                })
            });
            Row::new(Whose::Luxor, format!("{} B", array.array_bytes), cells)
        });
        let caption = format!(
            "{}: the speed of 2x 128 on one thread over serial AES-256-OFB, in the same round, and the \
             quartiles",
            self.engine
        );
        Table::new(caption, "Input array", heads, rows)
    }
}

impl Array {
    /// Returns the row of two chains in this way.
    fn of(&self, construction: Construction, way: Way) -> Option<&FormTimes> {
        let form = Form::Two(construction, TweakSchedule::Alpha);
        let mut rows = self.rows.iter();
        rows.find(|row| row.form == form && row.way == way)
    }

    /// Returns its speed-up over serial AES-256-OFB.
    fn times(&self, construction: Construction, way: Way) -> Option<f64> {
        Some(self.of(construction, way)?.of_ofb?.median)
    }
}

/// Formats the median and half the distance between the quartiles.
fn spread(summary: &Summary) -> String {
    let digits = usize::from(summary.median < 1000.0);
    let half = (summary.upper - summary.lower) / 2.0;
    format!("{:.digits$} +-{half:.digits$}", summary.median)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::damjanovic::{Plan, measure};

    fn section(arrays: &[usize]) -> Section {
        let plan = Plan {
            bytes: Some(16_000),
            arrays: arrays.to_vec(),
            quick: true,
            engine: Some("portable".to_owned()),
            rivals: &[],
        };
        let section = measure(&plan).unwrap().section();
        section.assert_whole();
        section
    }

    #[test]
    fn the_section_has_the_papers_rows_beside_and_streams() {
        let section = section(&[16_000, 8000, 64]);
        let [times, speed_ups, _, by_tables] = section.plots.as_slice() else {
            panic!("{} plots", section.plots.len())
        };
        assert!(
            by_tables
                .description()
                .contains("2x 128 XE, a thread each: ")
        );
        let headline = section.headline.as_ref().unwrap().description();
        assert!(headline.contains("2x 128 XEX, a thread each, by tables"));
        assert!(times.description().contains("2x 128 XEX, a thread each: "));
        assert!(
            speed_ups
                .description()
                .contains("Table B3: 0.95 at 8000, 1.04 at 16000")
        );
        let [xex, xe, ratios, of_tables, streams] = section.tables.as_slice() else {
            panic!("{} tables", section.tables.len())
        };
        assert_eq!(xex.columns, ["Mode", "16000 B", "8000 B"]);
        let row = |table: &Table, name: &str| {
            let row = table.rows.iter().find(|row| row.cells[0] == name);
            row.unwrap().cells[1..].to_vec()
        };
        assert_eq!(row(xex, "Table B1: 2x 128 XEX"), ["3250.0", "4715.2"]);
        assert_eq!(row(xe, "Table B4: speed-up"), ["0.961", "0.856"]);
        assert_eq!(
            row(xex, "portable: 2x 128 XEX, one thread, speed-up").len(),
            2
        );
        let speed_up = "tables: 2x 128 XEX, a thread each, speed-up";
        assert_eq!(row(xex, speed_up).len(), 2);
        assert_eq!((ratios.rows.len(), of_tables.rows.len()), (3, 3));
        assert_eq!(streams.columns, ["Streams", "portable"]);
        assert_eq!(streams.rows.len(), 8);
    }

    #[test]
    fn without_the_papers_arrays_its_tables_are_whole() {
        let section = section(&[64]);
        assert!(section.plots.is_empty());
        assert_eq!(section.tables[0].columns.len(), 8);
        assert_eq!(section.tables[0].rows.len(), 14);
    }

    /// A report with one array. Each engine has its milliseconds for one chain, and its speed-ups
    /// with a thread each and on one thread.
    fn report(engines: &[(&'static str, f64, f64, f64)]) -> Report {
        let row = |form, way, ms: f64, times: f64| FormTimes {
            contestant: String::new(),
            form,
            way,
            milliseconds: Summary::of(vec![ms]).unwrap(),
            of_ofb: Summary::of(vec![times]),
            of_rival: BTreeMap::new(),
        };
        let engine = |&(engine, ms, apart, together): &(&'static str, f64, f64, f64)| {
            let forms = FORMS.into_iter().flat_map(|(construction, ..)| {
                let two = Form::Two(construction, TweakSchedule::Alpha);
                [
                    row(two, Way::Apart, 2.0 * ms, apart),
                    row(two, Way::Together, ms, together),
                    row(
                        Form::One(construction, KeySize::Aes128),
                        Way::Serial,
                        ms,
                        1.0,
                    ),
                ]
            });
            let array = Array {
                array_bytes: 8000,
                rows: forms.collect(),
            };
            Engine {
                engine,
                bytes: FILE,
                arrays: vec![array],
                turn_bytes: 1,
                streams: Vec::new(),
            }
        };
        Report {
            file_bytes: FILE,
            rounds: 1,
            engines: engines.iter().map(engine).collect(),
        }
    }

    #[test]
    fn the_consequence_is_drawn_from_the_numbers() {
        let tables = ("tables", 640.0, 1.25, 0.8);
        let section = report(&[("vaes512", 160.0, 0.75, 1.39), tables]).section();
        let text = section.consequence.unwrap();
        for said in [
            "takes 40 us by tables",
            "and 10.0 us with vaes512",
            "reach 1.25 (XEX) and 1.25 (XE) times",
            "the paper's gain appears here too",
            "takes 20.0 us with a thread each, 2.0 times as long",
            "is 0.75 and 0.75.",
            "have 1.39 times the speed of serial AES-256-OFB, of 1.40 possible",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
        let conclusion = section.conclusion.unwrap();
        assert!(conclusion.contains("1.39 times"), "{conclusion}");
        assert!(
            conclusion.contains("up to 1.25 (XEX) and 1.25 (XE)"),
            "{conclusion}"
        );

        let slow = ("tables", 640.0, 0.97, 0.8);
        let section = report(&[("vaes512", 160.0, 0.75, 1.39), slow]).section();
        assert!(
            section
                .consequence
                .unwrap()
                .contains("does not appear here")
        );
        for engines in [
            &[("portable", 160.0, 0.75, 1.39), tables][..],
            &[("vaes512", 1.0, 1.0, 1.0)],
        ] {
            assert!(report(engines).section().consequence.is_none());
        }
    }
}
