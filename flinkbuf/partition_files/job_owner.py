"""Who writes into a data set, told so that others can see whether he is gone.

A writing job of Spark lives as long as its driver: the Java process above all Python processes that plan and commit.
Its number alone says little: numbers come again, after a restart of the machine and in other containers. So the time
at which it began, the machine's start and the name space of its numbers are noted with it.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

from flinkbuf.processes import process_space, status_of


@dataclass(frozen=True)
class JobOwner:
    """A process, so described that no other one is taken for it.

    Examples
    --------
    >>> owner = JobOwner.of_this_process()
    >>> owner.is_gone(), JobOwner.from_name(owner.to_name()) == owner
    (False, True)
    """

    place: str  # one run of one machine, and one name space of process numbers; empty: not known
    process_id: int
    started: int  # clock ticks after the machine's start

    @classmethod
    def of_this_process(cls) -> JobOwner:
        """The Java process above this one, if there is one; else this process."""
        return cls._of(_driver(os.getpid()))

    @classmethod
    def _of(cls, process_id: int) -> JobOwner:
        found = status_of(process_id)
        return cls(_place(), process_id, found.started if found else 0)

    def is_gone(self) -> bool | None:
        """Whether it has ended; None where this process cannot know, as of another machine."""
        if not self.place or self.place != _place():
            return None
        found = status_of(self.process_id)
        return found is None or found.started != self.started

    def to_name(self) -> str:
        """As part of a file's name: a file that is empty is never half written."""
        return f"{self.place or '-'}.{self.process_id}.{self.started}"

    @classmethod
    def from_name(cls, name: str) -> JobOwner | None:
        """Read it again; None if it is something else."""
        place, _, numbers = name.partition(".")
        process_id, _, started = numbers.partition(".")
        if not (process_id.isdecimal() and started.isdecimal()):
            return None
        return cls("" if place == "-" else place, int(process_id), int(started))


def _driver(process_id: int) -> int:
    """Return the nearest Java process above, or the process itself."""
    above = process_id
    while above > 1:
        found = status_of(above)
        if found is None:
            break
        if found.name == "java":
            return above
        above = found.parent_id
    return process_id


def _place() -> str:
    space = process_space()
    return hashlib.sha256(space.encode()).hexdigest()[:16] if space else ""
