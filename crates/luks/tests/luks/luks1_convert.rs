// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversions between LUKS1 and LUKS2: compared with `cryptsetup`, when the power is cut, and
//! those that are refused.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File, OpenOptions},
    hash::{Hash, Hasher},
    path::PathBuf,
    process::Command,
};

use luxor_engine::KeySize;
use luxor_luks::{
    ChangeError, ConvertError, HashAlgorithm, HeaderRepair, Keyslot, Luks1Header, Luks1Options,
    Luks2Header, Luks2Options, NewLuks1Volume, NewLuks2Volume, Overwrite, PbkdfKind, PbkdfOptions,
    Priority, UnlockOptions, Uuid, VolumeHeader,
};
use luxor_sector::{
    MemoryStorage, SectorSize, Storage,
    faulty::{Cut, Faults, FaultyStorage, ImageHasher, PowerCuts},
};

use crate::{
    backend, cheap,
    hostile::support::{json_text, with_json},
    is_long,
};

pub(crate) fn secret(number: u32) -> String {
    format!("of keyslot {number}")
}

pub(crate) fn luks1(key_size: KeySize, numbers: &[u32]) -> MemoryStorage {
    let options = Luks1Options {
        key_size,
        pbkdf: cheap(),
        ..Luks1Options::default()
    };
    let volume = NewLuks1Volume::create(&options, b"first", &*backend()).unwrap();
    let storage = MemoryStorage::default();
    volume.write_to(&storage).unwrap();
    storage
        .write_all_at(&[0x77; 512], volume.header_len())
        .unwrap();
    with_keyslots(&storage, numbers);
    storage
}

/// Makes these keyslots the only ones, each under [`secret`] of its number.
fn with_keyslots(storage: &dyn Storage, numbers: &[u32]) {
    let mut header = VolumeHeader::read(storage).unwrap();
    let options = UnlockOptions::default();
    let unlocked = header
        .unlock(storage, b"first", &*backend(), &options)
        .unwrap();
    let mut put = |number: u32| {
        let secret = secret(number);
        let new = header
            .new_keyslot(&unlocked, secret.as_bytes(), &cheap(), &*backend())
            .unwrap();
        if number == 0 {
            header.replace_keyslot(storage, 0, &new).unwrap();
        } else {
            header.add_keyslot(storage, &new, Some(number)).unwrap();
        }
    };
    // Replacing keyslot 0 needs an empty keyslot, so do it first.
    let (zero, others): (Vec<u32>, _) = numbers.iter().partition(|&&number| number == 0);
    zero.into_iter().for_each(&mut put);
    others.iter().for_each(|&number| put(number));
    if !numbers.contains(&0) {
        header.remove_keyslot(storage, 0).unwrap();
    }
}

pub(crate) fn convert(storage: &dyn Storage) -> Result<(), ConvertError> {
    VolumeHeader::read(storage).unwrap().convert(storage, false)
}

fn is_luks2(storage: &dyn Storage) -> bool {
    matches!(VolumeHeader::read(storage), Ok(VolumeHeader::Luks2(_)))
}

fn keyslots(header: &VolumeHeader) -> &BTreeMap<u32, Keyslot> {
    match header {
        VolumeHeader::Luks1(header) => header.describe().keyslots,
        VolumeHeader::Luks2(header) => header.describe().keyslots,
    }
}

fn opens(storage: &dyn Storage, number: u32) -> Option<u32> {
    let header = VolumeHeader::read(storage).unwrap();
    let options = UnlockOptions::default();
    let secret = secret(number);
    let unlocked = header.unlock(storage, secret.as_bytes(), &*backend(), &options);
    unlocked.ok().map(|unlocked| unlocked.keyslot)
}

/// Whether all keys open an image, computed once for all images with the same keyslots.
struct Opened<'a> {
    numbers: &'a [u32],
    found: HashMap<u64, bool>,
}

impl Opened<'_> {
    fn all(&mut self, image: &MemoryStorage) -> Result<bool, String> {
        let header = VolumeHeader::read(image).map_err(|error| error.to_string())?;
        let bytes = image.to_bytes();
        let mut hasher = ImageHasher::default();
        format!("{:?} {:?}", keyslots(&header), header.segment()).hash(&mut hasher);
        for keyslot in keyslots(&header).values() {
            let begin = usize::try_from(keyslot.area.offset).unwrap();
            let len = usize::try_from(keyslot.key_len * 4000).unwrap();
            bytes[begin..begin + len].hash(&mut hasher);
        }
        let all = || {
            self.numbers
                .iter()
                .all(|&number| opens(image, number).is_some())
        };
        Ok(*self.found.entry(hasher.finish()).or_insert_with(all))
    }
}

/// Converts with the power cut at every point, and returns the converted volume.
fn cut(storage: &MemoryStorage, numbers: &[u32]) -> MemoryStorage {
    let image = storage.to_bytes();
    let target = !is_luks2(storage);
    let mut opened = Opened {
        numbers,
        found: HashMap::new(),
    };
    let mut check = |after: MemoryStorage, cut: &Cut<'_>| -> Result<(), String> {
        if !opened.all(&after)? {
            return Err("a key is lost".into());
        }
        if cut.after == cut.of && is_luks2(&after) != target {
            return Err("what was done is not there".into());
        }
        Ok(())
    };
    let cuts = PowerCuts {
        image: &image,
        ..PowerCuts::default()
    };
    let seen = cuts
        .check(|storage| convert(storage).unwrap(), &mut check)
        .unwrap();
    assert!(seen > 20, "{seen}");
    let faults = Faults {
        ignore_syncs: true,
        ..Faults::default()
    };
    let noticed =
        PowerCuts { faults, ..cuts }.check(|storage| convert(storage).unwrap(), &mut check);
    assert!(noticed.is_err(), "missing syncs pass");

    // Inject errors until a conversion succeeds.
    for after in 0.. {
        let mut failed = false;
        for (fail_write_after, fail_sync_after, fail_read_after) in [
            (Some(after), None, None),
            (None, Some(after), None),
            // The first two reads only determine the version.
            (None, None, Some(after + 2)),
        ] {
            let faults = Faults {
                fail_write_after,
                fail_sync_after,
                fail_read_after,
                ..Faults::default()
            };
            let storage = FaultyStorage::with_faults(image.clone(), faults);
            failed |= convert(&storage).is_err();
            let now = MemoryStorage::new(storage.to_bytes());
            assert!(opened.all(&now).unwrap(), "{faults:?}");
        }
        if !failed {
            break;
        }
    }
    convert(storage).unwrap();
    MemoryStorage::new(storage.to_bytes())
}

/// The areas make room in each of the three ways: with short keys one area is copied; with long
/// keys all areas are shifted, or a key moves to another keyslot.
#[test]
fn no_power_cut_loses_a_key_on_either_way() {
    for (key_size, numbers) in [
        (KeySize::Aes128, &[0, 3][..]),
        (KeySize::Aes128, &[0, 1, 2, 3, 4, 5, 6, 7]),
        (KeySize::Aes256, &[0, 6]),
        (KeySize::Aes256, &[1, 7]),
    ] {
        let storage = luks1(key_size, numbers);
        let there = cut(&storage, numbers);
        assert!(is_luks2(&there));
        let back = cut(&there, numbers);
        assert!(!is_luks2(&back));
        for &number in numbers {
            assert_eq!(opens(&back, number), Some(number));
        }
    }
    // The data begin right after the last area, as in old volumes.
    let numbers = [0, 5];
    let bytes = luks1(KeySize::Aes256, &numbers).into_bytes();
    let end = 4096 + 8 * 258_048;
    let mut bytes = [&bytes[..end], &[0x77; 512]].concat();
    bytes[104..108].copy_from_slice(&u32::try_from(end / 512).unwrap().to_be_bytes());
    let there = cut(&MemoryStorage::new(bytes), &numbers);
    assert!(is_luks2(&there));
    for number in numbers {
        assert_eq!(opens(&there, number), Some(number));
    }
}

/// The error says which version the volume has, also after a power cut, and what to do.
#[test]
fn a_conversion_that_fails_says_what_the_volume_is_now() {
    let there = luks1(KeySize::Aes256, &[0, 3]);
    let before = MemoryStorage::new(there.to_bytes());
    convert(&there).unwrap();
    for image in [before.into_bytes(), there.into_bytes()] {
        let (mut still, mut already) = (0, 0);
        let faults = (0..60).flat_map(|after| {
            let (writes, syncs) = (Some(after), Some(after));
            [(writes, None), (None, syncs)]
        });
        for (fail_write_after, fail_sync_after) in faults {
            let faults = Faults {
                fail_write_after,
                fail_sync_after,
                ..Faults::default()
            };
            let storage = FaultyStorage::with_faults(image.clone(), faults);
            let header = VolumeHeader::read(&storage).unwrap();
            let from = header.version();
            let Err(error) = header.convert(&storage, false) else {
                continue;
            };
            let words = error.to_string();
            let now = VolumeHeader::read(&storage).unwrap();
            let ConvertError::Unfinished {
                is_damaged: stated, ..
            } = error
            else {
                assert!(words.ends_with("was not written"), "{words}");
                continue;
            };
            let is_new = now.version() != from;
            *(if is_new { &mut already } else { &mut still }) += 1;
            let when = if is_new { "already" } else { "still" };
            let state = format!("The volume is {when} {}, and every key", now.version());
            assert!(words.contains(&state), "{words}");
            let is_damaged = !now.warnings().is_empty();
            assert_eq!(stated, is_damaged, "{words}");
            if is_damaged {
                let repaired = MemoryStorage::new(storage.to_bytes());
                let plan = HeaderRepair::plan(&repaired, Overwrite::Damaged).unwrap();
                plan.write(&repaired).unwrap();
                let header = VolumeHeader::read(&repaired).unwrap();
                assert!(header.version() == now.version() && header.warnings().is_empty());
            }
            let check = |image: MemoryStorage, _: &Cut<'_>| {
                let after = VolumeHeader::read(&image).map_err(|error| error.to_string())?;
                let may_change = words.contains("computer restarts");
                let is_same = after.version() == now.version();
                (is_same || may_change).then_some(()).ok_or(words.clone())
            };
            let count = storage.operation_count();
            storage.cut_power(count, 1, check).unwrap();
        }
        assert!(still > 2 && already > 2, "{still} {already}");
    }
}

#[test]
fn nothing_of_a_key_stays_where_it_was() {
    let numbers = [0, 1, 2];
    let storage = luks1(KeySize::Aes256, &numbers);
    let before = storage.to_bytes();
    convert(&storage).unwrap();
    let after = storage.to_bytes();
    let is_header = |at: usize| at < 32 << 10;
    for number in 0..3 {
        let area = &before[4096 + 258_048 * number..][..256_000];
        // Each sector occurs exactly once.
        for sector in area.chunks(512) {
            let found = after.chunks(512).filter(|other| *other == sector).count();
            assert_eq!(found, 1, "{number}");
        }
    }
    assert_eq!(after[2 << 20..], before[2 << 20..]);
    assert!(
        (0..after.len())
            .step_by(4096)
            .all(|at| is_header(at) || at % 4096 == 0)
    );
    convert(&storage).unwrap();
    let bytes = storage.to_bytes();
    let is_there = |words: &[u8]| bytes.windows(words.len()).any(|bytes| bytes == words);
    assert!(!is_there(b"SKUL\xba\xbe") && !is_there(b"keyslots"));
}

/// A volume that both programs work on.
struct Shared {
    folder: tempfile::TempDir,
    header: &'static str,
}

impl Shared {
    fn new(detached: bool) -> Self {
        let shared = Self {
            folder: tempfile::tempdir().unwrap(),
            header: if detached { "header" } else { "volume" },
        };
        fs::write(shared.path("first"), "first").unwrap();
        for number in 0..8 {
            fs::write(shared.path(&number.to_string()), secret(number)).unwrap();
        }
        let sparse = |name, len| {
            File::create(shared.path(name))
                .unwrap()
                .set_len(len)
                .unwrap();
        };
        sparse("volume", 17 << 20);
        if detached {
            // The least length that cryptsetup accepts with a key of 64 bytes.
            sparse("header", 2_068_480);
        }
        shared
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn storage(&self) -> File {
        let path = self.path(self.header);
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap()
    }

    fn cryptsetup(&self, line: &str) -> Vec<u8> {
        let makes_a_key = ["luksFormat", "luksAddKey", "luksChangeKey"];
        let makes_a_key = makes_a_key.iter().any(|command| line.starts_with(command));
        let costs = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
        let output = Command::new("cryptsetup")
            .arg("-q")
            .args(costs.iter().filter(|_| makes_a_key))
            .args(line.split_whitespace())
            .current_dir(self.folder.path())
            .output()
            .expect("cryptsetup must be installed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cryptsetup {line}: {errors}");
        output.stdout
    }

    fn format(&self, options: &str, numbers: &[u32]) {
        let header = match self.header {
            "header" => "--header header",
            _ => "",
        };
        self.cryptsetup(&format!(
            "luksFormat {options} --key-file first {header} volume"
        ));
        for number in numbers.iter().filter(|&&number| number != 0) {
            let file = self.header;
            self.cryptsetup(&format!(
                "luksAddKey --key-file first --key-slot {number} {file} {number}"
            ));
        }
        self.cryptsetup(&format!(
            "luksChangeKey --key-file first --key-slot 0 {} 0",
            self.header
        ));
        if !numbers.contains(&0) {
            self.cryptsetup(&format!("luksKillSlot {} 0", self.header));
        }
    }

    fn convert_by_cryptsetup(&self, to: &str) {
        self.cryptsetup(&format!("convert --type {to} {}", self.header));
    }

    /// Checks with both programs that the volume is of type `to` and that every key opens it.
    /// Returns the volume key.
    fn check(&self, to: &str, numbers: &[u32], words: &str) -> Vec<u8> {
        let storage = self.storage();
        assert_eq!(is_luks2(&storage), to == "luks2", "{words}");
        let warnings = VolumeHeader::read(&storage).unwrap().warnings().len();
        assert_eq!(warnings, 0, "{words}");
        self.cryptsetup(&format!("isLuks --type {to} {}", self.header));
        for &number in numbers {
            assert_eq!(opens(&storage, number), Some(number), "{words}");
            self.cryptsetup(&format!(
                "open --test-passphrase --key-slot {number} --key-file {number} {}",
                self.header
            ));
        }
        let _ = fs::remove_file(self.path("key"));
        self.cryptsetup(&format!(
            "luksDump --dump-volume-key --volume-key-file key --key-file {} {}",
            numbers[0], self.header
        ));
        fs::read(self.path("key")).unwrap()
    }
}

/// In the short form each set of keyslots meets one key size and one hash.
#[test]
fn either_program_converts_and_the_other_converts_back() {
    let mut cells = 0;
    for (i, key_size) in [256, 512].into_iter().enumerate() {
        for (j, hash) in ["sha256", "sha1"].into_iter().enumerate() {
            for (k, (detached, numbers)) in [
                (false, &[0, 1, 5][..]),
                (true, &[0, 7]),
                (false, &[1, 2]),
                (false, &[0, 1, 2, 3, 4, 5, 6]),
            ]
            .into_iter()
            .enumerate()
            {
                if !is_long() && 2 * i + j != k {
                    continue;
                }
                let words = format!("{key_size}, {hash}, {detached}, {numbers:?}");
                let options = format!(
                    "--type luks1 --key-size {key_size} --hash {hash} --cipher aes-xts-plain64"
                );
                for ours_first in [true, false] {
                    let shared = Shared::new(detached);
                    shared.format(&options, numbers);
                    let key = shared.check("luks1", numbers, &words);
                    for (i, to) in ["luks2", "luks1", "luks2", "luks1"].into_iter().enumerate() {
                        let words = format!("{words}, {ours_first}, {i}");
                        // Each program converts twice, and each follows itself and the other.
                        if ours_first == matches!(i, 0 | 3) {
                            convert(&shared.storage()).unwrap_or_else(|e| panic!("{words}: {e}"));
                        } else {
                            shared.convert_by_cryptsetup(to);
                        }
                        assert_eq!(shared.check(to, numbers, &words), key, "{words}");
                    }
                    cells += 1;
                }
            }
        }
    }
    assert_eq!(cells, if is_long() { 32 } else { 8 });
}

/// A volume that never was LUKS1 has header and keyslots area of LUKS2's own sizes. In the short form
/// each two of the values meet.
#[test]
fn a_luks2_volume_of_cryptsetup_becomes_luks1_and_luks2_again() {
    for (i, key_size) in [256, 512].into_iter().enumerate() {
        for (j, sizes) in ["", "--luks2-metadata-size 64k --luks2-keyslots-size 4m"]
            .into_iter()
            .enumerate()
        {
            for (k, numbers) in [&[0, 4][..], &[0, 1, 2, 3, 4, 5, 6, 7]]
                .into_iter()
                .enumerate()
            {
                if !is_long() && (i + j + k) % 2 != 0 {
                    continue;
                }
                let words = format!("{key_size}, {sizes}, {numbers:?}");
                let shared = Shared::new(false);
                let options =
                    format!("--type luks2 --sector-size 512 --key-size {key_size} {sizes}");
                shared.format(&options, numbers);
                let key = shared.check("luks2", numbers, &words);
                convert(&shared.storage()).unwrap();
                assert_eq!(shared.check("luks1", numbers, &words), key);
                shared.convert_by_cryptsetup("luks2");
                assert_eq!(shared.check("luks2", numbers, &words), key);
                convert(&shared.storage()).unwrap();
                convert(&shared.storage()).unwrap();
                assert_eq!(shared.check("luks2", numbers, &words), key);
                // There is room for another keyslot.
                let file = shared.header;
                shared.cryptsetup(&format!("luksAddKey --key-file 0 --key-slot 9 {file} 6"));
                assert!(opens(&shared.storage(), 6).is_some());
            }
        }
    }
}

fn luks2(options: Luks2Options) -> MemoryStorage {
    let options = Luks2Options {
        pbkdf: match options.pbkdf.force_iterations {
            Some(_) => options.pbkdf,
            None => cheap(),
        },
        ..options
    };
    let volume = NewLuks2Volume::create(&options, b"first", &*backend()).unwrap();
    let storage = MemoryStorage::default();
    volume.write_to(&storage).unwrap();
    storage
}

fn sectors_of_512() -> Luks2Options {
    Luks2Options {
        sector_size: SectorSize::B512,
        ..Luks2Options::default()
    }
}

/// Returns the error of the conversion, which must not write anything.
fn refused(storage: &MemoryStorage) -> ConvertError {
    let before = storage.to_bytes();
    let error = convert(storage).unwrap_err();
    assert!(storage.to_bytes() == before, "{error}: it was written to");
    error
}

#[test]
fn luks1_volumes_that_do_not_fit_luks2_are_refused() {
    let all: Vec<u32> = (0..8).collect();
    let full = luks1(KeySize::Aes256, &all);
    assert!(matches!(
        refused(&full),
        ConvertError::NoRoom { is_removable: true }
    ));

    let cbc = luks1(KeySize::Aes128, &[0]);
    cbc.write_all_at(b"cbc-plain64\0", 40).unwrap();
    assert!(matches!(
        refused(&cbc),
        ConvertError::Cipher { found } if found == "aes-cbc-plain64"
    ));

    let state = luks1(KeySize::Aes128, &[0]);
    state.write_all_at(&[0, 0, 0, 1], 256).unwrap();
    let error = refused(&state).to_string();
    assert!(error.contains("keyslot 1 is damaged"), "{error}");

    let uuid = luks1(KeySize::Aes128, &[0]);
    uuid.write_all_at(&[0xff; 39], 168).unwrap();
    assert!(matches!(refused(&uuid), ConvertError::Uuid));

    for name in [b"\0ha256\0", b"s\xffa256\0"] {
        let hash = luks1(KeySize::Aes128, &[0]);
        hash.write_all_at(name, 72).unwrap();
        assert!(matches!(refused(&hash), ConvertError::HashName));
    }

    let changed = luks1(KeySize::Aes128, &[0]);
    let header = Luks1Header::read(&changed).unwrap();
    header
        .clone()
        .set_uuid(&changed, Uuid::from_u128(3))
        .unwrap();
    let error = header.convert_to_luks2(&changed).unwrap_err();
    assert!(matches!(
        error,
        ConvertError::Change(ChangeError::ChangedMeanwhile)
    ));
}

#[test]
fn luks2_volumes_that_do_not_fit_luks1_are_refused() {
    let options = || Luks2Options {
        file_length: None,
        ..sectors_of_512()
    };
    let words = |storage: &MemoryStorage| match refused(storage) {
        ConvertError::NotInLuks1 { has, found } => format!("{has}: {found}"),
        error => panic!("{error}"),
    };
    let sector = luks2(Luks2Options::default());
    assert_eq!(
        words(&sector),
        "sectors of 512 bytes: sectors of 4096 bytes"
    );

    let mut volume = NewLuks2Volume::create(
        &Luks2Options {
            pbkdf: cheap(),
            ..options()
        },
        b"first",
        &*backend(),
    )
    .unwrap();
    volume.set_segment_size(luxor_luks::SegmentSize::Fixed(4096));
    let fixed = MemoryStorage::default();
    volume.write_to(&fixed).unwrap();
    assert_eq!(
        words(&fixed),
        "data that extend to the end: a segment of 4096 bytes"
    );

    let argon2 = luks2(Luks2Options {
        pbkdf: PbkdfOptions {
            kind: PbkdfKind::Argon2id,
            memory_kib: Some(32),
            parallel: Some(1),
            force_iterations: Some(4),
            ..PbkdfOptions::default()
        },
        ..options()
    });
    assert!(matches!(
        refused(&argon2),
        ConvertError::Pbkdf {
            keyslot: 0,
            kind: PbkdfKind::Argon2id
        }
    ));

    let number = luks2(options());
    with_keyslots(&number, &[0, 8]);
    assert!(matches!(
        refused(&number),
        ConvertError::Number { keyslot: 8 }
    ));

    // New keyslots use SHA-256, whatever the others use.
    let hashes = luks2(Luks2Options {
        hash: HashAlgorithm::Sha512,
        ..options()
    });
    with_keyslots(&hashes, &[0, 2]);
    assert!(matches!(refused(&hashes), ConvertError::Hashes { .. }));

    let none = luks2(options());
    Luks2Header::read(&none).unwrap().erase(&none).unwrap();
    assert_eq!(words(&none), "volumes with keyslots: none");

    let damaged = luks2(options());
    damaged.write_all_at(b"x", 20_000).unwrap();
    assert!(matches!(refused(&damaged), ConvertError::Damaged));

    let requires = luks2(options());
    let header = Luks2Header::read(&requires).unwrap();
    header
        .clone()
        .set_uuid(&requires, Uuid::from_u128(3))
        .unwrap();
    let error = header.convert_to_luks1(&requires, true).unwrap_err();
    assert!(matches!(
        error,
        ConvertError::Change(ChangeError::ChangedMeanwhile)
    ));
}

/// cryptsetup splits the name at its first hyphen, whatever it means, and joins the parts again.
#[test]
fn other_spellings_of_the_cipher_are_stored_as_by_cryptsetup() {
    let bytes = luks2(sectors_of_512()).to_bytes();
    let usual = "\"encryption\":\"aes-xts-plain64\"";
    let area = json_text(&bytes).find(usual).unwrap();
    for name in [
        "capi:xts(aes)-plain64",
        "aes-xts-plain64:x",
        "aes:1-xts-plain64",
    ] {
        let other = format!("\"encryption\":\"{name}\"");
        let text = json_text(&bytes).replace(usual, &other);
        let image = with_json(&bytes, text.as_bytes());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v");
        fs::write(&path, &image).unwrap();
        let theirs = Command::new("cryptsetup")
            .args(["convert", "-q", "--type", "luks1"])
            .arg(&path)
            .status();
        assert!(theirs.unwrap().success(), "{name}");
        let storage = MemoryStorage::new(image.clone());
        convert(&storage).unwrap();
        let names = 8..72;
        assert!(
            storage.to_bytes()[names.clone()] == fs::read(&path).unwrap()[names],
            "{name}"
        );
        let header = Luks1Header::read(&storage).unwrap();
        assert_eq!(header.describe().encryption, name);
        convert(&storage).unwrap();
        let header = Luks2Header::read(&storage).unwrap();
        assert_eq!(header.segment().unwrap().encryption_name, name);

        // Both programs refuse another name in the keyslot.
        let (before, after) = json_text(&bytes).split_at(area + 1);
        for text in [
            format!("{before}{}", after.replace(usual, &other)),
            json_text(&bytes).replacen(usual, &other, 1),
        ] {
            let storage = MemoryStorage::new(with_json(&bytes, text.as_bytes()));
            let error = refused(&storage);
            assert!(
                matches!(error, ConvertError::NotInLuks1 { .. }),
                "{name}: {error}"
            );
        }
    }
}

#[test]
fn losses_are_named_and_need_permission() {
    let storage = luks2(Luks2Options {
        label: Some("name".parse().unwrap()),
        file_length: Some(700),
        ..sectors_of_512()
    });
    let mut header = Luks2Header::read(&storage).unwrap();
    header
        .add_token(&storage, r#"{"type":"mine","keyslots":["0"]}"#, Some(5))
        .unwrap();
    header
        .set_subsystem(&storage, &"second".parse().unwrap())
        .unwrap();
    header
        .set_flags(&storage, &[luxor_luks::ActivationFlag::AllowDiscards])
        .unwrap();
    header.set_priority(&storage, 0, Priority::Prefer).unwrap();
    let ConvertError::Loses { what } = refused(&storage) else {
        panic!("it would be lost")
    };
    assert_eq!(
        what,
        [
            r#"token 0 ("luxor-file": the file in it has 700 bytes)"#,
            r#"token 5 ("mine": it may keep the only secret of keyslots 0)"#,
            r#"the label "name""#,
            r#"the subsystem "second""#,
            r#"the flag "allow-discards""#,
            "the priority of keyslot 0",
        ]
    );
    // cryptsetup has no command that finds such a token, but keeps it.
    let bytes = storage.to_bytes();
    let unnumbered = r#""tokens":{"07":{"type":"x","keyslots":[]},"#;
    let json = json_text(&bytes).replace("\"tokens\":{", unnumbered);
    let ConvertError::Loses { what } =
        refused(&MemoryStorage::new(with_json(&bytes, json.as_bytes())))
    else {
        panic!("it would be lost")
    };
    let expected = r#"the token with the key "07""#;
    assert!(what.iter().any(|what| what == expected), "{what:?}");
    // cryptsetup refuses to convert a volume with a second digest.
    let unknown = r#""digests":{"4":{"type":"x","keyslots":[],"segments":[]},"#;
    let json = json_text(&bytes).replace("\"digests\":{", unknown);
    let ConvertError::Loses { what } =
        refused(&MemoryStorage::new(with_json(&bytes, json.as_bytes())))
    else {
        panic!("it would be lost")
    };
    assert!(what.iter().any(|what| what == "digest 4"), "{what:?}");

    let header = Luks2Header::read(&storage).unwrap();
    let header = header.convert_to_luks1(&storage, true).unwrap();
    let options = UnlockOptions::default();
    assert!(
        header
            .unlock(&storage, b"first", &*backend(), &options)
            .is_ok()
    );

    // A length of whole sectors may be equal to that of the data.
    for (stored, is_whole) in [(1024, true), (1536, false), (512, false)] {
        let volume = luks2(Luks2Options {
            file_length: Some(1024),
            ..sectors_of_512()
        });
        volume.write_all_at(&vec![7; stored], 16 << 20).unwrap();
        if is_whole {
            convert(&volume).unwrap();
            assert!(!is_luks2(&volume));
        } else {
            assert!(matches!(refused(&volume), ConvertError::Loses { .. }));
        }
    }
}
