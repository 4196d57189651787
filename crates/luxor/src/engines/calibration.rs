// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast this machine's devices are compared with its CPU: the file `luxor/calibration.json` in
//! the user's cache folder. `luxor engines --calibrate` writes it and `--engine auto` reads it. It
//! contains no secrets.

use std::{
    env,
    ffi::OsString,
    fs::{self, DirBuilder, File},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
};

use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};

use luxor_files::{open, open_to_read, path_name};

use crate::{Error, Result, error::Cause};

/// The shortest call that is measured, in bytes. Shorter calls always go to the CPU: waking a
/// device takes longer than the call itself.
pub const LEAST_CALL: usize = 512 << 10;

const SCHEMA: u32 = 1;

/// A longer file is not a calibration.
const MAX_LEN: u64 = 1 << 20;

/// Why engines are not compared, or there is no calibration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrationError {
    /// Neither `XDG_CACHE_HOME` nor `HOME` is an absolute path.
    #[error("there is no cache folder to keep a calibration in")]
    NoFolder,
    /// There is no calibration.
    #[error("no device was compared with this CPU")]
    None,
    /// The calibration cannot be read.
    #[error("cannot read {file}: {}", luxor_files::io_words(source))]
    Read {
        /// The name of the file, for messages.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// The calibration is of no use here.
    #[error("{file} is {what}")]
    Old {
        /// The name of the file, for messages.
        file: String,
        /// What it is, in words.
        what: String,
    },
    /// An engine computes something else than the CPU.
    #[error("the engine {device} gives different results from {cpu} and must not be used")]
    Wrong {
        /// The name of the engine.
        device: &'static str,
        /// The name of the CPU's engine.
        cpu: &'static str,
    },
}

impl Cause for CalibrationError {}

/// The results of a calibration. `docs/examples/calibration.json` is an example.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Calibration {
    schema: u32,
    /// The version of the program that made it.
    luxor: String,
    /// The CPU that the devices were compared with.
    pub cpu: Cpu,
    /// One entry for each device that was found.
    pub devices: Vec<Device>,
}

/// The CPU that devices were compared with.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Cpu {
    /// The name that the system reports for the processor.
    pub model: String,
    /// The engine that `--engine auto` chooses.
    pub engine: String,
    /// The number of threads that the CPU's engine used.
    pub threads: usize,
}

/// The results for the engine of one device.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Device {
    /// The engine's name, such as `cuda`.
    pub engine: String,
    /// The device's description.
    pub device: String,
    /// The shortest call, in bytes, from which on every measured call was at least 10 % faster than
    /// on the CPU. `None` if there is no such length or the device is not used.
    pub wins_from: Option<usize>,
    /// Why the device is not used, whatever its results are. `None` if the results decide.
    pub reason: Option<String>,
    /// The measured calls, from short to long.
    pub calls: Vec<Call>,
}

/// The median rates for calls of one length, with the data in host memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Call {
    /// The length of a call in bytes.
    pub bytes: usize,
    /// Bytes a second on the CPU.
    pub cpu: u64,
    /// Bytes a second on the device.
    pub device: u64,
}

impl Cpu {
    /// Describes this machine, with the engine and the number of threads that it would use.
    #[must_use]
    pub fn of_this_machine(engine: &str, threads: usize) -> Self {
        Self {
            model: cpu_model().unwrap_or_else(|| "unknown".into()),
            engine: engine.into(),
            threads,
        }
    }
}

/// Returns the model of the first processor. The file has an entry for each processor: the first
/// entry lies within 4096 bytes.
fn cpu_model() -> Option<String> {
    let mut text = Vec::new();
    let file = open_to_read("/proc/cpuinfo").ok()?;
    file.take(4096).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

impl Calibration {
    /// Makes a calibration of this version of the program from results.
    /// [`calibrate`](fn@crate::engines::calibrate) measures them.
    #[must_use]
    pub fn new(cpu: Cpu, devices: Vec<Device>) -> Self {
        Self {
            schema: SCHEMA,
            luxor: env!("CARGO_PKG_VERSION").into(),
            cpu,
            devices,
        }
    }

    /// Returns the device that is faster than the CPU from some length on, and that length. Of
    /// several devices it is the one that was fastest with the longest calls.
    #[must_use]
    pub fn winner(&self) -> Option<(&Device, usize)> {
        let winners = self.devices.iter();
        let winners = winners.filter_map(|device| Some((device, device.wins_from?)));
        winners.max_by_key(|(device, _)| device.calls.last().map(|call| call.device))
    }

    /// Returns the engine and the description of each device that is not used whatever its results are, with the
    /// reason.
    pub(super) fn given_up(&self) -> Vec<[String; 3]> {
        let given_up = self.devices.iter().filter_map(|device| {
            let reason = device.reason.clone()?;
            Some([device.engine.clone(), device.device.clone(), reason])
        });
        given_up.collect()
    }

    /// Returns the calibration as JSON: the contents of the file that [`Calibration::write`]
    /// writes.
    #[must_use]
    #[expect(
        clippy::missing_panics_doc,
        reason = "texts, numbers and lists are always JSON"
    )]
    pub fn json(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("texts, numbers and lists are JSON");
        json + "\n"
    }

    /// Reads the calibration at `path`. It is usable only if this version of the program made it
    /// for the CPU, engine and number of threads that `cpu` returns. `cpu` is called only if the
    /// file can be read.
    ///
    /// # Errors
    /// [`CalibrationError::None`] if there is no file, [`CalibrationError::Read`] and
    /// [`CalibrationError::Old`] if it cannot be used.
    pub fn read(path: &Path, cpu: impl FnOnce() -> Cpu) -> Result<Self, CalibrationError> {
        let shown = path_name(path);
        let mut options = File::options();
        // If `path` is a FIFO, do not block until another process opens it for writing.
        options.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
        let file = open(path, &options);
        let mut text = Vec::new();
        let read = file.and_then(|file| file.take(MAX_LEN).read_to_end(&mut text));
        if let Err(error) = read {
            return Err(match error.kind() {
                io::ErrorKind::NotFound => CalibrationError::None,
                _ => CalibrationError::Read {
                    file: shown,
                    source: error,
                },
            });
        }
        let old = |what: String| Err(CalibrationError::Old { file: shown, what });
        // Check the schema first: another schema may have other members.
        let Ok(value) = serde_json::from_slice::<serde_json::Value>(&text) else {
            return old("damaged".into());
        };
        let version = env!("CARGO_PKG_VERSION");
        if value["schema"] != SCHEMA || value["luxor"] != version {
            return old(format!("from another version than luxor {version}"));
        }
        let Ok(found) = serde_json::from_value::<Self>(value) else {
            return old("damaged".into());
        };
        let cpu = cpu();
        if found.cpu != cpu {
            let Cpu {
                model,
                engine,
                threads,
            } = cpu;
            return old(format!(
                "for another CPU, engine or number of threads than {model}, {engine}, {threads} \
                 threads"
            ));
        }
        let least = found.devices.iter().filter_map(|device| device.wins_from);
        if least.min().is_some_and(|least| least < LEAST_CALL) {
            return old("damaged".into());
        }
        Ok(found)
    }

    /// Writes the calibration to `path`, replacing an existing file, and makes the folders. A
    /// concurrent reader finds either the old file or the new one.
    ///
    /// # Errors
    /// Fails when a folder or the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let temporary = path.with_extension(format!("{}.new", process::id()));
        let write = || {
            if let Some(folder) = path.parent() {
                DirBuilder::new()
                    .recursive(true)
                    .mode(0o700)
                    .create(folder)?;
            }
            let mut options = File::options();
            options.write(true).create_new(true).mode(0o600);
            let mut file = open(&temporary, &options)?;
            let written = file.write_all(self.json().as_bytes());
            written
                .and_then(|()| fs::rename(&temporary, path))
                .inspect_err(|_| {
                    let _ = fs::remove_file(&temporary);
                })
        };
        write().map_err(|error| Error::io(format!("cannot write {}", path_name(path)), &error))
    }
}

/// Returns the path of the calibration: `luxor/calibration.json` in `$XDG_CACHE_HOME` or else in
/// `$HOME/.cache`.
///
/// # Errors
/// Fails when neither `XDG_CACHE_HOME` nor `HOME` is an absolute path.
pub fn path() -> Result<PathBuf, CalibrationError> {
    path_in(|name| env::var_os(name)).ok_or(CalibrationError::NoFolder)
}

/// Follows the XDG Base Directory Specification, which says to ignore relative paths.
fn path_in(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| {
        let path = PathBuf::from(variable(name)?);
        path.is_absolute().then_some(path)
    };
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(cache.join("luxor/calibration.json"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn cpu() -> Cpu {
        Cpu {
            model: "Abacus 3".into(),
            engine: "portable".into(),
            threads: 2,
        }
    }

    fn device(engine: &str, wins_from: Option<usize>, rate: u64) -> Device {
        Device {
            engine: engine.into(),
            device: "a double".into(),
            wins_from,
            reason: None,
            calls: vec![Call {
                bytes: 16 << 20,
                cpu: 1,
                device: rate,
            }],
        }
    }

    fn calibration() -> Calibration {
        Calibration::new(cpu(), vec![device("cuda", Some(1 << 20), 10)])
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache/luxor/calibration.json");
        for calibration in [calibration(), Calibration::new(cpu(), Vec::new())] {
            calibration.write(&path).unwrap();
            assert_eq!(Calibration::read(&path, cpu).unwrap(), calibration);
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        // The target is a folder that is not empty, so the rename fails.
        let taken = folder.path().join("taken");
        fs::create_dir_all(taken.join("inside")).unwrap();
        let error = calibration().write(&taken).unwrap_err();
        assert!(error.message().starts_with("cannot write "), "{error:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    /// A device that is only slower for data in the computer's memory is not given up.
    #[test]
    fn devices_with_a_reason_are_given_up() {
        let slow = Device {
            reason: Some("a call takes 300 ms".into()),
            ..device("opencl", None, 1)
        };
        let devices = vec![device("cuda", None, 1), slow];
        let given_up = Calibration::new(cpu(), devices).given_up();
        assert_eq!(given_up, [["opencl", "a double", "a call takes 300 ms"]]);
    }

    #[test]
    fn a_calibration_of_another_program_or_cpu_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calibration.json");
        let good = calibration().json();
        let version = concat!("\"", env!("CARGO_PKG_VERSION"), "\"");
        for (from, to, words) in [
            (
                "\"schema\": 1",
                "\"schema\": 2",
                "is from another version than luxor ",
            ),
            (
                "\"schema\": 1",
                "\"schema\": \"1\"",
                "is from another version than luxor ",
            ),
            (version, "\"0.0.0\"", "is from another version than luxor "),
            (
                "Abacus 3",
                "Abacus 4",
                "is for another CPU, engine or number of threads than Abacus 3, portable, 2",
            ),
            ("portable", "aesni", "than Abacus 3, "),
            ("\"threads\": 2", "\"threads\": 3", "than Abacus 3, "),
            ("1048576", "524287", "is damaged"),
            ("1048576", "-1", "is damaged"),
            ("\"bytes\"", "\"octets\"", "is damaged"),
            ("{", "", "is damaged"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good, "{from}");
            fs::write(&path, bad).unwrap();
            let why = Calibration::read(&path, cpu).unwrap_err().to_string();
            assert!(why.contains(words), "{from} to {to}: {why}");
        }
        fs::write(&path, good.replacen("1048576", "524288", 1)).unwrap();
        assert!(Calibration::read(&path, cpu).is_ok());

        let nobody = || unreachable!("the CPU is not asked for before a file has been read");
        fs::remove_file(&path).unwrap();
        let why = Calibration::read(&path, nobody).unwrap_err().to_string();
        assert!(why.starts_with("no device was compared"), "{why}");
        let why = Calibration::read(folder.path(), nobody)
            .unwrap_err()
            .to_string();
        assert!(why.starts_with("cannot read "), "{why}");
    }

    #[test]
    fn the_fastest_of_those_that_win_is_taken() {
        let mut calibration = calibration();
        calibration.devices.push(device("opencl", None, 30));
        let winner = |calibration: &Calibration| {
            let (device, from) = calibration.winner()?;
            Some((device.engine.clone(), from))
        };
        assert_eq!(winner(&calibration), Some(("cuda".into(), 1 << 20)));
        calibration.devices[1].wins_from = Some(8 << 20);
        assert_eq!(winner(&calibration), Some(("opencl".into(), 8 << 20)));
        calibration.devices.clear();
        assert_eq!(winner(&calibration), None);
    }

    #[test]
    fn a_cache_folder_must_be_an_absolute_path() {
        let path = |cache: &str, home: &str| {
            let path = path_in(|name| match name {
                "XDG_CACHE_HOME" => Some(cache.into()),
                "HOME" => Some(home.into()),
                _ => None,
            });
            path.map(|path| path.to_str().unwrap().to_owned())
        };
        let at = |path: &str| Some(format!("{path}/luxor/calibration.json"));
        assert_eq!(path("/c", "/h"), at("/c"));
        assert_eq!(path("c", "/h"), at("/h/.cache"));
        assert_eq!(path("", "/h"), at("/h/.cache"));
        assert_eq!(path("", "h"), None);
        assert_eq!(path_in(|_| None), None);
    }
}
