# SPDX-License-Identifier: MIT OR Apache-2.0
"""New volumes by `luks://`, in all kinds of storage: local files, memory, and a real S3 server."""

from __future__ import annotations

import gc
import io
import json
import os
import pickle
import resource
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.bag
import fsspec
import luxor
import luxor.keys
import numpy
import pandas
import pyarrow
import pyarrow.fs
import pyarrow.parquet
import pytest
from conftest import CHEAP, PASSPHRASE
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from luxor import _uploads, luksfs
from s3 import Bucket, Fault, FaultyS3, Request

LUKS: dict[str, Any] = {"passphrase": PASSPHRASE, **CHEAP}
SECRET = b"no storage and no disk may see this\n"


class Target:
    """A folder of a file system of fsspec, and the same file system below `luks`."""

    def __init__(self, kind: str, root: str, options: dict[str, Any]) -> None:
        self.kind, self.root, self.options = kind, root, options
        #: Another client, with its own listings.
        self.plain = fsspec.filesystem(kind, **options, skip_instance_cache=True)
        self.luks = self.filesystem(**LUKS)

    def filesystem(self, **luks: Any) -> Any:
        target = {"target_protocol": self.kind, "target_options": self.options}
        return fsspec.filesystem("luks", **target, **luks)

    def url(self, name: str) -> str:
        return f"{self.root}/{name}"

    def of_url(self, luks: dict[str, Any] | None = None) -> dict[str, Any]:
        """The options for `fsspec.open` and its users."""
        return {"luks": luks or LUKS, self.kind: self.options}

    def stored(self, name: str) -> bytes:
        self.plain.invalidate_cache()
        data: bytes = self.plain.cat_file(self.url(name))
        return data

    def names(self) -> list[str]:
        self.plain.invalidate_cache()
        found = self.plain.find(self.root) if self.plain.exists(self.root) else []
        root = self.plain._strip_protocol(self.root)
        return sorted(name.removeprefix(f"{root}/") for name in found)

    def check(self, name: str, plain: bytes) -> None:
        """A volume with this plaintext is there."""
        with luxor.open(io.BytesIO(self.stored(name)), passphrase=PASSPHRASE) as volume:
            assert volume.read() == plain


def shared_of(request: pytest.FixtureRequest, folder: Path) -> Target:
    """The target that a fixture has as its parameter."""
    if request.param == "s3":
        return of_s3(request.getfixturevalue("bucket"))
    (folder / "files").mkdir()
    return Target("file", f"file://{folder}/files", {})


def of_s3(bucket: Bucket) -> Target:
    return Target("s3", bucket.url("").rstrip("/"), bucket.options)


@pytest.fixture(params=["file", "memory", "s3"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        root = f"memory://{tmp_path.name}"
        target = Target("memory", root, {})
        yield target
        if target.plain.exists(root):
            target.plain.rm(root, recursive=True)
    else:
        yield shared_of(request, tmp_path)


@pytest.fixture(params=["file", "s3"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    """A folder that other processes see."""
    return shared_of(request, tmp_path)


# ---- What is written comes back.


def test_formats_with_an_end_come_back(target: Target, cryptsetup: Callable[..., str]) -> None:
    fs = target.luks
    with fs.open(target.url("a.zip"), "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", SECRET)
        archive.writestr("b", bytes(1 << 20))
    with fs.open(target.url("a.zip")) as file, zipfile.ZipFile(file) as archive:
        assert archive.read("a") == SECRET and archive.testzip() is None

    with fs.open(target.url("arrays.npz"), "wb") as file:
        numpy.savez(file, a=numpy.arange(1000), b=numpy.zeros(5))
    with fs.open(target.url("arrays.npz")) as file:
        assert numpy.load(file)["a"].sum() == 499500

    table = pyarrow.table({"a": range(100_000)})
    for name, arrow in (("1", fs), ("2", pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fs)))):
        path = fs._strip_protocol(target.url(f"{name}.parquet"))
        pyarrow.parquet.write_table(table, path, filesystem=arrow)
        assert pyarrow.parquet.read_table(path, filesystem=arrow).equals(table)

    frame = pandas.DataFrame({"a": range(1000), "b": ["x"] * 1000})
    options = target.of_url()
    frame.to_parquet(f"luks::{target.url('frame.parquet')}", storage_options=options)
    frame.to_csv(f"luks::{target.url('frame.csv')}", storage_options=options, index=False)
    for read, name in ((pandas.read_parquet, "frame.parquet"), (pandas.read_csv, "frame.csv")):
        again = read(f"luks::{target.url(name)}", storage_options=options)
        assert (again == frame).all(axis=None)

    assert len(target.names()) == 6
    for name in target.names():
        stored = target.stored(name)
        Path("copy").write_bytes(stored)
        cryptsetup("open", "--test-passphrase", "copy")


@pytest.mark.parametrize("size", [0, 1, 4096, 300_000, (40 << 20) + 5])
def test_volumes_of_every_length_come_back(target: Target, size: int) -> None:
    """The longest has several parts."""
    plain = numpy.random.default_rng(size).bytes(size)
    with fsspec.open(f"luks::{target.url('volume')}", "wb", **target.of_url()) as file:
        for at in range(0, size, 7_000_001):
            file.write(plain[at : at + 7_000_001])
        assert target.names() == []
    target.check("volume", plain)
    assert target.luks.info(target.url("volume"))["size"] == size
    assert target.luks.cat_file(target.url("volume")) == plain


def test_whole_files_come_back(target: Target, tmp_path: Path) -> None:
    """By the other methods that write, none of which stores plaintext."""
    fs, url = target.luks, target.url
    fs.pipe_file(url("pipe_file"), SECRET)
    fs.pipe({url("pipe1"): SECRET, url("pipe2"): SECRET})
    fs.write_text(url("text"), SECRET.decode())
    (tmp_path / "tree" / "inner").mkdir(parents=True)
    (tmp_path / "tree" / "inner" / "a").write_bytes(SECRET)
    fs.put_file(tmp_path / "tree" / "inner" / "a", url("put_file"))
    fs.put(str(tmp_path / "tree"), url("tree"), recursive=True)
    fs.cp_file(url("pipe1"), url("cp_file"))
    fs.copy(url("pipe1"), url("copy"))
    fs.mv(url("pipe2"), url("moved"))
    with fsspec.open(f"luks::{url('t')}", "wt", newline="", **target.of_url()) as file:
        file.write(SECRET.decode())
    expected = ["pipe_file", "pipe1", "text", "put_file", "tree/inner/a"]
    expected += ["cp_file", "copy", "moved", "t"]
    assert target.names() == sorted(expected)
    for name in expected:
        assert SECRET not in target.stored(name)
        target.check(name, SECRET)
        assert fs.cat_file(url(name)) == SECRET
    assert {info["size"] for info in fs.find(url("tree"), detail=True).values()} <= {
        len(SECRET),
        None,
    }
    fs.touch(url("empty"))
    target.check("empty", b"")
    fs.rm(url("tree"), recursive=True)
    fs.rm([url("copy"), url("moved")])
    fs.rm_file(url("cp_file"))
    assert target.names() == ["empty", "pipe1", "pipe_file", "put_file", "t", "text"]
    with pytest.raises(ValueError, match="empty path"):
        fs.rm("", recursive=True)


def test_compressed_text_comes_back(target: Target) -> None:
    options = {**target.of_url(), "compression": "gzip", "encoding": "utf-8"}
    with fsspec.open(f"luks::{target.url('a.gz')}", "wt", **options) as file:
        file.write("größer" * 10_000)
    with fsspec.open(f"luks::{target.url('a.gz')}", "rt", **options) as file:
        assert file.read() == "größer" * 10_000


@pytest.mark.parametrize("options", [{"type": "luks1"}, {"sector_size": 512, "label": "x"}])
def test_the_options_are_those_of_encrypt(target: Target, options: dict[str, Any]) -> None:
    fs = target.filesystem(**LUKS, **options, key_size=256)
    fs.pipe_file(target.url("volume"), bytes(1024))
    volume = luxor.Volume(io.BytesIO(target.stored("volume")))
    dump = json.dumps(volume.dump())
    assert volume.version == (1 if "type" in options else 2)
    assert volume.label == options.get("label", "") and '"luks2_keyslots' not in dump
    assert fs.cat_file(target.url("volume")) == bytes(1024)
    small = target.filesystem(**LUKS, luks2_keyslots_size=256 << 10)
    small.pipe_file(target.url("small"), b"x")
    assert len(target.stored("small")) < 1 << 20
    with pytest.raises(TypeError, match="secto_size"):
        target.filesystem(**LUKS, secto_size=512)


# ---- Nothing appears before its end.


class Interrupt(BaseException):
    """As `KeyboardInterrupt`."""


def test_nothing_appears_if_the_block_raises(target: Target) -> None:
    fs, url = target.luks, target.url
    with pytest.raises(Interrupt), fs.open(url("v"), "wb") as file:
        file.write(SECRET)
        raise Interrupt
    assert file.closed
    # These close their files and do not say why.
    with pytest.warns(luxor.VolumeWarning, match="discarded.*Interrupt"), pytest.raises(Interrupt):
        with fs.open(url("v"), "w") as text:
            text.write(SECRET.decode())
            raise Interrupt
    for options in ({}, {"compression": "gzip"}, {"mode": "wt"}, {"mode": "wt", "compression": "gzip"}):
        mode = {"mode": "wb", **options}
        with pytest.warns(luxor.VolumeWarning, match="Interrupt"), pytest.raises(Interrupt):
            with fsspec.open(f"luks::{url('v')}", **mode, **target.of_url()) as opened:
                opened.write(SECRET if mode["mode"] == "wb" else SECRET.decode())
                raise Interrupt
    with pytest.warns(luxor.VolumeWarning, match="ZeroDivisionError"):
        file = fs.open(url("v"), "wb")
        try:
            file.write(bytes([1 // 0]))
        except ZeroDivisionError:
            file.close()
    # pandas and pyarrow leave a part of their file otherwise.
    bad = pandas.DataFrame({"a": [1] * 100_000 + [object()]})
    arrow = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fs))
    path = fs._strip_protocol(url("v"))
    schema = pyarrow.schema([("a", pyarrow.int64())])
    with pytest.warns(luxor.VolumeWarning), pytest.raises(Interrupt):
        with pyarrow.parquet.ParquetWriter(path, schema, filesystem=arrow) as writer:
            writer.write_table(pyarrow.table({"a": range(10)}))
            raise Interrupt
    with pytest.raises(Exception, match=r"convert|object"):
        bad.to_parquet(f"luks::{url('v')}", storage_options=target.of_url())
    assert target.names() == []
    # What was an error before is none now.
    try:
        raise KeyError
    except KeyError:
        with fsspec.open(f"luks::{url('v')}", "wb", **target.of_url()) as opened:
            opened.write(b"the other way")
        file = fs.open(url("w"), "wb")
        try:
            raise ValueError
        except ValueError:
            pass
        file.close()
    assert target.names() == ["v", "w"]


def test_nothing_appears_that_nothing_closes(target: Target) -> None:
    fs, url = target.luks, target.url
    for mode in ("wb", "w"):
        file = fs.open(url("v"), mode)
        file.write(SECRET if mode == "wb" else SECRET.decode())
        with pytest.warns(ResourceWarning, match="discarded"):
            del file
            gc.collect()
    file = fs.open(url("v"), "wb")
    file.write(SECRET)
    file.discard()
    file.close()
    file.commit()
    assert target.names() == []
    if target.kind != "memory":
        # Its memory is that of one process.
        program = (
            "import sys, json, fsspec\n"
            "options = json.load(sys.stdin)\n"
            "f = fsspec.open('luks::' + sys.argv[1], sys.argv[2], **options).open()\n"
            "f.write('lost' if 'b' not in sys.argv[2] else b'lost')\n"
        )
        for mode in ("wb", "wt"):
            subprocess.run(
                [sys.executable, "-B", "-c", program, url("v"), mode],
                input=json.dumps(target.of_url()).encode(),
                check=True,
            )
    assert target.names() == []


@pytest.mark.parametrize("autocommit", [True, False])
def test_nothing_appears_if_a_write_failed(target: Target, autocommit: bool) -> None:
    """Also if later writes succeed, and at the end of a transaction."""
    for size in (1, 40 << 20):
        file = target.luks.open(target.url("v"), "wb", autocommit=autocommit)
        file.write(SECRET)
        file.flush()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
        try:
            with pytest.raises(OSError):
                file.write(bytes(1 << 20))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        file.write(bytes(size))
        with pytest.raises(luxor.Error, match="a write to the new volume failed"):
            file.close()
        if not autocommit:
            with pytest.raises((luxor.Error, ValueError)):
                file.raw.publish()
    assert target.names() == []


def test_a_transaction_stores_all_files_or_none(target: Target) -> None:
    fs, url = target.luks, target.url
    with pytest.raises(Interrupt), fs.transaction:
        fs.pipe_file(url("a"), SECRET)
        with fs.open(url("b"), "wb") as file:
            file.write(SECRET)
        opened = fs.open(url("c"), "wb")
        raise Interrupt
    assert opened.closed and target.names() == []
    with fs.transaction:
        fs.pipe_file(url("a"), SECRET)
        with fs.open(url("b"), "w") as file:
            file.write(SECRET.decode())
        open_at_end = fs.open(url("c"), "wb")
        open_at_end.write(SECRET)
        with pytest.raises(Interrupt), fs.open(url("d"), "wb") as file:
            raise Interrupt
        assert target.names() == []
        with pytest.raises(ValueError, match="closed"):
            file.write(b"more")
    assert target.names() == ["a", "b", "c"]
    for name in "abc":
        target.check(name, SECRET)
    fs.start_transaction()
    fs.pipe_file(url("e"), SECRET)
    assert target.names() == ["a", "b", "c"]
    fs.end_transaction()
    target.check("e", SECRET)
    fs.pipe_file(url("f"), SECRET)
    target.check("f", SECRET)


def test_a_forked_child_does_not_finish_a_new_volume(tmp_path: Path) -> None:
    """Nor one that waits for the end of a transaction."""
    memory = MemoryFileSystem(skip_instance_cache=True)
    for fs, path in (
        (luksfs.LuksFileSystem(fs=memory, **LUKS), f"/{tmp_path.name}"),
        (luksfs.LuksFileSystem(fs=fsspec.filesystem("file"), **LUKS), f"{tmp_path}/volume"),
    ):
        file, waiting = fs.open(path, "wb"), fs.open(f"{path}2", "wb", autocommit=False)
        file.write(SECRET)
        waiting.write(SECRET)
        waiting.close()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                file.close()
                with pytest.raises(luxor.KeyLostInFork):
                    waiting.commit()
                del file, waiting
                gc.collect()
                status = 0 if not fs.exists(path) and not fs.exists(f"{path}2") else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not fs.exists(path)
        file.close()
        waiting.commit()
        assert fs.cat_file(path) == fs.cat_file(f"{path}2") == SECRET


def test_no_plaintext_is_on_the_disk(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system shows of open files while a volume is written, before and after its end."""
    made: list[int] = []
    temporary = tempfile.TemporaryFile

    def remember(*args: Any, **options: Any) -> Any:
        file = temporary(*args, **options)
        made.append(os.dup(file.fileno()))
        return file

    monkeypatch.setattr(tempfile, "TemporaryFile", remember)
    with target.luks.open(target.url("v"), "wb") as file:
        file.write(SECRET * 100_000)
        file.flush()
    assert len(made) == (target.kind != "file")
    for descriptor in made:
        state = os.fstat(descriptor)
        assert stat.S_IMODE(state.st_mode) == 0o600 and state.st_nlink == 0
        data = os.pread(descriptor, state.st_size, 0)
        assert data == target.stored("v") and SECRET not in data
        os.close(descriptor)


# ---- What is there already.


def test_an_existing_file_is_replaced_whole_or_refused(target: Target) -> None:
    fs, url = target.luks, target.url
    target.plain.pipe_file(url("v"), b"not a volume" * 1000)
    for mode in ("xb", "x"):
        with pytest.raises(FileExistsError):
            fs.open(url("v"), mode)
    with pytest.raises(FileExistsError):
        fs.pipe_file(url("v"), SECRET, mode="create")
    Path("local").write_bytes(SECRET)
    with pytest.raises(FileExistsError):
        fs.put_file("local", url("v"), mode="create")
    with pytest.raises(Interrupt), fs.open(url("v"), "wb") as file:
        file.write(SECRET)
        raise Interrupt
    assert target.stored("v") == b"not a volume" * 1000
    keys = set()
    for plain in (SECRET * 1000, b"short", b""):
        fs.pipe_file(url("v"), plain)
        target.check("v", plain)
        assert fs.cat_file(url("v")) == plain
        keys.add(luxor.Volume(io.BytesIO(target.stored("v"))).uuid)
    assert len(keys) == 3
    fs.pipe_file(url("new"), SECRET, mode="create")
    fs.put_file("local", url("new2"), mode="create")
    with fs.open(url("new3"), "xb") as file:
        file.write(SECRET)
    for name in ("new", "new2", "new3"):
        target.check(name, SECRET)


@pytest.mark.parametrize("size", [10, 40 << 20])
def test_a_file_that_appears_meanwhile_is_not_replaced_by_x(target: Target, size: int) -> None:
    file = target.luks.open(target.url("v"), "xb")
    file.write(bytes(size))
    target.plain.pipe_file(target.url("v"), b"of another")
    with pytest.raises(FileExistsError):
        file.close()
    assert file.closed and target.stored("v") == b"of another"
    assert target.names() == ["v"]


def test_other_modes_and_places_are_refused(target: Target, tmp_path: Path) -> None:
    fs, url = target.luks, target.url
    fs.pipe_file(url("v"), SECRET)
    before = target.stored("v")
    for mode in ("ab", "r+b", "a", "a+b"):
        with pytest.raises(io.UnsupportedOperation, match="anew"):
            fs.open(url("v"), mode)
    assert target.stored("v") == before
    with pytest.raises(TypeError, match="volume_key"):
        target.filesystem(volume_key=bytes(64)).pipe_file(url("w"), SECRET)
    with fs.open(url("v")) as file:
        assert file.readable() and file.seekable() and not file.writable()
        with pytest.raises((ValueError, OSError)):
            file.write(b"data")
        assert file.read() == SECRET
    assert target.names() == ["v"] and target.stored("v") == before


def test_storage_that_cannot_make_whole_files_is_refused_at_once(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w"):
        pass
    for url in (
        f"luks::zip://v::file://{tmp_path}/a.zip",
        "luks::http://127.0.0.1:1/v",
        "luks::simplecache::memory://v",
    ):
        with pytest.raises(OSError, match="whole file"):
            fsspec.open(url, "wb", luks=LUKS).open()


def test_names_are_exact(bucket: Bucket, tmp_path: Path) -> None:
    target = of_s3(bucket)
    with pytest.raises(ValueError, match="another name"):
        target.luks.pipe_file(target.url("v?versionId=1"), SECRET)
    assert target.names() == []
    with pytest.raises(IsADirectoryError):
        luksfs.LuksFileSystem(fs=fsspec.filesystem("file"), **LUKS).open(str(tmp_path), "wb")


def test_folders_within_file_systems(tmp_path: Path) -> None:
    """And folders that are made on the way."""
    inner = DirFileSystem(str(tmp_path), fsspec.filesystem("file"))
    fs = luksfs.LuksFileSystem(fs=inner, **LUKS)
    fs.makedirs("a/b")
    fs.pipe_file("a/b/v", SECRET)
    assert fs.cat_file("a/b/v") == SECRET and SECRET not in (tmp_path / "a/b/v").read_bytes()
    with pytest.raises(ValueError, match="escapes"):
        fs.pipe_file("../v", SECRET)
    with fsspec.open(f"luks::file://{tmp_path}/c/d/v", "wb", luks=LUKS) as file:
        file.write(SECRET)
    made = luksfs.LuksFileSystem(fs=fsspec.filesystem("file", auto_mkdir=True), **LUKS)
    made.pipe_file(f"{tmp_path}/e/f/v", SECRET)
    assert made.cat_file(f"{tmp_path}/c/d/v") == made.cat_file(f"{tmp_path}/e/f/v") == SECRET
    made.mkdir(f"{tmp_path}/g")
    made.rmdir(f"{tmp_path}/g")
    assert not (tmp_path / "g").exists()


# ---- A server that fails.


def is_put(request: Request) -> bool:
    return request.method == "PUT"


def completes(request: Request) -> bool:
    return request.method == "POST" and "uploadId" in request.query


@pytest.mark.parametrize("size", [0, 40 << 20])
def test_a_failed_upload_leaves_nothing(bucket: Bucket, faulty_s3: FaultyS3, size: int) -> None:
    target = of_s3(faulty_s3.bucket)
    target.luks.fs.retries = 2
    url = target.url("v")
    file = target.luks.open(url, "wb")
    file.write(bytes(size))
    faulty_s3.add(Fault(is_put, times=1000, status=403))
    with pytest.raises(OSError):
        file.close()
    faulty_s3.clear()
    assert file.closed and target.names() == []
    listed = bucket.fs.call_s3("list_multipart_uploads", Bucket=bucket.name)
    assert listed.get("Uploads", []) == []
    # A busy server is asked again, and a lost answer is none that failed.
    faulty_s3.add(Fault(is_put, times=2, status=503))
    lost = faulty_s3.add(Fault(completes, times=1, cut_response=0))
    target.luks.fs.retries = 5
    target.luks.pipe_file(url, bytes(size), mode="create")
    assert lost.met == 1
    target.check("v", bytes(size))


@pytest.mark.parametrize("error", [FileNotFoundError, FileExistsError])
def test_an_end_that_is_asked_for_twice_is_no_failure(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    """The answer to the first request is lost, and the second finds that all is done."""
    complete = _uploads.S3Upload.complete

    def twice(self: Any, parts: Any, *, force: bool) -> None:
        complete(self, parts, force=force)
        raise error

    monkeypatch.setattr(_uploads.S3Upload, "complete", twice)
    target = of_s3(bucket)
    target.luks.pipe_file(target.url("v"), SECRET, mode="create")
    target.check("v", SECRET)


# ---- Other processes.


def test_key_providers_write_in_other_processes(shared: Target, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(PASSPHRASE.encode())
    for options in ({"key_file": tmp_path / "key"}, {"key": luxor.keys.KeyFile(tmp_path / "key")}):
        fs = shared.filesystem(**options, **CHEAP)
        script = (
            "import pickle, sys\n"
            "fs, url, data = pickle.load(sys.stdin.buffer)\n"
            "fs.pipe({url + '1': data, url + '2': data})\n"
        )
        sent = pickle.dumps((fs, shared.url("v"), SECRET))
        assert PASSPHRASE.encode() not in sent
        subprocess.run([sys.executable, "-B", "-c", script], input=sent, check=True)
        for name in ("v1", "v2"):
            shared.check(name, SECRET)
            fs.rm(shared.url(name))


def test_workers_of_dask_write(shared: Target, tmp_path: Path) -> None:
    """Every file has its own volume key."""
    (tmp_path / "key").write_bytes(PASSPHRASE.encode())
    luks = {"key": luxor.keys.KeyFile(tmp_path / "key"), **CHEAP}
    lines = [f"line {i}" for i in range(100)]
    options: dict[str, Any] = shared.of_url(luks)
    url = f"luks::{shared.url('*.txt')}"
    dask.bag.from_sequence(lines, npartitions=4).to_textfiles(
        url, storage_options=options, compute_kwargs={"scheduler": "processes"}
    )
    assert len(shared.names()) == 4
    again = dask.bag.read_text(url, storage_options=options).compute(scheduler="processes")
    assert sorted(line.strip() for line in again) == sorted(lines)
    volumes = [luxor.Volume(io.BytesIO(shared.stored(name))) for name in shared.names()]
    assert len({volume.uuid for volume in volumes}) == 4
    digests = [volume.dump()["digests"]["0"]["digest"] for volume in volumes]
    assert len(set(digests)) == 4


class Service:
    """A key management service that hides nothing."""

    def encrypt(self, secret: bytes, context: dict[str, str], /) -> bytes:
        return json.dumps([context, secret.hex()]).encode()

    def decrypt(self, wrapped: bytes, context: dict[str, str], /) -> bytes:
        of, secret = json.loads(wrapped)
        assert of == context
        return bytes.fromhex(secret)


@pytest.mark.parametrize("size", [10, 40 << 20])
def test_a_wrapped_key_gets_its_token(target: Target, size: int) -> None:
    fs = target.filesystem(key=luxor.keys.WrappedKey(Service()))
    for name in "ab":
        with fs.open(target.url(name), "xb") as file:
            file.write(bytes(size))
    fs.pipe_file(target.url("a"), SECRET)
    assert fs.cat_file(target.url("a")) == SECRET and fs.cat_file(target.url("b")) == bytes(size)
    assert target.names() == ["a", "b"]
    tokens = luxor.Volume(io.BytesIO(target.stored("b"))).dump()["tokens"].values()
    token = next(token for token in tokens if token["type"] == luxor.keys.TOKEN)
    inner = target.luks.fs
    url = inner.unstrip_protocol(inner._strip_protocol(target.url("b")))
    assert token["context"] == {"volume": url}


def test_many_parts_are_no_more_than_s3_takes(monkeypatch: pytest.MonkeyPatch, bucket: Bucket) -> None:
    monkeypatch.setattr(_uploads, "PART_SIZE", 5 << 20)
    monkeypatch.setattr(_uploads, "MAX_PARTS", 3)
    target = of_s3(bucket)
    target.luks.pipe_file(target.url("v"), bytes(30 << 20))
    target.check("v", bytes(30 << 20))
