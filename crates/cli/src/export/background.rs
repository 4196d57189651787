// SPDX-License-Identifier: MIT OR Apache-2.0
//! Re-encrypts a volume in a thread while it is exported.

use std::{
    sync::mpsc::{self, Sender},
    thread::{self, JoinHandle},
};

use luxor::ReencryptionInUse;
use luxor_files::path_name;
use tracing::{error, info};

use crate::{
    args::ExportArgs,
    context::Context,
    error::{Error, Result},
    log,
};

/// The thread. When this is dropped, it ends as soon as no zone is half done.
pub(crate) struct Background(Option<(Sender<()>, JoinHandle<()>)>);

impl Background {
    /// Starts the thread, if there is anything to do.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn begin(
        work: Option<ReencryptionInUse>,
        args: &ExportArgs,
        context: &Context,
    ) -> Result<Self> {
        let Some(work) = work else {
            return Ok(Self(None));
        };
        log::begin(&context.options);
        let (stop, stopped) = mpsc::channel();
        let (name, rate) = (path_name(&args.volume), args.reencrypt_rate);
        let run = move || {
            info!("the re-encryption of {name} goes on while it is in use");
            match work.run(rate, &stopped) {
                Ok(true) => info!("the re-encryption of {name} is done"),
                Ok(false) => info!("the re-encryption of {name} stops, and can be continued"),
                Err(error) => error!(
                    "the re-encryption has stopped, and some requests will fail: {}",
                    error.message()
                ),
            }
        };
        let thread = thread::Builder::new().name("reencrypt".into()).spawn(run);
        let thread = thread.map_err(|error| Error::io("cannot start a thread", &error))?;
        Ok(Self(Some((stop, thread))))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            drop(stop);
            // A panic has been printed.
            let _ = thread.join();
        }
    }
}
