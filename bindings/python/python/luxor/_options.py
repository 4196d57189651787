# SPDX-License-Identifier: MIT OR Apache-2.0
"""Secrets among the options of fsspec's file systems.

fsspec keeps the options of every file system: it sends them to other processes, writes them as JSON,
prints them, and hashes them for the names of tasks. Those of `luks` are also among the options of each
file system outside it, as in `zip://…::luks::…`, and these know nothing about secrets. Therefore every
passphrase and volume key of `luks` becomes a `luxor.Secret` before any file system gets its options.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

from fsspec.config import apply_config
from fsspec.spec import AbstractFileSystem

from ._luxor import Secret

PROTOCOL = "luks"

#: The options of `luks` that are secrets.
SECRETS = ("passphrase", "volume_key")


def hidden(options: dict[str, Any], protocol: object) -> dict[str, Any]:
    """Return the options of a file system with the name `protocol`, without readable secrets."""
    result = dict(options)
    for name, value in options.items():
        if protocol == PROTOCOL and name in SECRETS:
            result[name] = None if value is None else Secret(value)
        elif isinstance(value, dict) and name != "fo":
            # A `fo` that is a dictionary has an entry for each of many files.
            result[name] = hidden(value, _protocol_of(name, options))
    return result


def _protocol_of(name: object, options: dict[str, Any]) -> object:
    """Return the name of the file system that `options[name]` are for, if it may be `PROTOCOL`."""
    if not isinstance(name, str) or not name.endswith("options"):
        # `luks={…}`.
        return name
    if (protocol := options.get(name.removesuffix("options") + "protocol")) is not None:
        # `target_protocol="luks", target_options={…}`.
        return protocol
    # `fo="luks::s3://…", target_options={…}`.
    urls = (value for value in options.values() if isinstance(value, str))
    return PROTOCOL if any(url.startswith(f"{PROTOCOL}:") for url in urls) else None


def _hidden_arguments(
    cls: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    names = list(inspect.signature(cls.__init__).parameters)[1 : len(args) + 1] if args else []
    # The configuration of fsspec has options too.
    given = {**dict(zip(names, args, strict=False)), **apply_config(cls, options)}
    made = hidden(given, cls.protocol)
    return (*(made.pop(name) for name in names), *args[len(names) :]), made


_create = type(AbstractFileSystem).__call__


def _create_without_secrets(cls: Any, *args: Any, **options: Any) -> Any:
    args, options = _hidden_arguments(cls, args, options)
    return _create(cls, *args, **options)


def install() -> None:
    """Hide the secrets among the options of all file systems that are made from now on.

    A file system that is being made, and for which this module is imported, has kept its options
    already. It is refused if they contain a secret.
    """
    frame = sys._getframe()
    while (outer := frame.f_back) is not None:
        frame = outer
        if frame.f_code is _create.__code__:
            cls, args, options = (frame.f_locals[name] for name in ("cls", "args", "kwargs"))
            if _hidden_arguments(cls, args, options) != (args, options):
                raise TypeError(
                    f"the options of {cls.__name__} contain a passphrase or key that can be read: "
                    "use luxor.Secret(…), key_file, or a key provider as key"
                )
    setattr(type(AbstractFileSystem), "__call__", _create_without_secrets)


install()
