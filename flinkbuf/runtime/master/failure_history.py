"""What has failed, what was the cause, and what the restart strategy makes of it.

When a process dies, all its peers report that a connection was lost, and some are faster than the report of
the cause. So such a failure gives way to a better one, for as long as the job has not begun again.
Flink: ExecutionFailureHandler, RootExceptionHistoryEntry.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice

from flinkbuf.runtime.master.restart_strategy import RestartStrategy
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.scheduler.execution_graph import Execution

HISTORY_SIZE = 16  # Flink: web.exception-history-size
# How much a failure says: a peer is gone; a task being cancelled reports it, perhaps for that reason; a task
# manager is gone; the cause.
ECHO, AFTER_CANCEL, LOSS, CAUSE = 0, 1, 2, 3


@dataclass(frozen=True)
class FailureEntry:
    """A failure, with its place and time.

    Attributes
    ----------
    task_name : str or None
        With its subtask; None where the whole job is concerned.
    weight : int
        ECHO, AFTER_CANCEL, LOSS or CAUSE.
    """

    failure: Failure
    timestamp_ms: int
    task_name: str | None = None
    manager_id: str | None = None
    host: str | None = None
    weight: int = CAUSE

    @classmethod
    def of(cls, execution: Execution, failure: Failure, now_ms: int) -> FailureEntry:
        """Return the failure of an attempt."""
        manager = execution.manager
        where = (None, None) if manager is None else (manager.id, manager.host)
        return cls(failure, now_ms, str(execution.vertex), *where)


@dataclass
class Outage:
    """Failures of one moment: the one that counts, the others, and the subtasks they took down.

    Attributes
    ----------
    taken_down : tuple of str
        Names of subtasks that ended for it, `HISTORY_SIZE` at most; `taken_down_count` says how many there were.
    """

    root: FailureEntry
    concurrent: list[FailureEntry] = field(default_factory=list)
    taken_down: tuple[str, ...] = ()
    taken_down_count: int = 0


class FailureHistory:
    """The failures of a job, and what follows from each.

    Parameters
    ----------
    strategy : RestartStrategy

    Attributes
    ----------
    outages : list of Outage
        Newest last.
    """

    def __init__(self, strategy: RestartStrategy) -> None:
        self.strategy = strategy
        self.outages: list[Outage] = []

    def restart_delay_ms(self, entry: FailureEntry) -> int | None:
        """Note a failure; return the delay of the restart, or None if the job does not go on."""
        entry = weighed(entry)
        if not entry.failure.can_restart:
            self._begin(entry)
            return None
        if self.strategy.notify_failure(entry.timestamp_ms) or not self.outages:
            self._begin(entry)
        else:
            self.add(entry)
        return self.strategy.backoff_ms(entry.timestamp_ms) if self.strategy.can_restart() else None

    def add(self, entry: FailureEntry) -> None:
        """Note a failure that came with the last one; it may turn out to be the cause of both."""
        entry, outage = weighed(entry), self.outages[-1]
        is_decided = entry.failure.can_restart and not outage.root.failure.can_restart  # no other failure ended the job
        if entry.weight > outage.root.weight and not is_decided:
            outage.root, entry = entry, outage.root
        if len(outage.concurrent) < HISTORY_SIZE:
            outage.concurrent.append(entry)

    def took_down(self, count: int, names: Iterable[str]) -> None:
        """Note which subtasks end for the last failure, and how many; of several answers the widest holds."""
        if self.outages and count > self.outages[-1].taken_down_count:
            self.outages[-1].taken_down_count = count
            self.outages[-1].taken_down = tuple(islice(names, HISTORY_SIZE))

    def explain(self, failure: Failure) -> None:
        """Replace the failure that caused the job's last outage."""
        outage = self.outages[-1]
        outage.root = replace(outage.root, failure=failure)

    @property
    def cause(self) -> Failure | None:
        """Return why the job was last disturbed."""
        return self.outages[-1].root.failure if self.outages else None

    def _begin(self, entry: FailureEntry) -> None:
        self.outages.append(Outage(entry))
        del self.outages[:-HISTORY_SIZE]


def weighed(entry: FailureEntry) -> FailureEntry:
    """Return the entry with the weight of an echo, if it is one."""
    return replace(entry, weight=ECHO) if entry.failure.is_echo else entry
