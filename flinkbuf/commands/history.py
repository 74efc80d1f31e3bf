"""``python -m flinkbuf history DIR``: jobs that have ended, in the page that shows running ones."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from flinkbuf.commands.output import say
from flinkbuf.private_files import read_secret


def add_arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("directory", metavar="DIR", help="what jobmanager.archive.fs.dir was set to")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--token-file", metavar="FILE", help="mode 600; its first line lets tools and other users in")
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
        token = None if options.token_file is None else read_secret(options.token_file)
        server = JobServer(options.bind_address, (options.port,), token, history.answer)
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        say(f"flinkbuf history: {error}", file=sys.stderr)
        return 1
    try:
        link = server.address + "/" if server.is_local else f"{server.address}/?token={server.token}"
        say(f"{options.directory} can be looked at: {link}")
        server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        server.close()
    print("flinkbuf history: its server has failed", file=sys.stderr)
    return 1
