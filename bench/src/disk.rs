// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs Luxor's server on a disk that `luxor serve` does not offer: without encryption, or with a
//! limit on the length of requests. It is a separate process, as every contestant is.

use std::{
    ffi::OsString,
    fs::File,
    io::{BufRead, Write},
    num::NonZeroUsize,
    os::unix::net::UnixListener,
    path::Path,
    process::ExitCode,
    sync::Arc,
    thread,
};

use luxor_engine::{Backend, KeySpec, LoadedKey, Mode, Registry, XtsKey};
use luxor_sector::{Disk, DiskOptions, EngineTime, Geometry, IvMode, Part, SectorSize};
use luxor_serve::{
    Export, Frontend, Listener, Stop,
    nbd::{Server, ServerOptions},
};

use crate::coprocessor::{Coprocessor, Device};

/// The argument that starts this program as the server.
pub(crate) const SERVE: &str = "--serve-disk";

/// The way in which the bytes of a file become a disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Transform {
    /// The sector size; `None` serves the bytes unencrypted.
    pub(crate) sector: Option<SectorSize>,
    /// The most bytes of one call of the engine.
    pub(crate) request_limit: Option<NonZeroUsize>,
    /// A simulated device with [`short_key`]; `None` uses only the engine, with [`KEY`].
    pub(crate) device: Option<Device>,
}

/// Both halves of the key of all measurements.
pub(crate) const KEY: [u8; 64] = {
    let mut key = [0x11; 64];
    let mut at = 32;
    while at < 64 {
        key[at] = 0x22;
        at += 1;
    }
    key
};

/// An AES-128 key, as in the paper, whose co-processor has AES-128 only.
pub(crate) fn short_key() -> XtsKey {
    XtsKey::new(&KEY[16..48]).expect("the two halves differ")
}

impl Transform {
    /// Encrypts sectors of 512 bytes on this device.
    pub(crate) fn of_device(device: Device) -> Self {
        Self {
            sector: Some(SectorSize::B512),
            request_limit: None,
            device: Some(device),
        }
    }

    /// Opens the whole file as a disk, with AES-256-XTS by `engine`.
    pub(crate) fn disk(self, file: &Path, engine: &str) -> Result<Disk, String> {
        let storage = File::options().read(true).write(true).open(file);
        let storage = storage.map_err(|e| format!("{}: {e}", file.display()))?;
        let len = storage
            .metadata()
            .map_err(|e| format!("{}: {e}", file.display()))?
            .len();
        let crypt = match self.sector {
            None => None,
            Some(sector_size) => {
                let key = self.key(&*backend(engine)?)?;
                let geometry = Geometry {
                    sector_size,
                    iv_mode: IvMode::Plain64,
                    iv_offset: 0,
                    iv_large_sectors: false,
                };
                Some((key, geometry))
            }
        };
        let part = Part {
            offset: 0,
            len,
            crypt,
        };
        let options = DiskOptions {
            request_limit: self.request_limit,
            ..DiskOptions::default()
        };
        Disk::new(Arc::new(storage), vec![part], options).map_err(|e| e.to_string())
    }

    fn key(self, backend: &dyn Backend) -> Result<Arc<dyn LoadedKey>, String> {
        if let Some(Device {
            configuration,
            pace,
        }) = self.device
        {
            let key = Coprocessor::new(backend, short_key(), configuration, pace)?;
            return Ok(Arc::new(key));
        }
        let key = XtsKey::new(&KEY).map_err(|e| e.to_string())?;
        let key = backend.load_key(&KeySpec::Xts(key));
        key.map(Arc::from).map_err(|e| e.to_string())
    }

    /// Returns the command line that serves the disk.
    pub(crate) fn words(self, file: &Path, socket: &Path, engine: &str) -> Vec<OsString> {
        let number = |n: Option<usize>| OsString::from(n.unwrap_or(0).to_string());
        let own = std::env::current_exe().unwrap_or_else(|_| "luxor-bench".into());
        vec![
            own.into(),
            SERVE.into(),
            file.into(),
            socket.into(),
            engine.into(),
            number(self.sector.map(SectorSize::bytes)),
            number(self.request_limit.map(NonZeroUsize::get)),
            self.device.map(Device::to_word).unwrap_or_default().into(),
        ]
    }
}

/// Returns the engine with this name, or the best one for `auto`.
pub(crate) fn backend(name: &str) -> Result<Arc<dyn Backend>, String> {
    let registry = Registry::cpu();
    match name {
        "auto" => registry.best(Mode::Xts),
        name => registry.get(name),
    }
    .map_err(|e| e.to_string())
}

/// Serves until standard input ends. Answers every line of it with the numbers that [`engine_time`]
/// parses.
pub(crate) fn serve(words: &[OsString]) -> ExitCode {
    match try_serve(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn try_serve(words: &[OsString]) -> Result<(), String> {
    let [file, socket, engine, sector, limit, device] = words else {
        return Err(format!("{SERVE} is only for this program itself"));
    };
    let number = |word: &OsString| {
        let number = word.to_str().and_then(|word| word.parse::<u32>().ok());
        number.ok_or_else(|| format!("{} is not a number", word.display()))
    };
    let sector = match number(sector)? {
        0 => None,
        bytes => Some(SectorSize::try_from(bytes).map_err(|e| e.to_string())?),
    };
    let transform = Transform {
        sector,
        request_limit: NonZeroUsize::new(number(limit)? as usize),
        device: match device.to_str() {
            Some("") => None,
            word => Some(word.and_then(Device::from_word).ok_or("no such device")?),
        },
    };
    let engine = engine
        .to_str()
        .ok_or("the engine's name is not valid UTF-8")?;
    let disk = Arc::new(transform.disk(Path::new(file), engine)?);
    let listener = UnixListener::bind(socket).map_err(|e| e.to_string())?;
    let stop = Stop::new().map_err(|e| e.to_string())?;
    let (of_disk, stopped) = (Arc::clone(&disk), stop.clone());
    thread::spawn(move || {
        for _ in std::io::stdin().lock().lines() {
            let EngineTime {
                bytes,
                calls,
                nanoseconds,
                ..
            } = of_disk.engine_time();
            println!("{bytes} {calls} {nanoseconds}");
            let _ = std::io::stdout().flush();
        }
        stopped.request();
    });
    let listeners = vec![Listener::Unix(listener)];
    let server = Server::new(Export::new(disk), ServerOptions::default(), listeners, stop);
    Box::new(server).run().map_err(|e| e.to_string())
}

/// Parses a server's answer: bytes, calls and seconds of the engine.
pub(crate) fn engine_time(answer: &str) -> Option<(f64, f64, f64)> {
    let mut numbers = answer.split(' ').map(|number| number.parse::<f64>().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()?? / 1e9))
}
