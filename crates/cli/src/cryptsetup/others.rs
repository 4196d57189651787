// SPDX-License-Identifier: MIT OR Apache-2.0
//! Actions of cryptsetup that Luxor does not have, and what the user can do instead.

/// An action without a counterpart in Luxor.
pub(super) struct Other {
    pub(super) names: &'static [&'static str],
    pub(super) why: &'static str,
    /// What the user can do instead.
    pub(super) instead: &'static str,
}

const NO_DEVICES: &str = "Luxor creates no devices";
const UNKNOWN_FORMAT: &str = "Luxor does not know this format";

/// What stands for opening a volume of another format.
const INSTEAD_OF_OTHERS: &str = "`luxor decrypt`, `luxor mount` and `luxor serve` open LUKS volumes, and plain volumes with \
     --type plain.";

pub(super) const OTHERS: &[Other] = &[
    Other {
        names: &["create", "plainOpen"],
        why: NO_DEVICES,
        instead: INSTEAD_OF_PLAIN,
    },
    Other {
        names: &["close", "luksClose", "luksResume", "luksSuspend", "refresh"],
        why: NO_DEVICES,
        instead: "`luxor umount DIR` ends `luxor mount`; SIGTERM ends `luxor serve`.",
    },
    Other {
        names: &["status"],
        why: NO_DEVICES,
        instead: "`luxor dump VOLUME` shows the metadata; `luxor serve` and `luxor mount` have \
                  --stats and --metrics-listen.",
    },
    Other {
        names: &[
            "bitlkDump",
            "bitlkOpen",
            "fvault2Dump",
            "fvault2Open",
            "loopaesOpen",
            "tcryptDump",
            "tcryptOpen",
        ],
        why: UNKNOWN_FORMAT,
        instead: INSTEAD_OF_OTHERS,
    },
];

/// What stands for `open --type plain`.
const INSTEAD_OF_PLAIN: &str = "`luxor mount --type plain --key-file KEY VOLUME DIR` shows the plaintext as a file (with --files, \
     the files in it), and \
     `luxor serve --type plain --key-file KEY --socket SOCKET VOLUME` serves it as a disk. KEY is the \
     key itself, not a passphrase. --cipher, --key-size, --offset, --skip, --size and --sector-size mean \
     what they mean in cryptsetup, but the default of --cipher depends on its version.";

/// What stands for `open` without `--test-passphrase`.
const INSTEAD_OF_OPEN: &str = "`luxor mount --files VOLUME DIR` shows the files in it until `luxor umount DIR`, \
     `luxor mount VOLUME DIR` shows the plaintext as a file, `luxor serve --socket SOCKET VOLUME` serves it as a disk, and `luxor decrypt VOLUME FILE` copies it. `--test-passphrase` tests a \
     passphrase.";

/// Returns why there is no `open` for a volume of this type, and what the user can do instead.
pub(super) fn instead_of_open(kind: Option<&str>, has_header: bool) -> (&'static str, String) {
    match kind.unwrap_or("luks") {
        "plain" => (NO_DEVICES, INSTEAD_OF_PLAIN.to_owned()),
        "luks" | "luks1" | "luks2" if has_header => {
            let instead = INSTEAD_OF_OPEN.replace(" VOLUME", " --header FILE VOLUME");
            (NO_DEVICES, instead)
        }
        "luks" | "luks1" | "luks2" => (NO_DEVICES, INSTEAD_OF_OPEN.to_owned()),
        _ => (UNKNOWN_FORMAT, INSTEAD_OF_OTHERS.to_owned()),
    }
}
