"""The five kinds of keyed state with values that expire: each value, element of a list or entry of a map has a stamp.

A stamp is the processing time of the last write, or read. What has expired goes when it is read, and a few entries
are looked at with each access. Flink: TtlValueState, TtlListState, TtlMapState, TtlReducingState, TtlAggregatingState,
TtlIncrementalCleanup.
"""

from libc.stdint cimport INT64_MAX, int64_t

from flinkbuf._core.state.key_context cimport KeyContext
from flinkbuf._core.state.keyed_state cimport (
    ITEMS, KEYS, VALUES, MapIterator, elements_of, given, kept, with_one_nan,
)
from flinkbuf._core.value.own_value cimport own_copy


cdef class TimeToLive:
    """How long values live and what is seen of them afterwards.

    Parameters
    ----------
    clock : object
        With ``now_ms()``.
    ttl_ms : int
        How long.
    is_read_an_update : bool
        Whether a read makes a value young again, as a write does.
    returns_expired : bool
        Whether an expired value that is still there is returned.
    cleanup_size : int
        Entries that are looked at with each access; 0: none.
    cleans_with_every_record : bool
        Whether they are with each record, too.
    """

    def __init__(self, clock, int64_t ttl_ms, *, bint is_read_an_update=False, bint returns_expired=False,
                 Py_ssize_t cleanup_size=0, bint cleans_with_every_record=False):
        self.clock = clock
        self.ttl_ms = ttl_ms
        self.is_read_an_update = is_read_an_update
        self.returns_expired = returns_expired
        self.cleanup_size = cleanup_size
        self.cleans_with_every_record = cleans_with_every_record

    cdef int64_t now(self) except? -1:
        return self.clock.now_ms()

    cdef bint is_over(self, object stamped, int64_t now) except -1:
        """Whether (value, stamp) has expired."""
        cdef int64_t stamp = (<tuple>stamped)[1]
        return stamp <= INT64_MAX - self.ttl_ms and stamp + self.ttl_ms <= now

    cdef object read(self, KeyedState state):
        """The value of the current key, where one stamp belongs to it; None if there is none to be seen."""
        cdef int64_t now = self.now()
        # A tuple, which is put anew and never changed. What is put again must be the table's own: a function that
        # changes its value in place would change what a snapshot still holds.
        if self.is_read_an_update:
            stamped = state.table.own(state.key_context.token)
        else:
            stamped = state.table.get(state.key_context.token)
        value = None
        if stamped is not None:
            if self.is_over(stamped, now):
                state.table.remove(state.key_context.token)
                value = (<tuple>stamped)[0] if self.returns_expired else None
            else:
                value = (<tuple>stamped)[0]
                if self.is_read_an_update:
                    state.table.put(state.key_context.token, (value, now))
        self.sweep(state)
        return value

    cdef object usable(self, object stamped, int64_t now):
        """The value to which another one is added."""
        if stamped is None or (self.is_over(stamped, now) and not self.returns_expired):
            return None
        return (<tuple>stamped)[0]

    cdef int sweep(self, KeyedState state) except -1:
        """Look at a few entries of all keys and take out what has expired."""
        cdef int64_t now
        if self.cleanup_size == 0:
            return 0
        now = self.now()
        for namespace, token, stored in state.table.next_entries(self.cleanup_size):
            alive = state.without_expired(stored, now)
            if alive is not stored:
                state.table.set_in_space(namespace, token, alive)
        return state.table.refresh()


def sweeper(KeyedState state, TimeToLive life):
    """What is called with every record."""
    return lambda: life.sweep(state)


cdef class TtlValueState(KeyedValueState):
    """One value that expires."""

    def __init__(self, str name, KeyContext key_context, TimeToLive life not None):
        self.life = life

    def value(self):
        """The value of the current key; None if there is none."""
        return given(self, self.life.read(self))

    def update(self, value):
        """The value of the current key from now on; None removes it."""
        if value is None:
            self.table.remove(self.key_context.token)
        else:
            self.table.put(self.key_context.token, (kept(self, value), self.life.now()))
        self.life.sweep(self)

    def without_expired(self, stored, int64_t now):
        """What of a stored value is alive; None if nothing."""
        return None if self.life.is_over(stored, now) else stored

    cpdef split(self, stored):
        """A stored value as value and stamps."""
        return stored

    cpdef join(self, value, stamps):
        """The other way round; without stamps, as values of a state that did not expire have none, they are new."""
        return value, self.life.now() if stamps is None else stamps


cdef class TtlReducingState(KeyedReducingState):
    """One reduced value that expires; each value that is added makes it young again."""

    def __init__(self, str name, KeyContext key_context, TimeToLive life not None, reduce):
        super().__init__(name, key_context, reduce)
        self.life = life

    def get(self):
        """The value of the current key; None if there is none."""
        return given(self, self.life.read(self))

    cpdef add(self, object value):
        cdef int64_t now = self.life.now()
        value = self.reduced(self.life.usable(self.table.own(self.key_context.token), now), value)
        if value is None:
            self.table.remove(self.key_context.token)
        else:
            self.table.put(self.key_context.token, (value, now))
        self.life.sweep(self)

    def merge_namespaces(self, target, sources):
        cdef list values = []
        cdef int64_t now = self.life.now()
        for namespace in sources:
            self.table.set_namespace(namespace)
            value = self.life.usable(self.table.own(self.key_context.token), now)
            self.table.remove(self.key_context.token)
            if value is not None:
                values.append(value)
        self.table.set_namespace(target)
        for value in values:
            self.add(value)

    def without_expired(self, stored, int64_t now):
        """What of a stored value is alive; None if nothing."""
        return None if self.life.is_over(stored, now) else stored

    cpdef split(self, stored):
        """A stored value as value and stamps."""
        return stored

    cpdef join(self, value, stamps):
        """The other way round; without stamps, as values of a state that did not expire have none, they are new."""
        return value, self.life.now() if stamps is None else stamps


cdef class TtlAggregatingState(KeyedAggregatingState):
    """An accumulator that expires; each value that is added makes it young again."""

    def __init__(self, str name, KeyContext key_context, TimeToLive life not None, function):
        super().__init__(name, key_context, function)
        self.life = life

    def get(self):
        """The function's result for the current key; None if there is none."""
        accumulator = self.life.read(self)
        return None if accumulator is None else own_copy(self.result_of(own_copy(accumulator)))

    cpdef add(self, object value):
        cdef int64_t now
        if value is None:
            self.table.remove(self.key_context.token)
            return
        now = self.life.now()
        accumulator = self.added(self.life.usable(self.table.own(self.key_context.token), now), value)
        if accumulator is None:
            self.table.remove(self.key_context.token)
        else:
            self.table.put(self.key_context.token, (accumulator, now))
        self.life.sweep(self)

    def merge_namespaces(self, target, sources):
        cdef int64_t now = self.life.now()
        merged = None
        for namespace in [*sources, target]:
            self.table.set_namespace(namespace)
            accumulator = self.life.usable(self.table.own(self.key_context.token), now)
            self.table.remove(self.key_context.token)
            if accumulator is not None:
                merged = accumulator if merged is None else self.merged(accumulator, merged)
        if merged is not None:
            self.table.put(self.key_context.token, (kept(self, merged), now))

    def without_expired(self, stored, int64_t now):
        """What of a stored value is alive; None if nothing."""
        return None if self.life.is_over(stored, now) else stored

    cpdef split(self, stored):
        """A stored value as value and stamps."""
        return stored

    cpdef join(self, value, stamps):
        """The other way round; without stamps, as values of a state that did not expire have none, they are new."""
        return value, self.life.now() if stamps is None else stamps


cdef class TtlListState(KeyedListState):
    """Elements that expire one by one."""

    def __init__(self, str name, KeyContext key_context, TimeToLive life not None):
        self.life = life

    def get(self):
        """The elements of the current key, in a list that is the caller's."""
        cdef int64_t now = self.life.now()
        stored = self.table.get(self.key_context.token)
        if stored is None:
            self.life.sweep(self)
            return []
        alive = self.without_expired(stored, now)
        seen = stored if self.life.returns_expired else alive or ()
        result = [given(self, element) for element, _ in seen]
        if alive is None:
            self.table.remove(self.key_context.token)
        elif self.life.is_read_an_update:
            self.table.put(self.key_context.token, [(element, now) for element, _ in alive])
        elif alive is not stored:
            self.table.put(self.key_context.token, alive)
        self.life.sweep(self)
        return result

    def add(self, value):
        """One element more."""
        self.add_all([value])

    def add_all(self, values):
        """More elements, from any iterable."""
        cdef int64_t now = self.life.now()
        cdef list new = [(element, now) for element in elements_of(self, values)]
        if new:
            stored = self.table.own(self.key_context.token)
            if stored is None:
                self.table.put(self.key_context.token, new)
            else:
                (<list>stored).extend(new)
        self.life.sweep(self)

    def update(self, values):
        """These elements and no others; none: the state is empty."""
        cdef list new = [(element, self.life.now()) for element in elements_of(self, values)]
        if new:
            self.table.put(self.key_context.token, new)
        else:
            self.table.remove(self.key_context.token)
        self.life.sweep(self)

    def merge_namespaces(self, target, sources):
        cdef list merged = []
        for namespace in sources:
            self.table.set_namespace(namespace)
            merged.extend(self.table.get(self.key_context.token) or ())
            self.table.remove(self.key_context.token)
        self.table.set_namespace(target)
        merged = (self.table.get(self.key_context.token) or []) + merged
        if merged:
            self.table.put(self.key_context.token, merged)

    def without_expired(self, stored, int64_t now):
        """What of a stored list is alive; None if nothing, `stored` itself if all."""
        cdef list alive = [each for each in <list>stored if not self.life.is_over(each, now)]
        return stored if len(alive) == len(<list>stored) else alive or None

    cpdef split(self, stored):
        """A stored list as elements and stamps."""
        return [element for element, _ in stored], [stamp for _, stamp in stored]

    cpdef join(self, value, stamps):
        """The other way round; without stamps all are new."""
        return list(zip(value, [self.life.now()] * len(value) if stamps is None else stamps, strict=True))


cdef class TtlMapState(KeyedMapState):
    """A map whose entries expire one by one."""

    def __init__(self, str name, KeyContext key_context, TimeToLive life not None):
        self.life = life

    def get(self, key):
        """The value of `key`; None if there is none."""
        cdef int64_t now
        cdef Py_ssize_t change_count
        entries = self.table.get(self.key_context.token)
        key = self.place_of(key)
        stamped = None if entries is None else (<dict>entries).get(key)
        value = None
        if stamped is not None:
            now = self.life.now()
            if self.life.is_over(stamped, now):
                change_count = self.change_count
                self.remove(key)
                self.change_count = change_count  # the user only read; iterators here go over lists of their own
                value = (<tuple>stamped)[0] if self.life.returns_expired else None
            else:
                value = (<tuple>stamped)[0]
                if self.life.is_read_an_update:
                    self.own_map()[key] = (value, now)
        self.life.sweep(self)
        return given(self, value)

    def contains(self, key):
        """Whether `key` has a value that is not None, as in PyFlink."""
        return self.get(key) is not None

    def put(self, key, value):
        """The value of `key` from now on."""
        key, value = self.kept_key(key), self.kept_value(value)
        self.change_count += 1
        self.own_map()[key] = (value, self.life.now())
        self.life.sweep(self)

    def put_all(self, dict_value):
        """Put all entries of a dict, or of an iterable of pairs."""
        cdef int64_t now = self.life.now()
        cdef dict new = {self.kept_key(key): (self.kept_value(value), now) for key, value in dict(dict_value).items()}
        if new:
            self.change_count += 1
            self.own_map().update(new)
        self.life.sweep(self)

    def is_empty(self):
        """Whether there is no entry to be seen; makes none young again."""
        stored = self.table.get(self.key_context.token)
        if stored is None:
            return True
        alive = self.without_expired(stored, self.life.now())
        if alive is None:
            self.table.remove(self.key_context.token)
        return alive is None and not self.life.returns_expired

    cdef list alive(self):
        """What is to be seen, as pairs of key and value; what has expired goes."""
        cdef int64_t now = self.life.now()
        stored = self.table.get(self.key_context.token)
        if stored is None:
            return []
        alive = self.without_expired(stored, now)
        seen = stored if self.life.returns_expired else alive or {}
        result = [(key, value) for key, (value, _) in (<dict>seen).items()]
        if alive is None:
            self.table.remove(self.key_context.token)
        elif self.life.is_read_an_update:
            self.table.put(self.key_context.token, {key: (value, now) for key, (value, _) in (<dict>alive).items()})
        elif alive is not stored:
            self.table.put(self.key_context.token, alive)
        return result

    def keys(self):
        """The keys; the map must not be changed before the iterator is done, but with its `remove`."""
        return MapIterator(self, KEYS, self.alive())

    def values(self):
        """The values, as `keys`."""
        return MapIterator(self, VALUES, self.alive())

    def items(self):
        """Pairs of key and value, as `keys`."""
        return MapIterator(self, ITEMS, self.alive())

    def without_expired(self, stored, int64_t now):
        """What of a stored map is alive; None if nothing, `stored` itself if all."""
        cdef dict alive = {key: each for key, each in (<dict>stored).items() if not self.life.is_over(each, now)}
        return stored if len(alive) == len(<dict>stored) else alive or None

    cpdef split(self, stored):
        """A stored map as map and stamps in its order."""
        return {key: value for key, (value, _) in stored.items()}, [stamp for _, stamp in stored.values()]

    cpdef join(self, value, stamps):
        """The other way round; without stamps all are new."""
        stamps = [self.life.now()] * len(value) if stamps is None else stamps
        return with_one_nan({key: (each, stamp) for (key, each), stamp in zip(value.items(), stamps, strict=True)})
