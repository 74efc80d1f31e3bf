"""Where a chain ends: records, watermarks and markers go to the writers of the task's result partitions.

Flink: RecordWriterOutput, MultipleRecordWriters.
"""

cimport cython
from cpython.list cimport PyList_GET_ITEM
from libc.stdint cimport int64_t

from flinkbuf._core.task.operator_chain cimport EdgeOutput, OperatorCounters
from flinkbuf._core.flow.record_writer cimport RecordWriter


cdef class RecordWriterOutput(EdgeOutput):
    """To a result partition. `random` chooses the channel of a latency marker."""

    def __init__(self, OperatorCounters counters not None, OperatorCounters task_counters not None,
                 RecordWriter writer not None, random, str tag=None):
        self.counters = counters
        self.task_counters = task_counters
        self.writer = writer
        self.random = random
        self.tag = tag

    cpdef collect(self, object value, int64_t timestamp):
        if self.tag is None:
            self.counters.records_out += 1
            self.task_counters.records_out += 1
            self.push(value, timestamp)

    cpdef collect_side(self, str tag_id, object value, int64_t timestamp):
        if self.tag is not None and self.tag == tag_id:
            self.counters.records_out += 1
            self.task_counters.records_out += 1
            self.push(value, timestamp)

    cdef int push(self, object value, int64_t timestamp) except -1:
        self.value_in_hand = value
        self.is_writing = True
        self.writer.emit_element(value, timestamp)
        self.is_writing = False
        return 0

    cdef int push_watermark(self, int64_t timestamp) except -1:
        return self.writer.emit_watermark(timestamp)

    cdef int push_status(self, bint is_idle) except -1:
        return self.writer.emit_status(is_idle)

    cdef int push_marker(self, object marker) except -1:
        return self.writer.emit_marker(marker, self.random.randrange(self.writer.partition.subpartition_count))

    cdef bint is_network(self) noexcept:
        return True


@cython.final
cdef class PageOutput(RecordWriterOutput):
    """To a result partition, where an element becomes pages: for certain channels, or for the one whose turn it is.

    A page has waited for its rows already, as long as they may wait for others, so it can be read at once, and not only
    when its buffer is full or has waited for the buffer timeout; unless nothing is to be flushed by time. Small
    elements may wait for each other before that, but no longer than event time, a checkpoint or the input.

    Parameters
    ----------
    counters, task_counters, writer, random, tag
        See `RecordWriterOutput`.
    pages_of : callable
        Gives pairs of a channel, or None, and the bytes of a page.
    small : SmallElements, optional
        Where small elements wait; None: none does.
    processing_time : ProcessingTimeService, optional
        Of the operator; needed where they wait.
    max_delay_ms : int, default -1
        How long they wait; -1: until there are enough of them.
    """

    def __init__(self, OperatorCounters counters not None, OperatorCounters task_counters not None,
                 RecordWriter writer not None, random, pages_of, str tag=None, small=None, processing_time=None,
                 int64_t max_delay_ms=-1):
        RecordWriterOutput.__init__(self, counters, task_counters, writer, random, tag)
        self.pages_of = pages_of
        self.small, self.processing_time, self.max_delay_ms = small, processing_time, max_delay_ms

    cdef int push(self, object value, int64_t timestamp) except -1:
        self.value_in_hand = value
        self.is_writing = True
        self.row_count += len(value)
        if self.small is None:
            self.send(value, timestamp)
        else:
            for element in self.small.add(value, self.processing_time.now_ms()):
                self.send(element, element.latest)
            if self.timer is None and self.max_delay_ms > 0 and self.small.count > 0:
                self.set_timer(self.small.began_ms)
        self.is_writing = False
        return 0

    cdef int send(self, object element, int64_t timestamp) except -1:
        """Write the pages of an element; called while `is_writing` is set."""
        self.value_in_hand = element
        for channel, page in self.pages_of(element):
            if channel is None:
                self.writer.emit_element(page, timestamp)
            else:
                self.writer.emit_element_to(page, timestamp, channel)
        if self.writer.has_flusher:
            self.writer.flush()
        return 0

    cdef int push_watermark(self, int64_t timestamp) except -1:
        self.send_waiting()
        return self.writer.emit_watermark(timestamp)

    cdef int push_status(self, bint is_idle) except -1:
        self.send_waiting()
        return self.writer.emit_status(is_idle)

    cdef int push_marker(self, object marker) except -1:
        self.send_waiting()
        return RecordWriterOutput.push_marker(self, marker)

    # ---- elements that wait

    cpdef send_waiting(self):
        if self.small is None or self.small.count == 0:
            return
        self.is_writing = True
        for element in self.small.take():
            self.send(element, element.latest)
        self.is_writing = False
        self.value_in_hand = None

    def set_timer(self, int64_t since_ms):
        self.timer = self.processing_time.register_timer(since_ms + self.max_delay_ms - 1, self.end_delay)

    def end_delay(self, timestamp):
        """The timer; what waits now may have begun to after it was set. Where there is no room, nobody waits for it."""
        cdef int64_t now_ms
        self.timer = None
        if self.small.count == 0:
            return
        now_ms = self.processing_time.now_ms()
        if now_ms - self.small.began_ms < self.max_delay_ms:
            self.set_timer(self.small.began_ms)
        elif not self.writer.has_room():
            self.set_timer(now_ms)
        else:
            self.send_waiting()


@cython.final
cdef class TaskOutputs:
    """The writers of a task. Output is full as soon as one of them is."""

    def __init__(self, writers):
        self.writers = list(writers)
        self.count = len(self.writers)
        if self.count == 1:
            self.only = self.writers[0]

    cdef bint are_all_available(self) noexcept:
        cdef Py_ssize_t i
        for i in range(self.count):
            if not (<RecordWriter>PyList_GET_ITEM(self.writers, i)).has_room():
                return False
        return True

    @property
    def is_available(self):
        """Whether each writer takes a record without waiting."""
        return self.are_available()
