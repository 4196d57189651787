// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor encrypt`.

use std::{
    io::{self, IsTerminal},
    path::Path,
};

use luxor::files::{Input, InputError, Role, shell_word};

use crate::{
    args::EncryptArgs,
    context::Context,
    error::{Error, Result},
    new_volume,
    secrets::SecretSource,
};

/// Encrypts a file into a volume.
///
/// # Errors
/// Fails when the options contradict each other, and with the errors of [`luxor::encrypt_files`].
pub(crate) fn run(args: &EncryptArgs, context: &Context) -> Result<()> {
    let options = new_volume::options(&args.volume, context)?;
    let mut input = Input::open(&args.input, Role::Data).map_err(|error| match error {
        InputError::Folder { ref path } => {
            let (folder, output) = (shell_word(path), shell_word(&args.output));
            let hint = format!("Encrypt an archive: `tar c {folder} | luxor encrypt - {output}`");
            Error::from(error).hint(hint)
        }
        _ => error.into(),
    })?;
    let secrets = SecretSource::secret_only(context, &[("INPUT", &args.input)])?;
    if args.output == Path::new("-") && io::stdout().is_terminal() {
        return Err(Error::failure(
            "OUTPUT is a terminal, which cannot show ciphertext",
        ));
    }
    let needed = new_volume::needed(context);
    let files = new_volume::files(&args.output, args.force, &needed, context);
    let secret = || secrets.new_one(&args.output);
    luxor::encrypt_files(&mut input, &files, &options, secret, &context.library)
}
