"""Which blocking partitions there are, at which task managers, and when no task needs them any more.

A task manager keeps what a task has written to its end until the job master lets it go: when all regions that read it
have finished. A lost partition is written again if a task still needs it. Flink: JobMasterPartitionTrackerImpl,
RegionPartitionGroupReleaseStrategy, RegionFailoverResultPartitionAvailabilityChecker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flinkbuf.runtime.scheduler.regions import PipelinedRegions, Subtask

PartitionKey = tuple[Subtask, int]  # the producer, and which of its partitions


@dataclass(frozen=True)
class KeptPartition:
    """A partition that is complete, and the task manager that has it."""

    key: PartitionKey
    id: str
    manager_id: str


class PartitionTracker:
    """The blocking partitions of a job.

    Parameters
    ----------
    regions : PipelinedRegions

    Examples
    --------
    >>> from flinkbuf.runtime.graph.job_plan import EdgePlan, JobPlan, VertexPlan
    >>> vertices = (VertexPlan("a" * 32, "source", 1, 128), VertexPlan("b" * 32, "sink", 1, 128))
    >>> plan = JobPlan("c" * 32, "two", vertices, (EdgePlan(0, 1, 0, 0, True, partition_type="BLOCKING"),))
    >>> tracker = PartitionTracker(PipelinedRegions(plan))
    >>> tracker.finished((0, 0), "m1", {0: "aa"}), tracker.is_there(((0, 0), 0))
    ([], True)
    >>> tracker.finished((1, 0), "m2", {})
    [KeptPartition(key=((0, 0), 0), id='aa', manager_id='m1')]
    >>> tracker.is_there(((0, 0), 0))
    False
    """

    def __init__(self, regions: PipelinedRegions) -> None:
        self._regions = regions
        self._group_of: dict[PartitionKey, int] = {}
        for number, group in enumerate(regions.groups):
            for each in group.partitions:
                self._group_of[each.producer, each.partition_index] = number
        self._kept: dict[PartitionKey, KeptPartition] = {}
        self._keys: dict[str, PartitionKey] = {}  # by id
        self._written: dict[Subtask, list[PartitionKey]] = {}  # by finished producer; kept, let go, or lost
        self._missing = [len(group.partitions) for group in regions.groups]  # by group: not written, or gone
        self._open = [len(group.readers) for group in regions.groups]  # by group: regions that have not finished
        self._running = [len(members) for members in regions.members]  # by region: subtasks that have not finished
        self._done: set[int] = set()  # regions that have finished
        self._preparing = {index: set(given) for index, given in regions.prepared_by.items()}  # that have not finished
        # Let go, by manager and id, after how many heartbeats; until the manager says that they are gone.
        self._unconfirmed: dict[str, dict[str, int]] = {}

    # ---- what is there

    def finished(self, producer: Subtask, manager_id: str, ids: dict[int, str]) -> list[KeptPartition]:
        """Note the partitions of a finished subtask, by partition index, as complete.

        Returns the partitions no longer needed, whose readers have all finished now; they count as gone from now on.
        """
        unread = [
            self._remove(key) for key in self._keep(producer, manager_id, ids) if not self._open[self._group_of[key]]
        ]
        region = self._regions.region_of[producer]
        self._running[region] -= 1
        return unread if self._running[region] else [*unread, *self._finished(region)]

    def _keep(self, producer: Subtask, manager_id: str, ids: dict[int, str]) -> list[PartitionKey]:
        keys = self._written[producer] = [(producer, index) for index in ids if (producer, index) in self._group_of]
        for key in keys:
            kept = self._kept[key] = KeptPartition(key, ids[key[1]], manager_id)
            self._keys[kept.id] = key
            self._missing[self._group_of[key]] -= 1
        return keys

    def is_there(self, key: PartitionKey) -> bool:
        """Return whether a partition is complete and can be read."""
        return key in self._kept

    def has_all(self, region: int) -> bool:
        """Return whether all that a region reads is complete, so that it can begin.

        A committer waits for the end of all regions that prepare for it or for its siblings. While one of them runs it
        may fail, and would prepare something else.
        """
        committer = self._regions.committers.get(region)
        if committer is not None and self._preparing[committer]:
            return False
        return not any(self._missing[number] for number in self._regions.read_by.get(region, ()))

    @property
    def kept(self) -> list[KeptPartition]:
        """Return all partitions that are there."""
        return list(self._kept.values())

    # ---- when it goes

    def _finished(self, region: int) -> list[KeptPartition]:
        self._done.add(region)
        for waited_for in self._preparing.values():
            waited_for.discard(region)
        freed: list[KeptPartition] = []
        for number in self._regions.read_by.get(region, ()):
            self._open[number] -= 1
            if self._open[number] == 0:
                freed += self._remove_all(number)
        return freed

    def let_go(self, manager_id: str, ids: Iterable[str], sequence: int) -> None:
        """Note that a manager is told to delete these, after the heartbeat of that number."""
        self._unconfirmed.setdefault(manager_id, {}).update(dict.fromkeys(ids, sequence))

    def gone(self, manager_id: str, ids: Iterable[str]) -> None:
        """Note that a manager has deleted these."""
        waiting = self._unconfirmed.get(manager_id, {})
        for each in ids:
            waiting.pop(each, None)
        if not waiting:
            self._unconfirmed.pop(manager_id, None)

    def unheard(self, manager_id: str, sequence: int) -> tuple[str, ...]:
        """Return the releases sent before the answered heartbeat that the manager has not confirmed."""
        return tuple(each for each, told in self._unconfirmed.get(manager_id, {}).items() if told < sequence)

    def begins_again(self, subtask: Subtask) -> None:
        """Drop the partitions of a finished subtask that runs again, and reopen its region."""
        if subtask not in self._written:
            return
        region = self._regions.region_of[subtask]
        self._running[region] += 1
        if region in self._done:
            self._done.discard(region)
            for committer, regions in self._regions.prepared_by.items():
                if region in regions:
                    self._preparing[committer].add(region)
            for number in self._regions.read_by.get(region, ()):
                self._open[number] += 1
        for key in self._written.pop(subtask):
            if key in self._kept:
                self._remove(key)

    def lose_manager(self, manager_id: str) -> None:
        """Drop all partitions of a task manager that has gone."""
        self._unconfirmed.pop(manager_id, None)
        for key in [key for key, kept in self._kept.items() if kept.manager_id == manager_id]:
            self._remove(key)

    def lose(self, partition_id: str) -> bool:
        """Drop a partition that cannot be read; return whether it was believed to be there."""
        key = self._keys.get(partition_id)
        if key is not None:
            self._remove(key)
        return key is not None

    def wanted_again(self, is_reading: Callable[[int], bool]) -> list[Subtask]:
        """Return the finished subtasks whose partitions are gone though a task waits for them.

        Parameters
        ----------
        is_reading : callable
            Whether a region, by number, runs: perhaps it has read all that it needs, else it will fail.
        """
        lost = {subtask: [key for key in keys if key not in self._kept] for subtask, keys in self._written.items()}
        groups = {self._group_of[key] for keys in lost.values() for key in keys}
        wanted = {
            number
            for number in groups
            if not all(each in self._done or is_reading(each) for each in self._regions.groups[number].readers)
        }
        return [each for each, keys in lost.items() if any(self._group_of[key] in wanted for key in keys)]

    def _remove_all(self, number: int) -> list[KeptPartition]:
        keys = ((each.producer, each.partition_index) for each in self._regions.groups[number].partitions)
        return [self._remove(key) for key in keys if key in self._kept]

    def _remove(self, key: PartitionKey) -> KeptPartition:
        kept = self._kept.pop(key)
        del self._keys[kept.id]
        self._missing[self._group_of[key]] += 1
        return kept


def by_manager(partitions: Iterable[KeptPartition]) -> dict[str, tuple[str, ...]]:
    """Return the ids of partitions by the task manager that has them.

    Examples
    --------
    >>> by_manager([KeptPartition(((0, 0), 0), "aa", "m1"), KeptPartition(((0, 1), 0), "bb", "m1")])
    {'m1': ('aa', 'bb')}
    """
    found: dict[str, list[str]] = {}
    for each in partitions:
        found.setdefault(each.manager_id, []).append(each.id)
    return {manager_id: tuple(ids) for manager_id, ids in found.items()}
