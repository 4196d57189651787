// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server side of the NBD protocol, as its public document has it
//! (`doc/proto.md` of <https://github.com/NetworkBlockDevice/nbd>, called "the
//! document" here). Integers on the wire are big-endian.

mod agreed;
pub mod reply;
mod request;
pub mod wire;

pub use agreed::{Agreed, MAX_PAYLOAD, Refusal};
pub use request::{BadMagic, Command, REQUEST_LEN, Request};
