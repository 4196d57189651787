// SPDX-License-Identifier: MIT OR Apache-2.0
//! What comes after the data of a file that was decrypted in place, and is cut off.
//!
//! The file must have all of it until the metadata record the end of the re-encryption: `cryptsetup`
//! refuses to continue in a file that is shorter than they say. So it is cut off after that, and for a
//! program that is killed between the two, a token records what was to be cut off.

use std::io;

use luxor_files::{DataFile, path_name};
use luxor_luks::HashAlgorithm;
use luxor_sector::Storage;
use serde::{Deserialize, Serialize};

use super::each_piece;
use crate::{Context, Error, Result, Volume};

/// The type of the token.
const TAIL: &str = "luxor-tail";

/// The bytes of a file after its data. This is the token.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tail {
    r#type: String,
    keyslots: [String; 0],
    /// Where they begin.
    end: u64,
    /// The length of the file in bytes.
    length: u64,
    /// A hash over them: SHA-256 over the hash of what comes before a piece, and the piece.
    sha256: String,
}

impl Tail {
    /// Returns what comes after byte `end`.
    pub(super) fn of(storage: &dyn Storage, end: u64) -> io::Result<Option<Self>> {
        let length = storage.len()?;
        if length <= end {
            return Ok(None);
        }
        let mut hash = [0; 64];
        each_piece(end..length, |at, len| {
            let mut bytes = vec![0; len];
            storage.read_exact_at(&mut bytes, at)?;
            let before = hash;
            HashAlgorithm::Sha256.digest_into(&[&before[..32], &bytes], &mut hash);
            Ok(())
        })?;
        let sha256 = hash[..32].iter().map(|byte| format!("{byte:02x}"));
        Ok(Some(Self {
            r#type: TAIL.to_owned(),
            keyslots: [],
            end,
            length,
            sha256: sha256.collect(),
        }))
    }

    pub(super) fn token(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are JSON")
    }
}

/// Cuts off `data` as the metadata of `volume` require it, and removes that from them. Returns whether
/// they do. What has changed since they were written stays.
pub(super) fn cut_off(volume: &mut Volume, data: &DataFile, context: &Context) -> Result<bool> {
    let Some(luks2) = volume.header.luks2() else {
        return Ok(false);
    };
    let found = luks2.describe().tokens.iter().find_map(|(number, token)| {
        let json = (token.kind == TAIL).then(|| luks2.token_json(*number))??;
        Some((*number, serde_json::from_str::<Tail>(&json).ok()?))
    });
    let Some((number, tail)) = found else {
        return Ok(false);
    };
    let storage = data.storage()?;
    let is_same = Tail::of(&*storage, tail.end).map(|now| now.as_ref() == Some(&tail));
    let is_same = is_same.map_err(|error| {
        let text = format!("{}: cannot be read", path_name(data.path()));
        Error::io(text, &error)
    });
    if is_same? {
        cut_off_at(data, tail.end)?;
    }
    volume.change(context, |header, storage| {
        let luks2 = header.luks2_mut().expect("it is LUKS2");
        luks2.remove_token(storage, number)
    })?;
    Ok(true)
}

/// Cuts off a regular file at this byte, if it is longer.
pub(super) fn cut_off_at(data: &DataFile, end: u64) -> Result<()> {
    if !data.can_set_len() || data.len()? <= end {
        return Ok(());
    }
    let cut = data.set_len(end);
    cut.map_err(|error| {
        let name = path_name(data.path());
        Error::io(format!("{name}: cannot cut it off at byte {end}"), &error)
    })
}
