// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies to requests.
//!
//! ```text
//! simple reply              chunk of a structured reply
//! offset length             offset length
//!      0      4  magic           0      4  magic
//!      4      4  error           4      2  flags: DONE on the last chunk
//!      8      8  cookie          6      2  type
//!     16         bytes read      8      8  cookie
//!                               16      4  length of the payload
//!                               20         payload
//! ```
//!
//! | to answer | without structured replies | with them |
//! |---|---|---|
//! | a read | [`simple`], then the bytes | [`data`], then the bytes |
//! | a block status | | [`block_status`], then a [`descriptor`] each |
//! | anything else | [`simple`] | [`simple`] |
//! | a failure | [`error`] | [`error`], [`error_at`] |

use super::{
    agreed::Agreed,
    wire::{
        AllocationFlags, ErrorValue, MAX_STRING, ReplyFlags, ReplyType, SIMPLE_REPLY_MAGIC,
        STRUCTURED_REPLY_MAGIC,
    },
};

/// The length of a simple reply in bytes.
pub const SIMPLE_LEN: usize = 16;
/// The length of a chunk's header in bytes.
pub const CHUNK_LEN: usize = 20;
/// The length of [`data`] in bytes: a chunk's header and an offset.
pub const DATA_LEN: usize = CHUNK_LEN + 8;
/// The length of [`block_status`] in bytes: a chunk's header and the context.
pub const BLOCK_STATUS_LEN: usize = CHUNK_LEN + 4;
/// The length of a [`descriptor`] in bytes.
pub const DESCRIPTOR_LEN: usize = 8;
/// The metadata context ID of `base:allocation`.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// Makes a simple reply. `None` means success; after a read, the bytes follow.
#[must_use]
pub fn simple(cookie: u64, error: Option<ErrorValue>) -> [u8; SIMPLE_LEN] {
    let mut reply = [0; SIMPLE_LEN];
    reply[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    reply[4..8].copy_from_slice(&error.map_or(0, ErrorValue::code).to_be_bytes());
    reply[8..].copy_from_slice(&cookie.to_be_bytes());
    reply
}

/// Makes the header of a chunk of the type [`ReplyType::OffsetData`]. The `len` bytes at `offset`
/// of the export follow. `done` means that this is the last chunk for the request.
///
/// # Panics
/// Panics if `len` is zero or more than 2³² − 9, which the document does not allow.
#[must_use]
pub fn data(cookie: u64, offset: u64, len: u32, done: bool) -> [u8; DATA_LEN] {
    assert!(len > 0, "a chunk of data without data");
    let mut reply = [0; DATA_LEN];
    let flags = if done {
        ReplyFlags::DONE
    } else {
        ReplyFlags::default()
    };
    let payload = len.checked_add(8).expect("the chunk is shorter than 4 GiB");
    let head = chunk(cookie, flags, ReplyType::OffsetData, payload);
    reply[..CHUNK_LEN].copy_from_slice(&head);
    reply[CHUNK_LEN..].copy_from_slice(&offset.to_be_bytes());
    reply
}

/// Makes the chunk that ends a reply without a payload. It means success if no error came before.
#[must_use]
pub fn done(cookie: u64) -> [u8; CHUNK_LEN] {
    chunk(cookie, ReplyFlags::DONE, ReplyType::None, 0)
}

/// Makes the header of the only chunk that answers a block status request. A [`descriptor`] for
/// each of the `extents` extents of `base:allocation` follows.
///
/// # Panics
/// Panics if `extents` is zero, or if the chunk would reach 4 GiB.
#[must_use]
pub fn block_status(cookie: u64, extents: usize) -> [u8; BLOCK_STATUS_LEN] {
    assert!(extents > 0, "a block status without an extent");
    let payload = extents
        .checked_mul(DESCRIPTOR_LEN)
        .and_then(|len| len.checked_add(4))
        .and_then(|len| u32::try_from(len).ok())
        .expect("the chunk is shorter than 4 GiB");
    let mut reply = [0; BLOCK_STATUS_LEN];
    let head = chunk(cookie, ReplyFlags::DONE, ReplyType::BlockStatus, payload);
    reply[..CHUNK_LEN].copy_from_slice(&head);
    reply[CHUNK_LEN..].copy_from_slice(&BASE_ALLOCATION_ID.to_be_bytes());
    reply
}

/// Describes an extent of `len` bytes. `len` must not be zero.
#[must_use]
pub fn descriptor(len: u32, flags: AllocationFlags) -> [u8; DESCRIPTOR_LEN] {
    let mut reply = [0; DESCRIPTOR_LEN];
    reply[..4].copy_from_slice(&len.to_be_bytes());
    reply[4..].copy_from_slice(&flags.bits().to_be_bytes());
    reply
}

/// Appends the whole reply to a failed request. With structured replies it contains the message,
/// cut off after 4096 bytes.
pub fn error(out: &mut Vec<u8>, agreed: &Agreed, cookie: u64, error: ErrorValue, message: &str) {
    if agreed.structured_replies {
        error_chunk(out, cookie, error, message, None);
    } else {
        out.extend_from_slice(&simple(cookie, Some(error)));
    }
}

/// As [`error`], with the `offset` in the export at which the request failed. `offset` lies within
/// the request. Not for a flush or a refused request.
pub fn error_at(
    out: &mut Vec<u8>,
    agreed: &Agreed,
    cookie: u64,
    error: ErrorValue,
    message: &str,
    offset: u64,
) {
    if agreed.structured_replies {
        error_chunk(out, cookie, error, message, Some(offset));
    } else {
        out.extend_from_slice(&simple(cookie, Some(error)));
    }
}

fn error_chunk(
    out: &mut Vec<u8>,
    cookie: u64,
    error: ErrorValue,
    message: &str,
    offset: Option<u64>,
) {
    let message = &message.as_bytes()[..message.floor_char_boundary(MAX_STRING)];
    let message_len = u16::try_from(message.len()).expect("the message was cut to 4096 bytes");
    let (kind, fixed) = match offset {
        None => (ReplyType::Error, 6),
        Some(_) => (ReplyType::ErrorOffset, 14),
    };
    let payload = fixed + u32::from(message_len);
    out.extend_from_slice(&chunk(cookie, ReplyFlags::DONE, kind, payload));
    out.extend_from_slice(&error.code().to_be_bytes());
    out.extend_from_slice(&message_len.to_be_bytes());
    out.extend_from_slice(message);
    if let Some(offset) = offset {
        out.extend_from_slice(&offset.to_be_bytes());
    }
}

fn chunk(cookie: u64, flags: ReplyFlags, kind: ReplyType, payload: u32) -> [u8; CHUNK_LEN] {
    let mut reply = [0; CHUNK_LEN];
    reply[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    reply[4..6].copy_from_slice(&flags.bits().to_be_bytes());
    reply[6..8].copy_from_slice(&kind.code().to_be_bytes());
    reply[8..16].copy_from_slice(&cookie.to_be_bytes());
    reply[16..].copy_from_slice(&payload.to_be_bytes());
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::wire::TransmissionFlags;

    const COOKIE: u64 = 0x4142_4344_4546_4748;

    fn agreed(structured_replies: bool) -> Agreed {
        Agreed {
            size: 1 << 20,
            flags: TransmissionFlags::HAS_FLAGS,
            structured_replies,
            base_allocation: true,
        }
    }

    #[test]
    fn simple_replies() {
        let ok = *b"\x67\x44\x66\x98\0\0\0\0ABCDEFGH";
        assert_eq!(simple(COOKIE, None), ok);
        let no_space = *b"\x67\x44\x66\x98\0\0\0\x1cABCDEFGH";
        assert_eq!(simple(COOKIE, Some(ErrorValue::NoSpc)), no_space);
    }

    #[test]
    fn chunks() {
        let more =
            *b"\x66\x8e\x33\xef\0\0\0\x01ABCDEFGH\0\0\x10\x08\x01\x02\x03\x04\x05\x06\x07\x08";
        assert_eq!(data(COOKIE, 0x0102_0304_0506_0708, 4096, false), more);
        let mut last = more;
        last[5] = 1;
        assert_eq!(data(COOKIE, 0x0102_0304_0506_0708, 4096, true), last);
        assert_eq!(done(COOKIE), *b"\x66\x8e\x33\xef\0\x01\0\0ABCDEFGH\0\0\0\0");
        assert_eq!(
            block_status(COOKIE, 3),
            *b"\x66\x8e\x33\xef\0\x01\0\x05ABCDEFGH\0\0\0\x1c\0\0\0\x01"
        );
        assert_eq!(
            descriptor(0x0001_0203, AllocationFlags::HOLE),
            *b"\x00\x01\x02\x03\0\0\0\x01"
        );
    }

    #[test]
    fn errors_have_a_message_where_there_is_room_for_one() {
        let mut out = b"before".to_vec();
        error(
            &mut out,
            &agreed(true),
            COOKIE,
            ErrorValue::Perm,
            "read-only",
        );
        assert_eq!(
            out,
            b"before\x66\x8e\x33\xef\0\x01\x80\x01ABCDEFGH\0\0\0\x0f\0\0\0\x01\0\x09read-only"
        );

        out.clear();
        let offset = 0x0102_0304_0506_0708;
        error_at(
            &mut out,
            &agreed(true),
            COOKIE,
            ErrorValue::Io,
            "bad",
            offset,
        );
        assert_eq!(
            out,
            b"\x66\x8e\x33\xef\0\x01\x80\x02ABCDEFGH\0\0\0\x11\0\0\0\x05\0\x03bad\
              \x01\x02\x03\x04\x05\x06\x07\x08"
        );

        for located in [false, true] {
            out.clear();
            if located {
                error_at(&mut out, &agreed(false), COOKIE, ErrorValue::Io, "bad", 0);
            } else {
                error(&mut out, &agreed(false), COOKIE, ErrorValue::Io, "bad");
            }
            assert_eq!(out, simple(COOKIE, Some(ErrorValue::Io)));
        }
    }

    #[test]
    fn a_message_is_cut_between_characters() {
        let mut out = Vec::new();
        let message = "é".repeat(3000);
        let text = format!("x{message}");
        error(&mut out, &agreed(true), COOKIE, ErrorValue::Io, &text);
        assert_eq!(out[16..20], (6 + 4095_u32).to_be_bytes());
        assert_eq!(out[24..26], 4095_u16.to_be_bytes());
        assert_eq!(&out[26..], &text.as_bytes()[..4095]);
    }
}
