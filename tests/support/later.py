"""Something that another thread does while a test waits."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def later(seconds: float, action: Callable[..., object], *arguments: object) -> Iterator[None]:
    """Have it done so many seconds from now; the block ends when it has been."""
    timer = threading.Timer(seconds, action, arguments)
    timer.start()
    try:
        yield
    finally:
        timer.join()
