# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files that many processes write in parts, and that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import uuid
import zlib
from typing import TYPE_CHECKING, Any, Protocol

from fsspec.implementations.local import LocalFileSystem

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What an upload says of a part that is stored.
PartRecord = dict[str, str]


class Upload(Protocol):
    """An unfinished file. Parts are numbered from 1, may come in any order, and may be repeated.

    The file is the parts in the order of their numbers. `id` is all that another process needs.
    """

    id: str

    def put(self, number: int, offset: int, data: bytes) -> PartRecord:
        """Store a part, whose first byte is byte `offset` of the file."""
        ...

    def stored(self, parts: Mapping[int, PartRecord], sizes: Mapping[int, int]) -> set[int]:
        """Return which of these parts are stored as recorded."""
        ...

    def complete(self, parts: Mapping[int, PartRecord], *, force: bool) -> None:
        """Give the file its name. Without `force` it must not exist."""

    def abort(self) -> None:
        """Remove all parts. An upload that no longer exists is not an error."""


class S3Upload:
    """A multipart upload of S3."""

    def __init__(self, fs: Any, path: str, id: str | None = None) -> None:
        """Continue the upload `id`, or begin one."""
        self._fs = fs
        bucket, key, _version = fs.split_path(path)
        self._where = {"Bucket": bucket, "Key": key}
        self.id: str = id or fs.call_s3("create_multipart_upload", **self._where)["UploadId"]
        self._where["UploadId"] = self.id

    def put(self, number: int, offset: int, data: bytes) -> PartRecord:
        # The client sends a checksum, with which the server checks what it has received.
        done = self._fs.call_s3("upload_part", **self._where, PartNumber=number, Body=data)
        return {"ETag": done["ETag"]}

    def stored(self, parts: Mapping[int, PartRecord], sizes: Mapping[int, int]) -> set[int]:
        found, marker = set(), 0
        while True:
            page = self._fs.call_s3("list_parts", **self._where, PartNumberMarker=marker)
            for part in page.get("Parts", []):
                number = part["PartNumber"]
                same = parts.get(number, {}).get("ETag") == part["ETag"]
                if same and sizes[number] == part["Size"]:
                    found.add(number)
            if not page.get("IsTruncated"):
                return found
            marker = page["NextPartNumberMarker"]

    def complete(self, parts: Mapping[int, PartRecord], *, force: bool) -> None:
        listed = [{"PartNumber": number, **parts[number]} for number in sorted(parts)]
        options = {} if force else {"IfNoneMatch": "*"}
        self._fs.call_s3(
            "complete_multipart_upload",
            **self._where,
            MultipartUpload={"Parts": listed},
            **options,
        )

    def abort(self) -> None:
        try:
            self._fs.call_s3("abort_multipart_upload", **self._where)
        except FileNotFoundError:
            pass


class FileUpload:
    """A file in a folder that all processes share. Its temporary name begins with a dot."""

    def __init__(self, path: str, id: str | None = None) -> None:
        """Continue the upload `id`, or begin one."""
        folder, name = os.path.split(path)
        self._path = path
        self._folder = folder
        self.id: str = id or uuid.uuid4().hex
        self._temporary = os.path.join(folder, f".{name}.luxor-{self.id}")
        if id is None:
            os.close(os.open(self._temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))

    def put(self, number: int, offset: int, data: bytes) -> PartRecord:
        file = os.open(self._temporary, os.O_WRONLY)
        try:
            view, at = memoryview(data), offset
            while view:
                count = os.pwrite(file, view, at)
                view, at = view[count:], at + count
            # The part may be recorded as stored, so it must survive a power cut.
            os.fdatasync(file)
        finally:
            os.close(file)
        return {"offset": str(offset), "crc32": f"{zlib.crc32(data):08x}"}

    def stored(self, parts: Mapping[int, PartRecord], sizes: Mapping[int, int]) -> set[int]:
        with open(self._temporary, "rb") as file:
            found = set()
            for number, part in parts.items():
                file.seek(int(part["offset"]))
                data = file.read(sizes[number])
                if len(data) == sizes[number] and f"{zlib.crc32(data):08x}" == part["crc32"]:
                    found.add(number)
            return found

    def complete(self, parts: Mapping[int, PartRecord], *, force: bool) -> None:
        if force:
            os.rename(self._temporary, self._path)
        else:
            os.link(self._temporary, self._path)
            os.unlink(self._temporary)
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def abort(self) -> None:
        try:
            os.unlink(self._temporary)
        except FileNotFoundError:
            pass


def upload(fs: Any, path: str, id: str | None = None) -> Upload:
    """Begin an upload to `path`, or continue the upload `id`."""
    protocols = [fs.protocol] if isinstance(fs.protocol, str) else fs.protocol
    if "s3" in protocols:
        return S3Upload(fs, path, id)
    if isinstance(fs, LocalFileSystem):
        return FileUpload(path, id)
    raise OSError(
        errno.EOPNOTSUPP,
        f"{protocols[0]}:// has no upload in parts that Luxor knows: use s3:// or a shared folder, "
        "or encrypt on one machine with luxor.encrypt",
    )


def store(fs: Any, path: str, data: bytes, *, force: bool) -> None:
    """Make a file with these bytes, which appears whole or not at all."""
    if isinstance(fs, LocalFileSystem):
        file = FileUpload(path)
        try:
            file.complete({1: file.put(1, 0, data)}, force=force)
        except BaseException:
            file.abort()
            raise
    else:
        # An object is never there in part.
        fs.pipe_file(path, data, mode="overwrite" if force else "create")
