// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engines that tests on this machine must find: OpenCL, which `setup` installs, and every CPU
//! kernel that the CPU's instructions permit.
//!
//! They are derived from the Linux kernel's list of CPU features, not from the engine's own
//! detection, because the tests must check that detection.

use std::fs;

/// The kernels for x86-64, with the names of their instructions in `/proc/cpuinfo`.
const KERNELS: [(&str, &[&str]); 3] = [
    ("aesni", &["aes", "pclmulqdq", "sse4_1"]),
    (
        "vaes256",
        &["aes", "pclmulqdq", "avx2", "vaes", "vpclmulqdq"],
    ),
    (
        "vaes512",
        &[
            "aes",
            "pclmulqdq",
            "vaes",
            "vpclmulqdq",
            "avx512f",
            "avx512bw",
            "avx512vl",
        ],
    ),
];

/// The engines that this machine can run, and those that it cannot run.
#[derive(Default)]
pub struct Engines {
    required: Vec<&'static str>,
    /// Kernels that cannot run, each with its first missing instruction.
    absent: Vec<(&'static str, &'static str)>,
}

impl Engines {
    pub fn of_this_machine() -> Result<Self, String> {
        if cfg!(target_arch = "x86_64") {
            let path = "/proc/cpuinfo";
            let text = fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
            Self::of_flags(&text).ok_or(format!("{path} has no line \"flags\""))
        } else {
            let absent = KERNELS.map(|(name, _)| (name, "x86-64")).to_vec();
            Ok(Self {
                required: vec!["portable", "opencl"],
                absent,
            })
        }
    }

    /// Reads the text of `/proc/cpuinfo`.
    fn of_flags(cpuinfo: &str) -> Option<Self> {
        let line = cpuinfo.lines().find(|line| line.starts_with("flags"))?;
        let flags: Vec<&str> = line.split_once(':')?.1.split_whitespace().collect();
        let mut engines = Self {
            required: vec!["portable", "opencl"],
            absent: Vec::new(),
        };
        for (name, instructions) in KERNELS {
            match instructions.iter().find(|flag| !flags.contains(flag)) {
                None => engines.required.push(name),
                Some(missing) => engines.absent.push((name, missing)),
            }
        }
        Some(engines)
    }

    /// Returns the value for `LUXOR_REQUIRE_ENGINES`.
    pub fn names(&self) -> String {
        self.required.join(",")
    }

    /// Returns the text for the summary.
    pub fn summary(&self) -> String {
        let mut text = format!("required: {}", self.required.join(", "));
        for (name, missing) in &self.absent {
            text += &format!("; not run here: {name}, the CPU lacks {missing}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engines(flags: &str) -> Engines {
        let text = format!("processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: none\n");
        Engines::of_flags(&text).unwrap()
    }

    #[test]
    fn a_kernel_is_required_exactly_where_the_cpu_has_its_instructions() {
        let zen_3 = engines("fpu sse4_1 aes pclmulqdq avx2 vaes vpclmulqdq");
        assert_eq!(zen_3.names(), "portable,opencl,aesni,vaes256");
        assert!(
            zen_3
                .summary()
                .ends_with("not run here: vaes512, the CPU lacks avx512f")
        );

        let all = engines("sse4_1 aes pclmulqdq avx2 vaes vpclmulqdq avx512f avx512bw avx512vl");
        assert_eq!(all.names(), "portable,opencl,aesni,vaes256,vaes512");
        assert_eq!(engines("fpu sse2").names(), "portable,opencl");
        assert!(Engines::of_flags("processor: 0\n").is_none());
    }
}
