# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where the processes of a cluster get their keys from.

A provider is sent to the processes in place of a key. There it is called with the metadata of a
volume, as `Volume.dump` returns them, and returns the secret of a keyslot: text, bytes or a
`luxor.Secret`. Any function can be a provider, if it fetches the key and does not contain it. Then keys
are neither in the arguments of tasks nor in logs.
"""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from . import _luxor
from ._exceptions import DamagedError, MissingError

if TYPE_CHECKING:
    from ._types import Secret

#: The keys that this process has derived.
KEY_CACHE = _luxor.KeyCache()

#: The type of the token with a wrapped secret.
TOKEN = "luxor-wrapped-key"


class KeyProvider(Protocol):
    """A function that returns the secret of a volume. `metadata` is empty for a new volume."""

    def __call__(self, metadata: dict[str, Any], /) -> Secret: ...


@dataclass(frozen=True)
class NoProvider:
    """What stands for an object of the type `name`, which was given as a provider and is none."""

    name: str


def hidden_provider(key: Any) -> Any:
    """Return `key`, but a `NoProvider` for what is none, which may be a secret.

    As `_luxor.hidden`, this does not fail: functions replace their arguments by the result at once,
    because tracebacks show variables.
    """
    return key if key is None or callable(key) else NoProvider(type(key).__name__)


def checked_provider(key: Any) -> Any:
    """Return `key`, which `hidden_provider` has returned, if it can be a provider."""
    if not callable(key):
        name = key.name if isinstance(key, NoProvider) else type(key).__name__
        raise TypeError(
            f"key must be a provider, such as luxor.keys.KeyFile(path), not {name}"
        )
    return key


def secret_of(key: KeyProvider, metadata: dict[str, Any]) -> _luxor.Secret:
    """Return the secret of a volume, so that no variable that a traceback shows contains it."""
    return _luxor.Secret(key(metadata))


class KeyService(Protocol):
    """A key management service, which encrypts short secrets with keys that never leave it.

    `context` says what the secret is for. The service must refuse to decrypt it with another one.
    """

    def encrypt(self, secret: bytes, context: dict[str, str], /) -> bytes: ...
    def decrypt(self, wrapped: bytes, context: dict[str, str], /) -> bytes: ...


@dataclass(frozen=True)
class KeyFile:
    """The bytes of the file `path` in every process."""

    path: str | os.PathLike[str]

    def __call__(self, metadata: dict[str, Any], /) -> bytes:
        try:
            with open(self.path, "rb") as file:
                return file.read()
        except FileNotFoundError as error:
            raise MissingError(f"there is no key file {self.path} on this machine") from error


@dataclass(frozen=True)
class KeyVariable:
    """The environment variable `name` of every process."""

    name: str

    def __call__(self, metadata: dict[str, Any], /) -> bytes:
        value = os.environb.get(os.fsencode(self.name))
        if value is None:
            raise MissingError(f"the environment variable {self.name} with the key is not set")
        return value


@dataclass(frozen=True)
class WrappedKey:
    """A random secret for each volume, which a key management service encrypts.

    A token of the volume holds it encrypted. `service` is sent to the processes.
    """

    service: KeyService

    def __call__(self, metadata: dict[str, Any], /) -> bytes:
        for token in metadata.get("tokens", {}).values():
            if token["type"] == TOKEN:
                return self.service.decrypt(*_wrapped(token))
        raise MissingError(f"the volume has no token of the type {TOKEN}")

    def new(self, context: dict[str, str]) -> tuple[bytes, dict[str, Any]]:
        """Return a new secret, and the token for it."""
        secret = os.urandom(32)
        wrapped = base64.b64encode(self.service.encrypt(secret, context)).decode()
        token = {"type": TOKEN, "keyslots": ["0"], "context": context, "wrapped": wrapped}
        return secret, token


def new_secret(
    key: KeyProvider, name: str, options: dict[str, Any]
) -> tuple[_luxor.Secret, dict[str, Any], dict[str, Any] | None]:
    """Return the secret for the new volume `name`, its options, and the token that it needs."""
    if not isinstance(key, WrappedKey):
        return secret_of(key, {}), options, None
    made, token = key.new({"volume": name})
    # A random secret needs no slow derivation.
    options = {**options, "pbkdf": "pbkdf2", "pbkdf_force_iterations": 1000}
    return _luxor.Secret(made), options, token


def _wrapped(token: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
    """Return what the token contains. Anyone who can write to the volume can change it."""
    wrapped, context = token.get("wrapped"), token.get("context")
    try:
        if not isinstance(wrapped, str) or not isinstance(context, dict):
            raise ValueError
        if not all(isinstance(value, str) for value in context.values()):
            raise ValueError
        return base64.b64decode(wrapped, validate=True), context
    except ValueError as error:
        raise DamagedError(f"the token of the type {TOKEN} is not one that Luxor makes") from error
