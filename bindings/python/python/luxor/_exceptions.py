# SPDX-License-Identifier: MIT OR Apache-2.0
"""What Luxor raises."""

from __future__ import annotations

import errno as numbers
import os
from typing import Any

class Error(Exception):
    """An operation failed. `hint` says what can be done, or is None."""

    def __init__(self, message: str = "", hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if hint is not None:
            self.add_note(hint)


class WrongPassphrase(Error):
    """The secret opens no keyslot, or there is no keyslot to open."""


class NotAVolume(Error):
    """The file is not a volume."""


class DamagedError(Error):
    """The metadata of the volume are damaged."""


class FileError(Error, OSError):
    """The system failed. `errno` and `strerror` say how, `filename` with which file or is None."""

    _errno: int | None = None

    def __init__(
        self,
        message: str = "",
        hint: str | None = None,
        errno: int | None = None,
        filename: str | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.errno = self._errno if errno is None else errno
        self.strerror = None if self.errno is None else os.strerror(self.errno)
        self.filename = None if filename is None else os.fspath(filename)

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.hint, self.errno, self.filename), vars(self)


class MissingError(FileError, FileNotFoundError):
    """The volume, the input or the folder of the output does not exist."""

    _errno = numbers.ENOENT


class PermissionDenied(FileError, PermissionError):
    """The system denied the access to a file."""

    _errno = numbers.EACCES


class FolderError(FileError, IsADirectoryError):
    """The file is a folder."""

    _errno = numbers.EISDIR


class NameTooLong(FileError, ValueError):
    """The name is longer than names of files can be."""

    _errno = numbers.ENAMETOOLONG


class BusyError(Error):
    """The output exists, or something is locked, mounted or in use."""


class ExistsError(BusyError, FileError, FileExistsError):
    """The output exists."""

    _errno = numbers.EEXIST


class OutOfMemory(Error, MemoryError):
    """There is not enough memory, such as Argon2 needs."""


class CancelledError(Error):
    """The operation was cancelled."""


class KeyLostInFork(Error):
    """The key was wiped in this process, because it is a fork of the one that loaded the key."""


class VolumeWarning(UserWarning):
    """Something that the user of a volume should know, although the operation continues."""


# Tracebacks name the classes as callers do.
for _class in list(globals().values()):
    if isinstance(_class, type) and _class.__module__ == __name__:
        _class.__module__ = "luxor"
