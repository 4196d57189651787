// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts that only name options and commands.

use super::table::{Advice, names};

/// The texts in which an option is the subject, or that name a command for no other reason.
pub(super) fn names_only() -> Vec<Advice> {
    [
        "--volume-partition {number}",
        "--volume-offset {offset}",
        "There is nothing to unlock",
        "--flags: {error}, or none",
        "--key-size is {bits} bits: it must be 256 or 512",
        "the parser requires --key-slot",
        "`luxor mount` needs it to find its mount",
        "{mode} needs --iv with",
        "raw needs --key-file",
        "--stride must be below",
        "--data-unit is above",
        "--data-unit must be at least",
        " --decrypt",
        " --device-size {size}",
        "--resilience {name} is not possible",
        "--encrypt --reduce-device-size takes only",
        "`luxor encrypt` makes a volume with its header in a new file",
        "--export-name: {error}",
        "--socket and --listen cannot be used together",
        "--tls-psk are for TCP",
        "open LUKS volumes, and plain volumes",
        " --header FILE VOLUME",
        "--header {volume} {DATA}",
        "--cipher is {}",
        "export needs --token-id",
        "--header-backup-file is missing",
        "--type is {}",
        "--hash is {}",
        "does not replace a volume and its --header together",
        "--socket needs a path",
        "--listen {text}: no such address",
        "--sector-size: {error}",
        "--key-size is {bits} bits: it must be 256 (AES-128)",
        "bits, and --key-size is {needed}",
        "--uuid: {} is not a UUID",
        "--volume-key-file takes the place",
        "--type {kind} needs --key-file",
        "--volume-key-file cannot be used with --type {kind}",
        "--keyfile-size cannot be used with --type {kind}",
        "{option} cannot be used with --type {name}",
        "--metrics-listen: {address}",
        "--metrics-listen: cannot listen",
        "--metrics-listen: {error}",
        "`--engine auto` uses",
        "{option} cannot be used with {mode}",
        "{option}: {error}",
        "has only {found} of the {size} bytes",
        "Give --hotzone-size at least",
    ]
    .map(names)
    .into()
}
