/* What Python's own headers do not say in the shape that Cython needs for borrowed and hand-counted objects. */
#ifndef FB_PYTHON_OBJECT_H
#define FB_PYTHON_OBJECT_H

#include <Python.h>

#define FB_IDENTITY(object)   (object)
#define FB_TUPLE_ITEMS(tuple) (((PyTupleObject*)(tuple))->ob_item)
#define FB_NONE()             (Py_INCREF(Py_None), Py_None)
#define FB_BYTES(data, size)  PyBytes_FromStringAndSize(data, (Py_ssize_t)(size))
#define FB_BOOL(value)        ((value) ? (Py_INCREF(Py_True), Py_True) : (Py_INCREF(Py_False), Py_False))
#define FB_TYPE_OF(value)     ((PyObject*)Py_TYPE(value))

#endif
