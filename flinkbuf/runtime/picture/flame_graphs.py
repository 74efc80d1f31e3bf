"""Flame graphs of one job's tasks: which were asked for, what has come of them, when to ask again.

Pure, but for the lock: calls come from any thread. Flink: VertexThreadInfoTracker, JobVertexFlameGraphHandler.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from flinkbuf.runtime.picture.job_picture import TIMES
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.flame_tree import KINDS, FlameTree
from flinkbuf.runtime.protocol.messages import Json
from flinkbuf.runtime.scheduler.execution_graph import ExecutionGraph
from flinkbuf.runtime.scheduler.execution_state import ExecutionState

SAMPLE_COUNT: Final = 100  # of each thread
INTERVAL_MS: Final = 20
SUBTASKS_MAX: Final = 16  # that are looked at, of one vertex
REFRESH_MS: Final = 5_000  # an older graph is made anew at the next request; Flink: 1 min
PATIENCE_MS: Final = 15_000  # for managers that do not answer
KEPT: Final = 16  # graphs
NODES_MAX: Final = 4_000
WAITING: Final = {"endTimestamp": -3}  # Flink's number

Key = tuple[str, "int | None"]  # vertex id, and a subtask or all


@dataclass
class _Entry:
    graph: FlameTree | None = None
    end_ms: int = 0
    request: int | None = None  # what is open
    asked_ms: int = 0
    waiting: set[str] = field(default_factory=set)  # ids of managers
    growing: FlameTree = field(default_factory=lambda: FlameTree(NODES_MAX))


def to_be_sampled(graph: ExecutionGraph, vertex_id: str, subtask: int | None) -> dict[str, list[AttemptId]]:
    """Return the attempts of a task whose threads are looked at, the busiest if they are many, by task manager."""
    found = [
        execution
        for execution in graph.executions()
        if execution.attempt.vertex_id == vertex_id
        and execution.state is ExecutionState.RUNNING
        and subtask in (None, execution.attempt.subtask_index)
    ]
    found.sort(key=lambda each: -each.time_shares(*TIMES)[0])
    places: dict[str, list[AttemptId]] = {}
    for execution in found[:SUBTASKS_MAX]:
        if execution.manager is not None:
            places.setdefault(execution.manager.id, []).append(execution.attempt)
    return places


class FlameGraphs:
    """Flame graphs of one job.

    Examples
    --------
    >>> graphs = FlameGraphs()
    >>> graphs.ask("v", None, "FULL", now_ms=0)
    ({'endTimestamp': -3}, 1)
    >>> graphs.sent(1, {"worker-1"}, now_ms=1)
    >>> graphs.answered("worker-1", 1, {"name": "root", "on": 3, "off": 1, "children": []}, now_ms=2_000)
    >>> graphs.ask("v", None, "ON_CPU", now_ms=2_500)
    ({'endTimestamp': 2000, 'data': {'name': 'root', 'value': 3, 'children': []}}, None)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._keys: dict[int, Key] = {}  # of open requests
        self._last = 0

    def ask(self, vertex_id: str, subtask: int | None, kind: str, now_ms: int) -> tuple[Json, int | None]:
        """Return the last graph, or a note that it is being made; and the number of the request to send, if any.

        Raises
        ------
        ValueError
            If `kind` is not one of ``FULL``, ``ON_CPU``, ``OFF_CPU``.
        """
        if kind not in KINDS:
            raise ValueError(f"type must be one of {', '.join(KINDS)}, got {kind!r:.40}")
        with self._lock:
            entry = self._entry((vertex_id, subtask))
            if entry.request is not None and now_ms - entry.asked_ms > PATIENCE_MS:
                self._end(entry, now_ms)
            request = None
            if entry.request is None and (entry.graph is None or now_ms - entry.end_ms > REFRESH_MS):
                self._last += 1
                request = entry.request = self._last
                entry.asked_ms, entry.growing = now_ms, FlameTree(NODES_MAX)
                self._keys[request] = (vertex_id, subtask)
            if entry.graph is None:
                return WAITING, request
            return {"endTimestamp": entry.end_ms, "data": entry.graph.shown(kind)}, request

    def key_of(self, request: int) -> Key | None:
        """Return what a request is about; None: no reader waits for it any more."""
        with self._lock:
            return self._keys.get(request)

    def sent(self, request: int, manager_ids: Collection[str], now_ms: int) -> None:
        """Note the managers that were asked; none: no task is there to sample."""
        with self._lock:
            entry = self._open(request)
            if entry is not None:
                entry.waiting = set(manager_ids)
                if not entry.waiting:
                    self._end(entry, now_ms)

    def answered(self, manager_id: str, request: int, tree: Json, now_ms: int) -> None:
        """Take the samples of a task manager; samples that no open request waits for are dropped."""
        with self._lock:
            entry = self._open(request)
            if entry is None or manager_id not in entry.waiting:
                return
            with suppress(ValueError):  # from another version; the others' are as good as before
                entry.growing.merge(tree)
            entry.waiting.discard(manager_id)
            if not entry.waiting:
                self._end(entry, now_ms)

    def _open(self, request: int) -> _Entry | None:
        key = self._keys.get(request)
        return None if key is None else self._entries.get(key)

    def _end(self, entry: _Entry, now_ms: int) -> None:
        """Build the graph of a request; without samples the graph before stays."""
        if entry.growing.sample_count:
            entry.graph, entry.end_ms = entry.growing, now_ms
        self._keys.pop(entry.request or 0, None)
        entry.request, entry.waiting = None, set()

    def _entry(self, key: Key) -> _Entry:
        """Return the entry of a graph; to make room the one not asked for longest goes."""
        entry = self._entries.setdefault(key, _Entry())
        self._entries.move_to_end(key)
        while len(self._entries) > KEPT:
            _, old = self._entries.popitem(last=False)
            self._keys.pop(old.request or 0, None)
        return entry
