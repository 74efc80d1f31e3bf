"""Which user of this machine is at the other end of a connection over its loopback.

Who may look at a job on a machine that others use, too, is asked of the system: the other end is a socket of this
machine, and the system knows whose it is. So whoever runs the program, and nobody else, needs no token to read, as in
Flink, with a browser, with curl or with Flink's own tools. Where the system does not say it (it is no Linux; the other
end is in another container), nobody is known, and a token is needed.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import struct
from typing import Final

UNKNOWN_USER: Final = 65_534  # stands for all users that have no number in this container

# Linux's sock_diag: a question about one connection, and its answer, as include/uapi/linux/inet_diag.h has them.
_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST: Final = 1
_HEAD: Final = struct.Struct("=IHHII")  # length, kind, flags, number, port of netlink
_QUESTION: Final = struct.Struct("=BBBxI")  # family, protocol, what else is wanted, states
_PORTS: Final = struct.Struct(">HH16s16s")
_ANY_INTERFACE_AND_COOKIE: Final = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
_ANSWER_SIZE: Final = _HEAD.size + 72
_USER_AND_INODE: Final = struct.Struct("=II")


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's to itself.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("10.0.0.1"), is_loopback("example.org")
    (True, True, False, False)
    """
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def user_of(client: tuple[object, ...], server: tuple[object, ...]) -> int | None:
    """Return the number of the user whose socket is at the other end; None: the system does not say it.

    Parameters
    ----------
    client, server : tuple
        Addresses of both ends, as sockets give them.
    """
    family = socket.AF_INET6 if ":" in str(client[0]) else socket.AF_INET
    addresses = (socket.inet_pton(family, str(each[0]).partition("%")[0]).ljust(16, b"\0") for each in (client, server))
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF)
    question += _PORTS.pack(client[1], server[1], *addresses) + _ANY_INTERFACE_AND_COOKIE
    size = _HEAD.size + len(question)
    answer = b""
    with (
        contextlib.suppress(OSError, AttributeError),  # there is no such thing
        socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as system,
    ):
        system.setblocking(False)  # the system answers at once
        system.send(_HEAD.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + question)
        answer = system.recv(4096)
    if len(answer) < _ANSWER_SIZE or _HEAD.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None
    user, inode = _USER_AND_INODE.unpack_from(answer, _ANSWER_SIZE - _USER_AND_INODE.size)
    # A socket that its process has closed has no inode, and belongs to user 0.
    return None if not inode or user == UNKNOWN_USER else int(user)


def is_own(user: int | None) -> bool:
    """Whether it is the user who runs this program."""
    return user is not None and user == os.geteuid()
