# SPDX-License-Identifier: MIT OR Apache-2.0
"""Volumes of other formats than LUKS, and the steps from a volume to its disk."""

from __future__ import annotations

import io
import os
import pickle
import sys
from pathlib import Path
from typing import Any, assert_type

import fsspec
import luxor
import pytest
from conftest import CHEAP, PASSPHRASE
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from luxor import PlainVolume

KEY = bytes(range(64))

#: Values of plain volumes: the defaults, all of them at once, and a cipher that is not XTS.
PLAIN = [
    PlainVolume(),
    PlainVolume(key_size=512, offset=8, size=64, skip=24, sector_size=4096),
    PlainVolume(sector_size=2048, skip=4, iv_large_sectors=True),
    PlainVolume(cipher="aes-cbc-plain64", key_size=128, offset=3, skip=7),
]


def encrypted(data: bytes, volume: PlainVolume, key: bytes) -> bytes:
    """Encrypt a plain volume as dm-crypt does, sector by sector."""
    result = bytes(512 * volume.offset)
    unit = volume.sector_size // 512
    for number in range(len(data) // volume.sector_size):
        sector = data[number * volume.sector_size :][: volume.sector_size]
        # `skip` counts units of 512 bytes, whatever the IVs count.
        position = volume.skip + number * unit
        counted = position // unit if volume.iv_large_sectors else position
        iv = counted.to_bytes(16, "little")
        mode = modes.XTS(iv) if "xts" in volume.cipher else modes.CBC(iv)
        result += Cipher(algorithms.AES(key), mode).encryptor().update(sector)
    return result


@pytest.fixture(params=PLAIN, ids=lambda volume: volume.cipher)
def plain(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, PlainVolume, bytes, bytes]:
    """A plain volume: its path, its format, its key and its plaintext."""
    volume: PlainVolume = request.param
    key = KEY[: volume.key_size // 8]
    data = os.urandom(32 << 10)
    path = tmp_path / "plain"
    path.write_bytes(encrypted(data, volume, key))
    return path, volume, key, data


Plain = tuple[Path, PlainVolume, bytes, bytes]


@pytest.mark.parametrize("as_object", [False, True])
def test_a_plain_volume_is_what_dm_crypt_makes(plain: Plain, as_object: bool) -> None:
    path, volume, key, data = plain
    file: Any = io.BytesIO(path.read_bytes()) if as_object else path
    with luxor.open(file, passphrase=key, format=volume) as disk:
        assert disk.read() == data
        assert disk.raw.sector_size == volume.sector_size
    with luxor.open(file, "r+b", volume_key=key, format=volume) as disk:
        assert disk.write_at(b"changed", 5000) == 7
    changed = data[:5000] + b"changed" + data[5007:]
    stored = file.getvalue() if as_object else path.read_bytes()
    assert stored == encrypted(changed, volume, key)


def test_a_plain_volume_is_decrypted_as_a_whole(plain: Plain, tmp_path: Path) -> None:
    path, volume, key, data = plain
    key_file = tmp_path / "key"
    key_file.write_bytes(key)
    luxor.decrypt(path, tmp_path / "out", key_file=key_file, format=volume)
    assert (tmp_path / "out").read_bytes() == data
    stream = io.BytesIO()
    luxor.decrypt(io.BytesIO(path.read_bytes()), stream, passphrase=key, format=volume)
    assert stream.getvalue() == data


def test_a_cipher_of_a_plain_volume_needs_no_storage(plain: Plain) -> None:
    path, volume, key, data = plain
    cipher = luxor.VolumeCipher(path, passphrase=key, format=volume)
    assert cipher.size == len(data)
    [(at, offset, length)] = cipher.stored(5000, 0)
    stored = path.read_bytes()[offset : offset + length]
    assert cipher.decrypt(stored, at)[:5000] == data[:5000]


@pytest.mark.parametrize("protocol", ["file", "memory"])
def test_a_plain_volume_is_read_by_fsspec(plain: Plain, protocol: str) -> None:
    path, volume, key, data = plain
    url = f"{protocol}://{path}"
    fsspec.filesystem(protocol).pipe_file(str(path), path.read_bytes())
    luks: dict[str, Any] = {"passphrase": key, "format": volume}
    for _ in range(2):
        with fsspec.open(f"luks::{url}", luks=luks) as file:
            assert file.read() == data
    fs = fsspec.filesystem("luks", fo=url, **luks)
    assert fs.info("")["size"] == len(data)
    assert fs.cat_file("") == data
    # The keys are kept, and the next volume needs no bytes of its beginning.
    assert fs.cat_file("", 100, 200) == data[100:200]
    with pytest.raises(TypeError, match="a new volume has no option format"):
        fs.open("", "wb")


def test_the_steps_to_a_disk(volume: Path) -> None:
    opened = luxor.Volume(volume)
    assert opened.format == "LUKS2"
    with pytest.raises(luxor.WrongPassphrase):
        opened.unlock("wrong")
    unlocked = opened.unlock(PASSPHRASE, mode="r+b")
    assert unlocked.keyslots == [0]
    with pytest.raises(luxor.BusyError):
        opened.unlock(PASSPHRASE)
    disk = unlocked.disk()
    assert_type(disk, luxor.VolumeWriter)
    with pytest.raises(ValueError, match="a disk already"):
        unlocked.disk()
    with disk:
        # This does not close the disk.
        unlocked.close()
        disk.write(b"written")
        with pytest.raises(luxor.BusyError):
            opened.unlock(PASSPHRASE)
    reader = opened.unlock(PASSPHRASE).disk()
    assert_type(reader, luxor.VolumeReader)
    with reader:
        assert reader.read(7) == b"written"
    with pytest.raises(ValueError, match="it should be 'rb' or 'r\\+b'"):
        opened.unlock(PASSPHRASE, mode="wb")  # type: ignore[call-overload]


def test_a_volume_that_is_unlocked_is_locked_until_it_is_closed(volume: Path) -> None:
    opened = luxor.Volume(volume)
    with opened.unlock(passphrase=luxor.Secret(PASSPHRASE)) as unlocked:
        opened.unlock(PASSPHRASE).close()
        with pytest.raises(luxor.BusyError):
            luxor.open(volume, "r+b", passphrase=PASSPHRASE)
    with pytest.raises(ValueError, match="the volume is closed"):
        unlocked.disk()
    luxor.open(volume, "r+b", passphrase=PASSPHRASE).close()
    unlocked = opened.unlock(PASSPHRASE)
    del unlocked
    luxor.open(volume, "r+b", passphrase=PASSPHRASE).close()


def test_a_fork_has_no_keys_of_an_unlocked_volume(volume: Path) -> None:
    unlocked = luxor.Volume(volume).unlock(PASSPHRASE, mode="r+b")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            unlocked.disk()
        except luxor.KeyLostInFork:
            unlocked.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(luxor.BusyError):
        luxor.open(volume, passphrase=PASSPHRASE)
    with unlocked.disk() as disk:
        disk.write(b"by the parent")


def test_a_detached_header_is_a_part_of_a_volume(tmp_path: Path) -> None:
    data, header = tmp_path / "data", tmp_path / "header"
    luxor.create(data, 1 << 20, header=header, passphrase=PASSPHRASE, **CHEAP)
    volume = luxor.Volume(data, header=header)
    assert volume.size == 1 << 20
    assert volume.add_key(passphrase=PASSPHRASE, new_passphrase="other", **CHEAP) == 1
    assert luxor.Volume(header).keyslots == [0, 1]
    assert volume.back_up_header(tmp_path / "backup") == 16 << 20
    with volume.unlock("other", mode="r+b").disk() as disk:
        assert len(disk) == 1 << 20
        disk.write(b"written")
    with volume.unlock("other").disk() as reader:
        assert reader.read(7) == b"written"
    assert data.stat().st_size == 1 << 20


def test_a_plain_volume_has_no_metadata(plain: Plain, tmp_path: Path) -> None:
    path, volume, key, data = plain
    opened = luxor.Volume(path, format=volume)
    assert repr(opened) == "<luxor.Volume plain>"
    assert (opened.format, opened.uuid, opened.label, opened.keyslots) == ("plain", "", "", [])
    assert opened.size == len(data)
    assert opened.check() == []
    unlocked = opened.unlock(key)
    assert unlocked.keyslots == []
    with unlocked.disk() as disk:
        assert disk.read() == data
    before = path.read_bytes()
    new: dict[str, Any] = {"passphrase": key, "new_passphrase": "x", **CHEAP}
    for operation in (
        lambda: opened.version,
        opened.dump,
        lambda: opened.test_key(passphrase=key),
        lambda: opened.add_key(**new),
        lambda: opened.change_key(**new),
        lambda: opened.remove_key(passphrase=key),
        lambda: opened.remove_keyslot(0),
        lambda: opened.add_token({"type": "x", "keyslots": []}),
        lambda: opened.remove_token(0),
        lambda: opened.token(0),
        lambda: opened.back_up_header(tmp_path / "backup"),
    ):
        with pytest.raises(luxor.Error, match="plain is a plain volume: only LUKS has this"):
            operation()
    assert path.read_bytes() == before


def test_a_volume_of_luks_that_is_opened_as_plain_is_not_changed(volume: Path) -> None:
    before = volume.read_bytes()
    opened = luxor.Volume(volume, format="plain")
    with pytest.raises(luxor.Error, match="only LUKS has this"):
        opened.remove_keyslot(0, last=True)
    with pytest.raises(luxor.Error, match="only LUKS has this"):
        opened.add_token({"type": "x", "keyslots": []})
    assert volume.read_bytes() == before


def test_the_format_of_luks_can_be_required(volume: Path) -> None:
    for name in (None, "auto", "luks", "luks2"):
        luxor.open(volume, passphrase=PASSPHRASE, format=name).close()
        assert luxor.Volume(volume, format=name).version == 2
    out = io.BytesIO()
    for call in (
        lambda: luxor.open(volume, passphrase=PASSPHRASE, format="luks1"),
        lambda: luxor.decrypt(volume, out, passphrase=PASSPHRASE, format="luks1"),
        lambda: luxor.Volume(volume, format="luks1"),
        lambda: luxor.VolumeCipher(volume, passphrase=PASSPHRASE, format="luks1"),
    ):
        with pytest.raises(luxor.NotAVolume, match="it is a LUKS2 volume, not LUKS1"):
            call()
    with pytest.raises(TypeError, match="a new volume has no option format"):
        luxor.open("new", "wb", passphrase=PASSPHRASE, format="luks2")


def test_formats_have_names() -> None:
    formats = luxor.formats()
    assert list(formats)[:5] == ["auto", "luks", "luks1", "luks2", "plain"]
    assert all(formats.values())
    for name in formats:
        with pytest.raises((luxor.Error, ValueError)):
            luxor.open(io.BytesIO(b"no volume"), passphrase="x", format=name)


@pytest.mark.parametrize(
    ("format", "error", "message"),
    [
        ("luks3", ValueError, 'format: "luks3" is none of auto, luks, luks1, luks2, plain'),
        (2, TypeError, "format: expected a name of luxor.formats.. or a PlainVolume, not int"),
    ],
)
def test_what_is_no_format_is_refused(
    volume: Path, format: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        luxor.open(volume, passphrase=PASSPHRASE, format=format)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"cipher": "aes-xts"}, ValueError, 'cipher: "aes-xts" is none of aes-xts-plain64'),
        ({"key_size": 128}, ValueError, "has keys of 256 and 512 bits, not of 128"),
        ({"sector_size": 513}, ValueError, "sector_size: .* 513 bytes"),
        ({"sector_size": 4096, "offset": 3}, ValueError, "offset 3 is not a whole number"),
        ({"size": 0}, ValueError, "there would be no data"),
        ({"size": sys.maxsize}, ValueError, "8 EiB or more"),
        ({"offset": -1}, ValueError, "offset is out of range"),
        ({"skip": "1"}, TypeError, "skip: "),
        ({"iv_large_sectors": True}, ValueError, "need a sector size above 512"),
        ({"hash": "sha256"}, TypeError, "hash"),
    ],
)
def test_values_of_a_plain_volume_are_checked(
    values: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        PlainVolume(**values)


def test_a_plain_volume_is_a_value() -> None:
    volume = PlainVolume(offset=8)
    assert volume == PlainVolume(offset=8) != PlainVolume()
    assert pickle.loads(pickle.dumps(volume)) == volume
    assert len({volume, PlainVolume(offset=8)}) == 1
    assert "offset=8" in repr(volume)


def test_a_wrong_key_of_a_plain_volume(plain: Plain) -> None:
    path, volume, key, data = plain
    with pytest.raises(ValueError, match=f"the key has 3 bytes; it must have {len(key)}"):
        luxor.open(path, passphrase="key", format=volume)
    with pytest.raises(ValueError, match="it must have"):
        luxor.Volume(path, format=volume).unlock(volume_key=key + b"x")
    if "xts" in volume.cipher:
        with pytest.raises(ValueError, match="are equal"):
            luxor.open(path, passphrase=bytes(len(key)), format=volume)
    # No digest tells whether a key is the right one.
    with luxor.open(path, passphrase=key[::-1], format=volume) as disk:
        assert disk.read() != data


def test_a_file_that_does_not_suit_the_values(tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(bytes(4096 + 100))
    key = KEY[:32]
    for volume, message in (
        (PlainVolume(offset=16), "the data would begin at byte 8192"),
        (PlainVolume(size=16), "the offset and the size need 8192"),
        (PlainVolume(), "not a whole number of sectors"),
    ):
        with pytest.raises(luxor.Error, match=message):
            luxor.open(path, passphrase=key, format=volume)
    with luxor.open(path, passphrase=key, format=PlainVolume(size=8)) as disk:
        assert len(disk) == 4096


def test_a_format_of_one_file_of_rust_opens(tmp_path: Path) -> None:
    data = os.urandom(16 << 10)
    # Its key is the sum of the passphrase's bytes: see `crates/luxor/src/formats/xor.rs`.
    key = sum(b"horse") % 256
    path = tmp_path / "xor"
    path.write_bytes(
        (b"luxor-xo" + bytes([key ^ 0x5A])).ljust(512, b"\0") + bytes(byte ^ key for byte in data)
    )
    for name in ("xor", "auto"):
        with luxor.open(path, "r+b", passphrase="horse", format=name) as disk:
            assert disk.read() == data
            disk.seek(700)
            disk.write(b"changed")
        data = data[:700] + b"changed" + data[707:]
    with luxor.Volume(path).unlock("horse").disk() as disk:
        assert disk.read() == data
    with pytest.raises(luxor.WrongPassphrase):
        luxor.open(path, passphrase="house")
