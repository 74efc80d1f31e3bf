"""What TLS is given and what it says: contexts from a `TlsConfig`, and its errors as sentences."""

from __future__ import annotations

import os
import ssl

from flinkbuf.config import TlsConfig

NOT_TLS = "the peer does not speak TLS: NetworkConfig(tls=...) must be set on both sides"
_OUR_CERTIFICATE = "the peer refuses this side's certificate"
_REASONS = {
    "WRONG_VERSION_NUMBER": NOT_TLS,
    "HTTP_REQUEST": NOT_TLS,
    "HTTPS_PROXY_REQUEST": NOT_TLS,
    "UNKNOWN_PROTOCOL": NOT_TLS,
    "PACKET_LENGTH_TOO_LONG": NOT_TLS,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the peer shows no certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": f"{_OUR_CERTIFICATE}: it has seen none",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": f"{_OUR_CERTIFICATE}: it has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": f"{_OUR_CERTIFICATE}: it has been revoked",
    "SSLV3_ALERT_BAD_CERTIFICATE": _OUR_CERTIFICATE,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _OUR_CERTIFICATE,
    "TLSV1_ALERT_UNKNOWN_CA": f"{_OUR_CERTIFICATE}: it does not know the authority that signed it",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the peer speaks no version of TLS from 1.2 up",
    "UNSUPPORTED_PROTOCOL": "the peer speaks no version of TLS from 1.2 up",
    "NO_SHARED_CIPHER": "the two sides have no cipher in common",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the peer broke the handshake off: no cipher in common, or no certificate shown",
}


def reason_of(error: ssl.SSLError) -> str:
    """Say in a sentence why TLS failed.

    Examples
    --------
    >>> error = ssl.SSLError()
    >>> error.reason = "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    >>> reason_of(error)
    'TLS: the peer shows no certificate'
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: the peer's certificate is refused: {error.verify_message}"
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):  # which of them depends on when its end is read
        return "TLS: the peer closed the connection in the middle"
    reason = getattr(error, "reason", None)
    if reason in _REASONS:
        return f"TLS: {_REASONS[reason]}"
    return f"TLS: {reason.replace('_', ' ').lower() if reason else error}"


def make_context(tls: TlsConfig, is_server: bool) -> ssl.SSLContext:
    """Read the files of one side. TLS 1.2 or later; both sides show a certificate; names are not compared.

    Raises
    ------
    OSError
        If a file cannot be read; the message names it.
    ValueError
        If it does not hold what it should.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    if is_server:
        context.num_tickets = 0  # each connection shows its certificate again
    for name, path in (("certificate", tls.certificate), ("key", tls.key), ("authority", tls.authority)):
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise type(error)(error.errno, f"tls.{name}: {error.strerror}", os.fspath(path)) from None
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
    except ssl.SSLError as error:
        raise ValueError(
            f"tls.certificate {os.fspath(tls.certificate)} and tls.key {os.fspath(tls.key)} must be a certificate and "
            f"its key, not encrypted, as PEM: {getattr(error, 'reason', None) or error}"
        ) from None
    try:
        context.load_verify_locations(tls.authority)
    except ssl.SSLError as error:
        raise ValueError(
            f"tls.authority {os.fspath(tls.authority)} must hold certificates as PEM: "
            f"{getattr(error, 'reason', None) or error}"
        ) from None
    return context


def _no_password() -> str:
    return ""  # OpenSSL would ask the terminal
