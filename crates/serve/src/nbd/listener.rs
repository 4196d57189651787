// SPDX-License-Identifier: MIT OR Apache-2.0
//! Listening sockets, and the clients that come to them.

use std::{
    fmt, io,
    net::{SocketAddr, TcpListener},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixListener,
    },
    sync::Arc,
};

use nix::{
    libc,
    sys::socket::{
        getsockopt, setsockopt,
        sockopt::{KeepAlive, PeerCredentials, SetUsize},
    },
    unistd::geteuid,
};

use crate::channel::Channel;

/// How many unsent bytes of replies the kernel buffers for a TCP client beyond its receive window.
/// By default the kernel buffers up to 4 MiB: a thousand clients that read no replies would then
/// exhaust the TCP memory of the whole machine and starve other connections.
const UNSENT: usize = 128 << 10;

nix::setsockopt_impl!(
    NotSentLowat,
    libc::IPPROTO_TCP,
    libc::TCP_NOTSENT_LOWAT,
    usize,
    SetUsize
);

/// The socket option `TCP_NOTSENT_LOWAT`, which `nix` lacks.
#[derive(Clone, Copy)]
struct NotSentLowat;

/// A listening socket. [`Server::run`](super::Server::run) makes it nonblocking.
#[derive(Debug)]
pub enum Listener {
    /// A Unix socket. Its clients must run as the same user, or as root.
    Unix(UnixListener),
    /// A TCP socket. Its clients are authenticated only with
    /// [`ServerOptions::tls`](super::ServerOptions::tls).
    Tcp(TcpListener),
}

/// Where a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// On this machine, as the kernel says.
    Process { pid: i32, uid: u32 },
    /// On the network.
    Address(SocketAddr),
}

impl Peer {
    /// Whether the client of a Unix socket runs as the same user or as root. The socket's mode is
    /// not enough: not every system or folder enforces it.
    pub fn may_come_in(&self) -> bool {
        match self {
            Self::Process { uid, .. } => *uid == 0 || *uid == geteuid().as_raw(),
            Self::Address(_) => true,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, uid } => write!(f, "pid:{pid},uid:{uid}"),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl Listener {
    /// Makes the listener nonblocking: a client that has gone before `accept` must not block the
    /// others.
    pub(super) fn prepare(&self) -> io::Result<()> {
        match self {
            Self::Unix(listener) => listener.set_nonblocking(true),
            Self::Tcp(listener) => listener.set_nonblocking(true),
        }
    }

    /// Accepts a client. Returns `None` if it has already gone.
    pub(super) fn accept(&self) -> io::Result<Option<(Arc<dyn Channel>, Peer)>> {
        let accepted: io::Result<(Arc<dyn Channel>, Peer)> = match self {
            Self::Unix(listener) => listener.accept().and_then(|(socket, _)| {
                let peer = getsockopt(&socket, PeerCredentials)?;
                socket.set_nonblocking(false)?;
                let (pid, uid) = (peer.pid(), peer.uid());
                Ok((Arc::new(socket) as _, Peer::Process { pid, uid }))
            }),
            Self::Tcp(listener) => listener.accept().and_then(|(socket, address)| {
                socket.set_nonblocking(false)?;
                // Replies are sent with one call, so there is nothing to wait for.
                socket.set_nodelay(true)?;
                // If the other machine is lost, not even the end of the stream arrives.
                setsockopt(&socket, KeepAlive, &true)?;
                setsockopt(&socket, NotSentLowat, &UNSENT)?;
                Ok((Arc::new(socket) as _, Peer::Address(address)))
            }),
        };
        match accepted {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::Interrupted
                        | io::ErrorKind::ConnectionAborted
                ) =>
            {
                Ok(None)
            }
            accepted => accepted.map(Some),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}
