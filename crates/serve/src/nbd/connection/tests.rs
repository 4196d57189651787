// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests raw requests over a socket, and their replies byte by byte.

mod stops;

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use luxor_sector::{
    DiskOptions, MemoryStorage, Part, Storage,
    faulty::{Faults, FaultyStorage, Operation},
};

use super::*;
use crate::nbd::wire::TransmissionFlags;

const SIZE: usize = 64 << 20;

const FLAGS: TransmissionFlags = TransmissionFlags::HAS_FLAGS
    .with(TransmissionFlags::SEND_FLUSH)
    .with(TransmissionFlags::SEND_FUA)
    .with(TransmissionFlags::SEND_DF)
    .with(TransmissionFlags::SEND_TRIM)
    .with(TransmissionFlags::SEND_WRITE_ZEROES)
    .with(TransmissionFlags::SEND_CACHE);

/// A client, and the thread of its connection.
struct Session {
    client: UnixStream,
    connection: Arc<Connection>,
    thread: Option<JoinHandle<()>>,
    next: u64,
}

impl Session {
    fn new(storage: Arc<dyn Storage>, structured_replies: bool) -> Self {
        let (client, ours) = UnixStream::pair().unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let (connection, thread) = serve(Arc::new(ours), storage, structured_replies);
        Self {
            client,
            connection,
            thread: Some(thread),
            next: 0x0102_0304_0506_0700,
        }
    }

    fn memory() -> Self {
        let bytes = original(0, SIZE);
        Self::new(Arc::new(MemoryStorage::new(bytes)), false)
    }

    fn request(&mut self, command: u16, flags: u16, offset: u64, len: u32) -> Vec<u8> {
        self.next += 1;
        request(self.next, command, flags, offset, len)
    }

    fn send(&mut self, command: u16, flags: u16, offset: u64, len: u32) {
        let bytes = self.request(command, flags, offset, len);
        self.client.write_all(&bytes).unwrap();
    }

    fn receive(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.client.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Receives a simple reply and returns its error and cookie.
    fn reply(&mut self) -> (u32, u64) {
        let bytes = self.receive(16);
        assert_eq!(bytes[..4], [0x67, 0x44, 0x66, 0x98]);
        let error = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
        (error, u64::from_be_bytes(bytes[8..].try_into().unwrap()))
    }

    fn do_one(&mut self, command: u16, flags: u16, offset: u64, len: u32) -> u32 {
        self.send(command, flags, offset, len);
        let (error, cookie) = self.reply();
        assert_eq!(cookie, self.next);
        error
    }

    /// Closes the client's side and waits for the connection to end.
    fn end(&mut self) {
        self.client.shutdown(std::net::Shutdown::Write).unwrap();
        self.thread.take().unwrap().join().unwrap();
        let mut rest = Vec::new();
        self.client.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty(), "{rest:?}");
    }
}

fn serve(
    channel: Arc<dyn Channel>,
    storage: Arc<dyn Storage>,
    structured_replies: bool,
) -> (Arc<Connection>, JoinHandle<()>) {
    let connection = agreed(channel, storage, structured_replies);
    let served = Arc::clone(&connection);
    let thread = thread::spawn(move || {
        served.serve();
        served.wait();
    });
    (connection, thread)
}

/// A connection that no thread serves yet.
fn agreed(
    channel: Arc<dyn Channel>,
    storage: Arc<dyn Storage>,
    structured_replies: bool,
) -> Arc<Connection> {
    let part = Part {
        offset: 0,
        len: storage.len().unwrap(),
        crypt: None,
    };
    let options = DiskOptions {
        allow_discards: true,
        ..DiskOptions::default()
    };
    let disk = Disk::new(storage, vec![part], options).unwrap();
    let agreed = Agreed {
        size: disk.len(),
        flags: FLAGS,
        structured_replies,
        base_allocation: structured_replies,
    };
    let export = Export::new(Arc::new(disk));
    let peer = Peer::Process { pid: 1, uid: 0 };
    Connection::new(channel, peer, agreed, export, Arc::default())
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.thread.is_some() && !thread::panicking() {
            self.end();
        }
    }
}

fn request(cookie: u64, command: u16, flags: u16, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = vec![0x25, 0x60, 0x95, 0x13];
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISC: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const WRITE_ZEROES: u16 = 6;
const BLOCK_STATUS: u16 = 7;
const FUA: u16 = 1;

/// The initial contents of [`Session::memory`].
fn original(offset: usize, len: usize) -> Vec<u8> {
    let byte = |at: usize| (at / 4).to_le_bytes()[at % 4];
    (offset..offset + len).map(byte).collect()
}

#[test]
fn reads_and_writes_of_any_length() {
    let mut session = Session::memory();
    for (offset, len) in [
        (0, 1),
        (4096, 4096),
        (1, 1000),
        (12345, 65536),
        (65535, (256 << 10) + 1),
        (0, (1 << 20) + 1),
        (SIZE - (32 << 20), 32 << 20),
    ] {
        let (at, count) = (offset as u64, u32::try_from(len).unwrap());
        assert_eq!(session.do_one(READ, 0, at, count), 0);
        assert!(session.receive(len) == original(offset, len));

        let bytes: Vec<u8> = original(offset + 7, len);
        let message = session.request(WRITE, 0, at, count);
        session.client.write_all(&message).unwrap();
        session.client.write_all(&bytes).unwrap();
        assert_eq!(session.reply(), (0, session.next));
        assert_eq!(session.do_one(READ, 0, at, count), 0);
        assert!(session.receive(len) == bytes);

        let message = session.request(WRITE, 0, at, count);
        session
            .client
            .write_all(&[message, original(offset, len)].concat())
            .unwrap();
        assert_eq!(session.reply(), (0, session.next));
    }
}

/// Sends many requests in one message, in messages of any length, and byte by byte.
#[test]
fn requests_may_arrive_in_pieces_of_any_length() {
    let mut stream = Vec::new();
    let mut expected = Vec::new();
    for k in 0..40_u64 {
        let (offset, len) = (k * 5000, 100 + 37 * u32::try_from(k).unwrap());
        if k % 3 == 0 {
            stream.extend(request(k, WRITE, 0, offset, len));
            stream.extend(original(usize::try_from(offset).unwrap(), len as usize));
        } else {
            stream.extend(request(k, READ, 0, offset, len));
        }
        expected.push((k, k % 3 != 0, offset, len));
    }
    for step in [1, 27, 28, 29, 1000, 4096, stream.len()] {
        let mut session = Session::memory();
        let mut client = session.client.try_clone().unwrap();
        let bytes = stream.clone();
        let writer = thread::spawn(move || {
            for piece in bytes.chunks(step) {
                client.write_all(piece).unwrap();
            }
        });
        let mut left = expected.clone();
        while !left.is_empty() {
            let (error, cookie) = session.reply();
            assert_eq!(error, 0);
            let found = left.iter().position(|(k, ..)| *k == cookie);
            let (_, read, offset, len) = left.remove(found.expect("each reply arrives once"));
            if read {
                let bytes = session.receive(len as usize);
                assert!(bytes == original(usize::try_from(offset).unwrap(), len as usize));
            }
        }
        writer.join().unwrap();
    }
}

#[test]
fn structured_replies_byte_by_byte() {
    let storage = Arc::new(MemoryStorage::new((0..=255).cycle().take(8192).collect()));
    let mut session = Session::new(storage, true);
    session.send(READ, 0, 4094, 4);
    assert_eq!(
        session.receive(20 + 8 + 4),
        b"\x66\x8e\x33\xef\0\x01\0\x01\x01\x02\x03\x04\x05\x06\x07\x01\0\0\0\x0c\
          \0\0\0\0\0\0\x0f\xfe\xfe\xff\x00\x01"
    );
    session.send(BLOCK_STATUS, 0, 0, 8192);
    assert_eq!(
        session.receive(20 + 4 + 8),
        b"\x66\x8e\x33\xef\0\x01\0\x05\x01\x02\x03\x04\x05\x06\x07\x02\0\0\0\x0c\
          \0\0\0\x01\0\0\x20\0\0\0\0\0"
    );
    session.send(READ, 0, 8192, 1);
    let head = session.receive(20);
    assert_eq!(head[4..8], [0, 1, 0x80, 1]);
    let len = u32::from_be_bytes(head[16..].try_into().unwrap());
    let payload = session.receive(len as usize);
    assert_eq!(payload[..4], 22_u32.to_be_bytes());
    assert!(payload[6..].ends_with(b"beyond the end of the export"));
    // Commands without data have a simple reply even with structured replies.
    assert_eq!(session.do_one(FLUSH, 0, 0, 0), 0);
}

#[test]
fn every_command_reaches_the_disk() {
    let storage = Arc::new(FaultyStorage::new(vec![7; 8192]));
    let mut session = Session::new(storage.clone(), false);
    let log = || {
        let operations = storage.operations();
        operations
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(session.do_one(CACHE, 0, 0, 8192), 0);
    assert_eq!(session.do_one(FLUSH, 0, 0, 0), 0);
    assert_eq!(log(), [""; 0]);
    assert_eq!(session.do_one(WRITE_ZEROES, 0, 0, 4096), 0);
    assert_eq!(session.do_one(FLUSH, 0, 0, 0), 0);
    assert_eq!(session.do_one(WRITE_ZEROES, FUA, 4096, 100), 0);
    let message = session.request(WRITE, FUA, 4196, 4);
    session
        .client
        .write_all(&[&message[..], b"here"].concat())
        .unwrap();
    assert_eq!(session.reply().0, 0);
    assert_eq!(
        log(),
        [
            "write of 4096 bytes at 0",
            "sync",
            "write of 100 bytes at 4096",
            "sync",
            "write of 4 bytes at 4196",
            "sync",
        ]
    );
    let bytes = storage.to_bytes();
    assert!(bytes[..4196].iter().all(|&b| b == 0) && &bytes[4196..4200] == b"here");
    assert_eq!(session.do_one(TRIM, 0, 0, 4096), 0);
    let before = log().len();
    assert_eq!(session.do_one(TRIM, FUA, 4096, 4096), 0);
    assert_eq!(log()[before..].last().map(String::as_str), Some("sync"));
}

#[test]
fn a_refused_request_leaves_the_stream_in_step() {
    let mut session = Session::memory();
    let size = SIZE as u64;
    assert_eq!(session.do_one(READ, 0, size, 1), 22);
    assert_eq!(session.do_one(READ, 0, 0, (32 << 20) + 1), 22);
    assert_eq!(session.do_one(READ, 0, u64::MAX, 1), 22);
    assert_eq!(session.do_one(9, 0, 0, 1), 22);
    assert_eq!(session.do_one(BLOCK_STATUS, 0, 0, 1), 22);
    // The bytes of a refused write are skipped, however many there are.
    for (offset, len, error) in [
        (size, 5, 28),
        (size - 1, 700_000, 28),
        (0, (32 << 20) + 1, 22),
    ] {
        let message = session.request(WRITE, 0, offset, len);
        session.client.write_all(&message).unwrap();
        session.client.write_all(&vec![9; len as usize]).unwrap();
        assert_eq!(session.reply(), (error, session.next));
    }
    assert_eq!(session.do_one(READ, 0, size - 4, 4), 0);
    assert_eq!(session.receive(4), original(SIZE - 4, 4));
}

#[test]
fn errors_of_the_storage_reach_the_client() {
    let faults = Faults {
        fail_read_after: Some(1),
        fail_sync_after: Some(1),
        fail_write_after: Some(2),
        ..Faults::default()
    };
    let storage = Arc::new(FaultyStorage::with_faults(vec![7; 8192], faults));
    let mut session = Session::new(storage.clone(), false);
    let write = |session: &mut Session, flags| {
        let message = session.request(WRITE, flags, 0, 4);
        session
            .client
            .write_all(&[&message[..], b"here"].concat())
            .unwrap();
        session.reply().0
    };
    assert_eq!(write(&mut session, FUA), 0);
    assert_eq!(write(&mut session, FUA), 5, "the sync failed");
    assert_eq!(write(&mut session, 0), 5, "the write failed");
    assert_eq!(write(&mut session, 0), 0);
    assert_eq!(
        session.do_one(FLUSH, 0, 0, 0),
        5,
        "a failed flush stays failed"
    );
    assert_eq!(session.do_one(READ, 0, 0, 4), 0);
    assert_eq!(session.receive(4), b"here");
    assert_eq!(session.do_one(READ, 0, 0, 4), 5);
    assert_eq!(session.do_one(READ, 0, 0, 4), 0);
    session.receive(4);
}

#[test]
fn garbage_and_cut_off_requests_end_the_connection_alone() {
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
        &request(1, READ, 0, 0, 4)[..27],
        &[request(1, WRITE, 0, 0, 100), vec![1; 99]].concat()[..],
        &[request(1, WRITE, 0, 0, 1 << 20), vec![1; 99]].concat()[..],
    ] {
        let mut session = Session::memory();
        session.client.write_all(bytes).unwrap();
        session.end();
    }
    // A write that was received only in part changes nothing.
    let storage = Arc::new(FaultyStorage::new(vec![7; 8192]));
    let mut session = Session::new(storage.clone(), false);
    session
        .client
        .write_all(&request(1, WRITE, 0, 0, 100))
        .unwrap();
    session.client.write_all(&[1; 99]).unwrap();
    session.end();
    assert_eq!(storage.operations(), []);
}

#[test]
fn a_disconnect_waits_for_earlier_requests() {
    let storage = Arc::new(FaultyStorage::new(vec![7; 8192]));
    let mut session = Session::new(storage, false);
    let mut bytes = Vec::new();
    for k in 0..20 {
        bytes.extend(request(k, READ, 0, k * 100, 100));
    }
    bytes.extend(request(99, DISC, 0, 0, 0));
    bytes.extend(request(100, READ, 0, 0, 100));
    session.client.write_all(&bytes).unwrap();
    let mut replies = Vec::new();
    session.client.read_to_end(&mut replies).unwrap();
    assert_eq!(replies.len(), 20 * 116);
    session.thread.take().unwrap().join().unwrap();
}

/// Storage that blocks reads beyond byte 4096, and syncs, until it is opened.
struct Gate {
    memory: MemoryStorage,
    open: AtomicBool,
    waiting: AtomicU32,
}

impl Gate {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            memory: MemoryStorage::new(vec![7; 1 << 20]),
            open: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
        })
    }

    fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while !self.open.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Storage for Gate {
    fn len(&self) -> io::Result<u64> {
        self.memory.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if offset >= 4096 {
            self.wait();
        }
        self.memory.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.memory.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.wait();
        Ok(())
    }
}

#[test]
fn other_requests_continue_while_one_waits_for_the_disk() {
    let gate = Gate::new();
    let mut session = Session::new(gate.clone(), false);
    let connection = Arc::clone(&session.connection);
    // The requests that block first are found by `look`.
    let first = session.request(READ, 0, 8192, 1);
    let second = session.request(READ, 0, 8192, 1);
    session.client.write_all(&[first, second].concat()).unwrap();
    let slow = [session.next - 1, session.next];
    while gate.waiting.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    for _ in 0..10 {
        let bytes = session.request(READ, 0, 0, 4);
        session.client.write_all(&bytes).unwrap();
        connection.call_if_stuck();
        connection.call_if_stuck();
        assert_eq!(session.reply(), (0, session.next));
        session.receive(4);
    }
    // A flush is known to be slow, so another thread is called at once.
    let message = session.request(WRITE, 0, 0, 4);
    session
        .client
        .write_all(&[&message[..], b"here"].concat())
        .unwrap();
    assert_eq!(session.reply().0, 0);
    session.send(FLUSH, 0, 0, 0);
    let flush = session.next;
    while gate.waiting.load(Ordering::SeqCst) == 1 {
        thread::yield_now();
    }
    assert_eq!(session.do_one(READ, 0, 0, 4), 0);
    assert_eq!(session.receive(4), b"here");
    gate.open.store(true, Ordering::SeqCst);
    let mut cookies = Vec::new();
    for _ in 0..3 {
        let (error, cookie) = session.reply();
        assert_eq!(error, 0);
        if slow.contains(&cookie) {
            session.receive(1);
        }
        cookies.push(cookie);
    }
    cookies.sort_unstable();
    assert_eq!(cookies, [slow[0], slow[1], flush]);
}

/// Without `look`, and only while no other thread is working.
#[test]
fn a_thread_with_a_single_request_hands_over_the_inbox() {
    let gate = Gate::new();
    let mut session = Session::new(gate.clone(), false);
    for _ in 0..10 {
        assert_eq!(session.do_one(READ, 0, 0, 1), 0);
        session.receive(1);
        assert_eq!(session.connection.lock().threads, 2);
    }
    session.send(READ, 0, 8192, 1);
    let slow = session.next;
    while gate.waiting.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    for _ in 0..10 {
        assert_eq!(session.do_one(READ, 0, 0, 1), 0);
        session.receive(1);
        assert_eq!(session.connection.lock().threads, 2);
    }
    gate.open.store(true, Ordering::SeqCst);
    assert_eq!(session.reply(), (0, slow));
    session.receive(1);
}

/// However many requests wait, there are few threads, and all requests are answered.
#[test]
fn many_waiting_requests_use_few_threads() {
    let gate = Gate::new();
    let mut session = Session::new(gate.clone(), false);
    let begun = Instant::now();
    for k in 1..=u32::try_from(THREADS).unwrap() {
        session.send(READ, 0, 8192, 1);
        while gate.waiting.load(Ordering::SeqCst) < k {
            assert!(begun.elapsed() < Duration::from_secs(60));
            session.connection.call_if_stuck();
        }
    }
    for _ in 0..30 {
        session.send(READ, 0, 8192, 1);
        session.connection.call_if_stuck();
    }
    assert_eq!(session.connection.lock().threads, THREADS);
    gate.open.store(true, Ordering::SeqCst);
    for _ in 0..THREADS + 30 {
        assert_eq!(session.reply().0, 0);
        session.receive(1);
    }
}

/// A client that reads no replies uses only a bounded part of the memory.
#[test]
fn work_in_progress_is_bounded() {
    let mut session = Session::memory();
    // Sent together, so that other threads are called to help.
    let all: Vec<u8> = (0..20)
        .flat_map(|k| request(k, READ, 0, 0, 16 << 20))
        .collect();
    session.client.write_all(&all).unwrap();
    let begun = Instant::now();
    let mut quiet = 0;
    let mut before = 0;
    // As much as allowed is in progress, and nothing moves any more, however often `look` is
    // called.
    while quiet < 50 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        session.connection.call_if_stuck();
        thread::sleep(Duration::from_millis(1));
        let state = session.connection.lock();
        let is_quiet = state.turns == before && state.in_progress >= MAX_IN_PROGRESS;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        before = state.turns;
    }
    let in_progress = session.connection.lock().in_progress;
    assert!(in_progress <= 48 << 20, "{in_progress}");
    for _ in 0..20 {
        assert_eq!(session.reply().0, 0);
        assert!(session.receive(16 << 20) == original(0, 16 << 20));
    }
    drop(session);
}

/// A thread is called when little is in progress, and runs when much is.
#[test]
fn a_late_thread_takes_no_inbox_when_too_much_is_in_progress() {
    let (_client, ours) = UnixStream::pair().unwrap();
    let storage = Arc::new(MemoryStorage::new(vec![0; 512]));
    let connection = agreed(Arc::new(ours), storage, false);
    connection.lock().in_progress = MAX_IN_PROGRESS;
    thread::scope(|scope| {
        let late = scope.spawn(|| connection.take_inbox(0).is_some());
        let begun = Instant::now();
        while connection.lock().parked == 0 {
            assert!(!late.is_finished(), "the late thread took the inbox");
            assert!(begun.elapsed() < Duration::from_secs(60));
            thread::yield_now();
        }
        // A thread that has just answered something takes the inbox without being called.
        assert!(connection.take_inbox(1).is_some());
        connection.lock().over = true;
        connection.called.notify_all();
        assert!(!late.join().unwrap());
    });
}

/// The connection blocks in the middle of its reply until it is shut down.
#[test]
fn a_connection_that_takes_no_replies_can_be_shut_down() {
    let mut session = Session::memory();
    for _ in 0..4 {
        session.send(READ, 0, 0, 32 << 20);
    }
    let begun = Instant::now();
    while session.connection.lock().turns == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        thread::yield_now();
    }
    session.connection.stop();
    session.connection.shutdown();
    session.thread.take().unwrap().join().unwrap();
}

/// Many small writes that arrive together become one call of the disk.
#[test]
fn requests_that_arrive_together_become_one_call() {
    let storage = Arc::new(FaultyStorage::new(vec![0; 1 << 20]));
    let mut session = Session::new(storage.clone(), false);
    let mut bytes = Vec::new();
    for k in 0..32_u64 {
        bytes.extend(request(k, WRITE, FUA, k * 4096, 4096));
        bytes.extend([u8::try_from(k).unwrap(); 4096]);
    }
    session.client.write_all(&bytes).unwrap();
    for k in 0..32 {
        assert_eq!(session.reply(), (0, k));
    }
    let operations = storage.operations();
    let syncs = operations
        .iter()
        .filter(|done| matches!(done, Operation::Sync(_)));
    assert!(syncs.count() < 32, "each was made durable by itself");
    let stored = storage.to_bytes();
    for (k, bytes) in stored.chunks(4096).take(32).enumerate() {
        assert!(bytes.iter().all(|&b| usize::from(b) == k));
    }
}

/// Other clients hold the whole budget.
#[test]
fn requests_that_exceed_the_memory_pass_in_pieces() {
    for structured in [false, true] {
        let storage = Arc::new(MemoryStorage::new(original(0, SIZE)));
        let mut session = Session::new(storage, structured);
        session.connection.export.memory().empty();
        let mut expected = original(0, SIZE);
        for (round, (offset, len)) in [
            (0, FLOOR),
            (0, FLOOR + 1),
            (1000, 256 << 10),
            (FLOOR - 1, 1 << 20),
            (77, 4 << 20),
            (SIZE - (32 << 20), 32 << 20),
        ]
        .into_iter()
        .enumerate()
        {
            let (at, len32) = (offset as u64, u32::try_from(len).unwrap());
            // The second request is sent before the first is answered.
            let flags = [0, FUA][round % 2];
            let mut message = session.request(WRITE, flags, at, len32);
            let written: Vec<u8> = original(round + 7, len);
            message.extend(&written);
            message.extend(session.request(FLUSH, 0, 0, 0));
            session.client.write_all(&message).unwrap();
            let cookies = [session.reply(), session.reply()].map(|(error, cookie)| {
                assert_eq!(error, 0);
                cookie
            });
            assert_eq!(cookies[0].abs_diff(cookies[1]), 1);
            expected[offset..offset + len].copy_from_slice(&written);

            // Without DF each piece is a chunk of its own.
            for flags in if structured { vec![0, 4] } else { vec![0] } {
                session.send(READ, flags, at, len32);
                let mut done = 0;
                while done < len {
                    let mut here = len;
                    if structured {
                        let head = session.receive(28);
                        here = u32::from_be_bytes(head[16..20].try_into().unwrap()) as usize - 8;
                        assert_eq!(
                            u64::from_be_bytes(head[20..].try_into().unwrap()),
                            at + done as u64
                        );
                        assert_eq!(head[5] == 1, done + here == len, "the last one is marked");
                        assert!(flags == 0 || here == len, "it is not to be cut");
                    } else {
                        assert_eq!(session.reply(), (0, session.next));
                    }
                    assert!(session.receive(here) == expected[offset + done..][..here]);
                    done += here;
                }
            }
        }
        // Short requests are still processed together.
        let many: Vec<u8> = (0..100)
            .flat_map(|k| request(k, READ, 4 * u16::from(structured), 0, 8192))
            .collect();
        session.client.write_all(&many).unwrap();
        for _ in 0..100 {
            session.receive(if structured { 28 } else { 16 });
            assert!(session.receive(8192) == expected[..8192]);
        }
    }
}

/// A failure in the middle of a long request that is processed in pieces.
#[test]
fn errors_within_a_split_request_reach_the_client() {
    let len = 4 * FLOOR;
    let failing = |faults| Arc::new(FaultyStorage::with_faults(vec![7; 2 * len], faults));
    let len32 = u32::try_from(len).unwrap();
    for (structured, after) in [(false, 0), (false, 2), (true, 0), (true, 2)] {
        let storage = failing(Faults {
            fail_read_after: Some(after),
            fail_write_after: Some(after),
            ..Faults::default()
        });
        let mut session = Session::new(storage, structured);
        session.connection.export.memory().empty();
        let mut message = session.request(WRITE, 0, 0, len32);
        message.extend(vec![9; len]);
        session.client.write_all(&message).unwrap();
        if structured {
            let head = session.receive(20);
            assert_eq!(head[4..8], [0, 1, 0x80, 1]);
            let payload = u32::from_be_bytes(head[16..].try_into().unwrap());
            session.receive(payload as usize);
        } else {
            assert_eq!(session.reply().0, 5);
        }

        session.send(READ, 0, len as u64, len32);
        let pieces = usize::try_from(after).unwrap();
        match structured {
            false if after == 0 => assert_eq!(session.reply().0, 5),
            // The success in the simple reply has already been sent.
            false => {
                assert_eq!(session.reply().0, 0);
                let mut all = Vec::new();
                session.client.read_to_end(&mut all).unwrap();
                assert_eq!(all.len(), pieces * FLOOR);
                session.thread.take().unwrap().join().unwrap();
                continue;
            }
            true => {
                for _ in 0..pieces {
                    let piece = session.receive(28 + FLOOR);
                    assert_eq!(piece[4..8], [0, 0, 0, 1]);
                }
                let head = session.receive(20);
                assert_eq!(head[4..8], [0, 1, 0x80, 1]);
                let payload = u32::from_be_bytes(head[16..].try_into().unwrap());
                session.receive(payload as usize);
            }
        }
        // The connection continues.
        assert_eq!(session.do_one(FLUSH, 0, 0, 0), 0);
    }
}
