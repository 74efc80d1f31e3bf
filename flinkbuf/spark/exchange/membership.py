"""A task's connection to the driver while a pipelined exchange runs: proof, registration, peers, notices, the end.

Both ends prove that they know the exchange's secret, which Spark brought to the tasks inside the closure. After that
proof messages are neither encrypted nor authenticated one by one, whatever ``NetworkConfig.tls`` says, which is for the
data connections only: who can read or change what passes between driver and tasks sees addresses, counts and the texts
of failures, which may hold values of records, and can make a job fail or send its tasks to wrong addresses, where the
proof of the data connections, or TLS, refuses them.

Messages are JSON behind a length; nothing is unpickled, and no length is believed beyond its limit. The connection
stays open as long as the task runs: what fails on one side is told to the other, and a connection that breaks off
without a last message means that the task, or the driver, has died.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any

from flinkbuf.errors import PeerFailedError

VERSION = 1  # of the messages
CONNECT_TIMEOUT_S = 5.0  # then the driver counts as out of reach
ANSWER_TIMEOUT_S = 60.0  # the driver answers earlier, by peers or by sending the tasks to allGather
GOODBYE_TIMEOUT_S = 1.0

GREETING_LIMIT = 4096  # bytes of one message from who has proved nothing yet
TASK_LIMIT = 64 * 1024  # of one message from a task
DRIVER_LIMIT = 64 * 1024 * 1024  # of one from the driver: the peers of a hundred thousand tasks
TEXT_LIMIT = 4000  # characters of a failure's text

_LENGTH = struct.Struct(">I")


def encode_message(message: dict[str, Any]) -> bytes:
    """Return the bytes of one message."""
    data = json.dumps(message, separators=(",", ":")).encode()
    return _LENGTH.pack(len(data)) + data


def message_length(header: bytes, limit: int) -> int:
    """Return how many bytes follow a header.

    Raises
    ------
    ConnectionError
        If it says more than `limit`.
    """
    (length,) = _LENGTH.unpack(header)
    if length > limit:
        raise ConnectionError(f"a message of {length} bytes where at most {limit} are expected")
    return int(length)


def decode_message(data: bytes) -> dict[str, Any]:
    """Return the message in `data`.

    Raises
    ------
    ConnectionError
        If it is not a JSON object.
    """
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        raise ConnectionError(f"not a message: {data[:40]!r}") from None
    if not isinstance(message, dict):
        raise ConnectionError(f"not a message: {data[:40]!r}")
    return message


def text_of(message: dict[str, Any], name: str, limit: int = 256) -> str:
    """Return a text out of a message; ConnectionError if it is missing, not a text or too long."""
    value = message.get(name)
    if not isinstance(value, str) or len(value) > limit:
        raise ConnectionError(f"a message whose {name} is {str(value)[:40]!r}")
    return value


def number_of(message: dict[str, Any], name: str, low: int = 0, high: int = 2**63 - 1) -> int:
    """Return a whole number out of a message; ConnectionError if it is missing, not a whole number or out of range."""
    value = message.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConnectionError(f"a message whose {name} is {str(value)[:40]!r}")
    return value


def proof(secret: bytes, role: str, exchange_id: str, driver_nonce: str, task_nonce: str) -> str:
    """Return what only one who knows the secret can say of these two nonces; one value for each role."""
    text = "\n".join((role, exchange_id, driver_nonce, task_nonce))
    return hmac.new(secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def is_proof(given: str, expected: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode())


def new_nonce() -> str:
    """Return 32 bytes that were never used before, as text."""
    return secrets.token_hex(32)


def keep_alive(connection: socket.socket) -> None:
    """Have the kernel notice within 5 seconds that the other host is gone; send small messages at once."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 2),
        ("TCP_KEEPALIVE", 2),
        ("TCP_KEEPINTVL", 1),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 5000),
    ):
        option = getattr(socket, name, None)  # Linux has all but TCP_KEEPALIVE, macOS that one
        if option is not None:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, option, value)


@dataclass(frozen=True)
class Peer:
    """One task of the exchange, as the others see it: where it listens, and what it calls its partition."""

    index: int
    host: str
    port: int
    partition_id: str  # 120 hexadecimal digits
    pid: int

    def __str__(self) -> str:
        return f"task {self.index} (process {self.pid} at {self.host}:{self.port})"

    def to_message(self) -> dict[str, Any]:
        """Return it as part of a message."""
        return {
            "index": self.index,
            "host": self.host,
            "port": self.port,
            "partition": self.partition_id,
            "pid": self.pid,
        }

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> Peer:
        """Read it out of a message; ConnectionError if that does not describe a peer."""
        if not isinstance(message, dict):
            raise ConnectionError(f"a peer that is {str(message)[:40]!r}")
        partition_id = text_of(message, "partition")
        if len(partition_id) != 120 or set(partition_id) - set("0123456789abcdef"):
            raise ConnectionError(f"a partition id that is {partition_id[:40]!r}")
        return cls(
            number_of(message, "index"),
            text_of(message, "host"),
            number_of(message, "port", 1, 65535),
            partition_id,
            number_of(message, "pid"),
        )


class Membership:
    """One task's connection to the driver. Only the task's thread uses it, between its records; only `join`,
    `register`, `wait_for_notice` and `finish` wait for anything.

    Attributes
    ----------
    local_host : str
        The address of this host as the driver sees it: the one to listen at.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._received = bytearray()
        self._is_closed = False
        self.local_host: str = connection.getsockname()[0]

    @classmethod
    def join(
        cls,
        driver: tuple[str, int],
        exchange_id: str,
        task_count: int,
        secret: bytes,
        timeout: float = CONNECT_TIMEOUT_S,
    ) -> Membership:
        """Connect to the driver and prove to each other that both know the secret of this exchange of so many tasks.

        Raises
        ------
        OSError
            If the driver cannot be reached, or it is not the driver of this exchange.
        """
        connection = socket.create_connection(driver, timeout)
        try:
            keep_alive(connection)
            self = cls(connection)
            self._greet(exchange_id, task_count, secret, time.monotonic() + timeout)
        except BaseException:
            connection.close()
            raise
        return self

    def _greet(self, exchange_id: str, task_count: int, secret: bytes, deadline: float) -> None:
        hello = self._receive(deadline, GREETING_LIMIT)
        if hello.get("flinkbuf") != VERSION:
            raise ConnectionError(f"the driver speaks version {str(hello.get('flinkbuf'))[:40]}, this task {VERSION}")
        driver_nonce, task_nonce = text_of(hello, "nonce"), new_nonce()
        said = proof(secret, "task", exchange_id, driver_nonce, task_nonce)
        self._send({"exchange": exchange_id, "tasks": task_count, "nonce": task_nonce, "proof": said})
        answer = text_of(self._receive(deadline, GREETING_LIMIT), "proof")
        if not is_proof(answer, proof(secret, "driver", exchange_id, driver_nonce, task_nonce)):
            raise ConnectionError("what listens at the driver's address does not know the secret of this exchange")

    def register(self, me: Peer, stage: int, attempt: int, timeout: float = ANSWER_TIMEOUT_S) -> list[Peer] | None:
        """Say where this task listens, and learn where the others do.

        Parameters
        ----------
        me : Peer
        stage, attempt : int
            Spark's stage id and task attempt id: what tells the tasks of one run from those of another.

        Returns
        -------
        list of Peer or None
            All tasks by index; None: not everybody can reach the driver, so all meet in ``allGather``.

        Raises
        ------
        PeerFailedError
            If another task failed meanwhile, or the driver refuses this one.
        """
        self._send({"register": me.to_message(), "stage": stage, "attempt": attempt})
        try:
            answer = self._receive(time.monotonic() + timeout, DRIVER_LIMIT)
        except TimeoutError:
            raise PeerFailedError(f"the driver named no peers within {timeout:g} s") from None
        except OSError as error:
            raise PeerFailedError(f"the driver ended the connection instead of naming the peers: {error}") from None
        self._heed(answer)
        if answer.get("gather"):
            return None
        peers = answer.get("peers")
        if not isinstance(peers, list):
            raise PeerFailedError(f"the driver's answer holds no peers but {', '.join(answer) or 'nothing'}")
        return [Peer.from_message(peer) for peer in peers]

    def say_met(self) -> None:
        """Tell the driver that this task met the others in ``allGather``: it waits for nobody any more."""
        with contextlib.suppress(OSError):  # a driver that is gone is found out by `check`
            self._send({"met": True})

    def say_ended(self) -> None:
        """Tell the driver that Spark may count this task as ended, though it still sends the others what is theirs."""
        with contextlib.suppress(OSError):
            self._send({"ended": True})

    def check(self) -> None:
        """Look whether the driver says that another task is gone. Does not wait.

        Raises
        ------
        PeerFailedError
            With the task that is gone, and why.
        """
        self._socket.setblocking(False)
        try:
            while data := self._socket.recv(65536):
                self._received += data
                while (message := self._parse(DRIVER_LIMIT)) is not None:
                    self._heed(message)
        except BlockingIOError:
            return
        except ConnectionError as error:
            raise PeerFailedError(f"the connection to the driver broke: {error}") from None
        if not self._is_closed:
            raise PeerFailedError(
                "the driver closed its connection to this task: it has stopped, or has given up the exchange"
            )

    def wait_for_notice(self, timeout: float) -> None:
        """Give the driver `timeout` seconds to say who is gone: it often knows better than a broken connection."""
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, 0.02))
        self.check()

    def fail(self, reason: str) -> None:
        """Say that this task failed, for the driver to tell the others, and close the connection."""
        with contextlib.suppress(OSError):
            self._send({"failed": reason[:TEXT_LIMIT]})
        self.close()

    def finish(self, figures: dict[str, int]) -> None:
        """Say that this task has sent and read everything, with its counts, and close the connection."""
        with contextlib.suppress(OSError):
            self._send({"done": figures})
            # The driver's goodbye: now it has the counts, and the job may end.
            self._receive(time.monotonic() + GOODBYE_TIMEOUT_S, DRIVER_LIMIT)
        self.close()

    def close(self) -> None:
        """Close the connection; without `fail` or `finish` before, that reads as this task's death. Idempotent."""
        self._is_closed = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # a child that was forked meanwhile holds the descriptor, too
        self._socket.close()

    def _heed(self, message: dict[str, Any]) -> None:
        """Raise the failure of another task that the driver tells of; it waits itself until Spark knows of that one."""
        reason = message.get("failed")
        if reason is not None:
            raise PeerFailedError(str(reason)[: 2 * TEXT_LIMIT])

    def _send(self, message: dict[str, Any]) -> None:
        self._socket.settimeout(CONNECT_TIMEOUT_S)
        self._socket.sendall(encode_message(message))

    def _receive(self, deadline: float, limit: int) -> dict[str, Any]:
        while (message := self._parse(limit)) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("the driver did not answer in time")
            self._socket.settimeout(left)
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("the driver closed the connection")
            self._received += data
        return message

    def _parse(self, limit: int) -> dict[str, Any] | None:
        """Take one whole message off what was received."""
        if len(self._received) < _LENGTH.size:
            return None
        end = _LENGTH.size + message_length(bytes(self._received[: _LENGTH.size]), limit)
        if len(self._received) < end:
            return None
        data = bytes(self._received[_LENGTH.size : end])
        del self._received[:end]
        return decode_message(data)


def gather_peers(me: Peer) -> list[Peer]:
    """Learn by one ``allGather`` of Spark's where all tasks of this barrier stage listen; costs about a second."""
    from pyspark import BarrierTaskContext

    answers = BarrierTaskContext.get().allGather(json.dumps(me.to_message()))
    return [Peer.from_message(decode_message(answer.encode())) for answer in answers]


def host_of_executor(index: int) -> str:
    """Return the host that Spark knows this task's executor by: where to listen if the driver is out of reach."""
    from pyspark import BarrierTaskContext

    return BarrierTaskContext.get().getTaskInfos()[index].address.rpartition(":")[0].strip("[]")
