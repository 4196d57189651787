// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys as callers give them to a backend, before key expansion.

use core::fmt;

use subtle::ConstantTimeEq;

use luxor_secret::SecretBytes;

/// The AES variant, which sets the length of one cipher key (FIPS 197, table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AesSize {
    /// 16 bytes, 10 rounds.
    Aes128,
    /// 24 bytes, 12 rounds.
    Aes192,
    /// 32 bytes, 14 rounds.
    Aes256,
}

impl AesSize {
    /// All variants, for tests and tables.
    pub const ALL: [Self; 3] = [Self::Aes128, Self::Aes192, Self::Aes256];

    /// The length of one cipher key in bits, as in the variant's name.
    #[must_use]
    pub const fn bits(self) -> usize {
        match self {
            Self::Aes128 => 128,
            Self::Aes192 => 192,
            Self::Aes256 => 256,
        }
    }

    /// The length of one cipher key in bytes: 16, 24 or 32.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.bits() / 8
    }

    /// The number of rounds: 10, 12 or 14.
    #[must_use]
    pub const fn rounds(self) -> usize {
        self.bits() / 32 + 6
    }

    fn from_bytes(bytes: usize) -> Option<Self> {
        Self::ALL.into_iter().find(|size| size.bytes() == bytes)
    }
}

/// The AES variant of XTS, which has two cipher keys: `Aes256` means 512 bits of key. IEEE 1619-2007
/// has no XTS-AES-192.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeySize {
    /// Two keys of 16 bytes.
    Aes128,
    /// Two keys of 32 bytes.
    Aes256,
}

impl KeySize {
    /// Both sizes, for tests and tables.
    pub const ALL: [Self; 2] = [Self::Aes128, Self::Aes256];

    /// The length of one of the two cipher keys in bytes: 16 or 32.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.aes().bytes()
    }

    /// The variant of both cipher keys.
    #[must_use]
    pub const fn aes(self) -> AesSize {
        match self {
            Self::Aes128 => AesSize::Aes128,
            Self::Aes256 => AesSize::Aes256,
        }
    }
}

/// One AES key, wiped when dropped.
#[derive(Clone)]
pub struct AesKey {
    size: AesSize,
    bytes: SecretBytes,
}

impl AesKey {
    /// Makes a key of its 16, 24 or 32 bytes.
    ///
    /// # Errors
    /// [`KeyError::Length`] for any other length.
    pub fn new(bytes: &[u8]) -> Result<Self, KeyError> {
        let size = AesSize::from_bytes(bytes.len()).ok_or(KeyError::Length {
            found: bytes.len(),
            expected: "16, 24 or 32",
        })?;
        Ok(Self {
            size,
            bytes: SecretBytes::copy_of(bytes),
        })
    }

    /// The AES variant.
    #[must_use]
    pub fn size(&self) -> AesSize {
        self.size
    }

    /// The key's 16, 24 or 32 bytes.
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

/// The two keys of XTS-AES (IEEE 1619-2007, 5.1): Key1, the data key, and Key2, the tweak key.
/// [`XtsKey::new`] refuses equal keys (FIPS 140-3 IG C.I).
#[derive(Clone, Debug)]
pub struct XtsKey {
    data: AesKey,
    tweak: AesKey,
}

impl XtsKey {
    /// Makes a key of the data key followed by the tweak key, 32 or 64 bytes together. LUKS volume
    /// keys and `openssl enc` have the same layout.
    ///
    /// # Errors
    /// [`KeyError::Length`] for any other length, [`KeyError::EqualHalves`] if the two keys are
    /// equal.
    pub fn new(bytes: &[u8]) -> Result<Self, KeyError> {
        let key = Self::new_permitting_equal_halves(bytes)?;
        if bool::from(key.data.expose().ct_eq(key.tweak.expose())) {
            return Err(KeyError::EqualHalves);
        }
        Ok(key)
    }

    /// As [`XtsKey::new`], but accepts equal halves. Vector 1 of IEEE 1619-2007 needs this, and so
    /// does reading a volume that has such a key. Never use it to make a key.
    #[doc(hidden)]
    pub fn new_permitting_equal_halves(bytes: &[u8]) -> Result<Self, KeyError> {
        let mut sizes = KeySize::ALL.into_iter();
        if !sizes.any(|size| 2 * size.bytes() == bytes.len()) {
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

    /// The AES variant of both keys: AES-128 or AES-256.
    #[must_use]
    pub fn size(&self) -> AesSize {
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

/// The keys of CBC, the mode of old dm-crypt volumes.
///
/// The IV of a data unit is its number as 16 little-endian bytes (`plain`, `plain64`). With ESSIV
/// it is that number encrypted under a second key (`essiv:sha256`).
#[derive(Clone, Debug)]
pub struct CbcKey {
    data: AesKey,
    essiv: Option<AesKey>,
}

impl CbcKey {
    /// Keys for `plain` and `plain64`: the data unit numbers themselves are the IVs.
    #[must_use]
    pub fn plain(data: AesKey) -> Self {
        Self { data, essiv: None }
    }

    /// Keys for `essiv:sha256`: `hash`, the SHA-256 of the data key, encrypts the numbers to IVs.
    #[must_use]
    pub fn essiv_sha256(data: AesKey, hash: &[u8; 32]) -> Self {
        let essiv = AesKey {
            size: AesSize::Aes256,
            bytes: SecretBytes::copy_of(hash),
        };
        Self {
            data,
            essiv: Some(essiv),
        }
    }

    /// The AES variant of the data key.
    #[must_use]
    pub fn size(&self) -> AesSize {
        self.data.size()
    }

    /// The key that encrypts the data.
    #[must_use]
    pub fn data_key(&self) -> &AesKey {
        &self.data
    }

    /// The key that encrypts the data unit numbers with ESSIV, always an AES-256 key.
    #[must_use]
    pub fn essiv_key(&self) -> Option<&AesKey> {
        self.essiv.as_ref()
    }
}

/// The keys of parallel tweakable OFB (Damjanović and Simić, "Tweakable parallel OFB
/// mode of operation with delayed thread synchronization", Security and Communication
/// Networks, 2015, Listings 3 and 4).
///
/// Each chain has two keys: one makes its key stream, the other encrypts the IV to its first tweak.
/// Two chains use the same two keys in opposite roles. The two keys are never equal: the chains
/// would then be identical and cancel each other out.
#[derive(Clone, Debug)]
pub struct ParallelOfbKey {
    first: AesKey,
    second: AesKey,
    chains: usize,
    construction: Construction,
    schedule: TweakSchedule,
}

impl ParallelOfbKey {
    /// Makes a key for two chains of AES-128 from 32 bytes, one key in each half. This is the
    /// paper's mode, in its rows `2x 128`.
    ///
    /// # Errors
    /// [`KeyError::Length`] for any other length, [`KeyError::EqualKeys`] if the halves are equal.
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

    /// Makes a key for the first chain alone. `bytes` is the chain's key, then the key of its
    /// tweak: 32 bytes together for AES-128, 64 for AES-256. For comparison with the paper's rows
    /// `1x 128` and `1x 256`.
    ///
    /// # Errors
    /// [`KeyError::Length`] and [`KeyError::EqualKeys`], as for [`ParallelOfbKey::new`].
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

    /// The AES variant of each chain: AES-128 or AES-256.
    #[must_use]
    pub fn size(&self) -> AesSize {
        self.first.size()
    }

    /// The number of chains whose key streams are added together: 1 or 2.
    #[must_use]
    pub fn chains(&self) -> usize {
        self.chains
    }

    /// XEX or XE.
    #[must_use]
    pub fn construction(&self) -> Construction {
        self.construction
    }

    /// How each tweak is computed from the one before.
    #[must_use]
    pub fn schedule(&self) -> TweakSchedule {
        self.schedule
    }

    /// K1, which makes the first chain's key stream and the second chain's first tweak.
    #[must_use]
    pub fn first_key(&self) -> &AesKey {
        &self.first
    }

    /// K2, which makes the second chain's key stream and the first chain's first tweak.
    #[must_use]
    pub fn second_key(&self) -> &AesKey {
        &self.second
    }
}

/// Where the tweak is added to a block (Rogaway, "Efficient Instantiations of Tweakable
/// Blockciphers and Refinements to Modes OCB and PMAC", Asiacrypt 2004). The listings are those of
/// the paper of [`ParallelOfbKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Construction {
    /// Before and after the encryption: Listing 3.
    Xex,
    /// Before it: Listing 4.
    Xe,
}

/// How a chain's tweak `T_i` follows from `T_{i−1}` in [`ParallelOfbKey`], where `T_0` is the
/// encrypted IV and α is the element of [`gf128`](crate::gf128).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TweakSchedule {
    /// `T_i` = α ⊗ `T_{i−1}`, as in the paper's text and in XTS.
    #[default]
    Alpha,
    /// `T_i` = αⁱ ⊗ `T_{i−1}`, as printed in the paper's listings.
    Printed,
}

/// A mode of operation and its key. [`DataUnitNumber`](crate::DataUnitNumber) says how each mode
/// uses the number of a data unit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum KeySpec {
    /// XTS-AES with ciphertext stealing (IEEE 1619-2007).
    Xts(XtsKey),
    /// Electronic codebook (SP 800-38A, 6.1): whole blocks, each encrypted independently.
    Ecb(AesKey),
    /// Counter mode (SP 800-38A, 6.5) with a 128-bit big-endian counter that wraps.
    Ctr(AesKey),
    /// Cipher block chaining (SP 800-38A, 6.2): whole blocks, one chain for each data unit. Only
    /// for old volumes: anyone who can write to the ciphertext can flip chosen bits of the
    /// plaintext.
    Cbc(CbcKey),
    /// Output feedback (SP 800-38A, 6.4).
    Ofb(AesKey),
    /// One or two chains of output feedback with tweaks. For research: nothing is known about its
    /// security beyond the arguments of its authors.
    ParallelOfb(ParallelOfbKey),
}

impl KeySpec {
    /// The mode that this key is for.
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

    /// Whether the system wiped the key because this process is a fork of the process that made it.
    pub(crate) fn is_lost(&self) -> bool {
        let first = match self {
            Self::Xts(key) => key.data_key(),
            Self::Cbc(key) => key.data_key(),
            Self::Ecb(key) | Self::Ctr(key) | Self::Ofb(key) => key,
            Self::ParallelOfb(key) => key.first_key(),
        };
        first.bytes.is_lost()
    }

    /// The AES variant of the key, or of each of its keys.
    #[must_use]
    pub fn size(&self) -> AesSize {
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
    /// All modes.
    pub const ALL: &'static [Self] = &[
        Self::Xts,
        Self::Ecb,
        Self::Ctr,
        Self::Cbc,
        Self::Ofb,
        Self::OfbXex,
        Self::OfbXe,
    ];

    /// Whether each block of the key stream depends on the one before: true for `ofb`, `ofb-xex`
    /// and `ofb-xe`.
    #[must_use]
    pub const fn is_feedback(self) -> bool {
        matches!(self, Self::Ofb | Self::OfbXex | Self::OfbXe)
    }

    /// The mode's name: `xts`, `ecb`, `ctr`, `cbc`, `ofb`, `ofb-xex` or `ofb-xe`.
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

    /// The unit lengths that [`Mode::accepts_unit_len`] accepts, for messages.
    #[must_use]
    pub const fn accepted_unit_lens(self) -> &'static str {
        match self {
            Self::Xts => "16 bytes or more",
            Self::Ecb | Self::Cbc => "a multiple of 16 bytes",
            Self::Ctr | Self::Ofb | Self::OfbXex | Self::OfbXe => "1 byte or more",
        }
    }

    /// Whether the mode can process data units of `len` bytes: at least 16 for XTS, multiples of 16
    /// for ECB and CBC, any length for the others. No mode accepts 0.
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

/// Why bytes were refused as a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// No key of this kind has this length.
    #[error("the key has {found} bytes; it must have {expected}")]
    Length {
        /// The number of bytes given.
        found: usize,
        /// The accepted lengths in bytes, in words.
        expected: &'static str,
    },
    /// The data key and the tweak key are equal, which weakens XTS.
    #[error(
        "the data key and the tweak key are equal, which XTS forbids (FIPS 140-3 IG C.I): \
         make a new random key"
    )]
    EqualHalves,
    /// The two keys of parallel OFB are equal, so that two chains would cancel each other out.
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
                matches!(len, 16 | 24 | 32),
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
