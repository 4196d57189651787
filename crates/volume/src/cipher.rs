// SPDX-License-Identifier: MIT OR Apache-2.0
//! The encryption of a segment or of a keyslot's area, by dm-crypt's names.

use luxor_engine::{AesKey, CbcKey, KeyError, KeySpec, Mode, XtsKey};
use luxor_sector::IvMode;
use zeroize::Zeroize;

use crate::hash::HashAlgorithm;

/// A cipher, its mode and its IV mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encryption {
    /// XTS-AES, the encryption of all new volumes.
    AesXtsPlain64,
    /// XTS-AES with 32-bit sector numbers.
    AesXtsPlain,
    /// AES-CBC with 32-bit sector numbers as IVs: old LUKS1 volumes.
    AesCbcPlain,
    /// AES-CBC with 64-bit sector numbers as IVs: old LUKS1 volumes.
    AesCbcPlain64,
    /// AES-CBC with encrypted sector numbers as IVs: LUKS1's default before XTS.
    AesCbcEssivSha256,
}

impl Encryption {
    /// All encryptions, for tests and tables.
    pub const ALL: [Self; 5] = [
        Self::AesXtsPlain64,
        Self::AesXtsPlain,
        Self::AesCbcPlain,
        Self::AesCbcPlain64,
        Self::AesCbcEssivSha256,
    ];

    /// The usual name in LUKS metadata, such as `aes-xts-plain64`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AesXtsPlain64 => "aes-xts-plain64",
            Self::AesXtsPlain => "aes-xts-plain",
            Self::AesCbcPlain => "aes-cbc-plain",
            Self::AesCbcPlain64 => "aes-cbc-plain64",
            Self::AesCbcEssivSha256 => "aes-cbc-essiv:sha256",
        }
    }

    /// The names of cipher and mode separately, as LUKS1 stores them: `aes` and `xts-plain64`.
    pub fn cipher_and_mode(self) -> (&'static str, &'static str) {
        self.name().split_once('-').unwrap_or_default()
    }

    /// The numbering of sectors.
    #[must_use]
    pub const fn iv_mode(self) -> IvMode {
        match self {
            Self::AesXtsPlain64 | Self::AesCbcPlain64 | Self::AesCbcEssivSha256 => IvMode::Plain64,
            Self::AesXtsPlain | Self::AesCbcPlain => IvMode::Plain,
        }
    }

    /// The mode of operation.
    #[must_use]
    pub const fn mode(self) -> Mode {
        match self {
            Self::AesXtsPlain64 | Self::AesXtsPlain => Mode::Xts,
            Self::AesCbcPlain | Self::AesCbcPlain64 | Self::AesCbcEssivSha256 => Mode::Cbc,
        }
    }

    /// The allowed lengths of a key in bytes, for AES-128 and AES-256: 32 and 64 for XTS, which has
    /// two AES keys, and 16 and 32 for CBC.
    #[must_use]
    pub const fn key_lens(self) -> [u32; 2] {
        match self.mode() {
            Mode::Xts => [32, 64],
            _ => [16, 32],
        }
    }

    /// The lengths in bytes of a key for AES-128, AES-192 and AES-256. AES-192 is not supported, but
    /// not wrong.
    #[must_use]
    pub const fn aes_key_lens(self) -> [u32; 3] {
        let [short, long] = self.key_lens();
        [short, u32::midpoint(short, long), long]
    }

    /// Returns the key in the engine's form.
    ///
    /// # Errors
    /// [`KeyError`]: the length is not one of [`Encryption::key_lens`], or the halves of an XTS key
    /// are equal.
    pub fn key_spec(self, key: &[u8]) -> Result<KeySpec, KeyError> {
        match self.mode() {
            Mode::Xts => XtsKey::new(key).map(KeySpec::Xts),
            _ => self.key_spec_permitting_equal_halves(key),
        }
    }

    /// Like [`Encryption::key_spec`], but permits equal halves, to read existing volumes.
    ///
    /// # Errors
    /// [`KeyError`]: the length is not one of [`Encryption::key_lens`].
    pub fn key_spec_permitting_equal_halves(self, key: &[u8]) -> Result<KeySpec, KeyError> {
        if self.mode() == Mode::Xts {
            return XtsKey::new_permitting_equal_halves(key).map(KeySpec::Xts);
        }
        if !self.key_lens().iter().any(|&len| key.len() == len as usize) {
            let (found, expected) = (key.len(), "16 or 32");
            return Err(KeyError::Length { found, expected });
        }
        let data = AesKey::new(key)?;
        if self != Self::AesCbcEssivSha256 {
            return Ok(KeySpec::Cbc(CbcKey::plain(data)));
        }
        let mut digest = [0; 64];
        HashAlgorithm::Sha256.digest_into(&[key], &mut digest);
        let mut hash = [0; 32];
        hash.copy_from_slice(&digest[..32]);
        let spec = KeySpec::Cbc(CbcKey::essiv_sha256(data, &hash));
        digest.zeroize();
        hash.zeroize();
        Ok(spec)
    }
}

/// Returns whether the name stands for a null cipher, which does not encrypt. The null IV of
/// `aes-cbc-null` is another thing.
pub fn is_cipher_null(encryption: &str) -> bool {
    // The kernel's names contain it, as in `capi:ecb(cipher_null)-plain`.
    encryption.contains("cipher_null") || encryption.split('-').next() == Some("null")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_one_encryption() {
        for encryption in Encryption::ALL {
            assert_eq!(Encryption::by_name(encryption.name()), Some(encryption));
            let name = encryption.name();
            assert_eq!(name.contains("xts"), encryption.mode() == Mode::Xts);
            assert_eq!(
                name.ends_with("plain"),
                encryption.iv_mode() == IvMode::Plain
            );
            for len in 0..=130 {
                let key: Vec<u8> = (0..len).collect();
                let accepted = encryption.key_spec(&key).is_ok();
                assert_eq!(
                    accepted,
                    encryption.key_lens().contains(&len.into()),
                    "{name} {len}"
                );
            }
        }
        for name in [
            "",
            "AES-XTS-PLAIN64",
            "aes-xts-plain64 ",
            "serpent-xts-plain64",
        ] {
            assert_eq!(Encryption::by_name(name), None, "{name}");
        }
    }

    #[test]
    fn equal_halves_matter_to_xts_only() {
        for encryption in Encryption::ALL {
            let key = [7; 32];
            assert!(encryption.key_spec_permitting_equal_halves(&key).is_ok());
            let refused = encryption.key_spec(&key).err() == Some(KeyError::EqualHalves);
            assert_eq!(refused, encryption.mode() == Mode::Xts);
        }
    }
}
