// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stopping: what is still answered, and that no client delays it.

use std::net::{TcpListener, TcpStream};

use super::*;

#[test]
fn a_stop_answers_the_requests_that_arrived() {
    let gate = Gate::new();
    let mut session = Session::new(gate.clone(), false);
    // Sent together, because for a single request another thread would be called.
    let first = session.request(READ, 0, 8192, 1);
    let second = session.request(READ, 0, 8192, 1);
    session.client.write_all(&[first, second].concat()).unwrap();
    while gate.waiting.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    // These are still in the socket, and the last one is received in two parts.
    session.send(READ, 0, 0, 1);
    let message = session.request(WRITE, 0, 0, 100_000);
    let long = [&message[..], &[9; 100_000]].concat();
    session.client.write_all(&long).unwrap();
    session.connection.stop();
    gate.open.store(true, Ordering::SeqCst);
    let mut answered = Vec::new();
    for _ in 0..4 {
        let (error, cookie) = session.reply();
        assert_eq!(error, 0);
        session.receive(if cookie == session.next { 0 } else { 1 });
        answered.push(cookie);
    }
    answered.sort_unstable();
    assert!(answered.into_iter().eq(session.next - 3..=session.next));
    let mut rest = Vec::new();
    session.client.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    session.thread.take().unwrap().join().unwrap();
}

/// Over TCP, requests that a client sends after a stop still arrive.
#[test]
fn a_client_that_keeps_asking_does_not_delay_a_stop() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, _) = listener.accept().unwrap();
    let gate = Gate::new();
    let (connection, thread) = serve(Arc::new(ours), gate.clone(), false);
    client.write_all(&request(1, READ, 0, 8192, 1)).unwrap();
    while gate.waiting.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    // More requests than are answered in the meantime, so that there is always another one.
    let requests = request(1, READ, 0, 0, 64 << 10).repeat(1000);
    client.write_all(&requests).unwrap();
    let mut asking = client.try_clone().unwrap();
    let asker = thread::spawn(move || while asking.write_all(&requests).is_ok() {});
    gate.open.store(true, Ordering::SeqCst);
    connection.stop();
    let begun = Instant::now();
    let mut buf = vec![0; 1 << 20];
    // An error also ends the loop.
    while matches!(client.read(&mut buf), Ok(1..)) {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the connection does not end"
        );
    }
    thread.join().unwrap();
    // The asking thread blocks on a full socket until the socket is closed.
    drop(connection);
    asker.join().unwrap();
}

/// Stops a connection as the server does, which waits for the client for `farewell`.
fn see_off(session: &mut Session, farewell: Duration) {
    let thread = session.thread.take().unwrap();
    let begun = Instant::now();
    session.connection.stop();
    while !thread.is_finished() {
        if session.connection.waits_for_client(farewell) {
            session.connection.shutdown();
        }
        let slack = Duration::from_secs(5);
        assert!(
            begun.elapsed() < STOP_GRACE + farewell + slack,
            "the connection does not end"
        );
        thread::sleep(Duration::from_millis(1));
    }
    thread.join().unwrap();
}

/// The disk works for the client between any two pieces of its replies.
#[test]
fn a_client_that_reads_slowly_does_not_delay_a_stop() {
    for in_pieces in [false, true] {
        let mut session = Session::memory();
        if in_pieces {
            session.connection.export.memory().empty();
        }
        // Reading these replies would take the client a minute.
        let requests = request(1, READ, 0, 0, 32 << 20).repeat(100);
        session.client.write_all(&requests).unwrap();
        let mut client = session.client.try_clone().unwrap();
        let taker = thread::spawn(move || {
            let mut piece = vec![0; 1 << 20];
            while client.read_exact(&mut piece).is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        while session.connection.lock().turns == 0 {
            thread::yield_now();
        }
        see_off(&mut session, Duration::from_millis(300));
        taker.join().unwrap();
    }
}

/// Storage of this length that is slow, especially to read, and does one operation at a time.
struct Slow(u64, Mutex<()>);

impl Storage for Slow {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0)
    }

    fn read_exact_at(&self, buf: &mut [u8], _offset: u64) -> io::Result<()> {
        let _alone = self.1.lock().unwrap();
        thread::sleep(Duration::from_millis(100));
        buf.fill(0);
        Ok(())
    }

    fn write_all_at(&self, _buf: &[u8], _offset: u64) -> io::Result<()> {
        let _alone = self.1.lock().unwrap();
        thread::sleep(Duration::from_millis(10));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The requests that arrive before the stop would take a minute.
#[test]
fn a_full_inbox_does_not_delay_a_stop() {
    const ALL: usize = 6000;
    let storage = Slow(8192, Mutex::default());
    let mut session = Session::new(Arc::new(storage), false);
    let requests = request(1, WRITE_ZEROES, 0, 0, 4096).repeat(ALL);
    session.client.write_all(&requests).unwrap();
    let mut client = session.client.try_clone().unwrap();
    let taker = thread::spawn(move || {
        let mut replies = Vec::new();
        client.read_to_end(&mut replies).map(|_| replies)
    });
    while session.connection.lock().turns == 0 {
        thread::yield_now();
    }
    // The client is not at fault, so it gets the long time.
    see_off(&mut session, Duration::from_secs(10));
    let replies = taker.join().unwrap().unwrap();
    // Requests that were started within the grace period are done and answered.
    assert!(replies.len() % 16 == 0 && replies.len() < 16 * ALL);
    assert!(replies.len() >= 16 * 10, "{} bytes", replies.len());
}

/// A single request that would take three minutes.
#[test]
fn a_long_request_does_not_delay_a_stop() {
    let storage = Slow(1 << 30, Mutex::default());
    let mut session = Session::new(Arc::new(storage), false);
    session.send(WRITE_ZEROES, 0, 0, 1 << 30);
    while session.connection.lock().turns == 0 {
        thread::yield_now();
    }
    see_off(&mut session, Duration::from_secs(1));
    let mut rest = Vec::new();
    session.client.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "it is not done: {rest:?}");
}

/// A read in pieces that would take half a minute.
#[test]
fn a_long_read_does_not_delay_a_stop() {
    let storage = Slow(32 << 20, Mutex::default());
    let mut session = Session::new(Arc::new(storage), false);
    session.connection.export.memory().empty();
    session.send(READ, 0, 0, 32 << 20);
    // The read has begun.
    session.receive(16);
    let mut client = session.client.try_clone().unwrap();
    let taker = thread::spawn(move || io::copy(&mut client, &mut io::sink()).unwrap());
    see_off(&mut session, Duration::from_secs(1));
    assert!(taker.join().unwrap() < 32 << 20, "it was read to its end");
}
