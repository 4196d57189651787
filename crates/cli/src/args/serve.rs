// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of `serve`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{ExportArgs, StatsArgs};

/// Serve a volume as a disk, by the NBD protocol
///
/// Clients are qemu, nbd-client, nbdcopy, nbdfuse and others. The server encrypts and
/// decrypts: the socket carries plaintext. The program stays in the foreground, and prints
/// its address on standard error as soon as it listens.
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

    /// The statistics to show.
    #[command(flatten)]
    pub stats: StatsArgs,
}
