"""A real S3 server as a process of its own: moto's, which keeps its objects in memory."""

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

BUCKET = "checkpoints"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "user", "AWS_SECRET_ACCESS_KEY": "hidden"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class S3Server:
    """Started by `running_s3_server`; `uri` names a directory of its bucket with all that pyarrow has to know."""

    def __init__(self, port):
        self.endpoint = f"127.0.0.1:{port}"

    def uri(self, directory):
        options = f"endpoint_override={self.endpoint}&scheme=http&region=us-east-1"
        return f"s3://{BUCKET}/{directory}?{options}"

    def request(self, method, path):
        request = urllib.request.Request(f"http://{self.endpoint}/{path}", method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read()


@contextlib.contextmanager
def running_s3_server():
    server = S3Server(free_port())
    host, _, port = server.endpoint.partition(":")
    command = [sys.executable, "-m", "moto.server", "-H", host, "-p", port]
    os.environ.update(CREDENTIALS)  # for this process and its children, from the first time they look
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                server.request("PUT", BUCKET)
                break
            except (urllib.error.URLError, ConnectionError):
                assert process.poll() is None and time.monotonic() < deadline, "the S3 server does not come up"
                time.sleep(0.05)
        yield server
    finally:
        process.kill()
        process.wait()
