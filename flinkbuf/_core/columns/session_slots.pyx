"""Sessions of keys as slots: numbers by which accumulators have what the rows of a session come to."""

import numpy
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t

from flinkbuf._core.ground.errors cimport check

NO_SLOT = FB_NO_SLOT


cdef class SessionSlots:
    """A table from keys and times to the slots of sessions; event time, as it goes on, ends them.

    Keys are numbers from 0 on, as `KeySlots` gives them. Slots are given out one after the other and never again: to
    have the memory of sessions that are over back, `describe` those that are open, and `restore` them in a new table.

    Parameters
    ----------
    gap_ms : int
        So long after its last row a session ends.
    lateness_ms : int, default 0
        So long after its end it takes rows.

    Examples
    --------
    >>> import numpy as np
    >>> sessions = SessionSlots(10)
    >>> sessions.add(np.array([0, 0, 1, 0], np.uint32), 2, np.array([3, 12, 5, 40])).tolist()
    [0, 0, 1, 2]
    >>> ended = sessions.advance(30)
    >>> keys, starts, ends, given = sessions.describe(ended)
    >>> ended.tolist(), keys.tolist(), starts.tolist(), ends.tolist(), sessions.open_count
    ([1, 0], [1, 0], [5, 3], [15, 22], 1)
    """

    def __cinit__(self, int64_t gap_ms, int64_t lateness_ms=0):
        if gap_ms <= 0 or lateness_ms < 0:
            raise ValueError(f"a gap is more than 0 ms and lateness is not negative, got {gap_ms} and {lateness_ms} ms")
        fb_session_slots_open(&self.c, gap_ms, lateness_ms)

    def __dealloc__(self):
        fb_session_slots_clear(&self.c)

    def __len__(self):
        return self.c.count

    @property
    def open_count(self):
        """How many sessions are open."""
        return self.c.open_count

    @property
    def late_count(self):
        """How many rows of the last `add` came too late for a session, and have `NO_SLOT`."""
        return self.c.late_count

    @property
    def nbytes(self):
        """The bytes of memory that the table has."""
        return fb_session_slots_bytes(&self.c)

    def add(self, keys, key_count, times):
        """Return the slot of each row; `NO_SLOT` where it came too late for any session.

        Parameters
        ----------
        keys : numpy.ndarray of uint32
        key_count : int
            How many keys there are now.
        times : numpy.ndarray of int64

        Returns
        -------
        numpy.ndarray of uint32

        Raises
        ------
        OverflowError
            If the session of a row does not end within 64 bits; no row was taken then.
        """
        cdef const uint32_t[::1] keys_view = keys
        cdef const int64_t[::1] times_view = times
        cdef uint32_t count = key_count
        cdef int code
        if len(times) != len(keys):
            raise ValueError(f"{len(times)} times for {len(keys)} keys")
        slots = numpy.empty(len(keys), numpy.uint32)
        cdef uint32_t[::1] slots_view = slots
        if not len(keys):
            return slots
        if times.max() > INT64_MAX - self.c.gap_ms:
            raise OverflowError(f"the session of a row with timestamp {times.max()} does not fit into 64 bits")
        with nogil:
            code = fb_session_slots_add(&self.c, &keys_view[0], &times_view[0], keys_view.shape[0], count,
                                        &slots_view[0])
        check(code)
        return slots

    def take_parts(self):
        """Return what rows have joined since the last call: parts, and the slots of the sessions that they belong to.

        In this order the partial results of the parts follow those of the sessions.

        Returns
        -------
        parts : numpy.ndarray of int64
        into : numpy.ndarray of uint32
        """
        parts, into = numpy.empty(self.c.part_count, numpy.int64), numpy.empty(self.c.part_count, numpy.uint32)
        cdef int64_t[::1] parts_view = parts
        cdef uint32_t[::1] into_view = into
        if len(parts):
            fb_session_slots_take_parts(&self.c, &parts_view[0], &into_view[0])
        return parts, into

    def take_changed(self):
        """Return the sessions whose end has passed and that have got rows since the last call.

        Returns
        -------
        numpy.ndarray of int64
        """
        slots = numpy.empty(fb_session_slots_changed_room(&self.c), numpy.int64)
        cdef int64_t[::1] view = slots
        return slots[:fb_session_slots_take_changed(&self.c, &view[0])] if len(slots) else slots

    def advance(self, int64_t watermark):
        """Return the sessions that end, in the order of their ends; those that take no more rows are open no longer.

        Returns
        -------
        numpy.ndarray of int64
        """
        cdef int64_t count
        ended = numpy.empty(max(self.c.open_count, 1), numpy.int64)
        cdef int64_t[::1] view = ended
        with nogil:
            count = fb_session_slots_advance(&self.c, watermark, &view[0])
        return ended[:count].copy()

    def all(self):
        """Return the slots of all open sessions.

        Returns
        -------
        numpy.ndarray of int64
        """
        slots = numpy.empty(self.c.open_count, numpy.int64)
        cdef int64_t[::1] view = slots
        if len(slots):
            fb_session_slots_all(&self.c, &view[0])
        return slots

    def describe(self, slots):
        """Return the keys, starts and ends of some sessions, and whether they were given as they are.

        Parameters
        ----------
        slots : numpy.ndarray of int64

        Returns
        -------
        keys, starts, ends : numpy.ndarray of int64
        given : numpy.ndarray of uint8
        """
        cdef const int64_t[::1] view = slots
        if len(slots) and not (0 <= slots.min() and slots.max() < self.c.count):
            raise IndexError(f"there are {self.c.count} slots, got {slots.min()} to {slots.max()}")
        found = tuple([numpy.empty(len(slots), type_) for type_ in (numpy.int64,) * 3 + (numpy.uint8,)])
        cdef fb_session_spans spans = spans_of(found)
        if len(slots):
            fb_session_slots_describe(&self.c, &view[0], view.shape[0], &spans)
        return found

    def restore(self, keys, key_count, starts, ends, given):
        """Open sessions again that `describe` told of; returns their slots here.

        Parameters
        ----------
        keys, starts, ends : numpy.ndarray of int64
        key_count : int
            How many keys there are now.
        given : numpy.ndarray of uint8

        Returns
        -------
        numpy.ndarray of uint32
        """
        cdef uint32_t count = key_count
        cdef fb_session_spans spans = spans_of((keys, starts, ends, given))
        if not len(keys) == len(starts) == len(ends) == len(given):
            raise ValueError("keys, starts, ends and what was given are as many as there are sessions")
        slots = numpy.empty(len(keys), numpy.uint32)
        cdef uint32_t[::1] view = slots
        if len(slots):
            check(fb_session_slots_restore(&self.c, &spans, view.shape[0], count, &view[0]))
        return slots


cdef fb_session_spans spans_of(tuple arrays) except *:
    """Where the values of arrays lie, which somebody holds; of empty ones nothing is read."""
    cdef int64_t[::1] keys = arrays[0], starts = arrays[1], ends = arrays[2]
    cdef uint8_t[::1] given = arrays[3]
    cdef fb_session_spans spans
    spans.keys, spans.starts, spans.ends, spans.given = &keys[0], &starts[0], &ends[0], &given[0]
    return spans
