/* Rows: tuples of a class of their own, and the class above all of theirs. */
#ifndef FB_ROW_CODEC_H
#define FB_ROW_CODEC_H

#include <Python.h>

/* Whether objects of a class of rows are laid out as tuples are and nothing else. */
static inline int fb_row_codec_is_plain_tuple(PyObject* type) {
  PyTypeObject* t = (PyTypeObject*)type;
  return t->tp_alloc == PyType_GenericAlloc && t->tp_basicsize == PyTuple_Type.tp_basicsize &&
         t->tp_itemsize == (Py_ssize_t)sizeof(PyObject*) && t->tp_dictoffset == 0 && t->tp_weaklistoffset == 0;
}

/* Rows come and go one at a time, and most of what a row costs more than a tuple is the way of a class made by Python
 * through the allocator and back. So rows of few fields keep their memory in lists, as Python does it with tuples, each
 * linked by its first field. Under the GIL. */
#define FB_ROW_CODEC_FREE_FIELDS 20  /* rows of more are not kept */
#define FB_ROW_CODEC_FREE_ROWS   128 /* of each number of fields */

static struct {
  PyObject* first;
  int count;
} fb_row_codec_free[FB_ROW_CODEC_FREE_FIELDS + 1];

/* A row whose fields are still NULL and which the garbage collector does not see yet. */
static inline PyObject* fb_row_codec_new_row(PyObject* type, Py_ssize_t size) {
  PyTupleObject* row = NULL;
  if (size > 0 && size <= FB_ROW_CODEC_FREE_FIELDS && fb_row_codec_free[size].first != NULL) {
    row = (PyTupleObject*)fb_row_codec_free[size].first;
    fb_row_codec_free[size].first = row->ob_item[0];
    fb_row_codec_free[size].count--;
    (void)PyObject_InitVar((PyVarObject*)row, (PyTypeObject*)type, size);
  } else {
    row = PyObject_GC_NewVar(PyTupleObject, (PyTypeObject*)type, size);
    if (row == NULL) return NULL;
  }
#if PY_VERSION_HEX >= 0x030E0000
  row->ob_hash = -1; /* not known yet */
#endif
  for (Py_ssize_t i = 0; i < size; i++) row->ob_item[i] = NULL;
  return (PyObject*)row;
}

static void fb_row_codec_dealloc(PyObject* row);

/* Frees a row that the garbage collector does not see any more. */
static inline void fb_row_codec_free_row(PyObject* row) {
  PyTypeObject* type = Py_TYPE(row);
  Py_ssize_t size = PyTuple_GET_SIZE(row);
  PyObject** items = ((PyTupleObject*)row)->ob_item;
  for (Py_ssize_t i = size; i > 0; i--) Py_XDECREF(items[i - 1]);
  /* One that ran its __del__ is marked as such in its memory. */
  if (size > 0 && size <= FB_ROW_CODEC_FREE_FIELDS && fb_row_codec_free[size].count < FB_ROW_CODEC_FREE_ROWS &&
      type->tp_dealloc == fb_row_codec_dealloc && type->tp_finalize == NULL) {
    items[0] = fb_row_codec_free[size].first;
    fb_row_codec_free[size].first = row;
    fb_row_codec_free[size].count++;
  } else {
    type->tp_free(row);
  }
  Py_DECREF(type); /* of a class that was made at run time, each object holds it */
}

/* In place of what Python puts into the classes that it makes, which has attributes, weak references and slots to look
 * for. A row that the collector does not see holds nothing that holds others, so freeing it cannot go deep. */
static void fb_row_codec_dealloc(PyObject* row) {
  if (Py_TYPE(row)->tp_finalize != NULL) {
    if (PyObject_CallFinalizerFromDealloc(row) < 0) return; /* somebody holds it again */
  } else if (!PyObject_GC_IsTracked(row)) {
    fb_row_codec_free_row(row);
    return;
  }
  PyObject_GC_UnTrack(row);
  Py_TRASHCAN_BEGIN(row, fb_row_codec_dealloc); /* rows in rows in rows: from some depth on one after the other */
  fb_row_codec_free_row(row);
  Py_TRASHCAN_END;
}

/* What the fields of the classes of rows are called as attributes: the classes that were asked last. Borrowed: classes
 * of rows live as long as the process, and their names with them. Under the GIL. */
#define FB_ROW_CODEC_KNOWN 32

static struct {
  PyTypeObject* type;
  PyObject* names;
} fb_row_codec_known[FB_ROW_CODEC_KNOWN];

static getattrofunc fb_row_codec_slow_getattr; /* Python's way, through the descriptors and __getattr__ */

static PyObject* fb_row_codec_names_of(PyTypeObject* type) {
  PyObject* names = PyDict_GetItemString(type->tp_dict, "_attribute_names"); /* its own, none of a class above it */
  return names != NULL && PyTuple_CheckExact(names) ? names : NULL;
}

/* row.name. Names in code are interned, and so are those of the fields: the same name is the same object. */
static PyObject* fb_row_codec_getattr(PyObject* row, PyObject* name) {
  PyTypeObject* type = Py_TYPE(row);
  size_t at = ((uintptr_t)type >> 6) % FB_ROW_CODEC_KNOWN;
  PyObject* names;
  if (fb_row_codec_known[at].type != type) {
    fb_row_codec_known[at].names = fb_row_codec_names_of(type);
    fb_row_codec_known[at].type = type;
  }
  names = fb_row_codec_known[at].names;
  if (names != NULL && PyTuple_GET_SIZE(names) <= PyTuple_GET_SIZE(row)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
      if (PyTuple_GET_ITEM(names, i) == name) {
        PyObject* item = PyTuple_GET_ITEM(row, i);
        Py_INCREF(item);
        return item;
      }
    }
  }
  return fb_row_codec_slow_getattr(row, name);
}

/* For a class below NamedFields that is laid out as a tuple is. Classes below it that add attributes keep Python's way,
 * which comes here in the end. */
static inline void fb_row_codec_quicken(PyObject* type) {
  PyTypeObject* t = (PyTypeObject*)type;
  t->tp_dealloc = fb_row_codec_dealloc;
  if (t->tp_getattro == fb_row_codec_getattr || fb_row_codec_names_of(t) == NULL) return;
  if (fb_row_codec_slow_getattr == NULL) fb_row_codec_slow_getattr = t->tp_getattro;
  if (t->tp_getattro == fb_row_codec_slow_getattr) t->tp_getattro = fb_row_codec_getattr;
}

/* row["name"]; all else is left to tuple. In C, as a __getitem__ of Python's would make row[1] ten times slower. */
static PyObject* fb_row_codec_subscript(PyObject* row, PyObject* key) {
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

static int fb_row_codec_traverse(PyObject* row, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(row));
  return PyTuple_Type.tp_traverse(row, visit, arg);
}

/* The class above all rows: laid out as a tuple is. Its subclasses say in `_names` what their fields are called. */
static PyObject* fb_row_codec_make_named_fields(void) {
  PyType_Slot slots[] = {
      {Py_mp_subscript, (void*)fb_row_codec_subscript},
      {Py_tp_dealloc, (void*)fb_row_codec_dealloc},
      {Py_tp_traverse, (void*)fb_row_codec_traverse},
      {Py_tp_doc, (void*)"A tuple whose items are found by name too; its class has the names in `_names`."},
      {0, NULL},
  };
  PyType_Spec spec = {"flinkbuf._core.value.row_codec.NamedFields", (int)PyTuple_Type.tp_basicsize,
                      (int)PyTuple_Type.tp_itemsize, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                      slots};
  PyObject* bases = PyTuple_Pack(1, (PyObject*)&PyTuple_Type);
  PyObject* made = bases == NULL ? NULL : PyType_FromSpecWithBases(&spec, bases);
  Py_XDECREF(bases);
  return made;
}

#endif
