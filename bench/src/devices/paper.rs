// SPDX-License-Identifier: MIT OR Apache-2.0
//! The papers' kernels on a device, `kernels/an_seo.h` and `kernels/sanida.h`.
//!
//! They run on the devices and queues of the backends, through `engine-gpu`'s `ForeignDevice`, so a
//! device is opened in one way. This module is responsible for what such a kernel reads and writes:
//! `engine-gpu` knows only its own kernels.

#![allow(
    unsafe_code,
    reason = "copies and kernels continue after their call returns"
)]

use std::{
    collections::{HashMap, hash_map::Entry},
    ffi::CStr,
    ops::Range,
    rc::Rc,
};

use luxor_engine::{Buffer, Direction};
use luxor_engine_gpu::{
    ForeignArgument, ForeignDevice, ForeignLaunch, ForeignSource, GpuBackend, Queue, QueueSizes,
    keys::{AesSize, KeyWords},
};

use super::{About, said};

/// The paper whose kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Paper {
    AnSeo,
    Sanida,
}

/// The source: `kernels/NAME.cl` with its includes inlined, and `kernels/ptx/NAME.ptx`.
macro_rules! source {
    ($name:literal, $threads:literal, $replicas:literal, $local:expr, $($file:literal)*) => {{
        const PTX: &str = concat!(
            include_str!(concat!("../../../kernels/ptx/", $name, ".ptx")),
            "\0"
        );
        ForeignSource {
            opencl: concat!($(include_str!(concat!("../../../kernels/", $file))),*),
            ptx: CStr::from_bytes_with_nul(PTX.as_bytes()).expect("the PTX contains no zero byte"),
            threads: $threads,
            replicas: $replicas,
            local: $local,
        }
    }};
}

/// A table of 256 words, with 32 copies of each.
const AN_SEO_LOCAL: u32 = 256 * 4 * 32;

impl Paper {
    fn source(self) -> ForeignSource {
        match self {
            Self::AnSeo => source!("an_seo", 1024, 32, AN_SEO_LOCAL,
                "portability.h" "tables.h" "aes.h" "gf128.h" "an_seo.h"),
            Self::Sanida => source!("sanida", 256, 1, 256 + 48 * 256,
                "portability.h" "tables.h" "aes.h" "gf128.h" "numbers.h" "sanida.h"),
        }
    }
}

/// A device with in-order queues. Commands on all queues are finished when [`PaperKernels::wait`]
/// returns.
pub(crate) trait PaperKernels {
    fn about(&self) -> &About;

    /// Loads the paper's kernels, and the key into constant memory.
    fn load(&mut self, paper: Paper, key: &KeyWords) -> Result<(), String>;

    /// Creates queues until there are `count`.
    fn queues(&mut self, count: usize) -> Result<(), String>;

    /// Allocates at least one byte on the device. The memory lives as long as the device.
    fn memory(&mut self, len: usize) -> Result<Memory, String>;

    /// Allocates pinned memory of the host in the same way.
    fn host(&mut self, len: usize) -> Result<Host, String>;

    /// Returns the contents of host memory. Waits first.
    fn bytes(&mut self, host: Host) -> Result<&mut [u8], String>;

    /// Copies `range` to the same place of the device's memory.
    fn upload(
        &mut self,
        queue: usize,
        from: Host,
        to: Memory,
        range: Range<usize>,
    ) -> Result<(), String>;

    /// Copies `range` to the same place of the host's memory.
    fn download(
        &mut self,
        queue: usize,
        from: Memory,
        to: Host,
        range: Range<usize>,
    ) -> Result<(), String>;

    /// Runs a kernel of the loaded paper.
    fn launch(&mut self, queue: usize, launch: &Launch) -> Result<(), String>;

    /// Waits until all queues are done.
    fn wait(&mut self) -> Result<(), String>;
}

/// Memory of a device, with its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    at: usize,
    len: usize,
}

/// Pinned memory of the host, with its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    at: usize,
    len: usize,
}

/// A launch of a kernel. Numbers and offsets count blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Launch {
    /// One thread per gap computes the tweaks of `gap` blocks from its start.
    Fill {
        starts: Memory,
        tweaks: Memory,
        from: u32,
        count: u32,
        gap: u32,
    },
    /// One thread per block.
    Encrypt {
        size: AesSize,
        input: Memory,
        output: Memory,
        tweaks: Memory,
        from: u32,
        count: u32,
    },
    /// One thread for each `per_item` bytes of a block. `first` is one block.
    Sanida {
        size: AesSize,
        /// `None` for CTR.
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

/// A launch in the form that a library takes.
struct Call {
    kernel: String,
    args: Vec<Arg>,
    /// Threads with work to do.
    items: u32,
    /// Bytes of local memory of a group.
    local: u32,
}

impl Launch {
    /// Returns the call for groups of `threads` threads, and checks that it stays within its
    /// memories.
    fn call(&self, threads: u32) -> Result<Call, String> {
        let fits = |memory: Memory, from: u32, count: u64| {
            let end = (u64::from(from) + count) * 16;
            if end <= memory.len as u64 {
                return Ok(Arg::Memory(memory));
            }
            Err(format!("{self:?} exceeds a memory of {} bytes", memory.len))
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
                local: AN_SEO_LOCAL,
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
                    // The S-box, and for each block its state, its shifted rows and its tweak.
                    local: 256 + 48 * threads * per_item / 16,
                }
            }
        })
    }
}

/// Checks that `range` is within both memories.
fn within(range: &Range<usize>, memory: Memory, host: Host) -> Result<(), String> {
    if range.start <= range.end && range.end <= memory.len && range.end <= host.len {
        return Ok(());
    }
    Err(format!(
        "bytes {range:?} are not within {memory:?} and {host:?}"
    ))
}

/// Uses the backend's only device.
pub(super) fn on<D: ForeignDevice>(
    about: About,
    backend: Rc<GpuBackend<D>>,
) -> Box<dyn PaperKernels> {
    Box::new(OnDevice {
        about,
        queues: Vec::new(),
        programs: HashMap::new(),
        loaded: None,
        memories: Vec::new(),
        hosts: Vec::new(),
        backend,
    })
}

/// Queues and programs are declared before the memory that they may be using, so they are dropped
/// first.
struct OnDevice<D: ForeignDevice> {
    about: About,
    queues: Vec<D::Queue>,
    programs: HashMap<Paper, D::Program>,
    loaded: Option<Paper>,
    memories: Vec<D::Memory>,
    hosts: Vec<Buffer>,
    backend: Rc<GpuBackend<D>>,
}

impl<D: ForeignDevice> OnDevice<D> {
    fn device(&self) -> &D {
        &self.backend.devices()[0]
    }
}

impl<D: ForeignDevice> PaperKernels for OnDevice<D> {
    fn about(&self) -> &About {
        &self.about
    }

    fn load(&mut self, paper: Paper, key: &KeyWords) -> Result<(), String> {
        self.wait()?;
        let device = &self.backend.devices()[0];
        let program = match self.programs.entry(paper) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(said(device.program(&paper.source()))?),
        };
        said(device.set_key(program, key))?;
        self.loaded = Some(paper);
        Ok(())
    }

    fn queues(&mut self, count: usize) -> Result<(), String> {
        while self.queues.len() < count {
            // The smallest queue: all data are elsewhere.
            let sizes = QueueSizes {
                data: 16,
                tweaks: 16,
                pieces: 32,
            };
            let queue = said(self.device().queue(sizes))?;
            self.queues.push(queue);
        }
        Ok(())
    }

    fn memory(&mut self, len: usize) -> Result<Memory, String> {
        let memory = said(self.device().memory(len))?;
        self.memories.push(memory);
        let at = self.memories.len() - 1;
        Ok(Memory { at, len })
    }

    fn host(&mut self, len: usize) -> Result<Host, String> {
        let buffer = self.device().alloc(len);
        let missing = || format!("cannot allocate {len} bytes of pinned memory");
        self.hosts.push(buffer.ok_or_else(missing)?);
        let at = self.hosts.len() - 1;
        Ok(Host { at, len })
    }

    fn bytes(&mut self, host: Host) -> Result<&mut [u8], String> {
        self.wait()?;
        Ok(&mut self.hosts[host.at])
    }

    fn upload(
        &mut self,
        queue: usize,
        from: Host,
        to: Memory,
        range: Range<usize>,
    ) -> Result<(), String> {
        within(&range, to, from)?;
        let from = self.hosts[from.at][range.clone()].as_ptr();
        let (queue, to) = (&mut self.queues[queue], &self.memories[to.at]);
        // SAFETY: `within` checked `range` for both memories; `bytes`, the only access to the
        // host's memory, waits for the queue.
        said(unsafe { D::upload(queue, from, range.len(), to, range.start) })
    }

    fn download(
        &mut self,
        queue: usize,
        from: Memory,
        to: Host,
        range: Range<usize>,
    ) -> Result<(), String> {
        within(&range, from, to)?;
        let to = self.hosts[to.at][range.clone()].as_mut_ptr();
        let (queue, from) = (&mut self.queues[queue], &self.memories[from.at]);
        // SAFETY: as in `upload`.
        said(unsafe { D::download(queue, from, range.start, to, range.len()) })
    }

    fn launch(&mut self, queue: usize, launch: &Launch) -> Result<(), String> {
        let loaded = self.loaded.and_then(|paper| self.programs.get_mut(&paper));
        let program = loaded.ok_or("no kernels are loaded")?;
        let call = launch.call(D::group(program))?;
        let arguments = call.args.iter().map(|argument| match *argument {
            Arg::Key => ForeignArgument::Key,
            Arg::Memory(memory) => ForeignArgument::Memory(&self.memories[memory.at]),
            Arg::U32(number) => ForeignArgument::Number(number),
        });
        let launch = ForeignLaunch {
            kernel: &call.kernel,
            arguments: &arguments.collect::<Vec<_>>(),
            threads: call.items,
            local: call.local,
        };
        // SAFETY: `Launch::call` built the kernel's arguments and checked that it stays within its
        // memories; `load` waits before it changes a program.
        said(unsafe { D::launch(&mut self.queues[queue], program, &launch) })
    }

    fn wait(&mut self) -> Result<(), String> {
        let waits = self.queues.iter_mut().map(|queue| said(queue.wait()));
        // Wait for all queues, even after an error.
        waits.fold(Ok(()), Result::and)
    }
}

#[cfg(test)]
pub(crate) mod double {
    use super::*;

    /// A device that copies correctly, but whose kernels do nothing.
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
                    device: "a double".into(),
                    is_cpu: false,
                },
                memories: Vec::new(),
                hosts: Vec::new(),
            }
        }
    }

    impl PaperKernels for Idle {
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
    fn launches_beyond_a_memory_are_refused() {
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
