# SPDX-License-Identifier: MIT OR Apache-2.0
"""A real S3 server for the tests, and a proxy that disturbs and counts the requests to it."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import s3fs

#: The environment variable with the path of the server's program, which `cargo xtask` builds.
PROGRAM = "LUXOR_TEST_S3_SERVER"

#: The default region, us-east-1, is no place that a client can make a bucket in by name.
REGION = "eu-central-1"

#: How long anything on this machine may take, in seconds.
PATIENCE = 60.0


class S3Server:
    """versitygw, whose buckets are folders and whose objects are files."""

    def __init__(self, folder: Path) -> None:
        program = os.environ.get(PROGRAM)
        if not program or not os.access(program, os.X_OK):
            raise RuntimeError(
                f"{PROGRAM} is not the path of versitygw ({program!r}): "
                "run the tests with `cargo xtask test python`"
            )
        self._program = program
        self._log = folder / "log"
        self._objects = folder / "objects"
        self._objects.mkdir(parents=True)
        self._storage = [str(self._objects)]
        try:
            os.setxattr(folder, "user.luxor", b"")
        except OSError:
            # ETags and other metadata are extended attributes where the file system has them.
            (folder / "metadata").mkdir()
            self._storage[:0] = ["--sidecar", str(folder / "metadata")]
        self.key = secrets.token_hex(8)
        self.secret = secrets.token_hex(16)
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        # Another program may take the port before the server does.
        for _ in range(5):
            self.port = _free_port()
            with contextlib.suppress(RuntimeError):
                return self.start()
        self.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server, and wait until it answers. Its port and objects stay the same."""
        assert self._process is None
        access = {"ROOT_ACCESS_KEY": self.key, "ROOT_SECRET_KEY": self.secret}
        own = {name: value for name, value in os.environ.items() if not name.startswith("VGW_")}
        address = ["--port", f"127.0.0.1:{self.port}", "--region", REGION]
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [self._program, *address, "posix", *self._storage],
                env={**own, **access},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # The interrupt of a terminal ends the tests, and they stop the server.
                start_new_session=True,
            )
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"versitygw does not answer: {self._log.read_text()[-2000:]}")
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            # An unsigned request is refused, by this server and not by another one on the port.
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(self.endpoint)
        except urllib.error.HTTPError as error:
            return error.code == 403 and b"AccessDenied" in error.read()
        except OSError:
            pass
        return False

    def stop(self) -> None:
        """End the server as a service manager does."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server at once, as a crash does."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._process = None

    def options(self, endpoint: str | None = None) -> dict[str, Any]:
        """Return the options of s3fs for this server, or for a proxy in front of it."""
        return {
            "key": self.key,
            "secret": self.secret,
            "client_kwargs": {"endpoint_url": endpoint or self.endpoint, "region_name": REGION},
        }

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment variables that lead to this server."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_DEFAULT_REGION": REGION,
        }

    @functools.cached_property
    def client(self) -> Any:
        """A file system of s3fs whose caches no test shares. Making one takes a while."""
        return s3fs.S3FileSystem(**self.options(), skip_instance_cache=True)

    def bucket(self) -> Bucket:
        """Make a new bucket."""
        bucket = Bucket(f"bucket-{secrets.token_hex(6)}", self.options(), self.client)
        bucket.fs.mkdir(bucket.name)
        return bucket


class Bucket:
    """A bucket, as clients with these options of s3fs see it."""

    def __init__(self, name: str, options: dict[str, Any], fs: Any = None) -> None:
        self.name = name
        self.options = options
        #: A client that is not the one of `fsspec.open` with the same options.
        self.fs = fs or s3fs.S3FileSystem(**options, skip_instance_cache=True)

    def path(self, name: str) -> str:
        """Return the path of an object for `fs`."""
        return f"{self.name}/{name}"

    def url(self, name: str) -> str:
        return f"s3://{self.name}/{name}"

    def put(self, name: str, data: bytes) -> str:
        """Write an object, and return its URL."""
        self.fs.pipe_file(self.path(name), data)
        return self.url(name)


@dataclass
class Request:
    """A request to the server, and what became of it."""

    method: str
    #: The bucket and the object, without the query.
    path: str
    query: dict[str, str]
    #: The names are in lower case.
    headers: dict[str, str]
    #: The status that the client got, or 0 if it got none.
    status: int = 0

    @property
    def range(self) -> tuple[int, int] | None:
        """The first byte that was asked for, and the byte after the last one."""
        text = self.headers.get("range", "")
        first, dash, last = text.removeprefix("bytes=").partition("-")
        return (int(first), int(last) + 1) if first and dash and last else None

    @property
    def part(self) -> int | None:
        """The number of the part of a multipart upload."""
        number = self.query.get("partNumber")
        return None if number is None else int(number)


@dataclass
class Fault:
    """What happens to the next `times` requests for which `when` is true."""

    when: Callable[[Request], bool] = lambda _: True
    times: int = 1
    #: Called first. The request goes on when it returns.
    call: Callable[[Request], object] | None = None
    #: Wait this many seconds before the request goes on.
    delay: float = 0.0
    #: Answer with this status in place of the server.
    status: int | None = None
    #: Close both connections after this many bytes of the body that the client sends.
    cut_request: int | None = None
    #: Close both connections after this many bytes of the body that the server sends.
    cut_response: int | None = None
    #: How many requests it has met.
    met: int = field(default=0, init=False)


class Proxy:
    """An HTTP proxy in front of one server. It records the requests, and disturbs some of them.

    Clients use its `endpoint` as that of the server. The server accepts their signatures, because
    the header Host, which they sign, stays as it is. Each connection carries one request.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._faults: list[Fault] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        # Unlike `close`, this ends an `accept` that waits.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def add(self, fault: Fault) -> Fault:
        """Disturb coming requests. Of several faults that fit a request, the oldest is chosen."""
        with self._lock:
            self._faults.append(fault)
        return fault

    @property
    def requests(self) -> list[Request]:
        """All requests since the last `clear`, also those that were disturbed."""
        with self._lock:
            return list(self._requests)

    def clear(self) -> None:
        """Forget the requests and the faults."""
        with self._lock:
            self._requests.clear()
            self._faults.clear()

    def methods(self) -> list[str]:
        """Return the methods of the requests, in their order."""
        return [request.method for request in self.requests]

    def counts(self) -> Counter[tuple[str, str, tuple[int, int] | int | None]]:
        """Count the requests by their method, their path, and their range or part."""
        return Counter((r.method, r.path, r.range or r.part) for r in self.requests)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        # A client that goes away, and a server that is down, end the connection.
        with client, contextlib.suppress(OSError, EOFError):
            client.settimeout(PATIENCE)
            self._serve_one(client)

    def _serve_one(self, client: socket.socket) -> None:
        head, rest = _read_head(client)
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        url = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        path = urllib.parse.unquote(url.path).lstrip("/")
        request = Request(method, path, query, headers)
        fault = self._record(request)
        if fault.call is not None:
            fault.call(request)
        time.sleep(fault.delay)
        if headers.get("expect", "").lower() == "100-continue":
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if fault.status is not None:
            # The client may not read the answer before it has sent everything.
            for _data in _body(client, headers, rest):
                pass
            client.sendall(_answer(fault.status))
            request.status = fault.status
            return
        with socket.create_connection(("127.0.0.1", self._port), PATIENCE) as server:
            left_out = ("connection:", "expect:", "keep-alive:")
            kept = [line for line in lines if not line.lower().startswith(left_out)]
            kept.append("Connection: close")
            server.sendall("\r\n".join([first, *kept, "", ""]).encode("latin-1"))
            if _relay(_body(client, headers, rest), server, fault.cut_request):
                return
            head, rest = _read_head(server)
            status = int(head.split(b" ", 2)[1])
            while status == 100:
                head, rest = _read_head(server, rest)
                status = int(head.split(b" ", 2)[1])
            client.sendall(head + b"\r\n\r\n")
            if not _relay(_to_the_end(server, rest), client, fault.cut_response):
                request.status = status

    def _record(self, request: Request) -> Fault:
        with self._lock:
            self._requests.append(request)
            for fault in self._faults:
                if fault.met < fault.times and fault.when(request):
                    fault.met += 1
                    return fault
        return Fault()


class FaultyS3(Proxy):
    """A proxy, and a bucket whose clients use it."""

    def __init__(self, server: S3Server, bucket: Bucket) -> None:
        super().__init__(server.port)
        self._bucket = (bucket.name, server.options(self.endpoint))

    @functools.cached_property
    def bucket(self) -> Bucket:
        return Bucket(*self._bucket)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _read_head(connection: socket.socket, data: bytes = b"") -> tuple[bytes, bytes]:
    """Return the first line and the headers, and the bytes of the body that came with them."""
    while b"\r\n\r\n" not in data:
        data += _receive(connection)
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _receive(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 16)
    if not data:
        raise EOFError
    return data


def _body(connection: socket.socket, headers: dict[str, str], data: bytes) -> Any:
    """Yield the body of a request as it is sent. `data` are its first bytes."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        yield data
        # No client of the tests sends headers after the last chunk.
        end = data[-5:]
        while not end.endswith(b"0\r\n\r\n"):
            data = _receive(connection)
            end = (end + data)[-5:]
            yield data
        return
    left = int(headers.get("content-length", "0"))
    while left > 0:
        data = data or _receive(connection)
        left -= len(data)
        yield data
        data = b""


def _to_the_end(connection: socket.socket, data: bytes) -> Any:
    yield data
    while data := connection.recv(1 << 16):
        yield data


def _relay(pieces: Any, to: socket.socket, cut: int | None) -> bool:
    """Send the pieces of a body. Return whether it was cut."""
    if cut == 0:
        return True
    for data in pieces:
        if cut is not None and len(data) >= cut:
            to.sendall(data[:cut])
            return True
        to.sendall(data)
        if cut is not None:
            cut -= len(data)
    return False


def _answer(status: int) -> bytes:
    code = {400: "ExpiredToken", 500: "InternalError", 503: "SlowDown"}.get(status, "Fault")
    body = f"<Error><Code>{code}</Code><Message>A fault of the tests</Message></Error>".encode()
    head = f"HTTP/1.1 {status} Fault\r\nContent-Type: application/xml\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
