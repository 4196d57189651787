# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names that come from data, and storage whose answers are not what they should be."""

from __future__ import annotations

import io
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import luxor
import pytest
from conftest import CHEAP, PASSPHRASE
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st
from luxor import _uploads
from luxor._names import Names, brief, parts_of

if TYPE_CHECKING:
    from s3 import Bucket

PARTS = st.one_of(
    st.sampled_from(["a", "b", "a.luks", "", ".", "..", "...", "~", "-", "*", "x?versionId=1", "é"]),
    st.text(max_size=4),
)
PATHS = st.builds(
    lambda start, parts: start + "/".join(parts),
    st.sampled_from(["", "/", "s3://", "file:///", "//"]),
    st.lists(PARTS, min_size=1, max_size=4),
)


def test_names_are_unique_and_stay_below_the_folder() -> None:
    @settings(max_examples=500)
    @given(st.lists(PATHS, min_size=1, max_size=6), st.sampled_from(["", ".luks", "/x", "/../x"]))
    def run(paths: list[str], suffix: str) -> None:
        try:
            names = Names(paths, suffix)
        except ValueError:
            return
        found = [names.of(path) for path in paths]
        assert len(set(found)) == len(paths)
        for name in found:
            assert os.path.normpath(os.path.join("/folder", name)) == f"/folder/{name}"
            assert "\0" not in name
            assert not any(other.startswith(f"{name}/") for other in found)
        # Nothing but what all have in common is left out.
        for path, name in zip(paths, found, strict=True):
            assert path.endswith(name.removesuffix(suffix))

    run()


def test_names_that_are_right_are_accepted() -> None:
    assert Names(["a/x", "a/b/x", "a/b/y"], ".luks").of("a/b/x") == "b/x.luks"
    assert Names(["/data/only"], "").of("/data/only") == "only"
    assert Names(["s3://bucket/a", "s3://bucket/b"], ".luks").of("s3://bucket/b") == "b.luks"
    assert Names(["...", "a..b"], "").of("...") == "..."
    assert Names([], "").depth == 0
    assert parts_of("~/x") == ["~", "x"]


def test_a_name_in_a_message_is_short_and_escaped() -> None:
    assert brief("a\x1b[2J") == r"'a\x1b[2J'"
    with pytest.raises(ValueError) as raised:
        parts_of("../" + "x" * 100_000)
    assert len(str(raised.value)) < 300


def test_files_are_stored_only_below_the_folder(tmp_path: Path) -> None:
    fs = fsspec.filesystem("file")
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    for made in (folder, elsewhere):
        made.mkdir()
    (folder / "link").symlink_to(elsewhere)
    (folder / "file").write_bytes(b"kept")
    (folder / "one").symlink_to(elsewhere / "one")
    store = _uploads.store
    store(fs, f"{folder}/a/b/c", b"data", force=False, below=str(folder))
    assert (folder / "a/b/c").read_bytes() == b"data"
    for name in ("link/x", "a/../../x", "file/x", "link/../x", "./x"):
        with pytest.raises((OSError, ValueError)):
            store(fs, f"{folder}/{name}", b"data", force=True, below=str(folder))
    store(fs, f"{folder}/one", b"data", force=True, below=str(folder))
    assert not (folder / "one").is_symlink()
    assert list(elsewhere.iterdir()) == [] and not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", ["a/../../../evil", "../evil", "a/./evil"])
def test_names_that_a_storage_lists_do_not_leave_the_folder(tmp_path: Path, name: str) -> None:
    stored = io.BytesIO()
    luxor.encrypt(io.BytesIO(b"evil"), stored, passphrase=PASSPHRASE, **CHEAP)

    class Listing(MemoryFileSystem):  # type: ignore[misc]
        """A storage with any keys, as S3."""

        cachable = False
        store: dict[str, Any] = {}
        pseudo_dirs = [""]

    memory = Listing()
    for key in ("/dir/good", f"/dir/{name}"):
        memory.store[key] = MemoryFile(memory, key, stored.getvalue())
    fs = fsspec.filesystem("luks", fs=memory, passphrase=PASSPHRASE)
    target = tmp_path / "out/deep"
    target.mkdir(parents=True)
    with pytest.raises(ValueError, match="is no name for a file in a folder"):
        fs.get("/dir", str(target), recursive=True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    del memory.store[f"/dir/{name}"]
    fs.get("/dir/", str(target), recursive=True)
    assert [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()] == [b"evil"]


# ---- Storage callbacks.


class Lying:
    """A storage whose answers are wrong in ways that hypothesis chooses."""

    def __init__(self, data: bytes, answers: list[Any]) -> None:
        self._data = data
        self._answers = list(answers)

    def _answer(self, right: Any) -> Any:
        how = self._answers.pop(0) if self._answers else None
        if how is None:
            return right
        if isinstance(how, type):
            raise how("from the storage")
        return how(right) if callable(how) else how

    def __len__(self) -> int:
        length: int = self._answer(len(self._data))
        return length

    def read_at(self, size: int, offset: int) -> Any:
        return self._answer(self._data[offset : offset + size])

    def write_at(self, data: bytes, offset: int) -> Any:
        return self._answer(len(data))


def shorten(right: Any) -> Any:
    return right[: len(right) // 2] if isinstance(right, bytes) else right // 2


def lengthen(right: Any) -> Any:
    return right + b"x" if isinstance(right, bytes) else right + 1


def noise(right: Any) -> Any:
    return random.Random(7).randbytes(len(right)) if isinstance(right, bytes) else right


ANSWERS = st.lists(
    st.sampled_from(
        [None, None, None, shorten, lengthen, noise, OSError, ValueError, KeyError, MemoryError,
         -1, 0, 1 << 62, 1 << 70, b"", "text", [], 1.5, True]
    ),
    max_size=8,
)


@pytest.mark.filterwarnings("ignore::luxor.VolumeWarning")
def test_storage_that_lies_leads_to_exceptions_of_python() -> None:
    """It never leads to wrong plaintext of the right length from a header, a panic or a crash."""
    stored = io.BytesIO()
    plain = random.Random(1).randbytes(9000)
    luxor.encrypt(
        io.BytesIO(plain), stored, passphrase=PASSPHRASE, luks2_keyslots_size=512 << 10, **CHEAP
    )
    outcomes = []

    @settings(max_examples=300)
    @given(ANSWERS)
    def run(answers: list[Any]) -> None:
        for use in (
            lambda file: luxor.Volume(file).dump(),
            lambda file: luxor.VolumeCipher(file, passphrase=PASSPHRASE).size,
            lambda file: luxor.open(file, passphrase=PASSPHRASE).read(),
        ):
            try:
                outcomes.append(use(Lying(stored.getvalue(), answers)))
            except (luxor.Error, OSError, ValueError, TypeError, LookupError) as error:
                assert "panic" not in str(error)

    run()
    assert plain in outcomes


def test_keys_of_s3_with_any_names_are_read_as_they_are(bucket: Bucket) -> None:
    """Their names are not taken for other protocols, patterns or folders."""
    stored = io.BytesIO()
    luxor.encrypt(
        io.BytesIO(b"plain"), stored, passphrase=PASSPHRASE, luks2_keyslots_size=512 << 10, **CHEAP
    )
    names = ["luks::a", "a[1]", "a*", "~", "%2e%2e", "a b+c", "é", "file:", "-"]
    for name in names:
        bucket.fs.pipe_file(bucket.path(f"d/{name}"), stored.getvalue())
    fs = fsspec.filesystem(
        "luks", target_protocol="s3", target_options=bucket.options, passphrase=PASSPHRASE
    )
    found = fs.find(bucket.path("d"))
    assert sorted(found) == sorted(bucket.path(f"d/{name}") for name in names)
    assert [fs.cat_file(path) for path in found] == [b"plain"] * len(names)
