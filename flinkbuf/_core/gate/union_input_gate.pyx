"""The binding of csrc/gate/union_input_gate.h: several input gates read as one."""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t

from flinkbuf._core.ground.errors cimport FB_ESTATE, fail
from flinkbuf._core.gate.input_gate cimport InputGate, RecordCounts, fb_input_gate_set_priority
from flinkbuf._core.ground.wakeup cimport TaskBell


@cython.no_gc_clear  # close() needs the gates
cdef class UnionInputGate(AbstractInputGate):
    """Input gates read as one; see `flinkbuf.network.UnionInputGate`."""

    def __cinit__(self, gates):
        cdef InputGate gate
        cdef fb_input_gate** pointers
        cdef tuple given = tuple(gates)
        cdef int code
        for index, each in enumerate(given):
            if not isinstance(each, InputGate):
                raise TypeError(f"a union is made of InputGates, but number {index} is of type {type(each).__name__}")
            gate = each
            gate.check_usable()
        if len(given) < 2:
            raise ValueError(f"a union needs at least two input gates, got {len(given)}")
        if len({id(each) for each in given}) < len(given):
            raise ValueError("an input gate can be only once in a union")
        pointers = <fb_input_gate**>PyMem_Malloc(len(given) * sizeof(fb_input_gate*))
        if pointers is NULL:
            raise MemoryError(f"no memory for a union of {len(given)} gates")
        for index in range(len(given)):
            gate = given[index]
            pointers[index] = gate.c
        code = fb_union_input_gate_open(&self.c, pointers, <uint32_t>len(given))
        PyMem_Free(pointers)
        if code < 0:
            fail(code, "an input gate that was read already, or belongs to another union, cannot be united"
                       if code == FB_ESTATE else None)
        self.gates = given
        for each in given:
            gate = each
            fb_input_gate_set_priority(gate.c, &self.priority)

    def __dealloc__(self):
        if self.gates is not None:
            self.close_once()  # not by its name: at the end of the interpreter classes have none any more

    def request_partitions(self):
        """Attach to all partitions; effective once. `poll` does it at its first call."""
        cdef uint32_t failed = 0
        cdef int code
        self.check_usable()
        if self.is_requested:
            return
        self.mark_waiting(1)
        with nogil:
            code = fb_union_input_gate_request_partitions(&self.c, &failed)
        self.mark_waiting(-1)
        if code < 0:
            self.fail_channel(code, failed)
        self.is_requested = True

    def resume_consumption(self, uint32_t channel_index):
        """Let a channel go on that a checkpoint barrier blocked."""
        cdef uint32_t local = 0
        self.gate_of(channel_index, &local).resume_consumption(local)

    def convert_to_priority(self, uint32_t channel_index, int32_t sequence_number):
        """Let a checkpoint barrier that a channel has announced overtake the records before it; whether it is there."""
        cdef uint32_t local = 0
        return self.gate_of(channel_index, &local).convert_to_priority(local, sequence_number)

    def acknowledge_all_records_processed(self, uint32_t channel_index):
        """Tell the producer of a channel that all of its records, up to EndOfData, have been processed."""
        cdef uint32_t local = 0
        self.gate_of(channel_index, &local).acknowledge_all_records_processed(local)

    cdef int close_channels(self) except -1:
        cdef InputGate gate
        cdef bint is_of_this_process = True
        for each in self.gates:
            gate = each
            is_of_this_process = is_of_this_process and gate.is_of_this_process()
            gate.close_once()
        # In a forked child the threads that ring the bell, and hold its lock perhaps, are the parent's.
        if is_of_this_process:
            self.release_held()
            fb_union_input_gate_close(&self.c)
        self.held.slice.buffer = NULL
        return 0

    @property
    def channel_count(self):
        """Channels of all gates."""
        return sum([gate.channel_count for gate in self.gates])

    @property
    def is_closed(self):
        """Whether `close` was called, here or for one of the gates."""
        return any([gate.is_closed for gate in self.gates])

    @property
    def is_finished(self):
        """Whether every channel gave its EndOfPartition."""
        return all([gate.is_finished for gate in self.gates])

    @property
    def has_received_end_of_data(self):
        """Whether every channel gave its EndOfData."""
        return all([gate.has_received_end_of_data for gate in self.gates])

    @property
    def is_drained(self):
        """Whether every channel gave its EndOfData in the mode DRAIN."""
        return all([gate.is_drained for gate in self.gates])

    @property
    def queued_channel_count(self):
        """Channels that have something to read now."""
        return sum([gate.queued_channel_count for gate in self.gates])

    cdef int check_usable(self) except -1:
        cdef InputGate gate
        for each in self.gates:
            gate = each
            gate.check_usable()
        return 0

    cdef object gate_of(self, uint32_t channel_index, uint32_t* local):
        self.check_usable()
        if channel_index >= self.c.channel_count:
            raise IndexError(f"channel {channel_index} of a union with {self.c.channel_count}")
        return self.gates[fb_union_input_gate_find(&self.c, channel_index, local)]

    cdef object decompressor_of(self, uint32_t channel_index):
        cdef uint32_t local = 0
        cdef InputGate gate = self.gate_of(channel_index, &local)
        return gate.decompressor_of(local)

    cdef str source_of(self, uint32_t channel_index):
        cdef uint32_t local = 0
        cdef InputGate gate = self.gate_of(channel_index, &local)
        return gate.source_of(local)

    cdef int take_item(self, fb_gate_item* item) except -1:
        cdef uint32_t gate_index = 0
        cdef int code
        self.check_usable()
        if not self.is_requested:
            self.request_partitions()
        code = fb_union_input_gate_poll(&self.c, item, &gate_index)
        return code if code >= 0 else self.fail_channel(code, item.channel_index)

    cdef int take_priority(self, fb_gate_item* item) except -1:
        cdef InputGate gate
        cdef uint32_t first_channel = 0
        for each in self.gates:
            gate = each
            if gate.take_priority(item):
                item.channel_index += first_channel
                return 1
            first_channel += gate.c.channel_count
        return 0

    cdef int set_bell(self, TaskBell bell) except -1:
        self.check_usable()
        if self.is_requested:
            raise RuntimeError("the union of input gates is read already")
        if self.bell is not None:
            raise RuntimeError("the union of input gates rings another task's bell")
        fb_union_input_gate_set_wakeup(&self.c, &bell.c.wakeup)
        for each in self.gates:
            (<InputGate>each).bell = bell  # they ring it as long as they live
        return 0

    cdef tuple members(self):
        return self.gates

    cdef int fail_channel(self, int code, uint32_t channel_index) except -1:
        cdef uint32_t local = 0
        cdef InputGate gate = self.gate_of(channel_index, &local)
        return gate.fail_channel(code, local, channel_index - local)

    cdef bint has_finished(self):
        return fb_union_input_gate_is_finished(&self.c)

    cdef int show_counts(self, RecordCounts counts, uint32_t offset) except -1:
        cdef InputGate gate
        for each in self.gates:
            gate = each
            gate.show_counts(counts, offset)
            offset += gate.channel_count
        return 0

    cdef int mark_waiting(self, int change) except -1:
        """Count one waiting thread more or less at each gate: `close` of a gate waits for them."""
        cdef InputGate gate
        for each in self.gates:
            gate = each
            gate.waiting += change
        return 0

    cdef int wait(self, int64_t timeout_ms) except -1:
        cdef bint ready
        self.check_usable()
        self.mark_waiting(1)
        with nogil:
            ready = fb_union_input_gate_wait(&self.c, timeout_ms)
        self.mark_waiting(-1)
        PyErr_CheckSignals()
        return ready
