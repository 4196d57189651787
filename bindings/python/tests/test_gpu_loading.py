# SPDX-License-Identifier: MIT OR Apache-2.0
"""`luxor.gpu`, in the memory of the computer and on a driver that runs the GPU's kernels in an
emulator."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import luxor
import luxor.gpu
import ml_dtypes
import numpy
import pytest
import safetensors
import safetensors.numpy
from conftest import CHEAP, PASSPHRASE, encrypted
from gpus import (
    CUDA,
    Array,
    CudaArray,
    DLManagedTensor,
    DLManagedTensorVersioned,
    Memory,
    call,
    content,
    memories,
    pointer,
)
from luxor.keys import KeyFile

if TYPE_CHECKING:
    from s3 import Bucket, FaultyS3

DEVICES = ["cpu", "cuda:0", "cuda:1"]

SIZE = 100_001
PLAIN = random.Random(59).randbytes(SIZE)

#: Their lengths and places have many remainders.
TENSORS: dict[str, Any] = {
    "model.embed": numpy.arange(6000, dtype="<f4").reshape(30, 200),
    "bias": numpy.arange(7, dtype="u1"),
    "half": numpy.ones((3, 5), dtype="<f2"),
    "empty": numpy.zeros((4, 0, 3), dtype="<i8"),
    "scalar": numpy.array(3.5),
    "flags": numpy.array([[True, False, True]]),
    "counts": numpy.arange(-3000, 3000, dtype="<i4").reshape(10, 20, 30),
}
#: The writer has no order for several.
METADATA = {"of": "“the tests”"}
FILE = safetensors.numpy.save(TENSORS, metadata=METADATA)


def run(program: str, **variables: str | None) -> None:
    """Run a program, because it leaves the emulated GPUs unusable or wants none."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for name, value in variables.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    command = [sys.executable, "-B", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return encrypted(tmp_path / "weights", FILE)


KINDS: dict[str, dict[str, Any]] = {
    "sectors of 4096 bytes": {},
    "sectors of 512 bytes": {"sector_size": 512},
    "AES-128": {"key_size": 256, "sector_size": 512},
    "LUKS1": {"type": "luks1"},
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_tensors_are_those_of_the_writer(tmp_path: Path, kind: str, device: str) -> None:
    # LUKS1 has whole sectors, as a file of safetensors can: spaces may follow its header.
    padding = -len(FILE) % 512
    length = int.from_bytes(FILE[:8], "little")
    padded = (length + padding).to_bytes(8, "little") + FILE[8 : 8 + length] + b" " * padding
    path = encrypted(tmp_path / "volume", padded + FILE[8 + length :], **KINDS[kind])
    loaded = luxor.gpu.load_safetensors(path, passphrase=PASSPHRASE, device=device)
    assert loaded.metadata == METADATA
    assert loaded.keys() == TENSORS.keys()
    addresses = []
    for name, tensor in loaded.items():
        expected = TENSORS[name]
        assert (tensor.shape, tensor.dtype) == (expected.shape, expected.dtype.name)
        assert (tensor.nbytes, tensor.device) == (expected.nbytes, device)
        found = numpy.from_dlpack(tensor, device="cpu")
        assert found.dtype == expected.dtype and numpy.array_equal(found, expected), name
        number = 0 if device == "cpu" else int(device[-1])
        assert tensor.__dlpack_device__() == ((1 if device == "cpu" else CUDA), number)
        interface = f"__{'array' if device == 'cpu' else 'cuda_array'}_interface__"
        addresses.append(getattr(tensor, interface)["data"][0])
    assert all(address % 256 == 0 for address in addresses)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_only_the_tensors_with_these_names_are_loaded(weights: Path, device: str) -> None:
    names = ["scalar", "model.embed", "scalar"]
    loaded = luxor.gpu.load_safetensors(weights, names, passphrase=PASSPHRASE, device=device)
    assert list(loaded) == ["scalar", "model.embed"]
    for name, tensor in loaded.items():
        assert content(tensor) == TENSORS[name].tobytes()
    assert luxor.gpu.load_safetensors(weights, [], passphrase=PASSPHRASE, device=device) == {}
    with pytest.raises(KeyError, match="no tensor 'absent'"):
        luxor.gpu.load_safetensors(weights, ["bias", "absent"], passphrase=PASSPHRASE)
    with pytest.raises(TypeError, match="several names"):
        luxor.gpu.load_safetensors(weights, "bias", passphrase=PASSPHRASE)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_type_of_safetensors_is_loaded(tmp_path: Path, device: str) -> None:
    data = bytes(range(48))
    names = {
        "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32",
        "I32": "int32", "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16",
        "F32": "float32", "F64": "float64", "C64": "complex64", "BOOL": "bool",
        "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    }  # fmt: skip
    sizes = {name: numpy.dtype(kind).itemsize for name, kind in names.items()}
    stored: dict[str, Any] = {
        name: {"dtype": name, "shape": [48 // size], "data_offsets": [48 * n, 48 * n + 48]}
        for n, (name, size) in enumerate(sizes.items())
    }
    header = json.dumps(stored).encode()
    plain = len(header).to_bytes(8, "little") + header + data * len(names)
    # The writer agrees about the types.
    deserialize: Any = safetensors.deserialize
    assert len(deserialize(plain)) == len(names)
    path = encrypted(tmp_path / "volume", plain)
    loaded = luxor.gpu.load_safetensors(path, passphrase=PASSPHRASE, device=device)
    codes = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
    others = {"BF16": 4, "F8_E4M3": 10, "F8_E5M2": 12, "F8_E8M0": 14}
    for name, tensor in loaded.items():
        kind = numpy.dtype(names[name])
        assert tensor.dtype == names[name]
        capsule = tensor.__dlpack__()
        found = DLManagedTensor.from_address(pointer(capsule, b"dltensor")).dl_tensor
        code = others[name] if name in others else codes[kind.kind]
        assert (found.code, found.bits, found.lanes) == (code, 8 * kind.itemsize, 1)
        assert (found.shape[0], found.strides[0]) == (len(tensor), 1)
        assert content(tensor) == data
        if name in others:
            assert not hasattr(tensor, "__cuda_array_interface__")
            assert not hasattr(tensor, "__array_interface__")
        if device == "cpu":
            view = memoryview(tensor)
            buffer: Any = tensor
            assert view.format == ("B" if name in others else expected_format(kind))
            assert numpy.frombuffer(buffer, kind).tobytes() == data


def expected_format(kind: Any) -> str:
    array: Any = numpy.zeros(1, kind)
    return memoryview(array).format.replace("l", "q").replace("L", "Q")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("sector_size", [512, 4096])
def test_any_bytes_are_read(tmp_path: Path, sector_size: int, device: str) -> None:
    path = encrypted(tmp_path / "volume", PLAIN, sector_size=sector_size)
    read: dict[str, Any] = {"passphrase": PASSPHRASE, "device": device}
    chance = random.Random(1)
    ranges = [(0, SIZE), (SIZE, 0), (SIZE - 1, 1), (0, 0), (1, 4096), (4095, 2), (4096, 4096)]
    ranges += [(at := chance.randrange(SIZE), chance.randrange(SIZE - at)) for _ in range(4)]
    for at, size in ranges:
        tensor = luxor.gpu.read(path, at, size, **read)
        assert (tensor.dtype, tensor.shape, len(tensor)) == ("uint8", (size,), size)
        assert content(tensor) == PLAIN[at : at + size]
    assert content(luxor.gpu.read(path, 99_000, **read)) == PLAIN[99_000:]
    beyond: list[tuple[int, int | None]] = [(0, SIZE + 1), (SIZE, 1), (SIZE + 1, None)]
    for offset, length in [*beyond, (2**64 - 1, 1)]:
        with pytest.raises(ValueError, match="not within the 100001 bytes"):
            luxor.gpu.read(path, offset, length, **read)
    for offset, length in [(-1, 1), (0, -1)]:
        with pytest.raises(ValueError, match="not be negative"):
            luxor.gpu.read(path, offset, length, **read)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_volume_may_be_a_part_or_have_its_header_elsewhere(tmp_path: Path, device: str) -> None:
    options: dict[str, Any] = {"passphrase": PASSPHRASE, "device": device}
    volume = encrypted(tmp_path / "volume", PLAIN).read_bytes()
    larger = tmp_path / "larger"
    larger.write_bytes(bytes(3 * 512) + volume)
    assert content(luxor.gpu.read(larger, 5, 5000, volume_offset=1536, **options)) == PLAIN[5:5005]
    data, header = tmp_path / "data", tmp_path / "header"
    luxor.create(data, 64 << 10, header=header, passphrase=PASSPHRASE, **CHEAP)
    luxor.gpu.write(data, PLAIN[: 64 << 10], header=header, passphrase=PASSPHRASE)
    assert content(luxor.gpu.read(data, header=header, **options)) == PLAIN[: 64 << 10]
    key = os.urandom(64)
    plain = luxor.PlainVolume(key_size=512, sector_size=4096)
    (tmp_path / "plain").write_bytes(bytes(8192))
    luxor.gpu.write(tmp_path / "plain", b"text", 4094, volume_key=key, format=plain)
    found = luxor.gpu.read(tmp_path / "plain", 4094, 4, volume_key=key, format=plain, device=device)
    assert content(found) == b"text"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("resilience", ["checksum", "journal"])
def test_a_volume_in_the_middle_of_a_reencryption_is_read(
    tmp_path: Path, cryptsetup: Callable[..., str], device: str, resilience: str
) -> None:
    path = tmp_path / "volume"
    size = 4 << 20
    luxor.create(path, size, passphrase=PASSPHRASE, **CHEAP)
    plain = random.Random(2).randbytes(size)
    with luxor.open(path, "r+b", passphrase=PASSPHRASE) as disk:
        disk.write(plain)
    command = [
        "cryptsetup", "reencrypt", "--batch-mode", "--force-offline-reencrypt", "--hotzone-size",
        "1M", "--resilience", resilience, "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000",
        "--key-file", "-", str(path),
    ]  # fmt: skip

    def stop_after_two_mebibytes() -> None:
        limit = (16 << 20) + (2 << 20)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        command, input=PASSPHRASE, text=True, preexec_fn=stop_after_two_mebibytes, check=False
    )
    assert done.returncode != 0
    # Finishes only the part on which it was interrupted.
    cryptsetup("repair", path)
    segments = luxor.Volume(path).dump()["segments"]
    assert 0 < int(segments["0"]["size"]) < size
    for begin in [0, (2 << 20) - 9000, (3 << 20) - 9000, size - 20_000]:
        found = luxor.gpu.read(path, begin, 20_000, passphrase=PASSPHRASE, device=device)
        assert content(found) == plain[begin : begin + 20_000], begin


def test_the_cpu_decrypts_for_a_gpu_if_its_engine_is_named(weights: Path) -> None:
    run("""import test_gpu_loading as t
t.call("luxor_fail", b"cuLaunchKernel", t.ctypes.c_size_t(0), t.ctypes.c_uint32(701))
options = {"passphrase": t.PASSPHRASE, "device": "cuda"}
assert t.content(t.luxor.gpu.read("weights", engine="portable", **options)) == t.FILE
with t.pytest.raises(t.luxor.Error):
    t.luxor.gpu.read("weights", **options)
""")


def test_objects_are_read_like_files() -> None:
    stored = io.BytesIO()
    luxor.encrypt(io.BytesIO(PLAIN), stored, passphrase=PASSPHRASE, **CHEAP)
    for device in ["cpu", "cuda"]:
        found = luxor.gpu.read(stored, 100, 1000, passphrase=PASSPHRASE, device=device)
        assert content(found) == PLAIN[100:1100]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_gpus_read_past_the_page_cache_where_the_system_permits_it(
    weights: Path, device: str
) -> None:
    try:
        os.close(os.open(weights, os.O_RDONLY | os.O_DIRECT))
        permits = True
    except OSError:
        permits = False
    found = []
    with luxor.gpu._opened(weights, device, luxor.gpu._checked({"passphrase": PASSPHRASE}), None, True):
        for descriptor in Path("/proc/self/fd").iterdir():
            if descriptor.exists() and descriptor.resolve() == weights:
                status = Path(f"/proc/self/fdinfo/{descriptor.name}").read_text()
                flags = dict(line.split(":", 1) for line in status.splitlines())["flags"]
                found.append(bool(int(flags, 8) & os.O_DIRECT))
    assert any(found) == (permits and device == "cuda")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_urls_of_fsspec_are_read(tmp_path: Path, device: str) -> None:
    memory = fsspec.filesystem("memory")
    url = f"memory://{tmp_path.name}/weights"
    memory.pipe_file(url, encrypted(tmp_path / "weights", FILE).read_bytes())
    (tmp_path / "key").write_text(PASSPHRASE)
    luks = {"key_file": tmp_path / "key"}
    volumes: list[tuple[str, dict[str, Any]]] = [
        (url, {"passphrase": PASSPHRASE}),
        (url, {"key_file": str(tmp_path / "key"), "storage_options": {}}),
        (f"file://{tmp_path}/weights", {"passphrase": PASSPHRASE}),
        (f"luks::{url}", {"storage_options": luks}),
        (f"luks::{url}", {"storage_options": {"luks": luks}}),
        (f"luks::{url}", {"storage_options": {"key": KeyFile(tmp_path / "key")}}),
        (f"luks::{url}", {"passphrase": PASSPHRASE}),
    ]
    for file, options in volumes:
        loaded = luxor.gpu.load_safetensors(file, device=device, **options)
        assert {name: content(tensor) for name, tensor in loaded.items()} == {
            name: array.tobytes() for name, array in TENSORS.items()
        }
    assert luks == {"key_file": tmp_path / "key"}
    with pytest.raises(TypeError, match="exactly one"):
        luxor.gpu.read(url)
    with pytest.raises(luxor.WrongPassphrase):
        luxor.gpu.read(url, passphrase="wrong")
    with pytest.raises(FileNotFoundError):
        luxor.gpu.read(f"memory://{tmp_path.name}/absent", passphrase="wrong")
    with pytest.raises(TypeError, match="are for URLs"):
        luxor.gpu.read(tmp_path / "weights", passphrase="x", storage_options={})


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_url_may_name_a_part_or_data_with_a_header_elsewhere(tmp_path: Path, device: str) -> None:
    memory = fsspec.filesystem("memory")
    options: dict[str, Any] = {"passphrase": PASSPHRASE, "device": device}
    volume = encrypted(tmp_path / "volume", PLAIN).read_bytes()
    url = f"memory://{tmp_path.name}/part"
    memory.pipe_file(url, bytes(1024) + volume)
    assert content(luxor.gpu.read(url, 5, 5000, volume_offset=1024, **options)) == PLAIN[5:5005]
    header = tmp_path / "header"
    luxor.create(tmp_path / "data", 8192, header=header, passphrase=PASSPHRASE, **CHEAP)
    luxor.gpu.write(tmp_path / "data", PLAIN[:8192], header=header, passphrase=PASSPHRASE)
    memory.pipe_file(url, (tmp_path / "data").read_bytes())
    assert content(luxor.gpu.read(url, header=header, **options)) == PLAIN[:8192]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_ranges_of_an_object_are_read_at_the_same_time(tmp_path: Path, device: str) -> None:
    stored = encrypted(tmp_path / "volume", FILE).read_bytes()
    # A read alone would wait for the other one in vain.
    both = threading.Barrier(2, timeout=60)

    class Object:
        name = "object"
        reads = 0

        def __len__(self) -> int:
            return len(stored)

        def read_at(self, size: int, offset: int) -> bytes:
            if offset >= 16 << 20:
                self.reads += 1
                # After the header of the file.
                if self.reads > 1:
                    both.wait()
            return stored[offset : offset + size]

    names = ["model.embed", "half"]
    loaded = luxor.gpu.load_safetensors(Object(), names, passphrase=PASSPHRASE, device=device)
    assert content(loaded["half"]) == TENSORS["half"].tobytes()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_objects_in_s3_are_read_by_ranges(
    faulty_s3: FaultyS3, bucket: Bucket, tmp_path: Path, device: str
) -> None:
    luks2_keyslots_size = 512 << 10
    plain = random.Random(3).randbytes(5 << 20)
    path = encrypted(tmp_path / "volume", plain, luks2_keyslots_size=luks2_keyslots_size)
    bucket.put("volume", path.read_bytes())
    url, options = faulty_s3.bucket.url("volume"), {"s3": faulty_s3.bucket.options}
    faulty_s3.clear()
    found = luxor.gpu.read(
        f"luks::{url}", (4 << 20) + 5, 30_000, device=device, passphrase=PASSPHRASE,
        storage_options=options,
    )  # fmt: skip
    assert content(found) == plain[(4 << 20) + 5 :][:30_000]
    ranges = [request.range for request in faulty_s3.requests if request.range]
    # The header, and the whole sectors.
    begin = (544 << 10) + (4 << 20)
    assert ranges == [(0, 4 << 20), (begin, begin + (32 << 10))]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_neighbours_in_an_object_are_one_range(tmp_path: Path, device: str) -> None:
    class Object:
        name = "object"
        ranges: list[tuple[int, int]] = []

        def __len__(self) -> int:
            return len(stored)

        def read_at(self, size: int, offset: int) -> bytes:
            self.ranges.append((size, offset))
            return stored[offset : offset + size]

    stored = encrypted(tmp_path / "volume", FILE).read_bytes()
    loaded = luxor.gpu.load_safetensors(Object(), device=device, passphrase=PASSPHRASE)
    assert content(loaded["counts"]) == TENSORS["counts"].tobytes()
    data = [(size, offset) for size, offset in Object.ranges if offset >= 16 << 20]
    # The header of the file, and all tensors.
    assert len(data) == 2


def test_a_device_must_be_there(weights: Path) -> None:
    read: dict[str, Any] = {"passphrase": PASSPHRASE, "length": 5}
    assert luxor.gpu.read(weights, **read).device == "cuda:0"
    assert luxor.gpu.read(weights, device="cuda", **read).device == "cuda:0"
    with pytest.raises(luxor.Error, match="there is no GPU 2"):
        luxor.gpu.read(weights, device="cuda:2", **read)
    for name in ["", "gpu", "cuda:", "cuda:x", "cuda1", "cpu:0", 1]:
        with pytest.raises(ValueError, match="none of cpu, cuda and cuda:N"):
            luxor.gpu.read(weights, device=name, **read)


def test_without_a_gpu_the_tensors_are_in_the_memory_of_the_computer(
    weights: Path, tmp_path: Path
) -> None:
    program = f"""import luxor.gpu, numpy
tensors = luxor.gpu.load_safetensors({str(weights)!r}, passphrase={PASSPHRASE!r})
for name, tensor in tensors.items():
    assert tensor.device == "cpu", tensor
    numpy.save(name, numpy.from_dlpack(tensor))
for device in ["cuda", "cuda:0"]:
    try:
        luxor.gpu.read({str(weights)!r}, passphrase={PASSPHRASE!r}, device=device)
    except luxor.Error as error:
        assert "no GPU can be used" in str(error), error
    else:
        raise AssertionError(device)
"""
    # The second one hides GPUs from a driver that the system has.
    run(program, LD_LIBRARY_PATH=None, CUDA_VISIBLE_DEVICES="")
    for name, expected in TENSORS.items():
        assert numpy.array_equal(numpy.load(tmp_path / f"{name}.npy"), expected)


def test_views_share_memory_that_is_freed_with_the_last(weights: Path) -> None:
    luxor.gpu.read(weights, 0, 1, passphrase=PASSPHRASE)
    before = memories()
    loaded = luxor.gpu.load_safetensors(weights, passphrase=PASSPHRASE)
    one = loaded["counts"]
    assert memories()[0] == before[0] + 1
    capsules = [one.__dlpack__(), one.__dlpack__(max_version=(1, 0), stream=1)]
    interface = one.__cuda_array_interface__
    del loaded, one
    assert memories()[0] == before[0] + 1
    shared = Memory.__new__(Memory)
    shared.address, shared.len = interface["data"][0], TENSORS["counts"].nbytes
    assert shared.read() == TENSORS["counts"].tobytes()
    # The emulated driver ends the program when memory is freed that is not wiped.
    capsules.pop()
    assert memories()[0] == before[0] + 1
    capsules.pop()
    assert memories() == before


def test_a_tensor_that_was_handed_over_is_freed_without_the_interpreter(weights: Path) -> None:
    luxor.gpu.read(weights, 0, 1, passphrase=PASSPHRASE)
    before = memories()
    for kind, name, version in [
        (DLManagedTensor, b"dltensor", None),
        (DLManagedTensor, b"dltensor", (0, 8)),
        (DLManagedTensorVersioned, b"dltensor_versioned", (1, 0)),
        (DLManagedTensorVersioned, b"dltensor_versioned", (2, 7)),
    ]:
        tensor = luxor.gpu.read(weights, 0, 1000, passphrase=PASSPHRASE, device="cuda")
        capsule = tensor.__dlpack__(max_version=version)
        address = pointer(capsule, name)
        used = ctypes.create_string_buffer(b"used_" + name)
        rename = ctypes.pythonapi.PyCapsule_SetName
        rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
        assert rename(capsule, used) == 0
        del tensor, capsule
        assert memories()[0] == before[0] + 1
        managed: Any = kind.from_address(address)
        if isinstance(managed, DLManagedTensorVersioned):
            assert (managed.major, managed.flags) == (1, 0)
        # Functions of this kind run without the GIL.
        delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)
        thread = threading.Thread(target=delete, args=(address,))
        thread.start()
        thread.join()
        assert memories() == before


def test_memory_of_the_computer_is_shared_without_a_copy(weights: Path) -> None:
    loaded = luxor.gpu.load_safetensors(weights, passphrase=PASSPHRASE, device="cpu")
    tensor = loaded["counts"]
    buffer: Any = tensor
    address = tensor.__array_interface__["data"][0]
    arrays = [
        numpy.from_dlpack(tensor),
        numpy.from_dlpack(tensor, copy=False, device="cpu"),
        numpy.asarray(tensor),
        numpy.frombuffer(buffer, numpy.int32).reshape(10, 20, 30),
    ]
    del tensor, buffer, loaded
    gc.collect()
    arrays[0][1, 2, 3] = -77
    for array in arrays:
        assert array.__array_interface__["data"][0] == address
        assert array[1, 2, 3] == -77 and array[9, 19, 29] == 2999
        assert array.flags.writeable


def test_a_copy_is_made_only_on_request(weights: Path) -> None:
    for device in ["cpu", "cuda"]:
        tensor = luxor.gpu.read(weights, 0, 100, passphrase=PASSPHRASE, device=device)
        copy = numpy.from_dlpack(tensor, device="cpu", copy=True)
        assert copy.tobytes() == FILE[:100] == content(tensor)
        capsule = tensor.__dlpack__(dl_device=(1, 0), copy=True, max_version=(1, 0))
        address = pointer(capsule, b"dltensor_versioned")
        assert DLManagedTensorVersioned.from_address(address).flags == 2
    refused: list[dict[str, Any]] = [
        {"dl_device": (1, 0), "copy": False},
        {"dl_device": (CUDA, 1)},
        {"copy": True},
    ]
    for arguments in refused:
        with pytest.raises(BufferError):
            tensor.__dlpack__(**arguments)


def test_a_tensor_describes_itself(weights: Path) -> None:
    for device in ["cpu", "cuda:1"]:
        loaded = luxor.gpu.load_safetensors(weights, passphrase=PASSPHRASE, device=device)
        assert isinstance(loaded["half"], luxor.gpu.Tensor)
        assert repr(loaded["half"]) == f"<luxor.gpu.Tensor float16 (3, 5) on {device}>"
        assert [len(loaded[name]) for name in ["half", "bias", "empty"]] == [3, 7, 4]
        with pytest.raises(TypeError, match="without dimensions"):
            len(loaded["scalar"])
        view = "__array_interface__" if device == "cpu" else "__cuda_array_interface__"
        other = "__array_interface__" if device != "cpu" else "__cuda_array_interface__"
        interface = getattr(loaded["half"], view)
        assert not hasattr(loaded["half"], other)
        assert (interface["shape"], interface["typestr"], interface["version"]) == ((3, 5), "<f2", 3)
    with pytest.raises(BufferError, match="on cuda:1"):
        memoryview(loaded["half"])


def test_a_fork_has_neither_gpu_nor_tensors(weights: Path) -> None:
    options: dict[str, Any] = {"passphrase": PASSPHRASE, "length": 100}
    tensor = luxor.gpu.read(weights, **options)
    host = luxor.gpu.read(weights, device="cpu", **options)

    def lost(call: Callable[[], object]) -> bool:
        try:
            call()
        except luxor.KeyLostInFork:
            return True
        return False

    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(60)
            again = luxor.gpu.read(weights, device="cpu", **options)
            calls: list[Callable[[], object]] = [
                lambda: luxor.gpu.read(weights, **options),
                lambda: luxor.gpu.read(weights, device="cuda:1", **options),
                lambda: tensor.__dlpack__(),
                lambda: tensor.__dlpack__(dl_device=(1, 0)),
                lambda: tensor.__cuda_array_interface__,
            ]
            if content(host) == content(again) == FILE[:100] and all(map(lost, calls)):
                del tensor
                gc.collect()
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert content(tensor) == content(host) == FILE[:100]


class Raising(io.BytesIO):
    """A volume whose data cannot be read for the second time."""

    def __init__(self, data: bytes, error: BaseException) -> None:
        super().__init__(data)
        self.error, self.reads = error, 0

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() >= 16 << 20:
            self.reads += 1
            if self.reads == 2:
                raise self.error
        return super().read(size)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), asyncio.CancelledError(), OSError(errno.EIO, "it failed")]
)
def test_a_failed_load_leaves_nothing(
    tmp_path: Path, device: str, error: BaseException
) -> None:
    # Parts far from each other are read one by one.
    tensors = {f"{n:02}": numpy.full(5000, n, dtype="u1") for n in range(40)}
    path = encrypted(tmp_path / "volume", safetensors.numpy.save(tensors))
    options: dict[str, Any] = {"passphrase": PASSPHRASE, "device": device}
    some = list(tensors)[::4]
    luxor.gpu.load_safetensors(path, some, **options)
    before = memories()
    file = Raising(path.read_bytes(), error)
    with pytest.raises(luxor.FileError if isinstance(error, OSError) else type(error)) as raised:
        luxor.gpu.load_safetensors(file, some, **options)
    if isinstance(error, OSError):
        assert raised.value.__cause__ is error
        assert isinstance(raised.value, OSError) and raised.value.errno == errno.EIO
    # Those that were under way.
    assert file.reads <= 5
    del raised
    assert memories()[0] <= before[0]
    loaded = luxor.gpu.load_safetensors(path, some, **options)
    assert content(loaded["36"]) == tensors["36"].tobytes()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_signal_ends_a_load_soon(tmp_path: Path, device: str) -> None:
    stored = encrypted(tmp_path / "volume", FILE).read_bytes()
    ended = threading.Event()

    class Slow:
        name = "slow"
        reads = 0

        def __len__(self) -> int:
            return len(stored)

        def read_at(self, size: int, offset: int) -> bytes:
            if offset >= 16 << 20:
                self.reads += 1
                if self.reads == 2:
                    signal.raise_signal(signal.SIGINT)
                    # What is under way ends with this.
                    assert ended.wait(60)
            return stored[offset : offset + size]

    file = Slow()
    names = ["model.embed", "counts"]
    with pytest.raises(KeyboardInterrupt):
        luxor.gpu.load_safetensors(file, names, passphrase=PASSPHRASE, device=device)
    ended.set()
    # One for the header.
    assert file.reads <= 3


def lose_a_gpu(path: str, function: bytes, before: int, code: int, expected: str) -> None:
    options: dict[str, Any] = {"passphrase": PASSPHRASE, "device": "cuda"}
    luxor.gpu.read(path, 0, 100, **options)
    with_queues = memories()
    call("luxor_fail", function, ctypes.c_size_t(before), ctypes.c_uint32(code))
    with pytest.raises(luxor.Error) as raised:
        luxor.gpu.load_safetensors(path, **options)
    assert type(raised.value).__name__ == expected, raised.value
    assert not isinstance(raised.value, OSError)
    del raised
    if code in (700, 719):
        with pytest.raises(luxor.Error):
            luxor.gpu.read(path, **options)
        call("luxor_recover")
    else:
        assert memories()[0] <= with_queues[0]
    # The GPUs are opened anew where one was lost.
    loaded = luxor.gpu.load_safetensors(path, **options)
    assert content(loaded["counts"]) == TENSORS["counts"].tobytes()
    on_the_cpu = luxor.gpu.read(path, passphrase=PASSPHRASE, device="cpu")
    assert content(on_the_cpu) == FILE


@pytest.mark.parametrize(
    ("function", "before", "code", "expected"),
    [
        (b"cuMemAlloc_v2", 0, 2, "OutOfMemory"),
        # While the key is loaded, and after that.
        (b"cuMemcpyHtoDAsync_v2", 0, 700, "Error"),
        (b"cuMemcpyHtoDAsync_v2", 2, 700, "Error"),
        (b"cuLaunchKernel", 0, 701, "Error"),
        (b"cuLaunchKernel", 1, 719, "Error"),
        (b"cuMemcpyDtoDAsync_v2", 3, 700, "Error"),
        (b"cuStreamSynchronize", 2, 719, "Error"),
    ],
)
def test_a_gpu_that_fails_or_is_lost_is_an_exception(
    weights: Path, function: bytes, before: int, code: int, expected: str
) -> None:
    arguments = (str(weights), function, before, code, expected)
    run(f"import test_gpu_loading as t\nt.lose_a_gpu(*{arguments!r})")


@pytest.mark.parametrize("kind", ["dlpack", "cuda", "own", "numpy", "bfloat16", "own cpu"])
@pytest.mark.parametrize("sector_size", [512, 4096])
def test_what_was_written_is_read(tmp_path: Path, kind: str, sector_size: int) -> None:
    path = encrypted(tmp_path / "volume", PLAIN, sector_size=sector_size)
    new = random.Random(4).randbytes(20_006)
    own = encrypted(tmp_path / "other", new)
    tensors: dict[str, Callable[[], Any]] = {
        "dlpack": lambda: Array(Memory(new, 1), device=(CUDA, 1)),
        "cuda": lambda: CudaArray(new, shape=(10_003,), typestr="<u2"),
        "own": lambda: luxor.gpu.read(own, passphrase=PASSPHRASE, device="cuda:1"),
        "numpy": lambda: numpy.frombuffer(new, "<i2").reshape(7, 1429),
        "bfloat16": lambda: numpy.frombuffer(new, ml_dtypes.bfloat16),
        "own cpu": lambda: luxor.gpu.read(own, passphrase=PASSPHRASE, device="cpu"),
    }
    luxor.gpu.write(path, tensors[kind](), 5001, passphrase=PASSPHRASE)
    expected = PLAIN[:5001] + new + PLAIN[25_007:]
    with luxor.open(path, passphrase=PASSPHRASE) as disk:
        assert disk.read() == expected
    assert content(luxor.gpu.read(path, 4000, 30_000, passphrase=PASSPHRASE)) == expected[4000:34000]
    with pytest.raises(OSError, match="ends at byte 100001") as raised:
        luxor.gpu.write(path, tensors[kind](), SIZE - 20_005, passphrase=PASSPHRASE)
    assert raised.value.errno == errno.ENOSPC
    with luxor.open(path, passphrase=PASSPHRASE) as disk:
        assert disk.read() == expected


def test_an_empty_tensor_is_written(tmp_path: Path) -> None:
    path = encrypted(tmp_path / "volume", PLAIN)
    tensors: list[Any] = [CudaArray(b"", data=(0, False)), Array(b""), numpy.zeros((0, 3))]
    for empty in tensors:
        luxor.gpu.write(path, empty, 5, passphrase=PASSPHRASE)
    with luxor.open(path, passphrase=PASSPHRASE) as disk:
        assert disk.read() == PLAIN


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    path = encrypted(tmp_path / "volume", PLAIN)
    memory = Memory(bytes(100))
    refused: list[tuple[Any, Any, type[Exception], str]] = [
        ("memory://volume", CudaArray(memory), ValueError, "not at a URL"),
        (path, Array(memory, device=(CUDA, 7)), ValueError, "cannot use GPU 7"),
        (path, CudaArray(memory, data=(4096, False)), ValueError, "on no GPU"),
        (path, CudaArray(memory, shape=(5000,)), luxor.Error, "cannot use 5000 bytes"),
        (path, CudaArray(memory, strides=(2,)), BufferError, "not contiguous"),
        (path, object(), TypeError, "a bytes-like object"),
    ]
    for file, tensor, kind, text in refused:
        with pytest.raises(kind, match=text):
            luxor.gpu.write(file, tensor, passphrase=PASSPHRASE)
    with luxor.open(path, passphrase=PASSPHRASE) as disk:
        assert disk.read() == PLAIN


def test_work_on_a_stream_comes_first(weights: Path) -> None:
    data = os.urandom(1024)
    xts = luxor.XTS(bytes(range(64)))
    held = ctypes.c_size_t(0x79)
    call("luxor_hold_stream", held)
    array = CudaArray(data)
    xts.encrypt_cuda(array, stream=0x79)
    assert array.memory.read() == data
    luxor.gpu.read(weights, 0, 10, passphrase=PASSPHRASE, device="cuda", stream=0x79)
    assert array.memory.read() == xts.encrypt(data)

    path = encrypted(Path("volume"), bytes(1024))
    array = CudaArray(data, stream=0x7A)
    for stream in [0x79, 0x7A]:
        call("luxor_hold_stream", ctypes.c_size_t(stream))
    xts.encrypt_cuda(CudaArray(array.memory), stream=0x7A)
    other = CudaArray(data)
    xts.encrypt_cuda(other, stream=0x79)
    luxor.gpu.write(path, array, stream=0x79, passphrase=PASSPHRASE)
    assert other.memory.read() == xts.encrypt(data)
    assert content(luxor.gpu.read(path, passphrase=PASSPHRASE)) == xts.encrypt(data)


def test_the_current_context_stays(weights: Path) -> None:
    context = ctypes.c_void_p()
    for before in [None, 2]:
        call("cuCtxSetCurrent", ctypes.c_void_p(before))
        tensor = luxor.gpu.read(weights, 0, 600, passphrase=PASSPHRASE, device="cuda:0")
        luxor.gpu.write(weights, tensor, passphrase=PASSPHRASE)
        content(tensor)
        del tensor
        call("cuCtxGetCurrent", ctypes.byref(context))
        assert context.value == before


def test_several_threads_load_at_once(weights: Path) -> None:
    found = []

    def load(device: str) -> None:
        loaded = luxor.gpu.load_safetensors(weights, passphrase=PASSPHRASE, device=device)
        found.append(content(loaded["model.embed"]))

    threads = [threading.Thread(target=load, args=(device,)) for device in [*DEVICES, "cuda"]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [TENSORS["model.embed"].tobytes()] * 4
