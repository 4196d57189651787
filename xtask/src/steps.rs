// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs steps, records their times, and prints a table at the end.

use std::{
    fmt,
    io::{BufRead, BufReader, Write},
    mem,
    panic::{self, AssertUnwindSafe},
    process::{Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{cpu, process};

/// The steps of one chore.
pub struct Steps {
    chore: &'static str,
    begun: Instant,
    done: Vec<Step>,
    tests: Counts,
    failures: Failures,
}

/// What a step does.
pub type Work<'a> = Box<dyn FnOnce() -> Result<String, String> + Send + 'a>;

struct Step {
    name: String,
    time: Duration,
    /// The CPU time of the programs that it ran.
    cpu: Duration,
    outcome: Result<String, String>,
}

impl Steps {
    pub fn new(chore: &'static str) -> Self {
        Self {
            chore,
            begun: Instant::now(),
            done: Vec::new(),
            tests: Counts::default(),
            failures: Failures::default(),
        }
    }

    /// Runs a step and adds its result to the table. Returns whether it passed.
    pub fn run(&mut self, name: &str, work: impl FnOnce() -> Result<String, String>) -> bool {
        println!("\n=== {name}");
        let (begun, used) = (Instant::now(), cpu::time());
        let outcome = work();
        self.add(name, begun.elapsed(), cpu::time() - used, outcome)
    }

    /// Whether a step with this name ran and passed.
    pub fn has_passed(&self, name: &str) -> bool {
        let mut steps = self.done.iter();
        steps.any(|step| step.name == name && step.outcome.is_ok())
    }

    /// Runs the steps `beside` one after the other on their own thread, while `others` runs other
    /// steps.
    pub fn run_beside(&mut self, beside: Vec<(&str, Work<'_>)>, others: impl FnOnce(&mut Self)) {
        let names: Vec<_> = beside.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        println!("\n=== {names}, in parallel with the next steps");
        let run = |(name, work): (_, Work<'_>)| {
            let (begun, used) = (Instant::now(), cpu::time());
            let outcome = panic::catch_unwind(AssertUnwindSafe(work));
            let outcome = outcome.unwrap_or_else(|_| Err("the step panicked".to_owned()));
            (name, begun.elapsed(), cpu::time() - used, outcome)
        };
        let done: Vec<_> = thread::scope(|scope| {
            let beside = scope.spawn(move || beside.into_iter().map(run).collect());
            others(self);
            println!("\n=== {names}: waiting for the end");
            beside.join().expect("panics are caught")
        });
        for (name, time, cpu, outcome) in done {
            self.add(name, time, cpu, outcome);
        }
    }

    fn add(
        &mut self,
        name: &str,
        time: Duration,
        cpu: Duration,
        outcome: Result<String, String>,
    ) -> bool {
        match &outcome {
            Ok(_) => println!("--- {name}: passed in {}", Seconds(time)),
            Err(message) => println!("--- {name}: FAILED in {}: {message}", Seconds(time)),
        }
        let passed = outcome.is_ok();
        self.done.push(Step {
            name: name.to_owned(),
            time,
            cpu,
            outcome,
        });
        passed
    }

    /// Runs a `cargo test` as a step, shows its output, and counts its tests. An ignored test
    /// counts as a failure, because a test that never runs proves nothing.
    pub fn run_tests(&mut self, name: &str, command: impl FnOnce() -> Command) -> bool {
        let mut counts = Counts::default();
        let mut failures = mem::take(&mut self.failures);
        let passed = self.run(name, || {
            let mut command = command();
            eprintln!("$ {}", process::line(&command));
            let fail = |error: &dyn fmt::Display| format!("{}: {error}", process::line(&command));
            let fail_early = fail(&"cannot be started");
            let mut child = command
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|e| format!("{fail_early}: {e}"))?;
            let stdout = child.stdout.take().expect("standard output is a pipe");
            for line in BufReader::new(stdout).split(b'\n') {
                let mut line = line.map_err(|e| format!("reading the tests' output: {e}"))?;
                let text = String::from_utf8_lossy(&line).into_owned();
                counts.add_line(&text);
                failures.add_line(text);
                line.push(b'\n');
                let mut out = std::io::stdout().lock();
                out.write_all(&line)
                    .and_then(|()| out.flush())
                    .map_err(|e| e.to_string())?;
            }
            let status = cpu::wait(&mut child).map_err(|e| e.to_string())?;
            match (status.success(), &counts) {
                (false, _) => Err(format!("{counts}; {status}")),
                (true, Counts { passed: 0, .. }) => Err("no tests ran".to_owned()),
                (true, Counts { ignored: 1.., .. }) => {
                    Err(format!("{counts}: no test may be ignored"))
                }
                (true, _) => Ok(counts.to_string()),
            }
        });
        self.tests.add(&counts);
        self.failures = failures;
        passed
    }

    /// Prints the output of failed tests, the table and the test counts. The exit code is 1 if a
    /// step failed.
    pub fn finish(self) -> ExitCode {
        // Printed again, because often only the end of a log is kept.
        if !self.failures.lines.is_empty() {
            println!("\n=== {}: failed tests", self.chore);
            for line in &self.failures.lines {
                println!("{line}");
            }
        }
        println!("\n=== {}: summary", self.chore);
        let width = self
            .done
            .iter()
            .map(|step| step.name.chars().count())
            .max()
            .unwrap_or(0);
        println!("{:width$}  {:>9}  {:>9}", "", "time", "CPU time");
        let row = |name: &str, time: Duration, cpu: Duration, said: &str| {
            let [time, cpu] = [time, cpu].map(|time| Seconds(time).to_string());
            println!("{name:width$}  {time:>9}  {cpu:>9}  {said}");
        };
        for step in &self.done {
            let (verdict, detail) = match &step.outcome {
                Ok(detail) => ("passed", detail),
                Err(detail) => ("FAILED", detail),
            };
            let said = format!("{verdict}  {detail}");
            row(&step.name, step.time, step.cpu, &said);
        }
        let failed = self
            .done
            .iter()
            .filter(|step| step.outcome.is_err())
            .count();
        let said = format!("{} steps, {failed} failed", self.done.len());
        row("total", self.begun.elapsed(), cpu::of_this_process(), &said);
        println!("tests: {}", self.tests);
        if failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
    }
}

/// The output of the test programs about failed tests, up to [`Failures::MAX_LINES`].
#[derive(Debug, Default)]
struct Failures {
    lines: Vec<String>,
    inside: bool,
}

impl Failures {
    const MAX_LINES: usize = 400;

    fn add_line(&mut self, line: String) {
        self.inside |= line == "failures:";
        let is_last = line.starts_with("test result: ");
        if self.inside && self.lines.len() < Self::MAX_LINES {
            self.lines.push(line);
        }
        self.inside &= !is_last;
    }
}

/// Counts of tests, from the closing lines of the test programs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Counts {
    /// Adds the numbers of a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    /// Ignores any other line.
    fn add_line(&mut self, line: &str) {
        let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for count in counts.split("; ") {
            match count
                .split_once(' ')
                .map(|(number, what)| (number.parse::<u64>(), what))
            {
                Some((Ok(n), "passed")) => self.passed += n,
                Some((Ok(n), "failed")) => self.failed += n,
                Some((Ok(n), "ignored")) => self.ignored += n,
                _ => {}
            }
        }
    }

    fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} ignored",
            self.passed, self.failed, self.ignored
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs;

    #[test]
    fn closing_lines_are_counted_and_no_others() {
        let mut counts = Counts::default();
        for line in [
            "running 4 tests",
            "test passed ... ok",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s",
            "test result: FAILED. 40 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 9.10s",
        ] {
            counts.add_line(line);
        }
        assert_eq!(
            counts,
            Counts {
                passed: 43,
                failed: 2,
                ignored: 1
            }
        );
    }

    #[test]
    fn steps_side_by_side_have_cpu_times_of_their_own() {
        let mut steps = Steps::new("example");
        let burn = || {
            let mut shell = process::command("sh");
            process::run(shell.args(["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"]))
        };
        steps.run_beside(vec![("beside", Box::new(burn))], |steps| {
            steps.run("idle", || process::run(process::command("true")));
            let job = || vec![jobs::Job::new("job", [process::command("true")])];
            steps.run("jobs", || jobs::run(job()));
            steps.run("busy", burn);
        });
        let cpu = |name| {
            let mut done = steps.done.iter();
            done.find(|step| step.name == name).unwrap().cpu
        };
        for busy in ["beside", "busy"] {
            assert!(cpu(busy) > 2 * cpu("idle"), "{busy}: {:?}", cpu(busy));
        }
    }

    #[test]
    fn the_output_of_failed_tests_is_kept() {
        let mut failures = Failures::default();
        for line in [
            "test a ... ok",
            "test b ... FAILED",
            "failures:",
            "---- b stdout ----",
            "it broke",
            "failures:",
            "    b",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored",
            "     Running another",
            "test result: ok. 3 passed; 0 failed; 0 ignored",
        ] {
            failures.add_line(line.to_owned());
        }
        assert_eq!(failures.lines.len(), 6);
        assert_eq!(failures.lines[2], "it broke");
        for _ in 0..2 * Failures::MAX_LINES {
            failures.add_line("failures:".to_owned());
        }
        assert_eq!(failures.lines.len(), Failures::MAX_LINES);
    }

    #[test]
    fn a_failed_parallel_step_is_reported() {
        let mut steps = Steps::new("example");
        let mut passed = false;
        let beside: [(_, Work<'_>); 3] = [
            ("bad", Box::new(|| Err("broken".to_owned()))),
            ("worse", Box::new(|| panic!("a panic"))),
            ("good", Box::new(|| Ok(String::new()))),
        ];
        steps.run_beside(beside.into(), |steps| {
            passed = steps.run("first", || Ok(String::new()));
        });
        assert!(passed && steps.has_passed("first") && steps.has_passed("good"));
        assert!(!steps.has_passed("bad") && !steps.has_passed("none"));
        let passed: Vec<_> = steps.done.iter().map(|step| step.outcome.is_ok()).collect();
        assert_eq!(passed, [true, false, false, true]);
        assert_eq!(
            format!("{:?}", steps.finish()),
            format!("{:?}", ExitCode::FAILURE)
        );
    }

    #[test]
    fn a_failed_step_is_reported() {
        let mut steps = Steps::new("example");
        assert!(steps.run("good", || Ok(String::new())));
        assert!(!steps.run("bad", || Err("broken".to_owned())));
        assert_eq!(
            format!("{:?}", steps.finish()),
            format!("{:?}", ExitCode::FAILURE)
        );
    }
}
