// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds, changes and removes keys, converts between the versions, and changes the label.

mod support;

use luxor::{
    Context, KeyOptions, LuksVolume, SecretBytes,
    luks::{LuksVersion, PbkdfOptions},
};

fn main() -> support::Result {
    let (_folder, path) = support::volume(LuksVersion::Luks1)?;
    let (context, first) = (Context::default(), support::secret());
    let second = SecretBytes::copy_of(b"battery staple");
    let options = KeyOptions {
        pbkdf: Some(PbkdfOptions { ..support::cheap() }),
        ..KeyOptions::default()
    };

    let mut volume = LuksVolume::open(&path, &context)?;
    let number = volume.add_key(None, &first, || Ok(second.clone()), &options, &context)?;
    println!("keyslot {number} added");
    volume.change_key(&first, |_| Ok(second.clone()), &options, &context)?;
    volume.remove_keyslot(number, Some(&second), false, &options.unlock, &context)?;
    volume.convert(false, &context)?;

    let mut volume = LuksVolume::open(&path, &context)?;
    assert_eq!(volume.header.version(), LuksVersion::Luks2);
    let label = "photos".parse()?;
    volume.change(&context, |header, storage| {
        header.set_label(storage, &label)
    })?;
    assert_eq!(volume.header.label(), "photos");
    luxor::open(&path)?.unlock(&second)?;
    Ok(())
}
