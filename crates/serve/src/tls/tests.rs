// SPDX-License-Identifier: MIT OR Apache-2.0
use std::{
    any::Any,
    collections::HashMap,
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::OnceLock,
    thread::{self, JoinHandle},
};

use rustls::{
    ClientConfig, ClientConnection, StreamOwned, SupportedProtocolVersion,
    pki_types::{ServerName, pem::PemObject},
};
use tempfile::TempDir;

use super::*;

#[path = "../../tests/nbd/certificates.rs"]
mod certificates;

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
/// A limit in case something hangs.
const LONG: Duration = Duration::from_secs(100);

/// The test's PEM files by name, made once.
fn pem() -> &'static HashMap<&'static str, Vec<u8>> {
    static FILES: OnceLock<HashMap<&'static str, Vec<u8>>> = OnceLock::new();
    FILES.get_or_init(|| {
        let dir = TempDir::new().expect("a folder");
        certificates::make(dir.path());
        let names = [
            "authority.pem",
            "server.pem",
            "server.key",
            "client.pem",
            "client.key",
            "stranger.pem",
            "strange.pem",
            "strange.key",
        ];
        let read = |name| fs::read(dir.path().join(name)).expect("it was made");
        names.map(|name| (name, read(name))).into()
    })
}

/// Writes the files of a server.
fn files(certificate: &[u8], key: &[u8], authorities: &[u8]) -> TempDir {
    let dir = TempDir::new().expect("a folder");
    fs::write(dir.path().join("certificate"), certificate).expect("a file");
    fs::write(dir.path().join("key"), key).expect("a file");
    fs::write(dir.path().join("authorities"), authorities).expect("a file");
    dir
}

fn load(dir: &TempDir) -> Result<TlsServer, TlsConfigError> {
    let path = |name| dir.path().join(name);
    TlsServer::from_pem_files(&path("certificate"), &path("key"), &path("authorities"))
}

fn server() -> TlsServer {
    let pem = pem();
    let dir = files(
        &pem["server.pem"],
        &pem["server.key"],
        &pem["authority.pem"],
    );
    load(&dir).expect("all is there")
}

fn client(
    version: &'static SupportedProtocolVersion,
    identity: Option<(&str, &str)>,
    authority: &str,
) -> ClientConnection {
    let certificate = |name: &str| {
        CertificateDer::from_pem_slice(&pem()[format!("{name}.pem").as_str()]).expect("valid PEM")
    };
    let mut roots = RootCertStore::empty();
    roots
        .add(certificate(authority))
        .expect("a valid authority");
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_root_certificates(roots);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some((name, key)) => {
            let key = PrivateKeyDer::from_pem_slice(&pem()[format!("{key}.key").as_str()]);
            builder
                .with_client_auth_cert(vec![certificate(name)], key.expect("valid PEM"))
                .expect("the key matches")
        }
    };
    let name = ServerName::try_from("disk.test").expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("a connection")
}

fn good_client(version: &'static SupportedProtocolVersion) -> ClientConnection {
    client(version, Some(("client", "client")), "authority")
}

fn accept(socket: UnixStream) -> JoinHandle<io::Result<TlsChannel>> {
    let server = server();
    thread::spawn(move || server.accept(Arc::new(socket), Instant::now() + LONG))
}

fn sockets() -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    theirs.set_read_timeout(Some(LONG)).expect("a time limit");
    (ours, theirs)
}

/// Returns both ends as channels.
fn pair(version: &'static SupportedProtocolVersion) -> (TlsChannel, TlsChannel) {
    let (ours, theirs) = sockets();
    let ours = accept(ours);
    let until = Instant::now() + LONG;
    let theirs = TlsChannel::handshake(
        rustls::Connection::from(good_client(version)),
        Arc::new(theirs),
        until,
    );
    let theirs = theirs.expect("the server is accepted");
    (
        ours.join()
            .expect("no panic")
            .expect("the client is accepted"),
        theirs,
    )
}

/// Returns the other end as rustls's own stream.
fn stream(
    version: &'static SupportedProtocolVersion,
) -> (TlsChannel, StreamOwned<ClientConnection, UnixStream>) {
    let (ours, mut theirs) = sockets();
    let ours = accept(ours);
    let mut client = good_client(version);
    client.complete_io(&mut theirs).expect("a handshake");
    let ours = ours
        .join()
        .expect("no panic")
        .expect("the client is accepted");
    (ours, StreamOwned::new(client, theirs))
}

fn receive(channel: &TlsChannel, len: usize) -> Vec<u8> {
    let mut all = vec![0; len];
    let mut done = 0;
    while done < len {
        let end = len.min(done + 40_000);
        let received = channel.recv(&mut all[done..end]).expect("bytes");
        assert!(received > 0, "the end after {done} of {len} bytes");
        done += received;
    }
    all
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    let byte = |at: usize| (at >> 8).to_le_bytes()[0] ^ at.to_le_bytes()[0] ^ seed;
    (0..len).map(byte).collect()
}

/// The other end uses another implementation of TLS streams.
#[test]
fn bytes_of_any_length_pass_in_both_versions() {
    for version in VERSIONS {
        let (ours, mut theirs) = stream(version);
        for len in [1, 28, 16_383, 16_384, 16_385, 65_536, 65_537, 200_000] {
            let bytes = pattern(len, 1);
            let sender = thread::scope(|scope| {
                let sender = scope.spawn(|| {
                    let (head, tail) = bytes.split_at(len.min(28));
                    ours.send(&[IoSlice::new(head), IoSlice::new(&[]), IoSlice::new(tail)])
                });
                let mut found = vec![0; len];
                theirs.read_exact(&mut found).expect("bytes");
                assert!(found == bytes, "{len} bytes");
                sender.join().expect("no panic")
            });
            sender.expect("sent");
            thread::scope(|scope| {
                let receiver = scope.spawn(|| receive(&ours, len));
                theirs.write_all(&bytes).expect("sent");
                assert!(receiver.join().expect("no panic") == bytes, "{len} bytes");
            });
        }
    }
}

#[test]
fn available_bytes_are_received_at_once() {
    let (ours, mut theirs) = stream(&TLS13);
    for _ in 0..10 {
        theirs.write_all(&[7; 28]).expect("sent");
    }
    let mut buf = [0; 4096];
    // All records have arrived in the socket by now.
    assert_eq!(ours.recv(&mut buf).expect("bytes"), 280);
    theirs.write_all(&pattern(10_000, 0)).expect("sent");
    assert_eq!(ours.recv(&mut buf[..3]).expect("bytes"), 3);
    let rest = receive(&ours, 9_997);
    assert!(rest == pattern(10_000, 0)[3..]);
}

/// Both ends send and receive all the time, also while keys change.
#[test]
fn both_directions_are_busy_at_once() {
    const LEN: usize = 12 << 20;
    for version in VERSIONS {
        let (ours, theirs) = pair(version);
        let sends = |channel: &TlsChannel, seed| {
            let bytes = pattern(LEN, seed);
            for (i, part) in bytes.chunks(777_777).enumerate() {
                let (head, tail) = part.split_at(part.len().min(i * 1000 + 28));
                let bufs = [IoSlice::new(head), IoSlice::new(tail)];
                channel.send(&bufs).expect("sent");
                if version == &TLS13 {
                    let mut state = lock(&channel.state);
                    let state: &mut dyn Any = &mut **state;
                    let state: &mut rustls::Connection = state.downcast_mut().expect("rustls");
                    state.refresh_traffic_keys().expect("they change");
                }
            }
        };
        let receives = |channel: &TlsChannel, seed| {
            assert!(receive(channel, LEN) == pattern(LEN, seed));
        };
        thread::scope(|scope| {
            scope.spawn(|| sends(&ours, 1));
            scope.spawn(|| receives(&ours, 2));
            scope.spawn(|| sends(&theirs, 2));
            scope.spawn(|| receives(&theirs, 1));
        });
    }
}

#[test]
fn a_blocked_receiver_does_not_block_senders() {
    for version in VERSIONS {
        let (ours, theirs) = pair(version);
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..200 {
                    assert_eq!(receive(&ours, 1), [round]);
                }
            });
            for round in 0..200 {
                ours.send(&[IoSlice::new(&[round])]).expect("sent");
                assert_eq!(receive(&theirs, 1), [round]);
                theirs.send(&[IoSlice::new(&[round])]).expect("sent");
            }
        });
    }
}

#[test]
fn a_blocked_sender_does_not_block_receivers() {
    for version in VERSIONS {
        let (ours, theirs) = pair(version);
        let bytes = pattern(8 << 20, 3);
        thread::scope(|scope| {
            let sender = scope.spawn(|| ours.send(&[IoSlice::new(&bytes)]));
            // Sending has begun, but cannot complete.
            assert_eq!(receive(&theirs, 1), bytes[..1]);
            for round in 0..10 {
                theirs.send(&[IoSlice::new(&[round; 100])]).expect("sent");
                assert_eq!(receive(&ours, 100), [round; 100]);
            }
            assert!(!sender.is_finished());
            assert!(receive(&theirs, bytes.len() - 1) == bytes[1..]);
            sender.join().expect("no panic").expect("sent");
        });
    }
}

#[test]
fn both_ends_say_that_they_leave() {
    for version in VERSIONS {
        let (ours, mut theirs) = stream(version);
        ours.send(&[IoSlice::new(b"last")]).expect("sent");
        ours.shutdown();
        let mut all = Vec::new();
        // This fails if the end is not announced.
        theirs.read_to_end(&mut all).expect("an orderly end");
        assert_eq!(all, b"last");

        let (ours, mut theirs) = stream(version);
        theirs.write_all(b"last").expect("sent");
        theirs.conn.send_close_notify();
        theirs.flush().expect("sent");
        assert_eq!(receive(&ours, 4), b"last");
        for _ in 0..2 {
            assert_eq!(ours.recv(&mut [0; 8]).expect("the end"), 0);
        }
        // Only the receiving direction has ended.
        ours.send(&[IoSlice::new(b"bye")]).expect("sent");
    }
}

#[test]
fn an_end_that_is_not_announced_is_an_error() {
    for version in VERSIONS {
        let (ours, mut theirs) = stream(version);
        theirs.write_all(b"last").expect("sent");
        drop(theirs);
        assert_eq!(receive(&ours, 4), b"last");
        let error = ours
            .recv(&mut [0; 8])
            .expect_err("the connection was cut off");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn a_forged_record_ends_the_connection() {
    for version in VERSIONS {
        let (ours, mut theirs) = stream(version);
        theirs.write_all(b"good").expect("sent");
        let mut forged = vec![0x17, 3, 3, 0, 64];
        forged.extend([0x5a; 64]);
        theirs.sock.write_all(&forged).expect("sent");
        let mut buf = [0; 8];
        assert_eq!(ours.recv(&mut buf).expect("what came before"), 4);
        assert_eq!(&buf[..4], b"good");
        for _ in 0..2 {
            let error = ours.recv(&mut buf).expect_err("forged");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        let error = theirs.read(&mut [0; 8]).expect_err("an alert");
        assert!(error.to_string().contains("alert"), "{error}");
    }
}

#[test]
fn a_shutdown_ends_blocked_calls() {
    let (ours, theirs) = pair(&TLS13);
    let bytes = vec![0; 8 << 20];
    thread::scope(|scope| {
        let receiver = scope.spawn(|| ours.recv(&mut [0; 8]));
        let sender = scope.spawn(|| ours.send(&[IoSlice::new(&bytes)]));
        receive(&theirs, 1);
        ours.shutdown();
        assert!(sender.join().expect("no panic").is_err());
        // There was no room for a close notification of either end.
        assert!(receiver.join().expect("no panic").is_err());
    });
}

#[test]
fn bytes_from_before_a_stop_are_received_and_answered() {
    for version in VERSIONS {
        let (ours, mut theirs) = stream(version);
        theirs.write_all(b"early").expect("sent");
        ours.stop_receiving();
        assert_eq!(receive(&ours, 5), b"early");
        assert_eq!(ours.recv(&mut [0; 8]).expect("the end after the stop"), 0);
        ours.send(&[IoSlice::new(b"answer")]).expect("sent");
        ours.shutdown();
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).expect("an orderly end");
        assert_eq!(all, b"answer");
    }
}

#[test]
fn nothing_follows_half_a_record() {
    let (ours, _theirs) = pair(&TLS13);
    ours.set_timeout(Some(Duration::from_millis(20)))
        .expect("a time limit");
    let error = ours
        .send(&[IoSlice::new(&[0; 1 << 20])])
        .expect_err("no room");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    let error = ours
        .send(&[IoSlice::new(b"more")])
        .expect_err("it is shut down");
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

fn refusal(client: ClientConnection) -> io::Error {
    let (ours, mut theirs) = sockets();
    let ours = accept(ours);
    let mut client = client;
    // In TLS 1.3 the client learns of the refusal only with the first answer.
    if client.complete_io(&mut theirs).is_ok() {
        let mut stream = StreamOwned::new(client, theirs);
        assert!(stream.read(&mut [0; 8]).is_err(), "something was served");
    }
    ours.join()
        .expect("no panic")
        .err()
        .expect("the client is refused")
}

#[test]
fn only_clients_with_a_good_certificate_are_let_in() {
    for version in VERSIONS {
        let cases = [
            (None, "peer sent no certificates"),
            (Some(("strange", "strange")), "UnknownIssuer"),
            // A server's certificate is not valid for a client.
            (Some(("server", "server")), "certificate"),
        ];
        for (identity, expected) in cases {
            let error = refusal(client(version, identity, "authority"));
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
            assert!(error.to_string().contains(expected), "{error}");
        }
        let distrustful = client(version, Some(("client", "client")), "stranger");
        let error = refusal(distrustful);
        assert!(error.to_string().contains("alert"), "{error}");
    }
}

#[test]
fn a_client_without_tls_gets_an_alert() {
    let (ours, mut theirs) = sockets();
    let ours = accept(ours);
    theirs
        .write_all(b"IHAVEOPT\0\0\0\x07\0\0\0\0")
        .expect("sent");
    let error = ours.join().expect("no panic").err().expect("no TLS");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    let mut alert = Vec::new();
    theirs.read_to_end(&mut alert).expect("the end");
    assert_eq!(alert[..2], [0x15, 3]);
}

#[test]
fn a_handshake_has_a_time_limit() {
    let (ours, theirs) = sockets();
    let until = Instant::now() + Duration::from_millis(30);
    let result = server().accept(Arc::new(ours), until);
    let error = result.err().expect("the other end is silent");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    drop(theirs);

    let (ours, theirs) = sockets();
    drop(theirs);
    let result = server().accept(Arc::new(ours), Instant::now() + LONG);
    let error = result.err().expect("the other end is gone");
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

/// The NBD handshake inside TLS uses such a limit.
#[test]
fn time_limits_pass_through() {
    let (ours, mut theirs) = stream(&TLS13);
    let mut timed = Timed::new(&ours, Instant::now() + Duration::from_millis(30));
    let error = timed
        .read(&mut [0; 8])
        .expect_err("the other end is silent");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    drop(timed);
    theirs.write_all(b"late").expect("sent");
    assert_eq!(receive(&ours, 4), b"late");
}

#[test]
fn unusable_files_are_named() {
    let pem = pem();
    let (certificate, key) = (&pem["server.pem"], &pem["server.key"]);
    let authority = &pem["authority.pem"];
    let cut = &certificate[..certificate.len() / 2];
    let no_certificate =
        b"-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n".as_slice();
    type Case<'a> = (&'a [u8], &'a [u8], &'a [u8], &'a str);
    let cases: [Case<'_>; 9] = [
        (
            b"",
            key,
            authority,
            "certificate has no certificate in PEM format",
        ),
        (
            cut,
            key,
            authority,
            "certificate has no certificate in PEM format",
        ),
        (
            key,
            key,
            authority,
            "certificate has no certificate in PEM format",
        ),
        (
            certificate,
            b"key",
            authority,
            "key has no private key in PEM format",
        ),
        (
            certificate,
            certificate,
            authority,
            "key has no private key in PEM format",
        ),
        (
            certificate,
            key,
            b"\xff",
            "authorities has no certificate in PEM format",
        ),
        (
            certificate,
            key,
            no_certificate,
            "authorities cannot verify clients",
        ),
        (
            certificate,
            &pem["client.key"],
            authority,
            "certificate cannot be used with the key",
        ),
        (
            no_certificate,
            key,
            authority,
            "certificate cannot be used with the key",
        ),
    ];
    for (certificate, key, authorities, expected) in cases {
        let dir = files(certificate, key, authorities);
        let error = load(&dir).expect_err("invalid files").to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains(&*dir.path().to_string_lossy()), "{error}");
    }
    for encrypted in [
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\naGVsbG8=\n-----END ENCRYPTED PRIVATE KEY-----\n",
        "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n\
         aGVsbG8=\n-----END EC PRIVATE KEY-----\n",
    ] {
        let dir = files(certificate, encrypted.as_bytes(), authority);
        let error = load(&dir).expect_err("invalid files").to_string();
        assert!(error.contains("key is encrypted"), "{error}");
    }
    for name in ["certificate", "key", "authorities"] {
        let dir = files(certificate, key, authority);
        fs::remove_file(dir.path().join(name)).expect("it is there");
        let error = load(&dir).expect_err("a missing file");
        match error {
            TlsConfigError::Read { path, source } => {
                assert_eq!(path, dir.path().join(name));
                assert_eq!(source.kind(), io::ErrorKind::NotFound);
            }
            other => panic!("{other}"),
        }
    }
}

/// A name may be longer than a screen, and have sequences that a terminal obeys.
#[test]
fn errors_show_paths_in_plain_text() {
    let dir = TempDir::new().expect("a folder");
    let long = dir.path().join("x/".repeat(2000)).join("\u{1b}[2J");
    let evil = dir.path().join("a\u{1b}[2J\nb");
    fs::write(&evil, "nothing").expect("a file");
    for path in [&long, &evil] {
        let psk = TlsServer::from_psk_file(path).expect_err("no file of keys");
        let pem = TlsServer::from_pem_files(path, path, path).expect_err("no certificate");
        let pair = TlsConfigError::KeyPair {
            certificate: path.clone(),
            key: path.clone(),
            reason: "none".to_owned(),
        };
        for error in [psk, pem, pair] {
            let text = error.to_string();
            assert!(!text.contains(char::is_control), "{text:?}");
            assert!(text.chars().count() < 1200, "{}", text.len());
        }
    }
}
