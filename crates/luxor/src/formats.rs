// SPDX-License-Identifier: MIT OR Apache-2.0
//! The formats of encrypted volumes: the one table that chooses between them.

#[cfg(feature = "test-format")]
mod xor;

use std::sync::Arc;

use luxor_luks::{Luks, LuksVersion};
use luxor_plain::PlainVolume;
use luxor_sector::Storage;
use luxor_volume::{Format, Header, HeaderError, HeaderErrorKind};

/// The formats, in the order of documents and help texts.
pub const FORMATS: &[&dyn Format] = &[
    &Luks { version: None },
    &Luks {
        version: Some(LuksVersion::Luks1),
    },
    &Luks {
        version: Some(LuksVersion::Luks2),
    },
    &PlainVolume::DEFAULT,
    #[cfg(feature = "test-format")]
    &xor::Xor,
];

/// The name of [`any_format`].
pub const AUTO: &str = "auto";

/// Returns the format with this name, with its default values: one of [`FORMATS`], or
/// [`any_format`].
#[must_use]
pub fn format_by_name(name: &str) -> Option<Arc<dyn Format>> {
    if name == AUTO {
        return Some(any_format());
    }
    let mut formats = FORMATS.iter();
    let found = *formats.find(|format| format.name() == name)?;
    Some(Arc::new(found))
}

/// Returns the format that recognises a volume of every format that has a signature.
#[must_use]
pub fn any_format() -> Arc<dyn Format> {
    Arc::new(AnyFormat)
}

/// Every format that has a signature.
#[derive(Clone, Copy, Debug)]
struct AnyFormat;

impl Format for AnyFormat {
    fn name(&self) -> &'static str {
        AUTO
    }

    fn summary(&self) -> &'static str {
        "the format whose signature the file has"
    }

    /// Reads the volume of the first format whose signature is there. If none is, the error is that of
    /// the first format.
    fn read(&self, storage: &dyn Storage) -> Result<Box<dyn Header>, HeaderError> {
        let mut first = None;
        for format in FORMATS {
            if !format.has_signature() || format.is_narrower() {
                continue;
            }
            match format.read(storage) {
                Err(error) if error.kind == HeaderErrorKind::OtherFormat => {
                    first.get_or_insert(error);
                }
                found => return found,
            }
        }
        match first {
            Some(error) => Err(error),
            None => Luks { version: None }.read(storage),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use luxor_sector::MemoryStorage;

    use super::*;

    /// Counts the reads.
    struct Counted(MemoryStorage, AtomicUsize);

    impl Storage for Counted {
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }

        fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.read_exact_at(buf, offset)
        }

        fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
            self.0.write_all_at(buf, offset)
        }

        fn sync(&self) -> io::Result<()> {
            self.0.sync()
        }
    }

    /// A storage may be a slow one, behind a network.
    #[test]
    fn a_file_without_a_signature_is_read_once() {
        let reads = |format: &dyn Format| {
            let storage = Counted(MemoryStorage::new(vec![0; 8 << 20]), AtomicUsize::new(0));
            let error = format.read(&storage).unwrap_err();
            assert_eq!(error.kind, HeaderErrorKind::OtherFormat);
            storage.1.into_inner()
        };
        let luks = reads(&Luks { version: None });
        assert!(luks > 0);
        // The format for tests reads too, but not as much.
        assert!(reads(&AnyFormat) < 2 * luks);
    }
}
