// SPDX-License-Identifier: MIT OR Apache-2.0
//! NBD servers: processes that run only while they are measured.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::unix::{net::UnixStream, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::{
        prctl,
        signal::{Signal, kill},
    },
    unistd::{Pid, getppid},
};

use crate::{machine, plaintext};

/// The argument that makes this program become another one that ends with its parent.
pub(crate) const STAY: &str = "--stay-with-parent";

/// Becomes the program, unless the parent with the given ID is already gone.
pub(crate) fn stay(words: &[OsString]) -> ExitCode {
    let [parent, program, arguments @ ..] = words else {
        return ExitCode::FAILURE;
    };
    if let Err(error) = prctl::set_pdeathsig(Signal::SIGKILL) {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    if parent.to_str() != Some(&getppid().to_string()) {
        return ExitCode::FAILURE;
    }
    // `exec` returns only if it fails.
    let error = Command::new(program).args(arguments).exec();
    eprintln!("{}: {error}", program.display());
    ExitCode::FAILURE
}

/// The most time until a server accepts connections. One of them derives a key first.
const START: Duration = Duration::from_secs(60);

/// A running server. Dropping it kills it: what it serves is not needed afterwards.
pub(crate) struct Server {
    child: Child,
    uri: OsString,
    /// The file with its messages.
    log: PathBuf,
    /// The pipes for questions and answers.
    pipes: Option<(ChildStdin, BufReader<ChildStdout>)>,
}

impl Server {
    /// Starts a program that listens at `socket`, and waits until it does. Its messages go to
    /// `log`.
    pub(crate) fn start(words: &[OsString], socket: &Path, log: &Path) -> Result<Self, String> {
        let own = env::current_exe().map_err(|e| e.to_string())?;
        let line: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let failed = |what: &dyn std::fmt::Display| format!("`{}`: {what}", line.join(" "));
        let said = File::create(log).map_err(|e| failed(&e))?;
        let mut child = Command::new(own)
            .arg(STAY)
            .arg(std::process::id().to_string())
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said)
            .spawn()
            .map_err(|e| failed(&e))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let mut uri = OsString::from("nbd+unix:///?socket=");
        uri.push(socket);
        let mut server = Self {
            child,
            uri,
            log: log.to_owned(),
            pipes: pipes.map(|(to, from)| (to, BufReader::new(from))),
        };
        let begun = Instant::now();
        while UnixStream::connect(socket).is_err() {
            let ended = server.child.try_wait().map_err(|e| failed(&e))?;
            if ended.is_some() || begun.elapsed() > START {
                let said = server.log();
                let how = ended.map_or("does not listen".to_owned(), |status| status.to_string());
                return Err(failed(&format!("{how}: {}", said.trim())));
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(server)
    }

    /// Returns the URI for clients.
    pub(crate) fn uri(&self) -> &OsString {
        &self.uri
    }

    /// Returns its messages so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Asks the server to end, and waits until it has. Fails if it fails.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        let failed = |what: &dyn std::fmt::Display| format!("the server: {what}");
        let id = i32::try_from(self.child.id()).map_err(|e| failed(&e))?;
        // If it has ended already, its status says why.
        let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        let status = self.child.wait().map_err(|e| failed(&e))?;
        if status.success() {
            Ok(())
        } else {
            Err(failed(&format!("{status}: {}", self.log().trim())))
        }
    }

    /// Reads the disk with `nbdcopy`, and compares it with the known bytes.
    pub(crate) fn compare(&self, len: usize) -> Result<(), String> {
        let failed = |what: &dyn std::fmt::Display| format!("`nbdcopy`: {what}");
        let mut copy = Command::new("nbdcopy")
            .args([&self.uri, OsStr::new("-")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| failed(&e))?;
        let bytes = copy.stdout.take().ok_or_else(|| failed(&"no output"))?;
        let compared = plaintext::compare(bytes, len);
        let status = copy.wait().map_err(|e| failed(&e))?;
        compared.map_err(|e| failed(&e))?;
        if status.success() {
            Ok(())
        } else {
            Err(failed(&status))
        }
    }

    /// Returns the CPU time of the server's threads, in hundredths of a second; `None` if it has
    /// ended.
    pub(crate) fn cpu_seconds(&self) -> Option<f64> {
        let stat = fs::read_to_string(self.proc("stat")).ok()?;
        cpu_seconds(&stat)
    }

    /// Returns the most memory that the server used at a time, in bytes.
    pub(crate) fn peak_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(self.proc("status")).ok()?;
        let bytes = machine::memory(&status, "VmHWM:")?;
        u64::try_from(bytes).ok()
    }

    /// Sends the server an empty line, and returns the line that it answers without its newline.
    /// For [`crate::disk`].
    pub(crate) fn ask(&mut self) -> Result<String, String> {
        let (to, from) = self.pipes.as_mut().ok_or("the server has no pipes")?;
        let mut line = String::new();
        to.write_all(b"\n")
            .and_then(|()| from.read_line(&mut line))
            .map_err(|e| format!("the server does not answer: {e}"))?;
        Ok(line.trim_end().to_owned())
    }

    fn proc(&self, file: &str) -> PathBuf {
        format!("/proc/{}/{file}", self.child.id()).into()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Parses `/proc/PID/stat`: user and system time, which the kernel shows in hundredths of a second
/// on every machine.
fn cpu_seconds(stat: &str) -> Option<f64> {
    // The second field is the program's name, which may contain any bytes.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let user: f64 = fields.nth(11)?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_on_cores_is_found_behind_any_name() {
        let stat = "7 (a ) 1 (b) S 1 7 7 0 -1 4194560 100 0 0 0 250 75 9 9 20 0 1 0 12 3 4";
        assert_eq!(cpu_seconds(stat), Some(3.25));
        assert_eq!(cpu_seconds("7 (a"), None);
    }
}
