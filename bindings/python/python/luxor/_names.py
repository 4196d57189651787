# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names that come from data, such as the paths of rows and the keys that a storage lists.

Anyone who can add a file or a row chooses them. They become names below a folder that the caller names,
and nothing else: two never become one, and none leads out of the folder.
"""

from __future__ import annotations

import re
from os.path import commonprefix
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The beginning of a URL.
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def parts_of(path: str) -> list[str]:
    """Return the parts of a path, without a protocol and the root.

    Raises `ValueError` for a part that is empty, "." or "..".
    """
    rest = SCHEME.sub("", path, count=1) if SCHEME.match(path) else path
    parts = rest.removeprefix("/").split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(
            f'{brief(path)} is no name for a file in a folder: no part may be empty, "." or ".."'
        )
    return parts


class Names:
    """The names of files below the deepest folder that contains all of them."""

    def __init__(self, paths: Iterable[str], suffix: str) -> None:
        """Refuse two paths that become one name, and a name that is a folder of another one."""
        split = {}
        for path in paths:
            if path in split:
                raise ValueError(f"two rows have the path {brief(path)}: they would be one volume")
            split[path] = parts_of(path)
        #: The number of parts that all paths have in common.
        self.depth = len(commonprefix([parts[:-1] for parts in split.values()]))
        self.suffix = suffix
        owners: dict[str, str] = {}
        for path in split:
            if (other := owners.setdefault(name := self.of(path), path)) is not path:
                raise ValueError(
                    f"{brief(other)} and {brief(path)} would be one volume, {brief(name)}"
                )
        for name, path in owners.items():
            parts = name.split("/")
            for length in range(1, len(parts)):
                if (outer := owners.get("/".join(parts[:length]))) is not None:
                    raise ValueError(
                        f"the volume of {brief(outer)} would be a folder of that of {brief(path)}"
                    )

    def of(self, path: str) -> str:
        """Return the name of one of the paths."""
        name = "/".join(parts_of(path)[self.depth :]) + self.suffix
        return "/".join(parts_of(name))


def check_exact(fs: Any, path: str) -> None:
    """Refuse a path that the storage takes for another one, as a key of S3 with `?versionId=`."""
    taken = fs._strip_protocol(path)
    if hasattr(fs, "split_path"):
        bucket, key, *_version = fs.split_path(path)
        taken = f"{bucket}/{key}"
    if taken != path:
        raise ValueError(f"the storage takes {brief(path)} for another name, {brief(str(taken))}")


def brief(text: str) -> str:
    """Return a name for a message: escaped, and not longer than a line."""
    return repr(text) if len(text) <= 100 else f"{text[:50]!r}…{text[-50:]!r}"


def shortened(text: str, limit: int) -> str:
    """Return a name of at most `limit` characters, without its middle."""
    half = (limit - 1) // 2
    return text if len(text) <= limit else f"{text[:half]}…{text[-half:]}"
