// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies that their caller cancels.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use luxor::{Context, ErrorClass, Events, LuksMetadata, NewFiles, Progress, create_output};
use luxor_files::{Input, OutputOptions, Role};
use luxor_luks::{LuksVersion, NewVolumeOptions, PbkdfKind, PbkdfOptions, UnlockOptions};
use luxor_secret::SecretBytes;

/// Cancels the copy when the first bytes are done.
struct Impatient(Arc<AtomicBool>);

impl Events for Impatient {
    fn warning(&self, text: &str) {
        panic!("{text}");
    }

    fn note(&self, _: &str) {}

    fn bytes(&self, _: &'static str, _: String, _: Option<u64>) -> Box<dyn Progress> {
        Box::new(Impatient(Arc::clone(&self.0)))
    }
}

impl Progress for Impatient {
    fn at(&self, _: u64) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn a_cancelled_command_leaves_no_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    fs::write(path("plain"), vec![7; 64 << 20]).unwrap();
    let options = NewVolumeOptions {
        pbkdf: PbkdfOptions {
            kind: PbkdfKind::Pbkdf2,
            force_iterations: Some(1000),
            ..PbkdfOptions::default()
        },
        ..NewVolumeOptions::new(LuksVersion::Luks2)
    };
    let secret = SecretBytes::copy_of(b"correct horse");
    let encrypt = |context: &Context| {
        let files = NewFiles {
            volume: &path("volume"),
            header: None,
            force: false,
            needed: &[],
        };
        let mut input = Input::open(&path("plain"), Role::Data).unwrap();
        luxor::encrypt_files(&mut input, &files, &options, || Ok(secret.clone()), context)
    };
    let decrypt = |context: &Context| {
        let input = Input::open(&path("volume"), Role::Data)?;
        let volume = LuksMetadata::open_input(input, None, context)?;
        let output = create_output(&path("again"), &OutputOptions::default(), context)?;
        luxor::decrypt_to(volume, &secret, &UnlockOptions::default(), output, context)
    };
    let impatient = || {
        let cancel = Arc::<AtomicBool>::default();
        Context {
            events: Arc::new(Impatient(Arc::clone(&cancel))),
            cancel,
            ..Context::default()
        }
    };

    let error = encrypt(&impatient()).unwrap_err();
    assert!(error.to_string().contains("interrupted"), "{error}");
    assert_eq!(error.class(), ErrorClass::Cancelled);
    assert!(!path("volume").exists());
    encrypt(&Context::default()).unwrap();

    let error = decrypt(&impatient()).unwrap_err();
    assert!(error.to_string().contains("interrupted"), "{error}");
    assert_eq!(error.class(), ErrorClass::Cancelled);
    assert!(!path("again").exists());
    decrypt(&Context::default()).unwrap();
    assert!(fs::read(path("again")).unwrap() == vec![7; 64 << 20]);
}
