"""Serves the page with a picture that a test made: what it draws can be tested without a job."""

from __future__ import annotations

import json
import mimetypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import flinkbuf
from flinkbuf.runtime.picture.answers import answers_of, illness_of

STATIC = Path(flinkbuf.__file__).parent / "web" / "static"
POLICY = "default-src 'self'"  # stricter than the real server's: the page needs no more


class PageServer(ThreadingHTTPServer):
    """`picture`, `flame`, `answers` and `status` may be changed at any time; `asked` are what changed something."""

    daemon_threads = True

    def __init__(self, picture: dict[str, Any] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.picture = picture
        self.flame: dict[str, Any] = {"endTimestamp": -3}
        self.jobs: list[dict[str, Any]] = []
        self.answers: dict[str, Any] = {}  # by path, what else is asked for: texts, or what becomes JSON
        self.missing = ""  # a path
        self.status = 200
        self.error = "Job is not known here."  # of another status
        self.paths: list[str] = []  # that were looked at
        self.asked: list[tuple[str, str, str | None, Any]] = []

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nobody reads it."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.paths.append(self.path)
        if path == "/" or path.startswith("/static/"):
            file = STATIC / (path.removeprefix("/static/") if path != "/" else "index.html")
            self._give(
                200, file.read_bytes(), "text/javascript" if file.suffix == ".js" else mimetypes.guess_type(file)[0]
            )
        elif self.server.status != 200:
            self._json(self.server.status, {"errors": [self.server.error]})
        elif path == self.server.missing:
            self._json(404, {"errors": ["That is not there any more."]})
        elif isinstance(found := self.server.answers.get(path), str):
            self._give(200, found.encode(), "text/plain; charset=UTF-8")
        elif found is not None:
            self._json(200, found)
        elif path.endswith("/flamegraph"):
            self._json(200, self.server.flame)
        elif path.endswith("/picture"):
            self._json(200, with_answers(self.server.picture or {}))
        else:
            self._json(200, {"jobs": self.server.jobs})

    def _change(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        given = self.headers.get("Authorization")
        self.server.asked.append((self.command, self.path, given, json.loads(body or b"null")))
        if given != "Bearer secret":
            self._json(401, {"errors": ["A token is needed."]})
        else:
            self._json(202, {})

    do_POST = do_PATCH = _change

    def _json(self, status: int, value: Any) -> None:
        self._give(status, json.dumps(value).encode(), "application/json")

    def _give(self, status: int, data: bytes, kind: str | None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind or "application/octet-stream")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(data)


def with_answers(picture: dict[str, Any]) -> dict[str, Any]:
    """Return it as the job master would have given it."""
    managers = [{**each, "illness": illness_of(each)} for each in picture["taskmanagers"]]
    return {**picture, "taskmanagers": managers, "answers": answers_of(picture)}


@contextmanager
def page_server(picture: dict[str, Any] | None = None) -> Iterator[PageServer]:
    """Serve until the block ends."""
    server = PageServer(picture)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
