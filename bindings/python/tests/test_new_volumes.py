# SPDX-License-Identifier: MIT OR Apache-2.0
"""New volumes that are as long as what is written into them."""

from __future__ import annotations

import gc
import io
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def test_a_write_that_fails_discards_the_volume() -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise KeyboardInterrupt

    file = new(Full())
    file.write(b"lost")
    with pytest.raises(KeyboardInterrupt):
        file.close()
    assert file.closed
