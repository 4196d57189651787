// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be said on the command line.

use std::{ffi::OsString, num::NonZeroUsize, path::PathBuf, thread, time::Duration};

use clap::{ArgGroup, Parser, ValueEnum, ValueHint};
use luxor_engine::{Direction, KeySize, Mode};

use crate::{
    an_seo,
    block::{self, Contestant},
    cpu::{
        Plan,
        matrix::{Filter, Place},
    },
    damjanovic, demir, device, file,
    fio::{Access, Load},
    rivals::Rival,
    sanida, size, unlock,
};

const AFTER_HELP: &str = "\
Examples:
  cargo xtask bench                       everything, with the rivals: builds them, minutes
  luxor-bench cpu --quick                 a look at the kernels, in seconds
  luxor-bench cpu --engine vaes512 --unit 512 --call 64K --key-size 256 --direction encrypt
  luxor-bench --quick --json result.json  all of it, quickly, for a program

What the numbers mean is said in BENCHMARKING.md.";

/// Measures: GB/s, and the ratio to what this machine could do at best
///
/// Everybody who takes part is timed in alternation in the same process, and ratios are
/// formed within a round: on a machine that others use too, believe the ratios. Answers
/// are compared before anything is timed.
#[derive(Debug, Parser)]
#[command(name = "luxor-bench", version, max_term_width = 96, after_help = AFTER_HELP)]
#[command(group = ArgGroup::new("shown").args(["report", "plots"]).multiple(true))]
pub(crate) struct Args {
    /// What to measure (default: all there is)
    #[arg(value_enum, value_name = "NAME")]
    names: Vec<Bench>,

    /// cpu: the bytes that fit no cache [default: 256M, quick: 64M]; file: of the file [4G,
    /// quick: 512M]; block and demir-2020: of the disk [1G, quick: 256M and 64M];
    /// damjanovic-simic-2015: of the message [default: 128000000, portable: 4000000; quick: a
    /// 64th, portable: a 32nd]; an-seo-2022: of the data [128M, quick: 8M; an OpenCL device that
    /// is a CPU takes a sixteenth]; sanida-2020: of the longest file [8M, quick: 2M; such a
    /// device: 512K, quick: 8K]; gpu: on the device [4G, quick: 1G, less where there is no room;
    /// such a device: 1M, quick: 256K]
    ///
    /// With K, M or G for powers of 1024.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    size: Option<usize>,

    /// Fewer repetitions, less over memory: a look, not a result
    #[arg(long)]
    pub(crate) quick: bool,

    /// Also write everything that was measured to FILE, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,

    /// Also write a page about all of it to FILE, as HTML, and the JSON beside it
    ///
    /// A bench that cannot run here is not an error then: the page says why. `luxor report` is
    /// this.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "json")]
    pub(crate) report: Option<PathBuf>,

    /// Also write the plots of that page into the folder DIR, as SVG
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) plots: Option<PathBuf>,

    /// Measure nothing: show an earlier run again, from its JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["names", "json", "record", "compare", "size", "quick"])]
    #[arg(requires = "shown")]
    pub(crate) from: Option<PathBuf>,

    /// Also keep the result as DIR/MACHINE/DATE.json, and the tables beside it as .txt
    ///
    /// For the repository's own records, in bench/record. The program must be built by
    /// `cargo xtask bench` from a commit without changes.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) record: Option<PathBuf>,

    /// Also hold the result against an earlier one's JSON, by ratios to the machine's limits
    ///
    /// Prints what is better or worse by more than both spreads, and is never an error: on
    /// a machine that others use too it is for people to judge.
    #[arg(long, value_name = "RECORD", value_hint = ValueHint::FilePath)]
    pub(crate) compare: Option<PathBuf>,

    /// Only this kernel: portable, aesni, vaes256, vaes512 (auto: all that are present)
    #[arg(
        long,
        value_name = "NAME",
        default_value = "auto",
        hide_default_value = true
    )]
    engine: String,

    /// How many threads "all threads" are (default: one per processor)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// The program to measure (default: luxor beside this one, else on PATH)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = PROGRAMS)]
    luxor: Option<PathBuf>,

    /// Where files go, in `file` with room for two, in `block` for four: a file system in
    /// memory
    #[arg(long, value_name = "DIR", default_value = "/dev/shm", help_heading = PROGRAMS)]
    #[arg(value_hint = ValueHint::DirPath)]
    dir: PathBuf,

    /// How long a server's turn is, in milliseconds [default: 2000; quick: 400, demir-2020: 200]
    #[arg(long = "turn", value_name = "MS", help_heading = SERVERS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    turn: Option<u32>,

    /// Only this server, in `block` [default: all]
    #[arg(long = "contestant", value_enum, value_name = "NAME", help_heading = SERVERS)]
    contestants: Vec<Contestant>,

    /// Only this way [default: both]
    #[arg(long = "access", value_enum, value_name = "WAY", help_heading = SERVERS)]
    accesses: Vec<Access>,

    /// Only requests of so many bytes [default: 4K, 64K, 1M]
    #[arg(long = "request", value_name = "BYTES", value_parser = size::parse)]
    #[arg(help_heading = SERVERS)]
    requests: Vec<usize>,

    /// Only so many connections at a time [default: 1 and 4; demir-2020: 1]
    #[arg(long = "connections", value_name = "N", help_heading = SERVERS)]
    connections: Vec<usize>,

    /// Only input arrays of so many bytes, in `damjanovic-simic-2015` [default: the paper's,
    /// and 16, 64, 256 and 1024]
    #[arg(long = "array", value_name = "BYTES", value_parser = size::parse)]
    arrays: Vec<usize>,

    /// What setting up a request to the co-processor of `demir-2020` takes, in microseconds
    /// [default: what the paper's tables say, 30 and 28]
    #[arg(long, value_name = "US", value_parser = microseconds)]
    setup: Option<f64>,

    /// The co-processor's clock, in MHz [default: that of its synthesis for an ECP5]
    #[arg(long, value_name = "MHZ", value_parser = megahertz)]
    clock: Option<f64>,

    /// Only this mode [default: all]
    #[arg(long = "mode", value_enum, value_name = "MODE", help_heading = CPU)]
    modes: Vec<ModeName>,

    /// Only AES with a key of so many bits (XTS has two such keys) [default: both]
    #[arg(long = "key-size", value_enum, value_name = "BITS", help_heading = CPU)]
    key_sizes: Vec<KeyBits>,

    /// Only this direction [default: both]
    #[arg(long = "direction", value_enum, value_name = "WAY", help_heading = CPU)]
    directions: Vec<Way>,

    /// Only with the result over the input, or elsewhere [default: both]
    #[arg(long = "place", value_enum, value_name = "PLACE", help_heading = CPU)]
    places: Vec<Place>,

    /// Only XTS with data units of so many bytes [default: 16, 512, 4K, 64K, 1M]
    #[arg(long = "unit", value_name = "BYTES", value_parser = size::parse, help_heading = CPU)]
    units: Vec<usize>,

    /// Only calls of so many bytes [default: 4K, 64K, 1M, and the --size]
    ///
    /// Calls of up to 4 MiB walk through at least 64 KiB, again and again.
    #[arg(long = "call", value_name = "BYTES", value_parser = size::parse, help_heading = CPU)]
    calls: Vec<usize>,
}

const PROGRAMS: &str = "Only for those with other programs: file, unlock, block, demir-2020";
const SERVERS: &str = "Only for block and demir-2020, filters may be given several times";
const CPU: &str = "Only for cpu, each may be given several times";

/// What there is to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bench {
    /// XTS, CTR and ECB of each kernel, in the L2 cache and over memory
    Cpu,
    /// luxor encrypt, decrypt and dump of a file in memory, beside cp
    File,
    /// luxor and cryptsetup opening the same keyslots
    Unlock,
    /// luxor serve beside nbdkit and qemu-nbd, by fio
    Block,
    /// XTS on co-processors with extended requests, and in software (Demir et al., 2020)
    #[value(name = "demir-2020")]
    Demir2020,
    /// XTS-AES cores on FPGAs: area, clock, and cycles by simulation (Elmoghany et al., 2011)
    #[value(name = "elmoghany-2011")]
    Elmoghany2011,
    /// Two chains of AES-128-OFB with tweaks beside one of AES-256-OFB (Damjanovic and
    /// Simic, 2015)
    #[value(name = "damjanovic-simic-2015")]
    DamjanovicSimic2015,
    /// XTS on a GPU with powers of alpha from the CPU (An and Seo, 2022)
    #[value(name = "an-seo-2022")]
    AnSeo2022,
    /// AES-CTR and AES-XTS a byte at a time on a GPU (Sanida et al., 2020)
    #[value(name = "sanida-2020")]
    Sanida2020,
    /// The opencl and cuda backends on each device, beside copies and An and Seo's system
    Gpu,
}

impl Bench {
    /// As on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::File => "file",
            Self::Unlock => "unlock",
            Self::Block => "block",
            Self::Demir2020 => "demir-2020",
            Self::Elmoghany2011 => "elmoghany-2011",
            Self::DamjanovicSimic2015 => "damjanovic-simic-2015",
            Self::AnSeo2022 => "an-seo-2022",
            Self::Sanida2020 => "sanida-2020",
            Self::Gpu => "gpu",
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeName {
    Xts,
    Ctr,
    Ecb,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KeyBits {
    #[value(name = "128")]
    Aes128,
    #[value(name = "256")]
    Aes256,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Way {
    Encrypt,
    Decrypt,
}

/// The command line, parsed.
///
/// # Errors
/// Clap's, which are also help and version texts.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Args, clap::Error> {
    Args::try_parse_from(args)
}

impl Args {
    /// What to measure, each once.
    pub(crate) fn benches(&self) -> Vec<Bench> {
        let wanted = |bench: &Bench| self.names.is_empty() || self.names.contains(bench);
        Bench::value_variants()
            .iter()
            .copied()
            .filter(wanted)
            .collect()
    }

    /// Where the JSON goes, if anywhere.
    pub(crate) fn json_path(&self) -> Option<PathBuf> {
        let measured = self.report.as_ref().filter(|_| self.from.is_none());
        let beside = || measured.map(|page| page.with_extension("json"));
        self.json.clone().or_else(beside)
    }

    /// All files that are written.
    pub(crate) fn outputs(&self) -> Vec<PathBuf> {
        self.json_path()
            .into_iter()
            .chain(self.report.clone())
            .collect()
    }

    /// Sees to it that nothing is missing for a bench.
    ///
    /// # Errors
    /// What is.
    pub(crate) fn check(&self, bench: Bench, rivals: &[Box<dyn Rival>]) -> Result<(), String> {
        match bench {
            Bench::Cpu | Bench::Elmoghany2011 => Ok(()),
            Bench::File => file::check(&self.file()?).map(drop),
            Bench::Unlock => unlock::check().map(drop),
            Bench::Block => block::check(&self.block()?).map(drop),
            Bench::Demir2020 => demir::check(&self.demir()?).map(drop),
            Bench::DamjanovicSimic2015 => damjanovic::check(&self.damjanovic(rivals)),
            Bench::AnSeo2022 => an_seo::check(&self.an_seo(rivals)),
            Bench::Sanida2020 => sanida::check(&self.sanida(rivals)),
            Bench::Gpu => device::check(&self.gpu()),
        }
    }

    /// The plan for `cpu`.
    pub(crate) fn cpu<'a>(&self, rivals: &'a [Box<dyn Rival>]) -> Plan<'a> {
        Plan {
            filter: Filter {
                modes: map(&self.modes, |mode| match mode {
                    ModeName::Xts => Mode::Xts,
                    ModeName::Ctr => Mode::Ctr,
                    ModeName::Ecb => Mode::Ecb,
                }),
                key_sizes: map(&self.key_sizes, |bits| match bits {
                    KeyBits::Aes128 => KeySize::Aes128,
                    KeyBits::Aes256 => KeySize::Aes256,
                }),
                directions: map(&self.directions, |way| match way {
                    Way::Encrypt => Direction::Encrypt,
                    Way::Decrypt => Direction::Decrypt,
                }),
                places: self.places.clone(),
                units: self.units.clone(),
                calls: self.calls.clone(),
                large: self
                    .size
                    .unwrap_or(if self.quick { 64 << 20 } else { 256 << 20 }),
                quick: self.quick,
            },
            engine: self.kernel(),
            threads: self.all_threads(),
            rivals,
        }
    }

    fn all_threads(&self) -> NonZeroUsize {
        self.threads
            .and_then(|threads| NonZeroUsize::new(threads.into()))
            .or_else(|| thread::available_parallelism().ok())
            .unwrap_or(NonZeroUsize::MIN)
    }

    /// The plan for `file`.
    ///
    /// # Errors
    /// When this program cannot find itself.
    pub(crate) fn file(&self) -> Result<file::Plan, String> {
        let mut options = vec![format!("--engine={}", self.engine)];
        options.extend(self.threads.map(|n| format!("--threads={n}")));
        Ok(file::Plan {
            luxor: self.luxor()?,
            folder: self.dir.clone(),
            bytes: self
                .size
                .unwrap_or(if self.quick { 512 << 20 } else { 4 << 30 }),
            quick: self.quick,
            options,
        })
    }

    /// The plan for `unlock`.
    ///
    /// # Errors
    /// When this program cannot find itself.
    pub(crate) fn unlock(&self) -> Result<unlock::Plan, String> {
        Ok(unlock::Plan {
            luxor: self.luxor()?,
            folder: self.dir.clone(),
            quick: self.quick,
        })
    }

    /// The plan for `block`.
    ///
    /// # Errors
    /// When this program cannot find itself, or the options leave nothing to do.
    pub(crate) fn block(&self) -> Result<block::Plan, String> {
        let mut options = vec![format!("--engine={}", self.engine)];
        options.extend(self.threads.map(|n| format!("--threads={n}")));
        let wanted = |contestant: &Contestant| {
            self.contestants.is_empty() || self.contestants.contains(contestant)
        };
        Ok(block::Plan {
            luxor: self.luxor()?,
            folder: self.dir.clone(),
            bytes: self.disk_bytes(),
            quick: self.quick,
            turn: self.turn(),
            engine: self.engine.clone(),
            options,
            all_are_needed: !self.contestants.is_empty(),
            contestants: Contestant::value_variants()
                .iter()
                .copied()
                .filter(wanted)
                .collect(),
            loads: self.loads(&[1, 4])?,
        })
    }

    /// The plan for `demir-2020`.
    ///
    /// # Errors
    /// When the options leave nothing to do.
    pub(crate) fn demir(&self) -> Result<demir::Plan, String> {
        Ok(demir::Plan {
            folder: self.dir.clone(),
            bytes: self
                .size
                .unwrap_or(if self.quick { 64 << 20 } else { 1 << 30 }),
            quick: self.quick,
            turn: match self.turn {
                None if self.quick => Duration::from_millis(200),
                _ => self.turn(),
            },
            engine: self.engine.clone(),
            loads: self.loads(&[1])?,
            setup: self.setup.map(|us| Duration::from_secs_f64(us * 1e-6)),
            clock_mhz: self.clock,
        })
    }

    /// The plan for `damjanovic-simic-2015`.
    pub(crate) fn damjanovic<'a>(&self, rivals: &'a [Box<dyn Rival>]) -> damjanovic::Plan<'a> {
        damjanovic::Plan {
            bytes: self.size,
            arrays: self.arrays.clone(),
            quick: self.quick,
            engine: self.kernel(),
            rivals,
        }
    }

    /// The plan for `an-seo-2022`.
    pub(crate) fn an_seo<'a>(&self, rivals: &'a [Box<dyn Rival>]) -> an_seo::Plan<'a> {
        an_seo::Plan {
            bytes: self.size,
            quick: self.quick,
            engine: self.kernel(),
            threads: self.all_threads(),
            rivals,
        }
    }

    /// The plan for `sanida-2020`.
    pub(crate) fn sanida<'a>(&self, rivals: &'a [Box<dyn Rival>]) -> sanida::Plan<'a> {
        sanida::Plan {
            bytes: self.size,
            quick: self.quick,
            engine: self.kernel(),
            rivals,
        }
    }

    /// The plan for `gpu`.
    pub(crate) fn gpu(&self) -> device::Plan {
        device::Plan {
            bytes: self.size,
            quick: self.quick,
            engine: self.kernel(),
            threads: self.all_threads(),
        }
    }

    /// None: all that are present.
    fn kernel(&self) -> Option<String> {
        (self.engine != "auto").then(|| self.engine.clone())
    }

    fn disk_bytes(&self) -> usize {
        let standard = if self.quick { 256 << 20 } else { 1 << 30 };
        self.size.unwrap_or(standard)
    }

    fn turn(&self) -> Duration {
        let standard = if self.quick { 200 } else { 2000 };
        Duration::from_millis(self.turn.unwrap_or(standard).into())
    }

    /// Those that are asked for; with `connections` when nothing is said about them.
    fn loads(&self, connections: &[usize]) -> Result<Vec<Load>, String> {
        let connections = match self.connections.as_slice() {
            [] => connections,
            said => said,
        };
        let look = |load: &Load| {
            let chosen = !self.requests.is_empty() || !self.connections.is_empty();
            !self.quick || chosen || (load.request_bytes, load.connections) == (64 << 10, 1)
        };
        let wanted = |load: &Load| {
            (self.accesses.is_empty() || self.accesses.contains(&load.access))
                && (self.requests.is_empty() || self.requests.contains(&load.request_bytes))
                && connections.contains(&load.connections)
        };
        let loads: Vec<Load> = Load::all()
            .into_iter()
            .filter(wanted)
            .filter(look)
            .collect();
        if loads.is_empty() {
            return Err(
                "there is no such load: --request is 4K, 64K or 1M and --connections 1 \
                 or 4"
                    .to_owned(),
            );
        }
        Ok(loads)
    }

    fn luxor(&self) -> Result<PathBuf, String> {
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        let beside = own.with_file_name("luxor");
        Ok(match &self.luxor {
            Some(luxor) => luxor.clone(),
            None if beside.is_file() => beside,
            None => "luxor".into(),
        })
    }
}

fn microseconds(text: &str) -> Result<f64, String> {
    let found = text.parse().ok();
    let found = found.filter(|us| (0.0..=1e6).contains(us));
    found.ok_or_else(|| "a number of microseconds, up to a second".to_owned())
}

fn megahertz(text: &str) -> Result<f64, String> {
    let found = text.parse().ok();
    let found = found.filter(|mhz| (1.0..=10_000.0).contains(mhz));
    found.ok_or_else(|| "a number of megahertz, from 1 to 10000".to_owned())
}

fn map<A: Copy, B>(list: &[A], to: impl Fn(A) -> B) -> Vec<B> {
    list.iter().copied().map(to).collect()
}
