// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volumes in the midst of an encryption by `cryptsetup reencrypt`, as the program
//! takes them. `crates/luks/tests/reencryption.rs` has all the other kinds.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use crate::{
    SecretKind,
    programs::{Bench, Outcome, Secret, cryptsetup, metadata, pattern, text},
};

const LEN: usize = 12 << 20;

#[test]
fn every_byte_comes_back_from_any_state() -> Outcome<()> {
    let mut bench = Bench::new();
    for attempt in 0.. {
        if attempt == 10 {
            return Err("cryptsetup was never interrupted in the midst of it".to_owned());
        }
        bench.clear()?;
        let secret = bench.secret(b"secret", SecretKind::KeyFile);
        let payload = pattern(attempt, LEN);
        let (volume, header) = (bench.file(&payload), bench.file(&vec![0; 16 << 20]));
        let header_option = ["--header".to_owned(), text(&header)];

        // Nothing is encrypted yet.
        let mut start = words("--encrypt --init-only --hotzone-size 64k --pbkdf pbkdf2");
        start.extend(words("--pbkdf-force-iterations 1000"));
        start.extend(header_option.clone());
        cryptsetup("reencrypt", &start, &volume, Some(&secret))?.must_exit(0)?;
        bench.luxor_decrypts(&volume, &header_option, &secret, &payload)?;
        bench.luxor_finds_no_key(&volume, &header_option, &secret.wrong()?)?;

        resume_and_interrupt(&volume, &header, &secret)?;
        let segments = metadata(&header)?["segments"].clone();
        if segments["0"]["type"] != "crypt" || segments["1"]["type"] != "linear" {
            continue;
        }
        bench.luxor_decrypts(&volume, &header_option, &secret, &payload)?;
        bench
            .luxor("check", &[&volume], &header_option, &secret)?
            .must_exit(0)?;
        bench
            .luxor("dump", &[&header], &[], &secret)?
            .must_exit(0)?;

        // What a pipe brings cannot be read in another order.
        let mut piped = Command::new("sh");
        piped.args([
            "-c",
            "cat \"$1\" | \"$2\" decrypt - - --header \"$3\" --key-file \"$4\"",
            "sh",
        ]);
        piped.args([&volume, Path::new(env!("CARGO_BIN_EXE_luxor")), &header]);
        piped.arg(secret.key_file.as_ref().ok_or("no key file")?);
        let output = piped.output().map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() != Some(1) || !said.contains("cannot be read from a pipe") {
            return Err(format!("{:?}: {said}", output.status));
        }
        return Ok(());
    }
    unreachable!("the attempts are counted")
}

fn words(arguments: &str) -> Vec<String> {
    arguments.split_whitespace().map(str::to_owned).collect()
}

/// Lets the encryption begin, and sends SIGINT until it has ended.
fn resume_and_interrupt(volume: &Path, header: &Path, secret: &Secret) -> Outcome<()> {
    let mut child = Command::new("cryptsetup")
        .args([
            "reencrypt",
            "-q",
            "--resume-only",
            "--force-offline-reencrypt",
            "--key-file",
        ])
        .arg(secret.key_file.as_ref().ok_or("no key file")?)
        .args(["--hotzone-size", "64k", "--header"])
        .args([header, volume])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| e.to_string())?;
    while child.try_wait().map_err(|e| e.to_string())?.is_none() {
        let bytes = fs::read(header).map_err(|e| e.to_string())?;
        let json = String::from_utf8_lossy(&bytes[4096..16 << 10]);
        if json.contains("\"131072\"") {
            let kill = format!("kill -INT {}", child.id());
            let _ = Command::new("sh").args(["-c", &kill]).status();
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
