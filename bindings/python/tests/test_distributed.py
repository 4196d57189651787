# SPDX-License-Identifier: MIT OR Apache-2.0
"""Volumes in object storage that many workers make, with workers and servers that die meanwhile."""

from __future__ import annotations

import base64
import io
import json
import multiprocessing
import os
import pickle
import random
import signal
import time
import zlib
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.bag
import dask.distributed
import fsspec
import luxor
import pytest
from luxor import distributed, luksfs
from luxor.keys import KeyFile, KeyVariable, WrappedKey
from s3 import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.synchronize import Event

    from s3 import Bucket, FaultyS3, S3Server

PART = distributed.MIN_PART_SIZE
CHEAP: dict[str, Any] = {"pbkdf": "pbkdf2", "pbkdf_force_iterations": 1000}
#: How often programs are killed. 100 with the environment variable LUXOR_TEST_LONG.
KILLS = 100 if "LUXOR_TEST_LONG" in os.environ else 6

# Processes that begin with the modules loaded, and without the threads of this one.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["luxor.distributed", "s3fs"])


@pytest.fixture
def key(tmp_path: Path) -> KeyFile:
    path = tmp_path / "key"
    path.write_bytes(b"correct horse")
    return KeyFile(path)


@dataclass
class Job:
    """A source in a bucket, and the volume that is made of it."""

    bucket: Bucket
    key: Any
    plain: bytes

    @classmethod
    def of(cls, bucket: Bucket, key: Any, size: int) -> Job:
        plain = random.randbytes(size)
        bucket.fs.pipe_file(bucket.path("plain"), plain)
        return cls(bucket, key, plain)

    @property
    def options(self) -> dict[str, Any]:
        options = self.bucket.options
        return {"key": self.key, "source_options": options, "target_options": options}

    @property
    def urls(self) -> tuple[str, str]:
        return self.bucket.url("plain"), self.bucket.url("volume")

    def encrypt(self, **options: Any) -> None:
        distributed.encrypt(
            *self.urls, **{**self.options, "part_size": PART, **CHEAP, **options}
        )

    def resume(self, **options: Any) -> None:
        distributed.resume("encrypt", *self.urls, **{**self.options, **options})

    def abort(self) -> None:
        distributed.abort(self.bucket.url("volume"), target_options=self.bucket.options)

    def read(self, name: str) -> bytes:
        """Return an object, as it is now."""
        self.bucket.fs.invalidate_cache()
        data: bytes = self.bucket.fs.cat_file(self.bucket.path(name))
        return data

    def names(self) -> list[str]:
        self.bucket.fs.invalidate_cache()
        return sorted(os.path.basename(path) for path in self.bucket.fs.ls(self.bucket.name))

    def uploads(self) -> int:
        listed = self.bucket.fs.call_s3("list_multipart_uploads", Bucket=self.bucket.name)
        return len(listed.get("Uploads", []))

    def check(self) -> None:
        """Only the source and the whole volume are there, and the volume has the plaintext."""
        assert self.names() == ["plain", "volume"]
        assert self.uploads() == 0
        volume = io.BytesIO(self.read("volume"))
        secret = self.key({})
        with luxor.open(volume, passphrase=secret) as file:
            assert file.read() == self.plain


@pytest.mark.parametrize("size", [0, 1, 4096, PART - 1, PART, 2 * PART + 4097])
def test_every_length_comes_back(bucket: Bucket, key: KeyFile, size: int) -> None:
    job = Job.of(bucket, key, size)
    told: list[tuple[int, int]] = []
    job.encrypt(progress=lambda done, total: told.append((done, total)))
    job.check()
    assert told[-1] == (size, size)
    distributed.decrypt(
        bucket.url("volume"), bucket.url("again"), **job.options, part_size=PART
    )
    assert job.read("again") == job.plain


def test_cryptsetup_opens_the_volume(
    bucket: Bucket, key: KeyFile, tmp_path: Path, cryptsetup: Callable[..., str]
) -> None:
    job = Job.of(bucket, key, 5000)
    job.encrypt(label="from a cluster", sector_size=512)
    local = tmp_path / "volume"
    local.write_bytes(job.read("volume"))
    cryptsetup("open", "--test-passphrase", "--key-file", key.path, local)
    assert "from a cluster" in cryptsetup("luksDump", local)
    luxor.decrypt(local, tmp_path / "again", key_file=key.path)
    assert (tmp_path / "again").read_bytes() == job.plain


def test_a_shared_folder_is_a_target(tmp_path: Path, key: KeyFile) -> None:
    plain = random.randbytes(2 * PART + 5)
    (tmp_path / "plain").write_bytes(plain)
    names = {"plain", "volume", "key"}
    distributed.encrypt(
        f"file://{tmp_path}/plain", f"file://{tmp_path}/volume", key=key, part_size=PART, **CHEAP
    )
    assert {path.name for path in tmp_path.iterdir()} == names
    assert (tmp_path / "volume").stat().st_mode & 0o777 == 0o600
    distributed.decrypt(f"file://{tmp_path}/volume", f"file://{tmp_path}/again", key=key)
    assert (tmp_path / "again").read_bytes() == plain
    with pytest.raises(FileExistsError):
        distributed.decrypt(f"file://{tmp_path}/volume", f"file://{tmp_path}/again", key=key)
    distributed.decrypt(f"file://{tmp_path}/volume", f"file://{tmp_path}/again", key=key, force=True)
    assert {path.name for path in tmp_path.iterdir()} == {*names, "again"}


@pytest.fixture(scope="module")
def dask_client() -> Iterator[dask.distributed.Client]:
    with (
        dask.distributed.LocalCluster(n_workers=2, dashboard_address=None) as cluster,
        dask.distributed.Client(cluster) as client,
    ):
        yield client


def test_dask_runs_the_parts(
    bucket: Bucket, key: KeyFile, dask_client: dask.distributed.Client
) -> None:
    job = Job.of(bucket, key, 3 * PART)
    job.encrypt(executor=dask_client.get_executor())
    job.check()
    # Dask's own readers take the plaintext as that of any file.
    with fsspec.open(bucket.url("lines"), "wb", **bucket.options) as file:
        file.write(b"one\ntwo\nthree\n")
    distributed.encrypt(bucket.url("lines"), bucket.url("lines.luks"), **job.options, **CHEAP)
    lines = dask.bag.read_text(
        f"luks::{bucket.url('*.luks')}", storage_options={"key": key, "s3": bucket.options}
    )
    assert lines.compute(scheduler=dask_client) == ["one\n", "two\n", "three\n"]


def test_processes_run_the_parts(bucket: Bucket, key: KeyFile) -> None:
    job = Job.of(bucket, key, 3 * PART + 1)
    with ProcessPoolExecutor(2, processes) as executor:
        job.encrypt(executor=executor)
    job.check()


class TestKeys:
    def test_an_environment_variable(
        self, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LUXOR_TEST_KEY", "from the environment")
        job = Job.of(bucket, KeyVariable("LUXOR_TEST_KEY"), 100)
        job.encrypt()
        job.check()
        monkeypatch.delenv("LUXOR_TEST_KEY")
        with pytest.raises(luxor.MissingError, match="LUXOR_TEST_KEY with the key is not set"):
            distributed.decrypt(bucket.url("volume"), bucket.url("again"), **job.options)

    def test_a_key_service_wraps_a_secret_for_each_volume(self, bucket: Bucket) -> None:
        key = WrappedKey(Service())
        job = Job.of(bucket, key, 2 * PART)
        job.encrypt(pbkdf=None, pbkdf_force_iterations=None)
        distributed.decrypt(bucket.url("volume"), bucket.url("again"), **job.options)
        assert job.read("again") == job.plain
        volume = io.BytesIO(job.read("volume"))
        token = luxor.Volume(volume).token(1)
        assert token["type"] == "luxor-wrapped-key"
        assert token["context"] == {"volume": bucket.url("volume")}
        assert key(luxor.Volume(volume).dump()) not in volume.getvalue()

    def test_the_manifest_contains_no_key(self, bucket: Bucket, key: KeyFile) -> None:
        job = Job.of(bucket, key, 2 * PART)
        with pytest.raises(Stop):
            job.encrypt(progress=stop)
        manifest = job.read("volume.luxor-manifest")
        header = zlib.decompress(base64.b64decode(json.loads(manifest)["header"]))
        assert b"correct horse" not in manifest + header

    def test_a_wrong_key_of_one_worker_is_refused(
        self, bucket: Bucket, key: KeyFile, tmp_path: Path
    ) -> None:
        job = Job.of(bucket, WrongOnce(key, tmp_path / "marker"), 4 * PART)
        with (
            ProcessPoolExecutor(2, processes) as executor,
            pytest.raises(luxor.WrongPassphrase),
        ):
            job.encrypt(executor=executor)
        assert "volume" not in job.names()
        job.key = key
        job.resume()
        job.check()


class Service:
    """A key service whose key is one byte."""

    def encrypt(self, secret: bytes, context: dict[str, str], /) -> bytes:
        return bytes(byte ^ 0x5A for byte in secret) + context["volume"].encode()

    def decrypt(self, wrapped: bytes, context: dict[str, str], /) -> bytes:
        assert wrapped[32:].decode() == context["volume"]
        return bytes(byte ^ 0x5A for byte in wrapped[:32])


@dataclass(frozen=True)
class WrongOnce:
    """Gives the first worker that asks a wrong key. The program itself gets the right one."""

    key: KeyFile
    marker: Path

    def __call__(self, metadata: dict[str, Any], /) -> bytes:
        if metadata and _is_first(self.marker):
            return b"wrong"
        return self.key(metadata)


def _is_first(marker: Path) -> bool:
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class Stop(Exception):
    """Raised by `stop`."""


def stop(done: int, total: int) -> None:
    raise Stop


class TestUnfinished:
    def test_nothing_but_the_manifest_is_visible(self, bucket: Bucket, key: KeyFile) -> None:
        job = Job.of(bucket, key, 3 * PART)
        with pytest.raises(Stop) as raised:
            job.encrypt(progress=stop)
        assert "luxor.distributed.resume" in raised.value.__notes__[0]
        assert job.names() == ["plain", "volume.luxor-manifest"]
        with pytest.raises(FileExistsError, match="resume or abort"):
            job.encrypt()
        job.abort()
        assert job.names() == ["plain"]
        assert job.uploads() == 0

    def test_only_what_is_missing_is_done(self, faulty_s3: FaultyS3, key: KeyFile) -> None:
        job = Job.of(faulty_s3.bucket, key, 5 * PART)
        with ThreadPoolExecutor(1) as executor, pytest.raises(Stop):
            job.encrypt(progress=stop_after(3 * PART), executor=executor)
        before = len(faulty_s3.requests)
        job.resume()
        made = {request.part for request in faulty_s3.requests[before:]} - {None}
        # Parts 2 to 4 are recorded. Part 1 is the header.
        assert made == {1, 5, 6}
        job.check()

    def test_a_part_that_is_not_stored_as_recorded_is_made_again(
        self, bucket: Bucket, key: KeyFile, tmp_path: Path
    ) -> None:
        (tmp_path / "plain").write_bytes(plain := random.randbytes(3 * PART))
        source, target = f"file://{tmp_path}/plain", f"file://{tmp_path}/volume"
        with pytest.raises(Stop):
            distributed.encrypt(
                source, target, key=key, part_size=PART, progress=stop_after(2 * PART), **CHEAP
            )
        [unfinished] = tmp_path.glob(".volume.luxor-*")
        with open(unfinished, "r+b") as file:
            file.seek((16 << 20) + 100)
            file.write(b"damage")
        distributed.resume("encrypt", source, target, key=key)
        with luxor.open(tmp_path / "volume", key_file=key.path) as file:
            assert file.read() == plain

    def test_a_source_that_changes_is_refused(self, bucket: Bucket, key: KeyFile) -> None:
        job = Job.of(bucket, key, 3 * PART)
        with pytest.raises(Stop):
            job.encrypt(progress=stop)
        bucket.fs.pipe_file(bucket.path("plain"), bytes(3 * PART))
        with pytest.raises(OSError, match="has changed since the work began") as changed:
            job.resume()
        [note] = changed.value.__notes__
        assert "abort removes them" in note
        assert "resume" not in note
        assert "volume" not in job.names()

    def test_a_volume_that_changes_is_not_decrypted_in_part(
        self, bucket: Bucket, key: KeyFile
    ) -> None:
        job = Job.of(bucket, key, 3 * PART)
        job.encrypt()
        names = (bucket.url("volume"), bucket.url("again"))
        with pytest.raises(Stop):
            distributed.decrypt(*names, **job.options, part_size=PART, progress=stop)
        job.encrypt(force=True)
        with pytest.raises(OSError, match="has changed since the work began"):
            distributed.resume("decrypt", *names, **job.options)
        assert "again" not in job.names()

    def test_a_target_that_appears_meanwhile_is_kept(self, bucket: Bucket, key: KeyFile) -> None:
        job = Job.of(bucket, key, 2 * PART)

        def appear(done: int, total: int) -> None:
            bucket.fs.pipe_file(bucket.path("volume"), b"theirs")

        with pytest.raises(FileExistsError):
            job.encrypt(progress=appear)
        assert job.read("volume") == b"theirs"
        job.resume(force=True)
        job.check()

    def test_an_upload_that_is_gone_is_an_error(self, bucket: Bucket, key: KeyFile) -> None:
        job = Job.of(bucket, key, 2 * PART)
        with pytest.raises(Stop):
            job.encrypt(progress=stop)
        saved = job.read("volume.luxor-manifest")
        job.abort()
        bucket.fs.pipe_file(bucket.path("volume.luxor-manifest"), saved)
        with pytest.raises(luxor.Error, match="no longer exists"):
            job.resume()
        job.abort()
        assert job.names() == ["plain"]

    def test_a_manifest_that_outlives_its_upload_is_removed(
        self, bucket: Bucket, key: KeyFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = Job.of(bucket, key, 2 * PART)
        with monkeypatch.context() as patched:
            # The program ends between the two last steps.
            patched.setattr(distributed._Files, "remove_manifest", lambda files: stop(0, 0))
            with pytest.raises(Stop):
                job.encrypt()
            assert job.names() == ["plain", "volume", "volume.luxor-manifest"]
        job.resume()
        job.check()
        names = (bucket.url("volume"), bucket.url("again"))
        with monkeypatch.context() as patched:
            patched.setattr(distributed._Files, "remove_manifest", lambda files: stop(0, 0))
            with pytest.raises(Stop):
                distributed.decrypt(*names, **job.options)
        distributed.resume("decrypt", *names, **job.options)
        assert job.names() == ["again", "plain", "volume"]

    def test_a_file_with_both_names_is_complete(
        self, tmp_path: Path, key: KeyFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "plain").write_bytes(b"plain")
        names = (f"file://{tmp_path}/plain", f"file://{tmp_path}/volume")

        def unlink(path: str, *, dir_fd: int) -> None:
            raise Stop

        with monkeypatch.context() as patched:
            patched.setattr("luxor._uploads.os.unlink", unlink)
            with pytest.raises(Stop):
                distributed.encrypt(*names, key=key, **CHEAP)
        assert len(list(tmp_path.glob(".volume.luxor-*"))) == 1
        distributed.resume("encrypt", *names, key=key)
        assert {path.name for path in tmp_path.iterdir()} == {"key", "plain", "volume"}

    def test_an_upload_without_a_manifest_is_removed(
        self, bucket: Bucket, key: KeyFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = Job.of(bucket, key, 2 * PART)
        save = distributed._Files.save

        def fail(files: Any, work: Any, *, new: bool = False) -> None:
            save(files, work, new=new) if new else stop(0, 0)

        with monkeypatch.context() as patched:
            # The program ends when it has begun the upload.
            patched.setattr(distributed._Files, "save", fail)
            with pytest.raises(Stop):
                job.encrypt()
        assert job.uploads() == 1
        job.resume()
        job.check()

    def test_other_work_is_not_resumed(self, bucket: Bucket, key: KeyFile) -> None:
        job = Job.of(bucket, key, 2 * PART)
        with pytest.raises(Stop):
            job.encrypt(progress=stop)
        with pytest.raises(luxor.Error, match="the manifest says encrypt"):
            distributed.resume("decrypt", *job.urls, **job.options)
        manifest = json.loads(job.read("volume.luxor-manifest"))
        manifest["source"] = bucket.url("other")
        name = bucket.path("volume.luxor-manifest")
        bucket.fs.pipe_file(name, json.dumps(manifest).encode())
        with pytest.raises(luxor.Error, match="was not written with this key for this target"):
            job.resume()

    def test_a_manifest_that_is_exchanged_is_noticed(
        self, bucket: Bucket, key: KeyFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = Job.of(bucket, key, 2 * PART)
        monkeypatch.setattr(distributed.Manifest, "digest", lambda work: random.randbytes(8).hex())
        with pytest.raises(luxor.Error, match="the manifest has changed"):
            job.encrypt()

    def test_new_options_and_keys_are_used(self, bucket: Bucket, key: KeyFile) -> None:
        job = Job.of(bucket, key, 2 * PART)
        wrong = job.key
        with pytest.raises(luxor.WrongPassphrase):
            job.encrypt(key=lambda metadata: b"wrong" if metadata else wrong({}))
        job.resume()
        job.check()


def stop_after(count: int) -> Callable[[int, int], None]:
    return lambda done, total: stop(done, total) if done >= count else None


class TestFaults:
    @pytest.mark.parametrize("status", [500, 503])
    def test_servers_that_are_busy_are_asked_again(
        self, faulty_s3: FaultyS3, key: KeyFile, status: int
    ) -> None:
        job = Job.of(faulty_s3.bucket, key, 3 * PART)
        fault = Fault(lambda request: request.part is not None, times=3, status=status)
        faulty_s3.add(fault)
        job.encrypt()
        job.check()
        assert fault.met == 3

    def test_a_part_that_arrives_cut_is_not_stored(
        self, faulty_s3: FaultyS3, key: KeyFile
    ) -> None:
        job = Job.of(faulty_s3.bucket, key, 3 * PART)
        cuts = [
            Fault(lambda request: request.part is not None, times=2, cut_request=1 << 20),
            Fault(lambda request: request.range is not None, times=2, cut_response=100),
        ]
        for cut in cuts:
            faulty_s3.add(cut)
        try:
            job.encrypt()
        except OSError:
            job.resume()
        job.check()
        assert [cut.met for cut in cuts] == [2, 2]

    def test_credentials_that_expire(self, faulty_s3: FaultyS3, key: KeyFile) -> None:
        job = Job.of(faulty_s3.bucket, key, 4 * PART)
        faulty_s3.add(Fault(lambda request: (request.part or 0) > 2, times=1000, status=400))
        with pytest.raises(OSError, match="A fault of the tests"):
            job.encrypt()
        assert job.names() == ["plain", "volume.luxor-manifest"]
        faulty_s3.clear()
        job.resume()
        job.check()

    def test_a_part_that_is_stored_twice(
        self, bucket: Bucket, key: KeyFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = Job.of(bucket, key, 3 * PART)
        make = distributed._Worker.make

        def make_twice(worker: Any, number: int) -> Any:
            assert make(worker, number) == make(worker, number)
            return make(worker, number)

        monkeypatch.setattr(distributed._Worker, "make", make_twice)
        job.encrypt()
        job.check()

    def test_a_server_that_is_killed(
        self, s3_server: S3Server, bucket: Bucket, key: KeyFile
    ) -> None:
        job = Job.of(bucket, key, 6 * PART)
        killed: list[int] = []

        def kill(done: int, total: int) -> None:
            if not killed:
                killed.append(done)
                s3_server.kill()

        try:
            job.encrypt(progress=kill)
        except Exception:
            pass
        assert killed
        s3_server.start()
        job.resume()
        job.check()

    def test_a_worker_that_is_killed(
        self, bucket: Bucket, key: KeyFile, tmp_path: Path
    ) -> None:
        job = Job.of(bucket, DiesOnce(key, tmp_path / "marker"), 4 * PART)
        with ProcessPoolExecutor(2, processes) as executor, pytest.raises(BrokenProcessPool):
            job.encrypt(executor=executor)
        with ProcessPoolExecutor(2, processes) as executor:
            job.resume(executor=executor)
        job.check()

    def test_programs_that_are_killed_leave_nothing_half_done(
        self, bucket: Bucket, key: KeyFile
    ) -> None:
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        rng = random.Random(seed)
        job = Job.of(bucket, key, 4 * PART + 1)
        whole = _runs(job, None)
        assert whole is not None
        kills = finished = 0
        while kills < KILLS:
            if _runs(job, rng.uniform(0, 1.2 * whole)) is not None:
                finished += 1
            else:
                kills += 1
                left = {"plain", "volume", "volume.luxor-manifest"}
                assert set(job.names()) <= left
        assert _runs(job, None) is not None
        print(f"{kills} kills, {finished} volumes finished between them")


def _runs(job: Job, seconds: float | None) -> float | None:
    """Run `_work` in a process that is killed after some time. Return how long it took.

    None means that it was killed before its end. Otherwise the volume is right, and is removed.
    """
    ready = processes.Event()
    process = processes.Process(target=_work, args=(job, ready))
    process.start()
    ready.wait()
    begun = time.monotonic()
    process.join(seconds)
    taken = time.monotonic() - begun
    if process.exitcode is None and process.pid is not None:
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    volume = job.bucket.path("volume")
    job.bucket.fs.invalidate_cache()
    if job.bucket.fs.exists(volume):
        # A visible volume is whole, even if the program was killed afterwards.
        data = io.BytesIO(job.read("volume"))
        with luxor.open(data, passphrase=job.key({})) as file:
            assert file.read() == job.plain
    if process.exitcode != 0:
        assert process.exitcode == -signal.SIGKILL
        return None
    job.check()
    job.bucket.fs.rm_file(volume)
    return taken


def _work(job: Job, ready: Event) -> None:
    """Begin to encrypt, or continue."""
    is_begun = job.bucket.fs.exists(job.bucket.path("volume.luxor-manifest"))
    ready.set()
    if is_begun:
        job.resume()
    else:
        job.encrypt(force=True)


@dataclass(frozen=True)
class DiesOnce:
    """Kills the first worker that asks for the key."""

    key: KeyFile
    marker: Path

    def __call__(self, metadata: dict[str, Any], /) -> bytes:
        if metadata and _is_first(self.marker):
            os.kill(os.getpid(), signal.SIGKILL)
        return self.key(metadata)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"part_size": PART - 4096}, "part_size must be at least"),
        ({"part_size": PART + 1}, "a multiple of 4096"),
        ({"sector_size": 100}, "sector_size"),
    ],
)
def test_wrong_arguments(
    bucket: Bucket, key: KeyFile, options: dict[str, Any], message: str
) -> None:
    job = Job.of(bucket, key, 10)
    with pytest.raises(ValueError, match=message):
        job.encrypt(**options)
    assert job.names() == ["plain"]
    assert job.uploads() == 0


def test_options_that_cannot_be_sent_are_refused_before_work(tmp_path: Path, key: KeyFile) -> None:
    """There is no manifest to abort, and threads need not send them."""
    inner, outer = tmp_path / "inner", f"file://{tmp_path}/outer"
    luxor.encrypt(io.BytesIO(b"plain"), inner, passphrase="x", pbkdf="pbkdf2", iter_time=0.01)
    options: dict[str, Any] = {"key": key, "source_options": {"passphrase": "x"}, "iter_time": 0.01}
    call = partial(distributed.encrypt, f"luks::file://{inner}", outer, **options)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        others: list[dict[str, Any]] = [{}, {"key": lambda _: "x"}]
        for changes in others:
            with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
                call(executor=processes, **changes)
        assert sorted(os.listdir(tmp_path)) == sorted(["inner", os.path.basename(key.path)])
    with ThreadPoolExecutor(1) as threads:
        call(executor=threads)
    with luxor.open(tmp_path / "outer", key_file=key.path) as file:
        assert file.read() == b"plain"


def test_a_source_that_goes_on_after_its_end_is_refused(
    tmp_path: Path, key: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"more than is said")
    opened = luksfs.StoredFile.__init__

    def shortened(self: luksfs.StoredFile, *args: Any) -> None:
        opened(self, *args)
        self._size = 4

    monkeypatch.setattr(luksfs.StoredFile, "__init__", shortened)
    with pytest.raises(OSError, match="says that it has 4 bytes, and it has more"):
        distributed.encrypt(f"file://{source}", f"file://{target}", key=key)
    assert not target.exists()


def test_storage_without_uploads_in_parts_is_refused(key: KeyFile) -> None:
    fsspec.filesystem("memory").pipe_file("/plain", b"x")
    with pytest.raises(OSError, match="no upload in parts"):
        distributed.encrypt("memory://plain", "memory://volume", key=key, **CHEAP)


def test_a_folder_is_no_source(bucket: Bucket, key: KeyFile) -> None:
    job = Job.of(bucket, key, 10)
    bucket.fs.pipe_file(bucket.path("folder/one"), b"one")
    with pytest.raises(IsADirectoryError):
        distributed.encrypt(bucket.url("folder"), bucket.url("volume"), **job.options)


def test_messages_say_what_is_wrong(bucket: Bucket, key: KeyFile, tmp_path: Path) -> None:
    job = Job.of(bucket, key, 10)
    with pytest.raises(TypeError, match="key must be a provider"):
        job.encrypt(key=str(key.path))
    with pytest.raises(luxor.MissingError, match="there is no key file"):
        job.encrypt(key=KeyFile(tmp_path / "nothing"))
    with pytest.raises(FileNotFoundError, match="there is no unfinished work"):
        job.resume()
    with pytest.raises(FileNotFoundError, match="there is no unfinished work"):
        job.abort()
    assert job.names() == ["plain"]


def test_a_missing_source(bucket: Bucket, key: KeyFile) -> None:
    with pytest.raises(FileNotFoundError):
        distributed.encrypt(
            bucket.url("nothing"),
            bucket.url("volume"),
            key=key,
            source_options=bucket.options,
            target_options=bucket.options,
        )


