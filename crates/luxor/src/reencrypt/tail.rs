// SPDX-License-Identifier: MIT OR Apache-2.0
//! What comes after the data of a file that was decrypted in place, and is cut off.
//!
//! The file must have all of it until the metadata record the end of the re-encryption: `cryptsetup`
//! refuses to continue in a file that is shorter than they say. So it is cut off after that, and for a
//! program that is killed between the two, a token records where the data end. No key authenticates the
//! metadata then. So the token shortens no file, and the message
//! about it has no command that does: the file may be another one.

use luxor_files::{DataFile, path_name};
use luxor_luks::readable_token;
use serde::{Deserialize, Serialize};

use super::ReencryptError;
use crate::{Context, Error, LuksVolume, Result, error::Cause};

/// The type of the token.
pub(crate) const TAIL: &str = "luxor-tail";

/// The token.
#[derive(Serialize, Deserialize)]
struct Tail {
    r#type: String,
    keyslots: [String; 0],
    /// The byte of the file at which the data end.
    end: u64,
}

/// Returns the token for data that end at this byte.
pub(super) fn token(end: u64) -> String {
    let tail = Tail {
        r#type: TAIL.to_owned(),
        keyslots: [],
        end,
    };
    serde_json::to_string(&tail).expect("texts and numbers are JSON")
}

/// Returns the tokens: their numbers, and where they say that the data end.
fn recorded(volume: &LuksVolume) -> Vec<(u32, Option<u64>)> {
    let Some(luks2) = volume.header.luks2() else {
        return Vec::new();
    };
    let end = |number| {
        let tail: Tail = serde_json::from_str(&readable_token(&luks2.token_json(number)?)?).ok()?;
        Some(tail.end)
    };
    let tokens = luks2.describe().tokens.iter();
    tokens
        .filter(|(_, token)| token.kind == TAIL)
        .map(|(&number, _)| (number, end(number)))
        .collect()
}

/// Cuts off a regular file at this byte, if it is longer, and removes the tokens.
pub(super) fn cut_off(
    volume: &mut LuksVolume,
    data: &DataFile,
    end: Option<u64>,
    context: &Context,
) -> Result<()> {
    if let Some(end) = end.filter(|_| data.can_set_len())
        && data.len()? > end
    {
        data.set_len(end).map_err(|error| {
            let name = path_name(data.path());
            Error::io(format!("{name}: cannot cut it off at byte {end}"), &error)
        })?;
    }
    for (number, _) in recorded(volume) {
        volume.change_luks2(context, |luks2, storage| {
            luks2.remove_token(storage, number)
        })?;
    }
    Ok(())
}

/// Returns whether the metadata of decrypted data say that the file is still to be cut off, and it has been:
/// the decryption is complete.
///
/// # Errors
/// Fails if the file is longer than the metadata say.
pub(super) fn is_cut_off(
    volume: &mut LuksVolume,
    data: &DataFile,
    context: &Context,
) -> Result<bool> {
    let recorded = recorded(volume);
    let end = recorded.iter().find_map(|(_, end)| *end);
    let Some(end) = end.filter(|_| data.can_set_len()) else {
        return Ok(false);
    };
    let len = data.len()?;
    if len > end {
        let rest = len - end;
        return Err(ReencryptError::NotCutOff { end, rest }.about(&path_name(data.path())));
    }
    cut_off(volume, data, None, context)?;
    Ok(true)
}
