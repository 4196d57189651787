// SPDX-License-Identifier: MIT OR Apache-2.0
//! The committed kernels on an emulated device, and their expected results.

use luxor_ptx::{Grid, Machine, Module, Parameters, RunError};
use luxor_reference::{
    Aes, Block, aes::multiply, ctr, multiply_by_alpha, xts_decrypt, xts_encrypt,
};

/// Threads of a block, and bytes of shared memory of its tables.
const THREADS: u64 = 1024;
const TABLES: u32 = 64 << 10;

/// The key's slot among the 64 in constant memory.
const SLOT: u32 = 5;

/// The bytes between the units, which must not change.
const BETWEEN: u8 = 0x77;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Encrypt,
    Decrypt,
}

/// Unit `i` from `start` on has the number `first` + `stride` × (`i` - `start`).
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub first: u128,
    pub stride: u64,
    pub start: u32,
}

/// Returns the number of unit `index`.
pub fn number(pieces: &[Piece], index: usize) -> u128 {
    let of = |piece: &&Piece| piece.start as usize <= index;
    let piece = pieces.iter().rev().find(of).unwrap();
    let steps = (index - piece.start as usize) as u128;
    piece
        .first
        .wrapping_add(steps.wrapping_mul(piece.stride.into()))
}

/// The layout of the units, and the number of thread blocks for them.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Blocks between the end of a unit and the next unit.
    pub gap: usize,
    pub in_place: bool,
    /// The most blocks of threads.
    pub most: u64,
}

/// Consecutive units on four blocks of threads.
pub const PLAIN: Layout = Layout {
    gap: 0,
    in_place: false,
    most: 4,
};

/// A device with a key. The first half of the key is the data key.
pub struct Gpu {
    machine: Machine,
    bits: usize,
    key: Vec<u8>,
}

impl Gpu {
    pub fn new(module: &Module, key: &[u8]) -> Self {
        let mut machine = Machine::new(module).unwrap();
        let (keys, len) = machine.variable_address(0, "luxor_keys").unwrap();
        // Fill the other slots, so that reading the wrong slot gives a wrong key.
        machine.write(keys, &vec![0x5c; len]).unwrap();
        let words: Vec<u8> = words(key).into_iter().flat_map(u32::to_le_bytes).collect();
        let at = u64::from(SLOT) * 768;
        machine.write(keys + at, &words).unwrap();
        // A kernel takes a few thousand instructions per stretch.
        machine.set_max_steps(1 << 20);
        // Tables have 32 copies, so that no look-up waits for another.
        machine.require_own_banks();
        let bits = key.len() * 4;
        let key = key.to_vec();
        Self { machine, bits, key }
    }

    /// Encrypts or decrypts XTS units of one length.
    pub fn xts(
        &mut self,
        way: Way,
        units: &[Vec<u8>],
        pieces: &[Piece],
        layout: Layout,
    ) -> Result<Vec<Vec<u8>>, RunError> {
        let (len, bits) = (units[0].len(), self.bits);
        let memory = Memory::new(&mut self.machine, units, pieces, layout);
        let count = small(units.len());
        let spu = small(len.div_ceil(16).div_ceil(256));
        let (whole, tail) = (len / 16, small(len % 16));
        let blocks = small(if tail == 0 { whole } else { whole - 1 });
        let params = Parameters::new()
            .u32(SLOT)
            .u64(memory.pieces)
            .u32(small(pieces.len()))
            .u32(count)
            .u32(spu)
            .u64(memory.tweaks);
        let stretches = u64::from(count) * u64::from(spu);
        let name = match way {
            Way::Encrypt => "encrypt",
            Way::Decrypt => "decrypt",
        };
        self.launch(&format!("xts_tweaks_{bits}"), stretches, layout, &params)?;
        let params = Parameters::new()
            .u32(SLOT)
            .u64(memory.input)
            .u64(memory.output)
            .u64(memory.tweaks)
            .u32(count)
            .u32(blocks)
            .u32(memory.pitch)
            .u32(spu);
        if blocks > 0 {
            let kernel = format!("xts_{name}_{bits}");
            self.launch(&kernel, stretches * 32, layout, &params)?;
        }
        if tail > 0 {
            let kernel = format!("xts_tails_{name}_{bits}");
            self.launch(&kernel, count.into(), layout, &params.u32(tail))?;
        }
        Ok(memory.into_units(&mut self.machine, units))
    }

    /// Computes the tweaks of `count` units with `spu` stretches each, without data.
    pub fn tweaks(&mut self, count: u32, spu: u32, pieces: &[Piece]) -> Vec<Block> {
        let one = [vec![0; 16]];
        let memory = Memory::new(&mut self.machine, &one, pieces, PLAIN);
        let stretches = u64::from(count) * u64::from(spu);
        let tweaks = self.machine.alloc(16 * count as usize * spu as usize);
        let params = Parameters::new()
            .u32(SLOT)
            .u64(memory.pieces)
            .u32(small(pieces.len()))
            .u32(count)
            .u32(spu)
            .u64(tweaks);
        let kernel = format!("xts_tweaks_{}", self.bits);
        self.launch(&kernel, stretches, PLAIN, &params).unwrap();
        memory.into_units(&mut self.machine, &one);
        let tweaks = self.machine.free(tweaks).unwrap();
        tweaks
            .chunks(16)
            .map(|tweak| tweak.try_into().unwrap())
            .collect()
    }

    /// Returns the expected tweaks of the first `spu` stretches of a unit.
    pub fn tweaks_expected(&self, spu: usize, number: u128) -> Vec<Block> {
        let tweak_key = Aes::new(&self.key[self.key.len() / 2..]);
        let mut tweak = tweak_key.encrypt(number.to_le_bytes());
        let stretches = std::iter::repeat_with(|| {
            let first = tweak;
            for _ in 0..256 {
                tweak = multiply_by_alpha(tweak);
            }
            first
        });
        stretches.take(spu).collect()
    }

    /// Encrypts or decrypts CTR units of one length.
    pub fn ctr(
        &mut self,
        units: &[Vec<u8>],
        pieces: &[Piece],
        layout: Layout,
    ) -> Result<Vec<Vec<u8>>, RunError> {
        let memory = Memory::new(&mut self.machine, units, pieces, layout);
        let len = units[0].len();
        let spu = small(len.div_ceil(16).div_ceil(256));
        let params = Parameters::new()
            .u32(SLOT)
            .u64(memory.input)
            .u64(memory.output)
            .u64(memory.pieces)
            .u32(small(pieces.len()))
            .u32(small(units.len()))
            .u32(small(len))
            .u32(memory.pitch)
            .u32(spu);
        let threads = units.len() as u64 * u64::from(spu) * 32;
        self.launch(&format!("ctr_{}", self.bits), threads, layout, &params)?;
        Ok(memory.into_units(&mut self.machine, units))
    }

    fn launch(
        &mut self,
        kernel: &str,
        threads: u64,
        layout: Layout,
        params: &Parameters,
    ) -> Result<(), RunError> {
        let blocks = threads.div_ceil(THREADS).min(layout.most);
        let grid = Grid::new(u32::try_from(blocks).unwrap(), 1024).with_shared(TABLES);
        self.machine.launch(kernel, grid, params.bytes())
    }

    /// Returns the expected units of XTS.
    pub fn xts_expected(&self, way: Way, units: &[Vec<u8>], pieces: &[Piece]) -> Vec<Vec<u8>> {
        let number = |index| number(pieces, index);
        let units = units.iter().enumerate();
        units
            .map(|(i, unit)| match (self.bits, way) {
                (192, _) => xts_192(&self.key, way, number(i), unit),
                (_, Way::Encrypt) => xts_encrypt(&self.key, number(i), unit),
                (_, Way::Decrypt) => xts_decrypt(&self.key, number(i), unit),
            })
            .collect()
    }

    /// Returns the expected units of CTR.
    pub fn ctr_expected(&self, units: &[Vec<u8>], pieces: &[Piece]) -> Vec<Vec<u8>> {
        let data_key = &self.key[..self.key.len() / 2];
        let units = units.iter().enumerate();
        units
            .map(|(i, unit)| ctr(data_key, number(pieces, i), unit))
            .collect()
    }
}

/// The buffers of a call.
struct Memory {
    input: u64,
    output: u64,
    tweaks: u64,
    pieces: u64,
    /// In blocks.
    pitch: u32,
}

impl Memory {
    fn new(machine: &mut Machine, units: &[Vec<u8>], pieces: &[Piece], layout: Layout) -> Self {
        let len = units[0].len();
        let pitch = 16 * (len.div_ceil(16) + layout.gap);
        // Nothing follows the last unit.
        let size = (units.len() - 1) * pitch + len.next_multiple_of(16);
        let mut bytes = vec![BETWEEN; size];
        for (place, unit) in bytes.chunks_mut(pitch).zip(units) {
            place[..len].copy_from_slice(unit);
        }
        let input = machine.alloc(size);
        machine.write(input, &bytes).unwrap();
        let output = if layout.in_place {
            input
        } else {
            let output = machine.alloc(size);
            machine.write(output, &vec![BETWEEN; size]).unwrap();
            output
        };
        let tweaks = machine.alloc(16 * units.len() * len.div_ceil(4096));
        let mut bytes = Vec::new();
        for piece in pieces {
            bytes.extend(piece.first.to_le_bytes());
            bytes.extend(piece.stride.to_le_bytes());
            bytes.extend(piece.start.to_le_bytes());
            bytes.extend([0; 4]);
        }
        let pieces = machine.alloc(bytes.len());
        machine.write(pieces, &bytes).unwrap();
        Self {
            input,
            output,
            tweaks,
            pieces,
            pitch: small(pitch / 16),
        }
    }

    /// Returns the units, and checks that nothing else has changed.
    fn into_units(self, machine: &mut Machine, units: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let (len, pitch) = (units[0].len(), 16 * self.pitch as usize);
        let output = machine.free(self.output).unwrap();
        let places = output.chunks(pitch);
        for place in places.clone() {
            assert!(place[len..].iter().all(|byte| *byte == BETWEEN));
        }
        if self.input != self.output {
            let input = machine.free(self.input).unwrap();
            for (place, unit) in input.chunks(pitch).zip(units) {
                assert_eq!(place[..len], unit[..], "the input has changed");
            }
        }
        machine.free(self.tweaks).unwrap();
        machine.free(self.pieces).unwrap();
        places.map(|place| place[..len].to_vec()).collect()
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap()
}

/// Returns the 192 words of a key: the schedules of the data key, of its inverse cipher, and of the
/// tweak key. Those for encryption are rotated for two tables (`kernels/aes.h`).
fn words(key: &[u8]) -> Vec<u32> {
    let (data, tweak) = key.split_at(key.len() / 2);
    let (data, tweak) = (Aes::new(data), Aes::new(tweak));
    let mut words = rotated(data.schedule());
    words.resize(60, 0);
    // FIPS 197, 5.3.5: the round keys in reverse order, the inner ones with InvMixColumns.
    let rounds: Vec<&[[u8; 4]]> = data.schedule().chunks(4).collect();
    for (i, round) in rounds.iter().rev().enumerate() {
        words.extend(round.iter().map(|column| {
            let between = i > 0 && i < rounds.len() - 1;
            u32::from_le_bytes(if between {
                inverse_mix(*column)
            } else {
                *column
            })
        }));
    }
    words.resize(120, 0);
    words.extend(rotated(tweak.schedule()));
    words.resize(192, 0);
    words
}

fn rotated(schedule: &[[u8; 4]]) -> Vec<u32> {
    let between = 4..schedule.len() - 4;
    let words = schedule.iter().map(|column| u32::from_le_bytes(*column));
    words
        .enumerate()
        .map(|(i, word)| {
            if between.contains(&i) {
                word.rotate_right(8)
            } else {
                word
            }
        })
        .collect()
}

/// `InvMixColumns` (FIPS 197, 5.3.3).
fn inverse_mix(column: [u8; 4]) -> [u8; 4] {
    std::array::from_fn(|row| {
        let terms = [14, 11, 13, 9].iter().enumerate();
        terms.fold(0, |sum, (i, factor)| {
            sum ^ multiply(column[(row + i) % 4], *factor)
        })
    })
}

/// XTS with AES-192, which IEEE 1619 does not have, by its 5.3.2 and 5.4.2.
fn xts_192(key: &[u8], way: Way, number: u128, unit: &[u8]) -> Vec<u8> {
    let (data, tweak) = key.split_at(24);
    let data = Aes::new(data);
    let mut t = Aes::new(tweak).encrypt(number.to_le_bytes());
    let xor = |a: Block, b: Block| -> Block { std::array::from_fn(|i| a[i] ^ b[i]) };
    let crypt = |block: &[u8], t: Block| {
        let block = xor(block.try_into().unwrap(), t);
        let block = match way {
            Way::Encrypt => data.encrypt(block),
            Way::Decrypt => data.decrypt(block),
        };
        xor(block, t)
    };
    let mut out = Vec::new();
    let tail = unit.len() % 16;
    let whole = unit.len() - tail - if tail == 0 { 0 } else { 16 };
    for block in unit[..whole].chunks(16) {
        out.extend(crypt(block, t));
        t = multiply_by_alpha(t);
    }
    if tail > 0 {
        let next = multiply_by_alpha(t);
        let (first, second) = match way {
            Way::Encrypt => (t, next),
            Way::Decrypt => (next, t),
        };
        let stolen = crypt(&unit[whole..whole + 16], first);
        let rest = [&unit[whole + 16..], &stolen[tail..]].concat();
        out.extend(crypt(&rest, second));
        out.extend(&stolen[..tail]);
    }
    out
}
