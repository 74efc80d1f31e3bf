"""State as bytes: the entries of one state, or of one timer service, in one key group.

Keys, values and namespaces are written by the codecs of their types; those of one namespace stand together. The loops
let other threads run every few milliseconds, so that a task whose state is being written is not held up. Flink:
the key groups of HeapSnapshotStrategy.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from posix.unistd cimport usleep

from flinkbuf._core.byte_order cimport fb_load_be64, fb_store_be64
from flinkbuf._core.data_view cimport (
    fb_data_input_left, fb_data_output_close, fb_data_output_reserve, fb_data_output_size,
    fb_data_output_start_scratch,
)
from flinkbuf._core.errors cimport check
from flinkbuf.errors import CorruptDataError
from flinkbuf._core.key_context cimport KeyContext, key_of_token
from flinkbuf._core.key_group cimport fb_key_group_of
from flinkbuf._core.keyed_state cimport KeyedState
from flinkbuf._core.python_object cimport FB_IDENTITY
from flinkbuf._core.type_codec cimport decode_value, encode_value

cdef enum:
    BREATH = 16384       # entries between two moments in which other threads may run: some milliseconds
    BREATH_SIZE = 1 << 18  # bytes, too: what is pickled takes longer

cdef TypeCodec OBJECT = TypeCodec("OBJECT")


cdef int breathe() except -1:
    """Let another thread have the interpreter: who gives it up for no time at all gets it back before others wake."""
    with nogil:
        usleep(1)
    return 0


cdef class KeyGrouper:
    """Which key group a key is in, as partitioners see it; and which groups a subtask has."""

    def __init__(self, TypeCodec codec, uint32_t max_parallelism, uint32_t first, uint32_t last):
        self.hasher = KeyHasher(OBJECT if codec is None else codec, takes_none=True)
        self.max_parallelism = max_parallelism
        self.first = first
        self.last = last

    cdef int64_t group(self, object key) except -1:
        cdef int32_t hash_code
        self.hasher.hash(key, &hash_code, -1)
        return fb_key_group_of(hash_code, self.max_parallelism)

    def group_of(self, key):
        """The key group of a key."""
        return self.group(key)


cdef list groups_of(KeyGrouper grouper):
    return [[] for _ in range(grouper.first, grouper.last + 1)]


cdef list group_list(KeyGrouper grouper, list groups, object key):
    cdef int64_t group = grouper.group(key)
    if group < grouper.first or group > grouper.last:
        raise RuntimeError(
            f"key {key!r} is in key group {group}, but this subtask has {grouper.first} to {grouper.last}: does the "
            f"key selector give the same key for the same record everywhere?"
        )
    return <list>groups[group - grouper.first]


def split_table(dict spaces, KeyGrouper grouper, KeyedState state, expire_at):
    """The entries of a frozen table by key group: for each group a flat list of namespace, token, value, ...

    What has expired by `expire_at` is left out, if that is not None.
    """
    cdef list groups = groups_of(grouper)
    cdef list group
    cdef Py_ssize_t count = 0
    for namespace, space in spaces.items():
        for token, value in (<dict>space).items():
            if expire_at is not None:
                value = state.without_expired(value, expire_at)
                if value is None:
                    continue
            group = group_list(grouper, groups, key_of_token(token))
            group.append(namespace)
            group.append(token)
            group.append(value)
            count += 1
            if count % BREATH == 0:
                breathe()
    return groups


def split_timers(list timers, KeyGrouper grouper):
    """Timers, given as (time, key, namespace), by key group."""
    cdef list groups = groups_of(grouper)
    for timer in timers:
        group_list(grouper, groups, timer[1]).append(timer)
    return groups


cdef class StateWriter:
    """Collects bytes."""

    def __cinit__(self):
        fb_data_output_start_scratch(&self.output)
        self.output.record_number = -1

    def __dealloc__(self):
        fb_data_output_close(&self.output)

    cdef int put(self, TypeCodec codec, object value) except -1:
        return encode_value(codec, value, &self.output)

    cdef int put_number(self, int64_t number) except -1:
        check(fb_data_output_reserve(&self.output, 8))
        fb_store_be64(self.output.pos, <uint64_t>number)
        self.output.pos += 8
        return 0

    def take(self):
        """All bytes so far; begins anew."""
        data = (<char*>self.output.start)[:fb_data_output_size(&self.output)]
        fb_data_output_start_scratch(&self.output)
        return data


def write_entries(StateWriter writer, KeyedState state, list entries, TypeCodec key_codec, TypeCodec codec):
    """The bytes of what `split_table` gives for one group; `codec` None: of any values."""
    cdef Py_ssize_t i, end, count = len(entries), entry_count = 0
    cdef size_t size = 0
    key_codec = OBJECT if key_codec is None else key_codec
    codec = OBJECT if codec is None else codec
    i = 0
    while i < count:
        namespace = entries[i]
        end = i
        while end < count and entries[end] is namespace:
            end += 3
        writer.put(OBJECT, namespace)
        writer.put_number((end - i) // 3)
        while i < end:
            key = key_of_token(entries[i + 1])
            value, stamps = state.split(entries[i + 2])
            try:
                writer.put(key_codec, key)
                writer.put(codec, value)
            except (TypeError, ValueError, OverflowError) as error:
                raise type(error)(f"the state {state.name!r} of the key {key!r} cannot be saved: {error}") from error
            writer.put(OBJECT, stamps)
            i += 3
            entry_count += 1
            if entry_count % BREATH == 0 or fb_data_output_size(&writer.output) - size > BREATH_SIZE:
                size = fb_data_output_size(&writer.output)
                breathe()
    return writer.take()


def write_timers(StateWriter writer, list timers, TypeCodec key_codec):
    """The bytes of timers, given as (time, key, namespace)."""
    for time, key, namespace in timers:
        writer.put_number(time)
        writer.put(OBJECT if key_codec is None else key_codec, key)
        writer.put(OBJECT, namespace)
    return writer.take()


cdef class StateReader:
    """Goes over bytes that a StateWriter has written."""

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


def read_entries(data, KeyedState state, KeyContext keys, TypeCodec key_codec, TypeCodec codec):
    """Put the entries of one group into a state."""
    cdef StateReader reader = StateReader(data)
    cdef int64_t left
    key_codec = OBJECT if key_codec is None else key_codec
    codec = OBJECT if codec is None else codec
    while reader.input.pos < reader.input.end:
        namespace = reader.get(OBJECT)
        left = reader.get_number()
        while left > 0:
            key = reader.get(key_codec)
            value = reader.get(codec)
            stamps = reader.get(OBJECT)
            state.table.set_in_space(namespace, keys.token_of(key), state.join(value, stamps))
            left -= 1
    state.table.refresh()


def read_timers(data, KeyContext keys, TypeCodec key_codec):
    """Timers as (time, token, namespace)."""
    cdef StateReader reader = StateReader(data)
    cdef list timers = []
    while reader.input.pos < reader.input.end:
        time = reader.get_number()
        key = reader.get(OBJECT if key_codec is None else key_codec)
        timers.append((time, keys.token_of(key), reader.get(OBJECT)))
    return timers
