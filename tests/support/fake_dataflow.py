"""The part of Dataflow's REST interface that submits a job and asks for its state, on loopback."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JOB_ID = "2026-01-02_03_04_05-678"


@dataclass
class FakeDataflow:
    """Attributes: the port, and every request so far as method, path and body."""

    port: int = 0
    requests: list[tuple[str, str, bytes]] = field(default_factory=list)

    @property
    def flags(self) -> tuple[str, ...]:
        """The options of Beam that lead there; only the name localhost selects REST."""
        return (
            f"--dataflow_endpoint=http://localhost:{self.port}",
            "--no_auth",
            "--project=project",
            "--region=europe-west4",
            "--temp_location=gs://bucket/temp",
        )

    def submitted(self) -> list[dict[str, Any]]:
        """The jobs submitted so far."""
        return [json.loads(body) for method, path, body in self.requests if method == "POST" and path.endswith("/jobs")]


@contextmanager
def fake_dataflow() -> Iterator[FakeDataflow]:
    fake = FakeDataflow()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            fake.requests.append((self.command, self.path.partition("?")[0], body))
            job = {"id": JOB_ID, "projectId": "project", "location": "europe-west4", "name": "job"}
            data = json.dumps(job | {"currentState": "JOB_STATE_DONE", "type": "JOB_TYPE_BATCH"}).encode()
            if self.path.partition("?")[0].endswith("messages"):
                data = b"{}"
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = answer  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
