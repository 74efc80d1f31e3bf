"""What an unaligned checkpoint takes along of the channels of a task, and gives back to them when it is restored.

The state of a channel is the stream of bytes that its barrier has overtaken: framed records, of which the first may
have begun, and the last may end, on the other side of the edge. Of an input that is what its reader has begun, what
has arrived, and what arrives until the barrier does; of an output, what is queued. Only what arrives is kept, in C;
all else is copied at once, so that no buffer is missing as credit or in a pool. Flink: ChannelStateWriter,
ChannelStatePersister, SequentialChannelStateReader.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t
from libc.string cimport memset

from flinkbuf._core.memory.buffer cimport Buffer, fb_buffer_slice_retain
from flinkbuf._core.ground.errors cimport FB_ESTATE, FB_ETOO_LARGE, check, fail
from flinkbuf._core.gate.input_gate cimport (
    fb_input_gate_restore, fb_input_gate_set_persisting_budget, fb_input_gate_start_persisting,
    fb_input_gate_stop_persisting,
)
from flinkbuf._core.record.record_deserializer cimport fail_record, fb_record_deserializer_unconsumed
from flinkbuf._core.partition.result_partition cimport (
    fb_result_partition_broadcast_barrier, fb_result_partition_convert_barrier, fb_result_partition_has_barrier,
    fb_result_partition_restore,
)
from flinkbuf._core.memory.slice_list cimport fb_slice_list_close, join_slices


cdef bint has_compressed(const fb_slice_list* slices) noexcept:
    cdef uint32_t i
    for i in range(slices.count):
        if slices.items[i].is_compressed:
            return True
    return False


@cython.final
cdef class InputChannelState:
    """Of all channels that a `RecordReader` reads. One thread, that of the reader, between two records.

    Parameters
    ----------
    reader : RecordReader
        Gives events, and stays the caller's.
    """

    def __init__(self, RecordReader reader not None):
        self.reader = reader
        self.gates = reader.gate.members()

    def restore(self, uint32_t channel, const uint8_t[::1] data not None):
        """Give these bytes before all that the channel brings; before the first read.

        Raises
        ------
        RuntimeError
            Something of the channel was read already, or restored.
        """
        cdef uint32_t local = channel
        cdef InputGate gate = self.find(&local)
        cdef size_t size = <size_t>data.shape[0]
        cdef int code = fb_input_gate_restore(gate.c, local, &data[0] if size > 0 else NULL, size)
        if code < 0:
            fail(code, f"channel {channel} has been read or restored already" if code == FB_ESTATE else None)

    @property
    def is_restored(self):
        """Whether all that was restored has been taken from the gate."""
        cdef InputGate gate
        for each in self.gates:
            gate = each
            if gate.c.restored_count > 0:
                return False
        return True

    def start(self, int64_t checkpoint_id, int64_t max_bytes):
        """Keep what was not read yet, and what comes from now on until the checkpoint's barrier.

        Parameters
        ----------
        checkpoint_id : int
        max_bytes : int
            Arriving data of each gate that are kept at most.

        Returns
        -------
        bool
            False: a barrier of a newer checkpoint is there already, and nothing is kept.
        """
        cdef InputGate gate
        cdef bint has_started = False
        if self.reader.is_busy or self.reader.kept_values is not None:
            raise RuntimeError("a checkpoint begins between two records: the reader is reading, or holds a column")
        if self.reader.gate.held.slice.buffer is not NULL:
            raise RuntimeError("no checkpoint can begin: a buffer that has arrived cannot be decompressed")
        self.abort()
        for each in self.gates:
            gate = each
            gate.check_usable()
            fb_input_gate_set_persisting_budget(gate.c, max_bytes)
        self.parts, self.checkpoint_id = {}, checkpoint_id
        try:
            has_started = self.start_all(checkpoint_id)
        finally:
            if not has_started:
                self.abort()
        return has_started

    cdef bint start_all(self, int64_t checkpoint_id) except -1:
        cdef InputGate gate
        cdef uint32_t first = 0
        cdef uint32_t index
        for each in self.gates:
            gate = each
            for index in range(gate.c.channel_count):
                if not self.start_channel(gate, first, index, checkpoint_id):
                    return False
            first += gate.c.channel_count
        return True

    cdef bint start_channel(self, InputGate gate, uint32_t first, uint32_t index, int64_t checkpoint_id) except -1:
        cdef fb_slice_list overtaken
        cdef int code
        memset(&overtaken, 0, sizeof(overtaken))
        try:
            code = fb_input_gate_start_persisting(gate.c, index, checkpoint_id, &overtaken)
            if code == FB_ESTATE:
                return False
            check(code)
            self.add_unconsumed(first + index)
            self.add_slices(gate, first + index, &overtaken)
        finally:
            fb_slice_list_close(&overtaken)
        return True

    def stop(self):
        """Return what came together since `start`: by channel, its bytes in parts; only of channels that have any.

        Raises
        ------
        MemoryError
            More came than was to be kept: the checkpoint cannot be completed.
        """
        cdef InputGate gate
        cdef uint32_t first = 0
        cdef uint32_t index
        if self.checkpoint_id is None:
            raise RuntimeError("no checkpoint was started")
        try:
            for each in self.gates:
                gate = each
                gate.check_usable()
                for index in range(gate.c.channel_count):
                    self.stop_channel(gate, first, index)
                first += gate.c.channel_count
            return self.parts
        finally:
            self.abort()

    cdef int stop_channel(self, InputGate gate, uint32_t first, uint32_t index) except -1:
        cdef fb_slice_list arrived
        cdef int code
        memset(&arrived, 0, sizeof(arrived))
        try:
            code = fb_input_gate_stop_persisting(gate.c, index, &arrived)
            if code == FB_ETOO_LARGE:
                raise MemoryError(
                    f"checkpoint {self.checkpoint_id}: more data arrived while it waited for the barrier of channel "
                    f"{first + index} than one unaligned checkpoint may keep")
            check(code)
            self.add_slices(gate, first + index, &arrived)
        finally:
            fb_slice_list_close(&arrived)
        return 0

    def abort(self):
        """Keep nothing any more. Idempotent."""
        cdef InputGate gate
        cdef fb_slice_list dropped
        cdef uint32_t index
        self.parts = None
        if self.checkpoint_id is None:
            return
        self.checkpoint_id = None
        memset(&dropped, 0, sizeof(dropped))
        for each in self.gates:
            gate = each
            if gate.is_closed:
                continue  # it has dropped all of it
            for index in range(gate.c.channel_count):
                fb_input_gate_stop_persisting(gate.c, index, &dropped)
        fb_slice_list_close(&dropped)

    @property
    def size(self):
        """Bytes that were there at the `start` of the checkpoint that runs."""
        return 0 if self.parts is None else sum([len(part) for parts in self.parts.values() for part in parts])

    cdef InputGate find(self, uint32_t* channel):
        """The gate of a channel, whose index becomes that in the gate."""
        cdef InputGate gate
        cdef uint32_t index = channel[0]
        for each in self.gates:
            gate = each
            gate.check_usable()
            if channel[0] < gate.c.channel_count:
                return gate
            channel[0] -= gate.c.channel_count
        raise IndexError(f"channel {index} of an input with {self.reader.gate.channel_count}")

    cdef int add_unconsumed(self, uint32_t channel) except -1:
        """The record that was begun, and what is left of the buffer that is being read."""
        cdef int64_t size = fb_record_deserializer_unconsumed(&self.reader.deserializers[channel], 0, NULL, 0)
        cdef bytes unconsumed
        if size <= 0:
            return 0
        unconsumed = PyBytes_FromStringAndSize(NULL, size)
        size = fb_record_deserializer_unconsumed(&self.reader.deserializers[channel], 0,
                                                 <uint8_t*>PyBytes_AS_STRING(unconsumed), <size_t>size)
        if size < 0:
            fail_record(&self.reader.deserializers[channel], <int>size, channel)
        return self.add(channel, unconsumed)

    cdef int add_slices(self, InputGate gate, uint32_t channel, const fb_slice_list* slices) except -1:
        cdef uint32_t i
        cdef Buffer buffer
        if not has_compressed(slices):
            return self.add(channel, join_slices(slices))
        if gate.decompressor is None:
            raise RuntimeError(f"channel {channel} has brought compressed buffers, but the gate has no decompressor")
        for i in range(slices.count):
            fb_buffer_slice_retain(&slices.items[i])
            buffer = Buffer.adopt(slices.items[i])
            with buffer:
                original = gate.decompressor.decompress(buffer) if slices.items[i].is_compressed else buffer
                self.add(channel, bytes(original))
        return 0

    cdef int add(self, uint32_t channel, bytes part) except -1:
        if len(part) > 0:
            self.parts.setdefault(channel, []).append(part)
        return 0


@cython.final
cdef class OutputChannelState:
    """Of all subpartitions of a `ResultPartition`. One thread, that of the producer, between two records.

    Parameters
    ----------
    partition : ResultPartition
        Stays the caller's.
    """

    def __cinit__(self, ResultPartition partition not None):
        self.partition = partition
        self.lists = <fb_slice_list*>PyMem_Calloc(partition.c.subpartition_count, sizeof(fb_slice_list))
        if self.lists is NULL:
            raise MemoryError(f"no memory for {partition.c.subpartition_count} subpartitions")

    def __dealloc__(self):
        PyMem_Free(self.lists)

    def restore(self, uint32_t subpartition, const uint8_t[::1] data not None):
        """Queue these bytes before all that will be written to a subpartition.

        Raises
        ------
        RuntimeError
            Something was written to it already.
        """
        cdef size_t size = <size_t>data.shape[0]
        cdef int code
        self.partition.check_open()
        self.partition.check_index(subpartition)
        self.partition.claim()
        try:
            code = fb_result_partition_restore(self.partition.c, subpartition, &data[0] if size > 0 else NULL, size)
        finally:
            self.partition.unclaim()
        if code == FB_ESTATE:
            fail(code, f"subpartition {subpartition} was written to before its state was restored")
        self.partition.check_written(code)

    def broadcast_barrier(self, const uint8_t[::1] barrier not None):
        """Send an unaligned barrier, given as its bytes, to all; it overtakes what is queued.

        Returns
        -------
        list of (int, bytes)
            What it has overtaken, of each subpartition where that is anything.

        Raises
        ------
        RuntimeError
            In the middle of a record.
        """
        cdef int code
        self.partition.claim()
        try:
            try:
                code = fb_result_partition_broadcast_barrier(
                    self.partition.c, &barrier[0], <size_t>barrier.shape[0], self.lists)
            finally:
                self.partition.unclaim()
            if code == FB_ESTATE:
                fail(code, "an unaligned barrier cannot be sent in the middle of a record")
            self.partition.check_written(code)
        finally:
            overtaken = self.take_lists()
        return overtaken

    def convert_barrier(self, int64_t checkpoint_id):
        """Let a barrier that was sent with a timeout overtake where it is still queued.

        Returns
        -------
        tuple of (bool, list of (int, bytes))
            Whether it was anywhere, and what it has overtaken.
        """
        cdef int code
        self.partition.claim()
        try:
            try:
                code = fb_result_partition_convert_barrier(self.partition.c, checkpoint_id, self.lists)
            finally:
                self.partition.unclaim()
            check(code)
        finally:
            overtaken = self.take_lists()
        return code == 1, overtaken

    def has_barrier(self, int64_t checkpoint_id):
        """Whether `convert_barrier` would find it. The task's bell rings when it leaves a queue."""
        return fb_result_partition_has_barrier(self.partition.c, checkpoint_id)

    cdef list take_lists(self):
        """What the lists hold, by subpartition; they are empty then."""
        cdef uint32_t i
        cdef list taken = []
        try:
            for i in range(self.partition.c.subpartition_count):
                if self.lists[i].size > 0:
                    taken.append((i, join_slices(&self.lists[i])))
        finally:
            for i in range(self.partition.c.subpartition_count):
                fb_slice_list_close(&self.lists[i])
        return taken
