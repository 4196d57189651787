// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks whether a volume is intact.

use luxor_volume::{Findings, Header, Reencryption};

use crate::VolumeMetadata;

impl<H: Header + ?Sized> VolumeMetadata<H> {
    /// Checks every copy of the metadata and the length of the data. It needs no secret, so it does
    /// not check the keyslots: [`VolumeMetadata::test_keys`] does.
    #[must_use]
    pub fn check(&self) -> Findings {
        let storage_len = self.storage_len().filter(|_| !self.is_without_data());
        let mut found = self.header.check(storage_len);
        let keyslots = self.check_keyslots();
        // Of a volume that ends within its keyslots, the data in the same file are missing too.
        let may_have_data = keyslots.is_ok() || self.has_detached_header();
        if let Err(error) = keyslots {
            found.damage.push(self.without_name(error.message()));
        }
        if found.can_read_data && may_have_data {
            self.check_data(&mut found);
        }
        found
    }

    fn check_data(&self, found: &mut Findings) {
        let description = self.describe();
        let is_changing = description.reencryption == Reencryption::UnderWay;
        if self.is_without_data() {
            let words = "data: in another file (the header is detached); not checked";
            found.good.push(words.into());
            return;
        }
        let extents = self.payload_len().and_then(|_| self.extents());
        match extents {
            Ok(Some(extents)) => {
                let len: u64 = extents.iter().map(|extent| extent.len).sum();
                let linear = extents.iter().filter(|extent| extent.cipher.is_none());
                let linear = match linear.map(|extent| extent.len).sum() {
                    0_u64 => String::new(),
                    linear => format!(", {linear} of them not encrypted"),
                };
                self.check_key_scopes(found);
                if description.has_trailer() {
                    found.good.push(format!(
                        "data: up to {len} bytes; the trailer that ends them is not checked"
                    ));
                    return;
                }
                found
                    .good
                    .push(format!("data: {len} bytes in whole sectors{linear}"));
                let ends = extents.iter().map(|extent| extent.offset + extent.len);
                let storage_len = self.storage_len().unwrap_or(0);
                let rest = storage_len.saturating_sub(ends.max().unwrap_or(0));
                // A re-encryption can leave parts behind the data.
                if rest > 0 && !is_changing {
                    let words = format!("rest: {rest} bytes after the data, which are not used");
                    found.good.push(words);
                }
            }
            // The length of a pipe is known only at its end.
            Ok(None) => {}
            Err(error) => {
                found.damage.push(self.without_name(error.message()));
            }
        }
    }

    /// Findings are about this volume, so its own name is left out. The name of a separate data file stays.
    fn without_name(&self, message: &str) -> String {
        let name = format!("{}: ", self.name());
        message.strip_prefix(&name).unwrap_or(message).to_owned()
    }

    fn check_key_scopes(&self, found: &mut Findings) {
        for (digest, scope) in self.key_scopes().unwrap_or_default() {
            if let Some(excess) = scope.excess() {
                let blocks = scope.blocks;
                found.good.push(format!(
                    "digest {digest}: its key encrypts {blocks} blocks, {excess}"
                ));
            }
        }
    }
}
