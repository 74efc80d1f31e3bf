"""The five kinds of state of a keyed operator: each call is about the value of the current key.

One object a state and operator; a call costs one look into a dict. What is read is what was last written, on every
backend: a state keeps a copy of what can change, as its declared type has it, and gives copies of it. Only functions of
reducing and aggregating states work on what is kept itself. The namespace is the default one, which users see, or a
window's. Flink: HeapValueState, HeapListState, HeapMapState, HeapReducingState,
HeapAggregatingState; what PyFlink shows where they differ: pyflink.fn_execution.state_impl.
"""

from cpython.object cimport PyObject

from flinkbuf._core.state.key_context cimport key_of_token
from flinkbuf._core.value.conversion cimport convert_value
from flinkbuf._core.value.own_value cimport gives_fixed, is_fixed, own_copy, own_value
from flinkbuf._core.value.python_object cimport Py_REFCNT
from flinkbuf._core.state.state_table cimport StateTable

cdef enum:
    OWN_REFERENCES = 3  # to the value of a key while its function works on it: the table's, and those of two variables

cdef TypeCodec OBJECT = TypeCodec("OBJECT")
cdef object NAN = float("nan")
# Types of keys of which a dict finds what was kept by what was given: they are equal, and so are their hashes.
cdef frozenset FOUND_AS_GIVEN = frozenset([
    "OBJECT", "BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "DOUBLE", "STRING", "BIG_INT", "BIG_DEC", "ENUM",
])


cdef object kept_slowly(KeyedState state, TypeCodec codec, object value):
    if codec is OBJECT and is_fixed(<PyObject*>value):
        return value
    try:
        return own_value(codec, value)
    except (TypeError, ValueError, OverflowError) as error:
        kind = next(each for each in (TypeError, OverflowError, ValueError) if isinstance(error, each))
        raise kind(
            f"the state {state.name!r} of the key {key_of_token(state.key_context.token)!r} cannot keep {value!r:.80}: "
            f"{error}"
        ) from error


cdef object given_slowly(object value):
    return own_copy(value)


cdef object result_of_call(KeyedState state, object before, object result):
    """What a state keeps of the result of a function that was given `before`, which is the state's own."""
    if result is not before or Py_REFCNT(<PyObject*>result) > OWN_REFERENCES:
        return kept(state, result)  # the function may go on holding it
    return result


cdef TypeCodec part_codec(TypeCodec codec, Py_ssize_t index):
    """The codec of the elements of a list, of the keys or the values of a map."""
    cdef TypeCodec part = codec.children[index] if codec.children else OBJECT
    return OBJECT if part.kind in ("PICKLED_BYTES", "OBJECT") else part


cdef class KeyedState:
    """What the kinds have in common. Kept in a table of its own."""

    def __cinit__(self, str name not None, KeyContext key_context not None, *functions):
        self.name = name
        self.key_context = key_context
        self.table = StateTable()
        self.codec = OBJECT
        self.is_undeclared = True

    def declare(self, TypeCodec codec):
        """Before the first value: what the state holds for a key is of a type; None: nobody declared one."""
        if codec is not None:
            self.use_codec(self.codec_of_values(codec))

    def use_codec(self, TypeCodec codec):
        """Each value is of this type."""
        self.codec = codec
        self.is_undeclared = codec.kind == "OBJECT"
        self.holds_fixed = gives_fixed(codec)

    def codec_of_values(self, TypeCodec codec):
        """The type of one value, where `codec` is that of all that the state holds for a key."""
        return codec

    def own_given(self):
        """What `add` is given has no other holder from now on, and need not be copied."""
        self.owns_given = True

    def clear(self):
        """The current key has no value any more."""
        self.table.remove(self.key_context.token)

    def set_namespace(self, namespace):
        """All calls are about this namespace from now on; None is the default one, which users see."""
        self.table.set_namespace(namespace)

    def merge_namespaces(self, target, sources):
        """Put what the current key has in `sources` into `target`; they have nothing afterwards."""
        raise TypeError(f"the state {self.name!r} cannot be merged: {type(self).__name__} has no rule for that")

    def forget_keys(self):
        """No key has a value any more, in no namespace."""
        self.table.clear()

    def freeze(self):
        """All values as they are now, for a snapshot."""
        return self.table.freeze()

    cpdef split(self, stored):
        """A stored value as a value of the declared type and, where values expire, its stamps."""
        return stored, None

    cpdef join(self, value, stamps):
        """The other way round."""
        return value

    def tokens(self):
        """The tokens of all keys that have a value in the namespace."""
        return self.table.tokens()

    def __repr__(self):
        return f"<{type(self).__name__} {self.name!r}>"


cdef class KeyedValueState(KeyedState):
    """One value."""

    def value(self):
        """The value of the current key; None if there is none."""
        return given(self, self.table.get(self.key_context.token))

    def update(self, value):
        """The value of the current key from now on; None removes it."""
        if value is None:
            self.table.remove(self.key_context.token)
        else:
            self.table.put(self.key_context.token, kept(self, value))


cdef list elements_of(KeyedState state, object values):
    """What a list state keeps of elements."""
    if values is None or isinstance(values, (str, bytes)):
        raise TypeError(f"the list state {state.name!r} takes an iterable of elements, got {values!r}")
    return [kept(state, value) for value in values]


cdef class KeyedListState(KeyedState):
    """Elements in the order in which they were added."""

    def __cinit__(self, *_):
        self.table.is_shallow = True

    def codec_of_values(self, TypeCodec codec):
        return part_codec(codec, 0)

    def get(self):
        """The elements of the current key, in a list that is the caller's."""
        elements = self.table.get(self.key_context.token)
        if elements is None:
            return []
        return list(<list>elements) if self.holds_fixed else [given(self, each) for each in <list>elements]

    def add(self, value):
        """One element more."""
        if not self.owns_given:
            value = kept(self, value)
        elements = self.table.own(self.key_context.token)
        if elements is None:
            self.table.put(self.key_context.token, [value])
        else:
            (<list>elements).append(value)

    def add_all(self, values):
        """More elements, from any iterable."""
        cdef list new = elements_of(self, values)
        if not new:
            return
        elements = self.table.own(self.key_context.token)
        if elements is None:
            self.table.put(self.key_context.token, new)
        else:
            (<list>elements).extend(new)

    def update(self, values):
        """These elements and no others; none: the state is empty."""
        cdef list new = elements_of(self, values)
        if new:
            self.table.put(self.key_context.token, new)
        else:
            self.table.remove(self.key_context.token)

    def __iter__(self):
        return iter(self.get())

    def merge_namespaces(self, target, sources):
        cdef list merged = []
        for namespace in sources:
            self.table.set_namespace(namespace)
            merged += self.table.get(self.key_context.token) or []
            self.table.remove(self.key_context.token)
        self.table.set_namespace(target)
        if merged:
            self.table.put(self.key_context.token, (self.table.get(self.key_context.token) or []) + merged)


cdef class KeyedReducingState(KeyedState):
    """One value, which `reduce` makes of the one before and each that is added."""

    def __init__(self, str name, KeyContext key_context, reduce):
        self.reduce = reduce

    def get(self):
        """The value of the current key; None if there is none."""
        return given(self, self.table.get(self.key_context.token))

    cdef object reduced(self, object before, object value):
        """What is kept of the reduction of `before`, which is the state's own, and `value`."""
        if before is None:
            return value if self.owns_given else kept(self, value)
        if not self.owns_given:
            value = own_copy(value)  # the function may put parts of it into what it returns
        result = self.reduce(before, value)
        return value if self.owns_given and result is value else result_of_call(self, before, result)

    cpdef add(self, object value):
        """Reduce the value and `value` to one."""
        value = self.reduced(self.table.own(self.key_context.token), value)
        if value is None:
            self.table.remove(self.key_context.token)
        else:
            self.table.put(self.key_context.token, value)

    def merge_namespaces(self, target, sources):
        cdef list values = []
        for namespace in sources:
            self.table.set_namespace(namespace)
            value = self.table.own(self.key_context.token)
            if value is not None:
                values.append(value)
                self.table.remove(self.key_context.token)
        self.table.set_namespace(target)
        for value in values:
            self.add(value)


cdef class KeyedAggregatingState(KeyedState):
    """An accumulator, to which a function adds values and out of which it makes the result."""

    def __init__(self, str name, KeyContext key_context, function):
        self.create_accumulator = function.create_accumulator
        self.add_to = function.add
        self.result_of = function.get_result
        self.merge = function.merge

    def get(self):
        """The function's result for the current key; None if nothing was added."""
        accumulator = self.table.own(self.key_context.token)
        return None if accumulator is None else own_copy(self.result_of(accumulator))

    cdef object added(self, object accumulator, object value):
        """What is kept of the accumulator, which is the state's own or None, with one value more."""
        if not self.owns_given:
            value = own_copy(value)  # the accumulator may be going to hold it
        if accumulator is None:
            return kept(self, self.add_to(value, self.create_accumulator()))
        return result_of_call(self, accumulator, self.add_to(value, accumulator))

    cpdef add(self, object value):
        """Add to the accumulator; None clears the state, as in PyFlink."""
        if value is None:
            self.table.remove(self.key_context.token)
            return
        accumulator = self.added(self.table.own(self.key_context.token), value)
        if accumulator is None:
            self.table.remove(self.key_context.token)
        else:
            self.table.put(self.key_context.token, accumulator)

    def merged(self, accumulator, other):
        """One accumulator of two."""
        merged = self.merge(accumulator, other)
        if merged is None:
            name = getattr(self.merge, "__qualname__", "merge")
            raise TypeError(f"{name}() must return the accumulator of both; it returned None")
        return merged

    def merge_namespaces(self, target, sources):
        merged = None
        for namespace in [*sources, target]:
            self.table.set_namespace(namespace)
            accumulator = self.table.own(self.key_context.token)
            if accumulator is not None:
                self.table.remove(self.key_context.token)
                merged = accumulator if merged is None else self.merged(accumulator, merged)
        self.table.set_namespace(target)
        if merged is not None:
            self.table.put(self.key_context.token, kept(self, merged))


cdef object one_nan(object key):
    """The key itself, or one with the one object that stands for all NaN, which Python finds by the object only."""
    cdef bint is_same = True
    if type(key) is float:
        return NAN if key != key else key
    for part in <tuple>key:
        is_same = is_same and entry_key(part) is part
    if is_same or (type(key) is not tuple and type(key).__dictoffset__ != 0):
        return key
    return tuple.__new__(type(key), [entry_key(part) for part in <tuple>key])


cdef dict with_one_nan(dict entries):
    """A map as it was read, in which NaN can be found again."""
    for key in entries:
        if entry_key(key) is not key:
            return {entry_key(each): value for each, value in entries.items()}
    return entries


cdef class KeyedMapState(KeyedState):
    """A map of the user's keys to values."""

    def __cinit__(self, *_):
        self.table.is_shallow = True
        self.user_key_codec = OBJECT
        self.finds_as_given = True

    def codec_of_values(self, TypeCodec codec):
        self.user_key_codec = part_codec(codec, 0)
        self.finds_as_given = self.user_key_codec.kind in FOUND_AS_GIVEN
        return part_codec(codec, 1)

    cpdef join(self, value, stamps):
        """A map that was read."""
        return with_one_nan(value)

    cdef object kept_key(self, object key):
        """What the map keeps of one of the user's keys."""
        if self.user_key_codec is OBJECT and fb_own_value_is_atom(<PyObject*>key):
            return entry_key(key)
        key = kept_slowly(self, self.user_key_codec, key)
        try:
            hash(key)  # before a map is made for it
        except TypeError as error:
            raise TypeError(f"the map state {self.name!r} cannot have the key {key!r:.80}: {error}") from error
        return entry_key(key)

    cdef object place_of(self, object key):
        """What an entry is found by: as `kept_key` keeps it, such as the nearest FLOAT. A key that is not of the type
        is in no map.
        """
        if not self.finds_as_given:
            try:
                key = convert_value(self.user_key_codec, key)
            except (TypeError, ValueError, OverflowError):
                pass
        return entry_key(key)

    cdef object kept_value(self, object value):
        """What the map keeps of a value; None stands beside all types, as in Flink's maps."""
        return None if value is None else kept(self, value)

    cdef dict own_map(self):
        """The map of the current key, made if there is none."""
        entries = self.table.own(self.key_context.token)
        if entries is None:
            entries = {}
            self.table.put(self.key_context.token, entries)
        return <dict>entries

    def get(self, key):
        """The value of `key`; None if there is none."""
        entries = self.table.get(self.key_context.token)
        return None if entries is None else given(self, (<dict>entries).get(self.place_of(key)))

    def put(self, key, value):
        """The value of `key` from now on."""
        key, value = self.kept_key(key), self.kept_value(value)
        self.change_count += 1
        self.own_map()[key] = value

    def put_all(self, dict_value):
        """Put all entries of a dict, or of an iterable of pairs."""
        cdef dict new = {self.kept_key(key): self.kept_value(value) for key, value in dict(dict_value).items()}
        if new:
            self.change_count += 1
            self.own_map().update(new)

    def remove(self, key):
        """Take the entry of `key` out, if there is one."""
        entries = self.table.own(self.key_context.token)
        if entries is None:
            return
        self.change_count += 1
        (<dict>entries).pop(self.place_of(key), None)
        if not <dict>entries:
            self.table.remove(self.key_context.token)

    def clear(self):
        """The current key has no entries any more."""
        self.change_count += 1
        self.table.remove(self.key_context.token)

    def contains(self, key):
        """Whether `key` has a value that is not None, as in PyFlink."""
        entries = self.table.get(self.key_context.token)
        return entries is not None and (<dict>entries).get(self.place_of(key)) is not None

    def is_empty(self):
        """Whether there is no entry."""
        return self.table.get(self.key_context.token) is None

    def keys(self):
        """The keys; the map must not be changed before the iterator is done, but with its `remove`."""
        return MapIterator(self, KEYS, (self.table.get(self.key_context.token) or {}).items())

    def values(self):
        """The values, as `keys`."""
        return MapIterator(self, VALUES, (self.table.get(self.key_context.token) or {}).items())

    def items(self):
        """Pairs of key and value, as `keys`."""
        return MapIterator(self, ITEMS, (self.table.get(self.key_context.token) or {}).items())

    def __getitem__(self, key):
        return self.get(key)

    def __setitem__(self, key, value):
        self.put(key, value)

    def __delitem__(self, key):
        self.remove(key)

    def __contains__(self, key):
        return self.contains(key)

    def __iter__(self):
        return self.keys()


cdef class MapIterator:
    """Goes over the entries that a map had when it was made."""

    def __cinit__(self, KeyedMapState state, int part, entries):
        self.state = state
        self.entries = iter(entries)
        self.token = state.key_context.token
        self.change_count = state.change_count
        self.part = part

    cdef int check(self) except -1:
        if self.change_count != self.state.change_count:
            raise RuntimeError(
                f"the map state {self.state.name!r} was changed while it was iterated: collect the keys first, as in "
                f"list(state.keys()), or use the iterator's remove()"
            )
        return 0

    def __iter__(self):
        return self

    def __next__(self):
        self.check()
        key, value = next(self.entries)
        self.last_key = key
        self.has_last = True
        if self.part == VALUES:
            return given(self.state, value)
        key = own_copy(key)
        return key if self.part == KEYS else (key, given(self.state, value))

    def remove(self):
        """Take the last entry that was given out of the map."""
        self.check()
        if self.token is not self.state.key_context.token and self.token != self.state.key_context.token:
            raise RuntimeError(
                f"this iterator goes over the map state {self.state.name!r} of another key: an iterator serves the "
                f"record or timer that it was made for"
            )
        if not self.has_last:
            raise RuntimeError("nothing to remove: call next() first")
        self.has_last = False
        # The entries to come are kept aside: a dict cannot be changed under its own iterator.
        if not self.is_aside:
            self.is_aside = True
            self.entries = iter(list(self.entries))
        self.state.remove(self.last_key)
        self.change_count = self.state.change_count
