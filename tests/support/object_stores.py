"""Object stores on loopback: moto for S3 and an emulator of Google Cloud Storage, each behind a proxy.

The proxy counts requests and the bytes they ask for, makes some fail, and adds what the emulator lacks: that an object
is put only if there is none of its name.
"""

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import fsspec

BUCKET = "bucket"


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    sent: int


@dataclass
class Proxy:
    """What passes between a client and a store.

    Attributes:
        requests: All so far.
        failing: Patterns of `METHOD /path` and the start of the body, which names the object in uploads to Google, each
            with how many more such requests are answered with 503.
        seconds: What each answer is kept back.
        inside: Requests that are being answered.
        most_inside: The most that ever were at once.
    """

    target: int
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    failing: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    inside: int = 0
    most_inside: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def reset(self) -> None:
        """Forgets what passed, and answers everything at once."""
        self.requests.clear()
        self.failing.clear()
        self.seconds, self.most_inside = 0.0, 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts a request as being answered while the block runs."""
        with self.lock:
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
        try:
            time.sleep(self.seconds)
            yield
        finally:
            with self.lock:
                self.inside -= 1

    def fails(self, method: str, path: str, body: bytes) -> bool:
        with self.lock:
            for pattern, left in self.failing.items():
                if left > 0 and re.search(pattern, f"{method} {path} {body[:300]!r}"):
                    self.failing[pattern] = left - 1
                    return True
            return False

    def forward(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any, bytes]:
        connection = HTTPConnection("127.0.0.1", self.target, timeout=60)
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any, bytes]:
        if self.fails(method, path, body):
            return 503, {}, b"SlowDown"
        name = _name_if_absent(path, body)
        if name is None:
            return self.forward(method, path, headers, body)
        with self.lock:
            status, _, _ = self.forward("GET", f"/storage/v1/b/{BUCKET}/o/{quote(name, safe='')}", {}, b"")
            if status == 200:
                return 412, {}, b'{"error": {"code": 412, "message": "conditionNotMet"}}'
            return self.forward(method, path, headers, body)


def _name_if_absent(path: str, body: bytes) -> str | None:
    """The object that an upload to Google Cloud Storage may make but not replace."""
    query = parse_qs(urlsplit(path).query)
    if query.get("ifGenerationMatch") != ["0"]:
        return None
    if "name" in query:
        return query["name"][0]
    found = re.search(rb'"name": *("(?:[^"\\]|\\.)*")', body)
    assert found, body[:200]
    name = json.loads(found[1])
    assert isinstance(name, str)
    return name


@contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    proxy = Proxy(port)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            if self.headers.get("Expect") == "100-continue":
                self.send_response_only(100)
                self.end_headers()
            body = self._body()
            headers = {key: value for key, value in self.headers.items() if key.lower() not in _HOP_BY_HOP}
            with proxy.counted():
                status, answered, data = proxy.answer(self.command, self.path, headers, body)
            proxy.requests.append(Request(self.command, self.path, len(data)))
            self.send_response_only(status)
            for key, value in answered.items():
                if key.lower() not in _HOP_BY_HOP:
                    self.send_header(key, value.replace(str(proxy.target), str(proxy.port)))
            length = answered.get("Content-Length", "0") if self.command == "HEAD" else str(len(data))
            self.send_header("Content-Length", length)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = answer  # noqa: N815

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()


_HOP_BY_HOP = {"connection", "content-length", "expect", "transfer-encoding", "date", "server"}


@contextmanager
def s3_store() -> Iterator[tuple[Proxy, dict[str, str]]]:
    """An S3 store with a bucket, and the environment in which clients find it."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        with proxy_to(port) as proxy:
            proxy.forward("PUT", f"/{BUCKET}", {"Host": f"127.0.0.1:{proxy.port}"}, b"")
            yield (
                proxy,
                {
                    "AWS_ENDPOINT_URL": proxy.url,
                    "AWS_ACCESS_KEY_ID": "the-key-id",
                    "AWS_SECRET_ACCESS_KEY": "the-secret-key",
                    "AWS_DEFAULT_REGION": "us-east-1",
                },
            )
    finally:
        server.stop()


@contextmanager
def gcs_store() -> Iterator[tuple[Proxy, dict[str, str]]]:
    """A Google Cloud Storage store with a bucket, and the environment in which clients find it."""
    from gcp_storage_emulator.server import create_server  # noqa: PLC0415

    server = create_server("127.0.0.1", 0, in_memory=True, default_bucket=BUCKET)
    server.start()
    try:
        with proxy_to(server._api._httpd.server_port) as proxy:
            yield proxy, {"STORAGE_EMULATOR_HOST": proxy.url}
    finally:
        server.stop()


STORES = {"s3": s3_store, "gs": gcs_store}


@contextmanager
def own_clients(kind: str) -> Iterator[None]:
    """Clients made in the block end with it, and none from before is used, since each knows the port of its store."""
    clients = fsspec.get_filesystem_class(kind)
    clients.clear_instance_cache()
    try:
        yield
    finally:
        clients.clear_instance_cache()


@contextmanager
def store_process(kind: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """A store in a process of its own, so that forked processes of a test inherit none of its connections."""
    command = [sys.executable, "-m", "support.object_stores", kind]
    with (
        own_clients(kind),
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process,
    ):
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


if __name__ == "__main__":
    with STORES[sys.argv[1]]() as (_, environment):
        print(json.dumps(environment), flush=True)
        sys.stdin.read()
