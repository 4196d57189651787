# SPDX-License-Identifier: MIT OR Apache-2.0
"""Manifests that others can write: what they contain is not used before it is authenticated."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import re
import stat
import time
import tracemalloc
import zlib
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import luxor
import pytest
import s3fs
from conftest import CHEAP
from hypothesis import given, settings
from hypothesis import strategies as st
from luxor import _manifest, _uploads, distributed
from luxor._manifest import Manifest
from luxor.keys import KeyFile, WrappedKey
from s3 import Fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from s3 import Bucket, FaultyS3

PART = distributed.MIN_PART_SIZE
NOT_AUTHENTIC = "was not written with this key for this target"


class Stop(Exception):
    """Raised by `stop`."""


def stop(done: int, total: int) -> None:
    raise Stop


class Service:
    """A key service that anyone may call, as one whose users have a role in common."""

    def encrypt(self, secret: bytes, context: dict[str, str], /) -> bytes:
        return bytes(byte ^ 0x5A for byte in secret)

    def decrypt(self, wrapped: bytes, context: dict[str, str], /) -> bytes:
        return bytes(byte ^ 0x5A for byte in wrapped)


@pytest.fixture
def key(tmp_path: Path) -> KeyFile:
    path = tmp_path / "key"
    path.write_bytes(b"correct horse")
    return KeyFile(path)


class Work:
    """An unfinished volume in a local folder that others can write to."""

    def __init__(self, folder: Path, key: Any, name: str = "volume", **options: Any) -> None:
        self.folder = folder
        self.key = key
        self.plain = random.randbytes(2 * PART + 5)
        is_long = len(name.encode()) > 200
        self.source, self.target = folder / ("plain" if is_long else f"{name}.plain"), folder / name
        before = set(folder.iterdir())
        self.source.write_bytes(self.plain)
        with ThreadPoolExecutor(1) as executor, pytest.raises(Stop):
            options = {"key": key, "part_size": PART, "executor": executor, **CHEAP, **options}
            source, target = self.names
            distributed.encrypt(source, target, progress=stop, **options)
        made = set(folder.iterdir()) - before - {self.source}
        [self.manifest] = {path for path in made if path.name.endswith(".luxor-manifest")}
        [self.temporary] = made - {self.manifest}

    @property
    def names(self) -> tuple[str, str]:
        return f"file://{self.source}", f"file://{self.target}"

    def resume(self, **options: Any) -> None:
        distributed.resume("encrypt", *self.names, **{"key": self.key, **options})

    def abort(self, **options: Any) -> None:
        distributed.abort(self.names[1], **options)

    def is_refused(self, match: str, **options: Any) -> None:
        """Both calls that read the manifest raise an error of Luxor."""
        with pytest.raises(luxor.Error, match=match):
            self.resume(**options)
        with pytest.raises(luxor.Error, match=match):
            self.abort(**{"key": self.key, **options})

    def read(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads(self.manifest.read_bytes())
        return values

    def write(self, **values: Any) -> None:
        """Replace fields of the manifest, in the right form but without the key, as an attacker does."""
        self.manifest.write_bytes(in_form({**self.read(), **values}))

    def check(self) -> None:
        with luxor.open(self.target, key_file=self.key.path) as file:
            assert file.read() == self.plain


def in_form(values: dict[str, Any]) -> bytes:
    values = dict(values)
    mac, parts = values.pop("mac", ""), values.pop("parts", {})
    values.pop("schema", None)
    work = json.dumps(values)[1:-1]
    return (
        f'{{"schema": 2, "mac": "{mac}",\n{work},\n"parts": {json.dumps(parts)}}}\n'
    ).encode()


def encoded_header(key: Any) -> str:
    """Return another header as a manifest has it."""
    header = distributed.header_for(2 * PART + 5, "volume", key, CHEAP)
    return base64.b64encode(zlib.compress(header.keyslots)).decode()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


def test_the_work_of_the_same_key_goes_on(shared: Path, key: KeyFile) -> None:
    work = Work(shared, key)
    work.resume()
    work.check()
    assert {path.name for path in shared.iterdir()} == {"volume.plain", "volume"}


@pytest.mark.parametrize("outside", ["x/../../victim", "../victim", "/victim", "../../victim:1", ""])
def test_an_upload_id_leads_nowhere(
    shared: Path, key: KeyFile, tmp_path: Path, outside: str
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"of the caller")
    work = Work(shared, key)
    # The names that a join would make.
    (shared / ".volume.luxor-x").mkdir()
    work.write(upload_id=f"{outside}:{victim.stat().st_ino}")
    work.is_refused(NOT_AUTHENTIC)
    with pytest.raises(luxor.Error, match=NOT_AUTHENTIC):
        work.resume(force=True)
    assert work.temporary.exists()
    work.abort()
    assert victim.read_bytes() == b"of the caller"
    assert not work.temporary.exists() and not work.manifest.exists()


@pytest.mark.parametrize("id", ["x/../../victim:1", "../a:5", f"{'a' * 32}:x", f"{'a' * 33}:1", ""])
def test_uploads_have_only_ids_that_luxor_makes(shared: Path, id: str) -> None:
    with pytest.raises(luxor.Error, match="not one that Luxor makes"):
        _uploads.FileUpload(str(shared / "volume"), id)


def plant_link(work: Work, victim: Path) -> None:
    work.temporary.unlink()
    work.temporary.symlink_to(victim)


def plant_hard_link(work: Work, victim: Path) -> None:
    work.temporary.unlink()
    os.link(victim, work.temporary)


def plant_pipe(work: Work, victim: Path) -> None:
    work.temporary.unlink()
    os.mkfifo(work.temporary)


@pytest.mark.parametrize("plant", [plant_link, plant_hard_link, plant_pipe])
def test_nothing_that_is_planted_is_written_through(
    shared: Path, key: KeyFile, tmp_path: Path, plant: Callable[[Work, Path], None]
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(bytes(100))
    work = Work(shared, key)
    plant(work, victim)
    with pytest.raises((OSError, luxor.Error)):
        work.resume(force=True)
    upload = _uploads.FileUpload(str(work.target), work.read()["upload_id"])
    for write in (
        lambda: upload.put(2, 0, b"x" * 50),
        lambda: upload.complete({}, force=True),
        lambda: upload.stored({2: {"offset": "0", "crc32": "0"}}, {2: 1}),
    ):
        with pytest.raises((OSError, luxor.Error)):
            write()
    work.abort(key=key)
    assert victim.read_bytes() == bytes(100)
    assert stat.S_ISREG(victim.lstat().st_mode)


def test_a_folder_that_is_exchanged_meanwhile_changes_nothing(shared: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    upload = _uploads.FileUpload(str(shared / "volume"))
    shared.rename(tmp_path / "moved")
    shared.symlink_to(elsewhere)
    upload.complete({1: upload.put(1, 0, b"data")}, force=False)
    assert contents(tmp_path / "moved") == {"volume": b"data"}
    assert contents(elsewhere) == {}


def test_a_link_in_place_of_the_target_is_replaced(shared: Path, key: KeyFile, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"of the caller")
    work = Work(shared, key)
    work.target.symlink_to(victim)
    with pytest.raises(FileExistsError):
        work.resume()
    work.resume(force=True)
    work.check()
    assert victim.read_bytes() == b"of the caller" and not work.target.is_symlink()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "device"])
def test_a_manifest_is_a_regular_file(
    shared: Path, key: KeyFile, tmp_path: Path, kind: str
) -> None:
    work = Work(shared, key)
    saved = work.manifest.read_bytes()
    work.manifest.unlink()
    if kind == "link":
        (tmp_path / "saved").write_bytes(saved)
        work.manifest.symlink_to(tmp_path / "saved")
    elif kind == "pipe":
        os.mkfifo(work.manifest)
    elif kind == "folder":
        work.manifest.mkdir()
    else:
        work.manifest.symlink_to("/dev/zero")
    calls: list[Callable[[], None]] = [work.resume, lambda: work.abort(key=key)]
    for call in calls:
        with pytest.raises(OSError) as raised:
            call()
        assert raised.value.filename == str(work.manifest)
        if work.manifest.is_symlink():
            assert "this is a link" in str(raised.value)
    # An empty folder is removed as the other kinds are.
    work.abort()
    assert not os.path.lexists(work.manifest) and not work.temporary.exists()


def test_a_folder_with_files_is_kept_and_named(shared: Path, key: KeyFile) -> None:
    work = Work(shared, key)
    work.manifest.unlink()
    work.manifest.mkdir()
    (work.manifest / "kept").write_bytes(b"kept")
    with pytest.raises(luxor.Error, match="a folder is in the place") as raised:
        work.abort()
    assert str(work.manifest) in str(raised.value)
    assert contents(work.manifest) == {"kept": b"kept"} and not work.temporary.exists()


def test_a_long_path_is_shortened_in_messages(tmp_path: Path) -> None:
    below = tmp_path.joinpath(*["folder" * 20] * 6)
    below.mkdir(parents=True)
    (below / "link").symlink_to("elsewhere")
    with pytest.raises(OSError, match="this is a link") as raised:
        _uploads.Folder(str(below)).open("link", os.O_RDONLY)
    assert len(str(below)) > 600 > len(str(raised.value))
    assert str(raised.value).endswith("link'")


@pytest.mark.parametrize("length", [1, 199, 200, 201, 215, 216, 240, 241, 255])
def test_names_of_any_length_are_targets(shared: Path, key: KeyFile, length: int) -> None:
    work = Work(shared, key, ("ä" * length).encode()[: length // 2 * 2].decode() + "n" * (length % 2))
    assert len(work.target.name.encode()) == length
    work.resume()
    work.check()
    assert contents(shared).keys() == {work.source.name, work.target.name}


def test_unfinished_work_with_a_long_name_is_removed(shared: Path, key: KeyFile) -> None:
    other, work = (Work(shared, key, "n" * 254 + end) for end in "ab")
    work.abort()
    assert not work.temporary.exists() and not work.manifest.exists()
    other.abort(key=key)
    assert contents(shared).keys() == {"plain"}


def test_a_manifest_shows_names_lengths_and_the_header(shared: Path, key: KeyFile) -> None:
    """What SECURITY.md lists, and no secret."""
    work = Work(shared, key)
    shown = work.read()
    assert shown.keys() == {
        *("schema", "mac", "operation", "source", "target", "identity", "size", "length"),
        *("part_size", "header_length", "header", "upload_id", "parts"),
    }
    assert (shown["source"], shown["target"]) == work.names
    assert shown["size"] == len(work.plain) and shown["identity"].startswith(f"{len(work.plain)} bytes")
    [(number, part)] = shown["parts"].items()
    assert number == "2" and part.keys() == {"offset", "crc32"}
    # The record of a part is about the ciphertext.
    header = zlib.decompress(base64.b64decode(shown["header"]))
    work.resume()
    stored = work.target.read_bytes()
    offset = int(part["offset"])
    assert part["crc32"] == f"{zlib.crc32(stored[offset : offset + PART]):08x}"
    # The header is that of the volume, whose volume key only the secret opens.
    assert stored.startswith(header)
    assert b"correct horse" not in header and "correct horse" not in json.dumps(shown)


def test_an_older_manifest_makes_parts_again(shared: Path, key: KeyFile) -> None:
    work = Work(shared, key)
    older = work.manifest.read_bytes()
    with ThreadPoolExecutor(1) as executor, pytest.raises(Stop):
        work.resume(progress=stop, executor=executor)
    assert len(work.read()["parts"]) > len(json.loads(older)["parts"]) == 1
    work.manifest.write_bytes(older)
    made: list[int] = []
    work.resume(progress=lambda done, total: made.append(done))
    assert len(made) == 2
    work.check()


class TestHeaders:
    def test_another_header_is_refused(self, shared: Path, key: KeyFile) -> None:
        """One that the attacker has made, and one of another volume of the same caller."""
        work = Work(shared, key)
        other = Work(shared, key, "other")
        for header in (encoded_header(lambda metadata: b"theirs"), other.read()["header"]):
            work.write(header=header)
            with pytest.raises(luxor.Error, match=NOT_AUTHENTIC):
                work.resume()

    def test_the_manifest_of_another_target_is_refused(self, shared: Path, key: KeyFile) -> None:
        """Otherwise two volumes would have one volume key."""
        work, other = Work(shared, key), Work(shared, key, "other")
        work.manifest.write_bytes(other.manifest.read_bytes())
        work.is_refused(NOT_AUTHENTIC)
        work.abort()
        assert other.temporary.exists()
        other.resume()
        other.check()

    def test_a_wrong_key_authenticates_nothing(self, shared: Path, key: KeyFile) -> None:
        work = Work(shared, key)
        with pytest.raises(luxor.Error, match=NOT_AUTHENTIC):
            work.resume(key=lambda metadata: b"another")

    def test_a_key_service_that_others_may_call_authenticates_nothing(
        self, shared: Path, key: KeyFile
    ) -> None:
        wrapped = WrappedKey(Service())
        work = Work(shared, wrapped)
        assert work.read()["mac"] == ""
        # The attacker has a header of the same service.
        work.write(header=encoded_header(wrapped))
        work.is_refused("give manifest_key")
        with pytest.raises(luxor.Error, match=NOT_AUTHENTIC):
            work.resume(manifest_key=key)
        with pytest.raises(luxor.Error, match="give manifest_key"):
            work.resume(manifest_key=wrapped)
        work.abort()

    def test_another_secret_authenticates_the_manifest_of_a_wrapped_key(
        self, shared: Path, key: KeyFile
    ) -> None:
        wrapped = WrappedKey(Service())
        work = Work(shared, wrapped, manifest_key=key)
        saved = work.manifest.read_bytes()
        work.write(header=encoded_header(wrapped))
        with pytest.raises(luxor.Error, match=NOT_AUTHENTIC):
            work.resume(manifest_key=key)
        work.manifest.write_bytes(saved)
        work.resume(manifest_key=key)
        fs = fsspec.filesystem("luks", key=wrapped)
        assert fs.cat_file(str(work.target)) == work.plain

    def test_a_provider_that_needs_metadata_decrypts_but_does_not_continue(
        self, shared: Path, key: KeyFile
    ) -> None:
        work = Work(shared, key)
        work.resume()

        def by_uuid(metadata: dict[str, Any]) -> bytes:
            return {str(metadata["config"]): b"correct horse"}[str(metadata["config"])]

        names = (work.names[1], f"file://{shared}/again")
        with pytest.raises(Stop) as raised:
            distributed.decrypt(*names, key=by_uuid, progress=stop)
        assert "resume" not in raised.value.__notes__[0]
        with pytest.raises(luxor.Error, match="no secret that authenticates"):
            distributed.resume("decrypt", *names, key=by_uuid)
        distributed.abort(names[1])
        distributed.decrypt(*names, key=by_uuid)
        assert (shared / "again").read_bytes() == work.plain

    def test_a_manifest_that_is_exchanged_while_workers_run_is_noticed(
        self, shared: Path, key: KeyFile
    ) -> None:
        plain = shared / "plain"
        plain.write_bytes(random.randbytes(PART))
        manifest = shared / "volume.luxor-manifest"
        header = encoded_header(lambda metadata: b"theirs")

        class Exchange(Executor):
            """Exchanges the header before the worker reads the manifest."""

            def submit(self, call: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
                manifest.write_bytes(in_form({**json.loads(manifest.read_bytes()), "header": header}))
                future: Future[Any] = Future()
                try:
                    future.set_result(call(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)
                return future

        with pytest.raises(luxor.Error, match="the manifest has changed"):
            distributed.encrypt(
                f"file://{plain}", f"file://{shared}/volume", key=key, executor=Exchange(), **CHEAP
            )
        assert not (shared / "volume").exists()


class TestBounds:
    def test_a_long_manifest_is_not_read(self, shared: Path, key: KeyFile) -> None:
        work = Work(shared, key)
        os.truncate(work.manifest, 1 << 40)
        tracemalloc.start()
        try:
            work.is_refused("has more than")
            assert tracemalloc.get_traced_memory()[1] < 100 << 20
        finally:
            tracemalloc.stop()
        work.abort()

    def test_a_compressed_header_is_not_expanded(self, shared: Path, key: KeyFile) -> None:
        """4 MB that would be 6 GiB."""
        work = Work(shared, key)
        compressor = zlib.compressobj(9)
        bomb = b"".join(compressor.compress(bytes(1 << 24)) for _ in range(180)) + compressor.flush()
        work.write(header=base64.b64encode(bomb).decode())
        assert work.manifest.stat().st_size > 3_000_000
        tracemalloc.start()
        try:
            with pytest.raises(luxor.Error, match=NOT_AUTHENTIC):
                work.resume()
            assert tracemalloc.get_traced_memory()[1] < 100 << 20
        finally:
            tracemalloc.stop()
        # Neither by a worker, to which the caller has sent the digest.
        found = _manifest.FORM.fullmatch(work.manifest.read_bytes())
        assert found is not None
        digest = hashlib.sha256(found["work"]).hexdigest()
        parsed = Manifest.with_digest(work.manifest.read_bytes(), digest, "it")
        assert len(parsed.header) <= _manifest.MAX_HEADER

    @pytest.mark.parametrize("size", [1 << 62, -1, 10_000 * PART])
    def test_a_size_beyond_all_parts_is_refused(
        self, shared: Path, key: KeyFile, size: int
    ) -> None:
        work = Work(shared, key)
        work.write(size=size, length=size)
        with pytest.raises(luxor.Error, match=NOT_AUTHENTIC):
            work.resume()
        manifest = Manifest("decrypt", "a", "b", "c", size, size, PART, 0, b"", "", {})
        begun = time.monotonic()
        with pytest.raises(ValueError, match="part_size"):
            manifest.plan()
        assert time.monotonic() - begun < 10

    def test_a_storage_that_states_a_huge_length_is_refused(
        self, shared: Path, key: KeyFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plain = shared / "plain"
        plain.write_bytes(b"x")
        monkeypatch.setattr("luxor.luksfs.StoredFile.__len__", lambda file: 1 << 62)
        with pytest.raises(ValueError, match="part_size"):
            distributed.encrypt(f"file://{plain}", f"file://{shared}/volume", key=key, **CHEAP)
        assert contents(shared) == {"plain": b"x"}


def test_abort_removes_only_what_has_the_name_of_the_target(
    shared: Path, key: KeyFile, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, other = Work(shared, key), Work(shared, key, "other")
    kept = {
        f".volume.luxor-{'g' * 32}",
        f".volume.luxor-{'a' * 31}",
        f".volume2.luxor-{'a' * 32}",
        ".volume.luxor-new",
    }
    for name in kept:
        (shared / name).write_bytes(b"kept")
    (shared / f".volume.luxor-{'b' * 32}").mkdir()
    work.manifest.write_bytes(b"no manifest at all")
    work.abort()
    assert not work.temporary.exists() and not work.manifest.exists()
    assert kept <= {path.name for path in shared.iterdir()}
    assert other.temporary.exists() and other.manifest.exists()
    # Of S3 the uploads to this object.
    for name in (*["volume"] * 5, "volume/2", "volume2", "volume3", "volume4"):
        _uploads.S3Upload(bucket.fs, bucket.path(name))
    bucket.put("volume.luxor-manifest", b"no manifest")
    # The listing has pages, here short ones.
    call_s3, pages = s3fs.S3FileSystem.call_s3, []

    def call(fs: Any, name: str, *args: Any, **options: Any) -> Any:
        if name == "list_multipart_uploads":
            options["MaxUploads"] = 2
            pages.append(options)
        return call_s3(fs, name, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(s3fs.S3FileSystem, "call_s3", call)
        distributed.abort(bucket.url("volume"), target_options=bucket.options)
    assert len(pages) == 5
    listed = bucket.fs.call_s3("list_multipart_uploads", Bucket=bucket.name)
    assert [upload["Key"] for upload in listed["Uploads"]] == [
        "volume/2", "volume2", "volume3", "volume4"
    ]


def test_storage_without_folders_has_no_local_files_to_remove(tmp_path: Path) -> None:
    """A path of another storage is not one of this machine."""
    local = tmp_path / f".volume.luxor-{'a' * 32}"
    local.write_bytes(b"kept")
    fsspec.filesystem("memory").pipe_file(f"{tmp_path}/volume.luxor-manifest", b"{}")
    with pytest.raises(OSError, match="no upload in parts"):
        distributed.abort(f"memory:/{tmp_path}/volume")
    assert local.exists()


# ---- Fuzzing.


def damaged() -> Any:
    """Changes of a manifest: of its bytes, and of its fields."""
    values: st.SearchStrategy[Any] = st.one_of(
        st.integers(-(1 << 70), 1 << 70),
        st.text(max_size=40),
        st.sampled_from(["../../x", "/etc/passwd", f"{'a' * 32}:1", None, [], {}, True, 1e308]),
        st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    )
    names = st.sampled_from([*vars(EXAMPLE), "schema", "mac", "more"])
    fields = st.dictionaries(names, values, min_size=1, max_size=4)
    pieces = st.tuples(st.integers(0, 1 << 20), st.integers(0, 200), st.binary(max_size=200))
    return st.one_of(fields, pieces, st.binary(max_size=2000))


EXAMPLE = Manifest("encrypt", "s3://a", "5 bytes, x", "s3://b", 5, 5, PART, 0, b"", "", {})


def change(data: bytes, how: Any) -> bytes:
    if isinstance(how, bytes):
        return how
    if isinstance(how, dict):
        return in_form({**json.loads(data), **how})
    at, removed, inserted = how
    at %= len(data)
    text: bytes = inserted
    return data[:at] + text + data[at + removed :]


def test_no_change_of_a_manifest_is_believed() -> None:
    secret = luxor.Secret("correct horse").manifest_key(b"target", luxor.KeyCache())
    header = random.Random(5).randbytes(5000)
    parts = {1: {"ETag": '"a"'}, 2: {"ETag": '"b"'}}
    work = replace(EXAMPLE, header=header, parts=parts, key=secret)
    data = work.to_bytes()
    assert Manifest.authenticated(data, secret, "it") == work

    @settings(max_examples=400)
    @given(damaged())
    def run(how: Any) -> None:
        changed = change(data, how)
        if changed != data:
            with pytest.raises(luxor.Error):
                Manifest.authenticated(changed, secret, "it")
        try:
            # A worker reads another line of the parts, and no other work.
            assert replace(Manifest.with_digest(changed, work.digest(), "it"), parts=parts, key=secret) == work
        except luxor.Error:
            assert changed != data

    run()


def test_changed_manifests_in_s3_lead_to_errors_of_luxor(bucket: Bucket, key: KeyFile) -> None:
    options: dict[str, Any] = {"source_options": bucket.options, "target_options": bucket.options}
    source, target = bucket.put("plain", random.randbytes(PART + 1)), bucket.url("volume")
    with pytest.raises(Stop):
        distributed.encrypt(source, target, key=key, part_size=PART, progress=stop, **options, **CHEAP)
    manifest = bucket.path("volume.luxor-manifest")
    bucket.fs.invalidate_cache()
    data = bucket.fs.cat_file(manifest)
    bucket.put("victim", b"kept")

    @settings(max_examples=25)
    @given(damaged())
    def run(how: Any) -> None:
        changed = change(data, how)
        if changed == data:
            return
        bucket.fs.pipe_file(manifest, changed)
        with pytest.raises(luxor.Error):
            distributed.resume("encrypt", source, target, key=key, force=True, **options)
        with pytest.raises(luxor.Error):
            distributed.abort(target, key=key, target_options=bucket.options)

    run()
    # Of an empty object S3 has no range.
    bucket.fs.pipe_file(manifest, b"")
    with pytest.raises(luxor.Error, match=NOT_AUTHENTIC):
        distributed.resume("encrypt", source, target, key=key, **options)
    bucket.fs.invalidate_cache()
    assert sorted(path.rpartition("/")[2] for path in bucket.fs.ls(bucket.name)) == [
        "plain", "victim", "volume.luxor-manifest"
    ]
    bucket.fs.pipe_file(manifest, data)
    distributed.resume("encrypt", source, target, key=key, **options)
    bucket.fs.invalidate_cache()
    assert bucket.fs.exists(bucket.path("volume")) and not bucket.fs.exists(manifest)


def test_any_faults_of_a_server_end_in_a_whole_volume_or_an_error(
    bucket: Bucket, faulty_s3: FaultyS3, key: KeyFile
) -> None:
    theirs = faulty_s3.bucket
    options: dict[str, Any] = {"source_options": theirs.options, "target_options": theirs.options}
    plain = random.Random(3).randbytes(2 * PART + 9)
    bucket.put("plain", plain)
    source, target = theirs.url("plain"), theirs.url("volume")
    fault = st.builds(
        lambda method, skip, **fields: (method, skip, fields),
        st.sampled_from(["GET", "PUT", "POST", "HEAD", "DELETE"]),
        st.integers(0, 5),
        status=st.sampled_from([None, 400, 403, 404, 500]),
        cut_response=st.sampled_from([None, 0, 1, 100]),
        cut_request=st.sampled_from([None, 0, 1000]),
        times=st.integers(1, 3),
    )

    @settings(max_examples=12)
    @given(st.lists(fault, min_size=1, max_size=3))
    def run(faults: list[tuple[str, int, dict[str, Any]]]) -> None:
        faulty_s3.clear()
        for method, skip, fields in faults:
            left = [skip]

            def is_it(request: Any, method: str = method, left: list[int] = left) -> bool:
                if request.method == method:
                    left[0] -= 1
                return request.method == method and left[0] < 0

            faulty_s3.add(Fault(when=is_it, **fields))
        try:
            distributed.encrypt(source, target, key=key, part_size=PART, **options, **CHEAP)
        except (OSError, luxor.Error, Exception) as error:
            assert not isinstance(error, AssertionError | KeyError | TypeError | AttributeError), error
        faulty_s3.clear()
        bucket.fs.invalidate_cache()
        if bucket.fs.exists(bucket.path("volume.luxor-manifest")):
            distributed.resume("encrypt", source, target, key=key, force=True, **options)
        elif not bucket.fs.exists(bucket.path("volume")):
            distributed.encrypt(source, target, key=key, part_size=PART, **options, **CHEAP)
        bucket.fs.invalidate_cache()
        luks = {"key": key, "skip_instance_cache": True}
        with fsspec.open(f"luks::{bucket.url('volume')}", luks=luks, s3=bucket.options) as file:
            assert file.read() == plain
        bucket.fs.rm_file(bucket.path("volume"))

    run()


def test_listings_that_do_not_end_are_refused(bucket: Bucket) -> None:
    """What a storage answers is not trusted either."""

    class Endless:
        split_path = staticmethod(bucket.fs.split_path)
        protocol = "s3"
        calls = 0
        moves, is_kept = False, True
        listed: Any = ()

        def call_s3(self, name: str, **_: Any) -> dict[str, Any]:
            self.calls += 1
            if name == "list_parts" and not self.is_kept:
                raise FileNotFoundError
            new = str(self.calls) if self.moves else "same"
            uploads = {"NextKeyMarker": new}
            return {"IsTruncated": True, "NextPartNumberMarker": 0, "Parts": [], "Uploads": self.listed, **uploads}

    upload = _uploads.S3Upload(Endless(), bucket.path("volume"), f"{'0' * 32}:id")
    with pytest.raises(OSError, match="lists the same parts again"):
        upload.stored({}, {})
    with pytest.raises(OSError, match="keeps the parts"):
        upload.abort()
    assert re.fullmatch(_uploads.S3_ID, upload.id)
    fs = Endless()
    with pytest.raises(OSError, match="lists the same uploads again"):
        _uploads.abort_all(fs, bucket.path("volume"))
    assert fs.calls < 5
    fs.listed = [{"Key": bucket.path("volume").partition("/")[2], "UploadId": "id"}]
    fs.is_kept = False
    with pytest.raises(OSError, match="lists uploads that were aborted"):
        _uploads.abort_all(fs, bucket.path("volume"))
    fs.listed, fs.moves = [], True
    with pytest.raises(OSError, match="pages of uploads"):
        _uploads.abort_all(fs, bucket.path("volume"))
