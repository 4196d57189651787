// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress: a bar on a terminal, lines of JSON for programs, or nothing.

use std::{
    io::{self, IsTerminal, Write},
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::{args::GlobalArgs, console::Console, process::OpenLine};

/// The time between two lines of JSON, as in cryptsetup.
const INTERVAL: Duration = Duration::from_millis(500);

/// How to show progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgressStyleArgs {
    json: bool,
    quiet: bool,
    to_stderr: bool,
}

impl ProgressStyleArgs {
    /// Takes the style from the options. With `output_is_stdout`, JSON goes to standard error, and
    /// there is no bar if standard output is a terminal.
    #[must_use]
    pub(crate) fn new(global: &GlobalArgs, console: Console, output_is_stdout: bool) -> Self {
        Self {
            json: global.progress_json,
            quiet: console.is_quiet() || (output_is_stdout && io::stdout().is_terminal()),
            to_stderr: output_is_stdout,
        }
    }

    /// Shows a step of unknown length, such as deriving a key, until the value is dropped.
    #[must_use]
    pub(crate) fn step(self, what: &'static str) -> Step {
        if self.json || self.quiet {
            return Step {
                bar: ProgressBar::hidden(),
                _line: None,
            };
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(style("{spinner} {msg} ({elapsed})"));
        bar.set_message(what);
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        Step {
            _line: (!bar.is_hidden()).then(OpenLine::begin),
            bar,
        }
    }

    /// Shows the copying of `total` bytes, if the total is known. `device` is the name in JSON,
    /// `what` the one on the terminal.
    #[must_use]
    pub(crate) fn bytes(self, what: &'static str, device: String, total: Option<u64>) -> Progress {
        if self.json {
            let now = Instant::now();
            return Progress::Json(Json {
                device,
                total,
                start: now,
                to_stderr: self.to_stderr,
                state: Mutex::new(State {
                    before: 0,
                    done: 0,
                    last: now,
                }),
            });
        }
        if self.quiet {
            return Progress::None;
        }
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        bar.set_style(match total {
            Some(_) => style(
                "{msg} {bytes} of {total_bytes} [{wide_bar}] {percent}%  {binary_bytes_per_sec}  {eta} left",
            )
            .progress_chars("=> "),
            None => style("{spinner} {msg} {bytes}  {binary_bytes_per_sec}  {elapsed}"),
        });
        bar.set_message(what);
        if bar.is_hidden() {
            return Progress::None;
        }
        Progress::Bar {
            bar,
            _line: OpenLine::begin(),
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates here are valid")
}

/// A step in progress.
#[derive(Debug)]
pub(crate) struct Step {
    bar: ProgressBar,
    _line: Option<OpenLine>,
}

impl Drop for Step {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A copy in progress.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Shows nothing.
    None,
    /// A bar on a terminal.
    #[allow(missing_docs)]
    Bar { bar: ProgressBar, _line: OpenLine },
    /// Lines of JSON.
    Json(Json),
}

impl luxor::Progress for Progress {
    fn continue_from(&self, done: u64) {
        self.at(done);
        match self {
            Self::None => {}
            Self::Bar { bar, .. } => bar.reset_eta(),
            Self::Json(json) => json.state().before = done,
        }
    }

    // Padding of the last sector is not counted.
    fn at(&self, done: u64) {
        match self {
            Self::None => {}
            Self::Bar { bar, .. } => {
                bar.set_position(done.min(bar.length().unwrap_or(u64::MAX)));
            }
            Self::Json(json) => json.at(done.min(json.total.unwrap_or(u64::MAX))),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        match self {
            Self::None => {}
            Self::Bar { bar, .. } => bar.finish_and_clear(),
            Self::Json(json) => json.print(),
        }
    }
}

/// Prints lines of JSON.
#[derive(Debug)]
pub(crate) struct Json {
    device: String,
    total: Option<u64>,
    start: Instant,
    to_stderr: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What was done before this program began.
    before: u64,
    done: u64,
    last: Instant,
}

impl Json {
    fn at(&self, done: u64) {
        let mut state = self.state();
        state.done = done;
        if state.last.elapsed() >= INTERVAL {
            state.last = Instant::now();
            drop(state);
            self.print();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print(&self) {
        let State { before, done, .. } = *self.state();
        let line = Line::new(&self.device, before..done, self.total, self.start.elapsed());
        let Ok(line) = serde_json::to_string(&line) else {
            return;
        };
        // If the reader has closed the stream, progress is not needed.
        let _ = if self.to_stderr {
            writeln!(io::stderr().lock(), "{line}")
        } else {
            writeln!(io::stdout().lock(), "{line}")
        };
    }
}

/// The fields of cryptsetup(8), `--progress-json`.
#[derive(Serialize)]
struct Line<'a> {
    device: &'a str,
    device_bytes: String,
    device_size: String,
    speed: String,
    eta_ms: String,
    time_ms: String,
}

impl<'a> Line<'a> {
    /// `done` begins with what was done before.
    fn new(device: &'a str, done: Range<u64>, total: Option<u64>, time: Duration) -> Self {
        let ms = time.as_millis().max(1);
        let left = u128::from(total.unwrap_or(0).saturating_sub(done.end));
        let now = u128::from(done.end.saturating_sub(done.start));
        Self {
            device,
            device_bytes: done.end.to_string(),
            device_size: total.unwrap_or(0).to_string(),
            speed: (now * 1000 / ms).to_string(),
            eta_ms: (left * ms / now.max(1)).to_string(),
            time_ms: time.as_millis().to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_six_fields_as_strings() {
        let line = Line::new(
            "a \"b\"",
            1 << 20..3 << 20,
            Some(4 << 20),
            Duration::from_millis(1000),
        );
        assert_eq!(
            serde_json::to_string(&line).unwrap(),
            r#"{"device":"a \"b\"","device_bytes":"3145728","device_size":"4194304","speed":"2097152","eta_ms":"500","time_ms":"1000"}"#
        );
        let unknown = Line::new("-", 0..0, None, Duration::ZERO);
        assert_eq!(
            (unknown.device_size.as_str(), unknown.eta_ms.as_str()),
            ("0", "0")
        );
    }
}
