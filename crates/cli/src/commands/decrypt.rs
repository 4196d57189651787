// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor decrypt`.

use luxor::{
    Missing, VolumeMetadata, create_output,
    files::{Input, OutputOptions, Role},
};

use crate::{
    args::{DecryptArgs, Sparse},
    commands::inputs,
    context::Context,
    error::{Error, Result},
    secrets::SecretSource,
    volume::{Asking, check_no_header, header, unlock_options},
};

/// Decrypts a volume into a file.
///
/// # Errors
/// Fails when the options contradict each other, and with the errors of [`luxor::decrypt_to`].
pub(crate) fn run(args: &DecryptArgs, context: &Context) -> Result<()> {
    let format = args.format.format()?;
    check_no_header(&*format, &args.unlock, context)?;
    let input = Input::open(context.place(&args.input), Role::Data)?;
    let inputs = inputs("INPUT", &args.input, context);
    let secrets = SecretSource::for_format(context, &*format, &inputs)?;
    let options = OutputOptions {
        force: args.force,
        known_input: Some(&input),
        needed: &[
            ("the key file", context.options.key_file.as_deref()),
            (
                "the volume key file",
                context.options.volume_key_file.as_deref(),
            ),
            ("the header", context.options.header.as_deref()),
        ],
        sparse: args.sparse == Sparse::Auto,
        ..OutputOptions::default()
    };
    let output = create_output(&args.output, &options, &context.library)?;
    let header = header(context)?;
    let mut volume = VolumeMetadata::open(input, header, format, &context.library)?;
    if args.truncated {
        volume.accept_cut_off();
    }
    let (name, output_name) = (volume.name(), output.name());
    let secrets = Asking::new(&secrets, &args.unlock.limits);
    let secrets = secrets.beside_tokens(volume.path(), volume.luks(), args.unlock.key_slot);
    let options = unlock_options(&args.unlock);
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
