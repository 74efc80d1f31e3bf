"""Whether this program still holds a job that another one could take over.

The lease of the job is renewed on a thread of its own. Once another program holds a newer one nothing that this one
does counts any more: it is told so at the next checkpoint at the latest, before anybody hears that this one counts.
Flink: DefaultLeaderElectionService, ZooKeeperCompletedCheckpointStore.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from flinkbuf.checkpoints.ha_store import LeaseLostError
from flinkbuf.jobs.threads import Threads
from flinkbuf.log import logger

if TYPE_CHECKING:
    from flinkbuf.checkpoints.ha_store import HaLease

RENEWALS_PER_TIMEOUT = 3
CLOSE_WAIT_S = 5.0


class Leadership:
    """The lease of one job, from `start` to `close`.

    Parameters
    ----------
    lease : HaLease
    timeout_ms : int
        After which others take over a lease that was not renewed.
    threads : Threads, optional
    """

    def __init__(self, lease: HaLease, timeout_ms: int, threads: Threads | None = None) -> None:
        self.lease = lease
        self._threads = threads or Threads()
        self._pause_s = timeout_ms / 1000 / RENEWALS_PER_TIMEOUT
        self._lost: Callable[[str], None] | None = None
        self._lock = threading.Lock()
        self._reason = ""  # why it is lost
        self._is_over = self._threads.event()
        self._thread: threading.Thread | None = None

    def start(self, lost: Callable[[str], None]) -> None:
        """Keep it; `lost` is told once if another program takes over, from any thread."""
        self._lost = lost
        self._thread = self._threads.begin(self._renew, "flinkbuf lease")

    def close(self, *, is_over_for_good: bool) -> None:
        """Renew it no more; a job that is not over for good can be taken over at once."""
        self._is_over.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CLOSE_WAIT_S)
        if not is_over_for_good and not self._reason:
            try:
                self.lease.release()
            except OSError as error:
                logger.warning("the lease of a job was not given back, others wait for its timeout: %s", error)

    @property
    def is_lost(self) -> bool:
        """Whether another program holds the job."""
        return bool(self._reason)

    def finish(self, result: str) -> bool:
        """Note that the job is over for good, before anything of it is deleted; False: it is not over, but lost."""
        return self._guarded(lambda: self.lease.finish(result))

    def add_checkpoint(self, checkpoint_id: int, path: str) -> bool:
        """Note where a checkpoint is; False: it does not count, another program holds the job."""
        return self._guarded(lambda: self.lease.add_checkpoint(checkpoint_id, path))

    def may_discard(self, checkpoint_id: int | None) -> bool:
        """Forget a checkpoint; return whether its files can go: not if another program may have begun from it."""

        def forget() -> None:
            if checkpoint_id is not None:
                self.lease.remove_checkpoint(checkpoint_id)
            if not self._is_over.is_set():
                self.lease.renew()  # after it was forgotten: who took over later does not begin from it

        return self._guarded(forget)

    def _guarded(self, work: Callable[[], None]) -> bool:
        if self._reason:
            return False
        try:
            work()
        except LeaseLostError as error:
            self._lose(str(error))
            return False
        return True

    def _lose(self, reason: str) -> None:
        with self._lock:
            is_first = not self._reason
            self._reason = self._reason or reason
        if is_first and self._lost is not None:
            self._lost(reason)

    def _renew(self) -> None:
        while not self._is_over.wait(self._pause_s):
            try:
                self.lease.renew()
            except LeaseLostError as error:
                if not self._is_over.is_set():
                    self._lose(str(error))
                return
            except OSError as error:  # if it lasts, another program will take over, and this one will see it then
                logger.warning("the lease of a job could not be renewed: %s", error)
