// SPDX-License-Identifier: MIT OR Apache-2.0
//! LUKS2 (LUKS2 On-Disk Format Specification 1.1). There is one module for each object on the disk,
//! and further ones for the whole metadata and for the operations on them.
//!
//! ```text
//! binary_header   the first 4096 bytes of each of the two copies
//! json_c          JSON as json-c reads it, turned into one form
//! json, field     the text of the JSON area; a value in it together with its location
//! config, digest, kdf, keyslot, reencrypt_keyslot, segment, token     the objects
//! segments        all segments and the rules between them
//! metadata        all objects and the rules between them
//! copy            one of the two copies: binary header and JSON area
//! header          both copies, and the choice between them
//! unlock          from a secret to the volume key
//! header_sizes    the lengths of the parts of a new header
//! create, edit    creating and changing a volume
//! reencrypt       the state of a re-encryption
//! ```

pub(crate) mod binary_header;
pub(crate) mod config;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod digest;
pub(crate) mod edit;
pub(crate) mod field;
pub(crate) mod foreign;
pub(crate) mod header;
pub(crate) mod header_sizes;
pub(crate) mod json;
mod json_c;
pub(crate) mod kdf;
pub(crate) mod keyslot;
pub(crate) mod label;
pub(crate) mod metadata;
pub(crate) mod metadata_error;
pub(crate) mod new_keyslot;
pub(crate) mod reencrypt;
pub(crate) mod reencrypt_keyslot;
pub(crate) mod segment;
pub(crate) mod segments;
pub(crate) mod token;
pub(crate) mod unlock;
