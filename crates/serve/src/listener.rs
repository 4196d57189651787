// SPDX-License-Identifier: MIT OR Apache-2.0
//! Listening sockets, and the clients that connect to them.

use std::{
    fmt, io,
    net::{SocketAddr, TcpListener, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::{UnixListener, UnixStream},
    },
    time::Instant,
};

use nix::{
    errno::Errno,
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{
        getsockopt, setsockopt,
        sockopt::{KeepAlive, PeerCredentials, SetUsize},
    },
    unistd::geteuid,
};

use tracing::{error, warn};

use crate::{frontend::ServeError, outage::Outage, stop::Stop};

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

/// A listening socket. The frontend that uses it makes it nonblocking.
#[derive(Debug)]
pub enum Listener {
    /// A Unix socket. Its clients must run as the same user, or as root.
    Unix(UnixListener),
    /// A TCP socket. Its clients are authenticated only with
    /// [`ServerOptions::tls`](crate::nbd::ServerOptions::tls).
    Tcp(TcpListener),
}

/// The connection of a client.
pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Where a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// On this machine, as the kernel says.
    Process { pid: i32, uid: u32 },
    /// On the network.
    Address(SocketAddr),
}

impl Peer {
    /// Whether the client of a Unix socket runs as the same user or as root. The socket's mode is
    /// not enough: not every system or folder enforces it.
    fn may_connect(&self) -> bool {
        match self {
            Self::Process { uid, .. } => *uid == 0 || *uid == geteuid().as_raw(),
            Self::Address(_) => true,
        }
    }

    /// Logs that the client is refused.
    pub(crate) fn log_refusal(self, reason: &str) {
        warn!(peer = %self, reason, "client refused");
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
    fn prepare(&self) -> io::Result<()> {
        match self {
            Self::Unix(listener) => listener.set_nonblocking(true),
            Self::Tcp(listener) => listener.set_nonblocking(true),
        }
    }

    /// Accepts a client. Returns `None` if it has already gone.
    fn accept(&self) -> io::Result<Option<(Socket, Peer)>> {
        let accepted = match self {
            Self::Unix(listener) => listener.accept().and_then(|(socket, _)| {
                let peer = getsockopt(&socket, PeerCredentials)?;
                socket.set_nonblocking(false)?;
                let (pid, uid) = (peer.pid(), peer.uid());
                Ok((Socket::Unix(socket), Peer::Process { pid, uid }))
            }),
            Self::Tcp(listener) => listener.accept().and_then(|(socket, address)| {
                socket.set_nonblocking(false)?;
                // Replies are sent with one call, so there is nothing to wait for.
                socket.set_nodelay(true)?;
                // If the other machine is lost, not even the end of the stream arrives.
                setsockopt(&socket, KeepAlive, &true)?;
                setsockopt(&socket, NotSentLowat, &UNSENT)?;
                Ok((Socket::Tcp(socket), Peer::Address(address)))
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

/// What a frontend does with the clients of its listeners.
pub(crate) trait Clients {
    /// Whether to accept no more of them, although no stop is requested.
    fn is_done(&self) -> bool;

    /// Takes a client, without waiting for it.
    fn add(&self, socket: Socket, peer: Peer);

    /// Called when the process has no descriptor left for a client: disconnects one that is likely of
    /// no use.
    fn make_room(&self);
}

/// Accepts clients of `listeners` until `stop` is requested. Refuses those of other users.
pub(crate) fn accept(
    listeners: &[Listener],
    stop: &Stop,
    clients: &impl Clients,
) -> Result<(), ServeError> {
    let failed = |source| ServeError::Listen { source };
    for listener in listeners {
        listener.prepare().map_err(failed)?;
    }
    let mut outage = Outage::default();
    while !stop.is_requested() && !clients.is_done() {
        let sockets = listeners.iter().map(AsFd::as_fd).chain([stop.as_fd()]);
        let mut waiting: Vec<_> = sockets
            .map(|socket| PollFd::new(socket, PollFlags::POLLIN))
            .collect();
        match poll(&mut waiting, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(failed(errno.into())),
        }
        stop.clear();
        let ready = waiting.iter().map(|fd| fd.any() == Some(true));
        for (listener, _) in listeners.iter().zip(ready).filter(|(_, ready)| *ready) {
            match listener.accept() {
                Ok(Some((socket, peer))) => {
                    outage.accepted();
                    if peer.may_connect() {
                        clients.add(socket, peer);
                    } else {
                        drop(socket);
                        peer.log_refusal("it belongs to another user");
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    let (pause, is_new) = outage.failed(&error, Instant::now());
                    if is_new {
                        error!(reason = error.to_string(), "cannot accept clients");
                    }
                    if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
                        clients.make_room();
                    }
                    stop.wait(pause);
                }
            }
        }
    }
    Ok(())
}
