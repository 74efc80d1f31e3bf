"""``python -m flinkbuf top [URL]``: a running job in the terminal, drawn every second."""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from getpass import getpass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from shutil import get_terminal_size
from typing import Final
from urllib.parse import parse_qs, urlsplit

from flinkbuf.commands.output import say
from flinkbuf.log import printable
from flinkbuf.private_files import read_secret
from flinkbuf.runtime.picture.answers import Picture
from flinkbuf.runtime.picture.plain_words import lasting_text
from flinkbuf.runtime.picture.top_view import TopView, rich_of, text_of, view_of

DEFAULT_URL: Final = "http://127.0.0.1:8081"  # Flink's port
TIMEOUT_S: Final = 5.0
INTERVAL_S: Final = 1.0
SIZE_MAX: Final = 64 << 20  # of a picture, in bytes
ENDED: Final = ("FINISHED", "FAILED", "CANCELED", "SUSPENDED")
TOKEN_VARIABLE: Final = "FLINKBUF_REST_TOKEN"
_EPILOG: Final = f"""URL is where the program serves its jobs, with #/job/ID for one of several. Without it:
{DEFAULT_URL}, for programs with rest.port set to 8081. Whoever runs the program needs no token on its machine. Others
give the one of its link, or of its rest.token-file, by --token-file, in the variable {TOKEN_VARIABLE}, or when they are
asked. Ctrl-C ends it, and leaves the job alone."""
_SEEN: Final = f"""a token on a command line is seen by every user of this machine (ps). Give the link without
'?token=…': on the machine of the program its user needs none. Others: --token-file FILE (mode 600), the variable
{TOKEN_VARIABLE}, or wait to be asked for it"""


class NoPictureError(Exception):
    """The server gives no picture of a job, and why."""


class TokenNeededError(NoPictureError):
    """The server wants a token, or another one."""


def add_arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("url", metavar="URL", nargs="?", default=DEFAULT_URL, help=f"default: {DEFAULT_URL}")
    parser.add_argument("--once", action="store_true", help="draw one picture and end")
    parser.add_argument("--json", action="store_true", help="print pictures as JSON, one a line, for tools")
    parser.add_argument("--token-file", metavar="FILE", help="mode 600; its first line is the token")
    parser.epilog = _EPILOG


def main(options: Namespace) -> int:
    """Draw until the job is over, or Ctrl-C; return the exit code."""
    try:
        token = read_secret(options.token_file) if options.token_file else os.environ.get(TOKEN_VARIABLE, "")
        ask = PictureClient(options.url, token)
        try:
            first = ask()
        except TokenNeededError:
            if not sys.stdin.isatty():
                raise
            ask = PictureClient(options.url, getpass("Token, as it stands in the link: "))
            first = ask()
    except (NoPictureError, OSError, ValueError) as error:
        say(f"flinkbuf top: {error}", file=sys.stderr)
        return 1
    draw, screen = (_draw_json, nullcontext()) if options.json else _drawing(is_live=not options.once)
    try:
        with screen:
            draw(first, "")
            if not options.once:
                _follow(ask, first, draw)
    except TokenNeededError as error:
        say(f"flinkbuf top: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    finally:
        ask.close()
    return 0


class PictureClient:
    """Gets a job's newest picture when it is called, over one connection.

    A token goes to whom it was sent first. When that connection ends, somebody else may listen at the port by then:
    from then on it is asked without, which is enough for the user of the program.

    Parameters
    ----------
    url : str
        Where jobs are served, with the job's id behind ``#/job/``; ``http://`` may be left out.
    token : str, optional

    Raises
    ------
    ValueError
        It is no address, or has a token in it.
    """

    def __init__(self, url: str, token: str = "") -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address such as {DEFAULT_URL}")
        if parts.password or "token" in parse_qs(parts.query):
            raise ValueError(_SEEN)
        self.address = f"{parts.scheme}://{parts.netloc}"
        job_id = parts.fragment.removeprefix("/job/").strip("/")
        self._path = parts.path.rstrip("/") + (f"/jobs/{job_id}/picture" if job_id else "/picture") + "?subtasks=0"
        self._token = token
        made = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection: HTTPConnection = made(parts.hostname, parts.port, timeout=TIMEOUT_S)
        self._has_met = self._has_lost_it = False

    def __call__(self) -> Picture:
        """Return it.

        Raises
        ------
        NoPictureError
            There is none.
        """
        status, data = self._answer()
        if status == 401:
            again = "; the connection that the token was sent to has ended: begin again" if self._has_lost_it else ""
            raise TokenNeededError(_said_by(status, data) + again)
        if status != 200:
            raise NoPictureError(_said_by(status, data))
        try:
            made: Picture = json.loads(data)
            view_of(made)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise NoPictureError(
                f"{self.address} does not serve jobs of flinkbuf: it gave no picture of one"
            ) from error
        return made

    def close(self) -> None:
        """End the connection; again: nothing."""
        self._connection.close()

    def _answer(self) -> tuple[int, bytes]:
        """Ask; once more where the server has ended a connection that it kept."""
        while True:
            is_new = self._connection.sock is None
            if is_new and self._has_met and self._token:
                self._token, self._has_lost_it = "", True
            try:
                if is_new:
                    self._connection.connect()
                    self._has_met = True
                headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
                self._connection.request("GET", self._path, headers=headers)
                answer = self._connection.getresponse()
                return answer.status, answer.read(SIZE_MAX + 1)
            except (HTTPException, OSError) as error:
                self._connection.close()
                if is_new:
                    raise NoPictureError(
                        f"no program serves a job at {self.address} ({error}); give the address that the program "
                        "printed, or set rest.port in the program"
                    ) from error


def _shown(value: object) -> object:
    """A picture without anything that would command the terminal."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_shown(each) for each in value]
    return {printable(key): _shown(each) for key, each in value.items()} if isinstance(value, dict) else value


def _said_by(status: int, data: bytes) -> str:
    try:
        return "; ".join(json.loads(data[: 1 << 16])["errors"])
    except (ValueError, LookupError, TypeError):
        return f"the server answered {status}"


_Draw = Callable[[Picture, str], None]  # a picture, and what is to be said below it


def _drawing(*, is_live: bool) -> tuple[_Draw, AbstractContextManager[object]]:
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
        return lambda picture, note: console.print(rich_of(_view(picture, console.width))), nullcontext()
    live = Live(console=console, auto_refresh=False, screen=False, vertical_overflow="crop")

    def draw(picture: Picture, note: str) -> None:
        from rich.console import Group

        shown = rich_of(_view(picture, console.width))
        live.update(Group(shown, Text(note, "bold red")) if note else shown, refresh=True)

    return draw, live


def _view(picture: Picture, width: int) -> TopView:
    return view_of({key: _shown(each) for key, each in picture.items()}, width)


def _draw_plain(picture: Picture, note: str) -> None:
    width = get_terminal_size((80, 24)).columns
    print(text_of(_view(picture, width)) + (note + "\n" if note else ""), flush=True)


def _draw_json(picture: Picture, note: str) -> None:
    """All of it, as the server has given it; what commands a terminal is escaped in JSON."""
    if note:
        say(f"flinkbuf top: {note}", file=sys.stderr)
    else:
        print(json.dumps(picture), flush=True)


def _follow(
    ask: Callable[[], Picture], picture: Picture, draw: _Draw, wait: Callable[[float], None] = time.sleep
) -> None:
    """Draw until the job is over."""
    heard = time.monotonic()
    while picture["state"] not in ENDED:
        wait(INTERVAL_S)
        try:
            picture, note, heard = ask(), "", time.monotonic()
        except TokenNeededError:
            raise
        except NoPictureError:
            note = f"connection lost: what you see is {lasting_text((time.monotonic() - heard) * 1000)} old"
        draw(picture, note)
