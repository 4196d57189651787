// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a keyslot may be replaced in its own place.

use clap::Args;
use luxor::InPlace;

/// Whether a keyslot may be replaced in its own place.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct InPlaceArgs {
    /// Overwrite the old keyslot with the new one if the header has no room for both
    ///
    /// A crash or power cut while it is written leaves a keyslot that nothing opens. Make a backup
    /// first: `luxor header backup`.
    #[arg(long)]
    pub in_place: bool,

    /// With --in-place: also if it is the last keyslot
    #[arg(long, requires = "in_place")]
    pub last: bool,
}

impl InPlaceArgs {
    /// Returns the choice for the library.
    pub(crate) fn choice(self) -> InPlace {
        match (self.in_place, self.last) {
            (false, _) => InPlace::Never,
            (true, false) => InPlace::UnlessOnly,
            (true, true) => InPlace::Always,
        }
    }
}
