# SPDX-License-Identifier: MIT OR Apache-2.0
"""Encryption and decryption of whole files, new volumes, keys, tokens and headers."""

from __future__ import annotations

import bz2
import fcntl
import gzip
import io
import json
import lzma
import math
import os
import signal
import stat
import tarfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import luxor
import pytest
from conftest import CHEAP, PASSPHRASE


@pytest.mark.parametrize("version", ["luks1", "luks2"])
@pytest.mark.parametrize("length", [0, 512, 100_352])
def test_files_and_objects_come_back(tmp_path: Path, version: Any, length: int) -> None:
    plain = os.urandom(length)
    if (version, length) == ("luks1", 0):
        with pytest.raises(luxor.Error):
            luxor.encrypt(io.BytesIO(), io.BytesIO(), passphrase="x", type=version, **CHEAP)
        return
    path = tmp_path / "plain"
    path.write_bytes(plain)
    sources: list[Any] = [path, str(path), os.fsencode(path), io.BytesIO(plain)]
    targets: list[Any] = [tmp_path / "volume", io.BytesIO()]
    for source in sources:
        for target in targets:
            for file in (source, target):
                if isinstance(file, io.BytesIO):
                    file.seek(0)
            options = {"passphrase": PASSPHRASE, "type": version, "force": True, **CHEAP}
            if isinstance(target, io.BytesIO):
                target.truncate()
            luxor.encrypt(source, target, **options)
            if isinstance(target, io.BytesIO):
                target.seek(0)
            back = io.BytesIO(b"in front")
            back.seek(0, 2)
            luxor.decrypt(target, back, passphrase=PASSPHRASE)
            assert back.getvalue() == b"in front" + plain


def test_options_become_metadata(tmp_path: Path, cryptsetup: Callable[..., str]) -> None:
    path = tmp_path / "volume"
    uuid = "01234567-89ab-4def-8123-456789abcdef"
    luxor.create(
        path,
        1 << 20,
        passphrase=PASSPHRASE,
        sector_size=512,
        key_size=256,
        label="backup",
        uuid=uuid,
        pbkdf="argon2id",
        pbkdf_memory=32,
        pbkdf_parallel=1,
        pbkdf_force_iterations=4,
        luks2_metadata_size=32 << 10,
        luks2_keyslots_size=128 << 10,
    )
    assert path.stat().st_size == (2 * 32 + 128 << 10) + (1 << 20)
    volume = luxor.Volume(path)
    assert (volume.version, volume.uuid, volume.label) == (2, uuid, "backup")
    assert volume.keyslots == [0]
    dump = volume.dump()
    assert dump == json.loads(cryptsetup("luksDump", "--dump-json-metadata", path))
    assert dump["segments"]["0"]["sector_size"] == 512
    kdf = dump["keyslots"]["0"]["kdf"]
    assert (kdf["type"], kdf["memory"], kdf["cpus"], kdf["time"]) == ("argon2id", 32, 1, 4)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    cryptsetup("open", "--test-passphrase", path)


@pytest.mark.parametrize(
    "options",
    [
        {"type": "luks3"},
        {"key_size": 384},
        {"sector_size": 1000},
        {"label": "x" * 100},
        {"uuid": "not one"},
        {"pbkdf": "scrypt"},
        {"iter_time": -1.0},
        {"pbkdf": "pbkdf2", "pbkdf_force_iterations": 5},
        {"type": "luks1", "sector_size": 4096},
        {"type": "luks1", "luks2_metadata_size": 16 << 10},
        {"luks2_metadata_size": 20 << 10},
        {"luks2_keyslots_size": 4095},
        {"luks2_keyslots_size": 248 << 10},
        {"luks2_keyslots_size": -1},
        {"passphrase": ""},
    ],
)
def test_bad_options_are_refused_before_a_file_appears(tmp_path: Path, options: Any) -> None:
    options = {"passphrase": "x", **options}
    with pytest.raises(ValueError):
        luxor.create(tmp_path / "volume", 1 << 20, **options)
    with pytest.raises(ValueError):
        luxor.encrypt(io.BytesIO(b"x"), tmp_path / "volume", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"engine": 5}, TypeError),
        ({"threads": -1}, ValueError),
        ({"threads": "2"}, TypeError),
        ({"type": None}, TypeError),
        ({"size": -1}, ValueError),
        ({"size": 2**64}, ValueError),
        ({"size": 1.5}, TypeError),
        ({"force": 1}, TypeError),
        ({"pbkdf_memory": 2**32}, ValueError),
        ({"iter_time": "2"}, TypeError),
        ({"iter_time": 10**400}, ValueError),
        ({"iter_time": -1.0}, ValueError),
    ],
)
def test_the_exception_names_the_argument(
    tmp_path: Path, options: dict[str, Any], kind: type[Exception]
) -> None:
    (name,) = options
    options = {"size": 1 << 20, "passphrase": "x", **options}
    with pytest.raises(kind, match=rf"^{name}(:| is out of range)"):
        luxor.create(tmp_path / "volume", **options)


def test_the_exception_names_the_number(volume: Path) -> None:
    keys = luxor.Volume(volume)
    secrets: Any = {"passphrase": PASSPHRASE, "new_passphrase": "x", **CHEAP}
    calls: list[Callable[[Any], object]] = [
        lambda number: keys.add_key(number=number, **secrets),
        lambda number: keys.remove_keyslot(number),
        lambda number: keys.add_token({"type": "x", "keyslots": []}, number),
        lambda number: keys.token(number),
        lambda number: keys.remove_token(number),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="^number is out of range"):
            call(-1)
        with pytest.raises(TypeError, match="^number: "):
            call("1")


@pytest.mark.parametrize("kind", [str, os.fsencode, Path])
def test_a_path_may_have_any_type(tmp_path: Path, kind: Callable[[Path], Any]) -> None:
    names = ("empty", "volume", "header", "key", "new", "backup", "plain")
    empty, volume, header, key, new, backup, plain = (kind(tmp_path / name) for name in names)
    for name in ("key", "new", "plain"):
        (tmp_path / name).write_text(name)
    luxor.create(empty, 1 << 20, key_file=key, header=header, **CHEAP)
    os.remove(header)
    luxor.encrypt(plain, volume, key_file=key, header=header, **CHEAP)
    keys = luxor.Volume(header)
    assert keys.change_key(key_file=key, new_key_file=new, **CHEAP) == 0
    keys.back_up_header(backup)
    keys.remove_keyslot(0, last=True)
    luxor.restore_header(backup, header)
    luxor.decrypt(volume, plain, key_file=new, header=header, force=True)
    assert (tmp_path / "plain").read_text() == "plain"
    with luxor.open(volume, key_file=new, header=header) as file:
        assert file.read(5) == b"plain"


def test_a_dash_is_a_path(tmp_path: Path) -> None:
    """The fixture of all tests has changed into `tmp_path`."""
    dash = tmp_path / "-"
    dash.write_text("key")
    luxor.create("volume", 1 << 20, key_file="-", **CHEAP)
    with luxor.open("volume", passphrase="key") as file:
        assert len(file) == 1 << 20
    dash.unlink()
    keys = luxor.Volume("volume")
    assert keys.back_up_header("-") == dash.stat().st_size
    luxor.restore_header("-", "volume", force=True)
    dash.unlink()
    luxor.create("-", 1 << 20, passphrase="x", **CHEAP)
    assert luxor.Volume("-").keyslots == [0]
    luxor.decrypt("-", "plain", passphrase="x")
    luxor.encrypt("plain", "-", passphrase="x", force=True, **CHEAP)
    with luxor.open(b"-", passphrase="x") as file:
        assert len(file) == 1 << 20


def test_nothing_is_replaced_without_force(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"kept")
    with pytest.raises(luxor.BusyError):
        luxor.encrypt(io.BytesIO(b"x"), path, passphrase="x", **CHEAP)
    with pytest.raises(luxor.BusyError):
        luxor.create(path, 1 << 20, passphrase="x", **CHEAP)
    assert path.read_bytes() == b"kept"
    with pytest.raises(luxor.Error):
        luxor.encrypt(path, path, passphrase="x", force=True, **CHEAP)
    assert path.read_bytes() == b"kept"


@pytest.mark.parametrize("contents", [b"account 12-345 " * 20, b"a\0b", b"a/" * 4096, bytes(1 << 20)])
def test_contents_are_not_taken_for_a_name(volume: Path, contents: bytes) -> None:
    """And no message repeats them, whatever they were passed for."""
    calls: list[Callable[[Any], object]] = [
        lambda given: luxor.encrypt(given, "new", passphrase="x", **CHEAP),
        lambda given: luxor.encrypt(volume, given, passphrase="x", **CHEAP),
        lambda given: luxor.encrypt(volume, "new", passphrase="x", header=given, **CHEAP),
        lambda given: luxor.decrypt(given, "new", passphrase="x"),
        lambda given: luxor.open(given, passphrase="x"),
        lambda given: luxor.open(volume, passphrase="x", header=given),
        lambda given: luxor.open(volume, key_file=given),
        lambda given: luxor.create(given, 4096, passphrase="x", **CHEAP),
        lambda given: luxor.Volume(given),
        lambda given: luxor.Volume(volume).back_up_header(given),
        lambda given: luxor.restore_header(given, volume),
        lambda given: luxor.VolumeCipher(given, passphrase="x"),
    ]
    for call in calls:
        for given in (contents, os.fsdecode(contents)):
            with pytest.raises(ValueError, match=r"io\.BytesIO") as raised:
                call(given)
            text = "".join(traceback.format_exception_only(raised.value))
            assert len(text) < 200 and "account" not in text
    assert not Path("new").exists()


def test_short_contents_are_not_repeated(volume: Path) -> None:
    calls: list[Callable[[], object]] = [
        lambda: luxor.encrypt(b"account 12-345", "new", passphrase="x", **CHEAP),
        lambda: luxor.open(b"account 12-345", passphrase="x"),
        lambda: luxor.Volume(b"account 12-345"),
    ]
    for call in calls:
        with pytest.raises(luxor.MissingError) as raised:
            call()
        text = "".join(traceback.format_exception(raised.value)[-2:])
        assert "account" not in str(raised.value) and "io.BytesIO" in text
    with pytest.raises(luxor.MissingError, match="account 12-345"):
        luxor.open("account 12-345", passphrase="x")
    for given in (b"account 12-345", "account 12-345"):
        with pytest.raises(luxor.MissingError, match="^the file of key_file cannot be found: No such"):
            luxor.open(volume, key_file=given)


def test_names_in_messages_are_bounded(volume: Path) -> None:
    long = "x" * 100_000
    memory = io.BytesIO(b"LUKS")
    memory.name = long
    deep = "/".join(["a" * 200] * 20)
    calls: list[Callable[[], object]] = [
        lambda: luxor.open(memory, passphrase="x"),
        lambda: luxor.open(deep, passphrase="x"),
        lambda: luxor.open(volume, passphrase="x", engine=long),
        lambda: luxor.encrypt(volume, "new", passphrase="x", pbkdf=cast(Any, long)),
        lambda: luxor.encrypt(volume, "new", passphrase="x", type=cast(Any, long)),
        lambda: luxor.encrypt(volume, "new", passphrase="x", uuid=long),
        lambda: luxor.encrypt(volume, "new", passphrase="x", label=long),
        lambda: luxor.open(volume, cast(Any, long), passphrase="x"),
        lambda: luxor.XTS(bytes(range(64)), engine=long),
    ]
    for number, call in enumerate(calls):
        with pytest.raises((luxor.Error, ValueError)) as raised:
            call()
        assert len(str(raised.value)) < 1000, number


class Lying(io.BytesIO):
    """Bytes that say that they can seek, and cannot in the way `lie`."""

    lie = ""

    def seekable(self) -> bool:
        if self.lie == "seekable":
            raise AttributeError("no seekable")
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        if self.lie == "end" and whence == 2 or self.lie == "seek":
            raise ValueError("Seek from end not supported")
        return super().seek(offset, whence)

    def tell(self) -> int:
        if self.lie == "tell":
            raise OSError("no position")
        return super().tell()


@pytest.mark.parametrize("lie", ["seekable", "end", "seek", "tell"])
def test_an_object_that_only_says_that_it_can_seek_is_a_stream(volume: Path, lie: str) -> None:
    plain = os.urandom(300_001)
    for source_lies, target_lies in ((True, False), (False, True), (True, True)):
        source, target, again = Lying(b"before" + plain), Lying(), Lying()
        source.seek(6)
        source.lie, target.lie = lie * source_lies, lie * target_lies
        luxor.encrypt(source, target, passphrase="x", **CHEAP)
        stored = Lying(target.getvalue())
        stored.lie, again.lie = lie * source_lies, lie * target_lies
        luxor.decrypt(stored, again, passphrase="x")
        assert again.getvalue() == plain
    stored.lie = lie
    with pytest.raises(luxor.Error, match="cannot seek"):
        luxor.open(stored, passphrase="x")


def test_a_stream_that_cannot_come_back_is_refused() -> None:
    """It would be encrypted as an empty file."""

    class Forward(io.BytesIO):
        def seek(self, offset: int, whence: int = 0) -> int:
            if whence == 0:
                raise OSError("only forward")
            return super().seek(offset, whence)

    with pytest.raises(OSError, match="only forward"):
        luxor.encrypt(Forward(b"lost"), io.BytesIO(), passphrase="x", **CHEAP)


@pytest.mark.parametrize("length", [0, 1, 4096, 299_999])
def test_a_source_that_goes_on_after_its_end_is_refused(length: int, volume: Path) -> None:
    """Only a part of it would be encrypted, or nothing."""

    class Shortened(io.BytesIO):
        def seek(self, offset: int, whence: int = 0) -> int:
            return super().seek(length + offset, 0) if whence == 2 else super().seek(offset, whence)

    class Lost(io.BytesIO):
        def seek(self, offset: int, whence: int = 0) -> int:
            return length

        def tell(self) -> int:
            return length

    plain, target = os.urandom(300_000), io.BytesIO()
    for source in (Shortened(plain), Lost(plain)):
        with pytest.raises(ValueError, match=f"(Shortened|Lost) goes on after byte {length}"):
            luxor.encrypt(source, target, passphrase="x", **CHEAP)
    assert target.getvalue() == b""
    with pytest.raises(ValueError, match="goes on"):
        luxor.open(Shortened(volume.read_bytes()), passphrase=PASSPHRASE)


def test_a_source_that_grows_is_no_source_that_goes_on() -> None:
    class Log(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            at = self.tell()
            self.seek(0, 2)
            self.write(b"line")
            self.seek(at)
            return super().read(size)

    target, again = io.BytesIO(), io.BytesIO()
    luxor.encrypt(Log(b"line"), target, passphrase="x", **CHEAP)
    target.seek(0)
    luxor.decrypt(target, again, passphrase="x")
    assert again.getvalue() in (b"line", b"lineline")


def test_compressed_files_and_members_of_streams(tmp_path: Path) -> None:
    plain = os.urandom(200_000) + bytes(100_000)
    for module in (gzip, bz2, lzma):
        with cast(Any, module).open(tmp_path / "compressed", "wb") as target:
            luxor.encrypt(io.BytesIO(plain), target, passphrase="x", **CHEAP)
        with cast(Any, module).open(tmp_path / "compressed", "rb") as source:
            again = io.BytesIO()
            luxor.decrypt(source, again, passphrase="x")
            assert again.getvalue() == plain
    stored = io.BytesIO()
    luxor.encrypt(io.BytesIO(plain), stored, passphrase="x", **CHEAP)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, data in (("plain", plain), ("volume", stored.getvalue())):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    archive.seek(0)
    with tarfile.open(fileobj=archive, mode="r|") as tar:
        for member in tar:
            file, target = cast(Any, tar.extractfile(member)), io.BytesIO()
            if member.name == "plain":
                luxor.encrypt(file, target, passphrase="x", **CHEAP)
                with luxor.open(target, passphrase="x") as opened:
                    assert opened.read() == plain
            else:
                luxor.decrypt(file, target, passphrase="x")
                assert target.getvalue() == plain


def test_what_is_appended_is_written_in_order(tmp_path: Path) -> None:
    """A header that is written last would land at the end."""
    path, plain = tmp_path / "volume", os.urandom(100_000)
    with open(path, "ab") as target:
        luxor.encrypt(io.BytesIO(plain), target, passphrase="x", **CHEAP)
    with luxor.open(path, passphrase="x") as file:
        assert file.read() == plain
    with open(path, "a+b") as target, pytest.raises(luxor.Error, match="appends"):
        luxor.open(target, "r+b", passphrase="x")
    with open(path, "a+b") as source, luxor.open(source, passphrase="x") as file:
        assert file.read() == plain


def test_a_target_with_bytes_after_its_position_is_refused(volume: Path) -> None:
    target = io.BytesIO(b"old bytes")
    target.seek(4)
    with pytest.raises(ValueError, match="5 bytes after its position.*truncate"):
        luxor.encrypt(io.BytesIO(b"x"), target, passphrase="x", **CHEAP)
    with pytest.raises(ValueError, match="5 bytes after its position.*truncate"):
        luxor.decrypt(volume, target, passphrase=PASSPHRASE)
    assert (target.tell(), target.getvalue()) == (4, b"old bytes")
    target.truncate()
    luxor.decrypt(volume, target, passphrase=PASSPHRASE)
    assert target.getvalue() == b"old " + bytes(1 << 20)


def test_a_file_is_not_copied_to_itself(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"kept")
    memory = io.BytesIO(b"kept")
    # At the end, so that no bytes follow.
    memory.seek(0, 2)
    with open(path, "rb") as source, open(path, "r+b") as target:
        target.seek(0, 2)
        pairs: list[tuple[Any, Any]] = [
            (memory, memory),
            (source, target),
            (path, target),
            (source, path),
        ]
        for pair in pairs:
            with pytest.raises(ValueError, match="the same file"):
                luxor.encrypt(*pair, passphrase="x", force=True, **CHEAP)
            with pytest.raises(ValueError, match="the same file"):
                luxor.decrypt(*pair, passphrase="x", force=True)
    assert path.read_bytes() == memory.getvalue() == b"kept"


class Endless(io.RawIOBase):
    """Zeros without end, from which nothing can seek away."""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return bytes(size)


@pytest.mark.parametrize("count", [None, 0, 1 << 40])
def test_a_write_that_does_not_write_is_an_error(count: int | None) -> None:
    class Deaf(io.BytesIO):
        def write(self, data: Any) -> Any:
            return count

    with pytest.raises(luxor.Error) as raised:
        luxor.encrypt(io.BytesIO(b"lost"), Deaf(), passphrase="x", **CHEAP)
    assert isinstance(raised.value.__cause__, ValueError)


def test_a_header_that_cannot_be_written_has_a_cause() -> None:
    failure = ConnectionError("the network is down")

    class Target(io.BytesIO):
        def write(self, data: Any) -> int:
            if self.tell() == 0:
                raise failure
            return super().write(data)

    with pytest.raises(luxor.Error, match="cannot write.*the network is down") as raised:
        luxor.encrypt(io.BytesIO(b"x"), Target(), passphrase="x", **CHEAP)
    assert raised.value.__cause__ is failure


def test_a_write_may_be_short() -> None:
    class Short(io.BytesIO):
        def write(self, data: Any) -> int:
            return super().write(data[:100_000])

    target = Short()
    plain = os.urandom(1 << 20)
    luxor.encrypt(io.BytesIO(plain), target, passphrase="x", **CHEAP)
    with luxor.open(target, passphrase="x") as file:
        assert file.read() == plain


def test_progress_must_be_callable(tmp_path: Path) -> None:
    path, wrong = tmp_path / "volume", cast(Any, 5)
    with pytest.raises(TypeError, match="not callable"):
        luxor.encrypt(io.BytesIO(b"x"), path, passphrase="x", progress=wrong)
    assert not path.exists()


def test_progress_is_told_and_may_cancel(tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    plain = tmp_path / "plain"
    with open(plain, "wb") as file:
        file.truncate(64 << 20)
    luxor.encrypt(
        plain,
        tmp_path / "volume",
        passphrase="x",
        progress=lambda done, total: told.append((done, total)),
        **CHEAP,
    )
    assert told[-1] == (64 << 20, 64 << 20)
    assert told == sorted(told)

    def stop(done: int, total: int | None) -> None:
        assert total is None
        if done > 0:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        luxor.encrypt(Endless(), tmp_path / "endless", passphrase="x", progress=stop, **CHEAP)
    assert not (tmp_path / "endless").exists()


def interrupt(call: Callable[[], object]) -> None:
    """Sends Ctrl-C soon after `call` has begun."""
    # A shell starts background jobs with this signal ignored, and Python leaves it so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        call()
        timer.join()


def is_working() -> bool:
    """Whether a thread of the module is at work."""
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    return any("luxor-python" in name for name in names)


def test_ctrl_c_ends_every_long_call(volume: Path, tmp_path: Path) -> None:
    slow: Any = {"pbkdf": "pbkdf2", "pbkdf_force_iterations": 5_000_000}
    interrupt(lambda: luxor.create(tmp_path / "made", 1 << 20, passphrase="x", **slow))
    # The derivation goes on without its caller, and then changes nothing.
    assert is_working()
    keys = luxor.Volume(volume)
    add: Any = {"passphrase": PASSPHRASE, "new_passphrase": "y", **slow}
    interrupt(lambda: keys.add_key(**add))
    assert is_working()
    interrupt(lambda: luxor.encrypt(Endless(), tmp_path / "big", passphrase="x", **CHEAP))
    while is_working():
        time.sleep(0.1)
    assert keys.keyslots == [0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["volume"]


def test_ctrl_c_ends_the_wait_for_a_lock(volume: Path, tmp_path: Path) -> None:
    """The change does not happen later, when the lock is free."""
    keys, backup = luxor.Volume(volume), tmp_path / "backup"
    keys.back_up_header(backup)
    before = volume.read_bytes()
    changes: list[Callable[[], object]] = [
        lambda: keys.remove_keyslot(0, last=True),
        lambda: keys.remove_key(passphrase=PASSPHRASE, last=True),
        lambda: keys.add_token({"type": "example", "keyslots": []}),
        lambda: luxor.restore_header(backup, volume),
    ]
    for change in changes:
        with open(volume, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            interrupt(change)
        while is_working():
            time.sleep(0.01)
        assert volume.read_bytes() == before


def test_ctrl_c_restores_an_interrupted_buffer() -> None:
    xts = luxor.XTS(bytes(range(64)), engine="portable", threads=1)
    piece = os.urandom(1 << 20)
    data = bytearray(piece * 256)
    interrupt(lambda: xts.encrypt_into(data, data))
    assert all(data[at : at + (1 << 20)] == piece for at in range(0, len(data), 1 << 20))


def test_keys_are_added_changed_and_removed(
    volume: Path, tmp_path: Path, cryptsetup: Callable[..., str]
) -> None:
    keys = luxor.Volume(volume)
    key_file = tmp_path / "key"
    key_file.write_bytes(b"\0key\n")
    assert keys.add_key(passphrase=PASSPHRASE, new_key_file=key_file, number=5, **CHEAP) == 5
    assert keys.keyslots == [0, 5]
    assert keys.test_key(key_file=key_file) == 5
    assert keys.test_key(passphrase=b"\0key\n") == 5
    assert keys.change_key(key_file=key_file, new_passphrase="third", **CHEAP) == 5
    with pytest.raises(luxor.WrongPassphrase):
        keys.test_key(key_file=key_file)
    with pytest.raises(luxor.WrongPassphrase):
        keys.test_key(passphrase="third", key_slot=0)
    cryptsetup("open", "--test-passphrase", "--key-slot", 0, volume)
    assert keys.remove_key(passphrase="third") == 5
    with pytest.raises(luxor.Error, match="last one"):
        keys.remove_key(passphrase=PASSPHRASE)
    with pytest.raises(luxor.Error, match="no keyslot 3"):
        keys.remove_keyslot(3)
    keys.remove_keyslot(0, last=True)
    assert keys.keyslots == []


def test_a_new_keyslot_has_a_secret(volume: Path, tmp_path: Path) -> None:
    keys, empty = luxor.Volume(volume), tmp_path / "empty"
    empty.touch()
    wrong: list[dict[str, Any]] = [{"new_passphrase": ""}, {"new_key_file": empty}]
    for options in wrong:
        for change in (keys.add_key, keys.change_key):
            with pytest.raises(ValueError, match=f"{next(iter(options))} is empty"):
                change(passphrase=PASSPHRASE, **options, **CHEAP)
    with pytest.raises(ValueError, match="key_file is empty"):
        luxor.create(tmp_path / "new", 1 << 20, key_file=empty, **CHEAP)
    assert keys.keyslots == [0]


def test_a_key_file_may_be_a_pipe_of_another_thread(volume: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    keys = luxor.Volume(volume)

    def opens() -> int:
        return keys.test_key(key_file=pipe)

    writer = threading.Timer(0.1, lambda: pipe.write_text(PASSPHRASE))
    writer.start()
    assert opens() == 0
    writer.join()
    interrupt(opens)
    # The abandoned thread waits for a writer.
    pipe.write_text("")
    while is_working():
        time.sleep(0.01)


def test_tokens_are_dicts(volume: Path) -> None:
    keys = luxor.Volume(volume)
    token = {"type": "example", "keyslots": ["0"], "note": "one"}
    assert keys.add_token(token) == 0
    assert keys.add_token(token, 7) == 7
    assert keys.token(7) == token
    keys.remove_token(0)
    for call in (keys.token, keys.remove_token):
        with pytest.raises(luxor.Error, match="there is no token 0"):
            call(0)
    with pytest.raises(luxor.Error):
        keys.add_token({"type": "example"})
    assert list(keys.dump()["tokens"]) == ["7"]


def test_tokens_keep_bytes_that_are_not_utf_8(volume: Path) -> None:
    keys = luxor.Volume(volume)
    odd = {"type": "example", "keyslots": [], "note\udcfe": "\udcff\udced\udca0\udc80é"}
    assert keys.add_token(odd) == 0
    assert b'"note\xfe":"\xff\xed\xa0\x80\xc3\xa9"' in volume.read_bytes()
    assert keys.token(0) == odd
    assert keys.dump()["tokens"]["0"] == odd


def test_tokens_that_cryptsetup_makes_are_parsed(
    volume: Path, tmp_path: Path, cryptsetup: Callable[..., str]
) -> None:
    numbers = "[1.,-.5,01.5,1e400,-infinity,007]"
    token = tmp_path / "token"
    token.write_text(f"{{'type':'example','keyslots':[],'numbers':{numbers}}}")
    cryptsetup("token", "import", "--json-file", token, volume)
    keys = luxor.Volume(volume)
    expected = [1.0, -0.5, 1.5, math.inf, -math.inf, 7]
    assert keys.token(0)["numbers"] == expected
    assert keys.dump()["tokens"]["0"]["numbers"] == expected


def test_a_token_that_ends_a_file_is_removed_only_by_force(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"attack at dawn")
    path = tmp_path / "volume"
    luxor.encrypt(tmp_path / "plain", path, passphrase="x", **CHEAP)
    keys = luxor.Volume(path)
    with pytest.raises(luxor.Error, match="the file in the volume has 14 bytes"):
        keys.remove_token(0)
    assert list(keys.dump()["tokens"]) == ["0"]
    with pytest.warns(luxor.VolumeWarning, match="14 bytes"):
        keys.remove_token(0, force=True)
    assert keys.dump()["tokens"] == {}


def test_a_header_comes_back(volume: Path, tmp_path: Path) -> None:
    keys, backup = luxor.Volume(volume), tmp_path / "backup"
    assert keys.back_up_header(backup) == backup.stat().st_size
    with pytest.raises(luxor.BusyError):
        keys.back_up_header(backup)
    assert stat.S_IMODE(backup.stat().st_mode) == 0o400
    keys.remove_keyslot(0, last=True)
    luxor.restore_header(backup, volume, force=True)
    assert keys.test_key(passphrase=PASSPHRASE) == 0
    assert keys.check() == []
    (tmp_path / "noise").write_bytes(bytes(5000))
    with pytest.raises(luxor.NotAVolume):
        luxor.restore_header(tmp_path / "noise", volume, force=True)
    assert keys.check() == []


def test_luks1_has_no_tokens(tmp_path: Path) -> None:
    path = tmp_path / "volume"
    luxor.create(path, 1 << 20, passphrase="x", type="luks1", **CHEAP)
    keys = luxor.Volume(path)
    assert keys.version == 1 and keys.dump()
    with pytest.raises(luxor.Error, match="LUKS1"):
        keys.add_token({"type": "x", "keyslots": []})
