// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiments of five papers, repeated on this machine: a file for each, with the paper's
//! numbers in `published.rs` beside it.

pub(crate) mod an_seo;
pub(crate) mod damjanovic;
pub(crate) mod demir;
pub(crate) mod elmoghany;
pub(crate) mod sanida;
mod table_aes;
