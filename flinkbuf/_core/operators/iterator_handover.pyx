"""Between the thread of an iterator that may wait and its task: a bounded list of what it gave, taken all at once.

A fast iterator fills the list before its task gets the interpreter, so the two switch once for thousands of elements; a
slow one has each of its elements taken as it comes. An iterator may go on changing what it has given: what is handed
over is a copy of what can change. How many wait is bounded by their number, and by the time in which
they came: few of those that take long to make, since these may be large.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF

from flinkbuf._core.value.own_value cimport fb_own_value_is_atom, is_fixed, own_if_it_can
from flinkbuf._core.ground.wakeup cimport TaskBell

cdef enum:
    CAPACITY = 8192
    HOLD_NS = 4_000_000      # elements that came in a longer time than this wait for their task, however few they are
    ELEMENTS_A_LOOK = 4      # of a fast iterator: the clock is looked at once in so many
    WAIT_SLICE_MS = 1000     # a ring is never lost; this bounds what a lost one would cost


cdef extern from "Python.h":
    PyObject* PyIter_Next(object iterator) except? NULL


cdef class IteratorHandover:
    """Elements of an iterator's thread on their way to the task's.

    The interpreter's lock is the only one: between a look at a field and what follows from it no Python code runs, and
    nothing here gives the lock away but the iterator itself, `wake` and the wait for room.

    Parameters
    ----------
    wake : callable
        Tells the task, from any thread, that there is something.
    capacity : int, default 8192
        Elements that wait at most.
    record_class : type, optional
        Elements of this class are a `value` with a `timestamp`.
    """

    def __init__(self, wake not None, Py_ssize_t capacity=CAPACITY, record_class=None):
        self.record_class = record_class
        self.wake = wake
        self.room = TaskBell()
        self.elements = []
        self.capacity = capacity
        self.until_look = 1

    # The iterator's thread

    def fill(self, iterator, Py_ssize_t skipped=0):
        """Hand over what `iterator` gives behind its first `skipped` elements, until its end, or until `close`."""
        cdef PyObject* taken
        cdef object value
        try:
            while not self.is_closed:
                self.is_running = True
                taken = PyIter_Next(iterator)
                self.is_running = False
                if taken is NULL:
                    return
                value = <object>taken
                Py_DECREF(value)  # the variable holds it
                if skipped > 0:
                    skipped -= 1
                elif fb_own_value_is_atom(taken):
                    self.put(value)
                else:
                    self.put(self.own(value))
        finally:
            self.is_running = False

    cdef object own(self, object element):
        """The element with a copy of what can change; what cannot be copied goes as it is."""
        if self.record_class is None or type(element) is not self.record_class:
            return own_if_it_can(element)
        value = element.value
        return element if is_fixed(<PyObject*>value) else self.record_class(own_if_it_can(value), element.timestamp)

    cdef int put(self, object value) except -1:
        if not self.elements:
            self.begun_ns = fb_coarse_clock_ns()
        self.elements.append(value)
        if self.is_awaited:
            self.is_awaited = False
            self.wake()
        self.until_look -= 1
        if len(self.elements) >= self.capacity:
            self.wait_for_room()
        elif self.until_look <= 0:
            self.until_look = ELEMENTS_A_LOOK
            if fb_coarse_clock_ns() - self.begun_ns >= HOLD_NS:
                self.until_look = 1  # it is slow: look after the very next one
                self.wait_for_room()
        return 0

    cdef int wait_for_room(self) except -1:
        """Until the task has taken what there is, or wants nothing any more."""
        seen = self.room.seen()
        while self.elements and not self.is_closed:
            self.room.wait(seen, WAIT_SLICE_MS)
            seen = self.room.seen()
        return 0

    def end(self, error=None):
        """Nothing follows; `error` is raised on the task's thread when all before it was taken."""
        self.error = error
        self.has_ended = True
        self.wake()

    # The task's thread

    cdef list take(self):
        """All there is; None: nothing is there now, and the task is woken when there is."""
        cdef list elements = self.elements
        if elements:
            self.elements = []
            self.room.ring()
            return elements
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        self.is_awaited = True
        return None

    def take_all(self):
        """The same as a list, empty if there is nothing."""
        return self.take() or []

    # Any thread

    def close(self):
        """Have `fill` return when the iterator does; returns whether it runs, so that this may take its time."""
        self.is_closed = True
        self.room.ring()
        return self.is_running
