"""The thread of a source that may wait: begun with its task's first turn, left behind if it does not return at the end.

Flink: SourceStreamTask.LegacySourceFunctionThread.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

from flinkbuf.log import logger
from flinkbuf.streaming.sources.interrupts import function_of, interrupt_function, take_interrupt


class SourceThread:
    """Calls one function, which may be interrupted, on a thread of its own.

    Parameters
    ----------
    run : callable
        Called once; it raises nothing but what an interrupt makes it raise.
    task_name : str
        Of the task that it belongs to.
    """

    def __init__(self, run: Callable[[], None], task_name: str) -> None:
        self._run = run
        self._lock = threading.Lock()  # of the two below
        self._running: int | None = None  # the thread, while it may be interrupted
        self._is_interrupted = False
        context = contextvars.copy_context()  # so that what it logs names its task
        self._thread = threading.Thread(target=lambda: context.run(self._work), name=f"{task_name} source", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the thread; return whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def end(self, source: str, patience_s: float) -> None:
        """Wait for the thread's end: interrupt it after `patience_s`, leave it behind after as much again.

        A warning tells of a thread that is left behind. It is a daemon: it does not keep the process.
        """
        if self.join(patience_s):
            return
        self._interrupt()
        if self.join(patience_s):
            return
        place = function_of(self._thread.ident or 0)
        logger.warning(
            "%s goes on after the end of its task%s; its thread %r is left behind, and ends when it returns",
            source,
            f", in {place}" if place else "",
            self._thread.name,
        )

    def _interrupt(self) -> None:
        with self._lock:
            if self._running is not None and interrupt_function(self._running):
                self._is_interrupted = True

    # ---- its own thread ---------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            try:
                with self._lock:
                    self._running = threading.get_ident()
                self._run()
            finally:
                self._refuse_interrupts()
        except BaseException:  # an interrupt that came as it ended
            self._refuse_interrupts()

    def _refuse_interrupts(self) -> None:
        with self._lock:
            self._running = None
        if self._is_interrupted:
            take_interrupt()
            self._is_interrupted = False
