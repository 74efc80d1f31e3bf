"""Finds who answers a request, reads what is in its path and query, and says what is wrong in Flink's words.

No socket is touched here, and no clock: a request goes in, an answer comes out. Flink: AbstractRestHandler, RestServer
endpoints, ErrorResponseBody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar

from flinkbuf.runtime.picture.job_picture import JobPicture, VertexPicture
from flinkbuf.runtime.protocol.messages import Json
from flinkbuf.web.served_job import Operations, ServedJob

T = TypeVar("T")


VERSION: Final = "v1"  # the only one; Flink's own clients set it before each path
METHODS: Final = ("GET", "POST", "PATCH", "PUT", "DELETE")


class HttpError(Exception):
    """A request that is not answered as it wishes; `texts` say why."""

    def __init__(self, status: int, *texts: str) -> None:
        super().__init__(status, *texts)
        self.status = status
        self.texts = texts


@dataclass(frozen=True)
class Request:
    """What somebody wants.

    Attributes
    ----------
    path : str
        Without the query, decoded.
    query : mapping of str to list of str
    body : dict
        Empty where there was none.
    """

    method: str
    path: str
    query: Mapping[str, list[str]] = field(default_factory=dict)
    body: Json = field(default_factory=dict)

    def one(self, name: str) -> str | None:
        """Return a value of the query; None: it is not there.

        Raises
        ------
        HttpError
            It is there more than once.
        """
        values = self.query.get(name, [])
        if len(values) > 1:
            raise HttpError(400, f"Expected only one value [{', '.join(values)}].")
        return values[0] if values else None

    def several(self, name: str) -> list[str] | None:
        """Return values of the query with commas between them; None: it is not there."""
        values = self.query.get(name)
        return None if values is None else [part for value in values for part in value.split(",") if part]

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return a whole number of the query, within bounds."""
        text = self.one(name)
        if text is None:
            return default
        if not re.fullmatch(r"\d{1,9}", text) or not least <= int(text) <= most:
            raise HttpError(400, f'Cannot resolve query parameter ({name}) from value "{text[:80]}".')
        return int(text)

    def field(self, name: str, kind: type[T], shape: str) -> T | None:
        """Return a field of the body; None where it is missing or null."""
        value = self.body.get(name)
        if value is not None and not isinstance(value, kind):
            raise HttpError(400, f"Request did not match expected format {shape}.")
        return value


@dataclass(frozen=True)
class Answer:
    """What comes back: `body` becomes JSON, unless it is text."""

    body: object
    status: int = 200
    content_type: str = "application/json; charset=UTF-8"


@dataclass(frozen=True)
class Later:
    """An answer that somebody else is asked for first: `make` gives it, or its body, from what he says."""

    future: Future[Json]
    make: Callable[..., object]


@dataclass
class Cluster:
    """All that can be asked about: the jobs of this process, oldest first, and what was begun."""

    jobs: dict[str, ServedJob] = field(default_factory=dict)
    operations: Operations = field(default_factory=Operations)
    can_command: bool = True

    def job(self, parts: Mapping[str, str]) -> ServedJob:
        """Return the job that a path names."""
        job = self.jobs.get(parts["jobid"])
        if job is None:
            raise HttpError(404, f"Job {parts['jobid']} not found")
        job.was_looked_at()
        return job

    def picture(self, parts: Mapping[str, str]) -> JobPicture:
        """Return its newest picture."""
        return self.job(parts).picture

    def vertex(self, parts: Mapping[str, str]) -> tuple[JobPicture, VertexPicture]:
        """Return the vertex that a path names, with the picture that it is in."""
        picture = self.picture(parts)
        for vertex in picture.vertices:
            if vertex.plan.id == parts["vertexid"]:
                return picture, vertex
        raise HttpError(404, f"JobVertex {parts['vertexid']} not found")


Handler = Callable[..., object]  # of a Cluster or JobHistory; gives an Answer, its body, or Later

H = TypeVar("H", bound=Handler)

# What stands for a part of a path, and what it may be.
PARTS: Final = {
    "jobid": r"[0-9a-f]{32}",
    "triggerid": r"[0-9a-f]{32}",
    "vertexid": r"[0-9a-f]{32}",
    "checkpointid": r"\d{1,18}",
    "subtaskindex": r"\d{1,9}",
    "attempt": r"\d{1,9}",
    "taskmanagerid": r"[^/]{1,200}",
}


# What a query or a body may hold, for the description of the API.
TEXT: Final[Mapping[str, object]] = {"type": "string"}
TEXTS: Final[Mapping[str, object]] = {"type": "array", "items": TEXT}
FLAG: Final[Mapping[str, object]] = {"type": "boolean", "nullable": True}
OPTIONAL_TEXT: Final[Mapping[str, object]] = {"type": "string", "nullable": True}


def whole(least: int, most: int) -> Json:
    """Return what a whole number within bounds is called.

    Examples
    --------
    >>> whole(1, 5)
    {'type': 'integer', 'minimum': 1, 'maximum': 5}
    """
    return {"type": "integer", "minimum": least, "maximum": most}


@dataclass(frozen=True)
class Route:
    """A path, who answers it, and what may be said with it.

    Attributes
    ----------
    query, body : mapping
        Names, each with a schema of OpenAPI's.
    required : tuple of str
        What a query has to have.
    """

    method: str
    path: str
    handler: Handler
    query: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    body: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    required: tuple[str, ...] = ()

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Of the path."""
        return _split(self.path)


class Router:
    """A table of paths and who answers them.

    Examples
    --------
    >>> router = Router()
    >>> @router.route("GET", "/jobs/:jobid/status")
    ... def status(cluster, request, parts):
    ...     return {"asked": parts["jobid"]}
    >>> router.answer(Cluster(), Request("GET", "/jobs/" + "c" * 32 + "/status")).body == {"asked": "c" * 32}
    True
    >>> router.answer(Cluster(), Request("GET", "/jobs/x/status"))
    Answer(body={'errors': ['Cannot resolve path parameter (jobid) from value "x".']}, status=400, \
content_type='application/json; charset=UTF-8')
    """

    def __init__(self) -> None:
        self.routes: list[Route] = []

    def route(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Mapping[str, object]] | None = None,
        body: Mapping[str, Mapping[str, object]] | None = None,
        required: tuple[str, ...] = (),
    ) -> Callable[[H], H]:
        """Return what notes the function below it as the one that answers."""

        def note(handler: H) -> H:
            self.routes.append(Route(method, path, handler, query or {}, body or {}, required))
            return handler

        return note

    @property
    def paths(self) -> list[tuple[str, str]]:
        """Method and path of each, as they were given."""
        return sorted((route.method, route.path) for route in self.routes)

    def include(self, other: Router) -> None:
        """Answer also what another one answers."""
        self.routes += other.routes

    def answer(self, cluster: object, request: Request) -> Answer | Later:
        """Return the answer to a request; an error is one, too."""
        try:
            handler, parts = self._find(request)
            made = handler(cluster, request, parts)
        except HttpError as error:
            return Answer({"errors": list(error.texts)}, error.status)
        return made if isinstance(made, (Answer, Later)) else Answer(made)

    def _find(self, request: Request) -> tuple[Handler, dict[str, str]]:
        asked = _split(request.path)
        if asked[0] == VERSION and len(asked) > 1:
            asked = asked[1:]
        methods = set()
        found: tuple[int, Route] | None = None
        for route in self.routes:
            fixed = _fit(route.parts, asked)
            if fixed is None:
                continue
            methods.add(route.method)
            if route.method == request.method and (found is None or fixed > found[0]):
                found = (fixed, route)
        if found is None:
            if methods:
                raise HttpError(
                    405, f"Method {request.method} is not allowed for {request.path}: use {_listed(methods)}"
                )
            raise HttpError(404, f"Not found: {request.path[:200]}")
        return found[1].handler, _parts_of(found[1].parts, asked)


def _split(path: str) -> tuple[str, ...]:
    return tuple(path.strip("/").split("/"))


def _fit(pattern: tuple[str, ...], asked: tuple[str, ...]) -> int | None:
    """How many parts are the same word for word; None: it is another path."""
    if len(pattern) != len(asked):
        return None
    fixed = 0
    for expected, part in zip(pattern, asked, strict=True):
        if expected == part:
            fixed += 1
        elif not expected.startswith(":"):
            return None
    return fixed


def _parts_of(pattern: tuple[str, ...], asked: tuple[str, ...]) -> dict[str, str]:
    parts = {}
    for expected, part in zip(pattern, asked, strict=True):
        if expected.startswith(":"):
            name = expected[1:]
            value = part.lower() if name in ("jobid", "triggerid", "vertexid") else part
            if not re.fullmatch(PARTS[name], value):
                raise HttpError(400, f'Cannot resolve path parameter ({name}) from value "{part[:80]}".')
            parts[name] = value
    return parts


def _listed(methods: set[str]) -> str:
    return " or ".join(sorted(methods))
