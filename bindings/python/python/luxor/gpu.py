# SPDX-License-Identifier: MIT OR Apache-2.0
"""The plaintext of volumes in the memory of a GPU, where it is decrypted and encrypted.

Without a GPU the same functions use the memory of the computer.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

from . import _luxor
from ._files import open as open_volume
from ._luxor import Tensor
from ._names import brief
from ._safetensors import SafetensorsError, read_header
from ._types import OpenOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Unpack

    from ._types import CudaStream, Data, FileLike, GpuTensor, Path

__all__ = ["SafetensorsError", "Tensor", "Tensors", "load_safetensors", "read", "write"]

#: A string that begins like this is a URL of fsspec.
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(://|::)")

#: The options of `open` for files that are not encrypted.
PART_OPTIONS = ("volume_offset", "volume_partition")

#: The device types of DLPack for memory that a GPU can use: on it, and moved by its driver.
ON_GPU = (2, 13)


class Tensors(dict[str, Tensor]):
    """The tensors of a file of safetensors by their names. `metadata` is what it says about them."""

    def __init__(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
        super().__init__(tensors)
        self.metadata = dict(metadata)


def read(
    file: Path | FileLike,
    offset: int = 0,
    length: int | None = None,
    *,
    device: object = None,
    stream: CudaStream | int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    encrypted: bool = True,
    **options: Unpack[OpenOptions],
) -> Tensor:
    """Read `length` bytes of the plaintext from byte `offset` on, by default all, as a tensor of bytes.

    `file` and the options that are not described here are those of `luxor.open`. A `str` that begins
    with a protocol is a URL of fsspec, for which `storage_options` are: "s3://…" names the volume. Those
    of "luks::s3://…" can contain the secret and the other options of the protocol `luks`.

    `device` is "cuda" for the first GPU, "cuda:1" for the one with this number, or "cpu" for the memory of
    the computer. By default it is the first GPU, or the memory of the computer if there is none.

    `encrypted=False` reads a file that is not encrypted in the same way. Its only options are `volume_offset` and
    `volume_partition`.

    When this returns, everything is done, and any stream can use the tensor. Work that `stream` has when this
    is called is done first. Data in files are read past the page cache where the system permits it.
    """
    storage_options = _hidden(file, storage_options)
    arguments = _checked(options, encrypted)
    if offset < 0 or (length is not None and length < 0):
        raise ValueError("offset and length must not be negative")
    with _opened(file, device, arguments, storage_options, encrypted) as volume:
        if length is None:
            length = max(volume.size - offset, 0)
        (tensor,) = volume.load([(offset, "U8", [length])], stream)
        return tensor


def load_safetensors(
    file: Path | FileLike,
    names: Iterable[str] | None = None,
    *,
    device: object = None,
    stream: CudaStream | int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    encrypted: bool = True,
    **options: Unpack[OpenOptions],
) -> Tensors:
    """Load the tensors of the file of safetensors that is the plaintext, all or those with these names.

    Bytes that follow the last tensor are refused, unless the volume does not say where its file ends.

    They share one allocation, which is freed with the last of them, and each begins at a multiple of 256
    bytes. The other arguments are those of `read`. A header that is not valid raises `SafetensorsError`
    before any memory is allocated.
    """
    storage_options = _hidden(file, storage_options)
    arguments = _checked(options, encrypted)
    if isinstance(names, str):
        raise TypeError("names must be several names, not one text")
    wanted = None if names is None else list(dict.fromkeys(names))
    with _opened(file, device, arguments, storage_options, encrypted) as volume:
        header = read_header(volume.read_at, volume.size, is_exact=volume.has_exact_size)
        if wanted is None:
            wanted = list(header.tensors)
        for name in wanted:
            if name not in header.tensors:
                raise KeyError(f"there is no tensor {brief(name)}")
        stored = [header.tensors[name] for name in wanted]
        places = [(header.size + tensor.begin, tensor.dtype, tensor.shape) for tensor in stored]
        tensors = volume.load(places, stream)
        return Tensors(dict(zip(wanted, tensors, strict=True)), header.metadata)


def write(
    file: Path | FileLike,
    tensor: GpuTensor | Data,
    offset: int = 0,
    *,
    stream: CudaStream | int | None = None,
    **options: Unpack[OpenOptions],
) -> None:
    """Write the bytes of a tensor to the plaintext of an existing volume, from byte `offset` on.

    The tensor is on a GPU, of any module that implements DLPack or `__cuda_array_interface__`, or in the
    memory of the computer. Work on it that `stream`, by default the default stream, has when this is called is
    done first. `file` and the options are those of `luxor.open`.

    The other bytes of the volume stay as they are. When this returns, the data are durable. After an
    exception some may have been written.
    """
    arguments = _checked(options)
    if isinstance(file, str) and URL.match(file):
        raise ValueError(
            "a part of a volume is changed only in a file, not at a URL: pass a path or an object"
        )
    data: Any = tensor
    if _is_on_gpu(data):
        _luxor.store(file, data, offset, stream, arguments)
    else:
        with open_volume(file, "r+b", **arguments) as disk:
            disk.write_at(data, offset)


def _is_on_gpu(tensor: Any) -> bool:
    if (device := getattr(tensor, "__dlpack_device__", None)) is not None:
        return device()[0] in ON_GPU
    return hasattr(tensor, "__cuda_array_interface__")


def _checked(options: Any, encrypted: bool = True) -> dict[str, Any]:
    """Return all options of `open`, without readable secrets, which `options` loses.

    Those of a file that is not encrypted are those that name a part of it.
    """
    given: dict[str, Any] = dict(options)
    # The variables of the caller, which a traceback may show.
    options.clear()
    if unknown := sorted(given.keys() - OpenOptions.__annotations__.keys()):
        # An option with a wrong name may be a secret, too.
        given.clear()
        raise TypeError(f"there is no option {' or '.join(unknown)}")
    for name, is_key in (("passphrase", False), ("volume_key", True)):
        given[name] = _luxor.hidden(given.get(name), is_key=is_key)
    all_options = OpenOptions.__annotations__ if encrypted else PART_OPTIONS
    if refused := sorted(n for n, value in given.items() if value is not None and n not in all_options):
        raise TypeError(f"{' and '.join(refused)} cannot be used with encrypted=False")
    return {name: given.get(name) for name in all_options}


def _hidden(
    file: Path | FileLike, storage_options: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return options of fsspec without readable secrets."""
    if storage_options is None:
        return None
    # It needs fsspec.
    from ._options import PROTOCOL, hidden, hidden_for

    if isinstance(file, str) and URL.match(file):
        return hidden_for(file, storage_options)
    # They will be refused.
    return dict(hidden(storage_options, PROTOCOL))


@contextlib.contextmanager
def _opened(
    file: Path | FileLike,
    device: object,
    arguments: dict[str, Any],
    storage_options: Mapping[str, Any] | None,
    encrypted: bool,
) -> Iterator[_luxor.Loader]:
    """Open a file, and close it at the end of the block."""
    # Also a `torch.device`.
    name = None if device is None else str(device)
    with contextlib.ExitStack() as stack:
        if isinstance(file, str) and URL.match(file):
            # It needs fsspec.
            from .luksfs import stored_volume, unencrypted_file

            if encrypted:
                opened = stored_volume(file, storage_options, arguments)
                file, arguments = stack.enter_context(opened)
            else:
                file = stack.enter_context(unencrypted_file(file, storage_options, arguments))
                arguments = {}
        elif storage_options is not None:
            raise TypeError("storage_options are for URLs")
        make = _luxor.Loader if encrypted else _luxor.Loader.of_unencrypted
        yield stack.enter_context(contextlib.closing(make(file, name, arguments)))
