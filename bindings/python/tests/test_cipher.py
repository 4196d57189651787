# SPDX-License-Identifier: MIT OR Apache-2.0
"""Volumes whose data the caller reads and writes itself, and keys that are kept."""

from __future__ import annotations

import gc
import hashlib
import io
import json
import os
import pickle
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import luxor
import pytest
from conftest import CHEAP, PASSPHRASE
from hypothesis import given
from hypothesis import strategies as st

#: The most bytes that one call of the library gets.
PIECE = 16 << 20


def made(size: int, **options: Any) -> tuple[bytes, int]:
    return luxor.new_header(size, passphrase=PASSPHRASE, **{**CHEAP, **options})


def opened(file: Any, **options: Any) -> luxor.VolumeCipher:
    return luxor.VolumeCipher(file, passphrase=PASSPHRASE, **options)


def with_data(header: bytes, length: int, **options: Any) -> tuple[io.BytesIO, luxor.VolumeCipher]:
    """Returns a volume with these first bytes and zeros after them, and its cipher."""
    volume = io.BytesIO(header)
    volume.seek(length - 1)
    volume.write(b"\0")
    return volume, opened(volume, **options)


def written(plain: bytes, **options: Any) -> tuple[io.BytesIO, luxor.VolumeCipher]:
    """Returns a volume with this plaintext that no file of the module has written."""
    volume, cipher = with_data(*made(len(plain), **options))
    for at, offset, length in cipher.stored(len(plain), 0):
        volume.seek(offset)
        volume.write(cipher.encrypt(plain[at : at + length], at))
    return volume, cipher


def read(cipher: luxor.VolumeCipher, volume: bytes, size: int, offset: int) -> bytes:
    ranges = cipher.stored(size, offset)
    data = [cipher.decrypt(volume[at : at + length], begin) for begin, at, length in ranges]
    return b"".join(data)[offset - ranges[0][0] :][:size] if ranges else b""


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, [0, 1, 511, 512, 4095, 4096, 4097, 100_000, PIECE + 5]),
        ({"sector_size": 512, "key_size": 256}, [0, 1, 511, 512, 513, 4096, 4097]),
        ({"luks2_keyslots_size": 512 << 10}, [0, 4097]),
        ({"type": "luks1"}, [512, 4096, 4608]),
    ],
)
def test_a_header_and_encrypted_data_are_a_volume(
    options: dict[str, Any], sizes: list[int]
) -> None:
    for size in sizes:
        plain = os.urandom(size)
        header, length = made(size, **options)
        assert length > len(header)
        volume, cipher = written(plain, **options)
        assert (cipher.size, len(volume.getvalue())) == (size, length)
        sector = cipher.sector_size
        assert length == len(header) + max(-(-size // sector), 1) * sector
        assert luxor.Volume(volume).size == size
        with luxor.open(volume, passphrase=PASSPHRASE) as file:
            assert file.read() == plain
        target = io.BytesIO()
        volume.seek(0)
        luxor.decrypt(volume, target, passphrase=PASSPHRASE)
        assert target.getvalue() == plain
        assert read(cipher, volume.getvalue(), size, 0) == plain


@pytest.mark.parametrize("options", [{"type": "luks1"}, {}, {"sector_size": 512}])
def test_a_cipher_agrees_with_files(options: dict[str, Any]) -> None:
    size = 50_176 if "type" in options else 50_001
    plain, stored = os.urandom(size), io.BytesIO()
    luxor.encrypt(io.BytesIO(plain), stored, passphrase=PASSPHRASE, **options, **CHEAP)
    volume = stored.getvalue()
    cipher = opened(stored)
    assert cipher.size == size

    @given(st.integers(0, size + 5000), st.integers(0, size + 5000))
    def run(length: int, offset: int) -> None:
        ranges = cipher.stored(length, offset)
        assert bool(ranges) == (length > 0 and offset < size)
        for begin, at, whole in ranges:
            assert begin % cipher.sector_size == whole % cipher.sector_size == 0
            assert begin <= offset < begin + whole
            data = cipher.decrypt(volume[at : at + whole], begin)
            assert data == plain[begin : begin + whole]
            # The rest of the last sector is what was there: here, zeros.
            assert cipher.encrypt(data, begin) == volume[at : at + whole]
        assert read(cipher, volume, length, offset) == plain[offset : offset + length]

    run()


@pytest.mark.parametrize("kind", ["luks1", "luks2"])
def test_cryptsetup_opens_what_a_cipher_made(
    tmp_path: Path, cryptsetup: Callable[..., str], kind: str
) -> None:
    plain = os.urandom(100_352)
    volume, _ = written(plain, type=kind)
    path, key = tmp_path / "volume", tmp_path / "key"
    path.write_bytes(volume.getvalue())
    cryptsetup("open", "--test-passphrase", path)
    assert "PBKDF" in cryptsetup("luksDump", path) or kind == "luks1"
    # It finds the same data under its own volume key.
    cryptsetup("luksDump", "--dump-volume-key", "--volume-key-file", key, path)
    cipher = luxor.VolumeCipher(path, volume_key=key.read_bytes())
    assert read(cipher, volume.getvalue(), len(plain), 0) == plain
    at = cipher.stored(1, 0)[0][1]
    sector = cipher.sector_size
    xts = luxor.XTS(key.read_bytes())
    padded = plain + bytes(-len(plain) % sector)
    assert volume.getvalue()[at:] == xts.encrypt(padded, sector, 0, sector // 512)
    # And the other way round.
    path.write_bytes(bytes(20 << 20))
    cheap = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"]
    cryptsetup("luksFormat", "--type", kind, *cheap, path)
    cipher = opened(path)
    assert cipher.size == luxor.Volume(path).size == (20 << 20) - cipher.stored(1, 0)[0][1]
    with luxor.open(path, "r+b", passphrase=PASSPHRASE) as file:
        file.write_at(b"found", 5000)
    assert read(cipher, path.read_bytes(), 5, 5000) == b"found"


def test_data_are_any_buffers() -> None:
    volume, cipher = written(bytes(10_000))
    sector = os.urandom(4096)
    expected = cipher.encrypt(sector, 4096)
    kinds: list[Any] = [bytearray, memoryview, lambda data: memoryview(data).cast("I")]
    for kind in kinds:
        assert cipher.encrypt(kind(sector), 4096) == expected
        assert cipher.decrypt(kind(expected), 4096) == sector
    assert sector != expected != cipher.encrypt(sector, 0)


def test_the_end_is_a_whole_sector() -> None:
    _, cipher = written(bytes(10_000))
    tail = os.urandom(10_000 - 8192)
    encrypted = cipher.encrypt(tail, 8192)
    assert encrypted == cipher.encrypt(tail + bytes(12_288 - 10_000), 8192)
    assert cipher.decrypt(encrypted, 8192) == tail
    assert len(cipher.encrypt(bytes(10_000), 0)) == 12_288
    # There may be anything in the rest.
    noise = cipher.encrypt(tail + b"\xff" * (12_288 - 10_000), 8192)
    assert noise != encrypted and cipher.decrypt(noise, 8192) == tail
    assert cipher.encrypt(b"", 10_000) == cipher.decrypt(b"", 10_000) == b""
    assert cipher.encrypt(b"", 0) == b""
    for size in (1, 4095, 4096, 4097, 8191):
        plain = os.urandom(size)
        _, cipher = written(plain)
        encrypted = cipher.encrypt(plain, 0)
        assert len(encrypted) == -(-size // 4096) * 4096
        assert cipher.decrypt(encrypted, 0) == plain


def test_nothing_is_stored_beyond_the_end() -> None:
    _, cipher = written(bytes(10_000))
    at = 16 << 20
    assert cipher.stored(10_000, 0) == [(0, at, 12_288)]
    assert cipher.stored(1, 9_999) == [(8192, at + 8192, 4096)]
    assert cipher.stored(2**64 - 1, 4097) == [(4096, at + 4096, 8192)]
    for size, offset in ((0, 0), (0, 5000), (1, 10_000), (1, 10_001), (5, 2**64 - 1)):
        assert cipher.stored(size, offset) == []
    _, empty = written(b"")
    assert empty.size == 0 and empty.stored(1, 0) == []


def test_wrong_arguments_are_refused(volume: Path, tmp_path: Path) -> None:
    cipher = opened(volume)
    size = cipher.size
    calls: list[Callable[[Any, Any], object]] = [cipher.encrypt, cipher.decrypt]
    for call in calls:
        for data, offset in (
            (bytes(4095), 0),
            (bytes(4097), 0),
            (bytes(4096), 1),
            (bytes(4096), 512),
            (bytes(4096), size),
            (bytes(8192), size - 4096),
            (b"x", 2**64 - 1),
            (bytes(4096), 2**64 - 4096),
            (bytes(4096), -1),
            (bytes(4096), 2**64),
            (bytes(PIECE + 1), 0),
        ):
            with pytest.raises(ValueError):
                call(data, offset)
        kinds: list[tuple[Any, Any]] = [
            ("text", 0),
            (5, 0),
            (None, 0),
            (bytes(4096), "0"),
            (bytes(4096), 0.5),
        ]
        for pair in kinds:
            with pytest.raises(TypeError):
                call(*pair)
    for size, offset in ((-1, 0), (0, -1), (2**64, 0), (0, 2**64)):
        with pytest.raises(ValueError):
            cipher.stored(size, offset)
    wrong: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        (volume, {"passphrase": "wrong"}, luxor.WrongPassphrase, "no keyslot accepts"),
        (volume, {}, TypeError, "passphrase"),
        (volume, {"passphrase": "x", "key_file": "y"}, TypeError, "passphrase"),
        (volume, {"passphrase": "x", "volume_key": b"y"}, TypeError, "volume_key"),
        (volume, {"volume_key": bytes(64)}, luxor.WrongPassphrase, "not the volume key"),
        (volume, {"passphrase": PASSPHRASE, "key_slot": 3}, luxor.Error, "keyslot 3"),
        (volume, {"passphrase": PASSPHRASE, "key_cache": 5}, TypeError, "^key_cache: "),
        (volume, {"passphrase": PASSPHRASE, "engine": "x"}, luxor.Error, "engine"),
        (volume, {"passphrase": PASSPHRASE, "threads": 0}, ValueError, "threads"),
        (tmp_path / "missing", {"passphrase": "x"}, luxor.MissingError, "missing"),
        (io.BytesIO(bytes(1 << 16)), {"passphrase": "x"}, luxor.NotAVolume, "not"),
        (5, {"passphrase": "x"}, TypeError, "int"),
    ]
    for file, options, kind, words in wrong:
        with pytest.raises(kind, match=words):
            luxor.VolumeCipher(file, **options)


def test_threads_use_one_cipher() -> None:
    plain = os.urandom(200_000)
    volume, cipher = written(plain)
    stored, wrong = volume.getvalue(), []

    def work(seed: int) -> None:
        for step in range(100):
            at = (seed * 7919 + step * 4093) % len(plain)
            if read(cipher, stored, 5000, at) != plain[at : at + 5000]:
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class Counted:
    """Bytes with `read_at` alone, as of an object store. It counts what is read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.count = 0

    def __len__(self) -> int:
        return len(self.data)

    def read_at(self, size: int, offset: int) -> bytes:
        self.count += size
        assert offset < 16 << 20, "the data are not needed"
        return self.data[offset : offset + size]


def test_only_the_header_is_read() -> None:
    plain = os.urandom(1 << 20)
    volume, _ = written(plain)
    source = Counted(volume.getvalue())
    cipher = opened(source)
    assert luxor.Volume(source).size == cipher.size == 1 << 20
    assert source.count < 4 << 20
    assert read(cipher, source.data, 5000, 5) == plain[5:5005]
    # The data may be in another file.
    header = io.BytesIO(volume.getvalue()[: 16 << 20])
    with pytest.raises(luxor.Error):
        opened(header)


def test_a_detached_header(tmp_path: Path) -> None:
    plain, data, header = os.urandom(10_000), tmp_path / "data", tmp_path / "header"
    luxor.encrypt(io.BytesIO(plain), data, passphrase=PASSPHRASE, header=header, **CHEAP)
    cipher = opened(data, header=header)
    assert cipher.stored(1, 0) == [(0, 0, 4096)]
    assert read(cipher, data.read_bytes(), 10_000, 0) == plain
    with pytest.raises(luxor.Error, match="detached"):
        luxor.Volume(header).size


@pytest.mark.parametrize("options", [{}, {"type": "luks1"}, {"sector_size": 512}])
def test_volumes_have_a_size(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "volume"
    luxor.create(path, 1 << 20, passphrase=PASSPHRASE, **options, **CHEAP)
    assert luxor.Volume(path).size == 1 << 20
    luxor.encrypt(
        io.BytesIO(bytes(5120)), path, passphrase=PASSPHRASE, force=True, **options, **CHEAP
    )
    keys = luxor.Volume(path)
    assert keys.size == 5120
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size - 100)
    with pytest.raises(luxor.Error):
        assert keys.size


def edited(header: bytes, segments: Callable[[int], list[dict[str, Any]]]) -> bytes:
    """Returns the header of a LUKS2 volume with other segments: their function gets the offset of
    the data."""
    changed = bytearray(header)
    size = int.from_bytes(header[8:16], "big")
    for begin in (0, size):
        text = header[begin + 4096 : begin + size].rstrip(b"\0")
        metadata = json.loads(text)
        new = segments(int(metadata["segments"]["0"]["offset"]))
        metadata["segments"] = {str(number): segment for number, segment in enumerate(new)}
        metadata["digests"]["0"]["segments"] = [
            str(number) for number, segment in enumerate(new) if segment["type"] == "crypt"
        ]
        # The tokens record the length of a file.
        metadata["tokens"] = {}
        text = json.dumps(metadata).encode()
        changed[begin + 4096 : begin + size] = text.ljust(size - 4096, b"\0")
        changed[begin + 448 : begin + 512] = bytes(64)
        digest = hashlib.sha256(changed[begin : begin + size]).digest()
        changed[begin + 448 : begin + 448 + 32] = digest
    return bytes(changed)


@pytest.mark.parametrize("sectors", [(512, 4096, 512), (4096, 512, 4096)])
def test_parts_may_have_different_sectors(sectors: tuple[int, int, int]) -> None:
    """As in a re-encryption. Also data that are longer than one call of the library gets."""
    sizes = (8 << 20, (8 << 20) + 4096, (4 << 20) + sectors[2])
    first, second, third = sizes
    size = sum(sizes)

    def segments(offset: int) -> list[dict[str, Any]]:
        found = []
        for number, (size, sector) in enumerate(zip(sizes, sectors, strict=True)):
            found.append(
                {
                    "type": "crypt",
                    "offset": str(offset),
                    "size": str(size) if number < 2 else "dynamic",
                    "iv_tweak": str(number),
                    "encryption": "aes-xts-plain64",
                    "sector_size": sector,
                }
            )
            offset += size + 4096
        return found

    header = edited(made(1 << 20)[0], segments)
    volume, cipher = with_data(header, len(header) + size + 2 * 4096)
    assert (cipher.size, cipher.sector_size) == (size, 4096)
    plain = os.urandom(size)
    with luxor.open(volume, "r+b", passphrase=PASSPHRASE) as file:
        file.write_at(plain, 0)
    ranges = cipher.stored(size, 0)
    assert [length for _, _, length in ranges] == list(sizes)
    stored = volume.getvalue()
    encrypted = b"".join(stored[at : at + length] for _, at, length in ranges)
    begins = (0, sectors[0], first - sectors[0], first, first + sectors[1], size - sectors[2])
    ends = (sectors[0], first, first + sectors[1], size - third, size - sectors[2], size)
    for begin in begins:
        for end in ends:
            if begin < end:
                place = f"{begin} to {end}"
                assert cipher.encrypt(plain[begin:end], begin) == encrypted[begin:end], place
                assert cipher.decrypt(encrypted[begin:end], begin) == plain[begin:end], place
    wrong = {512: [(512, first), (PIECE + 512, 0)], 4096: [(512, 0), (first + second + 512, 0)]}
    for length, begin in wrong[sectors[0]]:
        with pytest.raises(ValueError, match="whole number of sectors|beginning of a sector"):
            cipher.encrypt(plain[begin : begin + length], begin)


#: A keyslot that takes a good part of a second.
SLOW: dict[str, Any] = {"pbkdf": "pbkdf2", "pbkdf_force_iterations": 600_000}

#: A keyslot that takes long enough to do something else meanwhile.
SLOWER: dict[str, Any] = {"pbkdf": "pbkdf2", "pbkdf_force_iterations": 2_500_000}


def cost(call: Callable[[], object]) -> float:
    """The time that all threads of this process need, whatever else runs."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def test_a_key_cache_spares_derivations(tmp_path: Path) -> None:
    cache = luxor.KeyCache()
    volume = io.BytesIO()
    luxor.encrypt(io.BytesIO(b"data"), volume, passphrase=PASSPHRASE, **SLOW)
    stored = volume.getvalue()
    first = cost(lambda: opened(io.BytesIO(stored), key_cache=cache))

    def others() -> None:
        for _ in range(4):
            assert opened(io.BytesIO(stored), key_cache=cache).size == 4
        with luxor.open(io.BytesIO(stored), passphrase=PASSPHRASE, key_cache=cache) as file:
            assert file.read() == b"data"
        source, target = io.BytesIO(stored), io.BytesIO()
        luxor.decrypt(source, target, passphrase=PASSPHRASE, key_cache=cache)
        assert target.getvalue() == b"data"
        for _ in range(4):
            header, length = luxor.new_header(
                100, passphrase=PASSPHRASE, like=io.BytesIO(stored), key_cache=cache
            )
            _, cipher = with_data(header, length, key_cache=cache)
            assert cipher.size == 100

    # Four of these alone would take four times as long.
    assert cost(others) < first * 3
    with pytest.raises(luxor.WrongPassphrase):
        luxor.VolumeCipher(io.BytesIO(stored), passphrase="wrong", key_cache=cache)
    # Each cache is for itself, and none is needed.
    for options in ({"key_cache": luxor.KeyCache()}, {}):
        assert cost(lambda: opened(io.BytesIO(stored), **options)) > first / 4


def kdf(volume: Any) -> dict[str, Any]:
    found = luxor.Volume(volume).dump()["keyslots"]["0"]["kdf"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"type": "luks1"},
        {
            "pbkdf": "argon2id",
            "pbkdf_memory": 64,
            "pbkdf_parallel": 1,
            "pbkdf_force_iterations": 5,
        },
    ],
)
def test_a_header_is_like_another(
    tmp_path: Path, cryptsetup: Callable[..., str], options: dict[str, Any]
) -> None:
    other, _ = with_data(*made(5120, **options))
    header, length = luxor.new_header(
        5120, passphrase=PASSPHRASE, like=other, label="like", sector_size=512
    )
    volume, cipher = with_data(header, length)
    assert cipher.sector_size == 512
    if "type" not in options:
        assert kdf(volume) == kdf(other)
    keys = luxor.Volume(volume)
    assert keys.label == "like" and keys.uuid != luxor.Volume(other).uuid
    assert keys.dump()["digests"]["0"]["iterations"] == 1000
    path = tmp_path / "volume"
    path.write_bytes(volume.getvalue())
    cryptsetup("open", "--test-passphrase", path)
    # A keyslot that was made without the secret could have any costs.
    with pytest.raises(luxor.WrongPassphrase):
        luxor.new_header(5120, passphrase="another", like=other)
    with pytest.raises(luxor.Error, match="only a volume of LUKS2|LUKS1 supports only"):
        luxor.new_header(5120, passphrase=PASSPHRASE, type="luks1", like=other)
    luxor.Volume(path).remove_keyslot(0, last=True)
    with pytest.raises(luxor.Error, match="there is no keyslot to try"):
        luxor.new_header(5120, passphrase=PASSPHRASE, like=path)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"size": -1}, ValueError, "^size is out of range"),
        ({"size": 2**64}, ValueError, "^size is out of range"),
        ({"size": 1.5}, TypeError, "^size: "),
        ({"size": 2**64 - 1}, luxor.Error, "too many"),
        ({"size": 2**63}, luxor.Error, "too many"),
        ({"size": 0, "type": "luks1"}, luxor.Error, "LUKS1"),
        ({"size": 511, "type": "luks1"}, luxor.Error, "LUKS1"),
        ({"type": "luks3"}, ValueError, "^type: "),
        ({"type": "luks1", "sector_size": 4096}, ValueError, "LUKS1"),
        ({"type": "luks1", "label": "x"}, ValueError, "LUKS1"),
        ({"key_size": 384}, ValueError, "^key_size: "),
        ({"sector_size": 1000}, ValueError, "^sector_size: "),
        ({"luks2_metadata_size": 1}, ValueError, "LUKS2 metadata size is 1 bytes"),
        ({"luks2_keyslots_size": 1}, ValueError, "LUKS2 keyslots size is 1 bytes"),
        ({"luks2_keyslots_size": 1.5}, TypeError, "^luks2_keyslots_size: "),
        ({"uuid": "x"}, ValueError, "^uuid: "),
        ({"pbkdf": "scrypt"}, ValueError, "^pbkdf: "),
        ({"passphrase": ""}, ValueError, "passphrase is empty"),
        ({"passphrase": None}, TypeError, "passphrase"),
        ({"key_file": "x"}, TypeError, "passphrase"),
        ({"key_cache": "x"}, TypeError, "^key_cache: "),
        ({"like": 5}, TypeError, "int"),
        ({"like": io.BytesIO(b"x" * 5000)}, luxor.NotAVolume, "BytesIO"),
        ({"like": "missing"}, luxor.MissingError, "missing"),
        ({"engine": "x"}, luxor.Error, "engine"),
        ({"threads": 0}, ValueError, "threads"),
    ],
)
def test_wrong_arguments_make_no_header(
    options: dict[str, Any], kind: type[Exception], words: str
) -> None:
    options = {"size": 512, "passphrase": "x", **CHEAP, **options}
    with pytest.raises(kind, match=words):
        luxor.new_header(**options)


def test_a_header_has_its_options() -> None:
    uuid = "01234567-89ab-4def-8123-456789abcdef"
    header, length = made(10_000, label="backup", uuid=uuid, key_size=256)
    volume, cipher = with_data(header, length)
    keys = luxor.Volume(volume)
    assert (keys.version, keys.uuid, keys.label, keys.size) == (2, uuid, "backup", 10_000)
    assert keys.check() == [] and keys.keyslots == [0]
    assert cipher.sector_size == 4096
    again, _ = made(10_000, label="backup", uuid=uuid, key_size=256)
    assert kdf(io.BytesIO(again))["salt"] != kdf(volume)["salt"]


def in_a_child(work: Callable[[], object]) -> int:
    """Returns the exit status of a forked child that calls `work`. It is killed when it hangs."""
    with warnings.catch_warnings():
        # Python 3.12 warns of threads, which are what is tested here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(30)
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def test_a_forked_child_cannot_use_the_cipher() -> None:
    volume, cipher = written(bytes(2 << 20))
    # Long data, so that there are threads.
    encrypted = cipher.encrypt(bytes(2 << 20), 0)
    ciphers, sizes = [cipher], (cipher.size, cipher.sector_size)
    stored = cipher.stored(1, 0)

    def work() -> None:
        calls: list[Callable[[], object]] = [
            lambda: ciphers[0].encrypt(bytes(4096), 0),
            lambda: ciphers[0].decrypt(bytes(4096), 0),
            lambda: ciphers[0].encrypt(b"", 0),
        ]
        for call in calls:
            with pytest.raises(luxor.KeyLostInFork):
                call()
        # The sizes and places need no key.
        assert (ciphers[0].size, ciphers[0].sector_size) == sizes
        assert ciphers[0].stored(1, 0) == stored
        # Opened anew, it works.
        assert opened(volume).decrypt(encrypted, 0) == bytes(2 << 20)
        ciphers.clear()
        gc.collect()

    assert in_a_child(work) == 0
    assert cipher.decrypt(encrypted, 0) == bytes(2 << 20)


def test_a_forked_child_does_not_use_wiped_keys() -> None:
    """The secret is what a wiped one looks like."""
    secret, cache = bytes(8), luxor.KeyCache()
    header, length = luxor.new_header(5000, passphrase=secret, key_cache=cache, **CHEAP)
    volume = io.BytesIO(header + bytes(length - len(header)))

    def work() -> None:
        for _ in range(2):
            cipher = luxor.VolumeCipher(volume, passphrase=secret, key_cache=cache)
            assert cipher.size == 5000

    def work_and_fork() -> None:
        work()
        assert in_a_child(work) == 0

    work()
    assert in_a_child(work_and_fork) == 0
    work()


def test_a_forked_child_does_not_wait_for_a_derivation_of_its_parent() -> None:
    cache = luxor.KeyCache()
    volume, _ = with_data(*made(5000))
    deriving = threading.Thread(
        target=lambda: luxor.new_header(1, passphrase="x", key_cache=cache, **SLOWER)
    )
    deriving.start()
    time.sleep(0.1)
    assert deriving.is_alive()
    assert in_a_child(lambda: opened(volume, key_cache=cache)) == 0
    deriving.join()


def test_ctrl_c_ends_the_wait_for_a_key() -> None:
    # A shell starts background jobs with this signal ignored, and Python leaves it so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cache = luxor.KeyCache()
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        luxor.new_header(1, passphrase="x", key_cache=cache, **SLOWER)
        timer.join()
    # The derivation goes on, and others wait for it.
    volume, _ = with_data(*made(5000))
    assert opened(volume, key_cache=cache).size == 5000


def test_threads_share_a_cache() -> None:
    cache = luxor.KeyCache()
    volumes = [with_data(*made(1000 + number))[0].getvalue() for number in range(3)]
    wrong = []

    def work(seed: int) -> None:
        for step in range(6):
            number = (seed + step) % 3
            cipher = opened(io.BytesIO(volumes[number]), key_cache=cache)
            if cipher.size != 1000 + number:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_key_caches_have_no_arguments() -> None:
    with pytest.raises(TypeError):
        cast(Any, luxor.KeyCache)(5)
    # Keys do not go to other processes.
    with pytest.raises(TypeError):
        pickle.dumps(luxor.KeyCache())
