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

/* function(argument). A Python function and a method of one are entered without a further call in between. */
static inline PyObject* fb_call_one(PyObject* function, PyObject* argument) {
  PyObject* arguments[2] = {NULL, argument};

  if (Py_IS_TYPE(function, &PyMethod_Type) && Py_IS_TYPE(PyMethod_GET_FUNCTION(function), &PyFunction_Type)) {
    arguments[0] = PyMethod_GET_SELF(function);
    function = PyMethod_GET_FUNCTION(function);
    return ((PyFunctionObject*)function)->vectorcall(function, arguments, 2, NULL);
  }
  if (Py_IS_TYPE(function, &PyFunction_Type)) {
    return ((PyFunctionObject*)function)->vectorcall(function, arguments + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
  }
  return PyObject_Vectorcall(function, arguments + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}

#endif
