// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server side of the NBD protocol, as defined by the public protocol document (`doc/proto.md`
//! of <https://github.com/NetworkBlockDevice/nbd>, called "the document" here). Integers on the
//! wire are big-endian.

mod agreed;
mod connection;
mod inbox;
mod negotiate;
pub mod reply;
mod request;
mod server;
mod ticker;
pub mod wire;

pub use agreed::{Agreed, MAX_PAYLOAD, Refusal};
pub use negotiate::{
    Handshake, InTls, MAX_OPTION_DATA, MAX_OPTIONS, MAX_SKIPPED, NegotiateError, Offer, Outcome,
    SHOWN_NAME, Text, TextError, TlsPolicy,
};
pub use request::{BadMagic, Command, REQUEST_LEN, Request};
pub use server::{Server, ServerOptions};
