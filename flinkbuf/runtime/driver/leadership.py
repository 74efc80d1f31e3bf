"""Whether this program still holds a job that another one could take over.

The lease of the job is renewed on a thread of its own. Once another program holds a newer one nothing that this one
does counts any more: it is told so at the next checkpoint at the latest, before anybody hears that this one counts.
A lease that cannot be renewed for as long as it lasts is lost as well, whether or not another program is seen: the
directory may fail for this program alone. Another thread watches for that, since a directory may also hang.
Flink: DefaultLeaderElectionService, ZooKeeperCompletedCheckpointStore, KubernetesLeaderElector.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from flinkbuf.checkpoints.ha_store import LeaseLostError
from flinkbuf.log import logger
from flinkbuf.runtime.driver.lease_term import RENEWALS_PER_TIMEOUT, LeaseTerm
from flinkbuf.runtime.driver.threads import Threads

if TYPE_CHECKING:
    from flinkbuf.checkpoints.ha_store import HaLease

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
        self._timeout_ms = timeout_ms
        self._trouble = "the directory has not answered"  # why the last renewal has not succeeded
        self._lost: Callable[[str], None] | None = None
        self._lock = threading.Lock()
        self._reason = ""  # why the lease is lost
        self._is_over = self._threads.event()
        self._renewer: threading.Thread | None = None

    def start(self, lost: Callable[[str], None]) -> None:
        """Keep the lease; `lost` is told once if another program has, or may have, taken over; from any thread.

        To make a job ready may take longer than its lease lasts. So an old lease is renewed before this returns, and
        `lost` is told before if that comes too late: another program may be about to commit what this job, begun from
        an earlier checkpoint, would roll back.
        """
        self._lost = lost
        self._confirm()
        term = LeaseTerm(self._timeout_ms, self.lease.clock_ms())
        self._renewer = self._threads.begin(lambda: self._renew(term.pause_ms / 1_000), "flinkbuf lease")
        self._threads.begin(lambda: self._watch(term), "flinkbuf lease watch")

    def close(self, *, is_over_for_good: bool) -> None:
        """Renew it no more; a job that is not over for good can be taken over at once."""
        self._is_over.set()
        if self._reason:  # there is nothing to give back, and the directory may hang
            return
        if self._renewer is not None and self._renewer is not threading.current_thread():
            self._renewer.join(CLOSE_WAIT_S)
        if not is_over_for_good and not self._reason:
            try:
                self.lease.release()
            except OSError as error:
                logger.warning("the lease of a job was not given back, others wait for its timeout: %s", error)

    @property
    def is_lost(self) -> bool:
        """Return whether another program holds the job, or may hold it."""
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
                self.lease.renew()  # asked after the checkpoint was forgotten: a later program does not begin from it

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

    def _confirm(self) -> None:
        """Renew the lease if a renewal is due: the job is to begin with most of it before it."""
        lease = self.lease
        if lease.clock_ms() - lease.renewed_ms < self._timeout_ms // RENEWALS_PER_TIMEOUT:
            return
        try:
            lease.renew()
        except LeaseLostError as error:
            self._lose(str(error))
            return
        except OSError as error:
            self._trouble = f"the last error was {error}"
        now_ms = lease.clock_ms()
        if now_ms - lease.renewed_ms >= self._timeout_ms:
            self._give_up(now_ms)

    def _renew(self, pause_s: float) -> None:
        while not self._is_over.is_set() and not self._reason:
            try:
                self.lease.renew()
                self._trouble = "the directory has not answered"
            except LeaseLostError as error:
                if not self._is_over.is_set():
                    self._lose(str(error))
                return
            except OSError as error:  # if it lasts, `_watch` ends it
                self._trouble = f"the last error was {error}"
                logger.warning("the lease of a job could not be renewed: %s", error)
            self._is_over.wait(pause_s)

    def _watch(self, term: LeaseTerm) -> None:
        """Give the job up when its lease was not renewed for so long that another program may have taken it over."""
        lease = self.lease
        while not self._is_over.is_set() and not self._reason:
            now_ms = lease.clock_ms()
            if term.is_over(lease.renewed_ms, now_ms):
                self._give_up(now_ms)
                return
            self._is_over.wait(max(1, term.next_look_ms(lease.renewed_ms) - now_ms) / 1_000)

    def _give_up(self, now_ms: int) -> None:
        reason = (
            f"its lease in {self.lease.store.path} could not be renewed for "
            f"{(now_ms - self.lease.renewed_ms) / 1_000:g} s ({self._trouble}), so another program may have taken the "
            "job over. See that this directory can be written, then start the program again: it goes on from the "
            "latest checkpoint, or waits while another program runs the job"
        )
        self.lease.give_up(reason)
        self._lose(reason)
