// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor reencrypt`.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use clap::{Args, ValueEnum, ValueHint};
use luxor::{
    LuksMetadata, ReencryptError, ReencryptOptions, ReencryptPart, ZoneProtection,
    files::{DataFileError, path_name},
    luks::{HashAlgorithm, LuksVersion, NewVolumeOptions, PbkdfKind, ReencryptMode},
    sector::SectorSize,
};

use crate::{
    args::{General, LimitArgs, PbkdfArgs, hash_name, size},
    commands::{Subcommand, Taken, inputs},
    confirm::confirm,
    context::Context,
    error::{Error, ErrorClass, Result},
    new_volume::key_size,
    process::StopOnSignal,
    secrets::SecretSource,
    volume::{Asking, limited, peek_metadata},
};

/// Change the volume key of a volume in place
///
/// All data are decrypted with the old key and encrypted with a new one, where they are, and the
/// passphrases and key files stay the same. With --encrypt, plain data become a volume, and with
/// --decrypt a volume becomes plain data. An interruption at any moment loses nothing: Ctrl-C, a crash,
/// a power cut. The same command continues; once the header is written, --encrypt is left out, and
/// `cryptsetup reencrypt` can continue it too.
///
/// Nothing else may use the volume meanwhile. Luxor asks for the passphrase of each keyslot.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor reencrypt disk.luks
  luxor reencrypt --key-file key.bin --key-slot 0 disk.luks     keeps only keyslot 0
  luxor reencrypt --sector-size 4096 --resilience journal disk.luks
  luxor reencrypt --encrypt --header disk.header disk.img       a plain image becomes a volume
  luxor reencrypt --encrypt --reduce-device-size 32M disk.img   the same, with the header in it
  luxor reencrypt --decrypt --header disk.header disk.luks      a volume becomes a plain image")]
pub(crate) struct ReencryptArgs {
    /// The volume: a file or a block device
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// VOLUME is a file or disk that is not encrypted: encrypt it in place
    ///
    /// The header goes to a new --header FILE, or into VOLUME with --reduce-device-size. Luxor asks for a
    /// new passphrase, or takes that of --key-file. After an interruption, the command without --encrypt
    /// continues.
    #[arg(long, conflicts_with_all = ["resume_only", "key_slot", "decrypt"])]
    pub encrypt: bool,

    /// The last SIZE bytes of VOLUME are free: put the header into VOLUME, which moves the data
    ///
    /// The header takes half of them. A file is made longer first: truncate --size +32M FILE. A file
    /// system is made smaller first.
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "encrypt", conflicts_with = "decrypt")]
    pub reduce_device_size: Option<u64>,

    /// Overwrite what the last bytes of VOLUME hold (with --reduce-device-size), or change a whole disk with
    /// its partition table (with --header)
    #[arg(long)]
    pub force: bool,

    /// Decrypt VOLUME in place, for good; the header is copied to a new --header FILE
    ///
    /// Until the end that file is needed to open the volume and to continue. A file is cut off where the
    /// data end.
    #[arg(long, conflicts_with_all = ["key_size", "sector_size", "key_slot"])]
    pub decrypt: bool,

    /// Keep only this keyslot (may be repeated); the others are removed at the end
    #[arg(long, value_name = "N")]
    pub key_slot: Vec<u32>,

    /// The new volume key in bits: 512 is AES-256, 256 is AES-128 (default: as now)
    #[arg(long, value_name = "BITS")]
    pub key_size: Option<u32>,

    /// The new sector size in bytes: 512, 1024, 2048 or 4096 (default: as now)
    #[arg(long, value_name = "BYTES")]
    pub sector_size: Option<u32>,

    /// What is stored before data change, so that a crash loses nothing (default: checksum)
    ///
    /// It can be another one after an interruption, unless the data move.
    #[arg(long, value_enum)]
    pub resilience: Option<ResilienceName>,

    /// The hash of --resilience checksum (default: sha256)
    #[arg(long, value_name = "HASH", value_parser = hash_name(), hide_possible_values = true)]
    pub resilience_hash: Option<HashAlgorithm>,

    /// Change at most this many bytes at once, with K, M, G or T for powers of 1024 (default: 128M)
    ///
    /// The area for the state in the metadata may permit less.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub hotzone_size: Option<u64>,

    /// Change only the first SIZE bytes of the data: what comes after them is lost
    ///
    /// It stays where it is, and no key opens it afterwards: for a disk of which only the beginning is used.
    /// Luxor asks for confirmation. A command that continues after --init-only needs the option again.
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "reduce_device_size")]
    pub device_size: Option<u64>,

    /// Do not ask for confirmation before data are lost
    #[arg(long)]
    pub batch_mode: bool,

    /// Begin, and change no data yet
    #[arg(long, conflicts_with = "resume_only")]
    pub init_only: bool,

    /// Continue only: fail if no re-encryption has begun
    #[arg(long)]
    pub resume_only: bool,

    /// For command lines of cryptsetup: Luxor finds out by itself that a volume is in use
    #[arg(long, hide = true)]
    pub force_offline_reencrypt: bool,

    /// What opening a new keyslot costs.
    #[command(flatten)]
    pub pbkdf: PbkdfArgs,

    /// What opening an old keyslot may cost.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// `--resilience`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResilienceName {
    /// Checksums of all sectors: fast, for disks that write a sector of the volume, which often has 4096
    /// bytes, whole or not at all
    Checksum,
    /// A copy of the data: for any disk, slower
    Journal,
    /// Nothing: fastest, but a crash within a zone loses the whole volume
    None,
    /// The place from which data are read: always with --reduce-device-size
    Datashift,
    /// The same and checksums: the default of --decrypt where the data take the place of the header
    DatashiftChecksum,
    /// The same and a copy, which needs room for as much data as the header is long
    DatashiftJournal,
}

impl Subcommand for ReencryptArgs {
    const NAME: &str = "reencrypt";
    const TAKES: Taken = Taken::Options(&[
        General::Key,
        General::Passphrase,
        General::Header,
        General::Part,
        General::Policy,
        General::Engine,
        General::Threads,
        General::Locks,
        General::Progress,
        General::Talk,
    ]);

    /// Changes the volume key of a volume.
    ///
    /// # Errors
    /// Those of [`luxor::reencrypt`].
    fn run(&self, context: &Context) -> Result<()> {
        self.check_new_header(context)?;
        let sector_size = self.sector_size.map(SectorSize::try_from).transpose();
        let options = ReencryptOptions {
            keyslots: self.key_slot.clone(),
            key_len: self
                .key_size
                .map(key_size)
                .transpose()?
                .map(|size| 2 * size.bytes()),
            sector_size: sector_size.map_err(|error| Error::failure(error.to_string()))?,
            pbkdf: Some(self.pbkdf.options(PbkdfKind::Argon2id)?),
            protection: protection(self)?,
            zone: self.hotzone_size,
            device_size: self.device_size,
            most_lost: confirm_loss(self, context)?,
            mode: match (self.encrypt, self.decrypt) {
                (true, _) => Some(ReencryptMode::Encrypt),
                (_, true) => Some(ReencryptMode::Decrypt),
                _ => None,
            },
            force: self.force,
            part: match (self.init_only, self.resume_only) {
                (true, _) => ReencryptPart::Begin,
                (_, true) => ReencryptPart::Continue,
                _ => ReencryptPart::All,
            },
            unlock: limited(Vec::new(), &self.limits),
        };
        let volume = path_name(&self.volume);
        let cancel = Arc::clone(&context.library.cancel);
        let _signals = StopOnSignal::new(move |_| cancel.store(true, Ordering::Relaxed));
        let done = if self.encrypt {
            encrypt(self, &options, context).map(|()| ReencryptMode::Encrypt)
        } else {
            let secrets = SecretSource::new(context, &inputs("VOLUME", &self.volume, context))?;
            // Only for its tokens: the re-encryption reads it again, and reports what is wrong with it.
            let found = peek_metadata(&self.volume, context);
            let (path, found) = match &found {
                Some(found) => (found.path(), found.luks()),
                None => (&*self.volume, None),
            };
            let secrets = Asking::for_keyslots(&secrets, &self.limits, &self.key_slot, path, found);
            let header = context.options.header.as_deref();
            luxor::reencrypt(
                context.place(&self.volume),
                header,
                &secrets,
                &options,
                &context.library,
            )
        };
        let header = context.options.header.as_deref();
        let mode = done.map_err(|error| self.with_advice(error))?;
        let what = match mode {
            ReencryptMode::Encrypt => "encryption",
            ReencryptMode::Decrypt => "decryption",
            ReencryptMode::Reencrypt => "re-encryption",
        };
        let end = match (self.init_only, &header) {
            (true, _) if self.device_size.is_some() => {
                "can begin. The command that continues it needs --device-size again".to_owned()
            }
            (true, _) => "can begin".to_owned(),
            (false, Some(header)) if mode == ReencryptMode::Decrypt => {
                format!(
                    "is done, and its header {} is not needed any more",
                    path_name(header)
                )
            }
            _ => "is done".to_owned(),
        };
        context
            .console
            .tell(format!("the {what} of {volume} {end}"));
        Ok(())
    }
}

impl ReencryptArgs {
    /// The options of the command that continues. It has no options about a beginning, except that the metadata
    /// do not have the size before there is a zone.
    fn continued(&self) -> String {
        let mut options = String::new();
        if self.decrypt {
            options += " --decrypt";
        }
        if let Some(size) = self.device_size {
            options += &format!(" --device-size {size}");
        }
        options
    }

    /// Refuses to encrypt data with a header that exists, as after an interruption. With the header of another
    /// volume the data would be taken for that volume's.
    fn check_new_header(&self, context: &Context) -> Result<()> {
        let header = context.options.header.as_deref();
        let Some(header) =
            header.filter(|header| self.encrypt && header.symlink_metadata().is_ok())
        else {
            return Ok(());
        };
        let text = format!("{} exists already", path_name(header));
        let opened = LuksMetadata::open_path(header, &context.library);
        let has_begun = opened.is_ok_and(|volume| volume.header.is_reencrypting());
        Err(Error::new(ErrorClass::Busy, text).hint(if has_begun {
            let options = self.continued();
            format!(
                "If --encrypt was interrupted, it is needed, and this continues: `luxor reencrypt \
                 --resume-only{options} VOLUME`."
            )
        } else {
            "Name a new file: this one may be the header of another volume.".to_owned()
        }))
    }

    /// Adds how to continue, or what to do when the volume is in use. The general hints name the option
    /// `--read-only`.
    fn with_advice(&self, error: Error) -> Error {
        let options = self.continued();
        let is_begun = matches!(error.find(), Some(ReencryptError::Interrupted { .. }));
        let is_in_use = matches!(
            error.find(),
            Some(DataFileError::InUse { .. } | DataFileError::Locked { .. })
        );
        if error.class() == ErrorClass::Cancelled {
            error.hint(format!(
                "If the re-encryption has begun, this continues it: `luxor reencrypt \
                 --resume-only{options} VOLUME`."
            ))
        } else if is_begun {
            error.hint(format!(
                "Unless nothing protects the data (--resilience none), this continues it: `luxor \
                 reencrypt --resume-only{options} VOLUME`."
            ))
        } else if is_in_use && error.class() == ErrorClass::Busy {
            error.hint("Run the command again when nothing else uses the volume.")
        } else {
            error
        }
    }
}

/// Asks before the data after those of `--device-size` are lost. Returns how many bytes these are.
fn confirm_loss(args: &ReencryptArgs, context: &Context) -> Result<Option<u64>> {
    let Some(size) = args.device_size else {
        return Ok(None);
    };
    let header = context.options.header.as_deref();
    let lost = luxor::data_beyond(context.place(&args.volume), header, size, &context.library)?;
    if lost == 0 {
        return Ok(Some(0));
    }
    let what = if args.encrypt {
        "not be encrypted, and not be in the volume"
    } else {
        "be lost"
    };
    let warning = format!(
        "{}: all data after the first {size} bytes will {what}, which are {lost} bytes",
        path_name(&args.volume)
    );
    if args.batch_mode {
        context.library.events.warning(&warning);
    } else {
        confirm(&format!("{warning}."), "--batch-mode")?;
    }
    Ok(Some(lost))
}

/// What protects a zone, if the options say so and permit it.
fn protection(args: &ReencryptArgs) -> Result<Option<ZoneProtection>> {
    use ResilienceName::{Datashift, DatashiftChecksum, DatashiftJournal, Journal};
    let is_shift = args.reduce_device_size.is_some();
    let is_possible = match args.resilience {
        None => true,
        Some(Datashift) => is_shift,
        Some(DatashiftChecksum | DatashiftJournal) => args.decrypt,
        Some(_) => !is_shift,
    };
    if let (Some(resilience), false) = (args.resilience, is_possible) {
        let name = resilience.to_possible_value();
        let name = name.as_ref().map_or("", |name| name.get_name());
        let text = format!("--resilience {name} is not possible with the other options");
        return Err(Error::failure(text).hint(
            "--encrypt --reduce-device-size takes only datashift, and only --decrypt takes \
             datashift-checksum and datashift-journal.",
        ));
    }
    Ok(match (args.resilience, args.resilience_hash) {
        (None, None) => None,
        _ if is_shift => None,
        (Some(Journal | DatashiftJournal), _) => Some(ZoneProtection::Journal),
        (Some(ResilienceName::None), _) => Some(ZoneProtection::None),
        (_, hash) => {
            let hash = hash.unwrap_or(HashAlgorithm::Sha256);
            Some(ZoneProtection::Checksum(hash))
        }
    })
}

/// Encrypts a file or disk that is not encrypted.
fn encrypt(args: &ReencryptArgs, options: &ReencryptOptions, context: &Context) -> Result<()> {
    let header = context.options.header.as_deref();
    let place = match (header, args.reduce_device_size) {
        (Some(header), None) => Ok(header),
        (None, Some(size)) => Err(size),
        _ => {
            let text = "--encrypt needs either a new --header FILE or --reduce-device-size SIZE: the \
                        header needs a place";
            let error = Error::failure(text);
            return Err(error.hint("`luxor encrypt` makes a volume with its header in a new file."));
        }
    };
    let default = NewVolumeOptions::new(LuksVersion::Luks2);
    let new = NewVolumeOptions {
        sector_size: options.sector_size,
        key_size: args.key_size.map_or(Ok(default.key_size), key_size)?,
        pbkdf: options.pbkdf.clone().unwrap_or_default(),
        ..default
    };
    let secrets = SecretSource::secret_only(context, &inputs("VOLUME", &args.volume, context))?;
    let secret = || secrets.new_one(&args.volume);
    let library = &context.library;
    let volume = &args.volume;
    match place {
        Ok(header) => luxor::encrypt_in_place(
            context.place(volume),
            header,
            &new,
            secret,
            options,
            library,
        ),
        Err(size) => luxor::encrypt_with_header_in_front(
            context.place(volume),
            size,
            &new,
            secret,
            options,
            library,
        ),
    }
}
