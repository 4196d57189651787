// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU time of the programs that a step runs. The system adds up the times of all children of a
//! process, but steps run at the same time. So the time of each child is read between its end and
//! the call that waits for it, and belongs to the thread that waits.

use std::{
    cell::Cell,
    fs,
    io::{self, Read},
    process::{Child, Command, ExitStatus, Output},
    thread,
    time::Duration,
};

thread_local! {
    static WAITED_FOR: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// How often a running child is looked at.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns the CPU time of all children that this thread has waited for, with those that they have
/// waited for.
pub fn time() -> Duration {
    WAITED_FOR.get()
}

/// Adds the CPU time that another thread has waited for on behalf of this one.
pub fn add(time: Duration) {
    WAITED_FOR.set(WAITED_FOR.get() + time);
}

/// Returns the CPU time of this process and of all its children that have ended.
pub fn of_this_process() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    parse(&stat).map_or(Duration::ZERO, |(_, time)| time)
}

/// Waits for the end of a child, and counts its CPU time.
pub fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let path = format!("/proc/{}/stat", child.id());
    // A child that was waited for already, or a system without these files, ends the loop.
    while let Some((state, time)) = fs::read_to_string(&path).ok().as_deref().and_then(parse) {
        if state == 'Z' {
            add(time);
            break;
        }
        thread::sleep(PAUSE);
    }
    child.wait()
}

/// Runs a command to its end, counts its CPU time, and returns its output, as far as the caller has
/// made `stdout` and `stderr` pipes.
pub fn output(command: &mut Command) -> io::Result<Output> {
    let mut child = command.spawn()?;
    let (printed, errors) = (child.stdout.take(), child.stderr.take());
    // A child whose one pipe is full waits, whatever the other has.
    let (stdout, stderr) = thread::scope(|scope| {
        let errors = scope.spawn(|| read(errors));
        (
            read(printed),
            errors.join().expect("reading does not panic"),
        )
    });
    let status = wait(&mut child)?;
    Ok(Output {
        status,
        stdout: stdout?,
        stderr: stderr?,
    })
}

fn read(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Reads the state and the sum of utime, stime, cutime and cstime of `/proc/PID/stat` (proc(5)).
/// Linux counts them in hundredths of a second on every machine that Rust supports.
fn parse(stat: &str) -> Option<(char, Duration)> {
    // The second field, the program's name, may contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let times = fields.skip(10).take(4).map(|field| field.parse().ok());
    let ticks: Vec<u64> = times.collect::<Option<_>>()?;
    (ticks.len() == 4).then(|| (state, Duration::from_millis(10 * ticks.iter().sum::<u64>())))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn the_times_are_those_of_the_process_and_its_children() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 9 9 0 0 100 20 3000 400 20 0 1 0 12 0 0";
        assert_eq!(parse(stat), Some(('S', Duration::from_millis(35_200))));
        assert_eq!(parse("7 (a) S 1 7"), None);
    }

    #[test]
    fn the_time_of_a_childs_child_belongs_to_the_thread_that_waits() {
        let script =
            "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'; echo done; echo no >&2";
        let mut shell = Command::new("sh");
        shell
            .args(["-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = output(&mut shell).unwrap();
        assert!(output.status.success());
        assert_eq!(
            (&output.stdout[..], &output.stderr[..]),
            (&b"done\n"[..], &b"no\n"[..])
        );
        assert!(time() >= PAUSE, "{:?}", time());
        assert!(of_this_process() >= time());
        assert_eq!(thread::spawn(time).join().unwrap(), Duration::ZERO);
    }
}
