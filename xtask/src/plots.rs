// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plots in the documents, which are drawn from the committed records.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::process::{self, root};

const FOLDER: &str = "docs/plots";

/// The records, each with the plots of its page that are shown.
const SHOWN: [(&str, &[&str]); 2] = [
    (
        "bench/record/intel-xeon-6.167.1-2-cores/2026-11-21.json",
        &["cpu-1", "cpu-2"],
    ),
    (
        "bench/record/intel-xeon-6.167.1-2-cores/2026-11-22-block.json",
        &["block-1", "block-2"],
    ),
];

/// Draws the committed plots again, with the `luxor-bench` that is built.
///
/// # Errors
/// Fails when a plot cannot be drawn or stored.
pub fn draw() -> Result<String, String> {
    draw_in(&root().join(FOLDER))
}

/// Checks that the committed plots are the ones that the program would draw, which the tests have
/// built.
///
/// # Errors
/// Names the first plot that differs.
pub fn check() -> Result<String, String> {
    let fresh = root().join("target/plots/fresh");
    let drawn = draw_in(&fresh)?;
    let committed = root().join(FOLDER);
    let mut names = files(&fresh)?;
    names.extend(files(&committed)?);
    let differs = |name: &&PathBuf| {
        let [new, old] = [&fresh, &committed].map(|folder| fs::read(folder.join(name)).ok());
        new != old
    };
    match names.iter().find(differs) {
        None => Ok(drawn),
        Some(name) => Err(format!(
            "{FOLDER}/{} does not match its record: run `cargo xtask results`",
            name.display()
        )),
    }
}

/// Replaces the contents of the folder, once all plots are drawn.
fn draw_in(folder: &Path) -> Result<String, String> {
    let cannot = |path: &Path, e| format!("{}: {e}", path.display());
    let [all, shown_ones] = ["all", "shown"].map(|name| root().join("target/plots").join(name));
    for old in [&all, &shown_ones] {
        let _ = fs::remove_dir_all(old);
        fs::create_dir_all(old).map_err(|e| cannot(old, e))?;
    }
    for (record, shown) in SHOWN {
        let mut draw = process::command(process::beside_this_program("luxor-bench")?);
        process::run(draw.args(["--from", record, "--plots"]).arg(&all))?;
        for name in shown {
            let [from, to] =
                [&all, &shown_ones].map(|folder| folder.join(name).with_extension("svg"));
            fs::rename(&from, &to).map_err(|e| format!("{record}: {}", cannot(&from, e)))?;
        }
    }
    let names = files(&shown_ones)?;
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(|e| cannot(folder, e))?;
    for name in &names {
        fs::copy(shown_ones.join(name), folder.join(name)).map_err(|e| cannot(name, e))?;
    }
    Ok(format!("{} plots", names.len()))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let named = |e: std::io::Error| format!("{}: {e}", folder.display());
    let entries = fs::read_dir(folder).map_err(named)?;
    let names = entries.map(|entry| Ok(PathBuf::from(entry?.file_name())));
    names.collect::<Result<_, _>>().map_err(named)
}
