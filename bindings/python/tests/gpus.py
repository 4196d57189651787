# SPDX-License-Identifier: MIT OR Apache-2.0
"""Memory and arrays on the GPUs of a driver that runs kernels in an emulator, as small modules have
them that know DLPack or `__cuda_array_interface__`."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import luxor.gpu

CUDA, CPU = 2, 1


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class DLManagedTensor(ctypes.Structure):
    _fields_ = [
        ("dl_tensor", DLTensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    ]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

driver = ctypes.CDLL("libcuda.so.1")


def call(name: str, *args: object) -> None:
    code = getattr(driver, name)(*args)
    assert code == 0, (name, code)


class Memory:
    """Memory of a GPU."""

    def __init__(self, data: bytes, gpu: int = 0) -> None:
        self.len = len(data)
        address, before = ctypes.c_uint64(), ctypes.c_void_p()
        call("cuCtxGetCurrent", ctypes.byref(before))
        # The emulated driver's contexts are the GPUs' numbers, from 1.
        call("cuCtxSetCurrent", ctypes.c_void_p(gpu + 1))
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(self.len, 1)))
        call("cuCtxSetCurrent", before)
        self.address = address.value
        self.write(data)

    def write(self, data: bytes) -> None:
        to = ctypes.c_uint64(self.address)
        call("cuMemcpyHtoDAsync_v2", to, data, ctypes.c_size_t(len(data)), None)

    def read(self) -> bytes:
        data = ctypes.create_string_buffer(self.len)
        at = ctypes.c_uint64(self.address)
        call("cuMemcpyDtoHAsync_v2", data, at, ctypes.c_size_t(self.len), None)
        return data.raw


class Array:
    """An array of bytes that other modules read by DLPack."""

    name: bytes = b"dltensor_versioned"
    version = (1, 0)
    device = (CUDA, 0)
    flags = 0

    def __init__(self, data: bytes | Memory, **attributes: Any) -> None:
        device = attributes.get("device", self.device)
        self.memory = data if isinstance(data, Memory) else Memory(data, device[1])
        self.offset = 0
        self.shape: tuple[int, ...] = (self.memory.len,)
        self.strides: tuple[int, ...] | None = None
        self.bits = 8
        self.streams: list[object] = []
        self.lent: list[object] = []
        vars(self).update(attributes)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: object, max_version: tuple[int, int]) -> object:
        assert max_version >= (1, 0)
        self.streams.append(stream)
        return self.capsule()

    def capsule(self) -> object:
        def numbers(values: tuple[int, ...] | None) -> Any:
            return None if values is None else (ctypes.c_int64 * len(values))(*values)

        shape, strides = numbers(self.shape), numbers(self.strides)
        tensor = DLTensor(
            self.memory.address, *self.device, len(self.shape), 1, self.bits, 1,
            shape, strides, self.offset,
        )  # fmt: skip
        if self.name == b"dltensor_versioned":
            managed: Any = DLManagedTensorVersioned(*self.version, None, None, self.flags, tensor)
        else:
            managed = DLManagedTensor(tensor)
        # The array keeps what it lends.
        self.lent = [shape, strides, managed]
        capsule: object = new_capsule(ctypes.addressof(managed), self.name, None)
        return capsule


class OldArray(Array):
    """An array of a module that knows DLPack before version 1."""

    name = b"dltensor"

    def __dlpack__(self, *, stream: object) -> object:  # type: ignore[override]
        self.streams.append(stream)
        return self.capsule()


class CudaArray:
    """An array that other modules read by its address."""

    def __init__(self, data: bytes | Memory, gpu: int = 0, /, **attributes: object) -> None:
        self.memory = data if isinstance(data, Memory) else Memory(data, gpu)
        self.__cuda_array_interface__ = {
            "shape": (self.memory.len,),
            "typestr": "|u1",
            "data": (self.memory.address, False),
            "version": 3,
            **attributes,
        }


def memories() -> tuple[int, int]:
    """Returns how many memories there are on the GPUs, and pinned ones."""
    gc.collect()
    gpus, pinned = ctypes.c_size_t(), ctypes.c_size_t()
    call("luxor_memories", ctypes.byref(gpus), ctypes.byref(pinned))
    return gpus.value, pinned.value


def content(tensor: luxor.gpu.Tensor) -> bytes:
    """The bytes of a tensor, of any type and on any device."""
    capsule = tensor.__dlpack__(max_version=(1, 0), dl_device=(1, 0))
    managed = DLManagedTensorVersioned.from_address(pointer(capsule, b"dltensor_versioned"))
    return ctypes.string_at(managed.dl_tensor.data, tensor.nbytes)


def pointer(capsule: object, name: bytes) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = get(capsule, name)
    assert isinstance(address, int)
    return address
