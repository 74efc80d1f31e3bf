"""Acts as another user of this machine, which only root can."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

OTHER_USER = 65_533  # nobody's number, and not that of "nobody", which stands for numbers that cannot be told
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")


def as_other_user(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a forked child of another user; what it returns, or the name of what it raises, comes as JSON.

    The child has this process's modules and no thread of its.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setgroups([])
        os.setgid(OTHER_USER)
        os.setuid(OTHER_USER)
        try:
            told = function(*arguments)
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        with open(writing, "w") as pipe:
            json.dump(told, pipe)
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)
