"""Rolling reductions of a keyed stream: after each record the key's result so far is emitted.

PyFlink: KeyedStream.reduce, sum, min, max, min_by, max_by in pyflink/datastream/data_stream.py.
"""

from cpython.object cimport Py_GT, Py_LT, PyObject_RichCompareBool
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport (
    PyTuple_Check,
    PyTuple_CheckExact,
    PyTuple_GET_ITEM,
    PyTuple_GET_SIZE,
    PyTuple_New,
    PyTuple_SET_ITEM,
)
from libc.stdint cimport INT64_MAX, int64_t

from flinkbuf._core.record.plain_function cimport called, called_with_two
from flinkbuf._core.state.keyed_state cimport given, kept, result_of_call
from flinkbuf._core.operators.stream_operator cimport StreamOperator

cdef dict KINDS = {"sum": SUM, "min": MIN, "max": MAX, "min_by": MIN_BY, "max_by": MAX_BY}


cdef object tuple_with(object fields, Py_ssize_t index, object field):
    """A copy of `fields`, of the same class, with another value at `index`."""
    cdef Py_ssize_t i, size = PyTuple_GET_SIZE(fields)
    cdef tuple made
    cdef object each
    if not PyTuple_CheckExact(fields):  # a row, or a named tuple
        made_slowly = list(fields)
        made_slowly[index] = field
        return tuple.__new__(type(fields), made_slowly)
    made = PyTuple_New(size)
    for i in range(size):
        each = field if i == index else <object>PyTuple_GET_ITEM(fields, i)
        Py_INCREF(each)
        PyTuple_SET_ITEM(made, i, each)
    return made


cdef class FieldReduce:
    """A reduction by one field of tuples, rows and lists, or of plain values as a whole.

    Parameters
    ----------
    kind : str
        ``sum``, ``min`` and ``max`` keep the other fields of the first value; ``min_by`` and ``max_by`` give one of the
        two values as it is, the first if they are equal.
    position : int or str
        Which field; by name in rows that have names. Of plain values there is field 0 only.

    Examples
    --------
    >>> FieldReduce("sum", 1)(("a", 1), ("b", 2)), FieldReduce("max_by", 1)(("a", 1), ("b", 2))
    (('a', 3), ('b', 2))
    >>> FieldReduce("min", 0)(3, 5)
    3
    """

    def __init__(self, str kind, position):
        if kind not in KINDS:
            raise ValueError(f"the kinds of aggregation are {list(KINDS)}, got {kind!r}")
        self.kind = KINDS[kind]
        self.position = position

    def __call__(self, value1, value2):
        return self.combine(value1, value2)

    def __reduce__(self):
        return FieldReduce, (list(KINDS)[self.kind], self.position)

    cdef object combine(self, object value1, object value2):
        if PyTuple_Check(value2) or isinstance(value2, list):
            return self.combine_fields(value1, value2)
        if self.kind == MIN_BY or self.kind == MIN:
            self.check_plain(value2)
            return value2 if value2 < value1 else value1
        if self.kind == MAX_BY or self.kind == MAX:
            self.check_plain(value2)
            return value2 if value2 > value1 else value1
        self.check_plain(value2)
        return value1 + value2

    def check_plain(self, value):
        """A plain value has one field."""
        if self.position != 0 and self.kind not in (MIN_BY, MAX_BY):
            raise TypeError(
                f"The {self.position!r} field selected on a basic type. A field expression on a basic type can only "
                f"select the 0th field (which means selecting the entire basic type). Got {type(value).__name__} "
                f"{value!r:.80}"
            )

    cdef object combine_fields(self, object value1, object value2):
        cdef Py_ssize_t index = self.index_in(value1)
        cdef object field1 = value1[index], field2 = value2[self.index_in(value2)]
        if self.kind == MIN_BY:
            return value2 if PyObject_RichCompareBool(field2, field1, Py_LT) else value1
        if self.kind == MAX_BY:
            return value2 if PyObject_RichCompareBool(field2, field1, Py_GT) else value1
        if self.kind == SUM:
            field1 = field1 + field2
        elif self.kind == MIN:
            field1 = field2 if PyObject_RichCompareBool(field2, field1, Py_LT) else field1
        else:
            field1 = field2 if PyObject_RichCompareBool(field2, field1, Py_GT) else field1
        if PyTuple_Check(value1):
            return tuple_with(value1, index, field1)
        made = list(value1)
        made[index] = field1
        return made

    cdef Py_ssize_t index_in(self, object value) except -1:
        """Which field `position` is."""
        cdef Py_ssize_t index, size = len(value)
        if isinstance(self.position, str):
            names = getattr(value, "_names", None) or getattr(value, "_fields", None)
            if names is None:
                raise TypeError(f"the field {self.position!r} is asked for by name, but {value!r:.80} has no names")
            if self.position not in names:
                raise ValueError(f"there is no field {self.position!r}: the fields are {list(names)}")
            return names.index(self.position)
        index = self.position
        if index < 0:
            index += size
        if not 0 <= index < size:
            raise IndexError(f"there is no field {self.position}: {value!r:.80} has {size} fields")
        return index


cdef object combined_result(object value):
    """What a function has made of values that are combined before they are sent, too."""
    if value is None:
        raise TypeError("what is combined before it is sent cannot become None: leave out two_phase")
    return value


cdef class ReduceOperator(StreamOperator):
    """Emits the reduction of all values of a key after each of them; in batch execution, once after the last.

    Parameters
    ----------
    selector : callable
        Gives the key of a record.
    reduce : callable
        Makes one value of two: of the result so far and the record.
    descriptor : ReducingStateDescriptor
        Of the state in which results are kept.
    lifecycle : object or None
        Has open(runtime_context) and close().
    is_batch : bool
        Whether results are emitted at the end of event time only.
    is_combined : bool
        Whether records are what a `CombiningOperator` gives.
    """

    def __init__(self, selector, reduce, descriptor, lifecycle=None, bint is_batch=False, bint is_combined=False):
        self.selector = selector
        self.reduce = reduce
        self.field_reduce = <FieldReduce>reduce if isinstance(reduce, FieldReduce) else None
        self.descriptor = descriptor
        self.lifecycle = lifecycle
        self.is_batch = is_batch
        self.is_combined = is_combined

    def open(self):
        self.state = self.context.keyed_state.get_internal_state(self.descriptor)
        if self.context.owns_records:
            self.state.own_given()
        self.is_batch |= self.context.settings.is_batch
        if self.is_batch:
            self.timer_service = self.timers.service("_timer_service", self)
        if self.lifecycle is not None:
            self.lifecycle.open(self.context.runtime_context)

    def close(self):
        self.key_context.clear()
        if self.lifecycle is not None:
            self.lifecycle.close()

    cpdef process_element(self, object value, int64_t timestamp):
        self.value_in_hand = value
        self.is_in_function = True
        self.key_context.set_key(called(self.selector, value))
        if self.is_combined:
            value = (<tuple>value)[2]
        before = self.state.table.own(self.key_context.token)
        value = self.reduced(before, value)
        if self.is_combined:
            combined_result(value)
        self.is_in_function = False
        if value is None:
            self.state.table.remove(self.key_context.token)
        else:
            self.state.table.put(self.key_context.token, value)
        if not self.is_batch:
            self.output.collect(given(self.state, value), timestamp)
        elif before is None:
            self.timer_service.register_event_time_timer(None, INT64_MAX)

    cdef object reduced(self, object before, object value):
        """What is kept of the reduction of `before`, which is the state's own, and `value`."""
        cdef bint is_own = self.state.owns_given
        if before is None:
            return value if is_own else kept(self.state, value)
        if self.field_reduce is not None:
            result = self.field_reduce.combine(before, value)
        else:
            result = called_with_two(self.reduce, before, value)
        return value if is_own and result is value else result_of_call(self.state, before, result)

    def on_event_time(self, timestamp, key, namespace):
        """The end of event time, in batch execution."""
        value = self.state.table.get(self.key_context.token)
        if value is not None:
            self.output.collect(value, timestamp)

    def on_processing_time(self, timestamp, key, namespace):
        """No such timer is set."""
