// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mutual TLS: the server accepts a client with a certificate from its certification authority, and
//! shows its own certificate. Or both sides have a key before they connect.
//!
//! The receiving and the sending thread share the connection's state only while they encrypt or
//! decrypt bytes, never while they wait for the other end:
//!
//! ```text
//! receive: incoming { socket.recv, state { decrypt } }
//! send:    outgoing { state { encrypt }, socket.send }
//! ```
//!
//! Records leave in the order of their encryption, because `outgoing` stays locked from encrypting
//! to sending. The lock order is incoming, outgoing, state.

mod pem;
mod psk;
mod session;

use std::{
    io::{self, IoSlice},
    mem,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use luxor_files::path_name;
use luxor_secret::SecretBytes;
use luxor_tls_psk::{PskError, PskServer};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
    },
    server::{NoServerSessionStorage, WebPkiClientVerifier},
    version::{TLS12, TLS13},
};
use thiserror::Error;

use self::{
    pem::PemError,
    psk::{LineError, PreSharedKeys},
    session::Session,
};
use crate::channel::{Channel, Timed, send_all};

/// The configuration of a server for mutual TLS, for any number of connections. A client must show a
/// certificate that one of the authorities has signed, or have one of the pre-shared keys.
#[derive(Clone, Debug)]
pub struct TlsServer {
    config: Config,
}

#[derive(Clone, Debug)]
enum Config {
    /// TLS 1.3 or 1.2, by rustls.
    Certificates(Arc<ServerConfig>),
    /// TLS 1.3, by OpenSSL: rustls has no pre-shared keys.
    PreShared(Arc<PskServer>),
}

/// Why a server's TLS configuration is invalid.
#[non_exhaustive]
#[derive(Debug, Error)]
pub enum TlsConfigError {
    /// A file could not be read.
    #[error("cannot read {}: {source}", path_name(path))]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file does not contain the expected object.
    #[error("{} has no {what} in PEM format: {reason}", path_name(path))]
    Pem {
        /// The path of the file.
        path: PathBuf,
        /// The expected object.
        what: &'static str,
        /// What is wrong with the contents.
        reason: String,
    },
    /// The key is encrypted with a passphrase, and the server asks for none.
    #[error(
        "{}: the key is encrypted: give a key without a passphrase",
        path_name(path)
    )]
    Encrypted {
        /// The path of the key file.
        path: PathBuf,
    },
    /// A file contains a certificate that cannot be used to verify clients.
    #[error(
        "the certificate in {} cannot verify clients: {reason}",
        path_name(path)
    )]
    Authority {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The certificate and the key do not match, or cannot be used for TLS.
    #[error(
        "the certificate in {} cannot be used with the key in {}: {reason}",
        path_name(certificate),
        path_name(key)
    )]
    KeyPair {
        /// The path of the certificate.
        certificate: PathBuf,
        /// The path of the key.
        key: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A line of the file of pre-shared keys is wrong.
    #[error("line {line} of {} is not NAME:KEY: {reason}", path_name(path))]
    PreSharedLine {
        /// The path of the file.
        path: PathBuf,
        /// The number of the line, from 1 on.
        line: usize,
        /// What is wrong with it. Contains nothing of the key.
        reason: String,
    },
    /// The file of pre-shared keys has no key.
    #[error(
        "{} has no pre-shared key: psktool -u NAME -p FILE makes one",
        path_name(path)
    )]
    NoPreSharedKey {
        /// The path of the file.
        path: PathBuf,
    },
    /// The library for pre-shared keys cannot be used.
    #[error("TLS with pre-shared keys: {source}")]
    PreShared {
        /// The reason.
        source: PskError,
    },
}

impl TlsServer {
    /// Loads PEM files (RFC 7468): the server's certificate, followed by any intermediate ones; its
    /// key, without a passphrase, in PKCS #8, PKCS #1 or SEC 1 form; and the authorities that sign
    /// the clients' certificates.
    ///
    /// # Errors
    /// Returns [`TlsConfigError`], which names the file and what is wrong with it.
    pub fn from_pem_files(
        certificate: &Path,
        key: &Path,
        authorities: &Path,
    ) -> Result<Self, TlsConfigError> {
        let chain = certificates(certificate)?;
        let private_key = private_key(key)?;
        let mut roots = RootCertStore::empty();
        for authority in certificates(authorities)? {
            roots
                .add(authority)
                .map_err(|error| TlsConfigError::Authority {
                    path: authorities.to_owned(),
                    reason: error.to_string(),
                })?;
        }

        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .map_err(|error| TlsConfigError::Authority {
                    path: authorities.to_owned(),
                    reason: error.to_string(),
                })?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])
            .and_then(|config| {
                let config = config.with_client_cert_verifier(verifier);
                config.with_single_cert(chain, private_key)
            })
            .map_err(|error| TlsConfigError::KeyPair {
                certificate: certificate.to_owned(),
                key: key.to_owned(),
                reason: error.to_string(),
            })?;
        // Connections are few and long, so sessions are not resumed: each client shows its
        // certificate.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            config: Config::Certificates(Arc::new(config)),
        })
    }

    /// Loads the pre-shared keys of clients from a file with lines `NAME:KEY`, as `psktool`
    /// writes it. Needs OpenSSL 3, which is loaded now. An unknown name is refused as a wrong key is.
    ///
    /// # Errors
    /// Returns [`TlsConfigError`], which names the file and what is wrong with it.
    pub fn from_psk_file(path: &Path) -> Result<Self, TlsConfigError> {
        let keys = PreSharedKeys::parse(read(path)?.expose());
        let keys =
            keys.map_err(
                |(line, reason): (usize, LineError)| TlsConfigError::PreSharedLine {
                    path: path.to_owned(),
                    line,
                    reason: reason.to_string(),
                },
            )?;
        if keys.is_empty() {
            let path = path.to_owned();
            return Err(TlsConfigError::NoPreSharedKey { path });
        }
        let server = PskServer::new(Arc::new(keys));
        let server = server.map_err(|source| TlsConfigError::PreShared { source })?;
        Ok(Self {
            config: Config::PreShared(Arc::new(server)),
        })
    }

    /// Makes a TLS handshake with a client on `socket`. The handshake ends by `until`, whether it
    /// succeeds or not.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`]; [`io::ErrorKind::InvalidData`] if the client does not speak TLS
    /// or has no valid certificate or key; otherwise those of `socket`. `socket` can then only be shut
    /// down.
    pub fn accept(&self, socket: Arc<dyn Channel>, until: Instant) -> io::Result<TlsChannel> {
        match &self.config {
            Config::Certificates(config) => {
                let state = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
                TlsChannel::handshake(rustls::Connection::from(state), socket, until)
            }
            Config::PreShared(server) => {
                let state = server.session().map_err(io::Error::other)?;
                TlsChannel::handshake(state, socket, until)
            }
        }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    // The file may also contain a key, so its text is read as a secret.
    let text = read(path)?;
    let found: Result<Vec<_>, _> = pem::sections(text.expose(), &["CERTIFICATE"])
        .map(|found| found.map(|(_, der)| CertificateDer::from(der.to_vec())))
        .collect();
    let what = "certificate";
    match found {
        Ok(found) if found.is_empty() => Err(pem_error(path, what, PemError::NoItems)),
        found => found.map_err(|error| pem_error(path, what, error)),
    }
}

/// The text of the file is wiped afterwards. rustls makes its own copies of the key.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsConfigError> {
    let text = read(path)?;
    let text = text.expose();
    let labels = ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"];
    let first = pem::sections(text, &labels).next();
    let found = first.unwrap_or(Err(PemError::NoItems));
    let (label, mut der) = found.map_err(|error| {
        // PKCS #8 (RFC 7468, 11) and OpenSSL's older format.
        let is_encrypted = ["BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED"]
            .iter()
            .any(|mark| {
                text.windows(mark.len())
                    .any(|words| words == mark.as_bytes())
            });
        if is_encrypted {
            TlsConfigError::Encrypted {
                path: path.to_owned(),
            }
        } else {
            pem_error(path, "private key", error)
        }
    })?;
    // Moves the bytes, so that no copy of the key stays behind.
    let der = mem::take(&mut *der);
    Ok(match label {
        0 => PrivatePkcs8KeyDer::from(der).into(),
        1 => PrivatePkcs1KeyDer::from(der).into(),
        _ => PrivateSec1KeyDer::from(der).into(),
    })
}

fn read(path: &Path) -> Result<SecretBytes, TlsConfigError> {
    pem::read(path).map_err(|source| TlsConfigError::Read {
        path: path.to_owned(),
        source,
    })
}

fn pem_error(path: &Path, what: &'static str, error: PemError) -> TlsConfigError {
    TlsConfigError::Pem {
        path: path.to_owned(),
        what,
        reason: error.to_string(),
    }
}

/// A [`Channel`] inside TLS.
///
/// If the other end closes the connection without a TLS close notification, [`Channel::recv`] fails
/// with [`io::ErrorKind::UnexpectedEof`].
pub struct TlsChannel {
    socket: Arc<dyn Channel>,
    /// Bytes that were received and are not yet decrypted.
    incoming: Mutex<Incoming>,
    /// Bytes that were encrypted and are not yet sent. Empty whenever the lock is free.
    outgoing: Mutex<Vec<u8>>,
    state: Mutex<Box<dyn Session>>,
    identity: Option<String>,
    /// Set by `stop_receiving`: the end of the received bytes is then not an error.
    stopped: AtomicBool,
}

struct Incoming {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

/// The most bytes received at once: enough for several records of maximum length.
const INCOMING: usize = 64 << 10;

impl TlsChannel {
    fn handshake(
        mut state: impl Session + 'static,
        socket: Arc<dyn Channel>,
        until: Instant,
    ) -> io::Result<Self> {
        state.handshake(&mut Timed::new(&*socket, until))?;
        Ok(Self {
            identity: state.identity(),
            socket,
            incoming: Mutex::new(Incoming {
                bytes: vec![0; INCOMING].into(),
                start: 0,
                end: 0,
            }),
            outgoing: Mutex::default(),
            state: Mutex::new(Box::new(state)),
            stopped: AtomicBool::new(false),
        })
    }

    /// Returns the name of the client's pre-shared key, if it has one.
    #[must_use]
    pub fn identity(&self) -> Option<&str> {
        self.identity.as_deref()
    }

    /// Decrypts the received bytes and returns how many bytes of `buf` it filled, or
    /// [`io::ErrorKind::WouldBlock`] if there is no complete record. Also returns whether TLS has
    /// something to send, such as an alert.
    fn decrypt(&self, incoming: &mut Incoming, buf: &mut [u8]) -> (io::Result<usize>, bool) {
        let mut state = lock(&self.state);
        let mut done = 0;
        let mut failure = None;
        let result = loop {
            match state.read(&mut buf[done..]) {
                Ok(0) => break Ok(done),
                Ok(len) => done += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => failure = Some(error),
            }
            if done == buf.len() {
                break Ok(done);
            }
            // Bytes decrypted before a failure are returned first. The failure recurs at the next
            // call.
            if let Some(error) = failure {
                break if done > 0 { Ok(done) } else { Err(error) };
            }
            let rest = &incoming.bytes[incoming.start..incoming.end];
            let is_all = rest.is_empty();
            match state.feed(rest) {
                Ok(len) => incoming.start += len,
                Err(error) => failure = Some(error),
            }
            if is_all && failure.is_none() {
                break match done {
                    0 => Err(io::ErrorKind::WouldBlock.into()),
                    _ => Ok(done),
                };
            }
        };
        (result, state.wants_write())
    }

    /// Sends what TLS itself needs to send.
    fn flush(&self) -> io::Result<()> {
        let mut outgoing = lock(&self.outgoing);
        lock(&self.state).take(&mut outgoing)?;
        self.send_encrypted(&mut outgoing)
    }

    fn send_encrypted(&self, outgoing: &mut Vec<u8>) -> io::Result<()> {
        let result = self.socket.send(&[IoSlice::new(outgoing)]);
        outgoing.clear();
        if result.is_err() {
            // After a part of a record nothing else can be sent.
            self.socket.shutdown();
        }
        result
    }
}

impl Channel for TlsChannel {
    fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        let mut incoming = lock(&self.incoming);
        loop {
            let (result, wants_write) = self.decrypt(&mut incoming, buf);
            if wants_write {
                let sent = self.flush();
                // The reason for an alert is a more useful error than a failure to send it.
                if result.is_ok() {
                    sent?;
                }
            }
            match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            incoming.start = 0;
            incoming.end = 0;
            incoming.end = self.socket.recv(&mut incoming.bytes)?;
            if incoming.end == 0 {
                if self.stopped.load(Ordering::Relaxed) {
                    return Ok(0);
                }
                // TLS learns that no bytes follow, and reports how the connection ended.
                lock(&self.state).end()?;
            }
        }
    }

    fn send(&self, bufs: &[IoSlice<'_>]) -> io::Result<()> {
        let mut outgoing = lock(&self.outgoing);
        send_all(bufs, |bufs| {
            let mut state = lock(&self.state);
            let len = state.write(bufs)?;
            state.take(&mut outgoing)?;
            drop(state);
            self.send_encrypted(&mut outgoing)?;
            Ok(len)
        })
    }

    fn shutdown(&self) {
        // The thread that holds the lock may be waiting for the other end. Then no close
        // notification is sent.
        let outgoing = match self.outgoing.try_lock() {
            Ok(outgoing) => Some(outgoing),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(mut outgoing) = outgoing {
            let mut state = lock(&self.state);
            state.close();
            let taken = state.take(&mut outgoing);
            drop(state);
            if taken.is_ok() && self.socket.set_timeout(Some(LAST_WORD)).is_ok() {
                // The other end may have closed the connection.
                let _ = self.send_encrypted(&mut outgoing);
            }
        }
        self.socket.shutdown();
    }

    fn stop_receiving(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.socket.stop_receiving();
    }

    fn set_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.socket.set_timeout(limit)
    }
}

/// Enough time to send a few bytes if the socket has room for them.
const LAST_WORD: Duration = Duration::from_millis(1);

/// After a panic the value is still consistent, because no code here panics between two changes.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
