"""NetworkBufferPool and LocalBufferPool: where buffers come from and go back to."""

import math
import time

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from flinkbuf._core.memory.buffer cimport FB_NO_CHANNEL, fb_buffer
from flinkbuf._core.memory.buffer_builder cimport BufferBuilder
from flinkbuf._core.ground.errors cimport (
    FB_EARGUMENT, FB_EBUFFERS, FB_ENOMEM, FB_ETIMEOUT, fail,
)
from flinkbuf.log import logger

cdef enum:
    WAIT_SLICE_MS = 100  # how long a wait may go without a look at signals


cdef uint32_t limit_of(value) except? 0xFFFFFFFF:
    """None means no limit."""
    return FB_UNBOUNDED if value is None else <uint32_t>value


cdef class NetworkBufferPool:
    """All memory segments of one process, allocated at once; local pools borrow from it.

    Parameters
    ----------
    num_segments : int
        Segments.
    segment_size : int
        Bytes of each; Flink's ``taskmanager.memory.segment-size``.

    Raises
    ------
    ValueError
        A size or count that cannot be.
    MemoryError
        The system has not so much memory.

    Notes
    -----
    `close` (or the end of the ``with`` block) destroys the local pools and refuses further requests; buffers
    that are still held stay valid, and the memory goes when the last of them is released.
    Flink: ``NetworkBufferPool``.

    Examples
    --------
    >>> with NetworkBufferPool(64, segment_size=32768) as network:
    ...     with network.create_buffer_pool(min=2, max=10) as pool:
    ...         pool.size, network.available_segment_count
    (10, 63)
    """

    def __cinit__(self, num_segments, segment_size=32768):
        cdef int code
        if not 0 <= num_segments < 2**31 or not 0 < segment_size < 2**31:
            raise ValueError(f"num_segments must be 0 to 2^31-1 and segment_size 1 to 2^31-1 bytes, "
                             f"got {num_segments} and {segment_size}")
        code = fb_network_buffer_pool_open(num_segments, segment_size, &self.c)
        if code == FB_ENOMEM:
            fail(code, f"cannot allocate {num_segments} segments of {segment_size} bytes "
                       f"({num_segments * segment_size / 2**20:.1f} MiB); ask for fewer or smaller segments")
        elif code < 0:
            fail(code)

    def __dealloc__(self):
        if self.c is not NULL:
            fb_network_buffer_pool_destroy_pools(self.c)
            fb_network_buffer_pool_close(self.c)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __repr__(self):
        if self.is_destroyed:
            return "<NetworkBufferPool destroyed>"
        return (f"<NetworkBufferPool {self.available_segment_count} of {self.total_segment_count} segments of "
                f"{self.segment_size} bytes available>")

    def create_buffer_pool(self, min, max=None, *, expected=None, channel_count=0, max_buffers_per_channel=None,
                           max_overdraft_buffers=0):
        """Register a local pool.

        Parameters
        ----------
        min : int
            Segments that are guaranteed to it; above 0.
        max : int, optional
            Segments that it gets at most; no limit if left out.
        expected : int, optional
            Its weight when free segments are shared out; `min` if left out.
        channel_count : int
            Channels whose buffers are counted apart; 0 counts none.
        max_buffers_per_channel : int, optional
            From so many buffers of one channel on, the pool reports itself unavailable. It refuses nothing.
        max_overdraft_buffers : int
            Segments above its size that it may take while the network pool has some.

        Raises
        ------
        InsufficientBuffersError
            `min` cannot be guaranteed beside what is guaranteed to others.
        CancelTaskError
            This pool is destroyed.
        """
        cdef fb_buffer_pool_options options
        cdef fb_local_buffer_pool* pool = NULL
        cdef LocalBufferPool local
        cdef int code
        memset(&options, 0, sizeof(options))
        options.min = min
        options.max = limit_of(max)
        options.expected = 0 if expected is None else expected
        options.channel_count = channel_count
        options.max_buffers_per_channel = 0 if max_buffers_per_channel is None else max_buffers_per_channel
        options.max_overdraft = max_overdraft_buffers
        if channel_count > 0 and max_buffers_per_channel is not None and max_buffers_per_channel < 1:
            raise ValueError(f"max_buffers_per_channel must be above 0, got {max_buffers_per_channel}")
        with nogil:
            code = fb_local_buffer_pool_open(self.c, &options, &pool)
        if code == FB_EARGUMENT:
            fail(code, f"a pool needs 0 < min <= expected <= max, got min {min}, expected {expected}, max {max}")
        elif code == FB_EBUFFERS:
            self.refuse(min, "a local pool")
        elif code < 0:
            fail(code)
        local = LocalBufferPool.__new__(LocalBufferPool)
        local.c = pool
        local.global_pool = self
        self.warn_of_usage()
        return local

    cdef int refuse(self, wanted, what) except -1:
        required = fb_network_buffer_pool_required(self.c)
        total = fb_network_buffer_pool_total(self.c)
        return fail(FB_EBUFFERS, (
            f"{what} needs {wanted} segments, but only {max(0, total - required)} of {total} (each "
            f"{self.segment_size} bytes) are not guaranteed to others; {self.available_segment_count} are free now. "
            f"Give NetworkBufferPool at least {required + wanted} segments (NetworkConfig: more network memory or "
            f"smaller segments), or use fewer channels or fewer buffers per channel"))

    cdef warn_of_usage(self):
        """Say once per value that pools may ask for more than there is, and once that this is over."""
        percent = fb_network_buffer_pool_usage_percent(self.c)
        if percent >= 100 and percent != self.warned_percent:
            logger.warning("The buffer pools may ask for %d%% of the %d network segments; tasks may wait for "
                           "buffers. More segments would help.", percent, self.total_segment_count)
            self.warned_percent = percent
        elif percent < 100 and self.warned_percent is not None:
            logger.info("The buffer pools ask for %d%% of the network segments: back to normal.", percent)
            self.warned_percent = None

    def destroy_all_buffer_pools(self):
        """Destroy every local pool; this pool goes on."""
        with nogil:
            fb_network_buffer_pool_destroy_pools(self.c)

    def close(self):
        """Destroy the local pools and this one; idempotent. Buffers that are held stay valid."""
        with nogil:
            fb_network_buffer_pool_destroy_pools(self.c)
            fb_network_buffer_pool_destroy(self.c)

    @property
    def segment_size(self):
        """Bytes of one segment."""
        return fb_network_buffer_pool_segment_size(self.c)

    @property
    def total_segment_count(self):
        """Segments; 0 once destroyed."""
        return fb_network_buffer_pool_total(self.c)

    @property
    def available_segment_count(self):
        """Segments that nobody holds now; 0 once destroyed."""
        return fb_network_buffer_pool_available(self.c)

    @property
    def used_segment_count(self):
        """Segments out, idle in local pools included; 0 once destroyed."""
        return self.total_segment_count - self.available_segment_count

    @property
    def required_segment_count(self):
        """Segments guaranteed to local pools, and unpooled ones out."""
        return fb_network_buffer_pool_required(self.c)

    @property
    def buffer_pool_count(self):
        """Registered local pools."""
        return fb_network_buffer_pool_pool_count(self.c)

    @property
    def usage_percent(self):
        """What the local pools may ask for, in percent of all segments; above 100, tasks may have to wait."""
        return fb_network_buffer_pool_usage_percent(self.c)

    @property
    def is_destroyed(self):
        """Whether `close` was called."""
        return bool(fb_network_buffer_pool_is_destroyed(self.c))


cdef class LocalBufferPool:
    """The share of one result partition or input gate in a `NetworkBufferPool`, which makes it.

    Its size lies between `min` and `max` and changes as other pools come and go. Flink: ``LocalBufferPool``.
    """

    def __init__(self):
        raise TypeError("local pools come from NetworkBufferPool.create_buffer_pool()")

    def __dealloc__(self):
        fb_local_buffer_pool_close(self.c)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __repr__(self):
        if self.is_destroyed:
            return "<LocalBufferPool destroyed>"
        usage = self.usage()
        return f"<LocalBufferPool {usage['requested'] - usage['stock']} of {usage['size']} segments in use>"

    cdef uint32_t channel_of(self, channel) except? 0xFFFFFFFF:
        return FB_NO_CHANNEL if channel is None else <uint32_t>channel

    def request(self, channel=None):
        """A `BufferBuilder` over a buffer of this pool, or None if there is none now.

        Parameters
        ----------
        channel : int, optional
            Whose quota it counts for.

        Raises
        ------
        CancelTaskError
            The pool is destroyed.
        """
        cdef fb_buffer* buffer = NULL
        cdef uint32_t index = self.channel_of(channel)
        cdef int code
        with nogil:
            code = fb_local_buffer_pool_request(self.c, index, &buffer)
        if code < 0:
            fail(code)
        return None if buffer is NULL else BufferBuilder.adopt(buffer)

    def request_blocking(self, timeout_ms=None, channel=None):
        """The same, waiting for one; other Python threads run meanwhile, signals are seen.

        Parameters
        ----------
        timeout_ms : int, optional
            Milliseconds to wait at most; no limit if left out.

        Raises
        ------
        TimeoutError
            No buffer came in that time.
        CancelTaskError
            The pool is destroyed, or was while this waited.
        """
        cdef fb_buffer* buffer = NULL
        cdef uint32_t index = self.channel_of(channel)
        cdef double deadline = math.inf if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        cdef int64_t slice_ms
        cdef int code = FB_ETIMEOUT
        while code == FB_ETIMEOUT:
            slice_ms = <int64_t>min(max(1000 * (deadline - time.monotonic()), 0), WAIT_SLICE_MS)
            with nogil:
                code = fb_local_buffer_pool_request_blocking(self.c, index, slice_ms, &buffer)
            if buffer is not NULL:
                return BufferBuilder.adopt(buffer)
            PyErr_CheckSignals()
            if time.monotonic() >= deadline:
                break
        if code == FB_ETIMEOUT:
            fail(code, f"no buffer within {timeout_ms} ms: {self!r}, {self.global_pool!r}")
        return fail(code)

    def reserve_segments(self, uint32_t count, timeout_ms=30000):
        """Hold at least `count` segments (up to `min`), waiting until they are there.

        Parameters
        ----------
        count : int
            Segments.
        timeout_ms : int
            Milliseconds; Flink's ``network.memory.buffers-request-timeout``.

        Raises
        ------
        TimeoutError
            They did not come in that time.
        ValueError
            `count` is above `min`.
        """
        cdef double deadline = time.monotonic() + timeout_ms / 1000
        cdef int64_t slice_ms
        cdef int code = FB_ETIMEOUT
        while code == FB_ETIMEOUT:
            slice_ms = <int64_t>min(max(1000 * (deadline - time.monotonic()), 0), WAIT_SLICE_MS)
            with nogil:
                code = fb_local_buffer_pool_reserve(self.c, count, slice_ms)
            PyErr_CheckSignals()
            if time.monotonic() >= deadline:
                break
        if code == FB_ETIMEOUT:
            fail(code, f"{count} segments did not come within {timeout_ms} ms: {self.global_pool!r}")
        elif code == FB_EARGUMENT:
            fail(code, f"{count} segments are more than the guaranteed {self.min}")
        elif code < 0:
            fail(code)

    def set_size(self, uint32_t size):
        """Change the current size until the next redistribution. ValueError below `min`."""
        cdef int code = fb_local_buffer_pool_set_size(self.c, size)
        if code < 0:
            fail(code, f"size {size} is below the guaranteed {self.min}")

    def usage(self):
        """All figures at one moment, as a dict: size, stock, requested, ... and counters since the start."""
        cdef fb_buffer_pool_usage usage
        fb_local_buffer_pool_get_usage(self.c, &usage)
        return usage

    def close(self):
        """Destroy the pool; idempotent. Idle segments go home now, those in use when they are released."""
        with nogil:
            fb_local_buffer_pool_destroy(self.c)

    @property
    def is_available(self):
        """Whether a request would be granted and no channel has reached its quota."""
        return bool(fb_local_buffer_pool_is_available(self.c))

    @property
    def is_destroyed(self):
        """Whether the pool was closed, by itself or with its network pool."""
        return bool(fb_local_buffer_pool_is_destroyed(self.c))

    @property
    def segment_size(self):
        """Bytes of one segment."""
        return fb_local_buffer_pool_segment_size(self.c)

    @property
    def size(self):
        """Segments it may hold now, overdraft apart."""
        return self.usage()["size"]

    @property
    def min(self):
        """Segments that are guaranteed."""
        return fb_local_buffer_pool_min(self.c)

    @property
    def max(self):
        """Segments at most; None: no limit."""
        cdef uint32_t limit = fb_local_buffer_pool_max(self.c)
        return None if limit == FB_UNBOUNDED else limit

    @property
    def stock_segment_count(self):
        """Idle segments held."""
        return self.usage()["stock"]

    @property
    def requested_segment_count(self):
        """Segments attributed to this pool, idle or in use."""
        return self.usage()["requested"]

    @property
    def used_segment_count(self):
        """Segments in use."""
        usage = self.usage()
        return usage["requested"] - usage["stock"]
