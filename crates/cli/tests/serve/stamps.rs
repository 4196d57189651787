// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks with stamps, and clients that record which writes were acknowledged.

use std::{
    io::Write,
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc::Sender,
    },
};

use crate::{
    raw::{Client, FLUSH, FUA, request, write},
    support::{Random, Volume},
};

/// Shorter than a sector of 4096 bytes, so that writers of neighbouring blocks share one.
pub const BLOCK: usize = 512;
pub const BLOCKS: usize = 1024;
pub const LEN: usize = BLOCKS * BLOCK;

/// Each block belongs to one writer.
const WRITERS: usize = 3;

/// The versions of each block.
pub struct Notes {
    /// The newest version that was sent.
    sent: Vec<AtomicU32>,
    /// The newest version that was acknowledged.
    acknowledged: Vec<AtomicU32>,
}

impl Notes {
    /// The versions of [`blank`].
    pub fn new() -> Self {
        let zeros = || (0..BLOCKS).map(|_| AtomicU32::new(0)).collect();
        Self {
            sent: zeros(),
            acknowledged: zeros(),
        }
    }

    /// Checks that each block of the plaintext is whole, not older than the acknowledged version,
    /// and not newer than the sent one. Returns the newest version of all blocks.
    #[track_caller]
    pub fn check(&self, plain: &[u8]) -> u32 {
        assert_eq!(plain.len(), LEN);
        let mut newest = 0;
        for (block, bytes) in plain.chunks(BLOCK).enumerate() {
            let found = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
            assert!(stamp(block, found) == bytes, "block {block} is torn");
            let sent = self.sent[block].load(Ordering::SeqCst);
            let acknowledged = self.acknowledged[block].load(Ordering::SeqCst);
            assert!(
                (acknowledged..=sent).contains(&found),
                "block {block} has version {found}, and {acknowledged} of {sent} was acknowledged"
            );
            newest = newest.max(found);
        }
        newest
    }

    /// Runs clients that write until the server ends. Each acknowledgement sends a message. Each
    /// client writes only its own blocks, and its writes do not overlap.
    pub fn load(&self, volume: &Volume, seed: u64, word: &Sender<()>, then: impl FnOnce()) {
        std::thread::scope(|scope| {
            for number in 0..WRITERS {
                let client = Client::new(volume);
                let word = word.clone();
                let random = Random(seed + number as u64);
                scope.spawn(move || self.write(number, client, random, &word));
            }
            then();
        });
    }

    fn write(&self, number: usize, mut client: Client, mut random: Random, word: &Sender<()>) {
        loop {
            let mut messages = Vec::new();
            let mut flying = Vec::new();
            for _ in 0..1 + random.below(16) {
                let block = random.below(BLOCKS / WRITERS) * WRITERS + number;
                if flying.iter().any(|(other, _)| *other == block) {
                    continue;
                }
                let version = self.sent[block].fetch_add(1, Ordering::SeqCst) + 1;
                let flags = if random.below(8) == 0 { FUA } else { 0 };
                let cookie = flying.len() as u64;
                let stamp = stamp(block, version);
                messages.extend(write(flags, cookie, block * BLOCK, &stamp));
                flying.push((block, version));
            }
            let flush = random.below(4) == 0;
            if flush {
                messages.extend(request(FLUSH, 0, u64::MAX, 0, 0));
            }
            // An error means that the server has ended. Replies that it sent before count.
            let _ = client.0.write_all(&messages);
            for _ in 0..flying.len() + usize::from(flush) {
                let Ok((error, cookie)) = client.reply() else {
                    return;
                };
                assert_eq!(error, 0);
                if let Some((block, version)) = usize::try_from(cookie)
                    .ok()
                    .and_then(|cookie| flying.get(cookie))
                {
                    self.acknowledged[*block].store(*version, Ordering::SeqCst);
                }
                let _ = word.send(());
            }
        }
    }
}

/// Every block in version 0.
pub fn blank() -> Vec<u8> {
    (0..BLOCKS).flat_map(|block| stamp(block, 0)).collect()
}

fn stamp(block: usize, version: u32) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    for (place, piece) in (0_u64..).zip(bytes.chunks_mut(16)) {
        piece[..4].copy_from_slice(&u32::try_from(block).unwrap().to_be_bytes());
        piece[4..8].copy_from_slice(&version.to_be_bytes());
        piece[8..].copy_from_slice(&place.to_be_bytes());
    }
    bytes
}
