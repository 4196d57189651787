# SPDX-License-Identifier: MIT OR Apache-2.0
"""Volumes in a partition, or at an offset, of a larger file."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any

import fsspec
import luxor
import pytest

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = 1 << 20
FAST: dict[str, Any] = {"pbkdf": "pbkdf2", "pbkdf_force_iterations": 1000}


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Return a disk with a volume in partition 3, and other bytes around it."""
    volume = io.BytesIO()
    plain = io.BytesIO(b"the plaintext" * 1000)
    luxor.encrypt(plain, volume, passphrase="correct horse", **FAST)
    entry = struct.pack("<4xB3xII", 0x83, BEGIN // 512, len(volume.getvalue()) // 512)
    table = bytes(446) + bytes(32) + entry + bytes(16) + b"\x55\xaa"
    path = tmp_path / "disk.img"
    path.write_bytes(table.ljust(BEGIN, b"\xee") + volume.getvalue() + b"\xee" * 4096)
    return path


@pytest.mark.parametrize("as_object", [False, True])
def test_a_part_is_opened_and_nothing_else_is_changed(disk: Path, as_object: bool) -> None:
    before = disk.read_bytes()
    with open(disk, "r+b") as held:
        file = held if as_object else disk
        with luxor.open(file, "r+b", passphrase="correct horse", volume_partition=3) as volume:
            assert len(volume) == 13_000
            volume.write(b"THE")
        with luxor.open(file, passphrase="correct horse", volume_partition=3) as volume:
            assert volume.read(13) == b"THE plaintext"
        out = io.BytesIO()
        held.seek(0)
        luxor.decrypt(file, out, passphrase="correct horse", volume_partition=3)
        assert out.getvalue().startswith(b"THE plaintext")
        keys = luxor.Volume(file, volume_partition=3)
        keys.add_key(passphrase="correct horse", new_passphrase="other", **FAST)
        assert luxor.Volume(file, volume_partition=3).keyslots == [0, 1]
    after = disk.read_bytes()
    assert len(after) == len(before)
    assert after[:BEGIN] == before[:BEGIN]
    assert after[-4096:] == before[-4096:]


@pytest.mark.parametrize("part", [{"volume_offset": BEGIN}, {"volume_partition": 3}])
def test_a_header_is_restored_into_a_part(disk: Path, tmp_path: Path, part: Any) -> None:
    backup = tmp_path / "backup"
    luxor.Volume(disk, **part).back_up_header(backup)
    before = disk.read_bytes()
    luxor.Volume(disk, **part).change_key(
        passphrase="correct horse", new_passphrase="other", **FAST
    )
    luxor.restore_header(backup, disk, force=True, **part)
    after = disk.read_bytes()
    assert len(after) == len(before)
    assert after[:BEGIN] == before[:BEGIN] and after[-4096:] == before[-4096:]
    with luxor.open(disk, passphrase="correct horse", **part) as volume:
        assert volume.read(13) == b"the plaintext"


@pytest.mark.parametrize("part", [{"volume_offset": BEGIN}, {"volume_partition": 3}])
@pytest.mark.parametrize("protocol", ["file", "memory"])
def test_a_part_is_read_by_fsspec(disk: Path, part: Any, protocol: str) -> None:
    url = f"{protocol}://{disk}"
    fsspec.filesystem(protocol).pipe_file(str(disk), disk.read_bytes())
    plain = b"the plaintext" * 1000
    luks = {"passphrase": "correct horse", **part}
    with fsspec.open(f"luks::{url}", luks=luks) as file:
        assert file.read() == plain
        file.seek(7000)
        assert file.read(100) == plain[7000:7100]
    fs = fsspec.filesystem("luks", fo=url, target_protocol=protocol, **luks)
    assert fs.info(str(disk))["size"] == 13_000
    assert fs.cat_file(str(disk), 12_990) == plain[12_990:]
    with pytest.raises(TypeError, match="a new volume has no option volume_"):
        fs.open(str(disk), "wb")
    with pytest.raises(luxor.Error, match="no partition 4"):
        fsspec.filesystem("luks", fo=url, passphrase="x", volume_partition=4).info("")
    assert fsspec.filesystem(protocol).cat_file(str(disk)) == disk.read_bytes()


def test_a_new_volume_is_a_whole_file(disk: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a new volume has no option volume_offset"):
        luxor.open(tmp_path / "new", "wb", passphrase="x", volume_offset=BEGIN)
    assert not (tmp_path / "new").exists()


def test_an_offset_is_a_place_too(disk: Path) -> None:
    with luxor.open(disk, passphrase="correct horse", volume_offset=BEGIN) as volume:
        assert volume.read(13) == b"the plaintext"
    assert luxor.Volume(disk, volume_offset=BEGIN).version == 2


def test_what_is_not_there_is_refused(disk: Path) -> None:
    with pytest.raises(luxor.NotAVolume, match="partition 3 is a LUKS2 volume"):
        luxor.Volume(disk)
    with pytest.raises(luxor.Error, match="there is no partition 4; it has 3"):
        luxor.Volume(disk, volume_partition=4)
    with pytest.raises(luxor.Error, match="multiple of 512"):
        luxor.open(disk, passphrase="x", volume_offset=1000)
    with pytest.raises(TypeError, match="volume_partition"):
        luxor.open(disk, passphrase="x", volume_offset=512, volume_partition=3)
    with pytest.raises(luxor.Error, match="no partition 4"):
        luxor.Volume(io.BytesIO(disk.read_bytes()), volume_partition=4)


def test_a_part_that_overlaps_another_is_read_and_not_changed(disk: Path) -> None:
    """A path, an object and fsspec agree."""
    data = bytearray(disk.read_bytes())
    # Partition 1 begins in the last sector of partition 3.
    struct.pack_into("<4xB3xII", data, 446, 0x83, (len(data) - 4096) // 512 - 1, 2)
    disk.write_bytes(data)
    secret: dict[str, Any] = {"passphrase": "correct horse", "volume_partition": 3}
    for file in (disk, io.BytesIO(data)):
        with luxor.open(file, **secret) as volume:
            assert volume.read(13) == b"the plaintext"
        out = io.BytesIO()
        if isinstance(file, io.BytesIO):
            file.seek(0)
        luxor.decrypt(file, out, **secret)
        assert out.getvalue().startswith(b"the plaintext")
        keys = luxor.Volume(file, volume_partition=3)
        assert keys.keyslots == [0]
        with pytest.raises(luxor.Error, match="overlaps partition 1, which a change"):
            luxor.open(file, "r+b", **secret)
        with pytest.raises(luxor.Error, match="overlaps partition 1, which a change"):
            keys.add_key(passphrase="correct horse", new_passphrase="other", **FAST)
    with fsspec.open(f"luks::file://{disk}", luks=secret) as stored:
        assert stored.read(13) == b"the plaintext"
    assert disk.read_bytes() == data
