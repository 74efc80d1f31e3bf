"""Which slots the subtasks of a batch job take while they run.

A subtask of a batch job has no slot of its own: it takes one that is free, and gives it back at its end. Those of one
index and slot sharing group that run at the same time share it. Flink: SlotSharingExecutionSlotAllocator,
LocalInputPreferredSlotSharingStrategy.
"""

from __future__ import annotations

from collections.abc import Iterable

from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.scheduler.execution_graph import ExecutionGraph, ExecutionVertex
from flinkbuf.runtime.scheduler.regions import Subtask

Share = tuple[str, int]  # a slot sharing group, and the index of its subtasks that share a slot


class SlotAssignment:
    """The slots of a batch job, and the subtasks in them.

    Parameters
    ----------
    graph : ExecutionGraph
    count : int
        Slots of the job.
    """

    def __init__(self, graph: ExecutionGraph, count: int) -> None:
        self._graph = graph
        self._count = count
        self._users: dict[int, set[Subtask]] = {}  # by slot; a free one is not there
        self._shares: dict[Share, int] = {}  # slots in use
        self._near = _nearest_producers(graph.plan)

    def take(self, subtasks: Iterable[ExecutionVertex], held: Iterable[int]) -> bool:
        """Give all of them a slot; return whether there were enough: else no subtask got one.

        Parameters
        ----------
        subtasks : iterable of ExecutionVertex
        held : iterable of int
            Slots that a task manager holds already; they are taken before others.
        """
        shares: dict[Share, list[ExecutionVertex]] = {}
        for subtask in subtasks:
            if not subtask.plan.is_in_program:
                shares.setdefault((subtask.plan.slot_sharing_group, subtask.index), []).append(subtask)
        chosen = self._choose(shares, set(held))
        if chosen is None:
            return False
        for share, slot in chosen.items():
            self._shares[share] = slot
            for subtask in shares[share]:
                subtask.slot = slot
                self._users.setdefault(slot, set()).add(subtask.key)
        return True

    def _choose(self, shares: dict[Share, list[ExecutionVertex]], held: set[int]) -> dict[Share, int] | None:
        chosen = {share: self._shares[share] for share in shares if share in self._shares}
        free = set(range(self._count)) - self._users.keys()
        fixed = [each for each in shares if any(subtask.plan.is_slot_fixed for subtask in shares[each])]
        for share in fixed:
            slot = share[1]
            if chosen.setdefault(share, slot) != slot or (share not in self._shares and slot not in free):
                return None
            free.discard(slot)
        open_ones = [share for share in shares if share not in chosen]
        if len(open_ones) > len(free):
            return None
        for share in open_ones:
            at_once = free & held or free  # a process that is there is better than one that has to come
            wish = next((slot for slot in self._wishes(shares[share]) if slot in at_once), None)
            slot = min(at_once) if wish is None else wish
            chosen[share] = slot
            free.discard(slot)
        return chosen

    def _wishes(self, subtasks: list[ExecutionVertex]) -> Iterable[int]:
        """Return the preferred slots of a subtask: where it ran before, and where its input was written."""
        for subtask in subtasks:
            if subtask.slot is not None:
                yield subtask.slot
            producer = self._near.get(subtask.key)
            slot = None if producer is None else self._graph.subtask(producer).slot
            if slot is not None:
                yield slot

    def give_back(self, subtask: ExecutionVertex) -> None:
        """Free the slot of a subtask that has ended, if no other subtask shares it."""
        users = self._users.get(-1 if subtask.slot is None else subtask.slot)
        if users is None or subtask.key not in users or subtask.slot is None:
            return
        users.remove(subtask.key)
        if not users:
            del self._users[subtask.slot]
            self._shares.pop((subtask.plan.slot_sharing_group, subtask.index), None)

    @property
    def users(self) -> dict[int, set[Subtask]]:
        """Return the subtasks of each slot; do not change the answer."""
        return self._users


def _nearest_producers(plan: JobPlan) -> dict[Subtask, Subtask]:
    """Return the subtask of which each reads the most, if any: by its first edge that is pointwise."""
    found: dict[Subtask, Subtask] = {}
    for edge in plan.edges:
        if edge.is_pointwise:
            for number in range(plan.vertices[edge.target].parallelism):
                producer, _ = plan.channels_of(edge, number)[0]
                found.setdefault((edge.target, number), (edge.source, producer))
    return found
