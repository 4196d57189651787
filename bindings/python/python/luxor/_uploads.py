# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files that many processes write in parts, and that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import uuid
import zlib
from typing import TYPE_CHECKING, Any, Protocol

from fsspec.implementations.local import LocalFileSystem

if TYPE_CHECKING:
    from collections.abc import Mapping

#: How a stored part is recorded: for S3 its ETag, for a file its offset and CRC-32.
PartRecord = dict[str, str]

#: Storage in which a single write makes an object whole or not at all.
OBJECT_STORES = frozenset(("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "memory"))

#: The metadata of an object that say which upload has made it.
MARK = "luxor-upload"


class Upload(Protocol):
    """An unfinished file. Parts are numbered from 1, may come in any order, and may be repeated.

    The file is the parts in the order of their numbers. `id` is all that another process needs.
    """

    id: str

    def put(self, number: int, offset: int, data: bytes) -> PartRecord:
        """Store a part, whose first byte is byte `offset` of the file."""
        ...

    def stored(self, parts: Mapping[int, PartRecord], sizes: Mapping[int, int]) -> set[int]:
        """Return which of these parts are stored as recorded.

        Raises `FileNotFoundError` if the upload no longer exists.
        """
        ...

    def complete(self, parts: Mapping[int, PartRecord], *, force: bool) -> None:
        """Give the file its name. Without `force` it must not exist.

        Raises `FileNotFoundError` if the upload no longer exists.
        """
        ...

    def is_complete(self) -> bool:
        """Whether the file is there, made by this upload."""
        ...

    def abort(self) -> None:
        """Remove all parts. An upload that no longer exists is not an error."""
        ...


class S3Upload:
    """A multipart upload of S3. Its id is the mark of the object, a colon, and the id of S3."""

    def __init__(self, fs: Any, path: str, id: str | None = None) -> None:
        """Continue the upload `id`, or begin one."""
        self._fs = fs
        bucket, key, _version = fs.split_path(path)
        self._object = {"Bucket": bucket, "Key": key}
        if id is None:
            mark = uuid.uuid4().hex
            begun = fs.call_s3("create_multipart_upload", **self._object, Metadata={MARK: mark})
            id = f"{mark}:{begun['UploadId']}"
        self.id: str = id
        self._mark, _, upload_id = id.partition(":")
        self._where = {**self._object, "UploadId": upload_id}

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

    def is_complete(self) -> bool:
        try:
            found = self._fs.call_s3("head_object", **self._object)
        except FileNotFoundError:
            return False
        return bool(found.get("Metadata", {}).get(MARK) == self._mark)

    def abort(self) -> None:
        # A part that arrives meanwhile can survive an abort.
        with contextlib.suppress(FileNotFoundError):
            while True:
                self._fs.call_s3("abort_multipart_upload", **self._where)
                self._fs.call_s3("list_parts", **self._where)


class FileUpload:
    """A file in a folder that all processes share. Its temporary name begins with a dot.

    The id is the end of that name, a colon, and the number of the inode.
    """

    def __init__(self, path: str, id: str | None = None) -> None:
        """Continue the upload `id`, or begin one."""
        self._folder, name = os.path.split(path)
        self._path = path
        if id is None:
            end = uuid.uuid4().hex
            temporary = os.path.join(self._folder, f".{name}.luxor-{end}")
            file = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            id = f"{end}:{os.fstat(file).st_ino}"
            os.close(file)
        self.id: str = id
        end, _, self._inode = id.partition(":")
        self._temporary = os.path.join(self._folder, f".{name}.luxor-{end}")

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

    def is_complete(self) -> bool:
        try:
            if str(os.stat(self._path).st_ino) != self._inode:
                return False
        except FileNotFoundError:
            return False
        # After a crash the file can still have both names.
        self.abort()
        return True

    def abort(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._temporary)


def upload(fs: Any, path: str, id: str | None = None) -> Upload:
    """Begin an upload to `path`, or continue the upload `id`."""
    if _is_s3(fs):
        return S3Upload(fs, path, id)
    if isinstance(fs, LocalFileSystem):
        return FileUpload(path, id)
    raise _unsupported(fs, "upload in parts")


def abort_all(fs: Any, path: str) -> None:
    """Remove all unfinished uploads to `path`."""
    if _is_s3(fs):
        bucket, key, _version = fs.split_path(path)
        listed = fs.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=key)
        for found in listed.get("Uploads", []):
            if found["Key"] == key:
                S3Upload(fs, path, f":{found['UploadId']}").abort()
    else:
        folder, name = os.path.split(path)
        for temporary in glob.glob(os.path.join(glob.escape(folder), f".{glob.escape(name)}.luxor-*")):
            os.unlink(temporary)


def store(fs: Any, path: str, data: bytes, *, force: bool) -> None:
    """Make a file with these bytes, which appears whole or not at all.

    Without `force` it must not exist: otherwise this raises `FileExistsError`.
    """
    if isinstance(fs, LocalFileSystem):
        file = FileUpload(path)
        try:
            file.complete({1: file.put(1, 0, data)}, force=force)
        except BaseException:
            file.abort()
            raise
    elif OBJECT_STORES.intersection(protocols(fs)):
        fs.pipe_file(path, data, mode="overwrite" if force else "create")
    else:
        raise _unsupported(fs, "write of a whole file at once")


def protocols(fs: Any) -> tuple[str, ...]:
    """Return the names of the file system's protocol."""
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def _is_s3(fs: Any) -> bool:
    return "s3" in protocols(fs)


def _unsupported(fs: Any, what: str) -> OSError:
    return OSError(
        errno.EOPNOTSUPP,
        f"{protocols(fs)[0]}:// has no {what} that Luxor knows: use s3:// or a shared folder, or "
        "encrypt on one machine with luxor.encrypt",
    )
