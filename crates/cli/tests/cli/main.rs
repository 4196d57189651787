// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the program as its users see it.

mod advice;
mod calibration;
mod console;
mod contents;
mod damaged_fields;
mod documents;
mod examples;
mod format;
mod formats;
mod header;
mod header_sizes;
mod key_lengths;
mod keys;
mod layout;
mod locks;
mod luks1;
mod meanwhile;
mod metadata_alone;
mod mixed_up;
mod mount;
mod outputs;
mod parts;

mod prompts;
mod raw;
mod reencrypt;
mod reencrypt_ended;
mod reencrypt_in_place;
mod reencrypt_killed;
mod reencrypt_limits;
mod reencrypt_many;
mod reencrypt_part;
mod reencrypt_turns;
mod resize;
mod roundtrip;
mod secrets;
mod serve;
mod service_manager;
mod signals;
mod stats;
mod streams;
mod support;
mod tokens;
mod usage;
mod volumes;
