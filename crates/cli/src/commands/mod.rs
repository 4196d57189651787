// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands: a file for each, with its arguments, the general options that it takes, and its run.
//! [`Command`] is the table of them.

use std::path::Path;

use crate::{args::General, context::Context, error::Result};

/// A command, implemented by its arguments.
pub(crate) trait Subcommand: clap::Args {
    /// The word that calls it.
    const NAME: &'static str;

    /// The general options that it takes.
    const TAKES: Taken;

    /// Does what the command is for.
    fn run(&self, context: &Context) -> Result<()>;

    /// Whether the command writes data or a key to standard output.
    fn output_is_stdout(&self) -> bool {
        false
    }
}

/// The general options that a command takes. The parser refuses the others, and the help hides them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Taken {
    /// Those of these groups.
    Options(&'static [General]),
    /// Each of its own commands takes options, which stand beside the command's name.
    Each(&'static [(&'static str, Taken)]),
}

impl Taken {
    /// For commands that read or change metadata, without a secret.
    const METADATA: Self = Self::Options(&[
        General::Header,
        General::Part,
        General::Policy,
        General::Locks,
        General::Talk,
    ]);

    /// For commands that identify a volume.
    const IDENTIFYING: Self = Self::Options(&[
        General::Header,
        General::Part,
        General::Policy,
        General::Talk,
    ]);

    /// For commands of keys.
    const KEYS: Self = Self::Options(&[
        General::Key,
        General::Prompt,
        General::Passphrase,
        General::VolumeKey,
        General::Header,
        General::Part,
        General::Policy,
        General::Engine,
        General::Locks,
        General::Talk,
    ]);

    /// For commands that give out a volume as a disk.
    const SERVING: Self = Self::Options(&[
        General::Key,
        General::Passphrase,
        General::VolumeKey,
        General::Header,
        General::Part,
        General::Policy,
        General::Engine,
        General::Threads,
        General::Confine,
        General::Talk,
    ]);

    /// Whether the command, or one of its own commands, takes the options of a group.
    fn contains(self, group: General) -> bool {
        match self {
            Self::Options(groups) => groups.contains(&group),
            Self::Each(commands) => commands.iter().any(|(_, taken)| taken.contains(group)),
        }
    }

    /// Returns what the command's own command `name` takes.
    fn subcommand(self, name: &str) -> Self {
        let own = match self {
            Self::Options(_) => None,
            Self::Each(commands) => commands.iter().find(|(own, _)| *own == name),
        };
        own.unwrap_or_else(|| panic!("there is no command {name}"))
            .1
    }
}

/// Defines an enum of commands, a line for each.
macro_rules! commands {
    ($(#[$attribute:meta])* $name:ident { $($command:ident($args:ty),)+ }) => {
        $(#[$attribute])*
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum $name {
            $(
                #[command(name = <$args as $crate::commands::Subcommand>::NAME)]
                $command($args),
            )+
        }

        impl $name {
            /// The general options that each command takes.
            const TAKES: &[(&str, $crate::commands::Taken)] = &[$((
                <$args as $crate::commands::Subcommand>::NAME,
                <$args as $crate::commands::Subcommand>::TAKES,
            ),)+];

            /// Runs the command.
            ///
            /// # Errors
            /// Those of the command.
            pub(crate) fn run(
                &self,
                context: &$crate::context::Context,
            ) -> $crate::error::Result<()> {
                match self {
                    $(Self::$command(args) => $crate::commands::Subcommand::run(args, context),)+
                }
            }

            /// Whether the command writes data or a key to standard output.
            pub(crate) fn output_is_stdout(&self) -> bool {
                match self {
                    $(Self::$command(args) => {
                        $crate::commands::Subcommand::output_is_stdout(args)
                    })+
                }
            }
        }
    };
}

mod bench;
mod check;
mod completions;
mod config;
mod convert;
mod decrypt;
mod definition;
mod dump;
mod encrypt;
mod engines;
mod erase;
mod format;
mod header;
mod is_luks;
mod key;
mod man;
mod mount;
mod raw;
mod reencrypt;
mod report;
mod resize;
mod serve;
mod token;
mod umount;
mod uuid;

pub(crate) use self::definition::{Cli, parse};

commands! {
    /// The commands.
    Command {
        Encrypt(encrypt::EncryptArgs),
        Decrypt(decrypt::DecryptArgs),
        Mount(mount::MountArgs),
        Umount(umount::UmountArgs),
        Serve(serve::ServeArgs),
        Format(format::FormatArgs),
        Resize(resize::ResizeArgs),
        Reencrypt(reencrypt::ReencryptArgs),
        Dump(dump::DumpArgs),
        Check(check::CheckArgs),
        Key(key::KeyArgs),
        Header(header::HeaderArgs),
        Convert(convert::ConvertArgs),
        Erase(erase::EraseArgs),
        Token(token::TokenArgs),
        Config(config::ConfigArgs),
        Uuid(uuid::UuidArgs),
        IsLuks(is_luks::IsLuksArgs),
        Raw(raw::RawArgs),
        Engines(engines::EnginesArgs),
        Bench(bench::BenchArgs),
        Report(report::ReportArgs),
        Completions(completions::CompletionsArgs),
        Man(man::ManArgs),
    }
}

impl Command {
    /// The last of the commands that the help of `-h` describes. It only names those after it.
    const LAST_USUAL: &str = header::HeaderArgs::NAME;
}

/// Whether `output` names standard output.
pub(crate) fn is_stdout(output: &Path) -> bool {
    let names = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    names.map(Path::new).contains(&output)
}

/// Returns the files from which a command reads a volume, for
/// [`SecretSource::new`](crate::secrets::SecretSource::new): `volume`, which messages call `what`,
/// and the detached header.
pub(crate) fn inputs<'a>(
    what: &'a str,
    volume: &'a Path,
    context: &'a Context,
) -> Vec<(&'a str, &'a Path)> {
    let header = context
        .options
        .header
        .as_deref()
        .map(|header| ("--header", header));
    [(what, volume)].into_iter().chain(header).collect()
}
