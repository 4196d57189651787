// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random changes of metadata. A seed determines each of them.

use serde_json::{Value, json};

/// A random number generator, `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

/// Collects the paths of all values, such as `/keyslots/0/area`.
fn paths(value: &Value, path: &str, found: &mut Vec<String>) {
    let mut visit = |name: &str, value: &Value| {
        let path = format!("{path}/{name}");
        paths(value, &path, found);
        found.push(path);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| visit(name, value)),
        Value::Array(values) => {
            for (i, value) in values.iter().enumerate() {
                visit(&i.to_string(), value);
            }
        }
        _ => {}
    }
}

/// Returns a value that is valid for some field, at the edge of a range, or never valid.
fn value(random: &mut Random) -> Value {
    let texts = [
        "",
        "0",
        "1",
        "2",
        "31",
        "32",
        "512",
        "4096",
        "4097",
        "16384",
        "32768",
        "290816",
        "16777216",
        "16744448",
        "18446744073709551104",
        "18446744073709547520",
        "18446744073709551615",
        "18446744073709551616",
        "-1",
        "00",
        "+1",
        " 1",
        "0x10",
        "1e3",
        "dynamic",
        "crypt",
        "linear",
        "luks2",
        "reencrypt",
        "raw",
        "luks1",
        "pbkdf2",
        "argon2id",
        "argon2i",
        "sha256",
        "sha1",
        "nohash",
        "aes-xts-plain64",
        "aes",
        "aes-cbc-essiv:sha256",
        "capi:xts(aes)-plain64",
        "cipher_null-ecb",
        "null",
        "AAAAAAAAAAA=",
        "AAAA",
        "!!",
        "in-reencryption",
        "backup-final",
        "backup-previous",
        "allow-discards",
        "new-flag",
        "online-reencrypt-v2",
        "none",
        "journal",
        "checksum",
        "x",
    ];
    match random.below(8) {
        0 => Value::Null,
        1 => json!(random.below(2) == 0),
        2 => json!(*random.choose(&[
            -1_i64,
            0,
            1,
            2,
            3,
            4,
            8,
            16,
            31,
            32,
            64,
            512,
            513,
            520,
            1024,
            2048,
            4000,
            4096,
            8192,
            1_000_000,
            2_147_483_647,
            2_147_483_648,
            4_294_967_295,
            4_294_967_296,
            i64::MAX,
        ])),
        3 => json!(*random.choose(&[0.5, 1.0, 1e300, -1.5])),
        4 => random
            .choose(&[
                json!([]),
                json!(["0"]),
                json!(["1", "0"]),
                json!(["0", "0"]),
                json!(["7"]),
                json!([0]),
            ])
            .clone(),
        5 => random
            .choose(&[
                json!({}),
                json!({"0": {}}),
                json!({"x": "y"}),
                json!({"mandatory": []}),
                json!({"mandatory": ["x"]}),
            ])
            .clone(),
        _ => json!(*random.choose(&texts)),
    }
}

/// Makes one to three changes that keep the text valid JSON and use names and values of the
/// metadata.
pub fn mutated(original: &Value, seed: u64) -> Value {
    let mut random = Random(seed);
    let mut json = original.clone();
    for _ in 0..=random.below(3) {
        let mut all = Vec::new();
        paths(&json, "", &mut all);
        if all.is_empty() {
            break;
        }
        let path = random.choose(&all).clone();
        let (parent, name) = path.rsplit_once('/').unwrap();
        match random.below(10) {
            0 => {
                if let Some(members) = json.pointer_mut(parent).unwrap().as_object_mut() {
                    members.shift_remove(name);
                }
            }
            // Rename the member, or add a copy under another name.
            1 | 2 => {
                let copy = json.pointer(&path).unwrap().clone();
                let other = *random.choose(&[
                    "0",
                    "1",
                    "2",
                    "3",
                    "31",
                    "32",
                    "33",
                    "-1",
                    "01",
                    "x",
                    "",
                    "flags",
                    "integrity",
                    "requirements",
                    "priority",
                ]);
                if let Some(members) = json.pointer_mut(parent).unwrap().as_object_mut() {
                    members.insert(other.into(), copy);
                    if random.below(2) == 0 {
                        members.shift_remove(name);
                    }
                }
            }
            // Use the value of another member.
            3 => {
                let from = random.choose(&all).clone();
                let copy = json.pointer(&from).unwrap().clone();
                if copy.to_string().len() < 2000 {
                    *json.pointer_mut(&path).unwrap() = copy;
                }
            }
            // Set a member that the object may have.
            4 => {
                let names = [
                    "flags",
                    "integrity",
                    "priority",
                    "requirements",
                    "mode",
                    "direction",
                    "x",
                ];
                let new = value(&mut random);
                let name = *random.choose(&names);
                if let Some(members) = json.pointer_mut(&path).unwrap().as_object_mut() {
                    members.insert(name.into(), new);
                }
            }
            // Add a typical amount to the number.
            5 | 6 => {
                let target = json.pointer_mut(&path).unwrap();
                let by = *random.choose(&[-4096_i64, -512, -1, 1, 512, 4096, 1 << 20, 1 << 40]);
                if let Some(number) = target.as_i64() {
                    *target = json!(number.wrapping_add(by));
                } else if let Some(number) =
                    target.as_str().and_then(|text| text.parse::<u64>().ok())
                {
                    *target = json!(number.wrapping_add_signed(by).to_string());
                }
            }
            _ => *json.pointer_mut(&path).unwrap() = value(&mut random),
        }
    }
    json
}

/// Makes one or two changes of the text itself: to its bytes, to its tokens, or to JSON that only
/// some parsers accept.
pub fn mutated_text(original: &[u8], seed: u64) -> Vec<u8> {
    const TOKENS: &[&[u8]] = &[
        b"\"",
        b"'",
        b",",
        b":",
        b"{",
        b"}",
        b"[",
        b"]",
        b"null",
        b"true",
        b"TRUE",
        b"NaN",
        b"Infinity",
        b"-",
        b"+",
        b"0",
        b"00",
        b".",
        b"e",
        b"1e1",
        b"\\u0000",
        b"\\",
        b"\\/",
        b"\\ud800",
        b"/*x*/",
        b"//x\n",
        b" ",
        b"\t",
        b"\n",
        b"\x01",
        b"\0",
        b"\xff",
        b"\xc3\xa9",
        b"\xed\xa0\x80",
        b"4096",
        b"\"0\"",
        b"9999999999999999999999999",
        b"-1",
        b"\"\"",
    ];
    const MEMBERS: &[&[u8]] = &[
        b"\"x\":TRUE",
        b"\"x\":Null",
        b"\"x\":nan",
        b"\"x\":-Infinity",
        b"\"x\":1e400",
        b"\"x\":1.",
        b"\"x\":.5",
        b"\"x\":01",
        b"\"x\":-",
        b"\"x\":1e",
        b"\"x\":-0",
        b"\"x\":[1,]",
        b"\"x\":{\"a\":1,}",
        b"\"x\":\"a\x01b\"",
        b"\"x\":\"a\nb\"",
        b"\"x\":\"a\xffb\"",
        b"\"x\":\"\\ud800\"",
        b"\"x\":\"\\udc00\"",
        b"\"x\":\"\\x41\"",
        b"\"x\":\"\\ud83d\\ude00\"",
        b"\"ty\\u0000pe\":1",
        b"\"\\u0074ype\":\"x\"",
        b"\"type\":\"x\"",
        b"\"size\":\"4096\"",
        b"'x':1",
        b"/*x*/\"x\":1",
        b"//x\n\"x\":1",
        b"\"x\":18446744073709551616",
    ];
    let mut random = Random(seed);
    let mut text = original.to_vec();
    for _ in 0..=random.below(2) {
        let at = 1 + random.below(text.len() - 2);
        let next = |text: &[u8], byte: u8| {
            let mut places = (at..text.len()).filter(|&place| text[place] == byte);
            Some((places.next()?, places.next()?))
        };
        match random.below(9) {
            0 => drop(text.splice(at..at, random.choose(TOKENS).iter().copied())),
            1 => drop(text.splice(at..=at, random.choose(TOKENS).iter().copied())),
            2 => {
                let end = text.len().min(at + *random.choose(&[1, 1, 2, 5, 20]));
                text.drain(at..end);
            }
            3 => text[at] ^= 1 << random.below(8),
            4 => {
                let from = random.below(text.len() - 1);
                let end = text.len().min(from + 1 + random.below(60));
                let piece = text[from..end].to_vec();
                text.splice(at..at, piece);
            }
            5 => {
                if let Some((brace, _)) = next(&text, b'{') {
                    let member = random.choose(MEMBERS).iter().copied().chain([b',']);
                    text.splice(brace + 1..=brace, member);
                }
            }
            // Use other quotes for a string.
            6 => {
                if let Some((first, second)) = next(&text, b'"') {
                    text[first] = b'\'';
                    text[second] = b'\'';
                }
            }
            // Put something before or after a number.
            7 => {
                if let Some(digit) = (at..text.len()).find(|&place| text[place].is_ascii_digit()) {
                    let end = (digit..text.len()).find(|&place| !text[place].is_ascii_digit());
                    let end = end.unwrap_or(text.len());
                    let (place, more) = *random.choose::<(usize, &[u8])>(&[
                        (digit, b"0"),
                        (digit, b"+"),
                        (digit, b" "),
                        (end, b".0"),
                        (end, b"e0"),
                        (end, b"\\u0000abc"),
                        (end, b" "),
                    ]);
                    text.splice(place..place, more.iter().copied());
                }
            }
            _ => {
                text.extend_from_slice(random.choose::<&[u8]>(&[b" ", b"\n", b"}", b"{}", b"\0x"]));
            }
        }
    }
    text
}

/// Changes one or two fields of the phdr. Returns the header and a description of the changes.
pub fn mutated_luks1(original: &[u8], seed: u64) -> (Vec<u8>, String) {
    let mut random = Random(seed);
    let mut bytes = original.to_vec();
    let mut what = String::new();
    let texts: &[&[u8]] = &[
        b"",
        b"aes",
        b"serpent",
        b"zzz",
        b"cipher_null",
        b"ecb",
        b"xts-plain64",
        b"xts-plain",
        b"cbc-essiv:sha256",
        b"cbc-plain",
        b"sha1",
        b"sha256",
        b"SHA256",
        b"sha224",
        b"sha512",
        b"ripemd160",
        b"whirlpool",
        b"md5",
        b"sha3-256",
        b"nohash",
        b"\xff\xff",
        b"a\x1b[31m",
        b"00000000-0000-0000-0000-000000000000",
        &[b'a'; 40],
    ];
    let numbers = [
        0,
        1,
        2,
        7,
        8,
        16,
        32,
        33,
        48,
        64,
        128,
        504,
        1000,
        3999,
        4000,
        4001,
        4096,
        5000,
        0xdead,
        0x00ac_71f3,
        0xdead_beef,
        0x7fff_ffff,
        0x8000_0000,
        u32::MAX,
    ];
    for _ in 0..=random.below(2) {
        let slot = 208 + 48 * random.below(8);
        let (start, len, value) = match random.below(4) {
            0 => {
                let (start, len) = *random.choose(&[(8, 32), (40, 32), (72, 32), (168, 40)]);
                let mut value = random.choose(texts).to_vec();
                value.resize(len, 0);
                (start, len, value)
            }
            1 => {
                let start = *random.choose(&[104, 108, 164]);
                (start, 4, random.choose(&numbers).to_be_bytes().to_vec())
            }
            // The state, iterations, offset or stripes.
            2 => {
                let start = slot + *random.choose(&[0, 4, 40, 44]);
                let there = u32::from_be_bytes(bytes[start..][..4].try_into().unwrap());
                let near = [there.wrapping_add(1), there.wrapping_sub(8), there ^ 1 << 9];
                let value = match random.below(2) {
                    0 => *random.choose(&near),
                    _ => *random.choose(&numbers),
                };
                (start, 4, value.to_be_bytes().to_vec())
            }
            _ => {
                let start = 6 + random.below(592 - 6);
                let value = u8::try_from(random.below(256)).unwrap();
                (start, 1, vec![value])
            }
        };
        bytes[start..][..len].copy_from_slice(&value);
        what += &format!(
            "LUKS1, byte {start}: {:?}; ",
            value.escape_ascii().to_string()
        );
    }
    (bytes, what)
}
