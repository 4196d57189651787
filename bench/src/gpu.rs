// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices that run the papers' kernels, `kernels/an_seo.h` and `kernels/sanida.h`. They are
//! here and not in the engine's backends, which have better ones.

mod cuda;
mod opencl;
pub(crate) mod own;

use std::ops::Range;

use luxor_engine::Direction;
use luxor_engine_gpu::keys::{AesSize, KeyWords};
use serde::{Deserialize, Serialize};

/// What a device is.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct About {
    /// `opencl` or `cuda`, and a number where there are several.
    pub(crate) name: String,
    /// The device's own name, by which the engine's backends know it too.
    #[serde(skip)]
    pub(crate) hardware: String,
    /// The device, its platform and its driver, as these say.
    pub(crate) device: String,
    /// A CPU, which is for tests of the kernels and gets less to do.
    pub(crate) is_cpu: bool,
}

/// Whose kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paper {
    AnSeo,
    Sanida,
}

impl Paper {
    /// As the kernels' files have it.
    const fn name(self) -> &'static str {
        match self {
            Self::AnSeo => "an_seo",
            Self::Sanida => "sanida",
        }
    }
}

/// A device with in-order queues. What is asked of a queue is done before [`Gpu::wait`]
/// returns.
pub(crate) trait Gpu {
    fn about(&self) -> &About;

    /// Has the paper's kernels ready and the key in constant memory.
    fn load(&mut self, paper: Paper, key: &KeyWords) -> Result<(), String>;

    /// Has so many queues.
    fn queues(&mut self, count: usize) -> Result<(), String>;

    /// Memory on the device, of at least one byte, until the device is dropped.
    fn memory(&mut self, len: usize) -> Result<Memory, String>;

    /// Pinned memory of the host, likewise.
    fn host(&mut self, len: usize) -> Result<Host, String>;

    /// What is in it; waits first.
    fn bytes(&mut self, host: Host) -> Result<&mut [u8], String>;

    /// Copies to the same place of the device's memory.
    fn upload(
        &mut self,
        queue: usize,
        from: Host,
        to: Memory,
        range: Range<usize>,
    ) -> Result<(), String>;

    /// Copies to the same place of the host's memory.
    fn download(
        &mut self,
        queue: usize,
        from: Memory,
        to: Host,
        range: Range<usize>,
    ) -> Result<(), String>;

    /// Runs a kernel of the paper that is loaded.
    fn launch(&mut self, queue: usize, launch: &Launch) -> Result<(), String>;

    /// Returns when all is done, on all queues.
    fn wait(&mut self) -> Result<(), String>;
}

/// Memory of a device, and its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    at: usize,
    len: usize,
}

/// Pinned memory of the host, and its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    at: usize,
    len: usize,
}

/// One run of a kernel. Numbers of blocks, and places in blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Launch {
    /// A thread a gap: the tweaks of `gap` blocks from its start.
    Fill {
        starts: Memory,
        tweaks: Memory,
        from: u32,
        count: u32,
        gap: u32,
    },
    /// A thread a block.
    Encrypt {
        size: AesSize,
        input: Memory,
        output: Memory,
        tweaks: Memory,
        from: u32,
        count: u32,
    },
    /// A thread for each `per_item` bytes of a block. `first`: one block.
    Sanida {
        size: AesSize,
        /// None in CTR.
        xts: Option<Direction>,
        per_item: u32,
        input: Memory,
        output: Memory,
        first: Memory,
        blocks: u32,
    },
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
enum Arg {
    Key,
    Memory(Memory),
    U32(u32),
}

/// A launch as a library wants it.
struct Call {
    kernel: String,
    args: Vec<Arg>,
    /// Threads that have something to do.
    items: u32,
    /// Bytes of local memory, with groups of so many threads.
    local: usize,
}

impl Launch {
    /// With groups of `threads`.
    ///
    /// # Errors
    /// When it would leave a memory, so that none that gets through does.
    fn call(&self, threads: usize) -> Result<Call, String> {
        let fits = |memory: Memory, from: u32, count: u64| {
            let end = (u64::from(from) + count) * 16;
            if end <= memory.len as u64 {
                return Ok(Arg::Memory(memory));
            }
            Err(format!("{self:?} has no room in {} bytes", memory.len))
        };
        Ok(match *self {
            Self::Fill {
                starts,
                tweaks,
                from,
                count,
                gap,
            } => {
                let all = (u64::from(from) + u64::from(count)) * u64::from(gap);
                Call {
                    kernel: "an_seo_fill".into(),
                    args: vec![
                        fits(starts, from, count.into())?,
                        fits(tweaks, 0, all)?,
                        Arg::U32(from),
                        Arg::U32(count),
                        Arg::U32(gap),
                    ],
                    items: count,
                    local: 0,
                }
            }
            Self::Encrypt {
                size,
                input,
                output,
                tweaks,
                from,
                count,
            } => Call {
                kernel: format!("an_seo_encrypt_{}", size.bits()),
                args: vec![
                    Arg::Key,
                    fits(input, from, count.into())?,
                    fits(output, from, count.into())?,
                    fits(tweaks, from, count.into())?,
                    Arg::U32(from),
                    Arg::U32(count),
                ],
                items: count,
                // A table of 256 words, 32 times.
                local: 256 * 4 * 32,
            },
            Self::Sanida {
                size,
                xts,
                per_item,
                input,
                output,
                first,
                blocks,
            } => {
                let name = match xts {
                    None => "ctr",
                    Some(Direction::Encrypt) => "xts_encrypt",
                    Some(Direction::Decrypt) => "xts_decrypt",
                };
                Call {
                    kernel: format!("sanida_{name}_{}_{per_item}", size.bits()),
                    args: vec![
                        Arg::Key,
                        fits(input, 0, blocks.into())?,
                        fits(output, 0, blocks.into())?,
                        fits(first, 0, 1)?,
                        Arg::U32(blocks),
                    ],
                    items: blocks * (16 / per_item),
                    // The S-box, and of each block state, rows shifted and tweak.
                    local: 256 + 48 * threads * per_item as usize / 16,
                }
            }
        })
    }
}

/// A range in both of two memories.
///
/// # Errors
/// When it is not.
fn within(range: &Range<usize>, memory: Memory, host: Host) -> Result<(), String> {
    if range.start <= range.end && range.end <= memory.len && range.end <= host.len {
        return Ok(());
    }
    Err(format!(
        "bytes {range:?} are not in {memory:?} and {host:?}"
    ))
}

/// All devices that there are, and why there are no others.
pub(crate) fn all() -> (Vec<Box<dyn Gpu>>, Vec<String>) {
    let mut devices = Vec::new();
    let mut absent = Vec::new();
    for (name, found) in [("opencl", opencl::all()), ("cuda", cuda::all())] {
        match found {
            Ok(found) if found.is_empty() => absent.push(format!("{name}: there is no device")),
            Ok(found) => devices.extend(found),
            Err(why) => absent.push(format!("{name}: {why}")),
        }
    }
    (devices, absent)
}

/// What the devices are, as sentences that go on a text.
pub(crate) fn text(devices: &[About]) -> String {
    let devices = devices.iter();
    devices
        .map(|about| format!(" {} is {}.", about.name, about.device))
        .collect()
}

/// Why there are no others, and that one is but a CPU.
pub(crate) fn absent(devices: &[About], absent: &[String]) -> Vec<String> {
    let cpus = devices.iter().filter(|about| about.is_cpu);
    let said = cpus.map(|about| {
        format!(
            "a GPU as {}: that is a CPU, no GPU; it gets less data and says nothing of what a GPU does",
            about.name
        )
    });
    said.chain(absent.iter().cloned()).collect()
}

/// NVIDIA's, emulated: it runs the committed PTX.
#[cfg(test)]
pub(crate) fn emulated() -> Vec<Box<dyn Gpu>> {
    cuda::emulated()
}

#[cfg(test)]
pub(crate) mod double {
    use super::*;

    /// A device whose copies are right and whose kernels do nothing.
    pub(crate) struct Idle {
        about: About,
        memories: Vec<Vec<u8>>,
        hosts: Vec<Vec<u8>>,
    }

    impl Idle {
        pub(crate) fn new() -> Self {
            Self {
                about: About {
                    name: "idle".into(),
                    hardware: "a double".into(),
                    device: "a double".into(),
                    is_cpu: false,
                },
                memories: Vec::new(),
                hosts: Vec::new(),
            }
        }
    }

    impl Gpu for Idle {
        fn about(&self) -> &About {
            &self.about
        }

        fn load(&mut self, _: Paper, _: &KeyWords) -> Result<(), String> {
            Ok(())
        }

        fn queues(&mut self, _: usize) -> Result<(), String> {
            Ok(())
        }

        fn memory(&mut self, len: usize) -> Result<Memory, String> {
            self.memories.push(vec![0; len]);
            let at = self.memories.len() - 1;
            Ok(Memory { at, len })
        }

        fn host(&mut self, len: usize) -> Result<Host, String> {
            self.hosts.push(vec![0; len]);
            let at = self.hosts.len() - 1;
            Ok(Host { at, len })
        }

        fn bytes(&mut self, host: Host) -> Result<&mut [u8], String> {
            Ok(&mut self.hosts[host.at])
        }

        fn upload(
            &mut self,
            _: usize,
            from: Host,
            to: Memory,
            range: Range<usize>,
        ) -> Result<(), String> {
            within(&range, to, from)?;
            self.memories[to.at][range.clone()].copy_from_slice(&self.hosts[from.at][range]);
            Ok(())
        }

        fn download(
            &mut self,
            _: usize,
            from: Memory,
            to: Host,
            range: Range<usize>,
        ) -> Result<(), String> {
            within(&range, from, to)?;
            self.hosts[to.at][range.clone()].copy_from_slice(&self.memories[from.at][range]);
            Ok(())
        }

        fn launch(&mut self, _: usize, launch: &Launch) -> Result<(), String> {
            launch.call(256).map(drop)
        }

        fn wait(&mut self) -> Result<(), String> {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_a_memory_is_refused() {
        let memory = |blocks: usize| Memory {
            at: 0,
            len: 16 * blocks,
        };
        let fill = |starts, tweaks, from, count| {
            let (starts, tweaks) = (memory(starts), memory(tweaks));
            let gap = 128;
            Launch::Fill {
                starts,
                tweaks,
                from,
                count,
                gap,
            }
            .call(1024)
        };
        assert!(fill(3, 384, 1, 2).is_ok());
        assert!(fill(3, 383, 1, 2).is_err());
        assert!(fill(2, 384, 1, 2).is_err());
        assert!(fill(3, 384, u32::MAX, u32::MAX).is_err());
        let encrypt = |input, output, tweaks| {
            let [input, output, tweaks] = [input, output, tweaks].map(memory);
            Launch::Encrypt {
                size: AesSize::Aes128,
                input,
                output,
                tweaks,
                from: 2,
                count: 3,
            }
            .call(1024)
        };
        assert!(encrypt(5, 5, 5).is_ok());
        assert!(encrypt(4, 5, 5).is_err());
        assert!(encrypt(5, 4, 5).is_err());
        assert!(encrypt(5, 5, 4).is_err());
        let sanida = |input, output, first| {
            let [input, output, first] = [input, output, first].map(memory);
            Launch::Sanida {
                size: AesSize::Aes192,
                xts: Some(Direction::Decrypt),
                per_item: 4,
                input,
                output,
                first,
                blocks: 5,
            }
            .call(256)
        };
        let call = sanida(5, 5, 1).unwrap();
        assert_eq!(call.kernel, "sanida_xts_decrypt_192_4");
        assert_eq!((call.items, call.local), (20, 256 + 48 * 64));
        assert!(sanida(4, 5, 1).is_err());
        assert!(sanida(5, 4, 1).is_err());
        assert!(sanida(5, 5, 0).is_err());
        let (on_device, on_host) = (memory(2), Host { at: 0, len: 31 });
        assert!(within(&(0..31), on_device, on_host).is_ok());
        assert!(within(&(0..32), on_device, on_host).is_err());
    }
}
