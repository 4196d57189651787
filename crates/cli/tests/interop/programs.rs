// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the programs: Luxor, `cryptsetup` and Python.

use std::{
    fs,
    io::{self, BufRead, BufReader, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{Cell, Format, SecretKind};

pub type Outcome<T> = Result<T, String>;

/// A temporary folder, and the programs that work in it.
pub struct Bench {
    folder: TempDir,
    pub python: Python,
    /// The value of Luxor's `--engine`.
    pub engine: String,
    files: usize,
}

impl Bench {
    pub fn new() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        Self {
            folder,
            python: Python::start(),
            engine: "auto".to_owned(),
            files: 0,
        }
    }

    /// Empties the folder: most volumes have at least 16 MiB.
    pub fn clear(&mut self) -> Outcome<()> {
        self.folder = TempDir::new().map_err(|e| e.to_string())?;
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn new_path(&mut self) -> PathBuf {
        self.files += 1;
        self.path(&format!("file {}", self.files))
    }

    /// Makes a new file with these bytes.
    pub fn file(&mut self, bytes: &[u8]) -> PathBuf {
        let path = self.new_path();
        fs::write(&path, bytes).expect("a file in the temporary folder");
        path
    }

    pub fn secret(&mut self, bytes: &[u8], kind: SecretKind) -> Secret {
        let key_file = match kind {
            SecretKind::Passphrase => None,
            SecretKind::KeyFile => Some(self.file(bytes)),
        };
        Secret {
            bytes: bytes.to_vec(),
            key_file,
        }
    }

    /// Makes a volume with `cryptsetup luksFormat`, and encrypts the payload with Python.
    pub fn made_by_cryptsetup(
        &mut self,
        cell: Cell,
        secret: &Secret,
        payload: &[u8],
    ) -> Outcome<Volume> {
        let volume = self.new_volume(cell.detached);
        let file = fs::File::create_new(&volume.data).map_err(|e| e.to_string())?;
        // cryptsetup needs room for its header and some data.
        let len = if cell.is_luks1() { 3 } else { 17 };
        file.set_len(len << 20).map_err(|e| e.to_string())?;
        let options = [cell.cryptsetup_options(), volume.options()].concat();
        cryptsetup("luksFormat", &options, &volume.data, Some(secret))?.must_exit(0)?;

        let offset = data_offset(cell, &volume)?;
        let key = self.volume_key(volume.header(), secret)?;
        self.fill(cell, &key, payload, &volume.data, offset)?;
        Ok(volume)
    }

    fn new_volume(&mut self, detached: bool) -> Volume {
        Volume {
            data: self.new_path(),
            header: detached.then(|| self.new_path()),
        }
    }

    /// Encrypts the payload with Python and stores it in `volume` from `offset` to its end.
    pub fn fill(
        &mut self,
        sectors: impl Into<Sectors>,
        key: &Path,
        payload: &[u8],
        volume: &Path,
        offset: u64,
    ) -> Outcome<()> {
        let (plain, encrypted) = (self.file(payload), self.new_path());
        self.python.crypt(
            "encrypt",
            sectors,
            key,
            &plain,
            0,
            payload.len(),
            &encrypted,
        )?;
        let encrypted = fs::read(&encrypted).map_err(|e| e.to_string())?;
        must(encrypted != payload, "Python does not encrypt")?;
        let mut file = fs::OpenOptions::new()
            .write(true)
            .open(volume)
            .map_err(|e| e.to_string())?;
        file.set_len(offset).map_err(|e| e.to_string())?;
        file.seek(SeekFrom::Start(offset))
            .map_err(|e| e.to_string())?;
        file.write_all(&encrypted).map_err(|e| e.to_string())
    }

    /// Makes a volume with `luxor encrypt`.
    pub fn made_by_luxor(
        &mut self,
        cell: Cell,
        secret: &Secret,
        payload: &[u8],
    ) -> Outcome<Volume> {
        let (source, volume) = (self.file(payload), self.new_volume(cell.detached));
        let options = [cell.luxor_options(), volume.options()].concat();
        self.luxor("encrypt", &[&source, &volume.data], &options, secret)?
            .must_exit(0)?;
        Ok(volume)
    }

    /// Runs `luxor COMMAND FILE… OPTION…` with the secret.
    pub fn luxor(
        &self,
        command: &str,
        files: &[&Path],
        options: &[String],
        secret: &Secret,
    ) -> Outcome<Ran> {
        let mut luxor = Command::new(env!("CARGO_BIN_EXE_luxor"));
        luxor
            .args(command.split(' '))
            .args(files)
            .args(options)
            .args(["--engine", &self.engine]);
        if secret.key_file.is_none() {
            luxor.args(["--passphrase-fd", "0"]);
        }
        run(luxor, Some(secret))
    }

    /// Checks that Luxor decrypts the volume to `payload`.
    pub fn luxor_decrypts(
        &mut self,
        volume: &Volume,
        options: &[String],
        secret: &Secret,
        payload: &[u8],
    ) -> Outcome<()> {
        let back = self.new_path();
        let options = [options, &volume.options()].concat();
        self.luxor("decrypt", &[&volume.data, &back], &options, secret)?
            .must_exit(0)?;
        let found = fs::read(&back).map_err(|e| e.to_string())?;
        must_equal("what Luxor decrypts", &found, payload)
    }

    /// Checks that Luxor finds no key, and leaves no output.
    pub fn luxor_finds_no_key(
        &mut self,
        volume: &Volume,
        options: &[String],
        secret: &Secret,
    ) -> Outcome<()> {
        let back = self.new_path();
        let options = [options, &volume.options()].concat();
        self.luxor("decrypt", &[&volume.data, &back], &options, secret)?
            .must_exit(2)?;
        must(!back.exists(), "a wrong secret leaves an output behind")
    }

    /// Checks that Luxor reports intact metadata, and a keyslot for the secret.
    pub fn luxor_checks(&self, volume: &Volume, secret: &Secret) -> Outcome<()> {
        self.luxor("check", &[&volume.data], &volume.options(), secret)?
            .must_exit(0)
    }

    /// Decrypts the payload with Python. The result includes the padding.
    pub fn python_decrypts(
        &mut self,
        cell: Cell,
        volume: &Volume,
        secret: &Secret,
    ) -> Outcome<Vec<u8>> {
        let offset = data_offset(cell, volume)?;
        let len = fs::metadata(&volume.data).map_err(|e| e.to_string())?.len() - offset;
        let len = usize::try_from(len).map_err(|e| e.to_string())?;
        let (key, plain) = (self.volume_key(volume.header(), secret)?, self.new_path());
        self.python
            .crypt("decrypt", cell, &key, &volume.data, offset, len, &plain)?;
        fs::read(&plain).map_err(|e| e.to_string())
    }

    /// Returns a file with the volume key that `cryptsetup` prints.
    pub fn volume_key(&mut self, header: &Path, secret: &Secret) -> Outcome<PathBuf> {
        let key = self.new_path();
        let options = [
            "--dump-volume-key".to_owned(),
            "--volume-key-file".to_owned(),
            text(&key),
        ];
        cryptsetup("luksDump", &options, header, Some(secret))?.must_exit(0)?;
        Ok(key)
    }
}

/// The files of a volume.
pub struct Volume {
    pub data: PathBuf,
    /// The file with the header, if it is detached.
    pub header: Option<PathBuf>,
}

impl Volume {
    pub fn attached(data: PathBuf) -> Self {
        Self { data, header: None }
    }

    /// The file with the metadata.
    pub fn header(&self) -> &Path {
        self.header.as_ref().unwrap_or(&self.data)
    }

    /// Extends the data's file to `len` bytes.
    pub fn grow(&self, len: u64) -> Outcome<()> {
        let file = fs::OpenOptions::new().write(true).open(&self.data);
        let grown = file.and_then(|file| file.set_len(len));
        grown.map_err(|e| e.to_string())
    }

    /// The options that tell both programs where a detached header is.
    pub fn options(&self) -> Vec<String> {
        let option = |header: &PathBuf| vec!["--header".to_owned(), text(header)];
        self.header.as_ref().map(option).unwrap_or_default()
    }
}

/// Returns the engines of this machine that support `mode`, according to Luxor.
pub fn engines(mode: &str) -> Outcome<Vec<String>> {
    let mut luxor = Command::new(env!("CARGO_BIN_EXE_luxor"));
    luxor.args(["engines", "--json"]);
    let ran = run(luxor, None)?;
    ran.must_exit(0)?;
    let report: Value = serde_json::from_slice(&ran.output.stdout).map_err(|e| e.to_string())?;
    let engines = report["engines"].as_array().ok_or("no list of engines")?;
    let has_mode = |engine: &&Value| {
        let mut modes = engine["modes"].as_array().into_iter().flatten();
        modes.any(|had| had == mode)
    };
    let present = engines.iter().filter(|engine| engine["present"] == true);
    Ok(present
        .filter(has_mode)
        .filter_map(|engine| engine["name"].as_str().map(str::to_owned))
        .collect())
}

/// Runs `cryptsetup COMMAND FILE OPTION…`. Without a secret it must not need one.
pub fn cryptsetup(
    command: &str,
    options: &[String],
    file: &Path,
    secret: Option<&Secret>,
) -> Outcome<Ran> {
    let mut cryptsetup = Command::new("cryptsetup");
    cryptsetup
        .args(["--batch-mode", command])
        .arg(file)
        .args(options);
    run(cryptsetup, secret)
}

/// Runs `luxor header COMMAND VOLUME FILE` without questions. It also restores a header that is
/// lost.
pub fn luxor_header(command: &str, volume: &Path, file: &Path) -> Outcome<Ran> {
    let mut luxor = Command::new(env!("CARGO_BIN_EXE_luxor"));
    luxor.args(["header", command]).args([volume, file]);
    if command == "restore" {
        luxor.args(["--batch-mode", "--force"]);
    }
    run(luxor, None)
}

pub fn cryptsetup_tries(volume: &Volume, options: &[String], secret: &Secret) -> Outcome<Ran> {
    let test = ["--test-passphrase".to_owned()];
    let options = [&test, options, &volume.options()].concat();
    cryptsetup("open", &options, &volume.data, Some(secret))
}

/// Returns the LUKS2 metadata as `cryptsetup` prints them.
pub fn metadata(volume: &Path) -> Outcome<Value> {
    let ran = cryptsetup(
        "luksDump",
        &["--dump-json-metadata".to_owned()],
        volume,
        None,
    )?;
    ran.must_exit(0)?;
    serde_json::from_slice(&ran.output.stdout).map_err(|e| e.to_string())
}

/// Returns the byte at which the data begin, according to `cryptsetup`.
pub fn data_offset(cell: Cell, volume: &Volume) -> Outcome<u64> {
    match cell.format {
        Format::Luks1 { .. } => luks1_data_offset(volume.header()),
        Format::Luks2 { .. } => {
            let metadata = metadata(volume.header())?;
            let offset = &metadata["segments"]["0"]["offset"];
            let offset = offset.as_str().ok_or("no segment")?;
            offset.parse().map_err(|e| format!("{offset}: {e}"))
        }
    }
}

fn luks1_data_offset(header: &Path) -> Outcome<u64> {
    let ran = cryptsetup("luksDump", &[], header, None)?;
    ran.must_exit(0)?;
    let dump = String::from_utf8_lossy(&ran.output.stdout).into_owned();
    let sectors = dump
        .lines()
        .find_map(|line| line.strip_prefix("Payload offset:"))
        .and_then(|sectors| sectors.trim().parse::<u64>().ok());
    sectors
        .map(|sectors| 512 * sectors)
        .ok_or_else(|| format!("no payload offset in {dump}"))
}

/// Returns the metadata of a LUKS1 volume as `cryptsetup` prints them, without salts and digests.
/// Each line names its keyslot.
pub fn luks1_dump(header: &Path) -> Outcome<Vec<String>> {
    let ran = cryptsetup("luksDump", &[], header, None)?;
    ran.must_exit(0)?;
    let names = [
        "Cipher",
        "Hash",
        "Payload",
        "MK bits",
        "UUID",
        "Key",
        "AF",
        "Iterations",
    ];
    let mut lines = Vec::new();
    let mut keyslot = String::new();
    for line in ran.stdout().lines().map(str::trim) {
        if line.starts_with("Key Slot") {
            line.clone_into(&mut keyslot);
        }
        if names.iter().any(|name| line.starts_with(name)) {
            lines.push(format!("{keyslot} {line}"));
        }
    }
    Ok(lines)
}

/// Runs `qemu-img ARGUMENT…`. qemu measures PBKDF2 by CPU time in kernel ticks, and fails if a fast
/// hash took less than one tick. Then this tries again.
pub fn qemu_img(arguments: &[String]) -> Outcome<()> {
    const TRIES: u32 = 30;
    let mut words = String::new();
    for _ in 0..TRIES {
        let mut qemu = Command::new("qemu-img");
        qemu.args(arguments);
        let ran = run(qemu, None)?;
        words = String::from_utf8_lossy(&ran.output.stderr).into_owned();
        if !words.contains("Unable to get accurate CPU usage") {
            return ran.must_exit(0);
        }
    }
    Err(format!("qemu-img fails {TRIES} times: {words}"))
}

/// Runs a program to its end. It reads the secret, if there is one, from a key file or from
/// standard input.
pub fn run(mut command: Command, secret: Option<&Secret>) -> Outcome<Ran> {
    if let Some(Secret {
        key_file: Some(path),
        ..
    }) = secret
    {
        command.arg("--key-file").arg(path);
    }
    let line = format!("{command:?}");
    let fail = |error: io::Error| format!("{line}: {error}");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|e| format!("{}; `cargo xtask test` sets up what is needed", fail(e)))?;
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    if let Some(Secret {
        key_file: None,
        bytes,
    }) = secret
    {
        // A program that refuses before it reads closes the pipe. Its exit code shows that.
        let _ = stdin.write_all(&[bytes, b"\n".as_slice()].concat());
    }
    drop(stdin);
    let output = child.wait_with_output().map_err(fail)?;
    Ok(Ran { line, output })
}

/// The result of a program.
pub struct Ran {
    line: String,
    pub output: Output,
}

impl Ran {
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub fn must_exit(&self, code: i32) -> Outcome<()> {
        let found = self.output.status;
        let said = String::from_utf8_lossy(&self.output.stderr);
        must(
            found.code() == Some(code),
            &format!("{}: {found} instead of {code}: {}", self.line, said.trim()),
        )
    }
}

/// How the data are encrypted.
#[derive(Clone, Copy)]
pub struct Sectors {
    /// The name of the encryption in dm-crypt.
    pub encryption: &'static str,
    /// The length of a sector in bytes.
    pub size: usize,
    /// The first IV, in units of 512 bytes.
    pub first: u64,
    /// Whether IVs count sectors instead of units of 512 bytes.
    pub large: bool,
}

impl From<Cell> for Sectors {
    fn from(cell: Cell) -> Self {
        Self {
            encryption: cell.encryption,
            size: cell.sector_size,
            first: 0,
            large: false,
        }
    }
}

/// The process that runs `sectors.py`.
pub struct Python {
    child: Child,
    jobs: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Python {
    fn start() -> Self {
        // The system's Python: another one earlier on PATH may lack the module.
        let mut child = Command::new("/usr/bin/python3")
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/interop/sectors.py"
            ))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("/usr/bin/python3 can be started");
        let jobs = child.stdin.take().expect("standard input is a pipe");
        let answers = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        Self {
            child,
            jobs,
            answers,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "these are the fields of a job")]
    pub fn crypt(
        &mut self,
        direction: &str,
        sectors: impl Into<Sectors>,
        key: &Path,
        source: &Path,
        offset: u64,
        len: usize,
        target: &Path,
    ) -> Outcome<()> {
        let (key, source, target) = (text(key), text(source), text(target));
        let Sectors {
            encryption,
            size,
            first,
            large,
        } = sectors.into();
        let unit = if large { size } else { 512 };
        let job = format!(
            "{direction}\t{encryption}\t{size}\t{first}\t{unit}\t{key}\t{source}\t{offset}\t{len}\t{target}\n"
        );
        let fail = |error: io::Error| format!("sectors.py: {error}");
        self.jobs
            .write_all(job.as_bytes())
            .and_then(|()| self.jobs.flush())
            .map_err(fail)?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(fail)?;
        must(answer == "done\n", &format!("sectors.py fails at: {job}"))
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn must(holds: bool, otherwise: &str) -> Outcome<()> {
    if holds {
        Ok(())
    } else {
        Err(otherwise.to_owned())
    }
}

/// Compares long contents. The message contains only the position of the first difference.
pub fn must_equal(what: &str, found: &[u8], expected: &[u8]) -> Outcome<()> {
    let place = found.iter().zip(expected).position(|(a, b)| a != b);
    match place {
        None if found.len() == expected.len() => Ok(()),
        None => Err(format!(
            "{what} has {} bytes, not {}",
            found.len(),
            expected.len()
        )),
        Some(place) => Err(format!(
            "{what} is wrong at byte {place} of {}",
            expected.len()
        )),
    }
}

pub fn must_be(found: &Value, expected: impl Into<Value>) -> Outcome<()> {
    let expected = expected.into();
    must(
        *found == expected,
        &format!("the metadata have {found} instead of {expected}"),
    )
}

pub fn text(path: &Path) -> String {
    path.to_str()
        .expect("the temporary folder's name is UTF-8")
        .to_owned()
}

/// Returns random-looking bytes (`SplitMix64`), the same ones for the same `seed`.
pub fn pattern(seed: usize, len: usize) -> Vec<u8> {
    let mut state = seed as u64;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    });
    words.flat_map(u64::to_le_bytes).take(len).collect()
}

/// A secret, as a line on standard input or in a key file.
pub struct Secret {
    bytes: Vec<u8>,
    pub key_file: Option<PathBuf>,
}

impl Secret {
    /// Returns a secret of the same kind that differs in one bit.
    pub fn wrong(&self) -> Outcome<Self> {
        let mut bytes = self.bytes.clone();
        // The changed bit is in a letter or digit, so that a passphrase stays one line.
        *bytes
            .iter_mut()
            .rfind(|b| b.is_ascii_alphanumeric())
            .ok_or("no letter")? ^= 1;
        let key_file = match &self.key_file {
            None => None,
            Some(path) => {
                let path = path.with_extension("wrong");
                fs::write(&path, &bytes).map_err(|e| format!("{path:?}: {e}"))?;
                Some(path)
            }
        };
        Ok(Self { bytes, key_file })
    }
}
