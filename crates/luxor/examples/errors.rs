// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells the errors of opening a volume apart by their class and type, and decides what to do next.

mod support;

use std::fs;

use luxor::{
    Error, ErrorClass, OpenError, OpenOptions, SecretBytes,
    luks::{LuksVersion, UnlockError},
};

#[derive(Debug, PartialEq, Eq)]
enum Next {
    AskAgain,
    OtherKeyslot,
    OtherPath,
    Wait,
    EncryptIt,
    Repair,
    Report,
}

/// The class is enough for most decisions. The typed errors behind it say more.
fn next(error: &Error) -> Next {
    match error.class() {
        ErrorClass::NoKey => match error.find::<UnlockError>() {
            Some(error) if !error.is_wrong_secret() => Next::OtherKeyslot,
            _ => Next::AskAgain,
        },
        ErrorClass::Missing => Next::OtherPath,
        ErrorClass::Busy => Next::Wait,
        _ => match error.find() {
            Some(OpenError::NotAVolume { .. }) => Next::EncryptIt,
            Some(OpenError::Unreadable { .. }) => Next::Repair,
            _ => Next::Report,
        },
    }
}

fn main() -> support::Result {
    let (folder, path) = support::volume(LuksVersion::Luks2)?;
    let wrong = SecretBytes::copy_of(b"correct house");
    let other = folder.path().join("photos.tar");
    fs::write(&other, b"some photos")?;
    let damaged = folder.path().join("damaged");
    let mut bytes = fs::read(&path)?;
    // A byte of the checksum of each copy of the metadata.
    bytes[0x1c0] ^= 1;
    bytes[0x4000 + 0x1c0] ^= 1;
    fs::write(&damaged, bytes)?;

    // `Volume::keys` leaves the volume open after a wrong secret, and `Volume::unlock` closes it.
    let volume = luxor::open(&path)?;
    assert_eq!(fails(volume.keys(&wrong)), Next::AskAgain);
    let (engine, keys) = volume.keys(&support::secret())?;
    let disk = volume.with_keys(engine, keys).disk()?;

    let to_write = OpenOptions::new().write(true);
    assert_eq!(fails(to_write.open(&path)), Next::Wait);
    assert_eq!(
        fails(luxor::open(folder.path().join("none"))),
        Next::OtherPath
    );
    assert_eq!(fails(luxor::open(&other)), Next::EncryptIt);
    assert_eq!(fails(luxor::open(&damaged)), Next::Repair);

    // A disk is used as a file is: its errors are `std::io::Error`, which `Error::io` converts.
    let beyond = disk.read_at(&mut [0; 512], disk.len());
    let error = beyond.map_err(|error| Error::io("cannot read the disk", &error));
    println!("{}", error.unwrap_err());
    Ok(())
}

fn fails<T>(result: luxor::Result<T>) -> Next {
    let error = result.err().expect("this volume cannot be opened");
    println!("{error}: {:?}", next(&error));
    next(&error)
}
