// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor encrypt`.

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
};

use clap::{Args, ValueHint};
use luxor::files::{Input, InputError, Role, shell_word};

use crate::{
    advice,
    args::{General, NewVolumeArgs},
    commands::{Subcommand, Taken, is_stdout},
    confinement,
    context::Context,
    error::{Error, Result},
    new_volume,
    secrets::SecretSource,
};

/// Encrypt a file into a LUKS volume
///
/// The volume holds exactly the bytes of INPUT, and `luxor decrypt` restores them.
/// `cryptsetup open` shows them padded with zeros to a whole sector. OUTPUT is longer than
/// INPUT by the header, 16 MiB by default. It appears whole or not at all.
///
/// With `-` for both, the length of INPUT is stored after the data. luxor cannot see that a
/// program before it in a pipe has failed: use `set -o pipefail`.
///
/// A LUKS1 volume has a header of 2 MiB and sectors of 512 bytes. It cannot store a length, so
/// INPUT must consist of whole sectors.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor encrypt backup.tar backup.luks
  tar c photos | luxor encrypt --key-file key.bin - photos.luks
  tar c photos | luxor encrypt --key-file key.bin - - | ssh host 'cat > photos.luks'
  luxor encrypt --label Photos --iter-time 5000 photos.img photos.luks
  luxor encrypt --header backup.header backup.tar backup.data
  luxor encrypt --luks2-keyslots-size 512K note.txt note.luks   a header of 544 KiB")]
pub(crate) struct EncryptArgs {
    /// The file, image or device to encrypt; `-` is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub input: PathBuf,

    /// The volume to create; `-` is standard output
    #[arg(value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// What the volume is to be.
    #[command(flatten)]
    pub volume: NewVolumeArgs,

    /// Replace OUTPUT if it exists; required to write to a block device
    #[arg(long)]
    pub force: bool,
}

impl Subcommand for EncryptArgs {
    const NAME: &str = "encrypt";
    const TAKES: Taken = Taken::Options(&[
        General::Key,
        General::Prompt,
        General::Passphrase,
        General::VolumeKey,
        General::Header,
        General::Engine,
        General::Threads,
        General::Locks,
        General::Progress,
        General::Confine,
        General::Talk,
    ]);

    /// Encrypts a file into a volume.
    ///
    /// # Errors
    /// Fails when the options contradict each other, and with the errors of [`luxor::encrypt_files`].
    fn run(&self, context: &Context) -> Result<()> {
        let inputs = [("INPUT", self.input.as_path())];
        let options = new_volume::options(&self.volume, &inputs, context)?;
        let mut input = Input::open(&self.input, Role::Data).map_err(|error| match error {
            InputError::Folder { ref path } => {
                let (folder, output) = (shell_word(path), shell_word(&self.output));
                let hint =
                    format!("Encrypt an archive: `tar c {folder} | luxor encrypt - {output}`");
                Error::from(error).hint(hint)
            }
            _ => error.into(),
        })?;
        let secrets = SecretSource::secret_only(context, &inputs)?;
        if self.output == Path::new("-") && io::stdout().is_terminal() {
            return Err(Error::failure(
                "OUTPUT is a terminal, which cannot show ciphertext",
            ));
        }
        if let Some(warning) = advice::before_encryption(&input) {
            context.console.warn(warning);
        }
        let needed = new_volume::needed(context);
        let files = new_volume::files(&self.output, self.force, &needed, context);
        let mut needs = confinement::needs_of_reader(context);
        confinement::add_output(&mut needs, &self.output);
        if let Some(header) = &context.options.header {
            confinement::add_output(&mut needs, header);
        }
        let secret = || {
            // All files are open.
            confinement::begin(&needs, context)?;
            secrets.new_one(&self.output)
        };
        luxor::encrypt_files(&mut input, &files, &options, secret, &context.library)?;
        if !self.output_is_stdout() {
            let made = || new_volume::made(&self.output, &options, context);
            context.console.tell_on_terminal(made);
        }
        Ok(())
    }

    fn output_is_stdout(&self) -> bool {
        is_stdout(&self.output)
    }
}
