// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that disconnect, lie, come in large numbers or read no replies. Other clients are still
//! served, and the server's memory stays bounded.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::{
    raw::{Client, EINVAL, FLUSH, READ, WRITE, WRITE_ZEROES, connect, request, write},
    support::{FOR_EVER, Kind, Server, Volume, assert_same, bytes},
};

const LEN: usize = 64 << 20;
const MIB: u64 = 1 << 20;

/// More than the server needs without clients.
const BASE: u64 = 64 * MIB;

/// A well-behaved client.
struct Good {
    client: Client,
    expected: Vec<u8>,
    rounds: u8,
}

impl Good {
    fn new(volume: &Volume, expected: &[u8]) -> Self {
        Self {
            client: Client::new(volume),
            expected: expected.to_vec(),
            rounds: 0,
        }
    }

    /// Reads and writes successfully.
    #[track_caller]
    fn goes_on(&mut self) {
        self.rounds = self.rounds.wrapping_add(1);
        self.client.write(4095, &[self.rounds; 1000]).unwrap();
        self.expected[4095..5095].fill(self.rounds);
        let found = self.client.read(0, 100_000).unwrap();
        assert_same(&found, &self.expected[..100_000]);
    }
}

/// Waits until the server has closed the connection, and returns what it sent before.
fn rest(mut socket: &UnixStream) -> Vec<u8> {
    let mut rest = Vec::new();
    // A reset also ends the connection.
    let _ = socket.read_to_end(&mut rest);
    rest
}

#[test]
fn clients_that_leave_or_lie_do_not_harm_others() {
    let plain = bytes(LEN, 2);
    let volume = Volume::new(Kind::EXAMPLE, &plain);
    let server = volume.serve("");
    let mut good = Good::new(&volume, &plain);

    let option = |number: u32, len: u32| {
        let mut bytes = b"\0\0\0\x03IHAVEOPT".to_vec();
        bytes.extend(number.to_be_bytes());
        bytes.extend(len.to_be_bytes());
        bytes
    };
    let handshakes = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        bytes(100_000, 3),
        vec![0; 1000],
        vec![0xff; 1000],
        // NBD_OPT_GO, NBD_OPT_EXPORT_NAME and NBD_OPT_SET_META_CONTEXT with 4 GiB of data.
        option(7, u32::MAX),
        option(1, u32::MAX),
        option(10, u32::MAX),
        [option(7, 4096), vec![0xff; 4096]].concat(),
        [option(7, 6), u32::MAX.to_be_bytes().to_vec(), vec![0; 2]].concat(),
        option(7, 100),
        option(7, 0)[..5].to_vec(),
    ];
    for said in &handshakes {
        let mut socket = connect(&volume).unwrap();
        // The server may close the connection before everything is sent.
        let _ = socket.write_all(said);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        rest(&socket);
        good.goes_on();
    }

    let write_of = |len: usize| request(WRITE, 0, 1, 1 << 20, len);
    let requests = [
        // Ends in the middle of a request, of the bytes of a write, and of a long write.
        write_of(4096)[..13].to_vec(),
        [write_of(1 << 20), vec![9; 1000]].concat(),
        [write_of(32 << 20), vec![9; 100_000]].concat(),
        // Longer than a write may be, and incomplete.
        [write_of((32 << 20) + 1), vec![9; 1 << 20]].concat(),
        [write_of(u32::MAX as usize), vec![9; 1 << 20]].concat(),
        // Not a request.
        bytes(100_000, 4),
        [vec![0x25, 0x60, 0x95, 0x13], vec![0xff; 1000]].concat(),
    ];
    for said in &requests {
        let mut client = Client::new(&volume);
        let _ = client.0.write_all(said);
        let _ = client.0.shutdown(std::net::Shutdown::Write);
        rest(&client.0);
        good.goes_on();
    }
    let mut liar = Client::new(&volume);
    for (at, len) in [
        (LEN, 1),
        (LEN - 1, 2),
        (0, LEN),
        (usize::MAX, 1),
        (usize::MAX, u32::MAX as usize),
        (0, u32::MAX as usize),
    ] {
        assert_eq!(liar.does(READ, at, len), EINVAL, "{len} bytes at {at}");
    }
    // Clients that disconnect without reading their replies.
    for _ in 0..20 {
        let mut client = Client::new(&volume);
        client.send(&request(READ, 0, 0, 0, 16 << 20).repeat(4));
    }
    assert_same(
        &liar.read(1 << 20, 1 << 20).unwrap(),
        &plain[1 << 20..2 << 20],
    );
    // The memory for their replies is released when the server notices that they are gone.
    let begun = Instant::now();
    while server.memory() > BASE + 32 * MIB {
        assert!(begun.elapsed() < FOR_EVER, "{}", server.memory());
        good.goes_on();
    }
    server.stop();
    assert_same(&volume.decrypted()[..100_000], &good.expected[..100_000]);
}

/// Both this process and the server need this many files.
fn raise_the_limit_of_files() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    assert!(most > 2500, "{most} open files");
}

/// Half of the clients send nothing, the other half take the export and send half of a write.
#[test]
fn a_thousand_clients_do_not_keep_another_out() {
    raise_the_limit_of_files();
    let plain = bytes(1 << 20, 2);
    let volume = Volume::new(Kind::EXAMPLE, &plain);
    let server = volume.serve("");
    let mut good = Good::new(&volume, &plain);
    let mut silent = Vec::new();
    for number in 0..1000 {
        if number % 2 == 0 {
            silent.push(connect(&volume).unwrap());
        } else {
            let mut client = Client::new(&volume);
            client.send(&write(0, 0, 4096, &[9; 4096])[..2000]);
            silent.push(client.0);
        }
    }
    good.goes_on();
    Good::new(&volume, &good.expected).goes_on();
    good.goes_on();
    let memory = server.memory();
    assert!(memory < BASE + 1000 * (MIB / 2), "{memory}");
    drop(silent);
    server.stop();
}

/// When the server has no more file descriptors, it continues to serve its clients, and later
/// accepts new ones.
#[test]
fn a_server_without_file_descriptors_continues() {
    let plain = bytes(1 << 20, 2);
    let volume = Volume::new(Kind::EXAMPLE, &plain);
    let serve = volume.serving("--socket socket");
    let mut shell = volume.command("sh", ["-c", "ulimit -n 40; exec \"$0\" \"$@\""]);
    shell.arg(serve.get_program()).args(serve.get_args());
    let server = Server::start(shell);
    let mut good = Good::new(&volume, &plain);
    let others: Vec<_> = (0..100).map(|_| connect(&volume)).collect();
    for _ in 0..5 {
        good.goes_on();
    }
    assert!(others.iter().filter(|other| other.is_ok()).count() > 40);
    // Silent clients make room for new ones, and not only at the end of their time limit.
    let begun = Instant::now();
    Good::new(&volume, &good.expected).goes_on();
    assert!(begun.elapsed() < Duration::from_secs(20));
    drop(others);
    server.stop();
}

/// Clients that ask for much and read nothing get a bounded share of the memory.
#[test]
fn a_client_that_reads_no_replies_does_not_delay_others() {
    let plain = bytes(LEN, 2);
    let volume = Volume::new(Kind::EXAMPLE, &plain);
    let server = volume.serve("");
    let mut good = Good::new(&volume, &plain);
    let before = server.memory();
    let mut stalled = Vec::new();
    for len in [1 << 20, 32 << 20, 4096] {
        let mut client = Client::new(&volume);
        client.send(&request(READ, 0, 0, 1 << 20, len).repeat(100));
        stalled.push(client);
    }
    for _ in 0..100 {
        good.goes_on();
    }
    let memory = server.memory() - before;
    assert!(memory < 3 * 72 * MIB, "{memory}");
    // The stalled clients can continue too.
    for (client, len) in stalled.iter_mut().zip([1 << 20, 32 << 20, 4096]) {
        assert_eq!(client.reply().unwrap(), (0, 0));
        assert_same(&client.receive(len), &plain[1 << 20..][..len]);
    }
    drop(stalled);
    server.stop();
}

/// A thousand of them share one bound, and other clients are still served.
#[test]
fn a_thousand_clients_that_take_no_replies_share_one_bound() {
    raise_the_limit_of_files();
    let plain = bytes(LEN, 2);
    let volume = Volume::new(Kind::EXAMPLE, &plain);
    let server = volume.serve("");
    let mut good = Good::new(&volume, &plain);
    good.goes_on();
    let before = server.memory();
    let mut hostile = Vec::new();
    for number in 0..1000 {
        let mut client = Client::new(&volume);
        match number % 3 {
            // Replies that the client does not read.
            0 => client.send(&request(READ, 0, 0, 0, 8 << 20).repeat(20)),
            // A write that the client does not send.
            1 => client.send(&request(WRITE, 0, 0, 0, 32 << 20)),
            _ => client.send(&request(READ, 0, 0, 0, 64 << 10).repeat(500)),
        }
        hostile.push(client);
        if number % 50 == 0 {
            good.goes_on();
            let memory = server.memory() - before;
            // The shared budget, and for each client its floor, an inbox and a stack.
            assert!(memory < 256 * MIB + 1000 * (MIB / 2), "{number}: {memory}");
        }
    }
    let large = good.client.read(0, 4 << 20).unwrap();
    assert_same(&large[1 << 20..], &plain[1 << 20..4 << 20]);
    let memory = server.memory() - before;
    assert!(memory < 256 * MIB + 1000 * (MIB / 2), "{memory}");
    drop(hostile);
    good.goes_on();
    server.stop();
}

/// What clients announce costs no more memory than promised, however little they send: a small
/// write that never arrives, or small replies that are not read.
#[test]
fn small_requests_of_many_clients_share_the_same_bound() {
    // Of fewer clients, the unread replies of 4 KiB would stay below the bound anyway.
    const CLIENTS: u64 = 250;

    raise_the_limit_of_files();
    let plain = bytes(32 << 20, 2);
    for message in [
        request(WRITE, 0, 0, 0, 4096),
        request(READ, 0, 0, 0, 4096).repeat(500),
        [
            request(READ, 0, 0, 0, 1),
            request(READ, 0, 0, 0, (1 << 20) - 4096),
        ]
        .concat()
        .repeat(8),
        request(WRITE_ZEROES, 0, 0, 0, 32 << 20),
    ] {
        let volume = Volume::new(Kind::EXAMPLE, &plain);
        let server = volume.serve("");
        let mut good = Good::new(&volume, &plain);
        good.goes_on();
        let before = server.memory();
        let mut hostile = Vec::new();
        for number in 1..=CLIENTS {
            let mut client = Client::new(&volume);
            client.send(&message);
            hostile.push(client);
            if number % 50 == 0 {
                let memory = server.memory().saturating_sub(before);
                assert!(
                    memory < 256 * MIB + number * (MIB / 2),
                    "{number}: {memory}"
                );
            }
        }
        // Requests that have arrived are carried out.
        good.client.read(0, 100_000).unwrap();
        let memory = server.memory().saturating_sub(before);
        assert!(memory < 256 * MIB + CLIENTS * (MIB / 2), "{memory}");
    }
}

/// Requests longer than the memory that each client always has.
#[track_caller]
fn long_requests_are_answered(volume: &Volume, plain: &[u8]) {
    // Its calls fail after FOR_EVER.
    let mut honest = Client::new(volume);
    for len in [256 << 10, 1 << 20, 4 << 20] {
        let found = honest.read(1 << 20, len).unwrap();
        assert_same(&found, &plain[1 << 20..][..len]);
        honest.write(1 << 20, &plain[1 << 20..][..len]).unwrap();
    }
}

/// Clients announce long writes and send a byte of them now and then.
#[test]
fn clients_that_send_slowly_do_not_delay_long_requests() {
    let plain = bytes(LEN, 2);
    let volume = Volume::new(Kind::EXAMPLE, &plain);
    let server = volume.serve("");
    let mut dripping: Vec<_> = (0..8).map(|_| Client::new(&volume)).collect();
    for client in &mut dripping {
        client.send(&request(WRITE, 0, 0, 0, 32 << 20));
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let drip = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for client in &mut dripping {
                    client.send(&[9]);
                }
                thread::sleep(Duration::from_millis(100));
            }
        });
        let honest = scope.spawn(|| long_requests_are_answered(&volume, &plain));
        let answered = honest.join();
        over.store(true, Ordering::Relaxed);
        // No client was disconnected: a slow client may do this too.
        drip.join().unwrap();
        answered.unwrap();
    });
    drop(server);
}

/// Clients ask for much that costs little work, and then announce long writes.
#[test]
fn clients_that_were_busy_do_not_delay_long_requests() {
    raise_the_limit_of_files();
    let plain = bytes(LEN, 2);
    let volume = Volume::new(Kind::EXAMPLE, &plain);
    let server = volume.serve("");
    let mut hostile: Vec<_> = (0..400).map(|_| Client::new(&volume)).collect();
    for client in &mut hostile {
        for _ in 0..20 {
            assert_eq!(client.does(FLUSH, 0, 0), 0);
        }
    }
    for client in &mut hostile {
        client.send(&request(WRITE, 0, 0, 0, 32 << 20));
    }
    long_requests_are_answered(&volume, &plain);
    drop(server);
}

/// A client reads a few bytes of its reply at a time, while others need the memory.
#[test]
fn a_slow_client_is_served_to_the_end() {
    let plain = bytes(LEN, 2);
    let volume = Volume::new(Kind::EXAMPLE, &plain);
    let server = volume.serve("");
    let mut hostile: Vec<_> = (0..8).map(|_| Client::new(&volume)).collect();
    let (last, others) = hostile.split_last_mut().unwrap();
    for client in others {
        client.send(&request(WRITE, 0, 0, 0, 32 << 20));
    }
    let mut slow = Client::new(&volume);
    let len = (2 << 20) - (64 << 10);
    slow.send(&request(READ, 0, 0, 0, len));
    last.send(&request(WRITE, 0, 0, 0, 32 << 20));
    assert_eq!(slow.reply().unwrap(), (0, 0));
    let mut found = Vec::new();
    // Twice as long as an earlier version allowed a stalled client.
    while found.len() < 60 * 20_000 {
        found.extend(slow.receive(20_000));
        thread::sleep(Duration::from_millis(100));
    }
    found.extend(slow.receive(len - found.len()));
    assert_same(&found, &plain[..len]);
    drop(server);
}
