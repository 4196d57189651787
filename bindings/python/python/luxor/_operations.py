# SPDX-License-Identifier: MIT OR Apache-2.0
"""New volumes, whole files, and the metadata and keys of a volume.

The functions pass their arguments on by name: `_luxor` takes those that it knows from `locals()`. Before
anything can fail they hide secrets, which tracebacks with variables would show.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _luxor
from ._files import UnlockedVolume

if TYPE_CHECKING:
    from ._files import VolumeReader, VolumeWriter
    from ._luxor import KeyCache
    from ._types import FileLike, Format, Path, Pbkdf, Progress, Secret, VolumeKey, VolumeType


def encrypt(
    source: Path | FileLike,
    target: Path | FileLike,
    *,
    passphrase: Secret | None = None,
    key_file: Path | None = None,
    header: Path | None = None,
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
    progress: Progress | None = None,
    engine: str | None = None,
    threads: int | None = None,
) -> None:
    """Encrypt all of `source` into a new volume in `target`.

    Both are paths or binary files. Files are read and written from their present position, and
    `target` must end there. A file at a path appears whole or not at all; an existing one is
    replaced only with `force`. `source` must have a known length if `target` cannot seek.

    The keyslot gets the secret `passphrase` or `key_file`. `header` is the path for a detached
    header. `pbkdf_memory` is in KiB and `iter_time` in seconds; `pbkdf_force_iterations` replaces
    the measurement of `iter_time`. `luks2_metadata_size` is the length of each of the two copies of the
    metadata, and `luks2_keyslots_size` that of the keyslots area, both in bytes; the data begin right
    after it. The defaults are those of cryptsetup.

    `progress(done, total)` is called several times a second with numbers of bytes; `total` is None
    while the length is unknown. An exception that it raises ends the operation; one of its last
    call, when all is done, leaves the finished files.
    """
    passphrase = _luxor.hidden(passphrase)
    _luxor.encrypt(source, target, locals(), progress)


def decrypt(
    source: Path | FileLike,
    target: Path | FileLike,
    *,
    passphrase: Secret | None = None,
    key_file: Path | None = None,
    volume_key: VolumeKey | None = None,
    header: Path | FileLike | None = None,
    format: Format | None = None,
    force: bool = False,
    sparse: bool = True,
    key_slot: int | None = None,
    key_cache: KeyCache | None = None,
    volume_offset: int | None = None,
    volume_partition: int | None = None,
    progress: Progress | None = None,
    engine: str | None = None,
    threads: int | None = None,
) -> None:
    """Decrypt the volume in `source` into `target`: the reverse of `encrypt`.

    The secret, `format`, `volume_offset` and `volume_partition` are as in `open`. With `sparse`, long
    runs of zeros become holes in a file at a path.
    """
    passphrase = _luxor.hidden(passphrase)
    volume_key = _luxor.hidden(volume_key, is_key=True)
    _luxor.decrypt(source, target, locals(), progress)


def create(
    path: Path,
    size: int | None = None,
    *,
    passphrase: Secret | None = None,
    key_file: Path | None = None,
    header: Path | None = None,
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
    engine: str | None = None,
    threads: int | None = None,
) -> None:
    """Make an empty volume for `size` bytes of plaintext, a multiple of the sector size.

    Without a size the volume fills the existing file or device. A new volume is always a whole file or
    device: one in a partition is made on the device of the partition. The data area is not written: it
    decrypts to noise. The other arguments are as in `encrypt`.
    """
    passphrase = _luxor.hidden(passphrase)
    _luxor.create(locals())


def restore_header(
    backup: Path,
    target: Path,
    *,
    force: bool = False,
    volume_offset: int | None = None,
    volume_partition: int | None = None,
) -> None:
    """Write a header backup to the volume `target`, or to an empty file as a detached header.

    Without `force` this fails if data could be lost. `volume_offset` and `volume_partition` are as in
    `open`.
    """
    _luxor.restore_header(locals())


class Volume:
    """The metadata and keys of a volume, or of a detached header.

    `file` is a path, or an object with the methods of a seekable binary file. Every call reads the
    metadata anew. Changes need a file that can be written. At a path they happen under
    cryptsetup's locks. `header`, `format`, `volume_offset` and `volume_partition` are as in `open`.

    `unlock` finds the keys, and its `disk` is the plaintext. A volume that is not LUKS has no version,
    label, keyslots and tokens, and its keys cannot be changed.
    """

    def __init__(
        self,
        file: Path | FileLike,
        *,
        header: Path | FileLike | None = None,
        format: Format | None = None,
        volume_offset: int | None = None,
        volume_partition: int | None = None,
    ) -> None:
        self._volume = _luxor.Volume(file, locals())

    def __repr__(self) -> str:
        return f"<luxor.Volume {self.format} {self.uuid}".rstrip() + ">"

    @overload
    def unlock(
        self,
        passphrase: Secret | None = None,
        *,
        mode: Literal["rb"] = "rb",
        key_file: Path | None = None,
        volume_key: VolumeKey | None = None,
        key_slot: int | None = None,
        key_cache: KeyCache | None = None,
        engine: str | None = None,
        threads: int | None = None,
    ) -> UnlockedVolume[VolumeReader]: ...
    @overload
    def unlock(
        self,
        passphrase: Secret | None = None,
        *,
        mode: Literal["r+b", "rb+"],
        key_file: Path | None = None,
        volume_key: VolumeKey | None = None,
        key_slot: int | None = None,
        key_cache: KeyCache | None = None,
        engine: str | None = None,
        threads: int | None = None,
    ) -> UnlockedVolume[VolumeWriter]: ...
    def unlock(
        self,
        passphrase: Secret | None = None,
        *,
        mode: str = "rb",
        key_file: Path | None = None,
        volume_key: VolumeKey | None = None,
        key_slot: int | None = None,
        key_cache: KeyCache | None = None,
        engine: str | None = None,
        threads: int | None = None,
    ) -> UnlockedVolume[Any]:
        """Find the keys, and lock the data for a `disk` of this mode: "rb" or "r+b".

        The secret and the other arguments are as in `open`. After `WrongPassphrase` this can be called
        again.
        """
        passphrase = _luxor.hidden(passphrase)
        volume_key = _luxor.hidden(volume_key, is_key=True)
        if mode not in ("rb", "r+b", "rb+"):
            # A secret may be in the wrong place.
            mode = ""
            raise ValueError("invalid mode: it should be 'rb' or 'r+b'")
        return UnlockedVolume(self._volume.unlock(mode != "rb", locals()), mode)

    @property
    def format(self) -> str:
        """The format, such as "LUKS2" or "plain"."""
        return self._volume.format

    @property
    def version(self) -> int:
        """The version of LUKS: 1 or 2."""
        return self._volume.version

    @property
    def uuid(self) -> str:
        """The UUID; empty in a format without one."""
        return self._volume.uuid

    @property
    def label(self) -> str:
        """The label; empty in LUKS1."""
        return self._volume.label

    @property
    def size(self) -> int:
        """The number of bytes of plaintext. A detached header does not say it, and raises `Error`."""
        return self._volume.size

    @property
    def keyslots(self) -> list[int]:
        """The numbers of the keyslots in use."""
        return self._volume.keyslots

    def dump(self) -> dict[str, Any]:
        """Return the metadata: what `luxor dump --json` prints."""
        return _loads(self._volume.dump_json())

    def check(self) -> list[str]:
        """Return what is damaged, in sentences. Keyslots are not checked: `test_key` does that."""
        _, damage = self._volume.check()
        return damage

    def test_key(
        self,
        *,
        passphrase: Secret | None = None,
        key_file: Path | None = None,
        key_slot: int | None = None,
    ) -> int:
        """Return the number of the keyslot that the secret opens, or raise `WrongPassphrase`."""
        passphrase = _luxor.hidden(passphrase)
        return self._volume.test_key(locals())

    def add_key(
        self,
        *,
        passphrase: Secret | None = None,
        key_file: Path | None = None,
        new_passphrase: Secret | None = None,
        new_key_file: Path | None = None,
        number: int | None = None,
        key_slot: int | None = None,
        pbkdf: Pbkdf | None = None,
        pbkdf_memory: int | None = None,
        pbkdf_parallel: int | None = None,
        pbkdf_force_iterations: int | None = None,
        iter_time: float = 2.0,
    ) -> int:
        """Add a keyslot for another secret: keyslot `number`, or the first free one.

        `passphrase` or `key_file` opens the volume. Returns the number of the new keyslot. The
        costs are as in `encrypt`.
        """
        passphrase = _luxor.hidden(passphrase)
        new_passphrase = _luxor.hidden(new_passphrase)
        return self._volume.add_key(locals())

    def change_key(
        self,
        *,
        passphrase: Secret | None = None,
        key_file: Path | None = None,
        new_passphrase: Secret | None = None,
        new_key_file: Path | None = None,
        key_slot: int | None = None,
        pbkdf: Pbkdf | None = None,
        pbkdf_memory: int | None = None,
        pbkdf_parallel: int | None = None,
        pbkdf_force_iterations: int | None = None,
        iter_time: float = 2.0,
    ) -> int:
        """Replace the secret of the keyslot that the old one opens. Return its number.

        After a crash at any moment, either the old secret or the new one opens the keyslot.
        """
        passphrase = _luxor.hidden(passphrase)
        new_passphrase = _luxor.hidden(new_passphrase)
        return self._volume.change_key(locals())

    def remove_key(
        self,
        *,
        passphrase: Secret | None = None,
        key_file: Path | None = None,
        key_slot: int | None = None,
        last: bool = False,
    ) -> int:
        """Remove the keyslot that the secret opens, and return its number.

        The last keyslot is removed only with `last`: nothing opens the volume afterwards.
        """
        passphrase = _luxor.hidden(passphrase)
        return self._volume.remove_key(locals())

    def remove_keyslot(self, number: int, *, last: bool = False) -> None:
        """Remove keyslot `number` without a secret. `last` is as in `remove_key`."""
        self._volume.remove_keyslot(locals())

    def token(self, number: int) -> dict[str, Any]:
        """Return token `number`. Bytes in its strings that are not UTF-8 become surrogates."""
        return _loads(self._volume.token_json(locals()))

    def add_token(self, token: dict[str, Any], number: int | None = None) -> int:
        """Add a token as number `number`, or as the first free one. Return its number.

        Bytes of another program that are not UTF-8 are surrogates in its strings, as `token` returns them.
        """
        return self._volume.add_token(_dumps(token), locals())

    def remove_token(self, number: int, *, force: bool = False) -> None:
        """Remove token `number`.

        A token of the type luxor-file says where the file in the volume ends. Without it the bytes
        after the file are read as a part of it, so removing it needs `force`.
        """
        self._volume.remove_token(locals())

    def back_up_header(self, file: Path, *, force: bool = False) -> int:
        """Copy the metadata and keyslots into a new file of mode 0400. Return its length.

        The backup and a secret that was valid at the time open the volume, also later.
        """
        return self._volume.back_up_header(locals())


def _loads(text: bytes) -> dict[str, Any]:
    """Parse metadata, whose strings need not be UTF-8."""
    parsed: dict[str, Any] = json.loads(text.decode(errors="surrogateescape"))
    return parsed


def _dumps(token: dict[str, Any]) -> bytes:
    """Reverse `_loads`."""
    return json.dumps(token, ensure_ascii=False).encode(errors="surrogateescape")
