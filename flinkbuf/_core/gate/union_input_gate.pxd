from libc.stdint cimport int64_t, uint32_t

from flinkbuf._core.gate.input_gate cimport AbstractInputGate, fb_gate_item, fb_input_gate
from flinkbuf._core.ground.wakeup cimport fb_wakeup

cdef extern from "gate/union_input_gate.h" nogil:
    struct fb_union_input_gate:
        uint32_t channel_count
        fb_wakeup own_wakeup
        fb_wakeup* wakeup
    int fb_union_input_gate_open(fb_union_input_gate* self, fb_input_gate** gates, uint32_t gate_count)
    void fb_union_input_gate_close(fb_union_input_gate* self)
    void fb_union_input_gate_set_wakeup(fb_union_input_gate* self, fb_wakeup* wakeup)
    int fb_union_input_gate_request_partitions(fb_union_input_gate* self, uint32_t* failed)
    int fb_union_input_gate_poll(fb_union_input_gate* self, fb_gate_item* item, uint32_t* gate_index)
    bint fb_union_input_gate_wait(fb_union_input_gate* self, int64_t timeout_ms)
    uint32_t fb_union_input_gate_find(const fb_union_input_gate* self, uint32_t channel_index, uint32_t* local)
    bint fb_union_input_gate_is_finished(const fb_union_input_gate* self)


cdef class UnionInputGate(AbstractInputGate):
    cdef fb_union_input_gate c
    cdef readonly tuple gates     # kept alive; they ring the bell in `c`
    cdef bint is_requested

    cdef int check_usable(self) except -1
    cdef int mark_waiting(self, int change) except -1
    cdef object gate_of(self, uint32_t channel_index, uint32_t* local)
    cdef int fail_channel(self, int code, uint32_t channel_index) except -1
