// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys of a volume for programs that read and write its data themselves, as from an object
//! store, or in many processes.

use std::{io, ops::Range};

use luxor_engine::{Direction, Executor, InOut};
use luxor_sector::{Layout, StoredRange};
use luxor_volume::{Header, Plaintext, UnlockOptions, Unlocked};

use crate::{
    Context, Engine, OpenError, Result, Secrets, VolumeMetadata,
    error::Cause,
    volume_disk::{parts, warn_of_linear},
};

/// An unlocked volume without its storage. It says where the bytes of the plaintext are stored, and
/// encrypts and decrypts them. Its methods may be called from any number of threads.
///
/// Nothing is locked: the caller must know that no other program changes the volume.
///
/// ```
/// use luxor::{
///     Context, LuksMetadata, SecretBytes, VolumeCipher,
///     engine::Direction,
///     files::Input,
///     sector::MemoryStorage,
///     volume::UnlockOptions,
/// };
///
/// # use luxor::luks::{LuksVersion, NewVolumeOptions, PbkdfKind, PbkdfOptions};
/// # let pbkdf = PbkdfOptions {
/// #     kind: PbkdfKind::Pbkdf2,
/// #     force_iterations: Some(1000),
/// #     ..PbkdfOptions::default()
/// # };
/// # let options = NewVolumeOptions { pbkdf, ..NewVolumeOptions::new(LuksVersion::Luks2) };
/// let context = Context::default();
/// let secret = SecretBytes::copy_of(b"correct horse");
/// let new = luxor::new_header(10_000, &options, || Ok(secret.clone()), &context)?;
///
/// // Only the header is there yet.
/// let mut volume = new.bytes;
/// volume.resize(usize::try_from(new.volume_len)?, 0);
/// let storage = std::sync::Arc::new(MemoryStorage::new(volume));
/// let input = Input::of_storage(storage, "volume".as_ref())?;
/// let volume = LuksMetadata::open_input(input, None, &context)?;
/// let cipher = VolumeCipher::open(volume, &secret, &UnlockOptions::default(), &context)?;
/// assert_eq!(cipher.len(), 10_000);
///
/// let mut second_sector = vec![0; 4096];
/// cipher.crypt(Direction::Encrypt, second_sector.as_mut_slice().into(), 4096)?;
/// let stored = cipher.stored(5000..5001)?;
/// assert_eq!(stored[0].plaintext, 4096..8192);
/// assert_eq!(stored[0].offset, (16 << 20) + 4096);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct VolumeCipher {
    layout: Layout,
    executor: Executor,
}

impl VolumeCipher {
    /// Unlocks `volume`.
    ///
    /// # Errors
    /// Those of [`VolumeMetadata::unlock_data`] and [`VolumeCipher::of_unlocked`].
    pub fn open<H: Header + ?Sized>(
        volume: VolumeMetadata<H>,
        secrets: &dyn Secrets,
        unlock: &UnlockOptions,
        context: &Context,
    ) -> Result<Self> {
        check_len(&volume)?;
        let engine = Engine::select(context, volume.describe().mode)?;
        let unlocked = volume.unlock_data(secrets, &*engine.backend, unlock, context)?;
        Self::of_unlocked(volume, unlocked, &engine, context)
    }

    #[cfg(any(feature = "cuda", feature = "opencl"))]
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Takes the keys of `volume` from [`VolumeMetadata::unlock_data`].
    ///
    /// # Errors
    /// Those of [`VolumeMetadata::payload_len`]. Also fails when the length of the data is unknown,
    /// and when the engine or the system reports an error.
    pub fn of_unlocked<H: Header + ?Sized>(
        volume: VolumeMetadata<H>,
        unlocked: Unlocked,
        engine: &Engine,
        context: &Context,
    ) -> Result<Self> {
        let made = Self::of_unlocked_with(volume, unlocked, engine, context, |_| Ok(()));
        made.map(|(cipher, ())| cipher)
    }

    /// As [`VolumeCipher::of_unlocked`], with what `also` makes of the plaintext.
    pub(crate) fn of_unlocked_with<H: Header + ?Sized, T>(
        volume: VolumeMetadata<H>,
        unlocked: Unlocked,
        engine: &Engine,
        context: &Context,
        also: impl FnOnce(&Plaintext) -> Result<T>,
    ) -> Result<(Self, T)> {
        let name = volume.data_name();
        check_len(&volume)?;
        let payload = volume.into_payload()?;
        let mut plaintext = payload.plaintext(unlocked.keys);
        if !payload.find_end(&mut plaintext, engine)? {
            return Err(OpenError::TrailerNotLast.about(&name));
        }
        warn_of_linear(&name, &plaintext, context);
        let layout = Layout::new(parts(&plaintext, engine)?, 1);
        let layout = layout.map_err(|error| error.about(&name))?;
        let executor = Executor::new(engine.threads);
        Ok((Self { layout, executor }, also(&plaintext)?))
    }

    /// The length of the plaintext in bytes. It need not be a whole number of sectors.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.layout.len()
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// The length of a sector in bytes.
    #[must_use]
    pub fn sector_size(&self) -> usize {
        self.layout.sector_size()
    }

    /// As [`Layout::stored`].
    ///
    /// # Errors
    /// Those of [`Layout::stored`].
    pub fn stored(&self, range: Range<u64>) -> io::Result<Vec<StoredRange>> {
        self.layout.stored(range)
    }

    /// As [`Layout::crypt`].
    ///
    /// # Errors
    /// Those of [`Layout::crypt`].
    pub fn crypt(&self, direction: Direction, data: InOut<'_>, offset: u64) -> io::Result<()> {
        self.layout.crypt(&self.executor, direction, data, offset)
    }
}

fn check_len<H: Header + ?Sized>(volume: &VolumeMetadata<H>) -> Result<()> {
    if volume.payload_len()?.is_none() {
        let name = volume.data_name();
        return Err(OpenError::NoLength { name }.into());
    }
    Ok(())
}
