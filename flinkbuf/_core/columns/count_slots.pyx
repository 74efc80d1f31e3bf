"""Windows of so many rows of a key as slots: numbers by which accumulators have what a window comes to."""

import numpy
from libc.stdint cimport int64_t, uint32_t

from flinkbuf._core.ground.errors cimport check


cdef class CountSlots:
    """A table from keys to the slots of windows that their rows fill, one after the other.

    Keys are numbers from 0 on, as `KeySlots` gives them. Slots are given out one after the other and never again, as by
    `SessionSlots`.

    Parameters
    ----------
    size : int
        So many rows are a window.

    Examples
    --------
    >>> import numpy as np
    >>> windows = CountSlots(2)
    >>> slots, full_keys, full_slots = windows.add(np.array([1, 0, 1, 1], np.uint32), 2)
    >>> slots.tolist(), full_keys.tolist(), full_slots.tolist(), windows.open_count
    ([0, 1, 0, 2], [1], [0], 2)
    """

    def __cinit__(self, int64_t size):
        if size < 1:
            raise ValueError(f"a count window holds at least one row, got {size}")
        fb_count_slots_open(&self.c, size)

    def __dealloc__(self):
        fb_count_slots_clear(&self.c)

    def __len__(self):
        return self.c.count

    @property
    def open_count(self):
        """How many windows have rows and are not full."""
        return self.c.open_count

    @property
    def nbytes(self):
        """The bytes of memory that the table has."""
        return fb_count_slots_bytes(&self.c)

    def add(self, keys, key_count):
        """Return the slot of each row, and the keys and slots of the windows that are full now, in this order.

        Parameters
        ----------
        keys : numpy.ndarray of uint32
        key_count : int
            How many keys there are now.

        Returns
        -------
        slots : numpy.ndarray of uint32
        full_keys, full_slots : numpy.ndarray of int64
        """
        cdef const uint32_t[::1] keys_view = keys
        cdef uint32_t[::1] slots_view
        cdef uint32_t count = key_count
        cdef int64_t full_count = 0
        cdef fb_count_windows full
        cdef int code
        slots = numpy.empty(len(keys), numpy.uint32)
        found = [numpy.empty(len(keys), numpy.int64) for _ in range(3)]
        if len(keys):
            full, slots_view = windows_of(found), slots
            with nogil:
                code = fb_count_slots_add(&self.c, &keys_view[0], keys_view.shape[0], count, &slots_view[0], &full,
                                          &full_count)
            check(code)
        return slots, found[0][:full_count], found[1][:full_count]

    def all(self):
        """Return the keys and slots of the windows that are not full, and how many rows they have.

        Returns
        -------
        keys, slots, rows : numpy.ndarray of int64
        """
        found = [numpy.empty(self.c.open_count, numpy.int64) for _ in range(3)]
        cdef fb_count_windows to
        if self.c.open_count > 0:
            to = windows_of(found)
            fb_count_slots_all(&self.c, &to)
        return tuple(found)

    def restore(self, keys, key_count, rows):
        """Open windows again that `all` told of; returns their slots here.

        Parameters
        ----------
        keys, rows : numpy.ndarray of int64
        key_count : int
            How many keys there are now.

        Returns
        -------
        numpy.ndarray of int64
        """
        cdef uint32_t count = key_count
        cdef fb_count_windows windows
        if len(keys) != len(rows):
            raise ValueError(f"{len(rows)} counts of rows for {len(keys)} keys")
        slots = numpy.empty(len(keys), numpy.int64)
        if len(keys):
            windows = windows_of([keys, slots, rows])
            check(fb_count_slots_restore(&self.c, &windows, len(slots), count))
        return slots


cdef fb_count_windows windows_of(list arrays) except *:
    """Where the values of arrays lie, which somebody holds."""
    cdef int64_t[::1] keys = arrays[0], slots = arrays[1], rows = arrays[2]
    cdef fb_count_windows windows
    windows.keys, windows.slots, windows.rows = &keys[0], &slots[0], &rows[0]
    return windows
