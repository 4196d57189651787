// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the page of `luxor report` as a user would, and checks it in a browser.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    cpu,
    process::{self, command, find, root},
    steps::Steps,
};

/// The window widths for a telephone and a desk, in pixels.
const WIDTHS: [(&str, u32); 2] = [("telephone", 390), ("desk", 1280)];

/// The folder for the pages and their pictures, for inspection by hand.
const FOLDER: &str = "target/page";

const PROFILE: &str = "target/page/profile";

/// The page that checks another page.
const CHECK: &str = include_str!("page.html");

/// The names under which the browser may be installed.
const BROWSERS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// The name of the step that makes the page.
pub const MAKE: &str = "report: quick";

/// Builds the programs that make the page, makes it, and checks it.
pub fn steps(steps: &mut Steps) {
    let built = steps.run("build", || {
        process::run(process::cargo_workspace("build").args(["--bin=luxor", "--bin=luxor-bench"]))
    });
    if built && steps.run(MAKE, make) {
        look_at_it(steps);
    }
}

/// Makes the page with the programs that are built. In a whole run the tests have built them.
pub fn make() -> Result<String, String> {
    let folder = root().join(FOLDER);
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let page = folder.join("report.html");
    let luxor = process::beside_this_program("luxor")?;
    process::run(command(luxor).args(["report", "--quick"]).arg(&page))
}

/// The step that checks the page which was made.
pub fn look_at_it(steps: &mut Steps) {
    steps.run("report: in a browser", || {
        let page = root().join(FOLDER).join("report.html");
        let seen = look(&page)?;
        Ok(format!("{seen}, pictures in {FOLDER}"))
    });
}

/// Checks the page in every width, in light and in dark.
///
/// # Errors
/// Returns the list of what is wrong with it.
pub fn look(page: &Path) -> Result<String, String> {
    // The browser starts in another folder, so the path must be absolute.
    let page = &fs::canonicalize(page).map_err(|e| format!("{}: {e}", page.display()))?;
    let html = read(page)?;
    let mut faults = Vec::new();
    for (scheme, setting) in [("dark", 0), ("light", 1)] {
        let folder = root().join(FOLDER).join(scheme);
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let scheme_is = format!("--blink-settings=preferredColorScheme={setting}");
        let check = folder.join("check.html");
        for (plant, seen) in PLANTED {
            let (_, found) = checked(&html.replacen("</main>", plant, 1), &check, &scheme_is)?;
            if !found.iter().any(|fault| fault.contains(seen)) {
                return Err(format!(
                    "the check misses the planted fault {plant}, and found: {found:?}"
                ));
            }
        }
        let (heights, found) = checked(&html, &check, &scheme_is)?;
        faults.extend(found.into_iter().map(|fault| format!("{scheme}, {fault}")));
        // Open the page itself too: the console of a frame belongs to the page around it.
        let mut opened = browser()?;
        said(opened.args([&scheme_is, "--dump-dom"]), page)?;
        for ((name, width), height) in WIDTHS.into_iter().zip(heights) {
            let alone = folder.join(format!("{name}.html"));
            let style = "<style>body { margin: 0 } iframe { border: 0; display: block }</style>";
            write(
                &alone,
                &format!(
                    "<!DOCTYPE html>{style}{}",
                    frame(&html, name, width, height)
                ),
            )?;
            let png = alone.with_extension("png");
            let _ = fs::remove_file(&png);
            let picture = format!("--screenshot={}", png.display());
            // A window cannot be narrower than 500 pixels, and pictures have a maximum height.
            let size = format!("--window-size={},{}", width.max(500), height.min(16_000));
            let mut opened = browser()?;
            said(opened.args([&scheme_is, &size, &picture]), &alone)?;
            // A browser that may not write to the folder exits as if it had written the picture.
            if !png.is_file() {
                return Err(format!("the browser did not write {}", png.display()));
            }
        }
    }
    let _ = fs::remove_dir_all(root().join(PROFILE));
    if faults.is_empty() {
        Ok(format!("{} widths, light and dark", WIDTHS.len()))
    } else {
        Err(format!("{}:\n{}", page.display(), faults.join("\n")))
    }
}

/// Faults that the check must find, and the words with which it reports them.
const PLANTED: [(&str, &str); 3] = [
    (
        "<div style=\"width: 3000px\">wide</div></main>",
        "pixels wide",
    ),
    (
        "<p style=\"color: #888; background: #777\">grey</p></main>",
        "a contrast of",
    ),
    (
        "<svg viewBox=\"0 0 9 9\"><text y=\"99\">cut</text></svg></main>",
        "cut off",
    ),
];

/// Returns the height of the page in each width, and what is wrong with it.
fn checked(html: &str, check: &Path, scheme_is: &str) -> Result<(Vec<u32>, Vec<String>), String> {
    let frames = WIDTHS.map(|(name, width)| frame(html, name, width, 800));
    write(check, &CHECK.replacen("FRAMES", &frames.concat(), 1))?;
    let mut opened = browser()?;
    opened.args([scheme_is, "--window-size=1400,900", "--dump-dom"]);
    faults_of(&said(&mut opened, check)?)
}

/// Returns a frame that contains the page.
fn frame(html: &str, name: &str, width: u32, height: u32) -> String {
    let html = html.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<iframe data-name=\"{name}\" width=\"{width}\" height=\"{height}\" srcdoc=\"{html}\">\
         </iframe>\n"
    )
}

/// Returns Chromium, without a window.
///
/// # Errors
/// Fails when no browser is installed.
pub fn browser() -> Result<Command, String> {
    let found = BROWSERS.iter().find_map(|name| find(name));
    let mut browser = command(found.ok_or("no browser is installed")?);
    browser.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        // Containers have little shared memory.
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--enable-logging=stderr",
        "--virtual-time-budget=20000",
    ]);
    // A separate profile: it contains nothing of the user's, and leaves nothing in the home folder.
    let profile = root().join(PROFILE);
    browser.arg(format!("--user-data-dir={}", profile.display()));
    Ok(browser)
}

/// Opens a page, and returns what the browser prints.
///
/// # Errors
/// Fails when the browser fails, and when the page writes to its console.
fn said(browser: &mut Command, page: &Path) -> Result<String, String> {
    let pipes = browser.arg(page).stdout(Stdio::piped());
    let output = cpu::output(pipes.stderr(Stdio::piped()));
    let output = output.map_err(|e| format!("{}: {e}", process::line(browser)))?;
    let logged = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let line = process::line(browser);
        return Err(format!("{line}: {}\n{logged}", output.status));
    }
    let console: Vec<_> = logged
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .collect();
    if console.is_empty() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!(
            "{} wrote to its console:\n{}",
            page.display(),
            console.join("\n")
        ))
    }
}

/// Returns the height of the page in each frame, and what is wrong.
///
/// # Errors
/// Fails when the check did not finish.
fn faults_of(dom: &str) -> Result<(Vec<u32>, Vec<String>), String> {
    let cannot = || "the check did not finish".to_owned();
    let (_, found) = dom
        .split_once("<pre id=\"faults\">seen ")
        .ok_or_else(cannot)?;
    let (found, _) = found.split_once("\nend</pre>").ok_or_else(cannot)?;
    let (first, faults) = found.split_once('\n').unwrap_or((found, ""));
    let heights = first.split(' ').skip(2);
    let heights: Vec<u32> = heights.filter_map(|height| height.parse().ok()).collect();
    if heights.len() != WIDTHS.len() {
        return Err(cannot());
    }
    let faults = faults.lines().filter(|line| !line.is_empty());
    Ok((heights, faults.map(str::to_owned).collect()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}
