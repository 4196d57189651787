// SPDX-License-Identifier: MIT OR Apache-2.0
//! A power cut at any moment, of one file or of the header and the data in two, and syncs that fail.

use std::{
    collections::HashSet,
    fs,
    hash::{BuildHasher, BuildHasherDefault},
    path::PathBuf,
};

use luxor_sector::faulty::{Broken, ImageHasher, Operation};

use super::*;

/// Random numbers of a test that can be repeated.
const SEED: u64 = 0x5eed;

pub(super) fn is_long() -> bool {
    std::env::var_os("LUXOR_TEST_LONG").is_some()
}

/// One thread writes a zone at once, so that the test can be repeated.
pub(super) fn one_thread() -> Context {
    Context {
        threads: Some(1.try_into().unwrap()),
        ..Context::default()
    }
}

/// Cuts the power after each step of `run`, and runs it again with what the disk may have then.
fn survives_power_cuts(
    what: &str,
    image: &[u8],
    run: impl Fn(&Arc<FaultyStorage>, &Context) -> Result<()>,
    is_whole: impl Fn(&Arc<FaultyStorage>) -> bool,
) {
    let cuts = |faults: Faults| {
        let storage = Arc::new(FaultyStorage::with_faults(image.to_vec(), faults));
        run(&storage, &one_thread()).unwrap();
        let cuts = 0..=storage.operation_count();
        check_cuts(&storage, cuts, 3, |image| goes_on(image, &run, &is_whole))
    };
    let seen = cuts(Faults::default());
    let seen = seen.unwrap_or_else(|broken| panic!("{what}: {broken}"));
    eprintln!("{what}: {seen} images");
    assert!(seen > 50, "{what}: {seen}");
    let ignore_syncs = true;
    let noticed = cuts(Faults {
        ignore_syncs,
        ..Faults::default()
    });
    assert!(noticed.is_err(), "{what}");
}

/// Cuts the power after each of these numbers of operations. Checks no image twice. In the short form, for each
/// cut, everything that is not durable is there, or nothing of it; of the other images only one of `one_of` is
/// checked, and others after the next cut. Returns the number of images.
fn check_cuts(
    storage: &FaultyStorage,
    cuts: impl IntoIterator<Item = usize>,
    one_of: usize,
    check: impl Fn(Vec<u8>) -> std::result::Result<(), String>,
) -> std::result::Result<usize, Broken> {
    let mut seen = HashSet::new();
    let hasher = BuildHasherDefault::<ImageHasher>::default();
    for after in cuts {
        let mut number = 0;
        storage.cut_power(after, SEED, |image, _| {
            let image = image.into_bytes();
            number += 1;
            let is_chosen = number <= 2 || (after + number).is_multiple_of(one_of) || is_long();
            if is_chosen && seen.insert(hasher.hash_one(&image)) {
                check(image)
            } else {
                Ok(())
            }
        })?;
    }
    Ok(seen.len())
}

/// Runs what is left, and checks the result.
fn goes_on(
    image: Vec<u8>,
    run: impl Fn(&Arc<FaultyStorage>, &Context) -> Result<()>,
    is_whole: impl Fn(&Arc<FaultyStorage>) -> bool,
) -> std::result::Result<(), String> {
    let storage = Arc::new(FaultyStorage::new(image));
    run(&storage, &Context::default()).map_err(|error| error.to_string())?;
    if is_whole(&storage) {
        Ok(())
    } else {
        Err("the plaintext is another".to_owned())
    }
}

#[test]
fn a_power_cut_loses_nothing() {
    let image = volume();
    for protection in PROTECTIONS {
        survives_power_cuts(
            &format!("{protection:?}"),
            &image,
            |storage, context| reencrypt(storage.clone(), &options(protection), context),
            |storage| decrypted(storage.clone()) == plain(),
        );
    }
}

/// Runs what is left of an encryption with the header in front. The storage has the data, and after them
/// room for two headers.
pub(super) fn encrypt_in_front(storage: Arc<dyn Storage>, context: &Context) -> Result<()> {
    let data = DataFile::of_storage(storage.clone(), Path::new("volume"));
    if !matches!(
        luxor::LuksMetadata::version(data.input()?, context),
        Ok(Some(_))
    ) {
        let (new, reduce_by) = (new_volume(SHIFT as u64), 2 * SHIFT as u64);
        // An interrupted attempt has left something in the free bytes.
        let options = ReencryptOptions {
            force: true,
            ..ReencryptOptions::default()
        };
        luxor::put_header_in_front(&data, reduce_by, &new, || Ok(secret()), &options, context)?;
    }
    let (volume, data) = open(storage);
    if !volume.header.is_reencrypting() {
        return Ok(());
    }
    let options = ReencryptOptions::default();
    reencrypt_data(volume, &data, &secret(), &options, context)
}

#[test]
fn a_power_cut_loses_nothing_while_data_move_for_a_header() {
    let mut image = plain_of(SHIFTED_LEN);
    image.resize(SHIFTED_LEN + 2 * SHIFT, 0);
    survives_power_cuts(
        "data shift",
        &image,
        |storage, context| encrypt_in_front(storage.clone(), context),
        |storage| decrypted_of(storage.clone(), SHIFTED_LEN) == plain_of(SHIFTED_LEN),
    );
}

/// A header and its data, which are two files of one storage. The header comes first, and has this length.
#[derive(Clone, Copy)]
pub(super) struct Detached {
    pub(super) header_len: usize,
    pub(super) mode: ReencryptMode,
}

impl Detached {
    pub(super) fn open(
        self,
        storage: &Arc<FaultyStorage>,
        context: &Context,
    ) -> Result<(LuksVolume, DataFile)> {
        let len = usize::try_from(storage.len().unwrap()).unwrap();
        let header = Arc::new(storage.file(0..self.header_len));
        let data = Arc::new(storage.file(self.header_len..len));
        let data = DataFile::of_storage(data, Path::new("volume"));
        let header = Input::of_storage(header, Path::new("header"))?;
        let volume = LuksVolume::of_input(header, context)?;
        Ok((volume.with_data(data.input()?), data))
    }

    /// Runs what is left.
    pub(super) fn run(
        self,
        storage: &Arc<FaultyStorage>,
        options: ReencryptOptions,
        context: &Context,
    ) -> Result<()> {
        let (volume, data) = self.open(storage, context)?;
        let is_to_begin = self.mode == ReencryptMode::Decrypt && volume.header.segment().is_some();
        if !is_to_begin && !volume.header.is_reencrypting() {
            return Ok(());
        }
        let options = ReencryptOptions {
            mode: Some(self.mode),
            ..options
        };
        reencrypt_data(volume, &data, &secret(), &options, context)
    }

    /// The data, which are plain if they were decrypted.
    pub(super) fn plaintext(self, storage: &Arc<FaultyStorage>, len: usize) -> Vec<u8> {
        if self.mode == ReencryptMode::Decrypt {
            return storage.to_bytes()[self.header_len..][..len].to_vec();
        }
        let (volume, data) = self.open(storage, &Context::default()).unwrap();
        decrypted_volume(volume, data, len)
    }
}

#[test]
fn a_power_cut_loses_nothing_while_data_become_plain() {
    const HEADER: usize = 280 << 10;
    // A journal must have room for all that takes the place of the header.
    for (protection, len) in PROTECTIONS.into_iter().zip([700 << 10, 100 << 10]) {
        let input = Arc::new(MemoryStorage::new(plain_of(len)));
        let mut input = Input::of_storage(input, Path::new("plain")).unwrap();
        let made = Arc::new(MemoryStorage::default());
        let output = Output::of_storage(made.clone(), Path::new("volume"));
        let (new, context) = (new_volume(HEADER as u64), Context::default());
        luxor::encrypt_to(&mut input, output, &new, || Ok(secret()), &context).unwrap();
        let made = made.to_bytes();
        let files = Detached {
            header_len: HEADER,
            mode: ReencryptMode::Decrypt,
        };
        let options = ReencryptOptions {
            zone: None,
            ..options(protection)
        };
        survives_power_cuts(
            &format!("to plain data, {protection:?}"),
            &[&made[..HEADER], &made].concat(),
            |storage, context| files.run(storage, options.clone(), context),
            |storage| files.plaintext(storage, len) == plain_of(len),
        );
    }
}

/// The bytes of a new header and of the data, which it encrypts with `options`.
pub(super) fn with_detached_header(options: &ReencryptOptions) -> [Vec<u8>; 2] {
    let folder = tempfile::tempdir().unwrap();
    encrypted_in(folder.path(), plain(), options).map(|path| fs::read(path).unwrap())
}

/// Makes the files of a new header and of the data, which it encrypts with `options`.
pub(super) fn encrypted_in(
    folder: &Path,
    plain: Vec<u8>,
    options: &ReencryptOptions,
) -> [PathBuf; 2] {
    let [header, data] = ["header", "data"].map(|name| folder.join(name));
    fs::write(&data, plain).unwrap();
    let (new, context) = (new_volume(312 << 10), Context::default());
    luxor::encrypt_in_place(&data, &header, &new, || Ok(secret()), options, &context).unwrap();
    [header, data]
}

#[test]
fn a_power_cut_of_two_files_loses_nothing() {
    for mode in [ReencryptMode::Encrypt, ReencryptMode::Decrypt] {
        for protection in PROTECTIONS {
            let options = options(protection);
            let begun = ReencryptOptions {
                part: match mode {
                    ReencryptMode::Encrypt => ReencryptPart::Begin,
                    _ => ReencryptPart::All,
                },
                ..options.clone()
            };
            let [header, data] = with_detached_header(&begun);
            let files = Detached {
                header_len: header.len(),
                mode,
            };
            survives_power_cuts(
                &format!("detached header, {mode:?}, {protection:?}"),
                &[header, data].concat(),
                |storage, context| files.run(storage, options.clone(), context),
                |storage| files.plaintext(storage, LEN) == plain(),
            );
        }
    }
}

/// Another program has written data without a sync. Each sector has the bytes from before or after that,
/// whatever a power cut loses.
#[test]
fn a_power_cut_may_lose_what_was_written_before_and_nothing_else() {
    for protection in PROTECTIONS {
        let begun = ReencryptOptions {
            part: ReencryptPart::Begin,
            ..options(protection)
        };
        let [header, data] = with_detached_header(&begun);
        let files = Detached {
            header_len: header.len(),
            mode: ReencryptMode::Encrypt,
        };
        let [older, newer] = [plain(), data.iter().map(|byte| !byte).collect()];
        assert!(data == older);
        let storage = Arc::new(FaultyStorage::new([header, data].concat()));
        let end = files.header_len + LEN;
        let written = storage.file(files.header_len..end).write_all_at(&newer, 0);
        written.unwrap();
        let run = |storage: &Arc<FaultyStorage>, context: &Context| {
            files.run(storage, options(protection), context)
        };
        run(&storage, &one_thread()).unwrap();
        assert!(files.plaintext(&storage, LEN) == newer);
        let is_there = |storage: &Arc<FaultyStorage>| {
            let found = files.plaintext(storage, LEN);
            let sectors = |bytes| <[u8]>::chunks(bytes, 512);
            let both = sectors(&older).zip(sectors(&newer));
            let mut sectors = sectors(&found).zip(both);
            sectors.all(|(found, (older, newer))| found == older || found == newer)
        };
        let cuts = 0..=storage.operation_count();
        let cuts = check_cuts(&storage, cuts, 3, |image| goes_on(image, run, is_there));
        let images = cuts.unwrap_or_else(|broken| panic!("{protection:?}: {broken}"));
        assert!(images > 50, "{protection:?}: {images}");
    }
}

/// A sync fails once, and loses for good what it was to make durable, although later syncs succeed. The
/// next run sees it, until the power is cut.
#[test]
fn a_failed_sync_stops_it_and_loses_nothing() {
    let image = volume();
    // The syncs that fail, one in each run.
    let step = if is_long() { 1 } else { 7 };
    for (first, protection) in PROTECTIONS.into_iter().enumerate() {
        let (mut images, mut failed) = (0, 0);
        let run = |storage: &Arc<FaultyStorage>, context: &Context| {
            reencrypt(storage.clone(), &options(protection), context)
        };
        let is_whole = |storage: &Arc<FaultyStorage>| decrypted(storage.clone()) == plain();
        for sync in (3 * first as u64..).step_by(step) {
            let faults = Faults {
                fail_sync_after: Some(sync),
                ..Faults::default()
            };
            let storage = Arc::new(FaultyStorage::with_faults(image.clone(), faults));
            let Err(error) = run(&storage, &one_thread()) else {
                break;
            };
            let text = error.message();
            let says = |words: &str| text.contains(words);
            let is_about_it = says("durable") || says("cannot be written");
            assert!(says("volume: ") && is_about_it, "{sync}: {text}");
            let stopped = storage.operation_count();
            run(&storage, &one_thread()).unwrap();
            // Before each sync most can be lost.
            let operations = storage.operations();
            let is_before_sync = |after: &usize| {
                let next = operations.get(*after);
                next.is_none_or(|operation| matches!(operation, Operation::Sync(_)))
            };
            let cuts = (stopped..=operations.len()).filter(is_before_sync);
            let cuts = check_cuts(&storage, cuts, 40, |image| goes_on(image, run, is_whole));
            images += cuts.unwrap_or_else(|broken| panic!("{protection:?}, sync {sync}: {broken}"));
            failed += 1;
        }
        eprintln!("{protection:?}: {failed} failed syncs, {images} images");
        assert!(failed > 3, "{failed}");
    }
}
