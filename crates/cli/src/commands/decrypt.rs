// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor decrypt`.

use luxor::create_output;
use luxor_files::{Input, OutputOptions, Role};

use crate::{
    args::{DecryptArgs, Sparse},
    commands::inputs,
    context::Context,
    error::Result,
    secrets::SecretSource,
    volume::{Asking, open, unlock_options},
};

/// Decrypts a volume into a file.
///
/// # Errors
/// Fails when the options contradict each other, and with the errors of [`luxor::decrypt`].
pub(crate) fn run(args: &DecryptArgs, context: &Context) -> Result<()> {
    let input = Input::open(&args.input, Role::Data)?;
    let secrets = SecretSource::new(context, &inputs("INPUT", &args.input, context))?;
    let options = OutputOptions {
        force: args.force,
        known_input: Some(&input),
        needed: &[
            ("the key file", context.options.key_file.as_deref()),
            ("the header", context.options.header.as_deref()),
        ],
        sparse: args.sparse == Sparse::Auto,
        ..OutputOptions::default()
    };
    let output = create_output(&args.output, &options, &context.library)?;
    let volume = open(input, context)?;
    let secrets = Asking::new(&secrets, &args.unlock.limits);
    let options = unlock_options(&args.unlock);
    luxor::decrypt(volume, &secrets, &options, output, &context.library)
}
