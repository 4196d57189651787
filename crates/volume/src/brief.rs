// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts from a volume's metadata in messages. Whoever wrote the volume chose them, so they
//! are quoted and cut short.

/// A text from the metadata in a message: in quotes, without control characters,
/// and not endless.
pub fn brief(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Names from the metadata in a message.
pub fn brief_list(names: &[String]) -> String {
    names
        .iter()
        .map(|name| brief(name))
        .collect::<Vec<_>>()
        .join(", ")
}
