// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measures that belong to a thread, taken on each thread of the process.

use std::{
    fs,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use landlock::RulesetCreated;
use rustix::{
    process::{Pid, test_kill_process},
    thread::{gettid, set_no_new_privs},
};

use crate::{
    Measure, Needs, Outcome, Report,
    capabilities::{self, Kept},
    files,
};

/// What a thread does to be confined.
pub type Job = Arc<dyn Fn() + Send + Sync>;

/// What happened on the threads.
pub(crate) struct Threads {
    /// The number of those that exist and are not confined.
    left: usize,
    /// Whether they have capabilities.
    had_capabilities: bool,
    done: Done,
}

/// What the threads have done.
#[derive(Clone, Default)]
struct Done {
    threads: Vec<i32>,
    /// Whether Landlock reached all threads by one call.
    at_once: bool,
    /// An error of each measure.
    privileges: Option<String>,
    capabilities: Option<String>,
    landlock: Option<String>,
}

/// Confines this thread and those on which `on_other_threads` runs the job.
pub(crate) fn confine(
    ruleset: Result<RulesetCreated, String>,
    keep: &Kept,
    on_other_threads: impl FnOnce(&Job),
) -> Threads {
    let existing = existing();
    let had_capabilities = capabilities::has_any();
    let done = Arc::new(Mutex::new(Done::default()));
    let job: Job = {
        let (done, keep) = (Arc::clone(&done), keep.clone());
        Arc::new(move || confine_thread(&done, &keep, ruleset.as_ref()))
    };
    // It comes first: if Landlock restricts all threads at once, the others need no domain of their own.
    job();
    on_other_threads(&job);
    let done = done.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Threads {
        left: count_left(&existing, &done.threads),
        had_capabilities,
        done,
    }
}

fn confine_thread(done: &Mutex<Done>, keep: &Kept, ruleset: Result<&RulesetCreated, &String>) {
    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
    let privileges = set_no_new_privs(true);
    let given_up = capabilities::give_up(keep);
    let restricted = match ruleset {
        Ok(_) if done.at_once => Ok(true),
        Ok(ruleset) => files::restrict(ruleset),
        Err(why) => Err(why.clone()),
    };
    done.threads.push(gettid().as_raw_nonzero().get());
    match restricted {
        Ok(at_once) => done.at_once |= at_once,
        Err(why) => done.landlock = done.landlock.take().or(Some(why)),
    }
    if let Err(error) = privileges {
        done.privileges = Some(error.to_string());
    }
    if let Err(error) = given_up {
        done.capabilities = done.capabilities.take().or(Some(error.to_string()));
    }
}

/// How long a thread may take that is about to end.
const ENDING: Duration = Duration::from_millis(100);

/// Returns how many of the `existing` threads are not confined. Some of them may be ending, such as those that
/// derived a key.
fn count_left(existing: &[i32], confined: &[i32]) -> usize {
    let begin = Instant::now();
    let exists = |id: &i32| {
        let id = Pid::from_raw(*id);
        id.is_some_and(|id| test_kill_process(id).is_ok())
    };
    let mut left: Vec<_> = existing
        .iter()
        .filter(|id| !confined.contains(id))
        .collect();
    loop {
        left.retain(|id| exists(id));
        if left.is_empty() || begin.elapsed() >= ENDING {
            return left.len();
        }
        thread::sleep(ENDING / 100);
    }
}

/// Returns the IDs of the threads of this process, as far as the system tells.
fn existing() -> Vec<i32> {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).collect()
}

impl Threads {
    /// Describes what was achieved. `calls` is the outcome for the system calls.
    pub(crate) fn report(&self, needs: &Needs, keep: &Kept, calls: Outcome) -> Report {
        let left = |is_left: bool| match self.left {
            0 => None,
            _ if !is_left => None,
            1 => Some("one thread started earlier".to_owned()),
            n => Some(format!("{n} threads started earlier")),
        };
        let kept = keep.reasons.iter().map(|(name, path)| {
            let path = path.display();
            format!("{name} is kept for {path}")
        });
        let kept = kept.reduce(|all, one| format!("{all}; {one}"));
        let outcome = |error: &Option<String>, but: Option<String>| match (error, but) {
            (Some(why), _) => Outcome::Missing(why.clone()),
            (None, Some(but)) => Outcome::Partly(but),
            (None, None) => Outcome::Taken,
        };
        // seccomp gives all threads no_new_privs too.
        let reaches_all = calls == Outcome::Taken;
        let calls = match (calls, &needs.drivers) {
            (Outcome::Taken, Some(why)) => Outcome::Partly(why.clone()),
            (calls, _) => calls,
        };
        Report(vec![
            (
                Measure::NoNewPrivileges,
                outcome(&self.done.privileges, left(!reaches_all)),
            ),
            (
                Measure::Capabilities,
                outcome(
                    &self.done.capabilities,
                    kept.or(left(self.had_capabilities)),
                ),
            ),
            (
                Measure::Landlock,
                outcome(&self.done.landlock, left(!self.done.at_once)),
            ),
            (Measure::Seccomp, calls),
        ])
    }
}
