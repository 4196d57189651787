# SPDX-License-Identifier: MIT OR Apache-2.0
"""Volumes in object storage that changes, counts the requests, or fails."""

from __future__ import annotations

import functools
import io
import itertools
import threading
import time
from pathlib import Path
from typing import Any

import luxor
import pytest
from conftest import PASSPHRASE
from s3 import Bucket, Fault, FaultyS3, Request, S3Server
from stores import PLAIN, SIZE, encrypt, local_store, s3_store, volume_of

# ---- Volumes that are replaced.


def test_a_replaced_object_is_an_error_for_those_who_had_opened_it(bucket: Bucket) -> None:
    store = s3_store(bucket)
    store.put("volume", volume_of("luks2"))
    plain = PLAIN[::-1]
    for cache_type in ("none", "readahead"):
        with store.open("volume", cache_type=cache_type, block_size=5000) as file:
            assert file.read(100) == PLAIN[:100]
            # The volume keys differ, and the lengths do not.
            store.put("volume", encrypt(plain))
            for _ in range(2):
                with pytest.raises(OSError):
                    file.read_at(100, 100)
                with pytest.raises(OSError):
                    file.seek(1_000_000)
                    file.read(100)
        with store.open("volume") as file:
            assert file.read() == plain
        store.put("volume", volume_of("luks2"))


def test_an_object_that_is_replaced_while_it_is_opened_is_never_mixed(
    bucket: Bucket, faulty_s3: FaultyS3
) -> None:
    """Replaced before each of the requests: of the description, of the header, and of the data."""
    plain = PLAIN[::-1]
    # The same keys, so that a mixture would be plaintext.
    same_keys = bytearray(volume_of("luks2"))
    header = len(same_keys) - (SIZE + 4095) // 4096 * 4096
    cipher = luxor.VolumeCipher(io.BytesIO(same_keys), passphrase=PASSPHRASE)
    same_keys[header:] = cipher.encrypt(plain, 0)
    other_keys = encrypt(plain)
    store = s3_store(faulty_s3.bucket, writer=bucket)
    outcomes = []
    for after in (bytes(same_keys), other_keys):
        for number in range(4):
            bucket.put("volume", volume_of("luks2"))
            faulty_s3.clear()

            asked = functools.partial(next, itertools.count())

            def is_it(_: Request, number: int = number, asked: Any = asked) -> bool:
                return bool(asked() == number)

            def replace(_: Request, after: bytes = after) -> None:
                bucket.put("volume", after)

            faulty_s3.add(Fault(when=is_it, call=replace))
            try:
                with store.open("volume", cache_type="none") as file:
                    half = file.read_at(1_500_000, 0)
                    data = half + file.read_at(SIZE, len(half))
                outcomes.append({PLAIN: "old", plain: "new"}.get(data, "mixed"))
            except OSError:
                outcomes.append("error")
    assert outcomes == 2 * ["new", "error", "error", "error"]


def test_a_stale_listing_never_yields_other_plaintext(bucket: Bucket) -> None:
    """s3fs keeps what it has listed."""
    store = s3_store(bucket)
    url = store.put("volume", volume_of("luks2"))
    fs = store.filesystem()
    assert len(fs.ls(bucket.url(""))) == 1 and fs.cat_file(url) == PLAIN
    store.put("volume", encrypt(PLAIN[::-1]))
    with pytest.raises(OSError):
        fs.cat_file(url)
    fs.fs.invalidate_cache()
    assert fs.cat_file(url) == PLAIN[::-1]


def test_a_replaced_local_file_is_the_old_one_for_those_who_had_opened_it(tmp_path: Path) -> None:
    store = local_store(tmp_path)
    store.put("volume", volume_of("luks2"))
    with store.open("volume", cache_type="none") as file:
        store.put("volume", encrypt(PLAIN[::-1]))
        assert file.read() == PLAIN


# ---- Round trips.


def test_opening_takes_two_requests_and_a_read_one(
    bucket: Bucket, faulty_s3: FaultyS3
) -> None:
    store = s3_store(faulty_s3.bucket, writer=bucket)
    url = store.put("volume", volume_of("luks2"))
    path = faulty_s3.bucket.path("volume")
    fs = store.filesystem()

    def requests() -> list[tuple[str, tuple[int, int] | None]]:
        made = [(r.method, r.range) for r in faulty_s3.requests if r.path == path]
        assert len(made) == len(faulty_s3.requests)
        faulty_s3.clear()
        return made

    faulty_s3.clear()
    with fs.open(url, cache_type="none") as file:
        assert requests() == [("HEAD", None), ("GET", (0, 4 << 20))]
        data = len(volume_of("luks2")) - (SIZE + 4095) // 4096 * 4096
        file.seek(8192)
        assert file.read(4096) == PLAIN[8192:12288]
        assert requests() == [("GET", (data + 8192, data + 12288))]
        assert file.read_at(4096, 100) == PLAIN[100:4196]
        assert requests() == [("GET", (data, data + 8192))]
        assert file.read_at(100, SIZE) == file.read_at(0, 5) == b""
        assert requests() == []
        assert file.read() == PLAIN[12288:]
        assert [method for method, _ in requests()] == ["GET"]
    assert requests() == []
    # The keys are known now.
    with fs.open(url) as file:
        assert requests() == [("HEAD", None)]
    fs.cat_file(url, 0, 10)
    assert requests() == [("HEAD", None), ("GET", (data, data + 4096))]
    fs.cat_ranges([url] * 3, [0, 9000, 20_000], [10, 9010, 20_010])
    assert sorted(method for method, _ in requests()) == ["GET"] * 3 + ["HEAD"]
    fs.info(url)
    assert [method for method, _ in requests()] == ["HEAD", "HEAD"]


def test_volumes_with_one_salt_share_a_derivation(tmp_path: Path) -> None:
    """Eight of them open in less time than four derivations take."""
    store = local_store(tmp_path)
    options: dict[str, Any] = {"pbkdf": "pbkdf2", "pbkdf_force_iterations": 1_000_000}
    cache = luxor.KeyCache()
    first, _ = luxor.new_header(4096, passphrase=PASSPHRASE, key_cache=cache, **options)
    for i in range(8):
        header, _ = luxor.new_header(
            4096, passphrase=PASSPHRASE, like=io.BytesIO(first), key_cache=cache
        )
        store.put(f"volume{i}", header + bytes(4096))
    before = time.process_time()
    luxor.VolumeCipher(io.BytesIO(first + bytes(4096)), passphrase=PASSPHRASE)
    one = time.process_time() - before
    fs = store.filesystem()
    before = time.process_time()
    for i in range(8):
        fs.open(store.url(f"volume{i}")).close()
    assert time.process_time() - before < 4 * one


# ---- A server that fails.


def is_head(request: Request) -> bool:
    return request.method == "HEAD"


def is_get(request: Request) -> bool:
    return request.method == "GET"


def test_a_busy_server_is_asked_again(
    bucket: Bucket, faulty_s3: FaultyS3
) -> None:
    store = s3_store(faulty_s3.bucket, writer=bucket)
    url = store.put("volume", volume_of("luks2"))
    fs = store.filesystem()
    for status in (503, 500):
        for is_it in (is_head, is_get):
            faulty_s3.clear()
            fault = faulty_s3.add(Fault(is_it, times=2, status=status))
            assert fs.cat_file(url) == PLAIN
            assert fault.met == 2


@pytest.mark.parametrize("bytes_before", [0, 1, 5000, SIZE // 2])
def test_an_answer_that_is_cut_off_yields_no_short_data(
    bucket: Bucket, faulty_s3: FaultyS3, bytes_before: int
) -> None:
    store = s3_store(faulty_s3.bucket, writer=bucket)
    store.put("volume", volume_of("luks2"))
    with store.open("volume", cache_type="none") as file:
        faulty_s3.clear()
        fault = faulty_s3.add(Fault(times=2, cut_response=bytes_before))
        assert file.read_at(SIZE, 0) == PLAIN
        assert fault.met == 2 and len(faulty_s3.requests) == 3
        # One that never succeeds is an error.
        file.fs.fs.retries = 2
        faulty_s3.add(Fault(times=1000, cut_response=bytes_before))
        with pytest.raises(Exception) as raised:
            file.read_at(SIZE, 0)
        assert not isinstance(raised.value, AssertionError)
        faulty_s3.clear()
        assert file.read() == PLAIN
    # The header as well.
    faulty_s3.add(Fault(is_get, cut_response=bytes_before))
    with store.open("volume") as file:
        assert file.read() == PLAIN


def test_a_slow_answer_to_one_range_does_not_hold_up_the_others(
    bucket: Bucket, faulty_s3: FaultyS3
) -> None:
    store = s3_store(faulty_s3.bucket, writer=bucket)
    url = store.put("volume", volume_of("luks2"))
    fs = store.filesystem()
    fs.cat_file(url, 0, 1)
    faulty_s3.clear()
    others = threading.Barrier(4)
    # The first range is answered when the other three have been asked for.
    faulty_s3.add(Fault(is_get, times=4, call=lambda _: others.wait(10)))
    starts = [0, 10_000, 20_000, 30_000]
    assert fs.cat_ranges([url] * 4, starts, [s + 5 for s in starts]) == [
        PLAIN[s : s + 5] for s in starts
    ]
    assert not others.broken


def test_a_server_that_crashes_is_an_error_until_it_is_back(
    s3_server: S3Server, bucket: Bucket
) -> None:
    store = s3_store(bucket)
    store.put("volume", volume_of("luks2"))
    # The client gives up soon.
    store.options["s3"] = {**bucket.options, "config_kwargs": {"retries": {"max_attempts": 0}}}
    with store.open("volume", cache_type="none") as file:
        assert file.read(10) == PLAIN[:10]
        file.fs.fs.retries = 2
        s3_server.kill()
        try:
            with pytest.raises(Exception) as raised:
                file.read(10)
            assert not isinstance(raised.value, AssertionError)
        finally:
            s3_server.start()
        assert file.read() == PLAIN[10:]
