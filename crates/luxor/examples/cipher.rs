// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encrypts the data of a volume in storage of your own, and a volume of unknown length as a file.

mod support;

use luxor::{
    Context, LuksMetadata, VolumeCipher, engine::Direction, files::Input, luks::LuksVersion,
    new_header, sector::MemoryStorage, volume::UnlockOptions,
};

fn main() -> support::Result {
    let (context, secret) = (Context::default(), support::secret());
    let options = support::new_volume(LuksVersion::Luks2);
    let new = new_header(10_000, &options, || Ok(secret.clone()), &context)?;
    let mut volume = new.bytes;
    volume.resize(usize::try_from(new.volume_len)?, 0);

    let storage = std::sync::Arc::new(MemoryStorage::new(volume.clone()));
    let input = Input::of_storage(storage, "volume".as_ref())?;
    let metadata = LuksMetadata::open_input(input, None, &context)?;
    let cipher = VolumeCipher::open(metadata, &secret, &UnlockOptions::default(), &context)?;
    for stored in cipher.stored(0..cipher.len())? {
        let mut sectors = vec![7; usize::try_from(stored.plaintext.end - stored.plaintext.start)?];
        let offset = stored.plaintext.start;
        cipher.crypt(Direction::Encrypt, sectors.as_mut_slice().into(), offset)?;
        let at = usize::try_from(stored.offset)?;
        volume[at..at + sectors.len()].copy_from_slice(&sectors);
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("volume");
    std::fs::write(&path, volume)?;
    let disk = luxor::open(path)?.unlock(&secret)?.disk()?;
    let mut byte = [0];
    disk.read_at(&mut byte, 9_999)?;
    assert_eq!(byte, [7]);
    Ok(())
}
