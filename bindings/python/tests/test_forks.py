# SPDX-License-Identifier: MIT OR Apache-2.0
"""Forked processes, which share open files with their parents and inherit locks that are held."""

from __future__ import annotations

import gc
import io
import os
import signal
import threading
import zipfile
from typing import TYPE_CHECKING, Any

import fsspec
import luxor
import pytest
from conftest import CHEAP
from luxor import distributed, luksfs
from luxor.keys import KeyFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLAIN = os.urandom(1 << 20)


def in_child(call: Callable[[], bool]) -> None:
    """Check what `call` returns in a forked process, which is killed if it hangs."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            signal.alarm(60)
            status = 0 if call() else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


@pytest.fixture
def key(tmp_path: Path) -> KeyFile:
    (tmp_path / "key").write_bytes(b"correct horse")
    return KeyFile(tmp_path / "key")


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    luxor.encrypt(io.BytesIO(PLAIN), tmp_path / "volume", key_file=tmp_path / "key", **CHEAP)
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
        archive.write(tmp_path / "volume", "volume")
    return tmp_path


def test_the_collector_does_not_wait_for_threads(key: KeyFile, stored: Path) -> None:
    fs, path = fsspec.url_to_fs(f"luks::file://{stored}/volume", luks={"key": key})
    file: Any = fs.open(path, cache_type="background")
    assert file.read(10) == PLAIN[:10]
    waits: list[str] = []
    file.cache.close = lambda: waits.append("for the threads of the cache")
    inner = file.stored._file
    del file
    gc.collect()
    assert inner.closed
    assert waits == []


@pytest.mark.parametrize("cache_type", ["none", "background"])
@pytest.mark.parametrize("kind", ["file", "zip", "simplecache"])
def test_a_child_leaves_the_position_of_its_parent(
    key: KeyFile, stored: Path, kind: str, cache_type: str
) -> None:
    url = {
        "file": f"luks::file://{stored}/volume",
        "zip": f"luks::zip://volume::file://{stored}/archive",
        "simplecache": f"luks::simplecache::file://{stored}/volume",
    }[kind]
    fs, path = fsspec.url_to_fs(url, luks={"key": key})
    file: Any = fs.open(path, cache_type=cache_type)
    assert file.read(10) == PLAIN[:10]
    shared = file.stored._file
    before = shared.tell()

    def read() -> None:
        file.seek(600_000)
        file.read(9)

    def is_refused() -> bool:
        for call in (lambda: file.read_at(4096, 500_000), read):
            with pytest.raises(luxor.KeyLostInFork):
                call()
        return bool(shared.tell() == before and fs.cat_file(path) == PLAIN)

    in_child(is_refused)
    if kind == "file":
        descriptor = os.lseek(shared.fileno(), 0, os.SEEK_CUR)
        assert file.read_at(4096, 500_000) == PLAIN[500_000:504_096]
        # Nor does the parent use it, whatever a child that reads the descriptor itself does.
        assert os.lseek(shared.fileno(), 0, os.SEEK_CUR) == descriptor
    assert shared.tell() == before
    assert file.read() == PLAIN[10:]


@pytest.mark.parametrize("step", ["load_with_digest", "target_fs", "unlocked"])
def test_a_fork_does_not_wait_for_a_thread_of_its_parent(
    key: KeyFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whatever a worker of `luxor.distributed` prepares at that time."""
    (tmp_path / "plain").write_bytes(PLAIN)
    begun, go_on = threading.Event(), threading.Event()
    main = os.getpid()

    def slow(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if os.getpid() == main:
                begun.set()
                assert go_on.wait(60)
            return function(*args, **options)

        return call

    where: Any = distributed._Files if step == "load_with_digest" else distributed
    name = "_file_system" if step == "target_fs" else step
    function = getattr(where, name)
    if step == "target_fs":
        # Not when the names are made absolute, by the same function.
        def quick(url: str, options: Any) -> str:
            fs, path = function(url, options)
            return str(fs.unstrip_protocol(path))

        monkeypatch.setattr(distributed, "_absolute", quick)
    monkeypatch.setattr(where, name, slow(function))

    def encrypt(target: str) -> None:
        distributed.encrypt(str(tmp_path / "plain"), str(tmp_path / target), key=key, **CHEAP)

    def works() -> bool:
        encrypt("other")
        return luxor.open(tmp_path / "other", key_file=key.path).read() == PLAIN

    thread = threading.Thread(target=encrypt, args=["target"])
    thread.start()
    try:
        assert begun.wait(60)
        in_child(works)
    finally:
        go_on.set()
        thread.join()
    assert luxor.open(tmp_path / "target", key_file=key.path).read() == PLAIN


def test_the_lock_of_a_file_system_is_free_in_a_child(key: KeyFile, stored: Path) -> None:
    fs = luksfs.LuksFileSystem(key=key)
    path = str(stored / "volume")
    with fs._lock:
        in_child(lambda: fs.cat_file(path) == PLAIN)
