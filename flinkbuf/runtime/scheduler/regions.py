"""Which subtasks start again together.

Subtasks that stream to each other stand and fall together: a pipelined partition cannot be read twice. They are a
region. Between regions lie partitions that were written to their end first and can be read again.
Flink: PipelinedRegionComputeUtil, RestartPipelinedRegionFailoverStrategy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from flinkbuf.runtime.graph.job_plan import EdgePlan, JobPlan

Subtask = tuple[int, int]  # index of the vertex in the plan, index of the subtask


@dataclass(frozen=True)
class BlockingInput:
    """A partition that a subtask writes to its end before any task reads it."""

    producer: Subtask
    partition_index: int
    producer_region: int


@dataclass(frozen=True)
class BlockingGroup:
    """Partitions that are read together, all by the same regions. Flink: ConsumedPartitionGroup, ConsumerVertexGroup.

    A thousand subtasks that all read from each other share one group: nothing here grows with their pairs.
    """

    partitions: tuple[BlockingInput, ...]
    readers: tuple[int, ...]  # regions


class PipelinedRegions:
    """The regions of a job.

    Attributes
    ----------
    members : list of list
        Subtasks of each region, in the order of the plan.
    region_of : dict
        Index of the region by subtask.
    groups : list of BlockingGroup
        All partitions between regions, each in one group.
    read_by, written_by : dict
        Numbers of groups by region.
    committers : dict
        Index of the vertex by region, of those that commit what others have prepared.
    prepared_by : dict
        Regions that prepare what a vertex commits, by its index.

    Raises
    ------
    ValueError
        A region would have to wait for itself.

    Examples
    --------
    >>> from flinkbuf.runtime.graph.job_plan import VertexPlan
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
        self.groups = [group for edge in plan.edges if not edge.is_pipelined for group in self._groups_of(plan, edge)]
        self.read_by: dict[int, list[int]] = defaultdict(list)
        self.written_by: dict[int, list[int]] = defaultdict(list)
        for number, group in enumerate(self.groups):
            for region in group.readers:
                self.read_by[region].append(number)
            for region in sorted({each.producer_region for each in group.partitions}):
                self.written_by[region].append(number)
        self.committers: dict[int, int] = {}
        self.prepared_by: dict[int, set[int]] = {}
        for index, vertex in enumerate(plan.vertices):
            if vertex.is_committer:
                regions = [self.region_of[index, number] for number in range(vertex.parallelism)]
                self.committers.update(dict.fromkeys(regions, index))
                self.prepared_by[index] = {
                    each.producer_region
                    for region in regions
                    for number in self.read_by[region]
                    for each in self.groups[number].partitions
                }
        self._check_order(plan)

    def _groups_of(self, plan: JobPlan, edge: EdgePlan) -> Iterator[BlockingGroup]:
        """Return the partitions of one edge, each in one group, and the regions that read them."""
        readers: dict[tuple[int, ...], dict[int, None]] = {}  # regions in order, by the subtasks that they read
        for number in range(plan.vertices[edge.target].parallelism):
            if edge.is_pointwise:
                producers = tuple(producer for producer, _ in plan.channels_of(edge, number))
            else:
                producers = (-1,)  # all consumers read all
            readers.setdefault(producers, {})[self.region_of[edge.target, number]] = None
        for producers, regions in readers.items():
            if producers == (-1,):
                producers = tuple(range(plan.vertices[edge.source].parallelism))
            partitions = (
                BlockingInput((edge.source, each), edge.partition_index, self.region_of[edge.source, each])
                for each in producers
            )
            yield BlockingGroup(tuple(partitions), tuple(regions))

    def _check_order(self, plan: JobPlan) -> None:
        """Refuse a region that waits for itself, directly or through others: it would never begin."""
        unwritten = [len({each.producer_region for each in group.partitions}) for group in self.groups]
        unread = [len(self.read_by.get(region, ())) for region in range(len(self.members))]
        pending = [region for region, count in enumerate(unread) if count == 0]
        done = 0
        while pending:
            region = pending.pop()
            done += 1
            for number in self.written_by.get(region, ()):
                unwritten[number] -= 1
                if unwritten[number] == 0:
                    for reader in self.groups[number].readers:
                        unread[reader] -= 1
                        if unread[reader] == 0:
                            pending.append(reader)
        if done < len(self.members):
            stuck = sorted({plan.vertices[self.members[each][0][0]].name for each, left in enumerate(unread) if left})
            raise ValueError(
                f"job {plan.job_name!r} can never begin {', '.join(stuck)}: they read, when it is complete, what is "
                f"written by tasks that they stream to, or that wait for them"
            )

    def settled(self, is_finished: Callable[[Subtask], bool]) -> set[int]:
        """Return the regions that must not start again: what came of all that they did was committed.

        These are the committers of a sink when all of them have finished, and who has written for none but such.
        """
        if not self.committers:
            return set()
        done = {region for region, members in enumerate(self.members) if all(map(is_finished, members))}
        open_vertices = {index for region, index in self.committers.items() if region not in done}
        settled = {region for region, index in self.committers.items() if index not in open_vertices}
        pending = list(settled)
        while pending:
            for number in self.read_by.get(pending.pop(), ()):
                for producer in {each.producer_region for each in self.groups[number].partitions} & done - settled:
                    readers = (reader for group in self.written_by[producer] for reader in self.groups[group].readers)
                    if settled.issuperset(readers):
                        settled.add(producer)
                        pending.append(producer)
        return settled

    def to_restart(
        self,
        failed: Iterable[Subtask],
        is_available: Callable[[BlockingInput], bool],
        settled: Collection[int] = (),
    ) -> list[Subtask]:
        """Return all subtasks that start again when some failed.

        With a region start again its producers, where their partitions are gone, and all its readers but those that are
        settled: a region may write something else the second time.

        Parameters
        ----------
        failed : iterable of (vertex, subtask)
        is_available : callable
            Whether what a region reads can still be read.
        settled : collection of int
            Regions, as `settled` gives them.
        """
        regions: set[int] = set()
        read: set[int] = set()
        written: set[int] = set()  # groups that were looked at
        pending = [self.region_of[subtask] for subtask in failed]
        while pending:
            region = pending.pop()
            if region in regions:
                continue
            regions.add(region)
            for number in self.read_by.get(region, ()):
                if number not in read:
                    read.add(number)
                    partitions = self.groups[number].partitions
                    pending.extend(each.producer_region for each in partitions if not is_available(each))
            for number in self.written_by.get(region, ()):
                if number not in written:
                    written.add(number)
                    pending.extend(each for each in self.groups[number].readers if each not in settled)
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
