"""The surroundings of one operator; all of them come from outside.

Flink: StreamOperatorParameters, StreamTaskStateInitializer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from flinkbuf.streaming.chain.operator_config import ExecutionSettings, TaskInfo
from flinkbuf.streaming.state.operator_state import OperatorStateBackend
from flinkbuf.streaming.state.snapshot import OperatorSnapshot
from flinkbuf.streaming.time.clock import Clock
from flinkbuf.streaming.time.latency_stats import LatencyStats
from flinkbuf.streaming.time.processing_time import ProcessingTimeService
from flinkbuf.types.values import LatencyMarker

if TYPE_CHECKING:
    from flinkbuf.metrics import MetricGroup
    from flinkbuf.streaming.state.state_backend import KeyedStateBackend


class MailboxExecutor(Protocol):
    """Lets other threads have something done on the task's thread. Flink: MailboxExecutor."""

    def submit(self, mail: Callable[[], object], description: str = "") -> None:
        """Call ``mail()`` on the task's thread; from any thread."""
        ...

    def yield_(self) -> None:
        """Run one mail of this operator or of those behind it, waiting for it; on the task's thread only."""
        ...

    def try_yield(self) -> bool:
        """Run one such mail if there is one; return whether there was."""
        ...


class OperatorEventHandler(Protocol):
    """A source operator, as the receiver of its coordinator's events. Flink: OperatorEventHandler."""

    def handle_event(self, event: object) -> None:
        """Take an event; on the task's thread."""
        ...


class OperatorEventGateway(Protocol):
    """The coordinator of a source, as its operators know it. Flink: OperatorEventGateway."""

    def register_reader(self, subtask_index: int, operator: OperatorEventHandler) -> None:
        """Tell the coordinator that the operator's reader runs: events for the reader may come now."""
        ...

    def handle_event(self, subtask_index: int, event: object) -> None:
        """Send an event of the operator to the coordinator."""
        ...

    def reader_ended(self, subtask_index: int) -> None:
        """Tell the coordinator that the operator has come to its end."""
        ...


class ManagedMemory(Protocol):
    """An operator's view of its slot's managed memory. Flink: MemoryManager, with the operator as the owner."""

    def reserve_part(self, size: int) -> int:
        """Reserve so many bytes, or a part where less is left; return how many."""
        ...

    def release_reserved(self, size: int) -> None:
        """Give back so many."""
        ...


@dataclass
class OperatorContext:
    """What `StreamOperator.setup` is given.

    State and timers are made by the maker of the context: the task, or a test harness.
    """

    task: TaskInfo
    operator_id: str
    operator_name: str
    settings: ExecutionSettings
    clock: Clock
    processing_time: ProcessingTimeService
    mailbox: MailboxExecutor
    key_context: object = None  # flinkbuf._core.state.key_context.KeyContext; None: not keyed
    keyed_state: KeyedStateBackend | None = None  # None: not keyed
    operator_state: OperatorStateBackend = field(default_factory=OperatorStateBackend)
    timers: object = None  # TimerServices of the operator
    metrics: MetricGroup | None = None  # the operator's MetricGroup
    runtime_context: Any = None  # the user's view, a `RuntimeContext`; its maker gives one
    wake: Callable[[], None] = lambda: None  # has the task look for input again; from any thread
    coordinator: OperatorEventGateway | None = None  # of a source
    memory: ManagedMemory | None = None  # of the task's slot, if it has one
    target_io: object | None = None  # what the target gives operators of its own, such as the rows of a Spark task
    latency: LatencyStats | None = None  # made at the first marker
    owns_records: bool = False  # only this operator holds the records that come: they were read from bytes just now

    def note_latency(self, marker: LatencyMarker) -> None:
        """Record how long a marker took to this operator."""
        if self.latency is None:
            self.latency = LatencyStats(self.settings.latency_granularity, self.settings.latency_history_size)
        self.latency.note(marker, self.clock.now_ms())

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        """Begin with what an `OperatorSnapshot` holds; None: with nothing."""
        if snapshot is not None:
            self.operator_state.restore(snapshot)
            if self.keyed_state is not None:
                self.keyed_state.restore(snapshot)

    def snapshot_state(self, checkpoint_id: int) -> OperatorSnapshot:
        """Take references to all state of the operator."""
        keyed = () if self.keyed_state is None else (self.keyed_state.snapshot(),)
        return OperatorSnapshot(keyed=keyed, **self.operator_state.snapshot())

    def notify_checkpoint(self, method: str, checkpoint_id: int) -> None:
        """Tell keyed state of a checkpoint's end, by the method that the operator has for it."""
        if self.keyed_state is not None:
            getattr(self.keyed_state, method)(checkpoint_id)

    def close(self) -> None:
        """Free what state has outside of memory; the operator is closed."""
        if self.keyed_state is not None:
            self.keyed_state.close()
