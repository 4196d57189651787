# SPDX-License-Identifier: MIT OR Apache-2.0
"""Volumes in any file system of fsspec, as files with their plaintext: the protocol "luks"."""

from __future__ import annotations

import errno
import io
import os
import pickle
import threading
from collections import OrderedDict
from contextlib import closing, contextmanager
from glob import has_magic
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import fsspec
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.implementations.local import LocalFileOpener
from fsspec.spec import AbstractBufferedFile

from . import _luxor, _options
from ._cipher import VolumeCipher
from ._exceptions import Error, KeyLostInFork
from ._names import brief, parts_of
from ._new_files import NewFile, NewLuksFile, Place, options_of_new
from ._operations import Volume
from ._pool import RANGES, ProcessLock, at_once
from ._uploads import pread
from .keys import KEY_CACHE, checked_provider, hidden_provider, secret_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ._types import Format, Secret, VolumeKey
    from .keys import KeyProvider

#: The bytes that are read first: the metadata, and keyslots 0 to 7 in their usual places.
HEAD = 4 << 20

#: The metadata, unless they are longer than usual.
METADATA = 64 << 10

#: How many bytes the cache of a file reads at a time, unless the caller says otherwise. Results of this
#: length reuse the memory of those before; longer ones are new pages from the system every time.
BLOCK = 15 << 20

#: Longer ranges are read as several ranges of at least this many bytes at the same time.
PART = 16 << 20

#: The options that fsspec itself takes.
OF_FSSPEC = frozenset(
    (
        "asynchronous",
        "batch_size",
        "listings_expiry_time",
        "loop",
        "max_paths",
        "skip_instance_cache",
        "use_listings_cache",
    )
)

#: The keys of this many volumes are kept.
KEPT = 256


class StoredFile:
    """A file of the target file system: bytes at offsets, from any number of threads.

    The file is the one that was there when it was opened, if the file system can tell: that of S3
    compares the ETag with every read.
    """

    def __init__(self, fs: Any, path: str) -> None:
        self.name = path
        self._file = fs.open(path, "rb", cache_type="none")
        self._process = os.getpid()
        self._position = threading.Lock()
        if isinstance(self._file, LocalFileOpener):
            # `fs.info` would describe the file that is at the path now, maybe another one.
            stat = os.fstat(self._file.fileno())
            info = {
                "size": self._file.size,
                "file": (stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns),
            }
        else:
            info = getattr(self._file, "details", None) or fs.info(path)
        if info.get("type") == "directory":
            raise IsADirectoryError(errno.EISDIR, "this is a folder", path)
        size = info["size"]
        if size is None:
            # As a server whose answers have no length, below a cache that holds the whole file.
            try:
                size = self._file.seek(0, os.SEEK_END)
            except (OSError, ValueError) as error:
                self._file.close()
                raise OSError(f"{path}: its storage does not say how long it is") from error
        if size is None or size < 0:
            self._file.close()
            raise OSError(f"{path}: its storage says that it has {size} bytes")
        #: The byte of the file at which the volume begins, and the number of bytes from there on.
        self._begin = 0
        self._size: int = size
        tag = info.get("ETag") or info.get("etag") or info.get("generation") or info
        #: The length, and the ETag or what the storage has instead. Another file has another one.
        self.identity = f"{self._size} bytes, {tag}"
        # Only clients that can have several requests under way may be called by several threads.
        self._is_concurrent = isinstance(self._file, AbstractBufferedFile) and fs.async_impl

    def __len__(self) -> int:
        return self._size

    def read_at(self, size: int, offset: int) -> bytes:
        """Return `size` bytes from byte `offset` on, which must be in the file."""
        self.check_process()
        offset += self._begin
        if isinstance(self._file, LocalFileOpener):
            data = pread(self._file.fileno(), size, offset)
        elif self._is_concurrent:
            data = self._file._fetch_range(offset, offset + size)
        elif isinstance(self._file, io.BytesIO):
            # A file of `memory://` is one object with one position, for everything that opens it.
            data = bytes(self._file.getbuffer()[offset : offset + size])
        else:
            with self._position:
                self._file.seek(offset)
                data = self._file.read(size)
        if len(data) != size:
            raise OSError(f"{self.name}: {len(data)} of {size} bytes at byte {offset} were read")
        return data

    def select(self, volume_offset: int | None, volume_partition: int | None) -> None:
        """Become the part of the file that these arguments of `luxor.open` mean."""
        begin, end = _luxor.part_of(self, locals())
        self._begin, self._size = begin, end - begin

    def check_end(self) -> None:
        """Refuse a file that goes on after its end, of which only a part would be read."""
        try:
            more = self.read_at(1, self._size)
        except Exception:
            return
        if more:
            raise OSError(
                f"{self.name}: its storage says that it has {self._size} bytes, and it has more"
            )

    def check_process(self) -> None:
        """Refuse a forked process: it shares the file's position with its parent, and has no keys."""
        if os.getpid() != self._process:
            raise KeyLostInFork(
                f"{brief(self.name)}: this file was opened before this process was forked, which has no "
                "keys of its parent. Open it again"
            )

    def close(self) -> None:
        self._file.close()


class _Head:
    """A stored file whose first `size` bytes are read once, to find the metadata and keys.

    If more is needed, all of `HEAD` is read.
    """

    def __init__(self, file: StoredFile, size: int = HEAD) -> None:
        self.name = file.name
        #: How many bytes were needed.
        self.needed = 0
        self._file = file
        self._head = file.read_at(min(size, len(file)), 0) if size else b""

    def __len__(self) -> int:
        return len(self._file)

    def read_at(self, size: int, offset: int) -> bytes:
        end = offset + size
        if end > HEAD:
            return self._file.read_at(size, offset)
        self.needed = max(end, self.needed)
        if end > len(self._head):
            self._head = self._file.read_at(min(HEAD, len(self._file)), 0)
        return self._head[offset:end]


class LuksFile(AbstractBufferedFile):
    """The plaintext of a volume, for reading. The caches of fsspec work on the plaintext."""

    def __init__(
        self, fs: LuksFileSystem, path: str, stored: StoredFile, cipher: VolumeCipher, **kwargs: Any
    ) -> None:
        self.stored = stored
        self._cipher = cipher
        super().__init__(fs, path, "rb", size=cipher.size, **kwargs)

    def read_at(self, size: int, offset: int) -> bytes:
        """Return `size` bytes from byte `offset` on, or those up to the end, in one request.

        Several threads may call it at once. It does not use the position or the cache.
        """
        if self.closed:
            raise ValueError("I/O operation on a closed file")
        self.stored.check_process()
        end = min(offset + size, self.size)
        return self._fetch_range(offset, end) if offset < end else b""

    def read(self, length: int = -1) -> bytes:
        # The cache may have threads, which a forked process has lost.
        self.stored.check_process()
        data: bytes = super().read(length)
        return data

    def _fetch_range(self, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        places = self._cipher.stored(end - start, start)
        data = b"".join(self._read_place(*place) for place in places)
        before = start - places[0][0]
        if before == 0 and len(data) == end - start:
            return data
        return data[before : before + end - start]

    def _read_place(self, at: int, offset: int, length: int) -> bytes:
        """Read and decrypt sectors that lie together."""
        count = max(min(length // PART, RANGES), 1)
        # The ends are multiples of every sector size.
        ends = [offset + length * i // count // 4096 * 4096 for i in range(count)]
        sizes = [end - begin for begin, end in pairwise([*ends, offset + length])]
        pieces = at_once(self.stored.read_at, sizes, ends)
        return self._cipher.decrypt_pieces(list(pieces), at)

    def close(self) -> None:
        if not self.closed:
            self.stored.close()
        super().close()

    def __del__(self) -> None:
        # The collector calls this anywhere, also while a thread starts. Waiting for the threads of a cache
        # would then deadlock; they end when the cache is gone.
        if not getattr(self, "closed", True):
            self.cache = None
            self.close()


class LuksFileSystem(ChainedFileSystem):
    """The plaintext of volumes in another file system. Files are read, or made anew as a whole.

    `fsspec.open("luks::s3://bucket/volume.luks", luks={"key_file": "key"})` opens one volume. Paths
    are those of the other file system, so patterns work too. In
    `fsspec.filesystem("luks", fo="s3://bucket/volume.luks", key_file="key")` the empty path is the
    volume `fo`.

    The secret is `passphrase`, `key_file`, `volume_key` or `key`, a provider (see `luxor.keys`).
    Only `key_file` and `key` can be sent to other processes: the others become a `luxor.Secret`, here
    and in the options of every file system of fsspec around this one. `key_slot`, `engine` and `threads` are
    as in `luxor.open`, as are `format`, `volume_offset` and `volume_partition`, for volumes that are
    read.
    `block_size`, `cache_type` and `cache_options` are for files that are opened without them. With `list_sizes` listings have the sizes of volumes, for which the metadata of every
    file are read; by default only those of local files and of memory do.

    The modes "wb" and "xb" make a new volume, which appears whole when the file is closed. `type`,
    `sector_size`, `key_size`, `label`, `iter_time`, and those that begin with `pbkdf` and `luks2` are
    as in `luxor.encrypt`, for all new volumes. Each has its own volume key. `copy`, `mv`, `rm` and those for
    folders are those of the other file system: they move volumes as they are.
    """

    protocol = _options.PROTOCOL
    _takes_options_of_luks = True
    root_marker = ""
    # An instance holds keys, and ends with its users.
    cachable = False

    def __init__(
        self,
        fo: str = "",
        *,
        fs: Any = None,
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        passphrase: Secret | None = None,
        key_file: str | os.PathLike[str] | None = None,
        volume_key: VolumeKey | None = None,
        key: KeyProvider | None = None,
        key_slot: int | None = None,
        format: Format | None = None,
        volume_offset: int | None = None,
        volume_partition: int | None = None,
        engine: str | None = None,
        threads: int | None = None,
        block_size: int | None = None,
        cache_type: str = "readahead",
        cache_options: dict[str, Any] | None = None,
        list_sizes: bool | None = None,
        **kwargs: Any,
    ) -> None:
        passphrase = _luxor.hidden(passphrase)
        volume_key = _luxor.hidden(volume_key, is_key=True)
        key = hidden_provider(key)
        self._new_options = options_of_new(kwargs)
        # An option with a wrong name may be a secret, too.
        if unknown := kwargs.keys() - OF_FSSPEC:
            kwargs.clear()
            raise TypeError(
                f"unknown options of luks: {', '.join(sorted(unknown))}. Name the protocols to give "
                "options to others: {'luks': {…}, 's3': {…}}"
                # Its second try hides the error of the first.
                + (". pandas adds anon when the storage has refused access" * ("anon" in unknown))
            )
        super().__init__(**kwargs)
        options = target_options or {}
        if fs is not None:
            self.fs = fs
        elif target_protocol is None:
            self.fs, fo = fsspec.url_to_fs(fo, **options)
        else:
            self.fs = fsspec.filesystem(target_protocol, **options)
        target, own_strip = self.fs, super()._strip_protocol

        def strip(path: Any) -> Any:
            path = own_strip(path)
            # An empty path is the volume `fo`, not the root of the target.
            return target._strip_protocol(path) if path else path

        # Each instance has its own target, whose URLs are paths too: also in `glob` and `find`.
        self._strip_protocol = strip
        self._fo = self.fs._strip_protocol(fo)
        self._key = None if key is None else checked_provider(key)
        self._secret: dict[str, Any] = {
            "passphrase": passphrase,
            "key_file": key_file,
            "volume_key": volume_key,
        }
        given = [name for name, value in {**self._secret, "key": key}.items() if value is not None]
        for name in _options.SECRETS:
            if (secret := self._secret[name]) is not None:
                # Raises for what is no secret.
                _luxor.Secret(secret)
        if len(given) != 1:
            raise TypeError(
                "exactly one of passphrase, key_file, volume_key and key must be given, not "
                + (" and ".join(given) or "none")
            )
        self._options: dict[str, Any] = {
            "key_slot": key_slot,
            "format": format,
            "engine": engine,
            "threads": threads,
        }
        self._part = {"volume_offset": volume_offset, "volume_partition": volume_partition}
        self._block_size, self._cache_type = block_size, cache_type
        self._cache_options = cache_options
        if list_sizes is None:
            names = self.fs.protocol
            names = {names} if isinstance(names, str) else set(names)
            list_sizes = bool(names & {"file", "local", "memory"})
        self._list_sizes = list_sizes
        self._ciphers: OrderedDict[tuple[int, str, str], VolumeCipher] = OrderedDict()
        #: What the last volume needed: the next one is likely of the same layout.
        self._head_size = HEAD
        self._lock = ProcessLock()

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Describe the file system, also for `to_json`: without secrets, thus not every one."""
        for secret in self._secret.values():
            if isinstance(secret, _luxor.Secret):
                # Raises what says so.
                secret.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        described: dict[str, Any] = super().to_dict(**kwargs)
        return described

    @property
    def fsid(self) -> str:
        # Not all file systems have one.
        return f"luks_{type(self.fs).__name__}"

    def _target(self, path: str) -> str:
        return str(self._strip_protocol(path) or self._fo)

    def _open(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        *,
        cache_type: str | None = None,
        exclusive: bool = False,
        **_: Any,
    ) -> LuksFile | NewLuksFile:
        if mode == "rb":
            return self.open_reader(path, block_size, cache_type, cache_options)
        if mode not in ("wb", "w+b", "wb+", "xb", "x+b", "xb+"):
            # A secret may be in the wrong place.
            mode = ""
            raise io.UnsupportedOperation(
                "luks:// changes no part of a volume: write it anew with 'wb', or open a local file "
                "with luxor.open(path, 'r+b')"
            )
        path = self._target(path)
        place = Place.of(self.fs, path, is_exclusive=exclusive or mode[0] == "x")
        options = {**self._secret, **self._new_options, **self._options, **self._part}
        return NewLuksFile(self, path, NewFile.begin(place, self._key, options), autocommit)

    def open_reader(
        self,
        path: str,
        block_size: int | None = None,
        cache_type: str | None = None,
        cache_options: dict[str, Any] | None = None,
    ) -> LuksFile:
        """Open a volume for reading, as `open` does."""
        path = self._target(path)
        stored = self._stored(path)
        try:
            return LuksFile(
                self,
                path,
                stored,
                self._cipher_of(path, stored),
                block_size=block_size or self._block_size or BLOCK,
                cache_type=cache_type or self._cache_type,
                cache_options=cache_options or self._cache_options,
            )
        except BaseException:
            stored.close()
            raise

    def _stored(self, path: str) -> StoredFile:
        """Open a file with a volume, or the part of it that is one."""
        stored = StoredFile(self.fs, path)
        if any(value is not None for value in self._part.values()):
            try:
                stored.select(**self._part)
            except BaseException:
                stored.close()
                raise
        return stored

    def _cipher_of(self, path: str, stored: StoredFile) -> VolumeCipher:
        """Return the cipher of a volume. It is kept until the volume is another one."""
        cipher = self._known_cipher_of(path, stored)
        if cipher is not None:
            return cipher
        head = _Head(stored, self._head_size)
        cipher = VolumeCipher(head, **self._arguments(head))
        with self._lock:
            self._head_size = head.needed
            self._ciphers[os.getpid(), path, stored.identity] = cipher
            while len(self._ciphers) > KEPT:
                self._ciphers.popitem(last=False)
        return cipher

    def _arguments(self, head: _Head) -> dict[str, Any]:
        """Return the arguments that open a volume."""
        secret = self._secret
        if self._key is not None:
            secret = {"passphrase": secret_of(self._key, self._volume(head).dump())}
        return {**secret, **self._options, "key_cache": KEY_CACHE}

    @contextmanager
    def stored_volume(self, path: str) -> Iterator[tuple[_Head, dict[str, Any]]]:
        """Open a volume for others to read: as it is stored, with the arguments that open it."""
        stored = self._stored(self._target(path))
        try:
            head = _Head(stored, self._head_size)
            yield head, self._arguments(head)
        finally:
            stored.close()

    def _volume(self, head: _Head) -> Volume:
        return Volume(head, format=self._options["format"])

    def _known_cipher_of(self, path: str, stored: StoredFile) -> VolumeCipher | None:
        # A forked process has lost the keys of its parent, and derives them again.
        which = (os.getpid(), path, stored.identity)
        with self._lock:
            cipher = self._ciphers.get(which)
            if cipher is not None:
                self._ciphers.move_to_end(which)
            return cipher

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Describe a file. Its size is that of the plaintext, for which the metadata are read."""
        path = self._target(path)
        info = dict(self.fs.info(path, **kwargs))
        if info["type"] == "file":
            info["stored_size"] = info["size"]
            info["size"], _identity = self.describe(path)
        return info

    def describe(self, path: str) -> tuple[int, str]:
        """Return the length of the plaintext, and the identity of the stored file."""
        path = self._target(path)
        stored = self._stored(path)
        try:
            cipher = self._known_cipher_of(path, stored)
            size = cipher.size if cipher else self._volume(_Head(stored, METADATA)).size
            return size, stored.identity
        finally:
            stored.close()

    def exists(self, path: str, **kwargs: Any) -> bool:
        return bool(self.fs.exists(self._target(path), **kwargs))

    def isdir(self, path: str) -> bool:
        return bool(self.fs.isdir(self._target(path)))

    def isfile(self, path: str) -> bool:
        return bool(self.fs.isfile(self._target(path)))

    def created(self, path: str) -> Any:
        return self.fs.created(self._target(path))

    def modified(self, path: str) -> Any:
        return self.fs.modified(self._target(path))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """List the files of the target. Without `list_sizes` the sizes of their plaintexts are None.

        A file that is no volume has no size.
        """
        listed = self.fs.ls(self._target(path), detail=detail, **kwargs)
        if not detail:
            return list(listed)
        files = [info["name"] for info in listed if info["type"] == "file"]
        sizes = dict(zip(files, at_once(self._size_of, files), strict=True))
        return [
            {**info, "size": sizes[info["name"]], "stored_size": info["size"]}
            if info["type"] == "file"
            else info
            for info in listed
        ]

    def _size_of(self, path: str) -> int | None:
        try:
            return self.describe(path)[0] if self._list_sizes else None
        except (Error, OSError):
            return None

    def invalidate_cache(self, path: str | None = None) -> None:
        super().invalidate_cache(path)
        self.fs.invalidate_cache(None if path is None else self._target(path))

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        """Make a volume with this plaintext."""
        with self.open(path, "xb" if mode == "create" else "wb", **kwargs) as file:
            file.write(value)

    def put_file(
        self, lpath: Any, rpath: str, *args: Any, mode: str = "overwrite", **kwargs: Any
    ) -> None:
        """Make a volume of a local file."""
        super().put_file(lpath, rpath, *args, exclusive=mode == "create", **kwargs)

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        # The folder of a volume in the root is none that could be made.
        if named := self._strip_protocol(path):
            self.fs.mkdir(named, create_parents=create_parents, **kwargs)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        if named := self._strip_protocol(path):
            self.fs.makedirs(named, exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        self.fs.rmdir(self._named(path))

    def rm_file(self, path: str) -> None:
        self.fs.rm_file(self._target(path))

    def rm(
        self, path: str | list[str], recursive: bool = False, maxdepth: int | None = None
    ) -> None:
        """Remove volumes and folders."""
        for each in [path] if isinstance(path, str) else path:
            if recursive:
                self._named(each)
        self.fs.rm(self._targets(path), recursive=recursive, maxdepth=maxdepth)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Copy a volume as it is: the copy has the same keys."""
        self.fs.cp_file(self._target(path1), self._target(path2), **kwargs)

    def mv(
        self, path1: str | list[str], path2: str | list[str], *args: Any, **kwargs: Any
    ) -> None:
        """Move volumes as they are."""
        self.fs.mv(self._targets(path1), self._targets(path2), *args, **kwargs)

    def _targets(self, path: str | list[str]) -> str | list[str]:
        return self._target(path) if isinstance(path, str) else [self._target(each) for each in path]

    def _named(self, path: str) -> str:
        """Return the path of a folder that may be removed: not one that is named by nothing."""
        if not (named := self._strip_protocol(path)):
            raise ValueError("the empty path is no folder")
        return str(named)

    def du(
        self,
        path: str,
        total: bool = True,
        maxdepth: int | None = None,
        withdirs: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Return the lengths of all plaintexts, or their sum. A file that is no volume has none."""
        found = self.find(path, maxdepth=maxdepth, withdirs=withdirs, **kwargs)
        if withdirs and self.isdir(path):
            found = [self._target(path), *found]
        sizes = {}
        for name in dict.fromkeys(found):
            try:
                sizes[name] = self.info(name)["size"]
            except Error:
                sizes[name] = None
        return sum(size or 0 for size in sizes.values()) if total else sizes

    def ukey(self, path: str) -> str:
        return str(self.fs.ukey(self._target(path)))

    def get(
        self,
        rpath: str | list[str],
        lpath: str | list[str],
        recursive: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Copy the plaintext of volumes to local files, under the names that the storage lists."""
        if isinstance(rpath, str) and isinstance(lpath, str) and (recursive or has_magic(rpath)):
            for path in self.expand_path(rpath, recursive=recursive, maxdepth=kwargs.get("maxdepth")):
                # Anyone who can write to the storage chooses the names.
                parts_of(path.rstrip("/"))
        return super().get(rpath, lpath, recursive, *args, **kwargs)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        with self.open_reader(path, cache_type="none") as file:
            return _slice(file, start, end)

    def cat_ranges(
        self,
        paths: list[str],
        starts: int | None | list[int | None],
        ends: int | None | list[int | None],
        max_gap: int | None = None,
        on_error: str = "return",
        **_: Any,
    ) -> list[Any]:
        """Read all the ranges at the same time."""
        starts = starts if isinstance(starts, list) else [starts] * len(paths)
        ends = ends if isinstance(ends, list) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError(f"{len(paths)} paths, {len(starts)} starts and {len(ends)} ends")

        def open_file(path: str) -> LuksFile | Exception:
            try:
                return self.open_reader(path, cache_type="none")
            except Exception as error:
                return error

        def read(path: str, start: int | None, end: int | None) -> bytes | Exception:
            file = files[path]
            try:
                return file if isinstance(file, Exception) else _slice(file, start, end)
            except Exception as error:
                return error

        # One after the other: a derivation may take a gigabyte of memory.
        files = {path: open_file(path) for path in dict.fromkeys(paths)}
        try:
            results = list(at_once(read, paths, starts, ends))
        finally:
            for file in files.values():
                if isinstance(file, LuksFile):
                    file.close()
        if on_error != "return":
            for result in results:
                if isinstance(result, Exception):
                    raise result
        return results


@contextmanager
def stored_volume(
    url: str, options: Mapping[str, Any] | None, arguments: dict[str, Any]
) -> Iterator[tuple[_Head, dict[str, Any]]]:
    """Open the volume that `url` names, with or without `luks::`, for others to read.

    `options` are those of `fsspec.open`, and `arguments` those of `luxor.open`. The arguments that open the
    volume in the stored file are returned with it.
    """
    options = dict(options or {})
    given = {name: value for name, value in arguments.items() if value is not None}
    other = {name: given.pop(name, None) for name in ("header", "key_cache")}
    protocol = url.partition(":")[0]
    if _options.is_luks(protocol):
        options[protocol] = {**options.get(protocol, {}), **given}
        fs, path = fsspec.url_to_fs(url, **options)
    else:
        fs, path = LuksFileSystem(url, target_options=options, **given), ""
    with fs.stored_volume(path) as (stored, found):
        unused = dict.fromkeys(arguments)
        kept = {name: value for name, value in other.items() if value is not None}
        yield stored, {**unused, **found, **kept}


@contextmanager
def unencrypted_file(
    url: str, options: Mapping[str, Any] | None, arguments: dict[str, Any]
) -> Iterator[StoredFile]:
    """Open the file that `url` names, which is not encrypted, or the part of it in the arguments."""
    if _options.is_luks(url.partition(":")[0]):
        raise ValueError("luks:: names a volume, and encrypted=False a file that is none")
    fs, path = fsspec.url_to_fs(url, **(options or {}))
    stored = StoredFile(fs, path)
    with closing(stored):
        if any(value is not None for value in arguments.values()):
            stored.select(**arguments)
        yield stored


def _slice(file: LuksFile, start: int | None, end: int | None) -> bytes:
    start, stop, _step = slice(start, end).indices(file.size)
    return file.read_at(max(stop - start, 0), start)
