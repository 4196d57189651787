// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process that starts the driver of a file system and watches it.
//!
//! It is this program again, and starts every driver. It has no keys, and of the file descriptors and the
//! environment only what a driver needs. Two processes must end together, the one that serves the
//! plaintext and the driver above it: whichever dies, `kill -9` included, one of the other two unmounts
//! both file systems.
//!
//! - The driver dies: the helper unmounts the files and the plaintext, and reports it.
//! - The server dies: the helper ends the driver, and unmounts both.
//! - The helper dies: the server unmounts both. The driver then writes what it has and ends. If it has not
//!   yet mounted the files, the server ends it.
//!
//! Standard input is the connection to the server, on which the helper writes a line for each [`Report`].
//! Standard output is the folder for the files, opened by the server: where root mounts, another user
//! could replace a part of its path by a link.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Write},
    net::Shutdown,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::PathBuf,
    process::{self, Child, Command, ExitCode, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use luxor::files::{Escaped, open_to_read};
use luxor_serve::fuse::Unmounter;
use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl::set_child_subreaper,
        signal::{SigSet, SigmaskHow, Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, geteuid, setsid},
};

use super::file_systems::folders;
use crate::process::{NAME, is_started_by_parent, this_program, unblocked};
use crate::{mounts::file_beneath, private_folder::PrivateFolder};

/// The environment variable of a helper: the process ID of the server, twice `yes` or `no`, and the private
/// folder, whose path has no space. The command line is that of the driver, which users see in lists of
/// processes.
const TASK: &str = "LUXOR_SHOWS_FILES";

/// What the helper is to do.
pub(super) struct Task {
    /// Whether the program mounts a file system of the kernel and ends. Otherwise it is a driver, which
    /// shows the files as long as it runs.
    pub(super) is_for_kernel: bool,
    /// Whether the driver may write, so that a failure at its end may lose data.
    pub(super) may_write: bool,
    pub(super) private: PathBuf,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
}

/// What the helper tells the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// It watches the server.
    Watching,
    /// The files are there.
    Mounted,
    /// They have been unmounted, and the driver has ended.
    Ended,
    /// The driver has failed, and nothing is mounted any more.
    Failed(String),
}

impl Report {
    fn to_line(&self) -> String {
        match self {
            Self::Watching => "watching\n".to_owned(),
            Self::Mounted => "mounted\n".to_owned(),
            Self::Ended => "ended\n".to_owned(),
            Self::Failed(words) => format!("failed {words}\n"),
        }
    }

    fn of_line(line: &str) -> Option<Self> {
        match line.strip_suffix('\n')? {
            "watching" => Some(Self::Watching),
            "mounted" => Some(Self::Mounted),
            "ended" => Some(Self::Ended),
            line => Some(Self::Failed(line.strip_prefix("failed ")?.to_owned())),
        }
    }
}

/// The server's end of the connection to the helper.
pub(super) struct Helper {
    connection: BufReader<UnixStream>,
    child: Child,
    private: PrivateFolder,
    /// The folder for the files.
    folder: File,
    /// Whether it has reported that the files are mounted.
    has_mounted: bool,
}

impl Helper {
    /// Starts the helper, which waits for [`Helper::begin`]. `folder` is the open folder for the files.
    pub(super) fn start(task: &Task, folder: &File) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        // If the helper dies, the driver becomes a child of this process.
        set_child_subreaper(true)?;
        let folder = folder.try_clone()?;
        let mut value = OsString::from(process::id().to_string());
        for yes in [task.is_for_kernel, task.may_write] {
            value.push(format!(" {}", if yes { "yes" } else { "no" }));
        }
        value.push(" ");
        value.push(&task.private);
        let mut helper = this_program();
        helper
            .arg0(NAME)
            .arg(&task.program)
            .args(&task.arguments)
            .env_clear()
            .env(TASK, value)
            .env("PATH", env::join_paths(search_path()).unwrap_or_default())
            // Names in file systems are UTF-8, and messages English.
            .env("LC_ALL", "C.UTF-8")
            .stdin(OwnedFd::from(theirs))
            .stdout(folder.try_clone()?)
            .stderr(Stdio::null());
        let child = unblocked(|| helper.spawn())?;
        // It has the only other end.
        drop(helper);
        let mut helper = Self {
            connection: BufReader::new(ours),
            child,
            private: PrivateFolder::at(task.private.clone()),
            folder,
            has_mounted: false,
        };
        match helper.next() {
            Some(Report::Watching) => Ok(helper),
            _ => Err(io::Error::other("it has ended")),
        }
    }

    /// Lets the helper start the driver. The plaintext is mounted.
    pub(super) fn begin(&self) -> io::Result<()> {
        self.connection.get_ref().write_all(&[0])
    }

    /// Returns a function that makes [`Helper::next`] return at once. The helper takes it for the end of the
    /// server.
    pub(super) fn leaver(&self) -> io::Result<impl FnOnce() + Send + use<>> {
        let connection = self.connection.get_ref().try_clone()?;
        Ok(move || drop(connection.shutdown(Shutdown::Both)))
    }

    /// Waits for the next report. `None` means that the helper has died.
    pub(super) fn next(&mut self) -> Option<Report> {
        let mut line = String::new();
        self.connection.read_line(&mut line).ok()?;
        let report = Report::of_line(&line)?;
        self.has_mounted |= report == Report::Mounted;
        Some(report)
    }

    /// Does what the helper would have done if it was killed before it could report the files.
    fn clean_up(&self) -> io::Result<()> {
        end_children();
        for found in [
            Unmounter::find(&self.private.files())?,
            Unmounter::find_over(&self.folder)?,
        ] {
            let is_ours = |found: &Unmounter| {
                let file = file_beneath(found);
                file.is_some_and(|file| file.starts_with(self.private.root()))
            };
            unmount(found.filter(is_ours))?;
        }
        Ok(())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // A helper that has work left takes this for the end of the server.
        let _ = self.connection.get_ref().shutdown(Shutdown::Both);
        let ended = self.child.wait();
        if !self.has_mounted && !ended.is_ok_and(|status| status.success()) {
            let _ = self.clean_up();
        }
    }
}

/// Where the driver looks for programs, such as `fusermount3`.
fn search_path() -> Vec<PathBuf> {
    let usual = ["/usr/bin", "/bin"].map(PathBuf::from);
    folders().into_iter().chain(usual).collect()
}

/// Does the work of a helper, if this process was started as one.
pub(crate) fn run_if_started() -> Option<ExitCode> {
    if !is_started_by_parent(TASK) {
        return None;
    }
    let value = env::var(TASK).ok()?;
    let mut words = value.split(' ').skip(1);
    let mut is_yes = || Some(words.next()? == "yes");
    let (is_for_kernel, may_write) = (is_yes()?, is_yes()?);
    let mut line = env::args_os().skip(1);
    let task = Task {
        is_for_kernel,
        may_write,
        private: words.next()?.into(),
        program: line.next()?.into(),
        arguments: line.collect(),
    };
    // An error here is one of the connection: the server has gone.
    Some(work(&task).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}

enum Event {
    /// The server has ended.
    ServerGone,
    /// Something was mounted or unmounted.
    Mounts,
    /// The driver has answered a first request, or not.
    Looked(io::Result<()>),
    /// The driver and all its children have ended. An error says how.
    DriverGone(Result<(), String>),
}

fn work(task: &Task) -> io::Result<()> {
    // Signals are for the server. This holds for all threads, which are started later.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    // Ctrl-C, and the end of the terminal, must not reach the driver, which would stop before the server.
    let _ = setsid();
    env::set_current_dir("/")?;
    // Drivers that go to the background stay children of this process.
    set_child_subreaper(true)?;
    let connection = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (events, received) = mpsc::channel();
    watch_mounts(open_to_read("/proc/self/mountinfo")?, events.clone());
    let mut watch = Watch {
        task,
        private: PrivateFolder::at(task.private.clone()),
        connection,
        events: events.clone(),
        mounted: None,
        is_announced: false,
        ended: None,
    };
    watch.say(&Report::Watching)?;
    // Until the plaintext is mounted.
    if (&watch.connection).read_exact(&mut [0]).is_err() {
        return watch.unmount_all();
    }
    watch_server(watch.connection.try_clone()?, events.clone());
    let driver = Driver::start(task, before);
    if driver.is_ok() {
        watch_children(events);
    }
    // An error is one of the connection, or of an unmount, which is tried again.
    let _ = watch.until_server_has_gone(&received, driver);
    end_children();
    watch.unmount_all()
}

/// How the driver has ended.
struct Ended {
    /// Why it has failed, if it has.
    failure: Option<String>,
    /// What to say if it has mounted nothing.
    nothing: String,
}

struct Watch<'a> {
    task: &'a Task,
    private: PrivateFolder,
    connection: UnixStream,
    events: Sender<Event>,
    /// The files, once they are there.
    mounted: Option<Unmounter>,
    /// Whether the server knows that.
    is_announced: bool,
    ended: Option<Ended>,
}

impl Watch<'_> {
    fn say(&self, report: &Report) -> io::Result<()> {
        (&self.connection).write_all(report.to_line().as_bytes())
    }

    fn fail(&self, words: &str) -> io::Result<()> {
        let unmounted = self.unmount_files();
        // A driver may repeat names from the file system.
        self.say(&Report::Failed(Escaped(words).to_string()))?;
        unmounted
    }

    fn until_server_has_gone(
        &mut self,
        received: &Receiver<Event>,
        driver: io::Result<Driver>,
    ) -> io::Result<()> {
        let driver = match driver {
            Ok(driver) => Some(driver),
            Err(error) => {
                self.fail(&error.to_string())?;
                None
            }
        };
        let mut is_over = driver.is_none();
        for event in received {
            match (event, &driver) {
                (Event::ServerGone, _) => break,
                (Event::DriverGone(how), Some(driver)) => {
                    let failure = how.err();
                    self.ended = Some(Ended {
                        failure: failure.map(|how| driver.failure(&how, self.mounted.is_none())),
                        nothing: driver.failure("has mounted nothing", true),
                    });
                }
                (Event::Looked(Ok(())), _) if !is_over => self.announce()?,
                // The driver is about to end, and says why.
                (Event::Looked(Err(error)), _) if error.kind() == io::ErrorKind::NotConnected => {}
                (Event::Looked(Err(error)), _) if !is_over => {
                    self.fail(&format!("its files cannot be listed: {error}"))?;
                    is_over = true;
                }
                _ => {}
            }
            is_over = is_over || self.is_over()?;
        }
        Ok(())
    }

    /// Looks at what has changed. Returns whether the files are unmounted for good, and has then reported
    /// it. The server then unmounts the plaintext, so that `luxor umount`, which waits for that, learns
    /// from the server whether writes were lost.
    fn is_over(&mut self) -> io::Result<bool> {
        let Some(mounted) = &self.mounted else {
            return self.begin();
        };
        let is_there = mounted.folder()?.is_some();
        if self.task.is_for_kernel && is_there {
            return Ok(false);
        }
        if !self.task.is_for_kernel {
            let Some(ended) = &self.ended else {
                return Ok(false);
            };
            // A driver that only reads may end as it likes, once the files are unmounted.
            let failure = ended.failure.as_deref();
            let failure = failure.filter(|_| is_there || self.task.may_write);
            let by_itself = is_there.then_some("the driver has ended by itself");
            if let Some(failure) = failure.or(by_itself) {
                self.fail(failure)?;
                return Ok(true);
            }
        }
        self.unmount_files()?;
        self.announce()?;
        self.say(&Report::Ended)?;
        Ok(true)
    }

    /// Looks whether the files have appeared.
    fn begin(&mut self) -> io::Result<bool> {
        let is_waiting = self.task.is_for_kernel && self.ended.is_none();
        let found = if is_waiting { None } else { self.find()? };
        if let Some(found) = found {
            match self.place(found) {
                Ok(mounted) => self.mounted = Some(mounted),
                Err(error) => {
                    self.fail(&error.to_string())?;
                    return Ok(true);
                }
            }
            if self.task.is_for_kernel {
                self.announce()?;
                return Ok(false);
            }
            self.look()?;
            return self.is_over();
        }
        match &self.ended {
            None => Ok(false),
            Some(ended) => {
                self.fail(ended.failure.as_ref().unwrap_or(&ended.nothing))?;
                Ok(true)
            }
        }
    }

    /// Lists the files once, in a thread, because a driver may hang. A driver may also mount a file system, and
    /// die when it looks into that.
    fn look(&self) -> io::Result<()> {
        let mounted = self.mounted.as_ref();
        let Some(folder) = mounted.and_then(|mounted| mounted.folder().transpose()) else {
            return Ok(());
        };
        let (folder, events) = (folder?, self.events.clone());
        thread::spawn(move || {
            let first = fs::read_dir(folder).and_then(|mut entries| entries.next().transpose());
            let _ = events.send(Event::Looked(first.map(drop)));
        });
        Ok(())
    }

    fn announce(&mut self) -> io::Result<()> {
        if !self.is_announced {
            self.is_announced = true;
            self.say(&Report::Mounted)?;
        }
        Ok(())
    }

    /// Returns the mount of the driver, before it is brought to its place.
    fn find(&self) -> io::Result<Option<Unmounter>> {
        if geteuid().is_root() {
            Unmounter::find(&self.private.files())
        } else {
            Unmounter::find_over(&folder()?)
        }
    }

    /// Brings what was mounted in the private folder to its place.
    fn place(&self, found: Unmounter) -> io::Result<Unmounter> {
        if !geteuid().is_root() {
            return Ok(found);
        }
        let files = self.private.files();
        let (none, mut flags) = (None::<&str>, MsFlags::MS_NOSUID | MsFlags::MS_NODEV);
        if !self.task.may_write {
            flags |= MsFlags::MS_RDONLY;
        }
        let again = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | flags;
        mount(none, &files, none, again, none)?;
        mount(
            Some(&files),
            FOLDER,
            None::<&str>,
            MsFlags::MS_BIND,
            None::<&str>,
        )?;
        found.unmount()?;
        let placed = Unmounter::find_over(&folder()?)?;
        placed.ok_or_else(|| io::Error::other("it was unmounted at once"))
    }

    fn unmount_files(&self) -> io::Result<()> {
        match &self.mounted {
            Some(mounted) => mounted.unmount(),
            // The folder was empty when the server started the helper.
            None => self.find().and_then(unmount),
        }
    }

    /// Unmounts the files, if they are mounted, and then the plaintext.
    fn unmount_all(&self) -> io::Result<()> {
        let files = self.unmount_files();
        let plaintext = Unmounter::find(&self.private.disk()).and_then(unmount);
        self.private.remove();
        files.and(plaintext)
    }
}

/// The folder for the files, which is open as standard output.
const FOLDER: &str = "/proc/self/fd/1";

/// Returns the folder for the files.
fn folder() -> io::Result<File> {
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

fn unmount(mounted: Option<Unmounter>) -> io::Result<()> {
    mounted.map_or(Ok(()), |mounted| mounted.unmount())
}

fn watch_server(mut connection: UnixStream, events: Sender<Event>) {
    thread::spawn(move || {
        // It sends nothing.
        let _ = io::copy(&mut connection, &mut io::sink());
        let _ = events.send(Event::ServerGone);
    });
}

fn watch_mounts(mounts: File, events: Sender<Event>) {
    thread::spawn(move || {
        loop {
            let mut changed = [PollFd::new(mounts.as_fd(), PollFlags::POLLPRI)];
            let polled = poll(&mut changed, PollTimeout::NONE);
            if polled.is_err() || events.send(Event::Mounts).is_err() {
                return;
            }
        }
    });
}

/// Starts a thread that waits for the driver and all its children.
fn watch_children(events: Sender<Event>) {
    thread::spawn(move || {
        let mut how = Ok(());
        loop {
            let failed = match waitpid(None, None) {
                Ok(WaitStatus::Exited(_, 0)) => continue,
                Ok(WaitStatus::Exited(_, code)) => format!("ended with exit code {code}"),
                Ok(WaitStatus::Signaled(_, signal, _)) => format!("was ended by {signal}"),
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(_) => break,
            };
            how = how.and(Err(failed));
        }
        let _ = events.send(Event::DriverGone(how));
    });
}

/// Ends the driver and its children. They could only wait for the server, which has gone. A child of a
/// process that has ended becomes one of this process, and a program that is about to mount must have
/// ended before this process unmounts.
fn end_children() {
    // `fusermount3` belongs to root, and ends by itself.
    const LONGEST: Duration = Duration::from_secs(10);
    let begun = Instant::now();
    while begun.elapsed() < LONGEST {
        let children = children();
        if children.is_empty() {
            return;
        }
        for child in children {
            let _ = kill(child, Signal::SIGKILL);
            let _ = waitpid(child, Some(WaitPidFlag::WNOHANG));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn children() -> Vec<Pid> {
    let tasks = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let numbers = lists.flat_map(|list| {
        let numbers = list.split_ascii_whitespace().map(str::parse);
        numbers.filter_map(Result::ok).collect::<Vec<_>>()
    });
    numbers.map(Pid::from_raw).collect()
}

/// The driver that this process has started.
struct Driver {
    /// The end of what it has written to its standard streams.
    words: Arc<Mutex<Vec<u8>>>,
    reader: Mutex<Option<JoinHandle<()>>>,
    name: String,
}

impl Driver {
    fn start(task: &Task, signals: SigSet) -> io::Result<Self> {
        // fuse2fs says on standard output why it fails.
        let (from_driver, output) = io::pipe()?;
        let errors = output.try_clone()?;
        let own = signals.thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let spawned = Command::new(&task.program)
            .args(&task.arguments)
            .env_remove(TASK)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn();
        own.thread_set_mask()?;
        spawned?;
        let words = Arc::default();
        let kept = Arc::clone(&words);
        let reader = thread::spawn(move || keep_end(from_driver, &kept));
        let name = task.program.file_name().unwrap_or_default();
        Ok(Self {
            words,
            reader: Mutex::new(Some(reader)),
            name: name.to_string_lossy().into_owned(),
        })
    }

    /// Says why the driver has failed, with its own last words, or with its first ones: after those it may
    /// print help.
    fn failure(&self, how: &str, are_first: bool) -> String {
        let reader = self
            .reader
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(reader) = reader {
            let _ = reader.join();
        }
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let words = String::from_utf8_lossy(&words);
        let lines = words.lines().map(str::trim).filter(|line| !line.is_empty());
        let lines: Vec<_> = lines.collect();
        let excess = lines.len().saturating_sub(MOST_LINES);
        let lines = if are_first {
            &lines[..lines.len() - excess]
        } else {
            &lines[excess..]
        };
        match lines.join("; ").as_str() {
            "" => format!("{} {how}", self.name),
            words => format!("{} {how}: {words}", self.name),
        }
    }
}

/// The most lines of a driver that a message repeats.
const MOST_LINES: usize = 3;

/// Reads to the end, and keeps the last bytes.
fn keep_end(mut stream: impl Read, kept: &Mutex<Vec<u8>>) {
    const MOST: usize = 4096;
    let mut piece = [0; 1024];
    while let Ok(len @ 1..) = stream.read(&mut piece) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&piece[..len]);
        let excess = kept.len().saturating_sub(MOST);
        kept.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_lines() {
        for report in [
            Report::Watching,
            Report::Mounted,
            Report::Ended,
            Report::Failed("a b".to_owned()),
        ] {
            assert_eq!(Report::of_line(&report.to_line()), Some(report));
        }
        for line in ["", "ended", "other\n"] {
            assert_eq!(Report::of_line(line), None, "{line:?}");
        }
    }

    #[test]
    fn only_the_end_of_long_words_is_kept() {
        let kept = Mutex::default();
        let long = [vec![b'a'; 10_000], b"end".to_vec()].concat();
        keep_end(&*long, &kept);
        let kept = kept.into_inner().unwrap();
        assert_eq!(kept.len(), 4096);
        assert!(kept.ends_with(b"aend"));
    }
}
