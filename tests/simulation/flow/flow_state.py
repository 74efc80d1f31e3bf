"""The state of a made-up task: taken at a checkpoint, handed to a made-up storage, and put together again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulation.flow.flow_records import MAX_PARALLELISM, Path, Records, key_group_of, key_groups_of

from flinkbuf.checkpoints.handles import (
    ChannelState,
    KeyedStateHandle,
    OperatorSubtaskState,
    SharedFile,
    StateHandle,
    SubtaskState,
    TaskRestore,
)
from flinkbuf.checkpoints.options import CheckpointOptions, SnapshotKind
from flinkbuf.streaming.sinks.two_phase_commit import TransactionsState

if TYPE_CHECKING:
    from simulation.flow.flow_task import FlowTask

Count = dict[tuple[Path, int], int]  # records so far, by way and split


@dataclass
class FlowState:
    """What a task knows."""

    positions: dict[int, int] = field(default_factory=dict)  # of a source's splits
    counts: Count = field(default_factory=dict)
    transactions: list[TransactionsState] = field(default_factory=list)  # of sinks, as they were restored
    shared_files: tuple[SharedFile, ...] = ()  # of the last checkpoint that is known to be complete


@dataclass(frozen=True)
class Snapshot:
    """A copy of it, before it is written."""

    positions: dict[int, int]
    counts: Count
    transactions: tuple[TransactionsState, ...]
    is_finished: bool
    is_unknown: bool = False  # the task began at its end
    input_state: dict[tuple[int, int], list[Records]] = field(default_factory=dict)
    output_state: dict[tuple[int, int], list[Records]] = field(default_factory=dict)


class StateWriter:
    """Makes handles of a snapshot, and back: the part of snapshot writer, reader and state backend."""

    def __init__(self, task: FlowTask) -> None:
        self.task = task
        self.storage = task.world.storage
        routes = task.routes
        vertex = task.world.plan.vertices[task.vertex]
        self.head, self.tail = vertex.operators[0].id, vertex.operators[-1].id
        self.is_source = not routes.inputs[task.vertex]
        self.is_sink = not routes.outputs[task.vertex]
        self.is_keyed = routes.is_keyed(task.vertex)
        self._taken: dict[int, tuple[SharedFile, ...]] = {}  # files of checkpoints that may become complete

    # ---- to handles

    def write(self, checkpoint_id: int, snapshot: Snapshot, options: CheckpointOptions) -> SubtaskState:
        """Write all of it; whoever calls has seen to it that the storage does."""
        operators: dict[str, dict[str, Any]] = {self.head: {}, self.tail: {}}
        if self.is_source:
            operators[self.head]["positions"] = tuple(snapshot.positions.items())
        elif not self.is_keyed:
            operators[self.head]["counts"] = dict(snapshot.counts)
        if self.is_sink:
            operators[self.tail]["transactions"] = snapshot.transactions
        states = []
        for operator_id, content in operators.items():
            keyed = ()
            if operator_id == self.head and self.is_keyed:
                keyed = (self._keyed(checkpoint_id, snapshot.counts, options),)
            states.append(
                OperatorSubtaskState(
                    operator_id,
                    self.storage.write(content, options.location) if content else None,
                    has_lists="positions" in content or "transactions" in content,
                    has_union_lists="counts" in content,
                    keyed=keyed,
                )
            )
        inputs, outputs = (self._channels(each, options) for each in (snapshot.input_state, snapshot.output_state))
        return SubtaskState(tuple(states), inputs, outputs, snapshot.is_finished)

    def _keyed(self, checkpoint_id: int, counts: Count, options: CheckpointOptions) -> KeyedStateHandle:
        first, last = key_groups_of(self.task.descriptor.parallelism, self.task.attempt.subtask_index)
        handle = self.storage.write(dict(counts), options.location)
        files: tuple[SharedFile, ...] = ()
        if (
            options.snapshot_kind is SnapshotKind.CHECKPOINT
            and self.task.world.flow.is_incremental
            and options.location
        ):
            old = self.task.memory.shared_files if self.task.world.rng.random() < 0.7 else ()
            files = (*old, self._new_file(options))
        elif options.snapshot_kind is SnapshotKind.FULL_CHECKPOINT and options.location:
            files = (self._new_file(options),)
        self._taken[checkpoint_id] = files
        return KeyedStateHandle(first, last, MAX_PARALLELISM, handle, "hashmap", files)

    def _new_file(self, options: CheckpointOptions) -> SharedFile:
        handle = self.storage.write("a file of the backend", options.location.rpartition("/")[0] + "/shared")
        return SharedFile(handle.path.rpartition("/")[2], handle)

    def _channels(
        self, state: dict[tuple[int, int], list[Records]], options: CheckpointOptions
    ) -> tuple[ChannelState, ...]:
        return tuple(
            ChannelState(index, channel, self.storage.write(tuple(records), options.location))
            for (index, channel), records in state.items()
            if records
        )

    def completed(self, checkpoint_id: int) -> None:
        """Later checkpoints may refer to the files of this one."""
        if checkpoint_id in self._taken:
            self.task.memory.shared_files = self._taken[checkpoint_id]
        self._taken = {each: files for each, files in self._taken.items() if each > checkpoint_id}

    # ---- from handles

    def read(self, restore: TaskRestore, options_are_ours: bool) -> FlowState:
        """Put together what a subtask begins with."""
        state, task = FlowState(), self.task
        subtask, parallelism = task.attempt.subtask_index, task.descriptor.parallelism
        for operator in restore.operators:
            is_same = operator.old_parallelism == parallelism
            contents = [self.storage.read(each) if each.size else {} for each in operator.operator]
            for content in contents:
                for key, count in content.get("counts", {}).items():
                    state.counts[key] = max(count, state.counts.get(key, 0))
            state.positions.update(_own(contents, "positions", subtask, parallelism, is_same))
            state.transactions += _own(contents, "transactions", subtask, parallelism, is_same)
            for keyed in operator.keyed:
                self._read_keyed(state, keyed, is_same and options_are_ours)
        return state

    def _read_keyed(self, state: FlowState, keyed: KeyedStateHandle, keeps_files: bool) -> None:
        first, last = key_groups_of(self.task.descriptor.parallelism, self.task.attempt.subtask_index)
        for file in keyed.shared_files:
            self.storage.read(file.handle)
        if keeps_files:
            state.shared_files = keyed.shared_files
        for (path, split), count in self.storage.read(keyed.handle).items():
            if first <= key_group_of(split) <= last:
                state.counts[path, split] = count

    def read_channels(self, channels: tuple[ChannelState, ...]) -> list[tuple[int, int, tuple[Records, ...]]]:
        """Records that were under way."""
        return [(each.index, each.channel, self.storage.read(each.handle)) for each in channels]


def _own(contents: list[dict[str, Any]], name: str, subtask: int, parallelism: int, is_same: bool) -> list[Any]:
    """One subtask's share of a list: its own, or every nth of all after a rescale."""
    if is_same and len(contents) == 1:
        return list(contents[0].get(name, ()))
    if is_same:
        return list(contents[subtask].get(name, ())) if contents else []
    together = [item for content in contents for item in content.get(name, ())]
    return [item for index, item in enumerate(together) if index % parallelism == subtask]


def inline(text: str) -> StateHandle:
    """Bytes that lie in the handle itself."""
    return StateHandle(size=len(text), data=text.encode())
