"""The mails of one task: what other threads, timers and operators want done on its thread.

Two containers: `queue` under a lock that is held for a few instructions, and `batch`, which only the task's thread
touches. A batch is frozen when it is made, so that a mail which puts itself again cannot keep records waiting. The
input loop asks `has_mail` after each record. Flink: TaskMailboxImpl, Mail.
"""

from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

import threading
from collections import deque

from flinkbuf.errors import FlinkbufError

cdef enum:
    OPEN = 0
    QUIESCED = 1
    CLOSED = 2
    WAIT_SLICE_MS = 1000     # a ring is never lost; this bounds what a lost one would cost
    MAIN_SLICE_MS = 100      # on the main thread, where signals have to be seen

STATES = ("OPEN", "QUIESCED", "CLOSED")
MIN_PRIORITY = 0             # of no operator; operators have their place in the chain, from 1
MAX_PRIORITY = 2**31 - 1     # of what steers the loop


class MailboxClosedError(FlinkbufError, RuntimeError):
    """The task takes no mail any more: it has ended, or is about to."""


cdef int64_t monotonic_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1_000_000_000 + now.tv_nsec


cdef class Mail:
    """Something to do on the task's thread, and for whom."""

    def __init__(self, action not None, int64_t mail_priority=0, str description=""):
        self.action = action
        self.mail_priority = mail_priority
        self.description = description
        self.put_ns = monotonic_ns()

    def __repr__(self):
        return f"<Mail {self.description or self.action!r}, priority {self.mail_priority}>"


cdef class TaskMailbox:
    """Mails in order, with priorities, in batches.

    `bell` has seen(), wait(seen, timeout_ms) and ring(); the thread that makes the mailbox is the task's until `bind`.
    `poll_timers()`, called before each wait, posts what is due; it gives the milliseconds until the next timer, or
    None.
    """

    def __init__(self, bell not None, poll_timers=None):
        self.bell = bell
        self.poll_timers = poll_timers
        self.lock = threading.RLock()
        self.queue = deque()
        self.urgent = deque()
        self.batch = deque()
        self.bind()

    def bind(self):
        """The calling thread is the task's from now on."""
        self.thread = PyThread_get_thread_ident()

    def set_timers(self, poll_timers):
        """Ask this before each wait."""
        self.poll_timers = poll_timers

    cdef int check_thread(self) except -1:
        if PyThread_get_thread_ident() != self.thread:
            raise RuntimeError("only the task's thread takes mails out of its mailbox; others put them")
        return 0

    @property
    def is_mailbox_thread(self):
        """Whether the caller is on the task's thread."""
        return PyThread_get_thread_ident() == self.thread

    @property
    def state(self):
        """OPEN; QUIESCED: takes no mail, gives those it has; CLOSED."""
        return STATES[self._state]

    @property
    def size(self):
        """Mails that wait."""
        return len(self.queue) + len(self.urgent) + len(self.batch)

    @property
    def has_mail_waiting(self):
        """Whether any mail waits."""
        return self.has_new_mail or len(self.batch) > 0

    def put(self, Mail mail not None):
        """Behind all others; from any thread."""
        with self.lock:
            self.put_locked(mail, False)
        self.bell.ring()

    def put_first(self, Mail mail not None):
        """Before all others; from any thread."""
        with self.lock:
            if PyThread_get_thread_ident() == self.thread and self._state == OPEN:
                self.batch.appendleft(mail)
                self.has_new_mail = True  # whoever loops over records comes back for it
            else:
                self.put_locked(mail, True)
        self.bell.ring()

    cdef int put_locked(self, Mail mail, bint is_urgent) except -1:
        if self._state != OPEN:
            raise MailboxClosedError(
                f"the mailbox is {STATES[self._state].lower()}: the task has ended, or is about to; nothing of "
                f"{mail.description or 'this mail'!r} was done")
        if is_urgent:
            self.urgent.appendleft(mail)
        else:
            self.queue.append(mail)
        self.has_new_mail = True
        return 0

    def create_batch(self):
        """Freeze what is there now as the batch; returns whether there is any."""
        self.check_thread()
        if self.has_new_mail:
            with self.lock:
                self.merge_urgent()
                self.batch.extend(self.queue)
                self.queue.clear()
                self.has_new_mail = False
        return len(self.batch) > 0

    cdef int merge_urgent(self) except -1:
        """What overtakes goes to the front of the batch, the last one that was put first."""
        self.batch.extendleft(reversed(self.urgent))
        self.urgent.clear()
        return 0

    def try_take_from_batch(self):
        """The next mail of the batch, or None."""
        self.check_thread()
        return self.batch.popleft() if self.batch else None

    def try_take(self, int64_t mail_priority):
        """The first mail of this priority or a higher one, or None; others stay where they are."""
        cdef Mail mail
        self.check_thread()
        if self._state == CLOSED:
            raise MailboxClosedError("the mailbox is closed: its last mails were taken out")
        if self.urgent:
            with self.lock:
                self.merge_urgent()
                self.has_new_mail = len(self.queue) > 0
        mail = self.take_eligible(self.batch, mail_priority)
        if mail is None and self.has_new_mail:
            with self.lock:
                mail = self.take_eligible(self.queue, mail_priority)
                self.has_new_mail = len(self.queue) > 0 or len(self.urgent) > 0
        return mail

    cdef Mail take_eligible(self, object mails, int64_t mail_priority):
        cdef Mail mail
        cdef Py_ssize_t place
        for place, mail in enumerate(mails):
            if mail.mail_priority >= mail_priority:
                del mails[place]
                return mail
        return None

    def take(self, int64_t mail_priority):
        """As try_take(), but wait for one. MailboxClosedError once it is closed."""
        while True:
            seen = self.bell.seen()
            next_timer_ms = self.post_due_timers()
            mail = self.try_take(mail_priority)
            if mail is not None:
                return mail
            self.sleep(seen, next_timer_ms)

    def post_due_timers(self):
        """Turn timers that are due into mails; the milliseconds until the next one, or None."""
        return None if self.poll_timers is None else self.poll_timers()

    def sleep(self, seen, next_timer_ms):
        """Wait until the bell has rung since `seen`, a timer is due, or a slice is over."""
        slice_ms = MAIN_SLICE_MS if threading.current_thread() is threading.main_thread() else WAIT_SLICE_MS
        self.bell.wait(seen, slice_ms if next_timer_ms is None else min(slice_ms, max(next_timer_ms, 0)))

    def drain(self):
        """Take out all mails, those of the batch first."""
        self.check_thread()
        with self.lock:
            self.merge_urgent()
            mails = [*self.batch, *self.queue]
            self.batch.clear()
            self.queue.clear()
            self.has_new_mail = False
        return mails

    def quiesce(self):
        """Take no mail any more; those that are here can still be taken."""
        self.check_thread()
        with self.lock:
            if self._state == OPEN:
                self._state = QUIESCED

    def close(self):
        """Neither put nor take from now on; whoever waits is woken. Returns the mails that nobody took."""
        mails = self.drain()
        with self.lock:
            self._state = CLOSED
            mails += self.queue  # put in between
            self.queue.clear()
        self.bell.ring()
        return mails
