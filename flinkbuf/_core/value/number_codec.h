/* Python ints to and from 64 bits without the way through three functions of another library. */
#ifndef FB_NUMBER_CODEC_H
#define FB_NUMBER_CODEC_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#if PY_VERSION_HEX < 0x030B0000
#include <longintrepr.h>
#endif

/* The ints of real data repeat, and making an object costs three times as much as finding one: those below this are
 * made once in the process. Immutable, so nobody can tell but by `is`. */
#define FB_NUMBER_CODEC_KEPT 8192

/* Reads an exact int of one or two digits; 0 says that it is longer and goes the slow way. */
static inline int fb_number_codec_small_int(PyObject* value, int64_t* number) {
#if PY_VERSION_HEX < 0x030C0000
  /* No branch on the sign, which nobody can predict in numbers of either sign: it becomes 0 or -1. */
  const digit* digits = ((PyLongObject*)value)->ob_digit;
  int64_t sign = Py_SIZE(value) >> 63, size = (Py_SIZE(value) ^ sign) - sign, magnitude;
  if (size == 2) magnitude = (int64_t)digits[0] | (int64_t)digits[1] << PyLong_SHIFT;
  else if (size <= 1) magnitude = size == 0 ? 0 : digits[0];
  else return 0;
  *number = (magnitude ^ sign) - sign;
  return 1;
#else
  if (!PyUnstable_Long_IsCompact((PyLongObject*)value)) return 0;
  *number = (int64_t)PyUnstable_Long_CompactValue((PyLongObject*)value);
  return 1;
#endif
}

/* A new reference, or NULL with an exception set. */
static inline PyObject* fb_number_codec_new_int(int64_t number) {
#if PY_VERSION_HEX < 0x030C0000 && PyLong_SHIFT == 30 && !defined(Py_REF_DEBUG) && !defined(Py_TRACE_REFS)
  uint64_t sign = number < 0 ? UINT64_MAX : 0, rest = ((uint64_t)number ^ sign) - sign; /* no branch here either */
  Py_ssize_t size = 1 + (rest >> 30 != 0) + (rest >> 60 != 0);
  PyLongObject* made;
  if (rest < 8) return PyLong_FromLong((long)number); /* Python keeps the small negative ones */
  made = (PyLongObject*)PyObject_Malloc(offsetof(PyLongObject, ob_digit) + (size_t)size * sizeof(digit));
  if (made == NULL) return PyErr_NoMemory();
  Py_SET_REFCNT((PyObject*)made, 1);
  Py_SET_TYPE((PyObject*)made, &PyLong_Type);
  Py_SET_SIZE((PyVarObject*)made, (size ^ (Py_ssize_t)sign) - (Py_ssize_t)sign);
  made->ob_digit[0] = (digit)(rest & PyLong_MASK);
  if (size > 1) made->ob_digit[1] = (digit)(rest >> 30 & PyLong_MASK);
  if (size > 2) made->ob_digit[2] = (digit)(rest >> 60);
  return (PyObject*)made;
#else
  return PyLong_FromLongLong(number);
#endif
}

/* As above, out of the `kept` ints where it is one of them. Under the GIL. */
static inline PyObject* fb_number_codec_int(PyObject** kept, int64_t number) {
  PyObject** slot;
  if ((uint64_t)number >= FB_NUMBER_CODEC_KEPT) return fb_number_codec_new_int(number);
  slot = &kept[number];
  if (*slot == NULL && (*slot = PyLong_FromLong((long)number)) == NULL) return NULL;
  Py_INCREF(*slot);
  return *slot;
}

#endif
