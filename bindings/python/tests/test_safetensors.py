# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files of safetensors that are not valid, as anyone can make them who can change the ciphertext."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import luxor
import luxor.gpu
import numpy
import pytest
import safetensors
import safetensors.numpy
from conftest import CHEAP, PASSPHRASE, encrypted
from gpus import content, memories
from hypothesis import strategies
from luxor._safetensors import read_header


def with_header(header: bytes, data: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def entry(begin: int, end: int, dtype: object = "U8", shape: object = None) -> dict[str, Any]:
    shape = [end - begin] if shape is None else shape
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


#: Headers, each with the words of the exception, and the bytes that follow.
HOSTILE: list[tuple[str, Any, int]] = [
    ("not a JSON object", b"", 0),
    ("not a JSON object", b"[]", 0),
    ("not a JSON object", b" {}", 0),
    ("not JSON", b"{", 0),
    ("not JSON", b'{"a": NaN}', 0),
    ("not JSON", b'{"\xff": 1}', 0),
    ("not JSON", b'{"a":' + b"[" * 100_000, 0),
    ("not JSON", b'{"a":' + b"9" * 5000 + b"}", 0),
    ("'a' .* twice", b'{"a": %(a)s, "a": %(a)s}' % {b"a": json.dumps(entry(0, 1)).encode()}, 1),
    ("'shape' .* twice", b'{"a": {"shape": [], "shape": []}}', 0),
    ("__metadata__", {"__metadata__": {"a": 1}}, 0),
    ("__metadata__", {"__metadata__": []}, 0),
    ("__metadata__", {"__metadata__": None}, 0),
    ("'a' .* needs dtype", {"a": []}, 0),
    ("'a' .* needs dtype", {"a": {"dtype": "U8", "shape": [1]}}, 0),
    ("'a' .* type 'U9' is unknown", {"a": entry(0, 1, "U9")}, 1),
    ("'a' .* type 'None' is unknown", {"a": entry(0, 1, None)}, 1),
    ("'a' .* type .* is unknown", {"a": entry(0, 1, ["U8"])}, 1),
    ("'a' .* shape is not", {"a": entry(0, 1, shape=1)}, 1),
    ("'a' .* shape is not", {"a": entry(0, 1, shape=[-1])}, 1),
    ("'a' .* shape is not", {"a": entry(0, 1, shape=[1.0])}, 1),
    ("'a' .* shape is not", {"a": entry(0, 1, shape=[True])}, 1),
    ("'a' .* shape is not", {"a": entry(0, 1, shape=[2**63])}, 1),
    ("'a' .* shape is not", {"a": entry(0, 1, shape=[1] * 65)}, 1),
    ("'a' .* too large", {"a": entry(0, 0, shape=[2**40, 2**40, 0])}, 0),
    ("'a' .* too large", {"a": entry(0, 0, shape=[2**32, 2**32])}, 0),
    ("'a' .* too large", {"a": entry(0, 0, "F64", shape=[2**60, 0])}, 0),
    ("'a' .* needs 8 bytes, and it has 7", {"a": entry(0, 7, "F32", [2])}, 7),
    ("'a' .* needs 1 bytes, and it has 0", {"a": entry(0, 0, "U8", [])}, 0),
    ("'a' .* not two offsets", {"a": {**entry(0, 1), "data_offsets": [0]}}, 1),
    ("'a' .* not two offsets", {"a": {**entry(0, 1), "data_offsets": [0, "1"]}}, 1),
    ("'a' .* not two offsets", {"a": {**entry(0, 1), "data_offsets": [-1, 0]}}, 1),
    ("'a' .* begin at 2 and end before, at 1", {"a": {**entry(2, 1), "shape": [0]}}, 2),
    ("'b' .* before the end of others", {"a": entry(0, 3), "b": entry(2, 4)}, 4),
    ("'[ab]' .* before the end of others", {"b": entry(0, 3), "a": entry(0, 3)}, 3),
    ("'b' .* those before it end at 3", {"b": entry(4, 5), "a": entry(0, 3)}, 5),
    ("'a' .* those before it end at 0", {"a": entry(1, 5)}, 5),
    ("'a' .* end at 6, but 5 follow", {"a": entry(0, 6)}, 5),
    ("'a' .* end at 9223372036854775806", {"a": entry(0, 2**63 - 2)}, 5),
    ("3 bytes follow the last tensor", {"a": entry(0, 5)}, 8),
]


@pytest.mark.parametrize(("text", "header", "room"), HOSTILE)
def test_a_header_that_is_not_valid_is_refused(
    tmp_path: Path, text: str, header: Any, room: int
) -> None:
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    path = encrypted(tmp_path / "volume", with_header(header, bytes(room)))
    luxor.gpu.read(path, 0, 1, passphrase=PASSPHRASE)
    before = memories()
    with pytest.raises(luxor.gpu.SafetensorsError, match=text):
        luxor.gpu.load_safetensors(path, passphrase=PASSPHRASE)
    assert memories() == before


@pytest.mark.parametrize("plain", [b"", b"1234567", (1).to_bytes(8, "little"), b"\xff" * 100])
def test_a_file_without_room_for_its_header_is_refused(tmp_path: Path, plain: bytes) -> None:
    path = encrypted(tmp_path / "volume", plain)
    with pytest.raises(luxor.gpu.SafetensorsError, match="more than the"):
        luxor.gpu.load_safetensors(path, passphrase=PASSPHRASE)


def test_a_header_of_more_than_100_megabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "volume"
    # A hole, which decrypts to anything.
    luxor.create(path, 101 << 20, passphrase=PASSPHRASE, **CHEAP)
    luxor.gpu.write(path, (100_000_001).to_bytes(8, "little"), passphrase=PASSPHRASE)
    with pytest.raises(luxor.gpu.SafetensorsError, match="more than 100000000"):
        luxor.gpu.load_safetensors(path, passphrase=PASSPHRASE)


#: A file of two tensors, and its length of the header.
SMALL = safetensors.numpy.save({"ab": numpy.arange(6, dtype="<f4"), "c": numpy.zeros((2, 3), "u1")})
HEADER = int.from_bytes(SMALL[:8], "little")

JSON = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers() | strategies.text(max_size=3),
    lambda inner: (
        strategies.lists(inner, max_size=3)
        | strategies.dictionaries(strategies.text(max_size=3), inner, max_size=3)
    ),
)
SIZES = strategies.integers(-1, 12) | strategies.sampled_from([2**31, 2**62, 2**63, 2**64])
TENSOR = strategies.fixed_dictionaries(
    {
        "dtype": strategies.sampled_from(["U8", "F32", "BF16", "BOOL", "F4", ""]) | JSON,
        "shape": strategies.lists(SIZES, max_size=3) | JSON,
        "data_offsets": strategies.lists(SIZES, min_size=2, max_size=2) | JSON,
    }
)


def check(plain: bytes) -> None:
    """Check that the reader of the library `safetensors` accepts a file if this one does."""
    try:
        header = read_header(lambda size, at: plain[at : at + size], len(plain))
    except luxor.gpu.SafetensorsError:
        return
    deserialize: Any = safetensors.deserialize
    expected = {
        name: (tensor["dtype"], tensor["shape"], bytes(tensor["data"]))
        for name, tensor in deserialize(plain)
    }
    data = plain[header.size :]
    assert expected == {
        name: (tensor.dtype, tensor.shape, data[tensor.begin : tensor.end])
        for name, tensor in header.tensors.items()
    }


@hypothesis.given(
    strategies.lists(
        strategies.tuples(strategies.integers(0, HEADER + 7), strategies.integers(0, 255)),
        min_size=1,
        max_size=3,
    )
)
def test_changed_bytes_are_refused_or_read_as_others_read_them(changes: Any) -> None:
    plain = bytearray(SMALL)
    for at, byte in changes:
        plain[at] = byte
    check(bytes(plain))


@hypothesis.given(
    strategies.dictionaries(strategies.text(max_size=3), TENSOR | JSON, max_size=3),
    strategies.integers(0, 20),
)
def test_headers_are_refused_or_read_as_others_read_them(header: Any, room: int) -> None:
    check(with_header(json.dumps(header).encode(), bytes(room)))


def test_the_file_itself_is_accepted() -> None:
    check(SMALL)
    assert read_header(lambda size, at: SMALL[at : at + size], len(SMALL)).tensors.keys() == {"ab", "c"}


def in_a_longer_volume(path: Path, plain: bytes, behind: bytes, **options: Any) -> Path:
    """Make a volume that does not say where its file ends, with `behind` after the file."""
    room = len(plain) + len(behind)
    luxor.create(path, room, passphrase=PASSPHRASE, **CHEAP, **options)
    luxor.gpu.write(path, plain + behind, passphrase=PASSPHRASE)
    return path


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("kind", ["luks1", "luks2", "cryptsetup"])
def test_a_file_may_be_in_a_longer_volume(
    tmp_path: Path, cryptsetup: Callable[..., str], kind: str, device: str
) -> None:
    path, behind = tmp_path / "volume", b"\xee" * (-len(SMALL) % 4096 + 8192)
    if kind == "cryptsetup":
        path.write_bytes(bytes((16 << 20) + len(SMALL) + len(behind)))
        cryptsetup("luksFormat", "--pbkdf=pbkdf2", "--pbkdf-force-iterations=1000", path)
        luxor.gpu.write(path, SMALL + behind, passphrase=PASSPHRASE)
    else:
        in_a_longer_volume(path, SMALL, behind, type=kind)
    loaded = luxor.gpu.load_safetensors(path, passphrase=PASSPHRASE, device=device)
    expected = safetensors.numpy.load(SMALL)
    assert loaded.keys() == expected.keys()
    for name, tensor in loaded.items():
        assert content(tensor) == expected[name].tobytes()


def test_bytes_behind_the_last_tensor_are_refused_where_the_file_ends(tmp_path: Path) -> None:
    file = SMALL + bytes(3)

    class Pipe:
        """A stream, whose volume has a trailer at its end."""

        def __init__(self) -> None:
            self.rest = io.BytesIO(file)

        def read(self, size: int, /) -> bytes:
            return self.rest.read(size)

    luxor.encrypt(Pipe(), tmp_path / "trailer", passphrase=PASSPHRASE, **CHEAP)
    (tmp_path / "plain").write_bytes(file)
    files: list[tuple[Any, dict[str, Any]]] = [
        (encrypted(tmp_path / "length", file), {"passphrase": PASSPHRASE}),
        (tmp_path / "trailer", {"passphrase": PASSPHRASE}),
        (tmp_path / "plain", {"encrypted": False}),
        (io.BytesIO(file), {"encrypted": False}),
    ]
    for path, options in files:
        with pytest.raises(luxor.gpu.SafetensorsError, match="3 bytes follow the last tensor"):
            luxor.gpu.load_safetensors(path, **options)


@pytest.mark.parametrize(
    # What follows the file counts as room.
    ("text", "header", "room"),
    [hostile for hostile in HOSTILE if "follow" not in hostile[0]],
)
def test_headers_that_are_not_valid_are_refused_in_longer_volumes(
    tmp_path: Path, text: str, header: Any, room: int
) -> None:
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    file = with_header(header, bytes(room))
    path = in_a_longer_volume(tmp_path / "volume", file, bytes(-len(file) % 512 + 512))
    with pytest.raises(luxor.gpu.SafetensorsError, match=text):
        luxor.gpu.load_safetensors(path, passphrase=PASSPHRASE)


def test_tensors_beyond_a_longer_volume_are_refused(tmp_path: Path) -> None:
    for end in [513, 2**63 - 2]:
        file = with_header(json.dumps({"a": entry(0, end)}).encode().ljust(504), bytes(512))
        path = tmp_path / f"{end}"
        in_a_longer_volume(path, file, b"")
        with pytest.raises(luxor.gpu.SafetensorsError, match=f"end at {end}, but 512 follow"):
            luxor.gpu.load_safetensors(path, passphrase=PASSPHRASE)
