// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor mount --files`: the plaintext is a file in a private folder, and a driver shows the files in it.

mod file_systems;
mod helper;

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread::{self, JoinHandle},
};

use luxor::{
    Contents, ContentsClass, DiskPart, PartitionContents, VolumeDisk,
    files::{VolumePartError, path_name, shell_word},
};
use luxor_serve::{
    Export, Frontend, ServeError, Stopper,
    fuse::{FileName, MountOptions, MountPoint, Mounted, Unmounter},
};

use self::{
    file_systems::{Driver, FileSystem},
    helper::{Helper, Report, Task},
};
use crate::{
    error::{Error, ErrorClass, Result},
    frontend::{FrontendSetup, Interrupter, Started},
    mount_error,
    mounts::remove_leftovers,
    private_folder::{NAME, PrivateFolder},
    process::{keep_descriptors, unblocked},
    unmounting::UnmountProcess,
};

/// Does the work of the process that watches a driver, if this process was started for it.
pub(crate) fn run_helper_if_started() -> Option<ExitCode> {
    helper::run_if_started()
}

/// How the user wants to see the files.
#[derive(Clone, Copy)]
pub(crate) struct FilesOptions {
    /// The partition of the plaintext.
    pub(crate) partition: Option<u32>,
    /// Whether `--read-only` was given.
    pub(crate) read_only: bool,
    /// Whether `--read-write` was given.
    pub(crate) read_write: bool,
}

/// The frontend that shows files.
pub(crate) struct Files<'a> {
    pub(crate) folder: &'a Path,
    /// Until it is mounted on.
    pub(crate) point: Option<MountPoint>,
    pub(crate) options: FilesOptions,
    /// The name that the plaintext has as a file without `--files`.
    pub(crate) name: FileName,
    /// Says how the user ends the mount, on a terminal.
    pub(crate) end: Option<String>,
    /// The mount of the plaintext.
    pub(crate) mount: MountOptions,
    /// Whether the files can be changed, once they are mounted.
    pub(crate) may_write: bool,
    pub(crate) wait: Arc<Mutex<Wait>>,
}

impl Files<'_> {
    /// Says what helps if the program failed with `words` for the file system at this byte.
    fn repair(&self, plan: &Plan, words: &str, offset: u64) -> String {
        if plan.is_for_kernel && self.options.read_only && words.contains("read-only") {
            return "If it was not unmounted cleanly, the kernel must write to it first, to replay its journal: \
                    leave out --read-only."
                .to_owned();
        }
        if plan.found.kernel == "ext4" && words.contains("Journal needs recovery") {
            if offset > 0 {
                // e2fsck loses the offset (`?offset=`) when it has replayed the journal.
                return "It was not unmounted cleanly. The kernel replays its journal if root mounts it without \
                        --read-only."
                    .to_owned();
            }
            let folder = shell_word(self.folder);
            let file = self.folder.join(self.name.as_os_str());
            let file = shell_word(&file);
            return format!(
                "It was not unmounted cleanly. These commands replay its journal: \
                 `luxor mount --background VOLUME {folder}`; `e2fsck -y -E journal_only {file}`; \
                 `luxor umount {folder}`"
            );
        }
        "If it was not unmounted cleanly, `luxor mount VOLUME DIR` shows it as a file to the program \
         that repairs it, such as e2fsck."
            .to_owned()
    }

    /// Returns the part of the plaintext that is to be mounted.
    fn part(&self, volume: &VolumeDisk, is_changed: bool) -> Result<DiskPart> {
        let number = self.options.partition;
        DiskPart::find(volume.shared(), number, is_changed).map_err(|error| {
            let what = format!("the plaintext of {}: {error}", volume.name());
            match (&error, number) {
                (VolumePartError::NoTable, Some(_)) => {
                    let no_table = "Leave out --partition. For a partition table around the volume, \
                                    --volume-partition N takes its place.";
                    Error::failure(what).hint(no_table)
                }
                _ => Error::failure(what),
            }
        })
    }
}

/// The wait for the driver, which may never mount anything.
#[derive(Default)]
pub(crate) struct Wait {
    is_interrupted: bool,
    /// Ends it, while it lasts.
    end: Option<Box<dyn FnOnce() + Send>>,
}

impl Wait {
    fn interrupt(wait: &Mutex<Self>) {
        let mut wait = wait.lock().unwrap_or_else(PoisonError::into_inner);
        wait.is_interrupted = true;
        if let Some(end) = wait.end.take() {
            end();
        }
    }

    /// Waits for the first report of `helper`.
    fn first_report(wait: &Mutex<Self>, helper: &mut Helper) -> Result<Option<Report>> {
        let lock = || wait.lock().unwrap_or_else(PoisonError::into_inner);
        let leaver = helper.leaver();
        let leaver = leaver.map_err(|error| Error::io("cannot wait for the driver", &error))?;
        let is_interrupted = || lock().is_interrupted;
        lock().end = Some(Box::new(leaver));
        // By a signal that came before.
        let report = if is_interrupted() {
            None
        } else {
            helper.next()
        };
        lock().end = None;
        if is_interrupted() {
            return Err(Error::new(ErrorClass::Cancelled, "interrupted"));
        }
        Ok(report)
    }
}

impl FrontendSetup for Files<'_> {
    fn interrupter(&self) -> Interrupter {
        let wait = Arc::clone(&self.wait);
        Box::new(move || Wait::interrupt(&wait))
    }

    fn looks_first(&self) -> bool {
        !self.options.read_write
    }

    fn will_write(&self, volume: &VolumeDisk) -> Result<bool> {
        let part = self.part(volume, false)?;
        let plan = Plan::new(file_system(&part.contents)?, self.options, false)?;
        Ok(!plan.is_read_only)
    }

    fn start(&mut self, volume: &VolumeDisk, export: Arc<Export>) -> Result<Started> {
        let point = self.point.take().expect("`start` is called once");
        let folder = path_name(self.folder);
        let is_read_only = export.disk().is_read_only();
        let part = self.part(volume, !is_read_only)?;
        let plan = Plan::new(file_system(&part.contents)?, self.options, is_read_only)?;
        self.may_write = !plan.is_read_only;
        let path = point
            .empty_path()
            .map_err(|error| mount_error::refused(&error))?;

        keep_descriptors()?;
        // The private folder keeps all other users out.
        let allow_other = !plan.is_for_kernel && Driver::sets_user_id(&plan.program);
        if allow_other {
            let folder = path_name(self.folder);
            let program = path_name(&plan.program);
            let what = format!("{program}, which is to show the files in {folder}, runs as root");
            mount_error::check_allow_other(&what)?;
        }
        remove_leftovers();
        let private = PrivateFolder::create();
        let private =
            private.map_err(|error| Error::io("cannot make a folder for the plaintext", &error))?;
        let options = MountOptions {
            part: Some(part.range.clone()),
            read_only: plan.is_read_only,
            allow_other,
            ..self.mount.clone()
        };
        let task = plan.task(&private, &path);
        let failed = |error| Error::io("cannot start the driver's watcher", &error);
        // It starts before the plaintext is mounted, so that it unmounts that whenever this process is killed.
        let helper = Helper::start(&task, point.handle())
            .inspect_err(|_| private.remove())
            .map_err(failed)?;
        let mut running = Running {
            helper,
            session: Session::start(Arc::clone(&export), private, &options)?,
            export: self.may_write.then_some(export),
        };
        let process = UnmountProcess::start(point.handle(), self.folder, None)?;
        running.helper.begin().map_err(failed)?;
        let name = plan.found.name;
        match Wait::first_report(&self.wait, &mut running.helper)? {
            Some(Report::Mounted) => {}
            Some(Report::Failed(words)) => {
                let what = format!("cannot mount the {name} file system: {words}");
                return Err(Error::failure(what).hint(self.repair(
                    &plan,
                    &words,
                    part.range.start,
                )));
            }
            _ => return Err(Error::failure(WATCHER_ENDED)),
        }
        let shown = Unmounter::find_over(point.handle());
        let shown = shown.map_err(|error| Error::io(format!("cannot look at {folder}"), &error))?;
        running.session.mounts.let_others_unmount(process, shown);
        let mode = if plan.is_read_only { ", read-only" } else { "" };
        let mut lines = vec![format!(
            "the files of {} ({name}{mode}) are in {folder} until it is unmounted",
            volume.name()
        )];
        lines.extend(plan.why_read_only);
        lines.extend(self.end.clone());
        let hint = format!(
            "{folder} stays mounted; to unmount it: `luxor umount {}`",
            shell_word(self.folder)
        );
        Ok(Started {
            status: format!("The files of {} are in {folder}", volume.name()),
            stop: {
                let mounts = Arc::clone(&running.session.mounts);
                Arc::new(move || {
                    let unmounted = mounts.unmount_files();
                    unmounted.map_err(|error| Error::io("cannot unmount", &error).hint(&hint))
                })
            },
            frontend: Box::new(running),
            lines,
            still_in_use: Some(format!(
                "the files in {folder} are still in use: luxor exits when no program has one open"
            )),
        })
    }

    fn error(&self, name: &str, error: &ServeError) -> Error {
        match error {
            ServeError::Flush { source } => {
                Error::io(format!("{name}: recent writes may be lost"), source)
            }
            ServeError::Kernel { source } if self.may_write => {
                Error::io(format!("{name}: recent writes may be lost"), source)
            }
            ServeError::Kernel { source } => Error::io(name.to_owned(), source),
            _ => Error::failure(format!("{name}: {error}")),
        }
    }
}

const WATCHER_ENDED: &str = "the process that watches the driver has ended";

/// How a file system is shown.
struct Plan {
    found: &'static FileSystem,
    is_read_only: bool,
    /// Why, if the user did not say so.
    why_read_only: Option<String>,
    /// The program, and whether it mounts a file system of the kernel.
    program: PathBuf,
    is_for_kernel: bool,
}

impl Plan {
    fn new(found: &'static FileSystem, options: FilesOptions, is_read_only: bool) -> Result<Self> {
        let name = found.name;
        if options.read_write && !found.is_writable {
            return Err(Error::failure(format!("no file in {name} can be changed")));
        }
        if options.read_write && is_read_only {
            return Err(Error::failure("the plaintext can only be read"));
        }
        let is_read_only = options.read_only || is_read_only || !found.is_writable;
        if found.is_for_kernel() {
            let mount = file_systems::find("mount");
            return Ok(Self {
                found,
                is_read_only,
                why_read_only: None,
                program: mount.ok_or_else(|| Error::failure("the program mount is missing"))?,
                is_for_kernel: true,
            });
        }
        let is_root = nix::unistd::geteuid().is_root();
        let Some(driver) = &found.driver else {
            let what = format!("there is no driver for {name}");
            return Err(Error::failure(if is_root {
                format!("this kernel cannot mount {name} here, and {what}")
            } else {
                format!("{what}: the kernel has one, for which it takes root")
            }));
        };
        let program = driver.find().ok_or_else(|| {
            let what = format!(
                "{name} needs the program {}, which is not installed",
                driver.program
            );
            let instead = "Without --files, `luxor mount VOLUME DIR` needs no driver, and shows the plaintext as \
                           a file.";
            Error::failure(what).hint(format!("{} {instead}", driver.packages()))
        })?;
        let weakness = driver
            .weakness
            .filter(|_| !options.read_only && !options.read_write);
        Ok(Self {
            found,
            is_read_only: is_read_only || weakness.is_some(),
            why_read_only: weakness.map(|why| format!("{why}: --read-write permits writes")),
            program,
            is_for_kernel: false,
        })
    }

    /// What the helper is to do, to show the files on `folder`.
    fn task(&self, private: &PrivateFolder, folder: &Path) -> Task {
        let image = private.disk().join(NAME);
        let files = private.files();
        let folder = if nix::unistd::geteuid().is_root() {
            &files
        } else {
            folder
        };
        let arguments = match &self.found.driver {
            Some(driver) if !self.is_for_kernel => {
                driver.arguments(&image, folder, self.is_read_only)
            }
            _ => {
                let mode = if self.is_read_only { "ro" } else { "rw" };
                let options = format!("loop,nosuid,nodev,{mode}");
                let words = ["-t", self.found.kernel, "-o", &options, "--"].map(Into::into);
                let paths = [image.into(), folder.into()];
                words.into_iter().chain(paths).collect()
            }
        };
        Task {
            is_for_kernel: self.is_for_kernel,
            may_write: !self.is_read_only,
            private: private.root().to_owned(),
            program: self.program.clone(),
            arguments,
        }
    }
}

/// Returns the file system that the plaintext is.
fn file_system(contents: &Contents) -> Result<&'static FileSystem> {
    let error = match contents {
        Contents::Known { name, .. } if let Some(found) = FileSystem::of(name) => return Ok(found),
        Contents::Disk { kind, partitions } => {
            let kind = kind.name();
            let what = format!("the plaintext is a disk with a partition table ({kind})");
            let lines = partitions.iter().map(|found| format!("\n    {}", row(found)));
            let lines: String = lines.collect();
            Error::failure(what).hint(format!("Choose a partition with --partition N:{lines}"))
        }
        Contents::DamagedTable => {
            Error::failure("the plaintext is a disk whose partition table (GPT) is damaged")
        }
        Contents::VolumeAt {
            offset: 0, version, ..
        } => Error::failure(format!("the plaintext is another {version} volume")).hint(
            "`luxor mount VOLUME DIR` shows the plaintext as a file, and that file can be mounted in \
             the same way.",
        ),
        Contents::Known {
            name,
            class: ContentsClass::Member,
        } => Error::failure(format!("the plaintext is {name}, and its files may be on others too"))
            .hint(
                "`luxor mount VOLUME DIR` shows the plaintext as a file. As root, attach it to a loop \
                 device, and assemble it with the programs of LVM (vgchange) or RAID (mdadm).",
            ),
        Contents::Known { name, .. } => {
            let what = format!("the plaintext is {name}, which luxor cannot show as files");
            Error::failure(what).hint(WITHOUT_FILES)
        }
        other => Error::failure(format!("the plaintext has no known file system: {other}"))
            .hint(WITHOUT_FILES),
    };
    Err(error)
}

const WITHOUT_FILES: &str = "Leave out --files to see it as a file: `luxor mount VOLUME DIR`";

/// Returns the name of the file system in a volume, if `--files` is for that.
pub(crate) fn name_of_file_system(volume: &VolumeDisk) -> Option<&'static str> {
    let part = DiskPart::find(volume.shared(), None, false).ok()?;
    file_system(&part.contents).ok().map(|found| found.name)
}

/// A partition, for the list of them.
fn row(found: &PartitionContents) -> String {
    let what = match (found.volume, found.name) {
        (Some(version), _) => format!("a {version} volume"),
        (None, Some(name)) => name.to_owned(),
        (None, None) if !found.is_there => "missing here".to_owned(),
        (None, None) => "no known signature".to_owned(),
    };
    format!("{}: {what}, {} bytes", found.number, found.len)
}

/// What is mounted.
struct Mounts {
    private: PrivateFolder,
    plaintext: Unmounter,
    /// The mount of the files, once it is there.
    files: OnceLock<Unmounter>,
    /// The process that unmounts the plaintext, once there is one for the files.
    plaintext_process: UnmountProcess,
    /// The process that unmounts the files, once this process is not to unmount any more.
    files_process: OnceLock<UnmountProcess>,
}

impl Mounts {
    /// Has other processes unmount from now on: `process` the files, which are `files`.
    fn let_others_unmount(&self, process: UnmountProcess, files: Option<Unmounter>) {
        // The files may have been unmounted at once, which the helper reports next.
        let files = files.filter(|_| process.has_mounted().is_ok());
        let _ = self.files_process.set(process);
        if let Some(files) = files {
            let _ = self.files.set(files);
        }
    }

    fn unmount_files(&self) -> io::Result<()> {
        match (self.files.get(), self.files_process.get()) {
            (None, _) => Ok(()),
            (Some(files), None) => unblocked(|| files.unmount()),
            (Some(files), Some(process)) => process.unmount(files),
        }
    }

    fn unmount_plaintext(&self) -> io::Result<()> {
        match self.files_process.get() {
            None => unblocked(|| self.plaintext.unmount()),
            Some(_) => self.plaintext_process.unmount(&self.plaintext),
        }
    }

    fn remove_private(&self) {
        match self.files_process.get() {
            None => self.private.remove(),
            // If the process was killed, the next mount removes the folder.
            Some(_) => drop(self.plaintext_process.remove_private()),
        }
    }
}

/// The plaintext in the private folder, served by a thread.
struct Session {
    mounts: Arc<Mounts>,
    thread: Option<JoinHandle<std::result::Result<(), ServeError>>>,
}

impl Session {
    fn start(export: Arc<Export>, private: PrivateFolder, options: &MountOptions) -> Result<Self> {
        let refused = |error| mount_error::refused(&error);
        let mount = || -> Result<_> {
            let disk = private.disk();
            let point = MountPoint::new(&disk).map_err(refused)?;
            let process = UnmountProcess::start(point.handle(), &disk, Some(&private))?;
            let mounted = unblocked(|| Mounted::new(export, point, options)).map_err(refused)?;
            Ok((process, mounted))
        };
        let (plaintext_process, mounted) = mount().inspect_err(|_| private.remove())?;
        let mounts = Arc::new(Mounts {
            private,
            plaintext: mounted.unmounter(),
            files: OnceLock::new(),
            plaintext_process,
            files_process: OnceLock::new(),
        });
        let mut session = Self {
            mounts: Arc::clone(&mounts),
            thread: None,
        };
        let thread = thread::Builder::new().name("plaintext".into());
        let thread = thread.spawn(move || {
            let served = Box::new(mounted).run();
            // If the connection to the kernel has ended first, the driver cannot go on.
            let _ = mounts.unmount_files();
            served
        });
        match thread {
            Ok(thread) => session.thread = Some(thread),
            Err(error) => return Err(Error::io("cannot start a thread", &error)),
        }
        session.mounts.plaintext_process.has_mounted()?;
        Ok(session)
    }

    /// Unmounts the files and the plaintext, as far as they are still mounted, and waits until no program
    /// uses them.
    fn end(&mut self) -> std::result::Result<(), ServeError> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        let files = self.mounts.unmount_files();
        let served = match files.and(self.mounts.unmount_plaintext()) {
            Ok(()) => thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(source) => Err(ServeError::Kernel { source }),
        };
        self.mounts.remove_private();
        served
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The files, which are mounted.
struct Running {
    /// Dropped first: it ends the driver, for which the session waits.
    helper: Helper,
    session: Session,
    /// The plaintext, if the driver may write.
    export: Option<Arc<Export>>,
}

impl Frontend for Running {
    fn stopper(&self) -> Stopper {
        let mounts = Arc::clone(&self.session.mounts);
        Box::new(move || mounts.unmount_files())
    }

    fn run(mut self: Box<Self>) -> std::result::Result<(), ServeError> {
        let report = self.helper.next();
        let has_failed = matches!(report, Some(Report::Failed(_)));
        let note_lost_writes = |export: &Arc<Export>| {
            if has_failed || export.stats().has_failed_writes() {
                export.lose_writes();
            }
        };
        // Programs were told long ago that their writes had succeeded. `luxor umount` learns of the loss from
        // the last flush.
        self.export.iter().for_each(note_lost_writes);
        let ended = self.session.end();
        let failed = match report {
            Some(Report::Failed(words)) => words,
            None => WATCHER_ENDED.to_owned(),
            Some(_) => {
                // Programs that had files open could write until now.
                self.export.iter().for_each(note_lost_writes);
                let flush = |export: Arc<Export>| export.flush();
                let flushed = self.export.map_or(Ok(()), flush);
                return ended.and(flushed.map_err(|source| ServeError::Flush { source }));
            }
        };
        Err(ServeError::Kernel {
            source: io::Error::other(failed),
        })
    }
}

/// The name of the file with the plaintext.
pub(crate) fn name_of_plaintext() -> FileName {
    FileName::new(NAME).expect("it is a valid file name")
}
