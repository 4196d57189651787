// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that come, stay and go.

use std::{
    io::{Read, Write},
    sync::Arc,
};

use luxor_sector::faulty::{Faults, FaultyStorage, Operation};
use luxor_serve::nbd::{ServeError, ServerOptions};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::support::{
    CLIENT_FLAGS_AND_EXPORT_NAME, Client, DISCONNECT, Running, WRITE, at_end, request,
};

#[test]
fn clients_see_each_others_writes_and_a_flush_covers_all() {
    let storage = Arc::new(FaultyStorage::new(vec![0; 8192]));
    let running = Running::new(storage.clone(), ServerOptions::default());
    let (mut a, mut b) = (running.client(), running.client());
    a.write(100, b"from a");
    assert_eq!(b.read(100, 6), b"from a");
    b.write(4096, b"from b");
    a.flush();
    let operations = storage.operations();
    assert_eq!(operations.len(), 3);
    assert!(matches!(operations[2], Operation::Sync(_)));
    running.end().unwrap();
    at_end(&mut a.0);
    at_end(&mut b.0);
}

#[test]
fn what_was_written_is_durable_at_the_end() {
    let storage = Arc::new(FaultyStorage::new(vec![0; 8192]));
    let running = Running::new(storage.clone(), ServerOptions::default());
    let mut client = running.client();
    client.write(0, b"here");
    assert_eq!(storage.operation_count(), 1);
    running.end().unwrap();
    assert!(matches!(
        storage.operations().last(),
        Some(Operation::Sync(_))
    ));
}

#[test]
fn what_cannot_be_made_durable_at_the_end_is_an_error() {
    let faults = Faults {
        fail_sync_after: Some(0),
        ..Faults::default()
    };
    let storage = Arc::new(FaultyStorage::with_faults(vec![0; 8192], faults));
    let running = Running::new(storage, ServerOptions::default());
    running.client().write(0, b"here");
    let error = running.end().unwrap_err();
    assert!(matches!(error, ServeError::Flush { .. }), "{error}");
}

#[test]
fn a_stop_ends_handshakes_and_idle_clients() {
    let storage = Arc::new(FaultyStorage::new(vec![0; 8192]));
    let running = Running::new(storage, ServerOptions::default());
    let mut silent = running.connect();
    silent.read_exact(&mut [0; 18]).unwrap();
    let mut idle = running.client();
    running.end().unwrap();
    at_end(&mut silent);
    at_end(&mut idle.0);
}

#[test]
fn the_last_client_ends_a_server_that_was_told_so() {
    let storage = Arc::new(FaultyStorage::new(vec![0; 8192]));
    let options = ServerOptions {
        exit_on_idle: true,
        ..ServerOptions::default()
    };
    let running = Running::new(storage, options);
    // Who only looks in is no client.
    drop(running.connect());
    let (first, mut second) = (running.client(), running.client());
    drop(first);
    second.write(0, b"still there");
    assert!(!running.thread.is_finished());
    second.send(DISCONNECT, 0, 0, 0, 0);
    running.thread.join().unwrap().unwrap();
}

#[test]
fn there_are_only_so_many_clients() {
    let storage = Arc::new(FaultyStorage::new(vec![0; 8192]));
    let options = ServerOptions {
        max_clients: 2,
        ..ServerOptions::default()
    };
    let running = Running::new(storage, options);
    let (mut first, second) = (running.client(), running.client());
    at_end(&mut running.connect());
    drop(second);
    // One that leaves makes room, as soon as it is noticed.
    let mut third = loop {
        let mut client = running.connect();
        if client.read_exact(&mut [0; 18]).is_ok() {
            break client;
        }
    };
    third.write_all(CLIENT_FLAGS_AND_EXPORT_NAME).unwrap();
    let mut third = Client(third);
    third.receive(10);
    third.write(0, b"third");
    assert_eq!(first.read(0, 5), b"third");
    running.end().unwrap();
}

#[test]
fn a_thousand_clients_that_say_nothing_do_not_keep_another_out() {
    // Both ends of each are files of this process.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    assert!(most > 2500, "{most} open files");
    let storage = Arc::new(FaultyStorage::new(vec![7; 8192]));
    let options = ServerOptions {
        max_clients: 2000,
        ..ServerOptions::default()
    };
    let running = Running::new(storage, options);
    // Half of them in the handshake, half with the export and half a request.
    let mut silent: Vec<_> = (0..500).map(|_| running.connect()).collect();
    for _ in 0..400 {
        let mut client = running.client();
        client
            .0
            .write_all(&request(WRITE, 0, 0, 0, 8192)[..20])
            .unwrap();
        silent.push(client.0);
    }
    assert_eq!(running.client().read(0, 4), [7; 4]);
    running.end().unwrap();
    for client in &mut silent[500..] {
        at_end(client);
    }
}
