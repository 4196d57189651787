// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any requests on the mounted file, as the kernel would send them or not: each is answered at
//! most once, the file changes as a file in memory does, and the rest of the disk never.

#![no_main]

use std::{
    ffi::OsString,
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    thread,
    time::{Duration, SystemTime},
};

use libfuzzer_sys::{
    arbitrary::{self, Arbitrary},
    fuzz_target,
};
use luxor_sector::{Disk, DiskOptions, MemoryStorage, Part, Storage};
use luxor_serve::{
    Export,
    fuse::{FileName, MountOptions, serve_requests},
};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

const DISK: usize = 20_000;
/// The bytes of the disk that the file shows.
const PART: std::ops::Range<usize> = 1000..18_500;
const LEN: u64 = (PART.end - PART.start) as u64;
const FILE: u64 = 2;
const GREATEST: u64 = u64::MAX / 2;

const GETATTR: u32 = 3;
const READ: u32 = 15;
const WRITE: u32 = 16;
const INIT: u32 = 26;
const FALLOCATE: u32 = 43;

/// The other requests that Luxor answers itself, or the library for it: without those that it does
/// not know, some of which it parses with a panic if they are shorter than they say.
const CODES: [u32; 24] = [
    1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 20, 25, 27, 28, 29, 30, 34, 45,
];

const ENOSPC: i32 = -28;
const EROFS: i32 = -30;
const EOPNOTSUPP: i32 = -95;

#[derive(Arbitrary, Debug)]
struct Input {
    read_only: bool,
    requests: Vec<Sent>,
}

#[derive(Arbitrary, Debug)]
enum Sent {
    Read {
        ino: u8,
        at: Place,
        len: u32,
    },
    Write {
        ino: u8,
        at: Place,
        len: u16,
        byte: u8,
        flags: u32,
    },
    Allocate {
        ino: u8,
        at: Place,
        len: Place,
        mode: i32,
    },
    Zero {
        at: Place,
        len: Place,
        keep_size: bool,
    },
    Any {
        code: u8,
        ino: u64,
        body: Vec<u8>,
    },
}

/// A number near one that matters.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Place {
    Begin(u16),
    End(i8),
    Greatest(u8),
    Any(u64),
}

impl Place {
    fn number(self) -> u64 {
        match self {
            Self::Begin(number) => number.into(),
            Self::End(distance) => LEN.wrapping_add_signed(distance.into()),
            // The library refuses greater ones.
            Self::Greatest(distance) => GREATEST - u64::from(distance),
            Self::Any(number) => number & GREATEST,
        }
    }
}

fuzz_target!(|input: Input| {
    static MOUNTS: LazyLock<[Mutex<Mount>; 2]> =
        LazyLock::new(|| [false, true].map(|read_only| Mutex::new(Mount::new(read_only))));
    let mount = &MOUNTS[usize::from(input.read_only)];
    let mut mount = mount.lock().unwrap_or_else(PoisonError::into_inner);
    let mut model: Vec<u8> = (0..DISK).map(|i| (i * 7 >> 3) as u8).collect();
    mount
        .storage
        .write_all_at(&model, 0)
        .expect("memory is written");
    let outside = [model[..PART.start].to_vec(), model[PART.end..].to_vec()];
    for sent in input.requests.iter().take(8) {
        mount.check(sent, &mut model[PART]);
        let now = mount.storage.to_bytes();
        assert!(now[PART] == model[PART], "the file is not as it should be");
    }
    let now = mount.storage.to_bytes();
    assert!(now[..PART.start] == outside[0] && now[PART.end..] == outside[1]);
    assert_eq!(now.len(), DISK);
});

struct Mount {
    storage: Arc<MemoryStorage>,
    kernel: UnixStream,
    read_only: bool,
    next: u64,
}

struct Reply {
    error: i32,
    data: Vec<u8>,
}

impl Mount {
    fn new(read_only: bool) -> Self {
        let storage = Arc::new(MemoryStorage::new(vec![0; DISK]));
        let part = Part {
            offset: 0,
            len: DISK as u64,
            crypt: None,
        };
        let disk = Disk::new(storage.clone(), vec![part], DiskOptions::default()).expect("a disk");
        let options = MountOptions {
            name: FileName::new("file").expect("a name"),
            source: OsString::new(),
            modified: SystemTime::now(),
            allow_other: true,
            part: Some(PART.start as u64..PART.end as u64),
            read_only,
        };
        let kind = SockType::SeqPacket;
        let pair = socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC);
        let (kernel, fuse) = pair.expect("sockets");
        let export = Export::new(Arc::new(disk));
        thread::spawn(move || serve_requests(export, &options, fuse).expect("requests"));
        let kernel = UnixStream::from(kernel);
        // A reply that never comes.
        let limit = Some(Duration::from_secs(30));
        kernel.set_read_timeout(limit).expect("a limit");
        let mut mount = Self {
            storage,
            kernel,
            read_only,
            next: 0,
        };
        let mut init = words32(&[7, 31, 1 << 20, 0]);
        init.resize(64, 0);
        mount.send(INIT, 1, &init);
        assert_eq!(mount.receive().1.error, 0);
        mount
    }

    fn send(&mut self, code: u32, ino: u64, body: &[u8]) {
        self.next += 1;
        let len = u32::try_from(40 + body.len()).expect("short");
        let header = [
            words32(&[len, code]),
            words64(&[self.next, ino]),
            words32(&[0; 4]),
            body.to_vec(),
        ];
        self.kernel.write_all(&header.concat()).expect("it listens");
    }

    fn receive(&mut self) -> (u64, Reply) {
        let mut bytes = vec![0; 64 << 10];
        let len = self.kernel.read(&mut bytes).expect("a reply");
        bytes.truncate(len);
        assert_eq!(bytes[..4], u32::try_from(len).expect("short").to_le_bytes());
        let error = i32::from_le_bytes(bytes[4..8].try_into().expect("4 bytes"));
        let number = u64::from_le_bytes(bytes[8..16].try_into().expect("8 bytes"));
        let data = bytes.split_off(16);
        assert!(error <= 0 && (error == 0 || data.is_empty()));
        (number, Reply { error, data })
    }

    /// Sends a request that needs a reply.
    fn ask(&mut self, code: u32, ino: u64, body: &[u8]) -> Reply {
        self.send(code, ino, body);
        let (number, reply) = self.receive();
        assert_eq!(number, self.next);
        reply
    }

    fn check(&mut self, sent: &Sent, model: &mut [u8]) {
        match *sent {
            Sent::Read { ino, at, len } => {
                let at = at.number();
                let body = [words64(&[0, at]), words32(&[len, 0, 0, 0, 0, 0])].concat();
                let reply = self.ask(READ, ino.into(), &body);
                let begin = at.min(LEN);
                let end = (begin + u64::from(len)).min(LEN);
                assert_eq!(reply.error, 0);
                assert!(reply.data == model[begin as usize..end as usize]);
            }
            Sent::Write {
                ino,
                at,
                len,
                byte,
                flags,
            } => {
                let (at, data) = (at.number(), vec![byte; len.into()]);
                let numbers = words32(&[len.into(), 0, 0, 0, flags, 0]);
                let body = [words64(&[0, at]), numbers, data.clone()].concat();
                let reply = self.ask(WRITE, ino.into(), &body);
                let begin = at.min(LEN) as usize;
                let written = data.len().min(model.len() - begin);
                let expected = if written == 0 && len > 0 {
                    ENOSPC
                } else if self.read_only {
                    EROFS
                } else {
                    model[begin..][..written].fill(byte);
                    assert_eq!(reply.data[..4], (written as u32).to_le_bytes());
                    0
                };
                assert_eq!(reply.error, expected);
            }
            Sent::Allocate { ino, at, len, mode } => {
                self.allocate(ino.into(), at.number(), len.number(), mode, model);
            }
            Sent::Zero { at, len, keep_size } => {
                let mode = 0x10 | i32::from(keep_size);
                self.allocate(FILE, at.number(), len.number(), mode, model);
            }
            Sent::Any {
                code,
                ino,
                ref body,
            } => {
                let code = CODES[usize::from(code) % CODES.len()];
                self.send(code, ino, body);
                let asked = self.next;
                // Some requests have no reply.
                self.send(GETATTR, FILE, &[0; 16]);
                let (mut number, mut reply) = self.receive();
                if number == asked {
                    (number, reply) = self.receive();
                }
                assert_eq!((number, reply.error), (self.next, 0));
                let size = &reply.data[24..32];
                assert_eq!(size, LEN.to_le_bytes(), "the length has changed");
            }
        }
    }

    fn allocate(&mut self, ino: u64, at: u64, len: u64, mode: i32, model: &mut [u8]) {
        let mut body = words64(&[0, at, len]);
        body.extend(mode.to_le_bytes());
        body.extend([0; 4]);
        let reply = self.ask(FALLOCATE, ino, &body);
        let begin = at.min(LEN);
        let expected = if mode & !1 != 0x10 {
            EOPNOTSUPP
        } else if len > LEN - begin && mode & 1 == 0 {
            ENOSPC
        } else if self.read_only {
            EROFS
        } else {
            let end = begin + len.min(LEN - begin);
            model[begin as usize..end as usize].fill(0);
            0
        };
        assert_eq!(reply.error, expected);
    }
}

fn words32(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words64(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
