// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of all benches, in the order in which they run and are shown.

use crate::{bench::Entry, bench_names::benches, papers::*, *};

macro_rules! table {
    ($($module:ident $name:literal $words:literal;)+) => {
        pub(crate) const ALL: &[Entry] = &[$(Entry::new::<$module::Plan>($name)),+];
    };
}
benches!(table);
