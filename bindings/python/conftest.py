# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the tests and the examples of README.md share."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import luxor
import pytest

#: A keyslot that is quick to open, and weak.
CHEAP: dict[str, Any] = {"pbkdf": "pbkdf2", "pbkdf_force_iterations": 1000}

PASSPHRASE = "correct horse"

# Every run has the same cases, whatever the machine's speed.
hypothesis.settings.register_profile("luxor", deadline=None, derandomize=True)
hypothesis.settings.load_profile("luxor")


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of README.md make files."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A LUKS2 volume of 1 MiB plaintext, which is full of zeros."""
    path = tmp_path / "volume"
    luxor.create(path, 1 << 20, passphrase=PASSPHRASE, **CHEAP)
    with luxor.open(path, "r+b", passphrase=PASSPHRASE) as file:
        file.write(bytes(1 << 20))
    return path


@pytest.fixture
def cryptsetup() -> Callable[..., str]:
    """A function that runs cryptsetup with the passphrase on standard input."""

    def run(*args: object) -> str:
        command = ["cryptsetup", "--batch-mode", *map(str, args)]
        done = subprocess.run(
            command, input=PASSPHRASE, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
