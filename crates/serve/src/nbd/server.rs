// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NBD server: accepts clients, gives each a thread, and stops.

use std::{
    collections::{HashMap, HashSet},
    fmt, io, mem,
    os::{fd::AsFd, unix::net::UnixStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use luxor_sector::Disk;
use nix::{
    errno::Errno,
    libc,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use tracing::{debug, error, info, warn};

use super::{
    agreed::Agreed,
    connection::{Connection, End},
    listener::{Listener, Peer},
    negotiate::{Handshake, NegotiateError, Offer, Outcome, Text, TlsPolicy},
    service::Service,
    wire::TransmissionFlags,
};
use crate::{
    channel::{Channel, Timed},
    outage::Outage,
    stats::Stats,
    tls::TlsServer,
};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// Longer than a handshake normally takes. A client that needs longer may have to make room for a
/// new one.
const LONG: Duration = Duration::from_secs(1);

/// How long clients have in all, when the server stops, to receive the replies to their requests.
/// The time that the disk needs does not count.
const FAREWELL: Duration = Duration::from_secs(10);

/// How often the server checks for clients that have run out of time.
const LOOK: Duration = Duration::from_millis(100);

/// The options of a [`Server`]. Whether clients can write, and whether they can discard, depends on
/// the [`DiskOptions`](luxor_sector::DiskOptions) of the disk.
#[derive(Default)]
pub struct ServerOptions {
    /// The export's name. Clients can also ask for the default export, which has the empty name.
    pub name: Text,
    /// A description of the export, for people.
    pub description: Text,
    /// Whether to stop when the last client has left.
    pub exit_on_idle: bool,
    /// The most clients at a time; 0 means 1024. Clients that are slow in their handshakes make
    /// room for new ones.
    pub max_clients: usize,
    /// TLS for clients of TCP sockets, which must then use it. `None`: any program that can connect
    /// to a TCP socket can read and write the plaintext. Clients of Unix sockets are checked by
    /// their user ID and do not use TLS.
    pub tls: Option<TlsServer>,
}

/// Serves one disk to NBD clients. Events of `tracing` tell of every client: where it is, when and how
/// its connection ended, and why it was refused.
pub struct Server {
    service: Arc<Service>,
    options: ServerOptions,
    clients: Mutex<Clients>,
    /// Signalled when a client has left.
    left: Condvar,
}

#[derive(Default)]
struct Clients {
    next: u64,
    present: HashMap<u64, Client>,
    /// The threads of present clients, and of some that have left.
    threads: Vec<JoinHandle<()>>,
    /// Whether any client has completed its handshake.
    any: bool,
    /// Whether new clients are refused, because the server stops.
    closed: bool,
}

enum Client {
    /// In its handshake, since this time.
    New(Arc<dyn Channel>, Instant),
    /// Past its handshake.
    Served(Arc<Connection>, Peer),
    /// Disconnected during its handshake to make room. Its thread is ending.
    Leaving,
}

impl Clients {
    /// Disconnects the client that has been longest in its handshake, if that is longer than
    /// [`LONG`]: it may never complete. Returns `false` if there is none.
    fn make_room(&mut self) -> bool {
        let long = self.present.values_mut().filter_map(|client| match client {
            Client::New(_, since) if since.elapsed() >= LONG => Some((*since, client)),
            _ => None,
        });
        let Some((_, oldest)) = long.min_by_key(|(since, _)| *since) else {
            return false;
        };
        if let Client::New(channel, _) = mem::replace(oldest, Client::Leaving) {
            channel.shutdown();
        }
        true
    }

    /// Whether there is room for one more of at most `max` clients, or room can be made.
    fn has_room(&mut self, max: usize) -> bool {
        let all = self.present.len();
        if all < max {
            return true;
        }
        let leaving = self.present.values();
        let leaving = leaving.filter(|client| matches!(client, Client::Leaving));
        let leaving = leaving.count();
        all - leaving < max || (leaving < max && self.make_room())
    }
}

impl Server {
    /// Makes a server for `disk`.
    #[must_use]
    pub fn new(disk: Arc<Disk>, options: ServerOptions) -> Self {
        Self {
            service: Arc::new(Service::new(disk)),
            options,
            clients: Mutex::default(),
            left: Condvar::new(),
        }
    }

    /// Returns the statistics, which continue to count.
    #[must_use]
    pub fn stats(&self) -> &Arc<Stats> {
        self.service.stats()
    }

    /// Serves clients of `listeners` on threads of its own, until `stop` is requested or, with
    /// [`ServerOptions::exit_on_idle`], the last client has left. Then pending requests that can be
    /// started within a second are completed and answered, and everything is made durable. All
    /// threads have ended when this returns. A server runs once: afterwards it refuses all clients.
    ///
    /// # Errors
    /// Returns [`ServeError`] when a listener fails, when a thread cannot be started, and when data
    /// could not be made durable.
    pub fn run(self: &Arc<Self>, listeners: &[Listener], stop: &Stop) -> Result<(), ServeError> {
        let server = Arc::clone(self);
        let watch = thread::Builder::new()
            .name("nbd watch".into())
            .spawn(move || server.service.watch().run(|| server.look()))
            .map_err(|source| ServeError::Thread { source })?;
        let accepted = self.accept(listeners, stop);
        self.dismiss();
        self.service.watch().end();
        // This thread panics only if code that it calls panics. That panic has already been
        // printed.
        let _ = watch.join();
        let flushed = self.service.disk().flush();
        accepted?;
        flushed.map_err(|source| ServeError::Flush { source })
    }

    fn accept(self: &Arc<Self>, listeners: &[Listener], stop: &Stop) -> Result<(), ServeError> {
        for listener in listeners {
            listener
                .prepare()
                .map_err(|source| ServeError::Listen { source })?;
        }
        let mut outage = Outage::default();
        while !stop.is_requested() && !self.is_idle_and_done() {
            let mut waiting: Vec<_> = listeners
                .iter()
                .map(|listener| PollFd::new(listener.as_fd(), PollFlags::POLLIN))
                .collect();
            waiting.push(PollFd::new(stop.woken.as_fd(), PollFlags::POLLIN));
            match poll(&mut waiting, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => {
                    return Err(ServeError::Listen {
                        source: errno.into(),
                    });
                }
            }
            let ready: Vec<bool> = waiting.iter().map(|fd| fd.any() == Some(true)).collect();
            drop(waiting);
            stop.clear();
            for (listener, _) in listeners.iter().zip(ready).filter(|(_, ready)| *ready) {
                let accepted = listener.accept();
                if matches!(accepted, Ok(Some(_))) {
                    outage.accepted();
                }
                match accepted {
                    Ok(Some((_, peer))) if !peer.may_come_in() => {
                        refused(peer, "it belongs to another user");
                    }
                    Ok(Some((channel, peer))) => {
                        let tls = match listener {
                            Listener::Unix(_) => None,
                            Listener::Tcp(_) => self.options.tls.clone(),
                        };
                        self.welcome(channel, peer, tls, stop);
                    }
                    Ok(None) => {}
                    Err(error) => {
                        let (pause, is_new) = outage.failed(&error, Instant::now());
                        if is_new {
                            error!(reason = error.to_string(), "cannot accept clients");
                        }
                        if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
                            self.lock().make_room();
                        }
                        stop.wait(pause);
                    }
                }
            }
        }
        Ok(())
    }

    fn is_idle_and_done(&self) -> bool {
        let clients = self.lock();
        self.options.exit_on_idle && clients.any && clients.present.is_empty()
    }

    /// Starts a thread for a client.
    fn welcome(
        self: &Arc<Self>,
        channel: Arc<dyn Channel>,
        peer: Peer,
        tls: Option<TlsServer>,
        stop: &Stop,
    ) {
        let max = match self.options.max_clients {
            0 => 1024,
            max => max,
        };
        let mut clients = self.lock();
        if !clients.has_room(max) {
            refused(peer, &format!("{max} clients are connected already"));
            return;
        }
        let id = clients.next;
        clients.next += 1;
        clients
            .present
            .insert(id, Client::New(Arc::clone(&channel), Instant::now()));
        drop(clients);
        let (server, stop) = (Arc::clone(self), stop.clone());
        let thread = thread::Builder::new()
            .name("nbd client".into())
            .spawn(move || {
                let _leave = Leave {
                    server: &server,
                    id,
                    stop,
                };
                server.attend(id, peer, channel, tls.as_ref());
            });
        let mut clients = self.lock();
        match thread {
            Ok(thread) => {
                clients.threads.retain(|thread| !thread.is_finished());
                clients.threads.push(thread);
            }
            Err(error) => {
                refused(peer, &error.to_string());
                clients.present.remove(&id);
            }
        }
    }

    /// Makes the handshake and serves the client.
    fn attend(&self, id: u64, peer: Peer, channel: Arc<dyn Channel>, tls: Option<&TlsServer>) {
        debug!(%peer, "client accepted");
        let begun = Instant::now();
        let shaken = self.shake_hands(channel, tls, begun + HANDSHAKE);
        match self.admit(id, peer, shaken) {
            Ok((connection, identity)) => {
                info!(%peer, tls = tls.is_some(), identity, "client connected");
                connection.serve();
                log_end(peer, begun, &connection);
            }
            Err(Parted::Left) => info!(%peer, "client left without using the export"),
            Err(Parted::Stopped) => debug!(%peer, "client disconnected: the server stops"),
            Err(Parted::Refused(reason)) => refused(peer, &reason),
        }
    }

    /// Makes a connection after the handshake, if there is still room for it.
    fn admit(
        &self,
        id: u64,
        peer: Peer,
        shaken: Result<Option<Welcomed>, NegotiateError>,
    ) -> Result<(Arc<Connection>, Option<String>), Parted> {
        let mut clients = self.lock();
        if clients.closed {
            return Err(Parted::Stopped);
        }
        if matches!(clients.present.get(&id), Some(Client::Leaving)) {
            let reason = "its handshake took too long, and another client needed room";
            return Err(Parted::Refused(reason.to_owned()));
        }
        let shaken = shaken.map_err(|error| match error {
            NegotiateError::Io(error) if is_gone(&error) => Parted::Left,
            error => Parted::Refused(error.to_string()),
        })?;
        let (channel, agreed, identity) = shaken.ok_or(Parted::Left)?;
        let connection = Connection::new(channel, peer, agreed, Arc::clone(&self.service));
        clients.any = true;
        let client = Client::Served(Arc::clone(&connection), peer);
        clients.present.insert(id, client);
        Ok((connection, identity))
    }

    fn shake_hands(
        &self,
        channel: Arc<dyn Channel>,
        tls: Option<&TlsServer>,
        until: Instant,
    ) -> Result<Option<Welcomed>, NegotiateError> {
        let disk = self.service.disk();
        let offer = Offer {
            name: self.options.name.clone(),
            description: self.options.description.clone(),
            size: disk.len(),
            flags: offered(disk),
            preferred_block_size: u32::try_from(disk.sector_size().max(4096)).unwrap_or(4096),
            tls: match tls {
                None => TlsPolicy::Off,
                Some(_) => TlsPolicy::Required,
            },
        };
        let outcome = Handshake::new(&offer).run(&mut Timed::new(&*channel, until))?;
        let (channel, outcome, identity) = match (outcome, tls) {
            (Outcome::StartTls(handshake), Some(tls)) => {
                let channel = tls
                    .accept(channel, until)
                    .map_err(|source| NegotiateError::Tls { source })?;
                let identity = channel.identity().map(str::to_owned);
                let channel: Arc<dyn Channel> = Arc::new(channel);
                let outcome = handshake.run(&mut Timed::new(&*channel, until))?;
                (channel, outcome, identity)
            }
            (outcome, _) => (channel, outcome, None),
        };
        match outcome {
            Outcome::Agreed(agreed) => Ok(Some((channel, agreed, identity))),
            Outcome::Ended(refused) => {
                channel.shutdown();
                refused.map_or(Ok(None), Err)
            }
            Outcome::StartTls(_) => {
                unreachable!("TLS begins at most once, and only if it is configured")
            }
        }
    }

    fn look(&self) {
        let clients = self.lock();
        for client in clients.present.values() {
            if let Client::Served(connection, _) = client {
                connection.look();
            }
        }
    }

    /// Disconnects all clients when the server stops.
    fn dismiss(&self) {
        let mut clients = self.lock();
        clients.closed = true;
        for client in clients.present.values() {
            match client {
                Client::New(channel, _) => channel.shutdown(),
                Client::Served(connection, _) => connection.stop(),
                Client::Leaving => {}
            }
        }
        let mut given_up = HashSet::new();
        while !clients.present.is_empty() {
            for (id, client) in &clients.present {
                if let Client::Served(connection, peer) = client
                    && connection.waits_for_client(FAREWELL)
                    && given_up.insert(*id)
                {
                    warn!(%peer, "client does not receive its replies, and is disconnected");
                    connection.shutdown();
                }
            }
            let waited = self.left.wait_timeout(clients, LOOK);
            clients = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let threads = mem::take(&mut clients.threads);
        drop(clients);
        // Waiting for the threads also means that none of them uses the disk any more, so its locks
        // are free for the caller.
        for thread in threads {
            // These threads panic only if code that they call panics. That panic has already been
            // printed.
            let _ = thread.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The channel of a client that chose the export, what was agreed with it, and the name of its
/// pre-shared key.
type Welcomed = (Arc<dyn Channel>, Agreed, Option<String>);

/// Removes a client when it leaves, for whatever reason.
struct Leave<'a> {
    server: &'a Server,
    id: u64,
    stop: Stop,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let mut clients = self.server.lock();
        clients.present.remove(&self.id);
        let idle = clients.present.is_empty();
        let is_served = |client: &Client| matches!(client, Client::Served(..));
        let served = clients.present.values().any(is_served);
        drop(clients);
        if !served {
            // The next client may come days later, and the buffers contain plaintext.
            self.server.service.buffers().clear();
        }
        self.server.left.notify_all();
        if idle && self.server.options.exit_on_idle {
            self.stop.wake();
        }
    }
}

/// Why a client is not served.
enum Parted {
    /// It did not ask for the export.
    Left,
    /// The server stops.
    Stopped,
    /// The reason.
    Refused(String),
}

/// Whether the client had closed the connection already.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset)
}

fn refused(peer: Peer, reason: &str) {
    warn!(%peer, reason, "client refused");
}

/// Waits for the end of a connection, and logs it.
fn log_end(peer: Peer, since: Instant, connection: &Connection) {
    const WHAT: &str = "client disconnected";
    let end = connection.wait();
    let (read, written) = connection.moved();
    let seconds = format_args!("{:.3}", since.elapsed().as_secs_f64());
    let how = end.to_string();
    match end {
        End::Clean | End::Stopped => info!(%peer, how, %seconds, read, written, "{WHAT}"),
        End::Dropped | End::Failed(_) => warn!(%peer, how, %seconds, read, written, "{WHAT}"),
    }
}

/// Returns the capabilities of the export.
fn offered(disk: &Disk) -> TransmissionFlags {
    let flags = TransmissionFlags::HAS_FLAGS
        .with(TransmissionFlags::SEND_FLUSH)
        .with(TransmissionFlags::SEND_FUA)
        .with(TransmissionFlags::SEND_DF)
        .with(TransmissionFlags::SEND_CACHE)
        .with(TransmissionFlags::CAN_MULTI_CONN);
    if disk.is_read_only() {
        return flags.with(TransmissionFlags::READ_ONLY);
    }
    let flags = flags.with(TransmissionFlags::SEND_WRITE_ZEROES);
    if disk.allows_discards() {
        flags.with(TransmissionFlags::SEND_TRIM)
    } else {
        flags
    }
}

/// Asks a server to stop. Clones stand for the same request, and can be used from any thread.
#[derive(Clone, Debug)]
pub struct Stop {
    requested: Arc<AtomicBool>,
    waker: Arc<UnixStream>,
    woken: Arc<UnixStream>,
}

impl Stop {
    /// Makes a stop that is not requested yet.
    ///
    /// # Errors
    /// Those of the system, when there are too many open files.
    pub fn new() -> io::Result<Self> {
        let (waker, woken) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        Ok(Self {
            requested: Arc::default(),
            waker: Arc::new(waker),
            woken: Arc::new(woken),
        })
    }

    /// Requests the stop: the server accepts no more clients, and disconnects the present ones.
    pub fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Whether the stop has been requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::SeqCst)
    }

    /// Waits for at most `limit`, until the stop is requested or a client has left.
    fn wait(&self, limit: Duration) {
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO);
        let _ = poll(
            &mut [PollFd::new(self.woken.as_fd(), PollFlags::POLLIN)],
            limit,
        );
    }

    fn wake(&self) {
        // If the socket is full, there are enough bytes in it to wake the server.
        let _ = io::Write::write(&mut &*self.waker, &[0]);
    }

    fn clear(&self) {
        let mut bytes = [0; 64];
        while matches!(io::Read::read(&mut &*self.woken, &mut bytes), Ok(1..)) {}
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("service", &self.service)
            .field("options", &self.options)
            .field("clients", &self.lock().present.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("name", &self.name.as_str())
            .field("tls", &self.tls)
            .field("exit_on_idle", &self.exit_on_idle)
            .finish_non_exhaustive()
    }
}

/// Why a server has stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The listening sockets cannot be used.
    #[error("cannot accept clients: {source}")]
    Listen {
        /// The system's error.
        source: io::Error,
    },
    /// The system cannot start a thread.
    #[error("a thread cannot be started: {source}")]
    Thread {
        /// The system's error.
        source: io::Error,
    },
    /// The last writes may be lost.
    #[error("what was written could not be made durable: {source}")]
    Flush {
        /// The system's error.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use luxor_sector::{DiskOptions, MemoryStorage, Part};

    use super::*;

    #[test]
    fn buffers_are_wiped_when_the_last_served_client_has_left() {
        let part = Part {
            offset: 0,
            len: 512,
            crypt: None,
        };
        let storage = Arc::new(MemoryStorage::new(vec![0; 512]));
        let disk = Disk::new(storage, vec![part], DiskOptions::default()).unwrap();
        let server = Server::new(Arc::new(disk), ServerOptions::default());
        let buffers = server.service.buffers();
        let mut buffer = buffers.take(1).unwrap();
        buffer[0] = 7;
        buffers.give_back(buffer);
        let channel = || Arc::new(UnixStream::pair().unwrap().0);
        let agreed = Agreed {
            size: 512,
            flags: TransmissionFlags::HAS_FLAGS,
            structured_replies: false,
            base_allocation: false,
        };
        for id in 0..2 {
            let peer = Peer::Process { pid: 1, uid: 0 };
            let service = Arc::clone(&server.service);
            let connection = Connection::new(channel(), peer, agreed, service);
            let client = Client::Served(connection, peer);
            server.lock().present.insert(id, client);
        }
        // This client may still need half a minute for its handshake.
        let new = Client::New(channel(), Instant::now());
        server.lock().present.insert(2, new);
        for (id, expected) in [(0, 7), (1, 0)] {
            let stop = Stop::new().unwrap();
            drop(Leave {
                server: &server,
                id,
                stop,
            });
            let buffer = buffers.take(1).unwrap();
            assert_eq!(buffer[0], expected, "client {id} has left");
            buffers.give_back(buffer);
        }
    }
}
