// SPDX-License-Identifier: MIT OR Apache-2.0
//! `serve`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{ExportArgs, StatsArgs};

/// Serve a volume as a disk, by the NBD protocol
///
/// qemu, nbd-client, nbdcopy and nbdfuse are clients. The volume is decrypted and
/// encrypted here: what goes through the socket is plaintext. The program stays in the
/// foreground and says on standard error where it listens, once it does.
///
/// SIGTERM, SIGINT and SIGHUP stop it: requests under way are answered, everything is
/// written to the disk, and the exit code is 0. A second signal ends it at once, with
/// 130.
///
/// Without --socket and --listen it takes the sockets that systemd hands over
/// (`LISTEN_FDS`).
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor serve --socket disk.sock disk.luks
  luxor serve --read-only --exit-on-idle --socket disk.sock disk.luks
  luxor serve --socket disk.sock --type plain --key-file key.bin --key-size 512 /dev/sdx1
  nbdinfo 'nbd+unix:///?socket=disk.sock'
  qemu-img convert 'nbd+unix:///?socket=disk.sock' disk.qcow2")]
pub(crate) struct ServeArgs {
    /// What is served.
    #[command(flatten)]
    pub export: ExportArgs,

    /// Listen on a Unix socket, which only this user and root may use
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Clients", conflicts_with = "listen")]
    pub socket: Option<PathBuf>,

    /// Listen on a TCP address: `127.0.0.1`, `[::1]:10809`, `name:port` (default port: 10809)
    ///
    /// Needs --tls-cert, --tls-key and --tls-ca, or --insecure.
    #[arg(long, value_name = "ADDRESS", help_heading = "Clients")]
    pub listen: Option<String>,

    /// TLS over TCP: the certificate of this server, then those between it and its authority
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Clients", requires_all = ["tls_key", "tls_ca"])]
    pub tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Clients", requires_all = ["tls_cert", "tls_ca"])]
    pub tls_key: Option<PathBuf>,

    /// The authorities of the clients' certificates: who has one of theirs is let in
    ///
    /// These three files are in PEM format.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Clients", requires_all = ["tls_cert", "tls_key"])]
    pub tls_ca: Option<PathBuf>,

    /// Serve over TCP without TLS: everybody who reaches the address reads and writes
    #[arg(long, help_heading = "Clients", conflicts_with = "tls_cert")]
    pub insecure: bool,

    /// A name that clients may ask for, beside the empty one
    #[arg(long, value_name = "NAME", help_heading = "Clients")]
    #[arg(default_value = "", hide_default_value = true)]
    pub export_name: String,

    /// End when the last client has left, once there has been one
    #[arg(long, help_heading = "Clients")]
    pub exit_on_idle: bool,

    /// Write the process's number into FILE as soon as clients can come
    ///
    /// It is removed in the end. One that a dead process left is replaced.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Clients")]
    pub pid_file: Option<PathBuf>,

    /// What is told.
    #[command(flatten)]
    pub stats: StatsArgs,
}
