// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a kernel supplies: the modes over its registers.

use alloc::string::String;

use crate::{backend::Direction, key::AesKey, run::Run};

/// The modes over one kind of registers. A value is proof that the CPU has the
/// instructions.
pub(super) trait Kernel: Copy + Send + Sync + 'static {
    const NAME: &'static str;
    type Key: Send + Sync;

    /// What a call or a key's expansion left on the stack is overwritten, if that
    /// may have been a key schedule.
    fn wipe_stack() {}

    /// Whether the system wiped an expanded key because this process is a fork of the one that
    /// expanded it.
    fn is_lost(key: &Self::Key) -> bool;

    /// The instructions, in words.
    fn device(self) -> String;
    fn expand(self, key: &AesKey) -> Self::Key;

    /// # Safety
    /// Units have 16 bytes and more.
    unsafe fn xts(
        self,
        data: &Self::Key,
        tweak: &Self::Key,
        direction: Direction,
        run: &mut Run<'_>,
    );
    /// # Safety
    /// Units have whole blocks.
    unsafe fn ecb(self, key: &Self::Key, direction: Direction, run: &mut Run<'_>);
    /// `essiv` is a key of AES-256.
    ///
    /// # Safety
    /// Units have whole blocks.
    unsafe fn cbc(
        self,
        data: &Self::Key,
        essiv: Option<&Self::Key>,
        direction: Direction,
        run: &mut Run<'_>,
    );
    fn ctr(self, key: &Self::Key, run: &mut Run<'_>);
}
