# Python's C API on borrowed `PyObject*`, which Cython does not count: the walk over values does that by hand.

from cpython.object cimport PyObject
from libc.stddef cimport size_t
from libc.stdint cimport uint32_t

cdef extern from "_core/value/python_object.h":
    object FB_IDENTITY(PyObject* new_reference)  # it is Cython's to count from here on
    PyObject** FB_TUPLE_ITEMS(PyObject* tuple_)
    PyObject* FB_NONE()
    PyObject* FB_BYTES(const char* data, size_t size) except NULL
    PyObject* FB_BOOL(bint value)
    PyObject* FB_TYPE_OF(PyObject* value)
    PyObject* fb_call_one(PyObject* function, PyObject* argument) noexcept

cdef extern from "Python.h":
    PyObject* Py_None
    PyObject* Py_True
    PyObject* Py_False
    void Py_INCREF(PyObject* value)
    void PyErr_Restore(PyObject* kind, PyObject* error, PyObject* traceback)
    void Py_DECREF(PyObject* value)
    Py_ssize_t Py_REFCNT(PyObject* value)
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
    bint PyUnicode_IS_ASCII(PyObject* value)
    object PyUnicode_FromKindAndData(int width, const void* points, Py_ssize_t length)
    uint32_t PyUnicode_READ_CHAR(PyObject* value, Py_ssize_t index)
    bint PyTuple_Check(PyObject* value)
    bint PyTuple_CheckExact(PyObject* value)
    Py_ssize_t PyTuple_GET_SIZE(PyObject* value)
    PyObject* PyTuple_New(Py_ssize_t size) except NULL
    void PyTuple_SET_ITEM(PyObject* tuple_, Py_ssize_t index, PyObject* item)
    bint PyList_Check(PyObject* value)
    Py_ssize_t PyList_GET_SIZE(PyObject* value)
    bint PyList_CheckExact(PyObject* value)
    PyObject* PyList_GET_ITEM(PyObject* value, Py_ssize_t index)
    PyObject* PyList_New(Py_ssize_t size) except NULL
    void PyList_SET_ITEM(PyObject* list_, Py_ssize_t index, PyObject* item)
    bint PyDict_Check(PyObject* value)
    bint PyDict_CheckExact(PyObject* value)
    int PyDict_Next(PyObject* value, Py_ssize_t* position, PyObject** key, PyObject** item)
    Py_ssize_t PyDict_Size(PyObject* value)
    int PyDict_SetItem(object value, object key, object item) except -1
    int PyObject_CheckBuffer(object value)
