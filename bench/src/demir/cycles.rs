// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clock cycles of requests on Luxor's core, from its simulation (cargo feature `fpga`). Requests
//! run one after the other. Each is measured from before its descriptor is written until its end is
//! seen, including the register accesses.

use serde::{Deserialize, Serialize};

use crate::coprocessor::Linear;

/// Cycles of requests, as functions of the number of 512-byte data units.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct Cycles {
    /// For the core as a co-processor without XTS.
    pub(super) ecb: Ways,
    pub(super) xts: Ways,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct Ways {
    pub(super) encrypt: Linear,
    pub(super) decrypt: Linear,
}

/// The reason why there is no simulation.
pub(crate) const MISSING: Option<&str> = if cfg!(feature = "fpga") {
    None
} else {
    Some(
        "the core's simulation is not in this build: it needs Verilator and the cargo feature \
         `fpga` of luxor-bench",
    )
};

#[cfg(not(feature = "fpga"))]
pub(super) fn measure() -> Result<Cycles, String> {
    Err(MISSING.unwrap_or_default().to_owned())
}

#[cfg(feature = "fpga")]
pub(super) use self::simulated::measure;

#[cfg(feature = "fpga")]
mod simulated {
    use luxor_engine::{DataUnitNumber, Direction, InOut, KeySpec, Mode, Registry, XtsKey};
    use luxor_engine_fpga::{
        Driver,
        driver::{Descriptor, SlotKey},
        model::{Design, Model},
    };

    use super::{Cycles, Linear, Ways};
    use crate::{cipher::crypt, coprocessor::UNIT, disk::KEY, plaintext::Pattern};

    /// Requests of each kind. All take the same time except those that first fill a place of the
    /// core's ring: their descriptors must be written in full.
    const REQUESTS: u32 = 64;

    /// Data units of an extended request.
    const UNITS: u32 = 8;

    /// Measures, and compares the core's bytes with the engine's.
    pub(in super::super) fn measure() -> Result<Cycles, String> {
        let ways = |ecb: bool| -> Result<Ways, String> {
            let way = |direction| -> Result<Linear, String> {
                let first = cycles(ecb, direction, 1)?;
                let extended = cycles(ecb, direction, UNITS)?;
                Ok(Linear {
                    first,
                    next: (extended - first) / f64::from(UNITS - 1),
                })
            };
            Ok(Ways {
                encrypt: way(Direction::Encrypt)?,
                decrypt: way(Direction::Decrypt)?,
            })
        };
        Ok(Cycles {
            ecb: ways(true)?,
            xts: ways(false)?,
        })
    }

    /// Returns the mean cycles of a request.
    fn cycles(ecb: bool, direction: Direction, units: u32) -> Result<f64, String> {
        let failed = |e: &dyn std::fmt::Display| format!("the simulated core: {e}");
        let key = XtsKey::new(&KEY[16..48]).map_err(|e| e.to_string())?;
        let len = UNIT * units as usize;
        let mut input = vec![0; len * REQUESTS as usize];
        Pattern::new().fill(&mut input);
        let expected = by_the_engine(&key, ecb, direction, &input)?;

        // For encryption, use the build for which a clock is recorded. There is none for
        // decryption.
        let design = match direction {
            Direction::Encrypt => Design::Shared,
            Direction::Decrypt => Design::Full,
        };
        let mut driver = Driver::new(Model::of(design)).map_err(|e| failed(&e))?;
        let slot_key = if ecb {
            SlotKey::ecb(key.data_key())
        } else {
            SlotKey::xts(&key)
        };
        let slot = driver.seat(&slot_key).map_err(|e| failed(&e))?;
        let slot = slot.ok_or("the simulated core has no free slot")?;
        let mut found = vec![0; input.len()];
        let mut begun = 0;
        let packets = input.chunks_exact(len).zip(found.chunks_exact_mut(len));
        for (request, (packet, answer)) in (0_u32..).zip(packets) {
            // Count from the second time around the ring, when words that stay the same are not
            // written.
            if request == REQUESTS / 2 {
                begun = driver.counters().map_err(|e| failed(&e))?.cycles;
            }
            let descriptor = Descriptor {
                first: DataUnitNumber::from(u64::from(request * units)),
                stride: 1,
                unit_len: u32::try_from(UNIT).map_err(|e| failed(&e))?,
                units,
                slot,
                direction,
                ecb,
            };
            driver.submit(&descriptor, packet).map_err(|e| failed(&e))?;
            let completion = driver.complete(answer).map_err(|e| failed(&e))?;
            completion.status.map_err(|e| failed(&e))?;
        }
        let ended = driver.counters().map_err(|e| failed(&e))?.cycles;
        if found != expected {
            return Err(failed(&"its bytes differ from the engine's"));
        }
        Ok((ended - begun) as f64 / f64::from(REQUESTS / 2))
    }

    fn by_the_engine(
        key: &XtsKey,
        ecb: bool,
        direction: Direction,
        input: &[u8],
    ) -> Result<Vec<u8>, String> {
        let spec = if ecb {
            KeySpec::Ecb(key.data_key().clone())
        } else {
            KeySpec::Xts(key.clone())
        };
        let backend = Registry::cpu().best(Mode::Xts).map_err(|e| e.to_string())?;
        let key = backend.load_key(&spec).map_err(|e| e.to_string())?;
        let mut output = vec![0; input.len()];
        let io = InOut::Separate {
            input,
            output: &mut output,
        };
        crypt(&*key, direction, 0_u64, UNIT, io)?;
        Ok(output)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// A block takes a cycle. The extra cycles of a request are fewer in ECB, which has no
        /// tweak.
        #[test]
        fn extended_requests_are_a_block_a_cycle_but_for_one_request() {
            let Cycles { ecb, xts } = measure().unwrap();
            for Linear { first, next } in [ecb.encrypt, ecb.decrypt, xts.encrypt, xts.decrypt] {
                let blocks = (UNIT / 16) as f64;
                assert!((next - blocks).abs() < 0.5, "{next} cycles per unit");
                assert!(first > blocks + 12.0 && first < 6.0 * blocks, "{first}");
            }
            assert!(ecb.encrypt.first < xts.encrypt.first);
        }
    }
}
