"""Processes of this machine, told apart for good: their numbers come again, after a restart and in other containers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class ProcessStatus:
    """What the system says of a process.

    Attributes
    ----------
    name : str
        Of its program.
    parent_id : int
    started : int
        When it began, in ticks of the clock since the machine's start.
    """

    name: str
    parent_id: int
    started: int


def status_of(process_id: int) -> ProcessStatus | None:
    """Return what is known of a process; None if it has ended, or only a zombie is left of it.

    Examples
    --------
    >>> status_of(os.getpid()).parent_id == os.getppid(), status_of(2**22 + 1)
    (True, None)
    """
    try:
        with open(f"/proc/{process_id}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    name = text[text.index("(") + 1 : text.rindex(")")]  # which may hold whatever a program calls itself
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else ProcessStatus(name, int(fields[1]), int(fields[19]))


@lru_cache(maxsize=1)
def process_space() -> str:
    """Return a name for this run of this machine and the name space of its process numbers; '' where none is known."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""
