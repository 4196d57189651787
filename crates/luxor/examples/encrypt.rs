// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encrypts a file into a new volume, and decrypts it again. Makes an empty volume.

mod support;

use std::fs;

use luxor::{DecryptOptions, EncryptOptions, luks::LuksVersion};

fn main() -> support::Result {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let secret = support::secret();
    fs::write(path("photos.tar"), b"some photos")?;

    // `luxor::encrypt` does the same with the defaults of cryptsetup.
    let new = EncryptOptions::new().volume(support::new_volume(LuksVersion::Luks2));
    new.encrypt(path("photos.tar"), path("photos.luks"), &secret)?;
    new.format(path("empty.luks"), 1 << 20, &secret)?;

    luxor::decrypt(path("photos.luks"), path("again.tar"), &secret)?;
    assert_eq!(fs::read(path("again.tar"))?, b"some photos");

    // A volume whose end is missing: what is there, in whole sectors.
    let short = fs::read(path("empty.luks"))?;
    fs::write(path("short.luks"), &short[..short.len() - 5000])?;
    let options = DecryptOptions::new().accept_cut_off(true);
    let decrypted = options.decrypt(path("short.luks"), path("short"), &secret)?;
    println!("{} bytes, missing: {:?}", decrypted.len, decrypted.missing);
    Ok(())
}
