"""Rows in the order of numbers that they have: key groups, channels, slices of time. A counting sort over columns.

Sorting the rows and taking them goes through each column in jumps. Here the place of each row is known first, and then
a column is read once from its begin to its end: there are only as many places of writing as there are numbers.
"""

cimport cython
from libc.stdint cimport UINT32_MAX, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy

ctypedef fused value_t:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


@cython.final
cdef class RowOrder:
    """The order of the rows of a batch by a number of each; rows of one number stay in their order.

    Parameters
    ----------
    numbers : numpy.ndarray of uint32
        Of the rows.
    count : int
        All numbers are below it.

    Attributes
    ----------
    starts : numpy.ndarray of int64
        Where the rows of each number begin, and behind the last of them.
    """

    cdef uint32_t[::1] places           # of each row
    cdef readonly object starts

    def __init__(self, const uint32_t[::1] numbers not None, int64_t count):
        cdef int64_t[::1] ends, nexts
        cdef uint32_t[::1] places
        cdef int64_t i, row_count = numbers.shape[0]
        cdef bint is_wrong = False
        import numpy as np  # not before there are columns

        if count < 0 or row_count > UINT32_MAX:
            raise ValueError(f"{row_count} rows with {count} numbers: there are at most {UINT32_MAX} rows")
        self.starts = np.zeros(count + 1, np.int64)
        self.places = places = np.empty(row_count, np.uint32)
        ends = self.starts
        with nogil:
            for i in range(row_count):
                if numbers[i] >= count:
                    is_wrong = True
                    break
                ends[numbers[i] + 1] += 1
        if is_wrong:
            raise IndexError(f"row {i} has the number {numbers[i]}, and there are {count}")
        nexts = np.cumsum(self.starts, out=self.starts).copy()
        with nogil:
            for i in range(row_count):
                places[i] = <uint32_t>nexts[numbers[i]]
                nexts[numbers[i]] += 1

    def __len__(self):
        return self.places.shape[0]

    def rows(self):
        """Which row comes at each place: an array of uint32."""
        cdef uint32_t[::1] found
        cdef int64_t i
        import numpy as np

        made = np.empty(self.places.shape[0], np.uint32)
        found = made
        with nogil:
            for i in range(found.shape[0]):
                found[self.places[i]] = <uint32_t>i
        return made

    def move(self, values, to, int64_t width, int64_t offset=0):
        """Put values into this order.

        Parameters
        ----------
        values, to : buffer
            From, and into, memory that is not shared: values of so many bytes.
        width : int
        offset : int, default 0
            Which value the first row has.

        Raises
        ------
        ValueError
            If there are fewer bytes than the rows have.
        """
        cdef const uint8_t[::1] source
        cdef uint8_t[::1] target
        cdef const uint8_t* begin
        cdef uint8_t* to_begin
        cdef int64_t count = self.places.shape[0]
        cdef bint is_aligned
        if count == 0:
            return
        source, target = memoryview(values).cast("B"), memoryview(to).cast("B")
        if width < 1 or offset < 0 or (offset + count) * width > source.shape[0] or count * width > target.shape[0]:
            raise ValueError(f"{count} values of {width} bytes, from value {offset} on, are more than the "
                             f"{source.shape[0]} bytes that there are, or than {target.shape[0]} bytes take")
        begin, to_begin = &source[offset * width], &target[0]
        is_aligned = (<uintptr_t>begin | <uintptr_t>to_begin) % <uintptr_t>width == 0
        with nogil:
            if width == 8 and is_aligned:
                scatter(<const uint64_t*>begin, &self.places[0], count, <uint64_t*>to_begin)
            elif width == 4 and is_aligned:
                scatter(<const uint32_t*>begin, &self.places[0], count, <uint32_t*>to_begin)
            elif width == 2 and is_aligned:
                scatter(<const uint16_t*>begin, &self.places[0], count, <uint16_t*>to_begin)
            elif width == 1:
                scatter(begin, &self.places[0], count, to_begin)
            else:
                scatter_wide(begin, &self.places[0], count, width, to_begin)


cdef void scatter(const value_t* source, const uint32_t* places, int64_t count, value_t* target) noexcept nogil:
    cdef int64_t i
    for i in range(count):
        target[places[i]] = source[i]


cdef void scatter_wide(const uint8_t* source, const uint32_t* places, int64_t count, int64_t width,
                       uint8_t* target) noexcept nogil:
    cdef int64_t i
    for i in range(count):
        memcpy(target + places[i] * width, source + i * width, width)
