// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks where secrets are in the memory of the running program: in locked pages only.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fs::{self, File},
    io::{Read, Write},
    os::unix::fs::FileExt,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use luxor::secret::{SecretBytes, with_key_stack};
use luxor_reference::Aes;
use nix::{
    libc,
    mount::{MntFlags, umount2},
    sys::{
        resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit},
        signal::{Signal, kill},
    },
    unistd::Pid,
};
use serde_json::Value;

use crate::{
    raw::Client,
    support::{FOR_EVER, Kind, Server, Volume, bytes, must_succeed},
    tls,
};

/// The patterns to search for, of 16 bytes each, with their names.
struct Secrets(BTreeMap<[u8; 16], String>);

impl Secrets {
    /// Adds all of `bytes`, as pieces at every multiple of 16.
    fn add(&mut self, name: &str, bytes: &[u8]) {
        for (number, piece) in bytes.as_chunks::<16>().0.iter().enumerate() {
            self.0.insert(*piece, format!("{name}, block {number}"));
        }
    }

    /// Adds an AES key: all round keys, also in the form of the equivalent inverse cipher (FIPS
    /// 197, 5.3.5), and the beginning of the key in the form in which `portable` keeps it.
    fn add_schedule(&mut self, name: &str, key: &[u8]) {
        let schedule = Aes::new(key).schedule().as_flattened().to_vec();
        self.add(&format!("{name}, schedule"), &schedule);
        let inverse: Vec<u8> = schedule.chunks(4).flat_map(inv_mix_column).collect();
        self.add(&format!("{name}, inverse schedule"), &inverse);
        self.add(name, key);
        let bitsliced = bitsliced(key).map(u64::to_le_bytes);
        self.add(&format!("{name}, bitsliced"), bitsliced.as_flattened());
    }

    /// Adds a volume key for XTS.
    fn add_volume_key(&mut self, key: &[u8]) {
        let (data, tweak) = key.split_at(key.len() / 2);
        self.add_schedule("data key", data);
        self.add_schedule("tweak key", tweak);
    }

    /// Adds a passphrase of 64 bytes, with the pads of HMAC (RFC 2104).
    fn add_passphrase(&mut self, passphrase: &[u8]) {
        self.add("passphrase", passphrase);
        assert_eq!(passphrase.len(), 64);
        for (name, pad) in [("inner pad", 0x36), ("outer pad", 0x5c)] {
            let padded: Vec<u8> = passphrase.iter().map(|byte| byte ^ pad).collect();
            self.add(name, &padded);
        }
    }

    /// Waits until all secrets in `process` are in the pages of keys: a thread wipes its stack only
    /// after it has answered. The data key must be in these pages, in the form of `engine`.
    #[track_caller]
    fn must_be_in_pages_of_keys(&self, process: u32, engine: &str) {
        let begun = Instant::now();
        loop {
            let (in_keys, elsewhere): (Vec<_>, Vec<_>) = self
                .found_in(process)
                .into_iter()
                .partition(|hit| hit.pages == Pages::Keys);
            if elsewhere.is_empty() {
                let form = match engine {
                    "portable" => "data key, bitsliced,",
                    _ => "data key, schedule,",
                };
                let is_there = in_keys.iter().any(|hit| hit.secret.starts_with(form));
                assert!(is_there, "{engine}: {in_keys:#?}");
                return;
            }
            assert!(begun.elapsed() < FOR_EVER, "{engine}: {elsewhere:#?}");
        }
    }

    /// Returns the secrets in the writable memory of `process`, and their places.
    fn found_in(&self, process: u32) -> Vec<Hit> {
        let mut starts = vec![false; 1 << 16];
        for secret in self.0.keys() {
            starts[usize::from(u16::from_le_bytes([secret[0], secret[1]]))] = true;
        }
        let memory = File::open(format!("/proc/{process}/mem")).unwrap();
        let mut found = Vec::new();
        for mapping in mappings(process) {
            if !(mapping.has("rd") && mapping.has("wr")) {
                continue;
            }
            let range = mapping.begin..mapping.end;
            let mut content = vec![0; usize::try_from(range.end - range.start).unwrap()];
            for (page, at) in content.chunks_mut(4096).zip((range.start..).step_by(4096)) {
                // Some of the kernel's own pages cannot be read, and stay zero here.
                let _ = memory.read_exact_at(page, at);
            }
            for (offset, window) in content.windows(16).enumerate() {
                if starts[usize::from(u16::from_le_bytes([window[0], window[1]]))]
                    && let Some(secret) = self.0.get(window)
                {
                    let at = range.start + offset as u64;
                    found.push(Hit {
                        secret: secret.clone(),
                        pages: mapping.pages(),
                        place: format!("at {at:#x} in {:?} of {range:x?}", mapping.name),
                    });
                }
            }
        }
        found
    }
}

/// A secret that was found.
#[derive(Debug)]
#[expect(dead_code, reason = "the place appears in messages only")]
struct Hit {
    secret: String,
    pages: Pages,
    place: String,
}

/// The kinds of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pages {
    /// Pages of keys: locked, excluded from dumps and wiped in a fork.
    Keys,
    /// The stack of a thread that handles keys: locked and excluded from dumps.
    LockedStack,
    Other,
}

/// A line of `/proc/PID/maps` with its flags.
struct Mapping {
    begin: u64,
    end: u64,
    name: String,
    flags: Vec<String>,
}

impl Mapping {
    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|found| found == flag)
    }

    fn pages(&self) -> Pages {
        match [self.has("lo") && self.has("dd"), self.has("wf")] {
            [true, true] => Pages::Keys,
            [true, false] => Pages::LockedStack,
            _ => Pages::Other,
        }
    }
}

fn mappings(process: u32) -> Vec<Mapping> {
    let maps = fs::read_to_string(format!("/proc/{process}/smaps")).unwrap();
    let mut mappings = Vec::new();
    let (mut range, mut name) = (0..0, String::new());
    for line in maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[0] == "VmFlags:" {
            mappings.push(Mapping {
                begin: range.start,
                end: range.end,
                name: name.clone(),
                flags: words[1..].iter().map(|&flag| flag.to_owned()).collect(),
            });
        } else if let Some((begin, end)) = words[0].split_once('-') {
            let number = |hex| u64::from_str_radix(hex, 16).unwrap();
            range = number(begin)..number(end);
            name = words.get(5).unwrap_or(&"").to_string();
        }
    }
    mappings
}

/// FIPS 197, 5.3.3.
fn inv_mix_column(column: &[u8]) -> [u8; 4] {
    let double = |x: u8| (x << 1) ^ (0x1b * (x >> 7));
    let product = |x: u8, by: u8| {
        let powers = [x, double(x), double(double(x)), double(double(double(x)))];
        let bits = (0..4).filter(|bit| by >> bit & 1 == 1);
        bits.fold(0, |sum, bit| sum ^ powers[bit])
    };
    std::array::from_fn(|row| {
        let terms = [14, 11, 13, 9].into_iter().enumerate();
        terms.fold(0, |sum, (i, by)| sum ^ product(column[(row + i) % 4], by))
    })
}

/// Bit b of byte 4c + r of the key's first block becomes bits 16r + 4c to 16r + 4c + 3 of word b.
fn bitsliced(key: &[u8]) -> [u64; 8] {
    std::array::from_fn(|bit| {
        (0..16).fold(0, |word, byte| {
            let (column, row) = (byte / 4, byte % 4);
            word | (0xf * u64::from(key[byte] >> bit & 1)) << (16 * row + 4 * column)
        })
    })
}

/// The CPU engines that are available.
fn engines(volume: &Volume) -> Vec<String> {
    let mut luxor = volume.luxor("engines");
    let said = must_succeed(luxor.arg("--json"));
    let json: Value = serde_json::from_str(&said).unwrap();
    let engines = json["engines"].as_array().unwrap().iter();
    let here = engines.filter(|engine| {
        engine["device"]
            .as_str()
            .is_some_and(|d| d.starts_with("CPU"))
    });
    here.map(|engine| engine["name"].as_str().unwrap().to_owned())
        .collect()
}

/// A volume with AES keys of `bits`, and its secrets. The program may lock as much memory as it
/// needs.
fn prepared(bits: usize, plain: &[u8]) -> (Volume, Secrets) {
    unlimit_locks();
    let volume = Volume::with(Kind::EXAMPLE, &format!("--key-size {}", 2 * bits), plain);
    let mut secrets = Secrets(BTreeMap::new());
    secrets.add_volume_key(&volume_key(&volume, "volume"));
    secrets.add_passphrase(&fs::read(volume.path("key")).unwrap());
    (volume, secrets)
}

fn unlimit_locks() {
    let (_, hard) = getrlimit(Resource::RLIMIT_MEMLOCK).unwrap();
    // Root may also raise the hard limit.
    let raised = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY);
    raised
        .or_else(|_| setrlimit(Resource::RLIMIT_MEMLOCK, hard, hard))
        .unwrap();
}

fn volume_key(volume: &Volume, name: &str) -> Vec<u8> {
    let file = format!("{name}.vk");
    let mut luxor = volume.luxor("dump");
    luxor.args("--volume-key --batch-mode --key-file key --volume-key-file".split(' '));
    must_succeed(luxor.args([&file, name]));
    fs::read(volume.path(&file)).unwrap()
}

/// A program that is stopped at the latest when the test ends.
struct Running(Child);

impl Running {
    /// Starts `luxor COMMAND ARGUMENTS`, without standard output if the test does not read it.
    fn luxor(volume: &Volume, command: &str, arguments: &str, stdout: Stdio) -> Self {
        let mut luxor = volume.luxor(command);
        luxor.args(arguments.split_whitespace());
        Self(luxor.stdout(stdout).spawn().unwrap())
    }

    fn read(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let stdout = self.0.stdout.as_mut().unwrap();
        stdout.read_exact(&mut bytes).unwrap();
        bytes
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends SIGCONT, as after Ctrl-Z and `fg`, to the process and to each of its threads.
fn continue_all(process: u32) {
    let id = |id: u32| libc::pid_t::try_from(id).unwrap();
    kill(Pid::from_raw(id(process)), Signal::SIGCONT).unwrap();
    for thread in fs::read_dir(format!("/proc/{process}/task")).unwrap() {
        let name = thread.unwrap().file_name();
        let thread = name.to_str().unwrap().parse().unwrap();
        // SAFETY: `tgkill` only sends a signal and takes no pointers. For a thread that has ended
        // it returns an error.
        unsafe { libc::syscall(libc::SYS_tgkill, id(process), id(thread), libc::SIGCONT) };
    }
}

#[test]
fn a_server_has_secrets_in_locked_pages_only() {
    let plain = bytes(4 << 20, 9);
    for bits in [128, 256] {
        let (volume, secrets) = prepared(bits, &plain);
        for engine in engines(&volume) {
            let server = volume.serve(&format!("--engine {engine}"));
            let mut client = Client::new(&volume);
            for round in 0..20 {
                let found = client.read(round * 4096, 300_000).unwrap();
                assert!(found == plain[round * 4096..][..300_000]);
                let part = &plain[round * 4096..][..4096];
                client.write(round * 4096, part).unwrap();
                continue_all(server.pid());
            }
            // The last reply may be sent before the stack is wiped.
            secrets.must_be_in_pages_of_keys(server.pid(), &engine);
            let locked = |mapping: &Mapping| mapping.pages() == Pages::LockedStack;
            assert!(
                mappings(server.pid()).iter().any(locked),
                "no stack is locked"
            );
            drop(client);
            server.stop();
        }
    }
}

#[test]
fn a_mount_has_secrets_in_locked_pages_only() {
    /// Unmounts the folder when the test ends, even after a panic.
    struct Folder(std::path::PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = umount2(&self.0, MntFlags::MNT_DETACH);
        }
    }

    let plain = bytes(4 << 20, 9);
    let (volume, secrets) = prepared(128, &plain);
    fs::create_dir(volume.path("dir")).unwrap();
    for engine in engines(&volume) {
        let folder = Folder(volume.path("dir"));
        let line = format!("--key-file key --engine {engine} --name file volume dir");
        let mut mount = Running::luxor(&volume, "mount", &line, Stdio::null());
        let begun = Instant::now();
        let path = folder.0.join("file");
        while !path.exists() {
            assert!(begun.elapsed() < FOR_EVER, "no file appears");
            assert_eq!(mount.0.try_wait().unwrap(), None);
            thread::sleep(Duration::from_millis(1));
        }
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut found = vec![0; 300_000];
        for round in 0..20 {
            file.read_exact_at(&mut found, round * 4096).unwrap();
            file.write_all_at(&found[..5000], round * 4096).unwrap();
            continue_all(mount.0.id());
        }
        drop(file);
        secrets.must_be_in_pages_of_keys(mount.0.id(), &engine);
        let pid = Pid::from_raw(mount.0.id().try_into().unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        assert!(mount.0.wait().unwrap().success());
    }
}

/// The process is also stopped and continued while it works and while it waits for its reader.
#[test]
fn decrypting_has_secrets_in_locked_pages_only() {
    for bits in [128, 256] {
        let (volume, secrets) = prepared(bits, &bytes(4 << 20, 9));
        for engine in engines(&volume) {
            let line = format!("--key-file key --engine {engine} volume -");
            let mut luxor = Running::luxor(&volume, "decrypt", &line, Stdio::piped());
            for _ in 0..32 {
                luxor.read(64 << 10);
                continue_all(luxor.0.id());
            }
            // There are more data than a pipe holds.
            for _ in 0..20 {
                thread::sleep(Duration::from_millis(1));
                continue_all(luxor.0.id());
            }
            secrets.must_be_in_pages_of_keys(luxor.0.id(), &engine);
        }
    }
}

#[test]
fn encrypting_has_secrets_in_locked_pages_only() {
    let (volume, _) = prepared(128, &bytes(4 << 20, 9));
    for engine in engines(&volume) {
        let costs = "--pbkdf pbkdf2 --pbkdf-force-iterations 1000";
        let line = format!("--key-file key {costs} --key-size 256 --engine {engine} plain -");
        let mut luxor = Running::luxor(&volume, "encrypt", &line, Stdio::piped());
        // The header and 1 MiB of data. The rest is more than a pipe holds.
        let begin = luxor.read((16 << 20) + (1 << 20));
        volume.write(&engine, begin);
        let mut secrets = Secrets(BTreeMap::new());
        secrets.add_volume_key(&volume_key(&volume, &engine));
        secrets.add_passphrase(&fs::read(volume.path("key")).unwrap());
        continue_all(luxor.0.id());
        secrets.must_be_in_pages_of_keys(luxor.0.id(), &engine);
    }
}

/// While keys are derived, the stacks of those threads contain states of hashes, which this does
/// not search for, and may contain the secrets that it searches for. These stacks are locked.
#[test]
fn deriving_has_secrets_in_locked_pages_only() {
    const SLOW: &str = "--pbkdf-force-iterations 5000000";
    let (volume, mut secrets) = prepared(256, &bytes(512, 9));
    let new = bytes(64, 5);
    secrets.add_passphrase(&new);
    volume.write("new-key", new);
    let pbkdf2 = format!("--pbkdf pbkdf2 {SLOW}");
    let mut luxor = volume.luxor("encrypt");
    let line = format!("--key-file key {pbkdf2} plain slow");
    must_succeed(luxor.args(line.split(' ')));
    let argon2 = "--pbkdf argon2id --pbkdf-memory 32768 --pbkdf-force-iterations 500";
    for (command, arguments) in [
        ("key", "test --key-file key slow".to_owned()),
        ("encrypt", format!("--key-file key {pbkdf2} plain new")),
        (
            "encrypt",
            format!("--key-file key --hash sha512 {pbkdf2} plain new"),
        ),
        ("encrypt", format!("--key-file key {argon2} plain new")),
        (
            "encrypt",
            format!("--key-file key --type luks1 {SLOW} plain new"),
        ),
        ("format", format!("--key-file key {pbkdf2} --size 1MiB new")),
        (
            "key",
            format!("add --key-file key --new-key-file new-key {pbkdf2} volume"),
        ),
    ] {
        let line = format!("{command} {arguments}");
        let mut luxor = Running::luxor(&volume, command, &arguments, Stdio::null());
        // Each command takes more CPU time than this, so it is still deriving.
        while cpu_ticks(luxor.0.id()) < 10 {
            assert_eq!(luxor.0.try_wait().unwrap(), None, "{line}");
            thread::sleep(Duration::from_millis(1));
        }
        let pid = Pid::from_raw(luxor.0.id().try_into().unwrap());
        kill(pid, Signal::SIGSTOP).unwrap();
        let mut found = secrets.found_in(luxor.0.id());
        let mappings = mappings(luxor.0.id());
        assert_eq!(
            luxor.0.try_wait().unwrap(),
            None,
            "{line} was over too early"
        );
        let is_passphrase = |hit: &Hit| hit.secret.starts_with("passphrase");
        assert!(
            found.iter().any(is_passphrase),
            "{line}: the scan does not find the passphrase"
        );
        found.retain(|hit| hit.pages == Pages::Other);
        assert!(found.is_empty(), "{line}: {found:#?}");
        let is_main = |mapping: &Mapping| mapping.name == "[stack]";
        let mut main = mappings.iter().filter(|mapping| is_main(mapping));
        let is_locked = main.any(|mapping| mapping.pages() == Pages::LockedStack);
        assert!(
            is_locked,
            "{line}: the stack is neither locked nor kept out of dumps"
        );
    }
}

/// The key is read from a file, through a pipe in two parts, or from the file that also contains
/// the certificate.
#[test]
fn a_server_has_no_text_of_its_tls_key_in_ordinary_memory() {
    let (volume, _) = tls::prepared();
    volume.run("openssl genrsa -out rsa.key 3072", &[]);
    volume.run(
        "openssl req -x509 -config config -new -key rsa.key -days 2 -extensions server \
         -subj /CN=server -out rsa.pem -CA authority.pem -CAkey authority.key",
        &[],
    );
    let both = |name: &str| {
        let file = |end| fs::read(volume.path(&format!("{name}.{end}"))).unwrap();
        volume.write(&format!("{name}.both"), [file("key"), file("pem")].concat());
    };
    both("server");
    both("rsa");
    volume.run("mkfifo pipe", &[]);
    for (key, certificate, from) in [
        ("server.key", "server.pem", "server.key"),
        ("rsa.key", "rsa.pem", "rsa.key"),
        ("server.key", "server.pem", "pipe"),
        ("rsa.key", "rsa.pem", "pipe"),
        ("server.key", "server.both", "server.both"),
        ("rsa.key", "rsa.both", "rsa.both"),
    ] {
        let text = fs::read(volume.path(key)).unwrap();
        let mut secrets = Secrets(BTreeMap::new());
        for line in text.split(|&byte| byte == b'\n') {
            // All keys of one kind begin alike, but the second half of each line is unique.
            if !line.starts_with(b"-") {
                secrets.add("the key's text", &line[line.len().min(32)..]);
            }
        }
        assert!(!secrets.0.is_empty());
        let line = format!(
            "--listen 127.0.0.1:0 --tls-cert {certificate} --tls-key {from} --tls-ca authority.pem"
        );
        let command = volume.serving(&line);
        let server = thread::scope(|scope| {
            if from == "pipe" {
                let pipe = volume.path("pipe");
                scope.spawn(move || {
                    let mut pipe = File::create(pipe).unwrap();
                    let (early, late) = text.split_at(text.len() / 2);
                    pipe.write_all(early).unwrap();
                    pipe.write_all(late).unwrap();
                });
            }
            Server::start(command)
        });
        let found = secrets.found_in(server.pid());
        assert!(found.is_empty(), "{from}: {found:#?}");
        server.stop();
    }
}

/// Returns the CPU time of a process in hundredths of a second.
fn cpu_ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    fields[11].parse().unwrap()
}

/// With 20 clients, the stacks of the server exceed this limit. Without clients they do not. Limits
/// do not apply to root unless it gives up the capability.
#[test]
fn a_server_notes_the_first_stack_that_is_not_locked() {
    const NOTE: &str = "luxor: note: memory for secrets could not be locked";
    let volume = Volume::new(Kind::EXAMPLE, &bytes(1 << 20, 9));
    for (limit, is_noted) in [
        ("0", true),
        ("4", true),
        ("8", true),
        ("300", true),
        ("8192", false),
    ] {
        let limited = format!("ulimit -l {limit}; exec \"$@\"");
        let line = "--bounding-set=-ipc_lock --inh-caps=-ipc_lock -- sh -c";
        let mut command = volume.command("setpriv", line.split(' '));
        let serving = volume.serving("--verbose --socket socket");
        command.args([&limited, "sh"]).arg(serving.get_program());
        let server = {
            command.args(serving.get_args());
            Server::start(command)
        };
        let mut clients: Vec<Client> = (0..20).map(|_| Client::new(&volume)).collect();
        for client in &mut clients {
            client.read(0, 4096).unwrap();
        }
        drop(clients);
        server.signal(Signal::SIGTERM);
        let before = server.said.clone();
        let (code, after) = server.ended();
        assert_eq!(code, Some(0), "{after}");
        let said = before + &after;
        assert_eq!(
            said.matches(NOTE).count(),
            usize::from(is_noted),
            "{limit}: {said}"
        );
    }
}

/// More than all pieces of a test's secrets together.
const LEAK: usize = 8 << 10;

/// The environment variable with the place where this program leaks.
const LEAK_PLACE: &str = "LUXOR_TEST_LEAK_PLACE";

/// Checks that the scan finds each form of a secret at each kind of place. The scanned program is
/// this test, started again.
#[test]
fn the_scan_finds_each_leak() {
    if let Ok(place) = env::var(LEAK_PLACE) {
        return leak_at(&place);
    }
    let mut secrets = Secrets(BTreeMap::new());
    unlimit_locks();
    secrets.add_volume_key(&bytes(64, 12));
    secrets.add_passphrase(&bytes(64, 13));
    let names: BTreeSet<&String> = secrets.0.values().collect();
    let mut pieces = secrets.0.keys().copied().collect::<Vec<_>>().concat();
    assert!(pieces.len() <= LEAK);
    pieces.resize(LEAK, 0);
    for (place, pages) in [
        ("heap", Pages::Other),
        ("stack", Pages::Other),
        ("locked stack", Pages::LockedStack),
        ("pages of keys", Pages::Keys),
    ] {
        let mut program = Command::new(env::current_exe().unwrap());
        program
            .args(["--exact", "memory::the_scan_finds_each_leak", "--nocapture"])
            .env(LEAK_PLACE, place)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut program = Running(program.spawn().unwrap());
        program
            .0
            .stdin
            .as_mut()
            .unwrap()
            .write_all(&pieces)
            .unwrap();
        program
            .0
            .stderr
            .as_mut()
            .unwrap()
            .read_exact(&mut [0])
            .unwrap();
        let found = secrets.found_in(program.0.id());
        let found_names: BTreeSet<_> = found.iter().map(|hit| &hit.secret).collect();
        assert_eq!(found_names, names, "{place}");
        assert!(
            found.iter().all(|hit| hit.pages == pages),
            "{place}: {found:#?}"
        );
    }
}

/// Reads standard input into a place in memory, and waits.
fn leak_at(place: &str) {
    let leak = |place: &mut [u8]| {
        // `std::io::stdin` has a buffer, which would contain a copy.
        let mut stdin = File::open("/dev/stdin").unwrap();
        stdin.read_exact(place).unwrap();
        std::io::stderr().write_all(b".").unwrap();
        // Waits until the end of the test, when the writing end is closed.
        let _ = stdin.read(&mut [0]);
        std::hint::black_box(place);
    };
    match place {
        "heap" => leak(&mut vec![0; LEAK]),
        "stack" => leak(&mut [0; LEAK]),
        "locked stack" => with_key_stack(|| leak(&mut [0; LEAK])),
        "pages of keys" => leak(SecretBytes::zeroed(LEAK).expose_mut()),
        _ => panic!("no such place: {place}"),
    }
}
