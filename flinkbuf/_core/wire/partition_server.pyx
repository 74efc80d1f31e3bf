"""The server that sends registered partitions to whoever asks for them over TCP."""

import os

from libc.errno cimport EADDRNOTAVAIL, errno
from libc.string cimport memset

cimport cython

from flinkbuf._core.io.dialer cimport Carrier, fb_carried, fb_carrier_retain
from flinkbuf._core.ground.errors cimport FB_EIO, fail
from flinkbuf._core.io.tcp cimport fb_tcp_address, fb_tcp_address_port, fb_tcp_address_resolve


@cython.no_gc_clear
cdef class PartitionServer:
    """Serves the partitions of `manager` at `host` and `port`.

    Parameters
    ----------
    reactor : Reactor
        The I/O thread that does the work. Closing it closes the server first.
    manager : PartitionManager
    host : str or None
        Name or number of the address to listen at. None listens nowhere: connections come by `adopt`.
    port : int, default 0
        0 takes a free one; `port` tells which.
    request_timeout_ms : int, default 10000
        How long a request waits for its partition; ``taskmanager.network.partition-request-timeout``.
    secret : bytes, optional
        What clients have to know, at least 16 random bytes; both sides prove it before anything else is read. None:
        plain Flink.
    proof_timeout_ms : int, default 10000
        How long a client may take to prove itself; without a secret, to ask for something.
    max_unproven : int, default 0
        How many connections may wait for that; one more, and the one that has waited longest is refused. 0: 1024, or
        a quarter of the descriptors that the process may open if that is less.
    max_connections : int, default 0
        Without a secret: how many there may be; one more, and the first of those that read nothing goes. 0: likewise.
    max_waiting : int, default 0
        Without a secret: how many requests of a connection may wait for their partitions. 0: 4096.

    Raises
    ------
    OSError
        If the address cannot be listened at.

    References
    ----------
    Flink ``NettyServer``, ``PartitionRequestQueue``.
    """

    def __cinit__(self, Reactor reactor not None, PartitionManager manager not None, str host,
                  uint16_t port=0, *, int64_t request_timeout_ms=10000, bytes secret=None,
                  int64_t proof_timeout_ms=10000, uint32_t max_unproven=0, uint32_t max_connections=0,
                  uint32_t max_waiting=0):
        cdef fb_tcp_address address
        cdef fb_partition_server_options options
        cdef bytes encoded = (host or "").encode()
        cdef bint listens = host is not None
        cdef const char* name = encoded
        cdef int code = 0
        cdef int error = 0
        cdef bint is_found
        reactor.check_open()
        manager.check_open()
        if request_timeout_ms <= 0:
            raise ValueError(f"request_timeout_ms must be at least 1, got {request_timeout_ms}")
        if proof_timeout_ms <= 0:
            raise ValueError(f"proof_timeout_ms must be at least 1, got {proof_timeout_ms}")
        if secret is not None and len(secret) < <Py_ssize_t> FB_PREFACE_MIN_SECRET:
            raise ValueError(f"a secret has at least {FB_PREFACE_MIN_SECRET} bytes, got {len(secret)}")
        self.reactor, self.manager, self.host = reactor, manager, host
        memset(&options, 0, sizeof(options))
        options.request_timeout_ms, options.proof_timeout_ms = request_timeout_ms, proof_timeout_ms
        options.max_unproven = max_unproven
        options.max_connections, options.max_waiting = max_connections, max_waiting
        if secret is not None:
            options.secret, options.secret_size = <const uint8_t*> <const char*> secret, <size_t> len(secret)
        with nogil:
            is_found = not listens or fb_tcp_address_resolve(&address, name, port) == 0
            if is_found:
                code = fb_partition_server_open(reactor.c, manager.c, &address if listens else NULL, &options, &self.c)
            error = errno
        if not is_found:
            raise OSError(EADDRNOTAVAIL, f"listening at {host}:{port}: no such address can be found")
        if code == FB_EIO:
            raise OSError(error, f"listening at {host}:{port}: {os.strerror(error)}")
        if code < 0:
            fail(code, f"listening at {host}:{port}")
        self.port = fb_tcp_address_port(&address) if listens else 0
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

    def adopt(self, int fd, str host not None, uint16_t port, Carrier carrier not None):
        """Serve a peer whose bytes `carrier` carries.

        Parameters
        ----------
        fd : int
            A connected socket, one of a pair; the server's from now on, also on failure.
        host, port : str, int
            The peer, as numbers.

        Raises
        ------
        OSError
            If the system has no room for one more.
        RuntimeError
            If the server is closed.
        """
        cdef fb_tcp_address peer
        cdef fb_carried carried
        cdef bytes encoded = host.encode()
        cdef const char* name = encoded
        cdef int code = -1 if self.c is NULL else fb_tcp_address_resolve(&peer, name, port)
        cdef int error = 0
        if code < 0:
            os.close(fd)
            if self.c is NULL:
                raise RuntimeError("the partition server is closed")
            raise ValueError(f"expected an address in numbers, got {host}:{port}")
        fb_carrier_retain(carrier.c)
        carried.fd, carried.carrier = fd, carrier.c
        # With the GIL, though it waits for the I/O thread's turn: so close() cannot come in between.
        code = fb_partition_server_adopt(self.c, &peer, &carried)
        error = errno
        if code == FB_EIO:
            raise OSError(error, f"serving {host}:{port}: {os.strerror(error)}")
        if code < 0:
            fail(code, f"serving {host}:{port}")

    def note_refusal(self, str reason not None):
        """Count a connection that was refused before it came here."""
        cdef bytes encoded = reason.encode()
        if self.c is not NULL:
            fb_partition_server_note_refusal(self.c, encoded)

    def counters(self):
        """Return a dict: connections that are served, unproven ones that are not or not yet, channels that are served
        or wait for their partition, and since the start the buffers sent, events included, and the connections
        refused."""
        cdef fb_partition_server_counters counters
        if self.c is NULL:
            raise RuntimeError("the partition server is closed")
        fb_partition_server_get_counters(self.c, &counters)
        return counters

    @property
    def last_refusal(self):
        """Why the last connection was refused, with the address of its peer; None if none was."""
        cdef char reason[FB_ADMISSION_REASON_SIZE]
        if self.c is NULL:
            raise RuntimeError("the partition server is closed")
        fb_partition_server_last_refusal(self.c, reason)
        return (<bytes> reason).decode("utf-8", "replace") or None
