# SPDX-License-Identifier: MIT OR Apache-2.0
"""XTS-AES at memory speed, and encrypted volumes as files, without root.

XTS keeps data secret but does not authenticate them: a change of the ciphertext is not detected.
"""

from ._cipher import VolumeCipher, new_header
from ._exceptions import (
    BusyError,
    CancelledError,
    DamagedError,
    Error,
    ExistsError,
    FileError,
    FolderError,
    KeyLostInFork,
    MissingError,
    NameTooLong,
    NotAVolume,
    OutOfMemory,
    PermissionDenied,
    VolumeWarning,
    WrongPassphrase,
)
from ._files import (
    UnlockedVolume,
    VolumeCreator,
    VolumeFile,
    VolumeReader,
    VolumeWriter,
    open,
)
from ._formats import PlainVolume
from ._luxor import XTS, KeyCache, Secret, __version__, engines, formats
from ._operations import Volume, create, decrypt, encrypt, restore_header

__all__ = [
    "XTS",
    "BusyError",
    "CancelledError",
    "DamagedError",
    "Error",
    "ExistsError",
    "FileError",
    "FolderError",
    "KeyCache",
    "KeyLostInFork",
    "MissingError",
    "NameTooLong",
    "NotAVolume",
    "OutOfMemory",
    "PermissionDenied",
    "PlainVolume",
    "Secret",
    "UnlockedVolume",
    "Volume",
    "VolumeCipher",
    "VolumeCreator",
    "VolumeFile",
    "VolumeReader",
    "VolumeWarning",
    "VolumeWriter",
    "WrongPassphrase",
    "__version__",
    "create",
    "decrypt",
    "encrypt",
    "engines",
    "formats",
    "new_header",
    "open",
    "restore_header",
]
