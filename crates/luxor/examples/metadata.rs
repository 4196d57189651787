// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the metadata of a volume, checks whether it is intact, and refuses weak headers.

mod support;

use luxor::{
    Context, LuksMetadata, VolumePolicy,
    luks::{Encryption, HeaderPolicy, LuksVersion, PbkdfKind},
};

fn main() -> support::Result {
    let (_folder, path) = support::volume(LuksVersion::Luks2)?;
    let context = Context::default();

    let volume = luxor::open(&path)?;
    println!("{:?}", volume.describe());
    for line in volume.check().good {
        println!("{line}");
    }
    assert!(volume.check().damage.is_empty());

    // What only LUKS has.
    let metadata = LuksMetadata::open_path(&path, &context)?;
    println!("UUID {}", metadata.header.uuid());
    println!("keyslots {:?}", metadata.header.keyslot_numbers());

    // The keyslot of this example is weaker than any policy permits.
    let policy = VolumePolicy {
        version: Some(LuksVersion::Luks2),
        header: HeaderPolicy {
            encryptions: vec![Encryption::AesXtsPlain64],
            pbkdfs: vec![PbkdfKind::Argon2id],
            ..HeaderPolicy::default()
        },
    };
    let strict = Context { policy, ..context };
    println!("{}", LuksMetadata::open_path(&path, &strict).unwrap_err());
    Ok(())
}
