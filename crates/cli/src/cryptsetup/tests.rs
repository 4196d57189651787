// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

#[track_caller]
fn becomes(line: &str, expected: &str) {
    let translated = translate(&words(line), true).unwrap_or_else(|e| panic!("{line}: {e}"));
    let translated = translated.unwrap_or_else(|| panic!("{line}: not cryptsetup's"));
    assert_eq!(translated, words(expected), "{line}");
    // The translation must be a valid command line of Luxor.
    if let Err(error) = crate::commands::parse(translated) {
        assert!(!error.use_stderr(), "{line}: {error}");
    }
}

#[test]
fn actions_become_commands() {
    for (line, expected) in [
        ("luxor luksDump v", "luxor dump -- v"),
        (
            "luxor luksDump --dump-json-metadata v",
            "luxor dump --json -- v",
        ),
        ("luxor repair v", "luxor header repair -- v"),
        ("luxor luksErase v", "luxor erase -- v"),
        ("luxor luksErase -q v", "luxor erase --batch-mode -- v"),
        (
            "luxor luksFormat -q v k --type luks1 -c aes-xts-plain64 -s 256 -h sha1 -i 9",
            "luxor format --key-file=k --iter-time=9 --hash=sha1 --key-size=256 --force \
             --type=luks1 -- v",
        ),
        (
            "luxor luksFormat --type luks --label x v -d k",
            "luxor format --key-file=k --label=x --ask -- v",
        ),
        (
            "luxor luksFormat --luks2-metadata-size 16k --luks2-keyslots-size=512k v",
            "luxor format --luks2-keyslots-size=512k --luks2-metadata-size=16k --ask -- v",
        ),
        (
            "luxor luksFormat -q -S 3 --offset 8192 --subsystem x v",
            "luxor format --key-slot=3 --offset=8192 --subsystem=x --force -- v",
        ),
        (
            "luxor luksFormat -T 3 --force v",
            "luxor format --force -- v",
        ),
        (
            "luxor luksRemoveKey -q --last v --pbkdf-memory-limit 5",
            "luxor key remove --last --pbkdf-memory-limit 5 --batch-mode -- v",
        ),
        ("luxor isLuks v", "luxor is-luks -- v"),
        (
            "luxor isLuks --type luks2 v",
            "luxor is-luks --type=luks2 -- v",
        ),
        ("luxor luksUUID v", "luxor uuid -- v"),
        ("luxor luksUUID --uuid X v -q", "luxor config --uuid=X -- v"),
        ("luxor luksAddKey v", "luxor key add -- v"),
        (
            "luxor luksAddKey v new",
            "luxor key add --new-key-file=new -- v",
        ),
        (
            "luxor luksAddKey -q v new -d old -l 9 --new-keyfile-size=8",
            "luxor key add --key-file=old --keyfile-size=9 --new-key-file=new \
             --new-keyfile-size=8 -- v",
        ),
        (
            "luxor luksAddKey -q v new -d old -l 0 --new-keyfile-size=0",
            "luxor key add --key-file=old --new-key-file=new -- v",
        ),
        (
            "luxor luksAddKey --unbound -s 256 -S 3 v new",
            "luxor key add --key-size=256 --unbound --new-key-file=new --new-key-slot=3 -- v",
        ),
        (
            "luxor luksAddKey --token-only --token-id 2 v new",
            "luxor key add --token-id=2 --token-only --new-key-file=new -- v",
        ),
        (
            "luxor luksAddKey v a --new-keyfile b",
            "luxor key add --new-key-file=b -- v",
        ),
        (
            "luxor luksAddKey v -S 3",
            "luxor key add --new-key-slot=3 -- v",
        ),
        (
            "luxor luksAddKey v -S3 --new-key-slot 4",
            "luxor key add --key-slot=3 --new-key-slot=4 -- v",
        ),
        (
            "luxor luksChangeKey v new --key-slot 1 --pbkdf pbkdf2 -i 50",
            "luxor key change --iter-time=50 --pbkdf=pbkdf2 --key-slot=1 --new-key-file=new \
             -- v",
        ),
        (
            "luxor luksConvertKey v k --hash sha256",
            "luxor key convert --key-file=k -- v",
        ),
        (
            "luxor luksRemoveKey v",
            "luxor key remove --batch-mode -- v",
        ),
        (
            "luxor luksRemoveKey v k",
            "luxor key remove --batch-mode --key-file=k -- v",
        ),
        (
            "luxor luksRemoveKey -q v",
            "luxor key remove --batch-mode --last -- v",
        ),
        (
            "luxor luksKillSlot v 3",
            "luxor key remove --batch-mode --key-slot=3 -- v",
        ),
        (
            "luxor --batch-mode luksKillSlot v 3",
            "luxor key remove --batch-mode --key-slot=3 --if-given --last -- v",
        ),
        (
            "luxor luksKillSlot -q --force v 3",
            "luxor key remove --force --batch-mode --key-slot=3 --last -- v",
        ),
        (
            "luxor open --test-passphrase v name -r --type luks",
            "luxor key test -- v",
        ),
        (
            "luxor luksOpen v --test-passphrase -T 1",
            "luxor key test --tries=1 -- v",
        ),
        (
            "luxor token add --key-description x --unbound v",
            "luxor token add --key-description=x --unbound -- v",
        ),
        ("luxor token import v", "luxor token add --json-file=- -- v"),
        (
            "luxor token import --json-file f --token-id 2 --token-replace v",
            "luxor token add --json-file=f --token-replace --token-id=2 -- v",
        ),
        (
            "luxor token export --token-id 2 v",
            "luxor token list --json --token-id=2 -- v",
        ),
        (
            "luxor token remove --token-id 2 v",
            "luxor token remove --token-id=2 -- v",
        ),
        ("luxor config --label= v", "luxor config --label= -- v"),
        (
            "luxor luksHeaderBackup v --header-backup-file b",
            "luxor header backup -- v b",
        ),
        (
            "luxor luksHeaderRestore -q --header-backup-file=b v",
            "luxor header restore --batch-mode -- v b",
        ),
        (
            "luxor -q luksDump --dump-volume-key -d k -S 1 --volume-key-file f v",
            "luxor dump --volume-key --volume-key-file=f --key-file=k --key-slot=1 --batch-mode \
             -- v",
        ),
        (
            "luxor luksDump --dump-master-key --type luks1 v",
            "luxor dump --volume-key --require-type=luks1 -- v",
        ),
    ] {
        becomes(line, expected);
    }
}

#[test]
fn options_are_read_as_cryptsetup_reads_them() {
    for (line, expected) in [
        (
            "luxor -qvS2 open --test-passphrase v",
            "luxor key test --verbose --key-slot=2 -- v",
        ),
        ("luxor luksUUID -- -v", "luxor uuid -- -v"),
        ("luxor luksUUID --header h v", "luxor uuid --header=h -- v"),
        // If an option is repeated, the last one counts.
        (
            "luxor luksRemoveKey -d a -d b v",
            "luxor key remove --batch-mode --key-file=b -- v",
        ),
        // Luxor does these in any case.
        (
            "luxor luksAddKey -y --use-urandom --force-password v",
            "luxor key add -- v",
        ),
        // General options of Luxor.
        (
            "luxor --disable-locks luksRemoveKey --engine=auto v",
            "luxor key remove --engine=auto --batch-mode --disable-locks -- v",
        ),
        (
            "luxor luksHeaderBackup --disable-locks v --header-backup-file b",
            "luxor header backup --disable-locks -- v b",
        ),
        // Commands that only read do not need this option.
        ("luxor luksDump --disable-locks v", "luxor dump -- v"),
        ("luxor --disable-locks luksUUID v", "luxor uuid -- v"),
        ("luxor isLuks v --disable-locks", "luxor is-luks -- v"),
        (
            "luxor luksUUID --disable-locks --uuid X v",
            "luxor config --disable-locks --uuid=X -- v",
        ),
        (
            "luxor open --test-passphrase --disable-locks v",
            "luxor key test --disable-locks -- v",
        ),
        ("luxor luksAddKey -?", "luxor key add --help"),
    ] {
        becomes(line, expected);
    }
}

#[test]
fn other_command_lines_are_not_translated() {
    for line in [
        "luxor",
        "luxor --help",
        "luxor dump v",
        "luxor key add v",
        "luxor encrypt --label luksDump a b",
        "luxor config --flags none v",
        "luxor config --help-me v",
        "luxor token list v",
        "luxor config -h",
        "luxor erase -q v",
        "luxor reencrypt v",
    ] {
        assert_eq!(translate(&words(line), true).unwrap(), None, "{line}");
    }
    assert_eq!(translate(&[], true).unwrap(), None);
}

#[test]
fn unsupported_actions_and_options_are_refused() {
    for (line, word) in [
        ("luxor close v", "luxor umount"),
        ("luxor open v", "luxor mount --files VOLUME DIR"),
        ("luxor open v name", "luxor serve --socket"),
        ("luxor open v", "luxor mount VOLUME DIR"),
        (
            "luxor open --type plain v name",
            "luxor mount --type plain --key-file KEY VOLUME DIR",
        ),
        (
            "luxor open --type plain --skip 8 -o 8 v name",
            "luxor mount --type plain",
        ),
        (
            "luxor open --header h v name",
            "luxor serve --socket SOCKET --header FILE VOLUME",
        ),
        (
            "luxor open --type bitlk v name",
            "does not know this format",
        ),
        ("luxor plainOpen v name", "luxor mount --type plain"),
        ("luxor tcryptDump v", "luxor decrypt"),
        ("luxor bitlkDump v", "does not know this format"),
        ("luxor luksOpen v name", "creates no devices"),
        ("luxor luksAddKey --timeout 5 v", "--timeout"),
        ("luxor luksAddKey --hash sha1 v", "sha1"),
        ("luxor luksAddKey --nonsense v", "--nonsense"),
        ("luxor luksAddKey v -d", "-d"),
        ("luxor luksAddKey v --key-file", "--key-file"),
        ("luxor luksDump --batch-mode=yes v", "--batch-mode"),
        ("luxor luksAddKey", "the volume is missing"),
        ("luxor luksAddKey a b c", "unexpected argument"),
        ("luxor luksUUID a b", "unexpected argument"),
        ("luxor luksKillSlot v", "a keyslot number"),
        ("luxor luksFormat -c serpent-xts-plain64 v", "serpent"),
        ("luxor luksFormat --integrity x v", "--integrity"),
        ("luxor luksHeaderBackup v", "--header-backup-file"),
        ("luxor luksDump --type plain v", "plain"),
    ] {
        let error = translate(&words(line), true).expect_err(line);
        let text = format!("{error}\n{}", error.hint_text().unwrap_or_default());
        assert!(text.contains(word), "{line}: {text}");
    }
}

#[test]
fn the_tables_are_sorted_and_consistent() {
    assert!(OPTIONS.is_sorted_by_key(|known| known.long));
    assert!(ACTIONS.is_sorted());
    assert!(OTHERS.iter().all(|other| other.names.is_sorted()));
    let names = |names: &[&str]| {
        names
            .iter()
            .all(|name| OPTIONS.iter().any(|k| k.long == *name))
    };
    assert!(names(SO_ANYWAY) && names(KEY) && names(PBKDF));
    assert!(SHARED.iter().all(|action| ACTIONS.contains(action)));
}

/// cryptsetup reads passphrases from standard input if that is not a terminal.
#[test]
fn passphrases_may_be_lines_of_standard_input() {
    for (line, expected) in [
        ("luxor luksDump v", "luxor dump -- v"),
        ("luxor luksFormat v", "luxor format --passphrase-fd=0 -- v"),
        ("luxor luksFormat v k", "luxor format --key-file=k -- v"),
        (
            "luxor luksAddKey v",
            "luxor key add --passphrase-fd=0 --new-passphrase-fd=0 -- v",
        ),
        (
            "luxor luksAddKey --key-file k v",
            "luxor key add --key-file=k --new-passphrase-fd=0 -- v",
        ),
        (
            "luxor luksAddKey v new --passphrase-fd 3",
            "luxor key add --passphrase-fd 3 --new-key-file=new -- v",
        ),
        (
            "luxor luksAddKey --volume-key-file vk v",
            "luxor key add --volume-key-file=vk --new-passphrase-fd=0 -- v",
        ),
        (
            "luxor luksFormat --master-key-file vk v",
            "luxor format --volume-key-file=vk --passphrase-fd=0 -- v",
        ),
        (
            "luxor luksKillSlot -q v 1",
            "luxor key remove --batch-mode --key-slot=1 --passphrase-fd=0 --if-given --last -- v",
        ),
    ] {
        let translated = translate(&words(line), false).unwrap().unwrap();
        assert_eq!(translated, words(expected), "{line}");
        assert!(crate::commands::parse(translated).is_ok(), "{line}");
    }
}

#[test]
fn advice_fits_the_form_of_the_command() {
    for (line, advice, own) in [
        (
            "luxor luksFormat -q v k",
            "To create a new file, add --size SIZE.",
            Some("luxor format --key-file=k --force v --size SIZE"),
        ),
        ("luxor luksFormat -q v k", "Use --type luks2.", None),
        ("luxor luksFormat v k", "(--force replaces it)", None),
        (
            "luxor luksAddKey v k",
            "To try it too, add --key-slot 0.",
            Some("luxor key add --new-key-file=k v --key-slot 0"),
        ),
        ("luxor luksAddKey v k", "add --key-file FILE.", None),
        (
            "luxor luksAddKey v k",
            "give --passphrase-fd 0 in place of --key-file -",
            None,
        ),
        (
            "luxor luksOpen --test-passphrase -d k v",
            "use --allow-weak-key.",
            Some("luxor key test --key-file=k v --allow-weak-key"),
        ),
        (
            "luxor luksAddKey -S 1 --new-key-slot 2 v",
            "add --key-slot 0.",
            None,
        ),
        (
            "luxor luksOpen --test-passphrase v",
            "add --key-slot 0.",
            None,
        ),
        ("luxor config --label x v", "add --force.", None),
        ("luxor luksDump v", "See `luxor dump --json v`.", None),
        (
            "luxor luksUUID -- -v",
            "Or: --json.",
            Some("luxor uuid ./-v --json"),
        ),
        (
            "luxor luksHeaderBackup --header-backup-file a'b v",
            "--size",
            Some("luxor header backup v 'a'\\''b' --size"),
        ),
    ] {
        let line = words(line);
        let translated = translate(&line, true).unwrap().unwrap();
        let form = Form {
            line: &line,
            translated: &translated,
            has_terminal: true,
        };
        let sentence = form.own_for(advice);
        let shown = sentence.as_deref().and_then(|text| text.split('`').nth(1));
        assert_eq!(shown, own, "{line:?}: {sentence:?}");
    }
}

/// Numbers that look random, the same at each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 33) as usize % end
    }

    fn value(&mut self) -> OsString {
        const VALUES: [&str; 25] = [
            "",
            "-",
            "--",
            "v",
            "k",
            "-v",
            "--force",
            "0",
            "7",
            "-1",
            "a=b",
            "luks1",
            "luks2",
            "argon2id",
            "prefer",
            "sha256",
            "aes-xts-plain64",
            "512",
            "18446744073709551616",
            "1e9",
            "0x10",
            "é\n\u{1b}[31m",
            "../x",
            "import",
            "add",
        ];
        match self.below(VALUES.len() + 2) {
            0 => OsStr::from_bytes(b"\xff\x80v").to_owned(),
            1 => "x".repeat(100_000).into(),
            index => VALUES[index - 2].into(),
        }
    }

    fn word(&mut self) -> OsString {
        let known = &OPTIONS[self.below(OPTIONS.len())];
        let mut word = OsString::from("--");
        match self.below(8) {
            0 => return self.value(),
            1 => return format!("-{}", char::from(known.short.unwrap_or(b'x'))).into(),
            2 => word.push(RECOMMENDED[self.below(RECOMMENDED.len())].0),
            3 => word.push(["threads", "quiet", "engine", "nothing"][self.below(4)]),
            _ => word.push(known.long),
        }
        if self.below(2) == 0 {
            word.push("=");
            word.push(self.value());
        }
        word
    }
}

/// Lines of any options and values: each is translated, refused in a few words, or Luxor's own. No
/// operand becomes an option. `LUXOR_TEST_LONG` tries 1,000,000 lines.
#[test]
fn any_line_is_translated_or_refused() {
    let is_long = std::env::var_os("LUXOR_TEST_LONG").is_some();
    let others = OTHERS.iter().flat_map(|other| other.names);
    let actions: Vec<&str> = ACTIONS.iter().chain(others).copied().collect();
    let mut dice = Dice(1);
    let mut counts = [0; 4];
    for _ in 0..if is_long { 1_000_000 } else { 5_000 } {
        let mut line = vec![OsString::from("luxor")];
        // Mostly one that Luxor translates: those come first.
        let known = [ACTIONS.len(), actions.len()][usize::from(dice.below(9) == 0)];
        line.push(actions[dice.below(known)].into());
        for _ in 0..dice.below(6) {
            let is_value = dice.below(3) == 0;
            line.push(if is_value { dice.value() } else { dice.word() });
        }
        let translated = match translate(&line, dice.below(2) == 0) {
            Ok(Some(translated)) => translated,
            Ok(None) => {
                counts[0] += 1;
                continue;
            }
            Err(error) => {
                counts[1] += 1;
                let lines = crate::error::lines(&error).expect("a message");
                assert!(lines.len() < 2000, "{line:?}: {} bytes", lines.len());
                assert_eq!(crate::error::exit_code(&error), 1);
                assert!(!lines.contains('\u{1b}'), "{lines:?}");
                continue;
            }
        };
        let end = translated.iter().rposition(|word| word == "--");
        let is_help = translated.last().is_some_and(|word| word == "--help");
        assert!(end.is_some() || is_help, "{line:?}: {translated:?}");
        let operands = end.map_or(&[][..], |end| &translated[end + 1..]);
        // Some values of options become operands.
        let value = |word: &OsString| {
            Some(
                word.as_bytes()
                    .splitn(2, |&byte| byte == b'=')
                    .nth(1)?
                    .to_owned(),
            )
        };
        let values: Vec<_> = line.iter().filter_map(value).collect();
        let is_given = |word: &OsString| {
            line.contains(word) || values.iter().any(|value| value == word.as_bytes())
        };
        assert!(operands.iter().all(is_given), "{line:?}: {translated:?}");
        let parsed = crate::commands::parse(&translated);
        counts[2 + usize::from(parsed.is_ok())] += 1;
    }
    // Each outcome is reached.
    assert!(counts.iter().all(|&count| count > 20), "{counts:?}");
}
