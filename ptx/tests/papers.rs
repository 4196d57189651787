// SPDX-License-Identifier: MIT OR Apache-2.0
//! The committed PTX of the papers' kernels (`kernels/an_seo.h`, `kernels/sanida.h`) against the
//! reference, without a device.

use luxor_conformance::Random;
use luxor_ptx::{Grid, Machine, Module, Parameters};
use luxor_reference::{Aes, aes::multiply, multiply_by_alpha};

fn machine(text: &str) -> Machine {
    Machine::new(&Module::parse(text).unwrap()).unwrap()
}

/// Allocates memory with these bytes.
fn filled(machine: &mut Machine, bytes: &[u8]) -> u64 {
    let at = machine.alloc(bytes.len());
    machine.write(at, bytes).unwrap();
    at
}

/// Returns the data key's schedules: for encryption, and from word 60 on for the equivalent inverse
/// cipher.
fn load(machine: &mut Machine, slot: usize, key: &[u8]) {
    let aes = Aes::new(key);
    let rounds: Vec<&[[u8; 4]]> = aes.schedule().chunks(4).collect();
    let last = rounds.len() - 1;
    // FIPS 197, 5.3.5: the round keys in reverse order, the inner ones with InvMixColumns (5.3.3).
    let inverse = rounds.iter().rev().enumerate().flat_map(|(i, round)| {
        round.iter().map(move |column| match i {
            0 => *column,
            i if i == last => *column,
            _ => std::array::from_fn(|row| {
                let products = [0x0e, 0x0b, 0x0d, 0x09].into_iter().enumerate();
                products.fold(0, |sum, (k, factor)| {
                    sum ^ multiply(column[(row + k) % 4], factor)
                })
            }),
        })
    });
    let inverse: Vec<[u8; 4]> = inverse.collect();
    for (at, words) in [(0, aes.schedule()), (60, &inverse)] {
        let at = 4 * (192 * slot + at);
        machine
            .write_variable("luxor_keys", at, &words.concat())
            .unwrap();
    }
}

fn groups(items: usize, threads: u32) -> Grid {
    let blocks = u32::try_from(items).unwrap().div_ceil(threads);
    Grid::new(blocks, threads)
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap()
}

#[test]
fn an_and_seos_kernels() {
    let random = &mut Random::new(2022);
    let mut machine = machine(include_str!("../../kernels/ptx/an_seo.ptx"));
    for (bits, slot) in [(128, 3), (256, 63)] {
        let key = random.bytes(bits / 4);
        let (data_key, tweak_key) = key.split_at(bits / 8);
        load(&mut machine, slot, data_key);
        // One group and a part of another.
        let plaintext = random.bytes(16 * 1064);
        let mut tweaks = vec![Aes::new(tweak_key).encrypt(7_u128.to_le_bytes())];
        while tweaks.len() < plaintext.len() / 16 {
            tweaks.extend(tweaks.last().copied().map(multiply_by_alpha));
        }
        let input = filled(&mut machine, &plaintext);
        let output = machine.alloc(plaintext.len());
        for gap in [8, 128] {
            let starts: Vec<_> = tweaks.iter().copied().step_by(gap).collect();
            let tweaks = machine.alloc(16 * gap * starts.len());
            let count = starts.len();
            let starts = filled(&mut machine, &starts.concat());
            let parameters = Parameters::new()
                .u64(starts)
                .u64(tweaks)
                .u32(0)
                .u32(number(count))
                .u32(number(gap));
            machine
                .launch("an_seo_fill", groups(count, 1024), parameters.bytes())
                .unwrap();
            // Starts at block 5, so that a wrong beginning of a stream is noticed.
            for (from, to) in [(0, 5), (5, plaintext.len() / 16)] {
                let parameters = Parameters::new()
                    .u32(number(slot))
                    .u64(input)
                    .u64(output)
                    .u64(tweaks)
                    .u32(number(from))
                    .u32(number(to - from));
                let grid = groups(to - from, 1024).with_shared(32 << 10);
                machine
                    .launch(&format!("an_seo_encrypt_{bits}"), grid, parameters.bytes())
                    .unwrap();
            }
            let right = luxor_reference::xts_encrypt(&key, 7, &plaintext);
            assert_eq!(machine.read(output, right.len()).unwrap(), right, "{bits}");
            machine.write(output, &plaintext).unwrap();
        }
    }
}

#[test]
fn sanidas_kernels() {
    let random = &mut Random::new(2020);
    let mut machine = machine(include_str!("../../kernels/ptx/sanida.ptx"));
    for bits in [128, 192, 256] {
        let key = random.bytes(bits / 4);
        let (data_key, tweak_key) = key.split_at(bits / 8);
        load(&mut machine, 1, data_key);
        // More blocks than α²⁵⁶, and not a whole number of groups.
        let plaintext = random.bytes(16 * 261);
        let input = filled(&mut machine, &plaintext);
        let output = machine.alloc(plaintext.len());
        let counter = u128::MAX - 3;
        let ctr = luxor_reference::ctr(data_key, counter, &plaintext);
        let aes = Aes::new(data_key);
        let first_tweak = Aes::new(tweak_key).encrypt(7_u128.to_le_bytes());
        // The reference has no AES-192-XTS.
        let mut tweak = first_tweak;
        let mut xts = Vec::new();
        for block in plaintext.as_chunks::<16>().0 {
            let add = |a: [u8; 16]| std::array::from_fn(|i| a[i] ^ tweak[i]);
            xts.extend(add(aes.encrypt(add(*block))));
            tweak = multiply_by_alpha(tweak);
        }
        let ciphertext = filled(&mut machine, &xts);
        let modes = [
            ("ctr", input, counter.to_le_bytes(), ctr),
            ("xts_encrypt", input, first_tweak, xts),
            ("xts_decrypt", ciphertext, first_tweak, plaintext.clone()),
        ];
        for (mode, input, first, right) in modes {
            let first = filled(&mut machine, &first);
            // The emulator would report one byte per work-item as a race, because it tracks words
            // of the device's memory, not bytes.
            for per_item in [4, 8, 16] {
                machine.write(output, &vec![0; right.len()]).unwrap();
                let blocks = plaintext.len() / 16;
                let parameters = Parameters::new()
                    .u32(1)
                    .u64(input)
                    .u64(output)
                    .u64(first)
                    .u32(number(blocks));
                let local = 256 + 48 * 256 * per_item / 16;
                let grid = groups(blocks * (16 / per_item), 256).with_shared(number(local));
                let kernel = format!("sanida_{mode}_{bits}_{per_item}");
                machine.launch(&kernel, grid, parameters.bytes()).unwrap();
                let found = machine.read(output, right.len()).unwrap();
                assert!(found == right, "{kernel}");
            }
        }
    }
}
