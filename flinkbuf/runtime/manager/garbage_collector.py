"""How often Python's garbage collector looks in a process of tasks."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

# Of the young, the middle and the old generation. Where state grows all of it is new, and a look at the middle one goes
# through what came since the last: 300,000 objects take 20 ms, in which no record moves.
THRESHOLDS: Final = (50_000, 4, 500)


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Have the garbage collector look rarely, as long as tasks run in this process.

    A task makes a few objects for each record, and nearly all go by their reference counts. State stays: Python's own
    threshold of 700 has the collector go through it again and again, for a fifth of the time where a window holds many
    records. What functions leave in circles is still found, in larger portions. A threshold that the user's program
    has raised above ours, or set to 0, stays.

    Examples
    --------
    >>> with rare_collections():
    ...     gc.get_threshold()[0] == 0 or gc.get_threshold()[0] >= 50_000
    True
    """
    before = gc.get_threshold()
    if 0 < before[0] < THRESHOLDS[0]:
        gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
