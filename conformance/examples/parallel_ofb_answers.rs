// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints `vectors/parallel-ofb/damjanovic-simic-2015.txt`, the known answers of parallel tweakable
//! OFB, computed by the reference.

#![forbid(unsafe_code)]

fn main() {
    print!("{}", luxor_conformance::parallel_ofb::answers());
}
