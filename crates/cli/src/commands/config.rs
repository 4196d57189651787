// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor config`: labels, flags and priorities.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum, ValueHint};
use luxor::{
    luks::{ActivationFlag, Label, Priority, Uuid, VolumeHeader},
    sector::Storage,
};

use crate::{
    commands::{Subcommand, Taken},
    context::Context,
    error::{Error, Result},
    new_volume::{label, uuid},
    volume::open_to_change,
};

/// Set a volume's label, subsystem, UUID and flags, and a keyslot's priority
///
/// LUKS1 has only a UUID.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("setting").required(true).multiple(true))]
#[command(override_usage = "luxor config [OPTIONS] <SETTINGS> <VOLUME>")]
#[command(after_help = "\
Examples:
  luxor config --label Photos backup.luks
  luxor config --key-slot 1 --priority prefer backup.luks
  luxor config --flags allow-discards,no-read-workqueue backup.luks
  luxor config --flags none backup.luks")]
pub(crate) struct ConfigArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// A name for the volume, at most 47 bytes; an empty one removes it
    #[arg(long, value_name = "LABEL", group = "setting")]
    pub label: Option<String>,

    /// A second name, at most 47 bytes; an empty one removes it
    #[arg(long, value_name = "TEXT", group = "setting")]
    pub subsystem: Option<String>,

    /// The volume's UUID
    #[arg(long, value_name = "UUID", group = "setting")]
    pub uuid: Option<String>,

    /// Set the UUID even if a trailer ends the file in the volume, as after `luxor encrypt - -`
    ///
    /// The trailer is valid only with the UUID with which the volume was made. Use this option to set
    /// that one back.
    #[arg(long, requires = "uuid")]
    pub force: bool,

    /// When to try the keyslot of --key-slot
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        group = "setting",
        requires = "key_slot"
    )]
    pub priority: Option<PriorityName>,

    /// The keyslot of --priority
    #[arg(long, value_name = "N", requires = "priority")]
    pub key_slot: Option<u32>,

    /// All flags for activation, separated by commas: allow-discards, same-cpu-crypt,
    /// submit-from-crypt-cpus, no-journal, no-read-workqueue, no-write-workqueue; or none
    #[arg(long, value_name = "LIST", group = "setting")]
    pub flags: Option<String>,
}

/// `config --priority`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PriorityName {
    /// Only when its number is given
    Ignore,
    /// In the order of the numbers
    Normal,
    /// Before all others
    Prefer,
}

impl Subcommand for ConfigArgs {
    const NAME: &str = "config";
    const TAKES: Taken = Taken::METADATA;

    /// Changes the settings that the options name.
    ///
    /// # Errors
    /// Fails for invalid values, and when the volume cannot be used.
    fn run(&self, context: &Context) -> Result<()> {
        let settings = Settings::new(self)?;
        let mut volume = open_to_change(&self.volume, context)?;
        if let (Some(uuid), false) = (settings.uuid, self.force) {
            volume.check_uuid(uuid)?;
        }
        let set = |header: &mut VolumeHeader, storage: &dyn Storage| {
            // Settings that LUKS1 or this volume may not support come first, so that a refusal changes
            // nothing.
            if let Some((keyslot, priority)) = settings.priority {
                header.set_priority(storage, keyslot, priority)?;
            }
            if let Some(flags) = &settings.flags {
                header.set_flags(storage, flags)?;
            }
            if let Some(label) = &settings.label {
                header.set_label(storage, label)?;
            }
            if let Some(subsystem) = &settings.subsystem {
                header.set_subsystem(storage, subsystem)?;
            }
            if let Some(uuid) = settings.uuid {
                header.set_uuid(storage, uuid)?;
            }
            Ok(())
        };
        volume.change_present(&context.library, |_, _| Ok(()), set)
    }
}

/// The settings from the options.
struct Settings {
    label: Option<Label>,
    subsystem: Option<Label>,
    priority: Option<(u32, Priority)>,
    flags: Option<Vec<ActivationFlag>>,
    uuid: Option<Uuid>,
}

impl Settings {
    fn new(args: &ConfigArgs) -> Result<Self> {
        let priority = args.priority.map(|priority| match priority {
            PriorityName::Ignore => Priority::Ignore,
            PriorityName::Normal => Priority::Normal,
            PriorityName::Prefer => Priority::Prefer,
        });
        Ok(Self {
            label: label("--label", args.label.as_deref())?,
            subsystem: label("--subsystem", args.subsystem.as_deref())?,
            priority: args.key_slot.zip(priority),
            flags: args.flags.as_deref().map(flags).transpose()?,
            uuid: uuid(args.uuid.as_deref())?,
        })
    }
}

fn flags(list: &str) -> Result<Vec<ActivationFlag>> {
    if list == "none" {
        return Ok(Vec::new());
    }
    let flags = list.split(',').map(|name| name.trim().parse());
    flags
        .collect::<Result<_, _>>()
        .map_err(|error| Error::failure(format!("--flags: {error}, or none")))
}
