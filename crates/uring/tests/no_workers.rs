// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens if the kernel cannot start threads for transfers that must block. A separate
//! program, because it drops its privileges and lowers its limits.

use std::{fs::File, io, os::unix::fs::FileExt, thread};

use luxor_uring::{Read, Rings, Write};
use nix::{
    sys::{
        memfd::{MFdFlags, memfd_create},
        resource::{Resource, getrlimit, setrlimit},
    },
    unistd::{Uid, setuid},
};

#[test]
fn transfers_that_get_no_thread_fail_with_an_error() {
    // For files in memory, the kernel uses such threads.
    let file = File::from(memfd_create("file", MFdFlags::empty()).unwrap());
    file.write_all_at(&[7; 8192], 0).unwrap();
    let rings = Rings::new().expect("this test needs io_uring: see kernel.io_uring_disabled");
    // The limit does not apply to root.
    if Uid::effective().is_root() {
        setuid(Uid::from_raw(65534)).unwrap();
    }
    let (_, hard) = getrlimit(Resource::RLIMIT_NPROC).unwrap();
    setrlimit(Resource::RLIMIT_NPROC, 0, hard).unwrap();
    assert!(thread::Builder::new().spawn(|| {}).is_err());

    let mut buf = [1; 4096];
    let mut reads = [Read::new(&mut buf, 4096)];
    rings.read(&file, &mut reads);
    let error = reads[0].result.as_ref().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Interrupted, "{error}");
    assert_eq!(buf, [1; 4096]);
    let mut writes = [Write::new(&[5; 4096], 0), Write::new(&[5; 4096], 4096)];
    rings.write(&file, &mut writes);
    for write in writes {
        let error = write.result.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted, "{error}");
    }
    file.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(buf, [7; 4096]);
}
