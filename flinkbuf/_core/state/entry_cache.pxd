from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    ABSENT = 0xffffffff     # the size of the data of an entry that the store has no longer


cdef struct cache_entry:    # what its place and its data follow
    uint32_t place_size
    uint32_t data_size      # or ABSENT
    uint32_t room           # for data
    uint32_t is_changed     # the store has it otherwise


cdef struct cache_generation:
    uint8_t* arena          # entry behind entry, each at a multiple of 8
    size_t size, capacity   # of the arena
    uint64_t* index         # 32 bits of the hash, and below them where the entry begins, by 8, and 1; 0: free
    uint32_t bits           # there are 2^bits
    size_t count            # of entries in the index


cdef class EntryCache:
    cdef cache_generation young, old    # what is asked for moves to the young one; in the old one nothing is changed
    cdef readonly Py_ssize_t capacity   # bytes of each
    cdef readonly Py_ssize_t change_count   # of entries
    cdef readonly Py_ssize_t turn       # how often the generations have changed
    cdef uint64_t[2] seeds

    cdef cache_entry* find(self, const uint8_t* place, size_t place_size) except? NULL
    cdef int put(self, const uint8_t* place, size_t place_size, const uint8_t* data, uint32_t data_size,
                 bint is_change) except -1
    cdef bint full(self) noexcept
    cdef uint64_t hash(self, const uint8_t* place, size_t size) noexcept


cdef inline uint8_t* data_of(cache_entry* entry) noexcept:
    return <uint8_t*>(entry + 1) + entry.place_size
