// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes certificates for tests with `openssl`.

use std::{path::Path, process::Command};

/// Makes NAME.pem and NAME.key for an `authority`, its `server` on 127.0.0.1 and its `client`, and
/// for another authority, `stranger`, with its client `strange`.
pub fn make(folder: &Path) {
    let config = "\
        [req]\ndistinguished_name = name\n[name]\n\
        [authority]\nbasicConstraints = critical,CA:TRUE\n\
        [server]\nsubjectAltName = DNS:disk.test,IP:127.0.0.1\nextendedKeyUsage = serverAuth\n\
        [client]\nextendedKeyUsage = clientAuth\n";
    std::fs::write(folder.join("config"), config).expect("a file");
    certify(folder, "authority", "authority", None);
    certify(folder, "server", "server", Some("authority"));
    certify(folder, "client", "client", Some("authority"));
    certify(folder, "stranger", "authority", None);
    certify(folder, "strange", "client", Some("stranger"));
}

fn certify(folder: &Path, name: &str, extensions: &str, authority: Option<&str>) {
    let mut openssl = Command::new("openssl");
    openssl.current_dir(folder);
    openssl.args(["req", "-x509", "-config", "config"]);
    openssl.args("-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2".split(' '));
    openssl.args(["-extensions", extensions, "-subj", &format!("/CN={name}")]);
    openssl.args(["-keyout", &format!("{name}.key")]);
    openssl.args(["-out", &format!("{name}.pem")]);
    if let Some(authority) = authority {
        openssl.args(["-CA", &format!("{authority}.pem")]);
        openssl.args(["-CAkey", &format!("{authority}.key")]);
    }
    let output = openssl.output().expect("openssl is installed");
    assert!(output.status.success(), "{output:?}");
}
