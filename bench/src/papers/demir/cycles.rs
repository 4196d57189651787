// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a request takes on Luxor's core behind its driver, from its simulation (cargo feature
//! `fpga`): clock cycles, register accesses, packets and interrupts. Requests run one after the
//! other. Each is counted from before its descriptor is written until its end is seen.

use luxor_engine::Direction;
use serde::{Deserialize, Serialize};

use crate::{cipher::direction_name, coprocessor::Linear};

/// The work of the core in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// The data unit numbers, in ECB with the tweak key.
    Numbers,
    /// The data in ECB.
    Ecb,
    /// The data in XTS.
    Xts,
}

/// How the driver waits for the end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Waiting {
    Polling,
    Interrupts,
}

/// 512-byte data units of the requests that are measured: one, and those of an extended request.
pub(super) const UNITS: [u32; 2] = [1, 8];

/// What the driver and the core do for a request.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct Measured {
    pub(super) kind: Kind,
    pub(super) direction: &'static str,
    pub(super) waiting: Waiting,
    pub(super) units: u32,
    #[serde(flatten)]
    pub(super) counts: Counts,
}

/// Means of many requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(super) struct Counts {
    /// Clock cycles, including those of the register accesses on the core's bus.
    pub(super) cycles: f64,
    /// Register reads and writes.
    pub(super) reads: f64,
    pub(super) writes: f64,
    /// Packets sent. A board needs two DMA transfers for each: there and back.
    pub(super) packets: f64,
    pub(super) interrupts: f64,
}

/// Cycles of requests, as functions of the number of 512-byte data units.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct Cycles {
    #[serde(default)]
    pub(super) numbers: Ways,
    pub(super) ecb: Ways,
    pub(super) xts: Ways,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(super) struct Ways {
    pub(super) encrypt: Linear,
    pub(super) decrypt: Linear,
}

impl Cycles {
    /// Returns the cycles of the requests in `all` that wait for interrupts.
    pub(super) fn from_requests(all: &[Measured]) -> Option<Self> {
        let line = |kind, direction| {
            let counts = counts(all, kind, direction, Waiting::Interrupts)?;
            Some(through(counts.map(|counts| counts.cycles)))
        };
        let ways = |kind| {
            Some(Ways {
                encrypt: line(kind, Direction::Encrypt)?,
                decrypt: line(kind, Direction::Decrypt)?,
            })
        };
        Some(Self {
            numbers: ways(Kind::Numbers)?,
            ecb: ways(Kind::Ecb)?,
            xts: ways(Kind::Xts)?,
        })
    }

    pub(super) fn line(&self, kind: Kind, direction: Direction) -> Linear {
        let ways = match kind {
            Kind::Numbers => self.numbers,
            Kind::Ecb => self.ecb,
            Kind::Xts => self.xts,
        };
        match direction {
            Direction::Encrypt => ways.encrypt,
            Direction::Decrypt => ways.decrypt,
        }
    }
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Numbers => "data unit numbers",
            Self::Ecb => "ECB",
            Self::Xts => "XTS",
        }
    }
}

/// Returns the counts of requests of each length in [`UNITS`].
pub(super) fn counts(
    all: &[Measured],
    kind: Kind,
    direction: Direction,
    waiting: Waiting,
) -> Option<[Counts; 2]> {
    let one = |units| {
        let mut rows = all.iter();
        let row = rows.find(|row| {
            (row.kind, row.waiting, row.units) == (kind, waiting, units)
                && row.direction == direction_name(direction)
        })?;
        Some(row.counts)
    };
    let [first, extended] = UNITS.map(one);
    Some([first?, extended?])
}

/// Returns the line through the values for the two lengths in [`UNITS`].
pub(super) fn through([first, extended]: [f64; 2]) -> Linear {
    Linear {
        first,
        next: (extended - first) / f64::from(UNITS[1] - UNITS[0]),
    }
}

/// Returns the committed counts, which are those of the simulation.
#[cfg(not(feature = "fpga"))]
pub(super) fn measure() -> Result<Vec<Measured>, String> {
    crate::committed::cycles("requests")
}

#[cfg(feature = "fpga")]
pub(super) use self::simulated::measure;

#[cfg(feature = "fpga")]
mod simulated {
    use luxor_engine::{DataUnitNumber, Direction, InOut, KeySpec, Mode, Registry};
    use luxor_engine_fpga::{
        self as fpga, Driver, Transport, TransportError,
        driver::{CoreMode, Descriptor, SlotKey},
        model::{Design, Model},
    };

    use super::{Counts, Kind, Measured, UNITS, Waiting};
    use crate::{
        cipher::{crypt, direction_name},
        coprocessor::{BLOCK, UNIT, powers, xor},
        disk::short_key,
        plaintext::Pattern,
    };

    /// Requests that are counted. As many before them fill the places of the core's ring: their
    /// descriptors must be written in full.
    const REQUESTS: u32 = 32;

    fn failed(error: &dyn std::fmt::Display) -> String {
        format!("the simulated core: {error}")
    }

    /// Measures all kinds of requests, and compares the bytes with the engine's XTS.
    pub(in super::super) fn measure() -> Result<Vec<Measured>, String> {
        let mut all = Vec::new();
        for direction in Direction::ALL {
            for waiting in [Waiting::Polling, Waiting::Interrupts] {
                for units in UNITS {
                    for kinds in [&[Kind::Numbers, Kind::Ecb][..], &[Kind::Xts]] {
                        let counts = requests(kinds, direction, waiting, units)?;
                        all.extend(kinds.iter().zip(counts).map(|(&kind, counts)| Measured {
                            kind,
                            direction: direction_name(direction),
                            waiting,
                            units,
                            counts,
                        }));
                    }
                }
            }
        }
        Ok(all)
    }

    /// Encrypts or decrypts in XTS with requests of these kinds, and returns the means of each.
    fn requests(
        kinds: &[Kind],
        direction: Direction,
        waiting: Waiting,
        units: u32,
    ) -> Result<Vec<Counts>, String> {
        let mut core = Core::new(direction, waiting)?;
        let len = UNIT * units as usize;
        let mut input = vec![0; len * 2 * REQUESTS as usize];
        Pattern::new().fill(&mut input);
        let expected = by_the_engine(direction, &input)?;
        let mut totals = vec![Counts::default(); kinds.len()];
        for (request, (bytes, expected)) in
            (0..).zip(input.chunks_exact_mut(len).zip(expected.chunks_exact(len)))
        {
            let first = request * units;
            let mut tweaks = Vec::new();
            for (total, &kind) in totals.iter_mut().zip(kinds) {
                let counts = match kind {
                    Kind::Xts => core.request(kind, direction, first, bytes)?,
                    Kind::Numbers => {
                        let numbers = first..first + units;
                        let numbers = numbers.flat_map(|n| u128::from(n).to_le_bytes());
                        let mut numbers: Vec<u8> = numbers.collect();
                        let found = core.request(kind, Direction::Encrypt, 0, &mut numbers)?;
                        tweaks.resize(len, 0);
                        let units = tweaks.chunks_exact_mut(UNIT);
                        for (number, tweaks) in numbers.chunks_exact(BLOCK).zip(units) {
                            powers(number, tweaks);
                        }
                        found
                    }
                    Kind::Ecb => {
                        xor(InOut::InPlace(bytes), &tweaks);
                        let found = core.request(kind, direction, 0, bytes)?;
                        xor(InOut::InPlace(bytes), &tweaks);
                        found
                    }
                };
                if request >= REQUESTS {
                    total.add(counts);
                }
            }
            if bytes != expected {
                return Err(failed(&"its bytes differ from the engine's"));
            }
        }
        let means = totals
            .into_iter()
            .map(|total| total.by(f64::from(REQUESTS)));
        Ok(means.collect())
    }

    struct Core {
        driver: Driver<Counted>,
        data_key: SlotKey,
        tweak_key: SlotKey,
        xts_key: SlotKey,
        /// Cycles from one reading of the counters to the next.
        between: u64,
    }

    impl Core {
        fn new(direction: Direction, waiting: Waiting) -> Result<Self, String> {
            // The builds for which a clock is recorded, but that for decryption has one register a
            // round, and three in the record.
            let design = match direction {
                Direction::Encrypt => Design::Shared,
                Direction::Decrypt => Design::Full,
            };
            let counted = Counted {
                model: Model::with_design(design),
                counts: Counts::default(),
            };
            let mut driver = Driver::new(counted).map_err(|e| failed(&e))?;
            let waiting = match waiting {
                Waiting::Polling => fpga::Waiting::Polling,
                Waiting::Interrupts => fpga::Waiting::Interrupts,
            };
            driver.set_waiting(waiting).map_err(|e| failed(&e))?;
            let key = short_key();
            let mut core = Self {
                driver,
                data_key: SlotKey::aes(key.data_key()),
                tweak_key: SlotKey::aes(key.tweak_key()),
                xts_key: SlotKey::xts(&key),
                between: 0,
            };
            core.between = core.cycles()?.abs_diff(core.cycles()?);
            Ok(core)
        }

        fn cycles(&mut self) -> Result<u64, String> {
            let counters = self.driver.counters().map_err(|e| failed(&e))?;
            Ok(counters.cycles)
        }

        /// Sends a request, waits for its end, and puts the answer into `bytes`.
        fn request(
            &mut self,
            kind: Kind,
            direction: Direction,
            first: u32,
            bytes: &mut [u8],
        ) -> Result<Counts, String> {
            let begun = self.cycles()?;
            self.driver.transport().counts = Counts::default();
            let key = match kind {
                Kind::Numbers => &self.tweak_key,
                Kind::Ecb => &self.data_key,
                Kind::Xts => &self.xts_key,
            };
            let slot = self.driver.seat(key).map_err(|e| failed(&e))?;
            // To ECB, all blocks are one data unit.
            let unit = if kind == Kind::Xts { UNIT } else { bytes.len() };
            let number = |n: usize| u32::try_from(n).map_err(|e| failed(&e));
            let descriptor = Descriptor {
                first: DataUnitNumber::from(u64::from(first)),
                stride: 1,
                unit_len: number(unit)?,
                units: number(bytes.len() / unit)?,
                slot: slot.ok_or("the simulated core has no free slot")?,
                direction,
                mode: if kind == Kind::Xts {
                    CoreMode::Xts
                } else {
                    CoreMode::Ecb
                },
            };
            self.driver
                .submit(&descriptor, bytes)
                .map_err(|e| failed(&e))?;
            let completion = self.driver.complete(bytes).map_err(|e| failed(&e))?;
            completion.status.map_err(|e| failed(&e))?;
            let counts = self.driver.transport().counts;
            let cycles = self.cycles()? - begun - self.between;
            Ok(Counts {
                cycles: cycles as f64,
                ..counts
            })
        }
    }

    /// The simulated core, with a count of what its driver does.
    struct Counted {
        model: Model,
        counts: Counts,
    }

    impl Transport for Counted {
        fn read(&mut self, register: u16) -> Result<u32, TransportError> {
            self.counts.reads += 1.0;
            self.model.read(register)
        }

        fn write(&mut self, register: u16, value: u32) -> Result<(), TransportError> {
            self.counts.writes += 1.0;
            self.model.write(register, value)
        }

        fn send(&mut self, packet: &[u8]) -> Result<(), TransportError> {
            self.counts.packets += 1.0;
            self.model.send(packet)
        }

        fn receive(
            &mut self,
            answer: &mut [u8],
            limit: u64,
        ) -> Result<Option<usize>, TransportError> {
            self.model.receive(answer, limit)
        }

        fn wait(&mut self, limit: u64) -> Result<bool, TransportError> {
            let interrupted = self.model.wait(limit)?;
            self.counts.interrupts += f64::from(u8::from(interrupted));
            Ok(interrupted)
        }

        fn abort(&mut self) -> Result<(), TransportError> {
            self.model.abort()
        }
    }

    impl Counts {
        fn add(&mut self, more: Self) {
            self.cycles += more.cycles;
            self.reads += more.reads;
            self.writes += more.writes;
            self.packets += more.packets;
            self.interrupts += more.interrupts;
        }

        fn by(self, requests: f64) -> Self {
            Self {
                cycles: self.cycles / requests,
                reads: self.reads / requests,
                writes: self.writes / requests,
                packets: self.packets / requests,
                interrupts: self.interrupts / requests,
            }
        }
    }

    fn by_the_engine(direction: Direction, input: &[u8]) -> Result<Vec<u8>, String> {
        let backend = Registry::cpu().best(Mode::Xts).map_err(|e| e.to_string())?;
        let key = backend
            .load_key(&KeySpec::Xts(short_key()))
            .map_err(|e| e.to_string())?;
        let mut output = vec![0; input.len()];
        let io = InOut::Separate {
            input,
            output: &mut output,
        };
        crypt(&*key, direction, 0_u64, UNIT, io)?;
        Ok(output)
    }

    #[cfg(test)]
    mod tests {
        use super::{
            super::{Cycles, counts},
            *,
        };

        const KINDS: [Kind; 3] = [Kind::Numbers, Kind::Ecb, Kind::Xts];

        #[test]
        fn the_committed_counts_are_those_of_the_simulation() {
            let fresh = measure().unwrap();
            let committed: Vec<Measured> = crate::committed::cycles("requests").unwrap();
            let text = serde_json::to_string(&fresh).unwrap();
            assert!(
                committed == fresh,
                "\"requests\" in cycles.json must be {text}"
            );
        }

        /// A block takes a cycle. The extra cycles of a request are fewer in ECB, which has no
        /// tweak.
        #[test]
        fn extended_requests_are_a_block_a_cycle_but_for_one_request() {
            let cycles = Cycles::from_requests(&measure().unwrap()).unwrap();
            for direction in Direction::ALL {
                let lines = KINDS.map(|kind| cycles.line(kind, direction));
                for (line, blocks) in lines.iter().zip([1.0, 32.0, 32.0]) {
                    assert!((line.next - blocks).abs() < 0.5, "{line:?}");
                    let least = blocks + 12.0;
                    assert!((least..least + 160.0).contains(&line.first), "{line:?}");
                }
                assert!(lines[1].first < lines[2].first, "{lines:?}");
            }
        }

        /// So what they cost is set-up, which extended requests save.
        #[test]
        fn the_accesses_of_a_request_do_not_depend_on_its_length() {
            let all = measure().unwrap();
            for direction in Direction::ALL {
                for (waiting, reads, interrupts) in [
                    (Waiting::Polling, 3.0, 0.0),
                    (Waiting::Interrupts, 2.0, 1.0),
                ] {
                    for kind in KINDS {
                        // The doorbell, the number's lowest word, and clearing the interrupt.
                        let number = f64::from(u8::from(kind == Kind::Xts));
                        let expected = Counts {
                            cycles: 0.0,
                            // HEAD and the status. HEAD moves a few cycles after the answer, so it
                            // is polled twice.
                            reads,
                            writes: 1.0 + number + interrupts,
                            packets: 1.0,
                            interrupts,
                        };
                        for found in counts(&all, kind, direction, waiting).unwrap() {
                            let found = Counts {
                                cycles: 0.0,
                                ..found
                            };
                            assert_eq!(found, expected, "{kind:?} {direction:?} {waiting:?}");
                        }
                    }
                }
            }
        }
    }
}
