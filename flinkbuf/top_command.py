"""``python -m flinkbuf top [URL]``: a running job in the terminal, drawn every second."""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from flinkbuf.jobs.master.plain_words import lasting_text
from flinkbuf.jobs.top_view import rich_of, text_of, view_of

DEFAULT_URL: Final = "http://127.0.0.1:8081"  # Flink's port
TIMEOUT_S: Final = 5.0
INTERVAL_S: Final = 1.0
SIZE_MAX: Final = 64 << 20  # of a picture, in bytes
ENDED: Final = ("FINISHED", "FAILED", "CANCELED", "SUSPENDED")
_EPILOG: Final = """URL is the link that the program printed, or where it serves its jobs. Without it: http://127.0.0.1:8081,
for programs with rest.port set to 8081. Ctrl-C ends it, and leaves the job alone."""


class NoPictureError(Exception):
    """There is none to be had, and why."""


def add_arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("url", metavar="URL", nargs="?", default=DEFAULT_URL, help=f"default: {DEFAULT_URL}")
    parser.add_argument("--once", action="store_true", help="draw one picture and end")
    parser.epilog = _EPILOG


def main(options: Namespace) -> int:
    """Draw until the job is over, or Ctrl-C; return the exit code."""
    try:
        ask = pictures_of(options.url)
        first = ask()
    except (NoPictureError, ValueError) as error:
        print(f"flinkbuf top: {error}", file=sys.stderr)
        return 1
    draw, screen = _drawing(is_live=not options.once)
    try:
        with screen:
            draw(first, "")
            if not options.once:
                _follow(ask, first, draw)
    except KeyboardInterrupt:
        pass
    return 0


def pictures_of(url: str) -> Callable[[], dict[str, Any]]:
    """Return what gets a job's newest picture.

    Parameters
    ----------
    url : str
        A job's link, or an address; ``http://`` may be left out.

    Raises
    ------
    ValueError
        It is no address.
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no address such as {DEFAULT_URL}")
    token = parse_qs(parts.query).get("token", [""])[0]
    job_id = parts.fragment.removeprefix("/job/").strip("/")
    path = f"/jobs/{job_id}/picture" if job_id else "/picture"
    address = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}{path}?subtasks=0"
    opener = build_opener(ProxyHandler({}))  # what serves a job is near

    def ask() -> dict[str, Any]:
        request = Request(address, headers={"Authorization": f"Bearer {token}"} if token else {})
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                data = answer.read(SIZE_MAX + 1)
        except HTTPError as error:
            raise NoPictureError(_said_by(error)) from error
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise NoPictureError(
                f"nobody serves a job at {parts.scheme}://{parts.netloc} ({reason}); give the link that the program "
                "printed, or set rest.port in the program"
            ) from error
        try:
            made: dict[str, Any] = json.loads(data)
            view_of(made)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise NoPictureError(
                f"{parts.netloc} does not serve jobs of flinkbuf: it gave no picture of one"
            ) from error
        return made

    return ask


def _said_by(error: HTTPError) -> str:
    try:
        return "; ".join(json.loads(error.read(1 << 16))["errors"])
    except (ValueError, LookupError, TypeError, OSError):
        return f"the server answered {error.code}"


_Draw = Callable[[dict[str, Any], str], None]  # a picture, and what is to be said below it


def _drawing(*, is_live: bool) -> tuple[_Draw, Any]:
    """What draws a picture, and what has to be open meanwhile."""
    try:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text
    except ImportError:
        return _draw_plain, nullcontext()
    if not sys.stdout.isatty():
        return _draw_plain, nullcontext()
    console = Console()
    if not is_live:
        return lambda picture, note: console.print(rich_of(view_of(picture))), nullcontext()
    live = Live(console=console, auto_refresh=False, screen=False, vertical_overflow="crop")

    def draw(picture: dict[str, Any], note: str) -> None:
        from rich.console import Group

        shown = rich_of(view_of(picture))
        live.update(Group(shown, Text(note, "bold red")) if note else shown, refresh=True)

    return draw, live


def _draw_plain(picture: dict[str, Any], note: str) -> None:
    print(text_of(view_of(picture)) + (note + "\n" if note else ""), flush=True)


def _follow(
    ask: Callable[[], dict[str, Any]], picture: dict[str, Any], draw: _Draw, wait: Callable[[float], None] = time.sleep
) -> None:
    """Draw until the job is over."""
    heard = time.monotonic()
    while picture["state"] not in ENDED:
        wait(INTERVAL_S)
        try:
            picture, note, heard = ask(), "", time.monotonic()
        except NoPictureError:
            note = f"connection lost: what you see is {lasting_text((time.monotonic() - heard) * 1000)} old"
        draw(picture, note)
