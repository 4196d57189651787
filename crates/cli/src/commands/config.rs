// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor config`: labels, flags and priorities.

use luxor::{
    luks::{ActivationFlag, Label, Priority, Uuid, VolumeHeader},
    sector::Storage,
};

use crate::{
    args::{ConfigArgs, PriorityName},
    context::Context,
    error::{Error, Result},
    new_volume::{label, uuid},
    volume::open_to_change,
};

/// Changes the settings that the options name.
///
/// # Errors
/// Fails for invalid values, and when the volume cannot be used.
pub(crate) fn run(args: &ConfigArgs, context: &Context) -> Result<()> {
    let settings = Settings::new(args)?;
    let mut volume = open_to_change(&args.volume, context)?;
    if let (Some(uuid), false) = (settings.uuid, args.force) {
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
