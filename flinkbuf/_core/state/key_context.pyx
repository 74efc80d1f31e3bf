"""The key that a keyed operator works for at the moment; its state tables and timers look here.

One a keyed operator, used by the task's thread only. Set before each record from the operator's key selector, and
before each timer from the timer. Flink: KeyContext, AbstractKeyedStateBackend.setCurrentKey.
"""

from flinkbuf._core.record.key_group cimport KeyGrouper
from flinkbuf._core.record.key_token cimport KeyTokens, bring_key, key_token
from flinkbuf._core.value.own_value cimport own_copy
from flinkbuf._core.value.type_codec cimport TypeCodec

cdef enum:
    FIRST_CHECKS = 64   # of so many keys at the beginning the group is looked at
    CHECK_EACH = 256    # then of one in so many: a key selector that draws its keys is found, at no cost


cdef class HeldKey:
    """The token of a key that cannot stand for itself, such as True, which Python finds equal to 1; keeps the key."""

    def __cinit__(self, token, key):
        self.token = token
        self.key = key

    def __hash__(self):
        return hash(self.token)

    def __eq__(self, other):
        return isinstance(other, HeldKey) and self.token == (<HeldKey>other).token

    def __repr__(self):
        return f"HeldKey({self.key!r})"


cdef class NoKey:
    """What stands in for the token where there is no key: a dict asks for its hash, and the user gets a sentence."""

    def __hash__(self):
        raise RuntimeError(
            "keyed state and timers belong to a key, and there is none now: use them while a record of a keyed stream "
            "is processed or a timer fires, not in open() or close() or for records of a stream that is not keyed"
        )

    def __repr__(self):
        return "NO_KEY"


cdef NoKey NO_KEY = NoKey()


cdef object key_of_token(object token):
    """The user's key of what a table is keyed by."""
    return (<HeldKey>token).key if type(token) is HeldKey else token


cdef object given_key(object token):
    """The same for the user, who may change what can change of it."""
    return own_copy((<HeldKey>token).key) if type(token) is HeldKey else token


cdef class KeyContext:
    """The current key of one operator.

    Parameters
    ----------
    codec : TypeCodec, optional
        Of the keys' type; None where no type is declared.
    grouper : KeyGrouper, optional
        Of the subtask: keys that another subtask has are refused, as far as they are looked at. None: no key is.
    """

    def __cinit__(self, TypeCodec codec=None, KeyGrouper grouper=None):
        self.tokens = KeyTokens(codec)
        self.token = NO_KEY
        self.grouper = grouper

    cpdef set_key(self, object key):
        """Everything up to the next call is done for this key.

        Raises
        ------
        RuntimeError
            If the key belongs to another subtask: its selector gives another key each time.
        """
        self.key = bring_key(self.tokens, key)
        if self.key_count < FIRST_CHECKS or self.key_count % CHECK_EACH == 0:
            if self.grouper is not None:
                self.grouper.own_group(self.key)
        self.key_count += 1
        self.token = self.token_of(self.key)
        self.is_set = True
        if self.listeners is not None:
            for listener in self.listeners:
                listener()

    cpdef object token_of(self, object key):
        """What tables are keyed by for `key`, which is as its type gives it."""
        token = key_token(self.tokens, key)
        return key if token is key else HeldKey(token, own_copy(key))

    cpdef clear(self):
        """There is no current key: keyed state cannot be used until the next one is set."""
        self.key = None
        self.token = NO_KEY
        self.is_set = False

    def listen(self, listener):
        """Have `listener` called without arguments after each change of the key."""
        self.listeners = [*(self.listeners or ()), listener]


def key_of(token):
    """The user's key of what a table is keyed by."""
    return given_key(token)
