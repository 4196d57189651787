# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measure how fast files of safetensors become tensors in the memory of this machine.

    pip install ./bindings/python numpy safetensors torch fastsafetensors
    python bench/loading.py [FOLDER]

The files are in FOLDER, by default the current one: 0.5 GiB in plaintext, and the same encrypted. All loaders
alternate in one run, in another order in each round. After each load all bytes are compared. torch and
fastsafetensors may be absent. Before a load with a cold page cache the file is written out and dropped from the
cache.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import luxor
import luxor.gpu
import numpy
import safetensors.numpy

ROUNDS = 7
LAYERS = 32
KEY: dict[str, Any] = {"passphrase": "x"}
#: Derived in a millisecond, so that the data are measured.
CHEAP: dict[str, Any] = {"pbkdf": "pbkdf2", "pbkdf_force_iterations": 1000}

#: What a loader returns, and arrays over the same memory.
Arrays = Mapping[str, Any]


def model() -> dict[str, Any]:
    """Return tensors like those of a language model, 0.5 GiB in all."""
    chance = numpy.random.default_rng(1)
    tensors: dict[str, Any] = {}
    for layer in range(LAYERS):
        weight = chance.integers(0, 1 << 15, (2048, 4096), dtype="u2")
        tensors[f"layer.{layer}.weight"] = weight.view("f2")
        tensors[f"layer.{layer}.bias"] = chance.random(4096, dtype="f4")
    return tensors


@dataclass
class Loader:
    """One of what is compared: `load` returns something, of which `arrays` makes arrays."""

    name: str
    path: Path
    load: Callable[[], Any]
    arrays: Callable[[Any], Arrays]
    rates: dict[str, list[float]] = field(default_factory=dict)


def of_luxor(tensors: Any) -> Arrays:
    return {name: numpy.from_dlpack(tensor) for name, tensor in tensors.items()}


def of_torch(tensors: Any) -> Arrays:
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def loaders(plain: Path, volume: Path) -> list[Loader]:
    def decrypted_first() -> Arrays:
        with tempfile.TemporaryDirectory(dir=plain.parent) as folder:
            file = Path(folder) / "plain"
            luxor.decrypt(volume, file, **KEY)
            return safetensors.numpy.load_file(file)

    def through_a_file_object() -> Arrays:
        with luxor.open(volume, **KEY) as file:
            return safetensors.numpy.load(file.read())

    all_loaders = [
        Loader(
            "plaintext, `luxor.gpu.load_safetensors(encrypted=False)`",
            plain,
            lambda: luxor.gpu.load_safetensors(plain, device="cpu", encrypted=False),
            of_luxor,
        ),
        Loader(
            "encrypted, `luxor.gpu.load_safetensors`",
            volume,
            lambda: luxor.gpu.load_safetensors(volume, device="cpu", **KEY),
            of_luxor,
        ),
        Loader(
            "plaintext, `safetensors.numpy.load_file`",
            plain,
            lambda: safetensors.numpy.load_file(plain),
            dict,
        ),
        Loader(
            "encrypted, `luxor.decrypt` to a file, then `safetensors.numpy.load_file`",
            volume,
            decrypted_first,
            dict,
        ),
        Loader(
            "encrypted, `luxor.open`, then `safetensors.numpy.load`",
            volume,
            through_a_file_object,
            dict,
        ),
    ]
    try:
        import safetensors.torch
    except ImportError:
        return all_loaders

    def cloned() -> Any:
        # The loader maps the file, and reads nothing.
        mapped = safetensors.torch.load_file(plain)
        return {name: tensor.clone() for name, tensor in mapped.items()}

    all_loaders.append(
        Loader("plaintext, `safetensors.torch.load_file`, each `clone()`", plain, cloned, of_torch)
    )
    try:
        from fastsafetensors import fastsafe_open
    except ImportError:
        return all_loaders

    def fast() -> Any:
        with fastsafe_open(str(plain), device="cpu", nogds=True) as file:
            return {name: file.get_tensor(name) for name in file.keys()}

    all_loaders.append(Loader("plaintext, `fastsafetensors.fastsafe_open`", plain, fast, of_torch))
    return all_loaders


def prepare(path: Path, cache: str) -> None:
    """Drop a file from the page cache, or read it into the cache."""
    with path.open("rb", buffering=0) as file:
        os.fsync(file.fileno())
        if cache == "cold":
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        else:
            piece = bytearray(1 << 20)
            while file.readinto(piece):
                pass


def check(found: Arrays, expected: Arrays, name: str) -> None:
    assert found.keys() == expected.keys(), name
    for tensor, array in expected.items():
        same = numpy.array_equal(found[tensor].view("u1"), array.view("u1"))
        assert same and found[tensor].dtype == array.dtype, (name, tensor)


def measure(folder: Path) -> None:
    expected = model()
    size = sum(array.nbytes for array in expected.values())
    plain, volume = folder / "plain.safetensors", folder / "volume.luks"
    safetensors.numpy.save_file(expected, plain)
    luxor.encrypt(plain, volume, **KEY, **CHEAP)
    contestants, chance = loaders(plain, volume), random.Random(1)
    for number in range(ROUNDS + 1):
        for cache in ("cold", "warm"):
            # The memory that one has freed is new to the next one, so none always follows the same.
            for loader in chance.sample(contestants, len(contestants)):
                prepare(loader.path, cache)
                begun = time.perf_counter()
                loaded = loader.load()
                rate = size / (time.perf_counter() - begun) / 1e9
                check(loader.arrays(loaded), expected, loader.name)
                del loaded
                # The first round makes memory and caches ready.
                if number > 0:
                    loader.rates.setdefault(cache, []).append(rate)
    for cache in ("cold", "warm"):
        print(f"\n| {cache} page cache: file, loader | GB/s | of the first |")
        print("|---|---|---|")
        base = contestants[0].rates[cache]
        for loader in contestants:
            rates = loader.rates[cache]
            low, median, high = statistics.quantiles(rates)
            ratios = [rate / of_plain for rate, of_plain in zip(rates, base, strict=True)]
            of_base = f"{statistics.median(ratios):.2f}"
            print(f"| {loader.name} | {median:.2f} ({low:.2f} - {high:.2f}) | {of_base} |")


def main() -> None:
    packages = ["numpy", "safetensors", "torch", "fastsafetensors"]
    versions = []
    for package in packages:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {package}")
    print(f"{luxor.XTS(bytes(range(64)))}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(", ".join(versions))
    parent = sys.argv[1] if len(sys.argv) > 1 else "."
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        measure(Path(folder))


if __name__ == "__main__":
    main()
