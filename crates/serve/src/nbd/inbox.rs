// SPDX-License-Identifier: MIT OR Apache-2.0
//! What has come from a client and is not yet done.

use std::{io, ops::Range, sync::Arc, time::Instant};

use luxor_engine::Buffer;
use luxor_sector::{Buffers, Disk};

use super::{
    agreed::{Agreed, Refusal},
    purse::{Lease, Share},
    request::{Command, REQUEST_LEN, Request},
    wire::CommandFlags,
};
use crate::channel::Channel;

/// The most bytes that are received at a time: some tens of requests with 4 KiB each.
const CAPACITY: usize = 256 << 10;

/// The same for each of very many connections.
const SHORT_CAPACITY: usize = 32 << 10;

/// Requests are added to a batch as long as it has fewer bytes: more would be driven out
/// of a core's own cache before they are sent.
const BATCH: usize = 256 << 10;

/// The most requests in a batch.
const MOST: usize = 256;

/// After a write of so many bytes the next one is expected to be as long: its bytes are
/// received where they are wanted, not here.
const LONG: usize = 64 << 10;

/// Bytes received, of which some are requests.
#[derive(Default)]
pub struct Inbox {
    /// Made when it is first needed. Wiped at the end: there is plaintext in it.
    bytes: Option<Buffer>,
    /// Those that are not yet taken.
    full: Range<usize>,
    /// The last request was a long write.
    long: bool,
}

/// Requests that are carried out together.
pub struct Batch {
    /// When the first of them had come.
    pub begun: Instant,
    /// At least one.
    pub entries: Vec<Entry>,
    /// Their bytes: those that came, and room for those that are read.
    pub buffer: Option<Buffer>,
    /// Its part of the server's memory, exactly as long as the buffer, and given back after
    /// it.
    pub lease: Option<Lease>,
    /// There is only one entry, a read or a write, and its bytes do not fit the buffer: they
    /// pass through it in pieces. Those of a write have not come yet
    /// ([`Inbox::fill`]). The entry's range is empty.
    pub in_pieces: bool,
}

/// A request in a batch.
pub struct Entry {
    /// What was asked for.
    pub request: Request,
    /// Its bytes in the batch's buffer, right behind those of the entry before.
    pub range: Range<usize>,
    /// Whether it failed so far.
    pub outcome: Result<(), Failure>,
}

/// Why a request was not done.
#[derive(Debug)]
pub enum Failure {
    /// It should not have been sent.
    Refused(Refusal),
    /// The disk could not do it.
    Failed(io::Error),
    /// It was not done when the time of the last call was over, and gets no answer.
    Late,
}

impl Entry {
    /// Whether it is to be read or written, in its buffer.
    pub fn is_transfer(&self) -> bool {
        matches!(self.request.command, Command::Read | Command::Write) && self.outcome.is_ok()
    }
}

impl Batch {
    /// How many bytes are read and written.
    pub fn bytes(&self) -> usize {
        self.entries.last().map_or(0, |entry| entry.range.end)
    }

    /// Whether it takes as long as a disk takes, not as long as memory does.
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
    /// Waits for a request, and gives it and all that have come with it. `None` when the
    /// client has left.
    ///
    /// # Errors
    /// Those of the channel, and [`io::ErrorKind::InvalidData`] for what is no request.
    pub fn receive(
        &mut self,
        channel: &dyn Channel,
        agreed: &Agreed,
        buffers: &Buffers,
        share: &Arc<Share>,
    ) -> io::Result<Option<Batch>> {
        while self.full.len() < REQUEST_LEN {
            if !self.more(channel, share)? {
                if self.full.is_empty() {
                    return Ok(None);
                }
                return Err(cut_off("a request"));
            }
        }
        let begun = Instant::now();
        let mut entries: Vec<Entry> = Vec::new();
        // Of the two the buffer goes first.
        let mut lease: Option<Lease> = None;
        let mut buffer: Option<Buffer> = None;
        let mut used = 0;
        let mut in_pieces = false;
        while entries.len() < MOST && used < BATCH && !in_pieces {
            let request = match self.peek() {
                Ok(Some(request)) => request,
                Ok(None) => break,
                // What came before it is answered.
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
            let outcome = agreed.judge(&request).map_err(Failure::Refused);
            let len = match request.command {
                Command::Read | Command::Write if outcome.is_ok() => {
                    usize::try_from(request.len).expect("32 MiB at most")
                }
                _ => 0,
            };
            let payload = usize::try_from(request.payload_len()).expect("32 bits");
            let here = payload <= self.full.len() - REQUEST_LEN;
            // What is there is done before anybody waits for more.
            if !entries.is_empty() && !here {
                break;
            }
            if len > 0 && used + len > buffer.as_ref().map_or(0, |buffer| buffer.len()) {
                // One that has to wait for its bytes is alone.
                if !entries.is_empty() {
                    break;
                }
                // More have come with it.
                let are_many = self.full.len() >= REQUEST_LEN + payload + REQUEST_LEN;
                let wanted = if are_many { len.max(BATCH) } else { len };
                let taken = share.take(wanted);
                buffer = Some(buffers.take(taken.len())?);
                in_pieces = taken.len() < len;
                lease = Some(taken);
            }
            self.full.start += REQUEST_LEN;
            let len = if in_pieces { 0 } else { len };
            let range = used..used + len;
            if in_pieces {
                // Whoever carries it out receives its bytes.
            } else if len < payload {
                self.skip(channel, share, payload)?;
            } else if let Some(buffer) = &mut buffer
                && payload > 0
            {
                self.fill(channel, &mut buffer[range.clone()])?;
            }
            self.long = payload >= LONG;
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
            lease,
            in_pieces,
        }))
    }

    /// Whether a request lies here already.
    pub fn has_request(&self) -> bool {
        self.full.len() >= REQUEST_LEN
    }

    /// The next request, which stays.
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

    /// Receives more; `false` at the end.
    fn more(&mut self, channel: &dyn Channel, share: &Share) -> io::Result<bool> {
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

    /// The next bytes of a write, which are waited for.
    ///
    /// # Errors
    /// As [`Inbox::receive`].
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

    /// Throws the next `len` bytes away, however long they take.
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
            if !self.more(channel, share)? {
                return Err(cut_off("the bytes of a write"));
            }
        }
    }
}

/// Whether two requests may wait for each other: those that take as long as memory does,
/// and writes that become durable together.
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
        format!("it left in the midst of {what}"),
    )
}
