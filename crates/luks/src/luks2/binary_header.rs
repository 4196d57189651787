// SPDX-License-Identifier: MIT OR Apache-2.0
//! The binary header: the first 4096 bytes of each of the two copies of the
//! metadata (LUKS2 On-Disk Format Specification 1.1, section 2.1).
//!
//! ```text
//! offset length
//!      0      6  magic: "LUKS\xba\xbe" in the primary copy, "SKUL\xba\xbe" in the secondary
//!      6      2  version: 2                                  (integers are big-endian)
//!      8      8  hdr_size: this header and the JSON area after it, in bytes
//!     16      8  seqid: increased by one with each change
//!     24     48  label, terminated by a zero byte
//!     72     32  csum_alg: the name of the checksum's hash
//!    104     64  salt: random, different in each copy, so that the copies differ everywhere
//!    168     40  uuid, text
//!    208     48  subsystem: a second label
//!    256      8  hdr_offset: the offset of this copy in bytes
//!    264    184  zeros
//!    448     64  csum: over hdr_size bytes from the magic on, with this field zero
//!    512   3584  zeros
//! ```

use luxor_volume::HashAlgorithm;

use super::json_c;

/// The length of the binary header in bytes.
pub(crate) const LEN: usize = 4096;

/// The valid values of `hdr_size`. Since the primary copy has that length, these are also the
/// offsets at which the secondary copy can be.
pub(crate) const SIZES: [u64; 9] = [
    0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000,
];

/// The length of the JSON area in a header of `header_size` bytes.
pub(crate) fn json_size(header_size: u64) -> u64 {
    header_size - LEN as u64
}

/// Returns whether a storage that begins with `head` has a LUKS1 header: the magic of LUKS2's
/// primary copy, and version 1.
pub(crate) fn is_luks1(head: &[u8]) -> bool {
    let magic = CopyKind::Primary.magic();
    head.starts_with(magic) && head[magic.len()..].starts_with(&1_u16.to_be_bytes())
}

/// The hashes that a program with the cryptographic libraries of cryptsetup computes, and this version
/// does not, under the names that those libraries know. A flipped bit in a supported name gives none
/// of these.
const OTHER_HASHES: &str = "md4 md5 ssl3-md5 md5-sha1 sha224 sha-224 sha2-224 sha384 sha-384 sha2-384 \
    sha512-224 sha512/224 sha-512/224 sha2-512/224 sha512_224 sha512-256 sha512/256 sha-512/256 \
    sha2-512/256 sha512_256 sha3-224 sha3-256 sha3-384 sha3-512 shake128 shake-128 shake256 shake-256 \
    blake2b512 blake2b-160 blake2b-256 blake2b-384 blake2b-512 blake2b_160 blake2b_256 blake2b_384 \
    blake2b_512 blake2s256 blake2s-128 blake2s-160 blake2s-224 blake2s-256 blake2s_128 blake2s_160 \
    blake2s_224 blake2s_256 sm3 stribog256 stribog512 streebog256 streebog512 tiger tiger192 \
    gostr3411_94";

const CHECKSUM: std::ops::Range<usize> = 448..512;

/// One of the two copies of the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyKind {
    /// The copy at byte 0.
    Primary,
    /// The copy right after the primary one.
    Secondary,
}

impl CopyKind {
    pub(crate) fn magic(self) -> &'static [u8; 6] {
        match self {
            Self::Primary => b"LUKS\xba\xbe",
            Self::Secondary => b"SKUL\xba\xbe",
        }
    }

    /// The name in messages: `primary` or `secondary`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
        }
    }
}

/// The fields of a binary header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BinaryHeader {
    pub size: u64,
    pub seqid: u64,
    pub label: TextField<48>,
    pub checksum: HashAlgorithm,
    pub salt: [u8; 64],
    pub uuid: TextField<40>,
    pub subsystem: TextField<48>,
    pub offset: u64,
}

/// A text together with the bytes of its field. The bytes are kept unchanged, because they need not
/// be UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextField<const N: usize> {
    bytes: [u8; N],
    text: String,
}

impl<const N: usize> TextField<N> {
    /// Makes a field of `text`, which must leave room for a zero byte.
    pub(crate) fn new(text: &str) -> Self {
        assert!(text.len() < N, "a text of {} bytes in {N}", text.len());
        let mut bytes = [0; N];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Self {
            bytes,
            text: text.into(),
        }
    }

    pub(crate) fn from_bytes(bytes: [u8; N]) -> Self {
        let text = text(&bytes);
        Self { bytes, text }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

impl BinaryHeader {
    /// Parses the fields of the copy at byte `offset`. Does not check the checksum, because that
    /// covers the JSON area too ([`BinaryHeader::verify`]). A later version of LUKS2 passes, because
    /// only the checksum says whether it is meant ([`check_version`]).
    pub(crate) fn parse(
        bytes: &[u8; LEN],
        kind: CopyKind,
        offset: u64,
    ) -> Result<Self, BinaryHeaderError> {
        let magic: [u8; 6] = field(bytes, 0);
        if magic != *kind.magic() {
            return Err(BinaryHeaderError::Magic { kind, offset });
        }
        let found = version(bytes);
        if !LATER_VERSIONS.contains(&found) {
            check_version(bytes)?;
        }
        let size = u64::from_be_bytes(field(bytes, 8));
        if !SIZES.contains(&size) || (kind == CopyKind::Secondary && size != offset) {
            return Err(BinaryHeaderError::Size {
                found: size,
                offset,
            });
        }
        let stated = u64::from_be_bytes(field(bytes, 256));
        if stated != offset {
            return Err(BinaryHeaderError::Offset {
                found: stated,
                offset,
            });
        }
        let checksum = text(&field::<32>(bytes, 72));
        let checksum = HashAlgorithm::by_name(&checksum)
            .ok_or(BinaryHeaderError::ChecksumAlgorithm { found: checksum })?;
        Ok(Self {
            size,
            seqid: seqid(bytes),
            label: TextField::from_bytes(field(bytes, 24)),
            checksum,
            salt: field(bytes, 104),
            uuid: TextField::from_bytes(field(bytes, 168)),
            subsystem: TextField::from_bytes(field(bytes, 208)),
            offset,
        })
    }

    /// Checks the checksum of `area`, which is the whole copy of `size` bytes.
    pub(crate) fn verify(&self, area: &[u8]) -> Result<(), BinaryHeaderError> {
        let expected = checksum(self.checksum, area);
        if area[CHECKSUM][..self.checksum.output_len()] != expected[..self.checksum.output_len()] {
            return Err(BinaryHeaderError::Checksum {
                algorithm: self.checksum,
            });
        }
        Ok(())
    }

    /// The offset in bytes of the copy `kind` of this header.
    pub(crate) fn place(&self, kind: CopyKind) -> u64 {
        match kind {
            CopyKind::Primary => 0,
            CopyKind::Secondary => self.size,
        }
    }

    /// Returns the whole copy `kind` with its offset and a new salt.
    pub(crate) fn copy(&self, kind: CopyKind, json: &str) -> Result<Vec<u8>, getrandom::Error> {
        let mut salt = [0; 64];
        getrandom::fill(&mut salt)?;
        let offset = self.place(kind);
        let header = Self {
            salt,
            offset,
            ..self.clone()
        };
        Ok(header.serialise(kind, json))
    }

    /// Returns the whole copy, `size` bytes: binary header, JSON text, zeros, and the checksum over
    /// all of it.
    ///
    /// The JSON text, which [`json_c`] encodes, must leave room for a zero byte.
    pub(crate) fn serialise(&self, kind: CopyKind, json: &str) -> Vec<u8> {
        let size = usize::try_from(self.size).expect("`size` is one of the nine sizes");
        let json = json_c::encode(json);
        assert!(json.len() < size - LEN);
        let mut area = vec![0; size];
        let mut put = |offset: usize, bytes: &[u8]| {
            area[offset..][..bytes.len()].copy_from_slice(bytes);
        };
        put(0, kind.magic());
        put(6, &2_u16.to_be_bytes());
        put(8, &self.size.to_be_bytes());
        put(16, &self.seqid.to_be_bytes());
        put(24, &self.label.bytes);
        put(72, self.checksum.name().as_bytes());
        put(104, &self.salt);
        put(168, &self.uuid.bytes);
        put(208, &self.subsystem.bytes);
        put(256, &self.offset.to_be_bytes());
        put(LEN, &json);
        let sum = checksum(self.checksum, &area);
        area[CHECKSUM][..self.checksum.output_len()]
            .copy_from_slice(&sum[..self.checksum.output_len()]);
        area
    }
}

/// The versions that a later LUKS2 may have.
const LATER_VERSIONS: std::ops::RangeInclusive<u16> = 3..=255;

fn version(bytes: &[u8; LEN]) -> u16 {
    u16::from_be_bytes(field(bytes, 6))
}

/// Checks that the version is 2.
pub(crate) fn check_version(bytes: &[u8; LEN]) -> Result<(), BinaryHeaderError> {
    match version(bytes) {
        2 => Ok(()),
        found => Err(BinaryHeaderError::Version { found }),
    }
}

/// The sequence number.
pub(crate) fn seqid(bytes: &[u8; LEN]) -> u64 {
    u64::from_be_bytes(field(bytes, 16))
}

fn checksum(algorithm: HashAlgorithm, area: &[u8]) -> [u8; 64] {
    let mut sum = [0; 64];
    let blank = [0; CHECKSUM.end - CHECKSUM.start];
    algorithm.digest_into(
        &[&area[..CHECKSUM.start], &blank, &area[CHECKSUM.end..]],
        &mut sum,
    );
    sum
}

fn field<const N: usize>(bytes: &[u8; LEN], offset: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[offset + i])
}

/// Returns the text before the first zero byte. Bytes that are not UTF-8 are replaced: the text is
/// for display, and no supported name contains a replacement character.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Why a copy's binary header is not valid, or does not fit the bytes after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BinaryHeaderError {
    /// The magic is not that of this copy.
    #[error("the magic of the {} LUKS header is missing at byte {offset}", kind.name())]
    Magic {
        /// The copy that was expected.
        kind: CopyKind,
        /// The offset in bytes.
        offset: u64,
    },
    /// The version is not 2.
    #[error("its version is {found}, and only version 2 is supported")]
    Version {
        /// The version.
        found: u16,
    },
    /// `hdr_size` is not one of the nine sizes, or not the offset of this secondary copy.
    #[error("hdr_size is {found}, which a header at byte {offset} cannot have")]
    Size {
        /// The value, in bytes.
        found: u64,
        /// The offset of the copy in bytes.
        offset: u64,
    },
    /// `hdr_offset` is not the offset of this copy.
    #[error("hdr_offset is {found}, but the header is at byte {offset}")]
    Offset {
        /// The value, in bytes.
        found: u64,
        /// The offset of the copy in bytes.
        offset: u64,
    },
    /// The checksum's hash is not supported by this version.
    #[error(
        "csum_alg is {found:?}, and only {} are supported",
        HashAlgorithm::NAMES
    )]
    ChecksumAlgorithm {
        /// The name.
        found: String,
    },
    /// The checksum does not match.
    #[error("its {algorithm} checksum does not match its contents")]
    Checksum {
        /// The hash.
        algorithm: HashAlgorithm,
    },
    /// The storage ends before the copy does.
    #[error("it is cut off: it should end at byte {end}, and there are {len} bytes")]
    Truncated {
        /// The offset in bytes at which the copy should end.
        end: u64,
        /// The length of the storage in bytes.
        len: u64,
    },
}

impl BinaryHeaderError {
    /// Returns whether another program can compute the checksum, and only this version cannot. All
    /// fields that the parser checks are right then.
    pub(crate) fn is_of_other_hash(&self) -> bool {
        let is_other = |found: &str| {
            let mut known = OTHER_HASHES.split_whitespace();
            known.any(|name| name.eq_ignore_ascii_case(found))
        };
        matches!(self, Self::ChecksumAlgorithm { found } if is_other(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> BinaryHeader {
        BinaryHeader {
            size: 0x4000,
            seqid: 7,
            label: TextField::new("backup"),
            checksum: HashAlgorithm::Sha256,
            salt: std::array::from_fn(|i| u8::try_from(i).unwrap()),
            uuid: TextField::new("f23c789c-834f-4e4a-82a0-1bb1c4f5ebb4"),
            // Neither UTF-8 nor terminated by a zero byte.
            subsystem: TextField::from_bytes([0xff; 48]),
            offset: 0,
        }
    }

    fn head(area: &[u8]) -> &[u8; LEN] {
        area[..LEN].try_into().unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        for checksum in HashAlgorithm::ALL {
            for (kind, offset) in [(CopyKind::Primary, 0), (CopyKind::Secondary, 0x4000)] {
                let header = BinaryHeader {
                    offset,
                    checksum,
                    ..example()
                };
                let area = header.serialise(kind, "{}");
                assert_eq!(area.len(), 0x4000);
                let read = BinaryHeader::parse(head(&area), kind, offset).unwrap();
                assert_eq!(read, header);
                read.verify(&area).unwrap();
            }
        }
    }

    #[test]
    fn each_rule_has_its_error() {
        let area = example().serialise(CopyKind::Primary, "{}");
        let broken = |offset: usize, byte: u8| {
            let mut area = area.clone();
            area[offset] ^= byte;
            BinaryHeader::parse(head(&area), CopyKind::Primary, 0)
                .and_then(|header| header.verify(&area))
                .unwrap_err()
        };
        assert!(matches!(broken(0, 1), BinaryHeaderError::Magic { .. }));
        assert!(matches!(
            broken(6, 1),
            BinaryHeaderError::Version { found: 0x102 }
        ));
        assert!(matches!(
            broken(15, 1),
            BinaryHeaderError::Size { found: 0x4001, .. }
        ));
        assert!(matches!(
            broken(263, 1),
            BinaryHeaderError::Offset { found: 1, .. }
        ));
        assert!(matches!(
            broken(72, 1),
            BinaryHeaderError::ChecksumAlgorithm { .. }
        ));
        for covered in [16, 24, 110, 170, 220, 300, 448, 600, LEN, area.len() - 1] {
            assert!(matches!(
                broken(covered, 0x80),
                BinaryHeaderError::Checksum { .. }
            ));
        }
        // A primary copy does not pass for a secondary one.
        assert!(BinaryHeader::parse(head(&area), CopyKind::Secondary, 0x4000).is_err());
    }
}
