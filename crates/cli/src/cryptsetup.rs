// SPDX-License-Identifier: MIT OR Apache-2.0
//! Translates cryptsetup's command lines into Luxor's, so that scripts still work. The translation
//! works on the words of the command line, before anything is parsed, so that each command has one
//! definition.
//!
//! An action of cryptsetup (`luksAddKey`) becomes a command (`key add`), and an option becomes the
//! option with the same meaning here. An option with no counterpart is refused. It is dropped only
//! if Luxor always does what it asks for. A name that both programs have (`config`, `token`, …) is
//! taken as cryptsetup's if the whole line is valid there, and as Luxor's otherwise.

mod form;
mod others;

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
    os::unix::ffi::OsStrExt,
};

use clap::{Arg, ArgAction, ValueHint};
use luxor::{files::quoted, luks::Encryption};

pub(crate) use self::form::Form;
use self::others::{OTHERS, Other};
use crate::{
    args,
    error::{Error, Result},
};

/// An option of cryptsetup.
struct Known {
    long: &'static str,
    short: Option<u8>,
    has_value: bool,
}

const fn known(long: &'static str, short: Option<u8>, has_value: bool) -> Known {
    Known {
        long,
        short,
        has_value,
    }
}

/// The options of cryptsetup 2.6 that concern LUKS metadata.
const OPTIONS: &[Known] = &[
    known("allow-discards", None, false),
    known("batch-mode", Some(b'q'), false),
    known("cipher", Some(b'c'), true),
    known("debug", None, false),
    known("debug-json", None, false),
    known("disable-external-tokens", None, false),
    known("disable-keyring", None, false),
    known("disable-locks", None, false),
    known("dump-json-metadata", None, false),
    known("dump-master-key", None, false),
    known("dump-volume-key", None, false),
    known("force-password", None, false),
    known("hash", Some(b'h'), true),
    known("header", None, true),
    known("header-backup-file", None, true),
    known("help", Some(b'?'), false),
    known("integrity", Some(b'I'), true),
    known("iter-time", Some(b'i'), true),
    known("json-file", None, true),
    known("key-description", None, true),
    known("key-file", Some(b'd'), true),
    known("key-size", Some(b's'), true),
    known("key-slot", Some(b'S'), true),
    known("keyfile-offset", None, true),
    known("keyfile-size", Some(b'l'), true),
    known("keyslot-cipher", None, true),
    known("keyslot-key-size", None, true),
    known("label", None, true),
    known("luks2-keyslots-size", None, true),
    known("luks2-metadata-size", None, true),
    known("master-key-file", None, true),
    known("new-key-slot", None, true),
    known("new-keyfile", None, true),
    known("new-keyfile-offset", None, true),
    known("new-keyfile-size", None, true),
    known("offset", Some(b'o'), true),
    known("pbkdf", None, true),
    known("pbkdf-force-iterations", None, true),
    known("pbkdf-memory", None, true),
    known("pbkdf-parallel", None, true),
    known("persistent", None, false),
    known("priority", None, true),
    known("progress-frequency", None, true),
    known("progress-json", None, false),
    known("readonly", Some(b'r'), false),
    known("sector-size", None, true),
    known("size", Some(b'b'), true),
    known("skip", Some(b'p'), true),
    known("subsystem", None, true),
    known("test-passphrase", None, false),
    known("timeout", Some(b't'), true),
    known("token-id", None, true),
    known("token-only", None, false),
    known("token-replace", None, false),
    known("token-type", None, true),
    known("tries", Some(b'T'), true),
    known("type", Some(b'M'), true),
    known("unbound", None, false),
    known("use-random", None, false),
    known("use-urandom", None, false),
    known("uuid", None, true),
    known("verbose", Some(b'v'), false),
    known("verify-passphrase", Some(b'y'), false),
    known("volume-key-file", None, true),
];

/// Options for what Luxor does in any case: random numbers come from the system, new passphrases
/// are typed twice and not checked for quality, keys never go to the kernel, and of the tokens only
/// those of the kernel's keyring are used, when a line asks for them.
const SO_ANYWAY: &[&str] = &[
    "disable-external-tokens",
    "disable-keyring",
    "force-password",
    "use-random",
    "use-urandom",
    "verify-passphrase",
];

/// Options of Luxor that its messages recommend, and whether they take values. They are accepted in
/// cryptsetup's lines too.
const RECOMMENDED: &[(&str, bool)] = &[
    ("force", false),
    ("last", false),
    ("new-key-file", true),
    ("new-passphrase-fd", true),
    ("pbkdf-iterations-limit", true),
    ("pbkdf-memory-limit", true),
];

/// Options for opening a volume, for [`Ours::key`].
const KEY: &[&str] = &["key-file", "keyfile-offset", "keyfile-size", "tries"];

/// Options for the cost of a new keyslot.
const PBKDF: &[&str] = &[
    "iter-time",
    "pbkdf",
    "pbkdf-force-iterations",
    "pbkdf-memory",
    "pbkdf-parallel",
];

/// Actions that Luxor supports, under the same or another name.
pub(crate) const ACTIONS: &[&str] = &[
    "config",
    "isLuks",
    "luksAddKey",
    "luksChangeKey",
    "luksConvertKey",
    "luksDump",
    "luksErase",
    "luksFormat",
    "luksHeaderBackup",
    "luksHeaderRestore",
    "luksKillSlot",
    "luksOpen",
    "luksRemoveKey",
    "luksUUID",
    "open",
    "repair",
    "token",
];

/// Actions that are also names of Luxor's commands.
const SHARED: &[&str] = &["config", "token"];

/// Translates `line`, which begins with the program's name, into a command line of Luxor with the
/// same meaning. Returns `None` if `line` is not one of cryptsetup's. `has_terminal` is whether
/// standard input is a terminal: if not, cryptsetup reads passphrases there.
///
/// # Errors
/// Fails when the line is cryptsetup's but asks for something that Luxor does not support.
pub(crate) fn translate(line: &[OsString], has_terminal: bool) -> Result<Option<Vec<OsString>>> {
    let (program, words) = line.split_at(line.len().min(1));
    let Some(line) = Line::parse(words, has_terminal) else {
        return Ok(None);
    };
    match line.translate() {
        // `luxor config --help` and `luxor config --flags none` are Luxor's own commands.
        Err(_) if SHARED.contains(&line.action.as_str()) => Ok(None),
        translated => Ok(Some([program, &translated?].concat())),
    }
}

/// Returns commands with the names and options of cryptsetup's, for the completion of its command
/// lines. It has one list of options for all actions.
pub(crate) fn for_completions() -> impl Iterator<Item = clap::Command> {
    let option = |known: &Known| {
        let option = Arg::new(known.long).long(known.long);
        let option = option.short(known.short.map(char::from));
        match known.long {
            name if name.contains("file") || name == "header" => {
                option.value_hint(ValueHint::FilePath)
            }
            _ if known.has_value => option.value_hint(ValueHint::Other),
            _ => option.action(ArgAction::SetTrue),
        }
    };
    let volume = || {
        Arg::new("volume")
            .value_hint(ValueHint::FilePath)
            .num_args(0..)
    };
    // The general option with cryptsetup's short form of `--batch-mode`.
    let quiet = || Arg::new("quiet").long("quiet").action(ArgAction::SetTrue);
    // Clap adds the general options.
    let own = |known: &&Known| args::general_option(known.long.as_bytes()).is_none();
    let actions = ACTIONS.iter().filter(|action| !SHARED.contains(action));
    actions.map(move |&action| {
        clap::Command::new(action)
            .about("As in cryptsetup")
            .disable_help_flag(true)
            .args(OPTIONS.iter().filter(own).map(option))
            .args([volume(), quiet()])
    })
}

/// A parsed command line of cryptsetup.
#[derive(Debug)]
struct Line {
    action: String,
    /// The words after the action that are not options.
    operands: Vec<OsString>,
    /// The options by their long names. If one is repeated, the last one counts.
    options: BTreeMap<&'static str, Option<OsString>>,
    /// General options of Luxor, unchanged.
    general: Vec<OsString>,
    /// Whether standard input is a terminal.
    has_terminal: bool,
    /// The first word that is not an option of either program, or that lacks its value.
    bad: Option<OsString>,
}

impl Line {
    /// Returns `None` if the first word that is not an option is not an action of cryptsetup.
    fn parse(words: &[OsString], has_terminal: bool) -> Option<Self> {
        let mut line = Self {
            action: String::new(),
            operands: Vec::new(),
            options: BTreeMap::new(),
            general: Vec::new(),
            has_terminal,
            bad: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let bytes = word.as_bytes();
            if bytes == b"--" {
                line.operands.extend(words.by_ref().cloned());
            } else if let Some(long) = bytes.strip_prefix(b"--") {
                line.long(word, long, &mut words);
            } else if bytes.len() > 1 && bytes[0] == b'-' {
                line.short(word, &bytes[1..], &mut words);
            } else {
                line.operands.push(word.clone());
            }
        }
        if line.operands.is_empty() {
            return None;
        }
        line.action = line.operands.remove(0).into_string().ok()?;
        let is_known = ACTIONS.contains(&line.action.as_str()) || line.other().is_some();
        is_known.then_some(line)
    }

    /// The action, if it has no counterpart.
    fn other(&self) -> Option<&'static Other> {
        let mut others = OTHERS.iter();
        others.find(|other| other.names.contains(&self.action.as_str()))
    }

    fn long<'a>(
        &mut self,
        word: &OsString,
        long: &[u8],
        words: &mut impl Iterator<Item = &'a OsString>,
    ) {
        let mut parts = long.splitn(2, |&byte| byte == b'=');
        let name = parts.next().unwrap_or_default();
        let inline = parts
            .next()
            .map(|value| OsStr::from_bytes(value).to_owned());
        let known = OPTIONS.iter().find(|known| known.long.as_bytes() == name);
        if let Some(known) = known {
            match (known.has_value, inline) {
                (true, Some(value)) => self.option(known, Some(value)),
                (true, None) => self.valued(word, known, words.next()),
                (false, None) => self.option(known, None),
                (false, Some(_)) => self.bad(word),
            }
            return;
        }
        let recommended = RECOMMENDED.iter();
        let recommended = recommended.filter(|(ours, _)| ours.as_bytes() == name);
        let mut recommended = recommended.map(|&(_, has_value)| has_value);
        let Some(has_value) = args::general_option(name).or_else(|| recommended.next()) else {
            self.bad(word);
            return;
        };
        self.general.push(word.clone());
        if has_value && inline.is_none() {
            self.general.extend(words.next().cloned());
        }
    }

    /// Parses one or several short options in a word.
    fn short<'a>(
        &mut self,
        word: &OsString,
        letters: &[u8],
        words: &mut impl Iterator<Item = &'a OsString>,
    ) {
        for (index, &letter) in letters.iter().enumerate() {
            let Some(known) = OPTIONS.iter().find(|known| known.short == Some(letter)) else {
                self.bad(word);
                return;
            };
            if !known.has_value {
                self.option(known, None);
                continue;
            }
            match &letters[index + 1..] {
                [] => self.valued(word, known, words.next()),
                rest => self.option(known, Some(OsStr::from_bytes(rest).to_owned())),
            }
            return;
        }
    }

    fn valued(&mut self, word: &OsStr, known: &Known, value: Option<&OsString>) {
        match value {
            Some(value) => self.option(known, Some(value.clone())),
            None => self.bad(word),
        }
    }

    fn option(&mut self, known: &Known, value: Option<OsString>) {
        self.options.insert(known.long, value);
    }

    fn bad(&mut self, word: &OsStr) {
        self.bad.get_or_insert_with(|| word.to_owned());
    }

    fn value(&self, option: &str) -> Option<&OsStr> {
        self.options.get(option)?.as_deref()
    }

    fn has(&self, option: &str) -> bool {
        self.options.contains_key(option)
    }

    /// Translates the line.
    fn translate(&self) -> Result<Vec<OsString>> {
        let action = self.action.as_str();
        if let Some(other) = self.other() {
            return Err(self.error(other.why).hint(other.instead));
        }
        // Before its other options, which may be those of a plain volume.
        let opens = ["open", "luksOpen"].contains(&action);
        if opens && !self.has("test-passphrase") && !self.has("help") {
            let kind = self.value("type").and_then(OsStr::to_str);
            let (why, instead) = others::instead_of_open(kind, self.has("header"));
            return Err(self.error(why).hint(instead));
        }
        if let Some(word) = &self.bad {
            return Err(self.error(format!(
                "Luxor has no counterpart of the option {}, or its value is missing",
                quoted(word)
            )));
        }
        match action {
            "open" | "luksOpen" => self.open(),
            "isLuks" => Ours::new(self, "is-luks").same(&["type"]).finish(1),
            "luksUUID" if self.has("uuid") => Ours::new(self, "config").same(&["uuid"]).finish(1),
            "luksUUID" => Ours::new(self, "uuid").finish(1),
            "luksDump" => self.dump(),
            "luksFormat" => self.format(),
            "luksAddKey" => self.add_key(),
            "luksChangeKey" => Ours::new(self, "key change")
                .key(KEY)
                .same(PBKDF)
                .same(&["key-slot"])
                .hash()?
                .new_key()
                .finish(1),
            "luksConvertKey" => Ours::new(self, "key convert")
                .operand_is("key-file")
                .key(KEY)
                .same(PBKDF)
                .same(&["key-slot"])
                .hash()?
                .finish(1),
            "luksRemoveKey" => Ours::new(self, "key remove")
                .operand_is("key-file")
                .key(KEY)
                .confirmed(&["--last"])
                .finish(1),
            "luksKillSlot" => self.kill_slot(),
            "config" => Ours::new(self, "config")
                .same(&["key-slot", "label", "priority", "subsystem"])
                .finish(1),
            "token" => self.token(),
            "luksHeaderBackup" => self.header("header backup", &[]),
            "luksHeaderRestore" => self.header("header restore", &["--batch-mode"]),
            "repair" => Ours::new(self, "header repair").finish(1),
            "luksErase" => Ours::new(self, "erase")
                .confirmed(&["--batch-mode"])
                .finish(1),
            _ => unreachable!("`parse` returns only actions of the two tables"),
        }
    }

    fn open(&self) -> Result<Vec<OsString>> {
        let mut ours = Ours::new(self, "key test")
            .key(KEY)
            .same(&["key-slot"])
            .ignored(&["readonly", "test-passphrase"]);
        // The second operand names the mapped device, which Luxor does not make.
        ours.operands.truncate(1);
        ours.finish(1)
    }

    fn dump(&self) -> Result<Vec<OsString>> {
        let mut ours = Ours::new(self, "dump")
            .renamed("dump-json-metadata", "--json")
            .renamed("dump-volume-key", "--volume-key")
            .renamed("dump-master-key", "--volume-key")
            .volume_key();
        if self.has("dump-volume-key") || self.has("dump-master-key") {
            ours = ours
                .key(KEY)
                .same(&["key-slot"])
                .confirmed(&["--batch-mode"]);
        }
        ours.finish(1)
    }

    fn format(&self) -> Result<Vec<OsString>> {
        if let Some(cipher) = self.value("cipher")
            && cipher.to_str().and_then(Encryption::by_name) != Some(Encryption::AesXtsPlain64)
        {
            return Err(self.error(format!(
                "--cipher is {}, and Luxor creates only aes-xts-plain64",
                quoted(cipher)
            )));
        }
        let ours = Ours::new(self, "format")
            .operand_is("key-file")
            .volume_key()
            .same(&["key-file", "keyfile-offset", "keyfile-size"])
            .or_line_of_stdin("--key-file", "--passphrase-fd")
            .same(PBKDF)
            .same(&[
                "hash",
                "key-size",
                "key-slot",
                "label",
                "offset",
                "sector-size",
            ])
            .same(&[
                "luks2-keyslots-size",
                "luks2-metadata-size",
                "subsystem",
                "uuid",
            ])
            // A new passphrase cannot be wrong, so there is nothing to try again.
            .ignored(&["cipher", "tries"])
            .confirmed(&["--force"])
            .asking("--force", "--ask");
        match self.value("type").and_then(OsStr::to_str) {
            Some("luks") => ours.ignored(&["type"]),
            _ => ours.same(&["type"]),
        }
        .finish(1)
    }

    fn add_key(&self) -> Result<Vec<OsString>> {
        let mut ours = Ours::new(self, "key add").volume_key().same(PBKDF).same(&[
            "key-size",
            "token-id",
            "token-only",
            "unbound",
        ]);
        if !self.has("token-only") && !self.has("unbound") {
            ours = ours.key(KEY);
        }
        let ours = ours.hash()?.new_key();
        // In older versions, `--key-slot` alone is the keyslot of the new key.
        if self.has("new-key-slot") {
            ours.same(&["key-slot", "new-key-slot"])
        } else {
            ours.renamed("key-slot", "--new-key-slot")
        }
        .finish(1)
    }

    fn kill_slot(&self) -> Result<Vec<OsString>> {
        let mut ours = Ours::new(self, "key remove");
        if ours.operands.len() == 2 {
            let number = ours.operands.remove(1);
            ours.push("--key-slot", &number);
        } else if !self.has("help") {
            return Err(self.error("a volume and a keyslot number are missing"));
        }
        // A key that is given must open another keyslot, even in batch mode. In batch mode a key is
        // not required.
        let confirmed: &[_] = match self.value("key-file") {
            Some(file) if file != "-" => &["--last"],
            _ if self.general.iter().any(|word| word == "--force") => &["--last"],
            _ => &["--if-given", "--last"],
        };
        ours.key(KEY).confirmed(confirmed).finish(1)
    }

    fn token(&self) -> Result<Vec<OsString>> {
        let what = self.operands.first().and_then(|word| word.to_str());
        let ours = match what {
            Some("add") => Ours::new(self, "token add").same(&["key-description", "unbound"]),
            Some("import") if self.has("json-file") => {
                Ours::new(self, "token add").same(&["json-file"])
            }
            // Without a file cryptsetup reads standard input.
            Some("import") => {
                let mut ours = Ours::new(self, "token add");
                ours.push("--json-file", OsStr::new("-"));
                ours
            }
            Some("export") => {
                let mut ours = Ours::new(self, "token list").same(&["json-file"]);
                ours.words.push("--json".into());
                ours
            }
            Some("remove") => Ours::new(self, "token remove"),
            _ => return Err(self.error("the action must be add, import, export or remove")),
        };
        let mut ours = match what {
            Some("add" | "import") => ours.same(&["key-slot", "token-replace"]),
            _ => ours,
        };
        ours.operands.remove(0);
        if what == Some("export") && !self.has("token-id") {
            return Err(self.error("export needs --token-id"));
        }
        ours.same(&["token-id"]).finish(1)
    }

    fn header(&self, command: &'static str, confirmed: &[&'static str]) -> Result<Vec<OsString>> {
        let mut ours = Ours::new(self, command)
            .ignored(&["header-backup-file"])
            .confirmed(confirmed);
        match self.value("header-backup-file") {
            Some(file) => ours.operands.push(file.to_owned()),
            None if self.has("help") => {}
            None => return Err(self.error("--header-backup-file is missing")),
        }
        ours.finish(2)
    }

    fn error(&self, message: impl fmt::Display) -> Error {
        Error::failure(format!("{}: {message}", self.action))
    }
}

/// A command line of Luxor under construction.
struct Ours<'a> {
    line: &'a Line,
    command: &'static str,
    words: Vec<OsString>,
    operands: Vec<OsString>,
    /// The options that have been translated or may be ignored.
    done: Vec<&'static str>,
}

impl<'a> Ours<'a> {
    fn new(line: &'a Line, command: &'static str) -> Self {
        let mut ours = Self {
            line,
            command,
            words: line.general.clone(),
            operands: line.operands.clone(),
            done: SO_ANYWAY.to_vec(),
        };
        if ["debug", "debug-json", "verbose"]
            .iter()
            .any(|name| line.has(name))
        {
            ours.words.push("--verbose".into());
        }
        if command == "key remove" {
            // cryptsetup asks only about the last keyslot, which Luxor removes only with `--last`.
            ours.words.push("--batch-mode".into());
        }
        // `confirmed` handles `batch-mode`.
        let ours = ours
            .ignored(&["batch-mode", "debug", "debug-json", "help", "verbose"])
            .same(&["header", "progress-json"]);
        match command {
            // Commands that only read work without a lock.
            "dump" | "is-luks" | "uuid" => ours.ignored(&["disable-locks"]),
            _ => ours.same(&["disable-locks"]),
        }
    }

    /// Copies options that have the same name and meaning in Luxor.
    fn same(mut self, names: &[&'static str]) -> Self {
        for name in names {
            // cryptsetup reads the whole file then, as without the option.
            let is_default =
                name.ends_with("keyfile-size") && self.line.value(name) == Some("0".as_ref());
            self = if is_default {
                self.ignored(&[name])
            } else {
                self.renamed(name, &format!("--{name}"))
            };
        }
        self
    }

    /// Copies `options` for the key that opens the volume. Without a key file, cryptsetup reads the
    /// passphrase from standard input unless that is a terminal.
    fn key(self, options: &[&'static str]) -> Self {
        let ours = self.same(options);
        if ours.has("--volume-key-file") {
            return ours;
        }
        ours.or_line_of_stdin("--key-file", "--passphrase-fd")
    }

    fn volume_key(self) -> Self {
        self.renamed("volume-key-file", "--volume-key-file")
            .renamed("master-key-file", "--volume-key-file")
    }

    /// Whether one of the words is this option.
    fn has(&self, option: &str) -> bool {
        let begins = |word: &OsString| word.as_bytes().starts_with(option.as_bytes());
        self.words.iter().any(begins)
    }

    fn or_line_of_stdin(mut self, key_file: &str, descriptor: &str) -> Self {
        if !self.line.has_terminal && !self.has(key_file) && !self.has(descriptor) {
            self.push(descriptor, OsStr::new("0"));
        }
        self
    }

    fn renamed(mut self, name: &'static str, ours: &str) -> Self {
        match self.line.options.get(name) {
            Some(Some(value)) => self.push(ours, value),
            Some(None) => self.words.push(ours.into()),
            None => {}
        }
        self.ignored(&[name])
    }

    fn push(&mut self, option: &str, value: &OsStr) {
        let mut word = OsString::from(option);
        word.push("=");
        word.push(value);
        self.words.push(word);
    }

    fn ignored(mut self, names: &[&'static str]) -> Self {
        self.done.extend(names);
        self
    }

    /// In batch mode adds `words`, which skip the questions that cryptsetup answers itself.
    fn confirmed(mut self, words: &[&'static str]) -> Self {
        if self.line.has("batch-mode") {
            let given = &self.line.general;
            let words = words.iter().map(OsString::from);
            self.words
                .extend(words.filter(|word| !given.contains(word)));
        }
        self
    }

    /// Without the word `confirmed`, adds `ask` if there is a terminal: cryptsetup asks there.
    fn asking(mut self, confirmed: &str, ask: &str) -> Self {
        if self.line.has_terminal && !self.has(confirmed) {
            self.words.push(ask.into());
        }
        self
    }

    /// Takes the second operand as the value of `option`. If both are given, the option counts.
    fn operand_is(mut self, option: &str) -> Self {
        if self.operands.len() == 2 {
            let value = self.operands.remove(1);
            if !self.line.has(option) {
                let ours = match option {
                    "new-keyfile" => "--new-key-file",
                    _ => "--key-file",
                };
                self.push(ours, &value);
            }
        }
        self
    }

    /// Translates `--type` for an existing volume.
    fn of_type(self) -> Result<Self> {
        match self.line.value("type").map(OsStr::to_str) {
            None | Some(Some("luks")) => Ok(self.ignored(&["type"])),
            Some(Some("luks1" | "luks2")) => Ok(self.renamed("type", "--require-type")),
            Some(other) => Err(self.line.error(format!(
                "--type is {}, which is not a LUKS type",
                quoted(other.unwrap_or("not text"))
            ))),
        }
    }

    fn new_key(self) -> Self {
        self.operand_is("new-keyfile")
            .renamed("new-keyfile", "--new-key-file")
            .same(&["new-keyfile-offset", "new-keyfile-size"])
            .or_line_of_stdin("--new-key-file", "--new-passphrase-fd")
    }

    /// Accepts `--hash` only with the hash that Luxor uses.
    fn hash(self) -> Result<Self> {
        match self.line.value("hash") {
            Some(hash) if hash != "sha256" => Err(self.line.error(format!(
                "--hash is {}, and Luxor creates keyslots with sha256",
                quoted(hash)
            ))),
            _ => Ok(self.ignored(&["hash"])),
        }
    }

    /// Returns the words of the command, which must have exactly this many operands.
    fn finish(mut self, operands: usize) -> Result<Vec<OsString>> {
        if !self.done.contains(&"type") {
            self = self.of_type()?;
        }
        let line = self.line;
        let command = self.command.split(' ').map(OsString::from);
        if line.has("help") {
            return Ok(command.chain(["--help".into()]).collect());
        }
        if let Some(other) = line.options.keys().find(|name| !self.done.contains(name)) {
            return Err(line.error(format!("Luxor has no counterpart of --{other} here")));
        }
        match self.operands.len() {
            found if found < operands => Err(line.error("the volume is missing")),
            found if found > operands => Err(line.error(format!(
                "unexpected argument {}",
                quoted(&self.operands[operands])
            ))),
            _ => {
                // `--` keeps operands that begin with `-` from being taken as options.
                self.words.push("--".into());
                Ok(command.chain(self.words).chain(self.operands).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests;
