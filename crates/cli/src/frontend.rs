// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a frontend, for `serve` and `mount`: from opening the volume to closing it.

use std::{
    mem,
    path::Path,
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use luxor::VolumeDisk;
use luxor_confine::{Access, Needs};
use luxor_serve::{Export, Frontend, ServeError};

use crate::{
    args::{ExportArgs, StatsArgs},
    background, confinement,
    console::Console,
    context::Context,
    error::{Error, ErrorClass, Result},
    export::{self, Background},
    notify,
    pid_file::PidFile,
    process::StopOnSignal,
    stats::{Page, StatsReporter},
};

/// A frontend that a command is about to start. The command refuses whatever it can before it makes
/// one, so before a secret is asked for.
pub(crate) trait FrontendSetup {
    /// Listens where clients connect. Called once, when the volume is open, so that an address that
    /// clients can see always works. With `--reencrypt` it is called before, so that no re-encryption
    /// begins if clients cannot connect.
    fn listen(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns a function that a signal calls while [`FrontendSetup::start`] runs. It must not block. Without
    /// one, a signal takes effect when that returns.
    fn interrupter(&self) -> Interrupter {
        Box::new(|| ())
    }

    /// Whether [`FrontendSetup::will_write`] decides whether the volume is open for writing. Otherwise only
    /// `--read-only` does.
    fn looks_first(&self) -> bool {
        false
    }

    /// Whether the frontend is going to write to this volume, which is open read-only.
    fn will_write(&self, _: &VolumeDisk) -> Result<bool> {
        Ok(true)
    }

    /// Adds what the frontend needs when clients can use it, beyond what is open.
    fn add_needs(&self, _: &mut Needs) {}

    /// Makes the frontend, once, after [`FrontendSetup::listen`].
    fn start(&mut self, volume: &VolumeDisk, export: Arc<Export>) -> Result<Started>;

    /// Says for the user why the frontend has failed. `name` is the name of the volume.
    fn error(&self, name: &str, error: &ServeError) -> Error {
        let class = match error {
            ServeError::Thread { .. } => ErrorClass::OutOfMemory,
            _ => ErrorClass::Failure,
        };
        Error::new(class, format!("{name}: {error}"))
    }
}

/// Ends the start of a frontend early, which then fails.
pub(crate) type Interrupter = Box<dyn Fn() + Send>;

/// A frontend that clients can find.
pub(crate) struct Started {
    /// The frontend, which does not run yet.
    pub(crate) frontend: Box<dyn Frontend>,
    /// Its [`Frontend::stopper`], with errors for the user.
    pub(crate) stop: StopFrontend,
    /// Where clients find it, in lines for the user.
    pub(crate) lines: Vec<String>,
    /// The same as one sentence for the service manager.
    pub(crate) status: String,
    /// A warning for when it takes longer to stop than a second.
    pub(crate) still_in_use: Option<String>,
}

/// Asks the frontend to stop.
pub(crate) type StopFrontend = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// The options of a command that concern no frontend in particular.
pub(crate) struct RunOptions<'a> {
    export: &'a ExportArgs,
    stats: &'a StatsArgs,
    page: Page,
    pid_file: Option<&'a Path>,
}

impl<'a> RunOptions<'a> {
    /// Checks the options, before a secret is asked for.
    ///
    /// # Errors
    /// Fails when the pid file cannot be used, and when other machines could reach the metrics.
    pub(crate) fn new(
        export: &'a ExportArgs,
        stats: &'a StatsArgs,
        pid_file: Option<&'a Path>,
    ) -> Result<Self> {
        if let Some(path) = pid_file {
            PidFile::check(path)?;
        }
        Ok(Self {
            export,
            stats,
            page: Page::from_args(stats)?,
            pid_file,
        })
    }
}

/// Opens a volume and serves it by a frontend until a signal arrives or the frontend ends by itself.
///
/// # Errors
/// Fails when the volume, the secret or the frontend cannot be used, and when writes of clients cannot
/// be made durable.
pub(crate) fn run(
    setup: &mut impl FrontendSetup,
    options: &RunOptions<'_>,
    context: &Context,
) -> Result<()> {
    let console = context.console;
    let listens_first = options.export.reencrypt.is_some();
    if listens_first {
        setup.listen()?;
    }
    let will_write = |volume: &VolumeDisk| setup.will_write(volume);
    let will_write: export::WillWrite<'_> = &will_write;
    let will_write = setup.looks_first().then_some(will_write);
    let (volume, work) = export::open(options.export, will_write, context)?;
    if !listens_first {
        setup.listen()?;
    }
    let export = Export::new(Arc::clone(volume.shared()));
    let (events, received) = mpsc::channel();
    // A signal may arrive before the frontend has started.
    let _signals = stop_on_signal(&events, setup.interrupter());
    let Started {
        frontend,
        stop,
        lines,
        status,
        still_in_use,
    } = setup.start(&volume, Arc::clone(&export))?;
    let mut pid_file = None;
    let serve = || {
        let page = options.page.listen(&export)?;
        pid_file = options.pid_file.map(PidFile::create).transpose()?;
        notify::connect();
        // Everything is open, and the threads that start from now on are confined too.
        confinement::begin(&needs(setup, options, context), context)?;
        let reporter = StatsReporter::begin(options.stats, page, &export)?;
        stop_on_events(&events, received, Arc::clone(&stop), still_in_use, console)?;
        for line in lines {
            console.tell(line);
        }
        reporter.announce(console);
        notify::ready(console, &status);
        background::ready()?;
        let background = Background::begin(work, export.stats())?;
        let served = frontend.run();
        notify::stopping();
        let worked = background.end();
        let _ = events.send(Event::Ended);
        served
            .map_err(|error| setup.error(volume.name(), &error))
            .and(worked)
    };
    let served = serve();
    // After an error, programs may still find the frontend, such as a folder that is mounted.
    let stopped = stop();
    if let (Err(_), Err(error)) = (&served, &stopped) {
        console.warn(error.message());
    }
    // Release the volume before the socket and the pid file disappear: a program that waits for
    // that can then use the volume.
    drop((export, volume));
    served.and(stopped)
}

/// Returns what this process needs from now on.
fn needs(setup: &impl FrontendSetup, options: &RunOptions<'_>, context: &Context) -> Needs {
    let mut needs = confinement::needs(context);
    setup.add_needs(&mut needs);
    if let Some(path) = options.pid_file {
        needs.remove_file(path);
    }
    if options.export.reencrypt.is_some() {
        // Before each change of the metadata, Luxor looks whether a loop device shows them too.
        for folder in ["/sys/block", "/sys/dev/block", "/sys/devices"] {
            needs.add(folder, Access::Read);
        }
    }
    needs
}

enum Event {
    Signal,
    /// The frontend has ended.
    Ended,
}

fn stop_on_signal(events: &Sender<Event>, interrupt: Interrupter) -> StopOnSignal {
    let events = events.clone();
    StopOnSignal::new(move |_| {
        // After the end the receiver is gone.
        let _ = events.send(Event::Signal);
        interrupt();
        notify::stopping_without_waiting();
    })
}

/// A frontend that stops within this time needs no message.
const SOON: Duration = Duration::from_secs(1);

/// Starts a thread that asks the frontend to stop when a signal has arrived.
fn stop_on_events(
    events: &Sender<Event>,
    received: Receiver<Event>,
    stop: StopFrontend,
    still_in_use: Option<String>,
    console: Console,
) -> Result<()> {
    let events = events.clone();
    let thread = thread::Builder::new().name("stop".into());
    let started = thread.spawn(move || {
        while let Ok(Event::Signal) = received.recv() {
            let Err(error) = stop() else {
                let ended = received.recv_timeout(SOON);
                if let (Err(RecvTimeoutError::Timeout), Some(text)) = (ended, still_in_use) {
                    console.warn(text);
                }
                return;
            };
            // The next signal tries again. The end of `run` ends this registration too.
            mem::forget(stop_on_signal(&events, Box::new(|| ())));
            console.warn(error.message());
        }
    });
    started
        .map(drop)
        .map_err(|error| Error::io("cannot start a thread", &error))
}
