// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor.VolumeCipher`: the keys of a volume without its storage.

use std::io;

use luxor::{
    VolumeCipher,
    engine::{Direction, InOut},
    files::{OfProcess, Role},
    sector::StoredRange,
};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyBytes, PyDict},
};

use crate::{
    args::{EngineArgs, Offset, Size, UnlockArgs},
    buffer::{Bytes, new_bytes},
    context::operate,
    error::{disk_exception, key_lost_in_fork},
    storage::{FileArg, objects},
    volume_arg::VolumeArg,
};

/// Long calls look for signals after about this many bytes.
const PIECE: usize = 16 << 20;

/// An unlocked volume without its storage.
#[pyclass(frozen, module = "luxor._luxor")]
pub(crate) struct Cipher(OfProcess<VolumeCipher>);

#[pymethods]
impl Cipher {
    /// Unlocks the volume in `file`, of which only the metadata and keyslots are read.
    #[new]
    fn new(file: &Bound<'_, PyAny>, args: &Bound<'_, PyDict>) -> PyResult<Self> {
        let py = file.py();
        let unlock: UnlockArgs = args.extract()?;
        let context = args.extract::<EngineArgs>()?.context()?;
        let (secrets, unlock) = (unlock.secrets(py)?, unlock.options());
        let volume = VolumeArg::new(FileArg::from_start(file)?, args)?;
        let objects = objects(volume.files());
        let opened = operate(py, context, &objects, &mut |_| Ok(()), move |context| {
            let volume = volume.metadata(Role::Data, context)?;
            VolumeCipher::open(volume, &*secrets, &unlock, context)
        })?;
        Ok(Self(OfProcess::new(opened)))
    }

    #[getter]
    fn size(&self) -> u64 {
        self.0.len()
    }

    #[getter]
    fn sector_size(&self) -> usize {
        self.0.sector_size()
    }

    /// Returns where the sectors lie that contain `size` bytes from `offset` on: their offset in the
    /// plaintext, their offset in the volume, and their length.
    fn stored(&self, py: Python<'_>, size: Size, offset: Offset) -> PyResult<Vec<(u64, u64, u64)>> {
        // This needs no key.
        let (cipher, Size(size), Offset(offset)) = (&*self.0, size, offset);
        let end = offset.saturating_add(size as u64).min(cipher.len());
        let stored = cipher.stored(offset.min(end)..end);
        let stored = stored.map_err(|error| exception(py, &error))?;
        let place = |stored: StoredRange| {
            let plaintext = stored.plaintext;
            (
                plaintext.start,
                stored.offset,
                plaintext.end - plaintext.start,
            )
        };
        Ok(stored.into_iter().map(place).collect())
    }

    /// Encrypts the plaintext from `offset` on: whole sectors, or up to the end of the plaintext.
    /// There the rest of the last sector is filled with zeros.
    fn encrypt<'py>(
        &self,
        data: &Bound<'py, PyAny>,
        offset: Offset,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (py, data, Offset(offset)) = (data.py(), Bytes::readable(data)?, offset);
        let input = data.as_slice();
        let padding = self.padding(input.len(), offset)?;
        new_bytes(py, input.len() + padding, |output| {
            if padding == 0 {
                let data = InOut::Separate { input, output };
                return self.crypt(py, Direction::Encrypt, data, offset);
            }
            let (plaintext, zeros) = output.split_at_mut(input.len());
            plaintext.copy_from_slice(input);
            zeros.fill(0);
            self.crypt(py, Direction::Encrypt, output.into(), offset)
        })
    }

    /// Decrypts whole sectors of the plaintext from `offset` on, which are in `pieces` one after the
    /// other. What follows the plaintext in the last sector is not returned.
    fn decrypt<'py>(
        &self,
        pieces: &Bound<'py, PyAny>,
        offset: Offset,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (py, Offset(offset)) = (pieces.py(), offset);
        let pieces = pieces.try_iter()?.map(|piece| Bytes::readable(&piece?));
        let pieces: Vec<_> = pieces.collect::<PyResult<_>>()?;
        let len = pieces.iter().map(Bytes::len).sum();
        let bytes = new_bytes(py, len, |mut output| {
            let mut at = offset;
            for piece in &pieces {
                let input = piece.as_slice();
                let (now, later) = output.split_at_mut(input.len());
                self.crypt(
                    py,
                    Direction::Decrypt,
                    InOut::Separate { input, output: now },
                    at,
                )?;
                (output, at) = (later, at + input.len() as u64);
            }
            Ok(())
        })?;
        let left = self.here()?.len().saturating_sub(offset);
        Ok(match usize::try_from(left) {
            Ok(left) if left < len => PyBytes::new(py, &bytes.as_bytes()[..left]),
            _ => bytes,
        })
    }
}

impl Cipher {
    fn here(&self) -> PyResult<&VolumeCipher> {
        self.0.here().ok_or_else(key_lost_in_fork)
    }

    /// Returns how many bytes follow the plaintext in its last sector, if it ends with the `len`
    /// bytes from `offset` on.
    fn padding(&self, len: usize, offset: u64) -> PyResult<usize> {
        let size = self.here()?.len();
        if offset.checked_add(len as u64) != Some(size) {
            return Ok(0);
        }
        Ok(self.whole_sectors(len, offset)?.saturating_sub(len))
    }

    /// Returns how many bytes of the plaintext from `offset` on the sectors have that contain `len`
    /// bytes. The parts of a volume that is re-encrypted can have different sector sizes.
    fn whole_sectors(&self, len: usize, offset: u64) -> PyResult<usize> {
        let cipher = self.here()?;
        let end = offset.saturating_add(len as u64).min(cipher.len());
        let stored = cipher.stored(offset.min(end)..end)?;
        let len = stored.last().map_or(0, |last| last.plaintext.end - offset);
        Ok(usize::try_from(len)?)
    }

    fn crypt(
        &self,
        py: Python<'_>,
        direction: Direction,
        data: InOut<'_>,
        offset: u64,
    ) -> PyResult<()> {
        let cipher = self.here()?;
        let (mut rest, mut at) = (data, offset);
        loop {
            let mid = match rest.len() {
                len if len > PIECE => match self.whole_sectors(PIECE, at)? {
                    // Beyond the end: the cipher refuses it.
                    0 => len,
                    whole => whole.min(len),
                },
                len => len,
            };
            let (piece, later) = rest.split_at(mid);
            let done = py.detach(|| cipher.crypt(direction, piece, at));
            done.map_err(|error| exception(py, &error))?;
            py.check_signals()?;
            if later.is_empty() {
                return Ok(());
            }
            (rest, at) = (later, at + mid as u64);
        }
    }
}

/// Returns the exception for an error of the cipher.
fn exception(py: Python<'_>, error: &io::Error) -> PyErr {
    match error.kind() {
        io::ErrorKind::InvalidInput => PyValueError::new_err(error.to_string()),
        _ => disk_exception(py, error),
    }
}
