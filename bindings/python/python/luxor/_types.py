# SPDX-License-Identifier: MIT OR Apache-2.0
"""Types of arguments, for type checkers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict

if TYPE_CHECKING:
    # An object with the buffer protocol. Python itself has it from 3.12 on; type checkers always
    # know this one.
    from typing_extensions import Buffer as Buffer

    from . import _luxor
    from ._formats import PlainVolume
    from ._luxor import KeyCache


class NumpyArray(Protocol):
    """An array of NumPy, which type checkers take for a buffer only from Python 3.12 on."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


class HostTensor(Protocol):
    """A tensor in the computer's memory that is handed over by DLPack."""

    def __dlpack_device__(self) -> tuple[int, int]: ...


class Tensor(Protocol):
    """A tensor of torch on the CPU, which is no buffer, but has an array over the same memory."""

    def numpy(self) -> Any: ...


#: The version of LUKS of a new volume.
VolumeType: TypeAlias = Literal["luks1", "luks2"]

#: The key derivation of a new keyslot.
Pbkdf: TypeAlias = Literal["argon2id", "argon2i", "pbkdf2"]

Array: TypeAlias = NumpyArray | Tensor | HostTensor

#: What is encrypted: the bytes of a buffer or an array.
Data: TypeAlias = "Buffer | Array"

Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]

#: A passphrase: text, which is encoded as UTF-8, bytes, or an object that hides them.
Secret: TypeAlias = "str | bytes | bytearray | memoryview | _luxor.Secret"

#: A volume key.
VolumeKey: TypeAlias = "Buffer | _luxor.Secret"


#: The format of a volume: one of the names of `formats`, or a plain volume with its values.
Format: TypeAlias = "str | PlainVolume"


class Readable(Protocol):
    """An object that is read like a binary file. As a volume it also needs `seek` and `tell`."""

    def read(self, size: int, /) -> bytes: ...


class Writable(Protocol):
    """An object that is written like a binary file."""

    def write(self, data: bytes, /) -> object: ...


class ReadableAt(Protocol):
    """An object with bytes at offsets, and a length."""

    def read_at(self, size: int, offset: int, /) -> bytes: ...
    def __len__(self) -> int: ...


FileLike: TypeAlias = Readable | Writable | ReadableAt


class DlpackTensor(Protocol):
    """A tensor on an NVIDIA GPU that is handed over by DLPack."""

    def __dlpack_device__(self) -> tuple[int, int]: ...


class CudaArray(Protocol):
    """An array on an NVIDIA GPU that is handed over by its address."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...


GpuTensor: TypeAlias = DlpackTensor | CudaArray


class CudaStream(Protocol):
    """A stream of CUDA: the version of the protocol, 0, and the stream's address."""

    def __cuda_stream__(self) -> tuple[int, int]: ...


class Progress(Protocol):
    """A function that is called with the bytes that are done, and their total if it is known."""

    def __call__(self, done: int, total: int | None, /) -> object: ...


class OpenOptions(TypedDict, total=False):
    """The options of `open`."""

    passphrase: Secret | None
    key_file: Path | None
    volume_key: VolumeKey | None
    header: Path | FileLike | None
    format: Format | None
    key_slot: int | None
    key_cache: KeyCache | None
    volume_offset: int | None
    volume_partition: int | None
    engine: str | None
    threads: int | None


class NewOptions(TypedDict, total=False):
    """The options of `open` for a new volume."""

    passphrase: Secret | None
    key_file: Path | None
    force: bool
    type: Literal["luks1", "luks2"]
    sector_size: int | None
    key_size: Literal[256, 512]
    pbkdf: Literal["argon2id", "argon2i", "pbkdf2"] | None
    pbkdf_memory: int | None
    pbkdf_parallel: int | None
    pbkdf_force_iterations: int | None
    iter_time: float
    label: str | None
    uuid: str | None
    luks2_metadata_size: int | None
    luks2_keyslots_size: int | None
    engine: str | None
    threads: int | None
