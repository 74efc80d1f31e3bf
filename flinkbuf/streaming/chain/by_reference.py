"""Objects of the program that its tasks use themselves, not copies of them.

Whatever a task runs is pickled and unpickled for each subtask, in an embedded job too, so that no two subtasks share a
function's attributes by accident. A list that results are appended to, or a generator, must be the program's own.
"""

from __future__ import annotations

import itertools
import os
import weakref
from typing import Any

from flinkbuf.errors import FlinkbufError

_numbers = itertools.count(1)  # only names objects within their process
_holders: weakref.WeakValueDictionary[int, ByReference] = weakref.WeakValueDictionary()


class CannotBeginAgainError(FlinkbufError, RuntimeError):
    """A task that was restarted would need again what exists only once; no further restart can help."""

    can_restart = False


class ByReference:
    """Pickles as a number that stands for one object of this process, for as long as the program keeps this holder.

    Parameters
    ----------
    value : object
        What is meant; its type does not matter.
    what : str
        How an error calls it in another process, where it does not exist.

    Examples
    --------
    >>> import pickle
    >>> results = []
    >>> there = pickle.loads(pickle.dumps(holder := ByReference(results, "the sink")))
    >>> there is holder, there.value is results
    (True, True)
    """

    def __init__(self, value: Any, what: str) -> None:
        self.value = value
        self.what = what
        self._number = next(_numbers)
        _holders[self._number] = self

    def __reduce__(self) -> tuple[object, ...]:
        return _find, (os.getpid(), self._number, self.what)


def _find(process_id: int, number: int, what: str) -> ByReference:
    holder = _holders.get(number) if process_id == os.getpid() else None
    if holder is None:
        raise RuntimeError(
            f"{what} exists only in process {process_id}, which made it; it works in tasks of that process, while"
            " the program that defined it still holds it"
        )
    return holder
