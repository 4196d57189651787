// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every kernel and mode on short runs in allocations of exactly their length, so that Miri and
//! `AddressSanitizer` see each access beyond them. The bytes are checked by longer tests.

use std::array;

use luxor_engine::{
    AesKey, CbcKey, Construction, DataUnitLen, DataUnitNumber, Direction, InOut, KeySpec,
    LoadedKey, ParallelOfbKey, Registry, Run, TweakSchedule, XtsKey,
};

/// Lengths of a unit, and numbers of units: less than a register, a register, around the passes of 8,
/// 16 and 32 blocks, and several passes, with and without ciphertext stealing.
const SHAPES: &[(usize, usize)] = &[
    (16, 1),
    (17, 1),
    (64, 3),
    (16, 9),
    (127, 1),
    (144, 2),
    (256, 2),
    (271, 1),
    (512, 2),
    (528, 1),
    (1055, 1),
];

fn keys() -> Vec<KeySpec> {
    let bytes: [u8; 64] = array::from_fn(|i| u8::try_from(i).unwrap());
    let aes = |len| AesKey::new(&bytes[..len]).unwrap();
    let ofb = |construction| {
        let schedule = TweakSchedule::Alpha;
        ParallelOfbKey::new(&bytes[..32], construction, schedule).unwrap()
    };
    vec![
        KeySpec::Xts(XtsKey::new(&bytes[..32]).unwrap()),
        KeySpec::Xts(XtsKey::new(&bytes).unwrap()),
        KeySpec::Ecb(aes(24)),
        KeySpec::Ctr(aes(16)),
        KeySpec::Cbc(CbcKey::plain(aes(16))),
        KeySpec::Cbc(CbcKey::essiv_sha256(aes(16), &array::from_fn(|_| 3))),
        KeySpec::Ofb(aes(32)),
        KeySpec::ParallelOfb(ofb(Construction::Xex)),
        KeySpec::ParallelOfb(ofb(Construction::Xe)),
    ]
}

/// Returns the output for `input`, which `key` must make in place and in another buffer.
fn crypt(key: &dyn LoadedKey, direction: Direction, unit_len: usize, input: &[u8]) -> Box<[u8]> {
    let unit_len = DataUnitLen::beyond_the_standard(unit_len).unwrap();
    let run = |buf| Run::new(DataUnitNumber::new(u128::MAX - 1), 3, unit_len, buf).unwrap();
    let mut in_place: Box<[u8]> = input.into();
    let buf = InOut::InPlace(&mut in_place);
    key.crypt(direction, &mut [run(buf)]).unwrap();
    let mut output = vec![0; input.len()].into_boxed_slice();
    let buf = InOut::Separate {
        input,
        output: &mut output,
    };
    key.crypt(direction, &mut [run(buf)]).unwrap();
    assert_eq!(in_place, output);
    output
}

#[test]
fn kernels_stay_within_short_runs() {
    let registry = Registry::cpu();
    let mut kernels = 0;
    for (name, backend) in registry.probe_all() {
        let Ok(backend) = backend else { continue };
        kernels += 1;
        for spec in keys() {
            let mode = spec.mode();
            let key = backend.load_key(&spec).unwrap();
            for &(unit_len, units) in SHAPES {
                let is_slow = cfg!(miri) && (name == "portable" || mode.is_feedback());
                if !mode.accepts_unit_len(unit_len) || is_slow && unit_len * units > 144 {
                    continue;
                }
                let input: Box<[u8]> = (0..251).cycle().take(unit_len * units).collect();
                let output = crypt(&*key, Direction::Encrypt, unit_len, &input);
                let back = crypt(&*key, Direction::Decrypt, unit_len, &output);
                assert_eq!(back, input, "{name}, {mode}, {units} × {unit_len} bytes");
            }
        }
    }
    assert!(kernels > 0);
}
