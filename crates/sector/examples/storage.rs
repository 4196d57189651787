// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random requests of 4 KiB, 32 at a time, to an encrypted disk on a file: how the ways
//! to make them compare. The tables in `src/storage.rs` and `src/direct.rs` are from here.
//!
//! `cargo run --release -p luxor-sector --example storage -- FILE MIB` overwrites FILE.

use std::{
    error::Error,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    sync::Arc,
    time::{Duration, Instant},
};

use luxor_conformance::Random;
use luxor_engine::{Buffer, KeySpec, Mode, Registry, XtsKey};
use luxor_sector::{
    DirectFile, Disk, DiskOptions, Geometry, IvMode, Part, ReadAt, SectorSize, Storage, Transfer,
    TransferData, WriteAt,
};
use luxor_uring::{Read, Rings, Write};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

const DEPTH: usize = 32;
const REQUEST: usize = 4096;
/// The number of turns of each way, in alternation. The median counts.
const TURNS: usize = 5;
const TURN: Duration = Duration::from_millis(200);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(mib)) = (arguments.next(), arguments.next()) else {
        return Err("usage: storage FILE MIB".into());
    };
    let len = mib.parse::<u64>()? << 20;
    let open = || OpenOptions::new().read(true).write(true).open(&path);
    File::create(&path)?;
    let filled = open()?;
    let piece = vec![0x5a; 1 << 20];
    for offset in (0..len).step_by(1 << 20) {
        FileExt::write_all_at(&filled, &piece, offset)?;
    }
    filled.sync_all()?;

    let direct = || DirectFile::new(open()?).map_err(io::Error::other);
    let rings = || Rings::new();
    let buffered = [
        ("one by one", disk(OneByOne(open()?), len)?),
        ("as it is", disk(open()?, len)?),
        ("io_uring", disk(ByRing(open()?, rings()?), len)?),
    ];
    let direct = [
        ("one by one", disk(OneByOne(direct()?), len)?),
        ("as it is", disk(direct()?, len)?),
        ("threads", disk(direct()?.without_io_uring(), len)?),
    ];
    for (title, ways, write, cold) in [
        ("buffered reads, warm", &buffered, false, false),
        ("buffered reads, cold", &buffered, false, true),
        ("buffered writes", &buffered, true, false),
        ("direct reads", &direct, false, false),
        ("direct writes", &direct, true, false),
    ] {
        let mut found = [const { Vec::new() }; 3];
        for turn in 0..TURNS {
            for ((_, disk), found) in ways.iter().zip(&mut found) {
                if cold {
                    filled.sync_all()?;
                    posix_fadvise(&filled, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
                } else if !title.starts_with("direct") {
                    let mut piece = vec![0; 1 << 20];
                    for offset in (0..len).step_by(1 << 20) {
                        FileExt::read_exact_at(&filled, &mut piece, offset)?;
                    }
                }
                found.push(per_second(disk, write, turn)?);
            }
        }
        println!("{title}, thousands a second");
        for ((name, _), mut found) in ways.iter().zip(found) {
            found.sort_unstable_by(f64::total_cmp);
            println!("  {name}: {:.1} {found:.1?}", found[TURNS / 2]);
        }
    }
    Ok(())
}

/// An encrypted disk on all of it.
fn disk(storage: impl Storage + 'static, len: u64) -> Result<Disk, Box<dyn Error>> {
    let key: Vec<u8> = (0..64).collect();
    let key = Registry::cpu()
        .best(Mode::Xts)?
        .load_key(&KeySpec::Xts(XtsKey::new(&key)?))?;
    let geometry = Geometry {
        sector_size: SectorSize::B4096,
        iv_mode: IvMode::Plain64,
        iv_offset: 0,
        iv_large_sectors: false,
    };
    let part = Part {
        offset: 0,
        len,
        crypt: Some((Arc::from(key), geometry)),
    };
    Ok(Disk::new(
        Arc::new(storage),
        vec![part],
        DiskOptions::default(),
    )?)
}

/// Thousands of requests.
fn per_second(disk: &Disk, write: bool, turn: usize) -> io::Result<f64> {
    let mut random = Random::new(turn as u64);
    let mut memory = Buffer::zeroed(DEPTH * REQUEST);
    let places = usize::try_from(disk.len()).map_err(io::Error::other)? / REQUEST;
    let begun = Instant::now();
    let mut done = 0;
    while begun.elapsed() < TURN {
        let mut batch: Vec<_> = memory
            .chunks_mut(REQUEST)
            .map(|bytes| Transfer {
                offset: (random.below(places) * REQUEST) as u64,
                data: if write {
                    TransferData::Write(bytes)
                } else {
                    TransferData::Read(bytes)
                },
                result: Ok(()),
            })
            .collect();
        disk.transfer(&mut batch);
        for transfer in batch {
            transfer.result?;
            done += 1;
        }
    }
    Ok(f64::from(done) / 1000.0 / begun.elapsed().as_secs_f64())
}

/// Batches are loops.
struct OneByOne<S>(S);

impl<S: Storage> Storage for OneByOne<S> {
    fn alignment(&self) -> usize {
        self.0.alignment()
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

/// Batches are `io_uring`'s. Nothing here is short.
struct ByRing(File, Rings);

impl Storage for ByRing {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        Storage::read_exact_at(&self.0, buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        Storage::write_all_at(&self.0, buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn read_batch(&self, reads: &mut [ReadAt<'_>]) {
        let mut batch: Vec<_> = reads
            .iter_mut()
            .map(|read| Read::new(read.buf, read.offset))
            .collect();
        self.1.read(&self.0, &mut batch);
        let results: Vec<_> = batch.into_iter().map(|read| read.result).collect();
        for (read, result) in reads.iter_mut().zip(results) {
            read.result = result.map(|_| ());
        }
    }

    fn write_batch(&self, writes: &mut [WriteAt<'_>]) {
        let mut batch: Vec<_> = writes
            .iter()
            .map(|write| Write::new(write.buf, write.offset))
            .collect();
        self.1.write(&self.0, &mut batch);
        for (write, done) in writes.iter_mut().zip(batch) {
            write.result = done.result.map(|_| ());
        }
    }
}
