"""How long a thread of a process of tasks keeps the interpreter while another waits for it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Final

TURN_S: Final = 0.001


@contextlib.contextmanager
def short_turns() -> Iterator[None]:
    """Have threads hand the interpreter on after a millisecond, as long as tasks run in this process.

    Python has them keep it for five. A record on its way through a source, a shuffle and a task of one process waits
    for one turn at each, and beside the thread that writes a snapshot for more. A shorter interval that the user's
    program has set stays.

    Examples
    --------
    >>> with short_turns():
    ...     sys.getswitchinterval() <= 0.001
    True
    """
    before = sys.getswitchinterval()
    if before > TURN_S:
        sys.setswitchinterval(TURN_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
