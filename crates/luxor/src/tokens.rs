// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds, replaces and removes tokens of a volume.

use luxor_luks::{FileEnd, Uuid, VolumeHeader, readable_token};
use serde_json::Value;

use crate::{
    Context, EditError, LuksVolume, Result, luks_volume::changed_meanwhile, reencrypt::TAIL,
};

/// Changes of tokens. They need a volume that was opened with
/// [`Role::Change`](luxor_files::Role::Change), and of LUKS2.
impl LuksVolume {
    /// Adds the token `json` as token `number`, or as the first free one, and returns its number. With
    /// `replaces`, token `number` is replaced if it exists. `json` is as
    /// [`Luks2Header::add_token`](luxor_luks::Luks2Header::add_token) takes it.
    ///
    /// # Errors
    /// Fails if `json` is not a token, if the number is taken and not to be replaced, and if another
    /// program has changed the token that is to be replaced since the metadata were read. Without
    /// `force`, fails with [`EditError::EndOfFile`] if the file in the volume would end elsewhere.
    pub fn add_token(
        &mut self,
        json: impl AsRef<[u8]>,
        number: Option<u32>,
        replaces: bool,
        force: bool,
        context: &Context,
    ) -> Result<u32> {
        let json = json.as_ref();
        let replaced = number.filter(|&number| replaces && token(&self.header, number).is_some());
        if let Some(number) = replaced {
            self.check_end(number, Some(json), force, context)?;
        }
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
    /// read. Without `force`, fails with [`EditError::EndOfFile`] if it says where the file in the
    /// volume ends.
    pub fn remove_token(&mut self, number: u32, force: bool, context: &Context) -> Result<()> {
        self.check_end(number, None, force, context)?;
        let still_fits = same_token(Some(number), self.name());
        self.change_present(context, still_fits, |header, storage| {
            header.remove_token(storage, number)
        })
    }

    /// Checks that the file in the volume still ends in the same place when the token `new`, or none,
    /// replaces token `number`. With `force` a loss is a warning.
    fn check_end(
        &self,
        number: u32,
        new: Option<&[u8]>,
        force: bool,
        context: &Context,
    ) -> Result<()> {
        let Some(luks2) = self.header.luks2() else {
            return Ok(());
        };
        let tokens = luks2.describe().tokens;
        let what = match tokens.get(&number) {
            Some(token) if token.kind == TAIL => "the decrypted file is to be cut off".to_owned(),
            Some(token) => match &token.file_end {
                Some(FileEnd::Trailer) => "a trailer ends the file in the volume".to_owned(),
                Some(end) => format!("the file in the volume has {end}"),
                None => return Ok(()),
            },
            None => return Ok(()),
        };
        let end = |json: &[u8]| {
            let token: Value = serde_json::from_str(&readable_token(json)?).ok()?;
            let members = ["type", "length", "padding", "end"];
            Some(members.map(|member| token.get(member).cloned()))
        };
        // A text that is not JSON may be of any end.
        if let (Some(old), Some(new)) = (token(&self.header, number), new)
            && let (Some(old), Some(new)) = (end(&old), end(new))
            && old == new
        {
            return Ok(());
        }
        self.check_changeable()?;
        let name = self.name();
        let error = EditError::EndOfFile { name, number, what };
        if !force {
            return Err(error.into());
        }
        context.events.warning(&error.to_string());
        Ok(())
    }

    /// Checks that the file in the volume can still be read when the volume gets this UUID.
    ///
    /// # Errors
    /// [`EditError::UuidOfTrailer`] if a trailer ends the file, and the UUID is another one.
    pub fn check_uuid(&self, uuid: Uuid) -> Result<()> {
        let present: Option<Uuid> = self.header.uuid().parse().ok();
        if self.header.has_trailer() && present != Some(uuid) {
            self.check_changeable()?;
            let name = self.name();
            return Err(EditError::UuidOfTrailer { name }.into());
        }
        Ok(())
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

fn token(header: &VolumeHeader, number: u32) -> Option<Vec<u8>> {
    header.luks2()?.token_json(number)
}
