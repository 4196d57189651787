// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fixed newstyle handshake.
//!
//! ```text
//! server: NBDMAGIC IHAVEOPT, handshake flags         client: its flags
//! client: IHAVEOPT, option, length, data             server: reply, again and again
//!                                                            magic, option, type, length, data
//! ```
//!
//! It ends with an export, with TLS and a second round, or with the end of the session. The memory
//! that a client can make the server use is bounded ([`MAX_OPTION_DATA`]), and so is the number of
//! options.

use std::{
    io::{self, Read, Write},
    str::FromStr,
};

use luxor_files::bounded;
use thiserror::Error;

use super::{
    agreed::{Agreed, MAX_PAYLOAD},
    reply::BASE_ALLOCATION_ID,
    wire::{
        BASE_ALLOCATION, ClientFlags, HandshakeFlags, INIT_PASSWD, InfoType, MAX_STRING,
        OPTION_MAGIC, OPTION_REPLY_MAGIC, OptionReplyType, OptionType, TransmissionFlags,
    },
};

/// The most bytes of an option's data that the server reads: 32 KiB, enough for a name and several
/// queries of maximum length.
pub const MAX_OPTION_DATA: u32 = 32 << 10;
/// The most bytes of an option's data that the server skips: 1 MiB. A longer option ends the
/// session.
pub const MAX_SKIPPED: u32 = 1 << 20;
/// The most options in one session. Real clients send fewer than ten.
pub const MAX_OPTIONS: u32 = 256;

/// The most characters of an unknown export's name in [`NegotiateError::UnknownExport`].
pub const SHOWN_NAME: usize = 64;

const OPTION_LEN: usize = 16;
const RESERVED_LEN: usize = 124;

/// The one export that a server offers. It is also the default export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The export's name. Clients may also ask for the empty name.
    pub name: Text,
    /// A description for people; may be empty.
    pub description: Text,
    /// The length in bytes.
    pub size: u64,
    /// The capabilities of the export. [`TransmissionFlags::HAS_FLAGS`] is added, and with
    /// structured replies [`TransmissionFlags::SEND_DF`].
    pub flags: TransmissionFlags,
    /// The shortest requests that are efficient, in bytes: a power of two from 512 to
    /// [`MAX_PAYLOAD`]. Requests of any length from 1 byte to [`MAX_PAYLOAD`] are served.
    pub preferred_block_size: u32,
    /// Whether clients must use TLS.
    pub tls: TlsPolicy,
}

/// Whether a client can, or must, use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPolicy {
    /// TLS is not offered.
    Off,
    /// Without TLS the server neither serves nor describes the export (FORCEDTLS in the document).
    Required,
}

/// A string of the protocol: at most [`MAX_STRING`] bytes, none of them zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(String);

impl Text {
    /// The string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Text {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        if text.len() > MAX_STRING {
            return Err(TextError::Long { len: text.len() });
        }
        if text.contains('\0') {
            return Err(TextError::Zero);
        }
        Ok(Self(text.to_owned()))
    }
}

/// Why a string is not valid in the NBD protocol.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TextError {
    /// The string is too long.
    #[error("a name in the NBD protocol has at most {MAX_STRING} bytes, and this one has {len}")]
    Long {
        /// The string's length in bytes.
        len: usize,
    },
    /// The string contains a zero byte.
    #[error("a name in the NBD protocol cannot have zero bytes")]
    Zero,
}

/// The server's side of a handshake. [`Handshake::run`] makes it; if the client asks for TLS, it
/// continues with [`InTls::run`].
#[derive(Debug)]
pub struct Handshake<'a> {
    offer: &'a Offer,
    tls: bool,
    no_zeroes: bool,
    structured_replies: bool,
    base_allocation: bool,
    options_left: u32,
    /// Why the client did not get the export so far.
    refused: Option<NegotiateError>,
}

/// A handshake that continues inside TLS.
#[derive(Debug)]
pub struct InTls<'a>(Handshake<'a>);

/// How a handshake, or its round before TLS, ended.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// The client chose the export. Requests follow.
    Agreed(Agreed),
    /// The client expects TLS to begin at once. The handshake continues inside it.
    StartTls(InTls<'a>),
    /// The client ended the session. If the server had refused it the export, this says why.
    Ended(Option<NegotiateError>),
}

/// Why a client did not get the export. Returned as an error if the protocol has no reply for it.
#[non_exhaustive]
#[derive(Debug, Error)]
pub enum NegotiateError {
    /// The connection failed, or ended in the middle of a message.
    #[error("the connection failed in the NBD handshake: {0}")]
    Io(#[from] io::Error),
    /// The client sent flags that the server did not offer.
    #[error("the client answered with unknown flags: {flags:?}")]
    ClientFlags {
        /// All flags that the client sent.
        flags: ClientFlags,
    },
    /// The client sent something else where an option must begin.
    #[error("the client sent {found:#018x} where an NBD option must be")]
    NoOption {
        /// The first eight bytes that the client sent.
        found: u64,
    },
    /// The option needs a reply, but the client did not set the flag for fixed newstyle.
    #[error("the client sent the option {option:?} without fixed newstyle negotiation")]
    NotFixed {
        /// The option.
        option: OptionType,
    },
    /// The option is longer than any valid one.
    #[error("the client sent the option {option:?} with {len} bytes, which is too long")]
    TooLong {
        /// The option.
        option: OptionType,
        /// The length of its data in bytes.
        len: u32,
    },
    /// The client sent more than [`MAX_OPTIONS`] options.
    #[error("the client sent more than {MAX_OPTIONS} options")]
    TooManyOptions,
    /// The TLS handshake failed, usually because the client has no valid certificate.
    #[error("the TLS handshake with the client failed: {source}")]
    Tls {
        /// The reason.
        source: io::Error,
    },
    /// The client asked for another export.
    #[error("there is no export '{}'", bounded(&name.escape_debug().to_string()))]
    UnknownExport {
        /// The name, shortened to [`SHOWN_NAME`] characters.
        name: String,
    },
    /// The client asked for the export without TLS.
    #[error("the client did not use TLS, which is required")]
    TlsRequired,
    /// The client wanted TLS.
    #[error("the client wanted TLS, which this server does not have")]
    NoTls,
}

impl<'a> Handshake<'a> {
    /// Begins a handshake for `offer`.
    ///
    /// # Panics
    /// Panics if the preferred block size is not a power of two from 512 to [`MAX_PAYLOAD`].
    #[must_use]
    pub fn new(offer: &'a Offer) -> Self {
        let preferred = offer.preferred_block_size;
        assert!(
            preferred.is_power_of_two() && (512..=MAX_PAYLOAD).contains(&preferred),
            "a preferred block size of {preferred} bytes"
        );
        Self {
            offer,
            tls: false,
            no_zeroes: false,
            structured_replies: false,
            base_allocation: false,
            options_left: MAX_OPTIONS,
            refused: None,
        }
    }

    /// Greets the client and answers its options. Reads nothing beyond the handshake.
    ///
    /// # Errors
    /// Returns [`NegotiateError`]. The connection can then only be closed.
    pub fn run<S: Read + Write + ?Sized>(
        mut self,
        stream: &mut S,
    ) -> Result<Outcome<'a>, NegotiateError> {
        let flags = HandshakeFlags::FIXED_NEWSTYLE.with(HandshakeFlags::NO_ZEROES);
        let mut greeting = Vec::with_capacity(18);
        greeting.extend_from_slice(&INIT_PASSWD.to_be_bytes());
        greeting.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        greeting.extend_from_slice(&flags.bits().to_be_bytes());
        stream.write_all(&greeting)?;

        let Some(flags) = read_or_end::<4>(stream)? else {
            return Ok(Outcome::Ended(None));
        };
        let flags = ClientFlags::from_bits(u32::from_be_bytes(flags));
        let known = ClientFlags::FIXED_NEWSTYLE.with(ClientFlags::NO_ZEROES);
        if !known.contains(flags) {
            return Err(NegotiateError::ClientFlags { flags });
        }
        self.no_zeroes = flags.contains(ClientFlags::NO_ZEROES);
        if flags.contains(ClientFlags::FIXED_NEWSTYLE) {
            self.options(stream)
        } else {
            self.only_option(stream)
        }
    }

    /// Newstyle negotiation that is not fixed: one option, and no replies.
    fn only_option<S: Read + Write + ?Sized>(
        self,
        stream: &mut S,
    ) -> Result<Outcome<'a>, NegotiateError> {
        match read_option(stream)? {
            None => Ok(Outcome::Ended(None)),
            Some((OptionType::ExportName, len)) => self.export_name(stream, len),
            Some((option, _)) => Err(NegotiateError::NotFixed { option }),
        }
    }

    fn options<S: Read + Write + ?Sized>(
        mut self,
        stream: &mut S,
    ) -> Result<Outcome<'a>, NegotiateError> {
        loop {
            let Some((option, len)) = read_option(stream)? else {
                return Ok(Outcome::Ended(self.refused));
            };
            self.options_left = self
                .options_left
                .checked_sub(1)
                .ok_or(NegotiateError::TooManyOptions)?;
            if len > MAX_SKIPPED {
                return Err(NegotiateError::TooLong { option, len });
            }
            let mut replies = Replies::to(option);
            match option {
                OptionType::ExportName => return self.export_name(stream, len),
                OptionType::Abort => {
                    skip(stream, len)?;
                    replies.ack();
                    // The client may already have closed the connection, as older clients do.
                    let _ = stream.write_all(&replies.bytes);
                    return Ok(Outcome::Ended(self.refused));
                }
                OptionType::StartTls => {
                    skip(stream, len)?;
                    if len > 0 {
                        replies.error(OptionReplyType::ErrInvalid, NO_DATA);
                    } else if self.tls {
                        replies.error(OptionReplyType::ErrInvalid, "TLS is already active");
                    } else if self.offer.tls == TlsPolicy::Off {
                        self.refused = Some(NegotiateError::NoTls);
                        replies.error(OptionReplyType::ErrPolicy, "this server has no TLS");
                    } else {
                        replies.ack();
                        stream.write_all(&replies.bytes)?;
                        return Ok(Outcome::StartTls(InTls(self)));
                    }
                }
                _ if self.needs_tls() => {
                    skip(stream, len)?;
                    self.refused = Some(NegotiateError::TlsRequired);
                    replies.error(OptionReplyType::ErrTlsReqd, "TLS is required");
                }
                OptionType::Other(_) => {
                    skip(stream, len)?;
                    replies.error(OptionReplyType::ErrUnsup, "unknown option");
                }
                OptionType::List | OptionType::StructuredReply if len > 0 => {
                    skip(stream, len)?;
                    replies.error(OptionReplyType::ErrInvalid, NO_DATA);
                }
                OptionType::List => {
                    replies.server(self.offer);
                    replies.ack();
                }
                OptionType::StructuredReply => {
                    self.structured_replies = true;
                    replies.ack();
                }
                _ if len > MAX_OPTION_DATA => {
                    skip(stream, len)?;
                    self.base_allocation &= option != OptionType::SetMetaContext;
                    replies.error(OptionReplyType::ErrTooBig, "longer than 32 KiB");
                }
                OptionType::Info | OptionType::Go => {
                    let data = read_data(stream, len)?;
                    let known = self.info(&data, &mut replies);
                    if known && option == OptionType::Go {
                        stream.write_all(&replies.bytes)?;
                        return Ok(Outcome::Agreed(self.agreed()));
                    }
                }
                OptionType::ListMetaContext | OptionType::SetMetaContext => {
                    let data = read_data(stream, len)?;
                    self.meta_context(option, &data, &mut replies);
                }
            }
            stream.write_all(&replies.bytes)?;
        }
    }

    fn needs_tls(&self) -> bool {
        self.offer.tls == TlsPolicy::Required && !self.tls
    }

    /// Answers with the export or ends the session, because this option has no error reply.
    fn export_name<S: Read + Write + ?Sized>(
        &self,
        stream: &mut S,
        len: u32,
    ) -> Result<Outcome<'a>, NegotiateError> {
        if self.needs_tls() {
            return Err(NegotiateError::TlsRequired);
        }
        if len > MAX_OPTION_DATA {
            let option = OptionType::ExportName;
            return Err(NegotiateError::TooLong { option, len });
        }
        let name = read_data(stream, len)?;
        if !self.knows(&name) {
            return Err(unknown_export(&name));
        }
        let agreed = self.agreed();
        let mut answer = Vec::with_capacity(10 + RESERVED_LEN);
        answer.extend_from_slice(&agreed.size.to_be_bytes());
        answer.extend_from_slice(&agreed.flags.bits().to_be_bytes());
        if !self.no_zeroes {
            answer.extend_from_slice(&[0; RESERVED_LEN]);
        }
        stream.write_all(&answer)?;
        Ok(Outcome::Agreed(agreed))
    }

    /// Returns whether it replied with the export, not with an error.
    fn info(&mut self, data: &[u8], replies: &mut Replies) -> bool {
        let Some((name, requests)) = parse_info(data) else {
            replies.error(
                OptionReplyType::ErrInvalid,
                "the option must have a name and a list of requests",
            );
            return false;
        };
        if !self.knows(name) {
            self.refused = Some(unknown_export(name));
            replies.error(OptionReplyType::ErrUnknown, NO_SUCH_EXPORT);
            return false;
        }
        let agreed = self.agreed();
        let size = agreed.size.to_be_bytes();
        let flags = agreed.flags.bits().to_be_bytes();
        replies.info(InfoType::Export, &[&size, &flags]);
        let wants = |info: InfoType| requests.as_chunks().0.contains(&info.code().to_be_bytes());
        if wants(InfoType::Name) {
            replies.info(InfoType::Name, &[self.offer.name.0.as_bytes()]);
        }
        if wants(InfoType::Description) && !self.offer.description.0.is_empty() {
            let description = self.offer.description.0.as_bytes();
            replies.info(InfoType::Description, &[description]);
        }
        let sizes = [1, self.offer.preferred_block_size, MAX_PAYLOAD].map(u32::to_be_bytes);
        replies.info(InfoType::BlockSize, &[sizes.as_flattened()]);
        replies.ack();
        true
    }

    fn meta_context(&mut self, option: OptionType, data: &[u8], replies: &mut Replies) {
        let set = option == OptionType::SetMetaContext;
        if set {
            // The option resets an earlier choice, even if it fails.
            self.base_allocation = false;
        }
        let Some((name, queries)) = parse_meta_context(data) else {
            replies.error(
                OptionReplyType::ErrInvalid,
                "the option must have a name and a list of queries",
            );
            return;
        };
        if !self.structured_replies {
            replies.error(
                OptionReplyType::ErrInvalid,
                "this option needs structured replies",
            );
            return;
        }
        if !self.knows(name) {
            replies.error(OptionReplyType::ErrUnknown, NO_SUCH_EXPORT);
            return;
        }
        if set && queries.allocation {
            self.base_allocation = true;
            replies.meta_context(BASE_ALLOCATION_ID);
        } else if !set && (queries.allocation || queries.all) {
            replies.meta_context(0);
        }
        replies.ack();
    }

    fn knows(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.offer.name.0.as_bytes()
    }

    fn agreed(&self) -> Agreed {
        let mut flags = self.offer.flags.with(TransmissionFlags::HAS_FLAGS);
        flags = if self.structured_replies {
            flags.with(TransmissionFlags::SEND_DF)
        } else {
            flags.without(TransmissionFlags::SEND_DF)
        };
        Agreed {
            size: self.offer.size,
            flags,
            structured_replies: self.structured_replies,
            base_allocation: self.base_allocation,
        }
    }
}

impl<'a> InTls<'a> {
    /// Answers the client's options. Nothing that was agreed on before TLS is kept.
    ///
    /// # Errors
    /// Returns [`NegotiateError`]. The connection can then only be closed.
    pub fn run<S: Read + Write + ?Sized>(
        self,
        stream: &mut S,
    ) -> Result<Outcome<'a>, NegotiateError> {
        let handshake = Handshake {
            tls: true,
            structured_replies: false,
            base_allocation: false,
            refused: None,
            ..self.0
        };
        handshake.options(stream)
    }
}

const NO_DATA: &str = "this option has no data";
const NO_SUCH_EXPORT: &str = "there is no export of this name";

fn unknown_export(name: &[u8]) -> NegotiateError {
    let name = String::from_utf8_lossy(name);
    NegotiateError::UnknownExport {
        name: name.chars().take(SHOWN_NAME).collect(),
    }
}

/// The replies to one option, sent together.
struct Replies {
    option: OptionType,
    bytes: Vec<u8>,
}

impl Replies {
    fn to(option: OptionType) -> Self {
        let bytes = Vec::new();
        Self { option, bytes }
    }

    fn ack(&mut self) {
        self.push(OptionReplyType::Ack, &[]);
    }

    fn error(&mut self, error: OptionReplyType, message: &str) {
        self.push(error, &[message.as_bytes()]);
    }

    fn server(&mut self, offer: &Offer) {
        let name = offer.name.0.as_bytes();
        let name_len = u32::try_from(name.len()).expect("a Text has at most 4096 bytes");
        let description = offer.description.0.as_bytes();
        let data = [&name_len.to_be_bytes(), name, description];
        self.push(OptionReplyType::Server, &data);
    }

    fn info(&mut self, info: InfoType, payload: &[&[u8]]) {
        let payload = payload.concat();
        let data = [&info.code().to_be_bytes(), payload.as_slice()];
        self.push(OptionReplyType::Info, &data);
    }

    fn meta_context(&mut self, id: u32) {
        let data = [&id.to_be_bytes(), BASE_ALLOCATION.as_bytes()];
        self.push(OptionReplyType::MetaContext, &data);
    }

    fn push(&mut self, kind: OptionReplyType, data: &[&[u8]]) {
        let data = data.concat();
        let len = u32::try_from(data.len()).expect("strings of at most 4096 bytes");
        let bytes = &mut self.bytes;
        bytes.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
        bytes.extend_from_slice(&self.option.code().to_be_bytes());
        bytes.extend_from_slice(&kind.code().to_be_bytes());
        bytes.extend_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(&data);
    }
}

/// Returns the name, and the list of information requests of two bytes each.
fn parse_info(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, rest) = string(data)?;
    let (count, requests) = rest.split_first_chunk()?;
    let count = usize::from(u16::from_be_bytes(*count));
    (requests.len() == 2 * count).then_some((name, requests))
}

/// The metadata contexts that a client asks for. Unknown namespaces and names must be ignored.
struct Queries {
    /// The client named `base:allocation`.
    allocation: bool,
    /// For a listing, the client asked for all contexts: it sent no queries, or `base:`.
    all: bool,
}

/// Returns the export's name and the queries.
fn parse_meta_context(data: &[u8]) -> Option<(&[u8], Queries)> {
    let (name, rest) = string(data)?;
    let (count, mut rest) = rest.split_first_chunk()?;
    let count = u32::from_be_bytes(*count);
    let mut queries = Queries {
        allocation: false,
        all: count == 0,
    };
    // Ends with the data at the latest, however large the count is.
    for _ in 0..count {
        let (query, after) = string(rest)?;
        queries.allocation |= query == BASE_ALLOCATION.as_bytes();
        queries.all |= query == b"base:";
        rest = after;
    }
    rest.is_empty().then_some((name, queries))
}

/// Returns a string that follows its length, and the data after it.
fn string(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = data.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)
}

/// Reads the next option and the length of its data. Returns `None` if the client has closed the
/// connection.
fn read_option<S: Read + ?Sized>(
    stream: &mut S,
) -> Result<Option<(OptionType, u32)>, NegotiateError> {
    let Some(header) = read_or_end::<OPTION_LEN>(stream)? else {
        return Ok(None);
    };
    let [
        m0,
        m1,
        m2,
        m3,
        m4,
        m5,
        m6,
        m7,
        o0,
        o1,
        o2,
        o3,
        l0,
        l1,
        l2,
        l3,
    ] = header;
    let magic = u64::from_be_bytes([m0, m1, m2, m3, m4, m5, m6, m7]);
    if magic != OPTION_MAGIC {
        return Err(NegotiateError::NoOption { found: magic });
    }
    let option = OptionType::from_code(u32::from_be_bytes([o0, o1, o2, o3]));
    Ok(Some((option, u32::from_be_bytes([l0, l1, l2, l3]))))
}

/// Reads `N` bytes. Returns `None` if the stream ends before the first byte.
fn read_or_end<const N: usize>(stream: &mut (impl Read + ?Sized)) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    let first = loop {
        match stream.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    if first == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut bytes[first..])?;
    Ok(Some(bytes))
}

/// Reads `len` bytes. The caller has checked that `len` is at most [`MAX_OPTION_DATA`].
fn read_data(stream: &mut (impl Read + ?Sized), len: u32) -> io::Result<Vec<u8>> {
    let mut data = vec![0; usize::try_from(len).expect("`len` is at most 32 KiB")];
    stream.read_exact(&mut data)?;
    Ok(data)
}

fn skip(mut stream: &mut (impl Read + ?Sized), len: u32) -> io::Result<()> {
    let skipped = io::copy(
        &mut Read::by_ref(&mut stream).take(len.into()),
        &mut io::sink(),
    )?;
    if skipped < u64::from(len) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
