// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files in `vectors/`: known answers in the format of NIST's CAVP response files.
//! `vectors/SOURCE.md` lists where each comes from.
//!
//! Each line is empty, a comment (`#`), a section (`[ENCRYPT]`) or `NAME = value`. An empty line
//! ends a record. Names are not case-sensitive. Everything else is an error, because a skipped line
//! would be a test that never runs.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use luxor_engine::{Mode, TweakSchedule};

use crate::parallel_ofb::Form;

/// One file of known answers, and how many of its records must run.
#[derive(Clone, Copy, Debug)]
pub struct VectorFile {
    /// The path below `vectors/`.
    pub path: &'static str,
    /// The mode of the records. For parallel tweakable OFB, these are the records in the section
    /// with the mode's name.
    pub mode: Mode,
    /// The number of records of whole bytes under AES-128 or AES-256, which every backend runs.
    pub run: usize,
    /// The number of records under AES-192.
    pub aes192: usize,
    /// The number of records with data units that end within a byte.
    pub part_bytes: usize,
}

/// All files, except those with key schedules and the table of `gf128`.
#[rustfmt::skip]
pub const FILES: &[VectorFile] = &[
    file("xts/ieee1619-2007-annex-b.txt", Mode::Xts, 19, 0, 0),
    file("xts/tweak-128hexstr-XTSGenAES128.rsp", Mode::Xts, 800, 0, 200),
    file("xts/tweak-128hexstr-XTSGenAES256.rsp", Mode::Xts, 600, 0, 400),
    file("xts/tweak-dataunitseqno-XTSGenAES128.rsp", Mode::Xts, 800, 0, 200),
    file("xts/tweak-dataunitseqno-XTSGenAES256.rsp", Mode::Xts, 600, 0, 400),
    file("aes/fips197.txt", Mode::Ecb, 3, 1, 0),
    file("ecb/sp800-38a-f1.txt", Mode::Ecb, 2, 1, 0),
    file("ctr/aes-128-ctr.txt", Mode::Ctr, 3, 0, 0),
    file("ctr/aes-192-ctr.txt", Mode::Ctr, 0, 3, 0),
    file("ctr/aes-256-ctr.txt", Mode::Ctr, 3, 0, 0),
    file("ctr/sp800-38a-f5.txt", Mode::Ctr, 2, 1, 0),
    file("cbc/CBCGFSbox128.rsp", Mode::Cbc, 14, 0, 0),
    file("cbc/CBCGFSbox192.rsp", Mode::Cbc, 0, 12, 0),
    file("cbc/CBCGFSbox256.rsp", Mode::Cbc, 10, 0, 0),
    file("cbc/CBCKeySbox128.rsp", Mode::Cbc, 42, 0, 0),
    file("cbc/CBCKeySbox192.rsp", Mode::Cbc, 0, 48, 0),
    file("cbc/CBCKeySbox256.rsp", Mode::Cbc, 32, 0, 0),
    file("cbc/CBCMMT128.rsp", Mode::Cbc, 20, 0, 0),
    file("cbc/CBCMMT192.rsp", Mode::Cbc, 0, 20, 0),
    file("cbc/CBCMMT256.rsp", Mode::Cbc, 20, 0, 0),
    file("cbc/linux-essiv.txt", Mode::Cbc, 3, 1, 0),
    file("cbc/sp800-38a-f2.txt", Mode::Cbc, 2, 1, 0),
    file("ofb/OFBMMT128.rsp", Mode::Ofb, 20, 0, 0),
    file("ofb/OFBMMT192.rsp", Mode::Ofb, 0, 20, 0),
    file("ofb/OFBMMT256.rsp", Mode::Ofb, 20, 0, 0),
    file("ofb/OFBVarKey128.rsp", Mode::Ofb, 256, 0, 0),
    file("ofb/OFBVarKey192.rsp", Mode::Ofb, 0, 384, 0),
    file("ofb/OFBVarKey256.rsp", Mode::Ofb, 512, 0, 0),
    file("ofb/sp800-38a-f4.txt", Mode::Ofb, 2, 1, 0),
    file("parallel-ofb/damjanovic-simic-2015.txt", Mode::OfbXex, 25, 0, 0),
    file("parallel-ofb/damjanovic-simic-2015.txt", Mode::OfbXe, 25, 0, 0),
];

const fn file(
    path: &'static str,
    mode: Mode,
    run: usize,
    aes192: usize,
    part_bytes: usize,
) -> VectorFile {
    VectorFile {
        path,
        mode,
        run,
        aes192,
        part_bytes,
    }
}

/// One known answer.
#[derive(Clone, Debug)]
pub struct KnownAnswer {
    /// The line of the file where the record begins.
    pub line: usize,
    /// The key: for XTS the data key and the tweak key, for ESSIV the key and its hash, for
    /// parallel tweakable OFB K1 and K2.
    pub key: Vec<u8>,
    /// Only for parallel tweakable OFB.
    pub form: Option<Form>,
    /// The data unit number, initial counter or IV; 0 for ECB.
    pub number: u128,
    /// The plaintext of one data unit.
    pub plaintext: Vec<u8>,
    /// The ciphertext, of the same length.
    pub ciphertext: Vec<u8>,
}

impl VectorFile {
    /// Reads the records that are whole bytes, AES-192 included.
    ///
    /// # Errors
    /// [`VectorError`], also if the number of records is not the expected one.
    pub fn read(&self) -> Result<Vec<KnownAnswer>, VectorError> {
        let mut answers = Vec::new();
        let mut part_bytes = 0;
        for record in read(self.path)? {
            if is_parallel(self.mode) && !record.section().eq_ignore_ascii_case(self.mode.name()) {
                continue;
            }
            match self.known_answer(&record)? {
                Some(answer) => answers.push(answer),
                None => part_bytes += 1,
            }
        }
        let expected = (self.run + self.aes192, self.part_bytes);
        let found = (answers.len(), part_bytes);
        if found != expected {
            return Err(VectorError::Count {
                file: self.path,
                found,
                expected,
            });
        }
        Ok(answers)
    }

    /// Whether an answer is under AES-192.
    #[must_use]
    pub fn is_aes192(&self, answer: &KnownAnswer) -> bool {
        match self.mode {
            // These modes have no AES-192: 24 bytes are not a valid key.
            Mode::Xts | Mode::OfbXex | Mode::OfbXe => false,
            // With ESSIV, a hash of 32 bytes follows the key.
            Mode::Cbc => matches!(answer.key.len(), 24 | 56),
            _ => answer.key.len() == 24,
        }
    }

    /// Returns `None` for a data unit that ends within a byte.
    fn known_answer(&self, record: &Record) -> Result<Option<KnownAnswer>, VectorError> {
        let (number, [plaintext, ciphertext]) = match self.mode {
            Mode::Xts => {
                let bits = record.number("DataUnitLen")?;
                if !bits.is_multiple_of(8) {
                    return Ok(None);
                }
                let number = if record.has("i") {
                    u128::from_le_bytes(record.block("i")?)
                } else {
                    record.number("DataUnitSeqNumber")?
                };
                let texts = [record.bytes("PT")?, record.bytes("CT")?];
                if texts.iter().any(|text| text.len() as u128 * 8 != bits) {
                    return Err(record.error("PT", "of a length other than DataUnitLen"));
                }
                (number, texts)
            }
            Mode::Cbc => {
                let name = if record.has("SALT") { "I" } else { "IV" };
                let texts = [record.bytes("PLAINTEXT")?, record.bytes("CIPHERTEXT")?];
                (u128::from_le_bytes(record.block(name)?), texts)
            }
            Mode::Ecb => (0, [record.bytes("PLAINTEXT")?, record.bytes("CIPHERTEXT")?]),
            _ => (
                u128::from_be_bytes(record.block("IV")?),
                [record.bytes("PLAINTEXT")?, record.bytes("CIPHERTEXT")?],
            ),
        };
        if plaintext.is_empty() || plaintext.len() != ciphertext.len() {
            return Err(record.error("PLAINTEXT", "empty, or not as long as the ciphertext"));
        }
        let form = if is_parallel(self.mode) {
            Some(record.form()?)
        } else {
            None
        };
        let mut key = record.bytes("KEY")?;
        if record.has("SALT") {
            key.extend(record.bytes("SALT")?);
        }
        Ok(Some(KnownAnswer {
            line: record.line,
            key,
            form,
            number,
            plaintext,
            ciphertext,
        }))
    }
}

fn is_parallel(mode: Mode) -> bool {
    matches!(mode, Mode::OfbXex | Mode::OfbXe)
}

/// Reads the records of the file at `path` below `vectors/`.
///
/// # Errors
/// [`VectorError::Read`] if the file cannot be read, [`VectorError::Syntax`] if a line breaks the
/// format.
pub fn read(path: &'static str) -> Result<Vec<Record>, VectorError> {
    let full = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../vectors")
        .join(path);
    let text = fs::read_to_string(&full).map_err(|source| VectorError::Read { full, source })?;
    parse(path, &text)
}

/// Parses the records in `text`. Errors name it `file`.
///
/// # Errors
/// [`VectorError::Syntax`] at the first line that breaks the format.
pub fn parse(file: &'static str, text: &str) -> Result<Vec<Record>, VectorError> {
    let mut records = Vec::new();
    let mut section: Option<&str> = None;
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut first_line = 0;
    for (line, content) in (1..).zip(text.lines().chain([""])) {
        let content = content.trim();
        let error = |what| VectorError::Syntax { file, line, what };
        if content.starts_with('#') {
            continue;
        }
        if content.is_empty() {
            if !fields.is_empty() {
                let section = section
                    .ok_or(error("a record before any [SECTION]"))?
                    .to_owned();
                let fields = std::mem::take(&mut fields);
                records.push(Record {
                    file,
                    line: first_line,
                    section,
                    fields,
                });
            }
        } else if let Some(name) = content.strip_prefix('[').and_then(|c| c.strip_suffix(']')) {
            if !fields.is_empty() {
                return Err(error("a section within a record"));
            }
            section = Some(name);
        } else {
            let (name, value) = content
                .split_once('=')
                .ok_or(error("neither a comment, a section nor NAME = value"))?;
            let name = name.trim().to_ascii_lowercase();
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(error("a name that its record has already"));
            }
            if fields.is_empty() {
                first_line = line;
            }
            fields.push((name, value.trim().to_owned()));
        }
    }
    Ok(records)
}

/// A record: a list of names with values.
#[derive(Clone, Debug)]
pub struct Record {
    file: &'static str,
    line: usize,
    section: String,
    fields: Vec<(String, String)>,
}

impl Record {
    /// The line of the file where the record begins.
    #[must_use]
    pub fn line(&self) -> usize {
        self.line
    }

    /// The section that contains the record, without the brackets.
    #[must_use]
    pub fn section(&self) -> &str {
        &self.section
    }

    /// Whether the record has a value of that name.
    #[must_use]
    pub fn has(&self, name: &'static str) -> bool {
        self.text(name).is_ok()
    }

    /// The value of that name.
    ///
    /// # Errors
    /// [`VectorError::Field`] if it is missing.
    pub fn text(&self, name: &'static str) -> Result<&str, VectorError> {
        self.fields
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
            .ok_or(self.error(name, "missing"))
    }

    /// The value as a decimal number.
    ///
    /// # Errors
    /// [`VectorError::Field`] if it is missing or not a decimal number.
    pub fn number(&self, name: &'static str) -> Result<u128, VectorError> {
        self.text(name)?
            .parse()
            .map_err(|_| self.error(name, "no decimal number"))
    }

    /// The value as hexadecimal bytes.
    ///
    /// # Errors
    /// [`VectorError::Field`] if it is missing or not hexadecimal.
    pub fn bytes(&self, name: &'static str) -> Result<Vec<u8>, VectorError> {
        from_hex(self.text(name)?).ok_or(self.error(name, "no hexadecimal bytes"))
    }

    /// The value as 16 hexadecimal bytes.
    ///
    /// # Errors
    /// [`VectorError::Field`] if it is missing or not 16 hexadecimal bytes.
    pub fn block(&self, name: &'static str) -> Result<[u8; 16], VectorError> {
        self.bytes(name)?
            .try_into()
            .map_err(|_| self.error(name, "not 16 bytes"))
    }

    /// The form of parallel tweakable OFB.
    fn form(&self) -> Result<Form, VectorError> {
        let chains = match self.text("CHAINS")? {
            "1" => 1,
            "2" => 2,
            _ => return Err(self.error("CHAINS", "neither 1 nor 2")),
        };
        let schedule = match self.text("TWEAKS")? {
            "alpha" => TweakSchedule::Alpha,
            "printed" => TweakSchedule::Printed,
            _ => return Err(self.error("TWEAKS", "neither alpha nor printed")),
        };
        Ok(Form { chains, schedule })
    }

    fn error(&self, name: &'static str, what: &'static str) -> VectorError {
        VectorError::Field {
            file: self.file,
            line: self.line,
            name,
            what,
        }
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| {
        char::from(c)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    text.as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

/// Why a file of known answers was rejected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorError {
    /// The file cannot be read.
    #[error("{full}: {source}", full = full.display())]
    Read {
        /// The path of the file.
        full: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line does not follow the format.
    #[error("vectors/{file}, line {line}: {what}")]
    Syntax {
        /// The path below `vectors/`.
        file: &'static str,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A record lacks a value or has a wrong one.
    #[error("vectors/{file}, record at line {line}: {name} is {what}")]
    Field {
        /// The path below `vectors/`.
        file: &'static str,
        /// The record's first line, from 1.
        line: usize,
        /// The name of the value.
        name: &'static str,
        /// What is wrong.
        what: &'static str,
    },
    /// The file has more or fewer records than expected.
    #[error(
        "vectors/{file} has {found:?} records (whole bytes, part bytes) instead of {expected:?}"
    )]
    Count {
        /// The path below `vectors/`.
        file: &'static str,
        /// The number of records of whole bytes, and of the others.
        found: (usize, usize),
        /// The expected numbers.
        expected: (usize, usize),
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const XTS: VectorFile = file("test", Mode::Xts, 1, 0, 1);

    #[test]
    fn records_come_with_their_section_and_line() {
        let text = "# a comment\r\n\r\n[ENCRYPT]\r\n\r\nCOUNT = 1\r\nKey = 0Aff\r\n\r\n\r\n\
                    [DECRYPT]\nCOUNT = 2\nKEY=\n";
        let records = parse("test", text).unwrap();
        assert_eq!(records.len(), 2);
        assert_eq!((records[0].section(), records[0].line()), ("ENCRYPT", 5));
        assert_eq!(records[0].bytes("KEY").unwrap(), [0x0a, 0xff]);
        assert_eq!((records[1].section(), records[1].line()), ("DECRYPT", 10));
        assert_eq!(records[1].number("count").unwrap(), 2);
        assert!(records[1].bytes("key").unwrap().is_empty());
    }

    #[test]
    fn unparsable_text_is_an_error() {
        for text in [
            "COUNT = 1\n",
            "[A]\nnonsense\n",
            "[A]\nX = 1\nX = 2\n",
            "[A]\nX = 1\n[B]\n",
        ] {
            assert!(
                matches!(parse("test", text), Err(VectorError::Syntax { .. })),
                "{text:?}"
            );
        }
        let record = &parse("test", "[A]\nODD = 123\nBAD = 0g\nSHORT = 00\n").unwrap()[0];
        assert!(record.bytes("ODD").is_err());
        assert!(record.bytes("BAD").is_err());
        assert!(record.block("SHORT").is_err());
        assert!(record.text("NONE").is_err());
        assert!(read("no/such/file").is_err());
    }

    #[test]
    fn part_bytes_are_skipped_and_wrong_lengths_are_not() {
        let record = |bits: &str| {
            let text = format!(
                "[A]\nDataUnitLen = {bits}\nKey = 00\nDataUnitSeqNumber = 7\nPT = 00\nCT = 00\n"
            );
            XTS.known_answer(&parse("test", &text).unwrap()[0])
        };
        assert!(record("130").unwrap().is_none());
        assert_eq!(record("8").unwrap().unwrap().number, 7);
        assert!(record("16").is_err());
    }

    #[test]
    fn modes_and_forms_of_a_file_are_distinguished() {
        let [xex, xe] = FILES.last_chunk().unwrap();
        let [xex, xe] = [xex, xe].map(|file| file.read().unwrap());
        assert_ne!(xex[0].line, xe[0].line);
        for answers in [xex, xe] {
            for form in Form::ALL {
                assert!(answers.iter().any(|answer| answer.form == Some(form)));
            }
        }
        let form = |chains: &str, tweaks: &str| {
            let text = format!("[OFB-XE]\nCHAINS = {chains}\nTWEAKS = {tweaks}\n");
            parse("test", &text).unwrap()[0].form()
        };
        let (chains, schedule) = (1, TweakSchedule::Printed);
        assert_eq!(form("1", "printed").unwrap(), Form { chains, schedule });
        assert!(form("3", "alpha").is_err());
        assert!(form("2", "beta").is_err());
    }

    #[test]
    fn a_file_with_another_number_of_records_is_refused() {
        let annex_b = FILES[0];
        assert_eq!(annex_b.read().unwrap().len(), 19);
        let more = VectorFile { run: 20, ..annex_b };
        assert!(matches!(
            more.read(),
            Err(VectorError::Count { found: (19, 0), .. })
        ));
    }
}
