// SPDX-License-Identifier: MIT OR Apache-2.0
//! Serves a [`Disk`](luxor_sector::Disk) to other programs, without root and without a kernel
//! module of its own: to NBD clients over sockets, or as a file that the kernel mounts by FUSE.
//!
//! | task | use |
//! |---|---|
//! | offer a disk by one frontend or several, until told to stop | [`Export`], [`Frontend`] |
//! | serve it to NBD clients | [`nbd::Server`], [`Listener`], [`Stop`] |
//! | mount it as a file | [`fuse::Mounted`] |
//! | see what the frontends have done so far | [`stats`], [`metrics`] |
//! | agree with an NBD client on an export | [`nbd::Handshake`] |
//! | parse and check a request of an NBD client | [`nbd::Request::parse`], then [`nbd::Agreed::check`] |
//! | reply to it | [`nbd::reply`] |
//! | look up a constant of the NBD protocol | [`nbd::wire`] |
//! | receive and send at the same time, on any socket | [`Channel`] |
//! | do that inside mutual TLS, with certificates or pre-shared keys | [`TlsServer::accept`] |
//! | limit how long a handshake may take | [`Timed`] |
//!
//! All input from a client is untrusted until it has been parsed.
//!
//! Serves a disk to the clients of a Unix socket until another thread calls
//! [`Stop::request`]:
//!
//! ```no_run
//! use std::{os::unix::net::UnixListener, sync::Arc};
//!
//! use luxor_serve::{
//!     Export, Frontend, Listener, Stop,
//!     nbd::{Server, ServerOptions},
//! };
//!
//! # fn serve(disk: Arc<luxor_sector::Disk>) -> Result<(), Box<dyn std::error::Error>> {
//! let listener = Listener::Unix(UnixListener::bind("/run/user/1000/disk.sock")?);
//! let stop = Stop::new()?;
//! let export = Export::new(disk);
//! let server = Server::new(export, ServerOptions::default(), vec![listener], stop.clone());
//! Box::new(server).run()?;
//! # Ok(())
//! # }
//! ```
//!
//! Parses a request and refuses it, as a server of your own would:
//!
//! ```
//! use luxor_serve::nbd::{Agreed, Command, Request, reply, wire::TransmissionFlags};
//!
//! let agreed = Agreed {
//!     size: 1 << 20,
//!     flags: TransmissionFlags::HAS_FLAGS.with(TransmissionFlags::READ_ONLY),
//!     structured_replies: true,
//!     base_allocation: false,
//! };
//! // What a client sends to write 512 bytes at byte 4096.
//! let bytes = *b"\x25\x60\x95\x13\0\0\0\x01COOKIE78\0\0\0\0\0\0\x10\0\0\0\x02\0";
//! let request = Request::parse(&bytes)?;
//! assert_eq!((request.command, request.offset, request.len), (Command::Write, 4096, 512));
//!
//! let refusal = agreed.check(&request).unwrap_err();
//! let mut answer = Vec::new();
//! reply::error(&mut answer, &agreed, request.cookie, refusal.error, refusal.message);
//! # Ok::<(), luxor_serve::nbd::BadMagic>(())
//! ```

#![forbid(unsafe_code)]

mod channel;
mod export;
mod frontend;
pub mod fuse;
mod listener;
mod memory_budget;
pub mod metrics;
pub mod nbd;
mod outage;
pub mod stats;
mod stop;
mod tls;

pub use channel::{Channel, Timed};
pub use export::Export;
pub use frontend::{Frontend, ServeError, Stopper};
pub use listener::Listener;
pub use stop::Stop;
pub use tls::{TlsChannel, TlsConfigError, TlsServer};
