// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of a volume that its plaintext is made of, and their keys.

use luxor_engine::LoadedKey;
use luxor_luks::{Encryption, Extent, VolumeKey};

use crate::{Context, Engine, Error, Result};

/// The extents that have plaintext, and how many bytes of it: all of them, but for what
/// pads the file at the end. There is always one.
#[must_use]
pub fn parts(extents: &[Extent], plaintext_len: Option<u64>) -> Vec<(&Extent, u64)> {
    let mut left = plaintext_len.unwrap_or(u64::MAX);
    let mut parts = Vec::new();
    for extent in extents {
        let len = extent.len.min(left);
        if len > 0 || parts.is_empty() {
            parts.push((extent, len));
        }
        left -= len;
    }
    parts
}

/// Says how much of the plaintext of the volume called `name` is not encrypted.
pub(crate) fn warn_of_linear(
    name: &str,
    extents: &[Extent],
    plaintext_len: Option<u64>,
    context: &Context,
) {
    let parts = parts(extents, plaintext_len).into_iter();
    let linear = parts.filter(|(extent, _)| extent.cipher.is_none());
    let linear: u64 = linear.map(|(_, len)| len).sum();
    if linear > 0 {
        context.events.warning(&format!(
            "{name}: {linear} bytes of the data are not encrypted, because a re-encryption is \
             under way: whoever can write there can have changed them"
        ));
    }
}

/// The key of a part that is encrypted so, in the engine's form.
///
/// # Errors
/// When the key does not suit, and when the device fails.
pub fn load(
    engine: &Engine,
    key: Option<&VolumeKey>,
    encryption: Encryption,
) -> Result<Box<dyn LoadedKey>> {
    // Unlocking gives the key of each part of the data.
    let key = key.ok_or_else(|| Error::failure("a part of the volume has no key"))?;
    let key = key
        .key_spec(encryption)
        .map_err(|error| Error::failure(error.to_string()))?;
    engine.load(&key)
}

#[cfg(test)]
mod tests {
    use luxor_engine::Mode;
    use luxor_luks::{Luks2Header, Luks2Options, NewLuks2Volume, PbkdfKind, PbkdfOptions};
    use luxor_sector::MemoryStorage;

    use super::*;

    /// Three extents of one sector each, as the library makes them.
    fn extents() -> Vec<Extent> {
        let options = Luks2Options {
            pbkdf: PbkdfOptions {
                kind: PbkdfKind::Pbkdf2,
                force_iterations: Some(1000),
                ..PbkdfOptions::default()
            },
            ..Luks2Options::default()
        };
        let backend = crate::engines::registry().best(Mode::Xts).unwrap();
        let volume = NewLuks2Volume::create(&options, b"secret", &*backend).unwrap();
        let storage = MemoryStorage::default();
        volume.write_to(&storage).unwrap();
        let offset = volume.segment().offset;
        let header = Luks2Header::read(&storage).unwrap();
        let extent = header.extents(offset + 4096).unwrap().remove(0);
        vec![extent; 3]
    }

    #[test]
    fn padding_may_be_whole_extents() {
        let extents = extents();
        let lens = |len| -> Vec<u64> {
            let parts = parts(&extents, len);
            parts.into_iter().map(|(_, len)| len).collect()
        };
        assert_eq!(lens(None), [4096, 4096, 4096]);
        assert_eq!(lens(Some(12288)), [4096, 4096, 4096]);
        assert_eq!(lens(Some(8193)), [4096, 4096, 1]);
        assert_eq!(lens(Some(8192)), [4096, 4096]);
        assert_eq!(lens(Some(5)), [5]);
        assert_eq!(lens(Some(0)), [0]);
    }
}
