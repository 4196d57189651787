// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs many commands in parallel.

use std::{
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use crate::{cpu, process};

/// Commands that run one after the other. If one fails, its output is shown.
pub struct Job {
    name: String,
    commands: Vec<Command>,
    must_say: Option<String>,
}

impl Job {
    pub fn new(name: &str, commands: impl Into<Vec<Command>>) -> Self {
        Self {
            name: name.to_owned(),
            commands: commands.into(),
            must_say: None,
        }
    }

    /// Requires the last command to print this line.
    pub fn must_say(mut self, line: &str) -> Self {
        self.must_say = Some(line.to_owned());
        self
    }

    fn run(&mut self) -> Result<(), String> {
        let mut said = String::new();
        for command in &mut self.commands {
            let line = process::line(command);
            let pipes = command.stdin(Stdio::null()).stdout(Stdio::piped());
            let output =
                cpu::output(pipes.stderr(Stdio::piped())).map_err(|e| format!("{line}: {e}"))?;
            said = String::from_utf8_lossy(&output.stdout).into_owned();
            said.push_str(&String::from_utf8_lossy(&output.stderr));
            if !output.status.success() {
                return Err(format!("{said}{line}: {}", output.status));
            }
        }
        match &self.must_say {
            Some(wanted) if !said.lines().any(|line| line == wanted) => {
                Err(format!("{said}the line \"{wanted}\" is missing above"))
            }
            _ => Ok(()),
        }
    }
}

/// Runs jobs in parallel, one for each core.
pub fn run(jobs: Vec<Job>) -> Result<String, String> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let count = jobs.len();
    if count == 0 {
        return Err("there are no jobs to run".to_owned());
    }
    let next = AtomicUsize::new(0);
    let jobs: Vec<_> = jobs.into_iter().map(Mutex::new).collect();
    let failed = Mutex::new(Vec::new());
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut job = job.lock().expect("each job runs only once");
            let begun = Instant::now();
            let result = job.run();
            let time = begun.elapsed().as_secs_f64();
            match result {
                Ok(()) => println!("passed  {:5.1} s  {}", time, job.name),
                Err(message) => {
                    println!("FAILED  {:5.1} s  {}\n{message}", time, job.name);
                    failed.lock().expect("no job panics").push(job.name.clone());
                }
            }
        }
        cpu::time()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores.min(count)).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            cpu::add(thread.join().expect("no job panics"));
        }
    });
    let failed = failed.into_inner().expect("no job panics");
    if failed.is_empty() {
        Ok(format!("{count} passed"))
    } else {
        Err(format!(
            "{} of {count} failed: {}",
            failed.len(),
            failed.join("; ")
        ))
    }
}
