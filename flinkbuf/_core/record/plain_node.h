/* What tells that a name or a class still means what it meant, and that a value is as a tuple to Python. */
#ifndef FB_PLAIN_NODE_H
#define FB_PLAIN_NODE_H

#include <Python.h>

/* Changes with each change of a dict; 0: this Python does not say. */
static inline uint64_t fb_plain_node_dict_version(PyObject* dict) {
#if PY_VERSION_HEX < 0x030C0000
  return ((PyDictObject*)dict)->ma_version_tag;
#else
  (void)dict;
  return 0;
#endif
}

/* Changes with each change of a class; 0: it is not known at the moment. */
static inline unsigned int fb_plain_node_class_version(PyObject* class_) {
#if PY_VERSION_HEX < 0x030D0000
  if (!PyType_HasFeature((PyTypeObject*)class_, Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
#endif
  return ((PyTypeObject*)class_)->tp_version_tag;
}

/* Whether container[key] is that of tuples, also in a class below. */
static inline int fb_plain_node_has_items_of_tuple(PyObject* value) {
  return PyTuple_Check(value) &&
         Py_TYPE(value)->tp_as_mapping->mp_subscript == PyTuple_Type.tp_as_mapping->mp_subscript;
}

/* Whether iterating over it is that of tuples. */
static inline int fb_plain_node_iterates_as_tuple(PyObject* value) {
  return PyTuple_Check(value) && Py_TYPE(value)->tp_iter == PyTuple_Type.tp_iter;
}

#endif
