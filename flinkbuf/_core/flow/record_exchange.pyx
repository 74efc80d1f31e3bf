"""The loop of a task that writes and reads: it emits while its output has room, else it reads what has come.

One thread does both, so that two tasks which send to each other cannot lock up: whoever finds no room goes on reading,
which is what makes room for the other. It sleeps only when neither can move, on one bell that the output's pool, the
output's readers and the input's channels all ring. Reading and writing share the time evenly while both are possible:
a slow source of records does not keep away what has arrived, nor a slow taker what is to be sent. Flink: the mailbox
loop of StreamTask.processInput, which asks input and output whether they are available.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from cpython.exc cimport PyErr_CheckSignals

from flinkbuf._core.memory.buffer cimport fb_buffer_slice_release
from flinkbuf._core.memory.local_buffer_pool cimport fb_buffer_pool_usage, fb_local_buffer_pool_get_usage
from flinkbuf._core.ground.errors cimport FB_NEEDS_BUFFER, FB_NEEDS_INPUT
from flinkbuf._core.gate.input_gate cimport InputGate, fb_gate_item, fb_input_gate
from flinkbuf._core.partition.result_partition cimport fb_result_partition_is_released, fb_result_partition_verdict
from flinkbuf._core.ground.wakeup cimport TaskBell, fb_wakeup_seen, fb_wakeup_wait

from flinkbuf.errors import CorruptDataError

cdef extern from "<time.h>" nogil:
    ctypedef int clockid_t
    struct timespec:
        int64_t tv_sec
        long tv_nsec
    int clock_gettime(clockid_t clock, timespec* time)
    clockid_t CLOCK_MONOTONIC

cdef enum:
    TURN_MAX = 64          # records written, or read, between two looks at the clock
    TURN_US = 1000         # fewer, if they took longer than so much
    SLICE_MS = 100         # how long a sleep may be, and how seldom the caller's check
    READ_LEAD_MAX_MS = 100    # what reading has had of the time more than so much, writing does not catch up
    WRITE_LEAD_MAX_MS = 1000  # and the other way round
    END_OF_DATA_BYTES = 5  # of the event, and of the next one
    END_OF_PARTITION_BYTES = 4

cdef object NOTHING = object()


cdef uint32_t next_limit(uint32_t limit, int64_t taken_ns) noexcept nogil:
    """How many records the next turn may have, after one of `limit` that took so long."""
    cdef int64_t wanted_ns = <int64_t>TURN_US * 1000
    if taken_ns <= wanted_ns:
        return min(2 * limit, <uint32_t>TURN_MAX)
    return max(<uint32_t>(limit * wanted_ns // taken_ns), <uint32_t>1)


cdef int64_t now_ns() noexcept nogil:
    cdef timespec time
    clock_gettime(CLOCK_MONOTONIC, &time)
    return time.tv_sec * 1000000000 + time.tv_nsec


cdef class RecordExchange:
    """Write the records of an iterable into a partition, and iterate the records of a gate, both in one thread.

    Parameters
    ----------
    writer : flinkbuf.RecordWriter
        Where the records go. It is closed, and its partition too, when they have all been written.
    reader : flinkbuf.RecordReader
        Where records come from; its gate, or union of gates, was not read from before.
    records : iterable
    check : callable, optional
        Called without arguments about every 100 ms, as long as somebody iterates; what it raises ends the iteration.

    Notes
    -----
    The iteration ends when the gate has, and everything written was read by its readers or is not wanted by them. An
    error of either side, of the iterable or of `check` comes out of the iteration; the caller then fails the partition.

    References
    ----------
    Flink ``StreamTask.processInput``.

    Examples
    --------
    >>> import flinkbuf as fb
    >>> pool = fb.NetworkBufferPool(16, segment_size=4096)
    >>> partition = fb.ResultPartition(pool, 1)
    >>> writer = fb.RecordWriter(partition, fb.Types.LONG(), "global")
    >>> reader = fb.RecordReader(fb.InputGate([(partition, 0)]), fb.Types.LONG())
    >>> sum(RecordExchange(writer, reader, range(1000)))
    499500
    """

    def __cinit__(self, RecordWriter writer not None, RecordReader reader not None, records, check=None):
        self.writer, self.reader = writer, reader
        self.records = iter(records)
        self.check = check
        self.task_bell = writer.partition.bell if writer.partition.bell is not None else TaskBell()
        self.bell = &self.task_bell.c.wakeup
        self.read_limit = self.write_limit = 1
        self.gate = reader.gate
        self.gates = reader.gate.members()
        writer.partition.share_bell(self.task_bell)
        self.gate.share_bell(self.task_bell)

    def __iter__(self):
        return self

    def __next__(self):
        if self.turn > 0:
            self.turn -= 1
            record = self.take()
            if record is not NOTHING:
                return record
        return self.next_turn()

    def write_rest(self):
        """Read no more, but write what is left and wait until its readers have it. Returns at once if that is done."""
        cdef uint64_t seen
        cdef bint is_blocked
        if not self.is_leaving:
            self.is_leaving = True
            self.turn = 0
            self.reader.close()
            self.gate.request_partitions()
        while not self.is_done():
            seen = fb_wakeup_seen(self.bell)
            self.look_around()
            if not self.gate.is_closed:
                self.leave_gate()
            is_blocked = self.write_turn(seen) if self.records is not None else not self.is_done()
            if is_blocked:
                self.sleep(seen)

    def figures(self):
        """Return what was counted so far, by the names of `flinkbuf.spark.exchange.summary.TaskFigures`."""
        if not self.gate.is_closed:
            self.count_input()
        return {
            "records_in": self.read_count, "records_out": self.writer.record_count,
            "bytes_in": self.bytes_in, "bytes_out": self.writer.c.total_written_bytes,
            "buffers_in": self.buffers_in, "buffers_out": self.writer.c.total_buffers,
            "back_pressured_ms": self.back_pressured_ns // 1000000, "idle_ms": self.idle_ns // 1000000,
            "peak_buffers": self.peak_buffers,
        }

    @property
    def has_record_in_hand(self):
        """Whether an error that came out of here was raised over a record that was to be written."""
        return self.writer.has_record_in_hand

    @property
    def is_writing(self):
        """Whether not all records have been written yet."""
        return self.records is not None

    cdef int count_input(self) except -1:
        """What the gate has given so far. The two events at the end of a channel are not what somebody wrote."""
        cdef fb_input_gate* gate
        self.buffers_in = self.bytes_in = 0
        for each in self.gates:
            gate = (<InputGate>each).c
            for channel in range(gate.channel_count):
                self.buffers_in += gate.channels[channel].buffer_count
                self.bytes_in += gate.channels[channel].byte_count
            self.buffers_in -= gate.ended_count + gate.ended_data_count
            self.bytes_in -= END_OF_PARTITION_BYTES * gate.ended_count + END_OF_DATA_BYTES * gate.ended_data_count
        return 0

    cdef object take(self):
        """A record that is there, or NOTHING."""
        cdef const uint8_t* record = NULL
        cdef size_t size = 0
        self.reader.begin_use()
        try:
            if not self.reader.next_record(&record, &size, False):
                return NOTHING
            self.read_count += 1
            return self.reader.decode(record, size)
        except CorruptDataError as error:
            raise self.reader.with_source(error) from None
        finally:
            self.reader.is_busy = False

    cdef object next_turn(self):
        """Do whatever can be done until there is a record to give."""
        cdef uint64_t seen
        cdef bint is_blocked
        if self.is_leaving:
            raise StopIteration
        if self.read_since_ns != 0:
            self.end_read_turn()
        else:
            self.gate.request_partitions()  # so that what arrives rings the bell from the first record on
        while True:
            seen = fb_wakeup_seen(self.bell)  # before anything is looked at: what comes later rings it again
            self.look_around()
            is_blocked = self.records is None
            if self.records is not None and self.read_ahead_ns >= 0:
                is_blocked = self.write_turn(seen)
                if not is_blocked and self.read_ahead_ns >= 0:
                    continue  # its turn goes on
            record = self.take()
            if record is not NOTHING:
                self.turn = self.read_limit - 1
                self.read_since_ns = now_ns()
                return record
            self.read_ahead_ns = max(<int64_t>0, self.read_ahead_ns)  # there is nothing that writing would keep waiting
            if self.records is None and self.reader.is_finished and self.is_consumed():
                raise StopIteration
            if is_blocked:
                self.sleep(seen)

    cdef int end_read_turn(self) except -1:
        cdef int64_t taken_ns = now_ns() - self.read_since_ns
        self.read_since_ns = 0
        self.read_limit = next_limit(self.read_limit, taken_ns)
        self.read_ahead_ns = min(self.read_ahead_ns + taken_ns, <int64_t>READ_LEAD_MAX_MS * 1000000)
        return 0

    cdef bint write_turn(self, uint64_t seen) except -1:
        """Write for a while; returns whether there is nothing more to be done about it now."""
        cdef int64_t since_ns = now_ns()
        cdef int64_t taken_ns
        cdef int code = self.writer.emit_some(self.records, self.write_limit, self.bell, seen)
        if code == FB_NEEDS_INPUT:
            self.end_writing()
        taken_ns = now_ns() - since_ns
        self.write_limit = next_limit(self.write_limit, taken_ns)
        self.read_ahead_ns -= taken_ns
        if code == FB_NEEDS_BUFFER:
            self.read_ahead_ns = min(self.read_ahead_ns, <int64_t>0)  # it can make no use of what it is owed
        self.read_ahead_ns = max(self.read_ahead_ns, -<int64_t>WRITE_LEAD_MAX_MS * 1000000)
        return code == FB_NEEDS_BUFFER

    cdef int end_writing(self) except -1:
        """All records are written: the readers are told, and the pool gives back what it does not need."""
        cdef fb_buffer_pool_usage usage
        self.records = None
        fb_local_buffer_pool_get_usage(self.writer.c.pool, &usage)
        self.peak_buffers = usage.peak
        self.writer.close()
        self.writer.partition.close()
        return 0

    cdef int leave_gate(self) except -1:
        """Drop what arrives, until every producer knows this reader: then it can be told that nobody reads any more.

        One that was not asked yet would wait for ever for somebody who asks.
        """
        cdef fb_gate_item item
        cdef fb_input_gate* gate
        while self.gate.poll_item(&item):
            fb_buffer_slice_release(&item.slice)
        for each in self.gates:
            gate = (<InputGate>each).c
            for channel in range(gate.channel_count):
                if gate.channels[channel].buffer_count == 0:
                    return 0
        self.count_input()
        self.gate.close()
        return 0

    cdef int is_done(self) except -1:
        """Whether nothing is left to do for one who reads no more."""
        return self.records is None and self.is_consumed() and self.gate.is_closed

    cdef int is_consumed(self) except -1:
        """Whether nobody will read from the partition any more; it rings the bell when that comes true. A reader that
        was lost is an error, also when all has been written."""
        if fb_result_partition_verdict(self.writer.c) < 0:
            return self.writer.partition.fail_stopped()
        return fb_result_partition_is_released(self.writer.c)

    cdef int sleep(self, uint64_t seen) except -1:
        """Until the bell rings, or a slice of time is over. The time counts as back-pressure or as idle."""
        cdef int64_t since_ns = now_ns()
        cdef int64_t slept_ns
        with nogil:
            fb_wakeup_wait(self.bell, seen, SLICE_MS)
        slept_ns = now_ns() - since_ns
        if self.records is not None:
            self.back_pressured_ns += slept_ns
            self.writer.c.soft_back_pressured_ms = <uint64_t>(self.back_pressured_ns // 1000000)
        else:
            self.idle_ns += slept_ns
            for each in self.gates:
                if not (<InputGate>each).is_closed:
                    (<InputGate>each).c.idle_ms = <uint64_t>(self.idle_ns // 1000000)
        return 0

    cdef int look_around(self) except -1:
        """Signals, and whatever else the caller looks at now and then."""
        cdef int64_t now = now_ns()
        if fb_result_partition_verdict(self.writer.c) < 0:
            self.writer.partition.fail_stopped()
        if now < self.look_at_ns:
            return 0
        self.look_at_ns = now + <int64_t>SLICE_MS * 1000000
        PyErr_CheckSignals()
        if self.check is not None:
            self.check()
        return 0
