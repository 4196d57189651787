# SPDX-License-Identifier: MIT OR Apache-2.0
"""Secrets among the options of fsspec's file systems.

fsspec keeps the options of every file system: it sends them to other processes, writes them as JSON,
prints them, and hashes them for the names of tasks. Those of `luks` are also among the options of each
file system outside it, as in `zip://…::luks::…`, and these know nothing about secrets. Therefore every
passphrase and volume key of `luks` becomes a `luxor.Secret` before any file system gets its options.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fsspec.config import apply_config
from fsspec.registry import get_filesystem_class
from fsspec.spec import AbstractFileSystem

from ._luxor import hidden as hidden_secret

if TYPE_CHECKING:
    from collections.abc import Iterable

PROTOCOL = "luks"

#: Classes with this attribute take the options of `luks`, whatever names they are registered under.
MARK = "_takes_options_of_luks"

#: The first protocol of a URL.
FIRST = re.compile(r"([^:]+):")

#: The options of `luks` that are secrets.
SECRETS = ("passphrase", "volume_key")


def hidden(options: Mapping[Any, Any], protocol: object) -> Any:
    """Return the options of a file system, without readable secrets.

    `protocol` is its class, or a name or names of it. Options without secrets are returned as they are.
    """
    # fsspec also takes the name among the options, as in `url_to_fs(url, protocol="luks", …)`.
    protocol = (protocol, options.get("protocol"))
    result = {
        name: _hidden_secret(value, protocol)
        if name in SECRETS
        # A `fo` that is a dictionary has an entry for each of many files.
        else (value if name == "fo" else _hidden_inside(value, _protocol_of(name, options)))
        for name, value in options.items()
    }
    return options if all(result[name] is value for name, value in options.items()) else result


def hidden_for(url: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options with which `url` is opened, without readable secrets."""
    return dict(hidden(options or {}, _protocols_of_urls([url])))


def _hidden_secret(value: Any, protocol: object) -> Any:
    return hidden_secret(value) if is_luks(protocol) else value


def _hidden_inside(value: Any, protocol: object) -> Any:
    """Return options, or what contains them, without readable secrets."""
    if isinstance(value, Mapping):
        return hidden(value, protocol)
    if isinstance(value, (list, tuple)):
        inside = [_hidden_inside(item, protocol) for item in value]
        if any(new is not old for new, old in zip(inside, value, strict=True)):
            return inside if isinstance(value, list) else tuple(inside)
    return value


def is_luks(protocol: object) -> bool:
    """Whether a class, or the class of one of these names, is `LuksFileSystem` or made from it."""
    if isinstance(protocol, (list, tuple)):
        return any(map(is_luks, protocol))
    if isinstance(protocol, str):
        if protocol == PROTOCOL:
            return True
        try:
            protocol = get_filesystem_class(protocol)
        except (ImportError, ValueError):
            # What is not there takes no options.
            return False
    return bool(getattr(protocol, MARK, False))


def _protocol_of(name: object, options: Mapping[Any, Any]) -> object:
    """Return the names of the file system that `options[name]` are for, as far as they are known."""
    if not isinstance(name, str) or not name.endswith("options"):
        # `luks={…}`.
        return name
    if (protocol := options.get(name.removesuffix("options") + "protocol")) is not None:
        # `target_protocol="luks", target_options={…}`.
        return protocol
    # `fo="luks::s3://…", target_options={…}`.
    return _protocols_of_urls(options.values())


def _protocols_of_urls(values: Iterable[object]) -> tuple[str, ...]:
    """Return the first protocols of those values that are URLs: what is outermost."""
    found = (FIRST.match(value) for value in values if isinstance(value, str))
    return tuple(match[1] for match in found if match)


def _hidden_arguments(
    cls: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    names = list(inspect.signature(cls.__init__).parameters)[1 : len(args) + 1] if args else []
    # The configuration of fsspec has options too.
    given = {**dict(zip(names, args, strict=False)), **apply_config(cls, options)}
    made = dict(hidden(given, cls))
    return (*(made.pop(name) for name in names), *args[len(names) :]), made


_create = type(AbstractFileSystem).__call__


class _Arguments:
    """Those of a class. A traceback that shows variables does not show what is in it."""

    def __init__(self, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.args, self.options = args, options


def _create_without_secrets(cls: Any, *args: Any, **options: Any) -> Any:
    arguments = _Arguments(*_hidden_arguments(cls, args, options))
    # Also options with wrong names may be secrets.
    del args, options
    return _create(cls, *arguments.args, **arguments.options)


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
            is_hidden = _hidden_arguments(cls, args, options) == (args, options)
            del args, options
            if not is_hidden:
                raise TypeError(
                    f"the options of {cls.__name__} contain a passphrase or key that can be read: "
                    "use luxor.Secret(…), key_file, or a key provider as key"
                )
    setattr(type(AbstractFileSystem), "__call__", _create_without_secrets)


install()
