// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encrypts data units in memory with XTS, and a file with a bare mode.

mod support;

use std::fs;

use luxor::{
    Context, RawOptions, Xts, crypt_raw,
    engine::{DataUnitLen, DataUnitNumber, Direction, KeySpec, Mode, XtsKey},
    files::{Input, Output, OutputOptions, Role},
};

fn main() -> support::Result {
    let context = Context::default();
    let key: Vec<u8> = (0..64).collect();

    // Sectors of 4096 bytes, numbered in units of 512 as in LUKS2: 800, 808, …
    let xts = Xts::new(&key, &context)?;
    let mut sectors = vec![7; 3 * 4096];
    xts.crypt(
        Direction::Encrypt,
        4096,
        800_u64.into(),
        8,
        &mut sectors[..],
    )?;

    // The same in a file.
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    fs::write(path("plain"), vec![7; 3 * 4096])?;
    let options = RawOptions {
        mode: Mode::Xts,
        direction: Direction::Encrypt,
        data_unit: Some(DataUnitLen::new(4096)?),
        first: DataUnitNumber::new(800),
        stride: 8,
    };
    let mut input = Input::open(&path("plain"), Role::Data)?;
    let output = Output::create(&path("encrypted"), &OutputOptions::default())?;
    let key = || Ok(KeySpec::Xts(XtsKey::new(&key)?));
    crypt_raw(&mut input, output, key, &options, &context)?;
    assert!(fs::read(path("encrypted"))? == sectors);
    Ok(())
}
