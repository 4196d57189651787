// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transmission phase: the requests of one client, and their replies.
//!
//! Several threads can work for a connection. The thread that holds the [`Inbox`] receives. It
//! takes all requests that have arrived, puts the inbox back, passes the requests to the disk in
//! one call, answers with one write, and takes the inbox again. So many requests need few system
//! calls and few calls of the engine, and no thread has to be woken.
//!
//! Another thread takes the inbox if the first one is busy for longer. It is called at once if that
//! can be foreseen (a flush, or so much data that a second core helps), otherwise when
//! [`Connection::call_if_stuck`] finds the inbox still unused.
//!
//! A thread is also called at once for a single request: no other has arrived with it, and none is
//! in progress. Then both cores sleep most of the time, the client's while the request is carried
//! out and the server's while the client prepares it. Waking a core takes longer than everything
//! else, especially on a virtual machine. The thread that is called to receive wakes the core that
//! the client will need in a moment.

use std::{
    io::{self, IoSlice},
    mem,
    ops::Range,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use luxor_sector::{Disk, Transfer, TransferData};
use thiserror::Error;
use tracing::Level;

use super::{
    agreed::Agreed,
    inbox::{Batch, Entry, Failure, Inbox},
    reply,
    request::{Command, Request},
    ticker::Ticker,
    wire::{AllocationFlags, CommandFlags, ErrorValue},
};
use crate::{
    channel::Channel,
    export::Export,
    listener::Peer,
    memory_budget::{FLOOR, Share},
    stats::{Done, Operation},
};

/// The most threads of one connection.
const THREADS: usize = 8;

/// While this many bytes are in progress nothing is received. So a client that reads no replies
/// holds the memory for these and one more request.
const MAX_IN_PROGRESS: usize = 32 << 20;

/// From this many bytes on, waking a second core pays.
const WORTH_A_CALL: usize = 128 << 10;

/// The most zeros that a thread writes before it checks again whether the grace period is over. Up to
/// eight threads of each client do so.
const ZEROES: usize = 1 << 20;

/// The same for discards and hints, which take the system less time. A device ignores a discard
/// that covers only a part of a block, so discards are cut into few pieces.
const HINTS: usize = 64 << 20;

/// For how long after [`Connection::stop`] the server still starts requests and parts of long ones.
/// Requests that had arrived are available at once. But over TCP more may follow for as long as the
/// client likes, and a full inbox holds thousands, each of which may take long. Requests that
/// remain get no reply, not even `NBD_ESHUTDOWN`: qemu and the kernel repeat unanswered requests
/// after they reconnect, but report an error to the program that uses the disk.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// A client that has completed the handshake.
pub struct Connection {
    channel: Arc<dyn Channel>,
    peer: Peer,
    agreed: Agreed,
    export: Arc<Export>,
    ticker: Arc<Ticker>,
    share: Arc<Share>,
    state: Mutex<State>,
    /// Wakes a parked thread, when the inbox is free or the connection is over.
    called: Condvar,
    /// Signalled when the last thread has ended.
    ended: Condvar,
    /// Held while a reply is sent, so that replies are not mixed.
    sending: Mutex<()>,
    /// The bytes that the client has read and written.
    read: AtomicU64,
    written: AtomicU64,
}

/// How a connection ended.
#[derive(Debug, Error)]
pub enum End {
    /// The client asked for it.
    #[error("clean")]
    Clean,
    /// The server stopped.
    #[error("server stopped")]
    Stopped,
    /// The client closed the connection without a word, or the connection broke.
    #[error("dropped")]
    Dropped,
    /// The client did not follow the protocol, or the system failed.
    #[error("{0}")]
    Failed(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => Self::Dropped,
            _ => Self::Failed(error),
        }
    }
}

struct State {
    /// `None` while a thread receives.
    inbox: Option<Inbox>,
    /// The time of [`Connection::stop`].
    stopped: Option<Instant>,
    over: bool,
    /// Set by the first thread that finds the end.
    end: Option<End>,
    threads: usize,
    /// The threads that were started as helpers.
    helpers: Vec<JoinHandle<()>>,
    parked: usize,
    /// The number of threads that are waiting for the disk.
    working: usize,
    /// Since when at least one thread has been waiting for the disk without a break.
    working_since: Instant,
    /// The sum of earlier such periods since [`Connection::stop`].
    worked: Duration,
    /// The bytes of requests that were received and are not yet answered.
    in_progress: usize,
    /// `turns` counts how often the inbox was put back. `seen` is its value at the last
    /// [`Connection::call_if_stuck`].
    turns: u64,
    seen: u64,
}

impl State {
    /// Counts one more thread that waits for the disk.
    fn begin_work(&mut self) {
        if self.working == 0 {
            self.working_since = Instant::now();
        }
        self.working += 1;
    }

    /// One thread no longer waits for the disk.
    fn end_work(&mut self) {
        if self.working == 1 {
            self.worked = self.worked_since_stop();
        }
        self.working -= 1;
    }

    /// Whether nothing more may be started.
    fn grace_is_over(&self) -> bool {
        self.stopped
            .is_some_and(|stopped| stopped.elapsed() >= STOP_GRACE)
    }

    /// Returns how long threads have waited for the disk since [`Connection::stop`].
    fn worked_since_stop(&self) -> Duration {
        match self.stopped {
            Some(stopped) if self.working > 0 => {
                self.worked + self.working_since.max(stopped).elapsed()
            }
            _ => self.worked,
        }
    }
}

impl Connection {
    /// Makes a connection after the handshake.
    pub fn new(
        channel: Arc<dyn Channel>,
        peer: Peer,
        agreed: Agreed,
        export: Arc<Export>,
        ticker: Arc<Ticker>,
    ) -> Arc<Self> {
        let share = Share::new(export.memory());
        Arc::new(Self {
            channel,
            peer,
            agreed,
            export,
            ticker,
            share,
            state: Mutex::new(State {
                inbox: Some(Inbox::default()),
                stopped: None,
                over: false,
                end: None,
                threads: 1,
                helpers: Vec::new(),
                parked: 0,
                working: 0,
                working_since: Instant::now(),
                worked: Duration::ZERO,
                in_progress: 0,
                turns: 0,
                seen: 0,
            }),
            called: Condvar::new(),
            ended: Condvar::new(),
            sending: Mutex::new(()),
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
        })
    }

    /// Serves until the client leaves, an error occurs, or [`Connection::stop`] is called. Helpers
    /// may still be answering when this returns.
    pub fn serve(self: &Arc<Self>) {
        let _end = EndOfThread(self);
        let mut answered = 0;
        while let Some(mut inbox) = self.take_inbox(mem::take(&mut answered)) {
            match self.receive(&mut inbox) {
                Ok(Some(batch)) => {
                    let foreseen = batch.is_slow(self.export.disk())
                        || (batch.bytes() >= WORTH_A_CALL && inbox.has_request());
                    self.put_back(inbox, &batch, foreseen);
                    answered = batch.bytes();
                    if let Err(error) = self.answer(batch) {
                        self.note_end(error.into());
                        self.channel.shutdown();
                        return;
                    }
                }
                Ok(None) => return self.note_end(End::Clean),
                Err(error) => return self.note_end(error.into()),
            }
        }
    }

    /// Notes how the connection ends, unless another thread has done so.
    fn note_end(&self, end: End) {
        let mut state = self.lock();
        let end = if state.stopped.is_some() {
            End::Stopped
        } else {
            end
        };
        state.end.get_or_insert(end);
    }

    /// Waits for requests. A write that is processed in pieces has been written completely when
    /// this returns.
    fn receive(&self, inbox: &mut Inbox) -> io::Result<Option<Batch>> {
        let (channel, buffers) = (&*self.channel, self.export.buffers());
        let mut received = inbox.receive(channel, &self.agreed, buffers, &self.share)?;
        if let Some(batch) = &mut received
            && batch.in_pieces
            && let Some(buffer) = &mut batch.buffer
            && let [entry] = &mut batch.entries[..]
            && entry.request.command == Command::Write
        {
            for (offset, len) in pieces(&entry.request, FLOOR) {
                let piece = &mut buffer[..len];
                inbox.fill(channel, piece)?;
                // After a failure the remaining bytes are only received.
                if entry.outcome.is_ok() {
                    self.lock().begin_work();
                    let written =
                        transfer_one(self.export.disk(), offset, TransferData::Write(piece));
                    self.lock().end_work();
                    entry.outcome = written.map_err(Failure::Failed);
                }
            }
        }
        Ok(received)
    }

    /// Waits until all requests are answered and no thread works for this connection. Returns how it
    /// ended.
    pub fn wait(&self) -> End {
        let mut state = self.lock();
        while state.threads > 0 {
            let waited = self.ended.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let helpers = mem::take(&mut state.helpers);
        // Without a reason, the grace period was over.
        let end = state.end.take().unwrap_or(End::Stopped);
        drop(state);
        for helper in helpers {
            // These threads panic only if code that they call panics. That panic has already been
            // printed.
            let _ = helper.join();
        }
        end
    }

    /// Returns how many bytes the client has read and written.
    pub fn moved(&self) -> (u64, u64) {
        (self.read.load(Relaxed), self.written.load(Relaxed))
    }

    /// Stops receiving, except for bytes that have already arrived. Requests that can be started
    /// within [`STOP_GRACE`] are answered.
    pub fn stop(&self) {
        self.lock().stopped = Some(Instant::now());
        self.channel.stop_receiving();
    }

    /// Whether the client has used up `limit`, its total time after [`Connection::stop`] to receive
    /// replies. Time in which a thread waits for the disk does not count, but it does not restart
    /// the limit: otherwise a client that reads slowly would get more time after each reply.
    pub fn waits_for_client(&self, limit: Duration) -> bool {
        let state = self.lock();
        state.stopped.is_some_and(|stopped| {
            stopped.elapsed().saturating_sub(state.worked_since_stop()) >= limit
        })
    }

    /// Ends the connection at once, without the remaining replies.
    pub fn shutdown(&self) {
        self.channel.shutdown();
    }

    /// Called at intervals. Calls a thread if the inbox has not been taken since the last call,
    /// because the thread that put it back is waiting for the disk.
    pub fn call_if_stuck(self: &Arc<Self>) {
        let mut state = self.lock();
        let turns = state.turns;
        let stuck = state.inbox.is_some() && state.working > 0 && state.seen == turns;
        state.seen = turns;
        if stuck {
            self.call(&mut state);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the inbox is free and takes it. Returns `None` when the connection is over.
    /// First subtracts `answered` bytes from those in progress.
    fn take_inbox(&self, answered: usize) -> Option<Inbox> {
        let mut state = self.lock();
        state.in_progress -= answered;
        loop {
            if state.over {
                return None;
            }
            // If too much is in progress, the threads that answer it take the inbox later: the last
            // of them finds nothing in progress. It would not be enough to call no thread here,
            // because on a busy machine threads that were called earlier run late, and all at once.
            if state.in_progress < MAX_IN_PROGRESS
                && let Some(inbox) = state.inbox.take()
            {
                return (!state.grace_is_over()).then_some(inbox);
            }
            state.parked += 1;
            state = self
                .called
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.parked -= 1;
        }
    }

    fn put_back(self: &Arc<Self>, inbox: Inbox, batch: &Batch, call: bool) {
        let mut state = self.lock();
        let alone = batch.entries.len() == 1 && !inbox.has_request() && state.working == 0;
        // A second thread that is not parked will come by itself.
        let alone = alone && (state.parked > 0 || state.threads == 1);
        state.inbox = Some(inbox);
        state.in_progress += batch.bytes();
        state.turns += 1;
        state.begin_work();
        if call || alone {
            self.call(&mut state);
        }
        drop(state);
        self.ticker.batch_begins();
    }

    /// Calls another thread to take the inbox. If no more threads are allowed, the inbox waits.
    fn call(self: &Arc<Self>, state: &mut State) {
        if state.in_progress >= MAX_IN_PROGRESS {
            return;
        }
        if state.parked > 0 {
            self.called.notify_one();
        } else if state.threads < THREADS
            && let Some(counted) = self.export.memory().helper()
        {
            let connection = Arc::clone(self);
            let helper = thread::Builder::new()
                .name("nbd helper".into())
                .spawn(move || {
                    let _counted = counted;
                    connection.serve();
                });
            if let Ok(helper) = helper {
                state.threads += 1;
                state.helpers.push(helper);
            }
        }
    }

    /// Carries out a batch and sends the replies.
    fn answer(&self, mut batch: Batch) -> io::Result<()> {
        let disk = self.export.disk();
        transfer(disk, &mut batch);
        make_durable(disk, &mut batch.entries);
        let mut replies = Replies::default();
        let mut done = Vec::with_capacity(batch.entries.len());
        for entry in &mut batch.entries {
            let outcome = mem::replace(&mut entry.outcome, Ok(()));
            let succeeded = self.reply(&mut replies, entry, outcome);
            done.push(Done {
                operation: operation(entry.request.command),
                bytes: entry.request.len.into(),
                succeeded,
            });
        }
        self.lock().end_work();
        let sent = {
            let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
            if batch.in_pieces && batch.entries[0].request.command == Command::Read {
                self.send_in_pieces(&mut batch, &mut done[0])
            } else {
                let bytes = batch.buffer.as_deref().unwrap_or_default();
                self.channel.send(&replies.slices(bytes))
            }
        };
        self.count(&batch, &done);
        self.export.stats().record(done, batch.begun.elapsed());
        if let Some(buffer) = batch.buffer {
            self.export.buffers().give_back(buffer);
        }
        drop(batch.memory);
        sent
    }

    /// Counts the bytes of requests, and shows the requests at the level `TRACE`.
    fn count(&self, batch: &Batch, done: &[Done]) {
        let sum = |operation| -> u64 {
            let done = done.iter().filter(|done| done.succeeded);
            let done = done.filter(|done| done.operation == operation);
            done.map(|done| done.bytes).sum()
        };
        self.read.fetch_add(sum(Operation::Read), Relaxed);
        self.written.fetch_add(sum(Operation::Write), Relaxed);
        if tracing::enabled!(Level::TRACE) {
            for (entry, done) in batch.entries.iter().zip(done) {
                let Request {
                    command,
                    offset,
                    len,
                    ..
                } = entry.request;
                tracing::trace!(peer = %self.peer, ?command, offset, len, done.succeeded, "request");
            }
        }
    }

    /// Reads data that do not fit into the buffer, and sends each piece when it has been read. A
    /// failure after the first piece can be reported only if each piece is a chunk of its own.
    /// Otherwise the connection ends, as it also does when the grace period is over.
    fn send_in_pieces(&self, batch: &mut Batch, done: &mut Done) -> io::Result<()> {
        let request = batch.entries[0].request;
        let (cookie, disk) = (request.cookie, self.export.disk());
        let buffer = batch.buffer.as_deref_mut().unwrap_or_default();
        let structured = self.agreed.structured_replies;
        let in_chunks = structured && !request.flags.contains(CommandFlags::DF);
        let end = request.offset + u64::from(request.len);
        for (offset, len) in pieces(&request, FLOOR) {
            if self.lock().grace_is_over() {
                done.succeeded = false;
                return Err(io::ErrorKind::TimedOut.into());
            }
            let piece = &mut buffer[..len];
            self.lock().begin_work();
            let read = transfer_one(disk, offset, TransferData::Read(piece));
            self.lock().end_work();
            let is_first = offset == request.offset;
            let mut replies = Replies::default();
            match read {
                Err(error) => {
                    done.succeeded = false;
                    if !is_first && !in_chunks {
                        return Err(error);
                    }
                    self.refuse(&mut replies, &request, &Failure::Failed(error));
                    return self.channel.send(&replies.slices(&[]));
                }
                Ok(()) if in_chunks => {
                    let is_last = offset + len as u64 == end;
                    let len32 = u32::try_from(len).expect("a piece has at most FLOOR bytes");
                    replies.push(&reply::data(cookie, offset, len32, is_last), 0..len);
                }
                Ok(()) if !is_first => replies.push(&[], 0..len),
                Ok(()) if structured => {
                    replies.push(&reply::data(cookie, offset, request.len, true), 0..len);
                }
                Ok(()) => replies.push(&reply::simple(cookie, None), 0..len),
            }
            self.channel.send(&replies.slices(piece))?;
        }
        Ok(())
    }

    /// Carries out a request that may take long, in steps. Stops when the grace period is over.
    fn in_steps(
        &self,
        request: &Request,
        work: impl Fn(&Disk, u64, u64) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let most = match request.command {
            Command::WriteZeroes => ZEROES,
            _ => HINTS,
        };
        for (offset, len) in pieces(request, most) {
            if self.lock().grace_is_over() {
                return Err(Failure::Late);
            }
            work(self.export.disk(), offset, len as u64).map_err(Failure::Failed)?;
        }
        Ok(())
    }

    /// Carries out a request that is not a transfer, and appends the reply. Returns whether it
    /// succeeded.
    fn reply(&self, replies: &mut Replies, entry: &Entry, outcome: Result<(), Failure>) -> bool {
        let request = &entry.request;
        let disk = self.export.disk();
        let offset = request.offset;
        let outcome = outcome.and_then(|()| {
            match request.command {
                Command::Flush => disk.flush().map_err(Failure::Failed)?,
                Command::Cache => self.in_steps(request, Disk::will_need)?,
                Command::Trim => self.in_steps(request, Disk::discard)?,
                Command::WriteZeroes => self.in_steps(request, Disk::write_zeroes)?,
                _ => return Ok(()),
            }
            match request.command {
                Command::Trim | Command::WriteZeroes if is_fua(request) => {
                    disk.flush().map_err(Failure::Failed)
                }
                _ => Ok(()),
            }
        });
        let succeeded = outcome.is_ok();
        match outcome {
            Ok(()) if request.command == Command::BlockStatus => {
                // Everything is reported as data, because a hole in the volume decrypts to noise.
                // Reporting a hole without the zero flag would not be enough: qemu takes
                // unallocated ranges for zeros when it compares images, and skips them when it
                // copies over another image.
                let mut reply = reply::block_status(request.cookie, 1).to_vec();
                reply.extend(reply::descriptor(request.len, AllocationFlags::default()));
                replies.push(&reply, 0..0);
            }
            Ok(()) if request.command == Command::Read && self.agreed.structured_replies => {
                let head = reply::data(request.cookie, offset, request.len, true);
                replies.push(&head, entry.range.clone());
            }
            Ok(()) => {
                let head = reply::simple(request.cookie, None);
                let data = match request.command {
                    Command::Read => entry.range.clone(),
                    _ => 0..0,
                };
                replies.push(&head, data);
            }
            Err(failure) => self.refuse(replies, request, &failure),
        }
        succeeded
    }

    fn refuse(&self, replies: &mut Replies, request: &Request, failure: &Failure) {
        let (agreed, cookie) = (&self.agreed, request.cookie);
        let mut bytes = Vec::new();
        match failure {
            Failure::Refused(refusal) => {
                reply::error(&mut bytes, agreed, cookie, refusal.error, refusal.message);
            }
            Failure::Failed(error) => {
                let value = ErrorValue::from(error);
                reply::error(&mut bytes, agreed, cookie, value, &error.to_string());
            }
            Failure::Late => return,
        }
        replies.push(&bytes, 0..0);
    }
}

/// Ensures that no other thread waits for a connection's thread that has ended, even by a panic.
struct EndOfThread<'a>(&'a Arc<Connection>);

impl Drop for EndOfThread<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.channel.shutdown();
        }
        let mut state = self.0.lock();
        state.over = true;
        state.threads -= 1;
        let last = state.threads == 0;
        drop(state);
        self.0.called.notify_all();
        if last {
            // The other threads have sent their replies.
            self.0.channel.shutdown();
            self.0.ended.notify_all();
        }
    }
}

/// Cuts a long request into offsets and lengths of at most `most` bytes. `most` is a multiple of
/// every sector size and the pieces end at its multiples, so no sector is read and written twice.
fn pieces(request: &Request, most: usize) -> impl Iterator<Item = (u64, usize)> + use<> {
    let mut at = request.offset;
    let end = at + u64::from(request.len);
    std::iter::from_fn(move || {
        let offset = at;
        at = end.min((offset / most as u64 + 1) * most as u64);
        let len = usize::try_from(at - offset).expect("a piece has at most `most` bytes");
        (len > 0).then_some((offset, len))
    })
}

fn transfer_one(disk: &Disk, offset: u64, data: TransferData<'_>) -> io::Result<()> {
    let mut transfers = [Transfer {
        offset,
        data,
        result: Ok(()),
    }];
    disk.transfer(&mut transfers);
    let [transfer] = transfers;
    transfer.result
}

/// Carries out all reads and writes of a batch in one call of the disk.
fn transfer(disk: &Disk, batch: &mut Batch) {
    if batch.in_pieces {
        return;
    }
    let Some(buffer) = &mut batch.buffer else {
        return;
    };
    let mut rest: &mut [u8] = buffer;
    let mut transfers = Vec::with_capacity(batch.entries.len());
    for entry in &batch.entries {
        let bytes = rest
            .split_off_mut(..entry.range.len())
            .expect("the entries' ranges follow each other");
        let data = match (entry.request.command, &entry.outcome) {
            (Command::Read, Ok(())) => TransferData::Read(bytes),
            (Command::Write, Ok(())) => TransferData::Write(bytes),
            _ => continue,
        };
        transfers.push(Transfer {
            offset: entry.request.offset,
            data,
            result: Ok(()),
        });
    }
    disk.transfer(&mut transfers);
    let mut results = transfers.into_iter().map(|transfer| transfer.result);
    for entry in &mut batch.entries {
        if entry.is_transfer() {
            let result = results.next().expect("one for each transfer");
            entry.outcome = result.map_err(Failure::Failed);
        }
    }
}

/// Makes writes with FUA durable before they are acknowledged.
fn make_durable(disk: &Disk, entries: &mut [Entry]) {
    let wants = |entry: &Entry| entry.request.command == Command::Write && is_fua(&entry.request);
    let mut written = entries
        .iter_mut()
        .filter(|entry| wants(entry) && entry.outcome.is_ok())
        .peekable();
    if written.peek().is_none() {
        return;
    }
    if let Err(error) = disk.flush() {
        for entry in written {
            let again = match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(error.kind(), error.to_string()),
            };
            entry.outcome = Err(Failure::Failed(again));
        }
    }
}

fn operation(command: Command) -> Operation {
    match command {
        Command::Read => Operation::Read,
        Command::Write => Operation::Write,
        Command::Flush => Operation::Flush,
        Command::Trim => Operation::Discard,
        Command::WriteZeroes => Operation::WriteZeroes,
        _ => Operation::Other,
    }
}

fn is_fua(request: &Request) -> bool {
    request.flags.contains(CommandFlags::FUA)
}

/// Replies that are sent with one call: their own bytes, and the data that were read.
#[derive(Default)]
struct Replies {
    heads: Vec<u8>,
    /// The end of each head, and the range of the buffer that follows it.
    parts: Vec<(usize, Range<usize>)>,
}

impl Replies {
    fn push(&mut self, head: &[u8], data: Range<usize>) {
        self.heads.extend_from_slice(head);
        self.parts.push((self.heads.len(), data));
    }

    fn slices<'a>(&'a self, buffer: &'a [u8]) -> Vec<IoSlice<'a>> {
        let mut begin = 0;
        let mut slices = Vec::with_capacity(2 * self.parts.len());
        for (end, data) in &self.parts {
            slices.push(IoSlice::new(&self.heads[begin..*end]));
            if !data.is_empty() {
                slices.push(IoSlice::new(&buffer[data.clone()]));
            }
            begin = *end;
        }
        slices
    }
}

#[cfg(test)]
mod tests;
