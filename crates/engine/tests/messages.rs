// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors in messages in output feedback.

use std::panic::{AssertUnwindSafe, catch_unwind};

use luxor_engine::{
    AesKey, DataUnitNumber, InOut, KeySpec, LoadedKey, Mode, Registry, Turn, encrypt_streams,
};

#[test]
fn no_message_advances_if_one_has_two_lengths() {
    let spec = KeySpec::Ofb(AesKey::new(&[7; 16]).unwrap());
    // Two engines if the machine has them: their messages do not run together.
    let registry = Registry::cpu();
    let portable = registry.get("portable").unwrap();
    let backends = [portable.clone(), registry.best(Mode::Ofb).unwrap()];
    let keys = backends.map(|backend| backend.load_key(&spec).unwrap());
    let begin = |key: &dyn LoadedKey| key.messages().unwrap().begin(DataUnitNumber::new(1));
    let [mut good, mut bad] = keys.map(|key| begin(&*key));
    let mut expected = [0; 40];
    let key = portable.load_key(&spec).unwrap();
    let mut message = begin(&*key);
    message.crypt(InOut::InPlace(&mut expected));

    let (mut bytes, mut output) = ([0; 40], [0; 41]);
    let call = AssertUnwindSafe(|| {
        let turn = |message, buf| Turn { message, buf };
        encrypt_streams(&mut [
            turn(&mut good, InOut::InPlace(&mut bytes)),
            turn(
                &mut bad,
                InOut::Separate {
                    input: &[0; 40],
                    output: &mut output,
                },
            ),
        ]);
    });
    catch_unwind(call).unwrap_err();
    assert_eq!(bytes, [0; 40]);
    for mut message in [good, bad] {
        let mut bytes = [0; 40];
        message.crypt(InOut::InPlace(&mut bytes));
        assert_eq!(bytes, expected);
    }
}
