// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engines of a program, each with the result of its self-test.

use std::sync::Arc;

use luxor_engine::{Backend, Registry, Unavailable, self_test};
use serde::Serialize;

/// What is known of one engine. Its JSON is a part of that of `luxor engines --json`.
#[derive(Clone, Debug, Serialize)]
pub struct EngineReport {
    /// The name by which a [`Context`](crate::Context) asks for it.
    pub name: &'static str,
    /// Whether it is available.
    pub present: bool,
    /// A description of the device or the instructions, if the engine is available.
    pub device: Option<String>,
    /// The names of the modes that it supports.
    pub modes: Vec<&'static str>,
    /// The result of its self-test, if the engine is available.
    pub self_test: Option<SelfTest>,
    /// Why the engine is not available, or how its self-test failed.
    pub reason: Option<String>,
}

/// The result of a self-test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SelfTest {
    /// The engine gave the known answers.
    Passed,
    /// It did not.
    Failed,
}

impl SelfTest {
    /// The word in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
        }
    }
}

impl EngineReport {
    /// Probes and tests every engine of `registry`, best first.
    #[must_use]
    pub fn of_all(registry: &Registry) -> Vec<Self> {
        let report = |(name, backend): (_, Result<Arc<dyn Backend>, Unavailable>)| match backend {
            Ok(backend) => {
                let info = backend.info();
                let failure = self_test(&*backend).err();
                Self {
                    name,
                    present: true,
                    device: Some(info.device),
                    modes: info.modes.iter().map(|mode| mode.name()).collect(),
                    self_test: Some(if failure.is_some() {
                        SelfTest::Failed
                    } else {
                        SelfTest::Passed
                    }),
                    reason: failure.map(|failure| failure.to_string()),
                }
            }
            Err(reason) => Self {
                name,
                present: false,
                device: None,
                modes: Vec::new(),
                self_test: None,
                reason: Some(reason.to_string()),
            },
        };
        registry.probe_all().map(report).collect()
    }
}
