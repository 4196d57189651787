// SPDX-License-Identifier: MIT OR Apache-2.0
//! The committed PTX of `kernels/` against the reference, and against itself with one instruction
//! changed.

mod gpu;
mod mutations;

use std::sync::LazyLock;

use gpu::{Gpu, Layout, PLAIN, Piece, Way, number};
use luxor_conformance::Random;
use luxor_ptx::Module;

/// Returns the module for a key size.
pub fn module(bits: usize) -> &'static Module {
    static MODULES: LazyLock<[Module; 3]> = LazyLock::new(|| {
        [
            include_str!("../../../kernels/ptx/aes128.ptx"),
            include_str!("../../../kernels/ptx/aes192.ptx"),
            include_str!("../../../kernels/ptx/aes256.ptx"),
        ]
        .map(|text| Module::parse(text).unwrap())
    });
    &MODULES[bits / 64 - 2]
}

const SIZES: [usize; 3] = [128, 192, 256];

/// Units of one length, with random contents.
fn units(random: &mut Random, count: usize, len: usize) -> Vec<Vec<u8>> {
    (0..count).map(|_| random.bytes(len)).collect()
}

/// Numbers that wrap at 2³², 2⁶⁴ and 2¹²⁸, with steps of several lengths.
fn wrapping(count: usize) -> Vec<Piece> {
    let pieces = [
        (u128::from(u32::MAX) - 1, 1),
        (u128::from(u64::MAX) - 9, 8),
        (u128::MAX - 2, 1),
        (u128::MAX - 100, u64::MAX),
        (1 << 100, u64::MAX - 3),
        (7, 0),
    ];
    let pieces = pieces.into_iter().zip(0..).map(|((first, stride), i)| {
        // Pieces of different lengths, short ones first.
        let start = u32::try_from(count).unwrap() * i * i / 36;
        Piece {
            first,
            stride,
            start,
        }
    });
    let mut pieces: Vec<Piece> = pieces.collect();
    pieces.dedup_by_key(|piece| piece.start);
    pieces
}

/// Both directions, in place and not.
fn check_xts(gpu: &mut Gpu, random: &mut Random, count: usize, len: usize, layout: Layout) {
    let units = units(random, count, len);
    let pieces = wrapping(count);
    for way in [Way::Encrypt, Way::Decrypt] {
        let found = gpu.xts(way, &units, &pieces, layout);
        let found = found.unwrap_or_else(|error| panic!("{count} units of {len}: {error}"));
        let expected = gpu.xts_expected(way, &units, &pieces);
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!(
                found == expected,
                "{way:?}, unit {i} of {count} with {len} bytes, {layout:?}"
            );
        }
    }
}

/// Ciphertext stealing, short last stretches, several stretches, more units than threads in a warp;
/// up to 256 KiB each.
#[test]
fn xts_of_all_unit_lengths() {
    for bits in SIZES {
        let mut random = Random::for_test("xts_of_all_unit_lengths");
        let mut gpu = Gpu::new(module(bits), &random.bytes(bits / 4));
        for (count, len, in_place) in [
            (1, 16, false),
            (100, 16, true),
            (70, 32, false),
            (64, 512, true),
            (33, 520, false),
            (40, 4096, false),
            (4, 65536, true),
        ] {
            let layout = Layout {
                gap: count % 3,
                in_place,
                ..PLAIN
            };
            check_xts(&mut gpu, &mut random, count, len, layout);
        }
    }
}

/// All lengths of a tail: after no blocks, after a part of a stretch, and after whole stretches.
#[test]
fn xts_with_ciphertext_stealing() {
    let mut random = Random::for_test("xts_with_ciphertext_stealing");
    for bits in SIZES {
        let mut gpu = Gpu::new(module(bits), &random.bytes(bits / 4));
        for tail in 1..16 {
            for whole in [1, 34, 256, 257] {
                if bits != 128 && tail != 7 && whole != 34 {
                    continue;
                }
                let layout = Layout {
                    in_place: tail % 2 == 0,
                    ..PLAIN
                };
                check_xts(&mut gpu, &mut random, 3, 16 * whole + tail, layout);
            }
        }
    }
}

/// More units than threads in the grid, so that each thread processes several.
#[test]
fn many_units() {
    let mut random = Random::for_test("many_units");
    let mut gpu = Gpu::new(module(128), &random.bytes(32));
    for most in [1, 3] {
        let layout = Layout { most, ..PLAIN };
        check_xts(&mut gpu, &mut random, 10_000, 16, layout);
        check_xts(&mut gpu, &mut random, 4100, 17, layout);
    }
    let layout = Layout { most: 1, ..PLAIN };
    // Steps of warps that end within a unit's stretches.
    check_xts(&mut gpu, &mut random, 13, 16 * 256 * 4 + 16, layout);
}

/// Only the tweaks of units of 1 MiB and of 20 MiB.
#[test]
fn tweaks_of_long_units() {
    let mut random = Random::for_test("tweaks_of_long_units");
    for bits in SIZES {
        let mut gpu = Gpu::new(module(bits), &random.bytes(bits / 4));
        for (count, spu) in [(3, 256), (1, 5000)] {
            let pieces = wrapping(count);
            let found = gpu.tweaks(u32::try_from(count).unwrap(), spu, &pieces);
            for (i, found) in found.chunks(spu as usize).enumerate() {
                let expected = gpu.tweaks_expected(spu as usize, number(&pieces, i));
                assert!(found == expected, "{bits}, unit {i} of {spu} stretches");
            }
        }
    }
}

/// Any length, counters that wrap, and units that end with a partial block.
#[test]
fn ctr_of_all_unit_lengths() {
    for bits in SIZES {
        let mut random = Random::for_test("ctr_of_all_unit_lengths");
        let mut gpu = Gpu::new(module(bits), &random.bytes(bits / 4));
        for (count, len) in [
            (5, 1),
            (70, 15),
            (100, 16),
            (33, 17),
            (33, 520),
            (20, 4096),
            (9, 4097),
            (4, 65536),
            (2, 100_001),
        ] {
            let units = units(&mut random, count, len);
            let pieces = wrapping(count);
            let layout = Layout {
                gap: len % 3,
                in_place: len % 2 == 0,
                ..PLAIN
            };
            let found = gpu.ctr(&units, &pieces, layout).unwrap();
            assert!(
                found == gpu.ctr_expected(&units, &pieces),
                "{bits}, {count} units of {len}"
            );
        }
    }
}
