# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measure volumes in object storage on this machine, and model clusters from the measured costs.

    go install github.com/versity/versitygw/cmd/versitygw@v1.7.0
    pip install './bindings/python[s3,ray]'
    python bench/clusters.py $(go env GOPATH)/bin/versitygw [FOLDER]

The server's objects are in FOLDER, by default /dev/shm: about 3 GiB. What is compared alternates in
one run, and the results are checked. The last table is a model: it says what it assumes.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import luxor.distributed
import luxor.ray
import ray
import ray.data
from luxor.keys import KeyFile
from luxor.luksfs import LuksFileSystem

ROUNDS = 7
MIB = 1 << 20
#: The object that is read in order.
LARGE = 512 * MIB
#: The volumes of the job in Ray, and the length of each.
COUNT, SMALL = 64, 16 * MIB
CHEAP: dict[str, Any] = {"pbkdf": "pbkdf2", "pbkdf_force_iterations": 1000}


@contextmanager
def server(program: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Run the S3 server, and yield the options of s3fs for it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = "127.0.0.1:{}".format(free.getsockname()[1])
    key, secret = secrets.token_hex(8), secrets.token_hex(16)
    environment = {**os.environ, "ROOT_ACCESS_KEY": key, "ROOT_SECRET_KEY": secret}
    (folder / "metadata").mkdir()
    (folder / "objects").mkdir()
    storage = ["posix", "--sidecar", folder / "metadata", folder / "objects"]
    command = [program, "--quiet", "--port", address, "--region", "eu-central-1", *storage]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://{address}")
            except urllib.error.HTTPError:
                break
            except OSError:
                time.sleep(0.05)
        client = {"endpoint_url": f"http://{address}", "region_name": "eu-central-1"}
        yield {"key": key, "secret": secret, "client_kwargs": client}
    finally:
        process.terminate()
        process.wait()


def seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def alternate(*calls: Callable[[], object]) -> list[list[float]]:
    """Call each of them in turn. Return the seconds of all rounds."""
    times: list[list[float]] = [[] for _ in calls]
    for number in range(ROUNDS + 1):
        for taken, call in zip(times, calls, strict=True):
            each = seconds(call)
            # The first round fills caches and derives keys.
            if number > 0:
                taken.append(each)
    return times


def ratio(plain: list[float], encrypted: list[float]) -> float:
    """Return the rate on encrypted data, of that on the plaintext: the median over the rounds."""
    return statistics.median(a / b for a, b in zip(plain, encrypted, strict=True))


@dataclass
class Storage:
    """A bucket, and the key of its volumes."""

    options: dict[str, Any]
    key: KeyFile

    @property
    def fs(self) -> Any:
        return fsspec.filesystem("s3", **self.options)

    def encrypt(self, source: str, target: str, **options: Any) -> None:
        luxor.distributed.encrypt(
            f"s3://bucket/{source}",
            f"s3://bucket/{target}",
            key=self.key,
            source_options=self.options,
            target_options=self.options,
            force=True,
            **CHEAP,
            **options,
        )


def reading(storage: Storage) -> None:
    """The same code reads an object and the plaintext of a volume."""
    plain = os.urandom(LARGE)
    storage.fs.pipe_file("bucket/large", plain)
    storage.encrypt("large", "large.luks")
    volumes = LuksFileSystem(fs=storage.fs, key=storage.key, skip_instance_cache=True)
    assert volumes.cat_file("bucket/large.luks") == plain
    del plain
    print(f"\n| reading {LARGE // MIB} MiB in order, calls of 1 MiB | MB/s | of the plaintext |")
    print("|---|---|---|")

    def read(fs: Any, path: str, block_size: int | None) -> Callable[[], None]:
        def read_all() -> None:
            with fs.open(path, "rb", block_size=block_size) as file:
                while file.read(MIB):
                    pass

        return read_all

    for block in (None, 5 * MIB, 16 * MIB):
        taken = alternate(
            read(storage.fs, "bucket/large", block), read(volumes, "bucket/large.luks", block)
        )
        rates = [LARGE / statistics.median(times) / 1e6 for times in taken]
        name = "default blocks" if block is None else f"blocks of {block // MIB} MiB"
        print(f"| plaintext, {name} | {rates[0]:.0f} | 1 |")
        print(f"| `luks::`, {name} | {rates[1]:.0f} | {ratio(*taken):.2f} |")

    offsets = [int.from_bytes(os.urandom(4)) % (LARGE // 4096) * 4096 for _ in range(100)]
    plain_file = storage.fs.open("bucket/large", cache_type="none", block_size=4096)
    volume = volumes.open("bucket/large.luks", cache_type="none")

    def read_plain() -> None:
        for offset in offsets:
            plain_file.seek(offset)
            plain_file.read(4096)

    taken = alternate(read_plain, lambda: [volume.read_at(4096, offset) for offset in offsets])
    each = [statistics.median(times) / len(offsets) * 1e3 for times in taken]
    print(f"\nA read of 4 KiB at random takes {each[0]:.2f} ms, by `luks::` {each[1]:.2f} ms.")


def checksum(row: dict[str, Any]) -> dict[str, Any]:
    return {"size": len(row["bytes"]), "crc32": zlib.crc32(row["bytes"])}


def many(storage: Storage) -> None:
    """A job of Ray Data over many volumes, and over the same files in plaintext."""
    storage.fs.rm("bucket/large*")
    data = os.urandom(SMALL)
    for number in range(COUNT):
        storage.fs.pipe_file(f"bucket/plain/{number:02}", data)
    plain = ray.data.read_binary_files(
        "bucket/plain", filesystem=storage.fs, include_paths=True, concurrency=2
    )
    luxor.ray.encrypt(
        plain, "s3://bucket/volumes", key=storage.key, storage_options=storage.options, **CHEAP
    )

    def check(dataset: ray.data.Dataset) -> None:
        rows = dataset.map(checksum).take_all()
        assert len(rows) == COUNT
        assert {row["crc32"] for row in rows} == {zlib.crc32(data)}

    taken = alternate(
        lambda: check(ray.data.read_binary_files("bucket/plain", filesystem=storage.fs)),
        lambda: check(
            luxor.ray.read("s3://bucket/volumes", key=storage.key, storage_options=storage.options)
        ),
    )
    rates = [COUNT * SMALL / statistics.median(times) / 1e6 for times in taken]
    print(f"\n| Ray Data, CRC-32 of {COUNT} files of {SMALL // MIB} MiB | MB/s | of the plaintext |")
    print("|---|---|---|")
    print(f"| plaintext | {rates[0]:.0f} | 1 |")
    print(f"| volumes | {rates[1]:.0f} | {ratio(*taken):.2f} |")
    storage.fs.rm("bucket/plain", recursive=True)
    storage.fs.rm("bucket/volumes", recursive=True)


def nothing(number: int) -> int:
    return number


@dataclass
class Costs:
    """What the parts of a job cost, in seconds and bytes a second."""

    #: The program that distributes the parts: each task of Ray, without the manifest.
    coordination: float
    #: A worker: each part, besides its bytes.
    part: float
    #: A worker's core: reading, encrypting and writing.
    core_rate: float


def costs(storage: Storage) -> Costs:
    """Measure jobs with parts of two lengths on one thread, and empty tasks of Ray."""
    data = os.urandom(256 * MIB)
    storage.fs.pipe_file("bucket/large", data)
    small, large = 6 * MIB, 16 * MIB

    def job(part_size: int) -> Callable[[], None]:
        def run() -> None:
            with ThreadPoolExecutor(1) as executor:
                storage.encrypt("large", "large.luks", part_size=part_size, executor=executor)

        return run

    few, many = (statistics.median(times) for times in alternate(job(large), job(small)))
    parts = [-(-len(data) // size) for size in (large, small)]
    part = max((many - few) / (parts[1] - parts[0]), 0.0)
    rate = len(data) / (few - parts[0] * part)

    tasks = 1000
    with luxor.ray.Executor() as executor:
        [future.result() for future in [executor.submit(nothing, i) for i in range(50)]]
        begun = time.perf_counter()
        futures = [executor.submit(nothing, i) for i in range(tasks)]
        assert [future.result() for future in futures] == list(range(tasks))
        coordination = (time.perf_counter() - begun) / tasks
    print(
        f"\nOne part costs {part * 1e3:.1f} ms besides its bytes, and a thread encrypts "
        f"{rate / 1e6:.0f} MB/s from the server to the server. Ray's driver distributes a task in "
        f"{coordination * 1e3:.2f} ms."
    )
    return Costs(coordination, part, rate)


#: What a stored object may have at most, and the rate of one connection to a large object store.
#: Vendors publish such figures; they are no measurements of ours.
OBJECT, CONNECTION_RATE, ROUND_TRIP = 5 * 10**12, 80e6, 0.03


def model(costs: Costs) -> None:
    """How long a cluster encrypts, if every worker is a core with a connection of its own."""
    print("\n| data | workers | parts | hours | GB/s | limited by | saturates at workers |")
    print("|---|---|---|---|---|---|---|")
    for name, size in (("1 TB", 10**12), ("1 PB", 10**15)):
        for workers in (10, 100, 1000):
            objects = -(-size // OBJECT)
            part_size = max(16 * MIB, -(-size // objects // 9999))
            parts = -(-size // part_size)
            # A part is read, encrypted and written in turn, and each request waits for an answer.
            rate = 1 / (1 / costs.core_rate + 2 / CONNECTION_RATE)
            worker = costs.part + 2 * ROUND_TRIP + part_size / rate
            work = -(-parts // workers) * worker
            driver = parts * costs.coordination
            taken = max(work, driver)
            limit = "workers" if work >= driver else "the program that distributes"
            print(
                f"| {name} | {workers} | {parts:,} of {part_size / MIB:.0f} MiB "
                f"| {taken / 3600:.2f} | {size / taken / 1e9:.1f} | {limit} "
                f"| {min(worker / costs.coordination, parts):,.0f} |"
            )


def main() -> None:
    program = sys.argv[1]
    within = sys.argv[2] if len(sys.argv) > 2 else "/dev/shm"
    folder = Path(tempfile.mkdtemp(prefix="luxor-clusters-", dir=within))
    try:
        (folder / "key").write_bytes(secrets.token_bytes(32))
        with server(program, folder) as options:
            storage = Storage(options, KeyFile(folder / "key"))
            storage.fs.mkdir("bucket")
            ray.init(log_to_driver=False, logging_level="ERROR")
            ray.data.DataContext.get_current().enable_progress_bars = False
            logging.getLogger("ray.data").setLevel(logging.WARNING)
            reading(storage)
            many(storage)
            model(costs(storage))
            ray.shutdown()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
