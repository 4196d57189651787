// SPDX-License-Identifier: MIT OR Apache-2.0
//! The crate as its users see it, beside cryptsetup, on damaged metadata, and through power cuts.
//! One program, because each further one would be compiled and linked by itself.

mod backup;
mod changes;
mod cryptsetup;
mod hostile;
mod luks1;
mod luks1_changes;
mod luks1_convert;
mod luks1_create;
mod luks1_interrupted;
mod luks1_repair;
mod meanwhile;
mod metadata_fuzz;
mod policy;
mod power_cuts;
mod reencryption;

use std::sync::Arc;

use luxor_engine::{Backend, Mode, Registry};
use luxor_luks::{PbkdfKind, PbkdfOptions};

/// Whether all cases run. `cargo xtask test --long` sets the variable.
fn is_long() -> bool {
    std::env::var_os("LUXOR_TEST_LONG").is_some()
}

fn backend() -> Arc<dyn Backend> {
    Registry::cpu().best(Mode::Xts).unwrap()
}

/// The least costs of a keyslot.
fn cheap() -> PbkdfOptions {
    PbkdfOptions {
        kind: PbkdfKind::Pbkdf2,
        force_iterations: Some(1000),
        ..PbkdfOptions::default()
    }
}
