// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor dump`.

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Write as _},
    fs,
    io::Write as _,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
};

use clap::{Args, ValueHint};
use luxor::{
    Engine, KeyScope, LuksMetadata,
    engine::Mode,
    files::{Escaped, Input, Output, OutputOptions, Role, is_same_file},
    luks::{
        Description, Digest, FileEnd, Foreign, Kdf, Keyslot, Luks1Description, Priority,
        ReencryptKeyslot, ReencryptionProgress, Segment, SegmentEntry, SegmentKind, SegmentRole,
        SegmentSize, Token, VolumeHeader,
    },
    secret::{SecretBytes, encode_hex},
    volume,
};
use luxor_confine::Access;
use serde::Serialize;

use crate::{
    args::{General, TypeArgs, UnlockArgs},
    commands::{Subcommand, Taken, inputs},
    confinement,
    confirm::confirm,
    console,
    context::Context,
    error::{Error, Result},
    secrets::SecretSource,
    volume::{Asking, open_metadata_of, unlock_options},
};

/// Show a volume's metadata
///
/// Needs no key, and shows no key unless --volume-key is given.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  luxor dump backup.luks
  luxor dump --json backup.luks | jq .keyslots
  luxor dump --volume-key --volume-key-file backup.key backup.luks")]
pub(crate) struct DumpArgs {
    /// The volume (or its detached header)
    #[arg(value_hint = ValueHint::FilePath)]
    pub volume: PathBuf,

    /// Print the JSON metadata, as `cryptsetup luksDump --dump-json-metadata` does
    ///
    /// LUKS1 has no JSON metadata: its header is printed in a similar form, with the version
    /// of that form as the number `schema`.
    #[arg(long)]
    pub json: bool,

    /// Show the volume key instead, which opens the data for ever without a passphrase
    #[arg(long, conflicts_with = "json")]
    pub volume_key: bool,

    /// Write the volume key to FILE, as plain bytes, instead of showing it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "volume_key")]
    pub volume_key_file: Option<PathBuf>,

    /// Do not ask for confirmation before the volume key is shown
    #[arg(long, alias = "force", requires = "volume_key")]
    pub batch_mode: bool,

    /// How to open the volume.
    #[command(flatten)]
    pub unlock: UnlockArgs,

    /// The format. Last, since its heading goes on.
    #[command(flatten)]
    pub format: TypeArgs,
}

impl Subcommand for DumpArgs {
    const NAME: &str = "dump";
    const TAKES: Taken = Taken::Options(&[
        General::Key,
        General::Passphrase,
        General::Header,
        General::Part,
        General::Policy,
        General::Engine,
        General::Confine,
        General::Talk,
    ]);

    /// Prints a volume's metadata.
    ///
    /// # Errors
    /// Fails when the volume cannot be read or has no valid metadata.
    fn run(&self, context: &Context) -> Result<()> {
        let mut needs = confinement::needs_of_reader(context);
        // For the length of the data.
        needs.add(&self.volume, Access::Read);
        let mut file = None;
        if let Some(path) = &self.volume_key_file {
            confinement::add_output(&mut needs, path);
            file = Some(key_file(path, self, context)?);
        }
        let needs = Some(&needs);
        let volume = open_metadata_of(&self.volume, &self.format, &self.unlock, needs, context)?;
        let (name, description) = (volume.name(), volume.describe());
        let Some(volume) = volume.into_luks() else {
            return other_format(&name, &description, self);
        };
        if self.volume_key {
            return volume_key(self, file, &volume, context);
        }
        if !self.json {
            return console::print(&text(&with_data(volume, self, context)));
        }
        match &*volume.header {
            VolumeHeader::Luks1(header) => console::print(&(header.metadata_json() + "\n")),
            // Exactly the bytes that cryptsetup prints.
            VolumeHeader::Luks2(header) => {
                console::print_with(|stdout| header.write_metadata_json(stdout))
            }
        }
    }

    fn output_is_stdout(&self) -> bool {
        self.volume_key
    }
}

/// Prints the description of a volume of a format without JSON metadata of its own.
fn other_format(name: &str, found: &volume::Description, args: &DumpArgs) -> Result<()> {
    if args.volume_key {
        let message = format!(
            "{name}: a {} volume has no keyslot with a key",
            found.format
        );
        return Err(Error::failure(message));
    }
    if args.json {
        let details = found.details.iter();
        let details = details.map(|(name, value)| (name.to_lowercase().replace(' ', "_"), value));
        let description = FormatDescription {
            schema: 1,
            format: found.format,
            details: details.collect(),
        };
        let json = serde_json::to_string_pretty(&description).expect("texts are JSON");
        return console::print(&(json + "\n"));
    }
    let mut text = Text::default();
    text.title(format_args!("{} volume {name}", found.format));
    for (name, value) in &found.details {
        text.line(name, Escaped(value));
    }
    console::print(&text.0)
}

/// The output of `--json` for a format without JSON metadata of its own.
/// `docs/examples/dump-plain.json` is an example.
#[derive(Debug, Serialize)]
struct FormatDescription<'a> {
    schema: u32,
    format: &'a str,
    details: BTreeMap<String, &'a String>,
}

/// Adds the data to a detached header if they can be opened. Only their length is used.
fn with_data(volume: LuksMetadata, args: &DumpArgs, context: &Context) -> LuksMetadata {
    let header = context.options.header.as_deref();
    let is_detached = header.is_some_and(|header| !is_same_file(header, &args.volume));
    // Opening a pipe would wait for its writer.
    let has_length = fs::metadata(&args.volume).is_ok_and(|metadata| {
        let kind = metadata.file_type();
        kind.is_file() || kind.is_block_device()
    });
    if is_detached
        && has_length
        && let Ok(data) = Input::open(context.place(&args.volume), Role::Metadata)
    {
        return volume.with_data(data);
    }
    volume
}

/// Describes the metadata for people.
fn text(volume: &LuksMetadata) -> String {
    let name = volume.name();
    // The data may be cut off, in another file, or of a kind that Luxor does not read.
    let scopes = volume.key_scopes().unwrap_or_default();
    match &*volume.header {
        VolumeHeader::Luks1(header) => luks1_text(&name, &header.describe(), scopes.get(&0)),
        VolumeHeader::Luks2(header) => {
            let progress = volume.reencryption_progress();
            luks2_text(&name, &header.describe(), &scopes, progress.as_ref())
        }
    }
}

/// Writes the volume key to standard output or to a file.
fn volume_key(
    args: &DumpArgs,
    mut file: Option<Output>,
    volume: &LuksMetadata,
    context: &Context,
) -> Result<()> {
    if volume.header.is_reencrypting() {
        return Err(Error::failure(format!(
            "{} may have several volume keys, because a re-encryption is under way",
            volume.name()
        )));
    }
    let engine = Engine::select(&context.library, Mode::Xts)?;
    let secrets = SecretSource::secret_only(context, &inputs("VOLUME", &args.volume, context))?;
    if !args.batch_mode {
        let warning = format!(
            "Anyone with the volume key of {} can read and write its data for ever, even after \
             all passphrases are changed.",
            volume.name()
        );
        confirm(&warning, "--batch-mode")?;
    }
    let header = Some(&*volume.header);
    let secrets = Asking::new(&secrets, &args.unlock, volume.path(), header);
    let (options, library) = (unlock_options(&args.unlock), &context.library);
    let (unlocked, _) = volume.test(&secrets, &*engine.backend, &options, library)?;
    let key = unlocked.volume_key.expose();

    let Some(output) = &mut file else {
        let mut text = SecretBytes::zeroed(2 * key.len() + 1);
        encode_hex(key, &mut text.expose_mut()[..2 * key.len()]);
        text.expose_mut()[2 * key.len()] = b'\n';
        return console::print_secret(text.expose());
    };
    output.begin(0, Some(key.len() as u64))?;
    output
        .write_all(key)
        .map_err(|error| Error::io(format!("cannot write {}", output.name()), &error))?;
    file.map_or(Ok(()), |output| Ok(output.finish()?))
}

fn key_file(path: &Path, args: &DumpArgs, context: &Context) -> Result<Output> {
    let options = OutputOptions {
        mode: 0o400,
        needed: &[
            ("the volume", Some(&args.volume)),
            ("the header", context.options.header.as_deref()),
            ("the key file", context.options.key_file.as_deref()),
        ],
        ..OutputOptions::default()
    };
    Ok(Output::create(path, &options)?)
}

/// Describes the metadata of LUKS1 for people.
fn luks1_text(name: &str, volume: &Luks1Description<'_>, scope: Option<&KeyScope>) -> String {
    let mut text = Text::default();
    text.title(format_args!("LUKS1 volume {name}"));
    text.line("UUID", Escaped(volume.uuid));
    text.line(
        "Keyslots",
        format_args!(
            "{} of 8 in use",
            volume.keyslots.len() + volume.damaged_keyslots.len()
        ),
    );

    text.title("Data");
    match volume.segment.crypt() {
        Some(segment) => text.segment(segment),
        None => {
            text.line("Encryption", Escaped(volume.encryption));
            text.line("Sector size", "512 bytes");
            text.line(
                "Begins at",
                format_args!("byte {}", volume.segment.offset()),
            );
            text.size(volume.segment.size());
        }
    }
    text.line(
        "Key",
        format_args!("{} bits", 8 * u64::from(volume.key_len)),
    );

    for (number, keyslot) in volume.keyslots {
        text.keyslot(*number, keyslot);
    }
    for (number, damage) in volume.damaged_keyslots {
        text.title(format_args!("Keyslot {number}, damaged"));
        text.line("Damage", damage);
    }
    text.title("Digest of the volume key");
    text.digest(volume.digest, scope);
    text.0
}

/// Describes the metadata of LUKS2 for people. `scopes` are those of the digests' keys.
fn luks2_text(
    name: &str,
    volume: &Description<'_>,
    scopes: &BTreeMap<u32, KeyScope>,
    progress: Option<&ReencryptionProgress>,
) -> String {
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

    for (&number, entry) in volume.segments {
        text.entry(number, entry);
    }
    match volume
        .tokens
        .values()
        .find_map(|token| token.file_end.as_ref())
    {
        Some(FileEnd::Trailer) => text.line("File length", "in a trailer after the data"),
        Some(FileEnd::Unsupported(end)) => {
            let what = Escaped(&end.what);
            text.line("File length", format_args!("not supported: {what}"));
        }
        Some(end) => text.line("File length", end),
        None => {}
    }

    for (number, keyslot) in volume.keyslots {
        text.keyslot(*number, keyslot);
        if volume.is_unbound(*number) {
            text.line("Encrypts", "no data (unbound)");
        }
    }
    if let Some((number, keyslot)) = volume.reencrypt {
        text.reencrypt(*number, keyslot);
        if let Some(progress) = progress {
            text.line("Done", progress);
        }
    }
    text.foreign("Keyslot", volume.foreign_keyslots);
    text.foreign("Digest", volume.foreign_digests);
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
        text.digest(digest, scopes.get(number));
    }
    for (number, token) in volume.tokens {
        text.token(*number, token);
    }
    text.0
}

/// Text made of titles, and of lines with a name and a value.
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
        self.line("Encryption", Escaped(&segment.encryption_name));
        self.line(
            "Sector size",
            format_args!("{} bytes", segment.geometry.sector_size),
        );
        self.line("Begins at", format_args!("byte {}", segment.offset));
        self.size(segment.size);
        if segment.geometry.iv_offset != 0 {
            self.line("First number", segment.geometry.iv_offset);
        }
    }

    fn size(&mut self, size: SegmentSize) {
        match size {
            SegmentSize::Dynamic => self.line("Length", "to the end of the file or device"),
            SegmentSize::Fixed(size) => self.line("Length", format_args!("{size} bytes")),
        }
    }

    /// Describes a segment of any type.
    fn entry(&mut self, number: u32, entry: &SegmentEntry) {
        let title = match entry.role {
            SegmentRole::Regular => "Data",
            SegmentRole::InReencryption => "Data, half re-encrypted",
            SegmentRole::BackupPrevious => "Data before the re-encryption",
            SegmentRole::BackupFinal => "Data after the re-encryption",
            SegmentRole::BackupMoved => "Data moved out of the way",
            _ => "Unknown backup segment, not data",
        };
        self.title(format_args!("{title} (segment {number})"));
        let what = match &entry.kind {
            SegmentKind::Crypt(segment) => return self.segment(segment),
            SegmentKind::Foreign { what, .. } => &what.what,
            _ => "none",
        };
        self.line("Encryption", Escaped(what));
        self.line("Begins at", format_args!("byte {}", entry.offset()));
        self.size(entry.size());
    }

    fn reencrypt(&mut self, number: u32, keyslot: &ReencryptKeyslot) {
        self.title(format_args!(
            "Keyslot {number}, the state of a re-encryption"
        ));
        self.line("Mode", keyslot.mode.name());
        self.line("Direction", keyslot.direction.name());
        self.line("Resilience", keyslot.resilience.name());
        if let Some((hash, unit)) = keyslot.resilience.checksum() {
            let unit = format_args!("{}, {unit} bytes each", Escaped(hash));
            self.line("Checksums", unit);
        }
        if let Some(shift) = keyslot.resilience.shift() {
            self.line("Data shift", format_args!("{shift} bytes"));
        }
        self.line(
            "Area",
            format_args!("{} bytes from byte {}", keyslot.size, keyslot.offset),
        );
    }

    /// Describes objects that this version does not use.
    fn foreign(&mut self, what: &str, objects: &BTreeMap<u32, Foreign>) {
        for (number, foreign) in objects {
            let (state, reason) = if foreign.breaks_rule {
                ("damaged", "Damage")
            } else {
                ("unknown to this version", "Unknown")
            };
            self.title(format_args!("{what} {number}, {state}"));
            self.line("Type", Escaped(&foreign.kind));
            self.line(reason, Escaped(&foreign.what));
        }
    }

    fn keyslot(&mut self, number: u32, keyslot: &Keyslot) {
        let priority = match keyslot.priority {
            Priority::Ignore => ", used only by number",
            Priority::Normal => "",
            Priority::Prefer => ", tried first",
        };
        self.title(format_args!("Keyslot {number}{priority}"));
        self.line(
            "Holds",
            format_args!("a key of {} bits", 8 * u64::from(keyslot.key_len)),
        );
        self.line("Key derivation", kdf_text(&keyslot.kdf));
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

    /// Describes a digest, and how much its key encrypts.
    fn digest(&mut self, digest: &Digest, scope: Option<&KeyScope>) {
        if let Some(scope) = scope {
            self.line("Key encrypts", scope);
        }
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

/// Describes a key derivation and its cost.
pub(crate) fn kdf_text(kdf: &Kdf) -> String {
    match kdf {
        Kdf::Pbkdf2 {
            hash, iterations, ..
        } => format!("pbkdf2, {}, {iterations} iterations", Escaped(hash)),
        Kdf::Argon2 {
            time,
            memory_kib,
            parallel,
            ..
        } => format!(
            "{}, {time} iterations, {memory_kib} KiB of memory, parallel {parallel}",
            kdf.kind()
        ),
    }
}

struct Hex<'a>(&'a [u8]);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Joins items with commas. An empty list becomes `none`.
pub(crate) fn list(items: &[impl Display]) -> String {
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
    fn foreign_text_cannot_move_the_cursor() {
        assert_eq!(list(&["a\tb", "c"]), r"a\tb, c");
        assert_eq!(list(&[0; 0]), "none");
    }
}
