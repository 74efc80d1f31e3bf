"""What the codecs of all kinds stand on: the node of a type, refusals, room to write, checks while reading.

A codec is a pair of functions, `put` and `get`, that a node of the type's tree points to. The walk works on borrowed
`PyObject*`, since counting references would cost as much as the encoding. A function that fails has set a Python
exception. A refused value is a `Refusal`, to which each level adds its step of the path to the field; it becomes the
user's TypeError, OverflowError or ValueError at the top. All other exceptions pass unchanged.
"""

import sys

from cpython.exc cimport PyErr_ExceptionMatches, PyErr_Fetch, PyErr_NormalizeException
from libc.stdint cimport INT32_MAX, int32_t
from libc.string cimport memcpy

from flinkbuf._core.ground.byte_order cimport fb_load_be32, fb_store_be32
from flinkbuf._core.ground.data_view cimport fb_data_input_left, fb_data_output_reserve
from flinkbuf._core.ground.errors cimport FB_ECORRUPT, FB_ETOO_LARGE, FB_ETRUNCATED, FB_OK, check, fb_strerror
from flinkbuf._core.value.python_object cimport FB_IDENTITY, PyErr_Restore, Py_DECREF
from flinkbuf._core.value.type cimport fb_type_fits, fb_type_skip
from flinkbuf.errors import CorruptDataError, record_refused


cdef class Codec:
    """One node of a type's tree: what its values are called, hold and are made of. TypeCodec makes it."""

    cdef str describe(self):
        """The type as text for messages."""
        if self.kind == "DECIMAL_DATA":
            return f"DECIMAL_DATA({self.type.precision}, {self.type.scale})"
        if self.kind == "TIMESTAMP_DATA" or self.kind == "TIMESTAMP_LTZ_DATA":
            return f"{self.kind}({self.type.precision})"
        if self.kind == "INSTANT" and not self.own_class:
            return "TIMESTAMP_LTZ"
        if not self.children or self.kind in ("STRING_ARRAY", "DATE_DATA", "TIME_DATA"):
            return self.kind
        names = self.names if self.names is not None else [None] * len(self.children)
        inner = ", ".join([(f"{name} " if name is not None else "") + (<Codec>child).describe()
                           for name, child in zip(names, self.children)])
        return f"{self.kind}({inner})" if len(inner) <= 200 else f"{self.kind}({inner[:197]}...)"

    cdef str step(self, index):
        """Child `index` in the path to a refused value: fields as ``.'name'``, elements as ``[3]``."""
        if self.kind == "ROW" or self.kind == "TUPLE" or self.kind == "ROW_DATA":
            return "." + repr(self.names[index] if self.names is not None else f"f{index}")
        return f"[{index}]"


# --- refusals -----------------------------------------------------------------------------------------


class Refusal(Exception):
    """A value that its type cannot hold, on its way up to where the whole path to it is known."""

    def __init__(self, error, codec, value, why):
        self.error, self.codec, self.value, self.why, self.path = error, codec, value, why, []


cdef int refuse(const codec_node* n, PyObject* value, object error, str why="") except -1:
    raise Refusal(error, <object>n.codec, <object>value, why)


cdef int refuse_step(const codec_node* n, object value, object error, str why, str step) except -1:
    """As refuse, for a value that lies at `step` of what is being written."""
    refusal = Refusal(error, <object>n.codec, value, why)
    refusal.path.append(step)
    raise refusal


cdef int add_step(const codec_node* n, object step):
    """Notes which child of `n` was refused, if that is why we fail; keeps the exception set."""
    cdef PyObject *kind = NULL
    cdef PyObject *error = NULL
    cdef PyObject *traceback = NULL
    if not PyErr_ExceptionMatches(Refusal):
        return 0
    PyErr_Fetch(&kind, &error, &traceback)
    PyErr_NormalizeException(&kind, &error, &traceback)
    (<object>error).path.append(step if isinstance(step, str) else (<Codec>n.codec).step(step))
    PyErr_Restore(kind, error, traceback)
    return 0


cdef int add_key_step(const codec_node* n, object key):
    """Names a value of a map by its key, whose repr may run only while no exception is set."""
    cdef PyObject *kind = NULL
    cdef PyObject *error = NULL
    cdef PyObject *traceback = NULL
    PyErr_Fetch(&kind, &error, &traceback)
    step = f"[{shorten(key)}]"
    PyErr_Restore(kind, error, traceback)
    return add_step(n, step)


cdef str shorten(object value):
    """The repr of any value, cut; a repr that fails is no reason to hide the error."""
    try:
        text = repr(value)
    except Exception as error:
        text = f"<a value whose repr raises {type(error).__name__}>"
    return text if len(text) <= 80 else text[:77] + "..."


cdef int explain(int64_t record_number, str field_path_name) except -1:
    """Turns a Refusal into the exception for the user; all others go on as they are."""
    cdef PyObject *kind = NULL
    cdef PyObject *error = NULL
    cdef PyObject *traceback = NULL
    if not PyErr_ExceptionMatches(Refusal):
        return -1
    PyErr_Fetch(&kind, &error, &traceback)
    PyErr_NormalizeException(&kind, &error, &traceback)
    refusal = <object>error
    Py_DECREF(kind)
    Py_DECREF(error)
    if traceback != NULL:
        Py_DECREF(traceback)
    path = "".join(reversed(refusal.path))
    if path:
        where = f"field {path[1:]}" if path[0] == "." else f"element {path}"
        if field_path_name is not None:
            where = f"{field_path_name}, {where}"
    else:
        where = field_path_name if field_path_name is not None else "value"
    value = refusal.value
    text = (f"{record_words(record_number)}{where}: expected {(<Codec>refusal.codec).describe()}, "
            f"got {shorten(value)} ({type(value).__name__})")
    raise record_refused(refusal.error(f"{text}: {refusal.why}" if refusal.why else text), record_number, "type", where)


# --- encode -------------------------------------------------------------------------------------------


cdef uint8_t* make_room(fb_data_output* out, uint8_t* pos, size_t size) except NULL:
    """Room for `size` bytes at `pos`, which may move."""
    cdef int code
    if <size_t>(out.end - pos) >= size:
        return pos
    out.pos = pos
    code = fb_data_output_reserve(out, size)
    if code == FB_ETOO_LARGE:
        raise record_refused(
            OverflowError(f"{record_words(out.record_number)}a record must be smaller than 2 GiB when encoded"),
            out.record_number, "type")
    check(code)
    return out.pos


cdef str record_words(int64_t record_number):
    return f"record {record_number}: " if record_number >= 0 else ""


cdef uint8_t* put_count(const codec_node* n, PyObject* value, Py_ssize_t count, size_t size, uint8_t* pos,
                        fb_data_output* out) except NULL:
    """A 4-byte count or length, and room for `size` bytes after it."""
    if count > INT32_MAX:
        refuse(n, value, OverflowError, "the length must fit 31 bits")
    pos = make_room(out, pos, 4 + size)
    fb_store_be32(pos, <uint32_t>count)
    return pos + 4


cdef uint8_t* put_sized(const codec_node* n, PyObject* value, const void* data, Py_ssize_t size, uint8_t* pos,
                        fb_data_output* out) except NULL:
    pos = put_count(n, value, size, size, pos, out)
    memcpy(pos, data, size)
    return pos + size


# --- decode -------------------------------------------------------------------------------------------


cdef PyObject* corrupt(const codec_node* n, fb_data_input* source, int code, str why="",
                       str advice="was it written with the same type?") except NULL:
    """Raises for bytes at source.pos that the type does not have."""
    cdef list where = [f"byte {source.pos - source.start} of {source.end - source.start}"]
    if source.record_number >= 0:
        where.append(f"record {source.record_number}")
    if source.channel >= 0:
        where.append(f"channel {source.channel}")
    text = why or fb_strerror(code).decode("ascii")
    raise CorruptDataError(f"{(<Codec>n.codec).describe()} expected at {', '.join(where)}: {text}; {advice}")


cdef const uint8_t* measured(const codec_node* n, fb_data_input* source) except NULL:
    """Where a value begins whose bytes are all there and all right; moves past it."""
    cdef const uint8_t* start = source.pos
    cdef int code = fb_type_skip(&(<Codec>n.codec).type, source)
    if code != FB_OK:
        corrupt(n, source, code)
    return start


cdef int get_flag(const codec_node* n, fb_data_input* source) except -1:
    cdef int flag
    if source.pos == source.end:
        corrupt(n, source, FB_ETRUNCATED)
    flag = source.pos[0]
    if flag > 1:
        corrupt(n, source, FB_ECORRUPT)
    source.pos += 1
    return flag


cdef Py_ssize_t get_count(const codec_node* n, fb_data_input* source, size_t min_size) except -1:
    """A count of elements of at least `min_size` bytes, checked against the bytes left before anything is allocated."""
    cdef uint32_t count
    if fb_data_input_left(source) < 4:
        corrupt(n, source, FB_ETRUNCATED)
    count = fb_load_be32(source.pos)
    if count > <uint32_t>INT32_MAX:
        corrupt(n, source, FB_ECORRUPT, f"a count of {<int32_t>count}")
    if not fb_type_fits(count, min_size, fb_data_input_left(source) - 4):
        corrupt(n, source, FB_ETRUNCATED,
                f"a count of {count}, but only {fb_data_input_left(source) - 4} bytes are left for elements of at "
                f"least {min_size}")
    source.pos += 4
    return count


cdef object get_child(const codec_node* child, fb_data_input* source):
    return FB_IDENTITY(child.get(child, source))


# --- numpy, which is never imported for this ----------------------------------------------------------


cdef bint is_numpy(object value, str name):
    """Whether `value` is a numpy scalar of that family, without importing numpy."""
    if type(value).__module__ != "numpy":
        return False
    numpy = sys.modules["numpy"]
    return isinstance(value, numpy.bool_ if name == "bool" else numpy.floating)


cdef bint is_array(object value):
    """Whether `value` is a numpy array, without importing numpy, which another thread may be about to."""
    return isinstance(value, getattr(sys.modules.get("numpy"), "ndarray", ()))
