# SPDX-License-Identifier: MIT OR Apache-2.0
"""The plaintext of a volume as a file of the module `io`."""

from __future__ import annotations

import io
import os
import sys
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from . import _luxor
from ._exceptions import VolumeWarning
from ._types import NewOptions

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack

    from ._types import (
        Buffer,
        Data,
        FileLike,
        Format,
        OpenOptions,
        Path,
        Pbkdf,
        Secret,
        VolumeKey,
        VolumeType,
    )

#: The size of the buffers of `open`, in bytes. Longer reads and writes go past them.
BUFFER = 256 << 10


class _NeverFalse:
    """A file that is true, as any file, although its length may be 0."""

    def __bool__(self) -> bool:
        return True


class _Buffered(_NeverFalse):
    """A buffer over a `VolumeFile`, of which a forked process has a copy."""

    raw: VolumeFile

    def close(self) -> None:
        if self.raw.closed:
            return
        # What is in the copy belongs to the other process, and so may the lock of the buffer.
        if self.raw.is_inherited:
            self.raw.close()
        else:
            super().close()  # type: ignore[misc]


class VolumeFile(_NeverFalse, io.RawIOBase):
    """The plaintext of a volume as an unbuffered file.

    Several threads may call `read_at` and `write_at` at once. The other methods share one
    position, as those of any file. The file does not grow: a write that reaches the end is cut off
    there, and one beyond it raises `OSError`.
    """

    _OF_DISK: tuple[str, ...] = ("readinto", "readall", "write", "seek")

    if TYPE_CHECKING:

        def write(self, data: Data) -> int: ...

    def __init__(self, disk: _luxor.Disk) -> None:
        """Use `open`."""
        super().__init__()
        self._disk = disk
        # They and the position change together, and no signal comes between: see `Disk`.
        for name in self._OF_DISK:
            setattr(self, name, getattr(disk, name))
        #: The name of the file with the data, for messages.
        self.name = disk.name
        self.mode = "rb+" if disk.writable else "rb"

    @property
    def size(self) -> int:
        """The number of bytes of plaintext."""
        return self._disk.size

    @property
    def sector_size(self) -> int:
        """The length of a sector in bytes. Whole sectors are read and written fastest."""
        return self._disk.sector_size

    def __len__(self) -> int:
        return self._disk.size

    def read_at(self, size: int, offset: int) -> bytes:
        """Return `size` bytes from byte `offset` on, or those up to the end, like `os.pread`."""
        return self._disk.read_at(size, offset)

    def read_into_at(self, buffer: Buffer, offset: int) -> int:
        """Fill `buffer` from byte `offset` on, up to the end. Return the number of bytes."""
        return self._disk.read_into(buffer, offset)

    def write_at(self, data: Data, offset: int) -> int:
        """Write all of `data` from byte `offset` on, like `os.pwrite`. Return its length.

        If they would not end within the volume, this raises `OSError` and writes nothing.
        """
        return self._disk.write_at(data, offset)

    def check_end(self, end: int) -> None:
        """Raise `OSError` if the volume cannot end at byte `end` or later."""
        self._disk.check_end(end)

    def readable(self) -> bool:
        self._check_open()
        return True

    def writable(self) -> bool:
        return self._disk.writable

    def seekable(self) -> bool:
        self._check_open()
        return True

    def sync(self) -> None:
        """Return when everything that was written is durable, like `os.fsync`."""
        self._disk.sync()

    @property
    def is_inherited(self) -> bool:
        """Whether another process has opened the volume, of which this one is a fork.

        Then only closing, the sizes and the name need no key, and work.
        """
        return self._disk.inherited

    def close(self) -> None:
        """Make what was written durable, and close the volume."""
        if self.closed:
            return
        try:
            # A forked process has no keys, and has written nothing.
            if self._disk.writable and not self._disk.inherited:
                self._disk.sync()
        finally:
            super().close()
            self._disk.close()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on a closed volume")


class VolumeReader(_Buffered, io.BufferedReader):
    """A buffered `VolumeFile` that is open for reading: what `open` returns for the mode "rb"."""

    raw: VolumeFile  # pyright: ignore[reportIncompatibleVariableOverride]

    def __len__(self) -> int:
        return len(self.raw)

    def read_at(self, size: int, offset: int) -> bytes:
        """Return `size` bytes from byte `offset` on, or those up to the end, like `os.pread`.

        Several threads may call it at once. It does not use the position.
        """
        return self.raw.read_at(size, offset)

    def write_at(self, data: Data, offset: int) -> int:
        """Raise `io.UnsupportedOperation`, as `write` does."""
        return self.raw.write_at(data, offset)

    def sync(self) -> None:
        """Do nothing: nothing was written."""


class VolumeWriter(_Buffered, io.BufferedRandom):
    """A buffered `VolumeFile` for reading and writing: what `open` returns for the mode "r+b".

    A write that would not end within the volume raises `OSError`, and writes nothing.
    """

    raw: VolumeFile  # pyright: ignore[reportIncompatibleVariableOverride]

    def __len__(self) -> int:
        return len(self.raw)

    def read_at(self, size: int, offset: int) -> bytes:
        """Return `size` bytes from byte `offset` on, or those up to the end, like `os.pread`.

        Several threads may call it at once. It does not use the position.
        """
        self.flush()
        return self.raw.read_at(size, offset)

    def write_at(self, data: Data, offset: int) -> int:
        """Write all of `data` from byte `offset` on, like `os.pwrite`. Return its length."""
        # Also discards what the buffer has read.
        self.flush()
        return self.raw.write_at(data, offset)

    def write(self, data: Data) -> int:
        # Otherwise the bytes that do not fit would stay in the buffer, and every later call fail.
        view = _luxor.view_of(data)
        self.raw.check_end(self.tell() + view.nbytes)
        return super().write(view)

    def sync(self) -> None:
        """Return when everything that was written is durable, like `os.fsync`."""
        self.flush()
        self.raw.sync()


class NewVolumeFile(VolumeFile):
    """A new volume as an unbuffered file, which is as long as what is written.

    It appears in `commit`. Closing it before discards it. After a failed write, `commit` raises.
    """

    _OF_DISK = (*VolumeFile._OF_DISK, "truncate")

    def mark_incomplete(self) -> None:
        """Let `commit` fail, because a part may be missing."""
        self._disk.mark_incomplete()

    def sync(self) -> None:
        """Do nothing: the written data are durable once the volume has appeared."""
        self._check_open()

    def commit(self) -> None:
        """Let the volume appear, whole and durable, and close it."""
        try:
            self._disk.finish()
        finally:
            self.close()

    def close(self) -> None:
        """Discard the volume, unless `commit` has let it appear."""
        if not self.closed:
            io.RawIOBase.close(self)
            self._disk.close()


class VolumeCreator(_Buffered, io.BufferedRandom):
    """A new volume: what `open` returns for the mode "wb". It also reads what it has written.

    `close` or the end of the block of `with` lets it appear. It is discarded if the block raises, if a
    write has failed or was interrupted, if nothing closes it, and if `close` is called while an exception
    is handled that was not handled when the file was opened: `io.TextIOWrapper` and others close their
    files when a block raises, and do not say so.

    In two cases it appears although its end may be missing. If it is opened in `except`, and the block of
    `io.TextIOWrapper` around it raises the same exception object again, `close` cannot tell that
    exception from the one before: open the file outside `except`, or call `discard` first. And an
    `io.BufferedRWPair` in a cycle of references closes its files when the cycle is collected: close it
    yourself.
    """

    raw: NewVolumeFile  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, raw: NewVolumeFile) -> None:
        """Use `open`."""
        super().__init__(raw, BUFFER)
        self._handled = _handled()

    def __len__(self) -> int:
        self.flush()
        return len(self.raw)

    def read_at(self, size: int, offset: int) -> bytes:
        """Return `size` bytes from byte `offset` on, or those up to the end, like `os.pread`."""
        self.flush()
        return self.raw.read_at(size, offset)

    def write_at(self, data: Data, offset: int) -> int:
        """Write all of `data` from byte `offset` on, like `os.pwrite`. Return its length."""
        # Also discards what the buffer has read.
        self.flush()
        return self.raw.write_at(data, offset)

    def write(self, data: Data) -> int:
        view = _luxor.view_of(data)
        try:
            return super().write(view)
        except BaseException:
            self.raw.mark_incomplete()
            raise

    def writelines(self, lines: Iterable[Data]) -> None:
        try:
            for line in lines:
                self.write(line)
        except BaseException:
            # Some may be written when a later one cannot be.
            self.raw.mark_incomplete()
            raise

    def close(self) -> None:
        """Let the volume appear, whole and durable, unless this is called because of an exception."""
        if sys.is_finalizing():
            # An `io.BufferedRWPair` that nothing has closed closes its files at the end of the program.
            self.__del__()
            return
        error = sys.exception()
        if (
            error is None
            or self.raw.closed
            or self.raw.is_inherited
            or any(error is known for known in self._handled)
        ):
            self._close()
            return
        self.discard()
        text = (
            f"{self.name}: the new volume is discarded, because the file is closed while "
            f"{type(error).__name__} is handled"
        )
        warnings.warn(text, VolumeWarning, stacklevel=2)

    def _close(self) -> None:
        """Let the volume appear."""
        self._handled = ()
        if self.raw.closed or self.raw.is_inherited:
            super().close()
            return
        try:
            self.flush()
            self.raw.commit()
        finally:
            self.raw.close()

    def discard(self) -> None:
        """Close the file without a volume."""
        self._handled = ()
        self.raw.close()

    def __exit__(self, *exception: object) -> None:
        if exception[0] is None:
            self._close()
        else:
            self.discard()

    def _dealloc_warn(self, _source: object) -> None:
        # What `io.TextIOWrapper` calls when nothing has closed it, before it closes this file.
        self.__del__()

    def __del__(self) -> None:
        # A volume of which the end is missing must not appear.
        if not self.closed:
            is_mine = not self.raw.is_inherited
            # First, because the warning may be an exception, after which others would close this file.
            self.discard()
            if is_mine:
                text = f"{self.name} was not closed: the new volume is discarded"
                warnings.warn(text, ResourceWarning, stacklevel=2, source=self)


def _handled() -> tuple[BaseException, ...]:
    """Return the exceptions that are being handled."""
    found: list[BaseException] = []
    error = sys.exception()
    while error is not None and not any(error is known for known in found):
        found.append(error)
        error = error.__context__
    return tuple(found)


def _sync_at_exit(writer: weakref.ref[VolumeWriter], process: int) -> None:
    file = writer()
    # A forked process has no keys, and its copies of the buffers belong to the other process.
    if file is not None and os.getpid() == process and not file.closed:
        file.sync()


def new_disk(
    file: Path | FileLike,
    *,
    passphrase: Secret | None = None,
    key_file: Path | None = None,
    engine: str | None = None,
    threads: int | None = None,
    force: bool = False,
    type: VolumeType = "luks2",
    sector_size: int | None = None,
    key_size: Literal[256, 512] = 512,
    pbkdf: Pbkdf | None = None,
    pbkdf_memory: int | None = None,
    pbkdf_parallel: int | None = None,
    pbkdf_force_iterations: int | None = None,
    iter_time: float = 2.0,
    label: str | None = None,
    uuid: str | None = None,
    luks2_metadata_size: int | None = None,
    luks2_keyslots_size: int | None = None,
) -> _luxor.Disk:
    """Begin a new volume. The arguments are those of `open`."""
    passphrase = _luxor.hidden(passphrase)
    return _luxor.open_new(file, locals())


@overload
def open(
    file: Path | FileLike, mode: Literal["rb"] = "rb", **options: Unpack[OpenOptions]
) -> VolumeReader: ...
@overload
def open(
    file: Path | FileLike, mode: Literal["r+b", "rb+"], **options: Unpack[OpenOptions]
) -> VolumeWriter: ...
@overload
def open(
    file: Path | FileLike, mode: Literal["wb", "w+b", "wb+"], **options: Unpack[NewOptions]
) -> VolumeCreator: ...
@overload
def open(
    file: Path | FileLike, mode: str, **options: Unpack[OpenOptions]
) -> VolumeReader | VolumeWriter | VolumeCreator: ...
def open(
    file: Path | FileLike,
    mode: str = "rb",
    *,
    passphrase: Secret | None = None,
    key_file: Path | None = None,
    volume_key: VolumeKey | None = None,
    header: Path | FileLike | None = None,
    format: Format | None = None,
    key_slot: int | None = None,
    key_cache: _luxor.KeyCache | None = None,
    volume_offset: int | None = None,
    volume_partition: int | None = None,
    engine: str | None = None,
    threads: int | None = None,
    **new: Any,
) -> VolumeReader | VolumeWriter | VolumeCreator:
    """Open the plaintext of a volume as a binary file.

    The mode "wb" makes a new volume, which is as long as what is written, also by seeking. At a path
    it appears whole when it is closed, or not at all if the block of `with` raises or a write has failed
    (see `VolumeCreator`); an existing file is replaced only with `force`. The options are those of
    `encrypt`. The modes "rb" and "r+b" open an existing volume, whose length stays. All that follows
    is about these two.

    `file` is a path, or an object with the methods of a seekable binary file, or one with
    `read_at(size, offset)` and `__len__`. `header` is the same for a detached header. A path is
    locked as qemu locks it: a reader permits other readers, a writer permits no other program. An
    object is not locked.

    The secret is `passphrase` (text is encoded as UTF-8) or all bytes of `key_file`; `volume_key`
    opens without a keyslot. `key_slot` tries only that keyslot. `key_cache` remembers derived keys.
    `engine` and `threads` are as in `XTS`. `format` is a name of `formats` or a `PlainVolume`, whose
    secret is its key; by default it is the format whose signature the file has.

    `volume_offset` is the byte at which the volume begins in a larger file or disk, a multiple of 512.
    `volume_partition` is the number of the partition (GPT or MBR) with the volume. Nothing outside that
    part is read or written, except the partition table.

    Raises `WrongPassphrase`, `NotAVolume`, `DamagedError`, `MissingError`, `BusyError` and other
    subclasses of `Error`.
    """
    passphrase = _luxor.hidden(passphrase)
    volume_key = _luxor.hidden(volume_key, is_key=True)
    # An option with a wrong name may be a secret, too.
    unknown = sorted(new.keys() - NewOptions.__annotations__.keys())
    if unknown:
        new.clear()
        raise TypeError(f"there is no option {' or '.join(unknown)}")
    if mode in ("wb", "w+b", "wb+"):
        existing = {
            "volume_key": volume_key,
            "header": header,
            "format": format,
            "key_slot": key_slot,
            "key_cache": key_cache,
            "volume_offset": volume_offset,
            "volume_partition": volume_partition,
        }
        if wrong := [name for name, value in existing.items() if value is not None]:
            raise TypeError(f"a new volume has no option {' or '.join(wrong)}")
        disk = new_disk(
            file,
            passphrase=passphrase,
            key_file=key_file,
            engine=engine,
            threads=threads,
            **new,
        )
        return VolumeCreator(NewVolumeFile(disk))
    if mode not in ("rb", "r+b", "rb+"):
        # A secret may be in the wrong place.
        mode = ""
        raise ValueError("invalid mode: it should be 'rb', 'r+b' or 'wb'")
    if new:
        raise TypeError(f"options of a new volume, of the mode 'wb': {', '.join(sorted(new))}")
    return _buffered(_luxor.open(file, mode != "rb", locals()), mode)


def _buffered(disk: _luxor.Disk, mode: str) -> VolumeReader | VolumeWriter:
    """Return an existing volume as a file."""
    raw = VolumeFile(disk)
    if mode == "rb":
        return VolumeReader(raw, BUFFER)
    writer = VolumeWriter(raw, BUFFER)
    # At the end of the program finalizers run while an object that holds the volume can still be
    # called. Those of the newest files run first, because a volume may be in a file of an older one.
    weakref.finalize(writer, _sync_at_exit, weakref.ref(writer), os.getpid())
    return writer


File = TypeVar("File", VolumeReader, VolumeWriter)


class UnlockedVolume(Generic[File]):
    """A volume with its keys: what `Volume.unlock` returns.

    `disk` makes a file of its plaintext, which then has the keys. The data are locked from `unlock` on,
    until the file or this object is closed or garbage.
    """

    def __init__(self, unlocked: _luxor.Unlocked, mode: str) -> None:
        """Use `Volume.unlock`."""
        self._unlocked, self._mode = unlocked, mode

    @property
    def keyslots(self) -> list[int]:
        """The keyslots that the secret opened: none for a format without them or with a volume key."""
        return self._unlocked.keyslots

    def disk(self) -> File:
        """Return the plaintext as a binary file, as `open` does. This can be called once."""
        file: Any = _buffered(self._unlocked.disk(), self._mode)
        return file  # type: ignore[no-any-return]

    def close(self) -> None:
        """Wipe the keys, and unlock the data for other programs. A file that `disk` made stays open."""
        self._unlocked.close()

    def __enter__(self) -> UnlockedVolume[File]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
