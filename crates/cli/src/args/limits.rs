// SPDX-License-Identifier: MIT OR Apache-2.0
//! What opening a keyslot may cost.

use clap::Args;

/// What opening a keyslot may cost, and what is accepted.
#[derive(Args, Clone, Debug)]
pub(crate) struct LimitArgs {
    /// Ask for the passphrase up to N times, on a terminal
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Key")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub tries: u32,

    /// Open a volume with equal data and tweak keys, which weaken XTS
    #[arg(long)]
    pub allow_weak_key: bool,

    /// Allow a keyslot this much memory (KiB), instead of the built-in limit
    #[arg(long, value_name = "KiB")]
    pub pbkdf_memory_limit: Option<u64>,

    /// Allow a keyslot or digest this many iterations, instead of the built-in limit
    #[arg(long, value_name = "N")]
    pub pbkdf_iterations_limit: Option<u64>,
}
