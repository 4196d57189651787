# SPDX-License-Identifier: MIT OR Apache-2.0
"""New volumes in file systems of fsspec, which appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from . import _luxor
from ._exceptions import BusyError
from ._files import NewVolumeFile, VolumeCreator, new_disk
from ._names import check_exact
from ._operations import Volume
from ._uploads import check_can_store, store_file
from .keys import new_secret

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    from .keys import KeyProvider

#: The options of new volumes. Every one has its own UUID.
OF_NEW = (
    "type",
    "sector_size",
    "key_size",
    "pbkdf",
    "pbkdf_memory",
    "pbkdf_parallel",
    "pbkdf_force_iterations",
    "iter_time",
    "label",
    "luks2_metadata_size",
    "luks2_keyslots_size",
)


def options_of_new(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options of new volumes out of those of a file system."""
    return {name: options.pop(name) for name in OF_NEW if name in options}


@dataclass(frozen=True)
class Place:
    """A path in a file system, for a new file."""

    fs: Any
    path: str
    #: Whether nothing may be there.
    is_exclusive: bool

    @classmethod
    def of(cls, fs: Any, path: str, *, is_exclusive: bool) -> Place:
        """Refuse a path at which no whole file can be made, or where there is one already."""
        while isinstance(fs, DirFileSystem):
            fs, path = fs.fs, str(fs._join(path))
        check_can_store(fs)
        check_exact(fs, path)
        place = cls(fs, path, is_exclusive)
        if place.is_local and fs.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if is_exclusive and fs.exists(path):
            raise place.exists()
        if getattr(fs, "auto_mkdir", False):
            fs.makedirs(fs._parent(path), exist_ok=True)
        return place

    @property
    def is_local(self) -> bool:
        return isinstance(self.fs, LocalFileSystem)

    @property
    def url(self) -> str:
        return str(self.fs.unstrip_protocol(self.path))

    def exists(self) -> FileExistsError:
        return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path)

    @contextlib.contextmanager
    def checking(self) -> Iterator[None]:
        """Raise what `open` raises if another program has made the file meanwhile."""
        try:
            yield
        except (BusyError, FileExistsError) as error:
            if self.is_exclusive and self.fs.exists(self.path):
                raise self.exists() from error
            raise


class NewFile(NewVolumeFile):
    """A new volume at its place.

    At a local path it is the file that appears there. For other storage, and if the volume needs a
    token, it is an unnamed file with the ciphertext, which is stored at the end.
    """

    def __init__(
        self, disk: _luxor.Disk, place: Place, file: IO[bytes] | None, token: dict[str, Any] | None
    ) -> None:
        """Use `begin`."""
        super().__init__(disk)
        self.name = place.path
        self._place, self._file, self._token = place, file, token
        self._is_deferred = False
        #: Whether the volume is whole, and waits for the end of the transaction.
        self.is_waiting = False

    @classmethod
    def begin(cls, place: Place, key: KeyProvider | None, options: dict[str, Any]) -> NewFile:
        """Begin a new volume. `options` are those of `open`, which may be None, and its secret."""
        options = {name: value for name, value in options.items() if value is not None}
        existing = {"volume_key", "key_slot", "format", "volume_offset", "volume_partition"}
        if wrong := existing & options.keys():
            raise TypeError(f"a new volume has no option {wrong.pop()}")
        token = None
        if key is not None:
            secret, options, token = new_secret(key, place.url, options)
            options = {**options, "passphrase": secret}
        file = None if place.is_local and token is None else _unnamed_file()
        with place.checking():
            disk = new_disk(file or place.path, force=not place.is_exclusive, **options)
        return cls(disk, place, file, token)

    def defer(self) -> None:
        """Let `commit` keep the volume for the end of the transaction."""
        self._is_deferred = True

    def commit(self) -> None:
        """Let the volume appear, or keep it for the end of the transaction."""
        if self._is_deferred:
            self._disk.check_complete()
            io.RawIOBase.close(self)
            self.is_waiting = True
        else:
            self.publish()

    def publish(self) -> None:
        """Let the volume appear, whole and durable."""
        place, file = self._place, self._file
        try:
            with place.checking():
                self._disk.finish()
                if file is not None:
                    file.flush()
                    if self._token is not None:
                        Volume(file).add_token(self._token)
                    store_file(place.fs, place.path, file.fileno(), force=not place.is_exclusive)
        finally:
            self.drop()

    def drop(self) -> None:
        """Give up what has not appeared."""
        self.is_waiting = False
        io.RawIOBase.close(self)
        self._disk.close()
        if self._file is not None:
            self._file.close()

    def close(self) -> None:
        if not self.closed:
            self.drop()


def _unnamed_file() -> IO[bytes]:
    with tempfile.TemporaryFile() as file:
        # Not as standard output or error, if these are closed: messages would be written into it.
        return os.fdopen(fcntl.fcntl(file.fileno(), fcntl.F_DUPFD_CLOEXEC, 3), "w+b")


class NewLuksFile(VolumeCreator):
    """A new volume in a file system of fsspec: what its `open` returns for "wb" and "xb".

    It appears as those of `luxor.open` do, or in a transaction at its end.
    """

    raw: NewFile  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(
        self,
        fs: Any,
        path: str,
        raw: NewFile,
        autocommit: bool,
    ) -> None:
        super().__init__(raw)
        self.fs, self.path, self.autocommit = fs, path, autocommit
        if not autocommit:
            raw.defer()

    def _close(self) -> None:
        super()._close()
        if not self.raw.is_waiting:
            self._forget_listing()

    def commit(self) -> None:
        """Let the volume appear at the end of a transaction."""
        self._close()
        if self.raw.is_waiting:
            self.raw.publish()
            self._forget_listing()

    def discard(self) -> None:
        """Close the file without a volume, also after `close` in a transaction."""
        super().discard()
        self.raw.drop()

    def _forget_listing(self) -> None:
        self.fs.invalidate_cache(self.path)
        self.fs.invalidate_cache(self.fs._parent(self.path))
