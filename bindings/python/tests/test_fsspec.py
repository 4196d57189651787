# SPDX-License-Identifier: MIT OR Apache-2.0
"""Volumes in file systems of fsspec: local files, memory, and a real S3 server."""

from __future__ import annotations

import io
import itertools
import json
import os
import pickle
import random
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import luxor
import luxor.keys
import pyarrow
import pyarrow.parquet
import pytest
from conftest import PASSPHRASE
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st
from luxor import luksfs
from s3 import Bucket, Fault, FaultyS3
from stores import LUKS, PLAIN, PLAINS, SIZE, Store, encrypt, local_store, s3_store, volume_of


@pytest.fixture(params=["file", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "file":
        yield local_store(tmp_path)
    elif request.param == "memory":
        # Not the one of `fsspec.filesystem`, with the same files.
        memory = MemoryFileSystem(skip_instance_cache=True)
        yield Store(f"memory://{tmp_path.name}/", {}, memory)
        memory.rm(tmp_path.name, recursive=True)
    else:
        yield s3_store(request.getfixturevalue("bucket"))


def ranges() -> Any:
    near = st.sampled_from([0, 511, 512, 4095, 4096, 8192, SIZE - 4097, SIZE - 1, SIZE, SIZE + 1])
    offsets = st.one_of(near, st.integers(0, SIZE + 5000))
    sizes = st.one_of(st.integers(0, 9000), st.integers(0, SIZE))
    return st.tuples(offsets, sizes)


# ---- Reading.


@pytest.mark.parametrize("kind", ["luks2", "luks2-512", "luks1"])
def test_every_range_equals_the_plaintext(store: Store, kind: str) -> None:
    plain = PLAINS[kind]
    store.put("volume", volume_of(kind))
    with store.open("volume", block_size=1 << 16) as file, store.open(
        "volume", cache_type="none"
    ) as uncached:
        assert file.size == len(plain) and file.read() == plain and file.read() == b""

        @settings(max_examples=40)
        @given(ranges())
        def run(place: tuple[int, int]) -> None:
            offset, size = place
            expected = plain[offset : offset + size]
            for opened in (file, uncached):
                opened.seek(offset)
                assert opened.read(size) == expected
            assert file.read_at(size, offset) == expected

        run()


def test_the_ends_of_short_volumes(store: Store) -> None:
    # The header is shorter or longer than what is read first.
    headers: list[dict[str, int]] = [
        {},
        {"luks2_keyslots_size": 256 << 10},
        {"luks2_metadata_size": 4 << 20},
    ]
    plains = (b"", b"x", PLAIN[:4096], PLAIN[:4097])
    for plain, options in itertools.product(plains, headers):
        store.put("volume", encrypt(plain, **options))
        with store.open("volume") as file:
            assert file.size == len(plain)
            assert file.read() == plain and file.read(1) == b""
            assert file.read_at(5000, 0) == plain
            assert file.read_at(1, len(plain)) == file.read_at(9, len(plain) + 9000) == b""
            assert file.read_at(0, 0) == file.read_at(-1, 0) == b""
            file.seek(len(plain) + 5000)
            assert file.read() == file.read(9) == b""
        with pytest.raises(ValueError):
            file.read_at(1, 0)
        with pytest.raises(ValueError):
            file.read(1)


@pytest.mark.parametrize("cache_type", ["none", "readahead", "background", "blockcache"])
def test_each_cache_of_fsspec_holds_plaintext(bucket: Bucket, cache_type: str) -> None:
    store = s3_store(bucket)
    store.put("volume", volume_of("luks2"))
    chooser = random.Random(cache_type)
    with store.open("volume", cache_type=cache_type, block_size=100_000) as file:
        for _ in range(60):
            offset, size = chooser.randrange(SIZE + 100), chooser.randrange(20_000)
            file.seek(offset)
            assert file.read(size) == PLAIN[offset : offset + size]
        file.seek(0)
        assert file.read() == PLAIN
        assert file.readinto(bytearray(5)) == 0
        file.seek(4090)
        assert list(zip(file, range(3))) == list(zip(io.BytesIO(PLAIN[4090:]), range(3)))


def test_many_threads_read_one_volume(store: Store) -> None:
    """Through one file with `read_at`, and through files of their own."""
    store.put("volume", volume_of("luks2"))
    fs = store.filesystem()
    url = store.url("volume")
    with fs.open(url, cache_type="none") as shared:

        def read(seed: int) -> bool:
            chooser = random.Random(seed)
            with fs.open(url, cache_type="none") as own:
                for _ in range(10):
                    offset, size = chooser.randrange(SIZE), chooser.randrange(30_000)
                    expected = PLAIN[offset : offset + size]
                    own.seek(offset)
                    if shared.read_at(size, offset) != expected or own.read(size) != expected:
                        return False
            return True

        with ThreadPoolExecutor(16) as threads:
            assert all(threads.map(read, range(16)))


def test_files_in_memory_have_positions_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`memory://` has one object for all that open a file, and it has one position."""

    def slow_seek(self: MemoryFile, offset: int, whence: int = 0) -> int:
        position = io.BytesIO.seek(self, offset, whence)
        time.sleep(0.001)
        return position

    url = f"memory://{tmp_path.name}"
    fsspec.filesystem("memory").pipe_file(url, volume_of("luks2"))
    fs = fsspec.filesystem("luks", fo=url, **LUKS)
    with fs.open("", cache_type="none") as one, fs.open("", cache_type="none") as two:
        monkeypatch.setattr(MemoryFile, "seek", slow_seek)

        def read(i: int) -> bool:
            offset = i * 4096
            return bool((one, two)[i % 2].read_at(100, offset) == PLAIN[offset : offset + 100])

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(read, range(100)))
    fsspec.filesystem("memory").rm(url)


def test_a_long_range_is_read_in_parts_at_the_same_time(
    bucket: Bucket, faulty_s3: FaultyS3
) -> None:
    # Two ranges.
    plain = random.Random(1).randbytes(2 * luksfs.PART + 7)
    store = s3_store(faulty_s3.bucket, writer=bucket)
    store.put("volume", encrypt(plain))
    with store.open("volume", cache_type="none") as file:
        faulty_s3.clear()
        together = threading.Barrier(2)
        # Every request waits for the others.
        faulty_s3.add(Fault(times=2, call=lambda _: together.wait(10)))
        assert file.read_at(len(plain), 0) == plain
    assert not together.broken
    ranges = sorted(r.range for r in faulty_s3.requests if r.range)
    assert len(ranges) == 2
    assert all(first[1] == second[0] for first, second in zip(ranges, ranges[1:]))


# ---- The file system.


def test_files_are_listed_and_described(store: Store) -> None:
    volume = volume_of("luks2")
    for name in ("a.luks", "b.luks", "deep/c.luks", "other"):
        store.put(name, volume)
    fs = store.filesystem()
    strip = fs.fs._strip_protocol
    names = [strip(store.url(name)) for name in ("a.luks", "b.luks")]
    assert sorted(fs.glob(store.url("*.luks"))) == names
    assert sorted(fs.glob(store.url("**/*.luks"))) == [*names, strip(store.url("deep/c.luks"))]
    info = fs.info(names[0])
    assert (info["size"], info["stored_size"], info["type"]) == (SIZE, len(volume), "file")
    assert fs.size(names[0]) == SIZE
    fs.cat_file(names[0], 0, 1)
    assert fs.info(names[0])["size"] == SIZE
    listed = {info["name"]: info for info in fs.ls(store.prefix, detail=True)}
    is_remote = store.prefix.startswith("s3:")
    assert listed[names[1]]["size"] == (None if is_remote else SIZE)
    store.put("noise", b"no volume")
    options = {"target_options": store.options.get("s3"), "list_sizes": True}
    sized = fsspec.filesystem("luks", fo=store.url("a.luks"), **LUKS, **options)
    sized.fs.invalidate_cache()
    found = {info["name"]: info.get("size") for info in sized.ls(store.prefix)}
    assert found[names[0]] == found[names[1]] == SIZE and found[strip(store.url("noise"))] is None
    sized.fs.rm(strip(store.url("noise")))
    fs.fs.invalidate_cache()
    assert listed[names[1]]["stored_size"] == len(volume)
    assert sorted(listed) == sorted(fs.ls(store.prefix, detail=False))
    assert len(fs.find(store.prefix)) == 4
    assert fs.exists(names[0]) and fs.isfile(names[0]) and fs.isdir(store.url("deep"))
    assert not fs.exists(store.url("none")) and not fs.isfile(store.url("deep"))
    assert fs.info(store.url("deep"))["type"] == "directory"
    files = fsspec.open_files(f"luks::{store.url('*.luks')}", luks=LUKS, **store.options)
    assert len(files) == 2
    for file in files:
        with file as opened:
            assert opened.read(10) == PLAIN[:10]


def test_a_file_that_is_no_volume_has_no_size(store: Store) -> None:
    store.put("folder/volume", volume_of("luks2"))
    other = store.put("folder/other", b"no volume")
    folder = other.removesuffix("/other")
    fs = store.filesystem(**LUKS, list_sizes=True)
    found = fs.find(folder, detail=True)
    assert {name.rpartition("/")[2]: info["size"] for name, info in found.items()} == {
        "volume": len(PLAIN),
        "other": None,
    }
    assert fs.du(folder) == len(PLAIN)
    assert sorted(fs.du(folder, total=False).values(), key=str) == [len(PLAIN), None]
    assert fs.du(other) == 0 and fs.du(other, total=False) == {fs._strip_protocol(other): None}
    with pytest.raises(luxor.NotAVolume):
        fs.info(other)


def test_the_empty_path_is_the_volume_that_the_file_system_is_for(store: Store) -> None:
    url = store.put("volume", volume_of("luks2"))
    fs, path = fsspec.url_to_fs(f"luks::{url}", luks=LUKS, **store.options)
    assert fs.cat_file(path, 5, 10) == fs.cat_file("", 5, 10) == PLAIN[5:10]
    assert fs.info("")["size"] == SIZE
    assert fs.open("", "r", encoding="latin-1", newline="").read(9) == PLAIN[:9].decode("latin-1")


def test_ranges_of_files(store: Store) -> None:
    """With the arguments that the file systems of fsspec take, and their results."""
    fs = store.filesystem()
    one = store.put("one", volume_of("luks2"))
    two = store.put("two", encrypt(PLAIN[::-1]))
    for start, end in ((None, None), (5, None), (None, 5), (-9, None), (-9, -3), (7, 7), (9, 1)):
        assert fs.cat_file(one, start, end) == PLAIN[start:end]
    paths, starts, ends = [one, two, one, two], [0, 4095, SIZE - 3, -8], [9000, 4097, None, None]
    expected = [PLAIN[:9000], PLAIN[::-1][4095:4097], PLAIN[-3:], PLAIN[::-1][-8:]]
    assert fs.cat_ranges(paths, starts, ends) == expected
    assert fs.cat_ranges([one, two], 3, 5) == [PLAIN[3:5], PLAIN[::-1][3:5]]
    assert fs.cat_ranges([one], None, 5) == [PLAIN[:5]]
    assert fs.cat_ranges([], [], []) == []
    many = fs.cat_ranges([one] * 200, list(range(200)), list(range(1, 201)))
    assert b"".join(many) == PLAIN[:200]
    missing = store.url("missing")
    good, bad = fs.cat_ranges([one, missing], 0, 5)
    assert good == PLAIN[:5] and isinstance(bad, FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges([one, missing], 0, 5, on_error="raise")
    with pytest.raises(ValueError, match="2 paths"):
        fs.cat_ranges([one, two], [0], [5])
    contents = fs.cat([one, two])
    assert sorted(contents.values()) == sorted([PLAIN, PLAIN[::-1]])


def test_a_volume_is_copied_to_a_file(store: Store, tmp_path: Path) -> None:
    fs = store.filesystem()
    fs.get_file(store.put("volume", volume_of("luks1")), str(tmp_path / "plain"))
    assert (tmp_path / "plain").read_bytes() == PLAINS["luks1"]


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_member_of_an_archive_in_a_volume_is_opened_by_its_url(store: Store, kind: str) -> None:
    archive = io.BytesIO()
    members = {"a/one.txt": b"one" * 1000, "two.bin": PLAIN}
    if kind == "zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zip_file:
            for name, data in members.items():
                zip_file.writestr(name, data)
    else:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for name, data in members.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    url = store.put("archive", encrypt(archive.getvalue()))
    for name, data in members.items():
        with fsspec.open(f"{kind}://{name}::luks::{url}", luks=LUKS, **store.options) as file:
            assert file.read() == data


def test_columns_of_a_parquet_file_are_read_alone(
    bucket: Bucket, faulty_s3: FaultyS3
) -> None:
    """By pyarrow, as a file and through the file system."""
    store = s3_store(faulty_s3.bucket, writer=bucket)
    table = pyarrow.table({f"column{i}": [j * i for j in range(50_000)] for i in range(8)})
    data = io.BytesIO()
    pyarrow.parquet.write_table(table, data, compression="none", use_dictionary=False)
    url = store.put("table", encrypt(data.getvalue()))
    with store.open("table") as file:
        assert pyarrow.parquet.read_table(file).equals(table)
    fs = store.filesystem()
    path = fs.fs._strip_protocol(url)
    assert pyarrow.parquet.read_table(path, filesystem=fs).equals(table)
    with fs.open(path, cache_type="none") as file:
        faulty_s3.clear()
        column = pyarrow.parquet.ParquetFile(file).read(["column3"])
    assert column.equals(table.select(["column3"]))
    read = sum(r.range[1] - r.range[0] for r in faulty_s3.requests if r.range)
    assert read < len(data.getvalue()) / 3


@pytest.mark.parametrize("version", ["luks1", "luks2"])
def test_a_volume_of_cryptsetup_is_read(
    bucket: Bucket, tmp_path: Path, version: str, cryptsetup: Callable[..., str]
) -> None:
    path = tmp_path / "made"
    path.write_bytes(bytes(20 << 20))
    cheap = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"]
    # Slot 5 shows that the key is looked for beyond the first keyslot.
    cryptsetup("luksFormat", "--type", version, *cheap, "--key-slot", "5", path)
    with luxor.open(path, "r+b", passphrase=PASSPHRASE) as file:
        file.write(PLAIN)
        size = len(file)
    store = s3_store(bucket)
    store.put("volume", path.read_bytes())
    with store.open("volume") as file:
        assert file.size == size and file.read(SIZE) == PLAIN
    with store.open("volume", luks={"key_slot": 5}) as file:
        assert file.read_at(SIZE, 0) == PLAIN
    with pytest.raises(luxor.Error):
        store.open("volume", luks={"key_slot": 0})


def test_the_protocol_is_found_without_importing_luxor(bucket: Bucket) -> None:
    """As after an installation: by the entry point of the package."""
    store = s3_store(bucket)
    url = store.put("volume", volume_of("luks2"))
    script = (
        "import json, sys, fsspec\n"
        "assert 'luxor' not in sys.modules\n"
        "options = json.load(sys.stdin)\n"
        "with fsspec.open(options.pop('url'), **options) as file:\n"
        "    sys.stdout.buffer.write(file.read())\n"
    )
    options = {"url": f"luks::{url}", "luks": LUKS, **store.options}
    done = subprocess.run(
        [sys.executable, "-B", "-c", script],
        input=json.dumps(options).encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == PLAIN


# ---- What is refused.


def test_errors_have_their_own_classes(store: Store) -> None:
    volume = volume_of("luks2")
    store.put("volume", volume)
    store.put("noise", PLAIN)
    store.put("empty", b"")
    store.put("short", volume[: -(1 << 20)])
    with pytest.raises(luxor.WrongPassphrase):
        store.open("volume", luks={"passphrase": "wrong"})
    # The other file system has not learned the right one either.
    with store.open("volume") as file, pytest.raises(luxor.WrongPassphrase):
        assert file.read(1) == PLAIN[:1]
        store.open("volume", luks={"passphrase": "wrong"})
    for name in ("noise", "empty"):
        with pytest.raises(luxor.NotAVolume):
            store.open(name)
        with pytest.raises(luxor.NotAVolume):
            store.filesystem().info(store.url(name))
    with pytest.raises(FileNotFoundError):
        store.open("missing")
    with pytest.raises(FileNotFoundError):
        store.filesystem().info(store.url("missing"))
    with pytest.raises(FileNotFoundError):
        store.filesystem().cat_file(store.url("missing"))


def test_a_shortened_volume_yields_no_short_data(store: Store) -> None:
    store.put("volume", volume_of("luks2")[: -(1 << 20)])
    with pytest.raises((OSError, luxor.Error)):
        with store.open("volume", cache_type="none") as file:
            file.read()


def test_a_file_that_shrinks_yields_no_short_data(tmp_path: Path) -> None:
    store = local_store(tmp_path)
    store.put("volume", volume_of("luks2"))
    with store.open("volume", cache_type="none") as file:
        os.truncate(tmp_path / "volume", len(volume_of("luks2")) - 8192)
        assert file.read_at(100, 0) == PLAIN[:100]
        for size, offset in ((100, SIZE - 100), (SIZE, 0)):
            with pytest.raises(OSError, match="were read"):
                file.read_at(size, offset)


def test_options_of_files_are_options_of_the_protocol(tmp_path: Path) -> None:
    """So they work in URLs of several protocols, whose other options fsspec does not pass on."""
    store = local_store(tmp_path)
    url = store.put("volume", volume_of("luks2"))
    options = {**LUKS, "cache_type": "none", "block_size": 4096, "cache_options": {}}
    with fsspec.open(f"luks::{url}", luks=options) as file:
        assert file.cache.name == "none" and file.blocksize == 4096
        assert file.read() == PLAIN
    fs, path = fsspec.url_to_fs(f"luks::{url}", luks={**options, "cache_type": "bytes"})
    with fs.open(path) as file:
        assert file.cache.name == "bytes"
    with fs.open(path, cache_type="none", block_size=512) as file:
        assert file.cache.name == "none" and file.blocksize == 512


@pytest.mark.parametrize("size", [None, -1])
def test_a_length_is_found_by_seeking_or_refused(size: int | None) -> None:
    class Unsized(MemoryFileSystem):  # type: ignore[misc]
        store: dict[str, Any] = {}
        cachable = False

        def info(self, path: str, **kwargs: Any) -> Any:
            return {**super().info(path, **kwargs), "size": size}

    target = Unsized()
    target.pipe_file("/volume", volume_of("luks2"))
    fs = luksfs.LuksFileSystem("/volume", fs=target, **LUKS)
    if size is None:
        assert fs.cat_file("/volume") == PLAIN
    else:
        with pytest.raises(OSError, match="-1 bytes"):
            fs.cat_file("/volume")


def test_exactly_one_secret_is_needed(tmp_path: Path) -> None:
    for secrets in ({}, {"passphrase": "a", "volume_key": b"b"}, {"key_file": "a", **LUKS}):
        with pytest.raises(TypeError, match="exactly one of"):
            fsspec.filesystem("luks", fo=str(tmp_path), **secrets)


# ---- Other processes.


def test_a_passphrase_is_not_sent_to_other_processes(store: Store) -> None:
    url = store.put("volume", volume_of("luks2"))
    secrets: list[dict[str, Any]] = [LUKS, {"volume_key": bytes(64)}]
    for secret in secrets:
        fs = fsspec.filesystem("luks", fo=url, target_options=store.options.get("s3"), **secret)
        for send in (pickle.dumps, lambda fs: fs.to_json(), lambda fs: fs.to_dict()):
            with pytest.raises(TypeError, match="key_file"):
                send(fs)
    with store.open("volume") as file, pytest.raises(TypeError, match="key_file"):
        pickle.dumps(file)
    opened = fsspec.open(f"luks::{url}", luks=LUKS, **store.options)
    with pytest.raises(TypeError, match="key_file"):
        pickle.dumps(opened)
    assert PASSPHRASE not in repr(opened) + repr(opened.fs) + str(opened.fs)


@pytest.mark.parametrize("provider", ["key_file", "KeyFile", "KeyVariable"])
def test_key_files_and_providers_are_sent_to_other_processes(
    bucket: Bucket, tmp_path: Path, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process reads with a pickled file system, a pickled file, and their ranges."""
    key = tmp_path / "key"
    key.write_bytes(PASSPHRASE.encode())
    monkeypatch.setenv("LUXOR_TEST_KEY", PASSPHRASE)
    secrets: dict[str, dict[str, Any]] = {
        "key_file": {"key_file": key},
        "KeyFile": {"key": luxor.keys.KeyFile(key)},
        "KeyVariable": {"key": luxor.keys.KeyVariable("LUXOR_TEST_KEY")},
    }
    url = s3_store(bucket).put("volume", volume_of("luks2"))
    fs = s3_store(bucket).filesystem(**secrets[provider])
    file = fs.open(url, block_size=1 << 16)
    file.seek(4321)
    sent = pickle.dumps((fs, url, file))
    assert PASSPHRASE.encode() not in sent
    script = (
        "import pickle, sys\n"
        "fs, url, file = pickle.load(sys.stdin.buffer)\n"
        "sys.stdout.buffer.write(fs.cat_file(url, 7, 99) + file.read(1000))\n"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", script], input=sent, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == PLAIN[7:99] + PLAIN[4321:5321]


def test_a_missing_key_is_an_error(bucket: Bucket, tmp_path: Path) -> None:
    store = s3_store(bucket)
    store.put("volume", volume_of("luks2"))
    for secret, error in (
        ({"key_file": tmp_path / "none"}, FileNotFoundError),
        ({"key": luxor.keys.KeyFile(tmp_path / "none")}, FileNotFoundError),
        ({"key": luxor.keys.KeyVariable("LUXOR_TEST_NONE")}, FileNotFoundError),
    ):
        with pytest.raises(error):
            store.filesystem(**secret).open(store.url("volume"))


def test_a_forked_process_derives_the_keys_again(tmp_path: Path) -> None:
    store = local_store(tmp_path)
    url = store.put("volume", volume_of("luks2"))
    fs = store.filesystem()
    with fs.open(url) as file:
        process = os.fork()
        if process == 0:
            status = 1
            try:
                is_lost = False
                try:
                    file.read_at(1, 0)
                except luxor.KeyLostInFork:
                    is_lost = True
                status = 0 if is_lost and fs.cat_file(url) == PLAIN else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
        assert file.read() == PLAIN


# ---- Volumes that are replaced.


def test_a_replaced_volume_has_its_new_contents_when_it_is_opened_again(store: Store) -> None:
    """Through the file system that knows the keys and the length of the old one."""
    url = store.put("volume", volume_of("luks2"))
    fs = store.filesystem()
    assert fs.cat_file(url) == PLAIN and fs.info(url)["size"] == SIZE
    for plain in (PLAIN[::-1], b"short", b"", PLAIN):
        store.put("volume", encrypt(plain))
        assert fs.cat_file(url) == plain
        assert fs.info(url)["size"] == len(plain)
        with fs.open(url) as file:
            assert file.read() == plain
    store.put("volume", encrypt(PLAIN, passphrase="another"))
    with pytest.raises(luxor.WrongPassphrase):
        fs.cat_file(url)
