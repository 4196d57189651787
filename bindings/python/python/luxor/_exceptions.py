# SPDX-License-Identifier: MIT OR Apache-2.0
"""What Luxor raises."""


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


class MissingError(Error, FileNotFoundError):
    """The volume or the input does not exist."""


class BusyError(Error):
    """The output exists, or something is locked, mounted or in use."""


class OutOfMemory(Error, MemoryError):
    """There is not enough memory, such as Argon2 needs."""


class CancelledError(Error):
    """The operation was cancelled."""


class KeyLostInFork(Error):
    """The key was wiped in this process, because it is a fork of the one that loaded the key."""


class VolumeWarning(UserWarning):
    """Something that the user of a volume should know, although the operation continues."""


# Tracebacks name the classes as callers do.
for _class in (Error, *Error.__subclasses__(), VolumeWarning):
    _class.__module__ = "luxor"
