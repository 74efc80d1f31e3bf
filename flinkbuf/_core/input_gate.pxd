from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from flinkbuf._core.buffer cimport fb_slice
from flinkbuf._core.result_partition cimport fb_result_partition

cdef extern from "input_gate.h" nogil:
    struct fb_input_channel:
        fb_result_partition* partition
        uint32_t subpartition_index
        uint64_t buffer_count
        uint64_t byte_count
        bint has_ended
        bint has_ended_data
    struct fb_input_gate:
        fb_input_channel* channels
        uint32_t channel_count
        uint32_t ended_count
        uint32_t ended_data_count
        uint32_t drained_count
        bint is_requested
        bint is_open
    struct fb_gate_item:
        fb_slice slice
        uint32_t channel_index
        int32_t sequence_number
        bint more_available
    int fb_input_gate_open(fb_input_gate* self, uint32_t channel_count)
    void fb_input_gate_close(fb_input_gate* self)
    int fb_input_gate_set_local(fb_input_gate* self, uint32_t index, fb_result_partition* partition,
                                uint32_t subpartition_index)
    int fb_input_gate_request_partitions(fb_input_gate* self, uint32_t* failed)
    int fb_input_gate_poll(fb_input_gate* self, fb_gate_item* item)
    bint fb_input_gate_wait(fb_input_gate* self, int64_t timeout_ms)
    int fb_input_gate_resume(fb_input_gate* self, uint32_t channel_index)
    bint fb_input_gate_is_finished(const fb_input_gate* self)
    uint32_t fb_input_gate_queued_channels(fb_input_gate* self)


cdef class InputGate:
    cdef fb_input_gate* c       # on the heap: listeners of other threads point at it
    cdef list sources           # the Python partitions, kept alive

    cdef int poll_item(self, fb_gate_item* item) except -1
    cdef int fail_released(self, uint32_t channel_index) except -1
    cdef int wait(self, int64_t timeout_ms) except -1
