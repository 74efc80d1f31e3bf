"""The values of one keyed state in an ordered store of bytes on disk, with those that can change as Python objects.

A value that nobody can change, such as a number, goes into the store's cache as bytes, and comes out of it as an
object of its own: no object is kept for a key. One that can, as lists and maps can, is changed in place where it was
given out: it is written when it leaves those that are held, or before a snapshot, if its bytes are others then. Two
generations: what is not used while one fills up leaves, so that what an operator holds within one call is still there
when it ends. Flink: AbstractRocksDBState.

A place in the store is key group (2 bytes), state (2), size of the namespace (2), namespace, key: the entries of a key
group stand together, and in it those of a state. Namespace and key stand there in the form that they have as keys, so
that equal ones have one place, in every process. Most values can be read back out of that form. Objects, which it takes
apart, cannot: they stand once more in front of the entry's value, as they are; first the namespace, then the key.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy

from flinkbuf._core.value.codec cimport measured
from flinkbuf._core.ground.byte_order cimport fb_store_be16
from flinkbuf._core.ground.data_view cimport (
    fb_data_input, fb_data_output_close, fb_data_output_prune, fb_data_output_reserve, fb_data_output_size,
    fb_data_output_start_scratch,
)
from flinkbuf._core.ground.errors cimport FB_OK, check
from flinkbuf._core.state.entry_cache cimport ABSENT, cache_entry, data_of
from flinkbuf._core.state.key_context cimport HeldKey, key_of_token
from flinkbuf._core.record.key_token cimport KeyToken
from flinkbuf._core.state.state_codec cimport ENTRY, NAMESPACE, STAMPED_ENTRY, StateReader, joined
from flinkbuf._core.state.state_table cimport FrozenTable
from flinkbuf._core.value.own_value cimport fb_own_value_is_atom, is_of_fixed_class
from flinkbuf._core.value.python_object cimport FB_IDENTITY
from flinkbuf._core.value.type cimport fb_type_skip
from flinkbuf._core.value.type_codec cimport decode_value, encode_value
from flinkbuf.errors import CorruptDataError, state_refused

cdef enum:
    PREFIX_SIZE = 6        # before the namespace
    MAX_NAMESPACE = 0xffff
    MAX_NAMES = 4096       # that are known at a time
    KEEP_BYTES = 1 << 16

cdef TypeCodec OBJECT = TypeCodec("OBJECT")
cdef TypeCodec NAMESPACE_CODEC = OBJECT.as_key()
cdef object UNKNOWN = object()
cdef frozenset READ_IN_PLACE = frozenset(["BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "STRING"])
cdef bytes UNSTAMPED = bytes([ENTRY]), STAMPED = bytes([STAMPED_ENTRY]), NEXT_NAMESPACE = bytes([NAMESPACE])


cdef class CachedValue:
    """A value and what the store has of it."""


cdef class RocksDbTable(StateTable):
    """Values by namespace and key; None is no value. Used by the task's thread.

    Parameters
    ----------
    store : object
        A `RocksDbStore`.
    state_id : int
        Stands in its places.
    state : KeyedState
        Whose table it is.
    keys : KeyContext
        Of the operator.
    grouper : KeyGrouper
        Finds key groups.
    key_codec, codec : TypeCodec or None
        Of keys and values; None: of anything.
    has_stamps : bool
        Whether values expire.
    capacity : int
        Values that are held as objects, about: of those that can change.
    """

    def __init__(self, store, int state_id, KeyedState state not None, KeyContext keys not None,
                 KeyGrouper grouper not None, TypeCodec key_codec, TypeCodec codec, bint has_stamps,
                 Py_ssize_t capacity):
        self.store = store
        self.state_id = state_id
        self.state = state
        self.keys = keys
        self.grouper = grouper
        self.key_codec = OBJECT if key_codec is None else key_codec
        self.place_codec = self.key_codec.as_key()
        self.codec = OBJECT if codec is None else codec
        self.has_stamps = has_stamps
        self.young, self.old, self.names = {}, {}, {}
        self.capacity = max(16, capacity // 2)
        self.is_plain = False
        self.output.record_number = self.at.record_number = -1
        self.cache, self.read_written = store.cache, store.read_written
        self.holds_atoms = not has_stamps and not state.table.is_shallow
        self.holds_fixed = state.holds_fixed
        self.is_read_in_place = self.holds_atoms and self.codec.kind in READ_IN_PLACE
        self.tells_keys = self.place_codec is self.key_codec
        self.at_token = self.named = UNKNOWN

    def __dealloc__(self):
        fb_data_output_close(&self.output)
        fb_data_output_close(&self.at)

    # ---- what a state calls

    cdef object get(self, object token):
        cdef CachedValue held = self.held(token)
        return self.read(token, False) if held is None else held.value

    cdef object own(self, object token):
        cdef CachedValue held = self.held(token)
        if held is None:
            return self.read(token, True)
        held.may_differ = True
        return held.value

    cdef bint may_be_read(self):
        return False

    cdef int put(self, object token, object value) except -1:
        cdef CachedValue held
        if self.holds_atoms and (self.holds_fixed or fb_own_value_is_atom(<PyObject*>value)):
            self.change(token, value)
            return self.forget(token)
        held = self.held(token)
        if held is None:
            held = CachedValue()
            held.saved = UNKNOWN
            self.keep((self.namespace, token), held)
        held.value = value
        held.may_differ = True
        return 0

    cdef int remove(self, object token) except -1:
        self.change(token, None)
        return self.forget(token)

    cdef int set_namespace(self, object namespace) except -1:
        self.namespace = namespace
        return 0

    cdef int set_in_space(self, object namespace, object token, object value) except -1:
        cdef object before = self.namespace
        self.namespace = namespace
        self.put(token, value)
        self.namespace = before
        return 0

    cdef int refresh(self) except -1:
        return 0

    cdef list tokens(self):
        cdef list found = []
        cdef bytes begin
        cdef bytes namespace = self.name_of(self.namespace)
        self.write_back()
        for group in range(self.grouper.first, self.grouper.last + 1):
            begin = self.prefix(group) + len(namespace).to_bytes(2, "big") + namespace
            for place, data in self.store.scan(begin, after(begin)):
                found.append(self.keys.token_of(self.key_codec.deserialize(parts_of(place, data, self.key_codec)[1])))
        return found

    cdef list next_entries(self, Py_ssize_t count):
        """As in memory: entries round and round."""
        cdef list found = []
        cdef bytes begin, place
        cdef CachedValue cached
        cdef bint has_begun_anew = self.position is None
        begin = self.prefix(self.grouper.first) if self.position is None else self.position
        while len(found) < count:
            group = int.from_bytes(begin[:2], "big")
            for place, data in self.store.scan_written(begin, after(self.prefix(group))):
                self.position = place + b"\0"
                data = self.cache.get(place, data)
                if data is None:
                    continue
                namespace, key, rest = parts_of(place, data, self.key_codec)
                namespace, token = OBJECT.deserialize(namespace), self.keys.token_of(self.key_codec.deserialize(key))
                cached = self.cached((namespace, token))
                value = self.decoded(rest) if cached is None else cached.value
                if value is not None:
                    found.append((namespace, token, value))
                if len(found) == count:
                    return found
            if group < self.grouper.last:
                begin = self.prefix(group + 1)
                continue
            self.position = None
            if has_begun_anew:
                break  # once round is enough
            has_begun_anew = True
            begin = self.prefix(self.grouper.first)
        return found

    cdef FrozenTable freeze(self):
        raise TypeError("what lies in a store is frozen with it")

    # ---- values that never change: bytes in the store's cache

    cdef object read(self, object token, bint is_to_change):
        """The value of a key in the namespace, which is not held; it is afterwards, if it can change."""
        cdef CachedValue found
        cdef cache_entry* entry
        cdef bytes at, data
        cdef bint is_in_place
        self.locate(self.namespace, token)
        is_in_place = self.is_read_in_place and self.tells_name and self.tells_keys
        entry = self.cache.find(self.at.start, fb_data_output_size(&self.at))
        if entry is not NULL and entry.data_size == ABSENT:
            return None
        if entry is not NULL and is_in_place:
            return self.decoded_in_place(data_of(entry), entry.data_size)
        at = PyBytes_FromStringAndSize(<char*>self.at.start, fb_data_output_size(&self.at))
        if entry is not NULL:
            data = PyBytes_FromStringAndSize(<char*>data_of(entry), entry.data_size)
        else:
            data = self.read_written(at)
            if data is None:
                return None
            self.cache.keep(at, data)
            if self.cache.full():
                self.store.make_room()
            if is_in_place:
                return self.decoded_in_place(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
        value = self.decoded(parts_of(at, data, self.key_codec)[2])
        if self.holds_atoms and (self.holds_fixed or fb_own_value_is_atom(<PyObject*>value)):
            return value
        found = CachedValue()
        found.value, found.saved, found.may_differ = value, data, is_to_change
        self.keep((self.namespace, token), found)
        return value

    cdef object decoded_in_place(self, const uint8_t* data, size_t size):
        cdef fb_data_input source
        source.start = source.pos = data
        source.end = data + size
        source.record_number = source.channel = -1
        return FB_IDENTITY(decode_value(self.codec, &source))

    cdef int change(self, object token, object value) except -1:
        """Write the value of a key in the namespace, or delete it (None)."""
        cdef bytes before
        cdef size_t size
        self.locate(self.namespace, token)
        if value is not None:
            fb_data_output_start_scratch(&self.output)
            try:
                encode_value(self.codec, value, &self.output)
            except (TypeError, ValueError, OverflowError) as error:
                raise self.refused(error, token) from error
        size = fb_data_output_size(&self.at)
        if value is None:
            self.cache.put(self.at.start, size, NULL, ABSENT, True)
        elif self.tells_name and self.tells_keys:
            self.cache.put(self.at.start, size, self.output.start, <uint32_t>fb_data_output_size(&self.output), True)
        else:
            data = PyBytes_FromStringAndSize(<char*>self.output.start, fb_data_output_size(&self.output))
            at = PyBytes_FromStringAndSize(<char*>self.at.start, size)
            before = front(at, self.namespace, key_of_token(token), self.key_codec)
            self.cache.change(at, before + data)
        fb_data_output_prune(&self.output, KEEP_BYTES)
        if self.cache.full():
            self.store.make_room()
        return 0

    cdef int locate(self, object namespace, object token) except -1:
        """Write the place of a key in a namespace to `at`."""
        cdef int64_t group
        cdef Py_ssize_t size
        if token is self.at_token and namespace is self.at_namespace:
            return 0
        key = key_of_token(token)
        group = self.grouper.group(key)
        if namespace is not self.named:
            name = self.name_of(namespace)
            self.named, self.name, self.tells_name = namespace, name, tells(OBJECT, name)
        self.at_token = UNKNOWN
        size = PyBytes_GET_SIZE(self.name)
        if size > MAX_NAMESPACE:
            raise_too_large(size)
        fb_data_output_start_scratch(&self.at)
        check(fb_data_output_reserve(&self.at, PREFIX_SIZE + size))
        fb_store_be16(self.at.pos, <uint16_t>group)
        fb_store_be16(self.at.pos + 2, <uint16_t>self.state_id)
        fb_store_be16(self.at.pos + 4, <uint16_t>size)
        memcpy(self.at.pos + PREFIX_SIZE, PyBytes_AS_STRING(self.name), size)
        self.at.pos += PREFIX_SIZE + size
        if type(token) is HeldKey:
            data = <bytes>(<KeyToken>(<HeldKey>token).token).data  # of the same codec
            size = PyBytes_GET_SIZE(data)
            check(fb_data_output_reserve(&self.at, size))
            memcpy(self.at.pos, PyBytes_AS_STRING(data), size)
            self.at.pos += size
        else:
            encode_value(self.place_codec, key, &self.at)
        self.at_token, self.at_namespace = token, namespace
        return 0

    # ---- values that can change: objects

    cdef CachedValue held(self, object token):
        if not self.young and not self.old:
            return None
        return self.cached((self.namespace, token))

    cdef int forget(self, object token) except -1:
        """Hold the value of a key no longer; what it is has been written."""
        if self.young:
            self.young.pop((self.namespace, token), None)
        if self.old:
            self.old.pop((self.namespace, token), None)
        return 0

    cdef CachedValue cached(self, object place):
        found = self.young.get(place)
        if found is None:
            found = self.old.pop(place, None)
            if found is not None:
                self.young[place] = found
        return found

    cdef int keep(self, object place, CachedValue found) except -1:
        if len(self.young) >= self.capacity:
            self.write_back_of(self.old)
            self.old, self.young = self.young, {}
        self.young[place] = found
        return 0

    cdef int write_back_of(self, dict cache) except -1:
        cdef CachedValue found
        cdef list changed = [], written = []
        for (namespace, token), found in cache.items():
            if not found.may_differ:
                continue
            self.locate(namespace, token)
            at = PyBytes_FromStringAndSize(<char*>self.at.start, fb_data_output_size(&self.at))
            data = None
            if found.value is not None:
                data = front(at, namespace, key_of_token(token), self.key_codec) + self.encoded(token, found.value)
            if found.saved is UNKNOWN or data != found.saved:
                changed.append((at, data))
                written.append(found)
            else:
                found.may_differ = False
        if changed:
            self.store.write(changed)
        for found, (_, data) in zip(written, changed):  # not before: a function may go on after an error
            found.saved = data
            found.may_differ = False
        return 0

    def write_back(self):
        """Put what differs into the store."""
        self.write_back_of(self.old)
        self.write_back_of(self.young)

    # ---- bytes

    cdef bytes bytes_of(self, TypeCodec codec, object value):
        cdef bytes data
        fb_data_output_start_scratch(&self.output)
        encode_value(codec, value, &self.output)
        data = PyBytes_FromStringAndSize(<char*>self.output.start, fb_data_output_size(&self.output))
        fb_data_output_prune(&self.output, KEEP_BYTES)
        return data

    def prefix(self, group):
        """What the places of this state in a key group begin with."""
        return (<int64_t>group << 16 | self.state_id).to_bytes(4, "big")

    cdef bytes name_of(self, object namespace):
        """A namespace as it stands in places; ValueError if an equal one that was met lately stands there otherwise.

        Timers and tables in memory know windows by ``==``: what is kept under the other form would not be found.
        """
        cdef bytes name = self.bytes_of(NAMESPACE_CODEC, namespace)
        if is_of_fixed_class(namespace):
            return name
        if len(self.names) >= MAX_NAMES:
            self.names.clear()
        if self.names.setdefault(namespace, name) != name:
            raise ValueError(
                f"the window {namespace!r:.80} is equal to one that was made of other parts, and RocksDB knows windows "
                f"by their parts: leave what == does not compare out of what {type(namespace).__name__} is pickled "
                f"from, by its __getstate__()"
            )
        return name

    cdef object encoded(self, object token, object value):
        cdef object stamps = None
        try:
            if self.has_stamps:
                value, stamps = self.state.split(value)
                return self.bytes_of(self.codec, value) + self.bytes_of(OBJECT, stamps)
            return self.bytes_of(self.codec, value)
        except (TypeError, ValueError, OverflowError) as error:
            raise self.refused(error, token) from error

    def refused(self, error, token):
        """The error for a value that has no bytes."""
        return state_refused(error, f"the state {self.state.name!r} of the key {key_of_token(token)!r}")

    cdef object decoded(self, object data):
        cdef StateReader reader = StateReader(data)
        value = reader.get(self.codec)
        return joined(self.state, value, reader.get(OBJECT) if self.has_stamps else None)


def use_rocksdb_table(KeyedState state not None, RocksDbTable table not None):
    """Have a state keep its values there."""
    state.table = table


cdef int raise_too_large(Py_ssize_t size) except -1:
    raise ValueError(f"a namespace of {size} bytes is too large: at most {MAX_NAMESPACE}")


cdef bytes place(object group, int state_id, bytes namespace, bytes key):
    if len(namespace) > MAX_NAMESPACE:
        raise_too_large(len(namespace))
    return (<int64_t>group << 32 | <int64_t>state_id << 16 | len(namespace)).to_bytes(6, "big") + namespace + key


cdef tuple names_in(bytes place):
    """Namespace and key of a place, in the form that they have as keys."""
    cdef Py_ssize_t size = int.from_bytes(place[4:PREFIX_SIZE], "big")
    return place[PREFIX_SIZE : PREFIX_SIZE + size], place[PREFIX_SIZE + size :]


cdef bint tells(TypeCodec codec, bytes data):
    """Whether a value can be read back out of the form that it has as a key."""
    cdef fb_data_input source
    source.start = source.pos = <const uint8_t*>PyBytes_AS_STRING(data)
    source.end = source.start + PyBytes_GET_SIZE(data)
    source.record_number = source.channel = -1
    return fb_type_skip(&codec.type, &source) == FB_OK and source.pos == source.end


cdef bytes front(bytes place, object namespace, object key, TypeCodec key_codec):
    """What stands in front of the value at a place: namespace and key as they are, where the place does not tell."""
    cdef bytes front = b""
    space_data, key_data = names_in(place)
    if not tells(OBJECT, space_data):
        front = OBJECT.serialize(namespace)
    if not tells(key_codec, key_data):
        front += key_codec.serialize(key)
    return front


cdef tuple parts_of(bytes place, bytes data, TypeCodec key_codec):
    """The bytes of an entry's namespace, key and value, as they are."""
    cdef StateReader reader = StateReader(data)
    namespace, key = names_in(place)
    if not tells(OBJECT, namespace):
        namespace = skipped(OBJECT, reader)
    if not tells(key_codec, key):
        key = skipped(key_codec, reader)
    cdef Py_ssize_t begin = reader.input.pos - reader.input.start
    return namespace, key, data[begin:] if begin > 0 else data


cdef bytes skipped(TypeCodec codec, StateReader reader):
    """The bytes of the next value."""
    cdef const uint8_t* begin = measured(&codec.node, &reader.input)
    return PyBytes_FromStringAndSize(<const char*>begin, reader.input.pos - begin)


cdef tuple placed(int64_t key_group, int state_id, bytes namespace, bytes key, bytes value, TypeCodec key_codec,
                  TypeCodec place_codec):
    """Place and bytes in a store of an entry whose namespace, key and value have these bytes, as they are."""
    cdef object its_namespace = OBJECT.deserialize(namespace)
    cdef object its_key = None
    cdef bytes at
    if place_codec is key_codec:
        at = place(key_group, state_id, NAMESPACE_CODEC.serialize(its_namespace), key)
    else:
        its_key = key_codec.deserialize(key)
        at = place(key_group, state_id, NAMESPACE_CODEC.serialize(its_namespace), place_codec.serialize(its_key))
    return at, front(at, its_namespace, its_key, key_codec) + value


def replaced(list entries not None, dict state_ids not None, TypeCodec key_codec):
    """Entries of files of version 1, whose places hold namespace and key as they are, at the places of today."""
    cdef list found = []
    cdef TypeCodec place_codec
    key_codec = OBJECT if key_codec is None else key_codec
    place_codec = key_codec.as_key()
    for old, data in entries:
        namespace, key = names_in(old)
        state_id = state_ids[int.from_bytes(old[2:4], "big")]
        group = int.from_bytes(old[:2], "big")
        found.append(placed(group, state_id, namespace, key, data, key_codec, place_codec))
    return found


def after(bytes prefix not None):
    """The first place behind all that begin with `prefix`."""
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")  # key groups are never all ones


def places_in(data, int key_group, int state_id, TypeCodec key_codec, TypeCodec codec, bint has_stamps):
    """The entries of a section as places and bytes in a store, in a list; values are not decoded."""
    cdef StateReader reader = StateReader(data)
    cdef list found = []
    cdef bytes namespace = OBJECT.serialize(None)
    cdef bytes key
    cdef const uint8_t* begin
    cdef uint8_t what
    cdef TypeCodec place_codec
    key_codec = OBJECT if key_codec is None else key_codec
    place_codec = key_codec.as_key()
    codec = OBJECT if codec is None else codec
    while reader.input.pos < reader.input.end:
        what = reader.input.pos[0]
        reader.input.pos += 1
        if what == NAMESPACE:
            namespace = skipped(OBJECT, reader)
            continue
        if what != (STAMPED_ENTRY if has_stamps else ENTRY):
            raise CorruptDataError(f"the bytes of a state have no entry of type {what}")
        key = skipped(key_codec, reader)
        begin = reader.input.pos
        measured(&codec.node, &reader.input)
        if has_stamps:
            measured(&OBJECT.node, &reader.input)
        value = PyBytes_FromStringAndSize(<const char*>begin, reader.input.pos - begin)
        found.append(placed(key_group, state_id, namespace, key, value, key_codec, place_codec))
    return found


def restamped(bytes place not None, bytes data not None, KeyedState state not None, TypeCodec key_codec,
              TypeCodec codec, bint had_stamps):
    """The bytes of an entry of a state whose values expire now and did not, or the other way round."""
    codec = OBJECT if codec is None else codec
    cdef bytes value = parts_of(place, data, OBJECT if key_codec is None else key_codec)[2]
    cdef bytes before = data[: len(data) - len(value)]
    if had_stamps:
        return before + skipped(codec, StateReader(value))
    return before + value + OBJECT.serialize(state.split(joined(state, codec.deserialize(value), None))[1])


def entry_in(bytes place not None, bytes data not None, bytes namespace_before, TypeCodec key_codec, bint has_stamps):
    """The bytes of an entry, behind one in the namespace whose bytes are given, and the bytes of its own namespace."""
    namespace, key, value = parts_of(place, data, OBJECT if key_codec is None else key_codec)
    cdef bytes entry = (STAMPED if has_stamps else UNSTAMPED) + key + value
    return (entry if namespace == namespace_before else NEXT_NAMESPACE + namespace + entry), namespace
