from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from flinkbuf._core.memory.buffer cimport fb_buffer_slice
from flinkbuf._core.memory.buffer_codec cimport BlockDecompressor
from flinkbuf._core.gate.buffer_debloater cimport fb_buffer_debloater, fb_buffer_debloater_config
from flinkbuf._core.memory.local_buffer_pool cimport NetworkBufferPool, fb_local_buffer_pool, fb_network_buffer_pool
from flinkbuf._core.wire.partition_client cimport PartitionClient, fb_partition_client
from flinkbuf._core.wire.partition_manager cimport PartitionManager, fb_partition_manager
from flinkbuf._core.wire.remote_channel cimport fb_remote_channel, fb_remote_source
from flinkbuf._core.partition.result_partition cimport fb_result_partition
from flinkbuf._core.memory.slice_list cimport fb_slice_list
from flinkbuf._core.ground.wakeup cimport TaskBell, fb_wakeup

cdef extern from "gate/input_gate.h" nogil:
    struct fb_input_gate_priority:
        pass
    bint fb_input_gate_priority_is_set(fb_input_gate_priority* self)
    struct fb_input_channel:
        fb_result_partition* partition
        fb_remote_channel* remote
        uint32_t subpartition_index
        uint8_t* partition_id
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
        fb_wakeup own_wakeup
        fb_wakeup* wakeup
        bint is_requested
        bint is_open
        uint32_t restored_count
        fb_local_buffer_pool* pool
        int64_t debloat_period_ms
        fb_buffer_debloater debloater
        uint64_t idle_ms
    struct fb_gate_network:
        fb_partition_client* client
        fb_partition_manager* manager
        fb_network_buffer_pool* network_pool
        fb_local_buffer_pool* pool
        int64_t patience_ms
    struct fb_gate_item:
        fb_buffer_slice slice
        uint32_t channel_index
        int32_t sequence_number
        bint more_available
    int fb_input_gate_open(fb_input_gate* self, uint32_t channel_count)
    void fb_input_gate_close(fb_input_gate* self)
    int fb_input_gate_set_local(fb_input_gate* self, uint32_t index, fb_result_partition* partition,
                                uint32_t subpartition_index)
    int fb_input_gate_set_network(fb_input_gate* self, const fb_gate_network* network)
    int fb_input_gate_set_local_id(fb_input_gate* self, uint32_t index, const uint8_t* partition_id,
                                   uint32_t subpartition_index)
    int fb_input_gate_set_remote(fb_input_gate* self, uint32_t index, const fb_remote_source* source,
                                 const uint8_t* id, uint32_t exclusive_count, int64_t timeout_ms)
    int fb_input_gate_set_debloating(fb_input_gate* self, const fb_buffer_debloater_config* config, int64_t period_ms)
    int fb_input_gate_request_partitions(fb_input_gate* self, uint32_t* failed)
    int fb_input_gate_poll(fb_input_gate* self, fb_gate_item* item)
    int fb_input_gate_poll_priority(fb_input_gate* self, fb_gate_item* item)
    void fb_input_gate_set_priority(fb_input_gate* self, fb_input_gate_priority* count)
    const char* fb_input_gate_failure(fb_input_gate* self, uint32_t index)
    bint fb_input_gate_wait(fb_input_gate* self, int64_t timeout_ms)
    void fb_input_gate_ring(fb_input_gate* self)
    void fb_input_gate_set_wakeup(fb_input_gate* self, fb_wakeup* wakeup)
    int fb_input_gate_resume(fb_input_gate* self, uint32_t channel_index)
    int fb_input_gate_acknowledge(fb_input_gate* self, uint32_t channel_index)
    int fb_input_gate_restore(fb_input_gate* self, uint32_t channel_index, const uint8_t* data, size_t size)
    void fb_input_gate_set_persisting_budget(fb_input_gate* self, int64_t bytes)
    int fb_input_gate_start_persisting(fb_input_gate* self, uint32_t channel_index, int64_t checkpoint_id,
                                       fb_slice_list* overtaken)
    int fb_input_gate_stop_persisting(fb_input_gate* self, uint32_t channel_index, fb_slice_list* arrived)
    int fb_input_gate_convert_to_priority(fb_input_gate* self, uint32_t channel_index, int32_t sequence_number)
    struct fb_channel_usage:
        uint64_t buffers
        uint64_t bytes
        uint32_t queued
        uint32_t backlog
        int32_t credit
        int64_t oldest_ms
    void fb_input_gate_get_channel_usage(fb_input_gate* self, uint32_t index, fb_channel_usage* usage)
    bint fb_input_gate_is_finished(const fb_input_gate* self)
    uint32_t fb_input_gate_queued_channels(fb_input_gate* self)


cdef class RecordCounts:
    """Records by channel, as a reader has handed them out: it writes the numbers, the gate shows them."""
    cdef uint64_t* values
    cdef uint64_t* bases        # what earlier readers had handed out
    cdef uint32_t channel_count

    cdef inline void note(self, uint32_t channel, uint64_t record_count) noexcept:
        self.values[channel] = self.bases[channel] + record_count


cdef class AbstractInputGate:
    cdef fb_gate_item held          # a compressed buffer that could not be restored; no slice: there is none
    cdef fb_input_gate_priority priority  # channels with a priority event in front: read between two records
    cdef readonly TaskBell bell     # rung instead of its own; None: nobody has given one
    cdef bint has_closed
    cdef object closer              # the thread that is closing it

    cdef int poll_item(self, fb_gate_item* item) except -1
    cdef int restore(self, fb_gate_item* item) except -1
    cdef int release_held(self) except -1
    cdef int close_once(self) except -1
    # What each kind of gate has of its own.
    cdef int close_channels(self) except -1
    cdef int take_item(self, fb_gate_item* item) except -1
    cdef int take_priority(self, fb_gate_item* item) except -1
    cdef int set_bell(self, TaskBell bell) except -1
    cdef tuple members(self)
    cdef int wait(self, int64_t timeout_ms) except -1
    cdef bint has_finished(self)
    cdef object decompressor_of(self, uint32_t channel_index)
    cdef int restore_block(self, BlockDecompressor decompressor, fb_gate_item* item) except -1
    cdef int show_counts(self, RecordCounts counts, uint32_t offset) except -1
    cdef str source_of(self, uint32_t channel_index)


cdef class InputGate(AbstractInputGate):
    cdef fb_input_gate* c       # on the heap: listeners of other threads point at it
    cdef list sources           # what each channel reads, kept alive: a partition, or what an error says of it
    cdef PartitionManager manager  # of the network, kept alive
    cdef PartitionClient client
    cdef NetworkBufferPool network_pool
    cdef RecordCounts record_counts  # of the reader; None: there was none
    cdef uint32_t record_offset      # where this gate's channels begin in it
    cdef dict last_figures           # kept when it was closed
    cdef public object decompressor  # has decompress(bytes-like) -> bytes-like; None: nothing compressed is expected
    cdef int waiting            # threads in a wait without the GIL
    cdef bint is_closing
    cdef object closed_by       # the one that was the first to
    cdef object __weakref__

    cdef bint is_of_this_process(self)
    cdef int set_partition(self, index, source, subpartition_index) except -1
    cdef int check_set(self, int code, index) except -1
    cdef int check_usable(self) except -1
    cdef int fail_closed(self) except -1
    cdef dict look(self)
    cdef int fail_channel(self, int code, uint32_t channel_index, uint32_t offset) except -1
    cdef int raise_failure(self, int code, uint32_t channel_index, uint32_t offset) except -1
