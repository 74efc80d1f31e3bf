"""Who may speak on a control connection, and that what is heard is what was said. No socket, no clock, no chance.

Both ends show that they know the secret of their group without saying it, and derive from it and from two nonces a key
for each direction. From then on each message is a frame: length, payload, and a MAC over a counter, the length and the
payload. So a frame that was changed, doubled, left out, swapped with another one, sent back to who said it, or that
comes from another connection ends the connection. Nothing is encrypted: that is what TLS is for (tls_layer.py).

::

    client                                         server
    magic, version                    -->
                                      <--          magic, version, the server's nonce
    group id, nonce, proof            -->
                                      <--          accepted or refused, proof
    frames                            <->          frames

No length is believed beyond a limit, which is small until the other end has proved that it knows the secret.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Callable
from typing import Final

from flinkbuf.errors import RemoteTransportError

VERSION: Final = 1  # of the greeting and of the frames; another version is refused
NONCE_SIZE: Final = 32
GREETING_LIMIT: Final = 4096  # bytes of a greeting, from whom nothing has been proved yet
MESSAGE_LIMIT: Final = 64 * 1024 * 1024  # bytes of a payload

_MAGIC = b"FBcp"
_PREFACE = struct.Struct(">4sH")
_LENGTH = struct.Struct(">I")
_COUNTED = struct.Struct(">QI")  # what the MAC covers besides the payload: number of the frame, length
_MAC_SIZE = 32
_TLS_ALERT, _TLS_HANDSHAKE = 0x15, 0x16  # first bytes of what an end that speaks TLS says

_ACCEPTED, _REFUSED = b"\x01", b"\x00"


def _digest(secret: bytes, *parts: bytes) -> bytes:
    """HMAC over parts, each behind its length: no two lists of parts look the same."""
    text = b"".join(_LENGTH.pack(len(part)) + part for part in parts)
    return hmac.digest(secret, text, "sha256")


class MessageTooLargeError(ValueError):
    """A payload is longer than a message of the control plane may be; sent again, it would be again."""

    can_restart = False

    def __init__(self, size: int) -> None:
        super().__init__(f"a control message of {size} bytes; at most {MESSAGE_LIMIT} can be sent")


class FrameWriter:
    """Makes the frames of one direction; the key is used for nothing else."""

    def __init__(self, key: bytes) -> None:
        self._mac = hmac.new(key, digestmod=hashlib.sha256)
        self._count = 0

    def frame(self, payload: bytes) -> bytes:
        """Return the bytes to send for a payload.

        Raises
        ------
        MessageTooLargeError
            If it is longer than `MESSAGE_LIMIT`.
        """
        if len(payload) > MESSAGE_LIMIT:
            raise MessageTooLargeError(len(payload))
        mac = self._mac.copy()
        mac.update(_COUNTED.pack(self._count, len(payload)))
        mac.update(payload)
        self._count += 1
        return b"".join((_LENGTH.pack(len(payload)), payload, mac.digest()))


class FrameReader:
    """Takes the frames of one direction apart, and only those that its writer made, in their order."""

    def __init__(self, key: bytes) -> None:
        self._mac = hmac.new(key, digestmod=hashlib.sha256)
        self._count = 0

    def take(self, data: bytearray) -> bytes | None:
        """Take one whole frame off the front of `data` and return its payload; None if it is not all there.

        Raises
        ------
        RemoteTransportError
            If it is too long, or not the frame that comes next.
        """
        if len(data) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(data)
        if length > MESSAGE_LIMIT:
            raise RemoteTransportError(f"a control message of {length} bytes, where at most {MESSAGE_LIMIT} may come")
        end = _LENGTH.size + length + _MAC_SIZE
        if len(data) < end:
            return None
        with memoryview(data) as view:
            payload, said = bytes(view[_LENGTH.size : end - _MAC_SIZE]), bytes(view[end - _MAC_SIZE : end])
        mac = self._mac.copy()
        mac.update(_COUNTED.pack(self._count, length))
        mac.update(payload)
        if not hmac.compare_digest(mac.digest(), said):
            raise RemoteTransportError(
                f"control message {self._count} was changed on its way, or is not the one that was sent"
            )
        self._count += 1
        del data[:end]
        return payload


class SecureLink:
    """One end of a connection: bytes in, payloads out. `ServerLink` and `ClientLink` differ in how they greet.

    Attributes
    ----------
    group_id : str
        Whom the client wants to speak to; empty at the server until it was said and proved.
    is_open : bool
        Both ends have proved themselves: payloads may be sent.
    """

    def __init__(self, group_id: str = "") -> None:
        self.group_id = group_id
        self._received = bytearray()
        self._output = bytearray(_PREFACE.pack(_MAGIC, VERSION))
        self._writer: FrameWriter | None = None
        self._reader: FrameReader | None = None
        self._failure: str | None = None

    @property
    def is_open(self) -> bool:
        return self._writer is not None

    def receive(self, data: bytes) -> list[bytes]:
        """Take in what came from the other end; return the payloads that are whole, in their order.

        Raises
        ------
        RemoteTransportError
            If anything is wrong with it. The connection has to be closed: each later call raises the same.
        """
        if self._failure is not None:
            raise RemoteTransportError(self._failure)
        self._received += data
        try:
            while self._reader is None and self._greet():
                pass
            payloads: list[bytes] = []
            if self._reader is not None:
                while (payload := self._reader.take(self._received)) is not None:
                    payloads.append(payload)
            return payloads
        except RemoteTransportError as error:
            self._failure = str(error)
            self._received.clear()
            raise

    def take_output(self) -> bytes:
        """Return what has to be sent to the other end now, for the greeting; once."""
        output = bytes(self._output)
        self._output.clear()
        return output

    def frame(self, payload: bytes) -> bytes:
        """Return the bytes that carry a payload; they have to be sent in the order in which they were made."""
        if self._writer is None:
            raise ValueError("nothing can be sent before both ends have proved that they know the secret")
        return self._writer.frame(payload)

    def _greet(self) -> bool:
        """Take one step of the greeting; False if more has to come first."""
        raise NotImplementedError

    def _take(self, size: int) -> bytes | None:
        if len(self._received) < size:
            return None
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def _take_preface(self, who: str) -> bool:
        """Check the first bytes of the other end, as soon as they differ from what they should be."""
        start = bytes(self._received[: len(_MAGIC)])
        if start != _MAGIC[: len(start)]:
            if start[0] in (_TLS_ALERT, _TLS_HANDSHAKE):
                raise RemoteTransportError(f"{who} speaks TLS: NetworkConfig(tls=...) must be set on both sides")
            raise RemoteTransportError(f"{who} is no end of a control connection of flinkbuf: it says {start!r}")
        preface = self._take(_PREFACE.size)
        if preface is None:
            return False
        _, version = _PREFACE.unpack(preface)
        if version != VERSION:
            raise RemoteTransportError(
                f"{who} speaks version {version} of the control protocol, this process {VERSION}: "
                "install the same flinkbuf on all machines"
            )
        return True

    def _open(self, keys: tuple[bytes, bytes]) -> None:
        self._writer, self._reader = FrameWriter(keys[0]), FrameReader(keys[1])


def _transcript(group_id: str, server_nonce: bytes, client_nonce: bytes) -> tuple[bytes, ...]:
    return (b"%d" % VERSION, group_id.encode("utf-8", "surrogatepass"), server_nonce, client_nonce)


def _keys(secret: bytes, transcript: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    """The key of what the client says, and that of what the server says."""
    return _digest(secret, b"client says", *transcript), _digest(secret, b"server says", *transcript)


class ServerLink(SecureLink):
    """The end that was connected to.

    Parameters
    ----------
    nonce : bytes
        32 bytes that were never used before and that nobody can guess.
    secret_of : callable
        Returns the secret of a group by its id.
    admit : callable
        Whether somebody who has proved to belong to a group may come in; asked once.
    """

    def __init__(self, nonce: bytes, secret_of: Callable[[str], bytes], admit: Callable[[str], bool]) -> None:
        super().__init__()
        self._nonce = nonce
        self._secret_of = secret_of
        self._admit = admit
        self._is_known = False  # the client has said a version that fits
        self._output += nonce

    def _greet(self) -> bool:
        if not self._is_known:
            self._is_known = bool(self._received) and self._take_preface("the client")
            return self._is_known
        if len(self._received) < 2:
            return False
        length = int.from_bytes(self._received[:2], "big")
        if length + NONCE_SIZE + _MAC_SIZE > GREETING_LIMIT - 2:
            raise RemoteTransportError(f"a group id of {length} bytes")
        said = self._take(2 + length + NONCE_SIZE + _MAC_SIZE)
        if said is None:
            return False
        self._check_proof(said[2 : 2 + length], said[2 + length : -_MAC_SIZE], said[-_MAC_SIZE:])
        return True

    def _check_proof(self, group: bytes, client_nonce: bytes, proof: bytes) -> None:
        try:
            group_id = group.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise RemoteTransportError(f"a group id that is no text: {group[:40]!r}") from None
        secret = self._secret_of(group_id)
        transcript = _transcript(group_id, self._nonce, client_nonce)
        if not hmac.compare_digest(_digest(secret, b"client knows", *transcript), proof):
            raise RemoteTransportError(f"the client does not know the secret of {group_id[:80]!r}")
        if self._received:
            raise RemoteTransportError("the client went on speaking before it was answered")
        answer = _ACCEPTED if self._admit(group_id) else _REFUSED
        self._output += answer + _digest(secret, b"server knows", answer, *transcript)
        if answer == _REFUSED:
            raise RemoteTransportError(f"no job takes clients of {group_id[:80]!r} any more")
        self.group_id = group_id
        client_says, server_says = _keys(secret, transcript)
        self._open((server_says, client_says))


class ClientLink(SecureLink):
    """The end that connects.

    Parameters
    ----------
    group_id : str
        Whom it wants to speak to.
    secret : bytes
        What only the members of that group know.
    nonce : bytes
        32 bytes that were never used before and that nobody can guess.
    """

    def __init__(self, group_id: str, secret: bytes, nonce: bytes) -> None:
        super().__init__(group_id)
        self._secret = secret
        self._nonce = nonce
        self._transcript: tuple[bytes, ...] | None = None  # from the server's nonce on
        self._is_known = False  # the server has said a version that fits

    def _greet(self) -> bool:
        if not self._is_known:
            self._is_known = bool(self._received) and self._take_preface("the driver's address")
            return self._is_known
        if self._transcript is None:
            server_nonce = self._take(NONCE_SIZE)
            if server_nonce is None:
                return False
            group = self.group_id.encode("utf-8", "surrogatepass")
            self._transcript = _transcript(self.group_id, server_nonce, self._nonce)
            proof = _digest(self._secret, b"client knows", *self._transcript)
            self._output += len(group).to_bytes(2, "big") + group + self._nonce + proof
            return True
        answer = self._take(1 + _MAC_SIZE)
        if answer is None:
            return False
        self._check_answer(answer[:1], answer[1:], self._transcript)
        return True

    def _check_answer(self, answer: bytes, proof: bytes, transcript: tuple[bytes, ...]) -> None:
        if not hmac.compare_digest(_digest(self._secret, b"server knows", answer, *transcript), proof):
            raise RemoteTransportError(f"what listens there does not know the secret of {self.group_id[:80]!r}")
        if answer != _ACCEPTED:
            raise RemoteTransportError(
                f"the job takes no clients of {self.group_id[:80]!r} any more: it ended or began anew"
            )
        self._open(_keys(self._secret, transcript))
