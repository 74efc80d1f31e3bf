"""The world outside, where the sinks write: what was committed, and whether it is what it should be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.flow.flow_records import Path, Records, Routes
from simulation.world.invariants import demand

if TYPE_CHECKING:
    from collections.abc import Iterable


class Ledger:
    """Committed output of a job, over all of its runs.

    Parameters
    ----------
    routes : Routes
    is_exactly_once : bool
        Else records may come again, but none is left out.

    Attributes
    ----------
    promised : set of str
        Transactions that a complete checkpoint holds: only these may be committed.
    """

    def __init__(self, routes: Routes, is_exactly_once: bool) -> None:
        self.routes = routes
        self.is_exactly_once = is_exactly_once
        self.promised: set[str] = set()
        self.committed: set[str] = set()
        self.counts: dict[tuple[Path, int], int] = {}
        self._written: dict[str, list[Records]] = {}  # in transactions that have not ended
        self._prepared: dict[str, None] = {}  # of these, what outlives its process
        self._early: dict[tuple[Path, int], list[Records]] = {}  # committed before those in front of them

    def write(self, name: str, records: Records) -> None:
        """Into a transaction that nobody can read yet."""
        self._written.setdefault(name, []).append(records)

    def prepare(self, name: str) -> None:
        """Only its commit is left."""
        self._written.setdefault(name, [])
        self._prepared[name] = None

    def prepared_names(self) -> Iterable[str]:
        """Transactions that can be committed or rolled back."""
        return list(self._prepared)

    def roll_back(self, name: str) -> None:
        """Undo it; one that has ended stays as it is."""
        self._written.pop(name, None)
        self._prepared.pop(name, None)

    def commit(self, name: str, who: object, *, is_restored: bool = False) -> None:
        """Make it readable; saying it again does nothing.

        After a rescale several subtasks commit what one has left, each in its time (`is_restored`).
        """
        demand(name in self.promised, "a commit of what no complete checkpoint holds:", name, who)
        if name in self.committed:
            return
        demand(name in self._prepared, "records are lost: what is to be committed was rolled back:", name, who)
        self.committed.add(name)
        del self._prepared[name]
        for records in self._written.pop(name):
            key = records.path, records.split
            if is_restored and records.first > self.counts.get(key, 0):
                self._early.setdefault(key, []).append(records)
                continue
            self._count(records, who)
            while (later := self._next(key)) is not None:
                self._count(later, who)

    def _next(self, key: tuple[Path, int]) -> Records | None:
        """Take one of those that came early and are in order now."""
        for records in self._early.get(key, ()):
            if records.first <= self.counts.get(key, 0):
                self._early[key].remove(records)
                return records
        return None

    def _count(self, records: Records, who: object) -> None:
        key = records.path, records.split
        count = self.counts.get(key, 0)
        demand(records.first <= count, "committed output lacks records:", records, f"follow {count}", who)
        if self.is_exactly_once:
            demand(records.first == count, "records are committed twice:", records, f"follow {count}", who)
        self.counts[key] = max(count, records.end)

    def expect_all(self) -> None:
        """The job has FINISHED: every record came on every way."""
        for sink in self.routes.sinks:
            for path in self.routes.paths_to(sink):
                for split in self.routes.splits_of(path[0]):
                    count = self.counts.get((path, split), 0)
                    wanted = self.routes.split_size
                    demand(count == wanted, "the job has FINISHED without records:", path, split, f"{count}/{wanted}")
