// SPDX-License-Identifier: MIT OR Apache-2.0
//! Backs up, restores and repairs a header, and names what a file is that is not a volume.

mod support;

use std::fs;

use luxor::{
    Contents, Context, HeaderRestore, back_up_header,
    files::{Input, Role},
    luks::{LuksVersion, Overwrite},
    repair_header,
};

fn main() -> support::Result {
    let (folder, path) = support::volume(LuksVersion::Luks2)?;
    let (context, backup) = (Context::default(), folder.path().join("backup"));
    let volume = Input::open(&path, Role::Metadata)?;
    let len = back_up_header(&volume, &backup, false, &[], &context)?;
    println!("{len} bytes of header");
    drop(volume);

    // One of the two copies is damaged.
    let mut bytes = fs::read(&path)?;
    bytes[5000] ^= 1;
    fs::write(&path, &bytes)?;
    print!("{}", repair_header(&path, Overwrite::Damaged, &context)?);

    // Both are lost.
    bytes[..1 << 20].fill(0);
    fs::write(&path, &bytes)?;
    println!("{}", luxor::open(&path).unwrap_err());
    println!("{}", Contents::recognise(&fs::File::open(&path)?)?);
    let file = Input::open(&backup, Role::Metadata)?;
    let plan = HeaderRestore::plan(&file, &path, true, &context)?;
    println!("{}", plan.warning());
    plan.write(&context)?;
    luxor::open(&path)?.unlock(&support::secret())?;
    Ok(())
}
