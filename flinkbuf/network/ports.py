"""How a port is found: the first of those that a setting names which nobody else has.

One rule for all that listens, the data port with TLS and without it and the driver's rendezvous: a port that is taken,
or that this user may not open, is passed over for the next one. Any other failure, such as a host that is not this
machine's, is raised at once, since no other port would help.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_NEXT_MAY_DO = (errno.EADDRINUSE, errno.EACCES)

T = TypeVar("T")


def parse_ports(text: str) -> Iterator[int]:
    """Give the ports that ``taskmanager.data.port`` names, in order: a port, ranges, or a list of both; 0 is any.

    Examples
    --------
    >>> list(parse_ports("50100-50102, 6121"))
    [50100, 50101, 50102, 6121]
    """
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            low, high = int(first), int(last if dash else first)
        except ValueError:
            raise ValueError(
                f'expected a port, a range or a list of them such as "50100-50200,6121", got {text!r}'
            ) from None
        if not 0 <= low <= high < 65536:
            raise ValueError(f"ports are from 0 to 65535, ranges from the lower to the higher, got {part.strip()!r}")
        yield from range(low, high + 1)


def open_first_free(ports: Iterable[int], open_at: Callable[[int], T], option: str) -> T:
    """Return what `open_at` makes of the first port that is free.

    Parameters
    ----------
    ports : iterable of int
        Tried in this order.
    open_at : callable
        Given a port; OSError if it cannot listen there.
    option : str
        Where the ports were set, for the message.

    Raises
    ------
    OSError
        If none is free: that of the only port, or one that says how many were tried. Any other failure of `open_at`.
    """
    refused: list[OSError] = []
    for port in ports:
        try:
            return open_at(port)
        except OSError as error:
            if error.errno not in _NEXT_MAY_DO:
                raise
            refused.append(error)
    if not refused:
        raise ValueError(f"{option} names no port")
    if len(refused) == 1:
        raise refused[0]
    raise OSError(
        refused[-1].errno,
        f"none of the {len(refused)} ports of {option} can be listened at; each process needs one of its own: "
        f"{refused[-1].strerror}",
    )


def listen(host: str, port: int, backlog: int = 128) -> socket.socket:
    """Return a socket that listens at `host`, at its IPv4 address if the name has one: there go those who ask for it.

    Raises
    ------
    OSError
        With host and port, if it cannot.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = min(found, key=lambda one: one[0] != socket.AF_INET)
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(address[:2], family=family, backlog=backlog, dualstack_ipv6=both)
    except OSError as error:
        raise type(error)(error.errno, f"listening at {host}:{port}: {error.strerror}") from None
