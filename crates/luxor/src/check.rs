// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks whether a volume is intact.

use luxor_files::Escaped;
use luxor_luks::{
    HeaderRepair, Luks2Header, ReencryptionProgress, RepairOutlook, UnlockError, VolumeHeader,
};

use crate::Volume;

/// The findings of a check of a volume, one line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What is intact, and what is worth knowing.
    pub good: Vec<String>,
    /// What is damaged.
    pub damage: Vec<String>,
}

impl Volume {
    /// Checks every copy of the metadata and the length of the data. It needs no secret, so it does
    /// not check the keyslots: [`Volume::test`] does.
    #[must_use]
    pub fn check(&self) -> Findings {
        let mut found = Findings::default();
        match self.header.luks2() {
            None if !self.header.damaged_keyslots().is_empty() => {
                let damaged = self.header.damaged_keyslots().into_iter();
                let damaged =
                    damaged.map(|(keyslot, damage)| format!("keyslot {keyslot}: {damage}"));
                found.damage.extend(damaged);
            }
            None => {
                let words = "header: good (LUKS1: one copy, no checksum)";
                found.good.push(words.into());
            }
            Some(header) => found.metadata(header, self.reencryption_progress().as_ref()),
        }
        if found.damage.is_empty() {
            let warnings = self.header.warnings().iter();
            found.damage.extend(warnings.map(ToString::to_string));
        }
        match state(&self.header) {
            State::Good => found.data(self),
            State::Unreadable(error) => found.good.push(format!("data: {error}")),
            State::Damaged(error) => found.damage.push(error.to_string()),
        }
        found
    }

    /// What [`repair_header`](crate::repair_header) would achieve. `None` if no keyslot and no copy of
    /// the metadata is damaged.
    #[must_use]
    pub fn repair_outlook(&self) -> Option<RepairOutlook> {
        if self.header.warnings().is_empty() {
            return None;
        }
        let luks2 = self.header.luks2();
        if luks2.is_some_and(Luks2Header::has_unread_copy) {
            return Some(RepairOutlook::Impossible);
        }
        Some(HeaderRepair::outlook(self.metadata_storage()))
    }
}

impl Findings {
    fn metadata(&mut self, header: &Luks2Header, progress: Option<&ReencryptionProgress>) {
        let description = header.describe();
        for copy in description.copies {
            let name = copy.kind.name();
            match &copy.found {
                Ok(facts) => self.good.push(format!(
                    "{name} header: good (at byte {}, sequence number {}, {} checksum)",
                    facts.offset, facts.seqid, facts.checksum
                )),
                Err(error) => self.damage.push(format!("{name} header: {error}")),
            }
        }
        for name in description.config.unknown_requirements() {
            self.good.push(format!(
                "requirement {}: not supported by this version, which neither opens nor changes the volume",
                Escaped(name)
            ));
        }
        if let Some((number, keyslot)) = description.reencrypt {
            let progress = progress.map_or(String::new(), |done| format!(", done: {done}"));
            self.good.push(format!(
                "re-encryption: under way (keyslot {number}, mode {}, {}, resilience {}){progress}",
                keyslot.mode.name(),
                keyslot.direction.name(),
                keyslot.resilience.name()
            ));
        }
    }

    fn data(&mut self, volume: &Volume) {
        if volume.is_without_data() {
            let words = "data: in another file (the header is detached); not checked";
            self.good.push(words.into());
            return;
        }
        let extents = volume.payload_len().and_then(|_| volume.extents());
        match extents {
            Ok(Some(extents)) => {
                let len: u64 = extents.iter().map(|extent| extent.len).sum();
                let linear = extents.iter().filter(|extent| extent.cipher.is_none());
                let linear = match linear.map(|extent| extent.len).sum() {
                    0_u64 => String::new(),
                    linear => format!(", {linear} of them not encrypted"),
                };
                self.key_scopes(volume);
                if volume.header.has_trailer() {
                    self.good.push(format!(
                        "data: up to {len} bytes; the trailer that ends them is not checked"
                    ));
                    return;
                }
                self.good
                    .push(format!("data: {len} bytes in whole sectors{linear}"));
                let ends = extents.iter().map(|extent| extent.offset + extent.len);
                let storage_len = volume.storage_len().unwrap_or(0);
                let rest = storage_len.saturating_sub(ends.max().unwrap_or(0));
                // A re-encryption can leave parts behind the data.
                if rest > 0 && !volume.header.is_reencrypting() {
                    let words = format!("rest: {rest} bytes after the data, which are not used");
                    self.good.push(words);
                }
            }
            // The length of a pipe is known only at its end.
            Ok(None) => {}
            Err(error) => {
                // Findings are about this volume, so its own name is left out. The name of a
                // separate data file stays.
                let message = error.message();
                let name = format!("{}: ", volume.name());
                let damage = message.strip_prefix(&name).unwrap_or(message);
                self.damage.push(damage.to_owned());
            }
        }
    }

    fn key_scopes(&mut self, volume: &Volume) {
        for (digest, scope) in volume.key_scopes().unwrap_or_default() {
            if let Some(excess) = scope.excess() {
                let blocks = scope.blocks;
                self.good.push(format!(
                    "digest {digest}: its key encrypts {blocks} blocks, {excess}"
                ));
            }
        }
    }
}

/// What the metadata alone tell about the data.
enum State {
    Good,
    /// The metadata are intact, but Luxor cannot read the data.
    Unreadable(UnlockError),
    Damaged(UnlockError),
}

fn state(header: &VolumeHeader) -> State {
    match header.check_openable() {
        // `Findings::metadata` has already reported unknown requirements.
        Ok(()) | Err(UnlockError::Requirements { .. }) => State::Good,
        Err(UnlockError::Reencryption(error)) if !error.is_unsupported() => {
            State::Damaged(error.into())
        }
        Err(error @ (UnlockError::KeyLens { .. } | UnlockError::KeyLenOfCipher { .. })) => {
            State::Damaged(error)
        }
        Err(error) => State::Unreadable(error),
    }
}
