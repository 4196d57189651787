// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens a volume, unlocks it, and uses its plaintext as a disk. Opens one inside a larger file.

mod support;

use std::{
    fs,
    io::{Read, Seek, SeekFrom, Write},
};

use luxor::{OpenOptions, files::VolumePart, luks::LuksVersion};

fn main() -> support::Result {
    let (folder, path) = support::volume(LuksVersion::Luks2)?;
    let secret = support::secret();

    let options = OpenOptions::new().write(true);
    let mut disk = options.open(&path)?.unlock(&secret)?.disk()?;
    disk.seek(SeekFrom::Start(4096))?;
    disk.write_all(b"some bytes")?;
    disk.flush()?;

    let mut bytes = [0; 10];
    disk.seek(SeekFrom::Start(4096))?;
    disk.read_exact(&mut bytes)?;
    assert_eq!(&bytes, b"some bytes");
    // The same without a position, from any thread.
    disk.read_at(&mut bytes, 4096)?;
    drop(disk);

    // Without `write`, other programs may read the volume meanwhile.
    let disk = luxor::open(&path)?.unlock(&secret)?.disk()?;
    assert!(disk.write_at(b"x", 0).is_err());
    println!("{}: {} bytes", disk.name(), disk.len());

    // The same volume from byte 1048576 of a larger file on. A partition is `VolumePart::Partition`.
    let image = folder.path().join("image");
    fs::write(&image, [vec![0; 1 << 20], fs::read(&path)?].concat())?;
    let options = OpenOptions::new().part(VolumePart::From(1 << 20));
    let disk = options.open(&image)?.unlock(&secret)?.disk()?;
    disk.read_at(&mut bytes, 4096)?;
    assert_eq!(&bytes, b"some bytes");
    Ok(())
}
