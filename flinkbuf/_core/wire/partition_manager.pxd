from libc.stdint cimport uint8_t, uint32_t

from flinkbuf._core.partition.result_partition cimport fb_result_partition

cdef extern from "wire/partition_manager.h" nogil:
    struct fb_partition_manager:
        pass
    int fb_partition_manager_open(fb_partition_manager** self)
    void fb_partition_manager_clear(fb_partition_manager* self)
    void fb_partition_manager_close(fb_partition_manager* self)
    int fb_partition_manager_register(fb_partition_manager* self, const uint8_t* id, fb_result_partition* partition)
    bint fb_partition_manager_unregister(fb_partition_manager* self, const uint8_t* id)
    uint32_t fb_partition_manager_count(fb_partition_manager* self)


cdef class PartitionManager:
    cdef fb_partition_manager* c
    cdef dict partitions         # by id, until they are over
    cdef dict used_ids           # of the partitions that were registered last, oldest first: an id is used once
    cdef Py_ssize_t sweep_size   # of `partitions`: when those that are over are let go
    cdef bint is_closed
    cdef object __weakref__
    cdef int check_open(self) except -1
    cdef int remember(self, bytes key) except -1
    cdef int sweep(self) except -1
