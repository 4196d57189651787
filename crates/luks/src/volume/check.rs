// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks every copy of the metadata, without a secret.

use luxor_volume::{Findings, brief};

use super::VolumeHeader;
use crate::luks2::{
    foreign::Foreign,
    header::{Luks2Header, Warning},
    unlock::UnlockError,
};

/// Returns the findings about the metadata of a volume whose data are in a storage of `storage_len`
/// bytes, if that is known.
pub(super) fn check(header: &VolumeHeader, storage_len: Option<u64>) -> Findings {
    let mut found = Findings::default();
    match header.luks2() {
        None if header.warnings().is_empty() => {
            let words = "header: good (LUKS1: one copy, no checksum)";
            found.good.push(words.into());
        }
        None => found.damage.extend(header.warnings().iter().map(short)),
        Some(luks2) => {
            check_luks2(luks2, storage_len, &mut found);
            if found.damage.is_empty() {
                let warnings = luks2.warnings().iter();
                found.damage.extend(warnings.map(ToString::to_string));
            }
            check_objects(luks2, &mut found);
        }
    }
    match header.check_openable() {
        // `check_luks2` and `check_objects` have already reported these.
        Ok(()) | Err(UnlockError::Requirements { .. }) => {}
        Err(error) => {
            found.can_read_data = false;
            let is_damage = match &error {
                UnlockError::Reencryption(error) => !error.is_unsupported(),
                UnlockError::KeyLenOfCipher { .. } => true,
                UnlockError::Segment(error) => !error.can_be_finished(),
                _ => false,
            };
            if is_damage {
                found.damage.push(error.to_string());
            } else if !matches!(error, UnlockError::KeyLens { .. }) {
                found.good.push(format!("data: {error}"));
            }
        }
    }
    found
}

/// Returns what is damaged in a LUKS1 header.
fn short(warning: &Warning) -> String {
    match warning {
        Warning::Keyslot { keyslot, damage } => format!("keyslot {keyslot}: {damage}"),
        other => other.to_string(),
    }
}

/// Adds the keyslots and digests that this version does not use, and the contradictions between keyslots.
fn check_objects(header: &Luks2Header, found: &mut Findings) {
    let description = header.describe();
    let objects = [
        ("keyslot", description.foreign_keyslots),
        ("digest", description.foreign_digests),
    ];
    for (kind, objects) in objects {
        for (
            number,
            Foreign {
                what, breaks_rule, ..
            },
        ) in objects
        {
            if *breaks_rule {
                found.damage.push(format!("{kind} {number}: {what}"));
            } else {
                let words = format!("{kind} {number}: not used by this version ({what})");
                found.good.push(words);
            }
        }
    }
    let contradiction = header.check_key_lens().err();
    found
        .damage
        .extend(contradiction.map(|error| error.to_string()));
}

fn check_luks2(header: &Luks2Header, storage_len: Option<u64>, found: &mut Findings) {
    let description = header.describe();
    for copy in description.copies {
        let name = copy.kind.name();
        match &copy.found {
            Ok(facts) => found.good.push(format!(
                "{name} header: good (at byte {}, sequence number {}, {} checksum)",
                facts.offset, facts.seqid, facts.checksum
            )),
            Err(error) => found.damage.push(format!("{name} header: {error}")),
        }
    }
    for name in description.config.unknown_requirements() {
        found.good.push(format!(
            "requirement {}: not supported by this version, which neither opens nor changes the volume",
            brief(name)
        ));
    }
    if let Some((number, keyslot)) = description.reencrypt {
        let data_len = storage_len.and_then(|len| header.data_len(len).ok());
        let state = data_len.and_then(|len| header.reencryption(len).ok().flatten());
        let done = state.map_or(String::new(), |state| format!(", done: {}", state.progress));
        found.good.push(format!(
            "re-encryption: under way (keyslot {number}, mode {}, {}, resilience {}){done}",
            keyslot.mode.name(),
            keyslot.direction.name(),
            keyslot.resilience.name()
        ));
    }
}
