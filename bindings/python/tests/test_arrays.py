# SPDX-License-Identifier: MIT OR Apache-2.0
"""Arrays and tensors of every type of element, in each of the ways that expose their memory."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any

import luxor
import ml_dtypes
import numpy
import pytest
from conftest import PASSPHRASE


class Interface:
    """An array that exposes its memory only in one way, as those of other modules do."""

    def __init__(self, array: Any, way: str) -> None:
        self._array = array
        if way == "numpy":
            self.numpy = lambda: array
        elif way == "interface":
            self.__array_interface__ = array.__array_interface__
        elif way == "dlpack":
            self.numpy = self.refuse
            self.__dlpack__ = array.view(numpy.uint8).__dlpack__
            self.__dlpack_device__ = array.view(numpy.uint8).__dlpack_device__

    def refuse(self) -> None:
        raise TypeError("Got unsupported ScalarType BFloat16")


@pytest.mark.parametrize("way", ["itself", "numpy", "interface", "dlpack"])
@pytest.mark.parametrize(
    "dtype",
    [
        "uint8",
        ">f8",
        "datetime64[ns]",
        "timedelta64[D]",
        "complex128",
        "<U16",
        "V64",
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
        [("a", "M8[s]"), ("b", ml_dtypes.bfloat16), ("c", "V6")],
    ],
)
def test_arrays_of_every_type_are_encrypted_as_bytes(volume: Path, dtype: Any, way: str) -> None:
    """Also in place, and in a volume."""
    array = numpy.frombuffer(os.urandom(4096), numpy.uint8).copy().view(dtype)
    data = array if way == "itself" else Interface(array, way)
    plain = array.tobytes()
    xts = luxor.XTS(bytes(range(64)))
    expected = xts.encrypt(plain, unit=512)
    assert xts.encrypt(data, unit=512) == expected
    xts.encrypt_into(data, data, unit=512)
    assert array.tobytes() == expected
    xts.decrypt_into(data, data, unit=512)
    assert array.tobytes() == plain
    empty = array[:0]
    assert xts.encrypt(empty, unit=512) == b""
    read_only = array.copy()
    read_only.flags.writeable = False
    given = read_only if way == "itself" else Interface(read_only, way)
    if way != "dlpack":
        with pytest.raises(BufferError):
            xts.encrypt_into(array.tobytes(), given, unit=512)
    with luxor.open(volume, "r+b", passphrase=PASSPHRASE) as file:
        assert file.write_at(data, 100) == 4096
        assert file.read_at(4096, 100) == plain
        assert file.write(data) == 4096
        assert file.raw.write(data) == 4096
        assert file.write(empty) == file.raw.write(empty) == 0
    cipher = luxor.VolumeCipher(volume, passphrase=PASSPHRASE)
    assert cipher.encrypt(data, 0) == cipher.encrypt(plain, 0)
    strided = array.view(numpy.uint8)[::2]
    given = strided if way == "itself" else Interface(strided, way)
    with pytest.raises((BufferError, ValueError)):
        xts.encrypt(given, unit=16)


@pytest.mark.parametrize("way", ["itself", "numpy", "interface"])
@pytest.mark.parametrize("dtype", [object, [("a", object), ("b", "M8[s]"), ("c", "V16")]])
def test_arrays_of_objects_are_refused(dtype: Any, way: str) -> None:
    """Their bytes are pointers."""
    array = numpy.zeros(64, dtype)
    data = array if way == "itself" else Interface(array, way)
    with pytest.raises((TypeError, BufferError, ValueError)):
        luxor.XTS(bytes(range(64))).encrypt(data, unit=16)


def test_a_tensor_of_torch_that_refuses_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for torch, which the tests do not install: float8 has no DLPack either."""

    class Tensor:
        requires_grad = True

        def __init__(self, array: Any, dtype: str = "float8") -> None:
            self.array, self.dtype = array, dtype

        def numpy(self) -> Any:
            if self.requires_grad or self.dtype != "uint8":
                raise RuntimeError("Can't call numpy() on Tensor that requires grad")
            return self.array

        def __dlpack_device__(self) -> Any:
            return (1, 0)

        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("Can't export tensors that require gradient")

        def detach(self) -> Tensor:
            detached = Tensor(self.array, self.dtype)
            detached.requires_grad = False
            return detached

        def view(self, dtype: str) -> Tensor:
            viewed = Tensor(self.array, dtype)
            viewed.requires_grad = self.requires_grad
            return viewed

        def data_ptr(self) -> int:
            return int(self.array.ctypes.data)

    torch = types.ModuleType("torch")
    torch.Tensor, torch.uint8 = Tensor, "uint8"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    array = numpy.arange(4096, dtype=numpy.uint8)
    xts = luxor.XTS(bytes(range(64)))
    data: Any = Tensor(array)
    expected = xts.encrypt(array.tobytes())
    assert xts.encrypt(data) == expected
    xts.encrypt_into(data, data)
    assert array.tobytes() == expected
