// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server as a whole: clients that come, stay and go.

use std::{
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use luxor_sector::{
    Disk, DiskOptions, Part, Storage,
    faulty::{Faults, FaultyStorage, Operation},
};
use luxor_serve::nbd::{Listener, ServeError, Server, ServerOptions, Stop};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

struct Running {
    folder: tempfile::TempDir,
    stop: Stop,
    thread: JoinHandle<Result<(), ServeError>>,
}

impl Running {
    fn new(storage: Arc<dyn Storage>, options: ServerOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        let part = Part {
            offset: 0,
            len: storage.len().unwrap(),
            crypt: None,
        };
        let disk = Disk::new(storage, vec![part], DiskOptions::default()).unwrap();
        let server = Arc::new(Server::new(Arc::new(disk), options));
        let stop = Stop::new().unwrap();
        let stopped = stop.clone();
        let thread = thread::spawn(move || server.run(&[Listener::Unix(listener)], &stopped));
        Self {
            folder,
            stop,
            thread,
        }
    }

    fn connect(&self) -> UnixStream {
        let client = UnixStream::connect(self.folder.path().join("socket")).unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        client
    }

    /// A client that has taken the export.
    fn client(&self) -> UnixStream {
        let mut client = self.connect();
        receive(&mut client, 18);
        // Client flags; NBD_OPT_EXPORT_NAME of the default export.
        client
            .write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0")
            .unwrap();
        receive(&mut client, 10);
        client
    }

    fn end(self) -> Result<(), ServeError> {
        self.stop.request();
        self.thread.join().unwrap()
    }
}

fn receive(client: &mut UnixStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    client.read_exact(&mut bytes).unwrap();
    bytes
}

fn request(command: u16, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = b"\x25\x60\x95\x13\0\0".to_vec();
    bytes.extend(command.to_be_bytes());
    bytes.extend(b"COOKIE12");
    bytes.extend(offset.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}

const DONE: &[u8] = b"\x67\x44\x66\x98\0\0\0\0COOKIE12";

fn write(client: &mut UnixStream, offset: u64, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).unwrap();
    client.write_all(&request(1, offset, len)).unwrap();
    client.write_all(bytes).unwrap();
    assert_eq!(receive(client, 16), DONE);
}

fn read(client: &mut UnixStream, offset: u64, len: u32) -> Vec<u8> {
    client.write_all(&request(0, offset, len)).unwrap();
    assert_eq!(receive(client, 16), DONE);
    receive(client, len as usize)
}

fn at_end(client: &mut UnixStream) {
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "{rest:?}");
}

#[test]
fn clients_see_each_others_writes_and_a_flush_covers_all() {
    let storage = Arc::new(FaultyStorage::new(vec![0; 8192]));
    let running = Running::new(storage.clone(), ServerOptions::default());
    let (mut a, mut b) = (running.client(), running.client());
    write(&mut a, 100, b"from a");
    assert_eq!(read(&mut b, 100, 6), b"from a");
    write(&mut b, 4096, b"from b");
    a.write_all(&request(3, 0, 0)).unwrap();
    assert_eq!(receive(&mut a, 16), DONE);
    let operations = storage.operations();
    assert_eq!(operations.len(), 3);
    assert!(matches!(operations[2], Operation::Sync(_)));
    running.end().unwrap();
    at_end(&mut a);
    at_end(&mut b);
}

#[test]
fn what_was_written_is_durable_at_the_end() {
    let storage = Arc::new(FaultyStorage::new(vec![0; 8192]));
    let running = Running::new(storage.clone(), ServerOptions::default());
    let mut client = running.client();
    write(&mut client, 0, b"here");
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
    write(&mut running.client(), 0, b"here");
    let error = running.end().unwrap_err();
    assert!(matches!(error, ServeError::Flush { .. }), "{error}");
}

#[test]
fn a_stop_ends_handshakes_and_idle_clients() {
    let storage = Arc::new(FaultyStorage::new(vec![0; 8192]));
    let running = Running::new(storage, ServerOptions::default());
    let mut silent = running.connect();
    receive(&mut silent, 18);
    let mut idle = running.client();
    running.end().unwrap();
    at_end(&mut silent);
    at_end(&mut idle);
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
    write(&mut second, 0, b"still there");
    assert!(!running.thread.is_finished());
    second.write_all(&request(2, 0, 0)).unwrap();
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
    third
        .write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0")
        .unwrap();
    receive(&mut third, 10);
    write(&mut third, 0, b"third");
    assert_eq!(read(&mut first, 0, 5), b"third");
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
        client.write_all(&request(1, 0, 8192)[..20]).unwrap();
        silent.push(client);
    }
    assert_eq!(read(&mut running.client(), 0, 4), [7; 4]);
    running.end().unwrap();
    for client in &mut silent[500..] {
        at_end(client);
    }
}
