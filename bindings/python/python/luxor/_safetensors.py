# SPDX-License-Identifier: MIT OR Apache-2.0
"""The header of a file of safetensors (https://github.com/safetensors/safetensors#format).

Anyone who can change the ciphertext can change it. Every number in it is checked before it is used.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

from . import _luxor
from ._exceptions import Error
from ._names import brief

if TYPE_CHECKING:
    from collections.abc import Callable

#: The longest header, as in the library `safetensors`.
LONGEST = 100_000_000

#: The bytes that are read first, which contain most headers.
FIRST = 64 << 10

#: The most dimensions of a tensor. The buffer protocol has no more.
DIMENSIONS = 64

#: The number of bytes of an element of each type.
TYPES = _luxor.tensor_types()


class SafetensorsError(Error):
    """The plaintext is not a valid file of safetensors."""


SafetensorsError.__module__ = "luxor.gpu"


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file."""

    dtype: str
    shape: list[int]
    #: Its first byte, and the byte after its last one, from the end of the header on.
    begin: int
    end: int


@dataclass(frozen=True)
class Header:
    """What is in a file."""

    #: The byte of the file after the header.
    size: int
    tensors: dict[str, StoredTensor]
    metadata: dict[str, str]


def read_header(
    read_at: Callable[[int, int], bytes], size: int, *, is_exact: bool = True
) -> Header:
    """Read the header of a file of `size` bytes. `read_at` takes a number of bytes and an offset.

    If `size` is not exact, other bytes can follow the file.
    """
    first = read_at(min(FIRST, size), 0)
    length = int.from_bytes(first[:8], "little")
    if len(first) < 8 or length > size - 8:
        raise SafetensorsError(
            f"a file of safetensors begins with the length of its header: {length} bytes are more than the "
            f"{size} bytes of plaintext have room for"
        )
    if length > LONGEST:
        raise SafetensorsError(f"the header has {length} bytes, more than {LONGEST}")
    end = length + 8
    text = first[8:end] + (read_at(end - len(first), len(first)) if end > len(first) else b"")
    tensors, metadata = _parsed(text, size - end)
    last = max((tensor.end for tensor in tensors.values()), default=0)
    if is_exact and end + last < size:
        raise SafetensorsError(f"{size - end - last} bytes follow the last tensor")
    return Header(end, tensors, metadata)


def _parsed(text: bytes, room: int) -> tuple[dict[str, StoredTensor], dict[str, str]]:
    """Return the tensors and the metadata of a header that is followed by at most `room` bytes."""
    if not text.startswith(b"{"):
        raise SafetensorsError("the header is not a JSON object")
    try:
        found = json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise SafetensorsError(f"the header is not JSON: {brief(str(error))}") from None
    metadata = found.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise SafetensorsError("__metadata__ is not an object of texts")
    tensors = {name: _tensor(name, entry) for name, entry in found.items()}
    end = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if tensor.begin < end:
            _refuse(name, f"its bytes begin at {tensor.begin}, before the end of others at {end}")
        if tensor.begin > end:
            _refuse(name, f"its bytes begin at {tensor.begin}, but those before it end at {end}")
        end = tensor.end
        if end > room:
            _refuse(name, f"its bytes end at {end}, but {room} follow the header")
    return tensors, metadata


def _tensor(name: str, entry: Any) -> StoredTensor:
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        _refuse(name, "it needs dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in TYPES:
        _refuse(name, f"its type {brief(str(dtype))} is unknown")
    if not _are_sizes(shape) or len(shape) > DIMENSIONS:
        _refuse(name, f"its shape is not an array of at most {DIMENSIONS} sizes")
    if not _are_sizes(offsets) or len(offsets) != 2:
        _refuse(name, "its data_offsets are not two offsets")
    begin, end = offsets
    if begin > end:
        _refuse(name, f"its bytes begin at {begin} and end before, at {end}")
    element = TYPES[dtype]
    # Also what a zero hides must be a length.
    if prod(max(size, 1) for size in shape) * element > sys.maxsize:
        _refuse(name, "its shape is too large")
    if prod(shape) * element != end - begin:
        _refuse(name, f"its shape needs {prod(shape) * element} bytes, and it has {end - begin}")
    return StoredTensor(dtype, shape, begin, end)


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 1 << 63 for v in values)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            _refuse(name, "the name is there twice")
        found[name] = value
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _refuse(name: str, reason: str) -> NoReturn:
    raise SafetensorsError(f"the tensor {brief(name)} is not valid: {reason}")
