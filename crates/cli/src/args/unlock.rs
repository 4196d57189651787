// SPDX-License-Identifier: MIT OR Apache-2.0
//! What may be said about opening a volume.

use clap::Args;

use super::limits::LimitArgs;

/// What may be said about opening a volume.
#[derive(Args, Clone, Debug)]
pub(crate) struct UnlockArgs {
    /// Try only this keyslot
    #[arg(long, value_name = "N")]
    pub key_slot: Option<u32>,

    /// What that may cost, and what is accepted.
    #[command(flatten)]
    pub limits: LimitArgs,
}
