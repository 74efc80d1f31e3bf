"""The rows that one side of a join keeps, by slot and time; the columns lie elsewhere, under the numbers of rows."""

from collections import namedtuple

import numpy
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint32_t

from flinkbuf._core.ground.errors cimport check

TakenRows = namedtuple("TakenRows", "slots numbers times had_partner")


cdef int64_t clipped(object distance):
    """A number of Python, or the end of 64 bits that it lies behind."""
    return max(INT64_MIN, min(INT64_MAX, distance))


cdef class Room:
    """Arrays that rows are given out in."""

    cdef fb_slot_rows_taken c
    cdef object rows, numbers, slots, times, had_partner

    @staticmethod
    cdef Room of_pairs(int64_t capacity):
        cdef Room self = Room()
        cdef int64_t[::1] rows, numbers
        self.rows, self.numbers = numpy.empty(capacity, numpy.int64), numpy.empty(capacity, numpy.int64)
        rows, numbers = self.rows, self.numbers
        self.c.capacity, self.c.rows, self.c.numbers = capacity, &rows[0], &numbers[0]
        return self

    @staticmethod
    cdef Room of_rows(int64_t capacity):
        cdef Room self = Room()
        cdef int64_t[::1] numbers, times
        cdef uint32_t[::1] slots
        cdef uint8_t[::1] had_partner
        self.numbers, self.times = numpy.empty(capacity, numpy.int64), numpy.empty(capacity, numpy.int64)
        self.slots, self.had_partner = numpy.empty(capacity, numpy.uint32), numpy.empty(capacity, numpy.uint8)
        numbers, times, slots, had_partner = self.numbers, self.times, self.slots, self.had_partner
        self.c.capacity, self.c.numbers, self.c.times = capacity, &numbers[0], &times[0]
        self.c.slots, self.c.had_partner = &slots[0], &had_partner[0]
        return self

    cdef object taken(self):
        """The rows, as arrays of their own length."""
        arrays = (self.slots, self.numbers, self.times, self.had_partner.view(numpy.bool_))
        return TakenRows._make([array[:self.c.count] for array in arrays])


cdef class RowProbe:
    """Rows that look for partners among the rows of their slots, in a range of time that goes with their own.

    Parameters
    ----------
    slots : numpy.ndarray of uint32
    times : numpy.ndarray of int64
    lower, upper : int
        The least and the greatest of a partner's time less the row's, both included.
    marks_partners : bool, default False
        Have `SlotRows.pairs` note who had a partner, here and there.

    Attributes
    ----------
    had_partner : numpy.ndarray of bool, or None
        Of the rows, as far as `pairs` has come.
    """

    def __init__(self, slots, times, lower, upper, bint marks_partners=False):
        cdef const uint32_t[::1] slots_view = slots
        cdef const int64_t[::1] times_view = times
        cdef uint8_t[::1] marks
        if len(slots) != len(times):
            raise ValueError(f"{len(times)} times for {len(slots)} slots")
        self.slots, self.times = slots, times
        self.c.count, self.c.lower, self.c.upper = len(slots), clipped(lower), clipped(upper)
        if self.c.count > 0:
            self.c.slots, self.c.times = &slots_view[0], &times_view[0]
        if marks_partners:
            found = numpy.zeros(max(self.c.count, 1), numpy.uint8)
            marks = found
            self.c.had_partner = &marks[0]
            self.had_partner = found.view(numpy.bool_)[:self.c.count]


cdef class SlotRows:
    """Rows of slots, each with a time and a number, in the order of their times.

    Examples
    --------
    >>> import numpy as np
    >>> rows = SlotRows()
    >>> rows.grow(2)
    >>> rows.insert(np.array([0, 1, 0], np.uint32), np.array([30, 10, 20]), 100)
    >>> probe = RowProbe(np.array([1, 0], np.uint32), np.array([25, 25]), -10, 10)
    >>> [(row.tolist(), number.tolist()) for row, number in rows.pairs(probe, 8)]
    [([1, 1], [102, 100])]
    >>> [taken.numbers.tolist() for taken in rows.expire(20, 8)], len(rows)
    ([[102, 101]], 1)
    """

    def __dealloc__(self):
        fb_slot_rows_clear(&self.c)

    def __len__(self):
        return self.c.row_count

    @property
    def nbytes(self):
        """The bytes of memory that slots and rows have."""
        return fb_slot_rows_bytes(&self.c)

    @property
    def earliest(self):
        """The earliest time of a row; None: there is none."""
        return None if self.c.row_count == 0 else fb_slot_rows_earliest(&self.c)

    def grow(self, slot_count):
        """Have at least so many slots."""
        check(fb_slot_rows_grow(&self.c, slot_count))

    def insert(self, slots, times, number, had_partner=None):
        """Add rows under the numbers from `number` on.

        Parameters
        ----------
        slots : numpy.ndarray of uint32
        times : numpy.ndarray of int64
        number : int
        had_partner : numpy.ndarray of bool, optional
        """
        cdef const uint32_t[::1] slots_view = slots
        cdef const int64_t[::1] times_view = times
        cdef const uint8_t[::1] marks
        cdef const uint8_t* marks_start = NULL
        cdef int64_t first = number
        cdef int code
        self.check_slots(slots)
        if not len(slots):
            return
        if had_partner is not None:
            marks = had_partner.view(numpy.uint8)
            marks_start = &marks[0]
        if len(times) != len(slots) or (had_partner is not None and len(had_partner) != len(slots)):
            raise ValueError(f"{len(times)} times for {len(slots)} slots")
        with nogil:
            code = fb_slot_rows_insert(&self.c, &slots_view[0], &times_view[0], marks_start, slots_view.shape[0], first)
        check(code)

    def pairs(self, RowProbe probe not None, int64_t max_rows):
        """Yield which row of the probe has which partner: arrays of rows and numbers, of at most `max_rows`."""
        cdef Room room
        self.check_slots(probe.slots)
        while probe.c.row < probe.c.count:
            room = Room.of_pairs(max_rows)
            with nogil:
                fb_slot_rows_pairs(&self.c, &probe.c, &room.c)
            if room.c.count:
                yield room.rows[:room.c.count], room.numbers[:room.c.count]

    def withdraw(self, RowProbe probe not None, int64_t max_rows):
        """Yield such pairs, each partner once, and remove the partners."""
        cdef Room room
        self.check_slots(probe.slots)
        while probe.c.row < probe.c.count:
            room = Room.of_pairs(max_rows)
            with nogil:
                fb_slot_rows_withdraw(&self.c, &probe.c, &room.c)
            if room.c.count:
                yield room.rows[:room.c.count], room.numbers[:room.c.count]

    def find(self, RowProbe probe not None):
        """Return the number of the earliest partner of each row; -1: it has none."""
        numbers = numpy.empty(max(probe.c.count, 1), numpy.int64)
        cdef int64_t[::1] view = numbers
        self.check_slots(probe.slots)
        with nogil:
            fb_slot_rows_find(&self.c, &probe.c, &view[0])
        return numbers[:probe.c.count]

    def expire(self, limit, int64_t max_rows):
        """Yield the rows up to a time, and remove them."""
        cdef int64_t last = clipped(limit)
        cdef Room room
        while self.c.row_count > 0 and fb_slot_rows_earliest(&self.c) <= last:
            room = Room.of_rows(max_rows)
            with nogil:
                fb_slot_rows_expire(&self.c, last, &room.c)
            yield room.taken()

    def between(self, lower, upper, int64_t max_rows):
        """Yield the rows of a range of time, both ends included, slot by slot."""
        cdef int64_t start = clipped(lower), end = clipped(upper)
        cdef fb_slot_rows_cursor cursor
        cdef Room room
        cursor.slot = cursor.given = 0
        while True:
            room = Room.of_rows(max_rows)
            with nogil:
                fb_slot_rows_between(&self.c, start, end, &cursor, &room.c)
            if room.c.count:
                yield room.taken()
            if room.c.count < max_rows:
                return

    def first_numbers(self):
        """Return the number of the earliest row of each slot; -1: it has none."""
        numbers = numpy.empty(max(self.c.count, 1), numpy.int64)
        cdef int64_t[::1] view = numbers
        with nogil:
            fb_slot_rows_first(&self.c, &view[0])
        return numbers[:self.c.count]

    def keep(self, slots):
        """Keep some slots, each named once, which get the numbers 0, 1 and so on; the rows of all others are gone."""
        cdef const uint32_t[::1] view = slots
        cdef uint32_t none = 0
        self.check_slots(slots)
        if len(numpy.unique(slots)) != len(slots):
            raise ValueError("a slot is named twice")
        check(fb_slot_rows_keep(&self.c, &view[0] if len(slots) else &none, len(slots)))

    cdef int check_slots(self, object slots) except -1:
        cdef const uint32_t[::1] view = slots
        if len(slots) and not fb_slot_rows_has(&self.c, &view[0], len(slots)):
            raise IndexError(f"there are {self.c.count} slots, got {slots.max()}")
        return 0
