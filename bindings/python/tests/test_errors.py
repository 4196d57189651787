# SPDX-License-Identifier: MIT OR Apache-2.0
"""The system's errors keep their number, and are of Python's classes for them."""

from __future__ import annotations

import errno
import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import luxor
import pytest
from conftest import CHEAP, PASSPHRASE


class Failing(io.BytesIO):
    """Bytes in memory. What its methods raise from byte `begin` to `end` is `failure`."""

    failure: Exception | None = None
    begin, end = 0, 1 << 40

    def _check(self, size: int) -> None:
        at = self.tell()
        if self.failure is not None and at < self.end and at + size > self.begin:
            raise self.failure

    def read(self, size: int | None = -1) -> bytes:
        self._check(len(self.getvalue()) if size is None else size)
        return super().read(size)

    def write(self, data: Any) -> int:
        self._check(len(data))
        return super().write(data)


NUMBERS = [errno.ENOSPC, errno.EACCES, errno.EIO, errno.EROFS, errno.ETIMEDOUT, errno.EDQUOT]


def failure(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def check(raised: BaseException, cause: OSError) -> None:
    assert isinstance(raised, OSError)
    assert (raised.errno, raised.strerror) == (cause.errno, os.strerror(cause.errno or 0))
    assert raised.__cause__ is cause


@pytest.mark.parametrize("number", NUMBERS)
def test_an_open_volume_passes_on_what_its_storage_raises(volume: Path, number: int) -> None:
    file, cause = Failing(volume.read_bytes()), failure(number)
    opened: Any = luxor.open(file, "r+b", passphrase=PASSPHRASE).detach()
    calls: list[Callable[[], object]] = [
        lambda: opened.read_at(10, 500_000),
        lambda: opened.write_at(b"x" * 4096, 0),
        lambda: opened.write_at(b"x", 5),
    ]
    for call in calls:
        file.failure = cause
        with pytest.raises(type(cause)) as raised:
            call()
        check(raised.value, cause)
        file.failure = None
    opened.close()


def test_a_class_without_a_number_is_kept(volume: Path) -> None:
    file, cause = Failing(volume.read_bytes()), TimeoutError("too slow")
    with luxor.open(file, passphrase=PASSPHRASE) as opened:
        file.failure = cause
        with pytest.raises(TimeoutError, match="too slow") as raised:
            opened.read(10)
    assert raised.value.errno is None
    assert raised.value.__cause__ is cause


@pytest.mark.parametrize("number", NUMBERS)
def test_operations_pass_on_what_a_storage_raises(volume: Path, number: int) -> None:
    data, cause = volume.read_bytes(), failure(number)

    def failing(begin: int = 0, end: int = 1 << 40, of: bytes = data) -> Failing:
        file = Failing(of)
        file.failure, file.begin, file.end = cause, begin, end
        return file

    def write(file: Any) -> None:
        with luxor.open(file, "wb", passphrase="x", **CHEAP) as opened:
            opened.write(b"x" * 100_000)

    area = (0x8000, 1 << 20)
    calls: list[Callable[[], object]] = [
        lambda: luxor.open(failing(), passphrase=PASSPHRASE),
        lambda: luxor.open(failing(*area), passphrase=PASSPHRASE),
        lambda: luxor.Volume(failing()),
        lambda: luxor.Volume(failing(*area)).add_key(
            passphrase=PASSPHRASE, new_passphrase="x", **CHEAP
        ),
        lambda: luxor.Volume(failing(*area)).back_up_header("backup"),
        lambda: luxor.decrypt(failing(16 << 20), io.BytesIO(), passphrase=PASSPHRASE),
        lambda: luxor.decrypt(volume, failing(of=b""), passphrase=PASSPHRASE),
        lambda: luxor.encrypt(failing(of=b"x"), io.BytesIO(), passphrase="x", **CHEAP),
        lambda: luxor.encrypt(io.BytesIO(b"x"), failing(of=b""), passphrase="x", **CHEAP),
        lambda: write(failing(of=b"")),
        lambda: luxor.VolumeCipher(failing(), passphrase=PASSPHRASE),
        lambda: luxor.new_header(10, passphrase=PASSPHRASE, like=failing()),
    ]
    for at, call in enumerate(calls):
        raised: BaseException | None = None
        try:
            call()
        except Exception as error:
            raised = error
        assert isinstance(raised, OSError), (at, raised)
        assert (raised.errno, raised.__cause__) == (number, cause), (at, raised)
        check(raised, cause)


def test_a_copy_that_cannot_be_read_is_not_damaged(volume: Path) -> None:
    """Nothing writes over it, although the other copy opens the volume."""
    data = volume.read_bytes()
    for begin, damaged in [(0, 0x4000), (0x4000, 0)]:
        file, cause = Failing(data), failure(errno.EIO)
        file.failure, file.begin, file.end = cause, begin, begin + 0x4000
        with pytest.warns(luxor.VolumeWarning, match="cannot be read"):
            opened = luxor.Volume(file)
        assert opened.keyslots == [0]
        with pytest.warns(luxor.VolumeWarning), pytest.raises(luxor.FileError) as raised:
            opened.add_key(passphrase=PASSPHRASE, new_passphrase="x", **CHEAP)
        check(raised.value, cause)
        assert file.getvalue() == data
        # The other copy is damaged: what cannot be read may be good.
        other = bytearray(data)
        other[damaged + 100] ^= 1
        file = Failing(bytes(other))
        file.failure, file.begin, file.end = cause, begin, begin + 0x4000
        with pytest.raises(luxor.FileError) as raised:
            luxor.Volume(file)
        check(raised.value, cause)


def test_nothing_is_repaired_from_an_older_volume(volume: Path, tmp_path: Path) -> None:
    """Its secondary copy lies beyond the one that cannot be read."""
    older = tmp_path / "older"
    luxor.create(older, 1 << 20, passphrase="x", luks2_metadata_size=0x8000, **CHEAP)
    data = bytearray(volume.read_bytes())
    data[0x8000:0x10000] = older.read_bytes()[0x8000:0x10000]
    data[100] ^= 1
    file, cause = Failing(bytes(data)), failure(errno.EIO)
    file.failure, file.begin, file.end = cause, 0x4000, 0x8000
    with pytest.warns(luxor.VolumeWarning, match="cannot be read"):
        opened = luxor.Volume(file)
    assert opened.uuid == luxor.Volume(older).uuid
    with pytest.warns(luxor.VolumeWarning), pytest.raises(luxor.FileError) as raised:
        opened.add_token({"type": "t", "keyslots": []})
    check(raised.value, cause)
    assert file.getvalue() == data


def test_files_that_cannot_be_opened(tmp_path: Path, volume: Path) -> None:
    there, folder = tmp_path / "there", tmp_path / "folder"
    there.write_bytes(b"x")
    folder.mkdir()
    missing, below = tmp_path / "missing", tmp_path / "no" / "file"
    new: dict[str, Any] = {"passphrase": "x", **CHEAP}
    cases: list[tuple[Callable[[], object], type[OSError], type[luxor.Error], int, Path | None]] = [
        (lambda: luxor.open(missing, passphrase="x"), FileNotFoundError, luxor.MissingError,
         errno.ENOENT, missing),
        (lambda: luxor.Volume(missing), FileNotFoundError, luxor.MissingError, errno.ENOENT, missing),
        (lambda: luxor.encrypt(missing, there, **new), FileNotFoundError, luxor.MissingError,
         errno.ENOENT, missing),
        (lambda: luxor.encrypt(there, below, **new), FileNotFoundError, luxor.MissingError,
         errno.ENOENT, below),
        (lambda: luxor.open(below, "wb", **new), FileNotFoundError, luxor.MissingError,
         errno.ENOENT, below),
        (lambda: luxor.open(volume, key_file=missing), FileNotFoundError, luxor.MissingError,
         errno.ENOENT, None),
        (lambda: luxor.encrypt(there, volume, **new), FileExistsError, luxor.BusyError,
         errno.EEXIST, volume),
        (lambda: luxor.create(volume, 1 << 20, **new), FileExistsError, luxor.ExistsError,
         errno.EEXIST, volume),
        (lambda: luxor.open(folder, passphrase="x"), IsADirectoryError, luxor.FolderError,
         errno.EISDIR, folder),
        (lambda: luxor.Volume(folder), IsADirectoryError, luxor.FolderError, errno.EISDIR, folder),
        (lambda: luxor.encrypt(there, folder, **new), IsADirectoryError, luxor.FolderError,
         errno.EISDIR, folder),
        (lambda: luxor.open("x" * 300, passphrase="x"), OSError, luxor.NameTooLong,
         errno.ENAMETOOLONG, None),
    ]  # fmt: skip
    for at, (call, builtin, own, number, name) in enumerate(cases):
        with pytest.raises(luxor.Error) as caught:
            call()
        raised = caught.value
        assert isinstance(raised, builtin), (at, raised)
        assert isinstance(raised, own), (at, raised)
        assert (raised.errno, raised.strerror) == (number, os.strerror(number)), (at, raised)
        assert raised.filename == (None if name is None else str(name)), (at, raised)
        assert not str(raised).startswith("[Errno"), (at, raised)
        again = pickle.loads(pickle.dumps(raised))
        assert type(again) is type(raised)
        assert (str(again), again.errno, again.filename) == (str(raised), number, raised.filename)
        assert getattr(again, "__notes__", None) == getattr(raised, "__notes__", None)


def test_permission_is_denied(tmp_path: Path, volume: Path) -> None:
    """As a user who may not open the file, nor make one."""
    if os.getuid() != 0:
        volume.chmod(0)
        with pytest.raises(PermissionError):
            luxor.open(volume, passphrase=PASSPHRASE)
        return
    script = f"""
import errno, os, luxor
os.setuid(65534)
new = dict(passphrase="x", pbkdf="pbkdf2", pbkdf_force_iterations=1000)
for call in [
    lambda: luxor.open({str(volume)!r}, passphrase="x"),
    lambda: luxor.create("/usr/luxor-test", 1 << 20, **new),
]:
    try:
        call()
    except luxor.PermissionDenied as error:
        assert isinstance(error, PermissionError) and error.errno == errno.EACCES, error
    else:
        raise AssertionError("it was allowed")
"""
    volume.chmod(0)
    for folder in [tmp_path, *tmp_path.parents[:2]]:
        folder.chmod(0o755)
    run_python(script)


def run_python(script: str) -> None:
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("what", ["encrypt", "create", "open"])
def test_files_that_may_not_be_longer(tmp_path: Path, what: str) -> None:
    """A limit of the process stands for a full disk: the system refuses to write."""
    script = f"""
import errno, io, os, resource, signal, luxor
new = dict(passphrase="x", pbkdf="pbkdf2", pbkdf_force_iterations=1000)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (17 << 20, 17 << 20))
def write():
    with luxor.open("v", "wb", **new) as file:
        file.write(bytes(3 << 20))
calls = dict(
    encrypt=lambda: luxor.encrypt(io.BytesIO(bytes(3 << 20)), "v", **new),
    create=lambda: luxor.create("v", 50 << 20, **new),
    open=write,
)
try:
    calls[{what!r}]()
except OSError as error:
    assert error.errno == errno.EFBIG, repr(error)
else:
    raise AssertionError("it was allowed")
"""
    run_python(script)


def test_hints_name_arguments(tmp_path: Path) -> None:
    volume, header = tmp_path / "volume", tmp_path / "header"
    luxor.create(volume, 1 << 20, passphrase=PASSPHRASE, header=header, **CHEAP)
    alone = tmp_path / "alone"
    luxor.create(alone, 1 << 20, passphrase=PASSPHRASE, **CHEAP)
    within = tmp_path / "within"
    within.write_bytes(bytes(1 << 20) + alone.read_bytes())

    def hint(call: Callable[[], Any]) -> str | None:
        with pytest.raises(luxor.Error) as raised:
            call()
        assert raised.value.hint is None or "--" not in raised.value.hint
        return raised.value.hint

    opened = hint(lambda: luxor.open(header, passphrase=PASSPHRASE))
    assert opened == "Name the file with the data, and this one as the argument header."
    with luxor.open(volume, passphrase=PASSPHRASE, header=header) as file:
        assert len(file.read()) == 1 << 20
    again = hint(lambda: luxor.create(alone, 1 << 20, passphrase=PASSPHRASE, **CHEAP))
    assert again == "force=True overwrites it."
    luxor.create(alone, 1 << 20, passphrase=PASSPHRASE, force=True, **CHEAP)
    last = hint(lambda: luxor.Volume(alone).remove_keyslot(0))
    assert last == "last=True removes it nevertheless."
    there = hint(lambda: luxor.Volume(within))
    assert there == "volume_offset=1048576 opens the volume in it."
    assert luxor.Volume(within, volume_offset=1 << 20).keyslots == [0]
    luxor.Volume(alone).remove_keyslot(0, last=True)
    assert luxor.Volume(alone).keyslots == []
