// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor token`: objects that the metadata keep for other programs.

use std::{fmt::Write as _, io::Read, io::Write as _, path::Path};

use luxor::Volume;
use luxor_files::{Escaped, Input, Output, OutputOptions, Role};
use luxor_luks::{Luks2Header, keyring_token};
use serde_json::Value;

use super::dump::list as listed;

use crate::{
    args::{TokenAddArgs, TokenArgs, TokenCommand, TokenListArgs, TokenRemoveArgs},
    console,
    context::Context,
    error::{Error, Result},
    volume::open_metadata,
};

/// The most bytes of a token's file: no JSON area is longer.
const TOKEN_MAX: u64 = 4 << 20;

/// Runs one of the commands of `token`.
///
/// # Errors
/// Fails when the volume cannot be used, and for invalid tokens.
pub(crate) fn run(args: &TokenArgs, context: &Context) -> Result<()> {
    let open = |volume, role| open_metadata(volume, role, context);
    match &args.command {
        TokenCommand::List(args) => list(args, &open(&args.volume, Role::Metadata)?),
        TokenCommand::Add(args) => add(args, open(&args.volume, Role::Change)?, context),
        TokenCommand::Remove(args) => remove(args, open(&args.volume, Role::Change)?, context),
    }
}

fn list(args: &TokenListArgs, volume: &Volume) -> Result<()> {
    let header = luks2(volume)?;
    let tokens = header.describe().tokens;
    let json = |number: u32| {
        let missing = || Error::failure(format!("{}: there is no token {number}", volume.name()));
        header.token_json(number).ok_or_else(missing)
    };
    // A missing token is an error in both output formats.
    let one = args.token_id.map(json).transpose()?;
    let mut text = String::new();
    match (args.json, one) {
        (true, Some(one)) => text = one + "\n",
        (true, None) => {
            let members = tokens.keys().map(|&number| {
                let token = json(number)?;
                Ok(format!("\"{number}\":{token}"))
            });
            let members: Vec<_> = members.collect::<Result<_>>()?;
            text = format!("{{{}}}\n", members.join(","));
        }
        (false, _) => {
            let wanted = tokens
                .iter()
                .filter(|(number, _)| args.token_id.is_none_or(|wanted| wanted == **number));
            for (number, token) in wanted {
                // Writing to a string cannot fail.
                let _ = writeln!(
                    text,
                    "token {number}: {}, keyslots {}",
                    Escaped(&token.kind),
                    listed(&token.keyslots)
                );
            }
        }
    }
    let Some(path) = &args.json_file else {
        return console::print(&text);
    };
    let mut output = Output::create(path, &OutputOptions::default())?;
    output.begin(0, None)?;
    output
        .write_all(text.as_bytes())
        .map_err(|error| Error::io(format!("cannot write {}", output.name()), &error))?;
    output.finish()?;
    Ok(())
}

fn add(args: &TokenAddArgs, mut volume: Volume, context: &Context) -> Result<()> {
    let description = luks2(&volume)?.describe();
    let keyslots: Vec<u32> = description.keyslots.keys().copied().collect();
    if let Some(number) = args.key_slot
        && !keyslots.contains(&number)
    {
        let name = volume.name();
        return Err(Error::failure(format!(
            "{name}: there is no keyslot {number}"
        )));
    }
    let token = match &args.json_file {
        Some(path) => imported(path, args.key_slot)?,
        None => {
            let keyslots = match args.key_slot {
                Some(number) => vec![number],
                None if args.unbound => Vec::new(),
                None => keyslots,
            };
            let description = args.key_description.as_deref();
            keyring_token(description.unwrap_or_default(), &keyslots)
        }
    };
    let number = volume.add_token(
        &token,
        args.token_id,
        args.token_replace,
        args.force,
        &context.library,
    )?;
    context.console.note(format!("token {number} added"));
    Ok(())
}

fn remove(args: &TokenRemoveArgs, mut volume: Volume, context: &Context) -> Result<()> {
    let number = args.token_id;
    volume.remove_token(number, args.force, &context.library)?;
    context.console.note(format!("token {number} removed"));
    Ok(())
}

fn luks2(volume: &Volume) -> Result<&Luks2Header> {
    volume.header.luks2().ok_or_else(|| {
        let name = volume.name();
        Error::failure(format!(
            "{name} is a LUKS1 volume, and only LUKS2 has tokens"
        ))
    })
}

/// Returns the token in a file, assigned to `keyslot` too if that is given.
fn imported(path: &Path, keyslot: Option<u32>) -> Result<String> {
    let mut input = Input::open(path, Role::Metadata)?;
    let name = input.name();
    let mut text = String::new();
    input
        .by_ref()
        .take(TOKEN_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|error| Error::io(format!("cannot read {name}"), &error))?;
    if text.len() as u64 > TOKEN_MAX {
        let message = format!("{name} is longer than {TOKEN_MAX} bytes, the limit for a token");
        return Err(Error::failure(message));
    }
    let Some(keyslot) = keyslot else {
        return Ok(text);
    };
    let mut token: Value = serde_json::from_str(&text)
        .map_err(|error| Error::failure(format!("{name}: the token is not valid JSON: {error}")))?;
    let Some(keyslots) = token.get_mut("keyslots").and_then(Value::as_array_mut) else {
        return Err(Error::failure(format!(
            "{name}: the token is not a JSON object with an array \"keyslots\""
        )));
    };
    let keyslot = Value::String(keyslot.to_string());
    if !keyslots.contains(&keyslot) {
        keyslots.push(keyslot);
    }
    Ok(token.to_string())
}
