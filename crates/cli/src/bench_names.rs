// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one list of the benches of `luxor-bench`. That program's table is made from it, for which it
//! includes this file: it depends on no part of `luxor`, and `luxor` not on it.

/// Calls the macro `$with` with all benches, in the order in which they run: the module in
/// `luxor-bench`, the name on the command line, and what is measured, for the help of `luxor`. This
/// is empty for a paper's experiment.
macro_rules! benches {
    ($with:ident) => {
        $with! {
            cpu "cpu" "the kernels, in the cache and over memory";
            file "file" "`encrypt`, `decrypt` and `dump` beside `cp`, in a memory file system";
            unlock "unlock" "keyslots, beside cryptsetup";
            reencrypt "reencrypt" "beside cryptsetup and a copy, and `serve --reencrypt` beside `serve`";
            block "block" "`serve` beside nbdkit and qemu-nbd";
            demir "demir-2020" "";
            elmoghany "elmoghany-2011" "";
            damjanovic "damjanovic-simic-2015" "";
            an_seo "an-seo-2022" "";
            sanida "sanida-2020" "";
            gpu "gpu" "cuda and opencl beside copies";
        }
    };
}
pub(crate) use benches;
