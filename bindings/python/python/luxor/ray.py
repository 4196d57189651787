# SPDX-License-Identifier: MIT OR Apache-2.0
"""Volumes in Ray: many of them as a dataset, and the parts of one large volume as tasks."""

from __future__ import annotations

import concurrent.futures
import functools
import posixpath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import fsspec
import pyarrow
import ray
import ray.data
from ray.data import ReadTask
from ray.data.block import BlockMetadata

from ._uploads import store
from .distributed import encrypted, header_for
from .keys import WrappedKey
from .luksfs import LuksFile, LuksFileSystem, at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ._operations import Pbkdf
    from .keys import KeyProvider

#: A function that makes tables of the plaintext of a volume: one, or several after each other.
Rows: TypeAlias = "Callable[[LuksFile], pyarrow.Table | Iterable[pyarrow.Table]]"


class Executor(concurrent.futures.Executor):
    """Runs the parts of `luxor.distributed.encrypt` and `decrypt` as tasks of Ray.

    `options` are those of `ray.remote`. Ray repeats a task whose worker has died, and one that failed
    with an `OSError`.
    """

    def __init__(self, **options: Any) -> None:
        self._options = {"max_retries": 3, "retry_exceptions": [OSError], **options}
        self._remote = functools.lru_cache(self._make_remote)
        self._tasks: list[Any] = []

    def _make_remote(self, function: Callable[..., Any]) -> Any:
        return ray.remote(**self._options)(function)

    def submit(
        self, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[Any]:
        task = self._remote(function).remote(*args, **kwargs)
        self._tasks.append(task)
        future: concurrent.futures.Future[Any] = task.future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            for task in self._tasks:
                ray.cancel(task)
        if wait and self._tasks:
            ray.wait(self._tasks, num_returns=len(self._tasks))
        self._tasks.clear()


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
        super().__init__()
        urls = [urls] if isinstance(urls, str) else list(urls)
        options = storage_options or {}
        fs, _ = fsspec.url_to_fs(urls[0], **options)
        protocol = fs.protocol if isinstance(fs.protocol, str) else fs.protocol[0]
        self._open = functools.partial(
            LuksFileSystem, target_protocol=protocol, target_options=options, key=key
        )
        self._rows = rows
        paths = [path for url in urls for path in _expand(fs, fs._strip_protocol(url))]
        if part_size is None or rows is not None:
            self._units: list[_Unit] = [(path, None, fs.size(path)) for path in paths]
        else:
            volumes = self._open()
            sizes = at_once(lambda path: volumes.info(path)["size"], paths)
            self._units = [
                (path, offset, min(part_size, size - offset))
                for path, size in zip(paths, sizes, strict=True)
                for offset in range(0, max(size, 1), part_size)
            ]

    def estimate_inmemory_data_size(self) -> int | None:
        return sum(size for _, _, size in self._units)

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
                size_bytes=sum(size for _, _, size in units),
                exec_stats=None,
                input_files=tuple(path for path, _, _ in units),
            )
            read = functools.partial(_read, self._open, units, self._rows)
            tasks.append(ReadTask(read, metadata, per_task_row_limit=per_task_row_limit))
        return tasks


def _expand(fs: Any, path: str) -> list[str]:
    """Return the files that `path` means: a file, a pattern, or a folder."""
    if "*" in path or "?" in path or "[" in path:
        found = fs.glob(path)
    elif fs.isdir(path):
        found = fs.find(path)
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
    for path, offset, size in units:
        with opened._open(path, cache_type="readahead" if rows else "none") as file:
            if rows is not None:
                made = rows(file)
                yield from [made] if isinstance(made, pyarrow.Table) else made
            elif offset is None:
                yield _table(path=path, bytes=file.read())
            else:
                yield _table(path=path, offset=offset, bytes=file.read_at(size, offset))


def _table(**row: Any) -> pyarrow.Table:
    # Lengths of `binary` are 31 bits.
    types = {"bytes": pyarrow.large_binary()}
    return pyarrow.table(
        {name: pyarrow.array([value], types.get(name)) for name, value in row.items()}
    )


#: The path of a volume, an offset in it or None for all of it, and a number of bytes.
_Unit: TypeAlias = tuple[str, int | None, int]


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
    sector_size: int | None = None,
    key_size: Literal[256, 512] = 512,
    pbkdf: Pbkdf | None = None,
    pbkdf_memory: int | None = None,
    pbkdf_parallel: int | None = None,
    pbkdf_force_iterations: int | None = None,
    iter_time: float = 2.0,
) -> ray.data.Dataset:
    """Encrypt every file of a dataset into a volume of its own in `folder`, a URL of fsspec.

    The rows of `files` have the columns `path` and `bytes`, as those of
    `ray.data.read_binary_files(…, include_paths=True)`. The volume has the name of the file with
    `suffix`. An existing volume is replaced only with `force`. `storage_options` are those of
    `folder`. A volume appears whole or not at all.

    All volumes have the same salt, so that a worker derives the key once. With a `WrappedKey` every
    volume has a secret of its own. The other arguments are as in `new_header`.

    Returns a dataset with the columns `path`, `volume` and `size`, when all volumes are there.
    """
    options: dict[str, Any] = {
        "sector_size": sector_size,
        "key_size": key_size,
        "pbkdf": pbkdf,
        "pbkdf_memory": pbkdf_memory,
        "pbkdf_parallel": pbkdf_parallel,
        "pbkdf_force_iterations": pbkdf_force_iterations,
        "iter_time": iter_time,
    }
    if not isinstance(key, WrappedKey):
        options["like"] = header_for(0, "", key, options)
    fs, root = fsspec.url_to_fs(folder, **(storage_options or {}))
    fs.makedirs(root, exist_ok=True)

    def volume(row: dict[str, Any]) -> dict[str, Any]:
        path = f"{root.rstrip('/')}/{posixpath.basename(row['path'])}{suffix}"
        # Every worker opens the file system for itself.
        target, _ = fsspec.url_to_fs(folder, **(storage_options or {}))
        header = header_for(len(row["bytes"]), path, key, options)
        store(target, path, encrypted(header, row["bytes"], key), force=force)
        return {"path": row["path"], "volume": path, "size": len(row["bytes"])}

    return files.map(volume).materialize()
