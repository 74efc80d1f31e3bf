"""Classes of the program's main module, in processes that have another one.

Records of a class that a script defines are pickled by the name ``__main__.Class``, which other processes know nothing
of. The class goes along with the functions, and is put where that name leads: then records cross in both directions by
name, which is also far quicker than a copy of the class with each of them.
"""

from __future__ import annotations

import contextlib
import sys

import cloudpickle

from flinkbuf.log import logger
from flinkbuf.runtime.graph.user_code import pickled

MAIN = "__main__"

_installed: dict[str, type] = {}  # classes that an earlier job of this process has installed


def main_classes() -> dict[str, bytes]:
    """Return a copy of each class of this process's main module, by name; those that cannot be copied are left out."""
    copies = {}
    for name, value in list(vars(sys.modules[MAIN]).items()):
        if isinstance(value, type) and value.__module__ == MAIN and value.__qualname__ == name:
            with contextlib.suppress(Exception):
                copies[name] = pickled(value)
    return copies


def install_main_classes(copies: dict[str, bytes]) -> None:
    """Put classes into this process's main module, unless it has something of its own by that name."""
    main = sys.modules[MAIN]
    for name, data in copies.items():
        if hasattr(main, name) and getattr(main, name) is not _installed.get(name):
            continue
        try:
            kind = cloudpickle.loads(data)
        except Exception:  # a module that the class needs is not here: perhaps no task needs the class, either
            logger.debug("class %s of the program's main module cannot be made here", name, exc_info=True)
            continue
        _installed[name] = kind
        setattr(main, name, kind)
