// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes the size of a volume, and its volume key in place.

mod support;

use luxor::{Context, ReencryptOptions, luks::LuksVersion, reencrypt, resize};

fn main() -> support::Result {
    let (_folder, path) = support::volume(LuksVersion::Luks2)?;
    let (context, secret) = (Context::default(), support::secret());
    let resized = resize(&path, None, Some(2 << 20), false, &context)?;
    println!("from {} to {} bytes", resized.before, resized.after);

    let options = ReencryptOptions {
        pbkdf: Some(support::cheap()),
        ..ReencryptOptions::default()
    };
    reencrypt(&path, None, &secret, &options, &context)?;
    let disk = luxor::open(&path)?.unlock(&secret)?.disk()?;
    assert_eq!(disk.len(), 2 << 20);
    Ok(())
}
