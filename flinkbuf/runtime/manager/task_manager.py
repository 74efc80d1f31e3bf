"""A task manager: performs what its `TaskExecutor` decides, on threads of this process. Flink: TaskManagerRunner.

One control thread takes the job master's messages and what tasks tell, one after the other; each task has a thread of
its own. Everything that was taken is given back when `run` returns, whatever happened.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from flinkbuf.control.secure_link import MessageTooLargeError
from flinkbuf.log import logger
from flinkbuf.runtime.manager.job_bundle import JobBundle
from flinkbuf.runtime.manager.large_messages import instead_of
from flinkbuf.runtime.manager.managed_task import ManagedTask, TaskSurroundings
from flinkbuf.runtime.manager.manager_link import ManagerLink
from flinkbuf.runtime.manager.memory_manager import MemoryManager
from flinkbuf.runtime.manager.process_figures import ProcessFigures
from flinkbuf.runtime.manager.shuffle import Shuffle
from flinkbuf.runtime.manager.stack_sampler import StackSampler
from flinkbuf.runtime.manager.task_actions import (
    AskMetrics,
    DeliverOperatorEvent,
    DropPartitions,
    ForgetTask,
    InspectProcess,
    InterruptTask,
    KillProcess,
    LeaveAsked,
    LeaveProcess,
    LinkLost,
    NotifyTask,
    SampleThreads,
    SendMessage,
    StartTask,
    StopTask,
    ThreadsSampled,
    TriggerTask,
    Warn,
)
from flinkbuf.runtime.manager.task_executor import TASK_REPORTS, TaskExecutor, TaskExecutorConfig
from flinkbuf.runtime.manager.task_log import job_in_log, log_can_be_read, logged
from flinkbuf.runtime.manager.thread_dump import thread_dump
from flinkbuf.runtime.process import signals
from flinkbuf.runtime.protocol.deployment import AttemptId, TaskDeploymentDescriptor
from flinkbuf.runtime.protocol.flame_tree import FlameTree
from flinkbuf.runtime.protocol.messages import HeartbeatRequest, Json, RegisterManager, TaskStateReport
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.streaming.task.task_state import TaskState
from flinkbuf.streaming.time.clock import Clock, SystemClock

SIGTERM_CODE: Final = 128 + signal.SIGTERM  # exit code of a process that has ended as it was told to
TASK_MANAGER_KILLED: Final = 239  # exit code of a process that ended itself because a task did not
CANCEL_WAIT_S = 1.0  # for a cancel() of the user's when its task is over
LAST_WORD_S = 1.0  # for messages to leave a process that is about to be killed
LOOKS_BEFORE_TIME = 100  # some look-ups only find that the thread was woken
MESSAGES_IN_A_ROW = 1000  # until deadlines are looked at although more messages wait


class TaskManager:
    """Runs the tasks that a job master deploys here.

    Parameters
    ----------
    bundle : JobBundle
        The job's functions and settings.
    link : ManagerLink
        The way to the job master; closed at the end.
    manager_id : str
    run : int
        Which call for task managers it answers.
    index : int
        Its place in that run: its first slot.
    slot_count : int
        0: in the program, for tasks that take no slot.
    shuffle : Shuffle
        Closed at the end.
    make_task : callable
        Given what a `ManagedTask` takes, returns one: `ManagedTask` where each has a thread of its own.
    clock : Clock, optional
        Processing time of its tasks.
    can_kill_process : bool, default True
        Whether the process is ended if a task cannot be.
    target_io : object, optional
        What the target gives operators of its own: `OperatorContext.target_io`.
    config : TaskExecutorConfig, optional
        How patient it is; what the job's settings say if left out.
    ticks : callable, optional
        Nanoseconds of a clock that never jumps, for deadlines.
    """

    def __init__(
        self,
        bundle: JobBundle,
        link: ManagerLink,
        *,
        manager_id: str,
        run: int,
        index: int,
        slot_count: int,
        shuffle: Shuffle,
        make_task: Callable[[TaskDeploymentDescriptor, TaskSurroundings, MemoryManager], ManagedTask],
        clock: Clock | None = None,
        can_kill_process: bool = True,
        target_io: object | None = None,
        config: TaskExecutorConfig | None = None,
        ticks: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.manager_id = manager_id
        self._registration = RegisterManager(
            manager_id, run, index, shuffle.host, shuffle.data_port, slot_count, os.getpid()
        )
        self._bundle = bundle
        self._link = link
        self._shuffle = shuffle
        self._surroundings = TaskSurroundings(bundle, shuffle, clock or SystemClock(), self._tell, target_io)
        self._executor = TaskExecutor(
            config
            or TaskExecutorConfig(
                cancellation_interval_ms=bundle.settings.task_cancellation_interval_ms,
                cancellation_timeout_ms=bundle.settings.task_cancellation_timeout_ms,
                can_kill_process=can_kill_process,
            )
        )
        self._ticks = ticks
        self._make_task = make_task
        self._inbox: queue.SimpleQueue[object] = queue.SimpleQueue()  # events of this process
        self._is_connected = True
        self._tasks: dict[AttemptId, ManagedTask] = {}
        self._memories: dict[int, MemoryManager] = {}  # by slot
        self._threads: list[threading.Thread] = []  # threads that cancel
        self._ended: list[ManagedTask] = []  # whose threads may not be gone yet
        self._reason = ""
        self._process = ProcessFigures()
        self._process_figures: Json = {}
        self._sampler = StackSampler(lambda request, tree: self._tell(ThreadsSampled(request, tree)))

    def run(self) -> str:
        """Serve until the job master releases it, or is gone; returns why, when all is freed. On one thread, once."""
        with job_in_log(self._bundle.job_name, self._bundle.job_id), log_can_be_read():
            return self._serve()

    def _serve(self) -> str:
        try:
            self._executor.start(self._now_ms())
            self._send(self._registration)
            while not self._executor.is_over:
                self._step()
        except BaseException as error:  # not of a task: of the manager itself, or Ctrl-C on its thread
            self._reason = f"the task manager failed: {type(error).__name__}: {error}"
            raise
        finally:
            self._free()
        return self._reason

    def leave(self, reason: str) -> None:
        """Cancel all tasks and have `run` return, without another word to the job master; from any thread."""
        self._tell(LinkLost(reason))

    def run_until_signal(self) -> str:
        """Call `run` on a process' main thread, so that SIGTERM ends the tasks, and then raises SystemExit.

        The job master hears of it at once. A second signal ends the process without waiting for the tasks.
        """
        is_told = False

        def leave() -> None:
            nonlocal is_told
            is_told = True
            signals.give_back(signal.SIGTERM)
            self._tell(LeaveAsked("its process was told to end (SIGTERM)"))

        with signals.handled(signal.SIGTERM, leave):
            reason = self.run()
        if is_told:
            raise SystemExit(SIGTERM_CODE)
        return reason

    # ---- the control thread -----------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return self._ticks() // 1_000_000

    def _step(self) -> None:
        """Wait for one message or the next deadline, and handle it."""
        deadline_ms, now_ms = self._executor.next_deadline_ms, self._now_ms()
        if deadline_ms is not None and deadline_ms <= now_ms:
            self._pass_time()
            return
        message = self._take(None if deadline_ms is None else (deadline_ms - now_ms) / 1000)
        if message is not None:
            self._handle(message)

    def _pass_time(self) -> None:
        """Pass the time to the executor; after a long stop of this process the waiting messages come first."""
        looks = 0
        for _ in range(MESSAGES_IN_A_ROW):
            message = self._take(0.0)
            if message is not None:
                self._handle(message)
            elif (looks := looks + 1) == LOOKS_BEFORE_TIME:
                break
        self._handle(TimePassed())

    def _take(self, timeout_s: float | None) -> object | None:
        """Return the next event or message of the job master; None: none came in time, or only a wake-up."""
        with suppress(queue.Empty):
            return self._inbox.get_nowait()
        if not self._is_connected:
            with suppress(queue.Empty):
                return self._inbox.get(timeout=timeout_s)
            return None
        try:
            message = self._link.receive(timeout_s)
            # What tasks report comes from this process only.
            return None if isinstance(message, TASK_REPORTS) else message
        except ConnectionError as error:
            self._is_connected = False
            return LinkLost(str(error) or "the connection to the job master has ended")

    def _tell(self, event: object) -> None:
        """Put an event of this process into the inbox; from any thread."""
        self._inbox.put(event)
        self._link.wake()

    def _handle(self, message: object) -> None:
        if isinstance(message, HeartbeatRequest):
            # Reading files lets others have the interpreter, perhaps for long: before it counts as heard, not after.
            self._process_figures = self._process.look()
        for action in self._executor.handle(message, self._now_ms()):
            self._perform(action)
        if isinstance(message, TaskStateReport) and TaskState(message.state).is_terminal:
            # Its thread ends by itself, or is waited for at the end.
            task = self._tasks.pop(message.attempt, None)
            self._ended = [each for each in self._ended if not each.join(0)]
            self._threads = [each for each in self._threads if each.is_alive()]
            if task is not None:
                self._ended.append(task)

    # ---- actions ----------------------------------------------------------------------------------------

    def _perform(self, action: object) -> None:
        """Perform an action of the task executor, one of task_actions.py."""
        match action:
            case SendMessage():
                self._send(action.message)
            case AskMetrics():
                self._ask_metrics(action)
            case StartTask():
                self._start_task(action.descriptor)
            case StopTask():
                self._stop_task(action)
            case InterruptTask():
                self._interrupt_task(action)
            case DropPartitions():
                self._shuffle.release_partitions(action.partition_ids)
            case ForgetTask():
                self._shuffle.release(action.attempt)
            case DeliverOperatorEvent() if task := self._tasks.get(action.attempt):
                task.deliver(action.operator_id, action.payload)
            case TriggerTask() if task := self._tasks.get(action.attempt):
                task.trigger_checkpoint(action.checkpoint_id, action.timestamp_ms, action.options)
            case NotifyTask() if task := self._tasks.get(action.attempt):
                task.notify_checkpoint(action.checkpoint_id, action.is_complete, action.latest_completed_id)
            case SampleThreads():
                self._sample_threads(action)
            case InspectProcess():
                self._send(replace(action.answer, answer=_INSPECTED.get(action.subject, dict)()))
            case KillProcess():
                self._kill_process(action)
            case LeaveProcess():
                self._leave_process(action)
            case Warn():
                logger.warning("task manager %s: %s", self.manager_id, action.text)

    def _send(self, message: object) -> None:
        if not self._is_connected:
            return
        try:
            self._link.send(message)
        except ConnectionError:
            pass  # `receive` finds the end, behind what the job master said before it: why it ended, for one
        except MessageTooLargeError as error:
            self._send_instead(message, error)

    def _send_instead(self, message: object, error: MessageTooLargeError) -> None:
        instead = instead_of(message, str(error))
        if instead is None:
            raise error
        for each in instead.messages:
            self._send(each)
        for attempt, reason in (instead.failing or {}).items():
            task = self._tasks.get(attempt)
            if task is not None:
                task.fail(reason)

    def _ask_metrics(self, action: AskMetrics) -> None:
        metrics = {str(attempt): task.metrics() for attempt, task in self._tasks.items()}
        accumulators = {str(attempt): each for attempt, task in self._tasks.items() if (each := task.accumulators())}
        self._send(replace(action.report, metrics=metrics, accumulators=accumulators, manager_metrics=self._figures()))

    def _figures(self) -> Json:
        memories = self._memories.values()
        return {
            **self._process_figures,
            "tasks": len(self._tasks),
            "managed_memory_total": sum(each.total_bytes for each in memories),
            "managed_memory_used": sum(each.total_bytes - each.available_bytes for each in memories),
            **self._shuffle.figures(),
        }

    def _start_task(self, descriptor: TaskDeploymentDescriptor) -> None:
        memory = self._memories.get(descriptor.slot_index)
        if memory is None:
            memory = self._memories[descriptor.slot_index] = MemoryManager(self._bundle.managed_memory_bytes)
        self._tasks[descriptor.attempt] = task = self._make_task(descriptor, self._surroundings, memory)
        task.start()

    def _stop_task(self, action: StopTask) -> None:
        """Cancel on a thread of its own: a source's cancel() that takes its time delays no other task."""
        task = self._tasks.get(action.attempt)
        if task is None:
            return
        canceler = threading.Thread(target=task.end, name=f"cancel {task.descriptor.task_name}", daemon=True)
        try:
            canceler.start()
        except RuntimeError:  # the system has no thread left
            task.cancel()
        else:
            self._threads.append(canceler)

    def _interrupt_task(self, action: InterruptTask) -> None:
        task = self._tasks.get(action.attempt)
        if task is not None:
            logger.warning(
                "%s has not ended since it was cancelled: it is interrupted in %s",
                task.descriptor.task_name,
                task.place or "a function without Python code",
            )
            task.interrupt()

    def _sample_threads(self, action: SampleThreads) -> None:
        """Start a sample without waiting for it; a request beyond the limit is answered with no samples."""
        threads = [self._tasks[attempt].thread for attempt in action.attempts if attempt in self._tasks]
        if not self._sampler.ask(action.request, threads, action.count, action.interval_ms):
            self._tell(ThreadsSampled(action.request, FlameTree(1).root))

    def _leave_process(self, action: LeaveProcess) -> None:
        self._reason = action.reason
        for attempt in action.left_behind:
            task = self._tasks.pop(attempt)
            place = task.place or "a function without Python code"
            logger.warning("%s is left behind in %s: %s", task.descriptor.task_name, place, action.reason)

    def _kill_process(self, action: KillProcess) -> None:
        """End the process without giving anything back: a thread of it cannot be ended otherwise."""
        try:
            logger.critical("task manager %s ends its process: %s", self.manager_id, action.reason)
            flush = getattr(self._link, "flush", None)
            if flush is not None:
                flush(LAST_WORD_S)
            else:
                self._link.close()
            logging.shutdown()
        finally:
            os._exit(TASK_MANAGER_KILLED)

    # ---- the end ----------------------------------------------------------------------------------------

    def _end_tasks(self) -> None:
        """End the tasks that are left if the manager itself has failed."""
        for attempt in self._tasks:
            self._stop_task(StopTask(attempt))
        timeout_ms = self._executor.config.cancellation_timeout_ms
        deadline_ms = self._now_ms() + timeout_ms
        for task in self._tasks.values():
            while not task.join(CANCEL_WAIT_S):
                task.interrupt()
                if timeout_ms > 0 and self._now_ms() > deadline_ms and self._executor.config.can_kill_process:
                    self._kill_process(KillProcess(f"attempt {task.attempt} does not end, and the manager has failed"))

    def _free(self) -> None:
        """Free threads, partitions, gates and the link: each even if another fails."""
        self._end_tasks()
        for task in self._ended:
            task.join()
        for canceler in self._threads:
            canceler.join(CANCEL_WAIT_S)
        for step in (self._sampler.close, self._shuffle.close, self._link.close):
            try:
                step()
            except BaseException:
                logger.exception("ending task manager %s", self.manager_id)
        for slot, memory in self._memories.items():
            if not memory.is_empty:
                logger.error("slot %d: managed memory was not given back by %s", slot, memory.owners())
        self._tasks, self._ended, self._threads = {}, [], []


_INSPECTED: Final[dict[str, Callable[[], Json]]] = {"log": lambda: {"log": logged()}, "thread-dump": thread_dump}
