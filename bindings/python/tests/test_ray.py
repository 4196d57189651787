# SPDX-License-Identifier: MIT OR Apache-2.0
"""Volumes on a cluster of Ray with several nodes, which are processes of this machine."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import luxor
import luxor.ray
import pandas
import pyarrow.csv
import pytest
import ray
import ray.data
from luxor import distributed
from luxor.keys import KeyFile, WrappedKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from s3 import Bucket

CHEAP: dict[str, Any] = {"pbkdf": "pbkdf2", "pbkdf_force_iterations": 1000}

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def key(tmp_path: Path) -> KeyFile:
    path = tmp_path / "key"
    path.write_bytes(b"correct horse")
    return KeyFile(path)


@pytest.fixture
def files(bucket: Bucket) -> dict[str, bytes]:
    """Files of different lengths in the folder `plain` of the bucket."""
    files = {f"file{i}": random.randbytes(i * 50_001) for i in range(6)}
    for name, data in files.items():
        bucket.fs.pipe_file(bucket.path(f"plain/{name}"), data)
    return files


def encrypt(
    bucket: Bucket, key: Any, override_num_blocks: int | None = None, **options: Any
) -> list[dict[str, Any]]:
    """Encrypt all of the folder `plain` into the folder `volumes`."""
    plain = ray.data.read_binary_files(
        bucket.path("plain"),
        filesystem=bucket.fs,
        include_paths=True,
        override_num_blocks=override_num_blocks,
    )
    made = luxor.ray.encrypt(
        plain, bucket.url("volumes"), key=key, storage_options=bucket.options, **options
    )
    rows: list[dict[str, Any]] = made.take_all()
    return rows


def test_files_become_volumes_and_a_dataset(
    bucket: Bucket, key: KeyFile, files: dict[str, bytes], tmp_path: Path
) -> None:
    rows = encrypt(bucket, key, **CHEAP)
    assert {os.path.basename(row["volume"]): row["size"] for row in rows} == {
        f"{name}.luks": len(data) for name, data in files.items()
    }
    for urls in (bucket.url("volumes"), bucket.url("volumes/*.luks")):
        volumes = luxor.ray.read(urls, key=key, storage_options=bucket.options)
        found = {os.path.basename(row["path"]): row["bytes"] for row in volumes.take_all()}
        assert found == {f"{name}.luks": data for name, data in files.items()}
    # One salt, and a volume key for each.
    dumps = []
    for name in files:
        local = tmp_path / name
        local.write_bytes(bucket.fs.cat_file(bucket.path(f"volumes/{name}.luks")))
        dumps.append(luxor.Volume(local).dump())
    assert len({dump["keyslots"]["0"]["kdf"]["salt"] for dump in dumps}) == 1
    assert len({dump["digests"]["0"]["digest"] for dump in dumps}) == len(files)


def test_folders_are_kept(bucket: Bucket, key: KeyFile) -> None:
    files = {"2024/part.csv": b"old", "2025/part.csv": b"new"}
    for name, data in files.items():
        bucket.fs.pipe_file(bucket.path(f"plain/{name}"), data)
    rows = encrypt(bucket, key, luks2_keyslots_size=512 << 10, **CHEAP)
    assert {row["volume"] for row in rows} == {
        bucket.path(f"volumes/{name}.luks") for name in files
    }
    # The documented small header, and a sector.
    assert {bucket.fs.size(row["volume"]) for row in rows} == {(544 << 10) + 4096}
    volumes = luxor.ray.read(bucket.url("volumes"), key=key, storage_options=bucket.options)
    assert sorted(row["bytes"] for row in volumes.take_all()) == [b"new", b"old"]


def test_a_volume_that_a_repeated_task_finds_is_kept(
    bucket: Bucket, key: KeyFile, tmp_path: Path
) -> None:
    for i in range(3):
        bucket.fs.pipe_file(bucket.path(f"plain/{i}"), bytes([i]))
    dying = DiesOnce(key, tmp_path / "marker", after=3)
    rows = encrypt(bucket, dying, override_num_blocks=1, **CHEAP)
    assert len(rows) == 3
    assert (tmp_path / "marker").exists()
    volumes = luxor.ray.read(bucket.url("volumes"), key=key, storage_options=bucket.options)
    assert sorted(row["bytes"] for row in volumes.take_all()) == [b"\0", b"\1", b"\2"]


def test_a_volume_that_changes_is_not_read_in_part(bucket: Bucket, key: KeyFile) -> None:
    bucket.fs.pipe_file(bucket.path("plain/one"), bytes(300_000))
    encrypt(bucket, key, **CHEAP)
    volumes = luxor.ray.read(
        bucket.url("volumes"), key=key, storage_options=bucket.options, part_size=100_000
    )
    encrypt(bucket, key, force=True, **CHEAP)
    with pytest.raises(Exception, match="has changed since the work began"):
        volumes.take_all()


def test_volumes_that_are_new_are_found(bucket: Bucket, key: KeyFile) -> None:
    bucket.fs.pipe_file(bucket.path("plain/one"), b"one")
    encrypt(bucket, key, **CHEAP)
    options: dict[str, Any] = {"key": key, "storage_options": bucket.options}
    assert luxor.ray.read(bucket.url("volumes"), **options).count() == 1
    bucket.fs.pipe_file(bucket.path("plain/two"), b"two")
    encrypt(bucket, key, force=True, **CHEAP)
    bucket.fs.pipe_file(bucket.path("volumes/x.luxor-manifest"), b"{}")
    assert luxor.ray.read(bucket.url("volumes"), **options).count() == 2


def test_large_volumes_are_read_in_parts(
    bucket: Bucket, key: KeyFile, files: dict[str, bytes]
) -> None:
    encrypt(bucket, key, **CHEAP)
    volumes = luxor.ray.read(
        bucket.url("volumes"), key=key, storage_options=bucket.options, part_size=100_000
    )
    found: dict[str, bytes] = {}
    rows = volumes.take_all()
    for row in sorted(rows, key=lambda row: (row["path"], row["offset"])):
        assert len(row["bytes"]) <= 100_000
        found[row["path"]] = found.get(row["path"], b"") + row["bytes"]
    assert found == {bucket.path(f"volumes/{name}.luks"): data for name, data in files.items()}


def test_rows_of_tables(bucket: Bucket, key: KeyFile) -> None:
    for i in range(3):
        table = f"number,square\n{i},{i * i}\n{i + 10},{(i + 10) ** 2}\n"
        bucket.fs.pipe_file(bucket.path(f"plain/{i}.csv"), table.encode())
    encrypt(bucket, key, **CHEAP)
    volumes = luxor.ray.read(
        bucket.url("volumes"), key=key, storage_options=bucket.options, rows=pyarrow.csv.read_csv
    )
    rows = volumes.take_all()
    assert sorted(row["number"] for row in rows) == [0, 1, 2, 10, 11, 12]
    assert all(row["square"] == row["number"] ** 2 for row in rows)
    volumes = luxor.ray.read(
        bucket.url("volumes"), key=key, storage_options=bucket.options, rows=pandas.read_csv
    )
    assert volumes.count() == 6


def test_existing_volumes_are_kept(bucket: Bucket, key: KeyFile, files: dict[str, bytes]) -> None:
    encrypt(bucket, key, **CHEAP)

    def head(name: str) -> bytes:
        data: bytes = bucket.fs.cat_file(bucket.path(f"volumes/{name}.luks"), start=0, end=4096)
        return data

    before = head("file1")
    with pytest.raises(Exception, match="the volume exists, and force was not given"):
        encrypt(bucket, key, **CHEAP)
    assert head("file1") == before

    # A call that was interrupted is continued.
    bucket.fs.rm(bucket.path("volumes/file2.luks"))
    rows = encrypt(bucket, key, skip_existing=True, **CHEAP)
    assert sorted(row["size"] for row in rows) == sorted(len(data) for data in files.values())
    assert head("file1") == before
    assert head("file2") != before

    encrypt(bucket, key, force=True, **CHEAP)
    assert head("file1") != before


def test_a_key_service_wraps_a_secret_for_each_volume(
    bucket: Bucket, files: dict[str, bytes]
) -> None:
    key = WrappedKey(Service())
    encrypt(bucket, key)
    volumes = luxor.ray.read(bucket.url("volumes"), key=key, storage_options=bucket.options)
    assert sorted(row["bytes"] for row in volumes.take_all()) == sorted(files.values())


class Service:
    """A key service whose key is one byte."""

    def encrypt(self, secret: bytes, context: dict[str, str], /) -> bytes:
        return bytes(byte ^ 0x5A for byte in secret)

    def decrypt(self, wrapped: bytes, context: dict[str, str], /) -> bytes:
        return bytes(byte ^ 0x5A for byte in wrapped)


def test_parts_of_a_volume_are_tasks_that_survive_their_worker(
    bucket: Bucket, key: KeyFile, tmp_path: Path
) -> None:
    part = distributed.MIN_PART_SIZE
    plain = random.randbytes(4 * part + 3)
    bucket.fs.pipe_file(bucket.path("large"), plain)
    options: dict[str, Any] = {
        "source_options": bucket.options,
        "target_options": bucket.options,
    }
    marker = tmp_path / "marker"
    distributed.encrypt(
        bucket.url("large"),
        bucket.url("large.luks"),
        key=DiesOnce(key, marker),
        executor=luxor.ray.Executor(),
        part_size=part,
        **options,
        **CHEAP,
    )
    assert marker.exists()
    distributed.decrypt(
        bucket.url("large.luks"),
        bucket.url("again"),
        key=key,
        executor=luxor.ray.Executor(),
        **options,
    )
    assert bucket.fs.cat_file(bucket.path("again")) == plain


#: How often this process has been asked for a key.
asked = [0]


@dataclass(frozen=True)
class DiesOnce:
    """Kills the first worker that asks for the key `after` times."""

    key: KeyFile
    marker: Path
    after: int = 1

    def __call__(self, metadata: dict[str, Any], /) -> bytes:
        asked[0] += bool(metadata)
        if metadata and asked[0] >= self.after:
            try:
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.key(metadata)


def test_a_wrong_key_is_an_error(bucket: Bucket, key: KeyFile, tmp_path: Path) -> None:
    bucket.fs.pipe_file(bucket.path("plain/one"), b"one")
    encrypt(bucket, key, **CHEAP)
    (tmp_path / "wrong").write_bytes(b"wrong")
    wrong = KeyFile(tmp_path / "wrong")
    volumes = luxor.ray.read(bucket.url("volumes"), key=wrong, storage_options=bucket.options)
    with pytest.raises(Exception, match="no keyslot accepts this passphrase"):
        volumes.take_all()


def test_a_path_is_no_key(bucket: Bucket, key: KeyFile) -> None:
    bucket.fs.pipe_file(bucket.path("plain/one"), b"one")
    with pytest.raises(TypeError, match="key must be a provider"):
        encrypt(bucket, str(key.path), **CHEAP)


def test_there_must_be_volumes(bucket: Bucket, key: KeyFile) -> None:
    with pytest.raises(FileNotFoundError, match="there is no volume"):
        luxor.ray.read(bucket.url("*.luks"), key=key, storage_options=bucket.options)


@pytest.mark.parametrize(
    ("length", "options", "header"),
    [
        (8000, {}, 544 << 10),
        ((16 << 20) - 1, {}, 544 << 10),
        (16 << 20, {}, 16 << 20),
        (8000, {"luks2_keyslots_size": 256 << 10}, 288 << 10),
        (8000, {"luks2_metadata_size": 32 << 10}, 16 << 20),
    ],
)
def test_a_small_file_gets_a_small_header(
    tmp_path: Path, key: KeyFile, length: int, options: dict[str, Any], header: int
) -> None:
    data = b"x" * length
    files = ray.data.from_items([{"path": "a", "bytes": data}])
    luxor.ray.encrypt(files, f"file://{tmp_path}/volumes", key=key, **options, **CHEAP)
    (volume,) = (tmp_path / "volumes").iterdir()
    assert volume.stat().st_size == header + -(-length // 4096) * 4096
    with luxor.open(volume, key_file=key.path) as file:
        assert file.read() == data


class TestNames:
    """Names of rows become names in the folder, and no others."""

    def refused(self, folder: Path, key: KeyFile, files: Any, **options: Any) -> None:
        """The call is refused before any work: not even the folder is made."""
        asked: list[object] = []

        def provider(metadata: dict[str, Any]) -> bytes:
            asked.append(metadata)
            return key(metadata)

        with pytest.raises(ValueError, match="would be|is no name for a file|two rows have"):
            luxor.ray.encrypt(files, f"file://{folder}/volumes", key=provider, **options, **CHEAP)
        assert not asked
        assert not (folder / "volumes").exists()

    @pytest.mark.parametrize("force", [False, True])
    @pytest.mark.parametrize(
        "paths",
        [
            ["a/x", "a/x"],
            ["/a/x", "a/x"],
            ["s3://a/x", "gs://a/x"],
            ["a/../../x", "a/y"],
            ["..", "a"],
            ["a//x", "a/y"],
            ["a/./x"],
            ["//etc/x"],
            ["a/"],
            [""],
            ["a/x\0y"],
            ["a/x", "a/x.luks/y"],
        ],
    )
    def test_names_that_lead_elsewhere_or_collide_are_refused(
        self, tmp_path: Path, key: KeyFile, paths: list[str], force: bool
    ) -> None:
        rows = [{"path": path, "bytes": bytes([i])} for i, path in enumerate(paths)]
        self.refused(tmp_path, key, ray.data.from_items(rows), force=force)
        self.refused(tmp_path, key, ray.data.from_items(rows), skip_existing=not force)

    def test_files_that_are_read_twice_are_refused(self, tmp_path: Path, key: KeyFile) -> None:
        plain = tmp_path / "plain"
        plain.mkdir()
        (plain / "x").write_bytes(b"x")
        files = ray.data.read_binary_files([str(plain), str(plain / "x")], include_paths=True)
        self.refused(tmp_path, key, files)
        one = ray.data.read_binary_files(str(plain), include_paths=True)
        self.refused(tmp_path, key, one.union(one))
        self.refused(tmp_path, key, one.map(lambda row: {**row, "path": "../x"}))

    def test_a_suffix_is_part_of_the_name(self, tmp_path: Path, key: KeyFile) -> None:
        self.refused(tmp_path, key, ray.data.from_items([{"path": "a", "bytes": b""}]), suffix="/../b")

    def test_rows_without_a_folder_in_common_keep_their_folders(
        self, tmp_path: Path, key: KeyFile
    ) -> None:
        paths = ["a/x", "b/x", "s3://c/d/x"]
        files = ray.data.from_items([{"path": path, "bytes": path.encode()} for path in paths])
        small: dict[str, Any] = {"luks2_keyslots_size": 512 << 10, **CHEAP}
        rows = luxor.ray.encrypt(files, f"file://{tmp_path}/volumes", key=key, **small).take_all()
        made = {row["path"]: row["volume"] for row in rows}
        assert made == {
            path: f"{tmp_path}/volumes/{path.removeprefix('s3://')}.luks" for path in paths
        }
        for path, volume in made.items():
            with luxor.open(volume, key_file=key.path) as file:
                assert file.read() == path.encode()

    def test_a_planted_link_is_not_followed(self, tmp_path: Path, key: KeyFile) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (tmp_path / "volumes").mkdir()
        (tmp_path / "volumes/b").symlink_to(elsewhere)
        rows = [{"path": path, "bytes": b""} for path in ("a/x", "b/x")]
        with pytest.raises(Exception, match="Not a directory|symbolic links"):
            luxor.ray.encrypt(
                ray.data.from_items(rows), f"file://{tmp_path}/volumes", key=key, force=True, **CHEAP
            )
        assert list(elsewhere.iterdir()) == []

    def test_a_name_that_the_storage_takes_for_another_is_refused(
        self, bucket: Bucket, key: KeyFile
    ) -> None:
        """s3fs leaves out what follows, and with it the suffix."""
        rows = [{"path": "a?versionId=1", "bytes": b""}, {"path": "b", "bytes": b""}]
        with pytest.raises(ValueError, match="for another name"):
            luxor.ray.encrypt(
                ray.data.from_items(rows),
                bucket.url("volumes"),
                key=key,
                storage_options=bucket.options,
                **CHEAP,
            )
        assert bucket.fs.find(bucket.name) == []
