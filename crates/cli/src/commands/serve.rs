// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor serve`.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use luxor::files::{path_name, shell_word};
use luxor_serve::{
    TlsConfigError, TlsServer,
    nbd::{Listener, ServeError, Server, ServerOptions, Stop, Text},
};

use crate::{
    args::{General, ServeArgs},
    commands::{Subcommand, Taken},
    console::Console,
    context::Context,
    error::{Error, ErrorClass, Result},
    export::{self, Background},
    listen::{self, SocketFile},
    log, notify,
    pid_file::PidFile,
    process::{self, StopOnSignal},
    stats::{Page, StatsReporter},
};

impl Subcommand for ServeArgs {
    const NAME: &str = "serve";
    const TAKES: Taken = Taken::Options(&[
        General::Key,
        General::Passphrase,
        General::VolumeKey,
        General::Header,
        General::Part,
        General::Policy,
        General::Engine,
        General::Threads,
        General::Talk,
    ]);

    fn run(&self, context: &Context) -> Result<()> {
        run(self, context)
    }
}

/// Serves a volume until a signal arrives or, with `--exit-on-idle`, the last client leaves.
///
/// # Errors
/// Fails when the volume, the secret or a socket cannot be used, and when writes of clients cannot
/// be made durable.
fn run(args: &ServeArgs, context: &Context) -> Result<()> {
    // Options that can be refused are refused before a secret is asked for. The socket is made only
    // when the volume is open, so a socket that clients can see always works.
    let console = context.console;
    log::begin(&context.options);
    let tls = tls(args, console)?;
    let has_tls = tls.is_some();
    let places = Places::of(args, has_tls)?;
    let name: Text = args
        .export_name
        .parse()
        .map_err(|error| Error::failure(format!("--export-name: {error}")))?;
    if let Some(path) = &args.pid_file {
        PidFile::check(path)?;
    }
    let page = Page::of(&args.stats)?;
    let stop = Stop::new().map_err(|error| Error::io("cannot make a socket", &error))?;
    let (export, work, (listeners, _socket)) = if args.export.reencrypt.is_some() {
        // Nothing begins unless clients can come.
        let listening = places.listen()?;
        let (export, work) = export::open(&args.export, context)?;
        (export, work, listening)
    } else {
        let (export, work) = export::open(&args.export, context)?;
        (export, work, places.listen()?)
    };
    let options = ServerOptions {
        name,
        exit_on_idle: args.exit_on_idle,
        tls,
        ..ServerOptions::default()
    };
    let server = Arc::new(Server::new(Arc::clone(export.shared()), options));
    let reporter = StatsReporter::begin(&args.stats, &page, server.stats(), export.shared())?;
    let _signals = {
        let stop = stop.clone();
        StopOnSignal::new(move || {
            stop.request();
            notify::stopping_without_waiting();
        })
    };
    let _pid_file = args.pid_file.as_deref().map(PidFile::create).transpose()?;
    let read_only = if export.shared().is_read_only() {
        ", read-only"
    } else {
        ""
    };
    let uris = listeners
        .iter()
        .map(|listener| listen::uri(listener, &args.export_name, has_tls));
    let uris: Vec<_> = uris.collect();
    for uri in &uris {
        console.tell(format!("serving {}{read_only}, at {uri}", export.name()));
    }
    reporter.announce(console);
    let at = uris.join(" and ");
    notify::ready(
        console,
        &format!("Serving {}{read_only}, at {at}", export.name()),
    );
    let background = Background::begin(work)?;
    let served = server.run(&listeners, &stop).map_err(|error| {
        let class = match error {
            ServeError::Thread { .. } => ErrorClass::OutOfMemory,
            _ => ErrorClass::Failure,
        };
        Error::new(class, format!("{}: {error}", export.name()))
    });
    notify::stopping();
    // Release the volume before the socket and the pid file disappear: a program that waits for
    // that can then use the volume.
    let worked = background.end();
    drop((reporter, server, export));
    served.and(worked)
}

/// Loads the certificates or the pre-shared keys for TCP clients. The parser requires all three files
/// of certificates or none.
fn tls(args: &ServeArgs, console: Console) -> Result<Option<TlsServer>> {
    let server = match (&args.tls_cert, &args.tls_key, &args.tls_ca, &args.tls_psk) {
        (Some(certificate), Some(key), Some(authorities), _) => {
            // The private key is the first secret to be read.
            process::harden(console);
            TlsServer::from_pem_files(certificate, key, authorities)
        }
        (_, _, _, Some(keys)) => {
            process::harden(console);
            if is_public(keys) {
                let (name, word) = (path_name(keys), shell_word(keys));
                console.warn(format!(
                    "all users can read the keys in {name}: `chmod 600 {word}` prevents that"
                ));
            }
            TlsServer::from_psk_file(keys)
        }
        _ => return Ok(None),
    };
    server.map(Some).map_err(|error| match error {
        TlsConfigError::Read { path, source } => {
            Error::io(format!("cannot read {}", path_name(&path)), &source)
        }
        error => Error::failure(error.to_string()),
    })
}

/// Whether users other than the owner and its group can read the file.
fn is_public(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o004 != 0)
}

/// Where clients connect.
struct Places<'a> {
    /// `--socket`.
    socket: Option<&'a Path>,
    /// `--listen`.
    address: Option<&'a str>,
    /// Sockets inherited from systemd, which already listen.
    inherited: Vec<Listener>,
}

impl<'a> Places<'a> {
    fn of(args: &'a ServeArgs, tls: bool) -> Result<Self> {
        let (socket, address) = (args.socket.as_deref(), args.listen.as_deref());
        let inherited = listen::inherited()?;
        match (socket.is_some() || address.is_some(), inherited.is_empty()) {
            (true, false) => {
                return Err(Error::failure(
                    "--socket and --listen cannot be used together with the sockets of LISTEN_FDS",
                ));
            }
            (false, true) => {
                return Err(Error::failure(
                    "no address to listen on: give --socket PATH or --listen ADDRESS",
                ));
            }
            _ => {}
        }
        if let Some(path) = socket {
            SocketFile::check(path)?;
        }
        let is_tcp = |listener: &Listener| matches!(listener, Listener::Tcp(_));
        let over_tcp = address.is_some() || inherited.iter().any(is_tcp);
        if tls && !over_tcp {
            return Err(Error::failure(
                "--tls-cert, --tls-key, --tls-ca and --tls-psk are for TCP: a Unix socket has no TLS",
            ));
        }
        if over_tcp && !tls && !args.insecure {
            return Err(Error::failure(
                "over TCP without TLS, any program that reaches the address could read the \
                 plaintext",
            )
            .hint(
                "Use --tls-cert, --tls-key and --tls-ca, or --tls-psk, or --socket; --insecure \
                 serves without TLS.",
            ));
        }
        Ok(Self {
            socket,
            address,
            inherited,
        })
    }

    fn listen(self) -> Result<(Vec<Listener>, Option<SocketFile>)> {
        let mut listeners = self.inherited;
        if let Some(address) = self.address {
            listeners.extend(listen::listen_tcp(address)?.into_iter().map(Listener::Tcp));
        }
        let Some(path) = self.socket else {
            return Ok((listeners, None));
        };
        let (listener, file) = SocketFile::listen(path)?;
        listeners.push(Listener::Unix(listener));
        Ok((listeners, Some(file)))
    }
}
