"""A job while it runs: the shell that performs what its `JobMaster` decides.

One thread, one inbox: whatever task managers, coordinators and users say becomes a stimulus, and the actions that come
out are performed in their order, each list to its end. The caller that starts the job owns it: when it has ended, all
threads, processes, buffers and coordinators are gone. Flink: JobMaster, MiniCluster.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import random
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from flinkbuf.checkpoints.locations import normalized
from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.log import logger
from flinkbuf.runtime.checkpoint.checkpoint_config import CheckpointCoordinatorConfig, RestoredCheckpoint
from flinkbuf.runtime.driver.action_performer import ActionPerformer
from flinkbuf.runtime.driver.checkpoint_directory import CheckpointDirectory
from flinkbuf.runtime.driver.checkpoint_io import CheckpointIo
from flinkbuf.runtime.driver.checkpoint_log import RestartLog, log_checkpoint
from flinkbuf.runtime.driver.job_result import JobResult
from flinkbuf.runtime.driver.job_steps import JobSteps
from flinkbuf.runtime.driver.manager_inquiries import ManagerInquiries
from flinkbuf.runtime.driver.savepoint_requests import SavepointError, SavepointRequests
from flinkbuf.runtime.driver.story import Entry, Story
from flinkbuf.runtime.driver.target import Target, target_named
from flinkbuf.runtime.graph.job_graph import JobGraph
from flinkbuf.runtime.graph.job_plan import JobPlan, plan_of
from flinkbuf.runtime.manager.job_bundle import JobBundle
from flinkbuf.runtime.manager.manager_link import ManagerConnection
from flinkbuf.runtime.manager.task_log import job_in_log
from flinkbuf.runtime.master.job_master import JobMaster
from flinkbuf.runtime.master.restart_limits import RestartLimits
from flinkbuf.runtime.master.restart_strategy import NoRestart, RestartSettings
from flinkbuf.runtime.picture.flame_graphs import INTERVAL_MS, SAMPLE_COUNT, FlameGraphs, to_be_sampled
from flinkbuf.runtime.picture.job_picture import PICTURE_INTERVAL_MS, JobPicture, PictureMaker
from flinkbuf.runtime.process.termination import the_termination
from flinkbuf.runtime.protocol.failure import Failure, InternalJobError, JobCanceledError, JobSuspendedError, add_note
from flinkbuf.runtime.protocol.flame_tree import TERMINATED
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import InspectManager, Json, ManagerInspected, SampleTasks, TasksSampled
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.runtime.scheduler.job_master_config import JobMasterConfig
from flinkbuf.runtime.scheduler.master_actions import (
    CancelJob,
    CheckpointRecord,
    EndJob,
    ManagerLost,
    ManagerSaid,
    RequestAnswered,
    RunFailed,
    SendTo,
    StartJob,
    SuspendJob,
    TriggerSavepoint,
)
from flinkbuf.streaming.chain.accumulators import merge_accumulators, results_of
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.time.clock import Clock, SystemClock

if TYPE_CHECKING:
    from flinkbuf.runtime.driver.leadership import Leadership

WAIT_SLICE_S = 0.1  # how long a waiting program is deaf to Ctrl-C
EXIT_WAIT_S = 5.0
LEAVE_S = 2.0  # after Ctrl-C: longer than it takes to interrupt what can be
NEVER_MS: Final = 365 * 24 * 3_600_000

_running: weakref.WeakSet[RunningJob] = weakref.WeakSet()


class RunningJob:
    """One run of a job graph, on any target.

    Parameters
    ----------
    graph : JobGraph
    settings : ExecutionSettings, optional
    target : Target, optional
        Where its tasks run; on threads of the program by default.
    clock : Clock, optional
        Processing time of tasks in this process, and of coordinators; the system's by default.
    restart_strategy : object, optional
        One of ``flinkbuf.runtime.master.restart_strategy``; by default the first failure fails the job.
    config : JobMasterConfig, optional
        Timeouts of job control.
    on_end : iterable of callable, optional
        Each is called once, with the job's exception or None, when all is over.
    bundle_fields : mapping, optional
        Attributes of `JobBundle` besides its functions, such as ``files``.
    job_id : str, optional
        Of the job that this one goes on with; another one by default.
    checkpointing : CheckpointCoordinatorConfig, optional
        When checkpoints are taken, and where they go; by default only when a savepoint is asked for.
    restored : RestoredCheckpoint, optional
        What it begins with; with nothing by default.
    leadership : Leadership, optional
        Of a job that other programs could take over; closed at its end.

    Attributes
    ----------
    job_id, session_id : str
        32 hex digits each.
    status : JobStatus
    exception : BaseException or None
        What failed the job.
    net_runtime_ms : int
        From its start to its end; 0 before that.
    picture : JobPicture
        How it stood at the last full second, and after its end how it ended; read it from any thread.
    page : str or None
        The address of the job's page; its server sets it before the start.
    is_started : bool
        Its thread was started, which ends it whatever happens.
    why_suspended : str
        What a suspended job was suspended for.
    stopping_savepoint : str
        The whole savepoint that the job stops with; a task may still fail behind it. Empty: there is none.
    after_first_checkpoint : callable or None
        Called once, when a checkpoint of its own is complete that is no savepoint: what it began with is not needed any
        more. Not on the job's thread, so it may wait for files; set it before the start.
    """

    bundle: JobBundle  # from `start` on

    def __init__(
        self,
        graph: JobGraph,
        settings: ExecutionSettings | None = None,
        target: Target | None = None,
        *,
        clock: Clock | None = None,
        restart_strategy: RestartSettings | None = None,
        config: JobMasterConfig | None = None,
        on_end: Iterable[Callable[[BaseException | None], object]] = (),
        bundle_fields: dict[str, object] | None = None,
        job_id: str | None = None,
        checkpointing: CheckpointCoordinatorConfig | None = None,
        restored: RestoredCheckpoint | None = None,
        leadership: Leadership | None = None,
    ) -> None:
        self._started_ns = time.monotonic_ns()
        self._epoch_ms = time.time_ns() // 1_000_000 - self._started_ns // 1_000_000
        self.job_id = job_id or uuid.uuid4().hex
        self.session_id = uuid.uuid4().hex
        self.graph = graph
        self.target: Target = target_named("embedded") if target is None else target
        self._directory = CheckpointDirectory.of(checkpointing, settings, self.target, self.job_id)
        self.settings, checkpointing = self._directory.settings, self._directory.checkpointing
        self.clock: Clock = clock or SystemClock()
        self.status = JobStatus.CREATED
        self.exception: BaseException | None = None
        self.net_runtime_ms = 0
        self.page: str | None = None
        self.after_first_checkpoint: Callable[[], None] | None = None
        self.plan = _plan(graph, self.job_id, self.target)
        self.config = _config(config or JobMasterConfig(), graph, self.target)
        strategy = (NoRestart() if restart_strategy is None else restart_strategy).create(random.Random())
        self._master = JobMaster(
            self.plan,
            self.config,
            session_id=self.session_id,
            restart_strategy=strategy,
            now_ms=self._now_ms(),
            checkpointing=checkpointing,
            initial=restored,
            chance=random.Random(),
        )
        self._maker = PictureMaker(self._master)
        self.picture: JobPicture = self._maker.make(self._now_ms())
        self._next_picture_ms = self.picture.now_ms + PICTURE_INTERVAL_MS
        self._is_restored = restored is not None
        self._leadership = leadership
        self._limits = RestartLimits(
            graph, self.plan, is_asked=not isinstance(restart_strategy, (NoRestart, type(None)))
        )
        self._restart_log = RestartLog(graph.settings.job_name)
        self._story = Story()
        self._bundle_fields = dict(bundle_fields or {})
        self._on_end = list(on_end)
        self._inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._closing = threading.Lock()  # guards questions to the job's thread, so that each gets an answer
        self._ended = threading.Event()
        self.stopping_savepoint = ""
        self.is_started = False
        self._is_left_behind = False  # after Ctrl-C, with a function that does not return
        self._requests = SavepointRequests()
        self._flame_graphs = FlameGraphs()
        self._inquiries = ManagerInquiries()
        self._steps = JobSteps(self, leadership)
        self.why_suspended = "its program has ended"
        self._checkpoints = CheckpointIo(
            graph.settings.job_name, self.settings.checkpoint_directory, self._inbox.put, leadership
        )
        self._performer = ActionPerformer(self, self._inbox.put, self._checkpoints)

    # ---- the user

    def start(self) -> None:
        """Check the job, make its coordinators, and start its task managers and tasks.

        Raises
        ------
        TypeError
            A function cannot be copied.
        Exception
            What the target refuses, or a source's coordinator raises, such as a missing directory.
        """
        self._started_ns = time.monotonic_ns()
        thread = threading.Thread(target=self._run, name=f"job {self.graph.settings.job_name}", daemon=True)
        try:
            self.target.check(self.graph, self.settings)
            self._directory.make()
            self.bundle = self._make_bundle(is_in_program=False)
            if self._leadership is not None:
                self._leadership.start(self.suspend)
            self._performer.start(
                self.target, lambda: self._make_bundle(is_in_program=True), is_restored=self._is_restored
            )
        except BaseException as error:
            self._give_up(error)
            raise
        _running.add(self)
        self.is_started = True
        atexit.unregister(_cancel_what_runs)  # anew, as the last: it is called before what targets have registered
        atexit.register(_cancel_what_runs)
        try:
            thread.start()
        except RuntimeError as refusal:  # the system has no thread left
            self._give_up(refusal)
            raise
        except BaseException:  # Ctrl-C while the thread already runs
            self.cancel()
            raise

    def run(self) -> None:
        """Start the job and wait for its end; Ctrl-C at any moment cancels it. Raises what `start` and `wait` raise."""
        try:
            self.start()
            self.wait()
        except KeyboardInterrupt:
            self.cancel()  # if it came between the two
            raise

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until the job has ended; Ctrl-C cancels it.

        Raises
        ------
        Exception
            What failed the job: on threads of this process the user's own exception, with operator, subtask and record
            on it; from elsewhere a `JobFailedError` that is of its class, too.
        JobCanceledError
            The job was canceled.
        JobSuspendedError
            Another program has taken the job over, or may have.
        TimeoutError
            The job has not ended in time; it goes on.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            while not self._ended.wait(WAIT_SLICE_S):
                if deadline is not None and time.monotonic() > deadline:
                    raise TimeoutError(f"job {self.graph.settings.job_name!r} has not ended after {timeout_s} s")
        except KeyboardInterrupt:
            self.cancel()
            self._wait_after_interrupt()
            raise
        if self.exception is not None:
            raise self.exception
        if self.status is JobStatus.CANCELED:
            raise JobCanceledError(f"job {self.graph.settings.job_name!r} was canceled")
        if self.status is JobStatus.SUSPENDED:
            raise JobSuspendedError(f"job {self.graph.settings.job_name!r} was suspended: {self.why_suspended}")

    def _wait_after_interrupt(self) -> None:
        """Wait after Ctrl-C, but not for a function that sleeps: its thread does not keep the process."""
        if not self.target.is_in_process:
            self._ended.wait()
        elif not self._ended.wait(LEAVE_S):
            self._is_left_behind = True
            logger.warning(
                "job %r is left behind after Ctrl-C: a function of it has not returned in %g s",
                self.graph.settings.job_name,
                LEAVE_S,
            )

    def cancel(self) -> None:
        """Stop all tasks; returns at once. Does nothing to a job that has ended."""
        self._inbox.put(CancelJob())

    def suspend(self, reason: str) -> None:
        """Stop all tasks, but keep what another program needs to go on with the job; returns at once."""
        self.why_suspended = reason
        self._inbox.put(SuspendJob())

    def trigger_savepoint(
        self, directory: str | None = None, kind: SnapshotKind = SnapshotKind.SAVEPOINT
    ) -> Future[str]:
        """Take a savepoint, and stop the job with it if `kind` says so; the future gives its path.

        The future fails with a `SavepointError` that says why there is none.
        """
        try:  # tasks and job master may stand in other directories than the caller
            location = normalized(directory) if directory else ""
        except ValueError as error:
            refused: Future[str] = Future()
            refused.set_exception(SavepointError(f"no savepoint was taken: {error}"))
            return refused
        stimulus, future = self._requests.ask(kind, location)
        self._send(stimulus)
        return future

    def trigger_checkpoint(self, kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> Future[int]:
        """Take a checkpoint now, as the interval would; the future gives its number.

        `kind` says whether it may refer to files of earlier ones. The future fails with a `SavepointError` that says
        why there is none.
        """
        if kind.is_savepoint:
            raise ValueError(f"a {kind.value} is no checkpoint: `trigger_savepoint` makes such")
        stimulus, future = self._requests.ask(kind)
        self._send(stimulus)
        return future

    def _send(self, request: TriggerSavepoint) -> None:
        with self._closing:
            if self in _running:
                self._inbox.put(request)
                return
        self._requests.end(f"job {self.graph.settings.job_name!r} does not run: it is {self.status.name}")

    @property
    def has_ended(self) -> bool:
        """Return whether the job is over, and holds nothing any more."""
        return self._ended.is_set()

    def details(self) -> Json:
        """Return a picture of the job in the shapes of Flink's REST API, see `job_details`; from any thread."""
        from flinkbuf.runtime.picture.job_details import job_details

        return job_details(self._ask(self._take_picture))

    def accumulators(self) -> dict[str, object]:
        """Return what the job's functions have counted so far, by name; from any thread."""
        gathered = self._ask(lambda: [each.accumulators for each in self._master.graph.executions()])
        return results_of(merge_accumulators(gathered))

    def flame_graph(self, vertex_id: str, subtask: int | None = None, kind: str = "FULL") -> Json:
        """Return what the threads of a task were doing when they were last looked at; from any thread, never waits.

        Parameters
        ----------
        vertex_id : str
        subtask : int, optional
            One of its subtasks; by default all, or the 16 busiest if there are more.
        kind : str, default "FULL"
            Or ``"ON_CPU"``, ``"OFF_CPU"``: samples of threads that worked, or waited.

        Returns
        -------
        dict
            ``{"endTimestamp": milliseconds, "data": {"name", "value", "children"}}``. Without data the time is -1 (the
            task does not run) or -3 (its threads are looked at now: ask again in a second).

        Raises
        ------
        KeyError
            The job has no such task.
        ValueError
            It has no such subtask, or there is no such kind.

        References
        ----------
        Flink ``JobVertexFlameGraphHandler``.
        """
        found = {each.id: each for each in self.plan.vertices}[vertex_id]
        if subtask is not None and not 0 <= subtask < found.parallelism:
            raise ValueError(f"task {found.name!r} has the subtasks 0 to {found.parallelism - 1}, not {subtask}")
        graph, request = self._flame_graphs.ask(vertex_id, subtask, kind, self._now_ms())
        with self._closing:
            if self not in _running or self._has_ended(vertex_id):
                return TERMINATED
            if request is not None:
                self._inbox.put(_Answer(partial(self._sample_threads, request)))
        return graph

    def inspect_manager(self, manager_id: str, subject: str) -> Future[Json]:
        """Ask a task manager for its ``"log"`` or a ``"thread-dump"``; from any thread, never waits.

        The job's own thread has no part in it, so that one can look when that is what hangs. The future fails with a
        RuntimeError if the job ends before; the loss of the manager is not reported there.
        """
        request, future = self._inquiries.ask()
        with self._closing:
            if self in _running:
                self._performer.send(manager_id, InspectManager(self.session_id, request, subject))
                return future
        self._inquiries.end(f"job {self.graph.settings.job_name!r} does not run")
        return future

    def _has_ended(self, vertex_id: str) -> bool:
        vertices = {each.plan.id: each for each in self.picture.vertices}
        return vertices[vertex_id].aggregate_state.is_terminal

    @property
    def silence_s(self) -> float:
        """Return how long ago the job's thread has taken a picture, which it does once a second while it lives."""
        picture = self.picture
        return 0.0 if picture.is_over or not self.is_started else (self._now_ms() - picture.now_ms) / 1_000

    def story(self) -> list[Entry]:
        """Return the last stimuli of the job master, with its actions."""
        return self._story.entries()

    def _ask(self, question: Callable[[], T]) -> T:
        """Return the answer, given between two steps of the job's thread; by the caller if the job does not run."""
        answer = _Answer(question)
        with self._closing:
            is_asked = self in _running
            if is_asked:
                self._inbox.put(answer)
        if not is_asked:
            answer.give()
        return answer.future.result()

    # ---- for the provider of task managers; any thread

    def manager_connected(self, manager_id: str, connection: ManagerConnection) -> None:
        """Note the connection to a task manager."""
        self._performer.connected(manager_id, connection)

    def manager_said(self, manager_id: str, message: object) -> None:
        """Take a task manager's message."""
        if isinstance(message, ManagerInspected):
            self._inquiries.answered(message.request, message.answer)
        else:
            self._inbox.put(ManagerSaid(manager_id, message))

    def manager_lost(self, manager_id: str, reason: str) -> None:
        """Note that a task manager was lost."""
        self._inbox.put(ManagerLost(manager_id, reason))

    def run_failed(self, run: int, failure: Failure) -> None:
        """Note that the task managers of a run do not come, or went as a whole."""
        self._inbox.put(RunFailed(run, failure))

    # ---- the start, on the caller's thread

    def _make_bundle(self, is_in_program: bool) -> JobBundle:
        vertex_ids = {vertex.id for vertex in self.plan.vertices if vertex.is_in_program is is_in_program}
        return JobBundle.of(self.graph, self.job_id, self.settings, vertex_ids=vertex_ids, **self._bundle_fields)

    def _give_up(self, error: BaseException) -> None:
        """End a job that never began, without noting an end: the program started again goes on from before."""
        self._finish(EndJob(JobStatus.FAILED, Failure.of(error)), is_begun=False)

    # ---- the thread of the job

    def _run(self) -> None:
        with job_in_log(self.graph.settings.job_name, self.job_id):
            self._run_to_end()

    def _run_to_end(self) -> None:
        end: EndJob | None = None
        try:
            end = self._steps.step(StartJob())
            while end is None:
                end = self._turn()
        except BaseException as error:
            end = EndJob(JobStatus.FAILED, Failure.of(self._internal(error)))
        self._finish(end)

    def _turn(self) -> EndJob | None:
        """Handle the next stimulus, or wait for the master's deadline."""
        deadline_ms, now_ms = self._master.next_deadline_ms, self._now_ms()
        if now_ms >= self._next_picture_ms:
            self._next_picture_ms = now_ms + PICTURE_INTERVAL_MS
            try:
                self._take_picture()
            except Exception:  # the job's own control may have failed
                logger.exception("there is no new picture of job %s", self.job_id)
        until_ms = self._next_picture_ms if deadline_ms is None else min(deadline_ms, self._next_picture_ms)
        try:
            item = self._inbox.get(timeout=max(until_ms - now_ms, 0) / 1_000)
        except queue.Empty:
            return self._steps.step(TimePassed()) if until_ms == deadline_ms else None
        if isinstance(item, _Answer):
            item.give()
            return None
        if isinstance(item, ManagerSaid) and isinstance(item.message, TasksSampled):
            self._flame_graphs.answered(item.manager_id, item.message.request, item.message.tree, self._now_ms())
            return None
        return self._steps.step(self._limits.checked(item))

    def _take_picture(self) -> JobPicture:
        """Take the job's picture, on the job's thread; of a job that is over there is the last one."""
        if not self.picture.is_over:
            self.picture = self._maker.make(self._now_ms())
        return self.picture

    def _sample_threads(self, request: int) -> None:
        """Ask the managers of a task's busiest subtasks for samples of their threads; on the job's thread."""
        vertex_id, subtask = self._flame_graphs.key_of(request) or ("", None)
        places = to_be_sampled(self._master.graph, vertex_id, subtask)
        self._flame_graphs.sent(request, places, self._now_ms())
        for manager_id, found in places.items():
            message = SampleTasks(self.session_id, request, tuple(found), SAMPLE_COUNT, INTERVAL_MS)
            self._performer.perform(SendTo(manager_id, message))

    def _now_ms(self) -> int:
        """Return milliseconds since 1970 that never go back, even if the machine's clock is set."""
        return self._epoch_ms + time.monotonic_ns() // 1_000_000

    # ---- what one step does (JobShell)

    def decide(self, stimulus: object) -> list[object]:
        """Have the job master decide, and note it in the story."""
        now_ms = self._now_ms()
        actions: list[object] = []
        try:
            actions = self._master.handle(stimulus, now_ms)
        finally:
            self._story.note(now_ms, stimulus, actions)
        self._restart_log.look(self._master.status, self._master.history.outages)
        return actions

    def perform(self, action: object) -> None:
        """Perform one action."""
        self._performer.perform(action)

    def manager_gone(self, manager_id: str) -> None:
        """Note that a task manager can no longer be reached."""
        self._performer.lost(manager_id)

    def coordinators_were_heard(self, checkpoint_id: int) -> None:
        """Let coordinators send events again: the job master has acted on their state."""
        self._performer.coordinators_were_heard(checkpoint_id)

    def status_changed(self, status: JobStatus) -> None:
        """Show the new status."""
        self.status = status

    def checkpoint_ended(self, record: CheckpointRecord) -> None:
        """Log the checkpoint; the first complete one frees what the job began with."""
        log_checkpoint(self.graph.settings.job_name, record)
        kind = SnapshotKind(record.kind)
        if record.status == "COMPLETED" and kind.is_synchronous:
            self.stopping_savepoint = record.path
        if record.status == "COMPLETED" and not kind.is_savepoint:
            call, self.after_first_checkpoint = self.after_first_checkpoint, None
            if call is not None:
                self._checkpoints.do_later(call)

    def answer(self, answers: Iterable[RequestAnswered]) -> None:
        """Answer the users' requests."""
        for answer in answers:
            self._requests.answered(answer)

    def result(self, end: EndJob) -> str:
        """Return the result for a program that starts the job again."""
        counted = {}
        with contextlib.suppress(ValueError):  # two kinds of one name: the job has failed for it
            counted = merge_accumulators([each.accumulators for each in self._master.graph.executions()])
        failure = None if end.failure is None else replace(end.failure, exception=None)
        runtime_ms = (time.monotonic_ns() - self._started_ns) // 1_000_000
        return JobResult(self.job_id, end.status.name, runtime_ms, counted, failure).to_text()

    # ---- the end

    def _internal(self, error: BaseException) -> InternalJobError:
        """Fail the job over an error of flinkbuf itself, in the master or in this shell, with its story."""
        logger.error("the control of job %s failed after\n%s", self.job_id, self._story.text(20), exc_info=error)
        made = InternalJobError(
            f"the control of job {self.graph.settings.job_name!r} failed with {type(error).__name__}: {error}; this is "
            "a mistake in flinkbuf: please report it with the `story` of this exception",
            self._story.entries(),
        )
        made.__cause__ = error
        return made

    def _finish(self, end: EndJob, *, is_begun: bool = True) -> None:
        """Free everything, then wake the waiting callers."""
        is_over = is_begun and end.status is not JobStatus.SUSPENDED
        is_late = False

        def remove() -> None:
            # A storage that was slow may come to it when a later run of the job writes into its directory already.
            self._directory.remove(is_over=is_over and self._steps.is_end_noted and not is_late)

        self._performer.close()
        self._checkpoints.close(remove if self._directory.path else None)
        is_late = True
        if self._leadership is not None:
            self._leadership.close(is_over_for_good=is_over)
        if end.status is JobStatus.FAILED:
            self.exception = self._exception_of(end.failure)
        self.net_runtime_ms = (time.monotonic_ns() - self._started_ns) // 1_000_000
        self.status = end.status
        self.picture = self._last_picture(end.status)
        with self._closing:
            _running.discard(self)
        self._answer_the_rest()
        self.answer(self._steps.last_answers)
        self._requests.end(f"job {self.graph.settings.job_name!r} is {end.status.name}")
        self._inquiries.end(f"job {self.graph.settings.job_name!r} is {end.status.name}")
        for call in self._on_end:
            try:
                call(self.exception)
            except BaseException:
                logger.exception("telling %r of the end of a job failed", call)
        self._ended.set()

    def _last_picture(self, status: JobStatus) -> JobPicture:
        """Take the last picture; it has the whole end, since readers do not ask again."""
        picture, failure = self.picture, None
        try:
            picture = picture if picture.is_over else self._maker.make(self._now_ms())
        except Exception:
            logger.exception("there is no last picture of job %s", self.job_id)
        now_ms, times = self._now_ms(), dict(picture.timestamps)
        if status is not JobStatus.SUSPENDED and not picture.is_over:  # the job never began, or its control has failed
            picture, times[status] = replace(picture, status=status), now_ms
        if self.exception is not None:
            failure = replace(Failure.of(self.exception), exception=None)
        savepoint = self.stopping_savepoint if status is JobStatus.FINISHED else ""
        return replace(picture, now_ms=now_ms, timestamps=times, failure=failure, savepoint=savepoint)

    def fail_after_end(self, error: BaseException) -> None:
        """Fail a job that has ended, since the run that was to follow it failed."""
        self.exception, self.status = error, JobStatus.FAILED
        times = {**self.picture.timestamps, JobStatus.FAILED: self._now_ms()}
        self.picture = replace(self._last_picture(JobStatus.FAILED), status=JobStatus.FAILED, timestamps=times)

    def _exception_of(self, failure: Failure | None) -> BaseException:
        if failure is None:
            return InternalJobError("the job failed without a reason", self._story.entries())
        error = failure.to_exception()
        if self._limits.refusal is not None:
            add_note(error, self._limits.refusal)
        return error

    def _answer_the_rest(self) -> None:
        while True:
            try:
                item = self._inbox.get_nowait()
            except queue.Empty:
                return
            if isinstance(item, _Answer):
                item.give()


T = TypeVar("T")


class _Answer(Generic[T]):
    """A question of another thread, and where that thread waits."""

    def __init__(self, question: Callable[[], T]) -> None:
        self._question = question
        self.future: Future[T] = Future()

    def give(self) -> None:
        try:
            self.future.set_result(self._question())
        except BaseException as error:
            self.future.set_exception(error)


def _config(config: JobMasterConfig, graph: JobGraph, target: Target) -> JobMasterConfig:
    """Return the job master's settings for the target; in one process no manager times out, as under a debugger."""
    return replace(
        config,
        managers_come_together=target.managers_come_together,
        can_restart_in_place=target.can_restart_in_place(graph),
        heartbeat_timeout_ms=NEVER_MS if target.is_in_process else config.heartbeat_timeout_ms,
    )


def _plan(graph: JobGraph, job_id: str, target: Target) -> JobPlan:
    """Return the plan of a job; where all tasks are threads of this process, no vertex is placed apart."""
    plan = plan_of(graph, job_id)
    if target.is_in_process:
        plan = replace(plan, vertices=tuple(replace(vertex, is_in_program=False) for vertex in plan.vertices))
    fit = getattr(target, "fit", None)  # only where there may be fewer slots than a batch job would like
    return fit(plan) if fit is not None and plan.is_batch else plan


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_running.clear)  # a forked child has no threads of its parent's jobs to wait for


def _cancel_what_runs() -> None:
    """Cancel all jobs at the interpreter's end: tasks must not meet it half taken down."""
    the_termination.wait()  # what it has begun, such as savepoints
    jobs = [job for job in _running if not job._is_left_behind]
    for job in jobs:
        if job._leadership is not None or the_termination.is_begun:
            job.suspend("its program has ended")
        else:
            job.cancel()
    deadline = time.monotonic() + EXIT_WAIT_S
    for job in jobs:
        job._ended.wait(max(0.0, deadline - time.monotonic()))
