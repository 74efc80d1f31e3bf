"""Connections of other processes, cut and slowed from outside: their sockets are copied, as a debugger does.

Linux 5.6, and the right to trace them. Nothing of the processes themselves is changed.
"""

import contextlib
import ctypes
import os
import socket

SO_MAX_PACING_RATE = 47
_PIDFD_GETFD = 438
_libc = ctypes.CDLL(None, use_errno=True)


def connections_of(pid):
    """Copies of the connected TCP sockets of a process; close them."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return []
    try:
        copies = [_copy(handle, number) for number in _socket_numbers(pid)]
    finally:
        os.close(handle)
    found = []
    for copy in copies:
        if copy is not None and _is_connected(copy):
            found.append(copy)
        elif copy is not None:
            copy.close()
    return found


def _socket_numbers(pid):
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                    yield int(name)


def _copy(handle, number):
    copied = _libc.syscall(_PIDFD_GETFD, handle, number, 0)
    return None if copied < 0 else socket.socket(fileno=copied)


def _is_connected(connection):
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    with contextlib.suppress(OSError):
        connection.getpeername()
        return True
    return False


def cut(connection):
    """End it for both sides."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def slow_down(connection, bytes_a_second):
    """Let no more than so many bytes leave it in a second; 2**32 - 1: as many as will."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, bytes_a_second.to_bytes(4, "little"))
