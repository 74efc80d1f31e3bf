"""Python objects by key, in tables that know what has changed in them, and the states of one key over such tables.

Tables are dicts: what is in them was checked before, and nobody changes it in place. What has changed is taken from
them in columns by whoever writes it down, and applied to the tables of another process that has what came before.
"""

from heapq import heappop, heappush
from itertools import islice

from libc.stdint cimport INT8_MAX, INT8_MIN, INT16_MAX, INT16_MIN, INT32_MAX, INT32_MIN, int64_t

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1

cdef enum:
    FEW_TIMERS = 1_000      # so many are sorted whenever there are new ones

cdef enum plain_kind:
    A_BOOL = 1
    AN_INT8
    AN_INT16
    AN_INT32
    AN_INT64
    A_FLOAT
    A_STR
    BYTES
    NULLABLE = 16           # with one of those above

PLAIN_KINDS = {
    "boolean": A_BOOL, "tinyint": AN_INT8, "smallint": AN_INT16, "int": AN_INT32, "bigint": AN_INT64,
    "double": A_FLOAT, "string": A_STR, "binary": BYTES,
}


# ---- one value for each key


cdef class FlatTable:
    """One value for each key.

    Attributes
    ----------
    what : str
        What it holds, which a program that reads it must say as well.
    rows : dict
        The values.
    """

    cdef readonly str what
    cdef readonly dict rows
    cdef set changed

    def __init__(self, str what not None):
        self.what, self.rows, self.changed = what, {}, set()

    def get(self, key):
        """Return the value of a key, or None."""
        return self.find(key)

    def put(self, key, value):
        """Set the value of a key."""
        self.assign(key, value)

    def remove(self, key):
        """Forget the value of a key, if there is one."""
        self.drop(key)

    def clear_all(self):
        """Forget the values of all keys."""
        self.changed.update(self.rows)
        self.rows.clear()

    def take_changes(self):
        """Return what has changed since the last call as (what, now, gone); None if nothing has."""
        cdef dict now = {}
        cdef list gone = []
        if not self.changed:
            return None
        for key in self.changed:
            value = self.rows.get(key)
            if value is None:
                gone.append(key)
            else:
                now[key] = value
        self.changed = set()
        return self.what, now, gone

    def apply(self, dict now not None, gone):
        """Take over what another process has changed."""
        for key in gone:
            self.rows.pop(key, None)
        self.rows.update(now)

    def pieces(self, Py_ssize_t limit):
        """Yield all that there is, in pieces of so many entries."""
        entries = iter(self.rows.items())
        while piece := dict(islice(entries, limit)):
            yield self.what, piece, []

    cdef object find(self, object key):
        return self.rows.get(key)

    cdef int assign(self, object key, object value) except -1:
        self.rows[key] = value
        self.changed.add(key)
        return 0

    cdef int drop(self, object key) except -1:
        if self.rows.pop(key, None) is not None:
            self.changed.add(key)
        return 0


# ---- values by a second key


cdef class NestedTable:
    """Values by a second key below each key: the entries of a map, the elements of a list by their numbers.

    What is below a key keeps its order, also in a process that has read it.
    """

    cdef readonly str what
    cdef readonly dict rows
    cdef dict changed   # by key, in order: True what was removed, though it may be back

    def __init__(self, str what not None):
        self.what, self.rows, self.changed = what, {}, {}

    def get(self, key, below):
        """Return a value, or None."""
        return self.find(key, below)

    def entries(self, key):
        """Return what is below a key, in order; the caller does not change it."""
        return self.below(key)

    def put(self, key, below, value):
        """Set a value; a new one is the last in order."""
        self.assign(key, below, value)

    def remove(self, key, below):
        """Forget a value, if there is one."""
        self.drop(key, below)

    def clear(self, key):
        """Forget all that is below a key."""
        self.drop_all(key)

    def clear_all(self):
        """Forget what is below all keys."""
        for key in list(self.rows):
            self.drop_all(key)

    def take_changes(self):
        """Return what has changed since the last call as (what, now, gone); None if nothing has."""
        cdef dict now = {}, here, marks, entries
        cdef list gone = [], removed
        if not self.changed:
            return None
        for key, marks in self.changed.items():
            found = self.rows.get(key)
            entries = {} if found is None else <dict>found
            here, removed = {}, []
            for below, was_removed in marks.items():
                value = entries.get(below)
                if value is not None:
                    here[below] = value
                if was_removed:
                    removed.append(below)
            if here:
                now[key] = here
            if removed:
                gone.append((key, removed))
        self.changed = {}
        return self.what, now, gone

    def apply(self, dict now not None, gone):
        """Take over what another process has changed."""
        cdef dict entries
        for key, removed in gone:
            found = self.rows.get(key)
            if found is None:
                continue
            entries = <dict>found
            for below in removed:
                entries.pop(below, None)
            if not entries:
                del self.rows[key]
        for key, changed in now.items():
            found = self.rows.get(key)
            if found is None:
                self.rows[key] = dict(changed)
            else:
                (<dict>found).update(changed)

    def pieces(self, Py_ssize_t limit):
        """Yield all that there is, in pieces of so many entries."""
        piece, size = {}, 0
        for key, entries in self.rows.items():
            rest = iter(entries.items())
            while part := dict(islice(rest, limit - size)):
                piece[key] = part
                size += len(part)
                if size >= limit:
                    yield self.what, piece, []
                    piece, size = {}, 0
        if piece:
            yield self.what, piece, []

    cdef object find(self, object key, object below):
        entries = self.rows.get(key)
        return None if entries is None else (<dict>entries).get(below)

    cdef dict below(self, object key):
        entries = self.rows.get(key)
        return {} if entries is None else <dict>entries

    cdef int assign(self, object key, object below, object value) except -1:
        cdef dict entries, marks
        found = self.rows.get(key)
        if found is None:
            entries = self.rows[key] = {}
        else:
            entries = <dict>found
        marks = self.marks(key)
        if below not in entries:
            marks[below] = marks.pop(below, False)  # the last in order, as it is among the entries
        elif below not in marks:
            marks[below] = False
        entries[below] = value
        return 0

    cdef int drop(self, object key, object below) except -1:
        found = self.rows.get(key)
        if found is None or below not in <dict>found:
            return 0
        del (<dict>found)[below]
        if not <dict>found:
            del self.rows[key]
        self.marks(key)[below] = True
        return 0

    cdef int drop_all(self, object key) except -1:
        found = self.rows.pop(key, None)
        if found is not None:
            self.marks(key).update(dict.fromkeys(found, True))
        return 0

    cdef dict marks(self, object key):
        found = self.changed.get(key)
        if found is None:
            found = self.changed[key] = {}
        return <dict>found


# ---- with a time to live


cdef class Expiry:
    """When entries of a table with a time to live are over, the oldest first: each has as long as the others."""

    cdef dict ends
    cdef object last_ms  # the end that was written last
    cdef bint is_in_order

    def __init__(self):
        self.ends, self.last_ms, self.is_in_order = {}, None, True

    def settle(self):
        """Bring what was read into the order of its ends, where it is not."""
        if not self.is_in_order:
            self.ends = dict(sorted(self.ends.items(), key=lambda item: item[1]))
            self.last_ms = next(reversed(self.ends.values()), None)
            self.is_in_order = True

    @property
    def first_ms(self):
        """When the first entry is over, if there is one."""
        return next(iter(self.ends.values()), None)

    cdef int write(self, object place, object end_ms) except -1:
        self.ends.pop(place, None)
        self.ends[place] = end_ms
        if self.last_ms is not None and end_ms < self.last_ms:
            self.is_in_order = False
        self.last_ms = end_ms
        return 0

    cdef int forget(self, object place) except -1:
        self.ends.pop(place, None)
        return 0

    cdef list over(self, object now_ms):
        cdef list places = []
        for place, end_ms in self.ends.items():
            if end_ms > now_ms:
                break
            places.append(place)
        return places


cdef class ExpiringFlatTable(FlatTable):
    """One value for each key, until its time to live is over: a row is (end in milliseconds, value)."""

    cdef readonly Expiry expiry
    cdef public object now_ms
    cdef public object ttl_ms

    def __init__(self, str what not None):
        FlatTable.__init__(self, what)
        self.expiry, self.now_ms, self.ttl_ms = Expiry(), 0, 0

    def clear_all(self):
        """Forget the values of all keys."""
        FlatTable.clear_all(self)
        self.expiry = Expiry()

    def apply(self, dict now not None, gone):
        """Take over what another process has changed."""
        FlatTable.apply(self, now, gone)
        for key in gone:
            self.expiry.forget(key)
        for key, row in now.items():
            self.expiry.write(key, row[0])

    def sweep(self):
        """Forget what is over."""
        for key in self.expiry.over(self.now_ms):
            self.drop(key)

    cdef object find(self, object key):
        row = self.rows.get(key)
        return None if row is None or (<tuple>row)[0] <= self.now_ms else (<tuple>row)[1]

    cdef int assign(self, object key, object value) except -1:
        end_ms = self.now_ms + self.ttl_ms
        FlatTable.assign(self, key, (end_ms, value))
        return self.expiry.write(key, end_ms)

    cdef int drop(self, object key) except -1:
        FlatTable.drop(self, key)
        return self.expiry.forget(key)


cdef class ExpiringNestedTable(NestedTable):
    """Values by a second key, each until its time to live is over: a row is (end in milliseconds, value)."""

    cdef readonly Expiry expiry
    cdef public object now_ms
    cdef public object ttl_ms

    def __init__(self, str what not None):
        NestedTable.__init__(self, what)
        self.expiry, self.now_ms, self.ttl_ms = Expiry(), 0, 0

    def apply(self, dict now not None, gone):
        """Take over what another process has changed."""
        NestedTable.apply(self, now, gone)
        for key, removed in gone:
            for below in removed:
                self.expiry.forget((key, below))
        for key, changed in now.items():
            for below, row in changed.items():
                self.expiry.write((key, below), row[0])

    def sweep(self):
        """Forget what is over."""
        for key, below in self.expiry.over(self.now_ms):
            self.drop(key, below)

    cdef object find(self, object key, object below):
        row = NestedTable.find(self, key, below)
        return None if row is None or (<tuple>row)[0] <= self.now_ms else (<tuple>row)[1]

    cdef dict below(self, object key):
        cdef dict alive = {}
        for below, row in NestedTable.below(self, key).items():
            if (<tuple>row)[0] > self.now_ms:
                alive[below] = (<tuple>row)[1]
        return alive

    cdef int assign(self, object key, object below, object value) except -1:
        end_ms = self.now_ms + self.ttl_ms
        NestedTable.assign(self, key, below, (end_ms, value))
        return self.expiry.write((key, below), end_ms)

    cdef int drop(self, object key, object below) except -1:
        NestedTable.drop(self, key, below)
        return self.expiry.forget((key, below))

    cdef int drop_all(self, object key) except -1:
        for below in NestedTable.below(self, key):
            self.expiry.forget((key, below))
        return NestedTable.drop_all(self, key)


# ---- timers


cdef class KeyTimers:
    """The timers of all keys, by time.

    Parameters
    ----------
    table : NestedTable
        The times of each key.
    """

    cdef readonly NestedTable table
    cdef list waiting           # (time, number, key), a heap; keys of one time need not be comparable
    cdef bint is_sorted         # the heap is a sorted list
    cdef list fresh             # to come into the heap
    cdef Py_ssize_t pushed      # since the heap was sorted
    cdef int64_t number

    def __init__(self, NestedTable table not None):
        self.table, self.waiting, self.fresh, self.is_sorted = table, [], [], True
        self.note(table.rows)

    def of(self, key):
        """Return the times of a key, in order."""
        return sorted(self.table.below(key))

    def register(self, key, at_ms):
        """Set a timer; the same twice is one."""
        times = self.table.rows.get(key)
        if times is None or at_ms not in <dict>times:
            self.table.assign(key, at_ms, True)
            self.number += 1
            self.fresh.append((at_ms, self.number, key))

    def delete(self, key, at_ms):
        """Remove a timer, if there is one."""
        self.table.drop(key, at_ms)

    def note(self, dict now not None):
        """Know of timers that have come into the table otherwise."""
        for key, times in now.items():
            for at_ms in times:
                self.number += 1
                self.fresh.append((at_ms, self.number, key))

    def take_due(self, int64_t now_ms):
        """Return the timers up to a time as (time, key), in order. They stay registered until they are deleted."""
        cdef list due = []
        cdef Py_ssize_t popped = 0, count = 0
        cdef tuple timer
        self.settle()
        while not self.is_sorted and self.waiting and (<tuple>self.waiting[0])[0] <= now_ms:
            self.add_due(due, <tuple>heappop(self.waiting))
            popped += 1
            if popped > FEW_TIMERS and popped > len(self.waiting) >> 3:
                self.sort()
        if self.is_sorted:
            for timer in self.waiting:
                if timer[0] > now_ms:
                    break
                self.add_due(due, timer)
                count += 1
            del self.waiting[:count]
        return due

    def is_registered(self, key, at_ms):
        """Whether a timer is there."""
        return self.has(key, at_ms)

    def first_ms(self):
        """Return the earliest time, if there is a timer."""
        self.settle()
        while self.waiting:
            at_ms, _, key = self.waiting[0]
            if self.has(key, at_ms):
                return at_ms
            heappop(self.waiting)
            self.is_sorted = False
        return None

    cdef bint has(self, object key, object at_ms) except -1:
        times = self.table.rows.get(key)
        return times is not None and at_ms in <dict>times

    cdef int add_due(self, list due, tuple timer) except -1:
        """One that was deleted and set again is there twice."""
        if self.has(timer[2], timer[0]) and (not due or (timer[0], timer[2]) != due[len(due) - 1]):
            due.append((timer[0], timer[2]))
        return 0

    cdef int settle(self) except -1:
        """Let the heap have all; few are added to it, many sort it, which also drops what was deleted meanwhile."""
        if not self.fresh:
            return 0
        self.pushed += len(self.fresh)
        if len(self.waiting) < FEW_TIMERS or self.pushed > len(self.waiting) >> 1:
            self.waiting += self.fresh
            self.sort()
        else:
            for timer in self.fresh:
                heappush(self.waiting, timer)
            self.is_sorted = False
        self.fresh = []
        return 0

    cdef int sort(self) except -1:
        cdef tuple timer
        self.waiting = [timer for timer in self.waiting if self.has(timer[2], timer[0])]
        self.waiting.sort()
        self.is_sorted, self.pushed = True, 0
        return 0


# ---- the states of the key at hand


cdef class CurrentKey:
    """The key that a method of the user is called for; None where it is called for none."""

    cdef public tuple key


cdef class ObjectFields:
    """What is kept of tuples with certain fields. A subclass says what becomes of values that are not kept as they are.

    Parameters
    ----------
    kinds : iterable of (int, bool)
        A number of `PLAIN_KINDS` for each field, 0 for others, and whether the field may be None.
    """

    cdef bytes kinds
    cdef bint is_plain

    def __init__(self, kinds):
        self.kinds = bytes([kind | (NULLABLE if is_nullable else 0) for kind, is_nullable in kinds])
        self.is_plain = all(kind & ~NULLABLE for kind in self.kinds)

    def stored(self, value):
        """Return what is kept of a value that a user gives."""
        return self.kept(value)

    def given(self, tuple stored not None):
        """Return the tuple that a user gets."""
        return self.seen(stored)

    def converted(self, value):
        """Return what is kept of a value that is not kept as it is."""
        raise NotImplementedError

    def as_seen(self, stored):
        """Return the tuple that a user gets, where it is not what is kept."""
        raise NotImplementedError

    cdef tuple kept(self, object value):
        cdef Py_ssize_t i
        if type(value) is tuple and len(<tuple>value) == len(self.kinds):
            for i in range(len(self.kinds)):
                if not is_plain_value((<tuple>value)[i], self.kinds[i]):
                    break
            else:
                return <tuple>value
        return self.converted(value)

    cdef tuple seen(self, tuple stored):
        return stored if self.is_plain else self.as_seen(stored)


cdef bint is_plain_value(object value, unsigned char kind) except -1:
    """Whether a value is of the very class of a field, and within its bounds."""
    cdef int overflow = 0
    cdef long long number
    if value is None:
        return kind & NULLABLE != 0
    kind &= ~NULLABLE
    if AN_INT8 <= kind <= AN_INT64:
        if type(value) is not int:
            return False
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow != 0:
            return False
        if kind == AN_INT8:
            return INT8_MIN <= number <= INT8_MAX
        if kind == AN_INT16:
            return INT16_MIN <= number <= INT16_MAX
        return kind == AN_INT64 or INT32_MIN <= number <= INT32_MAX
    if kind == A_STR:
        return type(value) is str
    if kind == A_FLOAT:
        return type(value) is float
    if kind == A_BOOL:
        return type(value) is bool
    return kind == BYTES and type(value) is bytes


cdef class ObjectState:
    """What the states of the key at hand have in common.

    Attributes
    ----------
    name : str
        Of the state.
    current : CurrentKey
        The key at hand.
    fields : ObjectFields
        What is kept of values.
    """

    cdef readonly str name
    cdef CurrentKey current
    cdef ObjectFields fields

    def __init__(self, str name not None, CurrentKey current not None, ObjectFields fields not None):
        self.name, self.current, self.fields = name, current, fields

    cdef tuple the_key(self):
        if self.current.key is None:
            raise RuntimeError(
                f"the state {self.name!r} belongs to a key, which only handleInputRows(), handleExpiredTimer() and "
                "handleInitialState() have"
            )
        return self.current.key

    cdef int refuse(self) except -1:
        """There is no table."""
        self.the_key()
        raise RuntimeError(f"the state {self.name!r} was deleted in init()")


cdef class ObjectValueState(ObjectState):
    """One tuple for each key: Spark's ``ValueState``."""

    cdef public FlatTable table

    def exists(self):
        """Whether the key has a value."""
        return self.bound().find(self.the_key()) is not None

    def get(self):
        """Return the value, or None."""
        stored = self.bound().find(self.the_key())
        return None if stored is None else self.fields.seen(<tuple>stored)

    def update(self, newValue):
        """Set the value."""
        self.bound().assign(self.the_key(), self.fields.kept(newValue))

    def clear(self):
        """Forget the value."""
        self.bound().drop(self.the_key())

    cdef FlatTable bound(self):
        if self.table is None:
            self.refuse()
        return self.table


cdef class ObjectNestedState(ObjectState):
    """Several tuples for each key."""

    cdef public NestedTable table

    def exists(self):
        """Whether the key has any."""
        return len(self.bound().below(self.the_key())) > 0

    def clear(self):
        """Forget those of the key."""
        self.bound().drop_all(self.the_key())

    cdef NestedTable bound(self):
        if self.table is None:
            self.refuse()
        return self.table


cdef class ObjectListState(ObjectNestedState):
    """Tuples in their order for each key: Spark's ``ListState``."""

    def get(self):
        """Give the elements, as they are now."""
        return iter([self.fields.seen(<tuple>stored) for stored in self.bound().below(self.the_key()).values()])

    def put(self, newState):
        """Set the list."""
        cdef list kept = [self.fields.kept(value) for value in newState]
        self.bound().drop_all(self.the_key())
        self.append(kept)

    def appendValue(self, newState):
        """Append an element."""
        self.append([self.fields.kept(newState)])

    def appendList(self, newState):
        """Append elements."""
        self.append([self.fields.kept(value) for value in newState])

    cdef int append(self, list kept) except -1:
        cdef tuple key = self.the_key()
        entries = self.bound().rows.get(key)
        number = -1 if entries is None else next(reversed(<dict>entries), -1)
        for value in kept:
            number += 1
            self.bound().assign(key, number, value)
        return 0


cdef class ObjectMapState(ObjectNestedState):
    """Tuples by tuples for each key: Spark's ``MapState``.

    Parameters
    ----------
    key_fields : ObjectFields
        What is kept of the tuples by which there are others; equal ones have to be equal there.
    """

    cdef ObjectFields key_fields

    def __init__(self, str name not None, CurrentKey current not None, ObjectFields key_fields not None,
                 ObjectFields fields not None):
        ObjectState.__init__(self, name, current, fields)
        self.key_fields = key_fields

    def getValue(self, key):
        """Return the value of an entry, or None."""
        stored = self.bound().find(self.the_key(), self.key_fields.kept(key))
        return None if stored is None else self.fields.seen(<tuple>stored)

    def containsKey(self, key):
        """Whether there is such an entry."""
        return self.bound().find(self.the_key(), self.key_fields.kept(key)) is not None

    def updateValue(self, key, value):
        """Set the value of an entry."""
        self.bound().assign(self.the_key(), self.key_fields.kept(key), self.fields.kept(value))

    def iterator(self):
        """Give the entries, as they are now."""
        return iter([
            (self.key_fields.seen(<tuple>key), self.fields.seen(<tuple>stored))
            for key, stored in self.bound().below(self.the_key()).items()
        ])

    def keys(self):
        """Give the keys of the entries, as they are now."""
        return iter([self.key_fields.seen(<tuple>key) for key in self.bound().below(self.the_key())])

    def values(self):
        """Give the values of the entries, as they are now."""
        return iter([self.fields.seen(<tuple>stored) for stored in self.bound().below(self.the_key()).values()])

    def removeKey(self, key):
        """Forget an entry, if there is one."""
        self.bound().drop(self.the_key(), self.key_fields.kept(key))
