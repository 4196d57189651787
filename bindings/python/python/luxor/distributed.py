# SPDX-License-Identifier: MIT OR Apache-2.0
"""Volumes that many workers encrypt and decrypt together, from and to any storage of fsspec.

The target is made in parts, by multipart uploads of S3 or in a folder that all workers share. It
appears when all of it is right, and not before. A manifest beside the target describes an unfinished
one: `resume` does what is missing, `abort` removes it.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import pickle
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import fsspec

from . import _luxor
from ._cipher import VolumeCipher, new_header
from ._exceptions import Error
from ._manifest import MAX_LENGTH, MAX_PART_SIZE, MAX_PARTS, PART_SIZE, PartRecord, check_parts
from ._manifest import MIN_PART_SIZE as MIN_PART_SIZE
from ._manifest import Manifest as Manifest
from ._manifest import manifest_key_of, manifest_secret
from ._operations import Volume
from ._options import hidden_for
from ._pool import ProcessLock, cached
from ._uploads import Upload, abort_all, load, manifest_beside, remove, store, upload
from .keys import KEY_CACHE, checked_provider, hidden_provider, new_secret, secret_of
from .luksfs import LuksFile, LuksFileSystem, StoredFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._types import FileLike, Pbkdf
    from .keys import KeyProvider

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
    manifest_key: KeyProvider | None = None,
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
    URL of the manifest, in the storage of the target, by default `target` with ".luxor-manifest", or a hash
    of its name with that if the name has more than 240 bytes.
    `manifest_key` gives the secret that authenticates it, by default `key`: it is called with empty
    metadata, in this process. A `WrappedKey` needs another provider here, or the work cannot be resumed.
    `part_size` is a multiple of the sector size. An existing target is replaced only with `force`.
    `progress(done, total)` is called after every part. The other arguments are as in `new_header`.

    After an error the manifest stays, for `resume` or `abort`.
    """
    key, manifest_key = hidden_provider(key), hidden_provider(manifest_key)
    source_options = hidden_for(source, source_options)
    target_options = hidden_for(target, target_options)
    checked_provider(key)
    part_size = _checked_part_size(part_size)
    files = _Files.of(source, target, source_options, target_options, manifest)
    _check_can_send(executor, files, key)
    files.check_new(force)
    authenticator = _authenticator(files, key, manifest_key)
    with files.open_source() as stored:
        size, identity = len(stored), stored.identity
        stored.check_end()
    # Before a header is made for a length that the storage has invented.
    check_parts(size, part_size or MAX_PART_SIZE)
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
    work = _begin(files, "encrypt", identity, size, part_size, header, authenticator)
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
    manifest_key: KeyProvider | None = None,
    part_size: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> None:
    """Decrypt the volume `source` into the file `target`: the reverse of `encrypt`."""
    key, manifest_key = hidden_provider(key), hidden_provider(manifest_key)
    source_options = hidden_for(source, source_options)
    target_options = hidden_for(target, target_options)
    checked_provider(key)
    part_size = _checked_part_size(part_size)
    files = _Files.of(source, target, source_options, target_options, manifest)
    _check_can_send(executor, files, key)
    files.check_new(force)
    authenticator = _authenticator(files, key, manifest_key)
    with files.open_plaintext(files.volumes(key)) as plaintext:
        size, identity = plaintext.size, plaintext.stored.identity
    work = _begin(files, "decrypt", identity, size, part_size, None, authenticator)
    _run(work, files, key, executor, force, progress)


def resume(
    operation: Literal["encrypt", "decrypt"],
    source: str,
    target: str,
    *,
    key: KeyProvider,
    executor: Executor | None = None,
    source_options: dict[str, Any] | None = None,
    target_options: dict[str, Any] | None = None,
    manifest: str | None = None,
    manifest_key: KeyProvider | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> None:
    """Do what is missing of unfinished work. The arguments are those of the call that began it.

    Parts that are recorded, and still stored as recorded, are not made again. A manifest that was not
    written with this key for this target is refused: anyone with write access to the storage could
    have changed it. That the storage shows an older manifest of the same work is not noticed, and does
    no harm: its parts are made again.
    """
    key, manifest_key = hidden_provider(key), hidden_provider(manifest_key)
    source_options = hidden_for(source, source_options)
    target_options = hidden_for(target, target_options)
    checked_provider(key)
    files = _Files.of(source, target, source_options, target_options, manifest)
    _check_can_send(executor, files, key)
    work = files.load_authenticated(key, manifest_key)
    if (work.operation, work.source, work.target) != (operation, files.source, files.target):
        raise Error(
            f"{files.manifest_url}: the manifest says {work.operation} {work.source} to "
            f"{work.target}, not {operation} {files.source} to {files.target}"
        )
    if not work.upload_id:
        _begin_upload(work, files)
    try:
        _keep_stored(work, files)
    except FileNotFoundError as gone:
        _finish(work, files, gone)
        return
    if not force:
        files.check_no_target()
    _run(work, files, key, executor, force, progress)


def abort(
    target: str,
    *,
    key: KeyProvider | None = None,
    target_options: dict[str, Any] | None = None,
    manifest: str | None = None,
    manifest_key: KeyProvider | None = None,
) -> None:
    """Remove the parts of an unfinished target, and its manifest.

    With `key` the manifest must be authentic, and the parts are those of its upload. Without it nothing
    is read: all unfinished uploads to `target` are removed, and the manifest.
    """
    key, manifest_key = hidden_provider(key), hidden_provider(manifest_key)
    target_options = hidden_for(target, target_options)
    files = _Files.of(target, target, target_options, target_options, manifest)
    if key is None and manifest_key is None:
        files.check_unfinished()
        abort_all(*files.target_fs)
    else:
        work = files.load_authenticated(key, manifest_key)
        if work.target != files.target:
            raise Error(f"{files.manifest_url}: the manifest is for {work.target}")
        if work.upload_id:
            files.upload(work).abort()
        else:
            abort_all(*files.target_fs)
    files.remove_manifest()


@dataclass(frozen=True)
class HeaderOnly:
    """A volume of which only the header is there: its metadata and `keyslots`.

    Noise follows these bytes up to `data_offset`. `length` is that of the volume.
    """

    keyslots: bytes
    data_offset: int
    length: int
    #: For messages.
    name: str = "the new volume"

    def __len__(self) -> int:
        return self.length

    def read_at(self, size: int, offset: int) -> bytes:
        return self.keyslots[offset : offset + size].ljust(size, b"\0")

    def whole(self) -> bytes:
        """Return the header up to the data: always the same, so that it can be stored again."""
        return self.keyslots + self._noise(self.data_offset - len(self.keyslots))

    def sector(self) -> bytes:
        """Return the data of an empty volume: a sector that is never read."""
        return self._noise(self.length - self.data_offset)

    def _noise(self, size: int) -> bytes:
        # It hides nothing. The salts in the header make it different for every volume.
        return hashlib.shake_256(self.keyslots).digest(size)


def header_for(size: int, name: str, key: KeyProvider, options: dict[str, Any]) -> HeaderOnly:
    """Make the header of the volume `name` for `size` bytes. `options` are those of `new_header`."""
    secret, options, token = new_secret(key, name, options)
    header, length = new_header(size, passphrase=secret, **options, key_cache=KEY_CACHE)
    volume = io.BytesIO(header)
    if token is not None:
        Volume(volume).add_token(token)
    areas = [keyslot["area"] for keyslot in Volume(volume).dump()["keyslots"].values()]
    end = max(int(area["offset"]) + int(area["size"]) for area in areas)
    return HeaderOnly(volume.getvalue()[:end], len(header), length)


def unlocked(header: HeaderOnly, key: KeyProvider) -> VolumeCipher:
    """Unlock a volume of which only the header is there."""
    secret = secret_of(key, Volume(header).dump())
    return VolumeCipher(header, passphrase=secret, key_cache=KEY_CACHE)


def encrypted(header: HeaderOnly, data: bytes, key: KeyProvider) -> bytes:
    """Return the volume with this header and plaintext."""
    if not data:
        return header.whole() + header.sector()
    return header.whole() + unlocked(header, key).encrypt(data, 0)


@dataclass(frozen=True)
class _Files:
    """The files of a job, by their URLs and the options of their file systems."""

    source: str
    target: str
    source_options: dict[str, Any] = field(repr=False)
    target_options: dict[str, Any] = field(repr=False)
    manifest_url: str

    @classmethod
    def of(
        cls,
        source: str,
        target: str,
        source_options: dict[str, Any],
        target_options: dict[str, Any],
        manifest: str | None,
    ) -> _Files:
        """Make all names absolute, since workers have other folders."""
        target = _absolute(target, target_options)
        return cls(
            _absolute(source, source_options),
            target,
            source_options,
            target_options,
            _absolute(manifest or manifest_beside(target), target_options),
        )

    def __reduce__(self) -> Any:
        # Other processes open the file systems for themselves.
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    @cached
    def source_fs(self) -> tuple[Any, str]:
        return _file_system(self.source, self.source_options)

    @cached
    def target_fs(self) -> tuple[Any, str]:
        return _file_system(self.target, self.target_options)

    @cached
    def manifest_fs(self) -> tuple[Any, str]:
        return _file_system(self.manifest_url, self.target_options)

    def check_new(self, force: bool) -> None:
        """Refuse an existing target, and a manifest of unfinished work."""
        if not force:
            self.check_no_target()
        fs, path = self.manifest_fs
        fs.invalidate_cache()
        if fs.exists(path):
            raise self._unfinished()

    def check_no_target(self) -> None:
        fs, path = self.target_fs
        # What other processes have made meanwhile must be seen.
        fs.invalidate_cache()
        if fs.exists(path):
            raise FileExistsError(errno.EEXIST, "the target exists, and force was not given", self.target)

    def _unfinished(self) -> FileExistsError:
        message = "unfinished work has this manifest: resume or abort it"
        return FileExistsError(errno.EEXIST, message, self.manifest_url)

    @contextmanager
    def open_source(self) -> Iterator[StoredFile]:
        fs, path = self.source_fs
        fs.invalidate_cache()
        stored = StoredFile(fs, path)
        try:
            yield stored
        finally:
            stored.close()

    def check_source(self, identity: str) -> None:
        """Refuse a source that is no longer the one of the manifest."""
        with self.open_source() as stored:
            check_identity(stored, identity, self.source)

    def volumes(self, key: KeyProvider) -> LuksFileSystem:
        """Return the plaintext of the source's file system."""
        return LuksFileSystem(fs=self.source_fs[0], key=key)

    @contextmanager
    def open_plaintext(self, volumes: LuksFileSystem) -> Iterator[LuksFile]:
        fs, path = self.source_fs
        fs.invalidate_cache()
        with volumes.open_reader(path, cache_type="none") as file:
            yield file

    def check_unfinished(self) -> None:
        fs, path = self.manifest_fs
        fs.invalidate_cache()
        if not fs.exists(path):
            raise self._no_manifest()

    def _no_manifest(self) -> FileNotFoundError:
        message = "there is no unfinished work with this manifest"
        return FileNotFoundError(errno.ENOENT, message, self.manifest_url)

    def _load(self) -> bytes:
        fs, path = self.manifest_fs
        fs.invalidate_cache()
        try:
            return load(fs, path, MAX_LENGTH)
        except FileNotFoundError as error:
            raise self._no_manifest() from error

    def load_authenticated(
        self, key: KeyProvider | None, manifest_key: KeyProvider | None
    ) -> Manifest:
        """Return the manifest, if the caller's secret has authenticated it."""
        data = self._load()
        secret = manifest_secret(key, manifest_key)
        if isinstance(secret, Exception):
            message = "there is no secret that authenticates the manifest"
            raise Error(f"{self.manifest_url}: {message}: {secret}") from secret
        return Manifest.authenticated(
            data, manifest_key_of(secret, self.target), self.manifest_url
        )

    def load_with_digest(self, digest: str) -> Manifest:
        """Return the manifest of which the caller has sent the digest."""
        return Manifest.with_digest(self._load(), digest, self.manifest_url)

    def save(self, work: Manifest, *, new: bool = False) -> None:
        fs, path = self.manifest_fs
        try:
            store(fs, path, work.to_bytes(), force=not new)
        except FileExistsError as error:
            raise self._unfinished() from error

    def upload(self, work: Manifest) -> Upload:
        fs, path = self.target_fs
        return upload(fs, path, work.upload_id)

    def remove_manifest(self) -> None:
        remove(*self.manifest_fs)


def _authenticator(
    files: _Files, key: KeyProvider, manifest_key: KeyProvider | None
) -> _luxor.Secret | None:
    """Return the key that authenticates the manifest, or None if there is no secret for it."""
    secret = manifest_secret(key, manifest_key)
    return None if isinstance(secret, Exception) else manifest_key_of(secret, files.target)


def _begin(
    files: _Files,
    operation: Literal["encrypt", "decrypt"],
    identity: str,
    size: int,
    part_size: int,
    header: HeaderOnly | None,
    authenticator: _luxor.Secret | None,
) -> Manifest:
    """Begin the upload, and save the manifest."""
    length = size if header is None else header.length
    if part_size == 0:
        part_size = max(PART_SIZE, -(-length // (MAX_PARTS - 1) >> 20) + 1 << 20)
    check_parts(length, part_size)
    work = Manifest(
        operation,
        files.source,
        identity,
        files.target,
        size,
        length,
        part_size,
        0 if header is None else header.data_offset,
        b"" if header is None else header.keyslots,
        "",
        {},
        authenticator,
    )
    # Before the upload: otherwise a crash between the two leaves an upload that nothing knows.
    files.save(work, new=True)
    _begin_upload(work, files)
    return work


def _begin_upload(work: Manifest, files: _Files) -> None:
    """Begin the upload, and record it."""
    fs, path = files.target_fs
    abort_all(fs, path)
    work.upload_id = upload(fs, path).id
    files.save(work)


def _keep_stored(work: Manifest, files: _Files) -> None:
    """Forget the parts that are not stored as recorded."""
    data = work.length - work.header_length
    sizes = {1: work.header_length} if work.header else {}
    sizes |= {
        number: min(work.part_size, data - offset) for number, (offset, _) in work.plan().items()
    }
    stored = files.upload(work).stored(work.parts, sizes)
    work.parts = {number: part for number, part in work.parts.items() if number in stored}


def _header_of(work: Manifest) -> HeaderOnly:
    return HeaderOnly(work.header, work.header_length, work.length, work.target)


def _finish(work: Manifest, files: _Files, error: OSError) -> None:
    """Remove the manifest if the target is the result. Otherwise raise `error` in words."""
    if files.upload(work).is_complete():
        files.remove_manifest()
    elif isinstance(error, FileExistsError):
        raise FileExistsError(errno.EEXIST, "the target exists now", work.target) from error
    else:
        raise Error(
            f"{files.manifest_url}: the upload to {work.target} no longer exists, and the "
            "target is not its result",
            "Remove the manifest with luxor.distributed.abort, and begin again.",
        ) from error


@dataclass(frozen=True)
class _Job:
    """What is sent to the workers: where the work is described, and where its key comes from."""

    files: _Files
    key: Any
    #: The digest of the manifest, by which workers notice that it was exchanged.
    digest: str
    #: Tells this call from another one for the same target, whose options or key were others.
    run: str

    def worker(self) -> _Worker:
        """Return what this process needs for parts of the job, which it keeps for later parts."""
        which = (os.getpid(), self.run)
        with _workers_lock:
            worker = _workers.get(which)
            if worker is None:
                worker = _workers[which] = _Worker(self)
                while len(_workers) > KEPT_WORKERS:
                    del _workers[next(iter(_workers))]
            return worker


class _Worker:
    """A job in one process."""

    def __init__(self, job: _Job) -> None:
        self._files = job.files
        self._manifest = self._files.load_with_digest(job.digest)
        self._upload = self._files.upload(self._manifest)
        self._plan = self._manifest.plan()
        self._volumes = self._files.volumes(job.key)
        # Once for all threads, since a derivation may take a gigabyte of memory.
        is_needed = self._manifest.operation == "encrypt" and self._manifest.size
        self._cipher = unlocked(_header_of(self._manifest), job.key) if is_needed else None

    def make(self, number: int) -> PartRecord:
        """Make a part of the data, and store it."""
        work = self._manifest
        offset, size = self._plan[number]
        if work.operation == "decrypt":
            with self._files.open_plaintext(self._volumes) as file:
                check_identity(file.stored, work.identity, work.source)
                data = file.read_at(size, offset)
        elif self._cipher is None:
            data = _header_of(work).sector()
        else:
            with self._files.open_source() as stored:
                check_identity(stored, work.identity, work.source)
                data = stored.read_at(size, offset)
            data = self._cipher.encrypt(data, offset)
        return self._upload.put(number, work.header_length + offset, data)


#: How many jobs a process keeps, each with its keys.
KEPT_WORKERS = 4
_workers: dict[tuple[int, str], _Worker] = {}
_workers_lock = ProcessLock()


def _receive(_files: _Files, _key: Any) -> None:
    """Do nothing, in a worker."""


def _check_can_send(executor: Executor | None, files: _Files, key: KeyProvider) -> None:
    """Refuse what the workers cannot be sent, before there is unfinished work."""
    try:
        pickle.dumps((files, key))
    except Exception:
        # Threads need nothing sent, and executors of clusters send more than `pickle` does.
        if executor is not None:
            executor.submit(_receive, files, key).result()


def _make_part(job: _Job, number: int) -> tuple[int, PartRecord]:
    """Make one part, in a worker."""
    return number, job.worker().make(number)


def _run(
    work: Manifest,
    files: _Files,
    key: KeyProvider,
    executor: Executor | None,
    force: bool,
    progress: Progress | None,
) -> None:
    """Make the missing parts, and complete the target."""
    job = _Job(files, key, work.digest(), uuid4().hex)
    plan = work.plan()
    done = sum(size for number, (_, size) in plan.items() if number in work.parts)
    own = ThreadPoolExecutor(os.cpu_count()) if executor is None else None
    futures: list[Future[tuple[int, PartRecord]]] = []
    try:
        files.check_source(work.identity)
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
                files.save(work)
                saved = time.monotonic()
    except BaseException as error:
        for future in futures:
            future.cancel()
        with suppress(Exception):
            # What is not recorded is only made again.
            files.save(work)
        # Parts of an old and a new source do not fit together.
        is_stale = isinstance(error, OSError) and error.errno == errno.ESTALE
        error.add_note(
            f"{len(work.parts)} of {len(plan)} parts of {work.target} are stored. "
            + ("" if is_stale or work.key is None else "luxor.distributed.resume does the rest, ")
            + "luxor.distributed.abort removes them."
        )
        raise
    finally:
        if own is not None:
            own.shutdown(cancel_futures=True)
    unfinished = files.upload(work)
    if work.header and 1 not in work.parts:
        work.parts[1] = unfinished.put(1, 0, _header_of(work).whole())
    files.save(work)
    # It was the same before every part and is the same now: no part is from another file.
    files.check_source(work.identity)
    if not force:
        files.check_no_target()
    try:
        unfinished.complete(work.parts, force=force)
    except (FileExistsError, FileNotFoundError) as error:
        # The answer to a request that succeeded can be lost, and the request be repeated.
        _finish(work, files, error)
        return
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


def check_identity(stored: StoredFile, identity: str, url: str) -> None:
    if stored.identity != identity:
        raise OSError(errno.ESTALE, "the file has changed since the work began", url)


def _file_system(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    fs, path = fsspec.url_to_fs(url, **options)
    return fs, path


def _absolute(url: str, options: dict[str, Any]) -> str:
    fs, path = _file_system(url, options)
    return str(fs.unstrip_protocol(path))
