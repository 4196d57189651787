// SPDX-License-Identifier: MIT OR Apache-2.0
//! `luxor token`: objects that the metadata keep for other programs.

use std::{
    io::{Read, Write as _},
    path::Path,
};

use luxor::{
    LuksMetadata, LuksVolume,
    files::{Escaped, Input, Output, OutputOptions, Role},
    luks::{Luks2Header, keyring_token, token_with_keyslot},
};

use super::dump::list as listed;

use crate::{
    args::{TokenAddArgs, TokenArgs, TokenCommand, TokenListArgs, TokenRemoveArgs},
    console,
    context::Context,
    error::{Error, Result},
    volume::{open_metadata, open_to_change},
};

/// The most bytes of a token's file: no JSON area is longer.
const TOKEN_MAX: u64 = 4 << 20;

/// Runs one of the commands of `token`.
///
/// # Errors
/// Fails when the volume cannot be used, and for invalid tokens.
pub(crate) fn run(args: &TokenArgs, context: &Context) -> Result<()> {
    let open = |volume| open_to_change(volume, context);
    match &args.command {
        TokenCommand::List(args) => list(args, &open_metadata(&args.volume, context)?),
        TokenCommand::Add(args) => add(args, open(&args.volume)?, context),
        TokenCommand::Remove(args) => remove(args, open(&args.volume)?, context),
    }
}

fn list(args: &TokenListArgs, volume: &LuksMetadata) -> Result<()> {
    let header = luks2(volume)?;
    let tokens = header.describe().tokens;
    let json = |number: u32| {
        let missing = || Error::failure(format!("{}: there is no token {number}", volume.name()));
        header.token_json(number).ok_or_else(missing)
    };
    // A missing token is an error in both output formats.
    let one = args.token_id.map(json).transpose()?;
    // What other programs keep in tokens need not be UTF-8.
    let mut text = Vec::new();
    match (args.json, one) {
        (true, Some(one)) => text.extend([&*one, b"\n"].concat()),
        (true, None) => {
            let members = tokens.keys().map(|&number| {
                let name = format!("\"{number}\":");
                Ok([name.as_bytes(), &json(number)?].concat())
            });
            let members: Vec<_> = members.collect::<Result<_>>()?;
            text = [b"{", &*members.join(&b','), b"}\n"].concat();
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
        return console::print_with(|stdout| stdout.write_all(&text));
    };
    let mut output = Output::create(path, &OutputOptions::default())?;
    output.begin(0, None)?;
    output
        .write_all(&text)
        .map_err(|error| Error::io(format!("cannot write {}", output.name()), &error))?;
    output.finish()?;
    Ok(())
}

fn add(args: &TokenAddArgs, mut volume: LuksVolume, context: &Context) -> Result<()> {
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
            keyring_token(description.unwrap_or_default(), &keyslots).into_bytes()
        }
    };
    let number = volume.add_token(
        token,
        args.token_id,
        args.token_replace,
        args.force,
        &context.library,
    )?;
    context.console.note(format!("token {number} added"));
    Ok(())
}

fn remove(args: &TokenRemoveArgs, mut volume: LuksVolume, context: &Context) -> Result<()> {
    let number = args.token_id;
    volume.remove_token(number, args.force, &context.library)?;
    context.console.note(format!("token {number} removed"));
    Ok(())
}

fn luks2(volume: &LuksMetadata) -> Result<&Luks2Header> {
    volume.header.luks2().ok_or_else(|| {
        let name = volume.name();
        Error::failure(format!(
            "{name} is a LUKS1 volume, and only LUKS2 has tokens"
        ))
    })
}

/// Returns the token in a file, assigned to `keyslot` too if that is given.
fn imported(path: &Path, keyslot: Option<u32>) -> Result<Vec<u8>> {
    let mut input = Input::open(path, Role::Metadata)?;
    let name = input.name();
    let mut text = Vec::new();
    input
        .by_ref()
        .take(TOKEN_MAX + 1)
        .read_to_end(&mut text)
        .map_err(|error| Error::io(format!("cannot read {name}"), &error))?;
    if text.len() as u64 > TOKEN_MAX {
        let message = format!("{name} is longer than {TOKEN_MAX} bytes, the limit for a token");
        return Err(Error::failure(message));
    }
    match keyslot {
        Some(keyslot) => token_with_keyslot(&text, keyslot)
            .map_err(|error| Error::failure(format!("{name}: {error}"))),
        None => Ok(text),
    }
}
