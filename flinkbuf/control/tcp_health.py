"""How a control connection learns within 5 seconds that the other machine is gone, though nobody says so.

An idle connection is probed by the kernel's keep-alive. One with bytes on their way is not, and the kernel would send
those again for a quarter of an hour; so its owner feels its pulse once a second: has anything that was sent again been
answered? TCP_USER_TIMEOUT would do the same, but takes a process for dead whose machine answers every time that it has
no room: one where user code holds the interpreter for long.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import sys
import termios

IDLE_S = 2  # then the first probe goes out
INTERVAL_S = 1
PROBES = 3
SILENCE_MS = (IDLE_S + INTERVAL_S * PROBES) * 1000
PULSE_S = 1.0  # how often to ask `is_silent`

_IS_LINUX = sys.platform == "linux"
# The head of struct tcp_info: eight bytes, then numbers of 32 bits. Which of them, see <linux/tcp.h>.
_TCP_INFO = struct.Struct("=8B13I")
_RETRANSMITS, _PROBES_SENT, _LAST_ACK_MS = 2, 3, 20


def prepare(connection: socket.socket) -> None:
    """Send small messages at once, and have the kernel probe the other machine."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", IDLE_S),
        ("TCP_KEEPALIVE", IDLE_S),
        ("TCP_KEEPINTVL", INTERVAL_S),
        ("TCP_KEEPCNT", PROBES),
    ):
        option = getattr(socket, name, None)  # Linux has all but TCP_KEEPALIVE, macOS that one
        if option is not None:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, option, value)


def has_unanswered(connection: socket.socket) -> bool:
    """Whether bytes are on their way that the other machine has not confirmed."""
    if not _IS_LINUX:
        return False
    try:
        (count,) = struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4)))
    except (OSError, ValueError):  # it is closed
        return False
    return bool(count)


def is_silent(connection: socket.socket) -> bool:
    """Whether something was sent again and again, and the other machine has answered nothing for `SILENCE_MS`."""
    if not has_unanswered(connection):
        return False
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    except (OSError, ValueError):
        return False
    if len(info) < _TCP_INFO.size:
        return False
    fields = _TCP_INFO.unpack(info)
    # An answer sets both counts back, also one that says that there is no room.
    has_tried_again = fields[_RETRANSMITS] > 0 or fields[_PROBES_SENT] > 0
    return has_tried_again and fields[_LAST_ACK_MS] >= SILENCE_MS
