"""The binding of csrc/partition/result_partition.h: what one task writes for its n readers."""

import math
import threading
import time

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport PyThread_get_thread_ident

from flinkbuf._core.memory.buffer cimport FB_NO_CHANNEL
from flinkbuf._core.memory.local_buffer_pool cimport (
    LocalBufferPool, fb_buffer_pool_usage, fb_local_buffer_pool_get_usage, fb_local_buffer_pool_is_available,
)
from flinkbuf._core.ground.errors cimport (
    FB_EARGUMENT, FB_EFINISHED, FB_EIO, FB_ELOST, FB_ERELEASED, FB_NEEDS_BUFFER, check, fail,
)
from flinkbuf._core.partition.subpartition cimport AvailabilityListener, attach_view, fb_subpartition_usage

from flinkbuf.errors import CancelTaskError, RemoteTransportError

cdef enum:
    WAIT_SLICE_MS = 100
    LARGE_BYTES = 16384  # from here on a copy is worth giving up the GIL


cdef str text_of(cause):
    """What is said of a cause; an exception whose own text fails still has a class."""
    try:
        return f"{type(cause).__name__}: {cause}" if isinstance(cause, BaseException) else str(cause)
    except Exception:
        return type(cause).__name__


cdef bytes encoded_text_of(cause):
    """The same as C has it."""
    return text_of(cause).encode("utf-8", "backslashreplace").replace(b"\0", b"\\x00")


cdef class PartitionStorage:
    """Where a result partition keeps what is written: this one in memory, in a queue for each reader."""

    cdef int open(self, int type, uint32_t subpartition_count, fb_local_buffer_pool* pool,
                  fb_result_partition** partition) except? -100:
        return fb_pipelined_partition_open(<fb_result_partition_type>type, subpartition_count, pool, partition)


cdef PartitionStorage IN_MEMORY = PartitionStorage()


@cython.no_gc_clear  # __dealloc__ needs the manager
cdef class ResultPartition:
    """What one task writes for its readers; see `flinkbuf.ResultPartition`, which chooses the pool's size.

    Which thread may do what is one rule, for this class and for all that writes through it (record writers, channel
    state, batches): every call that touches builders, the log or files of the partition holds the claim, from `claim`
    to `unclaim`, whether it keeps the GIL or not. One thread has the claim at a time; a second one gets a RuntimeError.
    Closing frees what the claim protects, so it happens without a claim only: `close` refuses while there is one, and
    `abort`, which any thread may call, leaves closing to the `unclaim` of the thread that has it. Once `is_closing` is
    set there are no new claims. The GIL guards claim and flags.

    What needs no claim: `flush`, `release`, `fail`, views and figures, which the core guards with locks and atomics of
    its own (csrc/partition/result_partition.h).
    """

    def __cinit__(self, LocalBufferPool pool not None, int type, uint32_t subpartition_count,
                  PartitionStorage storage=None):
        cdef int code
        if pool.c is NULL:
            raise RuntimeError("the local pool belongs to another result partition")
        self.storage = IN_MEMORY if storage is None else storage
        self.pool = pool.global_pool
        try:
            code = self.storage.open(type, subpartition_count, pool.c, &self.c)
        finally:
            pool.c = NULL  # the partition has taken the handle over, also when it could not be opened
        if code < 0:
            fail(code, f"a result partition with {subpartition_count} subpartitions")

    def __dealloc__(self):
        if self.c is not NULL:
            with nogil:
                fb_result_partition_close(self.c)
                fb_result_partition_drop(self.c)

    cdef int check_open(self) except -1:
        if self.is_closing:
            if fb_result_partition_verdict(self.c) < 0:  # aborted, perhaps since a reader was lost
                self.fail_stopped()
            raise RuntimeError("the result partition is closed")
        return 0

    def share_bell(self, TaskBell bell not None):
        """Ring the bell of the task that writes here, which waits for more than this partition.

        It rings when the pool has room again, when a reader is done or has processed everything, and when the partition
        is released. Who sleeps on it looks at the partition after this call, before it sleeps.

        Raises
        ------
        RuntimeError
            It rings another one already, is closed, or is being written to.
        """
        cdef int code
        self.check_open()
        if self.bell is bell:
            return
        self.claim()
        try:
            code = fb_result_partition_share_wakeup(self.c, bell.c)
        finally:
            self.unclaim()
        if code < 0:
            fail(code, "the result partition rings another task's bell")
        self.bell = bell

    cdef bint is_over(self) noexcept:
        """Whether neither its producer nor a reader needs it any more."""
        return self.is_closing and fb_result_partition_is_released(self.c)

    cdef int check_index(self, uint32_t subpartition) except -1:
        if subpartition >= self.c.subpartition_count:
            raise IndexError(f"subpartition {subpartition} of a partition with {self.c.subpartition_count}")
        return 0

    cdef int wait_for_buffer(self) except -1:
        """One slice of sleep until the pool may have a buffer; signals are seen after it."""
        with nogil:
            fb_result_partition_wait(self.c, WAIT_SLICE_MS)
        PyErr_CheckSignals()
        return 0

    cdef int wait_until_available(self, uint32_t target) except -1:
        """Sleep while the pool has no buffer to follow one that readers want small."""
        cdef bint is_available = fb_result_partition_wait_available(self.c, target, 0)
        while not is_available:
            with nogil:
                is_available = fb_result_partition_wait_available(self.c, target, WAIT_SLICE_MS)
            PyErr_CheckSignals()
        return 0

    cdef int append(self, uint32_t target, data) except -1:
        """Write bytes to one subpartition, or to all (subpartition_count), waiting for buffers."""
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.claim_for_record()
            try:
                self.append_bytes(target, <const uint8_t*>view.buf, <size_t>view.len)
            finally:
                self.unclaim()
        finally:
            PyBuffer_Release(&view)
        self.c.record_counts[target] += 1
        fb_result_partition_mark_written(self.c, target)
        return 0

    cdef int claim(self) except -1:
        """Have the builders to oneself until `unclaim`: for all that writes, one call at a time."""
        self.check_open()
        self.check_unclaimed()
        self.claimer = PyThread_get_thread_ident()
        self.is_claimed = True
        return 0

    cdef int claim_for_record(self) except -1:
        """The same for what begins a record."""
        self.check_open()
        self.check_unclaimed()
        if fb_result_partition_verdict(self.c) < 0:
            self.fail_stopped()
        if self.c.continued != FB_NO_CHANNEL:
            raise RuntimeError("an earlier emit was interrupted in the middle of a record, so nothing can follow it; "
                               "release or fail the partition")
        self.claimer = PyThread_get_thread_ident()
        self.is_claimed = True
        return 0

    cdef int unclaim(self) except -1:
        """Let others have the builders. A thread that has aborted the partition meanwhile waits for them, or has left
        closing to this one."""
        self.is_claimed = False
        return self.close_once() if self.is_closing else 0

    cdef int check_unclaimed(self) except -1:
        if self.is_claimed:
            raise RuntimeError(
                "the partition is being written to: in another thread, by a writer that is reading this iterable, or "
                "by one whose value's own conversion code this is; only one thread writes, one call at a time")
        return 0

    cdef int append_bytes(self, uint32_t target, const uint8_t* data, size_t size) except -1:
        cdef int code = FB_NEEDS_BUFFER
        self.wait_until_available(target)
        while code == FB_NEEDS_BUFFER:
            if size < LARGE_BYTES:
                code = self.append_some(target, &data, &size)
            else:
                with nogil:
                    code = self.append_some(target, &data, &size)
            if code == FB_NEEDS_BUFFER:
                self.wait_for_buffer()
        return self.check_written(code)

    cdef int append_some(self, uint32_t target, const uint8_t** data, size_t* size) noexcept nogil:
        if target == self.c.subpartition_count:
            return fb_result_partition_broadcast(self.c, data, size)
        return fb_result_partition_emit(self.c, target, data, size)

    cdef int check_written(self, int code) except -1:
        if code == FB_EFINISHED:
            return fail(code, "nothing can be written after finish()")
        return self.fail_stopped() if code < 0 and fb_result_partition_verdict(self.c) < 0 else check(code)

    cdef int fail_stopped(self) except -1:
        """Raise why nothing can be written any more: a reader is gone without leave, somebody aborted it, or the disk
        failed."""
        cdef int verdict = fb_result_partition_verdict(self.c)
        if verdict == FB_ELOST:
            raise RemoteTransportError(self.failure_cause or "a reader of the result partition was lost")
        if verdict == FB_EIO:
            raise OSError(self.c.failure_errno, self.failure_cause or "the result partition could not be written")
        if verdict != FB_ERELEASED:
            return fail(verdict, self.failure_cause)
        raise CancelTaskError(f"the result partition was aborted: {self.failure_cause or 'nobody said why'}")

    def emit(self, data, uint32_t subpartition):
        """Append the bytes of one framed record (4-byte big-endian length, payload) to one subpartition.

        Cut over as many buffers as it takes. Waits for buffers without the GIL; signals are seen every 100 ms.
        What nobody will read, because the reader is done with it or the partition was released, is dropped.

        Parameters
        ----------
        data : bytes-like
            Contiguous.
        subpartition : int
            From 0.

        Raises
        ------
        IndexError
            There is no such subpartition.
        RuntimeError
            The partition is finished or closed.
        RemoteTransportError
            A reader in another process was lost: it went without a word.
        CancelTaskError
            It was aborted, perhaps by another thread while this one waited.
        """
        self.check_open()
        self.check_index(subpartition)
        self.append(subpartition, data)

    def broadcast(self, data):
        """Append the bytes of one framed record to every subpartition; all share one copy of them."""
        self.check_open()
        self.append(self.c.subpartition_count, data)

    def broadcast_event_bytes(self, const uint8_t[::1] data not None, int data_type):
        """Add an event, given as its bytes and data type, to every subpartition; all open buffers end here."""
        cdef int code
        self.claim()
        try:
            with nogil:  # a blocking one may have to write
                code = fb_result_partition_broadcast_event(
                    self.c, &data[0], <size_t>data.shape[0], <fb_buffer_data_type>data_type)
        finally:
            self.unclaim()
        if code == FB_EARGUMENT:
            fail(code, f"data type {data_type} is not that of an event")
        self.check_written(code)

    def emit_event_bytes(self, const uint8_t[::1] data not None, int data_type, uint32_t subpartition):
        """The same to one subpartition: only its open buffer ends."""
        cdef int code
        self.check_open()
        self.check_index(subpartition)
        self.claim()
        try:
            with nogil:
                code = fb_result_partition_emit_event(self.c, subpartition, &data[0], <size_t>data.shape[0],
                                                      <fb_buffer_data_type>data_type)
        finally:
            self.unclaim()
        if code == FB_EARGUMENT:
            fail(code, f"data type {data_type} is not that of an event")
        self.check_written(code)

    def flush(self, uint32_t subpartition):
        """Make what was written to one subpartition readable; its open buffer goes on filling."""
        self.check_open()
        self.check_index(subpartition)
        with nogil:
            fb_result_partition_flush(self.c, subpartition)

    def flush_all(self):
        """Make everything written so far readable."""
        self.check_open()
        with nogil:
            fb_result_partition_flush_all(self.c)

    def finish(self):
        """End every subpartition: finish the open buffers and add EndOfPartition. RuntimeError the second time.

        Raises
        ------
        CancelTaskError
            It was aborted, or (a blocking one) released, before its end: there is nothing to read.
        """
        cdef int code
        self.claim()
        try:
            with nogil:
                code = fb_result_partition_finish(self.c)
        finally:
            self.unclaim()
        self.check_written(code)

    def release(self):
        """Drop everything queued and to come; readers are told. From any thread; idempotent."""
        with nogil:
            fb_result_partition_release(self.c)

    def fail(self, cause):
        """Release for a reason, which readers show in their `CancelTaskError`; the first reason stays."""
        cdef bytes text = encoded_text_of(cause)
        cdef const char* c_text = text
        with nogil:
            fb_result_partition_fail(self.c, c_text)

    def close(self):
        """The producer is done: open buffers end, the pool is destroyed. Idempotent; several threads may call it.

        What is queued stays readable if the partition is finished; otherwise it fails: its readers are told that the
        rest will not come.

        Raises
        ------
        RuntimeError
            Another thread is writing; see `abort`.
        """
        while self.is_claimed and fb_result_partition_is_finished(self.c) and \
                self.claimer != PyThread_get_thread_ident():
            time.sleep(0.001)  # it comes back from finish(): nothing that follows the end takes long
        self.check_unclaimed()
        self.close_once()

    def abort(self, cause, int64_t timeout_ms=5000):
        """Fail and close it, from any thread, also while another one writes.

        What is queued is dropped. Readers, and whoever writes now or later, get a `CancelTaskError` with the cause. A
        thread that waits for a buffer is woken.

        Parameters
        ----------
        cause : str or BaseException
            Why. One that `fail` was told before stays.
        timeout_ms : int, default 5000
            How long to wait for a thread that is writing: it may be busy in the iterable that it was given.

        Returns
        -------
        bool
            Whether it is closed. If not, the last buffers that were begun come home when that thread comes back.
        """
        cdef bytes text = encoded_text_of(cause)
        cdef const char* c_text = text
        cdef double deadline = time.monotonic() + timeout_ms / 1000
        with nogil:
            fb_result_partition_abort(self.c, c_text)
        self.is_closing = True  # not before whoever sees it can see why
        while self.is_claimed and self.claimer != PyThread_get_thread_ident() and time.monotonic() < deadline:
            time.sleep(0.001)
        if self.is_claimed:
            return False
        self.close_once()
        return True

    cdef int close_once(self) except -1:
        """Close it, or wait until another thread has. Nothing is claimed."""
        cdef object me = threading.get_ident()
        self.is_closing = True
        while self.closer is not None and self.closer != me:
            time.sleep(0.001)
        if self.closer == me or self.has_closed:
            return 0
        self.closer = me
        try:
            self.stop_flushing()
            with nogil:
                fb_result_partition_close(self.c)
            self.has_closed = True
        finally:
            self.closer = None
        return 0

    def stop_flushing(self):
        """Flush by time no more; it was never begun here."""

    def create_view(self, uint32_t subpartition, AvailabilityListener listener=None):
        """Attach the reader of one subpartition.

        Parameters
        ----------
        subpartition : int
            From 0.
        listener : AvailabilityListener, optional
            Rung when there is something to poll; the view's own if left out. What is there already rings nobody:
            poll first.

        Returns
        -------
        SubpartitionView

        Raises
        ------
        RuntimeError
            It has, or had, a reader: a pipelined subpartition can be consumed only once. (One of a
            PIPELINED_APPROXIMATE partition takes the new reader in the old one's place.)
        CancelTaskError
            The partition was released.
        """
        self.check_index(subpartition)
        return attach_view(self, self.c, subpartition, listener)

    def wait_for_all_data_processed(self, timeout_ms=None):
        """Wait until every reader has processed all records that were written before EndOfData.

        Call it after the end of the data was written, and before `close`. Readers say so with
        `InputGate.acknowledge_all_records_processed`; a `RecordReader` does it when it passes EndOfData.

        Parameters
        ----------
        timeout_ms : int or None, default None
            How long to wait, in milliseconds; None: as long as there is hope.

        Returns
        -------
        bool
            Whether all have. False at the timeout, and as soon as a reader went away without saying so.

        Raises
        ------
        CancelTaskError
            The partition failed before.

        References
        ----------
        Flink ``ResultPartitionWriter.getAllDataProcessedFuture``.
        """
        cdef double deadline = math.inf if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        cdef int64_t slice_ms
        cdef bint is_decided = False
        while not is_decided:
            slice_ms = <int64_t>min(max(math.ceil(1000 * min(deadline - time.monotonic(), 1)), 0), WAIT_SLICE_MS)
            with nogil:
                is_decided = fb_result_partition_wait_acknowledged(self.c, slice_ms)
            PyErr_CheckSignals()
            if time.monotonic() >= deadline:
                break
        if fb_result_partition_is_acknowledged(self.c):
            return True
        if self.failure_cause is not None:
            raise CancelTaskError(f"the partition failed before all was processed: {self.failure_cause}")
        return False

    def buffer_pool_usage(self):
        """The pool's figures at one moment, as a dict: size, stock, requested, ..., and counters since its start."""
        cdef fb_buffer_pool_usage usage
        fb_local_buffer_pool_get_usage(self.c.pool, &usage)
        return usage

    def subpartition_usage(self):
        """The figures of each subpartition, as a list of dicts.

        ``records`` written (broadcast ones count for each), ``buffers`` added, ``bytes`` that its reader has taken,
        ``queued`` buffers and events, ``backlog``, ``credit`` that a reader elsewhere has left (-1: no such reader),
        and ``oldest_ms``, for how long at most the first unread byte has waited.
        """
        cdef fb_subpartition_usage usage
        cdef uint32_t i
        cdef uint64_t broadcast = self.c.record_counts[self.c.subpartition_count]
        cdef list figures = []
        for i in range(self.c.subpartition_count):
            fb_result_partition_get_usage(self.c, i, &usage)
            figures.append({"records": self.c.record_counts[i] + broadcast, **usage})
        return figures

    @property
    def subpartition_count(self):
        """Readers that the partition is written for."""
        return self.c.subpartition_count

    @property
    def is_available(self):
        """Whether the pool has a buffer and no subpartition has reached its quota; a blocking partition always is: it
        makes room by writing."""
        return fb_result_partition_makes_room(self.c) or bool(fb_local_buffer_pool_is_available(self.c.pool))

    @property
    def is_finished(self):
        """Whether `finish` was called."""
        return bool(fb_result_partition_is_finished(self.c))

    @property
    def is_closed(self):
        """Whether `close` or `abort` was called."""
        return bool(self.is_closing)

    @property
    def is_released(self):
        """Whether it was released: by `release`, `fail`, or because all readers and the producer are done."""
        return bool(fb_result_partition_is_released(self.c))

    @property
    def unconsumed_subpartition_count(self):
        """Subpartitions whose reader is not done; one that nobody has asked for yet counts, too. Of a blocking one
        there are none: reading does not consume it."""
        cdef uint32_t users = self.c.users
        if self.c.kind.is_blocking:
            return 0
        return users if self.c.is_closed or users == 0 else users - 1  # the producer is one until it closes

    @property
    def is_reader_lost(self):
        """Whether a reader in another process went away without saying that it needs no more."""
        return fb_result_partition_is_reader_lost(self.c)

    @property
    def failure_cause(self):
        """What `fail` was told, or which reader was lost; None if nothing went wrong."""
        cdef const char* cause = fb_result_partition_failure(self.c)
        return None if cause is NULL else cause.decode("utf-8")

    @property
    def is_all_data_processed(self):
        """Whether every reader has said that it processed all records up to EndOfData."""
        return bool(fb_result_partition_is_acknowledged(self.c))

    @property
    def is_answered(self):
        """Whether `is_all_data_processed`, or a reader went away that did not say so: nothing is left to wait for."""
        return bool(fb_result_partition_is_answered(self.c))

    @property
    def queued_buffer_count(self):
        """Buffers and events in all queues, open buffers included."""
        cdef fb_subpartition_usage usage
        cdef uint64_t queued = 0
        cdef uint32_t i
        for i in range(self.c.subpartition_count):
            fb_result_partition_get_usage(self.c, i, &usage)
            queued += usage.queued
        return queued

    @property
    def total_written_bytes(self):
        """Bytes in buffers that are finished; broadcast ones count once for each reader."""
        return self.c.total_written_bytes

    @property
    def total_read_bytes(self):
        """Bytes that readers polled, events included."""
        cdef fb_subpartition_usage usage
        cdef uint64_t read = 0
        cdef uint32_t i
        for i in range(self.c.subpartition_count):
            fb_result_partition_get_usage(self.c, i, &usage)
            read += usage.bytes
        return read

    @property
    def total_buffer_count(self):
        """Buffers that are finished, events not included; broadcast ones count once for each reader."""
        return self.c.total_buffers

    @property
    def soft_back_pressured_ms(self):
        """Milliseconds that emits waited before a record, for the pool to be available."""
        return self.c.soft_back_pressured_ms

    @property
    def hard_back_pressured_ms(self):
        """Milliseconds that emits waited for a buffer."""
        return self.c.hard_back_pressured_ms
