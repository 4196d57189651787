// SPDX-License-Identifier: MIT OR Apache-2.0
//! What any client sends in the NBD handshake: each option gets its replies, in order, the
//! last of them final; without TLS nothing is told where it is required.
//!
//! The first byte of an input is the policy, the second the client's flags, and the rest
//! what it sends: bytes, or options that are right but for what they say, each of a code,
//! the length of its data, and these.

#![no_main]

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
};

use libfuzzer_sys::fuzz_target;
use luxor_serve::nbd::{
    Agreed, Handshake, MAX_OPTION_DATA, MAX_OPTIONS, NegotiateError, Offer, Outcome, TlsPolicy,
    wire::TransmissionFlags,
};

const ABORT: u32 = 2;
const STARTTLS: u32 = 5;
const ACK: u32 = 1;
const TLS_REQD: u32 = 0x8000_0005;

fuzz_target!(|input: &[u8]| {
    let [policy, flags, input @ ..] = input else {
        return;
    };
    let tls = match policy & 1 {
        0 => TlsPolicy::Off,
        _ => TlsPolicy::Required,
    };
    let offer = Offer {
        name: "disk".parse().expect("a name"),
        description: "secret".parse().expect("a description"),
        size: 0x5345_4352_4554,
        flags: TransmissionFlags::from_bits(u16::from(*policy >> 2)),
        preferred_block_size: 4096,
        tls,
    };
    let mut client = Client {
        sends: u32::from(*flags).to_be_bytes().to_vec(),
        read: 0,
        got: Vec::new(),
    };
    let mut options = VecDeque::new();
    let made = policy & 2 != 0;
    if made {
        client.send_options(input, &mut options);
    } else {
        client.sends.extend_from_slice(input);
    }

    let outcome = Handshake::new(&offer).run(&mut client);
    assert_eq!(client.got[..18], *b"NBDMAGICIHAVEOPT\0\x03");
    client.got.drain(..18);
    let hidden = tls == TlsPolicy::Required;
    let no_zeroes = flags & 2 != 0;
    check(
        &outcome,
        &mut client,
        made.then_some(&mut options),
        hidden,
        no_zeroes,
    );
    if let Ok(Outcome::StartTls(handshake)) = outcome {
        assert!(hidden);
        let outcome = handshake.run(&mut client);
        assert!(!matches!(outcome, Ok(Outcome::StartTls(_))));
        check(
            &outcome,
            &mut client,
            made.then_some(&mut options),
            false,
            no_zeroes,
        );
    }
});

struct Client {
    sends: Vec<u8>,
    read: usize,
    got: Vec<u8>,
}

impl Client {
    fn send_options(&mut self, mut input: &[u8], options: &mut VecDeque<u32>) {
        while let [code, len, rest @ ..] = input {
            let (data, rest) = rest.split_at(rest.len().min(usize::from(*len)));
            let code = u32::from(*code);
            self.sends.extend_from_slice(b"IHAVEOPT");
            self.sends.extend_from_slice(&code.to_be_bytes());
            self.sends
                .extend_from_slice(&u32::try_from(data.len()).expect("a byte").to_be_bytes());
            self.sends.extend_from_slice(data);
            options.push_back(code);
            input = rest;
        }
    }
}

impl Read for Client {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        assert!(buf.len() <= MAX_OPTION_DATA as usize, "room for a lie");
        let read = (&self.sends[self.read..]).read(buf)?;
        self.read += read;
        Ok(read)
    }
}

impl Write for Client {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.got.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes what the client got apart, together with the options that it sent, if they are
/// known.
fn check(
    outcome: &Result<Outcome<'_>, NegotiateError>,
    client: &mut Client,
    mut sent: Option<&mut VecDeque<u32>>,
    hidden: bool,
    no_zeroes: bool,
) {
    let got = std::mem::take(&mut client.got);
    if hidden {
        assert!(
            !got.windows(6)
                .any(|bytes| bytes == b"secret" || bytes == b"SECRET")
        );
    }
    let mut rest = got.as_slice();
    let mut last = None;
    let mut finals = 0;
    while let Some(reply) = rest.strip_prefix(&0x0003_e889_0455_65a9_u64.to_be_bytes()) {
        let word = |at: usize| u32::from_be_bytes(reply[at..at + 4].try_into().expect("4 bytes"));
        let (option, kind, len) = (word(0), word(4), word(8) as usize);
        let data = &reply[12..12 + len];
        rest = &reply[12 + len..];
        let is_error = kind >> 31 == 1;
        assert!(is_error || (1..=4).contains(&kind));
        if is_error {
            assert!(std::str::from_utf8(data).is_ok_and(|message| !message.is_empty()));
        }
        if hidden && !matches!(option, STARTTLS | ABORT) {
            assert_eq!(kind, TLS_REQD);
        }
        let is_final = is_error || kind == ACK;
        if let Some(sent) = &mut sent {
            assert_eq!(sent.front(), Some(&option), "an answer to nothing");
            if is_final {
                sent.pop_front();
            }
        }
        finals += u32::from(is_final);
        last = Some((option, kind));
    }
    assert!(finals <= MAX_OPTIONS);
    assert!(last.is_none_or(|(_, kind)| kind == ACK || kind >> 31 == 1));
    match outcome {
        Ok(Outcome::Agreed(agreed)) => {
            assert!(!hidden);
            consistent(agreed);
            if rest.is_empty() {
                assert_eq!(last, Some((7, ACK)), "not after GO");
            } else {
                assert_eq!(rest[..8], agreed.size.to_be_bytes());
                assert_eq!(rest[8..10], agreed.flags.bits().to_be_bytes());
                let zeros = if no_zeroes { 0 } else { 124 };
                assert_eq!(rest[10..], vec![0; zeros]);
            }
        }
        Ok(Outcome::StartTls(_)) => {
            assert_eq!((last, rest), (Some((STARTTLS, ACK)), [].as_slice()));
        }
        Ok(Outcome::Ended(_)) => assert!(rest.is_empty()),
        Err(error) => {
            assert!(rest.is_empty());
            assert!(!error.to_string().is_empty());
        }
    }
}

fn consistent(agreed: &Agreed) {
    let has = |flag| agreed.flags.contains(flag);
    assert!(has(TransmissionFlags::HAS_FLAGS));
    assert_eq!(has(TransmissionFlags::SEND_DF), agreed.structured_replies);
    assert!(agreed.structured_replies || !agreed.base_allocation);
}
