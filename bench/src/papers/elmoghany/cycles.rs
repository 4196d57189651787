// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clock cycles from simulations of three builds of the core: run here with the cargo feature `fpga`,
//! or else committed.

/// Returns the committed cycles, which are those of the simulation.
#[cfg(not(feature = "fpga"))]
pub(super) fn measure() -> Result<Vec<super::Cycles>, String> {
    crate::committed::cycles("cores")
}

#[cfg(feature = "fpga")]
pub(super) use self::simulated::measure;

#[cfg(feature = "fpga")]
mod simulated {
    use luxor_engine::{DataUnitNumber, Direction, InOut, KeySpec, Mode, Registry, XtsKey};
    use luxor_engine_fpga::{
        Driver,
        driver::{CoreMode, Descriptor, SlotKey},
        model::{Design, Model},
    };

    use super::super::Cycles;
    use crate::{cipher::crypt, disk, plaintext::Pattern};

    const DESIGNS: [(&str, Design); 3] = [
        ("paper", Design::Paper),
        ("shared", Design::Shared),
        ("dedicated", Design::Full),
    ];

    /// Measures, and compares the cores' bytes with the engine's.
    pub(in super::super) fn measure() -> Result<Vec<Cycles>, String> {
        let of = |(name, design)| {
            let mut core = Core::new(design)?;
            let mut further = |len: usize| {
                // Skip the first units: their tweaks were encrypted while the core was otherwise
                // idle.
                let [few, many] = [64, 128];
                let (begin, end) = (core.run(len, few)?, core.run(len, many)?);
                Ok::<_, String>((end - begin) / f64::from(many - few))
            };
            Ok(Cycles {
                design: name,
                per_unit: further(512)?,
                per_long_unit: further(4096)?,
                request: core.run(512, 8)?,
                mebibyte: core.run(512, 2048)?,
            })
        };
        DESIGNS.into_iter().map(of).collect()
    }

    struct Core {
        driver: Driver<Model>,
        key: SlotKey,
    }

    fn failed(error: &dyn std::fmt::Display) -> String {
        format!("the simulated core: {error}")
    }

    impl Core {
        fn new(design: Design) -> Result<Self, String> {
            let key = SlotKey::xts(&disk::short_key());
            let driver = Driver::new(Model::with_design(design)).map_err(|e| failed(&e))?;
            Ok(Self { driver, key })
        }

        /// Returns the cycles of a request, from before its descriptor is written until its end is
        /// seen.
        fn run(&mut self, len: usize, units: u32) -> Result<f64, String> {
            let Self { driver, key } = self;
            let slot = driver.seat(key).map_err(|e| failed(&e))?;
            let descriptor = Descriptor {
                first: DataUnitNumber::new(7),
                stride: 1,
                unit_len: u32::try_from(len).map_err(|e| failed(&e))?,
                units,
                slot: slot.ok_or("the simulated core has no free slot")?,
                direction: Direction::Encrypt,
                mode: CoreMode::Xts,
            };
            let mut packet = vec![0; len * units as usize];
            Pattern::new().fill(&mut packet);
            let mut answer = vec![0; packet.len()];
            let before = driver.counters().map_err(|e| failed(&e))?;
            driver
                .submit(&descriptor, &packet)
                .map_err(|e| failed(&e))?;
            let completion = driver.complete(&mut answer).map_err(|e| failed(&e))?;
            let after = driver.counters().map_err(|e| failed(&e))?;
            completion.status.map_err(|e| failed(&e))?;
            by_the_engine(disk::short_key(), len, &mut packet)?;
            if answer != packet {
                return Err(failed(&"its bytes differ from the engine's"));
            }
            Ok((after.cycles - before.cycles) as f64)
        }
    }

    fn by_the_engine(key: XtsKey, len: usize, bytes: &mut [u8]) -> Result<(), String> {
        let engine = Registry::cpu().best(Mode::Xts).map_err(|e| e.to_string())?;
        let key = engine
            .load_key(&KeySpec::Xts(key))
            .map_err(|e| e.to_string())?;
        crypt(&*key, Direction::Encrypt, 7_u64, len, InOut::InPlace(bytes))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_committed_cycles_are_those_of_the_simulation() {
            let fresh = measure().unwrap();
            let committed: Vec<Cycles> = crate::committed::cycles("cores").unwrap();
            let text = serde_json::to_string(&fresh).unwrap();
            assert!(
                committed == fresh,
                "\"cores\" in cycles.json must be {text}"
            );
        }

        /// The designs differ in their tweaks: one waits for the data before it and delays the data
        /// after it, one takes a cycle among the data, and one takes none.
        #[test]
        fn a_unit_takes_as_many_cycles_as_its_design_says() {
            let [paper, shared, dedicated] = &measure().unwrap()[..] else {
                panic!("there are three designs");
            };
            assert!((75.0..80.0).contains(&paper.per_unit), "{paper:?}");
            assert!((299.0..304.0).contains(&paper.per_long_unit), "{paper:?}");
            assert!((32.99..33.01).contains(&shared.per_unit), "{shared:?}");
            assert!(
                (256.99..257.01).contains(&shared.per_long_unit),
                "{shared:?}"
            );
            assert!((32.0..32.1).contains(&dedicated.per_unit), "{dedicated:?}");
        }
    }
}
