// SPDX-License-Identifier: MIT OR Apache-2.0
//! A test suite that every backend must pass.
//!
//! | to do this | use |
//! |---|---|
//! | generate the suite's tests for a backend | [`conformance_tests!`] |
//! | run a single axis | [`axes`] |
//! | read the known answers | [`vectors`] |
//! | make those that are not published | [`parallel_ofb::answers`] |
//! | make repeatable test data | [`Random`] |
//! | see whether an executor split data units | [`PartsCounted`] |
//!
//! Expected results come from `luxor-reference`, which shares no code with the engine, and from the
//! known answers in `vectors/`. A backend is always forced by its name, and a backend that reports
//! another name fails: a silent fallback would make every result worthless.
//!
//! Four environment variables matter:
//!
//! - `LUXOR_REQUIRE_ENGINES=portable,aesni,…` lists backends that must be available. The tests of
//!   any other backend that this machine lacks print that and pass.
//! - `LUXOR_TEST_LONG=1` runs the cases that take minutes.
//! - `LUXOR_TEST_FEW=1` runs few cases with the kernels that need special instructions: for an
//!   emulator, which would need hours for all.
//! - `LUXOR_TEST_SEED=…` sets another seed for the test data. The seed is printed.

#![deny(unsafe_code)]

use std::{env, sync::Arc};

use luxor_engine::{Backend, CPU_KERNELS, Registry, SelectError};

pub mod axes;
mod cases;
mod kit;
mod masks;
pub mod memcheck;
mod messages;
pub mod parallel_ofb;
mod parts;
mod random;
pub mod vectors;

pub use parts::PartsCounted;
pub use random::Random;

/// The names that the command line's `--engine` accepts, except `auto` and those of
/// [`CPU_KERNELS`].
const OTHER_ENGINES: [&str; 4] = ["portable", "opencl", "cuda", "fpga"];

/// The variable that lists the backends that must be available.
const REQUIRE: &str = "LUXOR_REQUIRE_ENGINES";

/// Generates the whole suite for one backend: a module `conformance` with one test for each axis.
///
/// ```
/// luxor_conformance::conformance_tests!("portable");
/// # fn main() {}
/// ```
///
/// For a backend of another crate, add an expression for its registry:
/// `conformance_tests!("opencl", my_registry())`. For a slow one, also add the number of cases, an
/// [`axes::Cases`]: `conformance_tests!("cuda", my_registry(), Cases::Few)`.
#[macro_export]
macro_rules! conformance_tests {
    ($name:expr) => {
        $crate::conformance_tests!($name, ::luxor_engine::Registry::cpu());
    };
    ($name:expr, $registry:expr) => {
        $crate::conformance_tests!($name, $registry, $crate::axes::Cases::All);
    };
    ($name:expr, $registry:expr, $cases:expr) => {
        $crate::conformance_tests!(@axes $name, $registry, $cases,
            identity known_answers keys lengths units numbers masks strides alignment calls
            long_units large_runs memory threads executor parts refusals messages);
    };
    (@axes $name:expr, $registry:expr, $cases:expr, $($axis:ident)*) => {
        mod conformance {
            #[allow(unused_imports)]
            use super::*;

            $(
                #[test]
                fn $axis() {
                    if let Some(backend) = $crate::forced(&$registry, $name) {
                        $crate::axes::$axis(&*backend, $cases);
                    }
                }
            )*
        }
    };
}

/// Returns the backend called `name`. If this machine lacks it and `LUXOR_REQUIRE_ENGINES` does not
/// list it, prints the reason and returns `None`.
///
/// # Panics
/// If the registry has no such name, if the backend reports another name, if `portable` is not the
/// bitsliced code, if the backend is missing although `LUXOR_REQUIRE_ENGINES` lists it, or if that
/// variable lists an unknown name.
#[must_use]
pub fn forced(registry: &Registry, name: &str) -> Option<Arc<dyn Backend>> {
    let required = env::var(REQUIRE).unwrap_or_default();
    forced_when(registry, name, &required)
}

fn forced_when(registry: &Registry, name: &str, required: &str) -> Option<Arc<dyn Backend>> {
    let required: Vec<&str> = required
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    for name in &required {
        let kernels = CPU_KERNELS.iter().map(|kernel| kernel.name);
        let mut known = kernels.chain(OTHER_ENGINES);
        assert!(
            known.any(|known| known == *name),
            "{REQUIRE} lists {name:?}, which is no engine"
        );
    }
    match registry.get(name) {
        Ok(backend) => {
            assert_is(&*backend, name);
            Some(backend)
        }
        Err(e @ SelectError::Absent { .. }) => {
            assert!(!required.contains(&name), "{REQUIRE} lists {name}, but {e}");
            println!("not tested here: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// Checks that no other backend was returned for `name`.
fn assert_is(backend: &dyn Backend, name: &str) {
    let info = backend.info();
    assert_eq!(info.name, name, "the forced backend has another name");
    let bitsliced = info.device.contains("bitsliced");
    assert_eq!(
        bitsliced,
        name == "portable",
        "{name} runs as {:?}",
        info.device
    );
}

#[cfg(test)]
mod tests {
    use std::panic;

    use luxor_engine::{BackendError, BackendInfo, Buffer, KeySpec, LoadedKey, Unavailable};

    use super::*;

    /// The portable backend under another name and description.
    struct Impostor {
        name: &'static str,
        device: &'static str,
    }

    impl Backend for Impostor {
        fn info(&self) -> BackendInfo {
            BackendInfo::new(self.name, self.device, &[])
        }

        fn load_key(&self, _: &KeySpec) -> Result<Box<dyn LoadedKey>, BackendError> {
            unreachable!("only `info` is called")
        }

        fn alloc(&self, len: usize) -> Buffer {
            Buffer::zeroed(len)
        }
    }

    fn registry(name: &'static str, device: &'static str) -> Registry {
        let mut registry = Registry::empty();
        registry.register("absent", || Err(Unavailable::Cpu { missing: "VAES" }));
        registry.register("portable", move || Ok(Arc::new(Impostor { name, device })));
        registry.register("aesni", move || Ok(Arc::new(Impostor { name, device })));
        registry
    }

    fn fails(registry: &Registry, name: &str, required: &str) -> bool {
        panic::catch_unwind(panic::AssertUnwindSafe(|| {
            forced_when(registry, name, required).is_some()
        }))
        .is_err()
    }

    #[test]
    fn an_absent_backend_passes_unless_it_is_required() {
        let mut registry = registry("portable", "bitsliced");
        registry.register("vaes512", || Err(Unavailable::Cpu { missing: "VAES" }));
        assert!(forced_when(&registry, "vaes512", "").is_none());
        assert!(forced_when(&registry, "vaes512", "portable, aesni").is_none());
        assert!(fails(&registry, "vaes512", "portable,vaes512"));
        assert!(
            fails(&registry, "vaes512", "vaes521"),
            "a misspelt name must fail"
        );
        assert!(fails(&registry, "unheard-of", ""));
    }

    #[test]
    fn a_silent_fallback_is_a_failure() {
        let honest = registry("portable", "CPU, bitsliced");
        assert!(forced_when(&honest, "portable", "portable").is_some());
        assert!(
            fails(&honest, "aesni", ""),
            "portable under the name aesni must fail"
        );
        assert!(fails(
            &registry("portable", "CPU, AES instructions"),
            "portable",
            ""
        ));
        assert!(fails(&registry("aesni", "CPU, bitsliced"), "aesni", ""));
    }
}
