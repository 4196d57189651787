// SPDX-License-Identifier: MIT OR Apache-2.0
//! The crate `aes`, driven by its sister crate for CTR.

use ctr::{
    CtrCore,
    cipher::{
        BlockCipherEncrypt, BlockSizeUser, InnerIvInit, KeyInit, StreamCipher,
        StreamCipherCoreWrapper, consts::U16,
    },
    flavors::Ctr128BE,
};
use luxor_engine::{Direction, InOut, Mode};

use super::{About, Rival};
use crate::cipher::Cipher;

pub(super) struct CtrCrate(About);

impl CtrCrate {
    pub(super) fn new() -> Self {
        let hardware = aes::hardware_accelerated();
        Self(About {
            name: "aes+ctr".into(),
            version: format!("aes {}, ctr {}", locked("aes"), locked("ctr")),
            path: if hardware {
                "CTR by the CPU's AES instructions, which the crate has found"
            } else {
                "CTR by bitsliced code, because the crate has found no AES instructions"
            }
            .into(),
            hardware,
        })
    }
}

impl Rival for CtrCrate {
    fn about(&self) -> &About {
        &self.0
    }

    fn cipher(
        &self,
        mode: Mode,
        _: Direction,
        key: &[u8],
    ) -> Option<Result<Box<dyn Cipher>, String>> {
        fn boxed<C>(key: &[u8]) -> Result<Box<dyn Cipher>, String>
        where
            C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + 'static,
        {
            let cipher = C::new_from_slice(key).map_err(|e| e.to_string())?;
            Ok(Box::new(Stream(cipher)))
        }
        match (mode, key.len()) {
            (Mode::Ctr, 16) => Some(boxed::<aes::Aes128>(key)),
            (Mode::Ctr, 32) => Some(boxed::<aes::Aes256>(key)),
            _ => None,
        }
    }
}

/// A cipher with its key.
struct Stream<C>(C);

impl<C> Cipher for Stream<C>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    fn crypt(&mut self, first: u64, unit: usize, bytes: InOut<'_>) -> Result<(), String> {
        let mut rest = bytes;
        for number in u128::from(first).. {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at(unit);
            rest = later;
            let core = CtrCore::<_, Ctr128BE>::inner_iv_init(&self.0, &number.to_be_bytes().into());
            let mut stream = StreamCipherCoreWrapper::from_core(core);
            match now {
                InOut::InPlace(bytes) => stream.apply_keystream(bytes),
                InOut::Separate { input, output } => stream.apply_keystream_b2b(input, output),
            }
        }
        Ok(())
    }
}

/// Returns the version of a crate in this program: the first of that name in the lock file.
fn locked(name: &str) -> &'static str {
    let lock = include_str!("../../../Cargo.lock");
    let entry = format!("name = \"{name}\"\nversion = \"");
    lock.split_once(&*entry)
        .and_then(|(_, rest)| Some(rest.split_once('"')?.0))
        .unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_the_lock_file() {
        for name in ["aes", "ctr"] {
            assert!(locked(name).starts_with("0."), "{name} {}", locked(name));
        }
        assert_eq!(locked("no such crate"), "?");
    }
}
