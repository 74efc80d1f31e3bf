"""Entries of an ordered store of bytes that are in use or were changed, in memory, with a bound in bytes.

It stands before a store whose writes cost less in order, and many at a time: changes gather here, where a later one
of the same place takes the room of the earlier, until they are written sorted. Two generations: what is not asked for
while one fills up leaves with the other. An entry is a few bytes before its place and data, and a word of an index;
there are no objects of Python. Flink leaves this to the write buffers and the block cache of RocksDB.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from libc.stdlib cimport qsort
from libc.string cimport memcmp, memcpy, memset

cdef extern from "_core/state/entry_cache.h" nogil:
    uint64_t fb_entry_cache_fold(uint64_t one, uint64_t other)

cdef enum:
    FIRST_BITS = 6
    FIRST_BYTES = 4096

cdef uint64_t MAX_SIZE = <uint64_t>1 << 31  # of data

cdef struct sorted_entry:
    uint64_t[2] begin       # of its place
    const cache_entry* entry


cdef class EntryCache:
    """Entries by place. Used by one thread.

    Parameters
    ----------
    size : int
        Bytes that all entries take together, about: `full` tells when half of them are in the young generation.

    Examples
    --------
    >>> cache = EntryCache(1 << 20)
    >>> cache.change(b"b", b"2"); cache.change(b"a", None); cache.keep(b"c", b"3")
    >>> list(cache.changes())
    [(b'a', None), (b'b', b'2')]
    >>> cache.settle()
    >>> list(cache.changes()), cache.get(b"b", None), cache.get(b"c", None)
    ([], b'2', b'3')
    """

    def __cinit__(self, Py_ssize_t size):
        cdef bytes secret = os.urandom(sizeof(self.seeds))
        memcpy(self.seeds, PyBytes_AS_STRING(secret), sizeof(self.seeds))
        self.capacity = max(FIRST_BYTES, size // 2)

    def __dealloc__(self):
        drop(&self.young)
        drop(&self.old)

    def get(self, bytes place not None, default):
        """The data at a place, None if it was deleted; `default` if nothing is known of it."""
        cdef cache_entry* entry = self.find(<const uint8_t*>PyBytes_AS_STRING(place), PyBytes_GET_SIZE(place))
        if entry is NULL:
            return default
        return None if entry.data_size == ABSENT else bytes_at(data_of(entry), entry.data_size)

    def keep(self, bytes place not None, bytes data not None):
        """Note what the store has at a place; nothing may be known of it."""
        self.put(<const uint8_t*>PyBytes_AS_STRING(place), PyBytes_GET_SIZE(place),
                 <const uint8_t*>PyBytes_AS_STRING(data), checked(PyBytes_GET_SIZE(data)), False)

    def change(self, bytes place not None, bytes data):
        """Note what the store is to have at a place; None: nothing."""
        if data is None:
            self.put(<const uint8_t*>PyBytes_AS_STRING(place), PyBytes_GET_SIZE(place), NULL, ABSENT, True)
        else:
            self.put(<const uint8_t*>PyBytes_AS_STRING(place), PyBytes_GET_SIZE(place),
                     <const uint8_t*>PyBytes_AS_STRING(data), checked(PyBytes_GET_SIZE(data)), True)

    def changes(self):
        """Go over what was changed, as (place, data or None), in the order of places; nothing may be done meanwhile."""
        return ChangedEntries(self)

    def settle(self):
        """Note that the store has all changes."""
        cdef size_t at = 0
        cdef cache_entry* entry
        while at < self.young.size:
            entry = <cache_entry*>(self.young.arena + at)
            entry.is_changed = False
            at += size_of(entry)
        self.change_count = 0

    def is_full(self):
        """Whether the generations are to change."""
        return self.full()

    def next_generation(self):
        """Forget the old generation, and let the young one be old; its changes are settled."""
        if self.change_count:
            raise RuntimeError("there are changes that the store does not have")
        drop(&self.old)
        self.old = self.young
        memset(&self.young, 0, sizeof(self.young))
        self.turn += 1

    def clear(self):
        """Forget all entries; changes are settled."""
        self.next_generation()
        drop(&self.old)

    def byte_count(self):
        """The bytes of memory that entries have."""
        return bytes_of(&self.young) + bytes_of(&self.old)

    cdef bint full(self) noexcept:
        return self.young.size + (<size_t>8 << self.young.bits if self.young.index is not NULL else 0) > (
            <size_t>self.capacity)

    cdef cache_entry* find(self, const uint8_t* place, size_t place_size) except? NULL:
        """The entry at a place, NULL if nothing is known of it; it stays where it is until the next call."""
        cdef uint64_t hash = self.hash(place, place_size)
        cdef cache_entry* entry = found(&self.young, hash, place, place_size)
        if entry is not NULL:
            return entry
        entry = found(&self.old, hash, place, place_size)
        if entry is NULL:
            return NULL
        return added(&self.young, hash, place, place_size, data_of(entry), entry.data_size, entry.data_size)

    cdef int put(self, const uint8_t* place, size_t place_size, const uint8_t* data, uint32_t data_size,
                 bint is_change) except -1:
        """Keep what the store has at a place, or is to have; data of the size ABSENT is none."""
        cdef uint64_t hash = self.hash(place, place_size)
        cdef cache_entry* entry = found(&self.young, hash, place, place_size)
        cdef cache_entry* moved
        if entry is NULL and is_change:  # what is as it was need not be written
            entry = found(&self.old, hash, place, place_size)
            if entry is not NULL:
                entry = added(&self.young, hash, place, place_size, data_of(entry), entry.data_size, entry.data_size)
        if entry is NULL:
            entry = added(&self.young, hash, place, place_size, data, data_size, data_size)
        elif entry.data_size == data_size and (
            data_size == ABSENT or memcmp(data_of(entry), data, data_size) == 0
        ):
            return 0
        elif data_size == ABSENT or data_size <= entry.room:
            entry.data_size = data_size
            if data_size != ABSENT:
                memcpy(data_of(entry), data, data_size)
        else:
            # The entry before stays in the arena, where nothing leads to it any more. Room for half as much again:
            # lists grow.
            is_change = is_change or entry.is_changed
            self.change_count -= entry.is_changed
            entry.is_changed = False
            moved = appended(&self.young, place, place_size, data, data_size, data_size + data_size // 2)
            relinked(&self.young, hash, place, place_size, moved)
            entry = moved
        if is_change and not entry.is_changed:
            entry.is_changed = True
            self.change_count += 1
        return 0

    cdef uint64_t hash(self, const uint8_t* place, size_t size) noexcept:
        """Takes in secret seeds at every step, so that whoever chooses keys cannot choose where they fall."""
        cdef uint64_t hash = self.seeds[1] ^ size
        cdef uint64_t word = 0
        while size >= 8:
            memcpy(&word, place, 8)
            hash = fb_entry_cache_fold(hash ^ self.seeds[0], word ^ self.seeds[1])
            place += 8
            size -= 8
        if size:
            word = 0
            memcpy(&word, place, size)
            hash = fb_entry_cache_fold(hash ^ self.seeds[0], word ^ self.seeds[1])
        return fb_entry_cache_fold(hash ^ self.seeds[0], self.seeds[1])


cdef class ChangedEntries:
    """An iterator over changed entries in the order of their places."""

    cdef EntryCache cache
    cdef sorted_entry* entries
    cdef Py_ssize_t count, position, turn

    def __cinit__(self, EntryCache cache not None):
        cdef size_t at = 0
        cdef cache_entry* entry
        self.cache, self.turn = cache, cache.turn
        self.entries = <sorted_entry*>PyMem_RawMalloc(max(1, cache.change_count) * sizeof(sorted_entry))
        if self.entries is NULL:
            raise MemoryError
        while at < cache.young.size:
            entry = <cache_entry*>(cache.young.arena + at)
            if entry.is_changed:
                begin_of(entry, self.entries[self.count].begin)
                self.entries[self.count].entry = entry
                self.count += 1
            at += size_of(entry)
        qsort(self.entries, self.count, sizeof(sorted_entry), compared)

    def __dealloc__(self):
        PyMem_RawFree(self.entries)

    def __iter__(self):
        return self

    def __next__(self):
        cdef const cache_entry* entry
        if self.position == self.count:
            raise StopIteration
        if self.turn != self.cache.turn:
            raise RuntimeError("the entries have left the cache")
        entry = self.entries[self.position].entry
        self.position += 1
        place = bytes_at(<const uint8_t*>(entry + 1), entry.place_size)
        if entry.data_size == ABSENT:
            return place, None
        return place, bytes_at(data_of(<cache_entry*>entry), entry.data_size)


# ---- one generation


cdef cache_entry* found(cache_generation* self, uint64_t hash, const uint8_t* place, size_t place_size) noexcept:
    cdef uint64_t slot, mask
    cdef uint64_t high = hash >> 32
    cdef cache_entry* entry
    if self.index is NULL:
        return NULL
    mask = (<uint64_t>1 << self.bits) - 1
    slot = hash >> 32 & mask
    while self.index[slot] != 0:
        if self.index[slot] >> 32 == high:
            entry = linked(self, self.index[slot])
            if entry.place_size == place_size and memcmp(entry + 1, place, place_size) == 0:
                return entry
        slot = (slot + 1) & mask
    return NULL


cdef cache_entry* added(cache_generation* self, uint64_t hash, const uint8_t* place, size_t place_size,
                        const uint8_t* data, uint32_t data_size, uint32_t room) except NULL:
    """A new entry that is as the store has it."""
    cdef cache_entry* entry
    cdef uint64_t slot, mask
    if self.index is NULL or 4 * (self.count + 1) > 3 * (<size_t>1 << self.bits):
        grow_index(self)
    entry = appended(self, place, place_size, data, data_size, room)
    mask = (<uint64_t>1 << self.bits) - 1
    slot = hash >> 32 & mask
    while self.index[slot] != 0:
        slot = (slot + 1) & mask
    self.index[slot] = link(self, hash, entry)
    self.count += 1
    return entry


cdef int relinked(cache_generation* self, uint64_t hash, const uint8_t* place, size_t place_size,
                  cache_entry* entry) except -1:
    """Have the index lead to another entry of the place."""
    cdef uint64_t mask = (<uint64_t>1 << self.bits) - 1
    cdef uint64_t slot = hash >> 32 & mask
    cdef uint64_t high = hash >> 32
    cdef cache_entry* other
    while True:
        if self.index[slot] >> 32 == high:
            other = linked(self, self.index[slot])
            if other.place_size == place_size and memcmp(other + 1, place, place_size) == 0:
                self.index[slot] = link(self, hash, entry)
                return 0
        slot = (slot + 1) & mask


cdef uint64_t link(cache_generation* self, uint64_t hash, cache_entry* entry) noexcept:
    return (hash >> 32 << 32) | ((<uint64_t>(<uint8_t*>entry - self.arena) >> 3) + 1)


cdef cache_entry* linked(const cache_generation* self, uint64_t link) noexcept:
    return <cache_entry*>(self.arena + 8 * (<uint64_t><uint32_t>link - 1))


cdef cache_entry* appended(cache_generation* self, const uint8_t* place, size_t place_size, const uint8_t* data,
                           uint32_t data_size, uint32_t room) except NULL:
    """An entry at the end of the arena, which may move; `data` may lie in another generation, not in this one."""
    cdef cache_entry* entry
    cdef void* arena
    cdef size_t needed, capacity
    if data_size == ABSENT:
        room = 0
    needed = (sizeof(cache_entry) + place_size + room + 7) & ~<size_t>7
    if place_size >= ABSENT or self.size + needed >= <size_t>8 * 0xfffffff0:
        raise MemoryError("a generation of a cache has 32 GiB at most")
    if self.size + needed > self.capacity:
        capacity = max(<size_t>FIRST_BYTES, self.capacity + self.capacity // 2, self.size + needed)
        arena = PyMem_RawRealloc(self.arena, capacity)
        if arena is NULL:
            raise MemoryError
        self.arena, self.capacity = <uint8_t*>arena, capacity
    entry = <cache_entry*>(self.arena + self.size)
    entry.place_size, entry.data_size, entry.room, entry.is_changed = <uint32_t>place_size, data_size, room, False
    memcpy(entry + 1, place, place_size)
    if data_size != ABSENT and data_size:
        memcpy(data_of(entry), data, data_size)
    self.size += needed
    return entry


cdef int grow_index(cache_generation* self) except -1:
    cdef uint32_t bits = FIRST_BITS if self.index is NULL else self.bits + 1
    cdef uint64_t* index = <uint64_t*>PyMem_RawCalloc(<size_t>1 << bits, sizeof(uint64_t))
    cdef uint64_t mask = (<uint64_t>1 << bits) - 1
    cdef uint64_t slot
    cdef size_t i
    if index is NULL:
        raise MemoryError
    if self.index is not NULL:
        for i in range(<size_t>1 << self.bits):
            if self.index[i] != 0:
                slot = self.index[i] >> 32 & mask
                while index[slot] != 0:
                    slot = (slot + 1) & mask
                index[slot] = self.index[i]
        PyMem_RawFree(self.index)
    self.index, self.bits = index, bits
    return 0


cdef size_t size_of(const cache_entry* entry) noexcept:
    return (sizeof(cache_entry) + entry.place_size + entry.room + 7) & ~<size_t>7


cdef size_t bytes_of(const cache_generation* self) noexcept:
    return self.capacity + (<size_t>8 << self.bits if self.index is not NULL else 0)


cdef void drop(cache_generation* self) noexcept:
    PyMem_RawFree(self.arena)
    PyMem_RawFree(self.index)
    memset(self, 0, sizeof(cache_generation))


# ---- order


cdef void begin_of(const cache_entry* entry, uint64_t* begin) noexcept:
    """The first bytes of a place as two numbers, behind whose order is that of the bytes."""
    cdef const uint8_t* place = <const uint8_t*>(entry + 1)
    cdef uint32_t i
    begin[0] = begin[1] = 0
    for i in range(min(entry.place_size, <uint32_t>16)):
        begin[i >> 3] |= <uint64_t>place[i] << (56 - 8 * (i & 7))


cdef int compared(const void* a, const void* b) noexcept nogil:
    cdef const sorted_entry* one = <const sorted_entry*>a
    cdef const sorted_entry* other = <const sorted_entry*>b
    cdef size_t shared
    cdef int order
    if one.begin[0] != other.begin[0]:
        return -1 if one.begin[0] < other.begin[0] else 1
    if one.begin[1] != other.begin[1]:
        return -1 if one.begin[1] < other.begin[1] else 1
    shared = min(one.entry.place_size, other.entry.place_size)
    order = memcmp(one.entry + 1, other.entry + 1, shared)
    if order == 0 and one.entry.place_size != other.entry.place_size:
        order = -1 if one.entry.place_size < other.entry.place_size else 1
    return order


cdef bytes bytes_at(const uint8_t* data, size_t size):
    return PyBytes_FromStringAndSize(<const char*>data, size)


cdef uint32_t checked(Py_ssize_t size) except? 0:
    if <uint64_t>size >= MAX_SIZE:
        raise ValueError(f"a value of {size} bytes is too large for a state on disk: at most {MAX_SIZE - 1}")
    return <uint32_t>size
