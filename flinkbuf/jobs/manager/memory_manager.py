"""Managed memory of one slot: pages and reservations, each with an owner, within one budget.

Flink: MemoryManager, UnsafeMemoryBudget.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Hashable, Iterable

from flinkbuf.errors import FlinkbufError

PAGE_SIZE = 32 * 1024
MIN_PAGE_SIZE = 4 * 1024


class MemoryAllocationError(FlinkbufError, MemoryError):
    """The budget of a slot does not hold what was asked for; the message says how much is left."""


class MemoryManager:
    """Hands out pages of memory, and lets others reserve bytes that they take from the system themselves.

    Parameters
    ----------
    total_bytes : int
        The budget. Memory is taken from the system page by page, as it is handed out.
    page_size : int, default 32768
        A power of two from 4096 up.

    Notes
    -----
    Threads: any. What is asked for is given whole or not at all. An owner is anything hashable, such as an operator of
    an attempt; at its end `release_all` takes back all that it has.

    Examples
    --------
    >>> memory = MemoryManager(1 << 20)
    >>> pages = memory.allocate_pages("sort", 2)
    >>> memory.reserve("state", 65536)
    >>> memory.available_bytes, len(pages[0])
    (917504, 32768)
    >>> memory.release_all("sort"), memory.release_all("state"), memory.is_empty
    (65536, 65536, True)
    """

    def __init__(self, total_bytes: int, page_size: int = PAGE_SIZE) -> None:
        if page_size < MIN_PAGE_SIZE or page_size & (page_size - 1):
            raise ValueError(f"page_size must be a power of two from {MIN_PAGE_SIZE} bytes up, got {page_size}")
        if total_bytes < 0:
            raise ValueError(f"total_bytes must not be negative, got {total_bytes}")
        self.total_bytes = total_bytes
        self.page_size = page_size
        self._lock = threading.Lock()
        self._used_bytes = 0
        self._pages: dict[Hashable, dict[int, memoryview]] = defaultdict(dict)  # by owner, then by identity
        self._reserved: dict[Hashable, int] = defaultdict(int)

    @property
    def available_bytes(self) -> int:
        """What is left of the budget."""
        return self.total_bytes - self._used_bytes

    @property
    def is_empty(self) -> bool:
        """Whether nobody holds anything."""
        return self._used_bytes == 0

    def allocate_pages(self, owner: Hashable, count: int) -> list[memoryview]:
        """Return `count` pages, zeroed and writable.

        Raises
        ------
        MemoryAllocationError
            There are not so many.
        """
        if count < 0:
            raise ValueError(f"count must not be negative, got {count}")
        self._take(owner, count * self.page_size, f"{count} pages of {self.page_size} bytes")
        try:
            pages = [memoryview(bytearray(self.page_size)) for _ in range(count)]
        except BaseException:  # the system has no more
            with self._lock:
                self._used_bytes -= count * self.page_size
            raise
        with self._lock:
            if pages:
                self._pages[owner].update((id(page), page) for page in pages)
        return pages

    def release_pages(self, owner: Hashable, pages: Iterable[memoryview]) -> None:
        """Give pages back; a view of one that somebody still holds keeps its memory, but not its place in the budget.

        Raises
        ------
        ValueError
            A page is not this owner's (any more).
        """
        with self._lock:
            held = self._pages.get(owner, {})
            for page in pages:
                if held.pop(id(page), None) is None:
                    raise ValueError(f"a page was given back that {owner!r} does not hold")
                self._used_bytes -= self.page_size
            if not held:
                self._pages.pop(owner, None)

    def reserve(self, owner: Hashable, size: int) -> None:
        """Have `size` bytes of the budget for memory that the caller takes from the system.

        Raises
        ------
        MemoryAllocationError
            There is not so much.
        """
        if size < 0:
            raise ValueError(f"size must not be negative, got {size}")
        self._take(owner, size, f"{size} bytes")
        with self._lock:
            if size:
                self._reserved[owner] += size

    def reserve_part(self, owner: Hashable, size: int) -> int:
        """Reserve at most `size` bytes, and no more than half of what is left; return how many.

        For those who can do with less: who comes later finds something, too.
        """
        with self._lock:
            found = min(size, self.available_bytes // 2)
            if found:
                self._used_bytes += found
                self._reserved[owner] += found
            return found

    def release_reserved(self, owner: Hashable, size: int) -> None:
        """Give back some of what `reserve` gave.

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
        """Take back all that an owner has, at its end; returns how many bytes that were."""
        with self._lock:
            size = self._reserved.pop(owner, 0) + len(self._pages.pop(owner, {})) * self.page_size
            self._used_bytes -= size
            return size

    def owners(self) -> list[Hashable]:
        """Who holds anything."""
        with self._lock:
            return list({**self._pages, **self._reserved})

    def verify_empty(self) -> None:
        """Check that nothing leaks, when the slot is free again.

        Raises
        ------
        RuntimeError
            Somebody still holds memory; the message names them.
        """
        if not self.is_empty:
            names = ", ".join(map(str, self.owners()))
            raise RuntimeError(f"{self._used_bytes} bytes of managed memory were not given back, by {names}")

    def _take(self, owner: Hashable, size: int, what: str) -> None:
        with self._lock:
            if size > self.available_bytes:
                raise MemoryAllocationError(
                    f"{owner!s} asks for {what}, but {self.available_bytes} of {self.total_bytes} bytes are left in "
                    "its slot; raise taskmanager.memory.managed.size"
                )
            self._used_bytes += size


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

    @property
    def page_size(self) -> int:
        """Bytes of a page."""
        return self._manager.page_size

    @property
    def available_bytes(self) -> int:
        """What is left for all operators of the slot."""
        return self._manager.available_bytes

    def allocate_pages(self, count: int) -> list[memoryview]:
        """As `MemoryManager.allocate_pages`."""
        return self._manager.allocate_pages(self.owner, count)

    def release_pages(self, pages: Iterable[memoryview]) -> None:
        """As `MemoryManager.release_pages`."""
        self._manager.release_pages(self.owner, pages)

    def reserve(self, size: int) -> None:
        """As `MemoryManager.reserve`."""
        self._manager.reserve(self.owner, size)

    def reserve_part(self, size: int) -> int:
        """As `MemoryManager.reserve_part`."""
        return self._manager.reserve_part(self.owner, size)

    def release_reserved(self, size: int) -> None:
        """As `MemoryManager.release_reserved`."""
        self._manager.release_reserved(self.owner, size)
