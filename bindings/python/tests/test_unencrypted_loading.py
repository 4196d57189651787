# SPDX-License-Identifier: MIT OR Apache-2.0
"""`luxor.gpu` on files that are not encrypted."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fsspec
import luxor
import luxor.gpu
import pytest
from conftest import PASSPHRASE, encrypted
from gpus import content
from test_gpu_loading import DEVICES, FILE, METADATA, TENSORS

UNENCRYPTED: dict[str, Any] = {"encrypted": False}


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "plain"
    path.write_bytes(FILE)
    return path


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_are_those_of_the_encrypted_file(tmp_path: Path, plain: Path, device: str) -> None:
    volume = encrypted(tmp_path / "volume", FILE)
    expected = luxor.gpu.load_safetensors(volume, passphrase=PASSPHRASE, device=device)
    memory = f"memory://{tmp_path.name}/plain"
    fsspec.filesystem("memory").pipe_file(memory, FILE)
    files: list[Any] = [plain, io.BytesIO(FILE), memory, f"file://{plain}"]
    for file in files:
        found = luxor.gpu.load_safetensors(file, device=device, **UNENCRYPTED)
        assert (list(found), found.metadata) == (list(expected), METADATA)
        for name, tensor in found.items():
            of_volume = expected[name]
            assert content(tensor) == content(of_volume) == TENSORS[name].tobytes()
            assert tensor.device == device
            assert (tensor.dtype, tensor.shape) == (of_volume.dtype, of_volume.shape)
    some = luxor.gpu.load_safetensors(plain, ["bias"], device=device, **UNENCRYPTED)
    assert [content(tensor) for tensor in some.values()] == [TENSORS["bias"].tobytes()]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_any_bytes_and_parts_are_read(tmp_path: Path, plain: Path, device: str) -> None:
    size = len(FILE)
    for at, length in [(0, size), (size, 0), (size - 1, 1), (1, 4096), (4095, 2), (size - 5000, 5000)]:
        found = luxor.gpu.read(plain, at, length, device=device, **UNENCRYPTED)
        assert content(found) == FILE[at : at + length]
    with pytest.raises(ValueError, match=f"not within the {size} bytes"):
        luxor.gpu.read(plain, 1, size, device=device, **UNENCRYPTED)
    larger = tmp_path / "larger"
    larger.write_bytes(bytes(1024) + FILE)
    url = f"memory://{tmp_path.name}/larger"
    fsspec.filesystem("memory").pipe_file(url, larger.read_bytes())
    files: list[Any] = [larger, url]
    for file in files:
        found = luxor.gpu.read(file, 3, device=device, volume_offset=1024, **UNENCRYPTED)
        assert content(found) == FILE[3:]
    empty = tmp_path / "empty"
    empty.touch()
    assert content(luxor.gpu.read(empty, device=device, **UNENCRYPTED)) == b""


def test_a_file_counts_as_unencrypted_only_if_the_caller_says_so(tmp_path: Path, plain: Path) -> None:
    with pytest.raises(luxor.Error, match="not a LUKS volume"):
        luxor.gpu.load_safetensors(plain, passphrase=PASSPHRASE)
    # And a volume is not decrypted.
    volume = encrypted(tmp_path / "volume", FILE)
    with pytest.raises(luxor.gpu.SafetensorsError):
        luxor.gpu.load_safetensors(volume, **UNENCRYPTED)
    found = luxor.gpu.read(volume, device="cpu", **UNENCRYPTED)
    assert content(found) == volume.read_bytes()


def test_what_only_volumes_have_is_refused(plain: Path) -> None:
    options: list[dict[str, Any]] = [
        {"passphrase": PASSPHRASE},
        {"key_file": "key"},
        {"volume_key": bytes(64)},
        {"header": plain},
        {"format": "luks2"},
        {"engine": "auto"},
        {"threads": 1},
    ]
    loads: list[Any] = [luxor.gpu.read, luxor.gpu.load_safetensors]
    for option in options:
        for load in loads:
            with pytest.raises(TypeError, match=f"^{next(iter(option))} cannot be used with"):
                load(plain, **option, **UNENCRYPTED)
    with pytest.raises(ValueError, match="names a volume"):
        luxor.gpu.read(f"luks::file://{plain}", **UNENCRYPTED)
    write: Any = luxor.gpu.write
    with pytest.raises(TypeError, match="there is no option encrypted"):
        write(plain, b"text", **UNENCRYPTED)
    assert plain.read_bytes() == FILE
