# SPDX-License-Identifier: MIT OR Apache-2.0
"""Arrays and tensors of every type of element, in each of the ways that expose their memory."""

from __future__ import annotations

import ctypes
import os
import sys
import types
from collections.abc import Callable
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


def described(**changes: Any) -> Any:
    """Return an array of 512 bytes that describes itself with these changes."""
    array = numpy.zeros(512, numpy.uint8)
    interface = {**array.__array_interface__, **changes}
    return types.SimpleNamespace(__array_interface__=interface, array=array)


class Capsule(ctypes.Structure):
    """`DLManagedTensor` of `dlpack.h`."""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("device", ctypes.c_int32 * 2),
        ("dimensions", ctypes.c_int32),
        ("type", ctypes.c_uint8 * 4),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


def tensor(shape: list[int] | None = None, strides: list[int] | None = None, **changes: Any) -> Any:
    """Return an object with a tensor of DLPack, of 512 bytes except for these changes."""
    array = numpy.zeros(512, numpy.uint8)
    managed = Capsule()
    managed.data, managed.device[0], managed.dimensions = array.ctypes.data, 1, 1
    managed.type[0], managed.type[1], managed.type[2] = 1, 8, 1
    shape = [512] if shape is None else shape
    kept: list[Any] = [array, managed, (ctypes.c_int64 * len(shape))(*shape)]
    managed.dimensions = len(shape)
    managed.shape = ctypes.cast(kept[2], ctypes.POINTER(ctypes.c_int64))
    if strides is not None:
        kept.append((ctypes.c_int64 * len(strides))(*strides))
        managed.strides = ctypes.cast(kept[-1], ctypes.POINTER(ctypes.c_int64))
    for name, value in changes.items():
        setattr(managed, name, value)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    capsule = new(ctypes.addressof(managed), b"dltensor", None)
    return types.SimpleNamespace(
        __dlpack_device__=lambda: (1, 0), __dlpack__=lambda **_: capsule, kept=kept
    )


#: Arrays that say what cannot be, by how they say it.
IMPOSSIBLE: dict[str, Callable[[], Any]] = {
    "null": lambda: described(data=(0, False)),
    "beyond the end": lambda: described(data=(2**64 - 16, False)),
    "too long": lambda: described(shape=(2**62, 2)),
    "overflow": lambda: described(shape=(2**62, 4)),
    "overflow in bytes": lambda: described(shape=(2**61,), typestr="<f8"),
    "negative": lambda: described(shape=(-512,)),
    "backwards": lambda: described(strides=(-1,)),
    "backwards and long": lambda: described(shape=(2, 256), strides=(-(2**63), 1)),
    "buffer at null": lambda: (ctypes.c_char * 512).from_address(0),
    "DLPack null": lambda: tensor(data=0),
    "DLPack null and offset": lambda: tensor(data=0, offset=4096),
    "DLPack offset": lambda: tensor(offset=2**64 - 1),
    "DLPack too long": lambda: tensor(shape=[2**62, 2]),
    "DLPack overflow": lambda: tensor(shape=[2**62, 4]),
    "DLPack negative": lambda: tensor(shape=[-512]),
    "DLPack backwards": lambda: tensor(strides=[-1]),
    "DLPack without shape": lambda: shapeless(),
    "DLPack negative dimensions": lambda: tensor(dimensions=-1),
}


def shapeless() -> Any:
    made = tensor()
    made.kept[1].shape = ctypes.POINTER(ctypes.c_int64)()
    return made


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_arrays_that_cannot_be_are_refused(what: str, volume: Path) -> None:
    """As input and as output. The process ends otherwise."""
    xts, wrong = luxor.XTS(bytes(range(64))), IMPOSSIBLE[what]()
    with pytest.raises((ValueError, BufferError)):
        xts.encrypt(wrong, unit=16)
    with pytest.raises((ValueError, BufferError)):
        xts.encrypt_into(bytes(512), wrong, unit=16)
    with pytest.raises((ValueError, BufferError)):
        luxor.VolumeCipher(volume, passphrase=PASSPHRASE).encrypt(wrong, 0)
    with luxor.open(volume, "r+b", passphrase=PASSPHRASE) as file:
        with pytest.raises((ValueError, BufferError)):
            file.raw.read_into_at(wrong, 0)
        if "buffer" not in what:
            with pytest.raises((ValueError, BufferError)):
                file.write(wrong)


def test_small_arrays_are_whole() -> None:
    """Without dimensions, without elements, and at an odd address."""
    xts = luxor.XTS(bytes(range(64)))
    expected = xts.encrypt(bytes(16), unit=16)
    assert xts.encrypt(described(shape=(), typestr="|V16"), unit=16) == expected
    assert xts.encrypt(described(shape=(0,), data=(0, False)), unit=16) == b""
    assert xts.encrypt(tensor(shape=[0], data=0), unit=16) == b""
    odd = described(shape=(2,), typestr="<f8")
    odd.__array_interface__["data"] = (odd.array.ctypes.data + 1, False)
    assert xts.encrypt(odd, unit=16) == expected
    odd.__array_interface__["data"] = (odd.array.ctypes.data + 1, True)
    with pytest.raises(BufferError, match="read-only"):
        xts.encrypt_into(bytes(16), odd, unit=16)


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
