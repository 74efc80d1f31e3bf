"""Aggregates by slots that give back values: extremes, the first and the last, winners, lists, distinct ones."""

import numpy
from libc.stdint cimport int64_t, uint8_t, uint32_t

from flinkbuf._core.columns.arrow_column cimport fb_arrow_column
from flinkbuf._core.columns.key_slots import KeySlots
from flinkbuf._core.columns.slot_aggregate cimport (
    FB_SLOT_NUMBERS, FB_SLOT_TEXTS, FB_SLOT_WIDE, Choice, SlotAggregate, array_of, bind_values,
    fb_slot_aggregate_extreme, fb_slot_aggregate_first, fb_slot_aggregate_follow, fb_slot_aggregate_last,
    fb_slot_aggregate_link, fb_slot_aggregate_take_texts, fb_slot_extreme, fb_slot_order, fb_slot_winners, valid_bytes,
)
from flinkbuf._core.ground.errors cimport check

cdef enum:
    MIN_LOST = 4096     # values that nobody wants any more: fewer are not worth a copy of the others


cdef class RowStore:
    """Values of any type under rising numbers: in chunks, each more than twice as long as the next."""

    cdef object type
    cdef list chunks
    cdef int64_t count
    cdef int64_t lost       # of them, those that nobody wants any more

    def __init__(self, type_):
        import pyarrow

        self.type, self.chunks = type_, []
        try:
            pyarrow.nulls(1, type_).take(pyarrow.array([0]))
        except pyarrow.ArrowNotImplementedError:
            raise TypeError(f"values of {type_} are not kept here: cast views to string or binary, and what is "
                            "encoded to its values") from None

    cdef int add(self, object values) except -1:
        import pyarrow

        if len(values) == 0:
            return 0
        self.count += len(values)
        while self.chunks and len(self.chunks[len(self.chunks) - 1]) <= 2 * len(values):
            values = pyarrow.concat_arrays([self.chunks.pop(), values])
        self.chunks.append(values)
        return 0

    cdef object take(self, object numbers, object valid):
        """The values under some numbers; null where a byte of `valid` is 0."""
        import pyarrow

        if not self.chunks:
            return pyarrow.nulls(len(numbers), self.type)
        if len(self.chunks) > 1:
            if 4 * len(numbers) < self.count:
                return self.take_few(numbers.astype(numpy.int64), valid)
            self.chunks = [pyarrow.concat_arrays(self.chunks)]
        return self.chunks[0].take(pyarrow.array(numbers, mask=None if valid.all() else valid == 0))

    cdef object take_few(self, object numbers, object valid):
        """The same without a copy of all values."""
        import pyarrow

        cdef int64_t start = 0
        order = numpy.argsort(numbers, kind="stable")
        rising, places, parts = numbers[order], numpy.empty_like(order), []
        places[order] = numpy.arange(len(order))
        for chunk in self.chunks:
            some = rising[numpy.searchsorted(rising, start):numpy.searchsorted(rising, start + len(chunk))]
            parts.append(chunk.take(pyarrow.array(some - start)))
            start += len(chunk)
        found = pyarrow.concat_arrays(parts)
        return found.take(pyarrow.array(places, mask=None if valid.all() else valid == 0))

    cdef int keep(self, object numbers) except -1:
        """Forget all but these, which are numbered anew from 0 on."""
        kept = self.take(numbers, numpy.ones(len(numbers), numpy.uint8))
        self.clear()
        return self.add(kept)

    cdef int clear(self) except -1:
        self.chunks, self.count, self.lost = [], 0, 0
        return 0

    cdef int64_t bytes(self) except -1:
        return sum([chunk.nbytes for chunk in self.chunks])


cdef class OrderedAggregate(SlotAggregate):
    """What compares values of a column: of equal ones the first counts."""

    cdef fb_slot_extreme how
    cdef object order_type

    cdef int compare_by(self, object type_, bint is_max, uint32_t word) except -1:
        """The words from `word` on are for the value that is compared."""
        self.order_type = type_
        self.how.order, self.how.is_max, self.how.word = order_of(type_), is_max, word
        self.c.words = word + (1 if self.how.order == FB_SLOT_NUMBERS else 2)
        return 0

    cdef int find(self, object slots, object column, fb_slot_winners* winners) except -1:
        cdef const uint32_t[::1] view = slots
        cdef fb_arrow_column values
        cdef int code
        held = bind_values(&values, column)
        with nogil:
            code = fb_slot_aggregate_extreme(&self.c, &self.how, &view[0], &values, winners)
        del held
        check(code)
        return 0

    cdef object extremes_of(self, Choice choice):
        valid = self.seen_of(choice)
        if self.how.order == FB_SLOT_TEXTS:
            return self.texts_of(choice, valid)
        words = self.words_of(choice, self.how.word, self.c.words - self.how.word)
        if self.how.is_max:
            words = ~words
        width = self.order_type.bit_width
        if self.how.order == FB_SLOT_WIDE:
            if width < 128:
                words = words[::2].astype(f"u{width // 8}")
            return array_of(self.order_type, valid, [words])
        numbers = numbers_of(self.order_type, words)
        if width == 1:
            numbers = numpy.packbits(numbers, bitorder="little")
        return array_of(self.order_type, valid, [numbers])

    cdef object texts_of(self, Choice choice, object valid):
        import pyarrow

        cdef const int64_t[::1] offsets_view
        cdef uint8_t[::1] text_view
        is_fixed = pyarrow.types.is_fixed_size_binary(self.order_type)
        offsets = numpy.zeros(choice.c.count + 1, numpy.int64)
        if is_fixed:
            offsets[1:] = self.order_type.byte_width
        else:
            offsets[1:] = self.words_of(choice, self.how.word, 2)[1::2]
        numpy.cumsum(offsets, out=offsets)
        size = offsets[choice.c.count]
        texts = numpy.zeros(size, numpy.uint8)
        offsets_view, text_view = offsets, texts
        with nogil:
            fb_slot_aggregate_take_texts(&self.c, self.how.word, &choice.c, &offsets_view[0], &text_view[0])
        if is_fixed:
            return array_of(self.order_type, valid, [texts])
        if not pyarrow.types.is_large_string(self.order_type) and not pyarrow.types.is_large_binary(self.order_type):
            if size >= 2**31:
                raise OverflowError(f"a column of {self.order_type} holds less than 2^31 bytes, the results of "
                                    f"{choice.c.count} slots have {size}; cast the column to its large type")
            offsets = offsets.astype(numpy.int32)
        return array_of(self.order_type, valid, [offsets, texts])


cdef class ExtremeAggregate(OrderedAggregate):
    """The least or the greatest value."""

    def __init__(self, type_, bint is_max):
        self.compare_by(type_, is_max, 0)
        self.result_type, self.state_types, self.input_types = type_, (type_,), (type_,)

    cdef int add(self, object slots, tuple columns) except -1:
        return self.find(slots, columns[0], NULL)

    cdef object results_of(self, Choice choice):
        return self.extremes_of(choice)


cdef class WinnerAggregate(OrderedAggregate):
    """The value of one row: the first, the last, or that in which another column is least or greatest.

    Of first and last, the value is not null; of the others, what compares is not, and the value may be.
    """

    cdef RowStore store
    cdef bint is_ordered
    cdef bint is_last

    def __init__(self, str kind, type_, by=None):
        self.is_ordered, self.is_last = by is not None, kind == "last"
        self.c.words = 1
        if self.is_ordered:
            self.compare_by(by, kind == "max_by", 1)
        self.store = RowStore(type_)
        self.result_type = type_
        self.state_types = self.input_types = (type_, by) if self.is_ordered else (type_,)

    cdef int add(self, object slots, tuple columns) except -1:
        import pyarrow

        cdef fb_slot_winners winners
        rows = numpy.empty(len(slots), numpy.int64)
        cdef int64_t[::1] view = rows
        winners.base, winners.rows, winners.count, winners.lost = self.store.count, &view[0], 0, 0
        if self.is_ordered:
            self.find(slots, columns[1], &winners)
        else:
            self.choose(slots, valid_bytes(columns[0]), &winners)
        self.store.add(columns[0].take(pyarrow.array(rows[:winners.count])))
        self.store.lost += winners.lost
        if self.store.lost > MIN_LOST and self.store.lost > self.store.count // 2:
            self.compact()
        return 0

    cdef int choose(self, object slots, object found, fb_slot_winners* winners) except -1:
        cdef const uint32_t[::1] view = slots
        cdef const uint8_t[::1] valid
        cdef const uint8_t* valid_start = NULL
        if found is not None:
            valid = found
            valid_start = &valid[0]
        with nogil:
            if self.is_last:
                fb_slot_aggregate_last(&self.c, &view[0], valid_start, view.shape[0], winners)
            else:
                fb_slot_aggregate_first(&self.c, &view[0], valid_start, view.shape[0], winners)
        return 0

    cdef int compact(self) except -1:
        """Let go of the values that are no longer anybody's."""
        cdef Choice everything = Choice(None, self.c.count)
        cdef int64_t number = 0
        cdef uint32_t slot
        self.store.keep(self.words_of(everything, 0, 1)[self.seen_of(everything).view(numpy.bool_)])
        for slot in range(self.c.count):
            if self.c.seen[slot]:
                self.c.cells[<size_t>slot * self.c.words] = number
                number += 1
        return 0

    cdef tuple states_of(self, Choice choice):
        if self.is_ordered:
            return self.results_of(choice), self.extremes_of(choice)
        return (self.results_of(choice),)

    cdef object results_of(self, Choice choice):
        return self.store.take(self.words_of(choice, 0, 1), self.seen_of(choice))

    cdef int64_t value_bytes(self) except -1:
        return self.store.bytes()

    cdef int clear_values(self) except -1:
        return self.store.clear()


cdef class CollectAggregate(SlotAggregate):
    """All values that are not null, as lists in the order in which they came."""

    cdef RowStore store
    cdef object previous    # of each value, the one before it in its list; int64, with room at the end

    def __init__(self, type_):
        import pyarrow

        self.c.words, self.input_types = 2, (type_,)     # how many, and the last one
        self.store, self.previous = RowStore(type_), numpy.empty(0, numpy.int64)
        self.result_type = pyarrow.list_(type_)
        self.state_types = (self.result_type,)

    cdef int add(self, object slots, tuple columns) except -1:
        column = columns[0]
        if column.null_count > 0:
            valid = column.is_valid()
            slots, column = slots[valid.to_numpy(zero_copy_only=False)], column.filter(valid)
        return self.add_values(slots, column)

    cdef int add_values(self, object slots, object values) except -1:
        """Without nulls; the values are copied, since whoever gave them may write into their memory again."""
        import pyarrow

        self.link(slots)
        self.store.add(pyarrow.concat_arrays([values, values.slice(0, 0)]))
        return self.count_valid(0, slots, None)

    cdef int link(self, object slots) except -1:
        """Have lists go on with the values that come into the store next."""
        cdef const uint32_t[::1] slots_view = slots
        cdef int64_t[::1] previous_view
        cdef int64_t before = self.store.count, after = self.store.count + len(slots)
        if after > len(self.previous):
            larger = numpy.empty(max(2 * len(self.previous), after, 1024), numpy.int64)
            larger[:before] = self.previous[:before]
            self.previous = larger
        previous_view = self.previous
        with nogil:
            fb_slot_aggregate_link(&self.c, 1, &slots_view[0], after - before, before, &previous_view[0])
        return 0

    cdef int add_states(self, object slots, tuple columns) except -1:
        import pyarrow.compute

        lengths = pyarrow.compute.list_value_length(columns[0]).fill_null(0).to_numpy(zero_copy_only=False)
        return self.add(numpy.repeat(slots, lengths), (columns[0].flatten(),))

    cdef object lists_of(self, Choice choice):
        import pyarrow

        cdef const int64_t[::1] previous_view = self.previous
        cdef const int64_t[::1] ends_view
        cdef int64_t[::1] numbers_view
        counts = self.words_of(choice, 0, 1)
        offsets = numpy.zeros(len(counts) + 1, numpy.int64)
        numpy.cumsum(counts, out=offsets[1:])
        if offsets[len(counts)] >= 2**31:
            raise OverflowError(f"lists have less than 2^31 values in all, got {offsets[len(counts)]}")
        numbers = numpy.empty(offsets[len(counts)], numpy.int64)
        ends_view, numbers_view = offsets[1:], numbers
        with nogil:
            fb_slot_aggregate_follow(&self.c, 1, &choice.c, &previous_view[0], &ends_view[0], &numbers_view[0])
        values = self.store.take(numbers, numpy.ones(len(numbers), numpy.uint8))
        valid = counts > 0
        bits = None if valid.all() else pyarrow.py_buffer(numpy.packbits(valid, bitorder="little"))
        return pyarrow.Array.from_buffers(pyarrow.list_(self.store.type), len(counts),
                                          [bits, pyarrow.py_buffer(offsets.astype(numpy.int32))], children=[values])

    cdef object results_of(self, Choice choice):
        return self.lists_of(choice)

    cdef int64_t value_bytes(self) except -1:
        return self.store.bytes() + self.previous.nbytes

    cdef int clear_values(self) except -1:
        self.previous = numpy.empty(0, numpy.int64)
        return self.store.clear()


cdef class DistinctAggregate(CollectAggregate):
    """How many different values there are; its states are lists of them."""

    cdef object pairs       # slots and values that were seen together

    def __init__(self, type_):
        import pyarrow

        super().__init__(type_)
        self.pairs = KeySlots(pyarrow.schema([("slot", pyarrow.uint32()), ("value", type_)]))
        self.result_type = pyarrow.int64()

    cdef int add_values(self, object slots, object values) except -1:
        import pyarrow

        _, new_rows = self.pairs.find_or_add(pyarrow.record_batch([pyarrow.array(slots), values], ["slot", "value"]))
        self.link(slots[new_rows])
        self.store.add(values.take(pyarrow.array(new_rows)))
        return self.count_valid(0, slots[new_rows], None)

    cdef tuple states_of(self, Choice choice):
        return (self.lists_of(choice),)

    cdef object results_of(self, Choice choice):
        return array_of(self.result_type, numpy.ones(choice.c.count, numpy.uint8), [self.words_of(choice, 0, 1)])

    cdef int64_t value_bytes(self) except -1:
        return CollectAggregate.value_bytes(self) + <int64_t>self.pairs.nbytes

    cdef int clear_values(self) except -1:
        self.pairs.clear()
        return CollectAggregate.clear_values(self)


cdef fb_slot_order order_of(object type_) except *:
    """How values of a type are compared; TypeError for what has no order here."""
    from pyarrow import types

    if types.is_boolean(type_) or types.is_integer(type_) or types.is_float32(type_) or types.is_float64(type_) or \
            types.is_temporal(type_) and not types.is_interval(type_):
        return FB_SLOT_NUMBERS
    if types.is_decimal(type_) and type_.bit_width <= 128:
        return FB_SLOT_WIDE
    if types.is_string(type_) or types.is_large_string(type_) or types.is_binary(type_) or \
            types.is_large_binary(type_) or types.is_fixed_size_binary(type_):
        return FB_SLOT_TEXTS
    raise TypeError(f"values of {type_} have no order here; numbers, booleans, dates, times, timestamps, durations, "
                    "decimals of up to 38 digits, strings and binary do: cast views and dictionaries to one of these")


cdef object numbers_of(object type_, object words):
    """The numbers that words which compare as they do stand for, in their own width; of booleans, a byte each."""
    from pyarrow import types

    orders = words.view(numpy.int64)
    width = type_.bit_width
    if types.is_floating(type_):
        bits = orders ^ ((orders >> 63) & numpy.int64(2**63 - 1))
        return bits.view(numpy.float64).astype(f"f{width // 8}")
    if types.is_unsigned_integer(type_) and width == 64:
        return words ^ numpy.uint64(2**63)
    return orders.astype(numpy.uint8 if width == 1 else f"i{width // 8}")
