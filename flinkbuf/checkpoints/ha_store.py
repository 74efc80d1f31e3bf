"""The files that a job master leaves for the next one of its job: ``high-availability.storageDir``.

``<directory>/<cluster id>/<job>/`` holds leases, the job as it was stored, and where the checkpoints lie that count.
`ha_protocol` says which of it counts.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from flinkbuf.checkpoints import ha_protocol as protocol
from flinkbuf.checkpoints.ha_directory import PAUSE_S, HaDirectory, holder_text, is_gone, this_process
from flinkbuf.checkpoints.ha_hdfs import check_kind, ha_directory_at, names_of_directories
from flinkbuf.checkpoints.ha_protocol import HaPrevious, HaState, LeaseLostError, Pointer
from flinkbuf.checkpoints.locations import child, normalized
from flinkbuf.errors import CorruptDataError
from flinkbuf.log import RepeatedMessage, logger

_POLL_S = 0.5  # between two looks at a lease of another holder
_PEEKS = 10  # of a directory that changes meanwhile
_WARN_EVERY_S = 60.0  # while a directory does not say what counts


@dataclass(frozen=True)
class UnfinishedJobs:
    """The jobs below a directory of high availability.

    Attributes
    ----------
    stores : list of HaStore
    unreadable : dict
        Directories of jobs whose cluster and name are not known, and what is wrong with each.
    """

    stores: list[HaStore]
    unreadable: dict[str, Exception]


class HaStore:
    """The directory of one job of one cluster. From any thread.

    Parameters
    ----------
    storage_dir : str
        A directory on this machine, mounted by all that may run the job, or of HDFS.
    cluster_id : str
    job_name : str

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     first = HaStore(directory, "default", "my job").try_acquire(timeout_ms=10_000)
    ...     first.store_job("ab" * 16, b"what it is")
    ...     first.add_checkpoint(7, "/checkpoints/chk-7/_metadata")
    ...     first.release()
    ...     second = HaStore(directory, "default", "my job").try_acquire(timeout_ms=10_000)
    ...     second.epoch, second.previous.checkpoint
    (2, '/checkpoints/chk-7/_metadata')
    """

    def __init__(self, storage_dir: str, cluster_id: str, job_name: str) -> None:
        check_kind(storage_dir)
        self.cluster_id = cluster_id
        self.job_name = job_name
        self.path = child(normalized(storage_dir), _file_name(cluster_id), _file_name(job_name))
        self._directory = ha_directory_at(self.path)

    @classmethod
    def unfinished(cls, storage_dir: str, cluster_id: str | None = None) -> UnfinishedJobs:
        """Return the stores of all jobs that were stored and have not come to their end, and what cannot be read.

        Raises
        ------
        FileNotFoundError
            If the directory does not exist.
        """
        found = UnfinishedJobs([], {})
        root = normalized(storage_dir)
        for cluster in names_of_directories(root):
            for job in names_of_directories(child(root, cluster)):
                path = child(root, cluster, job)
                try:
                    facts = _stored_facts(path)
                except (CorruptDataError, OSError) as error:
                    found.unreadable[path] = error
                    continue
                if facts and cluster_id in (None, facts["cluster_id"]):
                    found.stores.append(cls(storage_dir, facts["cluster_id"], facts["job_name"]))
        return found

    def peek(self) -> HaPrevious:
        """Return the state that was left, without taking the job over."""
        return _peek(self._directory) if self._directory.exists() else HaPrevious()

    def holder(self) -> str:
        """Return who made the latest lease, for people; empty: no lease was ever made."""
        latest = protocol.highest_epoch(self._directory.do(protocol.ListNames()))
        return holder_text(self._directory.do(protocol.Read(f"lease-{latest}"))) if latest else ""

    def try_acquire(self, timeout_ms: int) -> HaLease | None:
        """Take the job over; None: another holder has renewed the lease within `timeout_ms`.

        Raises
        ------
        OSError
            If the directory cannot be read or written.
        CorruptDataError
            If what was left is not as it was written.
        """
        self._directory.make()
        names = self._directory.do(protocol.ListNames())
        latest = protocol.highest_epoch(names)
        if latest and self._is_held(latest, names, timeout_ms):
            return None
        began_ms = boot_ms()
        taken = self._directory.perform(protocol.take_over(latest, this_process()))
        return HaLease(self, *taken, began_ms) if taken else None

    def acquire(
        self,
        timeout_ms: int,
        is_cancelled: Callable[[], bool] = lambda: False,
        waiting: Callable[[str], object] | None = None,
    ) -> HaLease | None:
        """Take the job over as soon as it has no holder; None: `is_cancelled` said so.

        A directory that fails while this waits is asked again: whoever waits is there for bad times.

        Parameters
        ----------
        timeout_ms : int
            After so long without a sign of life a holder is given up.
        is_cancelled : callable
        waiting : callable, optional
            Called once with a text that names the holder waited for.
        """
        has_waited, is_told = False, waiting is None
        fails = RepeatedMessage(logger.warning, _WARN_EVERY_S)
        while not is_cancelled():
            try:
                lease = self.try_acquire(timeout_ms)
                if lease is not None:
                    return lease
                if not is_told and waiting is not None:
                    waiting(f"job {self.job_name!r} is run by {self.holder()}: waiting until it ends or is gone")
                    is_told = True
            except OSError as error:
                if not has_waited:
                    raise
                fails("job %r waits to be taken over, and %s fails: %s", self.job_name, self.path, error)
            has_waited = True
            time.sleep(min(_POLL_S, timeout_ms / 4000))
        return None

    def _is_held(self, epoch: int, names: list[str], timeout_ms: int) -> bool:
        if f"released-{epoch}" in names or f"result-{epoch}" in names:
            return False
        lease = f"lease-{epoch}"
        if is_gone(self._directory.do(protocol.Read(lease))):
            return False
        age_ms = self._directory.age_ms(lease)
        return age_ms is not None and age_ms < timeout_ms


class HaLease:
    """The right to run a job, until another holder takes it. From any thread.

    Attributes
    ----------
    epoch : int
        The fencing token: one more with each holder, from 1.
    previous : HaPrevious
        What the holders before left.
    renewed_ms : int
        When the last renewal was begun that succeeded, by `clock_ms`: others count from that or from later.
    clock_ms : callable
        A clock that never goes back, and goes on while the machine sleeps.
    """

    def __init__(self, store: HaStore, epoch: int, previous: HaPrevious, made_ms: int) -> None:
        self.store = store
        self.epoch = epoch
        self.previous = previous
        self.renewed_ms = made_ms
        self.clock_ms: Callable[[], int] = boot_ms
        self._directory = ha_directory_at(store.path, self._wait)
        self._one_change = threading.Lock()  # of what counts, and held until it is known to be made or not
        self._state = previous.state
        self._written: HaState | None = previous.state  # None: the last change has failed, and may have been made
        self._program = previous.program
        self._lost: str | None = None
        self._is_released = threading.Event()
        self._warn_at_s = 0.0

    def checkpoints(self) -> tuple[tuple[int, str], ...]:
        """Return number and path of each checkpoint that counts, oldest first."""
        return tuple((each.checkpoint_id, each.path) for each in self._state.pointers)

    def store_job(self, job_id: str, job: bytes, program: str = "") -> None:
        """Store what the job is, before it starts; `program` tells the one that made it from others.

        Raises
        ------
        LeaseLostError
            Here as in what follows: another job master has taken over. Stop the job, and delete nothing.
        """
        names = {"job_name": self.store.job_name, "cluster_id": self.store.cluster_id}
        self._perform(protocol.store_job(self.epoch, {**names, "job_id": job_id, "program": program}, job))
        self._program = program

    def add_checkpoint(self, checkpoint_id: int, metadata_path: str) -> None:
        """Let a checkpoint count whose ``_metadata`` is written; before that no user may hear of it.

        Waits while the directory does not say whether the checkpoint counts.

        Raises
        ------
        OSError
            The checkpoint does not count, and never will.
        """
        pointer = Pointer(checkpoint_id, self.epoch, metadata_path)
        with self._one_change:
            self._written = None
            self._state = self._written = self._perform(protocol.add_checkpoint(self.epoch, self._state, pointer))

    def remove_checkpoint(self, checkpoint_id: int) -> None:
        """Let a checkpoint not count any more, for which a newer one counts; its files may be deleted only after this.

        Raises
        ------
        OSError
            Perhaps it still counts: its files must stay.
        """
        with self._one_change:
            self._check()
            self._state = self._state.without_checkpoint(checkpoint_id)
            if self._written != self._state:
                self._written = None
                self._perform(protocol.write_state(self.epoch, self._state))
                self._written = self._state

    def renew(self) -> None:
        """Renew the lease: several times within the timeout."""
        began_ms = self.clock_ms()
        self._perform(protocol.renew(self.epoch))
        self.renewed_ms = max(self.renewed_ms, began_ms)  # another thread may have renewed it since

    def finish(self, result: str) -> None:
        """Note that the job is over for good, before its checkpoints are deleted; it is not run again."""
        self._perform(protocol.finish(self.epoch, result, self._program))

    def release(self) -> None:
        """Give the lease back without an end, so that others need not wait; a lost lease is back already."""
        is_ours = self._lost is None
        self._is_released.set()
        if is_ours:
            self._directory.perform(protocol.release(self.epoch))

    def give_up(self, reason: str) -> None:
        """Treat the lease as lost, though no other holder was seen; waiting for the directory ends."""
        self._lost = self._lost or reason
        self._is_released.set()

    def _wait(self, why: str) -> None:
        if time.monotonic() >= self._warn_at_s:
            self._warn_at_s = time.monotonic() + _WARN_EVERY_S
            logger.warning("job %r waits for %s: %s", self.store.job_name, self.store.path, why)
        if self._is_released.wait(PAUSE_S):
            raise LeaseLostError("this program has given the job back")

    def _perform(self, steps: protocol.Steps[protocol.T]) -> protocol.T:
        self._check()
        try:
            return self._directory.perform(steps)
        except LeaseLostError as error:
            self._lost = self._lost or str(error)
            raise

    def _check(self) -> None:
        if self._lost is not None:
            raise LeaseLostError(self._lost)


def boot_ms() -> int:
    """Return the milliseconds of a clock that never goes back; on Linux it goes on while the machine sleeps."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


def _file_name(name: str) -> str:
    """Return a directory name for a name: its readable part, and a digest."""
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name)[:40]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _peek(directory: HaDirectory) -> HaPrevious:
    """Return the state that was left; its holder may end meanwhile, and delete a file just listed."""
    for _ in range(_PEEKS):
        latest = protocol.highest_epoch(directory.do(protocol.ListNames()))
        with contextlib.suppress(FileNotFoundError):
            return directory.perform(protocol.read_previous(latest + 1))
    return directory.perform(protocol.read_previous(latest + 1))


def _stored_facts(path: str) -> dict[str, str] | None:
    """Return the facts of the job stored in a directory; None: no job is stored, or it is over."""
    directory = ha_directory_at(path)
    previous = _peek(directory)
    if previous.job is None:
        return None
    name = f"job-{previous.job_epoch}"
    data = directory.do(protocol.Read(name))
    return None if data is None else protocol.decode_job(data, child(path, name))[0]
