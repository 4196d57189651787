// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

const SIZE: u64 = 0x0001_0203_0405_0607;
const FLAGS: u16 = 0x050d;
const FIXED: u32 = 1;
const NO_ZEROES: u32 = 2;

const GREETING: &[u8] = b"NBDMAGICIHAVEOPT\0\x03";

const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const STARTTLS: u32 = 5;
const INFO: u32 = 6;
const GO: u32 = 7;
const STRUCTURED_REPLY: u32 = 8;
const LIST_META_CONTEXT: u32 = 9;
const SET_META_CONTEXT: u32 = 10;

const UNSUP: u32 = 0x8000_0001;
const POLICY: u32 = 0x8000_0002;
const INVALID: u32 = 0x8000_0003;
const TLS_REQD: u32 = 0x8000_0005;
const UNKNOWN: u32 = 0x8000_0006;
const TOO_BIG: u32 = 0x8000_0009;

fn offer(tls: TlsPolicy) -> Offer {
    Offer {
        name: "disk".parse().expect("a name"),
        description: "A disk".parse().expect("a description"),
        size: SIZE,
        flags: TransmissionFlags::from_bits(FLAGS),
        preferred_block_size: 4096,
        tls,
    }
}

/// The bytes that a client sends, and the bytes that it received.
struct Client {
    input: Vec<u8>,
    read: usize,
    output: Vec<u8>,
}

impl Client {
    fn new(flags: u32) -> Self {
        Self {
            input: flags.to_be_bytes().to_vec(),
            read: 0,
            output: Vec::new(),
        }
    }

    fn in_tls() -> Self {
        Self {
            input: Vec::new(),
            ..Self::new(0)
        }
    }

    fn option(mut self, option: u32, data: &[u8]) -> Self {
        self.input.extend(b"IHAVEOPT");
        self.input.extend(option.to_be_bytes());
        let len = u32::try_from(data.len()).expect("short");
        self.input.extend(len.to_be_bytes());
        self.input.extend(data);
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.input.extend(bytes);
        self
    }

    fn run(mut self, offer: &Offer) -> (Result<Outcome<'_>, NegotiateError>, Vec<u8>) {
        let outcome = Handshake::new(offer).run(&mut self);
        let replies = self.output.strip_prefix(GREETING).expect("the greeting");
        (outcome, replies.to_vec())
    }

    /// Returns the replies after the greeting, of a session that ended without an error.
    fn ended(self) -> Vec<u8> {
        let offer = offer(TlsPolicy::Off);
        let (outcome, replies) = self.run(&offer);
        assert!(matches!(outcome, Ok(Outcome::Ended(_))), "{outcome:?}");
        replies
    }

    fn agreed(self) -> (Agreed, Vec<u8>) {
        let offer = offer(TlsPolicy::Off);
        let (outcome, replies) = self.run(&offer);
        (agreed(outcome), replies)
    }

    fn failed(self, tls: TlsPolicy) -> (NegotiateError, Vec<u8>) {
        let offer = offer(tls);
        let (outcome, replies) = self.run(&offer);
        (outcome.expect_err("an error"), replies)
    }
}

impl Read for Client {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        assert!(
            buf.len() <= 32 << 10,
            "room for {} bytes at once",
            buf.len()
        );
        let mut left = &self.input[self.read..];
        let read = left.read(buf)?;
        self.read += read;
        Ok(read)
    }
}

impl Write for Client {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.output.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn agreed(outcome: Result<Outcome<'_>, NegotiateError>) -> Agreed {
    match outcome {
        Ok(Outcome::Agreed(agreed)) => agreed,
        other => panic!("no agreement: {other:?}"),
    }
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x00\x03\xe8\x89\x04\x55\x65\xa9".to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).expect("short").to_be_bytes());
    bytes.extend(data);
    bytes
}

/// Returns the option and the type of each reply.
fn kinds(mut replies: &[u8]) -> Vec<(u32, u32)> {
    let mut kinds = Vec::new();
    while !replies.is_empty() {
        assert_eq!(replies[..8], 0x0003_e889_0455_65a9_u64.to_be_bytes());
        let word =
            |at: usize| u32::from_be_bytes(replies[at..at + 4].try_into().expect("four bytes"));
        kinds.push((word(8), word(12)));
        replies = &replies[20 + word(16) as usize..];
    }
    kinds
}

fn info_request(name: &str, requests: &[u16]) -> Vec<u8> {
    let mut data = string_bytes(name);
    data.extend(u16::try_from(requests.len()).expect("few").to_be_bytes());
    data.extend(requests.iter().flat_map(|request| request.to_be_bytes()));
    data
}

fn queries(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string_bytes(name);
    data.extend(u32::try_from(queries.len()).expect("few").to_be_bytes());
    data.extend(queries.iter().flat_map(|query| string_bytes(query)));
    data
}

fn string_bytes(string: &str) -> Vec<u8> {
    let len = u32::try_from(string.len()).expect("short");
    [&len.to_be_bytes(), string.as_bytes()].concat()
}

#[test]
fn go_as_a_whole() {
    let (agreed, replies) = Client::new(FIXED | NO_ZEROES)
        .option(STRUCTURED_REPLY, &[])
        .option(SET_META_CONTEXT, &queries("disk", &["base:allocation"]))
        .option(GO, &info_request("disk", &[3, 1, 2]))
        .raw(b"requests")
        .agreed();
    let expected = [
        reply(STRUCTURED_REPLY, 1, &[]),
        reply(SET_META_CONTEXT, 4, b"\0\0\0\x01base:allocation"),
        reply(SET_META_CONTEXT, 1, &[]),
        // With structured replies SEND_DF is set.
        reply(GO, 3, b"\0\0\0\x01\x02\x03\x04\x05\x06\x07\x05\x8d"),
        reply(GO, 3, b"\0\x01disk"),
        reply(GO, 3, b"\0\x02A disk"),
        reply(GO, 3, b"\0\x03\0\0\0\x01\0\0\x10\0\x02\0\0\0"),
        reply(GO, 1, &[]),
    ];
    let found: Vec<u8> = expected.concat();
    assert_eq!(replies, found);
    assert_eq!(
        agreed,
        Agreed {
            size: SIZE,
            flags: TransmissionFlags::from_bits(0x058d),
            structured_replies: true,
            base_allocation: true,
        }
    );
}

#[test]
fn nothing_is_read_beyond_the_handshake() {
    for go in [(GO, info_request("", &[])), (EXPORT_NAME, Vec::new())] {
        let offer = offer(TlsPolicy::Off);
        let mut client = Client::new(FIXED).option(go.0, &go.1).raw(b"requests");
        agreed(Handshake::new(&offer).run(&mut client));
        assert_eq!(&client.input[client.read..], b"requests");
    }
}

#[test]
fn only_requested_information_is_sent() {
    let (agreed, replies) = Client::new(FIXED)
        .option(GO, &info_request("", &[]))
        .agreed();
    let expected = [
        reply(GO, 3, b"\0\0\0\x01\x02\x03\x04\x05\x06\x07\x05\x0d"),
        reply(GO, 3, b"\0\x03\0\0\0\x01\0\0\x10\0\x02\0\0\0"),
        reply(GO, 1, &[]),
    ];
    assert_eq!(replies, expected.concat());
    assert_eq!(agreed.flags.bits(), FLAGS);
    assert!(!agreed.structured_replies && !agreed.base_allocation);
}

#[test]
fn the_flags_of_an_offer_are_put_right() {
    let offer = Offer {
        flags: TransmissionFlags::SEND_DF.with(TransmissionFlags::SEND_FLUSH),
        description: Text::default(),
        ..offer(TlsPolicy::Off)
    };
    let client = Client::new(FIXED).option(GO, &info_request("", &[2]));
    let (outcome, replies) = client.run(&offer);
    assert_eq!(agreed(outcome).flags.bits(), 0b101);
    // There is no reply with a description, because the offer has none.
    assert_eq!(kinds(&replies), [(GO, 3), (GO, 3), (GO, 1)]);
}

#[test]
fn info_continues_the_handshake() {
    let replies = Client::new(FIXED)
        .option(INFO, &info_request("disk", &[0, 77]))
        .option(INFO, &info_request("disc", &[]))
        .option(GO, &info_request("Disk", &[]))
        .ended();
    let expected = [
        reply(INFO, 3, b"\0\0\0\x01\x02\x03\x04\x05\x06\x07\x05\x0d"),
        reply(INFO, 3, b"\0\x03\0\0\0\x01\0\0\x10\0\x02\0\0\0"),
        reply(INFO, 1, &[]),
        reply(INFO, UNKNOWN, b"there is no export of this name"),
        reply(GO, UNKNOWN, b"there is no export of this name"),
    ];
    assert_eq!(replies, expected.concat());
}

#[test]
fn malformed_info_is_invalid() {
    let right = info_request("disk", &[3, 1]);
    for cut in 0..right.len() {
        let replies = Client::new(FIXED).option(GO, &right[..cut]).ended();
        assert_eq!(kinds(&replies), [(GO, INVALID)], "{cut} bytes");
    }
    let long = [right, vec![0; 2]].concat();
    let replies = Client::new(FIXED).option(GO, &long).ended();
    assert_eq!(kinds(&replies), [(GO, INVALID)]);
    let replies = Client::new(FIXED).option(GO, &[0xff; 14]).ended();
    assert_eq!(kinds(&replies), [(GO, INVALID)]);
}

#[test]
fn export_name() {
    let expected = b"\0\x01\x02\x03\x04\x05\x06\x07\x05\x0d";
    for flags in [FIXED | NO_ZEROES, NO_ZEROES, FIXED, 0] {
        for name in ["", "disk"] {
            let client = Client::new(flags).option(EXPORT_NAME, name.as_bytes());
            let (agreed, mut replies) = client.agreed();
            if flags & NO_ZEROES == 0 {
                assert_eq!(replies.split_off(10), [0; 124]);
            }
            assert_eq!(replies, expected);
            assert_eq!((agreed.size, agreed.flags.bits()), (SIZE, FLAGS));
        }
        let client = Client::new(flags).option(EXPORT_NAME, b"disc");
        let (error, replies) = client.failed(TlsPolicy::Off);
        assert!(
            matches!(error, NegotiateError::UnknownExport { .. }),
            "{error}"
        );
        assert!(replies.is_empty());
    }
    // The same after structured replies.
    let client = Client::new(FIXED | NO_ZEROES).option(STRUCTURED_REPLY, &[]);
    let (agreed, replies) = client.option(EXPORT_NAME, b"disk").agreed();
    assert!(agreed.structured_replies);
    assert!(replies.ends_with(b"\0\x01\x02\x03\x04\x05\x06\x07\x05\x8d"));
}

#[test]
fn without_fixed_newstyle_there_is_one_option() {
    for option in [ABORT, LIST, STARTTLS, INFO, GO, STRUCTURED_REPLY, 99] {
        let (error, replies) = Client::new(0).option(option, &[]).failed(TlsPolicy::Off);
        let code = match error {
            NegotiateError::NotFixed { option } => option.code(),
            other => panic!("{other}"),
        };
        assert_eq!(code, option);
        assert!(replies.is_empty());
    }
}

#[test]
fn unknown_client_flags_end_the_session() {
    for bit in 2..32 {
        let (error, replies) = Client::new(FIXED | 1 << bit)
            .option(LIST, &[])
            .failed(TlsPolicy::Off);
        assert!(
            matches!(error, NegotiateError::ClientFlags { flags } if flags.bits() == 1 | 1 << bit)
        );
        assert!(replies.is_empty());
    }
}

#[test]
fn abort_is_acknowledged_and_its_data_ignored() {
    let replies = Client::new(FIXED)
        .option(ABORT, b"bye")
        .option(LIST, &[])
        .ended();
    assert_eq!(replies, reply(ABORT, 1, &[]));
}

/// A client that receives nothing more.
struct Deaf(Client);

impl Read for Deaf {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl Write for Deaf {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.0.output.is_empty() {
            self.0.write(buf)
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_client_may_leave_with_abort() {
    let offer = offer(TlsPolicy::Off);
    let mut deaf = Deaf(Client::new(FIXED).option(ABORT, &[]));
    let outcome = Handshake::new(&offer).run(&mut deaf);
    assert!(matches!(outcome, Ok(Outcome::Ended(_))));

    let mut deaf = Deaf(Client::new(FIXED).option(LIST, &[]));
    let error = Handshake::new(&offer)
        .run(&mut deaf)
        .expect_err("it is gone");
    assert!(
        matches!(error, NegotiateError::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
    );
}

#[test]
fn list() {
    let replies = Client::new(FIXED).option(LIST, &[]).ended();
    let expected = [reply(LIST, 2, b"\0\0\0\x04diskA disk"), reply(LIST, 1, &[])];
    assert_eq!(replies, expected.concat());
}

#[test]
fn options_without_data_refuse_it() {
    for option in [LIST, STARTTLS, STRUCTURED_REPLY] {
        for len in [1, 40_000] {
            let replies = Client::new(FIXED)
                .option(option, &vec![0; len])
                .option(GO, &info_request("", &[]))
                .agreed();
            assert!(!replies.0.structured_replies);
            assert_eq!(kinds(&replies.1)[0], (option, INVALID));
            let message = b"this option has no data";
            assert!(replies.1.starts_with(&reply(option, INVALID, message)));
        }
    }
}

#[test]
fn unknown_options_are_skipped_with_their_data() {
    let mut client = Client::new(FIXED);
    let unknown = [0, 4, 11, 12, 0x8000_0001, u32::MAX];
    for (option, len) in unknown.into_iter().zip([0, 1, 5000, 33 << 10, 1 << 20, 3]) {
        client = client.option(option, &vec![b'I'; len]);
    }
    let replies = client.option(LIST, &[]).ended();
    let mut expected: Vec<u8> = unknown
        .into_iter()
        .flat_map(|option| reply(option, UNSUP, b"unknown option"))
        .collect();
    expected.extend(reply(LIST, 2, b"\0\0\0\x04diskA disk"));
    expected.extend(reply(LIST, 1, &[]));
    assert_eq!(replies, expected);
}

#[test]
fn metadata_contexts_are_listed() {
    let cases: [(&[&str], bool); 9] = [
        (&[], true),
        (&["base:"], true),
        (&["base:allocation"], true),
        (&["base:allocation", "base:", "base:allocation"], true),
        (&["qemu:dirty-bitmap", "base:allocation"], true),
        (&["base:Allocation", "base:allocation ", "base"], false),
        (&["qemu:"], false),
        (&[""], false),
        (&["no colon"], false),
    ];
    for (asked, found) in cases {
        for name in ["", "disk"] {
            let replies = Client::new(FIXED)
                .option(STRUCTURED_REPLY, &[])
                .option(LIST_META_CONTEXT, &queries(name, asked))
                .ended();
            let mut expected = reply(STRUCTURED_REPLY, 1, &[]);
            if found {
                let context = b"\0\0\0\0base:allocation";
                expected.extend(reply(LIST_META_CONTEXT, 4, context));
            }
            expected.extend(reply(LIST_META_CONTEXT, 1, &[]));
            assert_eq!(replies, expected, "{asked:?}");
        }
    }
    // Listing contexts does not choose any.
    let (agreed, _) = Client::new(FIXED)
        .option(STRUCTURED_REPLY, &[])
        .option(LIST_META_CONTEXT, &queries("disk", &["base:allocation"]))
        .option(GO, &info_request("disk", &[]))
        .agreed();
    assert!(!agreed.base_allocation);
}

#[test]
fn the_last_choice_of_metadata_contexts_counts() {
    let cases: [(&str, &[&str], bool); 6] = [
        ("disk", &["base:allocation"], true),
        ("", &["x-y:z", "base:allocation", "base:allocation"], true),
        ("disk", &[], false),
        ("disk", &["base:"], false),
        ("disk", &["base:allocation2"], false),
        ("disc", &["base:allocation"], false),
    ];
    for (name, asked, chosen) in cases {
        let (agreed, replies) = Client::new(FIXED)
            .option(STRUCTURED_REPLY, &[])
            .option(SET_META_CONTEXT, &queries("disk", &["base:allocation"]))
            .option(SET_META_CONTEXT, &queries(name, asked))
            .option(GO, &info_request("disk", &[]))
            .agreed();
        assert_eq!(agreed.base_allocation, chosen, "{name} {asked:?}");
        let last = &kinds(&replies)[3..];
        let expected: &[(u32, u32)] = match (name, chosen) {
            ("disc", _) => &[(SET_META_CONTEXT, UNKNOWN)],
            (_, true) => &[(SET_META_CONTEXT, 4), (SET_META_CONTEXT, 1)],
            (_, false) => &[(SET_META_CONTEXT, 1)],
        };
        assert!(last.starts_with(expected), "{name} {asked:?}: {last:?}");
        assert_eq!(last.len(), expected.len() + 3);
    }
}

#[test]
fn malformed_queries_are_invalid_and_choose_nothing() {
    let right = queries("disk", &["base:", "base:allocation"]);
    let mut wrong: Vec<Vec<u8>> = (0..right.len()).map(|cut| right[..cut].to_vec()).collect();
    wrong.push([right.clone(), vec![0]].concat());
    let mut count = right.clone();
    count[8..12].fill(0xff);
    wrong.push(count);
    wrong.push([right, vec![0; (32 << 10) + 1]].concat());
    for data in wrong {
        let error = if data.len() > 32 << 10 {
            TOO_BIG
        } else {
            INVALID
        };
        for option in [LIST_META_CONTEXT, SET_META_CONTEXT] {
            let (agreed, replies) = Client::new(FIXED)
                .option(STRUCTURED_REPLY, &[])
                .option(SET_META_CONTEXT, &queries("disk", &["base:allocation"]))
                .option(option, &data)
                .option(GO, &info_request("disk", &[]))
                .agreed();
            assert_eq!(kinds(&replies)[3], (option, error), "{data:?}");
            assert_eq!(agreed.base_allocation, option == LIST_META_CONTEXT);
        }
    }
}

#[test]
fn metadata_contexts_need_structured_replies() {
    for option in [LIST_META_CONTEXT, SET_META_CONTEXT] {
        let data = queries("disk", &["base:allocation"]);
        let (agreed, replies) = Client::new(FIXED)
            .option(option, &data)
            .option(STRUCTURED_REPLY, &[])
            .option(GO, &info_request("disk", &[]))
            .agreed();
        assert!(replies.starts_with(&reply(
            option,
            INVALID,
            b"this option needs structured replies"
        )));
        assert!(!agreed.base_allocation);
    }
}

#[test]
fn too_much_data_is_refused_and_far_too_much_ends_the_session() {
    for option in [INFO, GO, LIST_META_CONTEXT, SET_META_CONTEXT] {
        let replies = Client::new(FIXED)
            .option(option, &vec![0; (32 << 10) + 1])
            .option(option, &vec![0; 1 << 20])
            .option(option, &vec![0xff; 32 << 10])
            .ended();
        let too_big = reply(option, TOO_BIG, b"longer than 32 KiB");
        assert!(replies.starts_with(&[too_big.clone(), too_big].concat()));
        assert_eq!(kinds(&replies)[2..], [(option, INVALID)]);
    }
    for code in (0..20).chain([u32::MAX]) {
        for excess in [1 << 20 | 1, u32::MAX] {
            let header = [
                b"IHAVEOPT".as_slice(),
                &code.to_be_bytes(),
                &excess.to_be_bytes(),
            ];
            let client = Client::new(FIXED).raw(&header.concat()).raw(&[0; 100]);
            let (error, replies) = client.failed(TlsPolicy::Off);
            let (option, len) = match error {
                NegotiateError::TooLong { option, len } => (option.code(), len),
                other => panic!("{other}"),
            };
            assert_eq!((option, len), (code, excess));
            assert!(replies.is_empty());
        }
    }
}

#[test]
fn options_are_counted() {
    let options = |count| (0..count).fold(Client::new(FIXED), |client, _| client.option(LIST, &[]));
    assert_eq!(kinds(&options(256).ended()).len(), 512);
    let (error, replies) = options(257).failed(TlsPolicy::Off);
    assert!(matches!(error, NegotiateError::TooManyOptions));
    assert_eq!(kinds(&replies).len(), 512);
}

#[test]
fn a_client_that_leaves_between_messages_is_not_an_error() {
    let whole = Client::new(FIXED)
        .option(LIST, &[])
        .option(99, &[0; 40])
        .option(INFO, &info_request("disk", &[]));
    let boundaries = [0, 4, 20, 20 + 56, whole.input.len()];
    for cut in 0..=whole.input.len() {
        let offer = offer(TlsPolicy::Off);
        let mut client = Client::in_tls().raw(&whole.input[..cut]);
        match Handshake::new(&offer).run(&mut client) {
            Ok(Outcome::Ended(_)) => assert!(boundaries.contains(&cut), "{cut}"),
            Err(NegotiateError::Io(error)) => {
                assert!(!boundaries.contains(&cut), "{cut}");
                assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn another_magic_ends_the_session() {
    let (error, replies) = Client::new(FIXED)
        .raw(b"GET / HTTP/1.1\r\n\r\n")
        .failed(TlsPolicy::Off);
    assert_eq!(
        error.to_string(),
        "the client sent 0x474554202f204854 where an NBD option must be"
    );
    assert!(replies.is_empty());
}

#[test]
fn starttls_is_refused_without_tls() {
    let replies = Client::new(FIXED)
        .option(STARTTLS, &[])
        .option(STARTTLS, &[])
        .ended();
    let policy = reply(STARTTLS, POLICY, b"this server has no TLS");
    assert_eq!(replies, [policy.clone(), policy].concat());
}

#[test]
fn where_tls_is_required_nothing_comes_before_it() {
    let offer = offer(TlsPolicy::Required);
    let options = [
        LIST,
        INFO,
        GO,
        STRUCTURED_REPLY,
        LIST_META_CONTEXT,
        SET_META_CONTEXT,
        99,
    ];
    let mut client = Client::new(FIXED | NO_ZEROES);
    for (option, len) in options.into_iter().zip([0, 5, 40_000, 0, 3, 8, 100]) {
        client = client.option(option, &vec![0; len]);
    }
    let (outcome, replies) = client
        .option(STARTTLS, b"x")
        .option(STARTTLS, &[])
        .run(&offer);
    let Ok(Outcome::StartTls(handshake)) = outcome else {
        panic!("no TLS: {outcome:?}");
    };
    let mut expected: Vec<u8> = options
        .into_iter()
        .flat_map(|option| reply(option, TLS_REQD, b"TLS is required"))
        .collect();
    expected.extend(reply(STARTTLS, INVALID, b"this option has no data"));
    expected.extend(reply(STARTTLS, 1, &[]));
    assert_eq!(replies, expected);

    // The handshake continues inside TLS, without another greeting.
    let mut client = Client::in_tls()
        .option(STARTTLS, &[])
        .option(99, &[])
        .option(EXPORT_NAME, b"disk");
    let agreed = agreed(handshake.run(&mut client));
    let expected = [
        reply(STARTTLS, INVALID, b"TLS is already active"),
        reply(99, UNSUP, b"unknown option"),
        b"\0\x01\x02\x03\x04\x05\x06\x07\x05\x0d".to_vec(),
    ];
    assert_eq!(client.output, expected.concat());
    assert_eq!(agreed.size, SIZE);
}

#[test]
fn abort_needs_no_tls() {
    let offer = offer(TlsPolicy::Required);
    let (outcome, replies) = Client::new(FIXED).option(ABORT, &[]).run(&offer);
    assert!(matches!(outcome, Ok(Outcome::Ended(_))));
    assert_eq!(replies, reply(ABORT, 1, &[]));
}

#[test]
fn an_export_without_tls_is_not_given_by_name() {
    for flags in [FIXED, FIXED | NO_ZEROES, 0] {
        let client = Client::new(flags).option(EXPORT_NAME, b"disk");
        let (error, replies) = client.failed(TlsPolicy::Required);
        assert!(matches!(error, NegotiateError::TlsRequired), "{error}");
        assert!(replies.is_empty());
    }
}

/// Agreements from before TLS do not count inside it: an attacker may have made them.
#[test]
fn agreements_from_before_tls_do_not_count() {
    let offer = offer(TlsPolicy::Required);
    let before = Handshake {
        structured_replies: true,
        base_allocation: true,
        no_zeroes: true,
        options_left: 7,
        ..Handshake::new(&offer)
    };
    let mut client = Client::in_tls().option(GO, &info_request("disk", &[]));
    let agreed = agreed(InTls(before).run(&mut client));
    assert!(!agreed.structured_replies && !agreed.base_allocation);
    assert_eq!(agreed.flags.bits(), FLAGS);
}

#[test]
fn strings_of_the_protocol() {
    let longest = "n".repeat(4096);
    assert_eq!(longest.parse::<Text>().expect("it fits").as_str(), longest);
    let error = format!("{longest}n").parse::<Text>().expect_err("too long");
    assert_eq!(error, TextError::Long { len: 4097 });
    assert_eq!("a\0b".parse::<Text>(), Err(TextError::Zero));
}

#[test]
#[should_panic(expected = "a preferred block size of 1000 bytes")]
fn a_block_size_is_a_power_of_two() {
    let offer = Offer {
        preferred_block_size: 1000,
        ..offer(TlsPolicy::Off)
    };
    let _ = Handshake::new(&offer);
}

/// Whatever a client sends, there is no panic, no allocation beyond the limit that [`Client::read`]
/// checks, and no malformed reply.
#[test]
fn any_bytes_are_answered_or_refused() {
    let mut state = 0x9e37_79b9_7f4a_7c15_usize;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let good = [
        info_request("disk", &[0, 1, 2, 3]),
        queries("", &["base:allocation"]),
        queries("disk", &[]),
        b"disk".to_vec(),
        Vec::new(),
    ];
    let mut ends = [0_u32; 4];
    for _ in 0..20_000 {
        let mut client = Client::new(u32::from(random(9) > 0));
        for _ in 0..random(8) {
            let mut data = good[random(5)].clone();
            for _ in 0..random(3) {
                if let Some(last) = data.len().checked_sub(1) {
                    data[random(last + 1)] ^= 1 << random(8);
                }
            }
            let code = u32::try_from(random(13)).expect("small");
            client = client.option(code, &data);
        }
        for _ in 0..random(2) * random(40) {
            client.input.push(random(256).to_le_bytes()[0]);
        }
        let policy = [TlsPolicy::Off, TlsPolicy::Required][random(2)];
        let offer = offer(policy);
        let (outcome, replies) = client.run(&offer);
        let end = match &outcome {
            Ok(Outcome::Agreed(_)) => 0,
            Ok(Outcome::StartTls(_)) => 1,
            Ok(Outcome::Ended(_)) => 2,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                3
            }
        };
        ends[end] += 1;
        // The answer to EXPORT_NAME at the end is not an option reply.
        let by_name = end == 0 && replies.ends_with(&[0; 124]);
        kinds(&replies[..replies.len() - if by_name { 10 + 124 } else { 0 }]);
    }
    assert!(ends.into_iter().all(|count| count > 100), "{ends:?}");
}
