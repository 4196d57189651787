// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configurations of Demir et al., 2020: the work of the co-processor, and that of the CPU.
//!
//! The simulation of the core runs a thousand times slower than the hardware, so only clock cycles
//! are taken from it ([`crate::papers::demir`]). Here the CPU's engine produces the same bytes, and a
//! request takes at least as long as on the core, including its setup. Tweaks and XORs are the
//! CPU's own work and take their real time.

use std::{
    hint,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use luxor_engine::{
    Backend, CryptError, CryptErrorKind, DataUnitLen, DataUnitNumber, Direction, InOut, KeySpec,
    LoadedKey, Mode, Run, XtsKey, check_runs, gf128,
};
use serde::{Deserialize, Serialize};

/// A configuration: the division of the work, and the length of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Configuration {
    pub(crate) work: Work,
    pub(crate) request_bytes: usize,
}

/// The division of the work between the CPU and the co-processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Work {
    /// The CPU does everything.
    Software,
    /// The co-processor does AES in ECB, in two requests: one for the data unit numbers and one for
    /// the data. The CPU does the powers of α and the XORs.
    Mixed,
    /// The co-processor does XTS.
    Offloaded,
}

pub(crate) const BLOCK: usize = 16;

/// Bytes of the paper's data units and sectors.
pub(crate) const UNIT: usize = 512;

/// The configuration with which all others must agree.
pub(crate) const SOFTWARE: Configuration = configuration(Work::Software, 4096);

/// The paper's configurations in its order, and last the one that it asks for.
pub(crate) const CONFIGURATIONS: [Configuration; 6] = [
    configuration(Work::Software, 512),
    configuration(Work::Software, 4096),
    configuration(Work::Mixed, 512),
    configuration(Work::Mixed, 4096),
    configuration(Work::Offloaded, 512),
    configuration(Work::Offloaded, 4096),
];

const fn configuration(work: Work, request_bytes: usize) -> Configuration {
    Configuration {
        work,
        request_bytes,
    }
}

impl Work {
    /// Returns the name in column heads.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Software => "software",
            Self::Mixed => "mixed",
            Self::Offloaded => "XTS co-processor",
        }
    }
}

impl Configuration {
    /// Describes the configuration in words.
    pub(crate) fn text(self) -> String {
        let work = match self.work {
            Work::Software => "software",
            Work::Mixed => "mixed: ECB by the co-processor",
            Work::Offloaded => "XTS by the co-processor",
        };
        format!("{work}, {} B", self.request_bytes)
    }
}

/// The time of the co-processor in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pace {
    pub(crate) encrypt: RequestTimes,
    pub(crate) decrypt: RequestTimes,
}

/// The time of the co-processor for a request, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RequestTimes {
    /// For encrypting the data unit numbers.
    pub(crate) numbers: Linear,
    /// For the data.
    pub(crate) data: Linear,
}

/// Nanoseconds or cycles, as a function of the number of 512-byte data units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct Linear {
    /// For a request of one unit.
    pub(crate) first: f64,
    /// For each further unit.
    pub(crate) next: f64,
}

impl Linear {
    pub(crate) fn at(self, units: usize) -> f64 {
        self.first + self.next * units.saturating_sub(1) as f64
    }

    fn time(self, units: usize) -> Duration {
        Duration::from_secs_f64(self.at(units) / 1e9)
    }
}

impl Pace {
    fn request_times(&self, direction: Direction) -> RequestTimes {
        match direction {
            Direction::Encrypt => self.encrypt,
            Direction::Decrypt => self.decrypt,
        }
    }
}

/// A configuration and its pace, as passed to a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Device {
    pub(crate) configuration: Configuration,
    pub(crate) pace: Pace,
}

impl Device {
    /// Formats the device for [`Device::from_word`].
    pub(crate) fn to_word(self) -> String {
        let Configuration {
            work,
            request_bytes,
        } = self.configuration;
        let Pace { encrypt, decrypt } = self.pace;
        let all = [encrypt.numbers, encrypt.data, decrypt.numbers, decrypt.data];
        let all = all.map(|Linear { first, next }| format!("{first} {next}"));
        format!("{} {request_bytes} {}", work as u8, all.join(" "))
    }

    /// Parses a device; `None` if `word` is not one.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        let mut words = word.split(' ');
        let work = match words.next()? {
            "0" => Work::Software,
            "1" => Work::Mixed,
            "2" => Work::Offloaded,
            _ => return None,
        };
        let request_bytes = words.next()?.parse().ok()?;
        let mut number = || words.next()?.parse().ok();
        let mut linear = || {
            Some(Linear {
                first: number()?,
                next: number()?,
            })
        };
        let mut times = || {
            Some(RequestTimes {
                numbers: linear()?,
                data: linear()?,
            })
        };
        let pace = Pace {
            encrypt: times()?,
            decrypt: times()?,
        };
        let configuration = Configuration {
            work,
            request_bytes,
        };
        words.next().is_none().then_some(Self {
            configuration,
            pace,
        })
    }
}

/// The time of each part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    /// The data unit numbers and the powers of α.
    pub(crate) tweaks: Duration,
    /// The part of `tweaks` that is the co-processor's, including the setup of requests.
    pub(crate) numbers: Duration,
    pub(crate) first_xor: Duration,
    pub(crate) second_xor: Duration,
    /// The co-processor's work on the data, including the setup of requests.
    pub(crate) device: Duration,
    /// Requests to the co-processor; in software, calls of the engine.
    pub(crate) requests: u64,
    /// Requests for which the CPU, acting as the co-processor, took longer than it would have.
    pub(crate) late: u64,
}

/// An XTS key in such a configuration. Requests run one after the other, as in the paper's driver.
pub(crate) struct Coprocessor {
    configuration: Configuration,
    pace: Pace,
    whole: Box<dyn LoadedKey>,
    data_key: Box<dyn LoadedKey>,
    tweak_key: Box<dyn LoadedKey>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    times: Times,
    numbers: Vec<u8>,
    tweaks: Vec<u8>,
}

impl Coprocessor {
    /// Loads `key` for `configuration`. `pace` is that of the co-processor's work.
    pub(crate) fn new(
        backend: &dyn Backend,
        key: XtsKey,
        configuration: Configuration,
        pace: Pace,
    ) -> Result<Self, String> {
        let load = |key: KeySpec| backend.load_key(&key).map_err(|e| e.to_string());
        Ok(Self {
            configuration,
            pace,
            data_key: load(KeySpec::Ecb(key.data_key().clone()))?,
            tweak_key: load(KeySpec::Ecb(key.tweak_key().clone()))?,
            whole: load(KeySpec::Xts(key))?,
            state: Mutex::default(),
        })
    }

    /// Returns the times since the last call.
    pub(crate) fn take_times(&self) -> Times {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut state.times)
    }

    fn request(
        &self,
        state: &mut State,
        direction: Direction,
        run: Run<'_>,
    ) -> Result<(), CryptError> {
        let pace = self.pace.request_times(direction);
        match self.configuration.work {
            Work::Software => {
                state.times.requests += 1;
                self.whole.crypt(direction, &mut [run])
            }
            Work::Offloaded => {
                let (begun, units) = (Instant::now(), run.len() / UNIT);
                self.whole.crypt(direction, &mut [run])?;
                let taken = state.times.wait(begun, pace.data.time(units));
                state.times.device += taken;
                Ok(())
            }
            Work::Mixed => self.mixed(state, direction, run, pace),
        }
    }

    fn mixed(
        &self,
        state: &mut State,
        direction: Direction,
        mut run: Run<'_>,
        pace: RequestTimes,
    ) -> Result<(), CryptError> {
        let State {
            times,
            numbers,
            tweaks,
        } = state;
        let mut clock = Lap::begin();
        numbers.clear();
        let mut number = run.first();
        for _ in 0..run.units() {
            numbers.extend(number.get().to_le_bytes());
            number = number.step(1, run.stride());
        }
        let begun = Instant::now();
        ecb(&*self.tweak_key, Direction::Encrypt, numbers)?;
        let taken = times.wait(begun, pace.numbers.time(run.units()));
        times.numbers += taken;
        tweaks.resize(run.len(), 0);
        let units = tweaks.chunks_exact_mut(run.unit_len().get());
        for (number, tweaks) in numbers.chunks_exact(BLOCK).zip(units) {
            powers(number, tweaks);
        }
        times.tweaks += clock.lap();
        xor(run.io(), tweaks);
        times.first_xor += clock.lap();
        ecb(&*self.data_key, direction, run.output())?;
        let taken = times.wait(clock.begun, pace.data.time(run.len() / UNIT));
        times.device += taken;
        clock.lap();
        xor(InOut::InPlace(run.output()), tweaks);
        times.second_xor += clock.lap();
        Ok(())
    }
}

impl LoadedKey for Coprocessor {
    fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
        check_runs(Mode::Xts, runs)?;
        for run in &*runs {
            let unit_len = run.unit_len().get();
            if !unit_len.is_multiple_of(UNIT) {
                let mode = Mode::Xts;
                return Err(CryptError::new(
                    0,
                    CryptErrorKind::UnitLen { mode, unit_len },
                ));
            }
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        for run in runs {
            let most = self.configuration.request_bytes / run.unit_len().get();
            let mut rest = run.reborrow();
            while !rest.is_empty() {
                let units = rest.units().min(most.max(1));
                let (request, after) = rest.split_at(units);
                self.request(&mut state, direction, request)
                    .map_err(|e| CryptError::new(done + e.done, e.kind))?;
                done += units;
                rest = after;
            }
        }
        Ok(())
    }
}

impl Times {
    /// Ends a request to the co-processor: waits until `time` has passed since `begun`. Returns the
    /// time that has passed.
    fn wait(&mut self, begun: Instant, time: Duration) -> Duration {
        let mut taken = begun.elapsed();
        self.requests += 1;
        self.late += u64::from(taken > time);
        while taken < time {
            hint::spin_loop();
            taken = begun.elapsed();
        }
        taken
    }
}

/// A clock that measures the parts of a request.
struct Lap {
    begun: Instant,
}

impl Lap {
    fn begin() -> Self {
        Self {
            begun: Instant::now(),
        }
    }

    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        let lap = now - self.begun;
        self.begun = now;
        lap
    }
}

/// Adds the tweaks to whole blocks. By words, because a loop over bytes takes most of the time in a
/// build with little optimisation.
pub(crate) fn xor(blocks: InOut<'_>, tweaks: &[u8]) {
    let sum = |a: [u8; 8], b: [u8; 8]| u64::from_ne_bytes(a) ^ u64::from_ne_bytes(b);
    let tweaks = tweaks.as_chunks().0.iter();
    match blocks {
        InOut::InPlace(words) => {
            for (word, tweak) in words.as_chunks_mut().0.iter_mut().zip(tweaks) {
                *word = sum(*word, *tweak).to_ne_bytes();
            }
        }
        InOut::Separate { input, output } => {
            let words = input.as_chunks().0.iter().zip(tweaks);
            for (to, (word, tweak)) in output.as_chunks_mut().0.iter_mut().zip(words) {
                *to = sum(*word, *tweak).to_ne_bytes();
            }
        }
    }
}

/// Processes whole blocks, each independently.
fn ecb(key: &dyn LoadedKey, direction: Direction, blocks: &mut [u8]) -> Result<(), CryptError> {
    let unit = DataUnitLen::new(blocks.len()).expect("a request is at most 16 MiB");
    let run =
        Run::new(DataUnitNumber::new(0), 1, unit, blocks).expect("the blocks are one data unit");
    key.crypt(direction, &mut [run])
}

/// Computes the tweaks of a data unit from the first one, in eight independent chains.
pub(crate) fn powers(first: &[u8], tweaks: &mut [u8]) {
    let mut tweak = u128::from_le_bytes(first.try_into().expect("a block has 16 bytes"));
    let mut eight = [0; 8];
    for power in &mut eight {
        *power = tweak;
        tweak = gf128::mul_alpha(tweak);
    }
    for blocks in tweaks.chunks_exact_mut(8 * BLOCK) {
        for (block, power) in blocks.chunks_exact_mut(BLOCK).zip(&mut eight) {
            block.copy_from_slice(&power.to_le_bytes());
            *power = gf128::mul_alpha8(*power);
        }
    }
}

#[cfg(test)]
mod tests {
    use luxor_engine::Registry;

    use super::*;

    fn bytes(len: usize) -> Vec<u8> {
        (0_u8..=255).cycle().take(len).collect()
    }

    fn key() -> XtsKey {
        XtsKey::new(&bytes(32)).unwrap()
    }

    /// In place and separate, with numbers that are not consecutive.
    #[test]
    fn every_configuration_agrees_with_the_reference() {
        let portable = Registry::cpu().get("portable").unwrap();
        for configuration in CONFIGURATIONS {
            let key = Coprocessor::new(&*portable, key(), configuration, Pace::default()).unwrap();
            for unit_len in [512, 1024, 4096, 8192] {
                let plain = bytes(unit_len * 9);
                let units = (0..).zip(plain.chunks(unit_len));
                let expected: Vec<u8> = units
                    .flat_map(|(n, unit)| {
                        let number = u128::MAX.wrapping_add(n * 8);
                        luxor_reference::xts_encrypt(&bytes(32), number, unit)
                    })
                    .collect();
                let unit = DataUnitLen::new(unit_len).unwrap();
                let mut found = vec![0; plain.len()];
                let apart = InOut::Separate {
                    input: &plain,
                    output: &mut found,
                };
                let first = DataUnitNumber::new(u128::MAX);
                let run = Run::new(first, 8, unit, apart).unwrap();
                key.crypt(Direction::Encrypt, &mut [run]).unwrap();
                assert!(found == expected, "{configuration:?} {unit_len}");
                let run = Run::new(first, 8, unit, found.as_mut_slice()).unwrap();
                key.crypt(Direction::Decrypt, &mut [run]).unwrap();
                assert!(found == plain, "{configuration:?} {unit_len}");
                // The mixed configuration sends two for each, and nine units may end with a shorter
                // one.
                let each = if configuration.work == Work::Mixed {
                    2
                } else {
                    1
                };
                let requests = 2 * (plain.len() / configuration.request_bytes.max(unit_len));
                let more = key.take_times().requests - (each * requests) as u64;
                assert!(more <= 4, "{configuration:?} {unit_len}: {more} too many");
            }
        }
    }

    #[test]
    fn a_device_is_read_back_from_its_word() {
        for configuration in CONFIGURATIONS {
            let linear = |first| Linear {
                first,
                next: 0.1 + 0.2,
            };
            let times = |first| RequestTimes {
                numbers: linear(first),
                data: linear(first + 1.0),
            };
            let pace = Pace {
                encrypt: times(29_959.5),
                decrypt: times(7.0),
            };
            let device = Device {
                configuration,
                pace,
            };
            assert_eq!(Device::from_word(&device.to_word()), Some(device));
        }
        for (word, valid) in [
            ("2 4096 0 0 0 0 0 0 0 0", true),
            ("3 4096 0 0 0 0 0 0 0 0", false),
            ("2 4096 0 0 0 0 0 0 0", false),
            ("2 4096 0 0 0 0 0 0 0 0 0", false),
        ] {
            assert_eq!(Device::from_word(word).is_some(), valid, "{word}");
        }
    }

    /// The time for the data, and in the mixed configuration that for their numbers too.
    #[test]
    fn a_request_takes_as_long_as_the_co_processor() {
        let portable = Registry::cpu().get("portable").unwrap();
        let pace = Pace {
            encrypt: RequestTimes {
                numbers: Linear {
                    first: 5e5,
                    next: 2e5,
                },
                data: Linear {
                    first: 1e6,
                    next: 1e5,
                },
            },
            ..Pace::default()
        };
        for (work, requests, numbers) in [(Work::Offloaded, 3, 0), (Work::Mixed, 6, 1900)] {
            let configuration = configuration(work, 4096);
            let key = Coprocessor::new(&*portable, key(), configuration, pace).unwrap();
            let mut data = bytes(3 * 4096);
            let unit = DataUnitLen::new(512).unwrap();
            let run = Run::new(DataUnitNumber::new(0), 1, unit, data.as_mut_slice()).unwrap();
            key.crypt(Direction::Encrypt, &mut [run]).unwrap();
            let times = key.take_times();
            assert_eq!(times.requests, requests);
            let least = Duration::from_micros;
            assert!(times.device >= least(3 * 1700), "{times:?}");
            assert!(times.numbers >= least(3 * numbers), "{times:?}");
            assert!(times.tweaks >= times.numbers, "{times:?}");
        }
    }
}
