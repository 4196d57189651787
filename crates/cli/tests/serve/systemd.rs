// SPDX-License-Identifier: MIT OR Apache-2.0
//! The units for systemd in `systemd/`.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use crate::support::{FOR_EVER, Kind, Server, Volume, assert_same, bytes, output};

const UNITS: [&str; 2] = ["luxor-serve@.service", "luxor-serve@.socket"];

/// Returns the unit with the path of the program under test.
fn unit(name: &str) -> String {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systemd");
    let text = fs::read_to_string(units.join(name)).unwrap();
    text.replace("/usr/bin/luxor", env!("CARGO_BIN_EXE_luxor"))
}

/// Returns what `systemd-analyze verify` says of an instance of both units.
fn verified(service: &str, socket: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]);
    for (name, text) in UNITS.into_iter().zip([service, socket]) {
        fs::write(folder.path().join(name), text).unwrap();
        verify.arg(folder.path().join(name.replace('@', "@disk")));
    }
    let verified = output(&mut verify);
    let said = String::from_utf8(verified.stderr).unwrap();
    format!(
        "{}{said}",
        if verified.status.success() {
            ""
        } else {
            "failed: "
        }
    )
}

#[test]
fn units_are_valid() {
    let [service, socket] = UNITS.map(unit);
    assert_eq!(verified(&service, &socket), "");
    // What is wrong is found.
    let wrong = service.replace("ProtectClock=", "ProtectClocks=");
    assert!(verified(&wrong, &socket).contains("ProtectClocks"));
    let wrong = socket.replace("ListenStream=/", "ListenStream=");
    assert_ne!(verified(&service, &wrong), "");
}

/// Returns the value of a setting.
fn value<'a>(unit: &'a str, name: &str) -> &'a str {
    let mut lines = unit.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {name}= in {unit}"))
}

/// The command of the unit, with a socket and a credential as systemd passes them.
#[test]
fn the_command_of_the_unit_serves_a_socket_of_systemd() {
    let plain = bytes(1_000_001, 1);
    let volume = Volume::new(Kind::EXAMPLE, &plain);
    fs::create_dir(volume.path("credentials")).unwrap();
    fs::rename(volume.path("key"), volume.path("credentials/key")).unwrap();
    let service = unit(UNITS[0]);
    assert_eq!(value(&service, "Type"), "notify");
    assert!(value(&service, "LoadCredential").starts_with("key:/etc/luxor/%i.key"));
    let command = value(&service, "ExecStart")
        .replace("%d", "credentials")
        .replace("$OPTIONS", "--read-only --exit-on-idle")
        .replace("${VOLUME}", "volume");
    let socket = volume.path("disk.sock");
    let mut activate = volume.command("systemd-socket-activate", ["-l"]);
    activate
        .arg(&socket)
        .args(command.split_whitespace())
        .stderr(Stdio::null());
    let mut child = activate.spawn().unwrap();
    let start = Instant::now();
    while !socket.exists() {
        assert!(start.elapsed() < FOR_EVER && child.try_wait().unwrap().is_none());
    }
    // The first client starts the program.
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    volume.run("nbdcopy", &[&uri, "copy"]);
    assert_same(&fs::read(volume.path("copy")).unwrap(), &plain);
    assert!(child.wait().unwrap().success());
}

/// Both kinds of sockets, and TLS for the one that needs it.
#[test]
fn several_sockets_of_systemd_are_served() {
    let plain = bytes(5000, 1);
    let volume = Volume::new(Kind::EXAMPLE, &plain);
    volume.write("keys.psk", "alice:00112233445566778899aabbccddeeff\n");
    volume.run("chmod 600 keys.psk", &[]);
    let socket = volume.path("disk.sock");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut activate = volume.command("systemd-socket-activate", ["-l"]);
    activate
        .arg(&socket)
        .args([
            "-l",
            &address.to_string(),
            env!("CARGO_BIN_EXE_luxor"),
            "serve",
        ])
        .args(["--key-file", "key", "--tls-psk", "keys.psk", "volume"]);
    let _server = {
        // The program starts with the first client.
        let waker = std::thread::spawn({
            let socket = socket.clone();
            move || {
                let start = Instant::now();
                while std::os::unix::net::UnixStream::connect(&socket).is_err() {
                    assert!(start.elapsed() < FOR_EVER);
                }
            }
        });
        let server = Server::start(activate);
        waker.join().unwrap();
        server
    };
    let keys = volume.path("keys.psk");
    for uri in [
        format!("nbd+unix:///?socket={}", socket.display()),
        format!("nbds://alice@{address}/?tls-psk-file={}", keys.display()),
    ] {
        volume.run("nbdcopy", &[&uri, "copy"]);
        assert_same(&fs::read(volume.path("copy")).unwrap(), &plain);
    }
}
