"""The aggregates by slots, by their names; counts, sums, means and deviations are here."""

import numpy
from libc.stdint cimport uint32_t

from flinkbuf._core.columns.arrow_column cimport fb_arrow_column
from flinkbuf._core.columns.slot_aggregate cimport (
    SUM_FLOATS, SUM_SIGNED, SUM_UNSIGNED, SUM_WIDE, Choice, SlotAggregate, array_of, bind_values,
    fb_slot_aggregate_deviate, fb_slot_aggregate_merge_deviations, fb_slot_aggregate_take_wide, sum_kind,
)
from flinkbuf._core.columns.value_aggregates import (
    CollectAggregate, DistinctAggregate, ExtremeAggregate, WinnerAggregate,
)


cdef class CountAggregate(SlotAggregate):
    """How many rows, or values of a column that are not null."""

    def __init__(self, tuple types):
        import pyarrow

        self.c.words, self.input_types = 1, types
        self.result_type = pyarrow.int64()
        self.state_types = (self.result_type,)

    cdef int add(self, object slots, tuple columns) except -1:
        return self.count_valid(0, slots, columns[0] if columns else None)

    cdef int add_states(self, object slots, tuple columns) except -1:
        return self.sum_up(SUM_SIGNED, 0, slots, columns[0])

    cdef object results_of(self, Choice choice):
        return array_of(self.result_type, numpy.ones(choice.c.count, numpy.uint8), [self.words_of(choice, 0, 1)])


cdef class SumAggregate(SlotAggregate):
    """The sum: of integers exact, of decimals with 38 digits."""

    cdef sum_kind kind

    def __init__(self, type_):
        self.input_types = (type_,)
        self.kind, self.result_type = summed(type_)
        self.c.words = 2 if self.kind == SUM_WIDE else 1
        self.state_types = (self.result_type,)

    cdef int add(self, object slots, tuple columns) except -1:
        return self.sum_up(self.kind, 0, slots, columns[0])

    cdef object results_of(self, Choice choice):
        return array_of(self.result_type, self.seen_of(choice), [self.words_of(choice, 0, self.c.words)])


cdef class MeanAggregate(SlotAggregate):
    """The mean: of integers and decimals from their exact sum."""

    cdef sum_kind kind
    cdef int scale

    def __init__(self, type_):
        import pyarrow

        self.input_types = (type_,)
        self.kind, sum_type = summed(type_)
        if self.kind != SUM_FLOATS:
            self.kind, self.scale = SUM_WIDE, getattr(type_, "scale", 0)
            sum_type = pyarrow.decimal128(38, self.scale)
        self.c.words = 2 if self.kind == SUM_FLOATS else 3
        self.result_type, self.state_types = pyarrow.float64(), (sum_type, pyarrow.int64())

    cdef int add(self, object slots, tuple columns) except -1:
        self.sum_up(self.kind, 0, slots, columns[0])
        return self.count_valid(self.c.words - 1, slots, columns[0])

    cdef int add_states(self, object slots, tuple columns) except -1:
        self.sum_up(self.kind, 0, slots, columns[0])
        return self.sum_up(SUM_SIGNED, self.c.words - 1, slots, columns[1])

    cdef tuple states_of(self, Choice choice):
        counts = self.words_of(choice, self.c.words - 1, 1)
        sums = self.words_of(choice, 0, self.c.words - 1)
        return (array_of(self.state_types[0], (counts > 0).view(numpy.uint8), [sums]),
                array_of(self.state_types[1], numpy.ones(len(counts), numpy.uint8), [counts]))

    cdef object results_of(self, Choice choice):
        cdef double[::1] view
        counts = self.words_of(choice, self.c.words - 1, 1)
        if self.kind == SUM_FLOATS:
            sums = self.words_of(choice, 0, 1).view(numpy.float64)
        else:
            sums = numpy.empty(choice.c.count, numpy.float64)
            view = sums
            with nogil:
                fb_slot_aggregate_take_wide(&self.c, 0, &choice.c, &view[0])
        means = sums / numpy.maximum(counts, 1)
        if self.scale != 0:
            means = means / 10.0**self.scale
        return array_of(self.result_type, (counts > 0).view(numpy.uint8), [means])


cdef class DeviationAggregate(SlotAggregate):
    """The standard deviation of a sample; null for fewer than two values."""

    def __init__(self, type_):
        import pyarrow

        summed(type_)
        self.c.words, self.input_types, self.result_type = 3, (type_,), pyarrow.float64()
        self.state_types = (pyarrow.int64(), self.result_type, self.result_type)

    cdef int add(self, object slots, tuple columns) except -1:
        cdef const uint32_t[::1] view = slots
        cdef fb_arrow_column values
        held = bind_values(&values, columns[0])
        with nogil:
            fb_slot_aggregate_deviate(&self.c, &view[0], &values)
        del held
        return 0

    cdef int add_states(self, object slots, tuple columns) except -1:
        cdef const uint32_t[::1] view = slots
        cdef fb_arrow_column[3] values
        held = [bind_values(&values[0], columns[0]), bind_values(&values[1], columns[1]),
                bind_values(&values[2], columns[2])]
        with nogil:
            fb_slot_aggregate_merge_deviations(&self.c, &view[0], values)
        del held
        return 0

    cdef tuple states_of(self, Choice choice):
        valid = numpy.ones(choice.c.count, numpy.uint8)
        return tuple([array_of(type_, valid, [self.words_of(choice, word, 1)])
                      for word, type_ in enumerate(self.state_types)])

    cdef object results_of(self, Choice choice):
        counts = self.words_of(choice, 0, 1).view(numpy.int64)
        squares = self.words_of(choice, 2, 1).view(numpy.float64)
        deviations = numpy.sqrt(squares / numpy.maximum(counts - 1, 1))
        return array_of(self.result_type, (counts > 1).view(numpy.uint8), [deviations])


cdef tuple summed(object type_):
    """How values of a type are summed, and the type of the sum; TypeError for what has none."""
    import pyarrow
    from pyarrow import types

    if types.is_signed_integer(type_):
        return SUM_SIGNED, pyarrow.int64()
    if types.is_unsigned_integer(type_):
        return SUM_UNSIGNED, pyarrow.uint64()
    if types.is_float32(type_) or types.is_float64(type_):
        return SUM_FLOATS, pyarrow.float64()
    if types.is_decimal(type_) and type_.bit_width <= 128:
        return SUM_WIDE, pyarrow.decimal128(38, type_.scale)
    raise TypeError(f"values of {type_} have no sum; it is for integers, float, double and decimals of up to 38 "
                    "digits: cast the column to one of these")


cdef dict KINDS = {
    "count": (0, 1), "sum": (1,), "min": (1,), "max": (1,), "mean": (1,), "first": (1,), "last": (1,), "min_by": (2,),
    "max_by": (2,), "count_distinct": (1,), "stddev": (1,), "collect": (1,),
}


def make_aggregate(str kind not None, *arrow_types):
    """Return an aggregate without slots.

    Parameters
    ----------
    kind : str
        ``"count"`` of rows, or of the values of a column; ``"sum"``, ``"mean"`` and ``"stddev"`` (of a sample) of
        numbers; ``"min"`` and ``"max"``, where NaN is greater than every number and -0.0 less than 0.0; ``"first"``
        and ``"last"`` by arrival; ``"min_by"`` and ``"max_by"``, the value of the first row in which a second column
        is least or greatest; ``"count_distinct"``; ``"collect"``, the values as a list.
    *arrow_types : pyarrow.DataType
        Of the columns.

    Raises
    ------
    ValueError
        If there is no such aggregate.
    TypeError
        If it is not for columns of these types.

    Examples
    --------
    >>> import pyarrow as pa
    >>> make_aggregate("mean", pa.int32()).state_types
    (Decimal128Type(decimal128(38, 0)), DataType(int64))
    """
    if kind not in KINDS:
        raise ValueError(f"there is no aggregate {kind!r}; there are {', '.join(KINDS)}")
    if len(arrow_types) not in KINDS[kind]:
        raise TypeError(f"{kind} takes {' or '.join(map(str, KINDS[kind]))} columns, got {len(arrow_types)}")
    if kind == "count":
        return CountAggregate(arrow_types)
    if kind in ("min", "max"):
        return ExtremeAggregate(arrow_types[0], kind == "max")
    if kind in ("first", "last", "min_by", "max_by"):
        return WinnerAggregate(kind, *arrow_types)
    return {"sum": SumAggregate, "mean": MeanAggregate, "stddev": DeviationAggregate, "collect": CollectAggregate,
            "count_distinct": DistinctAggregate}[kind](arrow_types[0])
