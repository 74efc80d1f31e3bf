/* What functions written in Python are made of, and whether somebody watches Python's calls. */
#ifndef FB_PLAIN_FUNCTION_H
#define FB_PLAIN_FUNCTION_H

#include <Python.h>

/* Whether a debugger or a profiler wants to see each call of this thread. */
static inline int fb_plain_function_is_watched(void) {
  PyThreadState* thread = PyThreadState_Get();
  return thread->c_tracefunc != NULL || thread->c_profilefunc != NULL;
}

/* What a function written in Python does: borrowed. */
static inline PyObject* fb_plain_function_code(PyObject* function) { return PyFunction_GET_CODE(function); }

/* What a function written in C belongs to: borrowed; NULL: it is none, or belongs to nothing. */
static inline PyObject* fb_plain_function_self(PyObject* function) {
  return PyCFunction_CheckExact(function) ? PyCFunction_GET_SELF(function) : NULL;
}

#endif
