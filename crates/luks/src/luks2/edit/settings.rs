// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets labels, the UUID and flags.

use luxor_sector::Storage;
use uuid::Uuid;

use super::{error::ChangeError, members::JsonMembers};
use crate::luks2::{
    binary_header::TextField, config::ActivationFlag, header::Luks2Header, label::Label,
    segment::SegmentSize, token::FileEnd,
};

impl Luks2Header {
    /// Sets the label; an empty one removes it.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata on `storage` are not those that this header was read from, or
    /// cannot be written.
    pub fn set_label(&mut self, storage: &dyn Storage, label: &Label) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        draft.binary.label = TextField::new(label.as_str());
        self.commit(storage, draft)
    }

    /// Sets the second label; an empty one removes it.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata on `storage` are not those that this header was read from, or
    /// cannot be written.
    pub fn set_subsystem(
        &mut self,
        storage: &dyn Storage,
        subsystem: &Label,
    ) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        draft.binary.subsystem = TextField::new(subsystem.as_str());
        self.commit(storage, draft)
    }

    /// Sets the UUID.
    ///
    /// # Errors
    /// [`ChangeError`]: the metadata on `storage` are not those that this header was read from, or
    /// cannot be written.
    pub fn set_uuid(&mut self, storage: &dyn Storage, uuid: Uuid) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        draft.binary.uuid = TextField::new(&uuid.to_string());
        self.commit(storage, draft)
    }

    /// Sets the length of the data, which are one segment, and the exact length in bytes of the file
    /// in them, if a `luxor-file` token records it.
    ///
    /// # Errors
    /// [`ChangeError`]: there are several segments, or the metadata on `storage` are not those that
    /// this header was read from, or cannot be written.
    pub fn set_data_size(
        &mut self,
        storage: &dyn Storage,
        size: SegmentSize,
        file_length: Option<u64>,
    ) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        let metadata = self.metadata();
        let (what, number) = ("segment", 0);
        let (segment, _) = metadata
            .segments
            .single()
            .ok_or(ChangeError::Missing { what, number })?;
        let size = size.to_string();
        draft
            .root
            .edit(&["segments", &segment.to_string()], |segment| {
                segment.set("size", &size);
            });
        let mut tokens = metadata.tokens.iter();
        let token = tokens.find(|(_, token)| matches!(token.file_end, Some(FileEnd::Length(_))));
        if let (Some((token, _)), Some(length)) = (token, file_length) {
            draft.root.edit(&["tokens", &token.to_string()], |token| {
                token.set("length", &length.to_string());
            });
        }
        self.commit(storage, draft)
    }

    /// Replaces the activation flags with `flags`. Flags that this version does not know are kept.
    ///
    /// # Errors
    /// [`ChangeError`]: the JSON area is full, or the metadata on `storage` are not those that this
    /// header was read from, or cannot be written.
    pub fn set_flags(
        &mut self,
        storage: &dyn Storage,
        flags: &[ActivationFlag],
    ) -> Result<(), ChangeError> {
        let mut draft = self.begin(storage)?;
        let mut names: Vec<String> = Vec::new();
        for flag in ActivationFlag::ALL {
            if flags.contains(&flag) {
                names.push(flag.name().into());
            }
        }
        // As they are in the text: the parsed ones may have replacement characters.
        let config = draft.root.raw("config").map(JsonMembers::parse);
        let mut unknown = config.unwrap_or_default().references("flags");
        unknown.retain(|name| name.parse::<ActivationFlag>().is_err());
        names.extend(unknown);
        draft
            .root
            .edit(&["config"], |config| config.set("flags", &names));
        self.commit(storage, draft)
    }
}
