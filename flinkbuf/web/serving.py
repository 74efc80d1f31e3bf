"""Which jobs are served, and where: one server of the process for all jobs that are configured alike.

It lives as long as the program, so that the last picture of a job that has ended can still be looked at; nothing of it
is there before the first job is served. Flink: WebOptions, RestOptions, MetricOptions.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TextIO

from flinkbuf.log import logger
from flinkbuf.runtime.process.termination import the_termination
from flinkbuf.web.json_lines import JsonLinesReporter
from flinkbuf.web.served_job import LINGER_MS, ServedJob

if TYPE_CHECKING:
    from flinkbuf.runtime.driver.rescalable_job import RescalableJob
    from flinkbuf.runtime.driver.running_job import RunningJob
    from flinkbuf.web.server import JobServer

_servers: dict[tuple[object, ...], JobServer] = {}
_said: set[type[BaseException]] = set()  # why there is no page; a program may run many jobs
_lock = threading.Lock()
QUIET_S = 2.0  # a page that is open has asked by then; only a longer wait is spoken of
LOOK_S = 0.05


@dataclass(frozen=True)
class ReporterConfig:
    """A file that metrics go to."""

    name: str
    path: str
    interval_ms: int = 10_000


@dataclass(frozen=True)
class WebConfig:
    """Whether and where jobs are served.

    Attributes
    ----------
    is_served : bool
    is_optional : bool
        Nobody has asked for it: a job that cannot be served runs without.
    ports : tuple of int
        Tried in this order; 0 is a free one.
    bind_address : str
    token : str or None
        What tools may send; None: nothing but what links bring along lets somebody in.
    reporters : tuple of ReporterConfig
    linger_ms : int
        How long a program that has ended waits for those who look at its jobs to see it.
    """

    is_served: bool = True
    ports: tuple[int, ...] = (0,)
    bind_address: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)
    reporters: tuple[ReporterConfig, ...] = ()
    is_optional: bool = False
    linger_ms: int = LINGER_MS

    @property
    def is_watched(self) -> bool:
        """Whether figures are wanted often."""
        return self.is_served or bool(self.reporters)


class Served:
    """A job that is served, until `end`.

    Attributes
    ----------
    link : str or None
        To its page; None: only its metrics go somewhere.
    """

    def __init__(self, job: ServedJob, link: str | None, reporters: list[JsonLinesReporter]) -> None:
        self.link = link
        self._job = job
        self._reporters = reporters

    @property
    def link_to_read(self) -> str | None:
        """The link without its token: whoever runs the program may read, and nobody may act."""
        return None if self.link is None else re.sub(r"\?token=[^#]*", "", self.link)

    def end(self) -> None:
        """The job is over: its metrics are written a last time, its last picture stays."""
        self._job.end()
        for reporter in self._reporters:
            reporter.close()


def check(config: WebConfig) -> WebConfig:
    """Open what a job is to be served with, before there is one; returns what it can be served with.

    Raises
    ------
    ImportError
        There is no aiohttp.
    OSError
        No port is free, or a reporter's file cannot be written.
    RuntimeError
        The server does not begin.
    """
    if config.is_served and _server_if_possible(config) is None:
        config = replace(config, is_served=False)
    for each in config.reporters:
        with open(each.path, "a"):
            pass
    return config


def serve(
    job: RunningJob | RescalableJob,
    config: WebConfig,
    configuration: Mapping[str, str] | None = None,
    rescale: Callable[[int], Future[str]] | None = None,
    job_parameters: Mapping[str, str] | None = None,
) -> Served:
    """Serve a job that begins now; what is given of its settings has no secrets. Raises what `check` raises."""
    served = ServedJob(job, configuration, rescale, job_parameters=job_parameters, linger_ms=config.linger_ms)
    link = None
    server = _server_if_possible(config) if config.is_served else None
    if server is not None:
        server.add(served)
        link = server.link(served.picture.job_id)
    reporters: list[JsonLinesReporter] = []
    try:
        for each in config.reporters:
            reporters.append(JsonLinesReporter(served, each.path, each.interval_ms))
    except OSError:
        for reporter in reporters:
            reporter.close()
        raise
    return Served(served, link, reporters)


def serve_and_say(
    job: RunningJob | RescalableJob,
    config: WebConfig,
    configuration: Mapping[str, str],
    job_parameters: Mapping[str, str],
    to: TextIO | None,
) -> Served:
    """Serve a job that begins now, and say where it can be looked at; raises what `check` raises."""
    served = serve(job, config, configuration, getattr(job, "rescale", None), job_parameters)
    if served.link is not None:
        link = job.page = served.link
        if "ipykernel" in sys.modules:  # what a cell says is kept with the notebook, and given away with it
            link = f"{served.link_to_read} (client.page: the same, to stop it there, too)"
        print(f"job {job.graph.settings.job_name!r} can be looked at: {link}", file=to, flush=True)
    return served


def _server_if_possible(config: WebConfig) -> JobServer | None:
    """Return it; None, which is said once, where there is none and nobody has asked for it."""
    try:
        return _server_of(config)
    except Exception as error:
        if not config.is_optional:
            raise
        if type(error) not in _said:
            _said.add(type(error))
            level = logging.INFO if isinstance(error, ImportError) else logging.WARNING  # not everybody wants one
            logger.log(level, "jobs of this program have no page: %s", error)
        return None


def _server_of(config: WebConfig) -> JobServer:
    key = (config.ports, config.bind_address, config.token)
    with _lock:
        server = _servers.get(key)
        if server is None or not server.is_running:
            try:
                from flinkbuf.web.server import JobServer
            except ImportError as error:
                raise ImportError(
                    f"jobs are served with aiohttp, which cannot be imported ({error}): pip install 'flinkbuf[web]', "
                    "or set rest.enabled to false"
                ) from error
            if server is None:
                made = JobServer(config.bind_address, config.ports, config.token)
            else:
                made = _instead_of(server, config)
            if not _servers:
                atexit.register(_close_when_seen)
            server = _servers[key] = made
        return server


def _instead_of(failed: JobServer, config: WebConfig) -> JobServer:
    """Serve on what one has served that has failed, where it was if that can be: its links lead there."""
    failed.close()
    made = type(failed)(config.bind_address, (failed.port, *config.ports), config.token)
    made.cluster, made.token = failed.cluster, failed.token
    return made


def _close_when_seen() -> None:
    """The program ends: whoever looks at one of its jobs is shown the job's end first. Ctrl-C ends that."""
    with contextlib.suppress(KeyboardInterrupt):
        begun_s, is_said = time.monotonic(), False
        while waiting := [job for job in _jobs() if job.linger_s > 0]:
            left_s = max(job.linger_s for job in waiting)
            is_late = time.monotonic() - begun_s > QUIET_S and any(not job.is_end_seen for job in waiting)
            if is_late and the_termination.is_begun:  # who ends the program does not wait for readers
                break
            if is_late and not is_said:
                is_said = True
                text = "a page of this program is open and has not shown its end: it stays until then, at most"
                more = f"{left_s:.0f} s (rest.linger-timeout); Ctrl-C ends the program now"
                print(f"{text} {more}", file=sys.stderr, flush=True)
            time.sleep(min(left_s, LOOK_S))
    close_servers()


def _jobs() -> list[ServedJob]:
    return [job for server in list(_servers.values()) if server.is_running for job in server.cluster.jobs.values()]


def close_servers() -> None:
    """End all servers of this process: nothing is served until the next job begins. Idempotent."""
    with _lock:
        servers = list(_servers.values())
        _servers.clear()
        atexit.unregister(_close_when_seen)
    for server in servers:
        server.close()


def _forget_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    for server in _servers.values():
        server.forget_after_fork()
    _servers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
