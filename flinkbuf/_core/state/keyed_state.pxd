from cpython.object cimport PyObject

from flinkbuf._core.value.conversion cimport stays
from flinkbuf._core.state.key_context cimport KeyContext
from flinkbuf._core.value.own_value cimport fb_own_value_is_atom
from flinkbuf._core.value.python_object cimport FB_TYPE_OF
from flinkbuf._core.state.state_table cimport FrozenTable, StateTable
from flinkbuf._core.value.type_codec cimport TypeCodec


cdef enum:
    KEYS, VALUES, ITEMS     # what a MapIterator gives


cdef object one_nan(object key)


cdef inline object entry_key(object key):
    """What a dict finds one of the user's keys by: all NaN are one key, in tuples, too."""
    if FB_TYPE_OF(<PyObject*>key) == <PyObject*>float or isinstance(key, tuple):
        return one_nan(key)
    return key


cdef class KeyedState:
    cdef readonly str name
    cdef KeyContext key_context
    cdef StateTable table
    cdef TypeCodec codec        # of a value, of an element of a list, of a value of a map
    cdef bint is_undeclared     # `codec` takes anything
    cdef bint holds_fixed       # nothing of its values can change
    cdef bint owns_given        # what `add` is given has no other holder

    cpdef split(self, stored)
    cpdef join(self, value, stamps)


# What a state keeps of a value that it is given, and what it gives of one that it keeps: itself if it cannot change.
cdef object kept_slowly(KeyedState state, TypeCodec codec, object value)
cdef object given_slowly(object value)


cdef inline object kept(KeyedState state, object value):
    if state.is_undeclared and fb_own_value_is_atom(<PyObject*>value):
        return value
    if not state.is_undeclared and stays(&state.codec.node, <PyObject*>value):
        return value
    return kept_slowly(state, state.codec, value)


cdef inline object given(KeyedState state, object value):
    return value if state.holds_fixed or fb_own_value_is_atom(<PyObject*>value) else given_slowly(value)


cdef class KeyedValueState(KeyedState):
    pass


cdef class KeyedListState(KeyedState):
    pass


cdef class KeyedReducingState(KeyedState):
    cdef object reduce

    cpdef add(self, object value)
    cdef object reduced(self, object before, object value)


cdef class KeyedAggregatingState(KeyedState):
    cdef object create_accumulator, add_to, result_of, merge

    cpdef add(self, object value)
    cdef object added(self, object accumulator, object value)


cdef class KeyedMapState(KeyedState):
    cdef TypeCodec user_key_codec
    cdef bint finds_as_given    # what was given finds what was kept of it
    cdef Py_ssize_t change_count    # of all maps, so that an iterator notices

    cdef dict own_map(self)
    cdef object kept_key(self, object key)
    cdef object place_of(self, object key)
    cdef object kept_value(self, object value)


cdef class MapIterator:
    cdef KeyedMapState state
    cdef object entries
    cdef object token           # of the key whose map it is
    cdef Py_ssize_t change_count
    cdef int part
    cdef object last_key
    cdef bint has_last, is_aside

    cdef int check(self) except -1


cdef dict with_one_nan(dict entries)
cdef list elements_of(KeyedState state, object values)
cdef object result_of_call(KeyedState state, object before, object result)
