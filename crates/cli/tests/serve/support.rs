// SPDX-License-Identifier: MIT OR Apache-2.0
//! Volumes, servers, and programs that examine both.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything takes, in case something hangs.
pub const FOR_EVER: Duration = Duration::from_secs(60);

/// The offset of a plain volume's data, in units of 512 bytes.
const PLAIN_OFFSET: u64 = 16;
/// The first IV of a plain volume, in the same units.
const PLAIN_SKIP: u64 = 40;

/// The format of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Luks2 {
        sector_size: usize,
    },
    Luks1,
    /// No header, with sectors of 512 bytes.
    Plain,
}

impl Kind {
    pub const EXAMPLE: Self = Self::Luks2 { sector_size: 4096 };

    fn sector_size(self) -> usize {
        match self {
            Self::Luks2 { sector_size } => sector_size,
            Self::Luks1 | Self::Plain => 512,
        }
    }
}

/// A folder with a key and a volume, in memory if possible.
pub struct Volume {
    folder: TempDir,
    kind: Kind,
    /// The length of the plaintext in bytes.
    len: usize,
}

impl Volume {
    /// Makes a volume that contains `plain`.
    pub fn new(kind: Kind, plain: &[u8]) -> Self {
        Self::with(kind, "", plain)
    }

    /// The same, with additional options for `luxor encrypt`.
    pub fn with(kind: Kind, more: &str, plain: &[u8]) -> Self {
        let folder = match Path::new("/dev/shm") {
            memory if memory.is_dir() => tempfile::tempdir_in(memory),
            _ => tempfile::tempdir(),
        };
        let volume = Self {
            folder: folder.unwrap(),
            kind,
            len: plain.len(),
        };
        volume.write("plain", plain);
        volume.write("key", bytes(64, 1));
        let options = match kind {
            Kind::Luks2 { sector_size } => {
                format!("--type luks2 --pbkdf pbkdf2 --sector-size {sector_size}")
            }
            Kind::Luks1 => "--type luks1".to_owned(),
            Kind::Plain => {
                let before = usize::try_from(512 * PLAIN_OFFSET).unwrap();
                volume.write("volume", vec![0; before]);
                volume.python("encrypt", "plain", 0, "encrypted");
                let data = fs::read(volume.path("encrypted")).unwrap();
                let mut file = fs::OpenOptions::new()
                    .append(true)
                    .open(volume.path("volume"))
                    .unwrap();
                file.write_all(&data).unwrap();
                return volume;
            }
        };
        let mut luxor = volume.luxor("encrypt");
        luxor
            .args(options.split_whitespace())
            .args(more.split_whitespace())
            .args(["--key-file", "key", "--pbkdf-force-iterations", "1000"])
            .args(["plain", "volume"]);
        must_succeed(&mut luxor);
        volume
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a new file in the folder.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Returns `luxor COMMAND`, to run in the folder.
    pub fn luxor(&self, command: &str) -> Command {
        self.command(env!("CARGO_BIN_EXE_luxor"), [command])
    }

    /// Returns a program, to run in the folder.
    pub fn command(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs a program, which must succeed, and returns its standard output.
    #[track_caller]
    pub fn run(&self, line: &str, more: &[&str]) -> String {
        let mut words = line.split_whitespace();
        let mut command = self.command(words.next().unwrap(), words);
        must_succeed(command.args(more))
    }

    /// Returns `luxor serve … ARGUMENTS volume`, not yet started.
    pub fn serving(&self, arguments: &str) -> Command {
        let mut luxor = self.luxor("serve");
        luxor.args(["--key-file", "key"]);
        if self.kind == Kind::Plain {
            let (offset, skip) = (PLAIN_OFFSET, PLAIN_SKIP);
            let plain = format!("--type plain --key-size 512 --offset {offset} --skip {skip}");
            luxor.args(plain.split_whitespace());
        }
        luxor.args(arguments.split_whitespace()).arg("volume");
        luxor
    }

    /// Starts a server on a Unix socket and waits until it listens.
    pub fn serve(&self, arguments: &str) -> Server {
        Server::start(self.serving(&format!("--socket socket {arguments}")))
    }

    /// Returns the plaintext that `luxor decrypt` writes.
    pub fn decrypted(&self) -> Vec<u8> {
        self.run_luxor_decrypt();
        fs::read(self.path("decrypted")).unwrap()
    }

    fn run_luxor_decrypt(&self) {
        let mut luxor = self.luxor("decrypt");
        let arguments = ["--force", "--key-file", "key", "volume", "decrypted"];
        must_succeed(luxor.args(arguments));
    }

    /// Returns the plaintext that Python decrypts, with the key and offset that `cryptsetup`
    /// prints.
    pub fn independent(&self) -> Vec<u8> {
        self.python("decrypt", "volume", self.data_offset(), "independent");
        let mut bytes = fs::read(self.path("independent")).unwrap();
        bytes.truncate(self.len);
        bytes
    }

    /// Returns the byte at which the data begin.
    pub fn data_offset(&self) -> u64 {
        match self.kind {
            Kind::Plain => 512 * PLAIN_OFFSET,
            Kind::Luks1 => {
                let said = self.run("cryptsetup luksDump volume", &[]);
                let line = said
                    .lines()
                    .find_map(|line| line.strip_prefix("Payload offset:"));
                512 * line.unwrap().trim().parse::<u64>().unwrap()
            }
            Kind::Luks2 { .. } => {
                let said = self.run("cryptsetup luksDump --dump-json-metadata volume", &[]);
                let metadata: Value = serde_json::from_str(&said).unwrap();
                let offset = &metadata["segments"]["0"]["offset"];
                offset.as_str().unwrap().parse().unwrap()
            }
        }
    }

    /// Encrypts or decrypts a file from `offset` to its end with `sectors.py`.
    fn python(&self, direction: &str, source: &str, offset: u64, target: &str) {
        let (key, skip) = match self.kind {
            Kind::Plain => ("key", PLAIN_SKIP),
            Kind::Luks1 | Kind::Luks2 { .. } => {
                let dump = "cryptsetup luksDump --batch-mode --key-file key --dump-volume-key";
                let _ = fs::remove_file(self.path("volume key"));
                self.run(dump, &["--volume-key-file", "volume key", "volume"]);
                ("volume key", 0)
            }
        };
        let size = self.kind.sector_size();
        let len = fs::metadata(self.path(source)).unwrap().len() - offset;
        let job = format!(
            "{direction}\taes-xts-plain64\t{size}\t{skip}\t512\t{key}\t{source}\t{offset}\t{len}\t{target}\n"
        );
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/sectors.py");
        // The system's Python: another one earlier on PATH may lack the module.
        let mut python = self.command("/usr/bin/python3", [script]);
        let mut child = python
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut jobs = child.stdin.take().unwrap();
        jobs.write_all(job.as_bytes()).unwrap();
        drop(jobs);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.stdout, b"done\n", "{output:?}");
    }
}

/// A server that listens, and is stopped at the latest when the test ends.
pub struct Server {
    child: Child,
    stderr: mpsc::Receiver<String>,
    /// The lines of its log.
    pub log: mpsc::Receiver<String>,
    /// What it printed before it listened.
    pub said: String,
    pub uri: String,
}

impl Server {
    /// Starts the server and waits until it says that it listens.
    #[track_caller]
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let ((sender, stderr), (to_log, log)) = (mpsc::channel(), mpsc::channel());
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let to = if is_log(&line) { &to_log } else { &sender };
                let _ = to.send(line);
            }
        });
        let mut server = Self {
            child,
            stderr,
            log,
            said: String::new(),
            uri: String::new(),
        };
        while server.uri.is_empty() {
            match server.stderr.recv_timeout(FOR_EVER) {
                Ok(line) => match line.split_once(", at nbd") {
                    Some((_, uri)) => server.uri = format!("nbd{uri}"),
                    None => server.said += &line,
                },
                Err(_) => panic!("{command:?} does not listen: {}", server.said),
            }
        }
        server
    }

    /// Returns its resident memory in bytes.
    pub fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.unwrap().trim().trim_end_matches(" kB");
        kib.parse::<u64>().unwrap() << 10
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, signal).unwrap();
    }

    /// Waits for its end. Returns the exit code, and what else it printed, except for its log.
    pub fn ended(mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        // Its standard error stays open until it ends.
        let mut said = Vec::new();
        while let Ok(line) = self.stderr.recv_timeout(FOR_EVER) {
            said.push(line);
        }
        assert!(start.elapsed() < FOR_EVER, "it does not end: {said:?}");
        let status = self.child.wait().unwrap();
        (status.code(), said.join("\n"))
    }

    /// Stops it with SIGTERM. It must exit with code 0 and print nothing but its log.
    #[track_caller]
    pub fn stop(self) {
        self.signal(Signal::SIGTERM);
        assert_eq!(self.ended(), (Some(0), String::new()));
    }
}

/// Whether a line belongs to the log: it begins with the time.
fn is_log(line: &str) -> bool {
    line.starts_with("20") && line.as_bytes().get(4) == Some(&b'-')
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program, which must succeed, and returns its standard output.
#[track_caller]
pub fn must_succeed(command: &mut Command) -> String {
    let output = output(command);
    assert!(output.status.success(), "{command:?}: {output:#?}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
pub fn output(command: &mut Command) -> Output {
    match command.output() {
        Ok(output) => output,
        Err(error) => panic!("{command:?} is needed: {error}"),
    }
}

/// Compares long contents. The message contains only the position of the first difference.
#[track_caller]
pub fn assert_same(found: &[u8], expected: &[u8]) {
    assert_eq!(found.len(), expected.len());
    let place = found.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!(place, None, "the first byte that differs");
}

/// Returns random-looking bytes, the same ones for the same `seed`.
pub fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes: Vec<u8> = std::iter::repeat_with(|| random.next().to_le_bytes())
        .take(len.div_ceil(8))
        .flatten()
        .collect();
    bytes.truncate(len);
    bytes
}

/// `SplitMix64` (Steele, Lea, Flood 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number less than `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }
}
