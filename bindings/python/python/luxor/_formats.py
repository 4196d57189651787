# SPDX-License-Identifier: MIT OR Apache-2.0
"""The formats of volumes."""

from __future__ import annotations

from dataclasses import dataclass

from . import _luxor


@dataclass(frozen=True, kw_only=True)
class PlainVolume:
    """The format of a plain volume: data encrypted by dm-crypt, with no header.

    The secret of such a volume is the key itself, and nothing shows whether it is the right one. The
    arguments are the values that a header would contain. The defaults are those of cryptsetup for
    aes-xts-plain64.
    """

    #: The encryption: "aes-xts-plain64", "aes-xts-plain", "aes-cbc-plain", "aes-cbc-plain64" or
    #: "aes-cbc-essiv:sha256".
    cipher: str = "aes-xts-plain64"
    #: The length of the key in bits: 256 or 512 for XTS, 128 or 256 for CBC.
    key_size: int = 256
    #: Where the data begin in the file or device, in units of 512 bytes.
    offset: int = 0
    #: The length of the data in units of 512 bytes. None stands for the end of the file or device.
    size: int | None = None
    #: The position from which the IVs are counted, in units of 512 bytes.
    skip: int = 0
    #: The length of a sector in bytes: 512, 1024, 2048 or 4096.
    sector_size: int = 512
    #: Whether IVs count sectors instead of units of 512 bytes.
    iv_large_sectors: bool = False

    def __post_init__(self) -> None:
        _luxor.check_plain_volume(self)
