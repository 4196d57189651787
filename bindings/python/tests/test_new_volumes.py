# SPDX-License-Identifier: MIT OR Apache-2.0
"""New volumes that are as long as what is written into them."""

from __future__ import annotations

import codecs
import contextlib
import errno
import gc
import io
import os
import random
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import h5py
import luxor
import numpy
import pyarrow
import pyarrow.parquet
import pytest
from conftest import CHEAP, PASSPHRASE


def new(path: Any, **options: Any) -> luxor.VolumeCreator:
    options = {**CHEAP, **options}
    file: luxor.VolumeCreator = luxor.open(path, "wb", passphrase=PASSPHRASE, **options)
    return file


def opened(path: Any) -> luxor.VolumeReader:
    return luxor.open(path, passphrase=PASSPHRASE)


def test_formats_with_an_end_come_back(tmp_path: Path, cryptsetup: Callable[..., str]) -> None:
    """The end of the volume is theirs."""
    path = tmp_path / "archive"
    with new(path) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", "hello")
        archive.writestr("b", bytes(1 << 20))
    with opened(path) as stored, zipfile.ZipFile(stored) as archive:
        assert archive.read("a") == b"hello" and archive.testzip() is None
    cryptsetup("open", "--test-passphrase", path)

    with new(tmp_path / "arrays") as file:
        numpy.savez(file, a=numpy.arange(1000), b=numpy.zeros(5))
    with opened(tmp_path / "arrays") as stored:
        assert numpy.load(stored)["a"].sum() == 499500

    # It asks for the end, writes at any place, and shortens the file at the end.
    with new(tmp_path / "hdf5") as file, h5py.File(file, "w") as hdf5:
        hdf5["a"] = numpy.arange(100_000)
        hdf5.create_dataset("b", (1000, 1000), "f4", chunks=True, compression="gzip")[5] = 2.5
        hdf5["a"].attrs["unit"] = "m"
        del hdf5["a"]
        hdf5["a"] = numpy.arange(1000)
    with opened(tmp_path / "hdf5") as stored, h5py.File(stored) as hdf5:
        assert hdf5["a"][:].sum() == 499500 and hdf5["b"][5, 999] == 2.5
        assert not hdf5["b"][:5].any()
    # Closing a file that has no room for its end raises, and discards it.
    with pytest.raises((OSError, RuntimeError)), new(tmp_path / "full") as file:
        with small_files(17 << 20), h5py.File(file, "w") as hdf5:
            hdf5["a"] = numpy.zeros(1 << 20)
    assert not (tmp_path / "full").exists()

    table = pyarrow.table({"a": range(100_000)})
    with new(tmp_path / "table") as file:
        pyarrow.parquet.write_table(table, file)
    with opened(tmp_path / "table") as stored:
        assert pyarrow.parquet.read_table(stored).equals(table)


@pytest.mark.parametrize("options", [{}, {"sector_size": 512}, {"type": "luks1"}])
@pytest.mark.parametrize("in_object", [False, True])
def test_a_new_volume_is_what_a_file_would_be(
    tmp_path: Path, options: Any, in_object: bool
) -> None:
    """Compares with a file of the system, operation by operation, in any order."""
    for seed in range(8):
        print("seed", seed)
        rng = random.Random(seed)
        path, model_path = tmp_path / f"volume{seed}", tmp_path / f"model{seed}"
        stored = io.BytesIO()
        shrinks = not in_object
        with new(stored if in_object else path, **options) as file, open(
            model_path, "w+b"
        ) as model:
            for _ in range(60):
                at, size = rng.randrange(60_000), rng.randrange(9000)
                match rng.choice(["write", "write", "seek", "end", "read", "at", "truncate"]):
                    case "write":
                        data = rng.randbytes(size)
                        assert file.write(data) == model.write(data)
                    case "seek":
                        assert file.seek(at) == model.seek(at)
                    case "end":
                        assert file.seek(-min(size, len(file)), 2) >= 0
                        model.seek(file.tell())
                    case "read":
                        assert file.read(size) == model.read(size)
                    case "at":
                        data = rng.randbytes(size)
                        model.flush()
                        assert file.write_at(data, at) == os.pwrite(model.fileno(), data, at)
                        model.seek(model.tell())
                    case "truncate" if shrinks:
                        assert file.truncate(at) == model.truncate(at)
                assert file.tell() == model.tell()
                model.flush()
                assert len(file) == os.path.getsize(model_path)
            if options.get("type") == "luks1":
                end = max(-(-len(file) // 512), 1) * 512
                assert file.truncate(end) == model.truncate(end)
            assert in_object or not path.exists()
        with opened(stored if in_object else path) as again:
            assert again.read() == model_path.read_bytes()
        if not in_object:
            length = max(os.path.getsize(model_path), 1)
            sector = 512 if options else 4096
            assert (os.path.getsize(path) - -(-length // sector) * sector) % (1 << 19) == 0


def test_nothing_appears_unless_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "volume"
    with pytest.raises(KeyError), new(path) as file:
        file.write(bytes(1 << 20))
        raise KeyError
    assert file.closed
    file = new(path)
    file.write(b"lost")
    file.discard()
    file.close()
    file = new(path)
    file.write(b"lost")
    with pytest.warns(ResourceWarning, match="discarded"):
        del file
        gc.collect()
    file = new(path)
    file.raw.close()
    program = (
        "import sys, luxor; f = luxor.open(sys.argv[1], 'wb', passphrase='x', iter_time=0.01);"
        "f.write(b'lost')"
    )
    assert subprocess.run([sys.executable, "-c", program, path], check=False).returncode == 0
    # LUKS1 cannot say this length.
    with pytest.raises(luxor.Error, match="LUKS1"), new(path, type="luks1") as file:
        file.write(b"odd")
    assert os.listdir(tmp_path) == []
    with new(path):
        pass
    with opened(path) as again:
        assert again.read() == b""
    before = path.read_bytes()
    with pytest.raises(luxor.BusyError):
        new(path)
    with pytest.raises(KeyError), new(path, force=True):
        raise KeyError
    assert path.read_bytes() == before
    with new(path, force=True) as file:
        file.write(b"new")
    with opened(path) as again:
        assert again.read() == b"new"
    assert os.listdir(tmp_path) == ["volume"]


def test_a_forked_child_does_not_finish_a_new_volume(tmp_path: Path) -> None:
    path = tmp_path / "volume"
    file: Any = new(path)
    file.write(b"of the parent")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with pytest.raises(luxor.KeyLostInFork):
                file.flush()
            file.close()
            del file
            gc.collect()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert not path.exists()
    file.close()
    with opened(path) as again:
        assert again.read() == b"of the parent"


def test_options_are_those_of_the_mode(volume: Path, tmp_path: Path) -> None:
    for wrong in ({"header": volume}, {"volume_key": bytes(64)}, {"key_slot": 0}):
        with pytest.raises(TypeError):
            new(tmp_path / "new", **wrong)
    with pytest.raises(TypeError, match="sector_size"):
        luxor.open(volume, "r+b", passphrase=PASSPHRASE, sector_size=512)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        new(tmp_path / "new", nonsense=1)
    with pytest.raises(ValueError, match="0 to"), new(tmp_path / "new") as file:
        file.truncate(-1)
    assert not (tmp_path / "new").exists()


@contextlib.contextmanager
def small_files(size: int) -> Iterator[None]:
    """Let files of this process grow to `size` bytes: to a longer one a write fails."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


class Faulty(io.BytesIO):
    """Raises `error` from `write`, while there is one."""

    error: BaseException | None = None

    def write(self, data: Any) -> int:
        if self.error is not None:
            raise self.error
        return super().write(data)


#: Ways to write, all of which are followed by more.
WRITES: list[Callable[[luxor.VolumeCreator], object]] = [
    lambda file: file.write(bytes(8 << 20)),
    lambda file: file.write_at(bytes(8 << 20), 100),
    lambda file: file.write_at(b"after a gap", 8 << 20),
    lambda file: file.truncate(8 << 20),
    lambda file: [file.write(b"in the buffer"), file.seek(0)],
    lambda file: (file.write(b"in the buffer"), len(file)),
    lambda file: file.raw.write(b"past the buffer"),
    lambda file: file.writelines([b"in the buffer", bytes(8 << 20)]),
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), RuntimeError()])
def test_a_write_that_failed_discards_the_volume(
    write: Callable[[luxor.VolumeCreator], object], error: BaseException
) -> None:
    """Also if the caller goes on, and all later writes succeed."""
    stored = Faulty()
    file = new(stored)
    file.write(b"whole so far")
    file.flush()
    stored.error = error
    with pytest.raises((OSError, KeyboardInterrupt)):
        write(file)
    stored.error = None
    with pytest.raises(luxor.Error, match="discarded"):
        file.close()
    assert file.closed
    file.close()
    with pytest.raises(luxor.Error):
        luxor.Volume(stored)


def test_a_file_that_could_not_be_written_does_not_appear(tmp_path: Path) -> None:
    for write in WRITES:
        file = new(tmp_path / "volume")
        with small_files(1 << 20), pytest.raises(OSError):
            write(file)
        with pytest.raises(luxor.Error, match="volume: a write to the new volume failed"):
            file.close()
    file = new(tmp_path / "volume")
    with pytest.raises(TypeError):
        file.writelines([b"written", "not written"])  # type: ignore[list-item]
    with pytest.raises(luxor.Error, match="discarded"):
        file.close()
    # It closes the file below although its own bytes could not be written.
    text = io.TextIOWrapper(new(tmp_path / "volume"), write_through=True)
    with small_files(1 << 20):
        with pytest.raises(OSError):
            text.write("lost" * (1 << 20))
    with pytest.raises(luxor.Error, match="discarded"):
        text.close()
    assert os.listdir(tmp_path) == []
    # Arguments that are refused before anything is written are no failure of a write.
    with new(tmp_path / "volume") as file:
        with pytest.raises(TypeError):
            file.write("text")  # type: ignore[arg-type]
        file.write(b"bytes")
    with opened(tmp_path / "volume") as again:
        assert again.read() == b"bytes"


def test_a_write_that_fails_at_the_end_discards_the_volume() -> None:
    stored = Faulty()
    file = new(stored)
    file.write(b"lost")
    stored.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        file.close()
    assert file.closed


class Interrupt(BaseException):
    """As `KeyboardInterrupt`."""


#: What writes into a binary file, and closes it.
AROUND: list[Callable[[luxor.VolumeCreator], Any]] = [
    io.TextIOWrapper,
    lambda file: io.BufferedWriter(cast(Any, file)),
    lambda file: io.TextIOWrapper(io.BufferedWriter(cast(Any, file))),
    codecs.getwriter("utf-8"),
    lambda file: pyarrow.PythonFile(file, mode="w"),
]


@pytest.mark.parametrize("around", AROUND)
def test_nothing_appears_if_the_block_of_a_wrapper_raises(
    tmp_path: Path, around: Callable[[luxor.VolumeCreator], Any]
) -> None:
    path = tmp_path / "volume"
    with pytest.warns(luxor.VolumeWarning, match="volume: .* discarded.*Interrupt"):
        with pytest.raises(Interrupt), around(new(path)):
            raise Interrupt
    assert os.listdir(tmp_path) == []
    with pytest.warns(luxor.VolumeWarning), pytest.raises(Interrupt):
        with contextlib.closing(around(new(path))):
            raise Interrupt
    assert os.listdir(tmp_path) == []
    with pytest.warns(luxor.VolumeWarning, match="Interrupt"), pytest.raises(Interrupt):
        file = around(new(path))
        try:
            raise Interrupt
        finally:
            file.close()
    assert os.listdir(tmp_path) == []
    with around(new(path)):
        pass
    with opened(path) as again:
        assert again.read() == b""


@pytest.mark.parametrize("around", AROUND)
def test_nothing_appears_that_nothing_closes(
    tmp_path: Path, around: Callable[[luxor.VolumeCreator], Any]
) -> None:
    file = around(new(tmp_path / "volume"))
    with pytest.warns(ResourceWarning, match="discarded"):
        del file
        gc.collect()
    assert os.listdir(tmp_path) == []


def test_exceptions_from_before_the_file_do_not_discard_it(tmp_path: Path) -> None:
    path = tmp_path / "volume"
    try:
        raise KeyError
    except KeyError:
        with io.TextIOWrapper(new(path)) as text:
            text.write("the other way")
    with opened(path) as again:
        assert again.read() == b"the other way"
    file = new(path, force=True)
    try:
        raise KeyError
    except KeyError:
        # It says that nothing has raised.
        with file:
            file.write(b"handled")
    with opened(path) as again:
        assert again.read() == b"handled"


@pytest.mark.parametrize(
    "write",
    [
        lambda file: (file.seek(1 << 60), file.write(b"x"), file.flush()),
        lambda file: file.write_at(b"x", 1 << 60),
        lambda file: file.truncate(1 << 60),
    ],
)
def test_a_gap_that_nothing_can_hold_is_refused_at_once(
    tmp_path: Path, write: Callable[[luxor.VolumeCreator], object]
) -> None:
    """Its zeros are encrypted, and would fill the disk."""
    path, below = tmp_path / "volume", open(tmp_path / "below", "w+b")
    for target, allowed in ((path, errno.ENOSPC), (below, errno.ENOSPC), (io.BytesIO(), None)):
        file = new(target)
        file.write(b"so far")
        # More is not written even if the system refuses nothing.
        with small_files(64 << 20), pytest.raises(OSError) as caught:
            write(file)
        assert caught.value.errno == allowed
        # A buffer tries again first.
        with pytest.raises((luxor.Error, OSError)):
            file.close()
    below.close()
    assert os.listdir(tmp_path) == ["below"] and os.path.getsize(tmp_path / "below") < 17 << 20
