"""Answers HTTP on a thread of its own: it looks at pictures, and hands commands on; nobody waits for it.

Reading over the loopback is free for the user who runs the program, and for nobody else; whatever changes something
needs a token, since any web page could have that user's browser send it, and so does reading from elsewhere.

There are two tokens. The one that was configured is for tools, and holds as long as its owner likes. The one in links
is drawn for each server, and no other server takes it: the page sends it every second, also to somebody who listens at
the port when the program has died, and must not give away what is good for anything then. A proof of who listens,
before the token is sent, would do the same, but could be passed on to a server that is alive.

Flink: RestServerEndpoint, StaticFileServerHandler. Needs aiohttp.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hmac
import json
import logging
import mimetypes
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from aiohttp import web
from aiohttp.http import HttpProcessingError

from flinkbuf.log import RepeatedMessage, logger
from flinkbuf.runtime.manager.task_log import keep_log
from flinkbuf.web.connections import ConnectionLimits, Connections, HttpConnection
from flinkbuf.web.peers import is_loopback, is_own
from flinkbuf.web.router import VERSION, Answer, Cluster, Later, Request
from flinkbuf.web.routes import answer as answer_of
from flinkbuf.web.served_job import ServedJob

STATIC: Final = Path(__file__).parent / "static"
BODY_MAX: Final = 64 * 1024  # bytes of a request
ENDED_MAX: Final = 16  # jobs that have ended, whose last picture stays
CONNECTIONS_MAX: Final = 256  # at a time
PEER_CONNECTIONS_MAX: Final = 64  # of one user of this machine, or of one address; a browser has six
SILENCE_S: Final = 60.0  # of a connection, before it is hung up on
REQUEST_S: Final = 10.0  # for its headers to be whole, and for its body
UNSENT_MAX: Final = 64 << 20  # bytes of answers that wait for their clients to read them
INQUIRY_S: Final = 10.0  # for a task manager to say what it was asked for
START_WAIT_S: Final = 10.0
CLOSE_WAIT_S: Final = 10.0  # what is being answered is made to its end
_SAFE: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",  # a token stands in the link
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:",
}
PIECE: Final = 1_000  # values of JSON that are written at once: some 0.1 ms
_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_STATIC_NAME = re.compile(r"[\w-][\w.-]*(?:/[\w-][\w.-]*)*")


class _ServerLogger(logging.Logger):
    """What aiohttp says: of requests that cannot be read, which anybody can send, the reason alone."""

    def __init__(self, unreadable: RepeatedMessage, failed: RepeatedMessage) -> None:
        super().__init__("flinkbuf")
        self._unreadable = unreadable
        self._failed = failed

    def exception(self, msg: object, *args: object, exc_info: object = True, **more: object) -> None:
        """Say it, unless the like of it was just said."""
        if isinstance(exc_info, HttpProcessingError):
            first = str(exc_info.message).strip().partition("\n")[0]
            self._unreadable("a request from %s cannot be read: %s", args[0] if args else "somebody", first[:200])
        else:
            self._failed(str(msg), *args, exc_info=exc_info)


class JobServer:
    """Serves jobs of this process.

    Parameters
    ----------
    bind_address : str, default "127.0.0.1"
    ports : iterable of int
        Tried one after the other; 0 is a free one.
    token : str, optional
        Who has it may change something, and may read from another machine and as another user. Without it only `token`
        of this server lets somebody do so.
    respond : callable, optional
        Given a `Request`, returns an `Answer`: for what is not a job of this process, such as an archive.

    Attributes
    ----------
    port : int
    token : str
        What links of this server bring along; drawn for it, and good for nothing when it has ended.

    Raises
    ------
    OSError
        None of the ports is free, or the address is not this machine's.
    RuntimeError
        It did not come to serve, for the reason that is the cause of this one; nothing of it is left.
    """

    def __init__(
        self,
        bind_address: str = "127.0.0.1",
        ports: range | tuple[int, ...] = (0,),
        token: str | None = None,
        respond: Callable[[Request], Answer | Later] | None = None,
    ) -> None:
        self.token = secrets.token_urlsafe(24)
        self._tokens = (token,) if token else ()
        self.cluster = Cluster()
        self._answer = respond or (lambda request: answer_of(request, self.cluster))
        self.bind_address = bind_address
        self._socket = _bound(bind_address, ports)
        self.port: int = self._socket.getsockname()[1]
        self.is_local = is_loopback(bind_address)
        self._unreadable = RepeatedMessage(logger.warning)
        self._failed = RepeatedMessage(logger.error)
        self._turn = asyncio.Lock()
        self._free_at = 0.0  # seconds of the clock that only goes on
        self._connections: Connections | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_up = threading.Event()  # or will never be
        self._is_closing = False
        self._failure: BaseException | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"job server {self.port}", daemon=True)
        keep_log(1)
        self._keeps_log = True
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:  # the system has no thread left
            self._failure = error
        else:
            if not self._is_up.wait(START_WAIT_S):
                self._failure = TimeoutError(f"it has not begun within {START_WAIT_S:g} s")
        if self._failure is not None:
            failure = self._failure
            raise RuntimeError(
                f"jobs are not served at {self.bind_address}, port {self.port}: {type(failure).__name__}: {failure}; "
                "rest.enabled: false runs them without"
            ) from failure

    # ---- jobs; any thread

    def add(self, job: ServedJob) -> None:
        """Serve one more."""
        with self._lock:
            ended = [id for id, each in self.cluster.jobs.items() if each.is_over]
            kept = {id: each for id, each in self.cluster.jobs.items() if id not in ended[: -(ENDED_MAX - 1)]}
            self.cluster.jobs = {**kept, job.picture.job_id: job}  # whoever goes through the former one goes on

    def link(self, job_id: str) -> str:
        """Return what leads to the page of a job, with the token."""
        return f"{self.address}/?token={quote(self.token)}#/job/{job_id}"

    @property
    def address(self) -> str:
        """Scheme, host and port."""
        host = self.bind_address
        if host in ("", "0.0.0.0", "::"):
            host = socket.getfqdn()
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether requests are answered; False after `close`, and if what answers them has failed."""
        return self._thread.is_alive() and self._failure is None and not self._is_closing

    def wait(self) -> None:
        """Wait until it answers nobody any more."""
        self._thread.join()

    def close(self) -> None:
        """End it; idempotent."""
        self._is_closing = True  # before the next line, so that a thread that is about to begin sees one of both
        loop, task = self._loop, self._task
        if loop is not None and task is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed already
                loop.call_soon_threadsafe(task.cancel)
        if self._thread.ident is not None:
            self._thread.join(CLOSE_WAIT_S)
            if self._thread.is_alive():
                logger.warning("the server of jobs at port %d has not ended in %g s", self.port, CLOSE_WAIT_S)
        self._socket.close()
        if self._keeps_log:
            self._keeps_log = False
            keep_log(-1)

    def forget_after_fork(self) -> None:
        """In a child: its thread is not there, and the port is the parent's."""
        self._socket.close()

    # ---- its own thread

    def _run(self) -> None:
        try:
            with contextlib.suppress(asyncio.CancelledError):
                asyncio.run(self._serve())
        except BaseException as error:
            if self._is_up.is_set():  # else whoever waits for its start hears of it
                logger.error("jobs are not served at port %d any more", self.port, exc_info=error)
            self._failure = error
        finally:
            self._socket.close()
            self._is_up.set()

    async def _serve(self) -> None:
        """Answer until it is cancelled."""
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        if self._is_closing:
            return
        application = web.Application(client_max_size=BODY_MAX)
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(
            application,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=0.5,
            logger=_ServerLogger(self._unreadable, self._failed),
        )
        await runner.setup()
        assert runner.server is not None
        limits = ConnectionLimits(CONNECTIONS_MAX, PEER_CONNECTIONS_MAX, SILENCE_S, REQUEST_S)
        self._connections = Connections(runner.server, limits)
        listening: asyncio.Server | None = None
        try:
            listening = await self._loop.create_server(self._connections, sock=self._socket)
            self._is_up.set()
            await asyncio.Event().wait()
        finally:
            # asyncio leaves a connection open that it has accepted when its server is closed: let it make those first.
            with contextlib.suppress(ValueError):  # whoever closes it has not waited so long
                self._loop.remove_reader(self._socket)
            for _ in range(4):
                await asyncio.sleep(0)
            if listening is not None:
                listening.close()
            await runner.cleanup()
            self._connections.abort()  # who does not read would stay
            await asyncio.sleep(0)  # for sockets to be closed
            self._unreadable.close()
            self._failed.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        assert self._connections is not None
        connection = self._connections.of(request.transport)
        if connection is None:
            return _response(Answer("", 400))  # nobody hears it any more
        connection.begin()
        try:
            refusal = self._refusal(request, connection.user)
            response = await self._respond(request, connection) if refusal is None else _response(refusal)
        except Exception as error:
            self._failed("answering %s %s has failed", request.method, request.path, exc_info=error)
            response = _response(Answer({"errors": ["Internal server error."]}, 500))
        finally:
            connection.end()
        response.headers.update(_SAFE)
        return response

    def _refusal(self, request: web.Request, user: int | None) -> Answer | None:
        """Why somebody gets no answer; None: he does."""
        # A page of another site that has its name lead here would read what only this machine may.
        if self.is_local and not is_loopback(_host_of(request)):
            return Answer({"errors": [f"The host {_host_of(request)[:80]!r} is not served here."]}, 403)
        scheme, given = _credentials_of(request)
        reads = request.method in ("GET", "HEAD")
        if self._is_token(given):
            # A browser adds a password that it was told once to requests of whatever page.
            if scheme == "basic" and not reads and not _is_same_origin(request):
                return Answer({"errors": ["A page of another site has asked for this."]}, 403)
            return None
        if reads and (_is_open(request.path) or (self.is_local and is_own(user))):
            return None
        return Answer({"errors": [_NEEDS_TOKEN]}, 401)

    def _is_token(self, given: str) -> bool:
        data = given.encode(errors="surrogateescape")
        return any(hmac.compare_digest(data, each.encode()) for each in (self.token, *self._tokens))

    async def _respond(self, request: web.Request, connection: HttpConnection) -> web.Response:
        if request.method in ("GET", "HEAD") and _is_static(request.path):
            return self._static(request.path)
        body = await _body_of(request)
        connection.begin()  # what came since its headers is its body, and not another request's beginning
        if isinstance(body, Answer):
            return _response(body)
        query: dict[str, list[str]] = {}
        for name, value in request.query.items():
            query.setdefault(name, []).append(value)
        method = "GET" if request.method == "HEAD" else request.method
        tag = self._tag() if request.path.endswith("/picture") and self.cluster.jobs else None
        if tag is not None and request.headers.get("If-None-Match") == tag:  # what it has is as it is now
            return web.Response(status=304, headers={"ETag": tag})
        response = await self._made(Request(method, request.path, query, body))
        if tag is not None and response.status == 200:
            response.headers["ETag"] = tag
        return response

    async def _made(self, request: Request) -> web.Response:
        made = await self._begun(request)
        if not isinstance(made, Later):
            return made
        try:
            said = await asyncio.wait_for(asyncio.wrap_future(made.future), INQUIRY_S)
        except (asyncio.TimeoutError, TimeoutError):
            return _response(Answer({"errors": [f"There was no answer within {INQUIRY_S:g} s."]}, 503))
        except Exception as error:
            return _response(Answer({"errors": [f"There is no answer: {error}"]}, 503))
        answer = made.make(said)
        return _response(answer if isinstance(answer, Answer) else Answer(answer))

    async def _begun(self, request: Request) -> web.Response | Later:
        """Make answers one after the other, and after each one nothing for as long: tasks have the interpreter then."""
        async with self._turn:
            await asyncio.sleep(self._free_at - time.perf_counter())
            is_full = self._connections is not None and self._connections.unsent_bytes > UNSENT_MAX
            if is_full and not _is_health(request.path):  # a program with slow readers is alive
                text = "Too many answers wait for clients that do not read them: ask again later."
                return _response(Answer({"errors": [text]}, 503))
            begin = time.perf_counter()
            try:
                made = self._answer(request)
                return made if isinstance(made, Later) else _response(made)
            finally:
                self._free_at = 2 * time.perf_counter() - begin

    def _tag(self) -> str:
        """Another one as soon as any job has another picture."""
        return '"' + "-".join(f"{job.picture.now_ms:x}" for job in self.cluster.jobs.values()) + '"'

    def _static(self, path: str) -> web.Response:
        name = path.removeprefix("/static/") if path.startswith("/static/") else "index.html"
        file = STATIC / name
        if not _STATIC_NAME.fullmatch(name) or not file.is_file():
            if path == "/":
                return web.Response(text=_WITHOUT_PAGE, content_type="text/plain")
            return _response(Answer({"errors": [f"Not found: {path[:200]}"]}, 404))
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return web.Response(body=file.read_bytes(), content_type=kind)


_NEEDS_TOKEN: Final = (
    "A token is needed: use the link that the program has printed, or send what the program has as rest.token-file, "
    "as 'Authorization: Bearer TOKEN' or as a password. Only reading on the program's machine, as its user, needs none."
)
_WITHOUT_PAGE = "Jobs of flinkbuf: /jobs/overview, /jobs/:jobid, /jobs/:jobid/picture, /taskmanagers, /metrics\n"


def _bound(address: str, ports: range | tuple[int, ...]) -> socket.socket:
    """Take the first port that is free."""
    refusal: OSError | None = None
    for port in ports:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((address, port))
            made.listen(128)
        except OSError as error:
            made.close()
            refusal = error
        else:
            made.setblocking(False)
            return made
    first, last = ports[0], ports[-1]
    asked = str(first) if first == last else f"{first}-{last}"
    raise OSError(
        f"jobs cannot be served at {address}, port {asked}: {refusal}; set rest.port and rest.bind-address, "
        "or rest.enabled to false"
    ) from refusal


def _host_of(request: web.Request) -> str:
    """The host that was asked for, without its port."""
    host = request.headers.get("Host", "")
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _credentials_of(request: web.Request) -> tuple[str, str]:
    """The scheme, and the token: what a bearer has, or a password under whatever name."""
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    scheme, value = scheme.lower(), value.strip()
    if scheme == "bearer":
        return scheme, value
    if scheme == "basic":
        try:
            return scheme, base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return scheme, ""
    return "", ""


def _is_same_origin(request: web.Request) -> bool:
    """Browsers name the site that asks, where it is about to change something."""
    origin = request.headers.get("Origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("Host", "")


def _is_static(path: str) -> bool:
    return path == "/" or path.startswith("/static/")


def _is_health(path: str) -> bool:
    return path.removeprefix(f"/{VERSION}") in ("/health", "/health/live", "/health/ready")


def _is_open(path: str) -> bool:
    """Whether anybody may read it: the page itself, without what it shows, and whether the program works."""
    return _is_static(path) or _is_health(path)


async def _body_of(request: web.Request) -> dict[str, object] | Answer:
    try:
        text = await asyncio.wait_for(request.text(), REQUEST_S)
        body = json.loads(text) if text.strip() else {}
    except web.HTTPRequestEntityTooLarge:
        return Answer({"errors": [f"A request has {BODY_MAX} bytes at most."]}, 413)
    except (asyncio.TimeoutError, TimeoutError):
        return Answer({"errors": [f"A request has to be whole within {REQUEST_S:g} s."]}, 408)
    except (ValueError, RecursionError, LookupError, web.RequestPayloadError):
        return Answer({"errors": ["Bad request received."]}, 400)
    return body if isinstance(body, dict) else Answer({"errors": ["Bad request received."]}, 400)


def _response(made: Answer) -> web.Response:
    text = made.body if isinstance(made.body, str) else "".join(pieces_of(made.body))
    return web.Response(body=text.encode(), status=made.status, headers={"Content-Type": made.content_type})


def pieces_of(value: object, depth: int = 4) -> Iterator[str]:
    """Yield a value as JSON in pieces: the encoder holds the GIL, between two of them other threads have their turn.

    Examples
    --------
    >>> "".join(pieces_of({"a": [1, {"b": None}], "c": {}}))
    '{"a":[1,{"b":null}],"c":{}}'
    """
    if not depth or _count(value, PIECE) <= PIECE:  # to divide what is small costs more than to write it
        yield _encode(value)
    elif isinstance(value, dict):
        sign = "{"
        for key, each in value.items():
            yield f"{sign}{json.dumps(key)}:"
            yield from pieces_of(each, depth - 1)
            sign = ","
        yield "}"
    elif isinstance(value, list) and isinstance(value[0], (dict, list)):
        sign = "["
        for each in value:
            yield sign
            yield from pieces_of(each, depth - 1)
            sign = ","
        yield "]"
    else:
        yield _encode(value)


def _count(value: object, most: int) -> int:
    """How many values are in it, itself too; not much further than `most`."""
    if not isinstance(value, (dict, list)):
        return 1
    count = 1
    for each in value.values() if isinstance(value, dict) else value:
        count += _count(each, most - count) if isinstance(each, (dict, list)) else 1
        if count > most:
            break
    return count
