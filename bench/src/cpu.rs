// SPDX-License-Identifier: MIT OR Apache-2.0
//! XTS over the kernels: in the L2 cache and over memory.

use std::time::{Duration, Instant};

use luxor_engine::{
    DataUnitLen, DataUnitNumber, Direction, KeySize, KeySpec, LoadedKey, Mode, Registry, Run,
    XtsKey,
};
use serde::Serialize;

use crate::limit::Limit;

/// In the L2 cache of every CPU that has one.
const IN_CACHE: usize = 64 << 10;
/// In no cache.
const IN_MEMORY: usize = 256 << 20;

#[derive(Serialize)]
pub(crate) struct Report {
    schema: u32,
    cpu: String,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    kernel: &'static str,
    key: &'static str,
    direction: &'static str,
    unit_bytes: usize,
    buffer_bytes: usize,
    /// 10⁹ bytes a second; the median.
    gb_per_s: f64,
    /// The median ratio to the limit of the AES instructions, if there are such.
    of_limit: Option<f64>,
}

pub(crate) fn measure(names: &[String], quick: bool) -> Result<Report, String> {
    let registry = Registry::cpu();
    let chosen: Vec<_> = if names.is_empty() {
        registry
            .probe_all()
            .filter_map(|(_, backend)| backend.ok())
            .collect()
    } else {
        names
            .iter()
            .map(|n| registry.get(n))
            .collect::<Result<_, _>>()
            .map_err(|e| e.to_string())?
    };
    let portable = registry.get("portable").map_err(|e| e.to_string())?;
    let mut rows = Vec::new();
    for backend in chosen {
        for size in KeySize::ALL {
            let spec = key_spec(size);
            let key = backend.load_key(&spec).map_err(|e| e.to_string())?;
            let model = portable.load_key(&spec).map_err(|e| e.to_string())?;
            for direction in Direction::ALL {
                for (buffer_bytes, units) in [
                    (IN_CACHE, &[512, 4096, 65536][..]),
                    (IN_MEMORY, &[512, 4096][..]),
                ] {
                    for &unit_bytes in units {
                        check(&*key, &*model, direction, unit_bytes)?;
                        let limit = Limit::of(backend.info().name);
                        let (gb_per_s, of_limit) = time(
                            &*key,
                            size,
                            direction,
                            unit_bytes,
                            buffer_bytes,
                            limit,
                            quick,
                        )?;
                        rows.push(Row {
                            kernel: backend.info().name,
                            key: match size {
                                KeySize::Aes128 => "AES-128",
                                KeySize::Aes256 => "AES-256",
                            },
                            direction: match direction {
                                Direction::Encrypt => "encrypt",
                                Direction::Decrypt => "decrypt",
                            },
                            unit_bytes,
                            buffer_bytes,
                            gb_per_s,
                            of_limit,
                        });
                    }
                }
            }
        }
    }
    Ok(Report {
        schema: 1,
        cpu: cpu_name(),
        rows,
    })
}

impl Report {
    pub(crate) fn print(&self) {
        println!(
            "{}, one thread, in place; {} in cache: {IN_CACHE} bytes",
            self.cpu,
            Mode::Xts
        );
        println!(
            "{:9} {:8} {:8} {:>7} {:>8} {:>8} {:>9}",
            "kernel", "key", "", "unit", "buffer", "GB/s", "of limit"
        );
        for row in &self.rows {
            let buffer = if row.buffer_bytes == IN_CACHE {
                "L2"
            } else {
                "256 MiB"
            };
            let of_limit = row
                .of_limit
                .map_or("-".into(), |ratio| format!("{ratio:.3}"));
            println!(
                "{:9} {:8} {:8} {:>7} {buffer:>8} {:>8.2} {of_limit:>9}",
                row.kernel, row.key, row.direction, row.unit_bytes, row.gb_per_s
            );
        }
    }
}

fn check(
    key: &dyn LoadedKey,
    model: &dyn LoadedKey,
    direction: Direction,
    unit_bytes: usize,
) -> Result<(), String> {
    let mut bytes: Vec<u8> = (0_u8..=255).cycle().take(IN_CACHE).collect();
    let mut expected = bytes.clone();
    crypt(key, direction, unit_bytes, &mut bytes)?;
    crypt(model, direction, unit_bytes, &mut expected)?;
    if bytes != expected {
        return Err(format!(
            "wrong answers with data units of {unit_bytes} bytes: not timed"
        ));
    }
    Ok(())
}

fn crypt(
    key: &dyn LoadedKey,
    direction: Direction,
    unit_bytes: usize,
    bytes: &mut [u8],
) -> Result<(), String> {
    let unit = DataUnitLen::new(unit_bytes).map_err(|e| e.to_string())?;
    let run = Run::new(DataUnitNumber::new(0), 1, unit, bytes).map_err(|e| e.to_string())?;
    key.crypt(direction, &mut [run]).map_err(|e| e.to_string())
}

/// The medians of GB/s and of the ratio to the limit, timed in alternation.
fn time(
    key: &dyn LoadedKey,
    size: KeySize,
    direction: Direction,
    unit_bytes: usize,
    buffer_bytes: usize,
    limit: Option<Limit>,
    quick: bool,
) -> Result<(f64, Option<f64>), String> {
    let mut buffer = vec![0x5a; buffer_bytes];
    let samples = if quick { 5 } else { 31 };
    let target = Duration::from_millis(if quick { 4 } else { 10 });

    // Warm up, and see how often the buffer fits the target time.
    let start = Instant::now();
    crypt(key, direction, unit_bytes, &mut buffer)?;
    crypt(key, direction, unit_bytes, &mut buffer)?;
    let once = start.elapsed() / 2;
    let calls = (target.as_nanos() / once.as_nanos().max(1)).clamp(1, 1 << 20) as u64;

    let (mut rates, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        let bytes = calls * buffer_bytes as u64;
        let best = limit
            .map(|limit| limit.time(bytes, size.rounds() as u64))
            .transpose()?;
        let start = Instant::now();
        for _ in 0..calls {
            crypt(key, direction, unit_bytes, &mut buffer)?;
        }
        let elapsed = start.elapsed();
        rates.push(bytes as f64 / elapsed.as_secs_f64() / 1e9);
        ratios.extend(best.map(|best| best.as_secs_f64() / elapsed.as_secs_f64()));
    }
    Ok((median(&mut rates).unwrap_or(0.0), median(&mut ratios)))
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn key_spec(size: KeySize) -> KeySpec {
    let bytes: Vec<u8> = (1_u8..).take(2 * size.bytes()).collect();
    KeySpec::Xts(XtsKey::new(&bytes).expect("different halves"))
}

fn cpu_name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or_else(|| "unknown CPU".into(), |(_, name)| name.trim().into())
}
