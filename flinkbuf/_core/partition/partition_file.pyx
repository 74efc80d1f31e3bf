"""The binding of csrc/partition/partition_file.h: finished sort-merge partitions on disk, block by block."""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from libc.string cimport memset

from flinkbuf._core.memory.buffer cimport fb_buffer_data_type, fb_buffer_data_type_is_buffer
from flinkbuf._core.ground.errors cimport FB_ENOMEM, FB_NEEDS_BUFFER
from flinkbuf._core.io.file_channel cimport raise_file_failure

cdef enum:
    READ_SIZE = 256 * 1024
    DATA_READ_SIZE = 1024 * 1024


cdef object ADOPTED = object()  # instead of a path: it is open already


cdef struct block_list:
    fb_file_block* items
    size_t count
    size_t capacity


cdef int take_block(void* context, const fb_file_block* block) noexcept nogil:
    cdef block_list* blocks = <block_list*>context
    cdef fb_file_block* items
    cdef size_t capacity
    if blocks.count == blocks.capacity:
        capacity = 2 * blocks.capacity + 16
        items = <fb_file_block*>PyMem_RawRealloc(blocks.items, capacity * sizeof(fb_file_block))
        if items is NULL:
            return FB_ENOMEM
        blocks.items, blocks.capacity = items, capacity
    blocks.items[blocks.count] = block[0]
    blocks.count += 1
    return 0


cdef class PartitionFile:
    """A finished pair of files; see `flinkbuf.network.PartitionFile`.

    Parameters
    ----------
    path : path-like
        What the names of both begin with.
    subpartition_count : int, default 0
        0: found out from the index.

    Raises
    ------
    OSError
        A file is not there or cannot be read.
    CorruptDataError
        The index does not describe the data.
    """

    def __cinit__(self, path, uint32_t subpartition_count=0):
        cdef fb_file_failure failure
        cdef bytes encoded
        cdef const char* base
        cdef int code
        if path is ADOPTED:
            return
        encoded = os.fsencode(path)
        base = encoded
        self.path = os.fsdecode(path)
        with nogil:
            code = fb_partition_file_open(base, subpartition_count, FB_INDEX_CACHE_SIZE, &self.c, &failure)
        if code < 0:
            raise_file_failure(&failure, self.path)

    def __dealloc__(self):
        if self.c is not NULL:
            with nogil:
                fb_partition_file_drop(self.c)

    @property
    def subpartition_count(self):
        """How many streams it holds."""
        return self.c.subpartition_count

    @property
    def region_count(self):
        """How many regions it was written in."""
        return self.c.region_count

    @property
    def data_size(self):
        """Bytes of the data file."""
        return self.c.data_size

    @property
    def index_size(self):
        """Bytes of the index file."""
        return self.c.index_size

    @property
    def index_crc32(self):
        """Checksum of the index file."""
        return self.c.index_crc32

    @property
    def sums(self):
        """Of each subpartition, what its reader's `sum` will be: (bytes, CRC 32); None if it was not written here."""
        if self.c.sums is NULL:
            return None
        return [(self.c.sums[i].size, self.c.sums[i].crc32) for i in range(self.c.subpartition_count)]

    def entry(self, uint64_t region, uint32_t subpartition):
        """Where a region has a subpartition's blocks: (offset, size) in bytes."""
        cdef fb_index_entry entry
        cdef fb_file_failure failure
        cdef int code
        if region >= self.c.region_count or subpartition >= self.c.subpartition_count:
            raise IndexError(f"region {region}, subpartition {subpartition} of {self.path}, which has "
                             f"{self.c.region_count} and {self.c.subpartition_count}")
        with nogil:
            code = fb_partition_file_start_reading(self.c, &failure)
            if code >= 0:
                code = fb_partition_file_get_entry(self.c, region, subpartition, &entry, &failure)
                fb_partition_file_stop_reading(self.c)
        if code < 0:
            raise_file_failure(&failure, self.path)
        return entry.offset, entry.size

    def buffers(self, uint32_t subpartition):
        """The blocks of a subpartition, in order: (data type, is it compressed?, bytes)."""
        if subpartition >= self.c.subpartition_count:
            raise IndexError(f"subpartition {subpartition} of {self.path}, which has {self.c.subpartition_count}")
        return BlockIterator(self, subpartition, READ_SIZE)

    def data(self, uint32_t subpartition, uint32_t read_size=DATA_READ_SIZE):
        """The data buffers of a subpartition, which are summed while they are read."""
        if subpartition >= self.c.subpartition_count:
            raise IndexError(f"subpartition {subpartition} of {self.path}, which has {self.c.subpartition_count}")
        return DataIterator(self, subpartition, read_size)

    def headers(self, uint32_t subpartition):
        """What the headers of its blocks say, in order, without reading more: (data type, is it compressed?, bytes)."""
        if subpartition >= self.c.subpartition_count:
            raise IndexError(f"subpartition {subpartition} of {self.path}, which has {self.c.subpartition_count}")
        return HeaderIterator(self, subpartition)


cdef PartitionFile adopt_file(fb_partition_file* file, str path):
    cdef PartitionFile self = PartitionFile.__new__(PartitionFile, ADOPTED)
    self.c, self.path = file, path
    return self


cdef class FileIterator:
    """What all of them have: the reader of one subpartition."""

    cdef PartitionFile file  # kept open
    cdef fb_partition_file_reader reader

    def __cinit__(self, PartitionFile file not None, uint32_t subpartition, *args):
        cdef fb_file_failure failure
        cdef int code
        self.file = file
        with nogil:
            code = fb_partition_file_reader_open(&self.reader, file.c, subpartition, &failure)
        if code < 0:
            raise_file_failure(&failure, file.path)

    def __dealloc__(self):
        if self.reader.file is not NULL:
            with nogil:
                fb_partition_file_reader_close(&self.reader)

    def __iter__(self):
        return self


cdef class BlockIterator(FileIterator):
    """Blocks as (data type, is it compressed?, bytes)."""

    cdef uint32_t read_size
    cdef list ready
    cdef bint has_ended

    def __cinit__(self, PartitionFile file not None, uint32_t subpartition, uint32_t read_size):
        self.read_size = read_size
        self.ready = []

    def __next__(self):
        while not self.ready:
            if self.has_ended:
                raise StopIteration
            self.read_some()
        return self.ready.pop()

    cdef object block_of(self, const fb_file_block* block, bytes memory):
        """What the caller gets of a block; None: nothing."""
        return block.data_type, bool(block.is_compressed), memory[block.offset:block.offset + block.size]

    cdef int read_some(self) except -1:
        """Read what one call gives; the next block is the last of the list."""
        cdef fb_file_failure failure
        cdef block_list blocks
        cdef uint32_t size = self.read_size
        cdef bytes memory = PyBytes_FromStringAndSize(NULL, size)
        cdef uint8_t* to = <uint8_t*>PyBytes_AS_STRING(memory)
        cdef size_t i
        cdef int code
        memset(&blocks, 0, sizeof(blocks))
        with nogil:
            code = fb_partition_file_reader_read(&self.reader, to, size, take_block, &blocks, &failure)
        try:
            if code < 0:
                raise_file_failure(&failure, self.file.path)
            if code == FB_NEEDS_BUFFER:
                self.read_size = self.reader.least
            self.has_ended = code == 0
            for i in range(blocks.count, 0, -1):
                block = self.block_of(&blocks.items[i - 1], memory)
                if block is not None:
                    self.ready.append(block)
        finally:
            PyMem_RawFree(blocks.items)
        return 0


cdef class DataIterator(BlockIterator):
    """Data buffers as (position in the file, is it compressed?, bytes). They are views of what was read at once."""

    def __cinit__(self, PartitionFile file not None, uint32_t subpartition, uint32_t read_size):
        self.reader.is_summing = True

    @property
    def sum(self):
        """Bytes and CRC 32 of what was read, headers included: of all of them at the end."""
        return self.reader.sum.size, self.reader.sum.crc32

    cdef object block_of(self, const fb_file_block* block, bytes memory):
        if not fb_buffer_data_type_is_buffer(<fb_buffer_data_type>block.data_type):
            return None
        return block.position, bool(block.is_compressed), memoryview(memory)[block.offset:block.offset + block.size]


cdef class HeaderIterator(FileIterator):
    """Headers of blocks as (data type, is it compressed?, bytes)."""

    def __next__(self):
        cdef fb_file_failure failure
        cdef fb_file_block block
        cdef int code
        with nogil:
            code = fb_partition_file_reader_skip(&self.reader, &block, &failure)
        if code < 0:
            raise_file_failure(&failure, self.file.path)
        if code == 0:
            raise StopIteration
        return block.data_type, bool(block.is_compressed), block.size
