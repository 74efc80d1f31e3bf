"""State as bytes: the entries of one state, or of one timer service, by key group.

A section is a sequence of entries, each behind a byte that says what it is: an entry of key and value, one with stamps,
or a namespace for those that follow; a section begins in the default namespace. Values are written by the codecs of
their types, straight out of the dict into one buffer a key group. The loops let other threads run every millisecond or
two, so that a task whose state is being written is not held up. Flink: the key groups of HeapSnapshotStrategy.
"""

from sys import getswitchinterval

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_Next
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec
from posix.unistd cimport usleep

from flinkbuf._core.ground.byte_order cimport fb_load_be64, fb_store_be64
from flinkbuf._core.ground.crc32 cimport fb_crc32
from flinkbuf._core.ground.data_view cimport (
    fb_data_input_left, fb_data_output_close, fb_data_output_prune, fb_data_output_reserve, fb_data_output_size,
    fb_data_output_start_scratch,
)
from flinkbuf._core.ground.errors cimport check
from flinkbuf.errors import CorruptDataError, state_refused
from flinkbuf._core.state.key_context cimport KeyContext, key_of_token
from flinkbuf._core.record.key_group cimport KeyGrouper
from flinkbuf._core.state.keyed_state cimport KeyedListState, KeyedMapState, KeyedState
from flinkbuf._core.value.python_object cimport FB_IDENTITY
from flinkbuf._core.state.state_table cimport StateTable
from flinkbuf._core.value.type_codec cimport decode_value, encode_value

cdef enum:
    MAX_SLICE_NS = 10_000_000  # how long other threads wait at most
    CLOCK_STEPS = 64           # entries between two looks at the clock, or
    CLOCK_SIZE = 1 << 14       # bytes
    GIL_FREE_SIZE = 1 << 23    # fewer bytes are copied before the interpreter has changed hands
    KEEP_BYTES = 1 << 20   # a larger buffer is given back when it has been written

cdef TypeCodec OBJECT = TypeCodec("OBJECT")


cdef int64_t now_ns() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec * 1_000_000_000 + now.tv_nsec


cdef int breathe() except -1:
    """Let another thread have the interpreter: who gives it up for no time at all gets it back before others wake.

    On busy cores that is so after any time. Python waits for others to have had it only where one has asked for it, as
    it does after the switch interval: slices are longer than that.
    """
    with nogil:
        usleep(20)
    return 0


cdef class GroupWriter:
    """Collects the bytes of one state after another, a buffer for each key group of a subtask.

    Parameters
    ----------
    grouper : KeyGrouper
        Says which group a key is in.
    key_codec : TypeCodec or None
        Of the keys; None: any keys.
    is_cancelled : callable
        Asked every few milliseconds.
    """

    def __cinit__(self, KeyGrouper grouper not None, TypeCodec key_codec, is_cancelled):
        cdef Py_ssize_t i
        self.grouper = grouper
        self.key_codec = OBJECT if key_codec is None else key_codec
        self.is_cancelled = is_cancelled
        self.count = grouper.last - grouper.first + 1
        self.buffers = <group_buffer*>calloc(self.count, sizeof(group_buffer))
        if self.buffers is NULL:
            raise MemoryError(f"no memory for the buffers of {self.count} key groups")
        for i in range(self.count):
            self.buffers[i].output.record_number = -1
        self.min_slice_ns = <int64_t>(1.25e9 * getswitchinterval())
        self.slice_end = now_ns() + self.min_slice_ns

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.buffers is not NULL:
            for i in range(self.count):
                fb_data_output_close(&self.buffers[i].output)
            free(self.buffers)

    cdef group_buffer* buffer_of(self, object key) except NULL:
        return &self.buffers[self.grouper.own_group(key) - self.grouper.first]

    cdef int put_entry(self, object namespace, int64_t namespace_number, object key, TypeCodec codec, object value,
                       object stamps) except -1:
        """Append one entry; `namespace_number` tells namespaces apart, 0 is the default one."""
        cdef group_buffer* buffer = self.buffer_of(key)
        cdef fb_data_output* output = &buffer.output
        cdef size_t before = fb_data_output_size(output)
        if buffer.namespace_number != namespace_number:
            check(fb_data_output_reserve(output, 1))
            output.pos[0] = NAMESPACE
            output.pos += 1
            encode_value(OBJECT, namespace, output)
            buffer.namespace_number = namespace_number
        check(fb_data_output_reserve(output, 1))
        output.pos[0] = ENTRY if stamps is None else STAMPED_ENTRY
        output.pos += 1
        encode_value(self.key_codec, key, output)
        encode_value(codec, value, output)
        if stamps is not None:
            encode_value(OBJECT, stamps, output)
        self.size += fb_data_output_size(output) - before
        return 0

    cdef bint may_rest(self) noexcept:
        """Count an entry; whether it is time to look at the clock."""
        self.steps += 1
        return self.steps >= CLOCK_STEPS or self.size - self.looked_size >= CLOCK_SIZE

    cdef int rest(self) except -1:
        """Let others run if it is time; InterruptedError if nobody wants the bytes any more.

        A task that waits for records is back at its next one soon after the switch interval. Others that are busy and
        keep the interpreter for long are held up as long as they have held up the writer, so that it comes to its end.
        """
        cdef int64_t begin = now_ns(), end
        self.steps, self.looked_size = 0, self.size
        if begin >= self.slice_end:
            breathe()
            end = now_ns()
            self.slice_end = end + max(min(end - begin, MAX_SLICE_NS), self.min_slice_ns)
            if self.is_cancelled():
                raise InterruptedError("the snapshot was cancelled")
        return 0

    def put_timers(self, timers, Py_ssize_t limit):
        """Take timers, as (time, token, namespace), out of an iterator; returns whether it is at its end.

        Stops when there are `limit` bytes.
        """
        cdef group_buffer* buffer
        cdef fb_data_output* output
        cdef size_t before
        for time, token, namespace in timers:
            key = key_of_token(token)
            buffer = self.buffer_of(key)
            output = &buffer.output
            before = fb_data_output_size(output)
            check(fb_data_output_reserve(output, 8))
            fb_store_be64(output.pos, <uint64_t><int64_t>time)
            output.pos += 8
            encode_value(self.key_codec, key, output)
            encode_value(OBJECT, namespace, output)
            self.size += fb_data_output_size(output) - before
            if self.may_rest():
                self.rest()
            if self.size >= limit:
                return False
        return True

    def gather(self):
        """Put the bytes of all groups together.

        Returns
        -------
        tuple
            The bytes, and for each group that has any (key group, size, CRC 32).
        """
        cdef bytes gathered = PyBytes_FromStringAndSize(NULL, self.size)
        cdef uint8_t* pos = <uint8_t*>PyBytes_AS_STRING(gathered)
        cdef fb_data_output* output
        cdef list parts = []
        cdef Py_ssize_t i
        if self.size < GIL_FREE_SIZE:
            self.copy_all(pos)
        else:
            with nogil:
                self.copy_all(pos)
        for i in range(self.count):
            output = &self.buffers[i].output
            if output.pos != output.start:
                parts.append((self.grouper.first + i, output.pos - output.start, self.buffers[i].checksum))
        return gathered, parts

    cdef void copy_all(self, uint8_t* pos) noexcept nogil:
        """Copy the bytes of all groups to `pos`, and note their checksums."""
        cdef fb_data_output* output
        cdef Py_ssize_t i
        cdef size_t size
        for i in range(self.count):
            output = &self.buffers[i].output
            size = output.pos - output.start
            if size > 0:
                memcpy(pos, output.start, size)
                self.buffers[i].checksum = fb_crc32(0, pos, size)
                pos += size

    def clear(self):
        """Begin with empty buffers."""
        cdef fb_data_output* output
        cdef Py_ssize_t i
        self.size = self.looked_size = 0
        for i in range(self.count):
            output = &self.buffers[i].output
            if output.start is not NULL:
                fb_data_output_prune(output, KEEP_BYTES)
                fb_data_output_start_scratch(output)
            self.buffers[i].namespace_number = 0


cdef bint is_over(list layers, object token) except -1:
    for layer in layers:
        if token in <dict>layer:
            return True
    return False


cdef class TableEncoder:
    """Writes a frozen table into the buffers of key groups, some bytes at a time.

    Parameters
    ----------
    table : FrozenTable
        All values of the state at the moment of the snapshot.
    state : KeyedState
        Says how a stored value is split into value and stamps.
    codec : TypeCodec or None
        Of values; None: any values.
    has_stamps : bool
        Whether values expire.
    expire_at : int or None
        What has expired by then is left out; None: nothing is.
    """

    def __init__(self, FrozenTable table not None, KeyedState state not None, TypeCodec codec, bint has_stamps,
                 expire_at):
        self.table = table
        self.state = state
        self.codec = OBJECT if codec is None else codec
        self.has_stamps = has_stamps
        self.expire_at = expire_at
        self.layers = iter(table.parts())

    def write(self, GroupWriter writer not None, Py_ssize_t limit):
        """Go on until there are `limit` bytes; returns whether all is written."""
        while True:
            if self.space is None:
                found = next(self.layers, None)
                if found is None:
                    return True
                self.namespace, self.space, self.over = found
                self.namespace_number = 0
                if self.namespace is not None:
                    self.last_number += 1
                    self.namespace_number = self.last_number
                self.position = 0
            if not self.write_space(writer, limit):
                return False
            self.space = None

    cdef bint write_space(self, GroupWriter writer, Py_ssize_t limit) except -1:
        cdef PyObject *raw_token
        cdef PyObject *raw_value
        cdef object stamps = None
        while PyDict_Next(self.space, &self.position, &raw_token, &raw_value):
            token, value = <object>raw_token, <object>raw_value
            if writer.may_rest():
                if self.table.is_released:
                    raise InterruptedError("the snapshot was cancelled")
                writer.rest()
            if value is None or (self.over is not None and is_over(self.over, token)):
                continue
            if self.has_stamps:
                if self.expire_at is not None:
                    value = self.state.without_expired(value, self.expire_at)
                    if value is None:
                        continue
                value, stamps = self.state.split(value)
            key = key_of_token(token)
            try:
                writer.put_entry(self.namespace, self.namespace_number, key, self.codec, value, stamps)
            except (TypeError, ValueError, OverflowError) as error:
                raise state_refused(error, f"the state {self.state.name!r} of the key {key!r}") from error
            if writer.size >= limit:
                return False
        return True


cdef class StateReader:
    """Goes over bytes that a GroupWriter has written."""

    def __cinit__(self, const unsigned char[::1] view not None):
        self.view = view
        self.input.start = self.input.pos = NULL
        if view.shape[0] > 0:
            self.input.start = self.input.pos = &view[0]
        self.input.end = self.input.start + view.shape[0]
        self.input.record_number = self.input.channel = -1

    cdef object get(self, TypeCodec codec):
        return FB_IDENTITY(decode_value(codec, &self.input))

    cdef int64_t get_number(self) except? -1:
        cdef int64_t number
        if fb_data_input_left(&self.input) < 8:
            raise CorruptDataError("the bytes of a state end inside of a number")
        number = <int64_t>fb_load_be64(self.input.pos)
        self.input.pos += 8
        return number


cdef object joined(KeyedState state, object value, object stamps):
    """A value as the table keeps it; what does not fit the kind of state would be taken for it without another look."""
    if isinstance(state, KeyedListState) and type(value) is not list:
        raise CorruptDataError(f"the bytes of the list state {state.name!r} hold a {type(value).__name__}")
    if isinstance(state, KeyedMapState) and type(value) is not dict:
        raise CorruptDataError(f"the bytes of the map state {state.name!r} hold a {type(value).__name__}")
    try:
        return state.join(value, stamps)
    except (TypeError, ValueError, AttributeError) as error:
        raise CorruptDataError(f"the bytes of the state {state.name!r} hold no stamps: {error}") from error


def read_entries(data, KeyedState state, KeyContext keys, TypeCodec key_codec, TypeCodec codec, bint has_stamps):
    """Put the entries of one section into a state."""
    cdef StateReader reader = StateReader(data)
    cdef StateTable table = state.table
    cdef uint8_t what
    cdef object namespace = None, stamps = None
    key_codec = OBJECT if key_codec is None else key_codec
    codec = OBJECT if codec is None else codec
    while reader.input.pos < reader.input.end:
        what = reader.input.pos[0]
        reader.input.pos += 1
        if what == NAMESPACE:
            namespace = reader.get(OBJECT)
            continue
        if what != (STAMPED_ENTRY if has_stamps else ENTRY):
            raise CorruptDataError(f"the bytes of the state {state.name!r} have no entry of type {what}")
        key = reader.get(key_codec)
        value = reader.get(codec)
        if has_stamps:
            stamps = reader.get(OBJECT)
        if value is None:
            raise CorruptDataError(f"the bytes of the state {state.name!r} hold None")
        table.set_in_space(namespace, keys.token_of(key), joined(state, value, stamps))
    table.refresh()


def read_timers(data, KeyContext keys, TypeCodec key_codec):
    """Timers as (time, token, namespace)."""
    cdef StateReader reader = StateReader(data)
    cdef list timers = []
    key_codec = OBJECT if key_codec is None else key_codec
    while reader.input.pos < reader.input.end:
        time = reader.get_number()
        key = reader.get(key_codec)
        timers.append((time, keys.token_of(key), reader.get(OBJECT)))
    return timers
