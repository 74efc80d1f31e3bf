"""Which slot a subtask takes, and which task manager holds it.

Slots of a job are numbered: a slot sharing group has as many as its widest vertex, groups follow each other in the
order in which they first appear, and subtask i of every vertex of a group takes the group's slot i. So pointwise
neighbours share a process, vertices of a co-location group do, too, and a lost slot can be asked for by its number.
Flink: SlotSharingGroup, SlotSharingExecutionSlotAllocator, SlotPool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.graph.slot_needs import Need, connected, slots_of_widest, widths
from flinkbuf.runtime.scheduler.regions import PipelinedRegions


def slot_offsets(plan: JobPlan) -> dict[str, int]:
    """Return the first slot of each slot sharing group; in a batch job they have the same, one after the other."""
    if plan.is_batch:
        return dict.fromkeys(widths(_needs(plan)), 0)
    offsets, end = {}, 0
    for group, width in widths(_needs(plan)).items():
        offsets[group] = end
        end += width
    return offsets


def slot_count(plan: JobPlan) -> int:
    """Return how many slots a job takes: all that it needs, or as many as its widest region, if it is a batch job.

    A batch job does with fewer, where ``slotmanager.number-of-slots.max`` says so: with those of the widest of the
    parts that must run at the same time.

    Raises
    ------
    ValueError
        The job needs more slots than it may take.

    Examples
    --------
    >>> from flinkbuf.runtime.graph.job_plan import VertexPlan
    >>> source, sink = VertexPlan("a" * 32, "source", 2, 128), VertexPlan("b" * 32, "sink", 3, 128)
    >>> slot_count(JobPlan("c" * 32, "both", (source, sink)))
    3
    """
    needs, limit = _needs(plan), plan.slot_limit
    if not plan.is_batch:
        count = least = sum(widths(needs).values())
    else:
        pairs = ((edge.source, edge.target) for edge in plan.edges if edge.is_pipelined)
        count = least = slots_of_widest(needs, connected(len(needs), pairs))
        if limit is not None and limit < count:
            least = _least(plan)
    if limit is not None and limit < least:
        raise ValueError(
            f"job {plan.job_name!r} needs {least} slots at the same time, but slotmanager.number-of-slots.max is "
            f"{limit}: raise it, or lower the job's parallelism"
        )
    return count if limit is None else min(count, limit)


def _least(plan: JobPlan) -> int:
    """Return the slots of the widest part whose subtasks stream to each other; a fixed slot group counts in full."""
    regions = PipelinedRegions(plan)
    shares = (
        {
            (plan.vertices[vertex].slot_sharing_group, number)
            for vertex, number in members
            if not plan.vertices[vertex].is_in_program
        }
        for members in regions.members
    )
    fixed = (vertex.parallelism for vertex in plan.vertices if vertex.is_slot_fixed)
    return max(*map(len, shares), max(fixed, default=0), 0)


def slot_of(plan: JobPlan, vertex_index: int, subtask: int) -> int | None:
    """Return the number of the slot that a subtask takes; None for one that runs in the program.

    In a batch job that is so for those whose slot is fixed; others take what is free.
    """
    vertex = plan.vertices[vertex_index]
    return None if vertex.is_in_program else slot_offsets(plan)[vertex.slot_sharing_group] + subtask


def _needs(plan: JobPlan) -> list[Need]:
    return [(each.slot_sharing_group, 0 if each.is_in_program else each.parallelism) for each in plan.vertices]


class SlotPool:
    """The slots of a job: held by a task manager, asked for, or neither.

    Parameters
    ----------
    count : int
        Slots that the job needs.

    Attributes
    ----------
    holder : dict
        Task manager's id by slot.
    asked : dict
        Of a slot that no manager holds yet: the run that was to bring it.

    Examples
    --------
    >>> pool = SlotPool(3)
    >>> pool.ask([0, 1, 2], run=1)
    >>> pool.expects(range(2), run=1), pool.expects(range(2), run=0)
    (True, False)
    >>> pool.fill("m", range(2))
    >>> pool.missing(range(3)), pool.unasked(range(3)), pool.free("m")
    ([2], [], [0, 1])
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.holder: dict[int, str] = {}
        self.asked: dict[int, int] = {}
        self._held_by: dict[str, list[int]] = {}

    def ask(self, slots: Iterable[int], run: int) -> None:
        """Note that a run is to bring these slots; an earlier run is not needed for them any more."""
        self.asked.update((slot, run) for slot in slots)

    def expects(self, slots: range, run: int) -> bool:
        """Return whether a task manager with these slots, of this run, is the one that was asked for."""
        return bool(slots) and all(self.asked.get(slot) == run for slot in slots)

    def fill(self, manager_id: str, slots: Iterable[int]) -> None:
        """Give these slots to a task manager that has come."""
        for slot in slots:
            del self.asked[slot]
            self.holder[slot] = manager_id
            self._held_by.setdefault(manager_id, []).append(slot)

    def free(self, manager_id: str) -> list[int]:
        """Free and return the slots of a task manager that has gone."""
        slots = [slot for slot in self._held_by.pop(manager_id, ()) if self.holder[slot] == manager_id]
        for slot in slots:
            del self.holder[slot]
        return slots

    def give_up(self, run: int) -> list[int]:
        """Drop the slots that a failed run was to bring; return them."""
        slots = [slot for slot, asked in self.asked.items() if asked == run]
        for slot in slots:
            del self.asked[slot]
        return slots

    def forget(self, slots: Iterable[int]) -> None:
        """Drop these slots: no run is to bring them any more."""
        for slot in slots:
            self.asked.pop(slot, None)

    def missing(self, slots: Iterable[int]) -> list[int]:
        """Return the slots that no manager holds."""
        return [slot for slot in slots if slot not in self.holder]

    def unasked(self, slots: Iterable[int]) -> list[int]:
        """Return the slots that no manager holds and no run is to bring."""
        return [slot for slot in slots if slot not in self.holder and slot not in self.asked]


def ranges_text(numbers: Iterable[int]) -> str:
    """Return numbers as a reader likes them.

    Examples
    --------
    >>> ranges_text([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in _runs_of(numbers))


def _runs_of(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for number in sorted(numbers):
        if first is not None and last is not None and number != last + 1:
            yield first, last
            first = None
        first, last = number if first is None else first, number
    if first is not None and last is not None:
        yield first, last
