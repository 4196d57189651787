// SPDX-License-Identifier: MIT OR Apache-2.0
//! A re-encryption that a power cut, a failing disk or the user interrupts, and what cryptsetup makes of each
//! state on the way. The hand-over to and from cryptsetup is also tested with the command.

#[path = "reencrypt/cryptsetup.rs"]
mod cryptsetup;
#[path = "reencrypt/in_use.rs"]
mod in_use;
#[path = "reencrypt/power_cuts.rs"]
mod power_cuts;

use std::{
    io::{self, Cursor, Read},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use luxor::{
    Context, DiskUse, Engine, ErrorClass, Events, LuksVolume, Progress, ReencryptOptions,
    ReencryptPart, Result, VolumeDisk, ZoneProtection, reencrypt_data,
};
use luxor_engine::KeySize;
use luxor_files::{DataFile, Input, Output};
use luxor_luks::{
    HashAlgorithm, Luks2HeaderSizes, LuksVersion, NewVolumeOptions, PbkdfKind, PbkdfOptions,
    ReencryptMode, UnlockOptions,
};
use luxor_secret::SecretBytes;
use luxor_sector::{
    MemoryStorage, SectorSize, Storage,
    faulty::{Faults, FaultyStorage},
};

const PROTECTIONS: [ZoneProtection; 2] = [
    ZoneProtection::Checksum(HashAlgorithm::Sha256),
    ZoneProtection::Journal,
];

/// Three zones: the last one is shorter.
const LEN: usize = 10 << 10;
/// The length of a header that is moved or moved away, and of data that are longer: two shifts and a
/// half.
const SHIFT: usize = 168 << 10;
const SHIFTED_LEN: usize = 420 << 10;
const ZONE: u64 = 4 << 10;

fn secret() -> SecretBytes {
    SecretBytes::copy_of(b"correct horse")
}

fn cheap() -> PbkdfOptions {
    PbkdfOptions {
        kind: PbkdfKind::Pbkdf2,
        force_iterations: Some(1000),
        ..PbkdfOptions::default()
    }
}

fn plain() -> Vec<u8> {
    plain_of(LEN)
}

fn plain_of(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

/// A volume of few bytes, in sectors of 512.
fn volume() -> Vec<u8> {
    let options = new_volume(312 << 10);
    let storage = Arc::new(MemoryStorage::default());
    let mut input = Input::of_stream(Cursor::new(plain()), Path::new("plain"));
    let output = Output::of_storage(storage.clone(), Path::new("volume"));
    let context = Context::default();
    luxor::encrypt_to(&mut input, output, &options, || Ok(secret()), &context).unwrap();
    storage.to_bytes()
}

fn open(storage: Arc<dyn Storage>) -> (LuksVolume, DataFile) {
    let data = DataFile::of_storage(storage, Path::new("volume"));
    let volume = LuksVolume::of_input(data.input().unwrap(), &Context::default());
    (volume.unwrap(), data)
}

fn options(protection: ZoneProtection) -> ReencryptOptions {
    ReencryptOptions {
        pbkdf: Some(cheap()),
        protection: Some(protection),
        zone: Some(ZONE),
        ..ReencryptOptions::default()
    }
}

fn reencrypt(
    storage: Arc<dyn Storage>,
    options: &ReencryptOptions,
    context: &Context,
) -> Result<()> {
    let (volume, data) = open(storage);
    reencrypt_data(volume, &data, &secret(), options, context)
}

/// The plaintext; the rest of a volume that Luxor made from a stream is the trailer.
fn decrypted(storage: Arc<dyn Storage>) -> Vec<u8> {
    decrypted_of(storage, LEN)
}

fn decrypted_of(storage: Arc<dyn Storage>, len: usize) -> Vec<u8> {
    let (volume, data) = open(storage);
    decrypted_volume(volume, data, len)
}

fn decrypted_volume(volume: LuksVolume, data: DataFile, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let disk = disk(volume, data).unwrap();
    disk.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn disk(volume: LuksVolume, data: DataFile) -> Result<VolumeDisk> {
    let (volume, context) = (volume.into_metadata(), Context::default());
    let engine = Engine::select(&context, volume.describe().mode)?;
    let unlock = UnlockOptions::default();
    let unlocked = volume.unlock_data(&secret(), &*engine.backend, &unlock, &context)?;
    VolumeDisk::of_unlocked(
        volume,
        data,
        unlocked,
        &engine,
        &DiskUse::default(),
        &context,
    )
}

/// Continues, or begins again, and compares the plaintext.
fn survives(image: MemoryStorage, protection: ZoneProtection) -> std::result::Result<(), String> {
    let storage = Arc::new(image);
    reencrypt(storage.clone(), &options(protection), &Context::default())
        .map_err(|error| error.to_string())?;
    if decrypted(storage) == plain() {
        Ok(())
    } else {
        Err("the plaintext is another".to_owned())
    }
}

/// The options of a volume in sectors of 512, with a header of this length.
fn new_volume(len: u64) -> NewVolumeOptions {
    let sizes = Luks2HeaderSizes::new(None, Some(len - (32 << 10)), None, KeySize::Aes128);
    NewVolumeOptions {
        pbkdf: cheap(),
        sector_size: Some(SectorSize::B512),
        key_size: KeySize::Aes128,
        header_sizes: Some(sizes.unwrap()),
        ..NewVolumeOptions::new(LuksVersion::Luks2)
    }
}

#[test]
fn a_failing_disk_stops_it_and_a_good_one_continues() {
    let image = volume();
    for protection in PROTECTIONS {
        let mut failed = 0;
        for after in (0..).step_by(3) {
            let faults = Faults {
                fail_write_after: Some(after),
                ..Faults::default()
            };
            let storage = Arc::new(FaultyStorage::with_faults(image.clone(), faults));
            let stopped = reencrypt(storage.clone(), &options(protection), &Context::default());
            survives(MemoryStorage::new(storage.to_bytes()), protection).unwrap();
            match stopped {
                Ok(()) => break,
                Err(error) => assert!(error.message().contains("volume"), "{error}"),
            }
            failed += 1;
        }
        assert!(failed > 8, "{failed}");
    }
}

/// Sets the flag when the first zone is done.
struct AfterOneZone(Arc<AtomicBool>);

impl Events for AfterOneZone {
    fn warning(&self, text: &str) {
        panic!("{text}");
    }

    fn note(&self, _: &str) {}

    fn bytes(&self, _: &'static str, _: String, _: Option<u64>) -> Box<dyn Progress> {
        Box::new(Self(Arc::clone(&self.0)))
    }
}

impl Progress for AfterOneZone {
    fn at(&self, done: u64) {
        self.0.store(done > 0, Ordering::Relaxed);
    }
}

#[test]
fn an_interruption_takes_effect_between_two_zones() {
    for protection in PROTECTIONS.into_iter().chain([ZoneProtection::None]) {
        let storage = Arc::new(MemoryStorage::new(volume()));
        let context = Context::default();
        let context = Context {
            events: Arc::new(AfterOneZone(context.cancel.clone())),
            ..context
        };
        let stopped = reencrypt(storage.clone(), &options(protection), &context);
        assert_eq!(stopped.unwrap_err().class(), ErrorClass::Cancelled);
        let (volume, _) = open(storage.clone());
        assert!(volume.header.is_reencrypting());
        assert!(decrypt(volume) == plain(), "{protection:?}");
        let only = ReencryptOptions {
            part: ReencryptPart::Continue,
            ..options(protection)
        };
        reencrypt(storage.clone(), &only, &Context::default()).unwrap();
        assert!(decrypted(storage) == plain(), "{protection:?}");
    }
}

fn decrypt(volume: LuksVolume) -> Vec<u8> {
    let (mut read, write) = io::pipe().unwrap();
    let output = Output::of_stream(write, Path::new("pipe"));
    let (unlock, context) = (UnlockOptions::default(), Context::default());
    let thread = std::thread::spawn(move || {
        let mut volume = volume.into_metadata();
        // The trailer of the file is being re-encrypted.
        volume.accept_cut_off();
        luxor::decrypt_to(volume, &secret(), &unlock, output, &context)
    });
    let mut bytes = Vec::new();
    read.read_to_end(&mut bytes).unwrap();
    thread.join().unwrap().unwrap();
    bytes.truncate(LEN);
    bytes
}
