"""Samples the stacks of task threads, some times a second, for some seconds, on request.

Nothing runs without a request. A look costs the process's interpreter some microseconds a thread; a sampler that has
used more than its share of a processor looks less often. Flink: ThreadInfoSampleService.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Final

from flinkbuf.log import logger
from flinkbuf.runtime.protocol.flame_tree import FlameTree
from flinkbuf.runtime.protocol.messages import Json

SAMPLES_MAX: Final = 200  # of one thread
INTERVAL_MIN_MS: Final = 10
SPAN_MAX_S: Final = 10.0
DEPTH_MAX: Final = 128  # calls of a stack, from the outermost on
NODES_MAX: Final = 2_000  # of the answer
REQUESTS_MAX: Final = 8  # that wait
COST_SHARE: Final = 0.02  # of one processor
_PATIENCE: Final = 1.5  # times the span that was asked for: on a busy machine there are fewer looks
_WORKS: Final = 0.2  # of the time since the last look: a thread that wanted a processor for more of it works


class StackSampler:
    """Answers requests for samples, one after the other, on a thread that is there only while there are some.

    Parameters
    ----------
    answer : callable
        Called with a request's number, the tree of `FlameTree` (empty if there was no thread to look at), from the
        sampler's thread.

    Notes
    -----
    What C code does without the interpreter is counted to the Python function that called it.
    """

    def __init__(self, answer: Callable[[int, Json], None]) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self._requests: deque[tuple[int, tuple[threading.Thread, ...], int, int]] = deque()
        self._thread: threading.Thread | None = None
        self._is_closed = threading.Event()

    def ask(self, request: int, threads: Iterable[threading.Thread], count: int, interval_ms: int) -> bool:
        """Have `count` looks taken at some threads; returns whether they will be, and `answer` be called."""
        count, interval_ms = max(1, min(count, SAMPLES_MAX)), max(interval_ms, INTERVAL_MIN_MS)
        with self._lock:
            if self._is_closed.is_set() or len(self._requests) >= REQUESTS_MAX:
                return False
            self._requests.append((request, tuple(threads), count, interval_ms))
            if self._thread is not None:
                return True
            self._thread = threading.Thread(target=self._run, name="stack sampler", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # the system has no thread left
                self._thread = None
                self._requests.clear()
                return False
        return True

    def close(self) -> None:
        """Stop, and wait for the sampler's thread; open requests are not answered any more."""
        self._is_closed.set()
        with self._lock:
            thread = self._thread
            self._requests.clear()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._requests:
                    self._thread = None
                    return
                request, threads, count, interval_ms = self._requests.popleft()
            try:
                tree = self._sample(threads, count, interval_ms / 1000)
                if not self._is_closed.is_set():
                    self._answer(request, tree.root)
            except Exception:  # the job repeats its request; the tasks go on
                logger.exception("looking at the threads of tasks failed")

    def _sample(self, threads: tuple[threading.Thread, ...], count: int, interval_s: float) -> FlameTree:
        tree = FlameTree(NODES_MAX)
        deadline = time.monotonic() + min(SPAN_MAX_S, _PATIENCE * count * interval_s)
        looked_at, used = time.monotonic(), {each: _wanted_s(each) for each in threads}
        for _ in range(count):
            if not threads or self._is_closed.wait(interval_s) or time.monotonic() > deadline:
                break
            started = time.thread_time()
            now = time.monotonic()
            frames = sys._current_frames()
            for each in threads:
                frame = frames.get(each.ident or 0)
                if frame is None or not each.is_alive():  # another one may have its number by now
                    continue
                before, used[each] = used[each], _wanted_s(each)
                tree.add(_stack(frame), is_on_cpu=_is_on_cpu(before, used[each], now - looked_at))
            del frames  # they hold what the tasks hold
            looked_at = now
            interval_s = max(interval_s, (time.thread_time() - started) / COST_SHARE)
        return tree


def _is_on_cpu(before_s: float | None, after_s: float | None, span_s: float) -> bool:
    """Return whether a thread works; a thread of unknown state counts as working."""
    return before_s is None or after_s is None or after_s - before_s > _WORKS * span_s


def _wanted_s(thread: threading.Thread) -> float | None:
    """Return how long a thread has used or waited for a processor; None: the system does not say."""
    if thread.native_id is None:
        return None
    try:
        with open(f"/proc/self/task/{thread.native_id}/schedstat", "rb") as file:
            running, waiting, _ = file.read().split()
            return (int(running) + int(waiting)) / 1e9
    except (OSError, ValueError):
        return None


def _stack(frame: FrameType | None) -> list[str]:
    """Return the calls of a thread's stack, the outermost first."""
    calls = []
    while frame is not None:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)  # since Python 3.11
        calls.append(f"{frame.f_globals.get('__name__', '?')}.{name}:{frame.f_lineno}")
        frame = frame.f_back
    calls.reverse()
    return calls[:DEPTH_MAX]
