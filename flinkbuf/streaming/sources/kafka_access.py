"""How brokers of Kafka are reached, and connections to them for the few requests that the client library has not.

The protocol is https://kafka.apache.org/protocol: a request is a length, a header and values one behind the other, and
so is its answer. What brokers send is read with bounds, and nothing is waited for longer than it is said.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import os
import secrets
import socket
import ssl
import struct
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass

from flinkbuf.streaming.sources.kafka_client import kafka_error

_LARGEST_ANSWER = 1 << 20  # bytes, unless more is said; most requests here are answered in a few hundred
_CONNECT_TIMEOUT_S = 5.0
_TLS_ALERT, _TLS_HANDSHAKE = 0x15, 0x16  # the first byte of what a broker that speaks TLS answers
_MOST_ITERATIONS = 1_000_000  # of a hash of SCRAM; Kafka's own servers say 4,096 to 16,384
_FEWEST_ITERATIONS = 4_096
_CHECK_S = 10.0
_CLOSED_S = 2.0  # a broker that closes each connection for so long does not just end
_PAUSE_S = 0.1
_DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_UNDERSTOOD = frozenset(  # of what begins with ssl. and sasl.; with more the client library has to do
    (
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
    )
)

METADATA = 3
SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36


@dataclass(frozen=True)
class KafkaAccess:
    """What properties of a client say about how to reach the brokers."""

    servers: tuple[tuple[str, int], ...]
    protocol: str = "plaintext"
    tls: ssl.SSLContext | None = None
    mechanism: str = ""  # of SASL; none: who connects is not asked who he is
    user: str = ""
    password: str = ""
    client_id: str = "rdkafka"

    @staticmethod
    def of(properties: Mapping[str, object]) -> KafkaAccess | None:
        """Return what properties say; None: something that only the client library understands.

        Raises
        ------
        KafkaException
            A file of certificates cannot be read, or does not hold what it should.
        """
        given = {key: str(value) for key, value in properties.items()}
        protocol = given.get("security.protocol", "plaintext").lower()
        mechanism = given.get("sasl.mechanisms", given.get("sasl.mechanism", "GSSAPI"))
        if not protocol.startswith("sasl_"):
            mechanism = ""
        elif mechanism != "PLAIN" and mechanism not in _DIGESTS:
            return None
        secret = [key for key in given if key.startswith(("ssl.", "sasl.", "plugin."))]
        servers = _servers_of(given.get("bootstrap.servers") or given.get("metadata.broker.list") or "")
        if not _UNDERSTOOD.issuperset(secret) or servers is None or protocol not in _PROTOCOLS:
            return None
        return KafkaAccess(
            servers,
            protocol,
            _tls_of(given) if protocol.endswith("ssl") else None,
            mechanism,
            given.get("sasl.username", ""),
            given.get("sasl.password", ""),
            given.get("client.id", "rdkafka"),
        )


def _servers_of(text: str) -> tuple[tuple[str, int], ...] | None:
    """Return host and port of each broker; None: some of the text is something else."""
    servers = []
    for each in text.split(","):
        host, colon, port = each.strip().rpartition("://")[2].rpartition(":")
        if not colon or port.endswith("]"):
            host, port = f"{host}{colon}{port}", "9092"
        if not host or not port.isdecimal():
            return None
        servers.append((host.strip("[]"), int(port)))
    return tuple(servers)


def _tls_of(given: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = given.get("ssl.endpoint.identification.algorithm", "https").lower() != "none"
    if given.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    authority = given.get("ssl.ca.location", "probe")
    certificate = given.get("ssl.certificate.location")
    try:
        if authority == "probe":
            context.load_default_certs()
        elif os.path.isdir(authority):
            context.load_verify_locations(capath=authority)
        else:
            context.load_verify_locations(authority)
        if certificate is not None:
            password = given.get("ssl.key.password", "")
            context.load_cert_chain(certificate, given.get("ssl.key.location"), lambda: password)
    except OSError as error:  # an SSLError is one, too
        files = [f"{key}={given[key]}" for key in sorted(given) if key.startswith("ssl.") and key.endswith("location")]
        raise kafka_error("_SSL", f"certificates cannot be used ({', '.join(files)}): {error}") from error
    return context


class BrokerAnswer:
    """What a broker has answered, read from its beginning; a value that is not whole is refused.

    Examples
    --------
    >>> answer = BrokerAnswer(bytes([0, 7, 0, 2, 111, 107]))
    >>> answer.int16(), answer.text()
    (7, 'ok')
    >>> answer.int32()
    Traceback (most recent call last):
      ...
    ValueError: the answer of a broker of Kafka ends at byte 6, within a value of 4 bytes
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def take(self, size: int) -> bytes:
        """Return so many bytes."""
        begin, end = self._place, self._place + size
        if size < 0 or end > len(self._data):
            raise ValueError(
                f"the answer of a broker of Kafka ends at byte {len(self._data)}, within a value of {size} bytes"
            )
        self._place = end
        return self._data[begin:end]

    def int8(self) -> int:
        """Return a number of one byte."""
        return int.from_bytes(self.take(1), "big", signed=True)

    def int16(self) -> int:
        """Return a number of two bytes."""
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        """Return a number of four bytes."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        """Return a number of eight bytes."""
        return int.from_bytes(self.take(8), "big", signed=True)

    def text(self) -> str:
        """Return a text; "" for one that is not there."""
        size = self.int16()
        return "" if size < 0 else self._decoded(size)

    def data(self) -> bytes:
        """Return bytes; none for those that are not there."""
        size = self.int32()
        return b"" if size < 0 else self.take(size)

    def count(self) -> int:
        """Return how many values follow; each has a byte or more."""
        return self._checked(self.int32())

    def compact_text(self) -> str:
        """Return a text of the newer form, whose length is a varint, and one more than it is."""
        size = self._varint()
        return "" if size == 0 else self._decoded(size - 1)

    def compact_count(self) -> int:
        """Return how many values follow, in the newer form."""
        return self._checked(self._varint() - 1)

    def skip_tags(self) -> None:
        """Pass over what a newer broker has added."""
        for _ in range(self._checked(self._varint())):
            self._varint()
            self.take(self._varint())

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ValueError("the answer of a broker of Kafka has a number of more than 5 bytes")

    def _decoded(self, size: int) -> str:
        return self.take(size).decode("utf-8", "replace")

    def _checked(self, count: int) -> int:
        if count > len(self._data) - self._place:
            raise ValueError(f"the answer of a broker of Kafka claims {count} values in {len(self._data)} bytes")
        return max(count, 0)


def int16(value: int) -> bytes:
    """Return a number of two bytes for a request."""
    return struct.pack(">h", value)


def int32(value: int) -> bytes:
    """Return a number of four bytes for a request."""
    return struct.pack(">i", value)


def int64(value: int) -> bytes:
    """Return a number of eight bytes for a request."""
    return struct.pack(">q", value)


def text(value: str) -> bytes:
    """Return a text for a request.

    Examples
    --------
    >>> text("ok")
    b'\\x00\\x02ok'
    """
    encoded = value.encode()
    return int16(len(encoded)) + encoded


def compact_text(value: str) -> bytes:
    """Return a text of the newer form for a request."""
    encoded = value.encode()
    return compact_count(len(encoded)) + encoded


def compact_count(count: int) -> bytes:
    """Return how many values follow, in the newer form, for a request.

    Examples
    --------
    >>> compact_count(2), compact_count(300)
    (b'\\x03', b'\\xad\\x02')
    """
    left, prefix = count + 1, bytearray()
    while left >= 0x80:
        prefix.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*prefix, left])


class BrokerClosedError(ConnectionError):
    """A broker was there, and has closed the connection."""


class KafkaConnection:
    """A connection to one broker, who has let it in.

    Parameters
    ----------
    address : (str, int)
        Host and port.
    access : KafkaAccess
        How to be let in.
    deadline : float
        By ``time.monotonic()``; nothing is waited for longer.

    Raises
    ------
    OSError
        The broker is not there, or does not answer.
    KafkaException
        It does not let in, and will not: the password, a certificate or the protocol is wrong.
    """

    def __init__(self, address: tuple[str, int], access: KafkaAccess, deadline: float) -> None:
        self.address = address
        self._access = access
        self._number = 0  # of the last request
        self._socket = socket.create_connection(
            address, max(0.001, min(_CONNECT_TIMEOUT_S, deadline - time.monotonic()))
        )
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if access.tls is not None:
                self._encrypt(access.tls)
            if access.mechanism:
                self._log_in(deadline)
        except BaseException:
            self.close()
            raise

    def __str__(self) -> str:
        return f"the broker of Kafka at {self.address[0]}:{self.address[1]}"

    def _encrypt(self, context: ssl.SSLContext) -> None:
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=self.address[0])
        except ssl.SSLCertVerificationError as error:
            reason = f"{self} has a certificate that is not trusted ({error.verify_message}): see ssl.ca.location"
            raise kafka_error("_SSL", reason) from error
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError) as error:
            raise BrokerClosedError(f"{self} has closed the connection while TLS was begun") from error
        except ssl.SSLError as error:
            hint = f"does it speak TLS, as security.protocol={self._access.protocol} says?"
            raise kafka_error("_SSL", f"{self} cannot be spoken to by TLS ({error}): {hint}") from error

    @property
    def is_closed(self) -> bool:
        """Return whether nothing can be asked any more."""
        return self._socket.fileno() < 0

    def ask(
        self,
        api: int,
        version: int,
        body: bytes,
        deadline: float,
        is_compact: bool = False,
        most: int = _LARGEST_ANSWER,
    ) -> BrokerAnswer:
        """Send a request and return the answer to it, of `most` bytes, behind its header.

        A connection whose answer was not read whole is closed: what is left of it would answer the next request.
        """
        try:
            return self._ask(api, version, body, deadline, is_compact, most)
        except BaseException:
            self.close()
            raise

    def _ask(self, api: int, version: int, body: bytes, deadline: float, is_compact: bool, most: int) -> BrokerAnswer:
        self._number += 1
        client_id = text(self._access.client_id)
        header = int16(api) + int16(version) + int32(self._number) + client_id + (b"\0" if is_compact else b"")
        request = header + body
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            self._socket.sendall(int32(len(request)) + request)
        except ConnectionError as error:
            raise BrokerClosedError(f"{self} has closed the connection") from error
        size_bytes = self._receive(4, deadline)
        size = int.from_bytes(size_bytes, "big")
        if not 4 <= size <= most:
            if size_bytes[0] in (_TLS_ALERT, _TLS_HANDSHAKE):
                hint = f"it speaks TLS, and security.protocol is {self._access.protocol}"
                raise kafka_error("_SSL", f"{self} did not answer as one of Kafka does: {hint}")
            reason = f"{self} announced an answer of {size} bytes, where {most} are the most: is it one of Kafka?"
            raise kafka_error("_BAD_MSG", reason)
        answer = BrokerAnswer(self._receive(size, deadline))
        number = answer.int32()
        if number != self._number:
            raise ConnectionError(f"{self} answered request {number} instead of {self._number}")
        if is_compact:
            answer.skip_tags()
        return answer

    def _receive(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                part = self._socket.recv(size - len(data))
            except (ConnectionError, ssl.SSLEOFError) as error:
                raise BrokerClosedError(f"{self} has closed the connection") from error
            except ssl.SSLError as error:  # of TLS 1.3: only now a server says what it thinks of our certificate
                reason = f"{self} does not accept this client ({error}): see ssl.certificate.location"
                raise kafka_error("_SSL", reason) from error
            if not part:
                raise BrokerClosedError(f"{self} has closed the connection")
            data += part
        return bytes(data)

    def _log_in(self, deadline: float) -> None:
        access = self._access
        answer = self.ask(SASL_HANDSHAKE, 1, text(access.mechanism), deadline)
        if answer.int16():
            offered = ", ".join(answer.text() for _ in range(answer.count()))
            reason = f"{self} offers {offered or 'nothing'} and not sasl.mechanisms={access.mechanism}"
            raise kafka_error("_AUTHENTICATION", reason)
        if access.mechanism == "PLAIN":
            self._authenticate(f"\0{access.user}\0{access.password}".encode(), deadline)
            return
        messages = scram_messages(_DIGESTS[access.mechanism], access.user, access.password, secrets.token_urlsafe(24))
        message = next(messages)
        with contextlib.suppress(StopIteration):
            while True:
                said = self._authenticate(message, deadline)
                try:
                    message = messages.send(said)
                except ValueError as error:
                    raise kafka_error("_AUTHENTICATION", f"{self} cannot be trusted: {error}") from error

    def _authenticate(self, message: bytes, deadline: float) -> bytes:
        answer = self.ask(SASL_AUTHENTICATE, 0, int32(len(message)) + message, deadline)
        code, reason = answer.int16(), answer.text()
        if code:
            raise kafka_error(
                "_AUTHENTICATION",
                f"{self} does not let in user {self._access.user!r} by {self._access.mechanism}: {reason or code}",
            )
        return answer.data()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def check_access(properties: Mapping[str, object]) -> None:
    """Have the brokers say what is wrong with how they are to be reached: the client library tries until time is over.

    Nothing is said of brokers that are not there: they may come. What only the library understands is left to it.

    Raises
    ------
    KafkaException
        A password, certificate or protocol that brokers do not accept.
    """
    access = KafkaAccess.of(properties)
    if access is None:
        return
    began = time.monotonic()
    while True:
        closed = None
        for address in access.servers:
            try:
                _let_in(address, access, began + _CHECK_S)
                return
            except BrokerClosedError as error:
                closed = error
            except (OSError, ValueError):
                continue
        if closed is None:
            return
        if time.monotonic() - began > _CLOSED_S:
            name = _PROTOCOLS[access.protocol]
            raise kafka_error(
                "_TRANSPORT", f"{closed}, again and again: does it speak {name}, as security.protocol says?"
            )
        time.sleep(_PAUSE_S)


def _let_in(address: tuple[str, int], access: KafkaAccess, deadline: float) -> None:
    connection = KafkaConnection(address, access, deadline)
    with contextlib.closing(connection):
        # Which requests are known anybody is told. Who asks for topics, here for none of them, has to be let in.
        connection.ask(METADATA, 4, int32(0) + b"\0", deadline)


_PROTOCOLS = {
    "plaintext": "plain text without a login",
    "ssl": "TLS without a login",
    "sasl_plaintext": "plain text with a login",
    "sasl_ssl": "TLS with a login",
}


def scram_messages(digest: str, user: str, password: str, nonce: str) -> Generator[bytes, bytes, None]:
    """Give a client's messages of SCRAM (RFC 5802), and take the server's answer to each.

    Raises
    ------
    ValueError
        The server says what it may not, or does not know the password itself.

    Examples
    --------
    >>> next(scram_messages("sha256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO"))
    b'n,,n=user,r=rOprNGfwEbeRWgbNEkqO'
    """
    name = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}".encode()
    answer = yield b"n,," + first
    said = _fields_of(answer)
    both, salt, iterations = said.get("r", ""), _unbased(said.get("s", "")), said.get("i", "")
    if not both.startswith(nonce) or both == nonce:
        raise ValueError("it did not add to the number of this login")
    if not iterations.isdecimal() or not _FEWEST_ITERATIONS <= int(iterations) <= _MOST_ITERATIONS:
        raise ValueError(f"it wants passwords hashed {iterations!r} times")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, int(iterations))
    client_key = hmac.digest(salted, b"Client Key", digest)
    final = f"c=biws,r={both}".encode()
    whole = b",".join((first, answer, final))
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), whole, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    answer = yield final + b",p=" + base64.b64encode(proof)
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), whole, digest)
    if not hmac.compare_digest(_unbased(_fields_of(answer).get("v", "")), expected):
        raise ValueError("it does not know the password itself")


def _fields_of(answer: bytes) -> dict[str, str]:
    parts = (part.partition("=") for part in answer.decode("utf-8", "replace").split(","))
    return {key: value for key, _, value in parts}


def _unbased(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(f"it sent {value[:50]!r}, which is not of base 64") from error
