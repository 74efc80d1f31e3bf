"""``python -m flinkbuf history DIR``: jobs that have ended, in the page that shows running ones."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("directory", metavar="DIR", help="what jobmanager.archive.fs.dir was set to")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--bind-address", default="127.0.0.1", help="default: 127.0.0.1, this machine only")


def main(options: Namespace) -> int:
    """Serve until Ctrl-C; return the exit code."""
    try:
        from flinkbuf.web.history import JobHistory
        from flinkbuf.web.server import JobServer
    except ImportError:
        print("jobs are served with aiohttp, which is not installed: pip install 'flinkbuf[web]'", file=sys.stderr)
        return 1
    try:
        history = JobHistory(options.directory)
        server = JobServer(options.bind_address, (options.port,), respond=history.answer)
    except (OSError, OverflowError, RuntimeError) as error:
        print(f"flinkbuf history: {error}", file=sys.stderr)
        return 1
    try:
        link = server.address + "/" if server.is_local else f"{server.address}/?token={server.token}"
        print(f"{options.directory} can be looked at: {link}", flush=True)
        server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        server.close()
    print("flinkbuf history: its server has failed", file=sys.stderr)
    return 1
