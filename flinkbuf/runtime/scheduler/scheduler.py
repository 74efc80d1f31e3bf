"""Subtasks that wait for their slots, and go to their task managers as soon as all have come.

All of a streaming job go together. Of a batch job each region goes by itself, as soon as what it reads is complete and
there are slots for it.
Flink: PipelinedRegionSchedulingStrategy, DefaultExecutionDeployer, and the bulk slot requests of the slot pool.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from flinkbuf.runtime.protocol.messages import DeployTasks
from flinkbuf.runtime.scheduler.deployment_builder import DeploymentBuilder
from flinkbuf.runtime.scheduler.execution_graph import Execution, ExecutionGraph, ExecutionVertex
from flinkbuf.runtime.scheduler.execution_state import ExecutionStep
from flinkbuf.runtime.scheduler.manager_table import ManagerTable
from flinkbuf.runtime.scheduler.partition_tracker import PartitionTracker
from flinkbuf.runtime.scheduler.regions import PipelinedRegions, Subtask
from flinkbuf.runtime.scheduler.slot_assignment import SlotAssignment
from flinkbuf.runtime.scheduler.slots import ranges_text


@dataclass(eq=False)
class DeploymentBatch:
    """Subtasks that are deployed together, or not at all.

    Attributes
    ----------
    subtasks : dict
        By key, producers first.
    slots : set
        Numbers of the slots that they need.
    needs_program : bool
        One of them runs in the program.
    """

    subtasks: dict[Subtask, ExecutionVertex]
    due_ms: int
    slots: set[int] = field(init=False)
    needs_program: bool = field(init=False)

    def __post_init__(self) -> None:
        self.look()

    def look(self) -> None:
        """Compute again which slots the subtasks need."""
        slots = {subtask.slot for subtask in self.subtasks.values()}
        self.needs_program = None in slots
        self.slots = {slot for slot in slots if slot is not None}


class Scheduler:
    """Batches of subtasks that wait for slots.

    Parameters
    ----------
    graph : ExecutionGraph
    managers : ManagerTable
    session_id, epoch
        As of `DeploymentBuilder`.
    regions : PipelinedRegions
    partitions : PartitionTracker
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        managers: ManagerTable,
        session_id: str,
        epoch: int,
        regions: PipelinedRegions,
        partitions: PartitionTracker,
    ) -> None:
        self.graph = graph
        self.managers = managers
        self.builder = DeploymentBuilder(graph, session_id, epoch)
        self.waiting: list[DeploymentBatch] = []
        self._regions = regions
        self._partitions = partitions
        self._is_batch = graph.plan.is_batch
        self.slots = SlotAssignment(graph, managers.slots.count)
        self._without_input: set[int] = set()  # regions whose input is not complete
        self._without_slots: dict[int, None] = {}  # regions that could begin, in order
        self._has_news = False  # since the last look an attempt has ended, or one is to begin

    def schedule(self, subtasks: Iterable[ExecutionVertex], now_ms: int) -> tuple[int, ...]:
        """Let subtasks wait for their slots; return the slots that must be asked for, by the run `managers.run`.

        Those of a batch job wait for their input first: `begin` goes on with them.
        """
        if self._is_batch:
            self._without_input.update(self._regions.region_of[each.key] for each in subtasks)
            self._has_news = True
            return ()
        batch = self._batch(subtasks, now_ms)
        for subtask in batch.subtasks.values():
            self.graph.step(subtask.current, ExecutionStep.SCHEDULE, now_ms)
        return self.managers.ask(sorted(batch.slots))

    def begin(self, now_ms: int) -> tuple[int, ...]:
        """Give slots to the regions of a batch job whose input is complete; return the slots to ask for."""
        if not self._has_news:
            return ()
        self._has_news = False
        for region in sorted(self._without_input):
            if self._partitions.has_all(region):
                self._without_input.remove(region)
                self._without_slots[region] = None
                for subtask in self._members(region):
                    self.graph.step(subtask.current, ExecutionStep.SCHEDULE, now_ms)
        needs_slots = False
        for region in list(self._without_slots):
            members = self._members(region)
            if self.slots.take(members, self.managers.slots.holder):
                del self._without_slots[region]
                needs_slots |= bool(self._batch(members, now_ms).slots)
        # Request all slots at once: other regions will want them soon.
        return self.managers.ask(range(self.managers.slots.count)) if needs_slots else ()

    def _members(self, region: int) -> list[ExecutionVertex]:
        return [self.graph.subtask(key) for key in self._regions.members[region]]

    def ended(self, subtask: ExecutionVertex) -> None:
        """Note the end of an attempt: its slot may be free for another region, or that region's input complete."""
        if self._is_batch:
            self.slots.give_back(subtask)
            self._has_news = True

    def _batch(self, subtasks: Iterable[ExecutionVertex], now_ms: int) -> DeploymentBatch:
        batch = DeploymentBatch(
            {subtask.key: subtask for subtask in subtasks}, now_ms + self.managers.config.slot_request_timeout_ms
        )
        self.waiting.append(batch)
        return batch

    def deploy(self, now_ms: int) -> list[tuple[str, DeployTasks]]:
        """Return (task manager, message) of what can be deployed now; it counts as deployed from here on."""
        deployed: list[Execution] = []
        for batch in [each for each in self.waiting if self._has_all(each)]:
            self.waiting.remove(batch)
            for subtask in batch.subtasks.values():
                self.graph.deploy(subtask.current, self.managers.of_slot(subtask.slot), now_ms)
                subtask.current.deployed_after = self.managers.heartbeats.sequence
                deployed.append(subtask.current)
        return self.builder.build(deployed)

    def _has_all(self, batch: DeploymentBatch) -> bool:
        has_program = self.managers.has_program or not batch.needs_program
        holder = self.managers.slots.holder
        # It is asked at each task manager that comes: most times the numbers alone say no.
        return has_program and len(holder) >= len(batch.slots) and all(slot in holder for slot in batch.slots)

    def drop(self, subtasks: Iterable[Subtask]) -> None:
        """Remove subtasks from the waiting batches."""
        dropped = list(subtasks)
        for region in {self._regions.region_of[subtask] for subtask in dropped} if self._is_batch else ():
            self._without_input.discard(region)
            self._without_slots.pop(region, None)
        for batch in self.waiting:
            for subtask in dropped:
                batch.subtasks.pop(subtask, None)
            batch.look()
        self.waiting = [batch for batch in self.waiting if batch.subtasks]

    def clear(self) -> None:
        """Remove all waiting batches."""
        self.waiting.clear()
        self._without_input.clear()
        self._without_slots.clear()

    def waiting_for(self, slots: Iterable[int | None]) -> list[ExecutionVertex]:
        """Return the subtasks that wait with or for one of these slots; None: in the program."""
        wanted = set(slots)
        return [each for batch in self.waiting for each in batch.subtasks.values() if each.slot in wanted]

    def overdue(self, now_ms: int) -> list[DeploymentBatch]:
        """Return the batches that have waited too long."""
        return [batch for batch in self.waiting if batch.due_ms <= now_ms]

    def what_is_missing(self, batch: DeploymentBatch) -> str:
        """Return what a batch waits for in vain, and what the user can do."""
        missing = self.managers.slots.missing(batch.slots)
        waited_s = self.managers.config.slot_request_timeout_ms / 1000
        if not missing:
            return f"the task manager of the program itself has not come up within {waited_s:g} s"
        count, needed = len(missing), len(batch.slots)
        return (
            f"job {self.graph.plan.job_name!r} needs {needed} slots, but after {waited_s:g} s "
            f"{needed - count} are there and {count} missing ({ranges_text(missing)}): no task manager has come up "
            f"for them; give the job more slots, lower its parallelism, or raise slot.request.timeout if they only "
            f"need longer"
        )

    @property
    def next_deadline_ms(self) -> int | None:
        """Return when the first batch has waited too long."""
        return min((batch.due_ms for batch in self.waiting), default=None)
