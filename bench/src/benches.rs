// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of all benches, in the order in which they run and are shown.

use crate::{
    an_seo, bench::Entry, block, cpu, damjanovic, demir, elmoghany, file, gpu, reencrypt, sanida,
    unlock,
};

pub(crate) const ALL: [Entry; 11] = [
    Entry::of::<cpu::Plan<'_>>(),
    Entry::of::<file::Plan>(),
    Entry::of::<unlock::Plan>(),
    Entry::of::<reencrypt::Plan>(),
    Entry::of::<block::Plan>(),
    Entry::of::<demir::Plan>(),
    Entry::of::<elmoghany::Plan>(),
    Entry::of::<damjanovic::Plan<'_>>(),
    Entry::of::<an_seo::Plan<'_>>(),
    Entry::of::<sanida::Plan<'_>>(),
    Entry::of::<gpu::Plan>(),
];
