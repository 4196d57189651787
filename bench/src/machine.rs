// SPDX-License-Identifier: MIT OR Apache-2.0
//! The properties of the machine that affect results.

use std::{fs, thread};

use serde::{Deserialize, Serialize};

use crate::size;

/// The machine on which a result was measured. Properties that the system does not report are null.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Machine {
    cpu: Option<String>,
    /// Family, model and stepping distinguish CPUs with the same name.
    cpu_family: Option<u32>,
    cpu_model: Option<u32>,
    cpu_stepping: Option<u32>,
    /// Whether this is a virtual machine. Its cores may be shared with others.
    virtual_machine: bool,
    /// Cores that this process may use.
    cores: usize,
    l2_bytes: Option<usize>,
    memory_bytes: Option<usize>,
    /// Whether the kernel uses large pages without being asked.
    transparent_hugepages: Option<String>,
    os: &'static str,
    kernel: Option<String>,
}

impl Machine {
    pub(crate) fn this() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let of_cpu = |name: &str| cpu_field(&info, name).map(str::to_owned);
        let number = |name: &str| of_cpu(name)?.parse().ok();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            cpu: of_cpu("model name"),
            cpu_family: number("cpu family"),
            cpu_model: number("model"),
            cpu_stepping: number("stepping"),
            virtual_machine: of_cpu("flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            cores: thread::available_parallelism().map_or(1, usize::from),
            l2_bytes: line("/sys/devices/system/cpu/cpu0/cache/index2/size")
                .and_then(|text| size::parse(&text).ok()),
            memory_bytes: self::memory(&memory, "MemTotal:"),
            transparent_hugepages: line("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())),
            os: std::env::consts::OS,
            kernel: line("/proc/sys/kernel/osrelease"),
        }
    }

    /// Describes the machine in one line.
    pub(crate) fn text(&self) -> String {
        let size = |bytes: Option<usize>| bytes.map_or("?".to_owned(), size::text);
        format!(
            "{}{}, {} cores, L2 {}, memory {:.1} GiB, {} {}",
            self.cpu.as_deref().unwrap_or("unknown CPU"),
            if self.virtual_machine {
                " (virtual machine)"
            } else {
                ""
            },
            self.cores,
            size(self.l2_bytes),
            self.memory_bytes.unwrap_or(0) as f64 / f64::from(1 << 30),
            self.os,
            self.kernel.as_deref().unwrap_or("?"),
        )
    }

    /// Returns the name of the machine's folder among the records: the CPU's name without
    /// trademarks, its family, model and stepping, and the number of cores.
    pub(crate) fn folder(&self) -> String {
        let name = self.cpu.as_deref().unwrap_or("unknown").to_lowercase();
        let name = name.replace("(r)", "").replace("(tm)", "");
        let words = name
            .split('@')
            .next()
            .unwrap_or_default()
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !matches!(*word, "" | "cpu" | "processor"));
        let name: Vec<_> = words.collect();
        let number = |number: Option<u32>| number.map_or("x".to_owned(), |n| n.to_string());
        format!(
            "{}-{}.{}.{}-{}-cores",
            name.join("-"),
            number(self.cpu_family),
            number(self.cpu_model),
            number(self.cpu_stepping),
            self.cores
        )
    }
}

/// Returns the first CPU's field with exactly this name.
fn cpu_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim_end() == name)
        .map(|(_, value)| value.trim())
}

/// Returns a line of /proc/meminfo, in bytes.
pub(crate) fn memory(info: &str, name: &str) -> Option<usize> {
    let rest = info.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: usize = rest.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

fn line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "\
processor\t: 0
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz
stepping\t: 8

processor\t: 1
model\t\t: 7
";

    #[test]
    fn fields_are_found_by_their_whole_name() {
        assert_eq!(cpu_field(INFO, "model"), Some("143"));
        assert_eq!(cpu_field(INFO, "family"), None);
        assert_eq!(
            memory("MemFree: 1 kB\nMemTotal:       24 kB\n", "MemTotal:"),
            Some(24 << 10)
        );
    }

    #[test]
    fn a_folder_has_a_plain_name() {
        let machine = |name: &str| Machine {
            cpu: Some(name.to_owned()),
            cpu_family: Some(6),
            cpu_model: Some(143),
            cpu_stepping: None,
            virtual_machine: true,
            cores: 2,
            l2_bytes: None,
            memory_bytes: None,
            transparent_hugepages: None,
            os: "linux",
            kernel: None,
        };
        for (name, folder) in [
            ("Intel(R) Xeon(R) Processor", "intel-xeon-6.143.x-2-cores"),
            (
                "Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz",
                "intel-xeon-platinum-8480-6.143.x-2-cores",
            ),
            (
                "AMD EPYC 9754 128-Core Processor",
                "amd-epyc-9754-128-core-6.143.x-2-cores",
            ),
            ("../../x", "x-6.143.x-2-cores"),
        ] {
            assert_eq!(machine(name).folder(), folder);
        }
    }
}
