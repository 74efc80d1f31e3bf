"""What all aggregates by slots are: whole columns go in, and results and partial states come out as columns.

A partial state is one row of some columns. Merging such rows is how panes become windows, how sessions grow together,
and how snapshots come back, on as many subtasks as there are then.
"""

import numpy
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport UINT32_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from flinkbuf._core.columns.arrow_column cimport ArrowSchema, fb_arrow_column, fb_arrow_type_parse
from flinkbuf._core.columns.key_slots cimport bind_column
from flinkbuf._core.ground.errors cimport check


cdef object bind_values(fb_arrow_column* column, object array):
    """Put a column of one plain array on it; returned is what holds the array."""
    cdef ArrowSchema* schema
    capsules = array.__arrow_c_array__()
    memset(column, 0, sizeof(fb_arrow_column))
    schema = <ArrowSchema*>PyCapsule_GetPointer(capsules[0], "arrow_schema")
    check(fb_arrow_type_parse(schema.format, &column.arrow))
    column.path = b"values"
    return bind_column(column, capsules)


cdef object valid_bytes(object column):
    """A byte for each row, 0 where it is null; None: no row is."""
    if column.null_count == 0:
        return None
    return column.is_valid().to_numpy(zero_copy_only=False).view(numpy.uint8)


cdef object array_of(object type_, object valid, list parts):
    """An Arrow array on the memory of arrays of numpy; `valid` has a byte for each row."""
    import pyarrow

    bits = None if valid.all() else pyarrow.py_buffer(numpy.packbits(valid, bitorder="little"))
    buffers = [pyarrow.py_buffer(part) for part in parts]
    return pyarrow.Array.from_buffers(type_, len(valid), [bits, *buffers])


cdef class Choice:
    """Which slots are wanted: some, or all there are."""

    def __init__(self, slots, int64_t slot_count):
        cdef const int64_t[::1] view
        self.c.count, self.slots = slot_count, slots
        if slots is not None:
            view = slots
            if len(slots) > 0 and not (0 <= slots.min() and slots.max() < slot_count):
                raise IndexError(f"there are {slot_count} slots, got {slots.min()} to {slots.max()}")
            self.c.count, self.c.slots = len(slots), &view[0]


cdef class SlotAggregate:
    """One aggregate with an accumulator for each slot; made by `make_aggregate`.

    Nulls are left out: an aggregate that has had no value is null, a count 0. After an error some rows of the call may
    have been taken in.

    Attributes
    ----------
    result_type : pyarrow.DataType
    state_types : tuple of pyarrow.DataType
        Of the columns of a partial state.

    Examples
    --------
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> from flinkbuf._core.columns.slot_aggregates import make_aggregate
    >>> total = make_aggregate("sum", pa.int32())
    >>> total.accumulate(np.array([0, 1, 0], np.uint32), 3, pa.array([5, 7, 6], pa.int32()))
    >>> total.result().to_pylist()
    [11, 7, None]
    >>> other = make_aggregate("sum", pa.int32())
    >>> other.merge(np.array([2, 1, 0], np.uint32), 3, *total.state())
    >>> other.result(np.array([2, 1])).to_pylist()
    [11, 7]
    """

    def __dealloc__(self):
        fb_slot_aggregate_clear(&self.c)

    @property
    def nbytes(self):
        """The bytes of memory that accumulators and values have."""
        return <int64_t>fb_slot_aggregate_bytes(&self.c) + self.value_bytes()

    def accumulate(self, slots, slot_count, *columns):
        """Take in a value of each row.

        Parameters
        ----------
        slots : numpy.ndarray of uint32
            Of the rows.
        slot_count : int
            How many slots there are now.
        *columns : pyarrow.Array
            As long as `slots`, of the types that the aggregate was made for.

        Raises
        ------
        OverflowError
            If a sum has no room for the value of a row.
        """
        self.begin(slots, slot_count, columns, self.input_types)
        self.add(slots, columns)

    def merge(self, slots, slot_count, *state_columns):
        """Take in partial states as `state` gives them: row i into the accumulator of slots[i].

        Parameters
        ----------
        slots : numpy.ndarray of uint32
        slot_count : int
            How many slots there are now.
        *state_columns : pyarrow.Array
        """
        self.begin(slots, slot_count, state_columns, self.state_types)
        self.add_states(slots, state_columns)

    def state(self, slots=None):
        """Return the partial states of all slots, or of some, as columns of their own.

        Parameters
        ----------
        slots : numpy.ndarray of int64, optional

        Returns
        -------
        tuple of pyarrow.Array
        """
        return self.states_of(Choice(slots, self.c.count))

    def result(self, slots=None):
        """Return the results of all slots, or of some.

        Parameters
        ----------
        slots : numpy.ndarray of int64, optional

        Returns
        -------
        pyarrow.Array
        """
        return self.results_of(Choice(slots, self.c.count))

    def clear(self):
        """Forget all slots, and give the memory back."""
        fb_slot_aggregate_clear(&self.c)
        self.clear_values()

    cdef int begin(self, object slots, object slot_count, tuple columns, tuple types) except -1:
        """Make room, after a look at what comes."""
        cdef const uint32_t[::1] view = slots
        if len(columns) != len(types):
            raise TypeError(f"the aggregate takes {len(types)} columns, got {len(columns)}")
        for column, type_ in zip(columns, types):
            if column.type != type_:
                raise TypeError(f"the aggregate takes columns of {', '.join(map(str, types))}, got {column.type}")
            if len(column) != len(slots):
                raise ValueError(f"a column of {len(column)} rows for {len(slots)} slots")
        if not self.c.count <= slot_count < UINT32_MAX:
            raise ValueError(f"there are {self.c.count} slots, which do not become {slot_count}")
        check(fb_slot_aggregate_grow(&self.c, slot_count))
        if not fb_slot_aggregate_has(&self.c, &view[0], len(slots)):
            raise IndexError(f"there are {slot_count} slots, got {slots.max()}")
        return 0

    cdef object words_of(self, Choice choice, uint32_t word, uint32_t words):
        found = numpy.empty(choice.c.count * words, numpy.uint64)
        cdef uint64_t[::1] view = found
        with nogil:
            fb_slot_aggregate_take(&self.c, word, words, &choice.c, &view[0])
        return found

    cdef object seen_of(self, Choice choice):
        found = numpy.empty(choice.c.count, numpy.uint8)
        cdef uint8_t[::1] view = found
        with nogil:
            fb_slot_aggregate_take_seen(&self.c, &choice.c, &view[0])
        return found

    cdef int count_valid(self, uint32_t word, object slots, object column) except -1:
        """Count rows; of a column, those that are not null."""
        cdef const uint32_t[::1] view = slots
        cdef const uint8_t[::1] valid
        cdef const uint8_t* valid_start = NULL
        found = None if column is None else valid_bytes(column)
        if found is not None:
            valid = found
            valid_start = &valid[0]
        with nogil:
            fb_slot_aggregate_count(&self.c, word, &view[0], valid_start, view.shape[0])
        return 0

    cdef int sum_up(self, sum_kind kind, uint32_t word, object slots, object column) except -1:
        cdef const uint32_t[::1] view = slots
        cdef fb_arrow_column values
        cdef int64_t row
        held = bind_values(&values, column)
        with nogil:
            if kind == SUM_SIGNED:
                row = fb_slot_aggregate_sum_signed(&self.c, word, &view[0], &values)
            elif kind == SUM_UNSIGNED:
                row = fb_slot_aggregate_sum_unsigned(&self.c, word, &view[0], &values)
            elif kind == SUM_FLOATS:
                row = fb_slot_aggregate_sum_floats(&self.c, word, &view[0], &values)
            else:
                row = fb_slot_aggregate_sum_wide(&self.c, word, &view[0], &values)
        del held
        if row < values.length:
            raise OverflowError(f"row {row}: with its value {column[row].as_py()} the sum of slot {slots[row]} has no "
                                f"room in {self.state_types[0]}; sum floating-point numbers or decimals of less scale")
        return 0

    cdef int add(self, object slots, tuple columns) except -1:
        raise NotImplementedError

    cdef int add_states(self, object slots, tuple columns) except -1:
        return self.add(slots, columns)

    cdef tuple states_of(self, Choice choice):
        return (self.results_of(choice),)

    cdef object results_of(self, Choice choice):
        raise NotImplementedError

    cdef int64_t value_bytes(self) except -1:
        return 0

    cdef int clear_values(self) except -1:
        return 0
