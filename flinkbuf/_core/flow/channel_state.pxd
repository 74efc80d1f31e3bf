from libc.stdint cimport int64_t, uint32_t

from flinkbuf._core.gate.input_gate cimport InputGate
from flinkbuf._core.flow.record_reader cimport RecordReader
from flinkbuf._core.partition.result_partition cimport ResultPartition
from flinkbuf._core.memory.slice_list cimport fb_slice_list


cdef class InputChannelState:
    cdef readonly RecordReader reader
    cdef tuple gates                # the gate, or those of the union
    cdef dict parts                 # of the checkpoint that runs: by channel a list of bytes
    cdef readonly object checkpoint_id      # the one that runs, or None

    cdef InputGate find(self, uint32_t* channel)
    cdef bint start_all(self, int64_t checkpoint_id) except -1
    cdef bint start_channel(self, InputGate gate, uint32_t first, uint32_t index, int64_t checkpoint_id) except -1
    cdef int stop_channel(self, InputGate gate, uint32_t first, uint32_t index) except -1
    cdef int add_unconsumed(self, uint32_t channel) except -1
    cdef int add_slices(self, InputGate gate, uint32_t channel, const fb_slice_list* slices) except -1
    cdef int add(self, uint32_t channel, bytes part) except -1


cdef class OutputChannelState:
    cdef readonly ResultPartition partition
    cdef fb_slice_list* lists       # one a subpartition; empty between two calls

    cdef list take_lists(self)
