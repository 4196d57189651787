# SPDX-License-Identifier: MIT OR Apache-2.0
"""The manifest of an unfinished target: what is done with it, and which parts are stored.

Others may be able to write to the storage that the manifest lies in. It would tell the caller which
key to encrypt with, and which upload to complete. Therefore it is authenticated before anything in it is
used, by a key that the caller's secret and the target's name give, and nothing in the manifest. Workers
of the cluster compare it with a hash that the caller sends them.

It is a JSON object on three lines:

    {"schema": 2, "mac": "…",
    "operation": …, "source": …, …,
    "parts": {…}}

The first has the HMAC-SHA-256 of the rest, from the comma on, or no MAC if the caller had no secret for it.
The second is fixed when the upload is begun. Workers hash this line.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ._exceptions import Error
from .keys import KEY_CACHE, WrappedKey, checked_provider, secret_of

if TYPE_CHECKING:
    from . import _luxor
    from .keys import KeyProvider

#: How a stored part is recorded: for S3 its ETag, for a file its offset and CRC-32.
PartRecord = dict[str, str]

#: The name of a manifest is that of the target with this.
MANIFEST = ".luxor-manifest"

#: A manifest is shorter: its header has some 350 KiB, and its 10,000 parts have some 70 bytes each.
MAX_LENGTH = 8 << 20

#: The header of a volume ends before, without the noise that follows its keyslots.
MAX_HEADER = 16 << 20

#: The least length of a part, except the last one, and the greatest number and length of parts (S3).
MIN_PART_SIZE, MAX_PARTS, MAX_PART_SIZE = 5 << 20, 10_000, 5 << 30

#: The length of a part, unless there would be too many: 16 MiB, as the header, so that all parts of a
#: small volume are of one length.
PART_SIZE = 16 << 20

FORM = re.compile(
    rb'\{"schema": 2, "mac": "(?P<mac>[0-9a-f]{64})?"'
    rb'(?P<rest>,\n(?P<work>[^\n]*),\n"parts": (?P<parts>[^\n]*)\}\n)'
)


@dataclass
class Manifest:
    """What a job does, and which of its parts are stored."""

    operation: Literal["encrypt", "decrypt"]
    source: str
    #: The source's length and ETag, or what its storage has instead: another file has another one.
    identity: str
    target: str
    #: The length of the plaintext and of the target.
    size: int
    length: int
    part_size: int
    #: The length of the header, and its metadata and keyslots. Noise fills the rest.
    header_length: int
    header: bytes
    #: Empty until the upload is begun.
    upload_id: str
    parts: dict[int, PartRecord]
    #: Authenticates the manifest. It is not in it.
    key: _luxor.Secret | None = field(default=None, repr=False)

    def digest(self) -> str:
        """Return a hash of everything but the records of parts."""
        return hashlib.sha256(self._work()).hexdigest()

    def to_bytes(self) -> bytes:
        parts = json.dumps(self.parts).encode()
        rest = b",\n" + self._work() + b',\n"parts": ' + parts + b"}\n"
        mac = "" if self.key is None else self.key.hmac(rest).hex()
        data = b'{"schema": 2, "mac": "' + mac.encode() + b'"' + rest
        if len(data) > MAX_LENGTH:
            raise Error(f"the manifest for {self.target} has more than {MAX_LENGTH} bytes")
        return data

    def _work(self) -> bytes:
        """Return the second line."""
        header = base64.b64encode(zlib.compress(self.header)).decode()
        values = {**vars(self), "header": header}
        del values["parts"], values["key"]
        return json.dumps(values)[1:-1].encode()

    @classmethod
    def authenticated(cls, data: bytes, key: _luxor.Secret, name: str) -> Manifest:
        """Return the manifest, if the key has authenticated it. `name` is for messages."""
        found = FORM.fullmatch(data)
        if found is None or found["mac"] is None:
            raise _not_authentic(name)
        if not hmac.compare_digest(found["mac"], key.hmac(found["rest"]).hex().encode()):
            raise _not_authentic(name)
        work = cls._parsed(found["work"], found["parts"])
        work.key = key
        return work

    @classmethod
    def with_digest(cls, data: bytes, digest: str, name: str) -> Manifest:
        """Return the manifest without the records of parts, if it has this digest."""
        found = FORM.fullmatch(data)
        if found is None or hashlib.sha256(found["work"]).hexdigest() != digest:
            raise Error(f"{name}: the manifest has changed")
        return cls._parsed(found["work"], b"{}")

    @classmethod
    def _parsed(cls, work: bytes, parts: bytes) -> Manifest:
        """Parse what Luxor has written itself."""
        values = json.loads(b"{" + work + b"}")
        values["header"] = zlib.decompressobj().decompress(
            base64.b64decode(values["header"]), MAX_HEADER
        )
        numbered = {int(number): part for number, part in json.loads(parts).items()}
        return cls(**values, parts=numbered)

    def plan(self) -> dict[int, tuple[int, int]]:
        """Return the parts of the data by number: their offset in the plaintext, and their length.

        Part 1 is the header, if there is one.
        """
        check_parts(self.length, self.part_size)
        first = 2 if self.header else 1
        offsets = range(0, max(self.size, 1), self.part_size)
        return {
            number: (offset, min(self.part_size, self.size - offset))
            for number, offset in enumerate(offsets, first)
        }


def check_parts(length: int, part_size: int) -> None:
    """Refuse more parts, or longer ones, than an upload can have."""
    parts = MAX_PARTS - 1
    if part_size > MAX_PART_SIZE:
        raise ValueError(f"part_size: a part has at most {MAX_PART_SIZE} bytes, not {part_size}")
    if not 0 <= length <= parts * part_size:
        raise ValueError(
            f"part_size: {length} bytes in parts of {part_size} are more than {parts} parts"
        )


def manifest_secret(
    key: KeyProvider | None, manifest_key: KeyProvider | None
) -> _luxor.Secret | Exception:
    """Return the secret that authenticates manifests, or why there is none.

    It must not depend on what is in the storage. A `WrappedKey` has no other secret, and everyone who may
    call its service can make one. Other providers are asked as for a new volume.
    """
    provider = checked_provider(key if manifest_key is None else manifest_key)
    if isinstance(provider, WrappedKey):
        return TypeError(
            "a WrappedKey does not authenticate a manifest, because others may call its service: give "
            "manifest_key, a provider of a secret that only you have"
        )
    try:
        return secret_of(provider, {})
    except Exception as error:
        if manifest_key is not None:
            raise
        # A provider that needs the metadata of a volume can decrypt, but not continue.
        return error


def manifest_key_of(secret: _luxor.Secret, target: str) -> _luxor.Secret:
    """Return the key that authenticates the manifest of this target."""
    # Names of files need not be UTF-8.
    return secret.manifest_key(target.encode(errors="surrogatepass"), KEY_CACHE)


def _not_authentic(name: str) -> Error:
    return Error(
        f"{name}: the manifest was not written with this key for this target",
        "Anyone with write access to the storage can have changed it. Give the key that the work was begun "
        "with, or remove the unfinished target with luxor.distributed.abort without a key.",
    )
