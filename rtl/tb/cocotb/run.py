# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds the core in one configuration with Verilator and tests it with cocotb.

    run.py CONFIGURATION --folder BUILD --answers PROGRAM [--test NAME]
    run.py --list

PROGRAM is the example `answers` of the package luxor-reference. `cargo xtask rtl` runs this
for every configuration, with a Python that has the packages of requirements.txt. All tests
use one seed, which is printed. LUXOR_TEST_SEED sets another one (decimal, or hexadecimal
after 0x). LUXOR_TEST_LONG asks for the long form, which has more cases.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
MODULES = HERE.parent.parent / "rtl"

# `cargo xtask test --long` sets this.
LONG = "LUXOR_TEST_LONG" in os.environ

SEED = int(os.environ.get("LUXOR_TEST_SEED", "0x1619200701972001"), 0)

# The slowest configuration is first. See luxor_pkg.sv for the meaning of the numbers.
CONFIGURATIONS = {
    # Everything: both directions, both key sizes, counter mode, tweaks from the separate unit.
    "dedicated": dict(TWEAK=2, CIPHER=2, KEY128=1, KEY256=1, STAGES=2, LANES=1, CTR=1),
    # Tweaks in the pipeline of the data, beats of two blocks, equal keys allowed.
    "shared": dict(
        TWEAK=1, CIPHER=2, KEY128=1, KEY256=1, STAGES=1, LANES=2, CTR=1, PERMIT_EQUAL=1
    ),
    # The widest, only for decryption and one key size. With T-tables, which the short form uses,
    # it compiles in half the time.
    "wide": dict(
        TWEAK=2, CIPHER=1, KEY128=0, KEY256=1, STAGES=3, LANES=4, SBOX=0 if LONG else 3
    ),
    # The design of the paper.
    "paper": dict(TWEAK=0, CIPHER=0, KEY128=1, KEY256=0, STAGES=2, LANES=1),
    # With the bus master, and with T-tables, since the others test the rest.
    "dma": dict(TWEAK=2, CIPHER=2, KEY128=1, KEY256=1, STAGES=1, LANES=2, CTR=1, SBOX=3),
}


def top_of(configuration):
    return "luxor_xts_dma" if configuration == "dma" else "luxor_xts"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("configuration", nargs="?", choices=CONFIGURATIONS)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--answers", type=Path)
    parser.add_argument("--test", help="only this one")
    options = parser.parse_args()
    if options.list:
        print("\n".join(CONFIGURATIONS))
        return
    if not (options.configuration and options.folder and options.answers):
        parser.error("a configuration, --folder and --answers are needed")
    parameters = CONFIGURATIONS[options.configuration]
    folder = options.folder.resolve()
    begun = time.monotonic()
    top = top_of(options.configuration)
    model = build(top, parameters, folder)
    built = time.monotonic()
    passed = simulate(model, top, parameters, folder, options)
    print(
        f"{options.configuration}: {passed} tests passed; {built - begun:.0f} s to build,"
        f" {time.monotonic() - built:.0f} s to run"
    )


def build(top, parameters, folder):
    import cocotb.config

    libraries = Path(cocotb.config.libs_dir).resolve()
    main_cpp = Path(cocotb.config.share_dir).resolve() / "lib" / "verilator" / "verilator.cpp"
    # Only the ports are visible from Python: with more signals public, the model is slow.
    public = folder / "ports.vlt"
    public.parent.mkdir(parents=True, exist_ok=True)
    names = ["clk", "rst", "irq", "s_axil_*", "s_axis_*", "m_axis_*", "m_axi_*"]
    lines = [f'public_flat_rw -module "{top}" -var "{name}"' for name in names]
    public.write_text("`verilator_config\n" + "\n".join(lines) + "\n")
    subprocess.run(
        ["verilator", "--cc", "--exe", "--build", "--build-jobs", "1", "--Mdir", folder]
        + ["--vpi", "--prefix", "Vtop", "-o", "model", "--top-module", top, "--no-timing"]
        + ["--timescale", "1ns/1ps", "--assert", "--x-assign", "fast", "--x-initial", "unique"]
        + ["-O3", "-MAKEFLAGS", "-s OPT_FAST=-O1 OPT_GLOBAL=-O1"]
        + ["-LDFLAGS", f"-Wl,-rpath,{libraries} -L{libraries} -lcocotbvpi_verilator"]
        + [f"-G{name}={value}" for name, value in parameters.items()]
        + [f"-I{MODULES}", "-y", MODULES, public]
        + [MODULES / f"{name}.sv" for name in ("luxor_pkg", "aes_pkg", top)]
        + [main_cpp],
        check=True,
    )
    return folder / "model"


def simulate(model, top, parameters, folder, options):
    import find_libpython

    results = folder / "results.xml"
    results.unlink(missing_ok=True)
    environment = dict(
        os.environ,
        MODULE=f"test_{top}",
        TOPLEVEL=top,
        TOPLEVEL_LANG="verilog",
        COCOTB_RESULTS_FILE=str(results),
        COCOTB_ANSI_OUTPUT="0",
        COCOTB_LOG_LEVEL="INFO",
        GPI_LOG_LEVEL="WARNING",
        RANDOM_SEED=str(SEED),
        LIBPYTHON_LOC=find_libpython.find_libpython(),
        VIRTUAL_ENV=str(Path(sys.prefix).resolve()),
        PYTHONPATH=str(HERE),
        PYTHONDONTWRITEBYTECODE="1",
        LUXOR_ANSWERS=str(options.answers.resolve()),
        LUXOR_PARAMETERS=" ".join(f"{name}={value}" for name, value in parameters.items()),
    )
    if options.test:
        environment["TESTCASE"] = options.test
    print(f"LUXOR_TEST_SEED={SEED:#x}", flush=True)
    arguments = ["+verilator+rand+reset+2", f"+verilator+seed+{SEED % 2**31}"]
    subprocess.run([model, *arguments], cwd=folder, env=environment, check=True)
    # A model that ends early writes no results, and a failed test does not make the process fail.
    cases = list(ElementTree.parse(results).getroot().iter("testcase"))
    failed = [case.get("name") for case in cases if len(case)]
    if not cases:
        sys.exit(f"{options.configuration}: no test ran")
    if failed:
        sys.exit(f"{options.configuration}: {len(failed)} of {len(cases)} tests failed: {failed}")
    return len(cases)


if __name__ == "__main__":
    main()
