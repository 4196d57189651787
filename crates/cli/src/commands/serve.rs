// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor serve`.

use std::{
    fs, mem,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::{Args, ValueHint};
use luxor::{
    VolumeDisk,
    files::{path_name, shell_word},
};
use luxor_confine::Needs;
use luxor_serve::{
    Export, Frontend, Listener, Stop, TlsConfigError, TlsServer,
    nbd::{Server, ServerOptions, Text},
};

use crate::{
    args::{BackgroundArgs, ExportArgs, StatsArgs},
    background,
    commands::{Subcommand, Taken},
    console::Console,
    context::Context,
    error::{Error, Result},
    frontend::{self, FrontendSetup, RunOptions, Started},
    listen::{self, SocketFile},
    log, process,
};

/// Serve a volume as a disk, by the NBD protocol
///
/// Clients are qemu, nbd-client, nbdcopy, nbdfuse and others. The server encrypts and
/// decrypts: the socket carries plaintext. The program prints its address on standard error as
/// soon as it listens. It stays in the foreground without --background.
///
/// SIGTERM, SIGINT and SIGHUP stop it: it answers the requests under way, writes everything to
/// the disk, and exits with 0. A second signal ends it at once, with 130.
///
/// Without --socket and --listen it uses the sockets passed by systemd (`LISTEN_FDS`). It tells
/// systemd when clients can connect, and when it stops (`NOTIFY_SOCKET`).
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor serve --socket disk.sock disk.luks
  luxor serve --read-only --exit-on-idle --socket disk.sock disk.luks
  luxor serve --socket disk.sock --type plain --key-file key.bin --key-size 512 /dev/sdx1
  nbdinfo 'nbd+unix:///?socket=disk.sock'
  qemu-img convert -O qcow2 'nbd+unix:///?socket=disk.sock' disk.qcow2")]
pub(crate) struct ServeArgs {
    /// What is served.
    #[command(flatten)]
    pub export: ExportArgs,

    /// Listen on a Unix socket, for this user and root only
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Clients")]
    pub socket: Option<PathBuf>,

    /// Listen on a TCP address: `127.0.0.1`, `[::1]:10809`, `name:port` (default port: 10809)
    ///
    /// Needs --tls-cert, --tls-key and --tls-ca, or --tls-psk, or --insecure. May be combined with
    /// --socket.
    #[arg(long, value_name = "ADDRESS", help_heading = "Clients")]
    pub listen: Option<String>,

    /// TLS over TCP: the certificate of this server, followed by the intermediate ones
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Clients", requires_all = ["tls_key", "tls_ca"])]
    pub tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Clients", requires_all = ["tls_cert", "tls_ca"])]
    pub tls_key: Option<PathBuf>,

    /// The certificate authorities for clients: a client needs a certificate from one of them
    ///
    /// All three files are in PEM format.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Clients", requires_all = ["tls_cert", "tls_key"])]
    pub tls_ca: Option<PathBuf>,

    /// TLS over TCP with pre-shared keys: a file with a line NAME:KEY for each client
    ///
    /// KEY has hexadecimal digits, as `psktool` writes it. Needs OpenSSL 3 (libssl.so.3).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Clients", conflicts_with = "tls_cert")]
    pub tls_psk: Option<PathBuf>,

    /// Serve over TCP without TLS: any program that reaches the address can read and write
    #[arg(long, help_heading = "Clients", conflicts_with_all = ["tls_cert", "tls_psk"])]
    pub insecure: bool,

    /// A name for the export, which clients may use instead of the empty name
    #[arg(long, value_name = "NAME", help_heading = "Clients")]
    #[arg(default_value = "", hide_default_value = true)]
    pub export_name: String,

    /// Exit when the last client disconnects
    #[arg(long, help_heading = "Clients")]
    pub exit_on_idle: bool,

    /// Write the process ID to FILE as soon as clients can connect
    ///
    /// FILE is removed at the end. A FILE left by a process that no longer runs is replaced.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Clients")]
    pub pid_file: Option<PathBuf>,

    /// Whether to go on in the background.
    #[command(flatten)]
    pub background: BackgroundArgs,

    /// The statistics to show.
    #[command(flatten)]
    pub stats: StatsArgs,
}

impl Subcommand for ServeArgs {
    const NAME: &str = "serve";
    const TAKES: Taken = Taken::SERVING;

    fn run(&self, context: &Context) -> Result<()> {
        background::run(&self.background, || run(self, context))
    }
}

/// Serves a volume until a signal arrives or, with `--exit-on-idle`, the last client leaves.
///
/// # Errors
/// Fails when the volume, the secret or a socket cannot be used, and when writes of clients cannot
/// be made durable.
fn run(args: &ServeArgs, context: &Context) -> Result<()> {
    log::begin(&context.options);
    let mut nbd = Nbd::new(args, context.console)?;
    let options = RunOptions::new(&args.export, &args.stats, args.pid_file.as_deref())?;
    frontend::run(&mut nbd, &options, context)
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

/// The NBD server.
struct Nbd<'a> {
    args: &'a ServeArgs,
    tls: Option<TlsServer>,
    export_name: Text,
    stop: Stop,
    /// Sockets inherited from systemd, until [`FrontendSetup::listen`].
    inherited: Vec<Listener>,
    /// All sockets. They stay open until the volume is closed.
    listeners: Arc<[Listener]>,
    socket: Option<SocketFile>,
}

impl<'a> Nbd<'a> {
    fn new(args: &'a ServeArgs, console: Console) -> Result<Self> {
        let tls = tls(args, console)?;
        let inherited = listen::inherited()?;
        check_addresses(args, &inherited, tls.is_some())?;
        let export_name = args
            .export_name
            .parse()
            .map_err(|error| Error::failure(format!("--export-name: {error}")))?;
        Ok(Self {
            args,
            tls,
            export_name,
            stop: Stop::new().map_err(|error| Error::io("cannot make a socket", &error))?,
            inherited,
            listeners: Arc::default(),
            socket: None,
        })
    }
}

impl FrontendSetup for Nbd<'_> {
    fn listen(&mut self) -> Result<()> {
        let mut listeners = mem::take(&mut self.inherited);
        if let Some(address) = &self.args.listen {
            listeners.extend(listen::listen_tcp(address)?.into_iter().map(Listener::Tcp));
        }
        if let Some(path) = &self.args.socket {
            let (listener, file) = SocketFile::listen(path)?;
            listeners.push(Listener::Unix(listener));
            self.socket = Some(file);
        }
        self.listeners = listeners.into();
        Ok(())
    }

    fn add_needs(&self, needs: &mut Needs) {
        if let Some(path) = &self.args.socket {
            needs.remove_file(path);
        }
    }

    fn start(&mut self, volume: &VolumeDisk, export: Arc<Export>) -> Result<Started> {
        let uri = |listener| listen::uri(listener, &self.args.export_name, self.tls.is_some());
        let uris: Vec<_> = self.listeners.iter().map(uri).collect();
        let name = volume.name();
        let read_only = if export.disk().is_read_only() {
            ", read-only"
        } else {
            ""
        };
        let options = ServerOptions {
            name: mem::take(&mut self.export_name),
            exit_on_idle: self.args.exit_on_idle,
            tls: self.tls.take(),
            ..ServerOptions::default()
        };
        let listeners = Arc::clone(&self.listeners);
        let server = Server::new(export, options, listeners, self.stop.clone());
        let stop = server.stopper();
        let mut lines: Vec<_> = uris
            .iter()
            .map(|uri| format!("serving {name}{read_only}, at {uri}"))
            .collect();
        if self.args.background.background && self.args.pid_file.is_none() {
            let id = std::process::id();
            lines.push(format!("to stop the server: `kill {id}`"));
        }
        Ok(Started {
            frontend: Box::new(server),
            stop: Arc::new(move || stop().map_err(|error| Error::io("cannot stop", &error))),
            lines,
            status: format!("Serving {name}{read_only}, at {}", uris.join(" and ")),
            still_in_use: None,
        })
    }
}

/// Refuses options for addresses that contradict each other, and a socket that is in use.
fn check_addresses(args: &ServeArgs, inherited: &[Listener], tls: bool) -> Result<()> {
    match (
        args.socket.is_some() || args.listen.is_some(),
        inherited.is_empty(),
    ) {
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
    if let Some(path) = &args.socket {
        SocketFile::check(path)?;
    }
    let is_tcp = |listener: &Listener| matches!(listener, Listener::Tcp(_));
    let over_tcp = args.listen.is_some() || inherited.iter().any(is_tcp);
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
    Ok(())
}
