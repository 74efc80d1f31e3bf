"""The libraries that a job's functions use, imported once by the launcher instead of once in each task manager.

Only libraries: a module of the user's is imported by each task manager for itself, since it may hold what processes
must not share, such as a connection or a generator of random numbers. And only those after whose import a process may
still be forked, which one that is thrown away has tried: no thread runs, nothing was opened.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import io
import os
import select
import signal
import sys
import sysconfig
from collections.abc import Iterable
from types import ModuleType

TRIAL_S = 20.0  # for imports; one that takes longer is left to the task managers
_STANDARD = frozenset(sys.stdlib_module_names)
_KNOWN = _STANDARD | {"flinkbuf"}
_SHORT = b"\x8c"  # how pickle begins a text of less than 256 bytes


# ---- the program: what is needed


def libraries_of(bundle: bytes) -> list[str]:
    """Return what the functions in a pickled bundle, or the modules they are from, use of libraries and of flinkbuf."""
    loaded = dict(sys.modules)
    waiting = [name for name in loaded if _SHORT + bytes([min(len(name), 255)]) + name.encode() in bundle]
    seen, libraries = set(waiting), []
    while waiting:
        name = waiting.pop()
        module = loaded.get(name)
        if not isinstance(module, ModuleType):
            continue
        if is_library(module) or name.partition(".")[0] == "flinkbuf":
            libraries.append(name)
        elif name != "__main__":  # of which the bundle itself has what is used
            used = _used_by(module) - seen
            seen |= used
            waiting += used
    return sorted(libraries)


def is_library(module: ModuleType) -> bool:
    """Return whether a module was installed, or came with Python."""
    path = getattr(module, "__file__", None)
    if not isinstance(path, str):
        return module.__name__.partition(".")[0] in _STANDARD
    return path.startswith(_library_folders())


def _used_by(module: ModuleType) -> set[str]:
    """Names of the modules that the names in a module lead to."""
    used = set()
    for value in list(vars(module).values()):
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(name, str):
            used.add(name)
    return used


@functools.cache
def _library_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {sysconfig.get_path(name) for name in names}
    folders |= {entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))}
    return tuple(os.path.join(folder, "") for folder in folders if folder)


# ---- the launcher: what may be imported


def import_all(names: Iterable[str]) -> None:
    """Import the modules, once for all forked processes."""
    for name in names:
        with contextlib.suppress(BaseException), contextlib.redirect_stdout(io.StringIO()):
            importlib.import_module(name)  # the task manager that needs it will report the error


def import_libraries(names: Iterable[str]) -> None:
    """Import those of them that leave this process one that can be forked: those of flinkbuf and of Python all do."""
    new = [name for name in names if name not in sys.modules]
    import_all(name for name in new if name.partition(".")[0] in _KNOWN)
    others = [name for name in new if name.partition(".")[0] not in _KNOWN]
    while others and sys.platform == "linux":  # without fork() there is no process to try in
        count = harmless(others)
        import_all(others[:count])
        others = others[count + 1 :]
    if new:
        gc.collect()
        gc.freeze()


def harmless(names: list[str]) -> int:
    """Return how many of these can be imported, in this order, until one starts a thread, opens a file, or fails."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        _try_imports(names, theirs)
    os.close(theirs)
    done = 0
    while select.select([ours], [], [], TRIAL_S)[0] and os.read(ours, 1):
        done += 1
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(ours)
    return done


def _try_imports(names: list[str], tell: int) -> None:
    """Import in the process that is thrown away, and write how many were harmless."""
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for each in (0, 1, 2):
            os.dup2(nowhere, each)
        before = _held()
        for name in names:
            importlib.import_module(name)
            if _held() != before:
                break
            os.write(tell, b".")
    finally:
        os._exit(0)


def _held() -> tuple[int, int]:
    """Return how many threads this process has, also those unknown to Python, and how many descriptors."""
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
