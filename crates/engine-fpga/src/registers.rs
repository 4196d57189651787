// SPDX-License-Identifier: MIT OR Apache-2.0
//! The core's registers. Addresses are in bytes from the beginning of the register window; all
//! registers have 32 bits (`rtl/rtl/luxor_pkg.sv` and `xts_regs.sv`).

use std::fmt;

use luxor_engine::{AesSize, KeySize};

/// Reads as [`ID_VALUE`].
pub const ID: u16 = 0x000;
/// Reads as [`VERSION_VALUE`] for this register map. The major version is in the high half.
pub const VERSION: u16 = 0x004;
/// How the core was built; see [`Config`].
pub const CONFIG: u16 = 0x008;
/// [`CONTROL_ENABLE`] and [`CONTROL_RESET`].
pub const CONTROL: u16 = 0x00c;
/// [`STATUS_BUSY`], [`STATUS_KEY_BUSY`] and [`STATUS_ZEROISING`].
pub const STATUS: u16 = 0x010;
/// The bits of [`IRQ_STATUS`] that raise the interrupt.
pub const IRQ_ENABLE: u16 = 0x014;
/// [`IRQ_DONE`], and bit 1: a key command is done. Writing a 1 clears the bit.
pub const IRQ_STATUS: u16 = 0x018;
/// The doorbell: descriptors submitted since the reset, modulo 2³².
pub const TAIL: u16 = 0x020;
/// Descriptors done since the reset, modulo 2³².
pub const HEAD: u16 = 0x024;
/// Write only: [`KEY_LOAD`] or [`KEY_CLEAR`], the slot from bit 8 on, and [`KEY_LONG`].
pub const KEY_COMMAND: u16 = 0x030;
/// [`KEY_STATUS_BUSY`], and the result of the last command in bits 7 to 4.
pub const KEY_STATUS: u16 = 0x034;
/// The state of each slot in two bits.
pub const SLOT_STATE: u16 = 0x038;
/// Write only: the data key in eight words. Its first byte is in the lowest bits.
pub const KEY_DATA: u16 = 0x040;
/// Write only: the tweak key, in the same format.
pub const KEY_TWEAK: u16 = 0x060;
/// Clock cycles since the reset, 64 bits. Reading the low half latches the high half.
pub const CYCLES: u16 = 0x080;
/// Beats taken from the core's output since the reset, 64 bits as [`CYCLES`].
pub const BEATS_OUT: u16 = 0x088;
/// The descriptors: [`RING_LEN`] places of [`DESCRIPTOR_BYTES`] bytes. Descriptor *k* since the
/// reset is in place *k* modulo [`RING_LEN`].
pub const RING: u16 = 0x800;

/// In a core with a bus master (`rtl/rtl/luxor_xts_dma.sv`), the address of the ring in memory, which
/// then replaces the ring at [`RING`].
pub const RING_LOW: u16 = 0x800;
/// The upper half of this address.
pub const RING_HIGH: u16 = 0x804;
/// The binary logarithm of the number of places in the ring in memory, 0 to 15. Writing a larger
/// value changes nothing.
pub const RING_LOG2: u16 = 0x808;

/// "LXTS" in ASCII.
pub const ID_VALUE: u32 = 0x4c58_5453;
/// Version 1.0.
pub const VERSION_VALUE: u32 = 0x0001_0000;

/// Take descriptors from the ring.
pub const CONTROL_ENABLE: u32 = 1;
/// Return everything to its state after power-up. Keys are zeroised. Data in progress do not come
/// out any more, but remain in buffers until they are overwritten.
pub const CONTROL_RESET: u32 = 2;

/// Descriptors are under way.
pub const STATUS_BUSY: u32 = 1;
/// A key command is under way.
pub const STATUS_KEY_BUSY: u32 = 2;
/// After a reset, key slots are being zeroised.
pub const STATUS_ZEROISING: u32 = 4;

/// In a core with a bus master: transfers that began before a reset are not finished.
pub const STATUS_DRAINING: u32 = 8;

/// A descriptor is done.
pub const IRQ_DONE: u32 = 1;

/// Load the key in [`KEY_DATA`] and [`KEY_TWEAK`], which are then zeroised.
pub const KEY_LOAD: u32 = 1;
/// Zeroise a slot.
pub const KEY_CLEAR: u32 = 2;
/// The key is an AES-256 key.
pub const KEY_LONG: u32 = 1 << 16;
/// The command is under way.
pub const KEY_STATUS_BUSY: u32 = 1;

/// Places in the ring.
pub const RING_LEN: u32 = 32;
/// Bytes from one place in the ring to the next.
pub const DESCRIPTOR_BYTES: u16 = 64;
/// Words of a descriptor that the host writes: the number (4), the stride (2), the unit length in
/// bytes, the number of units, and the slot with [`FLAG_DECRYPT`] and one of [`MODE_XTS`],
/// [`MODE_ECB`] and [`MODE_CTR`].
pub const DESCRIPTOR_WORDS: u16 = 9;
/// The index of the word that the core writes: [`DONE`], and the status code in bits 3 to 0.
pub const DESCRIPTOR_STATUS: u16 = 15;

/// In a descriptor's last word: decrypt.
pub const FLAG_DECRYPT: u32 = 1 << 8;
/// The bits of the mode in a descriptor's last word.
pub const MODE_MASK: u32 = 3 << 9;
/// In [`MODE_MASK`]: XTS.
pub const MODE_XTS: u32 = 0;
/// In [`MODE_MASK`]: ECB, without tweaks.
pub const MODE_ECB: u32 = 1 << 9;
/// In [`MODE_MASK`]: CTR. A core that lacks it refuses the descriptor ([`Config::has_ctr`]).
pub const MODE_CTR: u32 = 2 << 9;
/// In a descriptor's status: the descriptor is done.
pub const DONE: u32 = 1 << 31;
/// In a descriptor's status, from a bus master: the memory answered a read with an error.
pub const READ_ERROR: u32 = 1 << 8;
/// In a descriptor's status, from a bus master: the memory answered a write with an error.
pub const WRITE_ERROR: u32 = 1 << 9;

/// The number of key slots.
pub const SLOTS: usize = 4;

/// The configuration of a core: the value of the register [`CONFIG`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    bits: u32,
}

impl Config {
    /// Interprets the value of the register.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self { bits }
    }

    pub(crate) const fn bits(self) -> u32 {
        self.bits
    }

    /// Returns the configuration with another number of places in the ring, a power of two.
    pub(crate) const fn with_ring_len(self, places: u32) -> Self {
        let bits = self.bits & !(15 << 16) | places.ilog2() << 16;
        Self { bits }
    }

    const fn field(self, low: u32, width: u32) -> u32 {
        self.bits >> low & ((1 << width) - 1)
    }

    /// Returns the blocks of a beat: 1, 2 or 4.
    #[must_use]
    pub const fn lanes(self) -> usize {
        self.field(0, 4) as usize
    }

    /// Returns the bytes of a beat of either stream.
    #[must_use]
    pub const fn beat_len(self) -> usize {
        16 * self.lanes()
    }

    /// Returns whether the core supports keys of this size.
    #[must_use]
    pub const fn has_key_size(self, size: AesSize) -> bool {
        match size {
            AesSize::Aes128 => self.field(4, 1) == 1,
            AesSize::Aes192 => false,
            AesSize::Aes256 => self.field(5, 1) == 1,
        }
    }

    /// Returns whether the core encrypts.
    #[must_use]
    pub const fn encrypts(self) -> bool {
        self.field(6, 1) == 1
    }

    /// Returns whether the core decrypts.
    #[must_use]
    pub const fn decrypts(self) -> bool {
        self.field(7, 1) == 1
    }

    /// Returns where tweaks are encrypted.
    #[must_use]
    pub const fn tweak(self) -> Option<TweakUnit> {
        match self.field(8, 2) {
            0 => Some(TweakUnit::Paper),
            1 => Some(TweakUnit::Shared),
            2 => Some(TweakUnit::Dedicated),
            _ => None,
        }
    }

    /// Returns the registers per round: 1 to 4.
    #[must_use]
    pub const fn stages(self) -> u32 {
        self.field(12, 3)
    }

    /// Returns the number of places in the ring.
    #[must_use]
    pub const fn ring_len(self) -> u32 {
        1 << self.field(16, 4)
    }

    /// Returns whether the core has a bus master, with which it reads descriptors and data from
    /// memory.
    #[must_use]
    pub const fn has_master(self) -> bool {
        self.field(20, 1) == 1
    }

    /// Returns whether the core has counter mode.
    #[must_use]
    pub const fn has_ctr(self) -> bool {
        self.field(21, 1) == 1
    }

    /// Returns the cycles that a block takes from input to output.
    #[must_use]
    pub const fn latency(self) -> u32 {
        self.field(24, 8)
    }
}

/// Describes the configuration in words.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = match KeySize::ALL.map(|size| self.has_key_size(size.aes())) {
            [true, true] => "AES-128 and AES-256",
            [true, false] => "AES-128",
            [false, true] => "AES-256",
            [false, false] => "no keys",
        };
        let directions = match (self.encrypts(), self.decrypts()) {
            (true, true) => "encryption and decryption",
            (true, false) => "encryption",
            (false, true) => "decryption",
            (false, false) => "no direction",
        };
        let tweaks = match self.tweak() {
            Some(TweakUnit::Paper) => "tweaks before the data",
            Some(TweakUnit::Shared) => "tweaks in the data's pipeline",
            Some(TweakUnit::Dedicated) => "tweaks in a unit of their own",
            None => "tweaks in an unknown place",
        };
        let ctr = if self.has_ctr() { "counter mode, " } else { "" };
        let (lanes, stages, latency) = (self.lanes(), self.stages(), self.latency());
        write!(
            f,
            "{keys}, {directions}, {ctr}{tweaks}, {lanes} x 16 bytes per cycle, \
             {stages} registers per round, latency {latency}"
        )
    }
}

/// The place where a core encrypts tweaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TweakUnit {
    /// In the data's pipeline, before each data unit, as in the paper of 2011.
    Paper,
    /// In the data's pipeline, in slots between the data, several units ahead.
    Shared,
    /// In a small unit beside the data's pipeline.
    Dedicated,
}
