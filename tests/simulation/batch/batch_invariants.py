"""What holds in a batch job besides: by books of its own, and by the plain pairs of who reads from whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulation.world.invariants import Invariants, Subtask, demand

from flinkbuf.runtime.protocol import messages as ms
from flinkbuf.runtime.protocol.deployment import AttemptId, ChannelDescriptor, TaskDeploymentDescriptor
from flinkbuf.runtime.scheduler import master_actions as ma
from flinkbuf.runtime.scheduler.execution_state import ExecutionState
from flinkbuf.runtime.scheduler.slots import slot_count

if TYPE_CHECKING:
    from simulation.batch.batch_world import BatchWorld
    from simulation.world.managers import SimManager
    from simulation.world.tasks import SimTask

_S = ExecutionState
Key = tuple[int, int]  # index of the vertex, index of the subtask


class BatchInvariants(Invariants):
    """The books of one run of a batch job."""

    def __init__(self, world: BatchWorld) -> None:
        super().__init__(world)
        self.released: dict[str, str] = {}  # partitions that the job master let go, with their manager
        self.confirmed: set[str] = set()  # of these, what it knows to be gone
        self.kept: dict[str, str] = {}  # complete partitions as the job master knows them, with their manager
        self._in_step: set[AttemptId] = set()  # deployed by the step of the job master that is looked at
        self._restarts_before: dict[Key, int] = {}
        self._states_before: dict[Key, ExecutionState] = {}
        self._slots_lost: set[int] = set()
        self.ids: dict[tuple[Key, int], str] = {}  # of the newest attempts, by partition index
        self._pairs = _pairs(world)
        self._region = _regions(world)

    # ---- around each step

    def before(self, stimulus: object) -> None:
        """Note how all stand, so that what begins again can be judged."""
        super().before(stimulus)
        self._in_step.clear()
        self._states_before = {each.key: each.current.state for each in self.graph.subtasks()}
        self._restarts_before = self._restarts()
        self._slots_before = {each.key: each.slot for each in self.graph.subtasks()}
        self._kept_before = dict(self.kept)

    def after(self, stimulus: object, actions: list[Any]) -> None:
        """Check what begins again, what runs where, and what is kept."""
        if isinstance(stimulus, ma.ManagerSaid) and isinstance(stimulus.message, ms.PartitionsReleased):
            self._partitions_gone(stimulus)
        for action in actions:
            if isinstance(action, ma.SendTo) and isinstance(action.message, ms.ReleasePartitions):
                self._partitions_released(action)
        self._note_finished()
        super().after(stimulus, actions)
        self._note_gone()
        self._regions_together()
        self._slots_shared()
        self._committed_once()
        if not self.world.master.is_over:
            self._needed_only(stimulus)
            self._kept_for_somebody()

    def _note_finished(self) -> None:
        for subtask in self.graph.subtasks():
            current = subtask.current
            if current.state is _S.FINISHED and self._states_before[subtask.key] is not _S.FINISHED:
                for index, blocking in self._outputs(subtask.key):
                    if blocking and self.ids[subtask.key, index] not in self.released:
                        self.kept[self.ids[subtask.key, index]] = current.manager.id

    def _note_gone(self) -> None:
        """With their managers, or because who wrote them begins again."""
        restarting = {key for restart in self.world.master._tasks.restarts.waiting for key in restart.subtasks}
        current = {
            partition_id
            for (key, _), partition_id in self.ids.items()
            if self.graph.subtask(key).current.state is _S.FINISHED and key not in restarting
        }
        self.kept = {
            partition_id: manager_id
            for partition_id, manager_id in self.kept.items()
            if manager_id in self.accepted and partition_id in current
        }

    def _outputs(self, key: Key) -> list[tuple[int, bool]]:
        return [
            (edge.partition_index, not edge.is_pipelined) for edge in self.world.plan.edges if edge.source == key[0]
        ]

    # ---- regions

    def _regions_together(self) -> None:
        """All of a region are deployed by one step."""
        for attempt in self._in_step:
            key = self.vertex_index[attempt.vertex_id], attempt.subtask_index
            for other in self._region[key]:
                newest = self.graph.subtask(other).current.attempt
                demand(newest in self._in_step, "a region in parts:", attempt, newest)

    def _committed_once(self) -> None:
        """Committers begin behind all that prepares for them, and not again when all of them have finished."""
        waiting = {key for restart in self.world.master._tasks.restarts.waiting for key in restart.subtasks}
        complete: set[Key] = set()
        for index, vertex in enumerate(self.world.plan.vertices):
            if not vertex.is_committer:
                continue
            keys = [(index, number) for number in range(vertex.parallelism)]
            if all(self._states_before[key] is _S.FINISHED and key not in self._restarts_before for key in keys):
                complete.update(keys)
                again = [
                    key for key in keys if key in waiting or self.graph.subtask(key).current.state is not _S.FINISHED
                ]
                demand(not again, "committed twice:", again)
            begun = [key for key in keys if self.graph.subtask(key).current.attempt in self._in_step]
            # A sibling's writers may have begun again since this one's turn has come.
            writers = {writer for writer, _, reader, _ in self._pairs if reader in begun}
            for member in {member for writer in writers for member in self._region[writer]}:
                state = self.graph.subtask(member).current.state
                demand(state is _S.FINISHED, "committed before all is prepared:", begun, member, state)
        for key in waiting - self._restarts_before.keys():
            members = self._region[key]
            readers = {reader for writer, _, reader, blocking in self._pairs if blocking and writer in members}
            demand(readers <= waiting | complete, "they have read what is written again:", readers - waiting, key)
            is_done = all(self._states_before[member] is _S.FINISHED for member in members)
            demand(not (is_done and readers and readers <= complete), "prepared for nobody:", key)

    def _slots_shared(self) -> None:
        """A slot has subtasks of one index and group, and there are no more slots than the job has."""
        plan, users = self.world.plan, {}
        for subtask in self.graph.subtasks():
            current = subtask.current
            if not current.state.is_deployed or subtask.plan.is_in_program:
                continue
            share = subtask.plan.slot_sharing_group, subtask.index
            users.setdefault(subtask.slot, share)
            demand(users[subtask.slot] == share, "two in one slot:", subtask, users[subtask.slot])
            demand(subtask.slot < slot_count(plan), "a slot too many:", subtask, subtask.slot)
            fixed = plan.vertices[subtask.key[0]].is_slot_fixed
            demand(not fixed or subtask.slot == subtask.index, "not its own slot:", subtask, subtask.slot)

    def _check_slot(self, manager_id: str, descriptor: TaskDeploymentDescriptor) -> None:
        attempt = descriptor.attempt
        self._in_step.add(attempt)
        subtask = self.graph.execution_of(attempt).vertex
        if subtask.plan.is_in_program:
            demand(manager_id == "program", "a task of the program elsewhere:", attempt, manager_id)
            return
        registration = self.accepted[manager_id]
        demand(0 <= descriptor.slot_index < registration.slot_count, "a slot that its manager has not:", attempt)
        demand(registration.index + descriptor.slot_index == subtask.slot, "not its slot:", attempt, subtask.slot)

    def _check_outputs(self, descriptor: TaskDeploymentDescriptor) -> None:
        super()._check_outputs(descriptor)
        attempt = descriptor.attempt
        key = self.vertex_index[attempt.vertex_id], attempt.subtask_index
        for edge in self.world.plan.edges:
            if edge.source == key[0]:
                partition = descriptor.partitions[edge.partition_index]
                demand(partition.type == edge.partition_type, "a partition of another kind:", partition, edge)
                self.ids[key, edge.partition_index] = partition.partition_id

    def _check_producer(self, attempt: AttemptId, writer: AttemptId, channel: ChannelDescriptor) -> None:
        super()._check_producer(attempt, writer, channel)
        if channel.partition_id in self._blocking_ids():
            state = self.graph.execution_of(writer).state
            demand(state is _S.FINISHED, "it begins before what it reads is complete:", attempt, writer, state)
            demand(channel.partition_id not in self.released, "what it reads was let go:", attempt, writer)

    def _blocking_ids(self) -> set[str]:
        return {self.ids[key, index] for key, index in self.ids if dict(self._outputs(key))[index]}

    def _check_new_run(self, subtask: Subtask, manager_id: str) -> None:
        """Only where one of those that begin again has read what its process was given once."""
        if self.world.plan.vertices[self.vertex_index[subtask[0]]].is_slot_fixed:
            super()._check_new_run(subtask, manager_id)

    # ---- partitions

    def _partitions_released(self, action: ma.SendTo) -> None:
        owners = {partition_id: key for key, partition_id in self.ids.items()}
        for partition_id in action.message.partition_ids:
            if partition_id in self.released:
                demand(partition_id not in self.confirmed, "let go twice:", partition_id)
                demand(self.released[partition_id] == action.manager_id, "let go at another manager:", action)
                continue
            demand(partition_id in owners, "of an attempt of old:", partition_id)
            (producer, index) = owners[partition_id]
            holder = self.graph.subtask(producer).current.manager
            demand(holder is not None and holder.id == action.manager_id, "let go at another manager:", action)
            for reader in self._readers(producer, index):
                for member in self._region[reader]:
                    state = self.graph.subtask(member).current.state
                    demand(state is _S.FINISHED, "let go though somebody reads it:", partition_id, member, state)
            self.released[partition_id] = action.manager_id
            self.kept.pop(partition_id, None)

    def _partitions_gone(self, stimulus: ma.ManagerSaid) -> None:
        for partition_id in stimulus.message.partition_ids:
            demand(self.released.get(partition_id) == stimulus.manager_id, "gone without being let go:", stimulus)
            demand(partition_id not in self.world.data.kept, "said to be gone, and is there:", partition_id)
            if stimulus.message.session_id == self.world.master.session_id:
                self.confirmed.add(partition_id)

    def _kept_for_somebody(self) -> None:
        """Each that is kept has a reader that has not finished."""
        owners = {partition_id: key for key, partition_id in self.ids.items()}
        for partition_id in self.kept:
            regions = [self._region[reader] for reader in self._readers(*owners[partition_id])]
            states = [self.graph.subtask(member).current.state for region in regions for member in region]
            demand(not all(state is _S.FINISHED for state in states), "kept for nobody:", partition_id)

    def _readers(self, producer: Key, index: int) -> list[Key]:
        return [reader for writer, at, reader, blocking in self._pairs if (writer, at) == (producer, index)]

    # ---- what begins again

    def _restarts(self) -> dict[Key, int]:
        waiting = self.world.master._tasks.restarts.waiting
        return {key: id(restart) for restart in waiting for key in restart.subtasks}

    def _needed_only(self, stimulus: object) -> None:
        """By pairs: whoever begins again streams to one that failed, reads from it, or wrote what is gone."""
        waiting = self.world.master._tasks.restarts.waiting
        begun = {key for each in waiting for key in each.subtasks if key not in self._restarts_before}
        if not begun or any(each.is_global for each in waiting):
            return
        is_new_run = any(each.needs_new_run for each in waiting)
        before = self._states_before
        failed = {key for key in before if self._has_failed(key)}
        lost = {
            key
            for key, state in before.items()
            if state is _S.FINISHED
            and any(self._is_gone(key, at, is_new_run) for at, blocks in self._outputs(key) if blocks)
        }
        unfinished = {key for key, state in before.items() if state is not _S.FINISHED}
        if is_new_run:
            seeds = unfinished
        else:  # a lost partition alone is a reason if somebody waits for it
            seeds = failed | {
                key
                for key in lost
                for at, blocks in self._outputs(key)
                if blocks and any(before[each] is not _S.FINISHED for each in self._readers(key, at))
            }
        reached, pending = set(), list(seeds)
        while pending:
            key = pending.pop()
            if key in reached:
                continue
            reached.add(key)
            pending += self._region[key]
            for writer, at, reader, blocking in self._pairs:
                if writer == key and blocking:
                    pending.append(reader)
                if (
                    reader == key
                    and blocking
                    and before[writer] is _S.FINISHED
                    and self._is_gone(writer, at, is_new_run)
                ):
                    pending.append(writer)
        demand(begun <= reached, "these begin again for no reason:", sorted(begun - reached), stimulus)

    def _has_failed(self, key: Key) -> bool:
        """By a failure, or with the slot that it was about to take."""
        state = self.graph.subtask(key).current.state
        was = self._states_before[key]
        waits = was in (_S.CREATED, _S.SCHEDULED) and self._slots_before[key] is not None
        return (state is _S.FAILED and was is not _S.FAILED) or waits or state is _S.FAILED

    def _is_gone(self, producer: Key, index: int, is_new_run: bool) -> bool:
        """What it had written before this step cannot be read any more."""
        partition_id = self.ids.get((producer, index))
        manager_id = self._kept_before.get(partition_id)
        if manager_id is None or manager_id not in self.accepted:
            return True
        return (is_new_run and manager_id != "program") or partition_id not in self._still_there()

    def _still_there(self) -> set[str]:
        return {each.id for each in self.world.master._tasks.partitions.kept}

    def task_forgotten(self, task: SimTask) -> None:
        """What it wrote is freed: the data plane sees whether somebody reads it."""
        demand(task.is_gone, "a task was forgotten that runs:", task)

    # ---- the end

    def at_the_end(self) -> None:
        """No partition is left."""
        super().at_the_end()
        left = {each: task for each, task in self.world.data.kept.items() if task.manager.is_alive}
        demand(not left, "partitions are left:", left)

    def manager_leaves(self, manager: SimManager, left_behind: tuple[AttemptId, ...]) -> None:
        """Nobody is left who reads in it."""
        super().manager_leaves(manager, left_behind)


def _pairs(world: BatchWorld) -> list[tuple[Key, int, Key, bool]]:
    """(writer, its partition, reader, whether it is read when it is complete), for every channel."""
    return [
        ((edge.source, producer), edge.partition_index, (edge.target, consumer), not edge.is_pipelined)
        for edge in world.plan.edges
        for consumer in range(world.plan.vertices[edge.target].parallelism)
        for producer, _ in world.plan.channels_of(edge, consumer)
    ]


def _regions(world: BatchWorld) -> dict[Key, list[Key]]:
    """All subtasks that a subtask streams to, or through others, itself included."""
    keys = [(index, number) for index, each in enumerate(world.plan.vertices) for number in range(each.parallelism)]
    label = {key: key for key in keys}
    changed = True
    while changed:
        changed = False
        for writer, _, reader, blocking in _pairs(world):
            if not blocking and label[writer] != label[reader]:
                label[writer] = label[reader] = min(label[writer], label[reader])
                changed = True
    return {key: [other for other in keys if label[other] == label[key]] for key in keys}
