"""What the documentation's examples call and read: a weather server on this machine, and a few real flights."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

FLIGHTS = [
    ("EWR", "2013-01-01T10:00:00Z", "UA", 1545, 2.0),
    ("LGA", "2013-01-01T10:00:00Z", "UA", 1714, 4.0),
    ("JFK", "2013-01-01T10:00:00Z", "AA", 1141, 2.0),
    ("JFK", "2013-01-01T10:00:00Z", "B6", 725, -1.0),
    ("LGA", "2013-01-01T11:00:00Z", "DL", 461, -6.0),
    ("EWR", "2013-01-01T10:00:00Z", "UA", 1696, -4.0),
]
FLIGHT_SCHEMA = "origin string, time_hour string, carrier string, flight int, dep_delay double"
WEATHER = {"EWR": [39.02, 12.66], "JFK": [39.02, 14.96], "LGA": [39.92, 14.96]}  # °F, miles an hour


class Answer(BaseHTTPRequestHandler):
    """Answers /<origin>/<hour>."""

    def do_GET(self):
        origin = self.path.split("/")[1]
        body = json.dumps(WEATHER.get(origin)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """Say nothing."""


class WeatherServer:
    """Listens from its making to `close`; `url` is where."""

    def __init__(self):
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
