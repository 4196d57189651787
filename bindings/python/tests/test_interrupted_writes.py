# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes that an exception interrupts at any place, and files that are never closed."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import luxor
import pytest
from conftest import CHEAP, PASSPHRASE

SIZE = 1000
DATA = bytes(range(1, 251)) * 2000

Step = Callable[[Any], object]


class Interrupt(BaseException):
    """As `KeyboardInterrupt`."""


class Interrupting:
    """Raises `Interrupt` before the opcode number `number` outside this file, or as it returns."""

    def __init__(self, number: int) -> None:
        self.left, self.where = number, ""

    def _enter(self, frame: FrameType, _event: str, _arg: object) -> Any:
        if frame.f_code.co_filename == __file__:
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame: FrameType, event: str, _arg: object) -> Any:
        if event in ("opcode", "return") and not self.where:
            self.left -= 1
            if self.left < 0:
                self.where = f"{frame.f_code.co_name}, line {frame.f_lineno}, {event}"
                raise Interrupt
        return self._step

    def run(self, steps: Sequence[Step], file: Any) -> None:
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            for step in steps:
                step(file)
        except Interrupt:
            pass
        finally:
            sys.settrace(before)


def states(steps: Sequence[Step], data: bytes) -> list[bytes]:
    """Return what a file with `data` contains before and after each of the steps."""
    file = AtPlaces(data)
    found = [data]
    for step in steps:
        step(file)
        found.append(file.getvalue())
    return found


class AtPlaces(io.BytesIO):
    """The model of a volume."""

    def write_at(self, data: bytes, offset: int) -> None:
        at = self.tell()
        self.seek(offset)
        self.write(data)
        self.seek(at)

    def truncate(self, size: int | None = None) -> int:
        size = self.tell() if size is None else size
        self.write_at(bytes(max(size - len(self.getvalue()), 0)), len(self.getvalue()))
        return super().truncate(size)


FIXED: list[list[Step]] = [
    [
        lambda f: f.seek(100),
        lambda f: f.write(b"NEWDATA!"),
        lambda f: f.flush(),
        lambda f: f.write(b"MORE"),
        lambda f: f.seek(300),
        lambda f: f.write(b"THERE"),
    ],
    [
        lambda f: f.read(10),
        lambda f: f.write(b"AFTER READING"),
        lambda f: f.flush(),
        lambda f: f.read(3),
        lambda f: f.seek(5, 1),
        lambda f: f.write(b"AGAIN"),
        lambda f: f.read(),
    ],
    [lambda f: f.write(b"x"), lambda f: f.write_at(b"AT A PLACE", 200), lambda f: f.write(b"y")],
]


@pytest.mark.parametrize("steps", FIXED)
def test_an_interrupted_write_changes_nothing_else(volume: Path, steps: list[Step]) -> None:
    filled = b"." * SIZE
    allowed = states(steps, filled)
    for number in range(10_000):
        with luxor.open(volume, "r+b", passphrase=PASSPHRASE) as file:
            file.write(filled)
        file = luxor.open(volume, "r+b", passphrase=PASSPHRASE)
        interrupting = Interrupting(number)
        interrupting.run(steps, file)
        file.close()
        with luxor.open(volume, passphrase=PASSPHRASE) as stored:
            assert stored.read(SIZE) in allowed, interrupting.where
        if not interrupting.where:
            break
    assert number > 10


NEW: list[list[Step]] = [
    [lambda f: f.write(DATA[:100_000]), lambda f: f.write(DATA[100_000:])],
    [
        lambda f: f.write(DATA[:10]),
        lambda f: f.flush(),
        lambda f: f.writelines([DATA[10:30], DATA[30:300_000]]),
        lambda f: f.write(b"x"),
    ],
    [
        lambda f: f.write(DATA[:1000]),
        lambda f: f.write_at(DATA[1000:5000], 1200),
        lambda f: f.seek(6000),
        lambda f: f.write(b"after a gap"),
    ],
    [
        lambda f: f.write(DATA[:5000]),
        lambda f: f.truncate(3000),
        lambda f: f.truncate(),
        lambda f: f.seek(10),
        lambda f: f.read(5),
        lambda f: f.write(b"15"),
    ],
]


@pytest.mark.parametrize("steps", NEW)
def test_an_interrupted_write_lets_no_wrong_volume_appear(
    tmp_path: Path, steps: list[Step]
) -> None:
    path, allowed = tmp_path / "new", states(steps, b"")
    for number in range(10_000):
        file = luxor.open(path, "wb", passphrase=PASSPHRASE, **CHEAP)
        interrupting = Interrupting(number)
        interrupting.run(steps, file)
        with contextlib.suppress(luxor.Error):
            file.close()
        if path.exists():
            with luxor.open(path, passphrase=PASSPHRASE) as stored:
                assert stored.read() in allowed, interrupting.where
            path.unlink()
        else:
            assert interrupting.where
        if not interrupting.where:
            break
    assert number > 10


def test_an_interrupted_truncate_is_not_ignored(tmp_path: Path) -> None:
    """No place is in the middle of it: the volume has the new length, or does not appear."""
    path = tmp_path / "new"
    for number in range(100):
        file = luxor.open(path, "wb", passphrase=PASSPHRASE, **CHEAP)
        file.write(DATA[:5000])
        interrupting = Interrupting(number)
        interrupting.run([lambda f: f.truncate(3000)], file)
        with contextlib.suppress(luxor.Error):
            file.close()
        if path.exists():
            with luxor.open(path, passphrase=PASSPHRASE) as stored:
                assert len(stored) == 3000, interrupting.where
            path.unlink()
        if not interrupting.where:
            break


#: Programs that write half of a volume, which is `new()`, into `path`.
UNCLOSED = {
    "pair": "b = io.BufferedRWPair(io.BytesIO(), new()); b.write(b'half'); raise KeyError",
    "del pair": "b = io.BufferedRWPair(io.BytesIO(), new()); b.write(b'half'); del b; sys.exit(3)",
    "raise": "t = io.TextIOWrapper(new()); t.write('half'); raise KeyError",
    "exit": "t = io.TextIOWrapper(new()); t.write('half'); sys.exit(3)",
    "del": "t = io.TextIOWrapper(new()); t.write('half'); del t; sys.exit(3)",
    "stdout": "sys.stdout = io.TextIOWrapper(new()); print('half'); sys.exit(3)",
    "buffer": "b = io.BufferedWriter(new()); b.write(b'half'); raise KeyError",
    "fsspec": "t = fs.open(path, 'wt'); t.write('half'); raise KeyError",
    "transaction": """
with fs.transaction:
    t = fs.open(path, 'wt'); t.write('half'); del t
raise KeyError
""",
}


@pytest.mark.parametrize("program", UNCLOSED)
def test_nothing_appears_if_the_warning_is_an_error(tmp_path: Path, program: str) -> None:
    """The warning that nothing has closed the file is one, and ends what gives it."""
    path = tmp_path / "new"
    begin = f"""
import io, sys, luxor, luxor.luksfs
path, options = {str(path)!r}, dict(passphrase="x", **{CHEAP})
fs = luxor.luksfs.LuksFileSystem(target_protocol="file", **options)
new = lambda: luxor.open(path, "wb", **options)
"""
    command = [sys.executable, "-W", "error", "-c", begin + UNCLOSED[program]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert os.listdir(tmp_path) == []
    assert done.returncode == (3 if "exit" in UNCLOSED[program] else 1), done.stderr
    assert done.returncode == 3 or "KeyError" in done.stderr
