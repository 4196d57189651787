// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the reference with all published answers, AES-192 included, and the answers made by the
//! reference with the file that contains them.

use std::{fs, path::Path};

use luxor_conformance::{
    parallel_ofb,
    vectors::{self, FILES},
};
use luxor_engine::Mode;
use luxor_reference as reference;

#[test]
fn the_reference_gives_the_published_answers() {
    for file in FILES {
        let answers = file.read().unwrap();
        for answer in &answers {
            let (key, number) = (&answer.key[..], answer.number);
            let (plaintext, ciphertext) = (&answer.plaintext[..], &answer.ciphertext[..]);
            let (encrypted, decrypted) = match file.mode {
                Mode::Xts => (
                    reference::xts_encrypt(key, number, plaintext),
                    reference::xts_decrypt(key, number, ciphertext),
                ),
                Mode::Ecb => (
                    reference::ecb_encrypt(key, plaintext),
                    reference::ecb_decrypt(key, ciphertext),
                ),
                Mode::Ctr => (
                    reference::ctr(key, number, plaintext),
                    reference::ctr(key, number, ciphertext),
                ),
                Mode::Cbc => (
                    reference::cbc_encrypt(key, number, plaintext),
                    reference::cbc_decrypt(key, number, ciphertext),
                ),
                Mode::Ofb => (
                    reference::ofb(key, number, plaintext),
                    reference::ofb(key, number, ciphertext),
                ),
                mode => {
                    let Some(form) = answer.form else {
                        panic!("no answers are known for {mode}")
                    };
                    (
                        form.reference(mode, key, number, plaintext),
                        form.reference(mode, key, number, ciphertext),
                    )
                }
            };
            assert!(
                encrypted == ciphertext,
                "{}, line {}: encryption",
                file.path,
                answer.line
            );
            assert!(
                decrypted == plaintext,
                "{}, line {}: decryption",
                file.path,
                answer.line
            );
        }
        println!(
            "{}: ran {}, skipped {} (part bytes)",
            file.path,
            answers.len(),
            file.part_bytes
        );
        assert_eq!(answers.len(), file.run + file.aes192);
    }
}

#[test]
fn the_answers_of_parallel_ofb_are_those_of_the_reference() {
    let path = "../vectors/parallel-ofb/damjanovic-simic-2015.txt";
    let file = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    assert!(
        file == parallel_ofb::answers(),
        "{path} differs from what the example parallel_ofb_answers prints"
    );
}

#[test]
fn the_reference_expands_keys_as_fips_197_does() {
    let records = vectors::read("aes/fips197-key-expansion.txt").unwrap();
    assert_eq!(records.len(), 3);
    for (record, key_len) in records.iter().zip([16, 24, 32]) {
        let key = record.bytes("KEY").unwrap();
        assert_eq!(key.len(), key_len);
        let schedule = reference::Aes::new(&key).schedule().concat();
        assert_eq!(schedule, record.bytes("SCHEDULE").unwrap());
    }
}
