# SPDX-License-Identifier: MIT OR Apache-2.0
"""`XTS.encrypt_cuda`, with tensors of a small module that knows DLPack, and arrays of one that knows
`__cuda_array_interface__`, on a driver that runs the GPU's kernels in an emulator."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Iterator
from typing import Any

import luxor
import pytest
from gpus import CPU, CUDA, Array, CudaArray, Memory, OldArray, call

KEYS = [bytes(range(32)), bytes(range(64))]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("kind", [Array, OldArray, CudaArray])
def test_the_result_is_that_of_the_cpu(key: bytes, kind: type[Array | CudaArray]) -> None:
    data = os.urandom(4096)
    xts = luxor.XTS(key)
    number = 2**64 - 3
    expected = xts.encrypt(data, number=number, stride=8)
    source, target = kind(data), kind(bytes(4096))

    xts.encrypt_cuda(source, number=number, stride=8, out=target)
    assert source.memory.read() == data
    assert target.memory.read() == expected
    xts.decrypt_cuda(target, 512, number, 8)
    assert target.memory.read() == data


@pytest.mark.parametrize("device", [0, 1])
def test_each_gpu_encrypts_its_own_tensors(device: int) -> None:
    data = os.urandom(1024)
    xts = luxor.XTS(KEYS[1])
    arrays: list[Array | CudaArray] = [
        Array(data, device=(CUDA, device)),
        CudaArray(data, device),
    ]
    for array in arrays:
        xts.encrypt_cuda(array)
        assert array.memory.read() == xts.encrypt(data)


def test_any_contiguous_tensor_is_taken() -> None:
    data = os.urandom(4096)
    xts = luxor.XTS(KEYS[1])
    shapes: list[dict[str, Any]] = [
        {"shape": (8, 512)},
        {"shape": (8, 512), "strides": (512, 1)},
        {"shape": (1, 8, 1, 512), "strides": (7, 512, 3, 1)},
        {"shape": (2, 512), "bits": 32},
    ]
    for shape in shapes:
        array = Array(data, **shape)
        xts.encrypt_cuda(array, 1024)
        assert array.memory.read() == xts.encrypt(data, 1024), shape
    part = Array(data, offset=1024, shape=(2048,))
    xts.encrypt_cuda(part)
    assert part.memory.read() == data[:1024] + xts.encrypt(data[1024:3072]) + data[3072:]
    for empty in [Array(b""), Array(data, shape=(0, 512), strides=(512, 1))]:
        xts.encrypt_cuda(empty)
        assert empty.memory.read() in (b"", data)


def test_any_contiguous_array_is_taken() -> None:
    data = os.urandom(4096)
    xts = luxor.XTS(KEYS[1])
    shapes: list[dict[str, Any]] = [
        {"shape": (8, 512), "strides": None, "mask": None, "stream": None},
        {"shape": (4, 256), "typestr": "<f4", "strides": (1024, 4)},
        {"shape": (1, 2, 1, 256), "typestr": "<c8", "strides": (7, 2048, 3, 8)},
    ]
    for shape in shapes:
        array = CudaArray(data, **shape)
        xts.encrypt_cuda(array, 1024)
        assert array.memory.read() == xts.encrypt(data, 1024), shape
    memory = Memory(data)
    part = CudaArray(memory, shape=(2048,), data=(memory.address + 1024, False))
    xts.encrypt_cuda(part)
    assert memory.read() == data[:1024] + xts.encrypt(data[1024:3072]) + data[3072:]
    xts.encrypt_cuda(CudaArray(b"", data=(0, False)))


def followed() -> tuple[int, int]:
    """Returns how often a stream was made to follow another one, and the last of these."""
    count, last = ctypes.c_size_t(), ctypes.c_size_t()
    call("luxor_followed", ctypes.byref(count), ctypes.byref(last))
    return count.value, last.value


def test_the_work_follows_the_stream_of_an_array() -> None:
    xts = luxor.XTS(KEYS[0])
    xts.encrypt_cuda(CudaArray(bytes(512), stream=7), stream=0x1234)
    count, last = followed()
    assert last == 7
    xts.encrypt_cuda(CudaArray(bytes(512)), out=CudaArray(bytes(512), stream=8))
    assert followed() == (count + 1, 8)
    # Nothing to follow.
    xts.encrypt_cuda(CudaArray(bytes(512)), stream=9)
    xts.encrypt_cuda(CudaArray(bytes(512), stream=9), stream=9)
    assert followed() == (count + 1, 8)


@pytest.mark.parametrize("kind", [Array, CudaArray])
def test_a_call_returns_before_the_work_is_done(kind: type[Array | CudaArray]) -> None:
    data = os.urandom(1024)
    xts = luxor.XTS(KEYS[1])
    array, held = kind(data), ctypes.c_size_t(0x77)
    call("luxor_hold_stream", held)
    xts.encrypt_cuda(array, stream=0x77)
    xts.decrypt_cuda(array, stream=0x77)
    xts.encrypt_cuda(array, stream=0x77)
    assert array.memory.read() == data
    call("luxor_run_stream", held)
    assert array.memory.read() == xts.encrypt(data)


def test_a_deleted_key_waits_for_its_work() -> None:
    data = os.urandom(1024)
    xts = luxor.XTS(KEYS[1])
    expected = xts.encrypt(data)
    array = CudaArray(data)
    call("luxor_hold_stream", ctypes.c_size_t(0x78))
    xts.encrypt_cuda(array, stream=0x78)
    del xts
    gc.collect()
    assert array.memory.read() == expected


class Stream:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 0x1234


def test_the_owner_of_a_tensor_gets_the_callers_stream() -> None:
    xts = luxor.XTS(KEYS[0])
    array = Array(bytes(512))
    xts.encrypt_cuda(array)
    xts.encrypt_cuda(array, stream=0)
    xts.encrypt_cuda(array, stream=2)
    xts.encrypt_cuda(array, stream=Stream())
    # DLPack calls the default stream 1.
    assert array.streams == [1, 1, 2, 0x1234]


def test_a_tensor_is_given_back_after_the_call() -> None:
    released: list[bool] = []

    class Owner(Array):
        def __del__(self) -> None:
            released.append(True)

    xts = luxor.XTS(KEYS[0])
    xts.encrypt_cuda(Owner(bytes(512)))
    with pytest.raises(ValueError):
        xts.encrypt_cuda(Owner(bytes(513)))
    gc.collect()
    assert released == [True, True]


def test_the_current_context_stays() -> None:
    context = ctypes.c_void_p()
    for before in [None, 2]:
        call("cuCtxSetCurrent", ctypes.c_void_p(before))
        luxor.XTS(KEYS[0]).encrypt_cuda(Array(bytes(512)))
        call("cuCtxGetCurrent", ctypes.byref(context))
        assert context.value == before


def refused() -> Iterator[tuple[str, type[Exception], dict[str, Any]]]:
    one = Memory(bytes(2048))
    half = {"shape": (1024,)}
    yield "not on an NVIDIA GPU", ValueError, {"tensor": Array(one, device=(CPU, 0))}
    yield "__dlpack__", TypeError, {"tensor": bytes(512)}
    yield "not contiguous", BufferError, {"tensor": Array(one, shape=(2, 512), strides=(1024, 1))}
    yield "not contiguous", BufferError, {"tensor": Array(one, shape=(512, 4), strides=(1, 512))}
    yield "not contiguous", BufferError, {"tensor": Array(one, shape=(-1,))}
    yield "read-only", BufferError, {"tensor": Array(one, flags=1)}
    yield "read-only", BufferError, {"tensor": Array(one), "out": Array(bytes(2048), flags=1)}
    # Written bytes are lost in a copy, which has flag 2.
    yield "read-only", BufferError, {"tensor": Array(one), "out": Array(bytes(2048), flags=2)}
    yield "elements of 4 bits", BufferError, {"tensor": Array(one, bits=4)}
    yield "no tensor", TypeError, {"tensor": Array(one, name=b"used_dltensor")}
    yield "version 2.0", BufferError, {"tensor": Array(one, version=(2, 0))}
    yield "multiple of 16, not 17", ValueError, {"tensor": Array(bytes(34)), "unit": 17}
    yield "0 bytes", ValueError, {"tensor": Array(one), "unit": 0}
    yield "whole number", ValueError, {"tensor": Array(one), "unit": 4096}
    yield "2048 bytes, the output 512", ValueError, {"tensor": Array(one), "out": Array(bytes(512))}
    yield "multiple of 16", ValueError, {"tensor": Array(one, offset=8, **half)}
    overlap = {"tensor": Array(one, **half), "out": Array(one, offset=512, **half)}
    yield "overlaps", ValueError, overlap
    other = {"tensor": Array(one), "out": Array(bytes(2048), device=(CUDA, 1))}
    yield "another GPU", ValueError, other
    yield "cannot use GPU 7", ValueError, {"tensor": Array(one, device=(CUDA, 7))}
    yield "0 to 2", ValueError, {"tensor": Array(one), "number": 2**128}
    yield "cannot use 4096 bytes", luxor.Error, {"tensor": Array(one, shape=(4096,))}
    yield "not contiguous", BufferError, {"tensor": CudaArray(one, strides=(2,))}
    yield "differ in length", TypeError, {"tensor": CudaArray(one, strides=(512, 1))}
    yield "read-only", BufferError, {"tensor": CudaArray(one, data=(one.address, True))}
    yield "mask", BufferError, {"tensor": CudaArray(one, mask=CudaArray(one))}
    for typestr in ["|t1", "|u", "", "|ux"]:
        yield "no whole bytes", BufferError, {"tensor": CudaArray(one, typestr=typestr)}
    yield "on no GPU", ValueError, {"tensor": CudaArray(one, data=(4096, False))}
    yield "cannot use 4096 bytes", luxor.Error, {"tensor": CudaArray(one, shape=(4096,))}
    arrays = {"tensor": CudaArray(one), "out": CudaArray(bytes(2048), 1)}
    yield "another GPU", ValueError, arrays
    incomplete = CudaArray(one)
    del incomplete.__cuda_array_interface__["data"]
    yield 'has no "data"', TypeError, {"tensor": incomplete}


@pytest.mark.parametrize("method", ["encrypt_cuda", "decrypt_cuda"])
def test_bad_input_is_refused_and_changes_nothing(method: str) -> None:
    crypt = getattr(luxor.XTS(KEYS[1]), method)
    for text, kind, arguments in refused():
        with pytest.raises(kind, match=text):
            crypt(**arguments)
        tensor = arguments["tensor"]
        if isinstance(tensor, Array | CudaArray):
            assert not any(tensor.memory.read()), text


def test_the_input_may_be_read_only_if_there_is_an_output() -> None:
    xts = luxor.XTS(KEYS[0])
    target = Array(bytes(512))
    xts.encrypt_cuda(Array(bytes(512), flags=1), out=target)
    assert target.memory.read() == xts.encrypt(bytes(512))


def test_a_fork_has_lost_the_key() -> None:
    xts = luxor.XTS(KEYS[0])
    array = Array(bytes(512))
    xts.encrypt_cuda(array)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            xts.encrypt_cuda(array)
        except luxor.KeyLostInFork:
            del xts
            gc.collect()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    xts.decrypt_cuda(array)
    assert array.memory.read() == bytes(512)


def test_several_threads_use_one_object() -> None:
    xts = luxor.XTS(KEYS[0])
    arrays = [Array(bytes([n]) * 1024) for n in range(4)]

    def encrypt(array: Array) -> None:
        xts.encrypt_cuda(array)

    threads = [threading.Thread(target=encrypt, args=(array,)) for array in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, array in enumerate(arrays):
        assert array.memory.read() == xts.encrypt(bytes([n]) * 1024)
