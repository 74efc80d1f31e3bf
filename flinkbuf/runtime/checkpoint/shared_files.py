"""Files of several checkpoints: which checkpoint uses which, and which are unused. Flink: SharedStateRegistry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from flinkbuf.checkpoints.handles import SharedFile, StateHandle

REMEMBERED: Final = 100_000  # deleted files that are remembered: tasks refer to them for a few checkpoints at most


class SharedFiles:
    """Counts the checkpoints that use each file, those that are still under way included.

    A file is known by its path; state in the handle itself needs no deletion.

    Examples
    --------
    >>> file = SharedFile("1.sst", StateHandle(size=3, path="/shared/a"))
    >>> files = SharedFiles()
    >>> files.use(1, [file])
    >>> files.use(2, [file])
    >>> files.release(1), files.release(2)
    ((), (StateHandle(size=3, checksum=0, path='/shared/a', offset=0, data=b''),))
    """

    def __init__(self) -> None:
        self._users: Counter[str] = Counter()  # by path
        self._used: dict[int, dict[str, StateHandle]] = {}  # by checkpoint
        self._foreign: set[str] = set()
        self._gone: dict[str, None] = {}  # oldest first

    def use(self, checkpoint_id: int, files: Iterable[SharedFile]) -> None:
        """Note that a checkpoint refers to these files; again: nothing changes."""
        used = self._used.setdefault(checkpoint_id, {})
        for file in files:
            path = file.handle.path
            if path and path not in used:
                used[path] = file.handle
                self._users[path] += 1

    def release(self, checkpoint_id: int) -> tuple[StateHandle, ...]:
        """Drop an aborted or discarded checkpoint; return the files that none uses now."""
        unused = []
        for path, handle in self._used.pop(checkpoint_id, {}).items():
            self._users[path] -= 1
            if not self._users[path]:
                del self._users[path]
                if path not in self._foreign:
                    unused.append(handle)
                    self._gone[path] = None
        while len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]
        return tuple(unused)

    def gone(self, files: Iterable[SharedFile]) -> str | None:
        """Return a deleted one of these files, if any: its task does not know of a later checkpoint yet.

        Examples
        --------
        >>> files = SharedFiles()
        >>> files.use(1, [SharedFile("1.sst", StateHandle(size=3, path="/shared/a"))])
        >>> _ = files.release(1)
        >>> files.gone([SharedFile("1.sst", StateHandle(size=3, path="/shared/a"))])
        '/shared/a'
        """
        return next((file.handle.path for file in files if file.handle.path in self._gone), None)

    def keep(self, files: Iterable[SharedFile]) -> None:
        """Never delete these files: they belong to another owner."""
        self._foreign.update(file.handle.path for file in files)

    def unused(self, files: Iterable[SharedFile]) -> tuple[StateHandle, ...]:
        """Return those of the files that no checkpoint uses, and that may be deleted."""
        found = {file.handle.path: file.handle for file in files if file.handle.path}
        return tuple(handle for path, handle in found.items() if path not in self._users and path not in self._foreign)
