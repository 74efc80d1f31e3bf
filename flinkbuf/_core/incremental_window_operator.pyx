"""What the fast ways through windows have in common: contents grow in their table without a state object in between."""

from flinkbuf._core.state_table cimport StateTable


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
            self.add_value = function.add
            self.get_result = function.get_result

    cdef object add_contents(self, object before, object value):
        """Put `value` to the contents `before` of the current key and namespace; returns what they are now."""
        cdef StateTable table = self.contents.table
        if self.how == LIST:
            if before is None:
                before = [value]
                table.put(self.key_context.token, before)
            else:
                (<list>before).append(value)
            return before
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
        if self.how == REDUCE:
            return value if before is None else self.reduce(before, value)
        if value is None:
            return None  # as an aggregating state of PyFlink has it
        return self.add_value(value, self.create_accumulator() if before is None else before)

    cdef int emit_value(self, TimeWindow window, object value) except -1:
        """Emit what follows from the contents `value`."""
        if self.how == LIST:
            value = list(<list>value)
        elif self.how == AGGREGATE:
            self.is_in_function = True
            value = self.get_result(value)
            self.is_in_function = False
            if value is None:
                return 0
        return self.emit_contents(window, value)
