"""The coordinators of a job's sources, at the program: made, told, reset and closed as the job master wants it.

The enumerators of the user run on one thread of their own, apart from that of the job: one that takes its time delays
splits, not heartbeats. Each event belongs to an attempt: none reaches, or comes from, an attempt that has ended. Flink:
OperatorCoordinatorHolder, RecreateOnResetOperatorCoordinator, SubtaskGatewayImpl.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

import cloudpickle

from flinkbuf.log import logger
from flinkbuf.runtime.graph.job_graph import JobGraph, JobVertex
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.operator_events import ReaderEnded, ReaderRegistered, decode_event, encode_event
from flinkbuf.streaming.chain.error_location import locate_error
from flinkbuf.streaming.chain.operator_config import OperatorConfig, TaskInfo
from flinkbuf.streaming.sources.source_coordinator import CoordinatorStore, SourceCoordinator
from flinkbuf.streaming.time.clock import Clock

CLOSE_WAIT_S = 5.0  # for an enumerator that does not return

_END: Final = None
Send = Callable[[AttemptId, str, bytes], None]
States = Mapping[str, Callable[[], bytes]]  # by operator id: what reads the state of a coordinator
SnapshotDone = Callable[[dict[str, bytes], "Failure | None"], None]


class CoordinatorHost:
    """All coordinators of one job.

    Parameters
    ----------
    graph : JobGraph
        Its sources with a ``create_coordinator`` have one each.
    job_id : str
    clock : Clock
        When their periodic work is due.
    send : callable
        ``send(attempt, operator_id, payload)`` brings an event to a source operator, if its attempt still runs; from
        any thread, without waiting.
    fail : callable
        Told of what an enumerator raised; from any thread, without waiting.
    request_checkpoint : callable, optional
        Told that an enumerator wants a checkpoint soon; from any thread, without waiting.
    """

    def __init__(
        self,
        graph: JobGraph,
        job_id: str,
        clock: Clock,
        send: Send,
        fail: Callable[[Failure], None],
        request_checkpoint: Callable[[], object] = bool,
    ) -> None:
        self._make_store = partial(CoordinatorStore, request_checkpoint)
        self._store = self._make_store()
        self._clock = clock
        self._sources = {
            operator.operator_id: _Source(vertex, operator, graph.settings.job_name, job_id, send, fail)
            for vertex in graph.vertices
            for operator in vertex.chain.operators
            if hasattr(operator.factory, "create_coordinator")
        }
        self._works: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def start(self, *, is_restored: bool = False) -> None:
        """Make and start all coordinators, on the calling thread; those of a job that begins from a checkpoint wait.

        They are made by the `reset` that brings their state.

        Raises
        ------
        Exception
            What one of them raised, such as for a directory that is not there; the others are closed then.
        """
        if not self._sources:
            return
        try:
            for source in () if is_restored else self._sources.values():
                source.start(self._clock, self._store)
            self._thread = threading.Thread(target=self._work, name="flinkbuf source coordinators", daemon=True)
            self._thread.start()
        except BaseException:
            self._thread, self._is_closed = None, True
            self._close_all()
            raise

    def tell(self, attempt: AttemptId, operator_id: str, payload: bytes) -> None:
        """Give a coordinator the event that a source operator sent."""
        source = self._sources.get(operator_id)
        if source is None:
            logger.warning("an event for the coordinator of operator %s, which has none, was dropped", operator_id)
        else:
            self._works.put(lambda: source.hear(attempt, payload))

    def gone(self, attempt: AttemptId) -> None:
        """Note that an attempt has ended: no event is sent to it any more."""
        self._for_vertex(attempt.vertex_id, lambda source: source.gone(attempt))

    def reset(
        self,
        subtasks: Iterable[tuple[str, int]],
        is_global: bool,
        checkpoint_id: int | None = None,
        states: States | None = None,
    ) -> None:
        """Reset subtasks, by vertex and index; or all, with new coordinators.

        Subtasks and new coordinators go back to the state of a checkpoint; without one, to the
        beginning.
        """
        if is_global:
            self._works.put(lambda: self._make_anew(states or {}))
            return
        for vertex_id, subtask in subtasks:
            self._for_vertex(
                vertex_id,
                lambda source, subtask=subtask: source.reset(subtask, checkpoint_id),  # type: ignore[misc]
            )

    def snapshot(self, checkpoint_id: int, done: SnapshotDone) -> None:
        """Have the state of all taken, by operator id; `done` is told of it, or of a failure, on their thread.

        Until `let_go` the events for readers wait: a split that is assigned after this is not to come to a reader
        before the reader has taken its own state, or the split would be in both states.
        """
        if self._sources:
            self._works.put(lambda: self._snapshot(checkpoint_id, done))
        else:
            done({}, None)

    def let_go(self, checkpoint_id: int) -> None:
        """Send the held events: all readers know of the checkpoint, or it was given up."""
        for source in self._sources.values():
            source.let_go(checkpoint_id)

    def complete(self, checkpoint_id: int) -> None:
        """Notify coordinators: checkpoint complete."""
        for source in self._sources.values():
            self._works.put(lambda source=source: source.complete(checkpoint_id))  # type: ignore[misc]

    def close(self) -> None:
        """Close all coordinators; closing again does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._thread is None:
            self._close_all()
            return
        self._works.put(_END)
        self._thread.join(CLOSE_WAIT_S)
        if self._thread.is_alive():
            logger.warning(
                "the enumerator of a source has not returned in %g s after the end of the job and was left; it is one "
                "of %s",
                CLOSE_WAIT_S,
                ", ".join(repr(source.name) for source in self._sources.values()),
            )

    def _for_vertex(self, vertex_id: str, work: Callable[[_Source], None]) -> None:
        for source in self._sources.values():
            if source.vertex_id == vertex_id:
                self._works.put(lambda source=source: work(source))  # type: ignore[misc]

    # The thread of the enumerators

    def _work(self) -> None:
        while (work := self._works.get()) is not _END:
            work()
        self._close_all()

    def _make_anew(self, states: States) -> None:
        self._close_all()
        self._store = self._make_store()
        for operator_id, source in self._sources.items():
            source.start_again(self._clock, self._store, states.get(operator_id))

    def _snapshot(self, checkpoint_id: int, done: SnapshotDone) -> None:
        states = {}
        try:
            for operator_id, source in self._sources.items():
                states[operator_id] = source.snapshot(checkpoint_id)
        except BaseException as error:  # sys.exit() in an enumerator, too
            self.let_go(checkpoint_id)
            done({}, Failure.of(error))
        else:
            done(states, None)

    def _close_all(self) -> None:
        for source in self._sources.values():
            source.close()


class _Source:
    """The coordinator of one source, made anew after failures, and the gateways to the attempts it may speak to.

    After its enumerator has raised it is silent until it is made anew: one failure of a source is one.
    """

    def __init__(
        self,
        vertex: JobVertex,
        operator: OperatorConfig,
        job_name: str,
        job_id: str,
        send: Send,
        fail: Callable[[Failure], None],
    ) -> None:
        self.vertex_id = vertex.id
        self.name = operator.name
        self._vertex = vertex
        self._operator = operator
        self._job = (job_id, job_name)
        self._send = send
        self._fail = fail
        self._coordinator: SourceCoordinator | None = None  # None also while the source waits for a new coordinator
        self._gateways: dict[int, _AttemptGateway] = {}
        self._newest: dict[int, int] = {}  # attempt number by subtask: older ones are not heard
        self._lock = threading.Lock()  # of the coordinator's reference: its own thread may fail, too

    def start(self, clock: Clock, store: CoordinatorStore, state: object = None) -> None:
        """Make a coordinator, from the state of another one if there is some; what it raises says where."""
        create = self._operator.factory.create_coordinator  # type: ignore[attr-defined]
        made: list[SourceCoordinator] = []
        try:
            made.append(create(self._vertex.parallelism, clock, store, lambda error: self._has_failed(made, error)))
            self._coordinator = made[0]
            made[0].start(state)
        except BaseException as error:
            method = "create_enumerator" if state is None else "restore_enumerator"
            self._locate(error, AttemptId(self.vertex_id, 0, 0), method)
            raise

    def start_again(self, clock: Clock, store: CoordinatorStore, read_state: Callable[[], bytes] | None) -> None:
        """Make a new coordinator, of which the old one's readers know nothing."""
        try:
            self.start(clock, store, None if read_state is None else cloudpickle.loads(read_state()))
        except BaseException as error:
            self.close()
            self._fail(Failure.of(error))

    def hear(self, attempt: AttemptId, payload: bytes) -> None:
        """Handle an event of an attempt, or of its operator's proxy."""
        subtask = attempt.subtask_index
        if attempt.attempt_number < self._newest.get(subtask, 0):
            return
        self._newest[subtask] = attempt.attempt_number

        def deliver(coordinator: SourceCoordinator) -> None:
            event = decode_event(payload)
            if isinstance(event, ReaderRegistered):
                gateway = self._gateways[subtask] = _AttemptGateway(attempt, self._operator.operator_id, self._send)
                coordinator.register_reader(subtask, gateway)
            elif isinstance(event, ReaderEnded):
                coordinator.reader_ended(subtask)
            else:
                coordinator.handle_event(subtask, event)

        self._call(deliver, attempt)

    def gone(self, attempt: AttemptId) -> None:
        """Note that an attempt has ended; its splits are taken back when the subtask begins anew."""
        gateway = self._gateways.get(attempt.subtask_index)
        if gateway is not None and gateway.attempt == attempt:
            gateway.close()
            self._call(lambda coordinator: coordinator.reader_ended(attempt.subtask_index), attempt)

    def reset(self, subtask: int, checkpoint_id: int | None) -> None:
        """Take a subtask back to a checkpoint: splits it was given later are there for all subtasks again."""
        gateway = self._gateways.pop(subtask, None)
        if gateway is not None:
            gateway.close()
        attempt = AttemptId(self.vertex_id, subtask, self._newest.get(subtask, 0))
        self._newest[subtask] = attempt.attempt_number + 1
        self._call(lambda coordinator: coordinator.reset_reader(subtask, checkpoint_id), attempt)

    def snapshot(self, checkpoint_id: int) -> bytes:
        """Return the coordinator's state; what it sends from now on waits for `let_go`."""
        coordinator = self._coordinator
        if coordinator is None:
            raise RuntimeError(f"the enumerator of source {self.name!r} has failed and has no state")
        try:
            state = coordinator.snapshot(checkpoint_id, lambda: self._hold(checkpoint_id))
            return cloudpickle.dumps(state)
        except BaseException as error:
            self._locate(error, AttemptId(self.vertex_id, 0, 0), "snapshot_state")
            raise

    def complete(self, checkpoint_id: int) -> None:
        """Notify the coordinator: checkpoint complete."""
        attempt = AttemptId(self.vertex_id, 0, 0)
        self._call(lambda coordinator: coordinator.notify_checkpoint_complete(checkpoint_id), attempt)

    def _hold(self, checkpoint_id: int) -> None:
        for gateway in list(self._gateways.values()):
            gateway.hold(checkpoint_id)

    def let_go(self, checkpoint_id: int) -> None:
        """Send the held events to the readers; from any thread."""
        for gateway in list(self._gateways.values()):
            gateway.let_go(checkpoint_id)

    def close(self) -> None:
        """End the coordinator, if there is one."""
        for gateway in self._gateways.values():
            gateway.close()
        self._gateways.clear()
        with self._lock:
            coordinator, self._coordinator = self._coordinator, None
        if coordinator is None:
            return
        try:
            coordinator.close()
        except BaseException:  # sys.exit(), too: callers that wait would get no answer
            logger.exception("closing the coordinator of a source failed")

    def _call(self, work: Callable[[SourceCoordinator], None], attempt: AttemptId) -> None:
        coordinator = self._coordinator
        if coordinator is None:
            return
        try:
            work(coordinator)
        except BaseException as error:  # sys.exit() in an enumerator, too
            self._has_failed([coordinator], error, attempt)

    def _has_failed(
        self, which: list[SourceCoordinator], error: BaseException, attempt: AttemptId | None = None
    ) -> None:
        """Report a failure of the coordinator, on the enumerators' thread or a periodic one; only the first."""
        with self._lock:
            if not which or which[0] is not self._coordinator:
                return
            self._coordinator = None
        self._locate(error, attempt or AttemptId(self.vertex_id, 0, 0), "enumerator")
        self._fail(Failure.of(error))
        try:
            which[0].close()
        except BaseException:
            logger.exception("closing the coordinator of a source that had failed failed, too")

    def _locate(self, error: BaseException, attempt: AttemptId, method: str) -> None:
        info = TaskInfo(
            job_id=self._job[0],
            job_name=self._job[1],
            vertex_id=self.vertex_id,
            task_name=self._vertex.name,
            subtask_index=attempt.subtask_index,
            parallelism=self._vertex.parallelism,
            max_parallelism=self._vertex.max_parallelism,
            attempt_number=attempt.attempt_number,
        )
        locate_error(error, info, self._operator, method=method)


class _AttemptGateway:
    """Sends events to the source operator of one attempt; from any thread. Flink: SubtaskGatewayImpl."""

    def __init__(self, attempt: AttemptId, operator_id: str, send: Send) -> None:
        self.attempt = attempt
        self._operator_id = operator_id
        self._send = send
        self._lock = threading.Lock()  # so that no event overtakes one that has waited
        self._held_for = 0  # a checkpoint that its task has not been told of yet
        self._waiting: list[tuple[int, bytes]] = []  # each with the checkpoint that it waits for
        self._is_closed = False

    def send(self, event: object) -> None:
        """Send an event to this attempt; a later attempt never gets it."""
        payload = encode_event(event)
        with self._lock:
            if self._is_closed:
                return
            if self._held_for:
                self._waiting.append((self._held_for, payload))
            else:
                self._send(self.attempt, self._operator_id, payload)

    def hold(self, checkpoint_id: int) -> None:
        """Hold events until the task was told of this checkpoint."""
        with self._lock:
            self._held_for = max(self._held_for, checkpoint_id)

    def let_go(self, checkpoint_id: int) -> None:
        """Send the events held for this checkpoint; those held for a later one stay."""
        with self._lock:
            if self._held_for <= checkpoint_id:
                self._held_for = 0
            due = [payload for held_for, payload in self._waiting if held_for <= checkpoint_id]
            self._waiting = [each for each in self._waiting if each[0] > checkpoint_id]
            for payload in due:
                if not self._is_closed:
                    self._send(self.attempt, self._operator_id, payload)

    def close(self) -> None:
        """Send nothing more."""
        with self._lock:
            self._is_closed = True
