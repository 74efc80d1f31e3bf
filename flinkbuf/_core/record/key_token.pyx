"""What identifies a key in a table of Python's: equal for the same key as Flink sees it, and only for that.

Flink compares keys by their Java objects, and undeclared ones by their bytes: there 1, 1.0 and True are three keys, 0.0
and -0.0 are two, and NaN is one. Python's equality knows it otherwise, and a list has no hash at all. Such keys get a
token; the others, nearly all of real data, are their own.
"""

from cpython.datetime cimport (
    PyDate_CheckExact, PyDateTime_CheckExact, PyDelta_CheckExact, PyTime_CheckExact, datetime_fold, datetime_tzinfo,
    import_datetime, time_fold, time_tzinfo,
)
from libc.math cimport floor, signbit

from flinkbuf._core.value.conversion cimport convert_value
from flinkbuf._core.value.object cimport FB_OBJECT_MAX_DEPTH
from flinkbuf._core.value.python_object cimport FB_TUPLE_ITEMS, PyFloat_AS_DOUBLE, PyTuple_GET_SIZE, Py_None

import_datetime()

# Kinds whose values differ in Python where they differ in Java, and have a hash.
cdef frozenset THEMSELVES = frozenset([
    "BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "CHAR", "STRING", "STRING_VALUE", "BIG_INT", "VOID", "NULL_VALUE",
    "ENUM",
])


cdef class KeyToken:
    """Stands for a key that Python takes for another one, or cannot hash."""

    def __hash__(self):
        return self.hash

    def __eq__(self, other):
        return type(other) is KeyToken and self.hash == (<KeyToken>other).hash and self.data == (<KeyToken>other).data

    def __repr__(self):
        return f"KeyToken({self.data!r})"


cdef class KeyTokens:
    """Identifies the keys of one type.

    Parameters
    ----------
    codec : TypeCodec, optional
        Of the key's declared type. Without it, or with that of `object_type`, keys are whatever they are.

    Examples
    --------
    >>> tokens = KeyTokens()
    >>> table = {tokens.token_of(key): name for key, name in ((1, "int"), (1.0, "float"), (True, "bool"), ([], "list"))}
    >>> len(table), tokens.token_of(1), table[tokens.token_of([])]
    (4, 1, 'list')
    """

    def __cinit__(self, TypeCodec codec=None):
        self.declared = codec is not None and codec.kind != "OBJECT"
        self.codec = codec
        self.key_codec = (TypeCodec("OBJECT") if codec is None else codec).as_key()
        self.rule = SOME
        if self.declared and are_themselves(codec):
            self.rule = ALL
        elif self.declared and codec.kind in ("DOUBLE", "FLOAT"):
            self.rule = ALL_BUT_ODD_FLOATS

    def bring(self, key):
        """The key as its declared type gives it; where nobody declared one, as it is."""
        return bring_key(self, key)

    def token_of(self, key):
        """A hashable object, equal to that of another key only if the two are one: `key` itself wherever that does.

        A key of a declared type must be as `bring` gives it.

        Raises
        ------
        TypeError, ValueError
            If nothing identifies the key: it does not pickle, or holds itself.
        """
        return key_token(self, key)

    cdef object token_slowly(self, object key):
        cdef KeyToken token
        cdef double number
        if self.rule == ALL_BUT_ODD_FLOATS and type(key) is float:
            number = PyFloat_AS_DOUBLE(<PyObject*>key)
            if number == number and (number != 0 or not signbit(number)):
                return key
        elif is_itself(<PyObject*>key, 0):
            return key
        token = KeyToken.__new__(KeyToken)
        token.data = self.key_codec.serialize(key)
        token.hash = hash(token.data)
        return token


cdef object bring_key(KeyTokens tokens, object key):
    return convert_value(tokens.codec, key) if tokens.declared and key is not None else key


cdef bint are_themselves(TypeCodec codec):
    if codec.kind == "TUPLE" or codec.kind == "NULLABLE":
        return all([are_themselves(child) for child in codec.children])
    return codec.kind in THEMSELVES


cdef bint is_itself(PyObject* key, int depth) noexcept:
    """Whether a key differs in Python from every other key that is not the same; its class says so, mostly.

    None of a subclass is, so a str is not mixed up with an enum's member that equals it. A float is where no int equals
    it, a tuple where its items are.
    """
    cdef PyObject* kind = FB_TYPE_OF(key)
    cdef PyObject** items
    cdef Py_ssize_t i
    if kind == <PyObject*>str or kind == <PyObject*>int or kind == <PyObject*>bytes or key == Py_None:
        return True
    if kind == <PyObject*>float:
        return floor(PyFloat_AS_DOUBLE(key)) < PyFloat_AS_DOUBLE(key)  # false for NaN and infinities too
    if kind != <PyObject*>tuple:
        return is_plain_time(<object>key)
    if depth >= FB_OBJECT_MAX_DEPTH:
        return False
    items = FB_TUPLE_ITEMS(key)
    for i in range(PyTuple_GET_SIZE(key)):
        if not is_itself(items[i], depth + 1):
            return False
    return True


cdef bint is_plain_time(object key) noexcept:
    """A zone is left out of comparisons, and so is what `fold` says."""
    if PyDateTime_CheckExact(key):
        return datetime_tzinfo(key) is None and not datetime_fold(key)
    if PyTime_CheckExact(key):
        return time_tzinfo(key) is None and not time_fold(key)
    return PyDate_CheckExact(key) or PyDelta_CheckExact(key)
