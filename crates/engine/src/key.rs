// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys as a backend gets them, before any key schedule.

use core::fmt;

use subtle::ConstantTimeEq;

use crate::secret::SecretBytes;

/// Which AES: the length of one cipher key (FIPS 197, table 3). XTS has two of
/// them, so `Aes256` means 512 bits of key there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeySize {
    /// 16 bytes, 10 rounds.
    Aes128,
    /// 32 bytes, 14 rounds.
    Aes256,
}

impl KeySize {
    /// Both, for tests and tables.
    pub const ALL: [Self; 2] = [Self::Aes128, Self::Aes256];

    /// The length of one cipher key in bytes: 16 or 32.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Aes128 => 16,
            Self::Aes256 => 32,
        }
    }

    /// The number of rounds: 10 or 14.
    #[must_use]
    pub const fn rounds(self) -> usize {
        match self {
            Self::Aes128 => 10,
            Self::Aes256 => 14,
        }
    }

    fn from_bytes(bytes: usize) -> Option<Self> {
        match bytes {
            16 => Some(Self::Aes128),
            32 => Some(Self::Aes256),
            _ => None,
        }
    }
}

/// One AES key. Wiped when dropped.
#[derive(Clone)]
pub struct AesKey {
    size: KeySize,
    bytes: SecretBytes,
}

impl AesKey {
    /// A key from its 16 or 32 bytes.
    ///
    /// # Errors
    /// [`KeyError::Length`] for any other length.
    pub fn new(bytes: &[u8]) -> Result<Self, KeyError> {
        let size = KeySize::from_bytes(bytes.len()).ok_or(KeyError::Length {
            found: bytes.len(),
            expected: "16 or 32",
        })?;
        Ok(Self {
            size,
            bytes: SecretBytes::copy_of(bytes),
        })
    }

    /// AES-128 or AES-256.
    #[must_use]
    pub fn size(&self) -> KeySize {
        self.size
    }

    /// The key's 16 or 32 bytes.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        self.bytes.expose()
    }
}

impl fmt::Debug for AesKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AesKey({:?})", self.size)
    }
}

/// The two keys of XTS-AES (IEEE 1619-2007, 5.1): Key1, the data key, and Key2,
/// the tweak key. They are never equal (FIPS 140-3 IG C.I).
#[derive(Clone, Debug)]
pub struct XtsKey {
    data: AesKey,
    tweak: AesKey,
}

impl XtsKey {
    /// From the data key followed by the tweak key: 32 or 64 bytes together, as
    /// LUKS volume keys and `openssl enc` have them.
    ///
    /// # Errors
    /// [`KeyError::Length`] for any other length, [`KeyError::EqualHalves`] when
    /// the two keys are the same.
    pub fn new(bytes: &[u8]) -> Result<Self, KeyError> {
        let key = Self::new_permitting_equal_halves(bytes)?;
        if bool::from(key.data.expose().ct_eq(key.tweak.expose())) {
            return Err(KeyError::EqualHalves);
        }
        Ok(key)
    }

    /// As [`XtsKey::new`], but equal halves pass. For IEEE 1619-2007's vector 1
    /// and for reading a volume that has such a key; never for making one.
    #[doc(hidden)]
    pub fn new_permitting_equal_halves(bytes: &[u8]) -> Result<Self, KeyError> {
        if !matches!(bytes.len(), 32 | 64) {
            return Err(KeyError::Length {
                found: bytes.len(),
                expected: "32 or 64",
            });
        }
        let (data, tweak) = bytes.split_at(bytes.len() / 2);
        Ok(Self {
            data: AesKey::new(data)?,
            tweak: AesKey::new(tweak)?,
        })
    }

    /// AES-128 or AES-256.
    #[must_use]
    pub fn size(&self) -> KeySize {
        self.data.size()
    }

    /// Key1, which encrypts the data.
    #[must_use]
    pub fn data_key(&self) -> &AesKey {
        &self.data
    }

    /// Key2, which encrypts the data unit numbers.
    #[must_use]
    pub fn tweak_key(&self) -> &AesKey {
        &self.tweak
    }
}

/// The keys of CBC as dm-crypt's old volumes have it.
///
/// A data unit's IV is its number as 16 little-endian bytes (`plain`, `plain64`), or
/// with ESSIV that number's encryption under a second key (`essiv:sha256`).
#[derive(Clone, Debug)]
pub struct CbcKey {
    data: AesKey,
    essiv: Option<AesKey>,
}

impl CbcKey {
    /// The numbers themselves are the IVs.
    #[must_use]
    pub fn plain(data: AesKey) -> Self {
        Self { data, essiv: None }
    }

    /// The IVs are encrypted under `hash`, the SHA-256 of the data key.
    #[must_use]
    pub fn essiv_sha256(data: AesKey, hash: &[u8; 32]) -> Self {
        let essiv = AesKey {
            size: KeySize::Aes256,
            bytes: SecretBytes::copy_of(hash),
        };
        Self {
            data,
            essiv: Some(essiv),
        }
    }

    /// AES-128 or AES-256: of the data key.
    #[must_use]
    pub fn size(&self) -> KeySize {
        self.data.size()
    }

    /// The key that encrypts the data.
    #[must_use]
    pub fn data_key(&self) -> &AesKey {
        &self.data
    }

    /// With ESSIV, the key that encrypts the data unit numbers: always an AES-256 key.
    #[must_use]
    pub fn essiv_key(&self) -> Option<&AesKey> {
        self.essiv.as_ref()
    }
}

/// The keys of parallel tweakable OFB (Damjanović and Simić, "Tweakable parallel OFB
/// mode of operation with delayed thread synchronization", Security and Communication
/// Networks, 2015, Listings 3 and 4).
///
/// Each chain has a key that makes its key stream and one that encrypts the IV to its
/// first tweak. Two chains have the same two keys, the other way round. The two are never
/// equal: both chains would be the same then, and cancel each other out.
#[derive(Clone, Debug)]
pub struct ParallelOfbKey {
    first: AesKey,
    second: AesKey,
    chains: usize,
    construction: Construction,
    schedule: TweakSchedule,
}

impl ParallelOfbKey {
    /// Two chains of AES-128 under the halves of a key of 32 bytes: the mode of the
    /// paper, its rows `2x 128`.
    ///
    /// # Errors
    /// [`KeyError::Length`] for any other length, [`KeyError::EqualKeys`] when the
    /// halves are the same.
    pub fn new(
        bytes: &[u8],
        construction: Construction,
        schedule: TweakSchedule,
    ) -> Result<Self, KeyError> {
        if bytes.len() != 32 {
            return Err(KeyError::Length {
                found: bytes.len(),
                expected: "32",
            });
        }
        let one = Self::one_chain(bytes, construction, schedule)?;
        Ok(Self { chains: 2, ..one })
    }

    /// The first chain alone: its key, then that of its tweak, 32 bytes together for
    /// AES-128 and 64 for AES-256. For comparisons, as the paper's rows `1x 128` and
    /// `1x 256`.
    ///
    /// # Errors
    /// As [`ParallelOfbKey::new`].
    pub fn one_chain(
        bytes: &[u8],
        construction: Construction,
        schedule: TweakSchedule,
    ) -> Result<Self, KeyError> {
        let XtsKey { data, tweak } = XtsKey::new_permitting_equal_halves(bytes)?;
        if bool::from(data.expose().ct_eq(tweak.expose())) {
            return Err(KeyError::EqualKeys);
        }
        Ok(Self {
            first: data,
            second: tweak,
            chains: 1,
            construction,
            schedule,
        })
    }

    /// AES-128 or AES-256: of each chain.
    #[must_use]
    pub fn size(&self) -> KeySize {
        self.first.size()
    }

    /// How many chains are merged: 1 or 2.
    #[must_use]
    pub fn chains(&self) -> usize {
        self.chains
    }

    /// XEX or XE.
    #[must_use]
    pub fn construction(&self) -> Construction {
        self.construction
    }

    /// How each tweak is made from the one before.
    #[must_use]
    pub fn schedule(&self) -> TweakSchedule {
        self.schedule
    }

    /// K1, which makes the first chain's key stream, and the second one's first tweak.
    #[must_use]
    pub fn first_key(&self) -> &AesKey {
        &self.first
    }

    /// K2, which makes the second chain's key stream, and the first one's first tweak.
    #[must_use]
    pub fn second_key(&self) -> &AesKey {
        &self.second
    }
}

/// Where tweaks are added (Rogaway, Asiacrypt 2004).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Construction {
    /// Before and after the encryption: Listing 3.
    Xex,
    /// Before it: Listing 4.
    Xe,
}

/// How a chain's tweak `T_i` follows from `T_{i−1}`, where `T_0` is the encrypted IV.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TweakSchedule {
    /// `T_i` = α ⊗ `T_{i−1}`, as the paper says in words, and as XTS has it.
    #[default]
    Alpha,
    /// `T_i` = αⁱ ⊗ `T_{i−1}`, as its listings print it.
    Printed,
}

/// What a backend is to do, and with which key.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum KeySpec {
    /// XTS-AES with ciphertext stealing (IEEE 1619-2007).
    Xts(XtsKey),
    /// Electronic codebook (SP 800-38A, 6.1): whole blocks, each by itself.
    Ecb(AesKey),
    /// Counter mode (SP 800-38A, 6.5) with a 128-bit big-endian counter that wraps.
    Ctr(AesKey),
    /// Cipher block chaining (SP 800-38A, 6.2): whole blocks, each data unit a chain
    /// by itself. For old volumes: who can write to the ciphertext can flip bits of
    /// the plaintext at will.
    Cbc(CbcKey),
    /// Output feedback (SP 800-38A, 6.4).
    Ofb(AesKey),
    /// Two chains of output feedback with tweaks, merged. Research: its security is what
    /// its authors argue, and no more is known.
    ParallelOfb(ParallelOfbKey),
}

impl KeySpec {
    /// The mode that the key is for.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self {
            Self::Xts(_) => Mode::Xts,
            Self::Ecb(_) => Mode::Ecb,
            Self::Ctr(_) => Mode::Ctr,
            Self::Cbc(_) => Mode::Cbc,
            Self::Ofb(_) => Mode::Ofb,
            Self::ParallelOfb(key) => match key.construction {
                Construction::Xex => Mode::OfbXex,
                Construction::Xe => Mode::OfbXe,
            },
        }
    }

    /// Whether the system wiped the key because this process is a fork of the one that made
    /// it.
    pub(crate) fn is_lost(&self) -> bool {
        let first = match self {
            Self::Xts(key) => key.data_key(),
            Self::Cbc(key) => key.data_key(),
            Self::Ecb(key) | Self::Ctr(key) | Self::Ofb(key) => key,
            Self::ParallelOfb(key) => key.first_key(),
        };
        first.bytes.is_lost()
    }

    /// AES-128 or AES-256.
    #[must_use]
    pub fn size(&self) -> KeySize {
        match self {
            Self::Xts(key) => key.size(),
            Self::Cbc(key) => key.size(),
            Self::Ecb(key) | Self::Ctr(key) | Self::Ofb(key) => key.size(),
            Self::ParallelOfb(key) => key.size(),
        }
    }
}

/// A mode of operation. See [`KeySpec`] for the definitions and sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// XTS-AES.
    Xts,
    /// Electronic codebook.
    Ecb,
    /// Counter mode.
    Ctr,
    /// Cipher block chaining.
    Cbc,
    /// Output feedback.
    Ofb,
    /// Parallel tweakable output feedback with the construction XEX.
    OfbXex,
    /// The same with the construction XE.
    OfbXe,
}

impl Mode {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Xts,
        Self::Ecb,
        Self::Ctr,
        Self::Cbc,
        Self::Ofb,
        Self::OfbXex,
        Self::OfbXe,
    ];

    /// Whether each block of the key stream is made of the one before: `ofb`, `ofb-xex`
    /// and `ofb-xe`.
    #[must_use]
    pub const fn is_feedback(self) -> bool {
        matches!(self, Self::Ofb | Self::OfbXex | Self::OfbXe)
    }

    /// The name: `xts`, `ecb`, `ctr`, `cbc`, `ofb`, `ofb-xex`, `ofb-xe`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xts => "xts",
            Self::Ecb => "ecb",
            Self::Ctr => "ctr",
            Self::Cbc => "cbc",
            Self::Ofb => "ofb",
            Self::OfbXex => "ofb-xex",
            Self::OfbXe => "ofb-xe",
        }
    }

    /// Whether the mode can process data units of `len` bytes: 16 and more for
    /// XTS, multiples of 16 for ECB and CBC, any length for the others, but never 0.
    #[must_use]
    pub const fn accepts_unit_len(self, len: usize) -> bool {
        match self {
            Self::Xts => len >= 16,
            Self::Ecb | Self::Cbc => len > 0 && len.is_multiple_of(16),
            Self::Ctr | Self::Ofb | Self::OfbXex | Self::OfbXe => len > 0,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why bytes are no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The length fits no key of this kind.
    #[error("the key has {found} bytes; it must have {expected}")]
    Length {
        /// Bytes given.
        found: usize,
        /// Bytes that would do, in words.
        expected: &'static str,
    },
    /// The data key and the tweak key are the same, which weakens XTS.
    #[error(
        "the data key and the tweak key are equal, which XTS forbids (FIPS 140-3 IG C.I): \
         make a new random key"
    )]
    EqualHalves,
    /// The two keys of parallel OFB are the same: two chains would cancel each other out.
    #[error(
        "the two halves of the key are equal, and chains under equal keys cancel each other out: \
         make a new random key"
    )]
    EqualKeys,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_halves_are_refused() {
        for len in [32, 64] {
            assert_eq!(
                XtsKey::new(&[7; 64][..len]).unwrap_err(),
                KeyError::EqualHalves
            );
            let mut bytes = [7; 64];
            bytes[len - 1] ^= 0x80;
            assert!(XtsKey::new(&bytes[..len]).is_ok());
            assert!(XtsKey::new_permitting_equal_halves(&[7; 64][..len]).is_ok());
            let one_chain =
                |bytes| ParallelOfbKey::one_chain(bytes, Construction::Xe, TweakSchedule::Printed);
            assert_eq!(one_chain(&[7; 64][..len]).unwrap_err(), KeyError::EqualKeys);
            assert!(one_chain(&bytes[..len]).is_ok());
        }
    }

    #[test]
    fn each_mode_has_its_unit_lengths() {
        for len in 0..=49 {
            let whole = len > 0 && len % 16 == 0;
            assert_eq!(Mode::Xts.accepts_unit_len(len), len >= 16, "{len}");
            assert_eq!(Mode::Ecb.accepts_unit_len(len), whole, "{len}");
            assert_eq!(Mode::Ctr.accepts_unit_len(len), len > 0, "{len}");
            assert_eq!(Mode::Cbc.accepts_unit_len(len), whole, "{len}");
            for mode in [Mode::Ofb, Mode::OfbXex, Mode::OfbXe] {
                assert_eq!(mode.accepts_unit_len(len), len > 0, "{len}");
            }
        }
    }

    #[test]
    fn only_the_standard_lengths_are_keys() {
        let bytes: [u8; 130] = core::array::from_fn(|i| u8::try_from(i).unwrap());
        for len in 0..=bytes.len() {
            assert_eq!(
                AesKey::new(&bytes[..len]).is_ok(),
                matches!(len, 16 | 32),
                "{len}"
            );
            assert_eq!(
                XtsKey::new(&bytes[..len]).is_ok(),
                matches!(len, 32 | 64),
                "{len}"
            );
            let parallel = |new: fn(_, _, _) -> _| -> Result<ParallelOfbKey, KeyError> {
                new(&bytes[..len], Construction::Xex, TweakSchedule::Alpha)
            };
            assert_eq!(parallel(ParallelOfbKey::new).is_ok(), len == 32, "{len}");
            let one_chain = parallel(ParallelOfbKey::one_chain);
            assert_eq!(one_chain.is_ok(), matches!(len, 32 | 64), "{len}");
        }
    }
}
