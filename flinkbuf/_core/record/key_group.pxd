from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t

from flinkbuf._core.ground.data_view cimport fb_data_input, fb_data_output
from flinkbuf._core.value.type cimport fb_type, fb_type_kind
from flinkbuf._core.value.type_codec cimport TypeCodec

cdef extern from "record/key_group.h" nogil:
    enum:
        FB_MAX_PARALLELISM
    uint32_t fb_key_group_murmur(int32_t hash)
    uint32_t fb_key_group_of(int32_t hash, uint32_t max_parallelism)
    uint32_t fb_key_group_operator(uint32_t key_group, uint32_t max_parallelism, uint32_t parallelism)
    int fb_key_group_check(uint32_t max_parallelism, uint32_t parallelism)
    int fb_key_group_range(uint32_t max_parallelism, uint32_t parallelism, uint32_t operator_index, uint32_t* first,
                           uint32_t* last)
    int fb_key_group_default_max_parallelism(uint32_t parallelism)
    int32_t fb_key_group_hash_bool(bint value)
    int32_t fb_key_group_hash_long(int64_t value)
    int32_t fb_key_group_hash_double(double value)
    int32_t fb_key_group_hash_latin1(const uint8_t* characters, size_t length)
    int32_t fb_key_group_hash_ucs2(const uint16_t* characters, size_t length)
    int32_t fb_key_group_hash_ucs4(const uint32_t* characters, size_t length)
    void fb_key_group_hash_longs(const int64_t* keys, size_t count, int32_t* hashes)
    void fb_key_group_hash_floats(const float* keys, size_t count, int32_t* hashes)
    void fb_key_group_hash_doubles(const double* keys, size_t count, int32_t* hashes)
    int fb_key_group_hash_check(const fb_type* type)
    int fb_key_group_hash_encoded(const fb_type* type, fb_data_input* input, int32_t* hash)

cdef class KeyHasher:
    cdef readonly TypeCodec codec   # undeclared values inside take the form of keys
    cdef readonly bint takes_none
    cdef fb_type_kind kind      # of the key itself, below NULLABLE
    cdef int64_t low, high      # an int in between hashes without its codec; low > high: none does
    cdef fb_data_output output       # scratch for keys that have to be encoded
    cdef int hash(self, object key, int32_t* hash, int64_t record_number) except -1
    cdef int hash_by_codec(self, object key, int32_t* hash, int64_t record_number) except -1


cdef class KeyGrouper:
    cdef KeyHasher hasher
    cdef uint32_t max_parallelism
    cdef readonly uint32_t first, last

    cdef int64_t group(self, object key) except -1
    cdef int64_t own_group(self, object key) except -1
