// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each state that Luxor leaves on the disk is read by `cryptsetup` as Luxor means it: `cryptsetup repair`
//! and `cryptsetup reencrypt --resume-only` end the re-encryption with the same plaintext, or refuse it and
//! leave Luxor to end it.

use std::{
    convert::Infallible,
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use luxor_engine::{Mode, Registry};
use luxor_luks::{Luks2Header, PartState, ReencryptDirection, Resilience};
use luxor_sector::faulty::Operation;

use super::{
    in_use,
    power_cuts::{
        Detached, encrypt_in_front, encrypted_in, is_long, one_thread, with_detached_header,
    },
    *,
};

/// The length of both copies of the metadata.
const METADATA: usize = 32 << 10;

const REPAIR: &str = "repair";
const RESUME: &str = "reencrypt --resume-only --force-offline-reencrypt";

const NONE: ZoneProtection = ZoneProtection::None;

/// Runs what is left.
type Run<'a> = &'a dyn Fn(&Arc<FaultyStorage>, &Context) -> Result<()>;

/// A re-encryption whose states are captured.
struct Way<'a> {
    name: String,
    image: Vec<u8>,
    /// The length of the header, if that is a file of its own, which comes first in the image.
    header_len: Option<usize>,
    run: Run<'a>,
    /// What the plaintext begins with.
    plain: Vec<u8>,
    becomes_plain: bool,
    /// What protects its zones.
    protection: ZoneProtection,
}

/// A state of the files, and what Luxor says of it.
struct State {
    image: Vec<u8>,
    /// The number of the change of the metadata, if they can be read.
    change: Option<u64>,
    is_under_way: bool,
    is_in_zone: bool,
    /// The options with which `cryptsetup` keeps what protects the zones. Otherwise it makes the digest over
    /// the state again, which takes a second.
    kept: String,
}

impl Way<'_> {
    fn state(&self, image: Vec<u8>) -> State {
        let header = MemoryStorage::new(image[..self.header_len.unwrap_or(image.len())].to_vec());
        let header = Luks2Header::read(&header).ok();
        let mut kept = String::new();
        let progress = header.as_ref().and_then(|header| {
            let state = header.reencryption(1 << 40).ok().flatten()?;
            let zone = state.progress.zone().filter(|zone| zone.start > 0);
            if let (Some(zone), ReencryptDirection::Backward) = (zone, state.direction) {
                // cryptsetup repair refuses a zone that nothing protects.
                assert!(
                    self.protection == NONE || zone.end - zone.start <= zone.start,
                    "{}: cryptsetup may take the end for reached in {zone:?}",
                    self.name
                );
            }
            if state.resilience.shift().is_none() && !is_long() {
                kept = format!(" --resilience {}", state.resilience.name());
            }
            Some(state.progress)
        });
        State {
            image,
            change: header.as_ref().map(|header| header.describe().seqid),
            is_under_way: progress.is_some(),
            is_in_zone: progress.is_some_and(|progress| {
                let parts = progress.parts();
                assert!(
                    parts.iter().any(|(_, state)| *state != PartState::New),
                    "{}: all is done, and cryptsetup would begin again",
                    self.name
                );
                progress.zone().is_some()
            }),
            kept,
        }
    }

    /// Runs it, and returns what the disk had after each sync. In the short form only the last state of each
    /// change of the metadata, and within a zone also the first one.
    fn states(&self) -> Vec<State> {
        let storage = Arc::new(FaultyStorage::new(self.image.clone()));
        (self.run)(&storage, &one_thread()).unwrap();
        let mut image = self.image.clone();
        let mut states: Vec<State> = Vec::new();
        for operation in storage.operations() {
            match operation {
                Operation::Write { offset, bytes } => {
                    image[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
                Operation::Growth { to, .. } => image.resize(to, 0),
                _ if states.last().is_some_and(|last| last.image == image) => {}
                _ => {
                    let next = self.state(image.clone());
                    let same = states.iter().rev();
                    let same = same.take_while(|state| state.change == next.change).count();
                    if same > usize::from(next.is_in_zone) && !is_long() {
                        states.pop();
                    }
                    states.push(next);
                }
            }
        }
        states
    }

    /// Hands a state to `cryptsetup`, and then to Luxor unless `cryptsetup` has ended it. Returns whether
    /// `cryptsetup` has.
    fn is_ended_by_cryptsetup(&self, state: &State, commands: &[&str]) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| -> PathBuf { folder.path().join(name) };
        let (header, data) = state.image.split_at(self.header_len.unwrap_or(0));
        fs::write(path("key"), secret().expose()).unwrap();
        fs::write(path("v"), data).unwrap();
        let mut said = String::new();
        for command in commands {
            let mut cryptsetup = Command::new("cryptsetup");
            cryptsetup.args(command.split_whitespace());
            if *command == RESUME {
                cryptsetup.args(state.kept.split_whitespace());
            }
            cryptsetup.args(["-q", "--key-file", "key", "v"]);
            if self.header_len.is_some() {
                if !path("h").exists() {
                    fs::write(path("h"), header).unwrap();
                }
                cryptsetup.args(["--header", "h"]);
            }
            cryptsetup.current_dir(folder.path()).stdin(Stdio::null());
            let output = cryptsetup.output().expect("cryptsetup must be installed");
            said += &format!("{command}: {output:?}\n");
        }
        let mut image = self
            .header_len
            .map_or(Vec::new(), |_| fs::read(path("h")).unwrap());
        image.extend(fs::read(path("v")).unwrap());
        let name = &self.name;
        let after = self.state(image);
        let is_ended = state.is_under_way && !after.is_under_way;
        if self.protection == NONE && state.is_in_zone {
            // It may have written the metadata again.
            let rest = METADATA..;
            let is_same = after.image[rest.clone()] == state.image[rest];
            assert!(after.is_in_zone && is_same, "{name}: {said}");
            return false;
        }
        let storage = Arc::new(FaultyStorage::new(after.image));
        let is_to_run = state.change.is_none() || state.is_under_way || self.becomes_plain;
        if is_to_run && !is_ended {
            let ended = (self.run)(&storage, &Context::default());
            ended.unwrap_or_else(|error| panic!("{name}: {error}\n{said}"));
        }
        let len = self.plain.len();
        let found = match self.header_len {
            Some(header_len) if self.becomes_plain => {
                storage.to_bytes()[header_len..][..len].to_vec()
            }
            Some(header_len) => {
                let mode = ReencryptMode::Encrypt;
                Detached { header_len, mode }.plaintext(&storage, len)
            }
            None => decrypted_of(storage, len),
        };
        let change = state.change;
        assert!(
            found == self.plain,
            "{name}: the plaintext is another after change {change:?}\n{said}"
        );
        is_ended
    }

    fn is_read_as_it_is_meant(&self) {
        let name = &self.name;
        let (mut ended, mut refused) = (0, 0);
        for state in self.states() {
            // Without a zone there is nothing to repair.
            let commands = if state.is_in_zone { 0.. } else { 1.. };
            let is_ended = self.is_ended_by_cryptsetup(&state, &[REPAIR, RESUME][commands]);
            if is_ended {
                ended += 1;
            } else if state.is_under_way {
                // A header whose keyslots are not there yet, and a last zone of odd length in a journal.
                let is_put = self.header_len.is_none() && state.change == Some(2);
                let is_odd = self.protection != PROTECTIONS[0] && state.is_in_zone;
                assert!(
                    is_put || is_odd,
                    "{name}: change {:?} is refused",
                    state.change
                );
                refused += 1;
            }
            if is_long() {
                self.is_ended_by_cryptsetup(&state, &[REPAIR, RESUME]);
                self.is_ended_by_cryptsetup(&state, &[RESUME]);
            }
        }
        eprintln!("{name}: cryptsetup has ended {ended} states, and refused {refused}");
        assert!(ended > 1, "{name}: {ended}");
    }
}

/// A volume whose length its metadata have, in sectors of `sector_size`.
fn volume_of_len(len: usize, header: usize, sector_size: SectorSize) -> Vec<u8> {
    let input = Arc::new(MemoryStorage::new(plain_of(len)));
    let mut input = Input::of_storage(input, Path::new("plain")).unwrap();
    let made = Arc::new(MemoryStorage::default());
    let output = Output::of_storage(made.clone(), Path::new("volume"));
    let new = NewVolumeOptions {
        sector_size: Some(sector_size),
        ..new_volume(header as u64)
    };
    luxor::encrypt_to(
        &mut input,
        output,
        &new,
        || Ok(secret()),
        &Context::default(),
    )
    .unwrap();
    made.to_bytes()
}

fn protections() -> impl Iterator<Item = ZoneProtection> {
    PROTECTIONS.into_iter().chain([NONE])
}

#[test]
fn a_new_key() {
    for protection in protections() {
        let options = options(protection);
        Way {
            name: format!("a new key, {protection:?}"),
            image: volume(),
            header_len: None,
            run: &|storage, context| reencrypt(storage.clone(), &options, context),
            plain: plain(),
            becomes_plain: false,
            protection,
        }
        .is_read_as_it_is_meant();
    }
}

#[test]
fn another_sector_size_or_a_part_or_another_protection() {
    let image = volume_of_len(32 << 10, 600 << 10, SectorSize::B512);
    let plain = plain_of(32 << 10);
    let sha512 = ZoneProtection::Checksum(HashAlgorithm::Sha512);
    let longer = ReencryptOptions {
        sector_size: Some(SectorSize::B4096),
        key_len: Some(64),
        zone: Some(12 << 10),
        ..options(sha512)
    };
    let one_zone = ReencryptOptions {
        zone: None,
        ..options(PROTECTIONS[0])
    };
    let begin = ReencryptOptions {
        part: ReencryptPart::Begin,
        ..options(sha512)
    };
    let go_on = |storage: &Arc<FaultyStorage>, options: &ReencryptOptions, context: &Context| {
        let (volume, _) = open(storage.clone());
        if volume.header.segment().is_some() {
            reencrypt(storage.clone(), &begin, context)?;
        }
        reencrypt(storage.clone(), options, context)
    };
    let ways: [(&str, Run<'_>); 3] = [
        ("sectors of 4096 bytes", &|storage, context| {
            reencrypt(storage.clone(), &longer, context)
        }),
        ("one zone", &|storage, context| {
            reencrypt(storage.clone(), &one_zone, context)
        }),
        ("checksums, then a journal", &|storage, context| {
            go_on(storage, &options(PROTECTIONS[1]), context)
        }),
    ];
    for (name, run) in ways {
        Way {
            name: name.to_owned(),
            image: image.clone(),
            header_len: None,
            run,
            plain: plain.clone(),
            becomes_plain: false,
            protection: PROTECTIONS[0],
        }
        .is_read_as_it_is_meant();
    }
}

#[test]
fn only_the_first_part() {
    let part = ReencryptOptions {
        device_size: Some(8 << 10),
        ..options(PROTECTIONS[0])
    };
    // Its metadata do not have the length of a file.
    let [header, data] = with_detached_header(&options(PROTECTIONS[0]));
    let files = Detached {
        header_len: header.len(),
        mode: ReencryptMode::Reencrypt,
    };
    Way {
        name: "the first part".to_owned(),
        image: [&header[..], &data].concat(),
        header_len: Some(header.len()),
        run: &|storage, context| {
            let (volume, data) = files.open(storage, context)?;
            reencrypt_data(volume, &data, &secret(), &part, context)
        },
        plain: plain_of(8 << 10),
        becomes_plain: false,
        protection: PROTECTIONS[0],
    }
    .is_read_as_it_is_meant();
}

#[test]
fn a_volume_in_use() {
    for protection in PROTECTIONS {
        let options = options(protection);
        Way {
            name: format!("in use, {protection:?}"),
            image: volume(),
            header_len: None,
            run: &|storage, context| {
                let (_export, work) = in_use::begin(storage.clone(), &options, context)?;
                work.run(None)
            },
            plain: plain(),
            becomes_plain: false,
            protection,
        }
        .is_read_as_it_is_meant();
    }
}

#[test]
fn a_detached_header() {
    for mode in [ReencryptMode::Encrypt, ReencryptMode::Decrypt] {
        let becomes_plain = mode == ReencryptMode::Decrypt;
        let part = ReencryptOptions {
            device_size: Some(8 << 10),
            ..options(PROTECTIONS[0])
        };
        let all = protections().map(options).chain([part]);
        for options in all {
            let begun = ReencryptOptions {
                part: if becomes_plain {
                    ReencryptPart::All
                } else {
                    ReencryptPart::Begin
                },
                device_size: None,
                ..options.clone()
            };
            let [header, data] = with_detached_header(&begun);
            let files = Detached {
                header_len: header.len(),
                mode,
            };
            let len = options.device_size.map_or(LEN, |_| 8 << 10);
            Way {
                name: format!("{mode:?}, {:?}, {len} bytes", options.protection),
                image: [&header[..], &data].concat(),
                header_len: Some(header.len()),
                run: &|storage, context| files.run(storage, options.clone(), context),
                plain: plain_of(len),
                becomes_plain,
                protection: options.protection.unwrap(),
            }
            .is_read_as_it_is_meant();
        }
    }
}

/// A decryption that has come to any sector from the end, as that of `cryptsetup` can: in a file it makes
/// checksums of 4096 bytes, while the sectors have 512.
#[test]
fn what_cryptsetup_has_begun_towards_the_beginning() {
    let begin = ReencryptOptions {
        part: ReencryptPart::Begin,
        ..options(PROTECTIONS[0])
    };
    // The length of the data, the number of bytes that are not done, and the longest zone.
    for (len, rest, zone) in [
        (LEN, 512, None),
        (LEN, 4608, Some(512)),
        (16896, 12800, Some(8 << 10)),
        (200 << 10, 200 << 10, None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let files = encrypted_in(folder.path(), plain_of(len), &options(PROTECTIONS[0]));
        let [header, mut data] = files.map(|path| fs::read(path).unwrap());
        let files = Detached {
            header_len: header.len(),
            mode: ReencryptMode::Decrypt,
        };
        let storage = Arc::new(FaultyStorage::new([&header[..], &data].concat()));
        files.run(&storage, begin.clone(), &one_thread()).unwrap();
        let header = MemoryStorage::new(storage.to_bytes()[..header.len()].to_vec());

        let mut luks2 = Luks2Header::read(&header).unwrap();
        let (backend, secret) = (Registry::cpu().best(Mode::Xts).unwrap(), secret());
        let unlock = UnlockOptions::default();
        let opened = luks2.unlock(&header, secret.expose(), &*backend, &unlock);
        let theirs = Resilience::Checksum {
            hash: "sha256".to_owned(),
            sector_size: 4096,
        };
        let keys = opened.unwrap().into_keys();
        luks2.set_resilience(&header, &theirs, None, &keys).unwrap();
        let state = luks2.reencryption(len as u64).unwrap().unwrap();
        let done = rest as u64..len as u64;
        let progress = state.progress.with(done, PartState::New);
        let prepare = |_: &dyn Storage, _| Ok::<_, Infallible>(false);
        let Ok(()) = luks2.set_reencryption(&header, &progress, prepare).unwrap();
        data[rest..].copy_from_slice(&plain_of(len)[rest..]);

        let options = ReencryptOptions {
            zone,
            protection: None,
            ..options(PROTECTIONS[0])
        };
        Way {
            name: format!("{rest} of {len} bytes, zone {zone:?}"),
            image: [&header.to_bytes()[..], &data].concat(),
            header_len: Some(files.header_len),
            run: &|storage, context| files.run(storage, options.clone(), context),
            plain: plain_of(len),
            becomes_plain: true,
            protection: PROTECTIONS[0],
        }
        .is_read_as_it_is_meant();
    }
}

#[test]
fn a_header_in_front_of_plain_data() {
    let mut image = plain_of(SHIFTED_LEN);
    image.resize(SHIFTED_LEN + 2 * SHIFT, 0);
    Way {
        name: "a header in front".to_owned(),
        image,
        header_len: None,
        run: &|storage, context| encrypt_in_front(storage.clone(), context),
        plain: plain_of(SHIFTED_LEN),
        becomes_plain: false,
        protection: PROTECTIONS[0],
    }
    .is_read_as_it_is_meant();
}

#[test]
fn data_in_the_place_of_their_header() {
    const HEADER: usize = 280 << 10;
    for (protection, len) in PROTECTIONS.into_iter().zip([700 << 10, 100 << 10]) {
        let made = volume_of_len(len, HEADER, SectorSize::B512);
        let mode = ReencryptMode::Decrypt;
        let files = Detached {
            header_len: HEADER,
            mode,
        };
        let options = ReencryptOptions {
            zone: None,
            ..options(protection)
        };
        Way {
            name: format!("in the place of the header, {protection:?}"),
            image: [&made[..HEADER], &made].concat(),
            header_len: Some(HEADER),
            run: &|storage, context| files.run(storage, options.clone(), context),
            plain: plain_of(len),
            becomes_plain: true,
            protection: PROTECTIONS[0],
        }
        .is_read_as_it_is_meant();
    }
}
