// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mutual TLS: a client is let in by a certificate that our certification authority gave
//! it, and sees ours.
//!
//! Who receives and who sends share the connection's state only while bytes are encrypted
//! or decrypted, never while they wait for the other end:
//!
//! ```text
//! receive: incoming { socket.recv, state { decrypt } }
//! send:    outgoing { state { encrypt }, socket.send }
//! ```
//!
//! Records leave in the order of their encryption, since `outgoing` is held from the one
//! to the other. Locks are taken in the order incoming, outgoing, state.

mod pem;

use std::{
    io::{self, IoSlice, Read, Write},
    mem,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use luxor_engine::SecretBytes;
use rustls::{
    Connection, RootCertStore, ServerConfig, ServerConnection,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
    },
    server::{NoServerSessionStorage, WebPkiClientVerifier},
    version::{TLS12, TLS13},
};
use thiserror::Error;

use self::pem::PemError;
use crate::channel::{Channel, Timed, send_all};

/// What a server needs to speak TLS, for any number of connections.
#[derive(Clone, Debug)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
}

/// Why a server cannot speak TLS.
#[non_exhaustive]
#[derive(Debug, Error)]
pub enum TlsConfigError {
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{} has no {what} in PEM format: {reason}", path.display())]
    Pem {
        /// Which.
        path: PathBuf,
        /// What should be there.
        what: &'static str,
        /// What was found instead.
        reason: String,
    },
    /// The key is kept under a passphrase, which nobody is asked for.
    #[error("{}: the key is encrypted: give a key without a passphrase", path.display())]
    Encrypted {
        /// Where it is.
        path: PathBuf,
    },
    /// A file has a certificate that cannot vouch for others.
    #[error("the certificate in {} cannot verify clients: {reason}", path.display())]
    Authority {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The certificate and the key are not for each other, or of no use for TLS.
    #[error(
        "the certificate in {} cannot be used with the key in {}: {reason}",
        certificate.display(),
        key.display()
    )]
    KeyPair {
        /// Where the certificate is.
        certificate: PathBuf,
        /// Where the key is.
        key: PathBuf,
        /// Why.
        reason: String,
    },
}

impl TlsServer {
    /// From PEM files: our certificate, followed by those between it and the
    /// certification authority if there are any; its key; and the authorities of our
    /// clients' certificates.
    ///
    /// # Errors
    /// [`TlsConfigError`]: which file, and what is wrong with it.
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
        // Connections are few and long: each shows its certificate anew.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// Receives a client that begins TLS on `socket`, which is over by `until`, whatever
    /// comes of it.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`]; [`io::ErrorKind::InvalidData`] when the client speaks
    /// no TLS or has no certificate that is good here; else those of `socket`, which can
    /// only be shut down.
    pub fn accept(&self, socket: Arc<dyn Channel>, until: Instant) -> io::Result<TlsChannel> {
        let state = ServerConnection::new(Arc::clone(&self.config)).map_err(io::Error::other)?;
        TlsChannel::handshake(state.into(), socket, until)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    // There may be a key in the same file.
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

/// Nothing of the text is left. The copies of the key that rustls makes are its own.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsConfigError> {
    let text = read(path)?;
    let text = text.expose();
    let labels = ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"];
    let first = pem::sections(text, &labels).next();
    let found = first.unwrap_or(Err(PemError::NoItems));
    let (label, mut der) = found.map_err(|error| {
        // PKCS #8 (RFC 7468, 11), and OpenSSL's older form.
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
    // Not a copy.
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
/// When the other end leaves without having said so, [`Channel::recv`] fails with
/// [`io::ErrorKind::UnexpectedEof`].
pub struct TlsChannel {
    socket: Arc<dyn Channel>,
    /// Received and not decrypted.
    incoming: Mutex<Incoming>,
    /// Encrypted and not sent: empty whenever the lock is free.
    outgoing: Mutex<Vec<u8>>,
    state: Mutex<Connection>,
    /// The end of what is received is our doing.
    stopped: AtomicBool,
}

struct Incoming {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

/// What is received at once: some records of the greatest length.
const INCOMING: usize = 64 << 10;

impl TlsChannel {
    fn handshake(
        mut state: Connection,
        socket: Arc<dyn Channel>,
        until: Instant,
    ) -> io::Result<Self> {
        state.complete_io(&mut Timed::new(&*socket, until))?;
        Ok(Self {
            socket,
            incoming: Mutex::new(Incoming {
                bytes: vec![0; INCOMING].into(),
                start: 0,
                end: 0,
            }),
            outgoing: Mutex::default(),
            state: Mutex::new(state),
            stopped: AtomicBool::new(false),
        })
    }

    /// Decrypts what is there and gives how many bytes of `buf` it filled, or
    /// [`io::ErrorKind::WouldBlock`] where no record is whole; and whether TLS itself has
    /// something to send, as an alert.
    fn decrypt(&self, incoming: &mut Incoming, buf: &mut [u8]) -> (io::Result<usize>, bool) {
        let mut state = lock(&self.state);
        let mut done = 0;
        let mut failure = None;
        let result = loop {
            match state.reader().read(&mut buf[done..]) {
                Ok(0) => break Ok(done),
                Ok(len) => done += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => failure = Some(error),
            }
            if done == buf.len() {
                break Ok(done);
            }
            // What came before a failure is given first; it stays what it is.
            if let Some(error) = failure {
                break if done > 0 { Ok(done) } else { Err(error) };
            }
            let mut rest = &incoming.bytes[incoming.start..incoming.end];
            let is_all = rest.is_empty();
            if !is_all {
                match state.read_tls(&mut rest) {
                    // After the end nothing counts.
                    Ok(0) => incoming.start = incoming.end,
                    Ok(len) => incoming.start += len,
                    Err(error) => {
                        failure = Some(error);
                        continue;
                    }
                }
            }
            match state.process_new_packets() {
                Err(error) => failure = Some(io::Error::new(io::ErrorKind::InvalidData, error)),
                Ok(_) if !is_all => {}
                Ok(_) if done > 0 => break Ok(done),
                Ok(_) => break Err(io::ErrorKind::WouldBlock.into()),
            }
        };
        (result, state.wants_write())
    }

    /// Sends what TLS itself has to say.
    fn flush(&self) -> io::Result<()> {
        let mut outgoing = lock(&self.outgoing);
        take_encrypted(&mut lock(&self.state), &mut outgoing)?;
        self.send_encrypted(&mut outgoing)
    }

    fn send_encrypted(&self, outgoing: &mut Vec<u8>) -> io::Result<()> {
        let result = self.socket.send(&[IoSlice::new(outgoing)]);
        outgoing.clear();
        if result.is_err() {
            // Nothing that follows half a record makes sense.
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
                // Why there is an alert says more than that nobody took it.
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
                // TLS is told that nothing follows, and says what that means.
                lock(&self.state).read_tls(&mut io::empty())?;
            }
        }
    }

    fn send(&self, bufs: &[IoSlice<'_>]) -> io::Result<()> {
        let mut outgoing = lock(&self.outgoing);
        send_all(bufs, |bufs| {
            let mut state = lock(&self.state);
            // No more than fits the state's buffer: 64 KiB.
            let len = state.writer().write_vectored(bufs)?;
            take_encrypted(&mut state, &mut outgoing)?;
            drop(state);
            self.send_encrypted(&mut outgoing)?;
            Ok(len)
        })
    }

    fn shutdown(&self) {
        // Who holds the lock may be waiting for the other end, which then has to do
        // without a last word.
        let outgoing = match self.outgoing.try_lock() {
            Ok(outgoing) => Some(outgoing),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(mut outgoing) = outgoing {
            let mut state = lock(&self.state);
            state.send_close_notify();
            let taken = take_encrypted(&mut state, &mut outgoing);
            drop(state);
            if taken.is_ok() && self.socket.set_timeout(Some(LAST_WORD)).is_ok() {
                // The other end may be gone.
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

/// What a few bytes need where there is room for them.
const LAST_WORD: Duration = Duration::from_millis(1);

fn take_encrypted(state: &mut Connection, outgoing: &mut Vec<u8>) -> io::Result<()> {
    while state.wants_write() {
        state.write_tls(outgoing)?;
    }
    Ok(())
}

/// What a panicking thread left is whole: nothing here panics between two changes.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
