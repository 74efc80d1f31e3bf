"""The server that sends registered partitions to whoever asks for them over TCP."""

import os

from libc.errno cimport errno

cimport cython

from flinkbuf._core.errors cimport FB_EIO, fail


@cython.no_gc_clear
cdef class PartitionServer:
    """Serves the partitions of `manager` at `host` and `port`.

    Parameters
    ----------
    reactor : Reactor
        The I/O thread that does the work. Closing it closes the server first.
    manager : PartitionManager
    host : str
        Name or number of the address to listen at.
    port : int, default 0
        0 takes a free one; `port` tells which.
    request_timeout_ms : int, default 10000
        How long a request waits for its partition; ``taskmanager.network.partition-request-timeout``.

    Raises
    ------
    OSError
        If the address cannot be listened at.

    References
    ----------
    Flink ``NettyServer``, ``PartitionRequestQueue``.
    """

    def __cinit__(self, Reactor reactor not None, PartitionManager manager not None, str host not None,
                  uint16_t port=0, *, int64_t request_timeout_ms=10000):
        cdef fb_address address
        cdef fb_partition_server_options options
        cdef bytes encoded = host.encode()
        cdef const char* name = encoded
        cdef int code
        cdef int error = 0
        reactor.check_open()
        manager.check_open()
        if request_timeout_ms <= 0:
            raise ValueError(f"request_timeout_ms must be at least 1, got {request_timeout_ms}")
        self.reactor, self.manager, self.host = reactor, manager, host
        options.request_timeout_ms, options.max_channels = request_timeout_ms, 0
        options.low_mark = options.high_mark = 0
        with nogil:
            code = fb_address_resolve(&address, name, port)
            if code == 0:
                code = fb_partition_server_open(reactor.c, manager.c, &address, &options, &self.c)
            error = errno
        if code == FB_EIO:
            raise OSError(error, f"listening at {host}:{port}: {os.strerror(error)}")
        if code < 0:
            fail(code, f"listening at {host}:{port}")
        self.port = fb_address_port(&address)
        reactor.users.add(self)

    def __dealloc__(self):
        if self.c is not NULL and self.reactor.process_id == os.getpid():
            with nogil:
                fb_partition_server_close(self.c)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        """Close the connections and let go of every partition. Idempotent."""
        cdef fb_partition_server* closing = self.c
        self.c = NULL
        if closing is not NULL and self.reactor.process_id == os.getpid():
            with nogil:
                fb_partition_server_close(closing)

    def counters(self):
        """Return a dict: open connections, channels that are served or wait for their partition, and the buffers
        sent since the start, events included."""
        cdef fb_partition_server_counters counters
        if self.c is NULL:
            raise RuntimeError("the partition server is closed")
        fb_partition_server_get_counters(self.c, &counters)
        return counters
