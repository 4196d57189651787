# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tensors of `luxor.gpu` in torch. It has gigabytes: only the long tests install it."""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
from pathlib import Path
from typing import Any

import luxor
import luxor.gpu
import numpy
import pytest
import safetensors.numpy
from conftest import PASSPHRASE, encrypted
from luxor._safetensors import TYPES

torch: Any = (
    importlib.import_module("torch")
    if "LUXOR_TEST_LONG" in os.environ
    else pytest.importorskip("torch")
)

DATA = bytes(range(48))


def loaded(plain: bytes) -> luxor.gpu.Tensors:
    return luxor.gpu.load_safetensors(io.BytesIO(plain), device="cpu", encrypted=False)


def test_every_type_is_a_view_in_torch() -> None:
    stored = {
        name: {"dtype": name, "shape": [2, 24 // size], "data_offsets": [48 * n, 48 * n + 48]}
        for n, (name, size) in enumerate(TYPES.items())
    }
    header = json.dumps(stored).encode()
    tensors = loaded(len(header).to_bytes(8, "little") + header + DATA * len(stored))
    for name, tensor in tensors.items():
        views = [
            torch.from_dlpack(tensor),
            torch.from_dlpack(tensor, copy=False),
            torch.utils.dlpack.from_dlpack(tensor.__dlpack__()),
        ]
        for view in views:
            assert view.dtype == getattr(torch, tensor.dtype), name
            assert view.shape == (2, 24 // TYPES[name])
            assert view.is_contiguous() and view.data_ptr() == views[0].data_ptr()
            assert view.view(torch.uint8).numpy().tobytes() == DATA
        copy = torch.from_dlpack(tensor, copy=True)
        views[0].view(torch.uint8)[0, 0] = 1
        assert views[1].view(torch.uint8)[0, 0] == 1
        assert copy.view(torch.uint8)[0, 0] == 0


def test_a_view_outlives_its_tensor() -> None:
    arrays: dict[str, Any] = {
        "empty": numpy.zeros((4, 0, 3), "<i8"),
        "scalar": numpy.array(3.5),
        "matrix": numpy.arange(1 << 20, dtype="<f4").reshape(1024, 1024),
    }
    tensors = loaded(safetensors.numpy.save(arrays))
    views = {name: torch.from_dlpack(tensor) for name, tensor in tensors.items()}
    del tensors
    gc.collect()
    for name, array in arrays.items():
        assert views[name].shape == array.shape
        assert numpy.array_equal(views[name].numpy(), array)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "bool", "complex64"])
def test_tensors_of_torch_are_written(tmp_path: Path, dtype: str) -> None:
    path = encrypted(tmp_path / "volume", bytes(5000))
    tensor = torch.ones(240, dtype=torch.uint8).view(getattr(torch, dtype))
    luxor.gpu.write(path, tensor, 3, passphrase=PASSPHRASE)
    cpu = torch.device("cpu")
    found = luxor.gpu.read(path, 2, 242, device=cpu, passphrase=PASSPHRASE)
    assert torch.from_dlpack(found).tolist() == [0] + [1] * 240 + [0]
    with pytest.raises(BufferError, match="not contiguous"):
        luxor.gpu.write(path, tensor[::2], passphrase=PASSPHRASE)
