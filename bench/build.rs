// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notes the compiler's version, and builds OpenSSL for the feature `rivals`.

use std::process::Command;

fn main() {
    // Do not rerun when other files of the package change: building OpenSSL takes minutes.
    println!("cargo::rerun-if-changed=build.rs");

    let rustc = std::env::var_os("RUSTC").expect("cargo sets RUSTC");
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .expect("the compiler runs");
    let version = String::from_utf8(version.stdout).expect("rustc prints text");
    println!("cargo::rustc-env=LUXOR_RUSTC={}", version.trim());

    #[cfg(feature = "rivals")]
    {
        let built = openssl_src::Build::new().build();
        println!(
            "cargo::rustc-link-search=native={}",
            built.lib_dir().display()
        );
        println!("cargo::rustc-link-lib=static=crypto");
    }
}
