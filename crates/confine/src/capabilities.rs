// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives up the capabilities of root.

use std::{io, path::PathBuf, thread};

use rustix::{
    fs::{self, Access as Rights},
    io::Errno,
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
    /// For what.
    pub(crate) folder: Option<PathBuf>,
}

/// Returns the capabilities that the process needs. Root may remove a file from the folder of another user
/// only by `CAP_DAC_OVERRIDE`: without it a socket or a pid file there would stay behind.
pub(crate) fn needed(needs: &Needs) -> Kept {
    let has_it =
        capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::DAC_OVERRIDE));
    let changed =
        |(path, access): &(PathBuf, Access)| (*access != Access::Read).then(|| path.clone());
    let folders: Vec<_> = needs.paths.iter().filter_map(changed).collect();
    let is_closed = |folder: &PathBuf| {
        fs::access(folder, Rights::WRITE_OK | Rights::EXEC_OK) == Err(Errno::ACCESS)
    };
    // Tried on a thread that has none: capabilities belong to a thread.
    let closed = has_it.then(|| {
        let tried = thread::spawn(move || {
            set_capabilities(None, sets(CapabilitySet::empty())).ok()?;
            folders.into_iter().find(is_closed)
        });
        tried.join().ok().flatten()
    });
    let folder = closed.flatten();
    let set = match folder {
        Some(_) => CapabilitySet::DAC_OVERRIDE,
        None => CapabilitySet::empty(),
    };
    Kept { set, folder }
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
    Ok(set_capabilities(None, sets(keep.set))?)
}

fn sets(set: CapabilitySet) -> CapabilitySets {
    CapabilitySets {
        effective: set,
        permitted: set,
        inheritable: CapabilitySet::empty(),
    }
}
