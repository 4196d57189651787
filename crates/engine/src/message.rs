// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages in output feedback, piece by piece and side by side.

use alloc::{boxed::Box, vec::Vec};
use core::{any::Any, fmt, iter};

use crate::run::{DataUnitNumber, InOut};

/// A message in output feedback, with tweaks or without: a stream of bytes in pieces of
/// any length, from [`Messages::begin`]. Encryption is
/// decryption. What it keeps between pieces is wiped when it is dropped.
///
/// Two messages under one key must never have the same IV: who has both ciphertexts has
/// the sum of the plaintexts.
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

/// A key with which messages in output feedback begin, from
/// [`LoadedKey::messages`](crate::LoadedKey::messages).
pub trait Messages {
    /// A message that begins with `iv`. With tweaks, what a piece of it needs of the one
    /// before is a secret, so that no number says where a piece begins.
    fn begin(&self, iv: DataUnitNumber) -> Message;
}

impl Message {
    /// Encrypts or decrypts the next bytes. With two chains both are made on this thread,
    /// side by side; [`Executor::crypt_message`](crate::Executor::crypt_message) knows
    /// other ways.
    ///
    /// # Panics
    /// If input and output are not of one length, or in a fork of the process that began the
    /// message: then nothing has been done yet.
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

/// Encrypts or decrypts the next bytes of many messages, side by side: as if each went on
/// by itself, but a chain waits for AES most of its time, and others take its place there.
///
/// The messages may have any keys, modes and lengths. Those of one key size and one form
/// (mode, number of chains, schedule) go together, up to 16 of them; the `portable`
/// engine puts those of one loaded key together only.
///
/// # Panics
/// If an input and its output are not of one length: then no message has gone on. And in a fork
/// of the process that began the messages.
pub fn encrypt_streams(turns: &mut [Turn<'_>]) {
    for turn in &*turns {
        turn.buf.assert_one_length();
    }
    let mut rest: Vec<&mut Turn<'_>> = turns.iter_mut().collect();
    while let Some((first, others)) = rest.split_first_mut() {
        let taken = first.message.0.crypt_with(&mut first.buf, others);
        // The first, and those others.
        let mut gone = iter::once(0)
            .chain(taken.into_iter().map(|i| i + 1))
            .peekable();
        let mut places = 0..;
        rest.retain(|_| gone.next_if_eq(&places.next().expect("an index")).is_none());
    }
}

/// What a [`Message`] is made of.
pub(crate) trait Chained: Any + Send {
    fn crypt(&mut self, buf: InOut<'_>);

    /// As `crypt`, together with those of `others` that are of the same engine. Returns
    /// which these are, in order.
    fn crypt_with(&mut self, buf: &mut InOut<'_>, others: &mut [&mut Turn<'_>]) -> Vec<usize>;

    /// Uses what is left of a block of key stream, and says how many bytes that were.
    #[cfg(feature = "std")]
    fn use_block(&mut self, buf: &mut InOut<'_>) -> usize;

    /// The chains, each to be gone on with by itself.
    #[cfg(feature = "std")]
    fn chains(&mut self) -> Vec<Box<dyn Chain + '_>>;

    /// Whether two chains on one thread take no longer than one.
    #[cfg(feature = "std")]
    fn together_costs_one(&self) -> bool;
}

/// A chain by itself.
#[cfg(feature = "std")]
pub(crate) trait Chain: Send {
    /// Adds its next blocks to `bytes`, which are whole blocks.
    fn add_to(&mut self, bytes: &mut [u8]);
}
