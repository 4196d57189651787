// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of backends, best first, and why a backend is unavailable.

use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use core::fmt;

use crate::{
    backend::{Backend, BackendError},
    key::Mode,
};

type Probe = Box<dyn Fn() -> Result<Arc<dyn Backend>, Unavailable> + Send + Sync>;

/// The backends of a program, best first. [`Registry::cpu`] has those of this crate;
/// [`Registry::register`] adds others.
///
/// A backend is probed only when a caller asks for it, so a library that takes a second to load
/// costs nothing until it is needed.
///
/// ```
/// use luxor_engine::{Mode, Registry};
///
/// let registry = Registry::cpu();
/// let best = registry.best(Mode::Xts)?;
/// let portable = registry.get("portable")?;
/// for (name, backend) in registry.probe_all() {
///     match backend {
///         Ok(backend) => println!("{name}: {}", backend.info().device),
///         Err(why) => println!("{name}: absent, {why}"),
///     }
/// }
/// # Ok::<(), luxor_engine::SelectError>(())
/// ```
#[derive(Default)]
pub struct Registry {
    entries: Vec<(&'static str, Probe)>,
}

impl Registry {
    /// Makes an empty registry.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Adds a backend at the end, as the least preferred one. `probe` opens it, anew at each call
    /// of [`Registry::get`], [`Registry::best`] and [`Registry::probe_all`] that reaches it. The
    /// backend that `probe` returns must have the same `name`.
    ///
    /// # Panics
    /// If `name` is already registered. Every later probe panics if
    /// [`BackendInfo::name`](crate::BackendInfo::name) differs from `name`: forcing a backend must
    /// never select another one.
    pub fn register(
        &mut self,
        name: &'static str,
        probe: impl Fn() -> Result<Arc<dyn Backend>, Unavailable> + Send + Sync + 'static,
    ) {
        assert!(
            self.names().all(|known| known != name),
            "the engine {name} is registered twice"
        );
        let probe = move || {
            let backend = probe()?;
            let found = backend.info().name;
            assert!(
                found == name,
                "the engine registered as {name} calls itself {found}"
            );
            Ok(backend)
        };
        self.entries.push((name, Box::new(probe)));
    }

    /// The names of all backends, available or not, best first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().map(|(name, _)| *name)
    }

    /// Probes the backends as the iterator advances, and yields each, or the reason why it is
    /// unavailable.
    pub fn probe_all(
        &self,
    ) -> impl Iterator<Item = (&'static str, Result<Arc<dyn Backend>, Unavailable>)> {
        self.entries.iter().map(|(name, probe)| (*name, probe()))
    }

    /// The most preferred backend that is available and supports `mode`.
    ///
    /// # Errors
    /// [`SelectError::NoneFor`] if no available backend supports `mode`.
    pub fn best(&self, mode: Mode) -> Result<Arc<dyn Backend>, SelectError> {
        let mut reasons = Vec::new();
        for (name, backend) in self.probe_all() {
            match backend {
                Ok(backend) if backend.info().modes.contains(&mode) => return Ok(backend),
                Ok(_) => reasons.push(format!("{name} has other modes")),
                Err(why) => reasons.push(format!("{name} is not available: {why}")),
            }
        }
        let reasons = reasons.join("; ");
        Err(SelectError::NoneFor { mode, reasons })
    }

    /// The backend called `name`. It never returns another one in its place.
    ///
    /// # Errors
    /// [`SelectError::Unknown`] if no backend has this name, [`SelectError::Absent`] if it is not
    /// available on this machine.
    pub fn get(&self, name: &str) -> Result<Arc<dyn Backend>, SelectError> {
        let Some((name, probe)) = self.entries.iter().find(|(known, _)| *known == name) else {
            return Err(SelectError::Unknown {
                // As much as shows what was meant.
                name: name.chars().take(64).collect(),
                known: self.names().collect::<Vec<_>>().join(", "),
            });
        };
        probe().map_err(|reason| SelectError::Absent { name, reason })
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// Why a backend is unavailable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The CPU lacks an instruction set extension.
    #[error("this CPU has no {missing}")]
    Cpu {
        /// The missing extension.
        missing: &'static str,
    },
    /// The program was compiled for another CPU architecture.
    #[error("this program was compiled for another kind of CPU")]
    Architecture,
    /// The program was compiled without this backend.
    #[error("this program was built without it (cargo feature `{feature}`)")]
    Feature {
        /// The cargo feature that adds it.
        feature: &'static str,
    },
    /// A library or a device is missing. The text says which.
    #[error("{0}")]
    Device(String),
}

/// Why no backend was selected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// This program has no backend of that name.
    #[error("there is no engine called {name:?}; this program has {known}")]
    Unknown {
        /// The requested name.
        name: String,
        /// The names of this program's backends.
        known: String,
    },
    /// The backend exists but is unavailable on this machine.
    #[error("the engine {name} is not available: {reason}")]
    Absent {
        /// The requested name.
        name: &'static str,
        /// Why it is unavailable.
        reason: Unavailable,
    },
    /// No available backend supports the mode.
    #[error("no engine on this machine has {mode} ({reasons})")]
    NoneFor {
        /// The requested mode.
        mode: Mode,
        /// Why each backend was rejected, in words.
        reasons: String,
    },
    /// The selected backend refused a key.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn forcing_an_engine_names_the_problem() {
        let mut registry = Registry::cpu();
        registry.register("quantum", || Err(Unavailable::Device("no qubits".into())));
        let absent = registry.get("quantum").err().unwrap().to_string();
        assert_eq!(absent, "the engine quantum is not available: no qubits");
        let unknown = registry.get("vaes1024").err().unwrap().to_string();
        assert!(
            unknown.contains("vaes1024") && unknown.contains("portable"),
            "{unknown}"
        );
    }

    #[test]
    #[should_panic(expected = "the engine portable is registered twice")]
    fn a_name_is_registered_once() {
        Registry::cpu().register("portable", || Err(Unavailable::Architecture));
    }

    #[test]
    #[should_panic(expected = "the engine registered as fast calls itself portable")]
    fn a_backend_bears_the_name_it_is_registered_under() {
        let mut registry = Registry::empty();
        registry.register("fast", || Ok(crate::kernel::portable()));
        let _ = registry.get("fast");
    }

    #[test]
    fn the_best_is_the_first_present_one() {
        let mut registry = Registry::empty();
        registry.register("absent", || Err(Unavailable::Architecture));
        let none = registry.best(Mode::Xts).err().unwrap();
        assert!(matches!(none, SelectError::NoneFor { .. }));
        assert_eq!(
            none.to_string(),
            "no engine on this machine has xts (absent is not available: this program was \
             compiled for another kind of CPU)"
        );
        registry.register("portable", || {
            Registry::cpu().get("portable").map_err(|_| unreachable!())
        });
        registry.register("later", || unreachable!("a later backend is not probed"));
        assert_eq!(registry.best(Mode::Xts).unwrap().info().name, "portable");
    }
}
