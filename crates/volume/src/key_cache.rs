// SPDX-License-Identifier: MIT OR Apache-2.0
//! Derived keys that are kept in memory, for programs that open many volumes with one secret.

use std::sync::{Mutex, MutexGuard, PoisonError};

use luxor_secret::SecretBytes;
use subtle::ConstantTimeEq;

use crate::pbkdf::{DeriveError, Kdf};

/// The number of keys that are kept. Each takes two pages of locked memory.
const KEPT: usize = 64;

/// Keeps the keys that were derived, so that volumes whose keyslots share secret, salt and costs
/// ([`PbkdfOptions::kdf`](crate::PbkdfOptions::kdf)) need one derivation together.
///
/// The secrets and keys are wiped when the cache is dropped, and in forked processes.
#[derive(Debug, Default)]
pub struct KeyCache(Mutex<Vec<Derived>>);

#[derive(Debug)]
struct Derived {
    kdf: Kdf,
    secret: SecretBytes,
    key: SecretBytes,
}

impl KeyCache {
    /// As [`Kdf::derive`], unless the key is known. Other threads wait meanwhile: a second derivation
    /// at the same time would take as much memory again.
    ///
    /// # Errors
    /// Those of [`Kdf::derive`].
    pub fn derive(&self, kdf: &Kdf, secret: &[u8], out: &mut [u8]) -> Result<(), DeriveError> {
        let mut known = self.known();
        let found = known
            .iter()
            .find(|known| known.kdf == *kdf && known.key.len() == out.len() && known.is_of(secret));
        if let Some(found) = found {
            out.copy_from_slice(found.key.expose());
            return Ok(());
        }
        kdf.derive(secret, out)?;
        if known.len() == KEPT {
            known.remove(0);
        }
        known.push(Derived {
            kdf: kdf.clone(),
            secret: SecretBytes::copy_of(secret),
            key: SecretBytes::copy_of(out),
        });
        Ok(())
    }

    /// Locks the keys, without those that a fork has wiped.
    fn known(&self) -> MutexGuard<'_, Vec<Derived>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| !known.secret.is_lost() && !known.key.is_lost());
        known
    }
}

impl Derived {
    fn is_of(&self, secret: &[u8]) -> bool {
        self.secret.expose().ct_eq(secret).into()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::{Argon2Kind, HashAlgorithm, PbkdfOptions};

    fn kdf(salt: u8) -> Kdf {
        Kdf::Pbkdf2 {
            hash: "sha256".into(),
            iterations: 1000,
            salt: vec![salt; 32],
        }
    }

    fn derived(kdf: &Kdf, secret: &[u8], len: usize) -> Vec<u8> {
        let mut key = vec![0; len];
        kdf.derive(secret, &mut key).unwrap();
        key
    }

    fn cached(cache: &KeyCache, kdf: &Kdf, secret: &[u8], len: usize) -> Vec<u8> {
        let mut key = vec![0; len];
        cache.derive(kdf, secret, &mut key).unwrap();
        key
    }

    /// A cache that says that this key is derived from the secret, which is not true.
    fn liar(kdf: &Kdf, secret: &[u8], key: &[u8]) -> KeyCache {
        let cache = KeyCache::default();
        cache.known().push(Derived {
            kdf: kdf.clone(),
            secret: SecretBytes::copy_of(secret),
            key: SecretBytes::copy_of(key),
        });
        cache
    }

    #[test]
    fn a_known_key_is_not_derived_again() {
        let cache = liar(&kdf(1), b"secret", &[7; 32]);
        assert_eq!(cached(&cache, &kdf(1), b"secret", 32), [7; 32]);
        assert_eq!(cache.known().len(), 1);
        // Only a derivation puts the right one there.
        let cache = KeyCache::default();
        for _ in 0..2 {
            let key = cached(&cache, &kdf(1), b"secret", 32);
            assert_eq!(key, derived(&kdf(1), b"secret", 32));
            assert_eq!(cache.known().len(), 1);
        }
    }

    #[test]
    fn a_key_is_known_for_its_derivation_secret_and_length_alone() {
        let cache = liar(&kdf(1), b"secret", &[7; 32]);
        let of = |hash: &str, iterations, salt: &[u8]| Kdf::Pbkdf2 {
            hash: hash.into(),
            iterations,
            salt: salt.to_vec(),
        };
        let mut cases = vec![
            (kdf(2), &b"secret"[..], 32),
            (of("sha256", 1001, &[1; 32]), b"secret", 32),
            (of("sha512", 1000, &[1; 32]), b"secret", 32),
            (of("sha256", 1000, &[1; 31]), b"secret", 32),
            (kdf(1), b"secret", 31),
            (kdf(1), b"secret", 33),
            (kdf(1), b"secret", 64),
        ];
        for secret in [
            &b""[..],
            b"s",
            b"secre",
            b"Secret",
            b"secreT",
            b"secret\0",
            b"secretsecret",
        ] {
            cases.push((kdf(1), secret, 32));
        }
        for (count, (kdf, secret, len)) in cases.iter().enumerate() {
            let key = cached(&cache, kdf, secret, *len);
            assert_eq!(key, derived(kdf, secret, *len), "{kdf:?} {secret:?} {len}");
            assert_eq!(cache.known().len(), 2 + count);
        }
        // All of them are known now, each for itself.
        for (kdf, secret, len) in &cases {
            let key = cached(&cache, kdf, secret, *len);
            assert_eq!(key, derived(kdf, secret, *len), "{kdf:?} {secret:?} {len}");
        }
        assert_eq!(cache.known().len(), 1 + cases.len());
        assert_eq!(cached(&cache, &kdf(1), b"secret", 32), [7; 32]);
    }

    #[test]
    fn the_oldest_key_makes_room() {
        let cache = liar(&kdf(0), b"secret", &[7; 32]);
        for salt in 1..=u8::try_from(KEPT).unwrap() {
            assert_eq!(cached(&cache, &kdf(0), b"secret", 32), [7; 32], "{salt}");
            cached(&cache, &kdf(salt), b"secret", 32);
        }
        assert_eq!(cache.known().len(), KEPT);
        let salts = |cache: &KeyCache| cache.known().iter().any(|known| known.kdf == kdf(1));
        assert!(salts(&cache));
        let key = cached(&cache, &kdf(0), b"secret", 32);
        assert_eq!(key, derived(&kdf(0), b"secret", 32));
        assert_eq!(cache.known().len(), KEPT);
        assert!(!salts(&cache));
    }

    #[test]
    fn errors_are_not_kept() {
        let cache = KeyCache::default();
        let unknown = Kdf::Pbkdf2 {
            hash: "rot13".into(),
            iterations: 1000,
            salt: vec![1; 32],
        };
        let huge = Kdf::Argon2 {
            kind: Argon2Kind::Id,
            time: 4,
            memory_kib: u32::MAX,
            parallel: 1,
            salt: vec![1; 32],
        };
        for kdf in [&unknown, &huge] {
            for _ in 0..2 {
                let mut key = [9; 32];
                assert!(cache.derive(kdf, b"secret", &mut key).is_err());
                assert!(cache.known().is_empty());
            }
        }
        cached(&cache, &kdf(1), b"secret", 32);
        assert_eq!(cache.known().len(), 1);
    }

    /// Threads that want the same key wait for one derivation.
    #[test]
    fn threads_derive_a_key_once() {
        let cache = KeyCache::default();
        let expected = derived(&kdf(1), b"secret", 64);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        assert_eq!(cached(&cache, &kdf(1), b"secret", 64), expected);
                    }
                });
            }
        });
        assert_eq!(cache.known().len(), 1);
    }

    #[test]
    fn options_use_their_cache() {
        let options = PbkdfOptions {
            cache: Some(liar(&kdf(1), b"secret", &[7; 32]).into()),
            ..PbkdfOptions::like(kdf(1))
        };
        let kdf = options
            .choose(HashAlgorithm::Sha256, vec![2; 32], 32)
            .unwrap();
        let mut key = [0; 32];
        options.derive(&kdf, b"secret", &mut key).unwrap();
        assert_eq!(key, [7; 32]);
        let without = PbkdfOptions {
            cache: None,
            ..options
        };
        without.derive(&kdf, b"secret", &mut key).unwrap();
        assert_eq!(key[..], derived(&kdf, b"secret", 32));
    }

    #[test]
    fn debug_shows_no_secret() {
        let words = format!("{:?}", liar(&kdf(1), b"secret", &[7; 32]));
        for hidden in ["secret: SecretBytes(6 bytes)", "key: SecretBytes(32 bytes)"] {
            assert!(words.contains(hidden), "{words}");
        }
    }
}
