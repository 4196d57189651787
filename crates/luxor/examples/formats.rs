// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the formats, and chooses one: by its name, or a plain volume by its values.

mod support;

use std::{fs, sync::Arc};

use luxor::{
    DecryptOptions, FORMATS, OpenOptions, PlainVolume, SecretBytes, format_by_name,
    luks::LuksVersion, sector::SectorSize,
};

fn main() -> support::Result {
    for format in FORMATS {
        println!("{:<8} {}", format.name(), format.summary());
    }
    let (folder, path) = support::volume(LuksVersion::Luks1)?;
    let luks2 = format_by_name("luks2").ok_or("no such format")?;
    assert!(OpenOptions::new().format(luks2).open(&path).is_err());

    // A plain volume has no header: its values come from the caller, and the secret is the key.
    let plain = PlainVolume {
        sector_size: SectorSize::B4096,
        ..PlainVolume::default()
    };
    let (path, key) = (folder.path().join("plain"), SecretBytes::copy_of(&KEY));
    fs::write(&path, vec![0; 8192])?;
    let options = OpenOptions::new().format(Arc::new(plain)).write(true);
    let disk = options.open(&path)?.unlock(&key)?.disk()?;
    disk.write_at(b"hello", 0)?;
    disk.sync()?;
    drop(disk);
    let decrypted = folder.path().join("decrypted");
    let volume = OpenOptions::new().format(Arc::new(plain));
    let options = DecryptOptions::new().volume(volume);
    options.decrypt(&path, &decrypted, &key)?;
    assert!(fs::read(decrypted)?.starts_with(b"hello"));
    Ok(())
}

/// A key of XTS has two different halves.
const KEY: [u8; 32] = *b"0123456789abcdef0123456789ABCDEF";
