// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor serve`: it serves what other programs encrypted, and other programs decrypt what its
//! clients write.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{
    Cell, SecretKind, XTS,
    programs::{Bench, Outcome, Sectors, cryptsetup, must, must_equal, pattern, run, text},
    words,
};

/// A running server, until it is stopped.
pub struct Server {
    child: Child,
    pub uri: String,
}

impl Server {
    /// Starts `luxor serve --socket SOCKET OPTION… VOLUME`.
    pub fn start(bench: &mut Bench, options: &[String], volume: &Path) -> Outcome<Self> {
        let socket = bench.new_path();
        let mut luxor = Command::new(env!("CARGO_BIN_EXE_luxor"));
        luxor
            .args(["serve", "--engine", &bench.engine, "--socket"])
            .arg(socket)
            .args(options)
            .arg(volume)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = luxor.spawn().map_err(|e| e.to_string())?;
        let mut stderr = BufReader::new(child.stderr.take().ok_or("no standard error")?);
        let mut said = String::new();
        loop {
            let mut line = String::new();
            let read = stderr.read_line(&mut line).map_err(|e| e.to_string())?;
            if read == 0 {
                let status = child.wait().map_err(|e| e.to_string())?;
                return Err(format!("{luxor:?}: {status}: {said}"));
            }
            if let Some((_, uri)) = line.trim_end().split_once(", at nbd") {
                let uri = format!("nbd{uri}");
                return Ok(Self { child, uri });
            }
            said += &line;
        }
    }

    /// Reads the whole export.
    pub fn read(&self, bench: &mut Bench) -> Outcome<Vec<u8>> {
        let copy = bench.new_path();
        let mut nbdcopy = Command::new("nbdcopy");
        nbdcopy.arg(&self.uri).arg(&copy);
        run(nbdcopy, None)?.must_exit(0)?;
        fs::read(&copy).map_err(|e| e.to_string())
    }

    /// Writes the whole export.
    pub fn write(&self, bench: &mut Bench, bytes: &[u8]) -> Outcome<()> {
        let source = bench.file(bytes);
        let mut nbdcopy = Command::new("nbdcopy");
        nbdcopy.arg(source).arg(&self.uri);
        run(nbdcopy, None)?.must_exit(0)
    }

    pub fn stop(mut self) -> Outcome<()> {
        let pid = self.child.id().to_string();
        let mut kill = Command::new("sh");
        kill.args(["-c", "kill -TERM \"$1\"", "sh", &pid]);
        run(kill, None)?.must_exit(0)?;
        let status = self.child.wait().map_err(|e| e.to_string())?;
        must(status.success(), &format!("the server ends with {status}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Without a common lock, a re-encryption while the volume is served would destroy the data.
/// cryptsetup notes in the metadata that it begins, and then must stop.
#[test]
fn cryptsetup_does_not_reencrypt_a_served_volume() -> Outcome<()> {
    let mut bench = Bench::new();
    let payload = pattern(1, 4 << 20);
    for read_only in [true, false] {
        let secret = bench.secret(b"secret", SecretKind::KeyFile);
        let volume = bench.made_by_luxor(Cell::example(), &secret, &payload)?;
        let mut reencrypt = words("--force-offline-reencrypt --pbkdf pbkdf2");
        reencrypt.extend(words("--pbkdf-force-iterations 1000"));
        let key = text(secret.key_file.as_ref().ok_or("no key file")?);
        let mut options = vec!["--key-file".to_owned(), key];
        options.extend(read_only.then(|| "--read-only".to_owned()));

        let server = Server::start(&mut bench, &options, &volume.data)?;
        cryptsetup("reencrypt", &reencrypt, &volume.data, Some(&secret))?.must_exit(5)?;
        must_equal("what is served", &server.read(&mut bench)?, &payload)?;
        let payload = if read_only {
            payload.clone()
        } else {
            pattern(2, payload.len())
        };
        if !read_only {
            server.write(&mut bench, &payload)?;
        }
        server.stop()?;
        bench.luxor_decrypts(&volume, &[], &secret, &payload)?;
        let resume = words("--force-offline-reencrypt --resume-only");
        cryptsetup("reencrypt", &resume, &volume.data, Some(&secret))?.must_exit(0)?;
        bench.luxor_decrypts(&volume, &[], &secret, &payload)?;
    }
    Ok(())
}

/// Tests every cipher, sector size and way of counting IVs, with data that do not begin at offset
/// 0.
#[test]
fn plain_volumes_agree_with_python() -> Outcome<()> {
    let mut bench = Bench::new();
    let key = bench.file(&pattern(1, 64));
    for (i, encryption) in [
        XTS,
        "aes-xts-plain",
        "aes-cbc-essiv:sha256",
        "aes-cbc-plain64",
        "aes-cbc-plain",
    ]
    .into_iter()
    .enumerate()
    {
        for (j, size) in [512, 1024, 2048, 4096].into_iter().enumerate() {
            for large in [false, true] {
                if large && size == 512 {
                    continue;
                }
                let units = size as u64 / 512;
                // Around 2³² of the counted units, where `plain` wraps.
                let wrap = if large { units << 32 } else { 1 << 32 };
                let first = [0, 24, wrap - 16, wrap][(i + j) % 4];
                let sectors = Sectors {
                    encryption,
                    size,
                    first,
                    large,
                };
                let key_size = match (encryption.contains("xts"), (i + j) % 2) {
                    (true, 0) => 512,
                    (false, 0) => 128,
                    _ => 256,
                };
                plain_volume(&mut bench, sectors, key_size, &key).map_err(|e| {
                    format!("{encryption}, {size}, from {first}, large {large}: {e}")
                })?;
            }
        }
    }
    Ok(())
}

fn plain_volume(
    bench: &mut Bench,
    sectors: Sectors,
    key_size: usize,
    key_file: &Path,
) -> Outcome<()> {
    const OFFSET: u64 = 16;
    let payload = pattern(2, 24 * 4096);
    let key = bench.file(&fs::read(key_file).map_err(|e| e.to_string())?[..key_size / 8]);
    let volume = bench.new_path();
    fs::write(&volume, pattern(3, 8192)).map_err(|e| e.to_string())?;
    bench.fill(sectors, &key, &payload, &volume, 512 * OFFSET)?;
    // The bytes after the volume do not belong to it.
    let rest = pattern(4, 1000);
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(&volume)
        .map_err(|e| e.to_string())?;
    file.write_all(&rest).map_err(|e| e.to_string())?;

    let mut options: Vec<String> = [
        "--type",
        "plain",
        "--cipher",
        sectors.encryption,
        "--key-size",
        &key_size.to_string(),
        "--offset",
        &OFFSET.to_string(),
        "--skip",
        &sectors.first.to_string(),
        "--size",
        &(payload.len() / 512).to_string(),
        "--sector-size",
        &sectors.size.to_string(),
        "--key-file",
        &text(key_file),
    ]
    .map(str::to_owned)
    .to_vec();
    if sectors.large {
        options.push("--iv-large-sectors".to_owned());
    }
    let server = Server::start(bench, &options, &volume)?;
    must_equal("what is served", &server.read(bench)?, &payload)?;
    let new = pattern(5, payload.len());
    server.write(bench, &new)?;
    server.stop()?;

    let decrypted = bench.new_path();
    bench.python.crypt(
        "decrypt",
        sectors,
        &key,
        &volume,
        512 * OFFSET,
        new.len(),
        &decrypted,
    )?;
    let found = fs::read(&decrypted).map_err(|e| e.to_string())?;
    must_equal("what Python decrypts", &found, &new)?;
    // Bytes outside the volume are unchanged.
    let mut file = fs::File::open(&volume).map_err(|e| e.to_string())?;
    let mut before = vec![0; 8192];
    file.read_exact(&mut before).map_err(|e| e.to_string())?;
    must_equal("what comes before", &before, &pattern(3, 8192))?;
    let mut after = Vec::new();
    file.seek(SeekFrom::Current(new.len().try_into().unwrap()))
        .and_then(|_| file.read_to_end(&mut after))
        .map_err(|e| e.to_string())?;
    must_equal("what comes after", &after, &rest)
}
