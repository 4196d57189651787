// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happens if the system cannot provide another ring. A separate program, because it lowers
//! its limits.

use std::{
    io::{self, Write},
    os::unix::fs::FileExt,
    thread,
};

use luxor_uring::{Read, Rings};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

#[test]
fn transfers_that_get_no_ring_fail_with_an_error() {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&[7; 8192], 0).unwrap();
    let (reader, mut writer) = io::pipe().unwrap();
    let rings = &Rings::new().expect("this test needs io_uring: see kernel.io_uring_disabled");
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 0, hard).unwrap();
    assert_eq!(Rings::new().unwrap_err().raw_os_error(), Some(24));

    thread::scope(|scope| {
        // Until the pipe contains a byte, this call holds the only ring.
        let waiting = scope.spawn(|| {
            let mut byte = [0];
            let mut batch = [Read::new(&mut byte, 0)];
            rings.read(&reader, &mut batch);
            batch[0].result.as_ref().unwrap();
            byte
        });
        while format!("{rings:?}") != "Rings(0 idle)" {
            thread::yield_now();
        }
        let mut buf = [1; 4096];
        let mut batch = [Read::new(&mut buf, 4096)];
        rings.read(&file, &mut batch);
        let error = batch[0].result.as_ref().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        assert_eq!(buf, [1; 4096]);
        writer.write_all(&[5]).unwrap();
        assert_eq!(waiting.join().unwrap(), [5]);

        let mut batch = [Read::new(&mut buf, 4096)];
        rings.read(&file, &mut batch);
        assert_eq!(*batch[0].result.as_ref().unwrap(), 4096);
        assert_eq!(buf, [7; 4096]);
    });
}
