// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor resize`.

use luxor::Resized;
use luxor_files::path_name;

use crate::{args::ResizeArgs, context::Context, error::Result};

/// Changes the size of a volume.
///
/// # Errors
/// Those of [`luxor::resize`].
pub(crate) fn run(args: &ResizeArgs, context: &Context) -> Result<()> {
    let header = context.options.header.as_deref();
    let resized = luxor::resize(
        &args.volume,
        header,
        args.size,
        args.shrink,
        &context.library,
    );
    let Resized { before, after } = resized?;
    let volume = path_name(&args.volume);
    context
        .console
        .tell(format!("{volume} holds {after} bytes now, {before} before"));
    Ok(())
}
