// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the zeros between the parts of the metadata.

use std::{io, ops::Range};

/// Writes zeros to a range of bytes, in order.
pub(crate) fn write_zeros(
    range: Range<u64>,
    mut write: impl FnMut(&[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    const PIECE: usize = 64 << 10;
    let zeros = vec![0; PIECE];
    for at in range.clone().step_by(PIECE) {
        let len = usize::try_from(range.end - at).map_or(PIECE, |left| left.min(PIECE));
        write(&zeros[..len], at)?;
    }
    Ok(())
}
