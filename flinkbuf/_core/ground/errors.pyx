"""From the core's error codes to Python's exceptions: one table."""

from flinkbuf.errors import (
    CancelTaskError, CorruptDataError, FlinkbufError, InsufficientBuffersError, PartitionNotFoundError,
    RemoteTransportError,
)

cdef dict EXCEPTIONS = {
    FB_ENOMEM: MemoryError,
    FB_EBOUNDS: IndexError,
    FB_EFREED: RuntimeError,
    FB_ESTATE: RuntimeError,
    FB_EARGUMENT: ValueError,
    FB_EDESTROYED: CancelTaskError,
    FB_EBUFFERS: InsufficientBuffersError,
    FB_ETIMEOUT: TimeoutError,
    FB_ERELEASED: CancelTaskError,
    FB_EFINISHED: RuntimeError,
    FB_ECORRUPT: CorruptDataError,
    FB_ETRUNCATED: CorruptDataError,
    FB_ETOO_LARGE: CorruptDataError,
    FB_EIO: OSError,
    FB_EREAD_ONLY: TypeError,
    FB_EREFERENCES: RuntimeError,
    FB_ETHREAD: OSError,
    FB_ENOT_FOUND: PartitionNotFoundError,
    FB_ELOST: RemoteTransportError,
    FB_EUNFINISHED: RuntimeError,
}


cdef int fail(int code, object message=None) except -1:
    """Raise the exception of `code`; `message` says more than the code's own text."""
    text = fb_strerror(code).decode("ascii")
    raise EXCEPTIONS.get(code, FlinkbufError)(f"{message}: {text}" if message else text)
