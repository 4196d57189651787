// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds, replaces and removes tokens.

use luxor_sector::Storage;

use super::{
    error::ChangeError,
    members::JsonMembers,
    numbers::{MAX_NUMBERS, free_number},
};
use crate::luks2::{
    field::{Field, FieldPath, Object},
    header::Luks2Header,
    json::Node,
    json_c,
    metadata::Metadata,
    metadata_error::MetadataError,
    token::{FileEnd, KEYRING},
};

impl Luks2Header {
    /// Returns token `number` as JSON on one line, as `cryptsetup token export` does, but with all digits of
    /// its numbers; `None` if there is no such token. What the program that made it wrote need not be
    /// UTF-8, nor JSON: [`readable_token`](crate::readable_token) makes it both.
    #[must_use]
    pub fn token_json(&self, number: u32) -> Option<Vec<u8>> {
        self.metadata().tokens.get(&number)?;
        let root = JsonMembers::parse(self.text());
        let tokens = JsonMembers::parse(root.raw("tokens")?);
        let json = tokens.raw(&number.to_string())?;
        Some(json_c::encode_shown(json).into_owned())
    }

    /// Adds a token as token `number`, or as the first free one, and returns its number. `json`
    /// must begin with an object that has `type` and `keyslots`, as json-c reads it. What follows the object
    /// is ignored, as `cryptsetup token import` does.
    ///
    /// # Errors
    /// [`ChangeError`]: `number` is taken, `json` is not a token or does not fit, or is a token of cryptsetup
    /// that cryptsetup would refuse, or one of Luxor that this version does not support; or the metadata on `storage` are not those that this header
    /// was read from, or cannot be written.
    pub fn add_token(
        &mut self,
        storage: &dyn Storage,
        json: impl AsRef<[u8]>,
        number: Option<u32>,
    ) -> Result<u32, ChangeError> {
        let tokens = &self.metadata().tokens;
        let number = free_number("token", number, MAX_NUMBERS, |number| {
            tokens.contains_key(&number)
        })?;
        self.write_token(storage, json.as_ref(), number)?;
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
        json: impl AsRef<[u8]>,
        number: u32,
    ) -> Result<(), ChangeError> {
        self.require_token(number)?;
        self.write_token(storage, json.as_ref(), number)
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
        json: &[u8],
        number: u32,
    ) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        let (node, token) = parse(json)?;
        let place = FieldPath::of_object("token", number);
        check_of_cryptsetup(&Field::new(&node, place).object()?)?;
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

/// Returns the token `json`, for [`Luks2Header::add_token`], with `keyslot` among its keyslots. The rest
/// of it is kept.
///
/// # Errors
/// [`ChangeError`]: `json` is not a token.
pub fn token_with_keyslot(json: &[u8], keyslot: u32) -> Result<Vec<u8>, ChangeError> {
    let (node, mut token) = parse(json)?;
    let object = Field::new(&node, FieldPath::default()).object()?;
    if !object
        .required("keyslots")?
        .references()?
        .contains(&keyslot)
    {
        let mut keyslots = token.references("keyslots");
        keyslots.push(keyslot.to_string());
        token.set("keyslots", &keyslots);
    }
    Ok(json_c::encode(&token.text()).into_owned())
}

/// The prefix of the types that are reserved for cryptsetup.
const RESERVED: &str = "luks2-";

/// Checks what `cryptsetup token import` checks of a token whose type is cryptsetup's own.
fn check_of_cryptsetup(token: &Object<'_>) -> Result<(), ChangeError> {
    let kind = token.required("type")?.name()?;
    if !kind.starts_with(RESERVED) {
        return Ok(());
    }
    let refused = |what| {
        let kind = kind.into();
        Err(ChangeError::TokenOfCryptsetup { kind, what })
    };
    if kind != KEYRING {
        return refused("types that begin with luks2- are reserved for cryptsetup");
    }
    if token.len() != 3 {
        return refused(
            "it must have the members type, keyslots and key_description, and no others",
        );
    }
    match token.required("key_description")?.name() {
        Ok(_) => Ok(()),
        Err(_) => refused("its key_description must be a text, and not empty"),
    }
}

/// Parses a token by the rules of the metadata. An error has a position in `json`.
fn parse(json: &[u8]) -> Result<(Node, JsonMembers), ChangeError> {
    let syntax = |message| ChangeError::TokenSyntax { message };
    // As cryptsetup stores it: `64e` is written as `64`.
    let json = json_c::decode_first(json)
        .and_then(|json| json_c::decode(&json_c::encode_shown(&json)))
        .map_err(|error| syntax(error.to_string()))?;
    let node = Node::parse(&json).map_err(|error| syntax(error.to_string()))?;
    if !matches!(node, Node::Object(_)) {
        return Err(syntax("it is no object".into()));
    }
    Ok((node, JsonMembers::parse(&json)))
}
