from libc.stdint cimport int64_t, uint32_t, uint64_t

from flinkbuf._core.partition.result_partition cimport fb_result_partition

cdef extern from "partition/output_flusher.h" nogil:
    struct fb_output_flusher:
        pass
    int fb_output_flusher_open(fb_output_flusher** self)
    void fb_output_flusher_close(fb_output_flusher* self)
    int fb_output_flusher_add(fb_output_flusher* self, fb_result_partition* partition, int64_t interval_ms)
    void fb_output_flusher_remove(fb_output_flusher* self, fb_result_partition* partition)
    uint32_t fb_output_flusher_partition_count(fb_output_flusher* self)
    uint64_t fb_output_flusher_turn_count(fb_output_flusher* self)

# The flusher of this process: started by the first partition, stopped after the last.
cdef int start_flushing(fb_result_partition* partition, int64_t interval_ms) except -1
cdef int stop_flushing(fb_result_partition* partition) except -1
cdef int close_idle() except -1
