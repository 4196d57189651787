// SPDX-License-Identifier: MIT OR Apache-2.0
//! What json-c 0.16 makes of texts, found with `json_tokener_parse_ex` and
//! `json_object_to_json_string_ext`.

use super::*;
use crate::luks2::{edit::JsonMembers, json::Node};

/// Returns what json-c would write.
fn written(text: &[u8]) -> Result<Vec<u8>, JsonError> {
    Ok(encode(&decode(text)?).into_owned())
}

#[test]
fn the_dialect_of_json_c_is_read() {
    let texts: [(&[u8], &[u8]); 30] = [
        (br#" { "a" : [ 1 , { } ] } "#, br#"{"a":[1,{}]}"#),
        // Members that occur twice, and zero characters in keys.
        (br#"{"a":1,"b":2,"a":3}"#, br#"{"a":3,"b":2}"#),
        (
            br#"{"a":{"c":1,"c":2},"b":[{"x":1,"x":[2],"x":{"y":0,"y":1}}],"a":{"c":4}}"#,
            br#"{"a":{"c":4},"b":[{"x":{"y":1}}]}"#,
        ),
        (
            br#"{"a\u0000b":1,"a":2,"":3,"\u0000":4}"#,
            br#"{"a":2,"":4}"#,
        ),
        (br#"{"\u0061":1,"a":2}"#, br#"{"a":2}"#),
        // Strings.
        (
            br#"["x\u0000y\u001F\b\f\n\r\t"]"#,
            br#"["x\u0000y\u001f\b\f\n\r\t"]"#,
        ),
        (b"[\"\x01\t\n\x7f\xff\"]", b"[\"\\u0001\\t\\n\x7f\xff\"]"),
        (
            br#"['a"b',"it's",'\"','\/']"#,
            br#"["a\"b","it's","\"","/"]"#,
        ),
        (
            br#"["\ud83d","\ude00"]"#,
            "[\"\u{fffd}\",\"\u{fffd}\"]".as_bytes(),
        ),
        (br#"["\ud83d\ude00"]"#, "[\"\u{1f600}\"]".as_bytes()),
        (
            br#"["\ud83dx\ud83d\n"]"#,
            "[\"\u{fffd}x\u{fffd}\\n\"]".as_bytes(),
        ),
        (
            br#"["\ud83d\ud83d\ude00\ud83d\u0041"]"#,
            "[\"\u{fffd}\u{1f600}\u{fffd}A\"]".as_bytes(),
        ),
        (
            br#"["\ud836\udc00","\ud836\udc00\udc01","\ud837\udc00"]"#,
            "[\"\u{fffd}\",\"\u{10001}\",\"\u{fffd}\"]".as_bytes(),
        ),
        // Commas and comments.
        (b"[1,2,]", b"[1,2]"),
        (b"{'a':1,}", b"{\"a\":1}"),
        (b"/*a*/{/**/'a'//\n:/*{}*/1/*d*/,//e\n}/*f*/", b"{\"a\":1}"),
        (b"[1/* * */]", b"[1]"),
        (b"[1/***/,2]/* */]", b"[1]"),
        (b"{}//", b"{}"),
        (b"{}/* * x", b"{}"),
        (b"{}\n\0x", b"{}"),
        // Literals and numbers.
        (b"[NULL,nUll,True,FALSE]", b"[null,null,true,false]"),
        (b"[nan,NAN,NaN]", b"[NaN,NaN,NaN]"),
        (
            b"[infinity,iNFINITY,-Infinity,-infinity]",
            b"[Infinity,Infinity,-Infinity,-Infinity]",
        ),
        (b"[01,-01,00,-0,-00,007,0]", b"[1,-1,0,0,0,7,0]"),
        (
            b"[-.5,-.5e3,-.0,-.5E+,1.,1.e5,1.5e,1.-,1.+,1.+e,1.-e]",
            b"[-.5,-.5e3,-.0,-.5,1.,1.e5,1.5,1.,1.,1.,1.]",
        ),
        (b"[01.5,1e5,1E+5,1e-5,1e400]", b"[01.5,1e5,1E+5,1e-5,1e400]"),
        (b"[1/**/,2 ,3\n]", b"[1,2,3]"),
        // json-c writes these without the letter.
        (b"[1e,64E+,-5e-,00e]", b"[1e,64e,-5e,00e]"),
        // json-c clamps it.
        (b"[99999999999999999999]", b"[99999999999999999999]"),
    ];
    for (text, expected) in texts {
        let shown = String::from_utf8_lossy(text);
        let found = written(text).unwrap_or_else(|error| panic!("{error}: {shown}"));
        assert_eq!(
            String::from_utf8_lossy(&found),
            String::from_utf8_lossy(expected),
            "{shown}"
        );
        assert_eq!(found, expected, "{shown}");
        assert_eq!(written(&found).unwrap(), found, "{shown}");
        let decoded = decode(text).unwrap();
        assert_eq!(decode(&found).unwrap(), decoded, "{shown}");
        Node::parse(&decoded).unwrap_or_else(|error| panic!("{error}: {shown}"));
    }
}

#[test]
fn numbers_have_a_spelling_that_other_parsers_read() {
    let text = decode(b"[1.,-1.,-.5,01.5,-007.e5,1.e-5,00.0,64e,1.50,1e400,NaN,-Infinity,\"1.\"]")
        .unwrap();
    let expected = "[1.0,-1.0,-0.5,1.5,-7.0e5,1.0e-5,0.0,64.0,1.50,1.0e400,NaN,-Infinity,\"1.\"]";
    assert_eq!(String::from_utf8_lossy(&encode_usual(&text)), expected);
}

#[test]
fn a_number_with_an_empty_exponent_is_shown_without_it_and_is_not_whole() {
    let text = decode(b"[64e,064,64e0,00E]").unwrap();
    assert_eq!(&*encode_shown(&text), b"[64,64,64e0,00]");
    let numbers = [64.0, 64.0, 0.0].map(Node::Number);
    let [first, third, fourth] = numbers;
    let expected = [first, Node::Unsigned(64), third, fourth];
    assert_eq!(Node::parse(&text).unwrap(), Node::Array(expected.into()));
}

#[test]
fn what_json_c_refuses_is_refused() {
    for text in [
        "",
        "{",
        "[",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "[1",
        "\"",
        "[,1]",
        "{,}",
        "[1,,2]",
        "[1 2]",
        "{a:1}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":1}x",
        "{\"a\":1}/",
        "[1/]",
        "[1/x]",
        "[1/***/",
        "/",
        "[\"\\'\"]",
        "[\"\\x\"]",
        "[\"\\u00g0\"]",
        "[\"\\ud83d\\x\"]",
        "[\"\\ud83d\\u12\"]",
        "[+1]",
        "[.5]",
        "[-]",
        "[1.-5]",
        "[1.+5]",
        "[1e5.5]",
        "[1e+-]",
        "[-e]",
        "[-.]",
        "[-.e5]",
        "[1e5e5]",
        "[1-2]",
        "[--1]",
        "[1.5.5]",
        "[0x10]",
        "[1\"a\"]",
        "[1:]",
        "[1i]",
        "[-1Infinity]",
        "[- Infinity]",
        "[-NaN]",
        "[nulll]",
        "[Infinityy]",
        "[tru]",
        "[e5]",
    ] {
        assert!(decode(text.as_bytes()).is_err(), "{text}");
        assert!(decode(format!("{text}\0").as_bytes()).is_err(), "{text}");
    }
    for more in ["{\"a\":1}x", "{\"a\":1} /**/ {", "{\"a\":1}\0/"] {
        assert_eq!(decode_first(more.as_bytes()).unwrap(), "{\"a\":1}");
    }
    assert!(decode_first(b"{\"a\":1}/").is_err());
}

#[test]
fn an_error_has_its_place() {
    let error = decode(b"{\n \"a\": 1,\n  b\n}").unwrap_err();
    let expected = "expected a key in quotes, or } at line 3 column 3";
    assert_eq!(error.to_string(), expected);
    let error = decode(b"[1,").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the text ends too early at line 1 column 4"
    );
}

/// json-c counts in this way: `cryptsetup` reads 32 levels.
#[test]
fn deep_nesting_is_an_error() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let parse = |levels, inner: &str| {
            let [open, close] = [open, close].map(|bracket| bracket.repeat(levels));
            decode(format!("{open}{inner}{close}").as_bytes())
        };
        assert!(parse(31, "1").is_ok());
        assert!(parse(31, "[]").is_ok());
        for (levels, inner) in [(32, "1"), (32, "[]"), (33, "1")] {
            let error = parse(levels, inner).unwrap_err();
            assert_eq!(error, JsonError::TooDeep);
        }
        assert!(decode(open.repeat(1 << 20).as_bytes()).is_err());
    }
}

/// A header is what one reading of it says, whatever characters its keys and values have.
#[test]
fn what_is_read_is_what_is_written() {
    let strings: [&[u8]; 20] = [
        b"a",
        b"\\\"",
        b"\\\\",
        b"\\u0022",
        b"\\u0000",
        b"\\/",
        b"\t",
        b"'",
        b"\\u00e9",
        b"\xc3\xa9",
        b"\xc3",
        b"\xa9",
        b"\xf4\x8f",
        b"\xfe",
        b"\xf4\x8f\xbc\x80",
        b"\xf4\x8f\xbf\xbf",
        b"\\udbff\\udf00",
        b"\\uDBFF\\uDF22",
        b"\\uDbfF\\udFfe",
        b"\\udbff",
    ];
    let numbers = [
        "1", "-.5", "1e400", "Infinity", "1.50", "01.5", "64e", "007",
    ];
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    for _ in 0..20_000 {
        let mut bytes = b"{".to_vec();
        for member in 0..random(4) {
            let comma = if member == 0 { "\"" } else { ",\"" };
            bytes.extend(comma.as_bytes());
            for _ in 0..random(4) {
                bytes.extend(strings[random(strings.len())]);
            }
            bytes.extend(format!("{}\":", random(3)).as_bytes());
            if random(2) == 0 {
                bytes.extend(numbers[random(numbers.len())].as_bytes());
                continue;
            }
            bytes.push(b'"');
            for _ in 0..random(4) {
                bytes.extend(strings[random(strings.len())]);
            }
            bytes.push(b'"');
        }
        bytes.push(b'}');
        let shown = String::from_utf8_lossy(&bytes);
        let text = decode(&bytes).unwrap_or_else(|error| panic!("{error}: {shown}"));
        Node::parse(&text).unwrap_or_else(|error| panic!("{error}: {shown}"));
        // An edit of an object writes its keys again.
        assert_eq!(JsonMembers::parse(&text).text(), text, "{shown}");
        assert_eq!(decode(&encode(&text)).unwrap(), text, "{shown}");
    }
}

/// Each level is written once more for the members that occur twice.
#[test]
fn members_that_occur_twice_cost_little() {
    let mut text = "[".to_owned();
    text.extend(std::iter::repeat_n("0,", 200_000));
    text.push(']');
    for _ in 0..30 {
        text = format!("{{\"a\":1,\"a\":{text}}}");
    }
    let begin = std::time::Instant::now();
    decode(text.as_bytes()).unwrap();
    assert!(begin.elapsed().as_secs() < 20);
}
