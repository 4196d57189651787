// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::{cipher::Cipher, devices::double::Idle, rivals};

/// A library that only copies.
struct Copies(rivals::About);

impl Rival for Copies {
    fn about(&self) -> &rivals::About {
        &self.0
    }

    fn cipher(&self, _: Mode, _: Direction, _: &[u8]) -> Option<Result<Box<dyn Cipher>, String>> {
        Some(Ok(Box::new(Copy)))
    }
}

struct Copy;

impl Cipher for Copy {
    fn crypt(&mut self, _: u64, _: usize, bytes: InOut<'_>) -> Result<(), String> {
        if let InOut::Separate { input, output } = bytes {
            output.copy_from_slice(input);
        }
        Ok(())
    }
}

type Work<'a> = &'a dyn Fn(&mut Session<'_, '_>) -> Result<(), String>;

/// Runs `work` with these devices and rivals, and returns its result.
fn with(
    gpus: &mut [Idle],
    rivals: &[Box<dyn Rival>],
    work: impl FnOnce(&mut Session<'_, '_>) -> Result<(), String>,
) -> Result<(), String> {
    let plan = Plan {
        bytes: None,
        quick: true,
        engine: None,
        threads: NonZeroUsize::MIN,
        rivals,
    };
    let engine = cpu::kernels(None).unwrap();
    let (input, mut output, mut tweaks) = (vec![7; STEP], vec![0; STEP], vec![0; STEP]);
    let devices: Vec<_> = gpus
        .iter_mut()
        .map(|gpu| RefCell::new(on_device(gpu, &input).unwrap()))
        .collect();
    let (output, tweaks) = (RefCell::new(&mut *output), RefCell::new(&mut *tweaks));
    work(&mut Session {
        plan: &plan,
        engine: &*engine[0],
        devices: &devices,
        own: &[],
        input: &input,
        output,
        tweaks,
        rounds: 1,
    })
}

#[test]
fn a_wrong_answer_ends_it() {
    let wrong = "the bytes differ from the naive CPU's";
    let everything = |bench: &mut Session<'_, '_>| {
        bench.systems()?;
        bench.streams()?;
        bench.rates(512, AesSize::Aes256).map(drop)
    };
    assert_eq!(with(&mut [], &[], everything), Ok(()));
    let systems = |bench: &mut Session<'_, '_>| bench.systems().map(drop);
    let streams = |bench: &mut Session<'_, '_>| bench.streams().map(drop);
    let rates = |bench: &mut Session<'_, '_>| bench.rates(8192, AesSize::Aes128).map(drop);
    let all: [Work<'_>; 3] = [&systems, &streams, &rates];
    for work in all {
        let said = with(&mut [Idle::new()], &[], work).unwrap_err();
        assert!(said.contains("idle") && said.contains(wrong), "{said}");
    }
    let copies = || -> [Box<dyn Rival>; 1] {
        let [name, version, path] = ["copies", "", ""].map(str::to_owned);
        let hardware = false;
        [Box::new(Copies(rivals::About {
            name,
            version,
            path,
            hardware,
        }))]
    };
    for work in [all[0], all[2]] {
        let said = with(&mut [], &copies(), work).unwrap_err();
        assert!(said.contains("copies") && said.contains(wrong), "{said}");
    }
}

/// Beyond the standards' limit, too, the engine agrees with the naive CPU.
#[test]
fn a_data_unit_may_be_too_long_here() {
    let bytes = LONGEST + STEP;
    assert!(DataUnitLen::new(bytes).is_err());
    let size = AesSize::Aes128;
    let xts = Xts::new(size, &key(size), bytes / BLOCK);
    let input: Vec<u8> = (0..=250).cycle().take(bytes).collect();
    let (mut tweaks, mut expected) = (vec![0; bytes], vec![0; bytes]);
    xts.starts(Step::One, bytes / BLOCK, &mut tweaks);
    xts.encrypt(&tweaks, &input, &mut expected);
    let spec = KeySpec::Xts(XtsKey::new(&key(size)).unwrap());
    let unit = DataUnitLen::beyond_the_standard(bytes).unwrap();
    let executor = Executor::new(NonZeroUsize::MIN);
    for engine in cpu::kernels(None).unwrap() {
        let (loaded, mut output) = (engine.load_key(&spec).unwrap(), vec![0; bytes]);
        crypt(&*loaded, &executor, unit, &input, &mut output).unwrap();
        assert!(output == expected, "{}", engine.info().name);
    }
}
