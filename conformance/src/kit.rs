// SPDX-License-Identifier: MIT OR Apache-2.0
//! A key loaded on a backend, and the comparison of its results with the reference's.

use luxor_engine::{
    AesKey, AesSize, Backend, BackendError, CbcKey, CryptError, DataUnitLen, DataUnitNumber,
    Direction, InOut, KeySize, KeySpec, LoadedKey, Mode, Run, XtsKey,
};
use luxor_reference as reference;

use crate::{parallel_ofb::Form, random::Random};

/// What defines a kind of key of a mode, apart from its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyKind {
    /// Only for parallel tweakable OFB.
    pub(crate) form: Option<Form>,
    /// The length in bytes.
    pub(crate) len: usize,
}

/// The kinds of keys of these sizes that a mode has: for CBC without and with ESSIV, for parallel
/// tweakable OFB in all forms, which have AES-128 and AES-256, as XTS has.
pub(crate) fn key_kinds(mode: Mode, sizes: &[AesSize]) -> Vec<KeyKind> {
    let sizes: Vec<usize> = sizes.iter().map(|size| size.bytes()).collect();
    let kind = |form, len| KeyKind { form, len };
    match mode {
        Mode::Xts => KeySize::ALL
            .map(|size| kind(None, 2 * size.bytes()))
            .to_vec(),
        Mode::Cbc => sizes
            .iter()
            .flat_map(|&len| [len, len + 32])
            .map(|len| kind(None, len))
            .collect(),
        Mode::OfbXex | Mode::OfbXe => Form::ALL
            .iter()
            .flat_map(|form| form.key_lens().iter().map(|&len| kind(Some(*form), len)))
            .collect(),
        _ => sizes.into_iter().map(|len| kind(None, len)).collect(),
    }
}

/// Whether data units of a mode must be whole blocks.
pub(crate) fn has_whole_blocks(mode: Mode) -> bool {
    matches!(mode, Mode::Ecb | Mode::Cbc)
}

/// A key that is loaded on a backend.
pub(crate) struct Kit {
    backend: &'static str,
    pub(crate) mode: Mode,
    form: Option<Form>,
    size: AesSize,
    bytes: Vec<u8>,
    loaded: Box<dyn LoadedKey>,
}

impl Kit {
    /// Loads a random key of every kind for every mode of the backend.
    pub(crate) fn all(backend: &dyn Backend, random: &mut Random) -> Vec<Self> {
        Self::of_kinds(backend, random, |_| true)
    }

    /// As [`Kit::all`], but for parallel tweakable OFB only the forms in [`Form::FEW`]. For axes in
    /// which the reference has much to compute.
    pub(crate) fn few(backend: &dyn Backend, random: &mut Random) -> Vec<Self> {
        Self::of_kinds(backend, random, |kind| {
            kind.form
                .is_none_or(|form| Form::FEW.contains(&(form, kind.len)))
        })
    }

    fn of_kinds(
        backend: &dyn Backend,
        random: &mut Random,
        wanted: fn(&KeyKind) -> bool,
    ) -> Vec<Self> {
        let info = backend.info();
        assert!(!info.modes.is_empty(), "the backend lists no mode");
        let mut kits = Vec::new();
        for &mode in info.modes {
            for kind in key_kinds(mode, info.key_sizes).into_iter().filter(wanted) {
                kits.push(Self::new(backend, mode, kind.form, random.bytes(kind.len)));
            }
        }
        kits
    }

    pub(crate) fn new(
        backend: &dyn Backend,
        mode: Mode,
        form: Option<Form>,
        bytes: Vec<u8>,
    ) -> Self {
        Self::load(backend, mode, form, bytes)
            .unwrap_or_else(|e| panic!("{mode} is among the backend's modes, yet {e}"))
    }

    /// As [`Kit::new`], for keys that the backend may refuse.
    pub(crate) fn load(
        backend: &dyn Backend,
        mode: Mode,
        form: Option<Form>,
        bytes: Vec<u8>,
    ) -> Result<Self, BackendError> {
        let spec = key_spec(mode, form, &bytes);
        let loaded = backend.load_key(&spec)?;
        Ok(Self {
            backend: backend.info().name,
            mode,
            form,
            size: spec.size(),
            bytes,
            loaded,
        })
    }

    pub(crate) fn size(&self) -> AesSize {
        self.size
    }

    pub(crate) fn loaded(&self) -> &dyn LoadedKey {
        &*self.loaded
    }

    /// The number of the data unit whose tweak in XTS is `t`.
    pub(crate) fn number_of(&self, t: u128) -> u128 {
        let (_, tweak_key) = self.bytes.split_at(self.bytes.len() / 2);
        u128::from_le_bytes(reference::Aes::new(tweak_key).decrypt(t.to_le_bytes()))
    }

    /// The reference's ciphertext for one data unit.
    pub(crate) fn reference(&self, number: u128, plaintext: &[u8]) -> Vec<u8> {
        match self.mode {
            Mode::Xts => reference::xts_encrypt(&self.bytes, number, plaintext),
            Mode::Ecb => reference::ecb_encrypt(&self.bytes, plaintext),
            Mode::Ctr => reference::ctr(&self.bytes, number, plaintext),
            Mode::Cbc => reference::cbc_encrypt(&self.bytes, number, plaintext),
            Mode::Ofb => reference::ofb(&self.bytes, number, plaintext),
            mode => match self.form {
                Some(form) => form.reference(mode, &self.bytes, number, plaintext),
                None => panic!("the reference has no {mode} yet"),
            },
        }
    }

    /// Makes a run of random plaintext with the reference's ciphertext.
    pub(crate) fn piece(&self, random: &mut Random, shape: Shape, place: Offsets) -> TestRun {
        let plaintext = random.bytes(shape.unit_len * shape.units);
        let ciphertext = plaintext
            .chunks_exact(shape.unit_len)
            .zip(shape.numbers())
            .flat_map(|(unit, number)| self.reference(number, unit))
            .collect();
        TestRun {
            shape,
            place,
            plaintext,
            ciphertext,
        }
    }

    /// As [`Kit::piece`], but with the ciphertext that the backend itself makes in one call. For
    /// comparisons with that ciphertext, at lengths for which the reference is too slow.
    pub(crate) fn piece_by_backend(
        &self,
        random: &mut Random,
        shape: Shape,
        place: Offsets,
    ) -> TestRun {
        let plaintext = random.bytes(shape.unit_len * shape.units);
        let mut piece = TestRun {
            shape,
            place,
            ciphertext: plaintext.clone(),
            plaintext,
        };
        let mut stage = Stage::new(&piece, Direction::Encrypt);
        self.loaded
            .crypt(Direction::Encrypt, &mut [stage.run()])
            .expect("valid runs");
        piece.ciphertext.copy_from_slice(stage.output.bytes());
        piece
    }

    /// As [`Kit::piece_by_backend`], but in several runs of `units` units, in place.
    pub(crate) fn piece_by_small_runs(
        &self,
        random: &mut Random,
        shape: Shape,
        units: usize,
    ) -> TestRun {
        let plaintext = random.bytes(shape.unit_len * shape.units);
        let mut ciphertext = plaintext.clone();
        let unit_len = DataUnitLen::new(shape.unit_len).expect("a valid length");
        let mut numbers = shape.numbers().step_by(units);
        for bytes in ciphertext.chunks_mut(units * shape.unit_len) {
            let first = numbers.next().expect("a number for each unit");
            let run = Run::new(first.into(), shape.stride, unit_len, bytes).expect("whole units");
            self.loaded
                .crypt(Direction::Encrypt, &mut [run])
                .expect("valid runs");
        }
        TestRun {
            shape,
            place: Offsets::InPlace(0),
            plaintext,
            ciphertext,
        }
    }

    /// Checks one random plaintext at one pair of offsets.
    pub(crate) fn check_one(&self, random: &mut Random, shape: Shape, place: Offsets) {
        self.check(&[self.piece(random, shape, place)]);
    }

    /// Checks one random plaintext at several offsets, with a call for each.
    pub(crate) fn check_places(&self, random: &mut Random, shape: Shape, places: &[Offsets]) {
        self.check_piece_at(self.piece(random, shape, places[0]), places);
    }

    /// Checks `piece` at several offsets, with a call for each.
    pub(crate) fn check_piece_at(&self, mut piece: TestRun, places: &[Offsets]) {
        for &place in places {
            piece.place = place;
            self.check(std::slice::from_ref(&piece));
        }
    }

    /// Checks all pieces in one call of [`LoadedKey::crypt`], in both directions.
    pub(crate) fn check(&self, pieces: &[TestRun]) {
        self.check_through(
            &|direction, runs| self.loaded.crypt(direction, runs),
            pieces,
        );
    }

    /// Checks all pieces in one call of `crypt`. Encryption must give the reference's ciphertext,
    /// and decryption of that the plaintext. (The reference's own tests show that it decrypts what
    /// it encrypts.) Nothing around the output may change, nor a separate input.
    pub(crate) fn check_through(&self, crypt: &Crypt<'_>, pieces: &[TestRun]) {
        for direction in Direction::ALL {
            let mut stages: Vec<_> = pieces.iter().map(|p| Stage::new(p, direction)).collect();
            let mut runs: Vec<_> = stages.iter_mut().map(Stage::run).collect();
            if let Err(e) = crypt(direction, &mut runs) {
                panic!("{}: {e}", self.describe(direction, pieces, 0));
            }
            for (at, (stage, piece)) in stages.iter().zip(pieces).enumerate() {
                if let Err(what) = stage.holds(piece.output(direction), piece.input(direction)) {
                    panic!("{}: {what}", self.describe(direction, pieces, at));
                }
            }
        }
    }

    /// Checks one call that must fail. Finished units must hold the results, all others the
    /// original input. A separate output may hold anything in the others, unless nothing is
    /// finished: then it must be unchanged.
    pub(crate) fn check_error(
        &self,
        crypt: &Crypt<'_>,
        direction: Direction,
        pieces: &[TestRun],
    ) -> CryptError {
        let mut stages: Vec<_> = pieces.iter().map(|p| Stage::new(p, direction)).collect();
        let mut runs: Vec<_> = stages.iter_mut().map(Stage::run).collect();
        let Err(error) = crypt(direction, &mut runs) else {
            panic!("{}: no error", self.describe(direction, pieces, 0));
        };
        let mut done = error.done;
        for (at, (stage, piece)) in stages.iter().zip(pieces).enumerate() {
            let units = done.min(piece.shape.units);
            done -= units;
            let (input, output) = (piece.input(direction), piece.output(direction));
            let finished = units * piece.shape.unit_len;
            let rest = match piece.place {
                Offsets::InPlace(_) => input[finished..].to_vec(),
                Offsets::Separate { .. } if error.done == 0 => vec![FRESH; input.len()],
                Offsets::Separate { .. } => stage.output.bytes()[finished..].to_vec(),
            };
            let expected = [&output[..finished], &rest].concat();
            if let Err(what) = stage.holds(&expected, input) {
                panic!(
                    "{}, after {error}: {what}",
                    self.describe(direction, pieces, at)
                );
            }
        }
        assert_eq!(done, 0, "{error}: more units than there are");
        error
    }

    fn describe(&self, direction: Direction, pieces: &[TestRun], at: usize) -> String {
        let Self {
            backend,
            mode,
            form,
            size,
            ..
        } = self;
        let more = self.bytes.len() - size.bytes();
        let form = form.map_or_else(String::new, |form| format!(", {form:?}"));
        let of = pieces.len();
        let piece = pieces.get(at).map(|p| (p.shape, p.place));
        format!(
            "{backend}, {mode}{form}, {size:?} + {more} bytes, {direction:?}, run {at} of {of}, \
             {piece:?}"
        )
    }
}

/// A function that encrypts or decrypts runs with a kit's key.
pub(crate) type Crypt<'a> = dyn Fn(Direction, &mut [Run<'_>]) -> Result<(), CryptError> + Sync + 'a;

/// Makes the key for `mode` from its bytes. Accepts equal halves in XTS, which vector 1 has.
pub(crate) fn key_spec(mode: Mode, form: Option<Form>, bytes: &[u8]) -> KeySpec {
    let aes = || AesKey::new(bytes).expect("16, 24 or 32 bytes");
    match mode {
        Mode::Xts => {
            KeySpec::Xts(XtsKey::new_permitting_equal_halves(bytes).expect("32 or 64 bytes of key"))
        }
        Mode::Ecb => KeySpec::Ecb(aes()),
        Mode::Ctr => KeySpec::Ctr(aes()),
        Mode::Cbc => KeySpec::Cbc(cbc_key(bytes)),
        Mode::Ofb => KeySpec::Ofb(aes()),
        mode => match form {
            Some(form) => KeySpec::ParallelOfb(form.key(mode, bytes)),
            None => panic!("the suite has no {mode} yet"),
        },
    }
}

/// Makes a key with ESSIV if the data key is followed by its hash.
fn cbc_key(bytes: &[u8]) -> CbcKey {
    let data = |bytes| AesKey::new(bytes).expect("16, 24 or 32 bytes");
    match bytes.split_last_chunk::<32>() {
        Some((key, hash)) if !key.is_empty() => CbcKey::essiv_sha256(data(key), hash),
        _ => CbcKey::plain(data(bytes)),
    }
}

/// The lengths and numbers of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) unit_len: usize,
    pub(crate) units: usize,
    pub(crate) first: u128,
    pub(crate) stride: u64,
}

impl Shape {
    pub(crate) fn one(unit_len: usize, number: u128) -> Self {
        Self {
            unit_len,
            units: 1,
            first: number,
            stride: 1,
        }
    }

    /// The numbers by definition: unit k has first + k · stride modulo 2¹²⁸.
    fn numbers(self) -> impl Iterator<Item = u128> {
        std::iter::successors(Some(self.first), move |i| {
            Some(i.wrapping_add(u128::from(self.stride)))
        })
    }
}

/// The offsets of a run's buffers from a 64-byte boundary.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Offsets {
    InPlace(usize),
    Separate { input: usize, output: usize },
}

/// A run and its expected results.
#[derive(Clone, Debug)]
pub(crate) struct TestRun {
    pub(crate) shape: Shape,
    pub(crate) place: Offsets,
    pub(crate) plaintext: Vec<u8>,
    pub(crate) ciphertext: Vec<u8>,
}

impl TestRun {
    fn input(&self, direction: Direction) -> &[u8] {
        match direction {
            Direction::Encrypt => &self.plaintext,
            Direction::Decrypt => &self.ciphertext,
        }
    }

    fn output(&self, direction: Direction) -> &[u8] {
        self.input(direction.inverse())
    }
}

/// Fills a separate output before the call.
const FRESH: u8 = 0x5a;

/// A piece placed in memory.
struct Stage {
    shape: Shape,
    /// Present only if the output is separate.
    input: Option<Guarded>,
    output: Guarded,
}

impl Stage {
    fn new(piece: &TestRun, direction: Direction) -> Self {
        let source = piece.input(direction);
        let (input, output) = match piece.place {
            Offsets::InPlace(offset) => (None, Guarded::new(offset, source)),
            Offsets::Separate { input, output } => (
                Some(Guarded::new(input, source)),
                Guarded::new(output, &vec![FRESH; source.len()]),
            ),
        };
        Self {
            shape: piece.shape,
            input,
            output,
        }
    }

    fn run(&mut self) -> Run<'_> {
        let Shape {
            unit_len,
            first,
            stride,
            ..
        } = self.shape;
        let unit_len = DataUnitLen::new(unit_len).expect("lengths of the suite are valid");
        let output = self.output.bytes_mut();
        let buf = match &self.input {
            None => InOut::InPlace(output),
            Some(input) => InOut::Separate {
                input: input.bytes(),
                output,
            },
        };
        Run::new(DataUnitNumber::new(first), stride, unit_len, buf).expect("whole units")
    }

    fn holds(&self, expected: &[u8], source: &[u8]) -> Result<(), String> {
        let actual = self.output.bytes();
        if let Some(at) = first_difference(actual, expected) {
            let (unit, byte) = (at / self.shape.unit_len, at % self.shape.unit_len);
            return Err(format!(
                "byte {byte} of data unit {unit} is {:#04x} instead of {:#04x}",
                actual[at], expected[at]
            ));
        }
        self.output.check_guards("output")?;
        if let Some(input) = &self.input {
            input.check_guards("input")?;
            if first_difference(input.bytes(), source).is_some() {
                return Err("the separate input was changed".into());
            }
        }
        Ok(())
    }
}

fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    assert_eq!(a.len(), b.len());
    if a == b {
        None
    } else {
        a.iter().zip(b).position(|(a, b)| a != b)
    }
}

/// Bytes at a known offset from a 64-byte boundary, surrounded by guard bytes that must not change.
struct Guarded {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Guarded {
    /// The number of guard bytes on each side: more than the longest pass of any kernel.
    const GUARD: usize = 1024;

    fn new(offset: usize, content: &[u8]) -> Self {
        let len = content.len();
        let mut memory = vec![0; Self::GUARD + 64 + offset + len + Self::GUARD];
        let after_guard = memory.as_ptr().addr() + Self::GUARD;
        let start = after_guard.next_multiple_of(64) - memory.as_ptr().addr() + offset;
        for (i, byte) in memory[..start].iter_mut().enumerate() {
            *byte = Self::guard(i);
        }
        for (i, byte) in memory.iter_mut().enumerate().skip(start + len) {
            *byte = Self::guard(i);
        }
        memory[start..][..len].copy_from_slice(content);
        Self { memory, start, len }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a pattern")]
    const fn guard(i: usize) -> u8 {
        (i * 29) as u8 ^ 0xc3
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.len]
    }

    fn check_guards(&self, what: &str) -> Result<(), String> {
        let end = self.start + self.len;
        match (0..self.start)
            .chain(end..self.memory.len())
            .find(|&i| self.memory[i] != Self::guard(i))
        {
            None => Ok(()),
            Some(i) if i < self.start => Err(format!(
                "{} bytes before the {what} a byte was changed",
                self.start - i
            )),
            Some(i) => Err(format!(
                "{} bytes after the {what} a byte was changed",
                i - end
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_notice_every_byte_around() {
        for offset in [0, 1, 63] {
            let mut guarded = Guarded::new(offset, b"content");
            assert_eq!(guarded.bytes().as_ptr().addr() % 64, offset);
            guarded.bytes_mut().fill(0);
            assert!(guarded.check_guards("output").is_ok());
            let end = guarded.start + guarded.len;
            for i in (0..guarded.start).chain(end..guarded.memory.len()) {
                guarded.memory[i] ^= 1;
                assert!(guarded.check_guards("output").is_err());
                guarded.memory[i] ^= 1;
            }
        }
    }
}
