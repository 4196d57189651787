// SPDX-License-Identifier: MIT OR Apache-2.0
//! What cryptsetup makes of each state that a change by Luxor may leave on the disk. Both programs must
//! read the same metadata and open it with the same secrets, or both must refuse.

use std::{
    collections::HashSet,
    fmt::Write,
    fs::{self, File},
    hash::{BuildHasher, BuildHasherDefault},
    process::Command,
};

use luxor_engine::KeySize;
use luxor_luks::{
    HeaderBackup, HeaderRepair, Keyslot, Luks1Options, Luks2HeaderSizes, Luks2Options,
    NewLuks1Volume, NewLuks2Volume, Overwrite, UnlockOptions, Uuid, VolumeHeader,
};
use luxor_sector::{
    MemoryStorage,
    faulty::{Cut, FaultyStorage, ImageHasher, PowerCuts},
};

use crate::{
    backend, cheap, is_long,
    luks1_convert::{convert, luks1, secret},
    power_cuts::Answers,
};

/// The length of each file, so that the data of a volume have room.
const LEN: u64 = 20 << 20;

/// The short form tries the state after each write, and 1 in this many of those with lost or torn writes.
const SAMPLED: u64 = 4;

pub(crate) struct Beside {
    folder: Folder,
    secrets: Vec<Vec<u8>>,
    /// The hashes of the states that were compared.
    seen: HashSet<u64>,
    /// Whether a secret opens a volume, by its metadata, its areas and the secret.
    opened: Answers<Result<bool, String>>,
    refused: usize,
}

impl Beside {
    pub(crate) fn new(secrets: &[&[u8]]) -> Self {
        // On a disk, each repair by cryptsetup would wait for it.
        let memory = tempfile::tempdir_in("/dev/shm");
        let folder = memory.or_else(|_| tempfile::tempdir()).unwrap();
        for (number, secret) in secrets.iter().enumerate() {
            fs::write(folder.path().join(format!("secret{number}")), secret).unwrap();
        }
        Self {
            folder: Folder(folder),
            secrets: secrets.iter().map(|secret| secret.to_vec()).collect(),
            seen: HashSet::new(),
            opened: Answers::default(),
            refused: 0,
        }
    }

    /// Cuts the power at every point of `change` and compares the states. In each, `least`
    /// secrets must open the volume, or as many as it has keyslots.
    pub(crate) fn check(
        &mut self,
        name: &str,
        image: &[u8],
        least: usize,
        change: impl FnOnce(&FaultyStorage),
    ) {
        let cuts = PowerCuts {
            image,
            ..PowerCuts::default()
        };
        let mut last = None;
        let mut index = cuts.seed;
        let check = |after: MemoryStorage, cut: &Cut<'_>| {
            let bytes = after.into_bytes();
            // The first state of each cut has all writes before it, and no others.
            let is_prefix = last.replace(cut.after) != Some(cut.after);
            index = index.wrapping_add(1);
            if !is_prefix && !is_long() && !index.is_multiple_of(SAMPLED) {
                return Ok(());
            }
            let hasher = BuildHasherDefault::<ImageHasher>::default();
            if !self.seen.insert(hasher.hash_one(&bytes)) {
                return Ok(());
            }
            self.compare(&bytes, least)
        };
        cuts.check(change, check)
            .unwrap_or_else(|broken| panic!("{name}: {broken}"));
    }

    /// Checks how much was compared, and whether both programs ever refused.
    pub(crate) fn end(self, least: usize, is_ever_refused: bool) {
        let states = self.seen.len();
        println!("{states} states, {} of them refused", self.refused);
        assert!(states >= least, "only {states} states");
        assert_eq!(self.refused > 0, is_ever_refused);
    }

    fn compare(&mut self, image: &[u8], least: usize) -> Result<(), String> {
        let header = VolumeHeader::read(&self.folder.volume(image));
        let theirs = self.folder.dump(image);
        let header = match (header, &theirs) {
            (Ok(header), _) => header,
            (Err(_), None) => {
                self.refused += 1;
                return Ok(());
            }
            (Err(error), Some(theirs)) => {
                return Err(format!("{error}, and cryptsetup reads {theirs}"));
            }
        };
        let ours = dumped(&header);
        if theirs.as_ref() != Some(&ours) {
            return Err(format!("Luxor reads {ours}\ncryptsetup reads {theirs:?}"));
        }
        let area = |keyslot: &Keyslot| {
            let from = usize::try_from(keyslot.area.offset).unwrap();
            let len = keyslot.key_len as usize * 4000;
            image.iter().skip(from).take(len).copied().collect()
        };
        let areas: Vec<Vec<u8>> = header.keyslots().values().map(area).collect();
        // What is dumped of LUKS1 lacks the salts.
        let header_bytes = match &header {
            VolumeHeader::Luks1(_) => &image[..592],
            VolumeHeader::Luks2(_) => &[],
        };
        let mut opened = 0;
        for (number, secret) in self.secrets.iter().enumerate() {
            let opens = self.opened.to((header_bytes, &ours, &areas, number), || {
                let theirs = self.folder.key(image, number);
                let options = UnlockOptions::default();
                let storage = self.folder.volume(image);
                let unlocked = header.unlock(&storage, secret, &*backend(), &options);
                let ours = unlocked.ok().map(|key| key.volume_key.expose().to_vec());
                let opens = [&ours, &theirs].map(Option::is_some);
                let differ =
                    || format!("Luxor and cryptsetup open it by secret {number}: {opens:?}");
                (ours == theirs).then_some(opens[0]).ok_or_else(differ)
            });
            opened += usize::from(opens?);
        }
        let listed = header.keyslots().len();
        if opened < least.min(listed) {
            return Err(format!("only {opened} of {listed} keyslots open"));
        }
        Ok(())
    }
}

/// The files of the commands.
struct Folder(tempfile::TempDir);

impl Folder {
    /// Writes the state anew for each reader, because cryptsetup repairs what it reads.
    fn volume(&self, image: &[u8]) -> File {
        let path = self.0.path().join("volume");
        fs::write(&path, image).unwrap();
        let file = File::options().read(true).write(true).open(path).unwrap();
        file.set_len(LEN).unwrap();
        file
    }

    fn cryptsetup(&self, image: &[u8], options: &str) -> Option<String> {
        drop(self.volume(image));
        let output = Command::new("cryptsetup")
            .args(["luksDump", "-q", "volume"])
            .args(options.split_whitespace())
            .current_dir(self.0.path())
            .output()
            .expect("cryptsetup must be installed");
        let text = || String::from_utf8(output.stdout).unwrap();
        output.status.success().then(text)
    }

    fn key(&self, image: &[u8], number: usize) -> Option<Vec<u8>> {
        let path = self.0.path().join("key");
        let _ = fs::remove_file(&path);
        let options = format!("--dump-volume-key --volume-key-file key --key-file secret{number}");
        self.cryptsetup(image, &options)?;
        Some(fs::read(path).unwrap())
    }

    /// Returns the lines of cryptsetup's dump that [`dumped`] has too.
    fn dump(&self, image: &[u8]) -> Option<String> {
        let text = self.cryptsetup(image, "")?;
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        let uuid = value("UUID:");
        if value("Version:") == "2" {
            let [epoch, label, subsystem] = ["Epoch:", "Label:", "Subsystem:"].map(value);
            let json = self.cryptsetup(image, "--dump-json-metadata")?;
            return Some(format!("{uuid} {epoch} {label} {subsystem} {json}"));
        }
        let mut dump = format!(
            "{uuid} {}-{} at {}",
            value("Cipher name:"),
            value("Cipher mode:"),
            value("Payload offset:")
        );
        for number in 0..8 {
            let state = value(&format!("Key Slot {number}:"));
            if state == "ENABLED" {
                write!(dump, " {number}").unwrap();
            }
        }
        Some(dump)
    }
}

fn dumped(header: &VolumeHeader) -> String {
    match header {
        VolumeHeader::Luks1(header) => {
            let described = header.describe();
            let segment = header.segment().unwrap();
            let mut dump = format!(
                "{} {} at {}",
                described.uuid,
                described.encryption,
                segment.offset / 512
            );
            for number in described.keyslots.keys() {
                write!(dump, " {number}").unwrap();
            }
            dump
        }
        VolumeHeader::Luks2(header) => {
            let described = header.describe();
            let named =
                |name: &str, absent: &str| if name.is_empty() { absent } else { name }.to_owned();
            format!(
                "{} {} {} {} {}",
                described.uuid,
                described.seqid,
                named(described.label, "(no label)"),
                named(described.subsystem, "(no subsystem)"),
                header.metadata_json()
            )
        }
    }
}

const OLD: &[u8] = b"old";
const NEW: &[u8] = b"new";

/// The areas have room for two keyslots.
fn new_luks2() -> NewLuks2Volume {
    let options = Luks2Options {
        key_size: KeySize::Aes128,
        pbkdf: cheap(),
        header_sizes: Luks2HeaderSizes::new(Some(16 << 10), Some(256 << 10), None, KeySize::Aes128)
            .unwrap(),
        ..Luks2Options::default()
    };
    NewLuks2Volume::create(&options, OLD, &*backend()).unwrap()
}

/// Returns a LUKS1 and a LUKS2 volume.
fn volumes() -> [MemoryStorage; 2] {
    let options = Luks1Options {
        key_size: KeySize::Aes128,
        pbkdf: cheap(),
        ..Luks1Options::default()
    };
    let luks1 = NewLuks1Volume::create(&options, OLD, &*backend()).unwrap();
    let volumes = [MemoryStorage::default(), MemoryStorage::default()];
    luks1.write_to(&volumes[0]).unwrap();
    new_luks2().write_to(&volumes[1]).unwrap();
    volumes
}

/// A new LUKS1 volume begins like one only with the last write, as `luks1_create` checks.
#[test]
fn cryptsetup_reads_each_state_of_a_new_volume_as_luxor_does() {
    let mut beside = Beside::new(&[OLD]);
    let volume = new_luks2();
    // The secondary header may be read before its areas are durable.
    beside.check("LUKS2", &[], 0, |s| volume.write_to(s).unwrap());
    beside.end(20, true);
}

/// Another keyslot comes back, or the same one with an older header, or another version of LUKS.
#[test]
fn cryptsetup_reads_each_state_of_a_restored_header_as_luxor_does() {
    let mut beside = Beside::new(&[OLD, NEW]);
    let [luks1, luks2] = volumes();
    let backups = [&luks1, &luks2].map(|storage| HeaderBackup::take(storage).unwrap());
    for storage in [&luks1, &luks2] {
        for is_replaced in [false, true] {
            let mut header = VolumeHeader::read(storage).unwrap();
            if is_replaced {
                let options = UnlockOptions::default();
                let key = header.unlock(storage, OLD, &*backend(), &options).unwrap();
                let new = header.new_keyslot(&key, NEW, &cheap(), &*backend());
                header.replace_keyslot(storage, 0, &new.unwrap()).unwrap();
            } else {
                header.set_uuid(storage, Uuid::from_u128(7)).unwrap();
            }
            for backup in &backups {
                let name = format!("{}, {is_replaced}", backup.header().version());
                let restore = |s: &FaultyStorage| backup.restore(s, true).unwrap();
                beside.check(&name, &storage.to_bytes(), 0, restore);
            }
        }
    }
    beside.end(60, false);
}

#[test]
fn cryptsetup_reads_each_state_of_a_repair_as_luxor_does() {
    let mut beside = Beside::new(&[OLD]);
    let [luks1, luks2] = volumes().map(MemoryStorage::into_bytes);
    for (mut image, damaged) in [
        (luks1, [250, 540]),
        (luks2.clone(), [10, 11]),
        (luks2, [16_384, 20_480]),
    ] {
        for at in damaged {
            image[at] ^= 1;
        }
        beside.check(&format!("{damaged:?}"), &image, 1, |storage| {
            let plan = HeaderRepair::plan(storage, Overwrite::Damaged).unwrap();
            plan.write(storage).unwrap();
        });
    }
    beside.end(6, true);
}

#[test]
fn cryptsetup_reads_each_state_of_a_conversion_as_luxor_does() {
    let numbers = [0, 3, 7];
    let secrets = numbers.map(secret);
    let secrets = secrets.each_ref().map(String::as_bytes);
    let mut beside = Beside::new(&secrets);
    for key_size in [KeySize::Aes128, KeySize::Aes256] {
        let storage = luks1(key_size, &numbers);
        for name in ["to LUKS2", "to LUKS1"] {
            beside.check(name, &storage.to_bytes(), 3, |s| convert(s).unwrap());
            convert(&storage).unwrap();
        }
    }
    beside.end(60, false);
}
