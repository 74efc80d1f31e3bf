"""The values of one keyed state: by namespace, then by key. A snapshot reads them while the operator goes on writing.

Taking a snapshot copies nothing. The dicts as they are become the snapshot's; what is written from then on is laid
over them, and a value that is read to be changed is copied first, so that neither side sees the other. A further
snapshot lays a layer over the changes before it. When all snapshots have been written, the changes go back into the
dicts, a few with each access. Flink: CopyOnWriteStateTable.
"""

from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.ref cimport PyObject

from flinkbuf._core.value.own_value cimport own_copy

cdef enum:
    DRAIN_COUNT = 8  # changes that go back with each access
    MAX_LAYERS = 8   # more are put together, where no snapshot reads them

cdef object MISSING = object()


cdef class FrozenTable:
    """All values of a state at the moment of a snapshot. `release` when they have been written."""

    def parts(self):
        """Go over all there is, as (namespace, {token: value}, dicts that were written later); not to be changed.

        None is no value; an entry whose token is in a later dict does not count.
        """
        cdef list layers = [self.spaces, *self.layers]
        for i in range(len(layers)):
            for namespace, space in (<dict>layers[i]).items():
                over = [(<dict>later)[namespace] for later in layers[i + 1 :] if namespace in <dict>later]
                yield namespace, space, over or None

    def release(self):
        """Let the operator write into the dicts again; from any thread."""
        self.is_released = True
        self.spaces = {}
        self.layers = []


cdef class StateTable:
    """Values by namespace and key; None is no value. Used by the task's thread."""

    def __cinit__(self):
        self.current = {}
        self.spaces = {None: self.current}
        self.is_plain = True

    cdef object get(self, object token):
        """The value of a key in the namespace, or None; not to be changed."""
        cdef PyObject* value
        if self.is_plain:
            value = PyDict_GetItemWithError(self.current, token)
            return None if value is NULL else <object>value
        return self.get_slowly(token, False)

    cdef object own(self, object token):
        """Likewise, to be changed in place: no snapshot has it."""
        cdef PyObject* value
        if self.is_plain:
            value = PyDict_GetItemWithError(self.current, token)
            return None if value is NULL else <object>value
        return self.get_slowly(token, True)

    cdef bint may_be_read(self):
        """Whether a snapshot may read what the table holds."""
        return self.changes is not None

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

    cdef int clear(self) except -1:
        """Remove the values of all keys. Values that a snapshot reads stay its own."""
        if self.is_plain and self.namespace is None and len(self.spaces) == 1:
            self.current.clear()
            return 0
        self.layers = self.changes = self.frozen = self.sweep_namespaces = self.sweep_space = None
        self.current = {}
        self.spaces = {None: self.current}
        self.namespace, self.sweep_namespace = None, None
        self.is_plain = True
        return 0

    cdef int set_namespace(self, object namespace) except -1:
        """All calls are about this namespace from now on."""
        if namespace is self.namespace:
            return 0
        self.namespace = namespace
        self.current = self.spaces.get(namespace)
        self.is_plain = self.changes is None and self.current is not None
        return 0

    cdef object get_slowly(self, object token, bint is_to_change):
        cdef dict layer
        cdef Py_ssize_t i
        hash(token)  # so that a missing key is noticed where there is no dict to look into
        if self.changes is not None:
            self.drain(DRAIN_COUNT)
        value = MISSING
        if self.changes is not None:
            i = len(self.layers)
            while i > 0 and value is MISSING:
                i -= 1
                layer = (<dict>self.layers[i]).get(self.namespace)
                if layer is not None:
                    value = layer.get(token, MISSING)
            if value is not MISSING and i == <Py_ssize_t>len(self.layers) - 1:
                return value  # no snapshot has it
        if value is MISSING:
            value = None if self.current is None else self.current.get(token)
        if self.frozen is None or value is None or not is_to_change:
            return value
        if self.is_shallow:
            own = dict(<dict>value) if type(value) is dict else list(<list>value)
        else:
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

    cdef bint is_read(self) except -1:
        """Whether a snapshot still reads the dicts."""
        if self.frozen is not None:
            self.frozen = [each for each in self.frozen if not (<FrozenTable>each).is_released] or None
        return self.frozen is not None

    cdef int drain(self, Py_ssize_t count) except -1:
        """Put up to `count` changes back into the dicts, if no snapshot reads them any more."""
        cdef dict layer, space
        if self.is_read():
            return 0
        while self.layers and count > 0:
            layer = self.layers[0]  # the oldest first, as those above have the last word
            while layer and count > 0:
                namespace = next(reversed(layer))
                space = layer[namespace]
                while space and count > 0:
                    token, value = space.popitem()
                    self.set_in_space(namespace, token, value)
                    count -= 1
                if not space:
                    del layer[namespace]
            if not layer:
                del self.layers[0]
        if not self.layers:
            self.layers = self.changes = None
        return self.refresh()

    cdef list tokens(self):
        """The tokens of all keys with a value in the namespace, in no order that is promised."""
        cdef dict found = dict.fromkeys(self.current) if self.current is not None else {}
        for layer in self.layers or ():
            for token, value in (<dict>layer).get(self.namespace, {}).items():
                if value is None:
                    found.pop(token, None)
                else:
                    found[token] = None
        return list(found)

    cdef FrozenTable freeze(self):
        """Everything as it is now, for a snapshot, in no time, whatever other snapshots do."""
        cdef FrozenTable frozen = FrozenTable()
        if self.changes is not None:
            self.drain(DRAIN_COUNT if len(self.layers) < MAX_LAYERS else 2**62)
        frozen.spaces = self.spaces
        frozen.layers = list(self.layers) if self.layers is not None else []
        self.changes = {}
        self.layers = [*(self.layers or ()), self.changes]
        self.is_plain = False
        self.frozen = [*(self.frozen or ()), frozen]
        return frozen
