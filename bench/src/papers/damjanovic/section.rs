// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the result of `damjanovic-simic-2015`, with the paper's numbers.

use luxor_engine::{Construction, KeySize, TweakSchedule};

use super::{
    ARRAYS, Array, Engine, FILE, FormTimes, Report,
    lane::{Division, Form},
    published::{self, Published},
    tables,
};
use crate::{
    plot::{self, Bar, Line, Plot, Whose},
    rivals,
    section::{Paper, Row, Section, Table, Verdict, cell},
    size,
    stats::{Summary, is_beyond},
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

/// The length of the input array at which both forms are the fastest in the paper.
const BEST: usize = 64_000;

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
        let digest: Vec<_> = ratios.chain([self.streams()]).collect();
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
                 and 2x 256 CTR, with an independent thread for each half of the message. The \
                 paper's program hands the chains of each array to threads of Java's \
                 newCachedThreadPool and waits until both have ended; it starts and stops the one \
                 thread of serial OFB in the same way, and its CTR encrypts two parts of the file at \
                 a time. Here the second thread stays from array to array, and a thread that waits \
                 polls and yields its core (an engine's thread sleeps after a while). \"tables\" \
                 is AES by T-tables without AES instructions. The paper uses none either, and does \
                 not say how it computes a round. \
                 Speed-ups and % are relative to 1x 256 OFB in the same round. Tweaks are \
                 multiplied by alpha for each block; \"printed\" uses alpha^i, as in the paper's \
                 listings.",
                self.file_bytes as f64 / 1e6,
                self.rounds
            ),
            conclusion: self.conclusion(),
            verdicts: self.verdicts(),
            consequence: self.consequence(),
            headline: self.headline(),
            plots: first
                .into_iter()
                .chain(self.tables())
                .flat_map(Engine::plots)
                .collect(),
            tables: beside.into_iter().chain(digest.iter().cloned()).collect(),
            digest,
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
        let array = engine.compared()?;
        let bytes = array.array_bytes;
        let row = array.row(Construction::Xex, Division::Together)?;
        let mut text = format!(
            "With {} and arrays of {bytes} bytes, both chains of XEX on one thread reach {} Gbps.",
            engine.engine,
            plot::value(
                row.milliseconds
                    .inverse()
                    .scaled(self.file_bytes as f64 * 8e-6)
            ),
        );
        let times = row.of_ofb?;
        text += &if is_beyond(times.median, POSSIBLE) {
            format!(
                " They seem more than {POSSIBLE:.2} times as fast as serial AES-256-OFB, so the machine \
                 was disturbed."
            )
        } else {
            format!(
                " They have {times:.2} times the speed of serial AES-256-OFB, of {POSSIBLE:.2} possible \
                 (14 rounds against 10)."
            )
        };
        if let Some([xex, xe]) = array.apart() {
            text += &format!(" With a thread each, XEX has {xex:.2} times and XE {xe:.2}.");
            let tables = self.tables().and_then(|tables| tables.array(bytes));
            if let Some([xex, xe]) = tables.and_then(Array::apart) {
                text += &format!(
                    " With AES by tables, as in the paper, these are {xex:.2} and {xe:.2}."
                );
            }
        }
        if let Some(place) = place(bytes) {
            let [(.., xex), (.., xe)] = FORMS;
            let printed = xex.iter().zip(xe).filter_map(|(xex, xe)| {
                let machine = xex.machine.split(',').next()?;
                let (times, of_xe) = (xex.speed_up(place)?, xe.speed_up(place)?);
                Some(format!("{times} and {of_xe} on an {machine}"))
            });
            let printed: Vec<_> = printed.collect();
            text += &format!(" The paper has {}.", printed.join(", "));
        }
        Some(text)
    }

    /// Compares both ways with the paper's speed-ups; empty without one of its arrays.
    fn verdicts(&self) -> Vec<Verdict> {
        let Some(engine) = self.engines.first() else {
            return Vec::new();
        };
        let Some((array, place)) = engine
            .compared()
            .and_then(|array| Some((array, place(array.array_bytes)?)))
        else {
            return Vec::new();
        };
        let bytes = array.array_bytes;
        let tables = self.tables().and_then(|tables| tables.array(bytes));
        let ways = [
            (Division::Together, "both chains on one thread"),
            (Division::Apart, "a thread each"),
        ];
        let verdicts = FORMS.iter().flat_map(|&(construction, name, printed)| {
            ways.into_iter().filter_map(move |(way, what)| {
                let number = |text: &str| text.parse().unwrap_or(f64::NAN);
                let speed_ups = printed.iter().filter_map(|table| table.speed_up(place));
                let best = speed_ups.max_by(|a, b| f64::total_cmp(&number(a), &number(b)))?;
                let rebuilt = tables.and_then(|array| array.times(construction, Division::Apart));
                let ours = array.times(construction, way)?;
                let times = ours / rebuilt.unwrap_or(number(best).into());
                let why = "with AES instructions an array takes less time than handing it to another \
                           thread";
                Some(Verdict {
                    figure: format!("{name} over serial OFB, arrays of {bytes} B, {what}"),
                    printed: best.to_owned(),
                    rebuilt: rebuilt.map(|times| format!("{times:.2}, by tables")),
                    luxor: format!("{ours:.2}, {}", engine.engine),
                    times,
                    why: (times.median < 1.0).then(|| why.to_owned()),
                    record: None,
                })
            })
        });
        verdicts.collect()
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
        let us = |engine: &Engine| {
            let chain = engine.us_of_array(bytes, one, Division::Serial)?;
            Some([chain, engine.us_of_array(bytes, two, Division::Apart)?])
        };
        let ([chain, apart], [tables_chain, tables_apart]) = (us(fast)?, us(tables)?);
        let on_one = fast.us_of_array(bytes, two, Division::Together)?;
        let [best, tables_best] = [fast.best_apart()?, tables.best_apart()?];
        let together = fast
            .compared()?
            .times(Construction::Xex, Division::Together)?;
        let bound = best[0].median.max(1.0);
        if together.median <= bound || is_beyond(together.median, POSSIBLE) {
            return None;
        }
        let gain = match tables_best
            .iter()
            .filter(|times| times.median > 1.0)
            .count()
        {
            2 => "so the paper's gain appears in this run too",
            1 => "so the paper's gain appears in this run in part",
            _ => "so the paper's gain does not appear in this run",
        };
        Some(format!(
            "For today's CPUs: with AES by tables, one chain alone takes {tables_chain:.0} us for the key \
             stream of an array of {bytes} bytes, and both chains with a thread each {tables_apart:.0} \
             us, {:.1} times as long. With {} these are {chain:.1} and {apart:.1} us, {:.1} times as \
             long. If a second thread cost nothing, both chains would take as long as one. Its cost is \
             only measured as a whole here: to hand over the array, to wait, to read the other \
             thread's key stream, to merge, and what the two threads take from each other. At the best \
             length of the arrays, two threads have {:.2} (XEX) and {:.2} (XE) times the speed of \
             serial AES-256-OFB by tables, {gain}, and {:.2} and {:.2} with {}. On one thread, {} \
             takes {on_one:.1} us for both chains, {:.1} times as long as for one: the result of an \
             AES instruction takes several cycles, in which the AES unit works for the other chain. \
             This needs no second thread and no late merge, and has {together:.2} times the speed of \
             serial AES-256-OFB, of {POSSIBLE:.2} possible. So on a CPU with AES instructions both \
             chains belong on one thread, and other threads serve other messages.",
            tables_apart / tables_chain,
            fast.engine,
            apart / chain,
            tables_best[0],
            tables_best[1],
            best[0],
            best[1],
            fast.engine,
            fast.engine,
            on_one / chain,
        ))
    }

    /// Plots the speed-ups at the length of the array that the conclusion names, with AES by tables
    /// too, beside the paper's on the CPU where it gains.
    fn headline(&self) -> Option<Plot> {
        let engine = self.engines.first()?;
        let bytes = engine.compared()?.array_bytes;
        let bars = |engine: &Engine, ways: &[Division], suffix: &str| {
            let array = engine.array(bytes);
            let rows = FORMS.iter().flat_map(|(construction, ..)| {
                let rows = ways.iter().map(|&way| array?.row(*construction, way));
                rows.collect::<Vec<_>>()
            });
            let bar = |row: &FormTimes| {
                let name = format!("{}{suffix}", engine.name_of(row));
                Some(Bar::new(name, engine.whose(row), row.of_ofb?))
            };
            rows.flatten().filter_map(bar).collect::<Vec<_>>()
        };
        let ours = bars(engine, &[Division::Together, Division::Apart], "");
        let tables = self
            .tables()
            .map(|tables| bars(tables, &[Division::Apart], ", by tables"));
        let printed = FORMS.iter().filter_map(|(_, name, [table, _])| {
            let times = table.speed_up(place(bytes)?)?.parse::<f64>().ok()?;
            let name = format!("the paper's 2x 128 {name}, Table {}", table.name);
            Some(Bar::new(name, Whose::Paper, times))
        });
        let serial = Bar::new("1x 256 OFB", Whose::Rival, 1.0);
        let bars = std::iter::once(serial).chain(ours);
        let bars = bars.chain(tables.into_iter().flatten()).chain(printed);
        let caption = format!(
            "{}: speed-up over serial OFB, arrays of {bytes} bytes",
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
        let is = |array: &&Array| place(array.array_bytes).is_some();
        self.arrays.iter().filter(is).collect()
    }

    /// Returns the rows of the first of them, with their indices.
    fn first_rows(&self) -> impl Iterator<Item = (usize, &FormTimes)> {
        let first = self.of_paper().into_iter().take(1);
        first.flat_map(|array| array.rows.iter().enumerate())
    }

    fn array(&self, bytes: usize) -> Option<&Array> {
        let mut arrays = self.arrays.iter();
        arrays.find(|array| array.array_bytes == bytes)
    }

    /// Returns the array to compare with the paper: [`BEST`], or else its longest one here.
    fn compared(&self) -> Option<&Array> {
        let arrays = self.arrays.iter();
        arrays.max_by_key(|array| {
            let bytes = array.array_bytes;
            (bytes == BEST, place(bytes).is_some(), bytes)
        })
    }

    /// Returns the shortest of the paper's arrays.
    fn shortest(&self) -> Option<&Array> {
        let arrays = self.of_paper().into_iter();
        arrays.min_by_key(|array| array.array_bytes)
    }

    /// Returns the best speed-ups of XEX and XE with a thread each.
    fn best_apart(&self) -> Option<[Summary; 2]> {
        let all = self.of_paper().into_iter().filter_map(Array::apart);
        let better = |a: Summary, b: Summary| if b.median > a.median { b } else { a };
        all.reduce(|[a_xex, a_xe], [b_xex, b_xe]| [better(a_xex, b_xex), better(a_xe, b_xe)])
    }

    /// Returns the time for an array of this length in microseconds.
    fn us_of_array(&self, array_bytes: usize, form: Form, way: Division) -> Option<Summary> {
        let mut rows = self.array(array_bytes)?.rows.iter();
        let row = rows.find(|row| row.form == form && row.way == way)?;
        let scale = 1e3 * array_bytes as f64 / FILE as f64;
        Some(row.milliseconds.scaled(scale))
    }

    /// Returns no plots if there are fewer than two lengths.
    fn plots(&self) -> Vec<Plot> {
        let mut arrays = self.of_paper();
        arrays.sort_by_key(|array| array.array_bytes);
        if arrays.len() < 2 {
            return Vec::new();
        }
        let line = |at: usize, of: &dyn Fn(&FormTimes) -> Option<Summary>| -> Vec<(f64, Summary)> {
            let points = arrays.iter().filter_map(|array| {
                let row = array.rows.get(at)?;
                Some((array.array_bytes as f64, of(row)?))
            });
            points.collect()
        };
        let own = || {
            let all = self.first_rows();
            all.filter(|(_, row)| row.contestant == self.engine && row.way != Division::Auto)
        };
        let two = |row: &FormTimes| matches!(row.form, Form::Two(_, TweakSchedule::Alpha));
        let times = own().filter(|(_, row)| {
            row.form == Form::Ofb
                || row.form == Form::Two(Construction::Xex, TweakSchedule::Alpha)
                || row.form == Form::Ctr
        });
        let times = times.map(|(at, row)| Line {
            name: self.name_of(row),
            whose: Whose::rival_if(!two(row)),
            points: line(at, &|row| Some(row.milliseconds)),
        });
        let ratios = own().filter(|(_, row)| two(row)).map(|(at, row)| Line {
            name: self.name_of(row),
            whose: Whose::Luxor,
            points: line(at, &|row| row.of_ofb),
        });
        let printed = FORMS.into_iter().filter_map(|(_, name, tables)| {
            let table = tables.first()?;
            let points = arrays.iter().filter_map(|array| {
                let bytes = array.array_bytes;
                let times = table.speed_up(place(bytes)?)?.parse::<f64>().ok()?;
                Some((bytes as f64, times.into()))
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
                    cell(row.of_ofb, |times| format!("{times:.3}"))
                });
                add(format!("{name}, %"), &|row| {
                    cell(row.of_ofb, |times| {
                        times.shown(|times| format!("{:.2}", times * 100.0 - 100.0))
                    })
                });
            }
        }
        rows
    }

    /// AES by tables is a baseline, as the rivals are.
    fn whose(&self, row: &FormTimes) -> Whose {
        Whose::rival_if(row.contestant != self.engine || self.engine == tables::NAME)
    }

    fn name_of(&self, row: &FormTimes) -> String {
        let name = row.form.name();
        match row.way {
            _ if row.contestant != self.engine => format!("{name}, {}", row.contestant),
            Division::Serial | Division::Halves => name.to_owned(),
            Division::Apart => format!("{name}, a thread each"),
            Division::Together => format!("{name}, one thread"),
            Division::Auto => format!("{name}, auto"),
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
                    let row = array.row(construction, Division::Together);
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
    fn row(&self, construction: Construction, way: Division) -> Option<&FormTimes> {
        let form = Form::Two(construction, TweakSchedule::Alpha);
        let mut rows = self.rows.iter();
        rows.find(|row| row.form == form && row.way == way)
    }

    /// Returns its speed-up over serial AES-256-OFB.
    fn times(&self, construction: Construction, way: Division) -> Option<Summary> {
        self.row(construction, way)?.of_ofb
    }

    /// Returns the speed-ups of XEX and XE with a thread each.
    fn apart(&self) -> Option<[Summary; 2]> {
        let of = |construction| self.times(construction, Division::Apart);
        Some([of(Construction::Xex)?, of(Construction::Xe)?])
    }
}

/// Returns the index of a length of the paper's arrays.
fn place(array_bytes: usize) -> Option<usize> {
    ARRAYS.iter().position(|&bytes| bytes == array_bytes)
}

/// Formats the median and half the distance between the quartiles.
fn spread(summary: &Summary) -> String {
    let digits = usize::from(summary.median < 1000.0);
    let half = (summary.upper - summary.lower) / 2.0;
    summary.shown(|median| format!("{median:.digits$} +-{half:.digits$}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{bench::Bench, papers::damjanovic::Plan};

    fn section(arrays: &[usize]) -> Section {
        let plan = Plan {
            bytes: Some(16_000),
            arrays: arrays.to_vec(),
            quick: true,
            engine: Some("portable".to_owned()),
            rivals: &[],
        };
        let section = plan.measure().unwrap().section();
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
            milliseconds: Summary::from_samples(vec![ms]).unwrap(),
            of_ofb: Summary::from_samples(vec![times]),
            of_rival: BTreeMap::new(),
        };
        let engine = |&(engine, ms, apart, together): &(&'static str, f64, f64, f64)| {
            let forms = FORMS.into_iter().flat_map(|(construction, ..)| {
                let two = Form::Two(construction, TweakSchedule::Alpha);
                [
                    row(two, Division::Apart, 2.0 * ms, apart),
                    row(two, Division::Together, ms, together),
                    row(
                        Form::One(construction, KeySize::Aes128),
                        Division::Serial,
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
    fn the_papers_gain_is_the_greatest_at_the_compared_length() {
        let best = place(BEST).unwrap();
        for (.., [table, _]) in FORMS {
            let times = |place| table.speed_up(place).unwrap().parse::<f64>().unwrap();
            assert!((0..ARRAYS.len()).all(|place| times(place) <= times(best)));
        }
    }

    /// The comparison is at one length, whichever lengths were measured.
    #[test]
    fn the_card_compares_arrays_of_one_length() {
        for (arrays, printed) in [
            (&[512_000, 64_000, 8000][..], "1.101 and 1.193"),
            (&[512_000, 8000], "1.065 and 1.134"),
            (&[8000, 1024], "0.942 and 0.951"),
        ] {
            let mut report =
                report(&[("vaes512", 160.0, 0.75, 1.39), ("tables", 640.0, 1.25, 0.8)]);
            for engine in &mut report.engines {
                let Array { rows, .. } = engine.arrays.pop().unwrap();
                engine.arrays.extend(arrays.iter().map(|&array_bytes| {
                    let mut rows = rows.clone();
                    // Speed-ups that belong to another length are not the paper's.
                    let of_ofb = Summary::from_samples(vec![array_bytes as f64]);
                    rows.iter_mut().for_each(|row| row.of_ofb = of_ofb);
                    Array { array_bytes, rows }
                }));
            }
            let section = report.section();
            let bytes = if arrays.contains(&BEST) {
                BEST
            } else {
                arrays[0]
            };
            let said = section.conclusion.unwrap();
            let tables = format!(
                "as in the paper, these are {bytes}.00 and {bytes}.00. The paper has {printed}"
            );
            assert!(said.contains(&tables), "{said}");
            let plot = section.headline.unwrap().description();
            let named = format!("arrays of {bytes} bytes");
            assert!(plot.contains(&named), "{plot}");
            let [xex, _] = printed.split(" and ").collect::<Vec<_>>()[..] else {
                panic!("{printed}")
            };
            assert!(plot.contains("Table B1: "), "{plot}");
            let bar = format!("Table B1: {:.2} times", xex.parse::<f64>().unwrap());
            assert!(plot.contains(&bar), "{plot}");
        }
    }

    #[test]
    fn the_consequence_is_drawn_from_the_numbers() {
        let tables = ("tables", 640.0, 1.25, 0.8);
        let section = report(&[("vaes512", 160.0, 0.75, 1.39), tables]).section();
        let text = section.consequence.unwrap();
        for said in [
            "with AES by tables, one chain alone takes 40 us",
            "with a thread each 80 us, 2.0 times as long",
            "With vaes512 these are 10.0 and 20.0 us, 2.0 times as long",
            "have 1.25 (XEX) and 1.25 (XE) times",
            "the paper's gain appears in this run too, and 0.75 and 0.75 with vaes512",
            "vaes512 takes 10.0 us for both chains, 1.0 times as long as for one",
            "has 1.39 times the speed of serial AES-256-OFB, of 1.40 possible",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
        let conclusion = section.conclusion.unwrap();
        assert!(conclusion.contains("1.39 times"), "{conclusion}");
        assert!(
            conclusion.contains("these are 1.25 and 1.25. The paper has 0.942 and 0.951"),
            "{conclusion}"
        );

        let slow = ("tables", 640.0, 0.97, 0.8);
        let section = report(&[("vaes512", 160.0, 0.75, 1.39), slow]).section();
        assert!(
            section
                .consequence
                .unwrap()
                .contains("0.97 (XE) times the speed of serial AES-256-OFB by tables, so the paper's gain does not appear in this run")
        );
        for engines in [
            &[("portable", 160.0, 0.75, 1.39), tables][..],
            &[("vaes512", 1.0, 1.0, 1.0)],
        ] {
            assert!(report(engines).section().consequence.is_none());
        }
    }
}
