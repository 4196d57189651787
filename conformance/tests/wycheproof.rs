// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the answers of Project Wycheproof that apply, with every kernel of this CPU and with the
//! reference. Those of CBC are padded (PKCS #7), which the kernels leave to their callers, and the wrong
//! paddings of that file do not apply.

use luxor_engine::{
    AesKey, CbcKey, DataUnitLen, DataUnitNumber, Direction, KeySpec, Registry, Run, XtsKey,
};
use wycheproof::{
    TestResult,
    cipher::{TestName, TestSet},
};

struct Answer {
    number: u128,
    spec: KeySpec,
    plaintext: Vec<u8>,
    ciphertext: Vec<u8>,
}

/// Returns the answers of a file, and the number of those that do not apply.
fn answers(name: TestName, spec: impl Fn(&[u8]) -> Option<KeySpec>) -> (Vec<Answer>, usize) {
    let mut answers = Vec::new();
    let mut others = 0;
    let set = TestSet::load(name).unwrap();
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let spec = match test.result {
            TestResult::Valid => spec(&test.key),
            _ => None,
        };
        let Some(spec) = spec else {
            others += 1;
            continue;
        };
        let mut number = [0; 16];
        number[..test.nonce.len()].copy_from_slice(&test.nonce);
        let mut plaintext = test.pt.to_vec();
        let padding = test.ct.len() - plaintext.len();
        plaintext.resize(test.ct.len(), padding.try_into().unwrap());
        answers.push(Answer {
            number: u128::from_le_bytes(number),
            spec,
            plaintext,
            ciphertext: test.ct.to_vec(),
        });
    }
    (answers, others)
}

fn check(answers: &[Answer]) {
    let registry = Registry::cpu();
    for (name, backend) in registry.probe_all() {
        let Ok(backend) = backend else { continue };
        for answer in answers {
            let Answer {
                number,
                spec,
                plaintext,
                ciphertext,
            } = answer;
            let key = backend.load_key(spec).unwrap();
            let unit_len = DataUnitLen::beyond_the_standard(plaintext.len()).unwrap();
            let mut bytes = plaintext.clone();
            for (direction, expected) in [
                (Direction::Encrypt, ciphertext),
                (Direction::Decrypt, plaintext),
            ] {
                let buf = bytes.as_mut_slice();
                let run = Run::new(DataUnitNumber::new(*number), 1, unit_len, buf).unwrap();
                key.crypt(direction, &mut [run]).unwrap();
                assert_eq!(bytes, *expected, "{name}, {direction:?}, {number:#x}");
            }
        }
    }
}

#[test]
fn kernels_give_the_answers_for_xts() {
    let (answers, others) = answers(TestName::AesXts, |key| {
        // XTS with AES-192 is no standard.
        (key.len() != 48).then(|| KeySpec::Xts(XtsKey::new(key).unwrap()))
    });
    assert_eq!((answers.len(), others), (82, 41));
    check(&answers);
    for answer in &answers {
        let KeySpec::Xts(key) = &answer.spec else {
            unreachable!("the specification above")
        };
        let key = [key.data_key().expose(), key.tweak_key().expose()].concat();
        let found = luxor_reference::xts_encrypt(&key, answer.number, &answer.plaintext);
        assert_eq!(found, answer.ciphertext);
    }
}

#[test]
fn kernels_give_the_answers_for_cbc() {
    let (answers, others) = answers(TestName::AesCbcPkcs5, |key| {
        Some(KeySpec::Cbc(CbcKey::plain(AesKey::new(key).unwrap())))
    });
    assert_eq!((answers.len(), others), (72, 144));
    check(&answers);
}
