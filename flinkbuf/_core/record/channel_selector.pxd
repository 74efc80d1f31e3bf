from cpython.object cimport PyTypeObject
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from flinkbuf._core.record.key_group cimport KeyHasher

cdef extern from "record/channel_selector.h" nogil:
    enum fb_channel_selector_kind:
        FB_SELECT_GLOBAL
        FB_SELECT_FORWARD
        FB_SELECT_ROUND_ROBIN
        FB_SELECT_RESCALE
        FB_SELECT_REBALANCE
        FB_SELECT_SHUFFLE
        FB_SELECT_BROADCAST
        FB_SELECT_KEY_GROUP
        FB_SELECT_CUSTOM
        FB_SELECT_RANGE
    struct fb_channel_selector:
        fb_channel_selector_kind kind
        uint32_t channel_count
        uint32_t channel
        uint32_t max_parallelism
        uint32_t shift
        uint64_t random
    int fb_channel_selector_open(fb_channel_selector* self, fb_channel_selector_kind kind, uint32_t channel_count,
                                 uint32_t max_parallelism, uint64_t seed)
    bint fb_channel_selector_is_blind(const fb_channel_selector* self)
    uint32_t fb_channel_selector_next(fb_channel_selector* self)
    uint32_t fb_channel_selector_of_hash(const fb_channel_selector* self, int32_t hash)
    void fb_channel_selector_of_hashes(const fb_channel_selector* self, const int32_t* hashes, size_t count,
                                       uint32_t* channels)
    void fb_channel_selector_next_many(fb_channel_selector* self, size_t count, uint32_t* channels)

cdef class ChannelSelector:
    cdef fb_channel_selector c
    cdef readonly uint32_t channel_count
    cdef readonly bint is_broadcast
    cdef int64_t record_number  # of the record asked for last, from 0
    cdef int64_t select(self, object record) except -1

cdef class KeyField:
    cdef readonly KeyHasher hasher
    cdef Py_ssize_t index       # in a tuple or list; -1: the key is not a field of one
    cdef readonly str name      # in a dict or object, or a tuple that has names; None where the field has none
    cdef bint is_positional     # tuples with names go by position too
    cdef PyTypeObject* row_type  # the subclass of tuple seen last whose names agree with `index`; held by row_class
    cdef object row_class
    cdef object function        # of the record; None: the field, or the record itself
    cdef str label              # for messages
    cdef object extract(self, object record, int64_t record_number)
    cdef object extract_slowly(self, object record, int64_t record_number)
    cdef Py_ssize_t place_in(self, object record) except -2

cdef class KeyGroupSelector(ChannelSelector):
    cdef readonly tuple fields
    cdef KeyField field         # the only one; None where the key is a tuple of several, or a row
    cdef KeyHasher row_hasher   # of the row of all fields; None: the key is a tuple
    cdef int hash(self, object record, int32_t* hash) except -1
    cdef int hash_tuple(self, object record, int32_t* hash) except -1
    cdef int hash_row(self, object record, int32_t* hash) except -1
    cdef int hash_field(self, KeyField field, object key, int32_t* hash) except -1

cdef class CustomSelector(ChannelSelector):
    cdef object function
    cdef object count           # channel_count, as the function gets it
    cdef object refusal(self, kind, str what, object record)
