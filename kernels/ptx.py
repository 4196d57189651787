#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiles the kernels to PTX, and checks the code that NVIDIA's assembler generates.

    ptx.py [--write]

Without --write, the PTX must equal the committed files in ptx/ byte for byte. It is assembled for
each of ARCHITECTURES. There, no kernel may spill registers or use more registers than a block of
1024 threads has. The main loop of each kernel that processes stretches must have exactly 16 shared
loads per round, and at most as many other instructions, and as many of these for the integer unit,
as LIMITS allows.
"""

import collections
import concurrent.futures
import ctypes
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = pathlib.Path(sysconfig.get_path("purelib")) / "nvidia"
NVRTC = PACKAGES / "cuda_nvrtc/lib/libnvrtc.so.12"
PTXAS = PACKAGES / "cuda_nvcc/bin/ptxas"
NVDISASM = PACKAGES / "cu13/bin/nvdisasm"

REPLICAS, TABLES, THREADS = 32, 2, 1024

# The papers' kernels, for comparison: their files, REPLICAS, TABLES and THREADS.
PAPERS = {"an_seo": (32, 1, 1024), "sanida": (1, 1, 256)}
TARGET = "compute_75"
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90")

# Registers per thread: a multiprocessor has 65536 registers for 1024 threads.
REGISTERS = 64

ROUNDS = {128: 10, 192: 12, 256: 14}

# The most SASS instructions of a main loop besides the shared loads and 28 per round (16 addresses,
# 8 XORs and 4 rotations): all instructions, and those of the integer unit.
LIMITS = {"xts_encrypt": (78, 26), "xts_decrypt": (104, 50), "ctr": (150, 49)}

# Instructions of the integer unit: not multiplications, memory, branches or uniform registers.
INTEGER = re.compile(r"(PRMT|LOP3|SHF|IADD3|VIADD|LEA|ISETP|PLOP3|SEL|V?IMNMX|IABS)\b")


def ours(size):
    """Returns the PTX of the kernels for one key size."""
    layout = (REPLICAS, TABLES, THREADS)
    return compile_ptx("luxor", layout, [f"-DSIZE={size}"], f"for AES-{size}")


def compile_ptx(name, layout, more, words):
    """Returns the PTX of NAME.cl. Its head describes it with these words."""
    replicas, tables, threads = layout
    nvrtc = ctypes.CDLL(str(NVRTC))
    program = ctypes.c_void_p()

    def call(name, *args):
        code = getattr(nvrtc, name)(*args)
        if code:
            sys.exit(f"{name}: error {code}\n{log()}")

    def text(kind):
        length = ctypes.c_size_t()
        call(f"nvrtcGet{kind}Size", program, ctypes.byref(length))
        buffer = ctypes.create_string_buffer(length.value)
        call(f"nvrtcGet{kind}", program, buffer)
        return buffer.value.decode()

    def log():
        return text("ProgramLog")

    options = [
        f"--gpu-architecture={TARGET}",
        "--std=c++17",
        f"--include-path={HERE}",
        f"-DREPLICAS={replicas}",
        f"-DTABLES={tables}",
        f"-DTHREADS={threads}",
        *more,
        # Skips a header that NVRTC puts before every source; its constants would be in the PTX.
        "-D__NV_TARGET_H",
    ]
    source = (HERE / f"{name}.cl").read_bytes()
    file = f"{name}.cu".encode()
    call("nvrtcCreateProgram", ctypes.byref(program), source, file, 0, None, None)
    array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    call("nvrtcCompileProgram", program, len(options), array)
    if log().strip():
        sys.exit(f"NVRTC printed messages:\n{log()}")
    head = (
        "// SPDX-License-Identifier: MIT OR Apache-2.0\n"
        f"// The kernels {words}: REPLICAS {replicas}, TABLES {tables}, THREADS "
        f"{threads}.\n// Written by `cargo xtask kernels --write`.\n"
    )
    ptx = head + text("PTX")
    call("nvrtcDestroyProgram", ctypes.byref(program))
    return ptx


def assemble(ptx, architecture, folder):
    """Returns the cubin, and for each kernel its registers and bytes of stack and spills."""
    cubin = folder / f"{ptx.stem}.{architecture}.cubin"
    command = [PTXAS, "--verbose", f"--gpu-name={architecture}", "--output-file", cubin, ptx]
    output = subprocess.run(command, capture_output=True, text=True, check=False)
    if output.returncode:
        sys.exit(f"{ptx.name}, {architecture}: ptxas: {output.stderr}")
    use = {}
    for part in output.stderr.split("Compiling entry function ")[1:]:
        kernel = re.match(r"'(\w+)'", part)[1]
        registers = int(re.search(r"Used (\d+) registers", part)[1])
        spills = [int(n) for n in re.findall(r"(\d+) bytes (?:stack|spill)", part)]
        if len(spills) != 3:
            sys.exit(f"{ptx.name}, {architecture}: ptxas says {part!r}")
        use[kernel] = (registers, sum(spills))
    return cubin, use


def loops(lines, label, branch):
    """Returns the bodies of loops, from a label to a branch back to it, the shortest first."""
    labels, code = {}, []
    for line in lines:
        if match := re.match(label, line):
            labels[match[1]] = len(code)
        elif line.strip():
            code.append(line.strip())
    found = []
    for end, line in enumerate(code):
        match = re.search(branch, line)
        if match and labels.get(match[1], end + 1) <= end:
            found.append(code[labels[match[1]] : end + 1])
    return sorted(found, key=len)


def opcodes(body):
    return collections.Counter(re.sub(r"^@!?%?\w+\s+", "", line).split()[0] for line in body)


def main_loop(loops_, load):
    """Returns the opcodes of the innermost loop with shared loads."""
    for body in loops_:
        count = opcodes(body)
        if any(load.match(op) for op in count):
            return count
    return collections.Counter()


def ptx_loop(text, kernel):
    body = re.search(rf"^\.visible \.entry {kernel}\(.*?^}}", text, re.S | re.M)[0]
    lines = body.splitlines()
    return main_loop(loops(lines, r"^(\$\w+):", r"\bbra\S*\s+(\$\w+)"), re.compile(r"ld\.shared"))


def sass_loop(text, kernel):
    sections = re.split(r"^\t?\.section\t", text, flags=re.M)
    body = next(s for s in sections if s.startswith(f".text.{kernel},"))
    lines = []
    for line in body.splitlines():
        if match := re.match(r"\s+/\*[0-9a-f]+\*/\s+(.*);", line):
            lines.append(match[1])
        elif re.match(r"\.L\w+:", line):
            lines.append(line)
    return main_loop(loops(lines, r"^(\.L\w+):", r"\bBRA\b.*`\((\.L\w+)\)"), re.compile(r"LDS"))


def check_loops(size, ptx, sass, architecture, complain):
    """Checks the counts of the main loops, and returns a line of the table for each."""
    rounds = ROUNDS[size]
    loads = 16 * rounds
    table = []
    for kind, (limit, integer_limit) in LIMITS.items():
        kernel = f"{kind}_{size}"
        in_ptx = ptx_loop(ptx, kernel)
        found = sum(n for op, n in in_ptx.items() if op.startswith("ld.shared"))
        if found != loads:
            complain(f"{kernel}: {found} shared loads a block in PTX, not {loads}")
        in_sass = sass_loop(sass, kernel)
        found = sum(n for op, n in in_sass.items() if op.startswith("LDS"))
        if found != loads:
            complain(f"{kernel}, {architecture}: {found} shared loads a block, not {loads}")
        for op in in_sass:
            if re.match(r"LD[LG]|ST[LG]|LDS\.\d", op) and not re.match(r"(LDG|STG)\.E\.128", op):
                if kind != "ctr" or not op.startswith(("LDG.E.U8", "STG.E.U8")):
                    complain(f"{kernel}, {architecture}: {op} in the main loop")
        others = sum(in_sass.values()) - loads
        most = 28 * rounds + limit
        if others > most:
            complain(f"{kernel}, {architecture}: {others} other instructions a block, over {most}")
        integer = sum(n for op, n in in_sass.items() if INTEGER.match(op))
        most = 28 * rounds + integer_limit
        if integer > most:
            complain(f"{kernel}, {architecture}: {integer} of the integer unit, over {most}")
        prmt = sum(n for op, n in in_sass.items() if op.startswith("PRMT"))
        table.append((kernel, architecture, found, others, integer, prmt))
    return table


def keep(file, ptx, write, complaints):
    """Writes the committed file, or compares with it."""
    if write:
        file.parent.mkdir(exist_ok=True)
        file.write_text(ptx)
    elif not file.is_file() or file.read_text() != ptx:
        complaints.append(
            f"{file.name} is out of date: `cargo xtask kernels --write` generates it again"
        )


def main():
    write = sys.argv[1:] == ["--write"]
    if sys.argv[1:] and not write:
        sys.exit(__doc__)
    complaints = []
    jobs, papers = [], []
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(2) as pool:
        folder = pathlib.Path(name)
        for size in ROUNDS:
            ptx = ours(size)
            file = HERE / f"ptx/aes{size}.ptx"
            keep(file, ptx, write, complaints)
            fresh = folder / file.name
            fresh.write_text(ptx)
            for architecture in ARCHITECTURES:
                jobs.append((size, ptx, architecture, pool.submit(assemble, fresh, architecture, folder)))
        for name, layout in PAPERS.items():
            ptx = compile_ptx(name, layout, [], "of a paper")
            file = HERE / f"ptx/{name}.ptx"
            keep(file, ptx, write, complaints)
            # These only have to assemble. Their quality is the papers' business.
            fresh = folder / file.name
            fresh.write_text(ptx)
            for architecture in ARCHITECTURES:
                papers.append(pool.submit(assemble, fresh, architecture, folder))
        print(f"{'main loop':<16}  {'':<5}  shared loads, others (integer, PRMT)  registers")
        for size, ptx, architecture, job in jobs:
            cubin, use = job.result()
            for kernel, (registers, spills) in use.items():
                if spills:
                    complaints.append(f"{kernel}, {architecture}: {spills} bytes of stack or spills")
                if registers > REGISTERS:
                    complaints.append(f"{kernel}, {architecture}: {registers} registers")
            if len(use) != 6:
                complaints.append(f"AES-{size}, {architecture}: {len(use)} kernels, not 6")
            disassemble = [NVDISASM, "--print-code", cubin]
            sass = subprocess.run(disassemble, capture_output=True, text=True, check=True).stdout
            for row in check_loops(size, ptx, sass, architecture, complaints.append):
                kernel, _, loads, others, integer, prmt = row
                print(
                    f"{kernel:<16}  {architecture}  {loads:>12}, {others:>6} ({integer:>7}, {prmt:>4})"
                    f"  {use[kernel][0]:>9}"
                )
        for job in papers:
            job.result()
    if complaints:
        sys.exit("\n".join(complaints))


main()
