// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a secret from a file or a stream, uses a volume key, and asks again after a wrong secret.

mod support;

use std::{cell::Cell, fs, path::Path};

use luxor::{
    Error, KeyFile, Result, SecretBytes, Secrets, VolumeKeySecret, luks::LuksVersion, read_secret,
};

/// Stands for a prompt at which the user types a wrong passphrase first.
struct Prompt(Cell<u32>);

impl Secrets for Prompt {
    fn secret(&self, volume: &Path) -> Result<SecretBytes> {
        println!("Passphrase for {}:", volume.display());
        self.0.set(self.0.get() + 1);
        Ok(match self.0.get() {
            1 => SecretBytes::copy_of(b"correct house"),
            _ => support::secret(),
        })
    }

    fn ask_again(&self, wrong: &Error) -> bool {
        println!("{wrong}");
        self.0.get() < 3
    }
}

fn main() -> support::Result {
    let (folder, path) = support::volume(LuksVersion::Luks2)?;
    let prompt = Prompt(Cell::new(0));
    let unlocked = luxor::open(&path)?.unlock(&prompt)?;
    assert_eq!(prompt.0.get(), 2);
    println!("keyslot {}", unlocked.keyslots()[0].keyslot);
    drop(unlocked);

    let key_file = folder.path().join("key");
    fs::write(&key_file, b"correct horse")?;
    let secret = KeyFile::whole(&key_file).read()?;
    let (_, unlocked) = luxor::open(&path)?.keys(&secret)?;
    let line = read_secret(&mut &b"correct horse\nmore"[..], Some(b'\n'), 512)?;
    luxor::open(&path)?.unlock(&line.ok_or("no line")?)?;

    let volume_key = unlocked
        .keys
        .values()
        .next()
        .and_then(|key| key.volume_key());
    let volume_key = SecretBytes::copy_of(volume_key.ok_or("no key")?.expose());
    luxor::open(&path)?.unlock(&VolumeKeySecret(volume_key))?;
    Ok(())
}
