// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options that several commands share, a file for each group. The options that one command has alone
//! are in the file of that command.

mod background;
mod export;
mod format;
mod general;
mod in_place;
mod limits;
mod luks_version;
mod new_volume;
mod pbkdf;
mod policy;
mod secret;
mod stats;
mod unlock;
mod values;

pub(crate) use self::{
    background::BackgroundArgs,
    export::{ExportArgs, ReencryptWhen},
    format::TypeArgs,
    general::{ConfineWhen, General, GlobalArgs, general_option},
    in_place::InPlaceArgs,
    limits::LimitArgs,
    luks_version::{AnyLuks, VolumeType},
    new_volume::NewVolumeArgs,
    pbkdf::PbkdfArgs,
    secret::{NewSecretArgs, SecretArgNames, SecretArgs},
    stats::StatsArgs,
    unlock::UnlockArgs,
    values::{AnyName, hash_name, size},
};
