"""What the fast ways through windows have in common: contents grow in their table without a state object in between."""

from cpython.object cimport PyObject

from flinkbuf._core.record.plain_function cimport called, called_with_two
from flinkbuf._core.record.plain_function import quickened
from flinkbuf._core.state.keyed_state cimport kept, result_of_call
from flinkbuf._core.value.own_value cimport is_fixed, own_copy
from flinkbuf._core.state.state_table cimport StateTable


cdef class IncrementalWindowOperator(WindowOperator):
    """Windows of time with the trigger of their time, without an evictor; who derives from it knows which windows."""

    def __init__(self, operation):
        WindowOperator.__init__(self, operation)
        if operation.is_list:
            self.how = LIST
        elif operation.reduce is not None:
            self.how = REDUCE
            self.reduce = operation.reduce
        else:
            self.how = AGGREGATE
            function = operation.aggregate_function
            self.create_accumulator = function.create_accumulator
            self.add_value = quickened(function.add, 2)
            self.get_result = quickened(function.get_result)

    def initialize_state(self, snapshot):
        """Event time begins anew behind a restore: a window that was evaluated before, and is kept for late records,
        has no timer, and is evaluated again with a record that comes before its end. So each record sets timers.
        """
        WindowOperator.initialize_state(self, snapshot)
        self.may_lack_timers = snapshot is not None and self.lateness_ms > 0

    cdef object add_contents(self, object before, object value):
        """Put `value` to the contents `before` of the current key and namespace, which are the table's own; returns
        what they are now.
        """
        cdef StateTable table = self.contents.table
        if self.how == LIST:
            if not self.contents.owns_given:
                value = kept(self.contents, value)
            if before is not None:  # never assigned to: that would be one more reference to what is counted
                (<list>before).append(value)
                return before
            value = [value]
            table.put(self.key_context.token, value)
            return value
        self.is_in_function = True
        value = self.gathered(before, value)
        self.is_in_function = False
        if value is None:
            table.remove(self.key_context.token)
        else:
            table.put(self.key_context.token, value)
        return value

    cdef object gathered(self, object before, object value):
        """The contents with one value more."""
        cdef bint is_own = self.contents.owns_given
        if self.how == REDUCE:
            if before is None:
                return value if is_own else kept(self.contents, value)
            if not is_own:
                value = own_copy(value)  # the function may put parts of it into what it returns
            result = called_with_two(self.reduce, before, value)
            return value if is_own and result is value else result_of_call(self.contents, before, result)
        if value is None:
            return None  # as an aggregating state of PyFlink has it
        if not is_own:
            value = own_copy(value)  # the accumulator may be going to hold it
        if before is None:
            return kept(self.contents, called_with_two(self.add_value, value, self.create_accumulator()))
        return result_of_call(self.contents, before, called_with_two(self.add_value, value, before))

    cdef int emit_value(self, TimeWindow window, object value, bint is_last) except -1:
        """Emit what follows from the contents `value`, which are gone afterwards if it is the last time."""
        cdef bint is_given_away = is_last and not self.contents.table.may_be_read()
        if self.how == LIST:
            if is_given_away or self.contents.holds_fixed:
                value = list(<list>value)
            else:
                value = [own_copy(each) for each in <list>value]
        elif self.how == AGGREGATE:
            self.is_in_function = True
            value = called(self.get_result, value)
            self.is_in_function = False
            if value is None:
                return 0
        if self.how != LIST and not is_given_away and not is_fixed(<PyObject*>value):
            value = own_copy(value)
        return self.emit_contents(window, value)
