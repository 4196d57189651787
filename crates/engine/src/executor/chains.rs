// SPDX-License-Identifier: MIT OR Apache-2.0
//! The chains of one message on one thread or on two.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use alloc::{boxed::Box, vec, vec::Vec};

use zeroize::Zeroize;

use super::{Crew, Executor};
use crate::{
    message::{Chain, Message},
    run::InOut,
};

/// From this many bytes on, two threads are worth calling, and so many does each make
/// before they are merged.
const ARRAY: usize = 64 << 10;

/// How the two chains of a message are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chains {
    /// As is faster: together, since a chain leaves most of a core idle; but a thread each,
    /// for 64 KiB and more, with the `portable` engine, for which two chains are twice the
    /// work.
    #[default]
    Auto,
    /// Side by side on the caller's thread.
    Together,
    /// A thread each, merged late: each makes its key stream for an array of the input,
    /// and when both are done they are added to it, as the paper has it ("delayed
    /// synchronisation").
    Apart {
        /// The length of an array in bytes, rounded up to whole blocks.
        array: usize,
    },
}

impl Executor {
    /// Encrypts or decrypts the next bytes of a message.
    ///
    /// # Panics
    /// If input and output are not of one length.
    pub fn crypt_message(&self, message: &mut Message, mut buf: InOut<'_>, chains: Chains) {
        let array = match chains {
            Chains::Apart { array } => array.max(1).next_multiple_of(16),
            Chains::Auto
                if self.threads > 1
                    && buf.len() >= ARRAY
                    && !message.0.together_costs_one()
                    && message.0.chains().len() > 1 =>
            {
                ARRAY
            }
            Chains::Auto | Chains::Together => return message.crypt(buf),
        };
        let used = message.0.use_block(&mut buf);
        let whole = (buf.len() - used) / 16 * 16;
        let (_, buf) = buf.split_at(used);
        let (mut blocks, rest) = buf.split_at(whole);
        self.apart(message.0.chains(), &mut blocks, array);
        message.crypt(rest);
    }

    /// Whole blocks.
    fn apart(&self, chains: Vec<Box<dyn Chain + '_>>, buf: &mut InOut<'_>, array: usize) {
        let array = array.min(buf.len());
        let chains: Vec<_> = chains
            .into_iter()
            .map(|chain| Mutex::new((chain, vec![0; array])))
            .collect();
        let crew = self.crew.get_or_init(|| Crew::new(self.threads - 1));
        let mut done = 0;
        while done < buf.len() {
            let len = array.min(buf.len() - done);
            let next = AtomicUsize::new(0);
            crew.run(chains.len() - 1, &|_| {
                while let Some(chain) = chains.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut chain = chain.lock().expect("nobody else had it");
                    let (chain, stream) = &mut *chain;
                    stream[..len].fill(0);
                    chain.add_to(&mut stream[..len]);
                }
            });
            let place = done..done + len;
            if let InOut::Separate { input, output } = buf {
                output[place.clone()].copy_from_slice(&input[place.clone()]);
            }
            for chain in &chains {
                let chain = chain.lock().unwrap_or_else(PoisonError::into_inner);
                for (byte, stream) in buf.output()[place.clone()].iter_mut().zip(&chain.1) {
                    *byte ^= stream;
                }
            }
            done += len;
        }
        for chain in chains {
            let (_, mut stream) = chain.into_inner().unwrap_or_else(PoisonError::into_inner);
            stream.zeroize();
        }
    }
}
