// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor dump`.

use std::fmt::{self, Display, Write};

use luxor_luks::{
    Description, Digest, Kdf, Keyslot, Luks1Description, Priority, Segment, SegmentSize, Token,
    VolumeHeader,
};

use crate::{
    args::{DumpArgs, GlobalArgs},
    console::{self, Console},
    error::Result,
    input::{Input, Role},
    volume::Volume,
};

/// Shows a volume's metadata.
///
/// # Errors
/// When it cannot be read or holds no valid metadata.
pub fn run(args: &DumpArgs, global: &GlobalArgs, console: Console) -> Result<()> {
    let path = global.header.as_ref().unwrap_or(&args.volume);
    let volume = Volume::open(Input::open(path, Role::Metadata)?, console)?;
    let name = volume.name();
    console::print(&match (&volume.header, args.json) {
        (VolumeHeader::Luks1(header), true) => header.metadata_json() + "\n",
        (VolumeHeader::Luks1(header), false) => luks1_text(&name, &header.describe()),
        // To the byte as cryptsetup prints them.
        (VolumeHeader::Luks2(header), true) => header.metadata_json(),
        (VolumeHeader::Luks2(header), false) => text(&name, &header.describe()),
    })
}

/// LUKS1's metadata for people to read.
fn luks1_text(name: &str, volume: &Luks1Description<'_>) -> String {
    let mut text = Text::default();
    text.title(format_args!("LUKS1 volume {name}"));
    text.line("UUID", Escaped(volume.uuid));
    text.line(
        "Keyslots",
        format_args!("{} of 8 in use", volume.keyslots.len()),
    );

    text.title("Data");
    text.segment(volume.segment);
    text.line(
        "Key",
        format_args!("{} bits", 8 * u64::from(volume.key_len)),
    );

    for (number, keyslot) in volume.keyslots {
        text.keyslot(*number, keyslot);
    }
    text.title("Digest of the volume key");
    text.digest(volume.digest);
    text.0
}

/// LUKS2's metadata for people to read.
fn text(name: &str, volume: &Description<'_>) -> String {
    let mut text = Text::default();
    text.title(format_args!("LUKS{} volume {name}", volume.version));
    text.line("UUID", Escaped(volume.uuid));
    text.line("Label", Escaped(volume.label));
    if !volume.subsystem.is_empty() {
        text.line("Subsystem", Escaped(volume.subsystem));
    }
    text.line("Seqid", volume.seqid);
    text.line("Flags", list(&volume.config.flags));
    text.line("Requirements", list(&volume.config.requirements));
    text.line(
        "Metadata",
        format_args!("2 copies of {} bytes", volume.header_size),
    );
    text.line(
        "Keyslots area",
        format_args!("{} bytes", volume.config.keyslots_size),
    );

    let segment = volume.segment;
    text.title(format_args!("Data (segment {})", volume.segment_number));
    text.segment(segment);
    if let Some(length) = volume.tokens.values().find_map(|token| token.file_length) {
        text.line("File length", format_args!("{length} bytes"));
    }

    for (number, keyslot) in volume.keyslots {
        text.keyslot(*number, keyslot);
    }
    for (number, digest) in volume.digests {
        text.title(format_args!("Digest {number}"));
        text.line(
            "Confirms",
            format_args!(
                "keyslots {}, segments {}",
                list(&digest.keyslots),
                list(&digest.segments)
            ),
        );
        text.digest(digest);
    }
    for (number, token) in volume.tokens {
        text.token(*number, token);
    }
    text.0
}

/// Titles, and lines of names and values.
#[derive(Default)]
struct Text(String);

// Writing to a string cannot fail.
impl Text {
    fn title(&mut self, title: impl Display) {
        let gap = if self.0.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.0, "{gap}{title}");
    }

    fn line(&mut self, name: &str, value: impl Display) {
        let _ = writeln!(self.0, "  {name:<15} {value}");
    }

    fn segment(&mut self, segment: &Segment) {
        self.line("Encryption", segment.encryption.name());
        self.line(
            "Sector size",
            format_args!("{} bytes", segment.geometry.sector_size),
        );
        self.line("Begins at", format_args!("byte {}", segment.offset));
        match segment.size {
            SegmentSize::Dynamic => self.line("Length", "to the end of the file or device"),
            SegmentSize::Fixed(size) => self.line("Length", format_args!("{size} bytes")),
        }
        if segment.geometry.iv_offset != 0 {
            self.line("First number", segment.geometry.iv_offset);
        }
    }

    fn keyslot(&mut self, number: u32, keyslot: &Keyslot) {
        let priority = match keyslot.priority {
            Priority::Ignore => ", used only when asked for",
            Priority::Normal => "",
            Priority::Prefer => ", tried first",
        };
        self.title(format_args!("Keyslot {number}{priority}"));
        self.line(
            "Holds",
            format_args!("a key of {} bits", 8 * u64::from(keyslot.key_len)),
        );
        match &keyslot.kdf {
            Kdf::Pbkdf2 {
                hash, iterations, ..
            } => {
                self.line(
                    "Key derivation",
                    format_args!("pbkdf2, {}, {iterations} iterations", Escaped(hash)),
                );
            }
            Kdf::Argon2 {
                time,
                memory_kib,
                parallel,
                ..
            } => {
                self.line(
                    "Key derivation",
                    format_args!(
                        "{}, {time} iterations, {memory_kib} KiB of memory, parallel {parallel}",
                        keyslot.kdf.kind()
                    ),
                );
            }
        }
        let area = &keyslot.area;
        self.line(
            "Encryption",
            format_args!(
                "{}, {} bits",
                Escaped(&area.encryption),
                8 * u64::from(area.key_len)
            ),
        );
        self.line(
            "Area",
            format_args!("{} bytes from byte {}", area.size, area.offset),
        );
        self.line(
            "Anti-forensic",
            format_args!("{} stripes, {}", keyslot.stripes, Escaped(&keyslot.af_hash)),
        );
    }

    fn digest(&mut self, digest: &Digest) {
        self.line(
            "Made by",
            format_args!(
                "pbkdf2, {}, {} iterations",
                Escaped(&digest.hash),
                digest.iterations
            ),
        );
        self.line("Salt", Hex(&digest.salt));
        self.line("Value", Hex(&digest.value));
    }

    fn token(&mut self, number: u32, token: &Token) {
        self.title(format_args!("Token {number}"));
        self.line("Type", Escaped(&token.kind));
        self.line("Keyslots", list(&token.keyslots));
    }
}

/// Text that somebody else wrote: it may not play tricks on a terminal.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for c in self.0.chars() {
            if c.is_control() {
                write!(f, "{}", c.escape_default())?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

struct Hex<'a>(&'a [u8]);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn list(items: &[impl Display]) -> String {
    if items.is_empty() {
        return "none".into();
    }
    let items: Vec<_> = items
        .iter()
        .map(|item| Escaped(&item.to_string()).to_string())
        .collect();
    items.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_cannot_move_the_cursor() {
        assert_eq!(
            Escaped("\u{1b}[2J\u{9b}x\r\ny é").to_string(),
            r"\u{1b}[2J\u{9b}x\r\ny é"
        );
        assert_eq!(list(&["a\tb", "c"]), r"a\tb, c");
        assert_eq!(list(&[0; 0]), "none");
    }
}
