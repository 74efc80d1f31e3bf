from flinkbuf._core.key_context cimport KeyContext
from flinkbuf._core.state_table cimport FrozenTable, StateTable


cdef enum:
    KEYS, VALUES, ITEMS     # what a MapIterator gives


cdef class KeyedState:
    cdef readonly str name
    cdef KeyContext key_context
    cdef StateTable table


cdef class KeyedValueState(KeyedState):
    pass


cdef class KeyedListState(KeyedState):
    pass


cdef class KeyedReducingState(KeyedState):
    cdef object reduce

    cpdef add(self, object value)


cdef class KeyedAggregatingState(KeyedState):
    cdef object create_accumulator, add_to, result_of, merge

    cpdef add(self, object value)


cdef class KeyedMapState(KeyedState):
    cdef Py_ssize_t change_count    # of all maps, so that an iterator notices

    cdef dict own_map(self)


cdef class MapIterator:
    cdef KeyedMapState state
    cdef object entries
    cdef Py_ssize_t change_count
    cdef int part
    cdef object last_key
    cdef bint has_last, is_aside

    cdef int check(self) except -1


cdef list check_list(KeyedState state, object values)
