// SPDX-License-Identifier: MIT OR Apache-2.0
//! The statistics of `serve` and `mount`.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

use nix::sys::signal::Signal;

use crate::{
    serve::{FOR_EVER, Server, prepared, read_all, serve},
    support::{bytes, luxor},
};

/// Returns the requests, errors and MiB in the row of an operation.
fn row<'a>(table: &'a str, operation: &str) -> Vec<&'a str> {
    let row = table.lines().find(|line| line.starts_with(operation));
    let row = row.unwrap_or_else(|| panic!("no {operation} in {table}"));
    row.split_whitespace().skip(1).take(3).collect()
}

#[test]
fn a_table_on_a_signal_and_at_the_end() {
    let plain = bytes(3 << 20, 1);
    let folder = prepared(&plain);
    let server = Server::start(&folder, "--stats --socket socket volume");
    assert!(read_all(&server.uri, &folder) == plain);
    server.signal(Signal::SIGUSR1);
    let mut table = String::new();
    while !table.contains("engine:") {
        table += &server.stderr.recv_timeout(FOR_EVER).unwrap();
        table += "\n";
    }
    assert!(table.starts_with("operation "), "{table}");
    assert_eq!(row(&table, "read")[1..], ["0", "3.0"]);
    assert!(table.contains("engine: 3.0 MiB in "), "{table}");

    assert!(read_all(&server.uri, &folder) == plain);
    server.signal(Signal::SIGTERM);
    let (code, table) = server.ended();
    assert_eq!(code, Some(0));
    assert_eq!(row(&table, "read")[1..], ["0", "6.0"]);

    // Without the option the signal still prints the table, but nothing is printed at the end.
    let server = Server::start(&folder, "--socket socket volume");
    server.signal(Signal::SIGUSR1);
    let first = server.stderr.recv_timeout(FOR_EVER).unwrap();
    assert!(first.starts_with("operation "), "{first}");
    let second = server.stderr.recv_timeout(FOR_EVER).unwrap();
    assert_eq!(second, "engine: 0.0 MiB in 0 calls, 0.000 ms");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended(), (Some(0), String::new()));
}

#[test]
fn a_page_for_prometheus() {
    let plain = bytes(1 << 20, 2);
    let folder = prepared(&plain);
    let server = Server::start(
        &folder,
        "--metrics-listen 127.0.0.1:0 --socket socket volume",
    );
    let said = server.stderr.recv_timeout(FOR_EVER).unwrap();
    let address = said
        .strip_prefix("luxor: metrics at http://")
        .and_then(|rest| rest.strip_suffix("/metrics"))
        .unwrap_or_else(|| panic!("{said}"));
    assert!(read_all(&server.uri, &folder) == plain);
    let begun = Instant::now();
    let page = loop {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(FOR_EVER)).unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let mut page = String::new();
        let asked = client.write_all(request);
        match asked.and_then(|()| client.read_to_string(&mut page)) {
            Ok(1..) => break page,
            // On a busy machine this client may be too slow, and is then disconnected.
            left => assert!(begun.elapsed() < FOR_EVER, "{left:?}"),
        }
    };
    let line = "luxor_request_bytes_total{operation=\"read\"} 1048576";
    assert!(page.lines().any(|found| found == line), "{page}");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().0, Some(0));
}

#[test]
fn metrics_are_served_on_loopback_only() {
    let folder = prepared(b"plain");
    for command in ["serve --socket socket volume", "mount volume key"] {
        luxor(command)
            .args(["--key-file", "key", "--metrics-listen", "0.0.0.0:9100"])
            .current_dir(folder.path())
            .fails(1, "can be reached from other machines");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    serve(
        &folder,
        &format!("--metrics-listen {address} --socket socket volume"),
    )
    .fails(1, "cannot listen on");
}
