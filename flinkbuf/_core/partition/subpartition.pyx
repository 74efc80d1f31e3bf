"""SubpartitionView and AvailabilityListener: how one reader takes buffers out of a result partition."""

cimport cython
import math
import time

from cpython.exc cimport PyErr_CheckSignals

from flinkbuf._core.memory.buffer cimport Buffer
from flinkbuf._core.ground.errors cimport (
    FB_ENOT_FOUND, FB_ENOMEM, FB_ERELEASED, FB_ESTATE, FB_EUNFINISHED, check, fail,
)
from flinkbuf._core.ground.wakeup cimport (
    fb_wakeup_close, fb_wakeup_open, fb_wakeup_ring, fb_wakeup_seen, fb_wakeup_wait,
)

cdef enum:
    WAIT_SLICE_MS = 100  # how long a wait may go without a look at signals


cdef void on_data_available(void* context, uint32_t subpartition_index) noexcept nogil:
    fb_wakeup_ring(<fb_wakeup*>context)


cdef void on_priority_event(void* context, uint32_t subpartition_index, int32_t sequence_number) noexcept nogil:
    fb_wakeup_ring(<fb_wakeup*>context)


cdef class AvailabilityListener:
    """A bell that views ring when there is something to poll; several views may share one.

    It never runs Python code: whoever made the data available only rings, the reader sleeps in `wait`.
    Flink: ``BufferAvailabilityListener``.

    Examples
    --------
    >>> listener = AvailabilityListener()
    >>> listener.wait(timeout_ms=0), listener.notification_count
    (False, 0)
    """

    def __cinit__(self):
        check(fb_wakeup_open(&self.wakeup))
        self.is_open = True

    def __dealloc__(self):
        if self.is_open:
            fb_wakeup_close(&self.wakeup)

    def wait(self, timeout_ms=None):
        """Sleep until a notification that no earlier `wait` has seen; other Python threads run meanwhile.

        Parameters
        ----------
        timeout_ms : int, optional
            Milliseconds; no limit if left out.

        Returns
        -------
        bool
            Whether there was one. Poll until the next data type is `NONE` before waiting again.
        """
        cdef double deadline = math.inf if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        cdef int64_t slice_ms
        cdef bint is_rung = False
        while not is_rung:
            slice_ms = <int64_t>min(max(math.ceil(1000 * min(deadline - time.monotonic(), 1)), 0), WAIT_SLICE_MS)
            with nogil:
                is_rung = fb_wakeup_wait(&self.wakeup, self.seen, slice_ms)
            PyErr_CheckSignals()
            if time.monotonic() >= deadline:
                break
        self.seen = fb_wakeup_seen(&self.wakeup)
        return bool(is_rung)

    @property
    def notification_count(self):
        """Notifications so far, of data, priority events and release."""
        return fb_wakeup_seen(&self.wakeup)


@cython.no_gc_clear  # __dealloc__ needs the listener
cdef class SubpartitionView:
    """The reading end of one subpartition; made by `ResultPartition.create_view`.

    One thread polls. Notification is edge-triggered: after the listener was rung, poll until the next data type
    is 0 (``NONE``). Use it as a context manager, or call `release`: a released view means that the subpartition
    is consumed, and what it still holds or gets is dropped (not with PIPELINED_APPROXIMATE, which waits for its
    next reader, nor with a blocking partition, which can be read again). Flink: ``ResultSubpartitionView``.
    """

    def __init__(self):
        raise TypeError("views come from ResultPartition.create_view()")

    def __dealloc__(self):
        if self.c is not NULL:
            fb_subpartition_view_release(self.c)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.release()

    cdef int check_attached(self) except -1:
        if self.c is NULL:
            raise RuntimeError("the subpartition view has been released")
        return 0

    cdef fb_subpartition_usage usage(self) except *:
        cdef fb_subpartition_usage usage
        self.check_attached()
        fb_subpartition_view_get_usage(self.c, &usage)
        return usage

    def poll(self):
        """Take the next buffer, without waiting.

        Returns
        -------
        tuple of (Buffer, int, int, int) or None
            The buffer (release it early), how many data buffers can be taken after it (backlog), the data type
            of the next one (0: nothing is available), and this one's sequence number, from 0.

        Raises
        ------
        CancelTaskError
            The partition was released; the message has the cause if it failed.
        PartitionNotFoundError, OSError, CorruptDataError
            A blocking partition's file is gone, cannot be read, or is broken; the message has path and offset.
        RuntimeError
            The view was released, or (PIPELINED_APPROXIMATE) another one has taken its place.
        """
        cdef fb_polled_buffer polled
        cdef int code
        self.check_attached()
        code = fb_subpartition_view_poll(self.c, &polled)
        if code == 0:
            return None
        if code < 0:
            self.fail_poll(code)
        return Buffer.adopt(polled.slice), polled.backlog, polled.next_data_type, polled.sequence_number

    cdef int fail_poll(self, int code) except -1:
        cdef const char* failure = fb_result_partition_view_failure(self.c)
        where = f"subpartition {self.c.index}"
        if code == FB_ESTATE and fb_subpartition_view_is_replaced(self.c):
            return fail(code, f"{where} cannot be read on, since another reader has taken its place")
        if failure is not NULL:
            cause = failure.decode("utf-8", "replace")
            return fail(code, f"{where} cannot be read on ({cause})" if code == FB_ERELEASED else f"{where}: {cause}")
        if code == FB_ESTATE:
            return fail(code, f"{where}: a buffer that is not finished stands before another, or a restored one where "
                              f"records have to be skipped")
        return fail(code, f"{where} cannot be read on")

    def resume_consumption(self):
        """Let the subpartition go on after a barrier that blocked it. RuntimeError unless it is blocked."""
        self.check_attached()
        if fb_subpartition_view_resume(self.c) == FB_ESTATE:
            fail(FB_ESTATE, f"subpartition {self.c.index} is not blocked by a barrier")

    def announce_buffer_size(self, int32_t size):
        """Ask the writer for buffers of `size` bytes from its next one on (debloating); 0 leaves it to the writer.

        Raises
        ------
        ValueError
            `size` is negative.
        """
        cdef int code
        self.check_attached()
        code = fb_subpartition_view_set_buffer_size(self.c, size)
        if code < 0:
            fail(code, f"a buffer size must not be negative, got {size}")

    def release(self):
        """Give the view up. Its listener is not rung again after this returns. Idempotent."""
        cdef fb_subpartition_view* c = self.c
        if c is NULL:
            return
        self.c = NULL
        with nogil:
            fb_subpartition_view_release(c)

    @property
    def is_available(self):
        """Whether `poll` is worth a call: a finished buffer, a flush, or an event."""
        self.check_attached()
        return bool(fb_subpartition_view_is_available(self.c, True, NULL))

    @property
    def is_available_without_credit(self):
        """Whether the next one is an event, which needs no credit."""
        self.check_attached()
        return bool(fb_subpartition_view_is_available(self.c, False, NULL))

    @property
    def backlog(self):
        """Data buffers that can be taken; an open last one counts only when it was flushed."""
        return self.usage().backlog

    @property
    def queued_buffer_count(self):
        """Buffers and events in the queue, the open one included."""
        return self.usage().queued

    @property
    def total_buffer_count(self):
        """Buffers and events that were ever added."""
        return self.usage().buffers

    @property
    def total_byte_count(self):
        """Bytes that were ever polled."""
        return self.usage().bytes

    @property
    def is_released(self):
        """Whether this view, or its partition, was released."""
        return self.c is NULL or bool(fb_subpartition_view_is_released(self.c))


cdef SubpartitionView attach_view(object partition, fb_result_partition* c, uint32_t index,
                                  AvailabilityListener listener):
    cdef SubpartitionView view = SubpartitionView.__new__(SubpartitionView)
    cdef fb_view_options options
    cdef int code
    view.partition = partition
    view.listener = AvailabilityListener() if listener is None else listener
    options.listener.on_data_available = on_data_available
    options.listener.on_priority_event = on_priority_event
    options.listener.context = &view.listener.wakeup
    options.sends_empty_buffers = options.takes_file_regions = False
    with nogil:
        code = fb_result_partition_create_view(c, index, &options, &view.c)
    if code < 0:
        fail_view(partition, c, index, code)
    return view


cdef int fail_view(object partition, fb_result_partition* c, uint32_t index, int code) except -1:
    """Raise why there is no view of a subpartition."""
    if code == FB_ESTATE:
        return fail(code, f"subpartition {index} is being consumed already, and a pipelined one can be consumed only "
                          f"once")
    text = fb_result_partition_view_error(c, code).decode("ascii")
    if code == FB_ERELEASED or code == FB_ENOT_FOUND or code == FB_EUNFINISHED or code == FB_ENOMEM:
        cause = partition.failure_cause
        return fail(code, f"subpartition {index}: {text}" + (f" ({cause})" if cause else ""))
    return fail(code, f"subpartition {index}: {partition.failure_cause or text}")
