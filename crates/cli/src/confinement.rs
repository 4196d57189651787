// SPDX-License-Identifier: MIT OR Apache-2.0
//! Confines this process, as `--confine` says. `crates/confine` does it.

use std::{fs, path::Path};

use luxor::{
    engines::{self, calibration},
    files::locks::prepare_lock_folder,
};
use luxor_confine::{Access, Needs, confine};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};

use crate::{
    args::ConfineWhen,
    commands,
    context::Context,
    error::{Error, Result},
    process,
};

/// Returns what every process needs that reads or writes a volume.
pub(crate) fn needs(context: &Context) -> Needs {
    let mut needs = Needs::default();
    // The C library counts the processors for the memory of its threads.
    needs.add("/sys/devices/system/cpu/online", Access::Read);
    // cryptsetup's locks, which are removed when they are released.
    needs.add(prepare_lock_folder(), Access::Change);
    if engines::may_use_device(&context.library) {
        needs.drivers = Some("the driver of a device opens files and starts programs".to_owned());
    }
    needs
}

/// Returns what a command needs that opens a volume and asks for its secret.
pub(crate) fn needs_of_reader(context: &Context) -> Needs {
    let mut needs = needs(context);
    let options = &context.options;
    let files = [&options.key_file, &options.volume_key_file];
    for path in files.into_iter().flatten() {
        needs.add(path, Access::Read);
    }
    needs.add("/dev/tty", Access::Terminal);
    needs.keyring = true;
    if let Ok(calibration) = calibration::path() {
        needs.add(calibration, Access::Read);
    }
    // How much memory Argon2 may use, and which devices show a file.
    for folder in [
        "/proc",
        "/sys/fs/cgroup",
        "/sys/block",
        "/sys/dev/block",
        "/sys/devices",
    ] {
        needs.add(folder, Access::Read);
    }
    needs
}

/// Adds an output, whose file is still to get its name.
pub(crate) fn add_output(needs: &mut Needs, output: &Path) {
    if commands::is_stdout(output) {
        return;
    }
    needs.change_file(output);
    // A link, which is followed.
    if let Ok(target) = fs::read_link(output) {
        let folder = output.parent().unwrap_or(Path::new(""));
        needs.change_file(folder.join(target));
    }
}

/// Confines this process to `needs`.
///
/// # Errors
/// Fails with `--confine require` if a measure could not be taken wholly.
pub(crate) fn begin(needs: &Needs, context: &Context) -> Result<()> {
    let when = context.options.confine;
    if when == ConfineWhen::No {
        return Ok(());
    }
    keep_locking_memory();
    let report = confine(needs, process::on_waiting_threads);
    if when == ConfineWhen::Require && !report.is_whole() {
        return Err(
            Error::failure(format!("this process could not be confined: {report}"))
                .hint("Without --confine require, Luxor confines itself as far as it can."),
        );
    }
    context.console.note(format!("confined: {report}"));
    Ok(())
}

/// Raises the limit on locked memory as far as possible, because root loses the capability that exempts root
/// from it.
fn keep_locking_memory() {
    let limit = Resource::RLIMIT_MEMLOCK;
    if setrlimit(limit, RLIM_INFINITY, RLIM_INFINITY).is_err()
        && let Ok((_, most)) = getrlimit(limit)
    {
        let _ = setrlimit(limit, most, most);
    }
}
