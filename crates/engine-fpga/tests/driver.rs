// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver on a double of the core.

mod double;
mod traffic;

use double::{Double, Fault, KeySlot, Options};
use luxor_conformance::Random;
use luxor_engine::{AesKey, DataUnitNumber, Direction, XtsKey};
use luxor_engine_fpga::{
    Driver, DriverError, Transport, TransportError, Waiting,
    driver::{CoreMode, Descriptor, DescriptorError, KeyError, SlotKey},
    registers as reg,
};
use luxor_reference as reference;

const WAYS: [Waiting; 2] = [Waiting::Polling, Waiting::Interrupts];

fn driver(double: &Double, waiting: Waiting) -> Driver<Double> {
    let mut driver = Driver::new(double.clone()).unwrap();
    driver.set_waiting(waiting).unwrap();
    driver
}

fn xts_key(seed: u8) -> (SlotKey, Vec<u8>) {
    let bytes: Vec<u8> = (0..32).map(|i| i ^ seed).collect();
    (SlotKey::xts(&XtsKey::new(&bytes).unwrap()), bytes)
}

/// A descriptor of `units` data units of 512 bytes.
fn descriptor(slot: u8, units: u32) -> Descriptor {
    Descriptor {
        first: DataUnitNumber::new(7),
        stride: 1,
        unit_len: 512,
        units,
        slot,
        direction: Direction::Encrypt,
        mode: CoreMode::Xts,
    }
}

#[test]
fn other_devices_are_not_taken_for_a_core() {
    for (options, expected) in [
        (
            Options {
                fault: Some(Fault::Id),
                ..Options::default()
            },
            DriverError::Id { found: 0x1234_5678 },
        ),
        (
            Options {
                fault: Some(Fault::Version),
                ..Options::default()
            },
            DriverError::Version { found: 0x0002_0000 },
        ),
        (
            Options {
                fault: Some(Fault::AllOnes { after: 0 }),
                ..Options::default()
            },
            DriverError::Id { found: u32::MAX },
        ),
        (
            Options {
                fault: Some(Fault::Dead { after: 0 }),
                ..Options::default()
            },
            TransportError::Dead { register: reg::ID }.into(),
        ),
        (
            Options {
                lanes: 3,
                ..Options::default()
            },
            DriverError::Config { bits: 0x1d25_22f3 },
        ),
        (
            Options {
                ring_log2: 4,
                ..Options::default()
            },
            DriverError::Config { bits: 0x1d24_22f1 },
        ),
    ] {
        let error = Driver::new(Double::with(&options)).err();
        assert_eq!(error, Some(expected));
    }
}

#[test]
fn the_configuration_is_printed_in_words() {
    let driver = Driver::new(Double::new()).unwrap();
    assert_eq!(
        driver.config().to_string(),
        "AES-128 and AES-256, encryption and decryption, counter mode, \
         tweaks in a unit of their own, 1 x 16 bytes per cycle, 2 registers per round, latency 29"
    );
}

#[test]
fn random_descriptors_are_those_of_the_reference() {
    let mut random = Random::for_test("random_descriptors");
    for lanes in [1, 2, 4] {
        for (stalls, waiting) in [
            (None, Waiting::Polling),
            (Some(random.u64()), Waiting::Polling),
            (None, Waiting::Interrupts),
            (Some(random.u64()), Waiting::Interrupts),
        ] {
            let double = Double::with(&Options {
                lanes,
                stalls,
                ..Options::default()
            });
            let mut driver = driver(&double, waiting);
            let good = traffic::random_descriptors(&mut driver, &mut random, 1500);
            assert!((1300..1500).contains(&good), "{good} good ones");
            assert!(
                double
                    .core()
                    .slots
                    .iter()
                    .all(|slot| matches!(slot, KeySlot::Empty | KeySlot::Equal))
            );
        }
    }
}

#[test]
fn a_slot_with_a_key_in_use_is_not_reassigned() {
    let double = Double::new();
    let mut driver = Driver::new(double.clone()).unwrap();
    let keys: Vec<_> = (0..6).map(|seed| xts_key(seed * 32).0).collect();
    let seats: Vec<_> = keys[..4]
        .iter()
        .map(|key| driver.seat(key).unwrap().unwrap())
        .collect();
    assert_eq!(seats, [0, 1, 2, 3]);
    // Using the first key again makes the second one the least recently used.
    assert_eq!(driver.seat(&keys[0]).unwrap(), Some(0));
    let packet = [1; 512];
    driver.submit(&descriptor(1, 1), &packet).unwrap();
    assert_eq!(driver.seat(&keys[4]).unwrap(), Some(2));
    for slot in [0, 2, 3] {
        driver.submit(&descriptor(slot, 1), &packet).unwrap();
    }
    assert_eq!(driver.seat(&keys[5]).unwrap(), None);
    assert_eq!(driver.seat(&keys[1]).unwrap(), Some(1), "it is there");
    assert_eq!(
        driver.forget(&keys[1]),
        Err(DriverError::Key(KeyError::InUse))
    );
    let mut answer = [0; 512];
    driver.complete(&mut answer).unwrap().status.unwrap();
    let (_, bytes) = xts_key(32);
    assert_eq!(answer.to_vec(), reference::xts_encrypt(&bytes, 7, &packet));
    assert_eq!(driver.seat(&keys[5]).unwrap(), Some(1));
    for _ in 0..3 {
        driver.complete(&mut answer).unwrap().status.unwrap();
    }
    assert_eq!(double.core().loads, 6);
}

#[test]
fn a_forgotten_key_is_zeroised() {
    let double = Double::new();
    let mut driver = Driver::new(double.clone()).unwrap();
    let (key, bytes) = xts_key(0);
    let (other, other_bytes) = xts_key(64);
    driver.seat(&key).unwrap();
    driver.seat(&other).unwrap();
    assert_eq!(double.core().slots[0], KeySlot::Key(bytes));
    driver.forget(&key).unwrap();
    assert_eq!(double.core().slots[0], KeySlot::Empty);
    // Forgetting a key twice is no error, and removes no other key.
    driver.forget(&key).unwrap();
    assert_eq!(double.core().slots[1], KeySlot::Key(other_bytes));
    drop(driver);
    assert!(double.core().is_clean());
}

#[test]
fn keys_of_ecb_and_ctr_have_another_tweak_key() {
    let double = Double::new();
    let mut driver = Driver::new(double.clone()).unwrap();
    let key = SlotKey::aes(&AesKey::new(&[0x0f; 32]).unwrap());
    driver.seat(&key).unwrap();
    let expected = KeySlot::Key([[0x0f; 32], [0xf0; 32]].concat());
    assert_eq!(double.core().slots[0], expected);
}

#[test]
fn equal_keys_are_refused_and_the_core_goes_on() {
    let double = Double::new();
    let mut driver = Driver::new(double.clone()).unwrap();
    let equal = XtsKey::new_permitting_equal_halves(&[7; 64]).unwrap();
    let equal = SlotKey::xts(&equal);
    for _ in 0..2 {
        let error = driver.seat(&equal).unwrap_err();
        assert_eq!(error, DriverError::Key(KeyError::Equal));
        assert!(!driver.is_lost());
    }
    driver.submit(&descriptor(0, 1), &[0; 512]).unwrap();
    let completion = driver.complete(&mut [0; 512]).unwrap();
    assert_eq!(completion.status, Err(DescriptorError::EqualKeys));
    assert_eq!(completion.len, 0);
    assert_eq!(driver.seat(&xts_key(0).0).unwrap(), Some(0));
}

#[test]
fn a_core_without_a_key_size_gets_no_such_key() {
    let double = Double::with(&Options {
        has: 0b1101,
        ..Options::default()
    });
    let mut driver = Driver::new(double.clone()).unwrap();
    let long = SlotKey::xts(&XtsKey::new(&(0..64).collect::<Vec<_>>()).unwrap());
    let error = driver.seat(&long).unwrap_err();
    assert_eq!(error, DriverError::Key(KeyError::Size));
    assert_eq!(driver.seat(&xts_key(0).0).unwrap(), Some(0));
    assert_eq!(double.core().loads, 1);
}

#[test]
fn a_direction_that_is_not_built_is_an_error() {
    let double = Double::with(&Options {
        has: 0b0111,
        ..Options::default()
    });
    let mut driver = Driver::new(double).unwrap();
    driver.seat(&xts_key(0).0).unwrap();
    for (direction, expected) in [
        (Direction::Decrypt, Err(DescriptorError::NoCipher)),
        (Direction::Encrypt, Ok(())),
    ] {
        let descriptor = Descriptor {
            direction,
            ..descriptor(0, 1)
        };
        driver.submit(&descriptor, &[0; 512]).unwrap();
        let completion = driver.complete(&mut [0; 512]).unwrap();
        assert_eq!(completion.status, expected);
    }
}

#[test]
fn words_that_stay_are_not_written_again() {
    let double = Double::new();
    let mut driver = Driver::new(double.clone()).unwrap();
    driver.seat(&xts_key(0).0).unwrap();
    let send = |driver: &mut Driver<Double>, count: u64| {
        for k in 0..count {
            let descriptor = Descriptor {
                first: DataUnitNumber::new(1000 + u128::from(k)),
                ..descriptor(0, 1)
            };
            driver.submit(&descriptor, &[0; 512]).unwrap();
            driver.complete(&mut [0; 512]).unwrap().status.unwrap();
        }
    };
    send(&mut driver, 32);
    assert_eq!(double.core().ring_writes, 32 * 9);
    send(&mut driver, 32);
    assert_eq!(
        double.core().ring_writes,
        32 * 9,
        "the same descriptors again"
    );
    driver.reset().unwrap();
    driver.seat(&xts_key(0).0).unwrap();
    send(&mut driver, 32);
    assert_eq!(double.core().ring_writes, 2 * 32 * 9, "after a reset");
}

#[test]
fn counters_continue_across_resets() {
    let mut driver = Driver::new(Double::new()).unwrap();
    let mut last = driver.counters().unwrap();
    assert_eq!((last.beats, last.blocks), (0, 0));
    for _ in 0..3 {
        driver.seat(&xts_key(0).0).unwrap();
        let stealing = Descriptor {
            unit_len: 40,
            units: 2,
            ..descriptor(0, 1)
        };
        driver.submit(&stealing, &[0; 96]).unwrap();
        driver.submit(&descriptor(9, 1), &[0; 512]).unwrap();
        driver.complete(&mut [0; 96]).unwrap().status.unwrap();
        driver.complete(&mut [0; 512]).unwrap().status.unwrap_err();
        let now = driver.counters().unwrap();
        // The refused descriptor produced a null beat.
        assert_eq!((now.beats, now.blocks), (last.beats + 7, last.blocks + 6));
        assert!(now.cycles > last.cycles + 7);
        driver.reset().unwrap();
        last = driver.counters().unwrap();
        assert_eq!((last.beats, last.blocks), (now.beats, now.blocks));
    }
}

#[test]
fn a_reset_stops_work_in_progress() {
    let double = Double::new();
    let mut driver = Driver::new(double.clone()).unwrap();
    for _ in 0..3 {
        let (key, bytes) = xts_key(0);
        driver.seat(&key).unwrap();
        for _ in 0..32 {
            driver.submit(&descriptor(0, 4), &[3; 2048]).unwrap();
        }
        assert_eq!(driver.room(), 0);
        let mut answer = [0; 2048];
        driver.complete(&mut answer).unwrap().status.unwrap();
        let expected = reference::xts_encrypt(&bytes, 8, &[3; 512]);
        assert_eq!(answer[512..1024], expected);
        driver.reset().unwrap();
        assert!(double.core().is_clean());
        assert_eq!(driver.room(), 32);
    }
}

#[test]
fn a_slow_core_does_not_time_out() {
    for waiting in WAYS {
        let double = Double::with(&Options {
            pace: 100_000,
            ..Options::default()
        });
        let mut driver = driver(&double, waiting);
        let (key, bytes) = xts_key(0);
        driver.seat(&key).unwrap();
        driver.submit(&descriptor(0, 1), &[9; 512]).unwrap();
        let mut answer = [0; 512];
        driver.complete(&mut answer).unwrap().status.unwrap();
        assert_eq!(
            answer.to_vec(),
            reference::xts_encrypt(&bytes, 7, &[9; 512])
        );
        assert!(driver.counters().unwrap().cycles > 3_000_000);
    }
}

/// Sends requests of a data unit, one after the other. Returns the cycles that they took.
fn one_after_the_other(driver: &mut Driver<Double>, count: u64) -> u64 {
    let (key, bytes) = xts_key(0);
    let slot = driver.seat(&key).unwrap().unwrap();
    let before = driver.counters().unwrap().cycles;
    for _ in 0..count {
        driver.submit(&descriptor(slot, 1), &[9; 512]).unwrap();
        let mut answer = [0; 512];
        driver.complete(&mut answer).unwrap().status.unwrap();
        let expected = reference::xts_encrypt(&bytes, 7, &[9; 512]);
        assert_eq!(answer.to_vec(), expected);
    }
    driver.settle().unwrap();
    driver.counters().unwrap().cycles - before
}

#[test]
fn a_request_takes_one_interrupt() {
    let double = Double::new();
    let mut driver = driver(&double, Waiting::Interrupts);
    // A wait for an interrupt that does not come takes a million cycles.
    assert!(one_after_the_other(&mut driver, 40) < 10_000);
    assert_eq!(double.core().waits, 40);
    driver.reset().unwrap();
    assert!(one_after_the_other(&mut driver, 40) < 10_000);
    assert_eq!(double.core().waits, 80, "after a reset");
    driver.set_waiting(Waiting::Polling).unwrap();
    one_after_the_other(&mut driver, 40);
    assert_eq!(double.core().waits, 80, "polling");
    assert_eq!(double.core().irq_enable, 0);
    driver.reset().unwrap();
    assert_eq!(double.core().irq_enable, 0);
}

#[test]
fn descriptors_that_are_done_share_an_interrupt() {
    let double = Double::new();
    let mut driver = driver(&double, Waiting::Interrupts);
    let slot = driver.seat(&xts_key(0).0).unwrap().unwrap();
    for _ in 0..8 {
        driver.submit(&descriptor(slot, 1), &[0; 512]).unwrap();
    }
    while driver.transport().read(reg::HEAD).unwrap() < 8 {}
    for _ in 0..8 {
        driver.complete(&mut [0; 512]).unwrap().status.unwrap();
    }
    assert_eq!(double.core().waits, 1);
}

/// A descriptor ends while the driver handles the interrupt of the one before it, at every distance
/// from it. A missed interrupt would take a million cycles.
#[test]
fn no_interrupt_is_missed_while_one_is_handled() {
    for distance in 1..60 {
        let double = Double::new();
        let mut driver = driver(&double, Waiting::Interrupts);
        let slot = driver.seat(&xts_key(0).0).unwrap().unwrap();
        let lens = [512, 16 * distance];
        for unit_len in lens {
            let descriptor = Descriptor {
                unit_len,
                ..descriptor(slot, 1)
            };
            let packet = vec![0; unit_len as usize];
            driver.submit(&descriptor, &packet).unwrap();
        }
        for unit_len in lens {
            let mut answer = vec![0; unit_len as usize];
            driver.complete(&mut answer).unwrap().status.unwrap();
        }
        let cycles = driver.counters().unwrap().cycles;
        assert!(cycles < 10_000, "{distance}: {cycles}");
    }
}

#[test]
fn an_interrupt_line_that_is_stuck_costs_only_time() {
    for (level, most) in [(false, 3_100_000), (true, 10_000)] {
        let double = Double::new();
        let mut driver = driver(&double, Waiting::Interrupts);
        double.core().irq_stuck = Some(level);
        let cycles = one_after_the_other(&mut driver, 3);
        assert!(cycles < most, "stuck at {level}: {cycles}");
        // A core that hangs is noticed all the same.
        let fault = Fault::Stuck { descriptor: 3 };
        double.break_with(fault);
        driver.submit(&descriptor(0, 1), &[9; 512]).unwrap();
        let error = driver.complete(&mut [0; 512]).unwrap_err();
        assert_eq!(error, DriverError::Hangs { cycles: 1_000_000 });
    }
}

/// Submits four descriptors of 1, 2, 3 and 4 data units, with a fault.
fn four_descriptors(fault: Fault, waiting: Waiting) -> (Double, Driver<Double>, DriverError) {
    let double = Double::new();
    let mut driver = driver(&double, waiting);
    let slot = driver.seat(&xts_key(0).0).unwrap().unwrap();
    double.break_with(fault);
    let result = (1..=4).try_for_each(|units| {
        let packet = vec![0; 512 * units as usize];
        driver.submit(&descriptor(slot, units), &packet)
    });
    let result = result.and_then(|()| {
        for _ in 0..4 {
            driver.complete(&mut [0; 2048])?.status.unwrap();
        }
        driver.settle()
    });
    (double, driver, result.expect_err("a fault"))
}

#[test]
fn every_fault_of_the_core_has_a_name() {
    let descriptor = 2;
    let hangs = DriverError::Hangs { cycles: 1_000_000 };
    let never = |what| DriverError::NeverEnds {
        what,
        polls: 100_000,
    };
    for (fault, expected) in [
        (
            Fault::Send { descriptor },
            TransportError::Other("the cable is out".into()).into(),
        ),
        (Fault::Stuck { descriptor }, hangs.clone()),
        (
            Fault::AnswerShort { descriptor },
            DriverError::AnswerLen {
                expected: 1536,
                found: 1520,
            },
        ),
        (
            Fault::AnswerLong { descriptor },
            DriverError::AnswerLen {
                expected: 1536,
                found: 1552,
            },
        ),
        // The fourth answer takes its place.
        (
            Fault::AnswerLost { descriptor },
            DriverError::AnswerLen {
                expected: 1536,
                found: 2048,
            },
        ),
        (Fault::AnswerLost { descriptor: 3 }, DriverError::AnswerLost),
        // The beats of ten units, and one beat more.
        (
            Fault::NullBeat { descriptor },
            DriverError::Babbles {
                found: 321,
                due: 320,
            },
        ),
        (Fault::NeverDone { descriptor }, never("a descriptor")),
        (
            Fault::HeadJumps { descriptor },
            DriverError::Head {
                head: 9,
                completed: 2,
                tail: 4,
            },
        ),
        (
            Fault::NoStatus { descriptor },
            DriverError::NotDone { status: 0 },
        ),
    ] {
        for waiting in WAYS {
            let (double, mut driver, error) = four_descriptors(fault, waiting);
            assert_eq!(error, expected, "{fault:?}, {waiting:?}");
            // From now on the driver trusts nothing that the core reports.
            assert!(driver.is_lost());
            assert_eq!(driver.seat(&xts_key(0).0), Err(DriverError::Lost));
            assert_eq!(driver.counters(), Err(DriverError::Lost));
            assert_eq!(driver.set_waiting(waiting), Err(DriverError::Lost));
            driver.reset().unwrap();
            assert!(double.core().is_clean());
            traffic::random_descriptors(&mut driver, &mut Random::new(1), 50);
        }
    }
}

#[test]
fn an_answer_without_an_end_is_noticed() {
    for (descriptor, waiting) in [
        (2, Waiting::Polling),
        (3, Waiting::Polling),
        (2, Waiting::Interrupts),
        (3, Waiting::Interrupts),
    ] {
        let (_, _, error) = four_descriptors(Fault::Babble { descriptor }, waiting);
        assert!(
            matches!(
                error,
                DriverError::Babbles {
                    found: 900_000..,
                    due: 324
                }
            ),
            "{error:?}"
        );
    }
}

#[test]
fn faults_of_key_commands_have_names() {
    let mut stuck = DriverError::NeverEnds {
        what: "a key command",
        polls: 100_000,
    };
    for (fault, expected) in [
        (Fault::KeyStuck, stuck.clone()),
        (Fault::KeyResult { code: 2 }, KeyError::NoSlot.into()),
        (Fault::KeyResult { code: 9 }, KeyError::Unknown(9).into()),
    ] {
        let double = Double::new();
        let mut driver = Driver::new(double.clone()).unwrap();
        double.break_with(fault);
        assert_eq!(driver.seat(&xts_key(0).0), Err(expected.clone()));
        // A key that the core does not clear is cleared by a reset.
        driver.reset().unwrap();
        let (key, _) = xts_key(0);
        driver.seat(&key).unwrap();
        double.break_with(fault);
        stuck = DriverError::NotCleared {
            cause: Box::new(expected),
        };
        assert_eq!(driver.forget(&key), Err(stuck.clone()));
        assert!(driver.is_lost());
        driver.forget(&key).unwrap();
        assert!(double.core().is_clean());
    }
}

#[test]
fn a_reset_that_does_nothing_is_noticed() {
    for (fault, expected) in [
        (
            Fault::ResetStuck,
            DriverError::NeverEnds {
                what: "a reset",
                polls: 100_000,
            },
        ),
        (
            Fault::ResetIgnored,
            DriverError::NotReset {
                register: reg::TAIL,
                found: 1,
            },
        ),
    ] {
        let double = Double::new();
        let mut driver = Driver::new(double.clone()).unwrap();
        double.break_with(fault);
        assert_eq!(driver.reset(), Err(expected));
        assert!(driver.is_lost());
        driver.reset().unwrap();
        assert_eq!(driver.seat(&xts_key(0).0).unwrap(), Some(0));
    }
}

#[test]
fn a_transport_may_fail_at_any_access() {
    for after in 0..120 {
        let faults = [Fault::BusError { after }, Fault::Dead { after }];
        let both = |fault| WAYS.map(|waiting| (fault, waiting));
        for (fault, waiting) in faults.into_iter().flat_map(both) {
            let double = Double::with(&Options {
                fault: Some(fault),
                ..Options::default()
            });
            let result = Driver::new(double.clone()).and_then(|mut driver| {
                driver.set_waiting(waiting)?;
                let slot = driver.seat(&xts_key(0).0)?.unwrap();
                for _ in 0..3 {
                    driver.submit(&descriptor(slot, 1), &[0; 512])?;
                }
                for _ in 0..3 {
                    driver.complete(&mut [0; 512])?.status.unwrap();
                }
                driver.forget(&xts_key(0).0)?;
                driver.settle()
            });
            match result {
                Err(
                    DriverError::Transport(
                        TransportError::Bus { .. } | TransportError::Dead { .. },
                    )
                    | DriverError::NotCleared { .. },
                ) => {}
                Ok(()) => assert!(after > 50, "only {after} accesses"),
                Err(error) => panic!("{fault:?}: {error}"),
            }
        }
    }
}
