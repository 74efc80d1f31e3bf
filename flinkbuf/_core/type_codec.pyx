"""Values of Python ↔ the bytes of Flink's TypeSerializers: one walk over the value for each direction.

`put` writes one value, `get` reads one; both are switches over the kinds in csrc/record/type_codec.h. What a record is mostly
made of (numbers, ASCII text) is inlined into the loops over fields; the rest is a function for each kind. The walk
works on borrowed `PyObject*`, since counting references would cost as much as the encoding. A function that fails
has set a Python exception. A refused value is a `Refusal`, to which each level adds its step of the path to the field;
it becomes the user's TypeError, OverflowError or ValueError at the top. All other exceptions pass unchanged.
"""

import decimal
import sys

from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.datetime cimport (
    PyDate_Check, PyDateTime_Check, PyDateTime_CheckExact, PyTime_Check, date_day, date_month, date_new, date_year,
    datetime_hour, datetime_microsecond, datetime_minute, datetime_new, datetime_second, datetime_tzinfo, get_utc,
    import_datetime, time_hour, time_microsecond, time_minute, time_new, time_second, time_tzinfo, timedelta_days, timedelta_microseconds, timedelta_seconds,
)
from cpython.exc cimport PyErr_Clear, PyErr_ExceptionMatches, PyErr_Fetch, PyErr_NormalizeException
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int32_t, int64_t
from libc.string cimport memcpy, memset

from flinkbuf._core.data_view cimport fb_input_left, fb_output_close, fb_output_reserve, fb_output_size
from flinkbuf._core.data_view cimport fb_output_start
from flinkbuf._core.errors cimport FB_ECORRUPT, FB_ETOO_LARGE, FB_ETRUNCATED, FB_OK, check, fb_strerror
from flinkbuf.errors import CorruptDataError

import_datetime()

cdef extern from "ground/byte_order.h" nogil:
    unsigned short fb_load_be16(const uint8_t* from_)
    uint32_t fb_load_be32(const uint8_t* from_)
    unsigned long long fb_load_be64(const uint8_t* from_)
    void fb_store_be16(uint8_t* to, unsigned short value)
    void fb_store_be32(uint8_t* to, uint32_t value)
    void fb_store_be64(uint8_t* to, unsigned long long value)

cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030B0000
    #include "longintrepr.h"
    #endif

    /* Reads an exact int of one or two digits; 0 says that it is longer and goes the slow way. */
    static inline int fb_small_int(PyObject* value, int64_t* number) {
    #if PY_VERSION_HEX < 0x030C0000
      const digit* digits = ((PyLongObject*)value)->ob_digit;
      switch (Py_SIZE(value)) {
        case 0: *number = 0; return 1;
        case 1: *number = digits[0]; return 1;
        case -1: *number = -(int64_t)digits[0]; return 1;
        case 2: *number = (int64_t)digits[0] | (int64_t)digits[1] << PyLong_SHIFT; return 1;
        case -2: *number = -((int64_t)digits[0] | (int64_t)digits[1] << PyLong_SHIFT); return 1;
        default: return 0;
      }
    #else
      if (!PyUnstable_Long_IsCompact((PyLongObject*)value)) return 0;
      *number = (int64_t)PyUnstable_Long_CompactValue((PyLongObject*)value);
      return 1;
    #endif
    }

    static inline uint64_t fb_double_bits(double value) {
      uint64_t bits;
      if (value != value) return 0x7ff8000000000000u; /* Java's doubleToLongBits: one NaN stands for all */
      memcpy(&bits, &value, 8);
      return bits;
    }

    static inline uint32_t fb_float_bits(double value) {
      float narrow = (float)value;
      uint32_t bits;
      if (narrow != narrow) return 0x7fc00000u;
      memcpy(&bits, &narrow, 4);
      return bits;
    }

    static inline double fb_bits_double(uint64_t bits) {
      double value;
      memcpy(&value, &bits, 8);
      return value;
    }

    static inline double fb_bits_float(uint32_t bits) {
      float value;
      memcpy(&value, &bits, 4);
      return value;
    }

    /* memcpy for text, which is mostly short: no call for up to 16 bytes, and no byte outside of either side. */
    static inline void fb_copy(uint8_t* to, const uint8_t* from, size_t size) {
      if (size > 16) {
        memcpy(to, from, size);
      } else if (size >= 8) {
        uint64_t head, tail;
        memcpy(&head, from, 8);
        memcpy(&tail, from + size - 8, 8);
        memcpy(to, &head, 8);
        memcpy(to + size - 8, &tail, 8);
      } else if (size >= 4) {
        uint32_t head, tail;
        memcpy(&head, from, 4);
        memcpy(&tail, from + size - 4, 4);
        memcpy(to, &head, 4);
        memcpy(to + size - 4, &tail, 4);
      } else if (size > 0) {
        to[0] = from[0];
        to[size - 1] = from[size - 1];
        to[size / 2] = from[size / 2];
      }
    }

    /* A str of `size` ASCII bytes; those of length 0 and 1 exist once in the process. */
    static inline PyObject* fb_ascii(const uint8_t* from, size_t size) {
      PyObject* text;
      if (size < 2) return size == 0 ? PyUnicode_New(0, 0) : PyUnicode_FromOrdinal(from[0]);
      text = PyUnicode_New((Py_ssize_t)size, 127);
      if (text != NULL) fb_copy(PyUnicode_1BYTE_DATA(text), from, size);
      return text;
    }

    /* The ints and short texts of real data repeat, and making an object costs three times as much as finding one:
     * ints below FB_KEPT_INTS are made once in the process, texts of 2 to 8 bytes are looked up in a small table of
     * the field's own, in which the newest wins. Immutable objects, so nobody can tell but by `is`. Under the GIL. */
    #define FB_KEPT_INTS 8192
    #define FB_KEPT_TEXTS 512 /* of each field; a power of two */

    struct fb_kept_text {
      uint64_t word; /* the bytes, then zeros: text with a NUL in it is not kept */
      PyObject* text;
    };

    static PyObject* fb_kept_ints[FB_KEPT_INTS];

    /* PyLong_FromLongLong without its way through three functions of another library. */
    static inline PyObject* fb_new_int(int64_t number) {
    #if PY_VERSION_HEX < 0x030C0000 && PyLong_SHIFT == 30 && !defined(Py_REF_DEBUG) && !defined(Py_TRACE_REFS)
      uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
      Py_ssize_t size = 1 + (rest >> 30 != 0) + (rest >> 60 != 0);
      PyLongObject* made;
      if (rest < 8) return PyLong_FromLong((long)number); /* Python keeps the small negative ones */
      made = PyObject_Malloc(offsetof(PyLongObject, ob_digit) + (size_t)size * sizeof(digit));
      if (made == NULL) return PyErr_NoMemory();
      Py_SET_REFCNT((PyObject*)made, 1);
      Py_SET_TYPE((PyObject*)made, &PyLong_Type);
      Py_SET_SIZE((PyVarObject*)made, number < 0 ? -size : size);
      made->ob_digit[0] = (digit)(rest & PyLong_MASK);
      if (size > 1) made->ob_digit[1] = (digit)(rest >> 30 & PyLong_MASK);
      if (size > 2) made->ob_digit[2] = (digit)(rest >> 60);
      return (PyObject*)made;
    #else
      return PyLong_FromLongLong(number);
    #endif
    }

    static inline PyObject* fb_int(int64_t number) {
      PyObject* made;
      if ((uint64_t)number >= FB_KEPT_INTS) return fb_new_int(number);
      if (fb_kept_ints[number] == NULL && (fb_kept_ints[number] = PyLong_FromLong((long)number)) == NULL) return NULL;
      made = fb_kept_ints[number];
      Py_INCREF(made);
      return made;
    }

    static inline PyObject* fb_kept_ascii(struct fb_kept_text* kept, const uint8_t* from, size_t size) {
      uint64_t word = 0;
      struct fb_kept_text* slot;
      if (kept == NULL || size < 2 || size > 8) return fb_ascii(from, size);
      if (size >= 4) {
        uint32_t head, tail;
        memcpy(&head, from, 4);
        memcpy(&tail, from + size - 4, 4);
        word = (uint64_t)head | (uint64_t)tail << (8 * (size - 4));
      } else {
        word = (uint64_t)from[0] | (uint64_t)from[1] << 8 | (uint64_t)from[size - 1] << (8 * (size - 1));
      }
      slot = &kept[(word * 0x9e3779b97f4a7c15u) >> 55];
      if (slot->text == NULL || slot->word != word || (size_t)PyUnicode_GET_LENGTH(slot->text) != size) {
        PyObject *old = slot->text, *text = fb_ascii(from, size);
        if (text == NULL) return NULL;
        slot->word = word;
        slot->text = text;
        Py_XDECREF(old);
      }
      Py_INCREF(slot->text);
      return slot->text;
    }

    static inline void fb_forget_texts(struct fb_kept_text* kept) {
      for (size_t i = 0; kept != NULL && i < FB_KEPT_TEXTS; i++) Py_CLEAR(kept[i].text);
    }

    /* Whether objects of a class of rows are laid out as tuples are and nothing else. */
    static inline int fb_is_plain_tuple(PyObject* type) {
      PyTypeObject* t = (PyTypeObject*)type;
      return t->tp_alloc == PyType_GenericAlloc && t->tp_basicsize == PyTuple_Type.tp_basicsize &&
             t->tp_itemsize == (Py_ssize_t)sizeof(PyObject*) && t->tp_dictoffset == 0 && t->tp_weaklistoffset == 0;
    }

    /* A row whose fields are still NULL and which the garbage collector does not see yet. */
    static inline PyObject* fb_new_row(PyObject* type, Py_ssize_t size) {
      PyTupleObject* row = PyObject_GC_NewVar(PyTupleObject, (PyTypeObject*)type, size);
      if (row == NULL) return NULL;
      for (Py_ssize_t i = 0; i < size; i++) row->ob_item[i] = NULL;
      return (PyObject*)row;
    }

    /* row["name"]; all else is left to tuple. In C, as a __getitem__ of Python's would make row[1] ten times slower. */
    static PyObject* fb_row_subscript(PyObject* row, PyObject* key) {
      PyObject *names, *item = NULL;
      Py_ssize_t at = -1;
      if (!PyUnicode_Check(key)) return PyTuple_Type.tp_as_mapping->mp_subscript(row, key);
      names = PyObject_GetAttrString((PyObject*)Py_TYPE(row), "_names");
      if (names == NULL) return NULL;
      if (!PyTuple_Check(names)) {
        PyErr_Format(PyExc_KeyError, "this Row has no field %R: its fields have no names", key);
      } else {
        for (Py_ssize_t i = 0; at < 0 && i < PyTuple_GET_SIZE(names); i++) {
          int equal = PyObject_RichCompareBool(PyTuple_GET_ITEM(names, i), key, Py_EQ);
          if (equal < 0) break;
          if (equal) at = i;
        }
        if (at >= 0 && at < PyTuple_GET_SIZE(row)) {
          item = PyTuple_GET_ITEM(row, at);
          Py_INCREF(item);
        } else if (!PyErr_Occurred()) {
          PyErr_Format(PyExc_KeyError, "this Row has no field %R: its fields are %R", key, names);
        }
      }
      Py_DECREF(names);
      return item;
    }

    static int fb_row_traverse(PyObject* row, visitproc visit, void* arg) {
      Py_VISIT(Py_TYPE(row));
      return PyTuple_Type.tp_traverse(row, visit, arg);
    }

    /* The class above all rows: laid out as a tuple is. Its subclasses say in `_names` what their fields are called. */
    static PyObject* fb_make_named_fields(void) {
      PyType_Slot slots[] = {
          {Py_mp_subscript, (void*)fb_row_subscript},
          {Py_tp_traverse, (void*)fb_row_traverse},
          {Py_tp_doc, (void*)"A tuple whose items are found by name too; its class has the names in `_names`."},
          {0, NULL},
      };
      PyType_Spec spec = {"flinkbuf._core.type_codec.NamedFields", (int)PyTuple_Type.tp_basicsize,
                          (int)PyTuple_Type.tp_itemsize,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
      PyObject* bases = PyTuple_Pack(1, (PyObject*)&PyTuple_Type);
      PyObject* made = bases == NULL ? NULL : PyType_FromSpecWithBases(&spec, bases);
      Py_XDECREF(bases);
      return made;
    }

    #define FB_TUPLE_ITEMS(tuple) (((PyTupleObject*)(tuple))->ob_item)
    #define FB_NONE() (Py_INCREF(Py_None), Py_None)
    #define FB_BYTES(data, size) PyBytes_FromStringAndSize(data, (Py_ssize_t)(size))
    #define FB_BOOL(value) ((value) ? (Py_INCREF(Py_True), Py_True) : (Py_INCREF(Py_False), Py_False))
    #define FB_TYPE_OF(value) ((PyObject*)Py_TYPE(value))
    """
    struct fb_kept_text:
        PyObject* text
    bint fb_small_int(PyObject* value, int64_t* number)
    unsigned long long fb_double_bits(double value)
    uint32_t fb_float_bits(double value)
    double fb_bits_double(unsigned long long bits)
    double fb_bits_float(uint32_t bits)
    void fb_copy(uint8_t* to, const uint8_t* from_, size_t size)
    PyObject* fb_ascii(const uint8_t* from_, size_t size) except NULL
    PyObject** FB_TUPLE_ITEMS(PyObject* tuple_)
    PyObject* fb_new_row(PyObject* type_, Py_ssize_t size) except NULL
    PyObject* fb_int(int64_t number) except NULL
    PyObject* fb_kept_ascii(fb_kept_text* kept, const uint8_t* from_, size_t size) except NULL
    void fb_forget_texts(fb_kept_text* kept)
    bint fb_is_plain_tuple(PyObject* type_)
    object fb_make_named_fields()
    enum:
        FB_KEPT_TEXTS
    PyObject* FB_NONE()
    PyObject* FB_BYTES(const char* data, size_t size) except NULL
    PyObject* FB_BOOL(bint value)
    PyObject* FB_TYPE_OF(PyObject* value)

cdef extern from "Python.h":
    PyObject* Py_None
    PyObject* Py_True
    PyObject* Py_False
    void Py_INCREF(PyObject* value)
    void PyErr_Restore(PyObject* kind, PyObject* error, PyObject* traceback)
    void Py_DECREF(PyObject* value)
    void PyObject_GC_Track(PyObject* value)
    bint PyBool_Check(PyObject* value)
    bint PyLong_Check(PyObject* value)
    bint PyLong_CheckExact(PyObject* value)
    bint PyIndex_Check(PyObject* value)
    object PyNumber_Index(object value)
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1
    PyObject* PyLong_FromLong(long value) except NULL
    PyObject* PyLong_FromLongLong(long long value) except NULL
    bint PyFloat_Check(PyObject* value)
    bint PyFloat_CheckExact(PyObject* value)
    double PyFloat_AS_DOUBLE(PyObject* value)
    PyObject* PyFloat_FromDouble(double value) except NULL
    bint PyUnicode_Check(PyObject* value)
    bint PyUnicode_CheckExact(PyObject* value)
    bint PyUnicode_IS_COMPACT_ASCII(PyObject* value)
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject* value)
    int PyUnicode_KIND(PyObject* value)
    void* PyUnicode_DATA(PyObject* value)
    PyObject* PyUnicode_New(Py_ssize_t size, uint32_t max_point) except NULL
    PyObject* PyUnicode_FromOrdinal(int point) except NULL
    uint32_t PyUnicode_READ_CHAR(PyObject* value, Py_ssize_t index)
    bint PyTuple_Check(PyObject* value)
    bint PyTuple_CheckExact(PyObject* value)
    Py_ssize_t PyTuple_GET_SIZE(PyObject* value)
    PyObject* PyTuple_New(Py_ssize_t size) except NULL
    void PyTuple_SET_ITEM(PyObject* tuple_, Py_ssize_t index, PyObject* item)
    bint PyList_Check(PyObject* value)
    Py_ssize_t PyList_GET_SIZE(PyObject* value)
    PyObject* PyList_GET_ITEM(PyObject* value, Py_ssize_t index)
    PyObject* PyList_New(Py_ssize_t size) except NULL
    void PyList_SET_ITEM(PyObject* list_, Py_ssize_t index, PyObject* item)
    bint PyDict_Check(PyObject* value)
    bint PyDict_CheckExact(PyObject* value)
    int PyDict_Next(PyObject* value, Py_ssize_t* position, PyObject** key, PyObject** item)
    int PyDict_SetItem(object value, object key, object item) except -1
    int PyObject_CheckBuffer(object value)

ctypedef uint8_t* (*put_function)(const codec_node*, PyObject*, uint8_t*, fb_output*) noexcept
ctypedef PyObject* (*get_function)(const codec_node*, const uint8_t**, fb_input*) noexcept

cdef dict KINDS = {
    "BOOLEAN": FB_TYPE_BOOLEAN, "BYTE": FB_TYPE_BYTE, "SHORT": FB_TYPE_SHORT, "CHAR": FB_TYPE_CHAR, "INT": FB_TYPE_INT,
    "LONG": FB_TYPE_LONG, "FLOAT": FB_TYPE_FLOAT, "DOUBLE": FB_TYPE_DOUBLE, "STRING": FB_TYPE_STRING,
    "STRING_VALUE": FB_TYPE_STRING_VALUE, "VOID": FB_TYPE_VOID, "NULL_VALUE": FB_TYPE_NULL_VALUE,
    "BIG_INT": FB_TYPE_BIG_INT, "BIG_DEC": FB_TYPE_BIG_DEC, "INSTANT": FB_TYPE_INSTANT,
    "LOCAL_DATE": FB_TYPE_LOCAL_DATE, "LOCAL_TIME": FB_TYPE_LOCAL_TIME, "LOCAL_DATE_TIME": FB_TYPE_LOCAL_DATE_TIME,
    "DATE": FB_TYPE_DATE, "SQL_DATE": FB_TYPE_SQL_DATE, "SQL_TIME": FB_TYPE_SQL_TIME,
    "SQL_TIMESTAMP": FB_TYPE_SQL_TIMESTAMP, "ENUM": FB_TYPE_ENUM, "PICKLED_BYTES": FB_TYPE_PICKLED_BYTES,
    "PRIMITIVE_ARRAY": FB_TYPE_PRIMITIVE_ARRAY, "STRING_ARRAY": FB_TYPE_STRING_ARRAY,
    "OBJECT_ARRAY": FB_TYPE_OBJECT_ARRAY, "LIST": FB_TYPE_LIST, "SET": FB_TYPE_SET, "MAP": FB_TYPE_MAP,
    "TUPLE": FB_TYPE_TUPLE, "ROW": FB_TYPE_ROW, "EITHER": FB_TYPE_EITHER, "NULLABLE": FB_TYPE_NULLABLE,
    "STREAM_ELEMENT": FB_TYPE_STREAM_ELEMENT,
}
# How many children and classes a kind has; any number where it says None.
cdef dict CHILD_COUNTS = {
    "PRIMITIVE_ARRAY": 1, "OBJECT_ARRAY": 1, "LIST": 1, "SET": 1, "MAP": 2, "TUPLE": None, "ROW": None, "EITHER": 2,
    "NULLABLE": 1, "STREAM_ELEMENT": 1,
}
cdef dict CLASS_COUNTS = {
    "ROW": 4, "EITHER": 2, "INSTANT": 1, "LOCAL_DATE": 1, "LOCAL_TIME": 1, "LOCAL_DATE_TIME": 1, "DATE": 1,
    "SQL_DATE": 1, "SQL_TIME": 1, "SQL_TIMESTAMP": 1, "STREAM_ELEMENT": 6,
}
# What a PRIMITIVE_ARRAY can hold: the numpy dtype, and the buffer formats that need no conversion but byte order.
cdef dict ARRAY_TYPES = {
    "BOOLEAN": ("bool", "?"), "BYTE": ("int8", "bBc?"), "SHORT": ("int16", "h"), "CHAR": ("uint16", "H"),
    "INT": ("int32", "il"), "LONG": ("int64", "lq"), "FLOAT": ("float32", "f"), "DOUBLE": ("float64", "d"),
}
cdef tuple UNHASHABLE = ("LIST", "SET", "MAP", "PRIMITIVE_ARRAY", "OBJECT_ARRAY", "STRING_ARRAY")
# Their Python values hold no other objects, so a row of them is no concern of the garbage collector; it finds that out
# by itself for plain tuples only.
cdef frozenset ACYCLIC = frozenset([
    "BOOLEAN", "BYTE", "SHORT", "CHAR", "INT", "LONG", "FLOAT", "DOUBLE", "STRING", "STRING_VALUE", "VOID",
    "NULL_VALUE", "BIG_INT", "BIG_DEC",
])
# Kinds with several Python values for the same bytes: what is rounded, what has a class of ours beside Python's own.
cdef frozenset MERGING = frozenset([
    "FLOAT", "INSTANT", "LOCAL_DATE", "LOCAL_TIME", "LOCAL_DATE_TIME", "DATE", "SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP",
])
NamedFields = fb_make_named_fields()
cdef object Decimal = decimal.Decimal
cdef object EXACT = decimal.Context(prec=decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
cdef int64_t DAY_MILLIS = 86_400_000


# --- refusals -----------------------------------------------------------------------------------------


class Refusal(Exception):
    """A value that its type cannot hold, on its way up to where the whole path to it is known."""

    def __init__(self, error, codec, value, why):
        self.error, self.codec, self.value, self.why, self.path = error, codec, value, why, []


cdef int refuse(const codec_node* n, PyObject* value, object error, str why="") except -1:
    raise Refusal(error, <object>n.codec, <object>value, why)


cdef int add_step(const codec_node* n, object step):
    """Notes which child of `n` was refused, if that is why we fail; keeps the exception set."""
    cdef PyObject *kind = NULL
    cdef PyObject *error = NULL
    cdef PyObject *traceback = NULL
    if not PyErr_ExceptionMatches(Refusal):
        return 0
    PyErr_Fetch(&kind, &error, &traceback)
    PyErr_NormalizeException(&kind, &error, &traceback)
    (<object>error).path.append(step if isinstance(step, str) else (<TypeCodec>n.codec).step(step))
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


# --- encode: room and numbers -------------------------------------------------------------------------


cdef uint8_t* make_room(fb_output* out, uint8_t* pos, size_t size) except NULL:
    """Room for `size` bytes at `pos`, which may move."""
    cdef int code
    if <size_t>(out.end - pos) >= size:
        return pos
    out.pos = pos
    code = fb_output_reserve(out, size)
    if code == FB_ETOO_LARGE:
        raise OverflowError(f"{record_words(out.record_number)}a record must be smaller than 2 GiB when encoded")
    check(code)
    return out.pos


cdef str record_words(int64_t record_number):
    return f"record {record_number}: " if record_number >= 0 else ""


cdef int as_integer(const codec_node* n, PyObject* value, int64_t low, int64_t high, int64_t* number) except -1:
    """Any int, or what says by __index__ that it is one; no bool, as pyspark has it."""
    cdef int overflow = 0
    if PyBool_Check(value):
        refuse(n, value, TypeError, "a bool is not taken for a number")
    if not PyLong_Check(value):
        refuse_array(n, value)
        if not PyIndex_Check(value) or is_numpy(<object>value, "bool"):
            refuse(n, value, TypeError)
        number[0] = PyLong_AsLongLongAndOverflow(PyNumber_Index(<object>value), &overflow)
    else:
        number[0] = PyLong_AsLongLongAndOverflow(<object>value, &overflow)
    if overflow != 0 or number[0] < low or number[0] > high:
        refuse(n, value, OverflowError, f"it must be within {low}..{high}")
    return 0


cdef bint is_numpy(object value, str name):
    """Whether `value` is a numpy scalar of that family, without importing numpy."""
    if type(value).__module__ != "numpy":
        return False
    numpy = sys.modules["numpy"]
    return isinstance(value, numpy.bool_ if name == "bool" else numpy.floating)


cdef bint is_array(object value):
    """Whether `value` is a numpy array, without importing numpy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


cdef int refuse_array(const codec_node* n, PyObject* value) except -1:
    """Arrays of one element pass for numbers in numpy, sometimes; here a number is no array."""
    if is_array(<object>value):
        refuse(n, value, TypeError, "an array is not taken for a number; .item() gives the one that it holds")
    return 0


cdef str array_advice(object value):
    if not is_array(value):
        return ""
    if value.ndim == 0:
        return "an array without dimensions holds one value, not a list of them; .item() gives it"
    return "use .tolist(), or declare a PRIMITIVE_ARRAY, which takes arrays as they are"


cdef int as_double(const codec_node* n, PyObject* value, double* number) except -1:
    """A float, or what equals one exactly: an int, a numpy float."""
    if PyFloat_Check(value):
        number[0] = PyFloat_AS_DOUBLE(value)
        return 0
    v = <object>value
    refuse_array(n, value)
    if PyLong_Check(value) and not PyBool_Check(value) or PyIndex_Check(value) and not PyLong_Check(value) \
            and not is_numpy(v, "bool"):
        whole = PyNumber_Index(v)
        try:
            number[0] = <double>float(whole)
        except OverflowError:
            refuse(n, value, OverflowError, "no float is that large")
        if number[0] != whole or (n.kind == FB_TYPE_FLOAT and fb_bits_float(fb_float_bits(number[0])) != number[0]):
            refuse(n, value, ValueError, "this int would be rounded; convert it to float first if that is meant")
    elif is_numpy(v, "floating"):
        number[0] = <double>float(v)
        if number[0] != v and number[0] == number[0]:
            refuse(n, value, ValueError, "it would be rounded; convert it to float first if that is meant")
    else:
        refuse(n, value, TypeError)
    return 0


cdef uint8_t* put_float(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    """Rounded to the nearest float32, as Java's (float) does; what would become infinite is refused."""
    cdef double number = 0
    cdef uint32_t bits
    as_double(n, value, &number)
    bits = fb_float_bits(number)
    if (bits & 0x7fffffff) == 0x7f800000 and number - number == 0:
        refuse(n, value, OverflowError, "a FLOAT holds at most 3.4028235e+38")
    pos = make_room(out, pos, 4)
    fb_store_be32(pos, bits)
    return pos + 4


cdef uint8_t* put_boolean(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    cdef bint truth = value == Py_True
    if not PyBool_Check(value):
        if not is_numpy(<object>value, "bool"):
            refuse(n, value, TypeError)
        truth = bool(<object>value)
    pos = make_room(out, pos, 1)
    pos[0] = truth
    return pos + 1


cdef uint8_t* put_char(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    if not PyUnicode_Check(value):
        refuse(n, value, TypeError, "a CHAR is a str of one character")
    if PyUnicode_GET_LENGTH(value) != 1 or PyUnicode_READ_CHAR(value, 0) > 0xffff:
        refuse(n, value, ValueError, "a CHAR is one UTF-16 unit")
    pos = make_room(out, pos, 2)
    fb_store_be16(pos, <unsigned short>PyUnicode_READ_CHAR(value, 0))
    return pos + 2


cdef uint8_t* put_integer(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    cdef int64_t number = 0
    pos = make_room(out, pos, 8)
    if n.kind == FB_TYPE_BYTE:
        as_integer(n, value, -128, 127, &number)
        pos[0] = <uint8_t>number
        return pos + 1
    if n.kind == FB_TYPE_SHORT:
        as_integer(n, value, -32768, 32767, &number)
        fb_store_be16(pos, <unsigned short>number)
        return pos + 2
    if n.kind == FB_TYPE_INT:
        as_integer(n, value, INT32_MIN, INT32_MAX, &number)
        fb_store_be32(pos, <uint32_t>number)
        return pos + 4
    as_integer(n, value, INT64_MIN, INT64_MAX, &number)
    fb_store_be64(pos, <unsigned long long>number)
    return pos + 8


# --- encode: text and bytes ---------------------------------------------------------------------------


cdef uint8_t* put_text(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    """STRING counts one more than the units, so that 0 is null; STRING_VALUE has no null."""
    cdef fb_text text
    cdef Py_ssize_t length
    cdef int shift = n.kind != FB_TYPE_STRING_VALUE
    if value == Py_None and shift == 1:
        pos = make_room(out, pos, 1)
        pos[0] = 0
        return pos + 1
    if not PyUnicode_Check(value):
        refuse(n, value, TypeError)
    length = PyUnicode_GET_LENGTH(value)
    if length > INT32_MAX // 2:
        refuse(n, value, OverflowError, "a text must have fewer than 2**30 characters")
    if not fb_type_codec_plan_text(PyUnicode_DATA(value), length, PyUnicode_KIND(value), &text):
        refuse(n, value, ValueError, "it has the two halves (surrogates) of a character side by side, which would come "
               "back as that one; .encode('utf-16', 'surrogatepass').decode('utf-16', 'surrogatepass') joins them")
    pos = make_room(out, pos, 5 + text.size)
    pos = fb_type_codec_write_varint(text.units + shift, pos)
    if text.size == <size_t>length:
        memcpy(pos, PyUnicode_DATA(value), length)  # ASCII
        return pos + length
    return fb_type_codec_encode_text(PyUnicode_DATA(value), length, PyUnicode_KIND(value), pos)


cdef uint8_t* put_count(const codec_node* n, PyObject* value, Py_ssize_t count, size_t size, uint8_t* pos,
                        fb_output* out) except NULL:
    """A 4-byte count or length, and room for `size` bytes after it."""
    if count > INT32_MAX:
        refuse(n, value, OverflowError, "the length must fit 31 bits")
    pos = make_room(out, pos, 4 + size)
    fb_store_be32(pos, <uint32_t>count)
    return pos + 4


cdef uint8_t* put_sized(const codec_node* n, PyObject* value, const void* data, Py_ssize_t size, uint8_t* pos,
                        fb_output* out) except NULL:
    pos = put_count(n, value, size, size, pos, out)
    memcpy(pos, data, size)
    return pos + size


cdef bytes pickled(const codec_node* n, PyObject* value):
    """A pickle; one of cloudpickle's for what only that can write, if it or pyspark is there anyway.

    Those are lambdas, classes of functions, and classes of `__main__` that came here from another process.
    """
    import pickle
    try:
        return pickle.dumps(<object>value, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        why = str(error)
    cloudpickle = sys.modules.get("pyspark.cloudpickle") or sys.modules.get("cloudpickle")
    if cloudpickle is None:
        why += "; if cloudpickle is imported, it is used for lambdas and local classes"
    else:
        try:
            return cloudpickle.dumps(<object>value, protocol=5)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            why = str(error)
    refuse(n, value, TypeError, f"it does not pickle: {why}")


cdef uint8_t* put_pickled(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    cdef bytes data = pickled(n, value)
    return put_sized(n, value, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), pos, out)


# --- encode: big numbers ------------------------------------------------------------------------------


cdef uint8_t* put_unscaled(const codec_node* n, PyObject* value, object number, uint8_t* pos,
                           fb_output* out) except NULL:
    """Flink's BigInteger: 0, 1 and 10 have short forms (Flink compares references, so it writes others too)."""
    cdef bytes data
    if number == 0 or number == 1 or number == 10:
        pos = make_room(out, pos, 4)
        fb_store_be32(pos, 1 if number == 0 else 2 if number == 1 else 3)
        return pos + 4
    data = number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
    if PyBytes_GET_SIZE(data) > INT32_MAX - 4:
        refuse(n, value, OverflowError, "it is too long")
    pos = put_sized(n, value, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), pos, out)
    fb_store_be32(pos - PyBytes_GET_SIZE(data) - 4, <uint32_t>PyBytes_GET_SIZE(data) + 4)
    return pos


cdef uint8_t* put_big_int(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    if PyBool_Check(value):
        refuse(n, value, TypeError, "a bool is not taken for a number")
    refuse_array(n, value)
    if not PyLong_Check(value) and (not PyIndex_Check(value) or is_numpy(<object>value, "bool")):
        refuse(n, value, TypeError)
    return put_unscaled(n, value, int(PyNumber_Index(<object>value)), pos, out)


cdef uint8_t* put_big_dec(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    v = <object>value
    if not isinstance(v, Decimal):
        refuse(n, value, TypeError)
    if not v.is_finite():
        refuse(n, value, ValueError, "a BigDecimal is finite")
    sign, _, exponent = v.as_tuple()
    unscaled = int(v.copy_abs().scaleb(-exponent, EXACT))
    if sign and unscaled == 0:
        refuse(n, value, ValueError, "a BigDecimal has no negative zero; abs(value) is what it can hold")
    if not INT32_MIN <= -exponent <= INT32_MAX:
        refuse(n, value, OverflowError, "the scale of a BigDecimal must fit 32 bits")
    pos = put_unscaled(n, value, -unscaled if sign else unscaled, pos, out)
    pos = make_room(out, pos, 4)
    fb_store_be32(pos, <uint32_t><int32_t>(-exponent))
    return pos + 4


# --- encode: dates and times --------------------------------------------------------------------------


cdef int64_t days_from_civil(int64_t year, int month, int day):
    """Days since 1970-01-01 of a date from the year 1 on; years begin in March, so that leap days end them."""
    cdef int64_t shifted = year - (month <= 2)
    cdef int64_t day_of_year = (153 * (month + (9 if month <= 2 else -3)) + 2) // 5 + day - 1
    return shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + day_of_year - 719468


cdef int64_t floor_div(int64_t value, int64_t divisor):
    cdef int64_t quotient = value // divisor
    return quotient - 1 if value % divisor < 0 else quotient


cdef int64_t sub_micro(object value) except -1:
    """The nanoseconds that a datetime of another class, such as pandas.Timestamp, has beside its microseconds."""
    return 0 if PyDateTime_CheckExact(value) else getattr(value, "nanosecond", 0)


cdef uint8_t* put_date_parts(int64_t year, int month, int day, uint8_t* pos):
    fb_store_be32(pos, <uint32_t><int32_t>year)
    pos[4] = <uint8_t>month
    pos[5] = <uint8_t>day
    return pos + 6


cdef uint8_t* put_time_parts(int hour, int minute, int second, int64_t nano, uint8_t* pos):
    pos[0] = <uint8_t>hour
    pos[1] = <uint8_t>minute
    pos[2] = <uint8_t>second
    fb_store_be32(pos + 3, <uint32_t>nano)
    return pos + 7


cdef bint is_not_a_time(object value):
    """pandas.NaT is a datetime by class only."""
    return not PyDateTime_CheckExact(value) and value != value


cdef uint8_t* put_local(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    """LOCAL_DATE, LOCAL_TIME, LOCAL_DATE_TIME."""
    cdef object v = <object>value
    cdef object exact = (<TypeCodec>n.codec).classes[0]
    pos = make_room(out, pos, 13)
    if v is None:
        memcpy(pos, b"\x80\0\0\0\x80\0\x80\x80\0\x80\0\0\0", 13)
        if n.kind == FB_TYPE_LOCAL_DATE:
            return pos + 6
        if n.kind == FB_TYPE_LOCAL_DATE_TIME:
            return pos + 13
        memcpy(pos, b"\x80\x80\0\x80\0\0\0", 7)
        return pos + 7
    if n.kind == FB_TYPE_LOCAL_DATE:
        if PyDateTime_Check(v):
            refuse(n, value, TypeError, "a datetime would lose its time; use .date()")
        if PyDate_Check(v):
            return put_date_parts(date_year(v), date_month(v), date_day(v), pos)
        if type(v) is not exact:
            refuse(n, value, TypeError)
        return put_date_parts(v.year, v.month, v.day, pos)
    if type(v) is exact:
        if n.kind == FB_TYPE_LOCAL_DATE_TIME:
            pos = put_date_parts(v.year, v.month, v.day, pos)
        return put_time_parts(v.hour, v.minute, v.second, v.nano, pos)
    if not (PyDateTime_Check(v) if n.kind == FB_TYPE_LOCAL_DATE_TIME else PyTime_Check(v)):
        refuse(n, value, TypeError)
    if n.kind == FB_TYPE_LOCAL_TIME:
        if time_tzinfo(v) is not None:
            refuse(n, value, ValueError, "its time zone would be lost; use .replace(tzinfo=None)")
        return put_time_parts(time_hour(v), time_minute(v), time_second(v), time_microsecond(v) * 1000, pos)
    if is_not_a_time(v):
        refuse(n, value, ValueError, "it is no time; None is the null of this type")
    if datetime_tzinfo(v) is not None:
        refuse(n, value, ValueError, "its time zone would be lost; use .replace(tzinfo=None), or INSTANT")
    pos = put_date_parts(date_year(v), date_month(v), date_day(v), pos)
    return put_time_parts(datetime_hour(v), datetime_minute(v), datetime_second(v),
                          datetime_microsecond(v) * 1000 + sub_micro(v), pos)


cdef int epoch_of(const codec_node* n, PyObject* value, bint aware, int64_t* second, int64_t* nano) except -1:
    """Seconds since 1970 in UTC and the nanoseconds after them, of a datetime with or without a time zone."""
    cdef object v = <object>value
    cdef int64_t micros
    if not PyDateTime_Check(v):
        refuse(n, value, TypeError)
    if is_not_a_time(v):
        refuse(n, value, ValueError, "it is no time; None is the null of this type")
    zone = datetime_tzinfo(v)
    offset = None if zone is None or zone is get_utc() else v.utcoffset()
    if aware and offset is None and zone is not get_utc():
        refuse(n, value, ValueError, "it has no time zone; use .astimezone() or .replace(tzinfo=...)")
    if not aware and zone is not None:
        refuse(n, value, ValueError, "its time zone would be lost; use INSTANT, or .replace(tzinfo=None)")
    second[0] = days_from_civil(date_year(v), date_month(v), date_day(v)) * 86400
    second[0] += datetime_hour(v) * 3600 + datetime_minute(v) * 60 + datetime_second(v)
    micros = datetime_microsecond(v)
    if offset is not None:
        second[0] -= <int64_t>timedelta_days(offset) * 86400 + timedelta_seconds(offset)
        micros -= timedelta_microseconds(offset)
        if micros < 0:
            micros += 1_000_000
            second[0] -= 1
    nano[0] = micros * 1000 + sub_micro(v)
    return 0


cdef uint8_t* put_second_and_nano(int64_t second, uint32_t nano, uint8_t* pos):
    fb_store_be64(pos, <unsigned long long>second)
    fb_store_be32(pos + 8, nano)
    return pos + 12


cdef uint8_t* put_instant(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    cdef int64_t second = 0
    cdef int64_t nano = 0
    pos = make_room(out, pos, 12)
    if value == Py_None:
        return put_second_and_nano(INT64_MIN, 0x80000000u, pos)
    if FB_TYPE_OF(value) == n.classes[0]:
        second, nano = (<object>value).epoch_second, (<object>value).nano
    else:
        epoch_of(n, value, True, &second, &nano)
    return put_second_and_nano(second, <uint32_t>nano, pos)


cdef uint8_t* put_timestamp(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    """java.sql.Timestamp: a naive datetime, read as UTC, or milliseconds with all nanoseconds of the second."""
    cdef int64_t second = 0
    cdef int64_t nano = 0
    pos = make_room(out, pos, 12)
    if value == Py_None:
        return put_second_and_nano(INT64_MIN, 0, pos)
    if FB_TYPE_OF(value) == n.classes[0]:
        if (<object>value).millis == INT64_MIN:
            refuse(n, value, ValueError, "Flink writes this number for null")
        return put_second_and_nano((<object>value).millis, (<object>value).nanos, pos)
    epoch_of(n, value, False, &second, &nano)
    return put_second_and_nano(second * 1000 + nano // 1_000_000, <uint32_t>nano, pos)


cdef int millis_of(const codec_node* n, PyObject* value, int64_t* millis) except -1:
    """DATE: an aware datetime; SQL_DATE: a date at midnight UTC; SQL_TIME: a time on 1970-01-01 UTC."""
    cdef object v = <object>value
    cdef int64_t second = 0
    cdef int64_t nano = 0
    if n.kind == FB_TYPE_DATE:
        epoch_of(n, value, True, &second, &nano)
    elif n.kind == FB_TYPE_SQL_DATE:
        if PyDateTime_Check(v):
            refuse(n, value, TypeError, "a datetime would lose its time; use .date()")
        if not PyDate_Check(v):
            refuse(n, value, TypeError)
        second = days_from_civil(date_year(v), date_month(v), date_day(v)) * 86400
    else:
        if not PyTime_Check(v):
            refuse(n, value, TypeError)
        if time_tzinfo(v) is not None:
            refuse(n, value, ValueError, "its time zone would be lost; use .replace(tzinfo=None)")
        second = time_hour(v) * 3600 + time_minute(v) * 60 + time_second(v)
        nano = <int64_t>time_microsecond(v) * 1000
    if nano % 1_000_000 != 0:
        refuse(n, value, ValueError, "it is more exact than milliseconds")
    millis[0] = second * 1000 + nano // 1_000_000
    return 0


cdef uint8_t* put_millis(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    cdef int64_t millis = INT64_MIN
    pos = make_room(out, pos, 8)
    if FB_TYPE_OF(value) == n.classes[0]:
        millis = (<object>value).millis
        if millis == INT64_MIN:
            refuse(n, value, ValueError, "Flink writes this number for null")
    elif value != Py_None:
        millis_of(n, value, &millis)
    fb_store_be64(pos, <unsigned long long>millis)
    return pos + 8


# --- encode: arrays and containers --------------------------------------------------------------------


cdef inline uint8_t* put_held(const codec_node* child, PyObject* value, uint8_t* pos, fb_output* out) noexcept:
    """As put, for a value whose container may lose it while user code runs; NULL with an exception set."""
    Py_INCREF(value)
    pos = (<put_function>put)(child, value, pos, out)
    Py_DECREF(value)
    return pos


cdef uint8_t* put_enum(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    cdef TypeCodec codec = <TypeCodec>n.codec
    cdef object v = <object>value
    try:
        ordinal = codec.ordinals.get(v)
    except TypeError:
        ordinal = None  # unhashable
    if PyBool_Check(value) and ordinal is not None and not isinstance(codec.symbols[ordinal], bool):
        refuse(n, value, TypeError, "a bool is not taken for a number")
    if ordinal is None or not isinstance(v, type(codec.symbols[ordinal])):
        names = ", ".join(str(getattr(symbol, "name", symbol)) for symbol in codec.symbols[:20])
        refuse(n, value, TypeError if ordinal is None and not isinstance(v, type(codec.symbols[0])) else ValueError,
               f"it must be one of {names}")
    pos = make_room(out, pos, 4)
    fb_store_be32(pos, <uint32_t>ordinal)
    return pos + 4


cdef bint is_sequence(object value):
    """What an array or list is taken from: no text, no bytes, no set or generator, no numpy array of one value."""
    if isinstance(value, (str, bytes, bytearray, dict, set, frozenset)) or (is_array(value) and value.ndim == 0):
        return False
    return hasattr(value, "__len__") and hasattr(value, "__getitem__")


cdef uint8_t* put_buffer(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except? NULL:
    """An array of just the right numbers, at once; NULL without an exception: it must go one by one."""
    cdef Py_buffer view
    cdef str wanted = (<TypeCodec>n.codec).array_formats
    cdef const char* format_
    cdef fb_type_kind kind = n.children[0].kind
    try:
        PyObject_GetBuffer(<object>value, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
    except (BufferError, ValueError):  # not contiguous, or numbers that the protocol has no format for
        return NULL
    try:
        format_ = <const char*>"B" if view.format == NULL else view.format
        if format_[0] == c"@" or format_[0] == c"=" or (format_[0] == c"<" and sys.byteorder == "little"):
            format_ += 1
        if view.ndim != 1 or view.itemsize != n.children[0].min_size or format_[0] == 0 or format_[1] != 0 \
                or chr(format_[0]) not in wanted:
            return NULL
        pos = put_count(n, value, view.len // view.itemsize, view.len, pos, out)
        fb_type_codec_store_array(kind, view.buf, view.len // view.itemsize, pos)
        return pos + view.len
    finally:
        PyBuffer_Release(&view)


cdef object contiguous(object value, str dtype):
    """A copy of an array that holds the right numbers with gaps or in another byte order; else the array itself."""
    if hasattr(value, "dtype"):
        import numpy
        native = value.dtype.newbyteorder("=")
        if value.ndim == 1 and (native == dtype or (dtype == "int8" and native == "uint8")):
            return numpy.array(value, native)
    elif isinstance(value, memoryview) and value.ndim == 1 and value.itemsize == 1 and dtype == "int8":
        return value.tobytes()
    return value


cdef uint8_t* put_array(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    cdef uint8_t* end
    cdef object v = <object>value
    if PyBytes_CheckExact(v) and n.children[0].kind == FB_TYPE_BYTE:
        return put_sized(n, value, PyBytes_AS_STRING(v), PyBytes_GET_SIZE(v), pos, out)
    if PyObject_CheckBuffer(v):
        end = put_buffer(n, value, pos, out)
        if end != NULL:
            return end
        v = contiguous(v, (<TypeCodec>n.codec).array_dtype)
        if v is not <object>value:
            end = put_buffer(n, <PyObject*>v, pos, out)
            if end != NULL:
                return end
        if getattr(v, "ndim", 1) != 1:
            refuse(n, value, TypeError, f"an array of one dimension is needed, it has {v.ndim}")
    if n.children[0].kind == FB_TYPE_BYTE:
        refuse(n, value, TypeError, "bytes, or an array of bytes, is needed")
    if not is_sequence(v):
        refuse(n, value, TypeError)
    # A numpy array of another kind gives its numbers as Python's, which are then checked like any others.
    return put_list(n, value, v.tolist() if hasattr(v, "tolist") else v, pos, out)


cdef uint8_t* put_list(const codec_node* n, PyObject* value, object items, uint8_t* pos, fb_output* out) except NULL:
    """LIST, arrays: a count and the elements; OBJECT_ARRAY has a flag before each, 0 for null."""
    cdef Py_ssize_t i, count
    cdef bint flagged = n.kind == FB_TYPE_OBJECT_ARRAY
    cdef const codec_node* child = n.children
    cdef PyObject* item
    cdef list values = items if isinstance(items, list) else list(items)
    # A list may be changed by user code (an __index__) that encoding calls: so its size is asked each time.
    count = len(values)
    if count > FB_TYPE_MAX_EMPTY_ELEMENTS and child.min_size == 0:
        refuse(n, value, OverflowError, f"at most {FB_TYPE_MAX_EMPTY_ELEMENTS} values that take no bytes are allowed")
    pos = put_count(n, value, count, 0, pos, out)
    for i in range(count):
        if i >= len(values):
            raise RuntimeError("a list changed its size while it was encoded")
        item = PyList_GET_ITEM(<PyObject*>values, i)
        if flagged:
            pos = make_room(out, pos, 1)
            pos[0] = item != Py_None
            pos += 1
            if item == Py_None:
                continue
        pos = put_held(child, item, pos, out)
        if pos == NULL:
            add_step(n, i)
            return NULL
    if len(values) != count:
        raise RuntimeError("a list changed its size while it was encoded")
    return pos


cdef int check_key(const codec_node* key_node, object key, const uint8_t* start, Py_ssize_t size, str step,
                   set seen) except -1:
    """Refuses a key that differs from another in Python only: of the two, one would be lost. NaN is no loss of ours."""
    cdef bytes data = PyBytes_FromStringAndSize(<const char*>start, size)
    if data in seen and key == key:
        refusal = Refusal(ValueError, <object>key_node.codec, key, "another one has the same bytes, so that one of "
                          "the two would be lost")
        refusal.path.append(step)
        raise refusal
    seen.add(data)
    return 0


cdef uint8_t* put_set(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    """A flag before each element: 1 for null."""
    if not isinstance(<object>value, (set, frozenset)):
        refuse(n, value, TypeError)
    cdef set seen = set() if n.children.merges else None
    cdef size_t start
    pos = put_count(n, value, len(<object>value), 0, pos, out)
    for item in tuple(<object>value):
        pos = make_room(out, pos, 1)
        pos[0] = item is None
        pos += 1
        if item is not None:
            start = pos - out.start  # which moves when the record does
            pos = put_held(n.children, <PyObject*>item, pos, out)
            if pos == NULL:
                add_step(n, "{element}")
                return NULL
            if seen is not None:
                check_key(n.children, item, out.start + start, pos - out.start - start, "{element}", seen)
    return pos


cdef uint8_t* put_map(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    """The key, a flag (1: the value is null), the value."""
    if not PyDict_Check(value):
        refuse(n, value, TypeError)
    cdef dict items = <object>value if PyDict_CheckExact(value) else dict(<object>value)
    cdef set seen = set() if n.children.merges else None
    cdef size_t start
    pos = put_count(n, value, len(items), 0, pos, out)
    for key, item in items.items():  # raises by itself if user code changes the size
        start = pos - out.start
        pos = put_held(n.children, <PyObject*>key, pos, out)
        if pos == NULL:
            add_step(n, "{key}")
            return NULL
        if seen is not None:
            check_key(n.children, key, out.start + start, pos - out.start - start, "{key}", seen)
        pos = make_room(out, pos, 1)
        pos[0] = item is None
        pos += 1
        if item is not None:
            pos = put_held(n.children + 1, <PyObject*>item, pos, out)
            if pos == NULL:
                add_key_step(n, key)
                return NULL
    return pos


cdef uint8_t* put_fields(const codec_node* n, PyObject* fields, uint8_t* pos, fb_output* out) except NULL:
    """The fields of a plain tuple one after the other. `fields` is held by the caller."""
    cdef PyObject** items = FB_TUPLE_ITEMS(fields)
    cdef uint32_t i
    for i in range(n.child_count):
        pos = (<put_function>put)(&n.children[i], items[i], pos, out)
        if pos == NULL:
            add_step(n, i)
            return NULL
    return pos


cdef uint8_t* put_tuple(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    cdef object held
    if not PyTuple_CheckExact(value):
        if not PyTuple_Check(value) and not PyList_Check(value):
            refuse(n, value, TypeError)
        if getattr(<object>value, "row_kind", 0) != 0:
            refuse(n, value, ValueError, "a TUPLE cannot hold the kind of a Row; declare a ROW, or make a tuple of it")
        held = tuple(<object>value)
        return put_tuple_checked(n, value, <PyObject*>held, pos, out)
    return put_tuple_checked(n, value, value, pos, out)


cdef uint8_t* put_tuple_checked(const codec_node* n, PyObject* value, PyObject* fields, uint8_t* pos,
                                fb_output* out) except NULL:
    if PyTuple_GET_SIZE(fields) != n.child_count:
        refuse(n, value, ValueError, f"it has {PyTuple_GET_SIZE(fields)} fields instead of {n.child_count}")
    return put_fields(n, fields, pos, out)


cdef uint8_t* put_row_fields(const codec_node* n, PyObject* fields, unsigned kind, uint8_t* pos,
                             fb_output* out) except NULL:
    """The mask (2 bits of RowKind, low bit first, then the null bits), then the fields that are not null."""
    cdef PyObject** items = FB_TUPLE_ITEMS(fields)
    cdef size_t mask_at
    cdef size_t mask_size = n.mask_size
    cdef uint32_t i
    cdef unsigned bits = (kind & 1) << 7 | (kind & 2) << 5
    cdef unsigned bit = 0x20
    pos = make_room(out, pos, mask_size)
    mask_at = pos - out.start
    pos += mask_size
    for i in range(n.child_count):
        if items[i] == Py_None:
            bits |= bit
        else:
            pos = (<put_function>put)(&n.children[i], items[i], pos, out)
            if pos == NULL:
                add_step(n, i)
                return NULL
        bit >>= 1
        if bit == 0:  # `start` moves when the record does
            out.start[mask_at] = <uint8_t>bits
            mask_at += 1
            bits = 0
            bit = 0x80
    if bit != 0x80:
        out.start[mask_at] = <uint8_t>bits
    return pos


cdef uint8_t* put_row(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    cdef PyObject* kind = FB_TYPE_OF(value)
    cdef unsigned i
    cdef object held
    if PyTuple_CheckExact(value):
        if PyTuple_GET_SIZE(value) == n.child_count:
            return put_row_fields(n, value, 0, pos, out)
    else:
        for i in range(4):
            if kind == n.classes[i] and PyTuple_GET_SIZE(value) == n.child_count:
                return put_row_fields(n, value, i, pos, out)
    held = (<TypeCodec>n.codec).row_fields(value)
    return put_row_fields(n, <PyObject*>held, int(getattr(<object>value, "row_kind", 0)), pos, out)


cdef uint8_t* put_either(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    cdef PyObject* kind = FB_TYPE_OF(value)
    cdef bint left = kind == n.classes[0]
    if not left and kind != n.classes[1]:
        refuse(n, value, TypeError, "a Left or a Right is needed")
    pos = make_room(out, pos, 1)
    pos[0] = left
    inner = (<object>value).value
    pos = put_held(n.children + (0 if left else 1), <PyObject*>inner, pos + 1, out)
    if pos == NULL:
        add_step(n, ".left" if left else ".right")
    return pos


cdef uint8_t* put_nullable(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    cdef size_t padding = (<TypeCodec>n.codec).type.padding
    pos = make_room(out, pos, 1 + padding)
    pos[0] = value == Py_None
    pos += 1
    if value != Py_None:
        return (<put_function>put)(n.children, value, pos, out)
    memset(pos, 0, padding)
    return pos + padding


cdef uint8_t* put_element(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    """A tag and what belongs to it. The classes have checked their numbers when they were made."""
    cdef tuple classes = (<TypeCodec>n.codec).classes
    cdef object v = <object>value
    cdef object kind = type(v)
    pos = make_room(out, pos, 32)
    if kind is classes[0]:
        timestamp = v.timestamp
        pos[0] = FB_ELEMENT_RECORD if timestamp is None else FB_ELEMENT_RECORD_WITH_TIMESTAMP
        if timestamp is not None:
            fb_store_be64(pos + 1, <unsigned long long><int64_t>timestamp)
        inner = v.value
        pos = put_held(n.children, <PyObject*>inner, pos + (1 if timestamp is None else 9), out)
        if pos == NULL:
            add_step(n, ".value")
        return pos
    if kind is classes[1]:
        pos[0] = FB_ELEMENT_WATERMARK
        fb_store_be64(pos + 1, <unsigned long long><int64_t>v.timestamp)
        return pos + 9
    if kind is classes[2]:
        pos[0] = FB_ELEMENT_INTERNAL_WATERMARK
        fb_store_be32(pos + 1, <uint32_t><int32_t>v.subpartition_index)
        fb_store_be64(pos + 5, <unsigned long long><int64_t>v.timestamp)
        return pos + 13
    if kind is classes[3]:
        pos[0] = FB_ELEMENT_LATENCY_MARKER
        fb_store_be64(pos + 1, <unsigned long long><int64_t>v.marked_time)
        memcpy(pos + 9, <const char*>v.operator_id, 16)
        fb_store_be32(pos + 25, <uint32_t><int32_t>v.subtask_index)
        return pos + 29
    if kind is classes[4]:
        pos[0] = FB_ELEMENT_WATERMARK_STATUS
        fb_store_be32(pos + 1, <uint32_t><int32_t>v.status)
        return pos + 5
    if kind is not classes[5]:
        refuse(n, value, TypeError, "a StreamRecord, a Watermark or another stream element is needed")
    pos[0] = FB_ELEMENT_RECORD_ATTRIBUTES
    pos[1] = bool(v.is_backlog)
    return pos + 2


# --- encode: the switch -------------------------------------------------------------------------------


cdef inline uint8_t* put(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    """Writes one value at `pos` and returns the position after it; `out.pos` is not kept up to date."""
    cdef int64_t number = 0
    cdef Py_ssize_t length
    if n.kind == FB_TYPE_LONG:
        if PyLong_CheckExact(value) and fb_small_int(value, &number) and out.end - pos >= 8:
            fb_store_be64(pos, <unsigned long long>number)
            return pos + 8
    elif n.kind == FB_TYPE_STRING:
        if PyUnicode_CheckExact(value) and PyUnicode_IS_COMPACT_ASCII(value):
            length = PyUnicode_GET_LENGTH(value)
            if length < 127 and out.end - pos > length:
                pos[0] = <uint8_t>(length + 1)
                fb_copy(pos + 1, <const uint8_t*>PyUnicode_DATA(value), length)
                return pos + 1 + length
    elif n.kind == FB_TYPE_DOUBLE:
        if PyFloat_CheckExact(value) and out.end - pos >= 8:
            fb_store_be64(pos, fb_double_bits(PyFloat_AS_DOUBLE(value)))
            return pos + 8
    elif n.kind == FB_TYPE_INT:
        if PyLong_CheckExact(value) and fb_small_int(value, &number) and out.end - pos >= 4:
            if number == <int32_t>number:
                fb_store_be32(pos, <uint32_t><int32_t>number)
                return pos + 4
    return put_other(n, value, pos, out)


cdef uint8_t* put_other(const codec_node* n, PyObject* value, uint8_t* pos, fb_output* out) except NULL:
    cdef double real = 0
    if n.holds_bytes and PyBytes_CheckExact(<object>value):
        return put_sized(n, value, PyBytes_AS_STRING(<object>value), PyBytes_GET_SIZE(<object>value), pos, out)
    if n.kind == FB_TYPE_TUPLE:
        return put_tuple(n, value, pos, out)
    elif n.kind == FB_TYPE_ROW:
        return put_row(n, value, pos, out)
    elif n.kind == FB_TYPE_BOOLEAN:
        return put_boolean(n, value, pos, out)
    elif n.kind == FB_TYPE_BYTE or n.kind == FB_TYPE_SHORT or n.kind == FB_TYPE_INT or n.kind == FB_TYPE_LONG:
        return put_integer(n, value, pos, out)
    elif n.kind == FB_TYPE_CHAR:
        return put_char(n, value, pos, out)
    elif n.kind == FB_TYPE_FLOAT:
        return put_float(n, value, pos, out)
    elif n.kind == FB_TYPE_DOUBLE:
        as_double(n, value, &real)
        pos = make_room(out, pos, 8)
        fb_store_be64(pos, fb_double_bits(real))
        return pos + 8
    elif n.kind == FB_TYPE_STRING or n.kind == FB_TYPE_STRING_VALUE:
        return put_text(n, value, pos, out)
    elif n.kind == FB_TYPE_VOID:
        if value != Py_None:
            refuse(n, value, TypeError)
        pos = make_room(out, pos, 1)
        pos[0] = 0
        return pos + 1
    elif n.kind == FB_TYPE_NULL_VALUE:
        if value != Py_None:
            refuse(n, value, TypeError)
        return make_room(out, pos, 1)
    elif n.kind == FB_TYPE_BIG_INT or n.kind == FB_TYPE_BIG_DEC:
        if value == Py_None:
            return put_count(n, value, 0, 0, pos, out)
        return put_big_int(n, value, pos, out) if n.kind == FB_TYPE_BIG_INT else put_big_dec(n, value, pos, out)
    elif n.kind == FB_TYPE_INSTANT:
        return put_instant(n, value, pos, out)
    elif n.kind == FB_TYPE_LOCAL_DATE or n.kind == FB_TYPE_LOCAL_TIME or n.kind == FB_TYPE_LOCAL_DATE_TIME:
        return put_local(n, value, pos, out)
    elif n.kind == FB_TYPE_DATE or n.kind == FB_TYPE_SQL_DATE or n.kind == FB_TYPE_SQL_TIME:
        return put_millis(n, value, pos, out)
    elif n.kind == FB_TYPE_SQL_TIMESTAMP:
        return put_timestamp(n, value, pos, out)
    elif n.kind == FB_TYPE_ENUM:
        return put_enum(n, value, pos, out)
    elif n.kind == FB_TYPE_PICKLED_BYTES:
        return put_pickled(n, value, pos, out)
    elif n.kind == FB_TYPE_PRIMITIVE_ARRAY:
        return put_array(n, value, pos, out)
    elif n.kind == FB_TYPE_LIST:
        if not PyList_Check(value) and not PyTuple_CheckExact(value):
            refuse(n, value, TypeError, array_advice(<object>value))
        return put_list(n, value, <object>value, pos, out)
    elif n.kind == FB_TYPE_STRING_ARRAY or n.kind == FB_TYPE_OBJECT_ARRAY:
        if not is_sequence(<object>value):
            refuse(n, value, TypeError, array_advice(<object>value))
        return put_list(n, value, <object>value, pos, out)
    elif n.kind == FB_TYPE_SET:
        return put_set(n, value, pos, out)
    elif n.kind == FB_TYPE_MAP:
        return put_map(n, value, pos, out)
    elif n.kind == FB_TYPE_EITHER:
        return put_either(n, value, pos, out)
    elif n.kind == FB_TYPE_NULLABLE:
        return put_nullable(n, value, pos, out)
    return put_element(n, value, pos, out)


# --- decode: errors and numbers -----------------------------------------------------------------------


cdef PyObject* corrupt(const codec_node* n, fb_input* source, int code, str why="",
                       str advice="was it written with the same type?") except NULL:
    """Raises for bytes at source.pos that the type does not have."""
    cdef list where = [f"byte {source.pos - source.start} of {source.end - source.start}"]
    if source.record_number >= 0:
        where.append(f"record {source.record_number}")
    if source.channel >= 0:
        where.append(f"channel {source.channel}")
    text = why or fb_strerror(code).decode("ascii")
    raise CorruptDataError(f"{(<TypeCodec>n.codec).describe()} expected at {', '.join(where)}: {text}; {advice}")


cdef const uint8_t* measured(const codec_node* n, fb_input* source) except NULL:
    """Where a value begins whose bytes are all there and all right; moves past it."""
    cdef const uint8_t* start = source.pos
    cdef int code = fb_type_codec_skip(&(<TypeCodec>n.codec).type, source)
    if code != FB_OK:
        corrupt(n, source, code)
    return start


cdef int get_flag(const codec_node* n, fb_input* source) except -1:
    cdef int flag
    if source.pos == source.end:
        corrupt(n, source, FB_ETRUNCATED)
    flag = source.pos[0]
    if flag > 1:
        corrupt(n, source, FB_ECORRUPT)
    source.pos += 1
    return flag


cdef Py_ssize_t get_count(const codec_node* n, fb_input* source, size_t min_size) except -1:
    """A count of elements of at least `min_size` bytes, checked against the bytes left before anything is allocated."""
    cdef uint32_t count
    if fb_input_left(source) < 4:
        corrupt(n, source, FB_ETRUNCATED)
    count = fb_load_be32(source.pos)
    if count > <uint32_t>INT32_MAX:
        corrupt(n, source, FB_ECORRUPT, f"a count of {<int32_t>count}")
    if not fb_type_codec_fits(count, min_size, fb_input_left(source) - 4):
        corrupt(n, source, FB_ETRUNCATED,
                f"a count of {count}, but only {fb_input_left(source) - 4} bytes are left for elements of at least "
                f"{min_size}")
    source.pos += 4
    return count


# --- decode: text, numbers, times ---------------------------------------------------------------------


cdef PyObject* get_text(const codec_node* n, fb_input* source) except NULL:
    cdef const uint8_t* start = source.pos
    cdef const uint8_t* units_at
    cdef PyObject* text
    cdef fb_text plan
    cdef uint32_t units = 0
    cdef int code = fb_type_codec_read_varint(source, &units)
    if code != FB_OK:
        corrupt(n, source, code)
    if n.kind == FB_TYPE_STRING:
        if units == 0:
            return FB_NONE()
        units -= 1
    units_at = source.pos
    if units > fb_input_left(source):
        source.pos = start
        corrupt(n, source, FB_ETRUNCATED,
                f"a text of {units} characters, but only {source.end - units_at} bytes are left")
    if fb_type_codec_is_ascii(units_at, units):
        source.pos += units
        return fb_ascii(units_at, units)
    code = fb_type_codec_measure_text(source, units, &plan)
    if code != FB_OK:
        corrupt(n, source, code)
    if plan.length == 1:  # PyUnicode_New must not be filled where Python keeps the text of Latin-1 characters
        if plan.max_point < 256:
            return PyUnicode_FromOrdinal(plan.max_point)
    text = PyUnicode_New(plan.length, plan.max_point)
    fb_type_codec_decode_text(units_at, &plan, PyUnicode_KIND(text), PyUnicode_DATA(text))
    return text


cdef object get_big_int(const codec_node* n, fb_input* source):
    """None, or an int; the whole value has been measured."""
    cdef uint32_t length = fb_load_be32(source.pos)
    source.pos += 4
    if length < 4:
        return (None, 0, 1, 10)[length]
    source.pos += length - 4
    return int.from_bytes(source.pos[4 - <int64_t>length:0], "big", signed=True)


cdef object get_big(const codec_node* n, fb_input* source):
    cdef const uint8_t* start = measured(n, source)
    cdef const uint8_t* end = source.pos
    source.pos = start
    number = get_big_int(n, source)
    source.pos = end
    if number is None or n.kind == FB_TYPE_BIG_INT:
        return number
    return Decimal(number).scaleb(-<int64_t><int32_t>fb_load_be32(end - 4), EXACT)


cdef bint civil_from_days(int64_t days, int* year, int* month, int* day):
    """The date of days since 1970-01-01; false outside the years 1 to 9999 of Python's dates."""
    cdef int64_t cycle, day_of_cycle, year_of_cycle, day_of_year, shifted_month
    if days < -719162 or days > 2932896:
        return False
    days += 719468  # since 0000-03-01
    cycle = days // 146097
    day_of_cycle = days - cycle * 146097
    year_of_cycle = (day_of_cycle - day_of_cycle // 1460 + day_of_cycle // 36524 - day_of_cycle // 146096) // 365
    day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle // 4 - year_of_cycle // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day[0] = <int>(day_of_year - (153 * shifted_month + 2) // 5 + 1)
    month[0] = <int>(shifted_month + (3 if shifted_month < 10 else -9))
    year[0] = <int>(year_of_cycle + cycle * 400 + (month[0] <= 2))
    return True


cdef object datetime_of(int64_t second, int64_t micro, object zone):
    """A datetime, or None where its year is not one of Python's."""
    cdef int year = 0
    cdef int month = 0
    cdef int day = 0
    cdef int64_t days = floor_div(second, 86400)
    cdef int rest = <int>(second - days * 86400)
    if not civil_from_days(days, &year, &month, &day):
        return None
    return datetime_new(year, month, day, rest // 3600, rest // 60 % 60, rest % 60, <int>micro, zone)


cdef object get_local(const codec_node* n, fb_input* source):
    cdef const uint8_t* p = measured(n, source)
    cdef const uint8_t* t = p if n.kind == FB_TYPE_LOCAL_TIME else p + 6
    cdef object exact = <object>n.classes[0]
    cdef int32_t year
    cdef uint32_t nano
    if n.kind != FB_TYPE_LOCAL_TIME:
        year = <int32_t>fb_load_be32(p)
        if year == INT32_MIN:
            return None
        if n.kind == FB_TYPE_LOCAL_DATE:
            return date_new(year, p[4], p[5]) if 1 <= year <= 9999 else exact(year, p[4], p[5])
        nano = fb_load_be32(t + 3)
        if 1 <= year <= 9999 and nano % 1000 == 0:
            return datetime_new(year, p[4], p[5], t[0], t[1], t[2], nano // 1000, None)
        return exact(year, p[4], p[5], t[0], t[1], t[2], nano)
    if p[0] == 0x80:
        return None
    nano = fb_load_be32(t + 3)
    return time_new(t[0], t[1], t[2], nano // 1000, None) if nano % 1000 == 0 else exact(t[0], t[1], t[2], nano)


cdef object get_instant(const codec_node* n, fb_input* source):
    """INSTANT and SQL_TIMESTAMP: what Python's datetime cannot hold is given as the class that can."""
    cdef const uint8_t* p = measured(n, source)
    cdef int64_t number = <int64_t>fb_load_be64(p)
    cdef uint32_t nano = fb_load_be32(p + 8)
    if number == INT64_MIN:
        return None
    if nano % 1000 == 0:
        if n.kind == FB_TYPE_INSTANT:
            found = datetime_of(number, nano // 1000, get_utc())
        else:
            found = datetime_of(floor_div(number, 1000), nano // 1000, None)
        if found is not None:
            return found
    return (<object>n.classes[0])(number, nano)


cdef object get_millis(const codec_node* n, fb_input* source):
    cdef int year = 0
    cdef int month = 0
    cdef int day = 0
    cdef int64_t millis = <int64_t>fb_load_be64(measured(n, source))
    if millis == INT64_MIN:
        return None
    cdef int64_t second = floor_div(millis, 1000)
    if n.kind == FB_TYPE_DATE:
        found = datetime_of(second, (millis - second * 1000) * 1000, get_utc())
        if found is not None:
            return found
    elif n.kind == FB_TYPE_SQL_DATE:
        if millis % DAY_MILLIS == 0 and civil_from_days(millis // DAY_MILLIS, &year, &month, &day):
            return date_new(year, month, day)
    elif 0 <= millis < DAY_MILLIS:
        return time_new(second // 3600, second // 60 % 60, second % 60, millis % 1000 * 1000, None)
    return (<object>n.classes[0])(millis)


# --- decode: arrays and containers --------------------------------------------------------------------


cdef PyObject* get_list(const codec_node* n, fb_input* source) except NULL:
    """LIST, arrays of text and primitives; OBJECT_ARRAY has a flag before each element, 0 for null."""
    cdef bint flagged = n.kind == FB_TYPE_OBJECT_ARRAY
    cdef const codec_node* child = n.children
    cdef Py_ssize_t i
    cdef Py_ssize_t count = get_count(n, source, 1 if flagged else child.min_size)
    cdef PyObject* items = PyList_New(count)
    cdef PyObject* item
    cdef const uint8_t* pos = source.pos
    cdef int flag
    for i in range(count):
        if flagged:
            source.pos = pos
            flag = (<int (*)(const codec_node*, fb_input*) noexcept>get_flag)(n, source)
            pos = source.pos
            if flag < 0:
                Py_DECREF(items)
                return NULL
            if flag == 0:
                PyList_SET_ITEM(items, i, FB_NONE())
                continue
        item = (<get_function>get)(child, &pos, source)
        if item == NULL:
            Py_DECREF(items)
            return NULL
        PyList_SET_ITEM(items, i, item)
    source.pos = pos
    return items


cdef object get_array(const codec_node* n, fb_input* source):
    """bytes for BYTE, a numpy array if the type says so, else a list."""
    cdef TypeCodec codec = <TypeCodec>n.codec
    cdef const uint8_t* start = source.pos
    cdef uint32_t width = n.children[0].min_size
    cdef Py_buffer view
    cdef Py_ssize_t count
    if n.children[0].kind != FB_TYPE_BYTE and not codec.numpy:
        return FB_IDENTITY(get_list(n, source))
    start = measured(n, source) + 4
    count = (source.pos - start) // width
    if not codec.numpy:
        return PyBytes_FromStringAndSize(<const char*>start, count)
    import numpy
    array = numpy.empty(count, codec.array_dtype)
    PyObject_GetBuffer(array, &view, PyBUF_WRITABLE)
    fb_type_codec_load_array(n.children[0].kind, start, count, view.buf)
    PyBuffer_Release(&view)
    return array


cdef object get_child(const codec_node* child, fb_input* source):
    cdef const uint8_t* pos = source.pos
    value = FB_IDENTITY(get(child, &pos, source))
    source.pos = pos
    return value


cdef object get_set(const codec_node* n, fb_input* source):
    cdef Py_ssize_t i
    cdef Py_ssize_t count = get_count(n, source, 1)
    cdef set found = set()
    for i in range(count):
        found.add(None if get_flag(n, source) else get_child(n.children, source))
    if len(found) != count:
        corrupt(n, source, FB_ECORRUPT, f"{count - len(found)} of {count} elements are equal to others in Python",
                "elements that differ in Java but are equal in Python cannot be in one set")
    return found


cdef object get_map(const codec_node* n, fb_input* source):
    cdef Py_ssize_t i
    cdef Py_ssize_t count = get_count(n, source, n.children[0].min_size + 1)
    cdef dict found = {}
    for i in range(count):
        key = get_child(n.children, source)
        found[key] = None if get_flag(n, source) else get_child(n.children + 1, source)
    if len(found) != count:
        corrupt(n, source, FB_ECORRUPT, f"{count - len(found)} of {count} keys are equal to others in Python",
                "keys that differ in Java but are equal in Python cannot be in one dict")
    return found


cdef PyObject* get_tuple(const codec_node* n, fb_input* source) except NULL:
    cdef const uint8_t* pos = source.pos
    cdef PyObject* fields = PyTuple_New(n.child_count)
    cdef PyObject* item
    cdef uint32_t i
    for i in range(n.child_count):
        item = (<get_function>get)(&n.children[i], &pos, source)
        if item == NULL:
            Py_DECREF(fields)
            return NULL
        PyTuple_SET_ITEM(fields, i, item)
    source.pos = pos
    return fields


cdef PyObject* get_row(const codec_node* n, fb_input* source) except NULL:
    cdef const uint8_t* mask = source.pos
    cdef const uint8_t* pos = mask + n.mask_size
    cdef uint32_t i
    cdef PyObject* row
    cdef PyObject* item
    cdef unsigned bits, kind
    cdef unsigned bit = 0x20
    if fb_input_left(source) < n.mask_size:
        corrupt(n, source, FB_ETRUNCATED)
    bits = mask[0]
    kind = bits >> 7 | (bits >> 5 & 2)
    i = n.child_count + 2 & 7
    if i != 0 and ((pos - 1)[0] & (0xff >> i)) != 0:
        source.pos = pos - 1
        corrupt(n, source, FB_ECORRUPT, "a bit is set behind the null mask")
    row = fb_new_row(n.classes[kind], n.child_count)
    for i in range(n.child_count):
        if bit == 0:
            mask += 1
            bits = mask[0]
            bit = 0x80
        if bits & bit:
            item = FB_NONE()
        else:
            item = (<get_function>get)(&n.children[i], &pos, source)
            if item == NULL:
                Py_DECREF(row)
                return NULL
        PyTuple_SET_ITEM(row, i, item)
        bit >>= 1
    source.pos = pos
    if not n.acyclic:
        PyObject_GC_Track(row)
    return row


cdef object get_nullable(const codec_node* n, fb_input* source):
    if not get_flag(n, source):
        return get_child(n.children, source)
    source.pos -= 1
    measured(n, source)
    return None


cdef object get_element(const codec_node* n, fb_input* source):
    cdef tuple classes = (<TypeCodec>n.codec).classes
    cdef const uint8_t* p = source.pos
    if source.pos == source.end:
        corrupt(n, source, FB_ETRUNCATED)
    if p[0] == FB_ELEMENT_RECORD:
        source.pos += 1
        return classes[0](get_child(n.children, source), None)
    if p[0] == FB_ELEMENT_RECORD_WITH_TIMESTAMP:
        source.pos += 1
        if fb_input_left(source) < 8:
            corrupt(n, source, FB_ETRUNCATED)
        source.pos += 8
        return classes[0](get_child(n.children, source), <int64_t>fb_load_be64(p + 1))
    measured(n, source)
    if p[0] == FB_ELEMENT_WATERMARK:
        return classes[1](<int64_t>fb_load_be64(p + 1))
    if p[0] == FB_ELEMENT_INTERNAL_WATERMARK:
        return classes[2](<int64_t>fb_load_be64(p + 5), <int32_t>fb_load_be32(p + 1))
    if p[0] == FB_ELEMENT_LATENCY_MARKER:
        return classes[3](<int64_t>fb_load_be64(p + 1), (<const char*>p)[9:25], <int32_t>fb_load_be32(p + 25))
    if p[0] == FB_ELEMENT_WATERMARK_STATUS:
        return classes[4](<int32_t>fb_load_be32(p + 1))
    return classes[5](p[1] == 1)


cdef object get_rare(const codec_node* n, fb_input* source):
    """The kinds that are not worth a hand-made reference count."""
    cdef const uint8_t* p
    if n.kind == FB_TYPE_VOID:
        measured(n, source)
        return None
    elif n.kind == FB_TYPE_BIG_INT or n.kind == FB_TYPE_BIG_DEC:
        return get_big(n, source)
    elif n.kind == FB_TYPE_INSTANT or n.kind == FB_TYPE_SQL_TIMESTAMP:
        return get_instant(n, source)
    elif n.kind == FB_TYPE_LOCAL_DATE or n.kind == FB_TYPE_LOCAL_TIME or n.kind == FB_TYPE_LOCAL_DATE_TIME:
        return get_local(n, source)
    elif n.kind == FB_TYPE_DATE or n.kind == FB_TYPE_SQL_DATE or n.kind == FB_TYPE_SQL_TIME:
        return get_millis(n, source)
    elif n.kind == FB_TYPE_ENUM:
        return (<TypeCodec>n.codec).symbols[fb_load_be32(measured(n, source))]
    elif n.kind == FB_TYPE_PICKLED_BYTES:
        import pickle
        p = measured(n, source) + 4
        return pickle.loads((<const char*>p)[:source.pos - p])
    elif n.kind == FB_TYPE_PRIMITIVE_ARRAY:
        return get_array(n, source)
    elif n.kind == FB_TYPE_SET:
        return get_set(n, source)
    elif n.kind == FB_TYPE_MAP:
        return get_map(n, source)
    elif n.kind == FB_TYPE_EITHER:
        if get_flag(n, source):
            return (<object>n.classes[0])(get_child(n.children, source))
        return (<object>n.classes[1])(get_child(n.children + 1, source))
    elif n.kind == FB_TYPE_NULLABLE:
        return get_nullable(n, source)
    return get_element(n, source)


# --- decode: the switch -------------------------------------------------------------------------------


cdef inline PyObject* get(const codec_node* n, const uint8_t** at, fb_input* source) except NULL:
    """Reads one value at `at` and moves that past it; a new reference. `source.pos` is not kept up to date."""
    cdef const uint8_t* pos = at[0]
    cdef PyObject* value
    cdef size_t left = source.end - pos
    cdef size_t size
    if n.kind == FB_TYPE_LONG:
        if left >= 8:
            at[0] = pos + 8
            return fb_int(<int64_t>fb_load_be64(pos))
    elif n.kind == FB_TYPE_STRING:
        if left > 0:
            size = pos[0]  # one more than the units; 0 is null
            if 0 < size < 128 and size <= left and fb_type_codec_is_ascii(pos + 1, size - 1):
                at[0] = pos + size
                return fb_kept_ascii(<fb_kept_text*>n.texts, pos + 1, size - 1)
    elif n.kind == FB_TYPE_DOUBLE:
        if left >= 8:
            at[0] = pos + 8
            return PyFloat_FromDouble(fb_bits_double(fb_load_be64(pos)))
    elif n.kind == FB_TYPE_INT:
        if left >= 4:
            at[0] = pos + 4
            return fb_int(<int32_t>fb_load_be32(pos))
    source.pos = pos
    value = (<PyObject* (*)(const codec_node*, fb_input*) noexcept>get_other)(n, source)
    at[0] = source.pos
    return value


cdef PyObject* get_other(const codec_node* n, fb_input* source) except NULL:
    cdef const uint8_t* pos = source.pos
    cdef PyObject* value
    cdef size_t left = source.end - pos
    cdef uint32_t count
    if n.holds_bytes and left >= 4:
        count = fb_load_be32(pos)
        if count <= left - 4 and count <= <uint32_t>INT32_MAX:
            source.pos = pos + 4 + count
            return FB_BYTES(<const char*>pos + 4, count)
    if n.kind == FB_TYPE_TUPLE:
        return get_tuple(n, source)
    elif n.kind == FB_TYPE_ROW:
        return get_row(n, source)
    elif n.kind == FB_TYPE_STRING or n.kind == FB_TYPE_STRING_VALUE:
        return get_text(n, source)
    elif n.kind == FB_TYPE_LIST or n.kind == FB_TYPE_STRING_ARRAY or n.kind == FB_TYPE_OBJECT_ARRAY:
        return get_list(n, source)
    elif n.kind == FB_TYPE_BOOLEAN:
        return FB_BOOL(get_flag(n, source))
    elif n.kind == FB_TYPE_NULL_VALUE:
        return FB_NONE()
    elif n.kind == FB_TYPE_BYTE or n.kind == FB_TYPE_SHORT or n.kind == FB_TYPE_CHAR or n.kind == FB_TYPE_FLOAT \
            or n.kind == FB_TYPE_INT or n.kind == FB_TYPE_LONG or n.kind == FB_TYPE_DOUBLE:
        if left < n.min_size:
            corrupt(n, source, FB_ETRUNCATED)
        source.pos = pos + n.min_size
        if n.kind == FB_TYPE_BYTE:
            return PyLong_FromLong(<signed char>pos[0])
        elif n.kind == FB_TYPE_SHORT:
            return fb_int(<short>fb_load_be16(pos))
        elif n.kind == FB_TYPE_FLOAT:
            return PyFloat_FromDouble(fb_bits_float(fb_load_be32(pos)))
        return PyUnicode_FromOrdinal(fb_load_be16(pos))
    rare = get_rare(n, source)
    value = <PyObject*>rare
    Py_INCREF(value)
    return value


# --- the codec of one type ----------------------------------------------------------------------------


cdef class TypeCodec:
    """Encodes and decodes values of one type, as Flink's TypeSerializer of that type does.

    Parameters
    ----------
    kind : str
        A name of ``FB_TYPE_KINDS`` in csrc/record/type_codec.h, such as ``"LONG"`` or ``"ROW"``.
    children : tuple of TypeCodec
        The types inside: of fields, of elements, of key and value.
    names : tuple of str, optional
        TUPLE and ROW: field names, for messages and for rows given as dict or pyspark Row.
    symbols : tuple, optional
        ENUM: the values in ordinal order.
    padding : int, default 0
        NULLABLE: bytes that null takes beside its mask byte.
    classes : tuple of type, optional
        What to build and accept. ROW: the classes of the four kinds. EITHER: left and right. INSTANT, LOCAL_*, DATE,
        SQL_*: for values that Python's own class cannot hold. STREAM_ELEMENT: record, watermark, internal watermark,
        latency marker, watermark status, record attributes.
    numpy : bool, default False
        PRIMITIVE_ARRAY: decode to numpy arrays.
    field_path_name : str, optional
        What messages call the value itself, such as ``"key"``.

    Raises
    ------
    ValueError
        If the arguments do not make a type.
    """

    def __cinit__(self, str kind, tuple children=(), *, names=None, symbols=None, padding=0, classes=None, numpy=False,
                  field_path_name=None):
        cdef uint32_t i
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        if kind == "STRING_ARRAY":
            children = (TypeCodec("STRING"),)
        self.kind, self.children, self.classes = kind, children, tuple(classes or ())
        self.names = None if names is None else tuple(names)
        self.symbols = None if symbols is None else tuple(symbols)
        self.numpy, self.field_path_name = numpy, field_path_name
        self.check_arguments(padding)
        self.child_types = <const fb_type**>PyMem_Calloc(len(children) + 1, sizeof(fb_type*))
        self.node.children = <codec_node*>PyMem_Calloc(len(children) + 1, sizeof(codec_node))
        if self.child_types == NULL or self.node.children == NULL:
            raise MemoryError
        for i, child in enumerate(children):
            self.child_types[i] = &(<TypeCodec>child).type
            self.node.children[i] = (<TypeCodec>child).node
            if self.node.children[i].kind == FB_TYPE_STRING:
                self.node.children[i].texts = PyMem_Calloc(FB_KEPT_TEXTS, sizeof(fb_kept_text))
        self.type.kind = KINDS[kind]
        self.type.child_count = len(children)
        self.type.children = self.child_types
        self.type.symbol_count = len(self.symbols or ())
        self.type.padding = padding
        fb_type_codec_measure(&self.type)
        self.node.kind = self.type.kind
        self.node.child_count = self.type.child_count
        self.node.min_size = self.type.min_size
        self.node.mask_size = (self.type.child_count + 2 + 7) // 8
        self.node.codec = <PyObject*>self
        for i in range(min(len(self.classes), 4)):
            self.node.classes[i] = <PyObject*>(self.classes[i])
        self.node.holds_bytes = kind == "PRIMITIVE_ARRAY" and children[0].kind == "BYTE" and not self.numpy
        self.node.acyclic = self.node.holds_bytes or (
            (kind in ACYCLIC if not children else kind == "ROW" or kind == "TUPLE") and all(
                [(<TypeCodec>child).node.acyclic for child in children]))
        # A named ROW is taken by its names, in any order of them.
        self.node.merges = kind in MERGING or (kind == "ROW" and self.names is not None) or any(
            [(<TypeCodec>child).node.merges for child in children])
        if kind == "STRING":
            self.node.texts = PyMem_Calloc(FB_KEPT_TEXTS, sizeof(fb_kept_text))
        if kind == "ENUM":
            self.ordinals = {symbol: i for i, symbol in enumerate(self.symbols)}
        if kind == "PRIMITIVE_ARRAY":
            self.array_dtype, self.array_formats = ARRAY_TYPES[children[0].kind]

    def __dealloc__(self):
        fb_forget_texts(<fb_kept_text*>self.node.texts)
        PyMem_Free(self.node.texts)
        if self.node.children != NULL:
            for i in range(self.node.child_count):
                if self.node.children[i].kind == FB_TYPE_STRING:
                    fb_forget_texts(<fb_kept_text*>self.node.children[i].texts)
                    PyMem_Free(self.node.children[i].texts)
        PyMem_Free(self.child_types)
        PyMem_Free(self.node.children)

    cdef int check_arguments(self, padding) except -1:
        cdef str kind = self.kind
        count = CHILD_COUNTS.get(kind, len(self.children) if kind == "STRING_ARRAY" else 0)
        if count is not None and len(self.children) != count:
            raise ValueError(f"{kind} has {count} types inside, got {len(self.children)}")
        if not all(isinstance(child, TypeCodec) for child in self.children):
            raise TypeError(f"the types inside {kind} must be TypeCodec, got {self.children!r}")
        if kind == "TUPLE" and not self.children:
            raise ValueError("a TUPLE has at least one field")
        if self.names is not None and not len(self.names) == len(set(self.names)) == len(self.children):
            raise ValueError(f"{kind} needs {len(self.children)} different field names, got {list(self.names)}")
        if len(self.classes) != CLASS_COUNTS.get(kind, 0):
            raise ValueError(f"{kind} needs {CLASS_COUNTS.get(kind, 0)} classes, got {len(self.classes)}")
        if kind == "ROW":
            for row in self.classes:
                if not (isinstance(row, type) and issubclass(row, tuple) and fb_is_plain_tuple(<PyObject*>row)):
                    raise TypeError(f"the classes of a ROW must be subclasses of tuple without attributes, got {row!r}")
        if kind == "ENUM" and (not self.symbols or len(set(self.symbols)) != len(self.symbols)):
            raise ValueError(f"ENUM needs different symbols, got {self.symbols!r}")
        if kind == "PRIMITIVE_ARRAY" and self.children[0].kind not in ARRAY_TYPES:
            raise ValueError(f"PRIMITIVE_ARRAY holds {', '.join(ARRAY_TYPES)}, got {self.children[0].kind}")
        if not 0 <= padding <= INT32_MAX:
            raise ValueError(f"padding must be within 0..{INT32_MAX} bytes, got {padding}")
        if kind in ("SET", "MAP") and not hashable(self.children[0]):
            raise ValueError(f"{(<TypeCodec>self.children[0]).describe()} gives no hashable value in Python, so no "
                             f"{kind} can hold it" + (" as key" if kind == "MAP" else ""))
        return 0

    cdef str describe(self):
        """The type as text for messages."""
        if not self.children or self.kind == "STRING_ARRAY":
            return self.kind
        names = self.names if self.names is not None else [None] * len(self.children)
        inner = ", ".join([(f"{name} " if name is not None else "") + (<TypeCodec>child).describe()
                           for name, child in zip(names, self.children)])
        return f"{self.kind}({inner})" if len(inner) <= 200 else f"{self.kind}({inner[:197]}...)"

    cdef str step(self, index):
        """Child `index` in the path to a refused value: fields as ``.'name'``, elements as ``[3]``."""
        if self.kind == "ROW" or self.kind == "TUPLE":
            return "." + repr(self.names[index] if self.names is not None else f"f{index}")
        return f"[{index}]"

    cdef tuple row_fields(self, PyObject* value):
        """The fields, in the order of the type, of what is given for a ROW and is not simply a tuple of its size."""
        cdef object v = <object>value
        if PyDict_Check(value):
            own = tuple(v)
        elif PyTuple_Check(value):
            own = getattr(v, "__fields__", None)  # a pyspark Row
            if own is None:
                own = getattr(v, "_fields", None)  # a row of ours, a namedtuple
        elif PyList_Check(value):
            own = None
        else:
            refuse(&self.node, value, TypeError, "a Row, tuple, list or dict is needed")
        if PyDict_Check(value) or (own is not None and self.names is not None and tuple(own) != self.names):
            return self.fields_by_name(v, own)
        if len(v) != self.node.child_count:
            refuse(&self.node, value, ValueError, f"it has {len(v)} fields instead of {self.node.child_count}")
        return tuple(v)

    cdef tuple fields_by_name(self, v, own):
        names = self.names if self.names is not None else tuple([f"f{i}" for i in range(self.node.child_count)])
        for name in names:
            if name not in own:
                refuse(&self.node, <PyObject*>v, ValueError, f"field {name!r} is missing")
        if len(own) > len(names):
            unknown = ", ".join([repr(name) for name in own if name not in names])
            refuse(&self.node, <PyObject*>v, ValueError, f"the type has no field {unknown}")
        if PyDict_Check(<PyObject*>v):
            return tuple([v[name] for name in names])
        places = {name: i for i, name in enumerate(own)}
        return tuple([v[places[name]] for name in names])

    cdef int explain(self, fb_output* out) except -1:
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
            if self.field_path_name is not None:
                where = f"{self.field_path_name}, {where}"
        else:
            where = self.field_path_name if self.field_path_name is not None else "value"
        value = refusal.value
        text = (f"{record_words(out.record_number)}{where}: expected {(<TypeCodec>refusal.codec).describe()}, "
                f"got {shorten(value)} ({type(value).__name__})")
        raise refusal.error(f"{text}: {refusal.why}" if refusal.why else text)

    cdef int encode(self, object value, fb_output* output) except -1:
        """Appends `value` at output.pos. After a failure output.pos is where it was."""
        cdef size_t used = fb_output_size(output)
        cdef uint8_t* pos = (<put_function>put)(&self.node, <PyObject*>value, output.pos, output)
        if pos == NULL:
            output.pos = output.start + used
            return self.explain(output)
        output.pos = pos
        return 0

    cdef object decode(self, fb_input* input):
        """Reads one value at input.pos and moves past it; CorruptDataError leaves input.pos at the offence."""
        cdef const uint8_t* pos = input.pos
        value = FB_IDENTITY(get(&self.node, &pos, input))
        input.pos = pos
        return value

    def serialize(self, value):
        """The bytes that Flink's serializer writes for `value`."""
        cdef fb_output output
        cdef uint8_t small[512]  # most values fit, and nothing has to be allocated
        memset(&output, 0, sizeof(output))
        output.record_number = -1
        fb_output_start(&output, small, small + sizeof(small))
        try:
            self.encode(value, &output)
            return PyBytes_FromStringAndSize(<const char*>output.start, fb_output_size(&output))
        finally:
            fb_output_close(&output)

    def deserialize(self, data):
        """The value whose bytes are `data`, all of them."""
        cdef Py_buffer view
        cdef fb_input input
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            input.start = input.pos = <const uint8_t*>view.buf
            input.end = input.start + view.len
            input.record_number = input.channel = -1
            value = self.decode(&input)
            if input.pos != input.end:
                raise CorruptDataError(f"{self.describe()} ends at byte {input.pos - input.start} of {view.len}: "
                                       f"{input.end - input.pos} bytes are left over")
            return value
        finally:
            PyBuffer_Release(&view)

    def skip(self, data):
        """How many bytes of `data` the value at its start takes, without building it.

        Raises CorruptDataError for bytes that `deserialize` would refuse; only the elements of a SET and the keys of
        a MAP are not compared with each other.
        """
        cdef Py_buffer view
        cdef fb_input input
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            input.start = input.pos = <const uint8_t*>view.buf
            input.end = input.start + view.len
            input.record_number = input.channel = -1
            measured(&self.node, &input)
            return input.pos - input.start
        finally:
            PyBuffer_Release(&view)

    def __repr__(self):
        return f"TypeCodec({self.describe()})"


cdef bint hashable(TypeCodec codec):
    if codec.kind == "PRIMITIVE_ARRAY":
        return codec.children[0].kind == "BYTE" and not codec.numpy
    return codec.kind not in UNHASHABLE and all([hashable(child) for child in codec.children])
