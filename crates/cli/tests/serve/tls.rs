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
