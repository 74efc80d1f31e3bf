"""From Python keys to Java's hash codes, key groups and the subtasks that own them."""


from libc.stdint cimport INT64_MAX, INT64_MIN, uint64_t

from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.unicode cimport PyUnicode_CheckExact

from flinkbuf._core.ground.data_view cimport fb_data_output_close, fb_data_output_prune, fb_data_output_start_scratch
from flinkbuf._core.ground.errors cimport FB_ESTATE, check, fail
from flinkbuf._core.value.type cimport (
    FB_TYPE_BOOLEAN, FB_TYPE_BYTE, FB_TYPE_DOUBLE, FB_TYPE_FLOAT, FB_TYPE_INT, FB_TYPE_LONG, FB_TYPE_NULLABLE,
    FB_TYPE_OBJECT, FB_TYPE_SHORT, FB_TYPE_STRING,
)
from flinkbuf._core.value.type_codec cimport encode_value

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    int PyUnicode_KIND(object text)
    void* PyUnicode_DATA(object text)
    bint PyUnicode_IS_ASCII(object text)
    int PyUnicode_1BYTE_KIND
    int PyUnicode_2BYTE_KIND

cdef enum:
    KEEP_BYTES = 1 << 16   # a larger scratch is given back after its key
    GIL_FREE_COUNT = 4096  # columns shorter than this hash faster than the GIL changes hands

# The numpy type that holds a column of such keys.
cdef dict DTYPES = {
    FB_TYPE_BOOLEAN: "bool", FB_TYPE_BYTE: "int8", FB_TYPE_SHORT: "int16", FB_TYPE_INT: "int32",
    FB_TYPE_LONG: "int64", FB_TYPE_FLOAT: "float32", FB_TYPE_DOUBLE: "float64",
}


cdef dict BITS = {FB_TYPE_BYTE: 8, FB_TYPE_SHORT: 16, FB_TYPE_INT: 32, FB_TYPE_LONG: 64}


cdef inline int32_t hash_text(str text) noexcept:
    cdef size_t length = <size_t>PyUnicode_GET_LENGTH(text)
    cdef int kind = PyUnicode_KIND(text)
    cdef void* data = PyUnicode_DATA(text)
    if kind == PyUnicode_1BYTE_KIND:
        return fb_key_group_hash_latin1(<const uint8_t*>data, length)
    if kind == PyUnicode_2BYTE_KIND:
        return fb_key_group_hash_ucs2(<const uint16_t*>data, length)
    return fb_key_group_hash_ucs4(<const uint32_t*>data, length)


cdef class KeyHasher:
    """Java's ``hashCode`` of the keys of one type.

    Ints, strings, floats and bools are hashed where they lie; any other key is encoded by its codec, and the bytes
    are hashed as the Java object that Flink would make of them.

    Parameters
    ----------
    codec : TypeCodec
        Of the key's type. A key of an undeclared type is hashed over its bytes, which are the same in every process.
    takes_none : bool, default False
        Give None the hash 0, as it has in a Row, in place of refusing it. Where nobody declared the type, None is a
        key like any other.

    Raises
    ------
    ValueError
        If keys of that type have no hash that depends on their value alone.
    """

    def __cinit__(self, TypeCodec codec not None, bint takes_none=False):
        cdef const fb_type* type
        self.codec = codec.as_key()
        type = &self.codec.type
        if fb_key_group_hash_check(type) < 0:
            raise ValueError(
                "values of this type cannot be keys: Java does not hash arrays and enums by value (but arrays inside "
                "a ROW), and equal objects may pickle to different bytes; key by a field, or by a function that makes "
                "a string or a tuple of it"
            )
        while type.kind == FB_TYPE_NULLABLE:
            type = type.children[0]
        self.kind = type.kind
        self.takes_none = takes_none or self.codec.type.kind == FB_TYPE_OBJECT
        self.low, self.high = 1, 0
        if self.kind == FB_TYPE_OBJECT:
            self.low, self.high = INT64_MIN, INT64_MAX
        elif self.kind in BITS:
            self.high = <int64_t>((<uint64_t>1 << (<int>BITS[self.kind] - 1)) - 1)
            self.low = -self.high - 1

    def __dealloc__(self):
        fb_data_output_close(&self.output)

    cdef int hash(self, object key, int32_t* hash, int64_t record_number) except -1:
        cdef int overflow = 0
        cdef int64_t number
        if PyLong_CheckExact(key):
            if self.low <= self.high:
                number = PyLong_AsLongLongAndOverflow(key, &overflow)
                if overflow == 0 and self.low <= number <= self.high:
                    # The hash of a LONG folds its halves; the narrower kinds are their own hash.
                    if self.kind == FB_TYPE_LONG or self.kind == FB_TYPE_OBJECT:
                        hash[0] = fb_key_group_hash_long(number)
                    else:
                        hash[0] = <int32_t>number
                    return 0
        elif PyUnicode_CheckExact(key):
            if self.kind == FB_TYPE_STRING or (self.kind == FB_TYPE_OBJECT and PyUnicode_IS_ASCII(key)):
                hash[0] = hash_text(key)
                return 0
        elif PyFloat_CheckExact(key):
            if self.kind == FB_TYPE_DOUBLE:
                hash[0] = fb_key_group_hash_double(PyFloat_AS_DOUBLE(key))
                return 0
        elif key is True or key is False:
            if self.kind == FB_TYPE_BOOLEAN:
                hash[0] = fb_key_group_hash_bool(key is True)
                return 0
        return self.hash_by_codec(key, hash, record_number)

    cdef int hash_by_codec(self, object key, int32_t* hash, int64_t record_number) except -1:
        cdef fb_data_output output = self.output
        cdef fb_data_input input
        cdef int code
        if key is None and not self.takes_none:
            raise ValueError("the assigned key must not be null, got None")
        if key is None and self.codec.type.kind != FB_TYPE_OBJECT:
            hash[0] = 0
            return 0
        # A value's own Python code may come back here while it is encoded: the scratch is taken, not shared.
        self.output.scratch = NULL
        self.output.scratch_capacity = 0
        try:
            fb_data_output_start_scratch(&output)
            output.record_number = record_number
            encode_value(self.codec, key, &output)
            input.start = input.pos = output.start
            input.end = output.pos
            input.record_number = input.channel = -1
            code = fb_key_group_hash_encoded(&self.codec.type, &input, hash)
        finally:
            fb_data_output_prune(&output, KEEP_BYTES)
            fb_data_output_close(&self.output)
            self.output = output
        if code == FB_ESTATE:
            raise ValueError(f"the assigned key must not be null, got {key!r}")
        return check(code)

    def hash_code(self, key):
        """Java's hash code of `key`, from -2**31 to 2**31 - 1.

        Raises
        ------
        ValueError
            If `key` is None, and None is not taken.
        TypeError, OverflowError, ValueError
            If `key` is not a value of the type.
        """
        cdef int32_t result
        self.hash(key, &result, -1)
        return result

    def hash_encoded(self, const uint8_t[::1] data not None):
        """Java's hash code of the key whose encoded bytes, all of them, are `data`.

        Undeclared values inside must be as ``codec`` of this hasher writes them.

        Raises
        ------
        ValueError
            If the key is null, or `data` is not one encoded key.
        """
        cdef fb_data_input input
        cdef int32_t result
        input.start = NULL
        if data.shape[0] > 0:
            input.start = &data[0]
        input.pos = input.start
        input.end = input.start + data.shape[0]
        input.record_number = input.channel = -1
        cdef int code = fb_key_group_hash_encoded(&self.codec.type, &input, &result)
        if code == FB_ESTATE:
            raise ValueError("the assigned key must not be null, but the bytes encode null")
        if code < 0:
            fail(code, f"byte {input.pos - input.start} of an encoded key")
        if input.pos != input.end:
            raise ValueError(f"the encoded key ends after {input.pos - input.start} of {data.shape[0]} bytes")
        return result

    def hash_codes(self, keys):
        """Java's hash codes of a column of keys: an int32 array.

        An array of numbers that fit the type without loss is hashed at once, without the GIL where it is long;
        any other sequence key by key.
        """
        import numpy  # not before somebody wants columns

        dtype = DTYPES.get(self.kind)
        if isinstance(keys, numpy.ndarray) and dtype is not None:
            if keys.ndim != 1:
                raise ValueError(f"keys must be a one-dimensional array, got {keys.ndim} dimensions")
            if not numpy.can_cast(keys.dtype, dtype, "safe"):
                raise TypeError(f"keys of {keys.dtype} do not all fit the key type, which holds {dtype}; convert them")
            return hash_column(numpy.ascontiguousarray(keys, dtype))
        items = keys.tolist() if isinstance(keys, numpy.ndarray) else list(keys)
        hashes = numpy.empty(len(items), numpy.int32)
        cdef int32_t[::1] view = hashes
        cdef Py_ssize_t i
        for i in range(len(items)):
            self.hash(items[i], &view[i], i)
        return hashes


cdef class KeyGrouper:
    """Which key group a key is in, as partitioners see it; and which groups a subtask has."""

    def __init__(self, TypeCodec codec not None, uint32_t max_parallelism, uint32_t first, uint32_t last):
        self.hasher = KeyHasher(codec, takes_none=True)
        self.max_parallelism = max_parallelism
        self.first = first
        self.last = last

    cdef int64_t group(self, object key) except -1:
        cdef int32_t hash_code
        self.hasher.hash(key, &hash_code, -1)
        return fb_key_group_of(hash_code, self.max_parallelism)

    cdef int64_t own_group(self, object key) except -1:
        """The key group of a key; RuntimeError if another subtask has it."""
        cdef int64_t group = self.group(key)
        if self.first <= group <= self.last:
            return group
        raise RuntimeError(
            f"the key {key!r} is in key group {group}, but this subtask has {self.first} to {self.last}: a key "
            f"selector must give the same key for the same record each time it is called, in each process, and it is "
            f"called again behind the shuffle; a key that is drawn, or depends on the order of a set, is put into the "
            f"record by a map() before key_by()"
        )

    def group_of(self, key):
        """The key group of a key."""
        return self.group(key)


cdef hash_column(keys):
    """The hash codes of a contiguous array of one of the types in DTYPES."""
    import numpy

    if keys.dtype == numpy.bool_:
        return numpy.where(keys, numpy.int32(fb_key_group_hash_bool(True)), numpy.int32(fb_key_group_hash_bool(False)))
    if keys.dtype.kind == "i" and keys.dtype.itemsize <= 4:
        return keys.astype(numpy.int32)
    hashes = numpy.empty(keys.shape[0], numpy.int32)
    cdef int32_t[::1] out = hashes
    cdef size_t count = keys.shape[0]
    cdef const int64_t[::1] longs
    cdef const float[::1] floats
    cdef const double[::1] doubles
    if count == 0:
        return hashes
    if keys.dtype == numpy.int64:
        longs = keys
        if count < GIL_FREE_COUNT:
            fb_key_group_hash_longs(&longs[0], count, &out[0])
        else:
            with nogil:
                fb_key_group_hash_longs(&longs[0], count, &out[0])
    elif keys.dtype == numpy.float32:
        floats = keys
        with nogil:
            fb_key_group_hash_floats(&floats[0], count, &out[0])
    else:
        doubles = keys
        with nogil:
            fb_key_group_hash_doubles(&doubles[0], count, &out[0])
    return hashes


def check_parallelism(max_parallelism, parallelism=1):
    """Raise ValueError unless 1 <= parallelism <= max_parallelism <= 32768, as Flink does."""
    if not 1 <= max_parallelism <= FB_MAX_PARALLELISM:
        raise ValueError(f"max parallelism must be from 1 to {FB_MAX_PARALLELISM}, got {max_parallelism}")
    if not 1 <= parallelism <= max_parallelism:
        raise ValueError(f"parallelism must be from 1 to the max parallelism of {max_parallelism}, got {parallelism}")


def key_group_of_hash(int32_t hash_code, max_parallelism):
    """The key group of a key with this hash code."""
    check_parallelism(max_parallelism)
    return fb_key_group_of(hash_code, max_parallelism)


def key_groups_of_hashes(const int32_t[::1] hash_codes not None, max_parallelism):
    """The key groups of an int32 array of hash codes: a uint32 array."""
    import numpy

    check_parallelism(max_parallelism)
    groups = numpy.empty(hash_codes.shape[0], numpy.uint32)
    cdef uint32_t[::1] out = groups
    cdef uint32_t groups_in_all = max_parallelism
    cdef Py_ssize_t i
    with nogil:
        for i in range(hash_codes.shape[0]):
            out[i] = fb_key_group_of(hash_codes[i], groups_in_all)
    return groups


def operator_index(key_group, max_parallelism, parallelism):
    """The subtask that owns a key group."""
    check_parallelism(max_parallelism, parallelism)
    if not 0 <= key_group < max_parallelism:
        raise ValueError(f"key group must be from 0 to {max_parallelism - 1}, got {key_group}")
    return fb_key_group_operator(key_group, max_parallelism, parallelism)


def key_group_range(max_parallelism, parallelism, subtask_index):
    """The first and the last key group of a subtask."""
    cdef uint32_t first, last
    check_parallelism(max_parallelism, parallelism)
    if not 0 <= subtask_index < parallelism:
        raise ValueError(f"subtask index must be from 0 to {parallelism - 1}, got {subtask_index}")
    check(fb_key_group_range(max_parallelism, parallelism, subtask_index, &first, &last))
    return first, last


def default_max_parallelism(parallelism):
    """Flink's default for `parallelism` subtasks."""
    check_parallelism(FB_MAX_PARALLELISM, parallelism)
    return fb_key_group_default_max_parallelism(parallelism)
