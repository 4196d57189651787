// SPDX-License-Identifier: MIT OR Apache-2.0
//! Published answers for the derivation of keys: those of Project Wycheproof for PBKDF2, which include
//! those of RFC 6070 and RFC 7914, and those of RFC 9106 for Argon2.

use argon2::{Algorithm, Argon2, AssociatedData, ParamsBuilder, Version};
use luxor_volume::{HashAlgorithm, Kdf};
use wycheproof::{
    TestResult,
    pbkdf2::{TestFlag, TestName, TestSet},
};

#[test]
fn pbkdf2_gives_wycheproofs_answers() {
    for (name, hash, expected) in [
        (TestName::Pbkdf2HmacSha1, HashAlgorithm::Sha1, 63),
        (TestName::Pbkdf2HmacSha256, HashAlgorithm::Sha256, 60),
        (TestName::Pbkdf2HmacSha512, HashAlgorithm::Sha512, 58),
    ] {
        let mut run = 0;
        let set = TestSet::load(name).unwrap();
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            assert!(matches!(test.result, TestResult::Valid));
            // 16,777,216 iterations.
            if test.flags.contains(&TestFlag::LargeIterationCount) {
                continue;
            }
            let kdf = Kdf::Pbkdf2 {
                hash: hash.name().into(),
                iterations: test.iteration_count.try_into().unwrap(),
                salt: test.salt.to_vec(),
            };
            let mut found = vec![0; test.dk_len];
            kdf.derive(&test.password, &mut found).unwrap();
            assert_eq!(found, *test.dk, "{}, {}", hash.name(), test.tc_id);
            run += 1;
        }
        assert_eq!(run, expected);
    }
}

/// RFC 9106, sections 5.2 and 5.3. These have a secret and associated data, which no volume has, so the
/// test calls the library as [`Kdf::derive`] does.
#[test]
fn argon2_gives_the_answers_of_the_rfc() {
    for (algorithm, expected) in [
        (
            Algorithm::Argon2i,
            "c814d9d1dc7f37aa13f0d77f2494bda1c8de6b016dd388d29952a4c4672b6ce8",
        ),
        (
            Algorithm::Argon2id,
            "0d640df58d78766c08c037a34a8b53c9d01ef0452d75b65eb52520e96b01e659",
        ),
    ] {
        let parameters = ParamsBuilder::new()
            .m_cost(32)
            .t_cost(3)
            .p_cost(4)
            .data(AssociatedData::new(&[4; 12]).unwrap())
            .build()
            .unwrap();
        let argon2 =
            Argon2::new_with_secret(&[3; 8], algorithm, Version::V0x13, parameters).unwrap();
        let mut found = [0; 32];
        argon2
            .hash_password_into(&[1; 32], &[2; 16], &mut found)
            .unwrap();
        let found: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, expected, "{algorithm}");
    }
}
