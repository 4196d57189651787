// SPDX-License-Identifier: MIT OR Apache-2.0
//! The request message.
//!
//! ```text
//! offset length
//!      0      4  magic
//!      4      2  command flags
//!      6      2  type
//!      8      8  cookie: the client's name for the request
//!     16      8  offset
//!     24      4  length
//!     28         `length` bytes to be written, if it is a write
//! ```

use thiserror::Error;

use super::wire::{CommandFlags, REQUEST_MAGIC};

/// The length of a request without its payload, in bytes.
pub const REQUEST_LEN: usize = 28;

/// A well-formed request. Whether it can be served is checked by
/// [`Agreed::check`](super::Agreed::check).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The value that the reply repeats.
    pub cookie: u64,
    /// The command.
    pub command: Command,
    /// The flags of the command.
    pub flags: CommandFlags,
    /// The offset in the export, in bytes.
    pub offset: u64,
    /// The length in bytes.
    pub len: u32,
}

impl Request {
    /// Parses the first [`REQUEST_LEN`] bytes of a request. A payload may follow
    /// ([`Request::payload_len`]).
    ///
    /// # Errors
    /// Returns [`BadMagic`]. The connection can then only be closed.
    pub fn parse(bytes: &[u8; REQUEST_LEN]) -> Result<Self, BadMagic> {
        let magic = u32::from_be_bytes(field(bytes, 0));
        if magic != REQUEST_MAGIC {
            return Err(BadMagic { found: magic });
        }
        Ok(Self {
            cookie: u64::from_be_bytes(field(bytes, 8)),
            command: Command::from_code(u16::from_be_bytes(field(bytes, 6))),
            flags: CommandFlags::from_bits(u16::from_be_bytes(field(bytes, 4))),
            offset: u64::from_be_bytes(field(bytes, 16)),
            len: u32::from_be_bytes(field(bytes, 24)),
        })
    }

    /// Returns how many bytes follow the request. They follow even if the request is refused, and
    /// must then be skipped.
    #[must_use]
    pub const fn payload_len(&self) -> u32 {
        match self.command {
            Command::Write => self.len,
            _ => 0,
        }
    }
}

/// The commands of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Asks for bytes.
    Read,
    /// Writes the bytes that follow.
    Write,
    /// The client disconnects when its earlier requests are done. There is no reply.
    Disconnect,
    /// Makes acknowledged writes durable.
    Flush,
    /// The client no longer needs the range.
    Trim,
    /// The client will soon need the range.
    Cache,
    /// Fills the range with zeros.
    WriteZeroes,
    /// Asks for the state of the range in the chosen metadata contexts.
    BlockStatus,
    /// Anything else.
    Other(u16),
}

impl Command {
    /// Decodes the code from the wire.
    #[must_use]
    pub const fn from_code(code: u16) -> Self {
        match code {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::Disconnect,
            3 => Self::Flush,
            4 => Self::Trim,
            5 => Self::Cache,
            6 => Self::WriteZeroes,
            7 => Self::BlockStatus,
            other => Self::Other(other),
        }
    }

    /// Whether the command changes the contents of the export.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes)
    }
}

/// The bytes are not the beginning of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not an NBD request: it begins with {found:#010x} instead of {REQUEST_MAGIC:#010x}")]
pub struct BadMagic {
    /// The first four bytes.
    pub found: u32,
}

fn field<const N: usize>(bytes: &[u8; REQUEST_LEN], offset: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[offset + i])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(magic: u32, flags: u16, code: u16) -> [u8; REQUEST_LEN] {
        let mut bytes = Vec::new();
        bytes.extend(magic.to_be_bytes());
        bytes.extend(flags.to_be_bytes());
        bytes.extend(code.to_be_bytes());
        bytes.extend(0x0102_0304_0506_0708_u64.to_be_bytes());
        bytes.extend(0x1112_1314_1516_1718_u64.to_be_bytes());
        bytes.extend(0x2122_2324_u32.to_be_bytes());
        bytes.try_into().expect("28 bytes")
    }

    #[test]
    fn every_field_is_where_the_document_has_it() {
        let commands = [
            Command::Read,
            Command::Write,
            Command::Disconnect,
            Command::Flush,
            Command::Trim,
            Command::Cache,
            Command::WriteZeroes,
            Command::BlockStatus,
            Command::Other(8),
            Command::Other(9),
        ];
        for (code, command) in (0..).zip(commands) {
            let request = Request::parse(&message(0x2560_9513, 0x8003, code)).expect("a request");
            assert_eq!(
                request,
                Request {
                    cookie: 0x0102_0304_0506_0708,
                    command,
                    flags: CommandFlags::from_bits(0x8003),
                    offset: 0x1112_1314_1516_1718,
                    len: 0x2122_2324,
                }
            );
            let payload = if code == 1 { 0x2122_2324 } else { 0 };
            assert_eq!(request.payload_len(), payload);
        }
    }

    #[test]
    fn a_wrong_magic_is_refused() {
        for bit in 0..32 {
            let found = REQUEST_MAGIC ^ (1 << bit);
            assert_eq!(
                Request::parse(&message(found, 0, 0)),
                Err(BadMagic { found })
            );
        }
        assert_eq!(
            BadMagic { found: 0x16 }.to_string(),
            "not an NBD request: it begins with 0x00000016 instead of 0x25609513"
        );
    }
}
