# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the tests and the examples of README.md share."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import luxor
import pytest

# The modules that the tests share.
sys.path.insert(0, str(Path(__file__).with_name("tests")))

if TYPE_CHECKING:
    from s3 import Bucket, FaultyS3, S3Server

#: A keyslot that is quick to open, and weak.
CHEAP: dict[str, Any] = {"pbkdf": "pbkdf2", "pbkdf_force_iterations": 1000}

PASSPHRASE = "correct horse"

# Every run has the same cases, whatever the machine's speed.
hypothesis.settings.register_profile("luxor", deadline=None, derandomize=True)
hypothesis.settings.load_profile("luxor")


def encrypted(path: Path, plain: bytes, **options: Any) -> Path:
    """Make a volume with this plaintext, and return its path."""
    luxor.encrypt(io.BytesIO(plain), path, passphrase=PASSPHRASE, **{**CHEAP, **options})
    return path


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests with a server last: after them a fork takes seconds, in which clients end."""
    items.sort(key=lambda item: "s3_server" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A real S3 server. A test that stops it must start it again."""
    # Not all tests need its client.
    from s3 import S3Server

    server = S3Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()


@pytest.fixture
def bucket(s3_server: S3Server) -> Bucket:
    """A new bucket of the server."""
    return s3_server.bucket()


@pytest.fixture
def faulty_s3(s3_server: S3Server, bucket: Bucket) -> Iterator[FaultyS3]:
    """A proxy that counts and disturbs requests. Its bucket is that of the fixture `bucket`."""
    from s3 import FaultyS3

    proxy = FaultyS3(s3_server, bucket)
    yield proxy
    proxy.close()


@pytest.fixture(scope="session")
def cluster(s3_server: S3Server) -> Iterator[None]:
    """A cluster of Ray with several nodes, whose workers know the server from their environment."""
    # Not all tests need them.
    import ray
    import ray.data
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes.add_node(num_cpus=1)
    nodes.add_node(num_cpus=1)
    # The workers import the tests and the package as this process does.
    tests = str(Path(__file__).with_name("tests"))
    paths = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
    variables = {"PYTHONPATH": paths, **s3_server.variables}
    ray.init(address=nodes.address, runtime_env={"env_vars": variables})
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()
    nodes.shutdown()
