"""Managed memory of one slot: what its operators reserve within one budget, each under its name.

Flink: MemoryManager, UnsafeMemoryBudget.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Hashable


class MemoryManager:
    """Lets others reserve bytes that they take from the system themselves.

    Parameters
    ----------
    total_bytes : int
        The budget.

    Notes
    -----
    Threads: any. An owner is anything hashable, such as an operator of an attempt; at its end `release_all` takes back
    all that it has.

    Examples
    --------
    >>> memory = MemoryManager(1 << 20)
    >>> memory.reserve_part("sort", 1 << 16), memory.available_bytes
    (65536, 983040)
    >>> memory.release_all("sort"), memory.is_empty
    (65536, True)
    """

    def __init__(self, total_bytes: int) -> None:
        if total_bytes < 0:
            raise ValueError(f"total_bytes must not be negative, got {total_bytes}")
        self.total_bytes = total_bytes
        self._lock = threading.Lock()
        self._used_bytes = 0
        self._reserved: dict[Hashable, int] = defaultdict(int)

    @property
    def available_bytes(self) -> int:
        """Return the bytes of the budget that are not reserved."""
        return self.total_bytes - self._used_bytes

    @property
    def is_empty(self) -> bool:
        """Return whether no owner holds memory."""
        return self._used_bytes == 0

    def reserve_part(self, owner: Hashable, size: int) -> int:
        """Reserve at most `size` bytes, and no more than half of what is left; return how many.

        So a later owner finds memory, too.
        """
        with self._lock:
            found = min(size, self.available_bytes // 2)
            if found:
                self._used_bytes += found
                self._reserved[owner] += found
            return found

    def release_reserved(self, owner: Hashable, size: int) -> None:
        """Give back some of what `reserve_part` gave.

        Raises
        ------
        ValueError
            The owner has reserved less.
        """
        with self._lock:
            held = self._reserved.get(owner, 0)
            if not 0 <= size <= held:
                raise ValueError(f"{owner!r} has reserved {held} bytes and cannot give back {size}")
            self._used_bytes -= size
            if held == size:
                self._reserved.pop(owner, None)
            else:
                self._reserved[owner] = held - size

    def release_all(self, owner: Hashable) -> int:
        """Take back all that an owner has, at its end; return how many bytes that were."""
        with self._lock:
            size = self._reserved.pop(owner, 0)
            self._used_bytes -= size
            return size

    def owners(self) -> list[Hashable]:
        """Return the owners that hold memory."""
        with self._lock:
            return list(self._reserved)


class OperatorMemory:
    """A slot's memory as one operator of one attempt sees it: it is the owner.

    Parameters
    ----------
    manager : MemoryManager
    owner : hashable
    """

    def __init__(self, manager: MemoryManager, owner: Hashable) -> None:
        self._manager = manager
        self.owner = owner

    def reserve_part(self, size: int) -> int:
        """Reserve for this operator, as `MemoryManager.reserve_part`."""
        return self._manager.reserve_part(self.owner, size)

    def release_reserved(self, size: int) -> None:
        """Give back memory of this operator, as `MemoryManager.release_reserved`."""
        self._manager.release_reserved(self.owner, size)
