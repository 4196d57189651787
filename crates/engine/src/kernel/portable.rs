// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel for any CPU: the bitsliced AES of the `aes` crate. It processes 4 blocks at once, and
//! has no branch and no table look-up that depends on a secret.
//!
//! On a CPU with AES instructions, that crate uses them unless it was compiled with
//! `--cfg aes_backend="soft"`, as in this workspace. [`Kernel::device`] says which of the two is
//! used.

use alloc::string::String;
use core::{iter, marker::PhantomData, ops::Deref, ptr};

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, BlockSizeUser, KeyInit, consts::U16};

use super::{
    feedback::FeedbackKernel,
    modes::Kernel,
    vector::{Beside, DEPTH, Each, MaskedRest, Nothing, Permutation, Vector, unrolled},
};
use crate::{
    backend::Direction,
    gf128::{mul, mul_alpha, mul_alpha8, mul_alpha32},
    key::{
        AesKey, KeySize,
        TweakSchedule::{Alpha, Printed},
    },
    mode::{
        blocks::{Masked, Pointers, rest},
        cbc, ctr, ecb,
        ofb::{self, Form, Lane, LaneKeys, Tweaks, Untweaked},
        xts,
    },
    run::Run,
    secret::SecretBytes,
};

#[derive(Clone, Copy)]
pub(super) struct Portable;

pub(super) enum Key {
    Aes128(Kept<aes::Aes128>),
    Aes256(Kept<aes::Aes256>),
}

/// A cipher of the `aes` crate, with its key schedule of about a kilobyte, in memory for secrets.
pub(super) struct Kept<C> {
    /// The cipher is at the first aligned address. Without `std` this is heap memory of any
    /// alignment.
    memory: SecretBytes,
    cipher: PhantomData<C>,
}

impl<C> Kept<C> {
    fn new(cipher: C) -> Self {
        let mut kept = Self {
            memory: SecretBytes::zeroed(size_of::<C>() + align_of::<C>() - 1),
            cipher: PhantomData,
        };
        let place = kept.memory.expose_mut().as_mut_ptr();
        // SAFETY: `aligned` skips less than `align_of::<C>()` bytes, so at least `size_of::<C>()`
        // bytes follow.
        unsafe { aligned::<C>(place).write(cipher) };
        kept
    }
}

fn aligned<C>(place: *mut u8) -> *mut C {
    place
        .map_addr(|address| address.next_multiple_of(align_of::<C>()))
        .cast()
}

impl<C> Deref for Kept<C> {
    type Target = C;

    #[inline(always)]
    fn deref(&self) -> &C {
        let place = self.memory.expose().as_ptr().cast_mut();
        // SAFETY: `new` has put a cipher there, and the memory has not moved since. The result
        // borrows `self`, so the memory is only read while it lives.
        unsafe { &*aligned::<C>(place) }
    }
}

impl<C> Drop for Kept<C> {
    fn drop(&mut self) {
        let place = self.memory.expose_mut().as_mut_ptr();
        // SAFETY: `new` has put a cipher there. It is dropped only here, before its memory.
        unsafe { aligned::<C>(place).drop_in_place() };
    }
}

/// Evaluates `$body` with `$cipher` as the cipher of either size.
macro_rules! with_cipher {
    ($key:expr, $cipher:ident => $body:expr) => {
        match $key {
            Key::Aes128(cipher) => {
                let $cipher = &**cipher;
                $body
            }
            Key::Aes256(cipher) => {
                let $cipher = &**cipher;
                $body
            }
        }
    };
}

impl Kernel for Portable {
    const NAME: &'static str = "portable";
    type Key = Key;

    /// The `aes` crate makes a key schedule on the stack, and copies it there in another form in
    /// each call. XTS in a release build uses 11 KiB of stack below the call.
    fn wipe_stack() {
        crate::stack::wipe::<{ 12 << 10 }>();
    }

    fn is_lost(key: &Key) -> bool {
        match key {
            Key::Aes128(cipher) => cipher.memory.is_lost(),
            Key::Aes256(cipher) => cipher.memory.is_lost(),
        }
    }

    fn device(self) -> String {
        if aes::hardware_accelerated() {
            // The results are correct, but the kernel is not what its name says.
            "CPU, instructions of the aes crate's choice (built without --cfg \
             aes_backend=\"soft\")"
                .into()
        } else {
            "CPU, bitsliced, any processor".into()
        }
    }

    fn expand(self, key: &AesKey) -> Key {
        let valid = "an AesKey has 16 or 32 bytes";
        match key.size() {
            KeySize::Aes128 => Key::Aes128(Kept::new(
                aes::Aes128::new_from_slice(key.expose()).expect(valid),
            )),
            KeySize::Aes256 => Key::Aes256(Kept::new(
                aes::Aes256::new_from_slice(key.expose()).expect(valid),
            )),
        }
    }

    unsafe fn xts(self, data: &Key, tweak: &Key, direction: Direction, run: &mut Run<'_>) {
        // SAFETY: `Blocks` needs no special instructions; the caller guarantees the unit length.
        unsafe {
            match (tweak, data) {
                (Key::Aes128(tweak), Key::Aes128(data)) => xts(&**tweak, &**data, direction, run),
                (Key::Aes256(tweak), Key::Aes256(data)) => xts(&**tweak, &**data, direction, run),
                _ => unreachable!("an XtsKey has two keys of one size"),
            }
        }
    }

    unsafe fn ecb(self, key: &Key, direction: Direction, run: &mut Run<'_>) {
        with_cipher!(key, key => match direction {
            // SAFETY: `Blocks` needs no special instructions; the caller guarantees the unit
            // length.
            Direction::Encrypt => unsafe { ecb::crypt(&Enc(key), run) },
            // SAFETY: as above.
            Direction::Decrypt => unsafe { ecb::crypt(&Dec(key), run) },
        });
    }

    unsafe fn cbc(self, data: &Key, essiv: Option<&Key>, direction: Direction, run: &mut Run<'_>) {
        let essiv = essiv.map(|key| match key {
            Key::Aes256(cipher) => Enc(&**cipher),
            Key::Aes128(_) => unreachable!("an ESSIV key is an AES-256 key"),
        });
        let essiv = essiv.as_ref();
        with_cipher!(data, data => match direction {
            // SAFETY: `Blocks` needs no special instructions; the caller guarantees the unit
            // length.
            Direction::Encrypt => unsafe { cbc_encrypt(essiv, &Enc(data), run) },
            // SAFETY: as above.
            Direction::Decrypt => unsafe { cbc_decrypt(essiv, &Dec(data), run) },
        });
    }

    fn ctr(self, key: &Key, run: &mut Run<'_>) {
        // SAFETY: `Blocks` needs no special instructions.
        with_cipher!(key, key => unsafe { ctr::crypt(&Enc(key), run) });
    }
}

impl FeedbackKernel for Portable {
    const MIXES: bool = false;
    const BLOCKS: usize = Blocks::BLOCKS;
    const CHAINS: usize = 1;

    fn rounds(key: &Key) -> usize {
        match key {
            Key::Aes128(_) => KeySize::Aes128.rounds(),
            Key::Aes256(_) => KeySize::Aes256.rounds(),
        }
    }

    unsafe fn feedback(self, form: Form, lanes: &mut [Lane<'_, Key>], blocks: usize) {
        let Some(lane) = lanes.first() else { return };
        let keys = lane.keys;
        let is_same = |lane: &Lane<'_, Key>| iter::zip(lane.keys, keys).all(|(a, b)| ptr::eq(a, b));
        assert!(lanes.iter().all(is_same));
        // SAFETY: the caller guarantees it, as `# Safety` requires.
        with_cipher!(keys[0], first => unsafe { feedback(form, first, keys[1], lanes, blocks) });
    }
}

/// As [`FeedbackKernel::feedback`], under the key `first`, and with two chains also `second`.
///
/// # Safety
/// At each lane's `at` at least `blocks` blocks remain.
#[inline(never)]
unsafe fn feedback<C: Cipher>(
    form: Form,
    first: &C,
    second: &Key,
    lanes: &mut [Lane<'_, Key>],
    blocks: usize,
) {
    let schedule = form.tweaked.map(|(_, schedule)| schedule);
    let second = C::of(second).filter(|_| form.chains == 2);
    let one = OneKey([first]);
    let two = second.map(|second| OneKey([first, second]));
    // SAFETY: the caller guarantees it, as `# Safety` requires.
    unsafe {
        match (schedule, two) {
            (None, _) => chained::<Untweaked, _, 1>(one, form, lanes, blocks),
            (Some(Alpha), None) => chained::<ofb::Alpha, _, 1>(one, form, lanes, blocks),
            (Some(Alpha), Some(two)) => chained::<ofb::Alpha, _, 2>(two, form, lanes, blocks),
            (Some(Printed), None) => chained::<ofb::Printed, _, 1>(one, form, lanes, blocks),
            (Some(Printed), Some(two)) => {
                chained::<ofb::Printed, _, 2>(two, form, lanes, blocks);
            }
        }
    }
}

/// [`ofb::crypt`] as a separate function, for the same reason as [`encrypt`].
///
/// # Safety
/// At each lane's `at` at least `blocks` blocks remain.
#[inline(never)]
unsafe fn chained<T, K, const C: usize>(
    keys: K,
    form: Form,
    lanes: &mut [Lane<'_, Key>],
    blocks: usize,
) where
    T: Tweaks,
    K: LaneKeys<C, V = Blocks>,
{
    // SAFETY: the caller guarantees it, as `# Safety` requires.
    unsafe { ofb::crypt::<_, _, T, C, C>(keys, form, lanes, blocks) }
}

/// One of the crate's two ciphers.
trait Cipher: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> {
    /// The cipher in a key, if it has this type.
    fn of(key: &Key) -> Option<&Self>;
}

impl Cipher for aes::Aes128 {
    fn of(key: &Key) -> Option<&Self> {
        match key {
            Key::Aes128(cipher) => Some(cipher),
            Key::Aes256(_) => None,
        }
    }
}

impl Cipher for aes::Aes256 {
    fn of(key: &Key) -> Option<&Self> {
        match key {
            Key::Aes256(cipher) => Some(cipher),
            Key::Aes128(_) => None,
        }
    }
}

/// A separate function, because the code of the `aes` crate is long.
#[inline(never)]
fn permuted<P: Cipher>(cipher: &P, x: Blocks) -> Blocks {
    let [y] = Enc(cipher).rounds([x], [Blocks([0; 4])], &mut Nothing);
    y
}

/// All lanes of each chain have one key. The `aes` crate adds the first and the last round key
/// itself, so they are zero here.
struct OneKey<'a, P, const C: usize>([&'a P; C]);

impl<P: Cipher, const C: usize> LaneKeys<C> for OneKey<'_, P, C> {
    type V = Blocks;

    #[inline(always)]
    fn first(&self, _: usize) -> Blocks {
        Blocks([0; 4])
    }

    #[inline(always)]
    fn between(&self, _: usize) -> Blocks {
        Blocks([0; 4])
    }

    #[inline(always)]
    fn rounds(&self, x: &mut [Blocks; C]) {
        for (x, cipher) in iter::zip(x, self.0) {
            *x = permuted(cipher, *x);
        }
    }

    /// `rounds` has already done the last round with its key, so `post` is all that is missing.
    #[inline(always)]
    fn last_round(x: Blocks, post: Blocks) -> Blocks {
        x.xor(post)
    }
}

/// XTS in one direction.
///
/// # Safety
/// The unit length is at least 16.
unsafe fn xts<C>(tweak: &C, data: &C, direction: Direction, run: &mut Run<'_>)
where
    C: Cipher + BlockCipherDecrypt,
{
    // SAFETY: the caller guarantees it, as `# Safety` requires.
    unsafe {
        match direction {
            Direction::Encrypt => encrypt(&Enc(tweak), &Enc(data), run),
            Direction::Decrypt => decrypt(&Enc(tweak), &Dec(data), run),
        }
    }
}

/// [`xts::encrypt`] as a separate function. A single function with all of them would need 3 MiB of
/// stack in a build without optimisation.
///
/// # Safety
/// The unit length is at least 16.
#[inline(never)]
unsafe fn encrypt<E, P>(tweak: &E, data: &P, run: &mut Run<'_>)
where
    E: Permutation<V = Blocks>,
    P: Permutation<V = Blocks>,
{
    // SAFETY: `Blocks` needs no special instructions; the caller guarantees the unit length.
    unsafe { xts::encrypt(tweak, data, run) }
}

/// [`xts::decrypt`], see [`encrypt`].
///
/// # Safety
/// The unit length is at least 16.
#[inline(never)]
unsafe fn decrypt<E, P>(tweak: &E, data: &P, run: &mut Run<'_>)
where
    E: Permutation<V = Blocks>,
    P: Permutation<V = Blocks>,
{
    // SAFETY: as above.
    unsafe { xts::decrypt(tweak, data, run) }
}

/// [`cbc::encrypt`] as a separate function, for the same reason as [`encrypt`].
///
/// # Safety
/// The unit length is a multiple of 16.
#[inline(never)]
unsafe fn cbc_encrypt<E, P>(essiv: Option<&E>, data: &P, run: &mut Run<'_>)
where
    E: Permutation<V = Blocks>,
    P: Permutation<V = Blocks>,
{
    // SAFETY: as above.
    unsafe { cbc::encrypt(essiv, data, run) }
}

/// [`cbc::decrypt`], see [`cbc_encrypt`].
///
/// # Safety
/// The unit length is a multiple of 16.
#[inline(never)]
unsafe fn cbc_decrypt<E, P>(essiv: Option<&E>, data: &P, run: &mut Run<'_>)
where
    E: Permutation<V = Blocks>,
    P: Permutation<V = Blocks>,
{
    // SAFETY: as above.
    unsafe { cbc::decrypt(essiv, data, run) }
}

/// Four blocks as little-endian integers, as many as the crate's code processes at once. Each call
/// costs as much as encrypting two more, so passes are long.
#[derive(Clone, Copy)]
struct Blocks([u128; 4]);

impl Blocks {
    #[inline(always)]
    fn each(self, f: fn(u128) -> u128) -> Self {
        let [a, b, c, d] = self.0;
        Self([f(a), f(b), f(c), f(d)])
    }
}

impl Vector for Blocks {
    const BLOCKS: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([0; 4])
    }

    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: the caller guarantees 64 readable bytes.
        Self(unsafe { p.cast::<[u128; 4]>().read_unaligned() }).each(u128::from_le)
    }

    #[inline(always)]
    unsafe fn load_aligned(p: *const u8) -> Self {
        // SAFETY: the caller guarantees it, as `# Safety` requires.
        unsafe { Self::load(p) }
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut u8) {
        // SAFETY: the caller guarantees 64 writable bytes.
        unsafe {
            p.cast::<[u128; 4]>()
                .write_unaligned(self.each(u128::to_le).0);
        }
    }

    #[inline(always)]
    unsafe fn broadcast(p: *const u8) -> Self {
        // SAFETY: the caller guarantees 16 readable bytes; a byte array needs no alignment.
        Self([u128::from_le_bytes(unsafe { p.cast::<[u8; 16]>().read() }); 4])
    }

    #[inline(always)]
    unsafe fn count(first: u128, stride: u64) -> Self {
        let mut next = Self([first; 4]);
        for (i, block) in (0..).zip(&mut next.0) {
            *block = add_low(first, stride.wrapping_mul(i));
        }
        next
    }

    #[inline(always)]
    fn add_low(mut self, n: u64) -> Self {
        for block in &mut self.0 {
            *block = add_low(*block, n);
        }
        self
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        self.each(u128::swap_bytes)
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        Self([a ^ e, b ^ f, c ^ g, d ^ h])
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        Self([a & e, b & f, c & g, d & h])
    }

    #[inline(always)]
    fn preceding(self, before: Self) -> Self {
        let [a, b, c, _] = self.0;
        Self([before.0[3], a, b, c])
    }

    #[inline(always)]
    fn spread(self, i: usize) -> Self {
        let mut t = (0..i * Self::BLOCKS).fold(self.0[0], |t, _| mul_alpha(t));
        let mut spread = self;
        for block in &mut spread.0 {
            *block = t;
            t = mul_alpha(t);
        }
        spread
    }

    #[inline(always)]
    fn mul_alpha_each(self) -> Self {
        self.each(mul_alpha)
    }

    #[inline(always)]
    fn mul(mut self, other: Self) -> Self {
        for (block, other) in self.0.iter_mut().zip(other.0) {
            *block = mul(*block, other);
        }
        self
    }

    #[inline(always)]
    fn exchanged(x: [Self; 4]) -> [Self; 4] {
        core::array::from_fn(|i| Self(x.map(|x| x.0[i])))
    }

    #[inline(always)]
    fn mul_alpha8(self) -> Self {
        self.each(mul_alpha8)
    }

    #[inline(always)]
    fn mul_pass(self) -> Self {
        const { assert!(DEPTH * Self::BLOCKS == 32) };
        self.each(mul_alpha32)
    }
}

impl MaskedRest for Blocks {
    #[inline(never)]
    unsafe fn masked_rest<P: Permutation<V = Self>>(
        p: &P,
        masks: &[Self; DEPTH],
        bytes: usize,
        src: *const u8,
        dst: *mut u8,
    ) -> Self {
        // SAFETY: the caller guarantees it, as `# Safety` requires.
        unsafe { rest::<Masked, P>(p, *masks, bytes, Pointers::separate(src, dst)) }
    }
}

/// Adds `n` to the low half, wrapping.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the low half")]
fn add_low(block: u128, n: u64) -> u128 {
    (block >> 64 << 64) | u128::from((block as u64).wrapping_add(n))
}

struct Enc<'a, C>(&'a C);
struct Dec<'a, C>(&'a C);

macro_rules! permutation {
    ($name:ident, $cipher:ident, $method:ident) => {
        /// The `aes` crate adds the first and the last round key itself, so they are zero here.
        impl<C: $cipher + BlockSizeUser<BlockSize = U16>> Permutation for $name<'_, C> {
            type V = Blocks;

            #[inline(always)]
            fn enter(&self, x: Blocks) -> Blocks {
                x
            }

            #[inline(always)]
            fn enter_masked(&self, x: Blocks, mask: Blocks) -> Blocks {
                x.xor(mask)
            }

            #[inline(always)]
            fn leave(&self) -> Blocks {
                Blocks([0; 4])
            }

            #[inline(always)]
            fn rounds<const D: usize, W: Beside<Blocks>>(
                &self,
                mut x: [Blocks; D],
                post: impl Each<Blocks>,
                work: &mut W,
            ) -> [Blocks; D] {
                let mut blocks = [[aes::Block::default(); Blocks::BLOCKS]; D];
                unrolled!(i in 0..D => {
                    // SAFETY: `blocks[i]` is an array of `BLOCKS` blocks, as large as a register.
                    unsafe { x[i].store(blocks[i].as_mut_ptr().cast()) };
                });
                self.0.$method(blocks.as_flattened_mut());
                unrolled!(i in 0..D => {
                    // SAFETY: as above.
                    x[i] = unsafe { Blocks::load(blocks[i].as_ptr().cast()) };
                });
                unrolled!(i in 0..DEPTH => {
                    work.step(i, &mut x[0]);
                });
                unrolled!(i in 0..D => {
                    x[i] = x[i].xor(post.at(i));
                });
                x
            }

            #[inline(always)]
            fn mask_mul_alpha8(&self, mask: Blocks) -> Blocks {
                mask.mul_alpha8()
            }

            #[inline(always)]
            fn mask_mul_pass(&self, mask: Blocks) -> Blocks {
                mask.mul_pass()
            }
        }
    };
}

permutation!(Enc, BlockCipherEncrypt, encrypt_blocks);
permutation!(Dec, BlockCipherDecrypt, decrypt_blocks);
