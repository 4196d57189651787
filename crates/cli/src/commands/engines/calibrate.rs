// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor engines --calibrate`.

use std::fmt::Write;

use luxor::{
    Calibration,
    engines::{calibrate, calibration},
    files::path_name,
};

use super::EnginesArgs;
use crate::{console, context::Context, error::Result};

/// Makes a calibration, stores it and prints it.
///
/// # Errors
/// Fails when there is no folder to store it in, and when a device computes wrong results.
pub(crate) fn run(args: &EnginesArgs, context: &Context) -> Result<()> {
    let path = calibration::path()?;
    let calibration = calibrate(&context.library)?;
    calibration.write(&path)?;
    context
        .console
        .note(format!("kept in {}", path_name(&path)));
    console::print(&if args.json {
        calibration.json()
    } else {
        text(&calibration)
    })
}

fn text(calibration: &Calibration) -> String {
    let mut text = String::new();
    let calibration::Cpu {
        model,
        engine,
        threads,
    } = &calibration.cpu;
    let _ = writeln!(text, "{engine}: {model}, {threads} threads");
    for device in &calibration.devices {
        let _ = writeln!(text, "{}: {}", device.engine, device.device);
        if !device.calls.is_empty() {
            let _ = writeln!(
                text,
                "\n  calls of   {engine:>9}   {:>9}   GB/s, transfers included",
                device.engine
            );
        }
        for call in &device.calls {
            let _ = writeln!(
                text,
                "{:>7} KiB   {}   {}",
                call.bytes >> 10,
                gigabytes(call.cpu),
                gigabytes(call.device)
            );
        }
        let _ = match (&device.reason, device.wins_from) {
            (Some(why), _) => writeln!(text, "  not used: {why}\n"),
            (None, None) => writeln!(text, "  never 10 % faster than the CPU\n"),
            (None, Some(from)) => {
                writeln!(text, "  at least 10 % faster from {} KiB on\n", from >> 10)
            }
        };
    }
    let _ = match calibration.winner() {
        Some((device, from)) => writeln!(
            text,
            "`--engine auto` uses {engine}, and {} for calls of at least {} KiB.",
            device.engine,
            from >> 10
        ),
        None if calibration.devices.is_empty() => {
            writeln!(text, "No device was found: `--engine auto` uses {engine}.")
        }
        None => writeln!(text, "`--engine auto` uses {engine}."),
    };
    text
}

fn gigabytes(rate: u64) -> String {
    let hundredths = rate / 10_000_000;
    format!("{:>6}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use luxor::engines::calibration::{Call, Cpu, Device};

    use super::*;

    #[test]
    fn the_table_says_what_auto_uses() {
        let cpu = Cpu {
            model: "Abacus 3".into(),
            engine: "portable".into(),
            threads: 2,
        };
        let device = Device {
            engine: "cuda".into(),
            device: "a GPU".into(),
            wins_from: Some(8 << 20),
            reason: None,
            calls: vec![Call {
                bytes: 8 << 20,
                cpu: 1_234_567_890,
                device: 56_789_000_000,
            }],
        };
        let none = text(&Calibration::new(cpu.clone(), Vec::new()));
        assert!(none.contains("portable: Abacus 3, 2 threads\n"), "{none}");
        assert!(none.contains("No device was found"), "{none}");
        let table = text(&Calibration::new(cpu.clone(), vec![device.clone()]));
        assert!(
            table.contains("   8192 KiB        1.23       56.78\n"),
            "{table}"
        );
        let faster = "  at least 10 % faster from 8192 KiB on\n";
        assert!(table.contains(faster), "{table}");
        let end = "`--engine auto` uses portable, and cuda for calls of at least 8192 KiB.\n";
        assert!(table.ends_with(end), "{table}");
        let given_up = Device {
            wins_from: None,
            reason: Some("too slow".into()),
            ..device
        };
        let table = text(&Calibration::new(cpu, vec![given_up]));
        assert!(table.contains("  not used: too slow\n"), "{table}");
        assert!(
            table.ends_with("`--engine auto` uses portable.\n"),
            "{table}"
        );
    }
}
