// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encrypted data with no header, as `cryptsetup open --type plain` maps them: what a
//! header would say comes from the command line, and the key from a file.

use std::sync::Arc;

use luxor::{Engine, Export, load};
use luxor_engine::LoadedKey;
use luxor_files::{DataFile, path_name};
use luxor_luks::{Encryption, VolumeKey};
use luxor_sector::{Geometry, Part, SectorSize};

use crate::{
    args::{ExportArgs, PlainArgs},
    commands::inputs,
    context::Context,
    error::{Error, Result},
    export::{access, options},
    secrets::SecretSource,
};

/// The unit of offsets and lengths.
const UNIT: u64 = 512;

/// Opens the data, with no way to tell whether the key is the right one.
pub(super) fn open(args: &ExportArgs, context: &Context) -> Result<Export> {
    check_no_header(args, context)?;
    let layout = Layout::of(&args.plain)?;
    let shown = path_name(&args.volume);
    let engine = Engine::select(&context.library, layout.encryption.mode())?;
    let data = DataFile::open(&args.volume, access(args))?;
    let len = layout.data_len(data.len()?, &shown)?;
    let inputs = inputs("VOLUME", &args.volume, context);
    let secrets = SecretSource::of_key(context, layout.key_len, &inputs)?;

    let key = VolumeKey::new(
        secrets.existing(&args.volume)?,
        layout.encryption,
        args.unlock.limits.allow_weak_key,
    );
    let key = key.map_err(|error| Error::failure(format!("the key file: {error}")))?;
    let key: Arc<dyn LoadedKey> = Arc::from(load(&engine, Some(&key), layout.encryption)?);
    let part = Part {
        offset: layout.offset,
        len,
        crypt: Some((key, layout.geometry)),
    };
    Export::of_parts(data, vec![part], &engine, &options(args))
}

/// Refuses what is about headers and keyslots.
fn check_no_header(args: &ExportArgs, context: &Context) -> Result<()> {
    let limits = &args.unlock.limits;
    let given = [
        ("--header", context.options.header.is_some()),
        (
            "--require-type",
            context.options.policy.require_type.is_some(),
        ),
        (
            "--require-cipher",
            !context.options.policy.require_cipher.is_empty(),
        ),
        (
            "--require-pbkdf",
            !context.options.policy.require_pbkdf.is_empty(),
        ),
        (
            "--header-digest",
            context.options.policy.header_digest.is_some(),
        ),
        ("--key-slot", args.unlock.key_slot.is_some()),
        ("--pbkdf-memory-limit", limits.pbkdf_memory_limit.is_some()),
        (
            "--pbkdf-iterations-limit",
            limits.pbkdf_iterations_limit.is_some(),
        ),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => Err(Error::failure(format!(
            "{option} has no meaning for --type plain: there is no header"
        ))),
    }
}

/// Where the data are and how they are encrypted.
#[derive(Debug, PartialEq, Eq)]
struct Layout {
    encryption: Encryption,
    /// In bytes.
    key_len: usize,
    geometry: Geometry,
    /// The first byte.
    offset: u64,
    /// In bytes; `None`: to the end.
    size: Option<u64>,
}

impl Layout {
    /// As the options say, by dm-crypt's rules: everything is whole sectors, and the IVs
    /// begin at the number of one.
    fn of(args: &PlainArgs) -> Result<Self> {
        let encryption = args.cipher.unwrap_or(Encryption::AesXtsPlain64);
        let key_size = args.key_size.unwrap_or(256);
        let [short, long] = encryption.key_lens().map(|bytes| 8 * bytes);
        if ![short, long].contains(&key_size) {
            return Err(Error::failure(format!(
                "--key-size {key_size}: {} has keys of {short} and {long} bits",
                encryption.name()
            )));
        }
        let sector_size = SectorSize::try_from(args.sector_size.unwrap_or(512))
            .map_err(|error| Error::failure(format!("--sector-size: {error}")))?;
        if args.iv_large_sectors && sector_size == SectorSize::B512 {
            return Err(Error::failure(
                "--iv-large-sectors needs a --sector-size above 512",
            ));
        }
        let aligned = |option: &str, units: u64| {
            if !units.is_multiple_of(sector_size.units()) {
                return Err(Error::failure(format!(
                    "{option} {units} is no whole number of sectors of {sector_size} bytes"
                ))
                .hint(format!(
                    "It counts units of 512 bytes: give a multiple of {}.",
                    sector_size.units()
                )));
            }
            Ok(units)
        };
        let bytes = |option: &str, units: u64| {
            aligned(option, units)?
                .checked_mul(UNIT)
                .filter(|&bytes| i64::try_from(bytes).is_ok())
                .ok_or_else(|| Error::failure(format!("{option} {units}: no file has 8 EiB")))
        };
        if args.size == Some(0) {
            return Err(Error::failure("--size 0: there would be no data"));
        }
        Ok(Self {
            encryption,
            key_len: key_size as usize / 8,
            geometry: Geometry {
                sector_size,
                iv_mode: encryption.iv_mode(),
                iv_offset: aligned("--skip", args.skip.unwrap_or(0))?,
                iv_large_sectors: args.iv_large_sectors,
            },
            offset: bytes("--offset", args.offset.unwrap_or(0))?,
            size: args.size.map(|units| bytes("--size", units)).transpose()?,
        })
    }

    /// How many bytes of data there are in a storage of `storage_len` bytes.
    fn data_len(&self, storage_len: u64, name: &str) -> Result<u64> {
        let there = storage_len.saturating_sub(self.offset);
        let sector = self.geometry.sector_size.bytes() as u64;
        let whole = there - there % sector;
        match self.size {
            Some(size) if size <= there => Ok(size),
            Some(size) => Err(Error::failure(format!(
                "{name} has {storage_len} bytes, and --offset and --size need {}",
                u128::from(self.offset) + u128::from(size)
            ))),
            None if whole == 0 => Err(Error::failure(format!(
                "{name} has {storage_len} bytes, and the data would begin at byte {}",
                self.offset
            ))),
            None if whole < there => Err(Error::failure(format!(
                "{name}: the data have {there} bytes, which is no whole number of sectors of \
                 {sector} bytes"
            ))
            .hint(format!("To leave the rest out: --size {}.", whole / UNIT))),
            None => Ok(there),
        }
    }
}

#[cfg(test)]
mod tests {
    use luxor_sector::IvMode;

    use super::*;

    fn args() -> PlainArgs {
        PlainArgs {
            cipher: None,
            key_size: None,
            offset: None,
            skip: None,
            size: None,
            sector_size: None,
            iv_large_sectors: false,
        }
    }

    #[test]
    fn defaults_are_cryptsetups() {
        let layout = Layout::of(&args()).unwrap();
        let expected = Layout {
            encryption: Encryption::AesXtsPlain64,
            key_len: 32,
            geometry: Geometry {
                sector_size: SectorSize::B512,
                iv_mode: IvMode::Plain64,
                iv_offset: 0,
                iv_large_sectors: false,
            },
            offset: 0,
            size: None,
        };
        assert_eq!(layout, expected);
    }

    #[test]
    fn everything_is_whole_sectors() {
        for size in SectorSize::ALL {
            let units = size.units();
            for number in 0..=2 * units {
                let sector_size = u32::try_from(size.bytes()).ok();
                let whole = number % units == 0;
                let with = |change: &dyn Fn(&mut PlainArgs)| {
                    let mut args = PlainArgs {
                        sector_size,
                        ..args()
                    };
                    change(&mut args);
                    Layout::of(&args)
                };
                let offset = with(&|args| args.offset = Some(number));
                assert_eq!(offset.is_ok(), whole, "{size} {number}");
                let skip = with(&|args| args.skip = Some(number));
                assert_eq!(skip.is_ok(), whole, "{size} {number}");
                let len = with(&|args| args.size = Some(number));
                assert_eq!(len.is_ok(), whole && number > 0, "{size} {number}");
                if whole && number > 0 {
                    assert_eq!(offset.unwrap().offset, 512 * number);
                    assert_eq!(skip.unwrap().geometry.iv_offset, number);
                    assert_eq!(len.unwrap().size, Some(512 * number));
                }
            }
        }
        for size in [u64::MAX - 7, 1 << 55, 1 << 54] {
            let args = PlainArgs {
                offset: Some(size),
                ..args()
            };
            assert!(Layout::of(&args).is_err(), "{size}");
        }
    }

    #[test]
    fn the_data_end_where_they_are_said_to() {
        let layout = |offset, size| {
            let args = PlainArgs {
                offset,
                size,
                sector_size: Some(4096),
                ..args()
            };
            Layout::of(&args).unwrap()
        };
        for (offset, size, storage, expected) in [
            (None, None, 8192, Some(8192)),
            (None, None, 8191, None),
            (None, None, 4095, None),
            (None, None, 0, None),
            (Some(8), None, 8192, Some(4096)),
            (Some(8), None, 4096, None),
            (Some(8), None, 1, None),
            (None, Some(8), 8191, Some(4096)),
            (None, Some(8), 4096, Some(4096)),
            (None, Some(8), 4095, None),
            (Some(8), Some(8), 8192, Some(4096)),
            (Some(8), Some(8), 8191, None),
        ] {
            let found = layout(offset, size).data_len(storage, "x").ok();
            assert_eq!(found, expected, "{offset:?} {size:?} {storage}");
        }
        let error = layout(None, None).data_len(10_000, "x").unwrap_err();
        assert!(
            error.hint_text().unwrap().ends_with("--size 16."),
            "{error}"
        );
    }

    #[test]
    fn keys_and_sectors_are_those_that_there_are() {
        for encryption in Encryption::ALL {
            for bits in 0..=1024 {
                let args = PlainArgs {
                    cipher: Some(encryption),
                    key_size: Some(bits),
                    ..args()
                };
                let accepted = bits % 8 == 0 && encryption.key_lens().contains(&(bits / 8));
                assert_eq!(Layout::of(&args).is_ok(), accepted, "{encryption:?} {bits}");
            }
        }
        for (sector_size, large, accepted) in [
            (512, true, false),
            (1024, true, true),
            (4096, true, true),
            (513, false, false),
            (8192, false, false),
        ] {
            let args = PlainArgs {
                sector_size: Some(sector_size),
                iv_large_sectors: large,
                ..args()
            };
            assert_eq!(Layout::of(&args).is_ok(), accepted, "{sector_size} {large}");
        }
    }
}
