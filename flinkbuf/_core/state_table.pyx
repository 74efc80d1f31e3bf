"""The values of one keyed state: by namespace, then by key. A snapshot reads them while the operator goes on writing.

Taking a snapshot copies nothing. The dicts as they are become the snapshot's; what is written from then on is laid
over them, and a value that can change and is read is copied first, so that neither side sees the other. When the
snapshot has been written, the changes go back into the dicts, a few with each access. Flink: CopyOnWriteStateTable.
"""

import copy

from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.ref cimport PyObject

cdef enum:
    DRAIN_COUNT = 8  # changes that go back with each access

cdef object MISSING = object()
# Values of these never change, so a snapshot and the operator may both hold them.
cdef frozenset ATOMS = frozenset([type(None), bool, int, float, complex, str, bytes])


cdef bint is_flat(object values):
    for value in values:
        if type(value) not in ATOMS:
            return False
    return True


cdef object own_copy(object value):
    """`value` itself if nobody can change it, else a copy of all of it that can change."""
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind is tuple and is_flat(value):
        return value
    if kind is list and is_flat(value):
        return list(<list>value)
    if kind is dict and is_flat((<dict>value).values()) and is_flat(value):
        return dict(<dict>value)
    return copy.deepcopy(value)


cdef class FrozenTable:
    """All values of a state at the moment of a snapshot. `release` when they have been written."""

    @property
    def spaces(self):
        """Namespace to {token: value}; not to be changed."""
        return self.spaces

    def release(self):
        """Let the operator write into the dicts again; from any thread."""
        self.spaces = None
        self.is_released = True


cdef class StateTable:
    """Values by namespace and key; None is no value. Used by the task's thread."""

    def __cinit__(self):
        self.current = {}
        self.spaces = {None: self.current}
        self.is_plain = True

    cdef object get(self, object token):
        """The value of a key in the namespace, or None."""
        cdef PyObject* value
        if self.is_plain:
            value = PyDict_GetItemWithError(self.current, token)
            return None if value is NULL else <object>value
        return self.get_slowly(token)

    cdef int put(self, object token, object value) except -1:
        """The value of a key in the namespace from now on; not None."""
        if self.is_plain:
            self.current[token] = value
            return 0
        return self.put_slowly(token, value)

    cdef int remove(self, object token) except -1:
        """The key has no value in the namespace any more."""
        if not self.is_plain:
            return self.put_slowly(token, None)
        if token in self.current:
            del self.current[token]
        if not self.current and self.namespace is not None:
            del self.spaces[self.namespace]
            self.current = None
            self.is_plain = False
        return 0

    cdef int set_namespace(self, object namespace) except -1:
        """All calls are about this namespace from now on."""
        if namespace is self.namespace:
            return 0
        self.namespace = namespace
        self.current = self.spaces.get(namespace)
        self.is_plain = self.changes is None and self.current is not None
        return 0

    cdef object get_slowly(self, object token):
        cdef dict layer
        hash(token)  # so that a missing key is noticed where there is no dict to look into
        if self.changes is not None:
            self.drain(DRAIN_COUNT)
        if self.changes is not None:
            layer = self.changes.get(self.namespace)
            if layer is not None:
                value = layer.get(token, MISSING)
                if value is not MISSING:
                    return value
        if self.current is None:
            return None
        value = self.current.get(token)
        if self.frozen is None or value is None:
            return value
        own = own_copy(value)
        if own is not value:
            self.put_slowly(token, own)
        return own

    cdef int put_slowly(self, object token, object value) except -1:
        """Also removes, with None."""
        if self.changes is not None:
            self.changes.setdefault(self.namespace, {})[token] = value
            return self.drain(DRAIN_COUNT)
        hash(token)
        self.set_in_space(self.namespace, token, value)
        return self.refresh()

    cdef int set_in_space(self, object namespace, object token, object value) except -1:
        """Write into the dicts themselves."""
        cdef dict space = self.spaces.get(namespace)
        if value is not None:
            if space is None:
                space = self.spaces[namespace] = {}
            space[token] = value
        elif space is not None:
            space.pop(token, None)
            if not space and namespace is not None:
                del self.spaces[namespace]
        return 0

    cdef int refresh(self) except -1:
        """The dicts were written into from outside."""
        self.current = self.spaces.get(self.namespace)
        self.is_plain = self.changes is None and self.current is not None
        return 0

    cdef list next_entries(self, Py_ssize_t count):
        """The next entries of all, as (namespace, token, value), round and round; none while a snapshot reads them.

        Entries that come and go meanwhile may be missed or met twice, as in Flink.
        """
        cdef PyObject *token
        cdef PyObject *value
        cdef list entries = []
        if self.changes is not None:
            return entries
        while len(entries) < count:
            if self.sweep_space is None:
                if not self.sweep_namespaces:
                    self.sweep_namespaces = list(self.spaces)
                    if entries:
                        break  # once round is enough
                self.sweep_namespace = self.sweep_namespaces.pop() if self.sweep_namespaces else None
                self.sweep_space = self.spaces.get(self.sweep_namespace)
                self.sweep_position = 0
                if self.sweep_space is None:
                    continue
            if PyDict_Next(self.sweep_space, &self.sweep_position, &token, &value):
                entries.append((self.sweep_namespace, <object>token, <object>value))
            else:
                self.sweep_space = None
                if not self.sweep_namespaces:
                    break
        return entries

    cdef int drain(self, Py_ssize_t count) except -1:
        """Put up to `count` changes back into the dicts, if no snapshot reads them any more."""
        cdef dict layer
        if self.frozen is not None:
            if not self.frozen.is_released:
                return 0
            self.frozen = None
        while self.changes and count > 0:
            namespace = next(reversed(self.changes))
            layer = self.changes[namespace]
            while layer and count > 0:
                token, value = layer.popitem()
                self.set_in_space(namespace, token, value)
                count -= 1
            if not layer:
                del self.changes[namespace]
        if not self.changes:
            self.changes = None
        return self.refresh()

    cdef list tokens(self):
        """The tokens of all keys with a value in the namespace, in no order that is promised."""
        cdef dict found = dict.fromkeys(self.current) if self.current is not None else {}
        if self.changes is not None:
            for token, value in self.changes.get(self.namespace, {}).items():
                if value is None:
                    found.pop(token, None)
                else:
                    found[token] = None
        return list(found)

    cdef FrozenTable freeze(self):
        """Everything as it is now, for a snapshot. A second one while another is being written copies the dicts."""
        cdef FrozenTable frozen = FrozenTable()
        if self.changes is not None:
            self.drain(2**62)
        if self.changes is not None:
            frozen.spaces = self.merged()
            return frozen
        frozen.spaces = self.spaces
        self.changes = {}
        self.is_plain = False
        self.frozen = frozen
        return frozen

    def merged(self):
        """Copies with the changes in them: the dicts belong to the snapshot before."""
        spaces = {
            namespace: {token: own_copy(value) for token, value in space.items()}
            for namespace, space in self.spaces.items()
        }
        for namespace, layer in self.changes.items():
            space = spaces.setdefault(namespace, {})
            for token, value in layer.items():
                if value is None:
                    space.pop(token, None)
                else:
                    space[token] = own_copy(value)
        return spaces
