// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any request on any export: it is parsed as it was sent, served only if it lies within
//! what was agreed, and answered with a reply that says what it should.
//!
//! An input is a request, the export's size and flags, and a byte: what else was agreed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use luxor_serve::nbd::{
    Agreed, Command, MAX_PAYLOAD, REQUEST_LEN, Request, reply,
    wire::{AllocationFlags, ErrorValue, TransmissionFlags},
};

const MAGIC: [u8; 4] = [0x25, 0x60, 0x95, 0x13];

fuzz_target!(|input: [u8; REQUEST_LEN + 11]| {
    let (bytes, agreed) = input
        .split_first_chunk::<REQUEST_LEN>()
        .expect("it is longer");
    let agreed = Agreed {
        size: u64::from_be_bytes(agreed[..8].try_into().expect("8 bytes")),
        flags: TransmissionFlags::from_bits(u16::from_be_bytes([agreed[8], agreed[9]])),
        structured_replies: agreed[10] & 1 != 0,
        base_allocation: agreed[10] & 2 != 0,
    };
    let Ok(request) = Request::parse(bytes) else {
        assert_ne!(bytes[..4], MAGIC);
        return;
    };
    let code = u16::from_be_bytes([bytes[6], bytes[7]]);
    let again = [
        MAGIC.as_slice(),
        &request.flags.bits().to_be_bytes(),
        &code.to_be_bytes(),
        &request.cookie.to_be_bytes(),
        &request.offset.to_be_bytes(),
        &request.len.to_be_bytes(),
    ];
    assert_eq!(bytes.as_slice(), again.concat());
    assert_eq!(request.command, Command::from_code(code));
    assert_eq!(
        request.payload_len(),
        if code == 1 { request.len } else { 0 }
    );

    match agreed.check(&request) {
        Ok(()) => served(&request, &agreed, code),
        Err(refusal) => {
            assert_ne!(request.command, Command::Disconnect);
            let read_only = agreed.flags.contains(TransmissionFlags::READ_ONLY);
            let writes = matches!(code, 1 | 4 | 6);
            assert_eq!(refusal.error == ErrorValue::Perm, writes && read_only);
            let mut out = Vec::new();
            reply::error(
                &mut out,
                &agreed,
                request.cookie,
                refusal.error,
                refusal.message,
            );
            failed(
                &out,
                &request,
                &agreed,
                refusal.error,
                refusal.message,
                None,
            );
        }
    }
});

fn served(request: &Request, agreed: &Agreed, code: u16) {
    let len = u64::from(request.len);
    let has = |bit: u16| agreed.flags.bits() >> bit & 1 == 1;
    let sets = |bit: u16| request.flags.bits() >> bit & 1 == 1;
    match request.command {
        Command::Disconnect => return,
        Command::Flush => assert!(has(2) && len == 0 && request.offset == 0),
        Command::Other(_) => panic!("nobody knows how"),
        _ => {
            let end = u128::from(request.offset) + u128::from(len);
            assert!(len > 0 && end <= u128::from(agreed.size));
        }
    }
    assert!(code < 8 && request.flags.bits() < 1 << 5);
    assert!(!has(1) || !matches!(code, 1 | 4 | 6), "read-only");
    assert!(!matches!(code, 0 | 1) || request.len <= MAX_PAYLOAD);
    let offered = match code {
        4 => has(5),
        5 => has(10),
        6 => has(6),
        7 => agreed.base_allocation,
        _ => true,
    };
    assert!(offered);
    assert!(!sets(0) || has(3));
    assert!(!sets(1) || code == 6);
    assert!(!sets(2) || code == 0 && has(7));
    assert!(!sets(3) || code == 7);
    assert!(!sets(4) || code == 6 && has(11));

    let cookie = request.cookie.to_be_bytes();
    let simple = reply::simple(request.cookie, None);
    assert_eq!(simple[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
    assert_eq!(simple[8..], cookie);
    if request.len == 0 {
        return;
    }
    for done in [false, true] {
        if request.len > MAX_PAYLOAD {
            break;
        }
        let data = reply::data(request.cookie, request.offset, request.len, done);
        chunk(&data, done, 1, request.cookie, request.len + 8);
        assert_eq!(data[20..], request.offset.to_be_bytes());
    }
    let extent = reply::descriptor(request.len, AllocationFlags::HOLE);
    let status = [reply::block_status(request.cookie, 1).as_slice(), &extent].concat();
    chunk(&status, true, 5, request.cookie, 12);
    assert_eq!(status[20..24], [0, 0, 0, 1]);
    assert_eq!(status[24..28], request.len.to_be_bytes());

    let mut out = Vec::new();
    let message = "it failed";
    let at = request.offset + u64::from(request.len) - 1;
    reply::error_at(
        &mut out,
        agreed,
        request.cookie,
        ErrorValue::Io,
        message,
        at,
    );
    failed(&out, request, agreed, ErrorValue::Io, message, Some(at));
}

fn failed(
    out: &[u8],
    request: &Request,
    agreed: &Agreed,
    error: ErrorValue,
    message: &str,
    at: Option<u64>,
) {
    assert_ne!(error.code(), 0);
    if !agreed.structured_replies {
        assert_eq!(out, reply::simple(request.cookie, Some(error)));
        return;
    }
    let payload = &out[20..];
    let kind = if at.is_some() { 0x8002 } else { 0x8001 };
    chunk(
        out,
        true,
        kind,
        request.cookie,
        u32::try_from(payload.len()).expect("short"),
    );
    assert_eq!(payload[..4], error.code().to_be_bytes());
    let len = usize::from(u16::from_be_bytes([payload[4], payload[5]]));
    assert_eq!(&payload[6..6 + len], message.as_bytes());
    let offset: Vec<u8> = at.into_iter().flat_map(u64::to_be_bytes).collect();
    assert_eq!(payload[6 + len..], offset);
}

fn chunk(bytes: &[u8], done: bool, kind: u16, cookie: u64, payload: u32) {
    assert_eq!(bytes[..4], [0x66, 0x8e, 0x33, 0xef]);
    assert_eq!(bytes[4..6], u16::from(done).to_be_bytes());
    assert_eq!(bytes[6..8], kind.to_be_bytes());
    assert_eq!(bytes[8..16], cookie.to_be_bytes());
    assert_eq!(bytes[16..20], payload.to_be_bytes());
}
