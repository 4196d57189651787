// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that connect, stay and leave.

use std::{
    fs,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use luxor_sector::{
    Disk, DiskOptions, MemoryStorage, Part, Storage,
    faulty::{Faults, FaultyStorage, Operation},
};
use luxor_serve::{
    Export, Frontend, Listener, ServeError, Stop,
    nbd::{Server, ServerOptions},
};
use nix::{
    sys::resource::{Resource, getrlimit, setrlimit},
    unistd::geteuid,
};

use crate::support::{
    CLIENT_FLAGS_AND_EXPORT_NAME, Client, DISCONNECT, FLUSH, FOR_EVER, READ, Running, WRITE,
    at_end, request,
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
fn writes_are_durable_when_the_server_ends() {
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

/// A server of 32 MiB on a TCP socket, and a client that has sent nothing.
struct OverTcp {
    address: SocketAddr,
    client: TcpStream,
    stop: Stop,
    thread: thread::JoinHandle<Result<(), ServeError>>,
}

impl OverTcp {
    fn new() -> Self {
        let len = 32 << 20;
        let part = Part {
            offset: 0,
            len,
            crypt: None,
        };
        let storage = Arc::new(MemoryStorage::new(vec![0; 32 << 20]));
        let disk = Disk::new(storage, vec![part], DiskOptions::default()).unwrap();
        let export = Export::new(Arc::new(disk));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Stop::new().unwrap();
        let (options, listeners) = (ServerOptions::default(), vec![Listener::Tcp(listener)]);
        let server = Box::new(Server::new(export, options, listeners, stop.clone()));
        let thread = thread::spawn(move || server.run());
        let mut client = TcpStream::connect(address).unwrap();
        client.read_exact(&mut [0; 18]).unwrap();
        Self {
            address,
            client,
            stop,
            thread,
        }
    }

    /// Returns the line of the server's socket in `/proc/net/tcp`: number, local and remote
    /// address, state, queues, timer and more. The table is not a snapshot: changes by other
    /// sockets can make a line disappear once.
    fn line(&self) -> Option<Vec<String>> {
        let port = |address: SocketAddr| format!("0100007F:{:04X}", address.port());
        let ends = [port(self.address), port(self.client.local_addr().unwrap())];
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        table
            .lines()
            .map(|line| {
                line.split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .find(|words| words[1..3] == ends)
    }

    fn end(self) {
        drop(self.client);
        self.stop.request();
        self.thread.join().unwrap().unwrap();
    }
}

/// A client on a machine that was lost sends nothing, not even an end, so the kernel has to send
/// keepalive probes.
#[test]
fn clients_over_tcp_are_kept_alive() {
    let server = OverTcp::new();
    let begun = Instant::now();
    loop {
        let line = server.line();
        // 2 is the keepalive timer.
        if line.as_ref().is_some_and(|line| line[5].starts_with("02:")) {
            break;
        }
        assert!(begun.elapsed() < FOR_EVER, "{line:?}");
        thread::sleep(Duration::from_millis(10));
    }
    server.end();
}

/// The kernel buffers little more of a reply than the client's window has room for.
#[test]
fn a_client_that_takes_no_replies_fills_no_send_queue() {
    let mut server = OverTcp::new();
    server
        .client
        .write_all(CLIENT_FLAGS_AND_EXPORT_NAME)
        .unwrap();
    server.client.read_exact(&mut [0; 10]).unwrap();
    let message = request(READ, 0, 7, 0, 32 << 20);
    server.client.write_all(&message).unwrap();
    let begun = Instant::now();
    let (mut queued, mut quiet) = (0, 0);
    while quiet < 50 {
        assert!(begun.elapsed() < FOR_EVER);
        thread::sleep(Duration::from_millis(10));
        if let Some(line) = server.line() {
            let (to_send, _) = line[4].split_once(':').unwrap();
            let now = u32::from_str_radix(to_send, 16).unwrap();
            quiet = if now > 0 && now == queued {
                quiet + 1
            } else {
                0
            };
            queued = now;
        }
    }
    assert!(queued < 512 << 10, "{queued} bytes");
    server.end();
}

/// A caller that waits for the server's end can then use what its disk has locked.
#[test]
fn the_server_releases_the_disk_when_it_ends() {
    for round in 0..500 {
        let part = Part {
            offset: 0,
            len: 8192,
            crypt: None,
        };
        let storage = Arc::new(MemoryStorage::new(vec![0; 8192]));
        let used = Arc::downgrade(&storage);
        let disk = Disk::new(storage, vec![part], DiskOptions::default()).unwrap();
        let running = Running::of_disk(disk, ServerOptions::default());
        for mut client in [running.client(), running.client()] {
            client.write(0, b"here");
        }
        running.end().unwrap();
        assert!(used.upgrade().is_none(), "round {round}");
    }
}

/// The time limit for the client begins when there is something to receive.
#[test]
fn a_flush_that_takes_long_is_answered_before_the_end() {
    let storage = Arc::new(SlowSync {
        memory: MemoryStorage::new(vec![0; 8192]),
        begun: AtomicBool::new(false),
    });
    let running = Running::new(storage.clone(), ServerOptions::default());
    let mut client = running.client();
    client.write(0, b"here");
    client.send(FLUSH, 0, 9, 0, 0);
    while !storage.begun.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(1));
    }
    running.end().unwrap();
    assert_eq!(client.done(), 9);
    at_end(&mut client.0);
}

/// A disk that writes for longer than the server waits for clients.
struct SlowSync {
    memory: MemoryStorage,
    begun: AtomicBool,
}

impl Storage for SlowSync {
    fn len(&self) -> io::Result<u64> {
        self.memory.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.memory.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.memory.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.begun.store(true, Ordering::SeqCst);
        thread::sleep(Duration::from_secs(11));
        Ok(())
    }
}

#[test]
fn a_failed_flush_at_the_end_is_an_error() {
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
fn the_last_client_ends_a_server_with_exit_on_idle() {
    let storage = Arc::new(FaultyStorage::new(vec![0; 8192]));
    let options = ServerOptions {
        exit_on_idle: true,
        ..ServerOptions::default()
    };
    let running = Running::new(storage, options);
    // A connection without a handshake does not count as a client.
    drop(running.connect());
    let (first, mut second) = (running.client(), running.client());
    drop(first);
    second.write(0, b"still there");
    assert!(!running.thread.is_finished());
    second.send(DISCONNECT, 0, 0, 0, 0);
    running.thread.join().unwrap().unwrap();
}

#[test]
fn the_number_of_clients_is_limited() {
    let storage = Arc::new(FaultyStorage::new(vec![0; 8192]));
    let options = ServerOptions {
        max_clients: 2,
        ..ServerOptions::default()
    };
    let running = Running::new(storage, options);
    let (mut first, second) = (running.client(), running.client());
    at_end(&mut running.connect());
    drop(second);
    // A client that leaves makes room, as soon as the server notices.
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

/// Clients that have not completed a handshake make room for new ones.
#[test]
fn clients_that_say_nothing_take_no_places() {
    let storage = Arc::new(FaultyStorage::new(vec![0; 8192]));
    let options = ServerOptions {
        max_clients: 3,
        ..ServerOptions::default()
    };
    let running = Running::new(storage, options);
    let mut served = running.client();
    let begun = Instant::now();
    let mut silent = [running.connect(), running.connect()];
    for client in &mut silent {
        client.read_exact(&mut [0; 18]).unwrap();
    }
    let mut late = loop {
        let mut client = running.connect();
        if client.read_exact(&mut [0; 18]).is_ok() {
            break client;
        }
        assert!(begun.elapsed() < Duration::from_secs(25));
        thread::sleep(Duration::from_millis(10));
    };
    // At first they get time to send something.
    assert!(begun.elapsed() >= Duration::from_secs(1));
    late.write_all(CLIENT_FLAGS_AND_EXPORT_NAME).unwrap();
    let mut late = Client(late);
    late.receive(10);
    late.write(0, b"late");
    assert_eq!(served.read(0, 4), b"late");
    // Only the first of them had to go.
    at_end(&mut silent[0]);
    silent[1].write_all(CLIENT_FLAGS_AND_EXPORT_NAME).unwrap();
    silent[1].read_exact(&mut [0; 10]).unwrap();
    running.end().unwrap();
}

/// Refusing a client costs almost no time.
#[test]
fn other_users_are_refused_without_delay() {
    // Only root can act as another user.
    if !geteuid().is_root() {
        return;
    }
    let storage = Arc::new(FaultyStorage::new(vec![0; 8192]));
    let running = Running::new(storage, ServerOptions::default());
    // If the server slept ten milliseconds for each, a hundred refusals would always take at least
    // a second. On a busy machine they may too, but sooner or later a round is faster.
    let comes = "import socket, sys, time\n\
                 end = time.monotonic() + 60\n\
                 while time.monotonic() < end:\n \
                 begun = time.monotonic()\n \
                 for _ in range(100):\n  \
                 other = socket.socket(socket.AF_UNIX)\n  \
                 other.connect('\\0' + sys.argv[1])\n  \
                 assert other.recv(1) == b''\n \
                 if time.monotonic() - begun < 1: sys.exit(0)\n\
                 sys.exit('they are held up')";
    let mut other = Command::new("/usr/bin/python3");
    other.args(["-c", comes, running.name()]).uid(65534);
    assert!(other.status().unwrap().success());
    running.client().write(0, b"ours");
    running.end().unwrap();
}

#[test]
fn a_thousand_clients_that_say_nothing_do_not_keep_another_out() {
    // Both ends of each connection are files of this process.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    assert!(most > 2500, "{most} open files");
    let storage = Arc::new(FaultyStorage::new(vec![7; 8192]));
    let options = ServerOptions {
        max_clients: 2000,
        ..ServerOptions::default()
    };
    let running = Running::new(storage, options);
    // Half of them are in the handshake, the other half have sent half a request.
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
        // A server that has not read the half request yet ends the connection by a reset.
        match client.read(&mut [0]) {
            Ok(0) => (),
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => (),
            other => panic!("{other:?}"),
        }
    }
}
