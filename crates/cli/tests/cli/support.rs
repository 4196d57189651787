// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the program and other programs for the tests.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

/// Whether the tests run in their long form, as with `cargo xtask test --long`.
pub fn is_long() -> bool {
    env::var_os("LUXOR_TEST_LONG").is_some()
}

/// A command line under construction.
pub struct Luxor {
    command: Command,
    stdin: Option<Vec<u8>>,
}

/// Returns `luxor` with arguments that contain no spaces.
pub fn luxor(arguments: &str) -> Luxor {
    Luxor::new().args(arguments.split_whitespace())
}

impl Luxor {
    pub fn new() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_luxor"));
        command
            // Ignore a calibration in the user's cache folder.
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self {
            command,
            stdin: None,
        }
    }

    /// The same, with a time limit, after which the program is ended with exit code 124.
    pub fn within(limit: Duration) -> Self {
        let luxor = Self::new();
        let mut timeout = Command::new("timeout");
        timeout
            .arg(limit.as_secs().to_string())
            .arg(luxor.command.get_program())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self {
            command: timeout,
            stdin: None,
        }
    }

    /// The same, as the last arguments of `tracer`.
    pub fn under(mut self, tracer: &str) -> Self {
        let mut words = tracer.split_whitespace();
        let mut command = Command::new(words.next().expect("there is a program"));
        command
            .args(words)
            .arg(self.command.get_program())
            .args(self.command.get_args())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (name, value) in self.command.get_envs() {
            command.env(name, value.expect("none is removed"));
        }
        if let Some(folder) = self.command.get_current_dir() {
            command.current_dir(folder);
        }
        self.command = command;
        self
    }

    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(arguments);
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Passes bytes to standard input through a pipe. Otherwise standard input is /dev/null.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.command.stdin(Stdio::piped());
        self.stdin = Some(bytes.into());
        self
    }

    pub fn stdin_from(mut self, stdin: impl Into<Stdio>) -> Self {
        self.command.stdin(stdin);
        self
    }

    pub fn stdout_to(mut self, stdout: impl Into<Stdio>) -> Self {
        self.command.stdout(stdout);
        self
    }

    pub fn stderr_to(mut self, stderr: impl Into<Stdio>) -> Self {
        self.command.stderr(stderr);
        self
    }

    pub fn current_dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    pub fn spawn(mut self) -> Child {
        let mut child = self.command.spawn().expect("the program starts");
        if let Some(bytes) = self.stdin {
            let mut pipe = child.stdin.take().unwrap();
            // The program may end without reading everything.
            thread::spawn(move || drop(pipe.write_all(&bytes)));
        }
        child
    }

    /// Runs to the end.
    pub fn run(self) -> Outcome {
        let line = format!("{:?}", self.command);
        Outcome::new(line, self.spawn().wait_with_output().unwrap())
    }

    /// Runs to the end and checks that it succeeds.
    #[track_caller]
    pub fn ok(self) -> Outcome {
        let outcome = self.run();
        outcome.assert_code(0);
        outcome
    }

    /// Runs to the end and checks the failure: the exit code, a line that begins with `luxor: ` and
    /// contains `words`, optionally a hint, and nothing on standard output.
    #[track_caller]
    pub fn fails(self, code: i32, words: &str) -> Outcome {
        let outcome = self.run();
        outcome.assert_code(code);
        assert!(outcome.stderr.starts_with("luxor: "), "{outcome:#?}");
        assert!(
            outcome.stderr.contains(words),
            "no {words:?} in {outcome:#?}"
        );
        assert!(!outcome.stderr.contains("os error"), "{outcome:#?}");
        let lines: Vec<_> = outcome.stderr.lines().collect();
        assert!(
            lines[1..]
                .iter()
                .all(|line| line.starts_with("  ") || line.is_empty()),
            "{outcome:#?}"
        );
        assert!(outcome.stdout.is_empty(), "{outcome:#?}");
        outcome
    }
}

/// The result of a program.
#[derive(Debug)]
pub struct Outcome {
    pub line: String,
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Outcome {
    pub fn new(line: String, output: Output) -> Self {
        Self {
            line,
            code: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    pub fn assert_code(&self, code: i32) {
        assert_eq!(
            self.code,
            Some(code),
            "{}\n{}\n{}",
            self.line,
            self.stderr,
            String::from_utf8_lossy(&self.stdout)
        );
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("standard output is text")
    }
}

/// Runs another program, which must be installed and succeed.
#[track_caller]
pub fn tool(program: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Outcome {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let line = format!("{command:?}");
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{program} is needed: {e}"));
    let outcome = Outcome::new(line, output);
    outcome.assert_code(0);
    outcome
}

/// A temporary folder for one test.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a new file.
    pub fn write(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Lets other users write to the folder.
    pub fn open_to_everybody(&self) {
        fs::set_permissions(self.path(), fs::Permissions::from_mode(0o777)).unwrap();
    }

    /// The names of its files, sorted.
    pub fn names(&self) -> Vec<OsString> {
        let mut names: Vec<_> = fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    }
}

/// Returns random-looking bytes, the same ones for the same seed.
pub fn bytes(len: usize, seed: u64) -> Vec<u8> {
    // SplitMix64 (Steele, Lea, Flood 2014).
    let mut state = seed;
    let mut words = std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    });
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(words.next().unwrap().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Changes the text of the LUKS2 metadata in both copies of a header of the usual length.
pub fn with_metadata(volume: &[u8], change: impl Fn(&str) -> String) -> Vec<u8> {
    let folder = Folder::new();
    let mut bytes = volume.to_vec();
    for copy in bytes.chunks_mut(16 << 10).take(2) {
        let text = copy[4096..].split(|&byte| byte == 0).next().unwrap();
        let text = change(str::from_utf8(text).unwrap());
        copy[4096..].fill(0);
        copy[4096..][..text.len()].copy_from_slice(text.as_bytes());
        copy[448..512].fill(0);
        folder.write("copy", &copy);
        let sum = tool("sha256sum", [folder.join("copy")]).text()[..64].to_owned();
        for (place, digits) in copy[448..480].iter_mut().zip(sum.as_bytes().chunks(2)) {
            *place = u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap();
        }
    }
    bytes
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs `luxor COMMAND ARGUMENTS` in a session without a terminal.
pub fn without_terminal(command: &str, arguments: &[&str], dir: &Path) -> Outcome {
    let line = [&["\"$luxor\"", command], arguments].concat();
    shell_without_terminal(&line.join(" "), dir)
}

/// Runs a line of shell, with `luxor` in `$luxor`, in a session without a terminal.
pub fn shell_without_terminal(shell: &str, dir: &Path) -> Outcome {
    let mut setsid = Command::new("setsid");
    setsid
        .args(["--wait", "sh", "-c", shell])
        .env("luxor", env!("CARGO_BIN_EXE_luxor"))
        .current_dir(dir)
        .stdin(Stdio::null());
    let output = setsid.output().expect("setsid is needed");
    Outcome::new(format!("{setsid:?}"), output)
}

/// Runs `luxor LINE` on a new terminal, as [`terminal_shell`] does. Then prints whether the
/// terminal's echo is on.
pub fn terminal(line: &str, answers: &[&str], dir: &Path) -> (i32, String) {
    // The shell survives Ctrl-C, so that it can examine the terminal.
    let shell = format!(
        "trap : INT; \"$luxor\" {line}; code=$?; stty -a | grep -q ' echo ' && echo the echo is on; exit $code"
    );
    terminal_shell(&shell, answers, dir)
}

/// Runs a line of shell, with `luxor` in `$luxor`, on a new terminal. Types each of `answers` at a
/// prompt (a line that ends with a colon and a space). Returns the exit code and everything that
/// was on the screen.
pub fn terminal_shell(shell: &str, answers: &[&str], dir: &Path) -> (i32, String) {
    // Other text than a prompt may be read up to a colon and a space too.
    let asks = |_: &str| !answers.is_empty();
    answered_when(asks, shell, answers.iter().copied(), dir)
}

/// The same, with an iterator that makes each answer when it is needed, so that it can act while
/// the program waits.
pub fn answered<'a>(
    shell: &str,
    answers: impl Iterator<Item = &'a str>,
    dir: &Path,
) -> (i32, String) {
    answered_when(|_| true, shell, answers, dir)
}

/// The same, but a prompt counts only if `asks` returns true for the contents of the screen. Text
/// that appears soon after a prompt may be read together with it.
pub fn answered_when<'a>(
    asks: impl Fn(&str) -> bool,
    shell: &str,
    mut answers: impl Iterator<Item = &'a str>,
    dir: &Path,
) -> (i32, String) {
    let answer = |screen: &str| {
        let answer = || answers.next().map(str::to_owned);
        let answer = asks(screen).then(answer)?;
        Some(answer.unwrap_or_else(|| panic!("no answer to {screen:?}")))
    };
    let (code, screen) = typed(shell, answer, dir);
    assert!(
        answers.next().is_none(),
        "not asked for everything: {screen}"
    );
    (code, screen)
}

/// The same. `answer` is called with the contents of the screen whenever they end like a prompt, and
/// returns what to type, if it is one.
pub fn typed(
    shell: &str,
    mut answer: impl FnMut(&str) -> Option<String>,
    dir: &Path,
) -> (i32, String) {
    let mut script = Command::new("script");
    script
        .args(["--quiet", "--return", "--command", shell, "/dev/null"])
        .current_dir(dir)
        .env("luxor", env!("CARGO_BIN_EXE_luxor"))
        .env("SHELL", "/bin/bash")
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut script = script.spawn().expect("script (util-linux) is needed");
    let mut keyboard = script.stdin.take().unwrap();
    let mut display = script.stdout.take().unwrap();

    let mut screen = Vec::new();
    let mut seen = 0;
    let mut buf = [0; 4096];
    loop {
        let count = display.read(&mut buf).unwrap();
        if count == 0 {
            break;
        }
        screen.extend_from_slice(&buf[..count]);
        if screen.len() > seen
            && screen.ends_with(b": ")
            && let Some(answer) = answer(&show(&screen))
        {
            seen = screen.len();
            keyboard.write_all(answer.as_bytes()).unwrap();
        }
    }
    let status = script.wait().unwrap();
    (status.code().unwrap(), show(&screen))
}

fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The quickest key derivation.
pub const FAST: [&str; 4] = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];

impl Luxor {
    /// Runs to the end, and returns the peak of its resident memory in KiB.
    pub fn run_measured(self) -> (Outcome, u64) {
        let line = format!("{:?}", self.command);
        let child = self.spawn();
        let status = format!("/proc/{}/status", child.id());
        // VmHWM is a peak value, so the last reading before the end is nearly complete.
        let watch = thread::spawn(move || {
            let mut peak = 0;
            while let Ok(text) = fs::read_to_string(&status) {
                let mark = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
                // A process that has ended has no VmHWM.
                let Some(mark) = mark else { break };
                peak = mark.trim().trim_end_matches(" kB").parse().unwrap();
                thread::sleep(Duration::from_millis(2));
            }
            peak
        });
        let outcome = Outcome::new(line, child.wait_with_output().unwrap());
        let peak = watch.join().unwrap();
        assert!(peak > 0, "nothing was measured");
        (outcome, peak)
    }
}

/// Copies the program. Another process makes the copy: if this process wrote it, programs that
/// other tests start could inherit the open file, and a file that is open for writing cannot be
/// executed.
pub fn copy_program(to: &Path) {
    tool("cp", [env!("CARGO_BIN_EXE_luxor").as_ref(), to]);
}

/// Runs a line of shell with `luxor` in `$luxor`, as a user without privileges.
pub fn as_nobody(line: &str, dir: &Path) -> Outcome {
    let program = dir.join("luxor-program");
    copy_program(&program);
    let mut command = if nix::unistd::geteuid().is_root() {
        let mut setpriv = Command::new("setpriv");
        setpriv.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--",
            "sh",
        ]);
        setpriv
    } else {
        Command::new("sh")
    };
    command
        .args(["-c", line])
        .env("luxor", &program)
        .current_dir(dir)
        .stdin(Stdio::null());
    let outcome = Outcome::new(line.into(), command.output().expect("setpriv is needed"));
    fs::remove_file(program).unwrap();
    outcome
}
