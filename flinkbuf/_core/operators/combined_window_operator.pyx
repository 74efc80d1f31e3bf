"""`AlignedWindowOperator` behind a `CombiningOperator`: a record is what came together of a key and a pane.

State and timers are those of `WindowOperator`: a snapshot of one is the other's.
"""

from libc.stdint cimport int64_t

from flinkbuf._core.operators.aggregate_operator cimport combined_result
from flinkbuf._core.operators.incremental_window_operator cimport AGGREGATE
from flinkbuf._core.record.plain_function cimport called_with_two
from flinkbuf._core.record.plain_function import quickened
from flinkbuf._core.state.keyed_state cimport kept, result_of_call
from flinkbuf._core.value.own_value cimport own_copy


cdef class CombinedWindowOperator(AlignedWindowOperator):
    """Takes records (key, start of the pane, value or accumulator); the operation's key selector gives their keys."""

    def __init__(self, operation):
        AlignedWindowOperator.__init__(self, operation)
        if self.how == AGGREGATE:
            self.merge = quickened(operation.aggregate_function.merge, 2)
            self.merge_name = f"{type(operation.aggregate_function).__name__}.merge()"

    cpdef process_element(self, object value, int64_t timestamp):
        self.take_key(value)
        _, start, contents = value
        if self.add_at(contents, start if self.is_event_time else self.time_of(value, timestamp)):
            self.take_late(value, timestamp)

    cdef object gathered(self, object before, object value):
        """The contents with those of a pane."""
        cdef bint is_own = self.contents.owns_given
        if self.how != AGGREGATE:
            return combined_result(AlignedWindowOperator.gathered(self, before, value))
        if before is None:
            return value if is_own else kept(self.contents, value)
        if not is_own:
            value = own_copy(value)  # it may be part of what comes of it, and other windows have it, too
        result = called_with_two(self.merge, before, value)
        if result is None:
            raise TypeError(f"{self.merge_name} must return the accumulator of both; it returned None")
        return value if is_own and result is value else result_of_call(self.contents, before, result)
