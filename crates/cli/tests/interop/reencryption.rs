// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volumes that `cryptsetup reencrypt` has half encrypted, read by the command.
//! `crates/luks/tests/luks/reencryption.rs` tests all other kinds.

use std::{
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use crate::{
    SecretKind,
    programs::{
        Bench, Outcome, Secret, Volume, cryptsetup, cryptsetup_tries, metadata, must, must_equal,
        pattern, text,
    },
    serving::Server,
    words,
};

const LEN: usize = 12 << 20;

#[test]
fn every_byte_is_restored_from_any_state() -> Outcome<()> {
    let mut bench = Bench::new();
    for attempt in 0.. {
        if attempt == 10 {
            return Err("cryptsetup was never interrupted in the midst of it".to_owned());
        }
        bench.clear()?;
        let secret = bench.secret(b"secret", SecretKind::KeyFile);
        let payload = pattern(attempt, LEN);
        // Nothing is encrypted yet.
        let (volume, header) = begun(&mut bench, &secret, &payload)?;
        let both = Volume {
            data: volume.clone(),
            header: Some(header.clone()),
        };
        let header_option = both.options();
        bench.luxor_decrypts(&both, &[], &secret, &payload)?;
        bench.luxor_finds_no_key(&both, &[], &secret.wrong()?)?;

        resume_until(&volume, &header, &secret, "\"131072\"", "INT")?;
        let segments = metadata(&header)?["segments"].clone();
        if segments["0"]["type"] != "crypt" || segments["1"]["type"] != "linear" {
            continue;
        }
        let size = segments["0"]["size"].as_str().ok_or("no size")?;
        let linear = LEN - size.parse::<usize>().map_err(|e| e.to_string())?;
        let back = bench.new_path();
        let ran = bench.luxor("decrypt", &[&volume, &back], &header_option, &secret)?;
        ran.must_exit(0)?;
        must_equal(
            "what Luxor decrypts",
            &fs::read(&back).map_err(|e| e.to_string())?,
            &payload,
        )?;
        let said = String::from_utf8_lossy(&ran.output.stderr).into_owned();
        must(
            said.contains(&format!("{linear} bytes of the data are not encrypted")),
            &said,
        )?;
        let ran = bench.luxor("check", &[&volume], &header_option, &secret)?;
        ran.must_exit(0)?;
        must(
            ran.stdout()
                .contains(&format!("sectors, {linear} of them not encrypted")),
            &ran.stdout(),
        )?;
        bench
            .luxor("dump", &[&header], &[], &secret)?
            .must_exit(0)?;
        served_for_reading(&mut bench, &both, &secret, &payload)?;

        // A pipe cannot be read in another order.
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
    unreachable!("the last attempt returns or fails")
}

fn served_for_reading(
    bench: &mut Bench,
    volume: &Volume,
    secret: &Secret,
    payload: &[u8],
) -> Outcome<()> {
    let mut options = volume.options();
    let socket = text(&bench.new_path());
    let with_socket = [&options[..], &["--socket".to_owned(), socket]].concat();
    let ran = bench.luxor("serve", &[&volume.data], &with_socket, secret)?;
    ran.must_exit(1)?;
    let said = String::from_utf8_lossy(&ran.output.stderr).into_owned();
    must(said.contains("Use --read-only"), &said)?;
    let key = secret.key_file.as_ref().ok_or("no key file")?;
    options.extend(["--read-only".to_owned(), "--key-file".to_owned(), text(key)]);
    let server = Server::start(bench, &options, &volume.data)?;
    let resume = words("--resume-only --force-offline-reencrypt");
    let resume = [resume, volume.options()].concat();
    cryptsetup("reencrypt", &resume, &volume.data, Some(secret))?.must_exit(5)?;
    must_equal("what is served", &server.read(bench)?, payload)?;
    server.stop()
}

/// Without a common lock, a re-encryption during a decryption would give wrong bytes.
#[test]
fn decryption_and_reencryption_exclude_each_other() -> Outcome<()> {
    let mut bench = Bench::new();
    let secret = bench.secret(b"secret", SecretKind::KeyFile);
    let payload = pattern(1, LEN);
    let (volume, header) = begun(&mut bench, &secret, &payload)?;
    let key = secret.key_file.as_ref().ok_or("no key file")?;
    let resume = |hotzone: &str| {
        let mut options = words("--resume-only --force-offline-reencrypt --hotzone-size");
        options.extend([hotzone.to_owned(), "--header".to_owned(), text(&header)]);
        cryptsetup("reencrypt", &options, &volume, Some(&secret))
    };
    let luxor = |key: &Path, output: &str| {
        let mut luxor = Command::new(env!("CARGO_BIN_EXE_luxor"));
        luxor
            .args(["decrypt", "--header"])
            .args([&header, Path::new("--key-file"), key, &volume])
            .arg(output)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        luxor.spawn().map_err(|e| e.to_string())
    };

    // A running decryption keeps cryptsetup out. (The pipe holds less than the data.)
    let mut child = luxor(key, "-")?;
    let mut pipe = child.stdout.take().ok_or("no pipe")?;
    let mut back = vec![0];
    pipe.read_exact(&mut back).map_err(|e| e.to_string())?;
    resume("64k")?.must_exit(5)?;
    pipe.read_to_end(&mut back).map_err(|e| e.to_string())?;
    must(child.wait().is_ok_and(|s| s.success()), "luxor failed")?;
    must_equal("what Luxor decrypts", &back, &payload)?;

    // A write during the decryption is noticed from the file's time: without resilience the header
    // does not change.
    let mut child = luxor(key, "-")?;
    let mut pipe = child.stdout.take().ok_or("no pipe")?;
    let mut back = vec![0];
    pipe.read_exact(&mut back).map_err(|e| e.to_string())?;
    fs::OpenOptions::new()
        .write(true)
        .open(&volume)
        .and_then(|mut file| file.write_all(&payload[..512]))
        .map_err(|e| e.to_string())?;
    pipe.read_to_end(&mut back).map_err(|e| e.to_string())?;
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    must(
        output.status.code() == Some(1) && said.contains("the data changed"),
        &said,
    )?;

    // No data are read before the key is available.
    let fifo = bench.new_path();
    let made = Command::new("mkfifo").arg(&fifo).status();
    must(made.is_ok_and(|status| status.success()), "no mkfifo")?;
    let back = bench.new_path();
    let child = luxor(&fifo, &text(&back))?;
    let mut pipe = fs::OpenOptions::new()
        .write(true)
        .open(&fifo)
        .map_err(|e| e.to_string())?;
    resume("64k")?.must_exit(0)?;
    pipe.write_all(b"secret").map_err(|e| e.to_string())?;
    drop(pipe);
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    must(
        output.status.code() == Some(1) && said.contains("the metadata changed"),
        &said,
    )?;
    must(!back.exists(), "wrong bytes are left")
}

/// After a crash the keys can still be tested, and the state is not reported as damage.
#[test]
fn a_hot_zone_is_reported_and_its_keys_can_be_tested() -> Outcome<()> {
    let mut bench = Bench::new();
    for _ in 0..20 {
        bench.clear()?;
        let secret = bench.secret(b"secret", SecretKind::KeyFile);
        let payload = pattern(1, LEN);
        let (volume, header) = begun(&mut bench, &secret, &payload)?;
        resume_until(&volume, &header, &secret, "in-reencryption", "KILL")?;
        let json = metadata(&header)?["segments"].to_string();
        if !json.contains("in-reencryption") {
            continue;
        }
        let options = ["--header".to_owned(), text(&header)];
        let ran = bench.luxor("check", &[&volume], &options, &secret)?;
        ran.must_exit(0)?;
        let said = ran.stdout();
        for words in [
            "data: segment",
            "partly old and partly new",
            "keyslot 0: good",
        ] {
            must(said.contains(words), &said)?;
        }
        let wrong = secret.wrong()?;
        for (secret, code) in [(&secret, 0), (&wrong, 2)] {
            let data = Volume::attached(volume.clone());
            cryptsetup_tries(&data, &options, secret)?.must_exit(code)?;
            for action in ["open", "luksOpen"] {
                let options = [&options[..], &["--test-passphrase".to_owned()]].concat();
                bench
                    .luxor(action, &[&volume], &options, secret)?
                    .must_exit(code)?;
            }
        }
        let back = bench.new_path();
        bench
            .luxor("decrypt", &[&volume, &back], &options, &secret)?
            .must_exit(1)?;
        return must(!back.exists(), "a hot zone is read");
    }
    Err("cryptsetup was never killed in a hot zone".to_owned())
}

/// Makes data, and a header in which their encryption has begun but has not progressed.
fn begun(bench: &mut Bench, secret: &Secret, payload: &[u8]) -> Outcome<(PathBuf, PathBuf)> {
    let (volume, header) = (bench.file(payload), bench.file(&vec![0; 16 << 20]));
    let mut start = words("--encrypt --init-only --pbkdf pbkdf2 --pbkdf-force-iterations 1000");
    start.extend(["--header".to_owned(), text(&header)]);
    cryptsetup("reencrypt", &start, &volume, Some(secret))?.must_exit(0)?;
    Ok((volume, header))
}

/// Resumes the encryption, and sends `signal` while the header contains `words`, until the process
/// has ended.
fn resume_until(
    volume: &Path,
    header: &Path,
    secret: &Secret,
    words: &str,
    signal: &str,
) -> Outcome<()> {
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
        if json.contains(words) {
            let kill = format!("kill -{signal} {}", child.id());
            let _ = Command::new("sh").args(["-c", &kill]).status();
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
