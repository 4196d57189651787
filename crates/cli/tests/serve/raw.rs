// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client that sends raw bytes.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
};

use crate::support::{FOR_EVER, Volume};

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const FLUSH: u16 = 3;
pub const WRITE_ZEROES: u16 = 6;
/// A command flag.
pub const FUA: u16 = 1;

/// The errors that servers send.
pub const EIO: u32 = 5;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;

/// Connects without sending anything.
pub fn connect(volume: &Volume) -> io::Result<UnixStream> {
    let socket = UnixStream::connect(volume.path("socket"))?;
    socket.set_read_timeout(Some(FOR_EVER))?;
    socket.set_write_timeout(Some(FOR_EVER))?;
    Ok(socket)
}

/// A client of the default export that uses simple replies.
pub struct Client(pub UnixStream);

impl Client {
    pub fn new(volume: &Volume) -> Self {
        Self::try_new(volume).unwrap()
    }

    pub fn try_new(volume: &Volume) -> io::Result<Self> {
        let mut socket = connect(volume)?;
        socket.read_exact(&mut [0; 18])?;
        // NBD_OPT_EXPORT_NAME, with no zeros after its reply.
        socket.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0")?;
        socket.read_exact(&mut [0; 10])?;
        Ok(Self(socket))
    }

    pub fn send(&mut self, message: &[u8]) {
        self.0.write_all(message).unwrap();
    }

    /// Receives a reply and returns its error and cookie.
    pub fn reply(&mut self) -> io::Result<(u32, u64)> {
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply)?;
        assert_eq!(reply[..4], [0x67, 0x44, 0x66, 0x98]);
        let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        Ok((error, u64::from_be_bytes(reply[8..].try_into().unwrap())))
    }

    pub fn receive(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Sends a request without data and returns its error.
    pub fn does(&mut self, command: u16, offset: usize, len: usize) -> u32 {
        self.send(&request(command, 0, 1, offset, len));
        let (error, cookie) = self.reply().unwrap();
        assert_eq!(cookie, 1);
        error
    }

    pub fn read(&mut self, offset: usize, len: usize) -> Result<Vec<u8>, u32> {
        match self.does(READ, offset, len) {
            0 => Ok(self.receive(len)),
            error => Err(error),
        }
    }

    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), u32> {
        self.send(&write(0, 2, offset, bytes));
        match self.reply().unwrap() {
            (0, 2) => Ok(()),
            (error, _) => Err(error),
        }
    }
}

pub fn request(command: u16, flags: u16, cookie: u64, offset: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0x25, 0x60, 0x95, 0x13];
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend((offset as u64).to_be_bytes());
    bytes.extend(u32::try_from(len).unwrap().to_be_bytes());
    bytes
}

pub fn write(flags: u16, cookie: u64, offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut message = request(WRITE, flags, cookie, offset, bytes.len());
    message.extend(bytes);
    message
}
