# SPDX-License-Identifier: MIT OR Apache-2.0
"""Volumes as files, and with cryptsetup on the other side."""

from __future__ import annotations

import errno
import gc
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_type

import luxor
import pytest
from conftest import CHEAP, PASSPHRASE
from hypothesis import given
from hypothesis import strategies as st

SIZE = 1 << 20


def opened(file: Any, mode: Any = "rb", **options: Any) -> Any:
    return luxor.open(file, mode, passphrase=PASSPHRASE, **options)


def test_a_volume_acts_like_a_file(volume: Path, tmp_path: Path) -> None:
    """Compares with a file of the system that cannot grow, operation by operation."""
    path = tmp_path / "model"
    path.write_bytes(bytes(SIZE))
    operations = st.lists(
        st.one_of(
            st.tuples(st.just("read"), st.integers(0, 300_000)),
            st.tuples(st.just("write"), st.integers(0, 9000)),
            st.tuples(st.just("seek"), st.integers(0, SIZE)),
            st.tuples(st.just("seek_end"), st.integers(-9000, 0)),
            st.tuples(st.just("read_at"), st.integers(0, SIZE)),
            st.tuples(st.just("write_at"), st.integers(0, SIZE - 1000)),
        ),
        max_size=20,
    )
    with opened(volume, "r+b") as ours, open(path, "r+b") as model:

        @given(operations)
        def run(operations: list[tuple[str, int]]) -> None:
            for name, value in operations:
                if name == "read":
                    assert ours.read(value) == model.read(value)
                elif name == "write":
                    data = os.urandom(min(value, SIZE - model.tell()))
                    assert ours.write(data) == model.write(data)
                elif name == "seek":
                    assert ours.seek(value) == model.seek(value)
                elif name == "seek_end":
                    assert ours.seek(value, 2) == model.seek(value, 2)
                elif name == "read_at":
                    model.flush()
                    assert ours.read_at(5000, value) == os.pread(model.fileno(), 5000, value)
                else:
                    data = os.urandom(1000)
                    model.flush()
                    assert ours.write_at(data, value) == os.pwrite(model.fileno(), data, value)
                    model.seek(model.tell())
                assert ours.tell() == model.tell()

        run()
    with opened(volume) as ours:
        assert ours.read() == path.read_bytes()


def test_the_mode_determines_the_type(volume: Path) -> None:
    """Also for type checkers."""
    with luxor.open(volume, passphrase=PASSPHRASE) as reader:
        assert type(assert_type(reader, luxor.VolumeReader)) is luxor.VolumeReader
    with luxor.open(volume, "r+b", passphrase=PASSPHRASE) as writer:
        assert type(assert_type(writer, luxor.VolumeWriter)) is luxor.VolumeWriter
    with luxor.open(volume, "rb+", passphrase=PASSPHRASE) as writer:
        assert type(assert_type(writer, luxor.VolumeWriter)) is luxor.VolumeWriter
    mode = "".join(["r", "b"])
    with luxor.open(volume, mode, passphrase=PASSPHRASE) as file:
        assert_type(file, luxor.VolumeReader | luxor.VolumeWriter | luxor.VolumeCreator)
        assert type(file) is luxor.VolumeReader


def test_the_end_of_a_volume_is_fixed(volume: Path) -> None:
    with opened(volume, "r+b") as file:
        assert len(file) == file.raw.size == SIZE
        assert file.raw.sector_size == 4096
        file.seek(SIZE - 3)
        with pytest.raises(OSError, match="ends at byte"):
            file.write(b"abcd")
        assert file.write(b"xyz") == 3
        assert file.read_at(10, SIZE - 3) == b"xyz"
        file.raw.seek(SIZE - 3)
        assert file.raw.write(b"uvw!") == 3
        file.seek(SIZE - 3)
        assert file.read() == b"uvw"
        assert file.read_at(10, SIZE + 5) == b""
        with pytest.raises(ValueError):
            file.read_at(1, -1)
        with pytest.raises(ValueError):
            file.read_at(-1, 0)
        with pytest.raises(TypeError):
            file.read_at("1", 0)
    assert file.closed


@pytest.mark.parametrize("mode", ["rb", "r+b"])
def test_an_empty_volume_is_true(mode: Any) -> None:
    stored = io.BytesIO()
    luxor.encrypt(io.BytesIO(), stored, passphrase=PASSPHRASE, **CHEAP)
    with opened(stored, mode) as file:
        assert len(file) == 0 and file and file.raw


def test_write_at_writes_all_or_nothing(tmp_path: Path) -> None:
    class Tensor:
        """Memory that only the part in Rust finds."""

        def numpy(self) -> bytes:
            return b"1234"

    # Long data are written in pieces of 16 MiB.
    size = 17 << 20
    luxor.create(tmp_path / "volume", size, passphrase=PASSPHRASE, **CHEAP)
    with opened(tmp_path / "volume", "r+b") as file:
        before = file.read_at(4096, 0)
        for data, offset in ((b"1234", size - 3), (bytes(size + 1), 0), (b"1", 1 << 62)):
            with pytest.raises(OSError, match="ends at byte") as raised:
                file.write_at(data, offset)
            assert raised.value.errno == errno.ENOSPC
        assert file.write_at(b"", size + 5) == 0
        assert file.read_at(4096, 0) == before
        assert file.write_at(Tensor(), 0) == 4
        assert file.read_at(4, 0) == b"1234"


def test_reading_does_not_write(volume: Path) -> None:
    before = volume.read_bytes()
    with opened(volume) as file:
        assert file.readable() and file.seekable() and not file.writable()
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"x")
        with pytest.raises(io.UnsupportedOperation):
            file.raw.write_at(b"x", 0)
        with pytest.raises(io.UnsupportedOperation):
            file.write_at(b"x", 0)
        file.sync()
        assert file.read() == bytes(SIZE)
    assert volume.read_bytes() == before
    assert isinstance(file, io.BufferedReader)


def test_a_closed_volume_refuses_everything(volume: Path) -> None:
    file = opened(volume, "r+b")
    raw = file.raw
    file.write(b"kept")
    file.close()
    file.close()
    calls: list[Callable[[], object]] = [
        lambda: file.read(1),
        lambda: file.write(b"x"),
        lambda: raw.read_at(1, 0),
        lambda: raw.write_at(b"x", 0),
        raw.tell,
        lambda: raw.size,
        lambda: raw.readinto(bytearray(5)),
        raw.sync,
    ]
    for call in calls:
        with pytest.raises(ValueError, match="closed"):
            call()
    with opened(volume) as file:
        assert file.read(4) == b"kept"


def test_threads_read_at_once(volume: Path) -> None:
    data = os.urandom(SIZE)
    with opened(volume, "r+b") as file:
        file.write(data)
        file.sync()
        wrong = []

        def work(seed: int) -> None:
            for step in range(200):
                at = (seed * 7919 + step * 4093) % SIZE
                if file.read_at(5000, at) != data[at:][:5000]:
                    wrong.append(at)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


@pytest.mark.parametrize("version", ["luks1", "luks2"])
def test_a_journey_with_cryptsetup(
    tmp_path: Path, version: str, cryptsetup: Callable[..., str]
) -> None:
    """Reads a member of a tar in a volume that cryptsetup made, and writes one back."""
    volume, archive = tmp_path / "volume", tmp_path / "archive.tar"
    with tarfile.open(archive, "w") as tar:
        for name in ("one", "two"):
            (tmp_path / name).write_text(name * 1000)
            tar.add(tmp_path / name, name)
    volume.write_bytes(bytes(20 << 20))
    cheap = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"]
    cryptsetup("luksFormat", "--type", version, *cheap, volume)

    with opened(volume, "r+b") as file:
        file.write(archive.read_bytes())
    with opened(volume) as file, tarfile.open(fileobj=file) as tar:
        member = tar.extractfile("two")
        assert member is not None and member.read() == b"two" * 1000
    with opened(volume, "r+b") as file, tarfile.open(fileobj=file, mode="a") as tar:
        (tmp_path / "three").write_text("three")
        tar.add(tmp_path / "three", "three")
    cryptsetup("open", "--test-passphrase", volume)
    luxor.decrypt(volume, tmp_path / "plain", passphrase=PASSPHRASE)
    with tarfile.open(tmp_path / "plain") as tar:
        assert tar.getnames() == ["one", "two", "three"]


def test_the_file_is_locked_while_it_is_open(volume: Path) -> None:
    with opened(volume), opened(volume) as second:
        assert second.read(1) == b"\0"
        with pytest.raises(luxor.BusyError):
            opened(volume, "r+b")
    with opened(volume, "r+b"), pytest.raises(luxor.BusyError):
        opened(volume)


def test_errors_have_their_own_classes(volume: Path, tmp_path: Path) -> None:
    with pytest.raises(luxor.WrongPassphrase, match="no keyslot accepts"):
        luxor.open(volume, passphrase="wrong")
    with pytest.raises(luxor.MissingError) as missing:
        opened(tmp_path / "missing")
    assert isinstance(missing.value, FileNotFoundError)
    noise = tmp_path / "noise"
    noise.write_bytes(os.urandom(1 << 16))
    with pytest.raises(luxor.NotAVolume):
        opened(noise)
    damaged = bytearray(volume.read_bytes())
    damaged[100:200] = damaged[0x4000 + 100 : 0x4000 + 200] = bytes(100)
    (tmp_path / "damaged").write_bytes(damaged)
    with pytest.raises(luxor.DamagedError):
        opened(tmp_path / "damaged")
    foreign = tmp_path / "foreign"
    luxor.create(foreign, SIZE, passphrase="x", type="luks1", **CHEAP)
    with open(foreign, "r+b") as file:
        file.seek(8)
        file.write(b"rot13\0")
    with pytest.raises(luxor.Error, match="rot13") as unsupported:
        opened(foreign)
    assert unsupported.type is luxor.Error
    wrong: list[tuple[Any, dict[str, Any]]] = [
        (volume, {}),
        (volume, {"passphrase": "x", "key_file": "y"}),
        (volume, {"passphrase": 5}),
        (5, {"passphrase": "x"}),
    ]
    for file, options in wrong:
        with pytest.raises(TypeError):
            luxor.open(file, **options)
    with pytest.raises(TypeError, match="^key_slot: "):
        opened(volume, key_slot="no")
    with pytest.raises(ValueError, match="invalid mode"):
        opened(volume, "w")
    with pytest.raises(luxor.MissingError, match="the file of key_file"):
        luxor.open(volume, key_file=tmp_path / "missing")
    with pytest.raises(luxor.Error, match="folder"):
        luxor.open(volume, key_file=tmp_path)


@pytest.mark.parametrize("version", ["luks1", "luks2"])
def test_a_volume_key_opens_without_a_keyslot(
    tmp_path: Path, version: Any, cryptsetup: Callable[..., str]
) -> None:
    path, key_file = tmp_path / "volume", tmp_path / "key"
    luxor.encrypt(io.BytesIO(b"data" * 128), path, passphrase=PASSPHRASE, type=version, **CHEAP)
    cryptsetup("luksDump", "--dump-volume-key", "--volume-key-file", key_file, path)
    key = key_file.read_bytes()
    luxor.Volume(path).remove_keyslot(0, last=True)
    with luxor.open(path, volume_key=key) as file:
        assert file.read() == b"data" * 128
    luxor.decrypt(path, tmp_path / "plain", volume_key=bytearray(key))
    assert (tmp_path / "plain").read_bytes() == b"data" * 128
    for wrong in (key[::-1], key[:32], b""):
        with pytest.raises(luxor.WrongPassphrase, match="not the volume key"):
            luxor.open(path, volume_key=wrong)
    with pytest.raises(TypeError, match="volume_key"):
        luxor.open(path, volume_key=key, passphrase="x")


@pytest.mark.parametrize("version", ["luks1", "luks2"])
def test_a_volume_key_with_zeros_behind_it_is_refused(
    tmp_path: Path, version: Any, cryptsetup: Callable[..., str]
) -> None:
    path, key_file = tmp_path / "volume", tmp_path / "key"
    plain = io.BytesIO(b"data" * 128)
    luxor.encrypt(plain, path, passphrase=PASSPHRASE, type=version, key_size=256, **CHEAP)
    cryptsetup("luksDump", "--dump-volume-key", "--volume-key-file", key_file, path)
    key = key_file.read_bytes()
    assert len(key) == 32
    for length in (0, 16, 31, 33, 48, 64, 96):
        wrong = key[:length] + bytes(max(length - 32, 0))
        for use in (
            lambda: luxor.open(path, volume_key=wrong),
            lambda: luxor.decrypt(path, tmp_path / "plain", volume_key=wrong),
            lambda: luxor.VolumeCipher(path, volume_key=wrong),
        ):
            with pytest.raises(luxor.WrongPassphrase, match=f"it has {length} bytes, not 32"):
                use()
    assert not (tmp_path / "plain").exists()
    with luxor.open(path, volume_key=key) as file:
        assert file.read() == b"data" * 128


def test_damage_of_one_copy_is_a_warning(volume: Path) -> None:
    with open(volume, "r+b") as file:
        file.write(b"damaged")
    with pytest.warns(luxor.VolumeWarning, match="primary"), opened(volume) as file:
        assert file.read(4) == bytes(4)
    with pytest.warns(luxor.VolumeWarning, match="primary"):
        assert len(luxor.Volume(volume).check()) == 1


def test_a_warning_has_the_place_of_the_caller_and_may_be_an_exception(volume: Path) -> None:
    keys = luxor.Volume(volume)
    with open(volume, "r+b") as file:
        file.write(b"damaged")
    calls: list[Callable[[], object]] = [
        lambda: luxor.Volume(volume),
        lambda: keys.keyslots,
        lambda: opened(volume).close(),
        lambda: keys.back_up_header("backup"),
        lambda: luxor.decrypt(volume, "plain", passphrase=PASSPHRASE),
        lambda: keys.add_key(passphrase=PASSPHRASE, new_passphrase="x", **CHEAP),
    ]
    before = volume.read_bytes()
    for call in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(luxor.VolumeWarning, match="primary"):
                call()
        assert volume.read_bytes() == before
        with pytest.warns(luxor.VolumeWarning, match="primary") as warned:
            call()
        assert warned[0].filename == __file__
    assert keys.keyslots == [0, 1]


def test_a_detached_header(tmp_path: Path) -> None:
    volume, header = tmp_path / "volume", tmp_path / "header"
    plain = tmp_path / "plain"
    plain.write_bytes(os.urandom(10_000))
    luxor.encrypt(plain, volume, passphrase=b"\xff\0", header=header, **CHEAP)
    with luxor.open(volume, passphrase=bytearray(b"\xff\0"), header=header) as file:
        assert file.read() == plain.read_bytes()
    with pytest.raises(luxor.NotAVolume):
        luxor.open(volume, passphrase=b"\xff\0")
    with pytest.raises(ValueError, match="detached header"):
        luxor.encrypt(plain, io.BytesIO(), passphrase="x", header=tmp_path / "other", **CHEAP)
    luxor.decrypt(volume, tmp_path / "again", passphrase=b"\xff\0", header=header)
    assert (tmp_path / "again").read_bytes() == plain.read_bytes()


def test_a_program_may_end_with_an_open_volume(volume: Path) -> None:
    """Also a volume in an object of Python, and with a thread that reads meanwhile."""
    program = """
import io, sys, threading, luxor
data = io.BytesIO(open(sys.argv[1], "rb").read())
files = [luxor.open(file, "r+b", passphrase="correct horse") for file in (sys.argv[1], data)]
for file in files:
    file.write(b"unflushed")
def work():
    while True:
        files[1].raw.read_at(5000, 0)
threading.Thread(target=work, daemon=True).start()
files[0].read_at(1, 0)
"""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", program, volume], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
    with opened(volume) as file:
        assert file.read(9) == b"unflushed"


@pytest.mark.parametrize("file", ["sys.argv[1]", "open(sys.argv[1], 'r+b')"])
def test_what_was_written_is_kept_at_the_end_of_a_program(tmp_path: Path, file: str) -> None:
    """Also in a volume within a volume, and between volumes that fail."""
    path, stored = tmp_path / "outer", io.BytesIO()
    luxor.encrypt(io.BytesIO(bytes(1 << 19)), stored, passphrase=PASSPHRASE, **CHEAP)
    luxor.create(path, len(stored.getvalue()), passphrase=PASSPHRASE, **CHEAP)
    with opened(path, "r+b") as outer:
        outer.write(stored.getvalue())
    program = f"""
import io, sys, luxor
class Full(io.BytesIO):
    def write(self, data):
        raise OSError("full")
def opened(file):
    return luxor.open(file, "r+b", passphrase="correct horse")
data = open(sys.argv[1], "rb").read()
detached = opened(Full(data))
raw = detached.detach()
first = opened(Full(data))
first.write(b"lost")
outer = opened({file})
opened(outer).close()
inner = opened(outer)
inner.write(b"kept")
last = opened(Full(data))
last.write(b"lost")
"""
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "OSError: full" in done.stderr and "detached" in done.stderr
    with opened(path) as outer, opened(outer) as inner:
        assert inner.read(4) == b"kept"


def in_child(work: Callable[[], object]) -> None:
    """Run `work` in a forked child, and fail if it fails or waits for ever."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(60)
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def descriptors_of(path: Path) -> list[str]:
    """Return the descriptors of this process that are the file `path`."""
    folder = "/proc/self/fd"
    links = [f"{folder}/{number}" for number in os.listdir(folder)]
    return [link for link in links if os.path.lexists(link) and os.readlink(link) == str(path)]


def test_a_forked_child_cannot_use_the_volume(volume: Path) -> None:
    file = opened(volume, "r+b")
    # A long call, so that the disk has threads.
    assert file.raw.read_at(SIZE, 0) == bytes(SIZE)
    file.write(b"of the parent")

    def work() -> None:
        calls = (
            lambda: file.raw.read_at(1, 0),
            lambda: file.raw.write_at(b"x", 0),
            file.sync,
            file.flush,
        )
        for call in calls:
            with pytest.raises(luxor.KeyLostInFork):
                call()
        file.close()

    in_child(work)
    with pytest.raises(luxor.BusyError):
        opened(volume)
    file.write(b"kept")
    file.close()
    with opened(volume) as file:
        assert file.read(17) == b"of the parentkept"


@pytest.mark.parametrize("mode", ["rb", "r+b"])
@pytest.mark.parametrize("how", ["close", "with", "del", "raw"])
def test_a_forked_child_gives_a_volume_up(volume: Path, mode: Any, how: str) -> None:
    """Without a key, and without harm to the parent. A thread holds the locks of the buffer."""
    before = volume.read_bytes()
    file: Any = opened(volume, mode)
    if mode == "r+b":
        file.write(b"unflushed")
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            file.seek(0)
            file.raw.read_at(SIZE, 0)

    def work() -> None:
        nonlocal file
        assert (len(file), file.closed, file.raw.sector_size) == (SIZE, False, 4096)
        assert file.raw.is_inherited and file.name == str(volume)
        assert descriptors_of(volume)
        if how == "close":
            file.close()
            file.close()
            assert file.closed
            with pytest.raises(ValueError, match="closed"):
                len(file)
        elif how == "with":
            with file:
                pass
        elif how == "raw":
            file.raw.close()
        else:
            del file
            gc.collect()
        assert not descriptors_of(volume)
        # It is locked by the parent all the same.
        with pytest.raises(luxor.BusyError):
            opened(volume, "r+b")

    if how == "del":
        in_child(work)
    else:
        thread = threading.Thread(target=read)
        thread.start()
        try:
            for _ in range(5):
                in_child(work)
        finally:
            stop.set()
            thread.join()
    if mode == "rb":
        assert volume.read_bytes() == before
    else:
        file.sync()
        assert file.read_at(9, 0) == b"unflushed"
    file.close()
    opened(volume, "r+b").close()


def test_a_volume_is_free_although_a_forked_child_lives(volume: Path, tmp_path: Path) -> None:
    """Also what `encrypt` reads and writes, and a volume in a file object."""
    source = open(volume, "r+b")
    files = [opened(volume, "r+b"), opened(source)]
    (tmp_path / "plain").write_bytes(bytes(1000))
    pipe = os.pipe()
    children: list[int] = []

    def progress(_done: int, _total: int | None) -> None:
        if len(children) == 1:
            children.append(os.fork())
            if children[-1] == 0:
                os.close(pipe[1])
                os.read(pipe[0], 1)
                os._exit(0)

    children.append(os.fork())
    if children[-1] == 0:
        os.close(pipe[1])
        os.read(pipe[0], 1)
        os._exit(0)
    try:
        for file in files:
            file.close()
        source.close()
        opened(volume, "r+b").close()
        luxor.encrypt(
            tmp_path / "plain",
            tmp_path / "new",
            passphrase=PASSPHRASE,
            progress=progress,
            **CHEAP,
        )
        assert len(children) == 2
        opened(tmp_path / "new", "r+b").close()
    finally:
        os.close(pipe[1])
        for child in children:
            assert os.waitpid(child, 0)[1] == 0
        os.close(pipe[0])


def test_a_forked_child_gives_up_the_object_of_a_volume(volume: Path) -> None:
    source = open(volume, "r+b")
    header = open(volume, "rb")
    file = opened(source, "r+b", header=header)
    file.write(b"kept")

    def work() -> None:
        nonlocal source, header
        assert descriptors_of(volume)
        file.close()
        del source, header
        assert not descriptors_of(volume)

    in_child(work)
    file.close()
    source.close()
    header.close()
    with opened(volume) as file:
        assert file.read(4) == b"kept"


def test_a_forked_child_ends_with_an_open_volume(volume: Path) -> None:
    """As an ordinary program, which closes everything, and after an error too."""
    program = """
import os, sys, luxor
path = sys.argv[1]
file = luxor.open(path, "r+b", passphrase="correct horse")
file.write(b"unflushed")
cipher = luxor.VolumeCipher(open(path, "rb"), passphrase="correct horse")
xts = luxor.XTS(bytes(range(64)))
if os.fork() == 0:
    try:
        file.sync()
    except luxor.KeyLostInFork:
        pass
    print(cipher.size, cipher.stored(1, 0)[0][2], xts.engine != "", repr(xts) != "", flush=True)
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, volume], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [str(SIZE), "4096", "True", "True", "3"]
    with opened(volume) as file:
        assert file.read(9) == b"unflushed"


def test_shutil_copies_a_volume(volume: Path, tmp_path: Path) -> None:
    with opened(volume, "r+b") as file:
        file.write(os.urandom(SIZE))
        file.seek(0)
        expected = file.read()
    with opened(volume) as source, open(tmp_path / "copy", "wb") as target:
        shutil.copyfileobj(source, target)
    assert (tmp_path / "copy").read_bytes() == expected


@pytest.mark.parametrize("closed", [(2,), (0, 1, 2)])
def test_no_file_becomes_a_standard_stream(
    closed: tuple[int, ...], volume: Path, tmp_path: Path
) -> None:
    """Text for standard error would be written into the volume."""
    code = f"""
import os, sys
import luxor
from luxor import _uploads
for stream in {closed}:
    os.close(stream)
with luxor.open({str(volume)!r}, "r+b", passphrase={PASSPHRASE!r}) as file:
    file.write(b"x" * 4096)
    file.flush()
    folder = _uploads.Folder({str(tmp_path)!r})
    parts = folder.open("parts", os.O_CREAT | os.O_WRONLY)
    for stream in {closed}:
        try:
            os.write(stream, b"a message")
        except OSError:
            continue
        os._exit(3)
    assert parts > 2 and folder.fd > 2
os._exit(0)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with opened(volume) as file:
        assert file.read(4096) == b"x" * 4096
    subprocess.run(["cryptsetup", "luksDump", volume], check=True, stdout=subprocess.DEVNULL)
