// SPDX-License-Identifier: MIT OR Apache-2.0
//! The crate as its users see it, beside cryptsetup, on damaged metadata, and through power cuts.
//! One program, because each further one would be compiled and linked by itself.

mod backup;
mod beside_cryptsetup;
mod changes;
mod cryptsetup;
mod dialect;
mod failures;
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
use sha2::{Digest, Sha256};

/// Whether all cases run. `cargo xtask test --long` sets the variable.
fn is_long() -> bool {
    std::env::var_os("LUXOR_TEST_LONG").is_some()
}

fn backend() -> Arc<dyn Backend> {
    Registry::cpu().best(Mode::Xts).unwrap()
}

/// Replaces the JSON and the checksum of a copy of a LUKS2 header.
fn replace_json(copy: &mut [u8], text: &str) {
    copy[4096..].fill(0);
    copy[4096..][..text.len()].copy_from_slice(text.as_bytes());
    seal(copy);
}

/// Replaces the checksum of a copy of a LUKS2 header by the right one.
fn seal(copy: &mut [u8]) {
    copy[448..512].fill(0);
    let sum = Sha256::digest(&*copy);
    copy[448..480].copy_from_slice(&sum);
}

/// The least costs of a keyslot.
fn cheap() -> PbkdfOptions {
    PbkdfOptions {
        kind: PbkdfKind::Pbkdf2,
        force_iterations: Some(1000),
        ..PbkdfOptions::default()
    }
}
