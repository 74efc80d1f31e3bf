"""The client that asks other processes for subpartitions; input gates give it their remote channels."""

import os
from weakref import WeakValueDictionary

cimport cython

from flinkbuf._core.ground.errors cimport check


@cython.no_gc_clear
cdef class PartitionClient:
    """Makes, shares and ends the connections to other processes.

    Parameters
    ----------
    reactor : Reactor
        The I/O thread that does the work. Closing it closes the client first.
    segment_size : int
        Bytes of the largest data buffer that may come.
    connect_timeout_ms, connect_retries : int
        ``taskmanager.network.netty.client.connectTimeoutSec``, ``taskmanager.network.retries``.
    backoff_initial_ms, backoff_max_ms : int
        For partitions that are not found: ``taskmanager.network.request-backoff``. An initial 0 asks once.
    request_timeout_ms : int
        How long the servers wait for a partition; ``taskmanager.network.partition-request-timeout``.
    keeps_connections : bool
        Whether one without channels stays; ``taskmanager.network.tcp-connection.enable-reuse-across-jobs``.

    secret : bytes, optional
        What servers have to know, at least 16 random bytes; both sides prove it before anything else is said. None:
        plain Flink.
    proof_timeout_ms : int, default 10000
        How long a server may take to prove itself.
    dialer : Dialer, optional
        Where connections are asked for instead of being made over plain TCP.

    References
    ----------
    Flink ``NettyPartitionRequestClient``, ``CreditBasedPartitionRequestClientHandler``.
    """

    def __cinit__(self, Reactor reactor not None, uint32_t segment_size, *, int64_t connect_timeout_ms=120000,
                  uint32_t connect_retries=0, uint32_t backoff_initial_ms=100, uint32_t backoff_max_ms=10000,
                  uint32_t request_timeout_ms=10000, bint keeps_connections=True, bytes secret=None,
                  int64_t proof_timeout_ms=10000, Dialer dialer=None):
        cdef fb_partition_client_options options
        reactor.check_open()
        if proof_timeout_ms <= 0:
            raise ValueError(f"proof_timeout_ms must be at least 1, got {proof_timeout_ms}")
        if secret is not None and len(secret) < <Py_ssize_t> FB_PREFACE_MIN_SECRET:
            raise ValueError(f"a secret has at least {FB_PREFACE_MIN_SECRET} bytes, got {len(secret)}")
        self.dialer = dialer
        self.reactor, self.gates = reactor, WeakValueDictionary()
        options.connect_timeout_ms, options.connect_retries = connect_timeout_ms, connect_retries
        options.backoff_initial_ms, options.backoff_max_ms = backoff_initial_ms, backoff_max_ms
        options.request_timeout_ms, options.max_data = request_timeout_ms, segment_size
        options.keeps_connections, options.proof_timeout_ms = keeps_connections, proof_timeout_ms
        options.secret, options.secret_size = NULL, 0
        options.dialer = NULL if dialer is None else dialer.c
        if secret is not None:
            options.secret, options.secret_size = <const uint8_t*> <const char*> secret, <size_t> len(secret)
        check(fb_partition_client_open(reactor.c, &options, &self.c))
        reactor.users.add(self)

    def __dealloc__(self):
        if self.c is not NULL and self.reactor.process_id == os.getpid():
            with nogil:
                fb_partition_client_close(self.c)

    cdef int check_open(self) except -1:
        if self.c is NULL:
            raise RuntimeError("the partition client is closed")
        return self.reactor.check_open()

    def close(self):
        """Close the gates that use it, then the connections. Idempotent."""
        cdef fb_partition_client* closing = self.c
        self.c = NULL  # from here on no gate is added
        for reference in self.gates.valuerefs():
            gate = reference()
            if gate is not None:
                gate.close()
        if closing is not NULL and self.reactor.process_id == os.getpid():
            with nogil:
                fb_partition_client_close(closing)

    def counters(self):
        """Return a dict: open connections, and the channels that use them."""
        cdef fb_partition_client_counters counters
        self.check_open()
        fb_partition_client_get_counters(self.c, &counters)
        return counters
