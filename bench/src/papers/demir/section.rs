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
    section::{Paper, Section, Verdict},
    size,
    stats::Summary,
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
            verdicts: self.verdicts(),
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
            ..Section::default()
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
            Some(format!("{:.3} ({})", row.times_best, case.load.text()))
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

    fn verdicts(&self) -> Vec<Verdict> {
        self.study.as_ref().map_or_else(Vec::new, Study::verdicts)
    }

    /// Plots the totals of Table 1 or 2.
    fn plot(&self, direction: Direction) -> Plot {
        let (name, verb, table) = of_direction(direction);
        let bar = |name: String, seconds: Summary| Bar::new(name, Whose::Luxor, seconds);
        let mut bars: Vec<_> = match &self.study {
            Some(study) => {
                let rows = Setup::ALL.into_iter().flat_map(|setup| {
                    let rows = study.rows(setup).iter();
                    rows.map(move |row| (row, setup))
                });
                let rows = rows.filter(|(row, _)| row.direction == name);
                rows.map(|(row, setup)| bar(head(row.configuration, setup), row.total))
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
    fn software(&self, direction: Direction, request_bytes: usize) -> Option<Summary> {
        let (name, ..) = of_direction(direction);
        let mut rows = self.breakdown.iter();
        let row = rows.find(|row| {
            row.direction == name
                && row.requests.sector_bytes == 512
                && row.requests.request_bytes == Some(request_bytes)
        })?;
        Some(row.seconds.whole)
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
            "In software {} MB are encrypted in {} ms with requests of 512 bytes. With requests of 4 \
             KiB it takes {} ms, {} Gbps, {:.2} times as fast (decryption {:.2}). The paper's \
             co-processor for ECB became {encrypting:.2} times as fast ({decrypting:.2}).",
            megabytes(self.breakdown_bytes),
            plot::value(short.scaled(1e3)),
            plot::value(extended.scaled(1e3)),
            plot::value(gbps(self.breakdown_bytes, extended)),
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
    ) -> Option<Summary> {
        let (name, ..) = of_direction(direction);
        let wanted = Configuration {
            work,
            request_bytes,
        };
        let mut rows = self.rows(setup).iter();
        let row = rows.find(|row| row.direction == name && row.configuration == wanted)?;
        Some(row.total)
    }

    /// Returns the speed-up from extended requests.
    fn gain(&self, direction: Direction, work: Work, setup: Setup) -> Option<Summary> {
        let of = |bytes| self.total(direction, work, setup, bytes);
        Some(of(512)? / of(4096)?)
    }

    fn conclusion(&self) -> Option<String> {
        let [encrypting, decrypting] = printed_gains();
        let setup = |setup| {
            let ns = self.cost.setup(setup, Kind::Ecb, Direction::Encrypt).first;
            format!("{:.1} \u{b5}s", ns / 1e3)
        };
        let extended = |setup| {
            let seconds = self.total(Direction::Encrypt, Work::Mixed, setup, 4096)?;
            let gbps = plot::value(gbps(self.bytes, seconds));
            Some(format!("{} s, {gbps} Gbps", plot::value(seconds)))
        };
        let gain = |setup| {
            let of = |direction| self.gain(direction, Work::Mixed, setup);
            let [encrypt, decrypt] = [of(Direction::Encrypt)?, of(Direction::Decrypt)?];
            Some(format!(
                "{encrypt:.2} times as fast as with 512 bytes (decryption {decrypt:.2})"
            ))
        };
        let mut text = format!(
            "With requests of 4 KiB, Luxor's core for ECB and the CPU encrypt {} MB in {}. This is {}. A \
             request takes {} to set up, {}.",
            megabytes(self.bytes),
            extended(Setup::Given)?,
            gain(Setup::Given)?,
            setup(Setup::Given),
            if self.cost.setup_is_the_papers {
                "from the paper's tables"
            } else {
                "given by --setup"
            },
        );
        let driver = extended(Setup::Driver).zip(gain(Setup::Driver));
        if let Some(((seconds, gain), access)) = driver.zip(self.cost.access) {
            text += &format!(
                " With the {} of the core's own driver it takes {seconds}. This is {gain}. These are {}.",
                setup(Setup::Driver),
                access.sources(),
            );
        }
        text += &format!(
            " The paper measured {encrypting:.2} times ({decrypting:.2}). Luxor's times are computed \
             from simulated cycles at {}. Almost only set-up is left, so that the gain can reach 8.",
            self.cost.clocks(),
        );
        if self.cost.clock_decrypt_mhz.is_none() {
            text += " Decryption is computed at the clock of the build for encryption.";
        }
        Some(text)
    }

    fn verdicts(&self) -> Vec<Verdict> {
        const COMPUTED: &str = "computed from simulated cycles; almost only set-up is left";
        let mut verdicts = Vec::new();
        for (direction, printed_gain) in Direction::ALL.into_iter().zip(printed_gains()) {
            let (_, verb, table) = of_direction(direction);
            let mut verdict = |what: &str, printed: String, luxor: String, times| {
                verdicts.push(Verdict {
                    figure: format!("{verb} 50 MB, {what}"),
                    printed,
                    rebuilt: None,
                    luxor,
                    times,
                    why: Some(COMPUTED.to_owned()),
                    record: None,
                });
            };
            let setup = Setup::Given;
            if let Some(gain) = self.gain(direction, Work::Mixed, setup) {
                let times = |gain: Summary| format!("{gain:.2} times");
                let luxor = format!("{}, the paper's set-up", times(gain));
                let what = "4 KiB over 512 B, mixed";
                let printed = printed_gain.into();
                verdict(what, times(printed), luxor, gain / printed);
            }
            let totals = Setup::ALL.into_iter().filter_map(|setup| {
                let seconds = self.total(direction, Work::Mixed, setup, 4096)?;
                Some((seconds, setup))
            });
            if let Some((seconds, setup)) = totals.min_by(|a, b| a.0.median.total_cmp(&b.0.median))
            {
                let [_, printed] = table[0].1;
                let luxor = format!("{} s{}", plot::value(seconds), setup.suffix());
                verdict(
                    "requests of 4 KiB, mixed",
                    format!("{printed:.2} s"),
                    luxor,
                    Summary::from(printed) / seconds,
                );
            }
        }
        verdicts
    }

    /// Plots Figures 4 and 5.
    fn plots(&self) -> Vec<Plot> {
        let mut plots = Vec::new();
        let bar = |configuration, value: Summary| {
            Bar::new(head(configuration, Setup::Given), Whose::Luxor, value)
        };
        if !self.digest.is_empty() {
            let bars = self.digest.iter();
            let bars = bars.map(|row| bar(row.configuration, row.total));
            let caption = "Figure 4: MD5 of an encrypted file of 50 MB";
            plots.push(Plot::bars(caption, "seconds", bars).with_remark(NO_NUMBERS));
        }
        plots.extend(self.cases().map(|case| {
            let bars = case.iter();
            let bars = bars.map(|row| bar(row.configuration, row.mib_per_s));
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
             data unit numbers, {}{}; the core's clock is {}, {}.",
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
            self.clocks(),
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

    fn clocks(&self) -> String {
        let [encrypt, decrypt] = Direction::ALL.map(|direction| self.mhz(direction));
        if encrypt == decrypt {
            format!("{encrypt} MHz")
        } else {
            format!("{encrypt} MHz (decryption {decrypt})")
        }
    }

    fn clock_from(&self) -> &'static str {
        match (self.clock_is_recorded, self.clock_decrypt_mhz) {
            (false, _) => "given by --clock",
            (true, Some(_)) => {
                "the tools' estimates on an ECP5: the build for encryption, and the whole core, which \
                 also decrypts"
            }
            (true, None) => {
                "the tools' estimate on an ECP5 for the build for encryption, used for decryption too"
            }
        }
    }
}

/// Returns a number of bytes in 10^6.
fn megabytes(bytes: usize) -> f64 {
    (bytes as f64 / 1e5).round() / 10.0
}

fn gbps(bytes: usize, seconds: Summary) -> Summary {
    seconds.inverse().scaled(bytes as f64 * 8e-9)
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
mod tests;
