"""The five kinds of state of a keyed operator: each call is about the value of the current key.

One object a state and operator; a call costs one look into a dict. Values are kept and given by reference, as between
the functions of a chain: what is changed in place should be written back with `update` or `put`. The namespace is the
default one, which users see, or a window's. Flink: HeapValueState, HeapListState, HeapMapState, HeapReducingState,
HeapAggregatingState; what PyFlink shows where they differ: pyflink.fn_execution.state_impl.
"""

from flinkbuf._core.state_table cimport StateTable

cdef class KeyedState:
    """What the kinds have in common. Kept in a table of its own."""

    def __cinit__(self, str name not None, KeyContext key_context not None, *functions):
        self.name = name
        self.key_context = key_context
        self.table = StateTable()

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

    def split(self, stored):
        """A stored value as a value of the declared type and, where values expire, its stamps."""
        return stored, None

    def join(self, value, stamps):
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
        return self.table.get(self.key_context.token)

    def update(self, value):
        """The value of the current key from now on; None removes it."""
        if value is None:
            self.table.remove(self.key_context.token)
        else:
            self.table.put(self.key_context.token, value)


cdef list check_list(KeyedState state, object values):
    if values is None or isinstance(values, (str, bytes)):
        raise TypeError(f"the list state {state.name!r} takes an iterable of elements, got {values!r}")
    return list(values)


cdef class KeyedListState(KeyedState):
    """Elements in the order in which they were added."""

    def get(self):
        """The elements of the current key, in a list that is the caller's."""
        elements = self.table.get(self.key_context.token)
        return [] if elements is None else list(<list>elements)

    def add(self, value):
        """One element more."""
        elements = self.table.get(self.key_context.token)
        if elements is None:
            self.table.put(self.key_context.token, [value])
        else:
            (<list>elements).append(value)

    def add_all(self, values):
        """More elements, from any iterable."""
        cdef list new = check_list(self, values)
        if not new:
            return
        elements = self.table.get(self.key_context.token)
        if elements is None:
            self.table.put(self.key_context.token, new)
        else:
            (<list>elements).extend(new)

    def update(self, values):
        """These elements and no others; none: the state is empty."""
        cdef list new = check_list(self, values)
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
            merged.extend(self.get())
            self.table.remove(self.key_context.token)
        self.table.set_namespace(target)
        self.add_all(merged)


cdef class KeyedReducingState(KeyedState):
    """One value, which `reduce` makes of the one before and each that is added."""

    def __init__(self, str name, KeyContext key_context, reduce):
        self.reduce = reduce

    def get(self):
        """The value of the current key; None if there is none."""
        return self.table.get(self.key_context.token)

    cpdef add(self, object value):
        """Reduce the value and `value` to one."""
        before = self.table.get(self.key_context.token)
        if before is not None:
            value = self.reduce(before, value)
        if value is None:
            self.table.remove(self.key_context.token)
        else:
            self.table.put(self.key_context.token, value)

    def merge_namespaces(self, target, sources):
        cdef list values = []
        for namespace in sources:
            self.table.set_namespace(namespace)
            value = self.table.get(self.key_context.token)
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
        accumulator = self.table.get(self.key_context.token)
        return None if accumulator is None else self.result_of(accumulator)

    cpdef add(self, object value):
        """Add to the accumulator; None clears the state, as in PyFlink."""
        if value is None:
            self.table.remove(self.key_context.token)
            return
        accumulator = self.table.get(self.key_context.token)
        if accumulator is None:
            accumulator = self.create_accumulator()
        accumulator = self.add_to(value, accumulator)
        if accumulator is None:
            self.table.remove(self.key_context.token)
        else:
            self.table.put(self.key_context.token, accumulator)

    def merge_namespaces(self, target, sources):
        merged = None
        for namespace in [*sources, target]:
            self.table.set_namespace(namespace)
            accumulator = self.table.get(self.key_context.token)
            if accumulator is not None:
                self.table.remove(self.key_context.token)
                merged = accumulator if merged is None else self.merge(accumulator, merged)
        self.table.set_namespace(target)
        if merged is not None:
            self.table.put(self.key_context.token, merged)


cdef class KeyedMapState(KeyedState):
    """A map of the user's keys to values."""

    cdef dict own_map(self):
        """The map of the current key, made if there is none."""
        entries = self.table.get(self.key_context.token)
        if entries is None:
            entries = {}
            self.table.put(self.key_context.token, entries)
        return <dict>entries

    def get(self, key):
        """The value of `key`; None if there is none."""
        entries = self.table.get(self.key_context.token)
        return None if entries is None else (<dict>entries).get(key)

    def put(self, key, value):
        """The value of `key` from now on."""
        self.change_count += 1
        self.own_map()[key] = value

    def put_all(self, dict_value):
        """Put all entries of a dict, or of an iterable of pairs."""
        cdef dict new = dict(dict_value)
        if new:
            self.change_count += 1
            self.own_map().update(new)

    def remove(self, key):
        """Take the entry of `key` out, if there is one."""
        entries = self.table.get(self.key_context.token)
        if entries is None:
            return
        self.change_count += 1
        (<dict>entries).pop(key, None)
        if not <dict>entries:
            self.table.remove(self.key_context.token)

    def clear(self):
        """The current key has no entries any more."""
        self.change_count += 1
        self.table.remove(self.key_context.token)

    def contains(self, key):
        """Whether `key` has a value that is not None, as in PyFlink."""
        return self.get(key) is not None

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
        return key if self.part == KEYS else value if self.part == VALUES else (key, value)

    def remove(self):
        """Take the last entry that was given out of the map."""
        self.check()
        if not self.has_last:
            raise RuntimeError("nothing to remove: call next() first")
        self.has_last = False
        # The entries to come are kept aside: a dict cannot be changed under its own iterator.
        if not self.is_aside:
            self.is_aside = True
            self.entries = iter(list(self.entries))
        self.state.remove(self.last_key)
        self.change_count = self.state.change_count
