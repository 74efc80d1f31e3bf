"""TLS around the bytes of a control connection, in memory: whoever owns the socket carries what comes out.

One object for both ends. Threads: one at a time; who calls from several holds a lock.
"""

from __future__ import annotations

import ssl

from flinkbuf.errors import RemoteTransportError
from flinkbuf.network.tls_context import reason_of

_CHUNK = 64 * 1024
_ALERT = b"\x15\x03\x03\x00\x02\x02\x46"  # fatal: protocol version


class TlsLayer:
    """One end of a connection: what came is decrypted, what is to be sent is encrypted.

    Parameters
    ----------
    context : ssl.SSLContext
    is_server : bool

    Attributes
    ----------
    is_ready : bool
        The handshake is done: both ends have shown a certificate.
    """

    def __init__(self, context: ssl.SSLContext, is_server: bool) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server)
        self._waiting = bytearray()  # to be sent when the handshake is done
        self.is_ready = False
        self._shake_hands()

    def receive(self, data: bytes) -> bytes:
        """Take in what came; return what it says. `take_output` may have something afterwards, also after an error.

        Raises
        ------
        RemoteTransportError
            If that is no TLS, or a certificate is refused.
        """
        self._incoming.write(data)
        try:
            if not self.is_ready:
                self._shake_hands()
            return self._read() if self.is_ready else b""
        except ssl.SSLError as error:
            if not self._outgoing.pending:  # OpenSSL says nothing to who speaks no TLS
                self._outgoing.write(_ALERT)
            raise RemoteTransportError(reason_of(error)) from None

    def send(self, data: bytes) -> None:
        """Encrypt; `take_output` gives it, once the handshake is done."""
        if not self.is_ready:
            self._waiting += data
        elif data:
            self._tls.write(data)

    def take_output(self) -> bytes:
        """Return what has to be sent to the other end now; once."""
        return self._outgoing.read()

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        self.is_ready = True
        if self._waiting:
            self._tls.write(self._waiting)
            self._waiting.clear()

    def _read(self) -> bytes:
        parts = []
        try:
            while part := self._tls.read(_CHUNK):
                parts.append(part)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):  # the other end closes its side: so does the socket
            pass
        return b"".join(parts)
