# SPDX-License-Identifier: MIT OR Apache-2.0
"""Volumes in Ray: many of them as a dataset, and the parts of one large volume as tasks."""

from __future__ import annotations

import concurrent.futures
import errno
import functools
import os
import posixpath
import uuid
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import fsspec
import pyarrow
import ray
import ray.data
from fsspec.implementations.local import LocalFileSystem
from ray.data import ReadTask
from ray.data.block import BlockMetadata

from ._exceptions import Error
from ._manifest import MANIFEST
from ._names import Names, check_exact
from ._operations import Volume
from ._options import hidden_for
from ._pool import at_once
from ._uploads import protocols, store
from .distributed import check_identity, encrypted, header_for
from .keys import WrappedKey, checked_provider, hidden_provider
from .luksfs import LuksFile, LuksFileSystem, StoredFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ._types import Pbkdf
    from .keys import KeyProvider

#: A function that makes tables of the plaintext of a volume: one, or several after each other.
Rows: TypeAlias = "Callable[[LuksFile], pyarrow.Table | Iterable[pyarrow.Table]]"


class _TaskFuture(concurrent.futures.Future[Any]):
    """The result of a task, which ends when this is cancelled."""

    def __init__(self, task: Any) -> None:
        super().__init__()
        self._task = task
        task.future().add_done_callback(self._take)

    def _take(self, done: concurrent.futures.Future[Any]) -> None:
        if not self.set_running_or_notify_cancel():
            return
        if (error := done.exception()) is not None:
            self.set_exception(error)
        else:
            self.set_result(done.result())

    def cancel(self) -> bool:
        ray.cancel(self._task)
        return super().cancel()


class Executor(concurrent.futures.Executor):
    """Runs the parts of `luxor.distributed.encrypt` and `decrypt` as tasks of Ray.

    `options` are those of `ray.remote`. Ray repeats a task whose worker has died, and one that failed
    with an `OSError`.
    """

    def __init__(self, **options: Any) -> None:
        self._options = {"max_retries": 3, "retry_exceptions": [OSError], **options}
        self._remote = functools.lru_cache(self._make_remote)
        self._futures: weakref.WeakSet[_TaskFuture] = weakref.WeakSet()

    def _make_remote(self, function: Callable[..., Any]) -> Any:
        return ray.remote(**self._options)(function)

    def submit(
        self, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[Any]:
        future = _TaskFuture(self._remote(function).remote(*args, **kwargs))
        self._futures.add(future)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        futures = list(self._futures)
        if cancel_futures:
            for future in futures:
                future.cancel()
        if wait:
            concurrent.futures.wait(futures)


class VolumeDatasource(ray.data.Datasource):
    """Many volumes, as the datasource of a dataset."""

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        key: KeyProvider,
        storage_options: dict[str, Any] | None = None,
        rows: Rows | None = None,
        part_size: int | None = None,
    ) -> None:
        """Read the volumes at `urls`: URLs of fsspec in one file system, patterns or folders.

        The rows have the columns `path` and `bytes`, and with `part_size` also `offset`: then large
        volumes are read in several rows and by several tasks. `rows` makes tables of each volume
        instead: a function that is called with its plaintext as a file, such as
        `pyarrow.csv.read_csv`.
        """
        key = hidden_provider(key)
        super().__init__()
        checked_provider(key)
        urls = [urls] if isinstance(urls, str) else list(urls)
        options = storage_options = hidden_for(urls[0], storage_options)
        fs, _ = fsspec.url_to_fs(urls[0], **options)
        target = {"target_protocol": protocols(fs)[0], "target_options": options}
        self._open = functools.partial(_volumes, uuid.uuid4().hex, **target, key=key)
        self._rows = rows
        # What other processes have made meanwhile must be seen.
        fs.invalidate_cache()
        paths = [path for url in urls for path in _expand(fs, fs._strip_protocol(url))]
        if part_size is None or rows is not None:
            self._units = [_Unit(path, fs.size(path)) for path in paths]
        else:
            described = at_once(self._open().describe, paths)
            self._units = [
                _Unit(path, min(part_size, size - offset), offset, identity)
                for path, (size, identity) in zip(paths, described, strict=True)
                for offset in range(0, max(size, 1), part_size)
            ]

    def estimate_inmemory_data_size(self) -> int | None:
        return sum(unit.size for unit in self._units)

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: Any = None,
    ) -> list[ReadTask]:
        count = max(min(parallelism, len(self._units)), 1)
        tasks = []
        for number in range(count):
            # Neighbouring units are in different tasks, so that these are of about equal length.
            units = self._units[number::count]
            metadata = BlockMetadata(
                num_rows=None if self._rows is not None else len(units),
                size_bytes=sum(unit.size for unit in units),
                exec_stats=None,
                input_files=tuple(unit.path for unit in units),
            )
            read = functools.partial(_read, self._open, units, self._rows)
            tasks.append(ReadTask(read, metadata, per_task_row_limit=per_task_row_limit))
        return tasks


def _expand(fs: Any, path: str) -> list[str]:
    """Return the files that `path` means: a file, a pattern, or a folder."""
    if "*" in path or "?" in path or "[" in path:
        found = fs.glob(path)
    elif fs.isdir(path):
        # Without unfinished volumes and their manifests.
        found = [
            path
            for path in fs.find(path)
            if not posixpath.basename(path).startswith(".") and not path.endswith(MANIFEST)
        ]
    else:
        found = [path]
    if not found:
        raise FileNotFoundError(f"there is no volume at {path}")
    return sorted(found)


def _read(
    volumes: Callable[[], LuksFileSystem], units: list[_Unit], rows: Rows | None
) -> Iterator[pyarrow.Table]:
    """Read the units, in a worker."""
    opened = volumes()
    for unit in units:
        with opened.open_reader(unit.path, cache_type="readahead" if rows else "none") as file:
            if rows is not None:
                made = rows(file)
                # A table of pandas is a block of Ray too.
                is_table = isinstance(made, pyarrow.Table) or type(made).__name__ == "DataFrame"
                yield from [made] if is_table else made
            elif unit.identity is None:
                yield _table(path=unit.path, bytes=file.read())
            else:
                # All parts are of the volume that was divided.
                check_identity(file.stored, unit.identity, unit.path)
                data = file.read_at(unit.size, unit.offset)
                yield _table(path=unit.path, offset=unit.offset, bytes=data)


#: The file systems of the last datasets that this process has read.
_opened: dict[tuple[int, str], LuksFileSystem] = {}


def _volumes(run: str, **options: Any) -> LuksFileSystem:
    """Return the file system of a dataset, with the keys that this process has derived for it."""
    which = (os.getpid(), run)
    if which not in _opened:
        _opened[which] = LuksFileSystem(**options)
        while len(_opened) > 4:
            _opened.pop(next(iter(_opened)), None)
    return _opened[which]


def _table(**row: Any) -> pyarrow.Table:
    # Lengths of `binary` are 31 bits.
    types = {"bytes": pyarrow.large_binary()}
    return pyarrow.table(
        {name: pyarrow.array([value], types.get(name)) for name, value in row.items()}
    )


@dataclass(frozen=True)
class _Unit:
    """A volume, or `size` bytes of its plaintext from `offset` on if it has an `identity`."""

    path: str
    size: int
    offset: int = 0
    identity: str | None = None


def read(
    urls: str | Sequence[str],
    *,
    key: KeyProvider,
    storage_options: dict[str, Any] | None = None,
    rows: Rows | None = None,
    part_size: int | None = None,
    **options: Any,
) -> ray.data.Dataset:
    """Read many volumes as a dataset. The arguments are those of `VolumeDatasource`.

    `options` are those of `ray.data.read_datasource`.
    """
    key = hidden_provider(key)
    source = VolumeDatasource(
        urls, key=key, storage_options=storage_options, rows=rows, part_size=part_size
    )
    return ray.data.read_datasource(source, **options)


def encrypt(
    files: ray.data.Dataset,
    folder: str,
    *,
    key: KeyProvider,
    storage_options: dict[str, Any] | None = None,
    suffix: str = ".luks",
    force: bool = False,
    skip_existing: bool = False,
    sector_size: int | None = None,
    key_size: Literal[256, 512] = 512,
    pbkdf: Pbkdf | None = None,
    pbkdf_memory: int | None = None,
    pbkdf_parallel: int | None = None,
    pbkdf_force_iterations: int | None = None,
    iter_time: float = 2.0,
    luks2_metadata_size: int | None = None,
    luks2_keyslots_size: int | None = None,
) -> ray.data.Dataset:
    """Encrypt every file of a dataset into a volume of its own in `folder`, a URL of fsspec.

    The rows of `files` have the columns `path` and `bytes`, as those of
    `ray.data.read_binary_files(…, include_paths=True)`. A volume has the name of its file within the
    deepest folder that contains all of them, with `suffix`. Before anything is encrypted, this raises
    `ValueError` if two volumes would have one name, or if a part of a path is empty, "." or "..". The
    paths are known if `files` only reads files; any other dataset is executed once more for its paths.
    An existing volume is replaced only with `force`.
    `storage_options` are those of `folder`, and are sent to the workers. A volume appears whole or not
    at all. If a task is repeated, the volumes that it has made are kept. `skip_existing` keeps all
    that exist, whatever is in them, so that it continues a call that was interrupted.

    Files of less than 16 MiB get a header of 544 KiB, which has room for two keyslots, unless
    `luks2_metadata_size` or `luks2_keyslots_size` is given.
    All volumes have the same salt, so that a worker derives the key once. With a `WrappedKey` every
    volume has a secret of its own. The other arguments are as in `new_header`.

    Returns a dataset with the columns `path`, `volume` and `size`, when all volumes are there.
    """
    key = hidden_provider(key)
    options: dict[str, Any] = {
        "sector_size": sector_size,
        "key_size": key_size,
        "pbkdf": pbkdf,
        "pbkdf_memory": pbkdf_memory,
        "pbkdf_parallel": pbkdf_parallel,
        "pbkdf_force_iterations": pbkdf_force_iterations,
        "iter_time": iter_time,
        "luks2_metadata_size": luks2_metadata_size,
        "luks2_keyslots_size": luks2_keyslots_size,
    }
    checked_provider(key)
    # A traceback would show the secrets in the caller's.
    folder_options = storage_options = hidden_for(folder, storage_options)
    fs, target = fsspec.url_to_fs(folder, **folder_options)
    paths = _paths(files)
    names = Names(paths, suffix)

    def volume_of(path: str) -> str:
        return f"{target.rstrip('/')}/{names.of(path)}"

    for path in paths:
        check_exact(fs, volume_of(path))
    if not isinstance(key, WrappedKey):
        options["like"] = header_for(0, "", key, options)
    run = uuid.uuid4()

    def volume(row: dict[str, Any]) -> dict[str, Any]:
        # Every worker opens the file system for itself.
        fs, _ = fsspec.url_to_fs(folder, **folder_options)
        path = volume_of(_path_of(row))
        made = {"path": row["path"], "volume": path, "size": len(row["bytes"])}
        # The UUID says that a volume is the result of this call for this file.
        own = str(uuid.uuid5(run, row["path"]))
        if isinstance(fs, LocalFileSystem):
            fs.makedirs(target, exist_ok=True)
        fs.invalidate_cache()
        if skip_existing and fs.exists(path):
            return made
        length = len(row["bytes"])
        header = header_for(length, path, key, {**options, **_sizes(length, options), "uuid": own})
        exists = FileExistsError(errno.EEXIST, "the volume exists, and force was not given", path)
        try:
            if not force and fs.exists(path):
                raise exists
            store(fs, path, encrypted(header, row["bytes"], key), force=force, below=target)
        except Exception as error:
            # A server that refuses to replace an object may close the connection at once, which
            # botocore reports in its own way, and the answer to a request that succeeded can be lost.
            fs.invalidate_cache()
            is_there = fs.exists(path)
            if not (is_there and _has_uuid(fs, path, own)):
                raise exists if is_there and not force else error
        return made

    rows = files.map(volume).take_all()
    if sorted(row["path"] for row in rows) != sorted(paths):
        raise Error("the dataset had other paths when it was executed again: check the volumes")
    # Ray would make lost rows of a materialized dataset again, and with them their volumes.
    return ray.data.from_items(rows)


def _sizes(length: int, options: dict[str, Any]) -> dict[str, int]:
    """Return the sizes of the header for a file of `length` bytes, if it is not the usual one.

    The usual header has 16 MiB, and would be most of the volume of a shorter file.
    """
    chosen = [options["luks2_metadata_size"], options["luks2_keyslots_size"]]
    if length >= 16 << 20 or chosen != [None, None]:
        return {}
    return {"luks2_keyslots_size": 512 << 10}


def _path_of(row: dict[str, Any]) -> str:
    if not {"path", "bytes"} <= row.keys():
        raise ValueError("the rows need the columns path and bytes: use include_paths=True")
    path: str = row["path"]
    return path


def _paths(files: ray.data.Dataset) -> list[str]:
    """Return the path of every row."""
    plan = getattr(files, "_logical_plan", None)
    source: Any = getattr(getattr(plan, "dag", None), "datasource", None)
    if type(source).__name__ == "BinaryDatasource":
        # One row for each file, and nothing else has been done with them.
        return list(source._paths())
    return [row["path"] for row in files.map(lambda row: {"path": _path_of(row)}).take_all()]


def _has_uuid(fs: Any, path: str, own: str) -> bool:
    file = StoredFile(fs, path)
    try:
        return Volume(file).uuid == own
    except Error:
        return False
    finally:
        file.close()
