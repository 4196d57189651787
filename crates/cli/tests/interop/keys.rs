// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keyslots, tokens and labels: an operation of one program has the same effect as that of the
//! other, and the other can undo it.

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    Cell, Format, Pbkdf,
    product::{self, Deed, Word},
    programs::{Bench, Outcome, Ran, Volume, luks1_dump, metadata, must, run, text},
};

/// The command lines of one operation, and the keys that open the volume afterwards.
/// [`Subject::line`] explains the words in capital letters.
struct Step {
    luxor: &'static str,
    cryptsetup: &'static str,
    opens: &'static [&'static str],
}

/// An operation, and the one that undoes it.
pub struct Operation {
    pub name: &'static str,
    luks1: bool,
    /// The effect depends on the options with which the volume was made.
    pub is_of_keys: bool,
    done: Step,
    undone: Step,
}

pub const OPERATIONS: [Operation; 10] = [
    Operation {
        name: "add, remove",
        luks1: true,
        is_of_keys: true,
        done: Step {
            luxor: "key add FAST --key-file FIRST --new-key-file SECOND VOLUME",
            cryptsetup: "luksAddKey FAST --key-file FIRST --new-keyfile SECOND VOLUME",
            opens: &["FIRST", "SECOND"],
        },
        undone: Step {
            luxor: "key remove --key-file SECOND VOLUME",
            cryptsetup: "luksRemoveKey --key-file SECOND VOLUME",
            opens: &["FIRST"],
        },
    },
    Operation {
        name: "add a part, kill",
        luks1: true,
        is_of_keys: true,
        done: Step {
            luxor: "key add FAST --key-file FIRST --new-key-file LONG --new-keyfile-offset 3 \
                    --new-keyfile-size 6 --new-key-slot 5 VOLUME",
            cryptsetup: "luksAddKey FAST --key-file FIRST --new-keyfile LONG \
                         --new-keyfile-offset 3 --new-keyfile-size 6 --new-key-slot 5 VOLUME",
            opens: &["FIRST", "SECOND"],
        },
        undone: Step {
            luxor: "key remove --key-slot 5 --key-file FIRST VOLUME",
            cryptsetup: "luksKillSlot --key-file FIRST VOLUME 5",
            opens: &["FIRST"],
        },
    },
    Operation {
        name: "change",
        luks1: true,
        is_of_keys: true,
        done: Step {
            luxor: "key change FAST SLOT0 --key-file FIRST --new-key-file SECOND VOLUME",
            cryptsetup: "luksChangeKey FAST SLOT0 --key-file FIRST VOLUME SECOND",
            opens: &["SECOND"],
        },
        undone: Step {
            luxor: "key change FAST SLOT0 --key-file SECOND --new-key-file FIRST VOLUME",
            cryptsetup: "luksChangeKey FAST SLOT0 --key-file SECOND VOLUME FIRST",
            opens: &["FIRST"],
        },
    },
    Operation {
        name: "convert keyslot",
        luks1: false,
        is_of_keys: true,
        done: Step {
            luxor: "key convert OTHER --key-file FIRST VOLUME",
            cryptsetup: "luksConvertKey OTHER --key-file FIRST VOLUME",
            opens: &["FIRST"],
        },
        undone: Step {
            luxor: "key convert FAST --key-file FIRST VOLUME",
            cryptsetup: "luksConvertKey FAST --key-file FIRST VOLUME",
            opens: &["FIRST"],
        },
    },
    Operation {
        name: "UUID",
        luks1: true,
        is_of_keys: false,
        done: Step {
            luxor: "config --uuid 11111111-2222-4333-8444-555555555555 VOLUME",
            cryptsetup: "luksUUID --uuid 11111111-2222-4333-8444-555555555555 VOLUME",
            opens: &["FIRST"],
        },
        undone: Step {
            luxor: "config --uuid UUID VOLUME",
            cryptsetup: "luksUUID --uuid UUID VOLUME",
            opens: &["FIRST"],
        },
    },
    Operation {
        name: "label and subsystem",
        luks1: false,
        is_of_keys: false,
        done: Step {
            luxor: "config --label one --subsystem two VOLUME",
            cryptsetup: "config --label one --subsystem two VOLUME",
            opens: &["FIRST"],
        },
        undone: Step {
            luxor: "config --label= --subsystem= VOLUME",
            cryptsetup: "config --label= --subsystem= VOLUME",
            opens: &["FIRST"],
        },
    },
    Operation {
        name: "priority prefer",
        luks1: false,
        is_of_keys: false,
        done: Step {
            luxor: "config --priority prefer --key-slot 0 VOLUME",
            cryptsetup: "config --priority prefer --key-slot 0 VOLUME",
            opens: &["FIRST"],
        },
        undone: Step {
            luxor: "config --priority normal --key-slot 0 VOLUME",
            cryptsetup: "config --priority normal --key-slot 0 VOLUME",
            opens: &["FIRST"],
        },
    },
    Operation {
        name: "priority ignore",
        luks1: false,
        is_of_keys: false,
        done: Step {
            luxor: "config --priority ignore --key-slot 0 VOLUME",
            cryptsetup: "config --priority ignore --key-slot 0 VOLUME",
            opens: &[],
        },
        undone: Step {
            luxor: "config --priority normal --key-slot 0 VOLUME",
            cryptsetup: "config --priority normal --key-slot 0 VOLUME",
            opens: &["FIRST"],
        },
    },
    Operation {
        name: "token from a file",
        luks1: false,
        is_of_keys: false,
        done: Step {
            luxor: "token add --json-file TOKEN --token-id 3 VOLUME",
            cryptsetup: "token import --json-file TOKEN --token-id 3 VOLUME",
            opens: &["FIRST"],
        },
        undone: Step {
            luxor: "token remove --token-id 3 VOLUME",
            cryptsetup: "token remove --token-id 3 VOLUME",
            opens: &["FIRST"],
        },
    },
    Operation {
        name: "token for the keyring",
        luks1: false,
        is_of_keys: false,
        done: Step {
            luxor: "token add --key-description words VOLUME",
            cryptsetup: "token add --key-description words VOLUME",
            opens: &["FIRST"],
        },
        undone: Step {
            luxor: "token remove --token-id 0 VOLUME",
            cryptsetup: "token remove --token-id 0 VOLUME",
            opens: &["FIRST"],
        },
    },
];

/// LUKS1, then LUKS2.
pub const VERSIONS: [bool; 2] = [true, false];

/// Tests tokens and labels. Operations on keys are part of the product of all values.
#[test]
fn each_program_undoes_changes_of_the_other() {
    let mut columns: Vec<(&str, Deed<'_>)> = Vec::new();
    for operation in OPERATIONS.iter().filter(|operation| !operation.is_of_keys) {
        let deed = |bench: &mut Bench, cell, _| both_ways(bench, cell, operation);
        columns.push((operation.name, Box::new(deed)));
    }
    let mut rows = Vec::new();
    for luks1 in VERSIONS {
        rows.extend([false, true].map(|detached| Cell {
            detached,
            ..Cell::of_version(luks1)
        }));
    }
    assert_eq!((rows.len(), columns.len()), (4, 6));
    product::run(
        "done by one and undone by the other",
        &rows,
        &columns,
        &|_, _| true,
    );
}

pub fn both_ways(bench: &mut Bench, cell: Cell, operation: &Operation) -> Outcome<Word> {
    let subject = &Subject::new(bench, cell)?;
    let (a, b) = (subject.copy(bench)?, subject.copy(bench)?);
    let Operation { done, undone, .. } = operation;
    if cell.is_luks1() && !operation.luks1 {
        a.run(Program::Luxor, done.luxor)?.must_exit(1)?;
        b.run(Program::Cryptsetup, done.cryptsetup)?.must_exit(1)?;
        say_the_same(subject, &a)?;
        say_the_same(subject, &b)?;
        return Ok(Word::Refused);
    }
    a.run(Program::Luxor, done.luxor)?.must_exit(0)?;
    b.run(Program::Cryptsetup, done.cryptsetup)?.must_exit(0)?;
    alike("done", &a, &b, done)?;
    a.run(Program::Cryptsetup, undone.cryptsetup)?
        .must_exit(0)?;
    b.run(Program::Luxor, undone.luxor)?.must_exit(0)?;
    alike("undone", &a, &b, undone)?;
    // The volume key is still the same.
    let key = |of: &Subject| {
        let line = "luksDump --dump-volume-key --volume-key-file KEY --key-file FIRST VOLUME";
        of.run(Program::Cryptsetup, line)?.must_exit(0)?;
        let path = of.folder.join("KEY");
        let key = fs::read(&path).map_err(|e| e.to_string())?;
        fs::remove_file(path).map_err(|e| e.to_string())?;
        Ok::<_, String>(key)
    };
    let before = key(subject)?;
    must(
        key(&a)? == before && key(&b)? == before,
        "the volume key has changed",
    )?;
    Ok(Word::Passed)
}

/// Both subjects have the same metadata and open with the same keys.
fn alike(when: &str, a: &Subject, b: &Subject, step: &Step) -> Outcome<()> {
    say_the_same(a, b).map_err(|error| format!("{when}: {error}"))?;
    for subject in [a, b] {
        subject.run(Program::Luxor, "check VOLUME")?.must_exit(0)?;
        for key in ["FIRST", "SECOND"] {
            let code = if step.opens.contains(&key) { 0 } else { 2 };
            subject
                .run(Program::Luxor, &format!("key test --key-file {key} VOLUME"))?
                .must_exit(code)?;
            subject
                .run(
                    Program::Cryptsetup,
                    &format!("open --test-passphrase --key-file {key} VOLUME"),
                )?
                // If there is no keyslot to try, cryptsetup does not report a wrong key.
                .must_exit(if step.opens.is_empty() { 1 } else { code })?;
        }
    }
    Ok(())
}

/// Fails with the first difference between the metadata of two volumes.
pub fn say_the_same(a: &Subject, b: &Subject) -> Outcome<()> {
    say_the_same_but(a, b, |_| false)
}

/// The same, ignoring lines for which `other` returns true.
pub fn say_the_same_but(a: &Subject, b: &Subject, other: fn(&str) -> bool) -> Outcome<()> {
    let (a, b) = (a.state()?, b.state()?);
    let only = |of: &[String], than: &[String]| {
        let mut lines = of.iter().filter(|line| !other(line));
        lines.find(|line| !than.contains(line)).cloned()
    };
    match (only(&a, &b), only(&b, &a)) {
        (None, None) => Ok(()),
        (of_a, of_b) => Err(format!("the one says {of_a:?}, the other {of_b:?}")),
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Program {
    Luxor,
    Cryptsetup,
}

/// A volume, and the files for its tests.
pub struct Subject {
    cell: Cell,
    pub volume: Volume,
    folder: PathBuf,
}

/// Makes the volume with the first key.
pub const FORMAT: &str = "luksFormat -q NEW --uuid UUID --key-file FIRST VOLUME";

const UUID: &str = "99999999-8888-4777-a666-555555555555";

impl Subject {
    pub fn new(bench: &mut Bench, cell: Cell) -> Outcome<Self> {
        let folder = bench.new_path();
        fs::create_dir(&folder).map_err(|e| e.to_string())?;
        for (name, bytes) in [
            ("FIRST", &b"one key\n"[..]),
            ("SECOND", b"second"),
            ("LONG", b"...second..."),
            (
                "TOKEN",
                br#"{"type":"some/thing","keyslots":["0"],"data":{"b":[1,2.50,null],"a":"\u00e9/"}}"#,
            ),
        ] {
            fs::write(folder.join(name), bytes).map_err(|e| e.to_string())?;
        }
        let subject = Self {
            cell,
            volume: Volume {
                data: folder.join("the volume"),
                header: cell.detached.then(|| folder.join("the header")),
            },
            folder,
        };
        for file in [Some(&subject.volume.data), subject.volume.header.as_ref()] {
            let made = file.map(|path| fs::File::create_new(path)?.set_len(5 << 20));
            made.transpose().map_err(|e| e.to_string())?;
        }
        // With room for eight keyslots, a LUKS2 volume is as quick to copy as a LUKS1 volume.
        let small = match cell.format {
            Format::Luks1 { .. } => "",
            Format::Luks2 { .. } => {
                "--luks2-metadata-size 16k --luks2-keyslots-size 2m --offset 8192"
            }
        };
        subject
            .run(Program::Cryptsetup, &format!("{FORMAT} {small}"))?
            .must_exit(0)?;
        Ok(subject)
    }

    pub fn copy(&self, bench: &mut Bench) -> Outcome<Self> {
        let mut copy = |path: &PathBuf| {
            let to = bench.new_path();
            fs::copy(path, &to).map_err(|e| e.to_string())?;
            Ok::<_, String>(to)
        };
        Ok(Self {
            cell: self.cell,
            volume: Volume {
                data: copy(&self.volume.data)?,
                header: self.volume.header.as_ref().map(copy).transpose()?,
            },
            folder: self.folder.clone(),
        })
    }

    /// The file with the metadata.
    pub fn header(&self) -> &Path {
        self.volume.header()
    }

    /// Whether the volume is LUKS1 at present.
    pub fn is_luks1(&self) -> Outcome<bool> {
        let mut head = [0; 8];
        let file = fs::File::open(self.header()).and_then(|mut file| file.read_exact(&mut head));
        file.map_err(|e| e.to_string())?;
        Ok(head[7] == 1)
    }

    /// Returns the words of `line`, in which words in capital letters are replaced: VOLUME by the
    /// options and the path of the volume, HEADER by the file with the metadata, FIRST and similar
    /// words by files, NEW by the options for a new volume, FAST and OTHER by the cheapest key
    /// derivations.
    pub fn line(&self, line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for word in line.split_whitespace() {
            match word {
                "VOLUME" => {
                    words.extend(self.volume.options());
                    words.push(text(&self.volume.data));
                }
                "HEADER" => words.push(text(self.header())),
                "BACKUP" => words.push(text(&self.header().with_extension("backup"))),
                "FIRST" | "SECOND" | "LONG" | "TOKEN" | "KEY" => {
                    words.push(text(&self.folder.join(word)));
                }
                // Without a number, cryptsetup moves a LUKS1 key to another keyslot. With a number
                // it would overwrite a LUKS2 keyslot in place, and a crash at that moment would
                // lose it.
                "SLOT0" | "SLOT3" if self.cell.is_luks1() => {
                    words.extend(["--key-slot".to_owned(), word[4..].to_owned()]);
                }
                "SLOT0" | "SLOT3" => {}
                "UUID" => words.push(UUID.to_owned()),
                "NEW" => words.extend(self.cell.cryptsetup_options()),
                "FAST" => words.extend(self.cell.pbkdf_options()),
                "OTHER" => words.extend(match self.cell.format {
                    Format::Luks1 { .. } => Pbkdf::Argon2id.options(),
                    Format::Luks2 { pbkdf } => pbkdf.another().options(),
                }),
                _ => words.push(word.to_owned()),
            }
        }
        words
    }

    pub fn run(&self, program: Program, line: &str) -> Outcome<Ran> {
        let mut command = match program {
            Program::Luxor => Command::new(env!("CARGO_BIN_EXE_luxor")),
            Program::Cryptsetup => {
                let mut command = Command::new("cryptsetup");
                command.arg("--batch-mode");
                command
            }
        };
        command.args(self.line(line));
        run(command, None)
    }

    /// Returns the metadata without random values.
    fn state(&self) -> Outcome<Vec<String>> {
        if self.is_luks1()? {
            return luks1_dump(self.header());
        }
        let dump = self.run(Program::Cryptsetup, "luksDump HEADER")?;
        dump.must_exit(0)?;
        let names = ["UUID", "Label", "Subsystem", "Flags"];
        let dump = dump.stdout();
        let lines = dump.lines().map(str::to_owned);
        let mut lines: Vec<_> = lines
            .filter(|line| names.iter().any(|name| line.starts_with(name)))
            .collect();
        flatten("", &metadata(self.header())?, &mut lines);
        lines.sort();
        Ok(lines)
    }
}

/// Adds a line for each value that is not random, with its path.
fn flatten(place: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members.iter().filter(|(key, _)| *key != "salt") {
                flatten(&format!("{place}/{key}"), value, lines);
            }
        }
        // The order of references does not matter.
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let mut items: Vec<_> = items.iter().filter_map(Value::as_str).collect();
            items.sort_unstable();
            lines.push(format!("{place} {items:?}"));
        }
        _ => lines.push(format!("{place} {value}")),
    }
}
