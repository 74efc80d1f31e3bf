from libc.stdint cimport int64_t

from flinkbuf._core.state.keyed_state cimport (
    KeyedAggregatingState, KeyedListState, KeyedMapState, KeyedReducingState, KeyedState, KeyedValueState,
)


cdef class TimeToLive:
    cdef readonly int64_t ttl_ms
    cdef readonly bint is_read_an_update, returns_expired, cleans_with_every_record
    cdef readonly Py_ssize_t cleanup_size
    cdef object clock

    cdef int64_t now(self) except? -1
    cdef bint is_over(self, object stamped, int64_t now) except -1
    cdef object read(self, KeyedState state)
    cdef object usable(self, object stamped, int64_t now)
    cdef int sweep(self, KeyedState state) except -1


cdef class TtlValueState(KeyedValueState):
    cdef TimeToLive life


cdef class TtlReducingState(KeyedReducingState):
    cdef TimeToLive life


cdef class TtlAggregatingState(KeyedAggregatingState):
    cdef TimeToLive life


cdef class TtlListState(KeyedListState):
    cdef TimeToLive life


cdef class TtlMapState(KeyedMapState):
    cdef TimeToLive life

    cdef list alive(self)
