"""The first rows of each slot by an order: which numbers they have, and what a batch has changed."""

from libc.stdint cimport UINT32_MAX, int64_t, uint8_t, uint32_t

from flinkbuf._core.columns.slot_aggregate cimport Choice
from flinkbuf._core.ground.errors cimport check


cdef class SlotRanks:
    """The first rows of each slot, as numbers under which somebody else keeps the rows.

    Parameters
    ----------
    limit : int
        So many rows of a slot at most.
    words : int
        Of the order of a row, which compare as they stand, the first that differs counting.
    texts : sequence of int
        The words that are addresses of texts; the word behind each is the text's size.
    descending : sequence of int
        Those of them whose texts stand from the greatest down.
    is_newest_first : bool
        Whether the later one of two rows that are equal in the order is before the other.

    Examples
    --------
    >>> import numpy as np
    >>> ranks = SlotRanks(2, 1)
    >>> kept, lost = ranks.add(np.array([0, 0, 1, 0], np.uint32), 2, np.array([[7], [5], [9], [6]]), 0)
    >>> kept.tolist(), ranks.numbers(np.array([0])).tolist(), ranks.counts().tolist()
    ([1, 2, 3], [0, 2], [2, 1])
    >>> [column.tolist() for column in ranks.changes(True)]
    [[0, 0, 1], [1, 2, 1], [0, 2, 1], [0, 0, 0]]
    """

    def __init__(self, limit, words, texts=(), descending=(), is_newest_first=False):
        if not 1 <= limit < UINT32_MAX:
            raise ValueError(f"a slot has one row or more, got {limit}")
        if not 0 <= words <= FB_SLOT_RANKS_MAX_WORDS:
            raise ValueError(f"an order has up to {FB_SLOT_RANKS_MAX_WORDS} words, got {words}")
        self.c.limit, self.c.words, self.c.is_newest_first = limit, words, is_newest_first
        for word in texts:
            self.c.texts |= <uint32_t>1 << <uint32_t>word
        for word in descending:
            self.c.descending |= <uint32_t>1 << <uint32_t>word

    def __dealloc__(self):
        fb_slot_ranks_clear(&self.c)

    @property
    def nbytes(self):
        """The bytes of memory that the ranks have."""
        return fb_slot_ranks_bytes(&self.c)

    def add(self, slots, slot_count, orders, int64_t base):
        """Take rows.

        Parameters
        ----------
        slots : numpy.ndarray of uint32
            Of the rows.
        slot_count : int
            How many slots there are now.
        orders : numpy.ndarray of int64
            A row of words for each row; the memory of texts is borrowed for the call.
        base : int
            Numbers from here on are those of the rows that are kept.

        Returns
        -------
        kept : numpy.ndarray of int64
            The rows that are among the first of their slots: with the numbers `base`, `base` + 1 and so on.
        lost : int
            How many numbers below `base` no slot has any more.
        """
        import numpy

        cdef fb_slot_rank_rows rows
        cdef const uint32_t[::1] slots_view = slots
        cdef const int64_t[:, ::1] orders_view = orders
        cdef int code
        if orders.shape != (len(slots), self.c.words):
            raise ValueError(f"{len(slots)} rows with {self.c.words} words each, got {orders.shape}")
        if not self.c.count <= slot_count < UINT32_MAX:
            raise ValueError(f"there are {self.c.count} slots, which do not become {slot_count}")
        if len(slots) and slots.max() >= slot_count:
            raise IndexError(f"there are {slot_count} slots, got {slots.max()}")
        kept, places = numpy.empty(len(slots), numpy.uint8), numpy.empty(len(slots), numpy.int64)
        cdef uint8_t[::1] kept_view = kept
        cdef int64_t[::1] places_view = places
        rows.slots, rows.orders, rows.count, rows.base = &slots_view[0], &orders_view[0, 0], len(slots), base
        rows.kept, rows.places = &kept_view[0], &places_view[0]
        check(fb_slot_ranks_grow(&self.c, slot_count))
        with nogil:
            code = fb_slot_ranks_add(&self.c, &rows)
        check(code)
        return numpy.flatnonzero(kept), rows.lost

    def changes(self, bint by_rank):
        """Return what the latest rows have changed.

        Parameters
        ----------
        by_rank : bool
            Whether to give the ranks that have another row; otherwise, the rows that fell out and those that came in.

        Returns
        -------
        slots : numpy.ndarray of uint32
        ranks : numpy.ndarray of int64
            From 1 on; 0 of rows that fell out.
        numbers : numpy.ndarray of int64
        kinds : numpy.ndarray of uint8
            Those of `RowKind`: insert, update after, and delete.
        """
        import numpy

        cdef fb_slot_rank_changes changes
        cdef int64_t room = fb_slot_ranks_changes_room(&self.c)
        slots, kinds = numpy.empty(room, numpy.uint32), numpy.empty(room, numpy.uint8)
        ranks, numbers = numpy.empty(room, numpy.int64), numpy.empty(room, numpy.int64)
        cdef uint32_t[::1] slots_view = slots
        cdef uint8_t[::1] kinds_view = kinds
        cdef int64_t[::1] ranks_view = ranks
        cdef int64_t[::1] numbers_view = numbers
        changes.slots, changes.kinds = &slots_view[0], &kinds_view[0]
        changes.ranks, changes.numbers = &ranks_view[0], &numbers_view[0]
        with nogil:
            fb_slot_ranks_changes(&self.c, by_rank, &changes)
        return tuple([each[:changes.count] for each in (slots, ranks, numbers, kinds)])

    def counts(self, slots=None):
        """Return how many rows all slots have, or some: an array of int64."""
        import numpy

        cdef Choice choice = Choice(slots, self.c.count)
        counts = numpy.empty(choice.c.count, numpy.int64)
        cdef int64_t[::1] view = counts
        with nogil:
            fb_slot_ranks_counts(&self.c, &choice.c, &view[0])
        return counts

    def numbers(self, slots=None):
        """Return the numbers of the rows of all slots, or of some: best first, one slot behind the other."""
        import numpy

        cdef Choice choice = Choice(slots, self.c.count)
        numbers = numpy.empty(self.counts(slots).sum(), numpy.int64)
        cdef int64_t[::1] view = numbers
        with nogil:
            fb_slot_ranks_numbers(&self.c, &choice.c, &view[0])
        return numbers
