// SPDX-License-Identifier: MIT OR Apache-2.0
//! Independent messages side by side on one thread.

use std::time::Instant;

use luxor_engine::{
    Backend, Construction, InOut, LoadedKey, Message, Turn, TweakSchedule, encrypt_streams,
};
use serde::{Deserialize, Serialize};

use super::lane::{self, Form};
use crate::{
    plaintext::Pattern,
    stats::{self, Summary},
};

/// Bytes of each stream per call. Each stream works in place in its own buffer.
pub(super) const TURN: usize = 64_000;

/// Bytes that are compared with the reference.
const PREFIX: usize = 1000;

/// The sets of one form begin with one stream, to which the others are compared.
const SETS: [(Form, &[usize]); 2] = [
    (Form::Ofb, &[1, 2, 4, 8, 16, 32]),
    (Form::Two(Construction::Xex, TweakSchedule::Alpha), &[1, 16]),
];

/// The rate of a number of streams.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct StreamsRate {
    pub(super) form: Form,
    pub(super) streams: usize,
    /// 10⁹ bytes per second of all streams together.
    pub(super) gb_per_s: Summary,
    /// The ratio to one stream of the same form, in the same round.
    pub(super) of_one: Summary,
}

/// Times `bytes` bytes for each number of streams, in turns.
pub(super) fn measure(
    backend: &dyn Backend,
    bytes: usize,
    rounds: usize,
) -> Result<Vec<StreamsRate>, String> {
    let mut sets = Vec::new();
    for (form, counts) in SETS {
        for &count in counts {
            let mut set = Set::new(form, count, backend)?;
            set.check()?;
            sets.push(set);
        }
    }
    let mut samples = vec![Vec::new(); sets.len()];
    for at in stats::turns(rounds, sets.len()) {
        let set = &mut sets[at];
        let turns = (bytes / TURN / set.count).max(1);
        let mut messages = set.messages()?;
        set.go_on(&mut messages, turns.div_ceil(16));
        let begun = Instant::now();
        set.go_on(&mut messages, turns);
        let per_byte = begun.elapsed().as_secs_f64() / (turns * set.count * TURN) as f64;
        samples[at].push(Some(per_byte));
    }
    let row = |(set, own): (&Set, &Vec<Option<f64>>)| {
        let one = sets.iter().position(|one| one.form == set.form)?;
        let rates = own.iter().flatten().map(|per_byte| 1e-9 / per_byte);
        Some(StreamsRate {
            form: set.form,
            streams: set.count,
            gb_per_s: Summary::from_samples(rates.collect())?,
            of_one: stats::ratios(&samples[one], own)?,
        })
    };
    let rows: Option<_> = sets.iter().zip(&samples).map(row).collect();
    rows.ok_or_else(|| "no round was measured".to_owned())
}

/// Streams of one form.
struct Set {
    form: Form,
    count: usize,
    key: Box<dyn LoadedKey>,
    buffers: Vec<Vec<u8>>,
}

impl Set {
    fn new(form: Form, count: usize, backend: &dyn Backend) -> Result<Self, String> {
        let mut pattern = Pattern::new();
        let buffer = |_| {
            let mut buffer = vec![0; TURN];
            pattern.fill(&mut buffer);
            buffer
        };
        Ok(Self {
            form,
            count,
            key: form.load(backend)?,
            buffers: (0..count).map(buffer).collect(),
        })
    }

    /// Begins all messages under the key. Their IVs count from 0.
    fn messages(&self) -> Result<Vec<Message>, String> {
        (0..self.count as u64)
            .map(|iv| lane::message(&*self.key, iv))
            .collect()
    }

    /// Encrypts the next bytes of all streams. A single stream has no others to run beside.
    fn go_on(&mut self, messages: &mut [Message], turns: usize) {
        for _ in 0..turns {
            let pairs = messages.iter_mut().zip(&mut self.buffers);
            let mut turns: Vec<_> = pairs
                .map(|(message, buffer)| Turn {
                    message,
                    buf: InOut::InPlace(buffer),
                })
                .collect();
            match turns.as_mut_slice() {
                [one] => one.message.crypt(one.buf.reborrow()),
                several => encrypt_streams(several),
            }
        }
    }

    /// Checks that a prefix of each stream is the reference's, and that over two turns each stream
    /// has the same bytes as alone.
    fn check(&mut self) -> Result<(), String> {
        let name = format!("{} streams of {}", self.count, self.form.name());
        let before = self.buffers.clone();
        let mut messages = self.messages()?;
        self.go_on(&mut messages, 1);
        for (iv, (before, after)) in (0..).zip(before.iter().zip(&self.buffers)) {
            if after[..PREFIX] != self.form.reference(iv, &before[..PREFIX]) {
                return Err(format!("{name}: the bytes differ from the reference's"));
            }
        }
        self.go_on(&mut messages, 1);
        for (mut alone, (mut bytes, found)) in self
            .messages()?
            .into_iter()
            .zip(before.into_iter().zip(&self.buffers))
        {
            alone.crypt(InOut::InPlace(&mut bytes));
            alone.crypt(InOut::InPlace(&mut bytes));
            if bytes != *found {
                return Err(format!("{name}: the bytes differ from a single stream's"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use luxor_engine::Registry;

    use super::*;

    #[test]
    fn a_wrong_stream_is_noticed() {
        let portable = Registry::cpu().get("portable").unwrap();
        let mut set = Set::new(Form::Ofb, 3, &*portable).unwrap();
        assert_eq!(set.check(), Ok(()));
        set.form = Form::Ctr;
        assert!(set.check().unwrap_err().contains("the reference's"));
    }
}
