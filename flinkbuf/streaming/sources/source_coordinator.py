"""The one place of a job that knows all readers of a source: it runs the enumerator and aligns watermarks.

Operators call it, and it calls them, with frozen events and from any thread; nothing else is shared, so that a network
can stand in between. Flink: SourceCoordinator, SourceCoordinatorContext, CoordinatorStore, SplitAssignmentTracker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from flinkbuf.log import logger
from flinkbuf.streaming.sources.source import Source, SourceSplit, SplitEnumerator
from flinkbuf.streaming.sources.source_events import (
    AlignmentAnnounced,
    NoMoreSplits,
    SourceEvent,
    SplitRequested,
    SplitsAssigned,
    WatermarkReported,
)
from flinkbuf.streaming.time.clock import Clock
from flinkbuf.streaming.time.watermark_alignment import AlignmentGroup
from flinkbuf.streaming.time.watermark_strategy import WatermarkAlignment

CLOSE_WAIT_S = 5.0  # for a look at a file system that hangs

_SLICE_S = 0.1  # the thread of periodic work looks so often whether its clock was moved


class ReaderGateway(Protocol):
    """Sends events to one source operator."""

    def send(self, event: object) -> None:
        """Send an event to the operator; from any thread, without waiting."""
        ...


class CoordinatorStore:
    """What the coordinators of one job share: the groups whose sources wait for each other, and a way to the job.

    Parameters
    ----------
    request_checkpoint : callable, optional
        Has the job take a checkpoint soon, besides those of its interval; from any thread, without waiting.
    """

    def __init__(self, request_checkpoint: Callable[[], object] = bool) -> None:
        self.request_checkpoint = request_checkpoint
        self._lock = threading.Lock()
        self._announcing = threading.Lock()  # an older limit must not come after a newer one, and stay
        self._groups: dict[str, AlignmentGroup] = {}
        self._members: dict[str, list[SourceCoordinator]] = {}

    def join(self, coordinator: SourceCoordinator, alignment: WatermarkAlignment) -> None:
        """Add a source to a group; the smallest drift of its sources counts."""
        with self._lock:
            group = self._groups.setdefault(alignment.group, AlignmentGroup(alignment.max_drift_ms))
            group.max_drift_ms = min(group.max_drift_ms, alignment.max_drift_ms)
            self._members.setdefault(alignment.group, []).append(coordinator)

    def report(self, name: str, member: tuple[int, int], watermark: int | None) -> None:
        """Note that a subtask has come to `watermark`, None: to its end. All in the group learn how far they may go."""
        with self._announcing:
            with self._lock:
                group = self._groups[name]
                limit = group.leave(member) if watermark is None else group.report(member, watermark)
                members = list(self._members[name])
            if limit is not None:
                for coordinator in members:
                    coordinator.announce(limit)


@dataclass
class _PeriodicWork:
    work: Callable[[], object]
    handler: Callable[[object, BaseException | None], None]
    due_ms: int
    period_ms: int | None


class SourceCoordinator:
    """The enumerator of one source, and the gateways to its readers.

    Parameters
    ----------
    source : Source
    parallelism : int
        Subtasks of the source.
    clock : Clock
        When periodic work is due.
    store : CoordinatorStore
        Shared by all coordinators of the job.
    report_failure : callable
        Called with an exception of the enumerator on the thread of periodic work; elsewhere it goes to the caller.
    alignment : WatermarkAlignment, optional
        The group that the source belongs to.
    """

    def __init__(
        self,
        source: Source,
        parallelism: int,
        clock: Clock,
        store: CoordinatorStore,
        report_failure: Callable[[BaseException], None],
        alignment: WatermarkAlignment | None = None,
    ) -> None:
        self._source = source
        self._parallelism = parallelism
        self._clock = clock
        self._store = store
        self._report_failure = report_failure
        self._alignment = alignment
        self._lock = threading.RLock()  # one call of the enumerator at a time
        self._readers: dict[int, ReaderGateway] = {}
        self._tracker = SplitAssignmentTracker()
        self._enumerator: SplitEnumerator | None = None
        self._works: list[_PeriodicWork] = []
        self._thread: threading.Thread | None = None
        self._is_closed = threading.Event()

    # Called by the code that runs the job

    def start(self, checkpoint: object = None) -> None:
        """Make the enumerator and start it, before any reader comes; from a snapshot of one unless it is None."""
        with self._lock:
            if self._alignment is not None:
                self._store.join(self, self._alignment)
            create = self._source.create_enumerator
            self._enumerator = create(self) if checkpoint is None else self._source.restore_enumerator(self, checkpoint)
            self._enumerator.start()

    def snapshot(self, checkpoint_id: int, when_taken: Callable[[], None] | None = None) -> object:
        """Return the enumerator's state; splits assigned before belong to the readers' own.

        `when_taken` is called before the enumerator can assign anything more.
        """
        with self._lock:
            state = self._started().snapshot_state(checkpoint_id)
            self._tracker.snapshot(checkpoint_id)
            if when_taken is not None:
                when_taken()
            return state

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Note a complete checkpoint: splits assigned before it are safe with their readers."""
        with self._lock:
            self._tracker.complete(checkpoint_id)
            self._started().notify_checkpoint_complete(checkpoint_id)

    def reset_reader(self, subtask_index: int, checkpoint_id: int | None) -> None:
        """Take a failed subtask back to a checkpoint (None: to the beginning): later splits are taken back."""
        with self._lock:
            self._readers.pop(subtask_index, None)
            splits = self._tracker.take_back(subtask_index, checkpoint_id)
            if splits:
                self._started().add_splits_back(splits, subtask_index)

    def close(self) -> None:
        """End the enumerator and the thread of periodic work; closing again does nothing."""
        if self._is_closed.is_set():
            return
        self._is_closed.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CLOSE_WAIT_S)
            if self._thread.is_alive():
                logger.warning(
                    "looking for splits of source %s has not come back in %g s after the end of the job and was left",
                    type(self._source).__name__,
                    CLOSE_WAIT_S,
                )
        with self._lock:
            self._readers.clear()
            if self._enumerator is not None:
                self._enumerator.close()

    # Called by source operators

    def register_reader(self, subtask_index: int, gateway: ReaderGateway) -> None:
        """Register a reader that runs; events for it go through `gateway`."""
        with self._lock:
            self._readers[subtask_index] = gateway
            self._started().add_reader(subtask_index)

    def handle_event(self, subtask_index: int, event: object) -> None:
        """Handle an event of a source operator."""
        if isinstance(event, WatermarkReported):
            self._report_watermark(subtask_index, event.watermark)
            return
        with self._lock:
            if isinstance(event, SplitRequested):
                self._started().handle_split_request(subtask_index, event.host)
            elif isinstance(event, SourceEvent):
                self._started().handle_source_event(subtask_index, event.event)
            else:
                raise TypeError(f"a source operator does not send {event!r}")

    def reader_ended(self, subtask_index: int) -> None:
        """Note that a subtask has ended: the others do not wait for it any more."""
        if self._alignment is not None:
            self._store.report(self._alignment.group, (id(self), subtask_index), None)

    def announce(self, max_watermark: int) -> None:
        """Tell all readers how far they may go."""
        with self._lock:
            gateways = list(self._readers.values())
        for gateway in gateways:
            gateway.send(AlignmentAnnounced(max_watermark))

    def _report_watermark(self, subtask_index: int, watermark: int) -> None:
        if self._alignment is not None:
            self._store.report(self._alignment.group, (id(self), subtask_index), watermark)

    # Called by the enumerator: its EnumeratorContext

    @property
    def parallelism(self) -> int:
        """Return how many subtasks read."""
        return self._parallelism

    @property
    def registered_readers(self) -> frozenset[int]:
        """Return the subtasks whose readers run."""
        with self._lock:
            return frozenset(self._readers)

    def assign_split(self, split: SourceSplit, subtask_index: int) -> None:
        """Give a split to a reader."""
        self.assign_splits({subtask_index: [split]})

    def assign_splits(self, assignment: Mapping[int, Sequence[SourceSplit]]) -> None:
        """Give splits to several readers."""
        with self._lock:
            for subtask_index, splits in assignment.items():
                gateway = self._gateway(subtask_index, "be assigned splits")
                self._tracker.assign(subtask_index, splits)
                gateway.send(SplitsAssigned(tuple(splits)))

    def signal_no_more_splits(self, subtask_index: int) -> None:
        """Tell a reader that it gets no split any more."""
        with self._lock:
            self._gateway(subtask_index, "be told that no splits follow").send(NoMoreSplits())

    def send_event_to_source_reader(self, subtask_index: int, event: object) -> None:
        """Send an event of the source's own to a reader."""
        with self._lock:
            self._gateway(subtask_index, "be sent an event").send(SourceEvent(event))

    def call_async(
        self,
        work: Callable[[], object],
        handler: Callable[[Any, BaseException | None], None],
        initial_delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> None:
        """Do `work` on a thread of this coordinator, then `handler` as a call of the enumerator."""
        if period_ms is not None and period_ms <= 0:
            raise ValueError(f"period_ms must be greater than zero, got {period_ms}")
        with self._lock:
            due_ms = self._clock.now_ms() + initial_delay_ms
            self._works.append(_PeriodicWork(work, handler, due_ms, period_ms))
            if self._thread is None and not self._is_closed.is_set():
                self._thread = threading.Thread(target=self._work, name="flinkbuf source coordinator", daemon=True)
                self._thread.start()

    def call(self, handler: Callable[[], None]) -> None:
        """Do something as one of the enumerator's calls, on the calling thread; nothing once this is closed."""
        with self._lock:
            if not self._is_closed.is_set():
                handler()

    def request_checkpoint(self) -> None:
        """Have the job take a checkpoint soon, besides those of its interval; returns at once."""
        self._store.request_checkpoint()

    def _started(self) -> SplitEnumerator:
        if self._enumerator is None:
            raise RuntimeError("the coordinator of this source was not started")
        return self._enumerator

    def _gateway(self, subtask_index: int, what: str) -> ReaderGateway:
        try:
            return self._readers[subtask_index]
        except KeyError:
            raise ValueError(f"subtask {subtask_index} has no reader registered that could {what}") from None

    # The thread of periodic work

    def _work(self) -> None:
        try:
            while not self._is_closed.is_set():
                due = self._take_due()
                if due is None:
                    self._is_closed.wait(self._wait_s())
                else:
                    self._do(due)
        except BaseException as error:
            self._report_failure(error)

    def _take_due(self) -> _PeriodicWork | None:
        with self._lock:
            now_ms = self._clock.now_ms()
            due = min(self._works, key=lambda each: each.due_ms, default=None)
            if due is None or due.due_ms > now_ms:
                return None
            if due.period_ms is None:
                self._works.remove(due)
            else:
                due.due_ms = max(due.due_ms + due.period_ms, now_ms)
            return due

    def _wait_s(self) -> float:
        with self._lock:
            next_ms = min((each.due_ms for each in self._works), default=None)
        return _SLICE_S if next_ms is None else min(max(next_ms - self._clock.now_ms(), 1) / 1_000, _SLICE_S)

    def _do(self, due: _PeriodicWork) -> None:
        result, error = None, None
        try:
            result = due.work()
        except Exception as raised:
            error = raised
        with self._lock:
            if not self._is_closed.is_set():
                due.handler(result, error)


class SplitAssignmentTracker:
    """Which reader has which split, and which checkpoint holds them. Flink: SplitAssignmentTracker."""

    def __init__(self) -> None:
        self._by_checkpoint: dict[int, dict[int, list[SourceSplit]]] = {}
        self._since: dict[int, list[SourceSplit]] = {}  # by subtask, since the last snapshot

    def assign(self, subtask_index: int, splits: Sequence[SourceSplit]) -> None:
        """Remember that a subtask was given splits."""
        self._since.setdefault(subtask_index, []).extend(splits)

    def snapshot(self, checkpoint_id: int) -> None:
        """Note a checkpoint: splits assigned before belong to the readers' part of it."""
        self._by_checkpoint[checkpoint_id], self._since = self._since, {}

    def complete(self, checkpoint_id: int) -> None:
        """Forget the splits that this checkpoint and those before it hold."""
        self._by_checkpoint = {key: value for key, value in self._by_checkpoint.items() if key > checkpoint_id}

    def take_back(self, subtask_index: int, checkpoint_id: int | None) -> list[SourceSplit]:
        """Forget, and return, the splits given to a subtask after a checkpoint."""
        splits = []
        for key in sorted(self._by_checkpoint):
            if checkpoint_id is None or key > checkpoint_id:
                splits += self._by_checkpoint[key].pop(subtask_index, [])
        return splits + self._since.pop(subtask_index, [])
