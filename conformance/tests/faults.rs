// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the suite itself, with backends that have one fault each. The axis for that fault must
//! detect it.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use luxor_conformance::axes::{self, Cases};
use luxor_engine::{
    Backend, BackendError, BackendInfo, Buffer, CbcKey, Construction, CryptError, CryptErrorKind,
    DataUnitNumber, Direction, InOut, KeySpec, LoadedKey, Mode, ParallelOfbKey, Registry, Run,
    TweakSchedule, check_runs,
};
use luxor_reference::Aes;

/// The fault of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// No fault: shows that the test backend itself conforms.
    None,
    /// All units of a run get the number of the first.
    StrideIgnored,
    /// The number grows by one per unit, whatever the stride.
    StrideOfOne,
    /// The stride is truncated to 32 bits.
    StrideCut,
    /// The number's bytes are reversed.
    NumberReversed,
    /// Numbers wrap at 2³², as with dm-crypt's `plain`.
    NumberWrapsAt32,
    /// Numbers wrap at 2⁶⁴, as with dm-crypt's `plain64`.
    NumberWrapsAt64,
    /// Numbers stop at 2¹²⁸ − 1.
    NumberSaturates,
    /// Unit 64 of a run gets the number of unit 63.
    BatchOffByOne,
    /// The last bit of a unit's tweak is lost.
    CarryLost,
    /// With ciphertext stealing, the last byte of a unit is not processed.
    StealingTooShort,
    /// The result is wrong for a single unit length.
    OneLengthWrong,
    /// Decryption encrypts.
    OneWay,
    /// A separate output is not written.
    SeparateForgotten,
    /// Each part of a data unit is processed as a unit.
    PartsAsUnits,
    /// Only the first run of a call is processed.
    FirstRunOnly,
    /// An empty run ends the call.
    StopsAtEmpty,
    /// All threads share one variable for the number.
    SharedState,
    /// A bad unit length is detected only when its run is reached, and the error claims that
    /// nothing is finished.
    LateRefusal,
    /// A bad unit length is silently ignored.
    NoRefusal,
    /// The last bit of a key has no effect.
    KeyBitLost,
    /// ESSIV has no effect.
    EssivIgnored,
    /// In CBC, all units of a run form one chain.
    OneChain,
    /// Parallel OFB uses the tweaks of XTS instead of the printed ones.
    TweaksConfused,
    /// Parallel OFB uses its first chain alone.
    SecondChainForgotten,
    /// Parallel OFB adds no tweak after the encryption.
    OuterTweakForgotten,
    /// The backend supports a mode that it does not list.
    SecretMode,
    /// Allocated memory is not zero.
    DirtyMemory,
}

struct Faulty(Arc<dyn Backend>, Fault);

impl Backend for Faulty {
    fn info(&self) -> BackendInfo {
        let mut info = self.0.info();
        if self.1 == Fault::SecretMode {
            info.modes = &[Mode::Xts, Mode::Ecb, Mode::Ctr];
        }
        info
    }

    fn load_key(&self, key: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError> {
        let without_bit = |key: &luxor_engine::AesKey| {
            let mut bytes = key.expose().to_vec();
            *bytes.last_mut().unwrap() &= !1;
            luxor_engine::AesKey::new(&bytes).unwrap()
        };
        let key = match key {
            KeySpec::Ctr(key) if self.1 == Fault::KeyBitLost => KeySpec::Ctr(without_bit(key)),
            KeySpec::Cbc(key) if self.1 == Fault::EssivIgnored => {
                KeySpec::Cbc(CbcKey::plain(key.data_key().clone()))
            }
            KeySpec::ParallelOfb(key) => KeySpec::ParallelOfb(faulty_parallel(key, self.1)),
            other => other.clone(),
        };
        let mode = key.mode();
        let number_of_carry = match &key {
            KeySpec::Xts(key) => {
                let tweak_key = Aes::new(key.tweak_key().expose());
                u128::from_le_bytes(tweak_key.decrypt((1_u128 << 127).to_le_bytes()))
            }
            _ => 0,
        };
        Ok(Box::new(FaultyKey {
            key: self.0.load_key(&key)?,
            mode,
            number_of_carry,
            fault: self.1,
        }))
    }

    fn alloc(&self, len: usize) -> Buffer {
        let mut buffer = self.0.alloc(len);
        if self.1 == Fault::DirtyMemory {
            buffer.fill(1);
        }
        buffer
    }
}

fn faulty_parallel(key: &ParallelOfbKey, fault: Fault) -> ParallelOfbKey {
    let bytes = [key.first_key().expose(), key.second_key().expose()].concat();
    let (mut construction, mut schedule) = (key.construction(), key.schedule());
    let mut chains = key.chains();
    match fault {
        Fault::TweaksConfused => schedule = TweakSchedule::Alpha,
        Fault::SecondChainForgotten => chains = 1,
        Fault::OuterTweakForgotten => construction = Construction::Xe,
        _ => {}
    }
    if chains == 2 {
        ParallelOfbKey::new(&bytes, construction, schedule).unwrap()
    } else {
        ParallelOfbKey::one_chain(&bytes, construction, schedule).unwrap()
    }
}

struct FaultyKey {
    key: Box<dyn LoadedKey>,
    mode: Mode,
    /// The number of the unit whose tweak has the last bit alone.
    number_of_carry: u128,
    fault: Fault,
}

impl LoadedKey for FaultyKey {
    fn crypt(&self, direction: Direction, runs: &mut [Run<'_>]) -> Result<(), CryptError> {
        if !matches!(self.fault, Fault::LateRefusal | Fault::NoRefusal) {
            check_runs(self.mode, runs)?;
        }
        for run in runs {
            if run.is_empty() && self.fault == Fault::StopsAtEmpty {
                break;
            }
            if !self.mode.accepts_unit_len(run.unit_len().get()) {
                if self.fault == Fault::NoRefusal {
                    continue;
                }
                let (mode, unit_len) = (self.mode, run.unit_len().get());
                let kind = CryptErrorKind::UnitLen { mode, unit_len };
                return Err(CryptError::new(0, kind));
            }
            self.run(direction, run)?;
            if self.fault == Fault::FirstRunOnly {
                break;
            }
        }
        Ok(())
    }

    fn takes_parts_of_units(&self) -> bool {
        self.fault == Fault::PartsAsUnits && self.key.takes_parts_of_units()
    }
}

impl FaultyKey {
    /// Processes the run unit by unit, each with the number that the fault causes.
    fn run(&self, direction: Direction, run: &mut Run<'_>) -> Result<(), CryptError> {
        static SHARED: AtomicU64 = AtomicU64::new(0);

        let (first, stride, len) = (run.first().get(), run.stride(), run.unit_len());
        let direction = match self.fault {
            Fault::OneWay => Direction::Encrypt,
            _ => direction,
        };
        if self.fault == Fault::SeparateForgotten && matches!(run.buf(), InOut::Separate { .. }) {
            return Ok(());
        }
        let mut chained = None;
        for k in 0..run.units() as u128 {
            let number = |k: u128, stride: u64| first.wrapping_add(k * u128::from(stride));
            let number = match self.fault {
                Fault::StrideIgnored => first,
                Fault::StrideOfOne => number(k, 1),
                Fault::StrideCut => number(k, stride & u64::from(u32::MAX)),
                Fault::NumberReversed => number(k, stride).swap_bytes(),
                Fault::NumberWrapsAt32 => {
                    let high = first >> 32 << 32;
                    high | (number(k, stride) & u128::from(u32::MAX))
                }
                Fault::NumberWrapsAt64 => {
                    let high = first >> 64 << 64;
                    high | (number(k, stride) & u128::from(u64::MAX))
                }
                Fault::NumberSaturates => first.saturating_add(k * u128::from(stride)),
                Fault::BatchOffByOne if k == 64 => number(63, stride),
                Fault::SharedState => {
                    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
                    SHARED.store(number(k, stride) as u64, Ordering::SeqCst);
                    std::thread::yield_now();
                    number(k, stride) >> 64 << 64 | u128::from(SHARED.load(Ordering::SeqCst))
                }
                Fault::CarryLost if number(k, stride) == self.number_of_carry => 0,
                Fault::OneChain => chained.unwrap_or(first),
                _ => number(k, stride),
            };
            let at = usize::try_from(k).unwrap() * len.get();
            let (_, rest) = run.io().split_at(at);
            let (mut unit, _) = rest.split_at(len.get());
            let last = unit.input()[len.get() - 1];
            if self.fault == Fault::OneChain && self.mode == Mode::Cbc {
                chained = last_block(unit.input());
            }
            let one = Run::new(DataUnitNumber::new(number), 0, len, unit.reborrow()).unwrap();
            self.key.crypt(direction, &mut [one])?;
            if chained.is_some() && direction == Direction::Encrypt {
                chained = last_block(unit.output());
            }
            let last_of_output = &mut unit.output()[len.get() - 1];
            match self.fault {
                Fault::StealingTooShort if len.get() % 16 != 0 => *last_of_output = last,
                Fault::OneLengthWrong if len.get() == 1041 => *last_of_output ^= 1,
                _ => {}
            }
        }
        Ok(())
    }
}

fn last_block(bytes: &[u8]) -> Option<u128> {
    bytes.last_chunk().copied().map(u128::from_le_bytes)
}

type Axis = fn(&dyn Backend, Cases);

/// Each fault, with the axis that must detect it.
const FAULTS: &[(Fault, Axis)] = &[
    (Fault::StrideIgnored, axes::strides),
    (Fault::StrideIgnored, axes::units),
    (Fault::StrideOfOne, axes::strides),
    (Fault::StrideOfOne, axes::lengths),
    (Fault::StrideCut, axes::strides),
    (Fault::NumberReversed, axes::known_answers),
    (Fault::NumberReversed, axes::numbers),
    (Fault::NumberWrapsAt32, axes::numbers),
    (Fault::NumberWrapsAt64, axes::numbers),
    (Fault::NumberWrapsAt64, axes::units),
    (Fault::NumberSaturates, axes::numbers),
    (Fault::BatchOffByOne, axes::units),
    (Fault::BatchOffByOne, axes::numbers),
    (Fault::CarryLost, axes::masks),
    (Fault::StealingTooShort, axes::lengths),
    (Fault::StealingTooShort, axes::known_answers),
    (Fault::OneLengthWrong, axes::lengths),
    (Fault::OneWay, axes::known_answers),
    (Fault::OneWay, axes::lengths),
    (Fault::SeparateForgotten, axes::alignment),
    (Fault::SeparateForgotten, axes::lengths),
    (Fault::PartsAsUnits, axes::parts),
    (Fault::FirstRunOnly, axes::calls),
    (Fault::StopsAtEmpty, axes::calls),
    (Fault::SharedState, axes::threads),
    (Fault::LateRefusal, axes::refusals),
    (Fault::NoRefusal, axes::refusals),
    (Fault::KeyBitLost, axes::keys),
    (Fault::EssivIgnored, axes::known_answers),
    (Fault::EssivIgnored, axes::numbers),
    (Fault::OneChain, axes::units),
    (Fault::OneChain, axes::calls),
    (Fault::TweaksConfused, axes::known_answers),
    (Fault::TweaksConfused, axes::keys),
    (Fault::TweaksConfused, axes::units),
    (Fault::SecondChainForgotten, axes::known_answers),
    (Fault::SecondChainForgotten, axes::keys),
    (Fault::SecondChainForgotten, axes::units),
    (Fault::OuterTweakForgotten, axes::known_answers),
    (Fault::OuterTweakForgotten, axes::keys),
    (Fault::SecretMode, axes::refusals),
    (Fault::DirtyMemory, axes::memory),
];

fn conforms(fault: Fault, axis: Axis, cases: Cases) -> Result<(), String> {
    static BACKEND: OnceLock<Arc<dyn Backend>> = OnceLock::new();

    let backend = BACKEND.get_or_init(|| Registry::cpu().best(Mode::Xts).unwrap());
    let faulty = Faulty(Arc::clone(backend), fault);
    panic::catch_unwind(AssertUnwindSafe(|| axis(&faulty, cases))).map_err(|payload| {
        payload
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_default()
    })
}

#[test]
fn every_fault_is_noticed() {
    // The panics are expected: do not print them.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let outcomes: Vec<_> = FAULTS
        .iter()
        .flat_map(|fault| [(fault, Cases::All), (fault, Cases::Few)])
        .map(|(&(fault, axis), cases)| (fault, cases, conforms(fault, axis, cases)))
        .collect();
    panic::set_hook(hook);
    for (fault, cases, outcome) in outcomes {
        match outcome {
            // Those two faults concern one length and one bit, which are not among the few cases.
            Ok(())
                if cases == Cases::Few
                    && matches!(fault, Fault::OneLengthWrong | Fault::KeyBitLost) => {}
            Ok(()) => panic!("{fault:?} went unnoticed by {cases:?}"),
            Err(what) => println!("{fault:?}, {cases:?}: {what}"),
        }
    }
}

#[test]
fn the_double_without_a_fault_conforms() {
    for axis in [axes::identity, axes::units, axes::calls, axes::refusals] as [Axis; 4] {
        conforms(Fault::None, axis, Cases::All).unwrap();
    }
}
