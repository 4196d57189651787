# SPDX-License-Identifier: MIT OR Apache-2.0
"""The Python blocks of README and the documents, as they are printed. pytest itself runs the `pycon`
blocks of the module's README, which show results.

Each block has a folder and a bucket of its own, with the files that the documents talk about."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import luxor
import luxor.ray
import numpy
import pandas
import pytest
import safetensors.numpy
from dask.distributed import Client
from luxor import distributed

if TYPE_CHECKING:
    from s3 import Bucket, S3Server

ROOT = Path(__file__).parents[3]
README = ROOT / "bindings/python/README.md"

#: What a block may need that is not here. Other tests have it.
NEEDS = {
    "torch.": "a GPU, and torch: test_gpu.py",
    "boto3": "a key management service: test_distributed.py has one of its own",
}

#: How many blocks need something of `NEEDS`. A block that is added here has a test elsewhere.
LEFT_OUT = 2


def documents() -> list[Path]:
    named = [ROOT / "README.md", README]
    return [*named, *sorted(ROOT.glob("docs/*.md"))]


def blocks(document: Path) -> Iterator[str]:
    """Return the blocks, with empty lines before them, so that errors name the document's lines."""
    text = document.read_text()
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield "\n" * text.count("\n", 0, block.start(1)) + block[1]


#: A file of safetensors.
WEIGHTS = safetensors.numpy.save({"bias": numpy.arange(4, dtype="float32")})


def volume(folder: Path, plaintext: bytes) -> bytes:
    """Return a volume that the key in this folder opens."""
    made = io.BytesIO()
    cheap: dict[str, Any] = {"pbkdf": "pbkdf2", "pbkdf_force_iterations": 1000}
    luxor.encrypt(io.BytesIO(plaintext), made, key_file=folder / "key.bin", **cheap)
    return made.getvalue()


def prepare_files(folder: Path) -> None:
    """Make the local files that the documents talk about."""
    key = folder / "key.bin"
    key.write_bytes(bytes(range(64)))
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(key, "photo")
    (folder / "photos.luks").write_bytes(volume(folder, archive.getvalue()))
    (folder / "model.luks").write_bytes(volume(folder, WEIGHTS))


def prepare(folder: Path, bucket: Bucket) -> None:
    """Make the files that the documents talk about."""
    prepare_files(folder)
    table = pandas.DataFrame({"figures": [1, 2, 3]})
    for name, plaintext in {
        "report.luks": b"report",
        "figures.csv.luks": table.to_csv().encode(),
        "table.parquet.luks": table.to_parquet(),
        "model.luks": WEIGHTS,
    }.items():
        bucket.put(name, volume(folder, plaintext))
    bucket.put("disk.img", bytes(100_000))
    bucket.put("plain/file", b"figures")
    # A table is read without signing.
    anyone = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{bucket.path('table.parquet.luks')}",
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [anyone]})
    bucket.fs.call_s3("put_bucket_policy", Bucket=bucket.name, Policy=policy)


def with_key(block: str, folder: Path) -> str:
    """Return a block with the key in this folder."""
    return re.sub(r"/run/(secrets/)?key\b", str(folder / "key.bin"), block)


def test_the_block_for_gpus_runs_without_one(tmp_path: Path) -> None:
    found = [block for block in blocks(README) if "luxor.gpu.load_safetensors(" in block]
    (block,) = found
    prepare_files(tmp_path)
    # The tests find the driver nowhere else, and this hides GPUs from one that the system has.
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("LD_LIBRARY_PATH", None)
    done = subprocess.run(
        [sys.executable, "-c", with_key(block, tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "bias float32 (4,) cpu\n"


@pytest.mark.usefixtures("cluster")
def test_blocks_in_the_documents_run_as_they_are_printed(
    s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The storage as in docs/object-storage.md, and keyslots that are quick to open.
    for name, value in s3_server.variables.items():
        monkeypatch.setenv(name, value)
    for function in (distributed.encrypt, luxor.ray.encrypt):
        assert function.__kwdefaults__
        monkeypatch.setitem(function.__kwdefaults__, "iter_time", 0.01)
    ran = set()
    left_out = 0
    for document in documents():
        for block in blocks(document):
            if any(needed in block for needed in NEEDS):
                left_out += 1
            elif block.strip() not in ran:
                ran.add(block.strip())
                folder, bucket = tmp_path_factory.mktemp("block"), s3_server.bucket()
                prepare(folder, bucket)
                monkeypatch.chdir(folder)
                code = with_key(block, folder).replace("s3://bucket/", bucket.url(""))
                names: dict[str, Any] = {}
                exec(compile(code, document, "exec"), names)
                if isinstance(client := names.get("client"), Client):
                    client.shutdown()
    assert len(ran) >= 6
    assert left_out == LEFT_OUT


def test_what_a_block_needs_is_in_some_document() -> None:
    text = "".join(block for document in documents() for block in blocks(document))
    assert [needed for needed in NEEDS if needed not in text] == []
