# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measure the Python module beside the Rust library, the package `cryptography` and the command.

    cargo build --release --package luxor-cli
    cargo build --release --package luxor --example xts
    python bindings/python/benchmark.py

Everything alternates in one run; the table shows medians. The results are checked.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from pathlib import Path

import luxor
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

RELEASE = Path(__file__).parents[2] / "target/release"
FOLDER = Path("/dev/shm")
KEY = bytes(range(64))
ROUNDS = 7
SECONDS = 0.2
#: Calls are timed in groups of this many bytes, so that reading the clock adds nothing.
GROUP = 1 << 20


def call_time(call: Callable[[], object], size: int) -> float:
    """Return the time of a call with `size` bytes in nanoseconds: the median over groups of calls."""
    timer, times = timeit.Timer(call), []
    calls = max(GROUP // size, 1)
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or not times:
        times.append(timer.timeit(calls) / calls * 1e9)
    return statistics.median(times)


def by_rust(size: int, unit: int) -> float:
    command = [RELEASE / "examples/xts", str(size), str(unit), str(int(1000 * SECONDS))]
    return float(subprocess.run(command, capture_output=True, check=True).stdout)


def by_cryptography(data: bytes, unit: int) -> bytes:
    cipher, tweak = algorithms.AES(KEY), 0
    pieces = []
    for at in range(0, len(data), unit):
        encryptor = Cipher(cipher, modes.XTS(tweak.to_bytes(16, "little"))).encryptor()
        pieces.append(encryptor.update(data[at : at + unit]))
        tweak += 1
    return b"".join(pieces)


def xts() -> None:
    print("| one call of | units of | Python, µs | GB/s | of the Rust library | × cryptography |")
    print("|---|---|---|---|---|---|")
    key = luxor.XTS(KEY)
    sizes = [(512, 512), (65536, 512), (65536, 4096), (1 << 20, 512), (1 << 20, 4096)]
    for size, unit in [*sizes, (64 << 20, 512), (64 << 20, 4096)]:
        data = bytearray(os.urandom(size))
        few = bytes(data[: 1 << 20])
        assert key.encrypt(few, unit) == by_cryptography(few, unit)
        ours, to_rust, to_rival = [], [], []
        for _ in range(ROUNDS):
            time_ours = call_time(lambda: key.encrypt_into(data, data, unit), size)
            to_rust.append(by_rust(size, unit) / time_ours)
            rival = call_time(lambda: by_cryptography(few, unit), len(few)) * size / len(few)
            to_rival.append(rival / time_ours)
            ours.append(time_ours)
        each = statistics.median(ours)
        print(
            f"| {size} bytes | {unit} | {each / 1000:.2f} | {size / each:.2f} "
            f"| {statistics.median(to_rust):.2f} | {statistics.median(to_rival):.0f} |"
        )


def volume() -> None:
    size = 512 << 20
    plain, path, back = (FOLDER / f"luxor-benchmark.{name}" for name in ("plain", "luks", "back"))
    try:
        plain.write_bytes(os.urandom(1 << 20) * (size >> 20))
        luxor.encrypt(plain, path, passphrase="x", pbkdf="pbkdf2", pbkdf_force_iterations=1000)
        command = [RELEASE / "luxor", "decrypt", "--force", "--key-file", "-", path, back]
        buffer = bytearray(1 << 20)
        rates, commands, copies = [], [], []
        with luxor.open(path, passphrase="x") as file:
            for _ in range(ROUNDS):
                file.seek(0)
                begun = time.perf_counter()
                while file.readinto(buffer):
                    pass
                rates.append(size / (time.perf_counter() - begun) / 1e9)
                begun = time.perf_counter()
                subprocess.run(command, input=b"x", check=True, capture_output=True)
                commands.append(size / (time.perf_counter() - begun) / 1e9)
                begun = time.perf_counter()
                luxor.decrypt(path, back, passphrase="x", force=True)
                copies.append(size / (time.perf_counter() - begun) / 1e9)
            assert back.read_bytes() == plain.read_bytes()
            ratio = statistics.median(a / b for a, b in zip(rates, commands, strict=True))
            print(
                f"\nreading 512 MiB through the file: {statistics.median(rates):.2f} GB/s, "
                f"{ratio:.2f} of `luxor decrypt` ({statistics.median(commands):.2f} GB/s); "
                f"`luxor.decrypt`: {statistics.median(copies):.2f} GB/s"
            )
            offsets = [int.from_bytes(os.urandom(4)) % (size // 4096) * 4096 for _ in range(50_000)]
            begun = time.perf_counter()
            for offset in offsets:
                file.read_at(4096, offset)
            each = (time.perf_counter() - begun) / len(offsets)
            print(f"random reads of 4 KiB: {1 / each:,.0f} a second on one thread")
    finally:
        for made in (plain, path, back):
            made.unlink(missing_ok=True)


if __name__ == "__main__":
    print(f"{luxor.XTS(KEY)}, CPython {sys.version.split()[0]}\n")
    xts()
    volume()
