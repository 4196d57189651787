// SPDX-License-Identifier: MIT OR Apache-2.0
//! The anti-forensic splitter (LUKS1 On-Disk Format Specification 1.2.3, section 2.4). It splits a
//! key into many stripes, all of which are needed to recover it. To destroy a keyslot it is then
//! enough that overwriting succeeds on a single sector of its area.
//!
//! ```text
//! split(key):  d = 0
//!              stripe 1 … n−1 = random;  d = H(d ⊕ stripe) after each
//!              stripe n = d ⊕ key
//! merge:       the same walk, and key = d ⊕ stripe n
//! H:           each digest-sized piece i of d becomes hash(i as 4 big-endian bytes ‖ piece),
//!              the last one cut to the piece's length
//! ```

use luxor_secret::SecretBytes;
use luxor_volume::HashAlgorithm;
use zeroize::Zeroize;

/// The only number of stripes that LUKS allows.
pub(crate) const STRIPES: u32 = 4000;
/// cryptsetup's limit on the length of keys in bytes. It bounds every allocation that depends on a
/// key length.
pub(crate) const MAX_KEY_LEN: u32 = 512;

/// The limit on the length in bytes of the key in a keyslot of LUKS2. One that opens no data may be longer
/// than a volume key.
pub(crate) const MAX_STORED_KEY_LEN: u32 = 8192;

/// Splits `key` into `stripes`. The length of `stripes` must be a multiple of the key's.
pub(crate) fn af_split(
    key: &[u8],
    stripes: &mut [u8],
    hash: HashAlgorithm,
) -> Result<(), getrandom::Error> {
    let (random, last) = stripes.split_at_mut(stripes.len() - key.len());
    getrandom::fill(random)?;
    let mut walk = SecretBytes::zeroed(key.len());
    fold(&mut walk, random, hash);
    for ((last, walk), key) in last.iter_mut().zip(walk.expose()).zip(key) {
        *last = walk ^ key;
    }
    Ok(())
}

/// Recovers the key of `key_len` bytes from its stripes.
pub(crate) fn af_merge(stripes: &[u8], key_len: usize, hash: HashAlgorithm) -> SecretBytes {
    let (random, last) = stripes.split_at(stripes.len() - key_len);
    let mut key = SecretBytes::zeroed(key_len);
    fold(&mut key, random, hash);
    for (key, last) in key.expose_mut().iter_mut().zip(last) {
        *key ^= last;
    }
    key
}

fn fold(walk: &mut SecretBytes, stripes: &[u8], hash: HashAlgorithm) {
    let len = walk.len();
    for stripe in stripes.chunks_exact(len) {
        for (walk, stripe) in walk.expose_mut().iter_mut().zip(stripe) {
            *walk ^= stripe;
        }
        diffuse(walk.expose_mut(), hash);
    }
}

fn diffuse(bytes: &mut [u8], hash: HashAlgorithm) {
    let mut digest = [0; 64];
    for (i, piece) in (0_u32..).zip(bytes.chunks_mut(hash.output_len())) {
        hash.digest_into(&[&i.to_be_bytes(), piece], &mut digest);
        piece.copy_from_slice(&digest[..piece.len()]);
    }
    digest.zeroize();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_undoes_splitting() {
        for hash in HashAlgorithm::ALL {
            // Lengths around those of the digests, so that the last piece is cut.
            for len in [16, 19, 20, 21, 31, 32, 33, 63, 64, 65, 100] {
                let key: Vec<u8> = (0..len).map(|i| u8::try_from(i).unwrap() ^ 0xa5).collect();
                let mut stripes = vec![0; len * 50];
                af_split(&key, &mut stripes, hash).unwrap();
                assert_eq!(af_merge(&stripes, len, hash).expose(), key);
                // Every stripe matters.
                for stripe in 0..50 {
                    stripes[stripe * len] ^= 1;
                    assert_ne!(af_merge(&stripes, len, hash).expose(), key, "{hash} {len}");
                    stripes[stripe * len] ^= 1;
                }
            }
        }
    }

    /// SHA-256 of 00000000 ‖ 32 zero bytes, computed with another program
    /// (`head -c 36 /dev/zero | sha256sum`).
    #[test]
    fn diffusion_is_the_hash_of_number_and_piece() {
        let mut bytes = [0; 32];
        diffuse(&mut bytes, HashAlgorithm::Sha256);
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(
            hex,
            "6db65fd59fd356f6729140571b5bcd6bb3b83492a16e1bf0a3884442fc3c8a0e"
        );
    }
}
