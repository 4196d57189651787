# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files that many processes write in parts, and that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import stat
import uuid
import weakref
import zlib
from typing import TYPE_CHECKING, Any, Protocol

from fsspec.implementations.local import LocalFileSystem

from ._exceptions import Error
from ._manifest import MANIFEST, MAX_PARTS, PART_SIZE, PartRecord
from ._names import parts_of, shortened
from ._pool import at_once

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Storage in which a single write makes an object whole or not at all.
OBJECT_STORES = frozenset(("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "memory"))

#: The metadata of an object that say which upload has made it.
MARK = "luxor-upload"

#: The id of an upload: the mark, and the id of S3 or the number of the inode.
S3_ID = re.compile(r"[0-9a-f]{32}:[!-~]{1,2048}")
FILE_ID = re.compile(r"[0-9a-f]{32}:[0-9]{1,20}")

#: How often a server is asked to abort an upload, whose last parts may still arrive.
ABORTS = 100

#: How many pages of unfinished uploads are read. Each has up to 1,000.
PAGES = 1000

#: The longest name of a file, in bytes.
MAX_NAME = 255


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
        self.id: str = _checked_id(id, S3_ID)
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
                if same and sizes.get(number) == part["Size"]:
                    found.add(number)
            if not page.get("IsTruncated"):
                return found
            last, marker = marker, int(page["NextPartNumberMarker"])
            if marker <= last:
                raise OSError(errno.EIO, "the storage lists the same parts again")

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
            for _ in range(ABORTS):
                self._fs.call_s3("abort_multipart_upload", **self._where)
                self._fs.call_s3("list_parts", **self._where)
            raise OSError(errno.EBUSY, "the storage keeps the parts of an upload that was aborted")


def opened(name: str, flags: int, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
    """Open a file as `os.open` does, but never as standard input, output or error.

    If these are closed, messages of other code would be written into the file.
    """
    file = os.open(name, flags, mode, dir_fd=dir_fd)
    if file > 2:
        return file
    try:
        return fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(file)


class Folder:
    """A folder, held by its descriptor: what is renamed or linked meanwhile changes nothing."""

    def __init__(self, path: str, below: str | None = None) -> None:
        """Open the folder `path`. Folders of the path may be links.

        If `below` is a part of the path, the folders after it are made, and must not be links.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        self._path = path if below is None else below
        self.fd = opened(self._path, flags)
        if below is not None and path != below:
            inside = path.removeprefix(below.rstrip("/"))
            for name in parts_of(inside):
                outer = self.fd
                try:
                    with self._named(name):
                        with contextlib.suppress(FileExistsError):
                            os.mkdir(name, dir_fd=outer)
                        self.fd = opened(name, flags | os.O_NOFOLLOW, dir_fd=outer)
                finally:
                    os.close(outer)
                self._path = os.path.join(self._path, name)
        weakref.finalize(self, os.close, self.fd)

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a regular file. A link, a pipe or a device is refused."""
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with self._named(name):
            file = opened(name, flags, mode, dir_fd=self.fd)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(errno.EINVAL, "this is not a regular file", self._whole(name))
        return file

    def unlink(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._named(name):
            os.unlink(name, dir_fd=self.fd)

    def remove(self, name: str) -> None:
        """Remove a file or an empty folder."""
        try:
            self.unlink(name)
        except IsADirectoryError:
            try:
                os.rmdir(name, dir_fd=self.fd)
            except OSError as error:
                raise Error(
                    f"{self._whole(name)!r}: a folder is in the place of a file that luxor.distributed makes",
                    "Look at what is in it, and remove it.",
                ) from error

    def _whole(self, name: str) -> str:
        return shortened(os.path.join(self._path, name), 400)

    @contextlib.contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """Name the whole path in errors."""
        try:
            yield
        except OSError as error:
            if error.errno is None:
                raise
            text = error.strerror or ""
            if error.errno == errno.ELOOP:
                text = "this is a link, not a regular file"
            raise OSError(error.errno, text, self._whole(name)) from error


class FileUpload:
    """A file in a folder that all processes share. Its temporary name begins with a dot.

    The id is the end of that name, a colon, and the number of the inode.
    """

    def __init__(self, path: str, id: str | None = None, below: str | None = None) -> None:
        """Continue the upload `id`, or begin one. `below` is as in `Folder`."""
        folder, self._name = os.path.split(path)
        self._path = path
        self._folder = Folder(folder, below)
        if id is None:
            mark = uuid.uuid4().hex
            file = self._folder.open(_temporary(self._name, mark), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            id = f"{mark}:{os.fstat(file).st_ino}"
            os.close(file)
        self.id: str = _checked_id(id, FILE_ID)
        mark, _, self._inode = id.partition(":")
        self._temporary = _temporary(self._name, mark)

    @contextlib.contextmanager
    def _open(self, flags: int) -> Iterator[int]:
        """Open the unfinished file, and no other one in its place."""
        file = self._folder.open(self._temporary, flags)
        try:
            if str(os.fstat(file).st_ino) != self._inode:
                raise Error(f"{self._path}: another file is in the place of the unfinished one")
            yield file
        finally:
            os.close(file)

    def put(self, number: int, offset: int, data: bytes) -> PartRecord:
        with self._open(os.O_WRONLY) as file:
            view, at = memoryview(data), offset
            while view:
                count = os.pwrite(file, view, at)
                view, at = view[count:], at + count
            # The part may be recorded as stored, so it must survive a power cut.
            os.fdatasync(file)
        return {"offset": str(offset), "crc32": f"{zlib.crc32(data):08x}"}

    def stored(self, parts: Mapping[int, PartRecord], sizes: Mapping[int, int]) -> set[int]:
        found = set()
        with self._open(os.O_RDONLY) as descriptor, open(descriptor, "rb", closefd=False) as file:
            length = os.fstat(descriptor).st_size
            for number, part in parts.items():
                offset, size = int(part["offset"]), sizes.get(number, 0)
                if not 0 <= offset <= offset + size <= length:
                    continue
                file.seek(offset)
                if f"{zlib.crc32(file.read(size)):08x}" == part["crc32"]:
                    found.add(number)
        return found

    def complete(self, parts: Mapping[int, PartRecord], *, force: bool) -> None:
        folder = self._folder.fd
        names = {"src_dir_fd": folder, "dst_dir_fd": folder}
        with self._open(os.O_RDONLY):
            if force:
                os.rename(self._temporary, self._name, **names)
            else:
                os.link(self._temporary, self._name, **names, follow_symlinks=False)
                os.unlink(self._temporary, dir_fd=folder)
        os.fsync(folder)

    def is_complete(self) -> bool:
        try:
            found = os.stat(self._name, dir_fd=self._folder.fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        if str(found.st_ino) != self._inode:
            return False
        # After a crash the file can still have both names.
        self.abort()
        return True

    def abort(self) -> None:
        self._folder.unlink(self._temporary)


def _temporary(name: str, mark: str) -> str:
    # The mark has 32 characters, also where only the beginning of the name is wanted.
    return f".{short(name, MAX_NAME - len('..luxor-') - 32)}.luxor-{mark}"


def short(name: str, limit: int) -> str:
    """Return a name of at most `limit` bytes for a file beside the one called `name`."""
    data = name.encode(errors="surrogatepass")
    return name if len(data) <= limit else hashlib.sha256(data).hexdigest()[:32]


def manifest_beside(target: str) -> str:
    """Return the URL of the manifest for a target."""
    folder, slash, name = target.rpartition("/")
    return f"{folder}{slash}{short(name, MAX_NAME - len(MANIFEST))}{MANIFEST}"


def _checked_id(id: str, form: re.Pattern[str]) -> str:
    if not form.fullmatch(id):
        raise Error("the id of the unfinished upload is not one that Luxor makes")
    return id


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
        aborted: set[str] = set()
        while ids := set(_some_uploads_of(fs, bucket, key)):
            if ids <= aborted or len(aborted) > 1000 * PAGES:
                raise OSError(errno.EIO, "the storage lists uploads that were aborted")
            for upload_id in ids - aborted:
                S3Upload(fs, path, f"{'0' * 32}:{upload_id}").abort()
            aborted |= ids
    elif isinstance(fs, LocalFileSystem):
        name = os.path.basename(path)
        folder = Folder(os.path.dirname(path))
        unfinished = re.compile(re.escape(_temporary(name, "")) + "[0-9a-f]{32}")
        for found in filter(unfinished.fullmatch, os.listdir(folder.fd)):
            # A folder of this name is not an upload.
            with contextlib.suppress(IsADirectoryError):
                folder.unlink(found)
    else:
        raise _unsupported(fs, "upload in parts")


def _some_uploads_of(fs: Any, bucket: str, key: str) -> list[str]:
    """Return the ids of unfinished uploads to a key of S3: at least one, if there are any.

    Pages that have none are passed by their last key: not every server goes on within one key.
    """
    marker: dict[str, str] = {}
    seen = []
    for _ in range(PAGES):
        page = fs.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=key, **marker)
        listed = page.get("Uploads", [])
        if found := [upload["UploadId"] for upload in listed if upload["Key"] == key]:
            return found
        if not page.get("IsTruncated"):
            return []
        seen.append(marker)
        marker = {"KeyMarker": str(page.get("NextKeyMarker"))}
        if marker in seen:
            raise OSError(errno.EIO, "the storage lists the same uploads again")
    raise OSError(errno.EIO, f"the storage lists more than {PAGES} pages of uploads")


def store(fs: Any, path: str, data: bytes, *, force: bool, below: str | None = None) -> None:
    """Make a file with these bytes, which appears whole or not at all.

    Without `force` it must not exist: otherwise this raises `FileExistsError`. `below` is as in
    `Folder`, if the file system is one of folders.
    """
    if isinstance(fs, LocalFileSystem):
        file = FileUpload(path, below=below)
        try:
            file.complete({1: file.put(1, 0, data)}, force=force)
        except BaseException:
            file.abort()
            raise
    elif OBJECT_STORES.intersection(protocols(fs)):
        fs.pipe_file(path, data, mode="overwrite" if force else "create")
    else:
        raise _unsupported(fs, "write of a whole file at once")


def check_can_store(fs: Any) -> None:
    """Refuse a file system in which `store_file` makes no files."""
    if not (isinstance(fs, LocalFileSystem) or OBJECT_STORES.intersection(protocols(fs))):
        raise _unsupported(fs, "write of a whole file at once")


def store_file(fs: Any, path: str, file: int, *, force: bool) -> None:
    """Make a file with the bytes of an open one, as `store` does.

    It is sent to S3 in parts. Other object stores get it in one piece, from memory.
    """
    check_can_store(fs)
    length = os.fstat(file).st_size
    in_parts = isinstance(fs, LocalFileSystem) or (_is_s3(fs) and length > PART_SIZE)
    if not in_parts:
        store(fs, path, pread(file, length, 0), force=force)
        return
    size = max(PART_SIZE, -(-length // MAX_PARTS))
    unfinished = upload(fs, path)

    def put(number: int) -> tuple[int, PartRecord]:
        offset = (number - 1) * size
        return number, unfinished.put(number, offset, pread(file, min(size, length - offset), offset))

    try:
        parts = dict(at_once(put, range(1, -(-length // size) + 1)))
        try:
            unfinished.complete(parts, force=force)
        except (FileExistsError, FileNotFoundError):
            # The answer to a request that succeeded can be lost, and the request be repeated.
            if not unfinished.is_complete():
                raise
    except BaseException:
        unfinished.abort()
        raise


def pread(file: int, size: int, offset: int) -> bytes:
    """Return `size` bytes of an open file."""
    pieces = []
    while size and (piece := os.pread(file, size, offset)):
        pieces.append(piece)
        size, offset = size - len(piece), offset + len(piece)
    return b"".join(pieces)


def load(fs: Any, path: str, limit: int) -> bytes:
    """Return the bytes of a file, which has at most `limit` of them."""
    if isinstance(fs, LocalFileSystem):
        folder = Folder(os.path.dirname(path))
        with open(folder.open(os.path.basename(path), os.O_RDONLY), "rb") as file:
            data = file.read(limit + 1)
    else:
        try:
            data = fs.cat_file(path, start=0, end=limit + 1)
        except FileNotFoundError:
            raise
        except OSError:
            # S3 has no range of an empty object.
            fs.invalidate_cache()
            if fs.size(path) != 0:
                raise
            data = b""
    if len(data) > limit:
        raise Error(f"{path}: the file has more than {limit} bytes")
    return data


def remove(fs: Any, path: str) -> None:
    """Remove a file that `store` has made, and what calls that were killed have left of it."""
    if isinstance(fs, LocalFileSystem):
        Folder(os.path.dirname(path)).remove(os.path.basename(path))
        abort_all(fs, path)
    else:
        with contextlib.suppress(FileNotFoundError):
            fs.rm_file(path)


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
