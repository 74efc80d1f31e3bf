"""The loop that takes records from Python to a result partition.

Per record: ask the selector for a channel, encode at the end of that channel's open builder, commit. A record that
does not fit its buffer is encoded in the scratch and cut by the partition. When the pool has no buffer the task
thread waits without the GIL, in slices, so that signals and task kills are seen; a task that reads as well must not
wait here, so emit_some() comes back instead and goes on later. A record that cannot be encoded leaves no trace: the
builder's position moves only after the last field. Flink: RecordWriter, ChannelSelectorRecordWriter,
BroadcastRecordWriter.

A writer of stream elements puts tag and timestamp before the value, and no object holds them. Watermarks and other
elements that are no records are framed once and go to every channel behind what it has, each in the buffer that is
open there. Flink: RecordWriterOutput, StreamElementSerializer.

Bytes become readable when a buffer is full, at flush(), at an event, or when the flusher finds them
(buffer_timeout_ms). The commit itself is a plain store, so the flusher's thread never waits for this one.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from libc.stdint cimport INT64_MIN

import operator
import os

from flinkbuf._core.ground.byte_order cimport fb_store_be32, fb_store_be64
from flinkbuf._core.memory.buffer_builder cimport (
    fb_buffer_builder, fb_buffer_builder_commit, fb_buffer_builder_is_committed, fb_buffer_builder_is_full,
)
from flinkbuf._core.record.channel_selector cimport (
    ChannelSelector, fb_channel_selector_is_blind, fb_channel_selector_next,
)
from flinkbuf._core.value.codec cimport add_step
from flinkbuf._core.ground.data_view cimport fb_data_output, fb_data_output_prune
from flinkbuf._core.ground.errors cimport FB_NEEDS_BUFFER, FB_NEEDS_INPUT, FB_RECORD, check
from flinkbuf._core.value.inline_codec cimport inline_put, put
from flinkbuf._core.record.inline_element cimport put_head
from flinkbuf._core.partition.output_flusher cimport start_flushing, stop_flushing
from flinkbuf._core.value.python_object cimport FB_TYPE_OF
from flinkbuf._core.record.record_batch cimport fb_record_batch, fb_record_batch_scatter, fb_record_batch_write
from flinkbuf._core.record.record_serializer cimport (
    FB_LENGTH_BYTES, FB_SCRATCH_KEEP_BYTES, fb_record_serializer_begin, fb_record_serializer_begin_at,
    fb_record_serializer_close,
    fb_record_serializer_end, fb_record_serializer_frame,
)
from flinkbuf._core.partition.result_partition cimport (
    ResultPartition, claim_partition, fb_result_partition_broadcast, fb_result_partition_drop, fb_result_partition_emit,
    fb_result_partition_finish_broadcast, fb_result_partition_finish_unicast, fb_result_partition_flush,
    fb_result_partition_flush_all, fb_result_partition_has_room, fb_result_partition_makes_room,
    fb_result_partition_mark_written,
    fb_result_partition_open_broadcast, fb_result_partition_open_unicast, fb_result_partition_prefetch,
    fb_result_partition_retain, fb_result_partition_verdict, fb_result_partition_wait,
    fb_result_partition_wait_available, unclaim_partition,
)
from flinkbuf._core.value.type cimport FB_ELEMENT_WATERMARK, FB_ELEMENT_WATERMARK_STATUS, FB_TYPE_STREAM_ELEMENT
from flinkbuf._core.value.type_codec cimport TypeCodec, encode_value
from flinkbuf._core.ground.wakeup cimport fb_wakeup, fb_wakeup_seen

cdef enum:
    BROADCAST = -1
    MARKER = -2     # where `marker` goes
    CHOSEN = -3     # where the partitioner says
    ELEMENT_CLASSES = 6
    WAIT_SLICE_MS = 100
    COLUMN_CHUNK = 16384  # records; some 100 us


cdef inline size_t frame_value(uint8_t* framed, const uint8_t* value, uint32_t width) noexcept nogil:
    """One number of a column as a record; how many bytes, at most 12."""
    cdef fb_buffer_builder builder
    builder.data = framed
    builder.position = 0
    builder.capacity = 12
    fb_record_batch_write(&builder, value, width, 1)
    return builder.position


cdef int forks = 0  # of which this process is the child


def _count_fork():
    global forks
    forks += 1


os.register_at_fork(after_in_child=_count_fork)


cdef class RecordWriter:
    """Writes records of one type into a result partition; see `flinkbuf.RecordWriter`."""

    def __cinit__(self, ResultPartition partition not None, TypeCodec codec not None, ChannelSelector selector not None,
                  int64_t buffer_timeout_ms):
        partition.check_open()
        if selector.channel_count != partition.c.subpartition_count:
            raise ValueError(
                f"the partitioner was set up for {selector.channel_count} channels, but the partition has "
                f"{partition.c.subpartition_count} subpartitions")
        self.partition = partition
        self.codec = codec
        self.selector = selector
        self.is_of_elements = codec.node.kind == FB_TYPE_STREAM_ELEMENT
        for i in range(len(codec.classes) if self.is_of_elements else 0):
            self.element_classes[i] = <PyObject*>(codec.classes[i])
        self.node = codec.node.children if self.is_of_elements else &codec.node
        self.given_count = -1
        self.fork_count = forks
        if partition.c.kind.is_blocking:
            buffer_timeout_ms = -1  # nobody reads it before it is finished
        self.flushes_always = buffer_timeout_ms == 0
        if buffer_timeout_ms > 0:
            start_flushing(partition.c, buffer_timeout_ms)
            self.has_flusher = True
        self.c = partition.c
        fb_result_partition_retain(self.c)

    def __dealloc__(self):
        fb_record_serializer_close(&self.serializer)
        if self.c is not NULL:
            if self.has_flusher:
                stop_flushing(self.c)
            fb_result_partition_drop(self.c)

    @property
    def is_closed(self):
        """Whether the stream was ended."""
        return self._is_closed

    @property
    def record_count(self):
        """Records written so far."""
        return self._record_count

    @property
    def is_available(self):
        """Whether the next element finds room without waiting; true, too, where nobody reads any more."""
        return bool(self.has_room())

    def emit(self, record, timestamp=None):
        """Write one record to the channel that the partitioner chooses."""
        self.begin_use()
        self.given_count += 1
        try:
            if self.is_of_elements:
                self.write_item(record, timestamp, CHOSEN)
            elif timestamp is not None:
                self.check_elements()
            else:
                self.write(record, self.select(record))
        finally:
            unclaim_partition(self.partition)

    def emit_to(self, record, uint32_t channel, timestamp=None):
        """Write one record to a stated channel (0-based), whatever the partitioner says."""
        self.check_channel(channel)
        self.begin_use()
        self.given_count += 1
        try:
            if self.is_of_elements:
                self.write_item(record, timestamp, channel)
            elif timestamp is not None:
                self.check_elements()
            else:
                self.write(record, channel)
        finally:
            unclaim_partition(self.partition)

    def broadcast(self, record, timestamp=None):
        """Write one record to every channel."""
        self.begin_use()
        self.given_count += 1
        try:
            if self.is_of_elements:
                self.write_item(record, timestamp, BROADCAST)
            elif timestamp is not None:
                self.check_elements()
            else:
                self.write(record, BROADCAST)
        finally:
            unclaim_partition(self.partition)

    def emit_all(self, records):
        """Write all records of an iterable, in one C loop; returns how many."""
        cdef int64_t before = self._record_count
        self.begin_use()
        try:
            for record in records:
                self.given_count += 1
                if self.is_of_elements:
                    self.write_item(record, None, CHOSEN)
                else:
                    self.write(record, self.select(record))
        finally:
            unclaim_partition(self.partition)
        return self._record_count - before

    def emit_column(self, values, channels=None):
        """Write a column of numbers, one record each, without a Python object a record.

        `values` is a contiguous one-dimensional array in the host's byte order whose item size is the type's;
        `channels`, if given, an array of uint32 channel numbers, one a value; else all go to channel 0 or, with the
        broadcast partitioner, to every channel.
        """
        cdef const uint8_t[::1] raw
        cdef const uint32_t[::1] targets
        cdef uint32_t width = values.dtype.itemsize
        cdef size_t count = values.shape[0]
        if count == 0:
            return 0
        raw = values.view("u1")
        self.begin_use()
        try:
            if channels is None:
                self.write_column(&raw[0], width, count)
                self.c.record_counts[self.c.subpartition_count if self.selector.is_broadcast else 0] += count
            else:
                targets = channels
                self.write_column_to(&raw[0], width, count, &targets[0])
        finally:
            unclaim_partition(self.partition)
        self._record_count += <int64_t>count
        self.given_count += <int64_t>count
        if self.flushes_always:
            self.flush()
        return count

    def write_element(self, value, int64_t timestamp, channel=None):
        """Write a value and its timestamp as a stream task does: −2**63 stands for none, and the value is never taken
        for an element's object. `channel` None: the partitioner chooses."""
        if channel is None:
            self.emit_element(value, timestamp)
        else:
            self.emit_element_to(value, timestamp, channel)

    def write_watermark(self, int64_t timestamp):
        """Write a watermark to every channel."""
        self.emit_watermark(timestamp)

    def write_status(self, bint is_idle):
        """Tell every channel whether its watermarks count."""
        self.emit_status(is_idle)

    def write_marker(self, marker, channel=None):
        """Write an element that is no record, given as its object, to one channel, or to every one."""
        if channel is not None:
            self.check_channel(channel)  # -1 is every one below, which nobody means here
        self.emit_marker(marker, BROADCAST if channel is None else channel)

    def broadcast_event(self, const uint8_t[::1] data not None, int data_type):
        """Add an event, given as its bytes and data type, to every subpartition; all open buffers end here."""
        self.check_usable()
        self.partition.broadcast_event_bytes(data, data_type)
        if self.flushes_always:
            self.flush()

    def flush(self):
        """Make everything written so far readable."""
        with nogil:
            fb_result_partition_flush_all(self.c)

    cdef int check_usable(self) except -1:
        if self._is_closed:
            raise RuntimeError("the record writer is closed: no record can follow its end-of-data event")
        if self.fork_count != forks:
            raise RuntimeError("the record writer was opened before this process was forked: its flusher's thread is "
                               "not here; open a partition and a writer in the child")
        return 0

    @cython.final
    cdef inline int begin_use(self) except -1:
        """What follows has the partition to itself, until its `unclaim`."""
        if self._is_closed or self.fork_count != forks:
            self.check_usable()
        self.may_wait = True
        return claim_partition(self.partition)

    @cython.final
    cdef int64_t select(self, object record) except? -1:
        """The record's channel, or BROADCAST."""
        cdef uint32_t channel
        if fb_channel_selector_is_blind(&self.selector.c):
            channel = fb_channel_selector_next(&self.selector.c)
            # In turn: while this record is written, the memory of the next one comes.
            fb_result_partition_prefetch(self.c, channel + 1 if channel + 1 < self.c.subpartition_count else 0)
            return channel
        if self.selector.is_broadcast:
            return BROADCAST
        self.selector.record_number = self.given_count - 1  # it counts on by itself
        return self.selector.select(record)

    @cython.final
    cdef int write(self, object record, int64_t channel) except -1:
        """One record, waiting for buffers."""
        cdef int code = self.start(record, channel)
        while code == FB_NEEDS_BUFFER:
            self.wait_for_buffer()
            code = self.start(record, channel) if self.rest_size == 0 else self.go_on(channel)
        return 0

    cdef int emit_some(self, object records, uint32_t limit, fb_wakeup* bell, uint64_t seen) except -1:
        """Write records of an iterator, but never wait for a buffer.

        FB_RECORD: `limit` records are written, or the bell has rung since `seen`. FB_NEEDS_BUFFER: there is no room.
        FB_NEEDS_INPUT: the iterator has ended. A record that was taken and found no room, or not enough, is gone on
        with by the next call.
        """
        cdef int code
        self.check_usable()
        self.partition.claim()
        self.may_wait = False
        try:
            if not self.has_room():
                return FB_NEEDS_BUFFER
            if self.is_holding and self.emit_held() == FB_NEEDS_BUFFER:
                return FB_NEEDS_BUFFER
            for record in records:
                self.given_count += 1
                self.has_record_in_hand = True
                self.held_channel = CHOSEN
                if self.is_of_elements and self.is_element(record):
                    record = self.open_element(record, None, &self.held_channel)
                elif self.is_of_elements:
                    self.is_timed = False
                if self.held_channel == CHOSEN:
                    self.held_channel = self.select(record)
                code = self.start(record, self.held_channel)
                while code == FB_NEEDS_BUFFER and fb_result_partition_makes_room(self.c):
                    self.wait_for_buffer()  # for nobody: it writes
                    code = self.start(record, self.held_channel) if self.rest_size == 0 else \
                        self.go_on(self.held_channel)
                self.has_record_in_hand = False
                if code == FB_NEEDS_BUFFER:
                    self.held, self.is_holding = record, True
                    self.held_is_timed, self.held_timestamp = self.is_timed, self.timestamp
                    return code
                limit -= 1
                if limit == 0 or fb_wakeup_seen(bell) != seen:
                    return FB_RECORD
                if not self.has_room():
                    return FB_NEEDS_BUFFER
            return FB_NEEDS_INPUT
        finally:
            unclaim_partition(self.partition)

    cdef int emit_held(self) except -1:
        """The record that an earlier call could not finish."""
        cdef int code
        record, self.held = self.held, None
        self.is_holding = False
        self.is_timed, self.timestamp = self.held_is_timed, self.held_timestamp
        self.has_record_in_hand = True
        code = self.start(record, self.held_channel) if self.rest_size == 0 else self.go_on(self.held_channel)
        self.has_record_in_hand = False
        if code == FB_NEEDS_BUFFER:
            self.held, self.is_holding = record, True
        return code

    cdef bint has_room(self) noexcept:
        """Whether a record can be begun; its rest may still find none."""
        return fb_result_partition_has_room(self.c)

    @cython.final
    cdef int start(self, object record, int64_t channel) except -1:
        """One record as far as there is room. FB_RECORD; FB_NEEDS_BUFFER: go_on() for a rest, else this again."""
        self.rest_size = 0
        if fb_result_partition_verdict(self.c) < 0:  # a buffer may take long to fill: who writes is told at once
            return self.partition.fail_stopped()
        if channel >= 0:
            return self.start_unicast(record, <uint32_t>channel)
        if channel == BROADCAST:
            return self.start_broadcast(record)
        self.rest, self.rest_size = self.marker, self.marker_size
        return self.go_on_with_marker()

    @cython.final
    cdef inline int start_unicast(self, object record, uint32_t channel) except -1:
        cdef fb_buffer_builder* builder = &self.c.unicast[channel]
        cdef fb_data_output* output = &self.serializer.output
        if builder.buffer is NULL:
            if self.partition.check_written(fb_result_partition_open_unicast(self.c, channel)) == FB_NEEDS_BUFFER:
                return FB_NEEDS_BUFFER
            if builder.buffer is NULL:  # it takes records; a released one nothing, but checks them
                self.encode(record, builder)
                fb_record_serializer_end(&self.serializer, builder)
                return self.go_on_with_scratch(channel)
        check(fb_record_serializer_begin(&self.serializer, builder))
        output.record_number = self.given_count
        self.put_record(record, output)
        if fb_record_serializer_end(&self.serializer, builder) != FB_RECORD:
            return self.go_on_with_scratch(channel)
        if fb_buffer_builder_is_full(builder):
            fb_result_partition_finish_unicast(self.c, channel)
        self._record_count += 1
        self.c.record_counts[channel] += 1
        fb_result_partition_mark_written(self.c, channel)
        if self.flushes_always:
            fb_result_partition_flush(self.c, channel)
        return FB_RECORD

    cdef int start_broadcast(self, object record) except -1:
        cdef fb_buffer_builder* builder = &self.c.broadcast
        if builder.buffer is NULL:
            if self.partition.check_written(fb_result_partition_open_broadcast(self.c)) == FB_NEEDS_BUFFER:
                return FB_NEEDS_BUFFER
        self.encode(record, builder)
        if fb_record_serializer_end(&self.serializer, builder) != FB_RECORD:
            return self.go_on_with_scratch(BROADCAST)
        if fb_buffer_builder_is_full(builder):
            fb_result_partition_finish_broadcast(self.c)
        return self.note_written(BROADCAST)

    cdef int encode(self, object record, fb_buffer_builder* builder) except -1:
        """The record to the builder's end, or to the scratch if it does not fit."""
        if builder.buffer is NULL:  # it takes records, not buffers; a released one nothing, but the record is checked
            check(fb_record_serializer_begin_at(&self.serializer, NULL, NULL))
        else:
            check(fb_record_serializer_begin(&self.serializer, builder))
        self.serializer.output.record_number = self.given_count
        return self.put_record(record, &self.serializer.output)

    @cython.final
    cdef inline int put_record(self, object record, fb_data_output* output) except -1:
        """Appends the record. For records of one number a call would cost as much as the work: all of it is inlined."""
        cdef uint8_t* pos = output.pos
        if self.is_of_elements:
            pos = put_head(self.is_timed, self.timestamp, pos, output)
        pos = (<inline_put>put)(self.node, <PyObject*>record, pos, output)
        if pos == NULL:
            return self.fail_record(output)
        output.pos = pos
        return 0

    cdef int fail_record(self, fb_data_output* output) except -1:
        if self.is_of_elements:
            (<int (*)(const codec_node*, object) noexcept>add_step)(&self.codec.node, ".value")
        return self.codec.fail_encode(output, FB_LENGTH_BYTES)

    cdef int go_on_with_scratch(self, int64_t channel) except -1:
        self.rest = self.serializer.output.start
        self.rest_size = <size_t>(self.serializer.output.pos - self.serializer.output.start)
        cdef uint32_t target = self.c.subpartition_count if channel == BROADCAST else <uint32_t>channel
        if self.may_wait:
            self.partition.wait_until_available(target)
        return self.go_on(channel)

    cdef int go_on(self, int64_t channel) except -1:
        """The rest of a record that is cut over buffers: FB_RECORD, or FB_NEEDS_BUFFER with what is still left."""
        cdef int code
        if channel == MARKER:
            return self.go_on_with_marker()
        if channel == BROADCAST:
            code = fb_result_partition_broadcast(self.c, &self.rest, &self.rest_size)
        else:
            code = fb_result_partition_emit(self.c, <uint32_t>channel, &self.rest, &self.rest_size)
        if self.partition.check_written(code) == FB_NEEDS_BUFFER:
            return code
        fb_data_output_prune(&self.serializer.output, FB_SCRATCH_KEEP_BYTES)
        return self.note_written(channel)

    # --- stream elements, for a task: it has values and timestamps, but no object that holds both

    cdef int emit_element(self, object value, int64_t timestamp) except -1:
        """Write a value to the channel that the partitioner chooses; timestamp INT64_MIN: it has none."""
        self.begin_use()
        self.given_count += 1
        try:
            self.set_time(timestamp)
            return self.write(value, self.select(value))
        finally:
            unclaim_partition(self.partition)

    cdef int emit_element_to(self, object value, int64_t timestamp, uint32_t channel) except -1:
        """Write it to a stated channel."""
        self.check_channel(channel)
        self.begin_use()
        self.given_count += 1
        try:
            self.set_time(timestamp)
            return self.write(value, channel)
        finally:
            unclaim_partition(self.partition)

    cdef int emit_watermark(self, int64_t timestamp) except -1:
        """Write a watermark to every channel."""
        self.small_marker[4] = FB_ELEMENT_WATERMARK
        fb_store_be64(&self.small_marker[5], <uint64_t>timestamp)
        return self.write_small_marker(9)

    cdef int emit_status(self, bint is_idle) except -1:
        """Tell every channel whether its watermarks count."""
        self.small_marker[4] = FB_ELEMENT_WATERMARK_STATUS
        fb_store_be32(&self.small_marker[5], <uint32_t>(-1 if is_idle else 0))
        return self.write_small_marker(5)

    cdef int emit_marker(self, object marker, int64_t channel) except -1:
        """Write an element that is no record, given as its object, to one channel; -1: to every channel."""
        self.check_elements()
        if channel != BROADCAST:
            self.check_channel(channel)
        self.begin_use()
        try:
            self.frame_marker(marker, channel)
            return self.write(None, MARKER)
        finally:
            unclaim_partition(self.partition)

    cdef int check_channel(self, int64_t channel) except -1:
        if not 0 <= channel < self.c.subpartition_count:
            raise IndexError(f"channel {channel} of a partition with {self.c.subpartition_count} subpartitions")
        return 0

    @cython.final
    cdef inline int set_time(self, int64_t timestamp) except -1:
        self.is_timed = timestamp != INT64_MIN
        self.timestamp = timestamp
        if self.is_timed and not self.is_of_elements:
            self.check_elements()
        return 0

    cdef int check_elements(self) except -1:
        if not self.is_of_elements:
            raise TypeError(f"records of {self.codec!r} have no timestamp: make the writer with "
                            "Types.STREAM_ELEMENT of their type")
        return 0

    @cython.final
    cdef inline int write_item(self, object item, object timestamp, int64_t channel) except -1:
        """A value with its timestamp, or an object that says itself which element it is."""
        if self.is_element(item):
            item = self.open_element(item, timestamp, &channel)
        else:
            self.set_timestamp(timestamp)
        if channel == CHOSEN:
            channel = self.select(item)
        return self.write(item, channel)

    @cython.final
    cdef inline bint is_element(self, object item) noexcept:
        """Whether it is an object of one of the classes of elements: nothing else is one, however it looks."""
        cdef PyObject* kind = FB_TYPE_OF(<PyObject*>item)
        cdef size_t i
        for i in range(ELEMENT_CLASSES):
            if kind == self.element_classes[i]:
                return True
        return False

    @cython.final
    cdef inline int set_timestamp(self, object timestamp) except -1:
        self.is_timed = timestamp is not None
        if self.is_timed:
            self.timestamp = timestamp if PyLong_CheckExact(timestamp) else operator.index(timestamp)
        return 0

    cdef object open_element(self, object element, object timestamp, int64_t* channel):
        """The value of a record, with its time set; another element is framed, and all its channels with it."""
        if timestamp is not None:
            raise TypeError(f"{element!r} says itself which timestamp it has: {timestamp!r} cannot be given beside it")
        if type(element) is self.codec.classes[0]:
            self.set_timestamp(element.timestamp)
            return element.value
        self.frame_marker(element, channel[0])
        channel[0] = MARKER
        return None

    cdef int frame_marker(self, object marker, int64_t channel) except -1:
        check(fb_record_serializer_begin_at(&self.serializer, NULL, NULL))
        self.serializer.output.record_number = self.given_count
        encode_value(self.codec, marker, &self.serializer.output)
        return self.set_marker(self.serializer.output.start, fb_record_serializer_frame(&self.serializer), channel)

    cdef int write_small_marker(self, uint32_t size) except -1:
        self.check_elements()
        self.begin_use()
        fb_store_be32(&self.small_marker[0], size)
        self.set_marker(&self.small_marker[0], FB_LENGTH_BYTES + size, BROADCAST)
        try:
            return self.write(None, MARKER)
        finally:
            unclaim_partition(self.partition)

    cdef int set_marker(self, const uint8_t* framed, size_t size, int64_t channel) except -1:
        """What goes to `channel`, or to all of them, without ending the buffers that are open there."""
        self.marker, self.marker_size = framed, size
        if channel >= 0:
            self.marker_channel = <uint32_t>channel
        else:
            self.marker_channel = self.c.subpartition_count if self.selector.is_broadcast else 0
        self.marker_end = self.marker_channel + 1 if channel >= 0 or self.selector.is_broadcast \
            else self.c.subpartition_count
        return 0

    cdef int go_on_with_marker(self) except -1:
        """To the channels that do not have it yet: FB_RECORD, or FB_NEEDS_BUFFER with what is left for the first."""
        cdef int code
        while self.marker_channel < self.marker_end:
            if self.marker_channel == self.c.subpartition_count:
                code = fb_result_partition_broadcast(self.c, &self.rest, &self.rest_size)
            else:
                code = fb_result_partition_emit(self.c, self.marker_channel, &self.rest, &self.rest_size)
            if self.partition.check_written(code) == FB_NEEDS_BUFFER:
                return code
            fb_result_partition_mark_written(self.c, self.marker_channel)
            self.marker_channel += 1
            self.rest, self.rest_size = self.marker, self.marker_size
        self.rest_size = 0
        if self.flushes_always:
            fb_result_partition_flush_all(self.c)
        return FB_RECORD

    @cython.final
    cdef int note_written(self, int64_t channel) except -1:
        """A record is complete: it counts, and the flusher knows where to look."""
        cdef uint32_t target = self.c.subpartition_count if channel == BROADCAST else <uint32_t>channel
        self._record_count += 1
        self.c.record_counts[target] += 1
        fb_result_partition_mark_written(self.c, target)
        if self.flushes_always:
            if channel == BROADCAST:
                fb_result_partition_flush_all(self.c)
            else:
                fb_result_partition_flush(self.c, <uint32_t>channel)
        return FB_RECORD

    cdef int open_unicast(self, uint32_t channel) except -1:
        while self.partition.check_written(fb_result_partition_open_unicast(self.c, channel)) == FB_NEEDS_BUFFER:
            self.wait_for_buffer()
        return 0

    cdef int open_broadcast(self) except -1:
        while self.partition.check_written(fb_result_partition_open_broadcast(self.c)) == FB_NEEDS_BUFFER:
            self.wait_for_buffer()
        return 0

    cdef int append_unicast(self, uint32_t channel, const uint8_t* data, size_t size) except -1:
        if self.has_uncommitted and not fb_result_partition_wait_available(self.c, channel, 0):
            self.commit_column()
        self.partition.wait_until_available(channel)
        while self.partition.check_written(fb_result_partition_emit(self.c, channel, &data, &size)) == FB_NEEDS_BUFFER:
            self.wait_for_buffer()
        return 0

    cdef int append_broadcast(self, const uint8_t* data, size_t size) except -1:
        self.partition.wait_until_available(self.c.subpartition_count)
        while self.partition.check_written(fb_result_partition_broadcast(self.c, &data, &size)) == FB_NEEDS_BUFFER:
            self.wait_for_buffer()
        return 0

    cdef int wait_for_buffer(self) except -1:
        """Sleep until the pool may have a buffer. The partition counts the time as hard back-pressure."""
        if self.has_uncommitted:
            self.commit_column()
        with nogil:
            fb_result_partition_wait(self.c, WAIT_SLICE_MS)
        PyErr_CheckSignals()
        return 0

    cdef int write_column(self, const uint8_t* values, uint32_t width, size_t count) except -1:
        """All values to channel 0 (or to all channels): whole records in one C loop, the one at an edge by itself."""
        cdef bint is_broadcast = self.selector.is_broadcast
        cdef fb_buffer_builder* builder = &self.c.broadcast if is_broadcast else &self.c.unicast[0]
        cdef size_t written
        cdef uint32_t mark = self.c.subpartition_count if is_broadcast else 0
        while count > 0:
            if builder.buffer is NULL:
                if is_broadcast:
                    self.open_broadcast()
                else:
                    self.open_unicast(0)
            if builder.buffer is NULL:
                if not self.c.takes_records:
                    return 0  # released: nobody reads it
                written = self.emit_values(values, width, count, NULL)
                values += written * width
                count -= written
                continue
            with nogil:
                written = fb_record_batch_write(builder, values, width, count)
                fb_buffer_builder_commit(builder)
            values += written * width
            count -= written
            if fb_buffer_builder_is_full(builder):
                if is_broadcast:
                    fb_result_partition_finish_broadcast(self.c)
                else:
                    fb_result_partition_finish_unicast(self.c, 0)
            elif count > 0:
                self.write_edge(values, width, 0, is_broadcast)
                values += width
                count -= 1
            fb_result_partition_mark_written(self.c, mark)
        return 0

    cdef int write_column_to(self, const uint8_t* values, uint32_t width, size_t count,
                             const uint32_t* channels) except -1:
        """Each value to its channel: in C what fits, one by one what is cut or needs a buffer."""
        cdef fb_record_batch batch
        cdef size_t i = 0, end, written
        try:
            while i < count:
                # Readers see the records of a chunk at once; with a commit for each, two threads fight for a line.
                end = count if count - i < COLUMN_CHUNK else i + COLUMN_CHUNK
                while i < end:
                    batch = fb_record_batch(values + i * width, channels + i, end - i, width)
                    self.has_uncommitted = True
                    with nogil:
                        written = fb_record_batch_scatter(self.c.unicast, self.c.subpartition_count, &batch,
                                                          self.c.record_counts)
                    i += written
                    if i == end:
                        break
                    if channels[i] >= self.c.subpartition_count:
                        raise IndexError(f"value {i} is meant for channel {channels[i]} of a partition with "
                                         f"{self.c.subpartition_count} subpartitions")
                    if self.c.takes_records:
                        i += self.emit_values(values + i * width, width, end - i, channels + i)
                        continue
                    self.write_value_to(values + i * width, width, channels[i])
                    i += 1
                self.commit_column()
        finally:
            if self.has_uncommitted:
                self.commit_column()
        return 0

    cdef size_t emit_values(self, const uint8_t* values, uint32_t width, size_t count,
                            const uint32_t* channels) except? 0:
        """Values to a partition that takes records, as long as it does; how many. `channels` NULL: all go to channel 0,
        or to every channel."""
        cdef uint8_t framed[12]
        cdef const uint8_t* rest = NULL
        cdef size_t done = 0, size = 0
        cdef uint32_t target = self.c.subpartition_count if self.selector.is_broadcast else 0
        cdef int code = 0
        while done < count and self.c.takes_records:
            with nogil:
                while done < count and self.c.takes_records:
                    if channels is not NULL:
                        target = channels[done]
                        if target >= self.c.subpartition_count:
                            break
                        self.c.record_counts[target] += 1
                    done += 1
                    size = frame_value(framed, values + (done - 1) * width, width)
                    rest = framed
                    code = emit_bytes(self.c, target, &rest, &size)
                    if code != FB_RECORD:
                        break
            if code != FB_RECORD:
                while self.partition.check_written(code) == FB_NEEDS_BUFFER:
                    self.wait_for_buffer()
                    code = emit_bytes(self.c, target, &rest, &size)
            elif done < count and channels is not NULL and channels[done] >= self.c.subpartition_count:
                break
        return done

    cdef int write_value_to(self, const uint8_t* value, uint32_t width, uint32_t channel) except -1:
        cdef fb_buffer_builder* builder = &self.c.unicast[channel]
        if builder.buffer is NULL:
            self.open_unicast(channel)
        if builder.buffer is NULL and not self.c.takes_records:
            pass  # this channel's reader is gone
        elif builder.buffer is not NULL and fb_record_batch_write(builder, value, width, 1) == 1:
            fb_buffer_builder_commit(builder)
            if fb_buffer_builder_is_full(builder):
                fb_result_partition_finish_unicast(self.c, channel)
        else:
            self.write_edge(value, width, channel, False)
        fb_result_partition_mark_written(self.c, channel)
        self.c.record_counts[channel] += 1
        return 0

    cdef void commit_column(self) noexcept nogil:
        """Publish what a chunk of a column has left in builders. Before every sleep, too: readers would wait for it."""
        cdef uint32_t channel
        self.has_uncommitted = False
        for channel in range(self.c.subpartition_count):
            if not fb_buffer_builder_is_committed(&self.c.unicast[channel]):
                fb_buffer_builder_commit(&self.c.unicast[channel])
                fb_result_partition_mark_written(self.c, channel)

    cdef int write_edge(self, const uint8_t* value, uint32_t width, uint32_t channel, bint is_broadcast) except -1:
        """One value whose record is cut by the end of a buffer."""
        cdef uint8_t framed[12]
        cdef size_t size = frame_value(framed, value, width)
        if is_broadcast:
            return self.append_broadcast(framed, size)
        return self.append_unicast(channel, framed, size)

    def stop(self):
        """Nothing more is written or flushed by time; what the stream ends with is the caller's to say."""
        self.partition.check_unclaimed()
        self._is_closed = True
        if self.has_flusher:
            self.has_flusher = False
            stop_flushing(self.c)
