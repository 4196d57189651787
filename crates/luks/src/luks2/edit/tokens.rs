// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds, replaces and removes tokens.

use luxor_sector::Storage;

use super::{
    error::ChangeError,
    members::JsonMembers,
    numbers::{MAX_NUMBERS, free_number},
};
use crate::luks2::{
    header::Luks2Header,
    json::{Node, plain},
    json_c,
    metadata::Metadata,
    metadata_error::MetadataError,
    token::FileEnd,
};

impl Luks2Header {
    /// Returns token `number` as JSON on one line; `None` if there is no such token.
    #[must_use]
    pub fn token_json(&self, number: u32) -> Option<String> {
        self.metadata().tokens.get(&number)?;
        let root = JsonMembers::parse(self.text());
        let tokens = JsonMembers::parse(root.raw("tokens")?);
        let json = plain(tokens.raw(&number.to_string())?);
        Some(String::from_utf8_lossy(&json_c::encode(&json)).into_owned())
    }

    /// Adds a token as token `number`, or as the first free one, and returns its number. `json`
    /// must be an object with `type` and `keyslots`.
    ///
    /// # Errors
    /// [`ChangeError`]: `number` is taken, `json` is not a token or does not fit, or is a token of Luxor
    /// that this version does not support; or the metadata on `storage` are not those that this header
    /// was read from, or cannot be written.
    pub fn add_token(
        &mut self,
        storage: &dyn Storage,
        json: &str,
        number: Option<u32>,
    ) -> Result<u32, ChangeError> {
        let tokens = &self.metadata().tokens;
        let number = free_number("token", number, MAX_NUMBERS, |number| {
            tokens.contains_key(&number)
        })?;
        self.write_token(storage, json, number)?;
        Ok(number)
    }

    /// Replaces token `number`.
    ///
    /// # Errors
    /// [`ChangeError`]: there is no such token, `json` is not a token or does not fit; or the
    /// metadata on `storage` are not those that this header was read from, or cannot be written.
    pub fn replace_token(
        &mut self,
        storage: &dyn Storage,
        json: &str,
        number: u32,
    ) -> Result<(), ChangeError> {
        self.require_token(number)?;
        self.write_token(storage, json, number)
    }

    /// Removes token `number`. Keyslots are not changed.
    ///
    /// # Errors
    /// [`ChangeError`]: there is no such token, or the metadata on `storage` are not those that
    /// this header was read from, or cannot be written.
    pub fn remove_token(&mut self, storage: &dyn Storage, number: u32) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        self.require_token(number)?;
        draft
            .root
            .edit(&["tokens"], |tokens| tokens.remove(&number.to_string()));
        self.commit(storage, draft)
    }

    fn require_token(&self, number: u32) -> Result<(), ChangeError> {
        if self.metadata().tokens.contains_key(&number) {
            Ok(())
        } else {
            Err(ChangeError::Missing {
                what: "token",
                number,
            })
        }
    }

    fn write_token(
        &mut self,
        storage: &dyn Storage,
        json: &str,
        number: u32,
    ) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        let syntax = |error: serde_json::Error| ChangeError::TokenSyntax {
            message: error.to_string(),
        };
        // Parse the token by the rules of the metadata first: the error then has a position in
        // `json`.
        let json = json_c::decode(json.as_bytes());
        Node::parse(&json).map_err(syntax)?;
        let token: JsonMembers = serde_json::from_str(&plain(&json)).map_err(syntax)?;
        draft.root.edit(&["tokens"], |tokens| {
            tokens.set(&number.to_string(), &token);
        });
        let metadata = Metadata::parse(&draft.root.text(), draft.binary.size)?;
        if let Some(FileEnd::Unsupported(foreign)) = &metadata.tokens[&number].file_end {
            let (place, what) = (format!("token {number}"), foreign.what.clone());
            return Err(MetadataError::Unsupported { place, what }.into());
        }
        self.commit(storage, draft)
    }
}
