// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the engines, loads a key into the best one, and reads how this machine's devices compare
//! with its CPU.

mod support;

use luxor::{
    Context, Engine,
    engine::{DataUnitLen, DataUnitNumber, Direction, KeySpec, Mode, Run, XtsKey},
    engines,
};

fn main() -> support::Result {
    for name in engines::registry().names() {
        println!("{name}");
    }
    let engine = Engine::select(&Context::default(), Mode::Xts)?;
    println!("the best one: {}", engine.backend.info().name);
    let key: Vec<u8> = (0..32).collect();
    let key = engine.load(&KeySpec::Xts(XtsKey::new(&key)?))?;
    let (mut data, unit) = ([7; 1024], DataUnitLen::new(512)?);
    let run = Run::new(DataUnitNumber::new(0), 1, unit, data.as_mut_slice())?;
    key.crypt(Direction::Encrypt, &mut [run])?;

    match engines::calibrated(&*engine.backend, engine.threads) {
        Ok(calibration) => println!("{}", calibration.json()),
        Err(why) => println!("{why}"),
    }
    Ok(())
}
