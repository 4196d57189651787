// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NBD server: accepts clients, gives each a thread, and stops.

use std::{
    collections::{HashMap, HashSet},
    fmt, io, mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use luxor_sector::Disk;
use tracing::{debug, info, warn};

use super::{
    agreed::Agreed,
    connection::{Connection, End},
    negotiate::{Handshake, NegotiateError, Offer, Outcome, Text, TlsPolicy},
    ticker::Ticker,
    wire::TransmissionFlags,
};
use crate::{
    channel::{Channel, Timed},
    export::Export,
    frontend::{Frontend, ServeError, Stopper},
    listener::{self, Clients, Listener, Peer, Socket},
    stop::Stop,
    tls::TlsServer,
};

/// How long a handshake may take.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(30);

/// Longer than a handshake normally takes. A client that needs longer may have to make room for a
/// new one.
const SLOW_HANDSHAKE: Duration = Duration::from_secs(1);

/// How long clients have in all, when the server stops, to receive the replies to their requests.
/// The time that the disk needs does not count.
const REPLY_LIMIT: Duration = Duration::from_secs(10);

/// How often the server checks for clients that have run out of time.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The options of a [`Server`].
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
    export: Arc<Export>,
    options: ServerOptions,
    listeners: Arc<[Listener]>,
    stop: Stop,
    ticker: Arc<Ticker>,
    clients: Mutex<ClientTable>,
    /// Signalled when a client has left.
    left: Condvar,
}

#[derive(Default)]
struct ClientTable {
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
    Handshaking(Arc<dyn Channel>, Instant),
    /// Past its handshake.
    Served(Arc<Connection>, Peer),
    /// Disconnected during its handshake to make room. Its thread is ending.
    Leaving,
}

impl ClientTable {
    /// Disconnects the client that has been longest in its handshake, if that is longer than
    /// [`SLOW_HANDSHAKE`]: it may never complete. Returns `false` if there is none.
    fn make_room(&mut self) -> bool {
        let long = self.present.values_mut().filter_map(|client| match client {
            Client::Handshaking(_, since) if since.elapsed() >= SLOW_HANDSHAKE => {
                Some((*since, client))
            }
            _ => None,
        });
        let Some((_, oldest)) = long.min_by_key(|(since, _)| *since) else {
            return false;
        };
        if let Client::Handshaking(channel, _) = mem::replace(oldest, Client::Leaving) {
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
    /// Makes a server of `export` for the clients of `listeners`. Requests of `stop` stop it.
    #[must_use]
    pub fn new(
        export: Arc<Export>,
        options: ServerOptions,
        listeners: impl Into<Arc<[Listener]>>,
        stop: Stop,
    ) -> Self {
        Self {
            export,
            options,
            listeners: listeners.into(),
            stop,
            ticker: Arc::default(),
            clients: Mutex::default(),
            left: Condvar::new(),
        }
    }

    /// Starts a thread for a client.
    fn start_client(
        self: &Arc<Self>,
        channel: Arc<dyn Channel>,
        peer: Peer,
        tls: Option<TlsServer>,
    ) {
        let max = match self.options.max_clients {
            0 => 1024,
            max => max,
        };
        let mut clients = self.lock();
        if !clients.has_room(max) {
            peer.log_refusal(&format!("{max} clients are connected already"));
            return;
        }
        let id = clients.next;
        clients.next += 1;
        clients.present.insert(
            id,
            Client::Handshaking(Arc::clone(&channel), Instant::now()),
        );
        drop(clients);
        let server = Arc::clone(self);
        let thread = thread::Builder::new()
            .name("nbd client".into())
            .spawn(move || {
                let _remove = RemoveClient {
                    server: &server,
                    id,
                };
                server.serve_client(id, peer, channel, tls.as_ref());
            });
        let mut clients = self.lock();
        match thread {
            Ok(thread) => {
                clients.threads.retain(|thread| !thread.is_finished());
                clients.threads.push(thread);
            }
            Err(error) => {
                peer.log_refusal(&error.to_string());
                clients.present.remove(&id);
            }
        }
    }

    /// Makes the handshake and serves the client.
    fn serve_client(
        &self,
        id: u64,
        peer: Peer,
        channel: Arc<dyn Channel>,
        tls: Option<&TlsServer>,
    ) {
        debug!(%peer, "client accepted");
        let begun = Instant::now();
        let negotiated = self.handshake(channel, tls, begun + HANDSHAKE_LIMIT);
        match self.admit(id, peer, negotiated) {
            Ok((connection, identity)) => {
                let _counted = self.export.stats().count_client();
                info!(%peer, tls = tls.is_some(), identity, "client connected");
                connection.serve();
                log_end(peer, begun, &connection);
            }
            Err(NotServed::Left) => info!(%peer, "client left without using the export"),
            Err(NotServed::Stopped) => debug!(%peer, "client disconnected: the server stops"),
            Err(NotServed::Refused(reason)) => peer.log_refusal(&reason),
        }
    }

    /// Makes a connection after the handshake, if there is still room for it.
    fn admit(
        &self,
        id: u64,
        peer: Peer,
        negotiated: Result<Option<NegotiatedClient>, NegotiateError>,
    ) -> Result<(Arc<Connection>, Option<String>), NotServed> {
        let mut clients = self.lock();
        if clients.closed {
            return Err(NotServed::Stopped);
        }
        if matches!(clients.present.get(&id), Some(Client::Leaving)) {
            let reason = "its handshake took too long, and another client needed room";
            return Err(NotServed::Refused(reason.to_owned()));
        }
        let negotiated = negotiated.map_err(|error| match error {
            NegotiateError::Io(error) if is_gone(&error) => NotServed::Left,
            error => NotServed::Refused(error.to_string()),
        })?;
        let (channel, agreed, identity) = negotiated.ok_or(NotServed::Left)?;
        let connection = Connection::new(
            channel,
            peer,
            agreed,
            Arc::clone(&self.export),
            Arc::clone(&self.ticker),
        );
        clients.any = true;
        let client = Client::Served(Arc::clone(&connection), peer);
        clients.present.insert(id, client);
        Ok((connection, identity))
    }

    fn handshake(
        &self,
        channel: Arc<dyn Channel>,
        tls: Option<&TlsServer>,
        until: Instant,
    ) -> Result<Option<NegotiatedClient>, NegotiateError> {
        let disk = self.export.disk();
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

    fn call_if_stuck(&self) {
        let clients = self.lock();
        for client in clients.present.values() {
            if let Client::Served(connection, _) = client {
                connection.call_if_stuck();
            }
        }
    }

    /// Disconnects all clients when the server stops.
    fn disconnect_all(&self) {
        let mut clients = self.lock();
        clients.closed = true;
        for client in clients.present.values() {
            match client {
                Client::Handshaking(channel, _) => channel.shutdown(),
                Client::Served(connection, _) => connection.stop(),
                Client::Leaving => {}
            }
        }
        let mut given_up = HashSet::new();
        while !clients.present.is_empty() {
            for (id, client) in &clients.present {
                if let Client::Served(connection, peer) = client
                    && connection.waits_for_client(REPLY_LIMIT)
                    && given_up.insert(*id)
                {
                    warn!(%peer, "client does not receive its replies, and is disconnected");
                    connection.shutdown();
                }
            }
            let waited = self.left.wait_timeout(clients, CHECK_INTERVAL);
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

    fn lock(&self) -> MutexGuard<'_, ClientTable> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Frontend for Server {
    fn stopper(&self) -> Stopper {
        let stop = self.stop.clone();
        Box::new(move || {
            stop.request();
            Ok(())
        })
    }

    /// Serves until the stop is requested or, with [`ServerOptions::exit_on_idle`], the last client has
    /// left. Pending requests that can be started within a second are then completed and answered.
    fn run(self: Box<Self>) -> Result<(), ServeError> {
        let server = Arc::<Self>::from(self);
        let ticking = Arc::clone(&server);
        let watch = thread::Builder::new()
            .name("nbd watch".into())
            .spawn(move || ticking.ticker.run(|| ticking.call_if_stuck()))
            .map_err(|source| ServeError::Thread { source })?;
        let accepted = listener::accept(&server.listeners, &server.stop, &server);
        server.disconnect_all();
        server.ticker.end();
        // This thread panics only if code that it calls panics. That panic has already been
        // printed.
        let _ = watch.join();
        server.export.flush_after(accepted)
    }
}

impl Clients for Arc<Server> {
    fn is_done(&self) -> bool {
        let clients = self.lock();
        self.options.exit_on_idle && clients.any && clients.present.is_empty()
    }

    fn add(&self, socket: Socket, peer: Peer) {
        match socket {
            Socket::Unix(socket) => self.start_client(Arc::new(socket), peer, None),
            Socket::Tcp(socket) => {
                self.start_client(Arc::new(socket), peer, self.options.tls.clone());
            }
        }
    }

    fn make_room(&self) {
        self.lock().make_room();
    }
}

/// The channel of a client that chose the export, what was agreed with it, and the name of its
/// pre-shared key.
type NegotiatedClient = (Arc<dyn Channel>, Agreed, Option<String>);

/// Removes a client when it leaves, for whatever reason.
struct RemoveClient<'a> {
    server: &'a Server,
    id: u64,
}

impl Drop for RemoveClient<'_> {
    fn drop(&mut self) {
        let mut clients = self.server.lock();
        clients.present.remove(&self.id);
        let idle = clients.present.is_empty();
        let is_served = |client: &Client| matches!(client, Client::Served(..));
        let served = clients.present.values().any(is_served);
        drop(clients);
        if !served {
            // The next client may come days later, and the buffers contain plaintext.
            self.server.export.buffers().clear();
        }
        self.server.left.notify_all();
        if idle && self.server.options.exit_on_idle {
            self.server.stop.wake();
        }
    }
}

/// Why a client is not served.
enum NotServed {
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

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("listeners", &self.listeners)
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

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
        let export = Export::new(Arc::new(disk));
        let stop = Stop::new().unwrap();
        let server = Server::new(export, ServerOptions::default(), Vec::new(), stop);
        let buffers = server.export.buffers();
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
            let (export, ticker) = (Arc::clone(&server.export), Arc::clone(&server.ticker));
            let connection = Connection::new(channel(), peer, agreed, export, ticker);
            let client = Client::Served(connection, peer);
            server.lock().present.insert(id, client);
        }
        // This client may still need half a minute for its handshake.
        let new = Client::Handshaking(channel(), Instant::now());
        server.lock().present.insert(2, new);
        for (id, expected) in [(0, 7), (1, 0)] {
            drop(RemoveClient {
                server: &server,
                id,
            });
            let buffer = buffers.take(1).unwrap();
            assert_eq!(buffer[0], expected, "client {id} has left");
            buffers.give_back(buffer);
        }
    }
}
