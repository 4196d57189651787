// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows texts from a volume's metadata in messages. The author of the volume chose them, so they
//! are quoted and shortened.

/// Returns a text from the metadata for a message: in quotes, without control characters, and with
/// at most 40 characters of the text.
pub fn brief(text: &str) -> String {
    // Messages put commands between backticks.
    let shown = |text: &str| format!("{text:?}").replace('`', r"\u{60}");
    match text.char_indices().nth(40) {
        Some((end, _)) => shown(&text[..end]) + "…",
        None => shown(text),
    }
}

/// Returns names from the metadata for a message.
pub fn brief_list(names: &[String]) -> String {
    names
        .iter()
        .map(|name| brief(name))
        .collect::<Vec<_>>()
        .join(", ")
}
