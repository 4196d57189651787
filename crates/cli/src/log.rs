// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log of a server: the library's events as lines on standard error.

use std::{env, fmt, io, os::fd::AsFd};

use nix::sys::stat::fstat;
use tracing::{Event, Level, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Writer},
    },
    registry::LookupSpan,
};

use crate::args::GlobalArgs;

/// Begins to print events. Without an option these are clients that come and go, and that are
/// refused. `-q` leaves errors only, `-v` adds details, `-vv` each request.
pub(crate) fn begin(options: &GlobalArgs) {
    let level = match options.verbose {
        _ if options.quiet => LevelFilter::ERROR,
        0 => LevelFilter::INFO,
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(io::stderr)
        .with_target(false)
        // A reader of standard error that has gone must not end the server.
        .log_internal_errors(false);
    // Fails if there is a subscriber already.
    let _ = if is_journal(io::stderr()) {
        let lines = Format::default().with_target(false).with_level(false);
        let log = log.event_format(ForJournal(lines.without_time()));
        tracing::subscriber::set_global_default(log.finish())
    } else {
        tracing::subscriber::set_global_default(log.finish())
    };
}

/// Whether journald reads `stream`.
pub(crate) fn is_journal(stream: impl AsFd) -> bool {
    is_named(env::var("JOURNAL_STREAM").ok().as_deref(), stream)
}

/// Whether `stream` is the socket whose device and inode the variable `JOURNAL_STREAM` names
/// (`systemd.exec(5)`).
fn is_named(variable: Option<&str>, stream: impl AsFd) -> bool {
    let named = variable.and_then(|text| text.split_once(':'));
    let Some((device, inode)) = named else {
        return false;
    };
    fstat(stream)
        .is_ok_and(|found| device.parse() == Ok(found.st_dev) && inode.parse() == Ok(found.st_ino))
}

/// Lines with a priority in front (`sd-daemon(3)`), and without what journald adds itself.
struct ForJournal<F>(F);

impl<S, N, F> FormatEvent<S, N> for ForJournal<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        };
        write!(writer, "<{priority}>")?;
        self.0.format_event(context, writer, event)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn only_the_named_stream_is_the_journal() {
        let file = File::open("/dev/null").unwrap();
        let found = fstat(&file).unwrap();
        let name = format!("{}:{}", found.st_dev, found.st_ino);
        assert!(is_named(Some(&name), &file));
        let other = format!("{}:{}", found.st_dev, found.st_ino + 1);
        for variable in [None, Some(""), Some("8"), Some("8:x"), Some(&other)] {
            assert!(!is_named(variable, &file), "{variable:?}");
        }
    }
}
