/* The values that most programs have most of, none of which can change. */
#ifndef FB_OWN_VALUE_H
#define FB_OWN_VALUE_H

#include <Python.h>

static inline int fb_own_value_is_atom(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  return type == &PyLong_Type || type == &PyUnicode_Type || type == &PyFloat_Type || value == Py_None ||
         type == &PyBool_Type || type == &PyBytes_Type || type == &PyComplex_Type;
}

#endif
