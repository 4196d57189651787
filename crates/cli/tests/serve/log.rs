// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of `luxor serve`: a line for each client that comes, goes or is refused.

use std::{
    io::{self, BufRead, BufReader},
    os::unix::net::UnixStream,
    process,
};

use nix::{sys::stat::fstat, unistd::getuid};

use crate::{
    raw::{Client, READ, request},
    support::{FOR_EVER, Kind, Server, Volume, bytes, output},
    tls,
};

const LEN: usize = 1_000_001;

/// Returns the next line of the log, without the time and the duration.
fn next(server: &Server) -> String {
    let line = server.log.recv_timeout(FOR_EVER).unwrap();
    assert!(!line.chars().any(char::is_control), "{line:?}");
    let (time, line) = line.split_once(' ').unwrap();
    let place = |byte| time.bytes().position(|found| found == byte);
    let shape = (place(b'-'), place(b'T'), place(b':'), place(b'Z'));
    assert_eq!(shape, (Some(4), Some(10), Some(13), Some(26)), "{time}");
    let words = line.split_whitespace();
    let words = words.filter(|word| !word.starts_with("seconds="));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the next line that is not about a client's arrival.
fn next_end(server: &Server) -> String {
    loop {
        let line = next(server);
        if !line.starts_with("INFO client connected") {
            return line;
        }
    }
}

#[test]
fn clients_are_logged_with_their_peer_and_their_end() {
    let volume = Volume::new(Kind::EXAMPLE, &bytes(LEN, 1));
    let server = volume.serve("");
    let peer = format!("peer=pid:{},uid:{}", process::id(), getuid());
    let connected = format!("INFO client connected {peer} tls=false");

    let mut client = Client::new(&volume);
    assert_eq!(next(&server), connected);
    client.write(5, &[1; 1000]).unwrap();
    client.read(0, 4096).unwrap();
    client.read(1, 1).unwrap();
    client.send(&request(2, 0, 0, 0, 0));
    let disconnected = format!("client disconnected {peer} how=");
    let expected = format!("INFO {disconnected}\"clean\" read=4097 written=1000");
    assert_eq!(next(&server), expected);

    drop(Client::new(&volume));
    let expected = format!("WARN {disconnected}\"dropped\" read=0 written=0");
    assert_eq!(next_end(&server), expected);

    let mut client = Client::new(&volume);
    client.send(&[b'x'; 28]);
    let line = next_end(&server);
    assert!(
        line.starts_with(&format!("WARN {disconnected}\"")),
        "{line}"
    );
    assert!(line.contains("not an NBD request"), "{line}");

    // A client that only looks, as a port scanner does.
    drop(UnixStream::connect(volume.path("socket")).unwrap());
    let expected = format!("INFO client left without using the export {peer}");
    assert_eq!(next(&server), expected);

    volume.run("nbdcopy", &[&server.uri, "copy"]);
    let mut read = 0;
    while read < LEN {
        let line = next_end(&server);
        let (_, rest) = line.split_once(" read=").unwrap();
        let (bytes, _) = rest.split_once(' ').unwrap();
        read += bytes.parse::<usize>().unwrap();
    }
    assert_eq!(read, LEN);

    // A client that is still there when the server stops. Connections of nbdcopy that have read
    // nothing may end meanwhile.
    let _client = Client::new(&volume);
    while next(&server) != connected {}
    server.signal(nix::sys::signal::Signal::SIGTERM);
    let expected = format!("INFO {disconnected}\"server stopped\" read=0 written=0");
    while next(&server) != expected {}
}

#[test]
fn refused_clients_are_logged_with_the_reason() {
    let (volume, _) = tls::prepared();
    let server = tls::serve(&volume);
    let refused = |server: &Server, reason: &str| loop {
        let line = next_end(server);
        if line.starts_with("WARN client refused peer=127.0.0.1:") {
            assert!(line.contains(reason), "{line}");
            break;
        }
        assert!(line.contains("without using the export"), "{line}");
    };
    output(&mut volume.command("nbdinfo", [server.uri.replace("nbds:", "nbd:")]));
    refused(
        &server,
        "reason=\"the client did not use TLS, which is required\"",
    );
    output(&mut volume.command("nbdinfo", [tls::uri(&volume, &server, "nobody")]));
    refused(
        &server,
        "reason=\"the TLS handshake with the client failed: ",
    );
    server.stop();

    // Nothing that a client sends ends the line, or speaks to a terminal.
    let server = Server::start(volume.serving("--insecure --listen 127.0.0.1:0"));
    let name = format!("{}a%0A%1B%5B31m%22%5C%E2%80%AEb", server.uri);
    output(&mut volume.command("nbdinfo", [name]));
    let said = r#"reason="there is no export 'a\\n\\u{1b}[31m\\\"\\\\\\u{202e}b'""#;
    refused(&server, said);
    server.stop();
}

#[test]
fn options_choose_how_much_is_logged() {
    let volume = Volume::new(Kind::EXAMPLE, &bytes(LEN, 1));
    for (option, expected) in [
        (
            "-v",
            &["DEBUG client accepted", "INFO client connected"][..],
        ),
        (
            "-vv",
            &[
                "DEBUG client accepted",
                "INFO client connected",
                "TRACE request peer=",
            ],
        ),
    ] {
        let server = volume.serve(option);
        Client::new(&volume).read(0, 512).unwrap();
        for expected in expected {
            let line = next(&server);
            assert!(line.starts_with(expected), "{line}");
        }
        if option == "-vv" {
            // The last request is the end of the connection.
            assert!(next(&server).starts_with("WARN client disconnected"));
        }
        server.stop();
    }
}

/// journald adds the time itself, and takes the priority from the line.
#[test]
fn lines_for_the_journal_have_a_priority_and_no_time() {
    let volume = Volume::new(Kind::EXAMPLE, b"attack at dawn");
    let (reader, writer) = io::pipe().unwrap();
    let journal = fstat(&writer).unwrap();
    let mut luxor = volume.serving("--exit-on-idle --socket socket");
    luxor
        .env(
            "JOURNAL_STREAM",
            format!("{}:{}", journal.st_dev, journal.st_ino),
        )
        .stderr(writer);
    let mut child = luxor.spawn().unwrap();
    // It holds the other end of the pipe.
    drop(luxor);
    let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
    let serving = lines.next().unwrap();
    assert!(
        serving.starts_with("luxor: serving volume, at "),
        "{serving}"
    );
    let mut client = Client::new(&volume);
    client.send(&request(READ, 0, 0, 0, 512)[..9]);
    drop(client);
    let begin = |line: &String, expected: &str| assert!(line.starts_with(expected), "{line}");
    begin(&lines.next().unwrap(), "<6>client connected peer=pid:");
    begin(&lines.next().unwrap(), "<4>client disconnected peer=pid:");
    assert_eq!(lines.next(), None);
    assert!(child.wait().unwrap().success());
}
