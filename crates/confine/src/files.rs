// SPDX-License-Identifier: MIT OR Apache-2.0
//! Restricts paths and connections by Landlock.

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd,
    RestrictSelfAttr, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope,
};

use crate::{Access, Needs};

/// The newest version of Landlock whose restrictions are known here. An older kernel applies those that it has.
const NEWEST: ABI = ABI::V10;

/// The rules for `needs`, or why there are none.
pub(crate) fn ruleset(needs: &Needs) -> Result<RulesetCreated, String> {
    if let Some(why) = &needs.drivers {
        return Err(why.clone());
    }
    rules(needs).map_err(|error| error.to_string())
}

fn rules(needs: &Needs) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        // No address is named, so no socket can be bound or connected.
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    for (path, access) in &needs.paths {
        // A path that is missing needs no rule.
        if let Ok(path) = PathFd::new(path) {
            ruleset = ruleset.add_rule(PathBeneath::new(path, rights(*access)))?;
        }
    }
    // Since Linux 7.0.
    ruleset.all_threads(true)
}

fn rights(access: Access) -> BitFlags<AccessFs> {
    match access {
        Access::Read => AccessFs::ReadFile | AccessFs::ReadDir,
        Access::Terminal => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev,
        Access::Change => {
            AccessFs::ReadFile
                | AccessFs::ReadDir
                | AccessFs::WriteFile
                | AccessFs::MakeReg
                | AccessFs::RemoveFile
                | AccessFs::Truncate
        }
        Access::Remove => AccessFs::RemoveFile.into(),
    }
}

/// Restricts this thread, or all threads. Returns whether it was all.
pub(crate) fn restrict(ruleset: &RulesetCreated) -> Result<bool, String> {
    let ruleset = ruleset.try_clone().map_err(|error| error.to_string())?;
    let status = ruleset.restrict_self();
    let status = status.map_err(|error| error.to_string())?;
    match missing(&status) {
        None => Ok(status.all_threads),
        Some(why) => Err(why.to_owned()),
    }
}

fn missing(status: &RestrictionStatus) -> Option<&'static str> {
    match (&status.ruleset, &status.landlock) {
        (_, LandlockStatus::NotImplemented) => Some("this kernel does not have it"),
        (_, LandlockStatus::NotEnabled) => Some("this kernel has it, but it is not enabled"),
        (RulesetStatus::NotEnforced, _) => Some("this kernel does not enforce the rules"),
        _ => None,
    }
}
