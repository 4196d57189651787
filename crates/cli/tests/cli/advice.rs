// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice is executable: what a message tells the user to do is taken out of the message, done as it is
//! printed, and leads to what it promises.
//!
//! The messages are found in the sources: every text with an option, or with a command, which stands
//! between backticks. A text that is not in [`table`] fails the test, and so does an entry without a text.

mod forms;
mod names;
mod sources;
mod table;

use std::{fmt::Write, sync::Mutex, thread};

use self::{
    forms::other_forms,
    sources::{Text, are_commands_marked, texts},
    table::{Advice, Proof, table},
};
use crate::support::{FAST, Folder, bytes, luxor, tool, typed};

const PASSPHRASE: &str = "correct horse";

/// What the scenarios need: a program that makes cheap keyslots, and a volume with a name that a shell
/// would take apart, and that looks like a part of a message.
const PREAMBLE: &str = r#"
export PATH=$PWD/bin:$PATH
v=$'it\'s `a` "VOLUME" $v VOLUME \nv'
make() { luxor encrypt --key-file key "$@" plain "$v"; }
same() { luxor decrypt --force --key-file key "$@" "$v" out && cmp plain out; }
length() { stat -c %s "$1"; }
"#;

/// Adds cheap key derivation where a keyslot is made, and a PID file to a server.
const WRAPPER: &str = r#"#!/bin/sh
case "$1 $2" in
    encrypt*|format*|reencrypt*|"key add"|"key change"|luks[AC]*Key*|luksFormat*)
        case "$*" in *--pbkdf*) ;; *) set -- "$@" --pbkdf pbkdf2 --pbkdf-force-iterations 1000 ;; esac ;;
    serve*)
        set -- "$@" --pid-file running.pid ;;
esac
exec "$real" "$@"
"#;

/// Ends a server as soon as clients can connect, and a mount as soon as it is there.
const STOP: &str = r"
(for i in $(seq 600); do
    if [ -s running.pid ]; then kill $(cat running.pid); break; fi
    if mountpoint -q DIR; then fusermount3 -u DIR; break; fi
    sleep 0.05
done) & ";

/// Returns the entry for a text.
fn entry<'a>(text: &Text, table: &'a [Advice]) -> Vec<&'a Advice> {
    let matches = |advice: &&Advice| text.literal.contains(advice.text);
    let all: Vec<_> = table.iter().filter(matches).collect();
    // An option that is only named needs no entry beside a proof.
    let is_proof = |advice: &&&Advice| !matches!(advice.proof, Proof::Names);
    let proofs: Vec<_> = all.iter().filter(is_proof).copied().collect();
    if proofs.is_empty() { all } else { proofs }
}

#[test]
fn every_text_that_advises_is_in_the_table() {
    let (table, texts) = (table(), texts());
    assert!(texts.len() > 100, "the search finds only {}", texts.len());
    let mut wrong = String::new();
    for text in &texts {
        let entries = entry(text, &table);
        let are_names = entries
            .iter()
            .all(|entry| matches!(entry.proof, Proof::Names));
        // A text with two commands has an entry for each.
        let mut commands: Vec<_> = entries
            .iter()
            .map(|entry| match entry.proof {
                Proof::Run { nth, .. } => Some(nth),
                _ => None,
            })
            .collect();
        commands.sort_unstable();
        commands.dedup();
        let are_commands = commands.len() == entries.len() && !commands.contains(&None);
        if entries.is_empty() || (entries.len() > 1 && !are_names && !are_commands) {
            writeln!(wrong, "{} entries for {text:?}", entries.len()).unwrap();
        }
    }
    for advice in &table {
        if !texts.iter().any(|text| text.literal.contains(advice.text)) {
            writeln!(wrong, "no text has {:?}", advice.text).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn libraries_name_no_option_and_no_command() {
    let texts = texts();
    let of_library = |text: &&Text| !text.file.to_str().unwrap().contains("/cli/src/");
    let found: Vec<_> = texts.iter().filter(of_library).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn commands_in_messages_stand_between_backticks() {
    let texts = texts();
    let mut unmarked = texts
        .iter()
        .filter(|text| !are_commands_marked(&text.literal));
    let first = unmarked.next();
    assert!(first.is_none(), "{first:?}");
}

/// A command line between backticks has only options that this command has.
#[test]
fn commands_in_messages_can_be_parsed() {
    let mut count = 0;
    for text in texts() {
        for span in text.literal.split('`').skip(1).step_by(2) {
            let Some(words) = span.strip_prefix("luxor ") else {
                continue;
            };
            let words: Vec<_> = words.split(' ').collect();
            let is_name = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase());
            let command: Vec<_> = words.iter().take(2).take_while(is_name).collect();
            let help = luxor("").args(&command).arg("--help").run();
            help.assert_code(0);
            let options = words.iter().filter(|word| word.starts_with("--"));
            for option in options.map(|option| option.split(['=', '{']).next().unwrap()) {
                let has = help.text().split([' ', '\n', '[', '=']);
                let mut has = has.map(|word| word.trim_end_matches(','));
                assert!(has.any(|word| word == option), "{option}: {text:?}");
                count += 1;
            }
        }
    }
    assert!(count > 10, "{count}");
}

#[test]
fn tests_that_execute_advice_elsewhere_exist() {
    let sources = sources::tests();
    for advice in table() {
        if let Proof::By(name) = advice.proof {
            let function = format!("fn {}(", name.rsplit("::").next().unwrap());
            assert!(sources.contains(&function), "{name}");
        }
    }
}

#[test]
fn advice_leads_to_what_it_promises() {
    let only = std::env::var("LUXOR_TEST_ADVICE").unwrap_or_default();
    let template = template();
    let table: Vec<_> = table().into_iter().chain(other_forms()).collect();
    let scenarios = table.iter().filter(|advice| {
        matches!(
            advice.proof,
            Proof::Run { .. } | Proof::Add { .. } | Proof::Without { .. }
        ) && advice.text.contains(&only)
    });
    let (queue, failed) = (Mutex::new(scenarios), Mutex::new(String::new()));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let advice = queue.lock().unwrap().next();
                    let Some(advice) = advice else { break };
                    if let Err(why) = follow(advice, &template) {
                        let mut failed = failed.lock().unwrap();
                        write!(failed, "\n--- {}\n{why}\n", advice.text).unwrap();
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{failed}");
}

/// Files that the scenarios need.
fn template() -> Folder {
    let folder = Folder::new();
    folder.write("key", PASSPHRASE);
    folder.write("other", "another key");
    folder.write("plain", bytes(1 << 20, 3));
    folder.write("KEY", bytes(32, 4));
    std::fs::create_dir(folder.join("bin")).unwrap();
    let wrapper = WRAPPER.replace("\"$real\"", &format!("'{}'", env!("CARGO_BIN_EXE_luxor")));
    let wrapper = folder.write("bin/luxor", wrapper);
    tool("chmod", ["+x".as_ref(), wrapper.as_os_str()]);
    std::fs::create_dir(folder.join("DIR")).unwrap();
    let small = ["--luks2-keyslots-size", "1M", "--key-file", "key"];
    let make = luxor("encrypt plain template").args(small).args(FAST);
    make.current_dir(folder.path()).ok();
    folder
}

/// Provokes the message, does what it says, and checks the promise.
fn follow(advice: &Advice, template: &Folder) -> Result<(), String> {
    let folder = Folder::new();
    tool(
        "cp",
        ["-r".into(), template.join("."), folder.path().to_owned()],
    );
    let answer = |yes: &'static str| {
        move |screen: &str| {
            let asks = screen.ends_with("Type YES to go on: ");
            let answer = if asks { yes } else { PASSPHRASE };
            Some(format!("{answer}\n"))
        }
    };
    let run = |line: &str, yes| {
        let line = format!("{PREAMBLE}{line}");
        folder.write("line.sh", line);
        // A program that hangs must not keep the test.
        typed(
            "timeout --foreground 120 bash line.sh",
            answer(yes),
            folder.path(),
        )
    };
    let fail = |what: &str, screen: &str| Err(format!("{what}:\n{screen}"));
    let (code, screen) = run(&format!("set -e; {}", advice.before), "YES");
    if code != 0 {
        return fail("the preparation failed", &screen);
    }
    let (code, screen) = run(advice.provokes, "NO");
    let message = screen.lines().find(|line| line.contains(advice.shown));
    let Some(message) = message else {
        return fail("the message did not come", &screen);
    };
    let line = match advice.proof {
        Proof::Run { nth, with } => {
            let Some(command) = message.split('`').skip(1).step_by(2).nth(nth) else {
                return fail("it has no command", message);
            };
            with.iter()
                .fold(command.to_owned(), |command, (name, value)| {
                    command.replace(name, value)
                })
        }
        Proof::Add {
            option,
            values,
            with,
        } => {
            if code == 0 {
                return fail("the command did not fail", &screen);
            }
            let Some(begin) = message.find(option) else {
                return fail("it has no such option", message);
            };
            let rest = message[begin + option.len()..].split_whitespace();
            let mut words = vec![option.to_owned()];
            for word in rest.take(values) {
                let word = word.trim_end_matches(|c: char| ".,;:)".contains(c));
                let value = with.iter().find(|(name, _)| *name == word);
                words.push(value.map_or(word, |(_, value)| value).to_owned());
            }
            // In cryptsetup's form the option may not exist.
            let own = screen.split("Luxor's form of this command has ").nth(1);
            let own = own.and_then(|sentence| sentence.split('`').nth(1));
            let line = own.unwrap_or(advice.provokes);
            // An option that is there gets another value.
            let given: Vec<_> = line.split(' ').collect();
            match given.iter().position(|word| option.starts_with(word)) {
                Some(at) => {
                    let after = at + words.join(" ").split(' ').count();
                    let rest = given.get(after..).unwrap_or_default();
                    [&given[..at], &[&words.join(" ")], rest].concat().join(" ")
                }
                None => format!("{line} {}", words.join(" ")),
            }
        }
        Proof::Without { option } => advice.provokes.replacen(option, "", 1),
        _ => unreachable!("only these have scenarios"),
    };
    let runs_on = ["luxor serve", "luxor mount"];
    let stop = runs_on.iter().any(|begin| line.starts_with(begin));
    let stop = if stop { STOP } else { "" };
    let (code, screen) = run(&format!("set -o pipefail; {stop}{line}"), "YES");
    if code != advice.code {
        return fail(&format!("{line}\nended with {code}"), &screen);
    }
    let (code, checked) = run(&format!("set -e; {}", advice.then), "YES");
    run("if mountpoint -q DIR; then fusermount3 -u DIR; fi", "YES");
    if code != 0 {
        return fail(
            &format!("{line}\n{screen}\nthe promise was broken"),
            &checked,
        );
    }
    Ok(())
}
