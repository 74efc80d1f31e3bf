"""Writes, reads and deletes what a job's checkpoints have in storage, without the job's thread ever waiting for it.

A storage that hangs holds up only the checkpoint that needs it: each checkpoint is written on a thread of its own,
and files are deleted on another. Where another program can take a job over, a checkpoint counts only once that program
could find it, and only while this program still holds the job. Once the other program could find it, only an answer
of the storage decides whether it counts. Flink: CheckpointsCleaner, the executors for I/O of JobMaster.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from flinkbuf.checkpoints.handles import StateHandle
from flinkbuf.checkpoints.storage import CheckpointStorage, storage_of
from flinkbuf.log import logger
from flinkbuf.runtime.driver.threads import Threads
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.scheduler.master_actions import (
    CheckpointStored,
    DiscardState,
    StoreCheckpoint,
    WithdrawCheckpoint,
)

if TYPE_CHECKING:
    from flinkbuf.runtime.driver.leadership import Leadership

ANYWHERE: Final = "/"  # a storage reads and writes any file whose whole path it is given
MAX_HANGING: Final = 16  # checkpoints written at a time; more mean that the storage does not answer
CLOSE_WAIT_S = 10.0  # for files to be deleted at the end of a job

_END: Final = None


class CheckpointIo:
    """The storage of one job's checkpoints, as seen from its job master.

    Parameters
    ----------
    job_name : str
        For names of threads.
    directory : str
        Of the job's checkpoints; empty: there is none.
    tell : callable
        Given each `CheckpointStored`; from any thread.
    leadership : Leadership, optional
        Says whether this program still holds the job; None: no other program can take it over.
    threads : Threads, optional
    """

    def __init__(
        self,
        job_name: str,
        directory: str,
        tell: Callable[[CheckpointStored], None],
        leadership: Leadership | None = None,
        threads: Threads | None = None,
    ) -> None:
        self._threads = threads or Threads()
        self.storage: CheckpointStorage = storage_of(directory or ANYWHERE)
        self._job_name = job_name
        self._tell = tell
        self._leadership = leadership
        self._lock = threading.Lock()
        self._storing: set[int] = set()  # checkpoints that are being written
        self._noting: set[int] = set()  # checkpoints in writing that another program may find, or will soon
        self._withdrawn: set[int] = set()  # checkpoints in writing that were reported as failed
        self._unwanted: dict[int, DiscardState] = {}  # by checkpoint in writing: files to delete when it is written
        self._discards: queue.SimpleQueue[DiscardState | Callable[[], None] | None] = (
            self._threads.queue()
        )  # of DiscardState, Callable, and None at the end
        self._discarder: threading.Thread | None = None

    # ---- the job's thread

    def store(self, action: StoreCheckpoint) -> None:
        """Write the metadata of a checkpoint; `CheckpointStored` reports the result."""
        checkpoint_id = action.metadata.checkpoint_id
        if not action.options.location:  # the job master has all of it
            self._tell(CheckpointStored(checkpoint_id))
            return
        with self._lock:
            is_stuck = len(self._storing) >= MAX_HANGING
            if not is_stuck:
                self._storing.add(checkpoint_id)
        if is_stuck:
            error = TimeoutError(f"{MAX_HANGING} checkpoints before it are still being written: the storage hangs")
            self._tell(CheckpointStored(checkpoint_id, failure=Failure.of(error)))
            return
        try:
            self._threads.begin(lambda: self._store(action), f"checkpoint {checkpoint_id} of {self._job_name}")
        except RuntimeError as error:  # the system has no thread left
            with self._lock:
                self._storing.discard(checkpoint_id)
            self._tell(CheckpointStored(checkpoint_id, failure=Failure.of(error)))

    def withdraw(self, action: WithdrawCheckpoint) -> None:
        """Give a checkpoint up that takes too long to store; one that another program may find is waited for."""
        checkpoint_id = action.checkpoint_id
        with self._lock:
            if checkpoint_id not in self._storing - self._noting - self._withdrawn:
                return  # `CheckpointStored` reports, or has reported, the result
            self._withdrawn.add(checkpoint_id)
        self._tell(CheckpointStored(checkpoint_id, failure=Failure.of(TimeoutError("its storage did not answer"))))

    def discard(self, action: DiscardState) -> None:
        """Delete files later; not before a checkpoint that is still being written is over."""
        with self._lock:
            if action.checkpoint_id in self._storing:
                self._unwanted[action.checkpoint_id] = action
                return
        self._discards.put(action)
        self._begin_discarding()

    def do_later(self, call: Callable[[], None]) -> None:
        """Call a function later on the thread that deletes files; `close` waits for it."""
        self._discards.put(call)
        self._begin_discarding()

    def read(self, handle: StateHandle) -> bytes:
        """Return bytes of state; it waits for the storage."""
        return bytes(self.storage.read(handle))

    def close(self, at_last: Callable[[], None] | None = None, timeout_s: float | None = None) -> bool:
        """Wait until what is to be deleted is; returns whether it was in time. What still writes is left alone.

        `at_last` is called on the thread that deletes, after all.
        """
        monotonic = self._threads.monotonic
        deadline = monotonic() + (CLOSE_WAIT_S if timeout_s is None else timeout_s)
        while monotonic() < deadline and self._is_deleting_what_is_written():
            self._threads.sleep(0.01)
        if at_last is not None:
            self._discards.put(at_last)
            self._begin_discarding()
        if self._discarder is None:
            return not self._unwanted
        self._discards.put(_END)
        self._discarder.join(max(0.0, deadline - monotonic()))
        if self._discarder.is_alive():
            logger.warning("files of checkpoints of job %r are still being deleted, and were left", self._job_name)
        return not self._discarder.is_alive() and not self._unwanted

    def _is_deleting_what_is_written(self) -> bool:
        with self._lock:
            return bool(self._unwanted)

    def _begin_discarding(self) -> None:
        if self._discarder is None:
            try:
                self._discarder = self._threads.begin(self._discard_all, f"files of checkpoints of {self._job_name}")
            except RuntimeError as error:  # the system has no thread left: perhaps next time
                logger.warning("files of checkpoints of job %r wait to be deleted: %s", self._job_name, error)

    # ---- threads of their own

    def _store(self, action: StoreCheckpoint) -> None:
        checkpoint_id = action.metadata.checkpoint_id
        stored: CheckpointStored | None
        try:
            stored = self._stored(action)
        except BaseException as error:
            stored = CheckpointStored(checkpoint_id, failure=Failure.of(error))
        with self._lock:
            self._storing.discard(checkpoint_id)
            self._noting.discard(checkpoint_id)
            unwanted = self._unwanted.get(checkpoint_id)
            is_told = checkpoint_id in self._withdrawn
            self._withdrawn.discard(checkpoint_id)
        if unwanted is not None:
            self._discard(unwanted)
            with self._lock:
                del self._unwanted[checkpoint_id]
        elif stored is not None and not is_told:
            self._tell(stored)

    def _stored(self, action: StoreCheckpoint) -> CheckpointStored | None:
        """Write the metadata and note its place; return None if this program is not to go on."""
        checkpoint_id, location = action.metadata.checkpoint_id, action.options.location
        path, size = self.storage.write_metadata(location, action.metadata)
        kind = action.options.snapshot_kind
        # A synchronous savepoint is noted, too: a program that takes over a job being stopped goes on from it.
        if self._leadership is not None and (kind.is_synchronous or not kind.is_savepoint):
            with self._lock:
                if checkpoint_id in self._unwanted or checkpoint_id in self._withdrawn:
                    return None
                self._noting.add(checkpoint_id)
            if not self._leadership.add_checkpoint(checkpoint_id, path):
                return None
        return CheckpointStored(checkpoint_id, location, size)

    def _discard_all(self) -> None:
        while (action := self._discards.get()) is not _END:
            if isinstance(action, DiscardState):
                self._discard(action)
            else:
                try:
                    action()
                except Exception as error:
                    logger.warning("files of job %r were not deleted: %s", self._job_name, error)

    def _discard(self, action: DiscardState) -> None:
        """Delete files, unless another program may have begun from them; a failure is logged and the file stays."""
        try:
            if self._leadership is not None and not self._leadership.may_discard(action.checkpoint_id):
                return
            if action.location:
                self.storage.delete_directory(action.location)
            self.storage.delete(action.handles)
        except BaseException as error:
            logger.warning("files of a checkpoint in %s were not deleted: %s", action.location or "storage", error)
