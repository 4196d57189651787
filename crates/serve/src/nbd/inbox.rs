// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes received from a client, and the requests in them.

use std::{io, ops::Range, sync::Arc, time::Instant};

use luxor_engine::Buffer;
use luxor_sector::{Buffers, Disk};

use super::{
    agreed::{Agreed, Refusal},
    request::{Command, REQUEST_LEN, Request},
    wire::CommandFlags,
};
use crate::{
    channel::Channel,
    memory_budget::{BatchMemory, Share},
};

/// The most bytes received at a time: some tens of requests with 4 KiB each.
const CAPACITY: usize = 256 << 10;

/// The same when there are very many connections.
const SHORT_CAPACITY: usize = 32 << 10;

/// Requests are added to a batch while it has fewer bytes than this. More would be evicted from a
/// core's cache before they are sent.
const BATCH_BYTES: usize = 256 << 10;

/// The most requests in a batch.
const MAX_REQUESTS: usize = 256;

/// After a write of at least this many bytes, the next request is expected to be as long: its bytes
/// are then received directly into the batch's buffer, not here.
const LONG_WRITE: usize = 64 << 10;

/// Received bytes, which may contain whole requests.
#[derive(Default)]
pub struct Inbox {
    /// Allocated when first needed. Wiped when dropped, because it contains plaintext.
    bytes: Option<Buffer>,
    /// The range of `bytes` that is not yet taken.
    full: Range<usize>,
    /// Whether the last request was a long write.
    long: bool,
}

/// Requests that are carried out together.
pub struct Batch {
    /// When the first request had arrived.
    pub begun: Instant,
    /// The requests, at least one.
    pub entries: Vec<Entry>,
    /// The bytes of writes, and room for the bytes of reads.
    pub buffer: Option<Buffer>,
    /// The memory that is accounted for the buffer, of exactly the same length. Released after the
    /// buffer.
    pub memory: Option<BatchMemory>,
    /// Whether the only entry is a read or write that does not fit into the buffer. Its bytes pass
    /// through the buffer in pieces, and those of a write have not been received yet
    /// ([`Inbox::fill`]). The entry's range is empty.
    pub in_pieces: bool,
}

/// A request in a batch.
pub struct Entry {
    /// The request.
    pub request: Request,
    /// The range of its bytes in the batch's buffer, directly after the range of the entry before.
    pub range: Range<usize>,
    /// The result so far.
    pub outcome: Result<(), Failure>,
}

/// Why a request was not carried out.
#[derive(Debug)]
pub enum Failure {
    /// The request was refused.
    Refused(Refusal),
    /// The disk returned an error.
    Failed(io::Error),
    /// The grace period was over. The request gets no reply.
    Late,
}

impl Entry {
    /// Whether the entry is a read or write that has not failed.
    pub fn is_transfer(&self) -> bool {
        matches!(self.request.command, Command::Read | Command::Write) && self.outcome.is_ok()
    }
}

impl Batch {
    /// Returns how many bytes are read and written.
    pub fn bytes(&self) -> usize {
        self.entries.last().map_or(0, |entry| entry.range.end)
    }

    /// Whether the batch takes the time of a disk access rather than of a memory access.
    pub fn is_slow(&self, disk: &Disk) -> bool {
        let first = &self.entries[0].request;
        match first.command {
            Command::Flush => disk.is_dirty(),
            Command::Write => first.flags.contains(CommandFlags::FUA),
            Command::Trim | Command::WriteZeroes => true,
            _ => false,
        }
    }
}

impl Inbox {
    /// Waits for a request. Returns it with the requests that have arrived with it, or `None` if
    /// the client has asked for the end.
    ///
    /// # Errors
    /// Those of the channel, [`io::ErrorKind::UnexpectedEof`] if the client has gone, and
    /// [`io::ErrorKind::InvalidData`] for bytes that are not a request.
    pub fn receive(
        &mut self,
        channel: &dyn Channel,
        agreed: &Agreed,
        buffers: &Buffers,
        share: &Arc<Share>,
    ) -> io::Result<Option<Batch>> {
        while self.full.len() < REQUEST_LEN {
            if !self.receive_more(channel, share)? {
                let begun = !self.full.is_empty();
                return Err(cut_off(if begun { "a request" } else { "transmission" }));
            }
        }
        let begun = Instant::now();
        let mut entries: Vec<Entry> = Vec::new();
        // Declared before the buffer, so that the buffer is dropped first.
        let mut memory: Option<BatchMemory> = None;
        let mut buffer: Option<Buffer> = None;
        let mut used = 0;
        let mut in_pieces = false;
        while entries.len() < MAX_REQUESTS && used < BATCH_BYTES && !in_pieces {
            let request = match self.peek() {
                Ok(Some(request)) => request,
                Ok(None) => break,
                // Answer the requests before the invalid one first.
                Err(_) if !entries.is_empty() => break,
                Err(error) => return Err(error),
            };
            if let Some(first) = entries.first()
                && !go_together(&first.request, &request)
            {
                break;
            }
            if request.command == Command::Disconnect {
                return Ok(None);
            }
            let outcome = agreed.check(&request).map_err(Failure::Refused);
            let len = match request.command {
                Command::Read | Command::Write if outcome.is_ok() => {
                    usize::try_from(request.len).expect("`check` allows at most 32 MiB")
                }
                _ => 0,
            };
            let payload = usize::try_from(request.payload_len()).expect("a u32 fits into a usize");
            let here = payload <= self.full.len() - REQUEST_LEN;
            // Requests that have arrived are carried out before the server waits for more bytes.
            if !entries.is_empty() && !here {
                break;
            }
            if len > 0 && used + len > buffer.as_ref().map_or(0, |buffer| buffer.len()) {
                // A request that needs a larger buffer begins a new batch.
                if !entries.is_empty() {
                    break;
                }
                // If more requests have arrived with it, make room for them too.
                let are_many = self.full.len() >= REQUEST_LEN + payload + REQUEST_LEN;
                let wanted = if are_many { len.max(BATCH_BYTES) } else { len };
                let taken = share.take(wanted);
                buffer = Some(buffers.take(taken.len())?);
                in_pieces = taken.len() < len;
                memory = Some(taken);
            }
            self.full.start += REQUEST_LEN;
            let len = if in_pieces { 0 } else { len };
            let range = used..used + len;
            if in_pieces {
                // `Connection` receives its bytes, piece by piece.
            } else if len < payload {
                self.skip(channel, share, payload)?;
            } else if let Some(buffer) = &mut buffer
                && payload > 0
            {
                self.fill(channel, &mut buffer[range.clone()])?;
            }
            self.long = payload >= LONG_WRITE;
            used += len;
            entries.push(Entry {
                request,
                range,
                outcome,
            });
        }
        Ok(Some(Batch {
            begun,
            entries,
            buffer,
            memory,
            in_pieces,
        }))
    }

    /// Whether a whole request has been received.
    pub fn has_request(&self) -> bool {
        self.full.len() >= REQUEST_LEN
    }

    /// Returns the next request without taking it.
    fn peek(&self) -> io::Result<Option<Request>> {
        let Some(bytes) = &self.bytes else {
            return Ok(None);
        };
        let Some(bytes) = bytes[self.full.clone()].first_chunk() else {
            return Ok(None);
        };
        Request::parse(bytes)
            .map(Some)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Receives more bytes. Returns `false` at the end.
    fn receive_more(&mut self, channel: &dyn Channel, share: &Share) -> io::Result<bool> {
        let capacity = if share.has_long_inbox() {
            CAPACITY
        } else {
            SHORT_CAPACITY
        };
        let bytes = self.bytes.get_or_insert_with(|| Buffer::zeroed(capacity));
        bytes.copy_within(self.full.clone(), 0);
        self.full = 0..self.full.len();
        let end = if self.long { REQUEST_LEN } else { bytes.len() };
        let received = channel.recv(&mut bytes[self.full.end..end])?;
        self.full.end += received;
        Ok(received > 0)
    }

    /// Fills `buf` with the next bytes of a write, and waits for them.
    ///
    /// # Errors
    /// Those of [`Inbox::receive`].
    pub fn fill(&mut self, channel: &dyn Channel, buf: &mut [u8]) -> io::Result<()> {
        let here = buf.len().min(self.full.len());
        let (head, mut rest) = buf.split_at_mut(here);
        self.take(head);
        while !rest.is_empty() {
            match channel.recv(rest)? {
                0 => return Err(cut_off("the bytes of a write")),
                received => rest = &mut rest[received..],
            }
        }
        Ok(())
    }

    fn take(&mut self, buf: &mut [u8]) {
        if let Some(bytes) = &self.bytes {
            buf.copy_from_slice(&bytes[self.full.start..][..buf.len()]);
            self.full.start += buf.len();
        }
    }

    /// Discards the next `len` bytes, and waits for them.
    fn skip(&mut self, channel: &dyn Channel, share: &Share, len: usize) -> io::Result<()> {
        let mut left = len;
        loop {
            let here = left.min(self.full.len());
            self.full.start += here;
            left -= here;
            if left == 0 {
                return Ok(());
            }
            self.long = false;
            if !self.receive_more(channel, share)? {
                return Err(cut_off("the bytes of a write"));
            }
        }
    }
}

/// Whether two requests may be answered together: both take only the time of memory accesses, or
/// both are writes that become durable together.
fn go_together(a: &Request, b: &Request) -> bool {
    let kind = |request: &Request| match request.command {
        Command::Write if request.flags.contains(CommandFlags::FUA) => Some(true),
        Command::Read | Command::Write => Some(false),
        _ => None,
    };
    kind(a).is_some() && kind(a) == kind(b)
}

fn cut_off(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!("it disconnected during {what}"),
    )
}
