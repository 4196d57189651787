// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes the result of `demir-2020`, with the paper's numbers.

mod tables;

use luxor_engine::Direction;

use self::tables::head;
use super::{
    Case, Report,
    access::DMA_WRITES,
    cycles::{Kind, Waiting},
    published,
    study::{self, Cost, DISKS, Setup, Study},
};
use crate::{
    coprocessor::{Configuration, Work},
    fio::Access,
    plot::{self, Bar, Plot, Whose},
    section::{Paper, Section},
    size,
};

const PAPER: Paper = Paper {
    name: "Demir et al., 2020",
    question: "How much faster is a co-processor with requests of 4 KiB than of 512 bytes?",
    reference: "L. Demir, M. Thiery, V. Roca, J.-M. Tenkes and J.-L. Roch: Optimizing dm-crypt for \
        XTS-AES: Getting the Best of Atmel Cryptographic Co-processors. Proceedings of the 17th \
        International Joint Conference on e-Business and Telecommunications (ICETE 2020), SECRYPT, \
        pages 263-270.",
    claim: "Linux passes disk encryption to a driver in requests of 512 bytes. With extended \
        requests of 4 KiB (a page, or eight data units), a board whose co-processor has only ECB, \
        so that the CPU computes tweaks and XORs, spends 5.23 s instead of 9.09 s in the driver to \
        encrypt 50 MB, 1.74 times as fast, and 5.13 s instead of 9.30 s to decrypt them. In \
        encryption, DMA and cipher become 1.93 times as fast and the tweaks 1.54 times. When a \
        file is read, the time in the rest of the kernel is almost halved. That board is then \
        about as fast as a newer one whose co-processor has XTS, but only in requests of 512 \
        bytes. Data written with extended requests can be read without them, and the other way \
        around.",
    rebuilt: "The paper's configurations, outside the kernel: software; mixed, with Luxor's core \
        as a co-processor for both AES operations (of the data unit numbers and of the data) and \
        the CPU for the powers of alpha and the XORs, in requests of 512 bytes and of 4 KiB; the \
        core with XTS, limited to 512 bytes as on the newer board; and with extended requests, \
        which the paper asks of future co-processors. A simulation has no speed of its own, so it \
        only provides the clock cycles of a request, and counts what its driver does. The CPU \
        produces the bytes, and a request takes at least the cost of its set-up plus those cycles. \
        The set-up is once that of the paper's tables, and once that of Luxor's own driver. In \
        addition, extended requests are measured in software, as longer calls of the \
        engine.",
};

/// Why Figures 4 and 5 show Luxor alone.
const NO_NUMBERS: &str = "The paper's text and tables do not give the values of this figure, and no \
    other program takes such requests.";

impl Report {
    pub(super) fn section(&self) -> Section {
        let plots = Direction::ALL
            .into_iter()
            .map(|direction| self.plot(direction));
        let study = self.study.iter().flat_map(Study::plots);
        Section {
            title: "Extended requests to a co-processor".to_owned(),
            paper: Some(PAPER),
            about: self.about(),
            conclusion: self.conclusion(),
            consequence: None,
            headline: Some(self.headline()),
            plots: plots.chain(study).collect(),
            tables: self.tables(),
            details: self
                .study
                .iter()
                .flat_map(Study::details)
                .chain(self.served.iter().map(Case::table))
                .collect(),
            digest: self.digest(),
            notes: self.notes(),
            absent: self.all_absent(),
        }
    }

    fn about(&self) -> String {
        let mut text = format!(
            "In software: {} on one thread, with AES-256-XTS. ",
            self.engine
        );
        if let Some(study) = &self.study {
            text += &study.about();
        }
        text + "The paper's seconds are for 50 MB on a SAMA5D3 with its co-processor for ECB-AES-128. \
                Its text and tables do not give the values of its Figures 4 and 5. According to \
                the text on Figure 4, MD5 takes the same short time in both cases, decryption takes most of the time, and \
                the time for reading and the rest is almost halved. In Figure 5, the mixed \
                configuration with 4 KiB is slightly slower in encryption and slightly faster in \
                decryption than the XTS co-processor with 512 B, and all others are slower."
    }

    /// Returns notes on the expected rates of the servers, and on the engine's time.
    fn notes(&self) -> Vec<String> {
        let expected = self.served.iter().filter_map(|case| {
            let row = case.rows.iter().find(|row| {
                row.requests.sector_bytes == 512 && row.requests.request_bytes.is_none()
            })?;
            Some(format!(
                "{:.3} ({})",
                row.times_best.median,
                case.load.text()
            ))
        });
        let expected: Vec<_> = expected.collect();
        if expected.is_empty() {
            return Vec::new();
        }
        vec![
            format!(
                "The disk itself counts the engine's time, which includes two reads of the clock \
                 around each call, {:.0} ns.",
                self.clock_nanoseconds
            ),
            format!(
                "Target: 512-byte sectors, not capped, reach 0.95 of the rate of 4096-byte sectors; \
                 measured: {}.",
                expected.join(", ")
            ),
        ]
    }

    /// Plots the totals of Table 1 or 2.
    fn plot(&self, direction: Direction) -> Plot {
        let (name, verb, table) = of_direction(direction);
        let bar = |name: String, seconds| Bar::new(name, Whose::Luxor, seconds);
        let mut bars: Vec<_> = match &self.study {
            Some(study) => {
                let rows = Setup::ALL.into_iter().flat_map(|setup| {
                    let rows = study.rows(setup).iter();
                    rows.map(move |row| (row, setup))
                });
                let rows = rows.filter(|(row, _)| row.direction == name);
                rows.map(|(row, setup)| bar(head(row.configuration, setup), row.total.median))
                    .collect()
            }
            None => {
                let software = |bytes| {
                    let text = format!("software, {}", size::text(bytes));
                    Some(bar(text, self.software(direction, bytes)?))
                };
                [512, 4096].into_iter().filter_map(software).collect()
            }
        };
        for (bytes, seconds) in [512, 4096].into_iter().zip(table[0].1) {
            let text = format!("the paper's mixed, {}", size::text(bytes));
            bars.push(Bar::new(text, Whose::Paper, seconds));
        }
        Plot::dots(format!("{verb} 50 MB"), "seconds", bars)
    }

    /// Plots the speed-ups from extended requests, of encryption.
    fn headline(&self) -> Plot {
        let ours = study::TOTALS.into_iter().filter_map(|(work, setup)| {
            let gain = match &self.study {
                Some(study) => study.gain(Direction::Encrypt, work, setup),
                None if work == Work::Software => {
                    let of = |bytes| self.software(Direction::Encrypt, bytes);
                    of(512)
                        .zip(of(4096))
                        .map(|(short, extended)| short / extended)
                }
                None => None,
            };
            let name = format!("{}{}", work.name(), setup.suffix());
            Some(Bar::new(name, Whose::Luxor, gain?))
        });
        let [printed, _] = printed_gains();
        let paper = Bar::new("the paper's mixed", Whose::Paper, printed);
        let caption = "Speed-up from requests of 4 KiB, encryption";
        Plot::bars(caption, "times", ours.chain([paper]))
    }

    /// Returns the seconds for requests of `request_bytes` bytes on data units of 512.
    fn software(&self, direction: Direction, request_bytes: usize) -> Option<f64> {
        let (name, ..) = of_direction(direction);
        let mut rows = self.breakdown.iter();
        let row = rows.find(|row| {
            row.direction == name
                && row.requests.sector_bytes == 512
                && row.requests.request_bytes == Some(request_bytes)
        })?;
        Some(row.seconds.whole.median)
    }

    fn conclusion(&self) -> Option<String> {
        let [encrypting, decrypting] = printed_gains();
        if let Some(text) = self.study.as_ref().and_then(Study::conclusion) {
            return Some(text);
        }
        let of = |bytes| self.software(Direction::Encrypt, bytes);
        let (short, extended) = (of(512)?, of(4096)?);
        let back = [512, 4096].map(|bytes| self.software(Direction::Decrypt, bytes));
        let [back_short, back_extended] = [back[0]?, back[1]?];
        Some(format!(
            "In software {:.0} MB are encrypted in {} ms with requests of 512 bytes and in {} ms with \
             those of 4 KiB, {:.2} times as fast (decrypted {:.2} times); the paper's co-processor \
             for ECB became {encrypting:.2} times as fast ({decrypting:.2} times).",
            self.breakdown_bytes as f64 / 1e6,
            plot::value(short * 1e3),
            plot::value(extended * 1e3),
            short / extended,
            back_short / back_extended,
        ))
    }

    fn all_absent(&self) -> Vec<String> {
        let mut all = self.absent.clone();
        if let Some(study) = &self.study {
            let left = DISKS.into_iter().filter(|&bytes| {
                let mut served = study.served.iter();
                !study.served.is_empty() && !served.any(|row| row.disk_bytes == bytes)
            });
            all.extend(left.map(|bytes| {
                let bytes = size::text(bytes);
                format!("Figure 5 with {bytes}: left out by --quick")
            }));
        }
        let boards = "the paper's boards (SAMA5D3 and SAMA5D2), its changes of dm-crypt and of \
                      atmel-aes, and IOzone: here everything runs outside the kernel on this \
                      machine, the core's cycles become time by the given clock, and fio replaces \
                      IOzone";
        all.push(boards.to_owned());
        all
    }
}

impl Study {
    fn about(&self) -> String {
        let configurations = (self.compatible_pairs as f64).sqrt();
        let mut text = format!(
            "With the co-processor: AES-128-XTS on data units of 512 bytes, as in the paper. {} {} Each \
             of the {configurations:.0} configurations reads what each of them wrote ({} pairs), as \
             the paper claims of its own. Medians of {} for {:.1} MB",
            self.cost.about(),
            if self.cost.requests.is_empty() {
                "In this result of an earlier version, the CPU encrypts the data unit numbers in the \
                 mixed configuration."
            } else {
                "The time for the data unit numbers on the co-processor counts as tweaks."
            },
            self.compatible_pairs,
            rounds(self.rounds),
            self.bytes as f64 / 1e6,
        );
        if self.measured_bytes < self.bytes {
            let measured = self.measured_bytes as f64 / 1e6;
            text += &format!(
                "; with the co-processor and for MD5, {measured:.1} MB were measured and scaled"
            );
        }
        text + ". "
    }

    /// Returns the seconds for all bytes.
    fn total(
        &self,
        direction: Direction,
        work: Work,
        setup: Setup,
        request_bytes: usize,
    ) -> Option<f64> {
        let (name, ..) = of_direction(direction);
        let wanted = Configuration {
            work,
            request_bytes,
        };
        let mut rows = self.rows(setup).iter();
        let row = rows.find(|row| row.direction == name && row.configuration == wanted)?;
        Some(row.total.median)
    }

    /// Returns the speed-up from extended requests.
    fn gain(&self, direction: Direction, work: Work, setup: Setup) -> Option<f64> {
        let of = |bytes| self.total(direction, work, setup, bytes);
        Some(of(512)? / of(4096)?)
    }

    fn conclusion(&self) -> Option<String> {
        let part = |setup| {
            let of = |bytes| self.total(Direction::Encrypt, Work::Mixed, setup, bytes);
            let gain = |direction| self.gain(direction, Work::Mixed, setup);
            Some(format!(
                "{} s with requests of 512 bytes and in {} s with those of 4 KiB, {:.2} times as fast \
                 (for decryption {:.2} times)",
                plot::value(of(512)?),
                plot::value(of(4096)?),
                gain(Direction::Encrypt)?,
                gain(Direction::Decrypt)?,
            ))
        };
        let setup = |setup| {
            let ns = self.cost.setup(setup, Kind::Ecb, Direction::Encrypt).first;
            format!("{:.1} \u{b5}s", ns / 1e3)
        };
        let [encrypting, decrypting] = printed_gains();
        let mut text = format!(
            "With {} to set up a request ({}) and {} MHz, Luxor's core for ECB and the CPU encrypt \
             {:.0} MB in {}",
            setup(Setup::Given),
            if self.cost.setup_is_the_papers {
                "from the paper's tables"
            } else {
                "given by --setup"
            },
            self.cost.clock_mhz,
            self.bytes as f64 / 1e6,
            part(Setup::Given)?,
        );
        if let Some((part, access)) = part(Setup::Driver).zip(self.cost.access) {
            let setup = setup(Setup::Driver);
            let from = access.sources();
            text += &format!("; with the {setup} of the core's own driver ({from}) in {part}");
        }
        text += ". This is computed from cycles: almost only set-up is left, so that the gain can reach 8.";
        if self.cost.clock_is_recorded {
            text += " Decryption is computed at the clock of the build for encryption.";
        }
        text += &format!(" The paper measured {encrypting:.2} times ({decrypting:.2}).");
        Some(text)
    }

    /// Plots Figures 4 and 5.
    fn plots(&self) -> Vec<Plot> {
        let mut plots = Vec::new();
        let bar =
            |configuration, value| Bar::new(head(configuration, Setup::Given), Whose::Luxor, value);
        if !self.digest.is_empty() {
            let bars = self.digest.iter();
            let bars = bars.map(|row| bar(row.configuration, row.total.median));
            let caption = "Figure 4: MD5 of an encrypted file of 50 MB";
            plots.push(Plot::bars(caption, "seconds", bars).with_remark(NO_NUMBERS));
        }
        plots.extend(self.cases().map(|case| {
            let bars = case.iter();
            let bars = bars.map(|row| bar(row.configuration, row.mib_per_s.median));
            let way = match case[0].load.access {
                Access::Read => "decryption",
                Access::Write => "encryption",
            };
            let caption = format!("Figure 5: {way}, {}", size::text(case[0].disk_bytes));
            Plot::bars(caption, "MiB/s", bars).with_remark(NO_NUMBERS)
        }));
        plots
    }
}

impl Cost {
    fn about(&self) -> String {
        let way = |kind, direction| {
            let ns = self.setup(Setup::Given, kind, direction).first;
            format!("{:.1} \u{b5}s", ns / 1e3)
        };
        let mut text = format!(
            "Setting up a request takes {} for encryption and {} for decryption, and {} and {} for the \
             data unit numbers, {}{}; the core's clock is {} MHz, {}.",
            way(Kind::Ecb, Direction::Encrypt),
            way(Kind::Ecb, Direction::Decrypt),
            way(Kind::Numbers, Direction::Encrypt),
            way(Kind::Numbers, Direction::Decrypt),
            self.setup_from(),
            if self.setup_is_the_papers {
                " (the difference between the columns' times for the cipher, and for the tweaks, \
                 divided by the difference between their numbers of requests; this takes the \
                 paper's \"tweak computation\" to include the encryption of the numbers by the \
                 co-processor, which the paper does not say)"
            } else {
                ""
            },
            self.clock_mhz,
            self.clock_from(),
        );
        let by_driver = |waiting| {
            Some(
                self.by_driver(Kind::Ecb, Direction::Encrypt, waiting)?
                    .first
                    / 1e3,
            )
        };
        let found = by_driver(Waiting::Interrupts).zip(by_driver(Waiting::Polling));
        if let Some((interrupts, polling)) = found {
            text += &format!(
                " The driver of Luxor's core, counted in the simulation, takes {interrupts:.1} \u{b5}s \
                 for the same request with an interrupt, and {polling:.1} \u{b5}s by polling, {}.",
                self.access_from()
            );
        }
        text
    }

    /// Returns the stated costs of the driver's accesses, and where they come from.
    fn access_from(&self) -> String {
        let Some(access) = self.access else {
            return String::new();
        };
        let recorded = if access.accesses_are_recorded {
            " (one user's figures for a Zynq UltraScale+)"
        } else {
            ""
        };
        let measured = if access.interrupt_is_measured {
            " (as waking a thread takes on this machine)"
        } else {
            ""
        };
        format!(
            "at {:.0} ns for a register read and {:.0} ns for a write{recorded}, {DMA_WRITES:.0} writes \
             for the DMA of a packet and its answer, and {:.1} \u{b5}s for an interrupt{measured}",
            access.read,
            access.write,
            access.interrupt / 1e3,
        )
    }

    fn setup_from(&self) -> &'static str {
        if self.setup_is_the_papers {
            "from the paper's Tables 1 and 2, which are of ECB and assumed for XTS too"
        } else {
            "given by --setup"
        }
    }

    fn clock_from(&self) -> &'static str {
        if self.clock_is_recorded {
            "the tools' estimate on an ECP5 for the build for encryption, and used for decryption too, which has \
             no recorded clock"
        } else {
            "given by --clock"
        }
    }
}

/// Returns the direction's name in rows, its verb, and the paper's table.
fn of_direction(
    direction: Direction,
) -> (
    &'static str,
    &'static str,
    &'static [published::PrintedTimes; 6],
) {
    match direction {
        Direction::Encrypt => ("encrypt", "Encrypting", &published::TABLE_1),
        Direction::Decrypt => ("decrypt", "Decrypting", &published::TABLE_2),
    }
}

/// Returns the speed-ups from extended requests in the paper's Tables 1 and 2.
fn printed_gains() -> [f64; 2] {
    [&published::TABLE_1, &published::TABLE_2].map(|table| {
        let [short, extended] = table[0].1;
        short / extended
    })
}

fn rounds(rounds: usize) -> String {
    match rounds {
        1 => "one round".to_owned(),
        _ => format!("{rounds} rounds"),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            REQUESTS, ServedRate,
            access::AccessCosts,
            breakdown,
            cycles::{Counts, Cycles, Measured, UNITS, Ways},
            study::{Breakdown, DigestTimes, Parts, Served},
        },
        *,
    };
    use crate::{
        coprocessor::{CONFIGURATIONS, Linear},
        fio::Load,
        stats::Summary,
    };

    fn summary(median: f64) -> Summary {
        Summary::from_samples(vec![median]).unwrap()
    }

    fn load(access: Access) -> Load {
        Load {
            access,
            request_bytes: 64 << 10,
            depth: 16,
            connections: 1,
        }
    }

    /// The report of a build without the core, on a machine without `fio`.
    fn software() -> Report {
        let parts = |whole: f64| breakdown::Parts {
            whole: summary(whole),
            numbers: summary(0.001),
            powers: summary(0.002),
            first_xor: summary(0.0005),
            cipher: summary(0.0015),
            second_xor: summary(0.0005),
            other: summary(whole - 0.0055),
            fused: summary(whole - 0.0025),
        };
        let rows = ["encrypt", "decrypt"].into_iter().flat_map(|direction| {
            REQUESTS.into_iter().map(move |requests| {
                let seconds = if requests.request_bytes == Some(512) {
                    0.006
                } else {
                    0.003
                };
                breakdown::SoftwareTimes {
                    direction,
                    requests,
                    seconds: parts(seconds),
                }
            })
        });
        Report {
            engine: "portable",
            clock_nanoseconds: 50.0,
            breakdown_bytes: breakdown::BYTES,
            breakdown: rows.collect(),
            disk_bytes: 64 << 20,
            in_memory: true,
            fio: None,
            rounds: 1,
            turn_seconds: 0.2,
            served: Vec::new(),
            study: None,
            absent: vec!["the co-processor: no simulation".to_owned()],
        }
    }

    fn row(requests: super::super::Requests) -> ServedRate {
        ServedRate {
            requests,
            mib_per_s: summary(1000.0),
            times_best: summary(0.5),
            bytes_per_call: summary(4096.0),
            engine_gb_per_s: summary(5.0),
            engine_share: summary(0.25),
        }
    }

    fn breakdown(direction: &'static str, configuration: Configuration) -> Breakdown {
        let software = configuration.work == Work::Software;
        let seconds = match configuration.work {
            Work::Mixed => 1536.0,
            Work::Offloaded => 768.0,
            Work::Software => 128.0,
        };
        let total = seconds / configuration.request_bytes as f64;
        Breakdown {
            direction,
            configuration,
            total: summary(total),
            parts: (!software).then(|| Parts {
                tweaks: summary(0.0),
                numbers: Some(summary(0.0)),
                first_xor: summary(total * 0.1),
                second_xor: summary(total * 0.1),
                device: summary(total * 0.8),
                other: summary(0.0),
            }),
            late: 0.0,
        }
    }

    fn study() -> Study {
        let linear = Linear {
            first: 100.0,
            next: 32.0,
        };
        let ways = Ways {
            encrypt: linear,
            decrypt: linear,
        };
        let rows =
            |direction| CONFIGURATIONS.map(|configuration| breakdown(direction, configuration));
        // The driver's set-up makes requests of either length twice as fast, so it gains as much.
        let by_driver = |direction| {
            let rows = rows(direction).into_iter();
            let rows = rows.filter(|row| row.configuration.work != Work::Software);
            rows.map(|row| Breakdown {
                total: row.total.scaled(0.5),
                ..row
            })
        };
        let measured = [Waiting::Polling, Waiting::Interrupts]
            .into_iter()
            .flat_map(|waiting| {
                let kinds = [Kind::Numbers, Kind::Ecb, Kind::Xts].into_iter();
                kinds.flat_map(move |kind| UNITS.map(|units| (waiting, kind, units)))
            })
            .flat_map(|(waiting, kind, units)| {
                ["encrypt", "decrypt"].map(|direction| Measured {
                    kind,
                    direction,
                    waiting,
                    units,
                    counts: Counts {
                        cycles: 100.0 + 32.0 * f64::from(units - 1),
                        reads: 2.0,
                        writes: 2.0,
                        packets: 1.0,
                        interrupts: f64::from(u8::from(waiting == Waiting::Interrupts)),
                    },
                })
            });
        let digest = CONFIGURATIONS.map(|configuration| DigestTimes {
            configuration,
            total: summary(2.0),
            md5: summary(0.5),
            driver: summary(1.0),
            rest: summary(0.5),
        });
        let served = [Access::Write, Access::Read]
            .into_iter()
            .flat_map(|access| {
                CONFIGURATIONS.map(|configuration| Served {
                    disk_bytes: 256 << 20,
                    load: load(access),
                    configuration,
                    mib_per_s: summary(15.0),
                })
            });
        Study {
            cost: Cost {
                setup_encrypt: 30_000.0,
                setup_decrypt: 28_000.0,
                setup_numbers_encrypt: 11_000.0,
                setup_numbers_decrypt: 19_000.0,
                setup_is_the_papers: true,
                access: Some(AccessCosts {
                    read: 200.0,
                    write: 100.0,
                    interrupt: 5000.0,
                    accesses_are_recorded: true,
                    interrupt_is_measured: true,
                }),
                clock_mhz: 200.0,
                clock_is_recorded: true,
                cycles: Cycles {
                    numbers: ways,
                    ecb: ways,
                    xts: ways,
                },
                requests: measured.collect(),
            },
            compatible_pairs: 36,
            rounds: 1,
            served_rounds: Some(1),
            measured_bytes: breakdown::BYTES / 7,
            bytes: breakdown::BYTES,
            breakdown: rows("encrypt").into_iter().chain(rows("decrypt")).collect(),
            breakdown_by_driver: by_driver("encrypt").chain(by_driver("decrypt")).collect(),
            digest: digest.into(),
            served: served.collect(),
        }
    }

    /// The report with the core and `fio`.
    fn whole() -> Report {
        let served = [Access::Read, Access::Write].map(|access| Case {
            load: load(access),
            rows: REQUESTS.map(row).into(),
        });
        Report {
            fio: Some("fio-3".to_owned()),
            served: served.into(),
            study: Some(study()),
            absent: Vec::new(),
            ..software()
        }
    }

    fn captions(section: &Section) -> Vec<&str> {
        let captions = section.tables.iter().map(|table| table.caption.as_str());
        captions.collect()
    }

    fn cells<'a>(section: &'a Section, caption: &str, what: &str) -> Vec<&'a str> {
        let mut tables = section.tables.iter();
        let table = tables.find(|table| table.caption.starts_with(caption));
        let mut rows = table.unwrap().rows.iter();
        let row = rows.find(|row| row.cells[0] == what).unwrap();
        row.cells[1..].iter().map(String::as_str).collect()
    }

    #[test]
    fn demir_with_the_core_has_all_tables_and_figures() {
        let section = whole().section();
        section.assert_whole();
        let found = cells(&section, "Table 1", "Total time");
        let ours = ["3.00", "0.38"];
        let paper = ["9.09 (100.00 %)", "5.23 (100.00 %)"];
        assert_eq!(found, [ours, paper, ["1.50", "0.19"]].concat());
        let found = cells(&section, "Table 2", "DMA + decryption time");
        let ours = ["2.40 (80.00 %)", "0.30 (80.00 %)"];
        let paper = ["5.22 (56.12 %)", "2.81 (54.83 %)"];
        let xts = ["1.20 (80.00 %)", "0.15 (80.00 %)"];
        assert_eq!(found, [ours, paper, xts].concat());
        let none = crate::section::NOTHING;
        let totals = |what| cells(&section, "Seconds for 50 MB", what);
        let printed = ["9.09", "5.23", "1.74", "9.30", "5.13", "1.81"];
        assert_eq!(
            totals("the paper's mixed"),
            [&printed[..], &[none; 3]].concat()
        );
        let by_driver = ["1.50", "0.19", "8.00"];
        assert_eq!(
            totals("mixed, the driver's set-up"),
            [by_driver, by_driver, [none; 3]].concat()
        );
        let found = cells(&section, "Table 1, the driver's set-up", "Total time");
        assert_eq!(found[..2], ["1.50", "0.19"]);
        let software = ["0.25", "0.0312", "8.00"];
        let digest = ["2.00", "2.00", "1.00"];
        assert_eq!(totals("software"), [software, software, digest].concat());
        let found = cells(&section, "What a request", "XTS, 4 KiB, in all, \u{b5}s");
        // 30000 + (100 + 7 * 32) * 5 nanoseconds.
        assert_eq!(found[..2], ["31.6", "29.6"]);
        let what = "XTS, 4 KiB, in all, the driver's set-up, \u{b5}s";
        let found = cells(&section, "What a request", what);
        // 2 * 200 + (2 + 4) * 100 + 5000 nanoseconds, and the cycles.
        assert_eq!(found[..2], ["7.62", "7.62"]);
        let found = cells(&section, "What the driver", "ECB, 4 KiB, polling");
        assert_eq!(found, ["2", "2", "1", "0", "324.0", "1.00"]);
        let found = cells(
            &section,
            "Served in software",
            "512-byte sectors, not capped",
        );
        assert_eq!(found, ["1000 (0.50)"; 2]);
        assert_eq!(captions(&section).len(), 13, "{:?}", captions(&section));
        // Both directions, Figure 4, and Figure 5 in both directions.
        assert_eq!(section.plots.len(), 5);
        let said = section.conclusion.unwrap();
        let times =
            "in 3.00 s with requests of 512 bytes and in 0.38 s with those of 4 KiB, 8.00 times";
        assert!(said.contains(times), "{said}");
        for part in [
            "30.0 \u{b5}s to set up a request (from the paper's tables)",
            "with the 6.0 \u{b5}s of the core's own driver (accesses counted in the simulation, at a \
             Zynq UltraScale+'s register times, with this machine's time to wake a thread) in 1.50 s",
            "Decryption is computed at the clock of the build for encryption",
        ] {
            assert!(said.contains(part), "{said}");
        }
        let assumed = "\"tweak computation\" to include the encryption of the numbers";
        assert!(section.about.contains(assumed), "{}", section.about);
        assert!(section.about.contains("36 pairs"), "{}", section.about);
        let left = "Figure 5 with 512 MiB";
        let said = section.absent.iter().any(|text| text.starts_with(left));
        assert!(said, "{:?}", section.absent);
    }

    /// Its JSON has no accesses, and no request for the data unit numbers.
    #[test]
    fn demir_of_an_earlier_version_is_shown_without_the_driver() {
        let mut report = whole();
        let study = report.study.as_mut().unwrap();
        study.breakdown_by_driver.clear();
        study.cost.requests.clear();
        study.cost.access = None;
        let section = report.section();
        section.assert_whole();
        assert_eq!(captions(&section).len(), 10, "{:?}", captions(&section));
        let earlier = "the CPU encrypts the data unit numbers";
        assert!(section.about.contains(earlier), "{}", section.about);
    }

    #[test]
    fn demir_without_the_core_has_its_software_and_says_why() {
        let section = software().section();
        section.assert_whole();
        let found = cells(&section, "Table 1", "Total time");
        assert_eq!(found, ["9.09 (100.00 %)", "5.23 (100.00 %)"]);
        let found = cells(&section, "Decrypting in software", "the whole");
        assert_eq!(found[..2], ["6.00", "3.00"]);
        assert_eq!(captions(&section).len(), 4, "{:?}", captions(&section));
        assert_eq!(section.plots.len(), 2);
        let described = section.plots[1].description();
        assert!(
            described.contains("software, 512 B: 0.0060 seconds"),
            "{described}"
        );
        let said = section.conclusion.unwrap();
        assert!(said.contains("4 KiB, 2.00 times as fast"), "{said}");
        assert_eq!(section.absent[0], "the co-processor: no simulation");
    }
}
