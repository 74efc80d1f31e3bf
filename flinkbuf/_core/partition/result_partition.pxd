from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from flinkbuf._core.memory.buffer cimport FB_NO_CHANNEL, fb_buffer_data_type
from flinkbuf._core.memory.buffer_builder cimport fb_buffer_builder
from flinkbuf._core.memory.local_buffer_pool cimport fb_local_buffer_pool
from flinkbuf._core.memory.slice_list cimport fb_slice_list
from flinkbuf._core.partition.subpartition cimport fb_result_partition, fb_subpartition_usage
from flinkbuf._core.ground.wakeup cimport TaskBell, fb_wakeup_shared

cdef extern from "partition/result_partition.h" nogil:
    enum fb_result_partition_type:
        FB_PIPELINED
        FB_PIPELINED_BOUNDED
        FB_PIPELINED_APPROXIMATE
        FB_BLOCKING
        FB_BLOCKING_PERSISTENT
    struct fb_result_partition_kind:
        const char* name
        bint is_blocking
    struct fb_result_partition:
        const fb_result_partition_kind* kind
        uint32_t subpartition_count
        uint32_t users
        fb_buffer_builder* unicast
        fb_buffer_builder broadcast
        fb_local_buffer_pool* pool
        bint takes_records
        uint32_t continued
        uint64_t* record_counts
        uint64_t total_written_bytes
        uint64_t total_buffers
        uint64_t hard_back_pressured_ms
        uint64_t soft_back_pressured_ms
        bint is_closed
        int failure_errno
        void (*on_consumed)(fb_result_partition* self, void* context) noexcept
    int fb_result_partition_share_wakeup(fb_result_partition* self, fb_wakeup_shared* wakeup)
    void fb_result_partition_retain(fb_result_partition* self)
    void fb_result_partition_drop(fb_result_partition* self)
    int fb_result_partition_open_unicast(fb_result_partition* self, uint32_t subpartition)
    int fb_result_partition_open_broadcast(fb_result_partition* self)
    void fb_result_partition_finish_unicast(fb_result_partition* self, uint32_t subpartition)
    void fb_result_partition_finish_broadcast(fb_result_partition* self)
    void fb_result_partition_prefetch(const fb_result_partition* self, uint32_t subpartition)
    void fb_result_partition_mark_written(fb_result_partition* self, uint32_t subpartition)
    int fb_result_partition_emit(fb_result_partition* self, uint32_t subpartition, const uint8_t** data, size_t* size)
    int fb_result_partition_broadcast(fb_result_partition* self, const uint8_t** data, size_t* size)
    int fb_result_partition_broadcast_event(fb_result_partition* self, const uint8_t* data, size_t size,
                                            fb_buffer_data_type type)
    int fb_result_partition_emit_event(fb_result_partition* self, uint32_t subpartition, const uint8_t* data,
                                       size_t size, fb_buffer_data_type type)
    int fb_result_partition_broadcast_barrier(fb_result_partition* self, const uint8_t* data, size_t size,
                                              fb_slice_list* overtaken)
    int fb_result_partition_convert_barrier(fb_result_partition* self, int64_t checkpoint_id, fb_slice_list* overtaken)
    bint fb_result_partition_has_barrier(fb_result_partition* self, int64_t checkpoint_id)
    int fb_result_partition_restore(fb_result_partition* self, uint32_t subpartition, const uint8_t* data, size_t size)
    void fb_result_partition_flush(fb_result_partition* self, uint32_t subpartition)
    void fb_result_partition_flush_all(fb_result_partition* self)
    int fb_result_partition_finish(fb_result_partition* self)
    bint fb_result_partition_has_room(fb_result_partition* self)
    bint fb_result_partition_makes_room(const fb_result_partition* self)
    bint fb_result_partition_wait(fb_result_partition* self, int64_t timeout_ms)
    bint fb_result_partition_wait_available(fb_result_partition* self, uint32_t subpartition, int64_t timeout_ms)
    bint fb_result_partition_is_answered(fb_result_partition* self)
    bint fb_result_partition_wait_acknowledged(fb_result_partition* self, int64_t timeout_ms)
    void fb_result_partition_acknowledge(fb_result_partition* self, uint32_t subpartition)
    bint fb_result_partition_is_acknowledged(fb_result_partition* self)
    void fb_result_partition_close(fb_result_partition* self)
    void fb_result_partition_release(fb_result_partition* self)
    void fb_result_partition_fail(fb_result_partition* self, const char* cause)
    void fb_result_partition_lose_reader(fb_result_partition* self, const char* cause)
    void fb_result_partition_abort(fb_result_partition* self, const char* cause)
    int fb_result_partition_verdict(fb_result_partition* self)
    bint fb_result_partition_is_reader_lost(fb_result_partition* self)
    const char* fb_result_partition_failure(fb_result_partition* self)
    bint fb_result_partition_is_released(fb_result_partition* self)
    bint fb_result_partition_is_finished(fb_result_partition* self)
    void fb_result_partition_get_usage(fb_result_partition* self, uint32_t index, fb_subpartition_usage* usage)

cdef extern from "partition/pipelined_partition.h" nogil:
    int fb_pipelined_partition_open(fb_result_partition_type type, uint32_t subpartition_count,
                                    fb_local_buffer_pool* pool, fb_result_partition** self)


cdef class PartitionStorage:
    # As fb_pipelined_partition_open(): takes the pool's handle over, also on failure. Another kind overrides it.
    cdef int open(self, int type, uint32_t subpartition_count, fb_local_buffer_pool* pool,
                  fb_result_partition** partition) except? -100


cdef class ResultPartition:
    cdef fb_result_partition* c
    cdef object pool             # the global pool, kept open
    cdef readonly PartitionStorage storage  # what opened it, kept as long

    cdef public object decompressor  # what restores its buffers where they are compressed; None: they are not
    cdef object manager          # where it is registered: it tells that of its end
    cdef object __weakref__

    cdef readonly TaskBell bell  # rung instead of its own; None: nobody has given one

    cdef bint is_claimed         # a call that writes is running: the builders are its own (see the class)
    cdef unsigned long claimer   # its thread
    cdef bint is_closing         # nobody begins to write any more
    cdef bint has_closed
    cdef object closer           # the thread that is closing it

    cdef bint is_over(self) noexcept
    cdef int check_open(self) except -1
    cdef int claim(self) except -1
    cdef int claim_for_record(self) except -1
    cdef int unclaim(self) except -1
    cdef int check_unclaimed(self) except -1
    cdef int close_once(self) except -1
    cdef int check_index(self, uint32_t subpartition) except -1
    cdef int check_written(self, int code) except -1
    cdef int fail_stopped(self) except -1
    cdef int wait_for_buffer(self) except -1
    cdef int wait_until_available(self, uint32_t target) except -1
    cdef int append(self, uint32_t target, data) except -1
    cdef int append_bytes(self, uint32_t target, const uint8_t* data, size_t size) except -1
    cdef int append_some(self, uint32_t target, const uint8_t** data, size_t* size) noexcept nogil


cdef inline int claim_partition(ResultPartition self) except -1:
    """As claim_for_record(), for loops over records: in the usual case no call."""
    if self.is_closing or self.is_claimed or self.c.continued != FB_NO_CHANNEL \
            or fb_result_partition_verdict(self.c) < 0:
        return self.claim_for_record()
    self.claimer = PyThread_get_thread_ident()
    self.is_claimed = True
    return 0


cdef inline int unclaim_partition(ResultPartition self) except -1:
    self.is_claimed = False
    return self.close_once() if self.is_closing else 0
