# SPDX-License-Identifier: MIT OR Apache-2.0
"""Volumes in objects that are no files."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import luxor
import pytest
from conftest import CHEAP, PASSPHRASE

SIZE = 1 << 20


def opened(file: Any, mode: Any = "rb", **options: Any) -> Any:
    return luxor.open(file, mode, passphrase=PASSPHRASE, **options)


class Object:
    """Bytes with `read_at` alone, as of an object store; it fails when told to."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.failure: BaseException | None = None
        self.short = False

    def __len__(self) -> int:
        return len(self.data)

    def read_at(self, size: int, offset: int) -> bytes:
        if self.failure is not None:
            raise self.failure
        if self.short:
            size = (size + 1) // 2
        return self.data[offset:][:size]


def test_a_volume_in_an_object(volume: Path) -> None:
    with opened(volume, "r+b") as file:
        file.write(b"in an object")
    data = volume.read_bytes()
    sources: list[Any] = [io.BytesIO(data), Object(data), open(volume, "rb")]
    for source in sources:
        with opened(source) as file:
            assert file.read(12) == b"in an object"
            assert len(file) == SIZE
            assert file.read_at(5, 3) == b"an ob"
        assert luxor.Volume(source).version == 2
        assert luxor.Volume(source).test_key(passphrase=PASSPHRASE) == 0


def test_a_volume_in_a_volume() -> None:
    plain = b"inner" * 50_000
    stored = io.BytesIO()
    luxor.encrypt(io.BytesIO(plain), stored, passphrase=PASSPHRASE, **CHEAP)
    outer = io.BytesIO()
    luxor.encrypt(io.BytesIO(stored.getvalue()), outer, passphrase=PASSPHRASE, **CHEAP)
    with opened(outer) as file, opened(file) as nested:
        assert nested.read() == plain


def test_writes_reach_an_object(volume: Path) -> None:
    memory = io.BytesIO(volume.read_bytes())
    with opened(memory, "r+b") as file:
        file.seek(4000)
        file.write(b"across sectors" * 10)
        file.sync()
        with opened(memory) as other:
            assert other.read_at(14, 4000) == b"across sectors"
    number = luxor.Volume(memory).add_key(
        passphrase=PASSPHRASE, new_passphrase="second", **CHEAP
    )
    assert luxor.Volume(memory).test_key(passphrase="second") == number


def test_sync_is_passed_on_to_what_can_be_durable(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Synced(io.BytesIO):
        synced = b""

        def sync(self) -> None:
            self.synced = self.getvalue()

    memory = Synced(volume.read_bytes())
    with opened(memory, "r+b") as file:
        file.write(b"new")
        file.sync()
        assert memory.synced == memory.getvalue() != volume.read_bytes()

    synced: list[bytes] = []
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(volume.read_bytes()))
    with open(volume, "r+b") as source, opened(source, "r+b") as file:
        file.write(b"new")
        file.sync()
        with opened(io.BytesIO(synced[0])) as found:
            assert found.read(3) == b"new"
        # Everything is durable already.
        file.sync()
        assert len(synced) == 1


def test_an_object_that_raises_is_the_cause(volume: Path) -> None:
    source = Object(volume.read_bytes())
    with opened(source) as file:
        source.failure = ConnectionError("the network is down")
        with pytest.raises(OSError, match="the network is down") as raised:
            file.read_at(10, 0)
        assert raised.value.__cause__ is source.failure
        source.failure = None
        assert file.read_at(4, 0) == bytes(4)
        source.short = True
        assert file.read_at(5000, 100) == bytes(5000)
        source.short = False
        source.data = source.data[:-SIZE]
        with pytest.raises(OSError, match="it ends after") as short:
            file.read_at(10, 0)
        assert short.value.__cause__ is None
    source.failure = ConnectionError("the network is down")
    calls: list[Callable[[], object]] = [
        lambda: opened(source),
        lambda: opened(volume, header=source),
        lambda: luxor.Volume(source),
        lambda: luxor.decrypt(volume, io.BytesIO(), passphrase=PASSPHRASE, header=source),
    ]
    for call in calls:
        with pytest.raises(luxor.Error) as failed:
            call()
        assert failed.type is luxor.Error
        assert failed.value.__cause__ is source.failure
    source.failure = SystemExit(3)
    for call in calls:
        with pytest.raises(SystemExit):
            call()


class Interrupted(io.BytesIO):
    """Bytes in memory. Ctrl-C is pressed once within the method `where`."""

    where = ""

    def press(self, where: str) -> None:
        if where == self.where:
            self.where = ""
            signal.raise_signal(signal.SIGINT)

    def read(self, size: int | None = -1) -> bytes:
        self.press("read")
        return super().read(size)

    def write(self, data: Any) -> int:
        self.press("write")
        return super().write(data)

    def tell(self) -> int:
        self.press("tell")
        return super().tell()

    def flush(self) -> None:
        self.press("flush")
        super().flush()


def test_ctrl_c_within_an_object_is_raised(volume: Path) -> None:
    # A shell starts background jobs with this signal ignored, and Python leaves it so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    memory = Interrupted(volume.read_bytes())
    with opened(memory, "r+b") as file:

        def work() -> None:
            assert file.raw.write_at(b"new" * 4096, 5) == 3 * 4096
            assert file.raw.read_at(3, 5) == b"new"
            file.sync()

        for where in ("read", "write", "tell", "flush"):
            memory.where = where
            with pytest.raises(KeyboardInterrupt):
                work()
            # It does no harm to what follows.
            work()


def test_a_read_that_returns_too_much_is_refused(volume: Path) -> None:
    class Generous(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            data = super().read(size)
            return data + b"!" if data else data

    with pytest.raises(luxor.Error) as raised:
        opened(Generous(volume.read_bytes()))
    assert isinstance(raised.value.__cause__, ValueError)


def test_an_object_that_is_read_only_refuses_writes(volume: Path) -> None:
    with open(volume, "rb") as source:
        file = opened(source, "r+b")
        with pytest.raises(OSError) as raised:
            file.raw.write_at(b"x", 0)
        assert isinstance(raised.value.__cause__, io.UnsupportedOperation)
        assert file.read_at(1, 0) == b"\0"
