cdef extern from "Python.h":
    ctypedef struct PyObject:
        pass
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT

    PySendResult PyIter_Send(object iterator, object value, PyObject** result) except PYGEN_ERROR
    bint PyCoro_CheckExact(object candidate)
    Py_ssize_t Py_REFCNT(object counted)
    object PyContext_Copy(object context)
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1


cdef class AsyncCall:
    cdef object _on_done
    cdef object _coro
    cdef object _context
    cdef object _callbacks
    cdef object _cancel_message
    cdef object _name
    cdef Py_ssize_t _cancel_requests
    cdef object __weakref__
    # Under the names that asyncio's own task has: libraries look at them.
    cdef readonly object _loop
    cdef public object _fut_waiter
    cdef public bint _must_cancel
    cdef public object work

    cdef int _advance(self, object error) except -1
    cdef object _wait_for(self, object awaited)
    cdef object _cancelled_error(self)
    cdef int _end(self) except -1
