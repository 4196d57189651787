// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU time that other programs and the host took from a measurement.

use std::{
    collections::HashMap,
    fs, io, thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

/// A measurement is disturbed if others had more than this part of the CPU time.
const TOO_MUCH: f64 = 0.05;

/// The parts of all processors' time that others had during a measurement, each from 0 to 1.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Disturbance {
    /// The host gave it to other machines.
    pub(crate) stolen: f64,
    /// Other programs of this machine used it.
    pub(crate) others: f64,
}

impl Disturbance {
    pub(crate) fn is_large(self) -> bool {
        self.total() > TOO_MUCH
    }

    pub(crate) fn total(self) -> f64 {
        self.stolen + self.others
    }

    /// Returns what disturbed the measurement, in words.
    pub(crate) fn text(self) -> String {
        let parts = [
            ("other programs used", self.others),
            ("the host took", self.stolen),
        ];
        let parts = parts.into_iter().filter(|(_, part)| *part >= 0.005);
        let parts = parts.map(|(who, part)| format!("{who} {:.0} %", 100.0 * part));
        format!(
            "{} of the CPU time meanwhile",
            parts.collect::<Vec<_>>().join(" and ")
        )
    }
}

/// A measurement in progress.
pub(crate) struct Watch(Ticks);

/// How long the CPU times are watched to learn how busy the machine is.
const GLANCE: Duration = Duration::from_millis(300);

/// The time of everything with `--quick`, on a machine without other work.
const QUICK: Duration = Duration::from_secs(60);

/// A quick look at everything in progress, which says if it takes longer than its help does.
pub(crate) struct QuickLook {
    begun: Instant,
    watch: Watch,
}

impl QuickLook {
    /// Begins.
    pub(crate) fn begin() -> Self {
        Self {
            begun: Instant::now(),
            watch: Watch::begin(),
        }
    }

    /// Returns a warning if the machine is so busy that the look will take longer.
    pub(crate) fn warning() -> Option<String> {
        let watch = Watch::begin();
        thread::sleep(GLANCE);
        warning(watch.end())
    }

    /// Returns how long the look took and why, if it took longer.
    pub(crate) fn end(&self) -> Option<String> {
        end(self.begun.elapsed(), self.watch.end())
    }
}

fn warning(now: Disturbance) -> Option<String> {
    let part = 100.0 * now.total();
    now.is_large().then(|| {
        format!(
            "other work takes {part:.0} % of the CPU time, so --quick will take longer than a minute"
        )
    })
}

fn end(took: Duration, disturbance: Disturbance) -> Option<String> {
    // A second look at the same machine may differ by so much.
    if took < QUICK + QUICK / 2 {
        return None;
    }
    let (minutes, seconds) = (took.as_secs() / 60, took.as_secs() % 60);
    let why = if disturbance.is_large() {
        disturbance.text()
    } else {
        "the machine is slow, or has GPUs".to_owned()
    };
    Some(format!(
        "this quick look took {minutes} min {seconds} s, longer than a minute: {why}"
    ))
}

/// CPU times in clock ticks, since the system was started.
#[derive(Clone, Copy, Default)]
struct Ticks {
    all: u64,
    idle: u64,
    stolen: u64,
    /// This process and all that it has started.
    own: u64,
}

impl Watch {
    /// Begins. Where `/proc` has no CPU times, no disturbance is found.
    pub(crate) fn begin() -> Self {
        Self(Ticks::now().unwrap_or_default())
    }

    /// Returns how much the measurement was disturbed since it began.
    pub(crate) fn end(&self) -> Disturbance {
        Ticks::now().map_or_else(|_| Disturbance::default(), |now| now.since(self.0))
    }
}

impl Ticks {
    fn now() -> io::Result<Self> {
        let ticks = Self::from_stat(&fs::read_to_string("/proc/stat")?);
        let own = of_family(std::process::id(), &processes()?);
        Ok(Self { own, ..ticks })
    }

    /// Reads the first line of `/proc/stat` (proc(5)): user, nice, system, idle, iowait, irq, softirq,
    /// steal; the times of guests are also in the first two.
    fn from_stat(text: &str) -> Self {
        let line = text.lines().next().unwrap_or_default();
        let numbers = line.split_whitespace().skip(1).take(8);
        let numbers: Vec<u64> = numbers.map(|word| word.parse().unwrap_or(0)).collect();
        let of = |at: usize| numbers.get(at).copied().unwrap_or(0);
        Self {
            all: numbers.iter().sum(),
            idle: of(3) + of(4),
            stolen: of(7),
            own: 0,
        }
    }

    fn since(self, before: Self) -> Disturbance {
        let all = self.all.saturating_sub(before.all);
        if all == 0 {
            return Disturbance::default();
        }
        let part = |ticks: u64| ticks as f64 / all as f64;
        let stolen = self.stolen.saturating_sub(before.stolen);
        let idle = self.idle.saturating_sub(before.idle);
        let own = self.own.saturating_sub(before.own);
        Disturbance {
            stolen: part(stolen),
            others: part(all.saturating_sub(stolen + idle + own)),
        }
    }
}

/// A process: its parent, its own CPU time, and that of its children that have ended.
struct Process {
    parent: u32,
    own: u64,
    ended: u64,
}

/// Returns the CPU time of a process and of all that it has started.
fn of_family(first: u32, processes: &HashMap<u32, Process>) -> u64 {
    let is_of_family = |mut id: u32| {
        // A parent that ends meanwhile could make a circle of ids.
        for _ in 0..64 {
            if id == first {
                return true;
            }
            match processes.get(&id) {
                Some(process) => id = process.parent,
                None => return false,
            }
        }
        false
    };
    let family = processes.iter().filter(|(id, _)| is_of_family(**id));
    family.map(|(_, one)| one.own + one.ended).sum()
}

fn processes() -> io::Result<HashMap<u32, Process>> {
    let mut processes = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(id) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // A process may end meanwhile.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(process) = Process::from_stat(&stat) {
            processes.insert(id, process);
        }
    }
    Ok(processes)
}

impl Process {
    /// Reads `/proc/ID/stat` (proc(5)). The second field is a name in parentheses, which can contain
    /// anything.
    fn from_stat(text: &str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // Field 3, the state, is the first one here.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            parent: u32::try_from(field(4)?).ok()?,
            own: field(14)? + field(15)?,
            ended: field(16)? + field(17)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_time_of_others_is_what_neither_idles_nor_is_ours() {
        let before = Ticks::from_stat("cpu  100 0 50 1000 10 0 5 20 7 7\ncpu0 1 2\n");
        assert_eq!((before.all, before.idle, before.stolen), (1185, 1010, 20));
        let now = Ticks {
            own: 40,
            ..Ticks::from_stat("cpu  160 0 60 1090 10 0 5 40 7 7\n")
        };
        // 180 ticks: 90 idle, 20 stolen, 40 ours.
        let found = now.since(before);
        assert_eq!(found.stolen, 20.0 / 180.0);
        assert_eq!(found.others, 30.0 / 180.0);
        assert!(found.is_large());
        let text = "other programs used 17 % and the host took 11 % of the CPU time meanwhile";
        assert_eq!(found.text(), text);
        assert_eq!(now.since(now), Disturbance::default());
        assert!(!Disturbance::default().is_large());
    }

    #[test]
    fn a_family_is_all_that_a_process_has_started() {
        let stat = |parent: u32, own: u64| {
            let text = format!("9 (a) b) ) R {parent} 0 0 0 0 0 0 0 0 0 {own} 1 2 3 20 0");
            Process::from_stat(&text).unwrap()
        };
        let processes = HashMap::from([
            (1, stat(0, 1000)),
            (10, stat(1, 10)),
            (11, stat(10, 20)),
            (12, stat(11, 30)),
            (20, stat(1, 500)),
            (31, stat(30, 7)),
            (30, stat(31, 7)),
        ]);
        assert_eq!(of_family(10, &processes), 10 + 20 + 30 + 3 * 6);
        assert!(Process::from_stat("no fields").is_none());
    }

    #[test]
    fn a_quick_look_says_early_and_at_the_end_that_it_takes_longer() {
        let calm = Disturbance::default();
        let busy = Disturbance {
            stolen: 0.0,
            others: 0.6,
        };
        assert_eq!(warning(calm), None);
        let early = warning(busy).unwrap();
        assert!(early.contains("60 %") && early.contains("longer than a minute"));
        assert_eq!(end(Duration::from_secs(70), busy), None);
        let late = "this quick look took 2 min 5 s, longer than a minute: other programs used 60 % \
                    of the CPU time meanwhile";
        assert_eq!(end(Duration::from_secs(125), busy).as_deref(), Some(late));
        assert!(
            end(Duration::from_secs(125), calm)
                .unwrap()
                .contains("slow")
        );
    }

    /// Our own work is no disturbance, and a child's neither; both would fill a processor.
    #[test]
    fn own_work_does_not_disturb() {
        let before = Ticks::now().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(300) {
            thread::yield_now();
        }
        let now = Ticks::now().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        // Both together take ticks, however busy the machine is.
        assert!(now.own > before.own + 5, "{} {}", before.own, now.own);
        // They stay counted when the child has ended.
        assert!(Ticks::now().unwrap().own >= now.own);
    }
}
