"""Which subtasks start again together.

Subtasks that stream to each other stand and fall together: nobody can read a pipelined partition twice. They are a
region. Between regions lie partitions that were written to their end first and can be read again.
Flink: PipelinedRegionComputeUtil, RestartPipelinedRegionFailoverStrategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flinkbuf.jobs.graphs.job_plan import EdgePlan, JobPlan

Subtask = tuple[int, int]  # index of the vertex in the plan, index of the subtask


@dataclass(frozen=True)
class BlockingInput:
    """A partition that a region reads, and another one wrote to its end."""

    producer: Subtask
    partition_index: int
    producer_region: int
    consumer_region: int


class PipelinedRegions:
    """The regions of a job.

    Attributes
    ----------
    members : list of list
        Subtasks of each region, in the order of the plan.
    region_of : dict
        Index of the region by subtask.

    Examples
    --------
    >>> from flinkbuf.jobs.graphs.job_plan import VertexPlan
    >>> vertices = (VertexPlan("a" * 32, "source", 2, 128), VertexPlan("b" * 32, "sink", 2, 128))
    >>> chained = EdgePlan(source=0, target=1, partition_index=0, gate_index=0, is_pointwise=True)
    >>> PipelinedRegions(JobPlan("c" * 32, "two", vertices, (chained,))).members
    [[(0, 0), (1, 0)], [(0, 1), (1, 1)]]
    """

    def __init__(self, plan: JobPlan) -> None:
        subtasks = [
            (index, number) for index, vertex in enumerate(plan.vertices) for number in range(vertex.parallelism)
        ]
        union = _Union(subtasks)
        for edge in plan.edges:
            if edge.is_pipelined:
                _join(union, plan, edge)
        self.members: list[list[Subtask]] = []
        self.region_of: dict[Subtask, int] = {}
        numbers: dict[Subtask, int] = {}
        for subtask in subtasks:
            root = union.find(subtask)
            if root not in numbers:
                numbers[root] = len(self.members)
                self.members.append([])
            self.region_of[subtask] = numbers[root]
            self.members[numbers[root]].append(subtask)
        self._inputs, self._consumers = self._blocking_inputs(plan)

    def _blocking_inputs(self, plan: JobPlan) -> tuple[dict[int, list[BlockingInput]], dict[int, set[int]]]:
        """What each region reads that others wrote before, and who reads what each one wrote."""
        inputs: dict[int, list[BlockingInput]] = {}
        consumers: dict[int, set[int]] = {}
        for edge in plan.edges:
            if edge.is_pipelined:
                continue
            for number in range(plan.vertices[edge.target].parallelism):
                region = self.region_of[edge.target, number]
                for producer, _ in plan.channels_of(edge, number):
                    subtask = (edge.source, producer)
                    owner = self.region_of[subtask]
                    inputs.setdefault(region, []).append(BlockingInput(subtask, edge.partition_index, owner, region))
                    consumers.setdefault(owner, set()).add(region)
        return inputs, consumers

    def to_restart(self, failed: Iterable[Subtask], is_available: Callable[[BlockingInput], bool]) -> list[Subtask]:
        """Return all subtasks that start again when some failed.

        With a region start again those that wrote what it reads, where that is gone, and all that read what it writes:
        another time it may write something else.

        Parameters
        ----------
        failed : iterable of (vertex, subtask)
        is_available : callable
            Whether what a region reads can still be read.
        """
        regions: set[int] = set()
        pending = [self.region_of[subtask] for subtask in failed]
        while pending:
            region = pending.pop()
            if region in regions:
                continue
            regions.add(region)
            lost = (each for each in self._inputs.get(region, ()) if not is_available(each))
            pending.extend(each.producer_region for each in lost)
            pending.extend(self._consumers.get(region, ()))
        return [subtask for region in sorted(regions) for subtask in self.members[region]]


class _Union:
    """Disjoint sets of subtasks that grow together."""

    def __init__(self, subtasks: Iterable[Subtask]) -> None:
        self.parent = {subtask: subtask for subtask in subtasks}

    def find(self, subtask: Subtask) -> Subtask:
        while (parent := self.parent[subtask]) != subtask:
            self.parent[subtask] = subtask = self.parent[parent]  # the way gets shorter for the next one
        return subtask

    def join(self, one: Subtask, other: Subtask) -> None:
        self.parent[self.find(other)] = self.find(one)


def _join(union: _Union, plan: JobPlan, edge: EdgePlan) -> None:
    source, target = plan.vertices[edge.source], plan.vertices[edge.target]
    if not edge.is_pointwise:
        everybody = [(edge.source, number) for number in range(source.parallelism)]
        everybody += [(edge.target, number) for number in range(target.parallelism)]
        for subtask in everybody[1:]:
            union.join(everybody[0], subtask)
        return
    for consumer in range(target.parallelism):
        for producer, _ in plan.channels_of(edge, consumer):
            union.join((edge.source, producer), (edge.target, consumer))
