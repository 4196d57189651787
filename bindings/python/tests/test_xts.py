# SPDX-License-Identifier: MIT OR Apache-2.0
"""`luxor.XTS`, compared with the package `cryptography` and with the rules for bad input."""

from __future__ import annotations

import array
import gc
import mmap
import os
import threading
from typing import Any

import luxor
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

KEYS = [bytes(range(32)), bytes(range(64))]


def by_cryptography(key: bytes, data: bytes, unit: int, number: int, stride: int) -> bytes:
    out = b""
    for index in range(len(data) // unit):
        tweak = ((number + index * stride) % 2**128).to_bytes(16, "little")
        encryptor = Cipher(algorithms.AES(key), modes.XTS(tweak)).encryptor()
        out += encryptor.update(data[index * unit :][:unit]) + encryptor.finalize()
    return out


@given(
    key=st.sampled_from(KEYS),
    unit=st.one_of(st.sampled_from([16, 512, 4096]), st.integers(16, 100)),
    units=st.integers(0, 9),
    number=st.one_of(st.integers(0, 2**128 - 1), st.integers(2**128 - 9, 2**128 - 1)),
    stride=st.integers(0, 2**64 - 1),
    seed=st.integers(0, 255),
)
def test_the_result_is_that_of_cryptography(
    key: bytes, unit: int, units: int, number: int, stride: int, seed: int
) -> None:
    data = bytes((seed + 7 * i) % 256 for i in range(unit * units))
    xts = luxor.XTS(key)
    encrypted = xts.encrypt(data, unit, number, stride)
    assert encrypted == by_cryptography(key, data, unit, number, stride)
    assert xts.decrypt(encrypted, unit, number, stride) == data
    assert luxor.XTS(key, engine="portable").encrypt(data, unit, number, stride) == encrypted


def test_defaults_are_sectors_of_512_bytes_from_0() -> None:
    data = os.urandom(2048)
    xts = luxor.XTS(KEYS[1])
    assert xts.encrypt(data) == xts.encrypt(data, unit=512, number=0, stride=1)
    assert xts.encrypt(data[512:], number=1) == xts.encrypt(data)[512:]


def buffers(data: bytes) -> list[Any]:
    shared = mmap.mmap(-1, len(data))
    shared[:] = data
    return [
        bytearray(data),
        memoryview(bytearray(data)),
        array.array("I", data),
        shared,
        np.frombuffer(data, dtype=np.uint8).copy(),
        np.frombuffer(data, dtype=np.float32).reshape(32, -1).copy(),
    ]


def test_anything_with_the_buffer_protocol_is_input_and_output() -> None:
    data = os.urandom(4096)
    xts = luxor.XTS(KEYS[0])
    expected = xts.encrypt(data)
    for source in [data, *buffers(data)]:
        assert xts.encrypt(source) == expected
        for out in buffers(bytes(4096)):
            xts.encrypt_into(source, out)
            assert memoryview(out).tobytes() == expected
            xts.decrypt_into(out, out)
            assert memoryview(out).tobytes() == data


def test_a_tensor_is_taken_by_its_array() -> None:
    class Tensor:
        """Like a tensor of torch: no buffer, but an array over the same memory."""

        def __init__(self, data: bytes) -> None:
            self.array = np.frombuffer(data, dtype=np.uint8).copy()

        def numpy(self) -> Any:
            return self.array

    data = os.urandom(4096)
    tensor = Tensor(data)
    xts = luxor.XTS(KEYS[0])
    expected = xts.encrypt(data)
    assert xts.encrypt(tensor) == expected
    xts.encrypt_into(tensor, tensor)
    assert tensor.array.tobytes() == expected


def test_a_call_of_several_pieces_is_one_run() -> None:
    data = bytearray(os.urandom(1 << 20) * 70)
    xts = luxor.XTS(KEYS[1])
    out = bytearray(len(data))
    xts.encrypt_into(data, out, 4096, number=2**64 - 5, stride=8)
    at = 40 << 20
    assert out[at:][:4096] == xts.encrypt(
        data[at:][:4096], 4096, number=2**64 - 5 + 8 * (at // 4096)
    )
    xts.decrypt_into(out, out, 4096, number=2**64 - 5, stride=8)
    assert out == data


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: luxor.XTS(bytes(31)), "31 bytes"),
        (lambda: luxor.XTS(bytes(64)), "equal"),
        (lambda: luxor.XTS(KEYS[0], engine="quantum"), "quantum"),
        (lambda: luxor.XTS(KEYS[0], threads=0), "threads"),
        (lambda: luxor.XTS(KEYS[0], threads=-1), "threads"),
        (lambda: luxor.XTS(KEYS[0]).encrypt(bytes(512), -1), "unit must be 16"),
        (lambda: luxor.XTS(KEYS[0]).encrypt(bytes(512), 2**70), "unit must be 16"),
        (lambda: luxor.XTS(KEYS[0]).encrypt(bytes(512), stride=-1), "stride must be"),
        (lambda: luxor.XTS(KEYS[0]).encrypt(bytes(512), stride=2**64), "stride must be"),
        (lambda: luxor.XTS(KEYS[0]).encrypt(bytes(513)), "513 bytes"),
        (lambda: luxor.XTS(KEYS[0]).encrypt(bytes(512), 0), "16 bytes or more, not 0"),
        (lambda: luxor.XTS(KEYS[0]).encrypt(bytes(15), 15), "not 15"),
        (lambda: luxor.XTS(KEYS[0]).encrypt(bytes(1 << 25), 1 << 25), "33554432"),
        (lambda: luxor.XTS(KEYS[0]).encrypt(bytes(512), number=-1), "2\\*\\*128"),
        (lambda: luxor.XTS(KEYS[0]).encrypt(bytes(512), number=2**128), "2\\*\\*128"),
        (lambda: luxor.XTS(KEYS[0]).encrypt_into(bytes(512), bytearray(1024)), "1024"),
    ],
)
def test_wrong_values_are_refused(call: Any, message: str) -> None:
    with pytest.raises((ValueError, luxor.Error), match=message):
        call()


def test_objects_of_the_wrong_kind_are_refused() -> None:
    xts = luxor.XTS(KEYS[0])
    with pytest.raises(TypeError):
        xts.encrypt("text")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        xts.encrypt(bytes(512), number=1.5)  # type: ignore[arg-type]
    objects = np.array([object()] * 64, dtype=object)
    with pytest.raises(TypeError, match="Python objects"):
        xts.encrypt_into(objects, objects)
    fields = np.zeros(64, dtype=[("Offset", np.uint64)])
    assert xts.decrypt(xts.encrypt(fields)) == bytes(512)
    with pytest.raises(BufferError, match="read-only"):
        xts.encrypt_into(bytes(512), bytes(512))
    with pytest.raises(BufferError, match="contiguous"):
        xts.encrypt(memoryview(bytes(2048))[::2])
    with pytest.raises(BufferError, match="contiguous"):
        xts.encrypt_into(bytes(1024), np.zeros((64, 32), np.uint8)[:, :16])


@pytest.mark.parametrize("shift", [1, 16, 512, 1023, -1, -512])
def test_partly_overlapping_buffers_are_refused(shift: int) -> None:
    memory = memoryview(bytearray(4096))
    source, out = memory[1024:2048], memory[1024 + shift :][:1024]
    before = bytes(memory)
    with pytest.raises(ValueError, match="overlap"):
        luxor.XTS(KEYS[0]).encrypt_into(source, out)
    assert bytes(memory) == before
    luxor.XTS(KEYS[0]).encrypt_into(source, memory[2048:3072])


def test_a_buffer_cannot_shrink_while_it_is_encrypted() -> None:
    data = bytearray(64 << 20)
    xts = luxor.XTS(KEYS[0], threads=1)
    thread = threading.Thread(target=xts.encrypt_into, args=(data, data))
    thread.start()
    refused = False
    while thread.is_alive():
        try:
            data.clear()
        except BufferError:
            refused = True
        else:
            break
    thread.join()
    assert refused or len(data) == 0


def test_threads_share_a_key() -> None:
    xts = luxor.XTS(KEYS[1])
    data = [os.urandom(1 << 20) for _ in range(8)]
    expected = [xts.encrypt(piece) for piece in data]
    found: list[bytes] = [b""] * 8

    def work(index: int) -> None:
        for _ in range(5):
            found[index] = xts.encrypt(data[index])

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def test_a_fork_has_lost_the_key() -> None:
    xts = luxor.XTS(KEYS[1])
    xts.encrypt(bytes(4 << 20))  # Its threads are not in the fork either.
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for size in (512, 4 << 20):
                data = bytearray(size)
                try:
                    xts.encrypt_into(data, data)
                except luxor.KeyLostInFork:
                    code = 0 if not any(data) else 2
                else:
                    code = 3
                if code:
                    break
            # A key that the fork loads itself works.
            if not code and luxor.XTS(KEYS[1]).encrypt(bytes(512)) == bytes(512):
                code = 4
            del xts
            gc.collect()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert xts.decrypt(xts.encrypt(bytes(512))) == bytes(512)


def test_engines_are_listed() -> None:
    engines = luxor.engines()
    portable = next(engine for engine in engines if engine["name"] == "portable")
    assert portable["present"] and portable["self_test"] == "passed"
    assert "xts" in portable["modes"]
    for engine in engines:
        assert engine["present"] == (engine["device"] is not None)
        assert engine["present"] or engine["reason"]
    assert luxor.XTS(KEYS[0]).engine in [engine["name"] for engine in engines]
