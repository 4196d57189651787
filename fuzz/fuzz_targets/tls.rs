// SPDX-License-Identifier: MIT OR Apache-2.0
//! What any client sends in TLS: without the key of a known certificate, or a pre-shared key, none
//! is accepted; what the server reads is what the client wrote, or the beginning of it, whatever
//! was changed on the way.

#![no_main]

#[path = "../../crates/serve/tests/nbd/certificates.rs"]
mod certificates;

use std::{
    fs,
    io::{self, ErrorKind, IoSlice, Read, Write},
    path::Path,
    sync::{Arc, LazyLock, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use libfuzzer_sys::{
    arbitrary::{self, Arbitrary},
    fuzz_target,
};
use luxor_serve::{Channel, TlsServer};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    version::{TLS12, TLS13},
};

#[derive(Arbitrary, Debug)]
struct Input {
    client: Client,
    /// Changes of what the client sends: how far after the last one, and the bits.
    changes: Vec<(u16, u8)>,
    /// How many bytes arrive at once.
    pieces: u16,
    message: Vec<u8>,
    closes: bool,
}

#[derive(Arbitrary, Debug)]
enum Client {
    Known { is_old: bool },
    Stranger,
    Nameless,
    Bytes(Vec<u8>),
    PreShared(Vec<u8>),
}

/// The configurations of both sides.
struct Parties {
    server: TlsServer,
    pre_shared: TlsServer,
    known: [Arc<ClientConfig>; 2],
    stranger: Arc<ClientConfig>,
    nameless: Arc<ClientConfig>,
}

static PARTIES: LazyLock<Parties> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    certificates::make(folder);
    let path = |name: &str| folder.join(name);
    let keys = "alice:000102030405060708090a0b0c0d0e0f\n";
    fs::write(path("keys"), keys).expect("a file");
    let [certificate, key, authority] = ["server.pem", "server.key", "authority.pem"].map(path);
    Parties {
        server: TlsServer::from_pem_files(&certificate, &key, &authority).expect("good files"),
        pre_shared: TlsServer::from_psk_file(&path("keys")).expect("a good file"),
        known: [false, true].map(|is_old| config(folder, Some("client"), is_old)),
        stranger: config(folder, Some("strange"), false),
        nameless: config(folder, None, false),
    }
});

fn config(folder: &Path, name: Option<&str>, is_old: bool) -> Arc<ClientConfig> {
    let certificate = |name: &str| {
        CertificateDer::from_pem_file(folder.join(name).with_extension("pem")).expect("PEM")
    };
    let mut roots = RootCertStore::empty();
    roots.add(certificate("authority")).expect("an authority");
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[if is_old { &TLS12 } else { &TLS13 }])
        .expect("a version")
        .with_root_certificates(roots);
    Arc::new(match name {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let key = folder.join(name).with_extension("key");
            let key = PrivateKeyDer::from_pem_file(key).expect("PEM");
            let chain = vec![certificate(name)];
            builder
                .with_client_auth_cert(chain, key)
                .expect("they match")
        }
    })
}

fuzz_target!(|input: Input| {
    let parties = &*PARTIES;
    let (config, bytes, server) = match &input.client {
        Client::Known { is_old } => (
            Some(&parties.known[usize::from(*is_old)]),
            None,
            &parties.server,
        ),
        Client::Stranger => (Some(&parties.stranger), None, &parties.server),
        Client::Nameless => (Some(&parties.nameless), None, &parties.server),
        Client::Bytes(bytes) => (None, Some(bytes), &parties.server),
        Client::PreShared(bytes) => (None, Some(bytes), &parties.pre_shared),
    };
    let name = "disk.test".try_into().expect("a name");
    let wire = Arc::new(Wire(Mutex::new(State {
        client: config
            .map(|config| ClientConnection::new(Arc::clone(config), name).expect("a connection")),
        sends: bytes.cloned().unwrap_or_default(),
        changes: input.changes.clone(),
        is_changed: false,
        piece: usize::from(input.pieces).max(1),
        message: (!input.message.is_empty()).then(|| input.message.clone()),
        closes: input.closes,
        calls: 0,
    })));
    let until = Instant::now() + Duration::from_secs(60);
    let channel = match server.accept(wire.clone(), until) {
        Ok(channel) => channel,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert_ne!(error.kind(), ErrorKind::TimedOut);
            let is_good = matches!(input.client, Client::Known { .. });
            assert!(!is_good || wire.state().is_changed, "{error}");
            return;
        }
    };
    assert!(
        matches!(input.client, Client::Known { .. }),
        "a stranger is accepted"
    );
    assert_eq!(channel.identity(), None);
    let mut got = Vec::new();
    let mut buf = vec![0; 1 + input.message.len() % 97];
    let end = loop {
        match channel.recv(&mut buf) {
            Ok(0) => break None,
            Ok(len) => got.extend_from_slice(&buf[..len]),
            Err(error) => break Some(error.kind()),
        }
    };
    assert!(input.message.starts_with(&got), "other bytes are read");
    if !wire.state().is_changed {
        assert!(got == input.message, "bytes are missing");
        let cut = (!input.closes).then_some(ErrorKind::UnexpectedEof);
        assert_eq!(end, cut);
    } else if end.is_none() {
        assert!(got == input.message && input.closes, "the end is invented");
    }
    channel.shutdown();
});

/// A client in place of a socket. It runs when the server waits for bytes.
struct Wire(Mutex<State>);

struct State {
    client: Option<ClientConnection>,
    sends: Vec<u8>,
    changes: Vec<(u16, u8)>,
    is_changed: bool,
    piece: usize,
    message: Option<Vec<u8>>,
    closes: bool,
    calls: u32,
}

impl Wire {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("not poisoned")
    }
}

impl State {
    /// Lets the client send what it has to say.
    fn run(&mut self) {
        let Some(client) = &mut self.client else {
            return;
        };
        // It may dislike what it got, and sends an alert then.
        let failed = client.process_new_packets().is_err();
        if !failed && !client.is_handshaking() {
            if let Some(message) = self.message.take() {
                client.writer().write_all(&message).expect("room");
            }
            if std::mem::take(&mut self.closes) {
                client.send_close_notify();
            }
        }
        let mut sends = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sends).expect("memory is written");
        }
        let mut at = 0;
        while let Some(&(distance, bits)) = self.changes.first() {
            let Some(byte) = sends.get_mut(at + usize::from(distance)) else {
                let passed = sends.len() - at;
                self.changes[0].0 -= u16::try_from(passed).expect("less than the distance");
                break;
            };
            *byte ^= bits;
            self.is_changed |= bits != 0;
            at += usize::from(distance);
            self.changes.remove(0);
        }
        self.sends.extend(sends);
    }
}

impl Channel for Wire {
    fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        assert!(buf.len() <= 64 << 10, "room for a lie");
        let mut state = self.state();
        state.calls += 1;
        assert!(state.calls < 1 << 20, "it reads for ever");
        if state.sends.is_empty() {
            state.run();
        }
        let len = buf.len().min(state.piece).min(state.sends.len());
        (&state.sends[..len]).read_exact(&mut buf[..len])?;
        state.sends.drain(..len);
        Ok(len)
    }

    fn send(&self, bufs: &[IoSlice<'_>]) -> io::Result<()> {
        if let Some(client) = &mut self.state().client {
            for mut buf in bufs.iter().map(|buf| &**buf) {
                while !buf.is_empty() && client.read_tls(&mut buf).is_ok_and(|len| len > 0) {
                    let _ = client.process_new_packets();
                }
            }
        }
        Ok(())
    }

    fn shutdown(&self) {}

    fn stop_receiving(&self) {}

    fn set_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
}
