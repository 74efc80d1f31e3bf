"""Connections that a Python thread makes and carries for the I/O thread, which asks for them here."""

import os

from libc.errno cimport errno

from flinkbuf._core.ground.errors cimport FB_ECORRUPT, FB_EIO, fail
from flinkbuf._core.io.tcp cimport FB_ADDRESS_TEXT_SIZE, fb_tcp_address_text


cdef class Carrier:
    """What the carrier of a connection and the connection share: why it ends."""

    def __cinit__(self):
        self.c = fb_carrier_new()
        if self.c is NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.c is not NULL:
            fb_carrier_drop(self.c)

    def fail(self, str reason not None, bint is_refusal=True):
        """Say why, before the carrier's socket is closed; the first one stays. A refusal is one side's wish; anything
        else is a failure of the network."""
        cdef bytes encoded = reason.encode()
        fb_carrier_fail(self.c, FB_ECORRUPT if is_refusal else FB_EIO, encoded)


cdef class Dialer:
    """The calls of one process: the I/O thread puts them in, and who dials takes them.

    Raises
    ------
    OSError
        If no descriptors are left.
    """

    def __cinit__(self):
        cdef int code = fb_dialer_open(&self.c)
        cdef int error = errno
        if code == FB_EIO:
            raise OSError(error, f"the bell of a dialer: {os.strerror(error)}")
        if code < 0:
            fail(code, "the bell of a dialer")

    def __dealloc__(self):
        fb_dialer_close(self.c)

    def fileno(self):
        """The descriptor that is readable after a call came; what is read there means nothing."""
        return fb_dialer_fd(self.c)

    def take(self):
        """Return the next call, or None.

        Returns
        -------
        (int, str, int, int, Carrier)
            The carrier's end of a pair of sockets, which is the caller's; host and port to be dialed, as numbers;
            milliseconds for it to stand, then one byte is written to the socket; what knows the reason if it fails.
        """
        cdef fb_call call
        cdef char text[FB_ADDRESS_TEXT_SIZE]
        cdef Carrier carrier
        if not fb_dialer_take(self.c, &call):
            return None
        carrier = Carrier.__new__(Carrier)
        fb_carrier_drop(carrier.c)
        carrier.c = call.carried.carrier
        fb_tcp_address_text(&call.peer, text)
        host, _, port = (<bytes> text).decode("ascii").rpartition(":")
        return call.carried.fd, host.strip("[]"), int(port), call.timeout_ms, carrier
