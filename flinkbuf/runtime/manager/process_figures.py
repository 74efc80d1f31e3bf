"""What this process takes of its machine: memory, processor time, threads, files, collections. Flink: MetricUtils."""

from __future__ import annotations

import gc
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

_KIB_IN_MAXRSS = 1 if sys.platform == "darwin" else 1024  # macOS says bytes
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
LEAST_SPAN_S = 0.5
_NO_LIMIT = 1 << 60  # what the old cgroups say where there is no limit


class ProcessFigures:
    """Figures of the process, and how much processor time it took since the last look.

    Parameters
    ----------
    now_s, processor_s : callable
        Seconds of a clock, and of processor time.

    Examples
    --------
    >>> now, used = iter([0.0, 2.0]).__next__, iter([1.0, 2.5]).__next__
    >>> ProcessFigures(now, used).look()["cpu_share"]
    0.75
    """

    def __init__(
        self, now_s: Callable[[], float] = time.monotonic, processor_s: Callable[[], float] = time.process_time
    ) -> None:
        self._now_s = now_s
        self._processor_s = processor_s
        self._last = (now_s(), processor_s())
        self._share = 0.0
        self._limit = memory_limit()
        self._machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def look(self) -> dict[str, object]:
        """Return the figures now: bytes, and processor time as a share of one core (2.0: two are busy)."""
        now_s, used_s = self._now_s(), self._processor_s()
        span_s = now_s - self._last[0]
        if span_s >= LEAST_SPAN_S:  # of less than that it would say little
            self._share = (used_s - self._last[1]) / span_s
            self._last = (now_s, used_s)
        collections = gc.get_stats()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB_IN_MAXRSS
        return {
            "resident_bytes": resident_bytes() or peak,
            "peak_resident_bytes": peak,
            "memory_limit_bytes": self._limit,
            "machine_bytes": self._machine,
            "cpu_share": round(self._share, 3),
            "cpu_ns": round(1e9 * used_s),
            "threads": threading.active_count(),
            "open_files": open_files(),
            "open_files_limit": None if (most := resource.getrlimit(resource.RLIMIT_NOFILE)[0]) < 0 else most,
            "gc_collections": sum(each["collections"] for each in collections),
            "gc_collected": sum(each["collected"] for each in collections),
            "gc_uncollectable": sum(each["uncollectable"] for each in collections),
        }


def resident_bytes() -> int | None:
    """Return how much memory of the machine this process holds; None where the system does not say."""
    with suppress(OSError, ValueError, IndexError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None


def open_files() -> int | None:
    """Return how many files and sockets this process has open; None where the system does not say."""
    for directory in ("/proc/self/fd", "/dev/fd"):
        with suppress(OSError):
            return len(os.listdir(directory)) - 1  # one is the listing's own
    return None


def memory_limit() -> int | None:
    """Return the memory at which the process, or its container, is ended; None: no limit is known."""
    limits = []
    address_space = resource.getrlimit(resource.RLIMIT_AS)[0]  # spark.executor.pyspark.memory
    if address_space != resource.RLIM_INFINITY:
        limits.append(address_space)
    for path in _CGROUP_LIMITS:
        with suppress(OSError, ValueError), open(path) as file:  # "max" is no number
            limits.append(int(file.read()))
    return min((limit for limit in limits if limit < _NO_LIMIT), default=None)
