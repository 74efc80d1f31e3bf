cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from flinkbuf._core.memory.buffer_builder cimport fb_buffer_builder
from flinkbuf._core.record.channel_selector cimport ChannelSelector
from flinkbuf._core.value.codec cimport codec_node
from flinkbuf._core.ground.data_view cimport fb_data_output
from flinkbuf._core.record.record_serializer cimport fb_record_serializer
from flinkbuf._core.partition.result_partition cimport (
    ResultPartition, fb_result_partition, fb_result_partition_broadcast, fb_result_partition_emit,
)
from flinkbuf._core.value.type_codec cimport TypeCodec
from flinkbuf._core.ground.wakeup cimport fb_wakeup


cdef inline int emit_bytes(fb_result_partition* c, uint32_t target, const uint8_t** data, size_t* size) noexcept nogil:
    """Bytes to one subpartition, or to all of them."""
    if target == c.subpartition_count:
        return fb_result_partition_broadcast(c, data, size)
    return fb_result_partition_emit(c, target, data, size)


cdef class RecordWriter:
    cdef readonly ResultPartition partition
    cdef TypeCodec codec
    cdef ChannelSelector selector
    cdef fb_result_partition* c         # the partition's, retained
    cdef fb_record_serializer serializer
    cdef const codec_node* node         # of what a record is: of a stream element the value
    cdef bint is_of_elements            # records have a tag, and perhaps a timestamp, before the value
    cdef PyObject* element_classes[6]   # of objects that are elements; borrowed from the codec
    cdef bint is_timed                  # the record in hand has a timestamp
    cdef int64_t timestamp
    cdef const uint8_t* marker          # a framed element that is no record, on its way to `marker_channel` and those
    cdef size_t marker_size             # behind it, up to `marker_end`
    cdef uint32_t marker_channel        # the partition's subpartition_count: the builder of all
    cdef uint32_t marker_end
    cdef uint8_t[16] small_marker
    cdef int64_t _record_count      # written
    cdef readonly bint has_record_in_hand  # emit_some() took it from the iterator and tries to write it
    cdef int64_t given_count        # number of the record in hand, refused ones counted, from 0; -1: none yet
    cdef int fork_count
    cdef bint has_flusher           # it asked for flushing by time
    cdef bint flushes_always
    cdef bint _is_closed
    cdef const uint8_t* rest        # of a record that was begun and waits for a buffer; in the serializer's scratch
    cdef size_t rest_size           # 0: none was begun
    cdef object held                # a record that waits for a buffer between two calls of emit_some()
    cdef int64_t held_channel
    cdef bint held_is_timed
    cdef int64_t held_timestamp
    cdef bint is_holding
    cdef bint has_uncommitted       # records of a column lie in builders that were not committed yet
    cdef bint may_wait              # whoever calls waits for buffers

    @cython.final
    cdef int begin_use(self) except -1
    @cython.final
    cdef int64_t select(self, object record) except? -1
    @cython.final
    cdef int write(self, object record, int64_t channel) except -1
    @cython.final
    cdef int emit_some(self, object records, uint32_t limit, fb_wakeup* bell, uint64_t seen) except -1
    @cython.final
    cdef int emit_held(self) except -1
    @cython.final
    cdef bint has_room(self) noexcept
    @cython.final
    cdef int emit_element(self, object value, int64_t timestamp) except -1
    @cython.final
    cdef int emit_element_to(self, object value, int64_t timestamp, uint32_t channel) except -1
    @cython.final
    cdef int emit_watermark(self, int64_t timestamp) except -1
    @cython.final
    cdef int emit_status(self, bint is_idle) except -1
    @cython.final
    cdef int emit_marker(self, object marker, int64_t channel) except -1
    @cython.final
    cdef int check_elements(self) except -1
    @cython.final
    cdef int check_channel(self, int64_t channel) except -1
    @cython.final
    cdef int set_time(self, int64_t timestamp) except -1
    @cython.final
    cdef int write_item(self, object item, object timestamp, int64_t channel) except -1
    @cython.final
    cdef bint is_element(self, object item) noexcept
    @cython.final
    cdef int set_timestamp(self, object timestamp) except -1
    @cython.final
    cdef object open_element(self, object element, object timestamp, int64_t* channel)
    @cython.final
    cdef int frame_marker(self, object marker, int64_t channel) except -1
    @cython.final
    cdef int set_marker(self, const uint8_t* framed, size_t size, int64_t channel) except -1
    @cython.final
    cdef int write_small_marker(self, uint32_t size) except -1
    @cython.final
    cdef int go_on_with_marker(self) except -1
    @cython.final
    cdef int put_record(self, object record, fb_data_output* output) except -1
    @cython.final
    cdef int fail_record(self, fb_data_output* output) except -1
    @cython.final
    cdef int start(self, object record, int64_t channel) except -1
    @cython.final
    cdef int start_unicast(self, object record, uint32_t channel) except -1
    @cython.final
    cdef int start_broadcast(self, object record) except -1
    @cython.final
    cdef int encode(self, object record, fb_buffer_builder* builder) except -1
    @cython.final
    cdef int go_on_with_scratch(self, int64_t channel) except -1
    @cython.final
    cdef int go_on(self, int64_t channel) except -1
    @cython.final
    cdef int note_written(self, int64_t channel) except -1
    @cython.final
    cdef int open_unicast(self, uint32_t channel) except -1
    @cython.final
    cdef int open_broadcast(self) except -1
    @cython.final
    cdef int append_unicast(self, uint32_t channel, const uint8_t* data, size_t size) except -1
    @cython.final
    cdef int append_broadcast(self, const uint8_t* data, size_t size) except -1
    @cython.final
    cdef int wait_for_buffer(self) except -1
    @cython.final
    cdef int write_column(self, const uint8_t* values, uint32_t width, size_t count) except -1
    @cython.final
    cdef int write_column_to(self, const uint8_t* values, uint32_t width, size_t count,
                             const uint32_t* channels) except -1
    @cython.final
    cdef size_t emit_values(self, const uint8_t* values, uint32_t width, size_t count,
                            const uint32_t* channels) except? 0
    @cython.final
    cdef int write_value_to(self, const uint8_t* value, uint32_t width, uint32_t channel) except -1
    @cython.final
    cdef void commit_column(self) noexcept nogil
    @cython.final
    cdef int write_edge(self, const uint8_t* value, uint32_t width, uint32_t channel, bint is_broadcast) except -1
    @cython.final
    cdef int check_usable(self) except -1
