// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor decrypt`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use luxor::{
    Missing, VolumeMetadata, create_output,
    files::{Input, OutputOptions, Role},
};

use crate::{
    args::{General, TypeArgs, UnlockArgs},
    commands::{Subcommand, Taken, inputs, is_stdout},
    confinement,
    context::Context,
    error::{Error, Result},
    secrets::SecretSource,
    volume::{Asking, check_no_header, header, unlock_options},
};

/// Decrypt a volume into a file
///
/// Restores exactly the bytes that `luxor encrypt` read. For a volume made by another program,
/// it writes all sectors. OUTPUT appears whole or not at all, and only its owner can read it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor decrypt backup.luks backup.tar
  luxor decrypt --key-file key.bin photos.luks - | tar x
  ssh host cat photos.luks | luxor decrypt - photos.tar")]
pub(crate) struct DecryptArgs {
    /// The volume: a file or a device; `-` is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub input: PathBuf,

    /// The file to create; `-` is standard output
    #[arg(value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// Whether to store long runs of zeros as holes, which take no space on the disk
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub sparse: Sparse,

    /// Save what is left of a volume whose end is missing
    ///
    /// OUTPUT gets the whole sectors that are there. If something is missing, luxor says how much,
    /// and the exit code is 1.
    #[arg(long)]
    pub truncated: bool,

    /// Replace OUTPUT if it exists; required to write to a block device
    #[arg(long)]
    pub force: bool,

    /// How to open the volume.
    #[command(flatten)]
    pub unlock: UnlockArgs,

    /// The format. Last, since its heading goes on.
    #[command(flatten)]
    pub format: TypeArgs,
}

/// `--sparse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sparse {
    /// Store 64 KiB and more of zeros as holes in a regular file
    #[default]
    Auto,
    /// Write all zeros
    Never,
}

impl Subcommand for DecryptArgs {
    const NAME: &str = "decrypt";
    const TAKES: Taken = Taken::Options(&[
        General::Key,
        General::Prompt,
        General::Passphrase,
        General::VolumeKey,
        General::Header,
        General::Part,
        General::Policy,
        General::Engine,
        General::Threads,
        General::Locks,
        General::Progress,
        General::Confine,
        General::Talk,
    ]);

    /// Decrypts a volume into a file.
    ///
    /// # Errors
    /// Fails when the options contradict each other, and with the errors of [`luxor::decrypt_to`].
    fn run(&self, context: &Context) -> Result<()> {
        let format = self.format.format()?;
        check_no_header(&*format, &self.unlock, context)?;
        let input = Input::open(context.place(&self.input), Role::Data)?;
        let inputs = inputs("INPUT", &self.input, context);
        let secrets = SecretSource::for_format(context, &*format, &inputs)?;
        let options = OutputOptions {
            force: self.force,
            known_input: Some(&input),
            needed: &[
                ("the key file", context.options.key_file.as_deref()),
                (
                    "the volume key file",
                    context.options.volume_key_file.as_deref(),
                ),
                ("the header", context.options.header.as_deref()),
            ],
            sparse: self.sparse == Sparse::Auto,
            ..OutputOptions::default()
        };
        let output = create_output(&self.output, &options, &context.library)?;
        let header = header(context)?;
        let mut needs = confinement::needs_of_reader(context);
        confinement::add_output(&mut needs, &self.output);
        confinement::begin(&needs, context)?;
        let mut volume = VolumeMetadata::open(input, header, format, &context.library)?;
        if self.truncated {
            volume.accept_cut_off();
        }
        let (name, output_name) = (volume.name(), output.name());
        let secrets = Asking::new(&secrets, &self.unlock, volume.path(), volume.luks());
        let options = unlock_options(&self.unlock);
        let decrypted = luxor::decrypt_to(volume, &secrets, &options, output, &context.library)?;
        let missing = match decrypted.missing {
            None => return Ok(()),
            Some(Missing::Bytes(bytes)) => format!("the last {bytes} bytes are missing"),
            Some(Missing::Unknown) => "it ends within a sector, and more may be missing".into(),
            Some(Missing::Trailer) => "the trailer that ends the file is missing".into(),
        };
        let len = decrypted.len;
        Err(Error::failure(format!(
            "{name} was cut off: {missing}; {output_name} has the {len} bytes that are left"
        )))
    }

    fn output_is_stdout(&self) -> bool {
        is_stdout(&self.output)
    }
}
