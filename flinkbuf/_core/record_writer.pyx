"""The loop that takes records from Python to a result partition.

Per record: ask the selector for a channel, encode at the end of that channel's open builder, commit. A record that
does not fit its buffer is encoded in the scratch and cut by the partition. When the pool has no buffer the task
thread waits without the GIL, in slices, so that signals and task kills are seen; a task that reads as well must not
wait here, so emit_some() comes back instead and goes on later. A record that cannot be encoded leaves no trace: the
builder's position moves only after the last field. Flink: RecordWriter, ChannelSelectorRecordWriter,
BroadcastRecordWriter.

Bytes become readable when a buffer is full, at flush(), at an event, or when the flusher finds them
(buffer_timeout_ms). The commit itself is a plain store, so the flusher's thread never waits for this one.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject

import os

from flinkbuf._core.buffer_builder cimport (
    fb_buffer_builder, fb_buffer_builder_commit, fb_buffer_builder_is_committed, fb_buffer_builder_is_full,
)
from flinkbuf._core.local_buffer_pool cimport fb_local_buffer_pool_is_available
from flinkbuf._core.channel_selector cimport (
    ChannelSelector, fb_channel_selector_is_blind, fb_channel_selector_next,
)
from flinkbuf._core.data_view cimport fb_data_output, fb_data_output_prune
from flinkbuf._core.errors cimport FB_NEEDS_BUFFER, FB_NEEDS_INPUT, FB_RECORD, check
from flinkbuf._core.inline_codec cimport inline_put, put
from flinkbuf._core.output_flusher cimport start_flushing, stop_flushing
from flinkbuf._core.record_batch cimport fb_record_batch, fb_record_batch_scatter, fb_record_batch_write
from flinkbuf._core.record_serializer cimport (
    FB_LENGTH_BYTES, FB_SCRATCH_KEEP_BYTES, fb_record_serializer_begin, fb_record_serializer_begin_at,
    fb_record_serializer_close,
    fb_record_serializer_end,
)
from flinkbuf._core.result_partition cimport (
    ResultPartition, fb_result_partition_broadcast, fb_result_partition_drop, fb_result_partition_emit,
    fb_result_partition_finish_broadcast, fb_result_partition_finish_unicast, fb_result_partition_flush,
    fb_result_partition_flush_all, fb_result_partition_is_released, fb_result_partition_mark_written,
    fb_result_partition_open_broadcast, fb_result_partition_open_unicast, fb_result_partition_prefetch,
    fb_result_partition_retain, fb_result_partition_verdict, fb_result_partition_wait,
    fb_result_partition_wait_available,
)
from flinkbuf._core.type_codec cimport TypeCodec, encode_value
from flinkbuf._core.wakeup cimport fb_wakeup, fb_wakeup_seen

cdef enum:
    BROADCAST = -1
    WAIT_SLICE_MS = 100
    COLUMN_CHUNK = 16384  # records; some 100 us


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
        self.given_count = -1
        self.flushes_always = buffer_timeout_ms == 0
        self.fork_count = forks
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

    def emit(self, record):
        """Write one record to the channel that the partitioner chooses."""
        self.begin_use()
        self.given_count += 1
        try:
            self.write(record, self.select(record))
        finally:
            self.partition.unclaim()

    def emit_to(self, record, uint32_t channel):
        """Write one record to a stated channel (0-based), whatever the partitioner says."""
        if channel >= self.c.subpartition_count:
            raise IndexError(f"channel {channel} of a partition with {self.c.subpartition_count} subpartitions")
        self.begin_use()
        self.given_count += 1
        try:
            self.write(record, channel)
        finally:
            self.partition.unclaim()

    def broadcast(self, record):
        """Write one record to every channel."""
        self.begin_use()
        self.given_count += 1
        try:
            self.write(record, BROADCAST)
        finally:
            self.partition.unclaim()

    def emit_all(self, records):
        """Write all records of an iterable, in one C loop; returns how many."""
        cdef int64_t before = self._record_count
        self.begin_use()
        try:
            for record in records:
                self.given_count += 1
                self.write(record, self.select(record))
        finally:
            self.partition.unclaim()
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
            self.partition.unclaim()
        self._record_count += <int64_t>count
        self.given_count += <int64_t>count
        if self.flushes_always:
            self.flush()
        return count

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
    cdef int begin_use(self) except -1:
        """What follows has the partition to itself, until its `unclaim`."""
        self.check_usable()
        self.may_wait = True
        return self.partition.claim()

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
        self.partition.check_open()
        self.partition.check_unclaimed()
        self.partition.take_claim()
        self.may_wait = False
        try:
            if not self.has_room():
                return FB_NEEDS_BUFFER
            if self.is_holding and self.emit_held() == FB_NEEDS_BUFFER:
                return FB_NEEDS_BUFFER
            for record in records:
                self.given_count += 1
                self.has_record_in_hand = True
                self.held_channel = self.select(record)
                code = self.start(record, self.held_channel)
                self.has_record_in_hand = False
                if code == FB_NEEDS_BUFFER:
                    self.held, self.is_holding = record, True
                    return code
                limit -= 1
                if limit == 0 or fb_wakeup_seen(bell) != seen:
                    return FB_RECORD
                if not self.has_room():
                    return FB_NEEDS_BUFFER
            return FB_NEEDS_INPUT
        finally:
            self.partition.unclaim()

    cdef int emit_held(self) except -1:
        """The record that an earlier call could not finish."""
        cdef int code
        record, self.held = self.held, None
        self.is_holding = False
        self.has_record_in_hand = True
        code = self.start(record, self.held_channel) if self.rest_size == 0 else self.go_on(self.held_channel)
        self.has_record_in_hand = False
        if code == FB_NEEDS_BUFFER:
            self.held, self.is_holding = record, True
        return code

    cdef bint has_room(self) noexcept:
        """Whether a record can be begun; its rest may still find none."""
        return fb_local_buffer_pool_is_available(self.c.pool) or fb_result_partition_is_released(self.c)

    @cython.final
    cdef int start(self, object record, int64_t channel) except -1:
        """One record as far as there is room. FB_RECORD; FB_NEEDS_BUFFER: go_on() for a rest, else this again."""
        self.rest_size = 0
        if fb_result_partition_verdict(self.c) < 0:  # a buffer may take long to fill: who writes is told at once
            return self.partition.fail_stopped()
        if channel == BROADCAST:
            return self.start_broadcast(record)
        return self.start_unicast(record, <uint32_t>channel)

    @cython.final
    cdef inline int start_unicast(self, object record, uint32_t channel) except -1:
        cdef fb_buffer_builder* builder = &self.c.unicast[channel]
        cdef fb_data_output* output = &self.serializer.output
        cdef uint8_t* pos
        if builder.buffer is NULL:
            if self.partition.check_written(fb_result_partition_open_unicast(self.c, channel)) == FB_NEEDS_BUFFER:
                return FB_NEEDS_BUFFER
            if builder.buffer is NULL:  # a released partition takes nothing more; the record is still checked
                self.encode(record, builder)
                fb_record_serializer_end(&self.serializer, builder)
                return self.go_on_with_scratch(channel)
        check(fb_record_serializer_begin(&self.serializer, builder))
        output.record_number = self.given_count
        # As encode(), but in this loop: for records of one number the calls would cost as much as the work.
        pos = (<inline_put>put)(&self.codec.node, <PyObject*>record, output.pos, output)
        if pos == NULL:
            return self.codec.fail_encode(output, FB_LENGTH_BYTES)
        output.pos = pos
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
        if builder.buffer is NULL:  # a released partition takes nothing more; the record is still checked
            check(fb_record_serializer_begin_at(&self.serializer, NULL, NULL))
        else:
            check(fb_record_serializer_begin(&self.serializer, builder))
        self.serializer.output.record_number = self.given_count
        encode_value(self.codec, record, &self.serializer.output)
        return 0

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
        if channel == BROADCAST:
            code = fb_result_partition_broadcast(self.c, &self.rest, &self.rest_size)
        else:
            code = fb_result_partition_emit(self.c, <uint32_t>channel, &self.rest, &self.rest_size)
        if self.partition.check_written(code) == FB_NEEDS_BUFFER:
            return code
        fb_data_output_prune(&self.serializer.output, FB_SCRATCH_KEEP_BYTES)
        return self.note_written(channel)

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
                return 0  # released: nobody reads it
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
                    self.write_value_to(values + i * width, width, channels[i])
                    i += 1
                self.commit_column()
        finally:
            if self.has_uncommitted:
                self.commit_column()
        return 0

    cdef int write_value_to(self, const uint8_t* value, uint32_t width, uint32_t channel) except -1:
        cdef fb_buffer_builder* builder = &self.c.unicast[channel]
        if builder.buffer is NULL:
            self.open_unicast(channel)
        if builder.buffer is NULL:
            pass  # this channel's reader is gone
        elif fb_record_batch_write(builder, value, width, 1) == 1:
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
        cdef fb_buffer_builder edge
        edge.data = framed
        edge.position = 0
        edge.capacity = sizeof(framed)
        fb_record_batch_write(&edge, value, width, 1)
        if is_broadcast:
            return self.append_broadcast(framed, edge.position)
        return self.append_unicast(channel, framed, edge.position)

    def stop(self):
        """Nothing more is written or flushed by time; what the stream ends with is the caller's to say."""
        self.partition.check_unclaimed()
        self._is_closed = True
        if self.has_flusher:
            self.has_flusher = False
            stop_flushing(self.c)
