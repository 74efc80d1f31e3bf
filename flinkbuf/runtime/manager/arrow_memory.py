"""Where the columns of Arrow lie in a process of tasks."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, MutableMapping
from typing import Final

_VARIABLE: Final = "ARROW_DEFAULT_MEMORY_POOL"  # which Arrow looks at when it is loaded
_SYSTEM: Final = "system"


def prefer_system_memory(environment: MutableMapping[str, str]) -> None:
    """Have Arrow, once it is loaded, take memory from the system's allocator, unless the environment names another.

    Examples
    --------
    >>> environment = {}
    >>> prefer_system_memory(environment)
    >>> environment
    {'ARROW_DEFAULT_MEMORY_POOL': 'system'}
    """
    environment.setdefault(_VARIABLE, _SYSTEM)


@contextlib.contextmanager
def system_memory() -> Iterator[None]:
    """Have Arrow take memory from the system's allocator, as long as tasks run in this process.

    The columns of a batch are made, read once or twice, and let go. Arrow's own allocator, which is mimalloc, asks for
    huge pages and gives them back soon, so that most batches lie in new ones, which the system fills with zeros first:
    a third of the time where rows are wide. What the user's environment says stays.

    Examples
    --------
    >>> import pyarrow
    >>> with system_memory():
    ...     pyarrow.default_memory_pool().backend_name
    'system'
    """
    if _VARIABLE in os.environ:
        yield
        return
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None:
        prefer_system_memory(os.environ)
        try:
            yield
        finally:
            os.environ.pop(_VARIABLE, None)
        return
    before = pyarrow.default_memory_pool()
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    try:
        yield
    finally:
        pyarrow.set_memory_pool(before)
