// SPDX-License-Identifier: MIT OR Apache-2.0
//! `sanida-2020`: AES-CTR and AES-XTS, one byte at a time, in OpenCL.
//!
//! T. Sanida, A. Sideris and M. Dasygenis, "Accelerating the AES Algorithm using OpenCL", 2020,
//! time a kernel on files of 512 bytes to 8 MB, without the copies to and from the device: CTR
//! (Table IV) and XTS (Table V) with keys of 128, 192 and 256 bits, in both directions. A work-item
//! processes 1, 4, 8 or 16 bytes of a block; 16 were fastest. Here the same kernels run on this
//! machine's devices, in turn with the engine and libraries in memory.
//!
//! In XTS, a file is one data unit. No standard has XTS with AES-192. It is included only because
//! the paper has it, under the name `aes-192-xts (non-standard)`; neither the engine nor a rival
//! supports it.

mod device;
mod published;
mod section;

use std::{cell::RefCell, num::NonZeroUsize, sync::Arc, time::Instant};

use luxor_engine::{AesKey, Backend, Direction, Executor, InOut, KeySpec, Mode, XtsKey};
use luxor_engine_gpu::keys::AesSize;
use serde::{Deserialize, Serialize};

use self::{device::OnDevice, published::FILES};
use crate::{
    bench::{Bench, Context, NoOptions},
    cipher::{Cipher, Luxor, direction_name},
    cpu,
    devices::{self, About, Device, LuxorKernels, Work},
    plaintext::Pattern,
    rivals::Rival,
    stats::{self, Summary},
};

/// The options of the bench, and the rivals.
pub(crate) struct Plan<'a> {
    /// Bytes of the longest file; `None` for the paper's, or less with `quick` and on a CPU's
    /// device.
    pub(crate) bytes: Option<usize>,
    pub(crate) quick: bool,
    /// The CPU's kernel; `None` for the best one.
    pub(crate) engine: Option<String>,
    pub(crate) rivals: &'a [Box<dyn Rival>],
}

impl Bench for Plan<'static> {
    const HELP: &'static str =
        "AES-CTR and AES-XTS on a GPU, one byte at a time (Sanida et al., 2020)";
    const SIZE: Option<&'static str> = Some(
        "size of the longest file [default: 8M, quick: 2M; a CPU as an OpenCL device: 512K, quick: \
         8K]",
    );
    type Options = NoOptions;
    type Report = Report;

    fn new(context: &Context, _: NoOptions) -> Result<Self, String> {
        let settings = &context.settings;
        Ok(Self {
            bytes: settings.size,
            quick: settings.quick,
            engine: settings.kernel(),
            rivals: context.rivals,
        })
    }

    fn check(&self) -> Result<(), String> {
        cpu::kernels(self.engine.as_deref())?;
        match self.bytes {
            Some(bytes) if bytes < FILES[0] => Err(format!(
                "--size is the size of the longest file, at least {} bytes",
                FILES[0]
            )),
            _ => Ok(()),
        }
    }

    fn measure(&self) -> Result<Report, String> {
        let rounds = if self.quick { 3 } else { 11 };
        let longest = match (self.bytes, self.quick) {
            (Some(bytes), _) => bytes,
            // The reference, which computes the expected results, is slow.
            (None, true) => LONGEST_QUICK,
            (None, false) => FILES[FILES.len() - 1],
        };
        let files: Vec<usize> = FILES.into_iter().filter(|&f| f <= longest).collect();
        let longest = files.last().copied().unwrap_or(FILES[0]);
        let engine = cpu::kernels(self.engine.as_deref())?;
        let engine = engine.first().ok_or("there is no engine")?;
        let mut input = cpu::memory(longest)?;
        Pattern::new().fill(&mut input);

        let (found, absent) = devices::all();
        let abouts: Vec<About> = found.iter().map(|device| device.about.clone()).collect();
        let (mut papers, mut owns) = (Vec::new(), Vec::new());
        for Device {
            about,
            mut luxor,
            papers: paper,
        } in found
        {
            luxor.resident(longest_on(&about, self).min(longest))?;
            owns.push(RefCell::new(luxor));
            papers.push((about, paper));
        }
        let mut devices = Vec::new();
        for (about, paper) in &mut papers {
            let device = OnDevice::new(&mut **paper, longest_on(about, self).min(longest));
            devices.push(RefCell::new(
                device.map_err(|e| format!("{}: {e}", about.device))?,
            ));
        }

        let mut rows = Vec::new();
        for task in Task::all() {
            let expected = task.answers(&input, &files)?;
            let mut lanes = Vec::new();
            for device in &devices {
                device.borrow_mut().key(task)?;
                for per_item in PER_ITEM {
                    lanes.push(on_device(device, task, per_item));
                }
            }
            for own in &owns {
                let most = longest_on(own.borrow().about(), self);
                lanes.extend(by_own_kernels(own, task, most.min(longest))?);
            }
            lanes.extend(on_cpu(&**engine, task)?);
            for rival in self.rivals {
                let cipher = rival.cipher(task.mode, task.direction, &task.key());
                if let Some(cipher) = cipher.transpose()? {
                    lanes.push(Lane {
                        rival: true,
                        ..in_memory(&rival.about().name, cipher)
                    });
                }
            }
            for (&file, expected) in files.iter().zip(&expected) {
                let mut lanes: Vec<_> = lanes.iter_mut().filter(|l| l.longest >= file).collect();
                rows.extend(time(&mut lanes, task, &input[..file], expected, rounds)?);
            }
        }
        Ok(Report {
            rounds,
            devices: abouts,
            absent,
            rows,
        })
    }

    fn section(report: &Report) -> crate::section::Section {
        report.section()
    }

    fn lacks_gpu(report: &Report) -> bool {
        devices::lack_gpu(&report.devices)
    }
}

/// The result of the bench.
#[derive(Debug, Deserialize, Serialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(crate) struct Report {
    rounds: usize,
    devices: Vec<About>,
    /// The reasons why there are no other devices.
    absent: Vec<String>,
    rows: Vec<FileTimes>,
}

#[derive(Debug, Deserialize, Serialize)]
struct FileTimes {
    /// The device's interface, the engine or a rival.
    contestant: String,
    rival: bool,
    /// Bytes of a block per work-item; null without work-items.
    bytes_per_item: Option<u32>,
    /// Such as `aes-128-ctr` or `aes-192-xts (non-standard)`.
    cipher: String,
    direction: &'static str,
    file_bytes: usize,
    /// Without copies.
    milliseconds: Summary,
}

/// A cipher and a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    mode: Mode,
    size: AesSize,
    direction: Direction,
}

/// A contestant in a task.
struct Lane<'a> {
    contestant: String,
    rival: bool,
    bytes_per_item: Option<u32>,
    longest: usize,
    /// Repeats the task this many times, and returns the seconds of one repetition.
    run: Run<'a>,
}

type Run<'a> = Box<dyn FnMut(&[u8], &[u8], usize) -> Result<f64, String> + 'a>;

/// What follows the device in the name of Luxor's kernels.
const OWN: &str = ", Luxor's kernels";

/// Bytes of a block per work-item.
const PER_ITEM: [u32; 4] = [16, 8, 4, 1];

const LONGEST_QUICK: usize = 2 << 20;

/// A CPU's OpenCL is only for testing kernels.
const LONGEST_ON_CPU: usize = 512 << 10;
const LONGEST_ON_CPU_QUICK: usize = 8 << 10;

/// The least seconds of a sample; short files are repeated.
const SAMPLE: f64 = 1e-3;

/// Returns the longest file for a device.
fn longest_on(device: &About, plan: &Plan<'_>) -> usize {
    match (device.is_cpu, plan.bytes, plan.quick) {
        (false, ..) | (true, Some(_), _) => usize::MAX,
        (true, None, true) => LONGEST_ON_CPU_QUICK,
        (true, None, false) => LONGEST_ON_CPU,
    }
}

/// Runs every contestant once to warm up, to check its result and to estimate its time, then takes
/// turns.
fn time(
    lanes: &mut [&mut Lane<'_>],
    task: Task,
    input: &[u8],
    expected: &[u8],
    rounds: usize,
) -> Result<Vec<FileTimes>, String> {
    let failed = |lane: &Lane<'_>, e: String| {
        let (name, cipher) = (&lane.contestant, task.cipher());
        format!("{name}, {cipher}, {} bytes: {e}", input.len())
    };
    let mut times = Vec::new();
    for lane in &mut *lanes {
        let once = (lane.run)(input, expected, 1).map_err(|e| failed(lane, e))?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to 1 to 1000"
        )]
        times.push((SAMPLE / once).clamp(1.0, 1000.0) as usize);
    }
    let mut samples = vec![Vec::new(); lanes.len()];
    for at in stats::turns(rounds, lanes.len()) {
        let lane = &mut lanes[at];
        let seconds = (lane.run)(input, expected, times[at]).map_err(|e| failed(lane, e))?;
        samples[at].push(seconds);
    }
    let row = |(lane, samples): (&&mut Lane<'_>, Vec<f64>)| {
        Some(FileTimes {
            contestant: lane.contestant.clone(),
            rival: lane.rival,
            bytes_per_item: lane.bytes_per_item,
            cipher: task.cipher(),
            direction: direction_name(task.direction),
            file_bytes: input.len(),
            milliseconds: Summary::from_samples(samples)?.scaled(1e3),
        })
    };
    let rows = lanes.iter().zip(samples).map(row).collect::<Option<_>>();
    rows.ok_or_else(|| "no round was measured".to_owned())
}

fn on_device<'a>(device: &'a RefCell<OnDevice<'_>>, task: Task, per_item: u32) -> Lane<'a> {
    let (name, longest) = {
        let device = device.borrow();
        (device.about().name.clone(), device.longest)
    };
    Lane {
        contestant: name,
        rival: false,
        bytes_per_item: Some(per_item),
        longest,
        run: Box::new(move |input, expected, times| {
            device
                .borrow_mut()
                .run(task, per_item, input, expected, times)
        }),
    }
}

/// Runs Luxor's kernels on the device without copies, like the paper's. `None` if the backends do
/// not support the task.
fn by_own_kernels<'a>(
    own: &'a RefCell<Box<dyn LuxorKernels>>,
    task: Task,
    longest: usize,
) -> Result<Option<Lane<'a>>, String> {
    let Some(spec) = task.spec()? else {
        return Ok(None);
    };
    own.borrow_mut().key(&spec)?;
    let contestant = format!("{}{OWN}", own.borrow().about().name);
    let mut output = Vec::new();
    let run = move |input: &[u8], expected: &[u8], times| {
        let own = &mut **own.borrow_mut();
        let work = Work {
            first: FIRST,
            unit: input.len(),
            len: input.len(),
        };
        own.write(0, input)?;
        // Overwrite the results of earlier runs.
        own.copy_resident(input.len())?;
        let begun = Instant::now();
        for _ in 0..times {
            own.crypt_resident(task.direction, work)?;
        }
        let seconds = begun.elapsed().as_secs_f64() / times as f64;
        output.clear();
        output.resize(input.len(), 0);
        own.read(0, &mut output)?;
        same(&output, expected)?;
        Ok(seconds)
    };
    Ok(Some(Lane {
        contestant,
        rival: false,
        bytes_per_item: None,
        longest,
        run: Box::new(run),
    }))
}

/// `None` if the engine does not support the task.
fn on_cpu<'a>(engine: &dyn Backend, task: Task) -> Result<Option<Lane<'a>>, String> {
    let Some(spec) = task.spec()? else {
        return Ok(None);
    };
    let luxor = Luxor {
        key: engine.load_key(&spec).map_err(|e| e.to_string())?,
        direction: task.direction,
        executor: Arc::new(Executor::new(NonZeroUsize::MIN)),
    };
    Ok(Some(in_memory(engine.info().name, Box::new(luxor))))
}

fn in_memory<'a>(name: &str, mut cipher: Box<dyn Cipher>) -> Lane<'a> {
    let mut output = Vec::new();
    Lane {
        contestant: name.to_owned(),
        rival: false,
        bytes_per_item: None,
        longest: usize::MAX,
        run: Box::new(move |input, expected, times| {
            output.clear();
            output.resize(input.len(), 0);
            let begun = Instant::now();
            for _ in 0..times {
                let output = output.as_mut_slice();
                cipher.crypt(FIRST, input.len(), InOut::Separate { input, output })?;
            }
            let seconds = begun.elapsed().as_secs_f64() / times as f64;
            same(&output, expected)?;
            Ok(seconds)
        }),
    }
}

fn same(found: &[u8], expected: &[u8]) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err("the bytes differ from the reference's".into())
}

/// The data unit number in XTS, and the first counter in CTR.
const FIRST: u64 = 0xfedc_ba98;

impl Task {
    fn all() -> impl Iterator<Item = Self> {
        let ways = [Direction::Encrypt, Direction::Decrypt];
        [Mode::Ctr, Mode::Xts].into_iter().flat_map(move |mode| {
            ways.into_iter().flat_map(move |direction| {
                AesSize::ALL.into_iter().map(move |size| Self {
                    mode,
                    size,
                    direction,
                })
            })
        })
    }

    fn cipher(self) -> String {
        let (bits, mode) = (self.size.bits(), self.mode.name());
        match (self.mode, self.size) {
            (Mode::Xts, AesSize::Aes192) => format!("aes-{bits}-{mode} (non-standard)"),
            _ => format!("aes-{bits}-{mode}"),
        }
    }

    /// Returns the key; in XTS the data key, then the tweak key. Nothing depends on its value.
    fn key(self) -> Vec<u8> {
        let keys = if self.mode == Mode::Xts { 2 } else { 1 };
        (1..).take(keys * self.size.bytes()).collect()
    }

    /// `None` if the engine does not support the task.
    fn spec(self) -> Result<Option<KeySpec>, String> {
        let key = self.key();
        let spec = match (self.size, self.mode) {
            (AesSize::Aes192, Mode::Xts) => return Ok(None),
            (_, Mode::Xts) => XtsKey::new(&key).map(KeySpec::Xts),
            _ => AesKey::new(&key).map(KeySpec::Ctr),
        };
        spec.map(Some).map_err(|e| e.to_string())
    }

    /// Returns the expected results for each file. A file is the first bytes of `input`.
    fn answers(self, input: &[u8], files: &[usize]) -> Result<Vec<Vec<u8>>, String> {
        let key = self.key();
        let all = match (self.mode, self.size, self.direction) {
            (Mode::Ctr, ..) => luxor_reference::ctr(&key, FIRST.into(), input),
            // The reference follows the standard, so AES-192-XTS is composed of its parts.
            (_, AesSize::Aes192, _) => device::xts(&key, FIRST.into(), self.direction, input),
            (_, _, Direction::Encrypt) => luxor_reference::xts_encrypt(&key, FIRST.into(), input),
            (_, _, Direction::Decrypt) => luxor_reference::xts_decrypt(&key, FIRST.into(), input),
        };
        // The first whole blocks of a data unit do not depend on later ones.
        let first = |&file: &usize| all.get(..file).map(<[u8]>::to_vec);
        let answers = files.iter().map(first).collect::<Option<_>>();
        answers.ok_or_else(|| "the reference returned too few bytes".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::double::Idle;

    #[test]
    fn a_wrong_answer_is_noticed() {
        let mut idle = Idle::new();
        let device = RefCell::new(OnDevice::new(&mut idle, 1024).unwrap());
        let input = [7; 1024];
        for task in Task::all() {
            let expected = &task.answers(&input, &[1024]).unwrap()[0];
            device.borrow_mut().key(task).unwrap();
            for per_item in PER_ITEM {
                let mut lane = on_device(&device, task, per_item);
                let said = time(&mut [&mut lane], task, &input, expected, 1).unwrap_err();
                assert!(
                    said.contains("idle") && said.contains("the bytes differ"),
                    "{said}"
                );
            }
            let engine = &cpu::kernels(None).unwrap()[0];
            if let Some(mut lane) = on_cpu(&**engine, task).unwrap() {
                assert!(time(&mut [&mut lane], task, &input, expected, 1).is_ok());
                assert!(time(&mut [&mut lane], task, &input, &input, 1).is_err());
            }
        }
    }

    /// Runs on the emulated GPU.
    #[test]
    fn our_kernels_are_correct_and_lack_xts_with_aes_192() {
        let input = [7; 1024];
        {
            let mut own = devices::emulated().luxor;
            own.resident(1024).unwrap();
            let own = RefCell::new(own);
            for task in Task::all() {
                let expected = &task.answers(&input, &[1024]).unwrap()[0];
                let lane = by_own_kernels(&own, task, 1024).unwrap();
                let is_not_standard = (task.mode, task.size) == (Mode::Xts, AesSize::Aes192);
                assert_eq!(lane.is_none(), is_not_standard);
                if let Some(mut lane) = lane {
                    assert!(time(&mut [&mut lane], task, &input, expected, 1).is_ok());
                    assert!(time(&mut [&mut lane], task, &input, &input, 1).is_err());
                }
            }
        }
    }

    #[test]
    fn aes_192_xts_is_labelled_non_standard() {
        let names: Vec<String> = Task::all().map(Task::cipher).collect();
        let of_192 = names.iter().filter(|name| name.contains("192-xts"));
        assert!(
            of_192
                .clone()
                .all(|name| name == "aes-192-xts (non-standard)")
        );
        assert_eq!(of_192.count(), 2);
        assert_eq!(
            names
                .iter()
                .filter(|name| name.contains("standard"))
                .count(),
            2
        );
    }
}
