// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor key`: lists, adds, changes, removes, converts and tests keyslots.

use std::{error::Error as _, path::Path};

use luxor::{
    InPlace, KeyOptions, LuksVolume, Secrets,
    files::Escaped,
    luks::{Encryption, Luks2Header, Priority, UnlockError, VolumeKey},
};

use crate::{
    args::{
        KeyAddArgs, KeyArgs, KeyChangeArgs, KeyCommand, KeyConvertArgs, KeyListArgs, KeyRemoveArgs,
        KeyTestArgs, NewSecretArgs, PbkdfArgs, UnlockArgs,
    },
    commands::{dump::kdf_text, inputs},
    console,
    context::Context,
    error::{Error, ErrorClass, Result},
    keyring::TokenPassphrases,
    new_volume::volume_key,
    secrets::SecretSource,
    volume::{
        Asking, limited, open_metadata, open_metadata_of, open_to_change, test_keys, unlock_options,
    },
};

/// Runs one of the commands of `key`.
///
/// # Errors
/// Fails when the volume or a secret cannot be used, and when there is no room for the keyslot. The
/// volume is then unchanged.
pub(crate) fn run(args: &KeyArgs, context: &Context) -> Result<()> {
    match &args.command {
        KeyCommand::List(args) => list(args, context),
        KeyCommand::Add(args) => add(args, context),
        KeyCommand::Change(args) => change(args, context),
        KeyCommand::Remove(args) => remove(args, context),
        KeyCommand::Convert(args) => convert(args, context),
        KeyCommand::Test(args) => test(args, context),
    }
}

/// Prints the keyslots, one line each.
fn list(args: &KeyListArgs, context: &Context) -> Result<()> {
    let volume = open_metadata(&args.volume, context)?;
    let luks2 = volume.header.luks2().map(Luks2Header::describe);
    let mut rows = vec![["keyslot", "key derivation", "priority", "tokens"].map(String::from)];
    let of_data = volume.header.data_keyslots();
    let keys = volume
        .header
        .luks2()
        .and_then(Luks2Header::keyslots_of_keys);
    for (number, keyslot) in volume.header.keyslots() {
        let tokens = luks2.iter().flat_map(|header| header.tokens);
        let tokens = tokens.filter(|(_, token)| token.keyslots.contains(number));
        let tokens: Vec<_> = tokens
            .map(|(token, found)| format!("{token} ({})", Escaped(&found.kind)))
            .collect();
        let mut kdf = kdf_text(&keyslot.kdf);
        kdf += match &keys {
            _ if !of_data.contains(number) => ", unbound",
            Some((old, _)) if old.contains(number) => ", old key",
            Some((_, new)) if new.contains(number) => ", new key",
            _ => "",
        };
        rows.push([
            number.to_string(),
            kdf,
            priority_name(keyslot.priority).to_owned(),
            tokens.join(", "),
        ]);
    }
    for (number, keyslot) in luks2.iter().flat_map(|header| header.foreign_keyslots) {
        let kind = format!("{}, unknown to this version", Escaped(&keyslot.kind));
        rows.push([number.to_string(), kind, String::new(), String::new()]);
    }
    for (number, damage) in volume.header.damaged_keyslots() {
        let kind = format!("damaged: {damage}");
        rows.push([number.to_string(), kind, String::new(), String::new()]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths = [0, 1, 2].map(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for [number, kdf, priority, tokens] in &rows {
        let [a, b, c] = widths;
        let line = format!("{number:<a$}  {kdf:<b$}  {priority:<c$}  {tokens}");
        text += line.trim_end();
        text += "\n";
    }
    console::print(&text)
}

/// Returns the name in `config --priority`.
fn priority_name(priority: Priority) -> &'static str {
    match priority {
        Priority::Ignore => "ignore",
        Priority::Normal => "normal",
        Priority::Prefer => "prefer",
    }
}

fn add(args: &KeyAddArgs, context: &Context) -> Result<()> {
    let mut volume = open_to_change(&args.volume, context)?;
    let mut options = options(&volume, &args.unlock, &args.pbkdf)?;
    let wanted = args.new_key_slot;
    if let Some(number) = wanted {
        volume.check_new_keyslot(number)?;
    }
    let (existing, new) = both(&args.volume, &args.new, context)?;
    let new = || new.new_one(&args.volume);
    let number = if args.unbound {
        let key = unbound_key(args, context)?;
        volume.add_unbound_key(wanted, &key, new, &options, &context.library)?
    } else if args.token_only {
        let secrets = TokenPassphrases::of(&volume, args.token_id)?;
        options.unlock.keyslots.clone_from(&secrets.keyslots);
        volume.add_key(wanted, &secrets, new, &options, &context.library)?
    } else {
        let secrets = Asking::new(&existing, &args.unlock.limits);
        let secrets =
            secrets.beside_tokens(volume.path(), Some(&volume.header), args.unlock.key_slot);
        volume.add_key(wanted, &secrets, new, &options, &context.library)?
    };
    context.console.tell(format!("keyslot {number} added"));
    Ok(())
}

/// Returns the key for `--unbound`.
fn unbound_key(args: &KeyAddArgs, context: &Context) -> Result<VolumeKey> {
    if let Some(path) = &context.options.volume_key_file {
        return volume_key(path);
    }
    match args.key_size.unwrap_or(512) {
        bits @ (256 | 512) => VolumeKey::random(bits as usize / 8, Encryption::AesXtsPlain64)
            .map_err(|error| Error::failure(error.to_string())),
        bits => Err(Error::failure(format!(
            "--key-size is {bits} bits: it must be 256 or 512"
        ))),
    }
}

fn change(args: &KeyChangeArgs, context: &Context) -> Result<()> {
    let mut volume = open_to_change(&args.volume, context)?;
    let mut options = options(&volume, &args.unlock, &args.pbkdf)?;
    options.in_place = args.place.choice();
    let (existing, new) = both(&args.volume, &args.new, context)?;
    let secrets = Asking::new(&existing, &args.unlock.limits);
    let secrets = secrets.beside_tokens(volume.path(), Some(&volume.header), args.unlock.key_slot);
    let new = |old| {
        drop(old);
        new.new_one(&args.volume)
    };
    let number = volume.change_key(&secrets, new, &options, &context.library)?;
    context.console.tell(format!("keyslot {number} changed"));
    Ok(())
}

fn convert(args: &KeyConvertArgs, context: &Context) -> Result<()> {
    let mut volume = open_to_change(&args.volume, context)?;
    let mut options = options(&volume, &args.unlock, &args.pbkdf)?;
    options.in_place = args.place.choice();
    let existing = existing(&args.volume, context)?;
    let secrets = Asking::new(&existing, &args.unlock.limits);
    let secrets = secrets.beside_tokens(volume.path(), Some(&volume.header), args.unlock.key_slot);
    let number = volume.change_key(&secrets, Ok, &options, &context.library)?;
    context.console.tell(format!("keyslot {number} changed"));
    Ok(())
}

fn remove(args: &KeyRemoveArgs, context: &Context) -> Result<()> {
    let mut volume = open_to_change(&args.volume, context)?;
    if let Some(number) = args.key_slot {
        volume.check_removal(number, args.last)?;
    }
    let existing = match (args.force, args.if_given) {
        (true, _) => None,
        (false, true) => existing(&args.volume, context)?.if_given()?,
        (false, false) => Some(existing(&args.volume, context)?),
    };
    let secrets = existing.as_ref();
    let secrets = secrets.map(|secrets| Asking::new(secrets, &args.limits));
    let secrets = secrets.as_ref().map(|secrets| secrets as &dyn Secrets);
    let options = limited(Vec::new(), &args.limits);
    let library = &context.library;
    let number = match (args.key_slot, secrets) {
        (Some(number), _) => {
            let removed = volume.remove_keyslot(number, secrets, args.last, &options, library);
            removed.map_err(|error| {
                let source = error.source();
                // The message is about another keyslot, which the secret must open.
                let is_of_other = error.class() == ErrorClass::Failure
                    && source
                        .and_then(|source| source.downcast_ref::<UnlockError>())
                        .is_some();
                if is_of_other {
                    return error.hint(
                        "To remove it without a secret, add --force. If you cannot open another keyslot, the \
                         data are then lost.",
                    );
                }
                error
            })?;
            number
        }
        (None, Some(secrets)) => volume.remove_key(secrets, args.last, &options, library)?,
        (None, None) => unreachable!("the parser requires --key-slot with --force and --if-given"),
    };
    context.console.tell(format!("keyslot {number} removed"));
    Ok(())
}

fn test(args: &KeyTestArgs, context: &Context) -> Result<()> {
    let volume = open_metadata_of(&args.volume, &args.format, &args.unlock, context)?;
    let format = args.format.format()?;
    let inputs = inputs("VOLUME", &args.volume, context);
    let secrets = SecretSource::for_format(context, &*format, &inputs)?;
    if secrets.is_volume_key() {
        let message = format!("{}: a volume key belongs to no keyslot", volume.name());
        return Err(Error::failure(message));
    }
    let unlocked = test_keys(&volume, &secrets, &args.unlock, context)?;
    if context.console.is_quiet() {
        return Ok(());
    }
    console::print(&match unlocked.keyslots.first() {
        Some(opened) => format!("keyslot {} opens\n", opened.keyslot),
        None => "the key can be used; nothing shows whether it is the right one\n".to_owned(),
    })
}

/// Returns how to open the volume, and what a new keyslot costs. The default of `--pbkdf` depends
/// on the version of the volume.
fn options(volume: &LuksVolume, unlock: &UnlockArgs, pbkdf: &PbkdfArgs) -> Result<KeyOptions> {
    Ok(KeyOptions {
        unlock: unlock_options(unlock),
        pbkdf: Some(pbkdf.options(volume.header.version().default_pbkdf())?),
        in_place: InPlace::Never,
    })
}

fn existing(volume: &Path, context: &Context) -> Result<SecretSource> {
    SecretSource::new(context, &inputs("VOLUME", volume, context))
}

/// Returns the source of the secret that opens the volume, and the source of the new one.
fn both(
    volume: &Path,
    new: &NewSecretArgs,
    context: &Context,
) -> Result<(SecretSource, SecretSource)> {
    let inputs = inputs("VOLUME", volume, context);
    let (existing, new) = SecretSource::pair(context, new.secret(), &inputs)?;
    Ok((existing, new.read_ahead(volume)?))
}
