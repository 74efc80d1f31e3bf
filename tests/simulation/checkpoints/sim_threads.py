"""Threads of a program, as greenlets: where one would wait, others go on, and virtual time wakes it up."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    from simulation.world.agenda import Agenda


class SimThreads:
    """The threads of one program: `flinkbuf.runtime.driver.threads.Threads`.

    Attributes
    ----------
    has_ended : bool
        The program was killed: none of its threads goes on.
    sleeps_until_ms : int
        The program was stopped by a signal, or its machine sleeps: none of its threads goes on before.
    """

    def __init__(self, agenda: Agenda) -> None:
        self.agenda = agenda
        self.has_ended = False
        self.sleeps_until_ms = 0
        self._living: set[SimThread] = set()  # kept, so that none is ended by being forgotten

    def begin(self, work: Callable[[], None], name: str) -> SimThread:
        """Run until it waits for the first time."""
        thread = SimThread(self, work, name)
        self._living.add(thread)
        thread.go_on()
        return thread

    def ended(self, thread: SimThread) -> None:
        """Its work is done."""
        self._living.discard(thread)

    def queue(self) -> SimQueue:
        """Between threads."""
        return SimQueue()

    def event(self) -> SimEvent:
        """Set by one thread, waited for by others."""
        return SimEvent()

    def monotonic(self) -> float:
        """Virtual seconds."""
        return self.agenda.now_ms / 1_000

    def sleep(self, seconds: float) -> None:
        """Wait."""
        current().wait(round(seconds * 1_000))

    def end(self) -> None:
        """The program is killed."""
        self.has_ended = True

    def drop(self) -> None:
        """Nothing of it is looked at any more: free what its threads hold."""
        living, self._living = self._living, set()
        for thread in living:
            thread.drop()


def current() -> SimThread:
    """The thread that runs."""
    thread = getattr(getcurrent(), "sim_thread", None)
    if thread is None:
        raise RuntimeError("what would wait is done outside of any thread")
    return thread


class _Thread(greenlet):
    sim_thread: SimThread


class SimThread:
    """One of them."""

    def __init__(self, threads: SimThreads, work: Callable[[], None], name: str) -> None:
        self.threads = threads
        self.name = name
        self.when_ended: Callable[[], None] | None = None
        self._work = work
        self._greenlet = _Thread(self._run)
        self._greenlet.sim_thread = self
        self._waits = 0  # a number for each wait: what would end an older one comes too late
        self._joined = SimEvent()

    def _run(self) -> None:
        self._work()

    def go_on(self, value: Any = None) -> None:
        """Let it run until it waits again; called by the agenda."""
        threads = self.threads
        if threads.has_ended:
            return
        if threads.agenda.now_ms < threads.sleeps_until_ms:
            threads.agenda.at(threads.sleeps_until_ms, self.go_on, value)
            return
        if isinstance(value, BaseException):
            self._greenlet.throw(value)
        else:
            self._greenlet.switch(value) if self._greenlet else self._greenlet.switch()
        if self._greenlet.dead:
            threads.ended(self)
            self._joined.set()
            if self.when_ended is not None:
                self.when_ended()

    def is_alive(self) -> bool:
        """Whether its work is not done."""
        return not self._greenlet.dead

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        self._joined.wait(timeout)

    # ---- by itself

    def wait(self, timeout_ms: int | None = None, begin: Callable[[Callable[[Any], None]], None] | None = None) -> Any:
        """Let others go on until it is woken; None: the time is over.

        `begin` is given what wakes it, with what the wait then gives, or raises if that is an exception.
        """
        self._waits += 1
        number, agenda = self._waits, self.threads.agenda

        def wake(value: Any) -> None:
            if number == self._waits:
                self._waits += 1
                agenda.after(0, self.go_on, value)

        if begin is not None:
            begin(wake)
        if timeout_ms is not None:
            agenda.after(timeout_ms, wake, None)
        return self._greenlet.parent.switch()

    def drop(self) -> None:
        """It never goes on; what it holds is freed."""
        if not self._greenlet.dead and self._greenlet:
            self._greenlet.throw()


class SimQueue:
    """A `queue.SimpleQueue`."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiting: deque[Callable[[Any], None]] = deque()

    def put(self, item: Any) -> None:
        """Behind all others."""
        self._items.append(item)
        if self._waiting:
            self._waiting.popleft()(True)

    def get(self) -> Any:
        """The first; waits for one."""
        while not self._items:
            current().wait(begin=self._waiting.append)
        return self._items.popleft()


class SimEvent:
    """A `threading.Event`."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[Callable[[Any], None]] = []

    def set(self) -> None:
        """From now on nobody waits for it."""
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake(True)

    def is_set(self) -> bool:
        """Whether it is."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, or so many seconds; returns whether it is."""
        if not self._is_set:
            current().wait(None if timeout is None else round(timeout * 1_000), self._waiting.append)
        return self._is_set


class SimLock:
    """A `threading.Lock`."""

    def __init__(self) -> None:
        self._is_held = False
        self._waiting: deque[Callable[[Any], None]] = deque()

    def __enter__(self) -> None:
        while self._is_held:
            current().wait(begin=self._waiting.append)
        self._is_held = True

    def __exit__(self, *error: object) -> None:
        self._is_held = False
        if self._waiting:
            self._waiting.popleft()(True)
