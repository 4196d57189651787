// SPDX-License-Identifier: MIT OR Apache-2.0
//! TLS with the clients of two other implementations.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    process::Output,
};

use crate::support::{FOR_EVER, Kind, Server, Volume, assert_same, bytes, output};

const LEN: usize = 1_000_001;

/// A volume with certificates in its folder, and its plaintext.
pub fn prepared() -> (Volume, Vec<u8>) {
    let plain = bytes(LEN, 2);
    let volume = Volume::new(Kind::EXAMPLE, &plain);
    volume.write(
        "config",
        "[req]\ndistinguished_name = name\n[name]\n\
         [authority]\nbasicConstraints = critical,CA:TRUE\n\
         [server]\nsubjectAltName = IP:127.0.0.1\nextendedKeyUsage = serverAuth\n\
         [client]\nextendedKeyUsage = clientAuth\n",
    );
    for (name, extensions, authority) in [
        ("authority", "authority", None),
        ("server", "server", Some("authority")),
        ("client", "client", Some("authority")),
        ("stranger", "authority", None),
        ("strange", "client", Some("stranger")),
    ] {
        let mut line = format!(
            "openssl req -x509 -config config -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
             -days 2 -extensions {extensions} -subj /CN={name} -keyout {name}.key -out {name}.pem"
        );
        if let Some(authority) = authority {
            line += &format!(" -CA {authority}.pem -CAkey {authority}.key");
        }
        volume.run(&line, &[]);
    }
    // The authority that a client trusts, and its own certificate.
    for (folder, authority, client) in [
        ("known", "authority", Some("client")),
        ("unknown", "authority", Some("strange")),
        ("nobody", "authority", None),
        ("distrustful", "stranger", Some("client")),
    ] {
        fs::create_dir(volume.path(folder)).unwrap();
        let copy = |from: String, to: &str| {
            fs::copy(volume.path(&from), volume.path(folder).join(to)).unwrap();
        };
        copy(format!("{authority}.pem"), "ca-cert.pem");
        if let Some(client) = client {
            copy(format!("{client}.pem"), "client-cert.pem");
            copy(format!("{client}.key"), "client-key.pem");
        }
    }
    (volume, plain)
}

pub fn serve(volume: &Volume) -> Server {
    let arguments = "--listen 127.0.0.1:0 --tls-cert server.pem --tls-key server.key \
                     --tls-ca authority.pem";
    let server = Server::start(volume.serving(arguments));
    assert!(
        server.uri.starts_with("nbds://127.0.0.1:"),
        "{}",
        server.uri
    );
    server
}

/// Returns the URI for libnbd's programs.
pub fn uri(volume: &Volume, server: &Server, folder: &str) -> String {
    let folder = volume.path(folder);
    format!("{}?tls-certificates={}", server.uri, folder.display())
}

fn port(server: &Server) -> &str {
    let address = server.uri.trim_start_matches("nbds://");
    let (_, port) = address.trim_end_matches('/').split_once(':').unwrap();
    port
}

/// Runs `qemu-img` with TLS.
fn qemu(volume: &Volume, server: &Server, folder: &str, arguments: &[&str]) -> Output {
    let object = format!("tls-creds-x509,id=tls,endpoint=client,dir={folder}");
    let port = port(server);
    let image = format!("driver=nbd,host=127.0.0.1,port={port},tls-creds=tls");
    let mut qemu = volume.command("qemu-img", &arguments[..1]);
    qemu.args(["--object", &object, "--image-opts", &image]);
    output(qemu.args(&arguments[1..]))
}

#[test]
fn clients_with_certificates_read_and_write() {
    let (volume, plain) = prepared();
    let server = serve(&volume);
    let uri = uri(&volume, &server, "known");
    let info = volume.run("nbdinfo --json", &[&uri]);
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["TLS"], true);
    assert_eq!(info["exports"][0]["export-size"], LEN);

    volume.run("nbdcopy", &[&uri, "copy"]);
    assert_same(&fs::read(volume.path("copy")).unwrap(), &plain);
    let converted = qemu(&volume, &server, "known", &["convert", "-O", "raw", "copy"]);
    assert!(converted.status.success(), "{converted:?}");
    assert_same(&fs::read(volume.path("copy")).unwrap()[..LEN], &plain);
    let new = bytes(LEN, 3);
    volume.write("new", &new);
    volume.run("nbdcopy --connections=4 new", &[&uri]);
    server.stop();
    assert_same(&volume.decrypted(), &new);
}

#[test]
fn clients_without_mutual_tls_are_refused() {
    let (volume, plain) = prepared();
    let server = serve(&volume);
    let known = uri(&volume, &server, "known");
    for folder in ["unknown", "nobody", "distrustful"] {
        let mut nbdinfo = volume.command("nbdinfo", [uri(&volume, &server, folder)]);
        let refused = output(&mut nbdinfo);
        assert!(!refused.status.success(), "{folder}: {refused:?}");
        let refused = qemu(&volume, &server, folder, &["info"]);
        assert!(!refused.status.success(), "{folder}: {refused:?}");
        volume.run("nbdinfo --size", &[&known]);
    }

    // Clients without TLS.
    let open = server.uri.replace("nbds:", "nbd:");
    for arguments in [&["--size"][..], &["--list"]] {
        let mut nbdinfo = volume.command("nbdinfo", arguments);
        let refused = output(nbdinfo.arg(&open));
        assert!(!refused.status.success(), "{refused:?}");
    }
    for number in [1, 3, 6, 7] {
        let mut socket = TcpStream::connect(format!("127.0.0.1:{}", port(&server))).unwrap();
        socket.set_read_timeout(Some(FOR_EVER)).unwrap();
        socket.read_exact(&mut [0; 18]).unwrap();
        socket
            .write_all(&[b"\0\0\0\x03IHAVEOPT\0\0\0", &[number][..], b"\0\0\0\0"].concat())
            .unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let mut said = Vec::new();
        let _ = socket.read_to_end(&mut said);
        // The answer contains neither the length nor the name of the export: it is an error that
        // says that TLS is needed (NBD_REP_ERR_TLS_REQD), or empty.
        let needed = [0x80, 0, 0, 5];
        assert!(said.is_empty() || said[12..16] == needed, "{said:?}");
    }
    volume.run("nbdcopy", &[&known, "copy"]);
    assert_same(&fs::read(volume.path("copy")).unwrap(), &plain);
    server.stop();
}

/// Names and keys as `psktool` writes them.
const KEYS: &str = "alice:2d6d0a5f9e2b8cf1a39ad21f6f2b0c3ed5a2c9c0f0aa64c14f5b7a1d8f9f1c22\n\
                    bob:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";

fn serve_with_keys(volume: &Volume) -> Server {
    volume.write("keys.psk", KEYS);
    volume.run("chmod 600 keys.psk", &[]);
    Server::start(volume.serving("--listen 127.0.0.1:0 --tls-psk keys.psk"))
}

/// Returns the URI for libnbd's programs, with a user and a file of keys.
fn psk_uri(volume: &Volume, server: &Server, user: &str, keys: &str) -> String {
    let server = server.uri.replace("nbds://", &format!("nbds://{user}@"));
    format!("{server}?tls-psk-file={}", volume.path(keys).display())
}

/// Runs `qemu-img` with a pre-shared key from `keys.psk` in `folder`.
fn qemu_psk(volume: &Volume, server: &Server, folder: &str, arguments: &[&str]) -> Output {
    let object = format!("tls-creds-psk,id=tls,endpoint=client,dir={folder},username=bob");
    let port = port(server);
    let image = format!("driver=nbd,host=127.0.0.1,port={port},tls-creds=tls");
    let mut qemu = volume.command("qemu-img", &arguments[..1]);
    qemu.args(["--object", &object, "--image-opts", &image]);
    output(qemu.args(&arguments[1..]))
}

#[test]
fn clients_with_a_shared_key_read_and_write() {
    let plain = bytes(LEN, 2);
    let volume = Volume::new(Kind::EXAMPLE, &plain);
    let server = serve_with_keys(&volume);
    assert!(
        server.uri.starts_with("nbds://127.0.0.1:"),
        "{}",
        server.uri
    );
    assert_eq!(server.said, "");
    let uri = psk_uri(&volume, &server, "alice", "keys.psk");
    let info = volume.run("nbdinfo --json", &[&uri]);
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["TLS"], true);
    assert_eq!(info["exports"][0]["export-size"], LEN);
    let line = server.log.recv_timeout(FOR_EVER).unwrap();
    assert!(line.ends_with(r#" tls=true identity="alice""#), "{line}");

    volume.run("nbdcopy", &[&uri, "copy"]);
    assert_same(&fs::read(volume.path("copy")).unwrap(), &plain);
    let converted = qemu_psk(&volume, &server, ".", &["convert", "-O", "raw", "copy"]);
    assert!(converted.status.success(), "{converted:?}");
    assert_same(&fs::read(volume.path("copy")).unwrap()[..LEN], &plain);
    let new = bytes(LEN, 3);
    volume.write("new", &new);
    volume.run("nbdcopy --connections=4 new", &[&uri]);
    server.stop();
    assert_same(&volume.decrypted(), &new);
}

/// Clients with a wrong key, with a name that the server does not know, and without TLS.
#[test]
fn clients_without_the_shared_key_are_refused_alike() {
    let volume = Volume::new(Kind::EXAMPLE, &bytes(LEN, 2));
    let server = serve_with_keys(&volume);
    fs::create_dir(volume.path("wrong")).unwrap();
    let wrong = KEYS
        .replace("alice:2d", "alice:2e")
        .replace("bob:00", "bob:01");
    volume.write("wrong/keys.psk", format!("{wrong}eve:{}\n", &KEYS[6..70]));
    let refused = |user: &str| {
        let uri = psk_uri(&volume, &server, user, "wrong/keys.psk");
        let refused = output(&mut volume.command("nbdinfo", [uri]));
        assert!(!refused.status.success(), "{user}: {refused:?}");
        let said = String::from_utf8(refused.stderr).unwrap();
        let line = server.log.recv_timeout(FOR_EVER).unwrap();
        let (_, reason) = line.split_once("reason=").unwrap();
        // Both without what names the server.
        (
            said.rsplit(": ").next().unwrap().to_owned(),
            reason.to_owned(),
        )
    };
    let (by_key, by_name) = (refused("alice"), refused("eve"));
    assert!(
        by_key
            .1
            .contains("the TLS handshake with the client failed"),
        "{by_key:?}"
    );
    assert_eq!(by_key, by_name);
    let refused = qemu_psk(&volume, &server, "wrong", &["info"]);
    assert!(!refused.status.success(), "{refused:?}");
    let refused = output(&mut volume.command("nbdinfo", [server.uri.replace("nbds:", "nbd:")]));
    assert!(!refused.status.success(), "{refused:?}");
    // Certificates do not help a client that has no key.
    let certificates = format!(
        "{}?tls-certificates={}",
        server.uri,
        volume.path("").display()
    );
    let refused = output(&mut volume.command("nbdinfo", [certificates]));
    assert!(!refused.status.success(), "{refused:?}");
    let uri = psk_uri(&volume, &server, "alice", "keys.psk");
    assert_eq!(
        volume.run("nbdinfo --size", &[&uri]).trim(),
        LEN.to_string()
    );
    server.stop();
}

#[test]
fn a_file_of_keys_that_is_wrong_is_refused() {
    let volume = Volume::new(Kind::EXAMPLE, b"attack at dawn");
    let key = &KEYS[6..70];
    let refused = |arguments: &str, words: &str| {
        let refused = output(&mut volume.serving(&format!("{arguments} --tls-psk keys.psk")));
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(words), "{said}");
        assert!(!said.contains(&key[..8]), "{said}");
    };
    let tcp = "--listen 127.0.0.1:0";
    refused(tcp, "cannot read keys.psk: No such file");
    for (text, words) in [
        (String::new(), "keys.psk has no pre-shared key"),
        (
            format!("alice:{key}\nbob {key}\n"),
            "line 2 of keys.psk is not NAME:KEY: it has no colon",
        ),
        (
            format!("alice:{key}x\n"),
            "line 1 of keys.psk is not NAME:KEY: the key is not",
        ),
        ("alice:00\n".to_owned(), "the key is shorter than 16 bytes"),
    ] {
        volume.write("keys.psk", text);
        refused(tcp, words);
    }
    volume.write("keys.psk", KEYS);
    refused("--socket socket", "a Unix socket has no TLS");
    refused("--listen 127.0.0.1:0 --insecure", "cannot be used with");
    // Keys that all users can read are served, with a warning.
    volume.run("chmod 644 keys.psk", &[]);
    let server = Server::start(volume.serving("--listen 127.0.0.1:0 --tls-psk keys.psk"));
    let warning = "luxor: warning: all users can read the keys in keys.psk";
    assert!(server.said.starts_with(warning), "{}", server.said);
    server.stop();
}

/// The system's library is loaded only when it is needed.
#[test]
fn a_missing_library_is_named_with_its_package() {
    let volume = Volume::new(Kind::EXAMPLE, b"attack at dawn");
    volume.write("keys.psk", KEYS);
    volume.write("libssl.so.3", "not a library");
    let mut luxor = volume.serving("--listen 127.0.0.1:0 --tls-psk keys.psk");
    let refused = output(luxor.env("LD_LIBRARY_PATH", volume.path("")));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    for words in [
        "OpenSSL 3 cannot be loaded",
        "libssl.so.3",
        "package libssl3",
    ] {
        assert!(said.contains(words), "{said}");
    }
    let mut luxor = volume.serving("--socket socket");
    Server::start({
        luxor.env("LD_LIBRARY_PATH", volume.path(""));
        luxor
    })
    .stop();
}
