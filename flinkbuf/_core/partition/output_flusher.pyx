"""The flusher of this process: one thread that makes slowly filling buffers of all writers readable in time.

Nothing is started at import: the first partition with a timeout starts the thread, the last one that is done
stops it. A forked child (PySpark's workers are) has no threads of its parent, so it starts its own.
"""

import os
import threading

from flinkbuf._core.ground.errors cimport check, fail
from flinkbuf._core.ground.errors cimport FB_EARGUMENT, FB_ESTATE, FB_ETHREAD
from flinkbuf._core.partition.result_partition cimport ResultPartition

cdef fb_output_flusher* process_flusher = NULL
cdef object process_id = None
lock = threading.RLock()  # a collection of garbage inside may end a writer, which comes here too
os.register_at_fork(after_in_child=lambda: globals().update(lock=threading.RLock()))


cdef int start_flushing(fb_result_partition* partition, int64_t interval_ms) except -1:
    """From now on what is written to `partition` becomes readable within `interval_ms`."""
    global process_flusher, process_id
    cdef int code = 0
    with lock:
        if process_id != os.getpid():
            process_flusher = NULL  # the parent's: its thread is not here, and its locks may be held for ever
            process_id = os.getpid()
        if process_flusher is NULL:
            code = fb_output_flusher_open(&process_flusher)
            if code < 0:
                fail(code, "the thread that flushes output buffers" if code == FB_ETHREAD else None)
        code = fb_output_flusher_add(process_flusher, partition, interval_ms)
        if code < 0:
            close_idle()
    if code == FB_EARGUMENT:
        fail(code, f"a flush interval is at least 1 ms, got {interval_ms}")
    elif code == FB_ESTATE:
        fail(code, "the partition is flushed by another writer's timeout")
    return check(code)


cdef int stop_flushing(fb_result_partition* partition) except -1:
    """After this returns the flusher does not touch `partition`. Harmless if it never did."""
    with lock:
        if process_flusher is not NULL and process_id == os.getpid():
            # With the GIL, as whoever writes marks what it wrote: neither finds the other halfway. The flusher's
            # thread, which this may have to wait for, never asks for it.
            fb_output_flusher_remove(process_flusher, partition)
            close_idle()
    return 0


cdef int close_idle() except -1:
    """Stop the thread if it serves nobody."""
    global process_flusher
    cdef fb_output_flusher* idle = process_flusher
    if fb_output_flusher_partition_count(idle) == 0:
        process_flusher = NULL
        with nogil:
            fb_output_flusher_close(idle)
    return 0


def add_partition(ResultPartition partition not None, int64_t interval_ms):
    """Make what is written to `partition` readable within `interval_ms` milliseconds, until `remove_partition`."""
    partition.check_open()
    start_flushing(partition.c, interval_ms)


def remove_partition(ResultPartition partition not None):
    """Let go of `partition`; it is not flushed by time any more. Idempotent."""
    stop_flushing(partition.c)


def flushed_partition_count():
    """Partitions that the flusher of this process serves; 0: it is not running."""
    with lock:
        if process_flusher is NULL or process_id != os.getpid():
            return 0
        return fb_output_flusher_partition_count(process_flusher)


def flusher_turn_count():
    """Times the flusher's thread woke up since it was started; it sleeps while nothing is dirty."""
    with lock:
        if process_flusher is NULL or process_id != os.getpid():
            return 0
        return fb_output_flusher_turn_count(process_flusher)
