// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection that sends and receives at the same time.

use std::{
    io::{self, IoSlice, Read, Write},
    net::{Shutdown, TcpStream},
    os::{fd::AsRawFd, unix::net::UnixStream},
    time::{Duration, Instant},
};

use nix::sys::socket::{MsgFlags, sendmsg};

/// A stream of bytes in each direction, for several threads: one may send while another waits for
/// bytes.
///
/// Only one thread may receive at a time and only one may send. If two threads call
/// [`Channel::recv`] at once, each gets some of the bytes, and the bytes of two calls of
/// [`Channel::send`] may mix.
pub trait Channel: Send + Sync {
    /// Waits for bytes and returns how many it received, at most `buf.len()`. Returns 0 when the
    /// other end will send no more.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] after the time of [`Channel::set_timeout`], otherwise errors of
    /// the system. A call interrupted by a signal continues.
    fn recv(&self, buf: &mut [u8]) -> io::Result<usize>;

    /// Sends all buffers in order, with as few system calls as possible.
    ///
    /// # Errors
    /// Those of [`Channel::recv`]. How much was sent is then unknown, so the channel can only be
    /// shut down.
    fn send(&self, bufs: &[IoSlice<'_>]) -> io::Result<()>;

    /// Ends both directions without waiting. Calls that are waiting return, and later calls fail or
    /// return 0.
    fn shutdown(&self);

    /// Stops receiving: [`Channel::recv`] returns the bytes that have arrived, then 0, and a
    /// waiting call returns. Sending still works. Over TCP, bytes that the other end sends later
    /// are received too.
    fn stop_receiving(&self);

    /// Sets how long a call may wait without a byte moving. `None`, the initial value, means no
    /// limit.
    ///
    /// # Errors
    /// Those of the system, and [`io::ErrorKind::InvalidInput`] for a limit of zero.
    fn set_timeout(&self, limit: Option<Duration>) -> io::Result<()>;
}

/// A [`Channel`] as [`Read`] and [`Write`], with a limit on the total time of a handshake, however
/// slowly the other end sends. Calls fail with [`io::ErrorKind::TimedOut`] after that time.
/// Dropping this removes the channel's time limit.
pub struct Timed<'a> {
    channel: &'a dyn Channel,
    until: Instant,
}

impl<'a> Timed<'a> {
    /// Limits the use of `channel` to the time before `until`.
    pub fn new(channel: &'a dyn Channel, until: Instant) -> Self {
        Self { channel, until }
    }

    fn arm(&self) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.channel.set_timeout(Some(left))
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.arm()?;
        self.channel.recv(buf)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.arm()?;
        self.channel.send(&[IoSlice::new(buf)])?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        // This fails only for a socket that can no longer be used.
        let _ = self.channel.set_timeout(None);
    }
}

macro_rules! socket {
    ($socket:ty) => {
        impl Channel for $socket {
            fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
                let mut socket = self;
                loop {
                    match socket.read(buf) {
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        received => return received.map_err(timed_out),
                    }
                }
            }

            fn send(&self, bufs: &[IoSlice<'_>]) -> io::Result<()> {
                send_all(bufs, |bufs| {
                    // Without this flag, writing to a closed connection raises SIGPIPE, which ends
                    // the process.
                    let flags = MsgFlags::MSG_NOSIGNAL;
                    Ok(sendmsg::<()>(self.as_raw_fd(), bufs, &[], flags, None)?)
                })
            }

            fn shutdown(&self) {
                // Fails if the other end has already closed the connection.
                let _ = Self::shutdown(self, Shutdown::Both);
            }

            fn stop_receiving(&self) {
                // Fails if the other end has already closed the connection.
                let _ = Self::shutdown(self, Shutdown::Read);
            }

            fn set_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
                self.set_read_timeout(limit)?;
                self.set_write_timeout(limit)
            }
        }
    };
}

socket!(UnixStream);
socket!(TcpStream);

/// Linux's `IOV_MAX`: the most buffers that one call accepts.
const MOST_BUFFERS: usize = 1024;

/// Sends all of `bufs`. `send` sends a part of its argument and returns the number of bytes.
pub(crate) fn send_all(
    bufs: &[IoSlice<'_>],
    mut send: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
) -> io::Result<()> {
    let mut bufs = bufs;
    // The number of bytes at the beginning of `bufs` that have been sent.
    let mut sent = 0;
    loop {
        while let Some(first) = bufs.first()
            && sent >= first.len()
        {
            sent -= first.len();
            bufs = &bufs[1..];
        }
        let batch = &bufs[..bufs.len().min(MOST_BUFFERS)];
        let Some(first) = batch.first() else {
            return Ok(());
        };
        let result = if sent == 0 {
            send(batch)
        } else {
            let mut rest = batch.to_vec();
            rest[0] = IoSlice::new(&first[sent..]);
            send(&rest)
        };
        match result {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(more) => sent += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(timed_out(error)),
        }
    }
}

/// Turns `WouldBlock`, which a socket with a time limit returns, into `TimedOut`.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock {
        io::ErrorKind::TimedOut.into()
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, sync::Mutex, thread};

    use super::*;

    fn tcp() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let client = TcpStream::connect(listener.local_addr().expect("its address"));
        (
            listener.accept().expect("a client").0,
            client.expect("a connection"),
        )
    }

    fn pairs() -> [(Box<dyn Channel>, Box<dyn Channel>); 2] {
        let unix = UnixStream::pair().expect("a pair");
        let tcp = tcp();
        [
            (Box::new(unix.0), Box::new(unix.1)),
            (Box::new(tcp.0), Box::new(tcp.1)),
        ]
    }

    fn slices(bufs: &[Vec<u8>]) -> Vec<IoSlice<'_>> {
        bufs.iter().map(|buf| IoSlice::new(buf)).collect()
    }

    fn receive(channel: &dyn Channel, len: usize) -> Vec<u8> {
        let mut all = vec![0; len];
        let mut done = 0;
        while done < len {
            let received = channel.recv(&mut all[done..]).expect("bytes");
            assert!(received > 0, "the end after {done} of {len} bytes");
            done += received;
        }
        all
    }

    /// The test sends more buffers than one call accepts, some of them empty, and more bytes than
    /// the socket holds.
    #[test]
    fn all_buffers_arrive_in_order() {
        let bufs: Vec<Vec<u8>> = (0..3000_usize)
            .map(|i| vec![i.to_le_bytes()[0]; i % 7 * 400])
            .collect();
        let expected = bufs.concat();
        for (ours, theirs) in pairs() {
            thread::scope(|scope| {
                let reader = scope.spawn(|| receive(&*theirs, expected.len()));
                ours.send(&slices(&bufs)).expect("sent");
                assert!(reader.join().expect("it is read") == expected);
            });
        }
    }

    /// Each call takes only a few bytes, and every third one is interrupted.
    #[test]
    fn short_and_interrupted_calls_are_continued() {
        let lens = [0, 5, 0, 0, 1, 700, 3, 0, 64, 0];
        let bufs: Vec<Vec<u8>> = (1..).zip(lens).map(|(byte, len)| vec![byte; len]).collect();
        let expected = bufs.concat();
        for most in (1..expected.len() + 2).step_by(3) {
            let mut taken = Vec::new();
            let mut calls = 0;
            send_all(&slices(&bufs), |bufs| {
                calls += 1;
                if calls % 3 == 0 {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                let all: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
                let len = all.len().min(most);
                taken.extend_from_slice(&all[..len]);
                Ok(len)
            })
            .expect("all is sent");
            assert_eq!(taken, expected, "{most} bytes at most");
        }
    }

    #[test]
    fn no_call_has_too_many_buffers_and_none_more_than_needed() {
        let bufs = vec![vec![7; 3]; 2049];
        let mut calls = Vec::new();
        send_all(&slices(&bufs), |bufs| {
            calls.push(bufs.len());
            Ok(bufs.iter().map(|buf| buf.len()).sum())
        })
        .expect("all is sent");
        assert_eq!(calls, [1024, 1024, 1]);

        send_all(&[IoSlice::new(&[]), IoSlice::new(&[])], |_| {
            panic!("called without any bytes to send")
        })
        .expect("nothing to send");
        let error = send_all(&slices(&bufs), |_| Ok(0)).expect_err("nothing moves");
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    }

    #[test]
    fn one_thread_sends_while_another_waits() {
        for (ours, theirs) in pairs() {
            thread::scope(|scope| {
                let waiting = scope.spawn(|| receive(&*ours, 1));
                ours.send(&[IoSlice::new(b"ping")]).expect("sent");
                assert_eq!(receive(&*theirs, 4), b"ping");
                theirs.send(&[IoSlice::new(b"!")]).expect("sent");
                assert_eq!(waiting.join().expect("it is read"), b"!");
            });
        }
    }

    #[test]
    fn a_shutdown_ends_blocked_calls() {
        for (ours, theirs) in pairs() {
            thread::scope(|scope| {
                let receiver = scope.spawn(|| ours.recv(&mut [0; 16]));
                ours.shutdown();
                let received = receiver.join().expect("it ends");
                assert_eq!(received.expect("no error"), 0);
            });
            assert_eq!(theirs.recv(&mut [0; 16]).expect("the end"), 0);
        }
        for (ours, theirs) in pairs() {
            thread::scope(|scope| {
                let sender = scope.spawn(|| {
                    let buf = vec![0; 1 << 20];
                    while ours.send(&[IoSlice::new(&buf)]).is_ok() {}
                });
                receive(&*theirs, 1);
                ours.shutdown();
                sender.join().expect("it ends");
            });
        }
    }

    #[test]
    fn bytes_from_before_a_stop_are_received_and_answered() {
        for (ours, theirs) in pairs() {
            theirs.send(&[IoSlice::new(b"ab")]).expect("sent");
            // Over TCP the bytes must have arrived before the stop: receiving the first one ensures
            // that.
            assert_eq!(receive(&*ours, 1), b"a");
            ours.stop_receiving();
            assert_eq!(receive(&*ours, 1), b"b");
            assert_eq!(ours.recv(&mut [0; 16]).expect("the end"), 0);
            ours.send(&[IoSlice::new(b"cd")]).expect("sent");
            assert_eq!(receive(&*theirs, 2), b"cd");
        }
        for (ours, _theirs) in pairs() {
            thread::scope(|scope| {
                let receiver = scope.spawn(|| ours.recv(&mut [0; 16]));
                ours.stop_receiving();
                assert_eq!(receiver.join().expect("it ends").expect("no error"), 0);
            });
        }
    }

    #[test]
    fn a_handshake_has_a_time_limit() {
        for (ours, theirs) in pairs() {
            let mut timed = Timed::new(&*ours, Instant::now() + Duration::from_secs(100));
            theirs.send(&[IoSlice::new(b"ab")]).expect("sent");
            let mut two = [0; 2];
            timed.read_exact(&mut two).expect("in time");
            assert_eq!(&two, b"ab");
            timed.write_all(b"ok").expect("in time");
            drop(timed);
            let until = Instant::now() + Duration::from_millis(30);
            let mut timed = Timed::new(&*ours, until);
            let error = timed
                .read_exact(&mut two)
                .expect_err("the other end sends nothing");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(Instant::now() >= until);
            // Bytes that arrive too late are not read, and nothing is written.
            theirs.send(&[IoSlice::new(b"cd")]).expect("sent");
            let error = timed.read(&mut two).expect_err("too late");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            let error = timed.write(b"late").expect_err("too late");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            drop(timed);
            assert_eq!(receive(&*ours, 2), b"cd");
            assert_eq!(receive(&*theirs, 2), b"ok");
            ours.shutdown();
            assert_eq!(theirs.recv(&mut two).expect("the end"), 0);
        }
    }

    #[test]
    fn after_a_handshake_there_is_no_time_limit() {
        struct Limits(Mutex<Vec<Option<Duration>>>);
        impl Channel for Limits {
            fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
                Ok(buf.len())
            }
            fn send(&self, _: &[IoSlice<'_>]) -> io::Result<()> {
                Ok(())
            }
            fn shutdown(&self) {}
            fn stop_receiving(&self) {}
            fn set_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
                self.0.lock().expect("no panic").push(limit);
                Ok(())
            }
        }
        let limits = Limits(Mutex::default());
        let hour = Duration::from_secs(3600);
        let mut timed = Timed::new(&limits, Instant::now() + hour);
        timed.read_exact(&mut [0; 4]).expect("bytes");
        timed.write_all(b"four").expect("sent");
        drop(timed);
        let limits = limits.0.into_inner().expect("no panic");
        assert_eq!(limits.len(), 3);
        assert!(limits[1] <= limits[0] && limits[0] <= Some(hour) && limits[1].is_some());
        assert_eq!(limits[2], None);
    }
}
