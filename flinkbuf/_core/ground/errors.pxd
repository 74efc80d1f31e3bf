cdef extern from "ground/errors.h" nogil:
    enum:
        FB_OK
        FB_ENOMEM
        FB_EBOUNDS
        FB_EFREED
        FB_ESTATE
        FB_EARGUMENT
        FB_EDESTROYED
        FB_EBUFFERS
        FB_ETIMEOUT
        FB_ERELEASED
        FB_EFINISHED
        FB_ECORRUPT
        FB_ETRUNCATED
        FB_ETOO_LARGE
        FB_EIO
        FB_EREAD_ONLY
        FB_EREFERENCES
        FB_ETHREAD
        FB_ENOT_FOUND
        FB_ELOST
        FB_EUNFINISHED
    enum fb_progress:
        FB_RECORD
        FB_NEEDS_INPUT
        FB_NEEDS_BUFFER
    const char* fb_strerror(int code)

cdef int fail(int code, object message=*) except -1


cdef inline int check(int code) except -1:
    return code if code >= 0 else fail(code)
