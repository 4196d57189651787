// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages in output feedback, encrypted piece by piece, alone or many together.

use alloc::{boxed::Box, vec::Vec};
use core::{any::Any, fmt, iter};

use crate::run::{DataUnitNumber, InOut};

/// A message in output feedback, with or without tweaks: a stream of bytes that the caller passes
/// in order, in pieces of any length. [`Messages::begin`] makes one. Encryption and decryption are
/// the same operation. The state that it keeps between pieces is wiped when it is dropped.
///
/// Two messages under one key must never have the same IV: the sum of the two ciphertexts would
/// then be the sum of the two plaintexts.
///
/// ```
/// use luxor_engine::{AesKey, DataUnitNumber, InOut, KeySpec, Mode, Registry};
///
/// # let random_bytes: [u8; 32] = core::array::from_fn(|i| i as u8);
/// let key = KeySpec::Ofb(AesKey::new(&random_bytes)?);
/// let key = Registry::cpu().best(Mode::Ofb)?.load_key(&key)?;
/// let iv = DataUnitNumber::new(0x0f1e_2d3c);
///
/// let mut bytes = *b"attack at dawn";
/// let messages = key.messages().unwrap();
/// messages.begin(iv).crypt(InOut::InPlace(&mut bytes));
/// let (head, tail) = bytes.split_at_mut(3);
/// let mut message = messages.begin(iv);
/// message.crypt(InOut::InPlace(head));
/// message.crypt(InOut::InPlace(tail));
/// assert_eq!(bytes, *b"attack at dawn");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Message(pub(crate) Box<dyn Chained>);

/// A loaded key that begins messages in output feedback, from
/// [`LoadedKey::messages`](crate::LoadedKey::messages).
pub trait Messages {
    /// Begins a message with `iv`, a big-endian integer of 16 bytes. A message can only begin at
    /// its first byte: with tweaks the state between two pieces is secret, so no public number
    /// could stand for a later position.
    fn begin(&self, iv: DataUnitNumber) -> Message;
}

impl Message {
    /// Encrypts or decrypts the next bytes. Two chains run together on the calling thread;
    /// [`Executor::crypt_message`](crate::Executor::crypt_message) can run them in other ways.
    ///
    /// # Panics
    /// If input and output differ in length, or if this process is a fork of the one that began the
    /// message. No byte has been changed then.
    pub fn crypt(&mut self, buf: InOut<'_>) {
        self.0.crypt(buf);
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").finish_non_exhaustive()
    }
}

/// A message and its next bytes.
#[derive(Debug)]
pub struct Turn<'a> {
    /// The message.
    pub message: &'a mut Message,
    /// Its next bytes.
    pub buf: InOut<'a>,
}

/// Encrypts or decrypts the next bytes of many messages together. The result is the same as one
/// call of [`Message::crypt`] for each, but faster: a single chain spends most of its time waiting
/// for AES, and here other chains use that time.
///
/// The messages may have any keys, modes and lengths. Up to 16 messages of one key size and one
/// form (mode, number of chains, schedule) run together. The `portable` engine combines only
/// messages of one loaded key.
///
/// # Panics
/// If an input and its output differ in length: no message has advanced then. Also if this process
/// is a fork of the one that began the messages.
pub fn encrypt_streams(turns: &mut [Turn<'_>]) {
    for turn in &*turns {
        turn.buf.assert_one_length();
    }
    let mut rest: Vec<&mut Turn<'_>> = turns.iter_mut().collect();
    while let Some((first, others)) = rest.split_first_mut() {
        let taken = first.message.0.crypt_with(&mut first.buf, others);
        // Remove the first message and those of `others` that were finished with it.
        let mut gone = iter::once(0)
            .chain(taken.into_iter().map(|i| i + 1))
            .peekable();
        let mut places = 0..;
        rest.retain(|_| gone.next_if_eq(&places.next().expect("endless")).is_none());
    }
}

/// The state of a [`Message`].
pub(crate) trait Chained: Any + Send {
    fn crypt(&mut self, buf: InOut<'_>);

    /// As `crypt`, together with the messages of `others` that belong to the same engine. Returns
    /// their indices in `others`, in ascending order.
    fn crypt_with(&mut self, buf: &mut InOut<'_>, others: &mut [&mut Turn<'_>]) -> Vec<usize>;

    /// Uses up the rest of a started key stream block, and returns the number of bytes used.
    #[cfg(feature = "std")]
    fn use_block(&mut self, buf: &mut InOut<'_>) -> usize;

    /// The chains, each of which can advance independently.
    #[cfg(feature = "std")]
    fn chains(&mut self) -> Vec<Box<dyn Chain + '_>>;

    /// Whether two chains on one thread take no longer than one.
    #[cfg(feature = "std")]
    fn together_costs_one(&self) -> bool;
}

/// One chain of a message.
#[cfg(feature = "std")]
pub(crate) trait Chain: Send {
    /// Adds the chain's next key stream blocks to `bytes`, a whole number of blocks.
    fn add_to(&mut self, bytes: &mut [u8]);
}
