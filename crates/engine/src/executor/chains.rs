// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the chains of one message on one thread or on two.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use alloc::{boxed::Box, vec, vec::Vec};

use zeroize::Zeroizing;

use super::{Crew, Executor};
use crate::{
    message::{Chain, Message},
    run::InOut,
};

/// The length in bytes from which a second thread is worth waking. `portable` takes 80 µs for a
/// chain of that length.
const WORTH: usize = 4 << 10;

/// The most bytes of key stream that each chain makes before they are merged.
const ARRAY: usize = 64 << 10;

/// How the two chains of a message are scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chains {
    /// The faster way. That is normally together on one thread, since a single chain leaves most of
    /// a core idle. With the `portable` engine two chains are twice the work, so from 4 KiB on each
    /// gets a thread.
    #[default]
    Auto,
    /// Both together on the caller's thread.
    Together,
    /// Each on its own thread, merged late: each chain makes its key stream for an array of the
    /// input, and when both are finished the two key streams are added to it. The paper of
    /// [`ParallelOfbKey`](crate::ParallelOfbKey) calls this "delayed synchronisation".
    Apart {
        /// The length of an array in bytes, rounded up to whole blocks and limited to the length of
        /// the input. Each chain allocates one array.
        array: usize,
    },
}

impl Executor {
    /// Encrypts or decrypts the next bytes of a message, with its chains scheduled as `chains`
    /// says. The result is that of [`Message::crypt`].
    ///
    /// # Panics
    /// If input and output differ in length, or if this process is a fork of the one that began the
    /// message.
    pub fn crypt_message(&self, message: &mut Message, mut buf: InOut<'_>, chains: Chains) {
        let array = match chains {
            Chains::Apart { array } => array,
            Chains::Auto
                if self.threads > 1
                    && buf.len() >= WORTH
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

    /// Encrypts `buf`, a whole number of blocks, with each chain in its own array.
    fn apart(&self, chains: Vec<Box<dyn Chain + '_>>, buf: &mut InOut<'_>, array: usize) {
        if buf.is_empty() {
            return;
        }
        // Clamp before rounding up: the caller's `array` may be as large as `usize::MAX`.
        let array = array.clamp(1, buf.len()).next_multiple_of(16);
        let chains: Vec<_> = chains
            .into_iter()
            .map(|chain| Mutex::new((chain, Zeroizing::new(vec![0; array]))))
            .collect();
        let helpers = (chains.len() - 1).min(self.threads - 1);
        // A single chain needs no helper.
        let crew = (helpers > 0).then(|| self.crew.get_or_init(|| Crew::new(self.threads - 1)));
        let mut done = 0;
        while done < buf.len() {
            let len = array.min(buf.len() - done);
            let next = AtomicUsize::new(0);
            let work = |_| {
                while let Some(chain) = chains.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut chain = chain.lock().expect("each chain is locked once");
                    let (chain, stream) = &mut *chain;
                    stream[..len].fill(0);
                    chain.add_to(&mut stream[..len]);
                }
            };
            match crew {
                Some(crew) => crew.run(helpers, &work),
                None => work(0),
            }
            let place = done..done + len;
            if let InOut::Separate { input, output } = buf {
                output[place.clone()].copy_from_slice(&input[place.clone()]);
            }
            for chain in &chains {
                let chain = chain.lock().unwrap_or_else(PoisonError::into_inner);
                for (byte, stream) in buf.output()[place.clone()].iter_mut().zip(chain.1.iter()) {
                    *byte ^= stream;
                }
            }
            done += len;
        }
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroUsize;

    use super::*;
    use crate::{
        key::{AesKey, Construction, KeySpec, ParallelOfbKey, TweakSchedule},
        registry::Registry,
        run::DataUnitNumber,
    };

    fn ofb() -> KeySpec {
        KeySpec::Ofb(AesKey::new(&[7; 16]).unwrap())
    }

    fn two_chains() -> KeySpec {
        let halves: [u8; 32] = core::array::from_fn(|i| u8::from(i < 16));
        let key = ParallelOfbKey::new(&halves, Construction::Xex, TweakSchedule::Alpha);
        KeySpec::ParallelOfb(key.unwrap())
    }

    fn crypt(key: &KeySpec, executor: &Executor, chains: Chains, len: usize) -> Vec<u8> {
        let backend = Registry::cpu().get("portable").unwrap();
        let key = backend.load_key(key).unwrap();
        let mut message = key.messages().unwrap().begin(DataUnitNumber::new(1));
        let mut bytes = vec![0; len];
        executor.crypt_message(&mut message, InOut::InPlace(&mut bytes), chains);
        bytes
    }

    #[test]
    fn an_array_has_any_length() {
        let executor = Executor::new(NonZeroUsize::MIN);
        for key in [ofb(), two_chains()] {
            for len in [0, 5, 16, 100] {
                let together = crypt(&key, &executor, Chains::Together, len);
                for array in [0, 1, 15, 17, usize::MAX / 2, usize::MAX - 15, usize::MAX] {
                    let apart = crypt(&key, &executor, Chains::Apart { array }, len);
                    assert_eq!(apart, together, "{len} bytes, {array} in an array");
                }
            }
        }
    }

    #[test]
    fn the_crew_starts_only_when_work_can_be_shared() {
        let executor = Executor::new(NonZeroUsize::new(2).unwrap());
        let apart = Chains::Apart { array: 64 };
        crypt(&ofb(), &executor, apart, 1000);
        crypt(&two_chains(), &executor, apart, 15);
        crypt(&two_chains(), &executor, Chains::Auto, WORTH - 1);
        assert!(executor.crew.get().is_none());
        crypt(&two_chains(), &executor, apart, 16);
        assert!(executor.crew.get().is_some());
    }
}
