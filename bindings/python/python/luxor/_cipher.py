# SPDX-License-Identifier: MIT OR Apache-2.0
"""Volumes whose data the caller reads and writes itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from . import _luxor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._luxor import KeyCache
    from ._types import Buffer, Data, FileLike, Format, Path, Pbkdf, Secret, VolumeKey, VolumeType


class VolumeCipher:
    """An unlocked volume without its storage: it encrypts and decrypts data at their offsets.

    The metadata and keys are read from `file`, whose data are not read and whose length is that of
    the volume. The other arguments are as in `open`. Several threads may use one object at once.
    """

    def __init__(
        self,
        file: Path | FileLike,
        *,
        passphrase: Secret | None = None,
        key_file: Path | None = None,
        volume_key: VolumeKey | None = None,
        header: Path | FileLike | None = None,
        format: Format | None = None,
        key_slot: int | None = None,
        key_cache: KeyCache | None = None,
        engine: str | None = None,
        threads: int | None = None,
    ) -> None:
        passphrase = _luxor.hidden(passphrase)
        volume_key = _luxor.hidden(volume_key, is_key=True)
        self._cipher = _luxor.Cipher(file, locals())

    @property
    def size(self) -> int:
        """The number of bytes of plaintext."""
        return self._cipher.size

    @property
    def sector_size(self) -> int:
        """The length of a sector in bytes."""
        return self._cipher.sector_size

    def stored(self, size: int, offset: int) -> list[tuple[int, int, int]]:
        """Return where the sectors lie that contain `size` bytes of plaintext from `offset` on.

        Each tuple is one range: its offset in the plaintext, its offset in the volume, and its
        length. Whole sectors are stored also at the end.
        """
        return self._cipher.stored(size, offset)

    def encrypt(self, data: Data, offset: int) -> bytes:
        """Encrypt the plaintext from `offset` on: whole sectors, or up to the end of the plaintext.

        There zeros fill the last sector.
        """
        return self._cipher.encrypt(data, offset)

    def decrypt(self, data: Buffer, offset: int) -> bytes:
        """Decrypt whole sectors of the plaintext from `offset` on.

        What follows the plaintext in the last sector is left out.
        """
        return self._cipher.decrypt([data], offset)

    def decrypt_pieces(self, pieces: Sequence[Buffer], offset: int) -> bytes:
        """As `decrypt`, for data in pieces of whole sectors, one after the other."""
        return self._cipher.decrypt(pieces, offset)


def new_header(
    size: int,
    *,
    passphrase: Secret | None = None,
    key_file: Path | None = None,
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
    like: Path | FileLike | None = None,
    key_cache: KeyCache | None = None,
    engine: str | None = None,
    threads: int | None = None,
) -> tuple[bytes, int]:
    """Make the header of a volume for `size` bytes of plaintext, which a `VolumeCipher` encrypts.

    Returns the metadata and keyslots, which are the first bytes of the volume, and the length of the
    volume. For an empty plaintext one sector is stored, with any contents.

    `like` is a volume with a keyslot for the same secret. The new keyslot has its salt and costs, and
    `pbkdf` to `iter_time` have no effect. With a `key_cache` one derivation then opens both. The other
    arguments are as in `encrypt`.
    """
    passphrase = _luxor.hidden(passphrase)
    return _luxor.new_header(locals())
