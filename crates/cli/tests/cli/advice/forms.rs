// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same advice for other forms of a command.

use super::table::{Advice, Proof, RUN, add, case};

/// Scenarios in other forms of a command: advice for cryptsetup's form, which lacks some options and means
/// something else by others, and for a volume that only options describe.
pub(super) fn other_forms() -> Vec<Advice> {
    let size = |provokes| {
        case(
            "To create a new file, add --size SIZE",
            "",
            provokes,
            Proof::Add {
                option: "--size",
                values: 1,
                with: &[("SIZE", "18M")],
            },
            r#"luxor check --key-file key "$v""#,
        )
    };
    let ignored = |provokes, then| Advice {
        shown: "add --key-slot",
        ..case(
            "To try keyslot {number} too, add --key-slot",
            r#"make; luxor key add --key-file key --new-key-file other "$v"
               luxor config --priority ignore --key-slot 0 "$v""#,
            provokes,
            Proof::Add {
                option: "--key-slot",
                values: 1,
                with: &[],
            },
            then,
        )
    };
    let plain = |provokes, expected| Advice {
        code: 1,
        ..case(
            "saves the whole sectors that are left",
            "head -c 5120 plain > part",
            provokes,
            Proof::Run {
                nth: 0,
                with: &[("NEW-FILE", "new")],
            },
            expected,
        )
    };
    vec![
        size(r#"luxor luksFormat -q "$v" key"#),
        size(r#"luxor luksFormat -q --label 'a `b` c' "$v" key"#),
        ignored(r#"luxor luksAddKey -d key "$v" plain"#, "! false"),
        ignored(
            r#"luxor luksOpen --test-passphrase -d key "$v""#,
            "same --key-slot 0",
        ),
        ignored(
            r#"luxor luksChangeKey -d key "$v" plain"#,
            "! same --key-slot 0",
        ),
        Advice {
            shown: "lets keyslot ",
            ..case(
                "lets keyslot {number} be tried",
                r#"make; luxor key add --key-file key --new-key-file other "$v"
                   luxor config --priority ignore --key-slot 0 "$v""#,
                r#"luxor luksRemoveKey "$v" key"#,
                RUN,
                r#"luxor luksRemoveKey -q "$v" key; luxor key test --key-file other "$v""#,
            )
        },
        case(
            "To overwrite it with the new one",
            "make --luks2-keyslots-size 256K",
            r#"luxor luksChangeKey -d key "$v" other"#,
            Proof::Add {
                option: "--in-place",
                values: 1,
                with: &[],
            },
            r#"luxor key test --key-file other "$v"; ! luxor key test --key-file key "$v""#,
        ),
        case(
            "Use --type luks2.",
            r#"truncate -s 20M "$v""#,
            r#"luxor luksFormat -q --type luks1 --sector-size 4096 "$v" key"#,
            add("--type luks2"),
            "",
        ),
        case(
            "To remove it nevertheless, add --last",
            "make",
            r#"luxor luksRemoveKey "$v" key"#,
            add("--last"),
            r#"! luxor key test --key-file key "$v""#,
        ),
        plain(
            "luxor decrypt --type plain --key-file KEY --size 100 part out",
            "cmp -n 5120 new <(luxor decrypt --type plain --key-file KEY part -)",
        ),
        plain(
            "luxor serve --type plain --cipher aes-cbc-plain --key-file KEY --keyfile-offset 1 --key-size 128 \
             --offset 1 --skip 7 --size 100 --socket socket --volume-offset 512 part",
            "cmp new <(luxor decrypt --type plain --cipher aes-cbc-plain --key-file KEY --keyfile-offset 1 \
             --key-size 128 --offset 2 --skip 7 part -)",
        ),
        plain(
            "luxor mount --type plain --sector-size 1024 --iv-large-sectors --key-file KEY --size 100 part DIR",
            "cmp new <(luxor decrypt --type plain --sector-size 1024 --iv-large-sectors --key-file KEY part -)",
        ),
        Advice {
            proof: Proof::Run {
                nth: 0,
                with: &[("VOLUME", "part"), ("NEW-FILE", "new")],
            },
            ..plain(
                "luxor decrypt --type plain --key-file KEY --size 100 - out < part",
                "cmp new <(luxor decrypt --type plain --key-file KEY part -)",
            )
        },
    ]
}
