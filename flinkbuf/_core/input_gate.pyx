"""The binding of csrc/input_gate.h: which of a consumer's channels have something to read."""

import operator

from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport INT64_MAX

from flinkbuf._core.buffer cimport Buffer
from flinkbuf._core.errors cimport FB_ERELEASED, check, fail
from flinkbuf._core.result_partition cimport ResultPartition, fb_result_partition_failure

from flinkbuf.errors import CancelTaskError

cdef enum:
    WAIT_SLICE_MS = 100


cdef class InputGate:
    """A consumer's channels; see `flinkbuf.InputGate`."""

    def __cinit__(self, channels):
        cdef ResultPartition partition
        cdef list pairs = [(channel[0], channel[1]) for channel in channels]
        self.c = <fb_input_gate*>PyMem_Malloc(sizeof(fb_input_gate))
        if self.c is NULL:
            raise MemoryError("no memory for an input gate")
        self.c.channels = NULL
        if not pairs:
            raise ValueError("an input gate needs at least one channel")
        check(fb_input_gate_open(self.c, <uint32_t>len(pairs)))
        self.sources = []
        for index, (source, subpartition_index) in enumerate(pairs):
            if not isinstance(source, ResultPartition):
                raise TypeError(f"channel {index} needs a ResultPartition to read, got {type(source).__name__}")
            partition = source
            subpartition_index = operator.index(subpartition_index)
            if not 0 <= subpartition_index < partition.c.subpartition_count:
                raise IndexError(f"channel {index} asks for subpartition {subpartition_index} of a partition that has "
                                 f"{partition.c.subpartition_count}")
            check(fb_input_gate_set_local(self.c, <uint32_t>index, partition.c, <uint32_t>subpartition_index))
            self.sources.append(partition)

    def __dealloc__(self):
        if self.c is not NULL:
            fb_input_gate_close(self.c)
            PyMem_Free(self.c)

    def request_partitions(self):
        """Attach to all partitions; effective once. `poll` does it at its first call."""
        cdef uint32_t failed = 0
        cdef int code
        if self.c.is_requested:
            return
        code = fb_input_gate_request_partitions(self.c, &failed)
        if code == FB_ERELEASED:
            self.fail_released(failed)
        if code < 0:
            fail(code, f"channel {failed} cannot read subpartition {self.c.channels[failed].subpartition_index}")

    def poll(self, timeout_ms=0):
        """Take the next buffer or event.

        Parameters
        ----------
        timeout_ms : int or None, default 0
            How long to wait for one, in milliseconds; None waits until there is one or the gate is finished.

        Returns
        -------
        tuple of (int, Buffer) or None
            Channel index and what came from it; None if nothing came in time, or nothing will come any more.
        """
        cdef fb_gate_item item
        cdef int64_t left = INT64_MAX if timeout_ms is None else timeout_ms
        while not self.poll_item(&item):
            if fb_input_gate_is_finished(self.c) or left <= 0:
                return None
            self.wait(min(left, WAIT_SLICE_MS))
            left -= WAIT_SLICE_MS
        return item.channel_index, Buffer.adopt(item.slice)

    def resume_consumption(self, uint32_t channel_index):
        """Let a channel go on that a checkpoint barrier blocked."""
        check(fb_input_gate_resume(self.c, channel_index))

    def close(self):
        """Give up all channels; what is queued for them is dropped by their partitions. Idempotent."""
        fb_input_gate_close(self.c)
        self.sources = []

    @property
    def channel_count(self):
        return self.c.channel_count

    @property
    def is_closed(self):
        return not self.c.is_open

    @property
    def is_finished(self):
        """Whether every channel gave its EndOfPartition."""
        return self.c.is_open and fb_input_gate_is_finished(self.c)

    @property
    def has_received_end_of_data(self):
        """Whether every channel gave its EndOfData."""
        return self.c.is_open and self.c.ended_data_count == self.c.channel_count

    @property
    def is_drained(self):
        """Whether every channel gave its EndOfData in the mode DRAIN."""
        return self.c.is_open and self.c.drained_count == self.c.channel_count

    @property
    def queued_channel_count(self):
        """Channels that have something to read now."""
        return fb_input_gate_queued_channels(self.c) if self.c.is_open else 0

    cdef int poll_item(self, fb_gate_item* item) except -1:
        """1 and an item whose slice the caller owns, or 0."""
        cdef int code
        if not self.c.is_open:
            raise RuntimeError("the input gate is closed")
        if not self.c.is_requested:
            self.request_partitions()
        code = fb_input_gate_poll(self.c, item)
        if code == FB_ERELEASED:
            self.fail_released(item.channel_index)
        return check(code)

    cdef int fail_released(self, uint32_t channel_index) except -1:
        cdef const char* cause = fb_result_partition_failure(self.c.channels[channel_index].partition)
        where = f"channel {channel_index} has not been read to its end"
        if cause is NULL:
            return fail(FB_ERELEASED, where)
        raise CancelTaskError(f"{where}: its producer failed with {cause.decode('utf-8', 'replace')}")

    cdef int wait(self, int64_t timeout_ms) except -1:
        cdef bint ready
        with nogil:
            ready = fb_input_gate_wait(self.c, timeout_ms)
        PyErr_CheckSignals()
        return ready
