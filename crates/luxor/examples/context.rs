// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses the engine and the number of threads, and receives warnings and progress.

mod support;

use std::{fs, sync::Arc};

use luxor::{Context, EncryptOptions, Events, Progress, luks::LuksVersion};

struct Shown;

impl Events for Shown {
    fn warning(&self, text: &str) {
        println!("warning: {text}");
    }

    fn note(&self, text: &str) {
        println!("{text}");
    }

    fn bytes(&self, what: &'static str, name: String, total: Option<u64>) -> Box<dyn Progress> {
        println!("{what} {name}");
        Box::new(Bar(total))
    }
}

struct Bar(Option<u64>);

impl Progress for Bar {
    fn at(&self, done: u64) {
        println!("{done} of {:?} bytes", self.0);
    }
}

fn main() -> support::Result {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    fs::write(path("file"), vec![7; 3 << 20])?;
    let context = Context {
        engine: "portable".into(),
        threads: Some(2.try_into()?),
        events: Arc::new(Shown),
        ..Context::default()
    };
    let options = EncryptOptions::new().context(&context);
    let options = options.volume(support::new_volume(LuksVersion::Luks2));
    options.encrypt(path("file"), path("volume"), &support::secret())?;
    Ok(())
}
