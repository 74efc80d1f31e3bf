"""Puts the records of a key together before they are sent to the subtask that has the key.

What waits here would wait for others anyway: records of windows of event time for the watermark that ends the first of
their windows, all else for as long as a buffer waits to be full. Before a watermark that makes a difference to it, and
before a barrier, an idle status and the end of the input it leaves, so the operator has no state, and nothing becomes
late that was not. What leaves is (key, start of the pane, value or accumulator): a pane is a stretch of time that no
window begins or ends in; without windows of event time there is one, which begins at 0. Flink: the local aggregation of
TWO_PHASE, MapBundleOperator.
"""

cimport cython
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t

from math import gcd

from flinkbuf._core.record.plain_function import quickened

from flinkbuf._core.operators.aggregate_operator cimport combined_result
from flinkbuf._core.operators.aligned_window_operator cimport bounds_of_time
from flinkbuf._core.record.plain_function cimport called, called_with_two
from flinkbuf._core.state.key_context cimport KeyContext, key_of_token
from flinkbuf._core.state.keyed_state cimport kept, result_of_call
from flinkbuf._core.value.own_value cimport own_copy

cdef enum:
    MAX_COUNT = 20_000  # keys and panes that wait; with more of them all leave


@cython.freelist(1024)
cdef class Combined:
    """What came together of the records of a key."""


cdef class Panes:
    """The panes of tumbling and sliding windows of event time, of the assigner `assigner`."""

    def __init__(self, assigner):
        self.assigner = assigner
        self.length_ms = gcd(assigner.size_ms, assigner.slide_ms)
        self.min_time, self.max_time = bounds_of_time(assigner)
        self.offset_ms = assigner.offset_ms % self.length_ms
        if self.offset_ms < 0:
            self.offset_ms += self.length_ms

    cdef int64_t start_of(self, object value, int64_t timestamp) except? -1:
        """Where the pane of a record begins."""
        cdef int64_t rest
        if timestamp == INT64_MIN:
            self.assigner.assign_windows(value, timestamp, None)  # which says what is missing
        if timestamp > self.max_time or timestamp < self.min_time:
            raise OverflowError(f"the window of a record with timestamp {timestamp} does not fit into 64 bits")
        rest = (timestamp - self.offset_ms) % self.length_ms
        return timestamp - (rest if rest >= 0 else rest + self.length_ms)


cdef class CombiningOperator(DelayedOperator):
    """Reduces or aggregates the records of each key that come within a short while.

    Parameters
    ----------
    selector : callable
        Gives the key of a record.
    key_codec : TypeCodec or None
        Of the keys' declared type.
    make_state : callable
        Makes, of a KeyContext, the `KeyedState` that knows what may be kept of a value.
    reduce : callable, optional
        Makes one value of two.
    aggregate_function : AggregateFunction, optional
        Of windows; one of the two is given.
    panes : Panes, optional
        What belongs to different windows of event time stays apart. None: there are no such windows.
    lifecycle, max_delay_ms
        As of `DelayedOperator`; where there are panes, records wait as long as event time stands still.
    """

    def __init__(self, selector, key_codec, make_state, *, reduce=None, aggregate_function=None, Panes panes=None,
                 lifecycle=None, int64_t max_delay_ms=-1):
        DelayedOperator.__init__(self, lifecycle, -1 if panes is not None else max_delay_ms)
        self.selector, self.make_state = selector, make_state
        self.keys = KeyContext(key_codec)
        self.panes = panes
        if reduce is not None:
            self.how, self.reduce = REDUCE, reduce
            self.field_reduce = <FieldReduce>reduce if isinstance(reduce, FieldReduce) else None
        else:
            self.how = AGGREGATE
            self.create_accumulator = aggregate_function.create_accumulator
            self.add_value = quickened(aggregate_function.add, 2)
        self.gathered = {}

    def open(self):
        self.state = self.make_state(self.keys)
        if self.context.owns_records:
            self.state.own_given()
        DelayedOperator.open(self)

    def close(self):
        self.keys.clear()
        DelayedOperator.close(self)

    cpdef process_element(self, object value, int64_t timestamp):
        cdef PyObject* found
        cdef Combined entry = None
        cdef dict entries
        cdef object before = None
        self.value_in_hand = value
        self.is_in_function = True
        self.keys.set_key(called(self.selector, value))
        entries = self.of_pane(0 if self.panes is None else self.panes.start_of(value, timestamp))
        found = PyDict_GetItemWithError(entries, self.keys.token)
        if found is not NULL:
            entry = <Combined>found
            before = entry.value
        value = self.combined(before, value)
        self.is_in_function = False
        if entry is None:
            entry = Combined.__new__(Combined)
            entry.timestamp = timestamp
            entry.value = value
            entries[self.keys.token] = entry
            self.count += 1
            if self.count == 1 and self.max_delay_ms > 0:
                self.begin_delay()
            if self.count >= MAX_COUNT or self.max_delay_ms == 0:
                self.flush_all()
            return
        entry.value = value
        if timestamp > entry.timestamp:
            entry.timestamp = timestamp

    cdef dict of_pane(self, int64_t start):
        """What is combined of a pane: mostly that of the record before."""
        if self.recent is None or self.recent_start != start:
            self.recent = self.gathered.get(start)
            if self.recent is None:
                self.recent = self.gathered[start] = {}
            self.recent_start = start
        return self.recent

    cdef object combined(self, object before, object value):
        """What is kept of `before`, which is the operator's own or None, and one record more."""
        cdef bint is_own = self.state.owns_given
        if value is None:
            raise TypeError("a record that is None cannot be combined before it is sent: leave out two_phase")
        if self.how == AGGREGATE:
            if not is_own:
                value = own_copy(value)  # the accumulator may be going to hold it
            if before is None:
                made = kept(self.state, called_with_two(self.add_value, value, self.create_accumulator()))
            else:
                made = result_of_call(self.state, before, called_with_two(self.add_value, value, before))
        elif before is None:
            return value if is_own else kept(self.state, value)
        else:
            if not is_own:
                value = own_copy(value)  # the function may put parts of it into what it returns
            if self.field_reduce is not None:
                made = self.field_reduce.combine(before, value)
            else:
                made = called_with_two(self.reduce, before, value)
            made = value if is_own and made is value else result_of_call(self.state, before, made)
        return combined_result(made)

    # ---- what leaves, and when

    cdef int flush(self, int64_t watermark) except -1:
        """Have what is combined leave: of panes those that end before the watermark is past them."""
        cdef object start
        if self.count == 0:
            return 0
        for start in sorted(self.gathered):
            if self.panes is not None and watermark != INT64_MAX:
                if <int64_t>start + self.panes.length_ms - 1 > watermark:
                    break
            self.flush_pane(start, self.gathered.pop(start))
        return 0

    cdef int flush_pane(self, object start, dict entries) except -1:
        cdef Combined entry
        self.recent = None
        self.count -= len(entries)
        self.value_in_hand = None
        for token, entry in entries.items():
            self.output.collect((key_of_token(token), start, entry.value), entry.timestamp)
            entry.value = None
        return 0

    cpdef process_watermark(self, int64_t timestamp):
        self.flush(timestamp)
        self.emit_watermark(timestamp)

    cdef bint has_waiting(self) noexcept:
        return self.count > 0

    cdef int flush_all(self) except -1:
        return self.flush(INT64_MAX)
