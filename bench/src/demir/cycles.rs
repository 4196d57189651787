// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many clock cycles Luxor's core takes for requests, by its simulation (cargo feature
//! `fpga`): one after the other, each from before its descriptor is written to after its end
//! is seen, register accesses included.

use serde::{Deserialize, Serialize};

use crate::coprocessor::Linear;

/// Cycles of requests by their data units of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct Cycles {
    /// The core as a co-processor that has no XTS.
    pub(super) ecb: Ways,
    pub(super) xts: Ways,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct Ways {
    pub(super) encrypt: Linear,
    pub(super) decrypt: Linear,
}

/// Why there is no simulation.
pub(crate) const MISSING: Option<&str> = if cfg!(feature = "fpga") {
    None
} else {
    Some(
        "the core's simulation is not in this build: it takes Verilator and the cargo feature \
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

    /// Requests of each kind. All take the same time but the first, whose descriptor's words
    /// the core's ring does not have yet.
    const REQUESTS: u32 = 64;

    /// Of an extended request.
    const UNITS: u32 = 8;

    /// Measures, and compares what the core makes with what the engine makes.
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

    /// A request's cycles, the mean.
    fn cycles(ecb: bool, direction: Direction, units: u32) -> Result<f64, String> {
        let failed = |e: &dyn std::fmt::Display| format!("the simulated core: {e}");
        let key = XtsKey::new(&KEY[16..48]).map_err(|e| e.to_string())?;
        let len = UNIT * units as usize;
        let mut input = vec![0; len * REQUESTS as usize];
        Pattern::new().fill(&mut input);
        let expected = by_the_engine(&key, ecb, direction, &input)?;

        // For encryption the build whose clock is recorded; no other has one.
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
            // The second time around the ring: what stays is in it.
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
            return Err(failed(&"it makes other bytes than the engine"));
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

        /// A block a cycle, and what goes with a request, which is less in ECB: no tweak.
        #[test]
        fn extended_requests_are_a_block_a_cycle_but_for_one_request() {
            let Cycles { ecb, xts } = measure().unwrap();
            for Linear { first, next } in [ecb.encrypt, ecb.decrypt, xts.encrypt, xts.decrypt] {
                let blocks = (UNIT / 16) as f64;
                assert!((next - blocks).abs() < 0.5, "{next} cycles a unit");
                assert!(first > blocks + 12.0 && first < 6.0 * blocks, "{first}");
            }
            assert!(ecb.encrypt.first < xts.encrypt.first);
        }
    }
}
