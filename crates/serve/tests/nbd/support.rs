// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server in this process, and a client that sends raw bytes.

use std::{
    io::{Read, Write},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    process,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use luxor_sector::{Disk, DiskOptions, Part, Storage};
use luxor_serve::{
    Export, Frontend, Listener, ServeError, Stop,
    nbd::{Server, ServerOptions},
};

/// Longer than anything takes, in case something hangs.
pub const FOR_EVER: Duration = Duration::from_secs(60);

/// A server on an abstract socket, which all users can reach whatever the modes of the folders are.
pub struct Running {
    address: SocketAddr,
    pub stop: Stop,
    pub thread: JoinHandle<Result<(), ServeError>>,
}

impl Running {
    /// Serves the bytes of a storage unencrypted.
    pub fn new(storage: Arc<dyn Storage>, options: ServerOptions) -> Self {
        let part = Part {
            offset: 0,
            len: storage.len().unwrap(),
            crypt: None,
        };
        let disk = Disk::new(storage, vec![part], DiskOptions::default()).unwrap();
        Self::of_disk(disk, options)
    }

    pub fn of_disk(disk: Disk, options: ServerOptions) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("luxor-test-{}-{number}", process::id());
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let stop = Stop::new().unwrap();
        let export = Export::new(Arc::new(disk));
        let listeners = vec![Listener::Unix(listener)];
        let server = Box::new(Server::new(export, options, listeners, stop.clone()));
        let thread = thread::spawn(move || server.run());
        Self {
            address,
            stop,
            thread,
        }
    }

    /// Returns the abstract name of the socket, without the leading zero byte.
    pub fn name(&self) -> &str {
        let name = self.address.as_abstract_name().unwrap();
        str::from_utf8(name).unwrap()
    }

    /// Connects without sending anything.
    pub fn connect(&self) -> UnixStream {
        let client = UnixStream::connect_addr(&self.address).unwrap();
        client.set_read_timeout(Some(FOR_EVER)).unwrap();
        client
    }

    /// Connects and makes the handshake.
    pub fn client(&self) -> Client {
        let mut client = Client(self.connect());
        client.receive(18);
        client.0.write_all(CLIENT_FLAGS_AND_EXPORT_NAME).unwrap();
        client.receive(10);
        client
    }

    pub fn end(self) -> Result<(), ServeError> {
        self.stop.request();
        self.thread.join().unwrap()
    }
}

/// The client's flags, and `NBD_OPT_EXPORT_NAME` for the default export.
pub const CLIENT_FLAGS_AND_EXPORT_NAME: &[u8] = b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0";

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISCONNECT: u16 = 2;
pub const FLUSH: u16 = 3;
/// A command flag.
pub const FUA: u16 = 1;

pub fn request(command: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = b"\x25\x60\x95\x13".to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}

/// A client that uses simple replies.
pub struct Client(pub UnixStream);

impl Client {
    pub fn receive(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub fn send(&mut self, command: u16, flags: u16, cookie: u64, offset: u64, len: u32) {
        let message = request(command, flags, cookie, offset, len);
        self.0.write_all(&message).unwrap();
    }

    pub fn send_write(&mut self, flags: u16, cookie: u64, offset: u64, bytes: &[u8]) {
        let len = u32::try_from(bytes.len()).unwrap();
        let message = request(WRITE, flags, cookie, offset, len);
        self.0.write_all(&[&message, bytes].concat()).unwrap();
    }

    /// Receives a reply that means success, and returns its cookie.
    pub fn done(&mut self) -> u64 {
        let reply = self.receive(16);
        assert_eq!(reply[..8], *b"\x67\x44\x66\x98\0\0\0\0");
        u64::from_be_bytes(reply[8..].try_into().unwrap())
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.send_write(0, 7, offset, bytes);
        assert_eq!(self.done(), 7);
    }

    pub fn read(&mut self, offset: u64, len: u32) -> Vec<u8> {
        self.send(READ, 0, 8, offset, len);
        assert_eq!(self.done(), 8);
        self.receive(len as usize)
    }

    pub fn flush(&mut self) {
        self.send(FLUSH, 0, 9, 0, 0);
        assert_eq!(self.done(), 9);
    }
}

/// Checks that nothing more arrives.
pub fn at_end(client: &mut UnixStream) {
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "{rest:?}");
}
