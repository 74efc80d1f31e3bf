"""The key that a keyed operator works for at the moment; its state tables and timers look here.

One a keyed operator, used by the task's thread only. Set before each record from the operator's key selector, and
before each timer from the timer. Flink: KeyContext, AbstractKeyedStateBackend.setCurrentKey.
"""


cdef class KeyContext:
    """The current key of one operator."""

    cpdef set_key(self, object key):
        """Everything up to the next call is done for this key."""
        self.key = key
        self.token = key
        self.is_set = True

    cpdef clear(self):
        """There is no current key: keyed state cannot be used until the next one is set."""
        self.key = self.token = None
        self.is_set = False
