"""Numbered records and the channels they go through: what a job does, as far as exactly once is concerned."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from flinkbuf._core.record.key_group import key_group_range, operator_index
from flinkbuf.network.events import NO_TIMEOUT, AlignmentType, CheckpointBarrier
from flinkbuf.runtime.graph.job_plan import EdgePlan, JobPlan
from flinkbuf.streaming.checkpoint.barriers import overtaking

if TYPE_CHECKING:
    from simulation.flow.flow_task import FlowTask

MAX_PARALLELISM = 128
Path = tuple[int, ...]  # vertices that a record has come through, its source first


class Records(NamedTuple):
    """Some records of one key in a row: a split is a key."""

    path: Path
    split: int
    first: int
    end: int  # behind the last


class Routes:
    """Where a vertex's records go, and what has to come out in the end.

    Parameters
    ----------
    plan : JobPlan
        Of any parallelism: the vertices and edges are the same in all runs of a job.
    split_counts : dict of int to int
        By index of a source.
    split_size : int
        Records of a split.
    """

    def __init__(self, plan: JobPlan, split_counts: dict[int, int], split_size: int) -> None:
        self.plan = plan
        self.split_counts = split_counts
        self.split_size = split_size
        vertices = range(len(plan.vertices))
        self.inputs = {v: [edge for edge in plan.edges if edge.target == v] for v in vertices}
        self.outputs = {
            v: sorted((edge for edge in plan.edges if edge.source == v), key=lambda edge: edge.partition_index)
            for v in vertices
        }
        self.sources = [v for v in vertices if not self.inputs[v]]
        self.sinks = [v for v in vertices if not self.outputs[v]]
        self.index_of = {vertex.id: index for index, vertex in enumerate(plan.vertices)}

    def is_keyed(self, vertex: int) -> bool:
        """Whether all records of a key come to the same subtask, whatever the parallelism."""
        return bool(self.inputs[vertex]) and not any(edge.is_pointwise for edge in self.inputs[vertex])

    def splits_of(self, source: int) -> range:
        """Numbers of its splits."""
        return range(source * 1_000, source * 1_000 + self.split_counts[source])

    def paths_to(self, vertex: int) -> list[Path]:
        """All ways on which records come to a vertex, itself included."""
        if not self.inputs[vertex]:
            return [(vertex,)]
        return [(*path, vertex) for edge in self.inputs[vertex] for path in self.paths_to(edge.source)]

    @staticmethod
    def subpartition(edge: EdgePlan, split: int, count: int) -> int:
        """Where records of a split go on an edge with so many subpartitions."""
        key_group = key_group_of(split)
        return key_group % count if edge.is_pointwise else operator_index(key_group, MAX_PARALLELISM, count)


def key_group_of(split: int) -> int:
    """Spread over all of them."""
    return split * 53 % MAX_PARALLELISM


def key_groups_of(parallelism: int, subtask: int) -> tuple[int, int]:
    """The first and the last of a subtask."""
    return key_group_range(MAX_PARALLELISM, parallelism, subtask)


class FlowChannel:
    """What is under way from one subpartition to its reader, in order; each thing arrives at its time.

    Attributes
    ----------
    items : deque
        (when it arrives, record or event), first in front.
    is_blocked : bool
        Nothing is read until its reader says so.
    """

    def __init__(self) -> None:
        self.items: deque[tuple[int, Any]] = deque()
        self.is_blocked = False
        self.is_read_to_its_end = False
        self.reader: FlowTask | None = None
        self.writer: FlowTask | None = None
        self.announced: set[int] = set()  # checkpoints whose barriers the reader knows to be under way
        self._last_ms = 0

    def put(self, item: Any, arrives_ms: int) -> None:
        """Behind all that was sent before."""
        self._last_ms = max(self._last_ms, arrives_ms)
        self.items.append((self._last_ms, item))
        if self.reader is not None:
            self.reader.look_at(self._last_ms)

    def overtake(self, barrier: Any, now_ms: int) -> list[Records]:
        """Put a barrier in front of all that has not arrived; return the records that it overtakes."""
        waiting = [(at_ms, item) for at_ms, item in self.items if at_ms > now_ms]
        for _ in waiting:
            self.items.pop()
        arrives_ms = min([now_ms + 1, *(at_ms for at_ms, _ in waiting)])
        self.items.append((arrives_ms, barrier))
        self.items.extend(waiting)
        self._last_ms = max(self._last_ms, arrives_ms)
        if self.reader is not None:
            self.reader.look_at(arrives_ms)
        return [item for _, item in waiting if isinstance(item, Records)]

    def has_queued(self, checkpoint_id: int, now_ms: int) -> bool:
        """Whether an aligned barrier of this checkpoint has not arrived."""
        return self._queued(checkpoint_id, now_ms) is not None

    def _queued(self, checkpoint_id: int, now_ms: int) -> int | None:
        for index, (at_ms, item) in enumerate(self.items):
            if at_ms > now_ms and isinstance(item, CheckpointBarrier) and item.checkpoint_id == checkpoint_id:
                return index if item.alignment is AlignmentType.ALIGNED else None
        return None

    def convert(self, checkpoint_id: int, now_ms: int) -> list[Records]:
        """Let that barrier overtake what has not arrived either; return the records that it overtakes."""
        position = self._queued(checkpoint_id, now_ms)
        assert position is not None
        barrier = overtaking(self.items[position][1])
        first = next(index for index, (at_ms, _) in enumerate(self.items) if at_ms > now_ms)
        overtaken = [item for _, item in list(self.items)[first:position] if isinstance(item, Records)]
        del self.items[position]
        self.items.insert(first, (now_ms + 1, barrier))
        if self.reader is not None:
            self.reader.look_at(now_ms + 1)
        return overtaken

    def urgent(self) -> tuple[int, CheckpointBarrier] | None:
        """When a barrier arrives that overtakes, or of which the reader is to be told."""
        for at_ms, item in self.items:
            if isinstance(item, CheckpointBarrier) and (
                item.alignment is AlignmentType.UNALIGNED
                or (item.aligned_timeout_ms != NO_TIMEOUT and item.checkpoint_id not in self.announced)
            ):
                return at_ms, item
        return None

    def take_out(self, barrier: CheckpointBarrier) -> list[Records]:
        """Read a barrier before its turn; return the records in front of it."""
        position = next(index for index, (_, item) in enumerate(self.items) if item is barrier)
        in_front = [item for _, item in list(self.items)[:position] if isinstance(item, Records)]
        del self.items[position]
        return in_front

    def next_ms(self) -> int | None:
        """When something can be read; None: nothing is on its way, or may not be read."""
        return self.items[0][0] if self.items and not self.is_blocked else None

    def is_ready(self, now_ms: int) -> bool:
        """Whether something can be read."""
        return bool(self.items) and not self.is_blocked and self.items[0][0] <= now_ms
