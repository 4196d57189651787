// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interface of a kernel: the modes for its registers.

use alloc::string::String;

use crate::{backend::Direction, key::AesKey, run::Run};

/// The modes for one kind of register. A value proves that the CPU has the instructions.
pub(super) trait Kernel: Copy + Send + Sync + 'static {
    const NAME: &'static str;
    type Key: Send + Sync;

    /// Overwrites what a call or a key expansion left on the stack, if that may include a key
    /// schedule.
    fn wipe_stack() {}

    /// Whether the system wiped an expanded key because this process is a fork of the process that
    /// expanded it.
    fn is_lost(key: &Self::Key) -> bool;

    /// The instruction set, in words.
    fn device(self) -> String;
    fn expand(self, key: &AesKey) -> Self::Key;

    /// # Safety
    /// The unit length is at least 16.
    unsafe fn xts(
        self,
        data: &Self::Key,
        tweak: &Self::Key,
        direction: Direction,
        run: &mut Run<'_>,
    );
    /// # Safety
    /// The unit length is a multiple of 16.
    unsafe fn ecb(self, key: &Self::Key, direction: Direction, run: &mut Run<'_>);
    /// `essiv` is an AES-256 key.
    ///
    /// # Safety
    /// The unit length is a multiple of 16.
    unsafe fn cbc(
        self,
        data: &Self::Key,
        essiv: Option<&Self::Key>,
        direction: Direction,
        run: &mut Run<'_>,
    );
    fn ctr(self, key: &Self::Key, run: &mut Run<'_>);
}
