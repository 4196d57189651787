# SPDX-License-Identifier: MIT OR Apache-2.0
"""What ends the program stays what it is, whichever call of an object or a callback raises it."""

from __future__ import annotations

import gc
import io
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import luxor
import pytest
from conftest import CHEAP, PASSPHRASE


class Stop(BaseException):
    """Neither an `Exception` nor one of Python's own."""


class Raising(io.BytesIO):
    """Bytes in memory. The method `where` raises `failure` at its call number `after`."""

    def __init__(self, data: bytes = b"") -> None:
        super().__init__(data)
        self.where, self.after, self.failure = "", 0, None
        self.raised = False
        # The calls after it.
        self.later: list[str] = []

    def _count(self, where: str) -> None:
        if self.raised:
            self.later.append(where)
        if where == self.where:
            self.after -= 1
            if self.after < 0 and not self.raised:
                self.raised = True
                raise self.failure  # type: ignore[misc]

    def read(self, size: int | None = -1) -> bytes:
        self._count("read")
        return super().read(size)

    def write(self, data: Any) -> int:
        self._count("write")
        return super().write(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._count("seek")
        return super().seek(offset, whence)

    def tell(self) -> int:
        self._count("tell")
        return super().tell()

    def flush(self) -> None:
        self._count("flush")
        super().flush()

    def seekable(self) -> bool:
        self._count("seekable")
        return super().seekable()

    def fileno(self) -> int:
        self._count("fileno")
        return super().fileno()

    @property
    def name(self) -> str:
        self._count("name")
        return "memory"


def with_file(file: Any) -> None:
    with luxor.open(file, "r+b", passphrase=PASSPHRASE) as opened:
        opened.write(b"x" * 5000)
        opened.seek(100_000)
        opened.read(10)
        opened.sync()


def with_new(file: Any) -> None:
    with luxor.open(file, "wb", passphrase=PASSPHRASE, **CHEAP) as opened:
        opened.write(b"x" * 5000)
        opened.seek(100)
        opened.write(b"y")


OPERATIONS: dict[str, tuple[bool, Callable[[Any], object]]] = {
    "open": (True, with_file),
    "new": (False, with_new),
    "encrypt": (
        False,
        lambda file: luxor.encrypt(io.BytesIO(bytes(9000)), file, passphrase="x", **CHEAP),
    ),
    "source": (
        True,
        lambda file: luxor.encrypt(file, io.BytesIO(), passphrase="x", **CHEAP),
    ),
    "decrypt": (True, lambda file: luxor.decrypt(file, io.BytesIO(), passphrase=PASSPHRASE)),
    "volume": (True, lambda file: luxor.Volume(file).test_key(passphrase=PASSPHRASE)),
    "add": (
        True,
        lambda file: luxor.Volume(file).add_key(
            passphrase=PASSPHRASE, new_passphrase="x", **CHEAP
        ),
    ),
    "backup": (True, lambda file: luxor.Volume(file).back_up_header("backup", force=True)),
    "cipher": (True, lambda file: luxor.VolumeCipher(file, passphrase=PASSPHRASE)),
    "like": (
        True,
        lambda file: luxor.new_header(100, passphrase=PASSPHRASE, like=file),
    ),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "where", ["read", "write", "seek", "tell", "flush", "seekable", "fileno", "name"]
)
def test_what_ends_the_program_stays_what_it_is(volume: Path, operation: str, where: str) -> None:
    is_volume, call = OPERATIONS[operation]
    data = volume.read_bytes() if is_volume else b""
    kinds = [KeyboardInterrupt, SystemExit, GeneratorExit, Stop]
    for after in range(30):
        failure = kinds[after % len(kinds)]("mine")
        file = Raising(data)
        file.where, file.after, file.failure = where, after, failure  # type: ignore[assignment]
        try:
            call(file)
        except BaseException as caught:
            assert caught is failure, (after, repr(caught))
            assert "_count" in [frame.name for frame in traceback.extract_tb(caught.__traceback__)]
        else:
            assert not file.raised, (after, "nothing was raised")
        if not file.raised:
            break
        # Only the end of a `with` calls anything afterwards.
        assert operation in ("open", "new") or not file.later, (after, file.later)
        # Nothing keeps the object.
        failure.__traceback__ = None
        gone = weakref.ref(file)
        del file
        gc.collect()
        assert gone() is None, (operation, where, after)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, Stop])
def test_a_progress_callback_ends_the_program(tmp_path: Path, kind: Any) -> None:
    failure = kind("mine")

    def progress(_done: int, _total: int | None) -> None:
        raise failure

    with pytest.raises(kind) as raised:
        luxor.encrypt(
            io.BytesIO(bytes(1000)),
            io.BytesIO(),
            passphrase="x",
            progress=progress,
            **CHEAP,
        )
    assert raised.value is failure


@pytest.mark.parametrize("at", [0, 0x4000])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, Stop])
def test_a_copy_is_not_repaired_because_the_other_was_interrupted(
    volume: Path, kind: Any, at: int
) -> None:
    """Every change, with every filter for warnings, and from every thread."""
    failure = kind("mine")

    class Interrupted(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if armed and self.tell() == at:
                raise failure
            return super().read(size)

    data = volume.read_bytes()
    file, armed = Interrupted(data), False
    of_file = luxor.Volume(file)
    armed = True
    changes: list[Callable[[], object]] = [
        lambda: of_file.add_key(passphrase=PASSPHRASE, new_passphrase="x", **CHEAP),
        lambda: of_file.change_key(passphrase=PASSPHRASE, new_passphrase="x", **CHEAP),
        lambda: of_file.remove_keyslot(0, last=True),
        lambda: of_file.add_token({"type": "t", "keyslots": []}),
        lambda: luxor.open(file, "r+b", passphrase=PASSPHRASE),
    ]
    caught: list[BaseException] = []

    def run(change: Callable[[], object]) -> None:
        try:
            change()
        except BaseException as error:
            caught.append(error)

    for change in changes:
        with warnings.catch_warnings():
            # Nothing warns of a copy that was not read.
            warnings.simplefilter("error")
            run(change)
        thread = threading.Thread(target=run, args=(change,))
        thread.start()
        thread.join()
    assert len(caught) == 2 * len(changes)
    assert all(error is failure for error in caught)
    assert file.getvalue() == data
    # It was delivered, so the object can be used again.
    armed = False
    with luxor.open(file, "r+b", passphrase=PASSPHRASE) as opened:
        opened.write(b"x")


def test_what_a_buffer_raises_stays_what_it_is() -> None:
    """A passphrase or data with the buffer protocol, and arrays."""
    failure = KeyboardInterrupt("mine")

    class Array:
        def numpy(self) -> object:
            raise failure

    class Seekable(io.BytesIO):
        def seek(self, offset: int, whence: int = 0) -> int:
            if whence == 0:
                raise failure
            return super().seek(offset, whence)

    calls: list[Callable[[], object]] = [
        lambda: luxor.Secret(Array()),  # type: ignore[arg-type]
        lambda: luxor.encrypt(io.BytesIO(b"x"), io.BytesIO(), passphrase=Array(), **CHEAP),  # type: ignore[arg-type]
        lambda: luxor.encrypt(Seekable(), io.BytesIO(), passphrase="x", **CHEAP),
    ]
    for call in calls:
        with pytest.raises(KeyboardInterrupt) as raised:
            call()
        assert raised.value is failure
