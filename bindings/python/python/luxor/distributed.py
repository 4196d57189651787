# SPDX-License-Identifier: MIT OR Apache-2.0
"""Volumes that many workers encrypt and decrypt together, from and to any storage of fsspec.

The target is made in parts, by multipart uploads of S3 or in a folder that all workers share. It
appears when all of it is right, and not before. A manifest beside the target describes an unfinished
one: `resume` does what is missing, `abort` removes it.
"""

from __future__ import annotations

import base64
import errno
import functools
import io
import json
import os
import time
import zlib
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import fsspec

from ._cipher import VolumeCipher, new_header
from ._exceptions import Error
from ._operations import Volume
from ._uploads import PartRecord, Upload, upload
from .keys import KEY_CACHE, WrappedKey
from .luksfs import LuksFile, LuksFileSystem, StoredFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._operations import Pbkdf
    from ._types import FileLike, Secret
    from .keys import KeyProvider

#: The length of a part, unless there would be too many: that of the header, which is a part too.
PART_SIZE = 16 << 20

#: The least length of a part, except the last one, and the greatest number of parts (S3).
MIN_PART_SIZE, MAX_PARTS = 5 << 20, 10_000

#: The manifest is saved at most this often, in seconds.
SAVE_EVERY = 5.0

#: A function that is called with the bytes that are done, and their total.
Progress = Callable[[int, int], object]


def encrypt(
    source: str,
    target: str,
    *,
    key: KeyProvider,
    executor: Executor | None = None,
    source_options: dict[str, Any] | None = None,
    target_options: dict[str, Any] | None = None,
    manifest: str | None = None,
    part_size: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
    sector_size: int | None = None,
    key_size: Literal[256, 512] = 512,
    pbkdf: Pbkdf | None = None,
    pbkdf_memory: int | None = None,
    pbkdf_parallel: int | None = None,
    pbkdf_force_iterations: int | None = None,
    iter_time: float = 2.0,
    label: str | None = None,
    uuid: str | None = None,
    like: FileLike | None = None,
) -> None:
    """Encrypt the file `source` into a new volume `target`. Both are URLs of fsspec.

    `executor` runs the parts: any `concurrent.futures.Executor`, by default threads of this process.
    `luxor.ray.Executor` and `distributed.Client.get_executor` run them on a cluster. `key` gives
    every worker the secret of the volume (see `luxor.keys`).

    `source_options` and `target_options` are the options of fsspec for the two file systems. They are
    sent to the workers: let these find credentials in their environment instead. `manifest` is the
    URL of the manifest, by default `target` with ".luxor-manifest", in the storage of the target.
    `part_size` is a multiple of the sector size. An existing target is replaced only with `force`.
    `progress(done, total)` is called after every part. The other arguments are as in `new_header`.

    After an error the manifest stays, for `resume` or `abort`.
    """
    part_size = _checked_part_size(part_size)
    files = _Files(source, target, source_options, target_options, manifest)
    files.check_new(force)
    with files.open_source() as stored:
        size, identity = len(stored), stored.identity
    options: dict[str, Any] = {
        "sector_size": sector_size,
        "key_size": key_size,
        "pbkdf": pbkdf,
        "pbkdf_memory": pbkdf_memory,
        "pbkdf_parallel": pbkdf_parallel,
        "pbkdf_force_iterations": pbkdf_force_iterations,
        "iter_time": iter_time,
        "label": label,
        "uuid": uuid,
        "like": like,
    }
    header = header_for(size, target, key, options)
    work = Manifest.begin(files, "encrypt", identity, size, part_size, header)
    _run(work, files, key, executor, force, progress)


def decrypt(
    source: str,
    target: str,
    *,
    key: KeyProvider,
    executor: Executor | None = None,
    source_options: dict[str, Any] | None = None,
    target_options: dict[str, Any] | None = None,
    manifest: str | None = None,
    part_size: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> None:
    """Decrypt the volume `source` into the file `target`: the reverse of `encrypt`."""
    part_size = _checked_part_size(part_size)
    files = _Files(source, target, source_options, target_options, manifest)
    files.check_new(force)
    with files.open_source() as stored:
        identity = stored.identity
    with files.open_plaintext(key, identity) as plaintext:
        size = plaintext.size
    work = Manifest.begin(files, "decrypt", identity, size, part_size, None)
    _run(work, files, key, executor, force, progress)


def resume(
    manifest: str,
    *,
    key: KeyProvider,
    executor: Executor | None = None,
    source_options: dict[str, Any] | None = None,
    target_options: dict[str, Any] | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> None:
    """Do what is missing of the work that `manifest` describes.

    Parts that are recorded, and still stored as recorded, are not made again. The other arguments
    are as in `encrypt`.
    """
    work, files = _load(manifest, source_options, target_options)
    try:
        work.keep_stored(files)
    except FileNotFoundError as gone:
        if not work.is_complete(files):
            raise Error(
                f"{manifest}: the upload to {work.target} no longer exists, and the target is not "
                "its result",
                "Remove the manifest with luxor.distributed.abort, and begin again.",
            ) from gone
        files.remove_manifest()
        return
    _run(work, files, key, executor, force, progress)


def abort(
    manifest: str,
    *,
    target_options: dict[str, Any] | None = None,
) -> None:
    """Remove the parts of an unfinished target, and its manifest."""
    work, files = _load(manifest, None, target_options)
    work.upload(files).abort()
    files.remove_manifest()


@dataclass(frozen=True)
class HeaderOnly:
    """A volume of which only the header is there: its metadata and `keyslots`.

    Noise follows these bytes up to `data_offset`. `length` is that of the volume.
    """

    keyslots: bytes
    data_offset: int
    length: int

    name = "<header>"

    def __len__(self) -> int:
        return self.length

    def read_at(self, size: int, offset: int) -> bytes:
        return self.keyslots[offset : offset + size].ljust(size, b"\0")

    def whole(self) -> bytes:
        """Return the header up to the data."""
        return self.keyslots + os.urandom(self.data_offset - len(self.keyslots))


def header_for(size: int, name: str, key: KeyProvider, options: dict[str, Any]) -> HeaderOnly:
    """Make the header of the volume `name` for `size` bytes. `options` are those of `new_header`."""
    token = None
    secret: Secret
    if isinstance(key, WrappedKey):
        secret, token = key.new({"volume": name})
        # A random secret needs no slow derivation.
        options = {**options, "pbkdf": "pbkdf2", "pbkdf_force_iterations": 1000}
    else:
        secret = key({})
    header, length = new_header(size, passphrase=secret, **options, key_cache=KEY_CACHE)
    volume = io.BytesIO(header)
    if token is not None:
        Volume(volume).add_token(token)
    areas = [keyslot["area"] for keyslot in Volume(volume).dump()["keyslots"].values()]
    end = max(int(area["offset"]) + int(area["size"]) for area in areas)
    return HeaderOnly(volume.getvalue()[:end], len(header), length)


def unlocked(header: HeaderOnly, key: KeyProvider) -> VolumeCipher:
    """Unlock a volume of which only the header is there."""
    secret = key(Volume(header).dump())
    return VolumeCipher(header, passphrase=secret, key_cache=KEY_CACHE)


def encrypted(header: HeaderOnly, data: bytes, key: KeyProvider) -> bytes:
    """Return the volume with this header and plaintext."""
    if not data:
        # A sector that is never read.
        return header.whole() + os.urandom(header.length - header.data_offset)
    return header.whole() + unlocked(header, key).encrypt(data, 0)


@dataclass(frozen=True)
class _Files:
    """The files of a job, by their URLs and the options of their file systems."""

    source: str
    target: str
    source_options: dict[str, Any] | None
    target_options: dict[str, Any] | None
    manifest: str | None

    @functools.cached_property
    def source_fs(self) -> tuple[Any, str]:
        return _file_system(self.source, self.source_options)

    @functools.cached_property
    def target_fs(self) -> tuple[Any, str]:
        return _file_system(self.target, self.target_options)

    @property
    def manifest_url(self) -> str:
        return self.manifest or f"{self.target}.luxor-manifest"

    @functools.cached_property
    def manifest_fs(self) -> tuple[Any, str]:
        return _file_system(self.manifest_url, self.target_options)

    def check_new(self, force: bool) -> None:
        """Refuse an existing target, and a manifest of unfinished work."""
        fs, path = self.target_fs
        # What other processes have made meanwhile must be seen.
        fs.invalidate_cache()
        if not force and fs.exists(path):
            raise FileExistsError(errno.EEXIST, "the target exists", self.target)
        fs, path = self.manifest_fs
        if fs.exists(path):
            raise FileExistsError(
                errno.EEXIST,
                "unfinished work has this manifest: resume or abort it",
                self.manifest_url,
            )

    @contextmanager
    def open_source(self) -> Iterator[StoredFile]:
        fs, path = self.source_fs
        stored = StoredFile(fs, path)
        try:
            yield stored
        finally:
            stored.close()

    @contextmanager
    def open_plaintext(self, key: KeyProvider, identity: str) -> Iterator[LuksFile]:
        fs, path = self.source_fs
        volumes = LuksFileSystem(fs=fs, key=key, skip_instance_cache=True)
        with volumes._open(path, cache_type="none") as file:
            _check_identity(file.stored, identity, self.source)
            yield file

    def save(self, text: str) -> None:
        fs, path = self.manifest_fs
        if "file" in fs.protocol:
            # Replaced as a whole, as an object is.
            fs.pipe_file(f"{path}.new", text.encode())
            os.replace(f"{path}.new", path)
        else:
            fs.pipe_file(path, text.encode())

    def remove_manifest(self) -> None:
        fs, path = self.manifest_fs
        fs.rm_file(path)


@dataclass
class Manifest:
    """What a job does, and which of its parts are stored."""

    operation: Literal["encrypt", "decrypt"]
    source: str
    #: What tells the source from another file with its name.
    identity: str
    target: str
    #: The length of the plaintext and of the target.
    size: int
    length: int
    part_size: int
    #: The length of the header, and its metadata and keyslots. Noise fills the rest.
    header_length: int
    header: bytes
    upload_id: str
    parts: dict[int, PartRecord]

    @classmethod
    def begin(
        cls,
        files: _Files,
        operation: Literal["encrypt", "decrypt"],
        identity: str,
        size: int,
        part_size: int,
        header: HeaderOnly | None,
    ) -> Manifest:
        """Begin the upload, and save the manifest."""
        length = size if header is None else header.length
        parts = MAX_PARTS - 1
        if part_size == 0:
            part_size = max(PART_SIZE, -(-length // parts >> 20) + 1 << 20)
        if length > parts * part_size:
            raise ValueError(
                f"part_size: {length} bytes in parts of {part_size} are more than {parts} parts"
            )
        fs, path = files.target_fs
        work = cls(
            operation,
            files.source,
            identity,
            files.target,
            size,
            length,
            part_size,
            0 if header is None else header.data_offset,
            b"" if header is None else header.keyslots,
            upload(fs, path).id,
            {},
        )
        files.save(work.to_json())
        return work

    def to_json(self) -> str:
        return json.dumps(
            {
                "schema": 1,
                **vars(self),
                "header": base64.b64encode(zlib.compress(self.header)).decode(),
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Manifest:
        fields = json.loads(text)
        if fields.pop("schema") != 1:
            raise ValueError("the manifest is of another version of Luxor")
        fields["header"] = zlib.decompress(base64.b64decode(fields["header"]))
        fields["parts"] = {int(number): part for number, part in fields["parts"].items()}
        return cls(**fields)

    def upload(self, files: _Files) -> Upload:
        fs, path = files.target_fs
        return upload(fs, path, self.upload_id)

    def plan(self) -> dict[int, tuple[int, int]]:
        """Return the parts of the data by number: their offset in the plaintext, and their length.

        Part 1 is the header, if there is one.
        """
        first = 2 if self.header else 1
        offsets = range(0, max(self.size, 1), self.part_size)
        return {
            number: (offset, min(self.part_size, self.size - offset))
            for number, offset in enumerate(offsets, first)
        }

    def keep_stored(self, files: _Files) -> None:
        """Forget the parts that are not stored as recorded."""
        data = self.length - self.header_length
        sizes = {1: self.header_length} if self.header else {}
        sizes |= {
            number: min(self.part_size, data - offset)
            for number, (offset, _) in self.plan().items()
        }
        stored = self.upload(files).stored(self.parts, sizes)
        self.parts = {number: part for number, part in self.parts.items() if number in stored}

    def is_complete(self, files: _Files) -> bool:
        """Whether the target is the result: it has the length, and begins with the header."""
        fs, path = files.target_fs
        fs.invalidate_cache()
        if not fs.exists(path) or fs.size(path) != self.length:
            return False
        # A decrypted file has no mark of its own.
        return bool(self.header) and fs.cat_file(path, start=0, end=len(self.header)) == self.header


@dataclass(frozen=True)
class _Job:
    """What a worker is told: where the work is described, and where its key comes from."""

    manifest: str
    upload_id: str
    source_options: dict[str, Any] | None
    target_options: dict[str, Any] | None
    key: Any

    def work(self) -> _Worker:
        """Return what this process needs for parts of the job, which it keeps for later parts."""
        which = (os.getpid(), self.upload_id)
        worker = _workers.get(which)
        if worker is None:
            worker = _workers[which] = _Worker(self)
            while len(_workers) > 16:
                del _workers[next(iter(_workers))]
        return worker


class _Worker:
    """A job in one process."""

    def __init__(self, job: _Job) -> None:
        self._job = job
        self._manifest, self._files = _load(
            job.manifest, job.source_options, job.target_options
        )
        if self._manifest.upload_id != job.upload_id:
            raise Error(f"{job.manifest}: the manifest is that of another upload")
        self._upload = self._manifest.upload(self._files)
        self._plan = self._manifest.plan()
        self._cipher = functools.lru_cache(1)(self._unlock)

    def _unlock(self) -> VolumeCipher:
        work = self._manifest
        return unlocked(HeaderOnly(work.header, work.header_length, work.length), self._job.key)

    def make(self, number: int) -> PartRecord:
        """Make a part of the data, and store it."""
        work = self._manifest
        offset, size = self._plan[number]
        if work.operation == "encrypt":
            with self._files.open_source() as stored:
                _check_identity(stored, work.identity, work.source)
                data = stored.read_at(size, offset) if size else b""
            if size:
                data = self._cipher().encrypt(data, offset)
            else:
                # The data of an empty file are a sector that is never read.
                data = os.urandom(work.length - work.header_length)
        else:
            with self._files.open_plaintext(self._job.key, work.identity) as file:
                data = file.read_at(size, offset)
        return self._upload.put(number, work.header_length + offset, data)


_workers: dict[tuple[int, str], _Worker] = {}


def _make_part(job: _Job, number: int) -> tuple[int, PartRecord]:
    """Run in a worker: make one part."""
    return number, job.work().make(number)


def _run(
    work: Manifest,
    files: _Files,
    key: KeyProvider,
    executor: Executor | None,
    force: bool,
    progress: Progress | None,
) -> None:
    """Make the missing parts, and complete the target."""
    job = _Job(
        files.manifest_url, work.upload_id, files.source_options, files.target_options, key
    )
    plan = work.plan()
    done = sum(size for number, (_, size) in plan.items() if number in work.parts)
    own = ThreadPoolExecutor(os.cpu_count()) if executor is None else None
    futures: list[Future[tuple[int, PartRecord]]] = []
    try:
        for number in plan:
            if number not in work.parts:
                futures.append((executor or own).submit(_make_part, job, number))  # type: ignore[union-attr]
        saved = time.monotonic()
        for future in as_completed(futures):
            number, part = future.result()
            work.parts[number] = part
            done += plan[number][1]
            if progress is not None:
                progress(done, work.size)
            if time.monotonic() - saved > SAVE_EVERY:
                files.save(work.to_json())
                saved = time.monotonic()
    except BaseException as error:
        for future in futures:
            future.cancel()
        with suppress(Exception):
            # What is not recorded is only made again.
            files.save(work.to_json())
        error.add_note(
            f"{len(work.parts)} of {len(plan)} parts of {work.target} are stored. "
            f"luxor.distributed.resume({files.manifest_url!r}, …) does the rest, abort removes them."
        )
        raise
    finally:
        if own is not None:
            own.shutdown(cancel_futures=True)
    unfinished = work.upload(files)
    if work.header and 1 not in work.parts:
        header = HeaderOnly(work.header, work.header_length, work.length)
        work.parts[1] = unfinished.put(1, 0, header.whole())
    files.save(work.to_json())
    try:
        unfinished.complete(work.parts, force=force)
    except FileExistsError as error:
        raise FileExistsError(errno.EEXIST, "the target exists now", work.target) from error
    fs, path = files.target_fs
    fs.invalidate_cache()
    if (length := fs.size(path)) != work.length:
        raise Error(f"{work.target} has {length} bytes, not {work.length}")
    files.remove_manifest()


def _checked_part_size(part_size: int | None) -> int:
    """Return the length of the parts, or 0 for the default."""
    if part_size is None:
        return 0
    if part_size < MIN_PART_SIZE or part_size % 4096:
        raise ValueError(f"part_size must be at least {MIN_PART_SIZE} and a multiple of 4096")
    return part_size


def _check_identity(stored: StoredFile, identity: str, url: str) -> None:
    if stored.identity != identity:
        raise OSError(errno.ESTALE, "the file has changed since the work began", url)


def _file_system(url: str, options: dict[str, Any] | None) -> tuple[Any, str]:
    fs, path = fsspec.url_to_fs(url, **(options or {}))
    return fs, path


def _load(
    manifest: str,
    source_options: dict[str, Any] | None,
    target_options: dict[str, Any] | None,
) -> tuple[Manifest, _Files]:
    fs, path = _file_system(manifest, target_options)
    work = Manifest.from_json(fs.cat_file(path))
    files = _Files(work.source, work.target, source_options, target_options, manifest)
    return work, files
