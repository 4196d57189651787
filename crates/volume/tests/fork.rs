// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kept keys and forked processes. In a file of its own, so that no other test is running when it
//! forks.

#![cfg(target_os = "linux")]

use luxor_volume::{Kdf, KeyCache};
use nix::{
    libc,
    sys::wait::{WaitStatus, waitpid},
    unistd::{ForkResult, fork},
};

/// The secret and the key are zeros there, and so is this secret: without a check it would be the
/// kept one, with a key of zeros.
#[test]
fn a_forked_child_derives_its_keys_again() {
    let kdf = Kdf::Pbkdf2 {
        hash: "sha256".into(),
        iterations: 1000,
        salt: vec![1; 32],
    };
    let cache = KeyCache::default();
    let derive = || {
        let mut key = [0; 32];
        cache.derive(&kdf, &[0; 8], &mut key).map(|()| key)
    };
    let expected = derive().unwrap();
    assert_ne!(expected, [0; 32]);
    // SAFETY: this process has no other thread that could hold a lock: the test's runner waits.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let is_right = derive().is_ok_and(|key| key == expected)
                && derive().is_ok_and(|key| key == expected);
            // SAFETY: _exit ends the child without running the exit handlers of the test process.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
        }
    }
    assert_eq!(derive().unwrap(), expected);
}
