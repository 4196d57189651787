// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a TLS library does for a connection, without input and output.

use std::{
    any::Any,
    io::{self, IoSlice, Read, Write},
};

use luxor_tls_psk::PskError;
use rustls::{CommonState, Connection};

use crate::channel::Timed;

/// One side of a TLS connection.
pub trait Session: Any + Send {
    /// Makes the handshake on `stream`.
    ///
    /// # Errors
    /// Those of `stream`, and [`io::ErrorKind::InvalidData`] if the other end is refused.
    fn handshake(&mut self, stream: &mut Timed<'_>) -> io::Result<()>;

    /// Returns the name of the key that the other end has shown, if keys have names.
    fn identity(&self) -> Option<String>;

    /// Takes some or all of the encrypted bytes that were received, and returns how many.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if they are not TLS.
    fn feed(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Learns that no more bytes will be received.
    ///
    /// # Errors
    /// Those of the library.
    fn end(&mut self) -> io::Result<()>;

    /// Decrypts into `buf`. Returns 0 after the other end's close notification.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if more bytes must be received, [`io::ErrorKind::UnexpectedEof`]
    /// if none will be, and [`io::ErrorKind::InvalidData`] for bytes that are not TLS.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;

    /// Encrypts some or all of the bytes, and returns how many.
    ///
    /// # Errors
    /// Those of the library, after the end of the connection.
    fn write(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Encrypts a close notification.
    fn close(&mut self);

    /// Whether [`Session::take`] has bytes.
    fn wants_write(&self) -> bool;

    /// Appends the encrypted bytes that must be sent to `out`.
    ///
    /// # Errors
    /// Those of the library.
    fn take(&mut self, out: &mut Vec<u8>) -> io::Result<()>;
}

impl Session for Connection {
    fn handshake(&mut self, stream: &mut Timed<'_>) -> io::Result<()> {
        self.complete_io(stream).map(drop)
    }

    fn identity(&self) -> Option<String> {
        None
    }

    fn feed(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        let taken = if bytes.is_empty() {
            0
        } else {
            self.read_tls(&mut rest)?
        };
        self.process_new_packets()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        // Bytes after the end of the TLS stream are dropped.
        Ok(if taken == 0 { bytes.len() } else { taken })
    }

    fn end(&mut self) -> io::Result<()> {
        self.read_tls(&mut io::empty()).map(drop)
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.reader().read(buf)
    }

    fn write(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        // At most as many bytes as fit into rustls's buffer: 64 KiB.
        self.writer().write_vectored(bufs)
    }

    fn close(&mut self) {
        self.send_close_notify();
    }

    fn wants_write(&self) -> bool {
        CommonState::wants_write(self)
    }

    fn take(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        while CommonState::wants_write(self) {
            self.write_tls(out)?;
        }
        Ok(())
    }
}

/// The most bytes that are encrypted at a time with a pre-shared key.
const MOST: usize = 64 << 10;

impl Session for luxor_tls_psk::Session {
    fn handshake(&mut self, stream: &mut Timed<'_>) -> io::Result<()> {
        let mut bytes = [0; 4096];
        loop {
            let done = Self::handshake(self);
            // After a failure this is an alert.
            let mut out = Vec::new();
            Self::take(self, &mut out);
            let sent = if out.is_empty() {
                Ok(())
            } else {
                stream.write_all(&out)
            };
            if done.map_err(failed)? {
                return sent;
            }
            sent?;
            match stream.read(&mut bytes)? {
                0 => Self::end(self),
                len => Self::feed(self, &bytes[..len]).map_err(failed)?,
            }
        }
    }

    fn identity(&self) -> Option<String> {
        self.name()
    }

    fn feed(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::feed(self, bytes).map_err(failed)?;
        Ok(bytes.len())
    }

    fn end(&mut self) -> io::Result<()> {
        Self::end(self);
        Ok(())
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = Self::read(self, buf).map_err(failed)?;
        read.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    fn write(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut len = 0;
        for buf in bufs {
            let buf = &buf[..buf.len().min(MOST - len)];
            Self::write(self, buf).map_err(failed)?;
            len += buf.len();
        }
        Ok(len)
    }

    fn close(&mut self) {
        Self::close(self);
    }

    fn wants_write(&self) -> bool {
        self.has_output()
    }

    fn take(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        Self::take(self, out);
        Ok(())
    }
}

fn failed(error: PskError) -> io::Error {
    let kind = match error {
        PskError::Cut => io::ErrorKind::UnexpectedEof,
        _ => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, error)
}
