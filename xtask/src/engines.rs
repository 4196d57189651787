// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engines that tests on this machine must find: OpenCL, which `setup` installs, every CPU
//! kernel that the CPU's instructions permit, and `cuda` if there is an NVIDIA GPU.
//!
//! They are derived from what the Linux kernel and `nvidia-smi` report, not from the engine's own
//! detection, because the tests must check that detection. For the same reason the table of the
//! kernels stands here a second time.

use std::fs;

use crate::process;

/// The kernels for x86-64 and for `AArch64`, with the names of their instructions in
/// `/proc/cpuinfo`, which are different on the two.
const KERNELS: [(&str, &[&str]); 5] = [
    ("aesce", &["asimd", "aes", "pmull"]),
    ("aeseor3", &["asimd", "aes", "pmull", "sha3"]),
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

/// The compute capability that `cuda` needs.
const CUDA_FROM: f32 = 7.5;

/// Whether `nvidia-smi` printed the compute capability of a GPU that `cuda` can use.
fn has_gpu_for_cuda(capabilities: &str) -> bool {
    let capabilities = capabilities.lines().map(|line| line.trim().parse());
    capabilities
        .flatten()
        .any(|capability: f32| capability >= CUDA_FROM)
}

/// The engines that this machine can run, and those that it cannot run.
#[derive(Default)]
pub struct Engines {
    required: Vec<&'static str>,
    /// Engines that cannot run, each with what is missing.
    absent: Vec<(&'static str, String)>,
}

impl Engines {
    pub fn of_this_machine() -> Result<Self, String> {
        let path = "/proc/cpuinfo";
        let text = fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
        let mut engines =
            Self::of_flags(&text).ok_or(format!("{path} has no line \"flags\" or \"Features\""))?;
        let query = ["--query-gpu=compute_cap", "--format=csv,noheader"];
        let found = process::output(process::command("nvidia-smi").args(query));
        if has_gpu_for_cuda(&found.unwrap_or_default()) {
            engines.required.push("cuda");
        } else {
            let missing = format!("nvidia-smi finds no GPU of compute capability {CUDA_FROM}");
            engines.absent.push(("cuda", missing));
        }
        Ok(engines)
    }

    /// Reads the text of `/proc/cpuinfo`.
    fn of_flags(cpuinfo: &str) -> Option<Self> {
        let is_it = |line: &&str| line.starts_with("flags") || line.starts_with("Features");
        let line = cpuinfo.lines().find(is_it)?;
        let flags: Vec<&str> = line.split_once(':')?.1.split_whitespace().collect();
        let mut engines = Self {
            required: vec!["portable", "opencl"],
            absent: Vec::new(),
        };
        for (name, instructions) in KERNELS {
            match instructions.iter().find(|flag| !flags.contains(flag)) {
                None => engines.required.push(name),
                Some(missing) => engines
                    .absent
                    .push((name, format!("the CPU lacks {missing}"))),
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
            text += &format!("; not run here: {name}, {missing}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::CPU_KERNELS;

    fn engines(flags: &str) -> Engines {
        let text = format!("processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: none\n");
        Engines::of_flags(&text).unwrap()
    }

    /// Each kernel is in both tables. It must not be required on a CPU that it cannot run on, or
    /// missing where it can run: the features here are those of the catalogue, except for those that
    /// every CPU with the others has.
    #[test]
    fn the_kernels_are_those_of_the_catalogue() {
        const IMPLIED: [&str; 3] = ["asimd", "sse4.1", "avx2"];
        let told = |features: &[&str]| {
            let names = features.iter().map(|name| name.replace('_', "."));
            let mut names: Vec<_> = names.filter(|n| !IMPLIED.contains(&n.as_str())).collect();
            names.sort_unstable();
            names
        };
        let mut here = KERNELS.map(|(name, features)| (name, told(features)));
        let catalogue = CPU_KERNELS.iter();
        let mut catalogue: Vec<_> = catalogue.map(|k| (k.name, told(k.features))).collect();
        here.sort_unstable();
        catalogue.sort_unstable();
        assert_eq!(here.as_slice(), catalogue);
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
        assert!(has_gpu_for_cuda("6.1\n9.0\n") && !has_gpu_for_cuda("6.1\n"));
        assert!(!has_gpu_for_cuda("") && !has_gpu_for_cuda("No devices were found\n"));
        assert!(Engines::of_flags("processor: 0\n").is_none());

        let neoverse = "processor\t: 0\nFeatures\t: fp asimd aes pmull sha1 sha3\n";
        let neoverse = Engines::of_flags(neoverse).unwrap();
        assert_eq!(neoverse.names(), "portable,opencl,aesce,aeseor3");
    }
}
