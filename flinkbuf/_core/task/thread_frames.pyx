"""Which function a thread is in, and an exception raised in it there.

Looking at a thread and having an exception raised in it are one step: no Python code runs between, so the thread cannot
have gone on meanwhile. In pure Python it could.
"""

import gc
import logging
import sys
import threading

from cpython.object cimport PyObject


cdef extern from "Python.h":
    int PyThreadState_SetAsyncExc(unsigned long thread, PyObject* error)


cdef dict LOCKING = {
    threading.__file__: frozenset(["__enter__", "__exit__", "_acquire_restore", "_release_save", "notify"]),
    logging.__file__: frozenset(["acquire", "release", "handle", "_acquireLock", "_releaseLock"]),
}
cdef str IMPORTING = "<frozen importlib._bootstrap>"


cdef bint is_library(str filename, str function, tuple libraries):
    """Whether a frame may be of those who called it; what dataclasses makes has no file either."""
    if filename == "<string>":
        return function.startswith("__")
    return filename.startswith(libraries) and "-packages" not in filename


def innermost_frame(unsigned long thread, tuple own, tuple libraries, tuple connectors=()):
    """Return the innermost frame of a thread that is neither flinkbuf's nor of a library that flinkbuf has called.

    Parameters
    ----------
    thread : int
        Its identifier.
    own, libraries : tuple of str
        How the names of flinkbuf's files begin, and those of Python's own library.
    connectors : tuple of str, optional
        Of flinkbuf's files, those that call installed packages for themselves: others call what the program has there.

    Returns
    -------
    frame or None
        None: what runs is flinkbuf's, or there is no such thread.
    """
    found = None
    frame = sys._current_frames().get(thread)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(own):
            return None if code.co_filename.startswith(connectors) else found
        if not is_library(code.co_filename, code.co_name, libraries):
            found = found or frame
            if "-packages" not in code.co_filename:
                return found
        frame = frame.f_back
    return found


cdef bint is_called_by_nobody(object frame):
    """Whether a frame, or one of those it was called from, is of a finalizer or of a callback of the collector."""
    cdef set codes = {getattr(each, "__code__", None) for each in gc.callbacks}
    while frame is not None:
        if frame.f_code in codes or frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


cdef bint is_taking_lock(object frame):
    """Whether a thread is where a lock may be taken that nothing would give back, such as that of a module."""
    if frame is not None and frame.f_code.co_name in LOCKING.get(frame.f_code.co_filename, ()):
        return True
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False


def raise_in_function(unsigned long thread, error_class not None, tuple own, tuple libraries, tuple connectors=()):
    """Have an exception raised in a thread at its next instruction, if it is in a function that is not flinkbuf's.

    One that the interpreter calls by itself, for an object that goes or at a collection of garbage, is left alone: the
    interpreter prints what such a function raises, and goes on. So is one that is on its way into or out of a condition
    of `threading`, as in ``event.wait()`` or ``queue.get()``, or of a handler of `logging`, and all of an import: the
    lock would stay taken for ever, that of a module for every thread that imports it, too.

    Returns
    -------
    bool
        Whether it will be.
    """
    frame = innermost_frame(thread, own, libraries, connectors)
    if frame is None or is_called_by_nobody(frame) or is_taking_lock(sys._current_frames().get(thread)):
        return False
    return PyThreadState_SetAsyncExc(thread, <PyObject*>error_class) == 1
