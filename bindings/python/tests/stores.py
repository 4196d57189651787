# SPDX-License-Identifier: MIT OR Apache-2.0
"""Volumes in file systems of fsspec, for the tests of several modules."""

from __future__ import annotations

import functools
import io
import random
from pathlib import Path
from typing import Any

import fsspec
import luxor
from conftest import CHEAP, PASSPHRASE
from s3 import Bucket

#: It ends within a sector.
SIZE = 3_000_001
PLAIN = random.Random(28).randbytes(SIZE)
#: LUKS1 stores whole sectors of 512 bytes.
PLAINS = {"luks2": PLAIN, "luks2-512": PLAIN, "luks1": PLAIN[: SIZE // 512 * 512]}
LUKS: dict[str, Any] = {"passphrase": PASSPHRASE}


def encrypt(plain: bytes, **options: Any) -> bytes:
    """Return a volume with this plaintext."""
    stored = io.BytesIO()
    options = {"passphrase": PASSPHRASE, **CHEAP, **options}
    luxor.encrypt(io.BytesIO(plain), stored, **options)
    return stored.getvalue()


@functools.cache
def volume_of(kind: str) -> bytes:
    """Return a volume with the plaintext `PLAINS[kind]`."""
    options: dict[str, dict[str, Any]] = {
        "luks2": {},
        "luks2-512": {"sector_size": 512},
        "luks1": {"type": "luks1"},
    }
    return encrypt(PLAINS[kind], **options[kind])


class Store:
    """Files in a file system of fsspec, for which `fsspec.open` needs `options`."""

    def __init__(self, prefix: str, options: dict[str, Any], writer: Any) -> None:
        self.prefix = prefix
        self.options = options
        self._writer = writer

    def url(self, name: str) -> str:
        return self.prefix + name

    def put(self, name: str, data: bytes) -> str:
        """Make or replace a file, as another program does. Return its URL."""
        if self.prefix.startswith("file:"):
            path = Path(self.url(name).removeprefix("file://"))
            path.parent.mkdir(exist_ok=True)
            new = path.with_name("new")
            new.write_bytes(data)
            new.replace(path)
        else:
            self._writer.pipe_file(self.url(name), data)
        return self.url(name)

    def open(self, name: str, luks: dict[str, Any] | None = None, **options: Any) -> Any:
        """Open the plaintext of a volume by a URL, in a file system without known keys."""
        luks = {**LUKS, **(luks or {}), "skip_instance_cache": True}
        fs, path = fsspec.url_to_fs(f"luks::{self.url(name)}", luks=luks, **self.options)
        return fs.open(path, **options)

    def filesystem(self, **secret: Any) -> Any:
        """Return a file system without known keys."""
        protocol = self.prefix.partition(":")[0]
        target = {"target_protocol": protocol, "target_options": self.options.get(protocol)}
        return fsspec.filesystem("luks", **target, **(secret or LUKS), skip_instance_cache=True)


def local_store(folder: Path) -> Store:
    return Store(f"file://{folder}/", {}, None)


def s3_store(bucket: Bucket, writer: Bucket | None = None) -> Store:
    """Files in a bucket, which another client writes."""
    return Store(bucket.url(""), {"s3": bucket.options}, (writer or bucket).fs)
