// SPDX-License-Identifier: MIT OR Apache-2.0
//! The axis of messages: output feedback in pieces, many messages together, and with a thread for
//! each chain.

use std::num::NonZeroUsize;

use luxor_engine::{
    Backend, Chains, DataUnitNumber, Executor, InOut, Message, Registry, Turn, encrypt_streams,
};

use crate::{cases::Cases, kit::Kit, random::Random};

/// Messages equal the reference's, however they are cut into pieces, whichever way each piece is
/// encrypted, and whatever runs together with them.
///
/// # Panics
/// If the backend does not conform.
pub fn messages(backend: &dyn Backend, _: Cases) {
    let mut random = Random::for_test("messages");
    let kits = Kit::all(backend, &mut random);
    let (kits, others): (Vec<_>, Vec<_>) = kits.into_iter().partition(|kit| kit.mode.is_feedback());
    for kit in others {
        let is_none = kit.loaded().messages().is_none();
        assert!(is_none, "{} has no messages", kit.mode);
    }
    if kits.is_empty() {
        return;
    }
    let executor = Executor::new(NonZeroUsize::new(2).expect("not 0"));
    for kit in &kits {
        every_length(kit, &mut random);
        pieces(kit, &executor, &mut random);
        arrays(kit, &executor, &mut random);
    }
    side_by_side(&kits, &mut random);
    let mut more = || {
        let mut kits = Kit::all(backend, &mut random);
        kits.retain(|kit| kit.mode.is_feedback());
        kits
    };
    let (second, third) = (more(), more());
    for (kit, (second, third)) in kits.iter().zip(second.iter().zip(&third)) {
        many_keys([kit, second, third], &mut random);
    }
}

fn begin(kit: &Kit, iv: u128) -> Message {
    let messages = kit.loaded().messages();
    let messages = messages.unwrap_or_else(|| panic!("{} has messages", kit.mode));
    messages.begin(DataUnitNumber::new(iv))
}

/// Each length in one piece, in both directions, and with a flipped bit in between.
fn every_length(kit: &Kit, random: &mut Random) {
    for len in 0..=200 {
        let (iv, plaintext) = (random.u128(), random.bytes(len));
        let mut bytes = plaintext.clone();
        begin(kit, iv).crypt(InOut::InPlace(&mut bytes));
        assert_eq!(bytes, kit.reference(iv, &plaintext), "{len} bytes");
        let mut expected = plaintext;
        if len > 0 {
            let (byte, bit) = (random.below(len), random.below(8));
            bytes[byte] ^= 1 << bit;
            expected[byte] ^= 1 << bit;
        }
        let mut output = vec![0; len];
        begin(kit, iv).crypt(InOut::Separate {
            input: &bytes,
            output: &mut output,
        });
        assert_eq!(output, expected, "{len} bytes");
    }
}

/// Messages cut at any byte, with each piece encrypted in a different way.
fn pieces(kit: &Kit, executor: &Executor, random: &mut Random) {
    for _ in 0..20 {
        let (iv, plaintext) = (random.u128(), random.bytes(1000));
        let ciphertext = kit.reference(iv, &plaintext);
        let (mut message, mut done) = (begin(kit, iv), 0);
        let mut output = plaintext.clone();
        while done < plaintext.len() {
            let len = random.below(70).min(plaintext.len() - done);
            let place = done..done + len;
            let output_there = &mut output[place.clone()];
            let buf = match random.below(2) {
                0 => InOut::InPlace(output_there),
                _ => {
                    output_there.fill(0x5a);
                    InOut::Separate {
                        input: &plaintext[place.clone()],
                        output: output_there,
                    }
                }
            };
            let chains = match random.below(4) {
                0 => Chains::Auto,
                1 => Chains::Together,
                _ => Chains::Apart {
                    array: random.below(50),
                },
            };
            executor.crypt_message(&mut message, buf, chains);
            assert_eq!(
                output[place.clone()],
                ciphertext[place],
                "wrong from byte {done} on"
            );
            done += len;
        }
    }
}

/// Lengths around those of arrays, with a thread for each chain.
fn arrays(kit: &Kit, executor: &Executor, random: &mut Random) {
    for array in [16, 160, 8000] {
        let lens = [1, 2].map(|n| n * array);
        for len in lens
            .iter()
            .flat_map(|&len| [len - 16, len - 1, len, len + 1, len + 16])
        {
            let (iv, plaintext) = (random.u128(), random.bytes(len));
            let mut together = plaintext.clone();
            begin(kit, iv).crypt(InOut::InPlace(&mut together));
            if array < 8000 || len == array + 1 {
                assert_eq!(together, kit.reference(iv, &plaintext), "{len} bytes");
            }
            for chains in [Chains::Apart { array }, Chains::Auto] {
                let mut bytes = plaintext.clone();
                let message = &mut begin(kit, iv);
                executor.crypt_message(message, InOut::InPlace(&mut bytes), chains);
                assert!(bytes == together, "{len} bytes, {chains:?}");
            }
        }
    }
    // A length for which `Auto` can use two threads.
    let (iv, plaintext) = (random.u128(), random.bytes(100_001));
    let mut output = [vec![0; plaintext.len()], vec![0; plaintext.len()]];
    for (output, chains) in output.iter_mut().zip([Chains::Auto, Chains::Together]) {
        let (input, message) = (&plaintext[..], &mut begin(kit, iv));
        executor.crypt_message(message, InOut::Separate { input, output }, chains);
    }
    assert!(output[0] == output[1], "{:?}", Chains::Auto);
}

/// Many messages of many keys and of all lengths, in two calls: the second call first uses the rest
/// of the key stream block that the first one began. Some messages belong to another engine.
fn side_by_side(kits: &[Kit], random: &mut Random) {
    let portable = Registry::cpu().get("portable").expect("always available");
    let foreign = Kit::few(&*portable, random);
    let foreign = foreign.iter().filter(|kit| kit.mode.is_feedback());
    for count in [1, 2, 3, 5, 17, 40, 150] {
        let mut plan = Vec::new();
        for i in 0..count {
            // About half of the messages share one key, like the messages of one sender.
            let which = if random.below(2) == 0 { 0 } else { i };
            let kit = match foreign.clone().nth(i) {
                Some(foreign) if i % 5 == 4 => foreign,
                _ => &kits[which % kits.len()],
            };
            plan.push((kit, lens(random)));
        }
        go_on_together(&plan, random);
    }
}

/// Messages of three keys of one kind run together: with keys mixed within a register, and with one
/// key for each register.
fn many_keys(kits: [&Kit; 3], random: &mut Random) {
    for count in [2, 5, 17, 40] {
        let mixed = (0..count).map(|_| (kits[random.below(3)], lens(random)));
        let mixed: Vec<_> = mixed.collect();
        go_on_together(&mixed, random);
        for lanes in [1, 2, 4] {
            // Messages of equal length keep their order.
            let in_order = (0..count).map(|i| (kits[i / lanes % 3], [70, 45]));
            let in_order: Vec<_> = in_order.collect();
            go_on_together(&in_order, random);
        }
    }
}

/// Random lengths for the two pieces of a message.
fn lens(random: &mut Random) -> [usize; 2] {
    [0, 1].map(|_| [random.below(40), random.below(600)][random.below(2)])
}

/// Encrypts messages of these keys in two pieces of these lengths.
fn go_on_together(plan: &[(&Kit, [usize; 2])], random: &mut Random) {
    let mut messages = Vec::new();
    for &(kit, lens) in plan {
        let iv = random.u128();
        let plaintext = random.bytes(lens[0] + lens[1]);
        let ciphertext = kit.reference(iv, &plaintext);
        messages.push((begin(kit, iv), lens[0], plaintext, ciphertext));
    }
    for second in [false, true] {
        let mut turns = Vec::new();
        for (message, mid, bytes, _) in &mut messages {
            let (head, tail) = bytes.split_at_mut(*mid);
            let buf = InOut::InPlace(if second { tail } else { head });
            turns.push(Turn { message, buf });
        }
        encrypt_streams(&mut turns);
    }
    for (i, (_, mid, bytes, ciphertext)) in messages.iter().enumerate() {
        let (kit, count) = (plan[i].0, plan.len());
        assert_eq!(
            bytes, ciphertext,
            "{}, message {i} of {count}, cut at {mid}",
            kit.mode
        );
    }
}
