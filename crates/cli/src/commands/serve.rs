// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor serve`.

use std::{path::Path, sync::Arc};

use luxor_files::path_name;
use luxor_serve::{
    TlsConfigError, TlsServer,
    nbd::{Listener, ServeError, Server, ServerOptions, Stop, Text},
};

use crate::{
    args::ServeArgs,
    console::Console,
    context::Context,
    error::{Error, ErrorClass, Result},
    export,
    listen::{self, SocketFile},
    log,
    pid_file::PidFile,
    process::{self, StopOnSignal},
    stats::{Page, Telling},
};

/// Serves a volume until a signal arrives or, with `--exit-on-idle`, the last client leaves.
///
/// # Errors
/// Fails when the volume, the secret or a socket cannot be used, and when writes of clients cannot
/// be made durable.
pub(crate) fn run(args: &ServeArgs, context: &Context) -> Result<()> {
    // Options that can be refused are refused before a secret is asked for. The socket is made only
    // when the volume is open, so a socket that clients can see always works.
    let console = context.console;
    log::begin(&context.options);
    let tls = tls(args, console)?;
    let places = Places::of(args, tls.is_some())?;
    let name: Text = args
        .export_name
        .parse()
        .map_err(|error| Error::failure(format!("--export-name: {error}")))?;
    if let Some(path) = &args.pid_file {
        PidFile::check(path)?;
    }
    let page = Page::of(&args.stats)?;
    let stop = Stop::new().map_err(|error| Error::io("cannot make a socket", &error))?;
    let export = export::open(&args.export, context)?;

    let (listeners, _socket) = places.listen()?;
    let options = ServerOptions {
        name,
        exit_on_idle: args.exit_on_idle,
        tls,
        ..ServerOptions::default()
    };
    let server = Arc::new(Server::new(Arc::clone(&export.disk), options));
    let telling = Telling::begin(&args.stats, &page, server.stats(), &export.disk)?;
    let _signals = {
        let stop = stop.clone();
        StopOnSignal::new(move || stop.request())
    };
    let _pid_file = args.pid_file.as_deref().map(PidFile::create).transpose()?;
    for listener in &listeners {
        let read_only = if export.disk.is_read_only() {
            ", read-only"
        } else {
            ""
        };
        let uri = listen::uri(listener, &args.export_name, args.tls_cert.is_some());
        console.tell(format!("serving {}{read_only}, at {uri}", export.name));
    }
    telling.announce(console);
    let served = server.run(&listeners, &stop).map_err(|error| {
        let class = match error {
            ServeError::Thread { .. } => ErrorClass::OutOfMemory,
            _ => ErrorClass::Failure,
        };
        Error::new(class, format!("{}: {error}", export.name))
    });
    // Release the volume before the socket and the pid file disappear: a program that waits for
    // that can then use the volume.
    drop((telling, server, export));
    served
}

/// Loads the certificates for TCP clients. The parser requires all three files or none.
fn tls(args: &ServeArgs, console: Console) -> Result<Option<TlsServer>> {
    let (Some(certificate), Some(key), Some(authorities)) =
        (&args.tls_cert, &args.tls_key, &args.tls_ca)
    else {
        return Ok(None);
    };
    // The private key is the first secret to be read.
    process::harden(console);
    TlsServer::from_pem_files(certificate, key, authorities)
        .map(Some)
        .map_err(|error| match error {
            TlsConfigError::Read { path, source } => {
                Error::io(format!("cannot read {}", path_name(&path)), &source)
            }
            error => Error::failure(error.to_string()),
        })
}

/// Where clients connect.
enum Places<'a> {
    /// `--socket`.
    Socket(&'a Path),
    /// `--listen`.
    Tcp(&'a str),
    /// Sockets inherited from systemd, which already listen.
    Inherited(Vec<Listener>),
}

impl<'a> Places<'a> {
    fn of(args: &'a ServeArgs, tls: bool) -> Result<Self> {
        let inherited = listen::inherited()?;
        let places = match (&args.socket, &args.listen) {
            (Some(_), _) | (_, Some(_)) if !inherited.is_empty() => {
                return Err(Error::failure(
                    "--socket and --listen cannot be used together with the sockets of LISTEN_FDS",
                ));
            }
            (Some(path), _) => {
                SocketFile::check(path)?;
                Self::Socket(path)
            }
            (None, Some(address)) => Self::Tcp(address),
            (None, None) if inherited.is_empty() => {
                return Err(Error::failure(
                    "no address to listen on: give --socket PATH or --listen ADDRESS",
                ));
            }
            (None, None) => Self::Inherited(inherited),
        };
        let over_tcp = match &places {
            Self::Socket(_) => false,
            Self::Tcp(_) => true,
            Self::Inherited(listeners) => listeners
                .iter()
                .any(|listener| matches!(listener, Listener::Tcp(_))),
        };
        if tls && !over_tcp {
            return Err(Error::failure(
                "--tls-cert, --tls-key and --tls-ca are for TCP: a Unix socket has no TLS",
            ));
        }
        if over_tcp && !tls && !args.insecure {
            return Err(Error::failure(
                "over TCP without TLS, any program that reaches the address could read the \
                 plaintext",
            )
            .hint(
                "Use --tls-cert, --tls-key and --tls-ca, or --socket; --insecure serves without \
                 TLS.",
            ));
        }
        Ok(places)
    }

    fn listen(self) -> Result<(Vec<Listener>, Option<SocketFile>)> {
        match self {
            Self::Socket(path) => {
                let (listener, file) = SocketFile::listen(path)?;
                Ok((vec![Listener::Unix(listener)], Some(file)))
            }
            Self::Tcp(address) => {
                let listeners = listen::listen_tcp(address)?.into_iter();
                Ok((listeners.map(Listener::Tcp).collect(), None))
            }
            Self::Inherited(listeners) => Ok((listeners, None)),
        }
    }
}
