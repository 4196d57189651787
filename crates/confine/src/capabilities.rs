// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives up the capabilities of root.

use std::{
    fs::{Metadata, canonicalize, metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::{
    process::geteuid,
    thread::{
        CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities,
    },
};

use crate::{Access, Needs};

/// The capabilities that are kept.
#[derive(Clone)]
pub(crate) struct Kept {
    set: CapabilitySet,
    /// Each with the path for which it is kept.
    pub(crate) reasons: Vec<(&'static str, PathBuf)>,
}

/// Returns the capabilities that the process needs for its paths. Root reads a file of another user, and
/// makes or removes one in the folder of another user, only by `CAP_DAC_OVERRIDE`, and replaces a file of
/// another user in a folder such as `/tmp` only by `CAP_FOWNER`.
pub(crate) fn needed(needs: &Needs) -> Kept {
    let mut reasons = Vec::new();
    let has = |set| capabilities(None).is_ok_and(|sets| sets.effective.contains(set));
    if has(CapabilitySet::FOWNER) {
        let is_sticky = |(path, access): &&(PathBuf, Access)| {
            *access == Access::Change
                && metadata(path).is_ok_and(|found| found.mode() & STICKY != 0)
        };
        let found = needs.paths.iter().find(is_sticky);
        reasons.extend(found.map(|(path, _)| ("CAP_FOWNER", path.clone())));
    }
    if has(CapabilitySet::DAC_OVERRIDE) {
        let found = needs
            .paths
            .iter()
            .find(|(path, access)| is_closed(path, *access));
        reasons.extend(found.map(|(path, _)| ("CAP_DAC_OVERRIDE", path.clone())));
    }
    let set = reasons.iter().map(|(name, _)| match *name {
        "CAP_FOWNER" => CapabilitySet::FOWNER,
        _ => CapabilitySet::DAC_OVERRIDE,
    });
    Kept {
        set: set.fold(CapabilitySet::empty(), CapabilitySet::union),
        reasons,
    }
}

/// The bit in the mode of a folder in which only its owner may remove a file.
const STICKY: u32 = 0o1000;

/// Whether the mode of the path, or of a folder that leads there, may keep this user out. An access control list
/// that lets the user in is not looked at.
fn is_closed(path: &Path, access: Access) -> bool {
    let Ok(target) = canonicalize(path) else {
        // It is not there.
        return false;
    };
    let wanted = match access {
        Access::Read => READ,
        Access::Terminal => READ | WRITE,
        Access::Change | Access::Remove => WRITE | SEARCH,
    };
    // The path itself may lead there by a link in another folder.
    let folders = target.ancestors().skip(1).chain(path.ancestors().skip(1));
    let folders = folders.filter(|folder| !folder.as_os_str().is_empty());
    let closed = |path: &Path, wanted| metadata(path).is_ok_and(|found| !permits(&found, wanted));
    closed(&target, wanted) || folders.into_iter().any(|folder| closed(folder, SEARCH))
}

const READ: u32 = 0o4;
const WRITE: u32 = 0o2;
const SEARCH: u32 = 0o1;

/// Whether every user in the place of this one may do this. This user may also be in the group.
fn permits(found: &Metadata, wanted: u32) -> bool {
    let mode = found.mode();
    let granted = if found.uid() == geteuid().as_raw() {
        mode >> 6
    } else {
        mode & (mode >> 3)
    };
    granted & wanted == wanted
}

/// Whether this thread has capabilities.
pub(crate) fn has_any() -> bool {
    capabilities(None).is_ok_and(|sets| !sets.permitted.is_empty())
}

/// Gives up all capabilities of this thread but those that are kept.
pub(crate) fn give_up(keep: &Kept) -> io::Result<()> {
    // Before Linux 4.3 there are none of these.
    let _ = clear_ambient_capability_set();
    for one in CapabilitySet::all().iter() {
        // Only a process with CAP_SETPCAP can. The others cannot regain any, because of no_new_privs.
        if remove_capability_from_bounding_set(one).is_err() {
            break;
        }
    }
    // systemd's `SystemCallFilter=~@privileged` refuses the call, to a service that has none anyway.
    if !has_any() {
        return Ok(());
    }
    Ok(set_capabilities(None, sets(keep.set))?)
}

fn sets(set: CapabilitySet) -> CapabilitySets {
    CapabilitySets {
        effective: set,
        permitted: set,
        inheritable: CapabilitySet::empty(),
    }
}
