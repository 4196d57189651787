// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encrypts and decrypts files and streams that are already open.

mod support;

use std::{io::Cursor, path::Path, sync::Arc};

use luxor::{
    Context, LuksMetadata, OpenOptions, decrypt_to, encrypt_to,
    files::{DataFile, Input, Output},
    luks::LuksVersion,
    sector::MemoryStorage,
    volume::UnlockOptions,
};

fn main() -> support::Result {
    let (context, name) = (Context::default(), Path::new("object"));
    let (secret, new) = (support::secret(), support::new_volume(LuksVersion::Luks2));
    // Any `Storage` can hold a volume, and any `Read` be its input.
    let storage = Arc::new(MemoryStorage::default());
    let mut input = Input::of_stream(Cursor::new(b"some bytes".to_vec()), Path::new("stream"));
    let output = Output::of_storage(storage.clone(), name);
    encrypt_to(&mut input, output, &new, || Ok(secret.clone()), &context)?;

    let data = DataFile::of_storage(storage.clone(), name);
    let disk = OpenOptions::new().write(true).open_data(data, None)?;
    disk.unlock(&secret)?.disk()?.write_at(b"SOME", 0)?;

    let volume = LuksMetadata::open_input(Input::of_storage(storage, name)?, None, &context)?;
    let decrypted = Arc::new(MemoryStorage::default());
    let output = Output::of_storage(decrypted.clone(), Path::new("decrypted"));
    decrypt_to(volume, &secret, &UnlockOptions::default(), output, &context)?;
    assert_eq!(decrypted.to_bytes(), b"SOME bytes");
    Ok(())
}
