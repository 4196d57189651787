// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server with mutual TLS, and clients that use another TLS library.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Command, Output},
    sync::Arc,
    thread,
};

use luxor_sector::{Disk, DiskOptions, MemoryStorage, Part};
use luxor_serve::{
    Export, Frontend, Listener, Stop, TlsServer,
    nbd::{Server, ServerOptions},
};

use crate::certificates;

/// Makes a client's folder, with the file names that libnbd expects.
fn client(certificates: &Path, name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let copy = |from: String, to| {
        fs::copy(certificates.join(from), folder.path().join(to)).unwrap();
    };
    copy("authority.pem".to_owned(), "ca-cert.pem");
    if !name.is_empty() {
        copy(format!("{name}.pem"), "client-cert.pem");
        copy(format!("{name}.key"), "client-key.pem");
    }
    folder
}

fn nbdcopy(address: SocketAddr, tls: Option<&Path>, output: &Path) -> Output {
    let uri = match tls {
        None => format!("nbd://{address}"),
        Some(folder) => format!(
            "nbds://{address}/disk?tls-certificates={}",
            folder.display()
        ),
    };
    let mut nbdcopy = Command::new("nbdcopy");
    nbdcopy.args(["--connections=4", &uri]).arg(output);
    nbdcopy.output().expect("nbdcopy is installed")
}

#[test]
fn clients_with_a_certificate_read_and_others_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    certificates::make(folder.path());
    let tls = TlsServer::from_pem_files(
        &file("server.pem"),
        &file("server.key"),
        &file("authority.pem"),
    );

    let bytes: Vec<u8> = (0..5_000_001_u32)
        .map(|i| (i.wrapping_mul(i) >> 7).to_le_bytes()[0])
        .collect();
    let part = Part {
        offset: 0,
        len: bytes.len() as u64,
        crypt: None,
    };
    let storage = Arc::new(MemoryStorage::new(bytes.clone()));
    let disk = Disk::new(storage, vec![part], DiskOptions::default()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let options = ServerOptions {
        name: "disk".parse().unwrap(),
        tls: Some(tls.unwrap()),
        ..ServerOptions::default()
    };
    let stop = Stop::new().unwrap();
    let (export, listeners) = (Export::new(Arc::new(disk)), vec![Listener::Tcp(listener)]);
    let server = Box::new(Server::new(export, options, listeners, stop.clone()));
    let running = thread::spawn(move || server.run());

    let copy = file("copy");
    let known = client(folder.path(), "client");
    let output = nbdcopy(address, Some(known.path()), &copy);
    assert!(output.status.success(), "{output:?}");
    assert!(fs::read(&copy).unwrap() == bytes);
    fs::remove_file(&copy).unwrap();

    for name in ["", "strange", "server"] {
        let unknown = client(folder.path(), name);
        let output = nbdcopy(address, Some(unknown.path()), &copy);
        assert!(!output.status.success(), "{name:?} was accepted");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains("TLS"), "{message}");
    }
    let output = nbdcopy(address, None, &copy);
    assert!(
        !output.status.success(),
        "a client was accepted without TLS"
    );
    // The server refused those clients: a client with a good certificate still works.
    let output = nbdcopy(address, Some(known.path()), &copy);
    assert!(output.status.success(), "{output:?}");

    stop.request();
    running.join().unwrap().unwrap();
}
