// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of LUKS2 metadata that are accepted, whatever they say: each is made wholly or
//! not at all, and keeps all that it is not about.
//!
//! An input is the layout of `luks2::volume`, twice a change with its argument, and the
//! JSON area, where [`DIGEST`] stands for the digest of the key that new keyslots hold.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use luxor_fuzz::{backend, luks2};
use luxor_luks::{
    ActivationFlag, ChangeError, Luks2Header, Luks2Options, NewKeyslot, NewLuks2Volume, Overwrite,
    PbkdfKind, PbkdfOptions, Priority, UnlockOptions, Uuid,
};
use luxor_sector::MemoryStorage;
use serde_json::{Map, Value, json};

const DIGEST: &str = "\"@\"";
/// What [`NewKeyslot`]s say.
const OF_KEYSLOTS: [&str; 5] = ["type", "key_size", "af", "area", "kdf"];

fuzz_target!(|input: &[u8]| {
    let Some((&[layout, ref changes @ ..], json)) = input.split_first_chunk::<5>() else {
        return;
    };
    let json = String::from_utf8_lossy(json).replace(DIGEST, &NEW.digest);
    let storage = MemoryStorage::new(luks2::volume(layout, json.as_bytes()));
    let Ok(mut header) = Luks2Header::read(&storage) else {
        return;
    };
    // Numbers that only json-c has are shown as they are, and `json_of` does not read them.
    if serde_json::from_str::<Value>(&header.metadata_json()).is_err() {
        return;
    }
    for change in changes.chunks_exact(2) {
        changed(&mut header, &storage, change[0], change[1]);
    }
});

/// Makes one change, and checks what has become of everything.
fn changed(header: &mut Luks2Header, storage: &MemoryStorage, kind: u8, argument: u8) {
    let (before, bytes) = (header.clone(), storage.to_bytes());
    let change = Change::new(kind, argument);
    if let Err(error) = change.make(header, storage) {
        assert!(!error.to_string().is_empty());
        let headers = 0..2 * usize::try_from(before.describe().header_size).expect("small");
        let now = storage.to_bytes();
        assert!(now[headers.clone()] == bytes[headers], "{error}");
        return;
    }

    let now = Luks2Header::read(storage).expect("what was written can be read");
    assert!(now.warnings().is_empty(), "{:?}", now.warnings());
    assert_eq!(now.metadata_json(), header.metadata_json());
    luks2::check(&now, storage);
    let [old, new] = [&before, &now].map(|header| header.describe());
    let grown = u64::from(!matches!(change, Change::Repair(_)));
    assert_eq!(new.seqid, old.seqid + grown);
    let names = |header: &Luks2Header| {
        let described = header.describe();
        [described.label, described.subsystem, described.uuid].map(str::to_owned)
    };
    assert_eq!(names(&now), change.names(names(&before)));
    assert_eq!(json_of(&now), change.json(&before, &now));

    // What is in areas that stay where they are.
    let bytes_now = storage.to_bytes();
    for (number, keyslot) in old.keyslots {
        let area = &keyslot.area;
        if new.keyslots.get(number).map(|keyslot| &keyslot.area) == Some(area) {
            let place = |at: u64| usize::try_from(at).map_or(bytes.len(), |at| at.min(bytes.len()));
            let range = place(area.offset)..place(area.offset + area.size);
            assert!(bytes_now[range.clone()] == bytes[range]);
        }
    }
}

/// A change; numbers are of keyslots, tokens and names.
#[derive(Clone, Copy)]
enum Change {
    AddKeyslot(Option<u32>),
    ReplaceKeyslot(u32),
    RemoveKeyslot(u32),
    Erase,
    Priority(u32, Priority),
    AddToken(Option<u32>),
    ReplaceToken(u32),
    RemoveToken(u32),
    Name(usize),
    Flags(u8),
    Repair(Overwrite),
}

const TOKEN: &str = r#"{"type":"fuzz","keyslots":[],"more":[1.5,null,{"a":"/"}]}"#;

impl Change {
    fn new(kind: u8, argument: u8) -> Self {
        let number = u32::from(argument & 63);
        let maybe = (argument & 128 == 0).then_some(number);
        match kind % 13 {
            0 => Self::AddKeyslot(maybe),
            1 => Self::ReplaceKeyslot(number),
            2 => Self::RemoveKeyslot(number),
            3 => Self::Erase,
            4 => Self::Priority(number, Priority::Ignore),
            5 => Self::Priority(number, Priority::Normal),
            6 => Self::Priority(number, Priority::Prefer),
            7 => Self::AddToken(maybe),
            8 => Self::ReplaceToken(number),
            9 => Self::RemoveToken(number),
            10 => Self::Name(usize::from(argument) % 3),
            11 => Self::Flags(argument),
            _ if argument & 1 == 0 => Self::Repair(Overwrite::Damaged),
            _ => Self::Repair(Overwrite::Anything),
        }
    }

    fn make(self, header: &mut Luks2Header, storage: &MemoryStorage) -> Result<(), ChangeError> {
        match self {
            Self::AddKeyslot(number) => header.add_keyslot(storage, &NEW.keyslot, number).map(drop),
            Self::ReplaceKeyslot(number) => header.replace_keyslot(storage, number, &NEW.keyslot),
            Self::RemoveKeyslot(number) => header.remove_keyslot(storage, number),
            Self::Erase => header.erase(storage),
            Self::Priority(number, priority) => header.set_priority(storage, number, priority),
            Self::AddToken(number) => header.add_token(storage, TOKEN, number).map(drop),
            Self::ReplaceToken(number) => header.replace_token(storage, TOKEN, number),
            Self::RemoveToken(number) => header.remove_token(storage, number),
            Self::Name(0) => header.set_label(storage, &"label".parse().expect("short")),
            Self::Name(1) => header.set_subsystem(storage, &"subsystem".parse().expect("short")),
            Self::Name(_) => header.set_uuid(storage, Uuid::from_u128(7)),
            Self::Flags(set) => header.set_flags(storage, &flags(set)),
            Self::Repair(overwrite) => header.repair(storage, overwrite).map(drop),
        }
    }

    /// What the label, the subsystem and the UUID are to be.
    fn names(self, before: [String; 3]) -> [String; 3] {
        let mut names = before;
        if let Self::Name(which) = self {
            let uuid = Uuid::from_u128(7).to_string();
            names[which] = ["label", "subsystem", &uuid][which].to_owned();
        }
        names
    }

    /// What the metadata are to be, but for what only `now` can say of a new keyslot.
    fn json(self, before: &Luks2Header, now: &Luks2Header) -> Value {
        let mut json = json_of(before);
        let new = json_of(now);
        let token = || serde_json::from_str(TOKEN).expect("it is JSON");
        match self {
            Self::AddKeyslot(_) => {
                let number = added("keyslots", &json, &new);
                json["keyslots"][&number] = new["keyslots"][&number].clone();
                let references = json["digests"]["0"]["keyslots"].as_array_mut();
                let references = references.expect("it is the key's");
                *references = references.iter().map(c_text).collect();
                references.push(number.into());
            }
            Self::ReplaceKeyslot(number) => {
                let number = number.to_string();
                for name in OF_KEYSLOTS {
                    json["keyslots"][&number][name] = new["keyslots"][&number][name].clone();
                }
            }
            Self::RemoveKeyslot(number) => {
                let number = number.to_string();
                members(&mut json["keyslots"]).remove(&number);
                forget(&mut json, |reference| reference == number);
            }
            Self::Erase => {
                json["keyslots"] = json!({});
                forget(&mut json, |_| true);
            }
            Self::Priority(number, priority) => {
                let keyslot = members(&mut json["keyslots"][number.to_string()]);
                match priority {
                    Priority::Normal => keyslot.remove("priority"),
                    Priority::Ignore => keyslot.insert("priority".into(), 0.into()),
                    Priority::Prefer => keyslot.insert("priority".into(), 2.into()),
                };
            }
            Self::AddToken(_) => {
                let number = added("tokens", &json, &new);
                json["tokens"][number] = token();
            }
            Self::ReplaceToken(number) => json["tokens"][number.to_string()] = token(),
            Self::RemoveToken(number) => {
                members(&mut json["tokens"]).remove(&number.to_string());
            }
            Self::Flags(set) => {
                let known = ActivationFlag::ALL.map(ActivationFlag::name);
                let mut names: Vec<Value> = Vec::new();
                names.extend(flags(set).into_iter().map(|flag| flag.name().into()));
                let old = json["config"]["flags"].as_array().into_iter().flatten();
                let is_unknown = |name: &Value| !known.iter().any(|known| name == known);
                names.extend(old.map(c_text).filter(is_unknown));
                json["config"]["flags"] = names.into();
            }
            Self::Name(_) | Self::Repair(_) => {}
        }
        json
    }
}

/// The part of a text that is a string of C: an array is written again with these.
fn c_text(text: &Value) -> Value {
    let text = text.as_str().expect("a text");
    text.split('\0').next().expect("a part").into()
}

fn flags(set: u8) -> Vec<ActivationFlag> {
    let all = ActivationFlag::ALL.into_iter().enumerate();
    all.filter(|(bit, _)| set >> bit & 1 == 1)
        .map(|(_, flag)| flag)
        .collect()
}

/// The one member of `new`'s object of this name that `old`'s has not.
fn added(name: &str, old: &Value, new: &Value) -> String {
    let numbers = new[name].as_object().expect("an object").keys();
    let mut added = numbers.filter(|&number| old[name].get(number).is_none());
    let number = added.next().expect("it was added").clone();
    assert_eq!(added.next(), None);
    number
}

/// Nothing refers to keyslots that are gone, and a digest of nothing is gone too.
fn forget(json: &mut Value, gone: impl Fn(&str) -> bool) {
    let keep = |object: &mut Value| {
        let references = object["keyslots"].as_array_mut().expect("references");
        let mut kept: Vec<Value> = references.iter().map(c_text).collect();
        kept.retain(|reference| !reference.as_str().is_some_and(&gone));
        if kept.len() < references.len() {
            *references = kept;
        }
        !references.is_empty()
    };
    members(&mut json["tokens"]).values_mut().for_each(|token| {
        keep(token);
    });
    members(&mut json["digests"]).retain(|_, digest| {
        keep(digest)
            || !digest["segments"]
                .as_array()
                .expect("references")
                .is_empty()
    });
}

fn members(object: &mut Value) -> &mut Map<String, Value> {
    object.as_object_mut().expect("an object")
}

fn json_of(header: &Luks2Header) -> Value {
    serde_json::from_str(&header.metadata_json()).expect("what is shown is JSON")
}

/// A keyslot for volumes whose digest 0 is that of its key.
struct New {
    keyslot: NewKeyslot,
    /// In Base64, with the quotation marks.
    digest: String,
}

static NEW: LazyLock<New> = LazyLock::new(|| {
    let pbkdf = PbkdfOptions {
        kind: PbkdfKind::Pbkdf2,
        force_iterations: Some(1000),
        ..PbkdfOptions::default()
    };
    let options = Luks2Options {
        pbkdf: pbkdf.clone(),
        ..Luks2Options::default()
    };
    let storage = MemoryStorage::default();
    let made = NewLuks2Volume::create(&options, b"secret", backend()).expect("a volume");
    made.write_to(&storage).expect("memory is written");
    let header = Luks2Header::read(&storage).expect("it is a volume");
    let unlocked = header
        .unlock(&storage, b"secret", backend(), &UnlockOptions::default())
        .expect("it is the secret");
    let keyslot = header
        .new_keyslot(&unlocked, b"another", &pbkdf, backend())
        .expect("a keyslot");
    New {
        keyslot,
        digest: json_of(&header)["digests"]["0"]["digest"].to_string(),
    }
});
