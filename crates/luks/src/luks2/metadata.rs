// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON area, parsed once into typed values. Parsing checks every rule of the LUKS2
//! specification, chapter 3. A keyslot or digest that breaks a rule of its own is
//! [`Foreign`]; breaking any other rule is an error.

use std::collections::BTreeMap;

use luxor_volume::brief;

use super::{
    config::Config,
    digest::{Digest, KeyLen},
    field::{Field, FieldPath, Object, object_number},
    foreign::Foreign,
    json::Node,
    json_c::{self, JsonError},
    keyslot::Keyslot,
    metadata_error::MetadataError,
    reencrypt_keyslot::{ReencryptKeyslot, Resilience},
    segment::{SegmentEntry, SegmentError, SegmentRole, SegmentSize},
    segments::Segments,
    token::{FileEnd, Token, mark_several_ends},
};
use crate::luks1_error::any_of;

/// The greatest number of keyslots, and of segments.
const MAX_OBJECTS: usize = 32;
/// The greatest number of digests.
pub(crate) const MAX_DIGESTS: u32 = 8;

/// The metadata of a volume.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    /// The keyslots of type `luks2`.
    pub keyslots: BTreeMap<u32, Keyslot>,
    /// The keyslot of type `reencrypt`, and its number.
    pub reencrypt: Option<(u32, ReencryptKeyslot)>,
    /// The other keyslots.
    pub foreign_keyslots: BTreeMap<u32, Foreign>,
    /// The areas of all keyslots of any type.
    pub areas: BTreeMap<u32, AreaRange>,
    pub tokens: BTreeMap<u32, Token>,
    /// The keys of tokens without a number, such as `01`. cryptsetup keeps such a token, and has no
    /// command that finds it.
    pub unnumbered_tokens: Vec<String>,
    pub segments: Segments,
    /// The digests of type `pbkdf2`.
    pub digests: BTreeMap<u32, Digest>,
    /// The other digests.
    pub foreign_digests: BTreeMap<u32, Foreign>,
    /// The bindings of all digests of any type.
    pub bindings: BTreeMap<u32, DigestBinding>,
    pub config: Config,
}

/// The area of a keyslot: its bytes in the keyslots area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AreaRange {
    pub offset: u64,
    pub size: u64,
}

/// The keyslots and segments of a digest, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DigestBinding {
    pub keyslots: Vec<u32>,
    pub segments: Vec<u32>,
}

/// Returns the text in a JSON area, as [`json_c`] decodes it. It ends at the first zero byte, after which
/// only zeros may follow.
pub(crate) fn area_text(area: &[u8]) -> Result<String, MetadataError> {
    match area.first() {
        Some(b'{') => {}
        first => {
            return Err(MetadataError::Opening {
                found: first.copied().unwrap_or_default(),
            });
        }
    }
    let end = area
        .iter()
        .position(|&b| b == 0)
        .ok_or(MetadataError::Unterminated)?;
    if let Some(at) = area[end..].iter().position(|&b| b != 0) {
        return Err(MetadataError::Trailing { position: end + at });
    }
    let text = json_c::decode(&area[..end]).map_err(|error| match error {
        JsonError::TooDeep => MetadataError::Unsupported {
            place: "the JSON area".into(),
            what: error.to_string(),
        },
        JsonError::Syntax { .. } => MetadataError::Syntax {
            message: error.to_string(),
        },
    })?;
    // Control characters become escapes, which are longer.
    if json_c::encode(&text).len() >= area.len() {
        return Err(MetadataError::Unsupported {
            place: "the JSON area".into(),
            what: "its text would have no room if it was written again".into(),
        });
    }
    Ok(text)
}

impl Metadata {
    /// Parses the JSON text of a header of `header_size` bytes.
    pub(crate) fn parse(text: &str, header_size: u64) -> Result<Self, MetadataError> {
        let root = Node::parse(text).map_err(|error| MetadataError::Syntax {
            message: error.to_string(),
        })?;
        let root = Field::new(&root, FieldPath::default()).object()?;
        let config = Config::parse(&root.required("config")?.object()?, header_size)?;
        let unknown = config.unknown_requirements().next().is_some();
        match Self::parse_objects(&root, config.clone(), header_size) {
            // The unknown requirement may well be the cause of this error.
            Err(error) if unknown => Err(MetadataError::Requirements {
                names: config.unknown_requirements().map(str::to_owned).collect(),
                error: error.to_string(),
            }),
            result => result,
        }
    }

    /// Whether the metadata name a zone of a re-encryption that nothing protects.
    pub(crate) fn has_unprotected_zone(&self) -> bool {
        let zone = self.check_readable();
        matches!(zone, Err(SegmentError::UnprotectedZone { .. }))
    }

    /// Checks that all of the data can be read, given the keys.
    pub(crate) fn check_readable(&self) -> Result<(), SegmentError> {
        self.segments.check_known()?;
        let Some((segment, zone)) = self.segments.of_role(SegmentRole::InReencryption) else {
            return Ok(());
        };
        // cryptsetup stores no checksum of an end that is shorter than what the others cover.
        let resilience = self.reencrypt.as_ref();
        let resilience = resilience.map(|(_, keyslot)| &keyslot.resilience);
        if resilience == Some(&Resilience::None) {
            return Err(SegmentError::UnprotectedZone { segment });
        }
        let checksum = resilience.and_then(Resilience::checksum);
        Err(match (zone.size(), checksum) {
            (SegmentSize::Fixed(len), Some((_, block))) if len % u64::from(block) > 0 => {
                let rest = len % u64::from(block);
                SegmentError::HotZoneEnd { segment, rest }
            }
            _ => SegmentError::HotZone { segment },
        })
    }

    fn parse_objects(
        root: &Object<'_>,
        config: Config,
        header_size: u64,
    ) -> Result<Self, MetadataError> {
        let objects = |name: &str, kind: &'static str, max: usize| {
            root.required(name)?.object()?.numbered(kind, max)
        };
        let keyslots = objects("keyslots", "keyslot", MAX_OBJECTS)?;
        let tokens = root.required("tokens")?.object()?;
        let digests = objects("digests", "digest", MAX_DIGESTS as usize)?;
        let segments = objects("segments", "segment", MAX_OBJECTS)?;

        let mut metadata = Self {
            keyslots: BTreeMap::new(),
            reencrypt: None,
            foreign_keyslots: BTreeMap::new(),
            areas: parse_each(&keyslots, |_, object| AreaRange::parse(object))?,
            tokens: BTreeMap::new(),
            unnumbered_tokens: Vec::new(),
            segments: Segments::new(parse_each(&segments, SegmentEntry::parse)?)?,
            digests: BTreeMap::new(),
            foreign_digests: BTreeMap::new(),
            bindings: parse_each(&digests, |_, object| DigestBinding::parse(object))?,
            config,
        };
        for (key, object) in tokens.members("token") {
            let number = object_number(&tokens.place, key)?;
            let token = metadata.parse_token(&object?)?;
            match number {
                Some(number) => drop(metadata.tokens.insert(number, token)),
                None => metadata.unnumbered_tokens.push(key.into()),
            }
        }
        mark_several_ends(&mut metadata.tokens);
        for (&number, object) in &keyslots {
            metadata.parse_keyslot(number, object)?;
        }
        let is_broken = |number| {
            let foreign = metadata.foreign_keyslots.get(number);
            foreign.is_some_and(|foreign| foreign.breaks_rule)
        };
        let key_lens = keyslots
            .iter()
            .filter(|(number, _)| !is_broken(number))
            .filter_map(|(&number, object)| {
                let len = object.optional("key_size")?.number(1..=u32::MAX);
                Some((number, len.ok()?))
            })
            .collect();
        for (&number, object) in &digests {
            match Digest::parse(object, &key_lens) {
                Ok(digest) => drop(metadata.digests.insert(number, digest)),
                Err(error) => {
                    let kind = object.required("type")?.name()?;
                    let foreign = Foreign::of_any(kind, &object.place, error)?;
                    metadata.foreign_digests.insert(number, foreign);
                }
            }
        }
        metadata.settle_key_lens(&key_lens);
        metadata.check_areas(header_size)?;
        metadata.check_references()?;
        metadata.check_bindings()?;
        metadata.check_reencryption()?;
        Ok(metadata)
    }

    /// Settles contradictions between the keyslots of a digest about the length of its key: a length that
    /// the encryption of the digest's segments does not have is wrong, if another one is not.
    fn settle_key_lens(&mut self, stated: &BTreeMap<u32, u32>) {
        for digest in self.digests.values_mut() {
            let segments = self.segments.all();
            let of_digest = digest.segments.iter();
            let encryptions = of_digest.filter_map(|number| segments.get(number)?.crypt());
            let Some(encryption) = encryptions.map(|segment| segment.encryption).next() else {
                continue;
            };
            let lens = encryption.aes_key_lens();
            let (fit, unfit): (Vec<_>, Vec<_>) = digest
                .keyslots
                .iter()
                .partition(|&number| stated.get(number).is_some_and(|len| lens.contains(len)));
            if fit.is_empty() {
                continue;
            }
            digest.key_len = KeyLen::of_keyslots(&fit, stated);
            for number in unfit {
                if let Some(keyslot) = self.keyslots.remove(&number) {
                    let what = format!(
                        "key_size is {}, but the data are encrypted with {}, which has keys of {} bytes",
                        keyslot.key_len,
                        encryption.name(),
                        any_of(&lens)
                    );
                    let foreign = Foreign::breaking_rule("luks2", what);
                    self.foreign_keyslots.insert(number, foreign);
                }
            }
        }
    }

    /// Checks that a re-encryption that is required has all of its state, and that no part of such
    /// a state exists otherwise. In the latter case the digest of the state would not be checked.
    fn check_reencryption(&self) -> Result<(), MetadataError> {
        let keyslot = self.reencrypt_keyslot();
        if self.config.reencrypt_version().is_some() {
            if keyslot.is_none() {
                return Err(MetadataError::NoReencryptKeyslot);
            }
            let mut backups = [SegmentRole::BackupPrevious, SegmentRole::BackupFinal].into_iter();
            return match backups.find(|&role| self.segments.of_role(role).is_none()) {
                Some(role) => Err(MetadataError::NoBackupSegment {
                    flag: role.flag().unwrap_or_default(),
                }),
                None => Ok(()),
            };
        }
        if !self.config.requirements.is_empty() {
            return Ok(());
        }
        let segment = || {
            let mut all = self.segments.all().iter();
            all.find_map(|(&number, entry)| (entry.role != SegmentRole::Regular).then_some(number))
        };
        let place = match keyslot {
            Some(keyslot) => format!("keyslot {keyslot}"),
            None => match segment() {
                Some(segment) => format!("segment {segment}"),
                None => return Ok(()),
            },
        };
        Err(MetadataError::NoReencryption { place })
    }

    /// Returns the number of the keyslot of type `reencrypt`, also of one that this version does not
    /// support.
    pub(crate) fn reencrypt_keyslot(&self) -> Option<u32> {
        let known = self.reencrypt.as_ref().map(|(number, _)| *number);
        let foreign = || {
            let mut all = self.foreign_keyslots.iter();
            all.find_map(|(&number, foreign)| (foreign.kind == "reencrypt").then_some(number))
        };
        known.or_else(foreign)
    }

    /// The number of keyslots and digests that break a rule.
    pub(crate) fn broken_objects(&self) -> usize {
        let all = self.foreign_keyslots.values();
        let all = all.chain(self.foreign_digests.values());
        all.filter(|foreign| foreign.breaks_rule).count()
    }

    fn parse_token(&self, object: &Object<'_>) -> Result<Token, MetadataError> {
        let token = Token::parse(object)?;
        let mut keyslots = token.keyslots.iter();
        if let Some(&number) = keyslots.find(|number| !self.areas.contains_key(number)) {
            return Err(MetadataError::Reference {
                place: object.place.to_string(),
                what: "keyslot",
                number,
            });
        }
        Ok(token)
    }

    fn parse_keyslot(&mut self, number: u32, object: &Object<'_>) -> Result<(), MetadataError> {
        let kind = object.required("type")?.name()?;
        let error = match kind {
            "luks2" => match Keyslot::parse(object) {
                Ok(keyslot) => {
                    self.keyslots.insert(number, keyslot);
                    return Ok(());
                }
                Err(error) => {
                    let foreign = Foreign::of_any(kind, &object.place, error)?;
                    self.foreign_keyslots.insert(number, foreign);
                    return Ok(());
                }
            },
            "reencrypt" => match (ReencryptKeyslot::parse(object), &self.reencrypt) {
                (Ok(_), &Some((first, _))) => MetadataError::TwoReencryptKeyslots {
                    first,
                    second: number,
                },
                (Ok(keyslot), None) => {
                    self.reencrypt = Some((number, keyslot));
                    return Ok(());
                }
                (Err(error), _) => error,
            },
            _ => MetadataError::Unsupported {
                place: object.place.to_string(),
                what: format!("it is of type {}", brief(kind)),
            },
        };
        let foreign = Foreign::new(kind, &object.place, error)?;
        self.foreign_keyslots.insert(number, foreign);
        Ok(())
    }

    fn check_areas(&self, header_size: u64) -> Result<(), MetadataError> {
        let begin = 2 * header_size;
        let end = begin + self.config.keyslots_size;
        // The present data, and those after a re-encryption.
        let last = self.segments.of_role(SegmentRole::BackupFinal);
        for (segment, entry) in self.segments.data().chain(last) {
            let offset = entry.offset();
            if self.segments.data_offset() != 0 && offset < end {
                return Err(MetadataError::SegmentOverKeyslots {
                    segment,
                    offset,
                    end,
                });
            }
        }
        let mut areas = Vec::new();
        for (&keyslot, area) in &self.areas {
            if area.size == 0 {
                return Err(MetadataError::EmptyArea { keyslot });
            }
            let area_end =
                area.offset
                    .checked_add(area.size)
                    .ok_or_else(|| MetadataError::Wraps {
                        place: format!("keyslot {keyslot}: area"),
                    })?;
            if area.offset < begin {
                return Err(MetadataError::AreaOverHeaders {
                    keyslot,
                    offset: area.offset,
                    begin,
                });
            }
            if area_end > end {
                return Err(MetadataError::AreaPastEnd {
                    keyslot,
                    area_end,
                    end,
                });
            }
            areas.push((area.offset, area_end, keyslot));
        }
        areas.sort_unstable();
        for pair in areas.windows(2) {
            let [(_, first_end, first), (second_begin, _, second)] = [pair[0], pair[1]];
            if second_begin < first_end {
                return Err(MetadataError::Overlap {
                    first,
                    second,
                    byte: second_begin,
                });
            }
        }
        Ok(())
    }

    fn check_references(&self) -> Result<(), MetadataError> {
        let check =
            |from: String, what: &'static str, numbers: &[u32], known: &dyn Fn(u32) -> bool| {
                match numbers.iter().find(|&&number| !known(number)) {
                    None => Ok(()),
                    Some(&number) => Err(MetadataError::Reference {
                        place: from,
                        what,
                        number,
                    }),
                }
            };
        let is_keyslot = |number| self.areas.contains_key(&number);
        let is_segment = |number| self.segments.all().contains_key(&number);
        for (number, binding) in &self.bindings {
            let from = format!("digest {number}");
            check(from.clone(), "keyslot", &binding.keyslots, &is_keyslot)?;
            check(from, "segment", &binding.segments, &is_segment)?;
        }
        Ok(())
    }

    /// Checks that each key has its digest.
    fn check_bindings(&self) -> Result<(), MetadataError> {
        let foreign = &self.foreign_keyslots;
        for &keyslot in self.areas.keys() {
            // cryptsetup knows these types only.
            let kind = foreign.get(&keyslot).map(|foreign| &*foreign.kind);
            if !matches!(kind, None | Some("luks2" | "reencrypt")) {
                continue;
            }
            let found = self
                .digests_of(|binding| &binding.keyslots, keyslot)
                .count();
            if found != 1 {
                return Err(MetadataError::KeyslotDigests { keyslot, found });
            }
        }
        for (&segment, entry) in self.segments.all() {
            // Unencrypted segments need no digest; segments of an unknown kind are not checked.
            if entry.crypt().is_none() {
                continue;
            }
            let found = self
                .digests_of(|binding| &binding.segments, segment)
                .count();
            let hot = entry.role == SegmentRole::InReencryption;
            if found != 1 && !(hot && found == 2) {
                return Err(MetadataError::SegmentDigests { segment, found });
            }
        }
        Ok(())
    }

    fn digests_of<'a>(
        &'a self,
        list: impl Fn(&'a DigestBinding) -> &'a Vec<u32>,
        number: u32,
    ) -> impl Iterator<Item = u32> {
        self.bindings
            .iter()
            .filter(move |(_, binding)| list(binding).contains(&number))
            .map(|(&digest, _)| digest)
    }

    /// Returns the digest of a keyslot of type `luks2` or `reencrypt`, which must exist.
    pub(crate) fn digest_of_keyslot(&self, keyslot: u32) -> u32 {
        self.digests_of(|binding| &binding.keyslots, keyslot)
            .next()
            .expect("parsing checks that each keyslot has a digest")
    }

    /// Returns whether no other keyslot that this version can open holds the key of this one, which
    /// must exist.
    pub(crate) fn is_only_keyslot(&self, keyslot: u32) -> bool {
        let same_key = &self.bindings[&self.digest_of_keyslot(keyslot)].keyslots;
        let mut others = same_key.iter().filter(|&&other| other != keyslot);
        !others.any(|&other| self.can_open(other))
    }

    /// Returns whether this version can open a keyslot: it supports the keyslot, and the digest of its
    /// key. A keyslot over a limit on costs counts: the caller can raise the limit.
    pub(crate) fn can_open(&self, keyslot: u32) -> bool {
        let is_supported = |keyslot: &Keyslot| keyslot.supported().is_ok();
        let mut digests = self.digests.values();
        let digest = digests.find(|digest| digest.keyslots.contains(&keyslot));
        self.keyslots.get(&keyslot).is_some_and(is_supported)
            && digest.is_some_and(Digest::is_supported)
    }

    /// The numbers of the keyslots that hold a key of the data, also of those that this version cannot
    /// open.
    pub(crate) fn data_keyslots(&self) -> Vec<u32> {
        let of_data = self.bindings.values();
        let of_data: Vec<_> = of_data
            .filter(|binding| !binding.segments.is_empty())
            .collect();
        let is_of_data = |number: &u32| of_data.iter().any(|of| of.keyslots.contains(number));
        let mut numbers: Vec<_> = self.keyslots_with_keys().filter(is_of_data).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Returns the digest of an encrypted segment, which must exist; in a hot zone, one of two.
    pub(crate) fn digest_of_segment(&self, segment: u32) -> u32 {
        self.find_digest_of_segment(segment)
            .expect("parsing checks that each one has a digest")
    }

    /// Returns the digest of a segment. A segment of a kind that this version does not support may
    /// have none.
    pub(crate) fn find_digest_of_segment(&self, segment: u32) -> Option<u32> {
        self.digests_of(|binding| &binding.segments, segment).next()
    }

    /// Returns the digest of the data's key, and its number. During a re-encryption it is that of
    /// the new key, or of the old one if the data are being decrypted.
    pub(crate) fn data_digest(&self) -> Option<(u32, &Digest)> {
        let backups = [SegmentRole::BackupFinal, SegmentRole::BackupPrevious];
        let number = backups
            .into_iter()
            .filter_map(|role| self.segments.of_role(role))
            .chain(self.segments.data())
            .find_map(|(segment, _)| self.digests_of(|of| &of.segments, segment).next())?;
        Some((number, self.digests.get(&number)?))
    }

    /// The numbers of the keyslots that hold keys, also of those that this version cannot open. The
    /// keyslot of a re-encryption holds none.
    pub(crate) fn keyslots_with_keys(&self) -> impl Iterator<Item = u32> {
        let foreign = self.foreign_keyslots.iter();
        let foreign = foreign.filter(|(_, keyslot)| keyslot.kind != "reencrypt");
        let known = self.keyslots.keys();
        known.chain(foreign.map(|(number, _)| number)).copied()
    }

    /// Returns whether a keyslot exists for each key of the data. A keyslot that this version
    /// cannot open counts.
    pub(crate) fn has_data_keyslots(&self) -> bool {
        let is_data = |number: &u32| self.segments.data().any(|(data, _)| data == *number);
        self.bindings
            .values()
            .filter(|binding| binding.segments.iter().any(is_data))
            .all(|binding| !binding.keyslots.is_empty())
    }

    /// Where the file in the volume ends, if a token says it.
    pub(crate) fn file_end(&self) -> Option<&FileEnd> {
        let mut tokens = self.tokens.values();
        tokens.find_map(|token| token.file_end.as_ref())
    }

    /// Checks that this version supports what a token says about the end of the file in the volume. Only
    /// the data need it.
    pub(crate) fn check_file_end(&self) -> Result<(), SegmentError> {
        let mut tokens = self.tokens.iter();
        let unsupported = tokens.find_map(|(&token, found)| match &found.file_end {
            Some(FileEnd::Unsupported(foreign)) => Some((token, foreign.what.clone())),
            _ => None,
        });
        match unsupported {
            Some((token, what)) => Err(SegmentError::FileEnd { token, what }),
            None => Ok(()),
        }
    }

    /// The exact length in bytes of the file in the volume, if a token records it.
    pub(crate) fn file_length(&self) -> Option<u64> {
        match self.file_end() {
            Some(FileEnd::Length(length)) => Some(*length),
            _ => None,
        }
    }

    /// Whether a token says that the data end with a trailer.
    pub(crate) fn has_trailer(&self) -> bool {
        self.file_end() == Some(&FileEnd::Trailer)
    }
}

fn parse_each<T>(
    objects: &BTreeMap<u32, Object<'_>>,
    parse: impl Fn(u32, &Object<'_>) -> Result<T, MetadataError>,
) -> Result<BTreeMap<u32, T>, MetadataError> {
    objects
        .iter()
        .map(|(&number, object)| Ok((number, parse(number, object)?)))
        .collect()
}

impl AreaRange {
    fn parse(keyslot: &Object<'_>) -> Result<Self, MetadataError> {
        let area = keyslot.required("area")?.object()?;
        // Required of keyslots of any type.
        area.required("type")?.name()?;
        Ok(Self {
            offset: area.required("offset")?.decimal()?,
            size: area.required("size")?.decimal()?,
        })
    }
}

impl DigestBinding {
    fn parse(digest: &Object<'_>) -> Result<Self, MetadataError> {
        Ok(Self {
            keyslots: digest.required("keyslots")?.references()?,
            segments: digest.required("segments")?.references()?,
        })
    }
}
