"""A registry of schemas for tests, in this process: the part of Confluent's REST API that clients of formats use."""

import base64
import contextlib
import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Registry:
    """Numbers and schemas; a schema that a subject has already keeps its number.

    Attributes
    ----------
    asked : list of str
        Method and path of each request.
    fails : list of int
        Answers of the next requests, such as 503.
    user : str, optional
        ``user:password`` that has to be said.
    refuses : bool
        No schema of a subject fits those before it.
    """

    def __init__(self):
        self.schemas, self.subjects = [], {}
        self.asked, self.fails, self.user, self.refuses = [], [], None, False
        self.url = None

    def add(self, subject, schema, kind="AVRO", references=()):
        """Know a schema. Return its number."""
        known = {"schema": schema, "schemaType": kind, "references": list(references)}
        if known not in self.schemas:
            self.schemas.append(known)
        versions = self.subjects.setdefault(subject, [])
        if known not in versions:
            versions.append(known)
        return self.schemas.index(known) + 1

    def answer(self, method, path, body):
        parts = [urllib.parse.unquote(each) for each in path.split("/")[1:]]
        if parts[:2] == ["schemas", "ids"]:
            number = int(parts[2])
            if not 1 <= number <= len(self.schemas):
                return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
            return 200, self.schemas[number - 1]
        if method == "POST":
            if self.refuses:
                return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
            return 200, {"id": self.add(parts[1], json.loads(body)["schema"])}
        return 200, self.subjects[parts[1]][int(parts[3]) - 1]


@contextlib.contextmanager
def running_registry():
    """A registry; ``registry.url`` is where it is."""
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def _do(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            registry.asked.append(f"{self.command} {self.path}")
            said = self.headers.get("Authorization")
            if registry.fails:
                code, answer = registry.fails.pop(0), {"message": "not now"}
            elif registry.user is not None and said != f"Basic {base64.b64encode(registry.user.encode()).decode()}":
                code, answer = 401, {"message": "Unauthorized"}
            else:
                code, answer = registry.answer(self.command, self.path, body)
            data = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _do

        def log_message(self, *arguments):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        registry.url = f"http://127.0.0.1:{server.server_port}"
        yield registry
        server.shutdown()
        thread.join()
