// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds, replaces and removes tokens of a volume.

use luxor_luks::VolumeHeader;

use crate::{Context, Result, Volume, volume::changed_meanwhile};

/// Changes of tokens. They need a volume that was opened with
/// [`Role::Change`](luxor_files::Role::Change), and of LUKS2.
impl Volume {
    /// Adds the token `json` as token `number`, or as the first free one, and returns its number. With
    /// `replaces`, token `number` is replaced if it exists.
    ///
    /// # Errors
    /// Fails if `json` is not a token, if the number is taken and not to be replaced, and if another
    /// program has changed the token that is to be replaced since the metadata were read.
    pub fn add_token(
        &mut self,
        json: &str,
        number: Option<u32>,
        replaces: bool,
        context: &Context,
    ) -> Result<u32> {
        let replaced = number.filter(|&number| replaces && token(&self.header, number).is_some());
        let still_fits = same_token(replaced, self.name());
        self.change_present(context, still_fits, |header, storage| match replaced {
            Some(number) => header.replace_token(storage, json, number).map(|()| number),
            None => header.add_token(storage, json, number),
        })
    }

    /// Removes token `number`. Keyslots are not changed.
    ///
    /// # Errors
    /// Fails if there is no such token, and if another program has changed it since the metadata were
    /// read.
    pub fn remove_token(&mut self, number: u32, context: &Context) -> Result<()> {
        let still_fits = same_token(Some(number), self.name());
        self.change_present(context, still_fits, |header, storage| {
            header.remove_token(storage, number)
        })
    }
}

/// Returns a check that two versions of the metadata have the same token `number`, or both have none.
fn same_token(
    number: Option<u32>,
    name: String,
) -> impl FnOnce(&VolumeHeader, &VolumeHeader) -> Result<()> {
    move |before, now| match number {
        Some(number) if token(before, number) != token(now, number) => {
            Err(changed_meanwhile(&name))
        }
        _ => Ok(()),
    }
}

fn token(header: &VolumeHeader, number: u32) -> Option<String> {
    header.luks2()?.token_json(number)
}
