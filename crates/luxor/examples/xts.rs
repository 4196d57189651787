// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `luxor::Xts` in place: `xts BYTES UNIT MILLISECONDS` prints the nanoseconds of one call,
//! the median over groups of calls. `bindings/python/benchmark.py` compares the Python module with it.

use std::{
    env,
    time::{Duration, Instant},
};

use luxor::{Context, Error, Xts, engine::Direction};

/// Calls are timed in groups of this many bytes, so that reading the clock adds nothing.
const GROUP: usize = 1 << 20;

fn main() -> Result<(), Error> {
    let args: Result<Vec<usize>, _> = env::args().skip(1).map(|arg| arg.parse()).collect();
    let Ok([len, unit, milliseconds]) = args.as_deref() else {
        return Err(Error::failure("usage: xts BYTES UNIT MILLISECONDS"));
    };
    let time = Duration::from_millis(*milliseconds as u64);
    let key: [u8; 64] = core::array::from_fn(|i| u8::try_from(i).expect("64 numbers"));
    let xts = Xts::new(&key, &Context::default())?;
    let mut data = vec![7; *len];
    let mut times = Vec::new();
    let calls = u32::try_from(GROUP / (*len).max(1)).map_or(1, |calls| calls.max(1));
    let begun = Instant::now();
    while begun.elapsed() < time {
        let group = Instant::now();
        for _ in 0..calls {
            xts.crypt(Direction::Encrypt, *unit, 0_u64.into(), 1, &mut data[..])?;
        }
        times.push(group.elapsed() / calls);
    }
    times.sort_unstable();
    println!("{}", times[times.len() / 2].as_nanos());
    Ok(())
}
