// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parallel tweakable OFB: the forms that a key's bytes do not determine, and known answers made by
//! this project, since none are published.

use std::fmt::Write as _;

use luxor_engine::{Construction, Mode, ParallelOfbKey, TweakSchedule};
use luxor_reference::TweakableOfb;

use crate::random::Random;

/// The modes of Listing 3 and Listing 4.
const MODES: [Mode; 2] = [Mode::OfbXex, Mode::OfbXe];

/// The form of the mode, which [`Mode`] does not determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The number of chains: 2, or 1 for the first chain alone.
    pub chains: usize,
    /// How each tweak is computed from the one before.
    pub schedule: TweakSchedule,
}

impl Form {
    /// Both numbers of chains with both schedules.
    pub const ALL: [Self; 4] = [
        Self::new(2, TweakSchedule::Alpha),
        Self::new(2, TweakSchedule::Printed),
        Self::new(1, TweakSchedule::Alpha),
        Self::new(1, TweakSchedule::Printed),
    ];

    /// Two forms with key lengths that cover everything: both numbers of chains, both schedules,
    /// AES-128 and AES-256.
    pub(crate) const FEW: [(Self, usize); 2] = [
        (Self::new(2, TweakSchedule::Alpha), 32),
        (Self::new(1, TweakSchedule::Printed), 64),
    ];

    const fn new(chains: usize, schedule: TweakSchedule) -> Self {
        Self { chains, schedule }
    }

    /// The accepted key lengths in bytes. Two chains require AES-128.
    #[must_use]
    pub fn key_lens(self) -> &'static [usize] {
        if self.chains == 2 { &[32] } else { &[32, 64] }
    }

    /// Makes the key from its bytes.
    ///
    /// # Panics
    /// If the bytes are not a valid key, and for any other mode.
    #[must_use]
    pub fn key(self, mode: Mode, bytes: &[u8]) -> ParallelOfbKey {
        let construction = match mode {
            Mode::OfbXex => Construction::Xex,
            Mode::OfbXe => Construction::Xe,
            other => panic!("{other} has no chains"),
        };
        let key = match self.chains {
            1 => ParallelOfbKey::one_chain(bytes, construction, self.schedule),
            2 => ParallelOfbKey::new(bytes, construction, self.schedule),
            other => panic!("a form of {other} chains"),
        };
        key.unwrap_or_else(|e| panic!("{mode}, {self:?}: {e}"))
    }

    /// The reference's result for a data unit, in either direction.
    ///
    /// # Panics
    /// If the key is not valid, and for any other mode.
    #[must_use]
    pub fn reference(self, mode: Mode, key: &[u8], iv: u128, input: &[u8]) -> Vec<u8> {
        let xex = match mode {
            Mode::OfbXex => true,
            Mode::OfbXe => false,
            other => panic!("{other} has no chains"),
        };
        let as_printed = self.schedule == TweakSchedule::Printed;
        let mode = TweakableOfb { xex, as_printed };
        match self.chains {
            1 => mode.one_chain(key, iv, input),
            2 => mode.two_chains(key, iv, input),
            other => panic!("a form of {other} chains"),
        }
    }
}

/// The lengths in bytes of the answers' data units, four for each form and key length. Each group
/// has a unit of at least three blocks, in which the schedules differ.
const LENGTHS: [[usize; 4]; 4] = [
    [1, 17, 47, 200],
    [15, 32, 49, 128],
    [16, 31, 64, 177],
    [7, 33, 48, 80],
];

/// The length of a message so long that αⁱ has more than one bit set, with a partial block.
const LONG: usize = 16 * 133 + 5;

/// Makes the file `vectors/parallel-ofb/damjanovic-simic-2015.txt` with the reference.
///
/// # Panics
/// Never.
#[must_use]
pub fn answers() -> String {
    let random = &mut Random::new(2015);
    let mut file = HEAD.to_owned();
    let mut lengths = LENGTHS.iter().cycle();
    for mode in MODES {
        let section = mode.name().to_uppercase();
        writeln!(file, "\n[{section}]").expect("a String accepts every write");
        let mut count = 1;
        for form in Form::ALL {
            for &key_len in form.key_lens() {
                let mut lengths = lengths.next().expect("a cycle never ends").to_vec();
                if form == Form::new(2, TweakSchedule::Printed) {
                    lengths.push(LONG);
                }
                for len in lengths {
                    let key = random.bytes(key_len);
                    let iv = match count % 6 {
                        1 => 0,
                        2 => u128::MAX,
                        3 => 1,
                        _ => random.u128(),
                    };
                    let plaintext = random.bytes(len);
                    let ciphertext = form.reference(mode, &key, iv, &plaintext);
                    let Form { chains, schedule } = form;
                    let schedule = match schedule {
                        TweakSchedule::Alpha => "alpha",
                        TweakSchedule::Printed => "printed",
                    };
                    let [key, iv, plaintext, ciphertext] =
                        [&key[..], &iv.to_be_bytes(), &plaintext, &ciphertext].map(hex);
                    write!(
                        file,
                        "\nCOUNT = {count}\nCHAINS = {chains}\nTWEAKS = {schedule}\n\
                         KEY = {key}\nIV = {iv}\n\
                         PLAINTEXT = {plaintext}\nCIPHERTEXT = {ciphertext}\n"
                    )
                    .expect("a String accepts every write");
                    count += 1;
                }
            }
        }
    }
    file
}

const HEAD: &str = "\
# SPDX-License-Identifier: MIT OR Apache-2.0
# Parallel tweakable OFB (B. Damjanović and D. Simić, Security and Communication
# Networks, 2015), Listing 3 (OFB-XEX) and Listing 4 (OFB-XE). These are no published
# answers: there are none. This file is what this project's reference makes:
#
#     cargo run -p luxor-conformance --example parallel_ofb_answers
#
# CHAINS: 2, or 1 for the first chain alone. TWEAKS: alpha for T_i = alpha T_(i-1),
# printed for T_i = alpha^i T_(i-1). KEY: K1, then K2. The last block is truncated.
# See ../SOURCE.md.
";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
