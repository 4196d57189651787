// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor serve` under systemd: inherited sockets, and messages to the service manager.

use std::{
    fs,
    io::{Read, Write},
    os::unix::net::{UnixDatagram, UnixStream},
    process::{Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    serve::{FOR_EVER, Server, ended, lazy_client, prepared, read_all, serve},
    support::{Folder, Outcome, bytes},
};

/// systemd's side of `sd_notify(3)`.
#[test]
fn the_service_manager_hears_of_the_beginning_and_the_end() {
    let plain = bytes(8 << 20, 1);
    let folder = prepared(&plain);
    let manager = UnixDatagram::bind(folder.join("notify")).unwrap();
    manager.set_read_timeout(Some(FOR_EVER)).unwrap();
    let heard = || {
        let mut message = [0; 4096];
        let len = manager.recv(&mut message).unwrap();
        String::from_utf8(message[..len].to_vec()).unwrap()
    };
    let child = serve(&folder, "-q --socket socket volume")
        .env("NOTIFY_SOCKET", folder.join("notify"))
        .spawn();
    let uri = format!("nbd+unix:///?socket={}", folder.join("socket").display());
    let ready = format!("READY=1\nSTATUS=Serving volume, at {uri}\n");
    assert_eq!(heard(), ready);
    assert!(read_all(&uri, &folder) == plain);
    // A client that takes no replies delays the end, but not the message.
    let mut client = UnixStream::connect(folder.join("socket")).unwrap();
    client.write_all(&lazy_client(64, 1 << 20)).unwrap();
    client.read_exact(&mut [0; 18 + 10 + 16 + 1024]).unwrap();
    kill(
        Pid::from_raw(child.id().try_into().unwrap()),
        Signal::SIGTERM,
    )
    .unwrap();
    assert!(heard().starts_with("STOPPING=1\nSTATUS=Stopping"));
    // The rest of the first reply, which is longer than what the socket holds: the server still
    // waits for the client.
    client.read_exact(&mut vec![0; (1 << 20) - 1024]).unwrap();
    drop(client);
    assert_eq!(ended(child).code, Some(0));
    manager.set_nonblocking(true).unwrap();
    assert!(manager.recv(&mut [0; 4096]).is_err());

    // A socket that nobody reads must not keep clients out.
    let luxor = serve(&folder, "--socket socket volume").env("NOTIFY_SOCKET", "/nowhere");
    let server = Server::spawn(luxor);
    let warning = server.stderr.recv_timeout(FOR_EVER).unwrap();
    assert!(
        warning.contains("warning: cannot reach the socket of NOTIFY_SOCKET"),
        "{warning}"
    );
    server.stop();
}

/// Opens sockets as systemd does, then executes the program. The arguments are the kinds of
/// sockets, and the command line.
const ACTIVATE: &str = r#"
import os, socket, sys
kinds = sys.argv[1].split(",")
sockets = []
for place, kind in enumerate(kinds):
    if kind == "tcp":
        s = socket.create_server(("127.0.0.1", 0))
    elif kind == "unix":
        s = socket.socket(socket.AF_UNIX)
        s.bind("activated")
        s.listen()
    else:
        s = socket.socket(socket.AF_UNIX)
    sockets.append(s)
for place, s in enumerate(sockets):
    os.dup2(s.fileno(), 100 + place)
for place in range(len(sockets)):
    os.dup2(100 + place, 3 + place, inheritable=True)
os.environ["LISTEN_FDS"] = str(len(sockets))
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2], sys.argv[2:])
"#;

fn activated(folder: &Folder, kinds: &str, arguments: &str) -> Command {
    let mut python = Command::new("/usr/bin/python3");
    python
        .args(["-c", ACTIVATE, kinds, env!("CARGO_BIN_EXE_luxor"), "serve"])
        .args(["--key-file", "key"])
        .args(arguments.split_whitespace())
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    python
}

#[test]
fn systemds_sockets_are_served() {
    let folder = prepared(b"attack at dawn");
    let child = activated(&folder, "unix", "volume").spawn().unwrap();
    let server = Server::from_child(child);
    let uri = format!("nbd+unix:///?socket={}", folder.join("activated").display());
    assert_eq!(server.uri, uri);
    assert_eq!(read_all(&server.uri, &folder), b"attack at dawn");
    server.stop();
    // The socket belongs to systemd.
    assert!(folder.join("activated").exists());
    fs::remove_file(folder.join("activated")).unwrap();

    let child = activated(&folder, "tcp,unix", "--insecure volume").spawn();
    let server = Server::from_child(child.unwrap());
    assert!(server.uri.starts_with("nbd://127.0.0.1:"), "{}", server.uri);
    assert_eq!(read_all(&server.uri, &folder), b"attack at dawn");
    let second = server.stderr.recv_timeout(FOR_EVER).unwrap();
    assert!(second.ends_with(&uri), "{second}");
    assert_eq!(read_all(&uri, &folder), b"attack at dawn");
    server.stop();
    fs::remove_file(folder.join("activated")).unwrap();

    for (kinds, line, words) in [
        ("tcp", "volume", "--insecure"),
        ("unix", "--socket socket volume", "LISTEN_FDS"),
        (
            "tcp",
            "--listen 127.0.0.1:0 --insecure volume",
            "LISTEN_FDS",
        ),
        ("none", "volume", "socket 1 of LISTEN_FDS"),
        ("tcp,none", "--insecure volume", "socket 2 of LISTEN_FDS"),
    ] {
        let child = activated(&folder, kinds, line).spawn().unwrap();
        let outcome = ended(child);
        outcome.assert_code(1);
        assert!(outcome.stderr.contains(words), "{outcome:?}");
        let _ = fs::remove_file(folder.join("activated"));
    }
    // Numbers in the environment are bounded before anything is done as often.
    for (name, number, words) in [
        ("LISTEN_FDS", "1000000000", "at most 128 sockets"),
        ("LISTEN_FDS", "129", "at most 128 sockets"),
        ("LISTEN_FDS", "128", "socket 1 of LISTEN_FDS"),
        ("LISTEN_FDS_FIRST_FD", "-1", "LISTEN_FDS_FIRST_FD"),
        ("LISTEN_FDS_FIRST_FD", "0", "LISTEN_FDS_FIRST_FD"),
        ("LISTEN_FDS_FIRST_FD", "2147483647", "LISTEN_FDS_FIRST_FD"),
        ("LISTEN_FDS_FIRST_FD", "900", "socket 1 of LISTEN_FDS"),
    ] {
        let line = r#"export LISTEN_FDS=2 LISTEN_PID=$$; export "$1=$2"
            exec "$luxor" serve --key-file key volume"#;
        // A list of all these numbers would need more memory than this.
        let line = format!("ulimit -v 4000000; {line}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &line, "sh", name, number]);
        shell.env("luxor", env!("CARGO_BIN_EXE_luxor"));
        let outcome = shell.current_dir(folder.path()).output().unwrap();
        let outcome = Outcome::new(format!("{name}={number}"), outcome);
        outcome.assert_code(1);
        assert!(outcome.stderr.contains(words), "{outcome:?}");
    }
    // They are for this process, which has no sockets: whatever else they are, it does not matter.
    for count in ["LISTEN_FDS=0", "LISTEN_FDS=", "LISTEN_FDS=x", "other=1"] {
        let line = r#"export LISTEN_FDS_FIRST_FD=abc LISTEN_PID=$$; export "$1"
            exec "$luxor" serve --key-file key volume"#;
        let mut shell = Command::new("sh");
        shell
            .args(["-c", line, "sh", count])
            .env_remove("LISTEN_FDS");
        shell.env("luxor", env!("CARGO_BIN_EXE_luxor"));
        let outcome = shell.current_dir(folder.path()).output().unwrap();
        let outcome = Outcome::new(count.into(), outcome);
        outcome.assert_code(1);
        assert!(outcome.stderr.contains("--socket PATH"), "{outcome:?}");
    }
    // They are for no process, or for another one: whatever they are, they do not matter.
    for (variables, listens) in [
        (vec![("LISTEN_FDS", "1"), ("LISTEN_PID", "1")], ""),
        (vec![("LISTEN_FDS", "1000000000"), ("LISTEN_PID", "1")], ""),
        (vec![("LISTEN_FDS", "129"), ("LISTEN_PID", "x")], ""),
        (vec![("LISTEN_FDS", "129")], ""),
        (
            vec![
                ("LISTEN_FDS_FIRST_FD", "-1"),
                ("LISTEN_FDS", "1"),
                ("LISTEN_PID", "1"),
            ],
            "",
        ),
        (
            vec![("LISTEN_FDS", "1000000000"), ("LISTEN_PID", "1")],
            "--socket socket",
        ),
    ] {
        let mut luxor = serve(&folder, &format!("{listens} volume"));
        for (name, value) in &variables {
            luxor = luxor.env(name, value);
        }
        if listens.is_empty() {
            luxor.fails(1, "--socket PATH");
        } else {
            Server::spawn(luxor).stop();
        }
    }
}
