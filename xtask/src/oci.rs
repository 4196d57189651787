// SPDX-License-Identifier: MIT OR Apache-2.0
//! An image of the static program for container engines: an archive in the layout of the OCI image
//! specification. <https://github.com/opencontainers/image-spec>

use std::{fs, path::Path};

use crate::{
    archive,
    process::{self, command},
};

const LAYOUT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;

/// The program runs as a user that is not root and that the host does not have.
const CONFIG: &str = r#"{"created":"@date@","architecture":"amd64","os":"linux","config":{
"User":"65532:65532","Entrypoint":["/usr/bin/luxor"],"WorkingDir":"/data","Labels":{
"org.opencontainers.image.title":"luxor",
"org.opencontainers.image.description":"XTS-AES encryption of files, disk images and block devices",
"org.opencontainers.image.version":"@version@",
"org.opencontainers.image.licenses":"MIT OR Apache-2.0"}},
"rootfs":{"type":"layers","diff_ids":["sha256:@layer@"]}}"#;

const MANIFEST: &str = r#"{"schemaVersion":2,
"mediaType":"application/vnd.oci.image.manifest.v1+json",
"config":{"mediaType":"application/vnd.oci.image.config.v1+json",@config@},
"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",@layer@}]}"#;

/// Engines take the name of the image from the annotation.
const INDEX: &str = r#"{"schemaVersion":2,"manifests":[{
"mediaType":"application/vnd.oci.image.manifest.v1+json",@manifest@,
"annotations":{"org.opencontainers.image.ref.name":"luxor:@version@"}}]}"#;

/// Makes the image of the static programs in `programs`. `time` is that of the commit.
pub fn image(programs: &Path, folder: &Path, time: &str) -> Result<(), String> {
    let work = archive::empty("target/dist-image")?;
    let (root, image) = (work.join("root"), work.join("image"));
    let program = root.join("usr/bin/luxor");
    archive::copy(&programs.join("luxor"), &program)?;
    process::run(command("strip").arg(program))?;
    archive::copy_licenses(&root.join("usr/share/doc/luxor"))?;
    // Where volumes and keys are mounted.
    archive::make_folder(&root.join("data"))?;

    let layer = work.join("layer.tar");
    process::run(
        archive::tar(time, &root)
            .arg("-cf")
            .arg(&layer)
            .args(["data", "usr"]),
    )?;
    let unpacked = sha256(&layer)?;
    process::run(command("gzip").arg("-9n").arg(&layer))?;
    let layer = blob(&image, &work.join("layer.tar.gz"))?;

    let date = format!("--date=@{time}");
    let date = process::output(command("date").args(["--utc", &date, "+%Y-%m-%dT%H:%M:%SZ"]))?;
    let config = CONFIG
        .replace("@date@", date.trim())
        .replace("@version@", archive::VERSION)
        .replace("@layer@", &unpacked);
    let config = text_blob(&image, &config)?;
    let manifest = MANIFEST
        .replace("@config@", &config)
        .replace("@layer@", &layer);
    let manifest = text_blob(&image, &manifest)?;
    let index = INDEX
        .replace("@manifest@", &manifest)
        .replace("@version@", archive::VERSION);
    archive::write(&image.join("index.json"), index)?;
    archive::write(&image.join("oci-layout"), LAYOUT)?;

    let archive = folder.join(format!("luxor-{}-oci.tar", archive::VERSION));
    let names = ["oci-layout", "index.json", "blobs"];
    process::run(
        archive::tar(time, &image)
            .arg("-cf")
            .arg(archive)
            .args(names),
    )?;
    Ok(())
}

fn text_blob(image: &Path, text: &str) -> Result<String, String> {
    let file = image.with_file_name("blob");
    archive::write(&file, text)?;
    blob(image, &file)
}

/// Moves a file into the image. Returns its digest and size, as part of a description in JSON.
fn blob(image: &Path, file: &Path) -> Result<String, String> {
    let digest = sha256(file)?;
    let size = fs::metadata(file)
        .map_err(|e| format!("{}: {e}", file.display()))?
        .len();
    archive::copy(file, &image.join("blobs/sha256").join(&digest))?;
    Ok(format!(r#""digest":"sha256:{digest}","size":{size}"#))
}

fn sha256(file: &Path) -> Result<String, String> {
    let sum = process::output(command("sha256sum").arg(file))?;
    let digest = sum.split_whitespace().next();
    Ok(digest.ok_or("sha256sum prints nothing")?.to_owned())
}
