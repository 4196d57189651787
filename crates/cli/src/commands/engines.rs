// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor engines`.

mod calibrate;

use std::fmt::Write;

use clap::Args;
use luxor::{
    Calibration,
    engine::{Mode, Registry},
    engines::{EngineReport, SelfTest, calibrated, registry},
};
use serde::Serialize;

use crate::{
    args::General,
    commands::{Subcommand, Taken},
    console,
    context::Context,
    error::{Error, Result},
};

/// List the implementations of AES, and the reasons why some are absent
///
/// Runs the self-test of each, and names the one that `--engine auto` uses.
#[derive(Args, Debug)]
pub(crate) struct EnginesArgs {
    /// Compare devices with the CPU, so that `--engine auto` uses one where it is faster
    ///
    /// Encrypts memory with each for a second or two, copies to and from the device included,
    /// and stores the speeds in luxor/calibration.json in the user's cache folder. They are
    /// valid for this CPU, this number of threads and this version of Luxor. XTS calls then use
    /// a device from the length on at which it is at least 10 % faster.
    #[arg(long)]
    pub calibrate: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Subcommand for EnginesArgs {
    const NAME: &str = "engines";
    const TAKES: Taken = Taken::Options(&[General::Threads, General::Talk]);

    /// Lists every engine with the result of its self-test, or makes a calibration.
    ///
    /// # Errors
    /// Fails when an available engine does not pass its self-test, and with the errors of a
    /// calibration.
    fn run(&self, context: &Context) -> Result<()> {
        if self.calibrate {
            return calibrate::run(self, context);
        }
        let registry = registry();
        let mut report = Report::from_registry(&registry);
        let threads = context.library.thread_count();
        match calibrated(&*registry.best(Mode::Xts)?, threads) {
            Ok(calibration) => report.auto_device = AutoDevice::from_calibration(&calibration),
            Err(why) => {
                let text = format!("{why}: run `luxor engines --calibrate`");
                context.console.note(text);
            }
        }
        console::print(&if self.json {
            report.json()
        } else {
            report.text()
        })?;
        match report
            .engines
            .iter()
            .find(|engine| matches!(engine.self_test, Some(SelfTest::Failed)))
        {
            Some(engine) => Err(Error::failure(format!(
                "the engine {} fails its self-test",
                engine.name
            ))),
            None => Ok(()),
        }
    }
}

/// The output of `--json`. `docs/examples/engines.json` is an example.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    /// The engine that `--engine auto` uses for XTS.
    auto: Option<&'static str>,
    /// The engine that `--engine auto` also uses for long calls, according to a calibration.
    auto_device: Option<AutoDevice>,
    engines: Vec<EngineReport>,
}

#[derive(Debug, Serialize)]
struct AutoDevice {
    name: String,
    /// The shortest call that goes to it, in bytes.
    from: usize,
}

impl AutoDevice {
    fn from_calibration(calibration: &Calibration) -> Option<Self> {
        let (device, from) = calibration.winner()?;
        let name = device.engine.clone();
        Some(Self { name, from })
    }
}

impl Report {
    fn from_registry(registry: &Registry) -> Self {
        Self {
            schema: 1,
            auto: registry
                .best(Mode::Xts)
                .ok()
                .map(|backend| backend.info().name),
            auto_device: None,
            engines: EngineReport::of_all(registry),
        }
    }

    fn json(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("texts, numbers and lists are JSON");
        json + "\n"
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for engine in &self.engines {
            let mark = if self.auto == Some(engine.name) {
                '*'
            } else {
                ' '
            };
            let name = engine.name;
            let _ = match (&engine.device, engine.self_test) {
                (Some(device), Some(SelfTest::Passed)) => writeln!(
                    text,
                    "{mark} {name:<9} {device}\n            {}; self-test passed",
                    engine.modes.join(", ")
                ),
                (Some(device), _) => writeln!(
                    text,
                    "{mark} {name:<9} {device}\n            SELF-TEST FAILED: {}",
                    engine.reason.as_deref().unwrap_or_default()
                ),
                (None, _) => writeln!(
                    text,
                    "{mark} {name:<9} absent: {}",
                    engine.reason.as_deref().unwrap_or_default()
                ),
            };
        }
        text += "\n* marks the engine that `--engine auto` uses";
        if let Some(AutoDevice { name, from }) = &self.auto_device {
            let _ = write!(text, "; calls of at least {} KiB use {name}", from >> 10);
        }
        text + ".\n"
    }
}

#[cfg(test)]
mod tests {
    use luxor::engine::Unavailable;

    use super::*;

    #[test]
    fn an_absent_engine_says_why() {
        let mut registry = Registry::empty();
        registry.register("quantum", || Err(Unavailable::Device("no qubits".into())));
        registry.register("portable", || {
            Registry::cpu()
                .get("portable")
                .map_err(|_| Unavailable::Architecture)
        });
        let mut report = Report::from_registry(&registry);
        assert_eq!(report.auto, Some("portable"));
        let text = report.text();
        assert!(text.contains("  quantum   absent: no qubits\n"), "{text}");
        assert!(text.contains("* portable "), "{text}");
        assert!(
            text.ends_with("\n* marks the engine that `--engine auto` uses.\n"),
            "{text}"
        );
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(json["engines"][0]["reason"], "no qubits");
        assert_eq!(json["engines"][0]["present"], false);
        assert_eq!(json["engines"][1]["self_test"], "passed");
        assert_eq!(json["auto_device"], serde_json::Value::Null);

        report.auto_device = Some(AutoDevice {
            name: "quantum".into(),
            from: 1 << 20,
        });
        let text = report.text();
        assert!(
            text.ends_with(" uses; calls of at least 1024 KiB use quantum.\n"),
            "{text}"
        );
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(json["auto_device"]["from"], 1 << 20);
    }
}
