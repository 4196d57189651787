// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells long images apart.

use std::hash::Hasher;

/// A hasher for images, which takes a small part of the time of the standard library's. Like any
/// hasher of 64 bits, it may give two images the same value, but for the images of a test that is as
/// good as impossible.
#[derive(Debug, Default)]
pub struct ImageHasher([u64; LANES]);

/// Chains of products that do not wait for each other.
const LANES: usize = 4;

/// Multiplies by the fraction of the golden ratio, and folds the product.
fn mixed(state: u64, word: u64) -> u64 {
    let product = u128::from(state ^ word) * 0x9e37_79b9_7f4a_7c15;
    let bytes = product.to_le_bytes();
    let (low, high) = bytes.split_at(8);
    u64_of(low) ^ u64_of(high).rotate_left(29) ^ 0x2545_f491_4f6c_dd1d
}

fn u64_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

impl ImageHasher {
    fn add(&mut self, piece: &[u8]) {
        for (lane, word) in self.0.iter_mut().zip(piece.chunks_exact(8)) {
            *lane = mixed(*lane, u64_of(word));
        }
    }
}

impl Hasher for ImageHasher {
    fn write(&mut self, bytes: &[u8]) {
        let pieces = bytes.chunks_exact(8 * LANES);
        let rest = pieces.remainder();
        for piece in pieces {
            self.add(piece);
        }
        if !rest.is_empty() {
            let mut last = [0; 8 * LANES];
            last[..rest.len()].copy_from_slice(rest);
            self.add(&last);
        }
    }

    fn finish(&self) -> u64 {
        self.0.into_iter().fold(0, mixed)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashSet,
        hash::{BuildHasher as _, BuildHasherDefault},
    };

    use super::*;

    #[test]
    fn images_that_differ_anywhere_have_different_hashes() {
        let hasher = BuildHasherDefault::<ImageHasher>::default();
        let mut seen = HashSet::new();
        for len in 0..40 {
            assert!(seen.insert(hasher.hash_one(vec![0_u8; len])), "{len}");
        }
        // Each bit, and each sector torn out of an image.
        for bit in 0..4096 * 8 {
            let mut image = vec![0_u8; 4096];
            image[bit / 8] ^= 1 << (bit % 8);
            assert!(seen.insert(hasher.hash_one(&image)), "{bit}");
        }
        let image: Vec<u8> = (0..4096_u32)
            .flat_map(|i| (i * 7 + 1).to_le_bytes())
            .collect();
        for kept in 0_u32..1 << 8 {
            let mut torn = image.clone();
            for (i, sector) in torn.chunks_mut(512).take(8).enumerate() {
                if kept >> i & 1 == 0 {
                    sector.fill(0);
                }
            }
            assert!(seen.insert(hasher.hash_one(&torn)), "{kept:#x}");
        }
    }
}
