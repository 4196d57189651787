// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests `luxor serve` with clients of other projects.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    mem,
    os::unix::{
        fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use nix::{
    fcntl::OFlag,
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::support::{FAST, Folder, Luxor, Outcome, bytes, luxor, tool};

#[path = "../../../serve/tests/nbd/certificates.rs"]
mod certificates;

/// Longer than anything takes, in case something hangs.
pub const FOR_EVER: Duration = Duration::from_secs(60);

/// A folder with a key, and a volume that contains `plain`.
pub fn prepared(plain: &[u8]) -> Folder {
    let folder = Folder::new();
    folder.write("key", b"correct horse");
    folder.write("plain", plain);
    luxor("encrypt --key-file key plain volume")
        .args(FAST)
        .current_dir(folder.path())
        .ok();
    folder
}

/// A server that listens.
pub struct Server {
    child: Child,
    /// The lines of its standard error, without its log.
    pub stderr: mpsc::Receiver<String>,
    /// What came before it listened, about a plain volume in something that has a signature.
    pub warnings: Vec<String>,
    pub uri: String,
}

impl Server {
    /// Starts `luxor serve --key-file key ARGUMENTS` and waits until it says that it listens.
    pub fn start(folder: &Folder, arguments: &str) -> Self {
        Self::spawn(serve(folder, arguments))
    }

    pub fn spawn(luxor: Luxor) -> Self {
        Self::from_child(luxor.spawn())
    }

    pub fn from_child(mut child: Child) -> Self {
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, stderr) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map(Result::unwrap) {
                // Lines of the log begin with the time.
                if !(line.starts_with("20") && line.as_bytes().get(4) == Some(&b'-')) {
                    let _ = sender.send(line);
                }
            }
        });
        let next = || stderr.recv_timeout(FOR_EVER).unwrap();
        let mut said = next();
        let mut warnings = Vec::new();
        while said.ends_with(", which writes to it can destroy") {
            warnings.push(mem::replace(&mut said, next()));
        }
        let (_, uri) = said.split_once(", at ").unwrap_or_else(|| {
            child.kill().unwrap();
            panic!("the server does not listen: {said}");
        });
        Self {
            child,
            stderr,
            warnings,
            uri: uri.to_owned(),
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Waits for its end. Returns the exit code, and what it printed after it began to listen.
    pub fn ended(self) -> (Option<i32>, String) {
        let code = ended(self.child).code;
        let said: Vec<String> = self.stderr.iter().collect();
        (code, said.join("\n"))
    }

    #[track_caller]
    pub fn stop(self) {
        self.signal(Signal::SIGTERM);
        assert_eq!(self.ended(), (Some(0), String::new()));
    }
}

/// Waits for a program's end, with a time limit.
pub fn ended(mut child: Child) -> Outcome {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > FOR_EVER {
            child.kill().unwrap();
            panic!("the program does not end");
        }
        thread::sleep(Duration::from_millis(2));
    }
    Outcome::new("serve".into(), child.wait_with_output().unwrap())
}

pub fn serve(folder: &Folder, arguments: &str) -> Luxor {
    luxor("serve --key-file key")
        .args(arguments.split_whitespace())
        .current_dir(folder.path())
}

/// Returns `luxor serve` for a refusal. If it serves instead, a time limit ends it.
fn refusal(folder: &Folder, arguments: &str) -> Luxor {
    Luxor::within(FOR_EVER)
        .args(["serve", "--key-file", "key"])
        .args(arguments.split_whitespace())
        .current_dir(folder.path())
}

/// Reads the whole export with another program.
pub fn read_all(uri: &str, folder: &Folder) -> Vec<u8> {
    let copy = folder.join("copy");
    tool("nbdcopy", [uri.as_ref(), copy.as_os_str()]);
    let bytes = fs::read(&copy).unwrap();
    fs::remove_file(copy).unwrap();
    bytes
}

fn qemu_io(arguments: &[&str], folder: &Folder) -> Outcome {
    let mut qemu = Command::new("qemu-io");
    qemu.args(arguments).current_dir(folder.path());
    let line = format!("{qemu:?}");
    Outcome::new(line, qemu.output().expect("qemu-io is needed"))
}

/// Returns the file in the volume, as `decrypt` writes it.
fn decrypted(folder: &Folder) -> Vec<u8> {
    luxor("decrypt --force --key-file key volume back")
        .current_dir(folder.path())
        .ok();
    fs::read(folder.join("back")).unwrap()
}

#[test]
fn clients_read_and_write_the_file_in_the_volume() {
    let mut plain = bytes((1 << 20) + 777, 1);
    let folder = prepared(&plain);
    let server = Server::start(&folder, "--socket socket volume");
    let size = tool("nbdinfo", ["--size", &server.uri]);
    assert_eq!(size.text().trim(), plain.len().to_string());
    assert!(read_all(&server.uri, &folder) == plain);

    // A range that neither begins nor ends at a sector boundary.
    let write = "write -P 0x5a 5000 100001";
    qemu_io(&["-f", "raw", "-c", write, &server.uri], &folder).assert_code(0);
    plain[5000..105_001].fill(0x5a);
    assert!(read_all(&server.uri, &folder) == plain);
    let new = bytes(plain.len(), 2);
    let source = folder.write("new", &new);
    tool("nbdcopy", [source.as_os_str(), server.uri.as_ref()]);
    server.stop();
    assert!(decrypted(&folder) == new);

    let server = Server::start(&folder, "--read-only --socket socket volume");
    assert!(read_all(&server.uri, &folder) == new);
    let written = qemu_io(&["-f", "raw", "-c", write, &server.uri], &folder);
    assert_ne!(written.code, Some(0), "{written:?}");
    server.stop();
    assert!(decrypted(&folder) == new);
}

#[test]
fn a_writing_server_is_exclusive_and_read_only_servers_are_not() {
    let folder = prepared(&bytes(5000, 1));
    let read = "--read-only --socket other volume";
    let write = "--socket other volume";

    let server = Server::start(&folder, "--socket socket volume");
    refusal(&folder, write).fails(5, "is locked");
    refusal(&folder, read).fails(5, "is locked");
    luxor("decrypt --key-file key volume back")
        .current_dir(folder.path())
        .fails(5, "is locked");
    let qemu = qemu_io(&["-r", "-f", "raw", "-c", "read 0 512", "volume"], &folder);
    assert!(qemu.stderr.contains(" lock"), "{qemu:?}");
    // The locks on the data do not cover the metadata.
    tool(
        "cryptsetup",
        ["luksDump".as_ref(), folder.join("volume").as_os_str()],
    );
    luxor("config --label name volume")
        .current_dir(folder.path())
        .ok();
    server.stop();

    let server = Server::start(&folder, "--read-only --socket socket volume");
    let other = Server::start(&folder, read);
    assert_eq!(
        read_all(&server.uri, &folder),
        read_all(&other.uri, &folder)
    );
    refusal(&folder, "--socket third volume").fails(5, "is locked");
    qemu_io(&["-r", "-f", "raw", "-c", "read 0 512", "volume"], &folder).assert_code(0);
    let qemu = qemu_io(&["-f", "raw", "-c", "read 0 512", "volume"], &folder);
    assert!(qemu.stderr.contains(" lock"), "{qemu:?}");
    server.stop();
    other.stop();
    assert!(!folder.join("third").exists());

    // The reverse case: qemu-io has the file.
    for (how, reading_is_refused) in [(&["-r"][..], false), (&[], true)] {
        let mut qemu = Command::new("stdbuf")
            .args(["-oL", "qemu-io"])
            .args(how)
            .args(["-f", "raw", "-c", "length", "-c", "sleep 60000", "volume"])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // When qemu-io has printed the length, it has the file open.
        let mut line = String::new();
        let mut stdout = BufReader::new(qemu.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        refusal(&folder, write).fails(5, "is locked");
        if reading_is_refused {
            refusal(&folder, read).fails(5, "is locked");
        } else {
            Server::start(&folder, read).stop();
        }
        qemu.kill().unwrap();
        qemu.wait().unwrap();
    }
}

#[test]
fn a_socket_is_private_and_removed_at_the_end() {
    let folder = prepared(b"attack at dawn");
    let before = folder.names();
    let server = Server::start(&folder, "--socket socket volume");
    let metadata = fs::metadata(folder.join("socket")).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    refusal(&folder, "--read-only --socket socket plain").fails(5, "another program listens");
    assert!(folder.join("socket").exists());
    server.stop();
    assert_eq!(folder.names(), before);

    // A crash leaves the socket behind, and the next server replaces it.
    let server = Server::start(&folder, "--socket socket volume");
    server.signal(Signal::SIGKILL);
    assert_eq!(server.ended().0, None);
    assert!(folder.join("socket").exists());
    Server::start(&folder, "--socket socket volume").stop();
    assert_eq!(folder.names(), before);

    // Anything else at the path is never removed.
    refusal(&folder, "--socket plain volume").fails(5, "is not a socket");
    assert_eq!(fs::read(folder.join("plain")).unwrap(), b"attack at dawn");
    let other = UnixListener::bind(folder.join("socket")).unwrap();
    refusal(&folder, "--socket socket volume").fails(5, "another program listens");
    drop(other);
    refusal(&folder, &format!("--socket {} volume", "x".repeat(120))).fails(1, "too long");
    refusal(&folder, "--socket no/folder volume").fails(1, "cannot listen");
}

#[test]
fn a_signal_stops_it_cleanly() {
    let folder = prepared(&bytes(100_000, 1));
    let before = folder.names();
    let mut expected = bytes(100_000, 1);
    for (k, signal) in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]
        .into_iter()
        .enumerate()
    {
        let server = Server::start(&folder, "--socket socket --pid-file pid volume");
        let at = 1000 * k;
        let write = format!("write -P {} {at} 10", k + 1);
        qemu_io(&["-f", "raw", "-c", &write, &server.uri], &folder).assert_code(0);
        expected[at..at + 10].fill(u8::try_from(k).unwrap() + 1);
        // A connected client does not delay the end.
        let mut client = UnixStream::connect(folder.join("socket")).unwrap();
        client.read_exact(&mut [0; 18]).unwrap();
        server.signal(signal);
        assert_eq!(server.ended(), (Some(0), String::new()), "{signal}");
        assert_eq!(folder.names(), before, "{signal}");
    }
    assert!(decrypted(&folder) == expected);
}

/// Every other signal ends it at once, and leaves nothing behind either.
#[test]
fn sigquit_and_a_second_signal_end_it_at_once() {
    let folder = prepared(&bytes(8 << 20, 1));
    let before = folder.names();
    let server = Server::start(&folder, "--socket socket --pid-file pid volume");
    server.signal(Signal::SIGQUIT);
    assert_eq!(server.ended(), (Some(130), "luxor: interrupted".to_owned()));
    assert_eq!(folder.names(), before);

    let server = Server::start(&folder, "--socket socket --pid-file pid volume");
    // A client that does not read its replies.
    let mut client = UnixStream::connect(folder.join("socket")).unwrap();
    client.write_all(&lazy_client(64, 1 << 20)).unwrap();
    client.read_exact(&mut [0; 18 + 10 + 16 + 1024]).unwrap();
    let start = Instant::now();
    server.signal(Signal::SIGTERM);
    // It accepts no more clients, and waits for this one.
    while UnixStream::connect(folder.join("socket")).is_ok_and(|socket| is_served(&socket)) {
        assert!(start.elapsed() < FOR_EVER);
    }
    // A different signal, because two pending signals of one kind count as one.
    server.signal(Signal::SIGINT);
    assert_eq!(server.ended(), (Some(130), "luxor: interrupted".to_owned()));
    assert_eq!(folder.names(), before);
}

/// Returns a handshake for the default export (`NBD_OPT_EXPORT_NAME`) and reads of `len` bytes at
/// byte 0, which a client can send without waiting.
pub fn lazy_client(reads: u64, len: u32) -> Vec<u8> {
    let mut sent = 3_u32.to_be_bytes().to_vec();
    sent.extend(b"IHAVEOPT");
    sent.extend([0, 0, 0, 1, 0, 0, 0, 0]);
    for cookie in 0..reads {
        sent.extend([0x25, 0x60, 0x95, 0x13, 0, 0, 0, 0]);
        sent.extend(cookie.to_be_bytes());
        sent.extend(0_u64.to_be_bytes());
        sent.extend(len.to_be_bytes());
    }
    sent
}

fn is_served(mut socket: &UnixStream) -> bool {
    socket
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    socket.read_exact(&mut [0; 18]).is_ok()
}

#[test]
fn a_pid_file_exists_once_clients_can_connect() {
    let folder = prepared(b"attack at dawn");
    let before = folder.names();
    folder.write("pid", "2147483647\n");
    let server = Server::start(&folder, "--socket socket --pid-file pid volume");
    let number = fs::read_to_string(folder.join("pid")).unwrap();
    assert_eq!(number, format!("{}\n", server.pid()));
    refusal(&folder, "--read-only --socket other --pid-file pid plain").fails(5, "running");
    server.stop();
    assert_eq!(folder.names(), before);
    refusal(&folder, "--socket socket --pid-file plain volume").fails(5, "not a pid file");
    assert_eq!(fs::read(folder.join("plain")).unwrap(), b"attack at dawn");
    // A server that fails leaves nothing behind.
    folder.write("wrong", "wrong");
    let wrong = "serve --key-file wrong --socket socket --pid-file pid volume";
    luxor(wrong).current_dir(folder.path()).fails(2, "volume");
    fs::remove_file(folder.join("wrong")).unwrap();
    assert_eq!(folder.names(), before);
}

#[test]
fn exit_on_idle_ends_the_server_after_the_last_client() {
    let folder = prepared(b"attack at dawn");
    let before = folder.names();
    let server = Server::start(&folder, "--exit-on-idle --socket socket volume");
    assert_eq!(read_all(&server.uri, &folder), b"attack at dawn");
    assert_eq!(server.ended(), (Some(0), String::new()));
    assert_eq!(folder.names(), before);
}

#[test]
fn an_export_has_the_name_that_it_is_given() {
    let folder = prepared(b"attack at dawn");
    let server = Server::start(&folder, "--export-name my-disk --socket socket volume");
    let socket = folder.join("socket");
    let uri = format!("nbd+unix:///my-disk?socket={}", socket.display());
    assert_eq!(server.uri, uri);
    assert_eq!(read_all(&server.uri, &folder), b"attack at dawn");
    let other = server.uri.replace("my-disk", "your-disk");
    let mut nbdinfo = Command::new("nbdinfo");
    let output = nbdinfo.arg(other).current_dir(folder.path()).output();
    assert!(!output.unwrap().status.success());
    server.stop();
    let long = format!("--export-name {} --socket socket volume", "x".repeat(5000));
    refusal(&folder, &long).fails(1, "--export-name");
}

#[test]
fn tcp_without_tls_needs_insecure() {
    let folder = prepared(b"attack at dawn");
    refusal(&folder, "--listen 127.0.0.1:0 volume").fails(1, "--insecure");
    let server = Server::start(&folder, "--listen 127.0.0.1:0 --insecure volume");
    assert!(server.uri.starts_with("nbd://127.0.0.1:"), "{}", server.uri);
    assert_eq!(read_all(&server.uri, &folder), b"attack at dawn");
    let taken = server
        .uri
        .trim_start_matches("nbd://")
        .trim_end_matches('/');
    let again = format!("--read-only --listen {taken} --insecure --type plain volume");
    folder.write(
        "key32",
        [1; 16].into_iter().chain([2; 16]).collect::<Vec<u8>>(),
    );
    luxor("serve --key-file key32")
        .args(again.split_whitespace())
        .current_dir(folder.path())
        .fails(5, "is locked");
    server.stop();
    for address in ["nowhere.invalid", "127.0.0.1:port", ":1"] {
        let line = format!("--listen {address} --insecure volume");
        refusal(&folder, &line).fails(1, "--listen");
    }
}

#[test]
fn tcp_has_mutual_tls() {
    const TLS: &str = "--tls-cert server.pem --tls-key server.key --tls-ca authority.pem";
    let mut plain = bytes(8192, 7);
    let folder = prepared(&plain);
    certificates::make(folder.path());
    // The file names that libnbd and qemu expect.
    for (name, known) in [
        ("authority.pem", "ca-cert.pem"),
        ("client.pem", "client-cert.pem"),
        ("client.key", "client-key.pem"),
    ] {
        fs::copy(folder.join(name), folder.join(known)).unwrap();
    }
    let server = Server::start(&folder, &format!("--listen 127.0.0.1:0 {TLS} volume"));
    assert!(
        server.uri.starts_with("nbds://127.0.0.1:"),
        "{}",
        server.uri
    );
    let uri = format!(
        "{}?tls-certificates={}",
        server.uri,
        folder.path().display()
    );
    assert!(read_all(&uri, &folder) == plain);
    let (_, port) = server.uri.trim_end_matches('/').rsplit_once(':').unwrap();
    let image = format!("driver=nbd,host=127.0.0.1,port={port},tls-creds=tls");
    let qemu = |command| {
        let credentials = "tls-creds-x509,id=tls,dir=.,endpoint=client";
        let line = [
            "--object",
            credentials,
            "--image-opts",
            &image,
            "-c",
            command,
        ];
        qemu_io(&line, &folder)
    };
    qemu("write -P 0x77 1024 512").assert_code(0);
    plain[1024..1536].fill(0x77);
    assert!(read_all(&uri, &folder) == plain);

    let refused = |uri: &str| {
        let output = Command::new("nbdinfo").arg(uri).output();
        let output = output.expect("nbdinfo is needed");
        assert!(!output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(!said.contains("size"), "{said}");
    };
    refused(&server.uri.replace("nbds:", "nbd:"));
    fs::copy(folder.join("strange.pem"), folder.join("client-cert.pem")).unwrap();
    fs::copy(folder.join("strange.key"), folder.join("client-key.pem")).unwrap();
    refused(&uri);
    fs::remove_file(folder.join("client-cert.pem")).unwrap();
    fs::remove_file(folder.join("client-key.pem")).unwrap();
    refused(&uri);
    server.stop();

    for (line, words) in [
        ("--tls-cert server.pem".to_owned(), "--tls-key <FILE>"),
        (
            format!("{TLS} --insecure"),
            "cannot be used with '--insecure'",
        ),
    ] {
        let line = format!("--listen 127.0.0.1:0 {line} volume");
        let outcome = serve(&folder, &line).run();
        outcome.assert_code(1);
        assert!(outcome.stderr.contains(words), "{outcome:?}");
    }
    for (line, words) in [
        (
            format!("--socket socket {TLS} volume"),
            "a Unix socket has no TLS",
        ),
        (
            format!(
                "--listen 127.0.0.1:0 {} volume",
                TLS.replace("server.key", "client.key")
            ),
            "cannot be used with the key in client.key",
        ),
        (
            format!(
                "--listen 127.0.0.1:0 {} volume",
                TLS.replace("authority", "nobody")
            ),
            "cannot read nobody.pem",
        ),
    ] {
        refusal(&folder, &line).fails(1, words);
    }
}

/// The server's TLS key is a secret like a volume's key: core dumps are disabled before it is read.
#[test]
fn a_process_with_a_servers_key_is_hardened() {
    let folder = prepared(b"attack at dawn");
    certificates::make(folder.path());
    tool("mkfifo", [folder.join("fifo")]);
    let line = "--listen 127.0.0.1:0 --tls-cert server.pem --tls-key fifo --tls-ca authority.pem \
                volume";
    let child = serve(&folder, line).spawn();
    let start = Instant::now();
    let fifo = loop {
        // Opening fails until the FIFO has a reader.
        let fifo = fs::File::options()
            .write(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(folder.join("fifo"));
        match fifo {
            Ok(fifo) => break fifo,
            Err(error) => assert!(start.elapsed() < FOR_EVER, "{error}"),
        }
        thread::sleep(Duration::from_millis(1));
    };
    let limits = fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    drop(fifo);
    let outcome = ended(child);
    outcome.assert_code(1);
    assert!(
        outcome.stderr.contains("fifo has no private key"),
        "{outcome:?}"
    );
    let limit = limits.lines().find(|line| line.starts_with("Max core"));
    let limit: Vec<_> = limit.unwrap().split_whitespace().collect();
    assert_eq!(limit[4..6], ["0", "0"], "{limits}");
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let folder = prepared(b"attack at dawn");
    for (line, code, words) in [
        ("volume", 1, "--socket PATH or --listen ADDRESS"),
        ("--socket a -", 1, "standard input"),
        ("--socket a missing", 4, "does not exist"),
        ("--socket a --type luks1 volume", 1, "it is a LUKS2 volume"),
        (
            "--socket a --cipher aes-cbc-plain volume",
            1,
            "--type plain",
        ),
        ("--socket a --type plain --header x volume", 1, "--header"),
        ("--socket a --require-type luks1 volume", 1, "LUKS2"),
        ("--socket a plain", 1, "plain"),
    ] {
        refusal(&folder, line).fails(code, words);
        assert!(!folder.join("a").exists(), "{line}");
    }
    for (line, words) in [
        ("--socket a", "required"),
        ("--socket a --cipher serpent volume", "aes-xts-plain64"),
    ] {
        let outcome = refusal(&folder, line).run();
        outcome.assert_code(1);
        assert!(outcome.stderr.contains(words), "{outcome:?}");
    }
    luxor("serve --type plain --socket a volume")
        .current_dir(folder.path())
        .fails(1, "needs --key-file");
}

/// With -q nothing is printed, and a script can wait for the pid file.
#[test]
fn a_quiet_server_prints_nothing() {
    let folder = prepared(b"attack at dawn");
    let line = "-q --exit-on-idle --socket socket --pid-file pid volume";
    let child = serve(&folder, line).spawn();
    let start = Instant::now();
    while !folder.join("pid").exists() {
        assert!(start.elapsed() < FOR_EVER);
        thread::sleep(Duration::from_millis(2));
    }
    let uri = "nbd+unix:///?socket=socket";
    let mut nbdinfo = Command::new("nbdinfo");
    nbdinfo.args(["--size", uri]).current_dir(folder.path());
    assert!(nbdinfo.output().unwrap().status.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty() && output.stdout.is_empty());
}

#[test]
fn a_socket_and_an_address_are_served_together() {
    let folder = prepared(b"attack at dawn");
    let line = "--socket socket --listen 127.0.0.1:0 --insecure volume";
    let server = Server::start(&folder, line);
    assert!(server.uri.starts_with("nbd://127.0.0.1:"), "{}", server.uri);
    let second = server.stderr.recv_timeout(FOR_EVER).unwrap();
    let uri = format!("nbd+unix:///?socket={}", folder.join("socket").display());
    assert!(second.ends_with(&format!(", at {uri}")), "{second}");
    for uri in [&server.uri, &uri] {
        assert_eq!(read_all(uri, &folder), b"attack at dawn");
    }
    server.stop();
    assert!(!folder.join("socket").exists());
    // Over TCP, clients need TLS beside a Unix socket too.
    let line = "--socket socket --listen 127.0.0.1:0 volume";
    refusal(&folder, line).fails(1, "--insecure");
    assert!(!folder.join("socket").exists());
}

/// While the server waits for the secret, another program changes the metadata of the data.
#[test]
fn metadata_that_change_before_the_key_comes_are_not_served() {
    let folder = prepared(b"attack at dawn");
    tool("mkfifo", [folder.join("fifo")]);
    let child = Luxor::within(FOR_EVER)
        .args("serve --key-file fifo --socket socket volume".split(' '))
        .current_dir(folder.path())
        .spawn();
    let fifo = folder.join("fifo");
    let mut pipe = fs::OpenOptions::new().write(true).open(fifo).unwrap();
    luxor("token remove --force --token-id 0 volume")
        .current_dir(folder.path())
        .ok();
    pipe.write_all(b"correct horse").unwrap();
    drop(pipe);
    let outcome = Outcome::new("serve".into(), child.wait_with_output().unwrap());
    outcome.assert_code(1);
    let said = "the metadata changed";
    assert!(outcome.stderr.contains(said), "{outcome:?}");
    assert!(!folder.join("socket").exists());
}

/// Before the server listens, a signal ends the program as usual.
#[test]
fn a_signal_before_it_listens_leaves_nothing() {
    let folder = prepared(b"attack at dawn");
    tool("mkfifo", [folder.join("fifo")]);
    let before = folder.names();
    let child = luxor("serve --key-file fifo --socket socket --pid-file pid volume")
        .current_dir(folder.path())
        .spawn();
    // The program has read the metadata, and waits for its key.
    let pipe = fs::OpenOptions::new().write(true).open(folder.join("fifo"));
    kill(
        Pid::from_raw(child.id().try_into().unwrap()),
        Signal::SIGTERM,
    )
    .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(folder.names(), before);
    drop(pipe);
}

/// It fails at one place after another, until the number of descriptors is enough.
#[test]
fn a_start_without_file_descriptors_leaves_no_socket() {
    let folder = prepared(&bytes(4096, 1));
    let socket = folder.join("socket");
    for number in 3.. {
        let mut prlimit = Command::new("prlimit");
        let mut child = prlimit
            .arg(format!("--nofile={number}"))
            .args([env!("CARGO_BIN_EXE_luxor"), "serve", "--key-file", "key"])
            .args(["--socket", "socket", "volume"])
            .current_dir(folder.path())
            .stderr(Stdio::piped())
            .spawn()
            .expect("prlimit is needed");
        let mut words = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        words.read_line(&mut line).unwrap();
        let listens = line.contains(", at nbd+unix:");
        if listens {
            kill(
                Pid::from_raw(child.id().try_into().unwrap()),
                Signal::SIGTERM,
            )
            .unwrap();
        }
        assert_eq!(child.wait().unwrap().success(), listens, "{number}: {line}");
        assert!(!socket.exists(), "{number}: {line}");
        if listens {
            break;
        }
    }
}

#[test]
fn discards_reach_the_file_when_they_are_allowed() {
    let plain = bytes(4 << 20, 1);
    let folder = prepared(&plain);
    let room = |path: &Path| fs::metadata(path).unwrap().blocks();
    let volume = folder.join("volume");
    let full = room(&volume);
    let discard = ["-f", "raw", "-c", "discard 0 2M", "-c", "flush"];
    for (option, passes) in [("", false), ("--allow-discards", true)] {
        let server = Server::start(&folder, &format!("{option} --socket socket volume"));
        let uri = server.uri.clone();
        let arguments: Vec<&str> = discard.iter().copied().chain([uri.as_str()]).collect();
        qemu_io(&arguments, &folder).assert_code(0);
        server.stop();
        let freed = full - room(&volume);
        assert_eq!(freed >= (1 << 20) / 512, passes, "{option}: {freed}");
        let back = decrypted(&folder);
        assert!(back[2 << 20..] == plain[2 << 20..]);
        assert_eq!(back == plain, !passes);
    }
}
